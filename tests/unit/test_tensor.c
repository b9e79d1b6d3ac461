/* Tensors' headers: fields, views, overlaps, versions, set_data, resizing. */
#include "core/tensor_flags.h"
#include "core/tensor_make.h"
#include "core/thread.h"
#include "support/support.h"
#include <facula/autograd.h>
#include <math.h>

static const fac_device cpu = {FAC_CPU, 0};

/* Owned by the scope. */
static fac_tensor *view_of(fac_tensor *t, fac_ints sizes, fac_ints strides, int64_t offset) {
    fac_tensor *v;
    assert_ok(fac__view(fac__header(t), sizes.v, strides.v, (int)sizes.n, offset, true, &v));
    v = fac__adopt_handle(fac__thread(), v);
    assert_non_null(v);
    return v;
}

static fac_tensor *strided(fac_ints sizes, fac_ints strides) {
    fac_tensor *t;
    assert_ok(fac__empty_strided(sizes.v, strides.v, (int)sizes.n, FAC_F32, cpu, &t));
    t = fac__adopt_handle(fac__thread(), t);
    assert_non_null(t);
    return t;
}

static fac_tensor *int32_matrix(void) {
    fac_tensor *t = fac_tensor_from((const int32_t[]){1, 2, 3, 4}, FAC_I32, FAC_INTS(2, 2));
    assert_non_null(t);
    return t;
}

/* ---- properties and views ---- */

static void S001_tensor_properties_are_readable(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *t = fac_tensor_from((const float[]){0, 1, 2, 3, 4, 5}, FAC_F32, FAC_INTS(2, 3));
    assert_int_equal(fac_tensor_ndim(t), 2);
    assert_int_equal(fac_tensor_size(t, 0), 2);
    assert_int_equal(fac_tensor_size(t, -1), 3);
    assert_int_equal(fac_tensor_stride(t, 0), 3);
    assert_int_equal(fac_tensor_stride(t, -1), 1);
    assert_int_equal(fac_tensor_sizes(t).n, 2);
    assert_int_equal(fac_tensor_strides(t).v[0], 3);
    assert_int_equal(fac_tensor_numel(t), 6);
    assert_int_equal(fac_tensor_offset(t), 0);
    assert_int_equal(fac_tensor_dtype(t), FAC_F32);
    assert_int_equal(fac_tensor_layout(t), FAC_STRIDED);
    assert_true(fac_device_equal(fac_tensor_device(t), cpu));
    const float *p = fac_tensor_data(t);
    for (int64_t i = 0; i < 2; i++)
        for (int64_t j = 0; j < 3; j++) assert_true(p[i * fac_tensor_stride(t, 0) + j] == (float)(3 * i + j));
}

static void S001_tensor_bad_dimension_is_an_index_error(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *t = int32_matrix();
    assert_int_equal(fac_tensor_size(t, 2), 0);
    assert_error(FAC_ERR_INDEX, "Dimension out of range (expected to be in range of [-2, 1], but got 2)");
    assert_int_equal(fac_tensor_stride(t, -3), 0);
    assert_error(FAC_ERR_INDEX, "but got -3");
    assert_int_equal(fac_tensor_size(fac_tensor_from((const float[]){1}, FAC_F32, FAC_INTS()), 0), 0);
    assert_error(FAC_ERR_INDEX, "no dimensions");
}

static void S001_tensor_null_handle_is_reported_by_every_reader(void **state) {
    (void)state;
    fac_tensor_ndim(NULL);
    assert_error(FAC_ERR_ARGUMENT, "fac_tensor_ndim, argument t: NULL");
    assert_null(fac_tensor_sizes(NULL).v);
    assert_error(FAC_ERR_ARGUMENT, "fac_tensor_sizes");
    assert_null(fac_tensor_data(NULL));
    assert_error(FAC_ERR_ARGUMENT, "fac_tensor_data");
    assert_int_equal(fac_tensor_dtype(NULL), FAC_DTYPE_DEFAULT);
    assert_error(FAC_ERR_ARGUMENT, "fac_tensor_dtype");
    assert_null(fac_tensor_storage(NULL));
    assert_error(FAC_ERR_ARGUMENT, "fac_tensor_storage");
    assert_false(fac_is_alias_of(NULL, NULL));
    assert_error(FAC_ERR_ARGUMENT, "fac_is_alias_of");
}

static void S003_select_column_is_a_view(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *a = int32_matrix(), *column = view_of(a, FAC_INTS(2), FAC_INTS(2), 0);
    assert_ptr_equal(fac_tensor_data(column), fac_tensor_data(a));
    assert_true(fac_is_alias_of(a, column));
    int32_t values[2];
    assert_ok(fac_tensor_read(column, FAC_I32, values, 2));
    assert_int_equal(values[0], 1);
    assert_int_equal(values[1], 3);
    assert_false(fac_tensor_is_contiguous(column));
}

static void S004_select_row_starts_at_its_offset(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *a = int32_matrix(), *row = view_of(a, FAC_INTS(2), FAC_INTS(1), 2);
    assert_ptr_equal(fac_tensor_data(row), (char *)fac_tensor_data(a) + 8);
    assert_int_equal(fac_tensor_offset(row), 2);
    assert_true(fac_tensor_is_contiguous(row));
}

static void S006_write_through_one_view_shows_in_the_others(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *a = int32_matrix(), *row = view_of(a, FAC_INTS(2), FAC_INTS(1), 2),
               *column = view_of(a, FAC_INTS(2), FAC_INTS(2), 0);
    *(int32_t *)fac_tensor_data(row) = 30;
    int32_t values[2];
    assert_ok(fac_tensor_read(column, FAC_I32, values, 2));
    assert_int_equal(values[1], 30);
}

/* ---- making ---- */

static void S008_empty_on_cpu_and_meta(void **state) {
    (void)state;
    fac_tensor *t;
    assert_ok(fac__empty(FAC_INTS(2, 0, 3).v, 3, FAC_F64, cpu, &t));
    assert_int_equal(t->numel, 0);
    assert_null(fac__data(t));
    assert_int_equal(t->strides[0], 3);
    assert_int_equal(t->strides[1], 3);
    fac__unref(t);
    assert_ok(fac__empty(FAC_INTS(1000000, 1000000).v, 2, FAC_F32, fac_device_make(FAC_META, -1), &t));
    assert_null(t->storage); /* S-020: shapes only */
    assert_null(fac__data(t));
    assert_int_equal(fac__keyset_backend(t->keys), FAC_BACKEND_META);
    fac__unref(t);
}

static void tensor_of_many_dimensions_uses_the_heap_for_its_shape(void **state) {
    (void)state;
    int64_t sizes[FAC_MAX_DIMS + 1];
    fac_tensor *t;
    for (int i = 0; i <= FAC_MAX_DIMS; i++) sizes[i] = 1 + (i % 16 == 0);
    assert_ok(fac__empty(sizes, FAC_MAX_DIMS, FAC_I8, cpu, &t));
    assert_int_equal(t->numel, 16);
    assert_int_equal(t->strides[0], 8);
    fac__unref(t);
    assert_int_equal(fac__empty(sizes, FAC_MAX_DIMS + 1, FAC_I8, cpu, &t), FAC_ERR_SHAPE);
    assert_error(FAC_ERR_SHAPE, "at most 64");
}

/* Bad inputs 1, 2, 3, 10. */
static void tensor_bad_sizes_are_errors(void **state) {
    (void)state;
    const int64_t big = (int64_t)1 << 32;
    const struct {
        fac_ints sizes;
        fac_status code;
        const char *text;
    } bad[] = {
        {FAC_INTS(big, big), FAC_ERR_OVERFLOW, "[4294967296, 4294967296]"},
        {FAC_INTS((int64_t)1 << 61), FAC_ERR_OVERFLOW, "float64"}, /* the count fits, the bytes do not */
        {FAC_INTS(2, -1), FAC_ERR_SHAPE, "negative dimension -1: [2, -1]"},
        {FAC_INTS(0, INT64_MIN), FAC_ERR_SHAPE, "negative dimension"},
        {FAC_INTS(0, 4600000000000000000), FAC_ERR_OVERFLOW, "has more bytes"},
        {FAC_INTS(big, 0, big), FAC_ERR_OVERFLOW, "has more bytes"},
    };
    for (size_t i = 0; i < FAC_COUNT(bad); i++) {
        fac_tensor *t = (fac_tensor *)1;
        assert_int_equal(fac__empty(bad[i].sizes.v, (int)bad[i].sizes.n, FAC_F64, cpu, &t), bad[i].code);
        assert_null(t);
        assert_error(bad[i].code, bad[i].text);
    }
    fac_tensor *t;
    assert_int_equal(fac__empty(NULL, 0, FAC_DTYPE_DEFAULT, cpu, &t), FAC_ERR_DTYPE);
    assert_error(FAC_ERR_DTYPE, "0 is no dtype");
    assert_int_equal(fac__empty(NULL, 0, FAC_DTYPE_COUNT, cpu, &t), FAC_ERR_DTYPE);
    assert_error(FAC_ERR_DTYPE, "no dtype");
    assert_int_equal(fac__empty(NULL, -1, FAC_F32, cpu, &t), FAC_ERR_SHAPE);
    assert_error(FAC_ERR_SHAPE, "-1 dimensions");
}

/* More than the machine has, but countable: the allocator says no. */
static void tensor_too_large_for_memory_is_a_memory_error(void **state) {
    (void)state;
    fac_tensor *t;
    assert_int_equal(fac__empty(FAC_INTS((int64_t)1 << 59).v, 1, FAC_F32, cpu, &t), FAC_ERR_MEMORY);
    assert_error(FAC_ERR_MEMORY, "2305843009213693952 bytes on cpu");
}

/* Bad inputs 4, 5. */
static void tensor_view_outside_its_storage_is_an_error(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *a = int32_matrix(), *v;
    const struct {
        fac_ints sizes, strides;
        int64_t offset;
        fac_status code;
        const char *text;
    } bad[] = {
        {FAC_INTS(4), FAC_INTS(1), 1, FAC_ERR_SHAPE, "out of bounds for storage of size 16"},
        {FAC_INTS(2, 2), FAC_INTS(3, 1), 0, FAC_ERR_SHAPE, "sizes [2, 2], strides [3, 1]"},
        {FAC_INTS(1), FAC_INTS(1), INT64_MAX - 10000 + 1, FAC_ERR_SHAPE, "out of bounds"},
        {FAC_INTS(2), FAC_INTS(1), INT64_MAX, FAC_ERR_SHAPE, "out of bounds"},
        {FAC_INTS(1), FAC_INTS(1), -1, FAC_ERR_ARGUMENT, "storage_offset must be non-negative, got -1"},
        {FAC_INTS(2), FAC_INTS(-1), 1, FAC_ERR_SHAPE, "negative strides are not supported"},
        {FAC_INTS(2, 2), FAC_INTS(INT64_MAX, INT64_MAX), 0, FAC_ERR_OVERFLOW, "reach further"},
        {FAC_INTS(3), FAC_INTS(INT64_MAX / 2 + 1), 0, FAC_ERR_OVERFLOW, "reach further"},
        {FAC_INTS(-2), FAC_INTS(1), 0, FAC_ERR_SHAPE, "negative dimension"},
    };
    for (size_t i = 0; i < FAC_COUNT(bad); i++) {
        assert_int_equal(
            fac__view(fac__header(a), bad[i].sizes.v, bad[i].strides.v, (int)bad[i].sizes.n, bad[i].offset, true, &v),
            bad[i].code);
        assert_null(v);
        assert_error(bad[i].code, bad[i].text);
    }
    assert_int_equal(fac__empty_strided(FAC_INTS(4).v, FAC_INTS(INT64_MAX / 2).v, 1, FAC_F32, cpu, &v),
                     FAC_ERR_OVERFLOW);
    assert_error(FAC_ERR_OVERFLOW, "reach further");
    assert_int_equal(fac__empty_strided(FAC_INTS(2).v, FAC_INTS(-1).v, 1, FAC_F32, cpu, &v), FAC_ERR_SHAPE);
    assert_error(FAC_ERR_SHAPE, "negative strides");
    assert_int_equal(fac_tensor_numel(view_of(a, FAC_INTS(0, 5), FAC_INTS(100, 100), 4)), 0); /* reaches nothing */
}

static void tensor_from_refuses_bad_input(void **state) {
    (void)state;
    FAC_SCOPE(s);
    assert_null(fac_tensor_from(NULL, FAC_F32, FAC_INTS(2)));
    assert_error(FAC_ERR_ARGUMENT, "data is NULL");
    assert_int_equal(fac_tensor_numel(fac_tensor_from(NULL, FAC_F32, FAC_INTS(0))), 0);
    fac_ints many = {(const int64_t[1]){1}, SIZE_MAX};
    assert_null(fac_tensor_from("", FAC_F32, many));
    assert_error(FAC_ERR_SHAPE, "at most 64");
}

static void tensor_empty_like_follows_the_permutation(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *t, *column = strided(FAC_INTS(2, 3), FAC_INTS(1, 2)), *gap = strided(FAC_INTS(2, 3), FAC_INTS(6, 2));
    assert_ok(fac__empty_like(fac__header(column), &t));
    assert_int_equal(t->strides[0], 1);
    assert_int_equal(t->strides[1], 2);
    fac__unref(t);
    assert_ok(fac__empty_like(fac__header(gap), &t));
    assert_int_equal(t->strides[0], 3);
    assert_int_equal(t->strides[1], 1);
    fac__unref(t);
}

static void tensor_scalar_holds_its_number(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *t;
    assert_ok(fac__scalar_tensor(fac_scalar_f_(2.5), FAC_F16, &t));
    assert_true(fac_item(fac__adopt_handle(fac__thread(), t)) == 2.5);
    assert_false(t->flags & FAC_TF_WRAPPED);
    assert_ok(fac__scalar_tensor(fac_scalar_i_(-7), FAC_DTYPE_DEFAULT, &t));
    assert_int_equal(fac_item_int(fac__adopt_handle(fac__thread(), t)), -7);
    assert_int_equal(t->dtype, FAC_I64);
    assert_true(t->flags & FAC_TF_WRAPPED);
}

/* ---- flags ---- */

static void S012_tensor_flags_agree_with_pytorch(void **state) {
    (void)state;
    enum { C = FAC_TF_CONTIGUOUS, D = FAC_TF_DENSE, L = FAC_TF_CHANNELS_LAST, L3 = FAC_TF_CHANNELS_LAST_3D };
    const struct {
        fac_ints sizes, strides;
        unsigned flags;
    } cases[] = {
        {FAC_INTS(), FAC_INTS(), C | D},
        {FAC_INTS(3), FAC_INTS(1), C | D},
        {FAC_INTS(3), FAC_INTS(2), 0},
        {FAC_INTS(1), FAC_INTS(7), C | D},
        {FAC_INTS(2, 3), FAC_INTS(3, 1), C | D},
        {FAC_INTS(2, 3), FAC_INTS(1, 2), D},
        {FAC_INTS(2, 3), FAC_INTS(0, 1), 0},
        {FAC_INTS(2, 1, 3), FAC_INTS(3, 99, 1), C | D},
        {FAC_INTS(2, 0, 3), FAC_INTS(1, 1, 1), C | D},
        {FAC_INTS(2, 3, 4, 5), FAC_INTS(60, 20, 5, 1), C | D},
        {FAC_INTS(2, 3, 4, 5), FAC_INTS(60, 1, 15, 3), D | L},
        {FAC_INTS(2, 1, 4, 5), FAC_INTS(20, 20, 5, 1), C | D | L}, /* one channel: both orders */
        {FAC_INTS(2, 3, 1, 1), FAC_INTS(3, 1, 1, 1), C | D | L},
        {FAC_INTS(2, 3, 4, 5), FAC_INTS(60, 15, 3, 1), 0},
        {FAC_INTS(2, 3, 4, 5, 6), FAC_INTS(360, 1, 90, 18, 3), D | L3},
        {FAC_INTS(1, 1, 1, 1, 1), FAC_INTS(1, 1, 1, 1, 1), C | D | L3},
    };
    for (size_t i = 0; i < FAC_COUNT(cases); i++) {
        FAC_SCOPE(s);
        assert_int_equal(fac__header(strided(cases[i].sizes, cases[i].strides))->flags, cases[i].flags);
    }
    FAC_SCOPE(s);
    fac_tensor *t = strided(FAC_INTS(2, 3, 4, 5), FAC_INTS(60, 1, 15, 3));
    assert_true(fac_tensor_is_contiguous_as(t, FAC_CHANNELS_LAST));
    assert_false(fac_tensor_is_contiguous_as(t, FAC_CONTIGUOUS));
    assert_false(fac_tensor_is_contiguous_as(t, FAC_CHANNELS_LAST_3D));
    assert_false(fac_tensor_is_contiguous_as(t, FAC_PRESERVE));
    assert_error(FAC_ERR_ARGUMENT, "memory format");
}

static void tensor_internal_overlap(void **state) {
    (void)state;
    const struct {
        fac_ints sizes, strides;
        bool overlaps;
    } cases[] = {
        {FAC_INTS(2, 3), FAC_INTS(3, 1), false}, {FAC_INTS(2, 3), FAC_INTS(0, 1), true},
        {FAC_INTS(3, 2), FAC_INTS(1, 1), true},  /* sliding windows */
        {FAC_INTS(2, 3), FAC_INTS(3, 2), false}, /* interleaved: 0 2 4 3 5 7 */
        {FAC_INTS(2, 4), FAC_INTS(6, 2), true},  /* 0 2 4 6 6 8 10 12 */
        {FAC_INTS(2, 3), FAC_INTS(6, 2), false}, {FAC_INTS(1, 3), FAC_INTS(0, 2), false},
    };
    for (size_t i = 0; i < FAC_COUNT(cases); i++) {
        FAC_SCOPE(s);
        assert_int_equal(fac__has_internal_overlap(fac__header(strided(cases[i].sizes, cases[i].strides))),
                         cases[i].overlaps);
    }
}

static fac_overlap overlap(fac_tensor *a, fac_tensor *b) { return fac__overlap(fac__header(a), fac__header(b)); }

static void tensor_mutual_overlap(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *a = fac_tensor_of(0, 1, 2, 3, 4, 5), *b = fac_tensor_of(0);
    assert_no_error();
    assert_int_equal(overlap(a, b), FAC_OVERLAP_NO);
    assert_int_equal(overlap(a, a), FAC_OVERLAP_FULL);
    assert_int_equal(overlap(a, view_of(a, FAC_INTS(6), FAC_INTS(1), 0)), FAC_OVERLAP_FULL);
    fac_tensor *head = view_of(a, FAC_INTS(3), FAC_INTS(1), 0), *tail = view_of(a, FAC_INTS(3), FAC_INTS(1), 3);
    assert_int_equal(overlap(head, tail), FAC_OVERLAP_NO);
    assert_int_equal(overlap(head, a), FAC_OVERLAP_PARTIAL);
    assert_int_equal(overlap(head, view_of(a, FAC_INTS(3), FAC_INTS(1), 1)), FAC_OVERLAP_PARTIAL);
    assert_int_equal(overlap(head, view_of(a, FAC_INTS(3), FAC_INTS(2), 0)), FAC_OVERLAP_UNKNOWN);
    assert_int_equal(overlap(head, view_of(a, FAC_INTS(0), FAC_INTS(1), 0)), FAC_OVERLAP_NO);
}

/* ---- versions ---- */

static void tensor_version_is_shared_by_views_and_detached_handles(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *a = int32_matrix(), *detached, *fresh;
    assert_int_equal(fac_tensor_version(a), 0);
    fac_tensor *v = view_of(a, FAC_INTS(2), FAC_INTS(1), 0);
    assert_ok(fac__bump_version(fac__header(v)));
    assert_ok(fac__bump_version(fac__header(a)));
    assert_int_equal(fac_tensor_version(a), 2);
    assert_int_equal(fac_tensor_version(view_of(v, FAC_INTS(1), FAC_INTS(1), 0)), 2);
    assert_ok(fac__alias(fac__header(a), true, &detached));
    assert_ok(fac__alias(fac__header(a), false, &fresh));
    assert_ok(fac__bump_version(detached));
    assert_int_equal(fac_tensor_version(v), 3);
    assert_int_equal(fac_tensor_version(fac__handle(fresh)), 0);
    fac__unref(detached);
    fac__unref(fresh);
}

static void tensor_made_in_inference_mode_has_no_version(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac__thread()->inference = true;
    fac_tensor *t = int32_matrix();
    fac__thread()->inference = false;
    assert_true(fac__header(t)->flags & FAC_TF_INFERENCE);
    assert_false(fac__header(t)->keys & FAC_KS_AUTOGRAD);
    assert_ok(fac__bump_version(fac__header(t)));
    assert_null(fac__header(t)->version);
    assert_int_equal(fac_tensor_version(t), 0);
    assert_error(FAC_ERR_STATE, "Inference tensors do not track version");
    fac_tensor *v = view_of(t, FAC_INTS(2), FAC_INTS(1), 0);
    assert_true(fac__header(v)->flags & FAC_TF_INFERENCE);
    assert_null(fac__header(v)->version);
}

/* ---- changes under a handle ---- */

static void tensor_set_data_changes_what_every_holder_sees(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *t = int32_matrix(), *src = fac_tensor_from((const double[]){5, 6, 7}, FAC_F64, FAC_INTS(3));
    assert_ok(fac__bump_version(fac__header(t)));
    assert_ok(fac_set_data(t, src));
    assert_int_equal(fac_tensor_ndim(t), 1);
    assert_int_equal(fac_tensor_dtype(t), FAC_F64);
    assert_true(fac_is_alias_of(t, src));
    assert_int_equal(fac_tensor_version(t), 0);
    assert_int_equal(fac_storage_use_count(fac_tensor_storage(t)), 2);
    assert_ok(fac_set_data(t, t));
    assert_int_equal(fac_set_data(t, NULL), FAC_ERR_ARGUMENT);
    assert_error(FAC_ERR_ARGUMENT, "argument src");
}

static void tensor_set_data_of_integers_under_a_gradient_is_an_error(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *leaf = fac_set_requires_grad(fac_tensor_of(1, 2), true);
    assert_int_equal(fac_set_data(leaf, int32_matrix()), FAC_ERR_AUTOGRAD);
    assert_error(FAC_ERR_AUTOGRAD, "must be floating point or complex dtype, not int32");
    assert_ok(fac_set_data(leaf, fac_tensor_of(3)));
    assert_true(fac_requires_grad(leaf));
}

static void S014_tensor_resize_keeps_contents(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *t = fac_tensor_of(1, 2, 3);
    float values[8];
    assert_non_null(t);
    assert_ok(fac__resize(fac__header(t), FAC_INTS(2, 4).v, 2));
    assert_ok(fac_tensor_read(t, FAC_F32, values, 8));
    assert_true(values[0] == 1 && values[1] == 2 && values[2] == 3);
    int64_t bytes = fac_storage_bytes(fac_tensor_storage(t));
    assert_true(bytes >= 32);
    assert_ok(fac__resize(fac__header(t), FAC_INTS(1, 1, 1, 1, 1, 1, 1, 1, 1, 2).v,
                          10)); /* smaller, and its shape moves to the heap */
    assert_int_equal(fac__header(t)->numel, 2);
    assert_int_equal(fac_storage_bytes(fac_tensor_storage(t)), bytes);
    assert_int_equal(fac__resize(fac__header(t), FAC_INTS(INT64_MAX).v, 1), FAC_ERR_OVERFLOW);
    assert_error(FAC_ERR_OVERFLOW, "has more bytes");
    assert_int_equal(fac__header(t)->ndim, 10);
}

/* ---- wrapping and reading ---- */

static void count_release(void *count) { ++*(int *)count; }

static void S002_wrapped_memory_is_released_once_with_the_last_view(void **state) {
    (void)state;
    float data[6] = {0, 1, 2, 3, 4, 5};
    int released = 0;
    fac_tensor *view;
    {
        FAC_SCOPE(s);
        fac_tensor *t =
            fac_tensor_wrap(data, sizeof data, FAC_F32, FAC_INTS(2, 2), FAC_INTS(3, 1), 1, count_release, &released);
        assert_ptr_equal(fac_tensor_data(t), data + 1);
        float values[4];
        assert_ok(fac_tensor_read(t, FAC_F32, values, 4));
        assert_true(values[0] == 1 && values[1] == 2 && values[2] == 4 && values[3] == 5);
        view = fac_keep(view_of(t, FAC_INTS(2), FAC_INTS(1), 0));
        assert_int_equal(fac__resize(fac__header(t), FAC_INTS(100).v, 1), FAC_ERR_STATE);
        assert_error(FAC_ERR_STATE, "cannot grow");
    }
    assert_int_equal(released, 0);
    fac_release(view);
    assert_int_equal(released, 1);
}

static void tensor_wrap_that_fails_leaves_the_memory_to_the_caller(void **state) {
    (void)state;
    _Alignas(8) char data[33];
    int released = 0;
    const fac_ints unset = {NULL, 0};
    {
        FAC_SCOPE(s);
        assert_null(fac_tensor_wrap(data, 32, FAC_F32, FAC_INTS(9), unset, 0, count_release, &released));
        assert_error(FAC_ERR_SHAPE, "out of bounds");
        assert_null(fac_tensor_wrap(data, 32, FAC_F32, FAC_INTS(2), FAC_INTS(1, 1), 0, count_release, &released));
        assert_error(FAC_ERR_SHAPE, "lengths must agree");
        assert_null(fac_tensor_wrap(data + 1, 32, FAC_F32, FAC_INTS(2), unset, 0, count_release, &released));
        assert_error(FAC_ERR_ARGUMENT, "not aligned");
        assert_null(fac_tensor_wrap(NULL, 32, FAC_F32, FAC_INTS(2), unset, 0, count_release, &released));
        assert_error(FAC_ERR_SHAPE, "memory must be there");
        assert_null(fac_tensor_wrap(data, 32, FAC_F32, FAC_INTS(-2), unset, 0, count_release, &released));
        assert_error(FAC_ERR_SHAPE, "negative dimension");
        assert_null(fac_tensor_wrap(data, 32, (fac_dtype)99, FAC_INTS(2), unset, 0, count_release, &released));
        assert_error(FAC_ERR_DTYPE, "99");
        assert_int_equal(fac_tensor_stride(fac_tensor_wrap(data, 32, FAC_F32, FAC_INTS(2, 3), unset, 0, NULL, NULL), 0),
                         3);
    }
    assert_null(fac_tensor_wrap(data, 32, FAC_F32, FAC_INTS(8), unset, 0, count_release, &released));
    assert_error(FAC_ERR_STATE, "no scope");
    assert_int_equal(released, 0);
}

static void tensor_read_converts_and_walks_strides(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *a = int32_matrix(), *t = view_of(a, FAC_INTS(2, 2), FAC_INTS(1, 2), 0);
    double values[4];
    assert_ok(fac_tensor_read(t, FAC_F64, values, 4));
    assert_true(values[0] == 1 && values[1] == 3 && values[2] == 2 && values[3] == 4);
    fac_tensor *c = fac_tensor_from((const float[]){1, 2}, FAC_C64, FAC_INTS(1));
    fac__header(c)->flags |= FAC_TF_CONJ;
    assert_ok(fac_tensor_read(c, FAC_C128, values, 1));
    assert_true(values[0] == 1 && values[1] == -2);
    assert_int_equal(fac_tensor_read(a, FAC_I32, values, 3), FAC_ERR_SHAPE);
    assert_error(FAC_ERR_SHAPE, "room for 3 elements was given, but the tensor has 4");
    assert_int_equal(fac_tensor_read(a, FAC_DTYPE_DEFAULT, values, 4), FAC_ERR_DTYPE);
    assert_error(FAC_ERR_DTYPE, "no dtype");
}

static void S026_item_reads_one_element(void **state) {
    (void)state;
    FAC_SCOPE(s);
    assert_true(fac_item(fac_tensor_of(2.5)) == 2.5);
    assert_int_equal(fac_item_int(fac_tensor_of(-2.5)), -2);
    assert_true(fac_item_int(fac_tensor_from((const int64_t[]){INT64_MAX}, FAC_I64, FAC_INTS(1, 1))) == INT64_MAX);
    fac_item(fac_tensor_of(1, 2));
    assert_error(FAC_ERR_SHAPE, "a Tensor with 2 elements cannot be converted to Scalar");
    fac_item(fac_tensor_from((const float[]){1, 2}, FAC_C64, FAC_INTS(1)));
    assert_error(FAC_ERR_DTYPE, "not real");
    assert_true(fac_item(fac_tensor_from((const float[]){1.5f, 0}, FAC_C64, FAC_INTS(1))) == 1.5);
    fac_tensor *meta;
    assert_ok(fac__empty(NULL, 0, FAC_F32, fac_device_make(FAC_META, -1), &meta));
    fac_item(fac__adopt_handle(fac__thread(), meta));
    assert_error(FAC_ERR_DEVICE, "meta tensor");
}

/* ---- shape arithmetic ---- */

static void shape_broadcast(void **state) {
    (void)state;
    int64_t out[FAC_MAX_DIMS];
    int n;
    assert_ok(fac__broadcast(FAC_INTS(3, 1).v, 2, FAC_INTS(5, 1, 4).v, 3, out, &n));
    assert_int_equal(n, 3);
    assert_true(out[0] == 5 && out[1] == 3 && out[2] == 4);
    assert_ok(fac__broadcast(FAC_INTS(1).v, 1, FAC_INTS(0).v, 1, out, &n));
    assert_int_equal(out[0], 0);
    assert_int_equal(fac__broadcast(FAC_INTS(2, 3).v, 2, FAC_INTS(4).v, 1, out, &n), FAC_ERR_SHAPE);
    assert_error(FAC_ERR_SHAPE,
                 "The size of tensor a (3) must match the size of tensor b (4) at non-singleton dimension 1");
    assert_int_equal(fac__broadcast(FAC_INTS(0).v, 1, FAC_INTS(2).v, 1, out, &n), FAC_ERR_SHAPE);
    assert_error(FAC_ERR_SHAPE, "tensor a (0)");
}

static void shape_infer_size(void **state) {
    (void)state;
    int64_t out[FAC_MAX_DIMS];
    assert_ok(fac__infer_size(FAC_INTS(2, -1, 3), 24, out));
    assert_int_equal(out[1], 4);
    assert_ok(fac__infer_size(FAC_INTS(0, 5), 0, out));
    assert_ok(fac__infer_size(FAC_INTS(-1, 5), 0, out));
    assert_int_equal(out[0], 0);
    assert_ok(fac__infer_size(FAC_INTS(), 1, out));
    const struct {
        fac_ints sizes;
        int64_t numel;
        const char *text;
    } bad[] = {
        {FAC_INTS(-1, -1), 4, "only one dimension can be inferred"},
        {FAC_INTS(5), 4, "shape '[5]' is invalid for input of size 4"},
        {FAC_INTS(-1, 3), 4, "shape '[-1, 3]' is invalid for input of size 4"},
        {FAC_INTS(-2), 4, "invalid shape dimension -2"},
        {FAC_INTS(-1, 0), 0,
         "cannot reshape tensor of 0 elements into shape [-1, 0] because the unspecified dimension size -1"},
        {FAC_INTS(-1, 0), 4, "shape '[-1, 0]' is invalid"},
        {FAC_INTS((int64_t)1 << 32, (int64_t)1 << 32), 0, "is invalid for input of size 0"},
    };
    for (size_t i = 0; i < FAC_COUNT(bad); i++) {
        assert_int_equal(fac__infer_size(bad[i].sizes, bad[i].numel, out), FAC_ERR_SHAPE);
        assert_error(FAC_ERR_SHAPE, bad[i].text);
    }
}

static void shape_dim_mask(void **state) {
    (void)state;
    uint64_t mask;
    assert_ok(fac__dim_mask(FAC_INTS(0, -1), 3, &mask));
    assert_int_equal(mask, 5);
    assert_ok(fac__dim_mask(FAC_INTS(), 3, &mask));
    assert_int_equal(mask, 7);
    assert_ok(fac__dim_mask((fac_ints){NULL, 0}, 64, &mask));
    assert_true(mask == UINT64_MAX);
    assert_ok(fac__dim_mask(FAC_INTS(-1), 0, &mask));
    assert_int_equal(mask, 0);
    assert_int_equal(fac__dim_mask(FAC_INTS(1, -2), 3, &mask), FAC_ERR_ARGUMENT);
    assert_error(FAC_ERR_ARGUMENT, "dim 1 appears multiple times in the list of dims");
    assert_int_equal(fac__dim_mask(FAC_INTS(3), 3, &mask), FAC_ERR_INDEX);
    assert_error(FAC_ERR_INDEX, "Dimension out of range (expected to be in range of [-3, 2], but got 3)");
    assert_int_equal(fac__dim_mask(FAC_INTS(1), 0, &mask), FAC_ERR_INDEX);
    assert_error(FAC_ERR_INDEX, "[-1, 0]");
}

static void shape_text_fits_or_ends_in_dots(void **state) {
    (void)state;
    char buf[16];
    assert_string_equal(fac__shape_text(NULL, 0, buf, sizeof buf), "[]");
    assert_string_equal(fac__shape_text(FAC_INTS(2, -3).v, 2, buf, sizeof buf), "[2, -3]");
    assert_string_equal(fac__shape_text(FAC_INTS(12345, 67890).v, 2, buf, sizeof buf), "[12345, 67890]");
    assert_string_equal(fac__shape_text(FAC_INTS(12345, 678901).v, 2, buf, sizeof buf), "[12345, 678901]");
    assert_string_equal(fac__shape_text(FAC_INTS(12345, 6789012).v, 2, buf, sizeof buf), "[12345, 678...]");
    assert_string_equal(fac__shape_text(FAC_INTS(1111, 2222, 3333, 4444, 5555).v, 5, buf, sizeof buf),
                        "[1111, 2222...]");
}

/* ---- failing allocations ---- */

static fac_status make_views_and_resize(void *unused) {
    (void)unused;
    FAC_SCOPE(s);
    const fac_ints many = FAC_INTS(1, 1, 1, 1, 1, 1, 1, 1, 3, 4), zero = FAC_INTS(0, 1, 1, 1, 1, 1, 1, 1, 1, 1);
    fac_tensor *t = fac__tensor_from((const double[12]){0}, FAC_F64, many), *v;
    FAC_TRY(fac_error());
    FAC_TRY(fac__view(t, t->sizes, t->strides, t->ndim, 0, true, &v));
    fac__adopt(fac__thread(), v);
    FAC_TRY(fac__bump_version(t));
    FAC_TRY(fac__resize(t, FAC_INTS(1, 1, 1, 1, 1, 1, 1, 1, 1, 5000).v, 10));
    FAC_TRY(fac__resize(t, FAC_INTS(6000).v, 1));
    FAC_TRY(fac__resize(v, FAC_INTS(1).v, 1));
    fac_tensor *empty = fac__tensor_from(NULL, FAC_F32, zero);
    FAC_TRY(fac_error());
    FAC_TRY(fac__set_data(v, empty));
    fac_tensor_wrap((void *)t, 0, FAC_U8, FAC_INTS(0), (fac_ints){NULL, 0}, 0, NULL, NULL);
    return fac_error();
}

static void tensor_survives_failing_allocations(void **state) {
    (void)state;
    support_fail_each_allocation(make_views_and_resize, NULL);
}

FAC_TEST_MAIN(FAC_TEST(S001_tensor_properties_are_readable), FAC_TEST(S001_tensor_bad_dimension_is_an_index_error),
              FAC_TEST(S001_tensor_null_handle_is_reported_by_every_reader), FAC_TEST(S003_select_column_is_a_view),
              FAC_TEST(S004_select_row_starts_at_its_offset), FAC_TEST(S006_write_through_one_view_shows_in_the_others),
              FAC_TEST(S008_empty_on_cpu_and_meta), FAC_TEST(tensor_of_many_dimensions_uses_the_heap_for_its_shape),
              FAC_TEST(tensor_bad_sizes_are_errors), FAC_TEST(tensor_too_large_for_memory_is_a_memory_error),
              FAC_TEST(tensor_view_outside_its_storage_is_an_error), FAC_TEST(tensor_from_refuses_bad_input),
              FAC_TEST(tensor_empty_like_follows_the_permutation), FAC_TEST(tensor_scalar_holds_its_number),
              FAC_TEST(S012_tensor_flags_agree_with_pytorch), FAC_TEST(tensor_internal_overlap),
              FAC_TEST(tensor_mutual_overlap), FAC_TEST(tensor_version_is_shared_by_views_and_detached_handles),
              FAC_TEST(tensor_made_in_inference_mode_has_no_version),
              FAC_TEST(tensor_set_data_changes_what_every_holder_sees),
              FAC_TEST(tensor_set_data_of_integers_under_a_gradient_is_an_error),
              FAC_TEST(S014_tensor_resize_keeps_contents),
              FAC_TEST(S002_wrapped_memory_is_released_once_with_the_last_view),
              FAC_TEST(tensor_wrap_that_fails_leaves_the_memory_to_the_caller),
              FAC_TEST(tensor_read_converts_and_walks_strides), FAC_TEST(S026_item_reads_one_element),
              FAC_TEST(shape_broadcast), FAC_TEST(shape_infer_size), FAC_TEST(shape_dim_mask),
              FAC_TEST(shape_text_fits_or_ends_in_dots), FAC_TEST(tensor_survives_failing_allocations))
