/* The gate: a count and a flag under one lock. */
#include "support/gate.h"

#include <pthread.h>
#include <stdbool.h>
#include <time.h>

enum { MOST_S = 20 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t moved = PTHREAD_COND_INITIALIZER;
static bool closed;
static int waiting;

static struct timespec deadline(void) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    t.tv_sec += MOST_S;
    return t;
}

static void set(bool to) {
    pthread_mutex_lock(&lock);
    closed = to;
    pthread_cond_broadcast(&moved);
    pthread_mutex_unlock(&lock);
}

void gate_close(void) { set(true); }
void gate_open(void) { set(false); }

void gate_pass(void) {
    const struct timespec until = deadline();
    pthread_mutex_lock(&lock);
    waiting++;
    while (closed && pthread_cond_timedwait(&moved, &lock, &until) == 0) {}
    waiting--;
    pthread_mutex_unlock(&lock);
}

int gate_waiting(void) {
    pthread_mutex_lock(&lock);
    const int n = waiting;
    pthread_mutex_unlock(&lock);
    return n;
}
