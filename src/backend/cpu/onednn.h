/* What calls into oneDNN share. */
#ifndef FAC_SRC_BACKEND_CPU_ONEDNN_H
#define FAC_SRC_BACKEND_CPU_ONEDNN_H

#include <omp.h>

/* oneDNN starts OpenMP threads of its own, and its bits then depend on how many. Between these two calls it runs on the
   calling thread alone: `int was = fac__onednn_begin(); ...; fac__onednn_end(was);`. */
static inline int fac__onednn_begin(void) {
    int was = omp_get_max_threads();
    if (was != 1) omp_set_num_threads(1);
    return was;
}
static inline void fac__onednn_end(int was) {
    if (was != 1) omp_set_num_threads(was);
}

#endif
