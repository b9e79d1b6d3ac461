/* Running another program to its end, which is not later than a limit. */
#ifndef FAC_SRC_JIT_CHILD_H
#define FAC_SRC_JIT_CHILD_H

#include "base/base.h"

enum { FAC_CHILD_NOT_RUN = -1, FAC_CHILD_TOO_LONG = -2, FAC_CHILD_KILLED = -3 };

/* Runs argv[0], a path, without input, in a process group of its own. What it writes to its output and error is kept in
   `out`, cut to size - 1 bytes and NUL-terminated. After `seconds` the group is killed. Returns the exit status or one of the
   above. */
int fac__child_run(const char *const *argv, double seconds, char *out, size_t size);

#endif
