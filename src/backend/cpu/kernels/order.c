/* Radix sort, least digit first: one pass over the row counts every digit, digits that all keys share are skipped. Short
   rows are sorted by insertion. The first k of n are found by quickselect, which falls back on sorting when its pivots
   are unlucky, so that no input takes more than O(n log n). */
#include "backend/cpu/kernels/order.h"

#define SHORT_ROW 40      /* insertion sort up to here */
#define LONG_ROW 4096     /* wide digits from here on */
#define MAX_DIGIT_BITS 11
#define MAX_PASSES 8

/* ---- keys ------------------------------------------------------------------------------------------------------------------ */

int fac__key_bits(fac_dtype d) { return fac_dtype_is_complex(d) ? 0 : 8 * (int)fac_dtype_size(d); }

/* Floats of `bits` bits: the sign decides whether all bits or only the sign are inverted; NaN is the largest. */
static inline uint64_t float_key(uint64_t x, int bits, uint64_t infinity) {
    const uint64_t sign = (uint64_t)1 << (bits - 1), all = sign | (sign - 1);
    if ((x & (sign - 1)) > infinity) return all;
    if (x == sign) x = 0;
    return x & sign ? ~x & all : x | sign;
}

#define KEYS(T, expr)                                                                                                  \
    do {                                                                                                               \
        const T *s = src;                                                                                              \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            const T x = s[i * stride];                                                                                 \
            out[i] = (expr);                                                                                           \
        }                                                                                                              \
    } while (0)

void fac__keys(fac_dtype d, const void *src, int64_t stride, int64_t n, uint64_t *out) {
    typedef uint32_t __attribute__((may_alias)) bits32;
    typedef uint64_t __attribute__((may_alias)) bits64;
    switch (d) {
    case FAC_BOOL: KEYS(uint8_t, x != 0); break;
    case FAC_U8: KEYS(uint8_t, x); break;
    case FAC_I8: KEYS(uint8_t, x ^ 0x80u); break;
    case FAC_I16: KEYS(uint16_t, x ^ 0x8000u); break;
    case FAC_I32: KEYS(bits32, x ^ 0x80000000u); break;
    case FAC_I64: KEYS(bits64, x ^ (uint64_t)1 << 63); break;
    case FAC_F16: KEYS(uint16_t, float_key(x, 16, 0x7c00)); break;
    case FAC_BF16: KEYS(uint16_t, float_key(x, 16, 0x7f80)); break;
    case FAC_F32: KEYS(bits32, float_key(x, 32, 0x7f800000)); break;
    default: KEYS(bits64, float_key(x, 64, 0x7ff0000000000000)); break;
    }
}

/* ---- memory ------------------------------------------------------------------------------------------------------------------- */

fac_status fac__order_begin(fac_order *o, fac_dtype d, int64_t n, bool descending) {
    int bits = fac__key_bits(d);
    FAC_CHECK(bits, FAC_ERR_DTYPE, "sorting is not supported for %s, which has no order", fac_dtype_name(d));
    *o = (fac_order){.dtype = d, .n = n, .descending = descending, .packed = bits <= 32 && n <= UINT32_MAX};
    size_t m = (size_t)n;
    o->keys = fac__alloc_array(m, sizeof *o->keys);
    if (o->packed) {
        o->words = fac__alloc_array(m, sizeof *o->words);
        o->words2 = fac__alloc_array(m, sizeof *o->words2);
    } else {
        o->pairs = fac__alloc_array(m, sizeof *o->pairs);
        o->pairs2 = fac__alloc_array(m, sizeof *o->pairs2);
    }
    if (o->keys && (o->packed ? o->words && o->words2 : o->pairs && o->pairs2)) return FAC_OK;
    fac__order_end(o);
    return fac_error();
}

void fac__order_end(fac_order *o) {
    fac__free(o->keys);
    fac__free(o->words);
    fac__free(o->words2);
    fac__free(o->pairs);
    fac__free(o->pairs2);
}

void fac__order_load(fac_order *o, const void *src, int64_t stride) {
    const int bits = fac__key_bits(o->dtype);
    const uint64_t flip = o->descending ? ~(uint64_t)0 >> (64 - bits) : 0;
    fac__keys(o->dtype, src, stride, o->n, o->keys);
    if (o->packed)
        for (int64_t i = 0; i < o->n; i++) o->words[i] = (o->keys[i] ^ flip) << 32 | (uint64_t)i;
    else
        for (int64_t i = 0; i < o->n; i++) o->pairs[i] = (fac_ranked){o->keys[i] ^ flip, i};
}

/* ---- the two kinds of entries ----------------------------------------------------------------------------------------------------- */

static inline bool word_less(uint64_t a, uint64_t b) { return a < b; }
static inline uint64_t word_key(uint64_t a) { return a >> 32; }
static inline bool pair_less(fac_ranked a, fac_ranked b) { return a.key < b.key || (a.key == b.key && a.at < b.at); }
static inline uint64_t pair_key(fac_ranked a) { return a.key; }

/* Defines, for entries T: insertion_<name>; radix_<name>, which leaves the sorted row in *a and the scratch row in *b; and
   select_<name>, which puts the k smallest of n first and returns false if it ran out of patience. */
#define ORDER_OF(name, T)                                                                                              \
    static void insertion_##name(T *v, int64_t n) {                                                                    \
        for (int64_t i = 1; i < n; i++) {                                                                              \
            const T x = v[i];                                                                                          \
            int64_t at = i;                                                                                            \
            for (; at > 0 && name##_less(x, v[at - 1]); at--) v[at] = v[at - 1];                                       \
            v[at] = x;                                                                                                 \
        }                                                                                                              \
    }                                                                                                                  \
    static void scatter_##name(const T *from, T *to, int64_t n, int shift, uint64_t mask, int64_t *next) {             \
        for (int64_t i = 0; i < n; i++) to[next[name##_key(from[i]) >> shift & mask]++] = from[i];                     \
    }                                                                                                                  \
    static void radix_##name(T **a, T **b, int64_t n, int bits) {                                                      \
        const int digit = n >= LONG_ROW ? MAX_DIGIT_BITS : 8, passes = (bits + digit - 1) / digit;                     \
        const uint64_t mask = ((uint64_t)1 << digit) - 1;                                                              \
        int64_t count[MAX_PASSES][1 << MAX_DIGIT_BITS];                                                                \
        for (int p = 0; p < passes; p++) memset(count[p], 0, (size_t)(mask + 1) * sizeof **count);                     \
        for (int64_t i = 0; i < n; i++)                                                                                \
            for (int p = 0; p < passes; p++) count[p][name##_key((*a)[i]) >> (p * digit) & mask]++;                    \
        for (int p = 0; p < passes; p++) {                                                                             \
            if (count[p][name##_key((*a)[0]) >> (p * digit) & mask] == n) continue;                                    \
            int64_t sum = 0;                                                                                           \
            for (uint64_t v = 0; v <= mask; v++) {                                                                     \
                const int64_t c = count[p][v];                                                                         \
                count[p][v] = sum;                                                                                     \
                sum += c;                                                                                              \
            }                                                                                                          \
            scatter_##name(*a, *b, n, p * digit, mask, count[p]);                                                      \
            T *t = *a;                                                                                                 \
            *a = *b;                                                                                                   \
            *b = t;                                                                                                    \
        }                                                                                                              \
    }                                                                                                                  \
    static T median_##name(T a, T b, T c) {                                                                            \
        if (name##_less(b, a)) return name##_less(c, b) ? b : name##_less(c, a) ? c : a;                               \
        return name##_less(c, a) ? a : name##_less(c, b) ? c : b;                                                      \
    }                                                                                                                  \
    static bool select_##name(T *v, int64_t n, int64_t k) {                                                            \
        int patience = 4 * (64 - __builtin_clzll((uint64_t)n | 1));                                                    \
        for (int64_t low = 0, high = n - 1; low < high;) {                                                             \
            if (patience-- == 0) return false;                                                                         \
            const T pivot = median_##name(v[low], v[low + (high - low) / 2], v[high]);                                 \
            int64_t i = low, j = high;                                                                                 \
            while (i <= j) {                                                                                           \
                while (name##_less(v[i], pivot)) i++;                                                                  \
                while (name##_less(pivot, v[j])) j--;                                                                  \
                if (i > j) break;                                                                                      \
                const T t = v[i];                                                                                      \
                v[i++] = v[j];                                                                                         \
                v[j--] = t;                                                                                            \
            }                                                                                                          \
            if (k <= j + 1) high = j;                                                                                  \
            else if (k >= i) low = i;                                                                                  \
            else break;                                                                                                \
        }                                                                                                              \
        return true;                                                                                                   \
    }                                                                                                                  \
    static void sort_##name(T **a, T **b, int64_t n, int bits) {                                                       \
        if (n <= SHORT_ROW) insertion_##name(*a, n);                                                                   \
        else radix_##name(a, b, n, bits);                                                                              \
    }                                                                                                                  \
    /* Sorts the first k after they were selected: they are moved to the scratch row's place if the passes were odd. */ \
    static void first_##name(T **a, T **b, int64_t n, int64_t k, int bits) {                                           \
        if (n <= SHORT_ROW || 2 * k > n || !select_##name(*a, n, k)) {                                                 \
            sort_##name(a, b, n, bits);                                                                                \
            return;                                                                                                    \
        }                                                                                                              \
        T *x = *a, *y = *b;                                                                                            \
        sort_##name(&x, &y, k, bits);                                                                                  \
        if (x != *a) memcpy(*a, x, (size_t)k * sizeof **a);                                                            \
    }
ORDER_OF(word, uint64_t)
ORDER_OF(pair, fac_ranked)

void fac__order_sort(fac_order *o) {
    if (o->packed) sort_word(&o->words, &o->words2, o->n, fac__key_bits(o->dtype));
    else sort_pair(&o->pairs, &o->pairs2, o->n, fac__key_bits(o->dtype));
}

void fac__order_first(fac_order *o, int64_t k) {
    if (o->packed) first_word(&o->words, &o->words2, o->n, k, fac__key_bits(o->dtype));
    else first_pair(&o->pairs, &o->pairs2, o->n, k, fac__key_bits(o->dtype));
}
