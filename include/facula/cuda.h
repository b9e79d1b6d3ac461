/* CUDA: whether it is there, what its devices are, and kernels of the user's own. Streams, events and current devices
   are in facula/device.h, memory in facula/cuda_memory.h. A device is an index; -1 is the calling thread's current one.
   source: the model is torch.cuda */
#ifndef FACULA_CUDA_H
#define FACULA_CUDA_H

#include <facula/cuda_memory.h>
#include <facula/device.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- what there is ----------------------------------------------------------------------------------------------- */

/* Whether there is a device that can be used, and how many there are, after CUDA_VISIBLE_DEVICES. Neither fails, nor
   makes a context; with FACULA_NVML_BASED_CUDA_CHECK=1 the driver is not touched either, so that a later fork is
   harmless. */
FAC_API bool fac_cuda_is_available(void);
FAC_API int fac_cuda_device_count(void);
/* Why CUDA cannot be used, as a sentence, "" if it can. It starts the driver, but no device. Valid until the
   reason changes. */
FAC_API const char *fac_cuda_why_unavailable(void);
/* The newest CUDA that the driver supports, as 1000 * major + 10 * minor (12040 is 12.4), and whether the driver is the
   simulated one (FACULA_CUDA=sim:N); 0 and false without a driver. */
FAC_API int fac_cuda_driver_version(void);
FAC_API bool fac_cuda_is_simulated(void);

/* What a device is. Sizes in bytes. */
typedef struct fac_cuda_properties {
    char name[256];
    char uuid[48];    /* "GPU-8f5f5a0c-..." */
    char pci_id[16];  /* "0000:65:00.0" */
    int major, minor; /* of the compute capability */
    int64_t total_memory;
    int64_t l2_cache;
    int64_t shared_per_block, shared_per_block_optin, shared_per_multiprocessor;
    int multiprocessors;
    int warp_size;
    int max_threads_per_block, max_threads_per_multiprocessor;
    int registers_per_multiprocessor;
    bool integrated; /* shares the host's memory */
    bool ecc;
} fac_cuda_properties;
/* Reads them; no context is made. errors: DEVICE if the device is not there */
FAC_API FAC_MUST fac_status fac_cuda_get_properties(int device, fac_cuda_properties *out);

/* ---- peers ------------------------------------------------------------------------------------------------------- */

/* Whether kernels and copies of a device can reach the memory of another, directly. errors: DEVICE */
FAC_API FAC_MUST fac_status fac_cuda_can_access_peer(int device, int peer, bool *out_can);
/* Lets kernels of a device read and write the memory of a peer from now on. Copies between the two do so by themselves;
   operators still take tensors of one device only. errors: DEVICE; UNSUPPORTED if no link joins the devices */
FAC_API FAC_MUST fac_status fac_cuda_enable_peer_access(int device, int peer);
/* Whether that was done. */
FAC_API bool fac_cuda_peer_access_enabled(int device, int peer);

/* ---- errors of asynchronous work --------------------------------------------------------------------------------- */

/* Launches and copies return before the device has run them, so that a failure shows at a later call, whose error says
   so. An index out of range is INDEX and names the operator, and the device works on; after other failures its context
   is lost. With `on` every one is waited for, and the error names it. At start FACULA_CUDA_LAUNCH_BLOCKING=1 (or
   CUDA_LAUNCH_BLOCKING=1) turns it on. Process-wide; returns the former setting. */
FAC_API bool fac_cuda_set_launch_blocking(bool on);

/* ---- Fourier transforms ------------------------------------------------------------------------------------------ */

/* Transforms of CUDA tensors are cuFFT's, which is loaded when the first is called. What it prepares for a shape is a
   plan; each device keeps those that were used last, up to a maximum, 4096 at start. docs/cuda.md
   source: torch.backends.cuda.cufft_plan_cache */

/* How many plans a device keeps, and at most; 0 with an error for a device that is not there. */
FAC_API int64_t fac_cuda_fft_plan_cache_size(int device);
FAC_API int64_t fac_cuda_fft_plan_cache_max_size(int device);
/* Sets the maximum; what is then too much goes, the longest unused first. 0: every transform makes a plan of its own.
   Lasts until the process ends. errors: DEVICE; ARGUMENT if max is negative */
FAC_API FAC_MUST fac_status fac_cuda_fft_plan_cache_set_max_size(int device, int64_t max);
/* Drops the plans of a device, but for those that a call is using and those that a captured graph may use, which go at
   fac_shutdown. errors: DEVICE */
FAC_API FAC_MUST fac_status fac_cuda_fft_plan_cache_clear(int device);

/* ---- kernels of one's own ---------------------------------------------------------------------------------------- */

/* Compiled code: loaded on each device when a kernel of it is first launched there. */
typedef struct fac_cuda_module fac_cuda_module;
/* A kernel of a module, borrowed from it. */
typedef struct fac_cuda_function fac_cuda_function;

/* Takes an image: a fatbin, a cubin, PTX text (ending in a NUL), or an image for the simulator. It is not copied and
   must stay where it is until the module is released. NULL on failure.
   errors: ARGUMENT for NULL; what is wrong with the image shows at the first launch */
FAC_API fac_cuda_module *fac_cuda_module_load(const void *image);
/* Takes an image from a file, which is read at once. errors: IO; MEMORY */
FAC_API fac_cuda_module *fac_cuda_module_load_file(const char *path);
/* Compiles source text in the kernel dialect (CUDA C does too, where the devices are real) with NVRTC, or with the
   system's C compiler for the simulator; results are cached on disk. `name` is for messages. Compiled at once for the
   current device, for others when they first need it.
   errors: FORMAT with the compiler's messages; UNSUPPORTED without a compiler */
FAC_API fac_cuda_module *fac_cuda_module_compile(const char *source, const char *name);
/* Waits for the devices that run it and unloads it. NULL is allowed. */
FAC_API void fac_cuda_module_release(fac_cuda_module *m);
/* A kernel by name, borrowed from the module, the same for every call; NULL on failure. It is looked up in the image
   when it is first launched.
   errors: ARGUMENT; MEMORY */
FAC_API fac_cuda_function *fac_cuda_module_function(fac_cuda_module *m, const char *name);

/* An argument of a launch; made by the functions below. Plain data. */
typedef struct fac_cuda_arg {
    fac_tensor *tensor;
    const void *bytes; /* of a structure; must stay alive until the launch returns */
    uint64_t bits;     /* of a number or an address */
    uint32_t size;     /* in bytes */
    uint32_t role;     /* 0 value, 1 read, 2 written, 3 both */
} fac_cuda_arg;

/* A tensor that the kernel reads, writes, or both: the address of its first element is passed. The race checker relies
   on which it is. */
FAC_INLINE_ fac_cuda_arg fac_cuda_in(fac_tensor *t) {
    fac_cuda_arg a = {t, NULL, 0, 8, 1};
    return a;
}
FAC_INLINE_ fac_cuda_arg fac_cuda_out(fac_tensor *t) {
    fac_cuda_arg a = {t, NULL, 0, 8, 2};
    return a;
}
FAC_INLINE_ fac_cuda_arg fac_cuda_inout(fac_tensor *t) {
    fac_cuda_arg a = {t, NULL, 0, 8, 3};
    return a;
}
/* A number of the kernel's type. */
FAC_INLINE_ fac_cuda_arg fac_cuda_i32(int32_t x) {
    fac_cuda_arg a = {NULL, NULL, (uint32_t)x, 4, 0};
    return a;
}
FAC_INLINE_ fac_cuda_arg fac_cuda_i64(int64_t x) {
    fac_cuda_arg a = {NULL, NULL, (uint64_t)x, 8, 0};
    return a;
}
FAC_INLINE_ fac_cuda_arg fac_cuda_f32(float x) {
    fac_cuda_arg a = {NULL, NULL, 0, 4, 0};
    __builtin_memcpy(&a.bits, &x, sizeof x);
    return a;
}
FAC_INLINE_ fac_cuda_arg fac_cuda_f64(double x) {
    fac_cuda_arg a = {NULL, NULL, 0, 8, 0};
    __builtin_memcpy(&a.bits, &x, sizeof x);
    return a;
}
/* An address as it is, unknown to the race checker; and a structure by value. */
FAC_INLINE_ fac_cuda_arg fac_cuda_ptr(const void *p) {
    fac_cuda_arg a = {NULL, NULL, (uint64_t)(uintptr_t)p, 8, 0};
    return a;
}
FAC_INLINE_ fac_cuda_arg fac_cuda_struct(const void *p, size_t size) {
    fac_cuda_arg a = {NULL, p, 0, (uint32_t)size, 0};
    return a;
}

/* Blocks and threads per block in three dimensions (0 counts as 1), bytes of dynamic shared memory. */
typedef struct fac_cuda_config {
    unsigned grid[3], block[3];
    size_t shared;
} fac_cuda_config;
/* The common case: so many blocks of so many threads. */
FAC_INLINE_ fac_cuda_config fac_cuda_grid(unsigned blocks, unsigned threads) {
    fac_cuda_config c = {{blocks, 1, 1}, {threads, 1, 1}, 0};
    return c;
}
/* Queues a kernel on the current stream of the device that the tensors are on (with no tensor: of the current device)
   and returns at once. CPU tensors are legal if page-locked.
   errors: DEVICE for tensors of several devices whose peer access is off; ARGUMENT for arguments that differ from the
   kernel's parameters in number or size, and for a grid or block that the device cannot run; NOT_FOUND if the image
   lacks the kernel; FORMAT and UNSUPPORTED for an image that the device cannot run
   sync:   never waits, but in launch-blocking mode */
FAC_API FAC_MUST fac_status fac_cuda_launch(fac_cuda_function *f, fac_cuda_config config, const fac_cuda_arg *args,
                                            size_t n_args);
#ifndef __cplusplus
/* fac_cuda_run(f, config, fac_cuda_in(a), fac_cuda_out(b), fac_cuda_i64(n)) */
#define fac_cuda_run(f, config, ...)                                               \
    fac_cuda_launch((f), (config), ((const fac_cuda_arg[]){{0}, __VA_ARGS__}) + 1, \
                    sizeof((const fac_cuda_arg[]){{0}, __VA_ARGS__}) / sizeof(fac_cuda_arg) - 1)
#endif
/* A one-dimensional launch of at least n threads, in blocks of the size that keeps the device busiest; a kernel that
   has a loop over the grid needs no more blocks than fit (`loop`). errors: as of a launch */
FAC_API FAC_MUST fac_status fac_cuda_config_for(fac_cuda_function *f, int device, int64_t n, bool loop,
                                                fac_cuda_config *out);
/* How many blocks of `block` threads and `shared` bytes of dynamic shared memory a multiprocessor runs at once. */
FAC_API FAC_MUST fac_status fac_cuda_occupancy(fac_cuda_function *f, int device, int block, size_t shared,
                                               int *out_blocks);

#ifdef __cplusplus
}
#endif
#ifndef FACULA_BUILDING
#include <facula/cuda_macros.h>
#endif
#endif
