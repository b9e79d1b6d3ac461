/* Keys of elements, and what is looked for among them. */
#include "backend/cpu/kernels/order.h"
#include "backend/cpu/simd.h"

#define WIDEN(T)                                                                         \
    if (stride == 1)                                                                     \
        for (int64_t i = 0; i < n; i++) out[i] = (uint64_t)((const T *)src)[i];          \
    else                                                                                 \
        for (int64_t i = 0; i < n; i++) out[i] = (uint64_t)((const T *)src)[i * stride]; \
    break

static void widen(size_t item, const void *restrict src, int64_t stride, int64_t n, uint64_t *restrict out) {
    typedef uint32_t __attribute__((may_alias)) bits32;
    typedef uint64_t __attribute__((may_alias)) bits64;
    switch (item) {
    case 1: WIDEN(uint8_t);
    case 2: WIDEN(uint16_t);
    case 4: WIDEN(bits32);
    default: WIDEN(bits64);
    }
}

/* Of floats the sign decides whether all bits or only the sign are inverted; NaN is the largest. */
static void float_keys(uint64_t sign, uint64_t infinity, uint64_t flip, int64_t n, uint64_t *keys) {
    const uint64_t all = sign | (sign - 1);
    for (int64_t i = 0; i < n; i++) {
        const uint64_t x = keys[i], key = x & sign ? ~x & all : x | sign;
        keys[i] = ((x & (sign - 1)) > infinity ? all : x == sign ? sign : key) ^ flip;
    }
}

void FAC_ISA_NAME(fac__keys)(fac_dtype d, const void *restrict src, int64_t stride, int64_t n, uint64_t flip,
                             uint64_t *restrict out) {
    const size_t item = (size_t)fac__dtype_size(d);
    const uint64_t sign = (uint64_t)1 << (8 * item - 1);
    widen(item, src, stride, n, out);
    if (fac_dtype_is_floating(d)) {
        const uint64_t infinity = d == FAC_F16    ? 0x7c00
                                  : d == FAC_BF16 ? 0x7f80
                                  : d == FAC_F32  ? 0x7f800000
                                                  : 0x7ff0000000000000;
        float_keys(sign, infinity, flip, n, out);
        return;
    }
    for (int64_t i = 0; d == FAC_BOOL && i < n; i++) out[i] = out[i] != 0;
    const uint64_t turned = flip ^ (d == FAC_BOOL || d == FAC_U8 ? 0 : sign);
    for (int64_t i = 0; turned && i < n; i++) out[i] ^= turned;
}

bool FAC_ISA_NAME(fac__keys_below)(const uint64_t *keys, int64_t n, uint64_t limit) {
    uint64_t below = 0;
    for (int64_t i = 0; i < n; i++) below |= (uint64_t)(keys[i] < limit);
    return below != 0;
}

void FAC_ISA_NAME(fac__ranks)(const uint64_t (*restrict keys)[FAC_RANKED_ROWS], int64_t n,
                              uint64_t (*restrict ranks)[FAC_RANKED_ROWS]) {
    memset(ranks, 0, (size_t)n * sizeof *ranks);
    for (int64_t i = 1; i < n; i++) {
        uint64_t rank[FAC_RANKED_ROWS] = {0};
        for (int64_t k = 0; k < i; k++)
            for (int r = 0; r < FAC_RANKED_ROWS; r++) {
                const uint64_t after = keys[k][r] <= keys[i][r];
                rank[r] += after;
                ranks[k][r] += 1 - after;
            }
        memcpy(ranks[i], rank, sizeof rank);
    }
}

/* ---- the k-th of keys ------------------------------------------------------------------------------------------------------- */

/* Keys are narrowed down between two that a sample gives, whose places in order are likely to be just below and above the k-th's, until
   few are left. Samples of unlucky rows say little: after some rounds what is left is halved by value. */
enum { FEW_KEYS = 64, LUCKY_ROUNDS = 12 };

int64_t FAC_ISA_NAME(fac__keys_equal)(const uint64_t *keys, int64_t n, uint64_t key) {
    uint64_t equal = 0;
    for (int64_t i = 0; i < n; i++) equal += (uint64_t)(keys[i] == key);
    return (int64_t)equal;
}

int64_t FAC_ISA_NAME(fac__key_at)(const uint64_t *keys, int64_t n, uint64_t key, int64_t among) {
    enum { BLOCK = 256 };
    int64_t at = 0, equal;
    for (; n - at > BLOCK; at += BLOCK, among -= equal) {
        equal = FAC_ISA_NAME(fac__keys_equal)(keys + at, BLOCK, key);
        if (equal >= among) break;
    }
    while (keys[at] != key || --among > 0) at++;
    return at;
}

/* Writes those of n keys that lie in [from, from + width), and returns how many. `out` may be the keys' own memory. */
static int64_t keys_within(const uint64_t *keys, int64_t n, uint64_t from, uint64_t width, uint64_t *out) {
    int64_t kept = 0, i = 0;
#if FAC_ISA_LEVEL >= 2
    const __m512i first = _mm512_set1_epi64((int64_t)from), wide = _mm512_set1_epi64((int64_t)width);
    for (; i + 8 <= n; i += 8) {
        const __m512i v = _mm512_loadu_si512(keys + i);
        const __mmask8 in = _mm512_cmplt_epu64_mask(_mm512_sub_epi64(v, first), wide);
        _mm512_storeu_si512(out + kept, _mm512_maskz_compress_epi64(in, v)); /* not beyond what is read */
        kept += __builtin_popcount(in);
    }
#endif
    for (; i < n; i++) {
        const uint64_t key = keys[i];
        out[kept] = key;
        kept += key - from < width;
    }
    return kept;
}

/* Of few keys. */
static uint64_t kth_of_few(const uint64_t *keys, int64_t n, int64_t k, int64_t *among) {
    for (int64_t i = 0; i < n; i++) {
        const uint64_t key = keys[i];
        uint64_t less = 0, most = 0;
        for (int64_t j = 0; j < n; j++) less += (uint64_t)(keys[j] < key), most += (uint64_t)(keys[j] <= key);
        *among = k - (int64_t)less;
        if ((int64_t)less < k && k <= (int64_t)most) return key;
    }
    return 0;
}

/* Two keys of a sample, or the ends of what keys may be, around the k-th of n. */
static void bounds_of(const uint64_t *keys, int64_t n, int64_t k, uint64_t *low, uint64_t *high) {
    enum { SAMPLE = FEW_KEYS, OFF = 8 };
    uint64_t sample[SAMPLE];
    int64_t among;
    const int64_t place = (int64_t)((double)k / (double)n * SAMPLE);
    for (int64_t i = 0; i < SAMPLE; i++) sample[i] = keys[(int64_t)((double)i / SAMPLE * (double)n)];
    *low = place > OFF ? kth_of_few(sample, SAMPLE, place - OFF, &among) : 0;
    *high = place + OFF <= SAMPLE ? kth_of_few(sample, SAMPLE, place + OFF, &among) : UINT64_MAX;
}
static void halves_of(const uint64_t *keys, int64_t n, uint64_t *low, uint64_t *high) {
    uint64_t least = UINT64_MAX, most = 0;
    for (int64_t i = 0; i < n; i++) least = keys[i] < least ? keys[i] : least, most = keys[i] > most ? keys[i] : most;
    *low = *high = least + (most - least) / 2;
}

uint64_t FAC_ISA_NAME(fac__kth_key)(const uint64_t *keys, int64_t n, int64_t k, uint64_t *room, int64_t *among) {
    for (int round = 0; n > FEW_KEYS; round++, keys = room) {
        uint64_t low, high, below = 0, to_low = 0, to_high = 0, past = 0;
        if (round < LUCKY_ROUNDS)
            bounds_of(keys, n, k, &low, &high);
        else
            halves_of(keys, n, &low, &high);
        for (int64_t i = 0; i < n; i++) {
            below += (uint64_t)(keys[i] < low), to_low += (uint64_t)(keys[i] <= low);
            to_high += (uint64_t)(keys[i] < high), past += (uint64_t)(keys[i] <= high);
        }
        const int64_t before[] = {0, (int64_t)below, (int64_t)to_low, (int64_t)to_high, (int64_t)past};
        if (k <= before[1]) {
            n = keys_within(keys, n, 0, low, room);
        } else if (k <= before[2]) {
            *among = k - before[1];
            return low;
        } else if (k <= before[3]) {
            n = keys_within(keys, n, low + 1, high - low - 1, room);
            k -= before[2];
        } else if (k <= before[4]) {
            *among = k - before[3];
            return high;
        } else {
            n = keys_within(keys, n, high + 1, ~high, room);
            k -= before[4];
        }
    }
    return kth_of_few(keys, n, k, among);
}

/* ---- runs of equal neighbours ---------------------------------------------------------------------------------------------- */

/* Whole vectors of elements that begin runs are put side by side in registers: from element *i on, as long as there are vectors. */
#if FAC_ISA_LEVEL >= 2
#define GATHER_RUNS(NAME, T, L, MASK, V, LOAD, DIFFER, COMPRESS, STORE)                   \
    static inline int64_t NAME(const T *v, int64_t n, T *out, int64_t runs, int64_t *i) { \
        for (; *i + (L) <= n; *i += (L)) {                                                \
            const V a = LOAD(v + *i);                                                     \
            const MASK begins = DIFFER(a, LOAD(v + *i - 1));                              \
            const int many = __builtin_popcount(begins);                                  \
            STORE(out + runs, (MASK)((1u << many) - 1), COMPRESS(begins, a));             \
            runs += many;                                                                 \
        }                                                                                 \
        return runs;                                                                      \
    }
#define NEQ_PS(a, b) _mm512_cmp_ps_mask(a, b, _CMP_NEQ_UQ)
#define NEQ_PD(a, b) _mm512_cmp_pd_mask(a, b, _CMP_NEQ_UQ)
GATHER_RUNS(gather_u32, uint32_t, 16, __mmask16, __m512i, _mm512_loadu_si512, _mm512_cmpneq_epi32_mask,
            _mm512_maskz_compress_epi32, _mm512_mask_storeu_epi32)
GATHER_RUNS(gather_u64, uint64_t, 8, __mmask8, __m512i, _mm512_loadu_si512, _mm512_cmpneq_epi64_mask,
            _mm512_maskz_compress_epi64, _mm512_mask_storeu_epi64)
GATHER_RUNS(gather_f32, float, 16, __mmask16, __m512, _mm512_loadu_ps, NEQ_PS, _mm512_maskz_compress_ps,
            _mm512_mask_storeu_ps)
GATHER_RUNS(gather_f64, double, 8, __mmask8, __m512d, _mm512_loadu_pd, NEQ_PD, _mm512_maskz_compress_pd,
            _mm512_mask_storeu_pd)
#else
#define gather_u32(v, n, out, runs, i) (runs)
#define gather_u64(v, n, out, runs, i) (runs)
#define gather_f32(v, n, out, runs, i) (runs)
#define gather_f64(v, n, out, runs, i) (runs)
#endif
#if FAC_ISA_LEVEL < 2
#define gather_u8(v, n, out, runs, i) (runs)
#define gather_u16(v, n, out, runs, i) (runs)
#endif

/* Without branches: whether a run goes on is not to be foretold. The first writes nothing, and the second ends with the last run. */
#define RUNS(S, T)                                                                                                \
    static int64_t runs_##S(const T *restrict v, int64_t n, T *restrict out, int64_t *inverse, int64_t *counts) { \
        int64_t all = n > 0, runs = 1, at = 1, before = 0;                                                        \
        for (int64_t i = 1; i < n; i++) all += v[i] != v[i - 1];                                                  \
        if (!out || n == 0) return all;                                                                           \
        out[0] = v[0];                                                                                            \
        runs = gather_##S(v, n, out, runs, &at);                                                                  \
        for (int64_t i = at; runs < all; i++) {                                                                   \
            out[runs] = v[i];                                                                                     \
            runs += v[i] != v[i - 1];                                                                             \
        }                                                                                                         \
        runs = 0;                                                                                                 \
        if (inverse) inverse[0] = 0;                                                                              \
        for (int64_t i = 1; inverse && i < n; i++) inverse[i] = runs += v[i] != v[i - 1];                         \
        for (int64_t i = 1, k = 0; counts && i <= n; i++) {                                                       \
            if (i < n && v[i] == v[i - 1]) continue;                                                              \
            counts[k++] = i - before;                                                                             \
            before = i;                                                                                           \
        }                                                                                                         \
        return all;                                                                                               \
    }
#if FAC_ISA_LEVEL < 2
RUNS(u8, uint8_t)
RUNS(u16, uint16_t)
#endif
RUNS(u32, uint32_t)
RUNS(u64, uint64_t)
RUNS(f32, float)
RUNS(f64, double)

int64_t FAC_ISA_NAME(fac__runs)(fac_dtype d, const void *data, int64_t n, void *values, int64_t *inverse,
                                int64_t *counts) {
    switch (d) {
    case FAC_F32: return runs_f32(data, n, values, inverse, counts);
    case FAC_F64: return runs_f64(data, n, values, inverse, counts);
    case FAC_I64: return runs_u64(data, n, values, inverse, counts);
    case FAC_I32: return runs_u32(data, n, values, inverse, counts);
#if FAC_ISA_LEVEL < 2
    case FAC_I16: return runs_u16(data, n, values, inverse, counts);
    default: return runs_u8(data, n, values, inverse, counts);
#else /* which gain nothing by wider vectors */
    default: return fac__runs_avx2(d, data, n, values, inverse, counts);
#endif
    }
}

void FAC_ISA_NAME(fac__places)(const uint64_t *keys, int64_t n, const uint64_t *values, int64_t *at) {
    const uint64_t *from[FAC_SEARCHES], *then;
#pragma GCC unroll 8
    for (int k = 0; k < FAC_SEARCHES; k++) from[k] = keys;
    while (n > 1) {
        const int64_t half = n / 2;
#pragma GCC unroll 8
        for (int k = 0; k < FAC_SEARCHES; k++) {
            then = from[k] + half;
            from[k] = then[-1] < values[k] ? then : from[k];
        }
        n -= half;
    }
#pragma GCC unroll 8
    for (int k = 0; k < FAC_SEARCHES; k++) at[k] = from[k] - keys + (n && *from[k] < values[k]);
}
