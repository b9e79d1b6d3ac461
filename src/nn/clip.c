/* Limiting the gradients of many parameters, and parameters as one vector. */
#include "keywords_gen.h"
#include "nn/module.h"
#include <facula/ops.h>
#include <math.h>

/* All of them, before the first gradient changes. */
static fac_status check_parameters(fac_tensors parameters, const char *function) {
    FAC_CHECK(parameters.v || !parameters.n, FAC_ERR_ARGUMENT, "a list of %zu parameters has no array", parameters.n);
    for (size_t i = 0; i < parameters.n; i++)
        if (!fac__open(parameters.v[i], function, "parameters")) return fac_error();
    return FAC_OK;
}

/* The norm of each tensor, or of its gradient; *n is how many there are. */
static fac_status norms_of(fac_tensors tensors, bool of_grad, double order, double *norms, size_t *n) {
    *n = 0;
    for (size_t i = 0; i < tensors.n; i++) {
        FAC_SCOPE(s);
        fac_tensor *t = of_grad ? fac_grad_of(tensors.v[i]) : tensors.v[i];
        if (!t) continue;
        norms[(*n)++] = fac_item(fac_linalg_vector_norm(t, order));
        if (fac_error()) return fac_error();
    }
    return FAC_OK;
}

/* The norm of all together, which is the norm of their norms; 0 without any. */
static fac_status total_norm(fac_tensors tensors, bool of_grad, double order, double *out) {
    double *norms = fac__alloc_array(tensors.n, sizeof *norms);
    if (!norms) return fac_error();
    size_t n;
    fac_status st = norms_of(tensors, of_grad, order, norms, &n);
    FAC_SCOPE(s);
    *out = 0;
    if (!st && n) *out = fac_item(fac_linalg_vector_norm(fac_tensor_from(norms, FAC_F64, FAC_INTS((int64_t)n)), order));
    fac__free(norms);
    return fac_error();
}

/* Refuses a norm of which nothing can be made, where that is asked for. */
static fac_status check_finite(double norm, double order, bool wanted) {
    FAC_CHECK(isfinite(norm) || !wanted, FAC_ERR_ARGUMENT,
              "the total norm of order %g of the gradients is %g, so they cannot be clipped", order, norm);
    return FAC_OK;
}

static fac_status scale_gradients(fac_tensors parameters, double scale) {
    for (size_t i = 0; i < parameters.n; i++) {
        fac_tensor *grad = fac_grad_of(parameters.v[i]);
        FAC_SCOPE(s);
        if (grad && !fac_mul_(grad, scale)) return fac_error();
    }
    return FAC_OK;
}

static fac_status clip(fac_tensors parameters, double max_norm, double norm) {
    const double scale = max_norm / (norm + 1e-6);
    return isfinite(norm) && scale < 1 ? scale_gradients(parameters, scale) : FAC_OK;
}

fac_status(fac_clip_grad_norm)(fac_tensors parameters, double max_norm, const fac_clip_grad_norm_kw *kw) {
    if (fac_error()) return fac_error();
    fac_clip_grad_norm_kw k;
    FAC_TRY(fac__open_clip_grad_norm_kw(&k, kw));
    FAC_TRY(check_parameters(parameters, "fac_clip_grad_norm"));
    FAC_CHECK(max_norm >= 0, FAC_ERR_ARGUMENT, "max_norm should not be negative, but is %g", max_norm);
    FAC_CHECK(!isnan(k.norm_type), FAC_ERR_ARGUMENT, "norm_type should be a number, but is NaN");
    FAC_NO_GRAD(g);
    double norm = 0;
    FAC_TRY(total_norm(parameters, true, k.norm_type, &norm));
    if (k.total_norm) *k.total_norm = norm;
    FAC_TRY(check_finite(norm, k.norm_type, k.error_if_nonfinite));
    return clip(parameters, max_norm, norm);
}

fac_status(fac_get_total_norm)(fac_tensors tensors, double *out_norm, const fac_get_total_norm_kw *kw) {
    if (fac_error()) return fac_error();
    fac_get_total_norm_kw k;
    FAC_TRY(fac__open_get_total_norm_kw(&k, kw));
    FAC_TRY(check_parameters(tensors, "fac_get_total_norm"));
    if (!fac__given(out_norm, "place for the norm")) return fac_error();
    FAC_CHECK(!isnan(k.norm_type), FAC_ERR_ARGUMENT, "norm_type should be a number, but is NaN");
    FAC_NO_GRAD(g);
    double norm = 0;
    FAC_TRY(total_norm(tensors, false, k.norm_type, &norm));
    FAC_TRY(check_finite(norm, k.norm_type, k.error_if_nonfinite));
    *out_norm = norm;
    return FAC_OK;
}

fac_status fac_clip_grads_with_norm(fac_tensors parameters, double max_norm, double total_norm) {
    if (fac_error()) return fac_error();
    FAC_TRY(check_parameters(parameters, __func__));
    FAC_CHECK(max_norm >= 0 && total_norm >= 0, FAC_ERR_ARGUMENT,
              "max_norm and total_norm should not be negative, but are %g and %g", max_norm, total_norm);
    FAC_NO_GRAD(g);
    return clip(parameters, max_norm, total_norm);
}

fac_status fac_clip_grad_value(fac_tensors parameters, double limit) {
    if (fac_error()) return fac_error();
    FAC_TRY(check_parameters(parameters, __func__));
    FAC_CHECK(limit >= 0, FAC_ERR_ARGUMENT, "limit should not be negative, but is %g", limit);
    FAC_NO_GRAD(g);
    for (size_t i = 0; i < parameters.n; i++) {
        fac_tensor *grad = fac_grad_of(parameters.v[i]);
        FAC_SCOPE(s);
        if (grad && !fac_clamp_(grad, .min = -limit, .max = limit)) return fac_error();
    }
    return fac_error();
}

/* ---- parameters as a vector ---- */

fac_tensor *fac_parameters_to_vector(fac_tensors parameters) {
    if (fac_error() || check_parameters(parameters, __func__)) return NULL;
    if (!parameters.n) return (void)FAC_FAIL(FAC_ERR_ARGUMENT, "there are no parameters to make a vector of"), NULL;
    fac_tensor **parts = fac__alloc_array(parameters.n, sizeof *parts);
    if (!parts) return NULL;
    for (size_t i = 0; i < parameters.n; i++) parts[i] = fac_reshape(parameters.v[i], FAC_INTS(-1));
    fac_tensor *vector = fac_cat(fac_tensors_of(parts, parameters.n));
    fac__free(parts);
    return vector;
}

fac_status fac_vector_to_parameters(fac_tensor *vector, fac_tensors parameters) {
    if (fac_error()) return fac_error();
    int64_t n = 0, begin = 0;
    if (!fac__open(vector, __func__, "vector")) return fac_error();
    FAC_TRY(check_parameters(parameters, __func__));
    for (size_t i = 0; i < parameters.n; i++) n += fac_tensor_numel(parameters.v[i]);
    FAC_CHECK(fac_tensor_ndim(vector) == 1 && fac_tensor_numel(vector) == n, FAC_ERR_SHAPE,
              "the vector has the shape %s, but the parameters %lld elements", FAC_SHAPE_TEXT(fac__header(vector)),
              (long long)n);
    FAC_NO_GRAD(g);
    for (size_t i = 0; i < parameters.n; i++) {
        FAC_SCOPE(s);
        fac_tensor *p = parameters.v[i];
        const int64_t size = fac_tensor_numel(p);
        if (!fac_copy_(p, fac_view_as(fac_narrow(vector, 0, begin, size), p))) return fac_error();
        begin += size;
    }
    return FAC_OK;
}
