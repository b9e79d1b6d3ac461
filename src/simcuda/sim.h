/* What the files of the simulated driver share. One lock guards all state; it is dropped while queued work runs, so
   that host functions may wait for other threads. Every queued piece of work is an op; streams, events and graph
   launches are nothing but edges between ops, so that any order that the edges allow may be chosen. */
#ifndef FAC_SRC_SIMCUDA_SIM_H
#define FAC_SRC_SIMCUDA_SIM_H

#include "cuda_abi/entries.h"
#include "simcuda/exec.h"
#include "simcuda/simcuda.h"
#include <pthread.h>
#include <stdbool.h>

#define SIM_MAX_DEVICES 64
#define SIM_VERSION 12040 /* what cuDriverGetVersion says */
#define SIM_PAGE ((size_t)4096)
#define SIM_GRANULARITY ((size_t)2 << 20) /* of virtual memory management */
#define SIM_QUEUE_LIMIT 4096              /* ops that may be pending before enqueueing runs some */

#define SIM_DECLARE(name, symbol, version, need, parameters) SIM_API CUresult symbol parameters;
FAC_CU_ENTRIES(SIM_DECLARE)
#undef SIM_DECLARE

/* ---- options ----------------------------------------------------------------------------------------------------- */

typedef struct sim_options {
    int devices;
    size_t memory; /* bytes of each device */
    int multiprocessors;
    uint64_t seed; /* 0: work runs in the order in which it was queued */
    int threads;   /* 0: lazily on the threads that wait; else so many workers */
    bool trap;     /* the host cannot touch device memory */
    bool peers;    /* devices may be allowed to touch each other's memory */
    bool fill;     /* new memory is full of 0xFF bytes */
    int64_t oom;   /* the n-th device allocation from now on fails; 0: none */
    int64_t fail;  /* the n-th launch from now on is refused */
    int64_t fault; /* the n-th kernel that runs from now on faults */
    int64_t cufft; /* the result code of the next call that makes a plan of cuFFT; 0: none asked for */
    int64_t delay; /* microseconds: each op is preceded by a random pause of up to so long */
} sim_options;
extern sim_options sim_opt;
/* Reads "name=value,name,..."; false with a sentence in sim_option_error for what it does not know. */
bool sim_options_parse(const char *text);
extern char sim_option_error[256];
/* Reads FACULA_CUDA once; fails in the same way. */
bool sim_options_start(void);

/* ---- entering, failing, objects ---------------------------------------------------------------------------------- */

void sim_lock(void);
void sim_unlock(void);
pthread_mutex_t *sim_mutex(void); /* for waiting on conditions */

enum {
    SIM_INITIALISED = 0,
    SIM_CURRENT = 1, /* a current context that has not faulted */
    SIM_UNSAFE = 2   /* not while a stream is captured that the calling thread's mode protects */
};
typedef struct sim_guard {
    bool locked;
} sim_guard;
CUresult sim_enter(sim_guard *g, const char *name, int needs);
void sim_leave(sim_guard *g);
/* Takes the lock for the rest of the entry, or returns the reason why it may not run. */
#define SIM_ENTER(needs)                                            \
    sim_guard sim_guard_ __attribute__((cleanup(sim_leave))) = {0}; \
    do {                                                            \
        CUresult sim_r_ = sim_enter(&sim_guard_, __func__, needs);  \
        if (sim_r_) return sim_r_;                                  \
    } while (0)
/* Remembers a sentence for cuGetErrorString and returns r. */
CUresult sim_refuse(CUresult r, const char *format, ...) __attribute__((format(printf, 2, 3)));
#define SIM_CHECK(condition, code, ...)                           \
    do {                                                          \
        if (!(condition)) return sim_refuse((code), __VA_ARGS__); \
    } while (0)
#define SIM_TRY(expression)                            \
    do {                                               \
        CUresult sim_try_ = (expression);              \
        if (sim_try_ != CUDA_SUCCESS) return sim_try_; \
    } while (0)
/* Gives the last failure's sentence to another code. */
CUresult sim_recode(CUresult r);
/* The sentence of the thread's last failure with that code, or "". */
const char *sim_detail(CUresult r);

typedef enum sim_type {
    SIM_STREAM,
    SIM_EVENT,
    SIM_MODULE,
    SIM_LIBRARY,
    SIM_FUNCTION,
    SIM_GRAPH,
    SIM_NODE,
    SIM_EXEC,
    SIM_POOL,
    SIM_HANDLE,
    SIM_TYPES
} sim_type;

/* Every handle that callers get begins with this; live ones are in a table, so that a stale handle is told from a good
   one without being read. */
typedef struct sim_object {
    sim_type type;
    struct sim_object *next;
} sim_object;
void *sim_object_new(sim_type type, size_t bytes);
void sim_object_free(void *object);
bool sim_object_is(const void *object, sim_type type);
/* Some live object of a type (that is wanted, unless NULL), or NULL. */
void *sim_object_any(sim_type type, bool (*wanted)(const void *object));
extern int64_t sim_object_live[SIM_TYPES];

/* calloc that does not come back without memory: the simulator is a tool for tests. */
void *sim_new(size_t n, size_t size);
/* Room for one more in a malloc'd array. */
void sim_grow(void *array, size_t n, size_t *capacity, size_t size);

/* A number in [0, n) from the seeded generator. */
uint64_t sim_random(uint64_t n);
void sim_random_seed(uint64_t seed);

/* ---- devices ----------------------------------------------------------------------------------------------------- */

typedef struct sim_op sim_op;
typedef struct CUstream_st sim_stream;

/* A device is its own primary context: a CUcontext points to it. */
typedef struct CUctx_st {
    int index, physical; /* as callers count, and before CUDA_VISIBLE_DEVICES */
    int retained;
    size_t used;    /* bytes taken from the device's memory */
    uint64_t peers; /* bit i: may touch the memory of device i */
    CUresult fault; /* sticky */
    char fault_text[512];
    sim_stream *legacy;
    sim_stream *streams; /* all others, linked by next_stream */
    size_t n_orphans;    /* tails of destroyed streams that are not done */
    CUmemoryPool default_pool, pool;
    char *base, *next; /* the reserved range of addresses, and where to look for room first */
    size_t range;
} sim_device;
extern sim_device sim_devices[SIM_MAX_DEVICES];
extern int sim_n_devices;
extern _Thread_local sim_device *sim_current;
/* Puts the devices that CUDA_VISIBLE_DEVICES shows into the table. */
CUresult sim_devices_start(void);
void sim_devices_stop(void);
/* May code of device d touch memory of device `owner`? */
bool sim_can_access(const sim_device *d, int owner);

/* ---- memory ------------------------------------------------------------------------------------------------------ */

typedef enum sim_memory {
    SIM_MEMORY_DEVICE,     /* cuMemAlloc */
    SIM_MEMORY_POOL,       /* cuMemAllocAsync */
    SIM_MEMORY_VIRTUAL,    /* mapped by cuMemMap */
    SIM_MEMORY_HOST,       /* cuMemHostAlloc */
    SIM_MEMORY_REGISTERED, /* cuMemHostRegister */
    SIM_MEMORY_GLOBAL      /* __device__ variable of an image */
} sim_memory;

typedef struct sim_block {
    char *start;
    size_t bytes; /* asked for */
    size_t pages; /* bytes of whole pages from page_start on */
    char *page_start;
    size_t charged; /* taken from the device's memory */
    sim_memory kind;
    int device; /* owner; -1 for host memory and globals */
    unsigned flags;
    uint64_t id;
    bool pending, doomed; /* stream-ordered: not yet allocated, or its free is queued */
    CUmemoryPool pool;
    uint64_t readable, writable; /* virtual memory: bit i for device i */
} sim_block;

/* The live block that holds p, or NULL. */
sim_block *sim_block_at(const void *p);
/* Checks that [p, p + bytes) is memory that device d may touch in a copy, a fill or a launch. Device memory of other
   devices is fine if `any_device`. Host memory that is not page-locked is fine if `pageable`. */
CUresult sim_check_range(const sim_device *d, const void *p, size_t bytes, bool write, bool any_device, bool pageable,
                         const char *what);
bool sim_is_pinned(const void *p);
/* Says what an address is: which block it lies in or near, live or freed. */
void sim_explain(const void *p, char *text, size_t size);
/* Room for a block on a device, charged; NULL with *r set. */
sim_block *sim_block_new(sim_device *d, size_t bytes, sim_memory kind, size_t charged, CUresult *r);
void sim_block_release(sim_block *b);
sim_block *sim_block_add(sim_block b);
void sim_block_remove(sim_block *b);
void sim_memory_stop(void);
/* True if an injected failure is due. */
bool sim_oom_due(void);
/* Pages that nobody may touch yet, past sanitizers, which would note every one; NULL on failure. */
void *sim_map(void *at, size_t bytes, int flags, int file);
/* Lets the pages of a block be touched, or not. */
void sim_block_open(const sim_block *b, bool open);
/* Around work that runs on a device: with `trap`, memory is out of the host's reach in between. Called with the lock.
   */
void sim_memory_acquire(void);
void sim_memory_yield(void);
void sim_trap_start(void);
void sim_trap_stop(void);
bool sim_on_device(const sim_block *b);
void sim_each_block(void (*visit)(const sim_block *b, bool yes), bool yes);
/* Mapped or reserved by virtual memory management, for messages; see virtual.c. */
bool sim_virtual_explain(const void *p, char *text, size_t size);
void sim_virtual_stop(void);
/* Bytes that pools of a device hold without use, and their release down to the thresholds. */
void sim_pools_trim(sim_device *d, bool all);
/* Notes that a pool's memory in use changed. */
void sim_pool_used(CUmemoryPool pool, int64_t bytes);
void sim_pools_stop(void);
/* May device d touch blocks of a pool? */
bool sim_pool_can_access(CUmemoryPool pool, const sim_device *d);
/* A stream-ordered allocation or free comes to its turn. */
int sim_pool_begin(char *p, char *message, size_t size);
int sim_pool_end(char *p, char *message, size_t size);

int64_t sim_memory_count(const char *name);
int64_t sim_work_count(const char *name);
int64_t sim_code_count(const char *name);

/* ---- work -------------------------------------------------------------------------------------------------------- */

typedef enum sim_kind {
    SIM_OP_MARK, /* nothing: an event, a join, the ends of a graph */
    SIM_OP_KERNEL,
    SIM_OP_COPY,
    SIM_OP_SET,
    SIM_OP_HOST,
    SIM_OP_ALLOC,
    SIM_OP_FREE,
    SIM_OP_RECORD, /* in graphs only, as are the next two */
    SIM_OP_WAIT,
    SIM_OP_CHILD
} sim_kind;

typedef struct sim_rows { /* depth planes of height rows of width bytes */
    char *to;
    const char *from;
    size_t width, height, depth, to_pitch, from_pitch, to_plane, from_plane;
    bool to_host, from_host; /* pageable: not checked against the table */
} sim_rows;

typedef struct CUfunc_st sim_function;

/* What an op or a graph's node does. Owns `payload`: a kernel's arguments, or staged bytes. */
typedef struct sim_spec {
    sim_kind kind;
    sim_device *device;
    struct {
        sim_function *function;
        const sim_kernel *code;
        unsigned grid[3], block[3], shared;
    } kernel;
    sim_rows copy;
    struct {
        char *to;
        unsigned value, element;
        size_t width, height, pitch;
    } set;
    struct {
        CUhostFn function;
        void *data;
    } host;
    char *pointer; /* ALLOC and FREE */
    CUevent event;
    CUgraph child;
    void *payload;
    size_t payload_bytes;
} sim_spec;
void sim_spec_copy(sim_spec *to, const sim_spec *from);
void sim_spec_clear(sim_spec *s);
/* Checks that the memory of a spec may be touched now. */
CUresult sim_spec_check(const sim_spec *s);
/* The rows that a copy of three dimensions describes. */
CUresult sim_rows_of_3d(const CUDA_MEMCPY3D *c, sim_rows *out, const char *name);
CUresult sim_set_check(const sim_device *d, const sim_spec *s, const char *name);
/* The work itself, without the lock. */
int sim_spec_run(const sim_spec *s, uint64_t seed, char *message, size_t size);

struct sim_op {
    int refs;
    sim_spec spec;
    uint64_t sequence, seed;
    enum { SIM_WAITING, SIM_READY, SIM_RUNNING, SIM_DONE } state;
    unsigned pending; /* how many of deps are not done, and one until it is submitted */
    sim_op **deps, **dependents;
    size_t n_deps, cap_deps, n_dependents, cap_dependents;
    double time; /* when done, in milliseconds */
    bool orphan; /* the last of a stream that was destroyed */
    uint64_t visit;
};
/* A new op with one reference. It takes the spec over. */
sim_op *sim_op_new(const sim_spec *spec);
/* `op` starts after `before`, which may be NULL or done. */
void sim_op_after(sim_op *op, sim_op *before);
/* Lets it run once what it waits for is done. */
void sim_op_submit(sim_op *op);
sim_op *sim_op_keep(sim_op *op);
void sim_op_drop(sim_op *op);
static inline bool sim_op_done(const sim_op *op) { return !op || op->state == SIM_DONE; }
/* Whether it is done, for a caller who will build on that. */
bool sim_op_seen(sim_op *op);
/* Waits until it is done; drops the lock meanwhile. */
void sim_op_wait(sim_op *op);
/* Runs a little, so that a loop of queries comes to an end. */
void sim_progress(void);
/* Waits for all work of a device, or of all if NULL. */
void sim_drain(sim_device *d);
void sim_work_start(void);
void sim_work_stop(void);
/* True on a thread that runs a host function. */
extern _Thread_local bool sim_in_host_function;

/* ---- streams, events, capture ------------------------------------------------------------------------------------ */

typedef struct sim_capture sim_capture;

struct CUstream_st {
    sim_object head;
    sim_device *device;
    unsigned flags;
    int priority;
    uint64_t id;
    bool legacy;
    sim_op *tail;
    sim_stream *next_stream;
    sim_capture *capture; /* NULL unless it is being captured */
    CUgraphNode *nodes;   /* what the next captured node depends on */
    size_t n_nodes, cap_nodes;
};

struct CUevent_st {
    sim_object head;
    sim_device *device;
    unsigned flags;
    sim_op *op;       /* the last record, or NULL */
    uint64_t capture; /* id of the capture in which it was last recorded, or 0 */
    CUgraphNode *nodes;
    size_t n_nodes;
};

/* The stream behind a handle, NULL being the current device's legacy stream. */
CUresult sim_stream_of(CUstream handle, sim_stream **out);
/* Queues a spec in a stream, or adds it to the graph if the stream is captured. Takes the spec over. */
CUresult sim_enqueue(sim_stream *s, sim_spec *spec);
/* Makes op the stream's last, after what the stream and the legacy default stream imply; it is yet to be submitted.
   Takes the reference over. */
void sim_append(sim_stream *s, sim_op *op);
/* Waits for a stream. */
void sim_stream_wait(sim_stream *s);
void sim_streams_stop(sim_device *d);
void sim_events_stop(void);

struct sim_capture {
    uint64_t id;
    CUgraph graph;
    sim_stream *origin;
    CUstreamCaptureMode mode;
    uint64_t thread;
    bool invalid;
    sim_capture *next;
};
extern sim_capture *sim_captures;
CUresult sim_capture_add(sim_stream *s, sim_spec *spec);
CUresult sim_capture_record(CUevent e, sim_stream *s);
CUresult sim_capture_wait(sim_stream *s, CUevent e);
/* True if the event was last recorded in a capture. */
bool sim_capture_is_event(const struct CUevent_st *e);
/* Fails if the calling thread's mode forbids unsafe calls now, and invalidates the captures it would disturb. */
CUresult sim_capture_unsafe(const char *name);
/* A call that a capturing stream does not allow: the capture is lost. */
CUresult sim_capture_break(sim_stream *s, CUresult r, const char *what);
/* Fails if work in the legacy stream would make a captured stream depend on it. */
CUresult sim_capture_implicit(sim_device *d);
void sim_capture_forget(sim_stream *s);

/* ---- graphs ------------------------------------------------------------------------------------------------------ */

CUgraphNode sim_graph_add(CUgraph g, sim_spec *spec, const CUgraphNode *deps, size_t n);
CUgraph sim_graph_new(void);
void sim_graph_free(CUgraph g);
/* Whether `node` is one of `from` or comes before one of them. */
bool sim_graph_reaches(CUgraph g, const CUgraphNode *from, size_t n, CUgraphNode node);
void sim_graphs_stop(void);

/* ---- code -------------------------------------------------------------------------------------------------------- */

struct CUfunc_st { /* a CUkernel is one too */
    sim_object head;
    const sim_kernel *kernel;
    sim_device *device; /* NULL: of a library, runs on the current device */
    int max_dynamic_shared, carveout;
    struct CUfunc_st *next; /* of the same module or library */
};
CUresult sim_kernel_spec(sim_function *f, const unsigned grid[3], const unsigned block[3], unsigned shared,
                         void **parameters, void **extra, sim_device *d, sim_spec *out);
void sim_code_stop(void);
/* The function of a native kernel of the simulator's own libraries, the same at every call. */
sim_function *sim_native_function(const sim_kernel *k);

/* ---- cuFFT ------------------------------------------------------------------------------------------------------- */

int64_t sim_cufft_count(const char *name);
void sim_cufft_stop(void);

#endif
