/* The public questions: whether CUDA is there, what its devices are, which of them reach each other. */
#include "backend/cuda/runtime/parts.h"
#include <facula/cuda.h>

/* Through the guard table, whose question starts the library: fac_shutdown then stops the driver too. */
bool fac_cuda_is_available(void) { return fac_device_count(FAC_CUDA) > 0; }
int fac_cuda_device_count(void) { return fac_device_count(FAC_CUDA); }
const char *fac_cuda_why_unavailable(void) { return fac__cuda_why_not(); }

/* Starts the driver without a word if it cannot be. */
static bool started(void) {
    fac_saved_error *pending = fac__error_take();
    bool usable = fac__cuda_start() == FAC_OK;
    fac_error_clear();
    fac__error_restore(pending);
    return usable;
}

int fac_cuda_driver_version(void) { return started() ? fac__cu_version() : 0; }
bool fac_cuda_is_simulated(void) { return started() && fac__cu_is_simulated(); }

bool fac_cuda_set_launch_blocking(bool on) {
    bool was = fac__cuda_blocking();
    fac__cuda_set_blocking(on);
    return was;
}

/* ---- properties -------------------------------------------------------------------------------------------------------------- */

static fac_status attribute(CUdevice d, CUdevice_attribute a, int *out) {
    *out = 0;
    FAC_CU_AS(fac__cu.cuDeviceGetAttribute(out, a, d), "cuDeviceGetAttribute");
    return FAC_OK;
}

static fac_status read_attributes(CUdevice d, fac_cuda_properties *p) {
    int l2, shared, optin, shared_mp, integrated, ecc;
    const struct {
        CUdevice_attribute a;
        int *to;
    } wanted[] = {
        {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, &p->major},
        {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, &p->minor},
        {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, &p->multiprocessors},
        {CU_DEVICE_ATTRIBUTE_WARP_SIZE, &p->warp_size},
        {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, &p->max_threads_per_block},
        {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, &p->max_threads_per_multiprocessor},
        {CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR, &p->registers_per_multiprocessor},
        {CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, &l2},
        {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, &shared},
        {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, &optin},
        {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, &shared_mp},
        {CU_DEVICE_ATTRIBUTE_INTEGRATED, &integrated},
        {CU_DEVICE_ATTRIBUTE_ECC_ENABLED, &ecc},
    };
    for (size_t i = 0; i < FAC_COUNT(wanted); i++) FAC_TRY(attribute(d, wanted[i].a, wanted[i].to));
    p->l2_cache = l2;
    p->shared_per_block = shared;
    p->shared_per_block_optin = optin;
    p->shared_per_multiprocessor = shared_mp;
    p->integrated = integrated != 0;
    p->ecc = ecc != 0;
    return FAC_OK;
}

/* As the system's tools write it: groups of 4, 2, 2, 2 and 6 bytes. */
static void format_uuid(const CUuuid *uuid, char *out, size_t size) {
    size_t n = (size_t)snprintf(out, size, "GPU");
    for (int i = 0; i < 16; i++)
        n += (size_t)snprintf(out + n, size - n, "%s%02x", i == 0 || (i >= 4 && i <= 10 && i % 2 == 0) ? "-" : "",
                              (unsigned)(unsigned char)uuid->bytes[i]);
}

fac_status fac_cuda_get_properties(int device, fac_cuda_properties *out) {
    CUuuid uuid;
    FAC_TRY(fac_error());
    FAC_CHECK(out, FAC_ERR_ARGUMENT, "fac_cuda_get_properties: out is NULL");
    *out = (fac_cuda_properties){0};
    if (device == -1) FAC_TRY(fac__cuda_get_device(&device));
    FAC_TRY(fac__cuda_check_index(device));
    CUdevice d = fac__cuda_known(device)->ordinal;
    FAC_CU_AS(fac__cu.cuDeviceGetName(out->name, (int)sizeof out->name, d), "cuDeviceGetName");
    FAC_CU_AS(fac__cu.cuDeviceGetPCIBusId(out->pci_id, (int)sizeof out->pci_id, d), "cuDeviceGetPCIBusId");
    FAC_CU_AS(fac__cu.cuDeviceGetUuid(&uuid, d), "cuDeviceGetUuid");
    format_uuid(&uuid, out->uuid, sizeof out->uuid);
    out->total_memory = (int64_t)fac__cuda_known(device)->total_bytes;
    return read_attributes(d, out);
}

/* ---- peers ---------------------------------------------------------------------------------------------------------------------- */

static fac_status resolve(int *device) { return *device == -1 ? fac__cuda_get_device(device) : FAC_OK; }

fac_status fac_cuda_can_access_peer(int device, int peer, bool *out_can) {
    FAC_TRY(fac_error());
    FAC_CHECK(out_can, FAC_ERR_ARGUMENT, "fac_cuda_can_access_peer: out_can is NULL");
    FAC_TRY(resolve(&device));
    FAC_TRY(resolve(&peer));
    return fac__cuda_peer_possible(device, peer, out_can);
}

fac_status fac_cuda_enable_peer_access(int device, int peer) {
    FAC_TRY(fac_error());
    FAC_TRY(resolve(&device));
    FAC_TRY(resolve(&peer));
    return fac__cuda_peer_enable(device, peer);
}

bool fac_cuda_peer_access_enabled(int device, int peer) {
    if (fac_error() != FAC_OK || resolve(&device) != FAC_OK || resolve(&peer) != FAC_OK) return false;
    if (fac__cuda_check_index(device) != FAC_OK || fac__cuda_check_index(peer) != FAC_OK) return false;
    return device != peer && fac__cuda_peer_enabled(device, peer);
}
