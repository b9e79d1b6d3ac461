/* Inner loops of recurrent layers for float and double, and for bf16 where the processor multiplies pairs of it: rnn_body.h once for
   each. */
#include "backend/cpu/gemm.h"
#include "backend/cpu/kernels/rnn.h"
#include "backend/cpu/kernels/simd_math.h"
#include "backend/cpu/simd.h"

#if FAC_VECTOR_BYTES == 64
#define MR 6 /* 24 accumulators, four vectors of weights and one of the state: 29 of 32 registers */
#else
#define MR 2 /* 8 + 4 + 1 of 16 */
#endif
#define VECTORS 4 /* of a strip, at most */

/* The logistic function; beyond 60 it is that of 60, 1e-26 away from its limit. */
static inline float sigmoid_f32(float x) {
    const float low = x < -60 ? -60 : x, near = low > 60 ? 60 : low;
    return 1 / (1 + FAC_ISA_NAME(fac__exp_near)(-near));
}
static inline double sigmoid_f64(double x) { return 1 / (1 + FAC_SIMD(exp, f64)(-x)); }
static inline float tanh_f32(float x) { return FAC_SIMD(tanh, f32)(x); }
static inline double tanh_f64(double x) { return FAC_SIMD(tanh, f64)(x); }


/* A word is one element, or two of bf16 for the instruction that multiplies pairs, whose sum it adds in f32. */
#define WITH_WORDS
#define DEPTH 1
#define GET(x) (x)
#define PUT(x) (x)
#define W E
#define PART WORD
#define WORD_OF(first, second) (first)

#define E float
#define T float
#define V fac_vf32
#define LANES FAC_LANES_F32
#define WORD(at) fac_splat_f32(*(at))
#define MULTIPLY_ADD fac_fma_f32
#define TURN fac_transpose_f32
#define N(name) FAC_PASTE(name, _f32)
#include "backend/cpu/kernels/rnn_body.h"
#undef E
#undef T
#undef V
#undef LANES
#undef WORD
#undef MULTIPLY_ADD
#undef TURN
#undef N

#define E double
#define T double
#define V fac_vf64
#define LANES FAC_LANES_F64
#define WORD(at) fac_splat_f64(*(at))
#define MULTIPLY_ADD fac_fma_f64
#define TURN fac_transpose_f64
#define N(name) FAC_PASTE(name, _f64)
#include "backend/cpu/kernels/rnn_body.h"

#if FAC_ISA_LEVEL >= 2
#undef WITH_WORDS
#undef DEPTH
#undef GET
#undef PUT
#undef W
#undef PART
#undef WORD_OF
#undef E
#undef T
#undef V
#undef LANES
#undef WORD
#undef MULTIPLY_ADD
#undef TURN
#undef N

static inline float get_bf16(uint16_t x) {
    const uint32_t bits = (uint32_t)x << 16;
    float y;
    memcpy(&y, &bits, sizeof y);
    return y;
}
static inline uint16_t put_bf16(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return (uint16_t)((x == x ? bits + 0x7fff + (bits >> 16 & 1) : bits | 0x400000) >> 16);
}
static inline fac_vf32 pair_at(const uint16_t *p) {
    uint32_t pair;
    memcpy(&pair, p, sizeof pair);
    return (fac_vf32)_mm512_set1_epi32((int)pair);
}

#define tanh_bf16 tanh_f32
#define sigmoid_bf16 sigmoid_f32
#define WITH_WORDS __attribute__((target("avx512bf16")))
#define DEPTH 2
#define GET get_bf16
#define PUT put_bf16
#define W uint32_t
#define WORD pair_at
#define PART(at) (fac_vf32) _mm512_set1_epi32(*(at))
#define WORD_OF(first, second) ((first) | (uint32_t)(second) << 16)
#define E uint16_t
#define T float
#define V fac_vf32
#define LANES FAC_LANES_F32
#define MULTIPLY_ADD(x, b, sum) (fac_vf32) _mm512_dpbf16_ps((__m512)(sum), (__m512bh)(x), (__m512bh)(b))
#define TURN fac_transpose_f32
#define N(name) FAC_PASTE(name, _bf16)
#include "backend/cpu/kernels/rnn_body.h"
#endif

const fac_rnn_kernels *FAC_ISA_NAME(fac__rnn_kernels)(fac_dtype dtype) {
    switch (dtype) {
    case FAC_F32: return &kernels_f32;
    case FAC_F64: return &kernels_f64;
#if FAC_ISA_LEVEL >= 2
    case FAC_BF16: return fac__cpu_bf16 ? &kernels_bf16 : NULL;
#endif
    default: return NULL;
    }
}
