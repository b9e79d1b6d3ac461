/* Output rules of the kernels of cdist and pdist. */
#include "ops/meta/check.h"
#include "ops_gen.h"

static fac_status check_power(double p) {
    FAC_CHECK(p >= 0, FAC_ERR_ARGUMENT, "only non-negative p values are supported, got %g", p);
    return FAC_OK;
}

/* Points x1 [*, P, D] and x2 [*, R, D] of one floating dtype; their common batch goes to sizes. */
static fac_status check_pair(const fac_tensor *x1, const fac_tensor *x2, double p, int64_t *sizes, int *batch) {
    FAC_TRY(check_power(p));
    FAC_CHECK(x1->ndim >= 2 && x2->ndim >= 2, FAC_ERR_SHAPE, "cdist only supports at least 2D tensors, got %s and %s",
              FAC_SHAPE_TEXT(x1), FAC_SHAPE_TEXT(x2));
    FAC_TRY(fac__need_floating("x1", x1));
    FAC_TRY(fac__need_dtype("x2", x2, (fac_dtype)x1->dtype));
    FAC_CHECK(x1->sizes[x1->ndim - 1] == x2->sizes[x2->ndim - 1], FAC_ERR_SHAPE,
              "X1 and X2 must have the same number of columns. X1: %lld X2: %lld", (long long)x1->sizes[x1->ndim - 1],
              (long long)x2->sizes[x2->ndim - 1]);
    return fac__broadcast(x1->sizes, x1->ndim - 2, x2->sizes, x2->ndim - 2, sizes, batch);
}

fac_status cdist_forward_meta(fac_structured *s, fac_tensor *x1, fac_tensor *x2, double p, fac_opt_int compute_mode) {
    int64_t sizes[FAC_MAX_DIMS];
    int batch;
    FAC_TRY(check_pair(x1, x2, p, sizes, &batch));
    FAC_CHECK(!compute_mode.set || (compute_mode.v >= 0 && compute_mode.v <= 2), FAC_ERR_ARGUMENT,
              "possible modes: 0, 1, 2, but was: %lld", (long long)compute_mode.v);
    sizes[batch] = x1->sizes[x1->ndim - 2];
    sizes[batch + 1] = x2->sizes[x2->ndim - 2];
    return fac_out_declare(s, 0, sizes, NULL, batch + 2, (fac_dtype)x1->dtype, x1->device);
}

fac_status cdist_backward_meta(fac_structured *s, fac_tensor *grad_output, fac_tensor *x1, fac_tensor *x2, double p,
                               fac_tensor *cdist) {
    int64_t sizes[FAC_MAX_DIMS];
    int batch;
    FAC_TRY(check_pair(x1, x2, p, sizes, &batch));
    sizes[batch] = x1->sizes[x1->ndim - 2];
    sizes[batch + 1] = x2->sizes[x2->ndim - 2];
    FAC_TRY(fac__need_sizes("grad_output", grad_output, sizes, batch + 2));
    FAC_TRY(fac__need_sizes("cdist", cdist, sizes, batch + 2));
    FAC_TRY(fac__need_dtype("grad_output", grad_output, (fac_dtype)x1->dtype));
    FAC_TRY(fac__need_dtype("cdist", cdist, (fac_dtype)x1->dtype));
    sizes[batch + 1] = x1->sizes[x1->ndim - 1];
    return fac_out_declare(s, 0, sizes, NULL, batch + 2, (fac_dtype)x1->dtype, x1->device);
}

/* The number of pairs of rows. */
static fac_status check_rows(const fac_tensor *self, double p, int64_t *pairs) {
    FAC_TRY(check_power(p));
    FAC_CHECK(self->ndim == 2, FAC_ERR_SHAPE, "pdist only supports 2D tensors, got: %dD", self->ndim);
    FAC_TRY(fac__need_floating("self", self));
    const __int128 n = self->sizes[0];
    FAC_CHECK(n * (n - 1) / 2 <= INT64_MAX, FAC_ERR_OVERFLOW, "%lld rows make too many pairs", (long long)n);
    *pairs = (int64_t)(n * (n - 1) / 2);
    return FAC_OK;
}

fac_status pdist_forward_meta(fac_structured *s, fac_tensor *self, double p) {
    int64_t pairs;
    FAC_TRY(check_rows(self, p, &pairs));
    return fac_out_declare(s, 0, &pairs, NULL, 1, (fac_dtype)self->dtype, self->device);
}

fac_status pdist_backward_meta(fac_structured *s, fac_tensor *grad_output, fac_tensor *self, double p,
                               fac_tensor *pdist) {
    int64_t pairs;
    FAC_TRY(check_rows(self, p, &pairs));
    FAC_TRY(fac__need_sizes("grad_output", grad_output, &pairs, 1));
    FAC_TRY(fac__need_sizes("pdist", pdist, &pairs, 1));
    FAC_TRY(fac__need_dtype("grad_output", grad_output, (fac_dtype)self->dtype));
    FAC_TRY(fac__need_dtype("pdist", pdist, (fac_dtype)self->dtype));
    return fac_out_declare(s, 0, self->sizes, NULL, 2, (fac_dtype)self->dtype, self->device);
}
