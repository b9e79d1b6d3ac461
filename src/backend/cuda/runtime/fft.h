/* Transforms by cuFFT: plans, which each device keeps, and their execution. */
#ifndef FAC_SRC_BACKEND_CUDA_RUNTIME_FFT_H
#define FAC_SRC_BACKEND_CUDA_RUNTIME_FFT_H

#include "backend/cuda/runtime/runtime.h"

enum { FAC_CUDA_FFT_RANK = 3, FAC_CUDA_FFT_PLANS = 4096 };

typedef enum fac_cuda_fft_kind { FAC_CUDA_FFT_R2C, FAC_CUDA_FFT_C2C, FAC_CUDA_FFT_C2R } fac_cuda_fft_kind;

/* What a plan is for, beside its device: `batch` transforms of row-major arrays of `rank` dimensions, of which the complex side of
   a real transform has n / 2 + 1 elements in the last. Compared byte by byte, so it has no padding and is zeroed before it is
   filled. */
typedef struct fac_cuda_fft {
    int64_t n[FAC_CUDA_FFT_RANK], batch;
    int32_t rank, kind; /* a fac_cuda_fft_kind */
    int32_t wide;       /* 1: of doubles */
    int32_t zero;
} fac_cuda_fft;

/* Queues the transform of `in` to `out`, both row-major on one device, without a scale. A C2R transform may spoil `in`. `forward`
   is of C2C alone. errors: UNSUPPORTED without cuFFT or for what it cannot transform; MEMORY; DEVICE */
fac_status fac__cuda_fft_run(const fac_cuda_fft *what, bool forward, fac_tensor *in, fac_tensor *out,
                             const fac_operator *op);
/* Destroys the plans of a device, whose context is current and idle. */
void fac__cuda_fft_stop(int index);

#endif
