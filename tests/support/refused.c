/* The list of calls that every device refuses, with the error of each. */
#include "refused.h"
#include "samples.h"
#include "support.h"

const refused_call refused_everywhere[] = {
    {"native_layer_norm_backward(f32[4,3], f32[4,3], [3], f32[1,1], f32[4,1], None, None, [True,True,True])",
     FAC_ERR_SHAPE, "mean must have size [4, 1], got [1, 1]"},
    {"native_layer_norm_backward(f32[4,3], f32[4,3], [3], f32[4,1], f32[1], None, None, [True,True,True])",
     FAC_ERR_SHAPE, "rstd must have size [4, 1], got [1]"},
    {"native_layer_norm_backward(f64[4,3], f64[4,3], [3], f32[4,1], f64[4,1], None, None, [True,True,True])",
     FAC_ERR_DTYPE, "mean must be float64, got float32"},
    {"native_layer_norm_backward(f32[4,3], f32[4,3], [3], f32[4,1], bool[4,1], None, None, [True,True,True])",
     FAC_ERR_DTYPE, "rstd must be float32, got bool"},
    {"native_layer_norm_backward(f32[4,3], f32[4,3], [3], f32[4,1], f32[4,1], bool[3], None, [True,True,True])",
     FAC_ERR_DTYPE, "weight must be of a floating type, got bool"},
    {"native_layer_norm_backward(f32[4,3], f32[4,3], [3], f32[4,1], f32[4,1], f32[3], f32[4], [True,True,True])",
     FAC_ERR_SHAPE, "Expected bias to be of same shape as normalized_shape"},
    {"native_layer_norm(f32[4,3], [3], f16[3], None, 1e-05)", FAC_ERR_DTYPE,
     "weight must be float32, as input, got float16"},
    {"native_layer_norm(f64[4,3], [3], None, f32[3], 1e-05)", FAC_ERR_DTYPE,
     "bias must be float64, as input, got float32"},
    {"native_layer_norm(f16[4,3], [3], bf16[3], None, 1e-05)", FAC_ERR_DTYPE,
     "weight must be float16, as input, or float32, got bfloat16"},
    {"native_layer_norm(f16[4,3], [3], f16[3], f32[3], 1e-05)", FAC_ERR_DTYPE,
     "weight and bias must be of one dtype, got float16 and float32"},
    {"native_layer_norm_backward(f16[4,3], f16[4,3], [3], f32[4,1], f32[4,1], f32[3], f16[3], [True,True,True])",
     FAC_ERR_DTYPE, "weight and bias must be of one dtype, got float32 and float16"},
    {"native_layer_norm(f32[4,3], [3], bool[3], None, 1e-05)", FAC_ERR_DTYPE,
     "weight must be of a floating type, got bool"},
    {"_fused_rms_norm_backward(f32[4,3], f32[4,3], [3], f32[1,1], None, [True,True])", FAC_ERR_SHAPE,
     "rstd must have size [4, 1], got [1, 1]"},
    {"_fused_rms_norm_backward(f32[4,3], f32[4,3], [3], f16[4,1], None, [True,True])", FAC_ERR_DTYPE,
     "rstd must be float32, got float16"},
    {"_fused_rms_norm_backward(f32[4,3], f32[4,3], [3], f32[4,1], bool[3], [True,True])", FAC_ERR_DTYPE,
     "weight must be of a floating type, got bool"},
    {"nll_loss_backward(f32[], f32[4,3], i64[4]{0,2,1}, None, 1, -100, f32[0])", FAC_ERR_SHAPE,
     "total_weight must have one element, got size [0]"},
    {"nll_loss_backward(f32[], f32[4,3], i64[4]{0,2,1}, None, 1, -100, bool[])", FAC_ERR_DTYPE,
     "total_weight must be float32, got bool"},
    {"nll_loss_backward(f16[], f64[4,3], i64[4]{0,2,1}, None, 1, -100, f64[])", FAC_ERR_DTYPE,
     "grad_output must be float64, got float16"},
    {"_cross_entropy_backward(f32[], f32[4,3], i64[4]{0,2,1}, None, 1, -100, f32[4], f32[])", FAC_ERR_SHAPE,
     "row_sums must have size [4, 2], got [4]"},
    {"_cross_entropy_backward(f64[], f64[4,3], i64[4]{0,2,1}, None, 1, -100, f32[4,2], f64[])", FAC_ERR_DTYPE,
     "row_sums must be float64, got float32"},
    {"_cross_entropy_backward(f32[], f32[4,3], i64[4]{0,2,1}, None, 1, -100, f32[4,2], f32[0])", FAC_ERR_SHAPE,
     "total_weight must have one element, got size [0]"},
    {"_softmax_backward_data(f32[4,3], f32[4,3], 1, dtype(i64))", FAC_ERR_DTYPE, "input_dtype must be"},
    {"_softmax_backward_data(f32[4,3], f32[4,3], 1, dtype(bool))", FAC_ERR_DTYPE, "input_dtype must be"},
    {"_log_softmax_backward_data(f16[4,3], f16[4,3], 1, dtype(c128))", FAC_ERR_DTYPE, "input_dtype must be"},
    {"_log_softmax_backward_data(f16[4,3], f16[4,3], 1, dtype(f32))", FAC_ERR_DTYPE, "input_dtype must be"},
};
const size_t refused_everywhere_count = FAC_COUNT(refused_everywhere);

const refused_call refused_on_cpu[] = {
    {"native_batch_norm_backward(f32[4,3,5], f32[4,3,5], None, None, None, f32[1], f32[3], True, 1e-05, "
     "[True,True,True])",
     FAC_ERR_SHAPE, "save_mean must have size [3], got [1]"},
    {"native_batch_norm_backward(f32[4,3,5], f32[4,3,5], None, None, None, f32[3], f32[0], True, 1e-05, "
     "[True,True,True])",
     FAC_ERR_SHAPE, "save_invstd must have size [3], got [0]"},
    {"native_batch_norm_backward(f64[4,3,5], f64[4,3,5], None, None, None, f32[3], f64[3], True, 1e-05, "
     "[True,True,True])",
     FAC_ERR_DTYPE, "save_mean must be float64, got float32"},
    {"native_batch_norm(f16[4,3,5], f32[3], None, f16[3], f16[3], True, 0.1, 1e-05)", FAC_ERR_DTYPE,
     "weight and running_mean must be of one dtype, got float32 and float16"},
    {"native_batch_norm_backward(f32[4,3], f32[4,3], None, f16[3], f16[3], f32[3], f32[3], True, 1e-05, "
     "[True,True,True])",
     FAC_ERR_DTYPE, "running_mean must be float32, as input, got float16"},
    {"native_group_norm(f32[2,6,5], None, f16[6], 2, 6, 5, 3, 1e-05)", FAC_ERR_DTYPE,
     "bias must be float32, as input, got float16"},
    {"native_batch_norm(f32[4,3,5], i64[3], None, None, None, True, 0.1, 1e-05)", FAC_ERR_DTYPE,
     "weight must be of a floating type, got int64"},
    {"native_batch_norm(f32[4,3,5], None, None, i64[3], f32[3], True, 0.1, 1e-05)", FAC_ERR_DTYPE,
     "running_mean must be of a floating type, got int64"},
    {"native_group_norm_backward(f32[2,6,5], f32[2,6,5], f32[2], f32[2,3], None, 2, 6, 5, 3, [True,True,True])",
     FAC_ERR_SHAPE, "mean must have size [2, 3], got [2]"},
    {"native_group_norm_backward(f32[2,6,5], f32[2,6,5], f32[2,3], f32[1,3], None, 2, 6, 5, 3, [True,True,True])",
     FAC_ERR_SHAPE, "rstd must have size [2, 3], got [1, 3]"},
    {"native_group_norm_backward(f32[2,6,5], f32[2,6,5], f32[2,3], i8[2,3], None, 2, 6, 5, 3, [True,True,True])",
     FAC_ERR_DTYPE, "rstd must be float32, got int8"},
    {"nll_loss2d_backward(f32[], f32[2,3,4,2], i64[2,4,2]{0,2,1}, None, 1, -100, f32[0])", FAC_ERR_SHAPE,
     "total_weight must have one element, got size [0]"},
    {"nll_loss2d_backward(f32[], f32[2,3,4,2], i64[2,4,2]{0,2,1}, None, 1, -100, f64[])", FAC_ERR_DTYPE,
     "total_weight must be float32, got float64"},
    {"_scaled_dot_product_flash_attention_for_cpu_backward(f32[1,2,3,4], f32[1,2,3,4], f32[1,2,3,4], f32[1,2,3,4], "
     "f16[1,2,3,4], f32[1,2,3], 0.0, False)",
     FAC_ERR_DTYPE, "out must be float32, got float16"},
    {"_scaled_dot_product_flash_attention_for_cpu_backward(f16[1,2,3,4], f32[1,2,3,4], f32[1,2,3,4], f32[1,2,3,4], "
     "f32[1,2,3,4], f32[1,2,3], 0.0, False)",
     FAC_ERR_DTYPE, "grad_out must be float32, got float16"},
    {"_scaled_dot_product_flash_attention_for_cpu_backward(f64[1,2,3,4], f64[1,2,3,4], f64[1,2,3,4], f64[1,2,3,4], "
     "f64[1,2,3,4], f32[1,2,3], 0.0, False)",
     FAC_ERR_DTYPE, "logsumexp must be float64, got float32"},
};
const size_t refused_on_cpu_count = FAC_COUNT(refused_on_cpu);

void refused_run(const refused_call *v, size_t n, fac_device device) {
    for (size_t i = 0; i < n; i++) {
        sample_call c;
        assert_true(sample_parse(v[i].text, &c, NULL));
        if (sample_try(&c, device) == FAC_OK) print_error("accepted: %s\n", v[i].text);
        assert_error(v[i].code, v[i].message);
    }
}
