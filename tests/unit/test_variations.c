/* Every operator, called with one integer or one tensor of a valid call changed, or with all tensors changed alike, which gets
   past the first check: an error or a result, within a bound of time and memory. What the sanitizers would say is the test; other builds see crashes and hangs. */
#include "support/support.h"
#include "support/variations.h"
#include <facula/facula.h>

static sample_set set;

static int load(void **state) {
    (void)state;
    memory_hook_install();
    variations_begin();
    return samples_load(&set) ? 0 : -1;
}

static const fac_device cpu = {.type = FAC_CPU}, meta = {.type = FAC_META};

/* Some calls were made, and neither all nor none refused: the changes are worth something. */
static void assert_varied(variation_count n) {
    print_message("%lld calls, of which %lld were refused\n", (long long)n.calls, (long long)n.refused);
    assert_in_range(n.refused, n.calls / 20 + 1, n.calls - n.calls / 20);
}

static void operators_bear_any_integer_on_the_cpu(void **state) {
    (void)state;
    assert_varied(variations_of_integers(&set, cpu));
}

static void operators_bear_any_integer_on_meta(void **state) {
    (void)state;
    assert_varied(variations_of_integers(&set, meta));
}

static void operators_bear_any_tensor_on_the_cpu(void **state) {
    (void)state;
    assert_varied(variations_of_tensors(&set, cpu));
}

static void operators_bear_any_dtype_of_all_tensors_on_the_cpu(void **state) {
    (void)state;
    assert_varied(variations_of_all_dtypes(&set, cpu));
}

static void operators_bear_integers_at_the_ends_of_their_range_on_the_cpu(void **state) {
    (void)state;
    assert_varied(variations_of_extreme_elements(&set, cpu));
}

static void operators_bear_long_dimensions_of_empty_tensors_on_the_cpu(void **state) {
    (void)state;
    assert_varied(variations_of_long_dimensions(&set, cpu));
}

static void operators_bear_long_dimensions_on_meta(void **state) {
    (void)state;
    assert_varied(variations_of_long_dimensions(&set, meta));
}

static const struct CMUnitTest tests[] = {
    FAC_TEST(operators_bear_any_integer_on_the_cpu),
    FAC_TEST(operators_bear_any_integer_on_meta),
    FAC_TEST(operators_bear_any_tensor_on_the_cpu),
    FAC_TEST(operators_bear_any_dtype_of_all_tensors_on_the_cpu),
    FAC_TEST(operators_bear_integers_at_the_ends_of_their_range_on_the_cpu),
    FAC_TEST(operators_bear_long_dimensions_of_empty_tensors_on_the_cpu),
    FAC_TEST(operators_bear_long_dimensions_on_meta),
};
int main(void) {
    int failed = support_run(tests, FAC_COUNT(tests), load);
    samples_free(&set);
    return failed;
}
