/* Pairwise summation of blocks. A loop sums a short block one after the other and hands its sum on; sums of equally many blocks are
   added to each other, so that an element passes through a block's additions and log2(blocks) more (Higham 1993). Level k holds the sum
   of 2^k blocks where bit k of the number of blocks is set. T may be a vector; W of them are summed side by side. For *.isa.c files. */
#ifndef FAC_SRC_BACKEND_CPU_CASCADE_H
#define FAC_SRC_BACKEND_CPU_CASCADE_H

#include <stdint.h>
#include <string.h>

enum {
    FAC_CASCADE_LEVELS =
        24, /* twice as many blocks each; the last one takes all that come to it. They lie on the stack */
    FAC_CASCADE_LAST = FAC_CASCADE_LEVELS - 1,
    FAC_CASCADE_STEPS = 32 /* additions in a block, about */
};

/* NAME_push: block number `blocks` has the sums v, which are overwritten. NAME_total: adds the sums of all blocks to v. */
#define FAC_CASCADE(NAME, T, W) FAC_CASCADE_(NAME, T, W)
#define FAC_CASCADE_(NAME, T, W)                                                                          \
    static inline void NAME##_push(T(*level)[W], uint64_t blocks, T *restrict v) {                        \
        int k = 0;                                                                                        \
        for (; k < FAC_CASCADE_LAST && (blocks & 1); blocks >>= 1, k++)                                   \
            for (int j = 0; j < (W); j++) v[j] += level[k][j];                                            \
        for (int j = 0; k == FAC_CASCADE_LAST && blocks && j < (W); j++) v[j] += level[k][j];             \
        memcpy(level[k], v, sizeof level[k]);                                                             \
    }                                                                                                     \
    static inline void NAME##_total(T(*level)[W], uint64_t blocks, T *restrict v) {                       \
        for (int k = 0; blocks && k < FAC_CASCADE_LEVELS; blocks >>= 1, k++)                              \
            for (int j = 0; (k == FAC_CASCADE_LAST || (blocks & 1)) && j < (W); j++) v[j] += level[k][j]; \
    }

#endif
