/* Radix sort, least digit first. While a digit is distributed the next one is counted; digits that all keys share are
   skipped. Short rows are sorted by insertion. The first k of n are kept in a heap if they are few, else found
   digit by digit, the highest first. No input takes more than O(n) for each digit. */
#include "backend/cpu/kernels/order.h"

#define SHORT_ROW 40  /* insertion sort up to here */
#define LONG_ROW 4096 /* wide digits from here on */
#define MAX_DIGIT_BITS 11
#define FEW 32 /* a heap serves for k up to n / FEW */
#define KEY_TILE 512

/* ---- keys ------------------------------------------------------------------------------------------------------------------ */

int fac__key_bits(fac_dtype d) { return fac_dtype_is_complex(d) ? 0 : 8 * (int)fac__dtype_size(d); }

/* Floats of `bits` bits: the sign decides whether all bits or only the sign are inverted; NaN is the largest. */
static inline uint64_t float_key(uint64_t x, int bits, uint64_t infinity) {
    const uint64_t sign = (uint64_t)1 << (bits - 1), all = sign | (sign - 1);
    if ((x & (sign - 1)) > infinity) return all;
    if (x == sign) x = 0;
    return x & sign ? ~x & all : x | sign;
}

#define KEYS(T, expr)                     \
    do {                                  \
        const T *s = src;                 \
        for (int64_t i = 0; i < n; i++) { \
            const T x = s[i * stride];    \
            out[i] = (expr);              \
        }                                 \
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

uint64_t fac__nan_key(fac_dtype d) { return fac_dtype_is_floating(d) ? ~(uint64_t)0 >> (64 - fac__key_bits(d)) : 0; }

/* ---- scratch ------------------------------------------------------------------------------------------------------------------ */

fac_status fac__order_plan(fac_order *o, fac_dtype d, int64_t n, bool descending) {
    int bits = fac__key_bits(d);
    FAC_CHECK(bits, FAC_ERR_DTYPE, "sorting is not supported for %s, which has no order", fac_dtype_name(d));
    *o = (fac_order){.dtype = d, .n = n, .descending = descending, .packed = bits <= 32 && n <= UINT32_MAX};
    int64_t entry = o->packed ? (int64_t)sizeof *o->words : (int64_t)sizeof *o->pairs;
    FAC_CHECK(fac__mul(n, 2 * entry, &o->bytes), FAC_ERR_OVERFLOW, "a row of %lld elements is too long to be sorted",
              (long long)n);
    o->bytes = fac__max(o->bytes, 1);
    return FAC_OK;
}

void fac__order_use(fac_order *o, void *scratch) {
    if (o->packed)
        o->words = scratch, o->words2 = o->words + o->n;
    else
        o->pairs = scratch, o->pairs2 = o->pairs + o->n;
}

void fac__order_load(fac_order *o, const void *src, int64_t stride) {
    const uint64_t flip = o->descending ? ~(uint64_t)0 >> (64 - fac__key_bits(o->dtype)) : 0;
    const int64_t step = stride * fac__dtype_size(o->dtype);
    uint64_t keys[KEY_TILE];
    for (int64_t b = 0; b < o->n; b += KEY_TILE) {
        const int64_t m = fac__min(KEY_TILE, o->n - b);
        fac__keys(o->dtype, (const char *)src + b * step, stride, m, keys);
        if (o->packed)
            for (int64_t i = 0; i < m; i++) o->words[b + i] = (keys[i] ^ flip) << 32 | (uint64_t)(b + i);
        else
            for (int64_t i = 0; i < m; i++) o->pairs[b + i] = (fac_ranked){keys[i] ^ flip, b + i};
    }
}

/* ---- the two kinds of entries ----------------------------------------------------------------------------------------------------- */

static inline bool word_less(uint64_t a, uint64_t b) { return a < b; }
static inline uint64_t word_key(uint64_t a) { return a >> 32; }
static inline bool pair_less(fac_ranked a, fac_ranked b) { return a.key < b.key || (a.key == b.key && a.at < b.at); }
static inline uint64_t pair_key(fac_ranked a) { return a.key; }

/* Turns counts into where each group begins. */
static void starts_of(int64_t *count, uint64_t mask) {
    int64_t sum = 0;
    for (uint64_t v = 0; v <= mask; v++) {
        const int64_t c = count[v];
        count[v] = sum;
        sum += c;
    }
}

/* Defines, for entries T: insertion_<name>; radix_<name>, which leaves the sorted row in *a and the scratch row in *b;
   few_<name> and split_<name>, which put the k smallest of n first; and what chooses between them. */
#define ORDER_OF(name, T)                                                                                                     \
    static void insertion_##name(T *v, int64_t n) {                                                                           \
        for (int64_t i = 1; i < n; i++) {                                                                                     \
            const T x = v[i];                                                                                                 \
            int64_t at = i;                                                                                                   \
            for (; at > 0 && name##_less(x, v[at - 1]); at--) v[at] = v[at - 1];                                              \
            v[at] = x;                                                                                                        \
        }                                                                                                                     \
    }                                                                                                                         \
    static void count_##name(const T *v, int64_t n, int shift, uint64_t mask, int64_t *count) {                               \
        for (int64_t i = 0; i < n; i++) count[name##_key(v[i]) >> shift & mask]++;                                            \
    }                                                                                                                         \
    static void distribute_##name(const T *from, T *to, int64_t n, int shift, int digit, uint64_t mask, int64_t *next,        \
                                  int64_t *count) {                                                                           \
        for (int64_t i = 0; i < n; i++) {                                                                                     \
            const T x = from[i];                                                                                              \
            const uint64_t key = name##_key(x) >> shift;                                                                      \
            to[next[key & mask]++] = x;                                                                                       \
            count[key >> digit & mask]++;                                                                                     \
        }                                                                                                                     \
    }                                                                                                                         \
    static void radix_##name(T **a, T **b, int64_t n, int bits) {                                                             \
        const int digit = n >= LONG_ROW ? MAX_DIGIT_BITS : 8;                                                                 \
        const uint64_t mask = ((uint64_t)1 << digit) - 1;                                                                     \
        int64_t tables[2][1 << MAX_DIGIT_BITS], *now = tables[0], *later = tables[1];                                         \
        memset(now, 0, (size_t)(mask + 1) * sizeof *now);                                                                     \
        count_##name(*a, n, 0, mask, now);                                                                                    \
        for (int shift = 0; shift < bits; shift += digit) {                                                                   \
            memset(later, 0, (size_t)(mask + 1) * sizeof *later);                                                             \
            if (now[name##_key((*a)[0]) >> shift & mask] == n) {                                                              \
                if (shift + digit < bits) count_##name(*a, n, shift + digit, mask, later);                                    \
            } else {                                                                                                          \
                starts_of(now, mask);                                                                                         \
                distribute_##name(*a, *b, n, shift, digit, mask, now, later);                                                 \
                T *t = *a;                                                                                                    \
                *a = *b;                                                                                                      \
                *b = t;                                                                                                       \
            }                                                                                                                 \
            int64_t *t = now;                                                                                                 \
            now = later;                                                                                                      \
            later = t;                                                                                                        \
        }                                                                                                                     \
    }                                                                                                                         \
    /* Restores the heap (largest first) of k entries after its top was replaced. */                                          \
    static void sift_##name(T *heap, int64_t k, int64_t i) {                                                                  \
        const T x = heap[i];                                                                                                  \
        for (int64_t child; (child = 2 * i + 1) < k; i = child) {                                                             \
            if (child + 1 < k && name##_less(heap[child], heap[child + 1])) child++;                                          \
            if (!name##_less(x, heap[child])) break;                                                                          \
            heap[i] = heap[child];                                                                                            \
        }                                                                                                                     \
        heap[i] = x;                                                                                                          \
    }                                                                                                                         \
    static void few_##name(T *v, int64_t n, int64_t k) {                                                                      \
        for (int64_t i = k / 2; i-- > 0;) sift_##name(v, k, i);                                                               \
        for (int64_t i = k; i < n && k > 0; i++) {                                                                            \
            if (name##_key(v[i]) >= name##_key(v[0])) continue; /* of equals the earlier is there */                          \
            const T t = v[0];                                                                                                 \
            v[0] = v[i];                                                                                                      \
            v[i] = t;                                                                                                         \
            sift_##name(v, k, 0);                                                                                             \
        }                                                                                                                     \
    }                                                                                                                         \
    /* Puts the k smallest of n first, in any order, and returns the k-th; the others are lost. Of the highest digit in */    \
    /* which keys differ, only entries of the k-th's value are looked at further, in `other`. They stay in order: of equal */ \
    /* keys position decides. */                                                                                              \
    static T split_##name(T *v, T *other, int64_t n, int64_t k) {                                                             \
        int64_t count[1 << MAX_DIGIT_BITS], done = 0; /* entries at v that are less than those looked at */                   \
        T *from = v;                                                                                                          \
        while (n > 1) {                                                                                                       \
            const uint64_t first = name##_key(from[0]);                                                                       \
            uint64_t differ = 0, at = 0;                                                                                      \
            for (int64_t i = 1; i < n; i++) differ |= name##_key(from[i]) ^ first;                                            \
            if (!differ) break;                                                                                               \
            const int digit = n >= LONG_ROW ? MAX_DIGIT_BITS : n > SHORT_ROW ? 8 : 4;                                         \
            const int top = 64 - __builtin_clzll(differ), shift = top > digit ? top - digit : 0;                              \
            const uint64_t mask = ((uint64_t)1 << digit) - 1;                                                                 \
            memset(count, 0, (size_t)(mask + 1) * sizeof *count);                                                             \
            count_##name(from, n, shift, mask, count);                                                                        \
            for (int64_t below = done; k > below + count[at]; at++) below += count[at];                                       \
            int64_t m = 0;                                                                                                    \
            for (int64_t i = 0; i < n; i++) {                                                                                 \
                const T x = from[i];                                                                                          \
                const uint64_t above = (name##_key(x) >> shift & mask) - at; /* no branch */                                  \
                v[done] = x;                                                                                                  \
                other[m] = x;                                                                                                 \
                m += above == 0;                                                                                              \
                done += (int64_t)(above >> 63);                                                                               \
            }                                                                                                                 \
            from = other;                                                                                                     \
            n = m;                                                                                                            \
        }                                                                                                                     \
        if (from == other) memcpy(v + done, other, (size_t)(k - done) * sizeof *v);                                           \
        return v[k - 1];                                                                                                      \
    }                                                                                                                         \
    static void sort_##name(T **a, T **b, int64_t n, int bits) {                                                              \
        if (n <= SHORT_ROW)                                                                                                   \
            insertion_##name(*a, n);                                                                                          \
        else                                                                                                                  \
            radix_##name(a, b, n, bits);                                                                                      \
    }                                                                                                                         \
    /* The k-th smallest. */                                                                                                  \
    static T nth_##name(T *v, T *other, int64_t n, int64_t k) {                                                               \
        if (k > n / FEW) return split_##name(v, other, n, k);                                                                 \
        few_##name(v, n, k);                                                                                                  \
        return v[0];                                                                                                          \
    }                                                                                                                         \
    static void first_##name(T **a, T **b, int64_t n, int64_t k, int bits) {                                                  \
        if (n <= SHORT_ROW || 2 * k > n) {                                                                                    \
            sort_##name(a, b, n, bits);                                                                                       \
            return;                                                                                                           \
        }                                                                                                                     \
        if (k <= n / FEW) {                                                                                                   \
            few_##name(*a, n, k);                                                                                             \
            for (int64_t m = k; m-- > 1;) {                                                                                   \
                const T t = (*a)[0];                                                                                          \
                (*a)[0] = (*a)[m];                                                                                            \
                (*a)[m] = t;                                                                                                  \
                sift_##name(*a, m, 0);                                                                                        \
            }                                                                                                                 \
            return;                                                                                                           \
        }                                                                                                                     \
        split_##name(*a, *b, n, k);                                                                                           \
        T *x = *a, *y = *b;                                                                                                   \
        sort_##name(&x, &y, k, bits);                                                                                         \
        if (x != *a) memcpy(*a, x, (size_t)k * sizeof **a);                                                                   \
    }
ORDER_OF(word, uint64_t)
ORDER_OF(pair, fac_ranked)

void fac__order_sort(fac_order *o) {
    if (o->packed)
        sort_word(&o->words, &o->words2, o->n, fac__key_bits(o->dtype));
    else
        sort_pair(&o->pairs, &o->pairs2, o->n, fac__key_bits(o->dtype));
}

void fac__order_first(fac_order *o, int64_t k) {
    if (o->packed)
        first_word(&o->words, &o->words2, o->n, k, fac__key_bits(o->dtype));
    else
        first_pair(&o->pairs, &o->pairs2, o->n, k, fac__key_bits(o->dtype));
}

int64_t fac__order_nth(fac_order *o, int64_t k) {
    if (o->packed) return (int64_t)(uint32_t)nth_word(o->words, o->words2, o->n, k);
    return nth_pair(o->pairs, o->pairs2, o->n, k).at;
}
