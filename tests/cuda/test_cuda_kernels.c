/* Kernels that hardware runs and operators on simulated devices do not, launched here by hand: the tiled matrix product, which a
   native kernel stands in for when simulated. */
#include "support/cuda.h"

#include "backend/cuda/kernels/dtype.h"
#include "backend/cuda/kernels/gemm.h"
#include "backend/cuda/kernels/launch.h"

extern fac_cuda_kernel FAC_CUDA_KERNEL(gemm_f32), FAC_CUDA_KERNEL(gemm_f64), FAC_CUDA_KERNEL(gemm_i64);

/* c <- 2 a b + 3 c, of batches [batch, m, k] and [batch, k, n], by the tiled kernel. */
static void launch_tiled(fac_cuda_kernel *kernel, const fac_tensor *a, const fac_tensor *b, const fac_tensor *c) {
    k_gemm g = {.a = fac__data(a),
                .b = fac__data(b),
                .c = fac__data(c),
                .batch = a->sizes[0],
                .m = a->sizes[1],
                .k = a->sizes[2],
                .n = b->sizes[2],
                .a_batch = a->strides[0],
                .a_row = a->strides[1],
                .a_col = a->strides[2],
                .b_batch = b->strides[0],
                .b_row = b->strides[1],
                .b_col = b->strides[2],
                .c_batch = c->strides[0],
                .c_row = c->strides[1],
                .c_col = c->strides[2],
                .alpha = 2,
                .beta = 3,
                .alpha_i = 2,
                .beta_i = 3,
                .dtype = c->dtype,
                .item = (int32_t)fac_dtype_size((fac_dtype)c->dtype)};
    fac_cuda_launch_spec l = {
        .kernel = kernel,
        .device = 0,
        .grid = {(unsigned)((g.m + K_TILE - 1) / K_TILE), (unsigned)((g.n + K_TILE - 1) / K_TILE), 2},
        .block = {K_TILE, K_TILE, 1},
        .args = (void *[]){&g}};
    assert_ok(fac__cuda_launch(&l));
}

static fac_tensor *small_numbers(fac_ints sizes, fac_dtype d) {
    return fac_to(fac_round(fac_mul(fac_randn(sizes), 3.0)), .dtype = d);
}

static void check_tiled(fac_cuda_kernel *kernel, fac_dtype d, int64_t m, int64_t k, int64_t n) {
    FAC_SCOPE(s);
    fac_device there = cuda_device(0);
    fac_tensor *a = small_numbers(FAC_SHAPE(3, m, k), d), *b = small_numbers(FAC_SHAPE(3, n, k), d);
    fac_tensor *c = small_numbers(FAC_SHAPE(3, m, n), d), *on_device = fac_to(c, .device = there);
    assert_no_error();
    launch_tiled(kernel, fac__header(fac_to(a, .device = there)),
                 fac__header(fac_transpose(fac_to(b, .device = there), 1, 2)), fac__header(on_device));
    fac_tensor *expected = fac_add(fac_mul(fac_bmm(a, fac_transpose(b, 1, 2)), 2), fac_mul(c, 3));
    /* Small whole numbers: every order of summation is exact. */
    assert_true(fac_equal(fac_to(on_device, .device = fac_device_make(FAC_CPU, 0)), expected));
    assert_no_error();
}

static void cuda_tiled_product_is_exact_on_whole_numbers(void **state) {
    (void)state;
    support_need_devices(1);
    static const int64_t shapes[][3] = {{1, 1, 1}, {16, 16, 16}, {17, 15, 33}, {5, 40, 2}, {32, 1, 31}};
    for (size_t i = 0; i < FAC_COUNT(shapes); i++) {
        const int64_t *p = shapes[i];
        check_tiled(&FAC_CUDA_KERNEL(gemm_f32), FAC_F32, p[0], p[1], p[2]);
        check_tiled(&FAC_CUDA_KERNEL(gemm_f32), FAC_BF16, p[0], fac__min(p[1], 4), p[2]); /* sums that 8 bits hold */
        check_tiled(&FAC_CUDA_KERNEL(gemm_f64), FAC_F64, p[0], p[1], p[2]);
        check_tiled(&FAC_CUDA_KERNEL(gemm_i64), FAC_I32, p[0], p[1], p[2]);
    }
}

/* Reductions and grids on a device as wide as a real one: more blocks at once, the same results. */
static void S055_cuda_reductions_on_many_multiprocessors(void **state) {
    (void)state;
    support_need_simulator();
    support_restart_with("FACULA_CUDA", "sim:1,sms=132,seed=5");
    {
        FAC_SCOPE(s);
        fac_tensor *x = fac_randn(FAC_SHAPE(2, 50000)), *y = fac_to(x, .device = cuda_device(0));
        fac_device cpu = fac_device_make(FAC_CPU, 0);
        assert_true(fac_equal(fac_to(fac_argmax(y), .device = cpu), fac_argmax(x)));
        assert_true(fac_equal(fac_to(fac_amax(y, .dim = 1), .device = cpu), fac_amax(x, .dim = 1)));
        fac_tensor *once = fac_to(fac_sum(y), .device = cpu), *again = fac_to(fac_sum(y), .device = cpu);
        assert_true(fac_equal(once, again));
        assert_true(fac_allclose(once, fac_sum(x), .rtol = 1e-4, .atol = 1e-3));
        assert_no_error();
    }
    support_restart_with("FACULA_CUDA", "sim:4");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        FAC_CUDA_TEST(cuda_tiled_product_is_exact_on_whole_numbers),
        FAC_CUDA_TEST(S055_cuda_reductions_on_many_multiprocessors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
