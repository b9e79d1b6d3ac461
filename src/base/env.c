/* What the process tells us: environment variables and time. */
#include "base/base.h"
#include <errno.h>
#include <stdlib.h>
#include <time.h>

int64_t fac__env_int(const char *name, int64_t lo, int64_t hi, int64_t fallback) {
    const char *text = getenv(name);
    if (!text || !*text) return fallback;
    char *end;
    errno = 0;
    long long x = strtoll(text, &end, 10);
    return errno || *end || x < lo || x > hi ? fallback : (int64_t)x;
}

double fac__now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}
