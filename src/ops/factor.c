/* Turns the numbers that LAPACK's factorisations leave into errors. */
#include "ops/factor.h"
#include "ops/batch/batch.h"
#include "ops/call.h"
#include "ops_gen.h"
#include <stdio.h>

static fac_status failed(fac_factor what, const char *element, int info) {
    switch (what) {
    case FAC_FACTOR_CHOLESKY:
        return FAC_FAIL(FAC_ERR_ARGUMENT,
                        "%sThe factorization could not be completed because the input is not "
                        "positive-definite (the leading minor of order %d is not positive-definite).",
                        element, info);
    case FAC_FACTOR_INVERSE:
        return FAC_FAIL(FAC_ERR_ARGUMENT,
                        "%sThe diagonal element %d is zero, the inversion could not be completed because the "
                        "input matrix is singular.",
                        element, info);
    case FAC_FACTOR_SOLVE:
        return FAC_FAIL(FAC_ERR_ARGUMENT, "%sThe solver failed because the input matrix is singular.", element);
    case FAC_FACTOR_LU:
        return FAC_FAIL(FAC_ERR_ARGUMENT,
                        "%sU[%d,%d] is zero and using it on lu_solve would result in a division by "
                        "zero. If you still want to perform the factorization, consider calling linalg.lu(A, pivot) or "
                        "linalg.lu_factor_ex(A, pivot)",
                        element, info, info);
    default:
        return FAC_FAIL(FAC_ERR_ARGUMENT,
                        "%sD[%d,%d] is zero and using it on ldl_solve would result in a division "
                        "by zero.",
                        element, info, info);
    }
}

static fac_status look(fac_factor what, const int32_t *info, const fac_tensor *t) {
    char element[48] = "";
    for (int64_t i = 0; i < t->numel; i++) {
        if (info[i] == 0) continue;
        if (t->ndim) snprintf(element, sizeof element, "(Batch element %lld): ", (long long)i);
        return failed(what, element, info[i]);
    }
    return FAC_OK;
}

fac_status fac__check_info(fac_factor what, fac_tensor *info) {
    if (!info) return fac_error();
    for (const fac_batched *b; (b = fac__batched(info)) != NULL;) info = b->value; /* those of all samples */
    if (info->device.type == FAC_META || info->numel == 0) return FAC_OK;
    if (fac__is_cpu(info) && fac__is_contiguous(info)) return look(what, fac__data(info), info);
    FAC_SCOPE(s);
    fac_tensor *here = fac__s__to_copy(info, FAC_I32, FAC_STRIDED, fac_device_make(FAC_CPU, -1), (fac_opt_num){0},
                                       false, FAC_CONTIGUOUS);
    return here ? look(what, fac__data(here), here) : fac_error();
}
