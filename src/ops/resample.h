/* The geometry of resampling, worked out and checked in one place for metas and kernels. */
#ifndef FAC_SRC_OPS_RESAMPLE_H
#define FAC_SRC_OPS_RESAMPLE_H

#include "core/tensor.h"

#define FAC_RESAMPLE_DIMS 3

typedef enum {
    FAC_RESAMPLE_NEAREST,
    FAC_RESAMPLE_NEAREST_EXACT,
    FAC_RESAMPLE_LINEAR,
    FAC_RESAMPLE_CUBIC,
    FAC_RESAMPLE_LINEAR_AA,
    FAC_RESAMPLE_CUBIC_AA
} fac_resample_kind;

typedef struct fac_resample_args {
    fac_resample_kind kind;
    int nd; /* spatial dimensions */
    fac_ints output_size;
    bool align_corners;
    fac_opt_num scales[FAC_RESAMPLE_DIMS]; /* of the output's size to the input's, the first nd */
} fac_resample_args;

/* Planes of [in] become planes of [out]. The arrays hold the real dimensions last; those before are of size 1. */
typedef struct fac_resample {
    fac_resample_kind kind;
    int ndim; /* of the tensors */
    bool align_corners;
    bool channels_last; /* the layout of what is read and written: the channel is the fastest dimension */
    int64_t batch, channels;
    int64_t in[FAC_RESAMPLE_DIMS], out[FAC_RESAMPLE_DIMS];
    double scale[FAC_RESAMPLE_DIMS];                                           /* 0: follows from the sizes */
    int64_t in_sizes[FAC_RESAMPLE_DIMS + 2], out_sizes[FAC_RESAMPLE_DIMS + 2]; /* of the tensors */
} fac_resample;

/* Fills and checks `out` for tensors of input_size; `like` is the one whose memory format the result has.
   errors: SHAPE for another rank or an empty size; ARGUMENT for another number of sizes; OVERFLOW */
fac_status fac__resample_plan(const fac_resample_args *args, fac_ints input_size, const fac_tensor *like,
                              fac_resample *out);
/* Strides of a tensor of these sizes in the plan's layout. */
void fac__resample_strides(const fac_resample *p, const int64_t *sizes, int64_t *strides);

/* A banded matrix, the map along one dimension: row i is a sum of `count[i]` columns from start[i] on, weighted by
   weight[i * taps ...]. start and start + count never fall from one row to the next; counts are 1 or more. */
typedef struct fac_bands {
    int64_t rows, columns, taps; /* taps: the greatest count */
    int64_t *start, *count;
    double *weight; /* one block, at `start` */
} fac_bands;

/* The map from the input to the output along dimension d. `single`: positions and weights are rounded to float32 at each step, as
   those of float32 tensors are.
   errors: MEMORY, OVERFLOW */
fac_status fac__bands_make(const fac_resample *p, int d, bool single, fac_bands *out);
/* The transposed matrix; rows that no column of it shows have the count 1 and the weight 0. */
fac_status fac__bands_transpose(const fac_bands *b, fac_bands *out);
void fac__bands_free(fac_bands *b);

#endif
