/* Shapes and dtypes of softmax and its gradient. */
#include "ops/meta/reduce.h"
#include "ops_gen.h"

static fac_status carry_dim(fac_structured *s, const fac_tensor *t, int64_t dim) {
    int64_t d;
    FAC_TRY(fac__wrap_dim(dim, t->ndim, &d));
    s->carry[FAC_CARRY_MASK] = t->ndim ? (int64_t)(UINT64_C(1) << d) : 0;
    return FAC_OK;
}

fac_status _softmax_meta(fac_structured *s, fac_tensor *self, int64_t dim, bool half_to_float) {
    fac_dtype d = (fac_dtype)self->dtype;
    FAC_CHECK(fac_dtype_is_floating(d), FAC_ERR_DTYPE,
              "not implemented for '%s'; cast the input to a floating type first", fac_dtype_name(d));
    FAC_CHECK(!half_to_float || fac__is_half(d), FAC_ERR_DTYPE, "half_to_float needs a 16-bit floating input, got %s",
              fac_dtype_name(d));
    FAC_TRY(carry_dim(s, self, dim));
    return fac_out_declare_like(s, 0, self, half_to_float ? FAC_F32 : d);
}

fac_status _softmax_backward_data_meta(fac_structured *s, fac_tensor *grad_output, fac_tensor *output, int64_t dim,
                                       fac_dtype input_dtype) {
    fac_dtype d = (fac_dtype)grad_output->dtype;
    FAC_CHECK(fac__same_sizes(grad_output, output), FAC_ERR_SHAPE,
              "grad_output %s and output %s must have the same sizes", FAC_SHAPE_TEXT(grad_output),
              FAC_SHAPE_TEXT(output));
    FAC_CHECK(fac_dtype_is_floating(d) && d == (fac_dtype)output->dtype, FAC_ERR_DTYPE,
              "grad_output (%s) and output (%s) must have the same floating type", fac_dtype_name(d),
              fac_dtype_name((fac_dtype)output->dtype));
    bool halved = d == FAC_F32 && fac__is_half(input_dtype);
    FAC_CHECK(!input_dtype || input_dtype == d || halved, FAC_ERR_DTYPE,
              "input_dtype must be that of grad_output, %s, or a 16-bit floating type where that is float32, got %s",
              fac_dtype_name(d), fac_dtype_name(input_dtype));
    FAC_TRY(carry_dim(s, output, dim));
    return fac_out_declare_like(s, 0, grad_output, input_dtype ? input_dtype : d);
}
