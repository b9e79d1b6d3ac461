/* Sizes of Cholesky, LU and LDL factors, and of what is computed with them. */
#include "ops/meta/matrix.h"
#include "ops_gen.h"

static fac_dtype dtype_of(const fac_tensor *t) { return (fac_dtype)t->dtype; }

/* ---- systems: a square A and right sides B ----------------------------------------------------------------------------- */

/* B's matrices have as many rows (columns, if not left) as A; `out` becomes the batch of both. */
static fac_status check_system(const char *name_a, fac_tensor *A, fac_tensor *B, bool left, fac_batch_sizes *out) {
    FAC_TRY(fac__need_square(name_a, A));
    FAC_TRY(fac__need_alike("B", B, A));
    FAC_CHECK(B->ndim >= 2, FAC_ERR_SHAPE, "The input tensor B must have at least 2 dimensions.");
    FAC_CHECK((left ? fac__rows(B) : fac__cols(B)) == fac__rows(A), FAC_ERR_SHAPE,
              "Incompatible shapes of %s and B for the equation %s (%s and %s)", name_a, left ? "AX = B" : "XA = B",
              FAC_SHAPE_TEXT(A), FAC_SHAPE_TEXT(B));
    return fac__batch_of_both(A, 2, B, 2, out);
}

fac_status linalg_solve_triangular_meta(fac_structured *s, fac_tensor *self, fac_tensor *B, bool upper, bool left,
                                        bool unitriangular) {
    (void)upper, (void)unitriangular;
    fac_batch_sizes b;
    FAC_TRY(check_system("A", self, B, left, &b));
    return fac__declare_matrices(s, 0, &b, fac__rows(B), fac__cols(B), dtype_of(B), B->device);
}

fac_status cholesky_solve_meta(fac_structured *s, fac_tensor *self, fac_tensor *input2, bool upper) {
    (void)upper;
    fac_batch_sizes b;
    FAC_TRY(check_system("input2", input2, self, true, &b));
    return fac__declare_matrices(s, 0, &b, fac__rows(self), fac__cols(self), dtype_of(self), self->device);
}

/* Pivots go with factors: one for each of the first k rows, of every matrix. */
static fac_status check_pivots(const fac_tensor *factors, const fac_tensor *pivots, int64_t k) {
    FAC_CHECK(pivots->dtype == FAC_I32, FAC_ERR_DTYPE, "pivots should be int32, but they are %s",
              fac_dtype_name(dtype_of(pivots)));
    int64_t sizes[FAC_MAX_DIMS];
    memcpy(sizes, factors->sizes, (size_t)(factors->ndim - 1) * sizeof *sizes);
    sizes[factors->ndim - 2] = k;
    FAC_CHECK(fac__has_sizes(pivots, sizes, factors->ndim - 1), FAC_ERR_SHAPE,
              "Number of pivots per batch should be same as the dimension of the matrix: factors are %s, pivots %s",
              FAC_SHAPE_TEXT(factors), FAC_SHAPE_TEXT(pivots));
    return FAC_OK;
}

fac_status linalg_lu_solve_meta(fac_structured *s, fac_tensor *LU, fac_tensor *pivots, fac_tensor *B, bool left,
                                bool adjoint) {
    (void)adjoint;
    fac_batch_sizes b;
    FAC_TRY(check_system("LU", LU, B, left, &b));
    FAC_TRY(check_pivots(LU, pivots, fac__rows(LU)));
    return fac__declare_matrices(s, 0, &b, fac__rows(B), fac__cols(B), dtype_of(B), B->device);
}

fac_status linalg_ldl_solve_meta(fac_structured *s, fac_tensor *LD, fac_tensor *pivots, fac_tensor *B, bool hermitian) {
    (void)hermitian;
    fac_batch_sizes b;
    FAC_TRY(check_system("LD", LD, B, true, &b));
    FAC_TRY(check_pivots(LD, pivots, fac__rows(LD)));
    return fac__declare_matrices(s, 0, &b, fac__rows(B), fac__cols(B), dtype_of(B), B->device);
}

/* The LU factors of A as outputs i, i + 1 and, with info, i + 2. */
static fac_status declare_factors(fac_structured *s, int i, fac_tensor *A, bool info) {
    fac_batch_sizes b = fac__batch_of(A, 2);
    const int64_t m = fac__rows(A), n = fac__cols(A);
    FAC_TRY(fac__declare_matrices(s, i, &b, m, n, dtype_of(A), A->device));
    FAC_TRY(fac__declare_vectors(s, i + 1, &b, fac__min(m, n), FAC_I32, A->device));
    return info ? fac__declare_numbers(s, i + 2, &b, FAC_I32, A->device) : FAC_OK;
}

static fac_status declare_solution(fac_structured *s, fac_tensor *A, fac_tensor *B, bool left) {
    fac_batch_sizes b;
    if (fac__is_vector_for(A, B)) {
        FAC_CHECK(left, FAC_ERR_SHAPE, "Vector broadcasting of the left hand side is not supported for left=False");
        FAC_TRY(fac__need_alike("B", B, A));
        FAC_CHECK(B->sizes[B->ndim - 1] == fac__rows(A), FAC_ERR_SHAPE,
                  "Incompatible shapes of A and B for the equation AX = B (%s and %s)", FAC_SHAPE_TEXT(A),
                  FAC_SHAPE_TEXT(B));
        FAC_TRY(fac__batch_of_both(A, 2, B, 1, &b));
        return fac__declare_vectors(s, 0, &b, fac__rows(A), dtype_of(B), B->device);
    }
    FAC_TRY(check_system("A", A, B, left, &b));
    return fac__declare_matrices(s, 0, &b, fac__rows(B), fac__cols(B), dtype_of(B), B->device);
}

fac_status _linalg_solve_ex_meta(fac_structured *s, fac_tensor *A, fac_tensor *B, bool left, bool check_errors) {
    (void)check_errors;
    FAC_TRY(fac__need_square("A", A));
    FAC_TRY(declare_solution(s, A, B, left));
    return declare_factors(s, 1, A, true);
}

/* ---- factors ----------------------------------------------------------------------------------------------------------- */

/* A result like self, and info. */
static fac_status declare_with_info(fac_structured *s, fac_tensor *self) {
    fac_batch_sizes b = fac__batch_of(self, 2);
    FAC_TRY(fac__declare_matrices(s, 0, &b, fac__rows(self), fac__cols(self), dtype_of(self), self->device));
    return fac__declare_numbers(s, 1, &b, FAC_I32, self->device);
}

fac_status linalg_cholesky_ex_meta(fac_structured *s, fac_tensor *self, bool upper, bool check_errors) {
    (void)upper, (void)check_errors;
    FAC_TRY(fac__need_square("A", self));
    return declare_with_info(s, self);
}

fac_status linalg_inv_ex_meta(fac_structured *s, fac_tensor *A, bool check_errors) {
    (void)check_errors;
    FAC_TRY(fac__need_square("A", A));
    return declare_with_info(s, A);
}

fac_status cholesky_inverse_meta(fac_structured *s, fac_tensor *self, bool upper) {
    (void)upper;
    FAC_TRY(fac__need_square("A", self));
    fac_batch_sizes b = fac__batch_of(self, 2);
    return fac__declare_matrices(s, 0, &b, fac__rows(self), fac__cols(self), dtype_of(self), self->device);
}

fac_status linalg_lu_factor_ex_meta(fac_structured *s, fac_tensor *A, bool pivot, bool check_errors) {
    (void)check_errors;
    FAC_TRY(fac__need_matrices("A", A));
    FAC_CHECK(pivot || A->device.type != FAC_CPU, FAC_ERR_UNSUPPORTED,
              "LU without pivoting is not implemented on the CPU");
    return declare_factors(s, 0, A, true);
}

fac_status linalg_ldl_factor_ex_meta(fac_structured *s, fac_tensor *self, bool hermitian, bool check_errors) {
    (void)hermitian, (void)check_errors;
    FAC_TRY(fac__need_square("self", self));
    return declare_factors(s, 0, self, true);
}

static fac_status declare_triangles(fac_structured *s, fac_tensor *LU) {
    fac_batch_sizes b = fac__batch_of(LU, 2);
    const int64_t m = fac__rows(LU), n = fac__cols(LU), k = fac__min(m, n);
    FAC_TRY(fac__declare_matrices(s, 1, &b, m, k, dtype_of(LU), LU->device));
    return fac__declare_matrices(s, 2, &b, k, n, dtype_of(LU), LU->device);
}

fac_status lu_unpack_meta(fac_structured *s, fac_tensor *LU, fac_tensor *pivots, bool unpack_data, bool unpack_pivots) {
    FAC_TRY(fac__need_matrices("LU_data", LU));
    FAC_TRY(check_pivots(LU, pivots, fac__min(fac__rows(LU), fac__cols(LU))));
    fac_batch_sizes b = fac__batch_of(LU, 2);
    if (unpack_pivots)
        FAC_TRY(fac__declare_matrices(s, 0, &b, fac__rows(LU), fac__rows(LU), dtype_of(LU), LU->device));
    else
        FAC_TRY(fac__declare_nothing(s, 0, dtype_of(LU), LU->device));
    if (unpack_data) return declare_triangles(s, LU);
    FAC_TRY(fac__declare_nothing(s, 1, dtype_of(LU), LU->device));
    return fac__declare_nothing(s, 2, dtype_of(LU), LU->device);
}

/* ---- determinants -------------------------------------------------------------------------------------------------------- */

fac_status _linalg_det_meta(fac_structured *s, fac_tensor *A) {
    FAC_TRY(fac__need_square("A", A));
    fac_batch_sizes b = fac__batch_of(A, 2);
    FAC_TRY(fac__declare_numbers(s, 0, &b, dtype_of(A), A->device));
    return declare_factors(s, 1, A, false);
}

fac_status _linalg_slogdet_meta(fac_structured *s, fac_tensor *A) {
    FAC_TRY(fac__need_square("A", A));
    fac_batch_sizes b = fac__batch_of(A, 2);
    FAC_TRY(fac__declare_numbers(s, 0, &b, dtype_of(A), A->device));
    FAC_TRY(fac__declare_numbers(s, 1, &b, fac__real_dtype(dtype_of(A)), A->device));
    return declare_factors(s, 2, A, false);
}
