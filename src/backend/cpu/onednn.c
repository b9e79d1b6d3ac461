#define _GNU_SOURCE /* RTLD_DEFAULT */
#include "backend/cpu/onednn.h"
#include "base/mutex.h"
#include <dlfcn.h>
#include <string.h>

/* Of each thread's own count: neither call touches another's, nor the user's own loops. */
static int (*get_max_threads)(void);
static void (*set_num_threads)(int);

/* By the order in which oneDNN's own references were bound, so it is the same OpenMP if several are loaded. */
void fac__onednn_start(void) {
    void *get = dlsym(RTLD_DEFAULT, "omp_get_max_threads"), *set = dlsym(RTLD_DEFAULT, "omp_set_num_threads");
    if (!get || !set) return;
    memcpy(&get_max_threads, &get, sizeof get);
    memcpy(&set_num_threads, &set, sizeof set);
}

int fac__onednn_begin(void) {
    fac__fork_hold();
    int was = get_max_threads ? get_max_threads() : 1;
    if (was != 1) set_num_threads(1);
    return was;
}

void fac__onednn_end(int was) {
    if (was != 1) set_num_threads(was);
    fac__fork_allow();
}
