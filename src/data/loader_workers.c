/* The threads of a loader. Each draws a ticket, makes its batch without the lock, and puts it into the ring. */
#include "base/helper.h"
#include "data/loader.h"
#include <unistd.h>

/* Called with the lock, which is dropped while a stream gives its samples. False if there is nothing to be made. */
static bool take_ticket(fac_loader *l, loader_job *j) {
    j->generation = l->generation;
    j->ticket = l->tickets;
    j->epoch = l->epoch;
    fac_status st;
    if (l->sampler) {
        st = fac__loader_draw(l, j);
    } else {
        l->drawing = true;
        fac__mutex_unlock(&l->lock);
        st = fac__loader_draw(l, j);
        fac__mutex_lock(&l->lock);
        l->drawing = false;
        fac__cond_announce(&l->room);
        fac__cond_announce(&l->made);
        if (j->generation != l->generation) return false;
    }
    const bool there = j->n > 0 || (st != FAC_OK && !l->sampler);
    if (there) l->tickets++;
    if (j->n < l->batch && (l->sampler || st == FAC_OK)) l->ended = true;
    if (!there) fac__cond_announce(&l->made);
    return there;
}

/* Into the ring, or away if nobody wants it any more. */
static void put(fac_loader *l, loader_job *j, fac_saved_error *error) {
    const bool wanted = j->generation == l->generation;
    loader_slot *s = &l->slots[j->ticket % l->depth];
    if (wanted) {
        if (!error) memcpy(s->v, j->out, l->n_out * sizeof *s->v);
        s->error = error;
        s->ready = true;
        fac__cond_announce(&l->made);
        return;
    }
    for (size_t i = 0; i < l->n_out && !error; i++) fac__unref(j->out[i]);
    fac__error_drop(error);
}

static bool has_work(const fac_loader *l) {
    return l->running && !l->ended && !l->drawing && l->tickets - l->given < l->depth;
}

/* One batch, in a scope of its own; the lock is held before and after. */
static void work(fac_loader *l, loader_job *j) {
    fac_scope s = fac_scope_begin();
    const bool there = take_ticket(l, j);
    fac__mutex_unlock(&l->lock);
    if (there && !fac_error()) (void)fac__loader_make(l, j);
    fac_saved_error *error = fac__error_take();
    fac_scope_end(&s); /* what ends with it may call functions of the program's */
    fac__mutex_lock(&l->lock);
    if (there)
        put(l, j, error);
    else
        fac__error_drop(error);
}

/* The program's function for the thread's begin. */
static fac_status begin(loader_worker *w) {
    fac_thread *th = fac__thread();
    if (fac_error()) return fac_error();
    th->num_threads = 1; /* as many cores as there are workers are busy already */
    if (!w->l->init) return FAC_OK;
    FAC_SCOPE(s);
    fac_status st;
    FAC_CALLBACK(st = w->l->init(w->l->init_context, w->job.worker));
    return fac__dataset_check(st, NULL, 0, "function for the begin of a worker");
}

static void *run(void *context) {
    loader_worker *w = context;
    fac_loader *l = w->l;
    const bool began = begin(w) == FAC_OK;
    if (!began) {
        char name[48];
        snprintf(name, sizeof name, "worker %d", w->job.worker);
        (void)fac__error_prefix(name);
    }
    fac_saved_error *error = fac__error_take();
    fac__mutex_lock(&l->lock);
    w->number = fac_thread_number();
    if (!began && !l->failed) {
        l->failed = error;
        error = NULL;
    }
    l->begun_workers++;
    fac__cond_announce(&l->made);
    while (began && !l->quit) {
        if (has_work(l))
            work(l, &w->job);
        else
            fac__cond_wait(&l->room, &l->lock);
    }
    fac__mutex_unlock(&l->lock);
    fac__error_drop(error);
    fac_error_clear();
    return NULL;
}

void fac__loader_end_workers(fac_loader *l) {
    if (!l->workers) return;
    const bool here = l->pid == getpid(); /* the child of a fork has no workers to wait for */
    fac__mutex_lock(&l->lock);
    l->quit = true;
    fac__cond_announce(&l->room);
    fac__mutex_unlock(&l->lock);
    for (int i = 0; i < l->n_started && here; i++) pthread_join(l->workers[i].thread, NULL);
    for (int i = 0; i < l->n_workers; i++) fac__loader_job_free(&l->workers[i].job);
    fac__free(l->workers);
    l->workers = NULL;
    l->quit = false;
    l->n_started = l->begun_workers = 0;
}

fac_status fac__loader_start_workers(fac_loader *l) {
    l->workers = fac__alloc_array((size_t)l->n_workers, sizeof *l->workers);
    if (!l->workers) return fac_error();
    memset(l->workers, 0, (size_t)l->n_workers * sizeof *l->workers);
    fac_status st = FAC_OK;
    for (int i = 0; i < l->n_workers && st == FAC_OK; i++) {
        loader_worker *w = &l->workers[i];
        w->l = l;
        st = fac__loader_job_new(l, &w->job, i);
        if (st == FAC_OK && !fac__helper_start(&w->thread, 0, run, w))
            st = FAC_FAIL(FAC_ERR_MEMORY, "the system grants no thread for worker %d of %d", i, l->n_workers);
        if (st == FAC_OK) l->n_started++;
    }
    if (st) fac__loader_end_workers(l);
    return st;
}
