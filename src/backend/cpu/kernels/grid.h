/* Inner loops of sampling at given points. */
#ifndef FAC_SRC_BACKEND_CPU_KERNELS_GRID_H
#define FAC_SRC_BACKEND_CPU_KERNELS_GRID_H

#include "backend/cpu/cpu.h"
#include "ops/grid.h"

enum { FAC_GRID_TILE = 64, FAC_GRID_TAPS = 16 }; /* points of a tile, and elements that it shows of each */

/* What the points of a tile show: element at[k][i] of a plane with weight[k][i], for k < taps; -1 is beyond the plane. Unless
   `inside`, those that are not are listed: k * FAC_GRID_TILE + i in `point`, the element in `place`, `count` of them. slope: the
   derivative of the weight with respect to each coordinate of the grid, in the grid's order. */
#define FAC_GRID_TILE_OF(name, T)                             \
    typedef struct name {                                     \
        int taps;                                             \
        bool inside; /* none is beyond the plane */           \
        int32_t at[FAC_GRID_TAPS][FAC_GRID_TILE];             \
        int32_t count;                                        \
        int32_t point[FAC_GRID_TAPS * FAC_GRID_TILE];         \
        int32_t place[FAC_GRID_TAPS * FAC_GRID_TILE];         \
        T weight[FAC_GRID_TAPS][FAC_GRID_TILE];               \
        T slope[FAC_GRID_DIMS][FAC_GRID_TAPS][FAC_GRID_TILE]; \
    } name
FAC_GRID_TILE_OF(fac_grid_tile_f32, float);
FAC_GRID_TILE_OF(fac_grid_tile_f64, double);

/* One call. Tensors are row-major but for the input, whose spatial strides may be any; all elements are of the loops' type. The
   gradient of the input is row-major as well: its loops get its strides. */
typedef struct fac_grid_job {
    fac_grid g;
    int64_t stride[FAC_GRID_DIMS], channel, sample; /* of the input, in elements */
    const void *input, *grid, *grad;                /* grad: of the result; backward only */
    void *to;                                       /* the result, or the gradient of the input or of the grid */
} fac_grid_job;

typedef struct fac_grid_loops {
    /* Points [begin, end) of sample n, at most a tile: the result of every channel; */
    void (*forward)(const fac_grid_job *j, int64_t n, int64_t begin, int64_t end);
    /* the gradient of the grid there; */
    void (*to_grid)(const fac_grid_job *j, int64_t n, int64_t begin, int64_t end);
    /* what they add to the gradient of the input's channels [first, last). */
    void (*to_input)(const fac_grid_job *j, int64_t n, int64_t begin, int64_t end, int64_t first, int64_t last);
} fac_grid_loops;
extern const fac_grid_loops fac__grid_loops_default[2], fac__grid_loops_avx2[2],
    fac__grid_loops_avx512[2]; /* f32, f64 */

#endif
