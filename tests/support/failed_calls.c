/* Makes failing calls around valid ones and counts what they changed. */
#include "failed_calls.h"
#include "core/scalar.h"

#include "bad_calls.h"
#include "base/sanitizers.h"
#include "cuda.h"
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
    int64_t late;   /* calls in which a device met a bad index after they had returned */
    int64_t enough; /* failing calls, of the operator, from which the stage has seen enough */
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

/* Waits for a device, which may only now find a bad index: such a call has not failed. True if it found none. */
static bool settle(fac_device device) {
    const bool good = device.type != FAC_CUDA || fac_synchronize(device) == FAC_OK;
    fac_error_clear();
    return good;
}

/* What is made to fail besides the arguments. */
typedef enum fault { FAULT_NONE, FAULT_ALLOCATION, FAULT_LAUNCH } fault;
static const char *const fault_texts[] = {"", " for want of memory", " as a kernel was not launched"};

static void fault_set(fault f, int64_t nth) {
    if (f == FAULT_ALLOCATION) fac__thread_trim(), fac_memory_trim();
    memory_hook_fail(f == FAULT_ALLOCATION ? nth : 0, false);
    if (f == FAULT_LAUNCH) support_sim_set("fail=1");
}

/* True if there was something to fail. */
static bool fault_unset(fault f, fac_status st) {
    const bool met = memory_hook_failures() > 0;
    memory_hook_fail(0, false);
    if (f == FAULT_LAUNCH) support_sim_set("fail=0");
    return f == FAULT_LAUNCH ? st != FAC_OK : met;
}

/* Calls with a fault, for the n-th time that it could happen, and looks at what is left. True if it did happen. */
static bool try_call(tally *y, const sample_call *c, fault f, int64_t nth) {
    sample_made made;
    fac_tensor *tensors[SAMPLE_TENSORS];
    state before;
    size_t which;
    const fac_operator *op = fac_operator_find(c->op);
    if (y->failing >= y->enough) return false;
    if (sample_make(c, y->device, &made) != FAC_OK) {
        fac_error_clear();
        return false;
    }
    for (size_t i = 0; i < made.n_tensors; i++) tensors[i] = fac_value_as_tensor(made.tensors[i]);
    assert_true(state_note(&before, tensors, made.n_tensors));
    fault_set(f, nth);
    fac_status st = call(op, &made);
    const bool met = fault_unset(f, st);
    if (st != FAC_OK) {
        const char *what = state_changed(&before, &which);
        y->failing++;
        if (what) report(y, c, what, which, fault_texts[f]);
    }
    if (!settle(y->device) && st == FAC_OK) y->late++;
    state_free(&before);
    sample_unmake(&made);
    return met;
}

static void try_bad(void *context, const sample_call *c) { try_call(context, c, FAULT_NONE, 0); }

static void try_allocations(tally *y, const sample_call *c) {
    for (int64_t n = 1; n < 100 && try_call(y, c, FAULT_ALLOCATION, n); n++) continue;
}

static bool is_full(void) {
    const char *mode = getenv("FACULA_FAILED_CALLS");
    return mode && strcmp(mode, "full") == 0;
}

/* ---- one operator ---------------------------------------------------------------------------------------------------- */

/* A device takes its time, and so does the CPU under a sanitizer: there a few of each kind will do. */
static bool takes_all(const tally *y) { return (!FAC_UNDER_ASAN && y->device.type == FAC_CPU) || is_full(); }

/* A call, and its neighbours. */
static void try_stages(tally *y, const sample_call *valid, const fac_schema *schema) {
    const int64_t most = takes_all(y) ? INT64_MAX / 2 : FEWEST;
    y->enough = y->failing + most;
    bad_calls(valid, schema, try_bad, y);
    y->enough = y->failing + most;
    try_allocations(y, valid);
    y->enough++;
    if (y->device.type == FAC_CUDA) try_call(y, valid, FAULT_LAUNCH, 1);
}

/* The same with outs to be resized. */
static void try_around(tally *y, const sample_call *valid, const fac_schema *schema) {
    static const int64_t lengths[] = {0, 11};
    static sample_call resized; /* too large for the stack */
    try_stages(y, valid, schema);
    for (size_t i = 0; i < FAC_COUNT(lengths); i++) {
        resized = *valid;
        if (!bad_calls_resize_outs(&resized, schema, lengths[i])) return;
        try_stages(y, &resized, schema);
    }
}

static void try_sample(tally *y, const sample_call *valid, const fac_schema *schema) {
    static sample_call variant;
    const int64_t most = takes_all(y) ? INT64_MAX : 5 * FEWEST;
    for (int n = 0; y->failing < most && bad_calls_variant(valid, n, &variant); n++) try_around(y, &variant, schema);
}

static bool works(const sample_call *c, fac_device device) {
    bool ok = sample_try(c, device) == FAC_OK;
    settle(device);
    return ok;
}

static bool can_be_called(tally *y, const sample_call *c) {
    static char text[SAMPLE_TEXT];
    if (sample_try(c, y->device) == FAC_OK) return true;
    fac_error_info e;
    fac_error_get(&e);
    print_error("%s does not work: %s\n", sample_print(c, text, sizeof text), e.message);
    settle(y->device);
    y->changed++;
    return false;
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
    if (y->late) print_message("%lld more calls met a bad index on the device, later\n", (long long)y->late);
    assert_int_equal(y->changed, 0);
}

static void ignore(void *context, const char *message) { (void)context, (void)message; }

void failed_calls_try(failed_calls_of which, fac_device device) {
    sample_set samples;
    tally y = {.device = device, .enough = INT64_MAX};
    assert_true(samples_load(&samples));
    fac_set_warning_handler(ignore, NULL); /* outputs are resized by the thousand */
    for (size_t i = 0; i < fac_operator_count(); i++)
        if (chosen(fac_operator_at(i), which)) try_operator(&y, fac_operator_at(i), &samples);
    fac_set_warning_handler(NULL, NULL);
    samples_free(&samples);
    finish(&y);
}

void failed_calls_try_large(const char *const *texts, fac_device device) {
    static sample_call c;
    tally y = {.device = device, .enough = INT64_MAX};
    for (; *texts; texts++, y.overloads++) {
        assert_true(sample_parse(*texts, &c, NULL));
        if (can_be_called(&y, &c)) try_allocations(&y, &c);
    }
    y.all_failing = y.failing;
    finish(&y);
}

/* ---- a fault in the last element ------------------------------------------------------------------------------------------ */

static void spoil(fac_tensor *t, double value) {
    const size_t item = fac_dtype_size((fac_dtype)t->dtype);
    fac__store((char *)fac__data(t) + (size_t)(t->numel - 1) * item, (fac_dtype)t->dtype, fac_scalar_f_(value));
}

static void try_last(tally *y, const failed_calls_last *l) {
    static sample_call c;
    sample_made made;
    fac_tensor *tensors[SAMPLE_TENSORS];
    state before;
    size_t which;
    assert_true(sample_parse(l->text, &c, NULL));
    if (!can_be_called(y, &c)) return;
    assert_ok(sample_make(&c, y->device, &made));
    for (size_t i = 0; i < made.n_tensors; i++) tensors[i] = fac_value_as_tensor(made.tensors[i]);
    spoil(fac__header(tensors[l->tensor]), l->value);
    assert_true(state_note(&before, tensors, made.n_tensors));
    if (call(fac_operator_find(c.op), &made) == FAC_OK) print_error("%s takes %g\n", l->text, l->value), y->changed++;
    const char *what = state_changed(&before, &which);
    y->failing++;
    if (what) report(y, &c, what, which, " for its last element");
    fac_error_clear();
    state_free(&before);
    sample_unmake(&made);
}

void failed_calls_try_last(const failed_calls_last *calls, fac_device device) {
    tally y = {.device = device, .enough = INT64_MAX};
    for (; calls->text; calls++, y.overloads++) try_last(&y, calls);
    y.all_failing = y.failing;
    finish(&y);
}

/* ---- chunks ------------------------------------------------------------------------------------------------------------- */

/* Blocks that the pool holds would be taken unseen. */
static void try_chunks(tally *y, const char *text) {
    static sample_call c;
    assert_true(sample_parse(text, &c, NULL));
    fac__thread_trim(), fac_memory_trim();
    (void)memory_hook_requests_in_chunks();
    const bool worked = works(&c, y->device);
    const int64_t n = memory_hook_requests_in_chunks();
    y->overloads += worked;
    if (!worked || n == 0) return;
    if (y->changed++ < SHOWN) print_error("%lld requests for memory in chunks of %s\n", (long long)n, text);
}

void failed_calls_allocate_before_chunks(const char *const *texts) {
    sample_set samples;
    tally y = {.device = fac_device_make(FAC_CPU, -1), .enough = INT64_MAX};
    assert_true(samples_load(&samples));
    for (size_t i = 0; i < samples.n; i++) try_chunks(&y, samples.texts[i]);
    for (; *texts; texts++) try_chunks(&y, *texts);
    samples_free(&samples);
    print_message("%lld calls, %lld allocate in chunks\n", (long long)y.overloads, (long long)y.changed);
    assert_int_equal(y.changed, 0);
}
