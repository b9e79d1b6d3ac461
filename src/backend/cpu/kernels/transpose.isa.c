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
