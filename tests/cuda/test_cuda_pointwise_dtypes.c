/* CUDA refuses the dtypes of pointwise operators that the CPU refuses, with the same error. */
#include "support/cuda.h"
#include "support/pointwise_dtypes.h"

static void refused_dtypes_are_those_of_the_cpu(void **state) {
    (void)state;
    support_need_devices(1);
    pointwise_dtypes_compare(cuda_device(0));
}

FAC_TEST_MAIN(FAC_CUDA_TEST(refused_dtypes_are_those_of_the_cpu))
