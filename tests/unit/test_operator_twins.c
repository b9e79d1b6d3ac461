/* The functional form that the facts of an operator name (fac_operator_facts): it writes nothing and gives the same results, in
   every sample; and what fills depends on nothing that was there. */
#include "dispatch/operator.h"
#include "support/sample_tensors.h"
#include "support/samples.h"
#include "support/support.h"

#include <facula/facula.h>

static sample_set set;

static int load(void **state) {
    (void)state;
    return samples_load(&set) ? 0 : -1;
}

enum { RESULTS = 8, MOST = 32 };

/* A call's results, from arguments of its own and the same random numbers. */
typedef struct outcome {
    bool worked;
    sample_made made;
    fac_value results[RESULTS];
} outcome;

/* The first n arguments only; those of a mask are overwritten before. */
static outcome call(const fac_operator *op, const sample_call *c, size_t n, uint64_t poisoned, int byte) {
    outcome o = {0};
    for (size_t i = 0; i < RESULTS; i++) o.results[i] = fac_value_none();
    assert_ok(sample_make(c, fac_device_make(FAC_CPU, -1), &o.made));
    sample_overwrite(&o.made, poisoned, byte);
    fac_generator_set_state(NULL, 11, 0);
    o.worked = fac_call_op(op, o.made.args, n < o.made.n_args ? n : o.made.n_args, o.results) == FAC_OK;
    fac_error_clear();
    return o;
}

static void forget(outcome *o) {
    for (size_t i = 0; i < RESULTS; i++) fac_value_release(&o->results[i]);
    sample_unmake(&o->made);
}

/* Whether the elements are the same bits once they have the dtype of the first. */
static bool same_tensor(fac_tensor *a, fac_tensor *b) {
    fac_ints x = fac_tensor_sizes(a), y = fac_tensor_sizes(b);
    if (x.n != y.n || (x.n && memcmp(x.v, y.v, x.n * sizeof *x.v) != 0)) return false;
    if (fac_tensor_layout(a) != FAC_STRIDED || fac_tensor_layout(b) != FAC_STRIDED) {
        if (fac_tensor_layout(a) != fac_tensor_layout(b)) return false;
        a = fac_to_dense(fac_detach(a)), b = fac_to_dense(fac_detach(b));
    }
    fac_tensor *p = fac_contiguous(fac_resolve_conj(fac_detach(a)));
    fac_tensor *q = fac_contiguous(fac_resolve_conj(fac_to_dtype(fac_detach(b), fac_tensor_dtype(a))));
    assert_non_null(p);
    assert_non_null(q);
    size_t bytes = (size_t)fac_tensor_numel(p) * (size_t)fac_dtype_size(fac_tensor_dtype(p));
    return !bytes || memcmp(fac_tensor_data(p), fac_tensor_data(q), bytes) == 0;
}

/* Whether a written argument is a result already. */
static bool is_returned(const fac_operator *op, size_t arg) {
    const fac_schema *s = atomic_load(&op->schema);
    for (size_t r = 0; r < s->n_rets; r++)
        if (s->rets[r].type.write && s->rets[r].type.alias == s->args[arg].type.alias) return true;
    return false;
}

/* What an operator wrote is a result of its functional form, after the others, where it is none of its own. */
static void add_written(outcome *o, const fac_operator *op, const fac_operator *functional) {
    fac_operator_facts f;
    size_t n = fac_operator_return_count(op);
    assert_ok(fac_operator_facts_of(op, &f));
    if (fac_operator_return_count(functional) == n) return;
    for (size_t i = 0; i < o->made.n_args && n < RESULTS; i++)
        if (f.writes >> i & 1 && !is_returned(op, i)) o->results[n++] = fac_value_copy(o->made.args[i]);
}

static bool same(const outcome *a, const outcome *b) {
    for (size_t r = 0; r < RESULTS; r++) {
        fac_tensor *x[MOST], *y[MOST];
        size_t n = sample_tensors_of(a->results[r], x, MOST);
        if (n != sample_tensors_of(b->results[r], y, MOST)) return false;
        for (size_t i = 0; i < n; i++)
            if (!same_tensor(x[i], y[i])) return false;
    }
    return true;
}

static int tell(const fac_operator *op, const char *what, const char *call) {
    print_error("%s: %s: %s\n", fac_operator_name(op), what, call);
    return 1;
}

/* ---- the functional form ---------------------------------------------------------------------------------------------- */

static void functional_forms_write_nothing_and_return_as_much(void **state) {
    (void)state;
    int wrong = 0, twins = 0;
    for (size_t i = 0; i < fac_operator_count(); i++) {
        const fac_operator *op = fac_operator_at(i);
        fac_operator_facts f, twin;
        assert_ok(fac_operator_facts_of(op, &f));
        if (!f.writes != (f.functional == op)) wrong += tell(op, "it is its own where it writes nothing", "");
        if (!f.functional) continue;
        assert_ok(fac_operator_facts_of(f.functional, &twin));
        twins += f.functional != op;
        if (twin.writes || twin.functional != f.functional) wrong += tell(op, "its functional form writes", "");
        const size_t results = fac_operator_return_count(op); /* those that write lists have none */
        size_t more = 0;
        for (size_t k = 0; k < fac_operator_arg_count(op) && f.functional != op; k++)
            more += f.writes >> k & 1 && !is_returned(op, k);
        const size_t given = fac_operator_return_count(f.functional);
        if (results && given != results && given != results + more)
            wrong += tell(op, "its functional form returns another number of results", "");
    }
    print_message("%d operators have a twin\n", twins);
    assert_int_equal(wrong, 0);
    assert_true(twins > 300);
}

static int compare_forms(const fac_operator *op, const fac_operator *functional, const char *text, int *compared) {
    FAC_SCOPE(s);
    sample_call c;
    assert_true(sample_parse(text, &c, NULL));
    outcome a = call(op, &c, SAMPLE_ARGS, 0, 0), b = call(functional, &c, fac_operator_arg_count(functional), 0, 0);
    if (a.worked) add_written(&a, op, functional);
    bool good = !a.worked || (b.worked && same(&a, &b));
    *compared += a.worked;
    forget(&a);
    forget(&b);
    return good ? 0 : tell(op, "the functional form gives other results", text);
}

static void functional_forms_give_the_same_results(void **state) {
    (void)state;
    int wrong = 0, compared = 0;
    for (size_t i = 0; i < fac_operator_count(); i++) {
        size_t n;
        fac_operator_facts f;
        const fac_operator *op = fac_operator_at(i);
        char *const *texts = samples_of(&set, fac_operator_name(op), &n);
        assert_ok(fac_operator_facts_of(op, &f));
        if (!f.functional || f.functional == op) continue;
        if (!fac_operator_return_count(op)) continue; /* lists, which test_foreach compares */
        for (size_t k = 0; k < n; k++) wrong += compare_forms(op, f.functional, texts[k], &compared);
    }
    print_message("%d calls of both forms\n", compared);
    assert_int_equal(wrong, 0);
    assert_true(compared > 500);
}

/* ---- what fills ---------------------------------------------------------------------------------------------------------- */

static int compare_fills(const fac_operator *op, uint64_t writes, const char *text) {
    FAC_SCOPE(s);
    sample_call c;
    assert_true(sample_parse(text, &c, NULL));
    outcome a = call(op, &c, SAMPLE_ARGS, writes, 0xc0), b = call(op, &c, SAMPLE_ARGS, writes, 0x3f);
    bool good = a.worked == b.worked && same(&a, &b);
    forget(&a);
    forget(&b);
    return good ? 0 : tell(op, "what it fills depends on what was there", text);
}

static void what_fills_does_not_depend_on_what_was_there(void **state) {
    (void)state;
    int wrong = 0, fill = 0;
    for (size_t i = 0; i < fac_operator_count(); i++) {
        size_t n;
        fac_operator_facts f;
        const fac_operator *op = fac_operator_at(i);
        char *const *texts = samples_of(&set, fac_operator_name(op), &n);
        assert_ok(fac_operator_facts_of(op, &f));
        if (!f.fills || strncmp(fac_operator_name(op), "aten::empty", 11) == 0)
            continue; /* which leave open what is there */
        if (n == 0 || !f.writes) wrong += tell(op, "it fills, but there is no call, or nothing is written", "");
        for (size_t k = 0; k < n; k++) wrong += compare_fills(op, f.writes, texts[k]);
        fill++;
    }
    print_message("%d operators fill\n", fill);
    assert_int_equal(wrong, 0);
    assert_true(fill > 10);
}

static const struct CMUnitTest tests[] = {FAC_TEST(functional_forms_write_nothing_and_return_as_much),
                                          FAC_TEST(functional_forms_give_the_same_results),
                                          FAC_TEST(what_fills_does_not_depend_on_what_was_there)};
int main(void) {
    int failed = support_run(tests, FAC_COUNT(tests), load);
    samples_free(&set);
    return failed;
}
