/* Limiting the gradients of many parameters. */
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

/* The norm of each gradient; *n is how many there are. */
static fac_status norms_of(fac_tensors parameters, double order, double *norms, size_t *n) {
    *n = 0;
    for (size_t i = 0; i < parameters.n; i++) {
        FAC_SCOPE(s);
        fac_tensor *g = fac_grad_of(parameters.v[i]);
        if (!g) continue;
        norms[(*n)++] = fac_item(fac_linalg_vector_norm(g, order));
        if (fac_error()) return fac_error();
    }
    return FAC_OK;
}

/* The norm of all gradients together, which is the norm of their norms; 0 without any. */
static fac_status total_norm(fac_tensors parameters, double order, double *out) {
    double *norms = fac__alloc_array(parameters.n, sizeof *norms);
    if (!norms) return fac_error();
    size_t n;
    fac_status st = norms_of(parameters, order, norms, &n);
    FAC_SCOPE(s);
    *out = 0;
    if (!st && n) *out = fac_item(fac_linalg_vector_norm(fac_tensor_from(norms, FAC_F64, FAC_INTS((int64_t)n)), order));
    fac__free(norms);
    return fac_error();
}

static fac_status scale_gradients(fac_tensors parameters, double scale) {
    for (size_t i = 0; i < parameters.n; i++) {
        fac_tensor *grad = fac_grad_of(parameters.v[i]);
        FAC_SCOPE(s);
        if (grad && !fac_mul_(grad, scale)) return fac_error();
    }
    return FAC_OK;
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
    FAC_TRY(total_norm(parameters, k.norm_type, &norm));
    if (k.total_norm) *k.total_norm = norm;
    FAC_CHECK(isfinite(norm) || !k.error_if_nonfinite, FAC_ERR_ARGUMENT,
              "the total norm of order %g of the gradients is %g, so they cannot be clipped", k.norm_type, norm);
    const double scale = max_norm / (norm + 1e-6);
    return isfinite(norm) && scale < 1 ? scale_gradients(parameters, scale) : FAC_OK;
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
