/* What the race checker hears of: which bytes queued work touches, and what orders it. Nobody listens unless the checker is
   on; then each of these costs one load. */
#ifndef FAC_SRC_BACKEND_CUDA_RUNTIME_ACCESS_H
#define FAC_SRC_BACKEND_CUDA_RUNTIME_ACCESS_H

#include "backend/cuda/runtime/runtime.h"

/* Devices are indexes, streams ids, events the pointers that the guard table gives out. Calls come before the work is queued,
   in the order of the host thread that queues it. */
typedef struct fac_cuda_listener {
    /* A launch, copy or fill is about to be queued. op names it; an access may have been reported by an earlier one. */
    void (*access)(int device, int64_t stream, const char *op, const fac_cuda_access *accesses, size_t n);
    /* The event marks the present end of a stream, replacing its former mark. */
    void (*record)(const void *event, int device, int64_t stream);
    /* Later work in the stream waits for the event's mark. */
    void (*wait)(const void *event, int device, int64_t stream);
    /* The host has seen the end of the marked, the stream's or the device's work. */
    void (*host_saw_event)(const void *event);
    void (*host_saw_stream)(int device, int64_t stream);
    void (*host_saw_device)(int device);
    /* The event's mark is forgotten; its address may be used again. */
    void (*forget)(const void *event);
} fac_cuda_listener;

/* NULL while nobody listens. */
extern _Atomic(const fac_cuda_listener *) fac__cuda_listener;

/* FAC_CUDA_TELL(record, event, device, stream) */
#define FAC_CUDA_TELL(what, ...)                                                                              \
    do {                                                                                                      \
        const fac_cuda_listener *listener_ = atomic_load_explicit(&fac__cuda_listener, memory_order_acquire); \
        if (FAC_UNLIKELY(listener_ != NULL)) listener_->what(__VA_ARGS__);                                    \
    } while (0)

#endif
