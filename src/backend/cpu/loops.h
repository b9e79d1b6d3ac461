/* The table of inner loops: one contiguous loop per operation and dtype, for the instruction set chosen at start. */
#ifndef FAC_SRC_BACKEND_CPU_LOOPS_H
#define FAC_SRC_BACKEND_CPU_LOOPS_H

#include "backend/cpu/cpu.h"
#include "ops/loop.h"

/* p: the outputs' then the inputs' first elements; n elements each, without gaps, in the dtypes the loop is for. An
   output may be the same memory as an input; otherwise they do not overlap. */
typedef void (*fac_loop)(char *const *p, int64_t n, const fac_loop_args *args);

/* NULL where an operation has no loop for a dtype. f16 and bf16 mostly have none: they are computed in f32. One that they have gives
   the same bits. */
extern fac_loop fac__loops[FAC_LOOP_COUNT][FAC_DTYPE_COUNT];

/* The loop that does the same and reads one value of p[k] for all n elements, for each bit k of `level`; NULL if there is none. */
FAC_ISA_DECLARE(fac_loop, fac__level_loop, (fac_loop loop, unsigned level));

/* Conversion of n elements, `from` elements apart, to places `to` elements apart; defined for every pair of dtypes, by the rule
   of fac__convert. */
typedef void (*fac_cast)(void *dst, int64_t to, const void *src, int64_t from, int64_t n);
extern fac_cast fac__casts[FAC_DTYPE_COUNT][FAC_DTYPE_COUNT]; /* [to][from] */

/* Copies bytes past the cache; the caller fences with fac__stream_fence when done. */
typedef void (*fac_stream_copy)(char *dst, const char *src, int64_t bytes);
extern fac_stream_copy fac__stream_copy;
void fac__stream_fence(void);

/* Each instruction set's contribution: overwrites the entries that it has. */
FAC_ISA_DECLARE(void, fac__install_arith, (fac_loop(*table)[FAC_DTYPE_COUNT]));
FAC_ISA_DECLARE(void, fac__install_compare, (fac_loop(*table)[FAC_DTYPE_COUNT]));
FAC_ISA_DECLARE(void, fac__install_math, (fac_loop(*table)[FAC_DTYPE_COUNT]));
FAC_ISA_DECLARE(void, fac__install_activation, (fac_loop(*table)[FAC_DTYPE_COUNT]));
FAC_ISA_DECLARE(void, fac__install_special, (fac_loop(*table)[FAC_DTYPE_COUNT]));
FAC_ISA_DECLARE(void, fac__install_complex, (fac_loop(*table)[FAC_DTYPE_COUNT]));
FAC_ISA_DECLARE(void, fac__install_casts, (fac_cast(*table)[FAC_DTYPE_COUNT], fac_stream_copy *stream));

#endif
