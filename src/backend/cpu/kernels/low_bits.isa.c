/* Codes become float32 in registers. Sums run in several vectors of lanes, whose number the instruction set decides, and meet at the end.
   The sixteen weights of a group of 4-bit codes are a table, which a permutation looks up. */
#include "backend/cpu/kernels/low_bits.h"
#include "backend/cpu/simd.h"
#include "core/scalar.h"
#include <math.h>

enum { V = FAC_LANES_F32, AT_ONCE = 4 };

/* ---- 8 bits ------------------------------------------------------------------------------------------------------------- */

/* Written out where it matters: compilers convert such vectors number by number. */
static inline fac_vf32 load_codes(const int8_t *w) {
#if FAC_ISA_LEVEL >= 2
    return (fac_vf32)_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)(const void *)w)));
#elif FAC_ISA_LEVEL == 1
    return (fac_vf32)_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)w)));
#else
    fac_vf32 v;
    for (int i = 0; i < V; i++) v[i] = (float)w[i];
    return v;
#endif
}

/* One row of x, in AT_ONCE sums. */
static float dot_one(const float *x, const int8_t *w, int64_t k) {
    fac_vf32 sum[AT_ONCE] = {{0}};
    int64_t i = 0;
    for (; i + AT_ONCE * V <= k; i += AT_ONCE * V)
        for (int u = 0; u < AT_ONCE; u++)
            sum[u] = fac_fma_f32(load_codes(w + i + u * V), fac_load_f32(x + i + u * V), sum[u]);
    for (; i + V <= k; i += V) sum[0] = fac_fma_f32(load_codes(w + i), fac_load_f32(x + i), sum[0]);
    float rest = fac_sum_f32((sum[0] + sum[1]) + (sum[2] + sum[3]));
    for (; i < k; i++) rest = fac_fma1_f32((float)w[i], x[i], rest);
    return rest;
}

void FAC_ISA_NAME(fac__dot_i8)(const float *x, int64_t ldx, int64_t rows, const int8_t *w, int64_t k, float *out) {
    for (int64_t r = 0; r < rows; r++) out[r] = dot_one(x + r * ldx, w, k);
}

/* ---- 4 bits ------------------------------------------------------------------------------------------------------------- */

/* The weights that the sixteen codes stand for. */
static inline void table_of(const float *numbers, float *table) {
    for (int q = 0; q < 16; q++) table[q] = (float)(q - 8) * numbers[0] + numbers[1];
}

static inline float column(const fac_row4 *w, const float *x, int64_t at) {
    return w->narrow ? fac__bf16_to_f32(((const uint16_t *)(const void *)x)[at]) : x[at];
}

/* Of any group; the two codes of a byte may lie in two. */
static float dot_slow(const fac_row4 *w, const float *x) {
    const int64_t half = w->k / 2;
    float sum = 0, table[16];
    int64_t have = -1;
    for (int64_t i = 0; i < w->k; i++) {
        if (i / w->group != have) table_of(w->numbers + (have = i / w->group) * 2, table);
        const float value = table[w->bytes[i / 2] >> (i % 2 * 4) & 15];
        sum = fac_fma1_f32(value, column(w, x, i % 2 * half + i / 2), sum);
    }
    return sum;
}

static void unpack_slow(const fac_row4 *w, float *out) {
    float table[16];
    int64_t have = -1;
    for (int64_t i = 0; i < w->k; i++) {
        if (i / w->group != have) table_of(w->numbers + (have = i / w->group) * 2, table);
        out[i] = table[w->bytes[i / 2] >> (i % 2 * 4) & 15];
    }
}

#if FAC_ISA_LEVEL >= 2
enum { PAIRS = 16 }; /* bytes that are looked up at a time */

static inline __m512 code_values(void) {
    return _mm512_setr_ps(-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7);
}
static inline __m512 vector_table(const float *numbers) {
    return _mm512_add_ps(_mm512_mul_ps(code_values(), _mm512_set1_ps(numbers[0])), _mm512_set1_ps(numbers[1]));
}

/* The weights of the even and of the odd columns of PAIRS bytes; a permutation looks at the low four bits of an index only. */
static inline void look_up_pairs(const uint8_t *bytes, __m512 table, __m512 *even, __m512 *odd) {
    const __m512i code = _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(const void *)bytes));
    *even = _mm512_permutexvar_ps(code, table);
    *odd = _mm512_permutexvar_ps(_mm512_srli_epi32(code, 4), table);
}

/* What the weights of groups have in common, times the sums of their columns. */
static __attribute__((noinline)) __m512 start_row(const fac_row4 *w, const float *sums) {
    const int64_t count = w->k / w->group * 2;
    __m512 sum = _mm512_setzero_ps();
    for (int64_t i = 0; i < count; i += 16) {
        const __mmask16 m = (__mmask16)(count - i >= 16 ? 0xffff : (1 << (count - i)) - 1);
        sum = _mm512_fmadd_ps(_mm512_maskz_loadu_ps(m, w->numbers + i), _mm512_maskz_loadu_ps(m, sums + i), sum);
    }
    return sum;
}

/* A group's sum of codes is scaled as a whole. `rows` is a constant where this is inlined. */
__attribute__((always_inline)) static inline void dot_rows(const fac_row4 *w, const float *x, int64_t ldx, int rows,
                                                           float *out) {
    const int64_t half = w->k / 2, pairs = w->group / 2;
    const __m512 codes = code_values();
    __m512 sum[AT_ONCE];
    for (int r = 0; r < rows; r++) sum[r] = start_row(w, x + r * ldx + w->k);
    const float *scale = w->numbers;
    for (int64_t begin = 0; begin < half; begin += pairs, scale += 2) {
        __m512 part[AT_ONCE];
        for (int r = 0; r < rows; r++) part[r] = _mm512_setzero_ps();
        for (int64_t i = begin; i < begin + pairs; i += PAIRS) {
            __m512 even, odd;
            look_up_pairs(w->bytes + i, codes, &even, &odd);
            for (int r = 0; r < rows; r++) {
                part[r] = _mm512_fmadd_ps(even, _mm512_loadu_ps(x + r * ldx + i), part[r]);
                part[r] = _mm512_fmadd_ps(odd, _mm512_loadu_ps(x + r * ldx + half + i), part[r]);
            }
        }
        for (int r = 0; r < rows; r++) sum[r] = _mm512_fmadd_ps(part[r], _mm512_set1_ps(*scale), sum[r]);
    }
    for (int r = 0; r < rows; r++) out[r] = _mm512_reduce_add_ps(sum[r]);
}

/* The same of bf16, 64 columns at a time: whole groups, or two, which are the halves of vectors. A permutation of 16-bit numbers looks at
   the low five bits of an index. */
__attribute__((target("avx512bf16"), always_inline)) static inline void dot_narrow(const fac_row4 *w, const float *x,
                                                                                   int64_t ldx, int rows, float *out) {
    const int64_t half = w->k / 2, step = w->group == 32 ? 32 : w->group / 2;
    const __m512i table = (__m512i)_mm512_cvtne2ps_pbh(code_values(), code_values());
    const __m512i of_scale = _mm512_setr_epi32(0, 0, 0, 0, 0, 0, 0, 0, 2, 2, 2, 2, 2, 2, 2, 2);
    const float *numbers = w->numbers;
    __m512 sum[AT_ONCE];
    for (int r = 0; r < rows; r++) sum[r] = start_row(w, x + r * ldx + half);
    for (int64_t begin = 0; begin < half; begin += step) {
        __m512 part[AT_ONCE], scale = _mm512_set1_ps(*numbers);
        if (w->group == 32) scale = _mm512_permutexvar_ps(of_scale, _mm512_castps128_ps512(_mm_loadu_ps(numbers)));
        numbers += w->group == 32 ? 4 : 2;
        for (int r = 0; r < rows; r++) part[r] = _mm512_setzero_ps();
        for (int64_t i = begin; i < begin + step; i += 32) {
            const __m512i code =
                _mm512_cvtepu8_epi16(_mm256_loadu_si256((const __m256i *)(const void *)(w->bytes + i)));
            const __m512bh even = (__m512bh)_mm512_permutexvar_epi16(code, table),
                           odd = (__m512bh)_mm512_permutexvar_epi16(_mm512_srli_epi16(code, 4), table);
            for (int r = 0; r < rows; r++) {
                const uint16_t *at = (const uint16_t *)(const void *)(x + r * ldx) + i;
                part[r] = _mm512_dpbf16_ps(part[r], (__m512bh)_mm512_loadu_si512(at), even);
                part[r] = _mm512_dpbf16_ps(part[r], (__m512bh)_mm512_loadu_si512(at + half), odd);
            }
        }
        for (int r = 0; r < rows; r++) sum[r] = _mm512_fmadd_ps(part[r], scale, sum[r]);
    }
    for (int r = 0; r < rows; r++) out[r] = _mm512_reduce_add_ps(sum[r]);
}

__attribute__((target("avx512bf16"))) static void dot_all_narrow(const fac_row4 *w, const float *x, int64_t ldx,
                                                                 int64_t rows, float *out) {
    int64_t r = 0;
    for (; r + AT_ONCE <= rows; r += AT_ONCE) dot_narrow(w, x + r * ldx, ldx, AT_ONCE, out + r);
    for (; r < rows; r++) dot_narrow(w, x + r * ldx, ldx, 1, out + r);
}

/* False, and nothing is done, of groups that are no whole vectors. What is infinite or NaN among the operands, or too large for a group's
   sum, makes a sum infinite or NaN, and not always the one that weights would give which are made one by one. */
static bool dot_fast(const fac_row4 *w, const float *x, int64_t ldx, int64_t rows, float *out) {
    int64_t r = 0;
    if (w->narrow) {
        dot_all_narrow(w, x, ldx, rows, out);
        return true;
    }
    if (w->group % (2 * PAIRS)) return false;
    for (; r + AT_ONCE <= rows; r += AT_ONCE) dot_rows(w, x + r * ldx, ldx, AT_ONCE, out + r);
    for (; r < rows; r++) dot_rows(w, x + r * ldx, ldx, 1, out + r);
    return true;
}

static void unpack_fast(const fac_row4 *w, float *out) {
    const __m512i low = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23),
                  high = _mm512_setr_epi32(8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
    const int64_t half = w->k / 2, pairs = w->group / 2;
    const float *numbers = w->numbers;
    for (int64_t begin = 0; begin < half; begin += pairs, numbers += 2) {
        const __m512 table = vector_table(numbers);
        for (int64_t i = begin; i < begin + pairs; i += PAIRS) {
            __m512 even, odd;
            look_up_pairs(w->bytes + i, table, &even, &odd);
            _mm512_storeu_ps(out + 2 * i, _mm512_permutex2var_ps(even, low, odd));
            _mm512_storeu_ps(out + 2 * i + 16, _mm512_permutex2var_ps(even, high, odd));
        }
    }
}
#endif

void FAC_ISA_NAME(fac__dot_i4)(const fac_row4 *w, const float *x, int64_t ldx, int64_t rows, float *out) {
#if FAC_ISA_LEVEL >= 2
    if (dot_fast(w, x, ldx, rows, out)) {
        for (int64_t r = 0; r < rows; r++)
            if (!isfinite(out[r])) out[r] = dot_slow(w, x + r * ldx);
        return;
    }
#endif
    for (int64_t r = 0; r < rows; r++) out[r] = dot_slow(w, x + r * ldx);
}

void FAC_ISA_NAME(fac__unpack_i4)(const fac_row4 *w, float *out) {
#if FAC_ISA_LEVEL >= 2
    if (w->group % (2 * PAIRS) == 0) {
        unpack_fast(w, out);
        return;
    }
#endif
    unpack_slow(w, out);
}

/* ---- rows of a table ------------------------------------------------------------------------------------------------------- */

#if FAC_ISA_LEVEL >= 2
static inline void look_up_some(const uint8_t *row, __mmask16 some, __m512 scale, __m512 least, float *out) {
    const __m512i codes = _mm512_cvtepu8_epi32(_mm_maskz_loadu_epi8(some, row));
    _mm512_mask_storeu_ps(out, some, _mm512_add_ps(_mm512_mul_ps(_mm512_cvtepi32_ps(codes), scale), least));
}
#endif

static inline void look_up_8(const uint8_t *restrict row, int64_t n, float *restrict out) {
    float pair[2];
    memcpy(pair, row + n, sizeof pair);
    int64_t i = 0;
#if FAC_ISA_LEVEL >= 2
    const __m512 scale = _mm512_set1_ps(pair[0]), least = _mm512_set1_ps(pair[1]);
    for (; i + V <= n; i += V) look_up_some(row + i, 0xffff, scale, least, out + i);
    if (i < n) look_up_some(row + i, (__mmask16)((1u << (n - i)) - 1), scale, least, out + i);
#else
    for (; i < n; i++) out[i] = (float)row[i] * pair[0] + pair[1];
#endif
}

/* Of float16. */
static inline float number_at(const uint8_t *at) {
    uint16_t half;
    memcpy(&half, at, sizeof half);
#if FAC_ISA_LEVEL >= 1
    return _cvtsh_ss(half);
#else
    return fac__f16_to_f32(half);
#endif
}

static inline void look_up_4(const uint8_t *restrict row, int64_t n, float *restrict out) {
    const float scale = number_at(row + n / 2), least = number_at(row + n / 2 + 2);
    int64_t i = 0;
#if FAC_ISA_LEVEL >= 2
    const __m512i low = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23),
                  high = _mm512_setr_epi32(8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
    const __m512 codes = _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    const __m512 values = _mm512_add_ps(_mm512_mul_ps(codes, _mm512_set1_ps(scale)), _mm512_set1_ps(least));
    for (; i < n; i += 2 * PAIRS) {
        const uint32_t some = n - i < 2 * PAIRS ? (1u << (n - i)) - 1 : ~0u;
        const __m512i code = _mm512_cvtepu8_epi32(
            _mm_maskz_loadu_epi8((__mmask16)(n - i < 2 * PAIRS ? (1 << (n - i) / 2) - 1 : 0xffff), row + i / 2));
        const __m512 even = _mm512_permutexvar_ps(code, values),
                     odd = _mm512_permutexvar_ps(_mm512_srli_epi32(code, 4), values);
        _mm512_mask_storeu_ps(out + i, (__mmask16)some, _mm512_permutex2var_ps(even, low, odd));
        if (some >> 16)
            _mm512_mask_storeu_ps(out + i + 16, (__mmask16)(some >> 16), _mm512_permutex2var_ps(even, high, odd));
    }
#else
    for (; i < n; i++) out[i] = (float)(row[i / 2] >> (i % 2 * 4) & 15) * scale + least;
#endif
}

bool FAC_ISA_NAME(fac__code_rows_within)(const fac_rows_of_codes *r, int64_t n, int64_t rows) {
    const int64_t *wide = r->indices;
    const int32_t *narrow = r->indices;
    uint64_t outside = 0;
    for (int64_t i = 0; r->wide && i < n; i++) outside |= (uint64_t)wide[i] | ((uint64_t)rows - 1 - (uint64_t)wide[i]);
    for (int64_t i = 0; !r->wide && i < n; i++)
        outside |= (uint64_t)narrow[i] | ((uint64_t)rows - 1 - (uint64_t)narrow[i]);
    return !(outside >> 63);
}

/* The rows of indices to come are fetched meanwhile. */
static inline const uint8_t *row_ahead(const fac_rows_of_codes *r, int64_t i, int64_t end) {
    enum { AHEAD = 8 };
    if (i + AHEAD < end) {
        const uint8_t *later = r->table + fac__code_row(r, i + AHEAD) * r->bytes;
        __builtin_prefetch(later);
        __builtin_prefetch(later + r->bytes - 1);
    }
    return r->table + fac__code_row(r, i) * r->bytes;
}

void FAC_ISA_NAME(fac__look_up_8)(const fac_rows_of_codes *r, int64_t begin, int64_t end, float *out) {
    for (int64_t i = begin; i < end; i++, out += r->n) look_up_8(row_ahead(r, i, end), r->n, out);
}
void FAC_ISA_NAME(fac__look_up_4)(const fac_rows_of_codes *r, int64_t begin, int64_t end, float *out) {
    for (int64_t i = begin; i < end; i++, out += r->n) look_up_4(row_ahead(r, i, end), r->n, out);
}
