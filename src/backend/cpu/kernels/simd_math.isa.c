/* Definitions of the functions declared in simd_math.h. The widest vector of the instruction set is the one real
   implementation; narrower twins and the scalar go through it. */
#define FAC_SIMD_DEFINE
#include "backend/cpu/kernels/simd_math.h"
#include "backend/cpu/kernels/vexp.h"
#include "backend/cpu/kernels/vhyperbolic.h"
#include "backend/cpu/kernels/vmath_f64.h"
#include "backend/cpu/kernels/vtrig.h"

#include <float.h>
#include <math.h>

#if FAC_SIMD_SLEEF

#include <immintrin.h>
#include <sleef.h>

#if FAC_ISA_LEVEL == 2
typedef __m512 wide_f;
typedef __m512d wide_d;
#define SLEEF_F(name, accuracy) Sleef_##name##f16##accuracy##avx512f
#define SLEEF_D(name, accuracy) Sleef_##name##d8##accuracy##avx512f
#define SET_F _mm512_set1_ps
#define SET_D _mm512_set1_pd
#define FIRST_F _mm512_cvtss_f32
#define FIRST_D _mm512_cvtsd_f64
#define WIDEN_F128 _mm512_castps128_ps512
#define WIDEN_D128 _mm512_castpd128_pd512
#define LOW_F128 _mm512_castps512_ps128
#define LOW_D128 _mm512_castpd512_pd128
/* Whether |x| is above the limit, or r vanished though x did not, in any lane. */
#define ANY_UNSETTLED_F(x, r, limit)                                  \
    (_mm512_cmp_ps_mask(_mm512_abs_ps(x), SET_F(limit), _CMP_GT_OQ) | \
     (_mm512_cmp_ps_mask(r, _mm512_setzero_ps(), _CMP_EQ_OQ) &        \
      _mm512_cmp_ps_mask(x, _mm512_setzero_ps(), _CMP_NEQ_OQ)))
#define ANY_UNSETTLED_D(x, r, limit)                                  \
    (_mm512_cmp_pd_mask(_mm512_abs_pd(x), SET_D(limit), _CMP_GT_OQ) | \
     (_mm512_cmp_pd_mask(r, _mm512_setzero_pd(), _CMP_EQ_OQ) &        \
      _mm512_cmp_pd_mask(x, _mm512_setzero_pd(), _CMP_NEQ_OQ)))
#elif FAC_ISA_LEVEL == 1
typedef __m256 wide_f;
typedef __m256d wide_d;
#define SLEEF_F(name, accuracy) Sleef_##name##f8##accuracy##avx2
#define SLEEF_D(name, accuracy) Sleef_##name##d4##accuracy##avx2
#define SET_F _mm256_set1_ps
#define SET_D _mm256_set1_pd
#define FIRST_F _mm256_cvtss_f32
#define FIRST_D _mm256_cvtsd_f64
#define WIDEN_F128 _mm256_castps128_ps256
#define WIDEN_D128 _mm256_castpd128_pd256
#define LOW_F128 _mm256_castps256_ps128
#define LOW_D128 _mm256_castpd256_pd128
#define ANY_UNSETTLED_F(x, r, limit)                                                                            \
    _mm256_movemask_ps(_mm256_or_ps(_mm256_cmp_ps(_mm256_andnot_ps(SET_F(-0.0f), x), SET_F(limit), _CMP_GT_OQ), \
                                    _mm256_and_ps(_mm256_cmp_ps(r, _mm256_setzero_ps(), _CMP_EQ_OQ),            \
                                                  _mm256_cmp_ps(x, _mm256_setzero_ps(), _CMP_NEQ_OQ))))
#define ANY_UNSETTLED_D(x, r, limit)                                                                           \
    _mm256_movemask_pd(_mm256_or_pd(_mm256_cmp_pd(_mm256_andnot_pd(SET_D(-0.0), x), SET_D(limit), _CMP_GT_OQ), \
                                    _mm256_and_pd(_mm256_cmp_pd(r, _mm256_setzero_pd(), _CMP_EQ_OQ),           \
                                                  _mm256_cmp_pd(x, _mm256_setzero_pd(), _CMP_NEQ_OQ))))
#else
typedef __m128 wide_f;
typedef __m128d wide_d;
#define SLEEF_F(name, accuracy) Sleef_##name##f4##accuracy##sse2
#define SLEEF_D(name, accuracy) Sleef_##name##d2##accuracy##sse2
#define SET_F _mm_set1_ps
#define SET_D _mm_set1_pd
#define FIRST_F _mm_cvtss_f32
#define FIRST_D _mm_cvtsd_f64
#define WIDEN_F128(x) (x)
#define WIDEN_D128(x) (x)
#define LOW_F128(x) (x)
#define LOW_D128(x) (x)
#define ANY_UNSETTLED_F(x, r, limit)                                                      \
    _mm_movemask_ps(_mm_or_ps(_mm_cmpgt_ps(_mm_andnot_ps(SET_F(-0.0f), x), SET_F(limit)), \
                              _mm_and_ps(_mm_cmpeq_ps(r, _mm_setzero_ps()), _mm_cmpneq_ps(x, _mm_setzero_ps()))))
#define ANY_UNSETTLED_D(x, r, limit)                                                     \
    _mm_movemask_pd(_mm_or_pd(_mm_cmpgt_pd(_mm_andnot_pd(SET_D(-0.0), x), SET_D(limit)), \
                              _mm_and_pd(_mm_cmpeq_pd(r, _mm_setzero_pd()), _mm_cmpneq_pd(x, _mm_setzero_pd()))))
#endif

#if FAC_ISA_LEVEL >= 1
/* Exponentials are faster by vexp.h, which is as exact where multiplications fuse. */
static inline wide_f exp_of_floats(wide_f x) { return (wide_f)fac__vexp((fac_vf32)x); }
static inline wide_d exp_of_doubles(wide_d x) { return (wide_d)fac__vexp_f64((fac_vf64)x); }
static inline wide_d tanh_of_doubles(wide_d x) { return (wide_d)fac__vtanh_f64((fac_vf64)x); }
/* Sines, cosines and tangents are, too, but that SLEEF's take the lanes beyond their range. */
#define TRIG_OF_FLOATS(name)                                                              \
    static __attribute__((noinline)) wide_f name##_of_far_floats(wide_f x, wide_f r) {    \
        const fac_vi32 far = fac__vtrig_size((fac_vf32)x) > FAC_VTRIG_MOST;               \
        return (wide_f)(((fac_vi32)SLEEF_F(name, _u10)(x) & far) | ((fac_vi32)r & ~far)); \
    }                                                                                     \
    static inline wide_f name##_of_floats(wide_f x) {                                     \
        const wide_f r = (wide_f)fac__v##name((fac_vf32)x);                               \
        return FAC_LIKELY(!fac__vtrig_far((fac_vf32)x)) ? r : name##_of_far_floats(x, r); \
    }
TRIG_OF_FLOATS(sin)
TRIG_OF_FLOATS(cos)
TRIG_OF_FLOATS(tan)
static inline wide_f atan_of_floats(wide_f x) { return (wide_f)fac__vatan((fac_vf32)x); }
static inline wide_f sinh_of_floats(wide_f x) { return (wide_f)fac__vsinh((fac_vf32)x); }
static inline wide_f cosh_of_floats(wide_f x) { return (wide_f)fac__vcosh((fac_vf32)x); }
#define Sleef_sinhf8_u10avx2 sinh_of_floats
#define Sleef_coshf8_u10avx2 cosh_of_floats
#define Sleef_sinhf16_u10avx512f sinh_of_floats
#define Sleef_coshf16_u10avx512f cosh_of_floats
#define Sleef_atanf8_u10avx2 atan_of_floats
#define Sleef_atanf16_u10avx512f atan_of_floats
#define Sleef_sinf8_u10avx2 sin_of_floats
#define Sleef_cosf8_u10avx2 cos_of_floats
#define Sleef_tanf8_u10avx2 tan_of_floats
#define Sleef_sinf16_u10avx512f sin_of_floats
#define Sleef_cosf16_u10avx512f cos_of_floats
#define Sleef_tanf16_u10avx512f tan_of_floats
#define Sleef_expf8_u10avx2 exp_of_floats
#define Sleef_expd4_u10avx2 exp_of_doubles
#define Sleef_expf16_u10avx512f exp_of_floats
#define Sleef_expd8_u10avx512f exp_of_doubles
#define Sleef_tanhd4_u10avx2 tanh_of_doubles
#define Sleef_tanhd8_u10avx512f tanh_of_doubles
#endif
#if FAC_ISA_LEVEL >= 2
#define OF_DOUBLES(name) \
    static inline wide_d name##_of_doubles(wide_d x) { return (wide_d)fac__v##name##_f64((fac_vf64)x); }
OF_DOUBLES(erf)
OF_DOUBLES(erfc)
OF_DOUBLES(log1p)
OF_DOUBLES(atan)
OF_DOUBLES(sinh)
OF_DOUBLES(cosh)
#define TRIG_OF_DOUBLES(name)                                                                                      \
    static __attribute__((noinline)) wide_d name##_of_far_doubles(wide_d x, wide_d r) {                            \
        const __mmask8 far = _mm512_cmp_pd_mask(_mm512_abs_pd(x), _mm512_set1_pd(FAC_VTRIG_MOST_F64), _CMP_GT_OQ); \
        return _mm512_mask_mov_pd(r, far, SLEEF_D(name, _u10)(x));                                                 \
    }                                                                                                              \
    static inline wide_d name##_of_doubles(wide_d x) {                                                             \
        const wide_d r = (wide_d)fac__v##name##_f64((fac_vf64)x);                                                  \
        return FAC_LIKELY(!fac__vtrig_far_f64((fac_vf64)x)) ? r : name##_of_far_doubles(x, r);                     \
    }
TRIG_OF_DOUBLES(sin)
TRIG_OF_DOUBLES(cos)
TRIG_OF_DOUBLES(tan)
#define Sleef_erfd8_u10avx512f erf_of_doubles
#define Sleef_erfcd8_u15avx512f erfc_of_doubles
#define Sleef_log1pd8_u10avx512f log1p_of_doubles
#define Sleef_atand8_u10avx512f atan_of_doubles
#define Sleef_sinhd8_u10avx512f sinh_of_doubles
#define Sleef_coshd8_u10avx512f cosh_of_doubles
#define Sleef_sind8_u10avx512f sin_of_doubles
#define Sleef_cosd8_u10avx512f cos_of_doubles
#define Sleef_tand8_u10avx512f tan_of_doubles
#endif

/* Name of a vector twin: ABI letter and lanes, one v per argument. */
#define TWIN_(prefix, symbol) prefix##symbol
#define TWIN(prefix, symbol) TWIN_(prefix, symbol)

/* Twins of one width: V is the vector type, W widens it, L takes the low part back. */
#define UNARY_TWIN(prefix, name, type, V, W, L, sleef) \
    V TWIN(prefix, FAC_SIMD(name, type))(V x);         \
    V TWIN(prefix, FAC_SIMD(name, type))(V x) { return L(sleef(W(x))); }
#define BINARY_TWIN(prefix, name, type, V, W, L, sleef) \
    V TWIN(prefix, FAC_SIMD(name, type))(V x, V y);     \
    V TWIN(prefix, FAC_SIMD(name, type))(V x, V y) { return L(sleef(W(x), W(y))); }

#define SAME(x) (x)
#if FAC_ISA_LEVEL == 2
#define WIDE_TWINS_F32(KIND, vs, name, accuracy)                                                      \
    KIND##_TWIN(_ZGVeN16##vs##_, name, f32, __m512, SAME, SAME, SLEEF_F(name, accuracy)) KIND##_TWIN( \
        _ZGVdN8##vs##_, name, f32, __m256, _mm512_castps256_ps512, _mm512_castps512_ps256, SLEEF_F(name, accuracy))
#define WIDE_TWINS_F64(KIND, vs, name, accuracy)                                                      \
    KIND##_TWIN(_ZGVeN8##vs##_, name, f64, __m512d, SAME, SAME, SLEEF_D(name, accuracy)) KIND##_TWIN( \
        _ZGVdN4##vs##_, name, f64, __m256d, _mm512_castpd256_pd512, _mm512_castpd512_pd256, SLEEF_D(name, accuracy))
#elif FAC_ISA_LEVEL == 1
#define WIDE_TWINS_F32(KIND, vs, name, accuracy) \
    KIND##_TWIN(_ZGVdN8##vs##_, name, f32, __m256, SAME, SAME, SLEEF_F(name, accuracy))
#define WIDE_TWINS_F64(KIND, vs, name, accuracy) \
    KIND##_TWIN(_ZGVdN4##vs##_, name, f64, __m256d, SAME, SAME, SLEEF_D(name, accuracy))
#else
#define WIDE_TWINS_F32(KIND, vs, name, accuracy)
#define WIDE_TWINS_F64(KIND, vs, name, accuracy)
#endif
#define WIDE_TWINS(KIND, vs, name, accuracy) \
    WIDE_TWINS_F32(KIND, vs, name, accuracy) WIDE_TWINS_F64(KIND, vs, name, accuracy)
#define NARROW_TWINS(KIND, vs, name, accuracy)                                                    \
    KIND##_TWIN(_ZGVbN4##vs##_, name, f32, __m128, WIDEN_F128, LOW_F128, SLEEF_F(name, accuracy)) \
        KIND##_TWIN(_ZGVbN2##vs##_, name, f64, __m128d, WIDEN_D128, LOW_D128, SLEEF_D(name, accuracy))

#define DEFINE_UNARY(name, accuracy)                                                          \
    WIDE_TWINS(UNARY, v, name, accuracy)                                                      \
    NARROW_TWINS(UNARY, v, name, accuracy)                                                    \
    float FAC_SIMD(name, f32)(float x) { return FIRST_F(SLEEF_F(name, accuracy)(SET_F(x))); } \
    double FAC_SIMD(name, f64)(double x) { return FIRST_D(SLEEF_D(name, accuracy)(SET_D(x))); }
/* Twins of the f64 form alone. */
#define DEFINE_UNARY_F64(name, accuracy)                                                     \
    WIDE_TWINS_F64(UNARY, v, name, accuracy)                                                 \
    UNARY_TWIN(_ZGVbN2v_, name, f64, __m128d, WIDEN_D128, LOW_D128, SLEEF_D(name, accuracy)) \
    double FAC_SIMD(name, f64)(double x) { return FIRST_D(SLEEF_D(name, accuracy)(SET_D(x))); }
#define DEFINE_BINARY(name, accuracy)                                                                            \
    WIDE_TWINS(BINARY, vv, name, accuracy)                                                                       \
    NARROW_TWINS(BINARY, vv, name, accuracy)                                                                     \
    float FAC_SIMD(name, f32)(float x, float y) { return FIRST_F(SLEEF_F(name, accuracy)(SET_F(x), SET_F(y))); } \
    double FAC_SIMD(name, f64)(double x, double y) { return FIRST_D(SLEEF_D(name, accuracy)(SET_D(x), SET_D(y))); }

#else

#define DEFINE_UNARY(name, accuracy)                          \
    float FAC_SIMD(name, f32)(float x) { return name##f(x); } \
    double FAC_SIMD(name, f64)(double x) { return name(x); }
#define DEFINE_UNARY_F64(name, accuracy) \
    double FAC_SIMD(name, f64)(double x) { return name(x); }
#define DEFINE_BINARY(name, accuracy)                                     \
    float FAC_SIMD(name, f32)(float x, float y) { return name##f(x, y); } \
    double FAC_SIMD(name, f64)(double x, double y) { return name(x, y); }

#endif

FAC_SIMD_UNARY(DEFINE_UNARY)
FAC_SIMD_UNARY_F64(DEFINE_UNARY_F64)
FAC_SIMD_BINARY(DEFINE_BINARY)

#define NO_LIMITS(name, accuracy, f32, f64) DEFINE_UNARY(name, )

#if FAC_SIMD_SLEEF
/* What SLEEF gets wrong is settled by the C library, slow but right everywhere, lane by lane, so that a result depends on its
   operands alone. */
#define FAC_LANES(wide, T) (sizeof(wide) / sizeof(T))
#define SETTLE_UNARY(name, wide, T, sleef, exact, ANY, magnitude, limit)                           \
    static wide settle_##name(wide x, wide r) {                                                    \
        T lanes[FAC_LANES(wide, T)], a[FAC_LANES(wide, T)];                                        \
        memcpy(lanes, &r, sizeof r);                                                               \
        memcpy(a, &x, sizeof x);                                                                   \
        for (size_t i = 0; i < FAC_LANES(wide, T); i++)                                            \
            if (magnitude(a[i]) > (limit) || (lanes[i] == 0 && a[i] != 0)) lanes[i] = exact(a[i]); \
        memcpy(&r, lanes, sizeof r);                                                               \
        return r;                                                                                  \
    }                                                                                              \
    static inline wide name(wide x) {                                                              \
        wide r = sleef(x);                                                                         \
        return FAC_LIKELY(!ANY(x, r, limit)) ? r : settle_##name(x, r);                            \
    }
/* The C library's functions of float are off by up to 2 ulp, those of double are not. */
#define SETTLE(name, accuracy, f32, f64)                                                                           \
    static float exact_##name(float x) { return (float)name(x); }                                                  \
    SETTLE_UNARY(settled_##name##_f, wide_f, float, SLEEF_F(name, accuracy), exact_##name, ANY_UNSETTLED_F, fabsf, \
                 f32)                                                                                              \
    SETTLE_UNARY(settled_##name##_d, wide_d, double, SLEEF_D(name, accuracy), name, ANY_UNSETTLED_D, fabs, f64)
FAC_SIMD_SETTLED(SETTLE)

/* WRONG(r, a, b) says whether the result r of finite a and b may be wrong. */
#define SETTLE_BINARY(name, wide, T, sleef, exact, WRONG)                          \
    static wide name(wide x, wide y) {                                             \
        wide r = sleef(x, y);                                                      \
        T lanes[FAC_LANES(wide, T)], a[FAC_LANES(wide, T)], b[FAC_LANES(wide, T)]; \
        int wrong = 0;                                                             \
        memcpy(lanes, &r, sizeof r);                                               \
        for (size_t i = 0; i < FAC_LANES(wide, T); i++) wrong |= WRONG(lanes[i]);  \
        if (FAC_LIKELY(!wrong)) return r;                                          \
        memcpy(a, &x, sizeof x);                                                   \
        memcpy(b, &y, sizeof y);                                                   \
        for (size_t i = 0; i < FAC_LANES(wide, T); i++)                            \
            if (WRONG(lanes[i])) lanes[i] = exact(a[i], b[i]);                     \
        memcpy(&r, lanes, sizeof r);                                               \
        return r;                                                                  \
    }
/* A remainder is exact while the quotient is in range, and NaN beyond. A power overflows early. */
#define IS_NAN(r) ((r) != (r))
#define IS_INFINITE_F(r) ((r) > FLT_MAX || (r) < -FLT_MAX)
#define IS_INFINITE_D(r) ((r) > DBL_MAX || (r) < -DBL_MAX)
SETTLE_BINARY(settled_fmod_f, wide_f, float, SLEEF_F(fmod, _), fmodf, IS_NAN)
SETTLE_BINARY(settled_fmod_d, wide_d, double, SLEEF_D(fmod, _), fmod, IS_NAN)
SETTLE_BINARY(settled_pow_f, wide_f, float, SLEEF_F(pow, _u10), powf, IS_INFINITE_F)
SETTLE_BINARY(settled_pow_d, wide_d, double, SLEEF_D(pow, _u10), pow, IS_INFINITE_D)
#undef SLEEF_F
#undef SLEEF_D
#define SLEEF_F(name, accuracy) settled_##name##_f
#define SLEEF_D(name, accuracy) settled_##name##_d
#endif
FAC_SIMD_SETTLED(NO_LIMITS)
DEFINE_BINARY(pow, )
DEFINE_BINARY(fmod, )
