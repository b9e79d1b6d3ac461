/* Radix sort, least digit first. While a digit is distributed the next one is counted; digits that all keys share are
   skipped. Short rows are sorted by insertion. The first k of n are kept in a heap if they are few, else found
   digit by digit, the highest first. Of keys of 64 bits the 32 highest in which any two differ are ordered first; then those in which
   these are equal. No input takes more than O(n) for each digit. */
#include "backend/cpu/kernels/order.h"

#define SHORT_ROW 40  /* insertion sort up to here */
#define LONG_ROW 4096 /* wide digits from here on */
#define MAX_DIGIT_BITS 11
#define FEW 32 /* a heap serves for k up to n / FEW */
#define KEY_TILE 512

/* ---- keys ------------------------------------------------------------------------------------------------------------------ */

int fac__key_bits(fac_dtype d) { return fac_dtype_is_complex(d) ? 0 : 8 * (int)fac__dtype_size(d); }

uint64_t fac__nan_key(fac_dtype d) { return fac_dtype_is_floating(d) ? ~(uint64_t)0 >> (64 - fac__key_bits(d)) : 0; }

/* ---- scratch ------------------------------------------------------------------------------------------------------------------ */

fac_status fac__order_plan(fac_order *o, fac_dtype d, int64_t n, bool descending) {
    const int bits = fac__key_bits(d);
    FAC_CHECK(bits, FAC_ERR_DTYPE, "sorting is not supported for %s, which has no order", fac_dtype_name(d));
    *o = (fac_order){.dtype = d, .n = n, .descending = descending, .packed = n <= UINT32_MAX};
    o->wide = o->packed && bits > 32;
    const int64_t entry =
        o->wide ? 3 * (int64_t)sizeof *o->words : 2 * (int64_t)(o->packed ? sizeof *o->words : sizeof *o->pairs);
    FAC_CHECK(fac__mul(n, entry, &o->bytes), FAC_ERR_OVERFLOW, "a row of %lld elements is too long to be sorted",
              (long long)n);
    o->bytes = fac__max(o->bytes, 1);
    return FAC_OK;
}

void fac__order_use(fac_order *o, void *scratch) {
    if (!o->packed) {
        o->pairs = scratch, o->pairs2 = o->pairs + o->n;
        return;
    }
    o->words = scratch, o->words2 = o->words + o->n;
    o->keys = o->wide ? o->words2 + o->n : NULL;
}

static uint64_t flip_of(const fac_order *o) {
    return o->descending ? ~(uint64_t)0 >> (64 - fac__key_bits(o->dtype)) : 0;
}

void fac__order_load(fac_order *o, const void *src, int64_t stride) {
    const uint64_t flip = flip_of(o);
    const int64_t step = stride * fac__dtype_size(o->dtype);
    uint64_t room[KEY_TILE], differ = 0, first = 0;
    for (int64_t b = 0; b < o->n; b += KEY_TILE) {
        const int64_t m = fac__min(KEY_TILE, o->n - b);
        uint64_t *keys = o->wide ? o->keys + b : room;
        FAC_ISA_PICK(fac__keys)(o->dtype, (const char *)src + b * step, stride, m, flip, keys);
        if (b == 0) first = keys[0];
        for (int64_t i = 0; i < m; i++) differ |= keys[i] ^ first;
        if (o->wide) continue;
        if (o->packed)
            for (int64_t i = 0; i < m; i++) o->words[b + i] = keys[i] << 32 | (uint64_t)(b + i);
        else
            for (int64_t i = 0; i < m; i++) o->pairs[b + i] = (fac_ranked){keys[i], b + i};
    }
    o->shift = o->wide && differ >> 32 ? 32 - __builtin_clzll(differ) : 0;
    o->differ = o->wide ? (uint32_t)(differ >> o->shift) : differ;
    if (o->wide)
        for (int64_t i = 0; i < o->n; i++) o->words[i] = o->keys[i] >> o->shift << 32 | (uint64_t)i;
}

/* ---- the two kinds of entries ----------------------------------------------------------------------------------------------------- */

static inline bool word_less(uint64_t a, uint64_t b) { return a < b; }
static inline uint64_t word_key(uint64_t a) { return a >> 32; }
static inline bool pair_less(fac_ranked a, fac_ranked b) { return a.key < b.key || (a.key == b.key && a.at < b.at); }
static inline uint64_t pair_key(fac_ranked a) { return a.key; }

/* Defines, for entries T, counted in C: insertion_<name>; radix_<name>, which leaves the sorted row in *a and the scratch row in *b;
   split_<name>, which puts the k smallest of n first; and what chooses between them. */
#define ORDER_OF(name, T, C)                                                                                                  \
    /* Turns counts into where each group begins. */                                                                          \
    static void starts_of_##name(C *count, uint64_t mask) {                                                                   \
        C sum = 0;                                                                                                            \
        for (uint64_t v = 0; v <= mask; v++) {                                                                                \
            const C c = count[v];                                                                                             \
            count[v] = sum;                                                                                                   \
            sum += c;                                                                                                         \
        }                                                                                                                     \
    }                                                                                                                         \
    static void insertion_##name(T *v, int64_t n) {                                                                           \
        for (int64_t i = 1; i < n; i++) {                                                                                     \
            const T x = v[i];                                                                                                 \
            int64_t at = i;                                                                                                   \
            for (; at > 0 && name##_less(x, v[at - 1]); at--) v[at] = v[at - 1];                                              \
            v[at] = x;                                                                                                        \
        }                                                                                                                     \
    }                                                                                                                         \
    static void count_##name(const T *v, int64_t n, int shift, uint64_t mask, C *count) {                                     \
        for (int64_t i = 0; i < n; i++) count[name##_key(v[i]) >> shift & mask]++;                                            \
    }                                                                                                                         \
    static void distribute_##name(const T *from, T *to, int64_t n, int shift, int then, uint64_t mask, C *next,               \
                                  C *count) {                                                                                 \
        for (int64_t i = 0; i < n; i++) {                                                                                     \
            const T x = from[i];                                                                                              \
            to[next[name##_key(x) >> shift & mask]++] = x;                                                                    \
            count[name##_key(x) >> then & mask]++;                                                                            \
        }                                                                                                                     \
    }                                                                                                                         \
    /* `differ`: the bits of keys in which any two differ. */                                                                 \
    static void radix_##name(T **a, T **b, int64_t n, uint64_t differ) {                                                      \
        const int digit = n >= LONG_ROW ? MAX_DIGIT_BITS : 8;                                                                 \
        const uint64_t mask = ((uint64_t)1 << digit) - 1;                                                                     \
        C tables[2][1 << MAX_DIGIT_BITS], *now = tables[0], *later = tables[1];                                               \
        if (!differ) return;                                                                                                  \
        int shift = __builtin_ctzll(differ);                                                                                  \
        memset(now, 0, (size_t)(mask + 1) * sizeof *now);                                                                     \
        count_##name(*a, n, shift, mask, now);                                                                                \
        while (differ) {                                                                                                      \
            differ &= ~(mask << shift);                                                                                       \
            const int next = differ ? __builtin_ctzll(differ) : shift;                                                        \
            memset(later, 0, (size_t)(mask + 1) * sizeof *later);                                                             \
            starts_of_##name(now, mask);                                                                                      \
            distribute_##name(*a, *b, n, shift, next, mask, now, later);                                                      \
            T *t = *a;                                                                                                        \
            *a = *b;                                                                                                          \
            *b = t;                                                                                                           \
            C *u = now;                                                                                                       \
            now = later;                                                                                                      \
            later = u;                                                                                                        \
            shift = next;                                                                                                     \
        }                                                                                                                     \
    }                                                                                                                         \
    /* Puts the k smallest of n first, in any order, and returns the k-th; the others are lost. Of the highest digit in */    \
    /* which keys differ, only entries of the k-th's value are looked at further, in `other`. They stay in order: of equal */ \
    /* keys position decides. */                                                                                              \
    static T split_##name(T *v, T *other, int64_t n, int64_t k) {                                                             \
        C count[1 << MAX_DIGIT_BITS];                                                                                         \
        int64_t done = 0; /* entries at v that are less than those looked at */                                               \
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
            for (int64_t below = done; k > below + (int64_t)count[at]; at++) below += (int64_t)count[at];                     \
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
    static void sort_##name(T **a, T **b, int64_t n, uint64_t differ) {                                                       \
        if (n <= SHORT_ROW)                                                                                                   \
            insertion_##name(*a, n);                                                                                          \
        else                                                                                                                  \
            radix_##name(a, b, n, differ);                                                                                    \
    }                                                                                                                         \
    static void first_##name(T **a, T **b, int64_t n, int64_t k, uint64_t differ) {                                           \
        if (n <= SHORT_ROW || 2 * k > n) {                                                                                    \
            sort_##name(a, b, n, differ);                                                                                     \
            return;                                                                                                           \
        }                                                                                                                     \
        split_##name(*a, *b, n, k);                                                                                           \
        T *x = *a, *y = *b;                                                                                                   \
        sort_##name(&x, &y, k, differ);                                                                                       \
        if (x != *a) memcpy(*a, x, (size_t)k * sizeof **a);                                                                   \
    }
ORDER_OF(word, uint64_t, uint32_t)
ORDER_OF(pair, fac_ranked, int64_t)

/* ---- keys of 64 bits: 32 of them are in the words ------------------------------------------------------------------------------ */

/* Of words in the order of what they hold, those with equal parts are put in the order of whole keys. `other` is room for as many. */
static void settle(const fac_order *o, uint64_t *v, uint64_t *other, int64_t n) {
    const uint64_t *keys = o->keys, low = ((uint64_t)1 << o->shift) - 1;
    for (int64_t begin = 0, end; begin < n && o->shift; begin = end) {
        for (end = begin + 1; end < n && v[end] >> 32 == v[begin] >> 32;) end++;
        const int64_t run = end - begin;
        if (run == 1) continue;
        for (int64_t i = begin; i < end; i++) v[i] = (keys[(uint32_t)v[i]] & low) << 32 | (uint32_t)v[i];
        uint64_t *x = v + begin, *y = other + begin;
        sort_word(&x, &y, run, low);
        if (x != v + begin) memcpy(v + begin, x, (size_t)run * sizeof *v);
    }
}

/* Puts the k smallest first, in any order. Among those whose words' keys are equal to the k-th's the rest of keys decides. */
static void choose(fac_order *o, int64_t k) {
    const uint64_t word = split_word(o->words, o->words2, o->n, k), part = word >> 32;
    if (!o->shift) return;
    const uint64_t low = ((uint64_t)1 << o->shift) - 1;
    int64_t less = 0, equal = 0;
    for (int64_t i = 0; i < o->n; i++) { /* no branch */
        const uint64_t key = o->keys[i], high = (uint32_t)(key >> o->shift);
        o->words[less] = high << 32 | (uint64_t)i;
        o->words2[equal] = (key & low) << 32 | (uint64_t)i;
        less += high < part;
        equal += high == part;
    }
    split_word(o->words2, o->words + less, equal, k - less);
    for (int64_t i = less; i < k; i++) o->words[i] = part << 32 | (uint32_t)o->words2[i - less];
}

void fac__order_sort(fac_order *o) {
    if (!o->packed) {
        sort_pair(&o->pairs, &o->pairs2, o->n, o->differ);
        return;
    }
    sort_word(&o->words, &o->words2, o->n, o->differ);
    if (o->wide) settle(o, o->words, o->words2, o->n);
}

void fac__order_first(fac_order *o, int64_t k) {
    if (!o->packed)
        first_pair(&o->pairs, &o->pairs2, o->n, k, o->differ);
    else if (!o->wide)
        first_word(&o->words, &o->words2, o->n, k, o->differ);
    else if (o->n <= SHORT_ROW || 2 * k > o->n)
        fac__order_sort(o);
    else {
        choose(o, k);
        uint64_t *words = o->words;
        sort_word(&o->words, &o->words2, k, o->differ);
        if (o->words != words)
            o->words2 = o->words, o->words = words, memcpy(words, o->words2, (size_t)k * sizeof *words);
        settle(o, o->words, o->words2, k);
    }
}

/* Keys lie where words or pairs would, and behind them is room for as many. */
static uint64_t *bare_keys(const fac_order *o) { return o->packed ? o->words : (uint64_t *)(void *)o->pairs; }

const uint64_t *fac__order_keys(fac_order *o, const void *src, int64_t stride) {
    const int64_t step = stride * fac__dtype_size(o->dtype);
    uint64_t *keys = bare_keys(o);
    for (int64_t b = 0; b < o->n; b += KEY_TILE) FAC_ISA_PICK(fac__keys)
    (o->dtype, (const char *)src + b * step, stride, fac__min(KEY_TILE, o->n - b), flip_of(o), keys + b);
    return keys;
}

int64_t fac__order_nth(fac_order *o, int64_t k) {
    uint64_t *keys = bare_keys(o);
    int64_t among;
    const uint64_t key = FAC_ISA_PICK(fac__kth_key)(keys, o->n, k, keys + o->n, &among);
    return FAC_ISA_PICK(fac__key_at)(keys, o->n, key, among);
}

/* ---- few of many ------------------------------------------------------------------------------------------------------------------ */

/* Restores the heap (largest first) of k entries after its i-th was replaced. */
static void sift(fac_ranked *heap, int64_t k, int64_t i) {
    const fac_ranked x = heap[i];
    for (int64_t child; (child = 2 * i + 1) < k; i = child) {
        if (child + 1 < k && pair_less(heap[child], heap[child + 1])) child++;
        if (!pair_less(x, heap[child])) break;
        heap[i] = heap[child];
    }
    heap[i] = x;
}

bool fac__order_is_few(const fac_order *o, int64_t k) { return k > 0 && k <= o->n / FEW; }

void fac__order_few(fac_order *o, const void *src, int64_t stride, int64_t k) {
    const uint64_t flip = flip_of(o);
    const int64_t step = stride * fac__dtype_size(o->dtype);
    fac_ranked *heap = o->packed ? (fac_ranked *)(void *)o->words2 : o->pairs; /* behind all positions that are found */
    uint64_t keys[KEY_TILE];
    int64_t held = 0;
    for (int64_t b = 0; b < o->n; b += KEY_TILE) {
        const int64_t m = fac__min(KEY_TILE, o->n - b);
        FAC_ISA_PICK(fac__keys)(o->dtype, (const char *)src + b * step, stride, m, flip, keys);
        int64_t i = 0;
        for (; i < m && held < k; i++) {
            heap[held++] = (fac_ranked){keys[i], b + i};
            for (int64_t at = k / 2; held == k && at-- > 0;) sift(heap, k, at);
        }
        if (!FAC_ISA_PICK(fac__keys_below)(keys + i, m - i, heap[0].key)) continue; /* of equals the earlier is there */
        for (; i < m; i++) {
            if (keys[i] >= heap[0].key) continue;
            heap[0] = (fac_ranked){keys[i], b + i};
            sift(heap, k, 0);
        }
    }
    for (int64_t m = k; m-- > 1;) {
        const fac_ranked t = heap[0];
        heap[0] = heap[m];
        heap[m] = t;
        sift(heap, m, 0);
    }
    for (int64_t i = 0; o->packed && i < k; i++) o->words[i] = (uint64_t)heap[i].at;
}
