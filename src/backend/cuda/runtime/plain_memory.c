/* Memory straight from the driver, without a cache, and answers for what is not built in: used where nothing better is
   linked, since every function here gives way to one of the same name. */
#include "backend/cuda/kernels/compile.h"
#include "backend/cuda/kernels/images.h"
#include "backend/cuda/runtime/parts.h"
#include "backend/cuda/runtime/transfer.h"

#define GIVES_WAY __attribute__((weak))

static int index_of(const fac_allocator *a);

static void *device_alloc(const fac_allocator *a, int64_t bytes) {
    fac_cuda_entry entry;
    CUdeviceptr p = 0;
    if (fac__cuda_enter(index_of(a), &entry) != FAC_OK) return NULL;
    CUresult r = fac__cu.cuMemAlloc(&p, bytes > 0 ? (size_t)bytes : 1);
    if (r != CUDA_SUCCESS) fac__cuda_fail(r, "cuMemAlloc");
    fac__cuda_leave(&entry);
    return (void *)(uintptr_t)p;
}

static void device_free(const fac_allocator *a, void *p, int64_t bytes) {
    fac_cuda_entry entry;
    (void)bytes;
    if (!p || fac__cuda_gone() || fac__cuda_enter(index_of(a), &entry) != FAC_OK) return;
    fac__cu.cuMemFree((CUdeviceptr)(uintptr_t)p);
    fac__cuda_leave(&entry);
}

static fac_allocator device_memory[FAC_CUDA_MAX_DEVICES];

static int index_of(const fac_allocator *a) { return (int)(a - device_memory); }

GIVES_WAY const fac_allocator *fac__cuda_allocator(int index) {
    device_memory[index] = (fac_allocator){"driver", device_alloc, device_free, NULL};
    return &device_memory[index];
}

static void *host_alloc(const fac_allocator *a, int64_t bytes) {
    fac_cuda_entry entry;
    void *p = NULL;
    (void)a;
    if (fac__cuda_enter(0, &entry) != FAC_OK) return NULL;
    CUresult r = fac__cu.cuMemHostAlloc(&p, bytes > 0 ? (size_t)bytes : 1, CU_MEMHOSTALLOC_PORTABLE);
    if (r != CUDA_SUCCESS) fac__cuda_fail(r, "cuMemHostAlloc");
    fac__cuda_leave(&entry);
    return r == CUDA_SUCCESS ? p : NULL;
}

static void host_free(const fac_allocator *a, void *p, int64_t bytes) {
    fac_cuda_entry entry;
    (void)a, (void)bytes;
    if (!p || fac__cuda_gone() || fac__cuda_enter(0, &entry) != FAC_OK) return;
    fac__cu.cuMemFreeHost(p);
    fac__cuda_leave(&entry);
}

static const fac_allocator host_memory = {"driver, page-locked", host_alloc, host_free, NULL};

GIVES_WAY const fac_allocator *fac__cuda_host_allocator(void) { return &host_memory; }

GIVES_WAY bool fac__cuda_is_host_memory(const void *p) {
    unsigned flags;
    return fac__cuda_running() && fac__cu.cuMemHostGetFlags(&flags, (void *)(uintptr_t)p) == CUDA_SUCCESS;
}

/* The driver waits before it frees: no use in another stream is missed. */
GIVES_WAY fac_status fac__cuda_record_data(void *data, int index, int64_t stream) {
    (void)data, (void)index, (void)stream;
    return FAC_OK;
}
GIVES_WAY fac_status fac__cuda_host_record(const void *p, int index, int64_t stream) {
    (void)p, (void)index, (void)stream;
    return FAC_OK;
}
GIVES_WAY void fac__cuda_allocators_stop(void) {}

GIVES_WAY fac_status fac__cuda_builtin_image(int index, const void **out_image) {
    (void)out_image;
    return FAC_FAIL(FAC_ERR_UNSUPPORTED, "this build carries no kernels for cuda:%d", index);
}
GIVES_WAY fac_status fac__cuda_compile(int index, const fac_cuda_source *source, void **out_image) {
    (void)index, (void)out_image;
    return FAC_FAIL(FAC_ERR_UNSUPPORTED, "%s: this build cannot compile kernels", source->name);
}
GIVES_WAY void fac__cuda_compiled_free(int index, void *image) { (void)index, (void)image; }
GIVES_WAY fac_status fac__cuda_copy_elements(fac_tensor *dst, fac_tensor *src) {
    (void)dst, (void)src;
    return FAC_FAIL(FAC_ERR_UNSUPPORTED, "this build copies only tensors without gaps on CUDA devices");
}
