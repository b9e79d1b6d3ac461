/* The inside of data sets: what each kind can do, and the objects that share it. Tensors are handles here, as functions of
   the program's give and take them. */
#ifndef FAC_SRC_DATA_DATASET_H
#define FAC_SRC_DATA_DATASET_H

#include "core/handle.h"
#include <facula/dataset.h>

/* What a kind of data sets does. Of map style: get, perhaps gather. A stream: draw, perhaps finish, start and skip. */
typedef struct dataset_kind {
    fac_status (*get)(fac_dataset *d, const fac_sample *at, fac_tensor **out);
    /* Many samples at once, stacked (NULL: one by one). */
    fac_status (*gather)(fac_dataset *d, const int64_t *indices, int64_t n, fac_tensor **out);
    /* What of the next sample is made by one thread at a time: raw_columns tensors. False at the end and on an error. */
    bool (*draw)(fac_dataset *d, const fac_sample *at, fac_tensor **out);
    /* What is then made of it on any thread (NULL: nothing). */
    fac_status (*finish)(fac_dataset *d, const fac_sample *at, fac_tensors raw, fac_tensor **out);
    fac_status (*start)(fac_dataset *d, int64_t epoch);
    fac_status (*skip)(fac_dataset *d, int64_t n); /* NULL: they are drawn and dropped */
    void (*end)(fac_dataset *d);
} dataset_kind;

/* The first member of each kind's own struct. */
struct fac_dataset {
    atomic_int refs;
    const dataset_kind *kind;
    int64_t length; /* -1: a stream */
    size_t columns, raw_columns;
    int64_t epoch, at; /* of fac_dataset_next; loaders count for themselves */
};

/* A zeroed object of `bytes` that begins with a data set. */
void *fac__dataset_alloc(size_t bytes, const dataset_kind *kind, int64_t length, size_t columns);
/* Sample at->index, whose number has been checked. An error names it. */
fac_status fac__dataset_item(fac_dataset *d, const fac_sample *at, fac_tensor **out);
/* The two steps of a stream's next sample. */
bool fac__dataset_draw(fac_dataset *d, const fac_sample *at, fac_tensor **out_raw);
fac_status fac__dataset_finish(fac_dataset *d, const fac_sample *at, fac_tensors raw, fac_tensor **out);
/* The second for a kind that is made of d: an error does not name the sample, which the outermost names. */
fac_status fac__dataset_finish_inner(fac_dataset *d, const fac_sample *at, fac_tensors raw, fac_tensor **out);
/* Leaves out n samples of a stream. */
fac_status fac__dataset_skip(fac_dataset *d, int64_t n);
/* Goes to sample n of a stream's epoch. */
fac_status fac__dataset_seek(fac_dataset *d, int64_t epoch, int64_t n);
/* What a function of the program's left behind: its status, the pending error, and tensors that all live. */
fac_status fac__dataset_check(fac_status st, fac_tensor **out, size_t n, const char *what);
/* The seed of the sample at a place of an epoch. */
uint64_t fac__item_seed(uint64_t seed, int64_t epoch, int64_t place);

#endif
