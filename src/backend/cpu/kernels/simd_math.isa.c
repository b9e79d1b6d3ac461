/* Definitions of the functions declared in simd_math.h. The widest vector of the instruction set is the one real
   implementation; narrower twins and the scalar go through it. */
#define FAC_SIMD_DEFINE
#include "backend/cpu/kernels/simd_math.h"

#if FAC_ISA_X86

#include <immintrin.h>
#include <sleef.h>

#if FAC_ISA_LEVEL == 2
typedef __m512 wide_f;
typedef __m512d wide_d;
#define SLEEF_F(name, accuracy) Sleef_##name##f16_##accuracy##avx512f
#define SLEEF_D(name, accuracy) Sleef_##name##d8_##accuracy##avx512f
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
#define SLEEF_F(name, accuracy) Sleef_##name##f8_##accuracy##avx2
#define SLEEF_D(name, accuracy) Sleef_##name##d4_##accuracy##avx2
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
#define SLEEF_F(name, accuracy) Sleef_##name##f4_##accuracy##sse2
#define SLEEF_D(name, accuracy) Sleef_##name##d2_##accuracy##sse2
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
#define UNARY_TWIN(prefix, name, type, V, W, L, sleef)                                                                 \
    V TWIN(prefix, FAC_SIMD(name, type))(V x);                                                                         \
    V TWIN(prefix, FAC_SIMD(name, type))(V x) { return L(sleef(W(x))); }
#define BINARY_TWIN(prefix, name, type, V, W, L, sleef)                                                                \
    V TWIN(prefix, FAC_SIMD(name, type))(V x, V y);                                                                    \
    V TWIN(prefix, FAC_SIMD(name, type))(V x, V y) { return L(sleef(W(x), W(y))); }

#define SAME(x) (x)
#if FAC_ISA_LEVEL == 2
#define WIDE_TWINS(KIND, vs, name, accuracy)                                                                           \
    KIND##_TWIN(_ZGVeN16##vs##_, name, f32, __m512, SAME, SAME, SLEEF_F(name, accuracy))                               \
    KIND##_TWIN(_ZGVeN8##vs##_, name, f64, __m512d, SAME, SAME, SLEEF_D(name, accuracy))                               \
    KIND##_TWIN(_ZGVdN8##vs##_, name, f32, __m256, _mm512_castps256_ps512, _mm512_castps512_ps256,                     \
                SLEEF_F(name, accuracy))                                                                               \
    KIND##_TWIN(_ZGVdN4##vs##_, name, f64, __m256d, _mm512_castpd256_pd512, _mm512_castpd512_pd256,                    \
                SLEEF_D(name, accuracy))
#elif FAC_ISA_LEVEL == 1
#define WIDE_TWINS(KIND, vs, name, accuracy)                                                                           \
    KIND##_TWIN(_ZGVdN8##vs##_, name, f32, __m256, SAME, SAME, SLEEF_F(name, accuracy))                                \
    KIND##_TWIN(_ZGVdN4##vs##_, name, f64, __m256d, SAME, SAME, SLEEF_D(name, accuracy))
#else
#define WIDE_TWINS(KIND, vs, name, accuracy)
#endif
#define NARROW_TWINS(KIND, vs, name, accuracy)                                                                         \
    KIND##_TWIN(_ZGVbN4##vs##_, name, f32, __m128, WIDEN_F128, LOW_F128, SLEEF_F(name, accuracy))                      \
    KIND##_TWIN(_ZGVbN2##vs##_, name, f64, __m128d, WIDEN_D128, LOW_D128, SLEEF_D(name, accuracy))

#define DEFINE_UNARY(name, accuracy)                                                                                   \
    WIDE_TWINS(UNARY, v, name, accuracy)                                                                               \
    NARROW_TWINS(UNARY, v, name, accuracy)                                                                             \
    float FAC_SIMD(name, f32)(float x) { return FIRST_F(SLEEF_F(name, accuracy)(SET_F(x))); }                          \
    double FAC_SIMD(name, f64)(double x) { return FIRST_D(SLEEF_D(name, accuracy)(SET_D(x))); }
#define DEFINE_BINARY(name, accuracy)                                                                                  \
    WIDE_TWINS(BINARY, vv, name, accuracy)                                                                             \
    NARROW_TWINS(BINARY, vv, name, accuracy)                                                                           \
    float FAC_SIMD(name, f32)(float x, float y) { return FIRST_F(SLEEF_F(name, accuracy)(SET_F(x), SET_F(y))); }       \
    double FAC_SIMD(name, f64)(double x, double y) { return FIRST_D(SLEEF_D(name, accuracy)(SET_D(x), SET_D(y))); }

#else

#include <math.h>

#define DEFINE_UNARY(name, accuracy)                                                                                   \
    float FAC_SIMD(name, f32)(float x) { return name##f(x); }                                                          \
    double FAC_SIMD(name, f64)(double x) { return name(x); }
#define DEFINE_BINARY(name, accuracy)                                                                                  \
    float FAC_SIMD(name, f32)(float x, float y) { return name##f(x, y); }                                              \
    double FAC_SIMD(name, f64)(double x, double y) { return name(x, y); }

#endif

FAC_SIMD_UNARY(DEFINE_UNARY)
FAC_SIMD_BINARY(DEFINE_BINARY)
