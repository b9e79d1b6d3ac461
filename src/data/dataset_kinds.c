/* Kinds of data sets that are made of tensors or of other data sets. */
#include "core/tensor_make.h"
#include "core/thread.h"
#include "data/dataset.h"
#include "data/dataset_tensors.h"
#include "data/random.h"
#include "keywords_gen.h"
#include "ops/call.h"
#include <facula/ops.h>
#include <math.h>

static fac_status need_map_style(const fac_dataset *d, const char *what) {
    if (fac_error()) return fac_error();
    if (!fac__given(d, "data set")) return fac_error();
    FAC_CHECK(d->length >= 0, FAC_ERR_UNSUPPORTED, "%s of a stream is not possible: its samples have no numbers", what);
    return FAC_OK;
}

/* ---- tensors ------------------------------------------------------------------------------------------------------- */

typedef struct tensor_dataset {
    fac_dataset base;
    fac_tensor *v[]; /* headers, owned: aliases of the program's tensors, so that nobody else changes their geometry */
} tensor_dataset;

static fac_status tensors_get(fac_dataset *d, const fac_sample *at, fac_tensor **out) {
    const tensor_dataset *t = (tensor_dataset *)d;
    for (size_t i = 0; i < d->columns; i++)
        if (!(out[i] = fac_select(fac__handle(t->v[i]), 0, at->index))) return fac_error();
    return FAC_OK;
}

/* The chosen rows of a contiguous column of the CPU, as a new tensor of the innermost scope. */
static fac_tensor *gather_rows(const fac_tensor *column, const int64_t *chosen, int64_t n) {
    int64_t sizes[FAC_MAX_DIMS];
    memcpy(sizes, column->sizes, column->ndim * sizeof *sizes);
    sizes[0] = n;
    fac_tensor *t;
    FAC_TRY_NULL(fac__empty_stored(sizes, NULL, column->ndim, (fac_dtype)column->dtype, column->device, NULL, &t));
    fac__turn_pending(t, fac__pending(column)); /* bytes are copied as they lie */
    size_t row = n ? (size_t)(t->numel / n) * fac_dtype_size((fac_dtype)t->dtype) : 0;
    const char *from = fac__data(column);
    char *to = fac__data(t);
    for (int64_t i = 0; row && i < n; i++) memcpy(to + (size_t)i * row, from + (size_t)chosen[i] * row, row);
    return fac__adopt_handle(fac__thread(), t);
}

static fac_status tensors_gather(fac_dataset *d, const int64_t *indices, int64_t n, fac_tensor **out) {
    const tensor_dataset *t = (tensor_dataset *)d;
    for (size_t i = 0; i < d->columns; i++) {
        const fac_tensor *c = t->v[i];
        if (fac__is_cpu(c) && fac__is_contiguous(c))
            out[i] = gather_rows(c, indices, n);
        else
            out[i] = fac_index_select(fac__handle(c), 0,
                                      fac_to(fac_tensor_from(indices, FAC_I64, FAC_INTS(n)), .device = c->device));
        if (!out[i]) return fac_error();
    }
    return FAC_OK;
}

static void tensors_end(fac_dataset *d) {
    tensor_dataset *t = (tensor_dataset *)d;
    for (size_t i = 0; i < d->columns; i++) fac__unref(t->v[i]); /* NULL behind one that could not be made */
}

static const dataset_kind tensors_kind = {.get = tensors_get, .gather = tensors_gather, .end = tensors_end};

static fac_status check_column(fac_tensors columns, size_t i) {
    const fac_tensor *t = columns.v[i], *first = columns.v[0];
    FAC_CHECK(!t->cls, FAC_ERR_UNSUPPORTED, "column %zu is a %s tensor; make it strided by fac_to_dense", i,
              t->cls->name);
    FAC_CHECK(t->ndim > 0, FAC_ERR_SHAPE, "column %zu has no dimension to count samples along", i);
    FAC_CHECK(t->sizes[0] == first->sizes[0], FAC_ERR_SHAPE, "column %zu has %lld samples, but column 0 has %lld", i,
              (long long)t->sizes[0], (long long)first->sizes[0]);
    return FAC_OK;
}

fac_dataset *fac__dataset_of_headers(fac_tensors columns, const char *whose) {
    if (columns.n == 0 || !columns.v) return FAC_FAIL(FAC_ERR_ARGUMENT, "a %s needs at least one column", whose), NULL;
    for (size_t i = 0; i < columns.n; i++) FAC_TRY_NULL(check_column(columns, i));
    const size_t room = columns.n <= 1024 ? columns.n : 0;
    if (!room) return FAC_FAIL(FAC_ERR_ARGUMENT, "a sample has 1 to 1024 columns, not %zu", columns.n), NULL;
    tensor_dataset *t =
        fac__dataset_alloc(sizeof *t + room * sizeof *t->v, &tensors_kind, columns.v[0]->sizes[0], room);
    if (!t) return NULL;
    fac_status st = FAC_OK;
    for (size_t i = 0; i < columns.n && st == FAC_OK; i++) st = fac__alias(columns.v[i], true, &t->v[i]);
    if (st == FAC_OK) return &t->base;
    fac_dataset_release(&t->base);
    return NULL;
}

fac_dataset *fac_dataset_of_tensors(fac_tensors columns) {
    if (fac_error()) return NULL;
    fac_handle_list open;
    fac_dataset *d = NULL;
    if (fac__open_list(&open, columns, false, "dataset_of_tensors", "columns") == FAC_OK)
        d = fac__dataset_of_headers(open.l, "data set");
    fac__handle_list_free(&open);
    return d;
}

/* ---- subset ---------------------------------------------------------------------------------------------------------- */

typedef struct subset_dataset {
    fac_dataset base;
    fac_dataset *of; /* counted */
    int64_t *indices;
} subset_dataset;

static fac_status subset_get(fac_dataset *d, const fac_sample *at, fac_tensor **out) {
    const subset_dataset *s = (subset_dataset *)d;
    fac_sample there = *at;
    there.index = s->indices[at->index];
    return s->of->kind->get(s->of, &there, out);
}

static fac_status subset_gather(fac_dataset *d, const int64_t *indices, int64_t n, fac_tensor **out) {
    const subset_dataset *s = (subset_dataset *)d;
    int64_t *there = fac__alloc_array((size_t)n, sizeof *there);
    if (!there) return fac_error();
    for (int64_t i = 0; i < n; i++) there[i] = s->indices[indices[i]];
    fac_status st = s->of->kind->gather(s->of, there, n, out);
    fac__free(there);
    return st;
}

static void subset_end(fac_dataset *d) {
    subset_dataset *s = (subset_dataset *)d;
    fac_dataset_release(s->of);
    fac__free(s->indices);
}

static const dataset_kind subset_kind = {.get = subset_get, .end = subset_end},
                          subset_gathers = {.get = subset_get, .gather = subset_gather, .end = subset_end};

/* The indices are right. */
static fac_dataset *make_subset(fac_dataset *d, const int64_t *indices, size_t n) {
    const dataset_kind *kind = d->kind->gather ? &subset_gathers : &subset_kind;
    int64_t *copy = fac__alloc_array(n, sizeof *copy);
    subset_dataset *s = fac__dataset_alloc(sizeof *s, kind, (int64_t)n, d->columns);
    if (!copy || !s) {
        fac__free(copy);
        fac__free(s);
        return NULL;
    }
    if (n) memcpy(copy, indices, n * sizeof *copy);
    s->indices = copy;
    s->of = fac_dataset_keep(d);
    return &s->base;
}

fac_dataset *fac_dataset_subset(fac_dataset *d, fac_ints indices) {
    FAC_TRY_NULL(need_map_style(d, "a subset"));
    if (!fac__list_given(indices.v, indices.n, "indices")) return NULL;
    for (size_t i = 0; i < indices.n; i++)
        if (indices.v[i] < 0 || indices.v[i] >= d->length)
            return FAC_FAIL(FAC_ERR_INDEX, "index %zu of a subset is %lld: the data set has %lld samples", i,
                            (long long)indices.v[i], (long long)d->length),
                   NULL;
    return make_subset(d, indices.v, indices.n);
}

/* ---- random parts ---------------------------------------------------------------------------------------------------- */

/* Whether the lengths are parts of the whole, as PyTorch takes them. */
static bool are_parts(fac_floats lengths) {
    double sum = 0;
    for (size_t i = 0; i < lengths.n; i++) sum += lengths.v[i];
    return sum <= 1 && fabs(sum - 1) <= 1e-9;
}

static fac_status part_lengths(int64_t n, fac_floats lengths, int64_t *out) {
    const bool parts = are_parts(lengths);
    int64_t sum = 0;
    for (size_t i = 0; i < lengths.n; i++) {
        const double x = lengths.v[i];
        FAC_CHECK(parts ? x >= 0 && x <= 1 : x >= 0 && x <= 0x1p53 && x == floor(x), FAC_ERR_ARGUMENT,
                  "length %zu is %g: lengths are numbers of samples, or parts that make 1", i, x);
        out[i] = parts ? (int64_t)floor((double)n * x) : (int64_t)x;
        FAC_CHECK(fac__add(sum, out[i], &sum), FAC_ERR_OVERFLOW, "the sum of the lengths overflows");
    }
    for (size_t i = 0; parts && sum < n; i = (i + 1) % lengths.n) out[i]++, sum++;
    FAC_CHECK(sum == n, FAC_ERR_ARGUMENT, "the lengths make %lld, but the data set has %lld samples", (long long)sum,
              (long long)n);
    return FAC_OK;
}

static fac_status split(fac_dataset *d, const int64_t *order, const int64_t *lengths, size_t n, fac_dataset **out) {
    int64_t at = 0;
    for (size_t i = 0; i < n; at += lengths[i++])
        if (!(out[i] = make_subset(d, order + at, (size_t)lengths[i]))) {
            for (; i > 0; out[i] = NULL) fac_dataset_release(out[--i]);
            return fac_error();
        }
    return FAC_OK;
}

fac_status(fac_dataset_random_split)(fac_dataset *d, fac_floats lengths, fac_dataset **out,
                                     const fac_dataset_random_split_kw *kw) {
    fac_dataset_random_split_kw k;
    FAC_TRY(need_map_style(d, "a random split"));
    FAC_TRY(fac__open_dataset_random_split_kw(&k, kw));
    if (!fac__list_given(lengths.v, lengths.n, "lengths") || !fac__given(out, "place for the parts"))
        return fac_error();
    FAC_CHECK(lengths.n > 0, FAC_ERR_ARGUMENT, "there are no lengths to cut the data set into");
    int64_t *order = fac__alloc_array((size_t)d->length, sizeof *order);
    int64_t *numbers = fac__alloc_array(lengths.n, sizeof *numbers);
    fac_status st = order && numbers ? part_lengths(d->length, lengths, numbers) : fac_error();
    uint64_t state = (uint64_t)k.seed;
    if (st == FAC_OK) fac__split_mix_order(&state, order, d->length);
    if (st == FAC_OK) st = split(d, order, numbers, lengths.n, out);
    fac__free(order);
    fac__free(numbers);
    return st;
}

/* ---- one behind the other ---------------------------------------------------------------------------------------------- */

typedef struct concat_dataset {
    fac_dataset base;
    size_t n, now;     /* now: which of a stream's is drawn from */
    fac_tensor **room; /* for the raw columns of any of them */
    struct {
        fac_dataset *set; /* counted */
        int64_t begin;
    } v[];
} concat_dataset;

static fac_status concat_get(fac_dataset *d, const fac_sample *at, fac_tensor **out) {
    const concat_dataset *c = (concat_dataset *)d;
    size_t low = 0, high = c->n; /* the last one that begins at the index or before it and is not empty */
    while (high - low > 1) {
        const size_t middle = low + (high - low) / 2;
        if (c->v[middle].begin <= at->index)
            low = middle;
        else
            high = middle;
    }
    fac_sample there = *at;
    there.index -= c->v[low].begin;
    return c->v[low].set->kind->get(c->v[low].set, &there, out);
}

/* Which set a sample comes from is forgotten, so all of it is made here. */
static bool concat_draw(fac_dataset *d, const fac_sample *at, fac_tensor **out) {
    concat_dataset *c = (concat_dataset *)d;
    for (; c->now < c->n; c->now++) {
        fac_dataset *set = c->v[c->now].set;
        if (set->kind->draw(set, at, c->room))
            return fac__dataset_finish_inner(set, at, fac_tensors_of(c->room, set->raw_columns), out) == FAC_OK;
        if (fac_error()) return false;
    }
    return false;
}

static fac_status concat_start(fac_dataset *d, int64_t epoch) {
    concat_dataset *c = (concat_dataset *)d;
    c->now = 0;
    for (size_t i = 0; i < c->n; i++) FAC_TRY(fac__dataset_seek(c->v[i].set, epoch, 0));
    return FAC_OK;
}

static void concat_end(fac_dataset *d) {
    concat_dataset *c = (concat_dataset *)d;
    for (size_t i = 0; i < c->n; i++) fac_dataset_release(c->v[i].set);
    fac__free(c->room);
}

static const dataset_kind concat_map = {.get = concat_get, .end = concat_end},
                          concat_stream = {.draw = concat_draw, .start = concat_start, .end = concat_end};

/* Their length together, -1 for streams, and the most raw columns. */
static fac_status check_sets(fac_dataset *const *sets, size_t n, int64_t *out_length, size_t *out_raw) {
    FAC_CHECK(n > 0 && n <= SIZE_MAX / 64, FAC_ERR_ARGUMENT, "there are no data sets to join");
    for (size_t i = 0; i < n; i++) {
        if (!fac__given(sets[i], "data set")) return fac_error();
        FAC_CHECK((sets[i]->length < 0) == (sets[0]->length < 0), FAC_ERR_ARGUMENT,
                  "some of the data sets are streams and some are not, such as 0 and %zu", i);
        FAC_CHECK(sets[i]->columns == sets[0]->columns, FAC_ERR_ARGUMENT,
                  "data set %zu has %zu columns, but data set 0 has %zu", i, sets[i]->columns, sets[0]->columns);
        FAC_CHECK(sets[i]->length < 0 || fac__add(*out_length, sets[i]->length, out_length), FAC_ERR_OVERFLOW,
                  "the number of samples overflows");
        if (sets[i]->raw_columns > *out_raw) *out_raw = sets[i]->raw_columns;
    }
    if (sets[0]->length < 0) *out_length = -1;
    return FAC_OK;
}

fac_dataset *fac_dataset_concat(fac_dataset *const *sets, size_t n) {
    if (fac_error() || !fac__list_given(sets, n, "data sets")) return NULL;
    int64_t length = 0, at = 0;
    size_t raw = 0;
    FAC_TRY_NULL(check_sets(sets, n, &length, &raw));
    concat_dataset *c = NULL;
    fac_tensor **room = fac__alloc_array(raw, sizeof(fac_tensor *));
    if (room)
        c = fac__dataset_alloc(sizeof *c + n * sizeof *c->v, length < 0 ? &concat_stream : &concat_map, length,
                               sets[0]->columns);
    if (!c) {
        fac__free(room);
        return NULL;
    }
    c->room = room;
    for (size_t i = 0; i < n; i++) {
        if (sets[i]->length == 0) continue;
        c->v[c->n].set = fac_dataset_keep(sets[i]);
        c->v[c->n++].begin = at;
        at += length < 0 ? 0 : sets[i]->length;
    }
    return &c->base;
}

/* ---- changed samples --------------------------------------------------------------------------------------------------- */

typedef struct map_dataset {
    fac_dataset base;
    fac_dataset *of; /* counted */
    fac_dataset_map_fn fn;
    void *context;
} map_dataset;

static fac_status apply(const map_dataset *m, const fac_sample *at, fac_tensor **in, fac_tensor **out) {
    fac_status st;
    memset(out, 0, m->base.columns * sizeof *out);
    FAC_CALLBACK(st = m->fn(m->context, at, fac_tensors_of(in, m->of->columns), out));
    return fac__dataset_check(st, out, m->base.columns, "function over samples");
}

static fac_status map_get(fac_dataset *d, const fac_sample *at, fac_tensor **out) {
    const map_dataset *m = (map_dataset *)d;
    fac_tensor **in = fac__alloc_array(m->of->columns, sizeof *in);
    fac_status st = in ? m->of->kind->get(m->of, at, in) : fac_error();
    if (st == FAC_OK) st = apply(m, at, in, out);
    fac__free(in);
    return st;
}

static bool map_draw(fac_dataset *d, const fac_sample *at, fac_tensor **out) {
    const map_dataset *m = (map_dataset *)d;
    return m->of->kind->draw(m->of, at, out);
}

static fac_status map_finish(fac_dataset *d, const fac_sample *at, fac_tensors raw, fac_tensor **out) {
    const map_dataset *m = (map_dataset *)d;
    fac_tensor **in = fac__alloc_array(m->of->columns, sizeof *in);
    fac_status st = in ? fac__dataset_finish_inner(m->of, at, raw, in) : fac_error();
    if (st == FAC_OK) st = apply(m, at, in, out);
    fac__free(in);
    return st;
}

static fac_status map_start(fac_dataset *d, int64_t epoch) {
    return fac__dataset_seek(((map_dataset *)d)->of, epoch, 0);
}

static fac_status map_skip(fac_dataset *d, int64_t n) {
    const map_dataset *m = (map_dataset *)d;
    return fac__dataset_skip(m->of, n);
}

static void map_end(fac_dataset *d) { fac_dataset_release(((map_dataset *)d)->of); }

static const dataset_kind map_of_map = {.get = map_get, .end = map_end}, map_of_stream = {.draw = map_draw,
                                                                                          .finish = map_finish,
                                                                                          .start = map_start,
                                                                                          .skip = map_skip,
                                                                                          .end = map_end};

fac_dataset *fac_dataset_map(fac_dataset *d, fac_dataset_map_fn fn, void *context, size_t columns) {
    if (fac_error() || !fac__given(d, "data set") || !fac__given((const void *)(uintptr_t)fn, "function over samples"))
        return NULL;
    if (columns < 1 || columns > 1024)
        return FAC_FAIL(FAC_ERR_ARGUMENT, "a sample has 1 to 1024 columns, not %zu", columns), NULL;
    map_dataset *m = fac__dataset_alloc(sizeof *m, d->length < 0 ? &map_of_stream : &map_of_map, d->length, columns);
    if (!m) return NULL;
    m->base.raw_columns = d->raw_columns;
    m->of = fac_dataset_keep(d);
    m->fn = fn;
    m->context = context;
    return &m->base;
}
