/* Whatever a program calls first starts the library: no call of fac_init is needed, on any thread. */
#include "core/thread.h"
#include "support/support.h"
#include <facula/facula.h>
#include <pthread.h>

static const char *first_allocator; /* by the first call of the process */

static void first_call_for_the_allocator_gives_the_pool(void **state) {
    (void)state;
    assert_string_equal(first_allocator, "pooled");
}

static void *add_two_ones(void *out) {
    FAC_SCOPE(s);
    fac_tensor *one = fac_ones(FAC_SHAPE(1), .requires_grad = true), *two = fac_add(one, one);
    *(bool *)out = two && fac_requires_grad(two) && fac_item(two) == 2;
    return NULL;
}

static void first_call_on_any_thread_starts_the_library(void **state) {
    (void)state;
    pthread_t thread;
    bool done = false;
    fac_shutdown();
    assert_false(atomic_load(&fac__started));
    pthread_create(&thread, NULL, add_two_ones, &done);
    pthread_join(thread, NULL);
    assert_true(done);
    assert_true(atomic_load(&fac__started));
}

static int trims;
static void count_trim(fac_thread *th) { trims += th == fac__tls; }

static void trim_of_a_thread_is_called_once_however_often_it_was_asked_for(void **state) {
    (void)state;
    fac__thread_on_trim(count_trim);
    fac__thread_on_trim(count_trim);
    (void)fac__thread();
    trims = 0;
    fac__thread_trim();
    assert_int_equal(trims, 1);
    fac__thread_end();
    assert_int_equal(trims, 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {FAC_TEST(first_call_for_the_allocator_gives_the_pool),
                                       FAC_TEST(first_call_on_any_thread_starts_the_library),
                                       FAC_TEST(trim_of_a_thread_is_called_once_however_often_it_was_asked_for)};
    first_allocator = fac_allocator_get(FAC_CPU)->name;
    fac_shutdown();
    return support_run(tests, FAC_COUNT(tests), NULL);
}
