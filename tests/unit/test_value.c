/* Boxed values: each tag there and back, what counts they hold, what reads as what. */
#include "core/scalar.h"
#include "core/tensor_make.h"
#include "dispatch/operator.h"
#include "dispatch/value.h"
#include "support/support.h"

static fac_tensor *tensor_of(double x) {
    fac_tensor *t;
    assert_ok(fac__scalar_tensor(fac_scalar_f_(x), FAC_F64, &t));
    fac__count_kept(t);
    return fac__handle(t);
}

static void E44_plain_tags_round_trip(void **state) {
    (void)state;
    assert_int_equal(sizeof(fac_value), 16);
    assert_int_equal(fac_value_none().tag, FAC_TAG_NONE);
    assert_int_equal(fac_value_as_int(fac_value_int(INT64_MIN)), INT64_MIN);
    assert_true(fac_value_as_float(fac_value_float(-0.1)) == -0.1);
    assert_true(fac_value_as_bool(fac_value_bool(true)) && !fac_value_as_bool(fac_value_bool(false)));
    assert_int_equal(fac_value_as_dtype(fac_value_dtype(FAC_BF16)), FAC_BF16);
    assert_int_equal(fac_value_as_layout(fac_value_layout(FAC_SPARSE_CSR)), FAC_SPARSE_CSR);
    assert_int_equal(fac_value_as_format(fac_value_format(FAC_CHANNELS_LAST)), FAC_CHANNELS_LAST);
    static const fac_device devices[] = {{FAC_CPU, 0}, {FAC_CUDA, 8}, {FAC_META, 1}, {FAC_PRIVATE3, INT32_MAX}};
    for (size_t i = 0; i < FAC_COUNT(devices); i++) {
        fac_device d = fac_value_as_device(fac_value_device(devices[i]));
        assert_int_equal(d.type, devices[i].type);
        assert_int_equal(d.index_plus, devices[i].index_plus);
    }
}

static void E44_tensor_round_trip(void **state) {
    (void)state;
    fac_tensor *t = tensor_of(3);
    fac_value v = fac_value_tensor(t);
    assert_int_equal(v.tag, FAC_TAG_TENSOR);
    assert_ptr_equal(fac_value_as_tensor(v), t);
    assert_int_equal(atomic_load(&fac__header(t)->refs), 2);
    fac_value w = fac_value_copy(v);
    assert_int_equal(atomic_load(&fac__header(t)->refs), 3);
    fac_value_release(&v);
    assert_int_equal(v.tag, FAC_TAG_NONE);
    fac_value_release(&v); /* harmless */
    fac_release(t);
    assert_ptr_equal(fac_value_as_tensor(w), t); /* the value alone keeps it */
    fac_value_release(&w);
    assert_int_equal(fac_value_tensor(NULL).tag, FAC_TAG_NONE);
    assert_null(fac_value_as_tensor(fac_value_none()));
}

static void E44_counted_tags_round_trip(void **state) {
    static const int64_t ints[] = {1, -2, INT64_MAX};
    static const double floats[] = {0.5, -1e300};
    static const bool bools[] = {true, false, true};
    (void)state;
    fac_value s = fac_value_string("grüße"), i = fac_value_ints(ints, 3), f = fac_value_floats(floats, 2),
              b = fac_value_bools(bools, 3), c = fac_value_complex(1, -2);
    assert_string_equal(fac_value_as_string(s), "grüße");
    assert_int_equal(fac_value_as_ints(i).n, 3);
    assert_memory_equal(fac_value_as_ints(i).v, ints, sizeof ints);
    assert_int_equal(fac_value_as_floats(f).n, 2);
    assert_memory_equal(fac_value_as_floats(f).v, floats, sizeof floats);
    assert_int_equal(b.tag, FAC_TAG_BOOLS);
    fac_ints as_ints = fac_value_as_ints(b);
    assert_true(as_ints.n == 3 && as_ints.v[0] == 1 && as_ints.v[1] == 0 && as_ints.v[2] == 1);
    fac_scalar z = fac_value_as_scalar(c);
    assert_int_equal(z.kind, FAC_KIND_COMPLEX);
    double re_im[2];
    fac__scalar_c128(z, re_im);
    assert_true(re_im[0] == 1 && re_im[1] == -2);
    fac_value copies[] = {fac_value_copy(s), fac_value_copy(i), fac_value_copy(f), fac_value_copy(b),
                          fac_value_copy(c)};
    fac_value *originals[] = {&s, &i, &f, &b, &c};
    for (size_t k = 0; k < FAC_COUNT(copies); k++) {
        assert_int_equal(copies[k].payload, originals[k]->payload); /* shared, not copied */
        fac_value_release(originals[k]);
    }
    assert_string_equal(fac_value_as_string(copies[0]), "grüße");
    for (size_t k = 0; k < FAC_COUNT(copies); k++) fac_value_release(&copies[k]);
}

static void E44_tensor_list_round_trip(void **state) {
    (void)state;
    fac_tensor *v[] = {tensor_of(1), NULL, tensor_of(2)};
    fac_value l = fac_value_tensors(v, 3);
    assert_int_equal(atomic_load(&fac__header(v[0])->refs), 2);
    fac_release(v[0]);
    fac_release(v[2]);
    fac_tensors back = fac_value_as_tensors(l);
    assert_int_equal(back.n, 3);
    assert_true(back.v[0] == v[0] && !back.v[1] && back.v[2] == v[2]);
    fac_value_release(&l);
}

static void E44_scalar_list_round_trip(void **state) {
    static const double re_im[] = {3, 4};
    (void)state;
    const fac_scalar s[] = {fac_scalar_i_(7), fac_scalar_c_(re_im), fac_scalar_b_(true), fac_scalar_f_(0.25)};
    fac_value l = fac_value_scalars(s, 4);
    size_t n;
    const fac_scalar *back = fac_value_as_scalars(l, &n);
    assert_int_equal(n, 4);
    assert_int_equal(fac__scalar_i64(back[0]), 7);
    assert_int_equal(back[1].kind, FAC_KIND_COMPLEX);
    assert_true(back[1].bits != s[1].bits && fac__scalar_f64(back[1]) == 3); /* a copy of the parts */
    assert_int_equal(back[2].kind, FAC_KIND_BOOL);
    assert_true(fac__scalar_f64(back[3]) == 0.25);
    fac_value_release(&l);
}

static void E44_generator_round_trip(void **state) {
    (void)state;
    fac_generator *g = fac_generator_new(7);
    fac_value v = fac_value_generator(g);
    fac_generator_release(g);
    assert_ptr_equal(fac_value_as_generator(v), g);
    uint64_t seed, offset;
    fac_generator_get_state(g, &seed, &offset);
    assert_int_equal(seed, 7);
    fac_value_release(&v);
}

static int released;
static void count_release(void *object) { released += *(int *)object; }

static void E44_object_round_trip(void **state) {
    (void)state;
    int weight = 5;
    released = 0;
    fac_value v = fac_value_object(&weight, count_release), w = fac_value_copy(v);
    assert_ptr_equal(fac_value_as_object(v), &weight);
    fac_value_release(&v);
    assert_int_equal(released, 0);
    fac_value_release(&w);
    assert_int_equal(released, 5);
    v = fac_value_object(&weight, NULL);
    fac_value_release(&v);
    fac__thread_trim(); /* a block that was kept would do */
    memory_hook_fail(1, false);
    v = fac_value_object(&weight, count_release);
    assert_int_equal(v.tag, FAC_TAG_NONE);
    assert_int_equal(released, 10); /* taken even where the value could not be made */
    assert_error(FAC_ERR_MEMORY, "out of memory");
}

static void S086_scalars_of_each_kind(void **state) {
    static const double re_im[] = {1, 2};
    static const struct {
        int64_t kind, tag;
    } cases[] = {{FAC_KIND_BOOL, FAC_TAG_BOOL},
                 {FAC_KIND_INT, FAC_TAG_INT},
                 {FAC_KIND_FLOAT, FAC_TAG_FLOAT},
                 {FAC_KIND_COMPLEX, FAC_TAG_COMPLEX}};
    (void)state;
    const fac_scalar s[] = {fac_scalar_b_(true), fac_scalar_i_(3), fac_scalar_f_(1.5), fac_scalar_c_(re_im)};
    for (size_t i = 0; i < FAC_COUNT(s); i++) {
        fac_value v = fac_value_scalar(s[i]);
        assert_int_equal(v.tag, cases[i].tag);
        fac_scalar back = fac_value_as_scalar(v);
        assert_int_equal(back.kind, cases[i].kind);
        assert_true(fac__scalar_f64(back) == fac__scalar_f64(s[i]));
        fac_value_release(&v);
    }
}

static void S086_ints_and_bools_read_as_floats(void **state) {
    (void)state;
    assert_true(fac_value_as_float(fac_value_int(-3)) == -3);
    assert_true(fac_value_as_float(fac_value_bool(true)) == 1);
}

static void S086_empty_list_is_not_an_unset_one(void **state) {
    (void)state;
    fac_value v = fac_value_ints(NULL, 0);
    assert_non_null(fac_value_as_ints(v).v);
    assert_int_equal(fac_value_as_ints(v).n, 0);
    fac_value_release(&v);
    assert_null(fac_value_as_ints(fac_value_none()).v);
    assert_null(fac_value_as_floats(fac_value_none()).v);
    assert_null(fac_value_as_tensors(fac_value_none()).v);
    assert_null(fac_value_as_string(fac_value_none()));
    assert_int_equal(fac_value_as_dtype(fac_value_none()), FAC_DTYPE_DEFAULT);
}

static void S086_wrong_tag_is_an_error(void **state) {
    (void)state;
    assert_int_equal(fac_value_as_int(fac_value_float(1)), 0);
    assert_error(FAC_ERR_ARGUMENT, "holds float was read as int");
    assert_null(fac_value_as_tensor(fac_value_int(1)));
    assert_error(FAC_ERR_ARGUMENT, "holds int was read as Tensor");
    assert_int_equal(fac_value_as_int(fac_value_none()), 0);
    assert_error(FAC_ERR_ARGUMENT, "holds None was read as int");
    assert_false(fac_value_as_bool(fac_value_int(1)));
    assert_error(FAC_ERR_ARGUMENT, "read as bool");
    assert_null(fac_value_as_floats(fac_value_bool(true)).v);
    assert_error(FAC_ERR_ARGUMENT, "read as float[]");
    assert_int_equal(fac_value_as_scalar(fac_value_dtype(FAC_F32)).kind, FAC_KIND_NONE);
    assert_error(FAC_ERR_ARGUMENT, "holds ScalarType was read as a Scalar");
    assert_null(fac_value_as_object((fac_value){0, 99}));
    assert_error(FAC_ERR_ARGUMENT, "broken tag");
    fac_value_scalar((fac_scalar){0, 77});
    assert_error(FAC_ERR_ARGUMENT, "unknown kind 77");
    assert_int_equal(fac_value_ints((const int64_t[]){1}, SIZE_MAX / 4).tag, FAC_TAG_NONE);
    assert_error(FAC_ERR_OVERFLOW, "does not fit");
}

/* ---- schema types ------------------------------------------------------------------------------------------------ */

static fac_schema *schema_of(const char *type_and_default) {
    char text[200];
    fac_schema *s;
    snprintf(text, sizeof text, "f(%s) -> ()", type_and_default);
    assert_ok(fac__schema_parse(text, &s));
    return s;
}

static fac_value default_of(const char *argument) {
    fac_schema *s = schema_of(argument);
    fac_value v;
    assert_ok(fac__default_value(&s->args[0], &v));
    fac__schema_free(s);
    return v;
}

static void S097_defaults_become_values(void **state) {
    (void)state;
    assert_int_equal(fac_value_as_int(default_of("int x=-3")), -3);
    assert_int_equal(fac_value_as_int(default_of("int x=Sum")), 2);
    assert_true(fac_value_as_float(default_of("float x=1e-05")) == 1e-05);
    assert_int_equal(default_of("float x=2").tag, FAC_TAG_FLOAT);
    assert_true(fac_value_as_bool(default_of("bool x=True")));
    assert_int_equal(default_of("Scalar x=1").tag, FAC_TAG_INT);
    assert_int_equal(default_of("Scalar x=1.").tag, FAC_TAG_FLOAT);
    assert_int_equal(default_of("Tensor? x=None").tag, FAC_TAG_NONE);
    assert_int_equal(fac_value_as_dtype(default_of("ScalarType x=long")), FAC_I64);
    assert_int_equal(fac_value_as_device(default_of("Device x=cpu")).type, FAC_CPU);
    assert_int_equal(fac_value_as_device(default_of("Device x='cuda:1'")).index_plus, 2);
    assert_int_equal(fac_value_as_layout(default_of("Layout x=sparse_csr")), FAC_SPARSE_CSR);
    assert_int_equal(fac_value_as_format(default_of("MemoryFormat x=preserve_format")), FAC_PRESERVE);
    fac_value z = default_of("Scalar x=-2.5j"), s = default_of("str x='a\\'b\\\\n\"\\n'"), i = default_of("int[2] x=3"),
              e = default_of("int[] x=[]"), f = default_of("float[] x=[1,-2.5]"), m = default_of("bool[3] x=True"),
              l = default_of("Scalar[] x=[1,2.5]"), t = default_of("Tensor[] x=[]");
    double re_im[2];
    fac__scalar_c128(fac_value_as_scalar(z), re_im);
    assert_true(re_im[0] == 0 && re_im[1] == -2.5);
    assert_string_equal(fac_value_as_string(s), "a'b\\n\"\n");
    assert_true(fac_value_as_ints(i).n == 2 && fac_value_as_ints(i).v[1] == 3);
    assert_true(fac_value_as_ints(e).n == 0 && fac_value_as_ints(e).v);
    assert_true(fac_value_as_floats(f).n == 2 && fac_value_as_floats(f).v[1] == -2.5);
    assert_true(fac_value_as_ints(m).n == 3 && fac_value_as_ints(m).v[2] == 1);
    size_t n;
    assert_int_equal(fac_value_as_scalars(l, &n)[0].kind, FAC_KIND_INT);
    assert_int_equal(n, 2);
    assert_int_equal(fac_value_as_tensors(t).n, 0);
    fac_value *all[] = {&z, &s, &i, &e, &f, &m, &l, &t};
    for (size_t k = 0; k < FAC_COUNT(all); k++) fac_value_release(all[k]);
}

static void S097_defaults_without_a_value_are_errors(void **state) {
    static const char *const cases[] = {"ScalarType x=quaternion", "Layout x=round", "MemoryFormat x=upside_down",
                                        "Device x=abacus", "Scalar[] x=[1j]"};
    (void)state;
    for (size_t i = 0; i < FAC_COUNT(cases); i++) {
        fac_schema *s = schema_of(cases[i]);
        fac_value v;
        assert_int_not_equal(fac__default_value(&s->args[0], &v), FAC_OK);
        assert_int_equal(v.tag, FAC_TAG_NONE);
        fac_error_clear();
        fac__schema_free(s);
    }
}

/* What of the value arrives: its tag, or -1 if it is refused. */
static int64_t coerced(const char *argument, fac_value v, fac_value *held) {
    fac_schema *s = schema_of(argument);
    fac_status st = fac__value_coerce(&s->args[0].type, "x", v, held);
    fac__schema_free(s);
    if (st == FAC_OK) return held->tag == FAC_TAG_NONE ? v.tag : held->tag;
    assert_error(FAC_ERR_ARGUMENT, "argument 'x' must be");
    return -1;
}

static void S087_values_are_fitted_to_schema_types(void **state) {
    fac_value held;
    (void)state;
    fac_value ints = fac_value_ints((const int64_t[]){1, 2}, 2), floats = fac_value_floats((const double[]){0.5}, 1);
    fac_value holes = fac_value_tensors((fac_tensor *const[]){NULL}, 1), text = fac_value_string("x");
    assert_int_equal(coerced("int x", fac_value_int(1), &held), FAC_TAG_INT);
    assert_int_equal(coerced("int x", fac_value_bool(true), &held), FAC_TAG_INT);
    assert_int_equal(coerced("int x", fac_value_float(1), &held), -1);
    assert_int_equal(coerced("int x", fac_value_none(), &held), -1);
    assert_int_equal(coerced("int? x", fac_value_none(), &held), FAC_TAG_NONE);
    assert_int_equal(coerced("float x", fac_value_int(4), &held), FAC_TAG_FLOAT);
    assert_true(fac_value_as_float(held) == 4);
    fac_value z = fac_value_complex(0, 0);
    assert_int_equal(coerced("float x", z, &held), -1);
    assert_int_equal(coerced("bool x", fac_value_int(1), &held), -1);
    assert_int_equal(coerced("Scalar x", fac_value_bool(true), &held), FAC_TAG_BOOL);
    assert_int_equal(coerced("Scalar x", text, &held), -1);
    assert_int_equal(coerced("str x", text, &held), FAC_TAG_STRING);
    assert_int_equal(coerced("Tensor x", fac_value_int(1), &held), -1);
    assert_int_equal(coerced("ScalarType x", fac_value_int(6), &held), -1);
    assert_int_equal(coerced("int[] x", ints, &held), FAC_TAG_INTS);
    assert_int_equal(coerced("int[] x", fac_value_int(1), &held), -1);
    assert_int_equal(coerced("int[] x", floats, &held), -1);
    assert_int_equal(coerced("int[3] x", fac_value_int(7), &held), FAC_TAG_INTS);
    assert_true(fac_value_as_ints(held).n == 3 && fac_value_as_ints(held).v[2] == 7);
    fac_value_release(&held);
    assert_int_equal(coerced("float[] x", ints, &held), FAC_TAG_FLOATS);
    assert_true(fac_value_as_floats(held).v[1] == 2);
    fac_value_release(&held);
    assert_int_equal(coerced("Tensor[] x", holes, &held), -1);
    assert_int_equal(coerced("Tensor?[] x", holes, &held), FAC_TAG_TENSORS);
    fac_value *all[] = {&ints, &floats, &holes, &text, &z};
    for (size_t k = 0; k < FAC_COUNT(all); k++) fac_value_release(all[k]);
}

static fac_status make_all(void *context) {
    fac_tensor *t[] = {context};
    const fac_scalar s[] = {fac_scalar_i_(1)};
    fac_value v[] = {fac_value_string("a"),   fac_value_ints((const int64_t[]){1}, 1),
                     fac_value_tensors(t, 1), fac_value_complex(1, 2),
                     fac_value_scalars(s, 1), fac_value_bools((const bool[]){true}, 1)};
    for (size_t i = 0; i < FAC_COUNT(v); i++) fac_value_release(&v[i]);
    return fac_error();
}

static fac_status make_defaults(void *schema) {
    const fac_schema *s = schema;
    for (size_t i = 0; i < s->n_args && fac_error() == FAC_OK; i++) {
        fac_value v;
        if (fac__default_value(&s->args[i], &v) == FAC_OK) fac_value_release(&v);
    }
    return fac_error();
}

static void values_survive_each_failing_allocation(void **state) {
    (void)state;
    fac_tensor *t = tensor_of(1);
    support_fail_each_allocation(make_all, t);
    fac_release(t);
    fac_schema *s = schema_of("float[2] x=1, str y='q', int[] z=[1,2], Device d='cpu', Scalar[] l=[1,2.]");
    support_fail_each_allocation(make_defaults, s);
    fac__schema_free(s);
}

FAC_TEST_MAIN(FAC_TEST(E44_plain_tags_round_trip), FAC_TEST(E44_tensor_round_trip),
              FAC_TEST(E44_counted_tags_round_trip), FAC_TEST(E44_tensor_list_round_trip),
              FAC_TEST(E44_scalar_list_round_trip), FAC_TEST(E44_generator_round_trip), FAC_TEST(E44_object_round_trip),
              FAC_TEST(S086_scalars_of_each_kind), FAC_TEST(S086_ints_and_bools_read_as_floats),
              FAC_TEST(S086_empty_list_is_not_an_unset_one), FAC_TEST(S086_wrong_tag_is_an_error),
              FAC_TEST(S097_defaults_become_values), FAC_TEST(S097_defaults_without_a_value_are_errors),
              FAC_TEST(S087_values_are_fitted_to_schema_types), FAC_TEST(values_survive_each_failing_allocation))
