/* Where random operators get their seed and offset. */
#ifndef FAC_SRC_CORE_GENERATOR_H
#define FAC_SRC_CORE_GENERATOR_H

#include "base/base.h"
#include <facula/tensor.h>

/* Hands out n offsets: *out_offset is the first. g NULL is the default generator. Thread-safe. */
fac_status fac__generator_advance(fac_generator *g, uint64_t n, uint64_t *out_seed, uint64_t *out_offset);

#endif
