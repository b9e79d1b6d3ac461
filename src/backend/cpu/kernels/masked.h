/* Positions of nonzero elements, which masks stand for, and elements packed and unpacked by a mask. */
#ifndef FAC_SRC_BACKEND_CPU_KERNELS_MASKED_H
#define FAC_SRC_BACKEND_CPU_KERNELS_MASKED_H

#include "backend/cpu/cpu.h"

/* Owned int64 [ndim, count]: positions of the elements that are not zero, in row-major order. */
fac_status fac__nonzero_columns(fac_tensor *t, fac_tensor **out);
/* Owned vector of the elements where a mask of self's shape, of one byte each, is not zero. */
fac_status fac__take_true(const fac_tensor *self, const fac_tensor *mask, fac_tensor **out);

/* ---- inner loops (masked.isa.c): n elements of `item` bytes and their flags, side by side ---------------------------- */

/* A bit for each of n elements that lie side by side, the lowest first: whether it is not zero. Bits after the n-th, up to a multiple
   of 64, are zero. Returns how many are set. */
FAC_ISA_DECLARE(int64_t, fac__nonzero_bits, (uint64_t * bits, const void *src, fac_dtype d, int64_t n));
/* How many flags are set. */
FAC_ISA_DECLARE(int64_t, fac__count_true, (const uint8_t *mask, int64_t n));
/* Writes the elements whose flags are set to `list`, which has room for at least as many. Returns how many. */
FAC_ISA_DECLARE(int64_t, fac__pack_true,
                (size_t item, char *list, int64_t room, const char *from, const uint8_t *mask, int64_t n));
/* Overwrites the elements whose flags are set with those of `list`, in order. Returns how many. */
FAC_ISA_DECLARE(int64_t, fac__unpack_true, (size_t item, char *to, const char *list, const uint8_t *mask, int64_t n));

#endif
