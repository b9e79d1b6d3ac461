/* Short lines, one or two of which fill a square of lanes, for one type of real number: fft_body.h includes it for each. */

#if LANES >= 8
#define SHORT_LINES 1
/* LANES columns of LANES rows, or of half as many, of as many lines at once as fill a square. */
static bool X(is_short)(const fac_fft_group *g) {
    if (!g->plan->core.short_lines || g->plan->chirped) return false;
    const int64_t from = g->in.complex ? 2 : 1, to = g->out.complex ? 2 : 1;
    if (g->in.step != from || g->out.step != to) return false;
    return g->plan->inner == g->plan->n ? g->plan->kind == FAC_FFT_COMPLEX : !g->plan->core.eights;
}

/* Lines that fill one square. */
static void X(short_square)(const fac_fft_core *c, T *const *from, T *const *to, bool exchange_from, bool exchange_to,
                            T scale, T *x) {
    const int64_t rows = c->columns.n;
    const VT s = SPLAT(scale);
    VT re[LANES], im[LANES];
    CV a[LANES];
    for (int64_t i = 0; i * rows < LANES; i++) X(only)(c, from[i], POINT, exchange_from, 0, x + i * rows * POINT);
    X(square)(re, x, POINT);
    X(square)(im, x + LANES, POINT);
#pragma GCC unroll 16
    for (int i = 0; i < LANES; i++) a[i] = (CV){re[i], im[i]};
#if LANES == 16
    X(dft_16)(a, NULL);
#else
    X(dft_8)(a, NULL);
#endif
    if (scale != 1)
#pragma GCC unroll 16
        for (int i = 0; i < LANES; i++) a[i] = X(scaled)(a[i], s);
    const X(way) w = X(writing)(exchange_to, false);
    T *at = to[0], *next = rows == LANES ? at + LANES : to[1];
#pragma GCC unroll 16
    for (int i = 0; i < LANES; i++) X(write)(at + 2 * i * rows, next + 2 * i * rows, a[i], w);
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
            a[r] = X(times)((CV){FMA(a[r].re, sign, re), FMA(a[r].im, sign, im)}, X(get)(c->eights, 8 + r));
        }
    X(dft_8)(a, NULL);
#pragma GCC unroll 8
    for (int r = 1; r < 8; r++) a[r] = X(times)(a[r], X(get)(c->eights, r));
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

static void X(short_lines)(const fac_fft_group *g, T *scratch) {
    const fac_fft_plan *p = g->plan;
    const int each = (p->core.eights ? 128 : LANES * LANES) > p->inner ? 2 : 1;
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
        if (p->core.eights)
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
