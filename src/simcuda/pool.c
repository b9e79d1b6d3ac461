/* Stream-ordered allocation. A pool is an account: bytes in use, and bytes that it keeps from the device after frees.
   Addresses are never handed from a free to the next allocation, so that a use after the free is always seen. */
#include "simcuda/sim.h"
#include <stdio.h>
#include <string.h>

#define ATTRIBUTES 3 /* reuse rules: kept for those who read them back */

struct CUmemPoolHandle_st {
    sim_object head;
    sim_device *device;
    uint64_t threshold, used, kept, used_high, reserved_high, limit;
    uint64_t access; /* bit i: device i */
    int reuse[ATTRIBUTES];
    bool is_default;
    struct CUmemPoolHandle_st *next;
};
static CUmemoryPool pools;

static CUmemoryPool pool_new(sim_device *d) {
    CUmemoryPool p = sim_object_new(SIM_POOL, sizeof *p);
    p->device = d;
    p->access = UINT64_C(1) << d->index;
    for (int i = 0; i < ATTRIBUTES; i++) p->reuse[i] = 1;
    p->next = pools;
    return pools = p;
}

static CUmemoryPool default_pool(sim_device *d) {
    if (!d->default_pool) {
        d->default_pool = pool_new(d);
        d->default_pool->is_default = true;
        sim_object_live[SIM_POOL]--; /* the device's, not a caller's */
    }
    return d->default_pool;
}

static CUmemoryPool current_pool(sim_device *d) { return d->pool ? d->pool : default_pool(d); }

bool sim_pool_can_access(CUmemoryPool pool, const sim_device *d) { return pool->access >> d->index & 1; }

void sim_pool_used(CUmemoryPool pool, int64_t bytes) {
    pool->used += (uint64_t)bytes;
    if (pool->used > pool->used_high) pool->used_high = pool->used;
    if (pool->used + pool->kept > pool->reserved_high) pool->reserved_high = pool->used + pool->kept;
}

static void keep(CUmemoryPool p, int64_t bytes) {
    p->kept += (uint64_t)bytes;
    p->device->used += (size_t)bytes;
}

static void trim(CUmemoryPool p, uint64_t to) {
    uint64_t reserved = p->used + p->kept, excess = reserved > to ? reserved - to : 0;
    keep(p, -(int64_t)(excess < p->kept ? excess : p->kept));
}

void sim_pools_trim(sim_device *d, bool all) {
    for (CUmemoryPool p = pools; p; p = p->next) {
        if (p->device == d) trim(p, all ? 0 : p->threshold);
    }
}

void sim_pools_stop(void) {
    while (pools) {
        CUmemoryPool p = pools;
        pools = p->next;
        if (p->is_default) sim_object_live[SIM_POOL]++;
        sim_object_free(p);
    }
}

/* ---- allocating -------------------------------------------------------------------------------------------------- */

static sim_block *block_from(CUmemoryPool p, size_t bytes, CUresult *r) {
    size_t charged = (bytes + 511) / 512 * 512;
    uint64_t from_kept = p->kept < charged ? p->kept : charged;
    keep(p, -(int64_t)from_kept);
    sim_block *b = sim_block_new(p->device, bytes, SIM_MEMORY_POOL, charged, r);
    if (!b) keep(p, (int64_t)from_kept);
    return b;
}

static CUresult allocate(CUdeviceptr *pointer, size_t bytes, CUmemoryPool p, sim_stream *s) {
    CUresult r = CUDA_SUCCESS;
    SIM_CHECK(pointer && bytes, CUDA_ERROR_INVALID_VALUE, "cuMemAllocAsync: %zu bytes at %p", bytes, (void *)pointer);
    if (s->capture) {
        return sim_capture_break(s, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
                                 "cuMemAllocAsync (graphs that allocate are not simulated)");
    }
    SIM_CHECK(!sim_oom_due(), CUDA_ERROR_OUT_OF_MEMORY, "cuMemAllocAsync of %zu bytes: a failure that was asked for",
              bytes);
    SIM_CHECK(!p->limit || p->used + bytes <= p->limit, CUDA_ERROR_OUT_OF_MEMORY, "the pool is limited to %llu bytes",
              (unsigned long long)p->limit);
    sim_block *b = block_from(p, bytes, &r);
    if (!b) { /* frees that are queued give room */
        sim_drain(p->device);
        sim_pools_trim(p->device, true);
        b = block_from(p, bytes, &r);
    }
    if (!b) return r;
    b->pool = p;
    b->pending = true;
    sim_block_open(b, false);
    sim_pool_used(p, (int64_t)b->charged);
    *pointer = (CUdeviceptr)b->start;
    return sim_enqueue(s, &(sim_spec){.kind = SIM_OP_ALLOC, .device = s->device, .pointer = b->start});
}

int sim_pool_begin(char *p, char *message, size_t size) {
    sim_lock();
    sim_block *b = sim_block_at(p);
    if (b) {
        b->pending = false;
        sim_block_open(b, true);
    } else {
        snprintf(message, size, "memory was freed before its allocation came to its turn");
    }
    sim_unlock();
    return b ? 0 : CUDA_ERROR_ILLEGAL_ADDRESS;
}

int sim_pool_end(char *p, char *message, size_t size) {
    sim_lock();
    sim_block *b = sim_block_at(p);
    bool good = b && !b->pending;
    if (good) {
        CUmemoryPool pool = b->pool;
        int64_t bytes = (int64_t)b->charged;
        sim_block_release(b);
        sim_pool_used(pool, -bytes);
        keep(pool, bytes);
    } else {
        snprintf(message, size,
                 "a free of stream-ordered memory ran before the allocation: the streams are not ordered");
    }
    sim_unlock();
    return good ? 0 : CUDA_ERROR_ILLEGAL_ADDRESS;
}

CUresult cuMemAllocAsync(CUdeviceptr *pointer, size_t bytes, CUstream stream) {
    SIM_ENTER(SIM_CURRENT);
    sim_stream *s;
    SIM_TRY(sim_stream_of(stream, &s));
    return allocate(pointer, bytes, current_pool(s->device), s);
}

static CUresult check_pool(CUmemoryPool pool, const char *name) {
    SIM_CHECK(sim_object_is(pool, SIM_POOL), CUDA_ERROR_INVALID_HANDLE, "%s: %p is no pool, or was destroyed", name,
              (void *)pool);
    return CUDA_SUCCESS;
}

CUresult cuMemAllocFromPoolAsync(CUdeviceptr *pointer, size_t bytes, CUmemoryPool pool, CUstream stream) {
    SIM_ENTER(SIM_CURRENT);
    sim_stream *s;
    SIM_TRY(sim_stream_of(stream, &s));
    SIM_TRY(check_pool(pool, "cuMemAllocFromPoolAsync"));
    return allocate(pointer, bytes, pool, s);
}

CUresult cuMemFreeAsync(CUdeviceptr pointer, CUstream stream) {
    SIM_ENTER(SIM_CURRENT);
    sim_stream *s;
    SIM_TRY(sim_stream_of(stream, &s));
    if (!pointer) return CUDA_SUCCESS;
    sim_block *b = sim_block_at((void *)pointer);
    SIM_CHECK(b && b->start == (char *)pointer && b->kind == SIM_MEMORY_POOL && !b->doomed, CUDA_ERROR_INVALID_VALUE,
              "cuMemFreeAsync: %p is not the start of live stream-ordered memory", (void *)pointer);
    if (s->capture) return sim_capture_break(s, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "cuMemFreeAsync");
    b->doomed = true;
    return sim_enqueue(s, &(sim_spec){.kind = SIM_OP_FREE, .device = s->device, .pointer = b->start});
}

/* ---- pools ------------------------------------------------------------------------------------------------------- */

#define DEVICE(handle)                                                                                            \
    SIM_ENTER(SIM_INITIALISED);                                                                                   \
    SIM_CHECK(handle >= 0 && handle < sim_n_devices, CUDA_ERROR_INVALID_DEVICE, "there is no device %d", handle); \
    sim_device *d = &sim_devices[handle]

CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *pool, CUdevice device) {
    DEVICE(device);
    SIM_CHECK(pool, CUDA_ERROR_INVALID_VALUE, "cuDeviceGetDefaultMemPool: pool is NULL");
    *pool = default_pool(d);
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetMemPool(CUmemoryPool *pool, CUdevice device) {
    DEVICE(device);
    SIM_CHECK(pool, CUDA_ERROR_INVALID_VALUE, "cuDeviceGetMemPool: pool is NULL");
    *pool = current_pool(d);
    return CUDA_SUCCESS;
}

CUresult cuDeviceSetMemPool(CUdevice device, CUmemoryPool pool) {
    DEVICE(device);
    SIM_TRY(check_pool(pool, "cuDeviceSetMemPool"));
    SIM_CHECK(pool->device == d, CUDA_ERROR_INVALID_VALUE, "cuDeviceSetMemPool: the pool is of device %d, not of %d",
              pool->device->index, device);
    d->pool = pool;
    return CUDA_SUCCESS;
}

CUresult cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *properties) {
    SIM_ENTER(SIM_INITIALISED);
    const CUmemLocation *at = properties ? &properties->location : NULL;
    SIM_CHECK(pool && at && properties->allocType == CU_MEM_ALLOCATION_TYPE_PINNED &&
                  at->type == CU_MEM_LOCATION_TYPE_DEVICE && at->id >= 0 && at->id < sim_n_devices,
              CUDA_ERROR_INVALID_VALUE, "cuMemPoolCreate: the location must be one of %d devices", sim_n_devices);
    SIM_CHECK(!properties->handleTypes, CUDA_ERROR_NOT_SUPPORTED, "pools between processes are not simulated");
    *pool = pool_new(&sim_devices[at->id]);
    (*pool)->limit = properties->maxSize;
    return CUDA_SUCCESS;
}

CUresult cuMemPoolDestroy(CUmemoryPool pool) {
    SIM_ENTER(SIM_INITIALISED);
    SIM_TRY(check_pool(pool, "cuMemPoolDestroy"));
    SIM_CHECK(!pool->is_default, CUDA_ERROR_INVALID_VALUE, "cuMemPoolDestroy: a default pool stays");
    sim_drain(pool->device);
    SIM_TRY(check_pool(pool, "cuMemPoolDestroy"));
    SIM_CHECK(!pool->used, CUDA_ERROR_INVALID_VALUE, "cuMemPoolDestroy: %llu bytes of the pool are in use",
              (unsigned long long)pool->used);
    trim(pool, 0);
    if (pool->device->pool == pool) pool->device->pool = NULL;
    CUmemoryPool *at = &pools;
    while (*at != pool) at = &(*at)->next;
    *at = pool->next;
    sim_object_free(pool);
    return CUDA_SUCCESS;
}

CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t bytes_to_keep) {
    SIM_ENTER(SIM_INITIALISED);
    SIM_TRY(check_pool(pool, "cuMemPoolTrimTo"));
    trim(pool, bytes_to_keep);
    return CUDA_SUCCESS;
}

CUresult cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute a, void *value) {
    SIM_ENTER(SIM_INITIALISED);
    SIM_TRY(check_pool(pool, "cuMemPoolSetAttribute"));
    SIM_CHECK(value, CUDA_ERROR_INVALID_VALUE, "cuMemPoolSetAttribute: value is NULL");
    if (a >= CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES &&
        a <= CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES) {
        pool->reuse[a - 1] = *(int *)value;
        return CUDA_SUCCESS;
    }
    uint64_t v = *(uint64_t *)value;
    bool reset = a == CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH || a == CU_MEMPOOL_ATTR_USED_MEM_HIGH;
    SIM_CHECK(a == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD || (reset && !v), CUDA_ERROR_INVALID_VALUE,
              "cuMemPoolSetAttribute: attribute %d cannot be %llu", (int)a, (unsigned long long)v);
    if (a == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD) pool->threshold = v;
    if (a == CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH) pool->reserved_high = pool->used + pool->kept;
    if (a == CU_MEMPOOL_ATTR_USED_MEM_HIGH) pool->used_high = pool->used;
    return CUDA_SUCCESS;
}

CUresult cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute a, void *value) {
    SIM_ENTER(SIM_INITIALISED);
    SIM_TRY(check_pool(pool, "cuMemPoolGetAttribute"));
    SIM_CHECK(value, CUDA_ERROR_INVALID_VALUE, "cuMemPoolGetAttribute: value is NULL");
    switch (a) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES: *(int *)value = pool->reuse[a - 1]; break;
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD: *(uint64_t *)value = pool->threshold; break;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT: *(uint64_t *)value = pool->used + pool->kept; break;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH: *(uint64_t *)value = pool->reserved_high; break;
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT: *(uint64_t *)value = pool->used; break;
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH: *(uint64_t *)value = pool->used_high; break;
    default: return sim_refuse(CUDA_ERROR_INVALID_VALUE, "there is no pool attribute %d", (int)a);
    }
    return CUDA_SUCCESS;
}

CUresult cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc *list, size_t count) {
    SIM_ENTER(SIM_INITIALISED);
    SIM_TRY(check_pool(pool, "cuMemPoolSetAccess"));
    for (size_t i = 0; i < count; i++) {
        const CUmemLocation *at = &list[i].location;
        SIM_CHECK(at->type == CU_MEM_LOCATION_TYPE_DEVICE && at->id >= 0 && at->id < sim_n_devices,
                  CUDA_ERROR_INVALID_DEVICE, "cuMemPoolSetAccess: there is no device %d", at->id);
        bool own = at->id == pool->device->index, none = list[i].flags == CU_MEM_ACCESS_FLAGS_PROT_NONE;
        SIM_CHECK(!own || !none, CUDA_ERROR_INVALID_VALUE, "cuMemPoolSetAccess: a device keeps access to its own pool");
        if (none)
            pool->access &= ~(UINT64_C(1) << at->id);
        else
            pool->access |= UINT64_C(1) << at->id;
    }
    return CUDA_SUCCESS;
}
