/* Copies and fills. Pageable host memory is copied to a staging block before an upload returns, and a download to it is
   waited for, as the driver does; page-locked memory is read and written when the copy runs. */
#include "simcuda/sim.h"
#include <stdlib.h>
#include <string.h>

typedef enum side { ANY, DEVICE_SIDE, HOST_SIDE } side;

/* A side of a copy is what the entry says it is, and is looked up where it says nothing. */
static CUresult check_side(const sim_device *d, const void *p, size_t bytes, bool write, side what, bool *out_pageable,
                           const char *name) {
    const sim_block *b = sim_block_at(p);
    bool host = !b || sim_is_pinned(p);
    *out_pageable = !b;
    char text[256] = "it is host memory";
    if (what == DEVICE_SIDE && !b) sim_explain(p, text, sizeof text);
    SIM_CHECK(what != DEVICE_SIDE || !host, CUDA_ERROR_INVALID_VALUE, "%s: %p is not device memory: %s", name, p, text);
    SIM_CHECK(what != HOST_SIDE || host, CUDA_ERROR_INVALID_VALUE, "%s: %p is memory of device %d, not of the host",
              name, p, b ? b->device : 0);
    if (b && b->pending) return CUDA_SUCCESS; /* looked at again when the copy runs */
    CUresult r = sim_check_range(d, p, bytes, write, true, host, name);
    return r ? sim_recode(CUDA_ERROR_INVALID_VALUE) : CUDA_SUCCESS;
}

static size_t extent(const sim_rows *c, size_t pitch, size_t plane) {
    return c->width + (c->height - 1) * pitch + (c->depth - 1) * plane;
}

/* Reads the source now, as rows without gaps. */
static void stage(sim_spec *s) {
    sim_rows *c = &s->copy;
    s->payload_bytes = c->width * c->height * c->depth;
    s->payload = sim_new(1, s->payload_bytes);
    char *to = s->payload;
    for (size_t z = 0; z < c->depth; z++) {
        for (size_t y = 0; y < c->height; y++, to += c->width) {
            memcpy(to, c->from + z * c->from_plane + y * c->from_pitch, c->width);
        }
    }
    c->from = s->payload;
    c->from_pitch = c->width;
    c->from_plane = c->width * c->height;
}

static CUresult copy(sim_rows c, side to, side from, CUstream stream, bool wait, const char *name) {
    sim_stream *s;
    SIM_TRY(sim_stream_of(stream, &s));
    if (!c.width || !c.height || !c.depth) return CUDA_SUCCESS;
    SIM_TRY(check_side(s->device, c.from, extent(&c, c.from_pitch, c.from_plane), false, from, &c.from_host, name));
    SIM_TRY(check_side(s->device, c.to, extent(&c, c.to_pitch, c.to_plane), true, to, &c.to_host, name));
    if (s->capture && (c.to_host || c.from_host)) {
        return sim_capture_break(s, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "a copy of pageable memory");
    }
    bool to_host = c.to_host, host_only = c.from_host && c.to_host;
    sim_spec spec = {.kind = SIM_OP_COPY, .device = s->device, .copy = c};
    if (c.from_host && !host_only) stage(&spec);
    SIM_TRY(sim_enqueue(s, &spec));
    sim_device *d = s->device;
    if (to_host || wait) sim_stream_wait(s);
    return d->fault ? sim_refuse(d->fault, "%s", d->fault_text) : CUDA_SUCCESS;
}

static sim_rows flat(void *to, const void *from, size_t bytes) {
    return (sim_rows){
        .to = to, .from = from, .width = bytes, .height = 1, .depth = 1, .to_pitch = bytes, .from_pitch = bytes};
}

CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t bytes) {
    SIM_ENTER(SIM_CURRENT | SIM_UNSAFE);
    return copy(flat((void *)to, from, bytes), DEVICE_SIDE, HOST_SIDE, NULL, true, "cuMemcpyHtoD");
}

CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes) {
    SIM_ENTER(SIM_CURRENT | SIM_UNSAFE);
    return copy(flat(to, (void *)from, bytes), HOST_SIDE, DEVICE_SIDE, NULL, true, "cuMemcpyDtoH");
}

CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
    SIM_ENTER(SIM_CURRENT);
    return copy(flat((void *)to, (void *)from, bytes), ANY, ANY, stream, false, "cuMemcpyAsync");
}

CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes, CUstream stream) {
    SIM_ENTER(SIM_CURRENT);
    return copy(flat((void *)to, from, bytes), DEVICE_SIDE, HOST_SIDE, stream, false, "cuMemcpyHtoDAsync");
}

CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes, CUstream stream) {
    SIM_ENTER(SIM_CURRENT);
    return copy(flat(to, (void *)from, bytes), HOST_SIDE, DEVICE_SIDE, stream, false, "cuMemcpyDtoHAsync");
}

CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
    SIM_ENTER(SIM_CURRENT);
    return copy(flat((void *)to, (void *)from, bytes), DEVICE_SIDE, DEVICE_SIDE, stream, false, "cuMemcpyDtoDAsync");
}

/* Needs no peer access: without it the driver goes through the host. */
CUresult cuMemcpyPeerAsync(CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context, size_t bytes,
                           CUstream stream) {
    SIM_ENTER(SIM_CURRENT);
    const sim_block *t = sim_block_at((void *)to), *f = sim_block_at((void *)from);
    SIM_CHECK(!t || t->device < 0 || &sim_devices[t->device] == to_context, CUDA_ERROR_INVALID_VALUE,
              "cuMemcpyPeerAsync: the destination is memory of device %d, not of the context's", t ? t->device : 0);
    SIM_CHECK(!f || f->device < 0 || &sim_devices[f->device] == from_context, CUDA_ERROR_INVALID_VALUE,
              "cuMemcpyPeerAsync: the source is memory of device %d, not of the context's", f ? f->device : 0);
    return copy(flat((void *)to, (void *)from, bytes), DEVICE_SIDE, DEVICE_SIDE, stream, false, "cuMemcpyPeerAsync");
}

static CUresult side_of(CUmemorytype type, side *out, const char *name) {
    SIM_CHECK(type != CU_MEMORYTYPE_ARRAY, CUDA_ERROR_NOT_SUPPORTED, "%s: arrays are not simulated", name);
    SIM_CHECK(type >= CU_MEMORYTYPE_HOST && type <= CU_MEMORYTYPE_UNIFIED, CUDA_ERROR_INVALID_VALUE,
              "%s: there is no memory type %d", name, (int)type);
    *out = type == CU_MEMORYTYPE_HOST ? HOST_SIDE : type == CU_MEMORYTYPE_DEVICE ? DEVICE_SIDE : ANY;
    return CUDA_SUCCESS;
}

CUresult sim_rows_of_3d(const CUDA_MEMCPY3D *c, sim_rows *out, const char *name) {
    side to, from;
    SIM_TRY(side_of(c->dstMemoryType, &to, name));
    SIM_TRY(side_of(c->srcMemoryType, &from, name));
    char *t = to == HOST_SIDE ? c->dstHost : (char *)c->dstDevice;
    const char *f = from == HOST_SIDE ? c->srcHost : (const char *)c->srcDevice;
    size_t to_pitch = c->dstPitch ? c->dstPitch : c->WidthInBytes,
           from_pitch = c->srcPitch ? c->srcPitch : c->WidthInBytes;
    size_t to_plane = to_pitch * (c->dstHeight ? c->dstHeight : c->Height);
    size_t from_plane = from_pitch * (c->srcHeight ? c->srcHeight : c->Height);
    SIM_CHECK(to_pitch >= c->WidthInBytes && from_pitch >= c->WidthInBytes, CUDA_ERROR_INVALID_VALUE,
              "%s: rows of %zu bytes do not fit pitches of %zu and %zu", name, c->WidthInBytes, from_pitch, to_pitch);
    *out = (sim_rows){.to = t + c->dstXInBytes + c->dstY * to_pitch + c->dstZ * to_plane,
                      .from = f + c->srcXInBytes + c->srcY * from_pitch + c->srcZ * from_plane,
                      .width = c->WidthInBytes,
                      .height = c->Height,
                      .depth = c->Depth,
                      .to_pitch = to_pitch,
                      .from_pitch = from_pitch,
                      .to_plane = to_plane,
                      .from_plane = from_plane};
    return CUDA_SUCCESS;
}

CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *c, CUstream stream) {
    SIM_ENTER(SIM_CURRENT);
    SIM_CHECK(c, CUDA_ERROR_INVALID_VALUE, "cuMemcpy2DAsync: copy is NULL");
    CUDA_MEMCPY3D deep = {.srcXInBytes = c->srcXInBytes,
                          .srcY = c->srcY,
                          .srcMemoryType = c->srcMemoryType,
                          .srcHost = c->srcHost,
                          .srcDevice = c->srcDevice,
                          .srcPitch = c->srcPitch,
                          .dstXInBytes = c->dstXInBytes,
                          .dstY = c->dstY,
                          .dstMemoryType = c->dstMemoryType,
                          .dstHost = c->dstHost,
                          .dstDevice = c->dstDevice,
                          .dstPitch = c->dstPitch,
                          .WidthInBytes = c->WidthInBytes,
                          .Height = c->Height,
                          .Depth = 1};
    sim_rows rows;
    side to, from;
    SIM_TRY(sim_rows_of_3d(&deep, &rows, "cuMemcpy2DAsync"));
    SIM_TRY(side_of(c->dstMemoryType, &to, "cuMemcpy2DAsync"));
    SIM_TRY(side_of(c->srcMemoryType, &from, "cuMemcpy2DAsync"));
    return copy(rows, to, from, stream, false, "cuMemcpy2DAsync");
}

/* ---- fills ------------------------------------------------------------------------------------------------------- */

CUresult sim_set_check(const sim_device *d, const sim_spec *s, const char *name) {
    const char *to = s->set.to;
    const sim_block *b = sim_block_at(to);
    SIM_CHECK((uintptr_t)to % s->set.element == 0, CUDA_ERROR_INVALID_VALUE, "%s: %p is not aligned to %u bytes", name,
              (const void *)to, s->set.element);
    if (b && b->pending) return CUDA_SUCCESS;
    size_t bytes = s->set.width * s->set.element + (s->set.height - 1) * s->set.pitch;
    CUresult r = sim_check_range(d, to, bytes, true, true, false, name);
    return r ? sim_recode(CUDA_ERROR_INVALID_VALUE) : CUDA_SUCCESS;
}

static CUresult set(CUdeviceptr to, unsigned value, unsigned element, size_t n, CUstream stream, const char *name) {
    sim_stream *s;
    SIM_TRY(sim_stream_of(stream, &s));
    if (!n) return CUDA_SUCCESS;
    sim_spec spec = {.kind = SIM_OP_SET, .device = s->device, .set = {(char *)to, value, element, n, 1, n * element}};
    SIM_TRY(sim_set_check(s->device, &spec, name));
    return sim_enqueue(s, &spec);
}

CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t n, CUstream stream) {
    SIM_ENTER(SIM_CURRENT);
    return set(to, value, 1, n, stream, "cuMemsetD8Async");
}

CUresult cuMemsetD16Async(CUdeviceptr to, unsigned short value, size_t n, CUstream stream) {
    SIM_ENTER(SIM_CURRENT);
    return set(to, value, 2, n, stream, "cuMemsetD16Async");
}

CUresult cuMemsetD32Async(CUdeviceptr to, unsigned value, size_t n, CUstream stream) {
    SIM_ENTER(SIM_CURRENT);
    return set(to, value, 4, n, stream, "cuMemsetD32Async");
}
