/* View operators: sizes, strides, aliasing, errors, gradients. */
#include "difference_cases.h"

/* ---- the example of a 2 x 2 matrix of int32 ---- */

static fac_tensor *matrix(void) { return fac_tensor_from((const int32_t[]){1, 2, 3, 4}, FAC_I32, FAC_INTS(2, 2)); }

static void sizes_are(fac_tensor *t, fac_ints sizes, fac_ints strides, int64_t offset) {
    assert_no_error();
    assert_non_null(t);
    assert_int_equal(fac_tensor_ndim(t), sizes.n);
    for (size_t d = 0; d < sizes.n; d++) {
        assert_int_equal(fac_tensor_size(t, (int64_t)d), sizes.v[d]);
        assert_int_equal(fac_tensor_stride(t, (int64_t)d), strides.v[d]);
    }
    assert_int_equal(fac_tensor_offset(t), offset);
}

static void S003_select_of_a_column_copies_nothing(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *a = matrix(), *column = fac_select(a, 1, 0);
    sizes_are(column, FAC_INTS(2), FAC_INTS(2), 0);
    assert_ptr_equal(fac_tensor_data(column), fac_tensor_data(a));
    assert_true(fac_is_alias_of(column, a));
    assert_values(column, 1, 3);
}

static void S004_select_of_a_row_starts_at_an_offset(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *a = matrix(), *row = fac_select(a, 0, 1);
    sizes_are(row, FAC_INTS(2), FAC_INTS(1), 2);
    assert_ptr_equal(fac_tensor_data(row), (char *)fac_tensor_data(a) + 8);
    assert_values(row, 3, 4);
}

static void S005_a_range_keeps_the_dimension_an_index_drops_it(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *a = matrix();
    sizes_are(fac_slice(a, 1, .start = 0, .end = 1), FAC_INTS(2, 1), FAC_INTS(2, 1), 0);
    sizes_are(fac_slice(a, 0, .start = 1, .end = 2), FAC_INTS(1, 2), FAC_INTS(2, 1), 2);
    sizes_are(fac_select(a, 0, -1), FAC_INTS(2), FAC_INTS(1), 2);
}

static void S006_writes_show_through_every_view(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *a = matrix(), *column = fac_select(a, 1, 1), *turned = fac_t(a);
    fac_fill_(column, 9);
    assert_values(a, 1, 9, 3, 9);
    assert_values(turned, 1, 3, 9, 9);
    assert_int_equal(fac_tensor_version(a), fac_tensor_version(column));
    assert_true(fac_tensor_version(a) > 0);
}

/* Fills a view of these sizes and strides, and looks at the whole memory: the view's places, and no others, are set. */
static void fill_sets_places(const int64_t *sizes, const int64_t *strides, size_t ndim, int64_t offset) {
    int64_t extent = 1, numel = 1;
    for (size_t d = 0; d < ndim; d++) extent += (sizes[d] - 1) * strides[d], numel *= sizes[d];
    fac_tensor *memory = fac_zeros(FAC_SHAPE(offset + extent + 1), .dtype = FAC_U8);
    assert_non_null(fac_fill_(
        fac_as_strided(memory, fac_ints_of(sizes, ndim), fac_ints_of(strides, ndim), .storage_offset = offset), 7));
    uint8_t *expected = test_calloc((size_t)(offset + extent + 1), 1);
    for (int64_t i = 0; i < numel; i++) {
        int64_t at = offset;
        for (int64_t rest = i, d = (int64_t)ndim - 1; d >= 0; rest /= sizes[d--]) at += rest % sizes[d] * strides[d];
        expected[at] = 7;
    }
    assert_memory_equal(fac_tensor_data(memory), expected, (size_t)(offset + extent + 1));
    test_free(expected);
}

static void S006_a_fill_sets_the_places_of_a_view_however_they_overlap(void **state) {
    (void)state;
    uint32_t random = 1;
    for (int round = 0; round < 3000; round++) {
        FAC_SCOPE(s);
        int64_t sizes[5], strides[5];
        for (int d = 0; d < 5; d++) {
            random = random * 1664525u + 1013904223u;
            sizes[d] = 1 + (random >> 20) % 4;
            strides[d] = (random >> 24) % 8;
        }
        fill_sets_places(sizes, strides, (size_t)round % 6, round % 3);
    }
    FAC_SCOPE(s);
    fill_sets_places((int64_t[]){4, 1 << 18}, (int64_t[]){1000, 1}, 2, 5); /* large enough for several threads */
    fill_sets_places((int64_t[]){1 << 18, 3}, (int64_t[]){2, 4}, 2, 0);
}

static void E31_shapes_of_rows_columns_and_ranges(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *a = fac_randn(FAC_SHAPE(2, 2));
    sizes_are(fac_select(a, 1, 0), FAC_INTS(2), FAC_INTS(2), 0);
    sizes_are(fac_select(a, 0, 1), FAC_INTS(2), FAC_INTS(1), 2);
    sizes_are(fac_slice(a, 1, .end = 1), FAC_INTS(2, 1), FAC_INTS(2, 1), 0);
    sizes_are(fac_slice(a, 0, .start = 1), FAC_INTS(1, 2), FAC_INTS(2, 1), 2);
}

static void E32_addresses_of_a_column_are_two_elements_apart(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *column = fac_select(matrix(), 1, 0);
    char *first = fac_tensor_data(fac_select(column, 0, 0)), *second = fac_tensor_data(fac_select(column, 0, 1));
    assert_int_equal(second - first, 0x18 - 0x10);
    assert_int_equal(*(int32_t *)(void *)second, 3);
}

/* ---- S-013: sizes and strides as PyTorch gives them ---- */

static void S013_transpose_expand_squeeze_unsqueeze(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *a = fac_zeros(FAC_SHAPE(2, 1, 3));
    sizes_are(fac_transpose(a, 0, 2), FAC_INTS(3, 1, 2), FAC_INTS(1, 3, 3), 0);
    sizes_are(fac_permute(a, FAC_DIMS(2, 0, 1)), FAC_INTS(3, 2, 1), FAC_INTS(1, 3, 3), 0);
    sizes_are(fac_expand(a, FAC_SHAPE(4, -1, 5, -1)), FAC_INTS(4, 2, 5, 3), FAC_INTS(0, 3, 0, 1), 0);
    sizes_are(fac_squeeze_dim(a, 1), FAC_INTS(2, 3), FAC_INTS(3, 1), 0);
    sizes_are(fac_squeeze_dim(a, 0), FAC_INTS(2, 1, 3), FAC_INTS(3, 3, 1), 0);
    sizes_are(fac_unsqueeze(a, -1), FAC_INTS(2, 1, 3, 1), FAC_INTS(3, 3, 1, 1), 0);
    sizes_are(fac_t(fac_zeros(FAC_SHAPE(2, 3))), FAC_INTS(3, 2), FAC_INTS(1, 3), 0);
}

static void S013_reshape_views_when_it_can_and_copies_when_it_must(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *a = fac_reshape(fac_arange(6), FAC_SHAPE(2, 3)), *turned = fac_t(a);
    assert_true(fac_is_alias_of(fac_reshape(a, FAC_SHAPE(3, -1)), a));
    fac_tensor *copy = fac_reshape(turned, FAC_SHAPE(6));
    assert_false(fac_is_alias_of(copy, a));
    assert_values(copy, 0, 3, 1, 4, 2, 5);
    assert_null(fac_view(turned, FAC_SHAPE(6)));
    assert_error(FAC_ERR_SHAPE, "Use reshape instead");
    sizes_are(fac_view_as(a, fac_zeros(FAC_SHAPE(3, 2))), FAC_INTS(3, 2), FAC_INTS(2, 1), 0);
}

static void view_lists_cover_the_dimension(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *a = fac_arange(7);
    fac_tensors parts = fac_split(a, 3);
    assert_int_equal(parts.n, 3);
    assert_values(parts.v[2], 6);
    parts = fac_chunk(a, 4);
    assert_int_equal(parts.n, 4);
    assert_values(parts.v[1], 2, 3);
    parts = fac_tensor_split(a, 3);
    assert_values(parts.v[0], 0, 1, 2);
    assert_values(parts.v[2], 5, 6);
    parts = fac_unbind(a);
    assert_int_equal(parts.n, 7);
    assert_int_equal(fac_item_int(parts.v[5]), 5);
}

static void view_windows_overlap(void **state) {
    (void)state;
    FAC_SCOPE(s);
    assert_values(fac_unfold(fac_arange(5), 0, 3, 2), 0, 1, 2, 2, 3, 4);
    assert_values(fac_diagonal(matrix(), .offset = 1), 2);
}

/* ---- bad arguments ---- */

static void view_bad_sizes_are_errors(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *a = fac_zeros(FAC_SHAPE(2, 3));
    assert_null(fac_reshape(a, FAC_SHAPE(-1, -1)));
    assert_error(FAC_ERR_SHAPE, "");
    assert_null(fac_view(a, FAC_SHAPE((int64_t)1 << 32, (int64_t)1 << 32)));
    assert_error(FAC_ERR_SHAPE, "");
    assert_null(fac_expand(a, FAC_SHAPE((int64_t)1 << 62, 2, 3)));
    assert_error(FAC_ERR_OVERFLOW, "");
    assert_null(fac_expand(a, FAC_SHAPE(2, 4)));
    assert_error(FAC_ERR_SHAPE, "must match the existing size (3)");
    assert_null(fac_as_strided(a, FAC_SHAPE(2), FAC_INTS(1), .storage_offset = INT64_MAX - 9999));
    assert_error(FAC_ERR_SHAPE, "");
    assert_null(fac_as_strided(a, FAC_SHAPE(2), FAC_INTS(-1)));
    assert_error(FAC_ERR_SHAPE, "Negative strides");
}

static void view_bad_dims_and_indices_are_errors(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *a = fac_zeros(FAC_SHAPE(2, 3));
    assert_null(fac_select(a, 0, 2));
    assert_error(FAC_ERR_INDEX, "index 2 out of range for tensor of size [2, 3] at dimension 0");
    assert_null(fac_select(a, 2, 0));
    assert_error(FAC_ERR_INDEX, "Dimension out of range");
    assert_null(fac_permute(a, FAC_DIMS(0, 0)));
    assert_error(FAC_ERR_ARGUMENT, "duplicate");
    assert_null(fac_narrow(a, 1, 2, 2));
    assert_error(FAC_ERR_INDEX, "exceeds dimension size (3)");
    assert_null(fac_unfold(a, 1, 4, 1));
    assert_error(FAC_ERR_ARGUMENT, "maximum size for tensor at dimension 1 is 3");
    assert_int_equal(fac_split(a, 0).n, 0);
    assert_error(FAC_ERR_ARGUMENT, "split_size can only be 0");
}

static void view_of_other_dtypes_shares_bytes(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *z = fac_view_as_complex(fac_tensor_from((const float[]){1, 2, 3, 4}, FAC_F32, FAC_INTS(2, 2)));
    assert_int_equal(fac_tensor_dtype(z), FAC_C64);
    assert_values(fac_real(z), 1, 3);
    assert_values(fac_imag(z), 2, 4);
    fac_tensor *bits = fac_view_dtype(fac_tensor_of(1.0f), FAC_I32);
    assert_int_equal(fac_item_int(bits), 0x3f800000);
}

/* ---- gradients ---- */

DIFF_FN(g_permute, fac_permute(x, FAC_DIMS(2, 0, 1)))
DIFF_FN(g_transpose, fac_transpose(x, 0, 2))
DIFF_FN(g_view, fac_view(x, FAC_SHAPE(6, 4)))
DIFF_FN(g_reshape, fac_reshape(fac_transpose(x, 0, 2), FAC_SHAPE(-1)))
DIFF_FN(g_select, fac_select(x, 1, -1))
DIFF_FN(g_slice, fac_slice(x, 2, .start = 1, .step = 2))
DIFF_FN(g_expand, fac_expand(x, FAC_SHAPE(2, 2, 3, 4)))
DIFF_FN(g_squeeze, fac_squeeze(fac_unsqueeze(x, 1)))
DIFF_FN(g_diagonal, fac_diagonal(x, .offset = 1, .dim1 = 1, .dim2 = 2))
DIFF_FN(g_unfold, fac_unfold(x, 2, 2, 1))
DIFF_FN(g_as_strided, fac_as_strided(x, FAC_SHAPE(3, 2), FAC_INTS(1, 5), .storage_offset = 2))
DIFF_FN(g_as_strided_overlapping, fac_as_strided(x, FAC_SHAPE(3, 4), FAC_INTS(1, 1)))
DIFF_FN(g_as_strided_of_expanded,
        fac_as_strided(fac_expand(fac_select(x, 0, 0), FAC_SHAPE(2, 3, 4)), FAC_SHAPE(3, 2), FAC_INTS(4, 1)))
DIFF_FN(g_split, fac_mul(fac_split(x, 2, .dim = 2).v[1], 3.0))
DIFF_FN(g_split_with_sizes, fac_split_with_sizes(x, FAC_INTS(1, 3), .dim = 2).v[1])
DIFF_FN(g_unbind, fac_unbind(x, .dim = 1).v[2])
DIFF_FN(g_movedim, fac_movedim(x, 0, -1))
DIFF_FN(g_unflatten, fac_unflatten(x, 2, FAC_SHAPE(2, -1)))
DIFF_FN(g_alias, fac_alias(x))

static void view_gradients_agree_with_differences(void **state) {
    (void)state;
    FAC_SCOPE(s);
    static const difference_case cases[] = {
        DIFF_CASE(g_permute),
        DIFF_CASE(g_transpose),
        DIFF_CASE(g_view),
        DIFF_CASE(g_reshape),
        DIFF_CASE(g_select),
        DIFF_CASE(g_slice),
        DIFF_CASE(g_expand),
        DIFF_CASE(g_squeeze),
        DIFF_CASE(g_diagonal),
        DIFF_CASE(g_unfold),
        DIFF_CASE(g_as_strided),
        DIFF_CASE(g_as_strided_overlapping),
        DIFF_CASE(g_as_strided_of_expanded),
        DIFF_CASE(g_split),
        DIFF_CASE(g_split_with_sizes),
        DIFF_CASE(g_unbind),
        DIFF_CASE(g_movedim),
        DIFF_CASE(g_unflatten),
        DIFF_CASE(g_alias),
    };
    check_differences(cases, FAC_COUNT(cases), FAC_TENSORS(irregular(FAC_INTS(2, 3, 4), 0.3)));
}

DIFF_FN(g_slice_scatter, fac_slice_scatter(x, fac_slice(y, 1, .end = 2), .dim = 1, .start = 1, .end = 3))
DIFF_FN(g_select_scatter, fac_select_scatter(x, fac_select(y, 1, 0), 1, 2))
DIFF_FN(g_diagonal_scatter, fac_diagonal_scatter(x, fac_select(y, 1, 0)))
DIFF_FN(g_as_strided_scatter, fac_as_strided_scatter(x, fac_slice(y, 1, .end = 2), FAC_SHAPE(3, 2), FAC_INTS(1, 5)))

static void scatter_gradients_agree_with_differences(void **state) {
    (void)state;
    FAC_SCOPE(s);
    static const difference_case cases[] = {DIFF_CASE(g_slice_scatter), DIFF_CASE(g_select_scatter),
                                            DIFF_CASE(g_diagonal_scatter), DIFF_CASE(g_as_strided_scatter)};
    check_differences(cases, FAC_COUNT(cases),
                      FAC_TENSORS(irregular(FAC_INTS(3, 4), 0.1), irregular(FAC_INTS(3, 4), 2.0)));
}

/* ---- failing allocations ---- */

static fac_status use_views(void *context) {
    (void)context;
    FAC_SCOPE(s);
    fac_tensor *a = fac_zeros(FAC_SHAPE(2, 3, 1, 1, 2, 2));
    fac_tensors parts = fac_split(fac_reshape(fac_transpose(a, 0, 5), FAC_SHAPE(4, 6)), 2);
    fac_tensor *changed =
        fac_slice_scatter(fac_reshape(a, FAC_SHAPE(4, 6)), fac_ones(FAC_SHAPE(4, 1)), .dim = 1, .end = 1);
    return parts.n && changed ? FAC_OK : fac_error();
}

static void views_survive_failing_allocations(void **state) {
    (void)state;
    support_fail_each_allocation(use_views, NULL);
}

/* A size of zero beside sizes whose product is beyond 64 bits: views are as empty, and what would multiply them is refused. */
static void sizes_beside_a_zero_may_be_huge(void **state) {
    (void)state;
    FAC_SCOPE(s);
    const int64_t huge = INT64_C(1) << 40;
    fac_tensor *x = fac_expand(fac_zeros(FAC_SHAPE(1, 1, 0)), FAC_INTS(huge, huge, 0)), *y;
    assert_non_null(y = fac_unsqueeze(x, 0));
    assert_int_equal(fac_tensor_numel(y), 0);
    assert_non_null(y = fac_select(x, 0, -1));
    assert_int_equal(fac_tensor_numel(y), 0);
    assert_non_null(y = fac_slice(x, 0, .start = huge - 1));
    assert_int_equal(fac_tensor_size(y, 0), 1);
    assert_non_null(y = fac_diagonal(x, .offset = -(huge - 2)));
    assert_int_equal(fac_tensor_size(y, 1), 2);
    assert_null(fac_flatten(x, .end_dim = 1));
    assert_error(FAC_ERR_OVERFLOW, "flatten");
    assert_null(fac_matmul(x, fac_zeros(FAC_SHAPE(0, 3))));
    fac_error_clear();
    assert_null(fac_group_norm(fac_expand(fac_zeros(FAC_SHAPE(0, 2, 1, 1)), FAC_INTS(0, 2, huge, huge)), 2));
    assert_error(FAC_ERR_OVERFLOW, "too large");
}

FAC_TEST_MAIN(
    FAC_TEST(sizes_beside_a_zero_may_be_huge), FAC_TEST(S003_select_of_a_column_copies_nothing),
    FAC_TEST(S004_select_of_a_row_starts_at_an_offset), FAC_TEST(S005_a_range_keeps_the_dimension_an_index_drops_it),
    FAC_TEST(S006_writes_show_through_every_view), FAC_TEST(S006_a_fill_sets_the_places_of_a_view_however_they_overlap),
    FAC_TEST(E31_shapes_of_rows_columns_and_ranges), FAC_TEST(E32_addresses_of_a_column_are_two_elements_apart),
    FAC_TEST(S013_transpose_expand_squeeze_unsqueeze), FAC_TEST(S013_reshape_views_when_it_can_and_copies_when_it_must),
    FAC_TEST(view_lists_cover_the_dimension), FAC_TEST(view_windows_overlap), FAC_TEST(view_bad_sizes_are_errors),
    FAC_TEST(view_bad_dims_and_indices_are_errors), FAC_TEST(view_of_other_dtypes_shares_bytes),
    FAC_TEST(view_gradients_agree_with_differences), FAC_TEST(scatter_gradients_agree_with_differences),
    FAC_TEST(views_survive_failing_allocations))
