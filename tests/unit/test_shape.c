/* Operators that join, repeat, turn and pad. */
#include "difference_cases.h"

static fac_tensor *counting(int64_t rows, int64_t cols) {
    return fac_reshape(fac_arange(rows * cols), FAC_SHAPE(rows, cols));
}

/* ---- values: small enough to be checked by eye ---- */

static void shape_cat_joins_and_promotes(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *a = counting(2, 2), *b = fac_tensor_from((const float[]){0.5f, 1.5f}, FAC_F32, FAC_INTS(2, 1));
    fac_tensor *t = fac_cat(FAC_TENSORS(a, b), .dim = 1);
    assert_int_equal(fac_tensor_dtype(t), FAC_F32);
    assert_values(t, 0, 1, 0.5, 2, 3, 1.5);
    assert_values(fac_cat(FAC_TENSORS(a, fac_zeros(FAC_SHAPE(0), .dtype = FAC_I64))), 0, 1, 2, 3);
    assert_values(fac_stack(FAC_TENSORS(a, a), .dim = -1), 0, 0, 1, 1, 2, 2, 3, 3);
}

/* Turns shorter and longer than what is made at a time, of results that stay in the cache and that do not. */
static void shape_large_joins_hold_every_part(void **state) {
    (void)state;
    static const struct {
        int64_t rows, first, second;
    } sizes[] = {{9001, 1, 8},     {300, 40, 7000}, {1200001, 3, 2}, {1100, 3001, 5},
                 {2001, 17, 1711}, {9001, 1, 1},    {900001, 1, 1}};
    for (size_t i = 0; i < FAC_COUNT(sizes); i++) {
        FAC_SCOPE(s);
        const int64_t a = sizes[i].first, b = sizes[i].second;
        fac_tensor *x[3] = {counting(sizes[i].rows, a), fac_neg(counting(sizes[i].rows, b)),
                            fac_zeros(FAC_SHAPE(0), .dtype = FAC_I64)};
        fac_tensor *t = fac_cat(((fac_tensors){.v = x, .n = 3}), .dim = 1);
        assert_true(fac_equal(fac_narrow(t, 1, 0, a), x[0]));
        assert_true(fac_equal(fac_narrow(t, 1, a, b), x[1]));
        x[1] = fac_permute(fac_contiguous(fac_permute(x[1], FAC_DIMS(1, 0))), FAC_DIMS(1, 0));
        assert_true(fac_equal(fac_cat(FAC_TENSORS(x[0], x[1]), .dim = 1), t));
    }
}

/* Rows below and above a vector's length, next to each other and not, of every size of element. */
static void shape_flip_turns_short_rows(void **state) {
    (void)state;
    static const fac_dtype dtypes[] = {FAC_U8, FAC_I16, FAC_I32, FAC_I64, FAC_C128};
    static const int64_t lengths[] = {2, 3, 4, 5, 7, 8, 15, 16, 17, 31, 32, 33, 63, 64, 65};
    for (size_t d = 0; d < FAC_COUNT(dtypes); d++)
        for (size_t i = 0; i < FAC_COUNT(lengths); i++) {
            FAC_SCOPE(s);
            const int64_t n = lengths[i];
            int64_t back[65];
            for (int64_t k = 0; k < n; k++) back[k] = n - 1 - k;
            fac_tensor *x = fac_to_dtype(fac_randint(200, FAC_INTS(13, n + 3)), dtypes[d]),
                       *index = fac_tensor_from(back, FAC_I64, FAC_INTS(n)), *apart = fac_narrow(x, 1, 2, n),
                       *dense = fac_clone(apart, .memory_format = FAC_CONTIGUOUS),
                       *want = fac_index_select(dense, 1, index);
            assert_true(fac_equal(fac_flip(apart, FAC_DIMS(1)), want));
            assert_true(fac_equal(fac_flip(dense, FAC_DIMS(1)), want));
            assert_true(fac_equal(fac_flip(fac_flip(dense, FAC_DIMS(0, 1)), FAC_DIMS(0)), want));
        }
}

static fac_tensor *chunk_cat(fac_tensors l, int64_t dim, int64_t n) {
    fac_value args[] = {fac_value_tensors(l.v, l.n), fac_value_int(dim), fac_value_int(n)}, result = fac_value_none();
    fac_tensor *t = NULL;
    if (fac_call("aten::_chunk_cat", args, 3, &result) == FAC_OK) t = fac_value_as_tensor(result);
    if (t) t = fac_clone(t);
    fac_value_release(&args[0]);
    fac_value_release(&result);
    return t;
}

static void shape_chunk_cat_joins_pieces_and_fills_up(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *a = counting(5, 2), *b = fac_arange(3);
    fac_tensor *t = chunk_cat(FAC_TENSORS(a, b), 0, 2);
    assert_values(t, 0, 1, 2, 3, 4, 5, 0, 1, 6, 7, 8, 9, 0, 0, 2, 0);
    assert_int_equal(fac_tensor_size(t, 0), 2);
    t = chunk_cat(FAC_TENSORS(a), -1, 3);
    assert_values(t, 0, 1, 0, 2, 3, 0, 4, 5, 0, 6, 7, 0, 8, 9, 0);
    assert_int_equal(fac_tensor_size(t, 1), 3);
    assert_null(chunk_cat(FAC_TENSORS(a), 0, 0));
    assert_error(FAC_ERR_ARGUMENT, "positive num_chunks");
    assert_null(chunk_cat(FAC_TENSORS(a, b), -1, 2));
    assert_error(FAC_ERR_INDEX, "not negative");
    assert_null(chunk_cat(FAC_TENSORS(a, b), 1, 2));
    assert_error(FAC_ERR_INDEX, "dim < ndim");
    assert_null(chunk_cat(FAC_TENSORS(a, counting(4, 2)), 1, 2));
    assert_error(FAC_ERR_SHAPE, "equal sizes before dimension 1");
    assert_null(chunk_cat(FAC_TENSORS(a, fac_zeros(FAC_SHAPE(0, 2), .dtype = FAC_I64)), 0, 2));
    assert_error(FAC_ERR_SHAPE, "non-empty tensors");
    assert_null(chunk_cat(FAC_TENSORS(a), 0, INT64_MAX));
    assert_error(FAC_ERR_OVERFLOW, "num_chunks");
}

static void shape_cat_refuses_what_does_not_fit(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *a = counting(2, 2);
    assert_null(fac_cat(FAC_TENSORS(a, counting(2, 3))));
    assert_error(FAC_ERR_SHAPE, "Expected size 2 but got size 3 for tensor number 1");
    assert_null(fac_cat(FAC_TENSORS(a), .dim = 2));
    assert_error(FAC_ERR_INDEX, "");
    assert_null(fac_cat(((fac_tensors){.v = NULL, .n = 0})));
    assert_error(FAC_ERR_ARGUMENT, "non-empty list");
    assert_null(fac_stack(FAC_TENSORS(a, counting(2, 3))));
    assert_error(FAC_ERR_SHAPE, "equal size");
}

static void shape_repeats_and_tiles(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *a = fac_arange(2);
    assert_values(fac_repeat(a, FAC_INTS(2, 2)), 0, 1, 0, 1, 0, 1, 0, 1);
    assert_values(fac_tile(counting(2, 2), FAC_INTS(2)), 0, 1, 0, 1, 2, 3, 2, 3);
    assert_values(fac_repeat_interleave_self_int(a, 3), 0, 0, 0, 1, 1, 1);
    assert_null(fac_repeat(a, FAC_INTS((int64_t)1 << 62, 4)));
    assert_error(FAC_ERR_OVERFLOW, "");
}

static void shape_flips_rolls_and_turns(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *a = counting(2, 3);
    assert_values(fac_flip(a, FAC_DIMS(1)), 2, 1, 0, 5, 4, 3);
    assert_values(fac_flip(fac_t(a), FAC_DIMS(0, 1)), 5, 2, 4, 1, 3, 0);
    assert_values(fac_roll(a, FAC_INTS(1), .dims = FAC_DIMS(1)), 2, 0, 1, 5, 3, 4);
    assert_values(fac_roll(a, FAC_INTS(-1)), 1, 2, 3, 4, 5, 0);
    assert_values(fac_rot90(a), 2, 5, 1, 4, 0, 3);
}

static void shape_triangles_also_in_place(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *a = fac_ones(FAC_SHAPE(3, 3));
    assert_values(fac_triu(a, .diagonal = 1), 0, 1, 1, 0, 0, 1, 0, 0, 0);
    assert_values(fac_tril(a, .diagonal = -1), 0, 0, 0, 1, 0, 0, 1, 1, 0);
    fac_triu_(fac_t(a), .diagonal = 1);
    assert_values(a, 0, 0, 0, 1, 0, 0, 1, 1, 0);
}

/* Borders of many elements of each size, whose insides several threads copy. */
static void shape_pads_much_on_any_number_of_threads(void **state) {
    (void)state;
    static const fac_dtype dtypes[] = {FAC_I8, FAC_I16, FAC_I32, FAC_I64};
    const int was = fac_num_threads();
    for (size_t i = 0; i < FAC_COUNT(dtypes) * 4; i++) {
        FAC_SCOPE(s);
        const fac_dtype d = dtypes[i / 4];
        fac_tensor *x = fac_reshape(fac_arange(300 * 501, .dtype = FAC_I64), FAC_INTS(300, 501));
        fac_tensor *small = fac_to_dtype(x, d);
        assert_ok(fac_set_num_threads(1 + (int)(i % 4) * 2));
        fac_tensor *y = fac_constant_pad_nd(small, FAC_INTS(1, 2, 3, 4), .value = 7);
        assert_true(fac_equal(fac_narrow(fac_narrow(y, 0, 3, 300), 1, 1, 501), small));
        assert_true(fac_equal(fac_sub(fac_sum(fac_to_dtype(y, FAC_I64)), fac_sum(fac_to_dtype(small, FAC_I64))),
                              fac_mul(fac_ones(FAC_INTS(), .dtype = FAC_I64), 7 * (307 * 504 - 300 * 501))));
    }
    assert_ok(fac_set_num_threads(was));
}

static void shape_pads_in_every_mode(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *a = fac_reshape(fac_tensor_of(1, 2, 3), FAC_SHAPE(1, 1, 3));
    assert_values(fac_pad(a, FAC_INTS(1, 2), .value = 9), 9, 1, 2, 3, 9, 9);
    assert_values(fac_pad(a, FAC_INTS(2, 1), .mode = "reflect"), 3, 2, 1, 2, 3, 2);
    assert_values(fac_pad(a, FAC_INTS(2, 1), .mode = "replicate"), 1, 1, 1, 2, 3, 3);
    assert_values(fac_pad(a, FAC_INTS(2, 1), .mode = "circular"), 2, 3, 1, 2, 3, 1);
    assert_values(fac_constant_pad_nd(a, FAC_INTS(-1, 1)), 2, 3, 0);
    assert_null(fac_pad(a, FAC_INTS(3, 0), .mode = "reflect"));
    assert_error(FAC_ERR_SHAPE, "less than the corresponding input dimension");
    assert_null(fac_constant_pad_nd(a, FAC_INTS(-4, 0)));
    assert_error(FAC_ERR_SHAPE, "negative output size");
    assert_null(fac_constant_pad_nd(a, FAC_INTS(INT64_MAX, 0)));
    assert_error(FAC_ERR_OVERFLOW, "");
}

static void shape_diagonals_and_grids(void **state) {
    (void)state;
    FAC_SCOPE(s);
    assert_values(fac_diag(fac_tensor_of(1, 2), .diagonal = 1), 0, 1, 0, 0, 0, 2, 0, 0, 0);
    assert_values(fac_diag(counting(2, 3)), 0, 4);
    assert_int_equal(fac_item_int(fac_trace(counting(3, 3))), 12);
    fac_tensors grid = fac_meshgrid_indexing(FAC_TENSORS(fac_arange(2), fac_arange(3)), "xy");
    assert_int_equal(grid.n, 2);
    assert_values(grid.v[0], 0, 1, 0, 1, 0, 1);
    assert_values(grid.v[1], 0, 0, 1, 1, 2, 2);
}

/* A number has a say in the dtype only against other numbers, whether or not a gradient is wanted. */
static void shape_blocks_promote_as_they_are_given(void **state) {
    (void)state;
    for (int wants = 0; wants < 2; wants++) {
        FAC_SCOPE(s);
        fac_tensor *number = fac_full(FAC_SHAPE(), 3, .dtype = FAC_F64),
                   *block = fac_set_requires_grad(fac_ones(FAC_SHAPE(1, 2)), wants);
        fac_tensor *y = fac_block_diag(FAC_TENSORS(number, block));
        assert_int_equal(fac_tensor_dtype(y), FAC_F32);
        assert_values(fac_detach(y), 3, 0, 0, 0, 1, 1);
        y = fac_block_diag(FAC_TENSORS(number, fac_ones(FAC_SHAPE(1), .dtype = FAC_I32)));
        assert_int_equal(fac_tensor_dtype(y), FAC_F64);
    }
    FAC_SCOPE(s);
    fac_tensor *none = fac_block_diag((fac_tensors){NULL, 0});
    assert_no_error();
    assert_int_equal(fac_tensor_numel(none), 0);
    assert_int_equal(fac_tensor_size(none, 0), 1);
}

/* ---- gradients ---- */

DIFF_FN(d_cat, fac_cat(FAC_TENSORS(x, fac_mul(y, x), y), .dim = 1))
DIFF_FN(d_stack, fac_stack(FAC_TENSORS(x, y)))
DIFF_FN(d_repeat, fac_repeat(x, FAC_INTS(2, 1, 3)))
DIFF_FN(d_interleave, fac_repeat_interleave_self_int(x, 2, .dim = 0))
DIFF_FN(d_flip, fac_flip(x, FAC_DIMS(0, 1)))
DIFF_FN(d_roll, fac_roll(x, FAC_INTS(1, 2), .dims = FAC_DIMS(0, 1)))
DIFF_FN(d_roll_flat, fac_roll(x, FAC_INTS(5)))
DIFF_FN(d_rot90, fac_rot90(x, .k = 3))
DIFF_FN(d_pad, fac_constant_pad_nd(x, FAC_INTS(1, -1, -1, 2), .value = 3))
DIFF_FN(d_circular, fac_pad(fac_unsqueeze(x, 0), FAC_INTS(2, 3), .mode = "circular"))
DIFF_FN(d_triu, fac_triu(x))
DIFF_FN(d_tril, fac_tril(x, .diagonal = 1))
DIFF_FN(d_diag, fac_diag(x, .diagonal = -1))
DIFF_FN(d_diag_embed, fac_diag_embed(x, .offset = 1))
DIFF_FN(d_block_diag, fac_block_diag(FAC_TENSORS(x, y)))
DIFF_FN(d_reflect, fac_reflection_pad1d(x, FAC_INTS(2, 3)))
DIFF_FN(d_replicate, fac_replication_pad1d(x, FAC_INTS(2, -1)))

static void shape_gradients_agree_with_differences(void **state) {
    (void)state;
    FAC_SCOPE(s);
    static const difference_case cases[] = {
        DIFF_CASE(d_cat),       DIFF_CASE(d_stack),      DIFF_CASE(d_repeat),     DIFF_CASE(d_interleave),
        DIFF_CASE(d_flip),      DIFF_CASE(d_roll),       DIFF_CASE(d_roll_flat),  DIFF_CASE(d_rot90),
        DIFF_CASE(d_pad),       DIFF_CASE(d_circular),   DIFF_CASE(d_triu),       DIFF_CASE(d_tril),
        DIFF_CASE(d_diag),      DIFF_CASE(d_diag_embed), DIFF_CASE(d_block_diag), DIFF_CASE(d_reflect),
        DIFF_CASE(d_replicate),
    };
    check_differences(cases, FAC_COUNT(cases),
                      FAC_TENSORS(irregular(FAC_INTS(3, 4), 0.3), irregular(FAC_INTS(3, 4), 1.3)));
}

DIFF_FN(d_reflect2, fac_reflection_pad2d(x, FAC_INTS(1, 2, 0, 1)))
DIFF_FN(d_replicate2, fac_replication_pad2d(x, FAC_INTS(1, 2, 2, 0)))
DIFF_FN(d_reflect3, fac_reflection_pad3d(fac_unsqueeze(x, 0), FAC_INTS(1, 1, 2, 0, 1, 0)))
DIFF_FN(d_replicate3, fac_replication_pad3d(fac_unsqueeze(x, 0), FAC_INTS(1, 1, 2, 0, 0, 1)))

static void shape_border_gradients_agree_with_differences(void **state) {
    (void)state;
    FAC_SCOPE(s);
    static const difference_case cases[] = {DIFF_CASE(d_reflect2), DIFF_CASE(d_replicate2), DIFF_CASE(d_reflect3),
                                            DIFF_CASE(d_replicate3)};
    check_differences(cases, FAC_COUNT(cases), FAC_TENSORS(irregular(FAC_INTS(2, 3, 4), 0.3)));
}

/* ---- failing allocations ---- */

static fac_status join_and_pad(void *context) {
    (void)context;
    FAC_SCOPE(s);
    fac_tensor *a = fac_ones(FAC_SHAPE(2, 3)), *turned = fac_t(a);
    fac_tensor *t = fac_cat(FAC_TENSORS(turned, turned), .dim = 1);
    t = fac_reflection_pad1d(fac_flip(fac_triu(t), FAC_DIMS(0)), FAC_INTS(1, 1));
    t = fac_roll(fac_repeat(t, FAC_INTS(2, 2)), FAC_INTS(3));
    return t ? FAC_OK : fac_error();
}

static void shape_survives_failing_allocations(void **state) {
    (void)state;
    support_fail_each_allocation(join_and_pad, NULL);
}

/* Tensors with gaps that take turns element by element are written once: each place holds what it holds in a small part of them. */
static void shape_pairs_with_gaps_take_turns(void **state) {
    (void)state;
    static const fac_dtype dtypes[] = {FAC_U8, FAC_BF16, FAC_F32, FAC_I64, FAC_C128};
    for (size_t i = 0; i < FAC_COUNT(dtypes); i++) {
        FAC_SCOPE(s);
        fac_tensor *all = fac_to(fac_remainder(counting(301, 1400), 251), .dtype = dtypes[i]);
        fac_tensor *a = fac_slice(all, 1, .start = 1, .end = 700, .step = 2),
                   *b = fac_slice(all, 1, .start = 700, .end = 1050),
                   *wide = fac_expand(fac_slice(all, 0, .start = 3, .end = 4), FAC_SHAPE(301, 1400));
        fac_tensor *c = fac_slice(wide, 1, .start = 9, .end = 1059, .step = 3);
        fac_tensor *pairs[][2] = {{a, b}, {b, a}, {c, a}, {fac_transpose(a, 0, 1), fac_transpose(b, 0, 1)}};
        for (size_t k = 0; k < FAC_COUNT(pairs); k++) {
            fac_tensor *t = fac_stack(FAC_TENSORS(pairs[k][0], pairs[k][1]), .dim = -1);
            for (int side = 0; side < 2; side++)
                assert_true(fac_equal(fac_select(t, -1, side), fac_contiguous(pairs[k][side])));
        }
    }
}

FAC_TEST_MAIN(FAC_TEST(shape_flip_turns_short_rows), FAC_TEST(shape_pairs_with_gaps_take_turns),
              FAC_TEST(shape_cat_joins_and_promotes), FAC_TEST(shape_large_joins_hold_every_part),
              FAC_TEST(shape_blocks_promote_as_they_are_given), FAC_TEST(shape_chunk_cat_joins_pieces_and_fills_up),
              FAC_TEST(shape_cat_refuses_what_does_not_fit), FAC_TEST(shape_repeats_and_tiles),
              FAC_TEST(shape_flips_rolls_and_turns), FAC_TEST(shape_triangles_also_in_place),
              FAC_TEST(shape_pads_much_on_any_number_of_threads), FAC_TEST(shape_pads_in_every_mode),
              FAC_TEST(shape_diagonals_and_grids), FAC_TEST(shape_gradients_agree_with_differences),
              FAC_TEST(shape_border_gradients_agree_with_differences), FAC_TEST(shape_survives_failing_allocations))
