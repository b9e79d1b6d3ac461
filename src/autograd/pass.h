/* A pass under way: what the walk, the run and the threads of devices share of it.

   A pass belongs to the thread that asked for it and is over when fac__pass_run returns, on every path: its workers are
   joined, its scratch memory is empty, what had arrived is released, the thread's state is as before.

   A gradient on its way is one owned reference, in no scope: of the record that it was delivered to, then of the leaf or of
   the caller's `captured`. Formulas, hooks and users' functions have scopes of their own, on the thread that runs them, which end
   before the results go on; so no scope is open from one node to the next, and none is seen by two threads.

   Several workers share records' buffers and counts, the queues of ready records and the list of exits: the workers' lock
   guards them. Nodes, captures and which records are needed do not change after the walk. A record that is ready is its
   runner's alone. */
#ifndef FAC_SRC_AUTOGRAD_PASS_H
#define FAC_SRC_AUTOGRAD_PASS_H

#include "autograd/engine.h"
#include "autograd/records.h"

typedef struct fac_device_workers fac_device_workers;

typedef struct fac_pass {
    const fac_pass_request *r;
    scratch *s;
    fac_thread *th, *caller;     /* who runs nodes, and who asked for the pass */
    fac_keyset user_exclude;     /* what hooks and user code see */
    fac_keyset inner_exclude;    /* what built-in nodes see: autograd is skipped altogether unless a graph is made */
    fac_device_workers *workers; /* NULL unless several accelerators take part */
} fac_pass;

/* Finds the nodes that the roots lead to, what each waits for, and which are needed. */
fac_status fac__pass_walk(const fac_pass *p);

/* Delivers the roots' gradients, which makes the first records ready. */
fac_status fac__pass_start(const fac_pass *p);
/* Runs a ready record and delivers its results, which may make others ready. */
fac_status fac__pass_run_record(const fac_pass *p, record *r);
fac_status fac__pass_run_accumulator(const fac_pass *p, record *r);
/* Releases what has arrived at a record. */
void fac__pass_drop(record *r);

enum { FAC_MAX_DEVICE_WORKERS = 16 }; /* accelerators with a worker of their own; further ones share the last */
/* The accelerators whose nodes the pass may reach, up to FAC_MAX_DEVICE_WORKERS; returns how many. */
size_t fac__pass_devices(const scratch *s, fac_device devices[FAC_MAX_DEVICE_WORKERS]);
/* Runs a walked pass with a worker for each of n devices, of which the calling thread is the first. */
fac_status fac__pass_run_on_devices(fac_pass *p, const fac_device *devices, size_t n);
/* Hands a ready record to the worker of its device; under the lock. */
fac_status fac__workers_assign(const fac_pass *p, const record *r);
void fac__workers_lock(fac_device_workers *w);
void fac__workers_unlock(fac_device_workers *w);

#endif
