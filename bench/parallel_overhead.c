/* What fac__parallel_for costs, at 2 threads unless the first argument says otherwise:

       bench_parallel [THREADS]      prints row<TAB>median<TAB>least, in nanoseconds

   `one chunk` stays with the caller. `awake` calls follow each other at once, so that workers still watch for them; before
   each `asleep` call they had time to fall asleep. In `shared` rows each thread has a chunk of 20 us: the least that they
   can take is those 20000 ns, and with one thread THREADS times that. */
#include "backend/cpu/parallel.h"
#include <facula/facula.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { SAMPLES = 401, CHUNK_NS = 20000, PAUSE_NS = 2000000 };

static double now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static fac_status nothing(void *context, int64_t begin, int64_t end) {
    (void)context, (void)begin, (void)end;
    return FAC_OK;
}

static fac_status some_work(void *context, int64_t begin, int64_t end) {
    (void)context, (void)begin, (void)end;
    for (const double until = now_ns() + CHUNK_NS; now_ns() < until;) continue;
    return FAC_OK;
}

static int by_value(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void measure(const char *name, int64_t chunks, fac_range_fn fn, bool pause) {
    static double samples[SAMPLES];
    for (int i = 0; i < SAMPLES; i++) {
        if (pause) nanosleep(&(struct timespec){.tv_nsec = PAUSE_NS}, NULL);
        const double begin = now_ns();
        if (fac__parallel_for(0, chunks, 1, fn, NULL)) exit(fac_report(stderr));
        samples[i] = now_ns() - begin;
    }
    qsort(samples, SAMPLES, sizeof *samples, by_value);
    printf("%s\t%.0f\t%.0f\n", name, samples[SAMPLES / 2], samples[0]);
}

int main(int argc, char **argv) {
    const int threads = argc > 1 ? atoi(argv[1]) : 2;
    if (fac_set_num_threads(threads)) return fac_report(stderr);
    measure("one chunk", 1, nothing, false);
    measure("empty chunks, awake", threads, nothing, false);
    measure("empty chunks, asleep", threads, nothing, true);
    measure("shared, awake", threads, some_work, false);
    measure("shared, asleep", threads, some_work, true);
    fac_shutdown();
    return 0;
}
