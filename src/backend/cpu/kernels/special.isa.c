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

void FAC_ISA_NAME(fac__install_special)(fac_loop (*table)[FAC_DTYPE_COUNT]) {
    install_f32(table);
    install_f64(table);
}
