/* Every operator gives the same bits for arguments whose conjugation or negation is pending as for such with the same values
   in memory: results, what it writes, and gradients, in every sample. */
#include "core/tensor.h"
#include "support/sample_tensors.h"
#include "support/samples.h"
#include "support/support.h"

#include <facula/facula.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static sample_set set;

static int load(void **state) {
    (void)state;
    return samples_load(&set) ? 0 : -1;
}

enum { RESULTS = 8, MOST = 32 };

/* What is pending in arguments where it can be. */
typedef enum pending { CONJUGATED, NEGATED, BOTH } pending;

/* ---- arguments ------------------------------------------------------------------------------------------------------------ */

static fac_tensor *called(const char *op, fac_tensor *t) {
    fac_value arg = fac_value_tensor(t), result = fac_value_none();
    const fac_status st = fac_call(op, &arg, 1, &result);
    fac_value_release(&arg);
    if (st != FAC_OK || fac_scope_take(&result, 1) != FAC_OK) return NULL;
    return fac_value_as_tensor(result);
}

static bool may_be(const fac_tensor *t, pending p) {
    const fac_dtype d = fac_tensor_dtype(t);
    return fac_dtype_is_complex(d) || (p != CONJUGATED && d != FAC_BOOL);
}

/* t's values in memory of their own, twice through f; pending: once in memory, and once more to be done. */
static fac_tensor *through(fac_tensor *t, const char *f, const char *view, bool is_pending) {
    fac_tensor *once = called(f, t);
    return called(is_pending ? view : f, once);
}

static fac_tensor *argument(fac_tensor *t, pending p, bool is_pending) {
    if (fac_tensor_layout(t) != FAC_STRIDED || fac_is_nested(t)) return t; /* whose elements have nothing pending */
    if (!may_be(t, p)) return t;
    if (p != CONJUGATED) t = through(t, "aten::neg", "aten::_neg_view", is_pending);
    if (p != NEGATED && t && fac_dtype_is_complex(fac_tensor_dtype(t)))
        t = through(t, "aten::conj_physical", "aten::_conj", is_pending);
    return t;
}

typedef struct outcome {
    fac_status status;
    sample_made made;
    fac_tensor *leaves[SAMPLE_TENSORS], *given[SAMPLE_TENSORS], *grads[SAMPLE_TENSORS];
    size_t n_leaves;
    fac_value results[RESULTS];
} outcome;

static fac_tensor *replaced(const outcome *o, fac_tensor *t) {
    for (size_t i = 0; i < o->made.n_tensors; i++)
        if (fac_value_as_tensor(o->made.tensors[i]) == t) return o->given[i];
    return t;
}

static void replace(outcome *o, fac_value *v) {
    fac_tensor *list[SAMPLE_ITEMS];
    fac_value next;
    if (v->tag != FAC_TAG_TENSOR && v->tag != FAC_TAG_TENSORS) return;
    if (v->tag == FAC_TAG_TENSOR) {
        next = fac_value_tensor(replaced(o, fac_value_as_tensor(*v)));
    } else {
        const fac_tensors l = fac_value_as_tensors(*v);
        for (size_t i = 0; i < l.n; i++) list[i] = l.v[i] ? replaced(o, l.v[i]) : NULL;
        next = fac_value_tensors(list, l.n);
    }
    fac_value_release(v);
    *v = next;
}

/* ---- a call --------------------------------------------------------------------------------------------------------------- */

static void go_backward(outcome *o) {
    fac_tensor *outs[MOST], *ones[MOST];
    size_t n = 0;
    for (size_t r = 0; r < RESULTS; r++) {
        fac_tensor *l[MOST];
        const size_t many = sample_tensors_of(o->results[r], l, MOST);
        for (size_t i = 0; i < many && n < MOST; i++)
            if (fac_requires_grad(l[i])) outs[n++] = l[i];
    }
    for (size_t i = 0; i < n; i++) ones[i] = fac_ones_like(outs[i]);
    const fac_tensors from = {outs, n}, to = {o->leaves, o->n_leaves}, given = {ones, n};
    if (n && o->n_leaves) o->status = fac_grad(from, to, o->grads, .grad_outputs = given, .allow_unused = true);
}

static outcome call(const char *text, fac_dtype dtype, pending p, bool is_pending, bool gradients) {
    static sample_call c;
    outcome o = {0};
    for (size_t i = 0; i < RESULTS; i++) o.results[i] = fac_value_none();
    assert_true(sample_parse(text, &c, NULL));
    if (dtype) sample_set_dtype(&c, dtype);
    o.status = sample_make(&c, fac_device_make(FAC_CPU, -1), &o.made);
    for (size_t i = 0; o.status == FAC_OK && i < o.made.n_tensors; i++) {
        fac_tensor *t = fac_value_as_tensor(o.made.tensors[i]);
        const fac_dtype d = fac_tensor_dtype(t);
        if (gradients && fac_dtype_is_floating(d) + fac_dtype_is_complex(d) && !fac_requires_grad(t) &&
            !fac_is_inference(t))
            (void)fac_set_requires_grad(t, true);
        if (fac_requires_grad(t)) o.leaves[o.n_leaves++] = t;
        o.given[i] = argument(t, p, is_pending);
        o.status = fac_error();
    }
    for (size_t i = 0; o.status == FAC_OK && i < o.made.n_args; i++) replace(&o, &o.made.args[i]);
    fac_generator_set_state(NULL, 11, 0);
    if (o.status == FAC_OK) o.status = fac_call(c.op, o.made.args, o.made.n_args, o.results);
    if (o.status == FAC_OK && gradients) go_backward(&o);
    fac_error_clear();
    return o;
}

static void forget(outcome *o) {
    for (size_t i = 0; i < RESULTS; i++) fac_value_release(&o->results[i]);
    sample_unmake(&o->made);
}

/* ---- comparing ------------------------------------------------------------------------------------------------------------ */

/* Bit by bit, but that negating may give zeros and NaNs another sign. */
static bool same_elements(fac_tensor *a, fac_tensor *b, size_t n) {
    const fac_dtype d = fac_tensor_dtype(a), wide = fac_dtype_is_complex(d) ? FAC_C128 : FAC_F64;
    const bool coded = fac_dtype_is_quantized(d) || fac_dtype_is_float8(d); /* read as what the codes stand for */
    const bool floats = fac_dtype_is_floating(d) || wide == FAC_C128 || coded, as_wide = floats && d != wide;
    const fac_dtype read = as_wide ? wide : d;
    const size_t bytes = n * fac_dtype_size(read), numbers = wide == FAC_C128 ? 2 * n : n;
    double *p = malloc(bytes + 1), *q = malloc(bytes + 1);
    assert_ok(fac_tensor_read(a, read, p, n));
    assert_ok(fac_tensor_read(b, read, q, n));
    bool same = memcmp(p, q, bytes) == 0;
    for (size_t i = 0; floats && i < numbers; i++) {
        same = p[i] == q[i] || (isnan(p[i]) && isnan(q[i]));
        if (!same) break;
    }
    free(p);
    free(q);
    return same;
}

static bool same_tensor(fac_tensor *a, fac_tensor *b) {
    if (!a || !b) return !a == !b;
    if (fac_tensor_layout(a) != fac_tensor_layout(b)) return false;
    if (fac_is_nested(a) != fac_is_nested(b)) return false;
    a = fac_detach(a), b = fac_detach(b);
    a = fac_is_nested(a) ? fac_to_padded_tensor(a, 0) : fac_to_dense(a);
    b = fac_is_nested(b) ? fac_to_padded_tensor(b, 0) : fac_to_dense(b);
    fac_ints x = fac_tensor_sizes(a), y = fac_tensor_sizes(b);
    if (x.n != y.n || fac_tensor_dtype(a) != fac_tensor_dtype(b)) return false;
    if (x.n && memcmp(x.v, y.v, x.n * sizeof *x.v) != 0) return false;
    if (fac_tensor_device(a).type == FAC_META) return fac_tensor_device(b).type == FAC_META;
    return same_elements(a, b, (size_t)fac_tensor_numel(a));
}

static bool same_values(const fac_value *a, const fac_value *b, size_t n) {
    for (size_t i = 0; i < n; i++) {
        fac_tensor *x[MOST], *y[MOST];
        const size_t many = sample_tensors_of(a[i], x, MOST);
        if (many != sample_tensors_of(b[i], y, MOST)) return false;
        for (size_t j = 0; j < many; j++)
            if (!same_tensor(x[j], y[j])) return false;
    }
    return true;
}

static const char *difference(const outcome *a, const outcome *b) {
    if (a->status != b->status) return fac_status_name(b->status);
    if (a->status != FAC_OK) return NULL;
    if (!same_values(a->results, b->results, RESULTS)) return "other results";
    if (!same_values(a->made.args, b->made.args, a->made.n_args)) return "arguments are left otherwise";
    for (size_t i = 0; i < a->n_leaves; i++)
        if (!same_tensor(a->grads[i], b->grads[i])) return "other gradients";
    return NULL;
}

/* What looks at memory or flags themselves, refuses views, or leaves values open. */
static bool tells_them_apart(const char *op) {
    static const char *const ops[] = {
        "is_conj",    "is_neg",          "view_as_real",        "view_as_real_copy", "view_as_real_copy.out",
        "view.dtype", "view_copy.dtype", "view_copy.dtype_out", "detach_",           "resize_",
        "resize_as_", "new_empty",       "new_empty_strided"};
    const char *name = op + strlen("aten::");
    for (size_t i = 0; i < FAC_COUNT(ops); i++)
        if (strcmp(name, ops[i]) == 0) return true;
    return strncmp(name + (name[0] == '_'), "empty", 5) == 0;
}

static int compare(const fac_operator *op, const char *text, fac_dtype dtype, pending p, bool gradients, int *worked) {
    static const char *const names[] = {"conjugated", "negated", "both"};
    FAC_SCOPE(s);
    outcome plain = call(text, dtype, p, false, gradients), other = call(text, dtype, p, true, gradients);
    const char *what = difference(&plain, &other);
    *worked += plain.status == FAC_OK;
    if (what && tells_them_apart(fac_operator_name(op))) what = NULL;
    if (what)
        print_error("%s, %s, %s%s: %s\n", text, dtype ? fac_dtype_name(dtype) : "its own dtypes", names[p],
                    gradients ? ", backward" : "", what);
    forget(&plain);
    forget(&other);
    return what != NULL;
}

static void compare_all(fac_dtype dtype, pending p, bool gradients, int least) {
    int wrong = 0, worked = 0;
    for (size_t i = 0; i < fac_operator_count(); i++) {
        const fac_operator *op = fac_operator_at(i);
        size_t n;
        char *const *texts = samples_of(&set, fac_operator_name(op), &n);
        if (sample_elsewhere(fac_operator_name(op))) continue;
        for (size_t k = 0; k < n; k++) wrong += compare(op, texts[k], dtype, p, gradients, &worked);
    }
    print_message("%d calls\n", worked);
    assert_int_equal(wrong, 0);
    assert_true(worked > least);
}

static void conjugated_arguments_give_the_same_results(void **state) {
    (void)state;
    compare_all(FAC_C64, CONJUGATED, false, 500);
    compare_all(FAC_DTYPE_DEFAULT, CONJUGATED, false, 1000);
}
static void conjugated_arguments_give_the_same_gradients(void **state) {
    (void)state;
    compare_all(FAC_C64, CONJUGATED, true, 500);
}
static void negated_arguments_give_the_same_results(void **state) {
    (void)state;
    compare_all(FAC_DTYPE_DEFAULT, NEGATED, false, 1000);
}
static void negated_arguments_give_the_same_gradients(void **state) {
    (void)state;
    compare_all(FAC_DTYPE_DEFAULT, NEGATED, true, 1000);
}
static void conjugated_and_negated_arguments_give_the_same_results_and_gradients(void **state) {
    (void)state;
    compare_all(FAC_C128, BOTH, false, 500);
    compare_all(FAC_C128, BOTH, true, 500);
}

static const struct CMUnitTest tests[] = {
    FAC_TEST(conjugated_arguments_give_the_same_results),
    FAC_TEST(conjugated_arguments_give_the_same_gradients),
    FAC_TEST(negated_arguments_give_the_same_results),
    FAC_TEST(negated_arguments_give_the_same_gradients),
    FAC_TEST(conjugated_and_negated_arguments_give_the_same_results_and_gradients),
};
int main(void) {
    int failed = support_run(tests, FAC_COUNT(tests), load);
    samples_free(&set);
    return failed;
}
