/* The inside of a loader. Its batches are numbered within an epoch: a ticket is drawn together with the numbers of the
   samples, under the lock and so in order; whoever has it makes the batch and puts it into the ring, from which the caller
   takes batches in the order of their tickets. So a batch depends on its ticket alone, not on who made it. */
#ifndef FAC_SRC_DATA_LOADER_H
#define FAC_SRC_DATA_LOADER_H

#include "base/mutex.h"
#include "core/thread.h"
#include "data/dataset.h"
#include "data/sampler.h"
#include <sys/types.h>

/* What came of a ticket: tensors, owned headers, or an error. */
typedef struct loader_slot {
    bool ready;
    fac_tensor **v; /* room for n_out */
    fac_saved_error *error;
} loader_slot;

/* A batch on its way, and the room to make it in; each thread has one. */
typedef struct loader_job {
    int worker; /* -1: the caller's thread */
    uint64_t generation;
    int64_t ticket, epoch, n;
    int64_t *indices;     /* room for a batch */
    fac_tensor **raw;     /* of a stream: a batch of raw samples; of the scope of whoever makes the batch */
    fac_tensor **samples; /* a batch of samples, one behind the other */
    fac_tensor **column;  /* one column of them */
    fac_tensor **out;     /* n_out owned headers */
} loader_job;

typedef struct loader_worker {
    struct fac_loader *l;
    pthread_t thread;
    int64_t number; /* as fac_cancel knows it; 0 before it has started */
    loader_job job;
} loader_worker;

struct fac_loader {
    /* Fixed once the first batch has been asked for. */
    fac_dataset *set;     /* counted */
    fac_sampler *sampler; /* counted; NULL for a stream */
    int64_t batch, most;  /* samples in a batch; at most as many as there are */
    int64_t depth;        /* batches in the ring */
    int64_t seed;
    int n_workers;
    bool drop_last, pin;
    double timeout;
    fac_collate_fn collate;
    void *collate_context;
    size_t n_out;
    fac_status (*init)(void *context, int worker);
    void *init_context;
    bool begun; /* the first batch was asked for */
    pid_t pid;  /* of the process that has the workers */
    loader_job here;
    loader_worker *workers; /* n_workers; NULL while none run */
    int n_started;

    fac_mutex lock;      /* of all below, and of the order that tickets follow */
    fac_cond made, room; /* a slot is ready, or the epoch has ended; there may be something to do for a worker */
    loader_slot *slots;  /* depth */
    int64_t epoch, tickets, given; /* tickets drawn in this epoch; batches given to the caller */
    uint64_t generation;           /* grows when what is on its way is no longer wanted */
    bool running;                  /* an epoch has begun */
    bool ended;                    /* it has no more tickets */
    bool drawing;                  /* a thread draws from a stream, without the lock */
    bool quit;
    int begun_workers;       /* that have done what the program has them do first: batches are given when all have */
    fac_saved_error *failed; /* a worker could not begin */
};

/* Room for a batch of the loader's. */
fac_status fac__loader_job_new(const fac_loader *l, loader_job *j, int worker);
void fac__loader_job_free(loader_job *j);
/* Draws the samples of the next batch: how many there are in j->n, 0 at the end of the epoch. From a stream, whose errors it
   gives. */
fac_status fac__loader_draw(fac_loader *l, loader_job *j);
/* Makes j->out from what was drawn, in a scope that is open. */
fac_status fac__loader_make(const fac_loader *l, loader_job *j);
/* Starts the threads, and ends them after what they are at. */
fac_status fac__loader_start_workers(fac_loader *l);
void fac__loader_end_workers(fac_loader *l);

#endif
