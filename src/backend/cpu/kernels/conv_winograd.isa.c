/* Transforms of Winograd's F(2x2, 3x3), a vector of channels at a time. */
#include "backend/cpu/kernels/conv_winograd.h"
#include "backend/cpu/simd.h"

#if FAC_ISA_LEVEL >= 2
static __mmask16 lanes_of(int64_t n) { return (__mmask16)((1u << fac__max(0, fac__min(FAC_CONV_LANES, n))) - 1); }

/* Three numbers of a line or a column to four. */
#define SPREAD(g, to)                                    \
    do {                                                 \
        const fac_vf32 even = (g)[0] + (g)[2];           \
        (to)[0] = (g)[0];                                \
        (to)[1] = (even + (g)[1]) * fac_splat_f32(0.5f); \
        (to)[2] = (even - (g)[1]) * fac_splat_f32(0.5f); \
        (to)[3] = (g)[2];                                \
    } while (0)

void FAC_ISA_NAME(fac__winograd_weight)(const float *from, float *to, int64_t n) {
    for (int64_t i = 0; i < n; i += FAC_LANES_F32) {
        fac_vf32 lines[3][4];
        for (int x = 0; x < 3; x++) {
            const fac_vf32 g[3] = {fac_load_f32(from + (3 * x) * n + i), fac_load_f32(from + (3 * x + 1) * n + i),
                                   fac_load_f32(from + (3 * x + 2) * n + i)};
            SPREAD(g, lines[x]);
        }
        for (int y = 0; y < 4; y++) {
            const fac_vf32 g[3] = {lines[0][y], lines[1][y], lines[2][y]};
            fac_vf32 out[4];
            SPREAD(g, out);
            for (int x = 0; x < 4; x++) fac_store_f32(to + (4 * x + y) * n + i, out[x]);
        }
    }
}

void FAC_ISA_NAME(fac__winograd_in)(const float *const *from, int64_t channels, float *to, int64_t step) {
    for (int64_t c = 0; c < channels; c += FAC_CONV_LANES) {
        const __mmask16 lanes = lanes_of(channels - c);
        __m512 t[4][4];
#pragma GCC unroll 4
        for (int y = 0; y < 4; y++) {
            __m512 d[4];
#pragma GCC unroll 4
            for (int x = 0; x < 4; x++) d[x] = _mm512_maskz_loadu_ps(lanes, from[4 * x + y] + c);
            t[0][y] = _mm512_sub_ps(d[0], d[2]);
            t[1][y] = _mm512_add_ps(d[1], d[2]);
            t[2][y] = _mm512_sub_ps(d[2], d[1]);
            t[3][y] = _mm512_sub_ps(d[1], d[3]);
        }
#pragma GCC unroll 4
        for (int x = 0; x < 4; x++) {
            float *at = to + 4 * x * step + c;
            _mm512_storeu_ps(at, _mm512_sub_ps(t[x][0], t[x][2]));
            _mm512_storeu_ps(at + step, _mm512_add_ps(t[x][1], t[x][2]));
            _mm512_storeu_ps(at + 2 * step, _mm512_sub_ps(t[x][2], t[x][1]));
            _mm512_storeu_ps(at + 3 * step, _mm512_sub_ps(t[x][1], t[x][3]));
        }
    }
}

bool FAC_ISA_NAME(fac__winograd_out)(const float *from, int64_t step, int64_t channels, const float *bias,
                                     float *const *to) {
    __mmask16 bad = 0;
    for (int64_t c = 0; c < channels; c += FAC_CONV_LANES) {
        const __mmask16 lanes = lanes_of(channels - c);
        const __m512 add = bias ? _mm512_maskz_loadu_ps(lanes, bias + c) : _mm512_setzero_ps();
        __m512 s[2][4];
#pragma GCC unroll 4
        for (int y = 0; y < 4; y++) {
            __m512 m[4];
#pragma GCC unroll 4
            for (int x = 0; x < 4; x++) m[x] = _mm512_loadu_ps(from + (4 * x + y) * step + c);
            s[0][y] = _mm512_add_ps(_mm512_add_ps(m[0], m[1]), m[2]);
            s[1][y] = _mm512_sub_ps(_mm512_sub_ps(m[1], m[2]), m[3]);
        }
#pragma GCC unroll 2
        for (int x = 0; x < 2; x++) {
            const __m512 y[2] = {_mm512_add_ps(_mm512_add_ps(s[x][0], s[x][1]), s[x][2]),
                                 _mm512_sub_ps(_mm512_sub_ps(s[x][1], s[x][2]), s[x][3])};
#pragma GCC unroll 2
            for (int z = 0; z < 2; z++) {
                float *at = to[2 * x + z];
                if (!at) continue;
                const __m512 sum = _mm512_add_ps(y[z], add);
                bad |= _mm512_mask_cmp_ps_mask(lanes, _mm512_sub_ps(sum, sum), _mm512_setzero_ps(), _CMP_NEQ_UQ);
                _mm512_mask_storeu_ps(at + c, lanes, sum);
            }
        }
    }
    return !bad;
}

#else /* not run */
void FAC_ISA_NAME(fac__winograd_weight)(const float *from, float *to, int64_t n) { (void)from, (void)to, (void)n; }
void FAC_ISA_NAME(fac__winograd_in)(const float *const *from, int64_t channels, float *to, int64_t step) {
    (void)from, (void)channels, (void)to, (void)step;
}
bool FAC_ISA_NAME(fac__winograd_out)(const float *from, int64_t step, int64_t channels, const float *bias,
                                     float *const *to) {
    (void)from, (void)step, (void)channels, (void)bias, (void)to;
    return false;
}
#endif
