/* Mutexes that a fork finds unlocked.

   The child of a fork has one thread and a copy of every mutex as it was: one that another thread held would stay locked
   for ever, and what it guards be half changed. So a fork waits until no other thread holds any of these, and whoever would
   lock one meanwhile waits for the fork. All locks of the library are of this type (`make lint`).

   A thread that forks while it holds some itself (from a function that the library calls under a lock) keeps them in the
   child. Should others wait for it at that moment, the fork goes ahead after FAC_FORK_PATIENCE seconds. */
#ifndef FAC_SRC_BASE_MUTEX_H
#define FAC_SRC_BASE_MUTEX_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define FAC_FORK_PATIENCE 2.0

typedef struct fac_mutex {
    pthread_mutex_t mutex;
    bool recursive; /* the thread that holds it may lock it again */
    _Atomic(const void *)
        owner; /* of a recursive one: something of the thread's that a fork keeps, unlike its number */
    int again; /* how often its owner locked it beyond the first time */
} fac_mutex;
#define FAC_MUTEX_INIT \
    { .mutex = PTHREAD_MUTEX_INITIALIZER }
#define FAC_MUTEX_INIT_RECURSIVE \
    { .mutex = PTHREAD_MUTEX_INITIALIZER, .recursive = true }

void fac__mutex_lock(fac_mutex *m);
void fac__mutex_unlock(fac_mutex *m);
void fac__mutex_init(fac_mutex *m); /* as FAC_MUTEX_INIT */
void fac__mutex_destroy(fac_mutex *m);

/* A condition: waits may end early, so callers look again in a loop. */
typedef struct fac_cond {
    _Atomic(uint32_t) changes;
} fac_cond;
/* Unlocks m (not recursive), sleeps until the condition is announced, and locks m again. */
void fac__cond_wait(fac_cond *c, fac_mutex *m);
/* The same, for so many seconds at most. */
void fac__cond_wait_for(fac_cond *c, fac_mutex *m, double seconds);
/* Wakes all. Called with the mutex held. */
void fac__cond_announce(fac_cond *c);

/* As if a mutex were held between the two: around calls of libraries that have locks of their own. */
void fac__fork_hold(void);
void fac__fork_allow(void);

#endif
