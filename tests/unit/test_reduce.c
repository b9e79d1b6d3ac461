/* Reductions and scans against plain loops in double, over shapes that meet every walk of the engine (rows, columns, blocks,
   tiles, short runs), NaN and empty inputs, PyTorch's words for what is refused, and equality over threads. */
#include "dispatch/operator.h"
#include "grad_cases.h"

/* ---- a reference -------------------------------------------------------------------------------------------------- */

typedef struct shape {
    int64_t n[4]; /* outermost first; 1 where unused */
    int keep;     /* the order in memory: which dimension is the fastest */
} shape;

static const shape shapes[] = {
    {{1, 1, 1, 5}, 3},    {{1, 1, 3, 17}, 3},     {{1, 2, 40, 70}, 3},   {{1, 2, 40, 70}, 1},
    {{3, 5, 7, 2}, 0},    {{2, 3, 4, 5}, 2},      {{1, 1, 1, 40000}, 3}, {{1, 1, 3, 70001}, 3},
    {{1, 1, 2500, 3}, 3}, {{1, 1, 3000, 300}, 3}, {{2, 1, 1, 9}, 3},     {{1, 70, 2, 64}, 1},
};
enum { MOST = 3000 * 300 };
static double data[MOST], got[MOST], want[MOST];

static int64_t numel(const shape *s) { return s->n[0] * s->n[1] * s->n[2] * s->n[3]; }
static double value(int64_t i) { return sin(0.7 * (double)i) + 0.1 * (double)(i % 7); }

/* The tensor with elements value(0), value(1), ... in logical order, laid out with dimension `keep` fastest. */
static fac_tensor *make(const shape *s, fac_dtype dtype) {
    for (int64_t i = 0; i < numel(s); i++) data[i] = value(i);
    fac_tensor *t = fac_to_dtype(fac_tensor_from(data, FAC_F64, FAC_INTS(s->n[0], s->n[1], s->n[2], s->n[3])), dtype);
    return fac_transpose(fac_contiguous(fac_transpose(t, s->keep, 3)), s->keep, 3);
}

typedef double (*fold_fn)(double acc, double x);
static double add(double a, double x) { return a + x; }
static double larger(double a, double x) { return x > a ? x : a; }
static double smaller(double a, double x) { return x < a ? x : a; }

/* Folds the dimensions in mask (bit 0: outermost) of the logical data; returns the number of results. */
static int64_t fold(const shape *s, unsigned mask, fold_fn f, double first) {
    int64_t outs = 0, stride[4], size = 1;
    for (int d = 3; d >= 0; d--) {
        stride[d] = mask >> d & 1 ? 0 : size;
        size *= mask >> d & 1 ? 1 : s->n[d];
    }
    outs = size;
    for (int64_t i = 0; i < outs; i++) want[i] = first;
    for (int64_t i = 0; i < numel(s); i++) {
        int64_t rest = i, o = 0;
        for (int d = 3; d >= 0; d--) {
            o += rest % s->n[d] * stride[d];
            rest /= s->n[d];
        }
        want[o] = f(want[o], data[i]);
    }
    return outs;
}

static fac_ints dims_of(unsigned mask, int64_t *room) {
    size_t n = 0;
    for (int d = 0; d < 4; d++) {
        if (mask >> d & 1) room[n++] = d;
    }
    return (fac_ints){room, n};
}

static void compare(fac_tensor *t, int64_t n, double tolerance) {
    assert_no_error();
    assert_non_null(t);
    assert_int_equal(fac_tensor_numel(t), n);
    assert_ok(fac_tensor_read(t, FAC_F64, got, (size_t)n));
    for (int64_t i = 0; i < n; i++) assert_near(got[i], want[i], tolerance * (1 + fabs(want[i])));
}

static void folds_agree(fac_dtype dtype, double tolerance) {
    for (size_t k = 0; k < FAC_COUNT(shapes); k++) {
        for (unsigned mask = 1; mask < 16; mask++) {
            FAC_SCOPE(s);
            int64_t room[4];
            fac_tensor *x = make(&shapes[k], dtype);
            fac_ints dims = dims_of(mask, room);
            int64_t n = fold(&shapes[k], mask, add, 0);
            compare(fac_sum(x, .dims = dims), n, tolerance);
            for (int64_t i = 0; i < n; i++) want[i] /= (double)(numel(&shapes[k]) / n);
            compare(fac_mean(x, .dims = dims, .keepdim = true), n, tolerance);
            n = fold(&shapes[k], mask, larger, -INFINITY);
            compare(fac_amax(x, .dims = dims), n, tolerance);
            n = fold(&shapes[k], mask, smaller, INFINITY);
            compare(fac_amin(x, .dims = dims), n, tolerance);
        }
    }
}

static void folds_of_f32_agree_with_loops(void **state) {
    (void)state;
    folds_agree(FAC_F32, 2e-6);
}
static void folds_of_f64_agree_with_loops(void **state) {
    (void)state;
    folds_agree(FAC_F64, 1e-12);
}
static void folds_of_bf16_agree_with_loops(void **state) {
    (void)state;
    folds_agree(FAC_BF16, 2e-2);
}

/* Mean and sum of squared differences by two passes. */
static void variances_agree_with_loops(void **state) {
    (void)state;
    static double mean[MOST];
    for (size_t k = 0; k < FAC_COUNT(shapes); k++) {
        for (unsigned mask = 1; mask < 16; mask += 2) {
            FAC_SCOPE(s);
            int64_t room[4];
            fac_tensor *x = make(&shapes[k], FAC_F32);
            int64_t n = fold(&shapes[k], mask, add, 0), each = numel(&shapes[k]) / n;
            if (each < 2) continue;
            for (int64_t i = 0; i < n; i++) mean[i] = want[i] / (double)each;
            for (int64_t i = 0; i < numel(&shapes[k]); i++) data[i] = value(i) * value(i);
            fold(&shapes[k], mask, add, 0);
            for (int64_t i = 0; i < n; i++) want[i] = (want[i] - (double)each * mean[i] * mean[i]) / (double)(each - 1);
            fac_var_mean_result r = fac_var_mean(x, .dims = dims_of(mask, room));
            compare(r.result0, n, 1e-5);
            for (int64_t i = 0; i < n; i++) want[i] = sqrt(fmax(want[i], 0));
            compare(fac_std(x, .dims = dims_of(mask, room)), n, 1e-4);
            memcpy(want, mean, (size_t)n * sizeof *want);
            compare(r.result1, n, 1e-5);
        }
    }
}

static void variance_survives_a_large_mean(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = fac_tensor_of(16777216, 16777218, 16777220, 16777222);
    double v = fac_item(fac_var(x));
    assert_near(v, 20.0 / 3, 1e-5);
}

/* A sum of 2^24 ones would stop at 2^24 in a single float; a long sum of tenths keeps its digits. */
static void long_sums_do_not_lose_what_is_added(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *ones = fac_expand(fac_ones(FAC_SHAPE(1)), FAC_SHAPE(20000000));
    double n = fac_item(fac_sum(ones));
    assert_near(n, 20000000, 0);
    double tenths = fac_item(fac_sum(fac_full(FAC_SHAPE(1000003), 0.1)));
    assert_near(tenths, 1000003 * (double)0.1f, 0.1);
}

static void extremes_find_the_first_of_equals(void **state) {
    (void)state;
    FAC_SCOPE(s);
    for (size_t k = 0; k < FAC_COUNT(shapes); k++) {
        for (int d = 0; d < 4; d++) {
            FAC_SCOPE(inner);
            fac_tensor *x = fac_floor(fac_mul(make(&shapes[k], FAC_F32), 3.0));
            fac_max_dim_result r = fac_max_dim(x, d, .keepdim = true);
            fac_tensor *picked = fac_gather(x, d, r.indices);
            assert_no_error();
            assert_int_equal(fac_item_int(fac_all(fac_eq(picked, r.values))), 1);
            assert_int_equal(fac_item_int(fac_all(fac_le(x, r.values))), 1);
            fac_tensor *places = fac_view(fac_arange(fac_tensor_size(x, d)), d == 0   ? FAC_INTS(-1, 1, 1, 1)
                                                                             : d == 1 ? FAC_INTS(1, -1, 1, 1)
                                                                             : d == 2 ? FAC_INTS(1, 1, -1, 1)
                                                                                      : FAC_INTS(1, 1, 1, -1));
            fac_tensor *earlier = fac_logical_and(fac_eq(x, r.values), fac_lt(places, r.indices));
            assert_int_equal(fac_item_int(fac_any(earlier)), 0);
            assert_int_equal(fac_item_int(fac_all(fac_eq(fac_argmax(x, .dim = d, .keepdim = true), r.indices))), 1);
        }
    }
}

/* Integers, and floats that are narrower than accumulators, against their doubles, which other kernels fold: numbers of the whole range of the dtype, the largest and the smallest among
   them, in rows and columns of all lengths. */
static void extremes_agree(fac_dtype dtype, double least, double most, int64_t w) {
    FAC_SCOPE(s);
    const int64_t n = 37 * w;
    for (int64_t i = 0; i < n; i++)
        data[i] = i == n / 2   ? most
                  : i == n / 3 ? least
                               : floor(least + (most - least) * (0.5 + 0.5 * sin(3.7 * (double)i)));
    fac_tensor *x = fac_to_dtype(fac_tensor_from(data, FAC_F64, FAC_INTS(37, w)), dtype), *y = fac_to_dtype(x, FAC_F64);
    const fac_aminmax_result both = fac_aminmax(x);
    assert_near(fac_item(both.min), least, 0);
    assert_near(fac_item(both.max), most, 0);
    for (unsigned mask = 0; mask < 4; mask++) {
        int64_t room[4];
        const fac_ints dims = dims_of(mask, room);
        assert_true(fac_equal(fac_to_dtype(fac_amax(x, .dims = dims), FAC_F64), fac_amax(y, .dims = dims)));
        assert_true(fac_equal(fac_to_dtype(fac_amin(x, .dims = dims), FAC_F64), fac_amin(y, .dims = dims)));
    }
    for (int64_t d = 0; d < 2; d++) {
        fac_tensor *odd = fac_eq(y, most);
        assert_true(fac_equal(fac_to_dtype(fac_all_dim(x, d), FAC_BOOL), fac_all_dim(y, d)));
        assert_true(fac_equal(fac_any_dim(odd, d), fac_any_dim(fac_to_dtype(odd, FAC_F64), d)));
        if (dtype == FAC_BOOL) continue;
        assert_true(fac_equal(fac_argmax(x, .dim = d), fac_argmax(y, .dim = d)));
        assert_true(fac_equal(fac_argmin(x, .dim = d), fac_argmin(y, .dim = d)));
    }
    assert_no_error();
}

static void extremes_are_those_of_their_doubles(void **state) {
    (void)state;
    static const int64_t widths[] = {1, 3, 17, 64, 65, 130, 300, 1000};
    for (size_t k = 0; k < FAC_COUNT(widths); k++) {
        extremes_agree(FAC_BOOL, 0, 1, widths[k]);
        extremes_agree(FAC_U8, 0, UINT8_MAX, widths[k]);
        extremes_agree(FAC_I8, INT8_MIN, INT8_MAX, widths[k]);
        extremes_agree(FAC_I16, INT16_MIN, INT16_MAX, widths[k]);
        extremes_agree(FAC_I32, INT32_MIN, INT32_MAX, widths[k]);
        extremes_agree(FAC_I64, -0x1p50, 0x1p50, widths[k]);
        extremes_agree(FAC_F16, -65504, 65504, widths[k]);
        extremes_agree(FAC_BF16, -0x1p100, 0x1p120, widths[k]);
        extremes_agree(FAC_F32, -0x1p100, 0x1p120, widths[k]);
        extremes_agree(FAC_F64, -0x1p1000, 0x1p1000, widths[k]);
    }
}

static void argmax_of_all_counts_in_row_major_order(void **state) {
    (void)state;
    for (size_t k = 0; k < FAC_COUNT(shapes); k++) {
        FAC_SCOPE(s);
        fac_tensor *x = make(&shapes[k], FAC_F64);
        int64_t most = 0, least = 0;
        for (int64_t i = 1; i < numel(&shapes[k]); i++) {
            if (data[i] > data[most]) most = i;
            if (data[i] < data[least]) least = i;
        }
        assert_int_equal(fac_item_int(fac_argmax(x)), most);
        assert_int_equal(fac_item_int(fac_argmin(x)), least);
    }
}

/* ---- special values ------------------------------------------------------------------------------------------------- */

static void nan_wins_every_comparison(void **state) {
    (void)state;
    static float v[5000];
    FAC_SCOPE(s);
    for (int i = 0; i < 5000; i++) v[i] = (float)i;
    v[3001] = v[4002] = NAN;
    fac_tensor *x = fac_tensor_from(v, FAC_F32, FAC_INTS(5000)), *column = fac_view(x, FAC_INTS(500, 10));
    assert_true(isnan(fac_item(fac_max(x))));
    assert_true(isnan(fac_item(fac_amin(x))));
    assert_int_equal(fac_item_int(fac_argmax(x)), 3001);
    assert_int_equal(fac_item_int(fac_argmin(x)), 3001);
    assert_int_equal(fac_item_int(fac_select(fac_argmax(column, .dim = 0), 0, 1)), 300);
    assert_int_equal(fac_item_int(fac_select(fac_cummax(x, 0).indices, 0, 4999)), 4002);
    double sum = fac_item(fac_nansum(x));
    assert_near(sum, 4999.0 * 2500 - 3001 - 4002, 2);
}

static void nan_of_either_sign_wins_in_every_dtype(void **state) {
    (void)state;
    static const fac_dtype dtypes[] = {FAC_F16, FAC_BF16, FAC_F32, FAC_F64};
    static const int64_t widths[] = {1, 5, 16, 31, 40, 70, 300, 70000};
    for (size_t k = 0; k < FAC_COUNT(widths) * FAC_COUNT(dtypes) * 2; k++) {
        FAC_SCOPE(s);
        const int64_t w = widths[k / 8];
        for (int64_t i = 0; i < 5 * w; i++) data[i] = value(i) - (i >= 4 * w ? 2 : 0);
        data[2 * w - 1] = k % 2 ? NAN : -NAN;
        fac_tensor *x = fac_to_dtype(fac_tensor_from(data, FAC_F64, FAC_INTS(5, w)), dtypes[k / 2 % 4]);
        const fac_aminmax_result both = fac_aminmax(x);
        assert_true(isnan(fac_item(both.min)) && isnan(fac_item(both.max)));
        assert_true(isnan(fac_item(fac_amax(x))) && isnan(fac_item(fac_amin(x))));
        fac_tensor *most = fac_isnan(fac_amax(x, .dim = 1)), *least = fac_isnan(fac_amin(x, .dim = 1));
        for (int64_t r = 0; r < 5; r++) {
            assert_int_equal(fac_item_int(fac_select(most, 0, r)), r == 1);
            assert_int_equal(fac_item_int(fac_select(least, 0, r)), r == 1);
        }
        assert_no_error();
    }
}

static void empty_folds_give_identities_or_are_refused(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = fac_zeros(FAC_SHAPE(0, 3));
    assert_near(fac_item(fac_sum(x)), 0, 0);
    assert_near(fac_item(fac_prod(x)), 1, 0);
    assert_true(isnan(fac_item(fac_mean(x))));
    assert_int_equal(fac_item_int(fac_all(x)), 1);
    assert_int_equal(fac_item_int(fac_any(x)), 0);
    fac_tensor *truths = fac_full(FAC_SHAPE(3, 2), true, .dtype = FAC_BOOL), *column = fac_select(truths, 1, 0);
    assert_non_null(fac_any_dim_out(column, x, 0));
    assert_int_equal(fac_item_int(fac_count_nonzero(column)), 0);
    assert_int_equal(fac_item_int(fac_count_nonzero(truths)), 3);
    assert_int_equal(fac_tensor_numel(fac_sum(x, .dim = 0)), 3);
    assert_int_equal(fac_tensor_numel(fac_amax(x, .dim = 1)), 0);
    assert_null(fac_max(x));
    assert_error(FAC_ERR_ARGUMENT, "Specify the reduction dim with the 'dim' argument.");
    fac_max_dim_result none = fac_max_dim(x, 0);
    assert_null(none.values);
    assert_error(FAC_ERR_INDEX, "Expected reduction dim 0 to have non-zero size.");
    assert_null(fac_argmax(x));
    assert_error(FAC_ERR_INDEX, "Expected reduction dim to be specified for input.numel() == 0.");
}

/* The exclusive or of elements' bits, of real numbers those of doubles: by a loop, over either dimension, in every dtype. */
static void hash_tensor_is_the_exclusive_or_of_bits(void **state) {
    (void)state;
    static const fac_dtype dtypes[] = {FAC_F64, FAC_F32, FAC_F16, FAC_BF16, FAC_I64, FAC_I32, FAC_I16, FAC_I8, FAC_U8};
    enum { ROWS = 70, COLUMNS = 130 };
    for (size_t d = 0; d < FAC_COUNT(dtypes); d++) {
        FAC_SCOPE(s);
        const bool real = fac_dtype_is_floating(dtypes[d]);
        static double v[ROWS * COLUMNS];
        uint64_t rows[ROWS] = {0}, columns[COLUMNS] = {0}, all = 0;
        fac_tensor *x = fac_sub(fac_remainder(fac_mul(fac_arange(ROWS * COLUMNS, .dtype = FAC_F64), 37), 101), 50);
        x = fac_to_dtype(fac_reshape(real ? fac_div(x, 8) : x, FAC_INTS(ROWS, COLUMNS)), dtypes[d]);
        assert_no_error();
        assert_ok(fac_tensor_read(x, FAC_F64, v, ROWS * COLUMNS));
        for (int i = 0; i < ROWS * COLUMNS; i++) {
            uint64_t bits = (uint64_t)(int64_t)v[i];
            if (real) memcpy(&bits, &v[i], sizeof bits);
            all ^= bits, rows[i / COLUMNS] ^= bits, columns[i % COLUMNS] ^= bits;
        }
        assert_true(fac_equal(fac_hash_tensor(x), fac_tensor_from(&all, FAC_I64, FAC_SHAPE())));
        assert_true(fac_equal(fac_hash_tensor(x, .dim = 1), fac_tensor_from(rows, FAC_I64, FAC_INTS(ROWS))));
        assert_true(fac_equal(fac_hash_tensor(x, .dim = 0, .keepdim = true),
                              fac_tensor_from(columns, FAC_I64, FAC_INTS(1, COLUMNS))));
        assert_true(fac_equal(fac_hash_tensor(fac_transpose(x, 0, 1), .dim = 0),
                              fac_tensor_from(rows, FAC_I64, FAC_INTS(ROWS))));
        assert_no_error();
    }
    FAC_SCOPE(s);
    assert_true(fac_item_int(fac_hash_tensor(fac_full(FAC_SHAPE(1), -0.0))) == INT64_MIN);
    assert_null(fac_hash_tensor(fac_zeros(FAC_SHAPE(3)), .mode = 1));
    assert_error(FAC_ERR_ARGUMENT, "Unknown hash_tensor mode: 1");
    assert_null(fac_hash_tensor(fac_zeros(FAC_SHAPE(0))));
    assert_error(FAC_ERR_ARGUMENT, "Specify the reduction dim with the 'dim' argument.");
    assert_null(fac_hash_tensor(fac_zeros(FAC_SHAPE(2), .dtype = FAC_C64)));
    assert_error(FAC_ERR_DTYPE, "complex");
}

static void zero_dim_tensors_accept_dim_0_and_minus_1(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = fac_full(FAC_SHAPE(), 3.0);
    assert_near(fac_item(fac_sum(x, .dim = 0)), 3, 0);
    assert_near(fac_item(fac_prod_dim(x, -1)), 3, 0);
    assert_near(fac_item(fac_max_dim(x, 0).values), 3, 0);
    assert_near(fac_item(fac_cumsum(x, 0)), 3, 0);
    assert_near(fac_item(fac_softmax(x, -1)), 1, 0);
    assert_null(fac_sum(x, .dim = 1));
    assert_error(FAC_ERR_INDEX, "Dimension out of range (expected to be in range of [-1, 0], but got 1)");
}

static void dims_and_dtypes_that_do_not_fit_are_refused(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = fac_zeros(FAC_SHAPE(2, 3)), *i = fac_zeros(FAC_SHAPE(2), .dtype = FAC_I64),
               *c = fac_zeros(FAC_SHAPE(2), .dtype = FAC_C64);
    assert_null(fac_sum(x, .dim = 5));
    assert_error(FAC_ERR_INDEX, "Dimension out of range (expected to be in range of [-2, 1], but got 5)");
    assert_null(fac_sum(x, .dims = FAC_DIMS(0, -2)));
    assert_error(FAC_ERR_ARGUMENT, "dim 0 appears multiple times in the list of dims");
    assert_null(fac_mean(i));
    assert_error(
        FAC_ERR_DTYPE,
        "could not infer output dtype. Input dtype must be either a floating point or complex dtype. Got: int64");
    assert_null(fac_var(i));
    assert_error(FAC_ERR_DTYPE, "std and var only support floating point and complex dtypes");
    assert_null(fac_max(c));
    assert_error(FAC_ERR_DTYPE, "does not support complex input");
    assert_null(fac_softmax(i, 0));
    assert_error(FAC_ERR_DTYPE, "not implemented for 'int64'");
    assert_null(fac_softmax(x, 2));
    assert_error(FAC_ERR_INDEX, "Dimension out of range");
}

/* ---- dtypes ------------------------------------------------------------------------------------------------------------ */

static void integer_sums_are_int64_and_wrap(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = fac_full(FAC_SHAPE(3, 100), 127, .dtype = FAC_I8);
    fac_tensor *sum = fac_sum(x);
    assert_int_equal(fac_tensor_dtype(sum), FAC_I64);
    assert_int_equal(fac_item_int(sum), 127 * 300);
    assert_int_equal(fac_item_int(fac_sum(x, .dtype = FAC_U8)), (127 * 300) & 255);
    fac_tensor *halves = fac_full(FAC_SHAPE(3), 0.5);
    assert_int_equal(fac_item_int(fac_sum(halves, .dtype = FAC_I32)), 0); /* each is cast before it is added */
    assert_near(fac_item(fac_sum(x, .dtype = FAC_F32)), 127 * 300, 0);
    assert_int_equal(fac_item_int(fac_count_nonzero(halves)), 3);
}

static void out_forms_cast_and_resize(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = fac_view(fac_arange(6, .dtype = FAC_F32), FAC_INTS(2, 3)),
               *out = fac_empty(FAC_SHAPE(0), .dtype = FAC_F64);
    assert_non_null(fac_sum_out(out, x, .dim = 1));
    assert_int_equal(fac_tensor_numel(out), 2);
    assert_near(fac_item(fac_select(out, 0, 1)), 12, 0);
    assert_null(fac_sum_out(fac_empty(FAC_SHAPE(2), .dtype = FAC_I64), x, .dim = 1));
    assert_error(FAC_ERR_DTYPE, "");
    fac_tensor *y = fac_clone(x);
    assert_ptr_equal(fac_cumsum_(y, 0), y);
    assert_near(fac_item(fac_select(fac_select(y, 0, 1), 0, 2)), 7, 0);
}

/* ---- scans ---------------------------------------------------------------------------------------------------------------- */

static void scans_agree_with_loops(void **state) {
    (void)state;
    for (size_t k = 0; k < FAC_COUNT(shapes); k++) {
        for (int d = 0; d < 4; d++) {
            FAC_SCOPE(s);
            fac_tensor *x = make(&shapes[k], FAC_F32);
            const int64_t *n = shapes[k].n;
            int64_t step = 1, all = numel(&shapes[k]);
            for (int e = d + 1; e < 4; e++) step *= n[e];
            for (int64_t i = 0; i < all; i++) want[i] = i / step % n[d] == 0 ? data[i] : want[i - step] + data[i];
            compare(fac_cumsum(x, d), all, 1e-5);
            for (int64_t i = 0; i < all; i++) want[i] = i / step % n[d] == 0 ? data[i] : fmax(want[i - step], data[i]);
            compare(fac_cummax(x, d).values, all, 1e-6);
            for (int64_t i = 0; i < all; i++)
                want[i] = i / step % n[d] == 0 ? data[i] : log(exp(want[i - step]) + exp(data[i]));
            compare(fac_logcumsumexp(x, d), all, 1e-4);
        }
    }
}

/* Numbers that grow little by little, and by leaps, after minus infinity. */
static void running_logarithms_of_doubles_are_those_of_wider_sums(void **state) {
    (void)state;
    enum { N = 3000 };
    static double x[N], y[N];
    FAC_SCOPE(s);
    fac_manual_seed(4);
    for (int leaps = 0; leaps < 2; leaps++) {
        assert_ok(fac_tensor_read(fac_mul(fac_randn(FAC_SHAPE(N), .dtype = FAC_F64), 3), FAC_F64, x, N));
        x[0] = x[1] = -INFINITY;
        for (int i = 1000; leaps && i < N; i += 1000) x[i] = 40.0 * i / 1000;
        fac_tensor *t = fac_tensor_from(x, FAC_F64, FAC_INTS(N));
        assert_ok(fac_tensor_read(fac_logcumsumexp(t, 0), FAC_F64, y, N));
        long double sum = 0;
        for (int i = 0; i < N; i++) {
            sum += expl((long double)x[i]);
            assert_true(i < 2 ? y[i] == -INFINITY : fabsl((long double)y[i] - logl(sum)) < 1e-13L);
        }
    }
}

/* ---- softmax ----------------------------------------------------------------------------------------------------------------- */

/* Lines that lie in rows are taken several at a time; one alone is not. Results are the same to the bit. */
static void scans_of_many_lines_are_those_of_each(void **state) {
    (void)state;
    static const fac_dtype dtypes[] = {FAC_F32, FAC_F64, FAC_I16, FAC_I64};
    enum { ROWS = 19, COLS = 203 };
    for (size_t k = 0; k < FAC_COUNT(dtypes); k++) {
        FAC_SCOPE(s);
        for (int64_t i = 0; i < ROWS * COLS; i++)
            data[i] = k < 2 ? i % 977 == 500 ? NAN : sin((double)i) : (double)(i * 7919 % 13 - 6);
        fac_tensor *x = fac_to_dtype(fac_tensor_from(data, FAC_F64, FAC_INTS(ROWS, COLS)), dtypes[k]);
        const fac_cummax_result most = fac_cummax(x, 1);
        const fac_cummin_result least = fac_cummin(x, 1);
        fac_tensor *all[] = {fac_cumsum(x, 1), fac_cumprod(x, 1), most.values,
                             most.indices,     least.values,      least.indices};
        for (int64_t r = 0; r < ROWS; r++) {
            fac_tensor *row = fac_select(x, 0, r);
            const fac_cummax_result up = fac_cummax(row, 0);
            const fac_cummin_result down = fac_cummin(row, 0);
            fac_tensor *each[] = {fac_cumsum(row, 0), fac_cumprod(row, 0), up.values,
                                  up.indices,         down.values,         down.indices};
            for (size_t i = 0; i < FAC_COUNT(all); i++) {
                fac_tensor *of = fac_nan_to_num(fac_select(all[i], 0, r), .nan = 77.0);
                assert_true(fac_equal(of, fac_nan_to_num(each[i], .nan = 77.0)));
            }
        }
        assert_no_error();
    }
}

static void softmax_agrees_with_loops(void **state) {
    (void)state;
    static const fac_dtype dtypes[] = {FAC_F32, FAC_F64, FAC_BF16};
    for (size_t k = 0; k < FAC_COUNT(shapes) * FAC_COUNT(dtypes); k++) {
        const shape *p = &shapes[k / FAC_COUNT(dtypes)];
        fac_dtype dtype = dtypes[k % FAC_COUNT(dtypes)];
        double tolerance = dtype == FAC_F64 ? 1e-12 : dtype == FAC_F32 ? 2e-6 : 1e-2;
        for (int d = 0; d < 4; d++) {
            FAC_SCOPE(s);
            fac_tensor *x = make(p, dtype);
            if (dtype == FAC_BF16) assert_ok(fac_tensor_read(x, FAC_F64, data, (size_t)numel(p))); /* as rounded */
            int64_t step = 1, all = numel(p), n = p->n[d];
            for (int e = d + 1; e < 4; e++) step *= p->n[e];
            for (int64_t i = 0; i < all; i++) {
                if (i / step % n) continue;
                double sum = 0;
                for (int64_t j = 0; j < n; j++) sum += exp(data[i + j * step]);
                for (int64_t j = 0; j < n; j++) want[i + j * step] = exp(data[i + j * step]) / sum;
            }
            compare(fac_softmax(x, d), all, tolerance);
            for (int64_t i = 0; i < all; i++) want[i] = log(want[i]);
            compare(fac_log_softmax(x, d), all, tolerance * 4);
        }
    }
}

static void softmax_of_large_and_infinite_numbers(void **state) {
    (void)state;
    FAC_SCOPE(s);
    float y[3];
    assert_ok(fac_tensor_read(fac_softmax(fac_tensor_of(1000, 1000, -1000), 0), FAC_F32, y, 3));
    assert_near((double)y[0], 0.5, 0);
    assert_near((double)y[2], 0, 0);
    assert_ok(fac_tensor_read(fac_softmax(fac_tensor_of(-INFINITY, 0, -INFINITY), 0), FAC_F32, y, 3));
    assert_near((double)y[1], 1, 0);
    assert_near((double)y[0], 0, 0);
    assert_ok(fac_tensor_read(fac_softmax(fac_tensor_of(-INFINITY, -INFINITY, -INFINITY), 0), FAC_F32, y, 3));
    assert_true(isnan(y[1]));
    assert_true(fac_item(fac_logsumexp(fac_tensor_of(-INFINITY, -INFINITY), FAC_DIMS(0))) == -INFINITY);
    fac_tensor *wide = fac_softmax(fac_zeros(FAC_SHAPE(2, 4), .dtype = FAC_F16), 1, .dtype = FAC_F32);
    assert_int_equal(fac_tensor_dtype(wide), FAC_F32);
}

/* ---- threads and memory ------------------------------------------------------------------------------------------------------- */

static void results_do_not_depend_on_the_number_of_threads(void **state) {
    (void)state;
    static double first[4096], now[4096];
    int was = fac_num_threads();
    for (int threads = 1; threads <= 3; threads++) {
        FAC_SCOPE(s);
        assert_ok(fac_set_num_threads(threads));
        const shape long_row = {{1, 1, 3, 70001}, 3}, tall = {{1, 1, 3000, 300}, 3};
        fac_tensor *a = make(&long_row, FAC_F32), *b = make(&tall, FAC_F32);
        fac_tensor *parts[] = {fac_sum(a),
                               fac_var(a),
                               fac_norm(b),
                               fac_sum(b, .dim = 2),
                               fac_var(b, .dim = 2),
                               fac_prod_dim(b, 2),
                               fac_logsumexp(a, FAC_DIMS(3))};
        size_t at = 0;
        for (size_t i = 0; i < FAC_COUNT(parts); i++) {
            assert_no_error();
            size_t n = (size_t)fac_tensor_numel(parts[i]);
            assert_ok(fac_tensor_read(parts[i], FAC_F64, now + at, n));
            at += n;
        }
        if (threads == 1) memcpy(first, now, at * sizeof *now);
        assert_memory_equal(first, now, at * sizeof *now);
    }
    assert_ok(fac_set_num_threads(was));
}

static fac_status reduce_all(void *context) {
    (void)context;
    FAC_SCOPE(s);
    fac_tensor *x = fac_expand(fac_ones(FAC_SHAPE(1, 8), .dtype = FAC_F16), FAC_SHAPE(9000, 8));
    fac_tensor *y = fac_sum(fac_var(x, .dim = 0));
    y = fac_add(y, fac_max_dim(fac_sum(x, .dim = 0), 0).values);
    return fac_add(y, fac_logsumexp(fac_softmax(fac_t(x), 0), FAC_DIMS(0, 1))) ? FAC_OK : fac_error();
}
static void failing_allocations_are_survived(void **state) {
    (void)state;
    int was = fac_num_threads();
    assert_ok(fac_set_num_threads(1)); /* a worker's first error makes its thread state, which outlives the test */
    support_fail_each_allocation(reduce_all, NULL);
    assert_ok(fac_set_num_threads(was));
}

static bool alike(fac_tensor *a, fac_tensor *b) {
    return fac_equal(fac_isnan(a), fac_isnan(b)) && fac_equal(fac_nan_to_num(a), fac_nan_to_num(b));
}

/* Whether what becomes of rows together is what becomes of each alone; numbers are small integers, which are summed without rounding. */
static bool rows_agree(fac_tensor *a) {
    bool ok = true;
    fac_cummax_result most = fac_cummax(a, 1);
    fac_cummin_result least = fac_cummin(a, 1);
    fac_tensor *v = fac_tensor_dtype(a) == FAC_BOOL ? fac_to_dtype(a, FAC_I32) : a;
    fac_tensor *place = fac_argmax(v, .dim = 1), *least_place = fac_argmin(v, .dim = 1);
    fac_max_dim_result best = fac_max_dim(v, 1);
    fac_tensor *sums = fac_cumsum(a, 1), *products = fac_cumprod(a, 1);
    fac_tensor *sum = fac_sum(a, .dims = FAC_DIMS(1)), *product = fac_prod_dim(a, 1), *top = fac_amax(a, .dim = 1),
               *bottom = fac_amin(a, .dim = 1);
    for (int64_t i = 0; i < fac_tensor_size(a, 0); i++) {
        fac_tensor *row = fac_clone(fac_select(a, 0, i));
        fac_cummax_result row_most = fac_cummax(row, 0);
        fac_cummin_result row_least = fac_cummin(row, 0);
        ok = ok && alike(fac_select(most.values, 0, i), row_most.values) &&
             alike(fac_select(least.values, 0, i), row_least.values);
        ok = ok && fac_equal(fac_select(most.indices, 0, i), row_most.indices);
        fac_tensor *one = fac_clone(fac_select(v, 0, i));
        ok = ok && fac_equal(fac_select(place, 0, i), fac_argmax(one));
        ok = ok && fac_equal(fac_select(least_place, 0, i), fac_argmin(one));
        ok = ok && fac_equal(fac_select(best.indices, 0, i), fac_argmax(one));
        ok = ok && alike(fac_select(best.values, 0, i), fac_max(one));
        ok = ok && fac_equal(fac_select(least.indices, 0, i), row_least.indices);
        ok = ok && alike(fac_select(sums, 0, i), fac_cumsum(row, 0)) &&
             alike(fac_select(products, 0, i), fac_cumprod(row, 0));
        ok = ok && alike(fac_select(sum, 0, i), fac_sum(row)) && alike(fac_select(product, 0, i), fac_prod(row));
        ok = ok && alike(fac_select(top, 0, i), fac_max(row)) && alike(fac_select(bottom, 0, i), fac_min(row));
    }
    return ok;
}

static void rows_together_become_what_each_becomes(void **state) {
    (void)state;
    static const fac_dtype dtypes[] = {FAC_BOOL, FAC_I32, FAC_I64, FAC_BF16, FAC_F16, FAC_F32, FAC_F64};
    static const int64_t lengths[] = {1, 3, 8, 17, 33, 64, 65, 700};
    for (size_t i = 0; i < FAC_COUNT(dtypes); i++)
        for (size_t j = 0; j < FAC_COUNT(lengths); j++) {
            FAC_SCOPE(s);
            fac_tensor *a = fac_to_dtype(fac_sub(fac_randint(4, FAC_SHAPE(13, 2 * lengths[j])), 2), dtypes[i]);
            if (fac_dtype_is_floating(dtypes[i]))
                a = fac_masked_fill(a, fac_eq(fac_randint(50, FAC_SHAPE(13, 2 * lengths[j])), 0), NAN);
            fac_tensor *half = fac_slice(a, 1, .end = lengths[j]), *near = fac_contiguous(half);
            assert_true(rows_agree(half));
            assert_true(rows_agree(near));
            assert_true(rows_agree(fac_slice(a, 1, .step = 2)));
            assert_true(rows_agree(fac_t(fac_contiguous(fac_t(near)))));
            assert_true(rows_agree(fac_t(fac_slice(fac_contiguous(fac_t(a)), 0, .end = lengths[j]))));
            assert_no_error();
        }
}

static fac_tensor *powsum(fac_tensor *x, double order, int64_t dim) {
    fac_value args[] = {fac_value_tensor(x), fac_value_float(order), fac_value_ints(&dim, 1)},
              result = fac_value_none();
    fac_tensor *sums = NULL;
    assert_ok(fac_call("aten::linalg__powsum", args, 3, &result));
    for (int i = 0; i < 3; i++) fac_value_release(&args[i]);
    assert_ok(fac__take_tensor(&result, &sums));
    return fac__adopt_handle(fac__thread(), sums);
}

/* Sums of powers, and the gradients of those. */
static void powsum_adds_powers(void **state) {
    (void)state;
    static const fac_dtype dtypes[] = {FAC_F16, FAC_BF16, FAC_F32, FAC_F64};
    static const double orders[] = {0, 1, 2, 3};
    for (size_t i = 0; i < FAC_COUNT(dtypes); i++)
        for (size_t j = 0; j < FAC_COUNT(orders); j++) {
            FAC_SCOPE(s);
            fac_tensor *x = fac_to_dtype(fac_sub(fac_randint(4, FAC_SHAPE(3, 41)), 2), dtypes[i]);
            fac_tensor *powers = orders[j] == 0 ? fac_to_dtype(fac_ne(x, 0), FAC_F64)
                                                : fac_pow(fac_abs(fac_to_dtype(x, FAC_F64)), orders[j]);
            fac_tensor *rows = powsum(x, orders[j], 1), *columns = powsum(x, orders[j], 0);
            assert_true(fac_equal(fac_to_dtype(rows, FAC_F64), fac_sum(powers, .dims = FAC_DIMS(1))));
            assert_true(fac_equal(fac_to_dtype(columns, FAC_F64), fac_sum(powers, .dims = FAC_DIMS(0))));
            if (dtypes[i] != FAC_F64) continue;
            fac_set_requires_grad(x, true);
            assert_ok(fac_backward(fac_sum(powsum(x, orders[j], 1))));
            fac_tensor *slope = orders[j] == 0
                                    ? fac_zeros_like(x)
                                    : fac_mul(fac_mul(fac_sgn(x), fac_pow(fac_abs(x), orders[j] - 1)), orders[j]);
            assert_true(fac_equal(fac_grad_of(x), fac_detach(slope)));
            assert_no_error();
        }
}

/* Gradients of softmax and its logarithm over long lines of halves, which are made a tile at a time, are those of doubles. */
static void softmax_of_long_halves_has_the_gradient_of_doubles(void **state) {
    (void)state;
    static const fac_dtype dtypes[] = {FAC_BF16, FAC_F16};
    for (int i = 0; i < 8; i++) {
        FAC_SCOPE(s);
        const fac_dtype d = dtypes[i & 1];
        const bool is_log = i & 2, turned = i & 4;
        const fac_ints shape = turned ? FAC_SHAPE(9001, 2) : FAC_SHAPE(2, 9001);
        fac_tensor *dy = fac_to_dtype(fac_randn(shape), d), *x = fac_randn(shape, .dtype = FAC_F64);
        fac_tensor *y = fac_to_dtype(is_log ? fac_log_softmax(x, !turned) : fac_mul(fac_softmax(x, !turned), 1000), d);
        if (turned) dy = fac_t(dy), y = fac_t(y);
        fac_tensor *wide_dy = fac_to_dtype(dy, FAC_F64), *wide_y = fac_to_dtype(y, FAC_F64);
        fac_tensor *got = is_log ? fac_log_softmax_backward_data(dy, y, 1, d) : fac_softmax_backward_data(dy, y, 1, d);
        fac_tensor *wanted = is_log ? fac_log_softmax_backward_data(wide_dy, wide_y, 1, FAC_F64)
                                    : fac_softmax_backward_data(wide_dy, wide_y, 1, FAC_F64);
        assert_no_error();
        const double rounding = d == FAC_BF16 ? 1.0 / 256 : 1.0 / 2048;
        assert_true(fac_allclose(fac_to_dtype(got, FAC_F64), wanted, .rtol = rounding, .atol = is_log ? 1e-6 : 1e-2));
    }
}

/* Extremes along the rows of narrow matrices, with equals and NaN, are those along lines of the transposed one. */
static void extremes_of_narrow_columns_are_those_of_lines(void **state) {
    (void)state;
    static const fac_dtype dtypes[] = {FAC_F32, FAC_F64, FAC_BF16, FAC_I32, FAC_I64};
    static const int64_t widths[] = {2, 3, 8, 31, 33}, heights[] = {63, 128, 1001, 5003};
    for (size_t i = 0; i < FAC_COUNT(dtypes) * FAC_COUNT(widths) * FAC_COUNT(heights); i++) {
        FAC_SCOPE(s);
        const fac_dtype d = dtypes[i % 5];
        const int64_t w = widths[i / 5 % 5], n = heights[i / 25];
        fac_tensor *x = fac_round(fac_randn(FAC_SHAPE(n, w)));
        if (!fac_dtype_is_floating(d))
            x = fac_mul(x, FAC_SCALAR(3));
        else
            x = fac_masked_fill(x, fac_gt(fac_randn(FAC_SHAPE(n, w)), FAC_SCALAR(3)), FAC_SCALAR(NAN));
        x = fac_to_dtype(x, d);
        fac_tensor *y = fac_contiguous(fac_t(x));
        const fac_max_dim_result a = fac_max_dim(x, 0), b = fac_max_dim(y, 1);
        const fac_min_dim_result e = fac_min_dim(x, 0), f = fac_min_dim(y, 1);
        assert_no_error();
        assert_true(fac_equal(a.indices, b.indices) && fac_equal(e.indices, f.indices));
        assert_true(fac_allclose(fac_to_dtype(a.values, FAC_F64), fac_to_dtype(b.values, FAC_F64), .equal_nan = true));
        assert_true(fac_allclose(fac_to_dtype(e.values, FAC_F64), fac_to_dtype(f.values, FAC_F64), .equal_nan = true));
    }
}

FAC_TEST_MAIN(FAC_TEST(extremes_of_narrow_columns_are_those_of_lines), FAC_TEST(folds_of_f32_agree_with_loops),
              FAC_TEST(folds_of_f64_agree_with_loops), FAC_TEST(folds_of_bf16_agree_with_loops),
              FAC_TEST(variances_agree_with_loops), FAC_TEST(variance_survives_a_large_mean),
              FAC_TEST(long_sums_do_not_lose_what_is_added), FAC_TEST(extremes_find_the_first_of_equals),
              FAC_TEST(extremes_are_those_of_their_doubles), FAC_TEST(argmax_of_all_counts_in_row_major_order),
              FAC_TEST(nan_wins_every_comparison), FAC_TEST(nan_of_either_sign_wins_in_every_dtype),
              FAC_TEST(empty_folds_give_identities_or_are_refused), FAC_TEST(hash_tensor_is_the_exclusive_or_of_bits),
              FAC_TEST(zero_dim_tensors_accept_dim_0_and_minus_1),
              FAC_TEST(dims_and_dtypes_that_do_not_fit_are_refused), FAC_TEST(integer_sums_are_int64_and_wrap),
              FAC_TEST(out_forms_cast_and_resize), FAC_TEST(scans_agree_with_loops),
              FAC_TEST(running_logarithms_of_doubles_are_those_of_wider_sums),
              FAC_TEST(scans_of_many_lines_are_those_of_each), FAC_TEST(softmax_agrees_with_loops),
              FAC_TEST(softmax_of_large_and_infinite_numbers),
              FAC_TEST(softmax_of_long_halves_has_the_gradient_of_doubles),
              FAC_TEST(results_do_not_depend_on_the_number_of_threads), FAC_TEST(failing_allocations_are_survived),
              FAC_TEST(rows_together_become_what_each_becomes), FAC_TEST(powsum_adds_powers))
