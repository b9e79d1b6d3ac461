/* Sums and products of two tensors of one layout, element by element: two lists of numbers in order are gone through side by side,
   without a branch on which is next. A sum takes from both where they are equal, as zeros are added to what only one has; a product is
   where both have elements. Coordinates are compared by their row-major numbers, columns of a compressed row by themselves. */
#include "ops/sparse/host.h"

/* One of the two lists: numbers, d rows of coordinates that lie `step` apart, values. */
typedef struct side {
    const int64_t *key, *at;
    const void *values;
    int64_t n, step;
} side;

typedef struct merged {
    int64_t *at, step, d;
    void *values;
} merged;

static inline int64_t either(int64_t a, int64_t b, bool first) {
    const int64_t mask = -(int64_t)first;
    return (a & mask) | (b & ~mask);
}

/* Elements [i, end) of one list alone; *last becomes the last number. INT64_MAX if they are not in order. */
static int64_t run(const side *a, int64_t i, int64_t end, int64_t item, int64_t last, const merged *to, int64_t z) {
    bool fine = true;
    if (i == end) return last;
    for (int64_t k = i; k < end; k++) fine &= last < a->key[k], last = a->key[k];
    for (int64_t e = 0; e < to->d; e++)
        memcpy(to->at + e * to->step + z, a->at + e * a->step + i, (size_t)(end - i) * sizeof *to->at);
    memcpy((char *)to->values + z * item, (const char *)a->values + i * item, (size_t)((end - i) * item));
    return fine ? last : INT64_MAX;
}

/* The first element from i on whose number is not below `key`, if they are in order. */
static int64_t reach(const side *a, int64_t i, int64_t key) {
    int64_t step = 1;
    for (; step <= a->n - i && a->key[i + step - 1] < key; step *= 2) i += step;
    for (; step; step /= 2)
        if (step <= a->n - i && a->key[i + step - 1] < key) i += step;
    return i;
}

/* Each gives the number of elements that `to` has after z and the new ones, and -1 if a list is not in order. A list of many elements
   beside one of few is copied in runs. */
#define MERGE(S, T, U)                                                                                   \
    static inline T joined_##S(T x, T y, bool first, bool second) {                                      \
        const U has_x = (U)0 - (U)first, has_y = (U)0 - (U)second, both = has_x & has_y;                 \
        const T sum = x + y;                                                                             \
        U a, b, c;                                                                                       \
        memcpy(&a, &x, sizeof a), memcpy(&b, &y, sizeof b), memcpy(&c, &sum, sizeof c);                  \
        c = (c & both) | (((a & has_x) | (b & has_y)) & ~both);                                          \
        memcpy(&x, &c, sizeof x);                                                                        \
        return x;                                                                                        \
    }                                                                                                    \
    static int64_t few_##S(const side *a, const side *b, const merged *to, int64_t z) {                  \
        int64_t i = 0, last = -1;                                                                        \
        for (int64_t j = 0; j < b->n && last < INT64_MAX; j++) {                                         \
            const int64_t end = reach(a, i, b->key[j]);                                                  \
            last = run(a, i, end, sizeof(T), last, to, z);                                               \
            z += end - i, i = end;                                                                       \
            last = run(b, j, j + 1, sizeof(T), last, to, z);                                             \
            if (i < a->n && a->key[i] == b->key[j]) ((T *)to->values)[z] += ((const T *)a->values)[i++]; \
            z++;                                                                                         \
        }                                                                                                \
        if (last < INT64_MAX) last = run(a, i, a->n, sizeof(T), last, to, z);                            \
        return last < INT64_MAX ? z + a->n - i : -1;                                                     \
    }                                                                                                    \
    static int64_t sum_##S(const side *a, const side *b, const merged *to, int64_t z) {                  \
        if (a->n >> 3 > b->n) return few_##S(a, b, to, z);                                               \
        if (b->n >> 3 > a->n) return few_##S(b, a, to, z);                                               \
        const side s = *a, o = *b;                                                                       \
        const T *x = s.values, *y = o.values;                                                            \
        const int64_t d = to->d, step = to->step;                                                        \
        int64_t i = 0, j = 0, last = -1, *at = to->at;                                                   \
        T *out = to->values;                                                                             \
        bool fine = true;                                                                                \
        while (i < s.n && j < o.n) {                                                                     \
            const int64_t p = s.key[i], q = o.key[j], key = p < q ? p : q;                               \
            const bool first = p <= q, second = q <= p;                                                  \
            fine &= last < key, last = key;                                                              \
            out[z] = joined_##S(x[i], y[j], first, second);                                              \
            if (d == 1)                                                                                  \
                at[z] = key;                                                                             \
            else                                                                                         \
                for (int64_t e = 0; e < d; e++)                                                          \
                    at[e * step + z] = either(s.at[e * s.step + i], o.at[e * o.step + j], first);        \
            z++, i += first, j += second;                                                                \
        }                                                                                                \
        last = run(a, i, s.n, sizeof(T), last, to, z);                                                   \
        if (last < INT64_MAX) last = run(b, j, o.n, sizeof(T), last, to, z);                             \
        return fine && last < INT64_MAX ? z + (s.n - i) + (o.n - j) : -1;                                \
    }                                                                                                    \
    static int64_t product_##S(const side *a, const side *b, const merged *to, int64_t z) {              \
        const side s = *a, o = *b;                                                                       \
        const T *x = s.values, *y = o.values;                                                            \
        const int64_t d = to->d, step = to->step;                                                        \
        int64_t i = 0, j = 0, last = -1, *at = to->at;                                                   \
        T *out = to->values;                                                                             \
        bool fine = true;                                                                                \
        while (i < s.n && j < o.n) {                                                                     \
            const int64_t p = s.key[i], q = o.key[j], key = p < q ? p : q;                               \
            fine &= last < key, last = key;                                                              \
            for (int64_t e = 0; e < d; e++) at[e * step + z] = s.at[e * s.step + i];                     \
            out[z] = x[i] * y[j];                                                                        \
            z += p == q, i += p <= q, j += q <= p;                                                       \
        }                                                                                                \
        for (; i < s.n; i++) fine &= last < s.key[i], last = s.key[i];                                   \
        for (; j < o.n; j++) fine &= last < o.key[j], last = o.key[j];                                   \
        return fine ? z : -1;                                                                            \
    }
MERGE(f32, float, uint32_t)
MERGE(f64, double, uint64_t)

typedef int64_t (*merge_fn)(const side *a, const side *b, const merged *to, int64_t z);

/* The first z of n elements along a dimension, in memory of their own where few are left. */
static fac_tensor *cut(fac_tensor *t, int64_t n, int64_t z) {
    fac_tensor *part = NULL;
    const int64_t d = t->ndim == 2 ? t->sizes[0] : 1, bytes = fac__item_size(t), sizes[] = {d, z}, strides[] = {z, 1};
    if (z == n) return t;
    for (int64_t e = 1; e < d && z; e++) {
        char *v = fac__data(t);
        memmove(v + e * z * bytes, v + e * n * bytes, (size_t)(z * bytes));
    }
    const int skip = 2 - t->ndim;
    FAC_TRY_NULL(fac__view(t, sizes + skip, strides + skip, t->ndim, t->offset, true, &part));
    part = fac__adopt(fac__thread(), part);
    return z < n / 2 ? fac__s_clone(part, FAC_CONTIGUOUS) : part;
}

static fac_tensor *merge_coo(fac_tensor *a, fac_tensor *b, bool both, merge_fn fn) {
    const fac_sparse *s = fac__sparse_of(a), *o = fac__sparse_of(b);
    fac_tensor *key = fac__sparse_flat(s->indices, a->sizes), *other = fac__sparse_flat(o->indices, b->sizes),
               *at = s->indices, *other_at = o->indices;
    fac_tensor *x = fac__s_contiguous(s->values, FAC_FORMAT_DEFAULT),
               *y = fac__s_contiguous(o->values, FAC_FORMAT_DEFAULT);
    if (!key || !other || !x || !y) return NULL;
    const int64_t n = x->numel, m = y->numel, room = both ? fac__min(n, m) : n + m, d = s->sparse_dim;
    const side p = {fac__sparse_host_numbers(&key), fac__sparse_host_numbers(&at), fac__data(x), n, n},
               q = {fac__sparse_host_numbers(&other), fac__sparse_host_numbers(&other_at), fac__data(y), m, m};
    fac_tensor *indices = fac__sparse_host_empty(FAC_INTS(d, room), FAC_I64),
               *values = fac__sparse_host_empty(FAC_INTS(room), fac__sparse_dtype(a));
    if (!p.key || !p.at || !q.key || !q.at || !indices || !values) return NULL;
    const merged to = {fac__data(indices), room, d, fac__data(values)};
    const int64_t z = room ? fn(&p, &q, &to, 0) : 0;
    return z < 0 ? NULL : fac__sparse_coo(fac__sparse_sizes(a), cut(indices, room, z), cut(values, room, z), true);
}

static fac_tensor *merge_lines(fac_tensor *a, fac_tensor *b, bool both, merge_fn fn) {
    fac_sparse s = *fac__sparse_of(a), o = *fac__sparse_of(b);
    const int64_t lines = s.indices->numel - 1;
    const int64_t *begin = fac__sparse_host_numbers(&s.indices), *place = fac__sparse_host_numbers(&s.plain),
                  *other_begin = fac__sparse_host_numbers(&o.indices), *other = fac__sparse_host_numbers(&o.plain);
    fac_tensor *x = fac__s_contiguous(s.values, FAC_FORMAT_DEFAULT),
               *y = fac__s_contiguous(o.values, FAC_FORMAT_DEFAULT);
    if (!begin || !place || !other_begin || !other || !x || !y) return NULL;
    const int64_t n = x->numel, m = y->numel, room = both ? fac__min(n, m) : n + m, item = fac__item_size(x);
    if (!fac__sparse_host_begins(begin, lines, n) || !fac__sparse_host_begins(other_begin, lines, m)) return NULL;
    fac_tensor *edges = fac__sparse_host_empty(FAC_INTS(lines + 1), FAC_I64),
               *plain = fac__sparse_host_empty(FAC_INTS(room), FAC_I64),
               *values = fac__sparse_host_empty(FAC_INTS(room), fac__sparse_dtype(a));
    if (!edges || !plain || !values) return NULL;
    const merged to = {fac__data(plain), 0, 1, fac__data(values)};
    int64_t *edge = fac__data(edges), z = 0;
    for (int64_t i = 0; i < lines && z >= 0; i++) {
        const int64_t f = begin[i], g = other_begin[i];
        const side p = {place + f, place + f, (const char *)fac__data(x) + f * item, begin[i + 1] - f, 0},
                   q = {other + g, other + g, (const char *)fac__data(y) + g * item, other_begin[i + 1] - g, 0};
        edge[i] = z;
        if (room) z = fn(&p, &q, &to, z);
    }
    if (z < 0) return NULL;
    edge[lines] = z;
    return fac__sparse_compressed(s.layout, fac__sparse_sizes(a), edges, cut(plain, room, z), cut(values, room, z));
}

fac_tensor *fac__sparse_host_merge(fac_tensor *a, fac_tensor *b, bool both) {
    static const merge_fn fns[2][2] = {{sum_f32, product_f32}, {sum_f64, product_f64}};
    const fac_sparse *s = a ? fac__sparse_of(a) : NULL, *o = b ? fac__sparse_of(b) : NULL;
    if (!s || !o || s->layout != o->layout || !fac__same_sizes(a, b) || a->dtype != b->dtype) return NULL;
    const bool coo = s->layout == FAC_SPARSE_COO;
    if (coo && (!s->coalesced || !o->coalesced || s->sparse_dim != o->sparse_dim)) return NULL;
    if (!fac__sparse_on_host(s->values) || !fac__sparse_on_host(o->values)) return NULL;
    if (fac__sparse_host_same(s->indices, o->indices) && fac__sparse_host_same(s->plain, o->plain) &&
        fac__same_sizes(s->values, o->values))
        return fac__sparse_with_values(a, both ? fac__s_mul_Tensor(s->values, o->values)
                                               : fac__s_add_Tensor(s->values, o->values, fac_scalar_i_(1)));
    if ((a->dtype != FAC_F32 && a->dtype != FAC_F64) || s->dense_dim || o->dense_dim) return NULL;
    const merge_fn fn = fns[a->dtype == FAC_F64][both];
    if (coo) return s->sparse_dim ? merge_coo(a, b, both, fn) : NULL;
    const bool plain = (s->layout == FAC_SPARSE_CSR || s->layout == FAC_SPARSE_CSC) && s->plain->ndim == 1;
    return plain ? merge_lines(a, b, both, fn) : NULL;
}
