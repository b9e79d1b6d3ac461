/* Membership. Elements are compared by their order keys (order.h), by which both zeros are equal. The keys that are looked for
   make a set once, on one thread: bits over their range where that is short, else a hash table that is half full at most, probed
   in order. Looking up is shared out to threads. */
#include "backend/cpu/kernels/items.h"
#include "backend/cpu/kernels/order.h"
#include "backend/cpu/parallel.h"
#include "core/tensor_make.h"
#include "ops_gen.h"

enum { KEYS = 512, BITS_PER_KEY = 64 /* a range of as many values per key is kept as bits */ };
#define FREE UINT64_MAX

typedef struct key_set {
    uint64_t low, range; /* bits: the least key, and how far the largest is from it */
    bool as_bits, has_free, empty;
    int shift;    /* table: 64 less the logarithm of its size */
    uint64_t *v;  /* bits, or the table, in which FREE is a free place; has_free: FREE is a key too */
    uint64_t nan; /* this key is never in the set; 0: none */
} key_set;

static uint64_t place_of(const key_set *s, uint64_t key) { return (key * UINT64_C(0x9e3779b97f4a7c15)) >> s->shift; }

static inline bool has_bit(const key_set *s, uint64_t key) {
    const uint64_t i = key - s->low;
    return i <= s->range && s->v[i / 64] >> (i % 64) & 1;
}

static inline bool in_table(const key_set *s, uint64_t key) {
    const uint64_t mask = ~UINT64_C(0) >> s->shift;
    if (key == FREE) return s->has_free;
    for (uint64_t i = place_of(s, key); s->v[i] != FREE; i = (i + 1) & mask)
        if (s->v[i] == key) return true;
    return false;
}

static void insert(key_set *s, uint64_t key) {
    const uint64_t mask = ~UINT64_C(0) >> s->shift;
    if (key == FREE) {
        s->has_free = true;
        return;
    }
    uint64_t i = place_of(s, key);
    while (s->v[i] != FREE && s->v[i] != key) i = (i + 1) & mask;
    s->v[i] = key;
}

/* ---- making the set ---------------------------------------------------------------------------------------------------- */

/* An owned row-major tensor of t's elements as of dtype. */
static fac_status converted(fac_tensor *t, fac_dtype dtype, fac_tensor **out) {
    if (t->dtype == dtype) return fac__cpu_contiguous(t, out);
    FAC_TRY(fac__empty(t->sizes, t->ndim, dtype, t->device, out));
    fac_status st = fac__cpu_copy(*out, t);
    if (st != FAC_OK) fac__unref(*out);
    return st;
}

/* The range of the keys but NaN's. */
static void find_range(key_set *s, const uint64_t *keys, int64_t n) {
    uint64_t low = UINT64_MAX, high = 0;
    s->empty = true;
    for (int64_t i = 0; i < n; i++) {
        if (s->nan && keys[i] == s->nan) continue;
        low = keys[i] < low ? keys[i] : low;
        high = keys[i] > high ? keys[i] : high;
        s->empty = false;
    }
    s->low = low;
    s->range = s->empty ? 0 : high - low;
}

static fac_status make_set(key_set *s, const uint64_t *keys, int64_t n) {
    find_range(s, keys, n);
    s->as_bits = s->empty || s->range / BITS_PER_KEY <= (uint64_t)n;
    s->shift = 63;
    while (!s->as_bits && s->shift > 2 && (UINT64_C(1) << (64 - s->shift)) < 2 * (uint64_t)n) s->shift--;
    const uint64_t words = s->as_bits ? s->range / 64 + 1 : UINT64_C(1) << (64 - s->shift);
    s->v = fac__alloc_array((size_t)words, sizeof *s->v);
    if (!s->v) return fac_error();
    memset(s->v, s->as_bits ? 0 : 0xff, (size_t)words * sizeof *s->v);
    for (int64_t i = 0; i < n; i++) {
        if (s->nan && keys[i] == s->nan) continue;
        if (s->as_bits)
            s->v[(keys[i] - s->low) / 64] |= UINT64_C(1) << ((keys[i] - s->low) % 64);
        else
            insert(s, keys[i]);
    }
    return FAC_OK;
}

static fac_status set_of(fac_tensor *t, fac_dtype dtype, key_set *s) {
    fac_tensor *rows;
    *s = (key_set){.nan = fac__nan_key(dtype)};
    FAC_TRY(converted(t, dtype, &rows));
    uint64_t *keys = fac__alloc_array((size_t)t->numel + 1, sizeof *keys);
    fac_status st = keys ? FAC_OK : fac_error();
    if (st == FAC_OK && t->numel) FAC_ISA_PICK(fac__keys)(dtype, fac__data(rows), 1, t->numel, 0, keys);
    if (st == FAC_OK) st = make_set(s, keys, t->numel);
    fac__free(keys);
    fac__unref(rows);
    return st;
}

/* ---- looking up ----------------------------------------------------------------------------------------------------------- */

typedef struct lookup {
    const key_set *set;
    fac_dtype dtype;
    const char *in;
    uint8_t *out;
    bool invert;
} lookup;

static fac_status look_up(void *ctx, int64_t begin, int64_t end) {
    const lookup *l = ctx;
    const key_set *s = l->set;
    uint64_t keys[KEYS];
    for (int64_t b = begin; b < end; b += KEYS) {
        const int64_t n = fac__min(KEYS, end - b);
        FAC_ISA_PICK(fac__keys)(l->dtype, l->in + b * fac__dtype_size(l->dtype), 1, n, 0, keys);
        if (s->as_bits)
            for (int64_t i = 0; i < n; i++) l->out[b + i] = has_bit(s, keys[i]) != l->invert;
        else
            for (int64_t i = 0; i < n; i++) l->out[b + i] = in_table(s, keys[i]) != l->invert;
    }
    return FAC_OK;
}

static fac_status look_up_all(const key_set *set, fac_tensor *elements, fac_dtype dtype, bool invert, fac_tensor *out) {
    fac_tensor *rows;
    fac_rowmajor r;
    FAC_TRY(converted(elements, dtype, &rows));
    fac_status st = fac__rowmajor_begin(out, false, &r);
    if (st == FAC_OK) {
        lookup l = {set, dtype, fac__data(rows), fac__data(r.t), invert};
        st = fac__rowmajor_end(&r, fac__parallel_for(0, out->numel, FAC_GRAIN / 8, look_up, &l));
    }
    fac__unref(rows);
    return st;
}

fac_status isin_cpu(fac_structured *s, fac_tensor *elements, fac_tensor *test_elements, bool assume_unique,
                    bool invert) {
    (void)assume_unique; /* nothing is gained by it */
    key_set set;
    const fac_dtype dtype = (fac_dtype)s->carry[0];
    if (elements->numel == 0) return FAC_OK;
    FAC_TRY(set_of(test_elements, dtype, &set));
    fac_status st = look_up_all(&set, elements, dtype, invert, s->out[0]);
    fac__free(set.v);
    return st;
}
