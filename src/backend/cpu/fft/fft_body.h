/* The inner loops for one type of real number, T, in vectors VT of LANES lanes; fft.isa.c includes it for each.

   A sequence per lane is an array of points: LANES real parts, then LANES imaginary parts. Passes are Stockham's, decimated in
   frequency: of a length radix * blocks, with `run` sequences of earlier passes side by side, point q + run (b + blocks j)
   goes to q + run (radix b + k), times w^(b k), so that the last pass leaves natural order. Sums have a fixed order. */

typedef struct X(cv) {
    VT re, im;
} X(cv);
#define CV X(cv)
#define POINT (2 * LANES)

/* ---- complex numbers in lanes ----------------------------------------------------------------------------------------- */

static FAC_ALWAYS_INLINE CV X(get)(const T *x, int64_t i) {
    return (CV){LOAD(x + i * POINT), LOAD(x + i * POINT + LANES)};
}
static FAC_ALWAYS_INLINE void X(put)(T *x, int64_t i, CV a) {
    STORE(x + i * POINT, a.re);
    STORE(x + i * POINT + LANES, a.im);
}
static FAC_ALWAYS_INLINE CV X(plus)(CV a, CV b) { return (CV){a.re + b.re, a.im + b.im}; }
/* The same number by a multiplication, for which there are other units than for additions. */
static FAC_ALWAYS_INLINE CV X(minus)(CV a, CV b) {
#if FAC_ISA_LEVEL
    const VT less = SPLAT(-1);
    return (CV){FMA(b.re, less, a.re), FMA(b.im, less, a.im)};
#else
    return (CV){a.re - b.re, a.im - b.im};
#endif
}
static FAC_ALWAYS_INLINE CV X(times)(CV a, CV w) {
    return (CV){FMA(a.re, w.re, -(a.im * w.im)), FMA(a.re, w.im, a.im * w.re)};
}
static FAC_ALWAYS_INLINE CV X(splat)(const T *w) { return (CV){SPLAT(w[0]), SPLAT(w[1])}; }
static FAC_ALWAYS_INLINE CV X(conj)(CV a) { return (CV){a.re, -a.im}; }
static FAC_ALWAYS_INLINE CV X(exchanged)(CV a) { return (CV){a.im, a.re}; }
static FAC_ALWAYS_INLINE CV X(times_minus_i)(CV a) { return (CV){a.im, -a.re}; }
static FAC_ALWAYS_INLINE CV X(backwards)(CV a) { return (CV){BACK(a.re), BACK(a.im)}; }
static FAC_ALWAYS_INLINE CV X(scaled)(CV a, VT s) { return (CV){a.re * s, a.im * s}; }

/* ---- butterflies: a[k] = sum over j of a[j] w^(j k) ------------------------------------------------------------------------ */

static FAC_ALWAYS_INLINE void X(dft_2)(CV *a, const T *roots) {
    (void)roots;
    CV t = X(minus)(a[0], a[1]);
    a[0] = X(plus)(a[0], a[1]);
    a[1] = t;
}

static FAC_ALWAYS_INLINE void X(dft_4)(CV *a, const T *roots) {
    (void)roots;
    CV s = X(plus)(a[0], a[2]), d = X(minus)(a[0], a[2]), t = X(plus)(a[1], a[3]),
       e = X(times_minus_i)(X(minus)(a[1], a[3]));
    a[0] = X(plus)(s, t);
    a[1] = X(plus)(d, e);
    a[2] = X(minus)(s, t);
    a[3] = X(minus)(d, e);
}

/* Two transforms of four, of the even and the odd elements. w = (1 - i) / sqrt(2). */
static FAC_ALWAYS_INLINE void X(dft_8)(CV *a, const T *roots) {
    CV even[4] = {a[0], a[2], a[4], a[6]}, odd[4] = {a[1], a[3], a[5], a[7]};
    const VT half = SPLAT((T)0.70710678118654752440);
    X(dft_4)(even, roots);
    X(dft_4)(odd, roots);
    odd[1] = X(scaled)((CV){odd[1].re + odd[1].im, odd[1].im - odd[1].re}, half);
    odd[2] = X(times_minus_i)(odd[2]);
    odd[3] = X(scaled)((CV){odd[3].im - odd[3].re, -odd[3].re - odd[3].im}, half);
#pragma GCC unroll 4
    for (int k = 0; k < 4; k++) {
        a[k] = X(plus)(even[k], odd[k]);
        a[k + 4] = X(minus)(even[k], odd[k]);
    }
}

#if FAC_VECTOR_BYTES == 64
/* Four transforms of four, of every fourth element, and four of theirs. For vectors of which there are 32. */
static FAC_ALWAYS_INLINE void X(dft_16)(CV *a, const T *roots) {
    static const T w[10][2] = {{1, 0},
                               {(T)0.92387953251128675613, (T)-0.38268343236508977173},
                               {(T)0.70710678118654752440, (T)-0.70710678118654752440},
                               {(T)0.38268343236508977173, (T)-0.92387953251128675613},
                               {0, -1},
                               {0, 0},
                               {(T)-0.70710678118654752440, (T)-0.70710678118654752440},
                               {0, 0},
                               {0, 0},
                               {(T)-0.92387953251128675613, (T)0.38268343236508977173}};
    CV b[16];
#pragma GCC unroll 4
    for (int j = 0; j < 4; j++) {
        CV t[4] = {a[j], a[j + 4], a[j + 8], a[j + 12]};
        X(dft_4)(t, roots);
        b[j] = t[0];
#pragma GCC unroll 4
        for (int k = 1; k < 4; k++)
            b[j + 4 * k] = j == 0 ? t[k] : j * k == 4 ? X(times_minus_i)(t[k]) : X(times)(t[k], X(splat)(w[j * k]));
    }
#pragma GCC unroll 4
    for (int k = 0; k < 4; k++) {
        X(dft_4)(b + 4 * k, roots);
#pragma GCC unroll 4
        for (int j = 0; j < 4; j++) a[k + 4 * j] = b[4 * k + j];
    }
}
#endif

/* Odd r. Elements j and r - j meet cosines of one sign and sines of opposite ones, so their sum and difference are taken first.
   roots: cos, then sin, of 2 pi j / r. */
static FAC_ALWAYS_INLINE void X(dft_odd)(CV *a, int r, const T *roots) {
    CV sum[FAC_FFT_PRIME / 2], dif[FAC_FFT_PRIME / 2], first = a[0];
    const int h = r / 2;
#pragma GCC unroll 6
    for (int j = 1; j <= h; j++) {
        sum[j - 1] = X(plus)(a[j], a[r - j]);
        dif[j - 1] = X(minus)(a[j], a[r - j]);
    }
#pragma GCC unroll 6
    for (int k = 1; k <= h; k++) {
        CV p = first, m = {SPLAT(0), SPLAT(0)};
#pragma GCC unroll 6
        for (int j = 1, at = k; j <= h; j++, at = at + k >= r ? at + k - r : at + k) {
            const VT c = SPLAT(roots[at]), s = SPLAT(roots[r + at]);
            p = (CV){FMA(sum[j - 1].re, c, p.re), FMA(sum[j - 1].im, c, p.im)};
            m = (CV){FMA(dif[j - 1].re, s, m.re), FMA(dif[j - 1].im, s, m.im)};
        }
        a[k] = (CV){p.re + m.im, p.im - m.re};
        a[r - k] = (CV){p.re - m.im, p.im + m.re};
    }
#pragma GCC unroll 6
    for (int j = 0; j < h; j++) a[0] = X(plus)(a[0], sum[j]);
}
static FAC_ALWAYS_INLINE void X(dft_3)(CV *a, const T *roots) { X(dft_odd)(a, 3, roots); }
static FAC_ALWAYS_INLINE void X(dft_5)(CV *a, const T *roots) { X(dft_odd)(a, 5, roots); }
#if FAC_VECTOR_BYTES == 64 && LANES == 16
/* Two transforms of three without factors between: of points 2 n2 + 3 n1, to points 4 k2 + 3 k1 (Good 1958). roots: of three. */
static FAC_ALWAYS_INLINE void X(dft_6)(CV *a, const T *roots) {
    CV even[3] = {a[0], a[2], a[4]}, odd[3] = {a[3], a[5], a[1]};
    X(dft_3)(even, roots);
    X(dft_3)(odd, roots);
#pragma GCC unroll 3
    for (int k = 0; k < 3; k++) {
        a[4 * k % 6] = X(plus)(even[k], odd[k]);
        a[(4 * k + 3) % 6] = X(minus)(even[k], odd[k]);
    }
}
#endif
static FAC_ALWAYS_INLINE void X(dft_7)(CV *a, const T *roots) { X(dft_odd)(a, 7, roots); }
static FAC_ALWAYS_INLINE void X(dft_11)(CV *a, const T *roots) { X(dft_odd)(a, 11, roots); }
static FAC_ALWAYS_INLINE void X(dft_13)(CV *a, const T *roots) { X(dft_odd)(a, 13, roots); }

/* ---- passes ------------------------------------------------------------------------------------------------------------------ */

/* Block 0 has no twiddle factors, and so the last pass has none. */
#define FFT_PASS(R)                                                                                        \
    static void X(pass_##R)(const fac_fft_pass *p, const T *table, const T *x, T *y) {                     \
        const T *roots = table + p->roots;                                                                 \
        const int64_t run = p->run, apart = run * p->blocks;                                               \
        for (int64_t b = 0; b < p->blocks; b++) {                                                          \
            const T *w = table + p->twiddles + (b - 1) * 2 * ((R)-1), *from = x + b * run * POINT;         \
            T *to = y + b * (R)*run * POINT;                                                               \
            for (int64_t q = 0; q < run; q++) {                                                            \
                CV a[R];                                                                                   \
                _Pragma("GCC unroll 16") for (int j = 0; j < (R); j++) a[j] = X(get)(from, q + j * apart); \
                X(dft_##R)(a, roots);                                                                      \
                if (b > 0) {                                                                               \
                    _Pragma("GCC unroll 16") for (int k = 1; k < (R); k++) a[k] =                          \
                        X(times)(a[k], X(splat)(w + 2 * (k - 1)));                                         \
                }                                                                                          \
                _Pragma("GCC unroll 16") for (int k = 0; k < (R); k++) X(put)(to, q + k * run, a[k]);      \
            }                                                                                              \
        }                                                                                                  \
    }
FFT_PASS(2)
FFT_PASS(3)
FFT_PASS(4)
FFT_PASS(5)
FFT_PASS(7)
FFT_PASS(8)
FFT_PASS(11)
FFT_PASS(13)
#if FAC_VECTOR_BYTES == 64
FFT_PASS(16)
#endif
#undef FFT_PASS

static void X(pass_any)(const fac_fft_pass *p, const T *table, const T *x, T *y) {
    const int r = (int)p->radix;
    const int64_t run = p->run, apart = run * p->blocks;
    for (int64_t b = 0; b < p->blocks; b++) {
        const T *w = table + p->twiddles + (b - 1) * 2 * (r - 1), *from = x + b * run * POINT;
        T *to = y + b * r * run * POINT;
        for (int64_t q = 0; q < run; q++) {
            CV a[FAC_FFT_PRIME];
            a[0] = X(get)(from, q);
            for (int j = 1; j < r; j++) a[j] = X(get)(from, q + j * apart);
            X(dft_odd)(a, r, table + p->roots);
            X(put)(to, q, a[0]);
            for (int k = 1; k < r; k++) X(put)(to, q + k * run, b ? X(times)(a[k], X(splat)(w + 2 * (k - 1))) : a[k]);
        }
    }
}

static void X(pass)(const fac_fft_pass *p, const T *table, const T *x, T *y) {
    switch (p->radix) {
    case 2: X(pass_2)(p, table, x, y); break;
    case 3: X(pass_3)(p, table, x, y); break;
    case 4: X(pass_4)(p, table, x, y); break;
    case 5: X(pass_5)(p, table, x, y); break;
    case 7: X(pass_7)(p, table, x, y); break;
    case 8: X(pass_8)(p, table, x, y); break;
    case 11: X(pass_11)(p, table, x, y); break;
    case 13: X(pass_13)(p, table, x, y); break;
#if FAC_VECTOR_BYTES == 64
    case 16: X(pass_16)(p, table, x, y); break;
#endif
    default: X(pass_any)(p, table, x, y);
    }
}

/* x is left alone unless it is a buffer. Returns the buffer with the result, x itself where there is no pass. */
static const T *X(run_passes)(const fac_fft_chain *c, int begin, int end, const T *x, T *buffer, T *other) {
    for (int i = begin; i < end; i++) {
        T *y = x == buffer ? other : buffer;
        X(pass)(&c->pass[i], c->table, x, y);
        x = y;
    }
    return x;
}
static const T *X(run_chain)(const fac_fft_chain *c, const T *x, T *buffer, T *other) {
    return X(run_passes)(c, 0, c->passes, x, buffer, other);
}

/* ---- lines into lanes and back -------------------------------------------------------------------------------------------------- */

/* Points of a line as pairs of reals: the point i has its parts at at[lane][i * step] and `im` further, and no imaginary part where
   that is 0. */
typedef struct X(view) {
    void *const *at;
    int64_t step, im;
    int lanes;
    bool adjacent, exchange;
} X(view);
#define VIEW X(view)

static FAC_ALWAYS_INLINE CV X(maybe_exchanged)(CV a, bool exchange) { return exchange ? X(exchanged)(a) : a; }

/* The first `lanes` of LANES pairs that lie side by side. */
static FAC_ALWAYS_INLINE CV X(read_pairs)(const T *at, int lanes) {
    T room[POINT] = {0};
    if (lanes < LANES) at = memcpy(room, at, (size_t)lanes * 2 * sizeof(T));
    const VT a = LOAD(at), b = LOAD(at + LANES);
    return (CV){EVEN(a, b), ODD(a, b)};
}
static FAC_ALWAYS_INLINE void X(write_pairs)(T *at, CV a, int lanes) {
    const VT lo = ZIP_LO(a.re, a.im), hi = ZIP_HI(a.re, a.im);
    if (lanes == LANES) {
        STORE(at, lo);
        STORE(at + LANES, hi);
        return;
    }
    T room[POINT];
    STORE(room, lo);
    STORE(room + LANES, hi);
    memcpy(at, room, (size_t)lanes * 2 * sizeof(T));
}

/* LANES pairs, with their parts exchanged or not, in their order or backwards. */
typedef struct X(way) {
#if FAC_VECTOR_BYTES == 64
    __m512i first, second;
#else
    bool exchange, back;
#endif
} X(way);
#if FAC_VECTOR_BYTES == 64
static FAC_ALWAYS_INLINE X(way) X(reading)(bool exchange, bool back) {
    const __m512i order = back ? LANE_BITS(2 * LANES - 2) : _mm512_setzero_si512();
    return (X(way)){_mm512_xor_si512(_mm512_loadu_si512(READ_LANES[exchange]), order),
                    _mm512_xor_si512(_mm512_loadu_si512(READ_LANES[!exchange]), order)};
}
static FAC_ALWAYS_INLINE X(way) X(writing)(bool exchange, bool back) {
    const __m512i order = LANE_BITS((exchange ? LANES : 0) + (back ? LANES - 1 : 0));
    return (X(way)){_mm512_xor_si512(_mm512_loadu_si512(WRITE_LANES[0]), order),
                    _mm512_xor_si512(_mm512_loadu_si512(WRITE_LANES[1]), order)};
}
static FAC_ALWAYS_INLINE CV X(read)(const T *at, X(way) w) {
    const VT a = LOAD(at), b = LOAD(at + LANES);
    return (CV){X(pick)(a, w.first, b), X(pick)(a, w.second, b)};
}
static FAC_ALWAYS_INLINE void X(write)(T *at, T *next, CV a, X(way) w) {
    STORE(at, X(pick)(a.re, w.first, a.im));
    STORE(next, X(pick)(a.re, w.second, a.im));
}
#else
static FAC_ALWAYS_INLINE X(way) X(reading)(bool exchange, bool back) { return (X(way)){exchange, back}; }
static FAC_ALWAYS_INLINE X(way) X(writing)(bool exchange, bool back) { return (X(way)){exchange, back}; }
static FAC_ALWAYS_INLINE CV X(read)(const T *at, X(way) w) {
    const CV a = X(read_pairs)(at, LANES), b = w.back ? X(backwards)(a) : a;
    return w.exchange ? X(exchanged)(b) : b;
}
static FAC_ALWAYS_INLINE void X(write)(T *at, T *next, CV a, X(way) w) {
    if (w.exchange) a = X(exchanged)(a);
    if (w.back) a = X(backwards)(a);
    STORE(at, ZIP_LO(a.re, a.im));
    STORE(next, ZIP_HI(a.re, a.im));
}
#endif

/* Fetches `reals` numbers that lie behind those at `at`: of the next columns, whose lines the hardware does not guess. Not for x86 without
   AVX2, where the library is to be small. */
static FAC_ALWAYS_INLINE void X(fetch_behind)(const T *at, int reals) {
#if FAC_VECTOR_BYTES > 16 || !defined(__x86_64__)
    for (int i = 0; i < reals; i += LANES) __builtin_prefetch(at + reals + i, 0, 2);
#else
    (void)at, (void)reals;
#endif
}

/* n points of `lanes` neighbouring columns. */
static void X(load_columns)(T *x, const T *at, int64_t step, int64_t n, int lanes, bool exchange) {
    const X(way) w = X(reading)(exchange, false);
    if (lanes < LANES)
        for (int64_t i = 0; i < n; i++) X(put)(x, i, X(maybe_exchanged)(X(read_pairs)(at + i * step, lanes), exchange));
    else
        for (int64_t i = 0; i < n; i++) {
            X(fetch_behind)(at + i * step, POINT);
            X(put)(x, i, X(read)(at + i * step, w));
        }
}
static void X(store_columns)(const T *x, T *at, int64_t step, int64_t n, int lanes, bool exchange, T scale) {
    const VT s = SPLAT(scale);
    const X(way) w = X(writing)(exchange, false);
    if (lanes < LANES)
        for (int64_t i = 0; i < n; i++)
            X(write_pairs)(at + i * step, X(scaled)(X(maybe_exchanged)(X(get)(x, i), exchange), s), lanes);
    else
        for (int64_t i = 0; i < n; i++) {
            X(fetch_behind)(at + i * step, POINT);
            X(write)(at + i * step, at + i * step + LANES, X(scaled)(X(get)(x, i), s), w);
        }
}

/* The first pass of a chain from LANES neighbouring columns, and the last one to them, `step` reals from one point to the next: what
   load_columns and store_columns do, without a buffer between. */
#define FFT_FIRST(R)                                                                                                  \
    static void X(first_##R)(const fac_fft_pass *p, const T *table, const T *at, int64_t step, bool exchange, T *y) { \
        const X(way) from = X(reading)(exchange, false);                                                              \
        for (int64_t b = 0; b < p->blocks; b++) {                                                                     \
            const T *w = table + p->twiddles + (b - 1) * 2 * ((R)-1);                                                 \
            CV a[R];                                                                                                  \
            _Pragma("GCC unroll 16") for (int j = 0; j < (R); j++)                                                    \
                X(fetch_behind)(at + (b + j * p->blocks) * step, POINT);                                              \
            _Pragma("GCC unroll 16") for (int j = 0; j < (R); j++) a[j] =                                             \
                X(read)(at + (b + j * p->blocks) * step, from);                                                       \
            X(dft_##R)(a, table + p->roots);                                                                          \
            X(put)(y, b * (R), a[0]);                                                                                 \
            _Pragma("GCC unroll 16") for (int k = 1; k < (R); k++)                                                    \
                X(put)(y, b * (R) + k, b ? X(times)(a[k], X(splat)(w + 2 * (k - 1))) : a[k]);                         \
        }                                                                                                             \
    }
#define FFT_LAST(R)                                                                                           \
    static void X(last_##R)(const fac_fft_pass *p, const T *x, T *at, int64_t step, bool exchange, T scale) { \
        const VT s = SPLAT(scale);                                                                            \
        const X(way) to = X(writing)(exchange, false);                                                        \
        for (int64_t q = 0; q < p->run; q++) {                                                                \
            CV a[R];                                                                                          \
            _Pragma("GCC unroll 16") for (int j = 0; j < (R); j++) a[j] = X(get)(x, q + j * p->run);          \
            X(dft_##R)(a, NULL);                                                                              \
            if (scale != 1) _Pragma("GCC unroll 16") for (int k = 0; k < (R); k++) a[k] = X(scaled)(a[k], s); \
            _Pragma("GCC unroll 16") for (int k = 0; k < (R); k++) {                                          \
                T *here = at + (q + k * p->run) * step;                                                       \
                X(fetch_behind)(here, POINT);                                                                 \
                X(write)(here, here + LANES, a[k], to);                                                       \
            }                                                                                                 \
        }                                                                                                     \
    }
/* A chain of one pass, from columns to columns. */
#define FFT_SOLE(R)                                                                                        \
    static void X(sole_##R)(const T *from, int64_t from_step, bool exchange_from, T *to, int64_t to_step,  \
                            bool exchange_to, T scale) {                                                   \
        const X(way) read = X(reading)(exchange_from, false), write = X(writing)(exchange_to, false);      \
        const VT s = SPLAT(scale);                                                                         \
        CV a[R];                                                                                           \
        _Pragma("GCC unroll 16") for (int j = 0; j < (R); j++) a[j] = X(read)(from + j * from_step, read); \
        X(dft_##R)(a, NULL);                                                                               \
        if (scale != 1) _Pragma("GCC unroll 16") for (int k = 0; k < (R); k++) a[k] = X(scaled)(a[k], s);  \
        _Pragma("GCC unroll 16") for (int k = 0; k < (R); k++)                                             \
            X(write)(to + k * to_step, to + k * to_step + LANES, a[k], write);                             \
    }

FFT_SOLE(8)
#if FAC_VECTOR_BYTES == 64
FFT_SOLE(16)
#endif
#undef FFT_SOLE
FFT_FIRST(3)
FFT_FIRST(4)
FFT_FIRST(5)
FFT_FIRST(8)
FFT_LAST(2)
FFT_LAST(4)
FFT_LAST(8)
#if FAC_VECTOR_BYTES == 64
FFT_LAST(16)
#endif
#undef FFT_FIRST
#undef FFT_LAST

/* Whether the first pass of a chain was made from `lanes` neighbouring columns; if not, they were loaded. */
static bool X(enter_chain)(const fac_fft_chain *c, const T *at, int64_t step, int lanes, bool exchange, T *buffer) {
    const fac_fft_pass *p = &c->pass[0];
    switch (lanes == LANES && c->passes > 1 ? p->radix : 0) {
    case 3: X(first_3)(p, c->table, at, step, exchange, buffer); return true;
    case 4: X(first_4)(p, c->table, at, step, exchange, buffer); return true;
    case 5: X(first_5)(p, c->table, at, step, exchange, buffer); return true;
    case 8: X(first_8)(p, c->table, at, step, exchange, buffer); return true;
    default: X(load_columns)(buffer, at, step, c->n, lanes, exchange); return false;
    }
}
/* The passes from `begin` on, to `lanes` neighbouring columns. */
static void X(leave_chain)(const fac_fft_chain *c, int begin, const T *x, T *buffer, T *other, T *at, int64_t step,
                           int lanes, bool exchange, T scale) {
    const int end = c->passes - 1;
    const int64_t radix = lanes == LANES && end >= 0 ? c->pass[end].radix : 0;
    const bool fused = radix == 2 || radix == 4 || radix == 8 || radix == 16;
    x = X(run_passes)(c, begin, fused ? end : c->passes, x, buffer, other);
    if (radix == 2)
        X(last_2)(&c->pass[end], x, at, step, exchange, scale);
    else if (radix == 4)
        X(last_4)(&c->pass[end], x, at, step, exchange, scale);
    else if (radix == 8)
        X(last_8)(&c->pass[end], x, at, step, exchange, scale);
#if FAC_VECTOR_BYTES == 64
    else if (radix == 16)
        X(last_16)(&c->pass[end], x, at, step, exchange, scale);
#endif
    else
        X(store_columns)(x, at, step, c->n, lanes, exchange, scale);
}

/* Whether a chain of one pass went from LANES neighbouring columns to others. */
static bool X(run_sole)(int64_t n, const T *from, int64_t from_step, bool exchange_from, T *to, int64_t to_step,
                        bool exchange_to, T scale) {
    switch (n) {
    case 8: X(sole_8)(from, from_step, exchange_from, to, to_step, exchange_to, scale); return true;
#if FAC_VECTOR_BYTES == 64
    case 16: X(sole_16)(from, from_step, exchange_from, to, to_step, exchange_to, scale); return true;
#endif
    default: return false;
    }
}

/* Element by element, from point `begin` on. */
static void X(load_any)(T *x, const VIEW *v, int64_t begin, int64_t n) {
    for (int64_t i = begin; i < n; i++)
        for (int lane = 0; lane < LANES; lane++) {
            const T *at = (const T *)v->at[lane < v->lanes ? lane : 0] + i * v->step;
            x[i * POINT + lane] = v->exchange ? at[v->im] : at[0];
            x[i * POINT + LANES + lane] = v->im == 0 ? 0 : v->exchange ? at[0] : at[v->im];
        }
}
static void X(store_any)(const T *x, const VIEW *v, int64_t begin, int64_t n, T scale) {
    const int first = v->exchange ? LANES : 0, second = LANES - first;
    for (int64_t i = begin; i < n; i++)
        for (int lane = 0; lane < v->lanes; lane++) {
            T *at = (T *)v->at[lane] + i * v->step;
            at[0] = x[i * POINT + first + lane] * scale;
            if (v->im) at[v->im] = x[i * POINT + second + lane] * scale;
        }
}

#if FAC_VECTOR_BYTES < 64
static FAC_ALWAYS_INLINE void X(square)(VT *v, const T *at, int64_t step) {
#pragma GCC unroll 16
    for (int i = 0; i < LANES; i++) v[i] = LOAD(at + i * step);
    TRANSPOSE(v);
}
static FAC_ALWAYS_INLINE void X(pairs)(VT *re, VT *im, T *const *at, int64_t i) {
#pragma GCC unroll 16
    for (int lane = 0; lane < LANES; lane++) {
        const CV a = X(read_pairs)(at[lane] + 2 * i, LANES);
        re[lane] = a.re;
        im[lane] = a.im;
    }
    TRANSPOSE(re);
    TRANSPOSE(im);
}
static FAC_ALWAYS_INLINE void X(unpair)(VT *re, VT *im) {
    TRANSPOSE(re);
    TRANSPOSE(im);
#pragma GCC unroll 16
    for (int lane = 0; lane < LANES; lane++) {
        const VT low = ZIP_LO(re[lane], im[lane]);
        im[lane] = ZIP_HI(re[lane], im[lane]);
        re[lane] = low;
    }
}
#endif

/* The square after the points before i, of which a last one that is not full does some points once more; below 0 if there is none, or
   so few points that single ones are faster. */
static FAC_ALWAYS_INLINE int64_t X(next_square)(int64_t i, int64_t n) {
    return i + LANES <= n ? i : n >= LANES && n - i > 2 ? n - LANES : -1;
}

#if FAC_VECTOR_BYTES == 64
/* Lines of fewer points than there are lanes. */
static void X(load_few)(T *x, const VIEW *v, int64_t n) {
    if (2 * n <= LANES) { /* a vector each */
        VT part[LANES];
#pragma GCC unroll 16
        for (int lane = 0; lane < LANES; lane++) part[lane] = X(load_first)(v->at[lane < v->lanes ? lane : 0], 2 * n);
        TRANSPOSE(part);
#pragma GCC unroll 16
        for (int k = 0; k < LANES / 2; k++)
            if (k < n) X(put)(x, k, X(maybe_exchanged)((CV){part[2 * k], part[2 * k + 1]}, v->exchange));
        return;
    }
    T room[LANES * POINT], *at[LANES];
    for (int lane = 0; lane < LANES; lane++) {
        const T *from = v->at[lane < v->lanes ? lane : 0];
        at[lane] = room + lane * POINT;
        STORE(at[lane], X(load_first)(from, 2 * n));
        STORE(at[lane] + LANES, X(load_first)(from + LANES, 2 * n - LANES));
    }
    VT re[LANES], im[LANES];
    X(pairs)(re, im, at, 0);
    for (int k = 0; k < n; k++) X(put)(x, k, X(maybe_exchanged)((CV){re[k], im[k]}, v->exchange));
}
static void X(store_few)(const T *x, const VIEW *v, int64_t n, T scale) {
    const VT s = SPLAT(scale);
    if (2 * n <= LANES) {
        VT part[LANES];
#pragma GCC unroll 16
        for (int k = 0; k < LANES / 2; k++) {
            const CV a = X(scaled)(X(maybe_exchanged)(X(get)(x, k < n ? k : 0), v->exchange), s);
            part[2 * k] = a.re, part[2 * k + 1] = a.im;
        }
        TRANSPOSE(part);
#pragma GCC unroll 16
        for (int lane = 0; lane < LANES; lane++)
            if (lane < v->lanes) X(store_first)(v->at[lane], part[lane], 2 * n);
        return;
    }
    VT re[LANES] = {0}, im[LANES] = {0};
    for (int k = 0; k < n; k++) {
        const CV a = X(scaled)(X(maybe_exchanged)(X(get)(x, k), v->exchange), s);
        re[k] = a.re;
        im[k] = a.im;
    }
    X(unpair)(re, im);
    for (int lane = 0; lane < v->lanes; lane++) {
        T *to = v->at[lane];
        X(store_first)(to, re[lane], 2 * n);
        X(store_first)(to + LANES, im[lane], 2 * n - LANES);
    }
}
#endif

/* How far from the lines of a group those of the next one lie, if lines are evenly apart. */
static FAC_ALWAYS_INLINE int64_t X(next_group)(const VIEW *v) {
    return v->lanes < LANES ? 0 : LANES * ((char *)v->at[1] - (char *)v->at[0]);
}

/* Lines whose points lie side by side: squares of LANES points go through registers, while the same of the next group is fetched.
   Returns how many points it did. */
static int64_t X(load_rows)(T *x, const VIEW *v, int64_t n) {
    int64_t done = 0;
    T *at[LANES];
#if FAC_VECTOR_BYTES == 64
    if (n > 1 && n < LANES) {
        X(load_few)(x, v, n);
        return n;
    }
#endif
    for (int lane = 0; lane < LANES; lane++) at[lane] = v->at[lane < v->lanes ? lane : 0];
    const int64_t ahead = X(next_group)(v);
    for (int64_t i; (i = X(next_square)(done, n)) >= 0; done = i + LANES) {
        VT re[LANES], im[LANES];
        for (int lane = 0; lane < LANES; lane++) {
            __builtin_prefetch((char *)(at[lane] + 2 * i) + ahead, 0, 2);
            __builtin_prefetch((char *)(at[lane] + 2 * i + LANES) + ahead, 0, 2);
        }
        X(pairs)(re, im, at, i);
#pragma GCC unroll 16
        for (int k = 0; k < LANES; k++) X(put)(x, i + k, X(maybe_exchanged)((CV){re[k], im[k]}, v->exchange));
    }
    return done;
}
static int64_t X(store_rows)(const T *x, const VIEW *v, int64_t n, T scale) {
    int64_t done = 0;
    const VT s = SPLAT(scale);
#if FAC_VECTOR_BYTES == 64
    if (n > 1 && n < LANES) {
        X(store_few)(x, v, n, scale);
        return n;
    }
#endif
    const int64_t ahead = X(next_group)(v);
    for (int64_t i; (i = X(next_square)(done, n)) >= 0; done = i + LANES) {
        VT re[LANES], im[LANES];
        for (int lane = 0; lane < v->lanes; lane++) {
            __builtin_prefetch((char *)((T *)v->at[lane] + 2 * i) + ahead, 1, 2);
            __builtin_prefetch((char *)((T *)v->at[lane] + 2 * i + LANES) + ahead, 1, 2);
        }
#pragma GCC unroll 16
        for (int k = 0; k < LANES; k++) {
            const CV a = X(scaled)(X(maybe_exchanged)(X(get)(x, i + k), v->exchange), s);
            re[k] = a.re;
            im[k] = a.im;
        }
        X(unpair)(re, im);
#pragma GCC unroll 16
        for (int lane = 0; lane < LANES; lane++) {
            if (lane >= v->lanes) break;
            STORE((T *)v->at[lane] + 2 * i, re[lane]);
            STORE((T *)v->at[lane] + 2 * i + LANES, im[lane]);
        }
    }
    return done;
}

/* Neighbouring lines of reals: real and imaginary parts are vectors already. */
static void X(load_reals)(T *x, const VIEW *v, int64_t n) {
    const VT none = SPLAT(0);
    for (int64_t i = 0; i < n; i++) {
        const T *at = (const T *)v->at[0] + i * v->step;
        X(fetch_behind)(at, LANES);
        X(put)(x, i, X(maybe_exchanged)((CV){LOAD(at), v->im ? LOAD(at + v->im) : none}, v->exchange));
    }
}
static void X(store_reals)(const T *x, const VIEW *v, int64_t n, T scale) {
    const VT s = SPLAT(scale);
    for (int64_t i = 0; i < n; i++) {
        const CV a = X(scaled)(X(maybe_exchanged)(X(get)(x, i), v->exchange), s);
        T *at = (T *)v->at[0] + i * v->step;
        X(fetch_behind)(at, LANES);
        STORE(at, a.re);
        if (v->im) STORE(at + v->im, a.im);
    }
}

static void X(load)(T *x, const VIEW *v, int64_t n) {
    if (v->adjacent && v->im == 1)
        X(load_columns)(x, v->at[0], v->step, n, v->lanes, v->exchange);
    else if (v->adjacent && v->lanes == LANES)
        X(load_reals)(x, v, n);
    else
        X(load_any)(x, v, v->step == 2 && v->im == 1 ? X(load_rows)(x, v, n) : 0, n);
}
static void X(store)(const T *x, const VIEW *v, int64_t n, T scale) {
    if (v->adjacent && v->im == 1)
        X(store_columns)(x, v->at[0], v->step, n, v->lanes, v->exchange, scale);
    else if (v->adjacent && v->lanes == LANES)
        X(store_reals)(x, v, n, scale);
    else
        X(store_any)(x, v, v->step == 2 && v->im == 1 ? X(store_rows)(x, v, n, scale) : 0, n, scale);
}

/* ---- real lines -------------------------------------------------------------------------------------------------------------------- */

/* Z is the transform of z[j] = x[2 j] + i x[2 j + 1], of h = n / 2 points. With a = Z[k], b = conj(Z[h - k]) and the factor
   u = -i w^k / 2, the transform of x at k is (a + b) / 2 + u (a - b), and at h - k the conjugate of (a + b) / 2 - u (a - b). The
   other way it is the same with conj(u), but for a factor of two, which the scale of the inverse has (kernels/fft.c). */
static FAC_ALWAYS_INLINE void X(unfold)(CV *p, CV *q, CV u) {
    const VT half = SPLAT((T)0.5);
    const CV b = X(conj)(*q), s = X(plus)(*p, b), d = X(times)((CV){p->re - b.re, p->im - b.im}, u);
    *p = (CV){FMA(s.re, half, d.re), FMA(s.im, half, d.im)};
    *q = (CV){FMA(s.re, half, -d.re), FMA(s.im, -half, d.im)};
}
static FAC_ALWAYS_INLINE void X(fold)(CV *p, CV *q, CV u) { X(unfold)(p, q, X(conj)(u)); }

/* Factors of LANES points, or of one in all lanes. `table`: real parts of the points 0 to h / 2, then their imaginary parts. */
static FAC_ALWAYS_INLINE CV X(unfold_run)(const fac_fft_plan *p, int64_t k) {
    const T *table = p->unfold;
    return (CV){LOAD(table + k), LOAD(table + p->inner / 2 + 1 + k)};
}
static FAC_ALWAYS_INLINE CV X(unfold_one)(const fac_fft_plan *p, int64_t k) {
    const T *table = p->unfold;
    return (CV){SPLAT(table[k]), SPLAT(table[p->inner / 2 + 1 + k])};
}

/* The point 0 of Z makes the points 0 and h. */
static FAC_ALWAYS_INLINE void X(unfold_ends)(CV *p, CV *q) {
    const CV z = *p;
    *p = (CV){z.re + z.im, SPLAT(0)};
    *q = (CV){z.re - z.im, SPLAT(0)};
}
/* The imaginary parts of the points 0 and h are not looked at. */
static FAC_ALWAYS_INLINE CV X(fold_ends)(CV p, CV q) {
    const VT half = SPLAT((T)0.5);
    return (CV){(p.re + q.re) * half, (p.re - q.re) * half};
}

static void X(unfold_lanes)(const fac_fft_plan *plan, T *x) {
    const int64_t h = plan->inner;
    CV first = X(get)(x, 0), last;
    X(unfold_ends)(&first, &last);
    X(put)(x, 0, first);
    for (int64_t k = 1; 2 * k <= h; k++) {
        CV p = X(get)(x, k), q = X(get)(x, h - k);
        X(unfold)(&p, &q, X(unfold_one)(plan, k));
        X(put)(x, k, p);
        if (2 * k < h) X(put)(x, h - k, q);
    }
    X(put)(x, h, last);
}
/* Leaves the parts exchanged, for an inverse transform. */
static void X(fold_lanes)(const fac_fft_plan *plan, T *x) {
    const int64_t h = plan->inner;
    X(put)(x, 0, X(exchanged)(X(fold_ends)(X(get)(x, 0), X(get)(x, h))));
    for (int64_t k = 1; 2 * k <= h; k++) {
        CV p = X(get)(x, k), q = X(get)(x, h - k);
        X(fold)(&p, &q, X(unfold_one)(plan, k));
        X(put)(x, k, X(exchanged)(p));
        if (2 * k < h) X(put)(x, h - k, X(exchanged)(q));
    }
}
/* Points above n / 2 are conjugates of those below. */
static void X(mirror_lanes)(T *x, int64_t n) {
    for (int64_t k = 1; 2 * k < n; k++) X(put)(x, n - k, X(conj)(X(get)(x, k)));
}
static void X(exchange_lanes)(T *x, int64_t n) {
    for (int64_t k = 0; k < n; k++) X(put)(x, k, X(exchanged)(X(get)(x, k)));
}

/* ---- groups of lines ---------------------------------------------------------------------------------------------------------------- */

static VIEW X(view_of)(const fac_fft_plan *p, const fac_fft_lines *l, int lanes) {
    VIEW v = {.at = l->at, .step = l->step, .im = l->complex, .lanes = lanes, .adjacent = l->adjacent};
    if (!l->complex && p->inner < p->n) {
        v.step = 2 * l->step;
        v.im = l->step;
    }
    return v;
}

/* What kinds make of loaded points, in place. The line that becomes real is loaded as it stands: its inverse exchanges here. */
static void X(enter_lanes)(const fac_fft_plan *p, T *x) {
    if (p->kind != FAC_FFT_TO_REAL) return;
    if (p->inner < p->n) {
        X(fold_lanes)(p, x);
        return;
    }
    CV first = X(get)(x, 0);
    first.im = SPLAT(0);
    X(put)(x, 0, first);
    X(mirror_lanes)(x, p->n);
    X(exchange_lanes)(x, p->n);
}

static const T *X(chirped_lanes)(const fac_fft_plan *p, T *x, T *y) {
    const T *chirp = p->chirp, *filter = p->filter;
    for (int64_t k = 0; k < p->inner; k++) X(put)(x, k, X(times)(X(get)(x, k), X(splat)(chirp + 2 * k)));
    memset(x + p->inner * POINT, 0, (size_t)(p->core.n - p->inner) * POINT * sizeof(T));
    T *z = X(run_chain)(&p->core.whole, x, x, y) == x ? x : y;
    for (int64_t k = 0; k < p->core.n; k++)
        X(put)(z, k, X(exchanged)(X(times)(X(get)(z, k), X(splat)(filter + 2 * k))));
    z = X(run_chain)(&p->core.whole, z, x, y) == x ? x : y;
    for (int64_t k = 0; k < p->inner; k++) X(put)(z, k, X(times)(X(exchanged)(X(get)(z, k)), X(splat)(chirp + 2 * k)));
    return z;
}

#include "backend/cpu/fft/fft_line.h"
#include "backend/cpu/fft/fft_short.h"

/* ---- groups of lines ---------------------------------------------------------------------------------------------------------------- */

void FAC_ISA_NAME(X(fac__fft_group))(const fac_fft_group *g, void *scratch) {
    const fac_fft_plan *p = g->plan;
    const int64_t half = p->n / 2 + 1, in = p->kind == FAC_FFT_TO_REAL ? half : p->inner,
                  out = p->kind != FAC_FFT_FROM_REAL ? p->inner
                        : g->two_sided               ? p->n
                                                     : half;
#if SHORT_LINES
    if (X(is_short)(g)) {
        X(short_lines)(g, scratch);
        return;
    }
#endif
    T *x = scratch, *y = x + fac__max(p->core.n, p->n + 1) * POINT;
    VIEW from = X(view_of)(p, &g->in, g->lanes), to = X(view_of)(p, &g->out, g->lanes);
    from.exchange = g->inverse && p->kind == FAC_FFT_COMPLEX;
    to.exchange = g->inverse;
    if (p->kind == FAC_FFT_COMPLEX && !p->chirped && from.adjacent && to.adjacent && from.lanes == LANES) {
        const fac_fft_chain *c = &p->core.whole;
        if (X(run_sole)(c->n, from.at[0], from.step, from.exchange, to.at[0], to.step, to.exchange, (T)g->scale))
            return;
        const int done = X(enter_chain)(c, from.at[0], from.step, LANES, from.exchange, x);
        X(leave_chain)(c, done, x, x, y, to.at[0], to.step, LANES, to.exchange, (T)g->scale);
        return;
    }
    X(load)(x, &from, in);
    X(enter_lanes)(p, x);
    T *z = (p->chirped ? X(chirped_lanes)(p, x, y) : X(run_chain)(&p->core.whole, x, x, y)) == x ? x : y;
    if (p->kind == FAC_FFT_FROM_REAL && p->inner < p->n) X(unfold_lanes)(p, z);
    if (p->kind == FAC_FFT_FROM_REAL && g->two_sided) X(mirror_lanes)(z, p->n);
    X(store)(z, &to, out, (T)g->scale);
}

#undef CV
#undef SHORT_LINES
#undef PAIR_WAYS
#undef POINT
#undef VIEW
