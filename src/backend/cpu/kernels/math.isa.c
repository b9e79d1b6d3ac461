/* Loops of elementary functions. */
#include "backend/cpu/half.h"
#include "backend/cpu/kernels/loop_macros.h"
#include "backend/cpu/kernels/simd_math.h"
#include "backend/cpu/kernels/vmath_f64.h"
#include "backend/cpu/kernels/vtrig.h"
#include "backend/cpu/loops.h"

typedef int64_t bits __attribute__((vector_size(FAC_VECTOR_BYTES)));

/* exp(y) of doubles between -103 and 0, within 2e-9 of its size: y = n step + r, a fit in r, and 2^n of steps of ln2, or with AVX-512
   of ln2/16, whose powers a permutation chooses of a table in registers. */
static inline fac_vf64 rough_exp(fac_vf64 y) {
    const fac_vf64 magic = fac_splat_f64(0x1.8p+52); /* adding it rounds to an integer in the low bits */
#if FAC_VECTOR_BYTES == 64
    static const double at[] = {0x1.0000000000000p+0, 0x1.0b5586cf9890fp+0, 0x1.172b83c7d517bp+0, 0x1.2387a6e756238p+0,
                                0x1.306fe0a31b715p+0, 0x1.3dea64c123422p+0, 0x1.4bfdad5362a27p+0, 0x1.5ab07dd485429p+0,
                                0x1.6a09e667f3bcdp+0, 0x1.7a11473eb0187p+0, 0x1.8ace5422aa0dbp+0, 0x1.9c49182a3f090p+0,
                                0x1.ae89f995ad3adp+0, 0x1.c199bdd85529cp+0, 0x1.d5818dcfba487p+0, 0x1.ea4afa2a490dap+0};
    static const double of[] = {0x1.00028ff7222fbp-1, 0x1.0000000ad5578p+0, 0x1.fffffff626ff8p-1};
    const fac_vf64 t = fac_fma_f64(y, fac_splat_f64(0x1.71547652b82fep+4), magic);
    const fac_vf64 r = fac_fma_f64(t - magic, fac_splat_f64(-0x1.62e42fefa39efp-5), y);
    const bits power = (bits)_mm512_permutex2var_pd(_mm512_loadu_pd(at), (__m512i)t, _mm512_loadu_pd(at + 8));
    const fac_vf64 scale = (fac_vf64)(power + (((bits)t >> 4) << 52));
    fac_vf64 e = fac_splat_f64(0x1.555348971a9dcp-3);
#else
    static const double of[] = {0x1.126d0bfeeec48p-7, 0x1.55589a434e595p-5, 0x1.55540a7daac21p-3,
                                0x1.fffffaaf52aa6p-2, 0x1.0000009c01c92p+0, 0x1.00000002614fdp+0};
    const fac_vf64 t = fac_fma_f64(y, fac_splat_f64(0x1.71547652b82fep+0), magic);
    const fac_vf64 r = fac_fma_f64(t - magic, fac_splat_f64(-0x1.62e42fefa39efp-1), y);
    const fac_vf64 scale = (fac_vf64)(((bits)t << 52) + 0x3ff0000000000000);
    fac_vf64 e = fac_splat_f64(0x1.6ab98067027e3p-10);
#endif
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) e = fac_fma_f64(e, r, fac_splat_f64(of[i]));
    return e * scale;
}

/* erfc of floats by way of doubles, within 0.6 ulp: of a = |x| and z = (a - 3) / (a + 3), exp(-a^2) P(z) / (a + 3), a minimax fit of
   relative error 2e-9. From 10.1 on the result is 0. */
typedef float few_floats __attribute__((vector_size(FAC_VECTOR_BYTES / 2)));
#if FAC_VECTOR_BYTES == 64 /* gcc would convert in quarters, and choose by four operations */
static inline fac_vf64 widened(few_floats x) { return (fac_vf64)_mm512_cvtps_pd((__m256)x); }
static inline few_floats mirrored(fac_vf64 tail, fac_vf64 x) {
    const __mmask8 left = _mm512_cmp_pd_mask((__m512d)x, _mm512_setzero_pd(), _CMP_LT_OQ);
    return (few_floats)_mm512_cvtpd_ps(_mm512_mask_sub_pd((__m512d)tail, left, _mm512_set1_pd(2), (__m512d)tail));
}
#else
static inline fac_vf64 widened(few_floats x) { return __builtin_convertvector(x, fac_vf64); }
static inline few_floats mirrored(fac_vf64 tail, fac_vf64 x) {
    const bits left = x < 0;
    return __builtin_convertvector((fac_vf64)(((bits)(2 - tail) & left) | ((bits)tail & ~left)), few_floats);
}
#endif
static inline few_floats verfc(few_floats given) {
    static const double of[] = {-0x1.fbe6a5f2d3c06p-12, 0x1.93b5d7441f059p-9,  -0x1.41575ad73609ep-10,
                                -0x1.b7bd648ce439ap-6,  0x1.e99734b01c7f3p-4,  -0x1.3deacfabbb376p-2,
                                0x1.2e32678284fb3p-1,   -0x1.c44c482e4b361p-1, 0x1.12f21de0412b5p+0};
    const fac_vf64 x = widened(given), size = (fac_vf64)((bits)x & INT64_MAX), most = fac_splat_f64(10.1);
    const bits far = size > most;
    const fac_vf64 a = (fac_vf64)(((bits)most & far) | ((bits)size & ~far));
    const fac_vf64 inverse = fac__vinverse_f64(a + 3), z = (a - 3) * inverse;
    fac_vf64 p = fac_splat_f64(-0x1.55c9219c0a70cp-12);
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) p = fac_fma_f64(p, z, fac_splat_f64(of[i]));
    return mirrored(p * inverse * rough_exp(-(a * a)), x);
}
/* The loops below take whole vectors. */
static inline float FAC_SIMD(erfc, f32)(float x) { return verfc(x - (few_floats){0})[0]; }

#define FAC_LOOPS FAC_LOOPS_MATH
#define FAC_NUMBER_OF FAC_REAL_NUMBER

#define FAC_T float
#define FAC_TD FAC_F32
#define FAC_FN(name) name##_f32
#define FAC_MATH(name) FAC_SIMD(name, f32)
#define FAC_INFINITY __builtin_inff()
#include "ops/scalar/math.h"

#include "backend/cpu/kernels/loops_of_type.h"

#define FAC_T double
#define FAC_TD FAC_F64
#define FAC_FN(name) name##_f64
#define FAC_MATH(name) FAC_SIMD(name, f64)
#define FAC_INFINITY __builtin_inf()
#include "ops/scalar/math.h"

#include "backend/cpu/kernels/loops_of_type.h"

/* Loops that would pay more for calling the twins of a function than for computing it; simd_math.isa.c takes the same vectors. */
#define VECTOR_LOOP(name, T, V, RESULT)                                                              \
    static void name(char *const *p, int64_t n, const fac_loop_args *args __attribute__((unused))) { \
        enum { LANES = sizeof(V) / sizeof(T) };                                                      \
        T *out = FAC_OPERAND(0, T);                                                                  \
        const T *a = FAC_OPERAND(1, const T);                                                        \
        for (; n >= LANES; n -= LANES, a += LANES, out += LANES) {                                   \
            V x, r;                                                                                  \
            memcpy(&x, a, sizeof x);                                                                 \
            r = RESULT(x);                                                                           \
            memcpy(out, &r, sizeof r);                                                               \
        }                                                                                            \
        if (n > 0) {                                                                                 \
            V x = {0}, r;                                                                            \
            memcpy(&x, a, (size_t)n * sizeof *a);                                                    \
            r = RESULT(x);                                                                           \
            memcpy(out, &r, (size_t)n * sizeof *out);                                                \
        }                                                                                            \
    }
VECTOR_LOOP(verfc_f32, float, few_floats, verfc)
#if FAC_SIMD_SLEEF && FAC_ISA_LEVEL >= 1
VECTOR_LOOP(vatan_f32, float, fac_vf32, fac__vatan)
VECTOR_LOOP(vexp_f32, float, fac_vf32, fac__vexp)
VECTOR_LOOP(vexp_f64, double, fac_vf64, fac__vexp_f64)
VECTOR_LOOP(vtanh_f64, double, fac_vf64, fac__vtanh_f64)
#define TRIG_LOOP(name)                                                           \
    static __attribute__((noinline)) fac_vf32 far_##name(fac_vf32 x) {            \
        for (int j = 0; j < FAC_LANES_F32; j++) x[j] = FAC_SIMD(name, f32)(x[j]); \
        return x;                                                                 \
    }                                                                             \
    static inline fac_vf32 near_or_far_##name(fac_vf32 x) {                       \
        return FAC_LIKELY(!fac__vtrig_far(x)) ? fac__v##name(x) : far_##name(x);  \
    }                                                                             \
    VECTOR_LOOP(v##name##_f32, float, fac_vf32, near_or_far_##name)
TRIG_LOOP(sin)
TRIG_LOOP(cos)
TRIG_LOOP(tan)
static void install_vectors(fac_loop (*table)[FAC_DTYPE_COUNT]) {
    table[FAC_LOOP_exp][FAC_F32] = vexp_f32, table[FAC_LOOP_exp][FAC_F64] = vexp_f64;
    table[FAC_LOOP_sin][FAC_F32] = vsin_f32, table[FAC_LOOP_cos][FAC_F32] = vcos_f32;
    table[FAC_LOOP_tan][FAC_F32] = vtan_f32, table[FAC_LOOP_atan][FAC_F32] = vatan_f32;
    table[FAC_LOOP_tanh][FAC_F64] = vtanh_f64;
}
#endif

#if FAC_ISA_LEVEL >= 2
/* Two vectors at a time share the tables' loads. */
#define PAIRS_LOOP(name)                                                                                      \
    static void v##name##_f64(char *const *p, int64_t n, const fac_loop_args *args __attribute__((unused))) { \
        double *out = FAC_OPERAND(0, double);                                                                 \
        const double *a = FAC_OPERAND(1, const double);                                                       \
        for (; n >= 16; n -= 16, a += 16, out += 16) {                                                        \
            const fac_vf64 x = fac_load_f64(a), y = fac_load_f64(a + 8);                                      \
            const fac_vf64 r = fac__v##name##_f64(x), s = fac__v##name##_f64(y);                              \
            fac_store_f64(out, r), fac_store_f64(out + 8, s);                                                 \
        }                                                                                                     \
        for (; n > 0; n -= 8, a += 8, out += 8) {                                                             \
            const __mmask8 lanes = (__mmask8)(n < 8 ? (1 << n) - 1 : 0xff);                                   \
            const fac_vf64 r = fac__v##name##_f64((fac_vf64)_mm512_maskz_loadu_pd(lanes, a));                 \
            _mm512_mask_storeu_pd(out, lanes, (__m512d)r);                                                    \
        }                                                                                                     \
    }
PAIRS_LOOP(erf)
PAIRS_LOOP(erfc)
PAIRS_LOOP(log1p)
PAIRS_LOOP(atan)
#if FAC_SIMD_SLEEF
#define NEAR_OR_FAR(name)                                                                        \
    static __attribute__((noinline)) fac_vf64 far_##name##_f64(fac_vf64 x) {                     \
        for (int j = 0; j < FAC_LANES_F64; j++) x[j] = FAC_SIMD(name, f64)(x[j]);                \
        return x;                                                                                \
    }                                                                                            \
    static inline fac_vf64 fac__vall_##name##_f64(fac_vf64 x) {                                  \
        return FAC_LIKELY(!fac__vtrig_far_f64(x)) ? fac__v##name##_f64(x) : far_##name##_f64(x); \
    }                                                                                            \
    PAIRS_LOOP(all_##name)
NEAR_OR_FAR(sin)
NEAR_OR_FAR(cos)
NEAR_OR_FAR(tan)
#endif
VECTOR_LOOP(vtanh_f32, float, fac_vf32, fac__vtanh)
typedef uint16_t codes __attribute__((vector_size(FAC_VECTOR_BYTES / 2)));
static inline codes vtanh_of_bf16(codes x) {
    uint16_t v[FAC_LANES_F32];
    memcpy(v, &x, sizeof v);
    fac_store_bf16(v, fac__vtanh(fac_load_bf16(v)));
    memcpy(&x, v, sizeof x);
    return x;
}
VECTOR_LOOP(loop_tanh_bf16, uint16_t, codes, vtanh_of_bf16)
#endif

#if FAC_ISA_LEVEL >= 1
FAC_BF16_LOOP(exp, VALUE, 1, 0)
#if FAC_ISA_LEVEL == 1
FAC_BF16_LOOP(tanh, VALUE, 1, 0)
#endif
#endif

void FAC_ISA_NAME(fac__install_math)(fac_loop (*table)[FAC_DTYPE_COUNT]) {
    install_f32(table);
    install_f64(table);
    table[FAC_LOOP_erfc][FAC_F32] = verfc_f32;
#if FAC_SIMD_SLEEF && FAC_ISA_LEVEL >= 1
    install_vectors(table);
#endif
#if FAC_ISA_LEVEL >= 1
    FAC_BF16_INSTALL(exp, VALUE, 1, 0)
    FAC_BF16_INSTALL(tanh, VALUE, 1, 0)
#endif
#if FAC_ISA_LEVEL >= 2
    table[FAC_LOOP_tanh][FAC_F32] = vtanh_f32;
    table[FAC_LOOP_erf][FAC_F64] = verf_f64, table[FAC_LOOP_erfc][FAC_F64] = verfc_f64;
    table[FAC_LOOP_log1p][FAC_F64] = vlog1p_f64, table[FAC_LOOP_atan][FAC_F64] = vatan_f64;
#if FAC_SIMD_SLEEF
    table[FAC_LOOP_sin][FAC_F64] = vall_sin_f64, table[FAC_LOOP_cos][FAC_F64] = vall_cos_f64,
    table[FAC_LOOP_tan][FAC_F64] = vall_tan_f64;
#endif
#endif
}
