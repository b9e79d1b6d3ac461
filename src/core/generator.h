/* Where random operators get their seed and offset. */
#ifndef FAC_SRC_CORE_GENERATOR_H
#define FAC_SRC_CORE_GENERATOR_H

#include "core/thread.h"
#include <facula/tensor.h>

/* What a random kernel computes with: the call takes it before the kernel starts, so that who runs a call again, or in another
   order, decides which numbers it gets. */
typedef struct fac_draw {
    uint64_t seed, offset; /* the first of those taken */
} fac_draw;
/* Takes n offsets. g NULL is the default generator. Thread-safe. errors: OVERFLOW when the generator is used up */
fac_status fac__draw(fac_generator *g, uint64_t n, fac_draw *out);

/* What a generator adds to the keys of a call; g NULL is the default generator, which adds nothing. */
fac_keyset fac__generator_keys_of(const fac_generator *g);
static inline fac_keyset fac__generator_keys(const fac_generator *g) { return g ? fac__generator_keys_of(g) : 0; }

/* Around a random operator, on any level: one that fails gives back the offsets that it and what it called have taken, unless
   another thread has drawn from the generator since. begin's result goes to end, which returns st. */
fac_draws fac__draws_begin(void);
fac_status fac__draws_end(fac_draws outer, fac_status st);

#endif
