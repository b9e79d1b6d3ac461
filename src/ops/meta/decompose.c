/* Sizes of QR factors, singular values and vectors, eigenvalues and eigenvectors, and least squares. */
#include "ops/meta/matrix.h"
#include "ops_gen.h"

static fac_dtype dtype_of(const fac_tensor *t) { return (fac_dtype)t->dtype; }

/* ---- QR --------------------------------------------------------------------------------------------------------------- */

fac_status linalg_qr_meta(fac_structured *s, fac_tensor *A, const char *mode) {
    FAC_TRY(fac__need_matrices("A", A));
    const bool reduced = strcmp(mode, "reduced") == 0, complete = strcmp(mode, "complete") == 0;
    const bool alone = strcmp(mode, "r") == 0;
    FAC_CHECK(reduced || complete || alone, FAC_ERR_ARGUMENT,
              "qr received unrecognized mode '%s' but expected one of 'reduced' (default), 'r', or 'complete'", mode);
    fac_batch_sizes b = fac__batch_of(A, 2);
    const int64_t m = fac__rows(A), n = fac__cols(A), k = complete ? m : fac__min(m, n);
    if (alone)
        FAC_TRY(fac__declare_nothing(s, 0, dtype_of(A), A->device));
    else
        FAC_TRY(fac__declare_matrices(s, 0, &b, m, k, dtype_of(A), A->device));
    return fac__declare_matrices(s, 1, &b, k, n, dtype_of(A), A->device);
}

fac_status geqrf_meta(fac_structured *s, fac_tensor *self) {
    FAC_TRY(fac__need_matrices("input", self));
    fac_batch_sizes b = fac__batch_of(self, 2);
    const int64_t m = fac__rows(self), n = fac__cols(self);
    FAC_TRY(fac__declare_matrices(s, 0, &b, m, n, dtype_of(self), self->device));
    return fac__declare_vectors(s, 1, &b, fac__min(m, n), dtype_of(self), self->device);
}

/* tau has one factor for each of the first columns of every matrix of vectors. */
static fac_status check_reflections(const fac_tensor *vectors, const fac_tensor *tau) {
    FAC_TRY(fac__need_matrices("input", vectors));
    FAC_TRY(fac__need_alike("tau", tau, vectors));
    FAC_CHECK(tau->ndim == vectors->ndim - 1 && fac__has_sizes(vectors, vectors->sizes, vectors->ndim) &&
                  memcmp(tau->sizes, vectors->sizes, (size_t)(vectors->ndim - 2) * sizeof *tau->sizes) == 0,
              FAC_ERR_SHAPE, "Expected input to have one dimension more than tau and the same batch, got %s and %s",
              FAC_SHAPE_TEXT(vectors), FAC_SHAPE_TEXT(tau));
    FAC_CHECK(tau->sizes[tau->ndim - 1] <= fac__cols(vectors) && fac__cols(vectors) <= fac__rows(vectors),
              FAC_ERR_SHAPE,
              "input must have at least as many rows as columns, and as many columns as tau has numbers, got %s and %s",
              FAC_SHAPE_TEXT(vectors), FAC_SHAPE_TEXT(tau));
    return FAC_OK;
}

fac_status linalg_householder_product_meta(fac_structured *s, fac_tensor *input, fac_tensor *tau) {
    FAC_TRY(check_reflections(input, tau));
    fac_batch_sizes b = fac__batch_of(input, 2);
    return fac__declare_matrices(s, 0, &b, fac__rows(input), fac__cols(input), dtype_of(input), input->device);
}

fac_status ormqr_meta(fac_structured *s, fac_tensor *self, fac_tensor *tau, fac_tensor *other, bool left,
                      bool transpose) {
    (void)transpose;
    FAC_TRY(fac__need_matrices("input", self));
    FAC_TRY(fac__need_alike("tau", tau, self));
    FAC_TRY(fac__need_alike("other", other, self));
    const int n = self->ndim;
    const size_t batch = (size_t)(n - 2) * sizeof *self->sizes;
    FAC_CHECK(tau->ndim == n - 1 && other->ndim == n && memcmp(tau->sizes, self->sizes, batch) == 0 &&
                  memcmp(other->sizes, self->sizes, batch) == 0,
              FAC_ERR_SHAPE, "Expected batch dimensions of input, tau and other to be equal, got %s, %s and %s",
              FAC_SHAPE_TEXT(self), FAC_SHAPE_TEXT(tau), FAC_SHAPE_TEXT(other));
    const int64_t q = left ? fac__rows(other) : fac__cols(other), k = tau->sizes[tau->ndim - 1];
    FAC_CHECK(q == fac__rows(self) && k <= q && k <= fac__cols(self), FAC_ERR_SHAPE,
              "%s must be equal to the rows of input and not less than the size of tau, got %s, %s and %s",
              left ? "the rows of other" : "the columns of other", FAC_SHAPE_TEXT(other), FAC_SHAPE_TEXT(self),
              FAC_SHAPE_TEXT(tau));
    fac_batch_sizes b = fac__batch_of(other, 2);
    return fac__declare_matrices(s, 0, &b, fac__rows(other), fac__cols(other), dtype_of(other), other->device);
}

/* ---- singular values --------------------------------------------------------------------------------------------------- */

fac_status _linalg_svd_meta(fac_structured *s, fac_tensor *A, bool full_matrices, bool compute_uv, const char *driver) {
    FAC_TRY(fac__need_matrices("A", A));
    FAC_CHECK(!driver || (A->device.type != FAC_CPU && A->device.type != FAC_META), FAC_ERR_ARGUMENT,
              "keyword argument `driver=` is only supported on CUDA inputs.");
    fac_batch_sizes b = fac__batch_of(A, 2);
    const int64_t m = fac__rows(A), n = fac__cols(A), k = fac__min(m, n);
    const fac_dtype d = dtype_of(A);
    FAC_TRY(fac__declare_vectors(s, 1, &b, k, fac__real_dtype(d), A->device));
    if (compute_uv) {
        FAC_TRY(fac__declare_matrices(s, 0, &b, m, full_matrices ? m : k, d, A->device));
        return fac__declare_matrices(s, 2, &b, full_matrices ? n : k, n, d, A->device);
    }
    FAC_TRY(fac__declare_nothing(s, 0, d, A->device));
    return fac__declare_nothing(s, 2, d, A->device);
}

/* ---- eigenvalues --------------------------------------------------------------------------------------------------------- */

fac_status _linalg_eigh_meta(fac_structured *s, fac_tensor *A, const char *uplo, bool compute_v) {
    FAC_TRY(fac__need_square("A", A));
    FAC_CHECK(strlen(uplo) == 1 && strchr("LlUu", *uplo), FAC_ERR_ARGUMENT,
              "Expected UPLO argument to be 'L' or 'U', but got %s", uplo);
    fac_batch_sizes b = fac__batch_of(A, 2);
    const fac_dtype d = dtype_of(A);
    FAC_TRY(fac__declare_vectors(s, 0, &b, fac__rows(A), fac__real_dtype(d), A->device));
    if (!compute_v) return fac__declare_nothing(s, 1, d, A->device);
    return fac__declare_matrices(s, 1, &b, fac__rows(A), fac__rows(A), d, A->device);
}

fac_status _linalg_eigvals_meta(fac_structured *s, fac_tensor *self) {
    FAC_TRY(fac__need_square("input", self));
    fac_batch_sizes b = fac__batch_of(self, 2);
    return fac__declare_vectors(s, 0, &b, fac__rows(self), fac__complex_dtype(dtype_of(self)), self->device);
}

fac_status linalg_eig_meta(fac_structured *s, fac_tensor *self) {
    FAC_TRY(_linalg_eigvals_meta(s, self));
    fac_batch_sizes b = fac__batch_of(self, 2);
    const int64_t n = fac__rows(self);
    return fac__declare_matrices(s, 1, &b, n, n, fac__complex_dtype(dtype_of(self)), self->device);
}

/* ---- exponentials -------------------------------------------------------------------------------------------------------- */

fac_status matrix_exp_wide_meta(fac_structured *s, fac_tensor *self) {
    FAC_TRY(fac__need_square("A", self));
    return fac_out_declare(s, 0, self->sizes, NULL, self->ndim, dtype_of(self), self->device);
}
