/* Starting and shutting down, from many threads and without memory. */
#include "core/thread.h"
#include "support/support.h"
#include <pthread.h>

static void start_is_idempotent_and_leaves_no_live_objects(void **state) {
    (void)state;
    fac_shutdown();
    assert_ok(fac_init());
    assert_ok(fac_init());
    assert_true(atomic_load(&fac__started));
    assert_int_equal(fac_live(), 0);
}

static void shutdown_gives_every_block_back(void **state) {
    (void)state;
    fac_shutdown();
    assert_int_equal(memory_hook_live(), 0);
    fac_shutdown(); /* harmless */
    assert_ok(fac_init());
}

/* Every early allocation fails once, then ever sparser ones: the start is undone, and the next one works. */
static void start_survives_failing_allocations(void **state) {
    (void)state;
    int64_t failures = 1;
    for (int64_t n = 1; failures; n += 1 + n / 4) {
        fac_shutdown();
        memory_hook_fail(n, false);
        fac_status st = fac_init();
        failures = memory_hook_failures();
        memory_hook_fail(0, false);
        assert_int_equal(st, failures ? FAC_ERR_MEMORY : FAC_OK);
        if (failures) assert_error(FAC_ERR_MEMORY, "out of memory");
        if (!failures) break;
        fac_shutdown();
        assert_int_equal(memory_hook_live(), 0);
        assert_int_equal(fac_live(), 0);
    }
    assert_ok(fac_init());
}

static void *start(void *unused) {
    (void)unused;
    return (void *)(intptr_t)fac_init();
}

static void start_from_many_threads_at_once(void **state) {
    (void)state;
    pthread_t threads[8];
    fac_shutdown();
    for (int i = 0; i < 8; i++) pthread_create(&threads[i], NULL, start, NULL);
    void *st[8] = {0};
    for (int i = 0; i < 8; i++) pthread_join(threads[i], &st[i]);
    for (int i = 0; i < 8; i++) assert_int_equal((intptr_t)st[i], FAC_OK);
    assert_true(atomic_load(&fac__started));
}

FAC_TEST_MAIN(FAC_TEST(start_is_idempotent_and_leaves_no_live_objects), FAC_TEST(shutdown_gives_every_block_back),
              FAC_TEST(start_survives_failing_allocations), FAC_TEST(start_from_many_threads_at_once))
