/* Bags of embeddings. Rows to bags: each bag reads its rows once, in order. Bags to rows, its gradient: the indices are sorted by
   row (a counting sort, which keeps the order of equals), and each row then reads the bags that it is in, as a bag reads rows.
   Sums are f32 (f64 for f64). A result is made by one thread, whatever their number. */
#include "backend/cpu/kernels/embedding_bag.h"
#include "backend/cpu/kernels/gather.h"
#include "backend/cpu/kernels/items.h"
#include "backend/cpu/kernels/tile.h"
#include "backend/cpu/parallel.h"
#include "core/tensor_make.h"
#include "ops/composite/below.h"
#include "ops_gen.h"

enum { MODE_SUM, MODE_MEAN, MODE_MAX };

/* ---- sums over lists of rows --------------------------------------------------------------------------------------------- */

typedef struct sum_job {
    fac_dtype dtype;
    fac_acc kind;
    const char *table; /* [*, width] */
    int64_t width;
    const int64_t *rows, *start; /* result o is made of entries [start[o], start[o + 1]) of rows */
    const char *scale;           /* per entry, in the kind; NULL: 1 */
    int64_t skip;
    const int64_t *divisor; /* per result; NULL: 1 */
    char *out;
} sum_job;

static void divide(const sum_job *j, void *row, int64_t by) {
    for (int64_t k = 0; k < j->width && by > 1; k++) {
        if (j->kind == FAC_ACC_F64)
            ((double *)row)[k] /= (double)by;
        else
            ((float *)row)[k] /= (float)by;
    }
}

/* The sum of entries [begin, begin + n) into a row of the kind. */
static void sum_entries(const sum_job *j, int64_t begin, int64_t n, void *sum) {
    const int64_t *rows = j->rows + begin;
    const void *scale = j->scale ? j->scale + begin * (int64_t)fac__acc_size(j->kind) : NULL, *table = j->table;
    switch (j->dtype) {
    case FAC_F64: FAC_ISA_PICK(fac__bag_sum_f64)(table, j->width, rows, scale, n, j->skip, sum); break;
    case FAC_F16: FAC_ISA_PICK(fac__bag_sum_f16)(table, j->width, rows, scale, n, j->skip, sum); break;
    case FAC_BF16: FAC_ISA_PICK(fac__bag_sum_bf16)(table, j->width, rows, scale, n, j->skip, sum); break;
    default: FAC_ISA_PICK(fac__bag_sum_f32)(table, j->width, rows, scale, n, j->skip, sum); break;
    }
}

/* room: a row of floats, for halves. */
static void sum_one(const sum_job *j, int64_t o, float *room) {
    const bool half = fac__is_half(j->dtype);
    char *out = j->out + o * j->width * fac__dtype_size(j->dtype);
    void *row = half ? (void *)room : out;
    sum_entries(j, j->start[o], j->start[o + 1] - j->start[o], row);
    if (j->divisor) divide(j, row, j->divisor[o]);
    if (half) fac__tile_store(FAC_ACC_F32, room, out, j->dtype, 1, j->width);
}

static fac_status sum_range(void *ctx, int64_t begin, int64_t end, void *room) {
    for (int64_t o = begin; o < end; o++) sum_one(ctx, o, room);
    return FAC_OK;
}

/* `entries`: how many there are in all. */
static fac_status run_sums(const sum_job *j, int64_t results, int64_t entries) {
    const int64_t each = fac__mul_or_max(j->width, 1 + entries / fac__max(1, results));
    const bool half = fac__is_half(j->dtype);
    return fac__parallel_for_scratch(0, results, fac__grain(FAC_GRAIN, each),
                                     half ? fac__mul_or_max(j->width, sizeof(float)) : 0, sum_range,
                                     (void *)(uintptr_t)j);
}

/* The weights of samples in the kind that sums; NULL if there are none. */
static fac_status load_scale(fac_acc kind, fac_tensor *weights, char **out) {
    *out = NULL;
    if (!weights || !weights->numel) return FAC_OK;
    *out = fac__alloc_array((size_t)weights->numel, fac__acc_size(kind));
    if (!*out) return fac_error();
    fac__tile_load(kind, *out, fac__data(weights), (fac_dtype)weights->dtype, weights->strides[0], weights->numel);
    return FAC_OK;
}

static fac_acc kind_of(const fac_tensor *t) { return t->dtype == FAC_F64 ? FAC_ACC_F64 : FAC_ACC_F32; }

/* ---- rows to bags ---------------------------------------------------------------------------------------------------------- */

typedef struct bags {
    fac_tensor *table, *owned_indices, *owned_offsets; /* owned */
    const int64_t *indices, *offsets;
    int64_t n, count, padding;
    int64_t *start; /* owned: [count + 1] */
} bags;

static void bags_free(bags *b) {
    fac__unref(b->table);
    fac__unref(b->owned_indices);
    fac__unref(b->owned_offsets);
    fac__free(b->start);
}

/* Bags begin where they say, in order; the last one ends with the indices unless its end was given. */
static fac_status start_bags(bags *b, bool ends) {
    b->start = fac__alloc_array((size_t)b->count + 1, sizeof *b->start);
    if (!b->start) return fac_error();
    b->start[b->count] = ends ? b->offsets[b->count] : b->n;
    for (int64_t i = 0; i < b->count; i++) b->start[i] = b->offsets[i];
    FAC_CHECK(
        b->start[0] == 0 || (!ends && !b->count), FAC_ERR_ARGUMENT,
        "offsets[0] has to be 0, i.e., the first sequence in the mini-batch has to start from position 0. However, got %lld",
        (long long)b->start[0]);
    for (int64_t i = 0; i < b->count + 1; i++) {
        FAC_CHECK(b->start[i] >= 0 && b->start[i] <= b->n, FAC_ERR_ARGUMENT,
                  "offsets[%lld] can not be greater than input's length(%lld), got %lld", (long long)i, (long long)b->n,
                  (long long)b->start[i]);
        FAC_CHECK(i == 0 || b->start[i] >= b->start[i - 1], FAC_ERR_ARGUMENT,
                  "offsets must not decrease, but offsets[%lld] is %lld after %lld", (long long)i,
                  (long long)b->start[i], (long long)b->start[i - 1]);
    }
    return FAC_OK;
}

static fac_status open_bags(bags *b, fac_tensor *weight, fac_tensor *indices, fac_tensor *offsets, bool ends) {
    FAC_TRY(fac__index_array(indices, &b->owned_indices, &b->indices));
    FAC_TRY(fac__index_array(offsets, &b->owned_offsets, &b->offsets));
    FAC_TRY(fac__cpu_contiguous(weight, &b->table));
    b->n = indices->numel;
    b->count = offsets->numel - ends;
    FAC_TRY(start_bags(b, ends));
    return fac__check_indices(b->indices, b->n, 0, weight->sizes[0], false);
}

/* The bag of each index, -1 after the last one, and how many of a bag's indices count. */
static void number_bags(const bags *b, int64_t *bag_of, int64_t *size) {
    for (int64_t g = 0; g < b->count; g++) {
        const int64_t begin = b->start[g], end = b->start[g + 1];
        int64_t padding = 0;
        for (int64_t i = begin; i < end; i++) bag_of[i] = g;
        for (int64_t i = begin; i < end && b->padding >= 0; i++) padding += b->indices[i] == b->padding;
        size[g] = end - begin - padding;
    }
    for (int64_t i = b->count ? b->start[b->count] : 0; i < b->n; i++) bag_of[i] = -1;
}

typedef struct max_job {
    const bags *b;
    fac_dtype dtype;
    fac_acc kind;
    int64_t width;
    char *out;
    int64_t *from;
} max_job;

/* room: two rows in the kind. An empty bag has zeros, from row 0. */
static void max_one(const max_job *j, int64_t g, char *room) {
    const int64_t item = fac__dtype_size(j->dtype), acc = (int64_t)fac__acc_size(j->kind);
    int64_t *from = j->from + g * j->width;
    char *best = room, *row = room + j->width * acc;
    bool first = true;
    memset(best, 0, (size_t)(j->width * acc));
    memset(from, 0, (size_t)j->width * sizeof *from);
    for (int64_t i = j->b->start[g]; i < j->b->start[g + 1]; i++) {
        const int64_t index = j->b->indices[i];
        if (index == j->b->padding) continue;
        fac__tile_load(j->kind, row, (const char *)fac__data(j->b->table) + index * j->width * item, j->dtype, 1,
                       j->width);
        if (j->kind == FAC_ACC_F64) FAC_ISA_PICK(fac__bag_max_f64)
        ((double *)(void *)best, from, (const double *)(void *)row, index, first, j->width);
        else FAC_ISA_PICK(fac__bag_max_f32)((float *)(void *)best, from, (const float *)(void *)row, index, first,
                                            j->width);
        first = false;
    }
    fac__tile_store(j->kind, best, j->out + g * j->width * item, j->dtype, 1, j->width);
}

static fac_status max_range(void *ctx, int64_t begin, int64_t end, void *room) {
    for (int64_t g = begin; g < end; g++) max_one(ctx, g, room);
    return FAC_OK;
}

static fac_status fill_bags(const fac_structured *s, const bags *b, int64_t mode, fac_tensor *weights) {
    fac_tensor *out = s->out[0];
    const int64_t width = out->sizes[1], each = fac__mul_or_max(width, 1 + b->n / fac__max(1, b->count));
    if (out->numel == 0) return FAC_OK;
    if (mode == MODE_MAX) {
        max_job j = {b, (fac_dtype)out->dtype, kind_of(out), width, fac__data(out), fac__data(s->out[3])};
        return fac__parallel_for_scratch(0, b->count, fac__grain(FAC_GRAIN, each),
                                         fac__mul_or_max(width, 2 * (int64_t)fac__acc_size(j.kind)), max_range, &j);
    }
    char *scale;
    sum_job j = {.dtype = (fac_dtype)out->dtype, .kind = kind_of(out), .table = fac__data(b->table), .width = width};
    j.rows = b->indices;
    j.start = b->start;
    j.skip = b->padding;
    j.divisor = mode == MODE_MEAN ? fac__data(s->out[2]) : NULL;
    j.out = fac__data(out);
    FAC_TRY(load_scale(j.kind, weights, &scale));
    j.scale = scale;
    fac_status st = run_sums(&j, b->count, b->n);
    fac__free(scale);
    return st;
}

fac_status _embedding_bag_cpu(fac_structured *s, fac_tensor *weight, fac_tensor *indices, fac_tensor *offsets,
                              bool scale_grad_by_freq, int64_t mode, bool sparse, fac_tensor *per_sample_weights,
                              bool include_last_offset, int64_t padding_idx) {
    (void)scale_grad_by_freq, (void)sparse;
    bags b = {.padding = padding_idx < 0 ? -1 : padding_idx};
    fac_status st = open_bags(&b, weight, indices, offsets, include_last_offset);
    if (st == FAC_OK) {
        number_bags(&b, fac__data(s->out[1]), fac__data(s->out[2]));
        st = fill_bags(s, &b, mode, per_sample_weights);
    }
    bags_free(&b);
    return st;
}

/* ---- bags to rows ------------------------------------------------------------------------------------------------------------ */

/* The indices that count, sorted by row. */
typedef struct sorted {
    fac_tensor *owned[5]; /* operands, row-major */
    const int64_t *indices, *bag_of, *bag_size, *from;
    fac_tensor *bags;
    int64_t n, rows, count, padding;
    int64_t *start, *bag; /* owned: [rows + 1]; the bag of each entry, [n] */
    char *scale;          /* owned: per entry; NULL: 1 */
} sorted;

static void sorted_free(sorted *s) {
    for (int i = 0; i < 5; i++) fac__unref(s->owned[i]);
    fac__free(s->start);
    fac__free(s->bag);
    fac__free(s->scale);
}

static bool counts(const sorted *s, int64_t i) { return s->indices[i] != s->padding && s->bag_of[i] >= 0; }

static fac_status open_sorted(sorted *s, fac_tensor *bags, fac_tensor *indices, fac_tensor *offset2bag,
                              fac_tensor *bag_size, fac_tensor *maximum_indices) {
    FAC_TRY(fac__index_array(indices, &s->owned[0], &s->indices));
    FAC_TRY(fac__index_array(offset2bag, &s->owned[1], &s->bag_of));
    FAC_TRY(fac__index_array(bag_size, &s->owned[2], &s->bag_size));
    FAC_TRY(fac__index_array(maximum_indices, &s->owned[3], &s->from));
    FAC_TRY(fac__cpu_contiguous(bags, &s->owned[4]));
    s->bags = s->owned[4];
    s->n = indices->numel;
    s->count = bags->sizes[0];
    FAC_TRY(fac__check_indices(s->indices, s->n, 0, s->rows, false));
    for (int64_t i = 0; i < s->n; i++)
        FAC_CHECK(s->bag_of[i] >= -1 && s->bag_of[i] < s->count, FAC_ERR_INDEX,
                  "offset2bag[%lld] is %lld, but there are %lld bags", (long long)i, (long long)s->bag_of[i],
                  (long long)s->count);
    return FAC_OK;
}

/* What an index weighs: the weight of its sample, over how often its row is used and how large its bag is, if asked for. */
static double weight_of(const sorted *s, int64_t i, fac_acc kind, const char *weights, bool by_freq, int64_t mode) {
    double w = !weights              ? 1
               : kind == FAC_ACC_F64 ? ((const double *)(const void *)weights)[i]
                                     : (double)((const float *)(const void *)weights)[i];
    if (by_freq) w /= (double)(s->start[s->indices[i] + 1] - s->start[s->indices[i]]);
    if (mode == MODE_MEAN) w /= (double)fac__max(1, s->bag_size[s->bag_of[i]]);
    return w;
}

static fac_status sort_entries(sorted *s, fac_acc kind, bool by_freq, int64_t mode, const char *weights) {
    const bool scales = weights || by_freq || mode == MODE_MEAN;
    s->start = fac__alloc_zero(((size_t)s->rows + 2) * sizeof *s->start);
    s->bag = fac__alloc_array((size_t)s->n + 1, sizeof *s->bag);
    if (scales) s->scale = fac__alloc_array((size_t)s->n + 1, fac__acc_size(kind));
    if (!s->start || !s->bag || (scales && !s->scale)) return fac_error();
    int64_t *end = s->start + 1; /* where the next entry of a row goes; then its end, the next row's start */
    for (int64_t i = 0; i < s->n; i++) end[s->indices[i] + 1] += counts(s, i);
    for (int64_t r = 0; r <= s->rows; r++) end[r] += r ? end[r - 1] : 0;
    /* end[r] is the start of row r while entries are placed; frequencies are wanted before, so weights come in a second pass. */
    for (int64_t i = 0; i < s->n; i++)
        if (counts(s, i)) s->bag[end[s->indices[i]]++] = i;
    for (int64_t e = 0, last = s->start[s->rows]; e < last; e++) {
        const int64_t i = s->bag[e];
        if (scales && kind == FAC_ACC_F64)
            ((double *)(void *)s->scale)[e] = weight_of(s, i, kind, weights, by_freq, mode);
        else if (scales)
            ((float *)(void *)s->scale)[e] = (float)weight_of(s, i, kind, weights, by_freq, mode);
        s->bag[e] = s->bag_of[i];
    }
    return FAC_OK;
}

static fac_status sum_bags(const fac_structured *s, sorted *e, bool by_freq, int64_t mode, fac_tensor *weights) {
    fac_tensor *out = s->out[0];
    char *given;
    sum_job j = {
        .dtype = (fac_dtype)out->dtype, .kind = kind_of(out), .table = fac__data(e->bags), .width = out->sizes[1]};
    FAC_TRY(load_scale(j.kind, weights, &given));
    fac_status st = sort_entries(e, j.kind, by_freq, mode, given);
    fac__free(given);
    FAC_TRY(st);
    j.rows = e->bag;
    j.start = e->start;
    j.scale = e->scale;
    j.skip = -1;
    j.out = fac__data(out);
    return run_sums(&j, e->rows, e->n);
}

typedef struct spread_job {
    const sorted *e;
    fac_dtype dtype;
    const char *bags;
    char *out; /* f32 or f64 */
    int64_t width;
} spread_job;

/* Columns [begin, end): each bag's gradient goes to the row that its maximum is from. */
static fac_status spread_columns(void *ctx, int64_t begin, int64_t end) {
    const spread_job *j = ctx;
    for (int64_t g = 0; g < j->e->count; g++) {
        if (j->e->bag_size[g] == 0) continue;
        for (int64_t d = begin; d < end; d++) {
            const int64_t at = g * j->width + d, to = j->e->from[at] * j->width + d;
            if (j->dtype == FAC_F64)
                ((double *)(void *)j->out)[to] += ((const double *)(const void *)j->bags)[at];
            else
                ((float *)(void *)j->out)[to] += ((const float *)(const void *)j->bags)[at];
        }
    }
    return FAC_OK;
}

/* A tensor in float32 if it is of halves, else itself: owned. */
static fac_status widened(fac_tensor *t, bool copy, fac_tensor **out) {
    if (!fac__is_half((fac_dtype)t->dtype)) {
        *out = fac__ref(t);
        return FAC_OK;
    }
    FAC_TRY(fac__empty(t->sizes, t->ndim, FAC_F32, t->device, out));
    fac_status st = copy ? fac__copy_below(*out, t) : FAC_OK;
    if (st != FAC_OK) fac__unref(*out);
    return st;
}

static fac_status spread_maxima(const fac_structured *s, const sorted *e) {
    fac_tensor *out, *bags = NULL;
    for (int64_t i = 0; i < e->bags->numel; i++)
        FAC_CHECK(e->bag_size[i / e->bags->sizes[1]] == 0 || (e->from[i] >= 0 && e->from[i] < e->rows), FAC_ERR_INDEX,
                  "maximum_indices holds %lld, but there are %lld rows", (long long)e->from[i], (long long)e->rows);
    FAC_TRY(widened(s->out[0], false, &out));
    fac_status st = widened(e->bags, true, &bags);
    if (st == FAC_OK) st = fac__fill_below(out, fac_scalar_i_(0));
    if (st == FAC_OK && e->bags->numel) {
        spread_job j = {e, (fac_dtype)out->dtype, fac__data(bags), fac__data(out), out->sizes[1]};
        st = fac__parallel_for(0, j.width, fac__grain(FAC_GRAIN, e->count), spread_columns, &j);
    }
    if (st == FAC_OK && out != s->out[0]) st = fac__copy_below(s->out[0], out);
    fac__unref(bags);
    fac__unref(out);
    return st;
}

fac_status _embedding_bag_rows_cpu(fac_structured *s, fac_tensor *bags, fac_tensor *indices, fac_tensor *offset2bag,
                                   fac_tensor *bag_size, fac_tensor *maximum_indices, int64_t num_weights,
                                   bool scale_grad_by_freq, int64_t mode, fac_tensor *per_sample_weights,
                                   int64_t padding_idx) {
    sorted e = {.rows = num_weights, .padding = padding_idx < 0 ? -1 : padding_idx};
    fac_status st = open_sorted(&e, bags, indices, offset2bag, bag_size, maximum_indices);
    if (st == FAC_OK && s->out[0]->numel)
        st = mode == MODE_MAX ? spread_maxima(s, &e) : sum_bags(s, &e, scale_grad_by_freq, mode, per_sample_weights);
    sorted_free(&e);
    return st;
}
