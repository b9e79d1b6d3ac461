/* What compilers made, on disk: a folder of ours under $XDG_CACHE_HOME/facula, or ~/.cache/facula.

   An entry is a file named by its key. Behind what was made stands a footer: a mark, the length, the key and the SHA-256 of all
   of it. Loading an entry runs it, so that nothing is taken that others could have put there: folder and file belong to the
   user, nobody else may write to them, no link is followed, and all checks are made on the open file whose bytes are used.
   What fails a check is removed and made again. */
#ifndef FAC_SRC_JIT_CACHE_H
#define FAC_SRC_JIT_CACHE_H

#include "jit/key.h"

enum {
    FAC_JIT_ENTRY_MAX = 64 << 20,   /* bytes of an entry; what is larger is not kept */
    FAC_JIT_CACHE_MAX = 512 << 20,  /* of all entries; the oldest go first */
    FAC_JIT_TEMPORARY_SECONDS = 600 /* a temporary file of this age belongs to a process that was killed */
};

/* The folder, made if need be, as a descriptor to be closed; -1 where nothing can be kept: no place for it, a folder that is
   not the user's alone, or a process with more rights than its user. Sets no error. */
int fac__jit_cache_open(void);
/* The entry, from fac__alloc; *out is NULL if there is none that is whole and the user's own.
   errors: MEMORY */
fac_status fac__jit_cache_read(int folder, const fac_jit_key *key, const char *suffix, char **out, size_t *out_bytes);
/* Puts an entry in place, whole or not at all, and removes old ones when there is too much. A failure is no error: the next one
   compiles again. */
void fac__jit_cache_write(int folder, const fac_jit_key *key, const char *suffix, const char *data, size_t bytes);
/* Removes the oldest entries until they take no more than `most` bytes, and what killed writers left. */
void fac__jit_cache_trim(int folder, int64_t most);

#endif
