/* Forward mode: levels, dual tensors, jvp, Jacobians and Hessians, against closed forms and against going backward. */
#include "support/support.h"
#include <facula/facula.h>
#include <math.h>

#define assert_within(a, b, tolerance) assert_true(fabs((a) - (b)) <= (tolerance))

static fac_tensor *vec(const double *v, int64_t n) { return fac_tensor_from(v, FAC_F64, FAC_INTS(n)); }
static double at(fac_tensor *t, int64_t i) { return fac_item(fac_select(fac_reshape(t, FAC_INTS(-1)), 0, i)); }
static const double X[] = {0.3, -1.2, 2.1}, V[] = {1.0, 0.5, -2.0};

/* sin(x) * x + exp(x) */
static fac_status curve(void *context, fac_tensors in, fac_tensor **out, size_t n) {
    (void)context, (void)n;
    out[0] = fac_add(fac_mul(fac_sin(in.v[0]), in.v[0]), fac_exp(in.v[0]));
    return fac_error();
}
static double slope(double x) { return cos(x) * x + sin(x) + exp(x); }
static double slope2(double x) { return -sin(x) * x + 2 * cos(x) + exp(x); }

static void dual_tensors_carry_tangents(void **state) {
    (void)state;
    FAC_SCOPE(s);
    FAC_DUAL_LEVEL(l);
    fac_tensor *x = vec(X, 3), *v = vec(V, 3), *y = NULL;
    fac_tensor *d = fac_make_dual(x, v);
    assert_non_null(d);
    assert_true(fac_is_dual(d) && !fac_is_dual(x));
    assert_ok(curve(NULL, (fac_tensors){&d, 1}, &y, 1));
    fac_dual u = fac_unpack_dual(y);
    for (int i = 0; i < 3; i++) {
        assert_within(at(u.primal, i), sin(X[i]) * X[i] + exp(X[i]), 1e-12);
        assert_within(at(u.tangent, i), slope(X[i]) * V[i], 1e-12);
    }
    u = fac_unpack_dual(x);
    assert_ptr_equal(u.primal, x);
    assert_null(u.tangent);
}

static void jvp_of_a_curve_is_its_slope(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = vec(X, 3), *v = vec(V, 3), *y, *t;
    assert_ok(fac_jvp(curve, NULL, FAC_TENSORS(x), FAC_TENSORS(v), &y, &t, 1));
    for (int i = 0; i < 3; i++) assert_within(at(t, i), slope(X[i]) * V[i], 1e-12);
    assert_false(fac_is_dual(y));
}

static fac_status jvp_of_curve(void *context, fac_tensors in, fac_tensor **out, size_t n) {
    fac_tensor *y;
    (void)n;
    return fac_jvp(curve, NULL, in, (fac_tensors){context, 1}, &y, out, 1);
}

static void jvp_nests(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = vec(X, 3), *v = vec(V, 3), *y, *t;
    assert_ok(fac_jvp(jvp_of_curve, &v, FAC_TENSORS(x), FAC_TENSORS(v), &y, &t, 1));
    for (int i = 0; i < 3; i++) {
        assert_within(at(y, i), slope(X[i]) * V[i], 1e-12);
        assert_within(at(t, i), slope2(X[i]) * V[i] * V[i], 1e-12);
    }
}

/* x * d(x + y)/dy at y = 1, by x: with one level for both, the answer would be 2. */
static fac_status plus(void *context, fac_tensors in, fac_tensor **out, size_t n) {
    (void)n;
    out[0] = fac_add(*(fac_tensor **)context, in.v[0]);
    return fac_error();
}
static fac_status times_inner(void *context, fac_tensors in, fac_tensor **out, size_t n) {
    fac_tensor *x = in.v[0], *one = fac_ones_like(fac_detach(x)), *y, *t;
    (void)context, (void)n;
    FAC_TRY(fac_jvp(plus, &x, FAC_TENSORS(one), FAC_TENSORS(one), &y, &t, 1));
    out[0] = fac_mul(x, t);
    return fac_error();
}
static void nested_levels_are_not_confused(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = vec(X, 1), *one = fac_ones_like(x), *y, *t;
    assert_ok(fac_jvp(times_inner, NULL, FAC_TENSORS(x), FAC_TENSORS(one), &y, &t, 1));
    assert_within(at(t, 0), 1, 1e-12);
}

static fac_status cubes(void *context, fac_tensors in, fac_tensor **out, size_t n) {
    (void)context, (void)n;
    out[0] = fac_sum(fac_mul(fac_mul(in.v[0], in.v[0]), fac_cumsum(in.v[0], 0)));
    return fac_error();
}

static void hessians_forward_over_reverse_equal_reverse_over_reverse(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = vec(X, 3), *v = vec(V, 3);
    fac_tensor *h = fac_hessian(cubes, NULL, x);
    assert_non_null(h);
    fac_tensor *leaf = fac_set_requires_grad(fac_clone(x), true), *y, *g, *row;
    assert_ok(cubes(NULL, FAC_TENSORS(leaf), &y, 1));
    assert_ok(fac_grad(FAC_TENSORS(y), FAC_TENSORS(leaf), &g, .create_graph = true));
    for (int i = 0; i < 3; i++) {
        fac_tensor *gi = fac_select(g, 0, i);
        assert_ok(fac_grad(FAC_TENSORS(gi), FAC_TENSORS(leaf), &row, .retain_graph = true));
        for (int j = 0; j < 3; j++) assert_within(at(h, 3 * i + j), at(row, j), 1e-10);
    }
    fac_tensor *hv = fac_hvp(cubes, NULL, x, v), *want = fac_mv(h, v);
    for (int i = 0; i < 3; i++) assert_within(at(hv, i), at(want, i), 1e-10);
}

static void reverse_goes_through_tangents(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = fac_set_requires_grad(vec(X, 3), true), *v = vec(V, 3), *y, *t, *g;
    assert_ok(fac_jvp(curve, NULL, FAC_TENSORS(x), FAC_TENSORS(v), &y, &t, 1));
    assert_true(fac_requires_grad(y) && fac_requires_grad(t));
    fac_tensor *sum = fac_sum(t);
    assert_ok(fac_grad(FAC_TENSORS(sum), FAC_TENSORS(x), &g));
    for (int i = 0; i < 3; i++) assert_within(at(g, i), slope2(X[i]) * V[i], 1e-12);
}

static const struct CMUnitTest tests[] = {
    FAC_TEST(dual_tensors_carry_tangents),
    FAC_TEST(jvp_of_a_curve_is_its_slope),
    FAC_TEST(jvp_nests),
    FAC_TEST(nested_levels_are_not_confused),
    FAC_TEST(hessians_forward_over_reverse_equal_reverse_over_reverse),
    FAC_TEST(reverse_goes_through_tangents),
};
int main(void) { return support_run(tests, FAC_COUNT(tests), NULL); }
