/* Normalisations: values from their definitions in double, statistics, and gradients of any order. */
#include "grad_cases.h"

#define LN(...) fac_layer_norm(x[0], FAC_SHAPE(4), __VA_ARGS__)
#define BN(training, mean, var) fac_batch_norm(x[0], x[1], x[2], mean, var, training, 0.1, 1e-5, false)
#define STATS                                                                                \
    fac_tensor *m = fac_tensor_from((const double[]){0.1, -0.2, 0.3}, FAC_F64, FAC_INTS(3)); \
    fac_tensor *v = fac_tensor_from((const double[]){0.5, 1.5, 2.0}, FAC_F64, FAC_INTS(3))

#define CASES(X)                                                                                                  \
    X(layer, 1, "3,4;4;4", -1, 1, out[0] = LN(.weight = x[1], .bias = x[2]))                                      \
    X(layer_bare, 1, "2,3,4", -1, 1, out[0] = fac_layer_norm(x[0], FAC_SHAPE(4)))                                 \
    X(layer_weight, 1, "3,4;4", -1, 1, out[0] = LN(.weight = x[1]))                                               \
    X(layer_two_dims, 1, "2,2,3;2,3;2,3", -1, 1,                                                                  \
      out[0] = fac_layer_norm(x[0], FAC_SHAPE(2, 3), .weight = x[1], .bias = x[2]))                               \
    X(layer_statistics, 3, "3,4;4;4", -1, 1,                                                                      \
      fac_native_layer_norm_result r = fac_native_layer_norm(x[0], FAC_SHAPE(4), x[1], x[2], 1e-5);               \
      out[0] = r.result0; out[1] = r.result1; out[2] = r.result2)                                                 \
    X(rms, 1, "3,4;4", -1, 1, out[0] = fac_rms_norm(x[0], FAC_SHAPE(4), .weight = x[1], .eps = 1e-5))             \
    X(rms_bare, 1, "2,3,4", -1, 1, out[0] = fac_rms_norm(x[0], FAC_SHAPE(3, 4)))                                  \
    X(batch, 1, "4,3;3;3", -1, 1, out[0] = BN(true, NULL, NULL))                                                  \
    X(batch_planes, 1, "2,3,2,2;3;3", -1, 1, out[0] = BN(true, NULL, NULL))                                       \
    X(batch_frozen, 1, "2,3,4;3;3", -1, 1, STATS; out[0] = BN(false, m, v))                                       \
    X(batch_bare, 1, "4,3", -1, 1, out[0] = fac_batch_norm(x[0], NULL, NULL, NULL, NULL, true, 0.1, 1e-5, false)) \
    X(batch_statistics, 3, "3,3,2;3;3", -1, 1,                                                                    \
      fac_native_batch_norm_result r = fac_native_batch_norm(x[0], x[1], x[2], NULL, NULL, true, 0.1, 1e-5);      \
      out[0] = r.result0; out[1] = r.result1; out[2] = r.result2)                                                 \
    X(instance, 1, "2,3,4;3;3", -1, 1,                                                                            \
      out[0] = fac_instance_norm(x[0], x[1], x[2], NULL, NULL, true, 0.1, 1e-5, false))                           \
    X(group, 1, "2,4,3;4;4", -1, 1, out[0] = fac_group_norm(x[0], 2, .weight = x[1], .bias = x[2]))               \
    X(group_bare, 1, "2,4,2,2", -1, 1, out[0] = fac_group_norm(x[0], 2))                                          \
    X(group_statistics, 3, "2,4,3;4;4", -1, 1,                                                                    \
      fac_native_group_norm_result r = fac_native_group_norm(x[0], x[1], x[2], 2, 4, 3, 2, 1e-5);                 \
      out[0] = r.result0; out[1] = r.result1; out[2] = r.result2)

CASES(GRAD_FN)
static const grad_case cases[] = {CASES(GRAD_ROW)};

static void norm_gradients_agree_with_differences(void **state) {
    (void)state;
    grad_run(cases, FAC_COUNT(cases), false);
}
static void norm_second_gradients_agree_with_differences(void **state) {
    (void)state;
    grad_run(cases, FAC_COUNT(cases), true);
}

/* Third order, through double_grads of double_grads: the gradient of a gradgrad is compared with differences. */
static fac_status gradient_of_layer_norm(void *context, fac_tensors inputs, fac_tensor **out, size_t n) {
    (void)context, (void)n;
    fac_tensor *y = fac_layer_norm(inputs.v[0], FAC_SHAPE(3), .weight = inputs.v[1]);
    fac_tensor *loss = fac_sum(fac_mul(fac_mul(y, y), y));
    return fac_grad(FAC_TENSORS(loss), inputs, out, .create_graph = true);
}
static void layer_norm_third_gradient_agrees_with_differences(void **state) {
    (void)state;
    FAC_SCOPE(s);
    const char *shapes = "2,3;3";
    fac_tensor *x[2];
    for (size_t i = 0; i < 2; i++) x[i] = grad_input(&shapes, i, -1, 1);
    assert_ok(fac_gradgradcheck(gradient_of_layer_norm, NULL, fac_tensors_of(x, 2), 2, .atol = 1e-4));
}

static void read(fac_tensor *t, double *out, size_t n) {
    assert_no_error();
    assert_non_null(t);
    assert_ok(fac_tensor_read(t, FAC_F64, out, n));
}

/* Rows of every length around the vector widths and the block of the moments. */
static void layer_norm_of_f32_agrees_with_double_arithmetic(void **state) {
    (void)state;
    static const int64_t lengths[] = {1, 2, 7, 15, 16, 17, 31, 33, 64, 100, 1024, 4095, 4097, 9000};
    static float v[2 * 9000];
    static double got[2 * 9000];
    for (size_t k = 0; k < FAC_COUNT(lengths); k++) {
        FAC_SCOPE(s);
        int64_t n = lengths[k];
        for (int64_t i = 0; i < 2 * n; i++) v[i] = (float)(100 + sin(1.7 * (double)i) + (double)(i % 5));
        fac_tensor *y = fac_layer_norm(fac_tensor_from(v, FAC_F32, FAC_INTS(2, n)), FAC_SHAPE(n));
        read(y, got, (size_t)(2 * n));
        for (int64_t row = 0; row < 2; row++) {
            double mean = 0, var = 0;
            for (int64_t i = 0; i < n; i++) mean += (double)v[row * n + i] / (double)n;
            for (int64_t i = 0; i < n; i++) var += pow((double)v[row * n + i] - mean, 2) / (double)n;
            for (int64_t i = 0; i < n; i++) {
                double want = ((double)v[row * n + i] - mean) / sqrt(var + 1e-5);
                if (fabs(got[row * n + i] - want) > 2e-4)
                    fail_msg("length %lld, element %lld: %g, not %g", (long long)n, (long long)i, got[row * n + i],
                             want);
            }
        }
    }
}

static void batch_norm_moves_the_running_statistics(void **state) {
    (void)state;
    FAC_SCOPE(s);
    double mean[2], var[2];
    fac_tensor *x = fac_tensor_from((const float[]){1, 10, 3, 20, 5, 60}, FAC_F32, FAC_INTS(3, 2));
    fac_tensor *m = fac_tensor_of(1, 2), *v = fac_tensor_of(1, 1);
    assert_non_null(fac_batch_norm(x, NULL, NULL, m, v, true, 0.5, 1e-5, false));
    read(m, mean, 2);
    read(v, var, 2);
    assert_near(mean[0], 0.5 * 1 + 0.5 * 3, 1e-5); /* means 3 and 30 */
    assert_near(mean[1], 0.5 * 2 + 0.5 * 30, 1e-5);
    assert_near(var[0], 0.5 + 0.5 * 4, 1e-5); /* unbiased variances 4 and 700 */
    assert_near(var[1], 0.5 + 0.5 * 700, 1e-3);
}

static void batch_norm_keeps_channels_last(void **state) {
    (void)state;
    FAC_SCOPE(s);
    double a[48], b[48];
    float v[48];
    for (int i = 0; i < 48; i++) v[i] = (float)((i * 37) % 19);
    fac_tensor *x = fac_tensor_from(v, FAC_F32, FAC_INTS(2, 3, 2, 4));
    fac_tensor *last = fac_permute(fac_contiguous(fac_permute(x, FAC_DIMS(0, 2, 3, 1))), FAC_DIMS(0, 3, 1, 2));
    fac_tensor *y = fac_batch_norm(x, NULL, NULL, NULL, NULL, true, 0.1, 1e-5, false);
    fac_tensor *y_last = fac_batch_norm(last, NULL, NULL, NULL, NULL, true, 0.1, 1e-5, false);
    assert_int_equal(fac_tensor_stride(y_last, 1), 1);
    read(y, a, 48);
    read(y_last, b, 48);
    for (int i = 0; i < 48; i++) assert_near(a[i], b[i], 1e-5);
}

static double furthest(fac_tensor *a, fac_tensor *b) {
    return fac_item(fac_max(fac_abs(fac_sub(fac_to_dtype(a, FAC_F64), b))));
}

/* Strips of vectors of channels and what is left of them, and points of few channels that pass several at a time, in both dtypes,
   against row-major f64. */
static void batch_norm_of_innermost_channels_agrees_with_planes(void **state) {
    (void)state;
    const int64_t channels[] = {1, 3, 16, 37, 80, 150, 3, 8, 12}, few = 6, heights[] = {5, 801};
    for (size_t i = 0; i < FAC_COUNT(channels); i++) {
        const int64_t height = heights[(int64_t)i >= few];
        for (int bf16 = 0; bf16 < 2; bf16++) {
            FAC_SCOPE(s);
            const fac_dtype d = bf16 ? FAC_BF16 : FAC_F32;
            const int64_t c = channels[i];
            fac_tensor *x[4], *y[2], *dx[2], *dw[2], *db[2];
            for (int k = 0; k < 2; k++) x[k] = fac_to_dtype(fac_randn(FAC_INTS(3, c, height, 7)), d);
            for (int k = 2; k < 4; k++) x[k] = fac_randn(FAC_INTS(c));
            for (int last = 0; last < 2; last++) {
                fac_tensor *in[4];
                for (int k = 0; k < 4; k++) {
                    in[k] = fac_to_dtype(x[k], !last ? FAC_F64 : k < 2 ? d : FAC_F32);
                    if (last && k < 2) in[k] = fac_contiguous(in[k], .memory_format = FAC_CHANNELS_LAST);
                }
                fac_native_batch_norm_result r =
                    fac_native_batch_norm(in[0], in[2], in[3], NULL, NULL, true, 0.1, 1e-5);
                fac_native_batch_norm_backward_result g = fac_native_batch_norm_backward(
                    in[1], in[0], in[2], NULL, NULL, r.result1, r.result2, true, 1e-5, FAC_INTS(1, 1, 1));
                y[last] = r.result0, dx[last] = g.result0, dw[last] = g.result1, db[last] = g.result2;
            }
            assert_no_error();
            assert_true(furthest(y[1], y[0]) <= (bf16 ? 0.04 : 1e-5));
            assert_true(furthest(dx[1], dx[0]) <= (bf16 ? 0.1 : 1e-4));
            assert_true(furthest(dw[1], dw[0]) <= (double)height * 2e-5);
            assert_true(furthest(db[1], db[0]) <= (double)height * 2e-5);
        }
    }
}

/* Rows around the piece of the moments, with parameters of both dtypes and without. */
static void norms_of_halves_agree_with_doubles(void **state) {
    (void)state;
    const int64_t lengths[] = {65, 100, 4096, 9001};
    for (int i = 0; i < 4 * 2 * 4; i++) {
        FAC_SCOPE(s);
        const int64_t n = lengths[i % 4];
        const fac_dtype d = i / 4 % 2 ? FAC_BF16 : FAC_F16, of_w = i / 8 == 1 ? FAC_F32 : d;
        fac_tensor *x = fac_to_dtype(fac_add(fac_randn(FAC_INTS(3, n)), fac_tensor_of(1.5)), d);
        fac_tensor *w = i / 8 == 2 ? NULL : fac_to_dtype(fac_randn(FAC_INTS(n)), of_w);
        fac_tensor *b = i / 8 == 3 ? NULL : fac_to_dtype(fac_randn(FAC_INTS(n)), of_w);
        fac_tensor *x64 = fac_to_dtype(x, FAC_F64), *w64 = w ? fac_to_dtype(w, FAC_F64) : NULL,
                   *b64 = b ? fac_to_dtype(b, FAC_F64) : NULL;
        fac_native_layer_norm_result got = fac_native_layer_norm(x, FAC_SHAPE(n), w, b, 1e-5),
                                     want = fac_native_layer_norm(x64, FAC_SHAPE(n), w64, b64, 1e-5);
        assert_no_error();
        assert_true(furthest(got.result0, want.result0) <= (d == FAC_BF16 ? 0.05 : 0.007));
        assert_true(furthest(fac_rms_norm(x, FAC_SHAPE(n), .weight = w),
                             fac_rms_norm(x64, FAC_SHAPE(n), .weight = w64)) <= (d == FAC_BF16 ? 0.05 : 0.007));
    }
}

/* Planes shorter and longer than a block of sums, in groups of channels and singly. */
static void gradients_of_planes_of_halves_agree_with_doubles(void **state) {
    (void)state;
    const int64_t heights[] = {3, 13, 401};
    for (int i = 0; i < 3 * 2; i++) {
        FAC_SCOPE(s);
        const int64_t h = heights[i / 2], batch = 3, channels = 4;
        const fac_dtype d = i % 2 ? FAC_BF16 : FAC_F16;
        const double most = d == FAC_BF16 ? 0.06 : 0.008, for_sums = 0.02 * (double)h;
        fac_tensor *x[2], *w = fac_to_dtype(fac_randn(FAC_INTS(channels)), d), *y[2], *dx[4], *dw[4], *db[4];
        for (int k = 0; k < 2; k++) x[k] = fac_to_dtype(fac_randn(FAC_INTS(batch, channels, h, 7)), d);
        for (int k = 0; k < 2; k++) {
            const fac_dtype t = k ? FAC_F64 : d;
            fac_tensor *in = fac_to_dtype(x[0], t), *g = fac_to_dtype(x[1], t), *p = fac_to_dtype(w, t);
            fac_native_group_norm_result r = fac_native_group_norm(in, p, p, batch, channels, h * 7, 2, 1e-5);
            fac_native_group_norm_backward_result of_group = fac_native_group_norm_backward(
                g, in, r.result1, r.result2, p, batch, channels, h * 7, 2, FAC_INTS(1, 1, 1));
            fac_native_batch_norm_result n = fac_native_batch_norm(in, p, p, NULL, NULL, true, 0.1, 1e-5);
            fac_native_batch_norm_backward_result of_batch = fac_native_batch_norm_backward(
                g, in, p, NULL, NULL, n.result1, n.result2, true, 1e-5, FAC_INTS(1, 1, 1));
            y[k] = r.result0, dx[k] = of_group.result0, dw[k] = of_group.result1, db[k] = of_group.result2;
            dx[2 + k] = of_batch.result0, dw[2 + k] = of_batch.result1, db[2 + k] = of_batch.result2;
        }
        assert_no_error();
        assert_true(furthest(y[0], y[1]) <= most);
        for (int k = 0; k < 4; k += 2) {
            assert_true(furthest(dx[k], dx[k + 1]) <= most);
            assert_true(furthest(dw[k], dw[k + 1]) <= for_sums + 20 * most);
            assert_true(furthest(db[k], db[k + 1]) <= for_sums + 20 * most);
        }
    }
}

/* Columns so few that several rows pass as one, and what is left of them. */
static void variances_of_few_columns_agree_with_those_of_rows(void **state) {
    (void)state;
    const fac_dtype dtypes[] = {FAC_F32, FAC_F64, FAC_BF16};
    const int64_t columns[] = {8, 11, 31}, rows[] = {70, 1024, 5003};
    for (int i = 0; i < 3 * 3 * 3; i++) {
        FAC_SCOPE(s);
        fac_tensor *x = fac_to_dtype(fac_add(fac_randn(FAC_INTS(rows[i % 3], columns[i / 3 % 3])), fac_tensor_of(3)),
                                     dtypes[i / 9]),
                   *along = fac_contiguous(fac_permute(fac_to_dtype(x, FAC_F64), FAC_DIMS(1, 0)));
        fac_tensor *got = fac_var(fac_to_dtype(x, dtypes[i / 9]), .dim = 0), *want = fac_var(along, .dim = 1);
        assert_no_error();
        assert_true(furthest(got, want) <= (i / 9 == 2 ? 0.01 : 1e-5));
    }
}

static void shapes_that_do_not_fit_are_refused(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = fac_zeros(FAC_SHAPE(2, 3)), *w = fac_zeros(FAC_SHAPE(4));
    assert_null(fac_layer_norm(x, FAC_SHAPE(4)));
    assert_error(FAC_ERR_SHAPE,
                 "Given normalized_shape=[4], expected input with shape [*, 4], but got input of size[2, 3]");
    assert_null(fac_layer_norm(x, FAC_SHAPE(3), .weight = w));
    assert_error(FAC_ERR_SHAPE, "Expected weight to be of same shape as normalized_shape");
    assert_null(fac_batch_norm(x, w, NULL, NULL, NULL, true, 0.1, 1e-5, false));
    assert_error(FAC_ERR_SHAPE, "weight must have size [3], got [4]");
    assert_null(fac_batch_norm(x, NULL, NULL, NULL, NULL, false, 0.1, 1e-5, false));
    assert_error(FAC_ERR_ARGUMENT, "Expected running_mean and running_var to be given when training=False");
    assert_null(fac_group_norm(x, 2));
    assert_error(FAC_ERR_SHAPE, "divisible by num_groups");
    assert_null(fac_layer_norm(fac_zeros(FAC_SHAPE(2, 3), .dtype = FAC_I64), FAC_SHAPE(3)));
    assert_error(FAC_ERR_DTYPE, "floating type, got int64");
}

static void results_do_not_depend_on_the_number_of_threads(void **state) {
    (void)state;
    static float v[600 * 130], w[130];
    static float one[600 * 130], many[600 * 130], dw[2][130];
    for (int i = 0; i < 600 * 130; i++) v[i] = (float)sin(0.37 * i);
    for (int i = 0; i < 130; i++) w[i] = (float)cos(i);
    int was = fac_num_threads();
    for (int k = 0; k < 2; k++) {
        FAC_SCOPE(s);
        assert_ok(fac_set_num_threads(k == 0 ? 1 : 3));
        fac_tensor *x = fac_set_requires_grad(fac_tensor_from(v, FAC_F32, FAC_INTS(600, 130)), true);
        fac_tensor *weight = fac_set_requires_grad(fac_tensor_from(w, FAC_F32, FAC_INTS(130)), true);
        fac_tensor *y = fac_layer_norm(fac_batch_norm(x, NULL, NULL, NULL, NULL, true, 0.1, 1e-5, false),
                                       FAC_SHAPE(130), .weight = weight);
        assert_ok(fac_backward(fac_sum(fac_mul(y, fac_mul(y, y)))));
        assert_ok(fac_tensor_read(fac_grad_of(x), FAC_F32, k == 0 ? one : many, 600 * 130));
        assert_ok(fac_tensor_read(fac_grad_of(weight), FAC_F32, dw[k], 130));
    }
    assert_ok(fac_set_num_threads(was));
    assert_memory_equal(one, many, sizeof one);
    assert_memory_equal(dw[0], dw[1], sizeof dw[0]);
}

/* The gradients of rows x by their definition. */
static void define_gradients(fac_tensor *dy, fac_tensor *x, fac_tensor *mean, fac_tensor *rstd, fac_tensor *w, bool rms,
                             fac_tensor *out[3]) {
    fac_tensor *apart = fac_mul(rms ? x : fac_sub(x, mean), rstd), *g = fac_mul(dy, w),
               *along = fac_mean(fac_mul(g, apart), 1, .keepdim = true);
    out[0] = fac_sub(g, fac_mul(apart, along));
    if (!rms) out[0] = fac_sub(out[0], fac_mean(g, 1, .keepdim = true));
    out[0] = fac_mul(out[0], rstd);
    out[1] = fac_sum(fac_mul(dy, apart), 0);
    out[2] = fac_sum(dy, 0);
}

/* A few rows so long that they are cut; every choice of gradients; on one thread and on several. */
static void gradients_of_long_rows_agree_with_their_definition(void **state) {
    (void)state;
    enum { N = 8 * 2048 + 37, ROWS = 3 };
    static const fac_dtype dtypes[] = {FAC_F32, FAC_BF16, FAC_F64};
    static const double most[] = {2e-5, 0.06, 1e-12};
    const int was = fac_num_threads();
    for (int k = 0; k < 3 * 2 * 7; k++) {
        FAC_SCOPE(s);
        const bool rms = k / 3 % 2;
        const int d = k % 3, which = k / 6 + 1;
        fac_tensor *x = fac_to_dtype(fac_randn(FAC_INTS(ROWS, N), .dtype = FAC_F64), dtypes[d]),
                   *dy = fac_to_dtype(fac_randn(FAC_INTS(ROWS, N), .dtype = FAC_F64), dtypes[d]),
                   *w = fac_to_dtype(fac_randn(FAC_INTS(N), .dtype = FAC_F64), dtypes[d]), *want[3], *got[2][3];
        fac_native_layer_norm_result y = fac_native_layer_norm(x, FAC_INTS(N), w, w, 1e-5);
        fac_tensor *rstd = rms ? fac_fused_rms_norm(x, FAC_INTS(N), w).result1 : y.result2;
        define_gradients(fac_to_dtype(dy, FAC_F64), fac_to_dtype(x, FAC_F64), fac_to_dtype(y.result1, FAC_F64),
                         fac_to_dtype(rstd, FAC_F64), fac_to_dtype(w, FAC_F64), rms, want);
        for (int t = 0; t < 2; t++) {
            assert_ok(fac_set_num_threads(t ? 2 + k % 6 : 1));
            if (rms) {
                const fac_fused_rms_norm_backward_result r =
                    fac_fused_rms_norm_backward(dy, x, FAC_INTS(N), rstd, w, FAC_INTS(which & 1, which >> 1 & 1));
                got[t][0] = r.result0, got[t][1] = r.result1, got[t][2] = NULL;
            } else {
                const fac_native_layer_norm_backward_result r = fac_native_layer_norm_backward(
                    dy, x, FAC_INTS(N), y.result1, rstd, w, w, FAC_INTS(which & 1, which >> 1 & 1, which >> 2 & 1));
                got[t][0] = r.result0, got[t][1] = r.result1, got[t][2] = r.result2;
            }
        }
        assert_no_error();
        for (int i = 0; i < (rms ? 2 : 3); i++) {
            if (!(which >> i & 1)) continue;
            assert_true(fac_equal(got[0][i], got[1][i]));
            assert_true(furthest(got[0][i], want[i]) <= most[d]);
        }
    }
    assert_ok(fac_set_num_threads(was));
}

static fac_status normalise_all(void *context) {
    (void)context;
    FAC_SCOPE(s);
    fac_tensor *x = fac_ones(FAC_SHAPE(2, 4, 3), .dtype = FAC_F16);
    fac_tensor *y = fac_batch_norm(fac_layer_norm(x, FAC_SHAPE(3)), NULL, NULL, NULL, NULL, true, 0.1, 1e-5, false);
    return fac_group_norm(fac_transpose(y, 1, 2), 3) ? FAC_OK : fac_error();
}
static void failing_allocations_are_survived(void **state) {
    (void)state;
    support_fail_each_allocation(normalise_all, NULL);
}

FAC_TEST_MAIN(FAC_TEST(norm_gradients_agree_with_differences), FAC_TEST(norm_second_gradients_agree_with_differences),
              FAC_TEST(layer_norm_third_gradient_agrees_with_differences),
              FAC_TEST(layer_norm_of_f32_agrees_with_double_arithmetic),
              FAC_TEST(batch_norm_moves_the_running_statistics), FAC_TEST(batch_norm_keeps_channels_last),
              FAC_TEST(batch_norm_of_innermost_channels_agrees_with_planes),
              FAC_TEST(norms_of_halves_agree_with_doubles), FAC_TEST(gradients_of_planes_of_halves_agree_with_doubles),
              FAC_TEST(variances_of_few_columns_agree_with_those_of_rows), FAC_TEST(shapes_that_do_not_fit_are_refused),
              FAC_TEST(gradients_of_long_rows_agree_with_their_definition),
              FAC_TEST(results_do_not_depend_on_the_number_of_threads), FAC_TEST(failing_allocations_are_survived))
