/* Inner loops of resampling. A row is gathered by tables of places and weights, tap by tap, so that neighbouring outputs share a
   vector; points of several channels and sums of rows are plain loops over contiguous elements. Floats are summed in their own
   type; bytes in int32, with weights in units of 2^-shift, and rounded to the nearest. */
#include "backend/cpu/kernels/resample.h"
#include "backend/cpu/kernels/items.h"
#include "backend/cpu/simd.h"

enum { BLOCK = 64 }; /* outputs whose sums are kept in vectors */

/* ---- outputs that show a few vectors' worth of neighbours ------------------------------------------------------------------ */

#if FAC_VECTOR_BYTES >= 32
enum { WINDOW = 2 * FAC_LANES_F32 };

#if FAC_VECTOR_BYTES == 64
typedef __m512i places;
static inline places load_places(const int32_t *at, int32_t base) {
    return _mm512_sub_epi32(_mm512_loadu_si512(at), _mm512_set1_epi32(base));
}
/* Elements k of the two vectors one after the other. */
static inline fac_vf32 choose(fac_vf32 a, fac_vf32 b, places k) {
    return (fac_vf32)_mm512_permutex2var_ps((__m512)a, k, (__m512)b);
}
#else
typedef __m256i places;
static inline places load_places(const int32_t *at, int32_t base) {
    return _mm256_sub_epi32(_mm256_loadu_si256((const __m256i *)(const void *)at), _mm256_set1_epi32(base));
}
static inline fac_vf32 choose(fac_vf32 a, fac_vf32 b, places k) {
    const __m256 low = _mm256_permutevar8x32_ps((__m256)a, k), high = _mm256_permutevar8x32_ps((__m256)b, k);
    const __m256 second = _mm256_castsi256_ps(_mm256_slli_epi32(k, 28)); /* bit 3 says which vector */
    return (fac_vf32)_mm256_blendv_ps(low, high, second);
}
#endif

/* A vector of outputs from i on; false if what they show does not lie within two vectors of the row. */
static inline bool sum_window(const fac_row_taps *m, int64_t i, const float *in, float *out) {
    const int32_t *at = m->at + i;
    const float *w = (const float *)m->weight + i;
    int64_t base = at[0] > m->slack ? at[0] - m->slack : 0;
    const int64_t end = at[(m->taps - 1) * m->n + FAC_LANES_F32 - 1] + m->slack;
    if (base > m->columns - WINDOW) base = m->columns - WINDOW;
    if (base < 0 || end >= base + WINDOW) return false;
    const fac_vf32 a = fac_load_f32(in + base), b = fac_load_f32(in + base + FAC_LANES_F32);
    fac_vf32 sum = choose(a, b, load_places(at, (int32_t)base)) * fac_load_f32(w);
    for (int64_t t = 1; t < m->taps; t++)
        sum += choose(a, b, load_places(at + t * m->n, (int32_t)base)) * fac_load_f32(w + t * m->n);
    fac_store_f32(out, sum);
    return true;
}
#endif

#if FAC_ISA_LEVEL >= 2
/* The same of doubles. */
static inline bool sum_window_f64(const fac_row_taps *m, int64_t i, const double *in, double *out) {
    const int32_t *at = m->at + i;
    const double *w = (const double *)m->weight + i;
    int64_t base = at[0] > m->slack ? at[0] - m->slack : 0;
    const int64_t end = at[(m->taps - 1) * m->n + FAC_LANES_F64 - 1] + m->slack;
    if (base > m->columns - 2 * FAC_LANES_F64) base = m->columns - 2 * FAC_LANES_F64;
    if (base < 0 || end >= base + 2 * FAC_LANES_F64) return false;
    const __m512d a = _mm512_loadu_pd(in + base), b = _mm512_loadu_pd(in + base + FAC_LANES_F64);
    const __m256i first = _mm256_set1_epi32((int32_t)base);
    fac_vf64 sum = {0};
    for (int64_t t = 0; t < m->taps; t++) {
        const __m256i place = _mm256_sub_epi32(_mm256_loadu_si256((const void *)(at + t * m->n)), first);
        const fac_vf64 v = (fac_vf64)_mm512_permutex2var_pd(a, _mm512_cvtepi32_epi64(place), b);
        const fac_vf64 part = v * fac_load_f64(w + t * m->n);
        sum = t == 0 ? part : sum + part;
    }
    fac_store_f64(out, sum);
    return true;
}
#endif

/* ---- floats -------------------------------------------------------------------------------------------------------------- */

/* Outputs [begin, begin + n) of a row, n at most BLOCK. */
#define SPAN(SUF, T)                                                                                                 \
    static void span_##SUF(const fac_row_taps *m, int64_t begin, int64_t n, const T *restrict in, T *restrict out) { \
        const T *restrict w = (const T *)m->weight + begin;                                                          \
        const int32_t *restrict at = m->at + begin;                                                                  \
        const int64_t next = m->n;                                                                                   \
        T sum[BLOCK];                                                                                                \
        if (m->taps == 2) {                                                                                          \
            for (int64_t i = 0; i < n; i++) out[i] = w[i] * in[at[i]] + w[next + i] * in[at[next + i]];              \
            return;                                                                                                  \
        }                                                                                                            \
        for (int64_t i = 0; i < n; i++) sum[i] = w[i] * in[at[i]];                                                   \
        for (int64_t t = 1; t < m->taps; t++)                                                                        \
            for (int64_t i = 0; i < n; i++) sum[i] += w[t * next + i] * in[at[t * next + i]];                        \
        memcpy(out, sum, (size_t)n * sizeof(T));                                                                     \
    }
SPAN(f32, float)
SPAN(f64, double)

static void row_f32(const fac_row_taps *m, int shift, const void *from, void *to) {
    const float *in = from;
    float *out = to;
    (void)shift;
#if FAC_VECTOR_BYTES >= 32
    for (int64_t i = 0; i < m->n; i += FAC_LANES_F32) {
        const int64_t n = m->n - i < FAC_LANES_F32 ? m->n - i : FAC_LANES_F32;
        if (n < FAC_LANES_F32 || !sum_window(m, i, in, out + i)) span_f32(m, i, n, in, out + i);
    }
#else
    for (int64_t i = 0; i < m->n; i += BLOCK) span_f32(m, i, m->n - i < BLOCK ? m->n - i : BLOCK, in, out + i);
#endif
}

static void row_f64(const fac_row_taps *m, int shift, const void *from, void *to) {
    const double *in = from;
    double *out = to;
    (void)shift;
#if FAC_ISA_LEVEL >= 2
    for (int64_t i = 0; i < m->n; i += FAC_LANES_F64) {
        const int64_t n = m->n - i < FAC_LANES_F64 ? m->n - i : FAC_LANES_F64;
        if (n < FAC_LANES_F64 || !sum_window_f64(m, i, in, out + i)) span_f64(m, i, n, in, out + i);
    }
#else
    for (int64_t i = 0; i < m->n; i += BLOCK) span_f64(m, i, m->n - i < BLOCK ? m->n - i : BLOCK, in, out + i);
#endif
}

#define FLOAT_LOOPS(SUF, T)                                                                                          \
    static void blend_##SUF(int64_t n, int rows, const void *const *row, const void *weight, bool add, int shift,    \
                            void *to) {                                                                              \
        const T *w = weight, *restrict a = row[0], *restrict b = row[rows > 1], *restrict c = row[rows > 2 ? 2 : 0], \
                *restrict d = row[rows > 3 ? 3 : 0];                                                                 \
        T *restrict out = to;                                                                                        \
        const T wa = w[0], wb = w[rows > 1], wc = w[rows > 2 ? 2 : 0], wd = w[rows > 3 ? 3 : 0];                     \
        (void)shift;                                                                                                 \
        if (add && rows == 1)                                                                                        \
            for (int64_t i = 0; i < n; i++) out[i] += wa * a[i];                                                     \
        else if (add && rows == 2)                                                                                   \
            for (int64_t i = 0; i < n; i++) out[i] += wa * a[i] + wb * b[i];                                         \
        else if (add && rows == 3)                                                                                   \
            for (int64_t i = 0; i < n; i++) out[i] += wa * a[i] + wb * b[i] + wc * c[i];                             \
        else if (add)                                                                                                \
            for (int64_t i = 0; i < n; i++) out[i] += wa * a[i] + wb * b[i] + wc * c[i] + wd * d[i];                 \
        else if (rows == 1)                                                                                          \
            for (int64_t i = 0; i < n; i++) out[i] = wa * a[i];                                                      \
        else if (rows == 2)                                                                                          \
            for (int64_t i = 0; i < n; i++) out[i] = wa * a[i] + wb * b[i];                                          \
        else if (rows == 3)                                                                                          \
            for (int64_t i = 0; i < n; i++) out[i] = wa * a[i] + wb * b[i] + wc * c[i];                              \
        else                                                                                                         \
            for (int64_t i = 0; i < n; i++) out[i] = wa * a[i] + wb * b[i] + wc * c[i] + wd * d[i];                  \
        if (rows > 4) blend_##SUF(n, rows - 4, row + 4, w + 4, true, shift, to);                                     \
    }                                                                                                                \
    static void points_##SUF(const fac_point_taps *m, int shift, const void *from, void *to) {                       \
        const T *in = from, *weight = m->weight;                                                                     \
        T *out = to;                                                                                                 \
        for (int64_t i = 0; i < m->n; i++)                                                                           \
            for (int64_t t = 0; t < m->count[i]; t += 4) {                                                           \
                const void *row[4];                                                                                  \
                const int rows = m->count[i] - t < 4 ? (int)(m->count[i] - t) : 4;                                   \
                for (int k = 0; k < rows; k++) row[k] = in + (m->start[i] + t + k) * m->inner;                       \
                blend_##SUF(m->inner, rows, row, weight + i * m->taps + t, t > 0, shift, out + i * m->inner);        \
            }                                                                                                        \
    }

FLOAT_LOOPS(f32, float)
FLOAT_LOOPS(f64, double)

/* ---- bytes ------------------------------------------------------------------------------------------------------------------ */

static uint8_t byte_of(int32_t sum, int shift) {
    const int32_t v = sum >> shift;
    return (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v);
}

static void row_u8(const fac_row_taps *m, int shift, const void *from, void *to) {
    const uint8_t *restrict in = from;
    uint8_t *restrict out = to;
    for (int64_t i = 0; i < m->n; i += BLOCK) {
        int32_t sum[BLOCK];
        const int64_t n = m->n - i < BLOCK ? m->n - i : BLOCK;
        for (int64_t k = 0; k < n; k++) sum[k] = 1 << (shift - 1);
        for (int64_t t = 0; t < m->taps; t++) {
            const int32_t *restrict w = (const int32_t *)m->weight + t * m->n + i, *restrict at = m->at + t * m->n + i;
            for (int64_t k = 0; k < n; k++) sum[k] += w[k] * in[at[k]];
        }
        for (int64_t k = 0; k < n; k++) out[i + k] = byte_of(sum[k], shift);
    }
}

static void blend_u8(int64_t n, int rows, const void *const *row, const void *weight, bool add, int shift, void *to) {
    const int32_t *w = weight;
    uint8_t *restrict out = to;
    (void)add;
    for (int64_t i = 0; i < n; i += BLOCK) {
        int32_t sum[BLOCK];
        const int64_t m = n - i < BLOCK ? n - i : BLOCK;
        for (int64_t k = 0; k < m; k++) sum[k] = 1 << (shift - 1);
        for (int r = 0; r < rows; r++) {
            const uint8_t *restrict in = (const uint8_t *)row[r] + i;
            const int32_t one = w[r];
            for (int64_t k = 0; k < m; k++) sum[k] += one * in[k];
        }
        for (int64_t k = 0; k < m; k++) out[i + k] = byte_of(sum[k], shift);
    }
}

static void points_u8(const fac_point_taps *m, int shift, const void *from, void *to) {
    const uint8_t *in = from;
    uint8_t *out = to;
    for (int64_t i = 0; i < m->n; i++)
        for (int64_t c = 0; c < m->inner; c++) {
            int32_t sum = 1 << (shift - 1);
            for (int64_t t = 0; t < m->count[i]; t++)
                sum += ((const int32_t *)m->weight)[i * m->taps + t] * in[(m->start[i] + t) * m->inner + c];
            out[i * m->inner + c] = byte_of(sum, shift);
        }
}

const fac_resample_loops FAC_ISA_NAME(fac__resample_loops)[FAC_RESAMPLE_TYPES] = {
    [FAC_RESAMPLE_F32] = {row_f32, points_f32, blend_f32},
    [FAC_RESAMPLE_F64] = {row_f64, points_f64, blend_f64},
    [FAC_RESAMPLE_U8] = {row_u8, points_u8, blend_u8}};

void FAC_ISA_NAME(fac__resample_pick)(size_t item, int64_t n, const int32_t *at, const void *in, void *out) {
#define PICK(T) \
    for (int64_t i = 0; i < n; i++) ((T *)out)[i] = ((const T *)in)[at[i]]
    FAC_ITEM_SWITCH(item, PICK)
#undef PICK
}
