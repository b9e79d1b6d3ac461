/* Nested tensors on a CUDA device against the CPU. */
#include "support/cuda.h"

#include <facula/facula.h>

static void S178_nested_bmm_runs_on_cuda(void **state) {
    (void)state;
    FAC_SCOPE(scope);
    const fac_device cuda = fac_device_make(FAC_CUDA, 0), cpu = fac_device_make(FAC_CPU, -1);
    fac_tensor *v[4];
    static const int64_t rows[4] = {3, 17, 17, 2};
    fac_manual_seed(5);
    for (int i = 0; i < 4; i++) v[i] = fac_randn(FAC_INTS(rows[i], 8), .dtype = FAC_F64);
    const fac_tensors l = {v, 4};
    fac_tensor *a = fac_nested_tensor(l, .requires_grad = true),
               *b = fac_nested_tensor(l, .device = cuda, .requires_grad = true);
    fac_tensor *x = fac_to_padded_tensor(fac_softmax(fac_bmm(a, fac_transpose(a, 1, 2)), -1), 0.5),
               *y = fac_to_padded_tensor(fac_softmax(fac_bmm(b, fac_transpose(b, 1, 2)), -1), 0.5);
    assert_no_error();
    assert_true(fac_allclose(fac_to(y, .device = cpu), x));
    assert_ok(fac_backward(fac_sum_all(fac_mul(x, x))));
    assert_ok(fac_backward(fac_sum_all(fac_mul(y, y))));
    assert_true(fac_allclose(fac_to_padded_tensor(fac_to(fac_grad_of(b), .device = cpu), 0),
                             fac_to_padded_tensor(fac_grad_of(a), 0)));
    assert_no_error();
}

FAC_TEST_MAIN(FAC_CUDA_TEST(S178_nested_bmm_runs_on_cuda))
