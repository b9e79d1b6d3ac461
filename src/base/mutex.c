/* Threads that hold locks are counted in stripes, so that they do not meet on one word. A fork closes the gate, which only
   a thread's first lock passes, and watches the stripes until none counts anybody but the thread that forks. It opens the
   gate again at times: a holder may be waiting for a thread that waits at the gate. */
#include "base/mutex.h"
#include "base/base.h"
#include "base/park.h"
#include <sched.h>
#include <time.h>

enum { STRIPES = 64, CLOSED_NS = 2000000, OPEN_NS = 500000 };

typedef struct stripe {
    _Alignas(64) _Atomic(int) holders;
} stripe;
static stripe stripes[STRIPES];
static atomic_uint next_stripe;
static _Atomic(uint32_t) gate_closed; /* by the thread that holds `one_fork` */
static pthread_mutex_t one_fork = PTHREAD_MUTEX_INITIALIZER;

static _Thread_local struct {
    int locks;
    stripe *stripe;
} held __attribute__((tls_model("initial-exec")));

/* ---- passing the gate ------------------------------------------------------------------------------------------------ */

static stripe *own_stripe(void) {
    if (FAC_UNLIKELY(!held.stripe)) held.stripe = &stripes[atomic_fetch_add(&next_stripe, 1) % STRIPES];
    return held.stripe;
}

/* Counts first and looks at the gate then; a fork closes the gate first and looks at the counts then. */
static void pass_gate(void) {
    stripe *s = own_stripe();
    for (;;) {
        atomic_fetch_add(&s->holders, 1);
        if (FAC_LIKELY(!atomic_load(&gate_closed))) return;
        atomic_fetch_sub(&s->holders, 1);
        while (atomic_load(&gate_closed)) fac__park(&gate_closed, 1);
    }
}

void fac__fork_hold(void) {
    if (held.locks++ == 0) pass_gate();
}

void fac__fork_allow(void) {
    if (--held.locks == 0) atomic_fetch_sub(&held.stripe->holders, 1);
}

/* ---- forking --------------------------------------------------------------------------------------------------------- */

static bool nobody_holds(void) {
    const stripe *own = own_stripe();
    for (int i = 0; i < STRIPES; i++)
        if (atomic_load(&stripes[i].holders) != (&stripes[i] == own && held.locks > 0)) return false;
    return true;
}

static bool wait_for_holders(void) {
    const double end = fac__now() + 1e-9 * CLOSED_NS;
    do {
        if (nobody_holds()) return true;
        sched_yield();
    } while (fac__now() < end);
    return false;
}

static void set_gate(bool closed) {
    atomic_store(&gate_closed, closed);
    if (!closed) fac__unpark_all(&gate_closed);
}

static void before_fork(void) {
    pthread_mutex_lock(&one_fork);
    const double end = fac__now() + FAC_FORK_PATIENCE; /* not counting the forks that went before */
    for (set_gate(true); !wait_for_holders() && fac__now() < end; set_gate(true)) {
        set_gate(false);
        nanosleep(&(struct timespec){.tv_nsec = OPEN_NS}, NULL);
    }
}

static void after_fork_in_parent(void) {
    set_gate(false);
    pthread_mutex_unlock(&one_fork);
}

/* The counts of threads that are not there any more may be half changed. */
static void after_fork_in_child(void) {
    fac__park_forget();
    for (int i = 0; i < STRIPES; i++)
        atomic_store(&stripes[i].holders, &stripes[i] == held.stripe && held.locks > 0 ? 1 : 0);
    atomic_store(&gate_closed, 0);
    pthread_mutex_unlock(&one_fork);
}

/* Without memory for it, forks stay what they are without Facula. */
__attribute__((constructor)) static void watch_forks(void) {
    (void)pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}

/* ---- mutexes ----------------------------------------------------------------------------------------------------------- */

void fac__mutex_lock(fac_mutex *m) {
    if (m->recursive && atomic_load_explicit(&m->owner, memory_order_relaxed) == &held) {
        m->again++;
        return;
    }
    fac__fork_hold();
    pthread_mutex_lock(&m->mutex);
    if (m->recursive) atomic_store_explicit(&m->owner, &held, memory_order_relaxed);
}

void fac__mutex_unlock(fac_mutex *m) {
    if (m->again > 0) {
        m->again--;
        return;
    }
    if (m->recursive) atomic_store_explicit(&m->owner, NULL, memory_order_relaxed);
    pthread_mutex_unlock(&m->mutex);
    fac__fork_allow();
}

void fac__mutex_init(fac_mutex *m) { *m = (fac_mutex)FAC_MUTEX_INIT; }
void fac__mutex_destroy(fac_mutex *m) { pthread_mutex_destroy(&m->mutex); }

/* A sleeper holds nothing, so that forks need not wait for it. */
void fac__cond_wait(fac_cond *c, fac_mutex *m) {
    const uint32_t seen = atomic_load(&c->changes);
    fac__mutex_unlock(m);
    fac__park(&c->changes, seen);
    fac__mutex_lock(m);
}

void fac__cond_wait_for(fac_cond *c, fac_mutex *m, double seconds) {
    const uint32_t seen = atomic_load(&c->changes);
    fac__mutex_unlock(m);
    fac__park_for(&c->changes, seen, seconds);
    fac__mutex_lock(m);
}

void fac__cond_announce(fac_cond *c) {
    atomic_fetch_add(&c->changes, 1);
    fac__unpark_all(&c->changes);
}
