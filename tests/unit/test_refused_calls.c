/* Calls that must be refused with a certain code, before anything is computed. Each was found by the attack. */
#include "support/samples.h"
#include "support/support.h"
#include <facula/facula.h>

typedef struct refused_call {
    const char *text;
    fac_status code;
} refused_call;

static void all_refused(const refused_call *calls, size_t n) {
    for (size_t i = 0; i < n; i++) {
        sample_call c;
        assert_true(sample_parse(calls[i].text, &c, NULL));
        fac_status st = sample_try(&c, fac_device_make(FAC_CPU, -1));
        if (st != calls[i].code) print_error("%s: %s\n", calls[i].text, fac_status_name(st));
        assert_int_equal(st, calls[i].code);
        fac_error_clear();
    }
}

static void refused_calls_fill_no_vector_that_overlaps_itself(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = fac_expand(fac_zeros(FAC_SHAPE(1)), FAC_INTS(5));
    const char *const names[] = {"aten::_arange_", "aten::_linspace_"};
    for (size_t i = 0; i < FAC_COUNT(names); i++) {
        fac_value args[] = {fac_value_tensor(x), fac_value_int(0), fac_value_int(1), fac_value_none()}, out;
        assert_int_equal(fac_call(names[i], args, 3 + i, &out), FAC_ERR_ARGUMENT);
        assert_error(FAC_ERR_ARGUMENT, "more than one element of the written-to tensor");
        fac_value_release(&args[0]);
    }
}

static void refused_calls_multiply_sizes_beyond_64_bits(void **state) {
    (void)state;
    static const refused_call calls[] = {
        {"pixel_shuffle(f32[1,0,1,2305843009213693952]:[0,0,0,0], 64)", FAC_ERR_OVERFLOW},
        {"pixel_unshuffle(f32[1,2305843009213693952,8,0]:[0,0,0,0], 8)", FAC_ERR_OVERFLOW},
    };
    all_refused(calls, FAC_COUNT(calls));
}

static void refused_calls_take_no_gradient_of_integers(void **state) {
    (void)state;
    static const refused_call calls[] = {
        {"embedding_dense_backward(i32[2,4,3], i64[2,4], 5, -1, False)", FAC_ERR_DTYPE},
        {"embedding_dense_backward(c64[2,4,3], i64[2,4], 5, -1, False)", FAC_ERR_DTYPE},
    };
    all_refused(calls, FAC_COUNT(calls));
}

static void refused_calls_mix_the_gradient_and_the_input(void **state) {
    (void)state;
    static const refused_call calls[] = {
        {"_fused_rms_norm_backward(bf16[2,3,4], f32[2,3,4], [4], f32[2,3,1], f32[4], [True,True])", FAC_ERR_DTYPE},
        {"native_layer_norm_backward(f64[2,4], f32[2,4], [4], f32[2,1], f32[2,1], None, None, [True,True,True])",
         FAC_ERR_DTYPE},
        {"native_group_norm_backward(f16[2,6,5], f32[2,6,5], f32[2,3], f32[2,3], None, 2, 6, 5, 3, [True,True,True])",
         FAC_ERR_DTYPE},
        {"native_batch_norm_backward(f64[4,3], f32[4,3], None, None, None, f32[3], f32[3], True, 1e-05, [True,True,True])",
         FAC_ERR_DTYPE},
    };
    all_refused(calls, FAC_COUNT(calls));
}

FAC_TEST_MAIN(FAC_TEST(refused_calls_fill_no_vector_that_overlaps_itself),
              FAC_TEST(refused_calls_multiply_sizes_beyond_64_bits),
              FAC_TEST(refused_calls_take_no_gradient_of_integers),
              FAC_TEST(refused_calls_mix_the_gradient_and_the_input))
