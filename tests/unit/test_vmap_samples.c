/* Every operator in every sample, called for a batch: each tensor alone and all together, against a loop over the
   samples; and the gradients through batches. What is not compared is listed with its reason, and the numbers are
   printed. */
#include "dispatch/operator.h"
#include "support/sample_tensors.h"
#include "support/samples.h"
#include "support/support.h"

#include <facula/facula.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 2, RESULTS = 8, MOST = 40 };

static sample_set set;

static void quiet(void *context, const char *message) { (void)context, (void)message; }

static int load(void **state) {
    (void)state;
    return samples_load(&set) ? 0 : -1;
}

/* ---- what is not as it is elsewhere ----------------------------------------------------------------------------- */

typedef struct exemption {
    const char *op; /* all that begin with it, if it ends with '*' */
    enum {
        SKIPPED,
        VALUES,
        GRADIENT,
        REFUSED,
        IN_FRONT
    } how; /* not called; the values, or the gradient, not compared; may be
                                                                refused; only with the samples in dimension 0 */
    const char *why;
} exemption;

static const exemption exemptions[] = {
    {"empty*", VALUES, "what memory held"},
    {"new_empty*", VALUES, "what memory held"},
    {"_native_batch_norm_legit_functional", REFUSED, "running statistics that samples share"},
    {"_batch_norm_with_update_functional", REFUSED, "running statistics that samples share"},
    {"_foreach_*", REFUSED, "a tensor of scalars is read as numbers"},
    {"cov", REFUSED, "weights are read to be checked"},
    {"quantile*", REFUSED, "the quantiles are read to be checked"},
    {"nanquantile*", REFUSED, "the quantiles are read to be checked"},
    {"sparse_*", REFUSED, "indices are read to be checked"},
    {"_validate_sparse_*", REFUSED, "indices are read to be checked"},
    {"embedding_sparse_backward", REFUSED, "indices are read to be checked"},
    {"as_strided_", REFUSED, "views in place change what a tensor is"},
    {"squeeze_*", REFUSED, "views in place change what a tensor is"},
    {"t_", REFUSED, "views in place change what a tensor is"},
    {"transpose_", REFUSED, "views in place change what a tensor is"},
    {"swapaxes_", REFUSED, "views in place change what a tensor is"},
    {"swapdims_", REFUSED, "views in place change what a tensor is"},
    {"unsqueeze_", REFUSED, "views in place change what a tensor is"},
    {"detach_", REFUSED, "views in place change what a tensor is"},
    {"_adam_step_", IN_FRONT, "all tensors have to lie in memory alike"},
    {"_sgd_step_", IN_FRONT, "all tensors have to lie in memory alike"},
    {"_fused_*", IN_FRONT, "all tensors have to lie in memory alike"},
};

static const exemption *exemption_of(const char *op, int how) {
    op += strlen("aten::");
    for (size_t i = 0; i < FAC_COUNT(exemptions); i++) {
        const char *name = exemptions[i].op;
        const size_t n = strlen(name);
        const bool prefix = name[n - 1] == '*';
        if ((int)exemptions[i].how == how && (prefix ? strncmp(op, name, n - 1) == 0 : strcmp(op, name) == 0))
            return &exemptions[i];
    }
    return NULL;
}

/* ---- a call as a function of its tensors ------------------------------------------------------------------------ */

typedef struct called {
    const fac_operator *op;
    const fac_schema *schema;
    sample_call call;
    sample_made made;
    fac_tensor *own[SAMPLE_TENSORS];     /* the call's tensors */
    fac_tensor *batches[SAMPLE_TENSORS]; /* what takes their place, all of them or one */
    int64_t dims[SAMPLE_TENSORS];        /* where the samples lie; FAC_UNSET: not batched */
    bool written[SAMPLE_TENSORS];
    fac_value plain[RESULTS]; /* results that are no tensors */
    size_t n_plain;
} called;

/* The input that takes a tensor's place. */
static fac_tensor *replaced(const called *k, fac_tensor *t, fac_tensors in) {
    for (size_t j = 0; j < k->made.n_tensors; j++)
        if (t && t == k->own[j]) return in.v[j];
    return t;
}

static fac_value with_inputs(const called *k, fac_value v, fac_tensors in) {
    fac_tensor *list[SAMPLE_ITEMS];
    if (v.tag == FAC_TAG_TENSOR) return fac_value_tensor(replaced(k, fac_value_as_tensor(v), in));
    if (v.tag != FAC_TAG_TENSORS) return fac_value_copy(v);
    const fac_tensors l = fac_value_as_tensors(v);
    for (size_t i = 0; i < l.n && i < SAMPLE_ITEMS; i++) list[i] = replaced(k, l.v[i], in);
    return fac_value_tensors(list, l.n);
}

/* All tensors of the results, which the innermost scope takes; how many. The others are kept in k->plain. */
static fac_status run_into(called *k, fac_tensors in, fac_tensor **out, size_t *n) {
    fac_value args[SAMPLE_ARGS], results[RESULTS];
    *n = k->n_plain = 0;
    for (size_t i = 0; i < RESULTS; i++) results[i] = fac_value_none();
    for (size_t i = 0; i < k->made.n_args; i++) args[i] = with_inputs(k, k->made.args[i], in);
    fac_status st = fac_call_op(k->op, args, k->made.n_args, results);
    for (size_t i = 0; i < k->made.n_args; i++) fac_value_release(&args[i]);
    for (size_t i = 0; i < RESULTS && st == FAC_OK; i++) {
        if (results[i].tag != FAC_TAG_TENSOR && results[i].tag != FAC_TAG_TENSORS) {
            k->plain[k->n_plain++] = results[i]; /* numbers: nothing to release but of complex ones, which none gives */
            continue;
        }
        st = fac_scope_take(&results[i], 1);
        if (st == FAC_OK)
            *n += sample_tensors_of(results[i], out + *n, MOST - *n);
        else
            while (++i < RESULTS) fac_value_release(&results[i]);
    }
    return st == FAC_OK ? fac_error() : st;
}

static bool same_sizes(fac_tensor *a, fac_tensor *b) {
    const fac_ints x = fac_tensor_sizes(a), y = fac_tensor_sizes(b);
    return x.n == y.n && (!x.n || memcmp(x.v, y.v, x.n * sizeof *x.v) == 0);
}

static fac_status run(void *context, fac_tensors in, fac_tensor **out, size_t n) {
    fac_tensor *all[MOST];
    size_t got;
    FAC_TRY(run_into(context, in, all, &got));
    assert_int_equal(got, n);
    memcpy(out, all, n * sizeof *out);
    return FAC_OK;
}

/* ---- batches ---------------------------------------------------------------------------------------------------- */

static bool is_differentiable(fac_tensor *t) {
    return fac_dtype_is_floating(fac_tensor_dtype(t)) || fac_dtype_is_complex(fac_tensor_dtype(t));
}

/* Another valid value of the same kind: smaller numbers, or the same in another order. */
static fac_tensor *varied(fac_tensor *t) {
    int64_t dims[FAC_MAX_DIMS];
    const size_t n = (size_t)fac_tensor_ndim(t);
    for (size_t d = 0; d < n; d++) dims[d] = (int64_t)d;
    if (is_differentiable(t)) return fac_to(fac_mul(t, 0.875), .dtype = fac_tensor_dtype(t));
    const fac_ints all = {dims, n};
    return n ? fac_flip(t, all) : fac_clone(t);
}

/* The values of tensor j for all samples, the samples in another dimension for each. */
static fac_status make_batch(called *k, size_t j, bool vary) {
    FAC_NO_GRAD(g);
    fac_tensor *first = fac_detach(k->own[j]);
    fac_tensor *second = vary ? varied(first) : first;
    k->dims[j] = j % 2 && !exemption_of(k->op->name, IN_FRONT) ? fac_tensor_ndim(first) : 0;
    k->batches[j] = fac_stack(FAC_TENSORS(first, second), .dim = k->dims[j]);
    return fac_error();
}

static fac_tensor *sample_of(const called *k, size_t j, int64_t i) {
    return k->dims[j] == FAC_UNSET ? k->batches[j] : fac_select(k->batches[j], k->dims[j], i);
}

/* The results of each sample, and what it wrote, one after the other. */
static fac_status loop(called *k, fac_tensor *outs[BATCH][MOST], size_t *n) {
    for (int64_t i = 0; i < BATCH; i++) {
        fac_tensor *in[SAMPLE_TENSORS];
        for (size_t j = 0; j < k->made.n_tensors; j++) {
            in[j] = sample_of(k, j, i);
            in[j] = fac_clone(in[j]); /* in memory of its own, as a sample alone would be */
        }
        fac_generator_set_state(NULL, 11, 0);
        FAC_TRY(run_into(k, (fac_tensors){in, k->made.n_tensors}, outs[i], n));
        for (size_t j = 0; j < k->made.n_tensors; j++)
            if (k->written[j] && *n < MOST) outs[i][(*n)++] = in[j];
    }
    return fac_error();
}

/* ---- counts ----------------------------------------------------------------------------------------------------- */

static struct {
    int operators, calls, by_rule, by_loop, by_parts, refused, no_sample, gradients, failed, exempt;
} counts;

static void complain(const called *k, const char *what) {
    char text[SAMPLE_TEXT];
    const char *why = fac_error() ? fac_error_message() : "";
    print_error("%s %s (%s): %s\n", what, sample_print(&k->call, text, sizeof text), fac_operator_batch_rule(k->op),
                why);
    for (size_t j = 0; j < k->made.n_tensors; j++)
        print_error("   tensor %zu: %s\n", j, k->dims[j] == FAC_UNSET ? "shared" : "batched");
    fac_error_clear();
    counts.failed++;
}

static bool close_to(fac_tensor *a, fac_tensor *b) {
    FAC_NO_GRAD(g);
    const fac_dtype d = fac_tensor_dtype(a);
    const double tolerance = d == FAC_F16 || d == FAC_BF16 ? 2e-2 : d == FAC_F64 || d == FAC_C128 ? 1e-9 : 1e-4;
    if (fac_tensor_dtype(b) != d || !same_sizes(a, b)) return false;
    if (!is_differentiable(a)) return fac_equal(a, b);
    return fac_allclose(fac_resolve_neg(fac_resolve_conj(fac_detach(a))),
                        fac_resolve_neg(fac_resolve_conj(fac_detach(b))), .rtol = tolerance, .atol = tolerance,
                        .equal_nan = true);
}

/* ---- values ----------------------------------------------------------------------------------------------------- */

static bool writes_shared(const called *k) {
    for (size_t j = 0; j < k->made.n_tensors; j++)
        if (k->written[j] && k->dims[j] == FAC_UNSET) return true;
    return false;
}

static void compare(called *k, fac_tensor *outs[BATCH][MOST], size_t n, fac_tensor **got, size_t n_got) {
    const bool values = !exemption_of(k->op->name, VALUES);
    size_t at = n_got;
    for (size_t j = 0; j < k->made.n_tensors; j++)
        if (k->written[j] && at < n)
            got[at++] = k->dims[j] == FAC_UNSET ? fac_stack(FAC_TENSORS(k->batches[j], k->batches[j]))
                                                : fac_movedim(k->batches[j], k->dims[j], 0);
    for (size_t r = 0; r < n; r++)
        for (int64_t i = 0; i < BATCH; i++) {
            fac_tensor *mine = fac_select(got[r], 0, i);
            if (mine && (values ? close_to(mine, outs[i][r]) : same_sizes(mine, outs[i][r]))) continue;
            print_error("result %zu of sample %lld: got %s, expected %s\n", r, (long long)i,
                        mine ? fac_tensor_string(mine) : "nothing", fac_tensor_string(outs[i][r]));
            complain(k, "differs:");
            return;
        }
}

static int kind_of_run(const called *k) {
    const char *rule = fac_operator_batch_rule(k->op);
    return strcmp(rule, "loop") == 0 ? 0 : strcmp(rule, "parts") == 0 ? 1 : 2;
}

/* The expected refusals: of what all samples share and one would write, and of sizes that depend on values. */
static bool may_refuse(const called *k) {
    fac_operator_facts facts;
    if (fac_operator_facts_of(k->op, &facts) != FAC_OK) return false;
    if (exemption_of(k->op->name, REFUSED)) return true;
    if (strstr(fac_error_message(), "within vmap a sample cannot be a ")) return true; /* sparse, quantized */
    if (strstr(fac_error_message(), "a nested tensor works on plain tensors")) return true;
    return writes_shared(k) || facts.data_dependent || strcmp(fac_operator_batch_rule(k->op), "refused") == 0;
}

static void check_values(called *k) {
    fac_tensor *outs[BATCH][MOST], *got[MOST];
    size_t n = 0, n_written = 0;
    if (loop(k, outs, &n) != FAC_OK) {
        fac_error_clear();
        counts.no_sample++;
        return;
    }
    for (size_t j = 0; j < k->made.n_tensors; j++) n_written += k->written[j];
    fac_generator_set_state(NULL, 11, 0);
    const size_t n_got = n - n_written;
    const fac_tensors in = {k->batches, k->made.n_tensors};
    const fac_ints dims = {k->dims, k->made.n_tensors};
    const fac_status st = fac_vmap(run, k, in, got, n_got, .in_dims = dims, .randomness = "same");
    counts.calls++;
    if (st != FAC_OK) {
        if (!may_refuse(k)) {
            complain(k, "failed:");
            return;
        }
        if (getenv("FACULA_VMAP_REFUSED") && !writes_shared(k))
            print_message("refused: %s: %s\n", k->op->name, fac_error_message());
        fac_error_clear();
        counts.refused++;
        return;
    }
    *(kind_of_run(k) == 0 ? &counts.by_loop : kind_of_run(k) == 1 ? &counts.by_parts : &counts.by_rule) += 1;
    compare(k, outs, n, got, n_got);
}

/* ---- gradients -------------------------------------------------------------------------------------------------- */

/* The sum of a result with weights that differ; NULL if it has no gradient. */
static fac_tensor *weighed(fac_tensor *t) {
    if (!is_differentiable(t) || !fac_requires_grad(t)) return NULL;
    fac_tensor *w = fac_cos(fac_arange((double)fac_tensor_numel(t), .dtype = FAC_F64));
    fac_tensor *product = fac_mul(fac_reshape(t, FAC_INTS(-1)), w);
    return fac_sum(fac_dtype_is_complex(fac_tensor_dtype(product)) ? fac_real(product) : product);
}

static fac_tensor *total(fac_tensor **v, size_t n) {
    fac_tensor *sum = NULL;
    for (size_t i = 0; i < n; i++) {
        fac_tensor *x = weighed(v[i]);
        if (x) sum = sum ? fac_add(sum, x) : x;
    }
    return sum;
}

static fac_status grads_of(called *k, fac_tensor *loss, fac_tensor **leaves, size_t n, fac_tensor **out) {
    (void)k;
    const fac_tensors in = {leaves, n};
    return fac_grad(FAC_TENSORS(loss), in, out, .allow_unused = true);
}

static void check_gradients(called *k) {
    fac_tensor *outs[BATCH][MOST], *got[MOST], *stacked[MOST], *leaves[SAMPLE_TENSORS], *want[SAMPLE_TENSORS],
        *have[SAMPLE_TENSORS];
    size_t n = 0, n_leaves = 0;
    for (size_t j = 0; j < k->made.n_tensors; j++) {
        if (k->written[j]) return;
        if (k->dims[j] == FAC_UNSET || !is_differentiable(k->batches[j])) continue;
        leaves[n_leaves++] = fac_set_requires_grad(k->batches[j], true);
    }
    if (!n_leaves || exemption_of(k->op->name, GRADIENT)) return;
    if (loop(k, outs, &n) != FAC_OK) {
        fac_error_clear();
        return;
    }
    for (size_t r = 0; r < n; r++) stacked[r] = fac_stack(FAC_TENSORS(outs[0][r], outs[1][r]));
    fac_tensor *loss = total(stacked, n);
    if (!loss || grads_of(k, loss, leaves, n_leaves, want) != FAC_OK) {
        fac_error_clear(); /* not differentiable, or not by these arguments */
        return;
    }
    fac_generator_set_state(NULL, 11, 0);
    const fac_tensors in = {k->batches, k->made.n_tensors};
    const fac_ints dims = {k->dims, k->made.n_tensors};
    if (fac_vmap(run, k, in, got, n, .in_dims = dims, .randomness = "same") != FAC_OK) {
        if (may_refuse(k)) {
            fac_error_clear();
            return;
        }
        complain(k, "failed with gradients:");
        return;
    }
    loss = total(got, n);
    if (!loss || grads_of(k, loss, leaves, n_leaves, have) != FAC_OK) {
        complain(k, "no gradient:");
        return;
    }
    counts.gradients++;
    for (size_t j = 0; j < n_leaves; j++)
        if (!want[j] != !have[j] || (want[j] && !close_to(have[j], want[j]))) {
            if (!have[j] && want[j] && fac_item(fac_abs(fac_sum(fac_abs(want[j])))) == 0) continue;
            if (have[j] && !want[j] && fac_item(fac_abs(fac_sum(fac_abs(have[j])))) == 0) continue;
            print_error("gradient %zu: got %s, expected %s\n", j, have[j] ? fac_tensor_string(have[j]) : "none",
                        want[j] ? fac_tensor_string(want[j]) : "none");
            complain(k, "gradient differs:");
            return;
        }
}

/* ---- each operator ---------------------------------------------------------------------------------------------- */

static void find_written(called *k) {
    fac_operator_facts facts;
    memset(k->written, 0, sizeof k->written);
    assert_ok(fac_operator_facts_of(k->op, &facts));
    for (size_t i = 0; i < k->made.n_args; i++) {
        fac_tensor *list[SAMPLE_ITEMS];
        const size_t n = facts.writes >> i & 1 ? sample_tensors_of(k->made.args[i], list, SAMPLE_ITEMS) : 0;
        for (size_t a = 0; a < n; a++)
            for (size_t j = 0; j < k->made.n_tensors; j++) k->written[j] |= list[a] == k->own[j];
    }
}

/* Sparse, nested and quantized tensors are not mapped over. */
static bool is_opaque(fac_tensor *t) {
    const fac_dtype d = fac_tensor_dtype(t);
    return fac_tensor_layout(t) != FAC_STRIDED || fac_is_nested(t) || (d >= FAC_QINT8 && d <= FAC_QINT32);
}

/* With tensor `only` batched, or all of them. */
static void check_batched(called *k, size_t only, bool gradients) {
    for (size_t j = 0; j < k->made.n_tensors; j++)
        if ((only == SIZE_MAX || only == j) && is_opaque(k->own[j])) return;
    for (int vary = 1; vary >= 0; vary--) {
        FAC_SCOPE(s);
        const int before = counts.no_sample;
        for (size_t j = 0; j < k->made.n_tensors; j++) {
            k->batches[j] = fac_detach(k->own[j]);
            k->dims[j] = FAC_UNSET;
            if ((only == SIZE_MAX || only == j) && make_batch(k, j, vary != 0) != FAC_OK) {
                complain(k, "no batch:");
                return;
            }
        }
        (gradients ? check_gradients : check_values)(k);
        if (counts.no_sample == before) return;
        if (vary) counts.no_sample = before; /* the sample as it is, for all */
    }
}

static void check_sample(const char *text, bool gradients) {
    FAC_SCOPE(s);
    const char *where;
    static called k;
    memset(&k, 0, sizeof k);
    assert_true(sample_parse(text, &k.call, &where));
    k.op = fac_operator_lookup(k.call.op);
    if (exemption_of(k.call.op, SKIPPED)) {
        counts.exempt++;
        return;
    }
    if (sample_elsewhere(k.call.op)) return;
    for (int i = 0; i < k.call.n_tensors; i++) k.call.tensors[i].flags = 0;
    if (sample_make(&k.call, fac_device_make(FAC_CPU, -1), &k.made) != FAC_OK) {
        fac_error_clear();
        return;
    }
    for (size_t j = 0; j < k.made.n_tensors; j++) k.own[j] = fac_value_as_tensor(k.made.tensors[j]);
    find_written(&k);
    if (k.made.n_tensors) check_batched(&k, SIZE_MAX, gradients);
    for (size_t j = 0; j < k.made.n_tensors && k.made.n_tensors > 1; j++) check_batched(&k, j, gradients);
    sample_unmake(&k.made);
}

static void check_all(bool gradients) {
    const char *only = getenv("FACULA_VMAP_ONLY");
    fac_set_warning_handler(quiet, NULL);
    for (size_t i = 0; i < set.n; i++) {
        const size_t n = strcspn(set.texts[i], "(");
        if (only && (strlen(only) != n || strncmp(set.texts[i], only, n) != 0)) continue;
        counts.operators += i == 0 || strncmp(set.texts[i], set.texts[i - 1], n + 1) != 0;
        check_sample(set.texts[i], gradients);
    }
    fac_set_warning_handler(NULL, NULL);
}

static void every_operator_in_a_batch_equals_a_loop_S091(void **state) {
    (void)state;
    memset(&counts, 0, sizeof counts);
    check_all(false);
    print_message("%d operators, %d calls: %d by rules, %d by parts, %d sample by sample, %d refused; %d exempt; "
                  "%d have no loop to compare with\n",
                  counts.operators, counts.calls, counts.by_rule, counts.by_parts, counts.by_loop, counts.refused,
                  counts.exempt, counts.no_sample);
    assert_int_equal(counts.failed, 0);
    if (!getenv("FACULA_VMAP_ONLY")) assert_true(counts.by_rule > 5150); /* calls of operators with a rule */
}

static void gradients_through_batches_equal_those_of_a_loop_S091(void **state) {
    (void)state;
    memset(&counts, 0, sizeof counts);
    check_all(true);
    print_message("%d operators, %d gradients\n", counts.operators, counts.gradients);
    assert_int_equal(counts.failed, 0);
}

static const struct CMUnitTest tests[] = {
    FAC_TEST(every_operator_in_a_batch_equals_a_loop_S091),
    FAC_TEST(gradients_through_batches_equal_those_of_a_loop_S091),
};
int main(void) {
    int failed = support_run(tests, FAC_COUNT(tests), load);
    samples_free(&set);
    return failed;
}
