/* Rules of the operators that set every element. */
#include "ops/structured.h"
#include "ops_gen.h"

/* Integers beyond the dtype's range are refused; floats become infinite. */
static fac_status check_range(fac_dtype d, fac_scalar v) {
    static const struct {
        double lo, hi;
    } range[FAC_DTYPE_COUNT] = {[FAC_U8] = {0, UINT8_MAX},
                                [FAC_I8] = {INT8_MIN, INT8_MAX},
                                [FAC_I16] = {INT16_MIN, INT16_MAX},
                                [FAC_I32] = {INT32_MIN, INT32_MAX},
                                [FAC_I64] = {-0x1p63, 0x1p63}};
    if (!fac_dtype_is_integral(d, false)) return FAC_OK;
    double x = fac__scalar_f64(v);
    FAC_CHECK(x >= range[d].lo && x <= range[d].hi, FAC_ERR_OVERFLOW,
              "value cannot be converted to type %s without overflow", fac_dtype_name(d));
    return FAC_OK;
}

fac_status fill_meta(fac_structured *s, fac_tensor *self, fac_scalar value) {
    fac_dtype d = (fac_dtype)self->dtype;
    FAC_CHECK(value.kind != FAC_KIND_COMPLEX || fac_dtype_is_complex(d), FAC_ERR_DTYPE,
              "value cannot be converted to type %s without losing its imaginary part", fac_dtype_name(d));
    FAC_TRY(check_range(d, value));
    return fac_out_declare_like(s, 0, self, d);
}

fac_status fill_tensor_meta(fac_structured *s, fac_tensor *self, fac_tensor *value) {
    FAC_CHECK(value->ndim == 0, FAC_ERR_SHAPE,
              "fill_ only supports 0-dimension value tensor but got tensor with %d dimensions.", value->ndim);
    return fac_out_declare_like(s, 0, self, (fac_dtype)self->dtype);
}
