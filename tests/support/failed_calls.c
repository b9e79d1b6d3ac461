#include "failed_calls.h"

#include "bad_calls.h"
#include "dispatch/operator.h"
#include "support.h"
#include "unchanged.h"
#include <facula/facula.h>
#include <stdlib.h>

enum { FEWEST = 20, SHOWN = 20 };

/* What has been called, and what came of it. */
typedef struct tally {
    fac_device device;
    int64_t failing, changed;
    int64_t overloads, all_failing;
} tally;

static const fac_schema *schema_of(const fac_operator *op) { return atomic_load(&op->schema); }

/* ---- one call ------------------------------------------------------------------------------------------------------ */

static void report(tally *y, const sample_call *c, const char *what, size_t which, const char *how) {
    static char text[SAMPLE_TEXT];
    fac_error_info e;
    fac_error_get(&e);
    if (y->changed++ < SHOWN)
        print_error("%s of tensor %zu has changed%s: %s\n    %s\n", what, which, how,
                    sample_print(c, text, sizeof text), e.message);
}

static fac_status call(const fac_operator *op, const sample_made *made) {
    fac_value results[8];
    for (size_t i = 0; i < FAC_COUNT(results); i++) results[i] = fac_value_none();
    fac_status st = fac_call_op(op, made->args, made->n_args, results);
    for (size_t i = 0; i < FAC_COUNT(results); i++) fac_value_release(&results[i]);
    return st;
}

/* Waits for a device, which may only now find a bad index: such a call has not failed. */
static void settle(fac_device device) {
    if (device.type == FAC_CUDA) (void)!fac_synchronize(device);
    fac_error_clear();
}

/* Calls with the n-th allocation failing (0: none) and looks at what is left. True if an allocation was there to fail. */
static bool try_call(tally *y, const sample_call *c, int64_t nth) {
    sample_made made;
    fac_tensor *tensors[SAMPLE_TENSORS];
    state before;
    size_t which;
    const fac_operator *op = fac_operator_find(c->op);
    if (sample_make(c, y->device, &made) != FAC_OK) {
        fac_error_clear();
        return false;
    }
    for (size_t i = 0; i < made.n_tensors; i++) tensors[i] = fac_value_as_tensor(made.tensors[i]);
    assert_true(state_note(&before, tensors, made.n_tensors));
    if (nth) fac__thread_trim(), fac_memory_trim();
    memory_hook_fail(nth, false);
    fac_status st = call(op, &made);
    bool met = memory_hook_failures() > 0;
    memory_hook_fail(0, false);
    if (st != FAC_OK) {
        const char *what = state_changed(&before, &which);
        y->failing++;
        if (what) report(y, c, what, which, nth ? " for want of memory" : "");
    }
    settle(y->device);
    state_free(&before);
    sample_unmake(&made);
    return met;
}

static void try_bad(void *context, const sample_call *c) { try_call(context, c, 0); }

static void try_allocations(tally *y, const sample_call *c) {
    for (int64_t n = 1; n < 100 && try_call(y, c, n); n++) continue;
}

/* ---- one operator ---------------------------------------------------------------------------------------------------- */

/* A call, its neighbours, and the same with outs to be resized. */
static void try_around(tally *y, const sample_call *valid, const fac_schema *schema) {
    static const int64_t lengths[] = {0, 11};
    static sample_call resized; /* too large for the stack */
    bad_calls(valid, schema, try_bad, y);
    try_allocations(y, valid);
    for (size_t i = 0; i < FAC_COUNT(lengths); i++) {
        resized = *valid;
        if (!bad_calls_resize_outs(&resized, schema, lengths[i])) return;
        bad_calls(&resized, schema, try_bad, y);
        try_allocations(y, &resized);
    }
}

static void try_sample(tally *y, const sample_call *valid, const fac_schema *schema) {
    static sample_call variant;
    for (int n = 0; bad_calls_variant(valid, n, &variant); n++) try_around(y, &variant, schema);
}

static bool is_full(void) {
    const char *mode = getenv("FACULA_FAILED_CALLS");
    return mode && strcmp(mode, "full") == 0;
}

static bool works(const sample_call *c, fac_device device) {
    bool ok = sample_try(c, device) == FAC_OK;
    settle(device);
    return ok;
}

static void try_operator(tally *y, const fac_operator *op, const sample_set *samples) {
    enum { FEW = 2 };
    static sample_call valid;
    size_t n, tried = 0;
    char *const *texts = samples_of(samples, op->name, &n);
    y->failing = 0;
    for (size_t i = 0; i < n && (tried < FEW || is_full()); i++) {
        assert_true(sample_parse(texts[i], &valid, NULL));
        if (!works(&valid, y->device)) continue;
        try_sample(y, &valid, schema_of(op));
        tried++;
    }
    if (!tried && y->device.type != FAC_CPU) return; /* no kernel there */
    y->overloads++;
    y->all_failing += y->failing;
    if (y->failing >= FEWEST) return;
    print_error("%s: only %lld failing calls of %zu samples\n", op->name, (long long)y->failing, n);
    y->changed++;
}

/* Whether the operator writes to an argument: by its schema, or to statistics that run along by a momentum. */
static bool writes(const fac_schema *s) {
    for (size_t i = 0; i < s->n_args; i++)
        if (s->args[i].type.write || strcmp(s->args[i].name, "momentum") == 0) return true;
    return false;
}

static bool chosen(const fac_operator *op, failed_calls_of which) {
    const char *only = getenv("FACULA_FAILED_ONLY");
    if (only) return strcmp(op->name, only) == 0;
    return which == FAILED_CALLS_WRITING ? writes(schema_of(op)) : fac_operator_has_tag(op, "nondeterministic_seeded");
}

static void finish(const tally *y) {
    print_message("%lld overloads, %lld failing calls, %lld changed\n", (long long)y->overloads,
                  (long long)y->all_failing, (long long)y->changed);
    assert_int_equal(y->changed, 0);
}

static void ignore(void *context, const char *message) { (void)context, (void)message; }

void failed_calls_try(failed_calls_of which, fac_device device) {
    sample_set samples;
    tally y = {.device = device};
    assert_true(samples_load(&samples));
    fac_set_warning_handler(ignore, NULL); /* outputs are resized by the thousand */
    for (size_t i = 0; i < fac_operator_count(); i++)
        if (chosen(fac_operator_at(i), which)) try_operator(&y, fac_operator_at(i), &samples);
    fac_set_warning_handler(NULL, NULL);
    samples_free(&samples);
    finish(&y);
}
