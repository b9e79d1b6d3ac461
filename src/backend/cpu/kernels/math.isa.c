/* Loops of elementary functions. */
#include "backend/cpu/half.h"
#include "backend/cpu/kernels/loop_macros.h"
#include "backend/cpu/kernels/simd_math.h"
#include "backend/cpu/kernels/vmath_f64.h"
#include "backend/cpu/kernels/vtrig.h"
#include "backend/cpu/loops.h"

#if FAC_VECTOR_BYTES == 64
/* erfc of floats, within 0.9 ulp and down to the smallest number: of a = |x|, exp(-a^2) erfcx(a), or 2 less that. erfcx is v + t P(t) for
   t = a - c, a fit of its own in each of 14 intervals, quarters of octaves of a + 1, which its bits choose; v = erfcx(c) is nearly a
   float. exp(-a^2) is 2^k 2^(j/16) (1 + q), with the low half of a^2 and of 2^(j/16) in q. From 10.1 on the result is 0. */
typedef fac_vf32 few_floats;
static inline few_floats verfc(few_floats x) {
    /* clang-format off */
    static const float centre[16] = {
        0x1.400b3cp+0f, 0x1.bfea2ap+0f, 0x1.201084p+1f, 0x1.600f9cp+1f, 0x1.bff7a8p+1f, 0x1.1ff3f4p+2f, 0x1.5ff5eap+2f,
        0x1.9fedc2p+2f, 0x1.fff014p+2f, 0x1.332a36p+3f, 0x1.332a36p+3f, 0x1.332a36p+3f, 0x1.00091ep-3f, 0x1.7ffa94p-2f,
        0x1.3ff12ep-1f, 0x1.bffde4p-1f};
    static const float value[16] = {
        0x1.789d3p-2f, 0x1.23db34p-2f, 0x1.d92ce6p-3f, 0x1.8c8eecp-3f, 0x1.3e101ep-3f, 0x1.f5c6bp-4f, 0x1.9d960cp-4f,
        0x1.5f84d6p-4f, 0x1.1eb18cp-4f, 0x1.deece4p-5f, 0x1.deece4p-5f, 0x1.deece4p-5f, 0x1.bf14dcp-1f, 0x1.5f2a58p-1f,
        0x1.1d1d1ep-1f, 0x1.db75d4p-2f};
    static const float power[16] = {
        0x1p+0f, 0x1.0b5586p+0f, 0x1.172b84p+0f, 0x1.2387a6p+0f, 0x1.306fep+0f, 0x1.3dea64p+0f, 0x1.4bfdaep+0f, 0x1.5ab07ep+0f,
        0x1.6a09e6p+0f, 0x1.7a1148p+0f, 0x1.8ace54p+0f, 0x1.9c4918p+0f, 0x1.ae89fap+0f, 0x1.c199bep+0f, 0x1.d5818ep+0f,
        0x1.ea4afap+0f};
    static const float rest[16] = {
        0, 0x1.8d96d4p-25f, -0x1.9c0c22p-27f, 0x1.964904p-25f, 0x1.125002p-25f, 0x1.370be4p-25f, -0x1.0a355p-25f,
        -0x1.00d8acp-27f, 0x1.26055cp-26f, -0x1.05cb44p-25f, 0x1.67a1cap-28f, 0x1.a3b5e4p-28f, -0x1.f9c304p-27f,
        -0x1.6961b4p-28f, -0x1.a5217cp-28f, 0x1.61428ep-28f};
    static const float term[6][16] = { /* from the highest power down */
        {0x1.d78de2p-9f, 0x1.132906p-10f, 0x1.704fe2p-12f, 0x1.14d6b2p-13f, 0x1.356374p-15f, 0x1.1eb42cp-17f, 0x1.4d6426p-19f,
         0x1.cbefbep-21f, 0x1.e04c4cp-23f, 0x1.185c9p-24f, 0x1.185c9p-24f, 0x1.185c9p-24f, 0x1.b859a4p-4f, 0x1.7a1d04p-5f,
         0x1.56a916p-6f, 0x1.466048p-7f},
        {-0x1.2d92e2p-7f, -0x1.907dacp-9f, -0x1.2e14ecp-10f, -0x1.fca63p-12f, -0x1.4cba88p-13f, -0x1.72bf46p-15f,
         -0x1.fa461ap-17f, -0x1.929246p-18f, -0x1.f98a9p-20f, -0x1.5ce998p-21f, -0x1.5ce998p-21f, -0x1.5ce998p-21f,
         -0x1.9c50f4p-3f, -0x1.7c2d02p-4f, -0x1.71ad2ap-5f, -0x1.7932fp-6f},
        {0x1.687cfp-6f, 0x1.138d1ap-7f, 0x1.d9f5d4p-9f, 0x1.c27866p-10f, 0x1.564442p-11f, 0x1.d058bap-13f, 0x1.777e94p-14f,
         0x1.59f8dcp-15f, 0x1.02747ap-16f, 0x1.ad74b4p-18f, 0x1.ad74b4p-18f, 0x1.ad74b4p-18f, 0x1.620b48p-2f, 0x1.611f54p-3f,
         0x1.72ee98p-4f, 0x1.98352ep-5f},
        {-0x1.9b3d88p-5f, -0x1.6ce0fcp-6f, -0x1.6844e4p-7f, -0x1.84b16ep-8f, -0x1.5e69eap-9f, -0x1.21b6b4p-10f,
         -0x1.15b31ap-11f, -0x1.28a8a4p-12f, -0x1.0c1614p-13f, -0x1.086bcep-14f, -0x1.086bcep-14f, -0x1.086bcep-14f,
         -0x1.1637fap-1f, -0x1.2e85d2p-2f, -0x1.59d82cp-3f, -0x1.9d5b3p-4f},
        {0x1.b55434p-4f, 0x1.c8ff7cp-5f, 0x1.05f288p-5f, 0x1.4395fcp-6f, 0x1.5d6934p-7f, 0x1.62ea1p-8f, 0x1.9545fcp-9f,
         0x1.f79e5ep-10f, 0x1.142992p-10f, 0x1.43fb54p-11f, 0x1.43fb54p-11f, 0x1.43fb54p-11f, 0x1.84d492p-1f, 0x1.d290dcp-2f,
         0x1.258646p-2f, 0x1.80f21ep-3f},
        {-0x1.ab979ep-3f, -0x1.0c50dp-3f, -0x1.6a4f04p-4f, -0x1.02f1bcp-4f, -0x1.529138p-5f, -0x1.aa601cp-6f, -0x1.239c9ep-6f,
         -0x1.a706bp-7f, -0x1.1a69bp-7f, -0x1.8aee5cp-8f, -0x1.8aee5cp-8f, -0x1.8aee5cp-8f, -0x1.d1f1b8p-1f, -0x1.3a5eep-1f,
         -0x1.bace0cp-2f, -0x1.436b8cp-2f}};
    /* clang-format on */
#define CHOSEN(table, which) _mm512_permutexvar_ps(which, _mm512_loadu_ps(table))
    const __m512 one = _mm512_set1_ps(1),
                 a = _mm512_min_ps(_mm512_set1_ps(10.1f), _mm512_abs_ps((__m512)x)); /* NaN passes */
    const __m512i interval = _mm512_srli_epi32(_mm512_castps_si512(_mm512_add_ps(a, one)), 21);
    const __m512 t = _mm512_sub_ps(a, CHOSEN(centre, interval)), at = CHOSEN(value, interval);
    __m512 p = CHOSEN(term[0], interval);
    for (int i = 1; i < 6; i++) p = _mm512_fmadd_ps(p, t, CHOSEN(term[i], interval));
    const __m512 magic = _mm512_set1_ps(0x1.8p+23f), square = _mm512_mul_ps(a, a), low = _mm512_fmsub_ps(a, a, square),
                 rounded = _mm512_fnmadd_ps(square, _mm512_set1_ps(0x1.715476p+4f), magic),
                 n = _mm512_sub_ps(rounded, magic);
    const __m512i j = _mm512_castps_si512(rounded);
    __m512 r = _mm512_sub_ps(_mm512_fnmsub_ps(n, _mm512_set1_ps(0x1.62cp-5f), square), low);
    r = _mm512_fnmadd_ps(n, _mm512_set1_ps(0x1.217f7ep-16f), r);
    __m512 q = _mm512_fmadd_ps(r, _mm512_set1_ps(0x1.55565cp-3f), _mm512_set1_ps(0x1.000148p-1f));
    q = _mm512_fmadd_ps(_mm512_mul_ps(r, r), q, _mm512_add_ps(r, CHOSEN(rest, j)));
    const __m512 whole = CHOSEN(power, j), less = _mm512_fmadd_ps(p, t, _mm512_mul_ps(q, _mm512_fmadd_ps(p, t, at)));
#undef CHOSEN
    const __m512 tail = _mm512_scalef_ps(_mm512_fmadd_ps(whole, at, _mm512_mul_ps(whole, less)),
                                         _mm512_mul_ps(n, _mm512_set1_ps(0x1p-4f)));
    const __mmask16 left = _mm512_cmp_ps_mask((__m512)x, _mm512_setzero_ps(), _CMP_LT_OQ);
    return (few_floats)_mm512_mask_sub_ps(tail, left, _mm512_set1_ps(2), tail);
}
#else
typedef int64_t bits __attribute__((vector_size(FAC_VECTOR_BYTES)));

/* exp(y) of doubles between -103 and 0, within 2e-9 of its size: y = n ln2 + r, a fit in r, and 2^n. */
static inline fac_vf64 rough_exp(fac_vf64 y) {
    const fac_vf64 magic = fac_splat_f64(0x1.8p+52); /* adding it rounds to an integer in the low bits */
    static const double of[] = {0x1.126d0bfeeec48p-7, 0x1.55589a434e595p-5, 0x1.55540a7daac21p-3,
                                0x1.fffffaaf52aa6p-2, 0x1.0000009c01c92p+0, 0x1.00000002614fdp+0};
    const fac_vf64 t = fac_fma_f64(y, fac_splat_f64(0x1.71547652b82fep+0), magic);
    const fac_vf64 r = fac_fma_f64(t - magic, fac_splat_f64(-0x1.62e42fefa39efp-1), y);
    const fac_vf64 scale = (fac_vf64)(((bits)t << 52) + 0x3ff0000000000000);
    fac_vf64 e = fac_splat_f64(0x1.6ab98067027e3p-10);
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) e = fac_fma_f64(e, r, fac_splat_f64(of[i]));
    return e * scale;
}

/* erfc of floats by way of doubles, within 0.6 ulp: of a = |x| and z = (a - 3) / (a + 3), exp(-a^2) P(z) / (a + 3), a minimax fit of
   relative error 2e-9. From 10.1 on the result is 0. */
typedef float few_floats __attribute__((vector_size(FAC_VECTOR_BYTES / 2)));
static inline fac_vf64 widened(few_floats x) { return __builtin_convertvector(x, fac_vf64); }
static inline few_floats mirrored(fac_vf64 tail, fac_vf64 x) {
    const bits left = x < 0;
    return __builtin_convertvector((fac_vf64)(((bits)(2 - tail) & left) | ((bits)tail & ~left)), few_floats);
}
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
#endif
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
