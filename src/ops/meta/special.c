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
