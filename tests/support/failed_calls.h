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

#endif
