/* Shared memory of the running block: arrays are cut from an arena as threads first ask for them. Every byte starts as 0xff
   (NaN as floating numbers), so that a missing barrier shows, and what lies between the arrays is poisoned. */
#include "exec_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef SIM_ASAN
#include <sanitizer/asan_interface.h>
#define POISON(p, n) ASAN_POISON_MEMORY_REGION(p, n)
#define UNPOISON(p, n) ASAN_UNPOISON_MEMORY_REGION(p, n)
#else
#define POISON(p, n) ((void)0)
#define UNPOISON(p, n) ((void)0)
#endif

/* Room for gaps between the arrays, besides what a device's block may have. */
enum { GAP = 64, ARENA_BYTES = SIM_SHARED_BYTES + (SIM_MAX_ARRAYS + 2) * 2 * GAP };

bool sim_shared_make(sim_worker *w) {
#ifdef SIM_TSAN
    w->shared = NULL;
#else
    w->shared = aligned_alloc(128, ARENA_BYTES);
    if (!w->shared) return false;
    POISON(w->shared, ARENA_BYTES);
#endif
    return true;
}

void sim_shared_free(sim_worker *w) {
    if (!w->shared) return;
    UNPOISON(w->shared, ARENA_BYTES);
    free(w->shared);
    w->shared = NULL;
}

/* ThreadSanitizer would see one block's accesses race with the next one's, so there each block has memory of its own. */
void sim_shared_begin(sim_worker *w) {
    w->n_arrays = 0;
    w->shared_used = 0;
    w->dynamic = NULL;
#ifdef SIM_TSAN
    w->shared = aligned_alloc(128, ARENA_BYTES);
#else
    POISON(w->shared, ARENA_BYTES);
#endif
}

void sim_shared_end(sim_worker *w) {
#ifdef SIM_TSAN
    sim_shared_free(w);
#else
    (void)w;
#endif
}

static char *cut(sim_worker *w, size_t bytes, const char *name) {
    if (!w->shared) sim_fail(2, "no memory is left for shared memory");
    size_t first = w->shared_used + GAP, used = (first + bytes + 2 * GAP - 1) / GAP * GAP - GAP;
    if (bytes > SIM_SHARED_BYTES || used + GAP > ARENA_BYTES) {
        char text[160];
        snprintf(text, sizeof(text), "shared array %s of %zu bytes does not fit: a block has %d bytes", name, bytes,
                 (int)SIM_SHARED_BYTES);
        sim_fail(1, text);
    }
    w->shared_used = used;
    UNPOISON(w->shared + first, bytes);
    for (size_t i = 0; i < bytes; i++) ((volatile char *)w->shared)[first + i] = (char)0xff;
    return w->shared + first;
}

void *sim_shared(const void *key, size_t bytes, const char *name) {
    sim_worker *w = sim_worker_of_thread;
    for (unsigned i = 0; i < w->n_arrays; i++)
        if (w->arrays[i].key == key) return w->arrays[i].data;
    if (w->n_arrays == SIM_MAX_ARRAYS) sim_fail(1, "too many shared arrays in one kernel");
    char *data = cut(w, bytes, name);
    w->arrays[w->n_arrays++] = (sim_array){key, data};
    return data;
}

void *sim_shared_dynamic(void) {
    sim_worker *w = sim_worker_of_thread;
    if (!w->dynamic) w->dynamic = cut(w, w->launch->dynamic_shared, "(dynamic)");
    return w->dynamic;
}
