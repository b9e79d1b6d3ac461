/* Loaders: batches of data sets, made by the caller's thread or ahead of it by threads of their own. */
#include "data/loader.h"
#include "data/dataset_tensors.h"
#include "keywords_gen.h"
#include "ops/call.h"
#include <facula/ops.h>
#include <math.h>
#include <unistd.h>

enum { MOST_WORKERS = 1024, MOST_AHEAD = 1 << 16 };
static const double PATIENCE = 0.05; /* seconds between two looks for a cancellation while there is no batch */

/* ---- making one ---------------------------------------------------------------------------------------------------- */

static fac_status check_keywords(const fac_loader_of_kw *k, const fac_dataset *d) {
    FAC_CHECK(k->batch_size > 0 && k->batch_size <= INT32_MAX, FAC_ERR_ARGUMENT,
              "batch_size should be positive, but is %lld", (long long)k->batch_size);
    FAC_CHECK(k->num_workers >= 0 && k->num_workers <= MOST_WORKERS, FAC_ERR_ARGUMENT,
              "num_workers should be 0 to %d, but is %lld", MOST_WORKERS, (long long)k->num_workers);
    FAC_CHECK(k->prefetch_factor > 0 && k->prefetch_factor <= MOST_AHEAD, FAC_ERR_ARGUMENT,
              "prefetch_factor should be 1 to %d, but is %lld", MOST_AHEAD, (long long)k->prefetch_factor);
    FAC_CHECK(k->timeout >= 0, FAC_ERR_ARGUMENT, "timeout should not be negative, but is %g", k->timeout);
    FAC_CHECK(k->timeout == 0 || k->num_workers > 0, FAC_ERR_ARGUMENT,
              "a timeout of %g needs workers: the caller's own thread makes the batches", k->timeout);
    FAC_CHECK(d->length >= 0 || !(k->shuffle || k->sampler), FAC_ERR_UNSUPPORTED,
              "a stream comes in its own order: it takes neither .shuffle nor .sampler");
    FAC_CHECK(!k->shuffle || !k->sampler, FAC_ERR_ARGUMENT,
              "the order is that of .sampler or of .shuffle, not of both");
    return FAC_OK;
}

/* Fails where pin_memory would, before the first batch. */
static fac_status try_pinning(void) {
    FAC_SCOPE(s);
    if (fac_pin_memory(fac_zeros(1))) return FAC_OK;
    return fac__error_prefix("pin_memory");
}

/* The lock is held, or nobody else there. */
static void drop_slots(fac_loader *l) {
    for (int64_t i = 0; i < l->depth && l->slots; i++) {
        loader_slot *s = &l->slots[i];
        for (size_t c = 0; s->ready && !s->error && c < l->n_out; c++) fac__unref(s->v[c]);
        fac__error_drop(s->error);
        s->ready = false;
        s->error = NULL;
    }
}

static void free_slots(fac_loader *l) {
    drop_slots(l);
    for (int64_t i = 0; i < l->depth && l->slots; i++) fac__free(l->slots[i].v);
    fac__free(l->slots);
    l->slots = NULL;
}

static fac_status make_slots(fac_loader *l) {
    l->slots = fac__alloc_array((size_t)l->depth, sizeof *l->slots);
    if (!l->slots) return fac_error();
    memset(l->slots, 0, (size_t)l->depth * sizeof *l->slots);
    for (int64_t i = 0; i < l->depth; i++)
        if (!(l->slots[i].v = fac__alloc_array(l->n_out, sizeof(fac_tensor *)))) return free_slots(l), fac_error();
    return FAC_OK;
}

static fac_status fill(fac_loader *l, fac_dataset *d, const fac_loader_of_kw *k) {
    FAC_TRY(check_keywords(k, d));
    if (k->pin_memory) FAC_TRY(try_pinning());
    l->set = fac_dataset_keep(d);
    l->seed = k->seed;
    l->pin = k->pin_memory;
    l->timeout = k->timeout;
    l->n_workers = (int)k->num_workers;
    l->depth = fac__max(1, k->num_workers * k->prefetch_factor);
    l->n_out = d->columns;
    l->batch = l->most = k->batch_size;
    l->drop_last = k->drop_last;
    if (d->length < 0) return FAC_OK;
    l->sampler =
        k->sampler ? fac_sampler_keep(k->sampler) : fac_sampler_new(d->length, .shuffle = k->shuffle, .seed = k->seed);
    if (!l->sampler) return fac_error();
    if (l->sampler->batch) {
        l->batch = l->sampler->batch;
        l->drop_last = false; /* it says so itself */
    }
    l->most = fac__min(l->batch, l->sampler->length);
    return FAC_OK;
}

static fac_loader *new_loader(fac_dataset *d, const fac_loader_of_kw *k) {
    fac_loader *l = fac__alloc_zero(sizeof *l);
    if (!l) return NULL;
    fac__mutex_init(&l->lock);
    if (fill(l, d, k) == FAC_OK) return l;
    fac_loader_release(l);
    return NULL;
}

fac_loader *(fac_loader_of)(fac_dataset *d, const fac_loader_of_kw *kw) {
    fac_loader_of_kw k;
    if (fac_error() || fac__open_loader_of_kw(&k, kw) || !fac__given(d, "data set")) return NULL;
    return new_loader(d, &k);
}

static fac_status check_column(const fac_tensor *t, size_t i) {
    FAC_CHECK(fac__is_cpu(t), FAC_ERR_DEVICE, "column %zu is not on the CPU", i);
    FAC_CHECK(fac__is_contiguous(t), FAC_ERR_UNSUPPORTED, "column %zu is not contiguous; pass fac_contiguous(column)",
              i);
    return FAC_OK;
}

fac_loader *(fac_loader_new)(fac_tensors columns, const fac_loader_new_kw *kw) {
    fac_loader_new_kw k;
    if (fac_error() || fac__open_loader_new_kw(&k, kw)) return NULL;
    fac_handle_list open;
    fac_dataset *d = NULL;
    fac_loader *l = NULL;
    if (fac__open_list(&open, columns, false, "loader_new", "columns") == FAC_OK)
        d = fac__dataset_of_headers(open.l, "loader");
    for (size_t i = 0; d && i < open.l.n && !fac_error(); i++) (void)check_column(open.l.v[i], i);
    fac__handle_list_free(&open);
    if (d && !fac_error()) {
        fac_loader_of_kw of;
        fac_loader_of_kw_init(&of);
        of.batch_size = k.batch_size;
        of.shuffle = k.shuffle;
        of.seed = k.seed;
        of.drop_last = k.drop_last;
        of.sampler = k.sampler;
        of.num_workers = k.num_workers;
        of.prefetch_factor = k.prefetch_factor;
        of.pin_memory = k.pin_memory;
        of.timeout = k.timeout;
        l = new_loader(d, &of);
    }
    fac_dataset_release(d);
    return l;
}

void fac_loader_release(fac_loader *l) {
    if (!l) return;
    for (int i = 0; l->workers && l->pid == getpid() && i < l->n_started; i++) {
        fac__mutex_lock(&l->lock);
        (void)fac_cancel(l->workers[i].number); /* its next operator fails, so that it ends soon */
        fac__mutex_unlock(&l->lock);
    }
    fac__loader_end_workers(l);
    free_slots(l);
    fac__error_drop(l->failed);
    fac__loader_job_free(&l->here);
    fac__mutex_destroy(&l->lock);
    fac_sampler_release(l->sampler);
    fac_dataset_release(l->set);
    fac__free(l);
}

/* ---- settings -------------------------------------------------------------------------------------------------------- */

static fac_status check_new(const fac_loader *l) {
    if (fac_error()) return fac_error();
    if (!fac__given(l, "loader")) return fac_error();
    FAC_CHECK(!l->begun, FAC_ERR_STATE, "the loader has been asked for a batch already; set its functions before");
    return FAC_OK;
}

fac_status fac_loader_set_collate(fac_loader *l, fac_collate_fn fn, void *context, size_t columns) {
    FAC_TRY(check_new(l));
    FAC_CHECK(!fn || (columns > 0 && columns <= 1024), FAC_ERR_ARGUMENT, "a batch has 1 to 1024 columns, not %zu",
              columns);
    l->collate = fn;
    l->collate_context = context;
    l->n_out = fn ? columns : l->set->columns;
    return FAC_OK;
}

fac_status fac_loader_on_worker(fac_loader *l, fac_status (*fn)(void *context, int worker), void *context) {
    FAC_TRY(check_new(l));
    l->init = fn;
    l->init_context = context;
    return FAC_OK;
}

int64_t fac_loader_batches(const fac_loader *l) {
    if (!fac__given(l, "loader")) return 0;
    if (!l->sampler) return -1;
    if (l->sampler->batch) return fac_sampler_length(l->sampler);
    const int64_t n = l->sampler->length;
    return n / l->batch + (n % l->batch != 0 && !l->drop_last);
}

/* ---- where it is ----------------------------------------------------------------------------------------------------- */

static void go(fac_loader *l, int64_t epoch, int64_t batch) {
    fac__mutex_lock(&l->lock);
    l->generation++;
    l->running = l->ended = false;
    drop_slots(l);
    l->epoch = epoch;
    l->given = l->tickets = batch;
    fac__mutex_unlock(&l->lock);
}

void fac_loader_start(fac_loader *l, int64_t epoch) {
    if (fac__given(l, "loader")) go(l, epoch, 0);
}

fac_data_state fac_loader_get_state(const fac_loader *l) {
    if (!fac__given(l, "loader")) return (fac_data_state){0};
    return (fac_data_state){l->epoch, l->given, fac_loader_batches(l), l->sampler ? l->sampler->seed : l->seed};
}

fac_status fac_loader_set_state(fac_loader *l, fac_data_state state) {
    if (fac_error()) return fac_error();
    if (!fac__given(l, "loader")) return fac_error();
    const fac_data_state now = fac_loader_get_state(l);
    FAC_CHECK(state.length == now.length && state.seed == now.seed, FAC_ERR_ARGUMENT,
              "the state is of a loader with %lld batches and seed %lld; this one has %lld and seed %lld",
              (long long)state.length, (long long)state.seed, (long long)now.length, (long long)now.seed);
    int64_t samples;
    FAC_CHECK(state.at >= 0 && fac__mul(state.at, l->batch, &samples) && (now.length < 0 || state.at <= now.length),
              FAC_ERR_ARGUMENT, "the state is at batch %lld of %lld", (long long)state.at, (long long)now.length);
    go(l, state.epoch, state.at);
    return FAC_OK;
}

/* ---- batches ----------------------------------------------------------------------------------------------------------- */

/* What is made once, at the first batch: nothing changes afterwards. */
static fac_status begin(fac_loader *l) {
    l->begun = true;
    if (!l->slots) FAC_TRY(make_slots(l));
    if (!l->here.out) {
        const fac_status st = fac__loader_job_new(l, &l->here, -1);
        if (st) fac__loader_job_free(&l->here);
        FAC_TRY(st);
    }
    l->pid = getpid();
    return l->n_workers > 0 ? fac__loader_start_workers(l) : FAC_OK;
}

/* Goes to where the epoch is to go on. A worker may still be drawing for an epoch that is no longer wanted. */
static fac_status begin_epoch(fac_loader *l) {
    fac__mutex_lock(&l->lock);
    while (l->drawing) fac__cond_wait(&l->made, &l->lock);
    fac__mutex_unlock(&l->lock);
    const int64_t at = l->given * l->batch; /* no overflow: fac_loader_set_state has looked */
    if (l->sampler) {
        fac__sampler_seek(l->sampler, l->epoch, fac__min(at, l->sampler->length));
        FAC_TRY(fac__sampler_ready(l->sampler));
    } else {
        FAC_TRY(fac__dataset_seek(l->set, l->epoch, at));
    }
    fac__mutex_lock(&l->lock);
    l->running = true;
    fac__cond_announce(&l->room);
    fac__mutex_unlock(&l->lock);
    return FAC_OK;
}

/* The caller's thread makes the batch itself; *out_there is false at the end of the epoch. */
static fac_status make_here(fac_loader *l, bool *out_there) {
    FAC_SCOPE(s);
    loader_job *j = &l->here;
    j->ticket = l->given;
    j->epoch = l->epoch;
    *out_there = false;
    j->n = 0;
    if (!l->ended) {
        const fac_status st = fac__loader_draw(l, j);
        l->ended = st == FAC_OK && j->n < l->batch;
        *out_there = j->n > 0 || st != FAC_OK;
        if (*out_there) l->tickets++;
        FAC_TRY(st);
    }
    return *out_there ? fac__loader_make(l, j) : FAC_OK;
}

/* A batch or its error, or that there will be none. */
static bool has_come(const fac_loader *l, const loader_slot *s) {
    if (l->failed) return true;
    return l->begun_workers == l->n_workers && (s->ready || (l->ended && l->given == l->tickets));
}

/* The lock is held. FAC_OK once the next batch is there, or there will be none. */
static fac_status wait_for_slot(fac_loader *l, const loader_slot *s) {
    const double until = l->timeout > 0 ? fac__now() + l->timeout : INFINITY;
    while (!has_come(l, s)) {
        FAC_TRY(fac__check_cancel(fac__tls));
        const double left = until - fac__now();
        FAC_CHECK(left > 0, FAC_ERR_STATE, "batch %lld of epoch %lld is not there after %g seconds, the timeout",
                  (long long)l->given, (long long)l->epoch, l->timeout);
        fac__cond_wait_for(&l->made, &l->lock, left < PATIENCE ? left : PATIENCE);
    }
    return FAC_OK;
}

/* A batch of the workers', moved to l->here.out. */
static fac_status take_made(fac_loader *l, bool *out_there) {
    fac_saved_error *error = NULL;
    fac__mutex_lock(&l->lock);
    loader_slot *s = &l->slots[l->given % l->depth];
    const fac_status st = wait_for_slot(l, s);
    const bool failed = st == FAC_OK && l->failed;
    *out_there = st == FAC_OK && s->ready && !failed;
    if (*out_there) {
        error = s->error;
        if (!error) memcpy(l->here.out, s->v, l->n_out * sizeof *s->v);
        *s = (loader_slot){.v = s->v};
        l->given++;
        fac__cond_announce(&l->room);
    }
    if (failed) {
        error = l->failed;
        l->failed = NULL;
    }
    fac__mutex_unlock(&l->lock);
    if (failed) fac__loader_end_workers(l); /* the next call starts them again */
    fac__error_restore(error);
    return fac_error();
}

/* Hands what l->here.out owns to the innermost scope. */
static bool hand_over(fac_loader *l, fac_tensor **out) {
    fac_thread *th = fac__thread();
    bool ok = true;
    for (size_t i = 0; i < l->n_out; i++) {
        if (ok)
            ok = (out[i] = fac__adopt_handle(th, l->here.out[i])) != NULL;
        else
            fac__unref(l->here.out[i]);
    }
    return ok;
}

static fac_status check_next(fac_loader *l, fac_tensor **out_columns) {
    if (fac_error()) return fac_error();
    if (!fac__given(l, "loader") || !fac__list_given(out_columns, l->n_out, "columns")) return fac_error();
    FAC_TRY(fac__check_cancel(fac__thread()));
    FAC_CHECK(!l->workers || l->pid == getpid(), FAC_ERR_STATE,
              "the workers of this loader did not come along in the fork; make a loader in the child");
    if (!l->here.out || (l->n_workers && !l->workers)) FAC_TRY(begin(l));
    return l->running ? FAC_OK : begin_epoch(l);
}

bool fac_loader_next(fac_loader *l, fac_tensor **out_columns) {
    if (check_next(l, out_columns)) return false;
    bool there;
    fac_status st;
    if (l->n_workers) {
        st = take_made(l, &there);
    } else {
        st = make_here(l, &there);
        if (there) l->given++;
    }
    if (st == FAC_OK && there) return hand_over(l, out_columns);
    if (st == FAC_OK) go(l, l->epoch + 1, 0);
    return false;
}
