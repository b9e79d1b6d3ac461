/* Jobs: ranges that several threads work on, and the board on which any thread finds them. */
#ifndef FAC_SRC_BACKEND_CPU_JOBS_H
#define FAC_SRC_BACKEND_CPU_JOBS_H

#include "backend/cpu/parallel.h"
#include "core/thread.h"

/* Belongs to its caller, in whose frame it lies. Another thread touches it only between claiming a block of it and
   reporting that block done, and the caller stays until every block is. */
typedef struct fac_job {
    int64_t begin, end, grain; /* as given to fac__parallel_for */
    int64_t chunks, per;       /* a block is `per` consecutive chunks; the last block may have fewer */
    fac_range_fn fn;
    void *ctx;
    _Atomic(int64_t) failed_at; /* the lowest chunk that failed so far; those above it are not begun any more */
    fac_status status;          /* of that chunk, and its error */
    fac_saved_error *error;
} fac_job;

/* Computes the job on the calling thread and on up to threads - 1 workers. False: too many jobs are under way, and
   nothing was done. */
bool fac__job_run(fac_job *job, int threads);

/* For workers: computes blocks of whatever jobs there are, until each has none left that nobody has begun. `home` says
   which blocks of a job to begin with: a worker that finds the same ones each time finds them in its cache. */
void fac__jobs_help(int home);
/* How many jobs are under way. */
int fac__jobs_open(void);
/* In the child of a fork: jobs of threads that are not there are forgotten. */
void fac__jobs_forget(void);

#endif
