/* The options of the caching allocators: PyTorch's names and grammar, "key:value,key:[256:1,>:2]". */
#ifndef FAC_SRC_BACKEND_CUDA_RUNTIME_ALLOC_CONFIG_H
#define FAC_SRC_BACKEND_CUDA_RUNTIME_ALLOC_CONFIG_H

#include "base/base.h"

enum {
    FAC_ROUNDUP_INTERVALS = 16,    /* 1 MiB, 2 MiB, ... up to 32 GiB and more */
    FAC_MAX_REGISTER_THREADS = 128 /* as in PyTorch */
};

/* Sizes in bytes. */
typedef struct fac_alloc_config {
    bool async;        /* backend:cudaMallocAsync */
    bool ignores_some; /* it ignores some of the options that were given: worth a warning */
    int64_t large_segment, max_split, max_non_split_rounding;
    double gc_threshold;                    /* 0: no garbage collection */
    double memory_fraction;                 /* negative: no limit was asked for */
    int64_t roundup[FAC_ROUNDUP_INTERVALS]; /* divisions between powers of two; 0 and 1: none */
    bool expandable, release_lock, capture_reuse, reject_early;
    bool pinned_register, pinned_background, pinned_catch_all;
    int64_t pinned_threads, pinned_reserve, pinned_max_round, pinned_max_cached;
} fac_alloc_config;

/* Takes an option that the parser does not know. */
typedef fac_status (*fac_alloc_option)(const void *context, const char *key, const char *value);

/* Parses `text` over the defaults (NULL or "": the defaults). `where` names its origin in messages; `other` may be NULL.
   errors: ARGUMENT; *out is then unchanged */
fac_status fac__alloc_config_parse(const char *text, const char *where, fac_alloc_option other, const void *context,
                                   fac_alloc_config *out);
/* The text of the first of FACULA_CUDA_ALLOC_CONF, PYTORCH_ALLOC_CONF and PYTORCH_CUDA_ALLOC_CONF that is set, and which;
   "" if none is. */
const char *fac__alloc_config_env(const char **out_name);
/* The divisions that hold for a size. */
int64_t fac__alloc_divisions(const fac_alloc_config *c, int64_t bytes);
/* The next of the sizes that lie evenly, `divisions` to each power of two: 1200 with 4 is 1280. */
int64_t fac__alloc_roundup(int64_t bytes, int64_t divisions);

#endif
