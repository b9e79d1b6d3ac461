/* Fake quantisation: the doors to the kernels that also give the mask. */
#include "ops/composite/brief.h"

static fac_status first_of(fac_status st, fac_tensor *const both[2], fac_tensor **out) {
    FAC_TRY(st);
    fac__unref(both[1]);
    *out = both[0];
    return FAC_OK;
}

fac_status fake_quantize_per_tensor_composite(const fac_call_info *c, fac_tensor *self, double scale,
                                              int64_t zero_point, int64_t quant_min, int64_t quant_max,
                                              fac_tensor **out) {
    (void)c;
    fac_tensor *both[2];
    return first_of(
        fac__c_fake_quantize_per_tensor_affine_cachemask(self, scale, zero_point, quant_min, quant_max, both), both,
        out);
}

fac_status fake_quantize_per_tensor_qparams_composite(const fac_call_info *c, fac_tensor *self, fac_tensor *scale,
                                                      fac_tensor *zero_point, int64_t quant_min, int64_t quant_max,
                                                      fac_tensor **out) {
    (void)c;
    fac_tensor *both[2];
    FAC_SCOPE(scope);
    fac_tensor *on = fac__s_new_ones(zero_point, FAC_INTS(1), FAC_I64, FAC_STRIDED, (fac_device){0}, (fac_opt_num){0});
    if (!on) return fac_error();
    return first_of(fac__c__fake_quantize_per_tensor_affine_cachemask_tensor_qparams(self, scale, zero_point, on,
                                                                                     quant_min, quant_max, both),
                    both, out);
}

fac_status fake_quantize_per_channel_composite(const fac_call_info *c, fac_tensor *self, fac_tensor *scale,
                                               fac_tensor *zero_point, int64_t axis, int64_t quant_min,
                                               int64_t quant_max, fac_tensor **out) {
    (void)c;
    fac_tensor *both[2];
    return first_of(
        fac__c_fake_quantize_per_channel_affine_cachemask(self, scale, zero_point, axis, quant_min, quant_max, both),
        both, out);
}

fac_status fake_quantize_backward_composite(const fac_call_info *c, fac_tensor *grad, fac_tensor *mask,
                                            fac_tensor **out) {
    (void)c;
    FAC_CHECK(mask->dtype == FAC_BOOL, FAC_ERR_DTYPE, "mask should be a bool tensor, but got %s",
              fac_dtype_name((fac_dtype)mask->dtype));
    FAC_CHECK(fac__same_sizes(grad, mask), FAC_ERR_SHAPE, "`mask` and `dY` are not the same size: %s and %s",
              FAC_SHAPE_TEXT(mask), FAC_SHAPE_TEXT(grad));
    FAC_CHECK(!is_integral(grad), FAC_ERR_DTYPE, "a gradient has a floating dtype, got %s",
              fac_dtype_name((fac_dtype)grad->dtype));
    FAC_SCOPE(scope);
    return fac__give(out, mul(grad, mask));
}
