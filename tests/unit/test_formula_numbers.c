/* Arithmetic of numbers in generated gradient formulas: whole while it fits, else floating; complex if either side is. */
#include "core/scalar.h"
#include "support/support.h"
#include <complex.h>
#include <facula/facula.h>

#include "ops/call.h"

typedef fac_scalar (*binary)(fac_scalar, fac_scalar, double[2]);

static void assert_whole(fac_scalar a, int64_t expected) {
    assert_int_equal(a.kind, FAC_KIND_INT);
    assert_int_equal(a.bits, expected);
}

static void assert_floating(fac_scalar a, double expected) {
    assert_int_equal(a.kind, FAC_KIND_FLOAT);
    assert_true(fac__scalar_f64(a) == expected);
}

static void assert_complex(fac_scalar a, double complex expected) {
    double z[2];
    assert_int_equal(a.kind, FAC_KIND_COMPLEX);
    fac__scalar_c128(a, z);
    assert_true(cabs(z[0] + z[1] * I - expected) < 1e-15);
}

static void formula_numbers_stay_whole_while_they_fit(void **state) {
    (void)state;
    double r[2];
    assert_whole(fac__scalar_add(FAC_SCALAR(5), FAC_SCALAR(-7), r), -2);
    assert_whole(fac__scalar_sub(FAC_SCALAR(5), FAC_SCALAR(-7), r), 12);
    assert_whole(fac__scalar_mul(FAC_SCALAR(5), FAC_SCALAR(-7), r), -35);
    assert_whole(fac__scalar_neg(FAC_SCALAR(5), r), -5);
    assert_whole(fac__scalar_add(FAC_SCALAR(true), FAC_SCALAR(true), r), 2);
    assert_floating(fac__scalar_div(FAC_SCALAR(7), FAC_SCALAR(2), r), 3.5);
}

static void formula_numbers_that_do_not_fit_become_floating(void **state) {
    (void)state;
    double r[2];
    const double two_63 = 9223372036854775808.0;
    assert_floating(fac__scalar_add(FAC_SCALAR(INT64_MAX), FAC_SCALAR(1), r), two_63);
    assert_floating(fac__scalar_sub(FAC_SCALAR(INT64_MIN), FAC_SCALAR(1), r), -two_63);
    assert_floating(fac__scalar_mul(FAC_SCALAR(INT64_MAX), FAC_SCALAR(2), r), 2 * two_63);
    assert_floating(fac__scalar_neg(FAC_SCALAR(INT64_MIN), r), two_63);
}

static void formula_numbers_mix_kinds(void **state) {
    (void)state;
    double r[2];
    const double complex z = 1 + 2 * I, w = -3 + 0.5 * I;
    const fac_scalar a = fac_scalar_c_((double[]){1, 2}), b = fac_scalar_c_((double[]){-3, 0.5});
    assert_floating(fac__scalar_add(FAC_SCALAR(2), FAC_SCALAR(0.5), r), 2.5);
    assert_floating(fac__scalar_mul(FAC_SCALAR(2.5), FAC_SCALAR(2), r), 5);
    assert_floating(fac__scalar_sub(FAC_SCALAR(2.5), FAC_SCALAR(2), r), 0.5);
    assert_complex(fac__scalar_add(a, b, r), z + w);
    assert_complex(fac__scalar_sub(a, b, r), z - w);
    assert_complex(fac__scalar_mul(a, b, r), z * w);
    assert_complex(fac__scalar_div(a, b, r), z / w);
    assert_complex(fac__scalar_neg(a, r), -z);
    assert_complex(fac__scalar_mul(FAC_SCALAR(2), a, r), 2 * z);
    assert_complex(fac__scalar_div(a, FAC_SCALAR(0.5), r), z / 0.5);
}

static void formula_numbers_conjugate_and_compare(void **state) {
    (void)state;
    double r[2];
    const fac_scalar a = fac_scalar_c_((double[]){1, 2}), real = fac_scalar_c_((double[]){4, 0});
    assert_complex(fac__scalar_conj(a, r), 1 - 2 * I);
    assert_whole(fac__scalar_conj(FAC_SCALAR(3), r), 3);
    assert_true(fac__scalar_is(real, 4));
    assert_true(fac__scalar_is(FAC_SCALAR(4), 4) && fac__scalar_is(FAC_SCALAR(4.0), 4));
    assert_false(fac__scalar_is(a, 1));
}

static void formula_lists_count_from_the_end_too(void **state) {
    (void)state;
    const fac_ints l = FAC_INTS(10, 20, 30);
    assert_int_equal(fac__at(l, 0), 10);
    assert_int_equal(fac__at(l, -1), 30);
    assert_int_equal(fac__at(l, -3), 10);
    assert_no_error();
    assert_int_equal(fac__at(l, 3), 0);
    assert_error(FAC_ERR_INDEX, "index 3 of a list of 3");
    assert_int_equal(fac__at(l, -4), 0);
    assert_error(FAC_ERR_INDEX, "index -4 of a list of 3");
}

FAC_TEST_MAIN(FAC_TEST(formula_numbers_stay_whole_while_they_fit),
              FAC_TEST(formula_numbers_that_do_not_fit_become_floating), FAC_TEST(formula_numbers_mix_kinds),
              FAC_TEST(formula_numbers_conjugate_and_compare), FAC_TEST(formula_lists_count_from_the_end_too))
