/* Sorting, selecting, searching. Each row along the dimension is ordered on its own (order.h); rows are shared out to
   threads. Values are copied from the row by position, so that every NaN and zero keeps its bits. */
#include "backend/cpu/kernels/items.h"
#include "backend/cpu/kernels/order.h"
#include "backend/cpu/parallel.h"
#include "iter/nest.h"
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

/* Position of the first NaN of the row just loaded (in ascending order), or -1. */
static int64_t first_nan(const fac_order *o) {
    const uint64_t nan = fac__nan_key(o->dtype);
    for (int64_t i = 0; nan && i < o->n; i++)
        if (fac__order_key(o, i) == nan) return i;
    return -1;
}

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

/* Number of elements of the row just loaded that are not NaN; of the whole row if all are. */
static int64_t count_numbers(const fac_order *o) {
    const uint64_t nan = fac__nan_key(o->dtype);
    int64_t n = o->n;
    for (int64_t i = 0; nan && i < o->n; i++) n -= fac__order_key(o, i) == nan;
    return n ? n : o->n;
}

/* The last entry of the longest run of equal ones, the first of several, in an ordered row; a NaN is equal to nothing. */
static int64_t end_of_longest_run(const fac_order *o) {
    const uint64_t nan = fac__nan_key(o->dtype);
    int64_t best = 0, longest = 0;
    for (int64_t i = 0, begin = 0; i < o->n; i++) {
        const uint64_t key = fac__order_key(o, i);
        if (i + 1 < o->n && key == fac__order_key(o, i + 1) && !(nan && key == nan)) continue;
        if (i + 1 - begin > longest) longest = i + 1 - begin, best = i;
        begin = i + 1;
    }
    return best;
}

/* Of a row whose result is one of its elements: the position of that. */
static int64_t chosen(const sort_job *j, fac_order *o) {
    const int64_t nan = j->nan_first ? first_nan(o) : -1;
    if (nan >= 0) return nan;
    if (!j->mode) return fac__order_nth(o, j->skip_nans ? (count_numbers(o) - 1) / 2 + 1 : j->first + 1);
    fac__order_sort(o);
    return fac__order_at(o, end_of_longest_run(o));
}

static void order_row(const sort_job *j, const fac_cursor *c, fac_order *o) {
    fac__order_load(o, j->self + c->offset[2] * fac__dtype_size(j->dtype), j->steps[2]);
    if (j->one) {
        write_entry(j, c, 0, chosen(j, o));
        return;
    }
    if (j->select)
        fac__order_first(o, j->first + j->count);
    else
        fac__order_sort(o);
    write_entries(j, c, o);
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

static fac_status order_all(fac_structured *s, fac_tensor *self, sort_job *j) {
    int64_t d = s->carry[0], values[FAC_MAX_DIMS], indices[FAC_MAX_DIMS];
    const int64_t *strides[3] = {values, indices, self->strides};
    if (s->out[0]->numel == 0) return FAC_OK;
    strides_over(s->out[0], self, d, values);
    strides_over(s->out[1], self, d, indices);
    j->dtype = (fac_dtype)self->dtype;
    j->values = fac__data(s->out[0]), j->indices = fac__data(s->out[1]), j->self = fac__data(self);
    for (int k = 0; k < 3; k++) j->steps[k] = self->ndim ? strides[k][d] : 1;
    j->n = self->ndim ? self->sizes[d] : 1;
    fac__nest_build(&j->rows, self->sizes, self->ndim, self->ndim ? ~((uint64_t)1 << d) : 0, 3, strides, false);
    FAC_TRY(fac__order_plan(&j->order, j->dtype, j->n, j->descending));
    return fac__parallel_for_scratch(0, j->rows.count, fac__grain(FAC_GRAIN / 8, j->n), j->order.bytes, sort_rows, j);
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
