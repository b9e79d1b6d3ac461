/* The main of test programs of what multiplies bf16. Where the processor multiplies pairs of it, these are tested whether or not they are
   faster there than products of floats, which other levels of instructions have (FACULA_ISA=avx2). */
#ifndef FAC_TESTS_UNIT_PAIRS_H
#define FAC_TESTS_UNIT_PAIRS_H

#include "backend/cpu/gemm.h"
#include "support/support.h"

static int multiply_pairs(void **state) {
    (void)state;
    if (fac_init() != FAC_OK) return 1;
    fac__cpu_bf16_fast = fac__cpu_bf16;
    return 0;
}

#define FAC_TEST_MAIN_OF_PAIRS(...)                                  \
    int main(int argc, char **argv) {                                \
        (void)argc, (void)argv;                                      \
        const struct CMUnitTest tests[] = {__VA_ARGS__};             \
        return support_run(tests, FAC_COUNT(tests), multiply_pairs); \
    }

#endif
