/* Registration while other threads call: every call finds a whole kernel, old or new. Run under the thread sanitizer too. */
#include "core/tensor_make.h"
#include "dispatch/registry.h"
#include "support/dispatch.h"
#include <pthread.h>

enum { CALLERS = 4, CHANGES = 200, CHANGES_OF_FALLBACKS = 25 /* each computes every operator's kernels anew */ };

static atomic_bool stop;
static atomic_int bad, calls, failed_threads;

/* Asks t::f over and over; any answer but 1 and 2 is counted as bad. */
static void *keep_calling(void *context) {
    const fac_keyset keys = *(const fac_keyset *)context;
    fac_tensor *t;
    if (fac__scalar_tensor(fac_scalar_f_(1), FAC_F32, &t) != FAC_OK) return NULL;
    t->keys = keys;
    t = held(t);
    fac_value arg = fac_value_tensor(t), out;
    while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
        int64_t got = fac_call("t::f", &arg, 1, &out) == FAC_OK ? fac_value_as_int(out) : 0;
        if (got != 1 && got != 2) {
            atomic_fetch_add(&bad, 1);
            if (fac_error()) print_error("%s\n", fac_error_message());
            fac_error_clear();
        }
        atomic_fetch_add_explicit(&calls, 1, memory_order_relaxed);
    }
    fac_value_release(&arg);
    fac_release(t);
    return NULL;
}

static void with_callers(const fac_keyset *keys, int changes, void (*change)(int i)) {
    pthread_t callers[CALLERS];
    atomic_store(&stop, false);
    atomic_store(&bad, 0);
    atomic_store(&calls, 0);
    for (int i = 0; i < CALLERS; i++)
        assert_int_equal(pthread_create(&callers[i], NULL, keep_calling, (void *)(uintptr_t)keys), 0);
    while (atomic_load(&calls) < CALLERS) sched_yield();
    for (int i = 0; i < changes; i++) change(i);
    atomic_store(&stop, true);
    for (int i = 0; i < CALLERS; i++) assert_int_equal(pthread_join(callers[i], NULL), 0);
    assert_int_equal(atomic_load(&bad), 0);
}

static void change_kernel(int i) {
    (void)i;
    fac_registration *r = add("t::f", "CPU", &two), *s = add("t::f", "CPU", &one);
    fac_registration_release(r);
    fac_registration_release(s);
}

static void S074_kernels_change_under_callers(void **state) {
    const fac_keyset keys = keys_on(FAC_KEY_DENSE, FAC_BACKEND_CPU);
    (void)state;
    declare("t::f(Tensor x) -> int");
    add("t::f", "CPU", &one);
    with_callers(&keys, CHANGES, change_kernel);
}

/* A key that begins and ends to fall through: mask and table are two words, and callers may see one old, one new. */
static void change_fall_through(int i) {
    (void)i;
    fac_registration *r = add("t::f", "Trace", &two), *s = fac_register_fallthrough("t::f", "Trace", FAC_HERE);
    fac_registration_release(r);
    fac_registration_release(s);
}

static void S074_fall_through_changes_under_callers(void **state) {
    const fac_keyset keys = fac__func_bit(FAC_KEY_TRACE) | keys_on(FAC_KEY_DENSE, FAC_BACKEND_CPU);
    (void)state;
    declare("t::f(Tensor x) -> int");
    add("t::f", "CPU", &one);
    with_callers(&keys, CHANGES, change_fall_through);
}

static void change_fallback_and_operators(int i) {
    char schema[64];
    snprintf(schema, sizeof schema, "t::extra%d(Tensor x) -> int", i);
    declare(schema); /* the table of names grows */
    fac_registration *r = add_fallback("CPU", &two);
    fac_registration_release(r);
}

static void S074_operators_and_fallbacks_come_under_callers(void **state) {
    const fac_keyset keys = keys_on(FAC_KEY_DENSE, FAC_BACKEND_CPU);
    (void)state;
    declare("t::f(Tensor x) -> int");
    add_fallback("CPU", &one);
    with_callers(&keys, CHANGES_OF_FALLBACKS, change_fallback_and_operators);
}

/* ---- writers against writers ------------------------------------------------------------------------------------- */

static void *register_many(void *context) {
    int me = (int)(intptr_t)context, failed = 0;
    for (int i = 0; i < 50; i++) {
        char schema[64], name[64];
        snprintf(schema, sizeof schema, "t::w%d_%d(Tensor x) -> int", me, i);
        snprintf(name, sizeof name, "t::w%d_%d", me, i);
        fac_registration *k = fac_register_boxed(name, "CPU", ANSWER(one), FAC_HERE);
        fac_registration *r = fac_register_operator(schema, FAC_HERE);
        failed += !k || !r || !fac_operator_lookup(name);
        fac_registration *shared = fac_register_boxed("t::shared", "CPU", ANSWER(two), FAC_HERE);
        if (i % 2) fac_registration_release(r);
        fac_registration_release(shared);
    }
    atomic_fetch_add(&failed_threads, failed != 0);
    return NULL;
}

static void S074_writers_on_many_threads(void **state) {
    pthread_t writers[CALLERS];
    (void)state;
    size_t before = fac_operator_count();
    declare("t::shared(Tensor x) -> int");
    add("t::shared", "CPU", &one);
    atomic_store(&failed_threads, 0);
    for (int i = 0; i < CALLERS; i++)
        assert_int_equal(pthread_create(&writers[i], NULL, register_many, (void *)(intptr_t)i), 0);
    for (int i = 0; i < CALLERS; i++) assert_int_equal(pthread_join(writers[i], NULL), 0);
    assert_int_equal(atomic_load(&failed_threads), 0);
    assert_int_equal(fac_operator_count(), before + 1 + CALLERS * 25);
    assert_int_equal(ask_cpu("t::shared"), 1);
}

/* ---- state that is a thread's own -------------------------------------------------------------------------------- */

static void *ask_elsewhere(void *context) {
    fac_keyset mine = fac_thread_include(fac_keyset_of(FAC_KEY_NAMED));
    fac_value arg = fac_value_none(), out = fac_value_none();
    if (fac_call("t::g", &arg, 1, &out) == FAC_OK) *(int64_t *)context = fac_value_as_int(out);
    return mine == 0 ? context : NULL;
}

static void S064_sets_are_the_threads_own(void **state) {
    int64_t there = 0;
    void *clean;
    pthread_t other;
    fac_value arg = fac_value_none(), out;
    (void)state;
    declare("t::g(Tensor? x) -> int");
    add("t::g", "CPU", &one);
    add("t::g", "Trace", &two);
    add("t::g", "Named", &three);
    fac_keyset was = fac_thread_include(fac_keyset_of(FAC_KEY_TRACE));
    assert_int_equal(pthread_create(&other, NULL, ask_elsewhere, &there), 0);
    assert_int_equal(pthread_join(other, &clean), 0);
    assert_non_null(clean);
    assert_int_equal(there, 3);
    assert_ok(fac_call("t::g", &arg, 1, &out));
    assert_int_equal(fac_value_as_int(out), 2);
    fac_thread_include(was);
}

static atomic_int observed;
static void count_calls(void *context, const fac_operator *op, fac_keyset keys, bool enter) {
    (void)op, (void)keys, (void)enter;
    atomic_fetch_add_explicit((atomic_int *)context, 1, memory_order_relaxed);
}
static void change_observer(int i) { fac_set_call_observer(i % 2 ? count_calls : NULL, &observed); }

static void S078_observer_changes_under_callers(void **state) {
    const fac_keyset keys = keys_on(FAC_KEY_DENSE, FAC_BACKEND_CPU);
    (void)state;
    atomic_store(&observed, 0);
    declare("t::f(Tensor x) -> int");
    add("t::f", "CPU", &one);
    with_callers(&keys, CHANGES, change_observer);
    fac_set_call_observer(NULL, NULL);
}

FAC_TEST_MAIN(DISPATCH_TEST(S074_kernels_change_under_callers), DISPATCH_TEST(S074_fall_through_changes_under_callers),
              DISPATCH_TEST(S074_operators_and_fallbacks_come_under_callers),
              DISPATCH_TEST(S074_writers_on_many_threads), DISPATCH_TEST(S064_sets_are_the_threads_own),
              DISPATCH_TEST(S078_observer_changes_under_callers))
