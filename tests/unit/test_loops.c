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

FAC_TEST_MAIN(FAC_TEST(S110_a_loop_fits_an_iterator_with_the_inputs_that_it_reads),
              FAC_TEST(S110_squares_of_truth_values_are_integers))
