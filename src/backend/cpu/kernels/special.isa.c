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
typedef struct polynomial {
    bool shifted, legendre;
    double first, constant; /* that of degree 1 is first x + constant */
    double (*alone)(double x, double degree);
} polynomial;
typedef struct together {
    double x[TOGETHER], now[TOGETHER], before[TOGETHER];
    int32_t degree[TOGETHER], most;
} together;

static __attribute__((noinline)) void step_chebyshev(together *t) {
    for (int32_t k = 1; k < t->most; k++)
        for (int64_t j = 0; j < TOGETHER; j++) {
            const double was = t->now[j], next = FAC_MAD(2 * t->x[j], was, -t->before[j]);
            t->before[j] = k < t->degree[j] ? was : t->before[j];
            t->now[j] = k < t->degree[j] ? next : was;
        }
}
static __attribute__((noinline)) void step_legendre(together *t) {
    for (int32_t k = 1; k < t->most; k++) {
        const double share = 1 / ((double)k + 1), last = k;
        for (int64_t j = 0; j < TOGETHER; j++) {
            const double was = t->now[j], next = FAC_MAD((2 * last + 1) * t->x[j], was, -last * t->before[j]) * share;
            t->before[j] = k < t->degree[j] ? was : t->before[j];
            t->now[j] = k < t->degree[j] ? next : was;
        }
    }
}

#define FAC_LOW_DEGREES(T, type)                                                                      \
    static __attribute__((noinline)) void low##type(char *const *p, int64_t n, const polynomial *k) { \
        T *out = FAC_OPERAND(0, T);                                                                   \
        const T *a = FAC_OPERAND(1, const T), *b = FAC_OPERAND(2, const T);                           \
        const double turn = k->shifted ? 2 : 1, back = k->shifted ? 1 : 0;                            \
        together t = {.most = 0};                                                                     \
        for (int64_t m; n > 0; n -= m, a += m, b += m, out += m) {                                    \
            t.most = 0;                                                                               \
            m = fac__min(n, TOGETHER);                                                                \
            for (int64_t j = 0; j < m; j++) {                                                         \
                const double at = turn * (double)a[j] - back, v = (double)b[j];                       \
                const bool alone = (fabs(at) == 1) | (v > LOW_DEGREE);                                \
                const double start = v >= 1 ? k->first * at + k->constant : 1;                        \
                t.x[j] = at;                                                                          \
                t.now[j] = v > -1 ? start : 0;                                                        \
                t.before[j] = 1;                                                                      \
                t.degree[j] = alone ? -1 : v >= 2 ? (int32_t)v : 0;                                   \
                t.most = t.degree[j] > t.most ? t.degree[j] : t.most;                                 \
            }                                                                                         \
            k->legendre ? step_legendre(&t) : step_chebyshev(&t);                                     \
            for (int64_t j = 0; j < m; j++)                                                           \
                out[j] = t.degree[j] < 0 ? (T)k->alone(t.x[j], (double)b[j]) : (T)t.now[j];           \
        }                                                                                             \
    }
FAC_LOW_DEGREES(float, _of_f32)
FAC_LOW_DEGREES(double, _of_f64)
#undef FAC_LOW_DEGREES

/* X(name, formula, shifted, legendre, first, constant): -0.0 leaves the sign of 0. */
#define FAC_POLYNOMIALS(X)                                    \
    X(chebyshev_t, chebyshev_t, false, false, 1, -0.0)        \
    X(chebyshev_u, chebyshev_u, false, false, 2, -0.0)        \
    X(chebyshev_v, chebyshev_v, false, false, 2, -1)          \
    X(chebyshev_w, chebyshev_w, false, false, 2, 1)           \
    X(shifted_chebyshev_t, chebyshev_t, true, false, 1, -0.0) \
    X(shifted_chebyshev_u, chebyshev_u, true, false, 2, -0.0) \
    X(shifted_chebyshev_v, chebyshev_v, true, false, 2, -1)   \
    X(shifted_chebyshev_w, chebyshev_w, true, false, 2, 1)    \
    X(legendre, legendre, false, true, 1, -0.0)
#define FAC_POLYNOMIAL_LOOP(name, formula, shifted, legendre, first, constant)                                   \
    static const polynomial of_##name = {shifted, legendre, first, constant, fac__wide_##formula};               \
    static void low_##name##_f32(char *const *p, int64_t n, const fac_loop_args *args __attribute__((unused))) { \
        low_of_f32(p, n, &of_##name);                                                                            \
    }                                                                                                            \
    static void low_##name##_f64(char *const *p, int64_t n, const fac_loop_args *args __attribute__((unused))) { \
        low_of_f64(p, n, &of_##name);                                                                            \
    }
FAC_POLYNOMIALS(FAC_POLYNOMIAL_LOOP)
#define FAC_POLYNOMIAL_INSTALL(name, ...)               \
    table[FAC_LOOP_##name][FAC_F32] = low_##name##_f32; \
    table[FAC_LOOP_##name][FAC_F64] = low_##name##_f64;

void FAC_ISA_NAME(fac__install_special)(fac_loop (*table)[FAC_DTYPE_COUNT]) {
    install_f32(table);
    install_f64(table);
    FAC_POLYNOMIALS(FAC_POLYNOMIAL_INSTALL)
}
