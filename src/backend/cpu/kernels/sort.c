/* Sorting, selecting, searching. Each row along the dimension is ordered on its own (order.h); rows are shared out to
   threads. Values are copied from the row by position, so that every NaN and zero keeps its bits. */
#include "backend/cpu/kernels/items.h"
#include "backend/cpu/kernels/order.h"
#include "backend/cpu/parallel.h"
#include "core/tensor_make.h"
#include "iter/nest.h"
#include "ops/composite/below.h"
#include "ops_gen.h"

/* What is kept of an ordered row: entries [first, first + count). */
typedef struct sort_job {
    fac_nest rows; /* all dimensions but the one sorted: values, indices, self */
    fac_dtype dtype;
    bool descending, select;
    bool one, mode, nan_first, skip_nans; /* one: a row gives one element. A NaN is it (median), or none is counted */
    int64_t n, first, count;
    fac_order order;  /* the plan of each row's */
    int64_t steps[3]; /* along the dimension, in elements */
    char *values;
    int64_t *indices;
    const char *self;
} sort_job;

/* ---- rows ---------------------------------------------------------------------------------------------------------------- */

static void write_entry(const sort_job *j, const fac_cursor *c, int64_t i, int64_t at) {
    const size_t item = fac__dtype_size(j->dtype);
    j->indices[c->offset[1] + i * j->steps[1]] = at;
    memcpy(j->values + (c->offset[0] + i * j->steps[0]) * (int64_t)item,
           j->self + (c->offset[2] + at * j->steps[2]) * (int64_t)item, item);
}

static void write_entries(const sort_job *j, const fac_cursor *c, const fac_order *o) {
    const size_t item = fac__dtype_size(j->dtype);
    const char *src = j->self + c->offset[2] * (int64_t)item;
    char *dst = j->values + c->offset[0] * (int64_t)item;
    int64_t *indices = j->indices + c->offset[1];
    for (int64_t i = 0; i < j->count; i++) indices[i * j->steps[1]] = fac__order_at(o, j->first + i);
#define VALUES(T)                          \
    for (int64_t i = 0; i < j->count; i++) \
    ((T *)dst)[i * j->steps[0]] = ((const T *)src)[fac__order_at(o, j->first + i) * j->steps[2]]
    FAC_ITEM_SWITCH(item, VALUES)
#undef VALUES
}

/* The last entry of the longest run of equal ones, the first of several, in an ordered row; a NaN is equal to nothing. The keys are
   there, or o has them. */
static int64_t end_of_longest_run(const fac_order *o, const uint64_t *keys) {
    const uint64_t nan = fac__nan_key(o->dtype);
    int64_t best = 0, longest = 0;
    for (int64_t i = 0, begin = 0; i < o->n; i++) {
        const uint64_t key = keys ? keys[i] : fac__order_key(o, i);
        if (i + 1 < o->n && key == (keys ? keys[i + 1] : fac__order_key(o, i + 1)) && !(nan && key == nan)) continue;
        if (i + 1 - begin > longest) longest = i + 1 - begin, best = i;
        begin = i + 1;
    }
    return best;
}

/* Of a row whose result is one of its elements: the position of that. */
static int64_t chosen(const sort_job *j, fac_order *o, const char *row) {
    if (j->mode) {
        fac__order_load(o, row, j->steps[2]);
        fac__order_sort(o);
        return fac__order_at(o, end_of_longest_run(o, NULL));
    }
    const uint64_t *keys = fac__order_keys(o, row, j->steps[2]), nan = fac__nan_key(o->dtype);
    const int64_t nans = nan && (j->nan_first || j->skip_nans) ? FAC_ISA_PICK(fac__keys_equal)(keys, o->n, nan) : 0;
    if (j->nan_first && nans) return FAC_ISA_PICK(fac__key_at)(keys, o->n, nan, 1);
    const int64_t numbers = nans < o->n ? o->n - nans : o->n;
    return fac__order_nth(o, j->skip_nans ? (numbers - 1) / 2 + 1 : j->first + 1);
}

static void order_row(const sort_job *j, const fac_cursor *c, fac_order *o) {
    const char *row = j->self + c->offset[2] * fac__dtype_size(j->dtype);
    const bool known = j->select || (j->one && !j->mode && !j->nan_first && !j->skip_nans); /* how many are wanted */
    if (known && fac__order_is_few(o, j->first + j->count)) {
        fac__order_few(o, row, j->steps[2], j->first + j->count);
        write_entries(j, c, o);
        return;
    }
    if (j->one) {
        write_entry(j, c, 0, chosen(j, o, row));
        return;
    }
    fac__order_load(o, row, j->steps[2]);
    if (j->select)
        fac__order_first(o, j->first + j->count);
    else
        fac__order_sort(o);
    write_entries(j, c, o);
}

/* ---- short rows, several at a time ---------------------------------------------------------------------------------------- */

enum { SHORT_ROW = 24, MANY_ROWS = 8 };

/* Which entry a row is asked for. */
static int64_t wanted(const sort_job *j, const uint64_t (*keys)[FAC_RANKED_ROWS],
                      const uint64_t (*ranks)[FAC_RANKED_ROWS], int r) {
    uint64_t ordered[SHORT_ROW];
    for (int64_t i = 0; j->mode && i < j->n; i++) ordered[ranks[i][r]] = keys[i][r];
    if (j->mode) return end_of_longest_run(&j->order, ordered);
    const uint64_t nan = j->nan_first || j->skip_nans ? fac__nan_key(j->dtype) : 0;
    int64_t numbers = j->n;
    for (int64_t i = 0; nan && i < j->n; i++) numbers -= keys[i][r] == nan;
    if (j->skip_nans) return ((numbers ? numbers : j->n) - 1) / 2;
    return numbers < j->n ? numbers : j->first; /* the first NaN */
}

/* m rows from the cursor on, neighbours in the walk. */
static void order_short(const sort_job *j, const fac_cursor *c, int64_t m) {
    uint64_t keys[SHORT_ROW][FAC_RANKED_ROWS], ranks[SHORT_ROW][FAC_RANKED_ROWS];
    const int64_t item = fac__dtype_size(j->dtype);
    const int64_t next[3] = {fac__nest_step(&j->rows, 0), fac__nest_step(&j->rows, 1), fac__nest_step(&j->rows, 2)};
    const uint64_t flip = j->descending ? ~(uint64_t)0 >> (64 - fac__key_bits(j->dtype)) : 0;
    const char *src = j->self + c->offset[2] * item;
    char *dst = j->values + c->offset[0] * item;
    int64_t *indices = j->indices + c->offset[1];
    if (m < FAC_RANKED_ROWS) memset(keys, 0, sizeof keys);
    for (int64_t i = 0; i < j->n; i++)
        FAC_ISA_PICK(fac__keys)(j->dtype, src + i * j->steps[2] * item, next[2], m, flip, keys[i]);
    FAC_ISA_PICK(fac__ranks)(keys, j->n, ranks);
    for (int r = 0; r < (int)m; r++) {
        const uint64_t first = (uint64_t)(j->one ? wanted(j, keys, ranks, r) : j->first);
#define VALUES(T)                                                                                    \
    for (int64_t i = 0; i < j->n; i++) {                                                             \
        const uint64_t to = ranks[i][r] - first;                                                     \
        if (to >= (uint64_t)j->count) continue;                                                      \
        const int64_t k = (int64_t)to;                                                               \
        ((T *)dst)[r * next[0] + k * j->steps[0]] = ((const T *)src)[r * next[2] + i * j->steps[2]]; \
        indices[r * next[1] + k * j->steps[1]] = i;                                                  \
    }
        FAC_ITEM_SWITCH(item, VALUES)
#undef VALUES
    }
}

static bool takes_short(const sort_job *j) {
    return j->n <= SHORT_ROW && j->rows.ndim > 0 && j->rows.size[0] >= MANY_ROWS;
}

static fac_status sort_short_rows(void *ctx, int64_t begin, int64_t end) {
    const sort_job *j = ctx;
    fac_cursor c;
    fac__nest_seek(&j->rows, 3, begin, &c);
    for (int64_t r = begin, m; r < end; r += m, fac__nest_advance(&j->rows, 3, m, &c)) {
        m = fac__min(fac__min(FAC_RANKED_ROWS, fac__nest_run(&j->rows, &c)), end - r);
        order_short(j, &c, m);
    }
    return FAC_OK;
}

static fac_status sort_rows(void *ctx, int64_t begin, int64_t end, void *scratch) {
    const sort_job *j = ctx;
    fac_order o = j->order;
    fac_cursor c;
    fac__order_use(&o, scratch);
    for (int64_t r = begin; r < end; r++) {
        fac__nest_seek(&j->rows, 3, r, &c);
        order_row(j, &c, &o);
    }
    return FAC_OK;
}

/* ---- outputs ------------------------------------------------------------------------------------------------------------------ */

/* Strides of an output over self's dimensions: where the sorted dimension is missing from it, 0 stands in. */
static void strides_over(const fac_tensor *out, const fac_tensor *self, int64_t d, int64_t *strides) {
    bool missing = out->ndim < self->ndim;
    for (int e = 0, from = 0; e < self->ndim; e++) strides[e] = missing && e == d ? 0 : out->strides[from++];
}

static fac_status order_rows(sort_job *j, fac_tensor *const t[3], int64_t d) {
    int64_t values[FAC_MAX_DIMS], indices[FAC_MAX_DIMS];
    fac_tensor *self = t[2];
    const int64_t *strides[3] = {values, indices, self->strides};
    strides_over(t[0], self, d, values);
    strides_over(t[1], self, d, indices);
    j->values = fac__data(t[0]), j->indices = fac__data(t[1]), j->self = fac__data(self);
    for (int k = 0; k < 3; k++) j->steps[k] = self->ndim ? strides[k][d] : 1;
    fac__nest_build(&j->rows, self->sizes, self->ndim, self->ndim ? ~((uint64_t)1 << d) : 0, 3, strides, false);
    FAC_TRY(fac__order_plan(&j->order, j->dtype, j->n, j->descending));
    if (takes_short(j)) return fac__parallel_for(0, j->rows.count, fac__grain(FAC_GRAIN / 8, j->n), sort_short_rows, j);
    return fac__parallel_for_scratch(0, j->rows.count, fac__grain(FAC_GRAIN / 8, j->n), j->order.bytes, sort_rows, j);
}

/* t with dimension d last. */
static fac_status moved_last(fac_tensor *t, int64_t d, fac_tensor **out) {
    int64_t sizes[FAC_MAX_DIMS], strides[FAC_MAX_DIMS];
    int n = 0;
    for (int e = 0; e < t->ndim; e++)
        if (e != d) sizes[n] = t->sizes[e], strides[n++] = t->strides[e];
    sizes[n] = t->sizes[d], strides[n++] = t->strides[d];
    return fac__view(t, sizes, strides, n, t->offset, false, out);
}

/* Rows whose elements are that far apart are copied side by side, and what is made of them back. */
static bool is_scattered(const fac_tensor *t, int64_t d) {
    enum { NEAR_BYTES = 32 };
    return t->ndim > 1 && t->numel > t->sizes[d] &&
           t->strides[d] * (int64_t)fac__dtype_size((fac_dtype)t->dtype) > NEAR_BYTES;
}

static fac_status order_scattered(sort_job *j, fac_tensor *const t[3], int64_t d) {
    fac_tensor *seen[3] = {NULL}, *near[3] = {NULL}, *use[3];
    fac_status st = FAC_OK;
    for (int k = 2; k >= 0 && st == FAC_OK; k--) {
        const bool missing = t[k]->ndim < t[2]->ndim;
        st = missing ? fac__alias(t[k], true, &seen[k]) : moved_last(t[k], d, &seen[k]);
        if (st != FAC_OK) break;
        if (k == 2)
            st = fac__cpu_contiguous(seen[k], &near[k]);
        else if (!missing && is_scattered(t[k], d))
            st = fac__empty(seen[k]->sizes, seen[k]->ndim, (fac_dtype)t[k]->dtype, t[k]->device, &near[k]);
        use[k] = near[k] ? near[k] : seen[k];
    }
    if (st == FAC_OK) st = order_rows(j, use, t[2]->ndim - 1);
    for (int k = 0; k < 2 && st == FAC_OK; k++)
        if (near[k]) st = fac__copy_below(seen[k], near[k]);
    for (int k = 0; k < 3; k++) {
        fac__unref(near[k]);
        fac__unref(seen[k]);
    }
    return st;
}

static fac_status order_all(fac_structured *s, fac_tensor *self, sort_job *j) {
    const int64_t d = s->carry[0];
    fac_tensor *const t[3] = {s->out[0], s->out[1], self};
    if (s->out[0]->numel == 0) return FAC_OK;
    j->dtype = (fac_dtype)self->dtype;
    j->n = self->ndim ? self->sizes[d] : 1;
    return is_scattered(self, d) && j->n > SHORT_ROW ? order_scattered(j, t, d) : order_rows(j, t, d);
}

static fac_status sort_whole(fac_structured *s, fac_tensor *self, bool descending) {
    sort_job j = {.descending = descending, .count = self->ndim ? self->sizes[s->carry[0]] : 1};
    return order_all(s, self, &j);
}

fac_status sort_cpu(fac_structured *s, fac_tensor *self, int64_t dim, bool descending) {
    (void)dim;
    return sort_whole(s, self, descending);
}

fac_status sort_stable_cpu(fac_structured *s, fac_tensor *self, fac_opt_num stable, int64_t dim, bool descending) {
    (void)stable, (void)dim; /* every sort is stable */
    return sort_whole(s, self, descending);
}

fac_status topk_cpu(fac_structured *s, fac_tensor *self, int64_t k, int64_t dim, bool largest, bool sorted) {
    (void)dim, (void)sorted;
    sort_job j = {.descending = largest, .select = true, .count = self->ndim ? k : 1}; /* one number is its own top 0 */
    return order_all(s, self, &j);
}

fac_status kthvalue_cpu(fac_structured *s, fac_tensor *self, int64_t k, int64_t dim, bool keepdim) {
    (void)dim, (void)keepdim;
    sort_job j = {.one = true, .first = k - 1, .count = 1};
    return order_all(s, self, &j);
}

fac_status median_cpu(fac_structured *s, fac_tensor *self, int64_t dim, bool keepdim) {
    (void)dim, (void)keepdim;
    int64_t n = self->ndim ? self->sizes[s->carry[0]] : 1;
    sort_job j = {.one = true, .nan_first = true, .first = (n - 1) / 2, .count = 1};
    return order_all(s, self, &j);
}

fac_status nanmedian_cpu(fac_structured *s, fac_tensor *self, int64_t dim, bool keepdim) {
    (void)dim, (void)keepdim;
    sort_job j = {.one = true, .skip_nans = true, .count = 1};
    return order_all(s, self, &j);
}

fac_status mode_cpu(fac_structured *s, fac_tensor *self, int64_t dim, bool keepdim) {
    (void)dim, (void)keepdim;
    sort_job j = {.one = true, .mode = true, .count = 1};
    return order_all(s, self, &j);
}
