/* What the process tells us: environment variables and time. */
#include "base/base.h"
#include <errno.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#if defined(__linux__)
#include <sys/auxv.h>
bool fac__env_trusted(void) { return getauxval(AT_SECURE) == 0; }
#else
bool fac__env_trusted(void) { return !issetugid(); }
#endif

const char *fac__env(const char *name) { return fac__env_trusted() ? getenv(name) : NULL; }

int64_t fac__env_int(const char *name, int64_t lo, int64_t hi, int64_t fallback) {
    const char *text = fac__env(name);
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
