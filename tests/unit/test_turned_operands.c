/* Operands that lie across each other, as a matrix beside a transposed one, give the bits that row-major ones give. Sides are above and
   below those of the blocks in which such operands are read, and not multiples of them. */
#include "support/support.h"
#include <facula/facula.h>
#include <math.h>
#include <stdlib.h>

typedef fac_tensor *(*make_fn)(fac_tensor *a, fac_tensor *b, fac_tensor *c);

static fac_tensor *sum(fac_tensor *a, fac_tensor *b, fac_tensor *c) { return (void)c, fac_add(a, b); }
static fac_tensor *product_of_three(fac_tensor *a, fac_tensor *b, fac_tensor *c) { return fac_addcmul(a, b, c); }
static fac_tensor *larger(fac_tensor *a, fac_tensor *b, fac_tensor *c) { return (void)c, fac_gt(a, b); }
static fac_tensor *selected(fac_tensor *a, fac_tensor *b, fac_tensor *c) { return fac_where(fac_gt(a, b), a, c); }
static fac_tensor *sum_of_two_dtypes(fac_tensor *a, fac_tensor *b, fac_tensor *c) {
    return (void)c, fac_add(a, fac_to_dtype(b, FAC_F64));
}
static fac_tensor *pairs(fac_tensor *a, fac_tensor *b, fac_tensor *c) {
    return (void)c, fac_stack(FAC_TENSORS(a, b), -1);
}
static fac_tensor *in_place(fac_tensor *a, fac_tensor *b, fac_tensor *c) {
    return (void)c, fac_add_(fac_clone(a, .memory_format = FAC_CONTIGUOUS), b);
}

/* The same elements, dimensions d and e lying in memory the other way round. */
static fac_tensor *turned(fac_tensor *t, int64_t d, int64_t e) {
    return fac_transpose(fac_contiguous(fac_transpose(t, d, e)), d, e);
}

static void agrees(make_fn make, const char *name, fac_tensor *const *row_major, int64_t d, int64_t e) {
    FAC_SCOPE(s);
    fac_tensor *want = make(row_major[0], row_major[1], row_major[2]);
    for (int mask = 1; mask < 8; mask++) {
        fac_tensor *t[3];
        for (int i = 0; i < 3; i++) t[i] = mask >> i & 1 ? turned(row_major[i], d, e) : row_major[i];
        fac_tensor *got = make(t[0], t[1], t[2]);
        if (fac_equal(got, want)) continue;
        print_error("%s, operands %d of %s are turned\n", name, mask, fac_dtype_name(fac_tensor_dtype(t[0])));
        fail();
    }
    assert_no_error();
}

static void results_do_not_depend_on_which_operands_are_turned(void **state) {
    (void)state;
    static const fac_dtype dtypes[] = {FAC_U8, FAC_I16, FAC_BF16, FAC_F32, FAC_I64, FAC_F64};
    for (size_t k = 0; k < sizeof dtypes / sizeof *dtypes; k++) {
        FAC_SCOPE(s);
        fac_tensor *matrices[3], *cubes[3];
        fac_manual_seed(k);
        for (int i = 0; i < 3; i++) {
            matrices[i] = fac_to_dtype(fac_mul(fac_rand(FAC_SHAPE(83, 131)), 100), dtypes[k]);
            cubes[i] = fac_to_dtype(fac_mul(fac_rand(FAC_SHAPE(19, 3, 37)), 100), dtypes[k]);
        }
        agrees(sum, "a sum", matrices, 0, 1);
        agrees(product_of_three, "addcmul", matrices, 0, 1);
        agrees(larger, "a comparison", matrices, 0, 1);
        agrees(selected, "a selection", matrices, 0, 1);
        agrees(sum_of_two_dtypes, "a sum of two dtypes", matrices, 0, 1);
        agrees(in_place, "a sum in place", matrices, 0, 1);
        agrees(pairs, "pairs", matrices, 0, 1);
        agrees(pairs, "pairs of cubes", cubes, 0, 2);
        agrees(sum, "a sum of cubes", cubes, 0, 2);
        agrees(product_of_three, "addcmul of cubes", cubes, 0, 2);
        const fac_dtype parts = dtypes[k] == FAC_F64 ? FAC_C128 : FAC_C64;
        for (int i = 0; i < 3; i++) matrices[i] = fac_to_dtype(matrices[i], parts);
        agrees(sum, "a sum of complex numbers", matrices, 0, 1);
        agrees(pairs, "pairs of complex numbers", matrices, 0, 1);
    }
}

/* Few different numbers, so that many are equal; of NaNs 1 in 50. */
static fac_tensor *repeating(int64_t rows, int64_t columns, bool nans) {
    fac_tensor *x = fac_floor(fac_mul(fac_rand(FAC_SHAPE(rows, columns), .dtype = FAC_F64), 9));
    return nans ? fac_masked_fill(x, fac_lt(fac_rand(FAC_SHAPE(rows, columns)), 0.02), NAN) : x;
}

static void same_places(fac_tensor *values, fac_tensor *places, fac_tensor *want_values, fac_tensor *want_places) {
    assert_true(fac_equal(fac_nan_to_num(values, .nan = 100.0), fac_nan_to_num(want_values, .nan = 100.0)));
    assert_true(fac_equal(places, want_places));
}

/* Rows are compared by other loops than columns. */
static void extremes_of_rows_of_doubles_are_those_of_columns(void **state) {
    (void)state;
    static const int64_t sizes[] = {1, 2, 7, 8, 16, 31, 33, 70};
    fac_manual_seed(5);
    for (size_t k = 0; k < 2 * sizeof sizes / sizeof *sizes; k++) {
        FAC_SCOPE(s);
        const int64_t n = sizes[k / 2];
        fac_tensor *x = repeating(45, n, k % 2), *columns = fac_contiguous(fac_t(x));
        const fac_cummax_result up = fac_cummax(x, 1), up_columns = fac_cummax(columns, 0);
        same_places(up.values, up.indices, fac_t(up_columns.values), fac_t(up_columns.indices));
        const fac_cummin_result down = fac_cummin(x, 1), down_columns = fac_cummin(columns, 0);
        same_places(down.values, down.indices, fac_t(down_columns.values), fac_t(down_columns.indices));
        const fac_max_dim_result most = fac_max_dim(x, 1), most_columns = fac_max_dim(columns, 0);
        same_places(most.values, most.indices, most_columns.values, most_columns.indices);
        const fac_min_dim_result least = fac_min_dim(x, 1), least_columns = fac_min_dim(columns, 0);
        same_places(least.values, least.indices, least_columns.values, least_columns.indices);
        same_places(fac_amax(x, .dim = 1), most.indices, most.values, fac_argmax(x, .dim = 1));
        same_places(fac_amin(x, .dim = 1), least.indices, least.values, fac_argmin(x, .dim = 1));
        assert_true(fac_equal(fac_nansum(x, .dim = 1), fac_nansum(columns, .dim = 0)));
        assert_true(k % 2 || fac_equal(fac_sum(x, .dim = 1), fac_sum(columns, .dim = 0)));
        assert_no_error();
    }
}

/* Of the first elements and of all others. */
static void one_element_tells_turned_tensors_apart(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = fac_rand(FAC_SHAPE(70, 90)), *y = turned(x, 0, 1);
    assert_true(fac_equal(x, y));
    static const int64_t at[][2] = {{0, 0}, {0, 63}, {0, 64}, {69, 89}};
    for (size_t k = 0; k < sizeof at / sizeof *at; k++) {
        fac_tensor *z = turned(x, 0, 1), *one = fac_select(fac_select(z, 0, at[k][0]), 0, at[k][1]);
        fac_add_(one, 1);
        assert_false(fac_equal(x, z));
        assert_true(fac_equal(fac_argmax(fac_sub(z, x)), fac_argmax(fac_contiguous(fac_sub(z, x)))));
    }
    assert_no_error();
}

/* Element by element, of every size of element; sides are below, at and above those of squares and blocks. */
static void turned_copies_have_every_element(void **state) {
    (void)state;
    static const fac_dtype dtypes[] = {FAC_U8, FAC_I16, FAC_I32, FAC_I64};
    static const int64_t sides[][2] = {{16, 16}, {17, 40}, {63, 65}, {64, 129}, {100, 31}, {200, 70}};
    for (size_t k = 0; k < sizeof sides / sizeof *sides; k++)
        for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++) {
            FAC_SCOPE(s);
            const int64_t n = sides[k][0], m = sides[k][1];
            fac_tensor *x = fac_to_dtype(fac_fmod(fac_arange((double)(2 * n * m)), 251), dtypes[d]);
            fac_tensor *t = fac_contiguous(fac_permute(fac_reshape(x, FAC_INTS(2, n, m)), FAC_INTS(0, 2, 1)));
            int64_t *got = malloc((size_t)(2 * n * m) * sizeof *got);
            assert_non_null(got);
            assert_ok(fac_tensor_read(t, FAC_I64, got, (size_t)(2 * n * m)));
            for (int64_t b = 0; b < 2; b++)
                for (int64_t i = 0; i < m; i++)
                    for (int64_t j = 0; j < n; j++)
                        assert_int_equal(got[(b * m + i) * n + j], (b * n * m + j * m + i) % 251);
            free(got);
        }
}

FAC_TEST_MAIN(FAC_TEST(turned_copies_have_every_element), FAC_TEST(results_do_not_depend_on_which_operands_are_turned),
              FAC_TEST(extremes_of_rows_of_doubles_are_those_of_columns),
              FAC_TEST(one_element_tells_turned_tensors_apart))
