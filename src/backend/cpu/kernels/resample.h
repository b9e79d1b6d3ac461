/* Inner loops of resampling: one row along the last dimension, and sums of rows. */
#ifndef FAC_SRC_BACKEND_CPU_KERNELS_RESAMPLE_H
#define FAC_SRC_BACKEND_CPU_KERNELS_RESAMPLE_H

#include "backend/cpu/cpu.h"

#define FAC_RESAMPLE_GROUP 8 /* rows that are summed at once */

/* The map along a row of `n` elements, tap by tap: out[i] = sum of weight[t * n + i] * in[at[t * n + i]]. Places rise with i and t,
   but for `slack`: those of a point's channels follow each other. */
typedef struct fac_row_taps {
    int64_t n, taps;
    int64_t columns, slack; /* of the source row; channels of a point but one */
    const int32_t *at;
    const void *weight;
} fac_row_taps;

/* The same for points of `inner` elements, whose weights are shared: point i of the output sums points start[i] and on. */
typedef struct fac_point_taps {
    int64_t n, taps, inner;
    const int64_t *start, *count;
    const void *weight; /* [n][taps] */
} fac_point_taps;

/* Weights are of the elements' type; those of bytes are int32_t, in units of 2^-shift. */
typedef void (*fac_resample_row)(const fac_row_taps *m, int shift, const void *in, void *out);
typedef void (*fac_resample_points)(const fac_point_taps *m, int shift, const void *in, void *out);
/* out = (add ? out : 0) + the sum of weight[k] * row[k], for n elements; of bytes, up to 2^shift, without `add`. */
typedef void (*fac_resample_blend)(int64_t n, int rows, const void *const *row, const void *weight, bool add, int shift,
                                   void *out);

/* Bytes are summed as integers: all rows at once, or a sum would be rounded in between. */
typedef struct fac_resample_loops {
    fac_resample_row row;
    fac_resample_points points;
    fac_resample_blend blend;
} fac_resample_loops;
typedef enum { FAC_RESAMPLE_F32, FAC_RESAMPLE_F64, FAC_RESAMPLE_U8, FAC_RESAMPLE_TYPES } fac_resample_type;
extern const fac_resample_loops fac__resample_loops_default[FAC_RESAMPLE_TYPES],
    fac__resample_loops_avx2[FAC_RESAMPLE_TYPES], fac__resample_loops_avx512[FAC_RESAMPLE_TYPES];

/* out[i] = in[at[i]], elements of 1 to 16 bytes. */
FAC_ISA_DECLARE(void, fac__resample_pick, (size_t item, int64_t n, const int32_t *at, const void *in, void *out));

#endif
