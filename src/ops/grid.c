/* Checks of sampling at given points. */
#include "ops/grid.h"

static fac_status check_tensors(int nd, const fac_tensor *input, const fac_tensor *grid) {
    FAC_CHECK(input->ndim == nd + 2 && grid->ndim == nd + 2, FAC_ERR_SHAPE,
              "expected %dD input and grid with same number of dimensions, but got input with sizes %s and grid with "
              "sizes %s",
              nd + 2, FAC_SHAPE_TEXT(input), FAC_SHAPE_TEXT(grid));
    FAC_CHECK(input->sizes[0] == grid->sizes[0], FAC_ERR_SHAPE,
              "expected grid and input to have same batch size, but got input with sizes %s and grid with sizes %s",
              FAC_SHAPE_TEXT(input), FAC_SHAPE_TEXT(grid));
    FAC_CHECK(grid->sizes[nd + 1] == nd, FAC_ERR_SHAPE,
              "expected grid to have size %d in last dimension, but got grid with sizes %s", nd, FAC_SHAPE_TEXT(grid));
    for (int d = 2; d < nd + 2; d++)
        FAC_CHECK(input->sizes[d] > 0, FAC_ERR_SHAPE,
                  "expected input to have non-empty spatial dimensions, but input has sizes %s with dimension %d being "
                  "empty",
                  FAC_SHAPE_TEXT(input), d);
    FAC_CHECK(fac_dtype_is_floating((fac_dtype)input->dtype) && input->dtype == grid->dtype, FAC_ERR_DTYPE,
              "expected input and grid of one floating dtype, but input has %s and grid has %s",
              fac_dtype_name((fac_dtype)input->dtype), fac_dtype_name((fac_dtype)grid->dtype));
    return FAC_OK;
}

fac_status fac__grid_plan(int nd, const fac_tensor *input, const fac_tensor *grid, int64_t mode, int64_t padding,
                          bool align_corners, fac_grid *out) {
    int64_t unused;
    FAC_TRY(check_tensors(nd, input, grid));
    FAC_CHECK(mode >= FAC_GRID_LINEAR && mode <= FAC_GRID_CUBIC, FAC_ERR_ARGUMENT,
              "expected interpolation_mode 0, 1 or 2, but got %lld", (long long)mode);
    FAC_CHECK(padding >= FAC_GRID_ZEROS && padding <= FAC_GRID_REFLECTION, FAC_ERR_ARGUMENT,
              "expected padding_mode 0, 1 or 2, but got %lld", (long long)padding);
    *out = (fac_grid){.nd = nd,
                      .mode = (fac_grid_mode)mode,
                      .padding = (fac_grid_padding)padding,
                      .align_corners = align_corners,
                      .batch = input->sizes[0],
                      .channels = input->sizes[1],
                      .points = 1};
    out->out_sizes[0] = out->batch, out->out_sizes[1] = out->channels;
    for (int d = 0; d < nd; d++) {
        out->in[d] = input->sizes[2 + d];
        out->out_sizes[2 + d] = grid->sizes[1 + d];
    }
    FAC_CHECK(fac__numel(out->out_sizes, nd + 2, &unused), FAC_ERR_OVERFLOW, "the result of sampling is too large");
    for (int d = 0; d < nd; d++) out->points = fac__mul_or_max(out->points, grid->sizes[1 + d]);
    return FAC_OK;
}
