/* Loading a shared object that lies in memory. */
#ifndef FAC_SRC_JIT_LOAD_H
#define FAC_SRC_JIT_LOAD_H

#include "base/base.h"

/* Loads these bytes, and no others: between their check and their loading they are in no file that a name leads to.
   errors: IO with the loader's words, after `name` */
fac_status fac__jit_load(const char *data, size_t bytes, const char *name, void **out_library);

#endif
