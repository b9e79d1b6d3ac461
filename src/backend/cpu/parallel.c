/* Splits loops over threads: how many, in which chunks, and what a chunk's failure does to the others. */
#include "backend/cpu/parallel.h"
#include "backend/cpu/jobs.h"
#include "backend/cpu/thread_count.h"
#include "backend/cpu/workers.h"
#include <facula/tensor.h>
#include <pthread.h>

static _Atomic(int) default_threads; /* 0 until fac__parallel_start */

/* In a job that several threads may work on; what is called from there stays on its thread. */
static _Thread_local bool in_parallel __attribute__((tls_model("initial-exec")));
_Thread_local bool fac__chunk __attribute__((tls_model("initial-exec")));

/* ---- how many ---------------------------------------------------------------------------------------------------------- */

/* A child has only the thread that forked. It works alone until it asks for more: children are often many. */
static void after_fork_in_child(void) {
    fac__workers_forget();
    fac__jobs_forget();
    if (atomic_load(&default_threads) == 0) return;
    atomic_store(&default_threads, 1);
    if (fac__tls) fac__tls->num_threads = 0;
}

static void watch_forks(void) { (void)pthread_atfork(NULL, NULL, after_fork_in_child); }

fac_status fac__parallel_start(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, watch_forks);
    int n;
    if (atomic_load(&default_threads) != 0) return FAC_OK;
    FAC_TRY(fac__thread_count(&n));
    atomic_store(&default_threads, n);
    return FAC_OK;
}

int fac_num_threads(void) {
    int n = fac__thread()->num_threads;
    if (n == 0) n = atomic_load_explicit(&default_threads, memory_order_relaxed);
    return n > 0 ? n : 1; /* a library that could not start computes nothing */
}

fac_status fac_set_num_threads(int n) {
    FAC_CHECK(n > 0 && n <= FAC_MAX_THREADS, FAC_ERR_ARGUMENT, "set_num_threads: expected 1 to %d threads, got %d",
              FAC_MAX_THREADS, n);
    fac__thread()->num_threads = n;
    return FAC_OK;
}

bool fac__in_parallel(void) { return in_parallel || fac__is_worker(); }
bool fac__in_chunk(void) { return fac__chunk || fac__is_worker(); }

/* ---- running ----------------------------------------------------------------------------------------------------------- */

static fac_status run_chunks(int64_t begin, int64_t end, int64_t grain, fac_range_fn fn, void *ctx) {
    while (end - begin > grain) {
        FAC_TRY(fn(ctx, begin, begin + grain));
        begin += grain;
    }
    return fn(ctx, begin, end);
}

static fac_status run_serial(int64_t begin, int64_t end, int64_t grain, fac_range_fn fn, void *ctx) {
    const bool was = fac__chunk;
    fac__chunk = true;
    fac_status st = run_chunks(begin, end, grain, fn, ctx);
    fac__chunk = was;
    return st;
}

static fac_status run_threads(int64_t begin, int64_t end, int64_t grain, int threads, fac_range_fn fn, void *ctx) {
    fac_job job = {
        .begin = begin, .end = end, .grain = grain, .chunks = (end - begin - 1) / grain + 1, .fn = fn, .ctx = ctx};
    const bool was = fac__chunk;
    atomic_init(&job.failed_at, INT64_MAX);
    in_parallel = fac__chunk = true;
    const bool shared = fac__job_run(&job, threads);
    in_parallel = false;
    fac__chunk = was;
    if (!shared) return run_serial(begin, end, grain, fn, ctx);
    if (job.error) fac__error_restore(job.error);
    return job.status;
}

int fac__parallel_threads(int64_t begin, int64_t end, int64_t grain) {
    if (grain < 1) grain = 1;
    if (end - begin <= grain || fac__in_parallel()) return 1;
    return (int)fac__min(fac_num_threads(), (end - begin - 1) / grain + 1);
}

fac_status fac__parallel_for_on(int threads, int64_t begin, int64_t end, int64_t grain, fac_range_fn fn, void *ctx) {
    if (end <= begin) return FAC_OK;
    if (grain < 1) grain = 1;
    return threads <= 1 ? run_serial(begin, end, grain, fn, ctx) : run_threads(begin, end, grain, threads, fn, ctx);
}

fac_status fac__parallel_for(int64_t begin, int64_t end, int64_t grain, fac_range_fn fn, void *ctx) {
    return fac__parallel_for_on(fac__parallel_threads(begin, end, grain), begin, end, grain, fn, ctx);
}
