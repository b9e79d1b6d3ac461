/* PReLU's two directions over one iterator: forward from input and weight, backward from gradient, input and weight to both gradients in
   one pass; on the CPU and on a device, for memory in any order. */
#include "support/cuda.h"

#include "dispatch/operator.h"

enum { N = 2, C = 3, W = 4 };

static char trace[256];

static void note(void *context, const fac_operator *op, fac_keyset keys, bool enter) {
    (void)context, (void)keys;
    if (!enter || !strstr(fac_operator_name(op), "_prelu_kernel")) return;
    strncat(trace, fac_operator_name(op) + strlen("aten::"), sizeof trace - strlen(trace) - 2);
    strcat(trace, " ");
}

/* x[n][c][w] in row-major order, in another, or with the last dimension broadcast. */
static double element(int layout, int n, int c, int w) {
    if (layout == 2) w = 0;
    const int i = (n * C + c) * W + w;
    return i % 2 ? 0.5 * i : -0.25 * (i + 1);
}

static fac_tensor *input(int layout, fac_device d) {
    float v[N * C * W];
    for (int i = 0; i < N * C * W; i++) v[i] = (float)element(layout, i / (C * W), i / W % C, i % W);
    fac_tensor *x = fac_to(fac_tensor_from(v, FAC_F32, FAC_SHAPE(N, C, W)), .device = d);
    if (layout == 1) x = fac_permute(fac_contiguous(fac_permute(x, FAC_INTS(2, 1, 0))), FAC_INTS(2, 1, 0));
    if (layout == 2) x = fac_expand(fac_narrow(x, 2, 0, 1), FAC_INTS(N, C, W));
    assert_no_error();
    return fac_set_requires_grad(fac_detach(x), true);
}

static const float weights[C] = {0.5f, -2, 0.25f};

static void check(int layout, fac_device d) {
    FAC_SCOPE(s);
    fac_tensor *x = input(layout, d);
    fac_tensor *w = fac_set_requires_grad(fac_to(fac_tensor_from(weights, FAC_F32, FAC_SHAPE(C)), .device = d), true);
    fac_tensor *g = fac_to(fac_expand(fac_tensor_of(1, 2, 3, 4), FAC_INTS(N, C, W)), .device = d);
    trace[0] = 0;
    fac_tensor *y = fac_prelu(x, w);
    assert_ok(fac_backward(y, .gradient = g));
    assert_string_equal(trace, "_prelu_kernel _prelu_kernel_backward ");
    double of_y[N * C * W], of_x[N * C * W], of_w[C], want_w[C] = {0};
    assert_ok(fac_tensor_read(y, FAC_F64, of_y, N * C * W));
    assert_ok(fac_tensor_read(fac_grad_of(x), FAC_F64, of_x, N * C * W));
    assert_ok(fac_tensor_read(fac_grad_of(w), FAC_F64, of_w, C));
    for (int i = 0; i < N * C * W; i++) {
        const int c = i / W % C;
        const double at = element(layout, i / (C * W), c, i % W), grad = i % W + 1, slope = at > 0 ? 1 : weights[c];
        assert_true(of_y[i] == slope * at);
        assert_true(of_x[i] == slope * grad);
        want_w[c] += at > 0 ? 0 : at * grad;
    }
    for (int c = 0; c < C; c++) assert_true(of_w[c] == want_w[c]);
}

static void S112_E40_prelu_runs_forward_and_backward_over_one_iterator(void **state) {
    (void)state;
    support_need_devices(1);
    fac_set_call_observer(note, NULL);
    for (int layout = 0; layout < 3; layout++) {
        check(layout, fac_device_make(FAC_CPU, -1));
        check(layout, cuda_device(0));
    }
    fac_set_call_observer(NULL, NULL);
}

/* Both are kernels of pointwise operators: they run what the iterator says, and nothing walks memory beside it. */
static void S112_E39_both_directions_of_prelu_are_pointwise_operators(void **state) {
    (void)state;
    support_need_devices(1);
    const char *const names[] = {"aten::_prelu_kernel", "aten::_prelu_kernel_backward"};
    for (size_t i = 0; i < FAC_COUNT(names); i++) {
        const fac_operator *op = fac_operator_find(names[i]);
        assert_non_null(op);
        const fac_kernel *cpu = fac__pick(op, &(fac_keyset){fac__backend_bit(FAC_BACKEND_CPU) | FAC_KS_DENSE});
        assert_string_equal(cpu->label, "pointwise");
        assert_ptr_equal(cpu, fac__pick(op, &(fac_keyset){fac__backend_bit(FAC_BACKEND_CUDA) | FAC_KS_DENSE}));
    }
}

FAC_TEST_MAIN(FAC_CUDA_TEST(S112_E40_prelu_runs_forward_and_backward_over_one_iterator),
              FAC_CUDA_TEST(S112_E39_both_directions_of_prelu_are_pointwise_operators))
