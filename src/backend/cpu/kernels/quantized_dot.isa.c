/* Four rows at a time meet one row of weights. With vpdpbusd four products are added in int32 by one instruction; without it bytes
   become 16-bit numbers, whose products are added in pairs. Neither saturates, so the sums are the same whatever the machine. */
#include "backend/cpu/kernels/quantized_dot.h"
#include <math.h>
#include <string.h>

#if FAC_ISA_X86
#include <immintrin.h>
#endif

/* From k0 on, one by one. */
static void rest(const uint8_t *a, int64_t lda, const int8_t *b, int64_t k0, int64_t k, int32_t *out, int64_t ldo) {
    for (int r = 0; r < FAC_DOT_ROWS; r++) {
        int32_t sum = 0;
        for (int64_t i = k0; i < k; i++) sum += (int32_t)a[r * lda + i] * b[i];
        out[r * ldo] += sum;
    }
}

#if FAC_ISA_LEVEL >= 2
enum { COLUMNS = 4 }; /* rows of weights at a time: 16 sums are under way, more than an addition's latency takes */

/* The totals of four vectors, which meet in pairs. */
static inline __m128i four_totals(const __m512i v[COLUMNS]) {
    const __m512i ab = _mm512_add_epi32(_mm512_unpacklo_epi32(v[0], v[1]), _mm512_unpackhi_epi32(v[0], v[1]));
    const __m512i cd = _mm512_add_epi32(_mm512_unpacklo_epi32(v[2], v[3]), _mm512_unpackhi_epi32(v[2], v[3]));
    const __m512i all = _mm512_add_epi32(_mm512_unpacklo_epi64(ab, cd), _mm512_unpackhi_epi64(ab, cd));
    const __m256i half = _mm256_add_epi32(_mm512_castsi512_si256(all), _mm512_extracti64x4_epi64(all, 1));
    return _mm_add_epi32(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1));
}

/* `columns` is a constant where this is inlined. */
__attribute__((target("avx512vnni"), always_inline)) static inline void dot_columns(const uint8_t *a, int64_t lda,
                                                                                    const int8_t *b, int64_t ldb,
                                                                                    int columns, int64_t k,
                                                                                    int32_t *out, int64_t ldo) {
    __m512i sum[FAC_DOT_ROWS][COLUMNS];
    for (int r = 0; r < FAC_DOT_ROWS; r++)
        for (int j = 0; j < columns; j++) sum[r][j] = _mm512_setzero_si512();
    for (int64_t i = 0; i < k; i += 64) {
        const __mmask64 m = k - i >= 64 ? ~(__mmask64)0 : ((__mmask64)1 << (k - i)) - 1;
        __m512i w[COLUMNS];
        for (int j = 0; j < columns; j++) w[j] = _mm512_maskz_loadu_epi8(m, b + j * ldb + i);
        for (int r = 0; r < FAC_DOT_ROWS; r++) {
            const __m512i x = _mm512_maskz_loadu_epi8(m, a + r * lda + i);
            for (int j = 0; j < columns; j++) sum[r][j] = _mm512_dpbusd_epi32(sum[r][j], x, w[j]);
        }
    }
    for (int r = 0; r < FAC_DOT_ROWS; r++) {
        if (columns == COLUMNS)
            _mm_storeu_si128((__m128i *)(void *)(out + r * ldo), four_totals(sum[r]));
        else
            for (int j = 0; j < columns; j++) out[r * ldo + j] = _mm512_reduce_add_epi32(sum[r][j]);
    }
}

__attribute__((target("avx512vnni"))) static void dot_vnni(const uint8_t *a, int64_t lda, const int8_t *b, int64_t ldb,
                                                           int64_t n, int64_t k, int32_t *out, int64_t ldo) {
    int64_t j = 0;
    for (; j + COLUMNS <= n; j += COLUMNS) dot_columns(a, lda, b + j * ldb, ldb, COLUMNS, k, out + j, ldo);
    for (; j < n; j++) dot_columns(a, lda, b + j * ldb, ldb, 1, k, out + j, ldo);
}
#endif

#if FAC_ISA_LEVEL >= 1
static int32_t total(__m256i v) {
    __m128i s = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0x4e));
    return _mm_cvtsi128_si32(_mm_add_epi32(s, _mm_shuffle_epi32(s, 0xb1)));
}

static void dot_pairs(const uint8_t *a, int64_t lda, const int8_t *b, int64_t k, int32_t *out, int64_t ldo) {
    __m256i sum[FAC_DOT_ROWS];
    int64_t i = 0;
    for (int r = 0; r < FAC_DOT_ROWS; r++) sum[r] = _mm256_setzero_si256();
    for (; i + 16 <= k; i += 16) {
        const __m256i w = _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(const void *)(b + i)));
        for (int r = 0; r < FAC_DOT_ROWS; r++) {
            const __m256i x = _mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *)(const void *)(a + r * lda + i)));
            sum[r] = _mm256_add_epi32(sum[r], _mm256_madd_epi16(x, w));
        }
    }
    for (int r = 0; r < FAC_DOT_ROWS; r++) out[r * ldo] = total(sum[r]);
    rest(a, lda, b, i, k, out, ldo);
}
#endif

static void dot(const uint8_t *a, int64_t lda, const int8_t *b, int64_t k, int32_t *out, int64_t ldo) {
#if FAC_ISA_LEVEL >= 1
    dot_pairs(a, lda, b, k, out, ldo);
#else
    for (int r = 0; r < FAC_DOT_ROWS; r++) out[r * ldo] = 0;
    rest(a, lda, b, 0, k, out, ldo);
#endif
}

void FAC_ISA_NAME(fac__dot_u8s8)(const uint8_t *a, int64_t lda, const int8_t *b, int64_t ldb, int64_t n, int64_t k,
                                 int32_t *out, int64_t ldo) {
#if FAC_ISA_LEVEL >= 2
    if (__builtin_cpu_supports("avx512vnni")) {
        dot_vnni(a, lda, b, ldb, n, k, out, ldo);
        return;
    }
#endif
    for (int64_t j = 0; j < n; j++) dot(a, lda, b + j * ldb, k, out + j, ldo);
}

void FAC_ISA_NAME(fac__row_sums_i8)(const int8_t *w, int64_t rows, int64_t k, int32_t *out) {
    for (int64_t r = 0; r < rows; r++, w += k) {
        int32_t sum = 0;
        for (int64_t i = 0; i < k; i++) sum += w[i];
        out[r] = sum;
    }
}

void FAC_ISA_NAME(fac__requantize)(const int32_t *restrict sum, const int64_t *restrict away, const float *bias,
                                   const float *multiplier, int64_t n, float zero, float least, float most,
                                   uint8_t *restrict out) {
    for (int64_t j = 0; j < n; j++) {
        float r = rintf(((float)((int64_t)sum[j] - away[j]) + bias[j]) * multiplier[j]) + zero;
        r = r > least ? r : least;
        r = r < most ? r : most;
        out[j] = (uint8_t)(int32_t)r;
    }
}

void FAC_ISA_NAME(fac__dequantize_sums)(const int32_t *restrict sum, const int64_t *restrict away, const float *scale,
                                        const float *bias, int64_t n, float *restrict out) {
    for (int64_t j = 0; j < n; j++) out[j] = (float)((int64_t)sum[j] - away[j]) * scale[j] + bias[j];
}

typedef uint8_t bytes16 __attribute__((vector_size(16)));
#define LOW(a, b) __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23)
#define HIGH(a, b) __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31)

/* Rows i and i + 8 meet, four times: each round moves a bit of the row's number to the column's. */
static inline void transpose_16(uint8_t *dst, int64_t dst_row, const uint8_t *src, int64_t src_row, uint8_t flip) {
    bytes16 a[16], b[16];
    for (int i = 0; i < 16; i++) memcpy(&a[i], src + i * src_row, 16);
    for (int i = 0; i < 16; i++) a[i] ^= flip;
    for (int round = 0; round < 4; round++) {
        for (int i = 0; i < 8; i++) b[2 * i] = LOW(a[i], a[i + 8]), b[2 * i + 1] = HIGH(a[i], a[i + 8]);
        memcpy(a, b, sizeof a);
    }
    for (int i = 0; i < 16; i++) memcpy(dst + i * dst_row, &a[i], 16);
}

void FAC_ISA_NAME(fac__transpose_bytes)(uint8_t *dst, int64_t dst_row, const uint8_t *src, int64_t src_row,
                                        int64_t rows, int64_t cols, uint8_t flip) {
    int64_t i = 0;
    for (; i + 16 <= rows; i += 16) {
        int64_t j = 0;
        for (; j + 16 <= cols; j += 16)
            transpose_16(dst + i * dst_row + j, dst_row, src + j * src_row + i, src_row, flip);
        for (int64_t r = i; j < cols && r < i + 16; r++)
            for (int64_t c = j; c < cols; c++) dst[r * dst_row + c] = src[c * src_row + r] ^ flip;
    }
    for (; i < rows; i++)
        for (int64_t c = 0; c < cols; c++) dst[i * dst_row + c] = src[c * src_row + i] ^ flip;
}

void FAC_ISA_NAME(fac__depthwise_dot)(const uint8_t *const *at, const int8_t *restrict w, int64_t taps, int64_t n,
                                      uint8_t pad, int32_t *restrict sum, int32_t *restrict x_sum) {
    for (int64_t c = 0; c < n; c++) sum[c] = x_sum[c] = 0;
    for (int64_t t = 0; t < taps; t++, w += n) {
        const uint8_t *restrict x = at[t];
        for (int64_t c = 0; x && c < n; c++) {
            sum[c] += (int32_t)x[c] * w[c];
            x_sum[c] += x[c];
        }
        for (int64_t c = 0; !x && c < n; c++) {
            sum[c] += (int32_t)pad * w[c];
            x_sum[c] += pad;
        }
    }
}

int64_t FAC_ISA_NAME(fac__row_sum_u8)(const uint8_t *x, int64_t k) {
    enum { PART = 1 << 20 }; /* sums of so many bytes fit 32 bits */
    int64_t sum = 0;
    for (int64_t i = 0; i < k; i += PART) {
        const int64_t end = i + PART < k ? i + PART : k;
        uint32_t part = 0;
        for (int64_t j = i; j < end; j++) part += x[j];
        sum += part;
    }
    return sum;
}

void FAC_ISA_NAME(fac__zero_corrections)(const int64_t *restrict base, const int64_t *restrict w_zero,
                                         const int32_t *restrict x_sums, int64_t x, int64_t n, int64_t *restrict out) {
    if (x_sums) {
        for (int64_t j = 0; j < n; j++) out[j] = base[j] + w_zero[j] * (x + x_sums[j]);
    } else {
        for (int64_t j = 0; j < n; j++) out[j] = base[j] + w_zero[j] * x;
    }
}
