/* The driver's result codes as errors of Facula's. */
#include "backend/cuda/runtime/parts.h"
#include <stdlib.h>

/* The codes that a device reports when work that it ran failed: at any later call, and then at every one. */
static bool is_sticky(CUresult r) {
    switch ((int)r) {
    case CUDA_ERROR_ECC_UNCORRECTABLE:
    case CUDA_ERROR_NVLINK_UNCORRECTABLE:
    case CUDA_ERROR_CONTAINED:
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_LAUNCH_TIMEOUT:
    case CUDA_ERROR_ASSERT:
    case CUDA_ERROR_HARDWARE_STACK_ERROR:
    case CUDA_ERROR_ILLEGAL_INSTRUCTION:
    case CUDA_ERROR_MISALIGNED_ADDRESS:
    case CUDA_ERROR_INVALID_ADDRESS_SPACE:
    case CUDA_ERROR_INVALID_PC:
    case CUDA_ERROR_LAUNCH_FAILED:
    case CUDA_ERROR_TENSOR_MEMORY_LEAK:
    case CUDA_ERROR_EXTERNAL_DEVICE: return true;
    default: return false;
    }
}

/* In pairs: a result code and what it is in Facula. */
static const struct {
    int from, to;
    fac_status status;
} kinds[] = {
    {CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_INVALID_VALUE, FAC_ERR_ARGUMENT},
    {CUDA_ERROR_OUT_OF_MEMORY, CUDA_ERROR_OUT_OF_MEMORY, FAC_ERR_MEMORY},
    {CUDA_ERROR_NOT_INITIALIZED, CUDA_ERROR_DEINITIALIZED, FAC_ERR_STATE},
    {CUDA_ERROR_INVALID_IMAGE, CUDA_ERROR_INVALID_IMAGE, FAC_ERR_FORMAT},
    {CUDA_ERROR_INVALID_PTX, CUDA_ERROR_INVALID_PTX, FAC_ERR_FORMAT},
    {CUDA_ERROR_PEER_ACCESS_UNSUPPORTED, CUDA_ERROR_PEER_ACCESS_UNSUPPORTED, FAC_ERR_UNSUPPORTED},
    {CUDA_ERROR_NOT_FOUND, CUDA_ERROR_NOT_FOUND, FAC_ERR_NOT_FOUND},
    {CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, FAC_ERR_ARGUMENT},
    {CUDA_ERROR_NOT_PERMITTED, CUDA_ERROR_NOT_SUPPORTED, FAC_ERR_UNSUPPORTED},
    {CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD, FAC_ERR_STATE},
};

static fac_status status_of(CUresult r) {
    for (size_t i = 0; i < FAC_COUNT(kinds); i++)
        if ((int)r >= kinds[i].from && (int)r <= kinds[i].to) return kinds[i].status;
    return FAC_ERR_DEVICE;
}

/* The driver's sentence for a code, "" if it has none. */
static const char *text_of(CUresult r) {
    const char *text = NULL;
    if (fac__cu.cuGetErrorString && fac__cu.cuGetErrorString(r, &text) == CUDA_SUCCESS && text) return text;
    return "no description";
}

/* Like fac__cuda_fail, where it is known which call is to blame: no word of earlier ones. */
static fac_status fail_here(CUresult r, const char *what) {
    return FAC_FAIL(status_of(r), "CUDA error in %s: %s (%s, %d)%s", what, text_of(r), fac__cu_name(r), (int)r,
                    is_sticky(r) ? "; the device's context cannot be used any more: start the process again" : "");
}

static fac_status fail_later(CUresult r, const char *what) {
    char recent[256];
    int index = 0;
    CUcontext c = NULL;
    if (fac__cu.cuCtxGetCurrent(&c) == CUDA_SUCCESS && c) index = fac__cuda_index_of(c);
    fac__cuda_recent(index, recent, sizeof recent);
    return FAC_FAIL(status_of(r),
                    "CUDA error seen in %s: %s (%s, %d). Devices work asynchronously: the error may be of an earlier "
                    "call%s%s. FACULA_CUDA_LAUNCH_BLOCKING=1 makes every call wait and names the one that failed. The "
                    "device's context cannot be used any more: start the process again",
                    what, text_of(r), fac__cu_name(r), (int)r, *recent ? "; the last launches, newest first: " : "",
                    recent);
}

fac_status fac__cuda_fail(CUresult r, const char *what) {
    return is_sticky(r) && !fac__cuda_blocking() ? fail_later(r, what) : fail_here(r, what);
}

/* ---- launch-blocking mode -------------------------------------------------------------------------------------------------- */

enum { UNREAD, OFF, ON };
static atomic_int blocking;

static bool is_set(const char *name) {
    const char *value = fac__env(name);
    return value && *value && strcmp(value, "0") != 0;
}

bool fac__cuda_blocking(void) {
    int mode = atomic_load_explicit(&blocking, memory_order_relaxed);
    if (FAC_LIKELY(mode != UNREAD)) return mode == ON;
    mode = is_set("FACULA_CUDA_LAUNCH_BLOCKING") || is_set("CUDA_LAUNCH_BLOCKING") ? ON : OFF;
    atomic_store_explicit(&blocking, mode, memory_order_relaxed);
    return mode == ON;
}

void fac__cuda_set_blocking(bool on) { atomic_store_explicit(&blocking, on ? ON : OFF, memory_order_relaxed); }

fac_status fac__cuda_queued(int index, int64_t stream, const char *what) {
    bool capturing;
    if (FAC_LIKELY(!fac__cuda_blocking())) return FAC_OK;
    FAC_TRY(fac__cuda_stream_capturing(index, stream, &capturing));
    if (capturing) return FAC_OK;
    CUresult r = fac__cu.cuStreamSynchronize(fac__cuda_stream_of(index, stream));
    return r == CUDA_SUCCESS ? fac__cuda_bounds_check(index, what) : fail_here(r, what);
}
