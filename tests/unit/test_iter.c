/* The tensor iterator's plan: broadcasting, promotion, order and merging of dimensions, outputs. */
#include "core/tensor_make.h"
#include "iter/iter.h"

#include "support/support.h"
#include <facula/facula.h>

static const fac_device cpu = {FAC_CPU, 0};

/* The header of an uninitialised tensor with sizes and strides, in the test's scope. */
static fac_tensor *strided(fac_dtype d, fac_ints sizes, fac_ints strides) {
    fac_tensor *t;
    fac_status st = strides.v ? fac__empty_strided(sizes.v, strides.v, (int)sizes.n, d, cpu, &t)
                              : fac__empty(sizes.v, (int)sizes.n, d, cpu, &t);
    assert_ok(st);
    t = fac__adopt(fac__thread(), t);
    assert_non_null(t);
    return t;
}
#define EMPTY(d, ...) strided((d), FAC_INTS(__VA_ARGS__), (fac_ints){0})

static fac_status plan_2(fac_iter *it, uint32_t options, fac_tensor *a, fac_tensor *b) {
    fac_iter_begin(it, options);
    FAC_TRY(fac_iter_out(it, NULL));
    FAC_TRY(fac_iter_in(it, a));
    FAC_TRY(fac_iter_in(it, b));
    return fac_iter_plan(it);
}

static void assert_shape(const fac_iter *it, int ndim, const int64_t *shape) {
    assert_int_equal(it->full_ndim, ndim);
    for (int d = 0; d < ndim; d++) assert_int_equal(it->full_shape[d], shape[d]);
}

static void S110_operands_broadcast_to_a_common_shape(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_iter it;
    assert_ok(plan_2(&it, FAC_ITER_PROMOTE, EMPTY(FAC_F32, 2, 1, 4), EMPTY(FAC_F32, 3, 1)));
    assert_shape(&it, 3, (int64_t[]){2, 3, 4});
    assert_int_equal(it.nest.count, 24);
    assert_ok(plan_2(&it, FAC_ITER_PROMOTE, EMPTY(FAC_F32), EMPTY(FAC_F32, 0, 1)));
    assert_shape(&it, 2, (int64_t[]){0, 1});
    assert_int_equal(it.nest.count, 0);
}

static void S110_sizes_that_do_not_broadcast_are_named(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_iter it;
    assert_int_equal(plan_2(&it, FAC_ITER_PROMOTE, EMPTY(FAC_F32, 3), EMPTY(FAC_F32, 4)), FAC_ERR_SHAPE);
    assert_error(FAC_ERR_SHAPE,
                 "The size of tensor a (3) must match the size of tensor b (4) at non-singleton dimension 0");
}

static void S110_options_decide_the_common_dtype(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_iter it;
    fac_tensor *i = EMPTY(FAC_I32, 2), *l = EMPTY(FAC_I64, 2), *h = EMPTY(FAC_F16, 2), *zero = EMPTY(FAC_F64);
    assert_ok(plan_2(&it, FAC_ITER_PROMOTE, i, l));
    assert_int_equal(it.common, FAC_I64);
    assert_ok(plan_2(&it, FAC_ITER_PROMOTE, i, h));
    assert_int_equal(it.common, FAC_F16);
    assert_ok(plan_2(&it, FAC_ITER_PROMOTE, h, zero)); /* a 0-dim tensor of the same kind does not raise the dtype */
    assert_int_equal(it.common, FAC_F16);
    assert_ok(plan_2(&it, FAC_ITER_PROMOTE | FAC_ITER_INT_TO_FLOAT, i, l));
    assert_int_equal(it.common, FAC_F32);
    assert_int_equal(plan_2(&it, 0, i, l), FAC_ERR_DTYPE);
    assert_error(FAC_ERR_DTYPE, "int32 and int64");
}

static void S110_numbers_stay_numbers(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_iter it;
    fac_iter_begin(&it, FAC_ITER_PROMOTE);
    assert_ok(fac_iter_out(&it, NULL));
    assert_ok(fac_iter_in(&it, EMPTY(FAC_I16, 3)));
    assert_ok(fac_iter_scalar(&it, fac_scalar_i_(7)));
    assert_ok(fac_iter_plan(&it));
    assert_int_equal(it.common, FAC_I16);
    assert_true(it.op[2].is_scalar);
    assert_null(it.op[2].t);
}

static void S110_outputs_come_first_and_operands_are_limited(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_iter it;
    fac_tensor *t = EMPTY(FAC_F32, 1);
    fac_iter_begin(&it, 0);
    for (int i = 0; i < FAC_ITER_MAX; i++) assert_ok(fac_iter_in(&it, t));
    assert_int_equal(fac_iter_in(&it, t), FAC_ERR_INTERNAL);
    assert_error(FAC_ERR_INTERNAL, "at most 5");
    fac_iter_begin(&it, 0);
    assert_ok(fac_iter_in(&it, t));
    assert_int_equal(fac_iter_out(&it, t), FAC_ERR_INTERNAL);
    assert_error(FAC_ERR_INTERNAL, "before its inputs");
}

/* A finished iterator of out (planned, made and bound) and two inputs. */
static fac_tensor *finish_2(fac_iter *it, fac_tensor *a, fac_tensor *b) {
    int64_t strides[FAC_MAX_DIMS];
    assert_ok(plan_2(it, FAC_ITER_PROMOTE, a, b));
    fac_iter_out_strides(it, strides);
    fac_tensor *out = strided(it->common, (fac_ints){it->full_shape, (size_t)it->full_ndim},
                              (fac_ints){strides, (size_t)it->full_ndim});
    assert_ok(fac_iter_bind(it, 0, out));
    fac_iter_finish(it);
    return out;
}

static void S111_contiguous_operands_become_one_dimension(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_iter it;
    fac_tensor *out = finish_2(&it, EMPTY(FAC_F32, 2, 3, 4), EMPTY(FAC_F32, 2, 3, 4));
    assert_int_equal(it.nest.ndim, 1);
    assert_int_equal(it.nest.size[0], 24);
    assert_true(it.flat);
    assert_true(fac_tensor_is_contiguous(fac__handle(out)));
}

static void S111_outputs_follow_the_order_of_the_inputs(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_iter it;
    fac_ints sizes = FAC_INTS(2, 3, 4), order = FAC_INTS(1, 8, 2); /* dimension 0 fastest, then 2, then 1 */
    fac_tensor *out = finish_2(&it, strided(FAC_F32, sizes, order), strided(FAC_F32, sizes, order));
    for (int d = 0; d < 3; d++) assert_int_equal(out->strides[d], order.v[d]);
    assert_int_equal(it.nest.ndim, 1);
    assert_true(it.flat);
}

static void S111_a_transposed_operand_leaves_two_dimensions(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_iter it;
    finish_2(&it, EMPTY(FAC_F32, 3, 4), strided(FAC_F32, FAC_INTS(3, 4), FAC_INTS(1, 3)));
    assert_int_equal(it.nest.ndim, 2);
    assert_false(it.flat);
    assert_int_equal(it.nest.size[0], 4);
    assert_int_equal(it.nest.stride[1][0], 4);
    assert_int_equal(it.nest.stride[2][0], 12);
    assert_int_equal(it.nest.stride[2][1], 4);
}

static void S111_broadcast_rows_have_stride_zero(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_iter it;
    finish_2(&it, EMPTY(FAC_F32, 5, 4), EMPTY(FAC_F32, 4));
    assert_int_equal(it.nest.ndim, 2);
    assert_int_equal(it.nest.stride[2][0], 4);
    assert_int_equal(it.nest.stride[2][1], 0);
}

static void S111_a_cursor_visits_every_element_in_order(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_iter it;
    fac_tensor *b = strided(FAC_F32, FAC_INTS(3, 5, 2), FAC_INTS(2, 6, 1));
    finish_2(&it, EMPTY(FAC_F32, 3, 5, 2), b);
    fac_cursor step, direct;
    fac__nest_seek(&it.nest, it.n, 0, &step);
    for (int64_t at = 0; at < it.nest.count; at++) {
        fac__nest_seek(&it.nest, it.n, at, &direct);
        for (int i = 0; i < it.n; i++) assert_int_equal(step.offset[i], direct.offset[i]);
        if (at + 1 < it.nest.count) fac__nest_advance(&it.nest, it.n, 1, &step);
    }
    fac__nest_seek(&it.nest, it.n, 0, &step);
    fac__nest_advance(&it.nest, it.n, 17, &step); /* across several rows at once */
    fac__nest_seek(&it.nest, it.n, 17, &direct);
    for (int i = 0; i < it.n; i++) assert_int_equal(step.offset[i], direct.offset[i]);
}

/* Near and far: over few rows a cursor goes row by row, over many it divides. */
static void S111_a_cursor_lands_where_it_is_sent(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_iter it;
    fac_tensor *b = strided(FAC_F32, FAC_INTS(7, 50, 2), FAC_INTS(1, 7, 400));
    finish_2(&it, EMPTY(FAC_F32, 7, 50, 2), b);
    for (int64_t from = 0; from < it.nest.count; from += 13) {
        for (int64_t to = from; to < it.nest.count; to += 7) {
            fac_cursor sent, sought;
            fac__nest_seek(&it.nest, it.n, from, &sent);
            fac__nest_advance(&it.nest, it.n, to - from, &sent);
            fac__nest_seek(&it.nest, it.n, to, &sought);
            for (int i = 0; i < it.n; i++) assert_int_equal(sent.offset[i], sought.offset[i]);
            for (int d = 0; d < it.nest.ndim; d++) assert_int_equal(sent.index[d], sought.index[d]);
        }
    }
}

static void S111_given_outputs_must_have_the_broadcast_shape(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_iter it;
    fac_iter_begin(&it, FAC_ITER_PROMOTE);
    assert_ok(fac_iter_out(&it, EMPTY(FAC_F32, 2)));
    assert_ok(fac_iter_in(&it, EMPTY(FAC_F32, 2)));
    assert_ok(fac_iter_in(&it, EMPTY(FAC_F32, 2, 2)));
    assert_int_equal(fac_iter_build(&it), FAC_ERR_SHAPE);
    assert_error(FAC_ERR_SHAPE, "output with shape [2] doesn't match the broadcast shape [2, 2]");
}

static void S110_devices_must_agree(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_iter it;
    int64_t two = 2;
    fac_tensor *meta;
    assert_ok(fac__empty(&two, 1, FAC_F32, fac_device_make(FAC_META, -1), &meta));
    assert_int_equal(plan_2(&it, FAC_ITER_PROMOTE, meta, EMPTY(FAC_F32, 2)), FAC_ERR_DEVICE);
    assert_error(FAC_ERR_DEVICE, "meta and cpu");
    assert_ok(plan_2(&it, FAC_ITER_PROMOTE | FAC_ITER_CPU_SCALARS, EMPTY(FAC_F32), meta));
    assert_int_equal(it.device.type, FAC_META);
    fac__unref(meta);
}

FAC_TEST_MAIN(FAC_TEST(S110_operands_broadcast_to_a_common_shape), FAC_TEST(S110_sizes_that_do_not_broadcast_are_named),
              FAC_TEST(S110_options_decide_the_common_dtype), FAC_TEST(S110_numbers_stay_numbers),
              FAC_TEST(S110_outputs_come_first_and_operands_are_limited), FAC_TEST(S110_devices_must_agree),
              FAC_TEST(S111_contiguous_operands_become_one_dimension),
              FAC_TEST(S111_outputs_follow_the_order_of_the_inputs),
              FAC_TEST(S111_a_transposed_operand_leaves_two_dimensions), FAC_TEST(S111_broadcast_rows_have_stride_zero),
              FAC_TEST(S111_a_cursor_visits_every_element_in_order), FAC_TEST(S111_a_cursor_lands_where_it_is_sent),
              FAC_TEST(S111_given_outputs_must_have_the_broadcast_shape))
