/* Decompositions and pseudo-inverses in terms of the operators that compute singular values, eigenvalues and QR factors. */
#include "ops/composite/below.h"
#include "ops/composite/brief.h"
#include "ops/meta/matrix.h"
#include <facula/autograd.h>
#include <float.h>

/* Owned results of an operator: `keep` is given, the others are dropped. */
static fac_status only(fac_status st, fac_tensor **all, int n, int keep, fac_tensor **out) {
    if (st != FAC_OK) return st;
    for (int i = 0; i < n; i++) {
        if (i == keep)
            *out = all[i];
        else
            fac__unref(all[i]);
    }
    return FAC_OK;
}

/* ---- QR ------------------------------------------------------------------------------------------------------------------- */

fac_status qr_composite(const fac_call_info *c, fac_tensor *self, bool some, fac_tensor **out) {
    (void)c;
    return fac__c_linalg_qr(self, some ? "reduced" : "complete", out);
}

/* ---- singular values --------------------------------------------------------------------------------------------------------- */

fac_status linalg_svd_composite(const fac_call_info *c, fac_tensor *A, bool full_matrices, const char *driver,
                                fac_tensor **out) {
    (void)c;
    return fac__c__linalg_svd(A, full_matrices, true, driver, out);
}

/* Their gradient needs the vectors. */
fac_status linalg_svdvals_composite(const fac_call_info *c, fac_tensor *A, const char *driver, fac_tensor **out) {
    (void)c;
    fac_tensor *r[3] = {NULL, NULL, NULL};
    return only(fac__c__linalg_svd(A, false, fac__wants_derivative(A), driver, r), r, 3, 1, out);
}

/* Square matrices of zeros, one for each of self's. */
static fac_tensor *zero_vectors(fac_tensor *self, int64_t n) {
    fac_batch_sizes b = fac__batch_of(self, 2);
    b.v[b.n] = b.v[b.n + 1] = n;
    return fac__s_new_zeros(self, (fac_ints){b.v, (size_t)b.n + 2}, FAC_DTYPE_DEFAULT, FAC_STRIDED, (fac_device){0},
                            (fac_opt_num){0});
}

fac_status svd_composite(const fac_call_info *c, fac_tensor *self, bool some, bool compute_uv, fac_tensor **out) {
    (void)c;
    FAC_TRY(fac__need_matrices("A", self));
    FAC_SCOPE(s);
    if (!compute_uv)
        return fac__give_three(out, zero_vectors(self, fac__rows(self)), fac__s_linalg_svdvals(self, NULL),
                               zero_vectors(self, fac__cols(self)));
    fac__linalg_svd_result r = fac__s__linalg_svd(self, !some, true, NULL);
    return fac__give_three(out, r.U, r.S, fac__s_mH(r.Vh));
}

/* ---- eigenvalues ---------------------------------------------------------------------------------------------------------------- */

fac_status linalg_eigh_composite(const fac_call_info *c, fac_tensor *self, const char *uplo, fac_tensor **out) {
    (void)c;
    return fac__c__linalg_eigh(self, uplo, true, out);
}

fac_status linalg_eigvalsh_composite(const fac_call_info *c, fac_tensor *self, const char *uplo, fac_tensor **out) {
    (void)c;
    fac_tensor *r[2] = {NULL, NULL};
    return only(fac__c__linalg_eigh(self, uplo, fac__wants_derivative(self), r), r, 2, 0, out);
}

fac_status linalg_eigvals_composite(const fac_call_info *c, fac_tensor *self, fac_tensor **out) {
    (void)c;
    fac_tensor *r[2] = {NULL, NULL};
    if (!fac__wants_derivative(self)) return fac__c__linalg_eigvals(self, out);
    return only(fac__c_linalg_eig(self, r), r, 2, 0, out);
}

/* ---- thresholds of singular values -------------------------------------------------------------------------------------------------- */

static double smallest_step(const fac_tensor *t) {
    return t->dtype == FAC_F32 || t->dtype == FAC_C64 ? 0x1p-23 : 0x1p-52;
}

/* A number in the real dtype of `like`, its largest for one beyond. */
static fac_tensor *number(const fac_tensor *like, double x) {
    const double most = fac__real_dtype((fac_dtype)like->dtype) == FAC_F32 ? FLT_MAX : DBL_MAX;
    return fac__s_full(FAC_INTS(),
                       fac_scalar_f_(x > most    ? most
                                     : x < -most ? -most
                                                 : x),
                       fac__real_dtype((fac_dtype)like->dtype), FAC_STRIDED, like->device, (fac_opt_num){0});
}

static double default_rtol(const fac_tensor *A) {
    return smallest_step(A) * (double)fac__max(fac__rows(A), fac__cols(A));
}

/* max(atol, rtol * largest), where `values` are the moduli of singular values, the largest of each matrix's being [*, 1]. */
static fac_tensor *threshold(fac_tensor *A, fac_tensor *atol, fac_tensor *rtol, fac_tensor *largest) {
    fac_tensor *low = atol ? atol : number(A, 0), *factor = rtol;
    if (!factor) {
        factor = number(A, default_rtol(A));
        if (atol) factor = either(fac__s_gt_Scalar(atol, fac_scalar_i_(0)), number(A, 0), factor);
    }
    return fac__s_maximum(fac__s_unsqueeze(low, -1), mul(fac__s_unsqueeze(factor, -1), largest));
}

static fac_tensor *largest_of(fac_tensor *moduli) { return fac__s_amax(moduli, FAC_INTS(-1), true); }

static fac_status check_tolerance(const char *name, const fac_tensor *t) {
    FAC_CHECK(!t || !fac_dtype_is_complex((fac_dtype)t->dtype), FAC_ERR_DTYPE, "%s must not be complex", name);
    return FAC_OK;
}

/* ---- rank ----------------------------------------------------------------------------------------------------------------------------- */

static fac_status rank(fac_tensor *A, fac_tensor *atol, fac_tensor *rtol, bool hermitian, fac_tensor **out) {
    FAC_TRY((hermitian ? fac__need_square : fac__need_matrices)("A", A));
    FAC_TRY(check_tolerance("atol", atol));
    FAC_TRY(check_tolerance("rtol", rtol));
    FAC_NO_GRAD(guard);
    FAC_SCOPE(s);
    if (A->numel == 0) {
        fac_batch_sizes b = fac__batch_of(A, 2);
        return fac__give(out, fac__s_new_zeros(A, (fac_ints){b.v, (size_t)b.n}, FAC_I64, FAC_STRIDED, (fac_device){0},
                                               (fac_opt_num){0}));
    }
    fac_tensor *values = hermitian ? fac__s_abs(fac__s_linalg_eigvalsh(A, "L")) : fac__s_linalg_svdvals(A, NULL);
    fac_tensor *above = fac__s_gt_Tensor(values, threshold(A, atol, rtol, largest_of(values)));
    return fac__give(out, sum_along(above, -1, false));
}

fac_status linalg_matrix_rank_tensor_composite(const fac_call_info *c, fac_tensor *input, fac_tensor *atol,
                                               fac_tensor *rtol, bool hermitian, fac_tensor **out) {
    (void)c;
    return rank(input, atol, rtol, hermitian, out);
}

/* A tolerance that is a number, or none. */
static fac_tensor *optional(const fac_tensor *like, fac_opt_num x) {
    return x.set ? number(like, fac__scalar_f64(x.v)) : NULL;
}

fac_status linalg_matrix_rank_float_composite(const fac_call_info *c, fac_tensor *self, fac_opt_num atol,
                                              fac_opt_num rtol, bool hermitian, fac_tensor **out) {
    (void)c;
    FAC_SCOPE(s);
    return rank(self, optional(self, atol), optional(self, rtol), hermitian, out);
}

fac_status linalg_matrix_rank_composite(const fac_call_info *c, fac_tensor *self, double tol, bool hermitian,
                                        fac_tensor **out) {
    (void)c;
    FAC_SCOPE(s);
    return rank(self, number(self, tol), number(self, 0), hermitian, out);
}

fac_status linalg_matrix_rank_tol_composite(const fac_call_info *c, fac_tensor *input, fac_tensor *tol, bool hermitian,
                                            fac_tensor **out) {
    (void)c;
    FAC_SCOPE(s);
    return rank(input, tol, number(input, 0), hermitian, out);
}

/* ---- pseudo-inverses --------------------------------------------------------------------------------------------------------------------- */

/* 1 / values where their moduli are above the threshold, else 0, for the columns of a matrix. */
static fac_tensor *inverted(fac_tensor *A, fac_tensor *values, fac_tensor *atol, fac_tensor *rtol) {
    fac_tensor *moduli = fac__s_abs(values);
    fac_tensor *above = fac__s_gt_Tensor(moduli, threshold(A, atol, rtol, largest_of(moduli)));
    return fac__s_unsqueeze(either(above, fac__s_reciprocal(values), number(A, 0)), -2);
}

fac_status linalg_pinv_explicit(const fac_call_info *c, fac_tensor *self, fac_tensor *atol, fac_tensor *rtol,
                                bool hermitian, fac_tensor **out) {
    (void)c;
    FAC_TRY((hermitian ? fac__need_square : fac__need_matrices)("A", self));
    FAC_TRY(check_tolerance("atol", atol));
    FAC_TRY(check_tolerance("rtol", rtol));
    FAC_NO_GRAD(guard);
    FAC_SCOPE(s);
    if (self->numel == 0) return fac__give(out, fac__s_clone(fac__s_mT(self), FAC_CONTIGUOUS));
    if (hermitian) {
        fac__linalg_eigh_result r = fac__s__linalg_eigh(self, "L", true);
        if (!r.eigenvalues) return fac_error();
        fac_tensor *q = r.eigenvectors;
        return fac__give(out, fac__s_matmul(mul(q, inverted(self, r.eigenvalues, atol, rtol)), fac__s_mH(q)));
    }
    fac__linalg_svd_result r = fac__s__linalg_svd(self, false, true, NULL);
    if (!r.U) return fac_error();
    return fac__give(out, fac__s_matmul(mul(fac__s_mH(r.Vh), inverted(self, r.S, atol, rtol)), fac__s_mH(r.U)));
}

fac_status linalg_pinv_float_composite(const fac_call_info *c, fac_tensor *self, fac_opt_num atol, fac_opt_num rtol,
                                       bool hermitian, fac_tensor **out) {
    (void)c;
    FAC_SCOPE(s);
    return fac__c_linalg_pinv_atol_rtol_tensor(self, optional(self, atol), optional(self, rtol), hermitian, out);
}

fac_status linalg_pinv_composite(const fac_call_info *c, fac_tensor *self, double rcond, bool hermitian,
                                 fac_tensor **out) {
    (void)c;
    FAC_SCOPE(s);
    return fac__c_linalg_pinv_atol_rtol_tensor(self, number(self, 0), number(self, rcond), hermitian, out);
}

fac_status linalg_pinv_rcond_composite(const fac_call_info *c, fac_tensor *self, fac_tensor *rcond, bool hermitian,
                                       fac_tensor **out) {
    (void)c;
    FAC_SCOPE(s);
    return fac__c_linalg_pinv_atol_rtol_tensor(self, number(self, 0), rcond, hermitian, out);
}

fac_status pinverse_composite(const fac_call_info *c, fac_tensor *self, double rcond, fac_tensor **out) {
    return linalg_pinv_composite(c, self, rcond, false, out);
}

/* ---- roots and polar factors ---------------------------------------------------------------------------------------------------------------- */

fac_status linalg_matrix_sqrth_explicit(const fac_call_info *c, fac_tensor *self, fac_tensor **out) {
    (void)c;
    FAC_TRY(fac__need_square("self", self));
    FAC_NO_GRAD(guard);
    FAC_SCOPE(s);
    fac__linalg_eigh_result r = fac__s__linalg_eigh(scaled(add(self, fac__s_mH(self)), 0.5), "L", true);
    if (!r.eigenvalues) return fac_error();
    fac_tensor *roots = fac__s_sqrt(fac__s_clamp_min(r.eigenvalues, fac_scalar_i_(0))), *v = r.eigenvectors;
    return fac__give(out, fac__s_matmul(mul(v, fac__s_unsqueeze(roots, -2)), fac__s_mH(v)));
}

fac_status linalg_polar_explicit(const fac_call_info *c, fac_tensor *A, fac_tensor **out) {
    (void)c;
    FAC_TRY(fac__need_matrices("A", A));
    FAC_CHECK(fac__rows(A) >= fac__cols(A), FAC_ERR_SHAPE,
              "linalg.polar needs at least as many rows as columns, but A is %s", FAC_SHAPE_TEXT(A));
    FAC_NO_GRAD(guard);
    FAC_SCOPE(s);
    fac__linalg_svd_result r = fac__s__linalg_svd(A, false, true, NULL);
    if (!r.U) return fac_error();
    fac_tensor *v = fac__s_mH(r.Vh);
    FAC_TRY(fac__give(&out[0], fac__s_matmul(r.U, r.Vh)));
    const fac_status st = fac__give(&out[1], fac__s_matmul(mul(v, fac__s_unsqueeze(r.S, -2)), r.Vh));
    if (st) fac__unref(out[0]), out[0] = NULL;
    return st;
}
