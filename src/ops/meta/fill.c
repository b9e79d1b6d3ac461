/* Rules of the operators that set every element. */
#include "ops/structured.h"
#include "ops_gen.h"

fac_status fill_meta(fac_structured *s, fac_tensor *self, fac_scalar value) {
    fac_dtype d = (fac_dtype)self->dtype;
    FAC_TRY(fac__check_number(d, value));
    s->same_values = true;
    return fac_out_declare_like(s, 0, self, d);
}

fac_status fill_tensor_meta(fac_structured *s, fac_tensor *self, fac_tensor *value) {
    FAC_CHECK(value->ndim == 0, FAC_ERR_SHAPE,
              "fill_ only supports 0-dimension value tensor but got tensor with %d dimensions.", value->ndim);
    FAC_CHECK(value->device.type != FAC_META || self->device.type == FAC_META, FAC_ERR_DEVICE,
              "value is on the meta device and has no data to fill self with");
    FAC_TRY(fac__check_value((fac_dtype)self->dtype, value));
    return fac_out_declare_like(s, 0, self, (fac_dtype)self->dtype);
}
