/* A build without oneDNN: all that asks for it is told that our own kernels are the way. */
#include "backend/cpu/kernels/conv_library.h"
#include "backend/cpu/onednn.h"

const bool fac__onednn_built_in = false;

void fac__onednn_start(void) {}
void fac__onednn_stop(void) {}

fac_status fac__onednn_sgemm(const fac_gemm_block *p) {
    (void)p;
    return FAC_FAIL(FAC_ERR_INTERNAL, "a product was given to oneDNN, which this build leaves out");
}

bool fac__conv_library_suits(const fac_conv *c, fac_conv_side result) {
    (void)c, (void)result;
    return false;
}

fac_status fac__conv_library(const fac_conv *c, fac_conv_side result, const fac_conv_arrays *arrays, bool *done) {
    (void)c, (void)result, (void)arrays;
    *done = false;
    return FAC_OK;
}

fac_status fac__conv_library_blocked(const fac_conv *c, const fac_conv_blocked *arrays, bool *done) {
    (void)c, (void)arrays;
    *done = false;
    return FAC_OK;
}
