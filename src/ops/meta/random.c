/* Output rules of random operators. */
#include "core/tensor_make.h"
#include "ops/meta/check.h"
#include "ops_gen.h"

/* Outputs lie as the input does if that has no gaps, else row by row: element i of the draw is element i in memory. */
fac_status native_dropout_meta(fac_structured *s, fac_tensor *input, double p, fac_opt_num train) {
    (void)train;
    FAC_CHECK(p >= 0 && p <= 1, FAC_ERR_ARGUMENT, "dropout probability has to be between 0 and 1, but got %g", p);
    FAC_CHECK(fac_dtype_is_floating((fac_dtype)input->dtype), FAC_ERR_DTYPE, "dropout needs a floating dtype, got %s",
              fac_dtype_name((fac_dtype)input->dtype));
    FAC_TRY(fac_out_declare_like(s, 0, input, (fac_dtype)input->dtype));
    return fac_out_declare_like(s, 1, input, FAC_BOOL);
}

fac_status native_dropout_backward_meta(fac_structured *s, fac_tensor *grad_output, fac_tensor *mask, double scale) {
    (void)scale;
    FAC_CHECK(fac__same_sizes(grad_output, mask), FAC_ERR_SHAPE, "grad_output of sizes %s and mask of sizes %s differ",
              FAC_SHAPE_TEXT(grad_output), FAC_SHAPE_TEXT(mask));
    FAC_CHECK(mask->dtype == FAC_BOOL, FAC_ERR_DTYPE, "mask should be a bool tensor, but got %s",
              fac_dtype_name((fac_dtype)mask->dtype));
    FAC_CHECK(fac_dtype_is_floating((fac_dtype)grad_output->dtype), FAC_ERR_DTYPE,
              "dropout needs a floating dtype, got %s", fac_dtype_name((fac_dtype)grad_output->dtype));
    return fac_out_declare_like(s, 0, grad_output, (fac_dtype)grad_output->dtype);
}

/* ---- draws whose parameters are elements: row-major, element i of the draw being element i of the result ---- */

static fac_status declare_drawn(fac_structured *s, const fac_tensor *like, const char *name) {
    FAC_CHECK(fac_dtype_is_floating((fac_dtype)like->dtype), FAC_ERR_DTYPE, "%s should be floating, not %s", name,
              fac_dtype_name((fac_dtype)like->dtype));
    return fac_out_declare(s, 0, like->sizes, NULL, like->ndim, (fac_dtype)like->dtype, like->device);
}

fac_status drawn_meta(fac_structured *s, fac_tensor *self, fac_generator *generator) {
    (void)generator;
    return declare_drawn(s, self, "self");
}

fac_status binomial_meta(fac_structured *s, fac_tensor *count, fac_tensor *prob, fac_generator *generator) {
    (void)generator;
    int64_t sizes[FAC_MAX_DIMS];
    int n;
    FAC_CHECK(fac_dtype_is_floating((fac_dtype)count->dtype), FAC_ERR_DTYPE,
              "binomial only supports floating-point dtypes for count, got: %s",
              fac_dtype_name((fac_dtype)count->dtype));
    FAC_CHECK(prob->dtype == count->dtype, FAC_ERR_DTYPE, "Found dtype %s but expected %s",
              fac_dtype_name((fac_dtype)prob->dtype), fac_dtype_name((fac_dtype)count->dtype));
    FAC_TRY(fac__broadcast(count->sizes, count->ndim, prob->sizes, prob->ndim, sizes, &n));
    return fac_out_declare(s, 0, sizes, NULL, n, (fac_dtype)count->dtype, count->device);
}

static fac_status check_alike(const fac_tensor *a, const fac_tensor *b, const char *name) {
    FAC_CHECK(b->dtype == a->dtype, FAC_ERR_DTYPE, "%s is %s, but should be %s", name,
              fac_dtype_name((fac_dtype)b->dtype), fac_dtype_name((fac_dtype)a->dtype));
    FAC_CHECK(fac__same_sizes(a, b), FAC_ERR_SHAPE, "%s has sizes %s, but should have %s", name, FAC_SHAPE_TEXT(b),
              FAC_SHAPE_TEXT(a));
    return FAC_OK;
}

fac_status standard_gamma_grad_meta(fac_structured *s, fac_tensor *self, fac_tensor *output) {
    FAC_TRY(check_alike(self, output, "output"));
    return declare_drawn(s, self, "self");
}

fac_status dirichlet_grad_meta(fac_structured *s, fac_tensor *x, fac_tensor *alpha, fac_tensor *total) {
    FAC_TRY(check_alike(x, alpha, "alpha"));
    FAC_TRY(check_alike(x, total, "total"));
    return declare_drawn(s, x, "x");
}

/* ---- draws of given keys ------------------------------------------------------------------------------------------------- */

fac_status fac__check_philox(const fac_tensor *self, const fac_tensor *key, fac_dtype from, fac_dtype to) {
    const fac_dtype d = (fac_dtype)self->dtype;
    FAC_CHECK(key->dtype == FAC_I64, FAC_ERR_DTYPE, "key must have dtype int64, got %s",
              fac_dtype_name((fac_dtype)key->dtype));
    FAC_CHECK(d >= from && d <= to, FAC_ERR_DTYPE, "self must be %s, got %s",
              from == FAC_F16 ? "a floating point tensor" : "of integers", fac_dtype_name(d));
    FAC_CHECK(fac_device_equal(self->device, key->device), FAC_ERR_DEVICE, "self and key must be on the same device");
    FAC_CHECK(key->ndim >= 1 && key->sizes[key->ndim - 1] == 2, FAC_ERR_SHAPE,
              "key must have sizes [*batch, 2], got %s", FAC_SHAPE_TEXT(key));
    FAC_CHECK(self->ndim >= key->ndim - 1, FAC_ERR_SHAPE, "self %s has fewer dimensions than key %s has for batches",
              FAC_SHAPE_TEXT(self), FAC_SHAPE_TEXT(key));
    for (int i = 0; i < key->ndim - 1; i++)
        FAC_CHECK(key->sizes[i] == 1 || key->sizes[i] == self->sizes[i], FAC_ERR_SHAPE,
                  "dimension %d of key %s does not fit self %s", i, FAC_SHAPE_TEXT(key), FAC_SHAPE_TEXT(self));
    return FAC_OK;
}

static fac_status undrawn(const fac_tensor *self, fac_tensor **out) {
    return fac__empty(self->sizes, self->ndim, (fac_dtype)self->dtype, self->device, out);
}

fac_status philox_uniform_meta(const fac_call_info *c, fac_tensor *self, fac_tensor *key, double low, double high,
                               fac_tensor **out) {
    (void)c, (void)low, (void)high;
    FAC_TRY(fac__check_philox(self, key, FAC_F16, FAC_F64));
    return undrawn(self, out);
}

fac_status philox_normal_meta(const fac_call_info *c, fac_tensor *self, fac_tensor *key, double mean, double std,
                              fac_tensor **out) {
    (void)c, (void)mean, (void)std;
    FAC_TRY(fac__check_philox(self, key, FAC_F16, FAC_F64));
    return undrawn(self, out);
}

fac_status philox_randint_meta(const fac_call_info *c, fac_tensor *self, fac_tensor *key, fac_opt_int low,
                               fac_opt_int high, fac_tensor **out) {
    (void)c, (void)low, (void)high;
    FAC_TRY(fac__check_philox(self, key, FAC_U8, FAC_I64));
    return undrawn(self, out);
}
