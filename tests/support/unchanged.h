/* The state of tensors and of the default generator at one moment, to be compared with what they are later. */
#ifndef FAC_TESTS_UNCHANGED_H
#define FAC_TESTS_UNCHANGED_H

#include "core/tensor.h"

typedef struct tensor_state {
    fac_tensor *t; /* the header; borrowed */
    fac_tensor header;
    int64_t dims[2 * FAC_MAX_DIMS]; /* sizes, then strides */
    fac_storage storage;
    char *bytes; /* of the whole storage; malloc'ed */
    unsigned version, output_nr;
    bool requires_grad;
    const void *grad_fn;
} tensor_state;

typedef struct state {
    tensor_state *tensors; /* malloc'ed */
    size_t n;
    uint64_t seed, offset;
} state;

/* Notes tensors (NULL entries are left out) and the generator. False if memory is out. */
bool state_note(state *s, fac_tensor *const *tensors, size_t n);
/* What differs now, such as "sizes"; NULL if all is as it was. *out_which: the tensor's number, n for the generator. */
const char *state_changed(const state *s, size_t *out_which);
void state_free(state *s);

#endif
