/* Loops that go by vectors against those that do not: float32 against float64, whose elements are the same small integers, ties, zeros of
   both signs and NaNs, and every length around a vector's. */
#include "linalg_test.h"
#include <stdlib.h>

/* Small integers, of which one in `nans` is NaN (0: none) and zeros have either sign. */
static fac_tensor *small_numbers(fac_ints sizes, int64_t nans) {
    static uint64_t seed = 1;
    int64_t n = 1;
    for (size_t d = 0; d < sizes.n; d++) n *= sizes.v[d];
    double *v = malloc((size_t)(n ? n : 1) * sizeof *v);
    assert_non_null(v);
    for (int64_t i = 0; i < n; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        const int64_t r = (int64_t)(seed >> 40);
        v[i] = nans && r % nans == 0 ? NAN : (double)(r / 64 % 9 - 4) * (r % 2 ? 1 : -1);
    }
    fac_tensor *t = fac_tensor_from(v, FAC_F64, sizes);
    free(v);
    return t;
}

static void are_same(fac_tensor *a, fac_tensor *b) {
    double *x = numbers(a), *y = numbers(b);
    assert_int_equal(fac_tensor_numel(a), fac_tensor_numel(b));
    for (int64_t i = 0; i < fac_tensor_numel(a); i++) {
        if ((x[i] == y[i] && signbit(x[i]) == signbit(y[i])) || (x[i] != x[i] && y[i] != y[i])) continue;
        print_error("element %lld is %g, not %g\n", (long long)i, x[i], y[i]);
        fail();
    }
    free(x);
    free(y);
}

static void running_extremes_of_floats_are_those_of_doubles(void **state) {
    (void)state;
    static const int64_t nans[] = {0, 5, 40};
    for (int64_t n = 1; n < 70; n++)
        for (size_t k = 0; k < FAC_COUNT(nans); k++) {
            FAC_SCOPE(s);
            fac_tensor *wide = small_numbers(FAC_INTS(5, n), nans[k]), *x = fac_to(wide, .dtype = FAC_F32);
            fac_cummax_result most = fac_cummax(x, 1), most_wide = fac_cummax(wide, 1);
            fac_cummin_result least = fac_cummin(x, 1), least_wide = fac_cummin(wide, 1);
            are_same(most.values, most_wide.values);
            are_same(most.indices, most_wide.indices);
            are_same(least.values, least_wide.values);
            are_same(least.indices, least_wide.indices);
        }
}

static void maxima_of_windows_of_floats_are_those_of_doubles(void **state) {
    (void)state;
    static const int64_t cases[][5] = {
        {9, 40, 3, 2, 1}, {12, 35, 5, 1, 2}, {7, 9, 3, 2, 1}, {40, 23, 2, 3, 0}, {5, 90, 3, 1, 1}};
    for (size_t i = 0; i < FAC_COUNT(cases); i++)
        for (int64_t dilation = 1; dilation < 3; dilation++) {
            FAC_SCOPE(s);
            const int64_t *c = cases[i];
            fac_tensor *wide = small_numbers(FAC_INTS(2, c[0], c[1]), 50), *x = fac_to(wide, .dtype = FAC_F32);
            fac_max_pool2d_with_indices_result got = fac_max_pool2d_with_indices(
                                                   x, FAC_INTS(c[2]), .strides = FAC_INTS(c[3]),
                                                   .paddings = FAC_INTS(c[4]), .dilations = FAC_INTS(dilation)),
                                               want = fac_max_pool2d_with_indices(
                                                   wide, FAC_INTS(c[2]), .strides = FAC_INTS(c[3]),
                                                   .paddings = FAC_INTS(c[4]), .dilations = FAC_INTS(dilation));
            are_same(got.result0, want.result0);
            are_same(got.result1, want.result1);
            fac_adaptive_max_pool2d_result few = fac_adaptive_max_pool2d(x, FAC_INTS(3, 2)),
                                           few_wide = fac_adaptive_max_pool2d(wide, FAC_INTS(3, 2));
            are_same(few.result0, few_wide.result0);
            are_same(few.result1, few_wide.result1);
        }
}

static void means_of_windows_apart_have_the_gradients_of_doubles(void **state) {
    (void)state;
    static const int64_t cases[][3] = {{2, 2, 0}, {2, 3, 0}, {3, 3, 1}, {3, 2, 1}};
    for (size_t i = 0; i < FAC_COUNT(cases); i++) {
        FAC_SCOPE(s);
        const int64_t *c = cases[i];
        fac_tensor *wide = small_numbers(FAC_INTS(2, 3, 13, 17), 0), *x = fac_to(wide, .dtype = FAC_F32);
        fac_tensor *grads[2], *leaves[2] = {x, wide};
        for (int k = 0; k < 2; k++) {
            fac_set_requires_grad(leaves[k], true);
            fac_tensor *y =
                fac_avg_pool2d(leaves[k], FAC_INTS(c[0]), .strides = FAC_INTS(c[1]), .paddings = FAC_INTS(c[2]));
            assert_ok(fac_backward(fac_sum(fac_mul(y, y))));
            grads[k] = fac_to(fac_grad_of(leaves[k]), .dtype = FAC_F64);
        }
        assert_near(grads[0], grads[1], 1e-5);
    }
}

static void masks_pack_and_unpack_elements_of_every_size(void **state) {
    (void)state;
    static const fac_dtype types[] = {FAC_U8, FAC_BF16, FAC_F32, FAC_F64, FAC_C128};
    for (int64_t n = 1; n < 70; n++)
        for (size_t d = 0; d < FAC_COUNT(types); d++) {
            FAC_SCOPE(s);
            fac_tensor *x = fac_to(fac_abs(small_numbers(FAC_INTS(n), 0)), .dtype = types[d]);
            fac_tensor *mask = fac_gt(small_numbers(FAC_INTS(n), 0), 0),
                       *places = fac_reshape(fac_nonzero(mask), FAC_INTS(-1));
            fac_tensor *packed = fac_masked_select(x, mask), *own = fac_index_select(x, 0, places);
            are_same(fac_to(packed, .dtype = FAC_F64), fac_to(own, .dtype = FAC_F64));
            fac_tensor *seven = fac_full(FAC_INTS(n), 7, .dtype = types[d]),
                       *room = fac_cat(FAC_TENSORS(own, seven), 0);
            are_same(fac_to(fac_masked_scatter(seven, mask, room), .dtype = FAC_F64),
                     fac_to(fac_index_copy(seven, 0, places, own), .dtype = FAC_F64));
        }
}

static void indices_of_either_sign_are_folded_over_broadcast_shapes(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = fac_reshape(fac_arange(35), FAC_SHAPE(5, 7));
    fac_tensor *rows = fac_tensor_from((const int64_t[]){-1, 0, 3}, FAC_I64, FAC_INTS(3, 1)),
               *columns = fac_tensor_from((const int64_t[]){6, -7}, FAC_I64, FAC_INTS(2));
    assert_close(fac_index(x, FAC_TENSORS(rows, columns)),
                 fac_reshape(fac_tensor_of(34, 28, 6, 0, 27, 21), FAC_INTS(3, 2)));
    fac_tensor *many = fac_fmod(fac_arange(1000), 5), *other = fac_sub(fac_fmod(fac_arange(1000), 7), 7);
    assert_close(fac_index(x, FAC_TENSORS(fac_to(many, .dtype = FAC_I64), fac_to(other, .dtype = FAC_I64))),
                 fac_add(fac_mul(many, 7), fac_add(other, 7)));
}

static void attention_of_short_floats_takes_masks(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *q = RANDOM(2, 3, 40, 16), *k = RANDOM(2, 3, 300, 16), *v = RANDOM(2, 3, 300, 8);
    fac_tensor *const masks[] = {RANDOM(40, 300), RANDOM(2, 1, 40, 300), RANDOM(40, 1), fac_gt(RANDOM(40, 300), -0.5),
                                 fac_transpose(RANDOM(300, 40), 0, 1)};
    for (size_t i = 0; i < FAC_COUNT(masks); i++) {
        fac_tensor *want = fac_scaled_dot_product_attention(q, k, v, .attn_mask = masks[i]);
        static const fac_dtype types[] = {FAC_F32, FAC_BF16};
        static const double tolerances[] = {1e-5, 0.04};
        for (size_t d = 0; d < FAC_COUNT(types); d++) {
            fac_tensor *mask = fac_tensor_dtype(masks[i]) == FAC_BOOL ? masks[i] : fac_to(masks[i], .dtype = types[d]);
            fac_tensor *y =
                fac_scaled_dot_product_attention(fac_to(q, .dtype = types[d]), fac_to(k, .dtype = types[d]),
                                                 fac_to(v, .dtype = types[d]), .attn_mask = mask, .scale = 0.25);
            assert_near(fac_to(y, .dtype = FAC_F64), want, tolerances[d]);
        }
    }
}

FAC_TEST_MAIN(FAC_TEST(running_extremes_of_floats_are_those_of_doubles),
              FAC_TEST(maxima_of_windows_of_floats_are_those_of_doubles),
              FAC_TEST(means_of_windows_apart_have_the_gradients_of_doubles),
              FAC_TEST(masks_pack_and_unpack_elements_of_every_size),
              FAC_TEST(indices_of_either_sign_are_folded_over_broadcast_shapes),
              FAC_TEST(attention_of_short_floats_takes_masks))
