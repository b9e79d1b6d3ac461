/* Checks the tensors of a fused optimiser step against the parameter. */
#include "ops/optim.h"

fac_status fac__optim_check_twin(const fac_tensor *self, const fac_tensor *t, const char *name) {
    if (!t || (fac__optim_is_twin(self, t) && (t->flags & FAC_TF_DENSE))) return FAC_OK;
    FAC_CHECK(t->dtype == self->dtype, FAC_ERR_DTYPE, "%s is %s, but the parameter %s", name,
              fac_dtype_name((fac_dtype)t->dtype), fac_dtype_name((fac_dtype)self->dtype));
    FAC_CHECK(fac_device_equal(t->device, self->device), FAC_ERR_DEVICE, "%s is not on the parameter's device", name);
    FAC_CHECK(fac__same_sizes(self, t) && (t->flags & FAC_TF_DENSE) &&
                  memcmp(t->strides, self->strides, self->ndim * sizeof *t->strides) == 0,
              FAC_ERR_SHAPE, "%s should have the sizes and strides of the parameter, %s", name, FAC_SHAPE_TEXT(self));
    return FAC_OK;
}

fac_status fac__optim_check_parameter(const fac_tensor *self) {
    FAC_CHECK(self->dtype == FAC_F32 || self->dtype == FAC_F64, FAC_ERR_DTYPE,
              "optimisers take float32 or float64 parameters, not %s", fac_dtype_name((fac_dtype)self->dtype));
    FAC_CHECK(self->flags & FAC_TF_DENSE, FAC_ERR_SHAPE, "a parameter should not overlap itself or have gaps");
    return FAC_OK;
}
