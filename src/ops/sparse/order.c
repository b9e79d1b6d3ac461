/* The order of coordinates. On the host their row-major numbers are sorted by digits, the lowest first, in as many rounds as the
   largest number has digits, or merged if they are two tensors' one after the other; elsewhere by operators. */
#include "core/tensor_make.h"
#include "ops/sparse/parts.h"

enum { DIGIT = 11, DIGITS = 1 << DIGIT };

/* A pair of arrays of keys and places, and another to move them to. */
typedef struct sorting {
    int64_t n, *key, *at, *other_key, *other_at, *start; /* start: DIGITS numbers */
} sorting;

static void swap(sorting *s) {
    int64_t *const key = s->key, *const at = s->at;
    s->key = s->other_key, s->at = s->other_at;
    s->other_key = key, s->other_at = at;
}

static void sort_by_digit(sorting *s, int shift) {
    int64_t *start = s->start, sum = 0;
    memset(start, 0, DIGITS * sizeof *start);
    for (int64_t i = 0; i < s->n; i++) start[s->key[i] >> shift & (DIGITS - 1)]++;
    for (int d = 0; d < DIGITS; d++) {
        const int64_t count = start[d];
        start[d] = sum;
        sum += count;
    }
    for (int64_t i = 0; i < s->n; i++) {
        const int64_t to = start[s->key[i] >> shift & (DIGITS - 1)]++;
        s->other_key[to] = s->key[i];
        s->other_at[to] = s->at[i];
    }
    swap(s);
}

/* Where the keys from `at` on stop being in order. */
static int64_t run_end(const int64_t *key, int64_t n, int64_t at) {
    int64_t i = at + 1;
    while (i < n && key[i - 1] <= key[i]) i++;
    return i < n ? i : n;
}

/* Two runs in order, [0, middle) and the rest, become one: those of the first come first among equals. */
static void merge(sorting *s, int64_t middle) {
    int64_t a = 0, b = middle;
    for (int64_t i = 0; i < s->n; i++) {
        const bool first = b >= s->n || (a < middle && s->key[a] <= s->key[b]);
        const int64_t from = first ? a++ : b++;
        s->other_key[i] = s->key[from];
        s->other_at[i] = from;
    }
    swap(s);
}

/* Numbers are at most `most`, none is negative. */
static void sort(sorting *s, int64_t most) {
    for (int64_t i = 0; i < s->n; i++) s->at[i] = i;
    const int64_t middle = run_end(s->key, s->n, 0);
    if (middle == s->n) return;
    if (run_end(s->key, s->n, middle) == s->n) {
        merge(s, middle);
        return;
    }
    for (int shift = 0; shift < 63 && most >> shift; shift += DIGIT) sort_by_digit(s, shift);
}

/* An int64 vector of the host that holds a copy; borrowed by the innermost scope. */
static fac_tensor *vector_of(const int64_t *v, int64_t n) {
    fac_tensor *t = NULL;
    if (fac__empty(&n, 1, FAC_I64, fac_device_make(FAC_CPU, -1), &t) != FAC_OK) return NULL;
    if (n) memcpy(fac__data(t), v, (size_t)n * sizeof *v);
    return fac__adopt(fac__thread(), t);
}

/* Groups of equal neighbours: `group` of each, and where each begins over the keys. Returns their number. */
static int64_t group_keys(const sorting *s, int64_t *group, int64_t *first) {
    int64_t n = 0;
    for (int64_t i = 0; i < s->n; i++) {
        if (i == 0 || s->key[i] != s->key[i - 1]) first[n++] = s->at[i];
        group[i] = n - 1;
    }
    return n;
}

static fac_sparse_order order_here(fac_tensor *flat) {
    fac_sparse_order o = {0};
    const int64_t n = flat->numel, *v = fac__data(flat);
    int64_t *room = fac__alloc_array((size_t)n + DIGITS, 4 * sizeof *room), most = 0;
    if (!room) return o;
    for (int64_t i = 0; i < n; i++) most |= v[i];
    if (most < 0) {
        fac__free(room);
        FAC_FAIL(FAC_ERR_INDEX, "a sparse tensor has a negative index");
        return o;
    }
    sorting s = {n, room, room + n, room + 2 * n, room + 3 * n, room + 4 * n};
    if (n) memcpy(s.key, v, (size_t)n * sizeof *v);
    sort(&s, most);
    o.order = vector_of(s.at, n);
    o.n = group_keys(&s, s.other_key, s.other_at);
    o.group = vector_of(s.other_key, n);
    o.first = vector_of(s.other_at, o.n);
    fac__free(room);
    return o;
}

fac_sparse_order fac__sparse_order_of(fac_tensor *flat) {
    fac_sparse_order o = {0};
    if (!flat) return o;
    if (flat->device.type == FAC_CPU) {
        fac_tensor *rows = fac__s_contiguous(flat, FAC_FORMAT_DEFAULT);
        if (rows) o = order_here(rows);
    } else {
        fac_sort_stable_result sorted = fac__s_sort_stable(flat, fac_opt_num_(fac_scalar_b_(true)), 0, false);
        if (!sorted.values) return o;
        fac_unique_consecutive_result u = fac__s_unique_consecutive(sorted.values, true, true, (fac_opt_int){0});
        if (!u.output) return o;
        fac_tensor *ends = fac__s_cumsum(u.counts, 0, FAC_DTYPE_DEFAULT);
        o.order = sorted.indices, o.group = u.inverse, o.n = u.output->numel;
        o.first = fac__s_index_select(sorted.indices, 0, fac__s_sub_Tensor(ends, u.counts, fac_scalar_i_(1)));
    }
    if (!o.order || !o.group || !o.first) return (fac_sparse_order){0};
    return o;
}
