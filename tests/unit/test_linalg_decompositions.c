/* QR, singular values, eigenvalues, least squares, and functions of matrices, by their definitions: products of factors, orthogonality,
   closed forms; what is refused; outputs with gaps; matrices without elements; bits and threads; first and second derivatives. */
#include "linalg_test.h"
#include <facula/dispatch.h>

static fac_tensor *matrix(const double *v, int64_t m, int64_t n) {
    return fac_tensor_from(v, FAC_F64, FAC_SHAPE(m, n));
}
#define MATRIX(m, n, ...) matrix((const double[]){__VA_ARGS__}, m, n)
#define VECTOR(n, ...) fac_tensor_from((const double[]){__VA_ARGS__}, FAC_F64, FAC_SHAPE(n))

static fac_tensor *times(fac_tensor *a, fac_tensor *b) { return fac_matmul(a, b); }
static fac_tensor *turned(fac_tensor *a) { return fac_mh(a); }
static fac_tensor *eye(int64_t n) { return fac_to_dtype(fac_eye(n), FAC_F64); }
static fac_tensor *eyes(int64_t n, fac_dtype dtype) {
    return fac_to_dtype(fac_expand(eye(n), FAC_SHAPE(2, n, n)), dtype);
}
static fac_tensor *symmetric(fac_tensor *a) { return fac_add(a, turned(a)); }
static fac_tensor *scaled_columns(fac_tensor *a, fac_tensor *v) { return fac_mul(a, fac_unsqueeze(v, -2)); }
static fac_tensor *random_complex(int64_t m, int64_t n) {
    return fac_complex_from_parts(RANDOM(2, m, n), RANDOM(2, m, n));
}
static fac_tensor *as_parts(fac_tensor *t) { return fac_view_as_real(fac_resolve_conj(fac_contiguous(t))); }
static fac_tensor *real_parts(fac_tensor *t) { return fac_is_complex(t) ? as_parts(t) : t; }
#define assert_equal_to(a, b, tolerance) assert_near(real_parts(a), real_parts(b), tolerance)

static const int64_t shapes[][2] = {{4, 4}, {5, 3}, {3, 5}, {1, 1}};

/* ---- values --------------------------------------------------------------------------------------------------------------- */

static void qr_factors_are_orthogonal_and_triangular(void **state) {
    (void)state;
    FAC_SCOPE(scope);
    for (size_t i = 0; i < 2 * FAC_COUNT(shapes); i++) {
        const int64_t m = shapes[i / 2][0], n = shapes[i / 2][1], k = m < n ? m : n;
        fac_tensor *a = i % 2 ? random_complex(m, n) : RANDOM(2, m, n);
        fac_linalg_qr_result r = fac_linalg_qr(a), c = fac_linalg_qr(a, .mode = "complete"),
                             alone = fac_linalg_qr(a, .mode = "r");
        assert_sizes(r.Q, 2, m, k);
        assert_sizes(c.R, 2, m, n);
        assert_sizes(alone.Q, 0);
        assert_equal_to(times(r.Q, r.R), a, 1e-12);
        assert_equal_to(times(c.Q, c.R), a, 1e-12);
        assert_equal_to(times(turned(r.Q), r.Q), eyes(k, fac_tensor_dtype(a)), 1e-12);
        assert_equal_to(times(turned(c.Q), c.Q), eyes(m, fac_tensor_dtype(a)), 1e-12);
        assert_equal_to(alone.R, r.R, 1e-12);
        assert_equal_to(fac_triu(r.R), r.R, 0);
    }
}

/* Tall matrices are factored by columns; some of theirs are zero, or have squares that do not fit. */
static void qr_factors_of_tall_matrices_are_orthogonal(void **state) {
    (void)state;
    static const int64_t tall[][2] = {{63, 5}, {64, 8}, {65, 1}, {71, 7}, {200, 3}, {130, 20}, {300, 129}};
    static const double scales[] = {1, 1e-30, 1e30};
    for (size_t i = 0; i < 6 * FAC_COUNT(tall); i++) {
        FAC_SCOPE(scope);
        const fac_dtype d = i % 2 ? FAC_F32 : FAC_F64;
        const int64_t m = tall[i / 6][0], n = tall[i / 6][1];
        const double scale = scales[i / 2 % 3], tolerance = i % 2 ? 1e-4 : 1e-11;
        fac_tensor *a = RANDOM(2, m, n);
        if (n > 2) assert_non_null(fac_fill_(fac_select(a, -1, 2), 0));
        fac_linalg_qr_result r = fac_linalg_qr(fac_to_dtype(fac_mul(a, scale), d));
        fac_tensor *q = fac_to_dtype(r.Q, FAC_F64), *right = fac_div(fac_to_dtype(r.R, FAC_F64), scale);
        assert_near(times(q, right), a, tolerance);
        assert_near(times(turned(q), q), eyes(n, FAC_F64), tolerance);
        assert_near(fac_triu(right), right, 0);
    }
}

/* R's sign is the opposite of the sign of what is reflected, zero's too. */
static void reflections_look_at_the_sign_of_zero(void **state) {
    (void)state;
    FAC_SCOPE(scope);
    const fac_dtype dtypes[] = {FAC_F32, FAC_F64};
    for (size_t i = 0; i < FAC_COUNT(dtypes); i++) {
        fac_tensor *below = fac_to_dtype(MATRIX(2, 1, -0.0, 3), dtypes[i]),
                   *above = fac_to_dtype(MATRIX(2, 1, 0.0, 3), dtypes[i]);
        assert_equal_to(fac_linalg_qr(below).R, MATRIX(1, 1, 3), 1e-6);
        assert_equal_to(fac_linalg_qr(above).R, MATRIX(1, 1, -3), 1e-6);
    }
}

static void reflections_multiply_to_q(void **state) {
    (void)state;
    FAC_SCOPE(scope);
    for (int i = 0; i < 2; i++) {
        fac_tensor *a = i ? random_complex(5, 3) : RANDOM(2, 5, 3), *c = i ? random_complex(5, 2) : RANDOM(2, 5, 2);
        fac_geqrf_result f = fac_geqrf(a);
        fac_linalg_qr_result r = fac_linalg_qr(a, .mode = "complete");
        assert_equal_to(fac_linalg_householder_product(f.a, f.tau), fac_narrow(r.Q, -1, 0, 3), 1e-12);
        assert_equal_to(fac_orgqr(f.a, f.tau), fac_narrow(r.Q, -1, 0, 3), 1e-12);
        assert_equal_to(fac_ormqr(f.a, f.tau, c), times(r.Q, c), 1e-12);
        assert_equal_to(fac_ormqr(f.a, f.tau, c, .transpose = true), times(turned(r.Q), c), 1e-12);
        assert_equal_to(fac_ormqr(f.a, f.tau, turned(c), .left = false), times(turned(c), r.Q), 1e-12);
    }
}

static void singular_values_and_vectors_multiply_to_the_matrix(void **state) {
    (void)state;
    FAC_SCOPE(scope);
    for (size_t i = 0; i < 2 * FAC_COUNT(shapes); i++) {
        const int64_t m = shapes[i / 2][0], n = shapes[i / 2][1], k = m < n ? m : n;
        fac_tensor *a = i % 2 ? random_complex(m, n) : RANDOM(2, m, n);
        fac_linalg_svd_result thin = fac_linalg_svd(a, .full_matrices = false), full = fac_linalg_svd(a);
        assert_equal_to(times(scaled_columns(thin.U, thin.S), thin.Vh), a, 1e-12);
        assert_equal_to(times(turned(full.U), full.U), eyes(m, fac_tensor_dtype(a)), 1e-12);
        assert_equal_to(times(full.Vh, turned(full.Vh)), eyes(n, fac_tensor_dtype(a)), 1e-12);
        assert_near(fac_linalg_svdvals(a), full.S, 1e-12);
        fac_svd_result old = fac_svd(a);
        assert_equal_to(times(scaled_columns(old.U, old.S), turned(old.V)), a, 1e-12);
        assert_sizes(fac_svd(a, .compute_uv = false).U, 2, m, m);
        assert_sizes(thin.Vh, 2, k, n);
    }
    assert_close(fac_linalg_svdvals(MATRIX(2, 2, 3, 0, 0, -4)), VECTOR(2, 4, 3));
}

/* Of tall matrices, which are reduced before LAPACK sees them: what is not finite is refused wherever it stands, and what is large but
   finite has singular values. */
static void tall_matrices_may_be_large_and_must_be_finite(void **state) {
    (void)state;
    static const double bad[] = {NAN, INFINITY, -INFINITY};
    for (int i = 0; i < 48; i++) {
        FAC_SCOPE(scope);
        const int64_t m = i / 24 ? 2500 : 70, n = 10;
        fac_tensor *a = fac_to_dtype(RANDOM(1, m, n), i % 2 ? FAC_F32 : FAC_F64);
        fac_fill_(fac_select(fac_select(a, 1, i / 6 % 2 ? m - 1 : 3), 1, i / 12 % 2 ? 0 : 9), bad[i / 2 % 3]);
        assert_null(fac_linalg_svdvals(a));
        assert_error(FAC_ERR_ARGUMENT, "non-finite");
    }
    FAC_SCOPE(scope);
    fac_tensor *large = fac_full(FAC_SHAPE(3000, 1), 1e36, .dtype = FAC_F32);
    assert_near(fac_div(fac_linalg_svdvals(large), 1e37), fac_full(FAC_SHAPE(1), sqrt(30), .dtype = FAC_F32), 1e-3);
    large = fac_full(FAC_SHAPE(3000, 1), 1e38, .dtype = FAC_F32);
    assert_true(isinf(fac_item(fac_linalg_svdvals(large))));
}

/* Of matrices far from square, and their transposes, the singular values of a triangle are computed. */
static void singular_vectors_of_tall_and_wide_matrices_multiply_to_them(void **state) {
    (void)state;
    static const int64_t tall[][2] = {{100, 8}, {7, 3}, {9, 1}, {80, 33}, {5003, 9}, {3000, 1}};
    for (size_t i = 0; i < 4 * FAC_COUNT(tall); i++) {
        FAC_SCOPE(scope);
        const fac_dtype d = i % 2 ? FAC_F32 : FAC_F64;
        const double tolerance = i % 2 ? 1e-4 : 1e-11;
        fac_tensor *wide = RANDOM(2, tall[i / 4][0], tall[i / 4][1]), *a = i / 2 % 2 ? turned(wide) : wide;
        fac_linalg_svd_result r = fac_linalg_svd(fac_to_dtype(a, d), .full_matrices = false);
        fac_tensor *u = fac_to_dtype(r.U, FAC_F64), *v = fac_to_dtype(r.Vh, FAC_F64), *s = fac_to_dtype(r.S, FAC_F64);
        assert_near(times(scaled_columns(u, s), v), a, tolerance);
        assert_near(times(turned(u), u), eyes(tall[i / 4][1], FAC_F64), tolerance);
        assert_near(times(v, turned(v)), eyes(tall[i / 4][1], FAC_F64), tolerance);
        assert_near(fac_to_dtype(fac_linalg_svdvals(fac_to_dtype(a, d)), FAC_F64), s, tolerance);
        if (tall[i / 4][0] <= 100) assert_near(s, fac_linalg_svd(a).S, tolerance); /* LAPACK's own way */
    }
}

static void eigenvectors_of_symmetric_matrices_are_turned_by_nothing(void **state) {
    (void)state;
    FAC_SCOPE(scope);
    assert_close(fac_linalg_eigvalsh(MATRIX(2, 2, 2, 1, 1, 2)), VECTOR(2, 1, 3));
    for (int i = 0; i < 4; i++) {
        fac_tensor *a = symmetric(i % 2 ? random_complex(4, 4) : RANDOM(2, 4, 4));
        const char *uplo = i / 2 ? "U" : "L";
        fac_linalg_eigh_result r = fac_linalg_eigh(i / 2 ? fac_triu(a) : fac_tril(a), .UPLO = uplo);
        assert_equal_to(times(a, r.eigenvectors), scaled_columns(r.eigenvectors, r.eigenvalues), 1e-12);
        assert_equal_to(times(turned(r.eigenvectors), r.eigenvectors), eyes(4, fac_tensor_dtype(a)), 1e-12);
        assert_near(fac_linalg_eigvalsh(a), r.eigenvalues, 1e-12);
    }
}

/* Of sizes that are our own and LAPACK's, with numbers whose squares would overflow or vanish, with few different eigenvalues, with
   none but zero, and graded either way. */
static void symmetric_matrices_of_any_size_and_scale_have_eigenvectors(void **state) {
    (void)state;
    FAC_SCOPE(scope);
    static const int64_t sizes[] = {1, 2, 3, 7, 8, 9, 16, 31, 32, 33, 64, 65};
    static const double scales[2][3] = {{1, 1e35, 1e-34}, {1, 1e305, 1e-305}};
    for (size_t i = 0; i < 6 * FAC_COUNT(sizes); i++) {
        FAC_SCOPE(each);
        const int64_t n = sizes[i / 6];
        const bool wide = i % 6 >= 3;
        const double scale = scales[wide][i % 3], tolerance = wide ? 1e-13 : 2e-5;
        fac_tensor *powers = fac_exp2(fac_neg(fac_to_dtype(fac_arange(n), FAC_F64))), *any = symmetric(RANDOM(n, n)),
                   *graded = fac_mul(fac_mul(any, powers), fac_unsqueeze(powers, 1));
        fac_tensor *all = fac_stack(FAC_TENSORS(any, fac_round(any), fac_zeros(FAC_SHAPE(n, n), .dtype = FAC_F64),
                                                eye(n), graded, fac_flip(graded, FAC_INTS(0, 1)))),
                   *a = fac_to_dtype(all, wide ? FAC_F64 : FAC_F32);
        fac_linalg_eigh_result r = fac_linalg_eigh(fac_mul(a, scale));
        fac_tensor *values = fac_div(r.eigenvalues, scale);
        assert_equal_to(times(a, r.eigenvectors), scaled_columns(r.eigenvectors, values), tolerance);
        assert_equal_to(times(turned(r.eigenvectors), r.eigenvectors),
                        fac_to_dtype(fac_expand(eye(n), FAC_SHAPE(6, n, n)), fac_tensor_dtype(a)), tolerance);
        assert_near(fac_div(fac_linalg_eigvalsh(fac_mul(a, scale)), scale), values, tolerance);
        assert_equal_to(fac_sort(values).values, values, 0);
    }
}

static void eigenvectors_of_others_are_scaled(void **state) {
    (void)state;
    FAC_SCOPE(scope);
    fac_tensor *rotation = MATRIX(2, 2, 0, -1, 1, 0);
    assert_equal_to(fac_linalg_eigvals(rotation), fac_complex_from_parts(VECTOR(2, 0, 0), VECTOR(2, 1, -1)), 1e-14);
    for (int i = 0; i < 2; i++) {
        fac_tensor *a = i ? random_complex(5, 5) : RANDOM(2, 5, 5);
        fac_linalg_eig_result r = fac_linalg_eig(a);
        fac_tensor *z = fac_to_dtype(a, FAC_C128);
        assert_equal_to(times(z, r.eigenvectors), scaled_columns(r.eigenvectors, r.eigenvalues), 1e-11);
        assert_equal_to(fac_sum(fac_linalg_eigvals(a), .dims = FAC_INTS(-1)),
                        fac_sum(fac_diagonal(z, .dim1 = -2, .dim2 = -1), .dims = FAC_INTS(-1)), 1e-11);
    }
}

static void least_squares_solve_the_normal_equations(void **state) {
    (void)state;
    FAC_SCOPE(scope);
    const char *const drivers[] = {"gels", "gelsy", "gelsd", "gelss"};
    for (size_t i = 0; i < 2 * FAC_COUNT(drivers); i++) {
        fac_tensor *a = i % 2 ? random_complex(5, 3) : RANDOM(2, 5, 3),
                   *b = i % 2 ? random_complex(5, 2) : RANDOM(2, 5, 2);
        fac_linalg_lstsq_result r = fac_linalg_lstsq(a, b, .driver = drivers[i / 2]);
        fac_tensor *rest = fac_sub(times(a, r.solution), b);
        assert_near(real_parts(times(turned(a), rest)), real_parts(fac_zeros_like(r.solution)), 1e-11);
        if (i / 2 != 1) assert_near(r.residuals, fac_sum(fac_square(fac_abs(rest)), .dims = FAC_INTS(-2)), 1e-11);
        if (i / 2 == 1) assert_sizes(r.residuals, 0);
        if (i / 2 >= 2) assert_near(r.singular_values, fac_linalg_svdvals(a), 1e-11);
    }
    fac_tensor *flat = MATRIX(3, 2, 1, 1, 1, 1, 1, 1);
    assert_true(fac_item(fac_linalg_lstsq(flat, VECTOR(3, 1, 2, 3)).rank) == 1);
    assert_sizes(fac_linalg_lstsq(flat, VECTOR(3, 1, 2, 3)).solution, 2);
    assert_sizes(fac_linalg_lstsq(flat, RANDOM(3, 1), .driver = "gelsd").residuals, 0);
    assert_null(fac_linalg_lstsq(flat, RANDOM(3, 1), .driver = "gelsx").solution);
    assert_error(FAC_ERR_ARGUMENT, "gels, gelsy, gelsd, gelss");
}

static void pseudo_inverses_meet_penrose(void **state) {
    (void)state;
    FAC_SCOPE(scope);
    for (size_t i = 0; i < 2 * FAC_COUNT(shapes); i++) {
        fac_tensor *a =
            i % 2 ? random_complex(shapes[i / 2][0], shapes[i / 2][1]) : RANDOM(2, shapes[i / 2][0], shapes[i / 2][1]);
        fac_tensor *p = fac_linalg_pinv(a, 1e-12);
        assert_equal_to(times(a, times(p, a)), a, 1e-11);
        assert_equal_to(times(p, times(a, p)), p, 1e-11);
        assert_equal_to(turned(times(a, p)), times(a, p), 1e-11);
        assert_equal_to(fac_pinverse(a), p, 1e-11);
    }
    fac_tensor *flat = MATRIX(2, 2, 1, 1, 1, 1);
    assert_close(fac_linalg_pinv_atol_rtol_float(flat), MATRIX(2, 2, .25, .25, .25, .25));
    assert_close(fac_linalg_pinv_atol_rtol_float(flat, .hermitian = true), MATRIX(2, 2, .25, .25, .25, .25));
}

static void ranks_count_what_is_above_the_threshold(void **state) {
    (void)state;
    FAC_SCOPE(scope);
    fac_tensor *a = fac_diag(VECTOR(3, 4, 1, 0.001));
    assert_true(fac_item(fac_linalg_matrix_rank_atol_rtol_float(a)) == 3);
    assert_true(fac_item(fac_linalg_matrix_rank_atol_rtol_float(a, .rtol = 0.01)) == 2);
    assert_true(fac_item(fac_linalg_matrix_rank(a, 2)) == 1);
    assert_true(fac_item(fac_linalg_matrix_rank_tol_tensor(a, fac_scalar_tensor(0.5))) == 2);
    assert_true(fac_item(fac_linalg_matrix_rank_atol_rtol_float(a, .hermitian = true)) == 3);
    assert_true(fac_item(fac_linalg_matrix_rank_atol_rtol_float(fac_zeros(FAC_SHAPE(2, 0)))) == 0);
}

static void norms_of_a_matrix_are_those_of_its_definition(void **state) {
    (void)state;
    FAC_SCOPE(scope);
    fac_tensor *a = MATRIX(2, 2, 3, -4, 0, 0);
    const double ords[] = {1, -1, INFINITY, -INFINITY, 2, -2}, want[] = {4, 3, 7, 0, 5, 0};
    for (size_t i = 0; i < FAC_COUNT(ords); i++)
        assert_near(fac_linalg_matrix_norm(a, ords[i]), fac_scalar_tensor(want[i], .dtype = FAC_F64), 1e-14);
    assert_close(fac_linalg_matrix_norm_str_ord(a), fac_scalar_tensor(5, .dtype = FAC_F64));
    assert_close(fac_linalg_matrix_norm_str_ord(a, .ord = "nuc"), fac_scalar_tensor(5, .dtype = FAC_F64));
    assert_close(fac_nuclear_norm(a), fac_scalar_tensor(5, .dtype = FAC_F64));
    assert_sizes(fac_linalg_matrix_norm(RANDOM(2, 3, 4), 2, .dim = FAC_INTS(2, 0), .keepdim = true), 1, 3, 1);
    assert_sizes(fac_linalg_matrix_norm(RANDOM(2, 3, 4), 1, .dim = FAC_INTS(2, 0)), 3);
    assert_null(fac_linalg_matrix_norm(a, 3));
    assert_error(FAC_ERR_ARGUMENT, "Order 3 not supported");
    assert_null(fac_linalg_matrix_norm(a, 1, .dim = FAC_INTS(0, 0)));
    assert_error(FAC_ERR_ARGUMENT, "dims must be different");
}

static void the_norm_of_a_matrix_without_elements_is_zero(void **state) {
    (void)state;
    FAC_SCOPE(scope);
    const double ords[] = {1, INFINITY, 2};
    for (size_t i = 0; i < FAC_COUNT(ords); i++) {
        fac_tensor *none = fac_linalg_matrix_norm(fac_zeros(FAC_SHAPE(2, 3, 0)), ords[i]);
        assert_sizes(none, 2);
        assert_true(fac_item(fac_sum(fac_abs(none))) == 0);
        assert_true(fac_item(fac_linalg_matrix_norm(fac_zeros(FAC_SHAPE(0, 3)), ords[i])) == 0);
        assert_sizes(fac_linalg_matrix_norm(fac_zeros(FAC_SHAPE(0, 3)), ords[i], .keepdim = true), 1, 1);
    }
    assert_null(fac_linalg_matrix_norm(fac_zeros(FAC_SHAPE(3, 0)), -1));
    assert_error(FAC_ERR_INDEX, "non-zero size");
}

static void condition_numbers_of_diagonals_are_ratios(void **state) {
    (void)state;
    FAC_SCOPE(scope);
    fac_tensor *a = fac_diag(VECTOR(2, 8, 2));
    assert_close(fac_linalg_cond(a), fac_scalar_tensor(4, .dtype = FAC_F64));
    assert_close(fac_linalg_cond(a, .p = 1), fac_scalar_tensor(4, .dtype = FAC_F64));
    assert_close(fac_linalg_cond(a, .p = -2), fac_scalar_tensor(0.25, .dtype = FAC_F64));
    assert_close(fac_linalg_cond_p_str(a, "nuc"), fac_scalar_tensor(10 * 0.625, .dtype = FAC_F64));
    assert_true(isinf(fac_item(fac_linalg_cond(MATRIX(2, 2, 1, 2, 2, 4), .p = 1))));
}

static void powers_multiply(void **state) {
    (void)state;
    FAC_SCOPE(scope);
    fac_tensor *a = fac_add(RANDOM(2, 3, 3), eye(3));
    assert_close(fac_linalg_matrix_power(a, 0), fac_expand(eye(3), FAC_SHAPE(2, 3, 3)));
    assert_close(fac_linalg_matrix_power(a, 5), times(a, times(times(a, a), times(a, a))));
    assert_near(fac_linalg_matrix_power(a, -2), fac_linalg_inv(times(a, a)), 1e-9);
}

/* Nilpotent matrices end the series, rotations are sines and cosines, exp(A) exp(-A) is 1. */
static void exponentials_are_those_of_closed_forms(void **state) {
    (void)state;
    FAC_SCOPE(scope);
    assert_close(fac_linalg_matrix_exp(MATRIX(3, 3, 0, 1, 2, 0, 0, 3, 0, 0, 0)),
                 MATRIX(3, 3, 1, 1, 3.5, 0, 1, 3, 0, 0, 1));
    for (double angle = 1e-9; angle < 100; angle *= 10) {
        fac_tensor *e = fac_linalg_matrix_exp(MATRIX(2, 2, 0, -angle, angle, 0));
        assert_near(e, MATRIX(2, 2, cos(angle), -sin(angle), sin(angle), cos(angle)), 1e-12);
        fac_tensor *single = fac_linalg_matrix_exp(fac_to_dtype(MATRIX(2, 2, 0, -angle, angle, 0), FAC_F32));
        assert_near(single, MATRIX(2, 2, cos(angle), -sin(angle), sin(angle), cos(angle)), 1e-4);
    }
    fac_tensor *a = RANDOM(2, 6, 6), *z = random_complex(3, 3);
    assert_near(times(fac_linalg_matrix_exp(a), fac_linalg_matrix_exp(fac_neg(a))), eyes(6, FAC_F64), 1e-11);
    assert_equal_to(times(fac_linalg_matrix_exp(z), fac_linalg_matrix_exp(fac_neg(z))), eyes(3, FAC_C128), 1e-11);
    assert_true(isnan(fac_item(fac_sum(fac_linalg_matrix_exp(MATRIX(2, 2, NAN, 0, 0, 1))))));
}

static void tensors_are_inverted_as_matrices(void **state) {
    (void)state;
    FAC_SCOPE(scope);
    fac_tensor *a = fac_reshape(fac_add(RANDOM(6, 6), fac_mul(eye(6), 4)), FAC_SHAPE(2, 3, 6)), *b = RANDOM(2, 3);
    fac_tensor *x = fac_linalg_tensorsolve(a, b);
    assert_sizes(x, 6);
    assert_near(fac_tensordot(a, x, FAC_INTS(2), FAC_INTS(0)), b, 1e-11);
    assert_near(fac_tensordot(fac_linalg_tensorinv(a), b, FAC_INTS(1, 2), FAC_INTS(0, 1)), x, 1e-11);
    assert_null(fac_linalg_tensorinv(a, .ind = 0));
    assert_error(FAC_ERR_ARGUMENT, "strictly positive");
}

/* ---- what is refused, memory, threads ------------------------------------------------------------------------------------- */

static void what_is_not_finite_is_refused(void **state) {
    (void)state;
    FAC_SCOPE(scope);
    fac_tensor *bad = MATRIX(2, 2, 1, NAN, INFINITY, 1);
    assert_null(fac_linalg_svd(bad).U);
    assert_error(FAC_ERR_ARGUMENT, "non-finite");
    assert_null(fac_linalg_eig(bad).eigenvalues);
    assert_error(FAC_ERR_ARGUMENT, "infs or NaNs");
    assert_null(fac_linalg_eigh(bad).eigenvalues);
    assert_error(FAC_ERR_ARGUMENT, "infs or NaNs");
    assert_null(fac_linalg_lstsq(bad, eye(2)).solution);
    assert_error(FAC_ERR_ARGUMENT, "non-finite");
    assert_null(fac_linalg_eigh(eye(2), .UPLO = "X").eigenvalues);
    assert_error(FAC_ERR_ARGUMENT, "UPLO");
    assert_null(fac_linalg_svd(eye(2), .driver = "gesvd").U);
    assert_error(FAC_ERR_ARGUMENT, "driver");
    assert_null(fac_linalg_qr(eye(2), .mode = "full").Q);
    assert_error(FAC_ERR_ARGUMENT, "unrecognized mode 'full'");
}

static void outputs_with_gaps_get_what_new_ones_get(void **state) {
    (void)state;
    FAC_SCOPE(scope);
    fac_tensor *a = symmetric(RANDOM(2, 3, 3)), *room = fac_full(FAC_SHAPE(2, 3, 7), 9, .dtype = FAC_F64);
    fac_tensor *gaps = fac_as_strided(room, FAC_SHAPE(2, 3, 3), FAC_INTS(21, 7, 2)),
               *values = fac_zeros(FAC_SHAPE(2, 3), .dtype = FAC_F64);
    fac_linalg_eigh_out(values, gaps, a);
    assert_near(times(a, gaps), scaled_columns(gaps, values), 1e-12);
    assert_close(fac_select(room, 2, 1), fac_full(FAC_SHAPE(2, 3), 9, .dtype = FAC_F64));
    fac_linalg_qr_out(gaps, fac_zeros(FAC_SHAPE(2, 3, 3), .dtype = FAC_F64), a);
    assert_close(gaps, fac_linalg_qr(a).Q);
}

static void matrices_without_elements_are_decomposed(void **state) {
    (void)state;
    FAC_SCOPE(scope);
    fac_tensor *none = fac_zeros(FAC_SHAPE(2, 0, 3), .dtype = FAC_F64),
               *square = fac_zeros(FAC_SHAPE(2, 0, 0), .dtype = FAC_F64);
    fac_linalg_svd_result r = fac_linalg_svd(none);
    assert_sizes(r.S, 2, 0);
    assert_close(r.Vh, fac_expand(eye(3), FAC_SHAPE(2, 3, 3)));
    assert_close(fac_linalg_qr(fac_mt(none), .mode = "complete").Q, fac_expand(eye(3), FAC_SHAPE(2, 3, 3)));
    assert_sizes(fac_linalg_eigvals(square), 2, 0);
    assert_sizes(fac_linalg_pinv(none, 0), 2, 3, 0);
    assert_sizes(fac_linalg_lstsq(none, fac_zeros(FAC_SHAPE(2, 0, 4), .dtype = FAC_F64)).solution, 2, 3, 4);
    fac_tensor *no_columns = fac_zeros(FAC_SHAPE(3, 0), .dtype = FAC_F64);
    fac_linalg_lstsq_result least = fac_linalg_lstsq(eye(3), no_columns, .driver = "gelsd");
    assert_sizes(least.solution, 3, 0);
    assert_close(least.singular_values, fac_ones(FAC_SHAPE(3), .dtype = FAC_F64));
    assert_int_equal(fac_item_int(least.rank), 3);
    assert_sizes(fac_linalg_matrix_exp(square), 2, 0, 0);
}

static void bits_do_not_depend_on_threads(void **state) {
    (void)state;
    FAC_SCOPE(scope);
    fac_tensor *a = RANDOM(32, 17, 17), *large = RANDOM(150, 150), *first[3] = {NULL};
    for (int threads = 1; threads < 8; threads += 3) {
        assert_ok(fac_set_num_threads(threads));
        fac_tensor *now[3] = {fac_linalg_svd(a).U, fac_linalg_matrix_exp(a), fac_linalg_matrix_exp(large)};
        for (int i = 0; i < 3; i++) {
            if (!first[i]) first[i] = now[i];
            assert_true(fac_equal(now[i], first[i]));
        }
    }
}

/* ---- derivatives ------------------------------------------------------------------------------------------------------------- */

typedef fac_tensor *(*function)(fac_tensor *a);
static fac_status call(void *context, fac_tensors in, fac_tensor **out, size_t n) {
    (void)n;
    out[0] = ((const function *)context)[0](in.v[0]);
    return fac_error();
}

static fac_tensor *qr_q(fac_tensor *a) { return fac_linalg_qr(a).Q; }
static fac_tensor *qr_r(fac_tensor *a) { return fac_linalg_qr(a).R; }
static fac_tensor *svd_values(fac_tensor *a) { return fac_linalg_svdvals(a); }
static fac_tensor *svd_product(fac_tensor *a) {
    fac_linalg_svd_result r = fac_linalg_svd(a, .full_matrices = false);
    return times(scaled_columns(r.U, fac_square(r.S)), r.Vh);
}
static fac_tensor *svd_u(fac_tensor *a) { return fac_abs(fac_linalg_svd(a, .full_matrices = false).U); }
static fac_tensor *svd_vh(fac_tensor *a) { return fac_abs(fac_linalg_svd(a, .full_matrices = false).Vh); }
static fac_tensor *pseudo_inverse(fac_tensor *a) { return fac_linalg_pinv(a, 1e-12); }
static fac_tensor *eigh_values(fac_tensor *a) { return fac_linalg_eigvalsh(symmetric(a)); }
static fac_tensor *eigh_vectors(fac_tensor *a) { return fac_abs(fac_linalg_eigh(symmetric(a)).eigenvectors); }
static fac_tensor *eig_values(fac_tensor *a) { return fac_abs(fac_linalg_eigvals(a)); }
static fac_tensor *eig_vectors(fac_tensor *a) { return fac_abs(fac_linalg_eig(a).eigenvectors); }
static fac_tensor *exponential(fac_tensor *a) { return fac_linalg_matrix_exp(a); }
static fac_tensor *fifth_power(fac_tensor *a) { return fac_linalg_matrix_power(a, 5); }
static fac_tensor *nuclear(fac_tensor *a) { return fac_linalg_matrix_norm_str_ord(a, .ord = "nuc"); }
static fac_tensor *condition(fac_tensor *a) { return fac_linalg_cond(a); }

static const struct differentiable {
    function f;
    bool square, tall;
} differentiables[] = {{qr_q, 0, 0},         {qr_r, 0, 0},       {svd_values, 0, 0},     {svd_product, 0, 0},
                       {svd_u, 0, 0},        {svd_vh, 0, 0},     {pseudo_inverse, 0, 0}, {eigh_values, 1, 0},
                       {eigh_vectors, 1, 0}, {eig_values, 1, 0}, {eig_vectors, 1, 0},    {exponential, 1, 0},
                       {fifth_power, 1, 0},  {nuclear, 0, 0},    {condition, 0, 0}};

/* Square, tall and wide in turn; singular values well apart. */
static void gradients_are_those_of_differences(void **state) {
    (void)state;
    FAC_SCOPE(scope);
    const int64_t sizes[][2] = {{3, 3}, {4, 2}, {2, 4}};
    for (size_t i = 0; i < 3 * FAC_COUNT(differentiables); i++) {
        FAC_SCOPE(s);
        function f = differentiables[i / 3].f;
        const int64_t *size = sizes[differentiables[i / 3].square ? 0 : i % 3];
        fac_tensor *apart = fac_mul(fac_to_dtype(fac_eye_m(size[0], size[1]), FAC_F64), fac_arange(size[1]));
        fac_tensor *a = fac_set_requires_grad(fac_add(fac_mul(RANDOM(2, size[0], size[1]), 0.7), apart), true);
        if (fac_gradcheck(call, &f, FAC_TENSORS(a), 1) || fac_gradgradcheck(call, &f, FAC_TENSORS(a), 1))
            fail_msg("function %zu of %lld x %lld: %s", i / 3, (long long)size[0], (long long)size[1],
                     fac_error_message());
    }
}

static void complex_gradients_are_those_of_differences(void **state) {
    (void)state;
    FAC_SCOPE(scope);
    for (size_t i = 0; i < FAC_COUNT(differentiables); i++) {
        FAC_SCOPE(s);
        function f = differentiables[i].f;
        fac_tensor *apart = fac_mul(fac_to_dtype(fac_eye(3), FAC_F64), fac_arange(3));
        fac_tensor *a = fac_set_requires_grad(fac_detach(fac_add(fac_mul(random_complex(3, 3), 0.5), apart)), true);
        if (fac_gradcheck(call, &f, FAC_TENSORS(a), 1)) fail_msg("function %zu: %s", i, fac_error_message());
    }
}

static fac_tensor *reflections_of(fac_tensor *a, fac_tensor *tau, fac_tensor *c, int what) {
    return what == 0   ? fac_linalg_householder_product(a, tau)
           : what == 1 ? fac_ormqr(a, tau, c)
           : what == 2 ? fac_ormqr(a, tau, c, .transpose = true)
                       : fac_ormqr(a, tau, fac_mt(c), .left = false);
}
static fac_status call_reflections(void *context, fac_tensors in, fac_tensor **out, size_t n) {
    (void)n;
    out[0] = reflections_of(in.v[0], in.v[1], in.v[2], *(const int *)context);
    return fac_error();
}

static void reflections_have_gradients(void **state) {
    (void)state;
    FAC_SCOPE(scope);
    for (int i = 0; i < 12; i++) { /* of numbers, with a tau of zero, and of complex ones */
        FAC_SCOPE(s);
        int what = i % 4;
        fac_tensor *a = LEAF(2, 4, 3), *tau = LEAF(2, 2), *c = LEAF(2, 4, 2);
        if (i / 4 == 1) {
            tau = fac_detach(tau);
            assert_non_null(fac_fill_(fac_select(tau, -1, 0), 0));
            assert_non_null(fac_set_requires_grad(tau, true));
        }
        if (i / 4 == 2) {
            a = fac_set_requires_grad(random_complex(4, 3), true),
            c = fac_set_requires_grad(random_complex(4, 2), true);
            tau = fac_set_requires_grad(fac_detach(fac_select(random_complex(1, 2), 1, 0)), true);
        }
        if (fac_gradcheck(call_reflections, &what, FAC_TENSORS(a, tau, c), 1) ||
            fac_gradgradcheck(call_reflections, &what, FAC_TENSORS(a, tau, c), 1))
            fail_msg("%d: %s", what, fac_error_message());
    }
}

static fac_status call_lstsq(void *context, fac_tensors in, fac_tensor **out, size_t n) {
    (void)n;
    fac_linalg_lstsq_result r = fac_linalg_lstsq(in.v[0], in.v[1], .driver = "gelsd");
    out[0] = *(const bool *)context ? r.residuals : r.solution;
    return fac_error();
}

static void least_squares_have_gradients(void **state) {
    (void)state;
    FAC_SCOPE(scope);
    for (int i = 0; i < 2; i++) {
        bool residuals = i;
        fac_tensor *a = LEAF(2, 5, 3), *b = LEAF(2, 5, 2);
        assert_ok(fac_gradcheck(call_lstsq, &residuals, FAC_TENSORS(a, b), 1));
        assert_ok(fac_gradgradcheck(call_lstsq, &residuals, FAC_TENSORS(a, b), 1));
    }
}

static void losses_that_depend_on_phases_are_refused(void **state) {
    (void)state;
    FAC_SCOPE(scope);
    fac_tensor *a = fac_set_requires_grad(fac_detach(random_complex(3, 3)), true);
    (void)!fac_backward(fac_sum(fac_real(fac_linalg_svd(a).U)));
    assert_error(FAC_ERR_AUTOGRAD, "up to multiplication by e^{i phi}");
}

/* The square of the first entry of the first eigenvector of [[a, b], [b, c]] is (1 - (a - c) / d) / 2 with d^2 = (a - c)^2 + 4 b^2. */
static void eigenvectors_of_symmetric_matrices_have_symmetric_gradients(void **state) {
    (void)state;
    FAC_SCOPE(scope);
    fac_tensor *a = fac_set_requires_grad(fac_tensor_from((double[]){2, 1, 1, 2}, FAC_F64, FAC_INTS(2, 2)), true);
    fac_tensor *v = fac_select(fac_select(fac_linalg_eigh(a).eigenvectors, 0, 0), 0, 0);
    assert_ok(fac_backward(fac_square(v)));
    assert_close(fac_grad_of(a), fac_tensor_from((double[]){-0.25, 0, 0, 0.25}, FAC_F64, FAC_INTS(2, 2)));
}

static void power_0_has_a_gradient_of_zeros(void **state) {
    (void)state;
    FAC_SCOPE(scope);
    fac_tensor *a =
        fac_set_requires_grad(fac_tensor_from((double[]){NAN, 1, INFINITY, 2}, FAC_F64, FAC_INTS(2, 2)), true);
    fac_tensor *eye = fac_linalg_matrix_power(a, 0);
    assert_close(eye, fac_eye(2, .dtype = FAC_F64));
    assert_ok(fac_backward(fac_sum(eye)));
    assert_close(fac_grad_of(a), fac_zeros(FAC_INTS(2, 2), .dtype = FAC_F64));
}

FAC_TEST_MAIN(FAC_TEST(qr_factors_are_orthogonal_and_triangular), FAC_TEST(reflections_multiply_to_q),
              FAC_TEST(qr_factors_of_tall_matrices_are_orthogonal),
              FAC_TEST(singular_vectors_of_tall_and_wide_matrices_multiply_to_them),
              FAC_TEST(tall_matrices_may_be_large_and_must_be_finite), FAC_TEST(reflections_look_at_the_sign_of_zero),
              FAC_TEST(singular_values_and_vectors_multiply_to_the_matrix),
              FAC_TEST(eigenvectors_of_symmetric_matrices_are_turned_by_nothing),
              FAC_TEST(symmetric_matrices_of_any_size_and_scale_have_eigenvectors),
              FAC_TEST(eigenvectors_of_others_are_scaled), FAC_TEST(least_squares_solve_the_normal_equations),
              FAC_TEST(pseudo_inverses_meet_penrose), FAC_TEST(ranks_count_what_is_above_the_threshold),
              FAC_TEST(norms_of_a_matrix_are_those_of_its_definition),
              FAC_TEST(the_norm_of_a_matrix_without_elements_is_zero),
              FAC_TEST(condition_numbers_of_diagonals_are_ratios), FAC_TEST(powers_multiply),
              FAC_TEST(exponentials_are_those_of_closed_forms), FAC_TEST(tensors_are_inverted_as_matrices),
              FAC_TEST(what_is_not_finite_is_refused), FAC_TEST(outputs_with_gaps_get_what_new_ones_get),
              FAC_TEST(matrices_without_elements_are_decomposed), FAC_TEST(bits_do_not_depend_on_threads),
              FAC_TEST(gradients_are_those_of_differences), FAC_TEST(complex_gradients_are_those_of_differences),
              FAC_TEST(reflections_have_gradients), FAC_TEST(least_squares_have_gradients),
              FAC_TEST(losses_that_depend_on_phases_are_refused),
              FAC_TEST(eigenvectors_of_symmetric_matrices_have_symmetric_gradients),
              FAC_TEST(power_0_has_a_gradient_of_zeros))
