/* Limiting the gradients of many parameters. */
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

/* The 2-norm of all gradients together: the norm of their norms, summed in order, so that it is the same on every run. */
static fac_status total_norm(fac_tensors parameters, double *out) {
    double sum = 0;
    for (size_t i = 0; i < parameters.n; i++) {
        FAC_SCOPE(s);
        fac_tensor *g = fac_grad_of(parameters.v[i]);
        if (!g) continue;
        const double n = fac_item(fac_linalg_vector_norm(g));
        if (fac_error()) return fac_error();
        sum += n * n;
    }
    *out = sqrt(sum);
    return fac_error();
}

fac_status fac_clip_grad_norm(fac_tensors parameters, double max_norm, bool error_if_nonfinite, double *out_norm) {
    if (fac_error()) return fac_error();
    FAC_TRY(check_parameters(parameters, __func__));
    FAC_CHECK(max_norm >= 0, FAC_ERR_ARGUMENT, "max_norm should not be negative, but is %g", max_norm);
    FAC_NO_GRAD(g);
    double norm = 0;
    FAC_TRY(total_norm(parameters, &norm));
    if (out_norm) *out_norm = norm;
    if (!isfinite(norm)) {
        FAC_CHECK(!error_if_nonfinite, FAC_ERR_ARGUMENT,
                  "the total norm of the gradients is %g, so they cannot be clipped", norm);
        return FAC_OK;
    }
    const double scale = max_norm / (norm + 1e-6);
    for (size_t i = 0; i < parameters.n && scale < 1; i++) {
        fac_tensor *grad = fac_grad_of(parameters.v[i]);
        FAC_SCOPE(s);
        if (grad && !fac_mul_(grad, scale)) return fac_error();
    }
    return FAC_OK;
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
