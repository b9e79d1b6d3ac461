/* What stands in lapack.c's place in a build without LAPACK: its operators fail, and say why. */
#include "backend/cpu/lapack.h"

const bool fac__lapack_built_in = false;
fac_lapack fac__lapack;

fac_status fac__lapack_load(void) {
    return FAC_FAIL(FAC_ERR_UNSUPPORTED,
                    "this build has no LAPACK: it was configured with -DFACULA_LAPACK=OFF, or for a list of operators");
}

fac_status fac__lapack_for(int64_t n, double each, int64_t bytes, fac_scratch_fn fn, void *ctx) {
    (void)n, (void)each, (void)bytes, (void)fn, (void)ctx;
    return fac__lapack_load();
}

int fac__lapack_work(int kind, const void *at) {
    (void)kind, (void)at;
    return 1;
}
