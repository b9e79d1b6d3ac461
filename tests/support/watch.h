/* Which fields of tensors a call reads. The pages that hold the tensors' records are closed; each access to them faults, is
   written down, and is let through one instruction long. Nothing of this is in the library. */
#ifndef FAC_TESTS_WATCH_H
#define FAC_TESTS_WATCH_H

#include "core/handle.h"

enum { WATCH_SIZES = 1, WATCH_DTYPE = 2, WATCH_DEVICE = 4, WATCH_ALL = 7, WATCH_TENSORS = 16 };

/* Whether this build can: on x86-64 with Linux, without ThreadSanitizer, which delivers signals in its own time. */
bool watch_is_possible(void);
/* Watches up to WATCH_TENSORS tensors, until watch_end writes what was read of each into `out`. One thread may use them. */
void watch_begin(fac_tensor *const *t, int n);
void watch_end(unsigned *out);

#endif
