/* Loop nests and the plan of reductions: every point is visited once, in any order and from any place, and merging changes nothing. */
#include "iter/reduction.h"

#include "support/support.h"

enum { DIMS = 4, POINTS = 2 * 3 * 4 * 5 };

static const int64_t sizes[DIMS] = {2, 3, 4, 5};
static const int64_t row_major[DIMS] = {60, 20, 5, 1}, swapped[DIMS] = {1, 40, 2, 8}, broadcast[DIMS] = {0, 1, 0, 3};

/* The offsets of logical point i, without a nest. */
static void offsets_of(const int64_t *const *strides, int n, int64_t i, int64_t *out) {
    for (int k = 0; k < n; k++) out[k] = 0;
    for (int d = DIMS - 1; d >= 0; i /= sizes[d], d--)
        for (int k = 0; k < n; k++) out[k] += i % sizes[d] * strides[k][d];
}

static void nest_keeps_logical_order_when_asked_to(void **state) {
    (void)state;
    const int64_t *strides[] = {row_major, swapped, broadcast};
    fac_nest n;
    fac__nest_build(&n, sizes, DIMS, UINT64_MAX, 3, strides, true);
    assert_int_equal(n.count, POINTS);
    for (int64_t i = 0; i < POINTS; i++) {
        fac_cursor c;
        int64_t want[3];
        offsets_of(strides, 3, i, want);
        fac__nest_seek(&n, 3, i, &c);
        for (int k = 0; k < 3; k++) assert_int_equal(c.offset[k], want[k]);
    }
}

static void nest_runs_from_any_point_end_where_seeking_leads(void **state) {
    (void)state;
    const int64_t *strides[] = {swapped, row_major};
    fac_nest n;
    fac__nest_build(&n, sizes, DIMS, UINT64_MAX, 2, strides, false);
    for (int64_t begin = 0; begin < POINTS; begin++) {
        fac_cursor walked, sought;
        fac__nest_seek(&n, 2, begin, &walked);
        for (int64_t i = begin; i < POINTS;) {
            fac__nest_seek(&n, 2, i, &sought);
            for (int k = 0; k < 2; k++) assert_int_equal(walked.offset[k], sought.offset[k]);
            const int64_t run = fac__nest_run(&n, &walked);
            assert_in_range(run, 1, POINTS - i);
            fac__nest_advance(&n, 2, run, &walked);
            i += run;
        }
    }
}

static void nest_steps_cross_rows(void **state) {
    (void)state;
    const int64_t *strides[] = {swapped, row_major};
    fac_nest n;
    fac__nest_build(&n, sizes, DIMS, UINT64_MAX, 2, strides, false);
    for (int64_t step = 1; step < POINTS; step++) {
        fac_cursor walked, sought;
        fac__nest_seek(&n, 2, 0, &walked);
        fac__nest_advance(&n, 2, step, &walked);
        fac__nest_seek(&n, 2, step, &sought);
        for (int k = 0; k < 2; k++) assert_int_equal(walked.offset[k], sought.offset[k]);
    }
}

/* What is broadcast in one operand goes by the others' strides. */
static void nest_order_is_not_decided_by_stride_zero(void **state) {
    (void)state;
    const int64_t shape[2] = {3, 4}, first[2] = {0, 7}, second[2] = {1, 3}, *strides[] = {first, second};
    fac_nest n;
    fac__nest_build(&n, shape, 2, UINT64_MAX, 2, strides, false);
    assert_int_equal(n.size[0], 3);
    assert_int_equal(n.stride[0][1], 7);
    fac__nest_build(&n, shape, 2, UINT64_MAX, 1, strides, false);
    assert_int_equal(n.size[0], 4);
}

static void nest_merges_what_steps_evenly(void **state) {
    (void)state;
    const int64_t *one[] = {row_major}, *two[] = {row_major, broadcast};
    fac_nest n;
    fac__nest_build(&n, sizes, DIMS, UINT64_MAX, 1, one, false);
    assert_int_equal(n.ndim, 1);
    assert_int_equal(fac__nest_step(&n, 0), 1);
    fac__nest_build(&n, sizes, DIMS, UINT64_MAX, 2, two, false);
    assert_int_equal(n.ndim, DIMS);
    fac__nest_build(&n, sizes, DIMS, 0, 1, one, false);
    assert_int_equal(n.ndim, 0);
    assert_int_equal(n.count, 1);
}

static void nest_of_a_size_of_zero_has_no_points(void **state) {
    (void)state;
    const int64_t huge[3] = {INT64_MAX / 2, 0, INT64_MAX / 2}, steps[3] = {0, 0, 1}, *strides[] = {steps};
    fac_nest n;
    fac__nest_build(&n, huge, 3, UINT64_MAX, 1, strides, false);
    assert_int_equal(n.count, 0);
}

/* Strides of a row-major output that has dimension d unless it is reduced; without keepdim in the first places of `kept`. */
static int output_strides(uint64_t mask, bool keepdim, int64_t *by_dim, int64_t *kept) {
    int n = 0;
    int64_t step = 1, at[DIMS];
    for (int d = DIMS - 1; d >= 0; d--) {
        by_dim[d] = at[d] = step;
        step *= mask >> d & 1 ? 1 : sizes[d];
    }
    for (int d = 0; d < DIMS; d++)
        if (keepdim || !(mask >> d & 1)) kept[n++] = at[d];
    return n;
}

static void check_split(uint64_t mask, bool keepdim) {
    fac_dim_split s;
    int64_t in_sizes[DIMS], in_strides[DIMS], by_dim[DIMS], kept_strides[DIMS];
    const int ndim = output_strides(mask, keepdim, by_dim, kept_strides);
    fac_tensor in = {.ndim = DIMS, .sizes = in_sizes, .strides = in_strides};
    fac_tensor out = {.ndim = (uint8_t)ndim, .strides = kept_strides}, *outs[] = {&out};
    bool seen[POINTS] = {false};
    memcpy(in_sizes, sizes, sizeof sizes);
    memcpy(in_strides, row_major, sizeof row_major);
    fac__split(&s, &in, mask, outs, 1, false);
    assert_int_equal(s.kept.count * s.reduced.count, POINTS);
    for (int64_t i = 0; i < POINTS; i++) {
        fac_cursor kept, reduced;
        fac__nest_seek(&s.kept, 2, i / s.reduced.count, &kept);
        fac__nest_seek(&s.reduced, 1, i % s.reduced.count, &reduced);
        int64_t at = kept.offset[0] + reduced.offset[0], want = 0;
        for (int d = 0; d < DIMS; d++)
            if (!(mask >> d & 1)) want += at / row_major[d] % sizes[d] * by_dim[d];
        assert_false(seen[at]);
        seen[at] = true;
        assert_int_equal(kept.offset[1], want);
    }
}

/* Every set of reduced dimensions, with and without keepdim: an element's output is the one at its kept indices. */
static void S110_a_reduction_sends_each_element_to_its_output(void **state) {
    (void)state;
    for (uint64_t mask = 0; mask < 1u << DIMS; mask++) {
        check_split(mask, true);
        check_split(mask, false);
    }
}

FAC_TEST_MAIN(FAC_TEST(nest_keeps_logical_order_when_asked_to),
              FAC_TEST(nest_runs_from_any_point_end_where_seeking_leads), FAC_TEST(nest_steps_cross_rows),
              FAC_TEST(nest_order_is_not_decided_by_stride_zero), FAC_TEST(nest_merges_what_steps_evenly),
              FAC_TEST(nest_of_a_size_of_zero_has_no_points),
              FAC_TEST(S110_a_reduction_sends_each_element_to_its_output))
