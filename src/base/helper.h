/* Threads of the library's own. */
#ifndef FAC_SRC_BASE_HELPER_H
#define FAC_SRC_BASE_HELPER_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

/* Starts a thread that takes no signals: they stay with the threads of the program, whose handlers may count on that.
   stack_bytes 0: the system's default. False if the system grants none. */
bool fac__helper_start(pthread_t *out, size_t stack_bytes, void *(*fn)(void *), void *context);

#endif
