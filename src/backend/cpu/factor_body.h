/* Factors and triangular systems in one element type. Included by factor.isa.c with T, V, LANES, LOAD, STORE, SPLAT, FMA, TRANSPOSE, the
   integers I and VI of V's lanes, and the naming macro N(name).

   One loop does nearly all the work: ROWS rows of numbers, each spread over all lanes, times vectors of lanes, summed along the depth in
   registers. In a system the lanes are right sides; in Cholesky and LU factors they are rows, which lie together in a column, in QR columns. Operands are read where
   they are: a row of numbers may have any strides, and nothing is packed but right sides. All factors are left-looking: a strip is
   updated by all columns before it at once, so that an element is read and written once for each strip. */

#define STRIP (2 * LANES)

/* acc[r] = sum over p of a[r*rs + p*cs] * x[p*ldx + lane]: `rows` by `w` vectors, both constant where this is inlined. */
static inline __attribute__((always_inline)) void N(products)(const int rows, const int w, int64_t depth, const T *a,
                                                              int64_t rs, int64_t cs, const T *x, int64_t ldx,
                                                              V acc[ROWS][2]) {
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++) acc[r][0] = acc[r][1] = (V){0};
    for (int64_t p = 0; p < depth; p++, a += cs, x += ldx) {
        V b0 = LOAD(x), b1 = w > 1 ? LOAD(x + LANES) : b0;
#pragma GCC unroll 8
        for (int r = 0; r < rows; r++) {
            V s = SPLAT(a[r * rs]);
            acc[r][0] = FMA(s, b0, acc[r][0]);
            if (w > 1) acc[r][1] = FMA(s, b1, acc[r][1]);
        }
    }
}

/* c[r*ldc + lane] -= the products. */
static inline __attribute__((always_inline)) void N(subtract)(const int rows, const int w, int64_t depth, const T *a,
                                                              int64_t rs, int64_t cs, const T *x, int64_t ldx, T *c,
                                                              int64_t ldc) {
    V acc[ROWS][2];
    N(products)(rows, w, depth, a, rs, cs, x, ldx, acc);
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 2
        for (int v = 0; v < w; v++) STORE(c + r * ldc + v * LANES, LOAD(c + r * ldc + v * LANES) - acc[r][v]);
}

/* The triangle's rows [0, n) in the order in which they are solved. */
typedef struct N(rows_of) {
    const T *a;
    int64_t rs, cs;
    bool unit;
} N(rows_of);

/* Rows [i, i + rows) of x, given those before, of which the ones before `first` are zero. */
static inline __attribute__((always_inline)) void N(solve_rows)(const int rows, const int w, const N(rows_of) * t,
                                                                int64_t first, int64_t i, T *x, int64_t ldx) {
    V acc[ROWS][2], y[ROWS][2];
    N(products)(rows, w, i - first, t->a + i * t->rs + first * t->cs, t->rs, t->cs, x + first * ldx, ldx, acc);
    const T *a = t->a + i * (t->rs + t->cs);
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++) {
        T *at = x + (i + r) * ldx;
#pragma GCC unroll 2
        for (int v = 0; v < w; v++) y[r][v] = LOAD(at + v * LANES) - acc[r][v];
#pragma GCC unroll 8
        for (int q = 0; q < r; q++) {
            V s = SPLAT(-a[r * t->rs + q * t->cs]);
#pragma GCC unroll 2
            for (int v = 0; v < w; v++) y[r][v] = FMA(s, y[q][v], y[r][v]);
        }
        V d = SPLAT(t->unit ? (T)1 : a[r * (t->rs + t->cs)]);
#pragma GCC unroll 2
        for (int v = 0; v < w; v++) {
            if (!t->unit) y[r][v] /= d;
            STORE(at + v * LANES, y[r][v]);
        }
    }
}

/* Rows [begin, end) of x in place. */
static inline __attribute__((always_inline)) void N(solve_range)(const int w, const N(rows_of) * t, int64_t first,
                                                                 int64_t begin, int64_t end, T *x, int64_t ldx) {
    int64_t i = begin;
    for (; i + ROWS <= end; i += ROWS) N(solve_rows)(ROWS, w, t, first, i, x, ldx);
    if (ROWS > 4 && i + 4 <= end) {
        N(solve_rows)(4, w, t, first, i, x, ldx);
        i += 4;
    }
    if (i + 2 <= end) {
        N(solve_rows)(2, w, t, first, i, x, ldx);
        i += 2;
    }
    if (i < end) N(solve_rows)(1, w, t, first, i, x, ldx);
}
static void N(solve_one)(const N(rows_of) * t, int64_t first, int64_t begin, int64_t end, T *x, int64_t ldx) {
    N(solve_range)(1, t, first, begin, end, x, ldx);
}
static void N(solve_two)(const N(rows_of) * t, int64_t first, int64_t begin, int64_t end, T *x, int64_t ldx) {
    N(solve_range)(2, t, first, begin, end, x, ldx);
}

/* c[r*ldc + lane] -= products for any number of rows; w vectors of lanes. */
static inline __attribute__((always_inline)) void N(subtract_range)(const int w, int64_t rows, int64_t depth,
                                                                    const T *a, int64_t rs, int64_t cs, const T *x,
                                                                    int64_t ldx, T *c, int64_t ldc) {
    int64_t r = 0;
    for (; r + ROWS <= rows; r += ROWS) N(subtract)(ROWS, w, depth, a + r * rs, rs, cs, x, ldx, c + r * ldc, ldc);
    if (ROWS > 4 && r + 4 <= rows) {
        N(subtract)(4, w, depth, a + r * rs, rs, cs, x, ldx, c + r * ldc, ldc);
        r += 4;
    }
    if (r + 2 <= rows) {
        N(subtract)(2, w, depth, a + r * rs, rs, cs, x, ldx, c + r * ldc, ldc);
        r += 2;
    }
    if (r < rows) N(subtract)(1, w, depth, a + r * rs, rs, cs, x, ldx, c + r * ldc, ldc);
}
static void N(subtract_one)(int64_t rows, int64_t depth, const T *a, int64_t rs, int64_t cs, const T *x, int64_t ldx,
                            T *c, int64_t ldc) {
    N(subtract_range)(1, rows, depth, a, rs, cs, x, ldx, c, ldc);
}
static void N(subtract_two)(int64_t rows, int64_t depth, const T *a, int64_t rs, int64_t cs, const T *x, int64_t ldx,
                            T *c, int64_t ldc) {
    N(subtract_range)(2, rows, depth, a, rs, cs, x, ldx, c, ldc);
}

/* ---- right sides ---------------------------------------------------------------------------------------------------------- */

/* tile[i*width + l] = b[row(i)*rs + l*cs] for l < lanes, 0 for lanes to width; width is a multiple of LANES. */
static void N(pack_tile)(T *tile, int width, int64_t n, int lanes, const T *b, int64_t rs, int64_t cs,
                         const int *order) {
    int64_t i = 0;
    if (rs == 1 && cs != 1 && !order) {
        for (; i + LANES <= n; i += LANES)
            for (int l0 = 0; l0 < width; l0 += LANES) {
                V v[LANES];
#pragma GCC unroll 16
                for (int l = 0; l < LANES; l++) v[l] = l0 + l < lanes ? LOAD(b + i + (l0 + l) * cs) : (V){0};
                TRANSPOSE(v);
#pragma GCC unroll 16
                for (int l = 0; l < LANES; l++) STORE(tile + (i + l) * width + l0, v[l]);
            }
    }
    for (; i < n; i++) {
        const T *row = b + (order ? order[i] : i) * rs;
        T *to = tile + i * width;
        if (cs == 1 && lanes == width) {
            for (int l = 0; l < width; l += LANES) STORE(to + l, LOAD(row + l));
            continue;
        }
        for (int l = 0; l < lanes; l++) to[l] = row[l * cs];
        for (int l = lanes; l < width; l++) to[l] = 0;
    }
}

/* x[row(i)*rs + l*cs] = tile[i*width + l] for l < lanes. */
static void N(unpack_tile)(const T *tile, int width, int64_t n, int lanes, T *x, int64_t rs, int64_t cs,
                           const int *order) {
    int64_t i = 0;
    if (rs == 1 && cs != 1 && !order) {
        for (; i + LANES <= n; i += LANES)
            for (int l0 = 0; l0 < lanes; l0 += LANES) {
                V v[LANES];
#pragma GCC unroll 16
                for (int l = 0; l < LANES; l++) v[l] = LOAD(tile + (i + l) * width + l0);
                TRANSPOSE(v);
                for (int l = 0; l < fac__min(LANES, lanes - l0); l++) STORE(x + i + (l0 + l) * cs, v[l]);
            }
    }
    for (; i < n; i++) {
        T *row = x + (order ? order[i] : i) * rs;
        const T *from = tile + i * width;
        if (cs == 1 && lanes == width) {
            for (int l = 0; l < width; l += LANES) STORE(row + l, LOAD(from + l));
            continue;
        }
        for (int l = 0; l < lanes; l++) row[l * cs] = from[l];
    }
}

/* Columns order[first + l] of x from the tile's lanes. */
static void N(unpack_columns)(const T *tile, int width, int64_t n, int lanes, T *x, int64_t rs, int64_t cs,
                              const int *order) {
    int64_t i = 0;
    for (; rs == 1 && i + LANES <= n; i += LANES)
        for (int l0 = 0; l0 < lanes; l0 += LANES) {
            V v[LANES];
#pragma GCC unroll 16
            for (int l = 0; l < LANES; l++) v[l] = LOAD(tile + (i + l) * width + l0);
            TRANSPOSE(v);
            for (int l = 0; l < fac__min(LANES, lanes - l0); l++) STORE(x + i + order[l0 + l] * cs, v[l]);
        }
    for (; i < n; i++)
        for (int l = 0; l < lanes; l++) x[i * rs + order[l] * cs] = tile[i * width + l];
}

static void N(solve)(const fac_systems *s, int64_t begin, T *tile) {
    const int lanes = (int)fac__min(STRIP, s->k - begin), w = lanes > LANES ? 2 : 1, width = w * LANES;
    int64_t first = 0;
    if (s->b) {
        N(pack_tile)(tile, width, s->n, lanes, (const T *)s->b + begin * s->b_cs, s->b_rs, s->b_cs, s->order_in);
    } else {
        memset(tile, 0, (size_t)(s->n * width) * sizeof(T));
        for (int l = 0; l < lanes; l++) tile[(begin + l) * width + l] = 1;
        first = s->t[0].upper ? 0 : begin;
    }
    for (int step = 0; step < s->steps; step++) {
        const fac_triangle *t = &s->t[step];
        N(rows_of) rows = {t->a, t->rs, t->cs, t->unit};
        T *x = tile;
        int64_t ldx = width;
        if (t->upper) { /* from the last row to the first */
            rows.a += (s->n - 1) * (t->rs + t->cs);
            rows.rs = -t->rs;
            rows.cs = -t->cs;
            x += (s->n - 1) * width;
            ldx = -width;
        }
        (w > 1 ? N(solve_two) : N(solve_one))(&rows, step ? 0 : first, step ? 0 : first, s->n, x, ldx);
    }
    T *to = (T *)s->x + begin * s->x_cs;
    if (s->b || !s->order_out)
        N(unpack_tile)(tile, width, s->n, lanes, to, s->x_rs, s->x_cs, s->order_out);
    else
        N(unpack_columns)(tile, width, s->n, lanes, s->x, s->x_rs, s->x_cs, s->order_out + begin);
}

/* ---- Cholesky -------------------------------------------------------------------------------------------------------------- */

/* A block of at most LANES columns and rows, in registers; what is missing to LANES is the identity. */
static int N(cholesky_block)(int n, T *a, int64_t ld) {
    V c[LANES];
#pragma GCC unroll 16
    for (int j = 0; j < LANES; j++) {
        if (j < n) {
            c[j] = LOAD(a + j * ld);
        } else {
            c[j] = (V){0};
            c[j][j] = 1;
        }
    }
    T column[LANES];
#pragma GCC unroll 16
    for (int j = 0; j < LANES; j++) {
        const T d = c[j][j];
        if (!(d > 0)) return j + 1;
        const T root = ROOT(d);
        c[j] /= SPLAT(root);
        STORE(column, c[j]);
        if (j < n) {
            STORE(a + j * ld, c[j]);
            a[j * ld + j] = root;
        }
#pragma GCC unroll 16
        for (int q = j + 1; q < LANES; q++) c[q] = FMA(SPLAT(-column[q]), c[j], c[q]);
    }
    return 0;
}

static int N(cholesky)(int64_t n, T *a, int64_t ld) {
    const N(rows_of) rows = {a, 1, ld, false};
    for (int64_t r = 0; r < n; r += STRIP) {
        const int w = n - r > LANES ? 2 : 1;
        if (r) (w > 1 ? N(solve_two) : N(solve_one))(&rows, 0, 0, r, a + r, ld);
        for (int64_t b = r; b < fac__min(n, r + STRIP); b += LANES) {
            const int size = (int)fac__min(LANES, n - b);
            if (b > r) N(solve_one)(&rows, 0, r, b, a + b, ld);
            if (b) N(subtract_one)(size, b, a + b, 1, ld, a + b, ld, a + b + b * ld, ld);
            const int info = N(cholesky_block)(size, a + b + b * ld, ld);
            if (info) return (int)b + info;
        }
    }
    return 0;
}

/* ---- LU -------------------------------------------------------------------------------------------------------------------- */

/* a where the mask is set, else b. */
static inline V N(select)(VI mask, V a, V b) { return (V)((mask & (VI)a) | (~mask & (VI)b)); }
static inline V N(modulus)(V x) { return N(select)(x < (V){0}, -x, x); }

/* The first of the largest of c[begin, end); `begin` if that is NaN, while NaN elsewhere is passed over. */
static int64_t N(largest)(const T *c, int64_t begin, int64_t end) {
    int64_t at = begin, r = begin;
    T most = c[begin] < 0 ? -c[begin] : c[begin];
    if (end - begin >= 2 * LANES) {
        VI index = {0}, best;
        for (int l = 0; l < LANES; l++) index[l] = (I)(begin + l);
        best = index;
        V top = {0};
        for (; r + LANES <= end; r += LANES, index += (I)LANES) {
            const V x = N(modulus)(LOAD(c + r));
            const VI more = x > top;
            top = N(select)(more, x, top);
            best = (more & index) | (~more & best);
        }
        for (int l = 0; l < LANES; l++)
            if (top[l] > most || (top[l] == most && best[l] < at)) {
                most = top[l];
                at = best[l];
            }
    }
    for (; r < end; r++) {
        const T x = c[r] < 0 ? -c[r] : c[r];
        at = x > most ? r : at;
        most = x > most ? x : most;
    }
    return at;
}

/* A panel of n <= PANEL columns and m >= 1 rows. One column after the other updates those to its right, also below a zero pivot, where
   it is not divided: NaN in it goes on. */
static int N(lu_panel)(int64_t m, int n, T *a, int64_t ld, int *pivots) {
    int info = 0;
    VI lane = {0};
    for (int l = 0; l < LANES; l++) lane[l] = (I)l;
    for (int j = 0; j < n && j < m; j++) {
        T *c = a + j * ld, u[PANEL];
        const int64_t p = N(largest)(c, j, m), base = j / LANES * LANES;
        pivots[j] = (int)p;
        if (c[p] == 0 && !info) info = j + 1;
        for (int q = 0; q < n; q++) {
            const T x = a[q * ld + p];
            a[q * ld + p] = a[q * ld + j];
            a[q * ld + j] = u[q] = x;
        }
        const V d = SPLAT(u[j] == 0 ? (T)1 : u[j]);
        const VI below = lane > (I)(j - base);
        for (int64_t r = base; r < m; r += LANES) {
            const V x = LOAD(c + r), l = r == base ? N(select)(below, x / d, x) : x / d;
            STORE(c + r, l);
            for (int q = j + 1; q < n; q++) {
                T *at = a + q * ld + r;
                const V y = LOAD(at), z = FMA(SPLAT(-u[q]), l, y);
                STORE(at, r == base ? N(select)(below, z, y) : z);
            }
        }
    }
    return info;
}

static void N(swap_rows)(int64_t columns, T *a, int64_t ld, const int *pivots, int64_t begin, int64_t end) {
    for (int64_t c = 0; c < columns; c++, a += ld)
        for (int64_t i = begin; i < end; i++) {
            const T x = a[i];
            a[i] = a[pivots[i]];
            a[pivots[i]] = x;
        }
}

static int N(lu)(int64_t m, int64_t n, T *a, int64_t ld, int *pivots, T *tile) {
    const N(rows_of) rows = {a, 1, ld, true};
    int info = 0;
    for (int64_t j = 0; j < n; j += PANEL) {
        const int columns = (int)fac__min(PANEL, n - j);
        const int64_t done = fac__min(j, m); /* columns that are factored */
        T *panel = a + j * ld;
        N(swap_rows)(columns, panel, ld, pivots, 0, done);
        for (int c = 0; done && c < columns; c += STRIP) {
            const int lanes = (int)fac__min(STRIP, columns - c), w = lanes > LANES ? 2 : 1, width = w * LANES;
            N(pack_tile)(tile, width, done, lanes, panel + c * ld, 1, ld, NULL);
            (w > 1 ? N(solve_two) : N(solve_one))(&rows, 0, 0, done, tile, width);
            N(unpack_tile)(tile, width, done, lanes, panel + c * ld, 1, ld, NULL);
        }
        if (done == m) continue;
        for (int64_t r = done; done && r < m; r += STRIP)
            (m - r > LANES ? N(subtract_two) : N(subtract_one))(columns, done, panel, ld, 1, a + r, ld, panel + r, ld);
        const int found = N(lu_panel)(m - done, columns, panel + done, ld, pivots + done);
        if (found && !info) info = (int)done + found;
        const int64_t end = fac__min(done + columns, m);
        for (int64_t i = done; i < end; i++) pivots[i] += (int)done;
        N(swap_rows)(done, a, ld, pivots, done, end);
    }
    return info;
}

/* ---- LDL -------------------------------------------------------------------------------------------------------------------- */

/* The first of the largest moduli of n numbers that lie `step` apart; 0 of none. NaN counts only as the first. */
static int64_t N(largest_of)(const T *x, int64_t n, int64_t step, T *most) {
    int64_t at = 0;
    *most = n == 0 ? 0 : x[0] < 0 ? -x[0] : x[0];
    for (int64_t i = 1; i < n; i++) {
        const T size = x[i * step] < 0 ? -x[i * step] : x[i * step];
        at = size > *most ? i : at;
        *most = size > *most ? size : *most;
    }
    return at;
}

/* c[i] -= x[i] * u + y[i] * v for i in [begin, n) and perhaps further, to the end of a vector. */
static void N(subtract_two_columns)(int64_t begin, int64_t n, T *c, const T *x, T u, const T *y, T v) {
    int64_t i = begin;
    for (; i < n && i % LANES; i++) c[i] -= x[i] * u + y[i] * v;
    for (; i < n; i += LANES) STORE(c + i, LOAD(c + i) - (LOAD(x + i) * SPLAT(u) + LOAD(y + i) * SPLAT(v)));
}

static inline void N(swap)(T *a, T *b) {
    const T x = *a;
    *a = *b;
    *b = x;
}

/* Rows and columns k and p > k of the lower triangle below and right of (k, k) change places. */
static void N(swap_both)(int64_t n, T *a, int64_t ld, int64_t k, int64_t p) {
    for (int64_t i = p + 1; i < n; i++) N(swap)(a + k * ld + i, a + p * ld + i);
    for (int64_t i = k + 1; i < p; i++) N(swap)(a + k * ld + i, a + i * ld + p);
    N(swap)(a + k * ld + k, a + p * ld + p);
}

/* Which row comes to the diagonal at k, and whether the block is of two: Bunch and Kaufman's choice. */
static int64_t N(ldl_pivot)(int64_t n, const T *a, int64_t ld, int64_t k, int *size) {
    const T share = (T)0.6403882032022076; /* (1 + sqrt 17) / 8 */
    const T d = a[k * ld + k] < 0 ? -a[k * ld + k] : a[k * ld + k];
    T most, left, below;
    const int64_t row = k + 1 + N(largest_of)(a + k * ld + k + 1, n - k - 1, 1, &most);
    *size = 1;
    if (d >= share * most || most == 0 || d != d) return k;
    (void)N(largest_of)(a + k * ld + row, row - k, ld, &left);
    (void)N(largest_of)(a + row * ld + row + 1, n - row - 1, 1, &below);
    const T others = below > left ? below : left, e = a[row * ld + row] < 0 ? -a[row * ld + row] : a[row * ld + row];
    if (d >= share * most * (most / others)) return k;
    *size = e >= share * others ? 1 : 2;
    return row;
}

/* Pivots are LAPACK's: rows counted from one, negative for both of a block of two. */
static int N(ldl)(int64_t n, T *a, int64_t ld, int *pivots) {
    int info = 0, size;
    for (int64_t k = 0; k < n; k += size) {
        const int64_t p = N(ldl_pivot)(n, a, ld, k, &size), last = k + size - 1;
        T *x = a + k * ld, *y = x + ld;
        if (p != last) N(swap_both)(n, a, ld, last, p);
        if (p != last && size == 2) N(swap)(x + k + 1, x + p);
        pivots[k] = pivots[last] = (int)(size == 1 ? p + 1 : -(p + 1));
        if (size == 1) {
            const T d = x[k];
            if (d == 0 || d != d) {
                info = info ? info : (int)k + 1;
                continue;
            }
            for (int64_t j = k + 1; j < n; j++) {
                const T u = x[j] / d;
                T *c = a + j * ld;
                int64_t i = j;
                for (; i < n && i % LANES; i++) c[i] -= x[i] * u;
                for (; i < n; i += LANES) STORE(c + i, LOAD(c + i) - LOAD(x + i) * SPLAT(u));
            }
            for (int64_t j = k + 1; j < n; j++) x[j] /= d;
            continue;
        }
        const T d21 = x[k + 1], d11 = y[k + 1] / d21, d22 = x[k] / d21, t = 1 / (d11 * d22 - 1) / d21;
        for (int64_t j = k + 2; j < n; j++) {
            const T u = t * (d11 * x[j] - y[j]), v = t * (d22 * y[j] - x[j]);
            N(subtract_two_columns)(j, n, a + j * ld, x, u, y, v);
            x[j] = u;
            y[j] = v;
        }
    }
    return info;
}

/* ---- QR ------------------------------------------------------------------------------------------------------------------------ */

/* Here the matrix is row-major, so that lanes are columns. Reflections go BLOCK at a time: H1 ... Hb = I - V T V^T, with V[m][BLOCK] of ones
   on the diagonal and zeros above, and T upper triangular. */
typedef T N(vb) __attribute__((vector_size(BLOCK * sizeof(T))));
#define SPREAD(x) ((x) - (N(vb)){0})

typedef struct N(reflection) {
    T tau, by; /* `by` divides the column below its first element; it is scaled first */
    double scale, beta;
} N(reflection);

/* The reflection that makes a column zero below its first element, alpha, where it is not yet; `sum`: of the squares below. Its first
   element gets the opposite of alpha's sign, zero's too. */
static N(reflection) N(reflection_of)(double alpha, double sum, double scale) {
    const double length = __builtin_sqrt(alpha * alpha + sum), beta = __builtin_signbit(alpha) ? length : -length;
    return (N(reflection)){(T)((beta - alpha) / beta), (T)(alpha - beta), scale, beta / scale};
}

/* The same where squares do not fit, or are zero: column q, whose elements are `step` apart, is looked at again, in f64 and scaled by a
   power of two. */
static N(reflection) N(careful_reflection)(int64_t m, int q, const T *v, int64_t step) {
    double top = 0, sum = 0, scale = 1, alpha = v[q * step];
    for (int64_t r = q + 1; r < m; r++) {
        const double x = v[r * step], size = x < 0 ? -x : x;
        top = size > top || size != size ? size : top;
    }
    if (top == 0) return (N(reflection)){0, 1, 1, alpha};
    if (!(__builtin_fabs(alpha) <= top)) top = __builtin_fabs(alpha);
    if (top > 0x1p400) scale = 0x1p-600;
    if (top < 0x1p-400) scale = 0x1p600;
    for (int64_t r = q + 1; r < m; r++) {
        const double x = v[r * step] * scale;
        sum += x * x;
    }
    return N(reflection_of)(alpha * scale, sum, scale);
}

/* Factors the first n <= BLOCK columns of v[m][BLOCK], m >= n. While a reflection is applied to the columns right of it, the squares of the
   next one are summed. */
static void N(reflect_block)(int64_t m, int n, T *v, T *tau) {
    N(vb) squares[2] = {0}, w[4], row;
    for (int64_t r = 1; r < m; r++) {
        memcpy(&row, v + r * BLOCK, sizeof row);
        squares[r % 2] += row * row;
    }
    for (int q = 0; q < n; q++) {
        T *first = v + q * BLOCK;
        const double sum = (double)squares[0][q] + (double)squares[1][q], alpha = first[q];
        const bool fits = sum > LEAST_SQUARE && sum < MOST_SQUARE && alpha * alpha < MOST_SQUARE;
        const N(reflection) h = fits ? N(reflection_of)(alpha, sum, 1) : N(careful_reflection)(m, q, v + q, BLOCK);
        const T up = (T)h.scale;
        tau[q] = h.tau;
        memcpy(&w[0], first, sizeof w[0]);
        w[1] = w[2] = w[3] = squares[0] = squares[1] = (N(vb)){0};
        for (int64_t r = q + 1; r < m; r++) {
            T *at = v + r * BLOCK;
            memcpy(&row, at, sizeof row);
            at[q] = at[q] * up / h.by;
            w[r % 4] += SPREAD(at[q]) * row;
        }
        first[q] = (T)h.beta;
        w[0] = SPREAD(h.tau) * ((w[0] + w[1]) + (w[2] + w[3]));
        for (int l = 0; l <= q; l++) w[0][l] = 0;
        for (int64_t r = q; r < m; r++) {
            T *at = v + r * BLOCK;
            memcpy(&row, at, sizeof row);
            row -= SPREAD(r == q ? (T)1 : at[q]) * w[0];
            memcpy(at, &row, sizeof row);
            if (r > q + 1) squares[r % 2] += row * row;
        }
    }
}

/* T of reflections, of whose vectors `dots` are the products. */
static void N(triangle_of_block)(int n, const T *tau, T (*dots)[BLOCK], T (*t)[BLOCK]) {
    for (int q = 0; q < n; q++) {
        t[q][q] = tau[q];
        for (int p = 0; p < q; p++) {
            T x = 0;
            for (int l = p; l < q; l++) x += t[p][l] * dots[q][l];
            t[p][q] = -tau[q] * x;
        }
    }
}

#if COLUMNS
/* dot[l] += x . y_l for `count` columns ld apart, which is constant where this is inlined. */
static inline __attribute__((always_inline)) void N(dot_columns)(const int count, int64_t n, const T *x, const T *y,
                                                                 int64_t ld, T *dot) {
    V sum[4][2] = {{{0}}};
    int64_t r = 0;
    for (; r + 2 * LANES <= n; r += 2 * LANES)
#pragma GCC unroll 4
        for (int l = 0; l < count; l++) {
            sum[l][0] = FMA(LOAD(x + r), LOAD(y + l * ld + r), sum[l][0]);
            sum[l][1] = FMA(LOAD(x + r + LANES), LOAD(y + l * ld + r + LANES), sum[l][1]);
        }
    for (int l = 0; l < count; l++) {
        T lane[LANES], total = 0;
        STORE(lane, sum[l][0] + sum[l][1]);
        for (int i = 0; i < LANES; i++) total += lane[i];
        for (int64_t i = r; i < n; i++) total += x[i] * y[l * ld + i];
        dot[l] += total;
    }
}
static void N(dot_all)(int columns, int64_t n, const T *x, const T *y, int64_t ld, T *dot) {
    for (; columns >= 4; columns -= 4, y += 4 * ld, dot += 4) N(dot_columns)(4, n, x, y, ld, dot);
    for (; columns >= 2; columns -= 2, y += 2 * ld, dot += 2) N(dot_columns)(2, n, x, y, ld, dot);
    if (columns) N(dot_columns)(1, n, x, y, ld, dot);
}

/* y_l -= w[l] x. */
static inline __attribute__((always_inline)) void N(subtract_from_columns)(const int count, int64_t n, const T *x,
                                                                           const T *w, T *y, int64_t ld) {
    int64_t r = 0;
    for (; r + LANES <= n; r += LANES)
#pragma GCC unroll 4
        for (int l = 0; l < count; l++) {
            T *at = y + l * ld + r;
            STORE(at, FMA(LOAD(x + r), SPLAT(-w[l]), LOAD(at)));
        }
    for (; r < n; r++)
        for (int l = 0; l < count; l++) y[l * ld + r] -= w[l] * x[r];
}
static void N(subtract_from_all)(int columns, int64_t n, const T *x, const T *w, T *y, int64_t ld) {
    for (; columns >= 4; columns -= 4, y += 4 * ld, w += 4) N(subtract_from_columns)(4, n, x, w, y, ld);
    for (; columns >= 2; columns -= 2, y += 2 * ld, w += 2) N(subtract_from_columns)(2, n, x, w, y, ld);
    if (columns) N(subtract_from_columns)(1, n, x, w, y, ld);
}

/* Whether products of any two columns v[n][ld] fit, however a reflection changes them: they get no longer, and what is lost of a short one is
   nothing beside what it was. */
enum { N(PIECE) = 2048 / (int)sizeof(T) };
static bool N(columns_fit)(int64_t m, int n, const T *v, int64_t ld) {
    bool fit = true;
    for (int l = 0; l < n; l++, v += ld) {
        T square = 0;
        N(dot_columns)(1, m, v, v, 0, &square);
        fit &= square == 0 || (square > (T)LEAST_SQUARE && square < (T)MOST_SQUARE);
    }
    return fit;
}

/* As reflect_block, for n columns v[n][ld] that each lie together: what tall matrices gain from. Rows go PIECE at a time, so that all columns
   of a piece stay in L1: a reflection is applied to it, and the next column multiplied with those from it on. */
static void N(reflect_columns)(int64_t m, int n, T *v, int64_t ld, T *tau) {
    T dots[BLOCK] = {0}, w[BLOCK]; /* dots: of column q with those from q on, below row q */
    const bool all_fit = N(columns_fit)(m, n, v, ld);
    for (int64_t r = 1; r < m; r += N(PIECE)) N(dot_all)(n, fac__min(N(PIECE), m - r), v + r, v + r, ld, dots);
    for (int q = 0; q < n; q++) {
        T *x = v + q * (ld + 1) + 1, *y = x + ld - 1, by = 1; /* y: from row q on */
        const int64_t below = m - q - 1;
        const int rest = n - q - 1;
        const double sum = dots[0], alpha = x[-1];
        const bool fits = all_fit && sum > LEAST_SQUARE;
        const N(reflection) h = fits ? N(reflection_of)(alpha, sum, 1) : N(careful_reflection)(m, q, v + q * ld, 1);
        if (fits) {
            by = 1 / h.by;
        } else {
            const T up = (T)h.scale;
            for (int64_t r = 0; r < below; r++) x[r] = x[r] * up / h.by;
            memset(dots, 0, sizeof dots);
            N(dot_all)(rest, below, x, y + 1, ld, dots + 1);
        }
        x[-1] = (T)h.beta;
        tau[q] = h.tau;
        for (int l = 0; l < rest; l++) {
            w[l] = h.tau * (y[l * ld] + dots[l + 1] * by);
            y[l * ld] -= w[l];
        }
        memset(dots, 0, sizeof dots);
        for (int64_t r = 0; r < below; r += N(PIECE)) {
            const int64_t end = fac__min(r + N(PIECE), below),
                          skip = r ? r : 1; /* the next one begins a row further down */
            for (int64_t i = r; fits && i < end; i++) x[i] *= by;
            N(subtract_from_all)(rest, end - r, x + r, w, y + 1 + r, ld);
            N(dot_all)(rest, end - skip, y + 1 + skip, y + 1 + skip, ld, dots);
        }
    }
}

/* Q's first n columns from the reflections that reflect_columns leaves, whose ones and zeros take R's place: I - V T V^T. */
static void N(give_columns)(int64_t m, int n, T *v, int64_t ld, const T *tau, T *q, int64_t ldq) {
    T dots[BLOCK][BLOCK] = {{0}}, t[BLOCK][BLOCK] = {{0}}, x[BLOCK][BLOCK] = {{0}};
    for (int c = 0; c < n; c++)
        for (int r = 0; r <= c; r++) v[c * ld + r] = r == c;
    for (int64_t r = 0; r < m; r += N(PIECE))
        for (int c = 0; c < n; c++) N(dot_all)(c, fac__min(N(PIECE), m - r), v + c * ld + r, v + r, ld, dots[c]);
    N(triangle_of_block)(n, tau, dots, t);
    for (int p = 0; p < n; p++)
        for (int l = 0; l < n; l++)
            for (int c = p; c < n; c++) x[p][l] += t[p][c] * v[c * ld + l];
    for (int64_t r = 0; r < m; r += N(PIECE)) {
        const int64_t rows = fac__min(N(PIECE), m - r);
        for (int l = 0; l < n; l++) memset(q + l * ldq + r, 0, (size_t)rows * sizeof(T));
        for (int l = 0; r == 0 && l < n; l++) q[l * (ldq + 1)] = 1;
        for (int p = 0; p < n; p++) N(subtract_from_all)(n, rows, v + p * ld + r, x[p], q + r, ldq);
    }
}
#endif

/* V as it is meant: ones on the diagonal, zeros above it and in what is missing to BLOCK columns. Then T of these reflections. */
static void N(finish_block)(int64_t m, int n, T *v, const T *tau, T (*t)[BLOCK]) {
    N(vb) dots[BLOCK] = {0}, row;
    for (int64_t r = 0; r < m && (r < BLOCK || n < BLOCK); r++)
        for (int q = 0; q < BLOCK; q++)
            if (q >= n || r <= q) v[r * BLOCK + q] = q < n && r == q;
    for (int64_t r = 0; r < m; r++) {
        memcpy(&row, v + r * BLOCK, sizeof row);
#pragma GCC unroll 8
        for (int q = 0; q < BLOCK; q++) dots[q] += SPREAD(v[r * BLOCK + q]) * row;
    }
    memset(t, 0, sizeof(T[BLOCK][BLOCK]));
    T rows[BLOCK][BLOCK];
    memcpy(rows, dots, sizeof rows);
    N(triangle_of_block)(n, tau, rows, t);
}

/* C[m, lanes] -= V (T or its transpose) V^T C; w vectors of lanes. Rows of C from `filled` on are zero. */
static inline __attribute__((always_inline)) void N(apply_strip)(const int w, int64_t m, int64_t filled, const T *v,
                                                                 T (*t)[BLOCK], bool transpose, T *c, int64_t ldc) {
    V sum[BLOCK][2];
    T x[BLOCK * STRIP];
    for (int q = 0; q < BLOCK; q += ROWS) N(products)(ROWS, w, filled, v + q, 1, BLOCK, c, ldc, sum + q);
    for (int q = 0; q < BLOCK; q++)
        for (int l = 0; l < w; l++) {
            V y = {0};
            for (int p = transpose ? 0 : q; p < (transpose ? q + 1 : BLOCK); p++)
                y = FMA(SPLAT(transpose ? t[p][q] : t[q][p]), sum[p][l], y);
            STORE(x + q * STRIP + l * LANES, y);
        }
    (w > 1 ? N(subtract_two) : N(subtract_one))(m, BLOCK, v, BLOCK, 1, x, STRIP, c, ldc);
}

static void N(apply_block)(int64_t m, int64_t filled, const T *v, T (*t)[BLOCK], bool transpose, T *c, int64_t ldc,
                           int64_t cols) {
    for (int64_t j = 0; j < cols; j += STRIP) {
        if (cols - j > LANES)
            N(apply_strip)(2, m, filled, v, t, transpose, c + j, ldc);
        else
            N(apply_strip)(1, m, filled, v, t, transpose, c + j, ldc);
    }
}

/* Copies BLOCK columns, of which n are there. */
static void N(copy_block)(int64_t m, int n, T *to, int64_t ld_to, const T *from, int64_t ld_from) {
    for (int64_t r = 0; r < m; r++, to += ld_to, from += ld_from) {
        if (n == BLOCK)
            memcpy(to, from, BLOCK * sizeof(T));
        else
            for (int q = 0; q < n; q++) to[q] = from[q];
    }
}

static void N(qr)(int64_t m, int64_t n, T *a, int64_t ld, T *tau, T *room) {
    T t[BLOCK][BLOCK];
    for (int64_t j = 0; j < fac__min(m, n); j += BLOCK) {
        const int columns = (int)fac__min(BLOCK, n - j), k = (int)fac__min(columns, m - j);
        T *at = a + j * ld + j;
#if COLUMNS
        if (m - j >= FAC_QR_TALL) {
            const int64_t apart = fac__factor_ld(m - j, sizeof(T) == 8 ? FAC_F64 : FAC_F32),
                          row = ld * (int64_t)sizeof(T), column = apart * (int64_t)sizeof(T);
            N(turn)((char *)room, column, (const char *)at, row, columns, m - j);
            N(reflect_columns)(m - j, columns, room, apart, tau + j);
            N(turn)((char *)at, row, (const char *)room, column, m - j, columns);
            if (n - j <= columns) return;
            N(copy_block)(m - j, columns, room, BLOCK, at, ld);
        } else
#endif
        {
            memset(room, 0, (size_t)((m - j) * BLOCK) * sizeof(T));
            N(copy_block)(m - j, columns, room, BLOCK, at, ld);
            N(reflect_block)(m - j, k, room, tau + j);
            N(copy_block)(m - j, columns, at, ld, room, BLOCK);
            if (n - j <= columns) return;
        }
        N(finish_block)(m - j, k, room, tau + j, t);
        N(apply_block)(m - j, m - j, room, t, true, at + columns, ld, n - j - columns);
    }
}

static void N(qr_apply)(int64_t m, int64_t k, const T *a, int64_t ld, const T *tau, bool transpose, T *c, int64_t ldc,
                        int64_t cols, bool identity, T *room) {
    T t[BLOCK][BLOCK];
    const int64_t blocks = fac__div_up(k, BLOCK);
    for (int64_t b = 0; b < blocks; b++) {
        const int64_t j = (transpose ? b : blocks - 1 - b) * BLOCK, skip = identity ? fac__min(j, cols) : 0;
        const int n = (int)fac__min(BLOCK, k - j);
        N(copy_block)(m - j, n, room, BLOCK, a + j * ld + j, ld);
        N(finish_block)(m - j, n, room, tau + j, t);
        /* Below the diagonal the first block meets nothing in an identity. */
        N(apply_block)
        (m - j, identity && b == 0 ? fac__min(m - j, cols - skip) : m - j, room, t, transpose, c + j * ldc + skip, ldc,
         cols - skip);
    }
}

#undef STRIP
#undef SPREAD
