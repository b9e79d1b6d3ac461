/* Operators that came late: roots and polar factors of matrices, slopes that are given back, histograms of points, numbers of given keys,
   and optimiser steps into new tensors. Against what defines them. */
#include "autograd_test.h"
#include <math.h>

static fac_status call(const char *op, const fac_value *args, size_t n, fac_value *out) {
    fac_value given[20];
    memcpy(given, args, n * sizeof *given);
    const fac_status st = fac_error() ? fac_error() : fac_call(op, given, n, out);
    for (size_t i = 0; i < n; i++) fac_value_release(&given[i]);
    return st;
}
#define CALL(out, op, ...) call("aten::" op, (fac_value[]){__VA_ARGS__}, FAC_COUNT(((fac_value[]){__VA_ARGS__})), (out))
#define T(x) ((x) ? fac_value_tensor(x) : fac_value_none())
#define I(x) fac_value_int(x)
#define F(x) fac_value_float(x)
#define B(x) fac_value_bool(x)

/* The tensor of a result, as a temporary. */
static fac_tensor *taken(fac_value *v) {
    assert_int_equal(v->tag, FAC_TAG_TENSOR);
    assert_ok(fac_scope_take(v, 1));
    return fac_value_as_tensor(*v);
}

static double furthest(fac_tensor *a, fac_tensor *b) {
    fac_tensor *d = fac_max(fac_abs(fac_sub(a, b)));
    assert_no_error();
    return fac_item(d);
}

/* ---- matrices --------------------------------------------------------------------------------------------------------------- */

static fac_tensor *drawn(fac_ints sizes, fac_dtype dtype) { return fac_randn(sizes, .dtype = dtype); }

static void matrix_sqrth_squared_is_the_matrix(void **state) {
    static const fac_dtype dtypes[] = {FAC_F64, FAC_C128, FAC_F32, FAC_C64};
    (void)state;
    for (size_t k = 0; k < FAC_COUNT(dtypes); k++) {
        FAC_SCOPE(s);
        fac_tensor *b = drawn(FAC_INTS(2, 5, 4), dtypes[k]), *a = fac_matmul(fac_mh(b), b),
                   *r = fac_linalg_matrix_sqrth(a);
        const double most = k < 2 ? 1e-12 : 1e-4;
        assert_true(furthest(fac_matmul(r, r), a) < most && furthest(r, fac_mh(r)) < most);
        fac_tensor *least = fac_min(fac_linalg_eigvalsh(r));
        assert_true(fac_item(least) > -most);
        fac_tensor *out = fac_empty(FAC_INTS(2, 4, 4), .dtype = dtypes[k]);
        assert_ptr_equal(fac_linalg_matrix_sqrth_out(out, a), out);
        assert_true(furthest(out, r) == 0);
    }
}

static void matrix_sqrth_of_a_singular_matrix_and_of_none(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *ones = fac_ones(FAC_INTS(2, 2), .dtype = FAC_F64), *r = fac_linalg_matrix_sqrth(ones);
    assert_true(furthest(r, fac_mul(ones, sqrt(0.5))) < 1e-12);
    assert_int_equal(fac_tensor_numel(fac_linalg_matrix_sqrth(fac_ones(FAC_INTS(3, 0, 0)))), 0);
    assert_no_error();
    assert_null(fac_linalg_matrix_sqrth(fac_ones(FAC_INTS(2, 3))));
    assert_error(FAC_ERR_SHAPE, "square");
}

static void polar_factors_are_orthonormal_and_hermitian(void **state) {
    static const fac_dtype dtypes[] = {FAC_F64, FAC_C128, FAC_F32, FAC_C64};
    (void)state;
    for (size_t k = 0; k < FAC_COUNT(dtypes); k++) {
        FAC_SCOPE(s);
        fac_tensor *a = drawn(FAC_INTS(3, 5, 3), dtypes[k]);
        fac_linalg_polar_result r = fac_linalg_polar(a);
        const double most = k < 2 ? 1e-12 : 1e-4;
        assert_true(furthest(fac_matmul(r.U, r.H), a) < most && furthest(r.H, fac_mh(r.H)) < most);
        fac_tensor *eye = fac_eye(3, .dtype = dtypes[k]), *least = fac_min(fac_linalg_eigvalsh(r.H));
        assert_true(furthest(fac_matmul(fac_mh(r.U), r.U), eye) < most && fac_item(least) > -most);
    }
    FAC_SCOPE(s);
    assert_null(fac_linalg_polar(fac_ones(FAC_INTS(2, 3))).U);
    assert_error(FAC_ERR_SHAPE, "as many rows as columns");
}

static fac_status root_of_hermitian(void *context, fac_tensors in, fac_tensor **out, size_t n) {
    (void)context, (void)n;
    out[0] = fac_linalg_matrix_sqrth(fac_matmul(in.v[0], fac_mh(in.v[0])));
    return fac_error();
}

static fac_status both_factors(void *context, fac_tensors in, fac_tensor **out, size_t n) {
    (void)context, (void)n;
    fac_linalg_polar_result r = fac_linalg_polar(in.v[0]);
    out[0] = r.U ? fac_add(fac_matmul(r.U, fac_matmul(r.H, r.H)), r.U) : NULL;
    return fac_error();
}

static void roots_and_factors_have_gradients_to_any_order_S134(void **state) {
    static const fac_dtype dtypes[] = {FAC_F64, FAC_C128};
    (void)state;
    for (size_t k = 0; k < FAC_COUNT(dtypes); k++) {
        FAC_SCOPE(s);
        fac_tensor *wide = fac_set_requires_grad(drawn(FAC_INTS(3, 4), dtypes[k]), true),
                   *tall = fac_set_requires_grad(drawn(FAC_INTS(4, 3), dtypes[k]), true),
                   *square = fac_set_requires_grad(drawn(FAC_INTS(3, 3), dtypes[k]), true);
        assert_ok(fac_gradcheck(root_of_hermitian, NULL, FAC_TENSORS(wide), 1));
        assert_ok(fac_gradcheck(both_factors, NULL, FAC_TENSORS(tall), 1));
        assert_ok(fac_gradcheck(both_factors, NULL, FAC_TENSORS(square), 1));
        assert_ok(fac_gradgradcheck(root_of_hermitian, NULL, FAC_TENSORS(wide), 1));
        assert_ok(fac_gradgradcheck(both_factors, NULL, FAC_TENSORS(tall), 1));
    }
}

/* Equal eigenvalues are no trouble: only sums of them are divided by. */
static void root_of_the_identity_has_a_gradient(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *a = fac_eye(3, .dtype = FAC_F64, .requires_grad = true);
    assert_ok(fac_backward(fac_sum(fac_linalg_matrix_sqrth(a))));
    assert_true(furthest(fac_grad_of(a), fac_full(FAC_INTS(3, 3), 0.5, .dtype = FAC_F64)) < 1e-12);
}

/* ---- slopes ----------------------------------------------------------------------------------------------------------------- */

static void rrelu_gives_its_slopes(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = drawn(FAC_INTS(4, 50), FAC_F32), *noise = fac_zeros(FAC_INTS(4, 50));
    fac_set_requires_grad(x, true);
    fac_tensor *y = fac_rrelu_with_noise(x, noise, .lower = 0.25, .upper = 0.5, .training = true);
    assert_no_error();
    assert_true(furthest(y, fac_mul(x, noise)) == 0);
    assert_ok(fac_backward(fac_sum(y)));
    assert_true(furthest(fac_grad_of(x), noise) == 0);
    fac_tensor *below = fac_le(x, 0), *slopes = fac_masked_select(noise, below);
    assert_true(fac_item(fac_min(slopes)) >= 0.25 && fac_item(fac_max(slopes)) <= 0.5);
    assert_true(fac_item(fac_max(slopes)) - fac_item(fac_min(slopes)) > 0.1);
    assert_true(fac_item(fac_min(fac_masked_select(noise, fac_gt(x, 0)))) == 1);
}

static void rrelu_forms_agree(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = drawn(FAC_INTS(30), FAC_F64), *noise = fac_zeros(FAC_INTS(30), .dtype = FAC_F64),
               *in_place = fac_clone(x), *same = fac_clone(noise), *out = fac_empty_like(x), *third = fac_clone(noise);
    fac_manual_seed(5);
    fac_rrelu_with_noise_functional_result r = fac_rrelu_with_noise_functional(x, noise, .training = true);
    assert_true(fac_item(fac_max(noise)) == 0); /* the given one is as it was */
    fac_manual_seed(5);
    fac_rrelu_with_noise_(in_place, same, .training = true);
    fac_manual_seed(5);
    fac_value given = fac_value_none();
    assert_ok(
        CALL(&given, "rrelu_with_noise.out", T(x), T(third), F(0.125), F(1.0 / 3), B(true), fac_value_none(), T(out)));
    assert_ptr_equal(taken(&given), out);
    assert_no_error();
    assert_true(furthest(r.result, in_place) == 0 && furthest(r.noise_out, same) == 0);
    assert_true(furthest(r.result, out) == 0 && furthest(r.noise_out, third) == 0);
    fac_tensor *plain = fac_rrelu_with_noise(x, noise);
    assert_true(furthest(plain, fac_rrelu(x)) == 0 && fac_item(fac_max(noise)) == 0);
    assert_null(fac_rrelu_with_noise(x, fac_zeros(FAC_INTS(29), .dtype = FAC_F64), .training = true));
    assert_error(FAC_ERR_SHAPE, "noise");
}

/* ---- gradients as operators ------------------------------------------------------------------------------------------------ */

static void cumprod_backward_is_the_gradient_of_cumprod(void **state) {
    static const double with_zero[] = {2, 0, 3, -1, 0.5, 4};
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = fac_tensor_from(with_zero, FAC_F64, FAC_INTS(2, 3)), *g = drawn(FAC_INTS(2, 3), FAC_F64);
    fac_set_requires_grad(x, true);
    fac_tensor *y = fac_cumprod(x, 1);
    assert_ok(fac_backward(fac_sum(fac_mul(y, g))));
    fac_tensor *direct = fac_cumprod_backward(g, fac_detach(x), 1, fac_detach(y));
    assert_no_error();
    assert_true(furthest(direct, fac_grad_of(x)) == 0);
}

static void adaptive_pool_gradient_goes_into_a_given_tensor(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = drawn(FAC_INTS(1, 2, 3, 4, 5), FAC_F32), *g = drawn(FAC_INTS(1, 2, 2, 2, 2), FAC_F32),
               *given = fac_zeros(FAC_INTS(1, 2, 3, 4, 5));
    fac_value out = fac_value_none();
    assert_ok(CALL(&out, "adaptive_avg_pool3d_backward.grad_input", T(g), T(x), T(given)));
    assert_ptr_equal(taken(&out), given);
    fac_set_requires_grad(x, true);
    assert_ok(fac_backward(fac_sum(fac_mul(fac_adaptive_avg_pool3d(x, FAC_INTS(2, 2, 2)), g))));
    assert_true(furthest(given, fac_grad_of(x)) == 0);
}

/* ---- histograms ------------------------------------------------------------------------------------------------------------- */

static void histogramdd_counts_points(void **state) {
    static const float points[] = {0.1f, 0.2f, 0.9f, 1.9f, 0.6f, 0.3f, 0.4f, 1.2f, 1.0f, 2.0f};
    static const float expected[] = {1, 1, 1, 2};
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = fac_tensor_from(points, FAC_F32, FAC_INTS(5, 2));
    const double range[] = {0, 1, 0, 2};
    const int64_t bins[] = {2, 2};
    fac_value out[2] = {fac_value_none(), fac_value_none()};
    assert_ok(CALL(out, "histogramdd", T(x), fac_value_ints(bins, 2), fac_value_floats(range, 4)));
    assert_int_equal(out[1].tag, FAC_TAG_TENSORS);
    assert_int_equal(fac_value_as_tensors(out[1]).n, 2);
    fac_tensor *edges = fac_value_as_tensors(out[1]).v[1], *hist = taken(&out[0]);
    assert_true(furthest(hist, fac_tensor_from(expected, FAC_F32, FAC_INTS(2, 2))) == 0);
    assert_true(furthest(edges, fac_tensor_of(0, 1, 2)) == 0);
    fac_value again[2] = {fac_value_none(), fac_value_none()}, third[2] = {fac_value_none(), fac_value_none()};
    assert_ok(CALL(again, "histogramdd.TensorList_bins", T(x), fac_value_tensors(fac_value_as_tensors(out[1]).v, 2)));
    assert_true(furthest(taken(&again[0]), hist) == 0);
    assert_ok(CALL(third, "histogramdd.int_bins", T(x), I(2), fac_value_floats(range, 4)));
    assert_true(furthest(taken(&third[0]), hist) == 0);
    fac_value_release(&out[1]), fac_value_release(&again[1]), fac_value_release(&third[1]);
}

/* ---- numbers of given keys ------------------------------------------------------------------------------------------------- */

static fac_tensor *keyed(const char *op, fac_tensor *like, fac_tensor *key, fac_value a, fac_value b) {
    fac_value out = fac_value_none();
    const fac_value args[] = {T(like), T(key), a, b};
    assert_ok(call(op, args, 4, &out));
    return taken(&out);
}

/* The same fill by a generator in the key's state. */
static fac_generator *generator_of(int64_t seed, int64_t offset) {
    fac_generator *g = fac_generator_new((uint64_t)seed);
    fac_generator_set_state(g, (uint64_t)seed, (uint64_t)offset);
    return g;
}

static void keys_draw_what_a_generator_draws(void **state) {
    static const int64_t keys[] = {7, 3, -8, 11};
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *key = fac_tensor_from(keys, FAC_I64, FAC_INTS(2, 2)), *like = fac_zeros(FAC_INTS(2, 70, 3)),
               *whole = fac_zeros(FAC_INTS(2, 70, 3), .dtype = FAC_I32);
    fac_tensor *u = keyed("aten::_philox_uniform", like, key, F(1), F(3)),
               *n = keyed("aten::_philox_normal", like, key, F(1), F(3)),
               *i = keyed("aten::_philox_randint", whole, key, I(-2), I(9));
    for (int64_t k = 0; k < 2; k++) {
        fac_generator *g = generator_of(keys[2 * k], keys[2 * k + 1]);
        fac_tensor *e = fac_zeros(FAC_INTS(70, 3)), *w = fac_zeros(FAC_INTS(70, 3), .dtype = FAC_I32);
        fac_uniform_(e, .from = 1, .to = 3, .generator = g);
        assert_true(furthest(fac_select(u, 0, k), e) == 0);
        fac_generator_set_state(g, (uint64_t)keys[2 * k], (uint64_t)keys[2 * k + 1]);
        fac_normal_(e, .mean = 1, .std = 3, .generator = g);
        assert_true(furthest(fac_select(n, 0, k), e) == 0);
        fac_generator_set_state(g, (uint64_t)keys[2 * k], (uint64_t)keys[2 * k + 1]);
        fac_random_from_(w, -2, 9, .generator = g);
        assert_true(furthest(fac_select(i, 0, k), w) == 0);
        fac_generator_release(g);
    }
}

static void keys_that_do_not_fit_are_refused(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *like = fac_zeros(FAC_INTS(2, 3)), *whole = fac_zeros(FAC_INTS(4), .dtype = FAC_U8),
               *key = fac_zeros(FAC_INTS(2), .dtype = FAC_I64);
    fac_value out = fac_value_none();
    assert_int_not_equal(CALL(&out, "_philox_uniform", T(like), T(fac_zeros(FAC_INTS(2)))), FAC_OK);
    assert_error(FAC_ERR_DTYPE, "int64");
    assert_int_not_equal(CALL(&out, "_philox_uniform", T(like), T(fac_zeros(FAC_INTS(3, 2), .dtype = FAC_I64))),
                         FAC_OK);
    assert_error(FAC_ERR_SHAPE, "does not fit");
    assert_int_not_equal(CALL(&out, "_philox_randint", T(whole), T(key), I(5), I(5)), FAC_OK);
    assert_error(FAC_ERR_ARGUMENT, "non-empty");
    assert_int_not_equal(CALL(&out, "_philox_randint", T(whole), T(key), I(0), I(300)), FAC_OK);
    assert_error(FAC_ERR_ARGUMENT, "out of bounds");
}

/* ---- optimiser steps -------------------------------------------------------------------------------------------------------- */

static void fused_steps_into_new_tensors_leave_the_given_alone(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *w = fac_set_requires_grad(drawn(FAC_INTS(3, 4), FAC_F32), true), *g = drawn(FAC_INTS(3, 4), FAC_F32),
               *m = drawn(FAC_INTS(3, 4), FAC_F32), *v = fac_abs(drawn(FAC_INTS(3, 4), FAC_F32)),
               *step = fac_full(FAC_INTS(), 3), *rate = fac_full(FAC_INTS(), 0.1), *fresh[4],
               *before = fac_clone(fac_detach(w));
    fac_value out[5];
    for (int i = 0; i < 5; i++) out[i] = fac_value_none();
    assert_ok(CALL(out, "_fused_adam.tensor_lr", fac_value_tensors(&w, 1), fac_value_tensors(&g, 1),
                   fac_value_tensors(&m, 1), fac_value_tensors(&v, 1), fac_value_tensors(NULL, 0),
                   fac_value_tensors(&step, 1), T(rate), F(0.9), F(0.99), F(0.1), F(1e-8), B(false), B(false)));
    assert_true(furthest(fac_detach(w), before) == 0);
    fac_tensor *given[] = {fac_detach(w), g, m, v};
    for (int i = 0; i < 4; i++) fresh[i] = fac_clone(given[i]);
    fac_value none = fac_value_none();
    assert_ok(CALL(&none, "_fused_adam_.tensor_lr", fac_value_tensors(&fresh[0], 1), fac_value_tensors(&fresh[1], 1),
                   fac_value_tensors(&fresh[2], 1), fac_value_tensors(&fresh[3], 1), fac_value_tensors(NULL, 0),
                   fac_value_tensors(&step, 1), T(rate), F(0.9), F(0.99), F(0.1), F(1e-8), B(false), B(false)));
    for (int i = 0; i < 4; i++) {
        assert_int_equal(fac_value_as_tensors(out[i]).n, 1);
        assert_true(furthest(fac_value_as_tensors(out[i]).v[0], fresh[i]) == 0);
        assert_false(fac_requires_grad(fac_value_as_tensors(out[i]).v[0]));
    }
    assert_int_equal(fac_value_as_tensors(out[4]).n, 0);
    assert_true(furthest(fresh[0], before) > 0.01);
    for (int i = 0; i < 5; i++) fac_value_release(&out[i]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        FAC_TEST(matrix_sqrth_squared_is_the_matrix),
        FAC_TEST(matrix_sqrth_of_a_singular_matrix_and_of_none),
        FAC_TEST(polar_factors_are_orthonormal_and_hermitian),
        FAC_TEST(roots_and_factors_have_gradients_to_any_order_S134),
        FAC_TEST(root_of_the_identity_has_a_gradient),
        FAC_TEST(rrelu_gives_its_slopes),
        FAC_TEST(rrelu_forms_agree),
        FAC_TEST(cumprod_backward_is_the_gradient_of_cumprod),
        FAC_TEST(adaptive_pool_gradient_goes_into_a_given_tensor),
        FAC_TEST(histogramdd_counts_points),
        FAC_TEST(keys_draw_what_a_generator_draws),
        FAC_TEST(keys_that_do_not_fit_are_refused),
        FAC_TEST(fused_steps_into_new_tensors_leave_the_given_alone),
    };
    return support_run(tests, FAC_COUNT(tests), NULL);
}
