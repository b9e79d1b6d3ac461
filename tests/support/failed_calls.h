/* Calls that fail, around valid ones, and what they leave behind: nothing may have changed. */
#ifndef FAC_TESTS_FAILED_CALLS_H
#define FAC_TESTS_FAILED_CALLS_H

#include "samples.h"

typedef enum failed_calls_of { FAILED_CALLS_WRITING, FAILED_CALLS_RANDOM } failed_calls_of;

/* Tries every operator that writes to an argument, or every random one, on a device: prints how many calls failed, and fails
   if one of them changed a tensor or the default generator, or if too few could be made to fail. Operators that the device has
   no kernel for are left out.
   FACULA_FAILED_CALLS=full takes every sample of every operator, else the first few; FACULA_FAILED_ONLY=aten::add.out
   looks at one operator. */
void failed_calls_try(failed_calls_of which, fac_device device);
/* Tries calls that are cut into chunks, NULL at the end, with each allocation failing in turn. */
void failed_calls_try_large(const char *const *texts, fac_device device);
/* A valid call that fails once the last element of one of its tensors, row-major, has this value. */
typedef struct failed_calls_last {
    const char *text;
    size_t tensor;
    double value;
} failed_calls_last;
/* Tries each, as it is and spoilt; text NULL at the end. */
void failed_calls_try_last(const failed_calls_last *calls, fac_device device);
/* Calls each sample of each operator, and `texts`, on the CPU, and fails if a chunk of parallel work allocates: memory that a
   later chunk lacks is found too late. */
void failed_calls_allocate_before_chunks(const char *const *texts);

#endif
