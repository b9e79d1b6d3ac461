/* Short lines, one or two of which fill a square of lanes, for one type of real number: fft_body.h includes it for each. */

#if LANES >= 8
#define SHORT_LINES 1
/* LANES columns of LANES rows, or of half as many or fewer, of as many lines at once as a square has room for. */
static bool X(is_short)(const fac_fft_group *g) {
    if (!g->plan->core.short_lines || g->plan->chirped) return false;
    const int64_t from = g->in.complex ? 2 : 1, to = g->out.complex ? 2 : 1;
    if (g->in.step != from || g->out.step != to) return false;
    if (g->plan->inner == g->plan->n) return g->plan->kind == FAC_FFT_COMPLEX;
    /* Lines of real numbers: of those with factors ready, the ones that `eights` transforms. */
    return g->plan->core.short_factors ? g->plan->inner >= 64 : 2 * g->plan->core.columns.n >= LANES;
}

/* Lines that fill one square, or nearly: one of LANES rows, or two, each in half of it. */
static void X(short_square)(const fac_fft_core *c, T *const *from, T *const *to, bool exchange_from, bool exchange_to,
                            T scale, T *x) {
    const int64_t rows = c->columns.n, step = 2 * rows, room = rows == LANES ? LANES : LANES / 2;
    T *next = rows == LANES ? to[0] + LANES : to[1];
#if LANES == 8
    if (rows == 8) { /* it stays in registers */
        const X(way) way = X(reading)(exchange_from, false);
        VT re[8], im[8];
        CV a[8];
#pragma GCC unroll 8
        for (int i = 0; i < 8; i++) a[i] = X(read)(from[0] + i * POINT, way);
        X(dft_8)(a, NULL);
#pragma GCC unroll 8
        for (int i = 0; i < 8; i++) {
            if (i > 0) a[i] = X(times)(a[i], X(get)(c->lane_twiddles, i));
            re[i] = a[i].re;
            im[i] = a[i].im;
        }
        TRANSPOSE(re);
        TRANSPOSE(im);
        X(leave_square)(re, im, to[0], next, step, exchange_to, scale);
        return;
    }
#endif
    for (int64_t i = 0; i * room < LANES; i++) {
        T *at = x + i * room * POINT;
        X(only)(c, from[i], POINT, exchange_from, 0, at);
        memset(at + rows * POINT, 0, (size_t)(room - rows) * POINT * sizeof(T));
    }
    X(row_square)(x, to[0], next, step, exchange_to, scale);
}

#if LANES == 16
/* Two lines of 64 points, or the two halves of one of 128, which a first pass of radix 2 makes two of 64: each of 8 columns and as many
   rows, in half a vector, and never out of registers. */
static void X(eights)(const fac_fft_core *c, T *const *from, T *const *to, bool exchange_from, bool exchange_to,
                      T scale) {
    static const int32_t apart[16] = {0, 16, 1, 17, 2, 18, 3, 19, 8, 24, 9, 25, 10, 26, 11, 27},
                         in_turn[16] = {0, 16, 4, 20, 1, 17, 5, 21, 2, 18, 6, 22, 3, 19, 7, 23};
    const X(way) read = X(reading)(exchange_from, false);
    const VT s = SPLAT(scale), sign = {1, 1, 1, 1, 1, 1, 1, 1, -1, -1, -1, -1, -1, -1, -1, -1};
    const bool halves = c->n == 128;
    const T *at = from[0], *other = halves ? at + 128 : from[1];
    CV a[8];
#pragma GCC unroll 8
    for (int r = 0; r < 8; r++) {
        const VT low = LOAD(at + 16 * r), high = LOAD(other + 16 * r);
        a[r] = (CV){X(pick)(low, read.first, high), X(pick)(low, read.second, high)};
    }
    if (halves)
#pragma GCC unroll 8
        for (int r = 0; r < 8; r++) {
            const VT re = (VT)_mm512_shuffle_f32x4((__m512)a[r].re, (__m512)a[r].re, 0x4e),
                     im = (VT)_mm512_shuffle_f32x4((__m512)a[r].im, (__m512)a[r].im, 0x4e);
            a[r] = X(times)((CV){FMA(a[r].re, sign, re), FMA(a[r].im, sign, im)}, X(get)(c->short_factors, 8 + r));
        }
    X(dft_8)(a, NULL);
#pragma GCC unroll 8
    for (int r = 1; r < 8; r++) a[r] = X(times)(a[r], X(get)(c->short_factors, r));
        /* Points of column k: rows 0 to 3 of both lines, then rows 4 to 7. */
#pragma GCC unroll 2
    for (int part = 0; part < 2; part++) {
        __m512 v[8];
        VT t[8];
#pragma GCC unroll 8
        for (int r = 0; r < 8; r++) v[r] = (__m512)(part ? a[r].im : a[r].re);
        turn_quarters(v, &t[0], &t[1], &t[2], &t[3]);
        turn_quarters(v + 4, &t[4], &t[5], &t[6], &t[7]);
#pragma GCC unroll 4
        for (int k = 0; k < 4; k++) {
            const VT first = (VT)_mm512_shuffle_f32x4((__m512)t[k], (__m512)t[4 + k], 0x88),
                     second = (VT)_mm512_shuffle_f32x4((__m512)t[k], (__m512)t[4 + k], 0xdd);
            *(part ? &a[k].im : &a[k].re) = first;
            *(part ? &a[k + 4].im : &a[k + 4].re) = second;
        }
    }
    X(dft_8)(a, NULL);
    if (scale != 1)
#pragma GCC unroll 8
        for (int k = 0; k < 8; k++) a[k] = X(scaled)(a[k], s);
    const __m512i parts = LANE_BITS(exchange_to ? LANES : 0),
                  first = _mm512_xor_si512(_mm512_loadu_si512(halves ? in_turn : apart), parts);
    const X(way) write = {first, _mm512_xor_si512(first, _mm512_set1_epi32(halves ? 8 : 4))};
    T *out = to[0], *next = halves ? out + 16 : to[1];
    const int64_t step = halves ? 32 : 16;
#pragma GCC unroll 8
    for (int k = 0; k < 8; k++) X(write)(out + k * step, next + k * step, a[k], write);
}
#endif

#if FAC_VECTOR_BYTES == 64
/* Numbers whose parts stay side by side, four of each line in a vector: LANES / 8 lines. `turn`: 1 and -1, of an inverse transform -1 and
   1, which make of exchanged parts the number times -i, or i. */
static FAC_ALWAYS_INLINE VT X(differ)(VT a, VT b) { return FMA(b, SPLAT(-1), a); }
static FAC_ALWAYS_INLINE void X(fours_dft_4)(VT *a, VT turn) {
    const VT s = a[0] + a[2], d = X(differ)(a[0], a[2]), t = a[1] + a[3], e = FLIP(X(differ)(a[1], a[3]));
    a[0] = s + t;
    a[1] = FMA(e, turn, d);
    a[2] = X(differ)(s, t);
    a[3] = FMA(-e, turn, d);
}
static FAC_ALWAYS_INLINE void X(fours_dft_8)(VT *a, VT turn) {
    VT even[4] = {a[0], a[2], a[4], a[6]}, odd[4] = {a[1], a[3], a[5], a[7]};
    const VT half = SPLAT((T)0.70710678118654752440);
    X(fours_dft_4)(even, turn);
    X(fours_dft_4)(odd, turn);
    const VT first = FMA(FLIP(odd[1]), turn, odd[1]), second = FLIP(odd[2]), third = FMA(FLIP(odd[3]), turn, -odd[3]);
    a[0] = even[0] + odd[0];
    a[4] = X(differ)(even[0], odd[0]);
    a[1] = FMA(first, half, even[1]);
    a[5] = FMA(-first, half, even[1]);
    a[2] = FMA(second, turn, even[2]);
    a[6] = FMA(-second, turn, even[2]);
    a[3] = FMA(third, half, even[3]);
    a[7] = FMA(-third, half, even[3]);
}
/* 3 q points, of which 3 and q have no factor in common, so that there are no factors between (Good 1958). */
static FAC_ALWAYS_INLINE void X(fours_dft_3)(VT *a, int q, VT turn) {
    const VT half = SPLAT((T)-0.5), sine = turn * SPLAT((T)0.86602540378443864676);
    VT t[3][8];
#pragma GCC unroll 8
    for (int b = 0; b < q; b++) {
        const VT x = a[3 * b], y = a[(q + 3 * b) % (3 * q)], z = a[(2 * q + 3 * b) % (3 * q)], s = y + z,
                 m = FMA(s, half, x), d = FLIP(X(differ)(y, z));
        t[0][b] = x + s;
        t[1][b] = FMA(d, sine, m);
        t[2][b] = FMA(-d, sine, m);
    }
#pragma GCC unroll 3
    for (int k = 0; k < 3; k++)
        if (q == 4)
            X(fours_dft_4)(t[k], turn);
        else
            X(fours_dft_8)(t[k], turn);
#pragma GCC unroll 24
    for (int k = 0; k < 3 * q; k++) a[k] = t[k % 3][k % q];
}
/* Rows of four points become columns. */
static FAC_ALWAYS_INLINE void X(turn_fours)(VT *v) {
#if LANES == 16
    const __m512i low = _mm512_setr_epi64(0, 1, 8, 9, 4, 5, 12, 13),
                  high = _mm512_setr_epi64(2, 3, 10, 11, 6, 7, 14, 15);
    const __m512d a = _mm512_unpacklo_pd((__m512d)v[0], (__m512d)v[1]),
                  b = _mm512_unpackhi_pd((__m512d)v[0], (__m512d)v[1]),
                  c = _mm512_unpacklo_pd((__m512d)v[2], (__m512d)v[3]),
                  d = _mm512_unpackhi_pd((__m512d)v[2], (__m512d)v[3]);
    v[0] = (VT)_mm512_permutex2var_pd(a, low, c);
    v[1] = (VT)_mm512_permutex2var_pd(b, low, d);
    v[2] = (VT)_mm512_permutex2var_pd(a, high, c);
    v[3] = (VT)_mm512_permutex2var_pd(b, high, d);
#else
    __m512 t[4];
    turn_wholes((__m512)v[0], (__m512)v[1], (__m512)v[2], (__m512)v[3], &t[0], &t[1], &t[2], &t[3]);
#pragma GCC unroll 4
    for (int k = 0; k < 4; k++) v[k] = (VT)t[k];
#endif
}

/* Lines of 16, 32, 48 or 96 points, in four columns each. The last one may be done once more. */
static FAC_ALWAYS_INLINE void X(fours)(const fac_fft_group *g, int rows) {
    const T *re = g->plan->core.short_factors, *im = re + (g->inverse ? 2 : 1) * LANES;
    const VT turn = LOAD(g->inverse ? TURNS + 1 : TURNS), scale = SPLAT((T)g->scale);
    const bool scales = g->scale != 1;
    for (int first = 0; first < g->lanes; first += LANES / 8) {
        const T *from = g->in.at[first];
        T *to = g->out.at[first];
        VT a[24];
#if LANES == 16
        const int last = first + 1 < g->lanes ? first + 1 : first;
        const T *from_next = g->in.at[last];
        T *to_next = g->out.at[last];
#pragma GCC unroll 24
        for (int r = 0; r < rows; r++)
            a[r] = (VT)_mm512_mask_broadcast_f32x8(_mm512_castps256_ps512(_mm256_loadu_ps(from + 8 * r)), 0xff00,
                                                   _mm256_loadu_ps(from_next + 8 * r));
#else
#pragma GCC unroll 24
        for (int r = 0; r < rows; r++) a[r] = LOAD(from + 8 * r);
#endif
        if (rows == 4)
            X(fours_dft_4)(a, turn);
        else if (rows == 8)
            X(fours_dft_8)(a, turn);
        else
            X(fours_dft_3)(a, rows / 3, turn);
#pragma GCC unroll 24
        for (int r = 1; r < rows; r++)
            a[r] = FMA(a[r], LOAD(re + 3 * r * LANES), FLIP(a[r]) * LOAD(im + 3 * r * LANES));
#pragma GCC unroll 6
        for (int begin = 0; begin < rows; begin += 4) {
            VT *b = a + begin;
            X(turn_fours)(b);
            X(fours_dft_4)(b, turn);
            if (scales)
#pragma GCC unroll 4
                for (int k = 0; k < 4; k++) b[k] *= scale;
#pragma GCC unroll 4
            for (int k = 0; k < 4; k++) {
                const int at = 2 * (k * rows + begin);
#if LANES == 16
                _mm256_storeu_ps(to + at, _mm512_castps512_ps256((__m512)b[k]));
                _mm256_storeu_ps(to_next + at, _mm512_extractf32x8_ps((__m512)b[k], 1));
#else
                STORE(to + at, b[k]);
#endif
            }
        }
    }
}
static void X(fours_16)(const fac_fft_group *g) { X(fours)(g, 4); }
static void X(fours_32)(const fac_fft_group *g) { X(fours)(g, 8); }
static void X(fours_48)(const fac_fft_group *g) { X(fours)(g, 12); }
static void X(fours_96)(const fac_fft_group *g) { X(fours)(g, 24); }
static bool X(run_fours)(const fac_fft_group *g) {
    switch (g->plan->core.n) {
    case 16: X(fours_16)(g); return true;
    case 32: X(fours_32)(g); return true;
    case 48: X(fours_48)(g); return true;
    case 96: X(fours_96)(g); return true;
    default: return false;
    }
}
#endif

static void X(short_lines)(const fac_fft_group *g, T *scratch) {
    const fac_fft_plan *p = g->plan;
#if FAC_VECTOR_BYTES == 64
    if (X(run_fours)(g)) return;
#endif
    const int each = (p->core.short_factors ? 128 : LANES * LANES) > p->inner ? 2 : 1;
    const bool enters = p->kind == FAC_FFT_TO_REAL, leaves = p->kind == FAC_FFT_FROM_REAL;
    const T scale = leaves ? 1 : (T)g->scale;
    T *x = scratch, *work = x + LANES * POINT;
    fac_fft_line l = {.plan = p,
                      .inverse = g->inverse,
                      .two_sided = g->two_sided,
                      .scale = g->scale,
                      .in_step = g->in.step,
                      .out_step = g->out.step};
    for (int first = 0; first < g->lanes; first += each) {
        const int last = (int)fac__min(first + each, g->lanes) - 1;
        T *own[2] = {work, work + (last - first) * 2 * p->inner}, *from[2] = {g->in.at[first], g->in.at[last]},
          *to[2] = {g->out.at[first], g->out.at[last]};
        for (int i = first; enters && i <= last; i++) {
            l.in = g->in.at[i];
            l.work = own[i - first];
            X(stage_enter)(&l, 0, p->inner / 2 + 1);
        }
        T **source = enters ? own : from, **target = leaves ? own : to;
#if LANES == 16
        if (p->core.short_factors)
            X(eights)(&p->core, source, target, !enters && g->inverse, !leaves && g->inverse, scale);
        else
#endif
            X(short_square)(&p->core, source, target, !enters && g->inverse, !leaves && g->inverse, scale, x);
        for (int i = first; leaves && i <= last; i++) {
            l.out = g->out.at[i];
            l.work = own[i - first];
            X(stage_leave)(&l, 0, p->inner / 2 + 1);
        }
    }
}
#else
#define SHORT_LINES 0
#endif
