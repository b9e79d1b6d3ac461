/* Indices out of range, met by kernels: the device's note of one (kernels/bounds.h says how it is written) becomes
   an ordinary error here, and the device works on. The note lies in page-locked memory, so that looking is a load
   of the host's.

   Devices and host each write words of their own, so nothing depends on atomic operations across the bus. A launch
   carries the number of notes that were raised before it; what is queued when an error is raised therefore belongs
   to that error still: it can write no second note, and optimiser steps among it stay skipped. So nothing has to be
   waited for when one is raised. Launches in a graph look at the number when they run, so that each replay can fail;
   one under way when an error is raised is not held back any more. */
#include "backend/cuda/kernels/bounds.h"
#include "backend/cuda/runtime/parts.h"
#include "backend/cuda/runtime/race.h"
#include "dispatch/operator.h"
#include <facula/cuda_memory.h>

/* Made by the first launch that needs it. */
static struct {
    _Atomic(k_index_note *) note;
    k_index_note *mapped; /* where the device finds it */
    unsigned *claimed;
} notes[FAC_CUDA_MAX_DEVICES];
static fac_mutex lock = FAC_MUTEX_INIT; /* of the making and raising of notes */

/* ---- operators by number: what comes back from a device is never followed as a pointer -------------------------------------------- */

enum { MAX_OPS = 256 };
static _Atomic(const fac_operator *) ops[MAX_OPS]; /* built-in ones, which stay where they are */

static int number_of(const fac_operator *op) {
    for (int i = 0; i < MAX_OPS; i++) {
        const fac_operator *there = atomic_load_explicit(&ops[i], memory_order_acquire);
        if (!there && atomic_compare_exchange_strong(&ops[i], &there, op)) return i;
        if (there == op) return i;
    }
    return MAX_OPS;
}

static const char *name_of(int op) {
    const fac_operator *o = op >= 0 && op < MAX_OPS ? atomic_load_explicit(&ops[op], memory_order_acquire) : NULL;
    return o ? fac__operator_base_name(o) : "an operator";
}

/* ---- making a device's note ---------------------------------------------------------------------------------------------------- */

/* In a stream of its own: the current ones may be captured, and the default one may have long work to do. */
static CUresult clear(CUdeviceptr word) {
    CUstream s;
    CUresult r = fac__cu.cuStreamCreate(&s, CU_STREAM_NON_BLOCKING);
    if (r != CUDA_SUCCESS) return r;
    r = fac__cu.cuMemsetD32Async(word, 0, 1, s);
    if (r == CUDA_SUCCESS) r = fac__cu.cuStreamSynchronize(s);
    fac__cu.cuStreamDestroy(s);
    return r;
}

static CUresult allocate(void **note, CUdeviceptr *mapped, CUdeviceptr *claimed) {
    CUresult r = fac__cu.cuMemHostAlloc(note, sizeof(k_index_note), CU_MEMHOSTALLOC_DEVICEMAP);
    if (r != CUDA_SUCCESS) return r;
    r = fac__cu.cuMemHostGetDevicePointer(mapped, *note, 0);
    if (r == CUDA_SUCCESS) r = fac__cu.cuMemAlloc(claimed, sizeof(unsigned));
    if (r == CUDA_SUCCESS && (r = clear(*claimed)) != CUDA_SUCCESS) fac__cu.cuMemFree(*claimed);
    if (r != CUDA_SUCCESS) fac__cu.cuMemFreeHost(*note);
    return r;
}

static CUresult make_locked(int index) {
    void *note;
    CUdeviceptr mapped, claimed;
    if (atomic_load_explicit(&notes[index].note, memory_order_relaxed)) return CUDA_SUCCESS; /* another was first */
    CUstreamCaptureMode mode = fac__cuda_relax();
    CUresult r = allocate(&note, &mapped, &claimed);
    fac__cuda_unrelax(mode);
    if (r != CUDA_SUCCESS) return r;
    memset(note, 0, sizeof(k_index_note));
    notes[index].mapped = (k_index_note *)(uintptr_t)mapped;
    notes[index].claimed = (unsigned *)(uintptr_t)claimed;
    atomic_store_explicit(&notes[index].note, note, memory_order_release);
    return CUDA_SUCCESS;
}

static CUresult make(int index) {
    fac__race_hold(true); /* its warnings' handler may launch something */
    fac__mutex_lock(&lock);
    CUresult r = make_locked(index);
    fac__mutex_unlock(&lock);
    fac__race_hold(false);
    return r;
}

static fac_status need(int index) {
    if (FAC_LIKELY(atomic_load_explicit(&notes[index].note, memory_order_acquire) != NULL)) return FAC_OK;
    CUresult r = make(index);
    if (r == CUDA_ERROR_OUT_OF_MEMORY) { /* the allocator may keep all there is */
        FAC_TRY(fac_cuda_empty_cache());
        r = make(index);
    }
    FAC_CU_AS(r, "allocating the note of indices out of range");
    return FAC_OK;
}

void fac__cuda_bounds_stop(int index) {
    k_index_note *note = atomic_exchange_explicit(&notes[index].note, NULL, memory_order_acq_rel);
    if (!note) return;
    fac__cu.cuMemFree((CUdeviceptr)(uintptr_t)notes[index].claimed);
    fac__cu.cuMemFreeHost(note);
}

/* ---- launches ------------------------------------------------------------------------------------------------------------------- */

fac_status fac__cuda_bounds_fill(int index, const fac_operator *op, k_bounds *out) {
    bool captured;
    FAC_TRY(need(index));
    FAC_TRY(fac__cuda_stream_capturing(index, fac__cuda_stream_id(index), &captured));
    k_index_note *note = atomic_load_explicit(&notes[index].note, memory_order_acquire);
    *out = (k_bounds){.claimed = notes[index].claimed,
                      .note = notes[index].mapped,
                      .raised = __atomic_load_n(&note->raised, __ATOMIC_ACQUIRE),
                      .captured = captured,
                      .op = number_of(op),
                      .dim = out->dim};
    return FAC_OK;
}

/* ---- errors --------------------------------------------------------------------------------------------------------------------- */

static bool is_pending(const k_index_note *note) {
    return __atomic_load_n(&note->written, __ATOMIC_ACQUIRE) != __atomic_load_n(&note->raised, __ATOMIC_RELAXED);
}

/* Whether there was a note for the calling thread to raise. No device writes it before it counts as raised. */
static bool take(k_index_note *note, k_index_note *out) {
    fac__mutex_lock(&lock);
    bool mine = is_pending(note);
    if (mine) {
        *out = *note;
        __atomic_store_n(&note->raised, out->written, __ATOMIC_RELEASE);
    }
    fac__mutex_unlock(&lock);
    return mine;
}

/* The CPU's words, and, unless every call waits, where they come from. */
static fac_status raise_note(const k_index_note *n, int index, const char *what) {
    char late[256] = "";
    if (!fac__cuda_blocking())
        snprintf(late, sizeof late,
                 " on cuda:%d, seen in %s. Devices work asynchronously: FACULA_CUDA_LAUNCH_BLOCKING=1 makes every call "
                 "wait, so that the operator itself fails",
                 index, what);
    if (n->dim == K_DIM_CLASS)
        (void)FAC_FAIL(FAC_ERR_INDEX, "Target %lld is out of bounds for %lld classes%s", (long long)n->index,
                       (long long)n->size, late);
    else
        (void)FAC_FAIL(FAC_ERR_INDEX, "index %lld is out of bounds for dimension %d with size %lld%s",
                       (long long)n->index, n->dim, (long long)n->size, late);
    return fac__error_context(name_of(n->op), NULL);
}

fac_status fac__cuda_bounds_check(int index, const char *what) {
    k_index_note n, *note = atomic_load_explicit(&notes[index].note, memory_order_acquire);
    if (FAC_LIKELY(!note || !is_pending(note))) return FAC_OK;
    if (fac_error() != FAC_OK || !take(note, &n)) return FAC_OK;
    return raise_note(&n, index, what);
}
