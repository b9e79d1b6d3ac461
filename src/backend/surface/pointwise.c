#include "backend/surface/pointwise.h"
#include "backend/cuda/ops/pointwise.h"

static fac_status select_cpu(const fac_iter *it) {
    fac_dtype d = it->common, compute;
    fac_loop loop;
    FAC_TRY(fac__cpu_find_loop(FAC_LOOP_where, "where", d, &loop, &compute));
    const uint8_t want[] = {(uint8_t)d, FAC_BOOL, (uint8_t)d, (uint8_t)d};
    return fac__cpu_run(it, loop, want, NULL);
}

const fac_pointwise_backend fac__pointwise_backends[FAC_DEVICE_TYPE_COUNT] = {
    [FAC_CPU] = {fac__cpu_pointwise_slow, select_cpu, fac__cpu_copy},
    [FAC_CUDA] = {fac__cuda_pointwise, fac__cuda_select, fac__cuda_copy_elements},
};
