/* Binary search in sorted rows, and unique values. Elements are compared by their order keys, so NaN comes last; a search
   treats it as lower_nans says. */
#include "backend/cpu/kernels/items.h"
#include "backend/cpu/kernels/order.h"
#include "backend/cpu/parallel.h"
#include "core/tensor_make.h"
#include "ops/composite/below.h"
#include "ops/composite/unique.h"
#include "ops_gen.h"

/* ---- searchsorted ---------------------------------------------------------------------------------------------------------- */

typedef struct search_job {
    const uint64_t *boundaries, *values; /* [rows or 1, n] and [rows, m] */
    int64_t n, m;
    bool shared, right, narrow;
    void *out;
} search_job;

static fac_status search_range(void *ctx, int64_t begin, int64_t end) {
    const search_job *j = ctx;
    for (int64_t i = begin, some; i < end; i += some) {
        const int64_t row = j->shared ? 0 : i / j->m;
        uint64_t values[FAC_SEARCHES];
        int64_t at[FAC_SEARCHES];
        some = fac__min(FAC_SEARCHES, (j->shared ? end : fac__min(end, (row + 1) * j->m)) - i);
        /* Those that are not above a value are below the next key; there is none after the last. */
        for (int64_t k = 0; k < FAC_SEARCHES; k++) {
            const uint64_t v = j->values[i + fac__min(k, some - 1)];
            values[k] = v + (j->right && v != UINT64_MAX);
        }
        FAC_ISA_PICK(fac__places)(j->boundaries + row * j->n, j->n, values, at);
        for (int64_t k = 0; k < some; k++) {
            const int64_t place = j->right && j->values[i + k] == UINT64_MAX ? j->n : at[k];
            if (j->narrow)
                ((int32_t *)j->out)[i + k] = (int32_t)place;
            else
                ((int64_t *)j->out)[i + k] = place;
        }
    }
    return FAC_OK;
}

static fac_status converted(fac_tensor *t, fac_dtype dtype, fac_tensor **out) {
    if (t->dtype == dtype) return fac__cpu_contiguous(t, out);
    FAC_TRY(fac__empty(t->sizes, t->ndim, dtype, t->device, out));
    fac_status st = fac__copy_below(*out, t);
    if (st != FAC_OK) fac__unref(*out);
    return st;
}

typedef struct keys_job {
    fac_dtype dtype;
    const char *from;
    uint64_t *to;
} keys_job;

static fac_status keys_range(void *ctx, int64_t begin, int64_t end) {
    const keys_job *j = ctx;
    FAC_ISA_PICK(fac__keys)
    (j->dtype, j->from + begin * (int64_t)fac__dtype_size(j->dtype), 1, end - begin, 0, j->to + begin);
    return FAC_OK;
}

/* Keys of a tensor's elements as of this dtype, row-major; taken in the order of `sorter` within each row of n, if there is one. */
static fac_status keys_of(fac_tensor *t, fac_dtype dtype, fac_tensor *sorter, int64_t n, uint64_t **out) {
    fac_tensor *rows, *order = NULL;
    uint64_t *plain = fac__alloc_array((size_t)t->numel, sizeof *plain);
    if (!plain) return fac_error();
    fac_status st = converted(t, dtype, &rows);
    if (st == FAC_OK) {
        keys_job j = {dtype, fac__data(rows), plain};
        (void)fac__parallel_for(0, t->numel, FAC_GRAIN, keys_range, &j); /* fails for nothing */
        fac__unref(rows);
    }
    if (st == FAC_OK && sorter && t->numel) {
        uint64_t *sorted = fac__alloc_array((size_t)t->numel, sizeof *sorted);
        st = sorted ? fac__cpu_contiguous(sorter, &order) : fac_error();
        const int64_t *at = order ? fac__data(order) : NULL;
        for (int64_t i = 0; i < t->numel && st == FAC_OK; i++) {
            if (at[i] < 0 || at[i] >= n)
                st = FAC_FAIL(FAC_ERR_INDEX, "sorter index %lld is out of range [0, %lld)", (long long)at[i],
                              (long long)n);
            else
                sorted[i] = plain[i / n * n + at[i]];
        }
        fac__unref(order);
        fac__free(plain);
        plain = sorted;
    }
    if (st != FAC_OK)
        fac__free(plain);
    else
        *out = plain;
    return st;
}

/* The dtype in which boundaries and values are compared. */
static fac_dtype common_dtype(const fac_tensor *seq, const fac_tensor *self) {
    fac_promotion types = {0};
    fac__promote_tensor(&types, seq);
    fac__promote_tensor(&types, self);
    return fac__promote_result(&types);
}

static fac_status check_search(const fac_tensor *seq, const fac_tensor *self, bool right, const char *side,
                               const fac_tensor *sorter) {
    FAC_CHECK(seq->ndim > 0, FAC_ERR_SHAPE, "the boundaries tensor should have at least one dimension");
    FAC_CHECK(fac__key_bits(common_dtype(seq, self)), FAC_ERR_DTYPE, "not implemented for %s",
              fac_dtype_name(common_dtype(seq, self)));
    FAC_CHECK(!side || strcmp(side, "left") == 0 || strcmp(side, "right") == 0, FAC_ERR_ARGUMENT,
              "side can only be 'left' or 'right' but got %s", side);
    FAC_CHECK(!side || !right || strcmp(side, "right") == 0, FAC_ERR_ARGUMENT,
              "side and right can't be set to opposites, got side of left while right was True");
    FAC_CHECK(!sorter || (sorter->dtype == FAC_I64 && fac__same_sizes(sorter, seq)), FAC_ERR_SHAPE,
              "sorter should be int64 and of the boundary tensor's sizes %s", FAC_SHAPE_TEXT(seq));
    bool rows = seq->ndim == 1 || (seq->ndim == self->ndim &&
                                   memcmp(seq->sizes, self->sizes, (size_t)(seq->ndim - 1) * sizeof(int64_t)) == 0);
    FAC_CHECK(
        rows, FAC_ERR_SHAPE,
        "boundaries tensor should be 1 dimension or the first N-1 dimensions of boundaries tensor and input value "
        "tensor must match, but we got boundaries tensor %s and input value tensor %s",
        FAC_SHAPE_TEXT(seq), FAC_SHAPE_TEXT(self));
    return FAC_OK;
}

/* A NaN among the boundaries is below every value, a NaN value above every boundary: a search from NaN on goes right. */
static void lower_nans(uint64_t *keys, int64_t n, fac_dtype d) {
    if (!fac_dtype_is_floating(d)) return;
    const uint64_t nan = fac__nan_key(d);
    for (int64_t i = 0; i < n; i++)
        if (keys[i] == nan) keys[i] = 0;
}

static fac_status search_all(fac_tensor *seq, fac_tensor *self, fac_tensor *sorter, bool right, fac_tensor *out) {
    uint64_t *boundaries = NULL, *values = NULL;
    int64_t n = seq->sizes[seq->ndim - 1];
    if (self->numel == 0) return FAC_OK;
    const fac_dtype dtype = common_dtype(seq, self);
    FAC_TRY(keys_of(seq, dtype, sorter, n, &boundaries));
    lower_nans(boundaries, seq->numel, dtype);
    fac_status st = keys_of(self, dtype, NULL, 1, &values);
    if (st == FAC_OK) {
        search_job j = {boundaries,
                        values,
                        n,
                        self->ndim ? self->sizes[self->ndim - 1] : 1,
                        seq->ndim == 1,
                        right,
                        out->dtype == FAC_I32,
                        fac__data(out)};
        st = fac__parallel_for(0, self->numel, FAC_GRAIN / 8, search_range, &j);
    }
    fac__free(boundaries);
    fac__free(values);
    return st;
}

static fac_status search_empty(fac_tensor *seq, fac_tensor *self, bool out_int32, bool right, const char *side,
                               fac_tensor *sorter, fac_tensor **out) {
    FAC_TRY(check_search(seq, self, right, side, sorter));
    FAC_CHECK(!out_int32 || seq->sizes[seq->ndim - 1] < INT32_MAX, FAC_ERR_OVERFLOW,
              "the size of boundaries' last dimension should be less than 2^31 - 1 when out_int32 is true");
    return fac__empty(self->sizes, self->ndim, out_int32 ? FAC_I32 : FAC_I64, self->device, out);
}

fac_status searchsorted_cpu(const fac_call_info *c, fac_tensor *sorted_sequence, fac_tensor *self, bool out_int32,
                            bool right, const char *side, fac_tensor *sorter, fac_tensor **out) {
    (void)c;
    FAC_TRY(search_empty(sorted_sequence, self, out_int32, right, side, sorter, out));
    fac_status st = search_all(sorted_sequence, self, sorter, right || (side && strcmp(side, "right") == 0), *out);
    if (st != FAC_OK) fac__unref(*out), *out = NULL;
    return st;
}

fac_status searchsorted_meta(const fac_call_info *c, fac_tensor *sorted_sequence, fac_tensor *self, bool out_int32,
                             bool right, const char *side, fac_tensor *sorter, fac_tensor **out) {
    (void)c;
    return search_empty(sorted_sequence, self, out_int32, right, side, sorter, out);
}

/* ---- unique ------------------------------------------------------------------------------------------------------------------- */

/* Groups of equal neighbours among the entries of `order`, elements of a row-major tensor. */
typedef struct groups {
    fac_tensor *rows;
    const fac_order *order;
    int64_t n, count;
    uint64_t nan; /* this key is equal to nothing, not even itself; 0 if there is none */
} groups;

static bool begins_group(const groups *g, int64_t i) {
    if (i == 0) return true;
    uint64_t a = fac__order_key(g->order, i - 1), b = fac__order_key(g->order, i);
    return a != b || (g->nan && b == g->nan);
}

static void fill_groups(const groups *g, fac_tensor *values, int64_t *inverse, int64_t *counts) {
    size_t item = fac__dtype_size((fac_dtype)g->rows->dtype);
    int64_t group = -1;
    for (int64_t i = 0; i < g->n; i++) {
        int64_t at = fac__order_at(g->order, i);
        if (begins_group(g, i)) {
            group++;
            memcpy((char *)fac__data(values) + (size_t)group * item,
                   (const char *)fac__data(g->rows) + (size_t)at * item, item);
            if (counts) counts[group] = 0;
        }
        if (inverse) inverse[at] = group;
        if (counts) counts[group]++;
    }
}

/* out[0..2]: values, group of each element and size of each group; the last two are empty unless wanted. */
static fac_status make_groups(const groups *g, fac_tensor *self, bool inverse, bool counts, fac_tensor **out) {
    const int64_t none = 0;
    FAC_TRY(fac__empty(&g->count, 1, (fac_dtype)self->dtype, self->device, &out[0]));
    fac_status st = inverse ? fac__empty(self->sizes, self->ndim, FAC_I64, self->device, &out[1])
                            : fac__empty(&none, 1, FAC_I64, self->device, &out[1]);
    if (st == FAC_OK) st = fac__empty(counts ? &g->count : &none, 1, FAC_I64, self->device, &out[2]);
    if (st == FAC_OK) {
        fill_groups(g, out[0], inverse ? fac__data(out[1]) : NULL, counts ? fac__data(out[2]) : NULL);
        return FAC_OK;
    }
    for (int i = 0; i < 3; i++) {
        fac__unref(out[i]);
        out[i] = NULL;
    }
    return st;
}

static fac_status unique_runs(fac_tensor *self, bool inverse, bool counts, fac_tensor **out) {
    fac_tensor *rows;
    FAC_TRY(fac__cpu_contiguous(self, &rows));
    const fac_dtype d = (fac_dtype)self->dtype;
    const int64_t n = rows->numel, groups = FAC_ISA_PICK(fac__runs)(d, fac__data(rows), n, NULL, NULL, NULL), none = 0;
    fac_status st = fac__empty(&groups, 1, (fac_dtype)self->dtype, self->device, &out[0]);
    if (st == FAC_OK)
        st = inverse ? fac__empty(self->sizes, self->ndim, FAC_I64, self->device, &out[1])
                     : fac__empty(&none, 1, FAC_I64, self->device, &out[1]);
    if (st == FAC_OK) st = fac__empty(counts ? &groups : &none, 1, FAC_I64, self->device, &out[2]);
    if (st == FAC_OK) FAC_ISA_PICK(fac__runs)
    (d, fac__data(rows), n, fac__data(out[0]), inverse ? fac__data(out[1]) : NULL, counts ? fac__data(out[2]) : NULL);
    fac__unref(rows);
    for (int i = 0; st != FAC_OK && i < 3; i++) fac__unref(out[i]), out[i] = NULL;
    return st;
}

static fac_status unique(fac_tensor *self, bool sort, bool inverse, bool counts, fac_tensor **out) {
    fac_dtype d = (fac_dtype)self->dtype;
    fac_order o;
    groups g = {.n = self->numel};
    out[0] = out[1] = out[2] = NULL;
    fac_workspace scratch;
    FAC_TRY(fac__order_plan(&o, d, self->numel, false));
    FAC_TRY(fac__workspace_take(o.bytes, &scratch));
    fac__order_use(&o, scratch.at);
    fac_status st = fac__cpu_contiguous(self, &g.rows);
    if (st == FAC_OK) {
        fac__order_load(&o, fac__data(g.rows), 1);
        if (sort) fac__order_sort(&o);
        g.order = &o;
        g.nan = fac__nan_key(d);
        for (int64_t i = 0; i < g.n; i++) g.count += begins_group(&g, i);
        st = make_groups(&g, self, inverse, counts, out);
        fac__unref(g.rows);
    }
    fac__workspace_give(scratch);
    return st;
}

fac_status unique_cpu(const fac_call_info *c, fac_tensor *self, bool sorted, bool return_inverse, bool return_counts,
                      fac_tensor **out) {
    (void)c, (void)sorted; /* always in order */
    return unique(self, true, return_inverse, return_counts, out);
}

fac_status unique_consecutive_cpu(const fac_call_info *c, fac_tensor *self, bool return_inverse, bool return_counts,
                                  fac_opt_int dim, fac_tensor **out) {
    (void)c;
    if (dim.set) return fac__unique_slices(self, dim.v, out);
    const fac_dtype d = (fac_dtype)self->dtype;
    out[0] = out[1] = out[2] = NULL;
    return d == FAC_F32 || d == FAC_F64 || fac_dtype_is_integral(d, true)
               ? unique_runs(self, return_inverse, return_counts, out)
               : unique(self, false, return_inverse, return_counts, out);
}

static fac_status depends_on_data(void) {
    return FAC_FAIL(FAC_ERR_STATE, "the number of unique values depends on data, which meta tensors do not have");
}

fac_status unique_meta(const fac_call_info *c, fac_tensor *self, bool sorted, bool return_inverse, bool return_counts,
                       fac_tensor **out) {
    (void)c, (void)self, (void)sorted, (void)return_inverse, (void)return_counts, (void)out;
    return depends_on_data();
}

fac_status unique_consecutive_meta(const fac_call_info *c, fac_tensor *self, bool return_inverse, bool return_counts,
                                   fac_opt_int dim, fac_tensor **out) {
    (void)c, (void)self, (void)return_inverse, (void)return_counts, (void)dim, (void)out;
    return depends_on_data();
}

fac_status unique_dim_meta(const fac_call_info *c, fac_tensor *self, int64_t dim, bool sorted, bool return_inverse,
                           bool return_counts, fac_tensor **out) {
    (void)c, (void)self, (void)dim, (void)sorted, (void)return_inverse, (void)return_counts, (void)out;
    return depends_on_data();
}
