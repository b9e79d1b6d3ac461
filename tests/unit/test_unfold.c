/* Gradients of windows: every element gets as many as there are windows that show it, however few and long these are. */
#include "support/samples.h"
#include "support/support.h"
#include <facula/facula.h>

enum { MOST = 4096 };

/* The gradient of `n` elements through windows whose gradients are all one. */
static void gradient(int64_t n, int64_t size, int64_t step, float *out) {
    static sample_call c;
    char text[200];
    sample_made made;
    fac_value result = fac_value_none();
    snprintf(text, sizeof text, "unfold_backward(f32[%lld,%lld]{1}, [%lld], 0, %lld, %lld)",
             (long long)((n - size) / step + 1), (long long)size, (long long)n, (long long)size, (long long)step);
    assert_true(sample_parse(text, &c, NULL));
    assert_ok(sample_make(&c, fac_device_make(FAC_CPU, -1), &made));
    assert_ok(fac_call(c.op, made.args, made.n_args, &result));
    assert_ok(fac_tensor_read(fac_value_as_tensor(result), FAC_F32, out, (size_t)n));
    fac_value_release(&result);
    sample_unmake(&made);
}

/* How many windows show element i. */
static float shown(int64_t i, int64_t n, int64_t size, int64_t step) {
    float count = 0;
    for (int64_t begin = 0; begin + size <= n; begin += step) count += begin <= i && i < begin + size;
    return count;
}

static void unfold_gradient_counts_the_windows_that_show_an_element(void **state) {
    (void)state;
    static const int64_t cases[][3] = {{9, 3, 1}, {9, 3, 2}, {9, 2, 3},      {9, 9, 1},
                                       {9, 7, 1}, {9, 5, 3}, {4096, 4095, 1}};
    static float got[MOST];
    for (size_t k = 0; k < FAC_COUNT(cases); k++) {
        int64_t n = cases[k][0], size = cases[k][1], step = cases[k][2];
        gradient(n, size, step, got);
        for (int64_t i = 0; i < n; i++) assert_float_equal(got[i], shown(i, n, size, step), 0);
    }
}

FAC_TEST_MAIN(FAC_TEST(unfold_gradient_counts_the_windows_that_show_an_element))
