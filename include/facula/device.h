/* Accelerators: which devices there are, the current one, streams, events, and the table that a new kind of device
   fills in. Everything here is per thread where PyTorch's is: current device and current streams.
   source: the model is torch.cuda, and c10's DeviceGuardImplInterface for the table. */
#ifndef FACULA_DEVICE_H
#define FACULA_DEVICE_H

#include <facula/keywords.h>
#include <facula/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- devices ----------------------------------------------------------------------------------------------------- */

/* Devices of a kind that can be used: 1 for the CPU and meta, 0 if the kind has no back end, driver or hardware. Never
   an error, and nothing is started on any device. */
FAC_API int fac_device_count(fac_device_type type);
/* True if there is at least one. */
FAC_API bool fac_device_is_available(fac_device_type type);
/* The calling thread's current device of a kind: where an index-less device string points. UNSET with an error pending
   if there is none. */
FAC_API fac_device fac_current_device(fac_device_type type);
/* Makes d the current device of its kind for the calling thread. errors: DEVICE if it is not there */
FAC_API FAC_MUST fac_status fac_set_device(fac_device d);
/* Waits until all work queued on the device is done; reports what went wrong in it. Index -1: the current one. */
FAC_API FAC_MUST fac_status fac_synchronize(fac_device d);

/* The former device, to be put back. Plain data. */
typedef struct fac_device_scope {
    fac_device was; /* UNSET: nothing to put back */
} fac_device_scope;
/* Makes d current until fac_device_scope_end, which puts the former one back. Scopes nest. On failure an error is
   pending and nothing changes. UNSET and CPU devices are legal and change nothing. */
FAC_API fac_device_scope fac_device_scope_begin(fac_device d);
FAC_API void fac_device_scope_end(fac_device_scope *s);

/* ---- streams ----------------------------------------------------------------------------------------------------- */

/* A queue of work of one device: work in one stream runs in order, work in two may overlap. Plain data. All zero is
   "not given"; id 0 of a device is its default stream. */
typedef struct fac_stream {
    fac_device device;
    int64_t id;
} fac_stream;

/* The default stream of a device, and the calling thread's current one (at first the default). Index -1: of the current
   device. An unset stream with an error pending on failure. */
FAC_API fac_stream fac_default_stream(fac_device d);
FAC_API fac_stream fac_current_stream(fac_device d);
/* A stream from the device's pool, taken in turn; streams are never destroyed, so the 33rd is the first again. A lower
   priority number runs earlier: 0 is normal, -1 high. errors: DEVICE; ARGUMENT for a positive priority */
FAC_API fac_stream fac_stream_new(fac_device d, int priority);
/* Makes s the calling thread's current stream of its device; the current device stays. */
FAC_API FAC_MUST fac_status fac_set_stream(fac_stream s);
/* Wraps a queue that other code made (a CUstream; NULL: the default stream). It must outlive its use here.
   errors: DEVICE; ARGUMENT for what is no handle; UNSUPPORTED for kinds without streams */
FAC_API fac_stream fac_stream_wrap(fac_device d, void *handle);
/* The back end's own queue, such as the CUstream, borrowed; NULL is the default stream's on CUDA. */
FAC_API void *fac_stream_handle(fac_stream s);
/* True if both are the same stream of the same device. */
FAC_API bool fac_stream_equal(fac_stream a, fac_stream b);
/* Whether all work queued so far is done. */
FAC_API FAC_MUST fac_status fac_stream_query(fac_stream s, bool *out_done);
/* Waits for it on the host. */
FAC_API FAC_MUST fac_status fac_stream_synchronize(fac_stream s);

/* The former device and stream, to be put back. Plain data. */
typedef struct fac_stream_scope {
    fac_stream was; /* current on the stream's device */
    fac_device device_was;
} fac_stream_scope;
/* Makes s and its device current until fac_stream_scope_end, which puts back what was. An unset stream changes
   nothing. */
FAC_API fac_stream_scope fac_stream_scope_begin(fac_stream s);
FAC_API void fac_stream_scope_end(fac_stream_scope *s);

#if defined(__GNUC__)
/* A device is current until the enclosing block ends, however the block is left. */
#define FAC_DEVICE_SCOPE(name, device) \
    fac_device_scope name __attribute__((cleanup(fac_device_scope_end), unused)) = fac_device_scope_begin(device)
/* A stream is current until the enclosing block ends. */
#define FAC_STREAM_SCOPE(name, stream) \
    fac_stream_scope name __attribute__((cleanup(fac_stream_scope_end), unused)) = fac_stream_scope_begin(stream)
#endif

/* ---- events ------------------------------------------------------------------------------------------------------ */

/* A mark in a stream. */
typedef struct fac_event fac_event;
/* Makes an event for devices of a kind; the device is that of the first stream it is recorded in. With .enable_timing =
   true the time is noted too. NULL on failure. source: torch.Event */
FAC_API fac_event *fac_event_new(fac_device_type type, const fac_event_new_kw *kw);
/* Frees it. NULL is allowed. Work that waits for the event is not affected. */
FAC_API void fac_event_free(fac_event *e);
/* Marks the end of what is queued in s now; a later record replaces the mark. errors: DEVICE for another device */
FAC_API FAC_MUST fac_status fac_event_record(fac_event *e, fac_stream s);
/* Whether the marked work is done; an event never recorded is. */
FAC_API FAC_MUST fac_status fac_event_query(fac_event *e, bool *out_done);
/* Waits for it on the host. */
FAC_API FAC_MUST fac_status fac_event_synchronize(fac_event *e);
/* Milliseconds from `start` to `end`. errors: STATE if either was made without timing, is not recorded or not done */
FAC_API FAC_MUST fac_status fac_event_elapsed(fac_event *start, fac_event *end, double *out_ms);
/* Later work in s starts after the marked work is done. The event's stream may be of another device. */
FAC_API FAC_MUST fac_status fac_stream_wait_event(fac_stream s, fac_event *e);
/* Later work in s starts after what is queued in `other` now. */
FAC_API FAC_MUST fac_status fac_stream_wait_stream(fac_stream s, fac_stream other);
/* Says that t is used in s although it was made in another stream: its memory is not reused before what is queued in s
   when t is freed is done. CPU tensors: nothing.
   errors: DEVICE for a stream of another device than t's */
FAC_API FAC_MUST fac_status fac_record_stream(fac_tensor *t, fac_stream s);

/* ---- a new kind of device ---------------------------------------------------------------------------------------- */

/* What the library must know of a kind of device besides its kernels. `g` is the table itself; devices are indexes,
   streams ids. Functions may be called from any thread and set an error when they fail, unless said otherwise. Those
   marked (optional) may be NULL: then the kind has one stream per device, in which work is done when a call returns. */
typedef struct fac_device_guard {
    size_t size; /* sizeof(fac_device_guard) */
    fac_device_type type;
    void *context;
    /* Devices. `count` never fails. */
    int (*count)(const struct fac_device_guard *g);
    fac_status (*get_device)(const struct fac_device_guard *g, int *out_index);
    fac_status (*set_device)(const struct fac_device_guard *g, int index);
    /* Sets without a report, for destructors. */
    void (*set_device_unchecked)(const struct fac_device_guard *g, int index);
    fac_status (*synchronize)(const struct fac_device_guard *g, int index);
    /* Where storages of a device come from; called often. The device is not necessarily current. */
    const fac_allocator *(*allocator)(const struct fac_device_guard *g, int index);
    /* Page-locked host memory (optional), and whether an address lies in such (optional). */
    const fac_allocator *(*host_allocator)(const struct fac_device_guard *g);
    bool (*is_host_memory)(const struct fac_device_guard *g, const void *p);
    /* Copies bytes; either side is of this kind or the CPU. Ordered in the current stream; the host waits unless
       non_blocking is set and it is safe. */
    fac_status (*copy)(const struct fac_device_guard *g, fac_device to_device, void *to, fac_device from_device,
                       const void *from, int64_t bytes, bool non_blocking);
    /* Streams (optional, all or none). */
    fac_status (*get_stream)(const struct fac_device_guard *g, int index, int64_t *out_id);
    fac_status (*new_stream)(const struct fac_device_guard *g, int index, int priority, int64_t *out_id);
    fac_status (*wrap_stream)(const struct fac_device_guard *g, int index, void *handle, int64_t *out_id);
    fac_status (*exchange_stream)(const struct fac_device_guard *g, int index, int64_t id, int64_t *out_was);
    void *(*stream_handle)(const struct fac_device_guard *g, int index, int64_t id);
    fac_status (*query_stream)(const struct fac_device_guard *g, int index, int64_t id, bool *out_done);
    fac_status (*synchronize_stream)(const struct fac_device_guard *g, int index, int64_t id);
    /* Events (optional, all or none): *event is NULL before the first record, which makes it. */
    fac_status (*record_event)(const struct fac_device_guard *g, void **event, int index, int64_t id, bool timing);
    fac_status (*block_stream)(const struct fac_device_guard *g, void *event, int index, int64_t id);
    fac_status (*query_event)(const struct fac_device_guard *g, void *event, bool *out_done);
    fac_status (*synchronize_event)(const struct fac_device_guard *g, void *event);
    fac_status (*elapsed)(const struct fac_device_guard *g, void *start, void *end, double *out_ms);
    void (*destroy_event)(const struct fac_device_guard *g, void *event, int index);
    /* Tells the allocator that `data`, the start of a storage, is used in a stream (optional). */
    fac_status (*record_data)(const struct fac_device_guard *g, void *data, int index, int64_t id);
    /* Called first in each thread that the library starts to feed devices (optional). */
    void (*begin_thread)(const struct fac_device_guard *g);
} fac_device_guard;

/* Makes a kind of device known; `g` must stay valid. A second table for a kind, or one that lacks what is not optional,
   is an error. Kernels are registered as for any key, "PrivateUse1" and so on. `copy` moves bytes; walking strides and
   converting is `aten::copy_`'s work, which is registered like any kernel. fac_shutdown forgets the tables too. */
FAC_API FAC_MUST fac_status fac_register_device_guard(const fac_device_guard *g);
/* The table of a kind, NULL if it has none. */
FAC_API const fac_device_guard *fac_device_guard_of(fac_device_type type);

/* ---- pointwise operators on a new kind of device ----------------------------------------------------------------- */

/* A number in all guises: floating formulas read `real`, complex ones `imag` too, those of integers `integer`. */
typedef struct fac_pointwise_number {
    double real, imag;
    int64_t integer;
} fac_pointwise_number;

/* The elements of one tensor, or a number. */
typedef struct fac_pointwise_operand {
    void *data;             /* the first element; NULL: a number */
    const int64_t *strides; /* bytes to the next element, by dimension; an input's may be 0 */
    fac_dtype dtype;        /* of the elements */
    fac_pointwise_number number;
} fac_pointwise_operand;

/* What is to be computed: for every element, outputs = loop(inputs, numbers). Inputs are converted to `dtype` first;
   f16 and bf16 are computed in single precision. Everything lives until the function returns. */
typedef struct fac_pointwise_call {
    const char *op;   /* "add_"; the library puts it before the message of an error that `run` sets */
    const char *loop; /* the formula: "add", "add_alpha", "gelu_tanh"; src/ops/scalar/ of the sources has all */
    fac_device device;
    fac_dtype dtype;      /* of the inputs; where's first is FAC_BOOL */
    fac_dtype out_dtype;  /* of the results: FAC_BOOL of comparisons, real of complex magnitudes */
    int ndim;             /* at least 1; dimensions are merged where they can be */
    const int64_t *shape; /* fastest dimension first */
    int n_out, n_in, n_numbers;
    const fac_pointwise_operand *operands; /* the outputs, then the inputs */
    const fac_pointwise_number *numbers;
} fac_pointwise_call;

/* How a kind of device runs pointwise operators; broadcasting, promotion, outputs and gradients are the library's. */
typedef struct fac_pointwise_table {
    size_t size; /* sizeof(fac_pointwise_table) */
    fac_device_type type;
    void *context;
    /* Queues or does the work; sets an error for a loop or dtype that the kind has none of. */
    fac_status (*run)(const struct fac_pointwise_table *table, const fac_pointwise_call *call);
} fac_pointwise_table;

/* From now on every pointwise operator that has no kernel of its own for the kind runs through the table, which must
   stay valid. fac_shutdown forgets it.
   errors: ARGUMENT for a table of another size, without `run`, or for CPU, CUDA or meta; STATE for a second one */
FAC_API FAC_MUST fac_status fac_register_pointwise(const fac_pointwise_table *table);

#ifdef __cplusplus
}
#endif
#include <facula/device_macros.h>
#endif
