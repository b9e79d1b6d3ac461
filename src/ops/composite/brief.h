/* Short names for the operators that composites are made of. Results are temporaries of the innermost scope; NULL with an
   error pending is passed on. */
#ifndef FAC_SRC_OPS_COMPOSITE_BRIEF_H
#define FAC_SRC_OPS_COMPOSITE_BRIEF_H

#include "ops/call.h"
#include "ops_gen.h"

static inline fac_tensor *add(fac_tensor *a, fac_tensor *b) { return fac__s_add_Tensor(a, b, fac_scalar_i_(1)); }
static inline fac_tensor *sub(fac_tensor *a, fac_tensor *b) { return fac__s_sub_Tensor(a, b, fac_scalar_i_(1)); }
static inline fac_tensor *mul(fac_tensor *a, fac_tensor *b) { return fac__s_mul_Tensor(a, b); }
static inline fac_tensor *divide(fac_tensor *a, fac_tensor *b) { return fac__s_div_Tensor(a, b); }
static inline fac_tensor *scaled(fac_tensor *a, double x) { return fac__s_mul_Scalar(a, fac_scalar_f_(x)); }
static inline fac_tensor *plus(fac_tensor *a, double x) {
    return fac__s_add_Scalar(a, fac_scalar_f_(x), fac_scalar_i_(1));
}
static inline fac_tensor *fill_where(fac_tensor *a, fac_tensor *mask, double x) {
    return fac__s_masked_fill_Scalar(a, mask, fac_scalar_f_(x));
}
static inline fac_tensor *is_value(fac_tensor *a, double x) { return fac__s_eq_Scalar(a, fac_scalar_f_(x)); }
static inline fac_tensor *either(fac_tensor *mask, fac_tensor *yes, fac_tensor *no) {
    return fac__s_where_self(mask, yes, no);
}
static inline fac_tensor *cast(fac_tensor *a, fac_dtype dtype) {
    return fac__s_to_dtype(a, dtype, false, false, FAC_FORMAT_DEFAULT);
}
static inline fac_tensor *sum_along(fac_tensor *a, int64_t dim, bool keepdim) {
    return fac__s_sum_dim_IntList(a, (fac_ints){&dim, 1}, keepdim, FAC_DTYPE_DEFAULT);
}
static inline bool is_integral(const fac_tensor *t) { return t->dtype >= FAC_BOOL && t->dtype <= FAC_I64; }
/* t itself, or in the default floating dtype if it holds integers. */
static inline fac_tensor *floating(fac_tensor *t) { return t && is_integral(t) ? cast(t, fac_default_dtype()) : t; }

#endif
