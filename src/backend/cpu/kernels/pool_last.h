/* Pooling of images whose channels are innermost: all channels of a window at once. */
#ifndef FAC_SRC_BACKEND_CPU_KERNELS_POOL_LAST_H
#define FAC_SRC_BACKEND_CPU_KERNELS_POOL_LAST_H

#include "backend/cpu/kernels/tile.h"
#include "ops/pool.h"

enum { FAC_POOL_BLOCK = 256 }; /* channels whose sums or maxima are kept at a time */

/* Where a window lies in an image, clipped, and how the image lies. */
typedef struct fac_pool_window {
    int64_t begin[FAC_POOL_DIMS], end[FAC_POOL_DIMS], step[FAC_POOL_DIMS];
    int64_t size[FAC_POOL_DIMS]; /* of the image */
    int64_t channels;            /* elements from one point to the next */
    fac_dtype dtype;
    fac_acc kind; /* what is computed in */
} fac_pool_window;

/* Up to FAC_POOL_BLOCK channels of one window. image: the first of them at the image's first point.

   Maxima and their points: the first of equal elements wins, and NaN over all; an empty window gives point 0. An image has
   fewer than 2^31 points. */
FAC_ISA_DECLARE(void, fac__pool_last_max,
                (const fac_pool_window *w, const void *image, void *to, int64_t *indices, int64_t n));
/* Sums over the divisor; 0 for a divisor of 0. */
FAC_ISA_DECLARE(void, fac__pool_last_mean,
                (const fac_pool_window *w, const void *image, int64_t divisor, void *to, int64_t n));
/* Adds grad over the divisor to each point of sums, of the kind, which are `step` elements apart. */
FAC_ISA_DECLARE(void, fac__pool_last_spread,
                (const fac_pool_window *w, const void *grad, int64_t divisor, void *sums, int64_t step, int64_t n));

/* One call over images; forward reads an input, backward a gradient of the result. */
typedef struct fac_pool_last {
    fac_pool p;
    fac_dtype dtype;
    int64_t batch, channels;
    const void *from;
    void *to;
    int64_t *indices; /* of maxima; NULL: means */
    bool count_pad;   /* mean: the padding counts */
    int64_t divisor;  /* mean: 0 for the window's size */
} fac_pool_last;

/* Whether these images are small enough for the two below. */
static inline bool fac__pool_last_fits(const fac_pool *p) { return p->in_count <= INT32_MAX; }
fac_status fac__pool_last_forward(fac_pool_last *j);
/* Indices have been checked. */
fac_status fac__pool_last_backward(fac_pool_last *j);

/* image[index] += grad, for n channels of one window. */
void fac__pool_add_at(const fac_pool_last *j, char *image, const int64_t *indices, const void *grad, int64_t n);

#endif
