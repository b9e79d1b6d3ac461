/* What the files of the runtime know of each other; other folders use runtime.h. */
#ifndef FAC_SRC_BACKEND_CUDA_RUNTIME_PARTS_H
#define FAC_SRC_BACKEND_CUDA_RUNTIME_PARTS_H

#include "backend/cuda/runtime/runtime.h"

/* ---- devices ---------------------------------------------------------------------------------------------------------- */

/* Why CUDA cannot be used, "" if it can. Starts the driver; sets no error. The text is good until the reason changes. */
const char *fac__cuda_why_not(void);
/* Whether the driver is started in this process, so that there may be something to free. Starts nothing. */
bool fac__cuda_running(void);
/* Rises with every stop, so that what threads and users remember of the time before is told apart. */
unsigned fac__cuda_generation(void);
/* What is known of a device without its context; the index is in range and the driver started. */
const fac_cuda_device *fac__cuda_known(int index);
/* The index of the device that a context belongs to; -1 if none of ours. */
int fac__cuda_index_of(CUcontext context);
/* errors: DEVICE if there is no device of that index. No context is made. */
fac_status fac__cuda_check_index(int index);
/* The calling thread's current device: the driver's current context's, else the one chosen last, else 0. */
fac_status fac__cuda_get_device(int *out_index);
/* Makes a device current, context included; the lazy form makes no context that is not there and reports nothing. */
fac_status fac__cuda_set_device(int index);
void fac__cuda_set_device_lazily(int index);

/* Access of a device's kernels and copies to a peer's memory: whether the hardware has it, turning it on, whether it is on. */
fac_status fac__cuda_peer_possible(int index, int peer, bool *out);
fac_status fac__cuda_peer_enable(int index, int peer);
bool fac__cuda_peer_enabled(int index, int peer);
void fac__cuda_peers_forget(void);

/* ---- streams and events ------------------------------------------------------------------------------------------------- */

fac_status fac__cuda_stream_new(int index, int priority, int64_t *out_id);
int64_t fac__cuda_stream_wrap(void *handle);
/* Makes a stream current on its device for the calling thread; gives the former one. */
int64_t fac__cuda_stream_exchange(int index, int64_t id);
fac_status fac__cuda_stream_synchronize(int index, int64_t id);
/* Whether a capture of the stream is under way: then nothing may wait for it. */
fac_status fac__cuda_stream_capturing(int index, int64_t id, bool *out);
/* Destroys the pooled streams of a device, whose context is current. */
void fac__cuda_streams_stop(int index);

/* A mark in a stream; its CUevent comes from a pool per device. */
typedef struct fac_cuda_event {
    CUevent handle;
    int device;
    bool timing;
    unsigned generation;
    struct fac_cuda_event *next; /* in the pool */
} fac_cuda_event;
fac_status fac__cuda_event_take(int index, bool timing, fac_cuda_event **out);
void fac__cuda_event_put(fac_cuda_event *e);
/* Record in, or wait from, a stream of any device. */
fac_status fac__cuda_event_record(fac_cuda_event *e, int index, int64_t id);
fac_status fac__cuda_event_wait(const fac_cuda_event *e, int index, int64_t id);
fac_status fac__cuda_event_query(const fac_cuda_event *e, bool *out_done);
fac_status fac__cuda_event_synchronize(const fac_cuda_event *e);
fac_status fac__cuda_event_elapsed(const fac_cuda_event *start, const fac_cuda_event *end, double *out_ms);
void fac__cuda_events_stop(int index);
/* Later work in one stream waits for what is queued in another now. */
fac_status fac__cuda_stream_follow(int index, int64_t id, int other_index, int64_t other_id);

/* ---- launching ------------------------------------------------------------------------------------------------------------ */

/* Every launch waits for its end and reports: FACULA_CUDA_LAUNCH_BLOCKING=1, or set by the user. */
bool fac__cuda_blocking(void);
void fac__cuda_set_blocking(bool on);
/* After something was queued: in launch-blocking mode, waits for it. what names it in the error. */
fac_status fac__cuda_queued(int index, int64_t stream, const char *what);
/* Queues a function on the current stream of the device, whose context is current. */
typedef struct fac_cuda_queue {
    CUfunction function;
    const char *name;
    const fac_operator *op; /* or NULL */
    int device;
    const unsigned *grid, *block;
    unsigned shared;
    void **args;
    const fac_cuda_access *accesses;
    size_t n_accesses;
} fac_cuda_queue;
fac_status fac__cuda_queue_function(const fac_cuda_queue *q);
/* Notes something that was launched, by a name that lives until the shutdown. */
void fac__cuda_launched(int index, const char *name);
/* The last launches on a device, newest first, for the text of an asynchronous error: "add, mul". */
void fac__cuda_recent(int index, char *text, size_t size);
void fac__cuda_recent_forget(int index);

/* ---- indices out of range (bounds.c) ------------------------------------------------------------------------------------------ */

/* What a launch of `op` in the device's current stream, whose context is current, is told; dim is the caller's. */
fac_status fac__cuda_bounds_fill(int index, const fac_operator *op, struct k_bounds *out);
/* INDEX if a kernel that has run met one out of range, once; two loads if not. `what` is where that shows. If the thread has an
   error already, the new one waits. To be called only where an error reaches the user. */
fac_status fac__cuda_bounds_check(int index, const char *what);
void fac__cuda_bounds_stop(int index);

/* ---- code ------------------------------------------------------------------------------------------------------------------------ */

/* The function behind a kernel of the built-in image, on a device whose context is current. */
fac_status fac__cuda_builtin(fac_cuda_kernel *k, int index, CUfunction *out);
/* Unloads the built-in image of a device, whose context is current, and what users loaded. */
void fac__cuda_modules_stop(int index);

#endif
