/* Factors of matrices and what is computed with them, by their definitions: products of factors, residuals, closed forms; what is
   refused; outputs with gaps; matrices without elements; bits and threads; first and second derivatives. */
#define _GNU_SOURCE 1
#include "backend/cpu/cpu.h"
#include "backend/cpu/onednn.h"
#include "linalg_test.h"
#include <dlfcn.h>
#include <facula/dispatch.h>

static fac_tensor *matrix(const double *v, int64_t m, int64_t n) {
    return fac_tensor_from(v, FAC_F64, FAC_SHAPE(m, n));
}
#define MATRIX(m, n, ...) matrix((const double[]){__VA_ARGS__}, m, n)
#define VECTOR(n, ...) fac_tensor_from((const double[]){__VA_ARGS__}, FAC_F64, FAC_SHAPE(n))
#define LONELY(...) fac_set_requires_grad(fac_clone(__VA_ARGS__), true)

static fac_tensor *times(fac_tensor *a, fac_tensor *b) { return fac_matmul(a, b); }
static fac_tensor *turned(fac_tensor *a) { return fac_mh(a); }
static fac_tensor *eye(int64_t n) { return fac_to_dtype(fac_eye(n), FAC_F64); }

/* A batch of two positive definite matrices. */
static fac_tensor *positive(int64_t n) {
    fac_tensor *x = RANDOM(2, n, n);
    return fac_add(times(x, turned(x)), eye(n));
}
/* A batch of two matrices far from singular. */
static fac_tensor *regular(int64_t n) { return fac_add(RANDOM(2, n, n), fac_mul(eye(n), 3)); }
/* Numbers of a complex tensor, from two real ones. */
static fac_tensor *complex_of(fac_tensor *re, fac_tensor *im) { return fac_complex_from_parts(re, im); }
static fac_tensor *as_parts(fac_tensor *t) { return fac_view_as_real(fac_resolve_conj(fac_contiguous(t))); }
#define assert_complex_near(a, b, tolerance) assert_near(as_parts(a), as_parts(b), tolerance)

/* ---- values ------------------------------------------------------------------------------------------------------------- */

static void cholesky_of_a_small_matrix_is_its_factor(void **state) {
    (void)state;
    FAC_SCOPE(scope);
    fac_tensor *a = MATRIX(2, 2, 4, 2, 2, 5);
    assert_close(fac_linalg_cholesky(a), MATRIX(2, 2, 2, 0, 1, 2));
    assert_close(fac_linalg_cholesky(a, .upper = true), MATRIX(2, 2, 2, 1, 0, 2));
    assert_close(fac_cholesky(a, .upper = false), MATRIX(2, 2, 2, 0, 1, 2));
    assert_close(fac_cholesky_inverse(fac_linalg_cholesky(a)), fac_linalg_inv(a));
    assert_close(fac_cholesky_inverse(fac_linalg_cholesky(a, .upper = true), .upper = true), fac_linalg_inv(a));
}

static void cholesky_reads_one_triangle(void **state) {
    (void)state;
    FAC_SCOPE(scope);
    assert_close(fac_linalg_cholesky(MATRIX(2, 2, 4, NAN, 2, 5)), MATRIX(2, 2, 2, 0, 1, 2));
    assert_close(fac_linalg_cholesky(MATRIX(2, 2, 4, 2, NAN, 5), .upper = true), MATRIX(2, 2, 2, 1, 0, 2));
}

static void cholesky_solve_gives_solutions(void **state) {
    (void)state;
    FAC_SCOPE(scope);
    fac_tensor *a = positive(4), *b = RANDOM(4, 3);
    for (int upper = 0; upper < 2; upper++) {
        fac_tensor *l = fac_linalg_cholesky(a, .upper = upper);
        assert_near(times(a, fac_cholesky_solve(b, l, .upper = upper)), fac_expand(b, FAC_SHAPE(2, 4, 3)), 1e-10);
    }
}

static void solve_triangular_looks_at_one_triangle(void **state) {
    (void)state;
    FAC_SCOPE(scope);
    fac_tensor *t = MATRIX(2, 2, 2, NAN, 4, 8), *b = MATRIX(2, 1, 2, 20);
    assert_close(fac_linalg_solve_triangular(t, b, false), MATRIX(2, 1, 1, 2));
    assert_close(fac_linalg_solve_triangular(t, b, false, .unitriangular = true), MATRIX(2, 1, 2, 12));
    assert_close(fac_linalg_solve_triangular(fac_mt(t), fac_mt(b), true, .left = false), MATRIX(1, 2, 1, 2));
    fac_triangular_solve_result r = fac_triangular_solve(b, t, .upper = false);
    assert_close(r.solution, MATRIX(2, 1, 1, 2));
    assert_close(r.cloned_coefficient, t);
}

static void lu_factors_multiply_to_the_matrix(void **state) {
    (void)state;
    FAC_SCOPE(scope);
    const int64_t sizes[][2] = {{4, 4}, {5, 3}, {3, 5}, {1, 1}};
    for (size_t i = 0; i < FAC_COUNT(sizes); i++) {
        fac_tensor *a = RANDOM(2, sizes[i][0], sizes[i][1]);
        fac_linalg_lu_result r = fac_linalg_lu(a);
        assert_close(times(r.P, times(r.L, r.U)), a);
        assert_close(fac_triu(r.U), r.U);
        fac_linalg_lu_factor_result f = fac_linalg_lu_factor(a);
        fac_lu_unpack_result u = fac_lu_unpack(f.LU, f.pivots);
        assert_close(times(u.P, times(u.L, u.U)), a);
        assert_sizes(fac_lu_unpack(f.LU, f.pivots, .unpack_data = false).L, 0);
        assert_sizes(fac_lu_unpack(f.LU, f.pivots, .unpack_pivots = false).P, 0);
    }
}

/* Sides about those of vectors, of panels, and of what is cut into halves. A factor of n columns leaves some n units of the last place. */
static void factors_of_every_size_multiply_to_the_matrix(void **state) {
    (void)state;
    const int64_t sides[] = {1, 2, 7, 8, 9, 15, 16, 17, 31, 33, 64, 100, 128, 129, 193, 300};
    for (size_t i = 0; i < 2 * FAC_COUNT(sides); i++) {
        FAC_SCOPE(scope);
        const int64_t n = sides[i / 2];
        const fac_dtype dtype = i % 2 ? FAC_F64 : FAC_F32;
        const double eps = (double)n * (i % 2 ? 1e-15 : 1e-6);
        fac_tensor *a = fac_to_dtype(regular(n), dtype), *one = fac_to_dtype(fac_eye(n), dtype);
        fac_tensor *wide = random_of(dtype, FAC_SHAPE(2, n, n + 5)), *b = random_of(dtype, FAC_SHAPE(2, n, 35));
        fac_tensor *p = fac_add(times(a, turned(a)), fac_mul(one, (double)n));
        fac_tensor *l = fac_linalg_cholesky(p), *u = fac_linalg_cholesky(p, .upper = true);
        assert_near(times(l, turned(l)), p, eps);
        assert_near(times(turned(u), u), p, eps);
        assert_near(times(p, fac_cholesky_solve(b, l)), b, 8 * eps);
        assert_near(times(p, fac_cholesky_inverse(u, .upper = true)), fac_expand_as(one, p), 8 * eps);
        for (int tall = 0; tall < 2; tall++) {
            fac_tensor *w = tall ? turned(wide) : wide;
            fac_linalg_lu_result r = fac_linalg_lu(w);
            assert_near(times(r.P, times(r.L, r.U)), w, eps);
        }
        for (int tall = 0; tall < 2; tall++) {
            fac_tensor *w = tall ? turned(wide) : wide;
            fac_linalg_qr_result r = fac_linalg_qr(w), full = fac_linalg_qr(w, .mode = "complete");
            assert_near(times(r.Q, r.R), w, eps);
            assert_near(times(full.Q, full.R), w, eps);
            assert_near(times(turned(full.Q), full.Q),
                        fac_expand_as(fac_to_dtype(fac_eye(fac_tensor_sizes(w).v[1]), dtype), full.Q), eps);
            fac_geqrf_result g = fac_geqrf(w);
            fac_tensor *few = fac_narrow(g.a, 2, 0, n);
            assert_near(fac_triu(g.a), full.R, eps);
            assert_near(fac_linalg_householder_product(few, g.tau), r.Q, eps);
            for (int k = 0; k < 4; k++) {
                const bool left = k & 1, transpose = k & 2;
                fac_tensor *q = transpose ? turned(full.Q) : full.Q;
                fac_tensor *c = left ? w : turned(w);
                fac_tensor *y = fac_ormqr(few, g.tau, c, .left = left, .transpose = transpose);
                assert_near(y, left ? times(q, c) : times(c, q), eps);
            }
        }
        fac_tensor *symmetric =
            fac_sub(fac_add(a, turned(a)), fac_mul(one, 6)); /* blocks of one and of two on the diagonal, and swaps */
        fac_linalg_ldl_factor_result d = fac_linalg_ldl_factor(symmetric);
        fac_tensor *y = fac_linalg_ldl_solve(d.LD, d.pivots, b);
        assert_near(times(symmetric, y), b, 64 * eps * (1 + fac_item(fac_max(fac_abs(y)))));
        fac_linalg_lu_factor_result f = fac_linalg_lu_factor(p);
        for (int adjoint = 0; adjoint < 2; adjoint++) {
            fac_tensor *of = adjoint ? turned(p) : p, *row = turned(b);
            assert_near(times(of, fac_linalg_lu_solve(f.LU, f.pivots, b, .adjoint = adjoint)), b, 8 * eps);
            assert_near(times(fac_linalg_lu_solve(f.LU, f.pivots, row, .left = false, .adjoint = adjoint), of), row,
                        8 * eps);
        }
        assert_near(times(p, fac_linalg_inv(p)), fac_expand_as(one, p), 8 * eps);
        for (int k = 0; k < 8; k++) {
            const bool upper = k & 1, left = k & 2, turn = k & 4;
            fac_tensor *t = upper ? u : l, *side = left ? b : turned(b);
            if (turn) t = turned(fac_contiguous(turned(t)));
            fac_tensor *x = fac_linalg_solve_triangular(t, side, upper, .left = left);
            assert_near(left ? times(t, x) : times(x, t), side, 8 * eps);
        }
    }
}

/* Of well-conditioned factors, about sides at which an inverse is cut into blocks. The other triangle is not read. */
static void inverses_from_cholesky_factors_are_symmetric_and_invert(void **state) {
    (void)state;
    const int64_t sides[] = {1, 5, 16, 47, 128, 129, 191, 257, 300, 450};
    for (size_t i = 0; i < 8 * FAC_COUNT(sides); i++) {
        FAC_SCOPE(scope);
        const int64_t n = sides[i / 8];
        const bool upper = i & 1, complex = i & 2;
        const fac_dtype real = i & 4 ? FAC_F64 : FAC_F32, dtype = complex ? (i & 4 ? FAC_C128 : FAC_C64) : real;
        fac_tensor *x = random_of(real, FAC_SHAPE(2, n, n));
        if (complex) x = complex_of(x, random_of(real, FAC_SHAPE(2, n, n)));
        fac_tensor *one = fac_to_dtype(fac_eye(n), dtype);
        fac_tensor *a = fac_add(fac_div(times(x, turned(x)), fac_full(FAC_SHAPE(), (double)n)), one);
        fac_tensor *l = fac_linalg_cholesky(a, .upper = upper), *no = fac_full_like(l, NAN);
        l = fac_add(l, upper ? fac_tril(no, .diagonal = -1) : fac_triu(no, .diagonal = 1));
        fac_tensor *inverse = fac_cholesky_inverse(l, .upper = upper);
        assert_true(fac_equal(inverse, fac_resolve_conj(turned(inverse))));
        fac_tensor *is = times(a, inverse), *be = fac_expand_as(one, is);
        const double eps = (i & 4 ? 1e-15 : 5e-7) * (4 + sqrt((double)n));
        assert_near(complex ? as_parts(is) : is, complex ? as_parts(be) : be, eps);
        fac_tensor *apart = fac_select(fac_stack(FAC_TENSORS(l, l), .dim = 3), 3, 1),
                   *columns = fac_mt(fac_contiguous(fac_mt(l)));
        assert_true(fac_equal(fac_cholesky_inverse(apart, .upper = upper), inverse));
        assert_true(fac_equal(fac_cholesky_inverse(columns, .upper = upper), inverse));
    }
}

/* Columns of sizes that are far apart, one of which is zero, and pieces of rows that are cut. */
static void tall_matrices_have_orthogonal_factors(void **state) {
    (void)state;
    const int64_t rows[] = {63, 64, 65, 257, 600, 2049};
    for (size_t i = 0; i < 18 * FAC_COUNT(rows); i++) {
        FAC_SCOPE(scope);
        const int64_t m = rows[i / 18], n = 1 + (int64_t)(i / 2) % 9;
        const fac_dtype dtype = i % 2 ? FAC_F64 : FAC_F32;
        const double eps = i % 2 ? 1e-14 : 5e-6, one = 1, far = i % 2 ? 1e200 : 1e25;
        const double sizes[] = {one, one, one, n > 5 ? far : one, one, one, n > 7 ? 1 / far : one, n > 8 ? 0 : one,
                                one};
        fac_tensor *by = fac_to_dtype(fac_tensor_from(sizes, FAC_F64, FAC_SHAPE(n)), dtype);
        fac_tensor *x = random_of(dtype, FAC_SHAPE(2, m, n)), *a = fac_mul(x, by);
        fac_linalg_qr_result f = fac_linalg_qr(a);
        fac_tensor *unit = fac_where(fac_eq(by, fac_zeros_like(by)), fac_ones_like(by), by);
        assert_near(times(f.Q, fac_div(f.R, unit)), fac_div(a, unit), eps);
        fac_tensor *square = times(turned(f.Q), f.Q);
        assert_near(square, fac_expand_as(fac_to_dtype(fac_eye(n), dtype), square), eps);
        assert_true(fac_equal(fac_triu(f.R), f.R));
        assert_true(fac_equal(fac_linalg_qr(a, .mode = "r").R, f.R));
        assert_near(fac_div(fac_narrow(fac_triu(fac_geqrf(a).a), 1, 0, n), unit), fac_div(f.R, unit), eps);
        assert_true(fac_equal(fac_linalg_qr(fac_mt(fac_contiguous(fac_mt(a)))).Q, f.Q));
    }
}

static void solutions_solve_for_every_side(void **state) {
    (void)state;
    FAC_SCOPE(scope);
    fac_tensor *a = regular(4), *b = RANDOM(2, 4, 3), *wide = RANDOM(2, 3, 4), *v = RANDOM(2, 4);
    assert_near(times(a, fac_linalg_solve(a, b)), b, 1e-11);
    assert_near(times(fac_linalg_solve(a, wide, .left = false), a), wide, 1e-11);
    assert_near(fac_squeeze(times(a, fac_unsqueeze(fac_linalg_solve(a, v), -1))), v, 1e-11);
    fac_linalg_lu_factor_result f = fac_linalg_lu_factor(a);
    assert_near(times(a, fac_linalg_lu_solve(f.LU, f.pivots, b)), b, 1e-11);
    assert_near(times(turned(a), fac_linalg_lu_solve(f.LU, f.pivots, b, .adjoint = true)), b, 1e-11);
    assert_near(times(fac_linalg_lu_solve(f.LU, f.pivots, wide, .left = false), a), wide, 1e-11);
    assert_near(times(fac_linalg_lu_solve(f.LU, f.pivots, wide, .left = false, .adjoint = true), turned(a)), wide,
                1e-11);
    assert_near(times(a, fac_lu_solve(b, f.LU, f.pivots)), b, 1e-11);
}

static void complex_solutions_solve_for_every_side(void **state) {
    (void)state;
    FAC_SCOPE(scope);
    fac_tensor *a = complex_of(regular(3), RANDOM(2, 3, 3)), *b = complex_of(RANDOM(2, 3, 2), RANDOM(2, 3, 2));
    fac_tensor *wide = complex_of(RANDOM(2, 2, 3), RANDOM(2, 2, 3));
    fac_linalg_lu_factor_result f = fac_linalg_lu_factor(a);
    assert_complex_near(times(turned(a), fac_linalg_lu_solve(f.LU, f.pivots, b, .adjoint = true)), b, 1e-11);
    assert_complex_near(times(fac_linalg_lu_solve(f.LU, f.pivots, wide, .left = false), a), wide, 1e-11);
    assert_complex_near(times(fac_linalg_lu_solve(f.LU, f.pivots, wide, .left = false, .adjoint = true), turned(a)),
                        wide, 1e-11);
    assert_complex_near(times(a, fac_linalg_inv(a)), fac_to_dtype(fac_expand(eye(3), FAC_SHAPE(2, 3, 3)), FAC_C128),
                        1e-11);
}

static void one_factor_serves_many_right_sides(void **state) {
    (void)state;
    FAC_SCOPE(scope);
    fac_tensor *a = fac_select(regular(3), 0, 0), *b = RANDOM(5, 3, 2);
    assert_near(times(a, fac_linalg_solve(a, b)), b, 1e-11);
    fac_tensor *many = regular(3), *one = RANDOM(3, 2);
    assert_near(times(many, fac_linalg_solve(many, one)), fac_expand(one, FAC_SHAPE(2, 3, 2)), 1e-11);
}

static void determinants_are_those_of_closed_forms(void **state) {
    (void)state;
    FAC_SCOPE(scope);
    fac_tensor *a = MATRIX(2, 2, 1, 2, 3, 4);
    assert_close(fac_linalg_det(a), fac_scalar_tensor(-2, .dtype = FAC_F64));
    fac_linalg_slogdet_result r = fac_linalg_slogdet(a);
    assert_true(fac_item(r.sign) == -1);
    assert_near(r.logabsdet, fac_scalar_tensor(log(2), .dtype = FAC_F64), 1e-15);
    assert_true(isnan(fac_item(fac_logdet(a))));
    fac_tensor *singular = MATRIX(2, 2, 1, 2, 2, 4);
    assert_true(fac_item(fac_det(singular)) == 0);
    assert_true(fac_item(fac_linalg_slogdet(singular).logabsdet) == -INFINITY &&
                fac_item(fac_linalg_slogdet(singular).sign) == 0);
    fac_tensor *none = fac_zeros(FAC_SHAPE(3, 0, 0), .dtype = FAC_F64);
    assert_close(fac_linalg_det(none), fac_ones(FAC_SHAPE(3), .dtype = FAC_F64));
}

static void ldl_factors_solve(void **state) {
    (void)state;
    FAC_SCOPE(scope);
    fac_tensor *x = RANDOM(2, 4, 4), *a = fac_add(x, fac_mt(x)), *b = RANDOM(2, 4, 2);
    fac_linalg_ldl_factor_result f = fac_linalg_ldl_factor(a);
    assert_near(times(a, fac_linalg_ldl_solve(f.LD, f.pivots, b)), b, 1e-9);
    fac_tensor *z = complex_of(RANDOM(2, 4, 4), RANDOM(2, 4, 4)), *h = fac_add(z, turned(z));
    fac_tensor *c = complex_of(b, RANDOM(2, 4, 2));
    f = fac_linalg_ldl_factor(h, .hermitian = true);
    assert_complex_near(times(h, fac_linalg_ldl_solve(f.LD, f.pivots, c, .hermitian = true)), c, 1e-9);
}

/* ---- NaN --------------------------------------------------------------------------------------------------------------- */

/* As LAPACK has it: what is not a number is larger than nothing, but what it is multiplied with is lost. */
static void nan_hides_no_larger_pivot(void **state) {
    (void)state;
    const int nan_at[] = {1, 4, 7, 9, 30, 39};
    for (size_t i = 0; i < 2 * FAC_COUNT(nan_at); i++) {
        FAC_SCOPE(scope);
        double v[40 * 40] = {0};
        for (int d = 1; d < 40; d++) v[d * 41] = 1;
        v[nan_at[i / 2] * 40] = NAN;
        v[20 * 40] = -5;
        fac_linalg_lu_factor_ex_result r =
            fac_linalg_lu_factor_ex(fac_to_dtype(matrix(v, 40, 40), i % 2 ? FAC_F64 : FAC_F32));
        assert_int_equal(fac_item(fac_select(r.pivots, 0, 0)), 21);
        /* Row 20 then holds zeros, unless a pivot before was NaN. */
        assert_int_equal(fac_item(r.info), nan_at[i / 2] < 20 ? 0 : 21);
        assert_true(fac_item(fac_select(fac_select(r.LU, 0, 0), 0, 0)) == -5);
    }
}

static void nan_below_a_zero_pivot_is_not_lost(void **state) {
    (void)state;
    FAC_SCOPE(scope);
    fac_tensor *a = MATRIX(2, 2, 0, 1, NAN, 1);
    assert_true(isnan(fac_item(fac_linalg_det(a))));
    assert_int_equal(fac_item(fac_linalg_lu_factor_ex(a).info), 1);
    assert_close(fac_linalg_lu_factor_ex(a).LU, MATRIX(2, 2, 0, 1, NAN, NAN));
    assert_close(fac_linalg_lu_factor_ex(MATRIX(3, 3, 0, 1, 2, 0, 3, 4, 0, 5, 6)).LU,
                 MATRIX(3, 3, 0, 1, 2, 0, 5, 6, 0, 0.6, 0.4));
}

static void nan_off_the_diagonal_makes_a_block_of_two(void **state) {
    (void)state;
    FAC_SCOPE(scope);
    fac_linalg_ldl_factor_ex_result r = fac_linalg_ldl_factor_ex(MATRIX(2, 2, 0, NAN, NAN, 0));
    assert_close(r.pivots, fac_tensor_from((const int32_t[]){-2, -2}, FAC_I32, FAC_SHAPE(2)));
    assert_int_equal(fac_item(r.info), 0);
    assert_true(isnan(fac_item(fac_select(fac_select(r.LD, 0, 1), 0, 0))));
    r = fac_linalg_ldl_factor_ex(MATRIX(3, 3, 0, 1, 1, 1, 0, NAN, 1, NAN, 0));
    assert_int_equal(fac_item(r.info), 3);
    assert_close(r.pivots, fac_tensor_from((const int32_t[]){-2, -2, 3}, FAC_I32, FAC_SHAPE(3)));
}

/* ---- what is refused ------------------------------------------------------------------------------------------------------ */

static void failures_are_told(void **state) {
    (void)state;
    FAC_SCOPE(scope);
    fac_tensor *singular = MATRIX(2, 2, 1, 2, 2, 4);
    assert_null(fac_linalg_inv(singular));
    assert_error(FAC_ERR_ARGUMENT, "The diagonal element 2 is zero");
    assert_null(fac_linalg_solve(singular, eye(2)));
    assert_error(FAC_ERR_ARGUMENT, "The solver failed because the input matrix is singular.");
    assert_null(fac_linalg_cholesky(MATRIX(2, 2, -1, 0, 0, 1)));
    assert_error(FAC_ERR_ARGUMENT, "the leading minor of order 1 is not positive-definite");
    assert_null(fac_linalg_cholesky(fac_stack(FAC_TENSORS(eye(2), MATRIX(2, 2, 1, 0, 0, -1)))));
    assert_error(FAC_ERR_ARGUMENT, "(Batch element 1)");
    assert_null(fac_linalg_inv(fac_to_dtype(eye(2), FAC_F16)));
    assert_error(FAC_ERR_DTYPE, "low precision is not supported");
    assert_null(fac_linalg_det(RANDOM(2, 3)));
    assert_error(FAC_ERR_SHAPE, "A must be batches of square matrices, but they are 2 by 3 matrices");
    assert_null(fac_linalg_det(RANDOM(3)));
    assert_error(FAC_ERR_SHAPE, "must have at least 2 dimensions");
    assert_null(fac_linalg_lu_factor(eye(2), .pivot = false).LU);
    assert_error(FAC_ERR_UNSUPPORTED, "without pivoting");
    assert_null(fac_cholesky_inverse(MATRIX(2, 2, 0, 0, 1, 1)));
    assert_error(FAC_ERR_ARGUMENT, "singular");
    for (int k = 0; k < 4; k++) { /* beyond the first block of the second matrix */
        fac_tensor *two = fac_repeat(fac_to_dtype(fac_eye(200), k & 1 ? FAC_C128 : FAC_F64), FAC_INTS(2, 1, 1));
        fac_fill_(fac_select(fac_select(fac_select(two, 0, 1), 0, 170), 0, 170), 0);
        assert_null(fac_cholesky_inverse(two, .upper = (k & 2) != 0));
        assert_error(FAC_ERR_ARGUMENT, "(Batch element 1): The diagonal element 171 is zero");
    }
}

/* oneDNN's sgemm, which computes the products within large factors, in place of the library's. */
static bool sgemm_fails;
typedef int sgemm_fn(char ta, char tb, int64_t m, int64_t n, int64_t k, float alpha, const float *a, int64_t lda,
                     const float *b, int64_t ldb, float beta, float *c, int64_t ldc);
__attribute__((visibility("default"))) sgemm_fn dnnl_sgemm;
int dnnl_sgemm(char ta, char tb, int64_t m, int64_t n, int64_t k, float alpha, const float *a, int64_t lda,
               const float *b, int64_t ldb, float beta, float *c, int64_t ldc) {
    sgemm_fn *library;
    if (sgemm_fails) return 1; /* out of memory */
    *(void **)(void *)&library = dlsym(RTLD_NEXT, "dnnl_sgemm");
    return library(ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}

static void products_that_fail_within_factors_are_told(void **state) {
    (void)state;
    if (!fac__onednn_built_in) skip();
    FAC_SCOPE(scope);
    fac_tensor *a = random_of(FAC_F32, FAC_SHAPE(700, 700)), *b = random_of(FAC_F32, FAC_SHAPE(700, 2));
    const bool intel = fac__cpu_intel; /* which would not ask the library */
    fac__cpu_intel = false;
    sgemm_fails = true;
    assert_null(fac_linalg_lu_factor_ex(a).LU);
    assert_error(FAC_ERR_INTERNAL, "sgemm");
    assert_null(fac_linalg_inv_ex(a).inverse);
    assert_error(FAC_ERR_INTERNAL, "sgemm");
    assert_null(fac_linalg_solve(a, b));
    assert_error(FAC_ERR_INTERNAL, "sgemm");
    sgemm_fails = false;
    assert_near(times(a, fac_linalg_solve(a, b)), b, 1e-2);
    fac__cpu_intel = intel;
}

static void pivots_that_are_no_rows_are_refused(void **state) {
    (void)state;
    FAC_SCOPE(scope);
    fac_tensor *lu = eye(2), *b = RANDOM(2, 1);
    const int32_t bad[][2] = {{0, 1}, {1, 3}, {-1, 1}, {INT32_MAX, 1}};
    for (size_t i = 0; i < FAC_COUNT(bad); i++) {
        fac_tensor *pivots = fac_tensor_from(bad[i], FAC_I32, FAC_SHAPE(2));
        assert_null(fac_linalg_lu_solve(lu, pivots, b));
        assert_error(FAC_ERR_INDEX, "pivot");
        assert_null(fac_lu_unpack(lu, pivots).P);
        assert_error(FAC_ERR_INDEX, "pivot");
        assert_null(fac_linalg_ldl_solve(lu, pivots, b));
        assert_error(FAC_ERR_INDEX, "pivot");
    }
    assert_null(fac_linalg_lu_solve(lu, fac_zeros(FAC_SHAPE(2), .dtype = FAC_I64), b));
    assert_error(FAC_ERR_DTYPE, "int32");
}

static void singular_matrices_are_told_by_info(void **state) {
    (void)state;
    FAC_SCOPE(scope);
    fac_tensor *both = fac_stack(FAC_TENSORS(MATRIX(2, 2, 2, 0, 0, 4), MATRIX(2, 2, 1, 2, 2, 4)));
    fac_linalg_inv_ex_result r = fac_linalg_inv_ex(both);
    assert_true(fac_item(fac_select(r.info, 0, 0)) == 0 && fac_item(fac_select(r.info, 0, 1)) == 2);
    assert_close(fac_select(r.inverse, 0, 0), MATRIX(2, 2, 0.5, 0, 0, 0.25));
    assert_true(fac_item(fac_select(fac_linalg_lu_factor_ex(both).info, 0, 1)) == 2);
}

static void failed_checks_change_no_output(void **state) {
    (void)state;
    FAC_SCOPE(scope);
    fac_tensor *x = fac_full(FAC_SHAPE(2, 2), 7, .dtype = FAC_F64), *info = fac_full(FAC_SHAPE(), 7, .dtype = FAC_I32);
    assert_null(fac_linalg_inv_ex_out(x, info, MATRIX(2, 2, 1, 2, 2, 4), .check_errors = true).inverse);
    assert_error(FAC_ERR_ARGUMENT, "singular");
    assert_close(x, fac_full(FAC_SHAPE(2, 2), 7, .dtype = FAC_F64));
    assert_true(fac_item(info) == 7);
}

/* ---- memory --------------------------------------------------------------------------------------------------------------- */

static void outputs_with_gaps_get_what_new_ones_get(void **state) {
    (void)state;
    FAC_SCOPE(scope);
    fac_tensor *a = regular(3), *room = fac_full(FAC_SHAPE(2, 3, 7), 9, .dtype = FAC_F64);
    fac_tensor *gaps = fac_as_strided(room, FAC_SHAPE(2, 3, 3), FAC_INTS(21, 7, 2));
    fac_linalg_inv_out(gaps, a);
    assert_close(gaps, fac_linalg_inv(a));
    assert_close(fac_select(room, 2, 1), fac_full(FAC_SHAPE(2, 3), 9, .dtype = FAC_F64));
    fac_tensor *columns = fac_as_strided(room, FAC_SHAPE(2, 3, 3), FAC_INTS(1, 2, 12));
    fac_linalg_solve_out(columns, a, fac_expand(eye(3), FAC_SHAPE(2, 3, 3)));
    assert_near(columns, fac_linalg_inv(a), 1e-13);
    assert_ok(fac_error());
}

static void inputs_of_any_strides_give_the_same(void **state) {
    (void)state;
    FAC_SCOPE(scope);
    fac_tensor *a = regular(4), *turned_twice = fac_mt(fac_contiguous(fac_mt(a)));
    fac_tensor *step = fac_select(fac_stack(FAC_TENSORS(a, a), .dim = 3), 3, 0);
    fac_tensor *versions[] = {turned_twice, step};
    for (size_t i = 0; i < FAC_COUNT(versions); i++) {
        assert_near(fac_linalg_inv(versions[i]), fac_linalg_inv(a), 1e-13);
        assert_near(fac_linalg_det(versions[i]), fac_linalg_det(a), 1e-13);
        fac_tensor *l = fac_tril(versions[i]);
        assert_near(fac_linalg_solve_triangular(fac_mt(fac_contiguous(fac_mt(l))), eye(4), false),
                    fac_linalg_solve_triangular(l, eye(4), false), 1e-13);
    }
}

static void matrices_without_elements_have_factors(void **state) {
    (void)state;
    FAC_SCOPE(scope);
    fac_tensor *none = fac_zeros(FAC_SHAPE(2, 0, 0), .dtype = FAC_F64),
               *nobody = fac_zeros(FAC_SHAPE(0, 3, 3), .dtype = FAC_F64);
    assert_sizes(fac_linalg_inv(none), 2, 0, 0);
    assert_sizes(fac_linalg_cholesky(nobody), 0, 3, 3);
    assert_sizes(fac_linalg_solve(none, fac_zeros(FAC_SHAPE(2, 0, 5), .dtype = FAC_F64)), 2, 0, 5);
    assert_sizes(fac_linalg_solve(nobody, fac_zeros(FAC_SHAPE(3, 2), .dtype = FAC_F64)), 0, 3, 2);
    assert_sizes(fac_linalg_lu(fac_zeros(FAC_SHAPE(3, 0), .dtype = FAC_F64)).P, 3, 3);
    assert_close(fac_linalg_lu(fac_zeros(FAC_SHAPE(3, 0), .dtype = FAC_F64)).P, eye(3));
    assert_sizes(fac_linalg_ldl_factor(none).LD, 2, 0, 0);
}

/* Large ones are cut; of small ones there are many, for libraries that bear no two calls at once. */
static void bits_do_not_depend_on_threads(void **state) {
    (void)state;
    FAC_SCOPE(scope);
    fac_tensor *many = RANDOM(2048, 17, 17), *large = RANDOM(420, 420), *first[6] = {NULL};
    fac_tensor *l = fac_add(large, fac_mul(eye(420), 30)), *z = complex_of(l, large);
    for (int threads = 1; threads < 8; threads += 3) {
        assert_ok(fac_set_num_threads(threads));
        fac_tensor *now[] = {fac_linalg_inv(many),    fac_linalg_eigvalsh(many),
                             fac_linalg_inv(large),   fac_linalg_cholesky(times(large, turned(large))),
                             fac_cholesky_inverse(l), fac_cholesky_inverse(z)};
        for (size_t i = 0; i < FAC_COUNT(now); i++) {
            if (!first[i]) first[i] = now[i];
            assert_true(fac_equal(now[i], first[i]));
        }
    }
}

/* ---- derivatives ------------------------------------------------------------------------------------------------------------- */

typedef fac_tensor *(*function)(fac_tensor *a, fac_tensor *b);
static fac_status call(void *context, fac_tensors in, fac_tensor **out, size_t n) {
    (void)n;
    out[0] = ((const function *)context)[0](in.v[0], in.n > 1 ? in.v[1] : NULL);
    return fac_error();
}

static fac_tensor *symmetric(fac_tensor *a) { return fac_add(a, turned(a)); }
static fac_tensor *cholesky_of(fac_tensor *a, fac_tensor *b) { return (void)b, fac_linalg_cholesky(symmetric(a)); }
static fac_tensor *cholesky_upper(fac_tensor *a, fac_tensor *b) {
    return (void)b, fac_linalg_cholesky(symmetric(a), .upper = true);
}
static fac_tensor *cholesky_solved(fac_tensor *a, fac_tensor *b) { return fac_cholesky_solve(b, fac_tril(a)); }
static fac_tensor *cholesky_inverted(fac_tensor *a, fac_tensor *b) {
    return (void)b, fac_cholesky_inverse(fac_linalg_cholesky(symmetric(a), .upper = true), .upper = true);
}
static fac_tensor *triangular(fac_tensor *a, fac_tensor *b) { return fac_linalg_solve_triangular(a, b, true); }
static fac_tensor *triangular_unit(fac_tensor *a, fac_tensor *b) {
    return fac_linalg_solve_triangular(a, fac_mt(b), false, .left = false, .unitriangular = true);
}
static fac_tensor *lu_l(fac_tensor *a, fac_tensor *b) { return (void)b, fac_linalg_lu(a).L; }
static fac_tensor *lu_u(fac_tensor *a, fac_tensor *b) { return (void)b, fac_linalg_lu(a).U; }
static fac_tensor *lu_compact(fac_tensor *a, fac_tensor *b) { return (void)b, fac_linalg_lu_factor(a).LU; }
static fac_tensor *lu_solved_with(fac_tensor *a, fac_tensor *b, bool left, bool adjoint) {
    fac_linalg_lu_factor_result f = fac_linalg_lu_factor(a);
    return fac_linalg_lu_solve(f.LU, f.pivots, left ? b : fac_mt(b), .left = left, .adjoint = adjoint);
}
static fac_tensor *lu_solved(fac_tensor *a, fac_tensor *b) { return lu_solved_with(a, b, true, false); }
static fac_tensor *lu_solved_adjoint(fac_tensor *a, fac_tensor *b) { return lu_solved_with(a, b, true, true); }
static fac_tensor *lu_solved_right(fac_tensor *a, fac_tensor *b) { return lu_solved_with(a, b, false, false); }
static fac_tensor *lu_solved_right_adjoint(fac_tensor *a, fac_tensor *b) { return lu_solved_with(a, b, false, true); }
static fac_tensor *solved(fac_tensor *a, fac_tensor *b) { return fac_linalg_solve(a, b); }
static fac_tensor *solved_right(fac_tensor *a, fac_tensor *b) { return fac_linalg_solve(a, fac_mt(b), .left = false); }
static fac_tensor *inverted(fac_tensor *a, fac_tensor *b) { return (void)b, fac_linalg_inv(a); }
static fac_tensor *determinant(fac_tensor *a, fac_tensor *b) { return (void)b, fac_linalg_det(a); }
static fac_tensor *log_determinant(fac_tensor *a, fac_tensor *b) { return (void)b, fac_linalg_slogdet(a).logabsdet; }
static fac_tensor *ldl_solved(fac_tensor *a, fac_tensor *b) {
    fac_linalg_ldl_factor_result f = fac_linalg_ldl_factor(fac_detach(symmetric(a)));
    return fac_linalg_ldl_solve(f.LD, f.pivots, b);
}

static const struct differentiable {
    function f;
    int inputs;
    bool right_alone;
} differentiables[] = {{cholesky_of, 1, 0},
                       {cholesky_upper, 1, 0},
                       {cholesky_solved, 2, 0},
                       {cholesky_inverted, 1, 0},
                       {triangular, 2, 0},
                       {triangular_unit, 2, 0},
                       {lu_l, 1, 0},
                       {lu_u, 1, 0},
                       {lu_compact, 1, 0},
                       {lu_solved, 2, 0},
                       {lu_solved_adjoint, 2, 0},
                       {lu_solved_right, 2, 0},
                       {lu_solved_right_adjoint, 2, 0},
                       {solved, 2, 0},
                       {solved_right, 2, 0},
                       {inverted, 1, 0},
                       {determinant, 1, 0},
                       {log_determinant, 1, 0},
                       {ldl_solved, 2, true}};

static void gradients_are_those_of_differences(void **state) {
    (void)state;
    FAC_SCOPE(scope);
    for (size_t i = 0; i < FAC_COUNT(differentiables); i++) {
        FAC_SCOPE(s);
        struct differentiable d = differentiables[i];
        fac_tensor *a = d.right_alone ? regular(3) : LONELY(regular(3)), *b = LEAF(2, 3, 2);
        fac_tensors in = d.inputs == 2 ? FAC_TENSORS(a, b) : FAC_TENSORS(a);
        if (fac_gradcheck(call, &d.f, in, 1) || fac_gradgradcheck(call, &d.f, in, 1))
            fail_msg("function %zu: %s", i, fac_error_message());
    }
}

static void complex_gradients_are_those_of_differences(void **state) {
    (void)state;
    FAC_SCOPE(scope);
    for (size_t i = 0; i < FAC_COUNT(differentiables); i++) {
        FAC_SCOPE(s);
        struct differentiable d = differentiables[i];
        fac_tensor *a = complex_of(regular(2), fac_mul(RANDOM(2, 2, 2), 0.5)),
                   *b = complex_of(RANDOM(2, 2, 2), RANDOM(2, 2, 2));
        a = d.right_alone ? a : LONELY(a);
        b = LONELY(b);
        fac_tensors in = d.inputs == 2 ? FAC_TENSORS(a, b) : FAC_TENSORS(a);
        if (fac_gradcheck(call, &d.f, in, 1)) fail_msg("function %zu: %s", i, fac_error_message());
    }
}

static void rectangular_factors_have_gradients(void **state) {
    (void)state;
    FAC_SCOPE(scope);
    const function all[] = {lu_l, lu_u, lu_compact};
    for (size_t i = 0; i < 2 * FAC_COUNT(all); i++) {
        FAC_SCOPE(s);
        function f = all[i / 2];
        fac_tensor *a = i % 2 ? LEAF(2, 4, 3) : LEAF(2, 3, 4);
        if (fac_gradcheck(call, &f, FAC_TENSORS(a), 1) || fac_gradgradcheck(call, &f, FAC_TENSORS(a), 1))
            fail_msg("function %zu: %s", i, fac_error_message());
    }
}

/* The adjugate, also where there is no inverse. */
static void determinant_of_a_singular_matrix_has_a_gradient(void **state) {
    (void)state;
    FAC_SCOPE(scope);
    fac_tensor *a = LONELY(MATRIX(2, 2, 1, 2, 2, 4));
    assert_ok(fac_backward(fac_linalg_det(a)));
    assert_near(fac_grad_of(a), MATRIX(2, 2, 4, -2, -2, 1), 1e-12);
    const function f = determinant;
    fac_tensor *b = LONELY(MATRIX(3, 3, 1, 2, 3, 2, 4, 6, 1, 0, 1));
    assert_ok(fac_gradcheck(call, (void *)(uintptr_t)&f, FAC_TENSORS(b), 1));
}

/* The derivative of w11 a22 - w12 a21 - w21 a12 + w22 a11. */
static void determinant_of_a_singular_matrix_has_a_second_gradient(void **state) {
    (void)state;
    FAC_SCOPE(scope);
    fac_tensor *a = LONELY(MATRIX(2, 2, 1, 2, 2, 4)), *first, *second;
    assert_ok(fac_grad(FAC_TENSORS(fac_linalg_det(a)), FAC_TENSORS(a), &first, .create_graph = true));
    assert_near(first, MATRIX(2, 2, 4, -2, -2, 1), 1e-12);
    assert_ok(fac_grad(FAC_TENSORS(fac_sum(fac_mul(first, MATRIX(2, 2, 3, 5, 7, 11)))), FAC_TENSORS(a), &second));
    assert_near(second, MATRIX(2, 2, 11, -7, -5, 3), 1e-12);
}

/* Of the root of 4 the slope is 1/4, which an imaginary gradient meets as a real one does. */
static void cholesky_keeps_the_imaginary_part_of_a_diagonal_gradient(void **state) {
    (void)state;
    FAC_SCOPE(scope);
    fac_tensor *one = fac_ones(FAC_INTS(1, 1), .dtype = FAC_F64), *none = fac_zeros_like(one);
    fac_tensor *a = fac_set_requires_grad(fac_detach(fac_complex_from_parts(fac_mul(one, 4), none)), true);
    assert_ok(fac_backward(fac_linalg_cholesky(a), .gradient = fac_complex_from_parts(fac_mul(one, 2), one)));
    assert_close(fac_real(fac_grad_of(a)), fac_mul(one, 0.5));
    assert_close(fac_imag(fac_grad_of(a)), fac_mul(one, 0.25));
}

FAC_TEST_MAIN(FAC_TEST(cholesky_of_a_small_matrix_is_its_factor), FAC_TEST(cholesky_reads_one_triangle),
              FAC_TEST(cholesky_solve_gives_solutions), FAC_TEST(solve_triangular_looks_at_one_triangle),
              FAC_TEST(lu_factors_multiply_to_the_matrix), FAC_TEST(factors_of_every_size_multiply_to_the_matrix),
              FAC_TEST(inverses_from_cholesky_factors_are_symmetric_and_invert),
              FAC_TEST(tall_matrices_have_orthogonal_factors), FAC_TEST(solutions_solve_for_every_side),
              FAC_TEST(complex_solutions_solve_for_every_side), FAC_TEST(one_factor_serves_many_right_sides),
              FAC_TEST(determinants_are_those_of_closed_forms), FAC_TEST(ldl_factors_solve),
              FAC_TEST(nan_hides_no_larger_pivot), FAC_TEST(nan_below_a_zero_pivot_is_not_lost),
              FAC_TEST(nan_off_the_diagonal_makes_a_block_of_two), FAC_TEST(failures_are_told),
              FAC_TEST(products_that_fail_within_factors_are_told), FAC_TEST(pivots_that_are_no_rows_are_refused),
              FAC_TEST(singular_matrices_are_told_by_info), FAC_TEST(failed_checks_change_no_output),
              FAC_TEST(outputs_with_gaps_get_what_new_ones_get), FAC_TEST(inputs_of_any_strides_give_the_same),
              FAC_TEST(matrices_without_elements_have_factors), FAC_TEST(bits_do_not_depend_on_threads),
              FAC_TEST(gradients_are_those_of_differences), FAC_TEST(complex_gradients_are_those_of_differences),
              FAC_TEST(rectangular_factors_have_gradients), FAC_TEST(determinant_of_a_singular_matrix_has_a_gradient),
              FAC_TEST(determinant_of_a_singular_matrix_has_a_second_gradient),
              FAC_TEST(cholesky_keeps_the_imaginary_part_of_a_diagonal_gradient))
