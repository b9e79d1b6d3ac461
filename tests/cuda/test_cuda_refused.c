/* Arguments that do not fit are refused before a kernel is launched with them. */
#include "support/cuda.h"
#include "support/refused.h"

static void saved_statistics_that_do_not_fit_are_refused(void **state) {
    (void)state;
    support_need_devices(1);
    refused_run(refused_everywhere, refused_everywhere_count, cuda_device(0));
}

/* A kernel follows addresses; a number on the host is none of the device's. */
static void numbers_on_the_cpu_are_refused_where_a_kernel_would_read_them(void **state) {
    (void)state;
    support_need_devices(1);
    static const refused_call calls[] = {
        {"nll_loss_backward(f32[], f32[4,3], i64[4]{0,2,1}, None, 1, -100, f32[]@cpu)", FAC_ERR_DEVICE,
         "Expected all tensors to be on the same device"},
        {"nll_loss_backward(f32[]@cpu, f32[4,3], i64[4]{0,2,1}, None, 1, -100, f32[])", FAC_ERR_DEVICE,
         "Expected all tensors to be on the same device"},
    };
    refused_run(calls, FAC_COUNT(calls), cuda_device(0));
}

FAC_TEST_MAIN(FAC_CUDA_TEST(saved_statistics_that_do_not_fit_are_refused),
              FAC_CUDA_TEST(numbers_on_the_cpu_are_refused_where_a_kernel_would_read_them))
