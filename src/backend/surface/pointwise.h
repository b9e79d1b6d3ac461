/* What the device-neutral kernels of pointwise operators (unary.c, binary.c) call: the iterator is built, the operation is a
   loop's name; the device of the iterator says whose loop runs. */
#ifndef FAC_SRC_BACKEND_SURFACE_POINTWISE_H
#define FAC_SRC_BACKEND_SURFACE_POINTWISE_H

#include "backend/cpu/pointwise.h"

/* What a kind of device brings along. */
typedef struct fac_pointwise_backend {
    /* As fac__cpu_pointwise_slow. */
    fac_status (*run)(const fac_iter *it, fac_loop_id id, const char *op, fac_dtype out, const fac_loop_args *args);
    /* out <- condition ? a : b; the condition is the first input, of any dtype. */
    fac_status (*select)(const fac_iter *it);
    /* dst <- src with conversion and broadcasting, both on the device. */
    fac_status (*copy)(fac_tensor *dst, fac_tensor *src);
} fac_pointwise_backend;
extern const fac_pointwise_backend fac__pointwise_backends[FAC_DEVICE_TYPE_COUNT];

static inline const fac_pointwise_backend *fac__pointwise_backend(fac_device d) {
    return &fac__pointwise_backends[d.type];
}

/* Runs a loop over a finished iterator; see fac__cpu_pointwise_slow. What the CPU's loops take as it lies runs right here. */
static inline fac_status fac__pointwise(const fac_iter *it, fac_loop_id id, const char *op, fac_dtype out,
                                        const fac_loop_args *args) {
    if (FAC_LIKELY(it->device.type == FAC_CPU)) return fac__cpu_pointwise(it, id, op, out, args);
    return fac__pointwise_backend(it->device)->run(it, id, op, out, args);
}

#endif
