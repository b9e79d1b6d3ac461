/* Layouts, over all operators: one that cannot be made is refused by every operator that takes one; and a tensor that is sparse, nested
   or in the vendor layout, in the place of a strided one, is refused, with a word on what would help, or gives what the strided one does. */
#include "support/samples.h"
#include "support/support.h"

#include "dispatch/operator.h"
#include "dispatch/value.h"
#include <facula/facula.h>

static sample_set set;

static int load(void **state) {
    (void)state;
    return samples_load(&set) ? 0 : -1;
}

/* The place of the layout among the arguments; -1 if there is none. */
static int layout_of(const fac_schema *s) {
    for (size_t i = 0; i < s->n_args; i++)
        if (s->args[i].type.kind == FAC_TYPE_LAYOUT) return (int)i;
    return -1;
}

/* The call with that layout, and with the defaults of what stands before it and is not given. */
static fac_status call(const fac_operator *op, const char *text, int at, fac_layout layout, fac_layout *out_made) {
    sample_call c;
    sample_made m;
    fac_value result = fac_value_none();
    const fac_schema *s = atomic_load(&op->schema);
    assert_true(sample_parse(text, &c, NULL));
    assert_ok(sample_make(&c, fac_device_make(FAC_CPU, -1), &m));
    for (; (int)m.n_args <= at; m.n_args++) assert_ok(fac__default_value(&s->args[m.n_args], &m.args[m.n_args]));
    fac_value_release(&m.args[at]);
    m.args[at] = fac_value_layout(layout);
    fac_status st = fac_call_op(op, m.args, m.n_args, &result);
    if (st == FAC_OK && result.tag == FAC_TAG_TENSOR) *out_made = fac_tensor_layout(fac_value_as_tensor(result));
    fac_value_release(&result);
    sample_unmake(&m);
    return st;
}

static void S011_every_layout_is_made_or_refused(void **state) {
    (void)state;
    int operators = 0, made = 0;
    for (size_t i = 0; i < fac_operator_count(); i++) {
        FAC_SCOPE(s);
        const fac_operator *op = fac_operator_at(i);
        const int at = layout_of(atomic_load(&op->schema));
        size_t n;
        char *const *texts = samples_of(&set, fac_operator_name(op), &n);
        if (at < 0) continue;
        assert_true(n > 0);
        for (fac_layout l = FAC_SPARSE_COO; l <= FAC_SPARSE_BSC; l++) {
            fac_layout got = l;
            if (call(op, texts[0], at, l, &got) == FAC_OK) {
                if (got != l) print_error("%s makes layout %d for %d\n", fac_operator_name(op), (int)got, (int)l);
                assert_int_equal(got, l);
                made++;
                continue;
            }
            const fac_status st = fac_error();
            const bool clear = st == FAC_ERR_UNSUPPORTED || st == FAC_ERR_SHAPE || st == FAC_ERR_ARGUMENT;
            if (!clear) print_error("%s: %s\n", fac_operator_name(op), fac_error_message());
            assert_true(clear);
            fac_error_clear();
        }
        operators++;
    }
    assert_true(operators > 30 && made > 10);
}

/* ---- tensors of other kinds in the place of strided ones ----------------------------------------------------------------- */

typedef struct counts {
    int calls, refused, done, wrong;
} counts;

enum { NESTED = -1 }; /* in the place of a layout: its entries are the components */

static fac_value as_other(fac_value v, int layout) {
    fac_tensor *t = fac_value_as_tensor(v);
    if (layout == NESTED) return fac_value_tensor(fac_as_nested_tensor(fac_unbind(t)));
    if (layout == FAC_VENDOR_LAYOUT) return fac_value_tensor(fac_to_mkldnn(t));
    return fac_value_tensor(layout == FAC_SPARSE_COO ? fac_to_sparse(t)
                                                     : fac_to_sparse(t, .layout = (fac_layout)layout));
}

static bool is_strided(fac_value v) {
    return v.tag == FAC_TAG_TENSOR && fac_tensor_layout(fac_value_as_tensor(v)) == FAC_STRIDED &&
           !fac_is_nested(fac_value_as_tensor(v));
}

/* Whether the sizes of two results are those of each other. */
static bool same_kind(fac_value a, fac_value b) {
    if (a.tag != b.tag) return false;
    if (a.tag != FAC_TAG_TENSOR) return true;
    const fac_ints x = fac_tensor_sizes(fac_value_as_tensor(a)), y = fac_tensor_sizes(fac_value_as_tensor(b));
    return x.n == y.n && (!x.n || memcmp(x.v, y.v, x.n * sizeof *x.v) == 0);
}

static void judge(const fac_operator *op, const char *text, size_t arg, int layout, fac_status st, fac_value got,
                  fac_value want, counts *n) {
    const char *kind = layout == NESTED ? "nested" : layout == FAC_VENDOR_LAYOUT ? "_mkldnn" : "sparse";
    n->calls++;
    if (st == FAC_OK) {
        n->done++;
        if (same_kind(got, want)) return;
        n->wrong++;
        print_error("%s gives another result for a %s argument %zu\n", text, kind, arg);
        return;
    }
    n->refused++;
    const bool unclear = st == FAC_ERR_NO_KERNEL || st == FAC_ERR_INTERNAL ||
                         (st == FAC_ERR_UNSUPPORTED && !strstr(fac_error_message(), kind) &&
                          (layout == NESTED || !strstr(fac_error_message(), "to_dense")));
    if (unclear) print_error("%s, argument %zu: %s\n", fac_operator_name(op), arg, fac_error_message());
    n->wrong += unclear;
    fac_error_clear();
}

static void release(fac_value *v, size_t n) {
    for (size_t i = 0; i < n; i++) fac_value_release(&v[i]), v[i] = fac_value_none();
}

static void call_with(const fac_operator *op, const char *text, size_t arg, int layout, counts *n) {
    FAC_SCOPE(s);
    sample_call c;
    sample_made m, plain;
    fac_value got[8] = {{0}}, want[8] = {{0}};
    assert_true(sample_parse(text, &c, NULL));
    assert_ok(sample_make(&c, fac_device_make(FAC_CPU, -1), &m));
    assert_ok(sample_make(&c, fac_device_make(FAC_CPU, -1), &plain));
    if (arg < m.n_args && is_strided(m.args[arg]) && fac_call_op(op, plain.args, plain.n_args, want) == FAC_OK) {
        const fac_value other = as_other(m.args[arg], layout);
        if (fac_error() == FAC_OK) {
            fac_value_release(&m.args[arg]);
            m.args[arg] = other;
            const fac_status st = fac_call_op(op, m.args, m.n_args, got);
            judge(op, text, arg, layout, st, got[0], want[0], n);
        }
    }
    fac_error_clear();
    release(got, 8);
    release(want, 8);
    sample_unmake(&m);
    sample_unmake(&plain);
}

static counts call_all_with(const int *layouts, size_t n_layouts) {
    counts n = {0};
    for (size_t i = 0; i < fac_operator_count(); i++) {
        const fac_operator *op = fac_operator_at(i);
        const fac_schema *s = atomic_load(&op->schema);
        size_t n_texts;
        char *const *texts = samples_of(&set, fac_operator_name(op), &n_texts);
        if (sample_elsewhere(s->full)) continue;
        for (size_t k = 0; k < n_texts && k < 2; k++)
            for (size_t a = 0; a < s->n_args; a++)
                if (s->args[a].type.kind == FAC_TYPE_TENSOR && !s->args[a].type.list)
                    for (size_t l = 0; l < n_layouts; l++) call_with(op, texts[k], a, layouts[l], &n);
    }
    print_message("%d calls with another argument: %d refused, %d done\n", n.calls, n.refused, n.done);
    assert_int_equal(n.wrong, 0);
    return n;
}

static void S011_sparse_arguments_are_taken_or_refused_by_every_operator(void **state) {
    (void)state;
    static const int layouts[] = {FAC_SPARSE_COO, FAC_SPARSE_CSR};
    const counts n = call_all_with(layouts, FAC_COUNT(layouts));
    assert_true(n.calls > 1000 && n.refused > 500 && n.done > 100);
}

static void S178_nested_arguments_are_taken_or_refused_by_every_operator(void **state) {
    (void)state;
    static const int nested = NESTED;
    const counts n = call_all_with(&nested, 1);
    assert_true(n.calls > 1000 && n.refused > 500 && n.done > 300);
}

static void S011_vendor_arguments_are_taken_or_refused_by_every_operator(void **state) {
    (void)state;
    static const int vendor = FAC_VENDOR_LAYOUT;
    const counts n = call_all_with(&vendor, 1);
    assert_true(n.calls > 500 && n.refused > 300 && n.done > 100);
}

static const struct CMUnitTest tests[] = {FAC_TEST(S011_every_layout_is_made_or_refused),
                                          FAC_TEST(S011_sparse_arguments_are_taken_or_refused_by_every_operator),
                                          FAC_TEST(S178_nested_arguments_are_taken_or_refused_by_every_operator),
                                          FAC_TEST(S011_vendor_arguments_are_taken_or_refused_by_every_operator)};
int main(void) {
    int failed = support_run(tests, FAC_COUNT(tests), load);
    samples_free(&set);
    return failed;
}
