/* The map of memory: which addresses belong to what. Device memory lies in a range of addresses reserved per device,
   each block on pages of its own that end where the block ends, followed by a page that nobody may touch; freed pages
   are given back and their addresses come last in turn, so that an overrun or a use after a free faults. */
#include "simcuda/sim.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define FILLED ((size_t)64 << 10) /* of a new block at most so much is filled */
#define REMEMBERED 256            /* freed blocks, for messages */

static sim_block **blocks; /* by address */
static size_t n_blocks, cap_blocks;
static sim_block freed[REMEMBERED];
static uint64_t last_id, n_allocations;

void __asan_poison_memory_region(void const volatile *p, size_t n) __attribute__((weak));
void __asan_unpoison_memory_region(void const volatile *p, size_t n) __attribute__((weak));

static size_t round_up(size_t n, size_t to) { return (n + to - 1) / to * to; }

void *sim_map(void *at, size_t bytes, int flags, int file) {
    long p = syscall(SYS_mmap, at, bytes, (long)PROT_NONE, (long)flags, (long)file, 0L);
    return p == -1 ? NULL : (void *)p;
}

/* ---- the table --------------------------------------------------------------------------------------------------- */

/* Index of the first block that ends after p. */
static size_t find(const char *p) {
    size_t low = 0, high = n_blocks;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (blocks[middle]->start + blocks[middle]->bytes > p)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

sim_block *sim_block_at(const void *p) {
    size_t i = find(p);
    return i < n_blocks && blocks[i]->start <= (const char *)p ? blocks[i] : NULL;
}

sim_block *sim_block_add(sim_block b) {
    sim_block *made = sim_new(1, sizeof *made);
    *made = b;
    made->id = ++last_id;
    if (!b.page_start) made->page_start = b.start, made->pages = b.bytes;
    size_t i = find(b.start);
    sim_grow(&blocks, n_blocks, &cap_blocks, sizeof *blocks);
    memmove(blocks + i + 1, blocks + i, (n_blocks - i) * sizeof *blocks);
    blocks[i] = made;
    n_blocks++;
    return made;
}

void sim_block_remove(sim_block *b) {
    size_t i = find(b->start);
    memmove(blocks + i, blocks + i + 1, (n_blocks - i - 1) * sizeof *blocks);
    n_blocks--;
    freed[b->id % REMEMBERED] = *b;
    free(b);
}

bool sim_on_device(const sim_block *b) { return b->kind <= SIM_MEMORY_VIRTUAL; }

static const char *kind_name(sim_memory kind) {
    static const char *const names[] = {"memory",      "stream-ordered memory",  "mapped memory",
                                        "page-locked", "registered page-locked", "variable of an image"};
    return names[kind];
}

/* ---- explaining an address --------------------------------------------------------------------------------------- */

static void describe(const sim_block *b, const char *p, const char *fate, char *text, size_t size) {
    char owner[32] = "";
    if (b->device >= 0) snprintf(owner, sizeof owner, " of device %d", b->device);
    const char *end = b->start + b->bytes;
    bool inside = p >= b->start && p < end;
    snprintf(text, size, "%p is %lld bytes %s%s block %llu (%zu bytes of %s%s)", (const void *)p,
             (long long)(inside         ? p - b->start
                         : p < b->start ? b->start - p
                                        : p - end),
             inside         ? "into"
             : p < b->start ? "before"
                            : "past the end of",
             fate, (unsigned long long)b->id, b->bytes, kind_name(b->kind), owner);
}

static bool explain_freed(const char *p, char *text, size_t size) {
    const sim_block *last = NULL;
    for (int i = 0; i < REMEMBERED; i++) {
        const sim_block *b = &freed[i];
        if (b->id && p >= b->start && p < b->start + b->bytes && (!last || b->id > last->id)) last = b;
    }
    if (last) describe(last, p, " the freed", text, size);
    return last != NULL;
}

void sim_explain(const void *address, char *text, size_t size) {
    const char *p = address;
    size_t i = find(p);
    const sim_block *next = i < n_blocks ? blocks[i] : NULL, *before = i ? blocks[i - 1] : NULL;
    if (next && p >= next->start) {
        describe(next, p, next->pending ? " the not yet allocated" : "", text, size);
    } else if (!explain_freed(p, text, size) && !sim_virtual_explain(p, text, size)) {
        if (before && p < before->start + before->bytes + SIM_PAGE)
            describe(before, p, "", text, size);
        else if (next && p + SIM_PAGE >= next->start)
            describe(next, p, "", text, size);
        else if (!p)
            snprintf(text, size, "it is NULL");
        else
            snprintf(text, size, "%p is no memory that the driver knows", (const void *)p);
    }
}

int sim_memory_explain(const void *p, char *text, size_t size) {
    sim_lock();
    sim_explain(p, text, size);
    sim_unlock();
    return 1;
}

CUresult sim_check_range(const sim_device *d, const void *p, size_t bytes, bool write, bool any_device, bool pageable,
                         const char *what) {
    char text[256];
    for (const char *at = p, *end = at + bytes; at < end;) {
        sim_block *b = sim_block_at(at);
        size_t i = find(at);
        bool begins_before = i < n_blocks && blocks[i]->start < end;
        if (!b && pageable && !begins_before && !explain_freed(at, text, sizeof text)) return CUDA_SUCCESS;
        if (!b || b->pending) {
            sim_explain(at, text, sizeof text);
            return sim_refuse(CUDA_ERROR_ILLEGAL_ADDRESS, "%s of %zu bytes at %p: %s", what, bytes, p, text);
        }
        bool allowed = any_device || sim_can_access(d, b->device) || b->kind == SIM_MEMORY_VIRTUAL;
        if (b->pool && !any_device) allowed = sim_pool_can_access(b->pool, d);
        if (b->kind == SIM_MEMORY_VIRTUAL && !any_device) allowed = (write ? b->writable : b->readable) >> d->index & 1;
        SIM_CHECK(allowed, CUDA_ERROR_ILLEGAL_ADDRESS, "%s at %p is memory of device %d, which device %d may not touch",
                  what, (const void *)at, b->device, d->index);
        SIM_CHECK(b->kind != SIM_MEMORY_VIRTUAL || b->readable, CUDA_ERROR_ILLEGAL_ADDRESS,
                  "%s at %p is mapped memory that no device has been given access to", what, (const void *)at);
        at = b->start + b->bytes;
        bool joined = b->kind == SIM_MEMORY_VIRTUAL || pageable;
        if (at < end && !joined) {
            sim_explain(at, text, sizeof text);
            return sim_refuse(CUDA_ERROR_ILLEGAL_ADDRESS, "%s of %zu bytes at %p: %s", what, bytes, p, text);
        }
    }
    return CUDA_SUCCESS;
}

bool sim_is_pinned(const void *p) {
    const sim_block *b = sim_block_at(p);
    return b && (b->kind == SIM_MEMORY_HOST || b->kind == SIM_MEMORY_REGISTERED);
}

/* ---- pages ------------------------------------------------------------------------------------------------------- */

/* Also of what callers poisoned in it. */
static void unpoison(const sim_block *b) {
    if (__asan_unpoison_memory_region) __asan_unpoison_memory_region(b->page_start, b->pages);
}

/* Room of `bytes` in a device's range, not used for the longest time. */
static char *room(sim_device *d, size_t bytes) {
    char *at = d->next, *end = d->base + d->range;
    for (int wraps = 0; wraps < 2;) {
        if (at + bytes > end) {
            at = d->base;
            wraps++;
            continue;
        }
        size_t i = find(at);
        if (i == n_blocks || blocks[i]->page_start >= at + bytes) return at;
        at = blocks[i]->page_start + blocks[i]->pages + SIM_PAGE;
    }
    return NULL;
}

bool sim_oom_due(void) {
    n_allocations++;
    return sim_opt.oom && !--sim_opt.oom;
}

static void fill(sim_block *b) {
    sim_memory_acquire();
    memset(b->start, 0xff, b->bytes < FILLED ? b->bytes : FILLED);
    sim_memory_yield();
}

sim_block *sim_block_new(sim_device *d, size_t bytes, sim_memory kind, size_t charged, CUresult *r) {
    size_t pages = round_up(bytes, SIM_PAGE);
    char *at = NULL;
    if (bytes <= sim_opt.memory && charged <= sim_opt.memory - d->used) at = room(d, pages + SIM_PAGE);
    if (!at) {
        *r = sim_refuse(CUDA_ERROR_OUT_OF_MEMORY, "%zu bytes asked of device %d, %zu of %zu are free", bytes, d->index,
                        sim_opt.memory - d->used, sim_opt.memory);
        return NULL;
    }
    d->next = at + pages + SIM_PAGE;
    d->used += charged;
    sim_block *b = sim_block_add((sim_block){.start = at + pages - round_up(bytes, 512),
                                             .bytes = bytes,
                                             .page_start = at,
                                             .pages = pages,
                                             .charged = charged,
                                             .kind = kind,
                                             .device = d->index});
    unpoison(b);
    sim_block_open(b, true);
    if (sim_opt.fill) fill(b);
    if (__asan_poison_memory_region) __asan_poison_memory_region(b->start + bytes, round_up(bytes, 512) - bytes);
    return b;
}

void sim_block_release(sim_block *b) {
    unpoison(b);
    mmap(b->page_start, b->pages, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    sim_devices[b->device].used -= b->charged;
    sim_block_remove(b);
}

void sim_memory_stop(void) {
    while (n_blocks) {
        sim_block *b = blocks[n_blocks - 1];
        if (sim_on_device(b)) unpoison(b);
        if (b->kind == SIM_MEMORY_HOST) free(b->start);
        sim_block_remove(b);
    }
    free(blocks);
    blocks = NULL;
    cap_blocks = 0;
    n_allocations = 0;
    memset(freed, 0, sizeof freed);
}

/* ---- device memory ----------------------------------------------------------------------------------------------- */

CUresult cuMemGetInfo_v2(size_t *free_bytes, size_t *total) {
    SIM_ENTER(SIM_CURRENT);
    if (free_bytes) *free_bytes = sim_opt.memory - sim_current->used;
    if (total) *total = sim_opt.memory;
    return CUDA_SUCCESS;
}

CUresult cuMemAlloc_v2(CUdeviceptr *pointer, size_t bytes) {
    SIM_ENTER(SIM_CURRENT | SIM_UNSAFE);
    SIM_CHECK(pointer && bytes, CUDA_ERROR_INVALID_VALUE, "cuMemAlloc: %zu bytes at %p", bytes, (void *)pointer);
    SIM_CHECK(!sim_oom_due(), CUDA_ERROR_OUT_OF_MEMORY, "cuMemAlloc of %zu bytes: a failure that was asked for", bytes);
    CUresult r = CUDA_SUCCESS;
    sim_pools_trim(sim_current, sim_opt.memory - sim_current->used < bytes);
    sim_block *b = sim_block_new(sim_current, bytes, SIM_MEMORY_DEVICE, round_up(bytes, 512), &r);
    if (b) *pointer = (CUdeviceptr)b->start;
    return r;
}

static CUresult block_starting_at(const void *p, sim_block **out, const char *name) {
    char text[256];
    sim_block *b = sim_block_at(p);
    if (!b || b->start != p) {
        sim_explain(p, text, sizeof text);
        return sim_refuse(CUDA_ERROR_INVALID_VALUE, "%s: not the start of a block: %s", name, text);
    }
    *out = b;
    return CUDA_SUCCESS;
}

/* As the driver does, waits for the device first. */
CUresult cuMemFree_v2(CUdeviceptr pointer) {
    SIM_ENTER(SIM_CURRENT | SIM_UNSAFE);
    sim_block *b;
    if (!pointer) return CUDA_SUCCESS;
    SIM_TRY(block_starting_at((void *)pointer, &b, "cuMemFree"));
    SIM_CHECK(b->kind <= SIM_MEMORY_POOL && !b->doomed, CUDA_ERROR_INVALID_VALUE, "cuMemFree of %s%s",
              kind_name(b->kind), b->doomed ? " that cuMemFreeAsync frees already" : "");
    sim_drain(&sim_devices[b->device]);
    SIM_TRY(block_starting_at((void *)pointer, &b, "cuMemFree")); /* another thread may have been faster */
    if (b->kind == SIM_MEMORY_POOL) sim_pool_used(b->pool, -(int64_t)b->charged);
    sim_block_release(b);
    return CUDA_SUCCESS;
}

CUresult cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *bytes, CUdeviceptr pointer) {
    SIM_ENTER(SIM_CURRENT);
    sim_block *b = sim_block_at((void *)pointer);
    SIM_CHECK(b, CUDA_ERROR_NOT_FOUND, "cuMemGetAddressRange: %p is in no block", (void *)pointer);
    if (base) *base = (CUdeviceptr)b->start;
    if (bytes) *bytes = b->bytes;
    return CUDA_SUCCESS;
}

/* ---- page-locked host memory ------------------------------------------------------------------------------------- */

CUresult cuMemHostAlloc(void **pointer, size_t bytes, unsigned flags) {
    SIM_ENTER(SIM_CURRENT | SIM_UNSAFE);
    SIM_CHECK(pointer && bytes && !(flags & ~7u), CUDA_ERROR_INVALID_VALUE, "cuMemHostAlloc: %zu bytes, flags %u",
              bytes, flags);
    void *p = NULL;
    SIM_CHECK(!posix_memalign(&p, SIM_PAGE, bytes), CUDA_ERROR_OUT_OF_MEMORY, "cuMemHostAlloc of %zu bytes", bytes);
    sim_block_add((sim_block){.start = p, .bytes = bytes, .kind = SIM_MEMORY_HOST, .device = -1, .flags = flags});
    *pointer = p;
    return CUDA_SUCCESS;
}

CUresult cuMemFreeHost(void *pointer) {
    SIM_ENTER(SIM_CURRENT | SIM_UNSAFE);
    sim_block *b;
    SIM_TRY(block_starting_at(pointer, &b, "cuMemFreeHost"));
    SIM_CHECK(b->kind == SIM_MEMORY_HOST, CUDA_ERROR_INVALID_VALUE, "cuMemFreeHost of %s", kind_name(b->kind));
    sim_drain(NULL);
    SIM_TRY(block_starting_at(pointer, &b, "cuMemFreeHost"));
    sim_block_remove(b);
    free(pointer);
    return CUDA_SUCCESS;
}

CUresult cuMemHostRegister_v2(void *pointer, size_t bytes, unsigned flags) {
    SIM_ENTER(SIM_CURRENT | SIM_UNSAFE);
    SIM_CHECK(pointer && bytes && !(flags & ~15u), CUDA_ERROR_INVALID_VALUE,
              "cuMemHostRegister: %zu bytes at %p, flags %u", bytes, pointer, flags);
    size_t i = find(pointer);
    SIM_CHECK(i == n_blocks || blocks[i]->start >= (char *)pointer + bytes, CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED,
              "cuMemHostRegister: %zu bytes at %p overlap block %llu", bytes, pointer,
              (unsigned long long)blocks[i]->id);
    sim_block_add(
        (sim_block){.start = pointer, .bytes = bytes, .kind = SIM_MEMORY_REGISTERED, .device = -1, .flags = flags});
    return CUDA_SUCCESS;
}

CUresult cuMemHostUnregister(void *pointer) {
    SIM_ENTER(SIM_CURRENT | SIM_UNSAFE);
    sim_block *b = sim_block_at(pointer);
    SIM_CHECK(b && b->start == pointer && b->kind == SIM_MEMORY_REGISTERED, CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED,
              "cuMemHostUnregister: %p is not the start of registered memory", pointer);
    sim_drain(NULL);
    SIM_TRY(block_starting_at(pointer, &b, "cuMemHostUnregister"));
    sim_block_remove(b);
    return CUDA_SUCCESS;
}

static CUresult pinned_block(const void *p, sim_block **out, const char *name) {
    *out = sim_block_at(p);
    SIM_CHECK(*out && sim_is_pinned(p), CUDA_ERROR_INVALID_VALUE, "%s: %p is not page-locked memory", name, p);
    return CUDA_SUCCESS;
}

CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *pointer, void *host, unsigned flags) {
    SIM_ENTER(SIM_CURRENT);
    sim_block *b;
    SIM_CHECK(pointer && !flags, CUDA_ERROR_INVALID_VALUE, "cuMemHostGetDevicePointer: flags %u", flags);
    SIM_TRY(pinned_block(host, &b, "cuMemHostGetDevicePointer"));
    *pointer = (CUdeviceptr)host;
    return CUDA_SUCCESS;
}

CUresult cuMemHostGetFlags(unsigned *flags, void *pointer) {
    SIM_ENTER(SIM_CURRENT);
    sim_block *b;
    SIM_CHECK(flags, CUDA_ERROR_INVALID_VALUE, "cuMemHostGetFlags: flags is NULL");
    SIM_TRY(pinned_block(pointer, &b, "cuMemHostGetFlags"));
    *flags = b->flags | CU_MEMHOSTALLOC_DEVICEMAP;
    return CUDA_SUCCESS;
}

/* ---- attributes of a pointer ------------------------------------------------------------------------------------- */

static CUresult attribute(void *data, CUpointer_attribute a, const sim_block *b, CUdeviceptr p) {
    bool device = sim_on_device(b) || b->kind == SIM_MEMORY_GLOBAL;
    switch (a) {
    case CU_POINTER_ATTRIBUTE_CONTEXT: *(CUcontext *)data = b->device >= 0 ? &sim_devices[b->device] : NULL; break;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        *(unsigned *)data = device ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
        break;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER: *(CUdeviceptr *)data = p; break;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
        SIM_CHECK(!device, CUDA_ERROR_INVALID_VALUE, "%p is not host memory", (void *)p);
        *(void **)data = (void *)p;
        break;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID: *(unsigned long long *)data = b->id; break;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED: *(unsigned *)data = 0; break;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL: *(int *)data = b->device >= 0 ? b->device : 0; break;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR: *(CUdeviceptr *)data = (CUdeviceptr)b->start; break;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE: *(size_t *)data = b->bytes; break;
    case CU_POINTER_ATTRIBUTE_MAPPED: *(unsigned *)data = 1; break;
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE: *(CUmemoryPool *)data = b->pool; break;
    default: return sim_refuse(CUDA_ERROR_INVALID_VALUE, "there is no pointer attribute %d", (int)a);
    }
    return CUDA_SUCCESS;
}

CUresult cuPointerGetAttribute(void *data, CUpointer_attribute a, CUdeviceptr pointer) {
    SIM_ENTER(SIM_CURRENT);
    const sim_block *b = sim_block_at((void *)pointer);
    SIM_CHECK(data && b, CUDA_ERROR_INVALID_VALUE, "cuPointerGetAttribute: %p is in no block", (void *)pointer);
    return attribute(data, a, b, pointer);
}

/* Unlike the single form this succeeds for memory that the driver does not know: everything is then zero. */
CUresult cuPointerGetAttributes(unsigned count, CUpointer_attribute *a, void **data, CUdeviceptr pointer) {
    SIM_ENTER(SIM_CURRENT);
    const sim_block *b = sim_block_at((void *)pointer);
    for (unsigned i = 0; i < count; i++) {
        bool narrow = a[i] == CU_POINTER_ATTRIBUTE_MEMORY_TYPE || a[i] == CU_POINTER_ATTRIBUTE_IS_MANAGED ||
                      a[i] == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL || a[i] == CU_POINTER_ATTRIBUTE_MAPPED;
        memset(data[i], 0, narrow ? 4 : 8);
        if (b && !(a[i] == CU_POINTER_ATTRIBUTE_HOST_POINTER && sim_on_device(b)))
            SIM_TRY(attribute(data[i], a[i], b, pointer));
        else if (a[i] == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL)
            *(int *)data[i] = -2; /* as the driver has it */
    }
    return CUDA_SUCCESS;
}

/* ---- counts ------------------------------------------------------------------------------------------------------ */

void sim_each_block(void (*visit)(const sim_block *b, bool yes), bool yes) {
    for (size_t i = 0; i < n_blocks; i++) visit(blocks[i], yes);
}

int64_t sim_memory_count(const char *name) {
    int64_t pinned = 0, bytes = 0;
    for (size_t i = 0; i < n_blocks; i++) pinned += !sim_on_device(blocks[i]) && blocks[i]->kind != SIM_MEMORY_GLOBAL;
    for (int i = 0; i < sim_n_devices; i++) bytes += (int64_t)sim_devices[i].used;
    if (!strcmp(name, "pinned")) return pinned;
    if (!strcmp(name, "bytes")) return bytes;
    if (!strcmp(name, "allocations")) return (int64_t)n_allocations;
    if (strcmp(name, "blocks") != 0) return -1;
    int64_t live = 0;
    for (size_t i = 0; i < n_blocks; i++) live += sim_on_device(blocks[i]);
    return live;
}
