/* The main of test programs of what multiplies bf16: where the processor multiplies pairs of it, first so and then as floats, whichever is
   faster there. */
#ifndef FAC_TESTS_UNIT_PAIRS_H
#define FAC_TESTS_UNIT_PAIRS_H

#include "backend/cpu/gemm.h"
#include "support/support.h"
#include <stdlib.h>

static int multiply_pairs(void **state) {
    (void)state;
    if (fac_init() != FAC_OK) return 1;
    fac__cpu_bf16_fast = fac__cpu_bf16_conv = fac__cpu_bf16;
    return 0;
}

static int multiply_floats(void **state) {
    (void)state;
    fac__cpu_bf16_fast = fac__cpu_bf16_conv = false;
    return 0;
}

static int run_both_ways(const struct CMUnitTest *tests, size_t n) {
    const int failed = support_run(tests, n, multiply_pairs);
    const bool again = fac__cpu_bf16 && !getenv("FACULA_TEST_ALLOCATIONS");
    return again ? failed + support_run(tests, n, multiply_floats) : failed;
}

#define FAC_TEST_MAIN_OF_PAIRS(...)                      \
    int main(int argc, char **argv) {                    \
        (void)argc, (void)argv;                          \
        const struct CMUnitTest tests[] = {__VA_ARGS__}; \
        return run_both_ways(tests, FAC_COUNT(tests));   \
    }

#endif
