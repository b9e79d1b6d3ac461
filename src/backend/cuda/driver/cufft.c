/* Loads cuFFT and fills the table of its entries. */
#include "backend/cuda/driver/cufft.h"
#include "backend/cuda/driver/driver.h"
#include "base/mutex.h"
#include <dlfcn.h>
#include <stdio.h>

static fac_mutex lock = FAC_MUTEX_INIT; /* of table, until it is loaded */
static fac_cufft table;
static atomic_bool loaded;

/* Newest first. A library needs a driver of its own CUDA or a later one. */
static const struct {
    int driver;
    const char *name;
} sonames[] = {{13000, "libcufft.so.12"}, {12000, "libcufft.so.11"}, {11000, "libcufft.so.10"}};

/* What dlopen said of each, one after another. */
static void note(char *why, size_t size) {
    const char *said = dlerror();
    const size_t used = strlen(why);
    snprintf(why + used, size - used, "%s%s", used ? "; " : "", said ? said : "unknown");
}

static void *open_newest(char *why, size_t size) {
    void *library = NULL;
    for (size_t i = 0; i < FAC_COUNT(sonames) && !library; i++) {
        if (fac__cu_version() < sonames[i].driver) continue;
        library = dlopen(sonames[i].name, RTLD_NOW | RTLD_LOCAL);
        if (!library) note(why, size);
    }
    return library;
}

static void *open_library(char *why, size_t size) {
    const char *named = fac__env("FACULA_CUFFT_LIBRARY");
    *why = 0;
    if (!(named && *named)) return fac__cu_is_simulated() ? fac__cu_library() : open_newest(why, size);
    void *library = dlopen(named, RTLD_NOW | RTLD_LOCAL);
    if (!library) note(why, size);
    return library;
}

static const struct {
    const char *name;
    size_t offset;
} entries[] = {
#define ROW(name, parameters) {#name, offsetof(fac_cufft, name)},
    FAC_CUFFT_ENTRIES(ROW)
#undef ROW
};

/* The first entry that is missing, or NULL. */
static const char *fill(void *library, fac_cufft *out) {
    for (size_t i = 0; i < FAC_COUNT(entries); i++) {
        void *function = dlsym(library, entries[i].name);
        if (!function) return entries[i].name;
        memcpy((char *)out + entries[i].offset, &function, sizeof function);
    }
    return NULL;
}

/* A library that was opened stays: it is not made to be unloaded. */
static fac_status load_locked(void) {
    char why[1024];
    fac_cufft filled;
    if (atomic_load_explicit(&loaded, memory_order_relaxed)) return FAC_OK;
    void *library = open_library(why, sizeof why);
    FAC_CHECK(library, FAC_ERR_UNSUPPORTED,
              "Fourier transforms on CUDA devices need cuFFT, which was not found: %s (install NVIDIA's cuFFT for the "
              "driver's CUDA %d, name its file in FACULA_CUFFT_LIBRARY, or transform on the CPU)",
              *why ? why : "the driver is older than CUDA 11", fac__cu_version() / 1000);
    const char *missing = fill(library, &filled);
    FAC_CHECK(!missing, FAC_ERR_UNSUPPORTED, "the cuFFT that was found lacks %s: install a newer one", missing);
    table = filled;
    atomic_store_explicit(&loaded, true, memory_order_release);
    return FAC_OK;
}

fac_status fac__cufft_load(const fac_cufft **out) {
    fac_status st = FAC_OK;
    *out = &table;
    if (FAC_LIKELY(atomic_load_explicit(&loaded, memory_order_acquire))) return FAC_OK;
    fac__mutex_lock(&lock);
    st = load_locked();
    fac__mutex_unlock(&lock);
    return st;
}

void fac__cufft_unload(void) { atomic_store_explicit(&loaded, false, memory_order_release); }

const char *fac__cufft_name(cufftResult r) {
    switch (r) {
#define NAME(name, value) \
    case name: return #name;
        FAC_CUFFT_RESULTS(NAME)
#undef NAME
    }
    return "a result that cuFFT did not have before";
}
