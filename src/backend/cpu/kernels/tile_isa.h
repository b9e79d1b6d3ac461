/* The variants of what happens to elements on their way into tiles, one per instruction set. */
#ifndef FAC_SRC_BACKEND_CPU_KERNELS_TILE_ISA_H
#define FAC_SRC_BACKEND_CPU_KERNELS_TILE_ISA_H

#include "backend/cpu/cpu.h"
#include "backend/cpu/kernels/tile.h"

/* Maps n elements of kind k, those of the tile itself where that is src; of kinds that are not real, nothing. */
FAC_ISA_DECLARE(void, fac__tile_map, (fac_acc k, void *tile, const void *src, int64_t n, fac_tile_map map, double p));
/* Finishes n folds of kind k, which is real or C128, in place; rounded as if done in double. */
FAC_ISA_DECLARE(void, fac__tile_finish, (fac_acc k, void *acc, int64_t n, fac_finish finish, double p));
/* dst[i] = src[i] != 0, for elements `stride` apart. */
FAC_ISA_DECLARE(void, fac__tile_nonzero, (int64_t * dst, const void *src, fac_dtype d, int64_t stride, int64_t n));
/* dst[i] = |src[i]| of complex elements of dtype d, `stride` elements apart; k is a real kind. */
FAC_ISA_DECLARE(void, fac__tile_modulus,
                (fac_acc k, void *dst, const void *src, fac_dtype d, int64_t stride, int64_t n));

#endif
