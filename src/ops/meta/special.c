/* Shape and dtype rules of special functions and of operators over the parts of numbers. */
#include "ops/meta/pointwise.h"
#include "ops_gen.h"

fac_status polygamma_meta(fac_structured *s, int64_t n, fac_tensor *self) {
    FAC_CHECK(n >= 0, FAC_ERR_ARGUMENT, "polygamma(n, x) does not support negative n.");
    return fac__pw_1(s, self, FAC_PW_FLOAT, 0);
}

fac_status signbit_meta(fac_structured *s, fac_tensor *self) {
    FAC_CHECK(!fac_dtype_is_complex((fac_dtype)self->dtype), FAC_ERR_DTYPE, "not implemented for complex tensors.");
    return fac__pw_1(s, self, FAC_PW_PROMOTE, FAC_BOOL);
}

/* The mantissa like self, the exponent as int32. */
fac_status frexp_meta(fac_structured *s, fac_tensor *self) {
    const fac_dtype d = (fac_dtype)self->dtype;
    FAC_CHECK(fac_dtype_is_floating(d), FAC_ERR_DTYPE, "only floating-point dtypes are supported");
    fac_iter_begin(&s->iter, FAC_PW_PROMOTE);
    for (int i = 0; i < s->n_out; i++) FAC_TRY(fac_iter_out(&s->iter, NULL));
    FAC_TRY(fac_iter_in(&s->iter, self));
    return fac_out_declare_iter_each(s, (fac_dtype[]){d, FAC_I32});
}

fac_status heaviside_meta(fac_structured *s, fac_tensor *self, fac_tensor *values) {
    FAC_CHECK(self->dtype == values->dtype, FAC_ERR_DTYPE,
              "heaviside is not yet implemented for tensors with different dtypes.");
    FAC_CHECK(!fac_dtype_is_complex((fac_dtype)self->dtype), FAC_ERR_DTYPE,
              "heaviside is not yet implemented for complex tensors.");
    return fac__pw_2(s, self, values, FAC_PW_PROMOTE, 0);
}

fac_status logit_meta(fac_structured *s, fac_tensor *self, fac_opt_num eps) {
    FAC_CHECK(!fac_dtype_is_complex((fac_dtype)self->dtype), FAC_ERR_DTYPE, "not implemented for '%s'",
              fac_dtype_name((fac_dtype)self->dtype));
    const fac_dtype dtype =
        fac_dtype_is_integral((fac_dtype)self->dtype, true) ? fac_default_dtype() : (fac_dtype)self->dtype;
    if (eps.set) FAC_TRY(fac__check_factor(dtype, eps.v));
    return fac__pw_1(s, self, FAC_PW_FLOAT, 0);
}
fac_status logit_backward_meta(fac_structured *s, fac_tensor *grad_output, fac_tensor *self, fac_opt_num eps) {
    FAC_CHECK(fac_dtype_is_floating((fac_dtype)self->dtype), FAC_ERR_DTYPE, "not implemented for '%s'",
              fac_dtype_name((fac_dtype)self->dtype));
    if (eps.set) FAC_TRY(fac__check_factor((fac_dtype)self->dtype, eps.v));
    return fac__pw_2(s, grad_output, self, FAC_PW_PROMOTE, 0);
}

fac_status round_decimals_meta(fac_structured *s, fac_tensor *self, int64_t decimals) {
    FAC_CHECK(decimals == 0 || !fac_dtype_is_integral((fac_dtype)self->dtype, true), FAC_ERR_DTYPE,
              "round with decimals needs a floating tensor, got %s", fac_dtype_name((fac_dtype)self->dtype));
    FAC_TRY(fac__refuse_complex((fac_dtype)self->dtype));
    return fac__pw_1(s, self, FAC_PW_PROMOTE, 0);
}
