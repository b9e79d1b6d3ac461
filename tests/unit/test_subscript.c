/* Python's subscripts as C callers write them, and what is refused, with the place of the fault. What PyTorch makes of many of
   them is replayed by test_subscript_cases.c. */
#include "support/support.h"
#include <facula/facula.h>

static fac_tensor *cube(void) { return fac_reshape(fac_arange(24), FAC_SHAPE(2, 3, 4)); }

static fac_tensor *longs(int64_t a, int64_t b) {
    const int64_t v[] = {a, b};
    return fac_tensor_from(v, FAC_I64, FAC_SHAPE(2));
}

static void assert_numbers(fac_tensor *t, const double *wanted, size_t n) {
    double got[32];
    assert_no_error();
    assert_ok(fac_tensor_read(t, FAC_F64, got, n));
    for (size_t i = 0; i < n; i++) assert_true(got[i] == wanted[i]);
}
#define ASSERT_NUMBERS(t, ...) \
    assert_numbers(t, (const double[]){__VA_ARGS__}, sizeof((const double[]){__VA_ARGS__}) / sizeof(double))

static void subscript_takes_tensors_and_ints_in_order(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = cube();
    ASSERT_NUMBERS(fac_at(x, "%, 0, %", FAC_TENSORS(longs(0, 1), longs(3, -1))), 3, 15);
    ASSERT_NUMBERS(fac_at(x, "#, #:, #", .ints = FAC_INTS(1, 1, -2)), 18, 22);
    ASSERT_NUMBERS(fac_at(x, "#, %, 0", FAC_TENSORS(longs(2, 0)), FAC_INTS(-1)), 20, 12);
    ASSERT_NUMBERS(fac_at(x, " 1 ,\t-1, :: +2 , "), 20, 22);
}

static void subscript_makes_views_without_tensors(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = cube(), *index = longs(0, 1);
    const char *const views[] = {"...", ":", "0", "None", "1:, ::2, ..., None, -1"};
    for (size_t i = 0; i < FAC_COUNT(views); i++) {
        fac_tensor *t = fac_at(x, views[i]);
        assert_non_null(t);
        assert_true(t != x && fac_is_alias_of(t, x));
    }
    assert_false(fac_is_alias_of(fac_at(x, "%", FAC_TENSORS(index)), x));
}

static void subscript_assigns_into_the_graph(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *w = fac_set_requires_grad(fac_tensor_of(1, 2, 3, 4), true);
    fac_tensor *v = fac_set_requires_grad(fac_tensor_of(5, 6), true);
    fac_tensor *y = fac_mul(w, 10);
    assert_non_null(fac_at_put_(y, "::2", v));
    assert_non_null(fac_at_put_(y, "%", 0, FAC_TENSORS(fac_gt(y, 35))));
    ASSERT_NUMBERS(y, 5, 20, 6, 0);
    assert_ok(fac_backward(fac_sum(fac_mul(y, y))));
    ASSERT_NUMBERS(fac_grad_of(w), 0, 400, 0, 0);
    ASSERT_NUMBERS(fac_grad_of(v), 10, 12);
}

static void subscript_number_takes_the_dtype_of_the_tensor(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = cube();
    assert_true(fac_at_put_(x, "0, 0, %", 2.5, FAC_TENSORS(longs(0, 1))) == x);
    assert_true(fac_at_put_(x, "0, 0, 2:", -1.5) == x);
    assert_int_equal(fac_tensor_dtype(x), FAC_I64);
    ASSERT_NUMBERS(fac_at(x, "0, 0"), 2, 2, -1, -1);
}

/* ---- what is refused ------------------------------------------------------------------------------------------------------- */

static void subscript_faults_name_the_column(void **state) {
    (void)state;
    static const struct {
        const char *text;
        fac_status code;
        const char *message;
    } faults[] = {
        {"", FAC_ERR_ARGUMENT, "an index is missing, at column 1 of \"\""},
        {"0,,1", FAC_ERR_ARGUMENT, "an index is missing, at column 3 of \"0,,1\""},
        {"0, 1, ,", FAC_ERR_ARGUMENT, "an index is missing, at column 7"},
        {"0 1", FAC_ERR_ARGUMENT, "a ',' or the end should stand in place of '1', at column 3"},
        {"0, 2.5", FAC_ERR_ARGUMENT, "in place of '.', at column 5"},
        {"0, x", FAC_ERR_ARGUMENT, "not 'x', at column 4"},
        {"Nonesuch", FAC_ERR_ARGUMENT, "not 'N', at column 1"},
        {"0, True", FAC_ERR_ARGUMENT, "a truth value is no index; give a mask as a tensor, '%', at column 4"},
        {"False", FAC_ERR_ARGUMENT, "a truth value is no index"},
        {"..., 0, ...", FAC_ERR_ARGUMENT, "there may be only one '...', at column 9"},
        {"::0", FAC_ERR_ARGUMENT, "the step of a slice should be positive, but is 0, at column 3"},
        {"0, ::-1", FAC_ERR_ARGUMENT, "but is -1, at column 6"},
        {"1:2:3:4", FAC_ERR_ARGUMENT, "in place of ':', at column 6"},
        {"-", FAC_ERR_ARGUMENT, "a sign should stand before a number, at column 2"},
        {"0, 9223372036854775808", FAC_ERR_OVERFLOW, "a number does not fit 64 bits, at column 4"},
        {"-9223372036854775809:", FAC_ERR_OVERFLOW, "a number does not fit 64 bits, at column 2"},
        {"%", FAC_ERR_ARGUMENT, "there are more '%' than the 0 tensors given, at column 1"},
        {"0, :#", FAC_ERR_ARGUMENT, "there are more '#' than the 0 ints given, at column 5"},
        {"0, 3", FAC_ERR_INDEX, "index 3 is out of bounds for dimension 1 with size 3, at column 4"},
        {"..., -5", FAC_ERR_INDEX, "index -5 is out of bounds for dimension 2 with size 4, at column 6"},
        {"None, -9223372036854775808", FAC_ERR_INDEX, "index -9223372036854775808 is out of bounds for dimension 0"},
        {"0, 0, None, 0, 0", FAC_ERR_INDEX, "too many indices for a tensor of 3 dimensions, at column 16"},
    };
    FAC_SCOPE(s);
    fac_tensor *x = cube();
    for (size_t i = 0; i < FAC_COUNT(faults); i++) {
        assert_null(fac_at(x, faults[i].text));
        assert_error(faults[i].code, faults[i].message);
        assert_null(fac_at_put_(x, faults[i].text, 0));
        assert_error(faults[i].code, faults[i].message);
    }
    assert_true(fac_equal(x, cube()));
}

static void subscript_faults_of_tensors_are_refused(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = cube(), *mask = fac_gt(cube(), 3);
    assert_null(fac_at(x, "0", FAC_TENSORS(mask)));
    assert_error(FAC_ERR_ARGUMENT, "1 tensors are given, but \"0\" has 0 '%'");
    assert_null(fac_at(x, "0, #", .ints = FAC_INTS(1, 2)));
    assert_error(FAC_ERR_ARGUMENT, "2 ints are given, but \"0, #\" has 1 '#'");
    assert_null(fac_at(x, "::#", .ints = FAC_INTS(-1)));
    assert_error(FAC_ERR_ARGUMENT, "should be positive, but is -1, at column 3");
    assert_null(fac_at(x, "%", FAC_TENSORS(NULL)));
    assert_error(FAC_ERR_ARGUMENT, "tensors");
    assert_null(fac_at(x, "0, %", FAC_TENSORS(fac_rand(FAC_SHAPE(2)))));
    assert_error(FAC_ERR_DTYPE, "an index tensor holds integers or truth values, not float32, at column 4");
    assert_null(fac_at(x, "%, 0", FAC_TENSORS(mask)));
    assert_error(FAC_ERR_INDEX, "too many indices for a tensor of 3 dimensions, at column 4");
}

static void subscript_masks_of_another_shape_are_refused(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = cube(), *mask = fac_gt(fac_ones(FAC_SHAPE(3, 3)), 0);
    assert_null(fac_at(x, ":, %", FAC_TENSORS(mask)));
    assert_error(FAC_ERR_SHAPE, "a mask of shape [3, 3] does not fit dimension 2, which has size 4, at column 4");
}

static void subscript_longer_than_any_tensor_is_refused(void **state) {
    (void)state;
    char text[2 * 600];
    FAC_SCOPE(s);
    for (size_t i = 0; i < sizeof text; i += 2) memcpy(text + i, "0,", 2);
    text[sizeof text - 1] = 0;
    assert_null(fac_at(cube(), text));
    assert_error(FAC_ERR_ARGUMENT, "there are more than 129 indices");
    char news[6 * 62];
    for (size_t i = 0; i < sizeof news; i += 6) memcpy(news + i, "None, ", 6);
    news[sizeof news - 1] = 0;
    assert_null(fac_at(cube(), news));
    assert_error(FAC_ERR_SHAPE, "a tensor has at most 64 dimensions");
    news[6 * 61] = 0;
    assert_int_equal(fac_tensor_ndim(fac_at(cube(), news)), 64);
}

static fac_status read_and_assign(void *context) {
    (void)context;
    FAC_SCOPE(s);
    fac_tensor *x = cube();
    if (!fac_at(x, "%, None, 1:", FAC_TENSORS(longs(0, 1)))) return fac_error();
    if (!fac_at_put_(x, "..., #", -1, .ints = FAC_INTS(0))) return fac_error();
    return fac_at_put_(x, "%", 5, FAC_TENSORS(fac_gt(x, 3))) ? FAC_OK : fac_error();
}

static void subscript_survives_failing_allocations(void **state) {
    (void)state;
    support_fail_each_allocation(read_and_assign, NULL);
}

FAC_TEST_MAIN(FAC_TEST(subscript_takes_tensors_and_ints_in_order), FAC_TEST(subscript_makes_views_without_tensors),
              FAC_TEST(subscript_assigns_into_the_graph), FAC_TEST(subscript_number_takes_the_dtype_of_the_tensor),
              FAC_TEST(subscript_faults_name_the_column), FAC_TEST(subscript_faults_of_tensors_are_refused),
              FAC_TEST(subscript_masks_of_another_shape_are_refused),
              FAC_TEST(subscript_longer_than_any_tensor_is_refused), FAC_TEST(subscript_survives_failing_allocations))
