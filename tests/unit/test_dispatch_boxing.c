/* Boxed and typed kernels behind boxed and typed calls: all crossings agree, and a boxed fallback serves every operator. */
#include "core/scalar.h"
#include "dispatch/registry.h"
#include "support/dispatch.h"

typedef fac_status (*binary_fn)(const fac_call_info *c, fac_tensor *x, fac_tensor *y, fac_tensor **out);

static int typed_runs, boxed_runs;

/* The two kernels do the same: they give the second argument back. */
static fac_status second_typed(const fac_call_info *c, fac_tensor *x, fac_tensor *y, fac_tensor **out) {
    (void)x;
    assert_ptr_equal(c->context, &typed_runs);
    typed_runs++;
    *out = fac_keep(y);
    return FAC_OK;
}

static fac_status second_boxed(const fac_call_info *c, fac_value *stack) {
    assert_ptr_equal(c->context, &boxed_runs);
    boxed_runs++;
    stack[0] = fac_value_copy(stack[1]);
    return FAC_OK;
}

static void add_typed(const char *op, const char *key) {
    assert_non_null(
        fac_register_typed(op, key, "Tensor, Tensor -> Tensor", (fac_fn)second_typed, &typed_runs, FAC_HERE));
}
static void add_boxed(const char *op, const char *key) {
    assert_non_null(fac_register_boxed(op, key, second_boxed, &boxed_runs, FAC_HERE));
}

/* What a generated stub does. */
static fac_tensor *call_typed(const char *name, fac_tensor *x, fac_tensor *y) {
    const fac_operator *op = fac_operator_find(name);
    fac_keyset keys = fac__call_keys(fac__thread(), fac_tensor_keys(x) | fac_tensor_keys(y));
    const fac_kernel *k = fac__pick(op, &keys);
    const fac_call_info c = {op, keys, k, k->context};
    fac_tensor *out = NULL;
    fac_status st = ((binary_fn)k->typed)(&c, fac__header(x), fac__header(y), &out);
    assert_int_equal(st, fac_error());
    return held(out);
}

static fac_tensor *call_boxed(const char *name, fac_tensor *x, fac_tensor *y) {
    fac_value args[] = {fac_value_tensor(x), fac_value_tensor(y)}, out;
    fac_tensor *t = NULL;
    if (fac_call(name, args, 2, &out) == FAC_OK) assert_ok(fac__take_tensor(&out, &t));
    fac_value_release(&args[0]);
    fac_value_release(&args[1]);
    return held(t);
}

static fac_tensor *cpu_tensor(void) { return tensor_with_keys(keys_on(FAC_KEY_DENSE, FAC_BACKEND_CPU)); }

static void S087_four_crossings_agree(void **state) {
    static fac_tensor *(*const calls[])(const char *, fac_tensor *, fac_tensor *) = {call_typed, call_boxed};
    static const char *const ops[] = {"t::typed", "t::boxed"};
    (void)state;
    declare("t::typed(Tensor x, Tensor y) -> Tensor");
    declare("t::boxed(Tensor x, Tensor y) -> Tensor");
    add_typed("t::typed", "CPU");
    add_boxed("t::boxed", "CPU");
    fac_tensor *x = cpu_tensor(), *y = cpu_tensor();
    for (int from = 0; from < 2; from++) {
        for (int to = 0; to < 2; to++) {
            typed_runs = boxed_runs = 0;
            fac_tensor *got = calls[from](ops[to], x, y);
            assert_ptr_equal(got, y);
            assert_int_equal(atomic_load(&fac__header(y)->refs), 2); /* one of them is ours to drop */
            assert_int_equal(atomic_load(&fac__header(x)->refs), 1);
            assert_int_equal(typed_runs, to == 0);
            assert_int_equal(boxed_runs, to == 1);
            fac_release(got);
        }
    }
    fac_release(x);
    fac_release(y);
}

/* ---- E-45: each type through both adapters ----------------------------------------------------------------------- */

static fac_tensor *seen_tensor;

static fac_status check_typed(const fac_call_info *c, fac_tensor *self, fac_scalar p, fac_ints dim, bool keepdim,
                              fac_dtype dtype, fac_tensor *given, fac_tensor **out) {
    (void)c;
    assert_ptr_equal(self, seen_tensor);
    assert_int_equal(p.kind, FAC_KIND_COMPLEX);
    double re_im[2];
    fac__scalar_c128(p, re_im);
    assert_true(re_im[0] == 1 && re_im[1] == -2);
    assert_true(dim.n == 2 && dim.v[0] == -1 && dim.v[1] == 3);
    assert_true(keepdim);
    assert_int_equal(dtype, FAC_F64);
    *out = fac_keep(given);
    return FAC_OK;
}
typedef fac_status (*norm_fn)(const fac_call_info *c, fac_tensor *self, fac_scalar p, fac_ints dim, bool keepdim,
                              fac_dtype dtype, fac_tensor *given, fac_tensor **out);

static fac_status check_boxed(const fac_call_info *c, fac_value *stack) {
    (void)c;
    static const int64_t tags[] = {FAC_TAG_TENSOR, FAC_TAG_COMPLEX, FAC_TAG_INTS,
                                   FAC_TAG_BOOL,   FAC_TAG_DTYPE,   FAC_TAG_TENSOR};
    for (size_t i = 0; i < FAC_COUNT(tags); i++) assert_int_equal(stack[i].tag, tags[i]);
    assert_ptr_equal(fac_value_as_tensor(stack[0]), seen_tensor);
    assert_int_equal(fac_value_as_ints(stack[2]).v[1], 3);
    assert_int_equal(fac_value_as_dtype(stack[4]), FAC_F64);
    stack[0] = fac_value_copy(stack[5]);
    return FAC_OK;
}

/* The signature of the built-in linalg_vector_norm.out. */
static const char wide_signature[] = "Tensor, Scalar, int[]?, bool, ScalarType?, Tensor -> Tensor";

static fac_status call_wide(fac_tensor *x, fac_tensor *given, bool typed, fac_tensor **got) {
    static const double z[] = {1, -2};
    static const int64_t dims[] = {-1, 3};
    const fac_operator *op = fac_operator_find("t::wide");
    if (typed) {
        const fac_kernel *k = atomic_load(&op->table[FAC_BACKEND_CPU]);
        const fac_call_info c = {op, keys_on(FAC_KEY_DENSE, FAC_BACKEND_CPU), k, NULL};
        fac_status st = ((norm_fn)k->typed)(&c, fac__header(x), fac_scalar_c_(z), (fac_ints){dims, 2}, true, FAC_F64,
                                            fac__header(given), got);
        if (st == FAC_OK) *got = held(*got);
        return st;
    }
    fac_value out, args[] = {fac_value_tensor(x),  fac_value_complex(1, -2), fac_value_ints(dims, 2),
                             fac_value_bool(true), fac_value_dtype(FAC_F64), fac_value_tensor(given)};
    fac_status st = fac_call_op(op, args, FAC_COUNT(args), &out);
    if (st == FAC_OK) st = fac__take_tensor(&out, got);
    if (st == FAC_OK) *got = held(*got);
    for (size_t i = 0; i < FAC_COUNT(args); i++) fac_value_release(&args[i]);
    return st;
}

static void E45_adapters_carry_every_argument(void **state) {
    (void)state;
    declare(
        "t::wide(Tensor self, Scalar p=2, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None, Tensor(a!) out) "
        "-> Tensor(a!)");
    fac_tensor *x = seen_tensor = cpu_tensor(), *given = cpu_tensor();
    for (int way = 0; way < 4; way++) {
        bool from_typed = way & 1, to_typed = way & 2;
        fac_registration *r =
            to_typed ? fac_register_typed("t::wide", "CPU", wide_signature, (fac_fn)check_typed, NULL, FAC_HERE)
                     : fac_register_boxed("t::wide", "CPU", check_boxed, NULL, FAC_HERE);
        assert_no_error();
        fac_tensor *got;
        assert_ok(call_wide(x, given, from_typed, &got));
        assert_ptr_equal(got, given);
        fac_release(got);
        fac_registration_release(r);
    }
    fac_release(x);
    fac_release(given);
}

/* A list of results and a plain one: "Tensor -> Tensor[]" (unbind's) and "Tensor -> bool". */
static fac_status twice_typed(const fac_call_info *c, fac_tensor *x, fac_tensor_list *out) {
    (void)c;
    out->v = fac__alloc_array(2, sizeof *out->v);
    if (!out->v) return FAC_ERR_MEMORY;
    out->v[0] = fac_keep(x);
    out->v[1] = fac_keep(x);
    out->n = 2;
    return FAC_OK;
}
static fac_status twice_boxed(const fac_call_info *c, fac_value *stack) {
    (void)c;
    fac_tensor *x = fac_value_as_tensor(stack[0]);
    stack[0] = fac_value_tensors((fac_tensor *const[]){x, x}, 2);
    return fac_error();
}
typedef fac_status (*twice_fn)(const fac_call_info *c, fac_tensor *x, fac_tensor_list *out);

static void E45_lists_of_results_cross(void **state) {
    (void)state;
    declare("t::typed(Tensor x) -> Tensor[]");
    declare("t::boxed(Tensor x) -> Tensor[]");
    assert_non_null(fac_register_typed("t::typed", "CPU", "Tensor -> Tensor[]", (fac_fn)twice_typed, NULL, FAC_HERE));
    assert_non_null(fac_register_boxed("t::boxed", "CPU", twice_boxed, NULL, FAC_HERE));
    fac_tensor *x = cpu_tensor();
    fac_value arg = fac_value_tensor(x), out;
    static const char *const ops[] = {"t::typed", "t::boxed"};
    for (int i = 0; i < 2; i++) {
        assert_ok(fac_call(ops[i], &arg, 1, &out));
        fac_tensors l = fac_value_as_tensors(out);
        assert_true(l.n == 2 && l.v[0] == x && l.v[1] == x);
        fac_value_release(&out);
        const fac_operator *op = fac_operator_find(ops[i]);
        const fac_kernel *k = atomic_load(&op->table[FAC_BACKEND_CPU]);
        const fac_call_info c = {op, fac_tensor_keys(x), k, NULL};
        fac_tensor_list list = {NULL, 2}; /* which a kernel that fails may leave as it is */
        assert_ok(((twice_fn)k->typed)(&c, fac__header(x), &list));
        assert_true(list.n == 2 && list.v[1] == fac__header(x));
        fac__tensor_list_free(&list);
    }
    fac_value_release(&arg);
    assert_int_equal(atomic_load(&fac__header(x)->refs), 1);
    fac_release(x);
}

/* ---- S-077 ------------------------------------------------------------------------------------------------------- */

static void S077_signature_must_agree_with_the_schema(void **state) {
    (void)state;
    declare("t::f(Tensor x, Tensor y) -> Tensor");
    assert_null(fac_register_typed("t::f", "CPU", "Tensor -> Tensor", (fac_fn)second_typed, NULL, "here.c:1"));
    assert_true(strstr(fac_error_message(), "(Tensor -> Tensor)") &&
                strstr(fac_error_message(), "(Tensor, Tensor -> Tensor)"));
    assert_error(FAC_ERR_ARGUMENT, "here.c:1");
    assert_null(fac_register_typed("t::f", "CPU", "Object, Object -> Object", (fac_fn)second_typed, NULL, FAC_HERE));
    assert_error(FAC_ERR_UNSUPPORTED, "register a boxed kernel");
    assert_null(fac_register_typed("t::f", "CPU", "Tensor Tensor -> Tensor", (fac_fn)second_typed, NULL, FAC_HERE));
    assert_error(FAC_ERR_ARGUMENT, "'->'");
    assert_null(fac_register_typed("t::f", "CPU", "Tensor -> Tensor", NULL, NULL, FAC_HERE));
    assert_error(FAC_ERR_ARGUMENT, "NULL");
}

static void S077_schema_must_agree_with_an_earlier_kernel(void **state) {
    (void)state;
    fac_registration *r =
        fac_register_typed("t::f", "CPU", "Tensor -> Tensor", (fac_fn)second_typed, NULL, "early.c:3");
    assert_non_null(r);
    assert_null(fac_register_operator("t::f(Tensor x, Tensor y) -> Tensor", "late.c:9"));
    assert_true(strstr(fac_error_message(), "early.c:3") && strstr(fac_error_message(), "late.c:9"));
    assert_error(FAC_ERR_ARGUMENT, "t::f");
    assert_null(fac_operator_lookup("t::f"));
    fac_registration_release(r);
    declare("t::f(Tensor x, Tensor y) -> Tensor");
}

/* Each generated operator uses the adapters of its own schema's signature. */
static void S077_generated_signatures_agree(void **state) {
    (void)state;
    for (size_t i = 0; i < fac_operator_count(); i++) {
        const fac_operator *op = fac_operator_at(i);
        char *text = fac__schema_signature(op->schema);
        assert_non_null(op->signature);
        assert_string_equal(text, op->signature->text);
        fac__free(text);
    }
}

/* ---- S-088 ------------------------------------------------------------------------------------------------------- */

static fac_status count_and_go_on(const fac_call_info *c, fac_value *stack) {
    ++*(int *)c->context;
    return fac_redispatch_below(c, FAC_KEY_TRACE, stack);
}

static void S088_one_boxed_fallback_serves_every_operator(void **state) {
    int count = 0;
    (void)state;
    declare("t::typed(Tensor x, Tensor y) -> Tensor");
    declare("t::boxed(Tensor x, Tensor y) -> Tensor");
    declare("t::odd(Tensor x) -> int"); /* a signature of its own: boxed only */
    fac_registration *r = fac_register_fallback("Trace", count_and_go_on, &count, FAC_HERE);
    declare("t::later(Tensor x, Tensor y) -> Tensor");
    add_typed("t::typed", "CPU");
    add_boxed("t::boxed", "CPU");
    add_typed("t::later", "CatchAll");
    add("t::odd", "CPU", &two);
    fac_keyset was = fac_thread_include(fac_keyset_of(FAC_KEY_TRACE));
    fac_tensor *x = cpu_tensor(), *y = cpu_tensor();
    static const char *const ops[] = {"t::typed", "t::boxed"};
    for (int i = 0; i < 2; i++) {
        fac_tensor *a = call_typed(ops[i], x, y), *b = call_boxed(ops[i], x, y);
        assert_true(a == y && b == y);
        fac_release(a);
        fac_release(b);
    }
    assert_int_equal(ask_cpu("t::odd"), 2);
    assert_int_equal(count, 5);
    fac_thread_include(was);
    fac_release(call_typed("t::typed", x, y));
    assert_int_equal(count, 5);
    fac_registration_release(r);
    fac_release(x);
    fac_release(y);
}

/* Every operator of the library has the fallback in its row. */
static void S088_fallback_is_in_every_row(void **state) {
    int count = 0;
    (void)state;
    declare("t::f(Tensor x) -> int");
    fac_register_fallback("VendorMLC", count_and_go_on, &count, "counter.c:1");
    for (size_t i = 0; i < fac_operator_count(); i++) {
        const fac_operator *op = fac_operator_at(i);
        fac_keyset keys = keys_on(FAC_KEY_VENDOR, FAC_BACKEND_MLC);
        const fac_kernel *k = fac__pick(op, &keys);
        const int place = fac__table_choose(op, FAC_KEY_VENDOR, FAC_BACKEND_MLC)->place;
        if (strcmp(k->label, "fallback") !=
            0) /* only a catch-all is nearer, and a kernel for the key on every back end */
            assert_true(place == FAC_PLACE_CATCH_ALL || place == FAC_PLACE_ALL + FAC_KEY_VENDOR);
        else
            assert_string_equal(k->where, "counter.c:1");
    }
}

/* ---- failures ---------------------------------------------------------------------------------------------------- */

static fac_status fail_typed(const fac_call_info *c, fac_tensor *x, fac_tensor *y, fac_tensor **out) {
    (void)c, (void)x, (void)y, (void)out;
    return FAC_FAIL(FAC_ERR_SHAPE, "a kernel's own words");
}
static fac_status fail_boxed(const fac_call_info *c, fac_value *stack) {
    (void)c, (void)stack;
    return FAC_FAIL(FAC_ERR_SHAPE, "a kernel's own words");
}
static fac_status give_nonsense(const fac_call_info *c, fac_value *stack) {
    (void)c;
    stack[0] = fac_value_string("nonsense");
    return FAC_OK;
}

static void S087_failures_cross_too(void **state) {
    (void)state;
    declare("t::typed(Tensor x, Tensor y) -> Tensor");
    declare("t::boxed(Tensor x, Tensor y) -> Tensor");
    assert_non_null(
        fac_register_typed("t::typed", "CPU", "Tensor, Tensor -> Tensor", (fac_fn)fail_typed, NULL, FAC_HERE));
    assert_non_null(fac_register_boxed("t::boxed", "CPU", fail_boxed, NULL, FAC_HERE));
    fac_tensor *x = cpu_tensor(), *y = cpu_tensor();
    static const char *const ops[] = {"t::typed", "t::boxed"};
    for (int i = 0; i < 2; i++) {
        assert_null(call_typed(ops[i], x, y));
        assert_error(FAC_ERR_SHAPE, "a kernel's own words");
        assert_null(call_boxed(ops[i], x, y));
        assert_true(strncmp(fac_error_message(), ops[i], strlen(ops[i])) == 0); /* the operator's name in front */
        assert_error(FAC_ERR_SHAPE, "a kernel's own words");
    }
    fac_release(x);
    fac_release(y);
}

static void S087_wrong_results_of_a_boxed_kernel_are_refused(void **state) {
    (void)state;
    declare("t::f(Tensor x, Tensor y) -> Tensor");
    assert_non_null(fac_register_boxed("t::f", "CPU", give_nonsense, NULL, "bad.c:5"));
    fac_tensor *x = cpu_tensor(), *y = cpu_tensor();
    assert_null(call_boxed("t::f", x, y));
    assert_error(FAC_ERR_ARGUMENT, "bad.c:5");
    assert_null(call_typed("t::f", x, y));
    assert_error(FAC_ERR_ARGUMENT, "gave str where its schema promises Tensor");
    fac_release(x);
    fac_release(y);
}

static void S084_missing_kernel_reports_through_both_doors(void **state) {
    (void)state;
    declare("t::f(Tensor x, Tensor y) -> Tensor");
    fac_register_boxed("t::f", "Meta", second_boxed, NULL, "meta.c:1");
    fac_tensor *x = cpu_tensor(), *y = cpu_tensor();
    assert_null(call_typed("t::f", x, y));
    assert_error(FAC_ERR_NO_KERNEL, "could not run 't::f' with arguments of the 'CPU' key");
    assert_null(call_boxed("t::f", x, y));
    assert_error(FAC_ERR_NO_KERNEL, "Meta (meta.c:1)");
    fac_release(x);
    fac_release(y);
}

FAC_TEST_MAIN(DISPATCH_TEST(S087_four_crossings_agree), DISPATCH_TEST(E45_adapters_carry_every_argument),
              DISPATCH_TEST(E45_lists_of_results_cross), DISPATCH_TEST(S077_signature_must_agree_with_the_schema),
              DISPATCH_TEST(S077_generated_signatures_agree),
              DISPATCH_TEST(S077_schema_must_agree_with_an_earlier_kernel),
              DISPATCH_TEST(S088_one_boxed_fallback_serves_every_operator),
              DISPATCH_TEST(S088_fallback_is_in_every_row), DISPATCH_TEST(S087_failures_cross_too),
              DISPATCH_TEST(S087_wrong_results_of_a_boxed_kernel_are_refused),
              DISPATCH_TEST(S084_missing_kernel_reports_through_both_doors))
