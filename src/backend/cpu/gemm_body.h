/* The packed matrix product in one element type. Included by gemm.isa.c with T, V, LANES, LOAD, STORE, SPLAT, FMA, FMA1,
   TRANSPOSE, VH and FMAH of half a vector, and the naming macro N(name).

   C is computed in strips of NR = 2 vectors of columns and panels of at most MR rows, so that MR x 2 accumulators stay in
   registers. A panel of A is packed as [depth][rows], a strip of B as [depth][NR]: beforehand, or by the tile of the first panel where there
   are few panels and its columns have no gaps; both are then read front to back. A strip (NR x KC) stays in L1; all of A's panels (m x KC)
   and a group of strips in L2. Of more than ROWS rows so many are packed at a time, and all strips are kept for those that follow. Meanwhile
   the tiles fetch what is packed next. Where one group is all there is, each panel of A is copied as it lies and multiplied by all strips
   at once. A complex product is the real one of doubled depth: [a_re, -a_im] [b_re; b_im]
   gives the real plane, [a_im, a_re] [b_re; b_im] the imaginary one.

   A real product of few columns, two vectors at most, whose alpha is 1 has a tile of its own, whose lanes are these columns and whose A is not packed; one of
   depth 1 goes row by row, however few columns there are, as it rounds differently.

   Each element of C is summed over k in order, in passes of KC; borders of panels, strips and blocks do not change it. */

#define NR (2 * LANES)
#define GROUP 4                        /* strips packed together */
#define ROWS (LANES == 16 ? 512 : 256) /* of A that are packed together */
#define MANY (16 * MR)                 /* rows of more panels than few */
#define PER_LINE (FAC_CACHE_LINE / (int)sizeof(T))
#define ROW (FAC_GEMM_KC + PER_LINE) /* from a panel's row to the next, where it is packed in rows */

/* c[rows, NR] = from[rows, NR] (0 if NULL) + a b[depth, NR], where element (i, p) of a is at i*ai + p*ap. b is kept as keep[depth][NR]
   where `keeps`. This, `rows`, ai and ap are constant where this is inlined. */
static inline __attribute__((always_inline)) void N(tile)(const int rows, const int ai, const int ap, const bool keeps,
                                                          int64_t depth, const T *a, const T *b, int64_t ldb, T *keep,
                                                          T *c, int64_t ldc, const T *from, int64_t ldf, ahead *next) {
    V acc[MR][2];
    ahead f = *next, mine = ahead_of(c, 2, ldc * (int64_t)sizeof(T), rows);
#pragma GCC unroll 16
    for (int i = 0; i < rows; i++) acc[i][0] = acc[i][1] = (V){0};
    for (int64_t p = 0; p < depth; p++, a += ap, b += ldb) {
        V b0 = LOAD(b), b1 = LOAD(b + LANES);
        if (FEW) __builtin_prefetch(a + SOON * ap, 0, 3);
        if (FEW && rows > PER_LINE) __builtin_prefetch(a + SOON * ap + PER_LINE, 0, 3);
        if ((p & SLOWLY) == 0) fetch_ahead(&mine);
        if ((p & f.mask) == f.mask) fetch_ahead(&f);
        if (keeps) {
            STORE(keep + p * NR, b0);
            STORE(keep + p * NR + LANES, b1);
        }
#pragma GCC unroll 16
        for (int i = 0; i < rows; i++) {
            V x = SPLAT(a[i * ai]);
            acc[i][0] = FMA(x, b0, acc[i][0]);
            acc[i][1] = FMA(x, b1, acc[i][1]);
        }
    }
    *next = f;
#pragma GCC unroll 16
    for (int i = 0; i < rows; i++, c += ldc) {
        STORE(c, from ? LOAD(from + i * ldf) + acc[i][0] : acc[i][0]);
        STORE(c + LANES, from ? LOAD(from + i * ldf + LANES) + acc[i][1] : acc[i][1]);
    }
}

/* Likewise of one vector of columns. */
static inline __attribute__((always_inline)) void N(thin_tile)(const int rows, const int ai, const int ap,
                                                               int64_t depth, const T *a, const T *b, int64_t ldb, T *c,
                                                               int64_t ldc) {
    V acc[MR];
#pragma GCC unroll 16
    for (int i = 0; i < rows; i++) acc[i] = (V){0};
    for (int64_t p = 0; p < depth; p++, a += ap, b += ldb) {
        const V x = LOAD(b);
#pragma GCC unroll 16
        for (int i = 0; i < rows; i++) acc[i] = FMA(SPLAT(a[i * ai]), x, acc[i]);
    }
#pragma GCC unroll 16
    for (int i = 0; i < rows; i++) STORE(c + i * ldc, acc[i]);
}

/* The tiles of each number of rows. */
typedef void (*N(tile_fn))(int64_t depth, const T *a, const T *b, int64_t ldb, T *keep, T *c, int64_t ldc,
                           const T *from, int64_t ldf, ahead *next);
typedef void (*N(thin_fn))(int64_t depth, const T *a, const T *b, int64_t ldb, T *c, int64_t ldc);
#define TILE_OF(name, rows, ai, ap, keeps)                                                                  \
    static void N(FAC_PASTE(name, rows))(int64_t depth, const T *a, const T *b, int64_t ldb, T *keep, T *c, \
                                         int64_t ldc, const T *from, int64_t ldf, ahead *next) {            \
        N(tile)(rows, ai, ap, keeps, depth, a, b, ldb, keep, c, ldc, from, ldf, next);                      \
    }
#define THIN_OF(name, rows, ai, ap)                                                                               \
    static void N(FAC_PASTE(name, rows))(int64_t depth, const T *a, const T *b, int64_t ldb, T *c, int64_t ldc) { \
        N(thin_tile)(rows, ai, ap, depth, a, b, ldb, c, ldc);                                                     \
    }
#if FEW
#define TILE(rows)                      \
    TILE_OF(tile, rows, 1, rows, false) \
    THIN_OF(thin, rows, 1, rows)        \
    TILE_OF(keep_tile, rows, 1, rows, true) TILE_OF(row_tile, rows, ROW, 1, false) THIN_OF(row_thin, rows, ROW, 1)
#else
#define TILE(rows) TILE_OF(tile, rows, 1, rows, false) THIN_OF(thin, rows, 1, rows)
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
#undef THIN_OF
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
/* Of panels that are packed as [depth][rows], the second while the strip is packed, and as [rows][ROW]. */
static const N(tile_set) N(by_depth) = {EACH(tile), EACH(thin)};
#if FEW
static const N(tile_set) N(keeping) = {EACH(keep_tile), EACH(thin)}, N(by_row) = {EACH(row_tile), EACH(row_thin)};
#else
#define keeping_f32 by_depth_f32 /* nothing is kept */
#define keeping_f64 by_depth_f64
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

/* dst[s][p][i] = src[p*ps + s*width + i] for i < width: `strips` strips at once, so that rows are read in longer
   runs. All rows but the last go in whole vectors; what these have too much is the next row's: ps and 2*width are at least
   LANES. */
static void N(pack_rows)(T *dst, const T *src, int64_t ps, int width, int strips, int64_t depth) {
    for (int64_t p = 0; p + 1 < depth; p++, src += ps)
        for (int s = 0; s < strips; s++)
            for (int i = 0; i < width; i += LANES) STORE(dst + (s * depth + p) * width + i, LOAD(src + s * width + i));
    for (int s = 0; s < strips; s++)
        for (int i = 0; i < width; i++) dst[((s + 1) * depth - 1) * width + i] = src[s * width + i];
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

/* One panel of A by one strip of B. cols <= NR; a narrow strip goes through a tile of its own. */
static void N(panel)(const N(tile_set) * set, int rows, int64_t depth, const T *a, const T *b, int64_t ldb, T *keep,
                     T *c, int64_t ldc, int cols, const T *from, int64_t ldf, ahead *next) {
    if (FAC_LIKELY(cols == NR)) {
        set->tiles[rows - 1](depth, a, b, ldb, keep, c, ldc, from, ldf, next);
        return;
    }
    T t[MR * NR];
    if (cols <= LANES)
        set->thins[rows - 1](depth, a, b, ldb, t, NR);
    else
        set->tiles[rows - 1](depth, a, b, ldb, keep, t, NR, NULL, 0, next);
    for (int r = 0; r < rows; r++, c += ldc)
        for (int j = 0; j < cols; j++) c[j] = from ? from[r * ldf + j] + t[r * NR + j] : t[r * NR + j];
}

/* One strip of C: all panels of A against it. The first one packs it where it is to be kept. */
static void N(strip)(const T *a, int64_t m, int h, int64_t depth, const T *b, int64_t ldb, T *keep, T *c, int64_t ldc,
                     int cols, const T *from, int64_t ldf, ahead *next) {
    const N(tile_set) *set = keep ? &N(keeping) : &N(by_depth);
    for (int64_t i = 0; i < m; i += h) {
        N(panel)
        (set, (int)fac__min(h, m - i), depth, a + i * depth, b, ldb, keep, c + i * ldc, ldc, cols,
         from ? from + i * ldf : NULL, ldf, next);
        if (!keep) continue;
        set = &N(by_depth);
        b = keep;
        ldb = NR;
        keep = NULL;
    }
}

/* Packs A at depth [p, p + kc), times alpha, as panels of h rows and depth `depth`. */
static void N(pack_a)(const fac_gemm_block *g, T *dst, T *dst_imag, int h, int64_t p, int64_t kc, int64_t depth) {
    const fac_gemm_operand *a = &g->a;
    bool in_rows = IS_NATIVE(g->dtype) && a->rs == 1 && a->cs >= LANES && 2 * h >= LANES;
    int64_t step = h;
    for (int64_t i = 0; i < g->m; i += step) {
        int64_t at = i * a->rs + p * a->cs, panels = in_rows ? fac__min(GROUP, (g->m - i) / h) : 0;
        int rows = (int)fac__min(h, g->m - i);
        step = fac__max(1, panels) * h;
        if (dst_imag) N(pack_complex)
        (dst + i * depth, dst_imag + i * depth, (const T *)(const void *)a->data + 2 * at, a->rs, a->cs, rows, rows, kc,
         a->conj, g->alpha);
        else if (panels)
            N(pack_rows)(dst + i * depth, (const T *)(const void *)a->data + at, a->cs, h, (int)panels, kc);
        else PACK_REAL(dst + i * depth, a, at, a->rs, a->cs, rows, rows, kc);
    }
    T alpha = (T)g->alpha[0];
    if (dst_imag || alpha == 1) return;
    for (int64_t e = 0; e < g->m * depth; e++) dst[e] *= alpha;
}

/* Packs columns [j, j + cols) of B, at depth [p, p + kc), as strips of depth `depth`. */
static void N(pack_b)(const fac_gemm_block *g, T *dst, int64_t j, int64_t cols, int64_t p, int64_t kc, int64_t depth) {
    const fac_gemm_operand *b = &g->b;
    if (IS_NATIVE(g->dtype) && b->cs == 1 && b->rs >= LANES && cols % NR == 0) {
        N(pack_rows)(dst, (const T *)(const void *)b->data + p * b->rs + j, b->rs, NR, (int)(cols / NR), kc);
        return;
    }
    for (int64_t s = 0; s < cols; s += NR, dst += NR * depth) {
        int64_t at = p * b->rs + (j + s) * b->cs;
        int width = (int)fac__min(NR, cols - s);
        if (g->c_imag) N(pack_complex)
        (dst, NULL, (const T *)(const void *)b->data + 2 * at, b->cs, b->rs, width, NR, kc, b->conj, g->alpha);
        else PACK_REAL(dst, b, at, b->cs, b->rs, width, NR, kc);
    }
}

/* Elements of the packed strips: of a group, or of all where several blocks of rows are multiplied by them. */
static int64_t N(strips_size)(int64_t m, int64_t n, int64_t depth) {
    const int64_t strips = fac__div_up(n, NR);
    return (FEW && m > ROWS ? strips : fac__min(strips, GROUP)) * NR * depth + LANES;
}

/* Lines of g's B from column j on, which the next group of strips packs. */
static ahead N(next_group)(const fac_gemm_block *g, int64_t j, int64_t p, int64_t kc) {
    const fac_gemm_operand *b = &g->b;
    const int64_t item = (int64_t)sizeof(T), cols = fac__min(GROUP * NR, g->n - j);
    if (!FEW || !IS_NATIVE(g->dtype) || cols <= 0) return (ahead){0};
    const char *at = b->data + (p * b->rs + j * b->cs) * item;
    ahead next = {0};
    if (b->cs == 1)
        next = ahead_of(at, fac__div_up(cols * item, FAC_CACHE_LINE), b->rs * item, kc);
    else if (b->rs == 1)
        next = ahead_of(at, fac__div_up(kc * item, FAC_CACHE_LINE), b->cs * item, cols);
    next.mask = g->m > MANY ? SLOWLY : 0;
    return next;
}

/* One group of strips, packed in bs if they are not read in place: all panels of A, in a and ai, against it. */
static void N(group)(const fac_gemm_block *g, int64_t p, int64_t kc, int64_t j0, int h, const T *a, const T *ai, T *bs,
                     bool packed) {
    const int64_t depth = ai ? 2 * kc : kc, m = g->m, group = fac__min(GROUP * NR, g->n - j0);
    const int64_t ldf = p == 0 ? g->ldf : g->ldc;
    const T *from = p == 0 ? g->from : g->c, *from_imag = p == 0 ? NULL : g->c_imag;
    const fac_gemm_operand *b = &g->b;
    const bool lies_well = IS_NATIVE(g->dtype) && b->cs == 1 && group % NR == 0 && !packed,
               direct = lies_well && m <= MR; /* one panel reads B in place */
    const bool whole = lies_well && (direct || (FEW && m <= MANY));
    ahead next = direct || packed ? (ahead){0} : N(next_group)(g, j0 + group, p, kc);
    if (!whole && !packed) N(pack_b)(g, bs, j0, group, p, kc, depth);
    for (int64_t j = 0; j < group; j += NR) {
        const int cols = (int)fac__min(NR, group - j);
        const T *strip = whole ? (const T *)(const void *)b->data + p * b->rs + j0 + j : bs + j * depth;
        T *keep = whole && !direct ? bs + j * depth : NULL;
        const int64_t ldb = whole ? b->rs : NR;
        N(strip)
        (a, m, h, depth, strip, ldb, keep, (T *)g->c + j0 + j, g->ldc, cols, from ? from + j0 + j : NULL, ldf, &next);
        if (ai) N(strip)
        (ai, m, h, depth, strip, ldb, NULL, (T *)g->c_imag + j0 + j, g->ldc, cols,
         from_imag ? from_imag + j0 + j : NULL, ldf, &next);
    }
}

/* One pass over depth [p, p + kc): the first adds to g->from, later ones to C. */
static void N(pass)(const fac_gemm_block *g, int64_t p, int64_t kc) {
    const bool complex = g->c_imag != NULL, kept = FEW && g->m > ROWS;
    const int64_t depth = complex ? 2 * kc : kc;
    const int h = (int)fac__div_up(g->m, fac__div_up(g->m, MR));
    const int64_t rows = FEW ? fac__div_up(fac__div_up(g->m, h), fac__div_up(g->m, ROWS)) * h : g->m; /* even blocks */
    T *bs = g->scratch, *a = bs + N(strips_size)(g->m, g->n, depth),
      *ai = complex ? a + fac__min(rows, g->m) * depth + LANES : NULL;
    fac_gemm_block some;
    const fac_gemm_block *part = g;
    if (FEW) {
        some = *g;
        part = &some;
    }
    for (int64_t i = 0; i < g->m; i += rows) {
        if (FEW) some.m = fac__min(rows, g->m - i);
        N(pack_a)(part, a, ai, h, p, kc, depth);
        for (int64_t j = 0; j < g->n; j += GROUP * NR)
            N(group)(part, p, kc, j, h, a, ai, kept ? bs + j * depth : bs, FEW && i > 0);
        if (!FEW) break; /* nor has it more rows */
        some.a.data += rows * some.a.rs * fac__dtype_size(g->dtype);
        some.c = (T *)some.c + rows * g->ldc;
        if (complex) some.c_imag = (T *)some.c_imag + rows * g->ldc;
        if (some.from) some.from = (const T *)some.from + rows * g->ldf;
    }
}

#if FEW
/* The same where there is one group of strips and A's rows lie along k: each panel is copied as [rows][ROW], which keeps it from
   L1's few sets that rows a power of two apart fall into, and multiplied by all strips at once, while the next one comes. */
static void N(pass_of_few)(const fac_gemm_block *g, int64_t p, int64_t kc) {
    const fac_gemm_operand *o = &g->a;
    const int64_t m = g->m, n = g->n, ldf = p == 0 ? g->ldf : g->ldc, bytes = kc * (int64_t)sizeof(T);
    const int h = (int)fac__div_up(m, fac__div_up(m, MR));
    const T *from = p == 0 ? g->from : g->c, *src = (const T *)(const void *)o->data + p * o->cs;
    T *bs = g->scratch, *a = bs + N(strips_size)(0, n, kc);
    N(pack_b)(g, bs, 0, n, p, kc, kc);
    for (int64_t i = 0, rows; i < m; i += rows, src += rows * o->rs) {
        rows = fac__min(h, m - i);
        for (int64_t r = 0; r < rows; r++) memcpy(a + r * ROW, src + r * o->rs, (size_t)bytes);
        ahead next = ahead_of(src + rows * o->rs, fac__div_up(bytes, FAC_CACHE_LINE), o->rs * (int64_t)sizeof(T),
                              fac__min(rows, m - i - rows));
        for (int64_t j = 0; j < n; j += NR) N(panel)
        (&N(by_row), (int)rows, kc, a, bs + j * kc, NR, NULL, (T *)g->c + i * g->ldc + j, g->ldc,
         (int)fac__min(NR, n - j), from ? from + i * ldf + j : NULL, ldf, &next);
    }
}
#endif

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
    void (*pass)(const fac_gemm_block *, int64_t, int64_t) = N(pass);
#if FEW
    if (IS_NATIVE(g->dtype) && g->n <= GROUP * NR && g->m > MR && g->a.cs == 1 && g->alpha[0] == 1)
        pass = N(pass_of_few);
#endif
    for (int64_t p = 0; p < g->k; p += step) pass(g, p, fac__min(step, g->k - p));
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
    int64_t depth = fac__min(complex ? 2 * k : k, FAC_GEMM_KC);
    return (size_t)(N(strips_size)(m, n, depth) +
                    fac__max((complex ? 2 : 1) * ((FEW ? fac__min(m, ROWS + MR) : m) * depth + LANES), MR * ROW)) *
           sizeof(T);
}

#undef NR
#undef GROUP
#undef MANY
#undef ROWS
#undef PER_LINE
#undef ROW
