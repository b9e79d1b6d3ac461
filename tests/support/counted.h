/* An allocator that counts what is asked of it; the bytes are the immediate allocator's. */
#ifndef FAC_TESTS_COUNTED_H
#define FAC_TESTS_COUNTED_H

#include "base/base.h"
#include <facula/tensor.h>

typedef struct counted_allocator {
    fac_allocator face; /* give this to the library; first, so that it is the whole */
    atomic_int allocs, frees;
    atomic_llong live; /* bytes that are not given back */
} counted_allocator;

/* An allocator that was asked for nothing. */
void counted_begin(counted_allocator *a);

#endif
