/* The packed matrix product in one element type. Included by gemm.isa.c with T, V, LANES, LOAD, STORE, SPLAT, FMA, FMA1,
   TRANSPOSE, VH and FMAH of half a vector, and the naming macro N(name).

   C is computed in strips of NR = 2 vectors of columns and panels of at most MR rows, so that MR x 2 accumulators stay in
   registers. A panel of A is packed as [depth][rows] or, where memory runs along the depth, as [rows][ROW]; a strip of B as [depth][NR];
   both are then read front to back. The tiles of the first strip pack A and the tile of the first panel packs the strip, a chunk at a time
   while they multiply the chunk before; what lies otherwise, has gaps or is not of this type is packed beforehand. A strip
   (NR x KC) stays in L1, all of A's panels (m x KC) in L2. Of more than ROWS rows so many are packed at a time, and all strips are kept for
   those that follow. Meanwhile the tiles fetch what is packed next. A complex product is the real one of doubled depth: [a_re, -a_im]
   [b_re; b_im] gives the real plane, [a_im, a_re] [b_re; b_im] the imaginary one.

   A real product of few columns, two vectors at most, whose alpha is 1 has a tile of its own, whose lanes are these columns and whose A is not packed; one of
   depth 1 goes row by row, however few columns there are, as it rounds differently.

   Each element of C is summed over k in order, in passes of KC; borders of panels, strips and blocks do not change it. */

#define NR (2 * LANES)
#define ROWS (LANES == 16 ? 512 : 256)          /* of A that are packed together */
#define CHUNK (FAC_CACHE_LINE / (int)sizeof(T)) /* steps of depth that are packed at a time */
#define ROW (FAC_GEMM_KC + CHUNK)               /* from a panel's row to the next, where it is packed in rows */

#define GROUP 4        /* strips whose lines are fetched together */
#define MANY (16 * MR) /* rows of more panels than few */

/* A panel of A by a strip of B: c[rows, NR] = from[rows, NR] (0 if NULL) + a b[depth, NR]. */
typedef struct N(tile_args) {
    int64_t depth;
    T *a;            /* packed, or where to pack */
    const T *a_from; /* unless it is packed */
    int64_t lda;
    const T *b;
    int64_t ldb;
    T *keep; /* where to pack b, or NULL */
    T *c;
    int64_t ldc;
    const T *from;
    int64_t ldf;
    ahead next; /* fetched meanwhile */
} N(tile_args);

/* Packs `n` steps of depth of a panel, CHUNK at most, from step p on. */
static inline __attribute__((always_inline)) void N(copy_a)(const int rows, const bool by_row, T *a, const T *from,
                                                            int64_t lda, int64_t p, int64_t n) {
    if (by_row && n == CHUNK) {
        for (int i = 0; i < rows; i++)
            for (int l = 0; l < CHUNK; l += LANES) STORE(a + i * ROW + p + l, LOAD(from + i * lda + p + l));
    } else if (by_row) {
        for (int i = 0; i < rows; i++) memcpy(a + i * ROW + p, from + i * lda + p, (size_t)n * sizeof(T));
    } else {
        for (int64_t q = p; q < p + n; q++) memcpy(a + q * rows, from + q * lda, (size_t)rows * sizeof(T));
    }
}

static inline void N(copy_b)(T *keep, const T *b, int64_t ldb, int64_t n) {
    for (int64_t q = 0; q < n; q++, keep += NR, b += ldb) {
        STORE(keep, LOAD(b));
        STORE(keep + LANES, LOAD(b + LANES));
    }
}

/* `rows` and `by_row`, how the panel is packed, are constant where this is inlined. */
static inline __attribute__((always_inline)) void N(tile)(const int rows, const bool by_row, N(tile_args) * t) {
    V acc[MR][2];
    const int64_t depth = t->depth, lda = t->lda, ai = by_row ? ROW : 1, ap = by_row ? 1 : rows;
    T *const packed = t->a, *const keep = FEW ? t->keep : NULL;
    const T *a = packed, *const a_from = FEW ? t->a_from : NULL, *from = t->from;
    const T *b = keep ? keep : t->b, *soon = a_from ? a_from : a;
    const int64_t ldb = keep ? NR : t->ldb, soon_step = by_row ? (a_from ? lda : ROW) : a_from ? lda : rows;
    ahead f = t->next, mine = ahead_of(t->c, 2, t->ldc * (int64_t)sizeof(T), rows);
    if (!by_row) soon += SOON * soon_step;
#pragma GCC unroll 16
    for (int i = 0; i < rows; i++) acc[i][0] = acc[i][1] = (V){0};
    for (int64_t p = 0, n; p < depth; p += n) {
        n = fac__min(CHUNK, depth - p);
        if (a_from) N(copy_a)(rows, by_row, packed, a_from, lda, p, n);
        if (keep) N(copy_b)(keep + p * NR, t->b + p * t->ldb, t->ldb, n);
        const T *line = by_row ? soon + p + SOON : soon + p * soon_step;
        for (int64_t q = p; q < p + n; q++, a += ap, b += ldb, line += soon_step) {
            V b0 = LOAD(b), b1 = LOAD(b + LANES);
            if (FEW) __builtin_prefetch(line, 0, 3);
            if (FEW && rows > CHUNK) __builtin_prefetch(line + (by_row ? CHUNK * soon_step : CHUNK), 0, 3);
            if ((q & SLOWLY) == 0) fetch_ahead(&mine);
            if ((q & f.mask) == f.mask) fetch_ahead(&f);
#pragma GCC unroll 16
            for (int i = 0; i < rows; i++) {
                V x = SPLAT(a[i * ai]);
                acc[i][0] = FMA(x, b0, acc[i][0]);
                acc[i][1] = FMA(x, b1, acc[i][1]);
            }
        }
    }
    t->next = f;
    T *c = t->c;
    const int64_t ldc = t->ldc, ldf = t->ldf;
#pragma GCC unroll 16
    for (int i = 0; i < rows; i++, c += ldc) {
        STORE(c, from ? LOAD(from + i * ldf) + acc[i][0] : acc[i][0]);
        STORE(c + LANES, from ? LOAD(from + i * ldf + LANES) + acc[i][1] : acc[i][1]);
    }
}

/* Likewise of one vector of columns; all is packed. */
static inline __attribute__((always_inline)) void N(thin_tile)(const int rows, const bool by_row,
                                                               const N(tile_args) * t, T *c) {
    V acc[MR];
    const int64_t depth = t->depth, ldb = t->ldb, ai = by_row ? ROW : 1, ap = by_row ? 1 : rows;
    const T *a = t->a, *b = t->b;
#pragma GCC unroll 16
    for (int i = 0; i < rows; i++) acc[i] = (V){0};
    for (int64_t p = 0; p < depth; p++, a += ap, b += ldb) {
        const V x = LOAD(b);
#pragma GCC unroll 16
        for (int i = 0; i < rows; i++) acc[i] = FMA(SPLAT(a[i * ai]), x, acc[i]);
    }
#pragma GCC unroll 16
    for (int i = 0; i < rows; i++) STORE(c + i * NR, acc[i]);
}

/* The tiles of each number of rows. */
typedef void (*N(tile_fn))(N(tile_args) * t);
typedef void (*N(thin_fn))(const N(tile_args) * t, T *c);
#define TILE_OF(name, rows, by_row)                                                            \
    static void N(FAC_PASTE(name##tile, rows))(N(tile_args) * t) { N(tile)(rows, by_row, t); } \
    static void N(FAC_PASTE(name##thin, rows))(const N(tile_args) * t, T * c) { N(thin_tile)(rows, by_row, t, c); }
#if FEW
#define TILE(rows) TILE_OF(, rows, false) TILE_OF(row_, rows, true)
#else
#define TILE(rows) TILE_OF(, rows, false)
#endif
TILE(1)
TILE(2)
TILE(3)
TILE(4)
#if MR > 4
TILE(5)
TILE(6)
#endif
#if MR > 6
TILE(7)
TILE(8)
TILE(9)
TILE(10)
TILE(11)
TILE(12)
TILE(13)
TILE(14)
#endif
#undef TILE
#undef TILE_OF
#if MR > 6
#define EACH(name)                                                                                                  \
    {                                                                                                               \
        N(name##1), N(name##2), N(name##3), N(name##4), N(name##5), N(name##6), N(name##7), N(name##8), N(name##9), \
            N(name##10), N(name##11), N(name##12), N(name##13), N(name##14)                                         \
    }
#elif MR > 4
#define EACH(name) \
    { N(name##1), N(name##2), N(name##3), N(name##4), N(name##5), N(name##6) }
#else
#define EACH(name) \
    { N(name##1), N(name##2), N(name##3), N(name##4) }
#endif
typedef struct N(tile_set) {
    N(tile_fn) tiles[MR];
    N(thin_fn) thins[MR];
} N(tile_set);
/* Of panels that are packed as [depth][rows], and as [rows][ROW]. */
static const N(tile_set) N(by_depth) = {EACH(tile), EACH(thin)};
#if FEW
static const N(tile_set) N(by_row) = {EACH(row_tile), EACH(row_thin)};
#else
#define by_row_f32 by_depth_f32 /* nothing is packed so */
#define by_row_f64 by_depth_f64
#endif
#undef EACH

/* A vector of elements that lie `step` apart, which is 1 or 2. No others are read beyond the last one. */
static inline __attribute__((always_inline)) V N(load_by)(const T *p, int64_t step) {
    return step == 1 ? LOAD(p) : EVENS(LOAD(p), LOAD(p + LANES - 1));
}

/* dst[p*ld + i] = src[i*is + p*ps] for i < width, 0 for i in [width, ld). May write LANES elements past the end. Where
   memory runs along p, these runs are too short for the hardware to guess the next panel's, which is fetched meanwhile. */
static void N(pack)(T *dst, const T *src, int64_t is, int64_t ps, int width, int ld, int64_t depth) {
    int64_t p = 0;
    if ((ps == 1 || ps == 2) && is != 1) {
        for (; p + LANES <= depth; p += LANES) {
            /* From the last columns down: a store that is too wide is mended by the columns stored after it. */
            for (int i0 = (ld - 1) / LANES * LANES; i0 >= 0; i0 -= LANES) {
                V v[LANES];
                for (int i = 0; i < fac__min(LANES, width - i0); i++)
                    __builtin_prefetch(src + (width + i0 + i) * is + p * ps, 0, 2);
#pragma GCC unroll 16
                for (int i = 0; i < LANES; i++)
                    v[i] = i0 + i < width ? N(load_by)(src + (i0 + i) * is + p * ps, ps) : (V){0};
                TRANSPOSE(v);
#pragma GCC unroll 16
                for (int i = 0; i < LANES; i++) STORE(dst + (p + i) * ld + i0, v[i]);
            }
        }
    }
    if (width < ld) memset(dst + p * ld, 0, (size_t)((depth - p) * ld) * sizeof(T));
    for (; p < depth; p++) {
        if (is == 1) {
            memcpy(dst + p * ld, src + p * ps, (size_t)width * sizeof(T));
            continue;
        }
        int i = 0;
        for (; is == 2 && i + LANES <= width; i += LANES) STORE(dst + p * ld + i, N(load_by)(src + 2 * i + p * ps, 2));
        for (; i < width; i++) dst[p * ld + i] = src[i * is + p * ps];
    }
}

/* As pack for complex elements, two rows of dst per p. As B: re, im. As A: re, -im in dst and im, re in dst_imag, each
   times alpha. */
static void N(pack_complex)(T *dst, T *dst_imag, const T *src, int64_t is, int64_t ps, int width, int ld, int64_t depth,
                            bool conj, const double alpha[2]) {
    T sign = conj ? (T)-1 : (T)1, ar = (T)alpha[0], ai = (T)alpha[1];
    for (int64_t p = 0; p < depth; p++) {
        T *d = dst + 2 * p * ld, *e = dst_imag ? dst_imag + 2 * p * ld : NULL;
        for (int i = 0; i < ld; i++) {
            const T *x = src + 2 * ((i < width ? i : 0) * is + p * ps);
            T re = i < width ? x[0] : 0, im = i < width ? sign * x[1] : 0;
            if (!e) {
                d[i] = re;
                d[ld + i] = im;
                continue;
            }
            T zr = ar == 1 && ai == 0 ? re : ar * re - ai * im, zi = ar == 1 && ai == 0 ? im : ar * im + ai * re;
            d[i] = zr;
            d[ld + i] = -zi;
            e[i] = zi;
            e[ld + i] = zr;
        }
    }
}

/* A panel of `rows` rows by a strip of `cols` columns; a narrow strip, whose factors are packed, goes through a tile of its own. */
static void N(panel)(const N(tile_set) * set, int rows, int cols, N(tile_args) * t) {
    if (FAC_LIKELY(cols == NR)) {
        set->tiles[rows - 1](t);
        return;
    }
    T room[MR * NR];
    if (cols <= LANES) {
        set->thins[rows - 1](t, room);
    } else {
        N(tile_args) whole = *t;
        whole.c = room, whole.ldc = NR, whole.from = NULL;
        set->tiles[rows - 1](&whole);
    }
    T *c = t->c;
    for (int r = 0; r < rows; r++, c += t->ldc)
        for (int j = 0; j < cols; j++) c[j] = t->from ? t->from[r * t->ldf + j] + room[r * NR + j] : room[r * NR + j];
}

/* Packs A at depth [p, p + kc), times alpha, as panels of h rows and depth `depth`. */
static void N(pack_a)(const fac_gemm_block *g, T *dst, T *dst_imag, int h, int64_t p, int64_t kc, int64_t depth) {
    const fac_gemm_operand *a = &g->a;
    for (int64_t i = 0; i < g->m; i += h) {
        const int64_t at = i * a->rs + p * a->cs;
        const int rows = (int)fac__min(h, g->m - i);
        if (dst_imag) N(pack_complex)
        (dst + i * depth, dst_imag + i * depth, (const T *)(const void *)a->data + 2 * at, a->rs, a->cs, rows, rows, kc,
         a->conj, g->alpha);
        else PACK_REAL(dst + i * depth, a, at, a->rs, a->cs, rows, rows, kc);
    }
    T alpha = (T)g->alpha[0];
    if (dst_imag || alpha == 1) return;
    for (int64_t e = 0; e < g->m * depth; e++) dst[e] *= alpha;
}

/* Packs `cols` columns of B from column j on, at depth [p, p + kc), as a strip. */
static void N(pack_b)(const fac_gemm_block *g, T *dst, int64_t j, int cols, int64_t p, int64_t kc) {
    const fac_gemm_operand *b = &g->b;
    const int64_t at = p * b->rs + j * b->cs;
    if (g->c_imag) N(pack_complex)
    (dst, NULL, (const T *)(const void *)b->data + 2 * at, b->cs, b->rs, cols, NR, kc, b->conj, g->alpha);
    else PACK_REAL(dst, b, at, b->cs, b->rs, cols, NR, kc);
}

/* Lines of `count` rows of A, or columns of B, which are packed next: from the at-th on, at depth [p, p + kc). */
static ahead N(soon)(const fac_gemm_block *g, const fac_gemm_operand *o, int64_t at, int64_t count, int64_t p,
                     int64_t kc) {
    const int64_t item = (int64_t)sizeof(T), ps = o == &g->a ? o->cs : o->rs, is = o == &g->a ? o->rs : o->cs;
    if (!FEW || !IS_NATIVE(g->dtype) || count <= 0) return (ahead){0};
    const char *data = o->data + (p * ps + at * is) * item;
    return is == 1   ? ahead_of(data, fac__div_up(count * item, FAC_CACHE_LINE), ps * item, kc)
           : ps == 1 ? ahead_of(data, fac__div_up(kc * item, FAC_CACHE_LINE), is * item, count)
                     : (ahead){0};
}

/* Where a pass packs, and how. */
typedef struct N(packing) {
    T *a, *a_imag, *strips;
    int h;         /* rows of a panel, but for the last */
    bool in_tiles; /* A, by the first strip's tiles */
    bool by_row;
    bool kept; /* the strips of all columns, for more blocks of rows */
    int64_t p, kc, depth;
    ahead next; /* of B */
} N(packing);

/* One strip of C, from column j on: all panels of A against it, of the first block of rows or of one that finds it packed. */
static void N(strip)(const fac_gemm_block *g, N(packing) * k, int64_t j, bool first) {
    const int64_t p = k->p, kc = k->kc, m = g->m, ldf = p == 0 ? g->ldf : g->ldc;
    const T *from = p == 0 ? g->from : g->c, *from_imag = p == 0 ? NULL : g->c_imag;
    const fac_gemm_operand *a = &g->a, *b = &g->b;
    const int cols = (int)fac__min(NR, g->n - j);
    const N(tile_set) *set = k->by_row ? &N(by_row) : &N(by_depth);
    const bool in_tile = FEW && first && IS_NATIVE(g->dtype) && b->cs == 1 && cols == NR,
               packs_a = k->in_tiles && j == 0;
    T *bs = k->strips + (k->kept ? j * k->depth : 0);
    N(tile_args)
    t = {.depth = k->depth, .lda = k->by_row ? a->rs : a->cs, .b = bs, .ldb = NR, .ldc = g->ldc, .ldf = ldf};
    if (first && !in_tile) N(pack_b)(g, bs, j, cols, p, kc);
    if (in_tile) {
        t.b = (const T *)(const void *)b->data + p * b->rs + j;
        t.ldb = b->rs;
        t.keep = m > k->h ? bs : NULL;
    }
    if (first && j % (GROUP * NR) == 0) {
        k->next = N(soon)(g, b, j + GROUP * NR, fac__min(GROUP * NR, g->n - j - GROUP * NR), p, kc);
        if (m > MANY) k->next.mask = SLOWLY;
    }
    t.next = k->next;
    for (int64_t i = 0; i < m; i += k->h) {
        const int rows = (int)fac__min(k->h, m - i);
        t.a = k->a + i * (k->by_row ? ROW : k->depth);
        if (packs_a) {
            t.a_from = (const T *)(const void *)a->data + i * a->rs + p * a->cs;
            t.next = N(soon)(g, a, i + rows, fac__min(k->h, m - i - rows), p, kc);
        }
        t.c = (T *)g->c + i * g->ldc + j;
        t.from = from ? from + i * ldf + j : NULL;
        N(panel)(set, rows, cols, &t);
        if (t.keep) t.b = bs, t.ldb = NR, t.keep = NULL;
        if (!k->a_imag) continue;
        N(tile_args) imag = t;
        imag.a = k->a_imag + i * k->depth;
        imag.c = (T *)g->c_imag + i * g->ldc + j;
        imag.from = from_imag ? from_imag + i * ldf + j : NULL;
        N(panel)(set, rows, cols, &imag);
    }
    if (!packs_a) k->next = t.next;
}

/* Elements of the packed strips: one, or all where several blocks of rows are multiplied by them. Products of bf16 keep GROUP. */
static int64_t N(strips_size)(int64_t m, int64_t n, int64_t depth) {
    const int64_t strips = fac__div_up(n, NR);
    return (FEW && m > ROWS ? strips : fac__min(strips, GROUP)) * NR * depth + LANES;
}

/* One pass over depth [p, p + kc): the first adds to g->from, later ones to C. */
static void N(pass)(const fac_gemm_block *g, int64_t p, int64_t kc) {
    const bool complex = g->c_imag != NULL;
    const int h = (int)fac__div_up(g->m, fac__div_up(g->m, MR));
    const int64_t rows = FEW ? fac__div_up(fac__div_up(g->m, h), fac__div_up(g->m, ROWS)) * h : g->m; /* even blocks */
    N(packing) k = {.strips = g->scratch, .h = h, .p = p, .kc = kc, .depth = complex ? 2 * kc : kc};
    k.kept = FEW && g->m > ROWS;
    k.in_tiles = FEW && IS_NATIVE(g->dtype) && g->alpha[0] == 1 && g->n >= NR && (g->a.cs == 1 || g->a.rs == 1);
    k.by_row = k.in_tiles && g->a.cs == 1;
    k.a = k.strips + N(strips_size)(g->m, g->n, k.depth);
    if (complex) k.a_imag = k.a + fac__min(rows, g->m) * k.depth + LANES;
    fac_gemm_block some = *g;
    for (int64_t i = 0; i < g->m; i += rows) {
        some.m = fac__min(rows, g->m - i);
        if (!k.in_tiles) N(pack_a)(&some, k.a, k.a_imag, h, p, kc, k.depth);
        for (int64_t j = 0; j < g->n; j += NR) N(strip)(&some, &k, j, i == 0);
        some.a.data += rows * some.a.rs * fac__dtype_size(g->dtype);
        some.c = (T *)some.c + rows * g->ldc;
        if (complex) some.c_imag = (T *)some.c_imag + rows * g->ldc;
        if (some.from) some.from = (const T *)some.from + rows * g->ldf;
    }
}

/* ---- few columns, and depth 1 ----------------------------------------------------------------------------------------- */

/* Rows of C that are one vector or less, NARROW of them at a time: c[i, n] = from[i, n] + sum over p of a[i*rs + p*cs] * b[p*ldb + lane]. A row
   that is shorter than the vector is stored with what is too much where that lies in rows that are stored later. */
#define NARROW 8
#define DEFINE_NARROW(name, W, LN, FMA_W)                                                                          \
    static inline __attribute__((always_inline)) void N(name##_rows)(                                              \
        const int rows, int64_t depth, const T *a, int64_t rs, int64_t cs, const T *b, int64_t ldb, W *acc) {      \
        _Pragma("GCC unroll 8") for (int r = 0; r < rows; r++) acc[r] = (W){0};                                    \
        for (int64_t p = 0; p < depth; p++, a += cs, b += ldb) {                                                   \
            W v;                                                                                                   \
            memcpy(&v, b, sizeof v);                                                                               \
            _Pragma("GCC unroll 8") for (int r = 0; r < rows; r++) acc[r] = FMA_W(a[r * rs] - (W){0}, v, acc[r]);  \
        }                                                                                                          \
    }                                                                                                              \
    static void N(name)(const fac_gemm_block *g, int64_t p, int64_t depth, const T *b, int64_t ldb, const T *from, \
                        int64_t ldf) {                                                                             \
        const int64_t rs = g->a.rs, cs = g->a.cs, n = g->n;                                                        \
        const T *a = (const T *)(const void *)g->a.data + p * cs;                                                  \
        for (int64_t i = 0, rows; i < g->m; i += rows, a += rows * rs) {                                           \
            W acc[NARROW];                                                                                         \
            rows = g->m - i >= NARROW ? NARROW : g->m - i >= 4 ? 4 : 1;                                            \
            if (rows == NARROW)                                                                                    \
                N(name##_rows)(NARROW, depth, a, rs, cs, b, ldb, acc);                                             \
            else if (rows == 4)                                                                                    \
                N(name##_rows)(4, depth, a, rs, cs, b, ldb, acc);                                                  \
            else                                                                                                   \
                N(name##_rows)(1, depth, a, rs, cs, b, ldb, acc);                                                  \
            for (int r = 0; r < rows; r++) {                                                                       \
                T *c = (T *)g->c + (i + r) * g->ldc, t[LN];                                                        \
                const T *f = from ? from + (i + r) * ldf : NULL;                                                   \
                if (n == (LN) && f) {                                                                              \
                    W v;                                                                                           \
                    memcpy(&v, f, sizeof v);                                                                       \
                    acc[r] = v + acc[r];                                                                           \
                }                                                                                                  \
                if (n == (LN) || (!f && g->ldc == n && (g->m - i - r) * n >= (LN))) {                              \
                    memcpy(c, &acc[r], sizeof acc[r]);                                                             \
                    continue;                                                                                      \
                }                                                                                                  \
                memcpy(t, &acc[r], sizeof t);                                                                      \
                for (int j = 0; j < n; j++) c[j] = f ? f[j] + t[j] : t[j];                                         \
            }                                                                                                      \
        }                                                                                                          \
    }
DEFINE_NARROW(narrow, V, LANES, FMA)
#if FAC_VECTOR_BYTES > 16
DEFINE_NARROW(narrower, VH, LANES / 2, FMAH)
#endif
#undef DEFINE_NARROW

/* Likewise rows of two vectors. */
static inline __attribute__((always_inline)) void N(double_rows)(const int rows, int64_t depth, const T *a, int64_t rs,
                                                                 int64_t cs, const T *b, int64_t ldb,
                                                                 V acc[NARROW][2]) {
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++) acc[r][0] = acc[r][1] = (V){0};
    for (int64_t p = 0; p < depth; p++, a += cs, b += ldb) {
        const V b0 = LOAD(b), b1 = LOAD(b + LANES);
#pragma GCC unroll 8
        for (int r = 0; r < rows; r++) {
            const V x = SPLAT(a[r * rs]);
            acc[r][0] = FMA(x, b0, acc[r][0]);
            acc[r][1] = FMA(x, b1, acc[r][1]);
        }
    }
}

static void N(doubled)(const fac_gemm_block *g, int64_t p, int64_t depth, const T *b, int64_t ldb, const T *from,
                       int64_t ldf) {
    const int64_t rs = g->a.rs, cs = g->a.cs, n = g->n;
    const T *a = (const T *)(const void *)g->a.data + p * cs;
    for (int64_t i = 0, rows; i < g->m; i += rows, a += rows * rs) {
        V acc[NARROW][2];
        rows = g->m - i >= NARROW ? NARROW : g->m - i >= 4 ? 4 : 1;
        if (rows == NARROW)
            N(double_rows)(NARROW, depth, a, rs, cs, b, ldb, acc);
        else if (rows == 4)
            N(double_rows)(4, depth, a, rs, cs, b, ldb, acc);
        else
            N(double_rows)(1, depth, a, rs, cs, b, ldb, acc);
        for (int r = 0; r < rows; r++) {
            T *c = (T *)g->c + (i + r) * g->ldc, t[2 * LANES];
            const T *f = from ? from + (i + r) * ldf : NULL;
            if (n == 2 * LANES) {
                STORE(c, f ? LOAD(f) + acc[r][0] : acc[r][0]);
                STORE(c + LANES, f ? LOAD(f + LANES) + acc[r][1] : acc[r][1]);
                continue;
            }
            STORE(t, acc[r][0]);
            STORE(t + LANES, acc[r][1]);
            for (int j = 0; j < n; j++) c[j] = f ? f[j] + t[j] : t[j];
        }
    }
}
#undef NARROW

static void N(narrow_pass)(const fac_gemm_block *g, int64_t p, int64_t kc) {
    const bool half = FAC_VECTOR_BYTES > 16 && g->n <= LANES / 2, twice = g->n > LANES;
    const int64_t lanes = half ? LANES / 2 : twice ? 2 * LANES : LANES;
    const fac_gemm_operand *o = &g->b;
    const T *b = (const T *)(const void *)o->data + p * o->rs, *from = p ? g->c : g->from;
    int64_t ldb = o->rs, ldf = p ? g->ldc : g->ldf;
    if (o->cs != 1 || g->n != lanes) {
        T *packed = g->scratch;
        int64_t q = 0;
        /* Rows without gaps are read with what follows them, which reaches no element of C. */
        if (o->cs == 1 && o->rs == g->n)
            for (; q * g->n + lanes <= kc * g->n; q++)
                for (int64_t j = 0; j < lanes; j += LANES / 2)
                    memcpy(packed + q * lanes + j, b + q * g->n + j, LANES / 2 * sizeof(T));
        for (; q < kc; q++)
            for (int64_t j = 0; j < lanes; j++) packed[q * lanes + j] = j < g->n ? b[q * o->rs + j * o->cs] : 0;
        b = packed;
        ldb = lanes;
    }
#if FAC_VECTOR_BYTES > 16
    if (half) {
        N(narrower)(g, p, kc, b, ldb, from, ldf);
        return;
    }
#endif
    (twice ? N(doubled) : N(narrow))(g, p, kc, b, ldb, from, ldf);
}

/* c[i, j] = from[i, j] + alpha a[i] b[j]. */
static void N(outer)(const fac_gemm_block *g) {
    const T *a = (const T *)(const void *)g->a.data, *b = (const T *)(const void *)g->b.data;
    for (int64_t i = 0; i < g->m; i++) {
        const T x = (T)g->alpha[0] * a[i * g->a.rs];
        const T *from = g->from ? (const T *)g->from + i * g->ldf : NULL;
        T *c = (T *)g->c + i * g->ldc;
        int64_t j = 0;
        for (; j + LANES <= g->n; j += LANES)
            STORE(c + j, from ? FMA(SPLAT(x), LOAD(b + j), LOAD(from + j)) : SPLAT(x) * LOAD(b + j));
        for (; j < g->n; j++) c[j] = from ? FMA1(x, b[j], from[j]) : x * b[j];
    }
}

static void N(block)(const fac_gemm_block *g) {
    if (g->k == 1 && IS_NATIVE(g->dtype) && g->b.cs == 1) {
        N(outer)(g);
        return;
    }
    /* Where the last block ends may depend on the number of threads, so narrow ones are computed as wide ones: alpha is A's. */
    if (IS_NATIVE(g->dtype) && g->n <= 2 * LANES && g->k > 0 && g->alpha[0] == 1) {
        for (int64_t p = 0; p < g->k; p += FAC_GEMM_KC) N(narrow_pass)(g, p, fac__min(FAC_GEMM_KC, g->k - p));
        return;
    }
    const int64_t step = g->c_imag ? FAC_GEMM_KC / 2 : FAC_GEMM_KC;
    for (int64_t p = 0; p < g->k; p += step) N(pass)(g, p, fac__min(step, g->k - p));
    if (g->k > 0 || g->from) return;
    for (int64_t i = 0; i < g->m; i++) {
        memset((T *)g->c + i * g->ldc, 0, (size_t)g->n * sizeof(T));
        if (g->c_imag) memset((T *)g->c_imag + i * g->ldc, 0, (size_t)g->n * sizeof(T));
    }
}

#if FEW
/* ---- few columns that lie along k ------------------------------------------------------------------------------------- */

/* sums[i][j] = sum over p of x[i*ldx + p] * y[j][p], whose lanes are steps of k. */
#define DOTS 4
static inline __attribute__((always_inline)) void N(dot_tile)(const int few, int64_t depth, const T *x, int64_t ldx,
                                                              const T *const y[DOTS], T sums[][DOTS]) {
    V acc[DOTS][DOTS], v[DOTS];
    T rest[LANES] = {0};
    int64_t p = 0;
    for (int i = 0; i < few; i++)
        for (int j = 0; j < DOTS; j++) acc[i][j] = (V){0};
    for (; p + LANES <= depth; p += LANES) {
#pragma GCC unroll 4
        for (int j = 0; j < DOTS; j++) v[j] = LOAD(y[j] + p);
#pragma GCC unroll 4
        for (int i = 0; i < few; i++) {
            const V u = LOAD(x + i * ldx + p);
#pragma GCC unroll 4
            for (int j = 0; j < DOTS; j++) acc[i][j] = FMA(u, v[j], acc[i][j]);
        }
    }
    const size_t left = (size_t)(depth - p) * sizeof(T);
    if (left) {
        for (int j = 0; j < DOTS; j++) {
            memcpy(rest, y[j] + p, left);
            v[j] = LOAD(rest);
        }
        for (int i = 0; i < few; i++) {
            memcpy(rest, x + i * ldx + p, left);
            const V u = LOAD(rest);
            for (int j = 0; j < DOTS; j++) acc[i][j] = FMA(u, v[j], acc[i][j]);
        }
    }
    for (int i = 0; i < few; i++)
        for (int j = 0; j < DOTS; j++) sums[i][j] = N(fac_sum)(acc[i][j]);
}

/* By `few` lines of the shorter factor up to DOTS of the longer one, the last of which stands for those that are missing. */
static void N(dots_of)(int few, int64_t depth, const T *x, int64_t ldx, const T *y, int64_t ldy, int64_t many,
                       T sums[][DOTS]) {
    const T *lines[DOTS];
    for (int j = 0; j < DOTS; j++) lines[j] = y + fac__min(j, many - 1) * ldy;
    switch (few) {
    case 1: N(dot_tile)(1, depth, x, ldx, lines, sums); break;
    case 2: N(dot_tile)(2, depth, x, ldx, lines, sums); break;
    case 3: N(dot_tile)(3, depth, x, ldx, lines, sums); break;
    default: N(dot_tile)(4, depth, x, ldx, lines, sums); break;
    }
}

/* The shorter factor is read once for each tile of the longer one, which stays in a cache meanwhile. Each element is summed alike,
   wherever it lies in a tile and whichever factor is longer. */
static void N(dots)(const fac_gemm_block *g) {
    const bool down = g->m > g->n;
    const T *a = (const T *)(const void *)g->a.data, *b = (const T *)(const void *)g->b.data, *from = g->from;
    const T *x = down ? b : a, *y = down ? a : b;
    const int64_t ldx = down ? g->b.cs : g->a.rs, ldy = down ? g->a.rs : g->b.cs;
    const int64_t longer = down ? g->m : g->n, shorter = down ? g->n : g->m;
    for (int64_t j = 0; j < longer; j += DOTS)
        for (int64_t i = 0; i < shorter; i += DOTS) {
            const int64_t many = fac__min(DOTS, longer - j), few = fac__min(DOTS, shorter - i);
            T sums[DOTS][DOTS];
            N(dots_of)((int)few, g->k, x + i * ldx, ldx, y + j * ldy, ldy, many, sums);
            for (int64_t r = 0; r < few; r++)
                for (int64_t q = 0; q < many; q++) {
                    const int64_t row = down ? j + q : i + r, col = down ? i + r : j + q;
                    ((T *)g->c)[row * g->ldc + col] = (from ? from[row * g->ldf + col] : 0) + sums[r][q];
                }
        }
}
#undef DOTS
#endif

static size_t N(scratch)(int64_t m, int64_t n, int64_t k, bool complex) {
    const int64_t depth = fac__min(complex ? 2 * k : k, FAC_GEMM_KC), rows = FEW ? fac__min(m, ROWS + MR) : m;
    const int64_t panels = complex ? 2 * (rows * depth + LANES) : rows * (FEW ? ROW : depth) + LANES;
    return (size_t)(N(strips_size)(m, n, depth) + panels) * sizeof(T);
}

#undef NR
#undef GROUP
#undef MANY
#undef ROWS
#undef CHUNK
#undef ROW
