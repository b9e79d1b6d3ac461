/* Memory of accelerators: what the caching allocator holds, its options, and looking into it; page-locked host memory;
   and the same cache for devices of other kinds. docs/cuda-memory.md tells how to read what is here.
   A device is an index; -1 is the calling thread's current one. Functions that read set an error and give zeros or NULL
   for a device that is not there; for one that was not used yet they give zeros and start nothing.
   source: torch.cuda.memory */
#ifndef FACULA_CUDA_MEMORY_H
#define FACULA_CUDA_MEMORY_H

#include <facula/device.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- how much is used -------------------------------------------------------------------------------------------- */

/* Bytes in use by tensors, after rounding, and held by the allocator for them and for reuse; now, and at most since the
   start or the last fac_cuda_reset_peak_memory_stats. */
FAC_API int64_t fac_cuda_memory_allocated(int device);
FAC_API int64_t fac_cuda_max_memory_allocated(int device);
FAC_API int64_t fac_cuda_memory_reserved(int device);
FAC_API int64_t fac_cuda_max_memory_reserved(int device);
/* Free and total bytes of the device as its driver counts them, over all processes. */
FAC_API FAC_MUST fac_status fac_cuda_mem_get_info(int device, int64_t *out_free, int64_t *out_total);
/* Gives everything back to the driver that no tensor uses, on all devices. Memory in use stays where it is.
   errors: STATE while a stream of the device is captured */
FAC_API FAC_MUST fac_status fac_cuda_empty_cache(void);

/* One counted quantity: its value, the highest since the last reset, and the sums of all increases and decreases. */
typedef struct fac_memory_stat {
    int64_t current, peak, allocated, freed;
} fac_memory_stat;
/* One quantity for both pools together, for requests over 1 MiB, and for those up to it. */
typedef struct fac_memory_stat_by_pool {
    fac_memory_stat all, large_pool, small_pool;
} fac_memory_stat_by_pool;
/* All that the allocator of a device counts. */
typedef struct fac_cuda_memory_stats {
    fac_memory_stat_by_pool allocation;      /* blocks in the hands of users */
    fac_memory_stat_by_pool segment;         /* pieces got from the driver */
    fac_memory_stat_by_pool active;          /* blocks in use, or freed and waiting for other streams */
    fac_memory_stat_by_pool inactive_split;  /* free parts of segments that are otherwise in use */
    fac_memory_stat_by_pool allocated_bytes; /* bytes of each of these */
    fac_memory_stat_by_pool reserved_bytes;  /* of segments */
    fac_memory_stat_by_pool active_bytes;
    fac_memory_stat_by_pool inactive_split_bytes;
    fac_memory_stat_by_pool requested_bytes; /* before rounding */
    fac_memory_stat oversize_allocations;    /* of at least max_split_size */
    fac_memory_stat oversize_segments;
    int64_t num_alloc_retries;    /* the driver refused, the cache was emptied, and it was asked again */
    int64_t num_ooms;             /* out-of-memory errors given to users */
    int64_t num_sync_all_streams; /* waits for every pending free */
    int64_t num_device_alloc;     /* calls of the driver that got memory, and that gave it back */
    int64_t num_device_free;
    int64_t num_oom_rejections; /* refused without asking the driver (throw_on_cudamalloc_oom) */
    int64_t max_split_size;     /* as configured; -1 without a limit */
} fac_cuda_memory_stats;
/* Reads all counters of a device. With backend:cudaMallocAsync only allocation, allocated_bytes, requested_bytes,
   active*, reserved_bytes, num_ooms and num_device_* mean something; the rest is 0. */
FAC_API FAC_MUST fac_status fac_cuda_get_memory_stats(int device, fac_cuda_memory_stats *out);
/* One counter by PyTorch's name, such as "allocated_bytes.all.current" or "num_ooms". errors: NOT_FOUND */
FAC_API int64_t fac_cuda_memory_stat(int device, const char *name);
/* The names that fac_cuda_memory_stat knows, by number from 0; NULL after the last. */
FAC_API const char *fac_cuda_memory_stat_name(int i);
/* Sets peaks to the present values; sets the sums of increases and decreases and the counts of events to zero. */
FAC_API FAC_MUST fac_status fac_cuda_reset_peak_memory_stats(int device);
FAC_API FAC_MUST fac_status fac_cuda_reset_accumulated_memory_stats(int device);
/* A table of the counters for people; .abbreviated = true leaves out the rows per pool. To be freed with
   fac_string_free.
   source: torch.cuda.memory_summary */
FAC_API char *fac_cuda_memory_summary(int device, const fac_cuda_memory_summary_kw *kw);

/* ---- options ----------------------------------------------------------------------------------------------------- */

/* "native" or "cudaMallocAsync"; chosen at start. */
FAC_API const char *fac_cuda_allocator_backend(void);
/* The options in force as text, and new ones over the defaults, in the grammar of FACULA_CUDA_ALLOC_CONF
   ("max_split_size_mb:128,expandable_segments:True"). What is allocated already stays as it is. The text that is
   returned is to be freed with fac_string_free.
   errors: ARGUMENT names the option that is unknown or has a bad value, and then nothing changes; STATE for another
   back end */
FAC_API char *fac_cuda_allocator_settings(void);
FAC_API FAC_MUST fac_status fac_cuda_set_allocator_settings(const char *settings);
/* The share of a device's memory, 0 to 1, that this process may reserve. errors: ARGUMENT */
FAC_API FAC_MUST fac_status fac_cuda_set_per_process_memory_fraction(double fraction, int device);
FAC_API double fac_cuda_get_per_process_memory_fraction(int device);

/* ---- raw blocks -------------------------------------------------------------------------------------------------- */

/* Memory from the cache for other code, for use in stream s (unset: the current one of `device`); NULL on failure. To
   be given back with fac_cuda_caching_allocator_delete, from any thread; NULL is allowed there. */
FAC_API void *fac_cuda_caching_allocator_alloc(int64_t bytes, int device, fac_stream s);
FAC_API void fac_cuda_caching_allocator_delete(void *p);

/* ---- looking into it --------------------------------------------------------------------------------------------- */

/* What is written down while a program runs. Each includes those before it. */
typedef enum fac_memory_history {
    FAC_HISTORY_OFF = 0,
    FAC_HISTORY_STATE, /* the call stack of each live block */
    FAC_HISTORY_ALLOC, /* events in order, those that allocate with call stacks */
    FAC_HISTORY_ALL    /* call stacks of every event */
} fac_memory_history;
/* Starts or stops writing down, on all devices. `max_entries` events are kept per device, the latest ones (0: 100000).
   Stopping forgets the events. */
FAC_API FAC_MUST fac_status fac_cuda_record_memory_history(fac_memory_history what, int64_t max_entries);
/* A text that goes with each block that the calling thread allocates from now on, while history is recorded. Copied.
   NULL: none. */
FAC_API FAC_MUST fac_status fac_cuda_set_memory_metadata(const char *text);
/* Puts a named mark among the events. */
FAC_API FAC_MUST fac_status fac_cuda_memory_annotate(const char *name);

/* Return addresses, innermost first, and the text that went with them ("" if none). */
typedef struct fac_memory_stack {
    void *const *frames;
    int n_frames;
    const char *metadata;
} fac_memory_stack;
/* Whether a block is free, freed by its user but waiting for other streams, or in use. */
typedef enum fac_memory_block_state {
    FAC_BLOCK_INACTIVE,
    FAC_BLOCK_ACTIVE_PENDING_FREE,
    FAC_BLOCK_ACTIVE_ALLOCATED
} fac_memory_block_state;
/* A part of a segment. */
typedef struct fac_memory_block {
    uint64_t address;
    int64_t size, requested_size; /* requested_size is 0 for inactive ones */
    fac_memory_block_state state;
    fac_memory_stack stack;
} fac_memory_block;
/* A piece of memory that the driver gave, or the mapped part of an expandable one. Its blocks follow each other without
   gaps. */
typedef struct fac_memory_segment {
    int device;
    uint64_t address;
    int64_t total_size, allocated_size, active_size, requested_size;
    int64_t stream; /* id of the stream in whose pool it is */
    bool large;     /* for requests over 1 MiB */
    bool is_expandable;
    int64_t pool_id[2]; /* 0, 0: the common pool; else that of a graph */
    fac_memory_block *blocks;
    size_t n_blocks;
    fac_memory_stack stack;
} fac_memory_segment;
/* What happened; the names that viewers know are the same in small letters. */
typedef enum fac_memory_action {
    FAC_MEMORY_ALLOC,
    FAC_MEMORY_FREE_REQUESTED,
    FAC_MEMORY_FREE_COMPLETED,
    FAC_MEMORY_SEGMENT_ALLOC,
    FAC_MEMORY_SEGMENT_FREE,
    FAC_MEMORY_SEGMENT_MAP,
    FAC_MEMORY_SEGMENT_UNMAP,
    FAC_MEMORY_SNAPSHOT,
    FAC_MEMORY_OOM
} fac_memory_action;
/* An event of the history. */
typedef struct fac_memory_event {
    fac_memory_action action;
    int device;
    uint64_t address; /* OOM: free bytes of the device */
    int64_t size, stream;
    int64_t time_us; /* since 1970 */
    fac_memory_stack stack;
} fac_memory_event;
/* A mark set by fac_cuda_memory_annotate. */
typedef struct fac_memory_annotation {
    const char *name;
    int64_t time_us;
} fac_memory_annotation;
/* The state of all devices at one moment (of each device: they are read one after the other). */
typedef struct fac_memory_snapshot {
    fac_memory_segment *segments;
    size_t n_segments;
    fac_memory_event *events; /* by device, in order of time */
    size_t n_events;
    fac_memory_annotation *annotations;
    size_t n_annotations;
    int n_devices;
    char *settings; /* the text of the options */
} fac_memory_snapshot;
/* Takes a snapshot, to be freed with fac_memory_snapshot_free; NULL on failure. */
FAC_API fac_memory_snapshot *fac_cuda_memory_snapshot(void);
FAC_API void fac_memory_snapshot_free(fac_memory_snapshot *s);
/* The snapshot as JSON, to be freed with fac_string_free; NULL on failure. */
FAC_API char *fac_memory_snapshot_json(const fac_memory_snapshot *s);
/* Writes a snapshot of all devices to a file that PyTorch's memory viewer opens (a pickle), or to JSON if the name ends
   so.
   errors: IO */
FAC_API FAC_MUST fac_status fac_cuda_dump_snapshot(const char *path);

/* Called, with no lock held and on the allocating thread, when an allocation fails for want of memory, before its error
   is set; may free tensors of its own, but the request is not tried again. All in bytes; device_total and device_free
   are 0 if not known. */
typedef void (*fac_memory_oom_observer)(void *context, int device, int64_t asked, int64_t device_total,
                                        int64_t device_free);
/* Called for each event, with no lock held, on the thread that caused it. */
typedef void (*fac_memory_tracker)(void *context, const fac_memory_event *e);
/* Called when the cache has no block and before the driver is asked: frees what it can and says whether it freed
   anything. */
typedef bool (*fac_memory_callback)(void *context, int device);
/* Each is told until it is detached with the same arguments. At most 8 of a kind. Rejection observers hear of requests
   that were refused without asking the driver. A detached function may still be running on another thread.
   errors: STATE when there are too many */
FAC_API FAC_MUST fac_status fac_cuda_attach_oom_observer(fac_memory_oom_observer fn, void *context);
FAC_API FAC_MUST fac_status fac_cuda_attach_rejection_observer(fac_memory_oom_observer fn, void *context);
FAC_API FAC_MUST fac_status fac_cuda_attach_memory_tracker(fac_memory_tracker fn, void *context);
FAC_API FAC_MUST fac_status fac_cuda_attach_free_memory_callback(fac_memory_callback fn, void *context);
/* Detaching what is not attached does nothing. */
FAC_API void fac_cuda_detach_oom_observer(fac_memory_oom_observer fn, void *context);
FAC_API void fac_cuda_detach_rejection_observer(fac_memory_oom_observer fn, void *context);
FAC_API void fac_cuda_detach_memory_tracker(fac_memory_tracker fn, void *context);
FAC_API void fac_cuda_detach_free_memory_callback(fac_memory_callback fn, void *context);

/* ---- page-locked host memory ------------------------------------------------------------------------------------- */

/* What the cache of page-locked memory counts. Times are in microseconds. */
typedef struct fac_cuda_host_memory_stats {
    fac_memory_stat allocation, allocated_bytes;   /* blocks in the hands of users, or still read by copies */
    fac_memory_stat segment, reserved_bytes;       /* blocks got from the system */
    fac_memory_stat active_requests, active_bytes; /* requests in the hands of users, by the bytes asked for */
    int64_t num_host_alloc, num_host_free;         /* calls of the driver */
    int64_t host_alloc_time_us, host_alloc_time_max_us, host_free_time_us, host_free_time_max_us;
} fac_cuda_host_memory_stats;
/* Reads them; never fails. */
FAC_API fac_cuda_host_memory_stats fac_cuda_get_host_memory_stats(void);
/* Sets the peaks to what is current, and the sums to zero, as fac_cuda_reset_peak_memory_stats does for devices. */
FAC_API void fac_cuda_reset_peak_host_memory_stats(void);
FAC_API void fac_cuda_reset_accumulated_host_memory_stats(void);
/* Gives every page-locked block that is not in use back to the system. */
FAC_API FAC_MUST fac_status fac_cuda_host_empty_cache(void);

/* ---- the cache for other devices --------------------------------------------------------------------------------- */

/* Where a caching allocator gets memory. Only `alloc` and `free` are needed. Without streams a freed block is reused at
   once; without virtual memory expandable_segments is refused. All may be called from any thread, with the cache's lock
   held: they must not allocate from it. Failing functions set an error. */
typedef struct fac_memory_source {
    size_t size;      /* sizeof(fac_memory_source) */
    const char *name; /* of the kind of device, for messages */
    void *context;
    /* Memory on a device, aligned to 512 bytes, for blocks of a stream (0 without streams); FAC_OK with NULL in *out
       when there is not enough. `free` waits for work that still uses it, or frees in the order of the stream. */
    fac_status (*alloc)(const struct fac_memory_source *s, int device, int64_t bytes, int64_t stream, void **out);
    void (*free)(const struct fac_memory_source *s, int device, void *p, int64_t bytes, int64_t stream);
    /* Gives up what the source itself keeps for reuse (optional). */
    void (*trim)(const struct fac_memory_source *s, int device);
    /* Free and total bytes (optional: limits by share are refused without). */
    fac_status (*info)(const struct fac_memory_source *s, int device, int64_t *out_free, int64_t *out_total);
    /* Streams (optional, all or none): the calling thread's current one; marks (*event is NULL at first, which makes
       it; it is used again after `drop`); and waiting for all of a stream. */
    int64_t (*stream)(const struct fac_memory_source *s, int device);
    fac_status (*record)(const struct fac_memory_source *s, int device, int64_t stream, void **event);
    fac_status (*query)(const struct fac_memory_source *s, int device, void *event, bool *out_done);
    fac_status (*wait)(const struct fac_memory_source *s, int device, void *event);
    void (*drop)(const struct fac_memory_source *s, int device, void *event);
    fac_status (*synchronize)(const struct fac_memory_source *s, int device, int64_t stream);
    /* Id of the capture that a stream is part of, 0 if none (optional). */
    uint64_t (*capture)(const struct fac_memory_source *s, int device, int64_t stream);
    /* Marks a point in a captured stream, and tells whether all later work of a stream comes after it (optional, both
       or none): for graph_capture_record_stream_reuse. */
    fac_status (*mark)(const struct fac_memory_source *s, int device, int64_t stream, void **out_mark);
    bool (*passed)(const struct fac_memory_source *s, int device, int64_t stream, void *mark);
    /* Virtual memory in multiples of 2 MiB (optional, all or none): a range of addresses, and memory behind part of it.
       Each range is unmapped as it was mapped. `map` gives FAC_OK and false in *out_mapped when there is not enough
       memory. */
    fac_status (*reserve)(const struct fac_memory_source *s, int device, int64_t bytes, void **out);
    void (*unreserve)(const struct fac_memory_source *s, int device, void *p, int64_t bytes);
    fac_status (*map)(const struct fac_memory_source *s, int device, void *p, int64_t bytes, bool *out_mapped);
    void (*unmap)(const struct fac_memory_source *s, int device, void *p, int64_t bytes);
    /* Fills memory with a byte, in stream order (optional): for poisoned freed blocks. */
    fac_status (*fill)(const struct fac_memory_source *s, int device, void *p, int value, int64_t bytes,
                       int64_t stream);
    /* Says, in stream order, whether bytes may be touched (optional): for sanitizers. */
    void (*guard)(const struct fac_memory_source *s, int device, void *p, int64_t bytes, bool usable, int64_t stream);
    /* Takes an option that the parser does not know (optional); `value` is its text. errors: ARGUMENT refuses it */
    fac_status (*option)(const struct fac_memory_source *s, const char *key, const char *value);
} fac_memory_source;

/* A caching allocator of one device over any source, with the behaviour and options of CUDA's. */
typedef struct fac_caching_allocator fac_caching_allocator;
/* Makes one; `source` is copied, its context must stay valid. `settings` as in FACULA_CUDA_ALLOC_CONF, NULL for
   defaults; pinned_* options are checked and have no effect. NULL on failure. */
FAC_API fac_caching_allocator *fac_caching_allocator_new(const fac_memory_source *source, int device,
                                                         const char *settings);
/* Gives all memory back and frees it: nothing that came from it may be in use. NULL is allowed. */
FAC_API void fac_caching_allocator_free(fac_caching_allocator *a);
/* The allocator to be used for storages, such as a fac_device_guard gives; it lives as long as `a`. */
FAC_API const fac_allocator *fac_caching_allocator_face(fac_caching_allocator *a);
/* Says that the block that begins at p is used in a stream other than that which allocated it. Other addresses:
   nothing. */
FAC_API FAC_MUST fac_status fac_caching_allocator_record_stream(fac_caching_allocator *a, void *p, int64_t stream);
/* As fac_cuda_empty_cache and fac_cuda_get_memory_stats, for this allocator. */
FAC_API FAC_MUST fac_status fac_caching_allocator_empty_cache(fac_caching_allocator *a);
FAC_API fac_cuda_memory_stats fac_caching_allocator_stats(fac_caching_allocator *a);

#ifdef __cplusplus
}
#endif
#include <facula/cuda_memory_macros.h>
#endif
