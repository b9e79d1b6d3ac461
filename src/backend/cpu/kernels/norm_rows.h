/* Inner loops of the normalisations, for float and double. Sums run in a fixed number of lanes, so that their order depends
   on the length alone. */
#ifndef FAC_SRC_BACKEND_CPU_KERNELS_NORM_ROWS_H
#define FAC_SRC_BACKEND_CPU_KERNELS_NORM_ROWS_H

#include "backend/cpu/cpu.h"

enum { FAC_NORM_SHORT = 64 }; /* elements of a short row, at most */

#define FAC_NORM_FNS(T, S)                                                                                                                  \
    /* y = (x - mean) * rstd * w + b; w, b of n elements or NULL. */                                                                        \
    FAC_ISA_DECLARE(void, fac__norm_apply_##S, (const T *x, T mean, T rstd, const T *w, const T *b, T *y, int64_t n));                      \
    /* sums[0] = sum g, sums[1] = sum g * (x - mean) * rstd with g = dy * w (w NULL: 1). */                                                 \
    FAC_ISA_DECLARE(void, fac__norm_sums_##S,                                                                                               \
                    (const T *dy, const T *x, T mean, T rstd, const T *w, int64_t n, double *sums));                                        \
    /* dx = rstd * (dy * w - a - (x - mean) * rstd * b). */                                                                                 \
    FAC_ISA_DECLARE(void, fac__norm_back_##S,                                                                                               \
                    (const T *dy, const T *x, T mean, T rstd, const T *w, T a, T b, T *dx, int64_t n));                                     \
    /* dw += dy * (x - mean) * rstd; db += dy, element by element; either may be NULL. */                                                   \
    FAC_ISA_DECLARE(void, fac__norm_params_##S,                                                                                             \
                    (const T *dy, const T *x, T mean, T rstd, T *restrict dw, T *restrict db, int64_t n));                                  \
    /* dw += dy * (x - mean), db += dy, with a mean per element. */                                                                         \
    FAC_ISA_DECLARE(void, fac__norm_params_each_##S,                                                                                        \
                    (const T *dy, const T *x, const T *mean, T *restrict dw, T *restrict db, int64_t n));                                   \
    /* sum += x - shift, square += (x - shift)^2, element by element. */                                                                    \
    FAC_ISA_DECLARE(void, fac__norm_moments_each_##S,                                                                                       \
                    (const T *x, const T *shift, double *restrict sum, double *restrict square, int64_t n));                                \
    /* y = x * scale + shift, with one scale and shift, or one per element. */                                                              \
    FAC_ISA_DECLARE(void, fac__scale_##S, (const T *x, T scale, T shift, T *y, int64_t n));                                                 \
    FAC_ISA_DECLARE(void, fac__scale_each_##S, (const T *x, const T *scale, const T *shift, T *y, int64_t n));                              \
    /* y = dy * p + x * q + r. */                                                                                                           \
    FAC_ISA_DECLARE(void, fac__blend_##S, (const T *dy, const T *x, T p, T q, T r, T *y, int64_t n));                                       \
    FAC_ISA_DECLARE(void, fac__blend_each_##S,                                                                                              \
                    (const T *dy, const T *x, const T *p, const T *q, const T *r, T *y, int64_t n));                                        \
    /* sum x^2. */                                                                                                                          \
    FAC_ISA_DECLARE(double, fac__square_sum_##S, (const T *x, int64_t n));                                                                  \
    /* y = (x - mean) * rstd * w + b of `rows` rows of n numbers each, which are few; w, b NULL or of n. The mean, 0 unless centred, and \
       rstd = 1 / sqrt(mean of (x - mean)^2 + eps) of each row are found in double, and written unless `means` or `rstds` is NULL. */  \
    FAC_ISA_DECLARE(void, fac__norm_short_rows_##S,                                                                                         \
                    (const T *x, int64_t n, int64_t rows, bool centred, double eps, const T *w, const T *b, T *y,                           \
                     T *means, T *rstds));                                                                                                  \
    /* The gradients of such rows: dx, unless NULL, as fac__norm_back_ has it, and what rows add to dw and db, unless both are NULL. Sums \
       are in double. `means` NULL: they are 0, and not differentiated. */ \
    FAC_ISA_DECLARE(void, fac__norm_short_back_##S,                                                                                         \
                    (const T *dy, const T *x, int64_t n, int64_t rows, const T *means, const T *rstds, const T *w,                          \
                     T *restrict dw, T *restrict db, T *dx))

FAC_NORM_FNS(float, f32);
FAC_NORM_FNS(double, f64);
/* The same as fac__scale_f32, fac__blend_f32, fac__norm_sums_f32 without w for an rstd of 1, and fac__scale_each_f32, of 16-bit floats,
   rounded once. */
FAC_ISA_DECLARE(void, fac__scale_half,
                (bool bf16, const uint16_t *x, float scale, float shift, uint16_t *y, int64_t n));
FAC_ISA_DECLARE(void, fac__blend_half,
                (bool bf16, const uint16_t *dy, const uint16_t *x, float p, float q, float r, uint16_t *y, int64_t n));
FAC_ISA_DECLARE(void, fac__norm_sums_half,
                (bool bf16, const uint16_t *dy, const uint16_t *x, float mean, int64_t n, double *sums));
FAC_ISA_DECLARE(void, fac__scale_each_f16,
                (const uint16_t *x, const float *scale, const float *shift, uint16_t *y, int64_t n));

/* y = (x - mean) * rstd * w + b of 16-bit floats, rounded once; w and b, or NULL, are such too if `alike`, else f32. */
FAC_ISA_DECLARE(void, fac__norm_apply_half,
                (bool bf16, const uint16_t *x, float mean, float rstd, bool alike, const void *w, const void *b,
                 uint16_t *y, int64_t n));

/* v[i] = 1 / sqrt(v[i] + eps). */
FAC_ISA_DECLARE(void, fac__root_inverses, (double *v, double eps, int64_t n));

#endif
