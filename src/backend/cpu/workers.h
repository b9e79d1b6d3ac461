/* The threads that help callers with their jobs. They are made when a job first wants them, and sleep when there is none.
   Nothing depends on them: a process that may make no thread computes with the threads that call. */
#ifndef FAC_SRC_BACKEND_CPU_WORKERS_H
#define FAC_SRC_BACKEND_CPU_WORKERS_H

#include "base/base.h"

#define FAC_MAX_THREADS 1024

/* A job was published that up to n workers may help with: makes those that are missing, and wakes those asleep. */
void fac__workers_call(int n);
/* Ends and joins all; the next call makes new ones. */
void fac__workers_stop(void);
int fac__workers_count(void);
/* True on a worker's thread. */
bool fac__is_worker(void);
/* In the child of a fork, where they are not: starts from none. */
void fac__workers_forget(void);

#endif
