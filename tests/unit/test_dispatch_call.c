/* Boxed calls: which keys a call has, how arguments are filled in and checked, redispatch, the observer, modes. */
#include "support/dispatch.h"
#include <stdlib.h>

static fac_tensor *cpu_tensor(void) { return tensor_with_keys(keys_on(FAC_KEY_DENSE, FAC_BACKEND_CPU)); }

/* A kernel that gives the call's keys as its result. */
static fac_status give_keys(const fac_call_info *c, fac_value *stack) {
    stack[0] = fac_value_int((int64_t)c->keys);
    return FAC_OK;
}

/* ---- keys of a call ---------------------------------------------------------------------------------------------- */

static void S063_every_tensor_argument_counts(void **state) {
    (void)state;
    declare("t::f(Tensor a, Tensor? b, Tensor[] c, Tensor?[] d, int e=0) -> int");
    assert_non_null(fac_register_boxed("t::f", "CatchAll", give_keys, NULL, FAC_HERE));
    fac_backend b[] = {FAC_BACKEND_CPU, FAC_BACKEND_HIP, FAC_BACKEND_XLA, FAC_BACKEND_VE};
    for (int which = 0; which < 4; which++) {
        fac_tensor *plain = cpu_tensor(), *other = tensor_with_keys(keys_on(FAC_KEY_DENSE, b[which]));
        fac_tensor *const c[] = {plain, which == 2 ? other : plain}, *const d[] = {NULL, which == 3 ? other : NULL};
        fac_value out,
            args[] = {fac_value_tensor(which == 0 ? other : plain), fac_value_tensor(which == 1 ? other : NULL),
                      fac_value_tensors(c, 2), fac_value_tensors(d, 2)};
        assert_ok(fac_call("t::f", args, 4, &out));
        assert_int_equal(fac_value_as_int(out), FAC_KS_DENSE | fac__backend_bit(b[0]) | fac__backend_bit(b[which]));
        for (int i = 0; i < 4; i++) fac_value_release(&args[i]);
        fac_release(plain);
        fac_release(other);
    }
}

static void S064_thread_sets_add_and_remove(void **state) {
    const fac_keyset trace = fac_keyset_of(FAC_KEY_TRACE), cpu = keys_on(FAC_KEY_DENSE, FAC_BACKEND_CPU);
    (void)state;
    declare("t::f(Tensor x) -> int");
    add("t::f", "CPU", &one);
    add("t::f", "Trace", &two);
    fac_keyset was = fac_thread_include(trace);
    assert_int_equal(was, 0);
    assert_int_equal(fac_thread_included(), trace);
    assert_int_equal(ask("t::f", cpu), 2);
    fac_keyset out = fac_thread_exclude(fac_thread_excluded() | trace); /* exclusion is stronger */
    assert_int_equal(ask("t::f", cpu), 1);
    fac_thread_exclude(out);
    assert_int_equal(ask("t::f", cpu), 2);
    fac_thread_include(was);
    assert_int_equal(ask("t::f", cpu), 1);
    assert_int_equal(fac_thread_excluded(), 0);
}

/* A handler takes its own key out and calls the operator afresh. */
static fac_status exclude_itself(const fac_call_info *c, fac_value *stack) {
    fac_keyset was = fac_thread_exclude(fac_thread_excluded() | fac_keyset_of(FAC_KEY_TRACE));
    fac_value out;
    ++*(int *)c->context;
    fac_status st = fac_call_op(c->op, stack, fac_operator_arg_count(c->op), &out);
    fac_thread_exclude(was);
    if (st == FAC_OK) stack[0] = out;
    return st;
}

static void S064_handler_excludes_itself_and_calls_again(void **state) {
    int runs = 0;
    (void)state;
    declare("t::f(Tensor x) -> int");
    add("t::f", "CPU", &one);
    assert_non_null(fac_register_boxed("t::f", "Trace", exclude_itself, &runs, FAC_HERE));
    assert_int_equal(ask("t::f", fac__func_bit(FAC_KEY_TRACE) | keys_on(FAC_KEY_DENSE, FAC_BACKEND_CPU)), 1);
    assert_int_equal(runs, 1);
}

static void S065_global_set_is_always_considered(void **state) {
    (void)state;
    declare("t::f(Tensor x) -> int");
    add("t::f", "CPU", &one);
    add("t::f", "Named", &two);
    assert_int_equal(fac_global_include(fac_keyset_of(FAC_KEY_NAMED)), 0);
    assert_int_equal(ask_cpu("t::f"), 2);
    assert_int_equal(fac_global_include(0), fac_keyset_of(FAC_KEY_NAMED));
    assert_int_equal(ask_cpu("t::f"), 1);
}

static void S062_keys_without_tensor_arguments(void **state) {
    fac_value out, meta = fac_value_device(fac_device_make(FAC_META, 0)), bad = fac_value_device((fac_device){77, 0});
    fac_keyset keys;
    (void)state;
    declare("t::make(int n, *, Device? device=None) -> int");
    assert_non_null(fac_register_boxed("t::make", "CatchAll", give_keys, NULL, FAC_HERE));
    fac_value args[] = {fac_value_int(1), meta};
    assert_ok(fac_call("t::make", args, 2, &out));
    assert_ok(fac__default_keys(fac_device_make(FAC_META, 0), &keys));
    assert_int_equal(fac_value_as_int(out), keys);
    assert_ok(fac_call("t::make", args, 1, &out));
    assert_ok(fac__default_keys(fac_device_make(FAC_CPU, 0), &keys));
    assert_int_equal(fac_value_as_int(out), keys);
    args[1] = bad;
    assert_int_equal(fac_call("t::make", args, 2, &out), FAC_ERR_DEVICE);
    assert_error(FAC_ERR_DEVICE, "77");
}

/* ---- arguments --------------------------------------------------------------------------------------------------- */

static fac_status gather(const fac_call_info *c, fac_value *stack) {
    (void)c;
    double x = fac_value_as_float(stack[1]);
    fac_ints k = fac_value_as_ints(stack[2]);
    assert_int_equal(stack[1].tag, FAC_TAG_FLOAT); /* whatever the caller gave */
    assert_int_equal(k.n, 2);
    const char *s = fac_value_as_string(stack[3]);
    stack[0] = fac_value_float(x * 1000 + (double)(k.v[0] * 10 + k.v[1]) + (s ? (double)strlen(s) / 10 : 0));
    return FAC_OK;
}

static double gathered(const fac_value *args, size_t n) {
    fac_value out;
    assert_ok(fac_call("t::gather", args, n, &out));
    return fac_value_as_float(out);
}

static void E19_arguments_are_filled_in_and_fitted(void **state) {
    (void)state;
    declare("t::gather(Tensor x, float y=0.5, int[2] k=[1,2], *, str? s='abc') -> float");
    assert_non_null(fac_register_boxed("t::gather", "CPU", gather, NULL, FAC_HERE));
    fac_tensor *t = cpu_tensor();
    fac_value args[] = {fac_value_tensor(t), fac_value_int(2), fac_value_int(7), fac_value_none()};
    assert_true(gathered(args, 1) == 512.3);
    assert_true(gathered(args, 2) == 2012.3);
    assert_true(gathered(args, 3) == 2077.3);
    assert_true(gathered(args, 4) == 2077);
    fac_value_release(&args[0]);
    assert_int_equal(atomic_load(&fac__header(t)->refs), 1);
    fac_release(t);
}

static void E19_wrong_arguments_name_operator_and_argument(void **state) {
    fac_value out;
    (void)state;
    declare("t::gather(Tensor x, float y, int[2] k=[1,2]) -> float");
    assert_non_null(fac_register_boxed("t::gather", "CPU", gather, NULL, FAC_HERE));
    fac_tensor *t = cpu_tensor();
    fac_value args[] = {fac_value_tensor(t), fac_value_string("no"), fac_value_int(7), fac_value_int(8)};
    assert_int_equal(fac_call("t::gather", args, 2, &out), FAC_ERR_ARGUMENT);
    assert_int_equal(out.tag, FAC_TAG_NONE);
    fac_error_info e;
    fac_error_get(&e);
    assert_string_equal(e.op, "t::gather");
    assert_error(FAC_ERR_ARGUMENT, "argument 'y' must be float, not str");
    assert_int_equal(fac_call("t::gather", args, 1, &out), FAC_ERR_ARGUMENT);
    assert_error(FAC_ERR_ARGUMENT, "argument 'y' is missing");
    assert_int_equal(fac_call("t::gather", args, 4, &out), FAC_ERR_ARGUMENT);
    assert_error(FAC_ERR_ARGUMENT, "takes at most 3");
    assert_int_equal(fac_call("t::gather", NULL, 2, &out), FAC_ERR_ARGUMENT);
    assert_error(FAC_ERR_ARGUMENT, "NULL");
    assert_int_equal(fac_call("t::gather", args, 2, NULL), FAC_ERR_ARGUMENT);
    assert_error(FAC_ERR_ARGUMENT, "a place for its results");
    assert_int_equal(fac_call_op(NULL, args, 2, &out), FAC_ERR_ARGUMENT);
    assert_error(FAC_ERR_ARGUMENT, "NULL");
    assert_int_equal(fac_call("t::gathre", args, 2, &out), FAC_ERR_NOT_FOUND);
    assert_error(FAC_ERR_NOT_FOUND, "'t::gather'");
    fac_value_release(&args[0]);
    fac_value_release(&args[1]);
    fac_release(t);
}

static fac_status sum_of_all(const fac_call_info *c, fac_value *stack) {
    int64_t sum = 0;
    size_t n = fac_operator_arg_count(c->op);
    for (size_t i = 0; i < n; i++) sum += fac_value_as_int(stack[i]);
    for (size_t i = 0; i < fac_operator_return_count(c->op); i++) stack[i] = fac_value_int(sum + (int64_t)i);
    return FAC_OK;
}

static void E19_many_arguments_and_results(void **state) {
    enum { N = 60 };
    fac_value args[N], out[N];
    fac_buf b = {0};
    (void)state;
    fac__buf_printf(&b, "t::many(");
    for (int i = 0; i < N; i++) fac__buf_printf(&b, "%sint a%d", i ? ", " : "", i);
    fac__buf_printf(&b, ") -> (");
    for (int i = 0; i < N; i++) fac__buf_printf(&b, "%sint", i ? ", " : "");
    fac__buf_printf(&b, ")");
    declare(b.data);
    fac__buf_free(&b);
    assert_non_null(fac_register_boxed("t::many", "CatchAll", sum_of_all, NULL, FAC_HERE));
    for (int i = 0; i < N; i++) args[i] = fac_value_int(i);
    assert_ok(fac_call("t::many", args, N, out));
    for (int i = 0; i < N; i++) assert_int_equal(fac_value_as_int(out[i]), N * (N - 1) / 2 + i);
    declare("t::none() -> ()"); /* and none of either */
    assert_non_null(fac_register_boxed("t::none", "CatchAll", sum_of_all, NULL, FAC_HERE));
    assert_ok(fac_call("t::none", NULL, 0, NULL));
}

static fac_status fail_silently(const fac_call_info *c, fac_value *stack) {
    (void)c, (void)stack;
    return FAC_ERR_SHAPE;
}
static fac_status succeed_with_an_error(const fac_call_info *c, fac_value *stack) {
    (void)c;
    stack[0] = fac_value_copy(stack[0]);
    (void)FAC_FAIL(FAC_ERR_DTYPE, "left behind");
    return FAC_OK;
}

static void E19_kernels_that_break_the_rules(void **state) {
    fac_value out;
    (void)state;
    declare("t::f(Tensor x) -> Tensor");
    fac_tensor *t = cpu_tensor();
    fac_value arg = fac_value_tensor(t);
    fac_register_boxed("t::f", "CPU", fail_silently, NULL, "rude.c:1");
    assert_int_equal(fac_call("t::f", &arg, 1, &out), FAC_ERR_SHAPE);
    assert_error(FAC_ERR_SHAPE, "rude.c:1 failed and did not say why");
    fac_register_boxed("t::f", "CPU", succeed_with_an_error, NULL, FAC_HERE);
    assert_int_equal(fac_call("t::f", &arg, 1, &out), FAC_ERR_DTYPE);
    assert_error(FAC_ERR_DTYPE, "left behind");
    assert_int_equal(out.tag, FAC_TAG_NONE);
    fac_value_release(&arg);
    assert_int_equal(atomic_load(&fac__header(t)->refs), 1);
    fac_release(t);
}

static void E19_calls_are_inert_while_an_error_is_pending(void **state) {
    fac_value out = fac_value_int(9);
    (void)state;
    declare("t::f() -> int");
    add("t::f", "CatchAll", &one);
    fac_error_set(FAC_ERR_IO, "the first error");
    assert_int_equal(fac_call("t::f", NULL, 0, &out), FAC_ERR_IO);
    assert_int_equal(fac_value_as_int(out), 9);
    assert_error(FAC_ERR_IO, "the first error");
    assert_ok(fac_call("t::f", NULL, 0, &out));
    assert_int_equal(fac_value_as_int(out), 1);
}

/* ---- redispatch -------------------------------------------------------------------------------------------------- */

static fac_status record_and_go_below(const fac_call_info *c, fac_value *stack) {
    ++*(int *)c->context;
    fac_status st = fac_redispatch_below(c, FAC_KEY_AUTOGRAD, stack);
    if (st == FAC_OK) stack[0] = fac_value_int(10 + fac_value_as_int(stack[0]));
    return st;
}

static void S089_autograd_kernel_redispatches_below_itself(void **state) {
    int nodes = 0;
    (void)state;
    declare("t::f(Tensor x) -> int");
    add("t::f", "CPU", &one);
    assert_non_null(fac_register_boxed("t::f", "Autograd", record_and_go_below, &nodes, FAC_HERE));
    assert_int_equal(ask("t::f", FAC_KS_AUTOGRAD | FAC_KS_ADINPLACEORVIEW | keys_on(FAC_KEY_DENSE, FAC_BACKEND_CPU)),
                     11);
    assert_int_equal(nodes, 1);
    assert_int_equal(ask_cpu("t::f"), 1); /* a tensor without the key: nothing is recorded */
    assert_int_equal(nodes, 1);
    fac_keyset was = fac_thread_exclude(FAC_KS_AUTOGRAD);
    assert_int_equal(ask("t::f", FAC_KS_AUTOGRAD | keys_on(FAC_KEY_DENSE, FAC_BACKEND_CPU)), 1);
    fac_thread_exclude(was);
}

static void S079_redispatch_takes_the_keys_it_is_given(void **state) {
    fac_value stack[1];
    (void)state;
    declare("t::f(Tensor x) -> int");
    add("t::f", "CPU", &one);
    add("t::f", "SparseMeta", &two);
    fac_tensor *t = cpu_tensor();
    fac_value arg = fac_value_tensor(t);
    fac_keyset was = fac_thread_include(FAC_KS_AUTOGRAD); /* plays no part */
    stack[0] = arg;
    assert_ok(fac_redispatch(fac_operator_find("t::f"), keys_on(FAC_KEY_SPARSE, FAC_BACKEND_META), stack));
    assert_int_equal(fac_value_as_int(stack[0]), 2);
    fac_thread_include(was);
    const fac_call_info c = {.op = fac_operator_find("t::f"), .keys = keys_on(FAC_KEY_SPARSE, FAC_BACKEND_META)};
    assert_int_equal(fac_redispatch_below(&c, FAC_KEY_COUNT, stack), FAC_ERR_ARGUMENT);
    assert_error(FAC_ERR_ARGUMENT, "no functionality");
    fac_value_release(&arg);
    fac_release(t);
}

/* ---- the observer ------------------------------------------------------------------------------------------------ */

static char trace[400];
static void observe(void *context, const fac_operator *op, fac_keyset keys, bool enter) {
    char text[200];
    size_t n = strlen(trace);
    snprintf(trace + n, sizeof trace - n, "%s%s%s%s ", (const char *)context, enter ? "<" : ">", fac_operator_name(op),
             enter ? fac_keyset_format(keys, text, sizeof text) : "");
}

static void S078_observer_sees_calls_and_not_redispatches(void **state) {
    int nodes = 0;
    (void)state;
    declare("t::f(Tensor x) -> int");
    add("t::f", "CPU", &one);
    fac_register_boxed("t::f", "Autograd", record_and_go_below, &nodes, FAC_HERE);
    trace[0] = 0;
    fac_set_call_observer(observe, "a");
    assert_true(fac__is_observed());
    ask("t::f", FAC_KS_AUTOGRAD | keys_on(FAC_KEY_DENSE, FAC_BACKEND_CPU));
    fac_set_call_observer(observe, "b");
    ask_cpu("t::f");
    fac_set_call_observer(NULL, NULL);
    ask_cpu("t::f");
    assert_string_equal(trace, "a<t::f{AutogradCPU, CPU} a>t::f b<t::f{CPU} b>t::f ");
    assert_false(fac__is_observed());
}

/* ---- a tracing mode ---------------------------------------------------------------------------------------------- */

static fac_status trace_call(const fac_call_info *c, fac_value *stack) {
    size_t n = strlen(trace);
    snprintf(trace + n, sizeof trace - n, "%s ", fac_operator_name(c->op));
    return fac_redispatch_below(c, FAC_KEY_TRACE, stack);
}

static fac_status call_f_and_g(const fac_call_info *c, fac_value *stack) {
    (void)c;
    fac_value x = stack[0], a, b;
    FAC_TRY(fac_call("t::f", &x, 1, &a));
    FAC_TRY(fac_call("t::g", &x, 1, &b));
    stack[0] = fac_value_int(fac_value_as_int(a) + fac_value_as_int(b));
    return FAC_OK;
}

static void S090_tracing_is_a_mode_of_the_thread(void **state) {
    (void)state;
    declare("t::f(Tensor x) -> int");
    declare("t::g(Tensor x) -> int");
    declare("t::both(Tensor x) -> int");
    add("t::f", "CPU", &one);
    add("t::g", "CPU", &two);
    fac_register_boxed("t::both", "CatchAll", call_f_and_g, NULL, FAC_HERE);
    fac_register_fallback("Trace", trace_call, NULL, FAC_HERE);
    trace[0] = 0;
    fac_keyset was = fac_thread_include(fac_keyset_of(FAC_KEY_TRACE));
    assert_int_equal(ask_cpu("t::both"), 3);
    fac_thread_include(was);
    assert_int_equal(ask_cpu("t::both"), 3);
    assert_string_equal(trace, "t::f t::g "); /* the composite is recorded by its parts */
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

static fac_status call_with_conversions(void *tensor) {
    fac_value args[] = {fac_value_tensor(tensor), fac_value_ints((const int64_t[]){1, 2}, 2), fac_value_string("s")};
    fac_value out = fac_value_none();
    if (fac_error() == FAC_OK) (void)!fac_call("t::f", args, 3, &out);
    fac_value_release(&out);
    for (int i = 0; i < 3; i++) fac_value_release(&args[i]);
    return fac_error();
}
static fac_status give_list(const fac_call_info *c, fac_value *stack) {
    (void)c;
    stack[0] = fac_value_floats(fac_value_as_floats(stack[1]).v, 2);
    return fac_error();
}

static void calls_survive_each_failing_allocation(void **state) {
    (void)state;
    declare("t::f(Tensor x, float[] l, str s, int[2] k=1) -> float[]");
    fac_register_boxed("t::f", "CPU", give_list, NULL, FAC_HERE);
    fac_tensor *t = cpu_tensor();
    support_fail_each_allocation(call_with_conversions, t);
    fac_release(t);
}

FAC_TEST_MAIN(DISPATCH_TEST(S063_every_tensor_argument_counts), DISPATCH_TEST(S064_thread_sets_add_and_remove),
              DISPATCH_TEST(S064_handler_excludes_itself_and_calls_again),
              DISPATCH_TEST(S065_global_set_is_always_considered), DISPATCH_TEST(S062_keys_without_tensor_arguments),
              DISPATCH_TEST(E19_arguments_are_filled_in_and_fitted),
              DISPATCH_TEST(E19_wrong_arguments_name_operator_and_argument),
              DISPATCH_TEST(E19_many_arguments_and_results), DISPATCH_TEST(E19_kernels_that_break_the_rules),
              DISPATCH_TEST(E19_calls_are_inert_while_an_error_is_pending),
              DISPATCH_TEST(S089_autograd_kernel_redispatches_below_itself),
              DISPATCH_TEST(S079_redispatch_takes_the_keys_it_is_given),
              DISPATCH_TEST(S078_observer_sees_calls_and_not_redispatches),
              DISPATCH_TEST(S090_tracing_is_a_mode_of_the_thread), DISPATCH_TEST(calls_survive_each_failing_allocation))
