/* Our own declarations of what we use of cuFFT: official names and values, so that neither its header nor the library is needed
   to build. It includes nothing of Facula. Where a real cufft.h is found, a test compares every line of this file with it. */
#ifndef FAC_SRC_CUDA_ABI_CUFFT_H
#define FAC_SRC_CUDA_ABI_CUFFT_H

/* clang-format off */
#define FAC_CUFFT_RESULTS(X) \
    X(CUFFT_SUCCESS, 0x0) \
    X(CUFFT_INVALID_PLAN, 0x1) \
    X(CUFFT_ALLOC_FAILED, 0x2) \
    X(CUFFT_INVALID_TYPE, 0x3) \
    X(CUFFT_INVALID_VALUE, 0x4) \
    X(CUFFT_INTERNAL_ERROR, 0x5) \
    X(CUFFT_EXEC_FAILED, 0x6) \
    X(CUFFT_SETUP_FAILED, 0x7) \
    X(CUFFT_INVALID_SIZE, 0x8) \
    X(CUFFT_UNALIGNED_DATA, 0x9) \
    X(CUFFT_INVALID_DEVICE, 0xB) \
    X(CUFFT_NO_WORKSPACE, 0xD) \
    X(CUFFT_NOT_IMPLEMENTED, 0xE) \
    X(CUFFT_NOT_SUPPORTED, 0x10)

#define FAC_CUFFT_TYPES(X) \
    X(CUDA_R_32F, 0) \
    X(CUDA_R_64F, 1) \
    X(CUDA_C_32F, 4) \
    X(CUDA_C_64F, 5)

#define FAC_CUFFT_DIRECTIONS(X) \
    X(CUFFT_FORWARD, -1) \
    X(CUFFT_INVERSE, 1)

/* X(name, (parameters)); all return cufftResult and are required. */
#define FAC_CUFFT_ENTRIES(X) \
    X(cufftGetVersion, (int *version)) \
    X(cufftCreate, (cufftHandle *plan)) \
    X(cufftDestroy, (cufftHandle plan)) \
    X(cufftSetAutoAllocation, (cufftHandle plan, int automatic)) \
    X(cufftXtMakePlanMany, (cufftHandle plan, int rank, long long *n, long long *in_embed, long long in_stride, \
                            long long in_distance, cudaDataType in_type, long long *out_embed, long long out_stride, \
                            long long out_distance, cudaDataType out_type, long long batch, size_t *work_bytes, \
                            cudaDataType compute_type)) \
    X(cufftSetWorkArea, (cufftHandle plan, void *work)) \
    X(cufftSetStream, (cufftHandle plan, cudaStream_t stream)) \
    X(cufftXtExec, (cufftHandle plan, void *in, void *out, int direction))
/* clang-format on */

#ifndef FAC_CUFFT_THEIRS /* the test, where the toolkit's declarations stand in for these */
#include "cuda_abi/abi.h"

#define FAC_CUFFT_VALUE(name, value) name = (value),
typedef enum cufftResult_t { FAC_CUFFT_RESULTS(FAC_CUFFT_VALUE) } cufftResult;
typedef enum cudaDataType_t { FAC_CUFFT_TYPES(FAC_CUFFT_VALUE) } cudaDataType;
enum { FAC_CUFFT_DIRECTIONS(FAC_CUFFT_VALUE) };
#undef FAC_CUFFT_VALUE
typedef int cufftHandle;
typedef CUstream cudaStream_t;
#endif

#endif
