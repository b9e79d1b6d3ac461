/* Inner loops of the losses over classes. */
#ifndef FAC_SRC_BACKEND_CPU_KERNELS_NLL_H
#define FAC_SRC_BACKEND_CPU_KERNELS_NLL_H

#include "backend/cpu/kernels/items.h"

/* out[i] = target i of n, `step` apart, -1 for one that is to be ignored. False if another is not in [0, classes). */
FAC_ISA_DECLARE(bool, fac__nll_classes_i64,
                (const int64_t *t, int64_t step, int64_t n, int64_t classes, int64_t ignore, int64_t *out));
FAC_ISA_DECLARE(bool, fac__nll_classes_u8,
                (const uint8_t *t, int64_t step, int64_t n, int64_t classes, int64_t ignore, int64_t *out));
/* out[i] = the element of `item` bytes at p[i * step + t[i] * class_step], zero bits where t[i] is -1. Steps are in elements. */
FAC_ISA_DECLARE(void, fac__nll_pick,
                (size_t item, const char *p, int64_t step, int64_t class_step, const int64_t *t, int64_t n, void *out));
/* p[i * step + t[i] * class_step] = x[i] where t[i] is not -1. */
FAC_ISA_DECLARE(void, fac__nll_put,
                (size_t item, char *p, int64_t step, int64_t class_step, const int64_t *t, int64_t n, const void *x));

#endif
