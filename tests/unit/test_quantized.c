/* Quantized tensors: codes against integers computed here, what keeps a quantizer, and what is refused. */
#include "core/coded.h"
#include "core/scalar.h"
#include "support/support.h"
#include <facula/facula.h>

#include <math.h>
#include <stdlib.h>

static fac_tensor *floats(fac_ints sizes, double least, double most, unsigned seed) {
    int64_t n = 1;
    for (size_t i = 0; i < sizes.n; i++) n *= sizes.v[i];
    float *x = malloc((size_t)n * sizeof *x + 1);
    for (int64_t i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        x[i] = (float)(least + (most - least) * (seed >> 8) / 16777216.0);
    }
    fac_tensor *t = fac_tensor_from(x, FAC_F32, sizes);
    free(x);
    return t;
}

static const struct {
    fac_dtype dtype;
    int64_t least, most, zero;
} kinds[] = {{FAC_QINT8, -128, 127, -5}, {FAC_QUINT8, 0, 255, 100}, {FAC_QINT32, INT32_MIN, INT32_MAX, 7}};

static void read_codes(fac_tensor *q, int64_t *out, size_t n) {
    assert_ok(fac_tensor_read(fac_int_repr(q), FAC_I64, out, n));
}

/* ---- quantizing and back --------------------------------------------------------------------------------------------------- */

static void quantized_codes_round_to_even_and_saturate_S024(void **state) {
    (void)state;
    FAC_SCOPE(s);
    /* With a scale of 0.5 halves of a code are exact. */
    const float x[] = {0, 0.25f, 0.75f, 1.25f, -0.25f, -0.75f, 1e6f, -1e6f, 3.1f, -3.1f, INFINITY, -INFINITY};
    fac_tensor *t = fac_tensor_from(x, FAC_F32, FAC_INTS(12));
    for (size_t k = 0; k < FAC_COUNT(kinds); k++) {
        fac_tensor *q = fac_quantize_per_tensor(t, 0.5, kinds[k].zero, kinds[k].dtype);
        assert_non_null(q);
        int64_t codes[12];
        float back[12];
        read_codes(q, codes, 12);
        assert_ok(fac_tensor_read(fac_dequantize(q), FAC_F32, back, 12));
        for (int i = 0; i < 12; i++) {
            const double r = nearbyint((double)x[i] / 0.5) + (double)kinds[k].zero;
            const int64_t want = r >= (double)kinds[k].most    ? kinds[k].most
                                 : r <= (double)kinds[k].least ? kinds[k].least
                                                               : (int64_t)r;
            assert_int_equal(codes[i], want);
            assert_true(back[i] == (float)(want - kinds[k].zero) * 0.5f);
        }
        assert_int_equal(fac_tensor_dtype(q), kinds[k].dtype);
        assert_true(fac_q_scale(q) == 0.5);
        assert_int_equal(fac_q_zero_point(q), kinds[k].zero);
        assert_int_equal(fac_qscheme(q), FAC_PER_TENSOR_AFFINE);
    }
}

static void quantized_tensor_has_the_key_quantized_and_not_dense_S024(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *q = fac_quantize_per_tensor(floats(FAC_INTS(2, 3), -1, 1, 1), 0.1, 0, FAC_QINT8);
    const fac_keyset keys = fac_tensor_keys(q);
    assert_true(keys & fac_keyset_of(FAC_KEY_QUANTIZED));
    assert_false(keys & fac_keyset_of(FAC_KEY_DENSE));
    assert_false(fac_tensor_keys(fac_int_repr(q)) & fac_keyset_of(FAC_KEY_QUANTIZED));
    assert_true(fac_operator_has_kernel(fac_operator_find("aten::relu"), "QuantizedCPU"));
    assert_false(fac_operator_has_kernel(fac_operator_find("aten::erf"), "QuantizedCPU"));
    assert_null(fac_erf(q));
    assert_error(FAC_ERR_NO_KERNEL, "aten::erf");
    assert_null(fac_add(q, q));
    assert_error(FAC_ERR_NO_KERNEL, "dequantize");
}

static void quantized_per_channel_uses_each_channels_numbers_S024(void **state) {
    (void)state;
    FAC_SCOPE(s);
    const double scales[] = {0.1, 0.25, 3};
    const int64_t zeros[] = {3, -4, 0};
    fac_tensor *x = floats(FAC_INTS(2, 3, 4), -5, 5, 7);
    fac_tensor *q = fac_quantize_per_channel(x, fac_tensor_from(scales, FAC_F64, FAC_INTS(3)),
                                             fac_tensor_from(zeros, FAC_I64, FAC_INTS(3)), 1, FAC_QINT8);
    assert_non_null(q);
    int64_t codes[24], z[3];
    double sc[3];
    float v[24], back[24];
    read_codes(q, codes, 24);
    assert_ok(fac_tensor_read(x, FAC_F32, v, 24));
    assert_ok(fac_tensor_read(fac_dequantize(q), FAC_F32, back, 24));
    for (int i = 0; i < 24; i++) {
        const int c = i / 4 % 3;
        const float r = rintf(v[i] * (1.0f / (float)scales[c])) + (float)zeros[c];
        assert_int_equal(codes[i], (int64_t)fmaxf(-128, fminf(127, r)));
        assert_true(back[i] == (float)(codes[i] - zeros[c]) * (float)scales[c]);
    }
    assert_ok(fac_tensor_read(fac_q_per_channel_scales(q), FAC_F64, sc, 3));
    assert_ok(fac_tensor_read(fac_q_per_channel_zero_points(q), FAC_I64, z, 3));
    assert_memory_equal(sc, scales, sizeof sc);
    assert_memory_equal(z, zeros, sizeof z);
    assert_int_equal(fac_q_per_channel_axis(q), 1);
    assert_int_equal(fac_q_per_channel_axis(fac_transpose(q, 1, 2)), 2);
    assert_int_equal(fac_q_per_channel_axis(fac_unsqueeze(q, 0)), 2);
    assert_int_equal(fac_q_per_channel_axis(fac_select(q, 0, 1)), 0);
    assert_int_equal(fac_q_per_channel_axis(fac_permute(q, FAC_INTS(1, 2, 0))), 0);
    assert_non_null(fac_narrow(q, 2, 1, 2));
    assert_null(fac_narrow(q, 1, 1, 2));
    assert_error(FAC_ERR_UNSUPPORTED, "dequantize");
    assert_null(fac_select(q, 1, 1));
    assert_error(FAC_ERR_UNSUPPORTED, "per channel");
    assert_null(fac_relu(q));
    assert_error(FAC_ERR_DTYPE, "per channel");
    assert_true(fac_q_scale(q) == 0);
    assert_error(FAC_ERR_DTYPE, "per tensor");
}

static void quantized_views_share_codes_and_keep_the_quantizer_S024(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *q = fac_quantize_per_tensor(floats(FAC_INTS(4, 6), -3, 3, 3), 0.05, 128, FAC_QUINT8);
    fac_tensor *views[] = {fac_view(q, FAC_INTS(2, 12)),
                           fac_transpose(q, 0, 1),
                           fac_select(q, 0, 2),
                           fac_narrow(q, 1, 2, 4),
                           fac_unsqueeze(q, 1),
                           fac_detach(q),
                           fac_flatten(q),
                           fac_reshape(q, FAC_INTS(3, 8)),
                           fac_permute(q, FAC_INTS(1, 0)),
                           fac_squeeze(fac_unsqueeze(q, 0)),
                           fac_narrow(q, 0, 1, 2)};
    for (size_t i = 0; i < FAC_COUNT(views); i++) {
        assert_non_null(views[i]);
        assert_true(fac_is_alias_of(views[i], q));
        assert_int_equal(fac_tensor_dtype(views[i]), FAC_QUINT8);
        assert_true(fac_q_scale(views[i]) == 0.05);
        assert_int_equal(fac_q_zero_point(views[i]), 128);
    }
    const int64_t before = fac_tensor_version(q);
    assert_non_null(fac_fill_(fac_select(q, 0, 2), 1.0));
    assert_true(fac_tensor_version(q) > before);
    int64_t codes[24];
    read_codes(q, codes, 24);
    for (int i = 12; i < 18; i++) assert_int_equal(codes[i], 148);
    assert_non_null(fac_zero_(q));
    read_codes(q, codes, 24);
    for (int i = 0; i < 24; i++) assert_int_equal(codes[i], 128);
}

/* Every operator that moves codes gives what it gives of the codes. */
static void quantized_copies_move_codes_S024(void **state) {
    (void)state;
    FAC_SCOPE(s);
    const int64_t picked[] = {3, 0, 0};
    fac_tensor *q = fac_quantize_per_tensor(floats(FAC_INTS(4, 6), -3, 3, 5), 0.05, 1, FAC_QINT8),
               *codes = fac_int_repr(q);
    fac_tensor *index = fac_tensor_from(picked, FAC_I64, FAC_INTS(3));
    fac_tensor *of_q[] = {fac_clone(q),
                          fac_index_select(q, 1, index),
                          fac_cat(FAC_TENSORS(q, q), .dim = 1),
                          fac_flip(q, FAC_INTS(0)),
                          fac_stack(FAC_TENSORS(q, q)),
                          fac_contiguous(fac_transpose(q, 0, 1)),
                          fac_sort(q).values,
                          fac_max(q),
                          fac_topk(q, 2).values};
    fac_tensor *of_codes[] = {codes,
                              fac_index_select(codes, 1, index),
                              fac_cat(FAC_TENSORS(codes, codes), .dim = 1),
                              fac_flip(codes, FAC_INTS(0)),
                              fac_stack(FAC_TENSORS(codes, codes)),
                              fac_contiguous(fac_transpose(codes, 0, 1)),
                              fac_sort(codes).values,
                              fac_max(codes),
                              fac_topk(codes, 2).values};
    for (size_t i = 0; i < FAC_COUNT(of_q); i++) {
        assert_non_null(of_q[i]);
        assert_true(fac_equal(fac_int_repr(of_q[i]), of_codes[i]));
        assert_true(fac_q_scale(of_q[i]) == 0.05);
        assert_int_equal(fac_q_zero_point(of_q[i]), 1);
    }
    assert_int_equal(fac_tensor_dtype(fac_sort(q).indices), FAC_I64);
    fac_tensor *other = fac_quantize_per_tensor(floats(FAC_INTS(4, 6), -3, 3, 5), 0.06, 1, FAC_QINT8);
    assert_null(fac_cat(FAC_TENSORS(q, other)));
    assert_error(FAC_ERR_ARGUMENT, "different scales");
    assert_null(fac_cat(FAC_TENSORS(q, codes)));
    assert_error(FAC_ERR_DTYPE, "int8");
    assert_null(fac_cat(FAC_TENSORS(codes, q)));
    assert_error(FAC_ERR_DTYPE, "int8");
    assert_false(fac_equal(q, other));
    assert_true(fac_equal(q, fac_clone(q)));
    fac_tensor *joined = fac_quantized_cat(FAC_TENSORS(q, other), 0);
    assert_true(fac_q_scale(joined) == 0.05);
    assert_true(fac_equal(fac_narrow(joined, 0, 0, 4), q));
}

static void quantized_copy_checks_quantizers_S024(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = floats(FAC_INTS(3, 4), -3, 3, 9);
    fac_tensor *q = fac_quantize_per_tensor(x, 0.05, 1, FAC_QINT8),
               *other = fac_quantize_per_tensor(x, 0.1, 2, FAC_QINT8);
    fac_tensor *whole = fac_empty_quantized(FAC_INTS(3, 4), q);
    assert_true(fac_q_scale(whole) == 0.05);
    assert_non_null(fac_copy_(whole, other)); /* as PyTorch: the quantizer goes along */
    assert_true(fac_q_scale(whole) == 0.1);
    assert_true(fac_equal(whole, other));
    assert_null(fac_copy_(fac_select(whole, 0, 0), fac_select(q, 0, 0)));
    assert_error(FAC_ERR_UNSUPPORTED, "shares its codes");
    assert_true(fac_equal(whole, other));
    assert_non_null(fac_copy_(whole, x));
    assert_true(fac_equal(whole, other));
    assert_null(fac_copy_(x, q));
    assert_error(FAC_ERR_DTYPE, "dequantize");
    assert_null(fac_copy_(q, fac_int_repr(q)));
    assert_error(FAC_ERR_DTYPE, "float32");
    assert_null(fac_to(q, .dtype = FAC_F32));
    assert_error(FAC_ERR_DTYPE, "dequantize");
    assert_null(fac_to(x, .dtype = FAC_QINT8));
    assert_error(FAC_ERR_DTYPE, "quantize_per_tensor");
    fac_tensor *meta = fac_to(q, .device = fac_device_make(FAC_META, -1));
    assert_true(fac_q_scale(meta) == 0.05);
    assert_int_equal(fac_tensor_device(fac_dequantize(meta)).type, FAC_META);
    assert_null(fac_zeros(FAC_INTS(2), .dtype = FAC_QUINT8));
    assert_error(FAC_ERR_DTYPE, "_empty_affine_quantized");
    assert_null(fac_set_requires_grad(q, true));
    fac_error_clear();
}

static void quantized_clamps_and_compares_numbers_S024(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *q = fac_quantize_per_tensor(floats(FAC_INTS(50), -9, 9, 11), 0.1, 40, FAC_QUINT8),
               *x = fac_dequantize(q);
    const struct {
        fac_tensor *codes, *numbers;
    } same[] = {{fac_relu(q), fac_relu(x)},
                {fac_relu6(q), fac_relu6(x)},
                {fac_clamp(q, .min = -1, .max = 2), fac_clamp(x, .min = -1, .max = 2)},
                {fac_hardtanh(q), fac_hardtanh(x)}};
    for (size_t i = 0; i < FAC_COUNT(same); i++) {
        float a[50], b[50];
        assert_ok(fac_tensor_read(fac_dequantize(same[i].codes), FAC_F32, a, 50));
        assert_ok(fac_tensor_read(same[i].numbers, FAC_F32, b, 50));
        for (int k = 0; k < 50; k++) assert_float_equal(a[k], b[k], 1e-5);
    }
    assert_true(fac_equal(fac_gt(q, 0.5), fac_gt(x, 0.5)));
    assert_true(fac_equal(fac_eq(q, q), fac_eq(x, x)));
    fac_tensor *in_place = fac_clone(q);
    assert_ptr_equal(fac_relu_(in_place), in_place);
    assert_true(fac_equal(in_place, fac_relu(q)));
}

static void quantized_pooling_averages_codes_S024(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *q = fac_quantize_per_tensor(floats(FAC_INTS(1, 2, 4, 4), -3, 3, 13), 0.03, 120, FAC_QUINT8);
    int64_t in[32], mean[8], most[8], all[1];
    read_codes(q, in, 32);
    read_codes(fac_avg_pool2d(q, FAC_INTS(2, 2)), mean, 8);
    read_codes(fac_max_pool2d(q, FAC_INTS(2, 2)), most, 8);
    read_codes(fac_mean_all(q), all, 1);
    int64_t total = 0;
    for (int i = 0; i < 8; i++) {
        const int64_t *at = in + i / 4 * 16 + i % 4 / 2 * 8 + i % 2 * 2;
        const int64_t v[] = {at[0], at[1], at[4], at[5]};
        int64_t sum = 0, top = 0;
        for (int k = 0; k < 4; k++) sum += v[k] - 120, top = v[k] > top ? v[k] : top;
        assert_int_equal(mean[i], (int64_t)nearbyint((double)sum / 4) + 120);
        assert_int_equal(most[i], top);
        total += sum;
    }
    assert_int_equal(all[0], (int64_t)nearbyint((double)total / 32) + 120);
    assert_true(fac_equal(fac_quantized_max_pool2d(q, FAC_INTS(2, 2)), fac_max_pool2d(q, FAC_INTS(2, 2))));
    assert_int_equal(fac_tensor_size(fac_adaptive_avg_pool2d(q, FAC_INTS(1, 1)), 2), 1);
    assert_int_equal(fac_tensor_size(fac_upsample_nearest2d(q, FAC_INTS(8, 8), (fac_floats){0}), 3), 8);
}

static void quantized_tensor_prints_as_pytorch_S024(void **state) {
    (void)state;
    FAC_SCOPE(s);
    const float x[] = {-1, 0, 1, 2};
    const double scales[] = {0.5, 0.25};
    const int64_t zeros[] = {0, 1};
    fac_tensor *q = fac_quantize_per_tensor(fac_tensor_from(x, FAC_F32, FAC_INTS(4)), 0.1, 10, FAC_QUINT8);
    char *text = fac_tensor_string(q);
    assert_non_null(text);
    assert_string_equal(text, "tensor([-1.,  0.,  1.,  2.], size=(4,), dtype=torch.quint8,\n"
                              "       quantization_scheme=torch.per_tensor_affine, scale=0.1, zero_point=10)");
    fac_string_free(text);
    q = fac_quantize_per_channel(fac_tensor_from(x, FAC_F32, FAC_INTS(2, 2)),
                                 fac_tensor_from(scales, FAC_F64, FAC_INTS(2)),
                                 fac_tensor_from(zeros, FAC_I64, FAC_INTS(2)), 0, FAC_QINT8);
    text = fac_tensor_string(q);
    assert_non_null(text);
    assert_non_null(strstr(text, "dtype=torch.qint8"));
    assert_non_null(strstr(text, "quantization_scheme=torch.per_channel_affine"));
    assert_non_null(strstr(text, "scale=tensor([0.5000, 0.2500], dtype=torch.float64)"));
    assert_non_null(strstr(text, "axis=0)"));
    fac_string_free(text);
}

static void quantizing_refuses_bad_numbers_S024(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = floats(FAC_INTS(4), -1, 1, 1);
    assert_null(fac_quantize_per_tensor(x, 0, 0, FAC_QINT8));
    assert_error(FAC_ERR_ARGUMENT, "positive");
    assert_null(fac_quantize_per_tensor(x, NAN, 0, FAC_QINT8));
    assert_error(FAC_ERR_ARGUMENT, "positive");
    assert_null(fac_quantize_per_tensor(x, 0.1, 256, FAC_QUINT8));
    assert_error(FAC_ERR_ARGUMENT, "zero_point 256");
    assert_null(fac_quantize_per_tensor(x, 0.1, 0, FAC_U8));
    assert_error(FAC_ERR_DTYPE, "quantized dtype");
    assert_null(fac_int_repr(x));
    assert_error(FAC_ERR_NO_KERNEL, "int_repr");
}

static fac_tensor *by_channel(fac_tensor *x) {
    const double scales[] = {0.1, 0.2, 0.5};
    const int64_t zeros[] = {0, 5, 10};
    return fac_quantize_per_channel(x, fac_tensor_from(scales, FAC_F64, FAC_INTS(3)),
                                    fac_tensor_from(zeros, FAC_I64, FAC_INTS(3)), 0, FAC_QUINT8);
}

static void quantized_per_channel_compares_numbers_S024(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *q = by_channel(floats(FAC_INTS(3, 4), -1, 8, 5)), *x = fac_dequantize(q);
    assert_true(fac_equal(fac_eq(q, q), fac_eq(x, x)));
    assert_true(fac_equal(fac_lt(q, 5.5), fac_lt(x, 5.5)));
    assert_true(fac_equal(fac_gt(q, 1), fac_gt(x, 1)));
    assert_int_equal(fac_tensor_dtype(fac_ne(q, 0)), FAC_BOOL);
}

static void quantized_is_reshaped_by_a_copy_where_no_view_does_S024(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *plain = floats(FAC_INTS(2, 3), -3, 3, 9);
    fac_tensor *made[] = {fac_quantize_per_tensor(plain, 0.1, 3, FAC_QUINT8), fac_to_dtype(plain, FAC_F8_E5M2)};
    for (size_t k = 0; k < FAC_COUNT(made); k++) {
        fac_tensor *q = made[k], *x = fac_dequantize(q);
        assert_true(
            fac_equal(fac_dequantize(fac_reshape(fac_t(q), FAC_SHAPE(6))), fac_reshape(fac_t(x), FAC_SHAPE(6))));
        assert_true(fac_equal(fac_dequantize(fac_flatten(fac_t(q))), fac_flatten(fac_t(x))));
        assert_true(fac_equal(fac_dequantize(fac_repeat(q, FAC_INTS(2, 2))), fac_repeat(x, FAC_INTS(2, 2))));
        assert_int_equal(fac_tensor_dtype(fac_repeat(q, FAC_INTS(2, 1))), fac_tensor_dtype(q));
    }
    assert_null(fac_reshape(fac_t(by_channel(floats(FAC_INTS(3, 4), -1, 8, 5))), FAC_SHAPE(12)));
    assert_error(FAC_ERR_UNSUPPORTED, "per channel");
}

static void quantized_is_numbered_alike_on_meta_S024(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *q = fac_t(fac_quantize_per_tensor(fac_ones(FAC_SHAPE(3, 2)), 0.1, 3, FAC_QINT8));
    fac_tensor *here = fac_dequantize(q), *there = fac_dequantize(fac_to(q, .device = fac_device_make(FAC_META, -1)));
    assert_no_error();
    for (int d = 0; d < 2; d++) assert_int_equal(fac_tensor_stride(there, d), fac_tensor_stride(here, d));
}

FAC_TEST_MAIN(FAC_TEST(quantized_per_channel_compares_numbers_S024),
              FAC_TEST(quantized_is_reshaped_by_a_copy_where_no_view_does_S024),
              FAC_TEST(quantized_is_numbered_alike_on_meta_S024),
              FAC_TEST(quantized_codes_round_to_even_and_saturate_S024),
              FAC_TEST(quantized_tensor_has_the_key_quantized_and_not_dense_S024),
              FAC_TEST(quantized_per_channel_uses_each_channels_numbers_S024),
              FAC_TEST(quantized_views_share_codes_and_keep_the_quantizer_S024),
              FAC_TEST(quantized_copies_move_codes_S024), FAC_TEST(quantized_copy_checks_quantizers_S024),
              FAC_TEST(quantized_clamps_and_compares_numbers_S024), FAC_TEST(quantized_pooling_averages_codes_S024),
              FAC_TEST(quantized_tensor_prints_as_pytorch_S024), FAC_TEST(quantizing_refuses_bad_numbers_S024))
