/* Virtual memory management: reserved addresses, physical memory (a memory file each), mappings, access rights. */
#include "simcuda/sim.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

typedef struct reservation {
    char *start;
    size_t bytes;
    struct reservation *next;
} reservation;

typedef struct physical {
    sim_object head;
    int file;
    size_t bytes;
    sim_device *device;
    int mappings;
    bool released;
    struct physical *next;
} physical;

typedef struct mapping { /* beside the block in the memory map, whose `start` it shares */
    char *start;
    physical *memory;
    struct mapping *next;
} mapping;

static reservation *reservations;
static physical *memories;
static mapping *mappings;

static bool whole(size_t n) { return n && n % SIM_GRANULARITY == 0; }

static reservation *reservation_of(const char *p, size_t bytes) {
    reservation *r = reservations;
    while (r && !(p >= r->start && p + bytes <= r->start + r->bytes)) r = r->next;
    return r;
}

bool sim_virtual_explain(const void *p, char *text, size_t size) {
    const reservation *r = reservation_of(p, 1);
    if (r) {
        snprintf(text, size, "%p is %lld bytes into %zu reserved bytes, where nothing is mapped", p,
                 (long long)((const char *)p - r->start), r->bytes);
    }
    return r != NULL;
}

/* ---- addresses --------------------------------------------------------------------------------------------------- */

CUresult cuMemGetAllocationGranularity(size_t *bytes, const CUmemAllocationProp *properties,
                                       CUmemAllocationGranularity_flags option) {
    SIM_ENTER(SIM_INITIALISED);
    SIM_CHECK(bytes && properties && (unsigned)option <= 1, CUDA_ERROR_INVALID_VALUE,
              "cuMemGetAllocationGranularity: NULL");
    *bytes = SIM_GRANULARITY;
    return CUDA_SUCCESS;
}

CUresult cuMemAddressReserve(CUdeviceptr *pointer, size_t bytes, size_t alignment, CUdeviceptr wished,
                             unsigned long long flags) {
    SIM_ENTER(SIM_INITIALISED);
    (void)wished; /* a hint, which the driver may pass over too */
    SIM_CHECK(pointer && whole(bytes) && !flags && !(alignment & (alignment - 1)), CUDA_ERROR_INVALID_VALUE,
              "cuMemAddressReserve: %zu bytes, aligned to %zu: whole multiples of %zu are wanted", bytes, alignment,
              SIM_GRANULARITY);
    size_t align = alignment > SIM_GRANULARITY ? alignment : SIM_GRANULARITY;
    char *p = sim_map(NULL, bytes + align, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1);
    SIM_CHECK(p, CUDA_ERROR_OUT_OF_MEMORY, "cuMemAddressReserve: no room for %zu bytes of addresses", bytes);
    char *start = (char *)(((uintptr_t)p + align - 1) / align * align);
    if (start > p) syscall(SYS_munmap, p, start - p);
    syscall(SYS_munmap, start + bytes, p + align - start);
    reservation *r = sim_new(1, sizeof *r);
    *r = (reservation){.start = start, .bytes = bytes, .next = reservations};
    reservations = r;
    *pointer = (CUdeviceptr)start;
    return CUDA_SUCCESS;
}

CUresult cuMemAddressFree(CUdeviceptr pointer, size_t bytes) {
    SIM_ENTER(SIM_INITIALISED);
    reservation **at = &reservations;
    while (*at && (*at)->start != (char *)pointer) at = &(*at)->next;
    SIM_CHECK(*at && (*at)->bytes == bytes, CUDA_ERROR_INVALID_VALUE,
              "cuMemAddressFree: %zu bytes at %p were not reserved", bytes, (void *)pointer);
    for (const mapping *m = mappings; m; m = m->next) {
        SIM_CHECK(m->start < (*at)->start || m->start >= (*at)->start + bytes, CUDA_ERROR_INVALID_VALUE,
                  "cuMemAddressFree: memory is still mapped at %p", (void *)m->start);
    }
    reservation *r = *at;
    *at = r->next;
    syscall(SYS_munmap, r->start, r->bytes);
    free(r);
    return CUDA_SUCCESS;
}

/* ---- physical memory --------------------------------------------------------------------------------------------- */

CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t bytes, const CUmemAllocationProp *properties,
                     unsigned long long flags) {
    SIM_ENTER(SIM_INITIALISED);
    const CUmemLocation *at = properties ? &properties->location : NULL;
    SIM_CHECK(handle && at && whole(bytes) && !flags && properties->type == CU_MEM_ALLOCATION_TYPE_PINNED,
              CUDA_ERROR_INVALID_VALUE, "cuMemCreate: %zu bytes: whole multiples of %zu are wanted", bytes,
              SIM_GRANULARITY);
    SIM_CHECK(at->type == CU_MEM_LOCATION_TYPE_DEVICE && at->id >= 0 && at->id < sim_n_devices,
              CUDA_ERROR_INVALID_DEVICE, "cuMemCreate: there is no device %d", at->id);
    SIM_CHECK(!properties->requestedHandleTypes, CUDA_ERROR_NOT_SUPPORTED, "memory between processes is not simulated");
    SIM_CHECK(!sim_oom_due(), CUDA_ERROR_OUT_OF_MEMORY, "cuMemCreate of %zu bytes: a failure that was asked for",
              bytes);
    sim_device *d = &sim_devices[at->id];
    if (bytes > sim_opt.memory - d->used) sim_pools_trim(d, true);
    SIM_CHECK(bytes <= sim_opt.memory - d->used, CUDA_ERROR_OUT_OF_MEMORY,
              "%zu bytes asked of device %d, %zu of %zu are free", bytes, d->index, sim_opt.memory - d->used,
              sim_opt.memory);
    int file = memfd_create("simcuda", MFD_CLOEXEC);
    if (file < 0 || ftruncate(file, (off_t)bytes)) {
        if (file >= 0) close(file);
        return sim_refuse(CUDA_ERROR_OUT_OF_MEMORY, "cuMemCreate: the system gives no memory file of %zu bytes", bytes);
    }
    physical *m = sim_object_new(SIM_HANDLE, sizeof *m);
    m->file = file;
    m->bytes = bytes;
    m->device = d;
    m->next = memories;
    memories = m;
    d->used += bytes;
    *handle = (CUmemGenericAllocationHandle)(uintptr_t)m;
    return CUDA_SUCCESS;
}

static void drop(physical *m) {
    if (!m->released || m->mappings) return;
    physical **at = &memories;
    while (*at != m) at = &(*at)->next;
    *at = m->next;
    close(m->file);
    m->device->used -= m->bytes;
    sim_object_free(m);
}

/* The memory itself lives until its last mapping goes. */
CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
    SIM_ENTER(SIM_INITIALISED);
    physical *m = (physical *)(uintptr_t)handle;
    SIM_CHECK(sim_object_is(m, SIM_HANDLE) && !m->released, CUDA_ERROR_INVALID_VALUE,
              "cuMemRelease: 0x%llx is no memory handle, or was released", handle);
    m->released = true;
    drop(m);
    return CUDA_SUCCESS;
}

/* ---- mappings ---------------------------------------------------------------------------------------------------- */

CUresult cuMemMap(CUdeviceptr pointer, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,
                  unsigned long long flags) {
    SIM_ENTER(SIM_INITIALISED);
    char *p = (char *)pointer;
    physical *m = (physical *)(uintptr_t)handle;
    SIM_CHECK(sim_object_is(m, SIM_HANDLE) && !m->released, CUDA_ERROR_INVALID_VALUE,
              "cuMemMap: 0x%llx is no memory handle, or was released", handle);
    SIM_CHECK(whole(bytes) && !flags && !offset && bytes <= m->bytes && (uintptr_t)p % SIM_GRANULARITY == 0,
              CUDA_ERROR_INVALID_VALUE, "cuMemMap: %zu bytes at %p, offset %zu, of %zu", bytes, (void *)p, offset,
              m->bytes);
    SIM_CHECK(reservation_of(p, bytes), CUDA_ERROR_INVALID_VALUE, "cuMemMap: %zu bytes at %p are not reserved", bytes,
              (void *)p);
    for (size_t i = 0; i < bytes; i += SIM_GRANULARITY) {
        SIM_CHECK(!sim_block_at(p + i), CUDA_ERROR_INVALID_VALUE, "cuMemMap: memory is mapped at %p already",
                  (void *)(p + i));
    }
    SIM_CHECK(sim_map(p, bytes, MAP_SHARED | MAP_FIXED, m->file), CUDA_ERROR_MAP_FAILED,
              "cuMemMap: the system refuses");
    sim_block_add((sim_block){.start = p,
                              .bytes = bytes,
                              .page_start = p,
                              .pages = bytes,
                              .kind = SIM_MEMORY_VIRTUAL,
                              .device = m->device->index});
    mapping *made = sim_new(1, sizeof *made);
    *made = (mapping){.start = p, .memory = m, .next = mappings};
    mappings = made;
    m->mappings++;
    return CUDA_SUCCESS;
}

static CUresult check_mapped(const char *p, size_t bytes, const char *name) {
    for (const char *at = p; at < p + bytes;) {
        const sim_block *b = sim_block_at(at);
        SIM_CHECK(b && b->kind == SIM_MEMORY_VIRTUAL && b->start == at && at + b->bytes <= p + bytes,
                  CUDA_ERROR_INVALID_VALUE, "%s: at %p there is no whole mapping", name, (const void *)at);
        at += b->bytes;
    }
    return CUDA_SUCCESS;
}

static void unmap(char *start) {
    sim_block *b = sim_block_at(start);
    mapping **at = &mappings;
    while ((*at)->start != start) at = &(*at)->next;
    mapping *m = *at;
    *at = m->next;
    sim_map(start, b->pages, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1);
    sim_block_remove(b);
    m->memory->mappings--;
    drop(m->memory);
    free(m);
}

/* Waits for nothing: who unmaps memory in use is told so when the work runs. */
CUresult cuMemUnmap(CUdeviceptr pointer, size_t bytes) {
    SIM_ENTER(SIM_INITIALISED);
    char *p = (char *)pointer, *end = p + bytes;
    SIM_CHECK(whole(bytes), CUDA_ERROR_INVALID_VALUE, "cuMemUnmap: %zu bytes", bytes);
    SIM_TRY(check_mapped(p, bytes, "cuMemUnmap"));
    while (p < end) {
        size_t n = sim_block_at(p)->bytes;
        unmap(p);
        p += n;
    }
    return CUDA_SUCCESS;
}

static void grant(sim_block *b, const CUmemAccessDesc *a) {
    uint64_t bit = UINT64_C(1) << a->location.id;
    b->readable = a->flags & CU_MEM_ACCESS_FLAGS_PROT_READ ? b->readable | bit : b->readable & ~bit;
    b->writable = a->flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE ? b->writable | bit : b->writable & ~bit;
    sim_block_open(b, b->readable != 0);
}

CUresult cuMemSetAccess(CUdeviceptr pointer, size_t bytes, const CUmemAccessDesc *list, size_t count) {
    SIM_ENTER(SIM_INITIALISED);
    char *p = (char *)pointer, *end = p + bytes;
    SIM_CHECK(whole(bytes) && list && count, CUDA_ERROR_INVALID_VALUE, "cuMemSetAccess: %zu bytes, %zu descriptions",
              bytes, count);
    SIM_TRY(check_mapped(p, bytes, "cuMemSetAccess"));
    for (size_t i = 0; i < count; i++) {
        const CUmemLocation *at = &list[i].location;
        SIM_CHECK(at->type == CU_MEM_LOCATION_TYPE_DEVICE && at->id >= 0 && at->id < sim_n_devices,
                  CUDA_ERROR_INVALID_DEVICE, "cuMemSetAccess: there is no device %d", at->id);
    }
    for (; p < end; p += sim_block_at(p)->bytes) {
        for (size_t i = 0; i < count; i++) grant(sim_block_at(p), &list[i]);
    }
    return CUDA_SUCCESS;
}

void sim_virtual_stop(void) {
    while (mappings) unmap(mappings->start);
    while (memories) {
        memories->released = true;
        drop(memories);
    }
    while (reservations) {
        reservation *r = reservations;
        reservations = r->next;
        syscall(SYS_munmap, r->start, r->bytes);
        free(r);
    }
}
