/* What the kernels beside cuFFT are told. Shared with launchers. */
#ifndef FAC_KERNEL_FFT_H
#define FAC_KERNEL_FFT_H

#include "kernel.h"

/* `elements` numbers of arrays of n[0] x n[1] x n[2]. */
typedef struct k_fft {
    int64_t n[3], elements;
} k_fft;

#endif
