/* Solutions, inverses, determinants and factors of matrices in terms of the operators that tell how they went. */
#include "ops/factor.h"
#include "ops/composite/brief.h"

enum { NO_INFO = -1 };
/* Owned results of an operator: the first is given if st is FAC_OK and the one at `info` tells no failure; the others are dropped. */
static fac_status first_of(fac_status st, fac_tensor **all, int n, fac_factor what, int info, fac_tensor **out) {
    if (st != FAC_OK) return st;
    if (info != NO_INFO) st = fac__check_info(what, all[info]);
    for (int i = st == FAC_OK ? 1 : 0; i < n; i++) fac__unref(all[i]);
    if (st == FAC_OK) *out = all[0];
    return st;
}

/* ---- Cholesky and triangles ----------------------------------------------------------------------------------------------- */

fac_status linalg_cholesky_composite(const fac_call_info *c, fac_tensor *self, bool upper, fac_tensor **out) {
    (void)c;
    fac_tensor *r[2] = {NULL, NULL};
    return first_of(fac__c_linalg_cholesky_ex(self, upper, false, r), r, 2, FAC_FACTOR_CHOLESKY, 1, out);
}

/* A copy of A for every matrix of x. */
static fac_tensor *copy_for_each(fac_tensor *A, const fac_tensor *x) {
    int64_t sizes[FAC_MAX_DIMS];
    if (!x) return NULL;
    memcpy(sizes, x->sizes, x->ndim * sizeof *sizes);
    sizes[x->ndim - 2] = sizes[x->ndim - 1] = A->sizes[A->ndim - 1];
    return fac__s_clone(fac__s_expand(A, (fac_ints){sizes, x->ndim}, false), FAC_CONTIGUOUS);
}

fac_status triangular_solve_composite(const fac_call_info *c, fac_tensor *self, fac_tensor *A, bool upper,
                                      bool transpose, bool unitriangular, fac_tensor **out) {
    (void)c;
    FAC_SCOPE(s);
    fac_tensor *a = transpose ? fac__s_mT(A) : A;
    fac_tensor *x = fac__s_linalg_solve_triangular(a, self, upper != transpose, true, unitriangular);
    fac_tensor *copy = copy_for_each(A, x);
    FAC_TRY(fac__give(&out[0], x));
    fac_status st = fac__give(&out[1], copy);
    if (st != FAC_OK) fac__unref(out[0]), out[0] = NULL;
    return st;
}

/* ---- LU and LDL ------------------------------------------------------------------------------------------------------------- */

/* Drops the third of an operator's owned results unless it tells a failure, which then drops all. */
static fac_status without_info(fac_status st, fac_factor what, fac_tensor **all, fac_tensor **out) {
    if (st != FAC_OK) return st;
    st = fac__check_info(what, all[2]);
    fac__unref(all[2]);
    for (int i = 0; i < 2; i++) {
        out[i] = st == FAC_OK ? all[i] : NULL;
        if (st != FAC_OK) fac__unref(all[i]);
    }
    return st;
}

fac_status linalg_lu_factor_composite(const fac_call_info *c, fac_tensor *A, bool pivot, fac_tensor **out) {
    (void)c;
    fac_tensor *r[3] = {NULL, NULL, NULL};
    return without_info(fac__c_linalg_lu_factor_ex(A, pivot, false, r), FAC_FACTOR_LU, r, out);
}

fac_status linalg_ldl_factor_composite(const fac_call_info *c, fac_tensor *self, bool hermitian, fac_tensor **out) {
    (void)c;
    fac_tensor *r[3] = {NULL, NULL, NULL};
    return without_info(fac__c_linalg_ldl_factor_ex(self, hermitian, false, r), FAC_FACTOR_LDL, r, out);
}

fac_status linalg_lu_composite(const fac_call_info *c, fac_tensor *A, bool pivot, fac_tensor **out) {
    (void)c;
    FAC_SCOPE(s);
    fac_linalg_lu_factor_ex_result f = fac__s_linalg_lu_factor_ex(A, pivot, false);
    return f.LU ? fac__c_lu_unpack(f.LU, f.pivots, true, true, out) : fac_error();
}

fac_status lu_solve_composite(const fac_call_info *c, fac_tensor *self, fac_tensor *LU_data, fac_tensor *LU_pivots,
                              fac_tensor **out) {
    (void)c;
    return fac__c_linalg_lu_solve(LU_data, LU_pivots, self, true, false, out);
}

/* ---- solutions and inverses -------------------------------------------------------------------------------------------------- */

fac_status linalg_solve_ex_composite(const fac_call_info *c, fac_tensor *A, fac_tensor *B, bool left, bool check_errors,
                                     fac_tensor **out) {
    (void)c;
    fac_tensor *r[4] = {NULL, NULL, NULL, NULL};
    FAC_TRY(fac__c__linalg_solve_ex(A, B, left, check_errors, r));
    out[0] = r[0];
    out[1] = r[3];
    fac__unref(r[1]);
    fac__unref(r[2]);
    return FAC_OK;
}

fac_status linalg_solve_composite(const fac_call_info *c, fac_tensor *A, fac_tensor *B, bool left, fac_tensor **out) {
    (void)c;
    fac_tensor *r[4] = {NULL, NULL, NULL, NULL};
    return first_of(fac__c__linalg_solve_ex(A, B, left, false, r), r, 4, FAC_FACTOR_SOLVE, 3, out);
}

fac_status linalg_inv_composite(const fac_call_info *c, fac_tensor *A, fac_tensor **out) {
    (void)c;
    fac_tensor *r[2] = {NULL, NULL};
    return first_of(fac__c_linalg_inv_ex(A, false, r), r, 2, FAC_FACTOR_INVERSE, 1, out);
}

/* ---- determinants ------------------------------------------------------------------------------------------------------------- */

fac_status linalg_det_composite(const fac_call_info *c, fac_tensor *A, fac_tensor **out) {
    (void)c;
    fac_tensor *r[3] = {NULL, NULL, NULL};
    return first_of(fac__c__linalg_det(A, r), r, 3, FAC_FACTOR_LU, NO_INFO, out);
}

fac_status linalg_slogdet_composite(const fac_call_info *c, fac_tensor *A, fac_tensor **out) {
    (void)c;
    fac_tensor *r[4] = {NULL, NULL, NULL, NULL};
    FAC_TRY(fac__c__linalg_slogdet(A, r));
    for (int i = 0; i < 2; i++) out[i] = r[i];
    for (int i = 2; i < 4; i++) fac__unref(r[i]);
    return FAC_OK;
}

/* Of a complex matrix log sign + log|det|; of a real one NaN where the sign is negative. */
fac_status logdet_composite(const fac_call_info *c, fac_tensor *self, fac_tensor **out) {
    (void)c;
    FAC_SCOPE(s);
    fac_linalg_slogdet_result r = fac__s_linalg_slogdet(self);
    if (!r.sign) return fac_error();
    if (fac_dtype_is_complex((fac_dtype)self->dtype)) return fac__give(out, add(fac__s_log(r.sign), r.logabsdet));
    return fac__give(out, fill_where(r.logabsdet, is_value(r.sign, -1), (double)NAN));
}
