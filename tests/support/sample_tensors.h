/* The tensors among the arguments and results of a sample's call. */
#ifndef FAC_TESTS_SAMPLE_TENSORS_H
#define FAC_TESTS_SAMPLE_TENSORS_H

#include "sample.h"

/* The tensors of a value, a tensor or a list of them; how many, `room` at most. None is counted out. */
size_t sample_tensors_of(fac_value v, fac_tensor **out, size_t room);
/* Fills the storages of the arguments of a mask with a byte; those of booleans with its lowest bit. */
void sample_overwrite(const sample_made *m, uint64_t mask, int byte);

#endif
