/* Short names for the operators that formulas are made of. Results are temporaries of the innermost scope; NULL with an
   error pending is passed on. */
#ifndef FAC_SRC_AUTOGRAD_FORMULAS_BRIEF_H
#define FAC_SRC_AUTOGRAD_FORMULAS_BRIEF_H

#include "ops/call.h"
#include "ops_gen.h"

static inline fac_tensor *add(fac_tensor *a, fac_tensor *b) { return fac__s_add_Tensor(a, b, fac_scalar_i_(1)); }
static inline fac_tensor *sub(fac_tensor *a, fac_tensor *b) { return fac__s_sub_Tensor(a, b, fac_scalar_i_(1)); }
static inline fac_tensor *mul(fac_tensor *a, fac_tensor *b) { return fac__s_mul_Tensor(a, b); }
static inline fac_tensor *divide(fac_tensor *a, fac_tensor *b) { return fac__s_div_Tensor(a, b); }
static inline fac_tensor *scaled_by(fac_tensor *a, double x) { return fac__s_mul_Scalar(a, fac_scalar_f_(x)); }
static inline fac_tensor *divided_by(fac_tensor *a, double x) { return fac__s_div_Scalar(a, fac_scalar_f_(x)); }
static inline fac_tensor *fill_where(fac_tensor *a, fac_tensor *mask, double x) {
    return fac__s_masked_fill_Scalar(a, mask, fac_scalar_f_(x));
}
static inline fac_tensor *is_zero(fac_tensor *a) { return fac__s_eq_Scalar(a, fac_scalar_i_(0)); }
static inline fac_tensor *sum_over(fac_tensor *a, fac_ints dims, bool keepdim) {
    return fac__s_sum_dim_IntList(a, dims, keepdim, FAC_DTYPE_DEFAULT);
}
static inline fac_tensor *zeros_of(fac_tensor *like, fac_ints sizes) {
    return fac__s_new_zeros(like, sizes, FAC_DTYPE_DEFAULT, FAC_STRIDED, (fac_device){0}, (fac_opt_num){0});
}
/* The same as one zero, spread: for an operator that copies what it is given, and would read as many zeros as it writes. */
static inline fac_tensor *spread_zeros(fac_tensor *like, fac_ints sizes) {
    return fac__s_expand(zeros_of(like, FAC_INTS()), sizes, false);
}
/* a + b where NULL is "nothing": for collecting the parts of a gradient. */
static inline fac_tensor *plus(fac_tensor *a, fac_tensor *b) { return !a ? b : !b ? a : add(a, b); }

#endif
