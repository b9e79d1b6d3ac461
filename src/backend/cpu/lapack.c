/* Finds LAPACK's library, fills the table of its routines, and remembers how that went. */
#include "backend/cpu/lapack.h"
#include "backend/cpu/cpu.h"
#include "base/mutex.h"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#define CORE_VARIABLE "OPENBLAS_CORETYPE"

const bool fac__lapack_built_in = true;
fac_lapack fac__lapack;

enum { UNTRIED, LOADED, FAILED };
static struct {
    fac_mutex mutex;    /* of all below */
    _Atomic(int) state; /* UNTRIED, LOADED, FAILED */
    char failure[512];
} lapack = {.mutex = FAC_MUTEX_INIT};
static bool one_at_a_time;               /* the library bears no two calls at once; set before state is LOADED */
static fac_mutex calls = FAC_MUTEX_INIT; /* held around chunks then */

static const struct routine {
    const char *name[2]; /* for real numbers, for complex ones; NULL: there is none */
    size_t offset;
} routines[] = {
#define ROW(name, real, complex, parameters) {{real, complex}, offsetof(fac_lapack, name)},
    FAC_LAPACK_ROUTINES(ROW)
#undef ROW
};

static bool refuse(const char *format, const char *what) {
    snprintf(lapack.failure, sizeof lapack.failure, format, what);
    return false;
}

/* ---- the kernels of OpenBLAS ------------------------------------------------------------------------------------------- */

/* What names the kernels for this level of instructions. By itself OpenBLAS goes by the models that it knows, and takes one that
   is newer than itself for one of 2004. NULL: it may choose. */
static const char *core_setting(void) {
#if defined(__x86_64__)
    if (fac__cpu_isa == FAC_ISA_AVX512) return CORE_VARIABLE "=SkylakeX";
    if (fac__cpu_isa == FAC_ISA_AVX2) return CORE_VARIABLE "=Haswell";
#endif
    return NULL;
}

extern char **environ; /* POSIX has it, and no header */

/* The environment with one setting more; NULL where memory is short. */
static char **environment_with(const char *setting) {
    size_t n = 0;
    while (environ && environ[n]) n++;
    char **copy = malloc((n + 2) * sizeof *copy);
    if (!copy) return NULL;
    if (n) memcpy(copy, environ, n * sizeof *copy);
    memcpy(&copy[n], &setting, sizeof setting);
    copy[n + 1] = NULL;
    return copy;
}

/* dlopen, and what OpenBLAS reads meanwhile. setenv might move the environment under another thread that reads it; here that
   thread finds one of two whole ones, the second of which is therefore never freed. What a thread sets meanwhile may be lost, or keep
   this setting. */
static void *open_with_core(const char *name) {
    static char **lent;
    const char *setting = fac__env(CORE_VARIABLE) ? NULL : core_setting();
    char **const own = environ;
    if (setting && !lent) lent = environment_with(setting);
    if (setting && lent) environ = lent;
    void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (environ == lent) environ = own;
    return library;
}

/* ---- loading ----------------------------------------------------------------------------------------------------------- */

/* The library that the environment names, else the one that the build found, by its name and then by its place. */
static void *open_library(void) {
    const char *named = fac__env("FACULA_LAPACK_LIBRARY");
    const char *choices[] = {named && *named ? named : FAC_LAPACK_NAME, named && *named ? NULL : FAC_LAPACK_PATH};
    void *library = NULL;
    for (size_t i = 0; i < FAC_COUNT(choices) && !library; i++)
        if (choices[i]) library = open_with_core(choices[i]);
    return library;
}

static bool fill_table(void *library) {
    for (size_t i = 0; i < FAC_COUNT(routines); i++)
        for (int kind = 0; kind < 4; kind++) {
            const char *name = routines[i].name[kind >= 2];
            char symbol[16];
            if (!name) continue;
            snprintf(symbol, sizeof symbol, "%c%s_", "sdcz"[kind], name);
            void *found = dlsym(library, symbol);
            if (!found) return refuse("the library that was found as LAPACK lacks %s", symbol);
            memcpy((char *)&fac__lapack + routines[i].offset + (size_t)kind * sizeof found, &found, sizeof found);
        }
    return true;
}

/* OpenBLAS would otherwise cut one call by the number of its threads, and the bits would depend on it. */
static void keep_to_one_thread(void *library) {
    void *found = dlsym(library, "openblas_set_num_threads");
    void (*set_threads)(int);
    memcpy(&set_threads, &found, sizeof found);
    if (found) set_threads(1);
}

/* An OpenBLAS that was built without threads shares its buffers among all callers, unlocked. */
static bool is_sequential(void *library) {
    void *found = dlsym(library, "openblas_get_parallel");
    int (*get_parallel)(void);
    memcpy(&get_parallel, &found, sizeof found);
    return found && get_parallel() == 0;
}

static bool start(void) {
    void *library = open_library();
    if (!library) {
        const char *reason = dlerror();
        return refuse("LAPACK was not found: %s (install libopenblas0, or name a library in FACULA_LAPACK_LIBRARY)",
                      reason ? reason : FAC_LAPACK_NAME);
    }
    if (!fill_table(library)) {
        dlclose(library);
        return false;
    }
    keep_to_one_thread(library);
    one_at_a_time = is_sequential(library);
    return true;
}

fac_status fac__lapack_load(void) {
    if (FAC_LIKELY(atomic_load_explicit(&lapack.state, memory_order_acquire) == LOADED)) return FAC_OK;
    fac__mutex_lock(&lapack.mutex);
    if (atomic_load(&lapack.state) == UNTRIED)
        atomic_store_explicit(&lapack.state, start() ? LOADED : FAILED, memory_order_release);
    fac__mutex_unlock(&lapack.mutex);
    return atomic_load(&lapack.state) == LOADED ? FAC_OK : FAC_FAIL(FAC_ERR_UNSUPPORTED, "%s", lapack.failure);
}

typedef struct work {
    fac_scratch_fn fn;
    void *ctx;
} work;

static fac_status guarded(void *ctx, int64_t begin, int64_t end, void *scratch) {
    const work *w = ctx;
    fac__fork_hold(); /* first: a fork waits for those who hold, and finds `calls` open */
    if (one_at_a_time) fac__mutex_lock(&calls);
    fac_status st = w->fn(w->ctx, begin, end, scratch);
    if (one_at_a_time) fac__mutex_unlock(&calls);
    fac__fork_allow();
    return st;
}

fac_status fac__lapack_for(int64_t n, double each, int64_t bytes, fac_scratch_fn fn, void *ctx) {
    FAC_TRY(fac__lapack_load());
    work w = {fn, ctx};
    const int64_t grain = fac__grain(4 * FAC_GRAIN, each < 4 * FAC_GRAIN ? (int64_t)each : 4 * FAC_GRAIN);
    return fac__parallel_for_scratch(0, n, grain, fac__max(1, bytes), guarded, &w);
}

/* A float may be the number rounded down. */
int fac__lapack_work(int kind, const void *at) {
    double n;
    if (kind % 2) {
        n = *(const double *)at;
    } else {
        n = (double)*(const float *)at * (1 + 0x1p-23);
    }
    return n < 1 ? 1 : n >= INT32_MAX ? INT32_MAX : (int)n + 1;
}
