/* Access of one device to another's memory: enabled once per pair, where the hardware has it. */
#include "backend/cuda/runtime/parts.h"

enum { UNKNOWN, NONE, POSSIBLE, ENABLED };
static atomic_uchar states[FAC_CUDA_MAX_DEVICES][FAC_CUDA_MAX_DEVICES];

static fac_status look(int index, int peer, unsigned char *out) {
    int can = 0;
    *out = atomic_load_explicit(&states[index][peer], memory_order_acquire);
    if (*out != UNKNOWN) return FAC_OK;
    FAC_CU(fac__cu.cuDeviceCanAccessPeer(&can, fac__cuda_known(index)->ordinal, fac__cuda_known(peer)->ordinal));
    *out = can ? POSSIBLE : NONE;
    unsigned char unknown = UNKNOWN; /* another thread may be further */
    atomic_compare_exchange_strong(&states[index][peer], &unknown, *out);
    return FAC_OK;
}

fac_status fac__cuda_peer_possible(int index, int peer, bool *out) {
    unsigned char state;
    *out = false;
    FAC_TRY(fac__cuda_check_index(index));
    FAC_TRY(fac__cuda_check_index(peer));
    if (index == peer) return FAC_OK;
    FAC_TRY(look(index, peer, &state));
    *out = state != NONE;
    return FAC_OK;
}

static fac_status enable(int index, int peer) {
    fac_cuda_device *other;
    fac_cuda_entry entry;
    FAC_TRY(fac__cuda_device(peer, &other));
    FAC_TRY(fac__cuda_enter(index, &entry));
    CUstreamCaptureMode mode = fac__cuda_relax();
    CUresult r = fac__cu.cuCtxEnablePeerAccess(atomic_load_explicit(&other->context, memory_order_acquire), 0);
    fac__cuda_unrelax(mode);
    bool done = r == CUDA_SUCCESS || r == CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
    fac_status st = done ? FAC_OK : fac__cuda_fail(r, "cuCtxEnablePeerAccess");
    fac__cuda_leave(&entry);
    if (st != FAC_OK) return st;
    atomic_store_explicit(&states[index][peer], ENABLED, memory_order_release);
    return fac__cuda_allocators_open(peer, index);
}

fac_status fac__cuda_peer_enable(int index, int peer) {
    unsigned char state;
    FAC_TRY(fac__cuda_check_index(index));
    FAC_TRY(fac__cuda_check_index(peer));
    if (index == peer) return FAC_OK;
    FAC_TRY(look(index, peer, &state));
    FAC_CHECK(state != NONE, FAC_ERR_UNSUPPORTED, "cuda:%d cannot access the memory of cuda:%d: no link joins them",
              index, peer);
    return state == ENABLED ? FAC_OK : enable(index, peer);
}

bool fac__cuda_peer_enabled(int index, int peer) {
    return index == peer || atomic_load_explicit(&states[index][peer], memory_order_acquire) == ENABLED;
}

void fac__cuda_peers_forget(void) {
    for (int i = 0; i < FAC_CUDA_MAX_DEVICES; i++)
        for (int j = 0; j < FAC_CUDA_MAX_DEVICES; j++)
            atomic_store_explicit(&states[i][j], UNKNOWN, memory_order_relaxed);
}
