/* Inner loops of convolutions whose channels are innermost (conv_last.c), of f32 or bf16. Built for AVX-512; those of bf16 run where
   fac__cpu_bf16_fast says that the processor multiplies it. */
#ifndef FAC_SRC_BACKEND_CPU_KERNELS_CONV_LAST_H
#define FAC_SRC_BACKEND_CPU_KERNELS_CONV_LAST_H

#include "backend/cpu/cpu.h"
#include "backend/cpu/kernels/conv_library.h"

enum {
    FAC_CONV_LANES = 16,  /* channels of the result in a vector */
    FAC_CONV_VECTORS = 4, /* of a block of channels, at most */
    FAC_CONV_POINTS = 12  /* computed together, at most */
};

/* What is summed without a gap: `length` words (one number of f32, two of bf16) from `offset` bytes behind a point on. */
typedef struct fac_conv_run {
    int64_t offset, length;
} fac_conv_run;

/* Points of the result times a block of its channels, summed over runs. */
typedef struct fac_conv_tiles {
    const char *in;
    char *out;
    const int64_t *from, *to; /* bytes from `in` and from `out` of each point */
    int64_t points;
    const fac_conv_run *runs;
    int64_t n_runs;
    const float *weight; /* [words of all runs][vectors * LANES] words */
    int vectors;
    int channels; /* that exist */
    float *sums;  /* [points][vectors * LANES]; NULL if the runs are all there are */
    bool more;    /* the sums hold those of earlier runs */
    bool done;    /* the result is stored, not the sums */
    const void *bias;
    bool bf16;
    const char *next; /* what will be read after this: so many bytes are fetched meanwhile */
    int64_t next_bytes;
} fac_conv_tiles;
FAC_ISA_DECLARE(void, fac__conv_last_tiles, (const fac_conv_tiles *t));

/* The same where each channel has a weight of its own: `in` and the weights hold vectors of f32, which are multiplied lane by lane. There
   is one block of LANES channels, and no passes: runs count vectors. */
FAC_ISA_DECLARE(void, fac__conv_last_single, (const fac_conv_tiles *t));
/* The same of whole lines of at least FAC_CONV_WIDTH points with steps of 1, whose taps are `rows` lines of `taps` each. Of bf16, the vectors
   are of pairs: of neighbouring taps, and of the points that they meet; if `odd`, the last has no neighbour. A line more than `lines` is read if these are
   odd. */
enum { FAC_CONV_WIDTH = 8 };
typedef struct fac_conv_lines {
    const char *in;
    char *out;
    const float *weight;   /* [rows][taps] vectors */
    const int64_t *offset; /* bytes behind a point of each tap of the first line */
    int64_t rows, taps;
    int64_t lines, width;                 /* of the result */
    int64_t in_line, out_line, out_point; /* bytes to the next line and point; points of the input are a vector apart */
    int channels;
    const void *bias;
    bool bf16, odd;
} fac_conv_lines;
FAC_ISA_DECLARE(void, fac__conv_last_lines, (const fac_conv_lines *l));
/* Channels of points [begin, end), `point` bytes apart, as vectors of f32: those of block b at to + b * plane. Past `channels` there are
   zeros. Or, if `next`, as pairs of bf16: of each point and the one that is `next` behind, from `begin - next` on; points in front of
   `begin` (which is at `from`) and from `end` on are zeros. */
typedef struct fac_conv_spread {
    const char *from;
    char *to; /* of point 0 */
    int64_t begin, end, point, channels, plane, next;
    bool bf16;
} fac_conv_spread;
FAC_ISA_DECLARE(void, fac__conv_last_spread, (const fac_conv_spread *s));

/* sum[r][c] += small[point][r] * large[point][c] over points, whose channels lie in planes of vectors as above; of bf16 as pairs of points,
   of which the last `odd` have no second. */
typedef struct fac_conv_outer {
    const char *small, *large;
    const int64_t *at_small, *at_large; /* bytes of each point within a plane */
    int64_t points, odd;                /* points, or pairs with a second and without */
    int64_t small_plane, large_plane;
    int64_t rows;
    int vectors, channels; /* of `large` */
    float *sum;
    int64_t ld;
    bool bf16;
} fac_conv_outer;
FAC_ISA_DECLARE(void, fac__conv_last_outer, (const fac_conv_outer *o));
/* sum[t][c] += small[point][c] * large[point and offsets[t]][c] over points, all in f32; of `rows` taps. */
FAC_ISA_DECLARE(void, fac__conv_last_single_outer, (const fac_conv_outer *o, const int64_t *offsets));

/* Weights of one tap and block of channels as words: word k of channel i at to[k * ld + i]. Numbers are `is` (channels of the result) and
   `ks` (channels that are summed) apart; past `channels` and `depth` there are zeros. */
typedef struct fac_conv_pack {
    const char *from;
    uint32_t *to;
    int64_t is, ks, depth, channels, ld;
    bool bf16;
} fac_conv_pack;
FAC_ISA_DECLARE(void, fac__conv_last_pack, (const fac_conv_pack *p));
/* The same of all taps, where these lie side by side (ks is their number): tap t's words begin at to[t]; NULL: it is left out. */
FAC_ISA_DECLARE(void, fac__conv_last_pack_taps, (const fac_conv_pack *p, uint32_t *const *to));

/* A side, or the weight, of a convolution of innermost channels that suits; *done is set. errors: MEMORY */
fac_status fac__conv_last(const fac_conv *c, fac_conv_side result, const fac_conv_arrays *arrays, bool *done);
fac_status fac__conv_last_weight(const fac_conv *c, const fac_conv_arrays *arrays, bool *done);
/* c[m, n] = a[m, k] b[k, n] (+ bias[n]) of bf16 without gaps, as a convolution of m points; b_across: b is row-major, else its transpose is.
   errors: MEMORY, before c is written */
bool fac__conv_last_suits_product(int64_t m, int64_t n, int64_t k);
fac_status fac__conv_last_product(int64_t m, int64_t n, int64_t k, const void *a, const void *b, bool b_across,
                                  const void *bias, void *c);
/* Whether this is the faster way. */
bool fac__conv_last_suits(const fac_conv *c, fac_conv_side result, fac_dtype d);
/* Two dimensions as the first and the last of three. */
fac_conv fac__conv_last_dims(const fac_conv *c);

#endif
