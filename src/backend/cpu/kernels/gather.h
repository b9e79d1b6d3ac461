/* Reading and writing through indices. Both walk an index space; an index tensor says, at each point, how many steps of
   `step` elements to go from the place that the other strides give. Strides are in elements. Indices have been checked. */
#ifndef FAC_SRC_BACKEND_CPU_KERNELS_GATHER_H
#define FAC_SRC_BACKEND_CPU_KERNELS_GATHER_H

#include "backend/cpu/cpu.h"

/* A tensor as a kernel walks it; one without dimensions counts as one of size 1. */
typedef struct fac_walk {
    int ndim;
    char *data;
    int64_t sizes[FAC_MAX_DIMS], strides[FAC_MAX_DIMS];
} fac_walk;
void fac__walk_of(const fac_tensor *t, fac_walk *out);

typedef struct fac_gather_plan {
    int ndim;
    const int64_t *sizes; /* the index space */
    size_t item;
    char *out;
    const int64_t *out_strides;
    const int64_t *index, *index_strides;
    const char *src;
    const int64_t *src_strides;
    int64_t step;
} fac_gather_plan;
/* out[p] = src[p + index[p] * step]; several threads. */
fac_status fac__gather_run(const fac_gather_plan *g);

/* out[i] = src[index[i]] for `rows` rows of `row` bytes, one behind the other on both sides; several threads. */
fac_status fac__gather_rows(char *out, const char *src, const int64_t *index, int64_t rows, int64_t row);

typedef enum {
    FAC_SCATTER_SET,
    FAC_SCATTER_ADD,
    FAC_SCATTER_MUL,
    FAC_SCATTER_MAX,
    FAC_SCATTER_MIN,
    FAC_SCATTER_OPS
} fac_scatter_op;
typedef struct fac_scatter_plan {
    int ndim;
    const int64_t *sizes; /* the index space */
    uint64_t conflicts;   /* dimensions along which two points may meet in one place */
    fac_dtype dtype;
    fac_scatter_op op;
    char *dst;
    const int64_t *dst_strides;
    const int64_t *index, *index_strides;
    const char *src;
    const int64_t *src_strides;
    int64_t step;
} fac_scatter_plan;
/* dst[p + index[p] * step] = op(what is there, src[p]). Points that may meet are taken in row-major order on one thread, so
   that the result does not depend on threads. Complex numbers have no MAX and MIN, which is an error. */
fac_status fac__scatter_run(const fac_scatter_plan *s);

/* out[r] = the sum, in order, of the rows src[i] with index[i] == r, for n rows of `width` elements and out_rows rows of sums,
   one behind the other on both sides; several threads. */
fac_status fac__sum_rows(fac_dtype dtype, char *out, int64_t out_rows, const char *src, const int64_t *index, int64_t n,
                         int64_t width);

/* Indices as a row-major array of int64 (from int64 or int32): *out_v lives as long as the owned *out. */
fac_status fac__index_array(fac_tensor *index, fac_tensor **out, const int64_t **out_v);
/* Whether all of n indices are in [0, size). */
bool fac__indices_plain(const int64_t *v, int64_t n, int64_t size);
/* INDEX error naming index, dimension and size for the first of n indices outside [0, size), or [-size, size). */
fac_status fac__check_indices(const int64_t *v, int64_t n, int64_t dim, int64_t size, bool negative);
/* Owned int64 indices in [0, size) of any strides, or an INDEX error. */
fac_status fac__index_elements(fac_tensor *index, int64_t dim, int64_t size, fac_tensor **owned);
/* Wraps negative ones of [-size, size), in place, or says as fac__check_indices that there are others. */
fac_status fac__wrap_indices(int64_t *v, int64_t n, int64_t dim, int64_t size);

/* ---- inner loops (gather.isa.c) ------------------------------------------------------------------------------------- */

/* Whether all n indices, `step` apart, lie in [low, size). May say no where a size is above 2^62 and they do. */
FAC_ISA_DECLARE(bool, fac__indices_within, (const int64_t *v, int64_t step, int64_t n, int64_t low, int64_t size));
/* out[i] = (v[i], wrapped if negative) * stride, or that is added unless it is the first. */
FAC_ISA_DECLARE(void, fac__fold_index,
                (int64_t * out, const int64_t *v, int64_t n, int64_t size, int64_t stride, bool first));
/* out[i * out_step] = src[i * src_step + index[i * index_step] * step] for n elements of `item` bytes. */
FAC_ISA_DECLARE(void, fac__gather_varying,
                (size_t item, char *out, int64_t out_step, const int64_t *index, int64_t index_step, const char *src,
                 int64_t src_step, int64_t step, int64_t n));
/* Rows [begin, end) of fac__gather_rows; false if there is no loop for rows of so many bytes. */
FAC_ISA_DECLARE(bool, fac__gather_short_rows,
                (char *out, const char *src, const int64_t *index, int64_t rows, int64_t row, int64_t begin,
                 int64_t end));

#endif
