/* Definitions of the functions declared in simd_math.h. The widest vector of the instruction set is the one real
   implementation; narrower twins and the scalar go through it. */
#define FAC_SIMD_DEFINE
#include "backend/cpu/kernels/simd_math.h"

#include <math.h>

#if FAC_ISA_X86

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

#if FAC_ISA_X86
/* SLEEF's fmod is exact while the quotient is in range and NaN beyond. The C library, slow but exact everywhere, settles
   every NaN, most of which never occur. */
#define SETTLE_FMOD(name, wide, T, sleef, exact)                                     \
    static wide name(wide x, wide y) {                                               \
        wide r = sleef(x, y);                                                        \
        T lanes[FAC_LANES(wide, T)], a[FAC_LANES(wide, T)], b[FAC_LANES(wide, T)];   \
        int nan = 0;                                                                 \
        memcpy(lanes, &r, sizeof r);                                                 \
        for (size_t i = 0; i < FAC_LANES(wide, T); i++) nan |= lanes[i] != lanes[i]; \
        if (FAC_LIKELY(!nan)) return r;                                              \
        memcpy(a, &x, sizeof x);                                                     \
        memcpy(b, &y, sizeof y);                                                     \
        for (size_t i = 0; i < FAC_LANES(wide, T); i++)                              \
            if (lanes[i] != lanes[i]) lanes[i] = exact(a[i], b[i]);                  \
        memcpy(&r, lanes, sizeof r);                                                 \
        return r;                                                                    \
    }
#define FAC_LANES(wide, T) (sizeof(wide) / sizeof(T))
SETTLE_FMOD(settled_fmod_f, wide_f, float, SLEEF_F(fmod, _), fmodf)
SETTLE_FMOD(settled_fmod_d, wide_d, double, SLEEF_D(fmod, _), fmod)
#undef SLEEF_F
#undef SLEEF_D
#define SLEEF_F(name, accuracy) settled_fmod_f
#define SLEEF_D(name, accuracy) settled_fmod_d
#endif
DEFINE_BINARY(fmod, )
