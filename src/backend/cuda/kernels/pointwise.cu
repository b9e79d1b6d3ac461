/* Pointwise kernels: one thread per element in a loop over the grid, f16 and bf16 computed in f32, integers of all widths in 64
   bits. Where every operand lies without gaps in the type computed in, an element is one load per input and one store; else its
   place is found from the iterator's strides and it is converted on the way. Formulas are the CPU's. */
#include "loops_gen.h"
#include "number.h"
#include "plan.h"

#define FAC_SCALAR_FN KDEV
#define FAC_SCALAR_HELPER KDEV
#define FAC_SAME FAC_T
#define FAC_NUMBER FAC_T
#define FAC_DIVISOR FAC_T

/* ---- what special functions are made of, in double -------------------------------------------------------------------------------- */

#define FAC_WIDE_FN KDEV
#define FAC_WIDE(name) name
#define FAC_WIDE_INFINITY INFINITY
#define FAC_WIDE_NAN NAN
#define FAC_WIDE_TABLE(name, n) KCONSTANT(double, name, n)
#define FAC_MAD(a, b, c) fma((double)(a), (double)(b), (double)(c))
#include "ops/scalar/horner.h"

#include "ops/scalar/wide_error.h"

#include "ops/scalar/wide_gamma.h"

#include "ops/scalar/wide_sums.h"

#include "ops/scalar/wide_modified_bessel.h"

#include "ops/scalar/wide_bessel.h"

#include "ops/scalar/wide_polynomials.h"

/* ---- elementary functions that CUDA does not have ---------------------------------------------------------------------------------- */

KDEV float exp_minus_absf(float x) { return expf(-fabsf(x)); }
KDEV double exp_minus_abs(double x) { return exp(-fabs(x)); }
KDEV float log1p_unitf(float x) { return log1pf(x); }
KDEV double log1p_unit(double x) { return log1p(x); }
KDEV float geluf(float x) { return x * normcdff(x); }
KDEV double gelu(double x) { return x * normcdf(x); }

/* ---- floating ----------------------------------------------------------------------------------------------------------------- */

#define K_NUMBER(o) (o).number[0]
#define K_NUMBER_OF(k) (FAC_T) p.f[k]
#define K_LOOPS(X)          \
    FAC_LOOPS_REAL(X)       \
    FAC_LOOPS_PIECEWISE(X)  \
    FAC_LOOPS_MATH(X)       \
    FAC_LOOPS_ACTIVATION(X) \
    FAC_LOOPS_SPECIAL(X) FAC_LOOPS_SUMS(X) FAC_LOOPS_POLYNOMIALS(X) FAC_LOOPS_TRUTH(X) FAC_LOOPS_SELECT(X)
#define FAC_IS_SINGLE (sizeof(FAC_T) == sizeof(float))

#define FAC_T float
#define FAC_FN(name) s_##name##_f32
#define FAC_MATH(name) name##f
#define FAC_BUILTIN(name) name##f
#define FAC_INFINITY INFINITY
#define K_NAME(name) pointwise_##name##_f32
#define K_LOAD(address, dtype, round) k_round(k_load_f32(address, dtype), round)
#define K_STORE k_store_f32
#include "ops/scalar/activation.h"
#include "ops/scalar/math.h"
#include "ops/scalar/piecewise.h"
#include "ops/scalar/polynomials.h"
#include "ops/scalar/real.h"
#include "ops/scalar/select.h"
#include "ops/scalar/special.h"
#include "ops/scalar/sums.h"
#include "ops/scalar/truth.h"

#include "pointwise_body.h"

#define FAC_T double
#define FAC_FN(name) s_##name##_f64
#define FAC_MATH(name) name
#define FAC_BUILTIN(name) name
#define FAC_INFINITY (double)INFINITY
#define K_NAME(name) pointwise_##name##_f64
#define K_LOAD(address, dtype, round) k_load_f64(address, dtype)
#define K_STORE k_store_f64
#include "ops/scalar/activation.h"
#include "ops/scalar/math.h"
#include "ops/scalar/piecewise.h"
#include "ops/scalar/polynomials.h"
#include "ops/scalar/real.h"
#include "ops/scalar/select.h"
#include "ops/scalar/special.h"
#include "ops/scalar/sums.h"
#include "ops/scalar/truth.h"

#include "pointwise_body.h"

#undef K_LOOPS
#undef K_NUMBER
#undef K_NUMBER_OF

/* ---- integers and booleans ---------------------------------------------------------------------------------------------------- */

#define K_NUMBER(o) (o).integer
#define K_NUMBER_OF(k) p.i[k]
#define FAC_UT uint64_t
#define FAC_BITS 64
#define FAC_NEGATIVE(x) ((x) < 0)

#define K_LOOPS(X) FAC_LOOPS_INTEGER(X) FAC_LOOPS_TRUTH(X) FAC_LOOPS_SELECT(X)
#define FAC_T int64_t
#define FAC_FN(name) s_##name##_i64
#define K_NAME(name) pointwise_##name##_i64
#define K_LOAD(address, dtype, round) k_load_i64(address, dtype)
#define K_STORE k_store_i64
#include "ops/scalar/integer.h"
#include "ops/scalar/select.h"
#include "ops/scalar/truth.h"

#include "pointwise_body.h"
#undef K_LOOPS

#define K_LOOPS(X) FAC_LOOPS_BOOLEAN(X) FAC_LOOPS_TRUTH(X) FAC_LOOPS_SELECT(X)
#define FAC_T bool
#define FAC_FN(name) s_##name##_bool
#define K_NAME(name) pointwise_##name##_bool
#define K_LOAD(address, dtype, round) k_load_bool(address, dtype)
#define K_STORE k_store_i64
#include "ops/scalar/boolean.h"
#include "ops/scalar/select.h"
#include "ops/scalar/truth.h"

#include "pointwise_body.h"

/* ---- complex numbers are copied, conjugated and negated -------------------------------------------------------------------------- */

#define K_COMPLEX(name, ...)                                                           \
    KERNEL(pointwise_##name##_complex, (VAL, k_plan, p)) {                             \
        KLOOP(i, p.numel) {                                                            \
            int64_t at[2];                                                             \
            k_offsets(&p, 2, i, at);                                                   \
            k_complex z;                                                               \
            z.re = p.op[1].number[0];                                                  \
            z.im = p.op[1].number[1];                                                  \
            if (p.op[1].data) z = k_load_complex(p.op[1].data + at[1], p.op[1].dtype); \
            __VA_ARGS__;                                                               \
            k_store_complex(p.op[0].data + at[0], p.op[0].dtype, z);                   \
        }                                                                              \
    }
K_COMPLEX(copy, (void)z)
K_COMPLEX(conj, z.im = -z.im)
K_COMPLEX(neg, z.re = -z.re; z.im = -z.im)
