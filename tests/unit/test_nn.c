/* Modules: trees, buffers, hooks, conversion, copies, state and files. */
#include "nn/module.h"
#include "support/support.h"
#include <facula/facula.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- the model of the examples: two linear layers with a ReLU between ---- */

typedef struct toy {
    fac_module *net1, *net2;
} toy;

static fac_tensor *toy_forward(fac_module *self, fac_tensor *x) {
    toy *t = fac_module_state(self);
    return fac_forward(t->net2, fac_relu(fac_forward(t->net1, x)));
}

static fac_status toy_copy(fac_module *copy, fac_module *self) {
    (void)self;
    *(toy *)fac_module_state(copy) = (toy){fac_module_child(copy, "net1"), fac_module_child(copy, "net2")};
    return fac_error();
}

static const fac_module_class toy_class = {
    .name = "ToyModel", .version = 3, .state_size = sizeof(toy), .copy = toy_copy, .forward = toy_forward};

static fac_module *toy_new(void) {
    fac_module *m = fac_module_new(&toy_class);
    if (!m) return NULL;
    toy *t = fac_module_state(m);
    t->net1 = fac_module_add(m, "net1", fac_linear_new(10, 10));
    t->net2 = fac_module_add(m, "net2", fac_linear_new(10, 5));
    return m;
}

/* ---- structure ---- */

static void E04_a_new_module_is_empty_and_training(void **state) {
    (void)state;
    fac_module *m = fac_relu_new();
    fac_state *p = fac_module_parameters(m), *b = fac_module_buffers(m), *c = fac_module_children(m);
    assert_int_equal(p->n + b->n + c->n, 0);
    assert_true(fac_module_is_training(m));
    fac_state_free(p);
    fac_state_free(b);
    fac_state_free(c);
    fac_module_release(m);
}

static void S147_parts_keep_their_order_and_names_must_be_free(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_module *m = toy_new();
    fac_state *p = fac_module_parameters(m);
    const char *names[] = {"net1.weight", "net1.bias", "net2.weight", "net2.bias"};
    assert_int_equal(p->n, 4);
    for (int i = 0; i < 4; i++) assert_string_equal(p->v[i].name, names[i]);
    assert_null(fac_module_add_parameter(m, "net1", fac_tensor_of(1)));
    assert_error(FAC_ERR_ARGUMENT, "already has a part named 'net1'");
    assert_null(fac_module_add_buffer(m, "a.b", fac_tensor_of(1)));
    assert_error(FAC_ERR_ARGUMENT, "dot");
    assert_null(fac_module_add(m, "", fac_relu_new()));
    assert_error(FAC_ERR_ARGUMENT, "empty");
    fac_module_train(m, false);
    assert_false(fac_module_is_training(fac_module_child(m, "net2")));
    assert_int_equal(fac_module_parameter_count(m), 10 * 10 + 10 + 10 * 5 + 5);
    fac_state_free(p);
    fac_module_release(m);
}

static void S148_S150_buffers_that_do_not_persist_are_not_saved(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_module *m = toy_new();
    fac_module_add_buffer(m, "kept", fac_tensor_of(1));
    fac_module_add_buffer(m, "scratch", fac_tensor_of(2), .persistent = false);
    fac_state *sd = fac_module_state_dict(m);
    assert_non_null(fac_state_get(sd, "kept"));
    assert_null(fac_state_get(sd, "scratch"));
    assert_int_equal(sd->n, 5);
    assert_ok(fac_module_to(m, .dtype = FAC_F64));
    assert_int_equal(fac_tensor_dtype(fac_module_buffer(m, "scratch")), FAC_F64);
    fac_state_free(sd);
    fac_module_release(m);
}

static void S151_shared_parts_are_visited_once(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_module *m = fac_module_new(&toy_class), *shared = fac_linear_new(2, 2);
    fac_module_add(m, "a", fac_module_keep(shared));
    fac_module_add(m, "b", shared);
    fac_state *p = fac_module_parameters(m), *all = fac_module_modules(m);
    assert_int_equal(p->n, 2);
    assert_int_equal(all->n, 2);
    assert_string_equal(all->v[0].name, "");
    fac_state_free(p);
    fac_state_free(all);
    fac_module_release(m);
}

/* ---- running ---- */

static void E02_S161_the_toy_model_runs_and_equals_its_formula(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_module *m = toy_new();
    fac_tensor *x = fac_randn(FAC_SHAPE(20, 10)), *y = fac_forward(m, x);
    fac_tensor *w1 = fac_module_parameter(m, "net1.weight"), *b1 = fac_module_parameter(m, "net1.bias");
    fac_tensor *w2 = fac_module_parameter(m, "net2.weight"), *b2 = fac_module_parameter(m, "net2.bias");
    fac_tensor *h = fac_relu(fac_add(fac_matmul(x, fac_t(w1)), b1));
    assert_true(fac_allclose(y, fac_add(fac_matmul(h, fac_t(w2)), b2), .rtol = 1e-5, .atol = 1e-6));
    assert_true(fac_item(fac_max(fac_abs(w1))) <= 1 / sqrt(10.0));
    assert_no_error();
    fac_module_release(m);
}

static void E03_a_training_step_lowers_the_loss(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_manual_seed(3);
    fac_module *m = toy_new(), *mse = fac_mse_loss_new();
    fac_optimizer *o = fac_sgd_new(m, 0.05);
    fac_tensor *x = fac_randn(FAC_SHAPE(20, 10)), *labels = fac_randn(FAC_SHAPE(20, 5));
    double first = 0, last = 0;
    for (int i = 0; i < 20; i++) {
        FAC_SCOPE(step);
        fac_optimizer_zero_grad(o);
        fac_tensor *loss = fac_forward_many(mse, FAC_TENSORS(fac_forward(m, x), labels));
        assert_ok(fac_backward(loss));
        assert_ok(fac_optimizer_step(o));
        last = fac_item(loss);
        if (i == 0) first = last;
    }
    assert_true(last < first);
    fac_optimizer_release(o);
    fac_module_release(mse);
    fac_module_release(m);
}

static void S162_dropout_follows_the_mode_and_sequential_names_its_children(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_module *m = fac_sequential(fac_dropout_new(0.5), fac_flatten_new());
    fac_tensor *x = fac_ones(FAC_SHAPE(10, 10, 10)), *y = fac_forward(m, x);
    const double mean = fac_item(fac_mean(y));
    assert_int_equal(fac_tensor_ndim(y), 2);
    assert_true(mean > 0.8 && mean < 1.2 && fac_item(fac_max(y)) == 2 && fac_item(fac_min(y)) == 0);
    fac_module_train(m, false);
    assert_true(fac_equal(fac_forward(m, x), fac_view(x, FAC_INTS(10, 100))));
    assert_non_null(fac_module_child(m, "1"));
    fac_module_release(m);
    assert_null(fac_dropout_new(1.5));
    assert_error(FAC_ERR_ARGUMENT, "between 0 and 1");
}

static void forward_errors_name_what_is_wrong(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_module *m = toy_new();
    assert_null(fac_forward(m, NULL));
    assert_error(FAC_ERR_ARGUMENT, "NULL");
    assert_null(fac_forward(m, fac_ones(FAC_SHAPE(2, 3))));
    assert_error(FAC_ERR_SHAPE, "");
    assert_null(fac_forward_many(m, FAC_TENSORS(fac_ones(FAC_SHAPE(1)), fac_ones(FAC_SHAPE(1)))));
    assert_error(FAC_ERR_UNSUPPORTED, "2 inputs");
    fac_module_release(m);
}

/* ---- hooks ---- */

static int order[8], n_order;

static fac_tensor *pre(void *context, fac_module *m, fac_tensor *x) {
    (void)m;
    order[n_order++] = *(int *)context;
    return fac_mul(x, 2);
}
static fac_tensor *post(void *context, fac_module *m, fac_tensor *x, fac_tensor *y) {
    (void)m, (void)x, (void)y;
    order[n_order++] = *(int *)context;
    return NULL;
}
static fac_tensor *on_grad(void *context, fac_module *m, fac_tensor *g) {
    (void)m;
    order[n_order++] = *(int *)context;
    return fac_mul(g, 10);
}

static void S149_S128_hooks_run_in_order_and_can_be_removed(void **state) {
    (void)state;
    FAC_SCOPE(s);
    int one = 1, two = 2, three = 3, four = 4;
    n_order = 0;
    fac_module *m = fac_relu_new();
    fac_hook *h1 = fac_module_register_forward_pre_hook(m, pre, &one);
    fac_module_register_forward_hook(m, post, &two);
    fac_module_register_full_backward_pre_hook(m, on_grad, &three);
    fac_module_register_full_backward_hook(m, on_grad, &four);
    fac_tensor *x = fac_ones(FAC_SHAPE(2), .requires_grad = true);
    fac_tensor *y = fac_forward(m, x);
    assert_true(fac_item(fac_sum(y)) == 4);
    assert_ok(fac_backward(fac_sum(y)));
    assert_int_equal(n_order, 4);
    for (int i = 0; i < 4; i++) assert_int_equal(order[i], i + 1);
    assert_true(fac_item(fac_select(fac_grad_of(x), 0, 0)) == 2 * 10 * 10);
    fac_hook_remove(h1);
    n_order = 0;
    assert_non_null(fac_forward(m, x));
    assert_int_equal(order[0], 2);
    fac_module_release(m);
}

/* Notes what it is called with, and multiplies the first gradient by 10. */
static struct {
    fac_module *m;
    size_t n_in, n_out;
    double in, out;
} seen;
static fac_status on_node(void *context, fac_module *m, fac_tensor **in, size_t n_in, fac_tensor *const *out,
                          size_t n_out) {
    order[n_order++] = *(int *)context;
    seen.m = m, seen.n_in = n_in, seen.n_out = n_out;
    seen.in = fac_item(fac_sum(in[0])), seen.out = fac_item(fac_sum(out[0]));
    in[0] = fac_mul(in[0], 10);
    return fac_error();
}

static void S149_older_backward_hooks_are_about_the_last_node(void **state) {
    (void)state;
    FAC_SCOPE(s);
    int one = 1, two = 2;
    n_order = 0;
    fac_module *m = fac_sequential(fac_tanh_new(), fac_relu_new());
    fac_hook *first = fac_module_register_backward_hook(m, on_node, &one);
    assert_non_null(first);
    assert_non_null(fac_module_register_backward_hook(m, on_node, &two));
    fac_tensor *x = fac_full(FAC_SHAPE(2), -0.5);
    fac_set_requires_grad(x, true);
    assert_ok(fac_backward(fac_sum(fac_forward(m, x)))); /* relu lets nothing through, tanh is not asked */
    assert_int_equal(n_order, 2);
    assert_true(order[0] == 1 && order[1] == 2);
    assert_true(seen.m == m && seen.n_in == 1 && seen.n_out == 1 && seen.in == 0 && seen.out == 2);
    fac_tensor *z = fac_full(FAC_SHAPE(2), 0.0, .requires_grad = true);
    fac_tensor *y = fac_forward(m, fac_add(z, 0.5));
    fac_hook_remove(first); /* before backward */
    n_order = 0;
    assert_ok(fac_backward(fac_sum(y)));
    assert_true(n_order == 1 && order[0] == 2 && seen.in == 2);
    const double slope = 1 - tanh(0.5) * tanh(0.5);
    assert_true(fabs(fac_item(fac_select(fac_grad_of(z), 0, 0)) - 10 * slope) < 1e-5);
    fac_set_grad_enabled(false);
    assert_non_null(fac_forward(m, x)); /* a result without a node */
    fac_set_grad_enabled(true);
    y = fac_forward(m, z);
    fac_module_release(m);
    n_order = 0;
    assert_ok(fac_backward(fac_sum(y)));
    assert_int_equal(n_order, 0);
}

static void S149_older_and_full_backward_hooks_do_not_meet(void **state) {
    (void)state;
    int one = 1;
    fac_module *m = fac_relu_new();
    fac_hook *h = fac_module_register_full_backward_hook(m, on_grad, &one);
    assert_null(fac_module_register_backward_hook(m, on_node, &one));
    assert_error(FAC_ERR_STATE, "ReLU has backward hooks");
    fac_hook_remove(h);
    h = fac_module_register_backward_hook(m, on_node, &one);
    assert_non_null(fac_module_register_full_backward_pre_hook(m, on_grad, &one)); /* as in PyTorch */
    assert_null(fac_module_register_full_backward_hook(m, on_grad, &one));
    assert_error(FAC_ERR_STATE, "ReLU has backward hooks");
    assert_null(fac_module_register_backward_hook(m, NULL, NULL));
    assert_error(FAC_ERR_ARGUMENT, "a function");
    fac_module_release(m);
}

static fac_hook *to_move;
static fac_tensor *move_while_running(void *context, fac_module *m, fac_tensor *x, fac_tensor *y) {
    (void)context, (void)m, (void)x, (void)y;
    (void)!fac_hook_prepend(to_move);
    return NULL;
}

static void S149_hooks_can_be_put_before_others(void **state) {
    (void)state;
    FAC_SCOPE(s);
    int one = 1, two = 2, three = 3;
    fac_module *m = fac_relu_new();
    assert_non_null(fac_module_register_forward_hook(m, post, &one));
    assert_non_null(fac_module_register_forward_hook(m, post, &two));
    fac_hook *h = fac_module_register_forward_hook(m, post, &three);
    for (int i = 0; i < 2; i++) { /* the second time it is there */
        assert_ok(fac_hook_prepend(h));
        n_order = 0;
        assert_non_null(fac_forward(m, fac_ones(2)));
        assert_true(n_order == 3 && order[0] == 3 && order[1] == 1 && order[2] == 2);
    }
    to_move = h;
    assert_non_null(fac_module_register_forward_hook(m, move_while_running, NULL));
    assert_null(fac_forward(m, fac_ones(2)));
    assert_error(FAC_ERR_STATE, "while hooks beside it run");
    fac_hook_remove(h);
    assert_ok(fac_hook_prepend(h)); /* gone */
    assert_ok(fac_hook_prepend(NULL));
    fac_module_release(m);
}

/* ---- conversion ---- */

/* Sees every call while the thread's tracing key is on, and notes the sizes of what is converted. */
enum { BUFFER_SIZE = 11 };
static int64_t converted[16];
static int n_converted;
static bool recorded;
static fac_status note_conversion(const fac_call_info *c, fac_value *stack) {
    if (strcmp(fac_operator_name(c->op), "aten::_to_copy") == 0 && n_converted < 16) {
        converted[n_converted++] = fac_tensor_numel(fac_value_as_tensor(stack[0]));
        recorded |= fac_is_grad_enabled() && converted[n_converted - 1] != BUFFER_SIZE;
    }
    return fac_redispatch_below(c, FAC_KEY_TRACE, stack);
}

static void S155_E08_children_then_parameters_each_with_its_gradient_then_buffers(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_module *m = fac_module_new(&toy_class);
    fac_module_add_buffer(m, "buffer", fac_zeros(FAC_SHAPE(BUFFER_SIZE)));
    fac_tensor *own = fac_module_add_parameter(m, "own", fac_zeros(FAC_SHAPE(7)));
    fac_module_add_parameter(m, "none", NULL);
    fac_module_add(m, "child", fac_linear_new(2, 3));
    assert_ok(fac_set_grad(own, fac_ones(FAC_SHAPE(7))));
    fac_registration *r = fac_register_fallback("Trace", note_conversion, NULL, FAC_HERE);
    assert_non_null(r);
    const fac_keyset was = fac_thread_include(fac_thread_included() | fac_keyset_of(FAC_KEY_TRACE));
    n_converted = 0, recorded = false;
    assert_ok(fac_module_to(m, .dtype = FAC_F64));
    fac_thread_include(was);
    const int64_t expected[] = {6, 3, 7, 7, BUFFER_SIZE};
    assert_int_equal(n_converted, FAC_COUNT(expected));
    for (int i = 0; i < n_converted; i++) assert_int_equal(converted[i], expected[i]);
    assert_false(recorded); /* parameters and gradients change below autograd; buffers need not */
    assert_int_equal(fac_tensor_dtype(fac_grad_of(own)), FAC_F64);
    fac_module_release(m);
    fac_registration_release(r);
    fac_scope_end(&s);
    fac_shutdown(); /* retired registrations live until then */
    assert_ok(fac_init());
}

static void S155_S156_S157_S159_E08_conversion_keeps_parameters_and_moves_gradients(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_module *m = toy_new();
    fac_module_add_buffer(m, "count", fac_zeros(FAC_SHAPE(), .dtype = FAC_I64));
    fac_tensor *w = fac_module_parameter(m, "net1.weight");
    assert_ok(fac_backward(fac_sum(fac_forward(m, fac_ones(FAC_SHAPE(1, 10))))));
    const fac_module *child = fac_module_child(m, "net1");
    fac_tensor *wanted = fac_set_requires_grad(fac_ones_like(w), true);
    assert_ok(fac_set_grad(w, wanted));
    assert_ok(fac_module_to(m, .dtype = FAC_F64));
    assert_ptr_equal(fac_module_child(m, "net1"), child);
    assert_ptr_equal(fac_module_parameter(m, "net1.weight"), w);
    assert_true(fac_requires_grad(fac_grad_of(w)));
    assert_int_equal(fac_tensor_dtype(w), FAC_F64);
    assert_int_equal(fac_tensor_dtype(fac_grad_of(w)), FAC_F64);
    assert_true(fac_is_leaf(w) && fac_requires_grad(w));
    assert_int_equal(fac_tensor_dtype(fac_module_buffer(m, "count")), FAC_I64);
    assert_int_equal(fac_module_to(m, .dtype = FAC_I32), FAC_ERR_DTYPE);
    assert_error(FAC_ERR_DTYPE, "floating or complex");
    assert_false(fac_set_overwrite_module_params(true));
    assert_ok(fac_module_to(m, .dtype = FAC_F32));
    assert_true(fac_set_overwrite_module_params(false));
    assert_ptr_not_equal(fac_module_parameter(m, "net1.weight"), w);
    assert_int_equal(fac_tensor_dtype(fac_grad_of(fac_module_parameter(m, "net1.weight"))), FAC_F32);
    fac_module_release(m);
}

static void S169_a_copy_is_deep_and_its_state_points_at_its_own_parts(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_module *m = toy_new(), *c = fac_module_copy(m);
    toy *t = fac_module_state(c);
    assert_ptr_equal(t->net1, fac_module_child(c, "net1"));
    assert_ptr_not_equal(t->net1, fac_module_child(m, "net1"));
    fac_tensor *x = fac_randn(FAC_SHAPE(3, 10));
    assert_true(fac_equal(fac_forward(m, x), fac_forward(c, x)));
    {
        FAC_NO_GRAD(g);
        fac_zero_(fac_module_parameter(c, "net1.weight"));
    }
    assert_true(fac_item(fac_sum(fac_abs(fac_module_parameter(m, "net1.weight")))) > 0);
    fac_module_release(m);
    fac_module_release(c);
}

/* ---- state ---- */

static void S150_state_dicts_load_strictly_and_change_nothing_on_an_error(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_module *a = toy_new(), *b = toy_new();
    fac_state *sd = fac_module_state_dict(a);
    assert_ok(fac_module_load_state_dict(b, sd, true));
    assert_true(fac_equal(fac_module_parameter(a, "net2.bias"), fac_module_parameter(b, "net2.bias")));
    fac_state *part = fac_state_new();
    assert_ok(fac_state_set(part, "net1.weight", fac_zeros(FAC_SHAPE(10, 10))));
    assert_ok(fac_state_set(part, "other", fac_zeros(FAC_SHAPE(1))));
    assert_int_equal(fac_module_load_state_dict(b, part, true), FAC_ERR_NOT_FOUND);
    assert_error(FAC_ERR_NOT_FOUND, "unexpected 'other'");
    assert_true(fac_equal(fac_module_parameter(a, "net1.weight"), fac_module_parameter(b, "net1.weight")));
    assert_ok(fac_module_load_state_dict(b, part, false));
    assert_true(fac_item(fac_sum(fac_abs(fac_module_parameter(b, "net1.weight")))) == 0);
    assert_ok(fac_state_set(part, "net1.weight", fac_zeros(FAC_SHAPE(3, 3))));
    assert_int_equal(fac_module_load_state_dict(b, part, false), FAC_ERR_SHAPE);
    assert_error(FAC_ERR_SHAPE, "size mismatch for net1.weight");
    fac_state_free(part);
    fac_state_free(sd);
    fac_module_release(a);
    fac_module_release(b);
}

static void module_files_round_trip_bit_for_bit(void **state) {
    (void)state;
    FAC_SCOPE(s);
    char path[] = "/tmp/facula-test-nn-XXXXXX";
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    fac_module *a = toy_new(), *b = toy_new();
    assert_ok(fac_module_save(a, path));
    assert_ok(fac_module_load(b, path, true));
    fac_state *pa = fac_module_parameters(a), *pb = fac_module_parameters(b);
    for (size_t i = 0; i < pa->n; i++) assert_true(fac_equal(pa->v[i].tensor, pb->v[i].tensor));
    fac_state_free(pa);
    fac_state_free(pb);
    fac_module_release(a);
    fac_module_release(b);
    unlink(path);
}

/* Version 2 of a class that called its weight "w" in version 1, and had it doubled. */
static fac_status rename_and_halve(fac_module *self, fac_state *entries, const char *prefix, int from_version) {
    char old[64], new[64];
    (void)self;
    snprintf(old, sizeof old, "%sw", prefix);
    snprintf(new, sizeof new, "%sweight", prefix);
    fac_tensor *w = fac_state_get(entries, old);
    if (from_version != 1 || !w) return fac_error_set(FAC_ERR_FORMAT, "version %d has no '%s'", from_version, old);
    fac_status st = fac_state_set(entries, new, fac_mul(w, 0.5));
    fac_state_remove(entries, old);
    fac_state_remove(entries, "is not there");
    return st;
}

static fac_module *holder_of(const fac_module_class *cls, const char *name, fac_tensor *t) {
    fac_module *outer = fac_module_new(&toy_class), *m = fac_module_add(outer, "inner", fac_module_new(cls));
    assert_non_null(fac_module_add_parameter(m, name, t));
    return outer;
}

static void S150_an_older_file_is_upgraded_by_its_class(void **state) {
    (void)state;
    static const fac_module_class before = {.name = "Holder", .version = 1},
                                  after = {.name = "Holder", .version = 2, .upgrade = rename_and_halve};
    char path[] = "/tmp/facula-upgrade-XXXXXX";
    FAC_SCOPE(s);
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    fac_module *a = holder_of(&before, "w", fac_tensor_of(2, 4)), *b = holder_of(&after, "weight", fac_tensor_of(0, 0));
    assert_ok(fac_module_save(a, path));
    assert_ok(fac_module_load(b, path, true));
    assert_true(fac_equal(fac_module_parameter(b, "inner.weight"), fac_tensor_of(1, 2)));
    assert_ok(fac_module_save(b, path));
    assert_ok(fac_module_load(b, path, true)); /* of its own version: as it is */
    assert_true(fac_equal(fac_module_parameter(b, "inner.weight"), fac_tensor_of(1, 2)));
    assert_int_equal(fac_module_load(a, path, true), FAC_ERR_UNSUPPORTED);
    assert_error(FAC_ERR_UNSUPPORTED, "saved by version 2 of Holder; this one is 1");
    fac_module_release(a);
    fac_module_release(b);
    unlink(path);
}

static fac_status note_state(void *context, fac_module *m, fac_state *entries) {
    (void)m;
    assert_true(n_order < 8 && entries->n > 0);
    order[n_order++] = *(int *)context;
    return FAC_OK;
}

static void S149_state_hooks_see_what_is_saved_and_loaded(void **state) {
    (void)state;
    int saved = 1, loaded = 2;
    n_order = 0;
    fac_module *m = fac_linear_new(2, 2);
    fac_hook *h = fac_module_register_state_hook(m, note_state, &saved);
    fac_hook *l = fac_module_register_load_pre_hook(m, note_state, &loaded);
    fac_state *sd = fac_module_state_dict(m);
    assert_ok(fac_module_load_state_dict(m, sd, true));
    assert_int_equal(n_order, 2);
    assert_true(order[0] == 1 && order[1] == 2);
    fac_hook_remove(h);
    fac_hook_remove(l);
    assert_ok(fac_module_load_state_dict(m, sd, true));
    assert_int_equal(n_order, 2);
    fac_state_free(sd);
    fac_module_release(m);
}

static fac_status count_up(void *context, fac_module *m) {
    (void)context;
    return fac_add_(fac_module_buffer(m, "saves"), 1) ? FAC_OK : fac_error();
}
static fac_status note_names(void *context, fac_module *m, const fac_state *missing, const fac_state *unexpected) {
    assert_true(fac_item(fac_module_buffer(m, "saves")) == 1); /* what was loaded is there */
    snprintf(context, 64, "%s %s", missing->n ? missing->v[0].name : "-", unexpected->n ? unexpected->v[0].name : "-");
    return FAC_OK;
}
static fac_status refuse_names(void *context, fac_module *m, const fac_state *missing, const fac_state *unexpected) {
    (void)context, (void)m, (void)missing, (void)unexpected;
    return FAC_ERR_STATE;
}

static void S149_hooks_run_before_saving_and_after_loading(void **state) {
    (void)state;
    FAC_SCOPE(s);
    char names[64] = "";
    fac_module *m = fac_module_new(&toy_class), *child = fac_module_add(m, "child", fac_module_new(&toy_class));
    fac_module_add_buffer(child, "saves", fac_zeros(FAC_SHAPE(1)));
    assert_non_null(fac_module_register_state_pre_hook(child, count_up, NULL));
    assert_non_null(fac_module_register_load_post_hook(child, note_names, names));
    fac_state *sd = fac_module_state_dict(m);
    assert_true(fac_item(fac_state_get(sd, "child.saves")) == 1);
    fac_state *copy = fac_state_new();
    assert_ok(fac_state_set(copy, "child.saves", fac_clone(fac_state_get(sd, "child.saves"))));
    assert_ok(fac_state_set(copy, "more", fac_zeros(1)));
    fac_zero_(fac_module_buffer(child, "saves"));
    assert_int_equal(fac_module_load_state_dict(m, copy), FAC_ERR_NOT_FOUND);
    assert_error(FAC_ERR_NOT_FOUND, "more");
    assert_string_equal(names, "");
    assert_ok(fac_module_load_state_dict(m, copy, .strict = false));
    assert_string_equal(names, "- more");
    assert_non_null(fac_module_register_load_post_hook(m, refuse_names, NULL));
    assert_int_equal(fac_module_load_state_dict(m, copy, .strict = false), FAC_ERR_STATE);
    assert_error(FAC_ERR_STATE, "a hook on the state of ToyModel returned an error");
    fac_state_free(copy);
    fac_state_free(sd);
    fac_module_release(m);
}

/* Fails in one of the two ways: with a status alone, or with an error that it does not return. */
static fac_status fail_quietly(void *context, fac_module *m, fac_state *entries) {
    (void)m, (void)entries;
    return *(bool *)context ? FAC_ERR_IO : ((void)fac_error_set(FAC_ERR_IO, "quiet"), FAC_OK);
}

static void module_state_hook_that_fails_leaves_an_error(void **state) {
    (void)state;
    bool by_status;
    fac_module *m = fac_linear_new(2, 2);
    fac_state *sd = fac_module_state_dict(m);
    assert_non_null(fac_module_register_state_hook(m, fail_quietly, &by_status));
    assert_non_null(fac_module_register_load_pre_hook(m, fail_quietly, &by_status));
    for (int i = 0; i < 2; i++) {
        const char *text = i ? "a hook on the state of Linear returned an error" : "quiet";
        by_status = i;
        assert_null(fac_module_state_dict(m));
        assert_error(FAC_ERR_IO, text);
        assert_int_equal(fac_module_load_state_dict(m, sd, true), FAC_ERR_IO);
        assert_error(FAC_ERR_IO, text);
    }
    fac_state_free(sd);
    fac_module_release(m);
}

static void module_prints_as_a_tree(void **state) {
    (void)state;
    char *text = NULL;
    size_t size = 0;
    fac_module *m = toy_new();
    FILE *f = open_memstream(&text, &size);
    assert_ok(fac_module_print(m, f));
    fclose(f);
    assert_string_equal(text, "ToyModel(\n  (net1): Linear(in_features=10, out_features=10, bias=True)\n"
                              "  (net2): Linear(in_features=10, out_features=5, bias=True)\n)\n");
    free(text);
    fac_module_release(m);
}

/* ---- layers ---- */

static void S164_batch_norm_moves_its_running_statistics_outside_the_graph(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_module *m = fac_batch_norm2d_new(2);
    fac_tensor *x = fac_add(fac_randn(FAC_SHAPE(8, 2, 4, 4)), 3.0), *y = fac_forward(m, x);
    assert_true(fabs(fac_item(fac_mean(y))) < 1e-5);
    assert_true(fabs(fac_item(fac_select(fac_module_buffer(m, "running_mean"), 0, 0)) - 0.3) < 0.1);
    assert_int_equal(fac_item_int(fac_module_buffer(m, "num_batches_tracked")), 1);
    assert_false(fac_requires_grad(fac_module_buffer(m, "running_mean")));
    fac_module_train(m, false);
    assert_non_null(fac_forward(m, x));
    assert_int_equal(fac_item_int(fac_module_buffer(m, "num_batches_tracked")), 1);
    fac_module_release(m);
}

static void attention_looks_back_only_when_causal(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_module *m = fac_multihead_attention_new(8, 2, .batch_first = true, .causal = true);
    fac_tensor *x = fac_randn(FAC_SHAPE(1, 5, 8)), *y = fac_forward(m, x);
    fac_tensor *other = fac_clone(x);
    assert_non_null(fac_fill_(fac_select(other, 1, 4), 7.0));
    fac_tensor *z = fac_forward(m, other);
    assert_true(fac_allclose(fac_narrow(y, 1, 0, 4), fac_narrow(z, 1, 0, 4), .rtol = 1e-5, .atol = 1e-6));
    assert_false(fac_allclose(fac_select(y, 1, 4), fac_select(z, 1, 4), .rtol = 1e-5, .atol = 1e-6));
    assert_no_error();
    fac_tensor *q = fac_forward_many(m, FAC_TENSORS(x, x, x));
    assert_true(fac_allclose(q, y, .rtol = 1e-5, .atol = 1e-6));
    assert_null(fac_multihead_attention_new(10, 3));
    assert_error(FAC_ERR_ARGUMENT, "divisible");
    fac_module_release(m);
}

static void embedding_padding_row_is_zero_and_gets_no_gradient(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_module *m = fac_embedding_new(5, 3, .padding_idx = -1);
    fac_tensor *w = fac_module_parameter(m, "weight");
    const int64_t ids[] = {0, 4};
    assert_true(fac_item(fac_sum(fac_abs(fac_select(w, 0, 4)))) == 0);
    assert_ok(fac_backward(fac_sum(fac_forward(m, fac_tensor_from(ids, FAC_I64, FAC_INTS(2))))));
    assert_true(fac_item(fac_sum(fac_select(fac_grad_of(w), 0, 4))) == 0);
    assert_true(fac_item(fac_sum(fac_select(fac_grad_of(w), 0, 0))) == 3);
    fac_module_release(m);
}

static fac_status build_all(void *context) {
    (void)context;
    FAC_SCOPE(s);
    fac_module *m = fac_sequential(fac_conv2d_new(1, 2, FAC_INTS(3), .padding = 1), fac_batch_norm2d_new(2),
                                   fac_relu_new(), fac_max_pool2d_new(2), fac_flatten_new(), fac_linear_new(8, 3));
    if (m) {
        fac_module *c = fac_module_copy(m);
        (void)!fac_forward(c, fac_ones(FAC_SHAPE(1, 1, 4, 4)));
        fac_module_release(c);
    }
    fac_module_release(m);
    return fac_error();
}

static void nn_every_allocation_may_fail(void **state) {
    (void)state;
    support_fail_each_allocation(build_all, NULL);
}

static void modules_of_null_are_errors(void **state) {
    (void)state;
    assert_null(fac_module_new(NULL));
    assert_error(FAC_ERR_ARGUMENT, "the class of a new module is NULL");
    assert_null(fac_sequential_new(NULL, 2));
    assert_error(FAC_ERR_ARGUMENT, "the array is NULL");
}

static fac_module *printed_is(fac_module *m, const char *want) {
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);
    assert_ok(fac_module_print(m, f));
    fclose(f);
    assert_string_equal(text, want);
    free(text);
    return m;
}

static void layers_print_as_in_pytorch(void **state) {
    (void)state;
    fac_module_release(printed_is(fac_layer_norm_new(FAC_INTS(10)),
                                  "LayerNorm((10,), eps=1e-05, elementwise_affine=True, bias=True)\n"));
    fac_module_release(printed_is(fac_layer_norm_new(FAC_INTS(2, 3), .elementwise_affine = false),
                                  "LayerNorm((2, 3), eps=1e-05, elementwise_affine=False, bias=False)\n"));
    fac_module_release(printed_is(fac_rms_norm_new(FAC_INTS(4)), "RMSNorm((4,), eps=None, elementwise_affine=True)\n"));
    fac_module_release(printed_is(
        fac_conv2d_new(4, 8, FAC_INTS(3), .padding = 1, .dilation = 2, .groups = 2, .bias = false),
        "Conv2d(4, 8, kernel_size=(3, 3), stride=(1, 1), padding=(1, 1), dilation=(2, 2), groups=2, bias=False)\n"));
    fac_module_release(printed_is(fac_max_pool2d_new(2),
                                  "MaxPool2d(kernel_size=2, stride=2, padding=0, dilation=1, ceil_mode=False)\n"));
    fac_module_release(printed_is(fac_dropout_new(0.5), "Dropout(p=0.5, inplace=False)\n"));
    fac_module_release(printed_is(fac_gelu_new(), "GELU(approximate='none')\n"));
    fac_module_release(printed_is(fac_flatten_new(), "Flatten(start_dim=1, end_dim=-1)\n"));
    fac_module_release(
        printed_is(fac_max_pool2d_new(FAC_INTS(3, 2), .strides = FAC_INTS(2, 1), .padding = 1, .ceil_mode = true),
                   "MaxPool2d(kernel_size=(3, 2), stride=(2, 1), padding=1, dilation=1, ceil_mode=True)\n"));
    fac_module_release(printed_is(fac_gelu_new("tanh"), "GELU(approximate='tanh')\n"));
    fac_module_release(printed_is(fac_flatten_new(0, .end_dim = 1), "Flatten(start_dim=0, end_dim=1)\n"));
}

static void module_keywords_reach_the_operator(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = fac_randn(FAC_SHAPE(2, 3, 7, 6));
    fac_module *m[] = {fac_max_pool2d_new(FAC_INTS(3, 2), .stride = 2, .dilation = 2, .ceil_mode = true),
                       fac_avg_pool2d_new(3, 2, 1, .count_include_pad = false), fac_flatten_new(0, 1)};
    fac_tensor *expected[] = {
        fac_max_pool2d(x, FAC_INTS(3, 2), .stride = 2, .dilation = 2, .ceil_mode = true),
        fac_avg_pool2d(x, 3, 2, 1, .count_include_pad = false),
        fac_flatten(x, 0, 1),
    };
    for (int i = 0; i < 3; i++) {
        assert_true(fac_equal(fac_forward(m[i], x), expected[i]));
        fac_module_release(m[i]);
    }
    assert_null(fac_gelu_new(.approximate = "erf"));
    assert_error(FAC_ERR_ARGUMENT, "\"none\" or \"tanh\", not \"erf\"");
    assert_null(fac_max_pool2d_new(FAC_INTS(1, 2, 3)));
    assert_error(FAC_ERR_ARGUMENT, "kernel_size");
}

/* The default epsilon of RMSNorm is the dtype's: small inputs come out with a root mean square of 1. */
static void rms_norm_has_an_epsilon_of_the_dtype(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_module *m = fac_rms_norm_new(FAC_INTS(4)), *own = fac_rms_norm_new(FAC_INTS(4), .eps = 1);
    fac_tensor *x = fac_full(FAC_SHAPE(4), FAC_SCALAR(0.01));
    assert_true(fabs(fac_item(fac_mean(fac_forward(m, x))) - 1) < 1e-2);
    assert_true(fabs(fac_item(fac_mean(fac_forward(own, x))) - 0.01) < 1e-3);
    fac_module_release(m);
    fac_module_release(own);
}

static void batch_norm_refuses_to_train_on_one_value_per_channel(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_module *m = fac_batch_norm2d_new(3);
    fac_tensor *x = fac_ones(FAC_SHAPE(1, 3, 1, 1));
    assert_null(fac_forward(m, x));
    assert_error(FAC_ERR_SHAPE, "more than 1 value per channel");
    assert_int_equal(fac_item_int(fac_module_buffer(m, "num_batches_tracked")), 0);
    fac_module_train(m, false);
    assert_non_null(fac_forward(m, x));
    fac_module_release(m);
}

static fac_status touch(void *context, fac_module *m) {
    (void)context, (void)m;
    return FAC_OK;
}

static void a_module_that_is_null_is_an_error_everywhere(void **state) {
    (void)state;
    fac_module_train(NULL, true);
    assert_error(FAC_ERR_ARGUMENT, "the module is NULL");
    assert_false(fac_module_is_training(NULL));
    assert_error(FAC_ERR_ARGUMENT, "the module is NULL");
    assert_null(fac_module_state(NULL));
    assert_error(FAC_ERR_ARGUMENT, "the module is NULL");
    assert_null(fac_module_parameters(NULL));
    assert_error(FAC_ERR_ARGUMENT, "the module is NULL");
    assert_null(fac_module_modules(NULL));
    assert_error(FAC_ERR_ARGUMENT, "the module is NULL");
    assert_null(fac_module_children(NULL));
    assert_error(FAC_ERR_ARGUMENT, "the module is NULL");
    assert_int_equal(fac_module_parameter_count(NULL), 0);
    assert_error(FAC_ERR_ARGUMENT, "the module is NULL");
    assert_null(fac_module_state_dict(NULL));
    assert_error(FAC_ERR_ARGUMENT, "the module is NULL");
    assert_null(fac_module_copy(NULL));
    assert_error(FAC_ERR_ARGUMENT, "the module is NULL");
    assert_int_equal(fac_module_to(NULL, .dtype = FAC_F64), FAC_ERR_ARGUMENT);
    assert_error(FAC_ERR_ARGUMENT, "the module is NULL");
    assert_int_equal(fac_module_zero_grad(NULL), FAC_ERR_ARGUMENT);
    assert_error(FAC_ERR_ARGUMENT, "the module is NULL");
    assert_int_equal(fac_module_apply(NULL, touch, NULL), FAC_ERR_ARGUMENT);
    assert_error(FAC_ERR_ARGUMENT, "is NULL");
    assert_int_equal(fac_module_load(NULL, "x", true), FAC_ERR_ARGUMENT);
    assert_error(FAC_ERR_ARGUMENT, "the module is NULL");
    assert_int_equal(fac_clip_grad_value((fac_tensors){NULL, 1}, 1), FAC_ERR_ARGUMENT);
    assert_error(FAC_ERR_ARGUMENT, "no array");
}

static void forget(fac_module *m) { (void)m; }

static void modules_refuse_cycles_and_copies_of_what_they_cannot_share(void **state) {
    (void)state;
    static const fac_module_class owner = {.name = "Owner", .version = 1, .destroy = forget};
    fac_module *inner = fac_sequential(fac_relu_new()), *outer = fac_sequential(inner);
    assert_null(fac_module_add(inner, "up", fac_module_keep(outer)));
    assert_error(FAC_ERR_ARGUMENT, "below itself");
    fac_module_release(outer);
    fac_module *m = fac_sequential(fac_module_new(&owner));
    assert_null(fac_module_copy(m));
    assert_error(FAC_ERR_UNSUPPORTED, "Owner cannot be copied");
    fac_module_release(m);
}

FAC_TEST_MAIN(
    FAC_TEST(module_keywords_reach_the_operator),
    FAC_TEST(S155_E08_children_then_parameters_each_with_its_gradient_then_buffers),

    FAC_TEST(S150_an_older_file_is_upgraded_by_its_class), FAC_TEST(S149_state_hooks_see_what_is_saved_and_loaded),
    FAC_TEST(S149_older_backward_hooks_are_about_the_last_node),
    FAC_TEST(S149_older_and_full_backward_hooks_do_not_meet), FAC_TEST(S149_hooks_can_be_put_before_others),
    FAC_TEST(S149_hooks_run_before_saving_and_after_loading), FAC_TEST(module_state_hook_that_fails_leaves_an_error),
    FAC_TEST(layers_print_as_in_pytorch), FAC_TEST(rms_norm_has_an_epsilon_of_the_dtype),
    FAC_TEST(batch_norm_refuses_to_train_on_one_value_per_channel),
    FAC_TEST(a_module_that_is_null_is_an_error_everywhere),
    FAC_TEST(modules_refuse_cycles_and_copies_of_what_they_cannot_share), FAC_TEST(modules_of_null_are_errors),
    FAC_TEST(E04_a_new_module_is_empty_and_training), FAC_TEST(S147_parts_keep_their_order_and_names_must_be_free),
    FAC_TEST(S148_S150_buffers_that_do_not_persist_are_not_saved), FAC_TEST(S151_shared_parts_are_visited_once),
    FAC_TEST(E02_S161_the_toy_model_runs_and_equals_its_formula), FAC_TEST(E03_a_training_step_lowers_the_loss),
    FAC_TEST(S162_dropout_follows_the_mode_and_sequential_names_its_children),
    FAC_TEST(forward_errors_name_what_is_wrong), FAC_TEST(S149_S128_hooks_run_in_order_and_can_be_removed),
    FAC_TEST(S155_S156_S157_S159_E08_conversion_keeps_parameters_and_moves_gradients),
    FAC_TEST(S169_a_copy_is_deep_and_its_state_points_at_its_own_parts),
    FAC_TEST(S150_state_dicts_load_strictly_and_change_nothing_on_an_error),
    FAC_TEST(module_files_round_trip_bit_for_bit), FAC_TEST(module_prints_as_a_tree),
    FAC_TEST(S164_batch_norm_moves_its_running_statistics_outside_the_graph),
    FAC_TEST(attention_looks_back_only_when_causal), FAC_TEST(embedding_padding_row_is_zero_and_gets_no_gradient),
    FAC_TEST(nn_every_allocation_may_fail))
