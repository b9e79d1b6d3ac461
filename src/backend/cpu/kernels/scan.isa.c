/* An element waits for the one before it, so that several go side by side: eight of a sum, whose own is found apart, one each of four
   lines, or with AVX-512 sixteen of a line's running extremes. */
#include "backend/cpu/kernels/scan.h"
#include "backend/cpu/simd.h"

typedef uint64_t eight __attribute__((vector_size(64), aligned(8)));

int64_t FAC_ISA_NAME(fac__prefix_sum_i64)(const int64_t *x, int64_t *out, int64_t n, int64_t before) {
    const eight none = {0};
    uint64_t sum = (uint64_t)before;
    int64_t i = 0;
    for (; i + 8 <= n; i += 8) {
        eight v = *(const eight *)(const void *)(x + i);
        v += __builtin_shufflevector(none, v, 0, 8, 9, 10, 11, 12, 13, 14);
        v += __builtin_shufflevector(none, v, 0, 0, 8, 9, 10, 11, 12, 13);
        v += __builtin_shufflevector(none, v, 0, 0, 0, 0, 8, 9, 10, 11);
        *(eight *)(void *)(out + i) = v + sum;
        sum += v[7];
    }
    for (; i < n; i++) out[i] = (int64_t)(sum += (uint64_t)x[i]);
    return (int64_t)sum;
}

#if FAC_ISA_LEVEL >= 2
/* Lanes move up by k, and -inf (inf) in. */
#define UP(v, fill, k) \
    _mm512_castsi512_ps(_mm512_alignr_epi32(_mm512_castps_si512(v), _mm512_castps_si512(fill), 16 - (k)))

static inline __m512 further(bool larger, __m512 a, __m512 b) {
    return larger ? _mm512_max_ps(a, b) : _mm512_min_ps(a, b);
}

/* One element after the other, where there are NaNs. */
static void extreme_each(bool larger, const float *x, float *out, int64_t *at, int64_t begin, int64_t end, float *best,
                         int64_t *place) {
    for (int64_t i = begin; i < end; i++) {
        const float v = x[i];
        if (v != v || (*best == *best && (larger ? v >= *best : v <= *best))) *best = v, *place = i;
        out[i] = *best;
        at[i] = *place;
    }
}

/* An element is the latest extreme if it equals the extreme of all up to it; each lane takes the highest such lane that is not above
   itself, whose number is the exponent of the flags up to its own. */
static inline __attribute__((always_inline)) void extreme_line(bool larger, const float *x, float *out, int64_t *at,
                                                               int64_t n) {
    const float worst = larger ? -__builtin_inff() : __builtin_inff();
    const __m512 fill = _mm512_set1_ps(worst);
    const __m512i up_to = _mm512_set_epi32(0xffff, 0x7fff, 0x3fff, 0x1fff, 0xfff, 0x7ff, 0x3ff, 0x1ff, 0xff, 0x7f, 0x3f,
                                           0x1f, 0xf, 7, 3, 1),
                  last = _mm512_set1_epi32(15);
    float best = worst;
    int64_t place = 0;
    for (int64_t i = 0; i < n; i += 16) {
        const int64_t m = n - i < 16 ? n - i : 16;
        const __mmask16 in = (__mmask16)((1u << m) - 1);
        const __m512 v = _mm512_mask_loadu_ps(fill, in, x + i), before = _mm512_set1_ps(best);
        if (_mm512_cmp_ps_mask(v, before, _CMP_UNORD_Q)) {
            extreme_each(larger, x, out, at, i, i + m, &best, &place);
            continue;
        }
        __m512 p = further(larger, v, UP(v, fill, 1));
        p = further(larger, p, UP(p, fill, 2));
        p = further(larger, p, UP(p, fill, 4));
        p = further(larger, p, UP(p, fill, 8));
        p = further(larger, p, before);
        const __m512i flags = _mm512_and_si512(_mm512_set1_epi32(_mm512_mask_cmp_ps_mask(in, v, p, _CMP_EQ_OQ)), up_to);
        const __mmask16 found = _mm512_test_epi32_mask(flags, flags);
        const __m512i lane = _mm512_sub_epi32(_mm512_srli_epi32(_mm512_castps_si512(_mm512_cvtepi32_ps(flags)), 23),
                                              _mm512_set1_epi32(127));
        const __m512 value = _mm512_mask_permutexvar_ps(before, found, lane, v);
        const __m512i place_before = _mm512_set1_epi64(place), first = _mm512_set1_epi64(i);
        const __m512i low = _mm512_mask_add_epi64(place_before, (__mmask8)found, first,
                                                  _mm512_cvtepi32_epi64(_mm512_castsi512_si256(lane))),
                      high = _mm512_mask_add_epi64(place_before, (__mmask8)(found >> 8), first,
                                                   _mm512_cvtepi32_epi64(_mm512_extracti64x4_epi64(lane, 1)));
        _mm512_mask_storeu_ps(out + i, in, value);
        _mm512_mask_storeu_epi64(at + i, (__mmask8)in, low);
        _mm512_mask_storeu_epi64(at + i + 8, (__mmask8)(in >> 8), high);
        best = _mm512_cvtss_f32(_mm512_permutexvar_ps(last, value));
        place = _mm_cvtsi128_si64(_mm512_castsi512_si128(_mm512_permutexvar_epi64(_mm512_set1_epi64(7), high)));
    }
}

void FAC_ISA_NAME(fac__extreme_lines_f32)(bool larger, const float *restrict x, int64_t x_line, float *restrict out,
                                          int64_t out_line, int64_t *restrict at, int64_t at_line, int64_t n) {
    for (int l = 0; l < FAC_SCAN_LINES; l++, x += x_line, out += out_line, at += at_line) {
        if (larger)
            extreme_line(true, x, out, at, n);
        else
            extreme_line(false, x, out, at, n);
    }
}
#else
/* Results are put together aside: lines may lie a whole page apart, where a store holds up the next line's load. */
enum { PART = 64 };
typedef struct part {
    float value[FAC_SCAN_LINES][PART];
    int64_t place[FAC_SCAN_LINES][PART];
} part;

#define LINES(NOT_WORSE)                                                       \
    for (int64_t k = 0; k < m; k++)                                            \
        for (int l = 0; l < FAC_SCAN_LINES; l++) {                             \
            const float v = x[l * x_line + i + k];                             \
            const bool take = (v != v) | ((best[l] == best[l]) & (NOT_WORSE)); \
            best[l] = take ? v : best[l];                                      \
            place[l] = take ? i + k : place[l];                                \
            p.value[l][k] = best[l];                                           \
            p.place[l][k] = place[l];                                          \
        }

void FAC_ISA_NAME(fac__extreme_lines_f32)(bool larger, const float *restrict x, int64_t x_line, float *restrict out,
                                          int64_t out_line, int64_t *restrict at, int64_t at_line, int64_t n) {
    float best[FAC_SCAN_LINES];
    int64_t place[FAC_SCAN_LINES] = {0};
    part p;
    for (int l = 0; l < FAC_SCAN_LINES; l++) best[l] = larger ? -__builtin_inff() : __builtin_inff();
    for (int64_t i = 0; i < n; i += PART) {
        const int64_t m = n - i < PART ? n - i : PART;
        if (larger) {
            LINES(v >= best[l])
        } else {
            LINES(v <= best[l])
        }
        for (int l = 0; l < FAC_SCAN_LINES; l++) {
            memcpy(out + l * out_line + i, p.value[l], (size_t)m * sizeof *out);
            memcpy(at + l * at_line + i, p.place[l], (size_t)m * sizeof *at);
        }
    }
}
#endif

/* As many lines as a vector has lanes: squares of them become columns, which are compared one after the other. Where smaller numbers
   win, signs are turned. A square that is not whole is filled with what was there before, which nobody reads. */
typedef int64_t lanes __attribute__((vector_size(FAC_VECTOR_BYTES)));
#define L FAC_LANES_F64
static inline void move(void *to, const void *from, size_t bytes) {
    if (bytes == FAC_VECTOR_BYTES)
        memcpy(to, from, FAC_VECTOR_BYTES);
    else
        memcpy(to, from, bytes);
}

static void extreme_columns(bool larger, const double *x, int64_t x_line, double *out, int64_t out_line, int64_t *at,
                            int64_t at_line, int64_t n) {
    const lanes sign = (lanes){0} + (larger ? 0 : INT64_MIN);
    fac_vf64 best = fac_splat_f64(-__builtin_inf()), v[L] = {{0}}, p[L];
    lanes place = {0};
    for (int64_t i = 0; i < n; i += L) {
        const size_t bytes = (size_t)(n - i < L ? n - i : L) * sizeof *x;
        for (int l = 0; l < L; l++) move(&v[l], x + l * x_line + i, bytes);
        fac_transpose_f64(v);
        for (int k = 0; k < L; k++) {
            const fac_vf64 y = (fac_vf64)((lanes)v[k] ^ sign);
            const lanes take = (y != y) | ((best == best) & (y >= best));
            best = (fac_vf64)((take & (lanes)y) | (~take & (lanes)best));
            place = (take & (i + k)) | (~take & place);
            v[k] = (fac_vf64)((lanes)best ^ sign);
            p[k] = (fac_vf64)place;
        }
        fac_transpose_f64(v);
        fac_transpose_f64(p);
        for (int l = 0; l < L; l++) {
            move(out + l * out_line + i, &v[l], bytes);
            move(at + l * at_line + i, &p[l], bytes);
        }
    }
}

void FAC_ISA_NAME(fac__extreme_lines_f64)(bool larger, const double *x, int64_t x_line, double *out, int64_t out_line,
                                          int64_t *at, int64_t at_line, int64_t n) {
    for (int l = 0; l < FAC_SCAN_LINES_F64; l += L)
        extreme_columns(larger, x + l * x_line, x_line, out + l * out_line, out_line, at + l * at_line, at_line, n);
}
