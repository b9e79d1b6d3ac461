/* Short lines, one or two of which fill a square of lanes, for one type of real number: fft_body.h includes it for each. */

#if LANES >= 8
#define SHORT_LINES 1
/* LANES columns of LANES rows, or of half as many or fewer, of as many lines at once as a square has room for. */
static bool X(is_short)(const fac_fft_group *g) {
    if (!g->plan->core.short_lines || g->plan->chirped) return false;
    const int64_t from = g->in.complex ? 2 : 1, to = g->out.complex ? 2 : 1;
    if (g->in.step != from || g->out.step != to) return false;
    if (g->plan->inner == g->plan->n) return g->plan->kind == FAC_FFT_COMPLEX;
    return !g->plan->core.short_factors && 2 * g->plan->core.columns.n >= LANES;
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
/* Of rows of four points of LANES / 4 lines, four at a time: points of a column become neighbours. */
static FAC_ALWAYS_INLINE void X(turn_fours)(const VT *v, VT *to) {
#if LANES == 16
    const __m512 a[4] = {(__m512)v[0], (__m512)v[1], (__m512)v[2], (__m512)v[3]};
    turn_quarters(a, &to[0], &to[1], &to[2], &to[3]);
#else
    const __m512i low = _mm512_setr_epi64(0, 1, 8, 9, 4, 5, 12, 13),
                  high = _mm512_setr_epi64(2, 3, 10, 11, 6, 7, 14, 15);
    const VT a = (VT)_mm512_unpacklo_pd((__m512d)v[0], (__m512d)v[1]),
             b = (VT)_mm512_unpackhi_pd((__m512d)v[0], (__m512d)v[1]),
             c = (VT)_mm512_unpacklo_pd((__m512d)v[2], (__m512d)v[3]),
             d = (VT)_mm512_unpackhi_pd((__m512d)v[2], (__m512d)v[3]);
    to[0] = X(pick)(a, low, c);
    to[1] = X(pick)(b, low, d);
    to[2] = X(pick)(a, high, c);
    to[3] = X(pick)(b, high, d);
#endif
}
/* LANES / 4 lines of 16 or 32 points, in four columns each, that never leave registers. */
static FAC_ALWAYS_INLINE void X(fours)(const fac_fft_core *c, int rows, T *const *from, T *const *to,
                                       bool exchange_from, bool exchange_to, T scale) {
    const X(way) read = X(reading)(exchange_from, false), write = X(writing)(exchange_to, false);
    const VT s = SPLAT(scale);
    CV a[8];
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++) {
#if LANES == 16
        const VT low = (VT)_mm512_insertf32x8(_mm512_castps256_ps512(_mm256_loadu_ps(from[0] + 8 * r)),
                                              _mm256_loadu_ps(from[1] + 8 * r), 1),
                 high = (VT)_mm512_insertf32x8(_mm512_castps256_ps512(_mm256_loadu_ps(from[2] + 8 * r)),
                                               _mm256_loadu_ps(from[3] + 8 * r), 1);
#else
        const VT low = LOAD(from[0] + 8 * r), high = LOAD(from[1] + 8 * r);
#endif
        a[r] = (CV){X(pick)(low, read.first, high), X(pick)(low, read.second, high)};
    }
    if (rows == 4)
        X(dft_4)(a, NULL);
    else
        X(dft_8)(a, NULL);
#pragma GCC unroll 8
    for (int r = 1; r < rows; r++) a[r] = X(times)(a[r], X(get)(c->short_factors, r));
#pragma GCC unroll 2
    for (int first = 0; first < rows; first += 4) {
        VT re[4], im[4];
        CV b[4];
#pragma GCC unroll 4
        for (int r = 0; r < 4; r++) re[r] = a[first + r].re, im[r] = a[first + r].im;
        X(turn_fours)(re, re);
        X(turn_fours)(im, im);
#pragma GCC unroll 4
        for (int k = 0; k < 4; k++) b[k] = (CV){re[k], im[k]};
        X(dft_4)(b, NULL);
#pragma GCC unroll 4
        for (int k = 0; k < 4; k++) {
            const CV p = scale != 1 ? X(scaled)(b[k], s) : b[k];
            const int64_t at = 2 * (k * rows + first);
            const VT low = X(pick)(p.re, write.first, p.im), high = X(pick)(p.re, write.second, p.im);
#if LANES == 16
            _mm256_storeu_ps(to[0] + at, _mm512_castps512_ps256((__m512)low));
            _mm256_storeu_ps(to[1] + at, _mm512_extractf32x8_ps((__m512)low, 1));
            _mm256_storeu_ps(to[2] + at, _mm512_castps512_ps256((__m512)high));
            _mm256_storeu_ps(to[3] + at, _mm512_extractf32x8_ps((__m512)high, 1));
#else
            STORE(to[0] + at, low);
            STORE(to[1] + at, high);
#endif
        }
    }
}
/* All lines of a group, whose last ones may be done once more. */
static void X(four_lines)(const fac_fft_group *g) {
    const fac_fft_core *c = &g->plan->core;
    for (int first = 0; first < g->lanes; first += LANES / 4) {
        T *from[4], *to[4];
        for (int i = 0; i < LANES / 4; i++) {
            const int line = (int)fac__min(first + i, g->lanes - 1);
            from[i] = g->in.at[line];
            to[i] = g->out.at[line];
        }
        if (c->n == 16)
            X(fours)(c, 4, from, to, g->inverse, g->inverse, (T)g->scale);
        else
            X(fours)(c, 8, from, to, g->inverse, g->inverse, (T)g->scale);
    }
}
#endif

static void X(short_lines)(const fac_fft_group *g, T *scratch) {
    const fac_fft_plan *p = g->plan;
#if FAC_VECTOR_BYTES == 64
    if (p->core.n <= 32) {
        X(four_lines)(g);
        return;
    }
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
