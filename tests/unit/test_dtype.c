/* Dtypes: names, sizes, kinds, promotion; halves and scalars converted. */
#include "core/scalar.h"
#include "support/support.h"
#include <math.h>

#include "data/dtype_tables.h"

static void S010_dtype_names_and_sizes(void **state) {
    (void)state;
    const struct {
        fac_dtype d;
        const char *name, *other;
        size_t size;
    } all[] = {{FAC_BOOL, "bool", "torch.bool", 1}, {FAC_U8, "uint8", "byte", 1},
               {FAC_I8, "int8", "char", 1},         {FAC_I16, "int16", "short", 2},
               {FAC_I32, "int32", "int", 4},        {FAC_I64, "int64", "long", 8},
               {FAC_F16, "float16", "half", 2},     {FAC_BF16, "bfloat16", "bf16", 2},
               {FAC_F32, "float32", "float", 4},    {FAC_F64, "float64", "torch.double", 8},
               {FAC_C64, "complex64", "cfloat", 8}, {FAC_C128, "complex128", "c128", 16}};
    assert_int_equal(FAC_COUNT(all), FAC_DTYPE_COUNT - 1);
    for (size_t i = 0; i < FAC_COUNT(all); i++) {
        assert_string_equal(fac_dtype_name(all[i].d), all[i].name);
        assert_int_equal(fac_dtype_parse(all[i].name), all[i].d);
        assert_int_equal(fac_dtype_parse(all[i].other), all[i].d);
        assert_int_equal(fac_dtype_size(all[i].d), all[i].size);
    }
    assert_int_equal(fac_dtype_size(FAC_DTYPE_DEFAULT), 0);
    assert_int_equal(fac_dtype_size((fac_dtype)77), 0);
}

static void dtype_unknown_name_is_an_error_naming_it(void **state) {
    (void)state;
    assert_int_equal(fac_dtype_parse("float23"), FAC_DTYPE_DEFAULT);
    assert_error(FAC_ERR_DTYPE, "'float23' names no dtype");
    assert_int_equal(fac_dtype_parse("default"), FAC_DTYPE_DEFAULT);
    assert_error(FAC_ERR_DTYPE, "default");
    assert_int_equal(fac_dtype_parse(NULL), FAC_DTYPE_DEFAULT);
    assert_error(FAC_ERR_DTYPE, "(null)");
}

static void dtype_kinds(void **state) {
    (void)state;
    for (int d = 0; d < FAC_DTYPE_COUNT; d++) {
        bool floating = d >= FAC_F16 && d <= FAC_F64, complex = d >= FAC_C64, integral = d >= FAC_U8 && d <= FAC_I64;
        assert_int_equal(fac_dtype_is_floating((fac_dtype)d), floating);
        assert_int_equal(fac_dtype_is_complex((fac_dtype)d), complex);
        assert_int_equal(fac_dtype_is_integral((fac_dtype)d, false), integral);
        assert_int_equal(fac_dtype_is_integral((fac_dtype)d, true), integral || d == FAC_BOOL);
    }
}

static void S030_dtype_promotion_agrees_with_pytorch(void **state) {
    (void)state;
    for (int a = 1; a < FAC_DTYPE_COUNT; a++)
        for (int b = 1; b < FAC_DTYPE_COUNT; b++) {
            assert_int_equal(fac_promote_types((fac_dtype)a, (fac_dtype)b), promoted[a - 1][b - 1]);
            assert_int_equal(fac_can_cast((fac_dtype)a, (fac_dtype)b), castable[a - 1][b - 1]);
        }
}

/* A header with nothing but what promotion looks at. */
static fac_tensor shell(int d, uint8_t ndim, uint16_t flags) {
    return (fac_tensor){.dtype = (uint8_t)d, .ndim = ndim, .flags = flags};
}

static void S030_dtype_ranks_agree_with_pytorch(void **state) {
    (void)state;
    const double one[2] = {0, 1};
    const fac_scalar numbers[] = {fac_scalar_b_(true), fac_scalar_i_(1), fac_scalar_f_(1), fac_scalar_c_(one)};
    const fac_dtype wrapped[] = {FAC_BOOL, FAC_I64, FAC_F64, FAC_C128};
    for (int a = 1; a < FAC_DTYPE_COUNT; a++) {
        for (int b = 1; b < FAC_DTYPE_COUNT; b++) {
            fac_promotion p = {0};
            fac_tensor x = shell(a, 1, 0), y = shell(b, 0, 0);
            fac__promote_tensor(&p, &y);
            fac__promote_tensor(&p, &x);
            assert_int_equal(fac__promote_result(&p), with_zero_dim[a - 1][b - 1]);
        }
        for (size_t k = 0; k < 8; k++) {
            fac_promotion p = {0}, q = {0};
            fac_tensor x = shell(a, k < 4, 0), w = shell((int)wrapped[k % 4], 0, FAC_TF_WRAPPED);
            fac__promote_tensor(&p, &x);
            fac__promote_scalar(&p, numbers[k % 4]);
            assert_int_equal(fac__promote_result(&p), with_number[a - 1][k / 4][k % 4]);
            fac__promote_tensor(&q, &x);
            fac__promote_tensor(&q, &w);
            assert_int_equal(fac__promote_result(&q), with_number[a - 1][k / 4][k % 4]);
        }
    }
}

static void dtype_default_can_be_set_to_floating_types_only(void **state) {
    (void)state;
    assert_int_equal(fac_default_dtype(), FAC_F32);
    assert_ok(fac_set_default_dtype(FAC_F64));
    assert_int_equal(fac__scalar_dtype(fac_scalar_f_(1)), FAC_F64);
    assert_int_equal(fac__scalar_dtype(fac_scalar_c_((const double[2]){0})), FAC_C128);
    assert_int_equal(fac_set_default_dtype(FAC_I32), FAC_ERR_DTYPE);
    assert_error(FAC_ERR_DTYPE, "floating");
    assert_ok(fac_set_default_dtype(FAC_F32));
}

/* Value of a half by its definition. */
static double half_value(uint16_t h) {
    int e = h >> 10 & 31, m = h & 1023;
    double x = e == 31 ? (m ? NAN : INFINITY) : e ? ldexp(1024 + m, e - 25) : ldexp(m, -24);
    return h & 0x8000 ? -x : x;
}

static void f16_every_code_converts_exactly_and_back(void **state) {
    (void)state;
    for (uint32_t h = 0; h < 65536; h++) {
        float f = fac__f16_to_f32((uint16_t)h);
        double x = half_value((uint16_t)h);
        if (isnan(x)) {
            assert_true(isnan(f));
            assert_true(isnan(fac__f16_to_f32(fac__f32_to_f16(f))));
            continue;
        }
        assert_true((double)f == x && !!signbit(f) == (bool)(h >> 15));
        assert_int_equal(fac__f32_to_f16(f), h);
    }
}

/* Between each pair of neighbours: just below the middle, the middle (to even), just above. */
static void f16_rounds_to_nearest_even(void **state) {
    (void)state;
    for (uint16_t h = 0; h < 0x7c00; h++) {
        double a = half_value(h), b = h == 0x7bff ? 65536 : half_value((uint16_t)(h + 1));
        float middle = (float)((a + b) / 2);
        uint16_t even = h & 1 ? (uint16_t)(h + 1) : h;
        assert_int_equal(fac__f32_to_f16(middle), even);
        assert_int_equal(fac__f32_to_f16(nextafterf(middle, 0)), h);
        assert_int_equal(fac__f32_to_f16(nextafterf(middle, INFINITY)), h + 1);
        assert_int_equal(fac__f32_to_f16(-middle), even | 0x8000);
    }
    assert_int_equal(fac__f32_to_f16(INFINITY), 0x7c00);
    assert_int_equal(fac__f32_to_f16(1e30f), 0x7c00);
    assert_int_equal(fac__f32_to_f16(1e-30f), 0);
}

static void bf16_rounds_to_nearest_even(void **state) {
    (void)state;
    for (uint32_t h = 0; h < 65536; h++) {
        float f = fac__bf16_to_f32((uint16_t)h);
        if (isnan(f)) {
            assert_true(isnan(fac__bf16_to_f32(fac__f32_to_bf16(f))));
            continue;
        }
        assert_int_equal(fac__f32_to_bf16(f), h);
        if (isinf(f)) continue;
        uint32_t bits = h << 16 | 0x8000u;
        float middle;
        memcpy(&middle, &bits, 4);
        assert_int_equal(fac__f32_to_bf16(middle), h + (h & 1));
        assert_int_equal(fac__f32_to_bf16(nextafterf(middle, 0)), h);
    }
}

static void scalar_from_double_to_halves_rounds_through_f32(void **state) {
    (void)state;
    /* Just above the middle of two halves by less than a float can say: the float is the middle, which goes to even, as in
       torch.full((1,), x, dtype=torch.float16) and as a tensor of doubles is converted. */
    double x = 1 + 0x1p-11 + 0x1p-40;
    uint16_t h;
    fac__store(&h, FAC_F16, fac_scalar_f_(x));
    assert_int_equal(h, 0x3c00);
    x = 1 + 0x1p-8 - 0x1p-40;
    fac__store(&h, FAC_BF16, fac_scalar_f_(x));
    assert_int_equal(h, 0x3f80);
    fac__store(&h, FAC_F16, fac_scalar_f_(-1e300));
    assert_int_equal(h, 0xfc00);
    fac__store(&h, FAC_BF16, fac_scalar_f_(1e300));
    assert_int_equal(h, 0x7f80);
    fac__store(&h, FAC_F16, fac_scalar_f_(NAN));
    assert_true(isnan(fac__f16_to_f32(h)));
}

/* Bad input 18: NaN, infinities and 1e30 cast to integers. */
static void scalar_out_of_range_floats_saturate(void **state) {
    (void)state;
    assert_int_equal(fac__scalar_i64(fac_scalar_f_(NAN)), 0);
    assert_true(fac__scalar_i64(fac_scalar_f_(1e30)) == INT64_MAX);
    assert_true(fac__scalar_i64(fac_scalar_f_(-1e30)) == INT64_MIN);
    assert_true(fac__scalar_i64(fac_scalar_f_(INFINITY)) == INT64_MAX);
    assert_true(fac__scalar_i64(fac_scalar_f_(-INFINITY)) == INT64_MIN);
    assert_true(fac__scalar_i64(fac_scalar_f_(-0x1p63)) == INT64_MIN);
    assert_int_equal(fac__scalar_i64(fac_scalar_f_(-2.9)), -2);
    uint8_t u;
    fac__store(&u, FAC_U8, fac_scalar_f_(-1.0));
    assert_int_equal(u, 255); /* as PyTorch: the low bits of the integer */
    fac__store(&u, FAC_BOOL, fac_scalar_f_(0.25));
    assert_int_equal(u, 1);
    fac__store(&u, FAC_BOOL, fac_scalar_f_(NAN));
    assert_int_equal(u, 1);
}

static void scalar_store_and_load_round_trip(void **state) {
    (void)state;
    unsigned char cell[16];
    double c[2];
    for (int d = 1; d < FAC_DTYPE_COUNT; d++) {
        fac__store(cell, (fac_dtype)d, fac_scalar_i_(1));
        assert_true(fac__scalar_f64(fac__load(cell, (fac_dtype)d, c)) == 1);
        fac__store(cell, (fac_dtype)d, fac_scalar_i_(0));
        assert_int_equal(fac__scalar_i64(fac__load(cell, (fac_dtype)d, c)), 0);
    }
    for (int d = FAC_C64; d <= FAC_C128; d++) {
        fac__store(cell, (fac_dtype)d, fac_scalar_c_((const double[2]){1.5, -2}));
        fac__scalar_c128(fac__load(cell, (fac_dtype)d, c), c);
        assert_true(c[0] == 1.5 && c[1] == -2);
    }
    fac__store(cell, FAC_I64, fac_scalar_i_(INT64_MIN));
    assert_true(fac__scalar_i64(fac__load(cell, FAC_I64, c)) == INT64_MIN);
}

FAC_TEST_MAIN(FAC_TEST(S010_dtype_names_and_sizes), FAC_TEST(dtype_unknown_name_is_an_error_naming_it),
              FAC_TEST(dtype_kinds), FAC_TEST(S030_dtype_promotion_agrees_with_pytorch),
              FAC_TEST(S030_dtype_ranks_agree_with_pytorch), FAC_TEST(dtype_default_can_be_set_to_floating_types_only),
              FAC_TEST(f16_every_code_converts_exactly_and_back), FAC_TEST(f16_rounds_to_nearest_even),
              FAC_TEST(bf16_rounds_to_nearest_even), FAC_TEST(scalar_from_double_to_halves_rounds_through_f32),
              FAC_TEST(scalar_out_of_range_floats_saturate), FAC_TEST(scalar_store_and_load_round_trip))
