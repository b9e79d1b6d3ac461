/* The setting of how exact products of float32 matrices must be. */
#include "core/precision.h"

_Atomic(int) fac__matmul_precision = FAC_PRECISION_HIGHEST;

fac_status fac_set_float32_matmul_precision(fac_matmul_precision p) {
    FAC_CHECK(p == FAC_PRECISION_HIGHEST || p == FAC_PRECISION_HIGH || p == FAC_PRECISION_MEDIUM, FAC_ERR_ARGUMENT,
              "set_float32_matmul_precision: expected FAC_PRECISION_HIGHEST (%d), FAC_PRECISION_HIGH (%d) or "
              "FAC_PRECISION_MEDIUM (%d), got %d",
              FAC_PRECISION_HIGHEST, FAC_PRECISION_HIGH, FAC_PRECISION_MEDIUM, (int)p);
    atomic_store_explicit(&fac__matmul_precision, (int)p, memory_order_relaxed);
    return FAC_OK;
}

fac_matmul_precision fac_get_float32_matmul_precision(void) {
    return (fac_matmul_precision)atomic_load_explicit(&fac__matmul_precision, memory_order_relaxed);
}
