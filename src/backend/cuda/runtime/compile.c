/* Compiles CUDA C by NVRTC, or by the C compiler for simulated devices, and loads the result. */
#define _GNU_SOURCE 1 /* dladdr */
#include "backend/cuda/runtime/compile.h"

#include <dlfcn.h>

fac_status fac__cuda_with_dialect(const fac_jit_source *s, fac_jit_text room[FAC_CUDA_MAX_HEADERS],
                                  fac_jit_source *out) {
    FAC_CHECK(s->n_headers + fac__cuda_n_dialect <= FAC_CUDA_MAX_HEADERS, FAC_ERR_ARGUMENT, "%s: more than %d headers",
              s->name, FAC_CUDA_MAX_HEADERS - (int)fac__cuda_n_dialect);
    memcpy(room, fac__cuda_dialect, fac__cuda_n_dialect * sizeof *room);
    if (s->n_headers) memcpy(room + fac__cuda_n_dialect, s->headers, s->n_headers * sizeof *room);
    *out = *s;
    out->headers = room;
    out->n_headers = fac__cuda_n_dialect + s->n_headers;
    return FAC_OK;
}

/* Messages and assertions name the source as its author does. Behind it comes the table of its kernels. */
static fac_status simulated_text(const fac_jit_source *s, fac_buf *out) {
    if (!strpbrk(s->name, "\"\\\n")) FAC_TRY(fac__buf_printf(out, "#line 1 \"%.200s\"\n", s->name));
    FAC_TRY(fac__buf_add(out, s->text, strlen(s->text)));
    return fac__buf_printf(out, "\n#include \"kernel.h\"\nKERNEL_IMAGE(facula_user_image)\n");
}

/* For the simulator: the host's code, linked with the simulated driver. */
static fac_status compile_simulated(const fac_jit_source *source, void **out_image) {
    Dl_info driver;
    fac_buf text = {0};
    void *library = NULL;
    bool known = dladdr((void *)(uintptr_t)fac__cu.cuInit, &driver) && driver.dli_fname;
    FAC_CHECK(known, FAC_ERR_UNSUPPORTED, "the simulated driver's file is not known, so nothing can be linked with it");
    fac_jit_source s = *source;
    fac_status st = simulated_text(source, &text);
    s.text = text.data;
    s.inputs = &driver.dli_fname;
    s.n_inputs = 1;
    if (st == FAC_OK) st = fac__jit_compile_host(&s, &library);
    fac__buf_free(&text);
    if (st) return st;
    *out_image = dlsym(library, "facula_user_image");
    FAC_CHECK(*out_image, FAC_ERR_FORMAT, "%s: %s", source->name, dlerror());
    return FAC_OK;
}

fac_status fac__cuda_compile(int index, const fac_jit_source *source, void **out_image) {
    fac_cuda_device *d;
    fac_jit_source s;
    fac_jit_text headers[FAC_CUDA_MAX_HEADERS];
    char *code = NULL;
    size_t bytes;
    *out_image = NULL;
    FAC_TRY(fac__cuda_device(index, &d));
    FAC_TRY(fac__cuda_with_dialect(source, headers, &s));
    if (fac__cu_is_simulated()) return compile_simulated(&s, out_image);
    FAC_TRY(fac__jit_compile_device(&s, d->major * 10 + d->minor, fac__cu_version(), &code, &bytes));
    *out_image = code;
    return FAC_OK;
}

/* What is simulated stays loaded: launches of it may be queued. */
void fac__cuda_compiled_free(int index, void *image) {
    (void)index;
    if (!fac__cu_is_simulated()) fac__free(image);
}

fac_status fac__cuda_compile_builtin(int index, void **out_image) {
    FAC_CHECK(fac__cuda_n_sources, FAC_ERR_UNSUPPORTED,
              "this build of Facula has no CUDA kernels: configure it with -DFACULA_CUDA_IMAGES=nvcc (needs the CUDA "
              "toolkit) or nvrtc (compiles at run time)");
    const fac_jit_source s = {.name = "facula.cu",
                              .text = fac__cuda_sources[0].text,
                              .headers = fac__cuda_sources + 1,
                              .n_headers = fac__cuda_n_sources - 1};
    return fac__cuda_compile(index, &s, out_image);
}
