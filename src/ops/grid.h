/* The geometry of sampling at given points, checked in one place for metas and kernels. */
#ifndef FAC_SRC_OPS_GRID_H
#define FAC_SRC_OPS_GRID_H

#include "core/tensor.h"

#define FAC_GRID_DIMS 3

typedef enum { FAC_GRID_LINEAR, FAC_GRID_NEAREST, FAC_GRID_CUBIC } fac_grid_mode;
typedef enum { FAC_GRID_ZEROS, FAC_GRID_BORDER, FAC_GRID_REFLECTION } fac_grid_padding;

/* in and strides are of the input's spatial dimensions in order: the last is the first coordinate's. */
typedef struct fac_grid {
    int nd;
    fac_grid_mode mode;
    fac_grid_padding padding;
    bool align_corners;
    int64_t batch, channels, points; /* points: of a sample */
    int64_t in[FAC_GRID_DIMS];
    int64_t out_sizes[FAC_GRID_DIMS + 2];
} fac_grid;

/* errors: SHAPE for other ranks or batches, or an empty spatial dimension; ARGUMENT for another mode or padding; DTYPE */
fac_status fac__grid_plan(int nd, const fac_tensor *input, const fac_tensor *grid, int64_t mode, int64_t padding,
                          bool align_corners, fac_grid *out);

#endif
