/* Shapes and dtypes of sampling at given points; the checks are ops/grid.c's. */
#include "ops/grid.h"
#include "ops/meta/check.h"
#include "ops/structured.h"
#include "ops_gen.h"

static fac_status declare(fac_structured *s, int nd, const fac_tensor *input, const fac_tensor *grid, int64_t mode,
                          int64_t padding, bool align_corners) {
    fac_grid g;
    FAC_TRY(fac__grid_plan(nd, input, grid, mode, padding, align_corners, &g));
    return fac_out_declare(s, 0, g.out_sizes, NULL, nd + 2, (fac_dtype)input->dtype, input->device);
}

static fac_status declare_backward(fac_structured *s, int nd, const fac_tensor *grad, const fac_tensor *input,
                                   const fac_tensor *grid, int64_t mode, int64_t padding, bool align_corners,
                                   fac_ints mask) {
    fac_grid g;
    FAC_TRY(fac__grid_plan(nd, input, grid, mode, padding, align_corners, &g));
    FAC_TRY(fac__need_sizes("grad_output", grad, g.out_sizes, nd + 2));
    FAC_TRY(fac__need_dtype("grad_output", grad, (fac_dtype)input->dtype));
    const fac_tensor *like[] = {input, grid};
    for (int i = 0; i < 2; i++)
        if ((size_t)i >= mask.n || mask.v[i])
            FAC_TRY(fac_out_declare(s, i, like[i]->sizes, NULL, nd + 2, (fac_dtype)input->dtype, input->device));
    return FAC_OK;
}

#define GRID_META(n)                                                                                                 \
    fac_status grid_sampler_##n##d_meta(fac_structured *s, fac_tensor *input, fac_tensor *grid,                      \
                                        int64_t interpolation_mode, int64_t padding_mode, bool align_corners) {      \
        return declare(s, n, input, grid, interpolation_mode, padding_mode, align_corners);                          \
    }                                                                                                                \
    fac_status grid_sampler_##n##d_backward_meta(fac_structured *s, fac_tensor *grad_output, fac_tensor *input,      \
                                                 fac_tensor *grid, int64_t interpolation_mode, int64_t padding_mode, \
                                                 bool align_corners, fac_ints output_mask) {                         \
        return declare_backward(s, n, grad_output, input, grid, interpolation_mode, padding_mode, align_corners,     \
                                output_mask);                                                                        \
    }
GRID_META(2)
GRID_META(3)
