/* Forward mode: levels, dual tensors, jvp, Jacobians and Hessians, against closed forms and against going backward. */
#include "support/support.h"

#include "autograd/engine.h"
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
    assert_ok(fac_func_jvp(curve, NULL, FAC_TENSORS(x), FAC_TENSORS(v), &y, &t, 1));
    for (int i = 0; i < 3; i++) assert_within(at(t, i), slope(X[i]) * V[i], 1e-12);
    assert_false(fac_is_dual(y));
}

static fac_status jvp_of_curve(void *context, fac_tensors in, fac_tensor **out, size_t n) {
    fac_tensor *y;
    (void)n;
    return fac_func_jvp(curve, NULL, in, (fac_tensors){context, 1}, &y, out, 1);
}

static void jvp_nests(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = vec(X, 3), *v = vec(V, 3), *y, *t;
    assert_ok(fac_func_jvp(jvp_of_curve, &v, FAC_TENSORS(x), FAC_TENSORS(v), &y, &t, 1));
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
    FAC_TRY(fac_func_jvp(plus, &x, FAC_TENSORS(one), FAC_TENSORS(one), &y, &t, 1));
    out[0] = fac_mul(x, t);
    return fac_error();
}
static void nested_levels_are_not_confused(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = vec(X, 1), *one = fac_ones_like(x), *y, *t;
    assert_ok(fac_func_jvp(times_inner, NULL, FAC_TENSORS(x), FAC_TENSORS(one), &y, &t, 1));
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
    fac_tensor *h = fac_func_hessian(cubes, NULL, FAC_TENSORS(x)), *hv;
    assert_non_null(h);
    fac_tensor *leaf = fac_set_requires_grad(fac_clone(x), true), *y, *g, *row;
    assert_ok(cubes(NULL, FAC_TENSORS(leaf), &y, 1));
    assert_ok(fac_grad(FAC_TENSORS(y), FAC_TENSORS(leaf), &g, .create_graph = true));
    for (int i = 0; i < 3; i++) {
        fac_tensor *gi = fac_select(g, 0, i);
        assert_ok(fac_grad(FAC_TENSORS(gi), FAC_TENSORS(leaf), &row, .retain_graph = true));
        for (int j = 0; j < 3; j++) assert_within(at(h, 3 * i + j), at(row, j), 1e-10);
    }
    fac_tensor *want = fac_mv(h, v);
    assert_ok(fac_func_hvp(cubes, NULL, FAC_TENSORS(x), FAC_TENSORS(v), &hv));
    for (int i = 0; i < 3; i++) assert_within(at(hv, i), at(want, i), 1e-10);
}

static void reverse_goes_through_tangents(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = fac_set_requires_grad(vec(X, 3), true), *v = vec(V, 3), *y, *t, *g;
    assert_ok(fac_func_jvp(curve, NULL, FAC_TENSORS(x), FAC_TENSORS(v), &y, &t, 1));
    assert_true(fac_requires_grad(y) && fac_requires_grad(t));
    fac_tensor *sum = fac_sum(t);
    assert_ok(fac_grad(FAC_TENSORS(sum), FAC_TENSORS(x), &g));
    for (int i = 0; i < 3; i++) assert_within(at(g, i), slope2(X[i]) * V[i], 1e-12);
}

/* ---- in place, views, out ------------------------------------------------------------------------------------------------- */

static fac_tensor *tangent_of(fac_tensor *t) { return fac_unpack_dual(t).tangent; }

static void in_place_changes_carry_tangents(void **state) {
    (void)state;
    FAC_SCOPE(s);
    FAC_DUAL_LEVEL(l);
    fac_tensor *x = vec(X, 3), *v = vec(V, 3), *d = fac_make_dual(x, v), *y = fac_mul(d, 2);
    assert_non_null(fac_sin_(y));
    for (int i = 0; i < 3; i++) assert_within(at(tangent_of(y), i), 2 * V[i] * cos(2 * X[i]), 1e-12);
    assert_non_null(fac_zero_(y));
    for (int i = 0; i < 3; i++) assert_within(at(tangent_of(y), i), 0, 0);
    for (int i = 0; i < 3; i++) assert_within(at(v, i), V[i], 0); /* the tangent that was given is a copy's */
}

static void filling_with_random_numbers_draws_them_once(void **state) {
    (void)state;
    FAC_SCOPE(s);
    FAC_DUAL_LEVEL(l);
    fac_tensor *x = vec(X, 3), *v = vec(V, 3), *d = fac_clone(fac_make_dual(x, v)), *plain = fac_clone(x);
    for (int i = 0; i < 2; i++) {
        fac_manual_seed(3);
        fac_uniform_(i ? plain : d);
        fac_uniform_(i ? plain : d);
    }
    for (int i = 0; i < 3; i++) {
        assert_within(at(d, i), at(plain, i), 0);
        assert_within(at(tangent_of(d), i), 0, 0);
    }
}

static void change_of_a_view_reaches_the_base(void **state) {
    (void)state;
    FAC_SCOPE(s);
    FAC_DUAL_LEVEL(l);
    fac_tensor *x = vec(X, 3), *v = vec(V, 3), *y = fac_clone(fac_make_dual(x, v)), *part = fac_narrow(y, 0, 1, 1);
    assert_non_null(fac_mul_(part, 10));
    assert_within(at(tangent_of(y), 0), V[0], 0);
    assert_within(at(tangent_of(y), 1), 10 * V[1], 1e-12);
    fac_tensor *strided = fac_as_strided(y, FAC_INTS(2), FAC_INTS(1), .storage_offset = 1);
    assert_within(at(tangent_of(strided), 1), V[2], 0);
    assert_non_null(fac_unsqueeze_(y, 0));
    assert_int_equal(fac_tensor_ndim(tangent_of(y)), 2);
}

static void plain_tensors_take_on_tangents(void **state) {
    (void)state;
    FAC_SCOPE(s);
    FAC_DUAL_LEVEL(l);
    fac_tensor *x = vec(X, 3), *v = vec(V, 3), *d = fac_make_dual(x, v);
    fac_tensor *whole = fac_zeros(FAC_INTS(3), .dtype = FAC_F64), *table = fac_zeros(FAC_INTS(2, 3), .dtype = FAC_F64);
    assert_non_null(fac_add_(whole, d));
    for (int i = 0; i < 3; i++) assert_within(at(tangent_of(whole), i), V[i], 0);
    assert_non_null(fac_copy_(fac_select(table, 0, 1), d));
    assert_true(fac_is_dual(table));
    for (int i = 0; i < 3; i++) {
        assert_within(at(table, 3 + i), X[i], 0);
        assert_within(at(tangent_of(table), i), 0, 0);
        assert_within(at(tangent_of(table), 3 + i), V[i], 0);
    }
    fac_tensor *leaf = fac_set_requires_grad(vec(X, 3), true);
    fac_mode_guard g = fac_no_grad_begin();
    (void)fac_add_(leaf, d);
    fac_mode_end(&g);
    assert_error(FAC_ERR_AUTOGRAD, "a leaf that requires grad");
}

/* c = ones; w, a view of it; c *= x; then w is read, or written. */
static fac_status through_an_old_view(void *context, fac_tensors in, fac_tensor **out, size_t n) {
    fac_tensor *c = fac_ones(FAC_INTS(2), .dtype = FAC_F64), *w = fac_narrow(c, 0, 0, 1), *part = fac_select(w, 0, 0);
    (void)n;
    fac_mul_(c, in.v[0]);
    if (*(const bool *)context) fac_mul_(w, 2);
    out[0] = *(const bool *)context ? c : fac_cat(FAC_TENSORS(fac_mul(w, 1), fac_reshape(part, FAC_INTS(1))), 0);
    return fac_error();
}

static void views_made_before_follow_a_base_that_becomes_dual(void **state) {
    (void)state;
    FAC_SCOPE(s);
    const double x3[] = {3, 5}, ones[] = {1, 1};
    fac_tensor *x = vec(x3, 2), *v = vec(ones, 2), *y, *t;
    bool writes = true;
    assert_ok(fac_func_jvp(through_an_old_view, &writes, FAC_TENSORS(x), FAC_TENSORS(v), &y, &t, 1));
    assert_true(at(y, 0) == 6 && at(y, 1) == 5 && at(t, 0) == 2 && at(t, 1) == 1);
    writes = false;
    assert_ok(fac_func_jvp(through_an_old_view, &writes, FAC_TENSORS(x), FAC_TENSORS(v), &y, &t, 1));
    assert_true(at(y, 0) == 3 && at(y, 1) == 3 && at(t, 0) == 1 && at(t, 1) == 1);
    assert_false(fac_thread_included() != 0 && fac_is_dual(fac_mul(x, 2)));
    assert_true(fac_thread_included() == 0); /* the first call after the level looks at no views any more */
}

static void views_follow_whatever_made_their_base_dual(void **state) {
    (void)state;
    FAC_SCOPE(s);
    FAC_DUAL_LEVEL(l);
    fac_tensor *x = vec(X, 3), *v = vec(V, 3), *d = fac_make_dual(x, v);
    fac_tensor *table = fac_zeros(FAC_INTS(2, 3), .dtype = FAC_F64), *turned = fac_t(table);
    fac_tensor *row = fac_select(table, 0, 1), *other = fac_select(table, 0, 0), *cut = fac_detach(row);
    assert_non_null(fac_copy_(row, d)); /* by another view */
    assert_within(at(tangent_of(fac_mul(turned, 2)), 3), 2 * V[1], 1e-12);
    assert_within(at(tangent_of(fac_stack(FAC_TENSORS(x, other), 0)), 4), 0, 0);
    assert_false(fac_is_dual(fac_mul(cut, 2)));
    assert_non_null(fac_add_(other, row));
    for (int i = 0; i < 6; i++) assert_within(at(tangent_of(table), i), V[i % 3], 1e-12);
    for (int i = 0; i < 6; i++) assert_within(at(tangent_of(fac_neg(turned)), i), -V[i / 2], 1e-12);
    fac_tensor *leaf = fac_set_requires_grad(vec(X, 3), true), *c = fac_mul(leaf, 1), *w = fac_narrow(c, 0, 1, 1), *g;
    assert_non_null(fac_mul_(c, d)); /* with a history: w = leaf[1] * x[1] */
    fac_tensor *square = fac_sum(fac_mul(w, w));
    assert_within(at(tangent_of(square), 0), 2 * X[1] * X[1] * X[1] * V[1], 1e-12);
    assert_ok(fac_grad(FAC_TENSORS(square), FAC_TENSORS(leaf), &g));
    assert_within(at(g, 1), 2 * X[1] * X[1] * X[1], 1e-12);
    assert_within(at(tangent_of(g), 1), 4 * X[1] * X[1] * V[1], 1e-12);
}

static fac_status jvp_through_an_old_view(void *context, fac_tensors in, fac_tensor **out, size_t n) {
    fac_tensor *y, *one = fac_ones_like(fac_detach(in.v[0]));
    bool writes = true;
    (void)context, (void)n;
    return fac_func_jvp(through_an_old_view, &writes, FAC_TENSORS(fac_mul(in.v[0], in.v[0])), FAC_TENSORS(one), &y, out,
                        1);
}

/* c = ones; w, a view of it; c *= x on the outer level, and again on the inner one. */
static fac_status inner_change(void *context, fac_tensors in, fac_tensor **out, size_t n) {
    fac_tensor **outer = context, *c = fac_ones(FAC_INTS(3), .dtype = FAC_F64), *w = fac_narrow(c, 0, 0, 1);
    (void)n;
    fac_mul_(c, *outer);
    fac_mul_(w, fac_narrow(*outer, 0, 0, 1));
    fac_mul_(c, in.v[0]);
    out[0] = fac_mul(w, 1); /* x^2 y */
    return fac_error();
}
static fac_status outer_change(void *context, fac_tensors in, fac_tensor **out, size_t n) {
    fac_tensor *x = in.v[0], *inner = fac_detach(x), *one = fac_ones_like(inner), *y;
    (void)context, (void)n;
    return fac_func_jvp(inner_change, &x, FAC_TENSORS(inner), FAC_TENSORS(one), &y, out, 1);
}

static void views_follow_on_nested_levels(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = vec(X, 3), *v = vec(V, 3), *y, *t, *two = vec(X, 2), *along = vec(V, 2);
    assert_ok(fac_func_jvp(outer_change, NULL, FAC_TENSORS(x), FAC_TENSORS(v), &y, &t, 1));
    assert_within(at(y, 0), X[0] * X[0], 1e-12);
    assert_within(at(t, 0), 2 * X[0] * V[0], 1e-12);
    assert_ok(fac_func_jvp(jvp_through_an_old_view, NULL, FAC_TENSORS(two), FAC_TENSORS(along), &y, &t, 1));
    assert_true(at(y, 0) == 2 && at(y, 1) == 1 && at(t, 0) == 0 && at(t, 1) == 0);
}

static void sparse_and_quantized_results_refuse_tangents(void **state) {
    (void)state;
    FAC_SCOPE(s);
    FAC_DUAL_LEVEL(l);
    fac_tensor *x = fac_reshape(vec(X, 3), FAC_INTS(1, 3)), *v = fac_ones_like(x), *d = fac_make_dual(x, v);
    assert_null(fac_to_sparse(d));
    assert_error(FAC_ERR_UNSUPPORTED, "has no tangent");
    assert_null(fac_to_sparse_csr(d));
    assert_error(FAC_ERR_UNSUPPORTED, "has no tangent");
    assert_null(fac_mul(fac_to_sparse(x), d));
    assert_error(FAC_ERR_UNSUPPORTED, "has no tangent");
    assert_null(fac_quantize_per_tensor(fac_to_dtype(d, FAC_F32), 0.1, 0, FAC_QINT8));
    assert_error(FAC_ERR_UNSUPPORTED, "has no tangent");
    assert_non_null(fac_to_sparse(fac_detach(d)));
}

static void out_forms_refuse_tangents(void **state) {
    (void)state;
    FAC_SCOPE(s);
    FAC_DUAL_LEVEL(l);
    fac_tensor *x = vec(X, 3), *v = vec(V, 3), *d = fac_make_dual(x, v), *out = fac_empty_like(x);
    assert_null(fac_sin_out(out, d));
    assert_error(FAC_ERR_AUTOGRAD, "forward mode");
}

/* ---- results ------------------------------------------------------------------------------------------------------------------- */

static void results_without_a_derivative_have_no_tangent(void **state) {
    (void)state;
    FAC_SCOPE(s);
    FAC_DUAL_LEVEL(l);
    fac_tensor *x = vec(X, 3), *v = vec(V, 3), *d = fac_make_dual(x, v);
    assert_false(fac_is_dual(fac_gt(d, 0)) || fac_is_dual(fac_argmax(d)) || fac_is_dual(fac_detach(d)));
    fac_max_dim_result r = fac_max_dim(d, 0);
    assert_within(at(tangent_of(r.values), 0), V[2], 0);
    assert_false(fac_is_dual(r.indices));
    assert_within(fac_item(fac_select(d, 0, 1)), X[1], 0);
    fac_tensor *both = fac_cat(FAC_TENSORS(x, d), 0);
    for (int i = 0; i < 3; i++) {
        assert_within(at(tangent_of(both), i), 0, 0);
        assert_within(at(tangent_of(both), 3 + i), V[i], 0);
    }
    fac_tensor *w = fac_clone(d), *z = fac_view_as_complex(fac_stack(FAC_TENSORS(w, x), 1));
    fac_tensor *t = tangent_of(fac_mul(z, fac_conj(z)));
    for (int i = 0; i < 3; i++) assert_within(at(fac_real(t), i), 2 * X[i] * V[i], 1e-12);
}

static fac_status constant(void *context, fac_tensors in, fac_tensor **out, size_t n) {
    (void)n;
    out[0] = *(fac_tensor **)context;
    out[1] = fac_argmax(in.v[0]);
    return fac_error();
}

static void outputs_that_do_not_depend_have_zeros(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = vec(X, 3), *v = vec(V, 3), *y[2], *t[2];
    assert_ok(fac_func_jvp(constant, &v, FAC_TENSORS(x), FAC_TENSORS(v), y, t, 2));
    assert_within(at(fac_abs(t[0]), 2), 0, 0);
    assert_null(t[1]);
}

/* ---- modes and levels -------------------------------------------------------------------------------------------------------------- */

static fac_status curve_in_no_grad(void *context, fac_tensors in, fac_tensor **out, size_t n) {
    FAC_NO_GRAD(g);
    return curve(context, in, out, n);
}

static void modes_of_going_backward_leave_tangents_alone(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = fac_set_requires_grad(vec(X, 3), true), *v = vec(V, 3), *y, *t, *g;
    assert_ok(fac_func_jvp(curve_in_no_grad, NULL, FAC_TENSORS(x), FAC_TENSORS(v), &y, &t, 1));
    for (int i = 0; i < 3; i++) assert_within(at(t, i), slope(X[i]) * V[i], 1e-12);
    fac_tensor *sum = fac_sum(t); /* what is outside is recorded as it was outside */
    assert_ok(fac_grad(FAC_TENSORS(sum), FAC_TENSORS(x), &g));
    for (int i = 0; i < 3; i++) assert_within(at(g, i), slope2(X[i]) * V[i], 1e-12);
    fac_mode_guard no = fac_no_grad_begin();
    assert_ok(fac_func_jvp(curve, NULL, FAC_TENSORS(x), FAC_TENSORS(v), &y, &t, 1));
    fac_mode_end(&no);
    assert_false(fac_requires_grad(y) || fac_requires_grad(t));
}

static void tangents_can_be_switched_off(void **state) {
    (void)state;
    FAC_SCOPE(s);
    FAC_DUAL_LEVEL(l);
    fac_tensor *x = vec(X, 3), *v = vec(V, 3), *d = fac_make_dual(x, v);
    assert_true(fac_set_fwd_grad_enabled(false));
    assert_false(fac_is_fwd_grad_enabled());
    assert_false(fac_is_dual(fac_sin(d)) || fac_is_dual(fac_reshape(d, FAC_INTS(3, 1))));
    assert_false(fac_set_fwd_grad_enabled(true));
    assert_true(fac_is_dual(fac_sin(d)));
}

static void gradients_of_dual_tensors_are_dual(void **state) {
    (void)state;
    FAC_SCOPE(s);
    FAC_DUAL_LEVEL(l);
    fac_tensor *x = fac_set_requires_grad(vec(X, 3), true), *v = vec(V, 3), *d = fac_make_dual(x, v), *y, *g;
    assert_ok(curve(NULL, FAC_TENSORS(d), &y, 1));
    fac_tensor *sum = fac_sum(y);
    assert_ok(fac_grad(FAC_TENSORS(sum), FAC_TENSORS(x), &g));
    for (int i = 0; i < 3; i++) {
        assert_within(at(g, i), slope(X[i]), 1e-12);
        assert_within(at(tangent_of(g), i), slope2(X[i]) * V[i], 1e-12);
    }
}

static void tensors_of_a_closed_level_are_plain(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = fac_set_requires_grad(vec(X, 3), true), *v = vec(V, 3), *g;
    const int64_t level = fac_dual_level_enter(), inner = fac_dual_level_enter();
    assert_true(level > 0 && inner > level);
    fac_tensor *d = fac_make_dual(x, v), *y = fac_sin(d);
    assert_ok(fac_dual_level_exit(level)); /* and with it the inner one */
    assert_int_equal(fac_dual_level_exit(inner), FAC_ERR_ARGUMENT);
    assert_error(FAC_ERR_ARGUMENT, "not open");
    assert_false(fac_is_dual(y));
    fac_tensor *z = fac_mul(fac_view(y, FAC_INTS(3, 1)), y), *sum = fac_sum(z);
    assert_null(fac_unpack_dual(z).tangent);
    assert_ok(fac_grad(FAC_TENSORS(sum), FAC_TENSORS(x), &g));
    double total = 0;
    for (int i = 0; i < 3; i++) total += sin(X[i]);
    for (int i = 0; i < 3; i++) assert_within(at(g, i), 2 * total * cos(X[i]), 1e-12);
    fac_tensor *free_standing = fac_clone(y);
    assert_non_null(fac_mul_(free_standing, 0));
    assert_within(at(free_standing, 1), 0, 0);
}

static void wrong_duals_are_refused(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = vec(X, 3), *v = vec(V, 3), *whole = fac_arange(3);
    assert_null(fac_make_dual(x, v));
    assert_error(FAC_ERR_STATE, "no level exists");
    FAC_DUAL_LEVEL(l);
    assert_null(fac_make_dual(x, fac_narrow(v, 0, 0, 2)));
    assert_error(FAC_ERR_SHAPE, "same size");
    assert_null(fac_make_dual(x, fac_to_dtype(v, FAC_F32)));
    assert_error(FAC_ERR_DTYPE, "dtype");
    assert_null(fac_make_dual(whole, whole));
    assert_error(FAC_ERR_DTYPE, "no tangent");
    assert_null(fac_make_dual(fac_make_dual(x, v), v));
    assert_error(FAC_ERR_STATE, "same level");
}

static fac_status fails(void *context, fac_tensors in, fac_tensor **out, size_t n) {
    (void)context, (void)n;
    (void)fac_dual_level_enter(); /* left open */
    fac_set_grad_enabled(false);
    out[0] = fac_mm(in.v[0], in.v[0]);
    return fac_error();
}

static void failing_functions_leave_nothing_behind(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = vec(X, 3), *v = vec(V, 3), *y, *t;
    for (int i = 0; i < 40; i++) {
        assert_int_equal(fac_func_jvp(fails, NULL, FAC_TENSORS(x), FAC_TENSORS(v), &y, &t, 1), FAC_ERR_SHAPE);
        assert_null(y);
        assert_null(t);
        assert_error(FAC_ERR_SHAPE, "mm");
        assert_true(fac_is_grad_enabled());
    }
    assert_null(fac_make_dual(x, v));
    assert_error(FAC_ERR_STATE, "no level exists");
    assert_int_equal(fac_func_jvp(curve, NULL, FAC_TENSORS(x), FAC_TENSORS(v, v), &y, &t, 1), FAC_ERR_ARGUMENT);
    assert_error(FAC_ERR_ARGUMENT, "1 primals and 2 tangents");
}

static void levels_are_limited(void **state) {
    (void)state;
    int n = 0;
    int64_t first = 0;
    for (int64_t level; (level = fac_dual_level_enter()) != 0; n++) first = first ? first : level;
    assert_error(FAC_ERR_STATE, "no room for another");
    assert_true(n >= 16);
    assert_ok(fac_dual_level_exit(first));
}

/* ---- Jacobians ----------------------------------------------------------------------------------------------------------------------- */

static fac_status outer_product(void *context, fac_tensors in, fac_tensor **out, size_t n) {
    (void)context, (void)n;
    out[0] = fac_outer(in.v[0], fac_exp(in.v[0]));
    return fac_error();
}

static void jacobians_by_columns_and_by_rows_agree(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = vec(X, 3), *by_columns = fac_func_jacfwd(outer_product, NULL, FAC_TENSORS(x)),
               *by_rows = fac_jacobian(outer_product, NULL, x);
    assert_int_equal(fac_tensor_sizes(by_columns).n, 3);
    for (int i = 0; i < 27; i++) assert_within(at(by_columns, i), at(by_rows, i), 1e-12);
}

static void gradcheck_looks_at_forward_mode(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = fac_set_requires_grad(vec(X, 3), true);
    assert_ok(fac_gradcheck(outer_product, NULL, FAC_TENSORS(x), 1, .check_forward_ad = true));
}

/* ---- custom functions -------------------------------------------------------------------------------------------------------------------- */

/* x^3, computed in a way that no operator sees. */
static fac_status cube_forward(fac_function_ctx *c, fac_tensors in, fac_tensor **out) {
    FAC_TRY(fac_function_save(c, in));
    out[0] = fac_pow(in.v[0], 3);
    return fac_error();
}
static fac_status cube_backward(fac_function_ctx *c, fac_tensors grads, fac_tensor **out) {
    fac_tensor *x = fac_function_saved(c).v[0];
    out[0] = fac_mul(fac_mul(grads.v[0], 3), fac_mul(x, x));
    return fac_error();
}
static fac_status cube_jvp(fac_function_ctx *c, fac_tensors tangents, fac_tensor **out) {
    fac_tensor *x = fac_function_saved(c).v[0];
    out[0] = fac_mul(fac_mul(tangents.v[0], 3), fac_mul(x, x));
    return fac_error();
}
static const fac_function cube = {
    .name = "Cube", .n_outputs = 1, .forward = cube_forward, .backward = cube_backward, .jvp = cube_jvp};
static const fac_function no_jvp = {.name = "Cube", .n_outputs = 1, .forward = cube_forward, .backward = cube_backward};
/* Twice the true tangent, to tell which was used. */
static fac_status double_jvp(fac_function_ctx *c, fac_tensors tangents, fac_tensor **out) {
    FAC_TRY(cube_jvp(c, tangents, out));
    out[0] = fac_mul(out[0], 2);
    return fac_error();
}
static const fac_function doubled = {.name = "Doubled", .n_outputs = 1, .forward = cube_forward, .jvp = double_jvp};

static fac_status apply_custom(void *context, fac_tensors in, fac_tensor **out, size_t n) {
    (void)n;
    return fac_function_apply(context, NULL, in, out);
}
static fac_status sum_of_custom(void *context, fac_tensors in, fac_tensor **out, size_t n) {
    FAC_TRY(apply_custom(context, in, out, n));
    out[0] = fac_sum(out[0]);
    return fac_error();
}
static fac_status jvp_of_custom(void *context, fac_tensors in, fac_tensor **out, size_t n) {
    fac_tensor *y, *v = fac_ones_like(fac_detach(in.v[0]));
    (void)n;
    return fac_func_jvp(apply_custom, context, in, FAC_TENSORS(v), &y, out, 1);
}

static void custom_functions_bring_their_own_tangent(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = vec(X, 3), *v = vec(V, 3), *y, *t, *g;
    assert_ok(fac_func_jvp(apply_custom, (void *)(uintptr_t)&doubled, FAC_TENSORS(x), FAC_TENSORS(v), &y, &t, 1));
    for (int i = 0; i < 3; i++) assert_within(at(t, i), 6 * X[i] * X[i] * V[i], 1e-12);
    assert_ok(fac_func_jvp(jvp_of_custom, (void *)(uintptr_t)&cube, FAC_TENSORS(x), FAC_TENSORS(v), &y, &t, 1));
    for (int i = 0; i < 3; i++) assert_within(at(t, i), 6 * X[i] * V[i], 1e-12);
    fac_tensor *hv, *h = fac_func_hessian(sum_of_custom, (void *)(uintptr_t)&cube, FAC_TENSORS(x));
    for (int i = 0; i < 9; i++) assert_within(at(h, i), i % 4 ? 0 : 6 * X[i / 4], 1e-12);
    assert_ok(fac_func_hvp(sum_of_custom, (void *)(uintptr_t)&cube, FAC_TENSORS(x), FAC_TENSORS(v), &hv));
    for (int i = 0; i < 3; i++) assert_within(at(hv, i), 6 * X[i] * V[i], 1e-12);
    fac_tensor *leaf = fac_set_requires_grad(vec(X, 3), true);
    assert_ok(fac_func_jvp(apply_custom, (void *)(uintptr_t)&cube, FAC_TENSORS(leaf), FAC_TENSORS(v), &y, &t, 1));
    fac_tensor *sum = fac_sum(t);
    assert_ok(fac_grad(FAC_TENSORS(sum), FAC_TENSORS(leaf), &g));
    for (int i = 0; i < 3; i++) assert_within(at(g, i), 6 * X[i] * V[i], 1e-12);
    assert_int_equal(fac_func_jvp(apply_custom, (void *)(uintptr_t)&no_jvp, FAC_TENSORS(x), FAC_TENSORS(v), &y, &t, 1),
                     FAC_ERR_AUTOGRAD);
    assert_error(FAC_ERR_AUTOGRAD, "it has no jvp");
}

/* What chooses a way by who wants a derivative, of one matrix. */
static fac_tensor *of_mask(fac_tensor *w) {
    fac_tensor *q = fac_reshape(fac_div(fac_arange(9, .dtype = FAC_F64), 7.0), FAC_INTS(1, 3, 3));
    return fac_scaled_dot_product_attention(q, fac_sin(q), fac_cos(q), .attn_mask = w);
}
static fac_tensor *of_query(fac_tensor *w) {
    fac_tensor *q = fac_unsqueeze(w, 0), *k = fac_cos(fac_detach(q));
    return fac_scaled_dot_product_attention(w, fac_squeeze(k), fac_squeeze(k));
}
static fac_tensor *of_small_factor(fac_tensor *w) {
    return fac_matmul(fac_reshape(fac_arange(18, .dtype = FAC_F64), FAC_INTS(2, 3, 3)), w);
}
static fac_tensor *of_svdvals(fac_tensor *w) { return fac_linalg_svdvals(w); }
static fac_tensor *of_eigvalsh(fac_tensor *w) { return fac_linalg_eigvalsh(w); }
static fac_tensor *of_eigvals(fac_tensor *w) { return fac_abs(fac_linalg_eigvals(w)); }
static fac_tensor *of_norm(fac_tensor *w) { return fac_linalg_matrix_norm_str_ord(w, "nuc"); }
static fac_tensor *of_power(fac_tensor *w) { return fac_linalg_matrix_power(w, 3); }
static fac_tensor *of_list(fac_tensor *w) {
    fac_tensor *a = fac_ones(FAC_INTS(3, 3), .dtype = FAC_F64);
    fac_value none, args[] = {fac_value_tensors(&a, 1), fac_value_tensors(&w, 1)};
    const fac_status st = fac_call("aten::_foreach_mul_.List", args, 2, &none);
    fac_value_release(&args[0]);
    fac_value_release(&args[1]);
    return st == FAC_OK ? a : NULL;
}
static fac_tensor *of_list_changed(fac_tensor *w) {
    fac_value none, args[] = {fac_value_tensors(&w, 1)};
    const fac_status st = fac_call("aten::_foreach_exp_", args, 1, &none);
    fac_value_release(&args[0]);
    return st == FAC_OK ? w : NULL;
}
static fac_tensor *of_polygamma(fac_tensor *w) { return fac_polygamma_(w, 1); }

static void views_made_before_keep_their_tangents_in_composites(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *(*const all[])(fac_tensor *) = {of_mask,     of_query,        of_small_factor, of_svdvals,
                                                of_eigvalsh, of_eigvals,      of_norm,         of_power,
                                                of_list,     of_list_changed, of_polygamma};
    const double m[] = {4, 1, 0.5, 1, 3, 0.25, 0.5, 0.25, 2};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        FAC_SCOPE(each);
        FAC_DUAL_LEVEL(l);
        fac_tensor *x = fac_reshape(vec(m, 9), FAC_INTS(3, 3)), *d = fac_make_dual(x, fac_cos(x));
        fac_tensor *want = all[i](fac_clone(d)), *base = fac_zeros(FAC_INTS(2, 3, 3), .dtype = FAC_F64);
        fac_tensor *w = fac_select(base, 0, 1), *other = fac_select(base, 0, 1);
        assert_non_null(fac_copy_(other, d));
        fac_tensor *have = all[i](w);
        if (!have || !tangent_of(want) || !tangent_of(have)) print_error("composite %zu\n", i);
        assert_non_null(have);
        assert_non_null(tangent_of(want));
        assert_non_null(tangent_of(have));
        assert_true(fac_allclose(fac_unpack_dual(have).primal, fac_unpack_dual(want).primal));
        assert_true(fac_allclose(tangent_of(have), tangent_of(want)));
    }
}

static fac_status old_view(void *context, fac_tensors in, fac_tensor **out, size_t n) {
    fac_tensor *c = fac_ones(FAC_INTS(2), .dtype = FAC_F64);
    (void)context, (void)n;
    out[0] = fac_narrow(c, 0, 1, 1);
    fac_mul_(c, in.v[0]);
    return fac_error();
}

/* Before any operator has used them. */
static void views_made_before_show_their_tangents_at_once(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = vec(X, 2), *v = vec(V, 2), *y, *t;
    assert_ok(fac_func_jvp(old_view, NULL, FAC_TENSORS(x), FAC_TENSORS(v), &y, &t, 1));
    assert_true(at(y, 0) == X[1] && at(t, 0) == V[1]);
    FAC_DUAL_LEVEL(l);
    fac_tensor *c = fac_zeros(FAC_INTS(2), .dtype = FAC_F64), *w = fac_narrow(c, 0, 1, 1),
               *part = fac_narrow(c, 0, 0, 1);
    fac_tensor *again = fac_narrow(c, 0, 0, 1), *cut = fac_detach(part);
    assert_false(fac_is_dual(w));
    assert_non_null(fac_add_(c, fac_make_dual(x, v)));
    assert_true(fac_is_dual(w) && !fac_is_dual(cut));
    assert_within(at(fac_unpack_dual(part).tangent, 0), V[0], 0);
    assert_within(at(fac_unpack_dual(part).primal, 0), X[0], 0);
    assert_null(fac_make_dual(again, again));
    assert_error(FAC_ERR_STATE, "already has a forward gradient");
    fac_tensor *late = fac_zeros(FAC_INTS(1), .dtype = FAC_F64), *view = fac_view(late, FAC_INTS(1));
    assert_non_null(fac_add_(late, w));
    assert_ok(fac_function_apply(&doubled, NULL, FAC_TENSORS(view), &y));
    assert_within(at(tangent_of(y), 0), 6 * X[1] * X[1] * V[1], 1e-12);
}

/* Within a vmap as well: c becomes dual behind w, a view of it that was made before. */
static fac_status becomes_dual_in_vmap(void *context, fac_tensors in, fac_tensor **out, size_t n) {
    fac_tensor *c = fac_zeros_like(fac_detach(in.v[0])), *w = fac_narrow(c, 0, 1, 1), *d = *(fac_tensor **)context;
    (void)n;
    fac_add_(c, d);
    out[0] = fac_mul(w, 3);
    if (!fac_is_dual(out[0])) return fac_error_set(FAC_ERR_STATE, "the tangent is lost");
    out[0] = fac_linalg_svdvals(fac_unsqueeze(w, 0));
    return fac_error();
}
static fac_status closes_in_vmap(void *context, fac_tensors in, fac_tensor **out, size_t n) {
    (void)n;
    out[0] = fac_mul(in.v[0], 2);
    return fac_dual_level_exit(*(int64_t *)context);
}

/* What calls come by is right whichever of a level and a vmap ends first. */
static void levels_and_vmaps_end_in_any_order(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = vec(X, 3), *v = vec(V, 3), *rows = fac_zeros(FAC_INTS(2, 3), .dtype = FAC_F64), *out;
    {
        FAC_DUAL_LEVEL(l);
        fac_tensor *d = fac_make_dual(x, v);
        assert_ok(fac_vmap(becomes_dual_in_vmap, &d, FAC_TENSORS(rows), &out, 1));
        assert_within(at(tangent_of(out), 0), X[1] < 0 ? -V[1] : V[1], 1e-12);
    }
    assert_true(fac_thread_included() == 0);
    int64_t level = fac_dual_level_enter();
    fac_tensor *c = fac_zeros(FAC_INTS(3), .dtype = FAC_F64), *w = fac_narrow(c, 0, 1, 1);
    assert_non_null(fac_add_(c, fac_make_dual(x, v)));
    assert_ok(fac_vmap(closes_in_vmap, &level, FAC_TENSORS(rows), &out, 1));
    assert_true(fac_thread_included() == 0);
    assert_false(fac_is_dual(fac_mul(w, 2)));
    assert_true(fac_thread_included() == 0);
    const int64_t outer = fac_dual_level_enter();
    (void)fac_dual_level_enter();
    fac_tensor *again = fac_zeros(FAC_INTS(3), .dtype = FAC_F64), *old = fac_narrow(again, 0, 1, 1);
    assert_non_null(fac_add_(again, fac_make_dual(x, v)));
    const fac_keyset mine = fac_thread_include(0); /* a program that sets its keys and puts them back */
    fac_thread_include(mine);
    assert_true(fac_is_dual(fac_mul(old, 2)));
    assert_ok(fac_dual_level_exit(outer)); /* the inner one with it */
    assert_true(fac_thread_included() == 0);
    fac_thread_include(mine);
    assert_true(fac_thread_included() == 0);
}

static fac_status closes_its_level(void *context, fac_tensors in, fac_tensor **out, size_t n) {
    (void)n;
    out[0] = fac_mul(in.v[0], 2);
    return fac_dual_level_exit(*(int64_t *)context);
}
static fac_status fails_late(void *context, fac_tensors in, fac_tensor **out, size_t n) {
    fac_tensor *c = fac_zeros_like(fac_detach(in.v[0]));
    (void)context, (void)n;
    (void)fac_dual_level_enter();
    fac_set_fwd_grad_enabled(false);
    fac_set_fwd_grad_enabled(true);
    out[0] = fac_add_(c, in.v[0]);
    fac_set_fwd_grad_enabled(false);
    return fac_error_set(FAC_ERR_IO, "the disk is full");
}
static fac_status fails_in_vmap(void *context, fac_tensors in, fac_tensor **out, size_t n) {
    return fac_vmap(fails_late, context, in, out, n);
}

static void functions_that_end_badly_leave_the_thread_as_it_was(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = vec(X, 3), *v = vec(V, 3), *y, *t;
    int64_t outer = fac_dual_level_enter();
    assert_int_equal(fac_func_jvp(closes_its_level, &outer, FAC_TENSORS(x), FAC_TENSORS(v), &y, &t, 1), FAC_ERR_STATE);
    assert_error(FAC_ERR_STATE, "func_jvp: the function has closed the level");
    assert_null(y);
    assert_int_equal(fac_func_jvp(fails_late, NULL, FAC_TENSORS(x), FAC_TENSORS(v), &y, &t, 1), FAC_ERR_IO);
    assert_error(FAC_ERR_IO, "the disk is full");
    assert_true(fac_thread_included() == 0 && fac_is_fwd_grad_enabled());
    fac_tensor *two = fac_stack(FAC_TENSORS(x, v), 0);
    assert_int_equal(fac_func_jvp(fails_in_vmap, NULL, FAC_TENSORS(two), FAC_TENSORS(two), &y, &t, 1), FAC_ERR_IO);
    assert_error(FAC_ERR_IO, "the disk is full");
    assert_true(fac_thread_included() == 0 && fac_is_fwd_grad_enabled());
}

/* What is left of as_strided where elements of the primal share memory: each place has the mean of their tangents. */
static void restriding_an_expanded_primal_knows_what_its_elements_share(void **state) {
    (void)state;
    FAC_SCOPE(s);
    FAC_DUAL_LEVEL(l);
    fac_tensor *x = vec(X, 3), *v = fac_reshape(vec((const double[]){1, 2, 3, 4, 5, 6}, 6), FAC_INTS(2, 3));
    fac_tensor *d = fac_make_dual(fac_expand(x, FAC_INTS(2, 3)), v);
    fac_tensor *y = fac_as_strided(d, FAC_INTS(2), FAC_INTS(2)); /* x[0], x[2] */
    assert_true(at(y, 0) == X[0] && at(y, 1) == X[2]);
    assert_within(at(tangent_of(y), 0), 2.5, 1e-12);
    assert_within(at(tangent_of(y), 1), 4.5, 1e-12);
    y = fac_mul(fac_as_strided(d, FAC_INTS(2, 2), FAC_INTS(0, 1), .storage_offset = 1), 2);
    assert_within(at(tangent_of(y), 2), 7, 1e-12);
    assert_within(at(tangent_of(y), 3), 9, 1e-12);
    y = fac_as_strided(fac_expand(fac_make_dual(x, v = vec(V, 3)), FAC_INTS(2, 3)), FAC_INTS(3), FAC_INTS(1));
    for (int i = 0; i < 3; i++) assert_within(at(tangent_of(y), i), V[i], 1e-12);
}

/* A part of a vector that is made dual: what as_strided reads around it has no tangent. */
static void restriding_beyond_the_primal_reads_what_has_no_tangent(void **state) {
    (void)state;
    FAC_SCOPE(s);
    FAC_DUAL_LEVEL(l);
    fac_tensor *x = fac_arange(6, .dtype = FAC_F64), *v = vec(V, 3), *d = fac_make_dual(fac_narrow(x, 0, 2, 3), v);
    fac_tensor *y = fac_as_strided(d, FAC_INTS(6), FAC_INTS(1), .storage_offset = 0);
    const double want[] = {0, 0, V[0], V[1], V[2], 0};
    for (int i = 0; i < 6; i++) {
        assert_within(at(y, i), i, 0);
        assert_within(at(tangent_of(y), i), want[i], 0);
    }
    y = fac_as_strided(d, FAC_INTS(2, 2), FAC_INTS(1, 1), .storage_offset = 2);
    assert_within(at(tangent_of(y), 3), V[2], 0);
}

/* ---- where a formula divides by nothing ------------------------------------------------------------------------------------------ */

static void tangents_at_zero_are_those_of_the_gradient(void **state) {
    (void)state;
    FAC_SCOPE(s);
    FAC_DUAL_LEVEL(l);
    fac_tensor *x = fac_zeros(FAC_INTS(3), .dtype = FAC_F64), *d = fac_make_dual(x, vec(V, 3));
    const double orders[] = {1.5, 2, 3.5};
    for (int i = 0; i < 3; i++) {
        fac_tensor *y = fac_linalg_vector_norm(d, .ord = orders[i]);
        assert_within(at(tangent_of(y), 0), 0, 0);
    }
    assert_within(at(tangent_of(fac_std(d)), 0), 0, 0);
}

/* The derivative of a determinant by cofactors, of a matrix of rank 2 whose rounded determinant is not 0. */
static void determinants_of_singular_matrices_have_tangents(void **state) {
    (void)state;
    FAC_SCOPE(s);
    FAC_DUAL_LEVEL(l);
    const double a[] = {0.1, 0.7, 0.3, 0.2, 0.35, 0.9, 0.3, 1.05, 1.2}; /* the last row is the sum of the others */
    const double v[] = {1, -0.5, 2, 0.25, 3, -1, 0.75, 1.5, -2};
    double want = 0;
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++) {
            const int p = (i + 1) % 3, q = (i + 2) % 3, r = (j + 1) % 3, t = (j + 2) % 3;
            want += v[3 * i + j] * (a[3 * p + r] * a[3 * q + t] - a[3 * p + t] * a[3 * q + r]);
        }
    for (double scale = 1e-3; scale < 1e4; scale *= 1e3) {
        fac_tensor *x = fac_reshape(vec(a, 9), FAC_INTS(3, 3)),
                   *d = fac_make_dual(fac_mul(x, scale), fac_reshape(vec(v, 9), FAC_INTS(3, 3)));
        assert_within(at(tangent_of(fac_linalg_det(d)), 0) / (scale * scale), want, 1e-12);
    }
}

/* Of elements that go to one place the last counts, and so does its tangent. */
static void unpooling_to_one_place_has_the_tangent_of_what_stays(void **state) {
    (void)state;
    FAC_SCOPE(s);
    FAC_DUAL_LEVEL(l);
    const int64_t places[] = {1, 1, 3};
    fac_tensor *x = fac_reshape(vec(X, 3), FAC_INTS(1, 1, 3)), *v = fac_reshape(vec(V, 3), FAC_INTS(1, 1, 3));
    fac_tensor *to = fac_tensor_from(places, FAC_I64, FAC_INTS(1, 1, 3));
    fac_tensor *y = fac_max_unpool2d(fac_make_dual(x, v), to, FAC_INTS(1, 4));
    assert_within(at(y, 1), X[1], 0);
    assert_within(at(tangent_of(y), 1), V[1], 0);
    assert_within(at(tangent_of(y), 3), V[2], 0);
}

/* ---- threads ------------------------------------------------------------------------------------------------------------------- */

static int seen_off;
static fac_status nested_forward(fac_function_ctx *c, fac_tensors inputs, fac_tensor **out) {
    (void)c;
    out[0] = fac_clone(inputs.v[0]);
    return fac_error();
}
static fac_status nested_backward(fac_function_ctx *c, fac_tensors grads, fac_tensor **out);
static const fac_function nested = {
    .name = "Nested", .n_outputs = 1, .forward = nested_forward, .backward = nested_backward};

/* A backward pass within a backward pass, so deep that threads help; counts where tangents are off. */
static fac_status nested_backward(fac_function_ctx *c, fac_tensors grads, fac_tensor **out) {
    const int *levels = fac_function_user(c);
    out[0] = grads.v[0];
    seen_off += !fac_is_fwd_grad_enabled();
    if (*levels == 0) return FAC_OK;
    FAC_SCOPE(s);
    FAC_ENABLE_GRAD(g);
    int below = *levels - 1;
    fac_tensor *x = fac_set_requires_grad(fac_ones(FAC_INTS(1)), true), *y = NULL;
    FAC_TRY(fac_function_apply(&nested, &below, FAC_TENSORS(x), &y));
    return fac_backward(y);
}

static void threads_that_help_a_pass_have_tangents_off_too(void **state) {
    (void)state;
    FAC_SCOPE(s);
    int levels = 3 * FAC_MAX_NESTED_PASSES;
    fac_tensor *x = fac_set_requires_grad(fac_ones(FAC_INTS(1)), true), *y = NULL;
    seen_off = 0;
    fac_set_fwd_grad_enabled(false);
    assert_ok(fac_function_apply(&nested, &levels, FAC_TENSORS(x), &y));
    const fac_status st = fac_backward(y);
    fac_set_fwd_grad_enabled(true);
    assert_ok(st);
    assert_int_equal(seen_off, levels + 1);
}

static const struct CMUnitTest tests[] = {
    FAC_TEST(dual_tensors_carry_tangents),
    FAC_TEST(jvp_of_a_curve_is_its_slope),
    FAC_TEST(jvp_nests),
    FAC_TEST(nested_levels_are_not_confused),
    FAC_TEST(hessians_forward_over_reverse_equal_reverse_over_reverse),
    FAC_TEST(reverse_goes_through_tangents),
    FAC_TEST(in_place_changes_carry_tangents),
    FAC_TEST(filling_with_random_numbers_draws_them_once),
    FAC_TEST(change_of_a_view_reaches_the_base),
    FAC_TEST(plain_tensors_take_on_tangents),
    FAC_TEST(views_made_before_follow_a_base_that_becomes_dual),
    FAC_TEST(views_follow_whatever_made_their_base_dual),
    FAC_TEST(views_follow_on_nested_levels),
    FAC_TEST(sparse_and_quantized_results_refuse_tangents),
    FAC_TEST(out_forms_refuse_tangents),
    FAC_TEST(results_without_a_derivative_have_no_tangent),
    FAC_TEST(outputs_that_do_not_depend_have_zeros),
    FAC_TEST(modes_of_going_backward_leave_tangents_alone),
    FAC_TEST(tangents_can_be_switched_off),
    FAC_TEST(gradients_of_dual_tensors_are_dual),
    FAC_TEST(tensors_of_a_closed_level_are_plain),
    FAC_TEST(wrong_duals_are_refused),
    FAC_TEST(failing_functions_leave_nothing_behind),
    FAC_TEST(levels_are_limited),
    FAC_TEST(jacobians_by_columns_and_by_rows_agree),
    FAC_TEST(gradcheck_looks_at_forward_mode),
    FAC_TEST(custom_functions_bring_their_own_tangent),
    FAC_TEST(views_made_before_keep_their_tangents_in_composites),
    FAC_TEST(views_made_before_show_their_tangents_at_once),
    FAC_TEST(levels_and_vmaps_end_in_any_order),
    FAC_TEST(functions_that_end_badly_leave_the_thread_as_it_was),
    FAC_TEST(restriding_an_expanded_primal_knows_what_its_elements_share),
    FAC_TEST(threads_that_help_a_pass_have_tangents_off_too),
    FAC_TEST(restriding_beyond_the_primal_reads_what_has_no_tangent),
    FAC_TEST(tangents_at_zero_are_those_of_the_gradient),
    FAC_TEST(determinants_of_singular_matrices_have_tangents),
    FAC_TEST(unpooling_to_one_place_has_the_tangent_of_what_stays),
};
int main(void) { return support_run(tests, FAC_COUNT(tests), NULL); }
