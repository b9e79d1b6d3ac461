/* Numbers: C numbers beside tensors, single elements of any dtype, 16-bit floats, and promotion. */
#ifndef FAC_SRC_CORE_SCALAR_H
#define FAC_SRC_CORE_SCALAR_H

#include "core/tensor.h"

double fac__scalar_f64(fac_scalar s);  /* real part; bools and ints convert */
int64_t fac__scalar_i64(fac_scalar s); /* floats as core/truncate.h says: they saturate, NaN gives 0 */
void fac__scalar_c128(fac_scalar s, double out[2]);
fac_dtype fac__scalar_dtype(fac_scalar s); /* bool, i64, default dtype, or its complex */
/* Stores s as one element of dtype at p; loads one element into a scalar (complex: into re_im, which it then points to). */
void fac__store(void *p, fac_dtype d, fac_scalar s);
fac_scalar fac__load(const void *p, fac_dtype d, double re_im[2]);
/* One element converted from dtype to dtype. */
void fac__convert(void *dst, fac_dtype to, const void *src, fac_dtype from);
/* 8-bit floats: exact one way; the other rounds to nearest even, with overflow and NaN as PyTorch has them. */
float fac__f8_to_f32(fac_dtype d, uint8_t code);
uint8_t fac__f32_to_f8(fac_dtype d, float f);
/* 16-bit floats. */
float fac__f16_to_f32(uint16_t h);
uint16_t fac__f32_to_f16(float f);
static inline float fac__bf16_to_f32(uint16_t h) {
    uint32_t u = (uint32_t)h << 16;
    float f;
    memcpy(&f, &u, 4);
    return f;
}
static inline uint16_t fac__f32_to_bf16(float f) {
    uint32_t u;
    memcpy(&u, &f, 4);
    const uint32_t rounded = u + 0x7fffu + ((u >> 16) & 1u), quiet = u | 0x400000u;
    return (uint16_t)((f == f ? rounded : quiet) >> 16);
}
static inline fac_dtype fac__complex_of(fac_dtype d) { return d == FAC_F64 || d == FAC_C128 ? FAC_C128 : FAC_C64; }
static inline fac_dtype fac__real_of(fac_dtype d) { return d == FAC_C128 ? FAC_F64 : d == FAC_C64 ? FAC_F32 : d; }

/* Promotion over a mix of tensors and scalars, PyTorch's three ranks: dimensioned > 0-dim > wrapped number. */
typedef struct fac_promotion {
    fac_dtype dim, zero, wrapped;
} fac_promotion;
void fac__promote_tensor(fac_promotion *p, const fac_tensor *t);
void fac__promote_scalar(fac_promotion *p, fac_scalar s);
fac_dtype fac__promote_result(const fac_promotion *p);

#endif
