/* Code on devices: the built-in image and those of users, each loaded on a device when it is first needed there. */
#include "backend/cuda/runtime/module.h"
#include "backend/cuda/runtime/compile.h"
#include "backend/cuda/runtime/images.h"
#include "backend/cuda/runtime/parts.h"
#include "base/mutex.h"
#include <stdio.h>

static fac_mutex lock = FAC_MUTEX_INIT; /* of everything here and of users' modules */

static CUresult load(const void *image, CUmodule *out) {
    CUstreamCaptureMode mode = fac__cuda_relax();
    CUresult r = fac__cu.cuModuleLoadData(out, image);
    fac__cuda_unrelax(mode);
    return r;
}

/* `what` names the image in errors. */
static fac_status load_image(const void *image, const char *what, CUmodule *out) {
    CUresult r = load(image, out);
    return r == CUDA_SUCCESS ? FAC_OK : fac__cu_image_error(r, what);
}

static fac_status find_function(CUmodule module, const char *name, const char *what, CUfunction *out) {
    CUstreamCaptureMode mode = fac__cuda_relax(); /* code may be loaded only now */
    CUresult r = fac__cu.cuModuleGetFunction(out, module, name);
    fac__cuda_unrelax(mode);
    FAC_CHECK(r != CUDA_ERROR_NOT_FOUND, FAC_ERR_NOT_FOUND, "%s has no kernel '%s'", what, name);
    FAC_CU_AS(r, "cuModuleGetFunction");
    return FAC_OK;
}

/* ---- the built-in image ------------------------------------------------------------------------------------------------------ */

static CUmodule builtin[FAC_CUDA_MAX_DEVICES];

/* Where handles were stored, so that a stop can take them back. */
static struct {
    _Atomic(void *) **v;
    size_t n, cap;
} stored[FAC_CUDA_MAX_DEVICES];

static const char what[] = "the library's image of CUDA kernels";

/* Whether the driver is too old for the image, or the image too old for the device. */
static bool is_mismatch(CUresult r) {
    return r == CUDA_ERROR_UNSUPPORTED_PTX_VERSION || r == CUDA_ERROR_NO_BINARY_FOR_GPU ||
           r == CUDA_ERROR_INVALID_IMAGE;
}

static fac_status load_compiled(int index, CUmodule *out) {
    const void *image;
    FAC_TRY(fac__cuda_builtin_compiled(index, &image));
    return load_image(image, what, out);
}

/* The embedded image; if there is none, or this driver or device has no use for it, the embedded sources, compiled for them.
   Should that fail too, the error gives both reasons. */
static fac_status load_builtin(int index, CUmodule *out) {
    const void *image;
    FAC_TRY(fac__cuda_builtin_image(index, &image));
    if (!image) return load_compiled(index, out);
    CUresult r = load(image, out);
    if (r == CUDA_SUCCESS) return FAC_OK;
    if (!is_mismatch(r)) return fac__cu_image_error(r, what);
    if (load_compiled(index, out) == FAC_OK) return FAC_OK;
    char both[1024];
    snprintf(both, sizeof both, "%s (nor can its sources be used: %s)", what, fac_error_message());
    fac_error_clear();
    return fac__cu_image_error(r, both);
}

static fac_status find_builtin(fac_cuda_kernel *k, int index, CUfunction *out) {
    *out = atomic_load_explicit(&k->handle[index], memory_order_relaxed);
    if (*out) return FAC_OK; /* another thread was first */
    FAC_TRY(FAC_VEC_GROW(&stored[index]));
    if (!builtin[index]) FAC_TRY(load_builtin(index, &builtin[index]));
    FAC_TRY(find_function(builtin[index], k->name, what, out));
    stored[index].v[stored[index].n++] = &k->handle[index];
    atomic_store_explicit(&k->handle[index], *out, memory_order_release);
    return FAC_OK;
}

fac_status fac__cuda_builtin(fac_cuda_kernel *k, int index, CUfunction *out) {
    fac__mutex_lock(&lock);
    fac_status st = find_builtin(k, index, out);
    fac__mutex_unlock(&lock);
    return st;
}

static void stop_builtin(int index) {
    for (size_t i = 0; i < stored[index].n; i++) atomic_store_explicit(stored[index].v[i], NULL, memory_order_relaxed);
    fac__free(stored[index].v);
    memset(&stored[index], 0, sizeof stored[index]);
    if (builtin[index]) fac__cu.cuModuleUnload(builtin[index]);
    builtin[index] = NULL;
}

/* ---- users' modules ------------------------------------------------------------------------------------------------------------- */

static fac_cuda_module *modules;

void fac__cuda_module_link(fac_cuda_module *m) {
    fac__mutex_lock(&lock);
    m->next = modules;
    if (modules) modules->prev = m;
    modules = m;
    fac__mutex_unlock(&lock);
}

void fac__cuda_module_unlink(fac_cuda_module *m) {
    fac__mutex_lock(&lock);
    if (m->next) m->next->prev = m->prev;
    if (m->prev)
        m->prev->next = m->next;
    else
        modules = m->next;
    fac__mutex_unlock(&lock);
}

/* Forgets what a module has on a device; its context is current. */
void fac__cuda_module_unload(fac_cuda_module *m, int index) {
    if (m->loaded[index]) fac__cu.cuModuleUnload(m->loaded[index]);
    m->loaded[index] = NULL;
    if (m->compiled[index]) fac__cuda_compiled_free(index, m->compiled[index]);
    m->compiled[index] = NULL;
    for (fac_cuda_function *f = m->functions; f; f = f->next)
        atomic_store_explicit(&f->handles[index], NULL, memory_order_relaxed);
}

static fac_cuda_function *find_locked(fac_cuda_module *m, const char *name) {
    fac_cuda_function *f = m->functions;
    while (f && strcmp(f->name, name) != 0) f = f->next;
    return f;
}

fac_cuda_function *fac__cuda_module_find(fac_cuda_module *m, const char *name) {
    fac__mutex_lock(&lock);
    fac_cuda_function *f = find_locked(m, name);
    fac__mutex_unlock(&lock);
    return f;
}

fac_cuda_function *fac__cuda_module_add(fac_cuda_module *m, fac_cuda_function *f) {
    fac__mutex_lock(&lock);
    fac_cuda_function *other = find_locked(m, f->name);
    if (!other) {
        f->next = m->functions;
        m->functions = f;
    }
    fac__mutex_unlock(&lock);
    return other ? other : f;
}

static fac_status load_locked(fac_cuda_module *m, int index) {
    if (m->loaded[index]) return FAC_OK;
    if (m->source && !m->compiled[index])
        FAC_TRY(fac__cuda_compile(index, &(fac_jit_source){.name = m->name, .text = m->source}, &m->compiled[index]));
    return load_image(m->source ? m->compiled[index] : m->image, m->name, &m->loaded[index]);
}

fac_status fac__cuda_module_on(fac_cuda_module *m, int index) {
    fac__mutex_lock(&lock);
    fac_status st = load_locked(m, index);
    fac__mutex_unlock(&lock);
    return st;
}

static fac_status resolve_locked(fac_cuda_function *f, int index, CUfunction *out) {
    fac_cuda_module *m = f->module;
    *out = atomic_load_explicit(&f->handles[index], memory_order_relaxed);
    if (*out) return FAC_OK;
    FAC_TRY(load_locked(m, index));
    FAC_TRY(find_function(m->loaded[index], f->name, m->name, out));
    atomic_store_explicit(&f->handles[index], *out, memory_order_release);
    return FAC_OK;
}

fac_status fac__cuda_resolve(fac_cuda_function *f, int index, CUfunction *out) {
    *out = atomic_load_explicit(&f->handles[index], memory_order_acquire);
    if (FAC_LIKELY(*out != NULL)) return FAC_OK;
    fac__mutex_lock(&lock);
    fac_status st = resolve_locked(f, index, out);
    fac__mutex_unlock(&lock);
    return st;
}

void fac__cuda_modules_stop(int index) {
    fac__mutex_lock(&lock);
    stop_builtin(index);
    for (fac_cuda_module *m = modules; m; m = m->next) fac__cuda_module_unload(m, index);
    fac__mutex_unlock(&lock);
}
