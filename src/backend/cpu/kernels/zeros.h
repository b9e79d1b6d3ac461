/* Looking for a zero among integers. */
#ifndef FAC_SRC_BACKEND_CPU_KERNELS_ZEROS_H
#define FAC_SRC_BACKEND_CPU_KERNELS_ZEROS_H

#include "backend/cpu/cpu.h"
#include "core/tensor.h"

/* Whether one of n integers of 1, 2, 4 or 8 bytes is zero. */
FAC_ISA_DECLARE(bool, fac__some_zero, (const void *p, size_t item, int64_t n));
/* The same of a contiguous tensor, on several threads where it is large. */
fac_status fac__cpu_some_zero(const fac_tensor *t, bool *out);

#endif
