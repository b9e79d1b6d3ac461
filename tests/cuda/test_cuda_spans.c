/* Tensors that reach over more bytes than 32 bits count: kernels find their elements on both sides. */
#include "support/cuda.h"

static const int64_t FAR = (INT64_C(1) << 31) + 8; /* bytes between two elements */

/* Three bytes far apart, that hold 1, 2 and 3. */
static fac_tensor *far_apart(void) {
    fac_tensor *block = fac_empty(FAC_SHAPE(2 * FAR + 1), .dtype = FAC_U8, .device = cuda_device(0));
    fac_tensor *t = fac_as_strided(block, FAC_INTS(3), FAC_INTS(FAR));
    assert_non_null(fac_copy_(t, fac_to_dtype(fac_tensor_of(1, 2, 3), FAC_U8)));
    assert_no_error();
    return t;
}

/* Reads a copy, since reading what is scattered moves all that lies between. */
static void assert_values(fac_tensor *t, const double *want, size_t n) {
    double got[6];
    assert_no_error();
    assert_ok(fac_tensor_read(fac_contiguous(t), FAC_F64, got, n));
    for (size_t i = 0; i < n; i++) assert_true(got[i] == want[i]);
}

static void need_room(int64_t bytes) {
    int64_t free_bytes, total;
    support_need_devices(1);
    support_need_no_checker(); /* it shadows all of the memory */
    assert_ok(fac_cuda_mem_get_info(0, &free_bytes, &total));
    if (free_bytes >= bytes) return;
    print_message("needs %lld bytes on the device\n", (long long)bytes);
    skip();
}

static void S111_cuda_kernels_reach_elements_2_gib_apart(void **state) {
    (void)state;
    need_room(3 * FAR);
    FAC_SCOPE(s);
    fac_tensor *t = far_apart(), *two = fac_to(fac_tensor_from((const float[]){10, 20}, FAC_F32, FAC_SHAPE(2, 1)),
                                               .device = cuda_device(0));
    assert_values(t, (double[]){1, 2, 3}, 3);
    assert_values(fac_add(t, two), (double[]){11, 12, 13, 21, 22, 23}, 6);
    assert_non_null(fac_mul_(t, 5));
    assert_values(fac_select(t, 0, 2), (double[]){15}, 1);
    assert_values(t, (double[]){5, 10, 15}, 3);
    assert_values(fac_sum(t), (double[]){30}, 1);
    assert_values(fac_clone(t), (double[]){5, 10, 15}, 3);
    assert_non_null(fac_fill_(t, 7));
    assert_values(t, (double[]){7, 7, 7}, 3);
}

FAC_TEST_MAIN(FAC_CUDA_TEST(S111_cuda_kernels_reach_elements_2_gib_apart))
