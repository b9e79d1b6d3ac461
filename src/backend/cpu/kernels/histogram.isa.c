/* Bins of numbers, by a division each that vectorises; no branches. */
#include "backend/cpu/kernels/histogram.h"

#define BINS(name, T)                                                                                       \
    void FAC_ISA_NAME(fac__bins_##name)(const T *x, int64_t n, T low, T high, int32_t bins, int32_t *out) { \
        const T count = (T)bins, width = high - low;                                                        \
        FAC_IVDEP                                                                                           \
        for (int64_t i = 0; i < n; i++) {                                                                   \
            const T at = (x[i] - low) * count / width;                                                      \
            const T within = at > 0 ? at : 0; /* 0 for NaN */                                               \
            const int32_t bin = (int32_t)(within < count ? within : count - 1);                             \
            const int32_t last = bin < bins ? bin : bins - 1;                                               \
            out[i] = ((x[i] >= low) & (x[i] <= high)) ? last : -1;                                          \
        }                                                                                                   \
    }
BINS(f32, float)
BINS(f64, double)
