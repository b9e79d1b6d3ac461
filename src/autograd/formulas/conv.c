/* Gradients of convolutions. A convolution is linear in its input and in its weight, so all derivatives are convolutions
   and their transposes again: T(x, w, g) = <conv(x, w), g> is trilinear, the gradients of first order are its partial
   derivatives, and those of second order are the same with one argument replaced. */
#include "ops/call.h"
#include "ops_gen.h"

fac_status convolution_grad(fac_tensor **grads, fac_tensor *grad, fac_tensor *input, fac_tensor *weight,
                            fac_ints bias_sizes, fac_ints stride, fac_ints padding, fac_ints dilation, bool transposed,
                            fac_ints output_padding, int64_t groups, bool needs_input, bool needs_weight,
                            bool needs_bias) {
    int64_t mask[3] = {needs_input, needs_weight, needs_bias};
    fac_convolution_backward_result r =
        fac__s_convolution_backward(grad, input, weight, bias_sizes, stride, padding, dilation, transposed,
                                    output_padding, groups, (fac_ints){mask, 3});
    grads[0] = r.result0;
    grads[1] = r.result1;
    grads[2] = r.result2;
    return fac_error();
}

static fac_tensor *sum_of(fac_tensor *a, fac_tensor *b) {
    return !a ? b : !b ? a : fac__s_add_Tensor(a, b, fac_scalar_i_(1));
}

/* gg[0], gg[1], gg[2]: what flows to the gradients of input, weight and bias; NULL where nothing does. */
fac_status convolution_backward_grad(fac_tensor **grads, fac_tensors gg, fac_tensor *grad_output, fac_tensor *input,
                                     fac_tensor *weight, fac_ints stride, fac_ints padding, fac_ints dilation,
                                     bool transposed, fac_ints output_padding, int64_t groups, bool needs_grad_output,
                                     bool needs_input, bool needs_weight) {
    fac_tensor *g = NULL;
    if (needs_grad_output) {
        if (gg.v[0])
            g = fac__s_convolution(gg.v[0], weight, NULL, stride, padding, dilation, transposed, output_padding,
                                   groups);
        if (gg.v[1])
            g = sum_of(g, fac__s_convolution(input, gg.v[1], NULL, stride, padding, dilation, transposed,
                                             output_padding, groups));
        if (gg.v[2]) {
            int64_t sizes[5] = {1, 1, 1, 1, 1}, n = weight->ndim - 1;
            sizes[0] = gg.v[2]->sizes[0];
            fac_tensor *bias = fac__s_reshape(gg.v[2], (fac_ints){sizes, (size_t)n});
            g = sum_of(g, fac__s_expand(bias, (fac_ints){grad_output->sizes, grad_output->ndim}, false));
        }
    }
    grads[0] = g;
    if (needs_input && gg.v[1])
        grads[1] = fac__s_convolution_backward(grad_output, input, gg.v[1], (fac_ints){0}, stride, padding, dilation,
                                               transposed, output_padding, groups, FAC_INTS(1, 0, 0))
                       .result0;
    if (needs_weight && gg.v[0])
        grads[2] = fac__s_convolution_backward(grad_output, gg.v[0], weight, (fac_ints){0}, stride, padding, dilation,
                                               transposed, output_padding, groups, FAC_INTS(0, 1, 0))
                       .result1;
    return fac_error();
}
