#include "backend/cpu/parallel.h"
#include "core/thread.h"
#include <facula/tensor.h>
#include <omp.h>
#include <pthread.h>

#define FAC_MAX_THREADS 1024

/* A forked child has only the thread that forked, but OpenMP goes on waiting for that thread's team: it works alone. */
static _Thread_local bool forked;

static void after_fork_in_child(void) {
    forked = true;
    omp_set_num_threads(1);
}

/* Before the first team can be there; without memory for it, forking stays what it is without Facula. */
static void watch_forks(void) { (void)pthread_atfork(NULL, NULL, after_fork_in_child); }

int fac_num_threads(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, watch_forks);
    if (FAC_UNLIKELY(forked)) return 1;
    int n = fac__thread()->num_threads;
    return n > 0 ? n : omp_get_max_threads();
}

fac_status fac_set_num_threads(int n) {
    FAC_CHECK(n > 0 && n <= FAC_MAX_THREADS, FAC_ERR_ARGUMENT, "set_num_threads: expected 1 to %d threads, got %d",
              FAC_MAX_THREADS, n);
    fac__thread()->num_threads = n;
    return FAC_OK;
}

bool fac__in_parallel(void) { return omp_in_parallel() != 0; }

static fac_status run_serial(int64_t begin, int64_t end, int64_t grain, fac_range_fn fn, void *ctx) {
    while (end - begin > grain) {
        FAC_TRY(fn(ctx, begin, begin + grain));
        begin += grain;
    }
    return fn(ctx, begin, end);
}

/* The error of the lowest failing chunk, so that what is reported does not depend on timing. */
typedef struct first_error {
    int64_t chunk;
    fac_status status;
    fac_saved_error *saved;
} first_error;

static void note_error(first_error *first, int64_t chunk, fac_status st) {
    fac_saved_error *saved = fac__error_take();
#pragma omp critical(fac_parallel_error)
    {
        fac_saved_error *drop = saved;
        if (first->status == FAC_OK || chunk < first->chunk) {
            drop = first->saved;
            *first = (first_error){chunk, st, saved};
        }
        fac__error_drop(drop);
    }
}

static fac_status run_threads(int64_t begin, int64_t end, int64_t grain, int threads, fac_range_fn fn, void *ctx) {
    first_error first = {0};
    int64_t chunks = (end - begin - 1) / grain + 1;
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t i = 0; i < chunks; i++) {
        int64_t b = begin + i * grain;
        fac_status st = fn(ctx, b, end - b < grain ? end : b + grain);
        if (FAC_UNLIKELY(st != FAC_OK)) note_error(&first, i, st);
    }
    if (first.saved) fac__error_restore(first.saved);
    return first.status;
}

fac_status fac__parallel_for(int64_t begin, int64_t end, int64_t grain, fac_range_fn fn, void *ctx) {
    if (end <= begin) return FAC_OK;
    if (grain < 1) grain = 1;
    if (end - begin <= grain) return fn(ctx, begin, end);
    int threads = fac__in_parallel() ? 1 : fac_num_threads();
    int64_t chunks = (end - begin - 1) / grain + 1;
    if (threads > chunks) threads = (int)chunks;
    return threads == 1 ? run_serial(begin, end, grain, fn, ctx) : run_threads(begin, end, grain, threads, fn, ctx);
}
