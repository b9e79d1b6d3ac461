/* 8-bit floats: every code and a sample of all float32 against the nearest of the values that a format has, found by search. */
#include "core/scalar.h"
#include "support/support.h"
#include <facula/facula.h>
#include <facula/io.h>

#include <math.h>
#include <stdlib.h>
#include <unistd.h>

/* A format by its definition: value of a code, and what is past the greatest. */
typedef struct format {
    fac_dtype dtype;
    const char *name;
    int bits, bias;
    bool fnuz, infinite;
    double most;
} format;

static const format formats[] = {
    {FAC_F8_E4M3FN, "float8_e4m3fn", 3, 7, false, false, 448},
    {FAC_F8_E5M2, "float8_e5m2", 2, 15, false, true, 57344},
    {FAC_F8_E4M3FNUZ, "float8_e4m3fnuz", 3, 8, true, false, 240},
    {FAC_F8_E5M2FNUZ, "float8_e5m2fnuz", 2, 16, true, false, 57344},
};

static double value_of(const format *f, int code) {
    const int e = (code & 0x7f) >> f->bits, m = code & ((1 << f->bits) - 1), top = 0x7f >> f->bits;
    const double sign = code & 0x80 ? -1 : 1;
    if (f->fnuz && code == 0x80) return NAN;
    if (f->infinite && e == top) return m ? NAN : sign * INFINITY;
    if (!f->fnuz && !f->infinite && (code & 0x7f) == 0x7f) return NAN;
    if (e == 0) return sign * pow(2, 1 - f->bias) * m / (1 << f->bits);
    return sign * pow(2, e - f->bias) * (1 + (double)m / (1 << f->bits));
}

/* The nearest finite value, ties to the even code; past half a step beyond the greatest is overflow. */
static int nearest(const format *f, float x) {
    const double a = fabs((double)x);
    const double step = f->most - value_of(f, (f->fnuz ? 0x7f : f->infinite ? 0x7b : 0x7e) - 1);
    int best = 0;
    if (a > f->most + step / 2 || (a == f->most + step / 2 && (f->fnuz || f->infinite))) return -1;
    for (int c = 0; c < 0x80; c++) {
        const double v = value_of(f, c), d = fabs(v - a), was = fabs(value_of(f, best) - a);
        if (isfinite(v) && (d < was || (d == was && c % 2 == 0))) best = c;
    }
    return best;
}

static void check_encoding(const format *f, float x) {
    const uint8_t code = fac__f32_to_f8(f->dtype, x);
    const double v = value_of(f, code);
    int want = isnan(x) || isinf(x) ? -1 : nearest(f, x);
    if (f->dtype == FAC_F8_E4M3FN && want < 0 && !isnan(x)) want = 0x7e; /* it saturates */
    if (isnan(x) || (want < 0 && !f->infinite)) {
        assert_true(isnan(v));
    } else if (want < 0) {
        assert_true(v == (x < 0 ? -INFINITY : INFINITY));
    } else {
        assert_int_equal(code & 0x7f, want);
        if (!f->fnuz || want) assert_int_equal(code >> 7, signbit(x) != 0);
    }
}

static void float8_codes_have_the_formats_values(void **state) {
    (void)state;
    for (size_t i = 0; i < FAC_COUNT(formats); i++)
        for (int c = 0; c < 256; c++) {
            const double want = value_of(&formats[i], c);
            const float got = fac__f8_to_f32(formats[i].dtype, (uint8_t)c);
            if (isnan(want)) {
                assert_true(isnan(got));
                continue;
            }
            assert_true((double)got == want);
            assert_int_equal(signbit(got) != 0, signbit(want) != 0);
            assert_int_equal(fac__f32_to_f8(formats[i].dtype, got), c);
        }
}

/* Near every value and midpoint, and every 4099th of all float32. */
static void float8_rounds_to_nearest_even(void **state) {
    (void)state;
    size_t n = 0;
    for (size_t i = 0; i < FAC_COUNT(formats); i++) {
        const format *f = &formats[i];
        for (int c = 0; c + 1 < 0x80; c++) {
            const float between = (float)((value_of(f, c) + value_of(f, c + 1)) / 2), at = (float)value_of(f, c);
            const float near[] = {at, between, nextafterf(between, 0), nextafterf(between, INFINITY),
                                  nextafterf(at, 0)};
            for (size_t k = 0; k < FAC_COUNT(near); k++, n += 2)
                check_encoding(f, near[k]), check_encoding(f, -near[k]);
        }
        const float ends[] = {INFINITY, NAN, 464, 465, 480, 1e30f};
        for (size_t k = 0; k < FAC_COUNT(ends); k++) check_encoding(f, ends[k]), check_encoding(f, -ends[k]);
        for (uint64_t bits = i; bits < (UINT64_C(1) << 32); bits += 40009, n++) {
            const uint32_t b = (uint32_t)bits;
            float x;
            memcpy(&x, &b, 4);
            check_encoding(f, x);
        }
    }
    print_message("%zu float32 numbers\n", n);
}

/* 2^(code - 127), the sign lost; the exponent goes up from 1.5 times a power on. */
static void float8_e8m0_is_a_power_of_two(void **state) {
    (void)state;
    for (int c = 0; c < 255; c++) {
        const float v = fac__f8_to_f32(FAC_F8_E8M0FNU, (uint8_t)c);
        assert_true((double)v == pow(2, c - 127));
        assert_int_equal(fac__f32_to_f8(FAC_F8_E8M0FNU, v == 0 ? 0x1p-127f : v), c == 0 ? 0 : c);
        if (c == 0 || c == 254) continue;
        assert_int_equal(fac__f32_to_f8(FAC_F8_E8M0FNU, nextafterf(1.5f * v, 0)), c);
        assert_int_equal(fac__f32_to_f8(FAC_F8_E8M0FNU, -1.5f * v), c + 1);
    }
    assert_true(isnan(fac__f8_to_f32(FAC_F8_E8M0FNU, 255)));
    assert_int_equal(fac__f32_to_f8(FAC_F8_E8M0FNU, INFINITY), 255);
    assert_int_equal(fac__f32_to_f8(FAC_F8_E8M0FNU, NAN), 255);
    assert_int_equal(fac__f32_to_f8(FAC_F8_E8M0FNU, 0), 0);
}

/* Both ways between each 8-bit float and every dtype, by way of float32. */
static void float8_converts_to_and_from_every_dtype(void **state) {
    (void)state;
    FAC_SCOPE(s);
    const float x[] = {0, 1, 2, 3.3f, 0.1f, 17, 100, 1e-3f};
    fac_tensor *t = fac_tensor_from(x, FAC_F32, FAC_INTS(2, 4));
    for (int d = FAC_BOOL; d < FAC_DTYPE_COUNT; d++)
        for (size_t i = 0; i < FAC_COUNT(formats); i++) {
            fac_tensor *from = fac_to(t, .dtype = (fac_dtype)d), *codes = fac_to(from, .dtype = formats[i].dtype);
            float wide[8], back[8], turned[8], again[8];
            assert_non_null(codes);
            assert_ok(fac_tensor_read(fac_to(from, .dtype = FAC_F32), FAC_F32, wide, 8));
            assert_ok(fac_tensor_read(fac_to(codes, .dtype = FAC_F32), FAC_F32, back, 8));
            for (int k = 0; k < 8; k++)
                assert_true(back[k] == fac__f8_to_f32(formats[i].dtype, fac__f32_to_f8(formats[i].dtype, wide[k])));
            assert_ok(fac_tensor_read(fac_to(codes, .dtype = (fac_dtype)d), FAC_F32, turned, 8));
            assert_ok(
                fac_tensor_read(fac_to(fac_to(codes, .dtype = FAC_F32), .dtype = (fac_dtype)d), FAC_F32, again, 8));
            assert_memory_equal(turned, again, sizeof again);
        }
    for (size_t i = 0; i < FAC_COUNT(formats); i++) {
        fac_tensor *a = fac_to(t, .dtype = formats[i].dtype), *b = fac_to(a, .dtype = formats[(i + 1) % 4].dtype);
        assert_true(fac_equal(
            fac_to(b, .dtype = FAC_F32),
            fac_to(fac_to(fac_to(a, .dtype = FAC_F32), .dtype = formats[(i + 1) % 4].dtype), .dtype = FAC_F32)));
        fac_tensor *turned = fac_transpose(a, 0, 1);
        assert_true(fac_equal(fac_to(turned, .dtype = FAC_F32), fac_transpose(fac_to(a, .dtype = FAC_F32), 0, 1)));
    }
}

static void float8_is_stored_moved_and_compared(void **state) {
    (void)state;
    FAC_SCOPE(s);
    const float x[] = {1, -2, 0.5f, 448, 3, 7};
    fac_tensor *t = fac_to(fac_tensor_from(x, FAC_F32, FAC_INTS(2, 3)), .dtype = FAC_F8_E4M3FN);
    fac_tensor *zeros = fac_zeros(FAC_INTS(2, 3), .dtype = FAC_F8_E5M2);
    assert_int_equal(fac_tensor_dtype(zeros), FAC_F8_E5M2);
    assert_true(fac_item(fac_select(fac_select(fac_full(FAC_INTS(2, 3), 1.7, .dtype = FAC_F8_E4M3FN), 0, 0), 0, 0)) ==
                1.75);
    assert_int_equal(fac_tensor_dtype(fac_zeros_like(t)), FAC_F8_E4M3FN);
    assert_int_equal(fac_tensor_dtype(fac_zeros_like(t, .dtype = FAC_U8)), FAC_U8);
    assert_true(fac_is_floating_point(t));
    assert_true(fac_tensor_keys(t) & fac_keyset_of(FAC_KEY_QUANTIZED));
    fac_tensor *joined = fac_cat(FAC_TENSORS(t, fac_ones_like(t)));
    assert_int_equal(fac_tensor_size(joined, 0), 4);
    assert_true(fac_equal(fac_narrow(joined, 0, 0, 2), t));
    assert_non_null(fac_copy_(fac_select(joined, 0, 3), fac_select(t, 0, 0)));
    assert_true(fac_equal(fac_select(joined, 0, 3), fac_select(t, 0, 0)));
    assert_true(fac_equal(fac_eq(t, t), fac_ones(FAC_INTS(2, 3), .dtype = FAC_BOOL)));
    fac_tensor *bytes = fac_view_dtype(t, FAC_U8);
    assert_int_equal(fac_item_int(fac_select(fac_select(bytes, 0, 1), 0, 0)), 0x7e);
    assert_int_equal(fac_tensor_dtype(fac_view_dtype(bytes, FAC_F8_E4M3FN)), FAC_F8_E4M3FN);
    assert_true(fac_equal(fac_view_dtype(bytes, FAC_F8_E4M3FN), t));
    char *text = fac_tensor_string(t);
    assert_string_equal(
        text,
        "tensor([[  1.0000,  -2.0000,   0.5000],\n        [448.0000,   3.0000,   7.0000]], dtype=torch.float8_e4m3fn)");
    fac_string_free(text);
}

static void float8_is_not_computed_in(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *t = fac_ones(FAC_INTS(2, 2), .dtype = FAC_F8_E4M3FN), *x = fac_ones(FAC_INTS(2, 2));
    assert_null(fac_add(t, t));
    assert_error(FAC_ERR_NO_KERNEL, "to(t, float32)");
    assert_null(fac_mm(t, t));
    assert_error(FAC_ERR_NO_KERNEL, "aten::mm");
    assert_null(fac_relu(t));
    assert_error(FAC_ERR_DTYPE, "float8_e4m3fn");
    assert_null(fac_sum(x, .dtype = FAC_F8_E5M2));
    assert_error(FAC_ERR_DTYPE, "float8_e5m2");
    assert_null(fac_rand(FAC_INTS(2), .dtype = FAC_F8_E5M2));
    assert_true(fac_error() != FAC_OK);
    fac_error_clear();
    assert_int_equal(fac_promote_types(FAC_F8_E5M2, FAC_F8_E5M2), FAC_F8_E5M2);
    assert_int_equal(fac_promote_types(FAC_F8_E5M2, FAC_F32), FAC_DTYPE_DEFAULT);
    assert_error(FAC_ERR_DTYPE, "no common dtype");
    assert_int_equal(fac_set_default_dtype(FAC_F8_E5M2), FAC_ERR_DTYPE);
    fac_error_clear();
    for (size_t i = 0; i < FAC_COUNT(formats); i++) {
        assert_string_equal(fac_dtype_name(formats[i].dtype), formats[i].name);
        assert_int_equal(fac_dtype_parse(formats[i].name), formats[i].dtype);
        assert_int_equal(fac_dtype_size(formats[i].dtype), 1);
        assert_true(fac_dtype_is_float8(formats[i].dtype));
    }
}

static void float8_conversion_passes_gradients_on(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = fac_set_requires_grad(fac_full(FAC_INTS(3), 1.1), true);
    fac_tensor *y = fac_sum_all(fac_mul(fac_to(fac_to(x, .dtype = FAC_F8_E4M3FN), .dtype = FAC_F32), 3));
    assert_ok(fac_backward(y));
    assert_true(fac_equal(fac_grad_of(x), fac_full(FAC_INTS(3), 3)));
}

static void float8_goes_through_safetensors(void **state) {
    (void)state;
    FAC_SCOPE(s);
    const float x[] = {1, -2, 0.5f, 448};
    char path[] = "/tmp/float8_XXXXXX";
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    fac_tensor *t = fac_tensor_from(x, FAC_F32, FAC_INTS(4)), *a = fac_to(t, .dtype = FAC_F8_E4M3FN),
               *b = fac_to(t, .dtype = FAC_F8_E5M2), *q = fac_quantize_per_tensor(t, 0.1, 0, FAC_QINT8);
    const fac_named_tensor named[] = {{"a", a}, {"b", b}};
    assert_ok(fac_safetensors_save(path, named, 2, NULL, 0));
    fac_safetensors *f = fac_safetensors_open(path);
    assert_non_null(f);
    assert_true(fac_equal(fac_safetensors_read(f, (size_t)fac_safetensors_find(f, "a")), a));
    assert_true(fac_equal(fac_safetensors_read(f, (size_t)fac_safetensors_find(f, "b")), b));
    fac_safetensors_close(f);
    const fac_named_tensor quantized[] = {{"q", q}};
    assert_int_equal(fac_safetensors_save(path, quantized, 1, NULL, 0), FAC_ERR_UNSUPPORTED);
    assert_error(FAC_ERR_UNSUPPORTED, "qint8");
    unlink(path);
}

FAC_TEST_MAIN(FAC_TEST(float8_codes_have_the_formats_values), FAC_TEST(float8_rounds_to_nearest_even),
              FAC_TEST(float8_e8m0_is_a_power_of_two), FAC_TEST(float8_converts_to_and_from_every_dtype),
              FAC_TEST(float8_is_stored_moved_and_compared), FAC_TEST(float8_is_not_computed_in),
              FAC_TEST(float8_conversion_passes_gradients_on), FAC_TEST(float8_goes_through_safetensors))
