/* With vpdpbusd four products are added in int32 by one instruction; without it bytes become 16-bit numbers, whose products are added in
   pairs. Neither saturates, so the sums are the same whatever the machine. Few rows meet the weights as they lie, in sums along the
   depth that are added up at the end. Many meet panels of weights, in which a vector holds four depths of each of its columns: lanes
   are columns, and a tile's sums stay in registers from the first depth to the last. */
#include "backend/cpu/kernels/quantized_dot.h"
#include "backend/cpu/simd.h"
#include <math.h>

#if FAC_ISA_LEVEL < 2 || !FAC_ISA_LEVELS
/* From k0 on, one by one. */
static void rest(const uint8_t *a, int64_t lda, int rows, const int8_t *b, int64_t k0, int64_t k, int32_t *out,
                 int64_t ldo, int32_t *total) {
    for (int r = 0; r < rows; r++) {
        int32_t sum = 0;
        for (int64_t i = k0; i < k; i++) sum += (int32_t)a[r * lda + i] * b[i];
        out[r * ldo] += sum;
    }
    for (int64_t i = k0; total && i < k; i++) *total += b[i];
}
#endif

#if FAC_ISA_LEVEL >= 2
enum { COLUMNS = 4 }; /* rows of weights at a time: sums enough are under way for an addition's latency */

/* Adds four products to each sum. Of the intrinsic gcc keeps both sums, the one before and the one after, and moves or spills them. */
#define ADD_PRODUCTS(sum, x, w) __asm__("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(x), "v"(w))

/* The totals of four vectors, which meet in pairs. */
static inline __m128i four_totals(const __m512i v[COLUMNS]) {
    const __m512i ab = _mm512_add_epi32(_mm512_unpacklo_epi32(v[0], v[1]), _mm512_unpackhi_epi32(v[0], v[1]));
    const __m512i cd = _mm512_add_epi32(_mm512_unpacklo_epi32(v[2], v[3]), _mm512_unpackhi_epi32(v[2], v[3]));
    const __m512i all = _mm512_add_epi32(_mm512_unpacklo_epi64(ab, cd), _mm512_unpackhi_epi64(ab, cd));
    const __m256i half = _mm256_add_epi32(_mm512_castsi512_si256(all), _mm512_extracti64x4_epi64(all, 1));
    return _mm_add_epi32(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1));
}
static inline void store_totals(const __m512i v[COLUMNS], int columns, int32_t *out) {
    if (columns == COLUMNS)
        _mm_storeu_si128((__m128i *)(void *)out, four_totals(v));
    else
        for (int j = 0; j < columns; j++) out[j] = _mm512_reduce_add_epi32(v[j]);
}

/* `rows`, `columns` and whether there are totals are constants where this is inlined. */
#define VNNI_INLINE __attribute__((target("avx512vnni"), always_inline)) static inline
VNNI_INLINE void dot_columns(const uint8_t *a, int64_t lda, int rows, const int8_t *b, int64_t ldb, int columns,
                             int64_t k, int32_t *out, int64_t ldo, bool totals, int32_t *total) {
    __m512i sum[FAC_DOT_ROWS + 1][COLUMNS], w[COLUMNS];
    const __m512i one = _mm512_set1_epi8(1);
    const int all = rows + totals; /* the weights' totals come last */
#pragma GCC unroll 8
    for (int r = 0; r < all; r++)
        for (int j = 0; j < columns; j++) sum[r][j] = _mm512_setzero_si512();
    int64_t i = 0;
    for (; i + 64 <= k; i += 64) {
        for (int j = 0; j < columns; j++) w[j] = _mm512_loadu_si512(b + j * ldb + i);
#pragma GCC unroll 8
        for (int r = 0; r < all; r++) {
            const __m512i x = r < rows ? _mm512_loadu_si512(a + r * lda + i) : one;
            for (int j = 0; j < columns; j++) ADD_PRODUCTS(sum[r][j], x, w[j]);
        }
    }
    if (i < k) {
        const __mmask64 m = ((__mmask64)1 << (k - i)) - 1;
        for (int j = 0; j < columns; j++) w[j] = _mm512_maskz_loadu_epi8(m, b + j * ldb + i);
#pragma GCC unroll 8
        for (int r = 0; r < all; r++) {
            const __m512i x = r < rows ? _mm512_maskz_loadu_epi8(m, a + r * lda + i) : one;
            for (int j = 0; j < columns; j++) ADD_PRODUCTS(sum[r][j], x, w[j]);
        }
    }
#pragma GCC unroll 8
    for (int r = 0; r < all; r++) store_totals(sum[r], columns, r < rows ? out + r * ldo : total);
}
VNNI_INLINE void dot_rows(const uint8_t *a, int64_t lda, int rows, const int8_t *b, int64_t ldb, int64_t n, int64_t k,
                          int32_t *out, int64_t ldo, bool totals, int32_t *total) {
    int64_t j = 0;
    for (; j + COLUMNS <= n; j += COLUMNS)
        dot_columns(a, lda, rows, b + j * ldb, ldb, COLUMNS, k, out + j, ldo, totals, totals ? total + j : NULL);
    for (; j < n; j++)
        dot_columns(a, lda, rows, b + j * ldb, ldb, 1, k, out + j, ldo, totals, totals ? total + j : NULL);
}

__attribute__((target("avx512vnni"))) static void dot_vnni(const uint8_t *a, int64_t lda, int rows, const int8_t *b,
                                                           int64_t ldb, int64_t n, int64_t k, int32_t *out, int64_t ldo,
                                                           int32_t *total) {
#define ROWS(rows)                                                   \
    if (total)                                                       \
        dot_rows(a, lda, rows, b, ldb, n, k, out, ldo, true, total); \
    else                                                             \
        dot_rows(a, lda, rows, b, ldb, n, k, out, ldo, false, NULL); \
    break
    switch (rows) {
    case 1: ROWS(1);
    case 2: ROWS(2);
    case 3: ROWS(3);
    default: ROWS(FAC_DOT_ROWS);
    }
#undef ROWS
}
#endif

/* Levels without vpdpbusd: the code of AVX2, which that of AVX-512 calls where the processor lacks the instruction. */
#define PAIRS (FAC_ISA_LEVEL == 1 || (FAC_ISA_LEVEL == 2 && !FAC_ISA_LEVELS))

#if PAIRS
static int32_t total_of(__m256i v) {
    __m128i s = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0x4e));
    return _mm_cvtsi128_si32(_mm_add_epi32(s, _mm_shuffle_epi32(s, 0xb1)));
}

static void dot_pairs(const uint8_t *a, int64_t lda, int rows, const int8_t *b, int64_t k, int32_t *out, int64_t ldo,
                      int32_t *total) {
    __m256i sum[FAC_DOT_ROWS], all = _mm256_setzero_si256();
    int64_t i = 0;
    for (int r = 0; r < FAC_DOT_ROWS; r++) sum[r] = _mm256_setzero_si256();
    for (; i + 16 <= k; i += 16) {
        const __m256i w = _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(const void *)(b + i)));
        for (int r = 0; r < FAC_DOT_ROWS; r++) { /* without a branch: rows that are missing stand for the last one */
            const uint8_t *row = a + (r < rows ? r : rows - 1) * lda;
            const __m256i x = _mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *)(const void *)(row + i)));
            sum[r] = _mm256_add_epi32(sum[r], _mm256_madd_epi16(x, w));
        }
        all = _mm256_add_epi32(all, _mm256_madd_epi16(_mm256_set1_epi16(1), w));
    }
    for (int r = 0; r < rows; r++) out[r * ldo] = total_of(sum[r]);
    if (total) *total = total_of(all);
    rest(a, lda, rows, b, i, k, out, ldo, total);
}
#endif

#if FAC_ISA_LEVEL < 2 || PAIRS
static void dot(const uint8_t *a, int64_t lda, int rows, const int8_t *b, int64_t k, int32_t *out, int64_t ldo,
                int32_t *total) {
#if PAIRS
    dot_pairs(a, lda, rows, b, k, out, ldo, total);
#else
    for (int r = 0; r < rows; r++) out[r * ldo] = 0;
    if (total) *total = 0;
    rest(a, lda, rows, b, 0, k, out, ldo, total);
#endif
}
#endif

void FAC_ISA_NAME(fac__dot_u8s8)(const uint8_t *a, int64_t lda, int rows, const int8_t *b, int64_t ldb, int64_t n,
                                 int64_t k, int32_t *out, int64_t ldo, int32_t *total) {
#if FAC_ISA_LEVEL >= 2
    if (__builtin_cpu_supports("avx512vnni")) {
        dot_vnni(a, lda, rows, b, ldb, n, k, out, ldo, total);
        return;
    }
#endif
#if FAC_ISA_LEVEL < 2 || PAIRS
    for (int64_t j = 0; j < n; j++) dot(a, lda, rows, b + j * ldb, k, out + j, ldo, total ? total + j : NULL);
#else
    fac__dot_u8s8_avx2(a, lda, rows, b, ldb, n, k, out, ldo, total);
#endif
}

/* ---- tiles ------------------------------------------------------------------------------------------------------------------ */

/* Four codes of row r. */
static inline int32_t four(const fac_tile_rows *t, int r, int64_t at) {
    int32_t x;
    memcpy(&x, t->rows[r] + at, sizeof x);
    return x;
}

#if FAC_ISA_LEVEL >= 2
/* `vectors`, of 16 columns, is a constant where this is inlined. */
__attribute__((target("avx512vnni"), always_inline)) static inline void tile_columns(const fac_tile_rows *t,
                                                                                     const int8_t *w, int vectors,
                                                                                     int32_t *out, int64_t ldo) {
    __m512i sum[FAC_TILE_ROWS][2];
#pragma GCC unroll 8
    for (int r = 0; r < FAC_TILE_ROWS; r++) sum[r][0] = sum[r][1] = _mm512_setzero_si512();
    for (int64_t tap = 0; tap < t->taps; tap++) {
        const int64_t begin = t->offsets[tap], end = begin + t->depth;
        for (int64_t i = begin; i < end; i += 4, w += vectors * 64) {
            const __m512i w0 = _mm512_loadu_si512(w), w1 = vectors > 1 ? _mm512_loadu_si512(w + 64) : w0;
#pragma GCC unroll 8
            for (int r = 0; r < FAC_TILE_ROWS; r++) {
                const __m512i x = _mm512_set1_epi32(four(t, r, i));
                ADD_PRODUCTS(sum[r][0], x, w0);
                if (vectors > 1) ADD_PRODUCTS(sum[r][1], x, w1);
            }
        }
    }
#pragma GCC unroll 8
    for (int r = 0; r < FAC_TILE_ROWS; r++)
        for (int v = 0; v < vectors; v++) _mm512_storeu_si512(out + r * ldo + 16 * v, sum[r][v]);
}
__attribute__((target("avx512vnni"))) static void tile_32(const fac_tile_rows *t, const int8_t *w, int32_t *out,
                                                          int64_t ldo) {
    tile_columns(t, w, 2, out, ldo);
}
__attribute__((target("avx512vnni"))) static void tile_16(const fac_tile_rows *t, const int8_t *w, int32_t *out,
                                                          int64_t ldo) {
    tile_columns(t, w, 1, out, ldo);
}
#endif

#if FAC_ISA_LEVEL < 2 || PAIRS
/* Sums of the products of two 16-bit numbers in each lane. */
#if FAC_ISA_LEVEL >= 1
enum { BYTES = 32 };
#define PRODUCTS(a, b) (words) _mm256_madd_epi16((__m256i)(a), (__m256i)(b))
#elif FAC_ISA_X86
enum { BYTES = 16 };
#define PRODUCTS(a, b) (words) _mm_madd_epi16((__m128i)(a), (__m128i)(b))
#else
enum { BYTES = 16 };
#define PRODUCTS(a, b) (((words)(a) << 16 >> 16) * ((words)(b) << 16 >> 16) + ((words)(a) >> 16) * ((words)(b) >> 16))
#endif
typedef int32_t words __attribute__((vector_size(BYTES)));
typedef int16_t halves __attribute__((vector_size(BYTES)));
typedef uint16_t unsigned_halves __attribute__((vector_size(BYTES)));

/* Rows r and r + 1 with BYTES / 2 columns from `w` on, of a panel of `width`: even codes and weights make one product of pairs, odd ones
   the other. */
static void tile_pairs(const fac_tile_rows *t, int r, const int8_t *w, int64_t width, int32_t *out, int64_t ldo) {
    words sum[2][2] = {0};
    for (int64_t tap = 0; tap < t->taps; tap++) {
        const int64_t begin = t->offsets[tap], end = begin + t->depth;
        for (int64_t i = begin; i < end; i += 4, w += width * 4) {
            halves even[2], odd[2];
            for (int v = 0; v < 2; v++) {
                halves all;
                memcpy(&all, w + BYTES * v, sizeof all);
                even[v] = (halves)((unsigned_halves)all << 8) >> 8, odd[v] = all >> 8;
            }
            for (int row = 0; row < 2; row++) {
                const unsigned_halves x = (unsigned_halves)(four(t, r + row, i) - (words){0}), xe = x & 255,
                                      xo = x >> 8;
                for (int v = 0; v < 2; v++) sum[row][v] += PRODUCTS(xe, even[v]) + PRODUCTS(xo, odd[v]);
            }
        }
    }
    for (int i = 0; i < 4; i++) memcpy(out + i / 2 * ldo + i % 2 * (BYTES / 4), &sum[i / 2][i % 2], BYTES);
}
#endif

void FAC_ISA_NAME(fac__tile_u8s8)(const fac_tile_rows *t, const int8_t *panel, int64_t width, int32_t *out,
                                  int64_t ldo) {
#if FAC_ISA_LEVEL >= 2
    if (__builtin_cpu_supports("avx512vnni")) {
        (width == 32 ? tile_32 : tile_16)(t, panel, out, ldo);
        return;
    }
#endif
#if FAC_ISA_LEVEL < 2 || PAIRS
    for (int r = 0; r < FAC_TILE_ROWS; r += 2)
        for (int64_t j = 0; j < width; j += BYTES / 2) tile_pairs(t, r, panel + 4 * j, width, out + r * ldo + j, ldo);
#else
    fac__tile_u8s8_avx2(t, panel, width, out, ldo);
#endif
}

/* Vectors of 32-bit integers, and the sums of four bytes in each of them. */
#if FAC_ISA_LEVEL >= 2
typedef __m512i vi;
#define ADD _mm512_add_epi32
#define SUMS_OF_FOUR(v) _mm512_madd_epi16(_mm512_maddubs_epi16(_mm512_set1_epi8(1), v), _mm512_set1_epi16(1))
#elif FAC_ISA_LEVEL == 1
typedef __m256i vi;
#define ADD _mm256_add_epi32
#define SUMS_OF_FOUR(v) _mm256_madd_epi16(_mm256_maddubs_epi16(_mm256_set1_epi8(1), v), _mm256_set1_epi16(1))
#endif

void FAC_ISA_NAME(fac__pack_i8)(const int8_t *const *rows, int64_t width, int64_t k, int8_t *panel, int32_t *sums) {
    enum { V = FAC_LANES_F32 };
    memset(sums, 0, (size_t)width * sizeof *sums);
    for (int64_t j = 0; j < width; j += V) {
        int64_t i = 0;
        for (; i + 4 * V <= k; i += 4 * V) {
            fac_vf32 v[V];
#pragma GCC unroll 16
            for (int r = 0; r < V; r++) memcpy(&v[r], rows[j + r] + i, sizeof v[r]);
            fac_transpose_f32(v);
#pragma GCC unroll 16
            for (int q = 0; q < V; q++) memcpy(panel + (i + 4 * q) * width + 4 * j, &v[q], sizeof v[q]);
        }
        for (; i < k; i += 4)
            for (int r = 0; r < V; r++) memcpy(panel + i * width + 4 * (j + r), rows[j + r] + i, 4);
#if FAC_ISA_LEVEL >= 1
        vi sum = {0};
        for (i = 0; i < k; i += 4) {
            vi v;
            memcpy(&v, panel + i * width + 4 * j, sizeof v);
            sum = ADD(sum, SUMS_OF_FOUR(v));
        }
        memcpy(sums + j, &sum, sizeof sum);
#else
        for (int r = 0; r < V; r++)
            for (i = 0; i < k; i++) sums[j + r] += rows[j + r][i];
#endif
    }
}

/* ---- finishing ------------------------------------------------------------------------------------------------------------- */

/* Unsigned, so that what overflows on the way to a sum that fits does no harm. */
static inline int32_t corrected(int32_t sum, const fac_columns *c, int64_t j, int32_t x) {
    return (int32_t)((uint32_t)sum - (uint32_t)c->away[j] - (uint32_t)c->w_zero[j] * (uint32_t)x);
}

void FAC_ISA_NAME(fac__requantize)(const int32_t *sum, const fac_columns *c, int64_t first, int64_t n, int32_t x,
                                   uint8_t *out) {
#if FAC_ISA_LEVEL >= 2 /* bounds are whole numbers, so rounding may follow them */
    const __m512 least = _mm512_set1_ps(c->least - c->zero), most = _mm512_set1_ps(c->most - c->zero);
    const __m512i zero = _mm512_set1_epi32((int)c->zero), row = _mm512_set1_epi32(x);
    for (int64_t i = 0; i < n; i += 16) {
        const __mmask16 m = (__mmask16)(n - i >= 16 ? 0xffff : (1 << (n - i)) - 1);
        const int64_t j = first + i;
        __m512i v = _mm512_sub_epi32(_mm512_maskz_loadu_epi32(m, sum + i), _mm512_maskz_loadu_epi32(m, c->away + j));
        if (x) v = _mm512_sub_epi32(v, _mm512_mullo_epi32(_mm512_maskz_loadu_epi32(m, c->w_zero + j), row));
        __m512 r = _mm512_add_ps(_mm512_cvtepi32_ps(v), _mm512_maskz_loadu_ps(m, c->bias + j));
        r = _mm512_mul_ps(r, _mm512_maskz_loadu_ps(m, c->multiplier + j));
        r = _mm512_min_ps(_mm512_max_ps(r, least), most); /* a maximum gives its second operand if one is NaN */
        const __m128i codes = _mm512_cvtepi32_epi8(_mm512_add_epi32(_mm512_cvtps_epi32(r), zero));
        _mm_mask_storeu_epi8(out + i, m, codes);
    }
#else
    const float least = c->least, most = c->most;
    for (int64_t i = 0; i < n; i++) {
        const float v = (float)corrected(sum[i], c, first + i, x);
        float r = rintf((v + c->bias[first + i]) * c->multiplier[first + i]) + c->zero;
        r = r > least ? r : least;
        r = r < most ? r : most;
        out[i] = (uint8_t)(int32_t)r;
    }
#endif
}

void FAC_ISA_NAME(fac__dequantize_sums)(const int32_t *restrict sum, const fac_columns *c, int64_t first, int64_t n,
                                        int32_t x, float *restrict out) {
    const fac_columns at = *c;
    for (int64_t i = 0; i < n; i++)
        out[i] = (float)corrected(sum[i], &at, first + i, x) * at.scale[first + i] + at.bias[first + i];
}

/* ---- bytes ----------------------------------------------------------------------------------------------------------------- */

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

/* What whole squares leave is part of squares that end where the matrix does. */
void FAC_ISA_NAME(fac__transpose_bytes)(uint8_t *dst, int64_t dst_row, const uint8_t *src, int64_t src_row,
                                        int64_t rows, int64_t cols, uint8_t flip) {
    if (rows < 16 || cols < 16) {
        for (int64_t i = 0; i < rows; i++)
            for (int64_t c = 0; c < cols; c++) dst[i * dst_row + c] = src[c * src_row + i] ^ flip;
        return;
    }
    for (int64_t i = 0; i < rows; i += 16) {
        if (i > rows - 16) i = rows - 16;
        for (int64_t j = 0; j < cols; j += 16) {
            if (j > cols - 16) j = cols - 16;
            transpose_16(dst + i * dst_row + j, dst_row, src + j * src_row + i, src_row, flip);
        }
    }
}

void FAC_ISA_NAME(fac__sums_u8)(const uint8_t *x, int64_t n, int64_t k, int64_t ldx, int32_t *out) {
    for (int64_t r = 0; r < n; r++, x += ldx) {
#if FAC_ISA_LEVEL >= 2
        __m512i sum = _mm512_setzero_si512();
        for (int64_t i = 0; i < k; i += 64) {
            const __mmask64 m = k - i >= 64 ? ~(__mmask64)0 : ((__mmask64)1 << (k - i)) - 1;
            sum = _mm512_add_epi64(sum, _mm512_sad_epu8(_mm512_maskz_loadu_epi8(m, x + i), _mm512_setzero_si512()));
        }
        out[r] = (int32_t)_mm512_reduce_add_epi64(sum);
#else
        int32_t sum = 0;
        for (int64_t i = 0; i < k; i++) sum += x[i];
        out[r] = sum;
#endif
    }
}

/* Products of 16-bit numbers in lanes of 32 bits, whose upper halves are zero in x. */
void FAC_ISA_NAME(fac__depthwise_dot)(const uint8_t *x, const int64_t *offsets, int64_t taps, const int32_t *w,
                                      int64_t n, int32_t *restrict sums) {
    int64_t c = 0;
#if FAC_ISA_LEVEL >= 1
    for (; c + FAC_LANES_F32 <= n; c += FAC_LANES_F32) {
        vi sum = {0}, v;
        for (int64_t t = 0; t < taps; t++) {
            memcpy(&v, w + t * n + c, sizeof v);
            const __m128i *at = (const __m128i *)(const void *)(x + offsets[t] + c);
#if FAC_ISA_LEVEL >= 2
            sum = ADD(sum, _mm512_madd_epi16(_mm512_cvtepu8_epi32(_mm_loadu_si128(at)), v));
#else
            sum = ADD(sum, _mm256_madd_epi16(_mm256_cvtepu8_epi32(_mm_loadl_epi64(at)), v));
#endif
        }
        memcpy(sums + c, &sum, sizeof sum);
    }
#endif
    for (; c < n; c++) {
        sums[c] = 0;
        for (int64_t t = 0; t < taps; t++) sums[c] += x[offsets[t] + c] * w[t * n + c];
    }
}
