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

/* The slope of each channel's samples along the coordinates, [n, c, #, d]: a channel alone is an image of its own. */
static fac_tensor *slopes(fac_tensor *input, fac_tensor *grid, int64_t mode, int64_t padding, bool align_corners) {
    const int d = input->ndim - 2;
    const int64_t images = input->sizes[0] * input->sizes[1]; /* no more than it has elements */
    int64_t image[5] = {images, 1}, seed[5] = {images, 1}, points[6], all[6] = {images};
    points[0] = input->sizes[0], points[1] = input->sizes[1];
    for (int i = 0; i < d; i++) {
        image[2 + i] = input->sizes[2 + i];
        seed[2 + i] = all[1 + i] = points[2 + i] = grid->sizes[1 + i];
    }
    all[1 + d] = points[2 + d] = d;
    const fac_ints point_sizes = {points, (size_t)d + 3}, all_sizes = {all, (size_t)d + 2}, mask = FAC_INTS(0, 1);
    fac_tensor *each = fac__s_reshape(fac__s_expand(fac__s_unsqueeze(grid, 1), point_sizes, false), all_sizes), *slope;
    fac_tensor *flat = fac__s_reshape(input, (fac_ints){image, (size_t)d + 2});
    fac_tensor *ones = fac__s_new_ones(input, (fac_ints){seed, (size_t)d + 2}, FAC_DTYPE_DEFAULT, FAC_STRIDED,
                                       (fac_device){0}, (fac_opt_num){0});
    if (d == 2)
        slope = fac__s_grid_sampler_2d_backward(ones, flat, each, mode, padding, align_corners, mask).result1;
    else
        slope = fac__s_grid_sampler_3d_backward(ones, flat, each, mode, padding, align_corners, mask).result1;
    return fac__s_reshape(slope, point_sizes);
}

/* By the gradients of both gradients, which are linear in grad_output: what is sampled is linear in the input, and changes along its
   slopes with the grid. */
fac_tensor *grid_sampler_grad_of_grad(fac_tensors grads, fac_tensor *input, fac_tensor *grid, int64_t mode,
                                      int64_t padding, bool align_corners) {
    fac_tensor *of_input = grads.v[0], *of_grid = grads.v[1];
    if (of_input)
        of_input = input->ndim == 4 ? fac__s_grid_sampler_2d(of_input, grid, mode, padding, align_corners)
                                    : fac__s_grid_sampler_3d(of_input, grid, mode, padding, align_corners);
    if (of_grid) {
        fac_tensor *along = mul(slopes(input, grid, mode, padding, align_corners), fac__s_unsqueeze(of_grid, 1));
        of_grid = fac__s_sum_dim_IntList(along, FAC_INTS(-1), false, FAC_DTYPE_DEFAULT);
    }
    return plus(of_input, of_grid);
}
