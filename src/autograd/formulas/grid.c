/* Gradients of sampling at given points. */
#include "autograd/formulas/brief.h"

fac_status grid_sampler_grads_2d(fac_tensor **grads, fac_tensors in, fac_tensor *grad, fac_tensor *input,
                                 fac_tensor *grid, int64_t mode, int64_t padding, bool align_corners, bool needs_input,
                                 bool needs_grid) {
    (void)in; /* grad, alone */
    fac_grid_sampler_2d_backward_result r = fac__s_grid_sampler_2d_backward(
        grad, input, grid, mode, padding, align_corners, FAC_INTS(needs_input, needs_grid));
    grads[0] = r.result0, grads[1] = r.result1;
    return fac_error();
}

fac_status grid_sampler_grads_3d(fac_tensor **grads, fac_tensors in, fac_tensor *grad, fac_tensor *input,
                                 fac_tensor *grid, int64_t mode, int64_t padding, bool align_corners, bool needs_input,
                                 bool needs_grid) {
    (void)in; /* grad, alone */
    fac_grid_sampler_3d_backward_result r = fac__s_grid_sampler_3d_backward(
        grad, input, grid, mode, padding, align_corners, FAC_INTS(needs_input, needs_grid));
    grads[0] = r.result0, grads[1] = r.result1;
    return fac_error();
}
