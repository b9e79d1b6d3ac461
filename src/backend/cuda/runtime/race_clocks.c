/* Agents and what they know. A host thread that is new knows all that the others knew; one that ends leaves its knowledge to
   all; and what one has seen to be done on a device is done for all. Threads are started and joined, and tell each other, by
   means that are not seen here (the allocators' locks, for one), and an alarm that is none is worse than one missed. */
#include "backend/cuda/runtime/race.h"

fac_mutex fac__race_lock = FAC_MUTEX_INIT; /* of agents, clocks, events and the shadow of memory */

static struct {
    race_agent *v;
    size_t n, cap;
} agents;

typedef struct event {
    CUevent handle;
    race_clock carries;
} event;

static struct {
    event *v;
    size_t n, cap;
} events;

static race_clock common; /* what every host thread knows */
static uint64_t common_count;
static _Atomic(uint64_t) threads_made;
static _Thread_local struct { uint64_t serial, common_seen; } me __attribute__((tls_model("initial-exec")));
static pthread_once_t key_once = PTHREAD_ONCE_INIT;
static pthread_key_t key; /* for its destructor alone */

race_agent *fac__race_agent(uint32_t i) { return &agents.v[i]; }

/* ---- clocks ------------------------------------------------------------------------------------------------------------- */

static fac_status widen(race_clock *c, size_t n) {
    while (c->n < n) {
        if (c->n == c->cap) FAC_TRY(FAC_VEC_GROW(c));
        c->v[c->n++] = 0;
    }
    return FAC_OK;
}

fac_status fac__race_join(race_clock *into, const race_clock *from) {
    FAC_TRY(widen(into, from->n));
    for (size_t i = 0; i < from->n; i++)
        if (from->v[i] > into->v[i]) into->v[i] = from->v[i];
    return FAC_OK;
}

bool fac__race_knows(uint32_t agent, race_epoch e) {
    const race_clock *c = &agents.v[agent].knows;
    return e.agent < c->n && c->v[e.agent] >= e.clock;
}

/* ---- agents --------------------------------------------------------------------------------------------------------------- */

static uint32_t agent_new(race_agent a) {
    if (FAC_VEC_GROW(&agents) != FAC_OK) return UINT32_MAX;
    agents.v[agents.n] = a;
    return (uint32_t)agents.n++;
}

uint32_t fac__race_stream_agent(int device, CUstream stream) {
    for (size_t i = 0; i < agents.n; i++)
        if (agents.v[i].device >= 0 && agents.v[i].stream == stream && (stream || agents.v[i].device == device))
            return (uint32_t)i;
    return agent_new((race_agent){.device = device, .stream = stream});
}

/* The host thread of that serial; UINT32_MAX if there is none. */
static uint32_t thread_agent(uint64_t serial) {
    for (size_t i = 0; i < agents.n; i++)
        if (agents.v[i].device < 0 && agents.v[i].thread == serial) return (uint32_t)i;
    return UINT32_MAX;
}

/* A thread ends: whoever joins it may know what it knew. The next thread goes on in its place, so that programs whose threads
   come and go do not grow. */
static void depart(void *serial) {
    fac__mutex_lock(&fac__race_lock);
    uint32_t i = thread_agent((uint64_t)(uintptr_t)serial);
    if (i != UINT32_MAX && fac__race_join(&common, &agents.v[i].knows) == FAC_OK) {
        common_count++;
        agents.v[i].thread = 0;
    }
    fac__mutex_unlock(&fac__race_lock);
}

static void make_key(void) { (void)pthread_key_create(&key, depart); }

/* A thread's first appearance: all that other threads know, it may know too. */
static fac_status be_born(uint32_t i) {
    for (size_t k = 0; k < agents.n; k++)
        if (agents.v[k].device < 0 && k != i) FAC_TRY(fac__race_join(&agents.v[i].knows, &agents.v[k].knows));
    return FAC_OK;
}

uint32_t fac__race_host_agent(void) {
    if (!me.serial) {
        me.serial = atomic_fetch_add(&threads_made, 1) + 1;
        pthread_once(&key_once, make_key);
        (void)pthread_setspecific(key, (void *)(uintptr_t)me.serial);
    }
    uint32_t found = thread_agent(me.serial);
    if (found == UINT32_MAX) {
        found = thread_agent(0);
        if (found == UINT32_MAX) found = agent_new((race_agent){.device = -1});
        if (found == UINT32_MAX || be_born(found) != FAC_OK) return UINT32_MAX;
        agents.v[found].thread = me.serial;
    }
    if (me.common_seen != common_count) {
        if (fac__race_join(&agents.v[found].knows, &common) != FAC_OK) return UINT32_MAX;
        me.common_seen = common_count;
    }
    return found;
}

fac_status fac__race_publish(uint32_t agent) {
    const race_clock *c = &agents.v[agent].knows;
    FAC_TRY(widen(&common, c->n));
    for (size_t i = 0; i < c->n; i++)
        if (i != agent && c->v[i] > common.v[i]) common.v[i] = c->v[i]; /* not what it does itself */
    common_count++;
    return FAC_OK;
}

fac_status fac__race_step(uint32_t agent, uint32_t site, race_epoch *out) {
    uint32_t host = fac__race_host_agent();
    if (host == UINT32_MAX) return FAC_ERR_MEMORY;
    race_agent *a = &agents.v[agent];
    if (host != agent) FAC_TRY(fac__race_join(&a->knows, &agents.v[host].knows));
    FAC_TRY(widen(&a->knows, agents.n));
    *out = (race_epoch){.agent = agent, .site = site, .clock = ++a->knows.v[agent]};
    return FAC_OK;
}

fac_status fac__race_learn_device(uint32_t agent, int device) {
    for (size_t i = 0; i < agents.n; i++)
        if (i != agent && agents.v[i].device >= 0 && (device < 0 || agents.v[i].device == device))
            FAC_TRY(fac__race_join(&agents.v[agent].knows, &agents.v[i].knows));
    return FAC_OK;
}

/* ---- events ----------------------------------------------------------------------------------------------------------------- */

static event *find_event(CUevent e) {
    for (size_t i = 0; i < events.n; i++)
        if (events.v[i].handle == e) return &events.v[i];
    return NULL;
}

fac_status fac__race_event_record(CUevent e, uint32_t agent) {
    event *found = find_event(e);
    if (!found) {
        FAC_TRY(FAC_VEC_GROW(&events));
        found = &events.v[events.n++];
        *found = (event){.handle = e};
    }
    found->carries.n = 0; /* a later record replaces the mark */
    return fac__race_join(&found->carries, &agents.v[agent].knows);
}

fac_status fac__race_event_teach(CUevent e, uint32_t agent) {
    const event *found = find_event(e);
    return found ? fac__race_join(&agents.v[agent].knows, &found->carries) : fac__race_learn_device(agent, -1);
}

void fac__race_event_drop(CUevent e) {
    event *found = find_event(e);
    if (!found) return;
    fac__free(found->carries.v);
    *found = events.v[--events.n];
}

void fac__race_clocks_free(void) {
    for (size_t i = 0; i < agents.n; i++) fac__free(agents.v[i].knows.v);
    for (size_t i = 0; i < events.n; i++) fac__free(events.v[i].carries.v);
    fac__free(agents.v);
    fac__free(events.v);
    fac__free(common.v);
    memset(&agents, 0, sizeof agents);
    memset(&events, 0, sizeof events);
    memset(&common, 0, sizeof common);
}
