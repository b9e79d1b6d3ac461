/* Orders of samples, epoch by epoch, and batches cut along them. */
#include "core/handle.h"
#include "core/tensor_make.h"
#include "data/random.h"
#include "keywords_gen.h"
#include "ops/call.h"
#include <facula/data.h>

struct fac_sampler {
    int64_t n, at, epoch;
    uint64_t seed;
    int64_t *order; /* of this epoch; NULL if not shuffled */
};

fac_sampler *(fac_sampler_new)(int64_t n, const fac_sampler_new_kw *kw) {
    fac_sampler_new_kw k;
    FAC_TRY_NULL(fac__open_sampler_new_kw(&k, kw));
    if (n < 0) return FAC_FAIL(FAC_ERR_ARGUMENT, "a sampler of %lld samples is not possible", (long long)n), NULL;
    fac_sampler *s = fac__alloc_zero(sizeof *s);
    if (!s) return NULL;
    s->n = n;
    s->seed = (uint64_t)k.seed;
    s->order = k.shuffle ? fac__alloc_array((size_t)n, sizeof *s->order) : NULL;
    if (k.shuffle && !s->order) {
        fac__free(s);
        return NULL;
    }
    fac_sampler_start(s, 0);
    return s;
}

void fac_sampler_release(fac_sampler *s) {
    if (!s) return;
    fac__free(s->order);
    fac__free(s);
}

void fac_sampler_start(fac_sampler *s, int64_t epoch) {
    if (!fac__given(s, "sampler")) return;
    s->at = 0;
    s->epoch = epoch;
    if (!s->order) return;
    /* Seed and epoch both go through the mixer, so that neighbouring epochs and seeds share nothing. */
    uint64_t e = (uint64_t)epoch, state = s->seed ^ fac__split_mix(&e);
    for (int64_t i = 0; i < s->n; i++) s->order[i] = i;
    for (int64_t i = s->n - 1; i > 0; i--) { /* Fisher, Yates 1938; Durstenfeld 1964 */
        int64_t j = fac__split_mix_below(&state, i + 1), t = s->order[i];
        s->order[i] = s->order[j];
        s->order[j] = t;
    }
}

int64_t fac_sampler_next(fac_sampler *s, int64_t *out, int64_t room) {
    if (!fac__given(s, "sampler")) return 0;
    int64_t n = fac__max(0, fac__min(room, s->n - s->at));
    if (!fac__list_given(out, (size_t)n, "indices")) return 0;
    for (int64_t i = 0; i < n; i++) out[i] = s->order ? s->order[s->at + i] : s->at + i;
    s->at += n;
    return n;
}

/* ---- loader ------------------------------------------------------------------------------------------------------------- */

struct fac_loader {
    fac_tensor **columns; /* aliases of the caller's tensors, so that nobody else changes their geometry */
    size_t n_columns;
    int64_t batch_size;
    int64_t *chosen; /* room for batch_size indices */
    bool drop_last;
    fac_sampler *sampler;
};

static fac_status check_column(fac_tensors columns, size_t i) {
    const fac_tensor *t = columns.v[i], *first = columns.v[0];
    FAC_CHECK(t->ndim > 0, FAC_ERR_SHAPE, "column %zu has no dimension to count samples along", i);
    FAC_CHECK(t->sizes[0] == first->sizes[0], FAC_ERR_SHAPE, "column %zu has %lld samples, but column 0 has %lld", i,
              (long long)t->sizes[0], (long long)first->sizes[0]);
    FAC_CHECK(fac__is_cpu(t), FAC_ERR_DEVICE, "column %zu is not on the CPU", i);
    FAC_CHECK(fac__is_contiguous(t), FAC_ERR_UNSUPPORTED, "column %zu is not contiguous; pass fac_contiguous(column)",
              i);
    return FAC_OK;
}

static fac_status fill(fac_loader *l, fac_tensors columns, const fac_loader_new_kw *kw) {
    FAC_CHECK(columns.n > 0 && columns.v, FAC_ERR_ARGUMENT, "a loader needs at least one column");
    FAC_CHECK(kw->batch_size > 0, FAC_ERR_ARGUMENT, "batch_size should be positive, but is %lld",
              (long long)kw->batch_size);
    for (size_t i = 0; i < columns.n; i++) FAC_TRY(check_column(columns, i));
    int64_t n = columns.v[0]->sizes[0];
    l->drop_last = kw->drop_last;
    l->batch_size = kw->batch_size;
    l->chosen = fac__alloc_array((size_t)fac__min(l->batch_size, n), sizeof *l->chosen);
    l->columns = fac__alloc_array(columns.n, sizeof *l->columns);
    l->sampler = fac_sampler_new(n, .shuffle = kw->shuffle, .seed = kw->seed);
    if (!l->chosen || !l->columns || !l->sampler) return fac_error();
    for (size_t i = 0; i < columns.n; i++) {
        FAC_TRY(fac__alias(columns.v[i], true, &l->columns[i]));
        l->n_columns++;
    }
    return FAC_OK;
}

fac_loader *(fac_loader_new)(fac_tensors columns, const fac_loader_new_kw *kw) {
    fac_loader_new_kw k;
    if (fac_error() || fac__open_loader_new_kw(&k, kw)) return NULL;
    fac_loader *l = fac__alloc_zero(sizeof *l);
    if (!l) return NULL;
    fac_handle_list open;
    fac_status st = fac__open_list(&open, columns, false, "loader_new", "columns");
    if (st == FAC_OK) st = fill(l, open.l, &k);
    fac__handle_list_free(&open);
    if (st == FAC_OK) return l;
    fac_loader_release(l);
    return NULL;
}

void fac_loader_release(fac_loader *l) {
    if (!l) return;
    for (size_t i = 0; i < l->n_columns; i++) fac__unref(l->columns[i]);
    fac__free(l->columns);
    fac__free(l->chosen);
    fac_sampler_release(l->sampler);
    fac__free(l);
}

int64_t fac_loader_batches(const fac_loader *l) {
    if (!fac__given(l, "loader")) return 0;
    int64_t full = l->sampler->n / l->batch_size;
    return full + (l->sampler->n % l->batch_size != 0 && !l->drop_last);
}

void fac_loader_start(fac_loader *l, int64_t epoch) {
    if (fac__given(l, "loader")) fac_sampler_start(l->sampler, epoch);
}

/* The chosen rows of a column as a new tensor of the innermost scope. */
static fac_tensor *gather(const fac_tensor *column, const int64_t *chosen, int64_t n) {
    int64_t sizes[FAC_MAX_DIMS];
    memcpy(sizes, column->sizes, column->ndim * sizeof *sizes);
    sizes[0] = n;
    fac_tensor *t;
    FAC_TRY_NULL(fac__empty(sizes, column->ndim, (fac_dtype)column->dtype, column->device, &t));
    fac__turn_pending(t, fac__pending(column)); /* bytes are copied as they lie */
    size_t row = n ? (size_t)(t->numel / n) * fac_dtype_size((fac_dtype)t->dtype) : 0;
    const char *from = fac__data(column);
    char *to = fac__data(t);
    for (int64_t i = 0; row && i < n; i++) memcpy(to + (size_t)i * row, from + (size_t)chosen[i] * row, row);
    return fac__adopt_handle(fac__thread(), t);
}

bool fac_loader_next(fac_loader *l, fac_tensor **out_columns) {
    if (fac_error() || !fac__given(l, "loader") || !fac__list_given(out_columns, l->n_columns, "columns")) return false;
    int64_t n = fac_sampler_next(l->sampler, l->chosen, l->batch_size);
    if (n == 0 || (l->drop_last && n < l->batch_size)) {
        fac_sampler_start(l->sampler, l->sampler->epoch + 1);
        return false;
    }
    for (size_t i = 0; i < l->n_columns; i++) {
        out_columns[i] = gather(l->columns[i], l->chosen, n);
        if (!out_columns[i]) return false;
    }
    return true;
}
