/* Loops of pointwise operators: each formula of ops/scalar/ by name, and the numbers that come with a call. */
#ifndef FAC_SRC_OPS_LOOP_H
#define FAC_SRC_OPS_LOOP_H

#include "core/tensor.h"
#include "loops_gen.h"
#include <facula/device.h>

#define FAC_LOOP_ID_(name, numbers) FAC_LOOP_##name,
typedef enum fac_loop_id { FAC_LOOP_NAMES(FAC_LOOP_ID_) FAC_LOOP_COUNT } fac_loop_id;

static inline fac_pointwise_number fac__number(fac_scalar s) {
    double parts[2];
    fac__scalar_c128(s, parts);
    return (fac_pointwise_number){parts[0], parts[1], fac__scalar_i64(s)};
}

typedef struct fac_loop_args {
    fac_pointwise_number v[3]; /* the FAC_NUMBERs of the formula */
    atomic_bool *zero_divisor; /* set by an integer division that meets one */
} fac_loop_args;

#endif
