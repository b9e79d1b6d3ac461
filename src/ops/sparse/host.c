/* See host.h: loops that move elements of any dtype. */
#include "ops/sparse/host.h"

fac_tensor *fac__sparse_host_empty(fac_ints sizes, fac_dtype dtype) {
    fac_tensor *t = NULL;
    FAC_TRY_NULL(fac__empty(sizes.v, (int)sizes.n, dtype, fac_device_make(FAC_CPU, -1), &t));
    return fac__adopt(fac__thread(), t);
}

const int64_t *fac__sparse_host_numbers(fac_tensor **t) {
    static const int64_t none;
    *t = fac__s_contiguous(fac__sparse_long(*t), FAC_FORMAT_DEFAULT);
    return !*t ? NULL : (*t)->numel ? fac__data(*t) : &none;
}

bool fac__sparse_host_begins(const int64_t *begin, int64_t n, int64_t z) {
    bool fine = begin[0] == 0 && begin[n] == z;
    for (int64_t i = 0; i < n; i++) fine &= begin[i] <= begin[i + 1];
    return fine;
}

#define TAKE(BYTES)                                                                                \
    case BYTES:                                                                                    \
        for (int64_t i = 0; i < n; i++) memcpy(out + i * (BYTES), src + at[i] * (BYTES), (BYTES)); \
        return
void fac__sparse_host_take(const void *from, const int64_t *at, int64_t n, int64_t bytes, void *to) {
    const char *src = from;
    char *out = to;
    switch (bytes) {
        TAKE(1);
        TAKE(2);
        TAKE(4);
        TAKE(8);
        TAKE(16);
    default:
        for (int64_t i = 0; i < n; i++) memcpy(out + i * bytes, src + at[i] * bytes, (size_t)bytes);
    }
}

void fac__sparse_host_fill(int64_t *to, int64_t n, int64_t v) {
    typedef int64_t pair __attribute__((vector_size(16), aligned(8)));
    const pair both = {v, v};
    int64_t k = 0;
    for (; k + 4 <= n; k += 4) *(pair *)(to + k) = both, *(pair *)(to + k + 2) = both;
    for (; k < n; k++) to[k] = v;
}

/* Bytes of t[i]. */
static int64_t row_bytes(const fac_tensor *t) {
    int64_t n = fac__item_size(t);
    for (int i = 1; i < t->ndim; i++) n *= t->sizes[i];
    return n;
}

/* Room for n rows like those of t. */
static fac_tensor *rows_like(const fac_tensor *t, int64_t n) {
    int64_t sizes[FAC_MAX_DIMS + 1] = {n};
    for (int i = 1; i < t->ndim; i++) sizes[i] = t->sizes[i];
    return fac__sparse_host_empty((fac_ints){sizes, t->ndim}, fac__sparse_dtype(t));
}

/* Rows of t, which is row-major, in another order. */
static fac_tensor *rows_at(fac_tensor *t, const int64_t *at, int64_t n) {
    fac_tensor *out = t ? rows_like(t, n) : NULL;
    if (out && out->numel) fac__sparse_host_take(fac__data(t), at, n, row_bytes(t), fac__data(out));
    return out;
}

/* ---- what is true ------------------------------------------------------------------------------------------------------ */

/* Truth values are bytes of 0 or 1: a product gathers eight of them. */
static uint64_t bits_of(const uint8_t *set, int64_t n) {
    uint64_t bits = 0;
    int64_t k = 0;
    for (; k + 8 <= n; k += 8) {
        uint64_t eight;
        memcpy(&eight, set + k, 8);
        bits |= (eight * UINT64_C(0x0102040810204080) >> 56) << k;
    }
    for (; k < n; k++) bits |= (uint64_t)set[k] << k;
    return bits;
}

static int64_t count_of(const uint8_t *set, int64_t n) {
    const uint64_t even = UINT64_C(0x00ff00ff00ff00ff);
    int64_t sum = 0, k = 0;
    while (k + 8 <= n) {
        uint64_t lanes = 0, eight; /* eight counts, up to 255 each */
        for (int r = 0; r < 255 && k + 8 <= n; r++, k += 8) {
            memcpy(&eight, set + k, 8);
            lanes += eight;
        }
        sum += (int64_t)(((lanes & even) + (lanes >> 8 & even)) * UINT64_C(0x0001000100010001) >> 48);
    }
    for (; k < n; k++) sum += set[k];
    return sum;
}

/* The next cell of all dimensions but the last. */
static void advance(int64_t *coordinate, const int64_t *sizes, int n) {
    for (int i = n - 1; i >= 0 && ++coordinate[i] == sizes[i]; i--) coordinate[i] = 0;
}

static void fill_set(const uint8_t *set, const char *from, fac_ints sizes, int64_t z, int64_t bytes, int64_t *indices,
                     char *to) {
    const int d = (int)sizes.n;
    const int64_t columns = sizes.v[d - 1];
    int64_t coordinate[FAC_MAX_DIMS] = {0}, *column = indices + (d - 1) * z;
    for (int64_t n = 0; n < z; set += columns, from += columns * bytes) {
        const int64_t first = n;
        for (int64_t c = 0; c < columns; c += 64)
            for (uint64_t w = bits_of(set + c, fac__min(columns - c, 64)); w; w &= w - 1)
                column[n++] = c + __builtin_ctzll(w);
        for (int i = 0; i < d - 1; i++) fac__sparse_host_fill(indices + i * z + first, n - first, coordinate[i]);
        fac__sparse_host_take(from, column + first, n - first, bytes, to + first * bytes);
        advance(coordinate, sizes.v, d - 1);
    }
}

fac_tensor *fac__sparse_host_of_set(fac_tensor *set, fac_tensor *flat, fac_ints sizes, int sparse_dim) {
    if (!fac__sparse_on_host(set) || !fac__sparse_on_host(flat) || sparse_dim < 1) return NULL;
    set = fac__s_contiguous(set, FAC_FORMAT_DEFAULT), flat = fac__s_contiguous(flat, FAC_FORMAT_DEFAULT);
    if (!set || !flat) return NULL;
    const int64_t z = set->numel ? count_of(fac__data(set), set->numel) : 0;
    fac_tensor *indices = fac__sparse_host_empty(FAC_INTS(sparse_dim, z), FAC_I64), *values = rows_like(flat, z);
    if (!indices || !values) return NULL;
    if (values->numel)
        fill_set(fac__data(set), fac__data(flat), (fac_ints){sizes.v, (size_t)sparse_dim}, z, row_bytes(flat),
                 fac__data(indices), fac__data(values));
    return fac__sparse_coo(sizes, indices, values, true);
}

/* ---- order ------------------------------------------------------------------------------------------------------------- */

/* Where each of n numbers begins among z in order [n + 1]; false if one is out of range. */
static bool count(const int64_t *v, int64_t z, int64_t n, int64_t *begin) {
    memset(begin, 0, (size_t)(n + 1) * sizeof *begin);
    for (int64_t k = 0; k < z; k++) {
        if (FAC_UNLIKELY((uint64_t)v[k] >= (uint64_t)n)) return false;
        begin[v[k] + 1]++;
    }
    for (int64_t i = 0; i < n; i++) begin[i + 1] += begin[i];
    return true;
}

fac_tensor *fac__sparse_host_order(fac_tensor *numbers, int64_t n, fac_tensor **begin) {
    if (!fac__sparse_on_host(numbers) || !fac__sparse_countable(n, numbers->numel)) return NULL;
    const int64_t z = numbers->numel, *v = fac__sparse_host_numbers(&numbers);
    fac_tensor *next = fac__sparse_host_empty(FAC_INTS(n + 1), FAC_I64), *order = NULL;
    if (!v || !next || !count(v, z, n, fac__data(next))) return NULL;
    order = fac__sparse_host_empty(FAC_INTS(z), FAC_I64);
    *begin = order ? fac__s_clone(next, FAC_CONTIGUOUS) : NULL;
    if (!*begin) return NULL;
    int64_t *to = fac__data(next), *at = fac__data(order);
    for (int64_t k = 0; k < z; k++) at[to[v[k]]++] = k;
    return order;
}

/* Steps double until they go too far, then halve. */
fac_tensor *fac__sparse_host_edges(fac_tensor *numbers, int64_t n) {
    if (!fac__sparse_on_host(numbers)) return NULL;
    const int64_t z = numbers->numel, *v = fac__sparse_host_numbers(&numbers);
    fac_tensor *edges = v ? fac__sparse_host_empty(FAC_INTS(n), FAC_I64) : NULL;
    if (!edges) return NULL;
    int64_t *to = fac__data(edges);
    for (int64_t i = 0, k = 0; i < n; i++) {
        int64_t step = 1;
        for (; step <= z - k && v[k + step - 1] < i; step *= 2) k += step;
        for (; step; step /= 2)
            if (step <= z - k && v[k + step - 1] < i) k += step;
        to[i] = k;
    }
    return edges;
}

/* Whether pairs are in order and each once. */
static bool in_order(const int64_t *row, const int64_t *column, int64_t z) {
    bool fine = true;
    for (int64_t k = 1; k < z; k++)
        fine &= (row[k - 1] < row[k]) | ((row[k - 1] == row[k]) & (column[k - 1] < column[k]));
    return fine;
}

bool fac__sparse_host_turn(fac_tensor **indices, fac_tensor **values, int64_t columns) {
    fac_tensor *from = *indices, *v = *values, *begin;
    if (!fac__sparse_on_host(from) || !fac__sparse_on_host(v) || from->sizes[0] != 2 || from->sizes[1] < 2)
        return false;
    const int64_t z = from->sizes[1], *row = fac__sparse_host_numbers(&from);
    if (!row) return false;
    fac_tensor *order = fac__sparse_host_order(fac__s_select_int(from, 0, 1), columns, &begin),
               *to = order ? fac__sparse_host_empty(FAC_INTS(2, z), FAC_I64) : NULL;
    if (!to) return false;
    const int64_t *at = fac__data(order);
    int64_t *first = fac__data(to);
    fac__sparse_host_take(row + z, at, z, sizeof *row, first);
    fac__sparse_host_take(row, at, z, sizeof *row, first + z);
    if (!in_order(first, first + z, z)) return false;
    v = rows_at(fac__s_contiguous(v, FAC_FORMAT_DEFAULT), at, z);
    if (!v) return false;
    *indices = to, *values = v;
    return true;
}

fac_status fac__sparse_host_check(const int64_t *begin, int64_t lines, const int64_t *place, int64_t z,
                                  int64_t places) {
    FAC_CHECK(fac__sparse_host_begins(begin, lines, z), FAC_ERR_ARGUMENT,
              "compressed lines do not begin in order, from 0 to the number of elements, %lld", (long long)z);
    for (int64_t k = 0; k < z; k++)
        FAC_CHECK(place[k] >= 0 && place[k] < places, FAC_ERR_INDEX,
                  "found index %lld in a compressed line of size %lld", (long long)place[k], (long long)places);
    return FAC_OK;
}

fac_tensor *fac__sparse_host_cells(fac_tensor *t) {
    fac_sparse s = *fac__sparse_of(t);
    const bool by_row = s.layout == FAC_SPARSE_CSR;
    if ((!by_row && s.layout != FAC_SPARSE_CSC) || !fac__sparse_on_host(s.indices) || !fac__sparse_on_host(s.plain))
        return NULL;
    const int batch = s.plain->ndim - 1;
    const int64_t rows = t->sizes[batch], columns = t->sizes[batch + 1], z = s.plain->sizes[batch],
                  lines = by_row ? rows : columns, *begin = fac__sparse_host_numbers(&s.indices),
                  *place = begin ? fac__sparse_host_numbers(&s.plain) : NULL;
    fac_tensor *cells = place ? fac__sparse_host_empty(FAC_INTS(s.plain->numel), FAC_I64) : NULL;
    if (!cells) return NULL;
    const int64_t step = by_row ? columns : 1, place_step = by_row ? 1 : columns;
    int64_t *out = fac__data(cells), first = 0;
    for (int64_t k = 0; k < s.plain->numel; k += z, begin += lines + 1, first += rows * columns) {
        FAC_TRY_NULL(fac__sparse_host_check(begin, lines, place + k, z, by_row ? columns : rows));
        for (int64_t i = 0; i < lines; i++)
            for (int64_t e = begin[i]; e < begin[i + 1]; e++) out[k + e] = first + i * step + place[k + e] * place_step;
    }
    return cells;
}

/* A line of a block: most are short. */
static inline void copy_line(char *to, const char *from, int64_t bytes) {
    int64_t b = 0;
    for (; b + 8 <= bytes; b += 8) memcpy(to + b, from + b, 8);
    for (; b < bytes; b++) to[b] = from[b];
}

bool fac__sparse_host_unblock(fac_tensor **indices, fac_tensor **values, int64_t h, int64_t w) {
    fac_tensor *from = *indices, *v = *values;
    int64_t each, total, bytes = v ? fac__item_size(v) : 0, sizes[FAC_MAX_DIMS + 1];
    if (!fac__sparse_on_host(from) || !fac__sparse_on_host(v) || !v->numel || from->sizes[0] != 2) return false;
    const int64_t z = from->sizes[1], *row = fac__sparse_host_numbers(&from), *column = row ? row + z : NULL;
    v = fac__s_contiguous(v, FAC_FORMAT_DEFAULT);
    if (!row || !v || !in_order(row, column, z) || !fac__mul(h, w, &each) || !fac__mul(z, each, &total)) return false;
    sizes[0] = total;
    for (int i = 3; i < v->ndim; i++) sizes[i - 2] = v->sizes[i], bytes *= v->sizes[i];
    fac_tensor *at = fac__sparse_host_empty(FAC_INTS(2, total), FAC_I64),
               *to = fac__sparse_host_empty((fac_ints){sizes, (size_t)v->ndim - 2}, fac__sparse_dtype(v));
    if (!at || !to) return false;
    int64_t *rows = fac__data(at), *columns = rows + total, n = 0;
    const char *blocks = fac__data(v);
    char *out = fac__data(to);
    for (int64_t f = 0, end = 0; f < z; f = end) {
        while (end < z && row[end] == row[f]) end++;
        for (int64_t i = 0; i < h; i++) {
            fac__sparse_host_fill(rows + n, (end - f) * w, row[f] * h + i);
            for (int64_t k = f; k < end; k++, n += w) {
                const uint64_t first = (uint64_t)column[k] * (uint64_t)w;
                for (int64_t j = 0; j < w; j++) columns[n + j] = (int64_t)(first + (uint64_t)j);
                copy_line(out + n * bytes, blocks + (k * h + i) * w * bytes, w * bytes);
            }
        }
    }
    *indices = at, *values = to;
    return true;
}

/* ---- parts --------------------------------------------------------------------------------------------------------------- */

/* How many elements index[0, m) pick; -1 if one is out of range or they are too many. */
static int64_t picked(const int64_t *begin, int64_t n, const int64_t *index, int64_t m) {
    int64_t sum = 0;
    for (int64_t j = 0; j < m; j++)
        if ((uint64_t)index[j] >= (uint64_t)n || !fac__add(sum, begin[index[j] + 1] - begin[index[j]], &sum)) return -1;
    return sum;
}

static bool never_falls(const int64_t *v, int64_t n) {
    bool fine = true;
    for (int64_t k = 1; k < n; k++) fine &= v[k - 1] <= v[k];
    return fine;
}

fac_tensor *fac__sparse_host_pick(fac_tensor *t, int64_t dim, fac_tensor *index) {
    const fac_sparse *s = fac__sparse_of(t);
    fac_tensor *indices = s->indices, *values = s->values, *begin = NULL, *order = NULL;
    if (!fac__sparse_on_host(indices) || !fac__sparse_on_host(values) || !fac__sparse_on_host(index)) return NULL;
    const int64_t z = indices->sizes[1], n = t->sizes[dim], m = index->numel;
    const int64_t *from = fac__sparse_host_numbers(&indices), *wanted = from ? fac__sparse_host_numbers(&index) : NULL;
    values = wanted ? fac__s_contiguous(values, FAC_FORMAT_DEFAULT) : NULL;
    if (!values || !fac__sparse_countable(n, z + m)) return NULL;
    const int64_t *v = from + dim * z;
    if (never_falls(v, z)) {
        begin = fac__sparse_host_empty(FAC_INTS(n + 1), FAC_I64);
        if (!begin || !count(v, z, n, fac__data(begin))) return NULL;
    } else {
        order = fac__sparse_host_order(fac__s_select_int(indices, 0, dim), n, &begin);
        if (!order) return NULL;
    }
    const int64_t *edge = fac__data(begin), total = picked(edge, n, wanted, m), d = s->sparse_dim;
    if (total < 0) return NULL;
    int64_t sizes[FAC_MAX_DIMS];
    memcpy(sizes, t->sizes, t->ndim * sizeof *sizes);
    sizes[dim] = m;
    fac_tensor *place = fac__sparse_host_empty(FAC_INTS(total), FAC_I64),
               *out = place ? fac__sparse_host_empty(FAC_INTS(d, total), FAC_I64) : NULL;
    if (!out) return NULL;
    if (total) {
        int64_t *at = fac__data(place), *to = fac__data(out);
        for (int64_t j = 0, k = 0; j < m; j++)
            for (int64_t i = edge[wanted[j]]; i < edge[wanted[j] + 1]; i++, k++) at[k] = i, to[dim * total + k] = j;
        if (order) fac__sparse_host_take(fac__data(order), at, total, sizeof *at, at);
        for (int64_t i = 0; i < d; i++)
            if (i != dim) fac__sparse_host_take(from + i * z, at, total, sizeof *at, to + i * total);
    }
    return fac__sparse_coo((fac_ints){sizes, t->ndim}, out, rows_at(values, total ? fac__data(place) : NULL, total),
                           false);
}

/* ---- comparing ------------------------------------------------------------------------------------------------------------- */

bool fac__sparse_host_same(fac_tensor *a, fac_tensor *b) {
    if (a == b) return true;
    if (!a || !b || !fac__same_sizes(a, b) || a->dtype != b->dtype || !fac__sparse_on_host(a) ||
        !fac__sparse_on_host(b) || !fac__is_contiguous(a) || !fac__is_contiguous(b))
        return false;
    return !a->numel || memcmp(fac__data(a), fac__data(b), (size_t)(a->numel * fac__item_size(a))) == 0;
}

fac_tensor *fac__sparse_host_places(fac_tensor *have, fac_tensor *want) {
    if (!fac__sparse_on_host(have) || !fac__sparse_on_host(want)) return NULL;
    const int64_t n = have->numel, z = want->numel, *v = fac__sparse_host_numbers(&have),
                  *w = v ? fac__sparse_host_numbers(&want) : NULL;
    fac_tensor *places = w ? fac__sparse_host_empty(FAC_INTS(z), FAC_I64) : NULL;
    if (!places || !never_falls(v, n) || !never_falls(w, z)) return NULL;
    int64_t *at = fac__data(places);
    for (int64_t k = 0, i = 0; k < z; k++) {
        while (i < n && v[i] < w[k]) i++;
        at[k] = i;
    }
    return places;
}
