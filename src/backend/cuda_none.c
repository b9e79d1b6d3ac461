/* A build without CUDA: the device has a name and nothing else, and what is asked of it says so. */
#include "backend/cuda/ops/pointwise.h"
#include "backend/surface/pointwise.h"
#include "core/above.h"

fac_status fac__cuda_init(void) { return FAC_OK; }
void fac__cuda_shutdown(void) {}

static fac_status not_built(void) { return FAC_FAIL(FAC_ERR_DEVICE, "this build of Facula leaves CUDA out"); }

fac_status fac__cuda_pointwise(const fac_iter *it, fac_loop_id id, const char *op, fac_dtype out,
                               const fac_loop_args *args) {
    (void)it, (void)id, (void)op, (void)out, (void)args;
    return not_built();
}

fac_status fac__cuda_select(const fac_iter *it) {
    (void)it;
    return not_built();
}

fac_status fac__cuda_copy_elements(fac_tensor *dst, fac_tensor *src) {
    (void)dst, (void)src;
    return not_built();
}
