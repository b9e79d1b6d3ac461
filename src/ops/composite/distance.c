/* Distances in terms of norms, whose gradient at zero is zero. */
#include "ops/composite/brief.h"
#include <math.h>

static fac_tensor *norm_over(fac_tensor *a, double p, fac_ints dims, bool keepdim) {
    return fac__s_linalg_vector_norm(a, fac_scalar_f_(p), dims, keepdim, FAC_DTYPE_DEFAULT);
}
/* Distances along the last dimension; between points without coordinates they are 0, also where the norm has no value. */
static fac_tensor *distances(fac_tensor *apart, double p) {
    if (!apart || apart->sizes[apart->ndim - 1] > 0) return norm_over(apart, p, FAC_INTS(-1), false);
    return sum_along(apart, -1, false);
}
static fac_tensor *between(fac_tensor *a, fac_tensor *b, double p, double eps, bool keepdim) {
    fac_tensor *apart = sub(a, b);
    if (!apart) return NULL;
    /* In place unless the result is of another dtype: a difference is not kept for its gradient. */
    apart = is_integral(apart) ? plus(apart, eps) : fac__s_add__Scalar(apart, fac_scalar_f_(eps), fac_scalar_i_(1));
    return norm_over(apart, p, FAC_INTS(-1), keepdim);
}

fac_status dist_composite(const fac_call_info *c, fac_tensor *self, fac_tensor *other, fac_scalar p, fac_tensor **out) {
    (void)c;
    FAC_CHECK(p.kind != FAC_KIND_COMPLEX, FAC_ERR_DTYPE, "Expected a non-complex scalar as the order of norm");
    FAC_SCOPE(scope);
    return fac__give(out, norm_over(sub(self, other), fac__scalar_f64(p), (fac_ints){0}, false));
}

fac_status pairwise_distance_composite(const fac_call_info *c, fac_tensor *x1, fac_tensor *x2, double p, double eps,
                                       bool keepdim, fac_tensor **out) {
    (void)c;
    FAC_SCOPE(scope);
    return fac__give(out, between(x1, x2, p, eps, keepdim));
}

static fac_dtype common_dtype(const fac_tensor *a, const fac_tensor *b) {
    fac_promotion types = {0};
    fac__promote_tensor(&types, a);
    fac__promote_tensor(&types, b);
    return fac__promote_result(&types);
}

fac_status cdist_composite(const fac_call_info *c, fac_tensor *x1, fac_tensor *x2, double p, fac_opt_int compute_mode,
                           fac_tensor **out) {
    (void)c;
    FAC_CHECK(x1->ndim >= 2 && x2->ndim >= 2, FAC_ERR_SHAPE, "cdist only supports at least 2D tensors, got %s and %s",
              FAC_SHAPE_TEXT(x1), FAC_SHAPE_TEXT(x2));
    FAC_CHECK(x1->sizes[x1->ndim - 1] == x2->sizes[x2->ndim - 1], FAC_ERR_SHAPE,
              "X1 and X2 must have the same number of columns. X1: %lld X2: %lld", (long long)x1->sizes[x1->ndim - 1],
              (long long)x2->sizes[x2->ndim - 1]);
    FAC_CHECK(p >= 0, FAC_ERR_ARGUMENT, "cdist only supports non-negative p values");
    FAC_CHECK(!compute_mode.set || (compute_mode.v >= 0 && compute_mode.v <= 2), FAC_ERR_ARGUMENT,
              "possible modes: 0, 1, 2, but was: %lld", (long long)compute_mode.v);
    FAC_SCOPE(scope);
    const fac_dtype dtype = common_dtype(x1, x2);
    if (!fac_dtype_is_complex(dtype))
        return fac__give(out, fac__s__cdist_forward(cast(x1, dtype), cast(x2, dtype), p, compute_mode));
    fac_tensor *apart = sub(fac__s_unsqueeze(x1, -2), fac__s_unsqueeze(x2, -3));
    return fac__give(out, distances(apart, p));
}

/* The differences of complex rows, which _pdist_forward does not take. */
static fac_tensor *pairs_apart(fac_tensor *self) {
    const int64_t n = self->sizes[0];
    fac_tensor *pairs = fac__s_triu_indices(n, n, 1, FAC_I64, FAC_STRIDED, self->device, (fac_opt_num){0});
    fac_tensor *first = fac__s_index_select(self, 0, fac__s_select_int(pairs, 0, 0));
    return sub(first, fac__s_index_select(self, 0, fac__s_select_int(pairs, 0, 1)));
}

fac_status pdist_composite(const fac_call_info *c, fac_tensor *self, double p, fac_tensor **out) {
    (void)c;
    FAC_CHECK(self->ndim == 2, FAC_ERR_SHAPE, "pdist only supports 2D tensors, got: %dD", self->ndim);
    FAC_CHECK(p >= 0, FAC_ERR_ARGUMENT, "pdist only supports non-negative p values");
    if (!fac_dtype_is_complex((fac_dtype)self->dtype)) return fac__c__pdist_forward(self, p, out);
    FAC_SCOPE(scope);
    return fac__give(out, distances(pairs_apart(self), p));
}

fac_status triplet_margin_loss_composite(const fac_call_info *c, fac_tensor *anchor, fac_tensor *positive,
                                         fac_tensor *negative, double margin, double p, double eps, bool swap,
                                         int64_t reduction, fac_tensor **out) {
    (void)c;
    FAC_CHECK(
        anchor->ndim == positive->ndim && anchor->ndim == negative->ndim, FAC_ERR_SHAPE,
        "The anchor, positive, and negative tensors are expected to have the same number of dimensions, but got: anchor %dD, "
        "positive %dD, and negative %dD inputs",
        anchor->ndim, positive->ndim, negative->ndim);
    FAC_CHECK(reduction >= 0 && reduction <= 2, FAC_ERR_ARGUMENT,
              "%lld is not a valid value for reduction: 0 is none, 1 mean, 2 sum", (long long)reduction);
    FAC_SCOPE(scope);
    fac_tensor *far = between(anchor, negative, p, eps, false);
    if (swap) far = fac__s_minimum(far, between(positive, negative, p, eps, false));
    fac_tensor *loss =
        fac__s_clamp_min(plus(sub(between(anchor, positive, p, eps, false), far), margin), fac_scalar_i_(0));
    if (reduction == 1) loss = fac__s_mean(loss, FAC_DTYPE_DEFAULT);
    if (reduction == 2) loss = fac__s_sum(loss, FAC_DTYPE_DEFAULT);
    return fac__give(out, loss);
}

fac_status renorm_composite(const fac_call_info *c, fac_tensor *self, fac_scalar p, int64_t dim, fac_scalar maxnorm,
                            fac_tensor **out) {
    (void)c;
    FAC_CHECK(p.kind != FAC_KIND_COMPLEX, FAC_ERR_DTYPE, "p must be real-valued");
    FAC_CHECK(fac__scalar_f64(p) > 0, FAC_ERR_ARGUMENT, "non-positive-norm not supported");
    FAC_CHECK(fac__scalar_f64(maxnorm) >= 0, FAC_ERR_ARGUMENT, "expected maxnorm to be >= 0 but got %g",
              fac__scalar_f64(maxnorm));
    FAC_CHECK(self->ndim > 1, FAC_ERR_SHAPE, "input needs at least 2 dimensions, got %d dimensions", self->ndim);
    int64_t kept, dims[FAC_MAX_DIMS];
    size_t n = 0;
    FAC_TRY(fac__wrap_dim(dim, self->ndim, &kept));
    for (int64_t d = 0; d < self->ndim; d++) {
        if (d != kept) dims[n++] = d;
    }
    FAC_SCOPE(scope);
    fac_tensor *norm = norm_over(self, fac__scalar_f64(p), (fac_ints){dims, n}, true);
    if (isinf(fac__scalar_f64(maxnorm)) && norm) return fac__give(out, fac__s_clone(self, FAC_FORMAT_DEFAULT));
    fac_tensor *factor = fac__s_mul_Scalar(fac__s_reciprocal(plus(norm, 1e-7)), maxnorm);
    fac_tensor *small = fac__s_logical_not(fac__s_gt_Scalar(norm, maxnorm)); /* a norm that is NaN changes nothing */
    fac_tensor *scale = fac__s_masked_fill_Scalar(factor, small, fac_scalar_i_(1));
    return fac__give(out, fac__s_mul_Tensor(self, scale));
}
