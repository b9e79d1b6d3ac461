/* Starts threads that take no signals. */
#include "base/helper.h"
#include <signal.h>

bool fac__helper_start(pthread_t *out, size_t stack_bytes, void *(*fn)(void *), void *context) {
    sigset_t all, before;
    pthread_attr_t attributes;
    if (pthread_attr_init(&attributes) != 0) return false;
    if (stack_bytes) (void)pthread_attr_setstacksize(&attributes, stack_bytes);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const bool made = pthread_create(out, &attributes, fn, context) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    return made;
}
