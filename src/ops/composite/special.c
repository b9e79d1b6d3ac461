/* Special functions in terms of others, and their second names. */
#include "ops/composite/brief.h"
#include "ops/structured.h"

/* ---- gamma ---------------------------------------------------------------------------------------------------------------- */

fac_status polygamma_composite_(const fac_call_info *c, fac_tensor *self, int64_t n, fac_tensor **out) {
    (void)c;
    FAC_CHECK(!is_integral(self), FAC_ERR_DTYPE, "result type %s can't be cast to the desired output type %s",
              fac_dtype_name(fac_default_dtype()), fac_dtype_name((fac_dtype)self->dtype));
    FAC_SCOPE(s);
    fac_tensor *const reads[] = {self};
    fac_tensor *before = NULL;
    FAC_TRY(fac__before_change(reads, 1, &before));
    fac_tensor *result = fac__s_polygamma(n, fac__adopt(fac__thread(), before));
    if (!result) return fac_error();
    return fac__c_copy_(self, result, false, out);
}

/* log of pi^(p (p - 1) / 4) times the product of gamma(x - k / 2) for k from 0 to p - 1, 16-bit floats in single precision. */
fac_status mvlgamma_composite(const fac_call_info *c, fac_tensor *self, int64_t p, fac_tensor **out) {
    (void)c;
    FAC_CHECK(p >= 1, FAC_ERR_ARGUMENT, "p has to be greater than or equal to 1");
    FAC_CHECK(!fac_dtype_is_complex((fac_dtype)self->dtype), FAC_ERR_DTYPE, "not implemented for '%s'",
              fac_dtype_name((fac_dtype)self->dtype));
    FAC_SCOPE(s);
    fac_tensor *x = floating(self);
    const fac_dtype dtype = x ? (fac_dtype)x->dtype : FAC_F32;
    if (fac__is_half(dtype)) x = cast(x, FAC_F32);
    const fac_dtype wide = x ? (fac_dtype)x->dtype : dtype;
    fac_tensor *k = fac__s_arange(fac_scalar_i_(p), FAC_F64, FAC_STRIDED, self->device, (fac_opt_num){0});
    fac_tensor *each = add(x ? fac__s_unsqueeze(x, -1) : NULL, cast(scaled(k, -0.5), wide));
    fac_tensor *sum = sum_along(fac__s_lgamma(each), -1, false);
    return fac__give(out, cast(plus(sum, (double)p * (double)(p - 1) * 0.25 * 1.1447298858494002), dtype));
}
