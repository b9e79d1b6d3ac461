/* The facts of every operator (fac_operator_facts) against what it does: each sample is called on the CPU, and storages, elements,
   strides and the generator are compared before and after. */
#include "support/sample_tensors.h"
#include "support/samples.h"
#include "support/support.h"

#include "dispatch/operator.h"
#include <facula/facula.h>
#include <stdlib.h>

static sample_set set;

static int load(void **state) {
    (void)state;
    return samples_load(&set) ? 0 : -1;
}

/* ---- one call ------------------------------------------------------------------------------------------------------ */

/* A tensor as it was: its sizes and strides, its storage and the bytes of that. */
typedef struct before {
    fac_tensor *t;
    const fac_storage *storage;
    void *bytes;
    size_t n;
    int64_t numel, strides[8];
    size_t dims;
} before;

static before look(fac_tensor *t) {
    fac_storage *s = fac_tensor_storage(t);
    const fac_ints strides = fac_tensor_strides(t);
    before b = {t, s, NULL, s ? (size_t)fac_storage_bytes(s) : 0, fac_tensor_numel(t), {0}, strides.n};
    assert_true(strides.n <= FAC_COUNT(b.strides));
    if (strides.n) memcpy(b.strides, strides.v, strides.n * sizeof *strides.v);
    if (b.n) b.bytes = malloc(b.n);
    if (b.n) memcpy(b.bytes, fac_storage_data(s), b.n);
    return b;
}

static bool has_strides(fac_tensor *t, const int64_t *strides, size_t n) {
    const fac_ints now = fac_tensor_strides(t);
    return now.n == n && (n == 0 || memcmp(now.v, strides, n * sizeof *strides) == 0);
}

/* Whether the tensor has other sizes or strides, another storage, or one with other bytes or of another size. */
static bool is_changed(const before *b) {
    fac_storage *s = fac_tensor_storage(b->t);
    if (s != b->storage || (s ? (size_t)fac_storage_bytes(s) : 0) != b->n) return true;
    if (fac_tensor_numel(b->t) != b->numel || !has_strides(b->t, b->strides, b->dims)) return true;
    return b->n && memcmp(b->bytes, fac_storage_data(s), b->n) != 0;
}

static bool shares(fac_tensor *a, fac_tensor *b) {
    const fac_storage *s = fac_tensor_storage(a);
    return a == b || (s && s == fac_tensor_storage(b));
}

enum { MOST = 32 };

/* What one operator did in all its calls. */
typedef struct deeds {
    uint64_t wrote, aliased;
    uint64_t drew; /* offsets, at most */
    int calls;
} deeds;

static bool shares_any(fac_tensor *const *list, size_t n, const fac_value *results) {
    fac_tensor *made[MOST];
    for (size_t r = 0; r < 8; r++) {
        size_t k = sample_tensors_of(results[r], made, MOST);
        for (size_t i = 0; i < n; i++)
            for (size_t j = 0; j < k; j++)
                if (shares(list[i], made[j])) return true;
    }
    return false;
}

/* An argument that shares its storage with one that is written is changed with it; so is one that is the same tensor. Those
   of a mask are overwritten before the call: it may leave them as they were only if it never writes. */
static bool call(const fac_operator *op, const sample_call *c, uint64_t poisoned, deeds *d) {
    sample_made made;
    fac_value results[8];
    before were[SAMPLE_ARGS][MOST];
    fac_tensor *args[SAMPLE_ARGS][MOST];
    size_t n[SAMPLE_ARGS] = {0};
    uint64_t offset, after;
    for (size_t i = 0; i < 8; i++) results[i] = fac_value_none();
    if (sample_make(c, fac_device_make(FAC_CPU, -1), &made) != FAC_OK) return fac_error_clear(), false;
    sample_overwrite(&made, poisoned, 0xc0);
    for (size_t i = 0; i < made.n_args; i++) {
        n[i] = sample_tensors_of(made.args[i], args[i], MOST);
        for (size_t k = 0; k < n[i]; k++) were[i][k] = look(args[i][k]);
    }
    fac_generator_get_state(NULL, NULL, &offset);
    bool worked = fac_call_op(op, made.args, made.n_args, results) == FAC_OK;
    fac_generator_get_state(NULL, NULL, &after);
    for (size_t i = 0; i < made.n_args; i++) {
        for (size_t k = 0; k < n[i]; k++) {
            if (worked && is_changed(&were[i][k])) d->wrote |= UINT64_C(1) << i;
            free(were[i][k].bytes);
        }
        if (worked && shares_any(args[i], n[i], results)) d->aliased |= UINT64_C(1) << i;
    }
    if (worked && after - offset > d->drew) d->drew = after - offset;
    d->calls += worked;
    for (size_t i = 0; i < 8; i++) fac_value_release(&results[i]);
    sample_unmake(&made);
    fac_error_clear();
    return worked;
}

/* Two tensors of one storage among the arguments would be found changed, or aliased, together. */
static bool has_tensors_apart(const sample_call *c) {
    bool seen[SAMPLE_TENSORS] = {false};
    for (int i = 0; i < c->n_tensors; i++)
        if (c->tensors[i].base >= 0) return false;
    for (int i = 0; i < c->n_args; i++) {
        if (c->args[i].kind != SAMPLE_TENSOR) continue;
        if (seen[c->args[i].i]) return false;
        seen[c->args[i].i] = true;
    }
    return true;
}

static deeds observe(const fac_operator *op, uint64_t writes) {
    size_t n;
    deeds d = {0};
    char *const *texts = samples_of(&set, fac_operator_name(op), &n);
    for (size_t i = 0; i < n; i++) {
        sample_call c;
        assert_true(sample_parse(texts[i], &c, NULL));
        if (!has_tensors_apart(&c)) continue;
        call(op, &c, 0, &d);
        if (writes) call(op, &c, writes, &d);
    }
    return d;
}

/* ---- every operator ------------------------------------------------------------------------------------------------ */

static int tell(const char *op, const char *what, uint64_t said, uint64_t did) {
    print_error("%s: %s: the facts say %llx, it did %llx\n", op, what, (unsigned long long)said,
                (unsigned long long)did);
    return 1;
}

/* Said is done in some sample, and nothing else in any. Of composite operators the parts say what they draw. */
static int judge(const fac_operator *op, const fac_operator_facts *f, const deeds *d) {
    const char *name = fac_operator_name(op);
    int wrong = 0;
    bool composite = f->combines == FAC_COMBINES_AS_PARTS;
    const bool history = strcmp(name, "aten::detach_") == 0; /* is all that it changes */
    if (d->wrote != f->writes && !history) wrong += tell(name, "writes", f->writes, d->wrote);
    if (d->aliased != f->aliases) wrong += tell(name, "aliases", f->aliases, d->aliased);
    if (!composite && d->drew != (uint64_t)f->offsets) wrong += tell(name, "offsets", (uint64_t)f->offsets, d->drew);
    return wrong;
}

static void every_operator_does_what_its_facts_say(void **state) {
    (void)state;
    int wrong = 0, calls = 0, operators = 0, wrote = 0, aliased = 0, drew = 0;
    for (size_t i = 0; i < fac_operator_count(); i++) {
        FAC_SCOPE(s);
        const fac_operator *op = fac_operator_at(i);
        fac_operator_facts f;
        assert_ok(fac_operator_facts_of(op, &f));
        if (sample_elsewhere(fac_operator_name(op))) continue;
        deeds d = observe(op, f.writes);
        if (!d.calls) continue;
        operators++, calls += d.calls;
        wrote += d.wrote != 0, aliased += d.aliased != 0, drew += d.drew != 0;
        wrong += judge(op, &f, &d);
    }
    print_message("%d calls of %d operators: %d wrote, %d gave what shares memory, %d drew random numbers\n", calls,
                  operators, wrote, aliased, drew);
    assert_int_equal(wrong, 0);
    assert_true(operators > 900 && wrote > 300 && aliased > 300 && drew > 20);
}

static void the_facts_of_every_operator_tell_how_elements_meet(void **state) {
    (void)state;
    int gaps = 0;
    for (size_t i = 0; i < fac_operator_count(); i++) {
        fac_operator_facts f;
        assert_ok(fac_operator_facts_of(fac_operator_at(i), &f));
        gaps += f.combines == FAC_COMBINES_UNKNOWN;
    }
    assert_int_equal(gaps, 0);
}

/* One that names a device would leave the meta device. */
static bool names_a_device(const sample_call *c) {
    for (int i = 0; i < c->n_args; i++)
        if (c->args[i].kind == SAMPLE_DEVICE) return true;
    return false;
}

/* The vendor layout is the CPU's. */
static bool is_of_the_vendor_layout(const sample_call *c) {
    bool is = strcmp(c->op, "aten::to_mkldnn") == 0;
    for (int i = 0; i < c->n_tensors; i++) is |= c->tensors[i].layout == FAC_VENDOR_LAYOUT;
    return is;
}

static bool all_work_on_meta(char *const *texts, size_t n) {
    bool work = true;
    for (size_t i = 0; i < n; i++) {
        sample_call c;
        assert_true(sample_parse(texts[i], &c, NULL));
        if (is_of_the_vendor_layout(&c)) continue;
        work = work && (names_a_device(&c) || sample_try(&c, fac_device_make(FAC_META, -1)) == FAC_OK);
        fac_error_clear();
    }
    return work;
}

/* Sizes that depend on values, and numbers that the host gets, cannot be known on the meta device; all others can. Composite
   operators depend on data where one of their parts does. */
static void operators_that_fail_on_meta_depend_on_data(void **state) {
    (void)state;
    int wrong = 0, depend = 0;
    for (size_t i = 0; i < fac_operator_count(); i++) {
        FAC_SCOPE(s);
        size_t n;
        fac_operator_facts f;
        const fac_operator *op = fac_operator_at(i);
        char *const *texts = samples_of(&set, fac_operator_name(op), &n);
        assert_ok(fac_operator_facts_of(op, &f));
        if (n == 0 || sample_elsewhere(fac_operator_name(op))) continue;
        depend += f.data_dependent;
        bool known = all_work_on_meta(texts, n);
        if (known == f.data_dependent) wrong += tell(fac_operator_name(op), "data_dependent", f.data_dependent, !known);
    }
    assert_int_equal(wrong, 0);
    assert_true(depend >= 18);
}

static const struct CMUnitTest tests[] = {FAC_TEST(every_operator_does_what_its_facts_say),
                                          FAC_TEST(the_facts_of_every_operator_tell_how_elements_meet),
                                          FAC_TEST(operators_that_fail_on_meta_depend_on_data)};
int main(void) {
    int failed = support_run(tests, FAC_COUNT(tests), load);
    samples_free(&set);
    return failed;
}
