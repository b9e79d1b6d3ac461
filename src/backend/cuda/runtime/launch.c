/* Launches: the device's context, its current stream, the function behind the kernel, the checker's list, the call. */
#include "backend/cuda/runtime/parts.h"
#include "backend/cuda/runtime/race.h"
#include "dispatch/operator.h"

/* ---- what was launched last -------------------------------------------------------------------------------------------------- */

enum { RECENT = 8 };

/* Names only, which live until the shutdown: enough to say where to look when a device reports a failure late. */
static struct {
    _Atomic(const char *) names[RECENT];
    atomic_uint n;
} recent[FAC_CUDA_MAX_DEVICES];

void fac__cuda_launched(int index, const char *name) {
    unsigned n = atomic_load_explicit(&recent[index].n, memory_order_relaxed); /* a lost race loses one name */
    atomic_store_explicit(&recent[index].names[n % RECENT], name, memory_order_relaxed);
    atomic_store_explicit(&recent[index].n, n + 1, memory_order_relaxed);
}

void fac__cuda_recent(int index, char *text, size_t size) {
    size_t used = 0;
    *text = 0;
    if (index < 0) return;
    unsigned n = atomic_load_explicit(&recent[index].n, memory_order_relaxed);
    for (unsigned i = 0; i < RECENT && i < n && used < size; i++) {
        const char *name = atomic_load_explicit(&recent[index].names[(n - 1 - i) % RECENT], memory_order_relaxed);
        int wrote = snprintf(text + used, size - used, "%s%s", i ? ", " : "", name ? name : "?");
        used += wrote > 0 ? (size_t)wrote : size;
    }
}

void fac__cuda_recent_forget(int index) { atomic_store_explicit(&recent[index].n, 0, memory_order_relaxed); }

/* ---- launching ---------------------------------------------------------------------------------------------------------------- */

static const char *describe(const fac_cuda_queue *q, char *buf, size_t size) {
    snprintf(buf, size, "%s%skernel %s on cuda:%d, grid (%u, %u, %u), block (%u, %u, %u), %u bytes of shared memory",
             q->op ? fac__operator_base_name(q->op) : "", q->op ? ": " : "", q->name, q->device, q->grid[0], q->grid[1],
             q->grid[2], q->block[0], q->block[1], q->block[2], q->shared);
    return buf;
}

/* The driver gives 48 KiB of shared memory unasked. */
static CUresult allow_shared(const fac_cuda_queue *q) {
    if (q->shared <= 48 * 1024) return CUDA_SUCCESS;
    return fac__cu.cuFuncSetAttribute(q->function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, (int)q->shared);
}

fac_status fac__cuda_queue_function(const fac_cuda_queue *q) {
    char text[256];
    const char *op = q->op ? fac__operator_base_name(q->op) : q->name;
    int64_t id = fac__cuda_stream_id(q->device);
    CUstream stream = fac__cuda_stream_of(q->device, id);
    FAC_TRY(fac__cuda_bounds_check(q->device, op));
    FAC_TRY(fac__race_access(q->device, stream, q->accesses, q->n_accesses, op));
    CUresult r = allow_shared(q);
    if (r == CUDA_SUCCESS)
        r = fac__cu.cuLaunchKernel(q->function, q->grid[0], q->grid[1], q->grid[2], q->block[0], q->block[1],
                                   q->block[2], q->shared, stream, q->args, NULL);
    if (FAC_UNLIKELY(r != CUDA_SUCCESS)) return fac__cuda_fail(r, describe(q, text, sizeof text));
    fac__cuda_launched(q->device, q->name);
    return FAC_LIKELY(!fac__cuda_blocking()) ? FAC_OK : fac__cuda_queued(q->device, id, describe(q, text, sizeof text));
}

static fac_status launch(const fac_cuda_launch_spec *l) {
    CUfunction f = atomic_load_explicit(&l->kernel->handle[l->device], memory_order_acquire);
    if (FAC_UNLIKELY(!f)) FAC_TRY(fac__cuda_builtin(l->kernel, l->device, &f));
    if (l->bounds) FAC_TRY(fac__cuda_bounds_fill(l->device, l->op, l->bounds));
    return fac__cuda_queue_function(&(fac_cuda_queue){.function = f,
                                                      .name = l->kernel->name,
                                                      .op = l->op,
                                                      .device = l->device,
                                                      .grid = l->grid,
                                                      .block = l->block,
                                                      .shared = l->shared,
                                                      .args = l->args,
                                                      .accesses = l->accesses,
                                                      .n_accesses = l->n_accesses});
}

fac_status fac__cuda_launch(const fac_cuda_launch_spec *l) {
    fac_cuda_entry entry;
    FAC_TRY(fac__cuda_enter(l->device, &entry));
    fac_status st = launch(l);
    fac__cuda_leave(&entry);
    return st;
}

/* ---- which bytes a tensor is ------------------------------------------------------------------------------------------------- */

/* How many elements follow each other at a distance of `stride`, over as many dimensions as continue the row. */
static int64_t row_of(const fac_tensor *t, int64_t stride) {
    int64_t n = 1;
    for (int d = t->ndim - 1; d >= 0; d--) {
        if (t->sizes[d] <= 1 || t->strides[d] != stride * n) continue;
        n *= t->sizes[d];
        d = t->ndim; /* the next may be anywhere */
    }
    return n;
}

/* The smallest stride of at least `least`; 0 if there is none. */
static int64_t next_stride(const fac_tensor *t, int64_t least) {
    int64_t found = 0;
    for (int d = 0; d < t->ndim; d++)
        if (t->sizes[d] > 1 && t->strides[d] >= least && (!found || t->strides[d] < found)) found = t->strides[d];
    return found;
}

/* Rows without gaps, at equal distances, where that is all of the tensor; else everything from its first byte to its last. */
void fac__cuda_access_tensor(const fac_tensor *t, bool read, bool write, const char *name, fac_cuda_access *out) {
    *out = (fac_cuda_access){.start = fac__data(t), .rows = 1, .read = read, .write = write, .name = name};
    if (!out->start) return; /* no elements */
    int64_t item = fac__item_size(t), width = row_of(t, 1), last = 0;
    int64_t pitch = next_stride(t, width), rows = pitch ? row_of(t, pitch) : 1;
    for (int d = 0; d < t->ndim; d++) last += (t->sizes[d] - 1) * t->strides[d];
    bool regular = width * rows == t->numel;
    out->width = (regular ? width : last + 1) * item;
    out->pitch = regular ? pitch * item : 0;
    out->rows = regular ? rows : 1;
}
