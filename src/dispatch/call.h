/* The call path's own state, for start and end. */
#ifndef FAC_SRC_DISPATCH_CALL_H
#define FAC_SRC_DISPATCH_CALL_H

/* Forgets the call observer, and frees those that were set before it. No call may be under way. */
void fac__observers_free(void);

#endif
