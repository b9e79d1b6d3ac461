/* Shapes and dtypes of fake quantisation. */
#include "ops/meta/check.h"
#include "ops_gen.h"

static fac_status check_range(const fac_tensor *self, int64_t quant_min, int64_t quant_max) {
    FAC_TRY(fac__need_floating("self", self));
    FAC_CHECK(quant_min <= quant_max, FAC_ERR_ARGUMENT,
              "`quant_min` should be less than or equal to `quant_max`, got %lld and %lld", (long long)quant_min,
              (long long)quant_max);
    return FAC_OK;
}

static fac_status declare_with_mask(fac_structured *s, const fac_tensor *self) {
    FAC_TRY(fac_out_declare(s, 0, self->sizes, NULL, self->ndim, (fac_dtype)self->dtype, self->device));
    return fac_out_declare(s, 1, self->sizes, NULL, self->ndim, FAC_BOOL, self->device);
}

fac_status fake_quantize_per_tensor_meta(fac_structured *s, fac_tensor *self, double scale, int64_t zero_point,
                                         int64_t quant_min, int64_t quant_max) {
    (void)scale;
    FAC_TRY(check_range(self, quant_min, quant_max));
    FAC_CHECK(zero_point >= quant_min && zero_point <= quant_max, FAC_ERR_ARGUMENT,
              "`zero_point` must be between `quant_min` and `quant_max`, got %lld", (long long)zero_point);
    return declare_with_mask(s, self);
}

static bool is_zero_point(const fac_tensor *t) {
    return t->dtype == FAC_I32 || t->dtype == FAC_I64 || fac_dtype_is_floating((fac_dtype)t->dtype);
}

fac_status fake_quantize_qparams_meta(fac_structured *s, fac_tensor *self, fac_tensor *scale, fac_tensor *zero_point,
                                      fac_tensor *fake_quant_enabled, int64_t quant_min, int64_t quant_max) {
    FAC_TRY(check_range(self, quant_min, quant_max));
    FAC_TRY(fac__need_one("scale", scale));
    FAC_TRY(fac__need_floating("scale", scale));
    FAC_TRY(fac__need_one("zero_point", zero_point));
    FAC_TRY(fac__need_one("fake_quant_enabled", fake_quant_enabled));
    FAC_CHECK(is_zero_point(zero_point), FAC_ERR_DTYPE, "zero_point must be int32, int64 or floating, got %s",
              fac_dtype_name((fac_dtype)zero_point->dtype));
    FAC_CHECK(!fac_dtype_is_complex((fac_dtype)fake_quant_enabled->dtype), FAC_ERR_DTYPE,
              "fake_quant_enabled must not be complex");
    return declare_with_mask(s, self);
}

fac_status fake_quantize_per_channel_meta(fac_structured *s, fac_tensor *self, fac_tensor *scale,
                                          fac_tensor *zero_point, int64_t axis, int64_t quant_min, int64_t quant_max) {
    FAC_TRY(check_range(self, quant_min, quant_max));
    FAC_CHECK(axis >= 0 && axis < self->ndim, FAC_ERR_INDEX,
              "`axis` must be between 0 and number of dimensions of input, got %lld", (long long)axis);
    FAC_TRY(fac__need_sizes("scale", scale, &self->sizes[axis], 1));
    FAC_TRY(fac__need_sizes("zero_point", zero_point, &self->sizes[axis], 1));
    FAC_TRY(fac__need_floating("scale", scale));
    FAC_CHECK(is_zero_point(zero_point), FAC_ERR_DTYPE, "zero_point must be int32, int64 or floating, got %s",
              fac_dtype_name((fac_dtype)zero_point->dtype));
    return declare_with_mask(s, self);
}
