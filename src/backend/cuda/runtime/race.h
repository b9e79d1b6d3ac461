/* The race checker's parts. Each stream and each host thread is an agent with a vector clock: what it knows of every agent's
   progress. Work in a stream knows what its stream knew and what the host thread that queued it knew; an event carries the
   knowledge of its stream to whoever waits for it. Two accesses of the same bytes of which one writes are a race unless the
   later one's agent knows of the earlier.

   Events, waits and copies are seen at the driver's table (race_driver.c puts itself between); launches say what they touch
   (fac__race_access). All state is behind one lock. */
#ifndef FAC_SRC_BACKEND_CUDA_RUNTIME_RACE_H
#define FAC_SRC_BACKEND_CUDA_RUNTIME_RACE_H

#include "backend/cuda/runtime/runtime.h"
#include "base/mutex.h"
#include <facula/cuda_race.h>

/* Read without a lock by every launch. */
extern atomic_int fac__race_mode_now;
static inline bool fac__race_on(void) {
    return FAC_UNLIKELY(atomic_load_explicit(&fac__race_mode_now, memory_order_relaxed) != FAC_RACE_OFF);
}
/* Reads the environment; called once the driver is loaded. */
fac_status fac__race_start(void);
/* Frees everything and takes itself out of the driver's table; at fac_shutdown the dispatcher has ended already. */
void fac__race_stop(bool dispatcher_lives);

/* Before work that touches these bytes is queued in the current stream of a device: checks and notes. STATE if that is a race
   and the mode is ERROR. `what` names the operator or kernel. */
fac_status fac__race_access(int device, CUstream stream, const fac_cuda_access *a, size_t n, const char *what);
/* The same for the host, which touches page-locked memory: what = "fac_tensor_read" ... */
fac_status fac__race_host_access(const void *p, int64_t bytes, bool write, const char *what);
/* While on, the calling thread hands nothing to the warning handler, for it has a lock that the handler may want: what is found
   is told by the next access. */
void fac__race_hold(bool on);

/* ---- operators (race_host.c) ------------------------------------------------------------------------------------------- */

/* Sees every operator from here on, and no more. */
fac_status fac__race_watch(void);
void fac__race_unwatch(bool dispatcher_lives);
/* The operator that the calling thread is in, NULL if none or not watched. */
const char *fac__race_operator(void);

/* ---- clocks (race_clocks.c; all under the lock) ---------------------------------------------------------------------- */

/* A moment in an agent's life, and the place in the program that it belongs to. */
typedef struct race_epoch {
    uint32_t agent, site; /* site: a number that grows; 0: no epoch */
    uint64_t clock;
} race_epoch;

typedef struct race_clock { /* v[agent]; missing ones are 0 */
    uint64_t *v;
    size_t n, cap;
} race_clock;

typedef struct race_agent {
    race_clock knows;
    CUstream stream; /* NULL with device >= 0: the default stream */
    int device;      /* -1: a host thread */
    uint64_t thread; /* serial of a host thread; 0 for streams, and for a thread that has ended */
} race_agent;

extern fac_mutex fac__race_lock; /* of agents, clocks, events and the shadow of memory */
/* The agent of a stream or of the calling thread; UINT32_MAX and an error on failure. */
uint32_t fac__race_stream_agent(int device, CUstream stream);
uint32_t fac__race_host_agent(void);
race_agent *fac__race_agent(uint32_t i);
/* Moves an agent on after it has learnt what the calling thread knows; the new moment. */
fac_status fac__race_step(uint32_t agent, uint32_t site, race_epoch *out);
bool fac__race_knows(uint32_t agent, race_epoch e);
fac_status fac__race_join(race_clock *into, const race_clock *from);
/* Events, by handle: what they carry. Waiting for one that was never seen teaches everything. */
fac_status fac__race_event_record(CUevent e, uint32_t agent);
fac_status fac__race_event_teach(CUevent e, uint32_t agent);
void fac__race_event_drop(CUevent e);
/* The agent learns what every stream of a device knows; device -1: of all. */
fac_status fac__race_learn_device(uint32_t agent, int device);
/* A host thread has waited for something: what it learnt, the others know too. */
fac_status fac__race_publish(uint32_t agent);
void fac__race_clocks_free(void);

/* ---- shadow memory (race_shadow.c) -------------------------------------------------------------------------------------- */

/* Told of each earlier access of [start, end) that the later one may not know of; returns false to stop. */
typedef bool (*race_visit)(void *context, race_epoch earlier, bool earlier_writes, uintptr_t start);
/* Notes an access of a range at a moment and reports earlier ones in conflict. */
fac_status fac__race_shadow_touch(uintptr_t start, uintptr_t end, bool write, race_epoch now, race_visit visit,
                                  void *context);
void fac__race_shadow_forget(uintptr_t start, uintptr_t end);
void fac__race_shadow_free(void);

/* ---- places in the program (race_report.c) ------------------------------------------------------------------------------- */

/* Notes where the calling thread is; a number to remember the place by. */
uint32_t fac__race_site(const char *op, const char *argument, uint32_t agent, bool write);
/* Files a race between two places, once per pair. STATE in ERROR mode; else fac__race_tell hands it on. */
fac_status fac__race_report(uint32_t earlier, uint32_t earlier_agent, bool earlier_writes, uint32_t later,
                            bool later_writes, uintptr_t address);
void fac__race_report_free(void);
/* Hands what was filed to the warning handler, which may use the library: call it without any lock. */
void fac__race_tell(void);

#endif
