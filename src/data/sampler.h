/* The inside of orders of samples. */
#ifndef FAC_SRC_DATA_SAMPLER_H
#define FAC_SRC_DATA_SAMPLER_H

#include "base/base.h"
#include <facula/dataset.h>

struct fac_sampler {
    atomic_int refs;
    /* Writes the order of an epoch; moves nothing. NULL: 0, 1, 2, ... */
    fac_status (*fill)(const fac_sampler *s, int64_t epoch, int64_t *out);
    void (*end)(fac_sampler *s); /* NULL: nothing of its own */
    int64_t length;              /* numbers in an epoch */
    int64_t epoch, at;
    int64_t seed;
    int64_t batch; /* numbers that are given at once; 0: as many as there is room for */
    bool drop_last;
    int64_t *order; /* room for an epoch, owned; NULL without fill */
    bool ready;     /* `order` is that of the present epoch */
};

/* Makes the order of the present epoch, if it is not there. */
fac_status fac__sampler_ready(fac_sampler *s);
/* fac_sampler_next of an order that is ready, whether or not an error is pending. */
int64_t fac__sampler_take(fac_sampler *s, int64_t *out, int64_t room);
/* Goes to number `at` of an epoch. */
void fac__sampler_seek(fac_sampler *s, int64_t epoch, int64_t at);

#endif
