/* Every operator on CUDA, called with one integer or one tensor of a valid call changed, or all tensors alike: an error or a result, within a bound of
   time and memory. On simulated devices the sanitizers look at kernels as at any C. */
#include "support/cuda.h"
#include "support/variations.h"
#include <facula/cuda_memory.h>

static void run(variation_count (*vary)(const sample_set *s, fac_device device)) {
    sample_set set;
    support_need_simulator();
    variations_begin();
    assert_true(samples_load(&set));
    assert_ok(fac_cuda_set_per_process_memory_fraction(1. / 256, 0)); /* 64 MiB of a device's 16 GiB */
    variation_count n = vary(&set, cuda_device(0));
    assert_ok(fac_cuda_set_per_process_memory_fraction(1, 0));
    samples_free(&set);
    print_message("%lld calls, of which %lld were refused\n", (long long)n.calls, (long long)n.refused);
    assert_in_range(n.refused, n.calls / 20 + 1, n.calls - n.calls / 20);
}

static void operators_bear_any_integer_on_cuda(void **state) {
    (void)state;
    run(variations_of_integers);
}

static void operators_bear_any_tensor_on_cuda(void **state) {
    (void)state;
    run(variations_of_tensors);
}

static void operators_bear_any_dtype_of_all_tensors_on_cuda(void **state) {
    (void)state;
    run(variations_of_all_dtypes);
}

static void operators_bear_integers_at_the_ends_of_their_range_on_cuda(void **state) {
    (void)state;
    run(variations_of_extreme_elements);
}

static void operators_bear_long_dimensions_of_empty_tensors_on_cuda(void **state) {
    (void)state;
    run(variations_of_long_dimensions);
}

FAC_TEST_MAIN(FAC_CUDA_TEST(operators_bear_any_integer_on_cuda), FAC_CUDA_TEST(operators_bear_any_tensor_on_cuda),
              FAC_CUDA_TEST(operators_bear_any_dtype_of_all_tensors_on_cuda),
              FAC_CUDA_TEST(operators_bear_integers_at_the_ends_of_their_range_on_cuda),
              FAC_CUDA_TEST(operators_bear_long_dimensions_of_empty_tensors_on_cuda))
