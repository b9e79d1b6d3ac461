/* Loops and conversions of 16-bit floats that do not go by way of f32 give what that gives, for every number. */
#include "core/scalar.h"
#include "support/support.h"
#include <facula/facula.h>
#include <math.h>

enum { CODES = 65536 };
static const fac_dtype halves[] = {FAC_F16, FAC_BF16};

/* Every number of a dtype, `step` apart in the order of their bits, which is odd. */
static fac_tensor *codes(fac_dtype d, int step) {
    static int16_t bits[CODES];
    for (int i = 0; i < CODES; i++) bits[i] = (int16_t)(i * step);
    return fac_view_dtype(fac_tensor_from(bits, FAC_I16, FAC_INTS(CODES)), d);
}

static void assert_same(fac_tensor *got, fac_tensor *wide) {
    static float w[CODES];
    const fac_dtype d = fac_tensor_dtype(got);
    const uint16_t *a = fac_tensor_data(got);
    assert_ok(fac_tensor_read(wide, FAC_F32, w, CODES));
    for (int i = 0; i < CODES; i++) {
        const uint16_t want = d == FAC_F16 ? fac__f32_to_f16(w[i]) : fac__f32_to_bf16(w[i]);
        const float back = d == FAC_F16 ? fac__f16_to_f32(a[i]) : fac__bf16_to_f32(a[i]);
        if (isnan(w[i]))
            assert_true(isnan(back));
        else
            assert_int_equal(a[i], want);
    }
}

static void one_half_gives_what_f32_gives(void **state) {
    fac_tensor *(*const ops[])(fac_tensor *) = {fac_neg, fac_abs, fac_ceil, fac_sqrt, fac_square, fac_reciprocal};
    (void)state;
    for (size_t k = 0; k < FAC_COUNT(halves); k++)
        for (size_t i = 0; i < FAC_COUNT(ops); i++) {
            FAC_SCOPE(s);
            fac_tensor *x = codes(halves[k], 1);
            assert_same(ops[i](x), ops[i](fac_to(x, .dtype = FAC_F32)));
        }
}

static fac_tensor *plus(fac_tensor *a, fac_tensor *b) { return fac_add(a, b); }
static fac_tensor *minus(fac_tensor *a, fac_tensor *b) { return fac_sub(a, b); }
static fac_tensor *times(fac_tensor *a, fac_tensor *b) { return fac_mul(a, b); }
static fac_tensor *over(fac_tensor *a, fac_tensor *b) { return fac_div(a, b); }
static fac_tensor *larger(fac_tensor *a, fac_tensor *b) { return fac_maximum(a, b); }

static void two_halves_give_what_f32_gives(void **state) {
    fac_tensor *(*const ops[])(fac_tensor *, fac_tensor *) = {plus, minus, times, over, larger, fac_copysign_tensor};
    (void)state;
    for (size_t k = 0; k < FAC_COUNT(halves); k++)
        for (size_t i = 0; i < FAC_COUNT(ops); i++) {
            FAC_SCOPE(s);
            fac_tensor *x = codes(halves[k], 1), *y = codes(halves[k], 1717);
            fac_tensor *wide = fac_to(x, .dtype = FAC_F32);
            assert_same(ops[i](x, y), ops[i](wide, fac_to(y, .dtype = FAC_F32)));
            /* One value along a row. */
            fac_tensor *column = fac_narrow(fac_reshape(y, FAC_INTS(256, 256)), 1, 3, 1);
            assert_same(fac_reshape(ops[i](fac_reshape(x, FAC_INTS(256, 256)), column), FAC_INTS(-1)),
                        fac_reshape(ops[i](fac_reshape(wide, FAC_INTS(256, 256)), fac_to(column, .dtype = FAC_F32)),
                                    FAC_INTS(-1)));
        }
}

/* f32 near the middles between bf16, below the normal range, infinite and not a number, at every place in a vector. */
static void f32_is_rounded_to_bf16_once(void **state) {
    static const uint32_t odd[] = {0x7fff, 0x8000, 0x8001, 0, 0xffff};
    static uint32_t bits[CODES];
    (void)state;
    for (size_t k = 0; k < FAC_COUNT(odd); k++) {
        FAC_SCOPE(s);
        for (uint32_t i = 0; i < CODES; i++) bits[i] = (i * 1717u << 16) | odd[k];
        fac_tensor *wide = fac_tensor_from(bits, FAC_F32, FAC_INTS(CODES));
        assert_same(fac_to(wide, .dtype = FAC_BF16), wide);
    }
}

/* Whole numbers, whose sums are exact. */
static void sums_of_columns_are_exact(void **state) {
    (void)state;
    for (size_t k = 0; k < FAC_COUNT(halves); k++)
        for (int64_t w = 60; w < 70; w++) {
            FAC_SCOPE(s);
            fac_tensor *x = fac_remainder(fac_reshape(fac_arange(301 * w), FAC_INTS(301, w)), FAC_SCALAR(7));
            fac_tensor *half = fac_to(x, .dtype = halves[k]);
            assert_true(
                fac_equal(fac_sum(half, .dim = 0, .dtype = FAC_F32), fac_to(fac_sum(x, .dim = 0), .dtype = FAC_F32)));
            assert_true(
                fac_equal(fac_sum(half, .dim = 1, .dtype = FAC_F32), fac_to(fac_sum(x, .dim = 1), .dtype = FAC_F32)));
        }
}

FAC_TEST_MAIN(FAC_TEST(one_half_gives_what_f32_gives), FAC_TEST(two_halves_give_what_f32_gives),
              FAC_TEST(f32_is_rounded_to_bf16_once), FAC_TEST(sums_of_columns_are_exact))
