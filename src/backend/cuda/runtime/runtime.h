/* What the parts of the CUDA runtime share: devices, current streams, entering a device, errors. */
#ifndef FAC_SRC_BACKEND_CUDA_RUNTIME_RUNTIME_H
#define FAC_SRC_BACKEND_CUDA_RUNTIME_RUNTIME_H

#include "backend/cuda/driver/driver.h"
#include "backend/cuda/kernels/launch.h"
#include "core/tensor.h"
#include <facula/device.h>

#define FAC_CUDA_POOL_STREAMS 32 /* per device and priority */

/* One device, known since the driver was loaded; the context is retained on first use. */
typedef struct fac_cuda_device {
    int index; /* Facula's, after CUDA_VISIBLE_DEVICES */
    CUdevice ordinal;
    _Atomic(CUcontext) context; /* NULL until first use */
    int major, minor, multiprocessors;
    size_t total_bytes;
} fac_cuda_device;

/* Called by fac_init and fac_shutdown. No driver is loaded: that waits for the first use. */
fac_status fac__cuda_init(void);
void fac__cuda_shutdown(void);

/* The driver, loaded and initialised once; the reason it cannot be used is the error. No context is made. */
fac_status fac__cuda_start(void);
/* Number of devices; 0 without a usable driver. Sets no error. */
int fac__cuda_count(void);
/* A device with its context retained. errors: DEVICE if there is none of that index, naming how many there are */
fac_status fac__cuda_device(int index, fac_cuda_device **out);

/* Makes a device's context the calling thread's for a while: nothing is done if it is already. */
typedef struct fac_cuda_entry {
    CUcontext was;
    bool changed;
} fac_cuda_entry;
fac_status fac__cuda_enter(int index, fac_cuda_entry *out_entry);
void fac__cuda_leave(const fac_cuda_entry *e);

/* The calling thread's current stream on a device, as id and as handle (NULL is the default stream's). */
int64_t fac__cuda_stream_id(int index);
CUstream fac__cuda_stream(int index);
/* The handle behind an id. */
CUstream fac__cuda_stream_of(int index, int64_t id);
/* The id behind a handle: slow. */
int64_t fac__cuda_stream_id_of(int index, CUstream handle);

/* FAC_OK, or an error that says what failed, with the driver's name and text of the code. Sticky codes (a kernel that faulted)
   say that an earlier, asynchronous call is to blame and how to find it. Out of memory is FAC_ERR_MEMORY. */
fac_status fac__cuda_fail(CUresult r, const char *what);
#define FAC_CU(call) FAC_CU_AS(call, #call)
#define FAC_CU_AS(call, what)                                               \
    do {                                                                    \
        CUresult fac_r_ = (call);                                           \
        if (FAC_UNLIKELY(fac_r_ != 0)) return fac__cuda_fail(fac_r_, what); \
    } while (0)

/* Bracket for what must not disturb a stream capture elsewhere (module loading, allocation of segments, handles): the thread's
   capture mode is relaxed in between. */
CUstreamCaptureMode fac__cuda_relax(void);
void fac__cuda_unrelax(CUstreamCaptureMode was);

/* First call of a thread of Facula's own that uses CUDA: it then takes part in no capture of other threads. */
void fac__cuda_helper_begin(void);

/* True once the driver has begun to shut down with the process: every release is then a no-op. */
bool fac__cuda_gone(void);

/* ---- launching ---------------------------------------------------------------------------------------------------- */

/* Bytes that a launch, copy or library call reads or writes: rows of `width` bytes, `pitch` apart. For the race checker and
   for messages; taken from a tensor's extent by fac__cuda_access_tensor. */
typedef struct fac_cuda_access {
    const void *start;
    int64_t width, pitch, rows;
    bool write, read;
    const char *name; /* of the argument, or NULL */
} fac_cuda_access;
void fac__cuda_access_tensor(const fac_tensor *t, bool read, bool write, const char *name, fac_cuda_access *out);

typedef struct fac_cuda_launch_spec {
    fac_cuda_kernel *kernel;
    int device;
    unsigned grid[3], block[3], shared;
    void **args; /* addresses of the parameters' values */
    const fac_cuda_access *accesses;
    size_t n_accesses;
    const fac_operator *op;  /* named when the launch fails; NULL: none */
    struct k_bounds *bounds; /* a parameter's value, filled in here but for its dim (kernels/bounds.h); or NULL */
} fac_cuda_launch_spec;
/* Queues a kernel on the current stream of the device. In launch-blocking mode waits and reports. */
fac_status fac__cuda_launch(const fac_cuda_launch_spec *l);

/* Queues a copy or a fill on the current stream of the device. Sizes in bytes. */
fac_status fac__cuda_copy(fac_device to_device, void *to, fac_device from_device, const void *from, int64_t bytes,
                          bool non_blocking);
fac_status fac__cuda_memset(int device, void *to, int value, int64_t bytes);

/* ---- allocators ------------------------------------------------------------------------------------------------------ */

/* The caching allocator of a device and the cache of page-locked memory (alloc.h has the rest). */
const fac_allocator *fac__cuda_allocator(int index);
const fac_allocator *fac__cuda_host_allocator(void);
bool fac__cuda_is_host_memory(const void *p);
/* Marks a block as used in a stream other than its own; NULL and foreign addresses are ignored. */
fac_status fac__cuda_record_data(void *data, int index, int64_t stream);
/* A copy between page-locked memory and a device was queued in a stream: the block is not reused before it is done. */
fac_status fac__cuda_host_record(const void *p, int index, int64_t stream);
/* Whether the options in the environment are good ones; called by the start. */
fac_status fac__cuda_allocators_start(void);
/* Warns of options that are ignored; without any lock, since the warning's handler may use the library. */
void fac__cuda_allocators_tell(void);
/* Kernels and copies of a device may now reach the memory of another: what is mapped there already is opened to it. */
fac_status fac__cuda_allocators_open(int owner, int reader);
/* Frees every cached block and the allocators' own memory, at fac_shutdown; counts what users still hold. */
void fac__cuda_allocators_stop(void);

#endif
