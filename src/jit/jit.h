/* Compilers that run while the program does, and what they are given.

   What they make is kept on disk (cache.h) by a key over everything that went in (key.h), checked when it is read, and compiled
   anew if anything about it is wrong. A process with more rights than its user (setuid, file capabilities) keeps nothing, and
   runs no compiler of the system. */
#ifndef FAC_SRC_JIT_JIT_H
#define FAC_SRC_JIT_JIT_H

#include "base/base.h"

/* A file that sources may include, under this name. */
typedef struct fac_jit_text {
    const char *name, *text;
} fac_jit_text;

typedef struct fac_jit_source {
    const char *name; /* for messages */
    const char *text;
    const fac_jit_text *headers;
    size_t n_headers;
    const char *const *options; /* "-DN=4" */
    size_t n_options;
    const char *const
        *inputs; /* paths of objects that the result is linked with; the host's compiler alone takes them */
    size_t n_inputs;
} fac_jit_source;

/* Compiles C with the system's compiler (`cc`, or what CC names) into a shared object and loads it for good; the same source
   once more gives the same library. The handle is for dlsym.
   errors: UNSUPPORTED if there is no compiler that works, or the process may not run one; FORMAT with the compiler's messages;
           IO; MEMORY */
fac_status fac__jit_compile_host(const fac_jit_source *source, void **out_library);

/* Compiles CUDA C with NVRTC for an architecture (90 is sm_90); the code is from fac__alloc. driver_version as CUDA counts:
   the compiler of the same major version is preferred.
   errors: UNSUPPORTED if NVRTC is not there; FORMAT with its messages; IO; MEMORY */
fac_status fac__jit_compile_device(const fac_jit_source *source, int arch, int driver_version, char **out,
                                   size_t *out_bytes);

#endif
