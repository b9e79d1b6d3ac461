/* Loops of the random kernels, compiled once per instruction set. All give the bits of src/core/philox.h. */
#ifndef FAC_SRC_BACKEND_CPU_KERNELS_RANDOM_H
#define FAC_SRC_BACKEND_CPU_KERNELS_RANDOM_H

#include "backend/cpu/cpu.h"

/* Words of blocks [first, first + blocks) of the draw (seed, offset): 4 per block. */
FAC_ISA_DECLARE(void, fac__philox_words,
                (uint32_t * out, uint64_t first, int64_t blocks, uint64_t seed, uint64_t offset));
/* n standard normals from n words (n a multiple of 2), times std plus mean. */
FAC_ISA_DECLARE(void, fac__normals_f32, (float *out, const uint32_t *words, int64_t n, float mean, float std));
/* The same from n pairs of words. */
FAC_ISA_DECLARE(void, fac__normals_f64, (double *out, const uint32_t *words, int64_t n, double mean, double std));
/* u (to - from) + from for u in [0, 1), of `bits` random bits (at most 24) a word. */
FAC_ISA_DECLARE(void, fac__uniforms_f32,
                (float *out, const uint32_t *words, int64_t n, float from, float to, int bits));
FAC_ISA_DECLARE(void, fac__uniforms_f64, (double *out, const uint32_t *words, int64_t n, double from, double to));
/* n numbers from n pairs of words: -log(u) / rate; log(u) / log_rest rounded up, log_rest the logarithm of 1 - p; and
   median + sigma tan(pi (u - 1/2)). */
FAC_ISA_DECLARE(void, fac__exponentials, (double *out, const uint32_t *words, int64_t n, double rate));
FAC_ISA_DECLARE(void, fac__geometrics, (double *out, const uint32_t *words, int64_t n, double log_rest));
FAC_ISA_DECLARE(void, fac__cauchys, (double *out, const uint32_t *words, int64_t n, double median, double sigma));
/* keep[i] = words[i] < threshold; out[i] = keep[i] ? x[i] * scale : 0. */
FAC_ISA_DECLARE(void, fac__dropout_f32,
                (float *out, uint8_t *keep, const float *x, const uint32_t *words, int64_t n, uint64_t threshold,
                 float scale));
FAC_ISA_DECLARE(void, fac__dropout_f64,
                (double *out, uint8_t *keep, const double *x, const uint32_t *words, int64_t n, uint64_t threshold,
                 double scale));
/* out[i] = keep[i] ? x[i] * scale : 0. */
FAC_ISA_DECLARE(void, fac__mask_scale_f32, (float *out, const uint8_t *keep, const float *x, int64_t n, float scale));
FAC_ISA_DECLARE(void, fac__mask_scale_f64,
                (double *out, const uint8_t *keep, const double *x, int64_t n, double scale));

#endif
