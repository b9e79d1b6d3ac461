/* The key of what a compiler makes: SHA-256 over everything that decides it. */
#ifndef FAC_SRC_JIT_KEY_H
#define FAC_SRC_JIT_KEY_H

#include "jit/jit.h"
#include "jit/sha256.h"

typedef struct fac_jit_key {
    unsigned char bytes[FAC_SHA256_BYTES];
    char text[2 * FAC_SHA256_BYTES + 1]; /* the same, in hexadecimal */
} fac_jit_key;

/* compiler: which one, of which version, for which target and instruction set. What this build of Facula is goes in as well,
   since the texts rely on what it exports. */
void fac__jit_key_of(const fac_jit_source *source, const char *compiler, fac_jit_key *out);

/* What tells this build of Facula from another: the linker's build id, or path, size and time of the file. */
void fac__jit_build_id(char *out, size_t size);
/* What tells a file from another under its path: size, time and number. Empty if it is not there. */
void fac__jit_file_identity(const char *path, char *out, size_t size);

#endif
