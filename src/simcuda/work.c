/* Work and its order. An op runs once all ops before it are done; among those that may run, the next is drawn from the
   seeded generator. Without worker threads nothing runs until somebody waits, asks, or has queued too much. */
#include "simcuda/sanitize.h"
#include "simcuda/sim.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

_Thread_local bool sim_in_host_function;

static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static sim_op **ready;
static size_t n_ready, cap_ready;
static size_t n_pending; /* submitted and not done */
static size_t n_running;
static uint64_t last_sequence, last_visit;
static pthread_t workers[64], host_worker;
static int n_workers;
static bool stopping, host_worker_runs;
static sim_op *host_op; /* handed to the thread that runs host functions */

static double now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

/* ---- ops --------------------------------------------------------------------------------------------------------- */

sim_op *sim_op_new(const sim_spec *spec) {
    sim_op *op = sim_new(1, sizeof *op);
    op->refs = 1;
    op->pending = 1;
    op->spec = *spec;
    op->sequence = ++last_sequence;
    op->seed = sim_opt.seed ? sim_random(0) | 1 : 0;
    return op;
}

sim_op *sim_op_keep(sim_op *op) {
    op->refs++;
    return op;
}

static void drop_edges(sim_op ***v, size_t *n, size_t *cap) {
    for (size_t i = 0; i < *n; i++) sim_op_drop((*v)[i]);
    free(*v);
    *v = NULL;
    *n = *cap = 0;
}

void sim_op_drop(sim_op *op) {
    if (!op || --op->refs) return;
    drop_edges(&op->deps, &op->n_deps, &op->cap_deps);
    drop_edges(&op->dependents, &op->n_dependents, &op->cap_dependents);
    sim_spec_clear(&op->spec);
    free(op);
}

bool sim_op_seen(sim_op *op) {
    if (!sim_op_done(op)) return false;
    if (op) sim_acquire(op);
    return true;
}

void sim_op_after(sim_op *op, sim_op *before) {
    if (before && sim_op_seen(before)) sim_release(op);
    if (sim_op_done(before)) return;
    for (size_t i = 0; i < op->n_deps; i++) {
        if (op->deps[i] == before) return;
    }
    sim_grow(&op->deps, op->n_deps, &op->cap_deps, sizeof *op->deps);
    op->deps[op->n_deps++] = sim_op_keep(before);
    sim_grow(&before->dependents, before->n_dependents, &before->cap_dependents, sizeof *before->dependents);
    before->dependents[before->n_dependents++] = sim_op_keep(op);
    op->pending++;
}

/* ---- becoming ready and done ------------------------------------------------------------------------------------- */

static void make_ready(sim_op *op) {
    op->state = SIM_READY;
    sim_grow(&ready, n_ready, &cap_ready, sizeof *ready);
    ready[n_ready++] = sim_op_keep(op);
}

/* Marks an op done and what that sets free; marks are done at once, without recursion, for chains may be long. */
static void complete(sim_op *op) {
    sim_op **list = NULL;
    size_t n = 0, cap = 0;
    sim_grow(&list, n, &cap, sizeof *list);
    list[n++] = sim_op_keep(op);
    double time = now_ms();
    while (n) {
        sim_op *done = list[--n];
        done->state = SIM_DONE;
        done->time = time;
        n_pending--;
        sim_acquire(done);
        if (done->spec.device) sim_release(done->spec.device);
        if (done->orphan) done->spec.device->n_orphans--;
        for (size_t i = 0; i < done->n_dependents; i++) {
            sim_op *next = done->dependents[i];
            sim_release(next);
            if (--next->pending || next->state != SIM_WAITING) continue;
            if (next->spec.kind != SIM_OP_MARK) {
                make_ready(next);
                continue;
            }
            sim_grow(&list, n, &cap, sizeof *list);
            list[n++] = sim_op_keep(next);
        }
        drop_edges(&done->dependents, &done->n_dependents, &done->cap_dependents);
        drop_edges(&done->deps, &done->n_deps, &done->cap_deps);
        sim_spec_clear(&done->spec);
        sim_op_drop(done);
    }
    free(list);
    pthread_cond_broadcast(&changed);
}

static void fault(sim_device *d, CUresult r, const char *message) {
    if (d->fault) return;
    d->fault = r;
    snprintf(d->fault_text, sizeof d->fault_text, "device %d: %s", d->index, message);
}

static bool fault_due(const sim_op *op) { return op->spec.kind == SIM_OP_KERNEL && sim_opt.fault && !--sim_opt.fault; }

static void pause_randomly(void) {
    if (!sim_opt.delay) return;
    long us = (long)sim_random((uint64_t)sim_opt.delay + 1);
    sim_unlock();
    nanosleep(&(struct timespec){us / 1000000, us % 1000000 * 1000}, NULL);
    sim_lock();
}

/* Runs one op to its end. On a device that has faulted nothing runs any more but host functions. */
static void run(sim_op *op) {
    char message[400] = "";
    sim_device *d = op->spec.device;
    op->state = SIM_RUNNING;
    n_running++;
    pause_randomly();
    CUresult r = CUDA_SUCCESS;
    if (fault_due(op)) fault(d, CUDA_ERROR_LAUNCH_FAILED, "a fault that was asked for");
    bool runs = !d->fault || op->spec.kind == SIM_OP_HOST;
    if (runs && (r = sim_spec_check(&op->spec))) snprintf(message, sizeof message, "%s", sim_detail(r));
    if (runs && !r) {
        sim_memory_acquire();
        sim_acquire(op);
        sim_unlock();
        sim_in_host_function = op->spec.kind == SIM_OP_HOST;
        r = (CUresult)sim_spec_run(&op->spec, op->seed, message, sizeof message);
        sim_in_host_function = false;
        sim_lock();
        sim_release(op);
        sim_memory_yield();
    }
    if (r) fault(d, r, message);
    n_running--;
    complete(op);
    sim_op_drop(op);
}

/* Host functions run on a thread of their own, as the driver's do, one after another: one that waits for what another
   thread will do holds up its stream only. */
static void *run_host_functions(void *unused) {
    (void)unused;
    sim_lock();
    while (!stopping) {
        if (host_op) {
            run(host_op);
            host_op = NULL;
            pthread_cond_broadcast(&changed);
        } else {
            pthread_cond_wait(&changed, sim_mutex());
        }
    }
    sim_unlock();
    return NULL;
}

/* Hands a host function over and waits for it a while, so that those that do not wait run in a seeded order too. */
static void hand_over(sim_op *op) {
    if (!host_worker_runs) host_worker_runs = !pthread_create(&host_worker, NULL, run_host_functions, NULL);
    sim_op_keep(op);
    op->state = SIM_RUNNING;
    host_op = op;
    pthread_cond_broadcast(&changed);
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += 20000000;
    if (until.tv_nsec >= 1000000000) until.tv_sec++, until.tv_nsec -= 1000000000;
    while (!n_workers && op->state != SIM_DONE && !pthread_cond_timedwait(&changed, sim_mutex(), &until)) {}
    sim_op_drop(op);
}

/* ---- choosing ---------------------------------------------------------------------------------------------------- */

static void start(size_t i) {
    sim_op *op = ready[i];
    ready[i] = ready[--n_ready];
    if (op->spec.kind == SIM_OP_HOST)
        hand_over(op);
    else
        run(op);
}

/* Ready ops but for host functions while one runs, at the front of the array; others follow. */
static size_t startable(void) {
    size_t n = n_ready;
    for (size_t i = 0; host_op && i < n;) {
        if (ready[i]->spec.kind != SIM_OP_HOST) {
            i++;
            continue;
        }
        sim_op *last = ready[--n];
        ready[n] = ready[i];
        ready[i] = last;
    }
    return n;
}

static size_t oldest(size_t n) {
    size_t best = 0;
    for (size_t i = 1; i < n; i++) {
        if (ready[i]->sequence < ready[best]->sequence) best = i;
    }
    return best;
}

/* Marks what `op` waits for, directly or not. */
static uint64_t visit(sim_op *op) {
    sim_op **list = NULL;
    size_t n = 0, cap = 0;
    last_visit++;
    sim_grow(&list, n, &cap, sizeof *list);
    list[n++] = op;
    op->visit = last_visit;
    while (n) {
        sim_op *at = list[--n];
        for (size_t i = 0; i < at->n_deps; i++) {
            if (at->deps[i]->state == SIM_DONE || at->deps[i]->visit == last_visit) continue;
            at->deps[i]->visit = last_visit;
            sim_grow(&list, n, &cap, sizeof *list);
            list[n++] = at->deps[i];
        }
    }
    free(list);
    return last_visit;
}

/* How work that nobody waits for is treated by one wait: left, mixed in at random, or done first. Missing waits show in
   one of them. */
typedef enum policy { ONLY_NEEDED, MIXED, OTHERS_FIRST } policy;

/* Index of one of the first n ready ops, or n if the policy allows none; what is needed carries the last visit. */
static size_t choose(policy p, size_t n) {
    if (!n) return 0;
    if (!sim_opt.seed) return oldest(n);
    size_t first = sim_random(n);
    if (p == MIXED) return first;
    for (size_t k = 0; k < n; k++) {
        size_t i = (first + k) % n;
        if ((ready[i]->visit == last_visit) == (p == ONLY_NEEDED)) return i;
    }
    return p == OTHERS_FIRST ? first : n;
}

static bool start_any(void) {
    size_t n = startable();
    if (n) start(choose(MIXED, n));
    return n > 0;
}

static void wait_for_change(void) { pthread_cond_wait(&changed, sim_mutex()); }

void sim_op_wait(sim_op *op) {
    if (sim_op_seen(op)) return;
    sim_op_keep(op);
    policy p = (policy)sim_random(3);
    for (uint64_t visited = 0; op->state != SIM_DONE;) {
        size_t n = n_workers ? 0 : startable(), i = n;
        if (n) {
            if (p != MIXED && visited != last_visit) visited = visit(op);
            i = choose(p, n);
        }
        if (i < n)
            start(i);
        else
            wait_for_change();
    }
    sim_acquire(op);
    sim_op_drop(op);
}

void sim_progress(void) {
    if (n_workers) return;
    for (uint64_t steps = 1 + sim_random(3); steps && start_any(); steps--) {}
}

static bool device_busy(sim_device *d) {
    if (d->legacy && !sim_op_done(d->legacy->tail)) return true;
    for (sim_stream *s = d->streams; s; s = s->next_stream) {
        if (!sim_op_done(s->tail)) return true;
    }
    return d->n_orphans > 0;
}

void sim_drain(sim_device *d) {
    while (d ? device_busy(d) : n_pending > 0) {
        if (n_workers || !start_any()) wait_for_change();
    }
    for (int i = 0; i < sim_n_devices; i++) {
        if (!d || d == &sim_devices[i]) sim_acquire(&sim_devices[i]);
    }
}

void sim_op_submit(sim_op *op) {
    n_pending++;
    sim_release(op);
    if (!--op->pending) {
        if (op->spec.kind == SIM_OP_MARK)
            complete(op);
        else
            make_ready(op);
    }
    if (n_workers)
        pthread_cond_broadcast(&changed);
    else
        while (n_pending > SIM_QUEUE_LIMIT && start_any()) {}
}

int64_t sim_work_count(const char *name) { return strcmp(name, "pending") == 0 ? (int64_t)n_pending : -1; }

/* ---- workers ----------------------------------------------------------------------------------------------------- */

static void *work(void *unused) {
    (void)unused;
    sim_lock();
    while (!stopping) {
        if (!start_any()) wait_for_change();
    }
    sim_unlock();
    return NULL;
}

void sim_work_start(void) {
    stopping = false;
    for (n_workers = 0; n_workers < sim_opt.threads; n_workers++) {
        if (pthread_create(&workers[n_workers], NULL, work, NULL)) break;
    }
}

/* What has not run by now never does, as when a process ends. */
void sim_work_stop(void) {
    stopping = true;
    pthread_cond_broadcast(&changed);
    sim_unlock();
    for (int i = 0; i < n_workers; i++) pthread_join(workers[i], NULL);
    if (host_worker_runs) pthread_join(host_worker, NULL);
    sim_lock();
    n_workers = 0;
    host_worker_runs = false;
    while (n_ready) {
        sim_op *op = ready[--n_ready];
        complete(op);
        sim_op_drop(op);
    }
    free(ready);
    ready = NULL;
    cap_ready = 0;
}
