/* Squares of 8 by 8 go through registers: interleave pairs of rows, then pairs of pairs, then halves. Two squares side by
   side fill a cache line of the destination, so that streaming stores combine. Edges are copied element by element. */
#include "backend/cpu/kernels/transpose.h"
#include "backend/cpu/simd.h"

#if FAC_ISA_LEVEL >= 1
#include <immintrin.h>
#endif

#define EDGE(name, SIZE)                                                                                               \
    static void name(char *dst, int64_t dst_stride, const char *src, int64_t src_stride, int64_t rows, int64_t cols) { \
        for (int64_t i = 0; i < rows; i++)                                                                             \
            for (int64_t j = 0; j < cols; j++)                                                                         \
                memcpy(dst + i * dst_stride + j * (SIZE), src + j * src_stride + i * (SIZE), SIZE);                    \
    }
EDGE(edge, 4)
EDGE(edge_8, 8)

#if FAC_ISA_LEVEL >= 1
/* r[j] is row j of the source; on return row j of the destination. */
static inline void square(__m256 r[8]) {
    __m256 a[8], b[8];
    for (int k = 0; k < 8; k += 2) {
        a[k] = _mm256_unpacklo_ps(r[k], r[k + 1]);
        a[k + 1] = _mm256_unpackhi_ps(r[k], r[k + 1]);
    }
    for (int k = 0; k < 8; k += 4) {
        b[k] = _mm256_shuffle_ps(a[k], a[k + 2], 0x44);
        b[k + 1] = _mm256_shuffle_ps(a[k], a[k + 2], 0xee);
        b[k + 2] = _mm256_shuffle_ps(a[k + 1], a[k + 3], 0x44);
        b[k + 3] = _mm256_shuffle_ps(a[k + 1], a[k + 3], 0xee);
    }
    for (int k = 0; k < 4; k++) {
        r[k] = _mm256_permute2f128_ps(b[k], b[k + 4], 0x20);
        r[k + 4] = _mm256_permute2f128_ps(b[k], b[k + 4], 0x31);
    }
}

/* 8 rows by 16 columns of the destination: one line of each row. */
static inline void line_block(char *dst, int64_t dst_stride, const char *src, int64_t src_stride, bool stream) {
    __m256 left[8], right[8];
    for (int j = 0; j < 8; j++) {
        left[j] = _mm256_loadu_ps((const float *)(const void *)(src + j * src_stride));
        right[j] = _mm256_loadu_ps((const float *)(const void *)(src + (j + 8) * src_stride));
    }
    square(left);
    square(right);
    for (int i = 0; i < 8; i++) {
        float *out = (float *)(void *)(dst + i * dst_stride);
        if (stream) {
            _mm256_stream_ps(out, left[i]);
            _mm256_stream_ps(out + 8, right[i]);
        } else {
            _mm256_storeu_ps(out, left[i]);
            _mm256_storeu_ps(out + 8, right[i]);
        }
    }
}
#endif

void FAC_ISA_NAME(fac__transpose_4)(char *dst, int64_t dst_stride, const char *src, int64_t src_stride, int64_t rows,
                                    int64_t cols, bool stream) {
    int64_t whole_rows = 0, whole_cols = 0;
#if FAC_ISA_LEVEL >= 1
    whole_rows = rows & ~INT64_C(7);
    whole_cols = cols & ~INT64_C(15);
    stream = stream && ((uintptr_t)dst & 31u) == 0 && (dst_stride & 31) == 0;
    for (int64_t j = 0; j < whole_cols; j += 16)
        for (int64_t i = 0; i < whole_rows; i += 8)
            line_block(dst + i * dst_stride + j * 4, dst_stride, src + j * src_stride + i * 4, src_stride, stream);
#else
    (void)stream;
#endif
    edge(dst + whole_rows * dst_stride, dst_stride, src + whole_rows * 4, src_stride, rows - whole_rows, cols);
    edge(dst + whole_cols * 4, dst_stride, src + whole_cols * src_stride, src_stride, whole_rows, cols - whole_cols);
}

/* Squares of as many doubles as a vector has, which are moved, not computed with. */
void FAC_ISA_NAME(fac__transpose_8)(char *dst, int64_t dst_stride, const char *src, int64_t src_stride, int64_t rows,
                                    int64_t cols) {
    const int64_t lanes = FAC_LANES_F64, whole_rows = rows / lanes * lanes, whole_cols = cols / lanes * lanes;
    for (int64_t j = 0; j < whole_cols; j += lanes)
        for (int64_t i = 0; i < whole_rows; i += lanes) {
            fac_vf64 v[FAC_LANES_F64];
            for (int l = 0; l < lanes; l++)
                v[l] = fac_load_f64((const double *)(const void *)(src + (j + l) * src_stride + i * 8));
            fac_transpose_f64(v);
            for (int l = 0; l < lanes; l++) fac_store_f64((double *)(void *)(dst + (i + l) * dst_stride + j * 8), v[l]);
        }
    edge_8(dst + whole_rows * dst_stride, dst_stride, src + whole_rows * 8, src_stride, rows - whole_rows, cols);
    edge_8(dst + whole_cols * 8, dst_stride, src + whole_cols * src_stride, src_stride, whole_rows, cols - whole_cols);
}

/* Squares of 16 bytes' side: each round interleaves rows with those half the square further on. Not for x86 without AVX2, where the
   library is to be small. */
#if FAC_VECTOR_BYTES > 16 || !defined(__x86_64__)
#define HAS_SQUARES 1
#else
#define HAS_SQUARES 0
#endif
#if HAS_SQUARES
#define SQUARE(name, T, SIDE, ROUNDS, LOW, HIGH)                                                                  \
    static inline void name(char *dst, int64_t dst_stride, const char *src, int64_t src_stride) {                 \
        typedef T row __attribute__((vector_size(16)));                                                           \
        row r[SIDE], next[SIDE];                                                                                  \
        _Pragma("GCC unroll 16") for (int k = 0; k < SIDE; k++) memcpy(&r[k], src + k * src_stride, sizeof r[k]); \
        _Pragma("GCC unroll 4") for (int round = 0; round < ROUNDS; round++) {                                    \
            _Pragma("GCC unroll 8") for (int k = 0; k < SIDE / 2; k++) {                                          \
                next[2 * k] = __builtin_shufflevector(r[k], r[k + SIDE / 2], LOW);                                \
                next[2 * k + 1] = __builtin_shufflevector(r[k], r[k + SIDE / 2], HIGH);                           \
            }                                                                                                     \
            memcpy(r, next, sizeof r);                                                                            \
        }                                                                                                         \
        _Pragma("GCC unroll 16") for (int k = 0; k < SIDE; k++) memcpy(dst + k * dst_stride, &r[k], sizeof r[k]); \
    }
#define LOW_1 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23
#define HIGH_1 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31
#define LOW_2 0, 8, 1, 9, 2, 10, 3, 11
#define HIGH_2 4, 12, 5, 13, 6, 14, 7, 15
SQUARE(square_1, uint8_t, 16, 4, LOW_1, HIGH_1)
SQUARE(square_2, uint16_t, 8, 3, LOW_2, HIGH_2)

#endif

bool FAC_ISA_NAME(fac__transpose_squares)(int64_t item, char *dst, int64_t dst_stride, const char *src,
                                          int64_t src_stride, int64_t rows, int64_t cols) {
#if HAS_SQUARES
    const int64_t side = 16 / item;
    for (int64_t i = 0; i < rows; i += side)
        for (int64_t j = 0; j < cols; j += side)
            (item == 1 ? square_1 : square_2)(dst + i * dst_stride + j * item, dst_stride,
                                              src + i * item + j * src_stride, src_stride);
    return true;
#else
    (void)item, (void)dst, (void)dst_stride, (void)src, (void)src_stride, (void)rows, (void)cols;
    return false;
#endif
}
