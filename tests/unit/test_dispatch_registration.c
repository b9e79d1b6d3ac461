/* Declaring operators and registering kernels: order, stacks, handles, names, listeners, errors. */
#include "support/dispatch.h"
#include <stdlib.h>

static void S066_second_declaration_names_both_places(void **state) {
    (void)state;
    fac_registration *r = fac_register_operator("t::f(Tensor x) -> int", "first.c:1");
    assert_non_null(r);
    assert_null(fac_register_operator("t::f(Tensor x) -> int", "second.c:2"));
    assert_true(strstr(fac_error_message(), "first.c:1") && strstr(fac_error_message(), "second.c:2"));
    assert_error(FAC_ERR_ARGUMENT, "declared twice");
    assert_non_null(fac_operator_lookup("t::f")); /* the first one stays */
    fac_registration_release(r);
    assert_null(fac_operator_lookup("t::f"));
    declare("t::f(Tensor x) -> int");
    assert_non_null(fac_operator_lookup("t::f"));
}

static void S066_overloads_are_operators_of_their_own(void **state) {
    (void)state;
    declare("t::f(Tensor x) -> int");
    declare("t::f.two(Tensor x, Tensor y) -> int");
    assert_int_equal(fac_operator_arg_count(fac_operator_find("t::f")), 1);
    assert_int_equal(fac_operator_arg_count(fac_operator_find("t::f.two")), 2);
}

static void S067_kernel_after_the_schema(void **state) {
    (void)state;
    declare("t::f(Tensor x) -> int");
    add("t::f", "CPU", &one);
    assert_int_equal(ask_cpu("t::f"), 1);
}

static void S067_kernel_before_the_schema(void **state) {
    (void)state;
    add("t::f", "CPU", &one);
    assert_null(fac_operator_lookup("t::f"));
    assert_null(fac_operator_find("t::f"));
    assert_error(FAC_ERR_NOT_FOUND, "has no schema");
    fac_registration *r = declare("t::f(Tensor x) -> int");
    assert_int_equal(ask_cpu("t::f"), 1);
    fac_registration_release(r); /* the kernel waits for the next schema */
    declare("t::f(Tensor x, int k=1) -> int");
    assert_int_equal(ask_cpu("t::f"), 1);
}

static void S072_release_puts_back_what_was_hidden(void **state) {
    (void)state;
    declare("t::f(Tensor x) -> int");
    fac_registration *a = add("t::f", "CPU", &one), *b = add("t::f", "CPU", &two), *c = add("t::f", "CPU", &three);
    assert_int_equal(ask_cpu("t::f"), 3);
    fac_registration_release(b); /* from the middle: nothing changes */
    assert_int_equal(ask_cpu("t::f"), 3);
    fac_registration_release(c);
    assert_int_equal(ask_cpu("t::f"), 1);
    fac_registration_release(c); /* again: harmless */
    assert_int_equal(ask_cpu("t::f"), 1);
    fac_registration_release(a);
    ask_in_vain("t::f", keys_on(FAC_KEY_DENSE, FAC_BACKEND_CPU), "t::f");
    fac_registration_release(NULL);
}

static void E16_handles_of_fallbacks_too(void **state) {
    (void)state;
    declare("t::f(Tensor x) -> int");
    fac_registration *a = add_fallback("CPU", &one), *b = add_fallback("CPU", &two);
    assert_int_equal(ask_cpu("t::f"), 2);
    fac_registration_release(b);
    assert_int_equal(ask_cpu("t::f"), 1);
    fac_registration_release(a);
    ask_in_vain("t::f", keys_on(FAC_KEY_DENSE, FAC_BACKEND_CPU), "CPU");
}

static void S072_kernels_of_other_signatures_survive_a_new_schema(void **state) {
    fac_value args[2], out;
    (void)state;
    fac_registration *schema = declare("t::f(Tensor x) -> int");
    add_fallback("CPU", &two);
    assert_int_equal(ask_cpu("t::f"), 2);
    fac_registration_release(schema);
    declare("t::f(Tensor x, Tensor y) -> int");
    fac_tensor *t = tensor_with_keys(keys_on(FAC_KEY_DENSE, FAC_BACKEND_CPU));
    args[0] = args[1] = fac_value_tensor(t);
    assert_ok(fac_call("t::f", args, 2, &out));
    assert_int_equal(fac_value_as_int(out), 2);
    fac_value_release(&args[0]);
    fac_release(t);
}

static void S073_unknown_names_get_near_misses(void **state) {
    (void)state;
    declare("t::foo_bar.Tensor(Tensor x) -> int");
    declare("t::foo_bar.Scalar(Tensor x) -> int");
    declare("t::unrelated_thing(Tensor x) -> int");
    assert_null(fac_operator_find("t::foo_baz"));
    assert_true(strstr(fac_error_message(), "'t::foo_bar.Scalar'") &&
                strstr(fac_error_message(), "'t::foo_bar.Tensor'"));
    assert_null(strstr(fac_error_message(), "unrelated"));
    assert_error(FAC_ERR_NOT_FOUND, "there is no operator 't::foo_baz'");
    assert_null(fac_operator_find("t::foo_bar"));
    assert_error(FAC_ERR_NOT_FOUND, "did you mean");
    assert_null(fac_operator_find("foo_bar.Tensor"));
    assert_error(FAC_ERR_NOT_FOUND, "'t::foo_bar.Tensor'");
    assert_null(fac_operator_find("zzzzzzzzzzzzzzzzzzzzzzzzzz"));
    assert_null(strstr(fac_error_message(), "did you mean"));
    assert_error(FAC_ERR_NOT_FOUND, "zzzz");
    assert_null(fac_operator_find(NULL));
    assert_error(FAC_ERR_ARGUMENT, "NULL");
    assert_null(fac_operator_lookup("t::nope"));
}

static void S073_all_operators_in_order_of_name(void **state) {
    (void)state;
    size_t before = fac_operator_count();
    fac_registration *r = declare("t::bbb(Tensor x) -> int");
    declare("t::aaa(Tensor x) -> int");
    declare("t::ccc(Tensor x) -> int");
    assert_int_equal(fac_operator_count(), before + 3);
    for (size_t i = 1; i < fac_operator_count(); i++) {
        const fac_operator *a = fac_operator_at(i - 1), *b = fac_operator_at(i);
        assert_true(strcmp(fac_operator_name(a), fac_operator_name(b)) < 0);
        assert_ptr_equal(fac_operator_find(fac_operator_name(b)), b);
    }
    fac_registration_release(r);
    assert_int_equal(fac_operator_count(), before + 2);
    assert_null(fac_operator_at(before + 2));
    assert_error(FAC_ERR_INDEX, "there is no operator");
}

static void S073_many_operators_are_all_found(void **state) {
    enum { N = 3000 };
    (void)state;
    for (int i = 0; i < N; i++) {
        char schema[64];
        snprintf(schema, sizeof schema, "many::op%d.o%d(Tensor x) -> int", i, i % 7);
        declare(schema);
    }
    for (int i = 0; i < N; i++) {
        char name[64];
        snprintf(name, sizeof name, "many::op%d.o%d", i, i % 7);
        assert_string_equal(fac_operator_name(fac_operator_find(name)), name);
    }
}

static void S073_what_an_operator_says_of_itself(void **state) {
    (void)state;
    declare("t::f.o(Tensor(a!) self, *, int k=3) -> (Tensor(a!), int n)");
    const fac_operator *op = fac_operator_find("t::f.o");
    assert_string_equal(fac_operator_name(op), "t::f.o");
    assert_string_equal(fac_operator_schema(op), "f.o(Tensor(a!) self, *, int k=3) -> (Tensor(a!), int n)");
    assert_string_equal(fac_operator_doc(op), "");
    assert_false(fac_operator_has_tag(op, "core"));
    assert_int_equal(fac_operator_arg_count(op), 2);
    assert_int_equal(fac_operator_return_count(op), 2);
    assert_string_equal(fac_operator_name(NULL), "");
    assert_error(FAC_ERR_ARGUMENT, "an operator is expected");
}

static void facts_have_room_for_64_arguments(void **state) {
    (void)state;
    char schema[1024] = "t::many(Tensor x";
    for (int i = 1; i < 65; i++) {
        fac_operator_facts f;
        const size_t n = strlen(schema);
        snprintf(schema + n, sizeof schema - n, ", %s x%d", i == 63 ? "Tensor(a!)" : "int", i);
        if (i < 63) continue;
        char text[1100];
        snprintf(text, sizeof text, "%s) -> ()", schema);
        fac_registration *r = fac_register_operator(text, FAC_HERE);
        assert_no_error();
        if (i == 63) {
            assert_ok(fac_operator_facts_of(fac_operator_find("t::many"), &f));
            assert_true(f.writes == (uint64_t)1 << 63);
        } else {
            assert_int_equal(fac_operator_facts_of(fac_operator_find("t::many"), &f), FAC_ERR_UNSUPPORTED);
            assert_error(FAC_ERR_UNSUPPORTED, "has 65 arguments");
        }
        fac_registration_release(r);
    }
}

/* ---- listeners --------------------------------------------------------------------------------------------------- */

static char heard[200];
static void listen(void *context, const fac_operator *op, bool added) {
    size_t n = strlen(heard);
    snprintf(heard + n, sizeof heard - n, "%s%s%s ", (const char *)context, added ? "+" : "-", fac_operator_name(op));
}

static fac_registration *self_releasing;
static void listen_once(void *context, const fac_operator *op, bool added) {
    listen(context, op, added);
    fac_registration_release(self_releasing);
}

static void S075_listeners_hear_of_schemas(void **state) {
    (void)state;
    heard[0] = 0;
    fac_registration *l = fac_register_listener(listen, "a");
    assert_non_null(l);
    add("t::f", "CPU", &one); /* a kernel is no operator */
    fac_registration *f = declare("t::f(Tensor x) -> int");
    fac_registration_release(f);
    assert_string_equal(heard, "a+t::f a-t::f ");
    self_releasing = fac_register_listener(listen_once, "b");
    f = declare("t::f(Tensor x) -> int");
    fac_registration_release(l);
    fac_registration_release(f);
    assert_string_equal(heard, "a+t::f a-t::f b+t::f a+t::f ");
    assert_null(fac_register_listener(NULL, NULL));
    assert_error(FAC_ERR_ARGUMENT, "listener");
}

/* A listener may register: here a kernel for every operator that appears. */
static void add_kernel_to(void *context, const fac_operator *op, bool added) {
    (void)context;
    if (added) add(fac_operator_name(op), "CPU", &four);
}

static void S075_listener_may_register(void **state) {
    (void)state;
    fac_register_listener(add_kernel_to, NULL);
    declare("t::f(Tensor x) -> int");
    assert_int_equal(ask_cpu("t::f"), 4);
}

/* ---- places ------------------------------------------------------------------------------------------------------ */

static void S076_places_of_registration_are_kept(void **state) {
    (void)state;
    char where[] = "temporary.c:7";
    fac_register_operator("t::f(Tensor x) -> int", where);
    fac_register_boxed("t::f", "Meta", ANSWER(one), where);
    memset(where, 'x', sizeof where - 1); /* a copy was taken */
    ask_in_vain("t::f", keys_on(FAC_KEY_DENSE, FAC_BACKEND_CPU), "Meta (temporary.c:7)");
    assert_non_null(fac_register_boxed("t::f", "CPU", ANSWER(one), NULL));
    assert_int_equal(ask_cpu("t::f"), 1);
}

/* ---- refusals ---------------------------------------------------------------------------------------------------- */

static void S092_bad_registrations_are_refused(void **state) {
    (void)state;
    assert_null(fac_register_operator("t::f(Tensr x) -> int", FAC_HERE));
    assert_error(FAC_ERR_ARGUMENT, "a type is expected");
    assert_null(fac_register_operator(NULL, FAC_HERE));
    assert_error(FAC_ERR_ARGUMENT, "NULL");
    assert_null(fac_register_operator("t::f(str[] x) -> int", FAC_HERE));
    assert_error(FAC_ERR_UNSUPPORTED, "str[]");
    assert_null(fac_register_operator("t::f(ScalarType x=quaternion) -> int", FAC_HERE));
    assert_error(FAC_ERR_DTYPE, "quaternion");
    assert_null(fac_operator_lookup("t::f"));
    assert_null(fac_register_boxed("t::f", "GPU", ANSWER(one), FAC_HERE));
    assert_error(FAC_ERR_ARGUMENT, "names no dispatch key; the keys are CPU, CUDA");
    assert_null(fac_register_boxed("t::f", NULL, ANSWER(one), FAC_HERE));
    assert_error(FAC_ERR_ARGUMENT, "NULL");
    assert_null(fac_register_boxed("t::f", "CPU", NULL, NULL, FAC_HERE));
    assert_error(FAC_ERR_ARGUMENT, "fac_register_fallthrough");
    static const char *const names[] = {"f", "t::", "::f", "t::f.", "t::f.a.b", "t:f", "t::f g", ""};
    for (size_t i = 0; i < FAC_COUNT(names); i++) {
        assert_null(fac_register_boxed(names[i], "CPU", ANSWER(one), FAC_HERE));
        assert_error(FAC_ERR_ARGUMENT, "full name");
    }
    assert_null(fac_register_boxed(NULL, "CPU", ANSWER(one), FAC_HERE));
    assert_error(FAC_ERR_ARGUMENT, "no operator");
}

static void S094_alias_keys_have_no_fallback(void **state) {
    (void)state;
    assert_null(fac_register_fallback("CatchAll", ANSWER(one), FAC_HERE));
    assert_error(FAC_ERR_ARGUMENT, "CatchAll");
    assert_null(fac_register_fallback("CompositeExplicit", ANSWER(one), FAC_HERE));
    assert_error(FAC_ERR_ARGUMENT, "CompositeExplicit");
}

static void S092_removed_operator_reports_itself(void **state) {
    (void)state;
    fac_registration *r = declare("t::f(Tensor x) -> int");
    add("t::f", "CPU", &one);
    const fac_operator *op = fac_operator_find("t::f");
    fac_registration_release(r);
    fac_value out;
    assert_int_equal(fac_call_op(op, NULL, 0, &out), FAC_ERR_NOT_FOUND);
    assert_error(FAC_ERR_NOT_FOUND, "not declared (any more)");
}

static void S092_library_restarts_without_what_users_added(void **state) {
    (void)state;
    size_t before = fac_operator_count();
    declare("t::f(Tensor x) -> int");
    add_fallback("CPU", &one);
    fac_shutdown();
    assert_int_equal(fac_operator_count(), before);
    assert_null(fac_operator_lookup("t::f"));
    declare("t::f(Tensor x) -> int");
    ask_in_vain("t::f", keys_on(FAC_KEY_DENSE, FAC_BACKEND_CPU), "t::f");
}

/* ---- a back end, and what the dispatcher holds ----------------------------------------------------------------------- */

/* A back end registers a block of kernels for its own key; taking the block back leaves nothing behind. */
static void E41_registration_block_of_a_back_end(void **state) {
    static const struct {
        const char *op;
        const int *answer;
    } block[] = {{"t::f", &one}, {"t::g", &two}, {"other::h.out", &three}};
    const fac_keyset keys = keys_on(FAC_KEY_DENSE, FAC_BACKEND_PRIVATE1);
    fac_registration *r[FAC_COUNT(block)];
    (void)state;
    declare("t::f(Tensor x) -> int");
    declare("t::g(Tensor x) -> int");
    declare("other::h.out(Tensor x) -> int");
    for (size_t i = 0; i < FAC_COUNT(block); i++) r[i] = add(block[i].op, "PrivateUse1", block[i].answer);
    for (size_t i = 0; i < FAC_COUNT(block); i++) assert_int_equal(ask(block[i].op, keys), *block[i].answer);
    for (size_t i = 0; i < FAC_COUNT(block); i++) fac_registration_release(r[i]);
    for (size_t i = 0; i < FAC_COUNT(block); i++) ask_in_vain(block[i].op, keys, "'PrivateUse1' key");
}

/* The list of operators, the search by name, fallbacks and listeners work on one and the same set. */
static void E15_the_dispatchers_data_agree(void **state) {
    (void)state;
    heard[0] = 0;
    fac_register_listener(listen, "");
    add_fallback("SparseMLC", &four);
    size_t before = fac_operator_count();
    fac_registration *r = declare("zz::last(Tensor x) -> int");
    assert_int_equal(fac_operator_count(), before + 1);
    assert_ptr_equal(fac_operator_at(before), fac_operator_find("zz::last"));
    assert_int_equal(ask("zz::last", keys_on(FAC_KEY_SPARSE, FAC_BACKEND_MLC)), 4);
    fac_registration_release(r);
    assert_int_equal(fac_operator_count(), before);
    assert_string_equal(heard, "+zz::last -zz::last ");
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

/* Declares, registers, calls and releases; false once something failed. */
static bool use_dispatcher(fac_tensor *t) {
    fac_registration *r[] = {
        fac_register_boxed("t::f", "CPU", ANSWER(one), FAC_HERE),
        fac_register_operator("t::f(Tensor x, int[2] k=1, str s='a') -> int", FAC_HERE),
        fac_register_boxed("t::f", "CPU", ANSWER(two), FAC_HERE),
        fac_register_fallback("Meta", ANSWER(three), FAC_HERE),
        fac_register_fallthrough("t::f", "Trace", FAC_HERE),
        fac_register_listener(listen, ""),
    };
    bool ok = fac_error() == FAC_OK;
    fac_value v = fac_value_tensor(t), out = fac_value_none();
    if (ok && fac_call("t::f", &v, 1, &out) == FAC_OK) assert_int_equal(fac_value_as_int(out), 2);
    fac_value_release(&v);
    for (size_t i = FAC_COUNT(r); i--;) fac_registration_release(r[i]);
    return fac_error() == FAC_OK;
}

static void registration_survives_each_failing_allocation(void **state) {
    bool whole = false;
    (void)state;
    heard[0] = 0;
    for (int64_t n = 1; !whole; n++) {
        fac_tensor *t = tensor_with_keys(keys_on(FAC_KEY_DENSE, FAC_BACKEND_CPU));
        memory_hook_fail(n, false);
        whole = use_dispatcher(t) && !memory_hook_failures();
        memory_hook_fail(0, false);
        if (fac_error()) assert_error(FAC_ERR_MEMORY, "out of memory");
        fac_release(t);
        assert_true(n < 1000);
    }
}

static void an_operator_tells_its_kernels_and_gradient(void **state) {
    (void)state;
    static const struct {
        const char *op, *gradient;
        bool cuda;
    } expected[] = {{"aten::mul.Tensor", "self, other", true},
                    {"aten::mul.out", "none: out forms take no part in autograd", true},
                    {"aten::absolute", "through the operators that it is made of", true},
                    {"aten::max_pool2d_with_indices_backward", "grad_output", false}};
    for (size_t i = 0; i < FAC_COUNT(expected); i++) {
        const fac_operator *op = fac_operator_find(expected[i].op);
        fac_operator_facts f;
        assert_ok(fac_operator_facts_of(op, &f));
        assert_string_equal(f.gradient, expected[i].gradient);
        assert_true(fac_operator_has_kernel(op, "CPU") && fac_operator_has_kernel(op, "Meta"));
        assert_int_equal(fac_operator_has_kernel(op, "CUDA"), expected[i].cuda);
    }
    const fac_operator *op = fac_operator_find("aten::mul.Tensor");
    assert_true(fac_operator_has_kernel(op, "SparseCPU"));
    assert_false(fac_operator_has_kernel(op, "QuantizedCUDA"));
    assert_ok(fac_error());
    static const char *const keys[] = {"Autograd", "nonsense", NULL};
    for (size_t i = 0; i < FAC_COUNT(keys); i++) {
        assert_false(fac_operator_has_kernel(op, keys[i]));
        assert_int_equal(fac_error(), FAC_ERR_ARGUMENT);
        fac_error_clear();
    }
    assert_false(fac_operator_has_kernel(NULL, "CPU"));
    assert_int_equal(fac_error(), FAC_ERR_ARGUMENT);
    fac_error_clear();
}

static void a_users_operator_has_the_facts_of_its_schema(void **state) {
    (void)state;
    fac_operator_facts f;
    fac_registration *a = fac_register_operator("facts::grow(Tensor(a!) x, Tensor(b) y) -> Tensor(b)", FAC_HERE),
                     *b = fac_register_operator("facts::pure(Tensor x) -> Tensor", FAC_HERE);
    assert_ok(fac_operator_facts_of(fac_operator_find("facts::grow"), &f));
    assert_true(f.writes == 1 && f.aliases == 2 && !f.functional && f.combines == FAC_COMBINES_UNKNOWN);
    assert_ok(fac_operator_facts_of(fac_operator_find("facts::pure"), &f));
    assert_true(!f.writes && !f.aliases && f.functional == fac_operator_find("facts::pure"));
    assert_string_equal(f.gradient, "unknown");
    assert_int_equal(fac_operator_facts_of(NULL, &f), FAC_ERR_ARGUMENT);
    fac_error_clear();
    assert_int_equal(fac_operator_facts_of(fac_operator_find("facts::pure"), NULL), FAC_ERR_ARGUMENT);
    fac_error_clear();
    fac_registration_release(a);
    fac_registration_release(b);
}

FAC_TEST_MAIN(DISPATCH_TEST(S066_second_declaration_names_both_places),
              DISPATCH_TEST(S066_overloads_are_operators_of_their_own), DISPATCH_TEST(S067_kernel_after_the_schema),
              DISPATCH_TEST(S067_kernel_before_the_schema), DISPATCH_TEST(S072_release_puts_back_what_was_hidden),
              DISPATCH_TEST(E16_handles_of_fallbacks_too),
              DISPATCH_TEST(S072_kernels_of_other_signatures_survive_a_new_schema),
              DISPATCH_TEST(S073_unknown_names_get_near_misses), DISPATCH_TEST(S073_all_operators_in_order_of_name),
              DISPATCH_TEST(S073_many_operators_are_all_found), DISPATCH_TEST(S073_what_an_operator_says_of_itself),
              DISPATCH_TEST(an_operator_tells_its_kernels_and_gradient),
              DISPATCH_TEST(a_users_operator_has_the_facts_of_its_schema),
              DISPATCH_TEST(facts_have_room_for_64_arguments), DISPATCH_TEST(S075_listeners_hear_of_schemas),
              DISPATCH_TEST(S075_listener_may_register), DISPATCH_TEST(S076_places_of_registration_are_kept),
              DISPATCH_TEST(S092_bad_registrations_are_refused), DISPATCH_TEST(S094_alias_keys_have_no_fallback),
              DISPATCH_TEST(S092_removed_operator_reports_itself),
              DISPATCH_TEST(S092_library_restarts_without_what_users_added),
              DISPATCH_TEST(E41_registration_block_of_a_back_end), DISPATCH_TEST(E15_the_dispatchers_data_agree),
              DISPATCH_TEST(registration_survives_each_failing_allocation))
