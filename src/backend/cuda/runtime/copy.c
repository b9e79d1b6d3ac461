/* Copies and fills. The host waits where it must: for memory that is not page-locked, and for whatever is not asked to be
   non-blocking. Between two devices the copy runs on the source's stream, and the two current streams are ordered around
   it, as if it ran on both. */
#include "backend/cuda/runtime/parts.h"

/* ---- between host and device -------------------------------------------------------------------------------------------------- */

typedef struct host_copy {
    int device;
    int64_t stream;
    void *to;
    const void *from;
    int64_t bytes;
    bool up;     /* to the device */
    bool locked; /* the host's side is page-locked */
    bool wait;
} host_copy;

static fac_status may_wait(const host_copy *c) {
    bool capturing;
    if (!c->wait) return FAC_OK;
    FAC_TRY(fac__cuda_stream_capturing(c->device, c->stream, &capturing));
    FAC_CHECK(!capturing, FAC_ERR_STATE, "a copy between host and device that waits cannot be captured: %s",
              c->locked ? "give non_blocking" : "use page-locked memory (pin_memory) and non_blocking");
    return FAC_OK;
}

static fac_status copy_entered(const host_copy *c) {
    CUstream s = fac__cuda_stream_of(c->device, c->stream);
    const char *what = c->up ? "a copy from host to device" : "a copy from device to host";
    FAC_TRY(may_wait(c));
    /* First, since a copy under way whose block is not held cannot be called back. */
    if (c->locked) FAC_TRY(fac__cuda_host_record(c->up ? c->from : c->to, c->device, c->stream));
    CUresult r = c->up ? fac__cu.cuMemcpyHtoDAsync((CUdeviceptr)(uintptr_t)c->to, c->from, (size_t)c->bytes, s)
                       : fac__cu.cuMemcpyDtoHAsync(c->to, (CUdeviceptr)(uintptr_t)c->from, (size_t)c->bytes, s);
    FAC_CU_AS(r, what);
    if (!c->wait) return fac__cuda_queued(c->device, c->stream, what);
    FAC_CU_AS(fac__cu.cuStreamSynchronize(s), what);
    return fac__cuda_bounds_check(c->device, what);
}

static fac_status copy_host(int index, void *to, const void *from, int64_t bytes, bool up, bool non_blocking) {
    fac_cuda_entry entry;
    FAC_TRY(fac__cuda_enter(index, &entry));
    host_copy c = {
        .device = index, .stream = fac__cuda_stream_id(index), .to = to, .from = from, .bytes = bytes, .up = up};
    c.locked = fac__cuda_is_host_memory(up ? from : to);
    c.wait = !non_blocking || !c.locked;
    fac_status st = copy_entered(&c);
    fac__cuda_leave(&entry);
    return st;
}

/* ---- on and between devices ---------------------------------------------------------------------------------------------------- */

static fac_status copy_within(int index, void *to, const void *from, int64_t bytes) {
    fac_cuda_entry entry;
    FAC_TRY(fac__cuda_enter(index, &entry));
    int64_t id = fac__cuda_stream_id(index);
    CUresult r = fac__cu.cuMemcpyDtoDAsync((CUdeviceptr)(uintptr_t)to, (CUdeviceptr)(uintptr_t)from, (size_t)bytes,
                                           fac__cuda_stream_of(index, id));
    fac_status st =
        r == CUDA_SUCCESS ? fac__cuda_queued(index, id, "a copy on a device") : fac__cuda_fail(r, "a copy on a device");
    fac__cuda_leave(&entry);
    return st;
}

/* Where a link joins the devices it is opened; without one the driver goes through the host by itself. */
static fac_status open_link(int from_index, int to_index) {
    bool possible;
    FAC_TRY(fac__cuda_peer_possible(from_index, to_index, &possible));
    return possible ? fac__cuda_peer_enable(from_index, to_index) : FAC_OK;
}

static fac_status queue_peer(int to_index, void *to, int from_index, const void *from, int64_t bytes, int64_t id) {
    fac_cuda_device *t, *f;
    FAC_TRY(fac__cuda_device(to_index, &t));
    FAC_TRY(fac__cuda_device(from_index, &f));
    FAC_CU_AS(fac__cu.cuMemcpyPeerAsync((CUdeviceptr)(uintptr_t)to, atomic_load(&t->context),
                                        (CUdeviceptr)(uintptr_t)from, atomic_load(&f->context), (size_t)bytes,
                                        fac__cuda_stream_of(from_index, id)),
              "a copy between devices");
    return fac__cuda_queued(from_index, id, "a copy between devices");
}

static fac_status copy_peer(int to_index, void *to, int from_index, const void *from, int64_t bytes) {
    fac_cuda_entry entry;
    int64_t from_id = fac__cuda_stream_id(from_index), to_id = fac__cuda_stream_id(to_index);
    FAC_TRY(open_link(from_index, to_index));
    FAC_TRY(fac__cuda_stream_follow(from_index, from_id, to_index, to_id)); /* until the destination is free */
    FAC_TRY(fac__cuda_enter(from_index, &entry));
    fac_status st = queue_peer(to_index, to, from_index, from, bytes, from_id);
    fac__cuda_leave(&entry);
    return st == FAC_OK ? fac__cuda_stream_follow(to_index, to_id, from_index, from_id) : st;
}

fac_status fac__cuda_copy(fac_device to_device, void *to, fac_device from_device, const void *from, int64_t bytes,
                          bool non_blocking) {
    int t = to_device.index_plus - 1, f = from_device.index_plus - 1;
    if (bytes == 0) return FAC_OK;
    if (from_device.type == FAC_CPU) return copy_host(t, to, from, bytes, true, non_blocking);
    if (to_device.type == FAC_CPU) return copy_host(f, to, from, bytes, false, non_blocking);
    return t == f ? copy_within(t, to, from, bytes) : copy_peer(t, to, f, from, bytes);
}

fac_status fac__cuda_memset(int device, void *to, int value, int64_t bytes) {
    fac_cuda_entry entry;
    if (bytes == 0) return FAC_OK;
    FAC_TRY(fac__cuda_enter(device, &entry));
    int64_t id = fac__cuda_stream_id(device);
    CUresult r = fac__cu.cuMemsetD8Async((CUdeviceptr)(uintptr_t)to, (unsigned char)value, (size_t)bytes,
                                         fac__cuda_stream_of(device, id));
    fac_status st = r == CUDA_SUCCESS ? fac__cuda_queued(device, id, "a memset") : fac__cuda_fail(r, "a memset");
    fac__cuda_leave(&entry);
    return st;
}
