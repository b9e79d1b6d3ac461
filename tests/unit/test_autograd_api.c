/* Leaves, modes, hooks, custom functions, checkpoints, saved-tensor hooks, anomaly mode, gradients of custom operators. */
#include "autograd_test.h"
#include "dispatch/operator.h"
#include <pthread.h>

/* ---- leaves and modes --------------------------------------------------------------------------------------------------- */

static void S127_leaves_and_no_grad(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = vector(DOUBLES(1, 2)), *y;
    assert_true(fac_is_leaf(x));
    assert_false(fac_requires_grad(x));
    assert_null(fac_grad_of(x));
    assert_ptr_equal(fac_set_requires_grad(x, true), x);
    y = fac_mul(x, 2.0);
    assert_false(fac_is_leaf(y));
    assert_true(fac_requires_grad(y));
    assert_null(fac_set_requires_grad(y, false));
    assert_error(FAC_ERR_AUTOGRAD, "you can only change requires_grad flags of leaf variables.");
    assert_null(fac_set_requires_grad(fac_tensor_from((const int64_t[]){1}, FAC_I64, FAC_INTS(1)), true));
    assert_error(FAC_ERR_DTYPE, "only Tensors of floating point and complex dtype can require gradients");
    {
        FAC_NO_GRAD(g);
        assert_false(fac_is_grad_enabled());
        assert_false(fac_requires_grad(fac_mul(x, 2.0)));
        {
            FAC_ENABLE_GRAD(inner);
            assert_true(fac_requires_grad(fac_mul(x, 2.0)));
        }
        assert_false(fac_is_grad_enabled());
    }
    assert_true(fac_is_grad_enabled());
    assert_true(fac_set_grad_enabled(false));
    assert_false(fac_set_grad_enabled(true));
}

static void S127_detach_shares_memory_but_no_history(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = leaf(DOUBLES(1, 2)), *y = fac_mul(x, 2.0), *d = fac_detach(y);
    assert_false(fac_requires_grad(d));
    assert_true(fac_is_leaf(d));
    assert_true(fac_is_alias_of(d, y));
    assert_ok(fac_backward(fac_sum(fac_mul(y, d))));
    assert_values(fac_grad_of(x), 4, 8);
    assert_null(fac_grad_fn(x));
}

static void S127_integral_results_are_left_out(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = leaf(DOUBLES(1, 5, 3));
    fac_max_dim_result m = fac_max_dim(x, 0);
    assert_true(fac_requires_grad(m.values));
    assert_false(fac_requires_grad(m.indices));
    assert_ok(fac_backward(m.values));
    assert_values(fac_grad_of(x), 0, 1, 0);
    assert_false(fac_requires_grad(fac_gt(x, 2.0)));
}

static void S129_dropped_gradients_are_made_anew(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = leaf(DOUBLES(1, 2));
    for (int i = 0; i < 3; i++) {
        assert_ok(fac_set_grad(x, NULL));
        assert_null(fac_grad_of(x));
        assert_ok(fac_backward(fac_sum(fac_mul(x, 3.0))));
        assert_values(fac_grad_of(x), 3, 3);
    }
    fac_tensor *kept = fac_keep(fac_grad_of(x));
    assert_ok(fac_set_grad(x, NULL));
    assert_ok(fac_backward(fac_sum(x)));
    assert_values(kept, 3, 3);
    fac_release(kept);
    assert_int_equal(fac_set_grad(x, vector(DOUBLES(1, 2, 3))), FAC_ERR_SHAPE);
    assert_error(FAC_ERR_SHAPE, "assigned grad has data of a different size");
    assert_int_equal(fac_set_grad(x, fac_tensor_of(1, 2)), FAC_ERR_DTYPE);
    assert_error(FAC_ERR_DTYPE, "assigned grad has data of a different type");
    assert_ok(fac_set_grad(x, vector(DOUBLES(7, 8))));
    assert_values(fac_grad_of(x), 7, 8);
}

static void autograd_retained_gradient_dies_with_its_tensor(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = leaf(DOUBLES(1, 2)), *z;
    {
        FAC_SCOPE(inner);
        fac_tensor *y = fac_mul(x, 2.0);
        assert_ok(fac_retain_grad(y));
        z = fac_yield(inner, fac_sum(y));
    }
    assert_ok(fac_backward(z));
    fac_tensor *y = fac_mul(x, 2.0);
    assert_ok(fac_retain_grad(y));
    fac_mul_(y, 3.0); /* the hook moves on to the new history */
    assert_ok(fac_backward(fac_sum(fac_mul(y, 5.0))));
    assert_values(fac_grad_of(y), 5, 5);
    assert_int_equal(fac_retain_grad(vector(DOUBLES(1))), FAC_ERR_AUTOGRAD);
    assert_error(FAC_ERR_AUTOGRAD, "can't retain_grad on Tensor that has requires_grad=False");
}

/* ---- hooks -------------------------------------------------------------------------------------------------------------------- */

static fac_tensor *times_context(void *context, fac_tensor *grad) { return fac_mul(grad, *(double *)context); }

static fac_tensor *count_only(void *context, fac_tensor *grad) {
    (void)grad;
    ++*(int *)context;
    return NULL;
}

static void S128_tensor_hooks_see_and_replace_gradients(void **state) {
    (void)state;
    FAC_SCOPE(s);
    double ten = 10, two = 2;
    int calls = 0;
    fac_tensor *x = leaf(DOUBLES(1, 2)), *y = fac_mul(x, 3.0);
    fac_hook *on_y = fac_register_hook(y, times_context, &ten), *on_x = fac_register_hook(x, times_context, &two);
    assert_non_null(fac_register_hook(x, count_only, &calls));
    assert_ok(fac_backward(fac_sum(y), .retain_graph = true));
    assert_values(fac_grad_of(x), 60, 60);
    fac_hook_remove(on_y);
    fac_hook_remove(on_y);
    assert_ok(fac_set_grad(x, NULL));
    assert_ok(fac_backward(fac_sum(y)));
    assert_values(fac_grad_of(x), 6, 6);
    fac_hook_remove(on_x);
    assert_int_equal(calls, 2);
    assert_null(fac_register_hook(vector(DOUBLES(1)), count_only, &calls));
    assert_error(FAC_ERR_AUTOGRAD, "cannot register a hook on a tensor that doesn't require gradient");
    fac_tensor *g[1], *z = fac_mul(x, 3.0);
    assert_non_null(fac_register_hook(z, times_context, &ten));
    assert_ok(fac_grad(FAC_TENSORS(fac_sum(z)), FAC_TENSORS(z), g)); /* what is captured went through the hooks */
    assert_values(g[0], 10, 10);
}

static void after(void *context, fac_tensor *t) {
    ++*(int *)context;
    assert_values(fac_grad_of(t), 3, 3);
    assert_ok(fac_set_grad(t, NULL)); /* as an optimiser fused into backward does */
}

static void S128_post_accumulate_hooks_run_after(void **state) {
    (void)state;
    FAC_SCOPE(s);
    int calls = 0;
    fac_tensor *x = leaf(DOUBLES(1, 2));
    fac_hook *h = fac_register_post_accumulate_hook(x, after, &calls);
    assert_non_null(h);
    assert_ok(fac_backward(fac_sum(fac_mul(x, 3.0))));
    assert_int_equal(calls, 1);
    assert_null(fac_grad_of(x));
    fac_hook_remove(h);
    assert_ok(fac_backward(fac_sum(fac_mul(x, 3.0))));
    assert_int_equal(calls, 1);
    assert_null(fac_register_post_accumulate_hook(fac_mul(x, 2.0), after, &calls));
    assert_error(FAC_ERR_AUTOGRAD, "only be registered on leaf tensors");
}

static fac_status double_in(void *context, fac_tensor **grads, size_t n) {
    assert_int_equal(n, 1);
    ++*(int *)context;
    grads[0] = fac_mul(grads[0], 2.0);
    return fac_error();
}

static fac_status add_out(void *context, fac_tensor **in, size_t n_in, fac_tensor *const *out, size_t n_out) {
    (void)context;
    assert_int_equal(n_in, 2);
    assert_int_equal(n_out, 1);
    assert_values(out[0], 2, 2);
    in[0] = fac_add(in[0], 100.0);
    return fac_error();
}

static fac_status refuse(void *context, fac_tensor **grads, size_t n) {
    (void)context, (void)grads, (void)n;
    return fac_error_set(FAC_ERR_ARGUMENT, "not today");
}

static void S128_node_hooks_before_and_after(void **state) {
    (void)state;
    FAC_SCOPE(s);
    int calls = 0;
    fac_tensor *x = leaf(DOUBLES(1, 2)), *w = leaf(DOUBLES(5, 7)), *y = fac_mul(x, w);
    assert_non_null(fac_node_register_pre_hook(fac_grad_fn(y), double_in, &calls));
    fac_hook *post = fac_node_register_hook(fac_grad_fn(y), add_out, NULL);
    assert_ok(fac_backward(fac_sum(y), .retain_graph = true));
    assert_int_equal(calls, 1);
    assert_values(fac_grad_of(x), 110, 114);
    assert_values(fac_grad_of(w), 2, 4);
    fac_hook_remove(post);
    assert_ok(fac_set_grad(x, NULL));
    fac_hook *no = fac_node_register_pre_hook(fac_grad_fn(y), refuse, NULL);
    assert_int_equal(fac_backward(fac_sum(y), .retain_graph = true), FAC_ERR_ARGUMENT);
    assert_error(FAC_ERR_ARGUMENT, "MulBackward0: not today");
    assert_null(fac_grad_of(x));
    fac_hook_remove(no);
    assert_ok(fac_backward(fac_sum(y)));
    assert_values(fac_grad_of(x), 10, 14);
}

/* ---- custom functions ------------------------------------------------------------------------------------------------------------ */

static fac_status cube_forward(fac_function_ctx *c, fac_tensors in, fac_tensor **out) {
    assert_false(fac_is_grad_enabled());
    out[0] = fac_mul(fac_mul(in.v[0], in.v[0]), in.v[0]);
    out[1] = fac_gt(in.v[0], 2.0);
    FAC_NO_GRAD(g);
    return fac_function_save(c, FAC_TENSORS(in.v[0], out[0]));
}

static fac_status cube_backward(fac_function_ctx *c, fac_tensors grads, fac_tensor **out) {
    fac_tensors saved = fac_function_saved(c);
    if (!saved.v) return fac_error();
    assert_int_equal(saved.n, 2);
    assert_true(fac_function_needs_input_grad(c, 0));
    assert_null(grads.v[1]);
    /* 3 x^2 by way of the saved output: 3 x^3 / x */
    out[0] = fac_mul(grads.v[0], fac_div(fac_mul(saved.v[1], 3.0), saved.v[0]));
    return fac_error();
}

static const fac_function cube = {.name = "Cube", .n_outputs = 2, .forward = cube_forward, .backward = cube_backward};

static void function_saves_inputs_and_outputs_and_is_twice_differentiable(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = leaf(DOUBLES(2, 3)), *out[2], *g[1], *h[1];
    assert_ok(fac_function_apply(&cube, NULL, FAC_TENSORS(x), out));
    assert_values(out[0], 8, 27);
    assert_false(fac_requires_grad(out[1]));
    assert_string_equal(fac_node_name(fac_grad_fn(out[0])), "CubeBackward");
    assert_ok(fac_grad(FAC_TENSORS(fac_sum(out[0])), FAC_TENSORS(x), g, .create_graph = true));
    assert_values(g[0], 12, 27);
    assert_ok(fac_grad(FAC_TENSORS(fac_sum(g[0])), FAC_TENSORS(x), h));
    assert_values(h[0], 12, 18);
    assert_ok(fac_function_apply(&cube, NULL, FAC_TENSORS(vector(DOUBLES(2))), out));
    assert_false(fac_requires_grad(out[0]));
    fac_mul_(x = fac_mul(leaf(DOUBLES(1)), 1.0), 1.0);
    assert_ok(fac_function_apply(&cube, NULL, FAC_TENSORS(x), out));
    fac_add_(x, 1.0);
    assert_int_equal(fac_backward(fac_sum(out[0])), FAC_ERR_AUTOGRAD);
    assert_error(FAC_ERR_AUTOGRAD,
                 "CubeBackward: one of the variables needed for gradient computation has been modified");
}

static int destroyed;
static void destroy_user(void *user) { destroyed += *(int *)user; }

static fac_status scale_forward(fac_function_ctx *c, fac_tensors in, fac_tensor **out) {
    static int five = 5;
    assert_ptr_equal(fac_function_user(c), &destroyed);
    fac_function_set_user(c, &five);
    fac_function_mark_dirty(c, in.v[0]);
    out[0] = fac_mul_(in.v[0], 5.0);
    return fac_error();
}

static fac_status scale_backward(fac_function_ctx *c, fac_tensors grads, fac_tensor **out) {
    out[0] = fac_mul(grads.v[0], (double)*(int *)fac_function_user(c));
    return fac_error();
}

static const fac_function scale = {
    .name = "Scale", .n_outputs = 1, .forward = scale_forward, .backward = scale_backward, .destroy = destroy_user};

static void function_may_change_its_input_in_place(void **state) {
    (void)state;
    destroyed = 0;
    {
        FAC_SCOPE(s);
        fac_tensor *x = leaf(DOUBLES(1, 2, 3)), *y = fac_mul(x, 2.0), *part = fac_narrow(y, 0, 0, 2), *out;
        assert_ok(fac_function_apply(&scale, &destroyed, FAC_TENSORS(part), &out));
        assert_ptr_equal(out, part);
        assert_ok(fac_backward(fac_sum(y)));
        assert_values(fac_grad_of(x), 10, 10, 2);
        assert_int_equal(fac_function_apply(&scale, &destroyed, FAC_TENSORS(x), &out), FAC_ERR_AUTOGRAD);
        assert_error(FAC_ERR_AUTOGRAD, "a leaf Variable that requires grad is being used in an in-place operation.");
    }
    assert_int_equal(destroyed, 10);
}

static fac_status same_forward(fac_function_ctx *c, fac_tensors in, fac_tensor **out) {
    (void)c;
    out[0] = in.v[0];
    out[1] = fac_mul(in.v[0], 2.0);
    fac_function_mark_non_differentiable(c, out[1]);
    return FAC_OK;
}

static fac_status wrong_backward(fac_function_ctx *c, fac_tensors grads, fac_tensor **out) {
    (void)c, (void)grads;
    out[0] = vector(DOUBLES(1, 2, 3, 4, 5));
    return FAC_OK;
}

static void function_output_that_is_an_input_gets_a_history_of_its_own(void **state) {
    (void)state;
    FAC_SCOPE(s);
    const fac_function same = {.name = "Same", .n_outputs = 2, .forward = same_forward, .backward = wrong_backward};
    fac_tensor *x = leaf(DOUBLES(1, 2)), *out[2];
    assert_ok(fac_function_apply(&same, NULL, FAC_TENSORS(x), out));
    assert_ptr_not_equal(out[0], x);
    assert_true(fac_is_leaf(x));
    assert_true(fac_requires_grad(out[0]));
    assert_false(fac_requires_grad(out[1]));
    assert_int_equal(fac_backward(fac_sum(out[0])), FAC_ERR_SHAPE);
    assert_error(
        FAC_ERR_SHAPE,
        "Function SameBackward returned an invalid gradient at index 0 - got [5] but expected shape compatible "
        "with [2]");
}

/* ---- custom operators ---------------------------------------------------------------------------------------------------------------- */

static fac_status square_kernel(const fac_call_info *c, fac_value *stack) {
    (void)c;
    FAC_SCOPE(s);
    fac_tensor *t = fac_value_as_tensor(stack[0]), *r = fac_mul(fac_mul(t, t), fac_value_as_float(stack[1]));
    stack[0] = fac_value_tensor(r);
    return fac_error();
}

static fac_status square_backward(void *context, const fac_value *args, const fac_value *results, fac_tensors grads,
                                  fac_tensor **out) {
    (void)context;
    assert_values(fac_value_as_tensor(results[0]), 12, 27);
    out[0] = fac_mul(fac_mul(grads.v[0], fac_value_as_tensor(args[0])), 2 * fac_value_as_float(args[1]));
    return fac_error();
}

static fac_tensor *call_square(const char *name, fac_tensor *x) {
    fac_value args[2] = {fac_value_tensor(x), fac_value_float(3)}, result = fac_value_none();
    fac_status st = fac_call(name, args, 2, &result);
    fac_value_release(&args[0]);
    fac_tensor *r = NULL;
    if (st == FAC_OK && fac__take_tensor(&result, &r) == FAC_OK) r = fac__adopt_handle(fac__thread(), r);
    return r;
}

/* Registrations are retired rather than freed: starting afresh gives their memory back. */
static void S092_users_operator_with_and_without_a_gradient(void **state) {
    (void)state;
    fac_registration *op = fac_register_operator("tag::square(Tensor x, float k) -> Tensor", FAC_HERE);
    fac_registration *kernel = fac_register_boxed("tag::square", "CPU", square_kernel, NULL, FAC_HERE);
    {
        FAC_SCOPE(s);
        fac_tensor *x = leaf(DOUBLES(2, 3)), *y = call_square("tag::square", x);
        assert_no_error();
        assert_true(fac_requires_grad(y));
        assert_int_equal(fac_backward(fac_sum(y)), FAC_ERR_AUTOGRAD);
        assert_error(FAC_ERR_AUTOGRAD, "derivative for tag::square is not implemented");
        assert_false(fac_requires_grad(call_square("tag::square", vector(DOUBLES(1)))));
        fac_registration *gradient = fac_register_gradient("tag::square", square_backward, NULL, FAC_HERE);
        y = call_square("tag::square", x);
        assert_string_equal(fac_node_name(fac_grad_fn(y)), "squareBackward");
        assert_ok(fac_backward(fac_sum(y), .retain_graph = true));
        assert_values(fac_grad_of(x), 12, 18);
        fac_add_(y, 1.0); /* the saved result is watched */
        assert_int_equal(fac_backward(fac_sum(y)), FAC_ERR_AUTOGRAD);
        assert_error(FAC_ERR_AUTOGRAD, "modified by an inplace operation");
        fac_registration_release(gradient);
    }
    fac_registration_release(kernel);
    fac_registration_release(op);
    fac_shutdown();
    assert_ok(fac_init());
}

static fac_status times_kernel(const fac_call_info *c, fac_value *stack) {
    (void)c;
    stack[0] = fac_value_tensor(fac_mul_(fac_value_as_tensor(stack[0]), fac_value_as_tensor(stack[1])));
    return fac_error();
}

static fac_status times_backward(void *context, const fac_value *args, const fac_value *results, fac_tensors grads,
                                 fac_tensor **out) {
    (void)context, (void)results;
    out[0] = fac_mul(grads.v[0], fac_value_as_tensor(args[1]));
    return fac_error();
}

static void operator_that_writes_what_its_gradient_reads_is_found_out(void **state) {
    (void)state;
    fac_registration *op = fac_register_operator("tag::times_(Tensor(a!) x, Tensor y) -> Tensor(a!)", FAC_HERE);
    fac_registration *kernel = fac_register_boxed("tag::times_", "CPU", times_kernel, NULL, FAC_HERE);
    fac_registration *gradient = fac_register_gradient("tag::times_", times_backward, NULL, FAC_HERE);
    for (int itself = 0; itself < 2; itself++) {
        FAC_SCOPE(s);
        fac_tensor *x = leaf(DOUBLES(2, 3)), *t = fac_mul(x, 1.0), *y = itself ? t : vector(DOUBLES(5, 7));
        fac_value args[2] = {fac_value_tensor(t), fac_value_tensor(y)}, result = fac_value_none();
        assert_ok(fac_call("tag::times_", args, 2, &result));
        for (int i = 0; i < 2; i++) fac_value_release(&args[i]);
        fac_value_release(&result);
        fac_status st = fac_backward(fac_sum(t));
        if (itself) {
            assert_int_equal(st, FAC_ERR_AUTOGRAD);
            assert_error(FAC_ERR_AUTOGRAD, "modified by an inplace operation");
        } else {
            assert_ok(st);
            assert_values(fac_grad_of(x), 5, 7);
        }
    }
    fac_registration_release(gradient);
    fac_registration_release(kernel);
    fac_registration_release(op);
    fac_shutdown();
    assert_ok(fac_init());
}

/* ---- checkpoints and saved-tensor hooks --------------------------------------------------------------------------------------------------- */

typedef struct block {
    fac_tensor *w;
    int runs;
    bool random;
} block;

static fac_tensor *run_block(void *context, fac_tensors in) {
    block *b = context;
    b->runs++;
    fac_tensor *h = fac_tanh(fac_mul(in.v[0], b->w));
    if (b->random) h = fac_mul(h, fac_rand(FAC_INTS(3), .dtype = FAC_F64));
    return fac_mul(h, h);
}

static void checkpoint_gives_the_same_gradients_by_running_again(void **state) {
    (void)state;
    for (int random = 0; random < 2; random++) {
        FAC_SCOPE(s);
        block b = {leaf(DOUBLES(0.5, -1, 2)), 0, random != 0};
        fac_tensor *x = leaf(DOUBLES(0.1, 0.2, 0.3)), *plain_x, *plain_w;
        fac_manual_seed(7);
        assert_ok(fac_backward(fac_sum(run_block(&b, FAC_TENSORS(x)))));
        plain_x = fac_clone(fac_grad_of(x));
        plain_w = fac_clone(fac_grad_of(b.w));
        assert_ok(fac_set_grad(x, NULL));
        assert_ok(fac_set_grad(b.w, NULL));
        fac_manual_seed(7);
        b.runs = 0;
        fac_tensor *y = fac_checkpoint(run_block, &b, FAC_TENSORS(x)), *next = fac_rand(FAC_INTS(1));
        assert_int_equal(b.runs, 1);
        assert_ok(fac_backward(fac_sum(y)));
        assert_int_equal(b.runs, 2);
        assert_true(fac_equal(fac_grad_of(x), plain_x));
        assert_true(fac_equal(fac_grad_of(b.w), plain_w));
        /* The generator goes on as if nothing had run again. */
        fac_tensor *after_backward = fac_rand(FAC_INTS(1));
        fac_manual_seed(7);
        if (random) assert_non_null(fac_rand(FAC_INTS(3), .dtype = FAC_F64));
        assert_true(fac_equal(fac_rand(FAC_INTS(1)), next));
        assert_true(fac_equal(fac_rand(FAC_INTS(1)), after_backward));
    }
}

static fac_tensor *run_outer(void *context, fac_tensors in) { return fac_exp(fac_checkpoint(run_block, context, in)); }

static void checkpoint_nests(void **state) {
    (void)state;
    FAC_SCOPE(s);
    block b = {leaf(DOUBLES(0.5, -1, 2)), 0, false};
    fac_tensor *x = leaf(DOUBLES(0.1, 0.2, 0.3)), *want[2], *got[2];
    fac_tensor *y = fac_sum(fac_exp(run_block(&b, FAC_TENSORS(x))));
    assert_ok(fac_grad(FAC_TENSORS(y), FAC_TENSORS(x, b.w), want));
    y = fac_sum(fac_checkpoint(run_outer, &b, FAC_TENSORS(x)));
    assert_ok(fac_grad(FAC_TENSORS(y), FAC_TENSORS(x, b.w), got));
    assert_true(fac_equal(got[0], want[0]));
    assert_true(fac_equal(got[1], want[1]));
}

static void checkpoint_works_with_create_graph(void **state) {
    (void)state;
    FAC_SCOPE(s);
    block b = {leaf(DOUBLES(0.5, -1, 2)), 0, false};
    fac_tensor *x = leaf(DOUBLES(0.1, 0.2, 0.3)), *g[1], *h[1], *want[1];
    fac_tensor *y = fac_sum(run_block(&b, FAC_TENSORS(x)));
    assert_ok(fac_grad(FAC_TENSORS(y), FAC_TENSORS(x), g, .create_graph = true));
    assert_ok(fac_grad(FAC_TENSORS(fac_sum(g[0])), FAC_TENSORS(b.w), want));
    y = fac_sum(fac_checkpoint(run_block, &b, FAC_TENSORS(x)));
    assert_ok(fac_grad(FAC_TENSORS(y), FAC_TENSORS(x), g, .create_graph = true));
    assert_ok(fac_grad(FAC_TENSORS(fac_sum(g[0])), FAC_TENSORS(b.w), h));
    assert_true(fac_allclose(h[0], want[0]));
}

static int packed, unpacked, dropped;

static void *pack(void *context, fac_tensor *t) {
    (void)context;
    packed++;
    return fac_keep(fac_mul(t, 1.0)); /* stands for a file or another device */
}

static fac_tensor *unpack(void *context, void *handle) {
    (void)context;
    unpacked++;
    return handle;
}

static void drop_packed(void *context, void *handle) {
    (void)context;
    dropped++;
    fac_release(handle);
}

static void saved_tensor_hooks_see_what_is_saved(void **state) {
    (void)state;
    packed = unpacked = dropped = 0;
    {
        FAC_SCOPE(s);
        fac_tensor *x = leaf(DOUBLES(1, 2)), *w = leaf(DOUBLES(3, 4)), *g[1], *h[1];
        fac_set_saved_tensor_hooks(&(fac_saved_tensor_hooks){pack, unpack, drop_packed, NULL});
        fac_tensor *y = fac_sum(fac_mul(fac_mul(x, w), x));
        fac_set_saved_tensor_hooks(NULL);
        assert_int_equal(packed, 4);
        assert_ok(fac_grad(FAC_TENSORS(y), FAC_TENSORS(x), g, .create_graph = true));
        assert_values(g[0], 6, 16);
        assert_int_equal(unpacked, 3); /* w is not asked for, and so not the x that its gradient reads */
        assert_ok(fac_grad(FAC_TENSORS(fac_sum(g[0])), FAC_TENSORS(w), h)); /* history survives packing */
        assert_values(h[0], 2, 4);
    }
    assert_int_equal(dropped, packed);
}

/* ---- anomaly, threads --------------------------------------------------------------------------------------------------------------------- */

static void anomaly_mode_names_the_node_that_made_a_nan(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = leaf(DOUBLES(0)), *y = fac_sum(fac_mul(fac_sqrt(x), 0.0));
    assert_ok(fac_backward(y, .retain_graph = true));
    assert_false(fac_set_detect_anomaly(true));
    assert_int_equal(fac_backward(y), FAC_ERR_AUTOGRAD);
    assert_error(FAC_ERR_AUTOGRAD, "Function 'SqrtBackward0' returned nan values in its 0th output.");
    assert_true(fac_set_detect_anomaly(false));
}

enum { THREADS = 4, PASSES = 200 };

static void *train(void *shared) {
    for (int i = 0; i < PASSES; i++) {
        FAC_SCOPE(s);
        fac_tensor *x = vector(DOUBLES(1, 2));
        if (fac_backward(fac_sum(fac_mul(fac_mul(shared, x), 2.0)))) return (void *)1;
    }
    return NULL;
}

static void autograd_threads_share_a_leaf(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *w = leaf(DOUBLES(5, 6));
    pthread_t t[THREADS];
    for (int i = 0; i < THREADS; i++) assert_int_equal(pthread_create(&t[i], NULL, train, w), 0);
    void *failed[THREADS] = {0};
    for (int i = 0; i < THREADS; i++) pthread_join(t[i], &failed[i]);
    for (int i = 0; i < THREADS; i++) assert_null(failed[i]);
    assert_values(fac_grad_of(w), 2.0 * THREADS * PASSES, 4.0 * THREADS * PASSES);
}

FAC_TEST_MAIN(FAC_TEST(S127_leaves_and_no_grad), FAC_TEST(S127_detach_shares_memory_but_no_history),
              FAC_TEST(S127_integral_results_are_left_out), FAC_TEST(S129_dropped_gradients_are_made_anew),
              FAC_TEST(autograd_retained_gradient_dies_with_its_tensor),
              FAC_TEST(S128_tensor_hooks_see_and_replace_gradients), FAC_TEST(S128_post_accumulate_hooks_run_after),
              FAC_TEST(S128_node_hooks_before_and_after),
              FAC_TEST(function_saves_inputs_and_outputs_and_is_twice_differentiable),
              FAC_TEST(function_may_change_its_input_in_place),
              FAC_TEST(function_output_that_is_an_input_gets_a_history_of_its_own),
              FAC_TEST(S092_users_operator_with_and_without_a_gradient),
              FAC_TEST(operator_that_writes_what_its_gradient_reads_is_found_out),
              FAC_TEST(checkpoint_gives_the_same_gradients_by_running_again), FAC_TEST(checkpoint_nests),
              FAC_TEST(checkpoint_works_with_create_graph), FAC_TEST(saved_tensor_hooks_see_what_is_saved),
              FAC_TEST(anomaly_mode_names_the_node_that_made_a_nan), FAC_TEST(autograd_threads_share_a_leaf))
