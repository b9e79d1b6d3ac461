/* Counts, and fails, the library's requests for memory. */
#include "memory_hook.h"

#include "backend/cpu/parallel.h"
#include "core/slot.h"

static fac_memory_hook system_hook;
static atomic_bool installed, all_later;
static _Atomic(int64_t) live, countdown, failures, requests, arms, in_chunks, all_bytes;

/* True if this request is one that should fail. */
static bool must_fail(void) {
    int64_t left = atomic_load(&countdown);
    do {
        if (left == 0) return false;
    } while (!atomic_compare_exchange_weak(&countdown, &left, left == 1 && atomic_load(&all_later) ? 1 : left - 1));
    if (left != 1) return false;
    atomic_fetch_add(&failures, 1);
    return true;
}

/* What no machine has is refused here: a sanitizer's allocator would abort. */
static void *counting_alloc(void *ctx, size_t bytes, size_t align) {
    (void)ctx;
    atomic_fetch_add(&requests, 1);
    if (fac__in_chunk()) atomic_fetch_add(&in_chunks, 1);
    void *p = must_fail() || bytes >> 40 ? NULL : system_hook.alloc(system_hook.ctx, bytes, align);
    if (p) atomic_fetch_add(&live, 1);
    if (p) atomic_fetch_add(&all_bytes, (int64_t)bytes);
    return p;
}

static void counting_free(void *ctx, void *p) {
    (void)ctx;
    if (p) atomic_fetch_sub(&live, 1);
    system_hook.free(system_hook.ctx, p);
}

void memory_hook_install(void) {
    if (atomic_exchange(&installed, true)) return;
    system_hook = fac__memory_hook;
    fac__memory_hook = (fac_memory_hook){counting_alloc, counting_free, NULL};
}

int64_t memory_hook_live(void) { return atomic_load(&live) - fac__slot_blocks(); }

void memory_hook_fail(int64_t n, bool and_all_later) {
    atomic_store(&all_later, and_all_later);
    atomic_store(&failures, 0);
    atomic_store(&requests, 0);
    atomic_fetch_add(&arms, 1);
    atomic_store(&countdown, n);
}

int64_t memory_hook_requests(void) { return atomic_load(&requests); }

int64_t memory_hook_requests_in_chunks(void) { return atomic_exchange(&in_chunks, 0); }

int64_t memory_hook_bytes(void) { return atomic_exchange(&all_bytes, 0); }

int64_t memory_hook_arms(void) { return atomic_load(&arms); }

int64_t memory_hook_failures(void) { return atomic_load(&failures); }
