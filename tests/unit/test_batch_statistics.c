/* The running statistics of batch norm: both move by the batch's mean and unbiased variance, outside the graph, while the module trains;
   they are in its state, come back from a file, and are what an evaluation uses. */
#include "support/files.h"
#include "support/support.h"

#include <facula/facula.h>
#include <math.h>

enum { N = 4, CHANNELS = 3, H = 2, W = 5 };

static fac_tensor *buffer(fac_module *m, const char *name) {
    fac_tensor *t = fac_module_buffer(m, name);
    assert_no_error();
    assert_non_null(t);
    return t;
}

static bool near(double a, double b) { return fabs(a - b) <= 1e-5 * (1 + fabs(b)); }

static double entry(fac_module *m, const char *name, int c) { return fac_item(fac_select(buffer(m, name), 0, c)); }

/* Channels of different means and widths. */
static fac_tensor *batch(void) {
    fac_tensor *scale = fac_reshape(fac_tensor_of(1, 2, 3), FAC_SHAPE(CHANNELS, 1, 1)),
               *shift = fac_reshape(fac_tensor_of(5, -1, 0.5f), FAC_SHAPE(CHANNELS, 1, 1));
    fac_tensor *x = fac_add(fac_mul(fac_randn(FAC_SHAPE(N, CHANNELS, H, W)), scale), shift);
    assert_no_error();
    return x;
}

typedef struct statistics {
    double mean[CHANNELS], var[CHANNELS];
} statistics;

/* Of a batch, in double: the variance over n - 1, as running_var takes it. */
static statistics of_batch(fac_tensor *x) {
    double v[N][CHANNELS][H * W];
    statistics s = {{0}, {0}};
    const int n = N * H * W;
    assert_ok(fac_tensor_read(x, FAC_F64, v, N * CHANNELS * H * W));
    for (int c = 0; c < CHANNELS; c++) {
        for (int i = 0; i < n; i++) s.mean[c] += v[i / (H * W)][c][i % (H * W)] / n;
        for (int i = 0; i < n; i++) s.var[c] += pow(v[i / (H * W)][c][i % (H * W)] - s.mean[c], 2) / (n - 1);
    }
    return s;
}

static void move_by(statistics *s, const statistics *by, double momentum) {
    for (int c = 0; c < CHANNELS; c++) {
        s->mean[c] += momentum * (by->mean[c] - s->mean[c]);
        s->var[c] += momentum * (by->var[c] - s->var[c]);
    }
}

static void assert_statistics(fac_module *m, const statistics *want, int batches) {
    for (int c = 0; c < CHANNELS; c++) {
        assert_true(near(entry(m, "running_mean", c), want->mean[c]));
        assert_true(near(entry(m, "running_var", c), want->var[c]));
    }
    assert_int_equal(fac_item_int(buffer(m, "num_batches_tracked")), batches);
}

/* Trains over three batches; what the statistics should then be. */
static statistics train(fac_module *m, double momentum) {
    statistics want = {{0, 0, 0}, {1, 1, 1}};
    fac_manual_seed(11);
    for (int i = 1; i <= 3; i++) {
        FAC_SCOPE(s);
        fac_tensor *x = batch();
        const statistics now = of_batch(x);
        assert_non_null(fac_forward(m, x));
        move_by(&want, &now, momentum);
        assert_statistics(m, &want, i);
    }
    return want;
}

static void S164_both_running_statistics_move_by_the_batch(void **state) {
    (void)state;
    const double momenta[] = {0.1, 0.5, 1};
    for (size_t i = 0; i < FAC_COUNT(momenta); i++) {
        FAC_SCOPE(s);
        fac_module *m = fac_batch_norm2d_new(CHANNELS, .momentum = momenta[i]);
        assert_no_error();
        train(m, momenta[i]);
        fac_module_release(m);
    }
}

static void S164_running_statistics_are_outside_the_graph(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_module *m = fac_batch_norm2d_new(CHANNELS);
    fac_tensor *x = fac_set_requires_grad(batch(), true), *y = fac_forward(m, x);
    assert_no_error();
    const char *const names[] = {"running_mean", "running_var", "num_batches_tracked"};
    for (size_t i = 0; i < FAC_COUNT(names); i++) {
        assert_false(fac_requires_grad(buffer(m, names[i])));
        assert_null(fac_grad_fn(buffer(m, names[i])));
    }
    /* They moved after the output was made, and the gradient does not mind. */
    assert_non_null(fac_forward(m, x));
    assert_ok(fac_backward(fac_sum(fac_mul(y, y))));
    assert_non_null(fac_grad_of(x));
    for (size_t i = 0; i < FAC_COUNT(names); i++) assert_null(fac_grad_of(buffer(m, names[i])));
    assert_no_error();
    fac_state *parameters = fac_module_parameters(m);
    assert_int_equal(parameters->n, 2); /* an optimiser sees weight and bias alone */
    fac_state_free(parameters);
    fac_module_release(m);
}

static void S164_running_statistics_rest_in_evaluation_and_are_used(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_module *m = fac_batch_norm2d_new(CHANNELS);
    const statistics trained = train(m, 0.1);
    fac_module_train(m, false);
    fac_tensor *x = batch(), *y = fac_forward(m, x);
    assert_no_error();
    assert_statistics(m, &trained, 3);
    for (int c = 0; c < CHANNELS; c++) {
        const double in = fac_item(fac_sum(fac_select(x, 1, c))) / (N * H * W);
        const double out = fac_item(fac_sum(fac_select(y, 1, c))) / (N * H * W);
        assert_true(near(out, (in - trained.mean[c]) / sqrt(trained.var[c] + 1e-5)));
    }
    fac_module_release(m);
}

static void S164_running_statistics_are_saved_and_loaded(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_module *m = fac_batch_norm2d_new(CHANNELS), *other = fac_batch_norm2d_new(CHANNELS);
    const statistics trained = train(m, 0.1);
    fac_state *saved = fac_module_state_dict(m);
    assert_int_equal(saved->n, 5); /* weight, bias and the three buffers */
    assert_ok(fac_state_save(saved, files_path("norm")));
    fac_state *loaded = fac_state_load(files_path("norm"));
    assert_no_error();
    assert_ok(fac_module_load_state_dict(other, loaded));
    assert_statistics(other, &trained, 3);
    fac_module_train(m, false);
    fac_module_train(other, false);
    fac_tensor *x = batch();
    assert_true(fac_equal(fac_forward(other, x), fac_forward(m, x)));
    fac_state_remove(loaded, "running_var");
    assert_int_equal(fac_module_load_state_dict(other, loaded), FAC_ERR_NOT_FOUND);
    assert_error(FAC_ERR_NOT_FOUND, "running_var");
    fac_state_free(saved);
    fac_state_free(loaded);
    fac_module_release(m);
    fac_module_release(other);
}

/* Without running statistics there are none to move or save: an evaluation takes the batch's. */
static void S164_statistics_that_are_not_tracked_are_no_buffers(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_module *m = fac_batch_norm2d_new(CHANNELS, .track_running_stats = false);
    fac_state *saved = fac_module_state_dict(m);
    assert_int_equal(saved->n, 2);
    fac_tensor *x = batch(), *training = fac_forward(m, x);
    fac_module_train(m, false);
    assert_true(fac_equal(fac_forward(m, x), training));
    assert_no_error();
    fac_state_free(saved);
    fac_module_release(m);
}

FAC_TEST_MAIN(FAC_TEST(S164_both_running_statistics_move_by_the_batch),
              FAC_TEST(S164_running_statistics_are_outside_the_graph),
              FAC_TEST(S164_running_statistics_rest_in_evaluation_and_are_used),
              FAC_TEST(S164_running_statistics_are_saved_and_loaded),
              FAC_TEST(S164_statistics_that_are_not_tracked_are_no_buffers))
