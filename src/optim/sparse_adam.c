/* SparseAdam, and the rows of sparse gradients. */
#include "optim/kind.h"
#include "optim/sparse.h"
#include <facula/ops.h>
#include <math.h>

fac_sparse_rows fac__sparse_rows(fac_tensor *grad) {
    fac_tensor *once = fac_coalesce(grad);
    return (fac_sparse_rows){once, fac_indices(once), fac_values(once)};
}

fac_tensor *fac__sparse_values(const fac_sparse_rows *r, fac_tensor *dense) {
    return fac_values(fac_coalesce(fac_sparse_mask(dense, r->grad)));
}

fac_tensor *fac__sparse_like(const fac_sparse_rows *r, fac_tensor *values) {
    if (fac_error()) return NULL;
    return fac_sparse_coo_tensor_indices_size(r->indices, values, fac_tensor_sizes(r->grad), .is_coalesced = true);
}

#define SPARSE_ADAM(X, Y) X(beta1, 0.9) X(beta2, 0.999) X(eps, 1e-8) X(maximize, 0)
FAC_KIND(sparse_adam, 1e-3, SPARSE_ADAM)

static fac_status check(const double *values) {
    FAC_KIND_OPTIONS(sparse_adam, v, values);
    FAC_CHECK(v->lr > 0, FAC_ERR_ARGUMENT, "invalid learning rate: %g", v->lr);
    FAC_CHECK(v->eps > 0, FAC_ERR_ARGUMENT, "invalid epsilon value: %g", v->eps);
    return fac__optim_check_betas(v->beta1, v->beta2);
}

static fac_status check_sparse(const double *values) { return (void)values, FAC_OK; }

/* mean += (1 - beta) (values - mean) at the rows; returns the new means there. */
static fac_tensor *moment(const fac_sparse_rows *r, fac_tensor *mean, fac_tensor *values, double beta) {
    fac_tensor *old = fac__sparse_values(r, mean);
    fac_tensor *change = fac_mul_(fac_sub(values, old), 1 - beta);
    (void)fac_add_(mean, fac__sparse_like(r, change));
    return fac_add(change, old);
}

static fac_status step(const fac_optimizer_update *u) {
    FAC_KIND_OPTIONS(sparse_adam, v, u->options);
    fac_sparse_rows r = fac__sparse_rows(u->grad);
    if (fac_error() || fac_tensor_numel(r.values) == 0) return fac_error();
    if (v->maximize != 0) r.values = fac_neg(r.values);
    fac_tensor *mean = moment(&r, u->state[0], r.values, v->beta1);
    fac_tensor *root = fac_sqrt_(moment(&r, u->state[1], fac_mul(r.values, r.values), v->beta2));
    const double n = (double)u->step, left1 = 1 - pow(v->beta1, n), left2 = 1 - pow(v->beta2, n);
    fac_tensor *change = fac_mul_(fac_div_(mean, fac_add_(root, v->eps)), -v->lr * sqrt(left2) / left1);
    (void)fac_add_(u->parameter, fac__sparse_like(&r, change));
    return fac_error();
}

const fac_optim_kind fac__sparse_adam_kind = {.cls = {.own = &fac__sparse_adam_kind,
                                                      .name = "SparseAdam",
                                                      .options = sparse_adam_list,
                                                      .state = (const char *const[]){"exp_avg", "exp_avg_sq", NULL},
                                                      .step = step,
                                                      .check_options = check,
                                                      .check_parameter = fac__optim_check_floating},
                                              .check_sparse = check_sparse,
                                              .sparse_only = true};
