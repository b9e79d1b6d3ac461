/* Errors in functions of the program's that the library calls: the handler is told of them when the call of the library has
   returned, whatever kind of function it was. */
#include "support/support.h"
#include <facula/facula.h>

#pragma GCC diagnostic ignored "-Wunused-parameter" /* the library says what a function is given */

/* ---- what fails, and who is told ------------------------------------------------------------------------------------ */

static int inside, ran, told, told_inside, told_line;

static void tell(void *context, const fac_error_info *e) {
    (void)context;
    told++;
    told_inside += inside;
    told_line = e->line;
}

static int failing_line;
static fac_status go_wrong(void) {
    inside = 1;
    ran++;
    fac_tensor *x = fac_ones(FAC_SHAPE(2, 3));
    failing_line = __LINE__ + 1;
    (void)!fac_mm(x, x);
    inside = 0;
    return fac_error();
}

typedef struct callback_case {
    const char *name;
    void (*call)(fac_tensor *w); /* w: float32[3] that requires a gradient */
} callback_case;

/* ---- modules -------------------------------------------------------------------------------------------------------- */

static fac_tensor *same(fac_module *m, fac_tensor *x) { return (void)m, fac_mul(x, 2.0); }
static fac_tensor *forward(fac_module *m, fac_tensor *x) {
    (void)go_wrong();
    return x;
}
static fac_tensor *forward_many(fac_module *m, fac_tensors x) {
    (void)go_wrong();
    return x.v[0];
}
static void destroy(fac_module *m) { (void)go_wrong(); }
static fac_status upgrade(fac_module *m, fac_state *s, const char *p, int v) { return go_wrong(); }
static void describe(fac_module *m, char *buf, size_t size) { (void)go_wrong(); }
static fac_status on_module(fac_module *m) { return go_wrong(); }
static fac_status copy(fac_module *to, fac_module *m) { return go_wrong(); }
static fac_status applied(void *c, fac_module *m) { return go_wrong(); }
static fac_tensor *pre_hook(void *c, fac_module *m, fac_tensor *x) {
    (void)go_wrong();
    return NULL;
}
static fac_tensor *post_hook(void *c, fac_module *m, fac_tensor *x, fac_tensor *y) {
    (void)go_wrong();
    return NULL;
}
static fac_status state_hook(void *c, fac_module *m, fac_state *s) { return go_wrong(); }

static fac_module *of_class(fac_module_class c) {
    static fac_module_class classes[16];
    static int n;
    c.name = "Own";
    classes[n] = c;
    return fac_module_new(&classes[n++]);
}

static void run_forward(fac_tensor *w) {
    fac_module *m = of_class((fac_module_class){.forward = forward});
    assert_null(fac_forward(m, w));
    fac_module_release(m);
}
static void run_forward_many(fac_tensor *w) {
    fac_module *m = of_class((fac_module_class){.forward_many = forward_many});
    assert_null(fac_forward_many(m, FAC_TENSORS(w, w)));
    fac_module_release(m);
}
static void run_destroy(fac_tensor *w) {
    (void)w;
    fac_module_release(of_class((fac_module_class){.destroy = destroy}));
}
static void run_describe(fac_tensor *w) {
    (void)w;
    fac_module *m = of_class((fac_module_class){.describe = describe});
    FILE *f = fopen("/dev/null", "w");
    (void)!fac_module_print(m, f);
    fclose(f);
    fac_module_release(m);
}
static void run_init(fac_tensor *w) {
    (void)w;
    assert_null(of_class((fac_module_class){.init = on_module}));
}
static void run_copy(fac_tensor *w) {
    (void)w;
    fac_module *m = of_class((fac_module_class){.copy = copy});
    assert_null(fac_module_copy(m));
    fac_module_release(m);
}
static void run_apply(fac_tensor *w) {
    (void)w;
    fac_module *m = of_class((fac_module_class){.forward = same});
    assert_int_equal(fac_module_apply(m, applied, NULL), FAC_ERR_SHAPE);
    fac_module_release(m);
}
static void run_upgrade(fac_tensor *w) {
    (void)w;
    static const char path[] = "callbacks_upgrade.safetensors";
    fac_module *old = of_class((fac_module_class){.forward = same, .version = 1});
    fac_module_add_buffer(old, "b", fac_ones(FAC_SHAPE(2)));
    assert_int_equal(fac_module_save(old, path), FAC_OK);
    fac_module *m = of_class((fac_module_class){.upgrade = upgrade, .version = 2});
    fac_module_add_buffer(m, "b", fac_ones(FAC_SHAPE(2)));
    assert_int_equal(fac_module_load(m, path), FAC_ERR_SHAPE);
    fac_module_release(m);
    fac_module_release(old);
    remove(path);
}
static void run_hooked(fac_tensor *w, fac_hook *(*add)(fac_module *m)) {
    fac_module *m = of_class((fac_module_class){.forward = same});
    assert_non_null(add(m));
    fac_tensor *y = fac_forward(m, w);
    if (y) (void)!fac_backward(fac_sum(y));
    fac_module_release(m);
}
static fac_hook *add_pre(fac_module *m) { return fac_module_register_forward_pre_hook(m, pre_hook, NULL); }
static fac_hook *add_post(fac_module *m) { return fac_module_register_forward_hook(m, post_hook, NULL); }
static fac_hook *add_back_pre(fac_module *m) { return fac_module_register_full_backward_pre_hook(m, pre_hook, NULL); }
static fac_hook *add_back(fac_module *m) { return fac_module_register_full_backward_hook(m, pre_hook, NULL); }
static void run_pre_hook(fac_tensor *w) { run_hooked(w, add_pre); }
static void run_post_hook(fac_tensor *w) { run_hooked(w, add_post); }
static void run_back_pre_hook(fac_tensor *w) { run_hooked(w, add_back_pre); }
static void run_back_hook(fac_tensor *w) { run_hooked(w, add_back); }
static void run_state_hook(fac_tensor *w) {
    (void)w;
    fac_module *m = of_class((fac_module_class){.forward = same});
    assert_non_null(fac_module_register_state_hook(m, state_hook, NULL));
    fac_state_free(fac_module_state_dict(m));
    fac_module_release(m);
}
static void run_load_hook(fac_tensor *w) {
    (void)w;
    fac_module *m = of_class((fac_module_class){.forward = same});
    fac_state *s = fac_module_state_dict(m);
    assert_non_null(fac_module_register_load_pre_hook(m, state_hook, NULL));
    assert_int_equal(fac_module_load_state_dict(m, s), FAC_ERR_SHAPE);
    fac_state_free(s);
    fac_module_release(m);
}

/* ---- autograd ------------------------------------------------------------------------------------------------------- */

static fac_tensor *grad_hook(void *c, fac_tensor *g) {
    (void)go_wrong();
    return NULL;
}
static void accumulated(void *c, fac_tensor *t) { (void)go_wrong(); }
static fac_status node_pre(void *c, fac_tensor **g, size_t n) { return go_wrong(); }
static fac_status node_post(void *c, fac_tensor **i, size_t n, fac_tensor *const *g, size_t m) { return go_wrong(); }
static fac_status function_ok(fac_function_ctx *c, fac_tensors in, fac_tensor **out) {
    fac_function_set_user(c, &inside);
    out[0] = fac_mul(in.v[0], 2.0);
    return fac_error();
}
static fac_status function_fails(fac_function_ctx *c, fac_tensors in, fac_tensor **out) { return go_wrong(); }
static void user_destroyed(void *user) { (void)go_wrong(); }
static fac_tensor *checkpointed(void *c, fac_tensors in) {
    (void)go_wrong();
    return in.v[0];
}
static void *pack(void *c, fac_tensor *t) {
    (void)go_wrong();
    return NULL;
}
static void *pack_ok(void *c, fac_tensor *t) { return (void)c, fac_keep(t); }
static fac_tensor *unpack(void *c, void *h) {
    (void)go_wrong();
    return h;
}
static fac_tensor *unpack_ok(void *c, void *h) { return (void)c, h; }
static void drop_ok(void *c, void *h) { (void)c, fac_release(h); }
static void drop_fails(void *c, void *h) {
    fac_release(h);
    (void)go_wrong();
}
static fac_status checked(void *c, fac_tensors in, fac_tensor **out, size_t n) { return go_wrong(); }

static void run_grad_hook(fac_tensor *w) {
    assert_non_null(fac_register_hook(w, grad_hook, NULL));
    assert_int_equal(fac_backward(fac_sum(w)), FAC_ERR_SHAPE);
}
static void run_accumulated(fac_tensor *w) {
    assert_non_null(fac_register_post_accumulate_hook(w, accumulated, NULL));
    assert_int_equal(fac_backward(fac_sum(w)), FAC_ERR_SHAPE);
}
static void run_node_pre(fac_tensor *w) {
    fac_tensor *y = fac_sum(w);
    assert_non_null(fac_node_register_pre_hook(fac_grad_fn(y), node_pre, NULL));
    assert_int_equal(fac_backward(y), FAC_ERR_SHAPE);
}
static void run_node_post(fac_tensor *w) {
    fac_tensor *y = fac_sum(w);
    assert_non_null(fac_node_register_hook(fac_grad_fn(y), node_post, NULL));
    assert_int_equal(fac_backward(y), FAC_ERR_SHAPE);
}
static void run_function_forward(fac_tensor *w) {
    static const fac_function f = {.name = "own", .n_outputs = 1, .forward = function_fails, .backward = function_ok};
    fac_tensor *y = NULL;
    assert_int_equal(fac_function_apply(&f, NULL, FAC_TENSORS(w), &y), FAC_ERR_SHAPE);
}
static void run_function_backward(fac_tensor *w) {
    static const fac_function f = {.name = "own", .n_outputs = 1, .forward = function_ok, .backward = function_fails};
    fac_tensor *y = NULL;
    assert_int_equal(fac_function_apply(&f, NULL, FAC_TENSORS(w), &y), FAC_OK);
    assert_int_equal(fac_backward(fac_sum(y)), FAC_ERR_SHAPE);
}
static void run_function_destroy(fac_tensor *w) {
    static const fac_function f = {
        .name = "own", .n_outputs = 1, .forward = function_ok, .backward = function_ok, .destroy = user_destroyed};
    fac_tensor *y = NULL;
    assert_int_equal(fac_function_apply(&f, NULL, FAC_TENSORS(w), &y), FAC_OK);
    fac_drop(y);
}
static void run_checkpoint(fac_tensor *w) { assert_null(fac_checkpoint(checkpointed, NULL, FAC_TENSORS(w))); }
static void with_hooks(fac_tensor *w, fac_saved_tensor_hooks hooks) {
    fac_set_saved_tensor_hooks(&hooks);
    FAC_SCOPE(s);
    fac_tensor *y = fac_exp(w);
    fac_set_saved_tensor_hooks(NULL);
    if (y) (void)!fac_backward(fac_sum(y));
}
static void run_pack(fac_tensor *w) { with_hooks(w, (fac_saved_tensor_hooks){pack, unpack_ok, NULL, NULL}); }
static void run_unpack(fac_tensor *w) { with_hooks(w, (fac_saved_tensor_hooks){pack_ok, unpack, drop_ok, NULL}); }
static void run_unpack_destroy(fac_tensor *w) {
    with_hooks(w, (fac_saved_tensor_hooks){pack_ok, unpack_ok, drop_fails, NULL});
}
static void run_gradcheck(fac_tensor *w) {
    assert_int_equal(fac_gradcheck(checked, NULL, FAC_TENSORS(fac_to(w, .dtype = FAC_F64)), 1), FAC_ERR_SHAPE);
}
static void run_jacobian(fac_tensor *w) { assert_null(fac_jacobian(checked, NULL, w)); }

/* ---- optimisers ----------------------------------------------------------------------------------------------------- */

static const fac_option settings[] = {{"lr", 0.1}, {NULL, 0}};
static fac_status step_ok(const fac_optimizer_update *u) { return (void)u, FAC_OK; }
static fac_status step(const fac_optimizer_update *u) { return go_wrong(); }
static fac_status check_options(const double *v) { return go_wrong(); }
static fac_status check_parameter(fac_tensor *p) { return go_wrong(); }
static size_t state_count(const double *v) {
    (void)go_wrong();
    return 0;
}
static double factor(void *c, size_t group, int64_t n) {
    (void)go_wrong();
    return 1.0;
}

static void run_step_of(fac_tensor *w, const fac_optimizer_class *cls) {
    fac_optimizer *o = fac_optimizer_of(cls, FAC_TENSORS(w), FAC_OPTIONS({"lr", 0.1}));
    if (o && !fac_backward(fac_sum(w))) (void)!fac_optimizer_step(o);
    fac_optimizer_release(o);
}
static void run_step(fac_tensor *w) {
    run_step_of(w, &(fac_optimizer_class){.name = "A", .options = settings, .step = step});
}
static void run_check_options(fac_tensor *w) {
    run_step_of(
        w, &(fac_optimizer_class){.name = "B", .options = settings, .step = step_ok, .check_options = check_options});
}
static void run_check_parameter(fac_tensor *w) {
    run_step_of(w, &(fac_optimizer_class){
                       .name = "C", .options = settings, .step = step_ok, .check_parameter = check_parameter});
}
static void run_state_count(fac_tensor *w) {
    run_step_of(w,
                &(fac_optimizer_class){.name = "D", .options = settings, .step = step_ok, .state_count = state_count});
}
static void run_factor(fac_tensor *w) {
    fac_optimizer *o = fac_sgd_of(FAC_TENSORS(w), 0.1);
    assert_int_equal(fac_optimizer_lambda_lr(o, factor, NULL, 1), FAC_ERR_SHAPE);
    fac_optimizer_release(o);
}

/* ---- dispatch and memory -------------------------------------------------------------------------------------------- */

static void observed(void *c, const fac_operator *op, fac_keyset keys, bool enter) {
    if (!inside && !fac_error()) (void)go_wrong();
}
static void listened(void *c, const fac_operator *op, bool added) { (void)go_wrong(); }
static void released(void *object) { (void)go_wrong(); }
static fac_status boxed(const fac_call_info *c, fac_value *stack) { return inside ? FAC_OK : go_wrong(); }
static fac_status typed(const fac_call_info *c, fac_tensor *self, fac_tensor **out) { return go_wrong(); }
static fac_status operator_backward(void *c, const fac_value *args, const fac_value *results, fac_tensors g,
                                    fac_tensor **out) {
    return go_wrong();
}
static fac_status doubled(const fac_call_info *c, fac_value *stack) {
    (void)c;
    FAC_SCOPE(s);
    fac_tensor *y = fac_mul(fac_value_as_tensor(stack[0]), 2.0);
    stack[0] = fac_value_tensor(y);
    return fac_error();
}

static void run_observer(fac_tensor *w) {
    fac_set_call_observer(observed, NULL);
    (void)!fac_relu(w);
    fac_set_call_observer(NULL, NULL);
    if (fac_error()) (void)!fac_relu(w);
    (void)!fac_error_set(FAC_ERR_SHAPE, "of the observer");
}
static void run_listener(fac_tensor *w) {
    (void)w;
    fac_registration *l = fac_register_listener(listened, NULL);
    fac_registration *r = fac_register_operator("callbacks::heard(Tensor self) -> Tensor", FAC_HERE);
    fac_registration_release(l);
    fac_registration_release(r);
}
static void run_value_release(fac_tensor *w) {
    (void)w;
    static int object;
    fac_value v = fac_value_object(&object, released);
    fac_value_release(&v);
}
static void run_storage_release(fac_tensor *w) {
    (void)w;
    static float data[2];
    fac_drop(fac_tensor_wrap(data, sizeof data, FAC_F32, FAC_INTS(2), FAC_INTS(1), 0, released, NULL));
}
static void run_boxed(fac_tensor *w) {
    fac_registration *r = fac_register_boxed("aten::relu", "CPU", boxed, NULL, FAC_HERE);
    assert_null(fac_relu(w));
    fac_registration_release(r);
}
static void run_typed(fac_tensor *w) {
    fac_registration *r = fac_register_typed("aten::relu", "CPU", "Tensor -> Tensor", (fac_fn)typed, NULL, FAC_HERE);
    assert_null(fac_relu(w));
    fac_registration_release(r);
}
static void run_operator_backward(fac_tensor *w) {
    fac_registration *o = fac_register_operator("callbacks::doubled(Tensor self) -> Tensor", FAC_HERE),
                     *k = fac_register_boxed("callbacks::doubled", "CPU", doubled, NULL, FAC_HERE),
                     *g = fac_register_gradient("callbacks::doubled", operator_backward, NULL, FAC_HERE);
    fac_value v = fac_value_tensor(w), y;
    assert_int_equal(fac_call("callbacks::doubled", &v, 1, &y), FAC_OK);
    assert_int_equal(fac_backward(fac_sum(fac_value_as_tensor(y))), FAC_ERR_SHAPE);
    fac_value_release(&y);
    fac_value_release(&v);
    fac_registration_release(g);
    fac_registration_release(k);
    fac_registration_release(o);
}

/* ---- all ------------------------------------------------------------------------------------------------------------ */

#define CASE(name) \
    { #name, run_##name }
static const callback_case cases[] = {
    CASE(forward),
    CASE(forward_many),
    CASE(destroy),
    CASE(describe),
    CASE(init),
    CASE(copy),
    CASE(apply),
    CASE(upgrade),
    CASE(pre_hook),
    CASE(post_hook),
    CASE(back_pre_hook),
    CASE(back_hook),
    CASE(state_hook),
    CASE(load_hook),
    CASE(grad_hook),
    CASE(accumulated),
    CASE(node_pre),
    CASE(node_post),
    CASE(function_forward),
    CASE(function_backward),
    CASE(function_destroy),
    CASE(checkpoint),
    CASE(pack),
    CASE(unpack),
    CASE(unpack_destroy),
    CASE(gradcheck),
    CASE(jacobian),
    CASE(step),
    CASE(check_options),
    CASE(check_parameter),
    CASE(state_count),
    CASE(factor),
    CASE(observer),
    CASE(listener),
    CASE(value_release),
    CASE(storage_release),
    CASE(boxed),
    CASE(typed),
    CASE(operator_backward),
};

static void run_case(const callback_case *c) {
    FAC_SCOPE(s);
    fac_tensor *w = fac_ones(FAC_SHAPE(3), .requires_grad = true);
    ran = told = told_inside = told_line = 0;
    fac_set_error_handler(tell, NULL);
    c->call(w);
    fac_set_error_handler(NULL, NULL);
    fac_error_clear();
    if (ran != 1 || told != 1 || told_inside || told_line != failing_line)
        fail_msg("%s: ran %d times, told %d times, %d inside, line %d for %d", c->name, ran, told, told_inside,
                 told_line, failing_line);
}

static void handler_is_told_after_the_call_that_called_back(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) run_case(&cases[i]);
    fac_shutdown(); /* operators that were declared stay until then */
    assert_int_equal(fac_init(), FAC_OK);
}

FAC_TEST_MAIN(FAC_TEST(handler_is_told_after_the_call_that_called_back))
