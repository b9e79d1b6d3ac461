/* What an iterator is told when it is built: which dtypes may meet, and what becomes of an output of another shape. The dtypes are
   PyTorch's tables. Reductions are planned by iter/reduction.h: test_nest.c. */
#include "ops/structured.h"

#include "support/support.h"
#include <facula/facula.h>

#include "data/dtype_tables.h"

static fac_tensor *make(fac_dtype d, fac_ints sizes) {
    fac_tensor *t = fac_empty(sizes, .dtype = d);
    assert_no_error();
    return fac__header(t);
}
#define EMPTY(d, ...) make((d), FAC_INTS(__VA_ARGS__))

/* ---- the dtype in which inputs meet ------------------------------------------------------------------------------- */

static fac_status plan_2(fac_iter *it, uint32_t options, fac_tensor *a, fac_tensor *b) {
    fac_iter_begin(it, options);
    FAC_TRY(fac_iter_out(it, NULL));
    FAC_TRY(fac_iter_in(it, a));
    FAC_TRY(fac_iter_in(it, b));
    return fac_iter_plan(it);
}

static void check_pair(fac_dtype a, fac_dtype b) {
    FAC_SCOPE(s);
    fac_iter it;
    fac_tensor *x = EMPTY(a, 2), *y = EMPTY(b, 2), *zero = make(b, (fac_ints){0});
    const fac_dtype common = (fac_dtype)promoted[a - 1][b - 1];
    assert_ok(plan_2(&it, FAC_ITER_PROMOTE, x, y));
    assert_int_equal(it.common, common);
    assert_ok(plan_2(&it, FAC_ITER_PROMOTE | FAC_ITER_INT_TO_FLOAT, x, y));
    assert_int_equal(it.common, common <= FAC_I64 ? FAC_F32 : common);
    assert_ok(plan_2(&it, FAC_ITER_PROMOTE, x, zero));
    assert_int_equal(it.common, with_zero_dim[a - 1][b - 1]);
    assert_ok(plan_2(&it, FAC_ITER_ANY_DTYPE, x, y));
    assert_int_equal(it.common, FAC_DTYPE_DEFAULT);
    if (a == b) {
        assert_ok(plan_2(&it, 0, x, y));
        assert_int_equal(it.common, a);
        return;
    }
    char both[64];
    snprintf(both, sizeof both, "same dtype, but found %s and %s", fac_dtype_name(a), fac_dtype_name(b));
    assert_int_equal(plan_2(&it, 0, x, y), FAC_ERR_DTYPE);
    assert_error(FAC_ERR_DTYPE, both);
}

static void S110_inputs_of_every_two_dtypes_meet_or_are_refused_as_asked(void **state) {
    (void)state;
    for (int a = 1; a < FAC_DTYPE_COUNT; a++)
        for (int b = 1; b < FAC_DTYPE_COUNT; b++) check_pair((fac_dtype)a, (fac_dtype)b);
}

static void S110_a_number_meets_a_tensor_of_every_dtype(void **state) {
    (void)state;
    const double parts[2] = {1, 2};
    const fac_scalar numbers[] = {
        fac_scalar_b_(true), fac_scalar_i_(1), fac_scalar_f_(1.5), {(int64_t)(uintptr_t)parts, FAC_KIND_COMPLEX}};
    for (int d = 1; d < FAC_DTYPE_COUNT; d++)
        for (size_t k = 0; k < FAC_COUNT(numbers); k++) {
            FAC_SCOPE(s);
            fac_iter it;
            fac_iter_begin(&it, FAC_ITER_PROMOTE);
            assert_ok(fac_iter_out(&it, NULL));
            assert_ok(fac_iter_in(&it, EMPTY((fac_dtype)d, 2)));
            assert_ok(fac_iter_scalar(&it, numbers[k]));
            assert_ok(fac_iter_plan(&it));
            assert_int_equal(it.common, with_number[d - 1][0][k]);
        }
}

/* An output's dtype has no say, and a dtype of the caller's may be declared in place of the common one. */
static void S110_outputs_take_the_common_dtype_or_the_one_declared(void **state) {
    (void)state;
    FAC_SCOPE(s);
    const fac_dtype declared[] = {0, FAC_BOOL, FAC_C128};
    for (size_t i = 0; i < FAC_COUNT(declared); i++) {
        fac_structured f;
        fac_call_info c = {0};
        fac__structured_begin(&f, &c, FAC_FUNCTIONAL, 1, NULL);
        fac_iter_begin(&f.iter, FAC_ITER_PROMOTE);
        assert_ok(fac_iter_out(&f.iter, NULL));
        assert_ok(fac_iter_in(&f.iter, EMPTY(FAC_I32, 2, 1)));
        assert_ok(fac_iter_in(&f.iter, EMPTY(FAC_F64, 3)));
        assert_ok(fac_out_declare_iter(&f, declared[i]));
        assert_int_equal(f.iter.common, FAC_F64);
        assert_int_equal(f.out[0]->dtype, declared[i] ? declared[i] : FAC_F64);
        assert_true(fac__has_sizes(f.out[0], (int64_t[]){2, 3}, 2));
        fac__unref(f.out[0]);
    }
}

/* ---- outputs that are resized --------------------------------------------------------------------------------------- */

static char said[256];
static int warnings;
static void hear(void *context, const char *message) {
    (void)context;
    snprintf(said, sizeof said, "%s", message);
    warnings++;
}

/* Declares `given` as the output of an iterator over a and b, and ends the call. */
static fac_status declare(fac_tensor *given, fac_form form, fac_tensor *a, fac_tensor *b) {
    fac_structured f;
    fac_call_info c = {0};
    fac_tensor *result = NULL;
    fac__structured_begin(&f, &c, form, 1, &given);
    fac_iter_begin(&f.iter, FAC_ITER_PROMOTE);
    fac_status st = fac_iter_out(&f.iter, NULL);
    if (st == FAC_OK) st = fac_iter_in(&f.iter, a);
    if (st == FAC_OK) st = fac_iter_in(&f.iter, b);
    if (st == FAC_OK) st = fac_out_declare_iter(&f, 0);
    st = fac__structured_end(&f, st, &result);
    if (st == FAC_OK) assert_ptr_equal(result, given);
    fac__unref(result);
    return st;
}

static void assert_resized(fac_tensor *out, fac_tensor *a, fac_tensor *b, const int64_t *strides, int heard) {
    warnings = 0;
    assert_ok(declare(out, FAC_OUT, a, b));
    assert_true(fac__has_sizes(out, (int64_t[]){2, 3, 4}, 3));
    for (int d = 0; d < 3; d++) assert_int_equal(out->strides[d], strides[d]);
    assert_true(out->storage->bytes >= 24 * fac__item_size(out));
    assert_int_equal(warnings, heard);
}

static int hear_setup(void **state) {
    fac_set_warning_handler(hear, NULL);
    return support_setup(state);
}
static int hear_teardown(void **state) {
    fac_set_warning_handler(NULL, NULL);
    return support_teardown(state);
}

static void S110_an_output_of_another_shape_is_resized_with_a_warning(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *a = EMPTY(FAC_F32, 2, 1, 4), *b = EMPTY(FAC_F32, 3, 1);
    const int64_t row_major[] = {12, 4, 1};
    assert_resized(EMPTY(FAC_F32, 5), a, b, row_major, 1);
    assert_non_null(strstr(said, "from shape [5] to [2, 3, 4]"));
    assert_resized(EMPTY(FAC_F64, 100), a, b, row_major, 1); /* keeps its own dtype */
    assert_resized(EMPTY(FAC_F32, 0), a, b, row_major, 0);   /* nothing is lost */
    assert_resized(EMPTY(FAC_F32, 2, 3, 4), a, b, row_major, 0);
}

static void S110_a_resized_output_follows_the_order_of_the_inputs(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *a = fac__header(fac_permute(fac_empty(FAC_SHAPE(3, 4, 2)), FAC_INTS(2, 0, 1)));
    assert_resized(EMPTY(FAC_F32, 1), a, a, (int64_t[]){1, 8, 2}, 1);
    assert_resized(EMPTY(FAC_F32, 2, 3, 4), a, a, (int64_t[]){12, 4, 1}, 0); /* fits: left as it is */
}

static void S110_an_output_that_cannot_be_resized_is_left_alone(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *a = EMPTY(FAC_F32, 2, 3, 4), *small = EMPTY(FAC_F32, 3, 4), *whole = EMPTY(FAC_I32, 5);
    warnings = 0;
    assert_int_equal(declare(small, FAC_INPLACE, a, a), FAC_ERR_SHAPE);
    assert_error(FAC_ERR_SHAPE, "output with shape [3, 4] doesn't match the broadcast shape [2, 3, 4]");
    assert_int_equal(declare(whole, FAC_OUT, a, a), FAC_ERR_DTYPE);
    assert_error(FAC_ERR_DTYPE, "float32 can't be cast to the desired output type int32");
    assert_true(fac__has_sizes(small, (int64_t[]){3, 4}, 2));
    assert_true(fac__has_sizes(whole, (int64_t[]){5}, 1));
    assert_int_equal(warnings, 0);
}
#define HEAR_TEST(name) cmocka_unit_test_setup_teardown(name, hear_setup, hear_teardown)

FAC_TEST_MAIN(FAC_TEST(S110_inputs_of_every_two_dtypes_meet_or_are_refused_as_asked),
              FAC_TEST(S110_a_number_meets_a_tensor_of_every_dtype),
              FAC_TEST(S110_outputs_take_the_common_dtype_or_the_one_declared),
              HEAR_TEST(S110_an_output_of_another_shape_is_resized_with_a_warning),
              HEAR_TEST(S110_a_resized_output_follows_the_order_of_the_inputs),
              HEAR_TEST(S110_an_output_that_cannot_be_resized_is_left_alone))
