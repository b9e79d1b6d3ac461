/* Distances for float and double: distance_body.h once for each. */
#include "backend/cpu/kernels/distance.h"
#include "backend/cpu/kernels/simd_math.h"
#include "backend/cpu/simd.h"
#include <math.h>

#define T float
#define I int32_t
#define V fac_vf32
#define S f32
#define LANES FAC_LANES_F32
#define LOAD fac_load_f32
#define STORE fac_store_f32
#define SPLAT fac_splat_f32
#define FMA fac_fma_f32
#define LOAD_SOME(mask, p) _mm512_maskz_loadu_ps((__mmask16)(mask), p)
#define STORE_SOME(p, mask, v) _mm512_mask_storeu_ps(p, (__mmask16)(mask), (__m512)(v))
#define ABS __builtin_fabsf
#define SQRT __builtin_sqrtf
#define POW FAC_SIMD(pow, f32)
#include "backend/cpu/kernels/distance_body.h"
#undef T
#undef I
#undef V
#undef S
#undef LANES
#undef LOAD
#undef STORE
#undef SPLAT
#undef FMA
#undef LOAD_SOME
#undef STORE_SOME
#undef ABS
#undef SQRT
#undef POW

#define T double
#define I int64_t
#define V fac_vf64
#define S f64
#define LANES FAC_LANES_F64
#define LOAD fac_load_f64
#define STORE fac_store_f64
#define SPLAT fac_splat_f64
#define FMA fac_fma_f64
#define LOAD_SOME(mask, p) _mm512_maskz_loadu_pd((__mmask8)(mask), p)
#define STORE_SOME(p, mask, v) _mm512_mask_storeu_pd(p, (__mmask8)(mask), (__m512d)(v))
#define ABS __builtin_fabs
#define SQRT __builtin_sqrt
#define POW FAC_SIMD(pow, f64)
#include "backend/cpu/kernels/distance_body.h"
