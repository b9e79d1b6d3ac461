/* Runs a launch: block after block, each block's threads on fibers of the calling OS thread.

   A thread that ends without having waited leaves its stack to the next one, so that kernels without barriers cost no switch.
   A thread that waits is left where it stands, and the next that can go on does. */
#include "exec_internal.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

__thread sim_place sim_self;
__thread sim_worker *sim_worker_of_thread;

static pthread_once_t key_once = PTHREAD_ONCE_INIT;
static pthread_key_t key;

static void worker_free(void *p) {
    sim_worker *w = p;
    sim_faults_unwatch(w);
    sim_fibers_free(w);
    sim_shared_free(w);
    sim_worker_of_thread = NULL;
    free(w);
}

static void make_key(void) { pthread_key_create(&key, worker_free); }

static sim_worker *worker_get(void) {
    if (sim_worker_of_thread) return sim_worker_of_thread;
    pthread_once(&key_once, make_key);
    sim_worker *w = calloc(1, sizeof(*w));
    if (!w) return NULL;
    if (!sim_shared_make(w)) {
        free(w);
        return NULL;
    }
    pthread_setspecific(key, w);
    return sim_worker_of_thread = w;
}

/* ---- orders --------------------------------------------------------------------------------------------------------- */

static uint64_t mix(uint64_t x) {
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

static uint64_t gcd(uint64_t a, uint64_t b) {
    while (b) {
        uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* Seed 0 is the plain order. Steps stay below 2^16, so that step * i does not overflow for up to 2^48 indices. */
static sim_order order_of(uint64_t n, uint64_t seed) {
    if (!seed || n < 2) return (sim_order){1, 0, n};
    uint64_t step = 1 + mix(seed) % (n < 65536 ? n : 65536);
    while (gcd(step, n) != 1) step = step % n + 1;
    return (sim_order){step, mix(seed + 1) % n, n};
}

static uint64_t order_at(const sim_order *o, uint64_t i) { return (o->step * i + o->first) % o->n; }

static sim_dim3 split(uint64_t i, const unsigned dims[3]) {
    return (sim_dim3){(unsigned)(i % dims[0]), (unsigned)(i / dims[0] % dims[1]),
                      (unsigned)(i / ((uint64_t)dims[0] * dims[1]))};
}

/* ---- threads of a block ---------------------------------------------------------------------------------------------- */

static void thread_begin(sim_worker *w, sim_fiber *f) {
    f->thread = (unsigned)order_at(&w->threads, w->started++);
    f->place = split(f->thread, w->launch->block);
    f->wait = SIM_RUNS;
    w->by_thread[f->thread] = f;
    sim_self.thread = f->place;
}

static void thread_end(sim_worker *w, sim_fiber *f) {
    w->by_thread[f->thread] = NULL;
    w->live--;
    sim_thread_left(w, f->thread);
}

void sim_note_failure(sim_worker *w, int code, const char *text) {
    if (w->code) return;
    const sim_dim3 *b = &sim_self.block, *t = &sim_self.thread;
    w->code = code;
    snprintf(w->text, sizeof(w->text), "kernel %s, block (%u, %u, %u), thread (%u, %u, %u): %s",
             w->launch->kernel->name, b->x, b->y, b->z, t->x, t->y, t->z, text);
    SIM_RELEASE(&w->ended);
}

void sim_fail(int code, const char *text) {
    sim_worker *w = sim_worker_of_thread;
    sim_note_failure(w, code, text);
    sim_fiber_switch(w, w->current, NULL, true);
    abort();
}

void sim_make_ready(sim_worker *w, sim_fiber *f) {
    f->wait = SIM_RUNS;
    w->ready[(w->ready_head + w->n_ready++) % SIM_MAX_THREADS] = f;
}

static void fiber_main(void) {
    sim_worker *w = sim_worker_of_thread;
    sim_fiber *me = w->current;
    sim_fiber_entered(w);
    for (;;) {
        thread_begin(w, me);
        SIM_ACQUIRE(&w->began);
        w->launch->kernel->call(w->launch->args);
        SIM_RELEASE(&w->ended);
        thread_end(w, me);
        if (w->code) sim_fiber_switch(w, me, NULL, true);
#ifndef SIM_TSAN /* ThreadSanitizer tells threads apart by their fibers */
        if (!w->n_ready && w->started < w->n_threads) continue;
#endif
        sim_fiber_put(w, me);
        sim_fiber *next = sim_next(w);
        if (!next && w->live) {
            char text[384];
            sim_explain_deadlock(w, text, sizeof(text));
            sim_note_failure(w, 719, text);
        }
        sim_fiber_switch(w, me, next, true);
    }
}

/* Those that wait no longer go first: a warp that shuffles stays in the cache until it meets a barrier of its block. */
sim_fiber *sim_next(sim_worker *w) {
    if (w->n_ready) {
        sim_fiber *f = w->ready[w->ready_head];
        w->ready_head = (w->ready_head + 1) % SIM_MAX_THREADS;
        w->n_ready--;
        return f;
    }
    if (w->started == w->n_threads) return NULL;
    sim_fiber *f = sim_fiber_take(w, fiber_main);
    if (!f) sim_note_failure(w, 2, "no memory is left for the stacks of simulated threads");
    return f;
}

/* ---- blocks ---------------------------------------------------------------------------------------------------------- */

static void block_begin(sim_worker *w, uint64_t seed) {
    w->started = w->at_barrier = w->ready_head = w->n_ready = 0;
    w->live = w->n_threads;
    w->threads = order_of(w->n_threads, seed);
    for (unsigned first = 0; first < w->n_threads; first += SIM_WARP) {
        unsigned lanes = w->n_threads - first;
        w->warps[first / SIM_WARP] = (sim_warp){lanes >= SIM_WARP ? ~0u : (1u << lanes) - 1, 0};
    }
    memset(w->by_thread, 0, w->n_threads * sizeof(*w->by_thread));
    sim_shared_begin(w);
}

static void block_run(sim_worker *w, uint64_t seed) {
    block_begin(w, seed);
    SIM_RELEASE(&w->began);
    sim_fiber *first = sim_next(w);
    if (first) sim_fiber_switch(w, NULL, first, false);
    SIM_ACQUIRE(&w->ended);
    sim_shared_end(w);
}

static void blocks_run(sim_worker *w) {
    const sim_launch *l = w->launch;
    bool native = l->kernel->native;
    sim_order blocks = order_of(native ? 1 : (uint64_t)l->grid[0] * l->grid[1] * l->grid[2], l->seed);
    w->n_threads = native ? 1 : l->block[0] * l->block[1] * l->block[2];
    for (uint64_t i = 0; i < blocks.n && !w->code; i++) {
        uint64_t b = order_at(&blocks, i);
        sim_self.block = split(b, l->grid);
        block_run(w, l->seed ? mix(l->seed ^ b) | 1 : 0);
    }
}

static int refuse(const sim_launch *l, char *message, size_t size) {
    uint64_t threads = (uint64_t)l->block[0] * l->block[1] * l->block[2];
    if (threads && threads <= SIM_MAX_THREADS && l->grid[0] && l->grid[1] && l->grid[2]) return 0;
    snprintf(message, size, "kernel %s: a grid of (%u, %u, %u) blocks of (%u, %u, %u) threads cannot be launched",
             l->kernel->name, l->grid[0], l->grid[1], l->grid[2], l->block[0], l->block[1], l->block[2]);
    return 1;
}

int sim_execute(const sim_launch *l, char *message, size_t message_size) {
    if (message_size) message[0] = 0;
    int refused = refuse(l, message, message_size);
    if (refused) return refused;
    sim_worker *w = worker_get();
    bool native = l->kernel->native;
    if (!w || !sim_fibers_prepare(w, native ? 1 : l->block[0] * l->block[1] * l->block[2])) {
        snprintf(message, message_size, "no memory is left to run the kernel");
        return 2;
    }
    w->launch = l;
    w->code = 0;
    sim_self.block_dim = (sim_dim3){l->block[0], l->block[1], l->block[2]};
    sim_self.grid_dim = (sim_dim3){l->grid[0], l->grid[1], l->grid[2]};
    sim_self.multiprocessors = l->multiprocessors;
    sim_faults_watch(w);
    blocks_run(w);
    w->launch = NULL;
    if (w->code) {
        sim_fibers_abandon(w);
        snprintf(message, message_size, "%s", w->text);
    }
    return w->code;
}
