/* On Linux the kernel keeps the sleepers of a word (futex). Elsewhere, and where FACULA_FUTEX is off, a few mutexes with
   conditions do, each for the words whose addresses fall to it. */
#include "base/park.h"
#include <time.h>

/* At most a day, so that no clock overflows. */
static struct timespec span_of(double seconds) {
    const double bounded = seconds < 86400 ? seconds : 86400;
    const time_t whole = (time_t)bounded;
    return (struct timespec){.tv_sec = whole, .tv_nsec = (long)((bounded - (double)whole) * 1e9)};
}

#if FAC_FUTEX

#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

void fac__park(_Atomic(uint32_t) *word, uint32_t expected) {
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, expected, NULL, NULL, 0);
}
void fac__park_for(_Atomic(uint32_t) *word, uint32_t expected, double seconds) {
    const struct timespec span = span_of(seconds);
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, expected, &span, NULL, 0);
}
void fac__unpark(_Atomic(uint32_t) *word) { syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0); }
void fac__unpark_all(_Atomic(uint32_t) *word) { syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0); }
void fac__park_forget(void) {}

#else

#include <pthread.h>

#define BUCKET \
    { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER }
#define FOUR_BUCKETS BUCKET, BUCKET, BUCKET, BUCKET
typedef struct bucket {
    pthread_mutex_t lock;
    pthread_cond_t changed; /* one of the words that fall here */
} bucket;
static bucket buckets[] = {FOUR_BUCKETS, FOUR_BUCKETS, FOUR_BUCKETS, FOUR_BUCKETS};

static bucket *bucket_of(const _Atomic(uint32_t) *word) { return &buckets[((uintptr_t)word >> 6) % 16]; }

void fac__park(_Atomic(uint32_t) *word, uint32_t expected) {
    bucket *b = bucket_of(word);
    pthread_mutex_lock(&b->lock);
    if (atomic_load(word) == expected) pthread_cond_wait(&b->changed, &b->lock);
    pthread_mutex_unlock(&b->lock);
}

void fac__park_for(_Atomic(uint32_t) *word, uint32_t expected, double seconds) {
    bucket *b = bucket_of(word);
    const struct timespec span = span_of(seconds);
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += span.tv_sec;
    until.tv_nsec += span.tv_nsec;
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000;
    }
    pthread_mutex_lock(&b->lock);
    if (atomic_load(word) == expected) pthread_cond_timedwait(&b->changed, &b->lock, &until);
    pthread_mutex_unlock(&b->lock);
}

/* All of them: the others of this bucket look again. */
void fac__unpark_all(_Atomic(uint32_t) *word) {
    bucket *b = bucket_of(word);
    pthread_mutex_lock(&b->lock);
    pthread_cond_broadcast(&b->changed);
    pthread_mutex_unlock(&b->lock);
}
void fac__unpark(_Atomic(uint32_t) *word) { fac__unpark_all(word); }

void fac__park_forget(void) {
    const bucket fresh = BUCKET;
    for (int i = 0; i < 16; i++) buckets[i] = fresh;
}

#endif
