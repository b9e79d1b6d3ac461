/* Loads the driver's library, fills the table of its entries, initialises it, and remembers how that went. */
#define _GNU_SOURCE
#include "backend/cuda/driver/driver.h"
#include "backend/cuda/driver/nvml.h"
#include "base/mutex.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

fac_cu fac__cu;

static struct {
    fac_mutex mutex;    /* of all below */
    _Atomic(int) state; /* UNTRIED, LOADED, FAILED */
    atomic_bool forked;
    bool initialised; /* cuInit has succeeded in this process */
    bool simulated;
    int version, count;
    void *library;
    char failure[512];
} driver = {.mutex = FAC_MUTEX_INIT};
enum { UNTRIED, LOADED, FAILED };

static bool refuse(const char *format, ...) FAC_PRINTF(1, 2);
/* Notes why there is no driver; returns false. */
static bool refuse(const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(driver.failure, sizeof driver.failure, format, args);
    va_end(args);
    return false;
}

/* ---- finding the library ----------------------------------------------------------------------------------------- */

#define SIMULATOR "libfacula-simcuda.so"

/* The simulator in the folder of the library that this code is in, then wherever the linker looks. */
static void *open_simulator(void) {
    Dl_info here;
    const char *named = fac__env("FACULA_SIMCUDA_LIBRARY");
    if (named && *named) return dlopen(named, RTLD_NOW | RTLD_LOCAL);
    if (dladdr(&fac__cu, &here) && here.dli_fname) {
        char path[4096];
        const char *slash = strrchr(here.dli_fname, '/');
        int folder = slash ? (int)(slash - here.dli_fname) : 0;
        int n = snprintf(path, sizeof path, "%.*s/" SIMULATOR, folder, here.dli_fname);
        void *library = slash && n < (int)sizeof path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
        if (library) return library;
    }
    return dlopen(SIMULATOR, RTLD_NOW | RTLD_LOCAL);
}

static bool open_library(const char *choice) {
    driver.simulated = strncmp(choice, "sim", 3) == 0 && (!choice[3] || choice[3] == ':');
    if (strcmp(choice, "off") == 0) return refuse("CUDA is turned off by FACULA_CUDA=off");
    if (*choice && !driver.simulated) {
        return refuse("FACULA_CUDA=%s is not understood: expected sim:N for N simulated GPUs, off, or nothing", choice);
    }
    driver.library = driver.simulated ? open_simulator() : dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (driver.library) return true;
    const char *reason = dlerror();
    if (driver.simulated) return refuse("the simulated CUDA driver was not found: %s", reason ? reason : SIMULATOR);
    return refuse("there is no CUDA driver: %s (install the NVIDIA driver, or use FACULA_CUDA=sim:1)",
                  reason ? reason : "libcuda.so.1 was not found");
}

/* ---- the table --------------------------------------------------------------------------------------------------- */

typedef CUresult (*get_v1)(const char *name, void **function, int version, cuuint64_t flags);
typedef CUresult (*get_v2)(const char *name, void **function, int version, cuuint64_t flags, int *status);
enum { LEGACY_STREAM = 1, OPTIONAL = 0, REQUIRED = 1 };

static const struct entry {
    const char *name, *symbol;
    int version, required;
    size_t offset;
} entries[] = {
#define ROW(name, symbol, version, need, parameters) {#name, #symbol, version, need, offsetof(fac_cu, name)},
    FAC_CU_ENTRIES(ROW)
#undef ROW
};

static void *resolve(const struct entry *e) {
    void *function = NULL, *ask = dlsym(driver.library, "cuGetProcAddress_v2");
    int status;
    if (ask) ((get_v2)ask)(e->name, &function, e->version, LEGACY_STREAM, &status);
    if (!ask && (ask = dlsym(driver.library, "cuGetProcAddress"))) {
        ((get_v1)ask)(e->name, &function, e->version, LEGACY_STREAM);
    }
    return function ? function : dlsym(driver.library, e->symbol);
}

static bool fill_table(void) {
    for (size_t i = 0; i < FAC_COUNT(entries); i++) {
        const struct entry *e = &entries[i];
        void *function = resolve(e);
        if (!function && e->required) {
            return refuse("the CUDA driver (version %d.%d) lacks %s, which drivers since CUDA %d.%d have: update it",
                          driver.version / 1000, driver.version % 1000 / 10, e->symbol, e->version / 1000,
                          e->version % 1000 / 10);
        }
        memcpy((char *)&fac__cu + e->offset, &function, sizeof function);
    }
    return true;
}

/* ---- starting ---------------------------------------------------------------------------------------------------- */

static bool refuse_start(CUresult r) {
    const char *text = NULL, *visible = fac__env("CUDA_VISIBLE_DEVICES");
    if (r == CUDA_ERROR_STUB_LIBRARY) {
        return refuse(
            "libcuda.so.1 is the stub of the CUDA toolkit, which is there for linking only: take the toolkit's "
            "stubs folder out of LD_LIBRARY_PATH, so that the driver's own library is found");
    }
    if (r == CUDA_ERROR_NO_DEVICE) {
        return refuse("the CUDA driver shows no device%s%s", visible ? ": CUDA_VISIBLE_DEVICES=" : "",
                      visible ? visible : "");
    }
    if (fac__cu.cuGetErrorString(r, &text) || !text) text = "unknown";
    return refuse("the CUDA driver does not start: %s (%s)", fac__cu_name(r), text);
}

static void forked(void) {
    if (driver.initialised) atomic_store(&driver.forked, true);
}

static bool start(void) {
    static bool watching;
    const char *choice = fac__env("FACULA_CUDA");
    if (!open_library(choice ? choice : "")) return false;
    CUresult (*version)(int *) = (CUresult(*)(int *))dlsym(driver.library, "cuDriverGetVersion");
    if (version) version(&driver.version);
    if (!fill_table()) return false;
    CUresult r = fac__cu.cuInit(0);
    if (r) return refuse_start(r);
    driver.initialised = true;
    if (!watching) pthread_atfork(NULL, NULL, forked);
    watching = true;
    r = fac__cu.cuDeviceGetCount(&driver.count);
    return r ? refuse_start(r) : true;
}

/* Gives the library back; the system's stays, for it is not made to be unloaded. */
static void close_library(void) {
    void (*stop)(void) =
        driver.simulated && driver.library ? (void (*)(void))dlsym(driver.library, "simcuda_stop") : NULL;
    if (stop) stop();
    if (driver.simulated && driver.library) dlclose(driver.library);
    memset(&fac__cu, 0, sizeof fac__cu);
    driver.library = NULL;
    driver.version = driver.count = 0;
    driver.initialised = driver.simulated = false;
}

/* Starts the driver once; true if it can be used. Sets no error. */
static bool usable(void) {
    int state = atomic_load_explicit(&driver.state, memory_order_acquire);
    if (FAC_LIKELY(state == LOADED)) return !atomic_load_explicit(&driver.forked, memory_order_relaxed);
    fac__mutex_lock(&driver.mutex);
    if (atomic_load(&driver.state) == UNTRIED) {
        bool started = start();
        if (!started) close_library();
        atomic_store_explicit(&driver.state, started ? LOADED : FAILED, memory_order_release);
    }
    fac__mutex_unlock(&driver.mutex);
    return atomic_load(&driver.state) == LOADED && !atomic_load(&driver.forked);
}

fac_status fac__cu_load(void) {
    if (FAC_LIKELY(usable())) return FAC_OK;
    FAC_CHECK(!atomic_load(&driver.forked), FAC_ERR_DEVICE,
              "cannot re-initialise CUDA in a forked child: the parent had started it. Start the child with exec, fork "
              "before CUDA is used, or set FACULA_NVML_BASED_CUDA_CHECK=1 if it was only asked whether there is a GPU");
    return FAC_FAIL(FAC_ERR_DEVICE, "%s", driver.failure);
}

void fac__cu_unload(void) {
    fac__mutex_lock(&driver.mutex);
    if (!atomic_load(&driver.forked)) {
        close_library();
        atomic_store(&driver.state, UNTRIED);
    }
    fac__mutex_unlock(&driver.mutex);
}

/* ---- asking ------------------------------------------------------------------------------------------------------ */

bool fac__cu_is_simulated(void) { return driver.simulated; }
void *fac__cu_library(void) { return driver.library; }
int fac__cu_version(void) { return driver.version; }
bool fac__cu_forked(void) { return atomic_load(&driver.forked); }

/* The simulator's count without starting it; -1 if it cannot be asked. */
static int simulated_count(void) {
    void *library = open_simulator();
    int (*count)(void) = library ? (int (*)(void))dlsym(library, "simcuda_device_count") : NULL;
    int n = count ? count() : -1;
    if (library) dlclose(library);
    return n;
}

static int count_without_driver(void) {
    const char *choice = fac__env("FACULA_CUDA");
    if (!choice || !*choice) return fac__nvml_device_count();
    return strncmp(choice, "sim", 3) == 0 ? simulated_count() : -1;
}

int fac__cu_device_count(void) {
    if (atomic_load(&driver.forked)) return driver.count;
    if (atomic_load(&driver.state) == UNTRIED && fac__env_int("FACULA_NVML_BASED_CUDA_CHECK", 0, 1, 0)) {
        int n = count_without_driver();
        if (n >= 0) return n;
    }
    return usable() ? driver.count : 0;
}

const char *fac__cu_name(CUresult r) {
    switch (r) {
#define NAME(name, value) \
    case name: return #name;
        FAC_CU_RESULTS(NAME)
#undef NAME
    }
    return "an unknown CUDA error";
}

fac_status fac__cu_image_error(CUresult r, const char *what) {
    const char *text = NULL;
    int major = driver.version / 1000, minor = driver.version % 1000 / 10;
    switch (r) {
    case CUDA_ERROR_UNSUPPORTED_PTX_VERSION:
        return FAC_FAIL(FAC_ERR_DEVICE, "the CUDA driver (version %d.%d) is too old for %s: update the driver (%s)",
                        major, minor, what, fac__cu_name(r));
    case CUDA_ERROR_INVALID_IMAGE:
        return FAC_FAIL(
            FAC_ERR_DEVICE,
            "%s is nothing that the CUDA driver (version %d.%d) can read: it is damaged, or the driver is too "
            "old for the toolkit that made it (%s)",
            what, major, minor, fac__cu_name(r));
    case CUDA_ERROR_NO_BINARY_FOR_GPU:
        return FAC_FAIL(FAC_ERR_DEVICE,
                        "%s has no code for this GPU, and none that the driver (version %d.%d) can compile: "
                        "build it for the GPU's architecture, or update the driver (%s)",
                        what, major, minor, fac__cu_name(r));
    default:
        if (!fac__cu.cuGetErrorString || fac__cu.cuGetErrorString(r, &text) || !text) text = "no text";
        return FAC_FAIL(r == CUDA_ERROR_OUT_OF_MEMORY ? FAC_ERR_MEMORY : FAC_ERR_DEVICE,
                        "%s could not be loaded: %s (%s)", what, fac__cu_name(r), text);
    }
}
