/* Inner loops of Fourier transforms: fft_body.h for float32 and float64. */
#include "backend/cpu/fft/fft.h"
#include "backend/cpu/simd.h"

/* Vectors of 2, 4, 8 and 16 lanes: the even elements and the odd elements of two, and the elements of one backwards. */
#define EVEN2(a, b) __builtin_shufflevector(a, b, 0, 2)
#define ODD2(a, b) __builtin_shufflevector(a, b, 1, 3)
#define BACK2(a) __builtin_shufflevector(a, a, 1, 0)
#define EVEN4(a, b) __builtin_shufflevector(a, b, 0, 2, 4, 6)
#define ODD4(a, b) __builtin_shufflevector(a, b, 1, 3, 5, 7)
#define BACK4(a) __builtin_shufflevector(a, a, 3, 2, 1, 0)
#define EVEN8(a, b) __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14)
#define ODD8(a, b) __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15)
#define BACK8(a) __builtin_shufflevector(a, a, 7, 6, 5, 4, 3, 2, 1, 0)
#define EVEN16(a, b) __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30)
#define ODD16(a, b) __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31)
#define BACK16(a) __builtin_shufflevector(a, a, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0)

int FAC_ISA_NAME(fac__fft_vector)(void) { return FAC_VECTOR_BYTES; }

#define T float
#define VT fac_vf32
#define LANES FAC_LANES_F32
#define X(name) name##_f32
#define FMA fac_fma_f32
#define LOAD fac_load_f32
#define STORE fac_store_f32
#define SPLAT fac_splat_f32
#define ZIP_LO FAC_ZIP_LO_F32
#define ZIP_HI FAC_ZIP_HI_F32
#if FAC_VECTOR_BYTES == 64
#define EVEN EVEN16
#define ODD ODD16
#define BACK BACK16
#elif FAC_VECTOR_BYTES == 32
#define EVEN EVEN8
#define ODD ODD8
#define BACK BACK8
#else
#define EVEN EVEN4
#define ODD ODD4
#define BACK BACK4
#endif
#include "backend/cpu/fft/fft_body.h"

#undef T
#undef VT
#undef LANES
#undef X
#undef FMA
#undef LOAD
#undef STORE
#undef SPLAT
#undef ZIP_LO
#undef ZIP_HI
#undef EVEN
#undef ODD
#undef BACK
#define T double
#define VT fac_vf64
#define LANES FAC_LANES_F64
#define X(name) name##_f64
#define FMA fac_fma_f64
#define LOAD fac_load_f64
#define STORE fac_store_f64
#define SPLAT fac_splat_f64
#define ZIP_LO FAC_ZIP_LO_F64
#define ZIP_HI FAC_ZIP_HI_F64
#if FAC_VECTOR_BYTES == 64
#define EVEN EVEN8
#define ODD ODD8
#define BACK BACK8
#elif FAC_VECTOR_BYTES == 32
#define EVEN EVEN4
#define ODD ODD4
#define BACK BACK4
#else
#define EVEN EVEN2
#define ODD ODD2
#define BACK BACK2
#endif
#include "backend/cpu/fft/fft_body.h"
