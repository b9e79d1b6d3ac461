/* The schema parser: what is understood, what is refused and how, texts that survive a second parse. */
#include "dispatch/schema.h"
#include "support/support.h"

static fac_schema *parse(const char *text) {
    fac_schema *s;
    assert_ok(fac__schema_parse(text, &s));
    assert_non_null(s);
    return s;
}

static void S097_canonical_text(void **state) {
    static const struct {
        const char *text, *canonical;
    } cases[] = {
        {"add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor", NULL},
        {"  aten :: zeros ( SymInt [ ] size , * , ScalarType ? dtype = None )\n ->  Tensor ",
         "zeros(int[] size, *, ScalarType? dtype=None) -> Tensor"},
        {"zero_(Tensor(a!) self) -> Tensor(a!)", NULL},
        {"split.Tensor(Tensor(a -> *) self, SymInt split_size, int dim=0) -> Tensor(a)[]",
         "split.Tensor(Tensor(a -> *) self, int split_size, int dim=0) -> Tensor(a)[]"},
        {"index.Tensor(Tensor self, Tensor?[] indices) -> Tensor", NULL},
        {"frobenius(Tensor self, int[1]? dim=[-2, -1], bool keepdim=False, float eps=1e-05) -> Tensor",
         "frobenius(Tensor self, int[1]? dim=[-2,-1], bool keepdim=False, float eps=1e-05) -> Tensor"},
        {"max.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)", NULL},
        {"gelu(Tensor self, *, str approximate='none') -> Tensor",
         "gelu(Tensor self, *, str approximate=\"none\") -> Tensor"},
        {"quoted(str s='a\"b\\'c') -> ()", "quoted(str s=\"a\\\"b\\'c\") -> ()"},
        {"mse_loss(Tensor self, Tensor target, int reduction=Mean) -> Tensor", NULL},
        {"contiguous(Tensor(a) self, *, MemoryFormat memory_format=contiguous_format) -> Tensor(a)", NULL},
        {"rand(int[] size, *, Generator? generator=None, Layout? layout=None, Device? device=None) -> Tensor", NULL},
        {"conv(Tensor self, int[2] stride=1, int[2] padding=[0,1], bool[3] mask=[True,False,True]) -> (Tensor, Tensor)",
         NULL},
        {"fill(Tensor self, Scalar v=-2.5, Scalar w=True, Scalar z=3j, Scalar[] l=[1,2.5]) -> (Scalar, int, bool, float)",
         NULL},
        {"mylib::op.a_b(Object o, str? s=None, Device d=cpu, ScalarType t=long, int big=9223372036854775807) -> ()",
         "op.a_b(Object o, str? s=None, Device d=cpu, ScalarType t=long, int big=9223372036854775807) -> ()"},
        {"cpu(Tensor(a) self) -> Tensor(b|a)", "cpu(Tensor(a) self) -> Tensor(a|b)"},
        {"none() -> ()", NULL},
        {"out(Tensor self, *, int? dim=None, Tensor(a!) out) -> Tensor(a!)", NULL},
        {"one(Tensor self) -> Tensor result", "one(Tensor self) -> (Tensor result)"},
        {"e(float a=.5, float b=-inf, float c=nan, float d=1, float[2] f=[0.5,2]) -> Tensor[]", NULL},
    };
    (void)state;
    for (size_t i = 0; i < FAC_COUNT(cases); i++) {
        fac_schema *s = parse(cases[i].text);
        assert_string_equal(s->text, cases[i].canonical ? cases[i].canonical : cases[i].text);
        fac_schema *again = parse(s->text);
        assert_string_equal(again->text, s->text);
        fac__schema_free(again);
        fac__schema_free(s);
    }
}

static void S097_parts(void **state) {
    (void)state;
    fac_schema *s =
        parse("ns::f.over(Tensor(a!)? self, int[3] k=[1,2,3], *, Tensor?[] l, str m='x') -> (Tensor(a!) r, int n)");
    assert_string_equal(s->ns, "ns");
    assert_string_equal(s->name, "f");
    assert_string_equal(s->overload, "over");
    assert_string_equal(s->full, "ns::f.over");
    assert_int_equal(s->n_args, 4);
    assert_int_equal(s->n_rets, 2);
    const fac_schema_arg *a = s->args;
    assert_true(a[0].type.kind == FAC_TYPE_TENSOR && a[0].type.optional && a[0].type.write && a[0].type.alias == 'a');
    assert_true(a[1].type.kind == FAC_TYPE_INT && a[1].type.list && a[1].type.list_size == 3 && !a[1].kwarg_only);
    assert_string_equal(a[1].default_text, "[1,2,3]");
    assert_true(a[2].type.list && a[2].type.elem_optional && !a[2].type.optional && a[2].kwarg_only &&
                !a[2].default_text);
    assert_true(a[3].type.kind == FAC_TYPE_STRING && a[3].kwarg_only);
    assert_string_equal(s->rets[0].name, "r");
    assert_true(s->rets[0].type.write && s->rets[1].type.kind == FAC_TYPE_INT);
    fac__schema_free(s);
    s = parse("g(Tensor self) -> Tensor");
    assert_string_equal(s->full, "aten::g");
    assert_string_equal(s->overload, "");
    assert_string_equal(s->rets[0].name, "");
    fac__schema_free(s);
}

static void S097_each_type_by_name(void **state) {
    static const char *const names[FAC_TYPE_KINDS] = {"Tensor", "int",          "float",      "bool",
                                                      "Scalar", "str",          "ScalarType", "Device",
                                                      "Layout", "MemoryFormat", "Generator",  "Object"};
    (void)state;
    for (int k = 0; k < FAC_TYPE_KINDS; k++) {
        char text[80], type[40];
        snprintf(text, sizeof text, "f(%s? x) -> ()", names[k]);
        fac_schema *s = parse(text);
        assert_int_equal(s->args[0].type.kind, k);
        assert_true(s->args[0].type.optional);
        snprintf(text, sizeof text, "%s?", names[k]);
        assert_string_equal(fac__type_text(&s->args[0].type, type, sizeof type), text);
        fac__schema_free(s);
    }
}

static void S097_malformed_schemas_are_refused(void **state) {
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"", "operator's name is expected"},
        {"(", "operator's name is expected"},
        {"1f() -> ()", "operator's name is expected"},
        {"ns::() -> ()", "after '::'"},
        {"a::b::c() -> ()", "'(' begins"},
        {"f.() -> ()", "overload's name"},
        {"f.a.b() -> ()", "'(' begins"},
        {"f", "'(' begins"},
        {"f(", "a type is expected"},
        {"f()", "'->' begins"},
        {"f() ->", "a type is expected"},
        {"f() -> (Tensor", "')' is expected"},
        {"f() -> (Tensor,)", "a type is expected"},
        {"f() -> () x", "should end"},
        {"f() -> Tensor, Tensor", "should end"},
        {"f(Tensr x) -> ()", "column 3"},
        {"f(tensor x) -> ()", "a type is expected"},
        {"f(Tensor) -> ()", "name is expected"},
        {"f(Tensor x Tensor y) -> ()", "',' or ')'"},
        {"f(Tensor x,) -> ()", "a type is expected"},
        {"f(,) -> ()", "a type is expected"},
        {"f(Tensor x, Tensor x) -> ()", "must differ"},
        {"f() -> (Tensor a, Tensor a)", "must differ"},
        {"f(int x=1, int y) -> ()", "needs a default"},
        {"f(*) -> ()", "must follow '*'"},
        {"f(Tensor x, *, *, int y) -> ()", "stands once"},
        {"f(Tensor x) -> Tensor(a)", "one of an argument"},
        {"f(Tensor(a) x) -> Tensor(b!)", "one of an argument"},
        {"f(int(a) x) -> ()", "only a Tensor"},
        {"f(Tensor(A) x) -> ()", "small letter"},
        {"f(Tensor(ab) x) -> ()", "small letter"},
        {"f(Tensor(a x) -> ()", "ends an alias mark"},
        {"f(Tensor(a!)[](b!) x) -> ()", "one alias mark"},
        {"f(Tensor() x) -> ()", "small letter"},
        {"f(int[0] x) -> ()", "positive integer"},
        {"f(int[-1] x) -> ()", "positive integer"},
        {"f(int[99999999999999999999] x) -> ()", "positive integer"},
        {"f(int[2 x) -> ()", "']' ends"},
        {"f(int[][] x) -> ()", "list of lists"},
        {"f(int?[] x) -> ()", "optional elements"},
        {"f(int x=) -> ()", "default value is expected"},
        {"f(int x=1.5) -> ()", "argument's type"},
        {"f(int x=True) -> ()", "argument's type"},
        {"f(int x=9223372036854775808) -> ()", "argument's type"},
        {"f(int x=1a) -> ()", "argument's type"},
        {"f(int x=0x10) -> ()", "argument's type"},
        {"f(float x=0x10) -> ()", "argument's type"},
        {"f(float x='1') -> ()", "argument's type"},
        {"f(float x=1j) -> ()", "argument's type"},
        {"f(bool x=1) -> ()", "argument's type"},
        {"f(bool x=true) -> ()", "argument's type"},
        {"f(str x=abc) -> ()", "argument's type"},
        {"f(str x='abc) -> ()", "closing quote"},
        {"f(str x=\"abc') -> ()", "closing quote"},
        {"f(str x='abc\\') -> ()", "closing quote"},
        {"f(ScalarType x=4) -> ()", "argument's type"},
        {"f(Tensor x=1) -> ()", "argument's type"},
        {"f(Tensor x=None) -> ()", "optional type"},
        {"f(int[] x=None) -> ()", "optional type"},
        {"f(int[] x=1) -> ()", "written [...]"},
        {"f(int x=[1]) -> ()", "no list"},
        {"f(int[] x=[1) -> ()", "',' or ']'"},
        {"f(int[] x=[1,]) -> ()", "default value is expected"},
        {"f(int[] x=[1 2]) -> ()", "',' or ']'"},
        {"f(int[] x=[1.5]) -> ()", "cannot hold"},
        {"f(int[] x=[[1]]) -> ()", "cannot hold"},
        {"f(Tensor[] x=[None]) -> ()", "cannot hold"},
        {"f(Generator x=None) -> ()", "optional type"},
        {"f(Tensor... x) -> ()", "name is expected"},
    };
    (void)state;
    for (size_t i = 0; i < FAC_COUNT(cases); i++) {
        fac_schema *s = (fac_schema *)1;
        if (fac__schema_parse(cases[i].text, &s) == FAC_OK) fail_msg("accepted: %s", cases[i].text);
        assert_null(s);
        assert_error(FAC_ERR_ARGUMENT, cases[i].message);
    }
    fac_schema *s;
    assert_int_equal(fac__schema_parse(NULL, &s), FAC_ERR_ARGUMENT);
    assert_error(FAC_ERR_ARGUMENT, "NULL");
}

static void S097_every_prefix_is_refused_without_a_leak(void **state) {
    static const char whole[] =
        "ns::f.o(Tensor(a! -> *)[]? x, int[2] k=[1,-2], *, str s='a\\'b', float e=1e-5) -> (Tensor(a!) r, int)";
    (void)state;
    fac__schema_free(parse(whole));
    for (size_t n = 0; n + 1 < sizeof whole - 1; n++) {
        char text[sizeof whole] = "";
        memcpy(text, whole, n);
        fac_schema *s;
        if (fac__schema_parse(text, &s) == FAC_OK) fail_msg("accepted: %s", text);
        assert_error(FAC_ERR_ARGUMENT, "schema");
    }
}

static void S077_signature_leaves_out_marks_and_sizes(void **state) {
    static const struct {
        const char *schema, *signature, *written;
    } cases[] = {
        {"f(Tensor(a!) x, int[2] k=1, *, Tensor? m=None) -> Tensor(a!)", "Tensor, int[], Tensor? -> Tensor",
         "Tensor,int[ 3 ],Tensor ?->Tensor"},
        {"f() -> ()", "() -> ()", "()->()"},
        {"f(Tensor?[] x, Scalar s) -> (Tensor, int)", "Tensor?[], Scalar -> (Tensor, int)",
         "Tensor?[], Scalar -> Tensor, int"},
        {"f(Tensor(a -> *) x) -> Tensor(a)[]", "Tensor -> Tensor[]", "(Tensor) -> (Tensor[])"},
    };
    (void)state;
    for (size_t i = 0; i < FAC_COUNT(cases); i++) {
        fac_schema *s = parse(cases[i].schema);
        char *signature = fac__schema_signature(s), *normal;
        assert_string_equal(signature, cases[i].signature);
        assert_ok(fac__signature_normalise(cases[i].written, &normal));
        assert_string_equal(normal, cases[i].signature);
        fac__free(signature);
        fac__free(normal);
        fac__schema_free(s);
    }
    char *normal;
    assert_int_equal(fac__signature_normalise("Tensor, Tensor", &normal), FAC_ERR_ARGUMENT);
    assert_error(FAC_ERR_ARGUMENT, "'->'");
    assert_null(normal);
    assert_int_equal(fac__signature_normalise("Tensor self -> Tensor", &normal), FAC_ERR_ARGUMENT);
    assert_error(FAC_ERR_ARGUMENT, "'->'");
}

static void S097_defaults_of_type_int(void **state) {
    int64_t x;
    (void)state;
    assert_true(fac__default_int("-7", &x) && x == -7);
    assert_true(fac__default_int("Mean", &x) && x == 1);
    assert_true(fac__default_int("Sum", &x) && x == 2);
    assert_false(fac__default_int("1.0", &x));
    assert_false(fac__default_int("-", &x));
    assert_false(fac__default_int("", &x));
}

static fac_status parse_and_free(void *text) {
    fac_schema *s;
    fac_status st = fac__schema_parse(text, &s);
    char *signature = st == FAC_OK ? fac__schema_signature(s) : NULL;
    fac__free(signature);
    fac__schema_free(s);
    return fac_error();
}

static void schema_survives_each_failing_allocation(void **state) {
    (void)state;
    support_fail_each_allocation(parse_and_free,
                                 "ns::f.o(Tensor(a!) x, int[2] k=[1,2], str s='q') -> (Tensor(a!) r, Tensor t)");
}

FAC_TEST_MAIN(FAC_TEST(S097_canonical_text), FAC_TEST(S097_parts), FAC_TEST(S097_each_type_by_name),
              FAC_TEST(S097_malformed_schemas_are_refused), FAC_TEST(S097_every_prefix_is_refused_without_a_leak),
              FAC_TEST(S077_signature_leaves_out_marks_and_sizes), FAC_TEST(S097_defaults_of_type_int),
              FAC_TEST(schema_survives_each_failing_allocation))
