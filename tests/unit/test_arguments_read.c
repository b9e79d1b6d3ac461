/* Every operator looks at the sizes, the dtype and the device of every tensor that it is given, or its entry says why not.
   Calls are made on the meta device, where all that runs is the shape rule; operators that have none apart from their kernels,
   and those that need the values of tensors, are called on the CPU. */
#include "support/samples.h"
#include "support/support.h"
#include "support/watch.h"

#include "dispatch/operator.h"
#include "ops_unread.h"
#include <facula/facula.h>

static sample_set set;

static int load(void **state) {
    (void)state;
    return samples_load(&set) ? 0 : -1;
}

static const struct {
    unsigned bit;
    const char *name;
} aspects[] = {{WATCH_SIZES, "sizes"}, {WATCH_DTYPE, "dtype"}, {WATCH_DEVICE, "device"}};

/* What is known of one operator's arguments. */
typedef struct reading {
    unsigned read[SAMPLE_ARGS]; /* in any of its calls; of the tensors of a list, of each */
    bool given[SAMPLE_ARGS];
} reading;

/* ---- one call ------------------------------------------------------------------------------------------------------ */

/* The tensors of an argument, and what was read of all of them. */
static unsigned read_of(fac_value v, fac_tensor *const *watched, const unsigned *read, int n, bool *given) {
    fac_tensor *one = v.tag == FAC_TAG_TENSOR ? fac_value_as_tensor(v) : NULL;
    fac_tensors list = v.tag == FAC_TAG_TENSORS ? fac_value_as_tensors(v) : (fac_tensors){&one, one != NULL};
    unsigned all = WATCH_ALL;
    for (size_t i = 0; i < list.n; i++)
        for (int k = 0; k < n; k++)
            if (list.v[i] == watched[k]) {
                all &= read[k];
                *given = true;
            }
    return all;
}

/* False if the call fails on the device. */
static bool observe(const sample_call *c, const fac_operator *op, fac_device device, reading *r) {
    sample_made made;
    fac_value results[8];
    fac_tensor *tensors[WATCH_TENSORS];
    unsigned read[WATCH_TENSORS];
    if (sample_make(c, device, &made) != FAC_OK) return false;
    int n = 0;
    for (size_t i = 0; i < made.n_tensors; i++) tensors[n++] = fac_value_as_tensor(made.tensors[i]);
    for (size_t i = 0; i < FAC_COUNT(results); i++) results[i] = fac_value_none();
    watch_begin(tensors, n);
    fac_status st = fac_call_op(op, made.args, made.n_args, results);
    watch_end(read);
    for (size_t i = 0; i < made.n_args && st == FAC_OK; i++) {
        bool given = false;
        unsigned all = read_of(made.args[i], tensors, read, n, &given);
        if (!given) continue;
        r->given[i] = true;
        r->read[i] |= all;
    }
    for (size_t i = 0; i < FAC_COUNT(results); i++) fac_value_release(&results[i]);
    sample_unmake(&made);
    return st == FAC_OK;
}

static bool has_rule(const char *op) {
    for (size_t i = 0; ops_without_rule[i].op; i++)
        if (strcmp(op, ops_without_rule[i].op) == 0) return false;
    return true;
}

/* Whether the dispatcher alone decides which devices a call may have: there is one tensor, or kernels for the CPU only, where no
   call with a tensor of another device arrives. */
static bool device_is_dispatched(const fac_schema *s) {
    size_t tensors = 0;
    for (size_t i = 0; i < s->n_args; i++)
        if (s->args[i].type.kind == FAC_TYPE_TENSOR) tensors += s->args[i].type.list ? 2 : 1;
    for (size_t i = 0; ops_without_rule[i].op; i++)
        if (strcmp(s->full, ops_without_rule[i].op) == 0 && ops_without_rule[i].cpu_only) return true;
    return tensors < 2;
}

/* Whether a factory writes into a given tensor, whose device is then the result's, whatever the other arguments'. */
static bool device_is_of_out(const fac_operator *op) {
    fac_operator_facts f;
    assert_ok(fac_operator_facts_of(op, &f));
    return f.fills;
}

static void observe_samples(const fac_operator *op, reading *r) {
    size_t n;
    bool rule = has_rule(fac_operator_name(op));
    char *const *texts = samples_of(&set, fac_operator_name(op), &n);
    for (size_t i = 0; i < n; i++) {
        sample_call c;
        assert_true(sample_parse(texts[i], &c, NULL));
        bool observed = rule && observe(&c, op, fac_device_make(FAC_META, -1), r);
        fac_error_clear();
        if (!observed) (void)observe(&c, op, fac_device_make(FAC_CPU, -1), r);
        fac_error_clear();
    }
}

/* ---- every operator ------------------------------------------------------------------------------------------------ */

static const char *reason_of(const char *op, const char *arg, const char *what) {
    for (size_t i = 0; ops_unread[i].op; i++)
        if (strcmp(ops_unread[i].op, op) == 0 && strcmp(ops_unread[i].arg, arg) == 0 &&
            strcmp(ops_unread[i].what, what) == 0)
            return ops_unread[i].reason;
    return NULL;
}

/* How many aspects of an argument are unread without a reason, or read in spite of one. */
static int judge(const fac_operator *o, const char *arg, unsigned read) {
    const fac_schema *s = atomic_load(&o->schema);
    const char *op = s->full;
    int wrong = 0;
    for (size_t i = 0; i < FAC_COUNT(aspects); i++) {
        if (aspects[i].bit == WATCH_DEVICE && (device_is_dispatched(s) || device_is_of_out(o))) continue;
        bool seen = read & aspects[i].bit, excused = reason_of(op, arg, aspects[i].name) != NULL;
        if (seen != excused) continue;
        print_error(seen ? "%s: %s of %s is read; its entry says that it is not\n"
                         : "%s: %s of %s is not read, and its entry does not say why\n",
                    op, aspects[i].name, arg);
        wrong++;
    }
    return wrong;
}

static int judge_operator(const fac_operator *op) {
    const fac_schema *s = atomic_load(&op->schema);
    reading r = {{0}, {false}};
    int wrong = 0;
    if (sample_elsewhere(s->full)) return 0;
    observe_samples(op, &r);
    for (size_t i = 0; i < s->n_args; i++) {
        if (s->args[i].type.kind != FAC_TYPE_TENSOR) continue;
        if (r.given[i])
            wrong += judge(op, s->args[i].name, r.read[i]);
        else
            print_error("%s: no sample that works gives %s\n", s->full, s->args[i].name), wrong++;
    }
    return wrong;
}

static void rules_read_sizes_dtype_and_device_of_every_tensor(void **state) {
    (void)state;
    int wrong = 0;
    if (!watch_is_possible()) {
        print_message("needs x86-64 and Linux, without ThreadSanitizer, to see what instructions read\n");
        skip();
    }
#ifdef __clang__
    print_message(
        "entries say what gcc's code reads; clang leaves out reads that change nothing on the way to a kernel\n");
    skip();
#endif
    assert_ok(fac_set_num_threads(1));
    for (size_t i = 0; i < fac__builtin_op_count(); i++) wrong += judge_operator(fac__builtin_op_at(i)->op);
    assert_int_equal(wrong, 0);
}

/* The watch itself: it sees what is read, and no more. */
static void watch_tells_fields_apart(void **state) {
    (void)state;
    if (!watch_is_possible()) skip();
    FAC_SCOPE(s);
    fac_tensor *t[3] = {fac_zeros(FAC_SHAPE(2)), fac_zeros(FAC_SHAPE(2)), fac_zeros(FAC_SHAPE(2))};
    unsigned read[3];
    for (int i = 0; i < 3; i++) assert_non_null(t[i]);
    watch_begin(t, 3);
    volatile uint8_t dtype = ((volatile fac_tensor *)fac__header(t[0]))->dtype,
                     ndim = ((volatile fac_tensor *)fac__header(t[1]))->ndim;
    volatile int64_t offset = ((volatile fac_tensor *)fac__header(t[2]))->offset;
    watch_end(read);
    (void)dtype, (void)ndim, (void)offset;
    assert_int_equal(read[0], WATCH_DTYPE);
    assert_int_equal(read[1], WATCH_SIZES);
    assert_int_equal(read[2], 0);
}

static const struct CMUnitTest tests[] = {FAC_TEST(watch_tells_fields_apart),
                                          FAC_TEST(rules_read_sizes_dtype_and_device_of_every_tensor)};
int main(void) {
    int failed = support_run(tests, FAC_COUNT(tests), load);
    samples_free(&set);
    return failed;
}
