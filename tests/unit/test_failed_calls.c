/* A failed call changes nothing. Every operator that writes to an argument is called, from valid samples, with one thing
   spoilt at a time, and with each allocation failing in turn. After each call that fails, all tensors and the default
   generator are what they were, bit for bit. */
#include "support/failed_calls.h"
#include "support/support.h"
#include <facula/facula.h>

static fac_device cpu(void) { return fac_device_make(FAC_CPU, -1); }

static void failed_call_changes_nothing_on_the_cpu(void **state) {
    (void)state;
    failed_calls_try(FAILED_CALLS_WRITING, cpu());
}

static void failed_random_call_draws_nothing(void **state) {
    (void)state;
    failed_calls_try(FAILED_CALLS_RANDOM, cpu());
}

FAC_TEST_MAIN(FAC_TEST(failed_call_changes_nothing_on_the_cpu), FAC_TEST(failed_random_call_draws_nothing))
