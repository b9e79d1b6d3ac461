/* Activations in terms of others. */
#include "ops/composite/brief.h"
#include "ops/structured.h"
#include <facula/autograd.h>
#include <math.h>

fac_status relu6_composite(const fac_call_info *c, fac_tensor *self, fac_tensor **out) {
    (void)c;
    return fac__c_hardtanh(self, fac_scalar_i_(0), fac_scalar_i_(6), out);
}

/* Constants for which the activations of a deep network keep mean 0 and variance 1. */
fac_status selu_composite(const fac_call_info *c, fac_tensor *self, fac_tensor **out) {
    (void)c;
    return fac__c_elu(self, fac_scalar_f_(1.6732632423543772848170429916717),
                      fac_scalar_f_(1.0507009873554804934193349852946), fac_scalar_i_(1), out);
}

fac_status celu_composite(const fac_call_info *c, fac_tensor *self, fac_scalar alpha, fac_tensor **out) {
    (void)c;
    double a = fac__scalar_f64(alpha);
    FAC_CHECK(a != 0, FAC_ERR_ARGUMENT, "alpha cannot be 0");
    return fac__c_elu(self, alpha, fac_scalar_i_(1), fac_scalar_f_(1 / a), out);
}

/* ---- random slopes ---------------------------------------------------------------------------------------------------------- */

static fac_scalar mean_slope(fac_scalar lower, fac_scalar upper) {
    return fac_scalar_f_((fac__scalar_f64(lower) + fac__scalar_f64(upper)) / 2);
}

static fac_status check_slopes(const fac_tensor *self, fac_scalar lower, fac_scalar upper) {
    const double low = fac__scalar_f64(lower), high = fac__scalar_f64(upper);
    FAC_CHECK(fac_dtype_is_floating((fac_dtype)self->dtype), FAC_ERR_DTYPE, "not implemented for '%s'",
              fac_dtype_name((fac_dtype)self->dtype));
    FAC_TRY(fac__check_number(FAC_F64, lower));
    FAC_TRY(fac__check_number(FAC_F64, upper));
    FAC_CHECK(isfinite(low) && isfinite(high) && low <= high, FAC_ERR_ARGUMENT,
              "Lower bound should be less than or equal to the upper bound, both finite, but got %g and %g", low, high);
    return FAC_OK;
}

/* A slope for each element: drawn, or 1 where x is positive. */
static fac_tensor *draw_slopes(fac_tensor *self, fac_scalar lower, fac_scalar upper, fac_generator *generator) {
    fac_tensor *slopes =
        fac__s_empty_like(self, FAC_DTYPE_DEFAULT, FAC_STRIDED, (fac_device){0}, (fac_opt_num){0}, FAC_FORMAT_DEFAULT);
    slopes = fac__s_uniform_(slopes, fac__scalar_f64(lower), fac__scalar_f64(upper), generator);
    return fill_where(slopes, fac__s_gt_Scalar(self, fac_scalar_i_(0)), 1);
}

fac_status rrelu_composite(const fac_call_info *c, fac_tensor *self, fac_scalar lower, fac_scalar upper, bool training,
                           fac_generator *generator, fac_tensor **out) {
    (void)c;
    FAC_TRY(check_slopes(self, lower, upper));
    if (!training) return fac__c_leaky_relu(self, mean_slope(lower, upper), out);
    FAC_SCOPE(s);
    return fac__give(out, mul(self, draw_slopes(self, lower, upper, generator)));
}

/* Whether noise can stand for the slopes of self, be they written there or not. */
static fac_status check_noise(const fac_tensor *self, const fac_tensor *noise) {
    FAC_CHECK(fac__same_sizes(self, noise), FAC_ERR_SHAPE, "noise of sizes %s should have those of self, %s",
              FAC_SHAPE_TEXT(noise), FAC_SHAPE_TEXT(self));
    FAC_CHECK(self->dtype == noise->dtype, FAC_ERR_DTYPE, "noise of %s should have the dtype of self, %s",
              fac_dtype_name((fac_dtype)noise->dtype), fac_dtype_name((fac_dtype)self->dtype));
    FAC_CHECK(fac_device_equal(self->device, noise->device), FAC_ERR_DEVICE, "noise should lie on the device of self");
    return FAC_OK;
}

static fac_status check_written_noise(fac_tensor *self, fac_tensor *noise) {
    FAC_CHECK(!fac__requires_grad(noise), FAC_ERR_AUTOGRAD, "noise is written, so it should require no gradient");
    FAC_CHECK(fac__overlap(self, noise) == FAC_OVERLAP_NO, FAC_ERR_ARGUMENT, "noise shares memory with self");
    FAC_TRY(fac__version_make(noise));
    return fac__check_no_overlap(noise);
}

fac_status rrelu_with_noise_composite(const fac_call_info *c, fac_tensor *self, fac_tensor *noise, fac_scalar lower,
                                      fac_scalar upper, bool training, fac_generator *generator, fac_tensor **out) {
    (void)c;
    FAC_TRY(check_slopes(self, lower, upper));
    FAC_TRY(check_noise(self, noise));
    if (!training) return fac__c_leaky_relu(self, mean_slope(lower, upper), out);
    FAC_TRY(check_written_noise(self, noise));
    FAC_SCOPE(s);
    fac_tensor *slopes = draw_slopes(self, lower, upper, generator), *result = mul(self, slopes);
    if (!result) return fac_error();
    FAC_TRY(fac__copy_over(noise, slopes));
    return fac__give(out, result);
}

/* The result and the slopes are copied when all else is done. */
fac_status rrelu_with_noise_out_composite(const fac_call_info *c, fac_tensor *self, fac_tensor *noise, fac_scalar lower,
                                          fac_scalar upper, bool training, fac_generator *generator, fac_tensor *out_,
                                          fac_tensor **out) {
    fac_tensor *const outs[] = {out_, noise}, *const reads[] = {self, noise};
    const size_t n = training ? 2 : 1;
    fac_tensor *results[2];
    FAC_TRY(fac__check_out_overlap(outs, 1, reads, 1, true));
    FAC_TRY(fac__check_out_overlap(outs, 1, reads + 1, 1, false));
    FAC_CHECK(
        !fac_is_grad_enabled() || !(fac__requires_grad(self) || fac__requires_grad(out_)), FAC_ERR_AUTOGRAD,
        "a form with an out argument supports no automatic differentiation, but one of its arguments requires a gradient");
    if (training) FAC_TRY(check_written_noise(self, noise));
    FAC_TRY(rrelu_with_noise_functional_composite(c, self, noise, lower, upper, training, generator, results));
    const fac_status st = fac__copy_to_outs(outs, results, n);
    fac__unref(results[0]);
    fac__unref(results[1]);
    if (!st) *out = fac__ref(out_);
    return st;
}

fac_status rrelu_with_noise_inplace_composite(const fac_call_info *c, fac_tensor *self, fac_tensor *noise,
                                              fac_scalar lower, fac_scalar upper, bool training,
                                              fac_generator *generator, fac_tensor **out) {
    (void)c;
    FAC_TRY(check_slopes(self, lower, upper));
    FAC_TRY(check_noise(self, noise));
    if (!training) return fac__c_leaky_relu_(self, mean_slope(lower, upper), out);
    FAC_TRY(check_written_noise(self, noise));
    FAC_SCOPE(s);
    fac_tensor *slopes = draw_slopes(self, lower, upper, generator);
    if (!slopes) return fac_error();
    FAC_TRY(fac__c_mul__Tensor(self, slopes, out));
    const fac_status st = fac__copy_over(noise, slopes);
    if (st) fac__unref(*out), *out = NULL;
    return st;
}

fac_status rrelu_with_noise_functional_composite(const fac_call_info *c, fac_tensor *self, fac_tensor *noise,
                                                 fac_scalar lower, fac_scalar upper, bool training,
                                                 fac_generator *generator, fac_tensor **out) {
    (void)c;
    FAC_TRY(check_slopes(self, lower, upper));
    FAC_TRY(check_noise(self, noise));
    FAC_SCOPE(s);
    fac_tensor *slopes =
        training ? draw_slopes(self, lower, upper, generator) : fac__s_clone(fac__s_detach(noise), FAC_FORMAT_DEFAULT);
    FAC_TRY(fac__give(&out[0], training ? mul(self, slopes) : fac__s_leaky_relu(self, mean_slope(lower, upper))));
    const fac_status st = fac__give(&out[1], slopes);
    if (st) fac__unref(out[0]), out[0] = NULL;
    return st;
}

fac_status rrelu_with_noise_backward_composite(const fac_call_info *c, fac_tensor *grad_output, fac_tensor *self,
                                               fac_tensor *noise, fac_scalar lower, fac_scalar upper, bool training,
                                               bool self_is_result, fac_tensor **out) {
    (void)c;
    FAC_TRY(fac__check_number(FAC_F64, lower));
    FAC_TRY(fac__check_number(FAC_F64, upper));
    if (training && fac__scalar_f64(upper) - fac__scalar_f64(lower) > 1e-6)
        return fac__c_mul_Tensor(grad_output, noise, out);
    return fac__c_leaky_relu_backward(grad_output, self, mean_slope(lower, upper), self_is_result, out);
}
