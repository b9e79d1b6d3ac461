/* Inner loops of recurrent layers for float and double, and for bf16 where the processor multiplies pairs of it: rnn_body.h once for
   each. */
#include "backend/cpu/kernels/rnn.h"
#include "backend/cpu/gemm.h"
#include "backend/cpu/kernels/simd_math.h"
#include "backend/cpu/simd.h"

#if FAC_VECTOR_BYTES == 64
#define MR 6 /* 24 accumulators, four vectors of weights and one of the state: 29 of 32 registers */
#else
#define MR 2 /* 8 + 4 + 1 of 16 */
#endif
#define VECTORS 4 /* of a strip, at most */

/* Of large functions that are called from several places: one copy. */
#ifdef __clang__
#define ALONE __attribute__((noinline))
#else
#define ALONE __attribute__((noinline, noclone))
#endif

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
#define OPEN(name, at) E *name = (at)
#define CLOSE(name, at) (void)name
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
#undef OPEN
#undef CLOSE
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

#define WITH_WORDS __attribute__((target("avx512bf16")))

/* What is rounded to bf16 need not be exact in f32: tanh within 2^-21 up to 6, where it begins to be constant, 1e-5 below its limit (a
   minimax fit of two polynomials), and the logistic function, of a shorter exponential, within 2^-18. */
static inline float tanh_bf16(float x) {
    const float low = x < -6 ? -6 : x, y = low > 6 ? 6 : low, s = y * y;
    float p = 0x1.329c86p-18f, q = 0x1.4848ecp-13f;
    p = FAC_ISA_NAME(fac__mad)(p, s, 0x1.3b1f54p-9f);
    p = FAC_ISA_NAME(fac__mad)(p, s, 0x1.fd978cp-4f);
    p = FAC_ISA_NAME(fac__mad)(p, s, 0x1.fffff6p-1f);
    q = FAC_ISA_NAME(fac__mad)(q, s, 0x1.62cd76p-6f);
    q = FAC_ISA_NAME(fac__mad)(q, s, 0x1.d4ba8ep-2f);
    q = FAC_ISA_NAME(fac__mad)(q, s, 1);
    return y * p / q;
}
static inline float sigmoid_bf16(float x) {
    const float low = x < -60 ? -60 : x, y = low > 60 ? 60 : low, magic = 0x1.8p+23f;
    union {
        float f;
        uint32_t bits;
    } n, scale;
    n.f = FAC_ISA_NAME(fac__mad)(y, -0x1.715476p+0f, magic);
    const float r = FAC_ISA_NAME(fac__mad)(y, -0x1.715476p+0f, magic - n.f);
    float p = 0x1.3997d4p-7f;
    p = FAC_ISA_NAME(fac__mad)(p, r, 0x1.ca1442p-5f);
    p = FAC_ISA_NAME(fac__mad)(p, r, 0x1.ec06dap-3f);
    p = FAC_ISA_NAME(fac__mad)(p, r, 0x1.62e0dcp-1f);
    p = FAC_ISA_NAME(fac__mad)(p, r, 0x1.ffffe8p-1f);
    scale.bits = (n.bits << 23) + 0x3f800000u;
    return 1 / FAC_ISA_NAME(fac__mad)(p, scale.f, 1);
}

static inline float get_bf16(uint16_t x) {
    const uint32_t bits = (uint32_t)x << 16;
    float y;
    memcpy(&y, &bits, sizeof y);
    return y;
}
/* n <= 16 of them. */
WITH_WORDS static inline __attribute__((always_inline)) void put_bf16(uint16_t *to, const float *from, int64_t n) {
    const __m256i y = (__m256i)_mm512_cvtneps_pbh(_mm512_loadu_ps(from));
    _mm256_mask_storeu_epi16(to, (__mmask16)((1u << n) - 1), y);
}
static inline fac_vf32 pair_at(const uint16_t *p) {
    uint32_t pair;
    memcpy(&pair, p, sizeof pair);
    return (fac_vf32)_mm512_set1_epi32((int)pair);
}

#define DEPTH 2
#define GET get_bf16
#define OPEN(name, at) T name[LANES]
#define CLOSE(name, at) put_bf16(at, name, n)
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
    case FAC_BF16: return fac__cpu_bf16_fast ? &kernels_bf16 : NULL;
#endif
    default: return NULL;
    }
}
