/* Loops of special functions. */
#include "backend/cpu/kernels/loop_macros.h"
#include "backend/cpu/kernels/simd_math.h"
#include "backend/cpu/loops.h"
#include <math.h>

/* Inlined however long they are, else the loops that call them would not vectorise. */
#define FAC_WIDE_FN static inline __attribute__((always_inline))
#define FAC_WIDE(name) FAC_SIMD(name, f64)
#define FAC_WIDE_INFINITY __builtin_inf()
#define FAC_WIDE_NAN __builtin_nan("")
#define FAC_WIDE_TABLE(name, n) static const double name[n]
#if FAC_ISA_LEVEL >= 1
#define FAC_MAD(a, b, c) __builtin_fma(a, b, c)
#else
#define FAC_MAD(a, b, c) ((a) * (b) + (c))
#endif
#include "ops/scalar/horner.h"

#include "ops/scalar/wide_error.h"

#include "ops/scalar/wide_gamma.h"

#include "ops/scalar/wide_sums.h"

#include "ops/scalar/wide_modified_bessel.h"

#include "ops/scalar/wide_bessel.h"

#include "ops/scalar/wide_polynomials.h"

#define FAC_LOOPS FAC_LOOPS_SPECIAL
#define FAC_NUMBER_OF FAC_REAL_NUMBER

#define FAC_T float
#define FAC_TD FAC_F32
#define FAC_FN(name) name##_f32
#define FAC_MATH(name) FAC_SIMD(name, f32)
#include "ops/scalar/special.h"

#include "backend/cpu/kernels/loops_of_type.h"

#define FAC_T double
#define FAC_TD FAC_F64
#define FAC_FN(name) name##_f64
#define FAC_MATH(name) FAC_SIMD(name, f64)
#include "ops/scalar/special.h"

#include "backend/cpu/kernels/loops_of_type.h"

/* Polynomials of low degrees, which differ from one element to the next: recurrences over many elements at once, each taking its own
   number of steps, of the same arithmetic as one alone. Elements that need another way are computed alone. */
enum { TOGETHER = 64, LOW_DEGREE = 16 };
#define FAC_LOW_DEGREES(name, T, formula, POINT, FIRST, NEXT)                                              \
    static void low_##name(char *const *p, int64_t n, const fac_loop_args *args __attribute__((unused))) { \
        T *out = FAC_OPERAND(0, T);                                                                        \
        const T *a = FAC_OPERAND(1, const T), *b = FAC_OPERAND(2, const T);                                \
        double x[TOGETHER], now[TOGETHER], before[TOGETHER];                                               \
        int32_t degree[TOGETHER];                                                                          \
        for (int64_t m; n > 0; n -= m, a += m, b += m, out += m) {                                         \
            int32_t most = 0;                                                                              \
            m = fac__min(n, TOGETHER);                                                                     \
            for (int64_t j = 0; j < m; j++) {                                                              \
                const double u = (double)a[j], v = (double)b[j], at = POINT(u);                            \
                const bool alone = (fabs(at) == 1) | (v > LOW_DEGREE);                                     \
                const double start = v >= 1 ? FIRST(at) : 1;                                               \
                x[j] = at;                                                                                 \
                now[j] = v > -1 ? start : 0;                                                               \
                before[j] = 1;                                                                             \
                degree[j] = alone ? -1 : v >= 2 ? (int32_t)v : 0;                                          \
                most = degree[j] > most ? degree[j] : most;                                                \
            }                                                                                              \
            for (int32_t k = 1; k < most; k++) {                                                           \
                const double kf = k, share = 1 / (kf + 1);                                                 \
                (void)share;                                                                               \
                for (int64_t j = 0; j < m; j++) {                                                          \
                    const double next = NEXT(x[j], now[j], before[j]), was = now[j];                       \
                    before[j] = k < degree[j] ? was : before[j];                                           \
                    now[j] = k < degree[j] ? next : was;                                                   \
                }                                                                                          \
            }                                                                                              \
            for (int64_t j = 0; j < m; j++)                                                                \
                out[j] = degree[j] < 0 ? (T)formula((double)x[j], (double)b[j]) : (T)now[j];               \
        }                                                                                                  \
    }
#define POINT_ITSELF(u) (u)
#define POINT_SHIFTED(u) (2 * (u)-1)
#define FIRST_ITSELF(x) (x)
#define FIRST_U(x) (2 * (x))
#define FIRST_V(x) (2 * (x)-1)
#define FIRST_W(x) (2 * (x) + 1)
#define NEXT_CHEBYSHEV(x, p, q) FAC_MAD(2 * (x), p, -(q))
#define NEXT_LEGENDRE(x, p, q) (FAC_MAD((2 * kf + 1) * (x), p, -kf * (q)) * share)
#define FAC_LOW_CHEBYSHEV(kind, FIRST, T, type)                                                                 \
    FAC_LOW_DEGREES(chebyshev_##kind##type, T, fac__wide_chebyshev_##kind, POINT_ITSELF, FIRST, NEXT_CHEBYSHEV) \
    FAC_LOW_DEGREES(shifted_chebyshev_##kind##type, T, fac__wide_chebyshev_##kind, POINT_SHIFTED, FIRST, NEXT_CHEBYSHEV)
#define FAC_LOW_POLYNOMIALS(T, type)                                                                  \
    FAC_LOW_CHEBYSHEV(t, FIRST_ITSELF, T, type)                                                       \
    FAC_LOW_CHEBYSHEV(u, FIRST_U, T, type)                                                            \
    FAC_LOW_CHEBYSHEV(v, FIRST_V, T, type)                                                            \
    FAC_LOW_CHEBYSHEV(w, FIRST_W, T, type)                                                            \
    FAC_LOW_DEGREES(legendre##type, T, fac__wide_legendre, POINT_ITSELF, FIRST_ITSELF, NEXT_LEGENDRE) \
    static void install_low##type(fac_loop(*table)[FAC_DTYPE_COUNT], fac_dtype d) {                   \
        table[FAC_LOOP_chebyshev_t][d] = low_chebyshev_t##type;                                       \
        table[FAC_LOOP_chebyshev_u][d] = low_chebyshev_u##type;                                       \
        table[FAC_LOOP_chebyshev_v][d] = low_chebyshev_v##type;                                       \
        table[FAC_LOOP_chebyshev_w][d] = low_chebyshev_w##type;                                       \
        table[FAC_LOOP_shifted_chebyshev_t][d] = low_shifted_chebyshev_t##type;                       \
        table[FAC_LOOP_shifted_chebyshev_u][d] = low_shifted_chebyshev_u##type;                       \
        table[FAC_LOOP_shifted_chebyshev_v][d] = low_shifted_chebyshev_v##type;                       \
        table[FAC_LOOP_shifted_chebyshev_w][d] = low_shifted_chebyshev_w##type;                       \
        table[FAC_LOOP_legendre][d] = low_legendre##type;                                             \
    }
FAC_LOW_POLYNOMIALS(float, _of_f32)
FAC_LOW_POLYNOMIALS(double, _of_f64)

void FAC_ISA_NAME(fac__install_special)(fac_loop (*table)[FAC_DTYPE_COUNT]) {
    install_f32(table);
    install_f64(table);
    install_low_of_f32(table, FAC_F32);
    install_low_of_f64(table, FAC_F64);
}
