/* Page-locked memory from the system. Registering memory of one's own is faster than the driver's allocation for large
   blocks, since the pages can be touched by many threads at once and the driver then only pins them. */
#include "backend/cuda/runtime/pinned.h"
#include "base/helper.h"
#include <unistd.h>

/* A device whose context is there serves; else the calling thread's own gets one. */
static fac_status enter_any(fac_cuda_entry *out) {
    int index;
    FAC_TRY(fac__cuda_get_device(&index));
    return fac__cuda_enter(index, out);
}

/* ---- touching pages ------------------------------------------------------------------------------------------------ */

typedef struct share {
    volatile char *from, *to;
    size_t page;
    pthread_t thread;
    bool started;
} share;

static void touch(const share *s) {
    for (volatile char *p = s->from; p < s->to; p += s->page) *p = 0;
}

static void *touch_on_thread(void *s) {
    touch(s);
    return NULL;
}

/* The last share is the caller's, as is any for which there is no thread. */
static void touch_pages(char *p, size_t bytes, size_t page, int64_t threads) {
    share shares[FAC_MAX_REGISTER_THREADS];
    const size_t pages = bytes / page, n = (size_t)threads < pages ? (size_t)threads : pages;
    for (size_t i = 0; i < n; i++) {
        shares[i] = (share){.from = p + pages * i / n * page, .to = p + pages * (i + 1) / n * page, .page = page};
        shares[i].started = i + 1 < n && fac__helper_start(&shares[i].thread, 0, touch_on_thread, &shares[i]);
        if (!shares[i].started) touch(&shares[i]);
    }
    for (size_t i = 0; i < n; i++)
        if (shares[i].started) pthread_join(shares[i].thread, NULL);
}

/* ---- both ways ---------------------------------------------------------------------------------------------------------- */

static CUresult allocate(int64_t bytes, void **out) {
    return fac__cu.cuMemHostAlloc(out, (size_t)bytes, CU_MEMHOSTALLOC_PORTABLE);
}

static CUresult register_own(int64_t bytes, int64_t threads, void **out) {
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), whole = ((size_t)bytes + page - 1) / page * page;
    char *p = fac__memory_hook.alloc(fac__memory_hook.ctx, whole, page);
    if (!p) return CUDA_ERROR_OUT_OF_MEMORY;
    touch_pages(p, whole, page, threads);
    CUresult r = fac__cu.cuMemHostRegister(p, whole, CU_MEMHOSTREGISTER_PORTABLE);
    if (r != CUDA_SUCCESS)
        fac__free(p);
    else
        *out = p;
    return r;
}

fac_status fac__pinned_map(int64_t bytes, const fac_alloc_config *c, void **out) {
    fac_cuda_entry entry;
    *out = NULL;
    FAC_TRY(enter_any(&entry));
    CUstreamCaptureMode mode = fac__cuda_relax();
    CUresult r = c->pinned_register ? register_own(bytes, c->pinned_threads, out) : allocate(bytes, out);
    fac__cuda_unrelax(mode);
    fac__cuda_leave(&entry);
    if (r == CUDA_SUCCESS || r == CUDA_ERROR_OUT_OF_MEMORY) return FAC_OK;
    return fac__cuda_fail(r, c->pinned_register ? "cuMemHostRegister" : "cuMemHostAlloc");
}

void fac__pinned_unmap(void *p, bool registered) {
    fac_cuda_entry entry;
    const bool usable = fac__cuda_running() && enter_any(&entry) == FAC_OK;
    if (usable) {
        CUstreamCaptureMode mode = fac__cuda_relax();
        if (registered)
            fac__cu.cuMemHostUnregister(p);
        else
            fac__cu.cuMemFreeHost(p);
        fac__cuda_unrelax(mode);
        fac__cuda_leave(&entry);
    }
    if (registered) fac__free(p);
}
