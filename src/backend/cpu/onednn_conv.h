/* Convolutions of oneDNN in f32 or bf16: made once per shape, kept, and run on one thread. kernels/conv_library.c cuts the work. */
#ifndef FAC_SRC_BACKEND_CPU_ONEDNN_CONV_H
#define FAC_SRC_BACKEND_CPU_ONEDNN_CONV_H

#include "ops/conv.h"
#include <oneapi/dnnl/dnnl.h>

/* What one primitive computes. Compared byte by byte, so it has no padding and is zeroed before it is filled. */
typedef struct fac_conv_shape {
    int64_t result; /* a fac_conv_side */
    int64_t nd, images, groups;
    int64_t small, large; /* channels per group */
    int64_t small_size[FAC_CONV_DIMS], large_size[FAC_CONV_DIMS];
    int64_t kernel[FAC_CONV_DIMS], stride[FAC_CONV_DIMS], padding[FAC_CONV_DIMS], dilation[FAC_CONV_DIMS];
    int64_t small_pitch, large_pitch; /* elements from one image to the next */
    int64_t weight_pitch;             /* elements of weight from one small channel to the next */
    int64_t bias;                     /* 1: one is added to the small side */
    int64_t bf16, wide;               /* 1: the arrays are of bf16, else f32; the result is of f32 all the same */
    /* Of channels that are innermost: elements from one point of a side, or from one tap of a weight, to the next; else 0. */
    int64_t small_point, large_point, weight_point;
    /* Of channels in blocks: channels in a block of the small side and of the weight, and whether the large side has them too (else
       it is row-major and has less channels than a block); 0 else. */
    int64_t block, large_block;
} fac_conv_shape;

/* A primitive and the reorders between the arrays of its shape and the layouts that it computes with. */
typedef struct fac_conv_primitive {
    fac_conv_shape shape;
    dnnl_primitive_t compute;                 /* NULL: oneDNN has no compiled kernel for the shape */
    dnnl_primitive_t reorder[FAC_CONV_SIDES]; /* NULL: the array is what it computes with */
    int64_t bytes[FAC_CONV_SIDES], scratch;   /* of its layouts and of its working memory */
    int64_t users, last_use;
} fac_conv_primitive;

/* The primitive of a shape, kept for the next time if there is a place; `room` holds it if there is none. Give it back.
   errors: MEMORY */
fac_status fac__conv_primitive_take(const fac_conv_shape *shape, fac_conv_primitive *room, fac_conv_primitive **out);
void fac__conv_primitive_give(fac_conv_primitive *p, fac_conv_primitive *room);
/* How many that compute are kept: at most FAC_CONV_KEPT in a process. */
enum { FAC_CONV_KEPT = 128 };
int fac__conv_primitives_kept(void);
/* Frees those that nobody uses. */
void fac__conv_primitives_trim(void);

/* Weight [small, large, taps] (as the shape says it lies) in the layout of a primitive that reads it: bytes[WEIGHT]. */
fac_status fac__conv_pack_weight(const fac_conv_primitive *p, const void *weight, void *packed);

/* What one thread runs a primitive with: oneDNN's views of memory, and buffers for the layouts. */
typedef struct fac_conv_lane {
    const fac_conv_primitive *primitive;
    dnnl_stream_t stream;
    dnnl_memory_t plain[FAC_CONV_SIDES], blocked[FAC_CONV_SIDES], bias, scratch;
    char *room;
} fac_conv_lane;

/* Scratch for a lane's buffers. */
int64_t fac__conv_lane_bytes(const fac_conv_primitive *p);
/* Close it whether or not this succeeds. errors: MEMORY, if oneDNN finds none for its own small objects */
fac_status fac__conv_lane_open(fac_conv_lane *l, const fac_conv_primitive *p, void *scratch);
void fac__conv_lane_close(fac_conv_lane *l);
/* side: arrays as the shape says they lie, but a weight that is read is packed. bias: [groups * small], if the shape has one. */
fac_status fac__conv_lane_run(fac_conv_lane *l, void *const side[FAC_CONV_SIDES], const void *bias);

#endif
