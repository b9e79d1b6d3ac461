/* Inner loops of sampling at given points. A tile of points is worked out dimension by dimension, its elements and weights are then
   the same for every channel: a gather for each element that a point shows. Sums run in the order of these elements, and of the
   points where they are added to one place. */
#include "backend/cpu/kernels/grid.h"
#include "backend/cpu/simd.h"
#include <math.h>

#if FAC_ISA_LEVEL >= 2
/* What lies beyond the plane is not read, and is 0 as a product too. */
static inline __m512 shown_of(const fac_grid_tile_f32 *t, int k, int64_t i, __mmask16 in, const float *plane,
                              __mmask16 *inside) {
    const __m512i at = _mm512_loadu_si512(t->at[k] + i);
    *inside = _mm512_mask_cmpge_epi32_mask(in, at, _mm512_setzero_si512());
    return _mm512_mask_i32gather_ps(_mm512_setzero_ps(), *inside, at, plane, 4);
}
static inline __m512 product(const fac_grid_tile_f32 *t, int k, int64_t i, __mmask16 in, const float *plane) {
    __mmask16 inside;
    const __m512 v = shown_of(t, k, i, in, plane, &inside);
    return _mm512_maskz_mul_ps(inside, _mm512_loadu_ps(t->weight[k] + i), v);
}
static inline __mmask16 first_of(int64_t n) { return n < 16 ? (__mmask16)((1u << n) - 1) : 0xffff; }
static void meet_f32(const fac_grid_tile_f32 *t, const float *plane, const float *grad, int64_t n,
                     float (*sum)[FAC_GRID_TILE]) {
    for (int64_t i = 0; i < n; i += 16) {
        const __mmask16 in = first_of(n - i);
        const __m512 g = _mm512_maskz_loadu_ps(in, grad + i);
        for (int k = 0; k < t->taps; k++) {
            __mmask16 inside;
            const __m512 v = shown_of(t, k, i, in, plane, &inside);
            _mm512_storeu_ps(sum[k] + i, _mm512_mask3_fmadd_ps(v, g, _mm512_loadu_ps(sum[k] + i), inside));
        }
    }
}
static void sample_f32(const fac_grid_tile_f32 *t, const float *plane, int64_t n, bool add, float *out) {
    for (int64_t i = 0; i < n; i += 16) {
        const __mmask16 in = first_of(n - i);
        __m512 sum = add ? _mm512_maskz_loadu_ps(in, out + i) : _mm512_setzero_ps();
        if (t->taps == 1) sum = product(t, 0, i, in, plane);
        for (int k = 0; k + 4 <= t->taps; k += 4) {
            const __m512 a = product(t, k, i, in, plane), b = product(t, k + 1, i, in, plane),
                         c = product(t, k + 2, i, in, plane), d = product(t, k + 3, i, in, plane);
            sum = _mm512_add_ps(sum, _mm512_add_ps(_mm512_add_ps(_mm512_add_ps(a, b), c), d));
        }
        _mm512_mask_storeu_ps(out + i, in, sum);
    }
}
#define SAMPLE sample_f32
#endif
#define T float
#define FN(name) name##_f32
#define TILE fac_grid_tile_f32
#define FLOOR __builtin_floorf
#define RINT __builtin_rintf
#include "backend/cpu/kernels/grid_body.h"
#undef T
#undef FN
#undef TILE
#undef FLOOR
#undef RINT
#undef SAMPLE

#define T double
#define FN(name) name##_f64
#define TILE fac_grid_tile_f64
#define FLOOR __builtin_floor
#define RINT __builtin_rint
#include "backend/cpu/kernels/grid_body.h"

const fac_grid_loops FAC_ISA_NAME(fac__grid_loops)[2] = {{forward_f32, to_grid_f32, to_input_f32},
                                                         {forward_f64, to_grid_f64, to_input_f64}};
