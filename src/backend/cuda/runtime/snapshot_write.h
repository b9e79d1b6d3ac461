/* How snapshots are written: what is in them is told once, to one of two emitters. */
#ifndef FAC_SRC_BACKEND_CUDA_RUNTIME_SNAPSHOT_WRITE_H
#define FAC_SRC_BACKEND_CUDA_RUNTIME_SNAPSHOT_WRITE_H

#include "base/base.h"
#include <facula/cuda_memory.h>

/* Takes a tree of values in order. `key` is NULL within lists and for the root. After a failure calls do nothing. */
typedef struct fac_emitter {
    void (*open)(void *self, const char *key, bool is_list);
    void (*close)(void *self, bool is_list);
    void (*integer)(void *self, const char *key, int64_t v);
    void (*number)(void *self, const char *key, double v);
    void (*boolean)(void *self, const char *key, bool v);
    void (*text)(void *self, const char *key, const char *v);
    void (*pair)(void *self, const char *key, int64_t a, int64_t b); /* a tuple, or a list of two */
} fac_emitter;

/* The snapshot in the form of torch.cuda.memory._snapshot(). */
void fac__snapshot_emit(const fac_memory_snapshot *s, const fac_emitter *e, void *self);
/* Both to be freed with fac__buf_free. */
fac_status fac__snapshot_pickle(const fac_memory_snapshot *s, fac_buf *out);
fac_status fac__snapshot_json(const fac_memory_snapshot *s, fac_buf *out);

#endif
