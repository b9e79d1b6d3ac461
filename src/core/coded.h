/* Tensors whose elements are codes: 8-bit floats, which their dtype alone says how to read, and quantized tensors, which have a
   quantizer. Both have the key Quantized in the place of Dense, so that no kernel computes with codes unawares. */
#ifndef FAC_SRC_CORE_CODED_H
#define FAC_SRC_CORE_CODED_H

#include "core/tensor.h"

/* Code q stands for (q - zero_point) * scale. Counted, and never changed: tensors of the same codes share one. */
typedef struct fac_quantizer {
    atomic_int refs;
    int axis;  /* of the dimension whose slices have their own scale and zero point; -1: one for all */
    int64_t n; /* 1, or the size of the axis */
    double *scales;
    int64_t *zero_points;
} fac_quantizer;

/* Owned, with room for n scales and zero points. */
fac_status fac__quantizer_new(int axis, int64_t n, fac_quantizer **out);
fac_status fac__quantizer_per_tensor(double scale, int64_t zero_point, fac_quantizer **out);
fac_quantizer *fac__quantizer_ref(fac_quantizer *q);
void fac__quantizer_unref(fac_quantizer *q); /* NULL allowed */
bool fac__quantizer_equal(const fac_quantizer *a, const fac_quantizer *b);
/* Scales are finite and positive, zero points codes of the dtype. */
fac_status fac__quantizer_check(const fac_quantizer *q, fac_dtype dtype);

static inline bool fac__is_coded(const fac_tensor *t) { return (t->keys & fac__func_bit(FAC_KEY_QUANTIZED)) != 0; }
/* Borrowed; NULL of a tensor that is not quantized. */
fac_quantizer *fac__quantizer_of(const fac_tensor *t);
/* The integers that the codes are: uint8, int8 or int32; and the least and the greatest. */
fac_dtype fac__code_dtype(fac_dtype coded);
void fac__code_range(fac_dtype coded, int64_t *out_least, int64_t *out_most);
/* The code of x: rounded to nearest even, then held in the range. */
int64_t fac__code_of(float x, float scale, int64_t zero_point, int64_t least, int64_t most);
/* Owned: a plain tensor over t's codes, which shares its memory and version counter. */
fac_status fac__codes_of(fac_tensor *t, fac_tensor **out);
/* Makes a plain tensor of codes that nobody else has yet one of dtype; q NULL for 8-bit floats, else a reference is taken. */
void fac__make_coded(fac_tensor *codes, fac_dtype dtype, fac_quantizer *q);
/* Puts another quantizer in the place of t's. */
void fac__set_quantizer(fac_tensor *t, fac_quantizer *q);
/* Owned lists on the CPU: float64 and int64. */
fac_status fac__quantizer_lists(const fac_quantizer *q, fac_tensor **out_scales, fac_tensor **out_zero_points);

#endif
