/* The executor's own state: one worker per OS thread that runs launches, with the fibers that its blocks' threads run on. */
#ifndef FAC_SRC_SIMCUDA_EXEC_INTERNAL_H
#define FAC_SRC_SIMCUDA_EXEC_INTERNAL_H

#include "exec.h"
#include "sim_device.h"

#include <stdbool.h>

/* Happens-before edges that ThreadSanitizer cannot see: barriers, and the beginning and end of a launch. The build defines
   SIM_TSAN and leaves the executor itself without instrumentation: its fibers take turns on one OS thread, which the sanitizer
   is told are threads that run side by side. */
#ifdef SIM_TSAN
void __tsan_acquire(void *address);
void __tsan_release(void *address);
#define SIM_ACQUIRE(p) __tsan_acquire(p)
#define SIM_RELEASE(p) __tsan_release(p)
#else
#define SIM_ACQUIRE(p) ((void)(p))
#define SIM_RELEASE(p) ((void)(p))
#endif

enum {
    SIM_MAX_THREADS = 1024,
    SIM_WARP = 32,
    SIM_MAX_ARRAYS = 32,
    SIM_SHARED_BYTES = 228 << 10,
    SIM_STACK_BYTES = 128 << 10
};

typedef enum sim_wait { SIM_RUNS, SIM_AT_BARRIER, SIM_AT_WARP } sim_wait;
typedef enum sim_warp_op { SIM_SHFL, SIM_BALLOT, SIM_MATCH, SIM_SYNCWARP } sim_warp_op;

/* A stack, and what the CUDA thread that runs on it waits for. */
typedef struct sim_fiber {
    void *sp;          /* while it does not run */
    char *stack;       /* lowest usable byte */
    void *fake;        /* AddressSanitizer's, while it does not run */
    void *tsan;        /* ThreadSanitizer's fiber */
    unsigned valgrind; /* number of the stack there */
    unsigned thread;
    sim_dim3 place;
    sim_wait wait;
    const char *file; /* of what it waits for */
    int line;
    int fold, predicate; /* at a barrier: what it asks, and the answer */
    sim_warp_op op;      /* at a warp operation */
    unsigned mask;
    int source;
    uint64_t value, result;
} sim_fiber;

/* Lanes of one warp: those that have not returned, and those of them that wait for a warp operation. */
typedef struct sim_warp {
    unsigned live, waiting;
} sim_warp;

typedef struct sim_array {
    const void *key;
    char *data;
} sim_array;

/* i -> (step * i + first) mod n, which visits every index once: an order of blocks or threads. */
typedef struct sim_order {
    uint64_t step, first, n;
} sim_order;

typedef struct sim_worker {
    const sim_launch *launch;
    /* the block that runs */
    unsigned n_threads, started, live, at_barrier;
    sim_order threads;
    sim_fiber *by_thread[SIM_MAX_THREADS];
    sim_warp warps[SIM_MAX_THREADS / SIM_WARP];
    sim_fiber *ready[SIM_MAX_THREADS]; /* a ring: each fiber is in it at most once */
    unsigned ready_head, n_ready;
    sim_array arrays[SIM_MAX_ARRAYS];
    unsigned n_arrays;
    size_t shared_used;
    char *shared;
    char *dynamic;
    /* fibers; `current` is NULL on the caller's own stack */
    sim_fiber fibers[SIM_MAX_THREADS];
    sim_fiber *free_fibers[SIM_MAX_THREADS];
    unsigned n_free, n_fibers;
    sim_fiber *current;
    void *base_sp, *base_fake, *base_tsan;
    const void *base_stack;
    size_t base_stack_bytes;
    bool left_base;
    void *signal_stack;
    /* the first failure of the launch */
    int code;
    char text[512], explanation[320];
    char began, ended; /* tokens of ThreadSanitizer's edges */
} sim_worker;

extern __thread sim_worker *sim_worker_of_thread __attribute__((tls_model("initial-exec")));

/* exec_fiber.c: stacks and switches. `NULL` stands for the stack that sim_execute was called on. */
/* Makes what a block of n threads needs before it runs. False: no memory. */
bool sim_fibers_prepare(sim_worker *w, unsigned n);
sim_fiber *sim_fiber_take(sim_worker *w, void (*entry)(void));
void sim_fiber_put(sim_worker *w, sim_fiber *f);
/* Goes on in `to`; comes back when somebody switches to `from` again. A fiber that is `done` never is. */
void sim_fiber_switch(sim_worker *w, sim_fiber *from, sim_fiber *to, bool done);
/* First thing on a new fiber. */
void sim_fiber_entered(sim_worker *w);
/* After a failure: every fiber is free again, whatever it was in the middle of. */
void sim_fibers_abandon(sim_worker *w);
void sim_fibers_free(sim_worker *w);
/* In a signal handler on a fiber: the interrupted code goes on in the caller of sim_execute. */
void sim_fiber_escape(sim_worker *w, void *signal_context);

/* exec.c */
/* The next fiber that can go on, or a new one for a thread not begun yet; NULL when none is left. */
sim_fiber *sim_next(sim_worker *w);
void sim_make_ready(sim_worker *w, sim_fiber *f);
/* Notes a failure of the launch, with the place of the running thread, unless one is noted. */
void sim_note_failure(sim_worker *w, int code, const char *text);

/* exec_sync.c: what the end of a thread means for those that wait, and why none can go on. */
void sim_thread_left(sim_worker *w, unsigned thread);
void sim_explain_deadlock(sim_worker *w, char *text, size_t size);

/* exec_fault.c: signals of kernels become failures of their launch. */
void sim_faults_watch(sim_worker *w);
void sim_faults_unwatch(sim_worker *w);

/* exec_shared.c */
void sim_shared_begin(sim_worker *w);
void sim_shared_end(sim_worker *w);
bool sim_shared_make(sim_worker *w);
void sim_shared_free(sim_worker *w);

#endif
