/* Entering and leaving the driver: start and end, the lock, failures with a sentence, the table of live handles, and
   the entries that are about the driver itself. */
#include "simcuda/sanitize.h"
#include "simcuda/sim.h"
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static enum { FRESH, STARTED, STOPPED, FORKED } phase;
static _Thread_local CUresult detail_of;
static uint64_t generation; /* of starts: a thread's context of an earlier one is forgotten */
static _Thread_local uint64_t seen_generation;

void sim_lock(void) {
    sim_hide();
    pthread_mutex_lock(&mutex);
}

void sim_unlock(void) {
    pthread_mutex_unlock(&mutex);
    sim_show();
}

pthread_mutex_t *sim_mutex(void) { return &mutex; }

/* A thread's sentences, on the heap: the loader has little room for threads' variables in libraries that come late, and the
   executor's must fit. */
typedef struct texts {
    char detail[640]; /* of the last failure */
    char shown[800];  /* by cuGetErrorString */
} texts;

static pthread_key_t texts_key;
static void make_texts_key(void) { pthread_key_create(&texts_key, free); }

static texts *texts_of_thread(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    static texts shared; /* where no memory is left: better mixed up than none */
    pthread_once(&once, make_texts_key);
    texts *t = pthread_getspecific(texts_key);
    if (t) return t;
    t = calloc(1, sizeof *t);
    if (!t) return &shared;
    pthread_setspecific(texts_key, t);
    return t;
}

CUresult sim_refuse(CUresult r, const char *format, ...) {
    va_list args;
    va_start(args, format);
    char *detail = texts_of_thread()->detail;
    vsnprintf(detail, sizeof((texts *)0)->detail, format, args);
    va_end(args);
    detail_of = r;
    return r;
}

CUresult sim_recode(CUresult r) { return detail_of = r; }

const char *sim_detail(CUresult r) { return detail_of == r ? texts_of_thread()->detail : ""; }

static CUresult phase_error(const char *name) {
    switch (phase) {
    case STARTED: return CUDA_SUCCESS;
    case STOPPED: return sim_refuse(CUDA_ERROR_DEINITIALIZED, "%s: the driver has shut down", name);
    case FORKED: return sim_refuse(CUDA_ERROR_NOT_INITIALIZED, "%s: in a child forked after cuInit", name);
    default: return sim_refuse(CUDA_ERROR_NOT_INITIALIZED, "%s: before cuInit", name);
    }
}

static CUresult current_error(const char *name) {
    SIM_CHECK(sim_current && sim_current->retained, CUDA_ERROR_INVALID_CONTEXT, "%s: the thread has no current context",
              name);
    if (sim_current->fault) {
        return sim_refuse(sim_current->fault, "%s (reported by %s)", sim_current->fault_text, name);
    }
    return CUDA_SUCCESS;
}

CUresult sim_enter(sim_guard *g, const char *name, int needs) {
    if (sim_in_host_function) {
        return sim_refuse(CUDA_ERROR_NOT_PERMITTED, "%s: called from a host function of a stream", name);
    }
    sim_lock();
    g->locked = true;
    SIM_TRY(phase_error(name));
    if (seen_generation != generation) sim_current = NULL, seen_generation = generation;
    if (needs & SIM_CURRENT) SIM_TRY(current_error(name));
    return needs & SIM_UNSAFE ? sim_capture_unsafe(name) : CUDA_SUCCESS;
}

void sim_leave(sim_guard *g) {
    if (g->locked) sim_unlock();
}

/* ---- objects ----------------------------------------------------------------------------------------------------- */

#define BUCKETS 1024
static sim_object *buckets[BUCKETS];
int64_t sim_object_live[SIM_TYPES];

static sim_object **bucket_of(const void *p) {
    return &buckets[((uintptr_t)p >> 4) * UINT64_C(0x9E3779B97F4A7C15) >> 54];
}

void *sim_object_new(sim_type type, size_t bytes) {
    sim_object *o = sim_new(1, bytes), **bucket = bucket_of(o);
    o->type = type;
    o->next = *bucket;
    *bucket = o;
    sim_object_live[type]++;
    return o;
}

void sim_object_free(void *object) {
    sim_object **at = bucket_of(object);
    while (*at != object) at = &(*at)->next;
    *at = (*at)->next;
    sim_object_live[((sim_object *)object)->type]--;
    free(object);
}

void *sim_object_any(sim_type type, bool (*wanted)(const void *object)) {
    for (size_t i = 0; i < BUCKETS; i++) {
        for (sim_object *o = buckets[i]; o; o = o->next) {
            if (o->type == type && (!wanted || wanted(o))) return o;
        }
    }
    return NULL;
}

bool sim_object_is(const void *object, sim_type type) {
    const sim_object *o = *bucket_of(object);
    while (o && o != object) o = o->next;
    return o && o->type == type;
}

void *sim_new(size_t n, size_t size) {
    void *p = calloc(n ? n : 1, size ? size : 1);
    if (!p) {
        fprintf(stderr, "simcuda: out of host memory\n");
        abort();
    }
    return p;
}

void sim_grow(void *array, size_t n, size_t *capacity, size_t size) {
    if (n < *capacity) return;
    *capacity = *capacity ? *capacity * 2 : 4;
    void *wider = realloc(*(void **)array, *capacity * size);
    if (!wider) {
        fprintf(stderr, "simcuda: out of host memory\n");
        abort();
    }
    *(void **)array = wider;
}

static uint64_t random_state;

uint64_t sim_random(uint64_t n) { /* splitmix64 */
    uint64_t z = (random_state += UINT64_C(0x9E3779B97F4A7C15));
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    z ^= z >> 31;
    return n ? z % n : z;
}

void sim_random_seed(uint64_t seed) { random_state = seed; }

/* ---- start and end ----------------------------------------------------------------------------------------------- */

static void forked(void) {
    if (phase == STARTED) phase = FORKED;
    mutex = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER; /* another thread may have held it */
}

/* The end of the process, or of the library: as with the driver itself, every later call fails. */
static void deinitialise(void) {
    sim_lock();
    phase = STOPPED;
    sim_unlock();
}

CUresult cuInit(unsigned flags) {
    if (flags) return sim_refuse(CUDA_ERROR_INVALID_VALUE, "cuInit: flags must be 0, not %u", flags);
    sim_guard g __attribute__((cleanup(sim_leave), unused)) = {true};
    sim_lock();
    if (phase == FRESH) {
        static bool watched;
        if (!watched) pthread_atfork(NULL, NULL, forked), atexit(deinitialise);
        watched = true;
        SIM_CHECK(sim_options_start(), CUDA_ERROR_INVALID_VALUE, "cuInit: FACULA_CUDA=%s: %s",
                  secure_getenv("FACULA_CUDA"), sim_option_error);
        SIM_TRY(sim_devices_start());
        sim_work_start();
        sim_trap_start();
        phase = STARTED;
    }
    return phase_error("cuInit");
}

/* What callers never gave back goes too, so that a new start begins with nothing. */
static void stop_everything(void) {
    sim_trap_stop();
    sim_work_stop();
    for (int i = 0; i < sim_n_devices; i++) sim_streams_stop(&sim_devices[i]);
    sim_events_stop();
    sim_graphs_stop();
    sim_cufft_stop();
    sim_code_stop();
    sim_virtual_stop();
    sim_pools_stop();
    sim_memory_stop();
    sim_devices_stop();
    generation++;
}

void simcuda_stop(void) {
    sim_lock();
    if (phase == STARTED) {
        stop_everything();
        phase = FRESH;
    }
    sim_unlock();
}

int simcuda_set(const char *options) {
    sim_lock();
    bool ok = sim_options_parse(options);
    if (!ok) fprintf(stderr, "simcuda: %s\n", sim_option_error);
    sim_unlock();
    return ok ? 0 : -1;
}

/* ---- the driver about itself ------------------------------------------------------------------------------------- */

CUresult cuDriverGetVersion(int *version) {
    if (!version) return sim_refuse(CUDA_ERROR_INVALID_VALUE, "cuDriverGetVersion: version is NULL");
    *version = SIM_VERSION;
    return CUDA_SUCCESS;
}

static const char *result_name(CUresult r) {
    switch (r) {
#define SIM_NAME(name, value) \
    case name: return #name;
        FAC_CU_RESULTS(SIM_NAME)
#undef SIM_NAME
    }
    return NULL;
}

CUresult cuGetErrorName(CUresult error, const char **text) {
    if (!text) return CUDA_ERROR_INVALID_VALUE;
    *text = result_name(error);
    return *text ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* The code's name in plain words; for the thread's last failure also the sentence that says what was wrong. */
CUresult cuGetErrorString(CUresult error, const char **text) {
    if (!text) return CUDA_ERROR_INVALID_VALUE;
    *text = NULL;
    const char *name = result_name(error);
    if (!name) return CUDA_ERROR_INVALID_VALUE;
    texts *t = texts_of_thread();
    char *p = t->shown;
    for (const char *c = name + (error ? strlen("CUDA_ERROR_") : strlen("CUDA_")); *c; c++) {
        *p++ = *c == '_' ? ' ' : (char)(*c | 0x20);
    }
    const char *more = sim_detail(error);
    snprintf(p, sizeof t->shown - (size_t)(p - t->shown), "%s%s", *more ? ": " : "", more);
    *text = t->shown;
    return CUDA_SUCCESS;
}

typedef struct proc {
    const char *name, *symbol;
    int version;
    void (*function)(void);
} proc;
#define SIM_PROC(name, symbol, version, need, parameters) {#name, #symbol, version, (void (*)(void))symbol},
static const proc procs[] = {FAC_CU_ENTRIES(SIM_PROC)};
#undef SIM_PROC

SIM_API CUresult cuGetProcAddress_v2(const char *name, void **function, int version, cuuint64_t flags, int *status);
SIM_API CUresult cuGetProcAddress(const char *name, void **function, int version, cuuint64_t flags);

CUresult cuGetProcAddress_v2(const char *name, void **function, int version, cuuint64_t flags, int *status) {
    enum { FOUND, NOT_FOUND, TOO_OLD };
    (void)flags;
    if (!name || !function) return sim_refuse(CUDA_ERROR_INVALID_VALUE, "cuGetProcAddress: NULL");
    *function = NULL;
    for (size_t i = 0; i < sizeof procs / sizeof *procs; i++) {
        if (strcmp(procs[i].name, name) != 0) continue;
        bool enough = version >= procs[i].version;
        if (status) *status = enough ? FOUND : TOO_OLD;
        if (enough) memcpy(function, &procs[i].function, sizeof *function);
        return enough ? CUDA_SUCCESS : sim_refuse(CUDA_ERROR_NOT_FOUND, "cuGetProcAddress: %s", name);
    }
    if (status) *status = NOT_FOUND;
    return sim_refuse(CUDA_ERROR_NOT_FOUND, "cuGetProcAddress: the simulated driver has no %s", name);
}

CUresult cuGetProcAddress(const char *name, void **function, int version, cuuint64_t flags) {
    return cuGetProcAddress_v2(name, function, version, flags, NULL);
}
