/* Autocast's start and end. */
#ifndef FAC_SRC_AMP_AUTOCAST_H
#define FAC_SRC_AMP_AUTOCAST_H

/* Forgets that kernels were registered, as the dispatcher does, and the calling thread's casts. */
void fac__autocast_shutdown(void);

#endif
