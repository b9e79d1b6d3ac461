/* Devices, primary contexts and access between devices. */
#include "simcuda/sim.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

sim_device sim_devices[SIM_MAX_DEVICES];
int sim_n_devices;
_Thread_local sim_device *sim_current;

/* ---- which devices are visible ----------------------------------------------------------------------------------- */

static void device_uuid(int physical, CUuuid *out) {
    memset(out, 0, sizeof *out);
    memcpy(out->bytes, "FaculaSimGPU", 12);
    out->bytes[15] = (char)(physical + 1);
}

static void uuid_text(int physical, char text[48]) {
    CUuuid u;
    device_uuid(physical, &u);
    char *p = text + sprintf(text, "GPU-");
    for (int i = 0; i < 16; i++)
        p += sprintf(p, "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", (unsigned char)u.bytes[i]);
}

/* The device that an item of CUDA_VISIBLE_DEVICES names, by number or by a beginning of its UUID that no other has; -1
   for none. */
static int named(const char *item, int n) {
    while (*item == ' ') item++;
    int found = -1;
    if (strncasecmp(item, "GPU-", 4) == 0) {
        for (int i = 0; i < n; i++) {
            char text[48];
            uuid_text(i, text);
            if (strncasecmp(text, item, strlen(item)) != 0) continue;
            if (found >= 0) return -1;
            found = i;
        }
        return found;
    }
    char *end;
    long v = strtol(item, &end, 10);
    return end == item || v < 0 || v >= n ? -1 : (int)v;
}

static int devices_visible(int physical[SIM_MAX_DEVICES]) {
    const char *text = secure_getenv("CUDA_VISIBLE_DEVICES");
    int n = 0;
    if (!text) {
        for (; n < sim_opt.devices; n++) physical[n] = n;
        return n;
    }
    char *copy = strdup(text), *rest = copy, *item;
    while (copy && n < SIM_MAX_DEVICES && (item = strsep(&rest, ","))) {
        int which = named(item, sim_opt.devices);
        if (which < 0) break; /* the list ends at the first that is not there */
        for (int i = 0; i < n; i++) {
            if (physical[i] != which) continue;
            free(copy);
            return 0; /* a device named twice makes the list void */
        }
        physical[n++] = which;
    }
    free(copy);
    return n;
}

int simcuda_device_count(void) {
    int physical[SIM_MAX_DEVICES];
    sim_lock();
    sim_options was = sim_opt;
    int n = sim_n_devices ? sim_n_devices : sim_options_start() ? devices_visible(physical) : 0;
    sim_opt = was;
    sim_unlock();
    return n;
}

/* ---- start and end ----------------------------------------------------------------------------------------------- */

/* Addresses are plenty: a range larger than the memory keeps freed addresses out of use for long. The call goes past
   sanitizers, which would note every page. */
static bool reserve(sim_device *d) {
    d->range = sim_opt.memory * 2 + ((size_t)1 << 32);
    d->base = d->next = sim_map(NULL, d->range, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1);
    return d->base != NULL;
}

CUresult sim_devices_start(void) {
    int physical[SIM_MAX_DEVICES], n = devices_visible(physical);
    SIM_CHECK(n, CUDA_ERROR_NO_DEVICE, "cuInit: there are %d simulated devices, and CUDA_VISIBLE_DEVICES shows none",
              sim_opt.devices);
    for (int i = 0; i < n; i++) {
        sim_devices[i] = (sim_device){.index = i, .physical = physical[i]};
        SIM_CHECK(reserve(&sim_devices[i]), CUDA_ERROR_OUT_OF_MEMORY, "cuInit: no room for the addresses of device %d",
                  i);
        sim_n_devices = i + 1;
    }
    return CUDA_SUCCESS;
}

void sim_devices_stop(void) {
    for (int i = 0; i < sim_n_devices; i++) syscall(SYS_munmap, sim_devices[i].base, sim_devices[i].range);
    sim_n_devices = 0;
}

/* ---- queries ----------------------------------------------------------------------------------------------------- */

static CUresult device_of(CUdevice device, sim_device **out) {
    SIM_CHECK(device >= 0 && device < sim_n_devices, CUDA_ERROR_INVALID_DEVICE,
              "there is no device %d, there are %d simulated ones", device, sim_n_devices);
    *out = &sim_devices[device];
    return CUDA_SUCCESS;
}

#define DEVICE(device)    \
    sim_device *d = NULL; \
    SIM_ENTER(0);         \
    SIM_TRY(device_of(device, &d))

CUresult cuDeviceGetCount(int *count) {
    SIM_ENTER(SIM_INITIALISED);
    SIM_CHECK(count, CUDA_ERROR_INVALID_VALUE, "cuDeviceGetCount: count is NULL");
    *count = sim_n_devices;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice *device, int ordinal) {
    DEVICE(ordinal);
    SIM_CHECK(device, CUDA_ERROR_INVALID_VALUE, "cuDeviceGet: device is NULL");
    *device = d->index;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetName(char *name, int size, CUdevice device) {
    DEVICE(device);
    SIM_CHECK(name && size > 0, CUDA_ERROR_INVALID_VALUE, "cuDeviceGetName: no room");
    snprintf(name, (size_t)size, "Simulated GPU %d", d->physical);
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice device) {
    DEVICE(device);
    SIM_CHECK(uuid, CUDA_ERROR_INVALID_VALUE, "cuDeviceGetUuid: uuid is NULL");
    device_uuid(d->physical, uuid);
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetPCIBusId(char *id, int size, CUdevice device) {
    DEVICE(device);
    SIM_CHECK(id && size >= 13, CUDA_ERROR_INVALID_VALUE, "cuDeviceGetPCIBusId: 13 bytes are needed, not %d", size);
    snprintf(id, (size_t)size, "0000:%02X:00.0", (unsigned)(d->physical + 1) & 0xff);
    return CUDA_SUCCESS;
}

CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device) {
    DEVICE(device);
    SIM_CHECK(bytes, CUDA_ERROR_INVALID_VALUE, "cuDeviceTotalMem: bytes is NULL");
    (void)d;
    *bytes = sim_opt.memory;
    return CUDA_SUCCESS;
}

/* Limits are those of compute capability 9.0 in the CUDA C++ Programming Guide, section Compute Capabilities. */
/* clang-format off */
static const struct { CUdevice_attribute name; int value; } attributes[] = {
    {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 1024},
    {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, 1024},
    {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y, 1024},
    {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z, 64},
    {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, INT32_MAX},
    {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, 65535},
    {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z, 65535},
    {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, 49152},
    {CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY, 65536},
    {CU_DEVICE_ATTRIBUTE_WARP_SIZE, 32},
    {CU_DEVICE_ATTRIBUTE_MAX_PITCH, INT32_MAX},
    {CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK, 65536},
    {CU_DEVICE_ATTRIBUTE_CLOCK_RATE, 1000000},
    {CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY, 1},
    {CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS, 1},
    {CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, 1000000},
    {CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, 256},
    {CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, 4 << 20},
    {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, 2048},
    {CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT, 2},
    {CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 1},
    {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 9},
    {CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, 233472},
    {CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR, 65536},
    {CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM, 1},
    {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, 232448},
    {CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR, 32},
    {CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK, 1024},
    {CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, 1},
};
/* clang-format on */

/* What is not in the table is 0: a thing the simulated device does not have. */
CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute a, CUdevice device) {
    DEVICE(device);
    SIM_CHECK(value, CUDA_ERROR_INVALID_VALUE, "cuDeviceGetAttribute: value is NULL");
    SIM_CHECK((int)a > 0 && (int)a < 256, CUDA_ERROR_INVALID_VALUE, "cuDeviceGetAttribute: there is no attribute %d",
              (int)a);
    *value = 0;
    for (size_t i = 0; i < sizeof attributes / sizeof *attributes; i++) {
        if (attributes[i].name == a) *value = attributes[i].value;
    }
    if (a == CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT) *value = sim_opt.multiprocessors;
    if (a == CU_DEVICE_ATTRIBUTE_PCI_BUS_ID) *value = d->physical + 1;
    return CUDA_SUCCESS;
}

/* ---- contexts ---------------------------------------------------------------------------------------------------- */

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device) {
    DEVICE(device);
    SIM_CHECK(context, CUDA_ERROR_INVALID_VALUE, "cuDevicePrimaryCtxRetain: context is NULL");
    if (!d->retained++ && !d->legacy) {
        d->legacy = sim_object_new(SIM_STREAM, sizeof *d->legacy);
        d->legacy->device = d;
        d->legacy->legacy = true;
        sim_object_live[SIM_STREAM]--; /* the context's, not a caller's */
    }
    *context = d;
    return CUDA_SUCCESS;
}

/* The last release ends the context: its work is waited for. Unlike the driver's, it keeps what callers left in it, so
   that simcuda_count shows the leak; such handles are of no use until the context is retained again. */
CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
    DEVICE(device);
    SIM_CHECK(d->retained, CUDA_ERROR_INVALID_CONTEXT, "cuDevicePrimaryCtxRelease: device %d is not retained", device);
    if (d->retained == 1) {
        sim_drain(d);
        sim_pools_trim(d, true);
    }
    if (!--d->retained) d->fault = CUDA_SUCCESS;
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned *flags, int *active) {
    DEVICE(device);
    if (flags) *flags = 0;
    if (active) *active = d->retained > 0;
    return CUDA_SUCCESS;
}

static bool is_context(CUcontext c) { return c >= sim_devices && c < sim_devices + sim_n_devices && c->retained; }

CUresult cuCtxSetCurrent(CUcontext context) {
    SIM_ENTER(SIM_INITIALISED);
    SIM_CHECK(!context || is_context(context), CUDA_ERROR_INVALID_CONTEXT, "cuCtxSetCurrent: %p is no retained context",
              (void *)context);
    sim_current = context;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetCurrent(CUcontext *context) {
    SIM_ENTER(SIM_INITIALISED);
    SIM_CHECK(context, CUDA_ERROR_INVALID_VALUE, "cuCtxGetCurrent: context is NULL");
    *context = sim_current;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetDevice(CUdevice *device) {
    SIM_ENTER(SIM_INITIALISED);
    SIM_CHECK(device, CUDA_ERROR_INVALID_VALUE, "cuCtxGetDevice: device is NULL");
    SIM_CHECK(sim_current, CUDA_ERROR_INVALID_CONTEXT, "cuCtxGetDevice: the thread has no current context");
    *device = sim_current->index;
    return CUDA_SUCCESS;
}

CUresult cuCtxSynchronize(void) {
    SIM_ENTER(SIM_CURRENT | SIM_UNSAFE);
    sim_device *d = sim_current;
    for (sim_stream *s = d->streams; s; s = s->next_stream) {
        if (s->capture) return sim_capture_break(s, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "cuCtxSynchronize");
    }
    sim_drain(d);
    sim_pools_trim(d, false);
    return d->fault ? sim_refuse(d->fault, "%s", d->fault_text) : CUDA_SUCCESS;
}

CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest) {
    SIM_ENTER(SIM_CURRENT);
    if (least) *least = 0;
    if (greatest) *greatest = -5;
    return CUDA_SUCCESS;
}

/* ---- peers ------------------------------------------------------------------------------------------------------- */

bool sim_can_access(const sim_device *d, int owner) { return owner < 0 || owner == d->index || d->peers >> owner & 1; }

CUresult cuDeviceCanAccessPeer(int *can, CUdevice device, CUdevice peer) {
    DEVICE(device);
    sim_device *other = NULL;
    SIM_TRY(device_of(peer, &other));
    SIM_CHECK(can, CUDA_ERROR_INVALID_VALUE, "cuDeviceCanAccessPeer: can is NULL");
    *can = d != other && sim_opt.peers;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetP2PAttribute(int *value, CUdevice_P2PAttribute a, CUdevice source, CUdevice destination) {
    DEVICE(source);
    sim_device *other = NULL;
    SIM_TRY(device_of(destination, &other));
    SIM_CHECK(value && d != other, CUDA_ERROR_INVALID_VALUE, "cuDeviceGetP2PAttribute: two devices are needed");
    *value = sim_opt.peers &&
             (a == CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED || a == CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED);
    return CUDA_SUCCESS;
}

CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned flags) {
    SIM_ENTER(SIM_CURRENT);
    SIM_CHECK(is_context(peer), CUDA_ERROR_INVALID_CONTEXT, "cuCtxEnablePeerAccess: %p is no retained context",
              (void *)peer);
    SIM_CHECK(!flags && peer != sim_current, CUDA_ERROR_INVALID_VALUE, "cuCtxEnablePeerAccess: flags %u, device %d",
              flags, peer->index);
    SIM_CHECK(sim_opt.peers, CUDA_ERROR_PEER_ACCESS_UNSUPPORTED, "device %d has no link to device %d (peers=0)",
              sim_current->index, peer->index);
    SIM_CHECK(!(sim_current->peers >> peer->index & 1), CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED,
              "device %d may touch the memory of device %d already", sim_current->index, peer->index);
    sim_current->peers |= UINT64_C(1) << peer->index;
    return CUDA_SUCCESS;
}

CUresult cuCtxDisablePeerAccess(CUcontext peer) {
    SIM_ENTER(SIM_CURRENT);
    SIM_CHECK(is_context(peer), CUDA_ERROR_INVALID_CONTEXT, "cuCtxDisablePeerAccess: %p is no retained context",
              (void *)peer);
    SIM_CHECK(sim_current->peers >> peer->index & 1, CUDA_ERROR_PEER_ACCESS_NOT_ENABLED,
              "device %d may not touch the memory of device %d", sim_current->index, peer->index);
    sim_current->peers &= ~(UINT64_C(1) << peer->index);
    return CUDA_SUCCESS;
}
