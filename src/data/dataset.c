/* Data sets: what all kinds share, and those of the program's own. */
#include "data/dataset.h"
#include "core/thread.h"
#include "data/random.h"

void *fac__dataset_alloc(size_t bytes, const dataset_kind *kind, int64_t length, size_t columns) {
    fac_dataset *d = fac__alloc_zero(bytes);
    if (!d) return NULL;
    atomic_init(&d->refs, 1);
    d->kind = kind;
    d->length = length;
    d->columns = d->raw_columns = columns;
    return d;
}

fac_dataset *fac_dataset_keep(fac_dataset *d) {
    if (d) atomic_fetch_add_explicit(&d->refs, 1, memory_order_relaxed);
    return d;
}

void fac_dataset_release(fac_dataset *d) {
    if (!d || !fac__last_ref(&d->refs)) return;
    d->kind->end(d);
    fac__free(d);
}

int64_t fac_dataset_length(const fac_dataset *d) { return fac__given(d, "data set") ? d->length : 0; }
size_t fac_dataset_columns(const fac_dataset *d) { return fac__given(d, "data set") ? d->columns : 0; }

uint64_t fac__item_seed(uint64_t seed, int64_t epoch, int64_t place) {
    uint64_t e = (uint64_t)epoch, p = (uint64_t)place ^ 0x6974656d00000000u; /* apart from what orders are drawn with */
    uint64_t state = seed ^ fac__split_mix(&e);
    state ^= fac__split_mix(&p);
    return fac__split_mix(&state);
}

fac_status fac__dataset_check(fac_status st, fac_tensor **out, size_t n, const char *what) {
    if (fac_error()) return fac_error();
    if (st) return FAC_FAIL(st, "the %s failed without saying why", what);
    for (size_t i = 0; i < n; i++) {
        FAC_CHECK(out[i], FAC_ERR_ARGUMENT, "the %s gave no tensor for column %zu", what, i);
        if (!fac__open(out[i], "data set", "column")) return fac_error();
    }
    return FAC_OK;
}

/* ---- one sample -------------------------------------------------------------------------------------------------- */

static fac_status name_sample(int64_t i) {
    char name[48];
    snprintf(name, sizeof name, "sample %lld", (long long)i);
    return fac__error_prefix(name);
}

/* What it makes on the way ends here; the sample itself passes to the scope around. */
fac_status fac__dataset_item(fac_dataset *d, const fac_sample *at, fac_tensor **out) {
    FAC_SCOPE(s);
    fac_status st = d->kind->get(d, at, out);
    for (size_t i = 0; i < d->columns && st == FAC_OK; i++)
        if (!(out[i] = fac_scope_yield(&s, out[i]))) st = fac_error();
    return st ? name_sample(at->index) : FAC_OK;
}

bool fac__dataset_draw(fac_dataset *d, const fac_sample *at, fac_tensor **out_raw) {
    if (d->kind->draw(d, at, out_raw) && !fac_error()) return true;
    if (fac_error()) (void)name_sample(at->index);
    return false;
}

fac_status fac__dataset_finish_inner(fac_dataset *d, const fac_sample *at, fac_tensors raw, fac_tensor **out) {
    if (d->kind->finish) return d->kind->finish(d, at, raw, out);
    memcpy(out, raw.v, d->columns * sizeof *out);
    return FAC_OK;
}

fac_status fac__dataset_finish(fac_dataset *d, const fac_sample *at, fac_tensors raw, fac_tensor **out) {
    FAC_SCOPE(s);
    fac_status st = fac__dataset_finish_inner(d, at, raw, out);
    for (size_t i = 0; i < d->columns && st == FAC_OK; i++)
        if (!(out[i] = fac_scope_yield(&s, out[i]))) st = fac_error();
    return st ? name_sample(at->index) : FAC_OK;
}

static fac_status draw_and_drop(fac_dataset *d, int64_t n) {
    fac_tensor **room = fac__alloc_array(d->raw_columns, sizeof *room);
    if (!room) return fac_error();
    bool more = true;
    for (int64_t i = 0; i < n && more; i++) {
        FAC_SCOPE(s);
        const fac_sample at = {.index = i, .worker = -1};
        more = fac__dataset_draw(d, &at, room);
    }
    fac__free(room);
    return fac_error();
}

fac_status fac__dataset_skip(fac_dataset *d, int64_t n) {
    return d->kind->skip ? d->kind->skip(d, n) : draw_and_drop(d, n);
}

fac_status fac__dataset_seek(fac_dataset *d, int64_t epoch, int64_t n) {
    if (d->kind->start) FAC_TRY(d->kind->start(d, epoch));
    return n > 0 ? fac__dataset_skip(d, n) : FAC_OK;
}

fac_status fac_dataset_get(fac_dataset *d, int64_t i, fac_tensor **out) {
    if (fac_error()) return fac_error();
    if (!fac__given(d, "data set") || !fac__given(out, "place for a sample")) return fac_error();
    FAC_CHECK(d->length >= 0, FAC_ERR_UNSUPPORTED, "samples of a stream have no numbers; use fac_dataset_next");
    FAC_CHECK(i >= 0 && i < d->length, FAC_ERR_INDEX, "there is no sample %lld: the data set has %lld", (long long)i,
              (long long)d->length);
    const fac_sample at = {.index = i, .seed = fac__item_seed(0, 0, i), .worker = -1};
    return fac__dataset_item(d, &at, out);
}

bool fac_dataset_next(fac_dataset *d, fac_tensor **out) {
    if (fac_error() || !fac__given(d, "data set") || !fac__given(out, "place for a sample")) return false;
    if (d->length >= 0) return FAC_FAIL(FAC_ERR_UNSUPPORTED, "the data set is no stream; use fac_dataset_get"), false;
    const fac_sample at = {d->at, d->epoch, fac__item_seed(0, d->epoch, d->at), -1};
    fac_tensor **raw = fac__alloc_array(d->raw_columns, sizeof *raw);
    bool there = raw && fac__dataset_draw(d, &at, raw);
    if (there) d->at++;
    there = there && fac__dataset_finish(d, &at, fac_tensors_of(raw, d->raw_columns), out) == FAC_OK;
    fac__free(raw);
    return there;
}

fac_status fac_dataset_start(fac_dataset *d, int64_t epoch) {
    if (fac_error()) return fac_error();
    if (!fac__given(d, "data set")) return fac_error();
    if (d->length >= 0) return FAC_OK;
    d->epoch = epoch;
    d->at = 0;
    return fac__dataset_seek(d, epoch, 0);
}

/* ---- those of the program's own ------------------------------------------------------------------------------------ */

typedef struct own_dataset {
    fac_dataset base;
    fac_dataset_class cls;
    char *name; /* owned */
    void *context;
} own_dataset;

static fac_status own_get(fac_dataset *d, const fac_sample *at, fac_tensor **out) {
    own_dataset *o = (own_dataset *)d;
    fac_status st;
    memset(out, 0, d->columns * sizeof *out);
    FAC_CALLBACK(st = o->cls.get(o->context, at, out));
    return fac__dataset_check(st, out, d->columns, o->name);
}

static bool own_draw(fac_dataset *d, const fac_sample *at, fac_tensor **out) {
    own_dataset *o = (own_dataset *)d;
    bool more;
    memset(out, 0, d->columns * sizeof *out);
    FAC_CALLBACK(more = o->cls.next(o->context, at, out));
    return more && fac__dataset_check(FAC_OK, out, d->columns, o->name) == FAC_OK;
}

static fac_status own_start(fac_dataset *d, int64_t epoch) {
    own_dataset *o = (own_dataset *)d;
    fac_status st = FAC_OK;
    if (o->cls.start) FAC_CALLBACK(st = o->cls.start(o->context, epoch));
    return fac__dataset_check(st, NULL, 0, o->name);
}

static fac_status own_skip(fac_dataset *d, int64_t n) {
    own_dataset *o = (own_dataset *)d;
    fac_status st;
    if (!o->cls.skip) return draw_and_drop(d, n);
    FAC_CALLBACK(st = o->cls.skip(o->context, n));
    return fac__dataset_check(st, NULL, 0, o->name);
}

static void own_end(fac_dataset *d) {
    own_dataset *o = (own_dataset *)d;
    if (o->cls.release) FAC_CALLBACK(o->cls.release(o->context));
    fac__free(o->name);
}

static const dataset_kind own_map = {.get = own_get, .end = own_end},
                          own_stream = {.draw = own_draw, .start = own_start, .skip = own_skip, .end = own_end};

fac_dataset *fac_dataset_new(const fac_dataset_class *cls, void *context, int64_t length, size_t columns) {
    if (fac_error() || !fac__given(cls, "class of the data set")) return NULL;
    if (cls->size != sizeof *cls)
        return FAC_FAIL(FAC_ERR_ARGUMENT, "size of the class is %zu, not sizeof(fac_dataset_class), %zu", cls->size,
                        sizeof *cls),
               NULL;
    if (!cls->get == !cls->next || (length >= 0) != (cls->get != NULL) || length < -1)
        return FAC_FAIL(
                   FAC_ERR_ARGUMENT,
                   "a data set of length %lld has a function %s and not the other: get for samples with numbers, next for a stream, "
                   "whose length is -1",
                   (long long)length, length < 0 ? "next" : "get"),
               NULL;
    if (columns < 1 || columns > 1024)
        return FAC_FAIL(FAC_ERR_ARGUMENT, "a sample has 1 to 1024 columns, not %zu", columns), NULL;
    own_dataset *o = fac__dataset_alloc(sizeof *o, cls->get ? &own_map : &own_stream, length, columns);
    char *name = fac__strdup(cls->name ? cls->name : "data set");
    if (!o || !name) {
        fac__free(o);
        fac__free(name);
        return NULL;
    }
    o->cls = *cls;
    o->context = context;
    o->name = name;
    return &o->base;
}
