/* Derivatives as transforms of functions, against loops and against what backward passes give. */
#include "support/support.h"
#include "support/values.h"

#include <facula/facula.h>

/* ---- grad ------------------------------------------------------------------------------------------------------- */

static fac_status cubes(void *context, fac_tensors in, fac_tensor **out, size_t n) {
    (void)context, (void)n;
    out[0] = fac_sum(fac_pow(in.v[0], 3.0));
    return fac_error();
}

static fac_status product(void *context, fac_tensors in, fac_tensor **out, size_t n) {
    (void)context, (void)n;
    out[0] = fac_sum(fac_mul(in.v[0], fac_sin(in.v[1])));
    return fac_error();
}

static void func_grad_gives_gradients_that_are_not_recorded_S091(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = numbers(FAC_INTS(3)), *y = numbers(FAC_INTS(3)), *grad, *grads[2], *value = NULL;
    assert_ok(fac_func_grad(cubes, NULL, FAC_TENSORS(x), &grad, .value = &value));
    assert_close(grad, fac_mul(fac_mul(x, x), 3.0));
    assert_close(value, fac_sum(fac_pow(x, 3.0)));
    assert_false(fac_requires_grad(grad));
    assert_false(fac_requires_grad(value));
    assert_false(fac_requires_grad(x));
    assert_ok(fac_func_grad(product, NULL, FAC_TENSORS(x, y), grads, .argnums = FAC_INTS(1, -2)));
    assert_close(grads[0], fac_mul(x, fac_cos(y)));
    assert_close(grads[1], fac_sin(y));
}

static fac_status derivative(void *context, fac_tensors in, fac_tensor **out, size_t n) {
    (void)n;
    fac_tensor *g;
    if (fac_func_grad(cubes, context, in, &g)) return fac_error();
    out[0] = fac_sum(g);
    return fac_error();
}

static void func_grad_of_func_grad_is_the_second_derivative_S091(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = numbers(FAC_INTS(3)), *second;
    assert_ok(fac_func_grad(derivative, NULL, FAC_TENSORS(x), &second));
    assert_close(second, fac_mul(x, 6.0));
    assert_false(fac_requires_grad(second));
}

/* What the function reads besides its inputs is differentiated through, and so are inputs that require a gradient. */
static fac_status weighed(void *context, fac_tensors in, fac_tensor **out, size_t n) {
    (void)n;
    out[0] = fac_sum(fac_mul(fac_mul(in.v[0], in.v[0]), (fac_tensor *)context));
    return fac_error();
}

static void func_grad_is_recorded_where_something_else_wants_a_gradient_S091(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = numbers(FAC_INTS(3)), *w = fac_set_requires_grad(numbers(FAC_INTS(3)), true), *grad, *value;
    assert_ok(fac_func_grad(weighed, w, FAC_TENSORS(x), &grad));
    assert_ok(fac_backward(fac_sum(grad)));
    assert_close(fac_grad_of(w), fac_mul(x, 2.0));
    fac_tensor *leaf = fac_set_requires_grad(numbers(FAC_INTS(3)), true);
    assert_ok(fac_func_grad(cubes, NULL, FAC_TENSORS(leaf), &grad, .value = &value));
    assert_close(grad, fac_mul(fac_mul(leaf, leaf), 3.0));
    assert_ok(fac_backward(fac_add(fac_sum(grad), value)));
    assert_close(fac_grad_of(leaf), fac_add(fac_mul(leaf, 6.0), fac_mul(fac_mul(leaf, leaf), 3.0)));
    FAC_NO_GRAD(g); /* differentiates all the same, but is not recorded */
    assert_ok(fac_func_grad(cubes, NULL, FAC_TENSORS(leaf), &grad));
    assert_close(grad, fac_mul(fac_mul(leaf, leaf), 3.0));
    assert_false(fac_requires_grad(grad));
}

static fac_status partly_unrecorded(void *context, fac_tensors in, fac_tensor **out, size_t n) {
    (void)context, (void)n;
    fac_tensor *fixed;
    {
        FAC_NO_GRAD(g);
        fixed = fac_mul(in.v[0], in.v[0]);
    }
    out[0] = fac_sum(fac_mul(fixed, in.v[0]));
    return fac_error();
}

static void no_grad_within_func_grad_is_respected_S091(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = numbers(FAC_INTS(2, 3)), *grad;
    assert_ok(fac_func_grad(partly_unrecorded, NULL, FAC_TENSORS(x), &grad));
    assert_close(grad, fac_mul(x, x));
    assert_true(fac_is_grad_enabled());
}

static fac_status constant(void *context, fac_tensors in, fac_tensor **out, size_t n) {
    (void)context, (void)in, (void)n;
    out[0] = fac_ones(FAC_INTS(), .dtype = FAC_F64);
    return fac_error();
}
static fac_status same(void *context, fac_tensors in, fac_tensor **out, size_t n) {
    (void)context, (void)n;
    out[0] = in.v[0];
    return fac_error();
}
static fac_status failing(void *context, fac_tensors in, fac_tensor **out, size_t n) {
    (void)context, (void)in, (void)out, (void)n;
    return FAC_ERR_ARGUMENT;
}

static void func_grad_of_what_has_none_S091(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = numbers(FAC_INTS(3)), *grad = x;
    assert_ok(fac_func_grad(constant, NULL, FAC_TENSORS(x), &grad));
    assert_close(grad, fac_zeros_like(x));
    assert_int_equal(fac_func_grad(same, NULL, FAC_TENSORS(x), &grad), FAC_ERR_SHAPE);
    assert_error(FAC_ERR_SHAPE, "should give one number, but gave sizes [3]");
    assert_null(grad);
    assert_int_equal(fac_func_grad(same, NULL, FAC_TENSORS(fac_arange(3, .dtype = FAC_I64)), &grad), FAC_ERR_DTYPE);
    assert_error(FAC_ERR_DTYPE, "only floating and complex tensors");
    assert_int_equal(fac_func_grad(same, NULL, FAC_TENSORS(x), &grad, .argnum = 1), FAC_ERR_INDEX);
    assert_error(FAC_ERR_INDEX, "there is no input 1 among 1");
    assert_int_equal(fac_func_grad(failing, NULL, FAC_TENSORS(x), &grad), FAC_ERR_ARGUMENT);
    assert_error(FAC_ERR_ARGUMENT, "returned an error");
}

/* ---- for each sample -------------------------------------------------------------------------------------------- */

typedef struct of_function {
    fac_func fn;
    void *context;
} of_function;

static fac_status gradient(void *context, fac_tensors in, fac_tensor **out, size_t n) {
    const of_function *f = context;
    (void)n;
    return fac_func_grad(f->fn, f->context, in, out);
}

static void func_grad_in_vmap_is_that_of_each_sample_S091(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = numbers(FAC_INTS(4, 3)), *y = numbers(FAC_INTS(4, 3)), *out, *want;
    of_function f = {product, NULL};
    assert_ok(fac_vmap(gradient, &f, FAC_TENSORS(x, y), &out, 1));
    assert_close(out, fac_sin(y));
    /* The first input is the same for all, its gradient is not. */
    assert_ok(fac_vmap(gradient, &f, FAC_TENSORS(fac_select(x, 0, 0), y), &out, 1, .in_dims = FAC_INTS(FAC_UNSET, 0)));
    assert_close(out, fac_sin(y));
    of_function second = {derivative, NULL};
    assert_ok(fac_vmap(gradient, &second, FAC_TENSORS(x), &out, 1));
    assert_close(out, fac_mul(x, 6.0));
    of_function none = {constant, NULL};
    assert_ok(fac_vmap(gradient, &none, FAC_TENSORS(x), &out, 1));
    assert_close(out, fac_zeros_like(x));
    /* And through it all to a leaf. */
    fac_tensor *leaf = fac_set_requires_grad(numbers(FAC_INTS(4, 3)), true);
    of_function third = {cubes, NULL};
    assert_ok(fac_vmap(gradient, &third, FAC_TENSORS(leaf), &out, 1));
    assert_ok(fac_grad(FAC_TENSORS(fac_sum(out)), FAC_TENSORS(leaf), &want));
    assert_close(want, fac_mul(leaf, 6.0));
}

/* ---- vjp -------------------------------------------------------------------------------------------------------- */

static fac_status two_outputs(void *context, fac_tensors in, fac_tensor **out, size_t n) {
    (void)context, (void)n;
    out[0] = fac_mul(in.v[0], in.v[1]);
    out[1] = fac_sum(in.v[0]);
    return fac_error();
}

static void func_vjp_pulls_cotangents_back_S091(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = numbers(FAC_INTS(3)), *y = fac_add(x, 1.0), *ct = fac_add(x, 2.0), *out[2], *grads[2];
    fac_tensor *one = fac_ones(FAC_INTS(), .dtype = FAC_F64);
    assert_ok(fac_func_vjp(two_outputs, NULL, FAC_TENSORS(x, y), FAC_TENSORS(ct, one), out, grads));
    assert_close(out[0], fac_mul(x, y));
    assert_close(out[1], fac_sum(x));
    assert_close(grads[0], fac_add(fac_mul(ct, y), 1.0));
    assert_close(grads[1], fac_mul(ct, x));
    fac_tensor *list[] = {ct, NULL}, *in[] = {x, y};
    const fac_tensors cts = {list, 2}, inputs = {in, 2};
    assert_ok(fac_func_vjp(two_outputs, NULL, inputs, cts, out, grads));
    assert_close(grads[0], fac_mul(ct, y));
    list[1] = ct;
    assert_int_equal(fac_func_vjp(two_outputs, NULL, inputs, cts, out, grads), FAC_ERR_SHAPE);
    assert_error(FAC_ERR_SHAPE, "cotangent 1 has sizes [3], but the output has []");
    assert_null(out[0]);
    assert_null(grads[0]);
}

/* ---- Jacobians -------------------------------------------------------------------------------------------------- */

/* [3] -> [2, 3], each element of which depends on two. */
static fac_status mixes(void *context, fac_tensors in, fac_tensor **out, size_t n) {
    (void)context, (void)n;
    fac_tensor *x = in.v[0], *y = fac_mul(fac_sin(x), fac_roll(x, FAC_INTS(1)));
    out[0] = fac_stack(FAC_TENSORS(y, fac_exp(x)));
    return fac_error();
}

static fac_status jacobian_of(void *context, fac_tensors in, fac_tensor **out, size_t n) {
    const of_function *f = context;
    (void)n;
    out[0] = fac_func_jacrev(f->fn, f->context, in);
    return fac_error();
}

static void func_jacrev_equals_a_loop_of_passes_S091(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = numbers(FAC_INTS(3)), *got = fac_func_jacrev(mixes, NULL, FAC_TENSORS(x));
    fac_tensor *leaf = fac_set_requires_grad(fac_clone(x), true);
    fac_tensor *want = fac_reshape(fac_jacobian(mixes, NULL, leaf), FAC_INTS(2, 3, 3));
    assert_close(got, want);
    assert_false(fac_requires_grad(got));
    assert_close(fac_func_jacrev(mixes, NULL, FAC_TENSORS(x), .chunk_size = 4), want);
    assert_close(fac_func_jacrev(constant, NULL, FAC_TENSORS(x)), fac_zeros(FAC_INTS(3), .dtype = FAC_F64));
    assert_null(fac_func_jacrev(mixes, NULL, FAC_TENSORS(x), .argnum = 3));
    assert_error(FAC_ERR_INDEX, "there is no input 3");
}

static void func_jacrev_in_vmap_is_that_of_each_sample_S091(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = numbers(FAC_INTS(4, 3)), *out;
    of_function f = {mixes, NULL};
    assert_ok(fac_vmap(jacobian_of, &f, FAC_TENSORS(x), &out, 1));
    for (int i = 0; i < 4; i++)
        assert_close(fac_select(out, 0, i), fac_func_jacrev(mixes, NULL, FAC_TENSORS(fac_select(x, 0, i))));
}

static fac_status energy(void *context, fac_tensors in, fac_tensor **out, size_t n) {
    (void)context, (void)n;
    fac_tensor *x = in.v[0];
    out[0] = fac_sum(fac_mul(fac_pow(x, 3.0), fac_roll(x, FAC_INTS(1))));
    return fac_error();
}

static fac_status hessian_of(void *context, fac_tensors in, fac_tensor **out, size_t n) {
    (void)context, (void)n;
    out[0] = fac_func_hessian(energy, NULL, in);
    return fac_error();
}

/* d2/dx_i dx_j of the sum of x_k^3 x_(k-1). */
static void func_hessian_is_that_of_the_formula_S091(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = fac_add(numbers(FAC_INTS(2, 3)), 1.0), *out;
    double v[3], want[9];
    assert_ok(fac_tensor_read(fac_select(x, 0, 0), FAC_F64, v, 3));
    for (int i = 0; i < 3; i++) {
        const int before = (i + 2) % 3, after = (i + 1) % 3;
        want[3 * i + i] = 6 * v[i] * v[before];
        want[3 * i + before] = 3 * v[i] * v[i];
        want[3 * i + after] = 3 * v[after] * v[after];
    }
    fac_tensor *expected = fac_tensor_from(want, FAC_F64, FAC_INTS(3, 3));
    assert_close(fac_func_hessian(energy, NULL, FAC_TENSORS(fac_select(x, 0, 0))), expected);
    assert_ok(fac_vmap(hessian_of, NULL, FAC_TENSORS(x), &out, 1));
    assert_close(fac_select(out, 0, 0), expected);
    assert_close(fac_select(out, 0, 1), fac_func_hessian(energy, NULL, FAC_TENSORS(fac_select(x, 0, 1))));
}

/* ---- many gradients in one pass --------------------------------------------------------------------------------- */

static void grads_in_a_batch_equal_a_loop_S091(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = fac_set_requires_grad(numbers(FAC_INTS(3)), true),
               *w = fac_set_requires_grad(numbers(FAC_INTS(2, 3)), true);
    fac_tensor *y = fac_tanh(fac_linear(x, w, NULL)), *cts = fac_sub(numbers(FAC_INTS(5, 2)), 0.5), *got[2], *want[2];
    assert_ok(fac_grad(FAC_TENSORS(y), FAC_TENSORS(x, w), got, .grad_outputs = FAC_TENSORS(cts), .retain_graph = true,
                       .is_grads_batched = true));
    assert_int_equal(fac_tensor_size(got[1], 0), 5);
    for (int i = 0; i < 5; i++) {
        assert_ok(fac_grad(FAC_TENSORS(y), FAC_TENSORS(x, w), want, .grad_outputs = FAC_TENSORS(fac_select(cts, 0, i)),
                           .retain_graph = true));
        assert_close(fac_select(got[0], 0, i), want[0]);
        assert_close(fac_select(got[1], 0, i), want[1]);
    }
    assert_int_equal(fac_grad(FAC_TENSORS(y), FAC_TENSORS(x), got, .retain_graph = true, .is_grads_batched = true),
                     FAC_ERR_ARGUMENT);
    assert_error(FAC_ERR_ARGUMENT, "is_grads_batched needs grad_outputs");
    fac_tensor *unused = fac_set_requires_grad(numbers(FAC_INTS(2)), true);
    assert_int_equal(fac_grad(FAC_TENSORS(y), FAC_TENSORS(x, unused), got, .grad_outputs = FAC_TENSORS(cts),
                              .retain_graph = true, .is_grads_batched = true),
                     FAC_ERR_AUTOGRAD);
    assert_error(FAC_ERR_AUTOGRAD, "inputs[1]");
    assert_null(got[0]);
    assert_ok(fac_grad(FAC_TENSORS(y), FAC_TENSORS(x, unused), got, .grad_outputs = FAC_TENSORS(cts),
                       .allow_unused = true, .retain_graph = true, .is_grads_batched = true));
    assert_non_null(got[0]);
    assert_null(got[1]);
    /* They are recorded in turn. */
    assert_ok(fac_grad(FAC_TENSORS(y), FAC_TENSORS(x), got, .grad_outputs = FAC_TENSORS(cts), .create_graph = true,
                       .is_grads_batched = true));
    assert_ok(fac_grad(FAC_TENSORS(fac_sum(got[0])), FAC_TENSORS(x), want, .retain_graph = true));
    fac_tensor *one[1], *again[1];
    assert_ok(fac_grad(FAC_TENSORS(y), FAC_TENSORS(x), one, .grad_outputs = FAC_TENSORS(fac_sum(cts, .dim = 0)),
                       .create_graph = true));
    assert_ok(fac_grad(FAC_TENSORS(fac_sum(one[0])), FAC_TENSORS(x), again));
    assert_close(want[0], again[0]);
}

/* ---- modules ---------------------------------------------------------------------------------------------------- */

static fac_module *network(void) {
    return fac_sequential(fac_linear_new(3, 4, .dtype = FAC_F64), fac_tanh_new(),
                          fac_linear_new(4, 2, .dtype = FAC_F64));
}

static fac_tensor *squared_error(void *context, fac_tensor *output, fac_tensor *target) {
    (void)context;
    return fac_mse_loss(output, target);
}

static void gradients_of_each_sample_equal_a_loop_S091(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_module *m = network();
    assert_non_null(m);
    fac_state *p = fac_module_parameters(m);
    assert_int_equal(p->n, 4);
    fac_tensor *x = numbers(FAC_INTS(5, 3)), *y = numbers(FAC_INTS(5, 2)), *got[4], *chunked[4], *want[4],
               *parameters[4];
    for (size_t i = 0; i < 4; i++) parameters[i] = p->v[i].tensor;
    assert_ok(fac_func_per_sample_grads(m, squared_error, NULL, x, y, got, 4));
    assert_ok(fac_func_per_sample_grads(m, squared_error, NULL, x, y, chunked, 4, .chunk_size = 2));
    for (int i = 0; i < 5; i++) {
        fac_tensor *loss = fac_mse_loss(fac_forward(m, fac_select(x, 0, i)), fac_select(y, 0, i));
        const fac_tensors in = {parameters, 4};
        assert_ok(fac_grad(FAC_TENSORS(loss), in, want));
        for (size_t k = 0; k < 4; k++) {
            assert_close(fac_select(got[k], 0, i), want[k]);
            assert_close(fac_select(chunked[k], 0, i), want[k]);
        }
    }
    for (size_t k = 0; k < 4; k++) assert_null(fac_grad_of(parameters[k]));
    assert_int_equal(fac_func_per_sample_grads(m, squared_error, NULL, x, y, got, 3), FAC_ERR_ARGUMENT);
    assert_error(FAC_ERR_ARGUMENT, "has 4 parameters, but room for 3");
    fac_state_free(p);
    fac_module_release(m);
}

static void functional_call_leaves_the_module_as_it_was_S091(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_module *m = fac_linear_new(3, 2, .dtype = FAC_F64);
    fac_tensor *w = fac_module_parameter(m, "weight"), *other = fac_zeros_like(w),
               *b = fac_ones(FAC_INTS(2), .dtype = FAC_F64);
    fac_tensor *x = numbers(FAC_INTS(4, 3));
    assert_close(fac_functional_call(m, FAC_TENSORS(other, b), x), fac_ones(FAC_INTS(4, 2), .dtype = FAC_F64));
    assert_ptr_equal(fac_module_parameter(m, "weight"), w);
    assert_null(fac_functional_call(m, FAC_TENSORS(other, b), b)); /* fails within */
    fac_error_clear();
    assert_ptr_equal(fac_module_parameter(m, "weight"), w);
    assert_null(fac_functional_call(m, FAC_TENSORS(other), x));
    assert_error(FAC_ERR_ARGUMENT, "has 2 parameters, but 1 tensors were given");
    fac_module_release(m);
}

FAC_TEST_MAIN(FAC_TEST(func_grad_gives_gradients_that_are_not_recorded_S091),
              FAC_TEST(func_grad_of_func_grad_is_the_second_derivative_S091),
              FAC_TEST(func_grad_is_recorded_where_something_else_wants_a_gradient_S091),
              FAC_TEST(no_grad_within_func_grad_is_respected_S091), FAC_TEST(func_grad_of_what_has_none_S091),
              FAC_TEST(func_grad_in_vmap_is_that_of_each_sample_S091), FAC_TEST(func_vjp_pulls_cotangents_back_S091),
              FAC_TEST(func_jacrev_equals_a_loop_of_passes_S091),
              FAC_TEST(func_jacrev_in_vmap_is_that_of_each_sample_S091),
              FAC_TEST(func_hessian_is_that_of_the_formula_S091), FAC_TEST(grads_in_a_batch_equal_a_loop_S091),
              FAC_TEST(gradients_of_each_sample_equal_a_loop_S091),
              FAC_TEST(functional_call_leaves_the_module_as_it_was_S091))
