/* Inner loops of bags of embeddings. */
#ifndef FAC_SRC_BACKEND_CPU_KERNELS_EMBEDDING_BAG_H
#define FAC_SRC_BACKEND_CPU_KERNELS_EMBEDDING_BAG_H

#include "backend/cpu/cpu.h"

/* out[j] = sum over i of scale[i] (1 without it) times table[rows[i]][j], in the order of i, for j < width; rows equal to `skip` are
   left out. */
FAC_ISA_DECLARE(void, fac__bag_sum_f32,
                (const float *table, int64_t width, const int64_t *rows, const float *scale, int64_t n, int64_t skip,
                 float *out));
FAC_ISA_DECLARE(void, fac__bag_sum_f64,
                (const double *table, int64_t width, const int64_t *rows, const double *scale, int64_t n, int64_t skip,
                 double *out));
FAC_ISA_DECLARE(void, fac__bag_sum_f16,
                (const uint16_t *table, int64_t width, const int64_t *rows, const float *scale, int64_t n, int64_t skip,
                 float *out));
FAC_ISA_DECLARE(void, fac__bag_sum_bf16,
                (const uint16_t *table, int64_t width, const int64_t *rows, const float *scale, int64_t n, int64_t skip,
                 float *out));
/* out[j] = row[j] and from[j] = index where `first`, or row[j] is greater. */
FAC_ISA_DECLARE(void, fac__bag_max_f32,
                (float *out, int64_t *from, const float *row, int64_t index, bool first, int64_t width));
FAC_ISA_DECLARE(void, fac__bag_max_f64,
                (double *out, int64_t *from, const double *row, int64_t index, bool first, int64_t width));

#endif
