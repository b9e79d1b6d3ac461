/* NVRTC, loaded when it is first needed. Its interface is declared here: nothing of the toolkit is needed to build. */
#include "jit/cache.h"

#include "base/mutex.h"
#include <dlfcn.h>
#include <stdio.h>
#include <unistd.h>

typedef struct program *nvrtc_program;

static struct nvrtc {
    void *library;
    int major, minor;
    int (*version)(int *major, int *minor);
    const char *(*error_text)(int result);
    int (*create)(nvrtc_program *p, const char *source, const char *name, int n, const char *const *headers,
                  const char *const *names);
    int (*destroy)(nvrtc_program *p);
    int (*compile)(nvrtc_program p, int n, const char *const *options);
    int (*log_size)(nvrtc_program p, size_t *size);
    int (*log)(nvrtc_program p, char *text);
    int (*code_size)(nvrtc_program p, size_t *size);
    int (*code)(nvrtc_program p, char *code);
} nvrtc;

static bool resolve(void *library) {
    const struct {
        const char *name;
        void *to;
    } entries[] = {
        {"nvrtcVersion", &nvrtc.version},        {"nvrtcGetErrorString", &nvrtc.error_text},
        {"nvrtcCreateProgram", &nvrtc.create},   {"nvrtcDestroyProgram", &nvrtc.destroy},
        {"nvrtcCompileProgram", &nvrtc.compile}, {"nvrtcGetProgramLogSize", &nvrtc.log_size},
        {"nvrtcGetProgramLog", &nvrtc.log},      {"nvrtcGetCUBINSize", &nvrtc.code_size},
        {"nvrtcGetCUBIN", &nvrtc.code},
    };
    for (size_t i = 0; i < FAC_COUNT(entries); i++) {
        void *symbol = dlsym(library, entries[i].name);
        if (!symbol) return false;
        memcpy(entries[i].to, &symbol, sizeof symbol);
    }
    return nvrtc.version(&nvrtc.major, &nvrtc.minor) == 0;
}

/* By the driver's major version first: what a newer compiler makes, an older driver may not load. */
static void load(int driver_major) {
    static const char *const folders[] = {"", "/usr/local/cuda/lib64/"};
    const int majors[] = {driver_major, 13, 12};
    for (size_t f = 0; f < FAC_COUNT(folders); f++)
        for (size_t i = 0; i < FAC_COUNT(majors); i++) {
            char path[96];
            if (majors[i] <= 0) continue;
            snprintf(path, sizeof path, "%slibnvrtc.so.%d", folders[f], majors[i]);
            nvrtc.library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
            if (nvrtc.library && resolve(nvrtc.library)) return;
            if (nvrtc.library) dlclose(nvrtc.library);
            nvrtc.library = NULL;
        }
}

static fac_status need_nvrtc(int driver_version) {
    static fac_mutex lock = FAC_MUTEX_INIT; /* of nvrtc, until it is loaded */
    fac__mutex_lock(&lock);
    if (!nvrtc.library) load(driver_version / 1000);
    fac__mutex_unlock(&lock);
    FAC_CHECK(nvrtc.library, FAC_ERR_UNSUPPORTED,
              "NVRTC, which compiles CUDA kernels at run time, was not found: install the CUDA toolkit's libnvrtc.so "
              "or add its folder to LD_LIBRARY_PATH");
    return FAC_OK;
}

static fac_status fail(nvrtc_program p, int result, const char *name) {
    size_t size = 0;
    char *log = NULL;
    if (p && nvrtc.log_size(p, &size) == 0 && size > 1) log = fac__alloc(size);
    if (log && nvrtc.log(p, log) != 0) log[0] = 0;
    fac_status st = FAC_FAIL(FAC_ERR_FORMAT, "%s: %s\n%s", name, nvrtc.error_text(result), log ? log : "");
    fac__free(log);
    return st;
}

static fac_status take_code(nvrtc_program p, const char *name, char **out, size_t *out_bytes) {
    size_t size = 0;
    int result = nvrtc.code_size(p, &size);
    if (result) return fail(p, result, name);
    *out = fac__alloc(size);
    if (!*out) return fac_error();
    result = nvrtc.code(p, *out);
    if (!result) {
        *out_bytes = size;
        return FAC_OK;
    }
    fac__free(*out);
    *out = NULL;
    return fail(p, result, name);
}

enum { MAX_HEADERS = 96, MAX_OPTIONS = 32 };

static fac_status make_program(const fac_jit_source *s, nvrtc_program *p) {
    const char *names[MAX_HEADERS], *texts[MAX_HEADERS];
    size_t n = 0;
    FAC_CHECK(s->n_headers <= MAX_HEADERS, FAC_ERR_ARGUMENT, "%s: more than %d headers", s->name, (int)MAX_HEADERS);
    for (size_t i = 0; i < s->n_headers; i++, n++) names[n] = s->headers[i].name, texts[n] = s->headers[i].text;
    int result = nvrtc.create(p, s->text, s->name, (int)n, texts, names);
    return result ? fail(NULL, result, s->name) : FAC_OK;
}

static fac_status compile(const fac_jit_source *s, int arch, char **out, size_t *out_bytes) {
    const char *options[MAX_OPTIONS];
    char of_arch[32];
    size_t n = 0;
    nvrtc_program p = NULL;
    FAC_CHECK(s->n_options + 3 <= MAX_OPTIONS, FAC_ERR_ARGUMENT, "%s: more than %d options", s->name, MAX_OPTIONS - 3);
    snprintf(of_arch, sizeof of_arch, "--gpu-architecture=sm_%d", arch);
    options[n++] = of_arch;
    options[n++] = "--fmad=false"; /* as the rest of the library: formulas have the same bits everywhere */
    options[n++] = "--device-int128";
    for (size_t i = 0; i < s->n_options; i++) options[n++] = s->options[i];
    FAC_TRY(make_program(s, &p));
    int result = nvrtc.compile(p, (int)n, options);
    fac_status st = result ? fail(p, result, s->name) : take_code(p, s->name, out, out_bytes);
    nvrtc.destroy(&p);
    return st;
}

fac_status fac__jit_compile_device(const fac_jit_source *source, int arch, int driver_version, char **out,
                                   size_t *out_bytes) {
    char compiler[64];
    fac_jit_key key;
    *out = NULL;
    FAC_TRY(need_nvrtc(driver_version));
    snprintf(compiler, sizeof compiler, "nvrtc %d.%d sm_%d", nvrtc.major, nvrtc.minor, arch);
    fac__jit_key_of(source, compiler, &key);
    const int cache = fac__jit_cache_open();
    fac_status st = fac__jit_cache_read(cache, &key, ".cubin", out, out_bytes);
    if (st == FAC_OK && !*out) {
        st = compile(source, arch, out, out_bytes);
        if (st == FAC_OK) fac__jit_cache_write(cache, &key, ".cubin", *out, *out_bytes);
    }
    if (cache >= 0) close(cache);
    return st;
}
