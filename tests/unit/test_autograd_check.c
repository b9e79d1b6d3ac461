/* Numerical checks, Jacobians, second derivatives. */
#include "autograd_test.h"

/* ---- functions under test ------------------------------------------------------------------------------------------------- */

static fac_status smooth(void *context, fac_tensors in, fac_tensor **out, size_t n) {
    (void)context, (void)n;
    out[0] = fac_mul(fac_exp(fac_mul(in.v[0], in.v[1])), fac_sin(in.v[0]));
    out[1] = fac_sum(fac_tanh(in.v[1]));
    return fac_error();
}

static fac_status doubled_forward(fac_function_ctx *c, fac_tensors in, fac_tensor **out) {
    (void)c;
    out[0] = fac_mul(in.v[0], in.v[0]);
    return fac_function_save(c, in);
}

static fac_status doubled_backward(fac_function_ctx *c, fac_tensors grads, fac_tensor **out) {
    double factor = *(double *)fac_function_user(c); /* 2 is right */
    out[0] = fac_mul(fac_mul(grads.v[0], fac_function_saved(c).v[0]), factor);
    return fac_error();
}

static fac_status square_with(void *context, fac_tensors in, fac_tensor **out, size_t n) {
    (void)n;
    static const fac_function square = {
        .name = "Square", .n_outputs = 1, .forward = doubled_forward, .backward = doubled_backward};
    return fac_function_apply(&square, context, in, out);
}

/* Right at first order; at second it forgets that its gradient depends on its input. */
static fac_status cut_backward(fac_function_ctx *c, fac_tensors grads, fac_tensor **out) {
    out[0] = fac_mul(fac_mul(grads.v[0], fac_detach(fac_function_saved(c).v[0])), 2.0);
    return fac_error();
}

static fac_status square_cut(void *context, fac_tensors in, fac_tensor **out, size_t n) {
    (void)context, (void)n;
    static const fac_function cut = {
        .name = "Cut", .n_outputs = 1, .forward = doubled_forward, .backward = cut_backward};
    return fac_function_apply(&cut, NULL, in, out);
}

static fac_tensor *complex_leaf(const double *v, int64_t n) {
    return fac_set_requires_grad(fac_tensor_from(v, FAC_C128, FAC_INTS(n)), true);
}

static fac_status complex_smooth(void *context, fac_tensors in, fac_tensor **out, size_t n) {
    (void)context, (void)n;
    out[0] = fac_mul(fac_mul(in.v[0], fac_conj(in.v[1])), in.v[0]);
    out[1] = fac_abs(in.v[0]);
    return fac_error();
}

/* ---- the checks ---------------------------------------------------------------------------------------------------------------- */

static void S125_gradcheck_accepts_right_gradients(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = leaf(DOUBLES(0.3, -0.7, 1.1)), *y = leaf(DOUBLES(0.5, 0.2, -0.4));
    assert_ok(fac_gradcheck(smooth, NULL, FAC_TENSORS(x, y), 2));
    assert_ok(fac_gradcheck(smooth, NULL, FAC_TENSORS(x, vector(DOUBLES(1, 2, 3))), 2));
    assert_ok(fac_gradgradcheck(smooth, NULL, FAC_TENSORS(x, y), 2));
    assert_values(x, 0.3, -0.7, 1.1);
    assert_null(fac_grad_of(x));
}

static void S125_gradcheck_finds_wrong_gradients(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = leaf(DOUBLES(0.5, 2));
    double right = 2, wrong = 2.01;
    assert_ok(fac_gradcheck(square_with, &right, FAC_TENSORS(x), 1));
    assert_int_equal(fac_gradcheck(square_with, &wrong, FAC_TENSORS(x), 1), FAC_ERR_AUTOGRAD);
    assert_error(FAC_ERR_AUTOGRAD,
                 "Jacobian mismatch for output 0 (component 0) with respect to input 0 (component 0)");
    assert_ok(fac_gradcheck(square_with, &wrong, FAC_TENSORS(x), 1, .rtol = 0.1));
    assert_ok(fac_gradcheck(square_cut, NULL, FAC_TENSORS(x), 1));
    assert_int_equal(fac_gradgradcheck(square_cut, NULL, FAC_TENSORS(x), 1), FAC_ERR_AUTOGRAD);
    assert_error(FAC_ERR_AUTOGRAD, "Jacobian mismatch");
    fac_tensor *f32 = fac_set_requires_grad(fac_tensor_of(1, 2), true);
    assert_int_equal(fac_gradcheck(square_with, &right, FAC_TENSORS(f32), 1), FAC_ERR_DTYPE);
    assert_error(FAC_ERR_DTYPE, "gradcheck needs inputs of float64 or complex128");
    assert_int_equal(fac_gradcheck(square_with, &right, FAC_TENSORS(vector(DOUBLES(1))), 1), FAC_ERR_ARGUMENT);
    assert_error(FAC_ERR_ARGUMENT, "at least one input tensor to require gradient");
}

static void S125_gradcheck_of_complex_functions(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = complex_leaf((const double[]){0.5, 1, -0.3, 0.8}, 2),
               *y = complex_leaf((const double[]){2, -1, 0.1, 0.4}, 2);
    assert_ok(fac_gradcheck(complex_smooth, NULL, FAC_TENSORS(x, y), 2));
    assert_ok(fac_gradgradcheck(complex_smooth, NULL, FAC_TENSORS(x, y), 2));
    /* The convention: the gradient of |z|^2 is 2z. A real leaf gets the real part. */
    fac_tensor *r = leaf(DOUBLES(3, 4));
    fac_tensor *z = fac_mul(x, r);
    assert_ok(fac_backward(fac_sum(fac_real(fac_mul(z, fac_conj(z))))));
    assert_values(fac_grad_of(r), 2 * 3 * (0.25 + 1), 2 * 4 * (0.09 + 0.64));
    double g[4];
    assert_ok(fac_tensor_read(fac_grad_of(x), FAC_C128, g, 2));
    assert_true(fabs(g[0] - 2 * 9 * 0.5) < 1e-12);
    assert_true(fabs(g[1] - 2 * 9 * 1.0) < 1e-12);
    assert_true(fabs(g[3] - 2 * 16 * 0.8) < 1e-12);
}

static int passes;

static fac_tensor *count_passes(void *context, fac_tensor *grad) {
    (void)context, (void)grad;
    passes++;
    return NULL;
}

static fac_status products(void *context, fac_tensors in, fac_tensor **out, size_t n) {
    (void)context, (void)n;
    fac_tensor *x = in.v[0], *a = fac_narrow(x, 0, 0, 1), *b = fac_narrow(x, 0, 1, 1), *c = fac_narrow(x, 0, 2, 1);
    out[0] = fac_cat(FAC_TENSORS(fac_mul(a, b), fac_exp(c)));
    if (out[0]) fac_register_hook(out[0], count_passes, NULL);
    return fac_error();
}

static void S126_jacobian_takes_one_pass_per_output(void **state) {
    (void)state;
    FAC_SCOPE(s);
    passes = 0;
    fac_tensor *x = vector(DOUBLES(2, 3, 0.5)), *j = fac_jacobian(products, NULL, x);
    assert_values(j, 3, 2, 0, 0, 0, exp(0.5));
    assert_int_equal(fac_tensor_size(j, 0), 2);
    assert_int_equal(fac_tensor_size(j, 1), 3);
    assert_int_equal(passes, 2);
    assert_false(fac_requires_grad(x));
}

static void S134_derivatives_of_any_order(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = scalar_leaf(0.7), *y = fac_mul(fac_exp(x), fac_mul(x, x)), *g[1];
    /* (x^2 e^x)^(n) = e^x (x^2 + 2 n x + n (n - 1)) */
    for (int n = 1; n <= 5; n++) {
        assert_ok(fac_grad(FAC_TENSORS(y), FAC_TENSORS(x), g, .create_graph = true));
        assert_values(g[0], exp(0.7) * (0.49 + 2 * n * 0.7 + n * (n - 1)));
        y = g[0];
    }
    fac_tensor *a = leaf(DOUBLES(1, 2)), *b = fac_sum(fac_mul(fac_mul(a, a), a));
    assert_ok(fac_backward(b, .create_graph = true));
    fac_tensor *penalty = fac_sum(fac_mul(fac_grad_of(a), fac_grad_of(a))); /* sum (3 a^2)^2 -> 36 a^3 */
    assert_ok(fac_set_grad(a, NULL));
    assert_ok(fac_backward(penalty));
    assert_values(fac_grad_of(a), 36, 36 * 8);
}

static fac_status check_once(void *context) {
    (void)context;
    FAC_SCOPE(s);
    fac_tensor *x = leaf(DOUBLES(0.5));
    return x ? fac_gradgradcheck(square_cut, NULL, FAC_TENSORS(x), 1, .atol = 10) : fac_error();
}

static void gradcheck_survives_every_failing_allocation(void **state) {
    (void)state;
    support_fail_each_allocation(check_once, NULL);
}

FAC_TEST_MAIN(FAC_TEST(S125_gradcheck_accepts_right_gradients), FAC_TEST(S125_gradcheck_finds_wrong_gradients),
              FAC_TEST(S125_gradcheck_of_complex_functions), FAC_TEST(S126_jacobian_takes_one_pass_per_output),
              FAC_TEST(S134_derivatives_of_any_order), FAC_TEST(gradcheck_survives_every_failing_allocation))
