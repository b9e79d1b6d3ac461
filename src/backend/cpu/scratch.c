/* Scratch memory of parallel work. One block holds a room for each thread that may be at work; a chunk claims a room, most
   often the one that its thread had last, and gives it back. A worker that comes late from an earlier job may make the
   threads more than the rooms: it then waits for a chunk to end, and chunks wait for nobody. */
#include "backend/cpu/parallel.h"
#include "backend/cpu/workers.h"
#include <facula/tensor.h>
#include <sched.h>

enum { STACK_ROOM = 20480 }; /* scratch of one thread's work that need not be allocated */

typedef struct rooms {
    fac_scratch_fn fn;
    void *ctx;
    char *at;
    int64_t bytes; /* of a room */
    int n;
    _Atomic(uint64_t) taken[FAC_MAX_THREADS / 64];
} rooms;

static _Thread_local int last_room __attribute__((tls_model("initial-exec")));

static bool claim(rooms *r, int i) {
    const uint64_t bit = UINT64_C(1) << i % 64;
    return !(atomic_fetch_or_explicit(&r->taken[i / 64], bit, memory_order_acquire) & bit);
}

static int claim_any(rooms *r) {
    if (last_room < r->n && claim(r, last_room)) return last_room;
    for (;; sched_yield())
        for (int i = 0; i < r->n; i++)
            if (claim(r, i)) return last_room = i;
}

static void give_back(rooms *r, int i) {
    atomic_fetch_and_explicit(&r->taken[i / 64], ~(UINT64_C(1) << i % 64), memory_order_release);
}

static fac_status run_in_room(void *ctx, int64_t begin, int64_t end) {
    rooms *r = ctx;
    const int i = claim_any(r);
    fac_status st = r->fn(r->ctx, begin, end, r->at + i * r->bytes);
    give_back(r, i);
    return st;
}

/* Of one thread, or none. */
typedef struct one_room {
    fac_scratch_fn fn;
    void *ctx, *at;
} one_room;

static fac_status run_alone(void *ctx, int64_t begin, int64_t end) {
    const one_room *r = ctx;
    return r->fn(r->ctx, begin, end, r->at);
}

/* `room` holds threads * bytes. */
static __attribute__((noinline)) fac_status run_in_rooms(char *room, int threads, int64_t begin, int64_t end,
                                                         int64_t grain, int64_t bytes, fac_scratch_fn fn, void *ctx) {
    rooms r = {.fn = fn, .ctx = ctx, .at = room, .bytes = bytes, .n = threads};
    return fac__parallel_for_on(threads, begin, end, grain, run_in_room, &r);
}

static fac_status run_in(char *room, int threads, int64_t begin, int64_t end, int64_t grain, int64_t bytes,
                         fac_scratch_fn fn, void *ctx) {
    if (threads > 1 && bytes > 0) return run_in_rooms(room, threads, begin, end, grain, bytes, fn, ctx);
    one_room r = {fn, ctx, bytes ? room : NULL};
    return fac__parallel_for_on(threads, begin, end, grain, run_alone, &r);
}

static __attribute__((noinline)) fac_status run_on_stack(int64_t begin, int64_t end, int64_t grain, fac_scratch_fn fn,
                                                         void *ctx) {
    char room[STACK_ROOM] __attribute__((aligned(64)));
    const bool was = fac__chunk;
    fac_status st = FAC_OK;
    fac__chunk = true;
    for (; st == FAC_OK && end - begin > grain; begin += grain) st = fn(ctx, begin, begin + grain, room);
    if (st == FAC_OK && end > begin) st = fn(ctx, begin, end, room);
    fac__chunk = was;
    return st;
}

fac_status fac__workspace_take(int64_t bytes, fac_workspace *out) {
    const fac_allocator *a = fac_allocator_get(FAC_CPU);
    *out = (fac_workspace){.at = a->alloc(a, bytes), .bytes = bytes};
    FAC_CHECK(out->at, FAC_ERR_MEMORY, "no %lld bytes were left to work in", (long long)bytes);
    return FAC_OK;
}

void fac__workspace_give(fac_workspace s) {
    const fac_allocator *a = fac_allocator_get(FAC_CPU);
    if (s.at) a->free(a, s.at, s.bytes);
}

fac_status fac__parallel_for_scratch(int64_t begin, int64_t end, int64_t grain, int64_t bytes, fac_scratch_fn fn,
                                     void *ctx) {
    const int threads = fac__parallel_threads(begin, end, grain);
    int64_t all;
    fac_workspace s;
    if (grain < 1) grain = 1;
    if (bytes == 0) return run_in(NULL, threads, begin, end, grain, 0, fn, ctx);
    if (threads == 1 && bytes <= STACK_ROOM) return run_on_stack(begin, end, grain, fn, ctx);
    if (end <= begin) return FAC_OK;
    FAC_CHECK(bytes <= INT64_MAX - 63 && fac__mul(fac__workspace_round(bytes), threads, &all), FAC_ERR_OVERFLOW,
              "%d times %lld bytes to work in do not fit the address space", threads, (long long)bytes);
    FAC_TRY(fac__workspace_take(all, &s));
    fac_status st = run_in(s.at, threads, begin, end, grain, fac__workspace_round(bytes), fn, ctx);
    fac__workspace_give(s);
    return st;
}

fac_status fac__parallel_for_taken(int64_t begin, int64_t end, int64_t grain, int64_t bytes, fac_workspace taken,
                                   fac_scratch_fn fn, void *ctx) {
    const int64_t room = fac__workspace_round(bytes);
    if (!taken.at || taken.bytes < room) return fac__parallel_for_scratch(begin, end, grain, bytes, fn, ctx);
    const int64_t fit = room ? taken.bytes / room : FAC_MAX_THREADS;
    const int threads = (int)fac__min(fac__parallel_threads(begin, end, grain), fit);
    return run_in(taken.at, threads, begin, end, grain, room, fn, ctx);
}
