/* Copies that swap two dimensions. */
#ifndef FAC_SRC_BACKEND_CPU_KERNELS_TRANSPOSE_H
#define FAC_SRC_BACKEND_CPU_KERNELS_TRANSPOSE_H

#include "backend/cpu/kernels/items.h"

/* True if a copy swaps dimension 0, the output's fastest, with one along which the input is contiguous. */
bool fac__is_transposition(const fac_items_job *j);
/* Carries such a copy out by blocks, so that both sides are read and written by whole cache lines. */
fac_status fac__transpose(const fac_items_job *j);

/* dst[i][j] = src[j][i] for i < rows, j < cols, of elements of `item` bytes; strides in bytes, rows contiguous, dst_step from one
   dst[i][j] to dst[i][j + 1]: for blocks within few cache lines. */
void fac__transpose_block(int64_t item, char *dst, int64_t dst_step, int64_t dst_stride, const char *src,
                          int64_t src_stride, int64_t rows, int64_t cols);
/* 4-byte elements: dst[i][j] = src[j][i] for i < rows, j < cols; strides in bytes, rows contiguous. `stream`: stores may go past the
   cache; the caller fences. */
FAC_ISA_DECLARE(void, fac__transpose_4,
                (char *dst, int64_t dst_stride, const char *src, int64_t src_stride, int64_t rows, int64_t cols,
                 bool stream));
/* The same with 8-byte elements. */
FAC_ISA_DECLARE(void, fac__transpose_8,
                (char *dst, int64_t dst_stride, const char *src, int64_t src_stride, int64_t rows, int64_t cols));
/* The same with elements of 1 or 2 bytes, of which rows and cols hold multiples of 16 bytes. False where there is no such way. */
FAC_ISA_DECLARE(bool, fac__transpose_squares,
                (int64_t item, char *dst, int64_t dst_stride, const char *src, int64_t src_stride, int64_t rows,
                 int64_t cols));

#endif
