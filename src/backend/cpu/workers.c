/* A worker looks at the board of jobs whenever the count of calls has changed. It watches the count for a short while,
   since operators follow each other closely; then it puts its bit into `asleep`, looks at the count once more, and sleeps
   on a word of its own. A caller publishes, counts, and only then looks at the bits: so either the worker sees the count
   or the caller the bit. The lowest bits are woken first, so that the same few workers do small jobs. */
#define _GNU_SOURCE /* pthread_setname_np, sched_getcpu */
#include "backend/cpu/workers.h"
#include "backend/cpu/jobs.h"
#include "base/helper.h"
#include "base/mutex.h"
#include "base/park.h"
#include <pthread.h>
#include <sched.h>
#include <stdio.h>

enum { MAX_WORKERS = FAC_MAX_THREADS - 1, WORDS = FAC_MAX_THREADS / 64, SPIN_NS = 100000, STACK_BYTES = 1 << 20 };
#define RETRY_SECONDS 1.0 /* after the system refused a thread */

typedef struct worker {
    _Alignas(64) _Atomic(uint32_t) woken; /* what it sleeps on while it is 0 */
    int index;
    pthread_t thread;
} worker;

static worker workers[MAX_WORKERS];
static _Alignas(64) _Atomic(uint64_t) asleep[WORDS];
static _Alignas(64) _Atomic(uint32_t) calls;
static _Atomic(int) caller_cpu; /* where the last call was made */
static _Atomic(int) count;
static atomic_bool stopping;
static _Atomic(double) refused_until;
static fac_mutex making = FAC_MUTEX_INIT; /* the making and ending of workers */

static _Thread_local bool is_worker __attribute__((tls_model("initial-exec")));

bool fac__is_worker(void) { return is_worker; }
int fac__workers_count(void) { return atomic_load_explicit(&count, memory_order_relaxed); }

/* ---- a worker's life ------------------------------------------------------------------------------------------------- */

static bool has_news(uint32_t seen) {
    return atomic_load_explicit(&calls, memory_order_seq_cst) != seen || atomic_load(&stopping);
}

static int current_cpu(void) {
#ifdef __linux__
    return sched_getcpu();
#else
    return -1;
#endif
}

/* Not where the caller runs, which would wait for the end of it. A thread that lost its processor while it watched finds
   its time over. So a busy machine is not kept busy by this. */
static bool watch(uint32_t seen) {
    const double end = fac__now() + 1e-9 * SPIN_NS;
    do {
        const int cpu = current_cpu();
        if (cpu >= 0 && cpu == atomic_load_explicit(&caller_cpu, memory_order_relaxed)) return false;
        for (int i = 0; i < 32; i++) {
            if (atomic_load_explicit(&calls, memory_order_relaxed) != seen) return true;
            fac__pause();
        }
    } while (fac__now() < end);
    return false;
}

static void sleep_until_called(worker *w, uint32_t seen) {
    const uint64_t bit = UINT64_C(1) << w->index % 64;
    _Atomic(uint64_t) *word = &asleep[w->index / 64];
    atomic_fetch_or(word, bit);
    while (!has_news(seen) && atomic_load(&w->woken) == 0) fac__park(&w->woken, 0);
    atomic_fetch_and(word, ~bit);
    atomic_store(&w->woken, 0);
}

static void *work(void *context) {
    worker *w = context;
    char name[24];
    snprintf(name, sizeof name, "facula-%d", w->index + 1);
#ifdef __linux__
    (void)pthread_setname_np(pthread_self(), name);
#endif
    is_worker = true;
    uint32_t seen = atomic_load(&calls) - 1; /* it was made for a job that is there */
    while (!atomic_load_explicit(&stopping, memory_order_relaxed)) {
        const uint32_t now = atomic_load_explicit(&calls, memory_order_acquire);
        if (now != seen)
            fac__jobs_help(w->index + 1);
        else if (!watch(seen))
            sleep_until_called(w, seen);
        seen = now;
    }
    return NULL;
}

/* ---- making and ending them ------------------------------------------------------------------------------------------ */

/* As many as there may be. A system that refuses one is not asked again for a while. */
static void make_workers(int n) {
    if (fac__now() < atomic_load_explicit(&refused_until, memory_order_relaxed)) return;
    fac__mutex_lock(&making);
    for (int i = fac__workers_count(); i < n && i < MAX_WORKERS; i++) {
        workers[i].index = i;
        if (!fac__helper_start(&workers[i].thread, STACK_BYTES, work, &workers[i])) {
            atomic_store_explicit(&refused_until, fac__now() + RETRY_SECONDS, memory_order_relaxed);
            break;
        }
        atomic_store_explicit(&count, i + 1, memory_order_relaxed);
    }
    fac__mutex_unlock(&making);
}

static void wake(int index) {
    atomic_store(&workers[index].woken, 1);
    fac__unpark(&workers[index].woken);
}

void fac__workers_stop(void) {
    fac__mutex_lock(&making);
    const int n = fac__workers_count();
    atomic_store(&stopping, true);
    atomic_fetch_add(&calls, 1);
    for (int i = 0; i < n; i++) wake(i);
    for (int i = 0; i < n; i++) pthread_join(workers[i].thread, NULL);
    atomic_store(&count, 0);
    atomic_store(&stopping, false);
    fac__mutex_unlock(&making);
}

void fac__workers_forget(void) {
    for (int i = 0; i < WORDS; i++) atomic_store(&asleep[i], 0);
    for (int i = 0; i < fac__workers_count(); i++) atomic_store(&workers[i].woken, 0);
    atomic_store(&count, 0);
    atomic_store(&stopping, false);
    atomic_store(&refused_until, 0);
}

/* ---- calling them ------------------------------------------------------------------------------------------------------ */

/* Wakes up to n of one word's; returns how many more are wanted. */
static int wake_some(int word, int n) {
    uint64_t bits = atomic_load(&asleep[word]);
    while (bits && n > 0) {
        const uint64_t lowest = bits & (~bits + 1);
        if (atomic_fetch_and(&asleep[word], ~lowest) & lowest) {
            wake(word * 64 + __builtin_ctzll(lowest));
            n--;
        }
        bits = atomic_load(&asleep[word]);
    }
    return n;
}

static int count_asleep(int words) {
    int n = 0;
    for (int i = 0; i < words; i++) n += __builtin_popcountll(atomic_load(&asleep[i]));
    return n;
}

void fac__workers_call(int n) {
    if (FAC_UNLIKELY(fac__workers_count() < n)) make_workers(n);
    atomic_store_explicit(&caller_cpu, current_cpu(), memory_order_relaxed);
    atomic_fetch_add(&calls, 1);
    const int made = fac__workers_count(), words = (made + 63) / 64, sleepers = count_asleep(words);
    if (sleepers == 0) return;
    if (fac__jobs_open() == 1) n -= made - sleepers; /* those awake have nothing else to do, and saw the count */
    for (int i = 0; i < words && n > 0; i++) n = wake_some(i, n);
}
