/* The modules and functions that PyTorch's notes on TF32 name, where TF32 is allowed and where it is not: the CPU has no
   TF32, so results and gradients are the same bit for bit. */
#include "support/support.h"
#include <facula/facula.h>

#define MODULES(X)                                                                        \
    X(conv1d, fac_conv1d_new(4, 6, FAC_INTS(3)), 2, 4, 5)                                 \
    X(conv2d, fac_conv2d_new(4, 6, FAC_INTS(3, 3)), 2, 4, 5, 5)                           \
    X(conv3d, fac_conv3d_new(4, 6, FAC_INTS(3, 3, 3)), 2, 4, 5, 5, 5)                     \
    X(conv_transpose1d, fac_conv_transpose1d_new(4, 6, FAC_INTS(3)), 2, 4, 5)             \
    X(conv_transpose2d, fac_conv_transpose2d_new(4, 6, FAC_INTS(3, 3)), 2, 4, 5, 5)       \
    X(conv_transpose3d, fac_conv_transpose3d_new(4, 6, FAC_INTS(3, 3, 3)), 2, 4, 5, 5, 5) \
    X(gru, fac_gru_new(4, 6), 5, 3, 4)                                                    \
    X(gru_cell, fac_gru_cell_new(4, 6), 3, 4)                                             \
    X(lstm, fac_lstm_new(4, 6), 5, 3, 4)                                                  \
    X(lstm_cell, fac_lstm_cell_new(4, 6), 3, 4)
#define FUNCTIONS(X)                                                                   \
    X(cdist, fac_cdist(x, x), 30, 4)                                                   \
    X(tensordot, fac_tensordot(x, x, FAC_DIMS(0, 2), FAC_DIMS(0, 2)), 3, 4, 5)         \
    X(affine_grid, fac_affine_grid_generator(x, FAC_INTS(2, 3, 4, 4), false), 2, 2, 3) \
    X(grid_sample, fac_grid_sampler(fac_ones(FAC_SHAPE(2, 3, 6, 6)), x, 0, 0, false), 2, 4, 4, 2)

/* A result y of the input x, and the gradient of sum(y^2) as *grad. */
static fac_tensor *result(fac_tensor *y, fac_tensor *x, fac_tensor **grad) {
    assert_ok(fac_backward(fac_sum(fac_mul(y, y))));
    *grad = fac_grad_of(x);
    assert_non_null(*grad);
    return y;
}

/* CALL is the result from x, which is a tensor of the sizes that follow. */
#define SAME_WITH_TF32(CALL, ...)                                                                    \
    fac_tensor *input = fac_randn(FAC_SHAPE(__VA_ARGS__)), *y[2], *grad[2];                          \
    for (int k = 0; k < 2; k++) {                                                                    \
        assert_ok(fac_set_float32_matmul_precision(k ? FAC_PRECISION_HIGH : FAC_PRECISION_HIGHEST)); \
        fac_tensor *x = fac_set_requires_grad(fac_clone(input), true);                               \
        y[k] = result(CALL, x, &grad[k]);                                                            \
    }                                                                                                \
    assert_ok(fac_set_float32_matmul_precision(FAC_PRECISION_HIGHEST));                              \
    assert_no_error();                                                                               \
    assert_true(fac_equal(y[0], y[1]) && fac_equal(grad[0], grad[1]));

#define MODULE_TEST(name, new, ...)                                             \
    static void S163_##name##_is_the_same_where_tf32_is_allowed(void **state) { \
        (void)state;                                                            \
        FAC_SCOPE(s);                                                           \
        fac_module *m = new;                                                    \
        SAME_WITH_TF32(fac_forward(m, x), __VA_ARGS__)                          \
        fac_module_release(m);                                                  \
    }
#define FUNCTION_TEST(name, call, ...)                                          \
    static void S163_##name##_is_the_same_where_tf32_is_allowed(void **state) { \
        (void)state;                                                            \
        FAC_SCOPE(s);                                                           \
        SAME_WITH_TF32(call, __VA_ARGS__)                                       \
    }
MODULES(MODULE_TEST)
FUNCTIONS(FUNCTION_TEST)

static void S163_adaptive_log_softmax_is_the_same_where_tf32_is_allowed(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_module *m = fac_adaptive_log_softmax_with_loss_new(8, 12, FAC_INTS(4, 8));
    fac_tensor *target = fac_to(fac_tensor_of(0, 5, 11, 3, 8), .dtype = FAC_I64);
    SAME_WITH_TF32(fac_forward_many(m, FAC_TENSORS(x, target)), 5, 8)
    fac_module_release(m);
}

#define ENTRY(name, ...) FAC_TEST(S163_##name##_is_the_same_where_tf32_is_allowed),
FAC_TEST_MAIN(MODULES(ENTRY) FUNCTIONS(ENTRY) FAC_TEST(S163_adaptive_log_softmax_is_the_same_where_tf32_is_allowed))
