/* The elementary functions that `accuracy` measures: how Facula is asked, the exact value, and how far off a result may be. */
#include "accuracy.h"
#include <math.h>

#define SOFT(x) F(log1p)(F(exp)(x))
#define SIGMOID(x) (1 / (1 + F(exp)(-(x))))
#define INNER(x) (2 * F(sqrt)(2 / F(acos)(-1)) * (x + 0.044715 * x * x * x))

/* clang-format off */
/* X(name, call, exact value, units that results of float and double, and subnormal ones, may be off); F(exp) is the C library's exp for
   the type. */
#define FUNCTIONS(X)                                                                              \
    X(exp, fac_exp(x), F(exp)(x), 1, 1, 1)                                                        \
    X(exp2, fac_exp2(x), F(exp2)(x), 1, 1, 1)                                                     \
    X(expm1, fac_expm1(x), F(expm1)(x), 1, 1, 1)                                                  \
    X(log, fac_log(x), F(log)(x), 1, 1, 1)                                                        \
    X(log2, fac_log2(x), F(log2)(x), 1, 1, 1)                                                     \
    X(log10, fac_log10(x), F(log10)(x), 1, 1, 1)                                                  \
    X(log1p, fac_log1p(x), F(log1p)(x), 1, 1, 1.01)                                               \
    X(sin, fac_sin(x), F(sin)(x), 1, 1, 1.01)                                                     \
    X(cos, fac_cos(x), F(cos)(x), 1, 1, 1)                                                        \
    X(tan, fac_tan(x), F(tan)(x), 1, 1, 1.01)                                                     \
    X(asin, fac_asin(x), F(asin)(x), 1, 1, 1)                                                     \
    X(acos, fac_acos(x), F(acos)(x), 1, 1, 1)                                                     \
    X(atan, fac_atan(x), F(atan)(x), 1.05, 1, 1)                                                  \
    X(sinh, fac_sinh(x), F(sinh)(x), 1.01, 1.01, 1.01)                                            \
    X(cosh, fac_cosh(x), F(cosh)(x), 1, 1, 1)                                                     \
    X(tanh, fac_tanh(x), F(tanh)(x), 1.5, 1.01, 1.01)                                             \
    X(asinh, fac_asinh(x), F(asinh)(x), 1.01, 1.01, 1.01)                                         \
    X(acosh, fac_acosh(x), F(acosh)(x), 1.01, 1.01, 1)                                            \
    X(atanh, fac_atanh(x), F(atanh)(x), 1.01, 1.01, 1.01)                                         \
    X(erf, fac_erf(x), F(erf)(x), 1, 1, 1)                                                        \
    X(erfc, fac_erfc(x), F(erfc)(x), 1, 1.5, 1)                                                   \
    X(sqrt, fac_sqrt(x), F(sqrt)(x), 0.5, 0.5, 0.5)                                               \
    X(rsqrt, fac_rsqrt(x), 1 / F(sqrt)(x), 1.5, 1.5, 1)                                           \
    X(sigmoid, fac_sigmoid(x), SIGMOID(x), 2.5, 2.5, 2)                                           \
    X(log_sigmoid, fac_log_sigmoid(x), x < 0 ? x - SOFT(x) : -SOFT(-x), 2.1, 2, 2)                 \
    X(softplus, fac_softplus(x), x > 20 ? x : SOFT(x), 2, 2, 2)                                   \
    X(silu, fac_silu(x), x * SIGMOID(x), 4, 4, 4)                                                 \
    X(mish, fac_mish(x), x * F(tanh)(x > 100 ? x : SOFT(x)), 5, 5, 5)                             \
    X(gelu, fac_gelu(x), x / 2 * F(erfc)(-x / F(sqrt)(2)), 8, 8, 40)                              \
    X(gelu_tanh, fac_gelu(x, .approximate = "tanh"), x * SIGMOID(INNER(x)), 400, 4000, 400)       \
    X(elu, fac_elu(x), x > 0 ? x : F(expm1)(x), 1, 1, 1)
/* clang-format on */

#define F(f) f
#define DEFINE(name, call, exact, ...)                             \
    static fac_tensor *name##_call(fac_tensor *x) { return call; } \
    static double name##_exact(double x) { return exact; }
FUNCTIONS(DEFINE)
#undef F

#define F(f) f##l
#define DEFINE_WIDE(name, call, exact, ...) \
    static long double name##_wide(long double x) { return exact; }
FUNCTIONS(DEFINE_WIDE)
#undef F

#define ROW(name, call, exact, ...) {#name, name##_call, name##_exact, name##_wide, __VA_ARGS__},
const accuracy_function accuracy_functions[] = {FUNCTIONS(ROW){0}};
