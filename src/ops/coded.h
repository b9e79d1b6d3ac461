/* Operators of coded tensors: quantized ones, and 8-bit floats. */
#ifndef FAC_SRC_OPS_CODED_H
#define FAC_SRC_OPS_CODED_H

#include "core/coded.h"

/* Registers the kernels of existing operators for the key Quantized. */
fac_status fac__coded_init(void);
fac_status fac__coded_own_init(void); /* its part in coded_own.c */

/* Owned: x quantized by q. x float32, with the axis of q. */
fac_status fac__quantize_by(fac_tensor *x, fac_dtype dtype, fac_quantizer *q, fac_tensor **out);
/* Owned, quantized per tensor by other numbers. */
fac_status fac__requantize(fac_tensor *t, double scale, int64_t zero_point, fac_tensor **out);
/* Owned: code - zero_point of 8-bit codes, in float32. */
fac_status fac__centred(fac_tensor *t, fac_tensor **out);
/* Owned: what such numbers are codes of, rounded: x + zero_point read by q, which is per tensor. */
fac_status fac__rounded(fac_tensor *x, fac_dtype dtype, fac_quantizer *q, fac_tensor **out);
/* Owned: a + b and a * b, not below 0 if `relu`, by operators, so that they may broadcast; and the factor of a product of codes. */
fac_status fac__check_pair(const fac_tensor *a, const fac_tensor *b);
fac_status fac__coded_sum(fac_tensor *a, fac_tensor *b, double scale, int64_t zero_point, bool relu, fac_tensor **out);
fac_status fac__coded_product(fac_tensor *a, fac_tensor *b, double scale, int64_t zero_point, bool relu,
                              fac_tensor **out);
float fac__coded_product_factor(const fac_tensor *a, const fac_tensor *b, double scale);
/* t must be quantized per tensor, by 8-bit codes if `narrow`. */
fac_status fac__need_per_tensor(const char *name, const fac_tensor *t, bool narrow);

#endif
