/* Four rows at a time meet one row of weights. With vpdpbusd four products are added in int32 by one instruction; without it bytes
   become 16-bit numbers, whose products are added in pairs. Neither saturates, so the sums are the same whatever the machine. */
#include "backend/cpu/kernels/quantized_dot.h"

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
    for (int r = 0; r < FAC_DOT_ROWS; r++)
        for (int j = 0; j < columns; j++) out[r * ldo + j] = _mm512_reduce_add_epi32(sum[r][j]);
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
