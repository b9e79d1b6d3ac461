/* Start and end of the library and of a thread. */
#ifndef FAC_SRC_CORE_START_H
#define FAC_SRC_CORE_START_H

#include "core/thread.h"

/* True between fac_init and fac_shutdown; read without a lock by every scope's begin. */
extern FAC_HIDDEN atomic_bool fac__started;
/* The calling thread's state without making one: NULL if it has none, the shared record with a pending error if memory
   was out when it asked. fac__thread_forgive forgets the latter, so that the next call tries again. */
fac_thread *fac__thread_if_any(void);
void fac__thread_forgive(void);
/* Frees the calling thread's state; the next call that needs one makes it afresh. */
void fac__thread_end(void);
/* Calls `visit` for each thread that has a state, under a lock: visit may read the atomic counts only. */
void fac__threads_each(void (*visit)(void *context, fac_thread *th), void *context);
/* Ends every open scope of a thread. */
void fac__scopes_end_all(fac_thread *th);

#endif
