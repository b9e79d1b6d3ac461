/* A pass over nodes of several accelerators: a worker, which is a thread, for each but the first, so that the host queues
   work on all of them at once. Nodes run side by side, and what they return is distributed under one lock. */
#include "autograd/autograd_meta.h"
#include "autograd/pass.h"
#include "autograd/streams.h"
#include "autograd/thread_state.h"
#include "base/helper.h"
#include "base/mutex.h"

struct fac_device_workers {
    fac_mutex lock; /* of all below */
    fac_cond news;  /* a node is ready, the last one is done, or something failed */
    const fac_device *devices;
    ready queues[FAC_MAX_DEVICE_WORKERS]; /* by device; the calling thread serves the first, and nodes of the CPU */
    size_t n, unfinished;                 /* queues; nodes that are ready or running */
    fac_status st;
    fac_saved_error *error; /* of the first failure */
};

size_t fac__pass_devices(const scratch *s, fac_device devices[FAC_MAX_DEVICE_WORKERS]) {
    size_t n = 0;
    for (size_t i = 0; i < s->records.n; i++) {
        fac_device d = s->records.v[i].node->stream.device;
        if (FAC_LIKELY(!d.type) || n == FAC_MAX_DEVICE_WORKERS) continue;
        size_t k = 0;
        while (k < n && !fac_device_equal(devices[k], d)) k++;
        if (k == n) devices[n++] = d;
    }
    return n;
}

void fac__workers_lock(fac_device_workers *w) { fac__mutex_lock(&w->lock); }
void fac__workers_unlock(fac_device_workers *w) { fac__mutex_unlock(&w->lock); }

fac_status fac__workers_assign(const fac_pass *p, const record *r) {
    fac_device_workers *w = p->workers;
    size_t i = 0;
    while (i + 1 < w->n && !fac_device_equal(w->devices[i], r->node->stream.device)) i++;
    if (!r->node->stream.device.type) i = 0;
    w->unfinished++;
    fac__cond_announce(&w->news);
    return fac__ready_push(p->s, &w->queues[i], (uint32_t)(r - p->s->records.v));
}

/* Keeps the calling thread's error if it is the pass's first; under the lock. */
static void fail(fac_device_workers *w, fac_status st) {
    fac_saved_error *e = fac__error_take();
    if (w->st == FAC_OK) {
        w->st = st;
        w->error = e;
    } else
        fac__error_drop(e);
}

/* Runs what is ready in one queue until the whole pass is done or has failed. An error that is pending fails the pass. */
static void serve(const fac_pass *p, size_t queue) {
    fac_device_workers *w = p->workers;
    fac__mutex_lock(&w->lock);
    if (p->th->error != FAC_OK) fail(w, p->th->error);
    while (w->st == FAC_OK && (w->unfinished || w->queues[queue].n)) {
        if (!w->queues[queue].n) {
            fac__cond_wait(&w->news, &w->lock);
            continue;
        }
        record *r = fac__ready_pop(p->s, &w->queues[queue]);
        fac__mutex_unlock(&w->lock);
        fac_status st = fac__is_accumulator(r->node) ? fac__pass_run_accumulator(p, r) : fac__pass_run_record(p, r);
        fac__mutex_lock(&w->lock);
        w->unfinished--;
        if (st != FAC_OK) fail(w, st);
        fac__cond_announce(&w->news);
    }
    fac__cond_announce(&w->news);
    fac__mutex_unlock(&w->lock);
}

typedef struct worker {
    const fac_pass *p;
    const fac_thread_state *from; /* of the thread that asked for the pass */
    size_t queue;
    pthread_t thread;
    bool started;
} worker;

static void *work(void *context) {
    const worker *w = context;
    fac_pass mine = *w->p;
    fac__thread_state_restore(w->from);
    mine.th = fac__thread();
    mine.th->create_graph = mine.r->create_graph;
    mine.th->backward_depth = w->from->backward_depth;
    serve(&mine, w->queue);
    return NULL;
}

static fac_status run_workers(fac_pass *p, const fac_thread_state *from) {
    fac_device_workers *all = p->workers;
    worker workers[FAC_MAX_DEVICE_WORKERS];
    for (size_t i = 1; i < all->n; i++) {
        workers[i] = (worker){.p = p, .from = from, .queue = i};
        workers[i].started = fac__helper_start(&workers[i].thread, 0, work, &workers[i]);
        if (!workers[i].started) FAC_FAIL(FAC_ERR_MEMORY, "cannot start the thread of a device for a backward pass");
    }
    serve(p, 0);
    for (size_t i = 1; i < all->n; i++)
        if (workers[i].started) pthread_join(workers[i].thread, NULL);
    fac__error_restore(all->error);
    return all->st;
}

static fac_status start_and_run(fac_pass *p) {
    fac_thread_state from = {0};
    fac_status st = fac__pass_start(p);
    if (st == FAC_OK) st = fac__thread_state_save(p->th, &from);
    if (st == FAC_OK) st = run_workers(p, &from);
    fac__thread_state_free(&from);
    return st;
}

fac_status fac__pass_run_on_devices(fac_pass *p, const fac_device *devices, size_t n) {
    fac_device_workers w = {.lock = FAC_MUTEX_INIT, .devices = devices, .n = n};
    p->workers = &w;
    fac_status st = start_and_run(p);
    p->workers = NULL;
    for (size_t i = 0; i < n; i++) fac__free(w.queues[i].v);
    fac__mutex_destroy(&w.lock);
    return st;
}
