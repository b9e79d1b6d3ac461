/* The loops of pointwise operators and the iterators that they run over. */
#include "ops/loop.h"

#include "support/support.h"
#include <facula/facula.h>

static void S110_a_loop_fits_an_iterator_with_the_inputs_that_it_reads(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_iter it;
    fac_tensor *x = fac__header(fac_ones(FAC_SHAPE(3)));
    fac_iter_begin(&it, FAC_ITER_PROMOTE);
    assert_ok(fac_iter_out(&it, NULL));
    assert_ok(fac_iter_in(&it, x));
    assert_ok(fac_iter_in(&it, x));
    assert_ok(fac_iter_plan(&it));
    assert_true(fac__loop_fits(&it, FAC_LOOP_sqrt)); /* which does not look at the second */
    assert_true(fac__loop_fits(&it, FAC_LOOP_mul));
    assert_false(fac__loop_fits(&it, FAC_LOOP_lerp));
}

/* The number that makes the dtype is no factor. */
static void S110_squares_of_truth_values_are_integers(void **state) {
    (void)state;
    FAC_SCOPE(s);
    const bool truths[] = {false, true};
    fac_tensor *squares = fac_square(fac_tensor_from(truths, FAC_BOOL, FAC_INTS(2)));
    assert_no_error();
    assert_int_equal(fac_tensor_dtype(squares), FAC_I64);
    assert_int_equal(fac_item_int(fac_select(squares, 0, 0)), 0);
    assert_int_equal(fac_item_int(fac_select(squares, 0, 1)), 1);
}

static void same(fac_tensor *a, fac_tensor *b) {
    assert_no_error();
    assert_true(fac_equal(a, b));
}

/* Whatever its neighbours need: numbers near and far, degrees of each kind. */
static void an_element_is_computed_as_if_alone(void **state) {
    (void)state;
    enum { N = 100 };
    static const float points[] = {0.3f, -1, 1, 1.5f, -0.7f, 2e5f, 3e30f, 0},
                       degrees[] = {0, 1, 2.5f, 7, -1, 16, 17, 40, 3};
    float x[N], n[N];
    FAC_SCOPE(s);
    for (int i = 0; i < N; i++) {
        x[i] = points[(size_t)i % FAC_COUNT(points)];
        n[i] = degrees[(size_t)i % FAC_COUNT(degrees)];
    }
    fac_tensor *a = fac_tensor_from(x, FAC_F32, FAC_INTS(N)), *b = fac_tensor_from(n, FAC_F32, FAC_INTS(N));
    fac_tensor *all[] = {fac_sin(a),
                         fac_cos(a),
                         fac_tan(a),
                         fac_exp(a),
                         fac_special_chebyshev_polynomial_u(a, b),
                         fac_special_legendre_polynomial_p(a, b)};
    for (int i = 0; i < N; i++) {
        fac_tensor *u = fac_narrow(a, 0, i, 1), *v = fac_narrow(b, 0, i, 1);
        fac_tensor *one[] = {fac_sin(u),
                             fac_cos(u),
                             fac_tan(u),
                             fac_exp(u),
                             fac_special_chebyshev_polynomial_u(u, v),
                             fac_special_legendre_polynomial_p(u, v)};
        for (size_t k = 0; k < FAC_COUNT(all); k++) {
            const float got = (float)fac_item(fac_select(all[k], 0, i)), want = (float)fac_item(one[k]);
            assert_no_error();
            assert_true(got == want || (got != got && want != want));
        }
    }
}

/* One value along a row is as good as a row of it, for rows longer and shorter than a tile. */
static void a_value_is_repeated(fac_dtype dtype, int64_t n) {
    FAC_SCOPE(s);
    const fac_ints sizes = FAC_SHAPE(3, 5, n);
    fac_tensor *a = fac_to_dtype(fac_randn(sizes), dtype), *b = fac_to_dtype(fac_randn(FAC_SHAPE(5, 1)), dtype);
    fac_tensor *rows = fac_contiguous(fac_expand(b, sizes)), *c = fac_contiguous(fac_flip(a, FAC_INTS(0, 2)));
#define BESIDE(name) same(fac_##name(a, b), fac_##name(a, rows)), same(fac_##name(b, a), fac_##name(rows, a))
    BESIDE(add), BESIDE(sub), BESIDE(mul), BESIDE(div), BESIDE(maximum), BESIDE(minimum), BESIDE(fmax), BESIDE(hypot);
#undef BESIDE
    same(fac_addcmul(a, b, c), fac_addcmul(a, rows, c));
    same(fac_addcmul(a, c, b), fac_addcmul(a, c, rows));
    same(fac_prelu(a, fac_reshape(b, FAC_SHAPE(5))), fac_where(fac_gt(a, 0), a, fac_mul(rows, a)));
}
static void a_value_beside_a_row_is_repeated(void **state) {
    (void)state;
    static const int64_t lengths[] = {33, 512, 1500};
    static const fac_dtype dtypes[] = {FAC_F32, FAC_F64, FAC_BF16, FAC_F16};
    for (size_t i = 0; i < FAC_COUNT(lengths); i++)
        for (size_t d = 0; d < FAC_COUNT(dtypes); d++) a_value_is_repeated(dtypes[d], lengths[i]);
}

/* Loops of halves give what conversions around those of floats do. */
static void halves_are_computed_in_float(void **state) {
    (void)state;
    static const fac_dtype halves[] = {FAC_BF16, FAC_F16};
    for (size_t i = 0; i < FAC_COUNT(halves); i++) {
        FAC_SCOPE(s);
        const fac_dtype half = halves[i];
        fac_tensor *a = fac_to(fac_randn(FAC_SHAPE(1003)), .dtype = half),
                   *b = fac_to(fac_randn(FAC_SHAPE(1003)), .dtype = half);
        fac_tensor *x = fac_to(a, .dtype = FAC_F32), *y = fac_to(b, .dtype = FAC_F32);
        same(fac_add(a, b), fac_to(fac_add(x, y), .dtype = half));
        same(fac_sub(a, b), fac_to(fac_sub(x, y), .dtype = half));
        same(fac_mul(a, b), fac_to(fac_mul(x, y), .dtype = half));
        same(fac_div(a, b), fac_to(fac_div(x, y), .dtype = half));
        same(fac_gelu(a), fac_to(fac_gelu(x), .dtype = half));
        same(fac_sigmoid(a), fac_to(fac_sigmoid(x), .dtype = half));
        same(fac_exp(a), fac_to(fac_exp(x), .dtype = half));
        same(fac_mul(a, 1.0009765625), fac_to(fac_mul(x, 1.0009765625), .dtype = half)); /* the number is not rounded */
    }
}

/* Far beyond x^20's range the upper incomplete gamma function is 0, not 0 times infinity. */
static void upper_gamma_vanishes_for_huge_numbers(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *a = fac_full(FAC_SHAPE(3), 20, .dtype = FAC_F64), *x = fac_full(FAC_SHAPE(3), 1e300, .dtype = FAC_F64);
    assert_true(fac_item(fac_sum(fac_special_gammaincc(a, x))) == 0);
    assert_true(fac_item(fac_sum(fac_special_gammainc(a, x))) == 3);
    assert_no_error();
}

FAC_TEST_MAIN(FAC_TEST(S110_a_loop_fits_an_iterator_with_the_inputs_that_it_reads),
              FAC_TEST(S110_squares_of_truth_values_are_integers), FAC_TEST(an_element_is_computed_as_if_alone),
              FAC_TEST(a_value_beside_a_row_is_repeated), FAC_TEST(halves_are_computed_in_float),
              FAC_TEST(upper_gamma_vanishes_for_huge_numbers))
