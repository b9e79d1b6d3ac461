/* A failed call changes nothing. Every operator that writes to an argument is called, from valid samples, with one thing
   spoilt at a time, and with each allocation failing in turn. After each call that fails, all tensors and the default
   generator are what they were, bit for bit. */
#include "support/failed_calls.h"
#include "support/support.h"
#include <facula/facula.h>

static fac_device cpu(void) { return fac_device_make(FAC_CPU, -1); }

static void failed_call_changes_nothing_on_the_cpu(void **state) {
    (void)state;
    failed_calls_try(FAILED_CALLS_WRITING, cpu());
}

static void failed_random_call_draws_nothing(void **state) {
    (void)state;
    failed_calls_try(FAILED_CALLS_RANDOM, cpu());
}

/* Calls that are cut into chunks. */
static const char *const large[] = {
    "mm.out(f32[300,200], f32[200,300], f32[300,300])",
    "mm.out(bf16[300,200], bf16[200,300], bf16[300,300])",
    "mm.out(f32[3000,2000], f32[2000,1], f32[3000,1])",
    "mv.out(f16[3000,2000], f16[2000], f16[3000])",
    "bmm.out(f32[64,40,40], f32[64,40,40], f32[64,40,40])",
    "addmm_(f32[300,300], f32[300,200], f32[200,300], 0.5)",
    "addmm_(c64[200,200], c64[200,100], c64[100,200])",
    "dot.out(f32[100000], f32[100000], f32[])",
    "_softmax.out(bf16[4000,40], 1, False, bf16[4000,40])",
    "_softmax.out(f32[40,400,40], 1, False, f32[40,400,40])",
    "_log_softmax.out(f32[4000,40]:[1,4000], 1, False, f32[4000,40])",
    "logsumexp.out(f16[4000,40], [1], False, f16[4000])",
    "cumsum.out(f32[400,400], 0, None, f32[400,400])",
    "cumsum_(bf16[400,400], 1)",
    "sum.IntList_out(f32[400,400], [0], False, None, f32[400])",
    "var.correction_out(f32[400,400], [0], 1, False, f32[400])",
    "max.dim_max(f32[400,400], 0, False, f32[400], i64[400])",
    "scatter_add_(f32[400,400], 0, i64[400,400], f32[400,400])",
    "index_select.out(f32[400,400], 0, i64[400], f32[400,400])",
    "binary_cross_entropy.out(f32[400,400], f32[400,400], None, 0, f32[400,400])",
    "copy_(f32[400,400], f64[400,400]:[1,400])",
    "_softmax_backward_data.out(f32[4000,40]:[1,4000], f32[4000,40], 1, dtype(f32), f32[4000,40])",
    "topk(f32[400,400], 5, 1, True, True)",
    "sort(f64[400,400], 0, False)",
    "kthvalue(bf16[400,400], 5, 0)",
    "avg_pool2d_backward(f32[40,30,10,10], f32[40,30,20,20], [2,2], [2,2], [0,0], False, True, None)",
    "reflection_pad2d_backward(f32[40,30,22,22], f32[40,30,20,20], [1,1,1,1])",
    "native_layer_norm(bf16[400,400], [400], bf16[400], bf16[400], 1e-05)",
    "native_group_norm(f16[40,6,500], f16[6], f16[6], 40, 6, 500, 3, 1e-05)",
    "native_batch_norm(bf16[40,30,100], bf16[30], bf16[30], bf16[30], bf16[30], True, 0.1, 1e-05)",
    "_cross_entropy(bf16[400,400], i64[400]{0,2,1}, None, 0, -100)",
    "multinomial(f32[40,4000], 2, True)",
    "convolution(f64[4,16,30,30], f64[16,16,3,3], f64[16], [1,1], [1,1], [1,1], False, [0,0], 1)",
    "convolution(f32[4,16,30,30], f32[32,16,3,3], f32[32], [1,1], [1,1], [1,1], False, [0,0], 1)",
    "convolution_backward(bf16[4,16,30,30], bf16[4,16,30,30], bf16[16,16,3,3], [16], [1,1], [1,1], [1,1], False, [0,0], 1, "
    "[True,True,True])",
    "convolution_backward(f32[4,32,30,30], f32[4,16,30,30], f32[32,16,3,3], [32], [1,1], [1,1], [1,1], False, [0,0], 1, "
    "[True,True,True])",
    "_scaled_dot_product_flash_attention_for_cpu(f32[2,3,200,32], f32[2,3,5000,32], f32[2,3,5000,32])",
    "_scaled_dot_product_flash_attention_for_cpu_backward(f64[2,3,200,8], f64[2,3,200,8], f64[2,3,250,8], f64[2,3,250,8], "
    "f64[2,3,200,8], f64[2,3,200], 0.0, False)",
    NULL};

/* Valid calls, and the value with which the last element of one tensor spoils them. */
static const failed_calls_last last[] = {
    {"remainder_.Tensor(i64[200000]{7}, i64[200000]{2})", 1, 0},
    {"fmod_.Tensor(i32[200000]{7}, i32[200000]{2})", 1, 0},
    {"div_.Tensor_mode(i64[200000]{7}, i64[200000]{2}, \"floor\")", 1, 0},
    {"div_.Tensor_mode(i16[200000]{7}, i16[200000]{2}, \"trunc\")", 1, 0},
    {"floor_divide_.Tensor(i64[200000]{7}, i64[200000]{2})", 1, 0},
    {"floor_divide.out(i64[500,400]{7}, i64[500,400]{2}, i64[500,400])", 1, 0},
    {"binary_cross_entropy.out(f32[200000]{0.5}, f32[200000]{0.5}, None, 0, f32[200000])", 0, 2},
    {"bernoulli_.Tensor(f32[200000], f32[200000]{0.5})", 1, 2},
    {"gather.out(f32[200000], 0, i64[200000]{1}, False, f32[200000])", 1, 200000},
    {"index_select.out(f32[400,50], 0, i64[4000]{1}, f32[4000,50])", 1, 400},
    {"take.out(f32[400], i64[200000]{1}, f32[200000])", 1, 400},
    {"scatter_.src(f32[400,400], 0, i64[400,400]{1}, f32[400,400])", 1, 400},
    {"scatter_.value(f32[400,400], 1, i64[400,400]{1}, 3)", 1, -1},
    {"scatter_add_(f32[400,400], 0, i64[400,400]{1}, f32[400,400])", 1, 400},
    {"scatter_reduce_.two(f32[400,400], 0, i64[400,400]{1}, f32[400,400], \"amax\", True)", 1, 400},
    {"index_add_(f32[400,50], 0, i64[4000]{1}, f32[4000,50], 1)", 1, 400},
    {"index_copy_(f32[400,50], 0, i64[4000]{1}, f32[4000,50])", 1, 400},
    {"index_fill_.int_Scalar(f32[400,50], 0, i64[4000]{1}, 3)", 1, 400},
    {"put_(f32[400], i64[200000]{1}, f32[200000], False)", 1, 400},
    {"index_put_(f32[400], [i64[200000]{1}], f32[200000], True)", 1, 400},
    {NULL, 0, 0}};

static void failed_call_in_chunks_changes_nothing(void **state) {
    (void)state;
    failed_calls_try_large(large, cpu());
}

static void chunks_of_parallel_work_allocate_nothing(void **state) {
    (void)state;
    failed_calls_allocate_before_chunks(large);
}

/* Chunks before the one at fault would have been written. */
static void fault_in_the_last_element_is_found_before_the_first_is_written(void **state) {
    (void)state;
    failed_calls_try_last(last, cpu());
}

FAC_TEST_MAIN(FAC_TEST(failed_call_changes_nothing_on_the_cpu), FAC_TEST(failed_random_call_draws_nothing),
              FAC_TEST(failed_call_in_chunks_changes_nothing), FAC_TEST(chunks_of_parallel_work_allocate_nothing),
              FAC_TEST(fault_in_the_last_element_is_found_before_the_first_is_written))
