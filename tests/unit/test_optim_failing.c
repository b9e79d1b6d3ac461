/* An optimiser's step, and the loading of its state, over several parameters: what fails at one of them leaves all as they
   were. */
#include "support/memory_hook.h"
#include "support/support.h"
#include "support/unchanged.h"
#include <facula/facula.h>

enum { PARAMETERS = 3, TENSORS = 64 };

static const fac_module_class holder_class = {.name = "Holder", .version = 1};

typedef fac_optimizer *(*maker)(fac_module *m);
static fac_optimizer *sgd(fac_module *m) { return fac_sgd_new(m, 0.1); }
static fac_optimizer *sgd_dampened(fac_module *m) { return fac_sgd_new(m, 0.1, .momentum = 0.9, .dampening = 0.5); }
static fac_optimizer *sgd_nesterov(fac_module *m) { return fac_sgd_new(m, 0.1, .momentum = 0.9, .nesterov = true); }
static fac_optimizer *adam(fac_module *m) { return fac_adam_new(m, 0.1); }
static fac_optimizer *adamw_amsgrad(fac_module *m) { return fac_adamw_new(m, 0.1, .amsgrad = true); }
static const maker makers[] = {sgd, sgd_dampened, sgd_nesterov, adam, adamw_amsgrad};

/* Three parameters; the gradient of the second lies otherwise than it does, so that a step has to make a copy. */
static fac_module *holder(fac_dtype second) {
    fac_module *m = fac_module_new(&holder_class);
    fac_tensor *p[] = {fac_ones(FAC_SHAPE(20, 30)), fac_full(FAC_SHAPE(20, 30), 2.0, .dtype = second),
                       fac_full(FAC_SHAPE(7), 3.0)};
    const char *const names[] = {"a", "b", "c"};
    for (int i = 0; i < PARAMETERS; i++) assert_non_null(fac_module_add_parameter(m, names[i], p[i]));
    for (int i = 0; i < PARAMETERS; i++) {
        fac_tensor *grad = i == 1 ? fac_t(fac_full(FAC_SHAPE(30, 20), 0.5, .dtype = second)) : fac_full_like(p[i], 0.5);
        assert_ok(fac_set_grad(p[i], grad));
    }
    assert_no_error();
    return m;
}

/* The parameters and all that the optimiser keeps. Step counts and settings are copies, so they are compared as such. */
typedef struct moment {
    fac_state *dict;
    state tensors;
} moment;

static void note(moment *m, fac_optimizer *o) {
    fac_tensor *all[TENSORS];
    size_t n = 0;
    m->dict = fac_optimizer_state_dict(o);
    assert_non_null(m->dict);
    const fac_tensors p = fac_optimizer_parameters(o);
    for (size_t i = 0; i < p.n; i++) all[n++] = p.v[i];
    for (size_t i = 0; i < m->dict->n; i++) all[n++] = m->dict->v[i].tensor;
    assert_true(n <= TENSORS);
    assert_true(state_note(&m->tensors, all, n));
}

static void assert_as_it_was(moment *m, fac_optimizer *o) {
    size_t which;
    const char *what = state_changed(&m->tensors, &which);
    if (what) fail_msg("%s of tensor %zu has changed", what, which);
    fac_state *now = fac_optimizer_state_dict(o);
    assert_non_null(now);
    assert_int_equal(now->n, m->dict->n);
    for (size_t i = 0; i < now->n; i++) {
        assert_string_equal(now->v[i].name, m->dict->v[i].name);
        assert_true(fac_equal(now->v[i].tensor, m->dict->v[i].tensor));
    }
    fac_state_free(now);
}

static void forget(moment *m) {
    state_free(&m->tensors);
    fac_state_free(m->dict);
}

/* Fails each allocation of fn in turn until it succeeds; returns how many calls failed. */
static int fail_each(fac_optimizer *o, fac_status (*fn)(fac_optimizer *, void *), void *context) {
    for (int64_t n = 1;; n++) {
        moment before;
        note(&before, o);
        fac__thread_trim(), fac_memory_trim();
        memory_hook_fail(n, false);
        const fac_status st = fn(o, context);
        const bool met = memory_hook_failures() > 0;
        memory_hook_fail(0, false);
        if (st == FAC_OK) {
            forget(&before);
            assert_false(met);
            return (int)n - 1;
        }
        assert_error(FAC_ERR_MEMORY, "");
        assert_as_it_was(&before, o);
        forget(&before);
    }
}

static fac_status take_step(fac_optimizer *o, void *context) {
    (void)context;
    return fac_optimizer_step(o);
}

static fac_status load_state(fac_optimizer *o, void *context) { return fac_optimizer_load_state_dict(o, context); }

static void optimizer_step_without_memory_changes_nothing(void **state) {
    (void)state;
    int failed = 0;
    for (size_t i = 0; i < FAC_COUNT(makers); i++) {
        FAC_SCOPE(s);
        fac_module *m = holder(FAC_F32);
        fac_optimizer *o = makers[i](m);
        failed += fail_each(o, take_step, NULL);
        failed += fail_each(o, take_step, NULL); /* its buffers are there */
        fac_optimizer_release(o);
        fac_module_release(m);
    }
    print_message("%d steps failed, 0 changed\n", failed);
    assert_true(failed >= 20);
}

/* The first parameter would have been updated. */
static void optimizer_step_refused_at_the_second_parameter_changes_nothing(void **state) {
    (void)state;
    for (size_t i = 0; i < FAC_COUNT(makers); i++) {
        FAC_SCOPE(s);
        moment before;
        fac_module *m = holder(FAC_C64);
        fac_optimizer *o = makers[i](m);
        note(&before, o);
        assert_int_equal(fac_optimizer_step(o), FAC_ERR_DTYPE);
        assert_error(FAC_ERR_DTYPE, "optimisers take float32 or float64 parameters");
        assert_as_it_was(&before, o);
        forget(&before);
        fac_optimizer_release(o);
        fac_module_release(m);
    }
}

/* The first step after one that failed is as if that had not been. */
static void optimizer_step_after_a_failed_one_is_the_first(void **state) {
    (void)state;
    for (size_t i = 0; i < FAC_COUNT(makers); i++) {
        FAC_SCOPE(s);
        fac_module *m[2] = {holder(FAC_F32), holder(FAC_F32)};
        fac_optimizer *o[2] = {makers[i](m[0]), makers[i](m[1])};
        (void)fail_each(o[0], take_step, NULL);
        assert_ok(fac_optimizer_step(o[1]));
        for (int p = 0; p < PARAMETERS; p++)
            assert_true(fac_equal(fac_optimizer_parameters(o[0]).v[p], fac_optimizer_parameters(o[1]).v[p]));
        for (int k = 0; k < 2; k++) {
            fac_optimizer_release(o[k]);
            fac_module_release(m[k]);
        }
    }
}

static void optimizer_state_that_fails_to_load_changes_nothing(void **state) {
    (void)state;
    int failed = 0;
    for (size_t i = 0; i < FAC_COUNT(makers); i++) {
        FAC_SCOPE(s);
        fac_module *m = holder(FAC_F32), *other = holder(FAC_F32);
        fac_optimizer *o = makers[i](m), *from = makers[i](other);
        assert_ok(fac_optimizer_step(o));
        for (int k = 0; k < 3; k++) assert_ok(fac_optimizer_step(from));
        fac_state *dict = fac_optimizer_state_dict(from);
        failed += fail_each(o, load_state, dict);
        fac_state_free(dict);
        fac_optimizer_release(o);
        fac_optimizer_release(from);
        fac_module_release(m);
        fac_module_release(other);
    }
    print_message("%d states failed to load, 0 changed\n", failed);
    assert_true(failed >= 20);
}

FAC_TEST_MAIN(FAC_TEST(optimizer_step_without_memory_changes_nothing),
              FAC_TEST(optimizer_step_refused_at_the_second_parameter_changes_nothing),
              FAC_TEST(optimizer_step_after_a_failed_one_is_the_first),
              FAC_TEST(optimizer_state_that_fails_to_load_changes_nothing))
