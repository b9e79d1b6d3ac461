/* Cancelling what a thread does, from another thread or a signal handler: only atomic operations on static memory. */
#include "core/thread.h"

/* Threads that can be cancelled have a place here. A word holds, from below: that a cancellation waits, that a thread has the
   place, and how many threads have had it, so that a number never means a later thread. */
#define PLACES 4096
#define WAITING 1u
#define TAKEN 2u
#define PER_THREAD 4u

static _Atomic(uint64_t) places[PLACES];
atomic_int fac__watched;

/* The caller holds the lock of the list of threads. */
void fac__cancel_begin(fac_thread *th) {
    for (uint64_t i = 0; i < PLACES; i++) {
        const uint64_t was = atomic_load_explicit(&places[i], memory_order_relaxed);
        if (was & TAKEN) continue;
        const uint64_t now = (was + PER_THREAD) | TAKEN;
        atomic_store_explicit(&places[i], now, memory_order_release);
        th->cancel = &places[i];
        th->number = (int64_t)(now / PER_THREAD * PLACES + i);
        return;
    }
}

static bool take(_Atomic(uint64_t) *place, uint64_t bits) {
    const bool waiting = atomic_fetch_and_explicit(place, ~bits, memory_order_acquire) & WAITING;
    if (waiting) atomic_fetch_sub_explicit(&fac__watched, FAC_WATCHED_CANCEL, memory_order_relaxed);
    return waiting;
}

void fac__cancel_end(fac_thread *th) {
    if (th->cancel) (void)take(th->cancel, WAITING | TAKEN);
    th->cancel = NULL;
}

fac_status fac__take_cancel(fac_thread *of) {
    if (!of || !of->cancel || !take(of->cancel, WAITING)) return FAC_OK;
    return FAC_FAIL(FAC_ERR_INTERRUPTED, "cancelled by fac_cancel");
}

int64_t fac_thread_number(void) { return fac__thread()->number; }

bool fac_cancel(int64_t thread) {
    if (thread <= 0) return false;
    _Atomic(uint64_t) *place = &places[thread % PLACES];
    uint64_t idle = (uint64_t)(thread / PLACES) * PER_THREAD | TAKEN;
    const uint64_t waiting = idle | WAITING;
    /* Counted first: the count must not fall below what waits. */
    atomic_fetch_add_explicit(&fac__watched, FAC_WATCHED_CANCEL, memory_order_relaxed);
    if (atomic_compare_exchange_strong_explicit(place, &idle, waiting, memory_order_release, memory_order_relaxed))
        return true;
    atomic_fetch_sub_explicit(&fac__watched, FAC_WATCHED_CANCEL, memory_order_relaxed);
    return idle == waiting;
}
