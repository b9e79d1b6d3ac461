/* Where random operators get their seed and offset. */
#ifndef FAC_SRC_CORE_GENERATOR_H
#define FAC_SRC_CORE_GENERATOR_H

#include "core/thread.h"
#include <facula/tensor.h>

/* Hands out n offsets: *out_offset is the first. g NULL is the default generator. Thread-safe. */
fac_status fac__generator_advance(fac_generator *g, uint64_t n, uint64_t *out_seed, uint64_t *out_offset);

/* Around a random operator, on any level: one that fails gives back the offsets that it and what it called have taken, unless
   another thread has drawn from the generator since. begin's result goes to end, which returns st. */
fac_draws fac__draws_begin(void);
fac_status fac__draws_end(fac_draws outer, fac_status st);

#endif
