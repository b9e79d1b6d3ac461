/* Linked into tests that are built to count: a child process that ends with _exit writes its counts first, as exit does. One that
   may not write files of their size ends without. */
#include <stdlib.h>
#include <sys/resource.h>

void __gcov_dump(void);
_Noreturn void __real__exit(int status);
_Noreturn void __wrap__exit(int status);

_Noreturn void __wrap__exit(int status) {
    struct rlimit size;
    if (getrlimit(RLIMIT_FSIZE, &size) == 0 && size.rlim_cur == RLIM_INFINITY) __gcov_dump();
    __real__exit(status);
}
