/* Layers that compute without parameters, against their formulas in double precision; and what a module tells of itself. */
#include "support/support.h"
#include <facula/facula.h>
#include <math.h>
#include <string.h>

/* ---- activations ---------------------------------------------------------------------------------------------------- */

static double relu_of(double x) { return x > 0 ? x : 0; }
static double sigmoid_of(double x) { return 1 / (1 + exp(-x)); }
static double silu_of(double x) { return x * sigmoid_of(x); }
static double gelu_of(double x) { return x * 0.5 * erfc(-x / sqrt(2)); }
static double gelu_tanh_of(double x) { return 0.5 * x * (1 + tanh(0.7978845608028654 * (x + 0.044715 * x * x * x))); }

static fac_module *relu(void) { return fac_relu_new(); }
static fac_module *silu(void) { return fac_silu_new(); }
static fac_module *gelu_exact(void) { return fac_gelu_new(); }
static fac_module *gelu_approximate(void) { return fac_gelu_new(.approximate = "tanh"); }

static const double POINTS[] = {-30, -3.5, -1, -0.25, 0, 1e-3, 0.5, 2, 7, 40};

static void activation_layers_equal_their_formulas(void **state) {
    (void)state;
    static const struct {
        fac_module *(*make)(void);
        double (*formula)(double);
    } rows[] = {{relu, relu_of},       {silu, silu_of},
                {fac_tanh_new, tanh},  {fac_sigmoid_new, sigmoid_of},
                {gelu_exact, gelu_of}, {gelu_approximate, gelu_tanh_of}};
    for (size_t i = 0; i < FAC_COUNT(rows); i++) {
        FAC_SCOPE(s);
        double got[FAC_COUNT(POINTS)];
        fac_module *m = rows[i].make();
        fac_tensor *x = fac_tensor_from(POINTS, FAC_F64, FAC_INTS(2, FAC_COUNT(POINTS) / 2));
        assert_ok(fac_tensor_read(fac_forward(m, x), FAC_F64, got, FAC_COUNT(got)));
        for (size_t k = 0; k < FAC_COUNT(got); k++) {
            const double expected = rows[i].formula(POINTS[k]);
            assert_true(fabs(got[k] - expected) <= 1e-14 * fmax(1, fabs(expected)));
        }
        fac_module_release(m);
    }
}

/* ---- pooling -------------------------------------------------------------------------------------------------------- */

/* Mean of the window at (r, c) of a 4 x 4 picture that is zero outside; all of the window counts. */
static double mean_at(const double *x, int kernel, int row, int column) {
    double sum = 0;
    for (int r = row; r < row + kernel; r++)
        for (int c = column; c < column + kernel; c++)
            if (r >= 0 && r < 4 && c >= 0 && c < 4) sum += x[4 * r + c];
    return sum / (kernel * kernel);
}

static void check_avg_pool(int kernel, int stride, int padding) {
    FAC_SCOPE(s);
    double x[16], y[64];
    for (int i = 0; i < 16; i++) x[i] = i * i - 20;
    fac_module *m = fac_avg_pool2d_new(kernel, stride, padding);
    fac_tensor *result = fac_forward(m, fac_tensor_from(x, FAC_F64, FAC_INTS(1, 1, 4, 4)));
    assert_no_error();
    const int step = stride ? stride : kernel, n = (4 + 2 * padding - kernel) / step + 1;
    assert_int_equal(fac_tensor_numel(result), n * n);
    assert_ok(fac_tensor_read(result, FAC_F64, y, (size_t)(n * n)));
    for (int r = 0; r < n; r++)
        for (int c = 0; c < n; c++)
            assert_true(fabs(y[n * r + c] - mean_at(x, kernel, r * step - padding, c * step - padding)) < 1e-12);
    fac_module_release(m);
}

static void avg_pool_layer_is_the_mean_of_windows(void **state) {
    (void)state;
    check_avg_pool(2, 0, 0);
    check_avg_pool(2, 1, 0);
    check_avg_pool(3, 1, 1);
}

/* ---- losses --------------------------------------------------------------------------------------------------------- */

static void cross_entropy_layer_is_the_mean_of_negative_logarithms(void **state) {
    (void)state;
    FAC_SCOPE(s);
    const double logits[] = {0.5, -1, 2, 3, 0, -2};
    const int64_t classes[] = {2, 1};
    double expected = 0, loss;
    for (int i = 0; i < 2; i++) {
        double sum = 0;
        for (int c = 0; c < 3; c++) sum += exp(logits[3 * i + c]);
        expected -= log(exp(logits[3 * i + classes[i]]) / sum) / 2;
    }
    fac_module *m = fac_cross_entropy_loss_new();
    fac_tensor *x = fac_tensor_from(logits, FAC_F64, FAC_INTS(2, 3));
    fac_tensor *target = fac_tensor_from(classes, FAC_I64, FAC_INTS(2));
    assert_ok(fac_tensor_read(fac_forward_many(m, FAC_TENSORS(x, target)), FAC_F64, &loss, 1));
    assert_true(fabs(loss - expected) < 1e-14);
    fac_module_release(m);
}

static void losses_take_a_prediction_and_a_target(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_module *losses[] = {fac_mse_loss_new(), fac_cross_entropy_loss_new()};
    fac_tensor *x = fac_ones(FAC_INTS(2, 3));
    for (size_t i = 0; i < FAC_COUNT(losses); i++) {
        assert_null(fac_forward_many(losses[i], FAC_TENSORS(x)));
        assert_error(FAC_ERR_ARGUMENT, "takes 2 inputs (input, target), but got 1");
        assert_null(fac_forward_many(losses[i], FAC_TENSORS(x, x, x)));
        assert_error(FAC_ERR_ARGUMENT, "(input, target), but got 3");
        fac_module_release(losses[i]);
    }
}

/* ---- a module about itself ------------------------------------------------------------------------------------------ */

static fac_tensor *twice(fac_module *self, fac_tensor *x) { return (void)self, fac_add(x, x); }

static void module_tells_its_class(void **state) {
    (void)state;
    static const fac_module_class cls = {.name = "Twice", .version = 7, .forward = twice};
    fac_module *m = fac_module_new(&cls), *other = fac_silu_new();
    assert_ptr_equal(fac_module_class_of(m), &cls);
    assert_string_equal(fac_module_class_of(other)->name, "SiLU");
    fac_module_release(m);
    fac_module_release(other);
}

static void module_that_is_frozen_gets_no_gradients(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_module *parts[] = {fac_linear_new(3, 2), fac_tanh_new(), fac_linear_new(2, 1)};
    fac_module *m = fac_sequential_new(parts, FAC_COUNT(parts));
    fac_tensor *x = fac_set_requires_grad(fac_ones(FAC_INTS(4, 3)), true);
    assert_ok(fac_module_set_requires_grad(fac_module_child(m, "0"), false));
    assert_ok(fac_backward(fac_sum(fac_forward(m, x))));
    assert_null(fac_grad_of(fac_module_parameter(m, "0.weight")));
    assert_null(fac_grad_of(fac_module_parameter(m, "0.bias")));
    assert_non_null(fac_grad_of(fac_module_parameter(m, "2.weight")));
    assert_non_null(fac_grad_of(x));
    assert_ok(fac_module_set_requires_grad(m, true));
    assert_ok(fac_backward(fac_sum(fac_forward(m, x))));
    assert_non_null(fac_grad_of(fac_module_parameter(m, "0.weight")));
    fac_module_release(m);
}

FAC_TEST_MAIN(FAC_TEST(activation_layers_equal_their_formulas), FAC_TEST(avg_pool_layer_is_the_mean_of_windows),
              FAC_TEST(cross_entropy_layer_is_the_mean_of_negative_logarithms),
              FAC_TEST(losses_take_a_prediction_and_a_target), FAC_TEST(module_tells_its_class),
              FAC_TEST(module_that_is_frozen_gets_no_gradients))
