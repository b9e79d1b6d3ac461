/* Shapes and dtypes of convolutions; the geometry is ops/conv.c's. */
#include "ops/conv.h"
#include "ops/structured.h"
#include "ops_gen.h"

fac_status convolution_meta(fac_structured *s, fac_tensor *input, fac_tensor *weight, fac_tensor *bias, fac_ints stride,
                            fac_ints padding, fac_ints dilation, bool transposed, fac_ints output_padding,
                            int64_t groups) {
    fac_conv_args args = {stride, padding, dilation, output_padding, transposed, groups};
    fac_conv c;
    FAC_TRY(fac__conv_plan(input, weight, bias, &args, &c));
    return fac_out_declare_format(s, 0, c.out_sizes, c.out_ndim, (fac_dtype)input->dtype, input->device,
                                  fac__conv_format(input, weight));
}

fac_status convolution_backward_meta(fac_structured *s, fac_tensor *grad_output, fac_tensor *input, fac_tensor *weight,
                                     fac_ints bias_sizes, fac_ints stride, fac_ints padding, fac_ints dilation,
                                     bool transposed, fac_ints output_padding, int64_t groups, fac_ints output_mask) {
    (void)bias_sizes;
    fac_conv_args args = {stride, padding, dilation, output_padding, transposed, groups};
    fac_conv c;
    FAC_TRY(fac__conv_plan(input, weight, NULL, &args, &c));
    FAC_CHECK(output_mask.n == 3, FAC_ERR_ARGUMENT, "output_mask must have 3 entries, got %zu", output_mask.n);
    bool same = fac__has_sizes(grad_output, c.out_sizes, c.out_ndim);
    FAC_CHECK(same, FAC_ERR_SHAPE, "grad_output must have the convolution's size %s, got %s",
              fac__shape_text(c.out_sizes, c.out_ndim, (char[256]){0}, 256), FAC_SHAPE_TEXT(grad_output));
    FAC_CHECK(grad_output->dtype == input->dtype, FAC_ERR_DTYPE,
              "grad_output and input should have the same dtype, but got %s and %s",
              fac_dtype_name((fac_dtype)grad_output->dtype), fac_dtype_name((fac_dtype)input->dtype));
    fac_dtype dtype = (fac_dtype)input->dtype;
    FAC_CHECK(fac_dtype_is_floating(dtype) || fac_dtype_is_complex(dtype), FAC_ERR_DTYPE,
              "only floating and complex tensors have gradients, got %s", fac_dtype_name(dtype));
    const fac_memory_format f = fac__conv_format(input, weight);
    if (output_mask.v[0]) FAC_TRY(fac_out_declare_format(s, 0, input->sizes, input->ndim, dtype, input->device, f));
    if (output_mask.v[1]) FAC_TRY(fac_out_declare_format(s, 1, weight->sizes, weight->ndim, dtype, input->device, f));
    int64_t channels = c.out_sizes[c.batched];
    return output_mask.v[2] ? fac_out_declare(s, 2, &channels, NULL, 1, dtype, input->device) : FAC_OK;
}
