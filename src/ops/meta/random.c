/* Output rules of random operators. */
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
