/* The one way to cuFFT, real or simulated: a table of its entries, filled when the first transform needs it. */
#ifndef FAC_SRC_BACKEND_CUDA_DRIVER_CUFFT_H
#define FAC_SRC_BACKEND_CUDA_DRIVER_CUFFT_H

#include "base/base.h"
#include "cuda_abi/cufft.h"

#define FAC_CUFFT_MEMBER(name, parameters) cufftResult(*name) parameters;
typedef struct fac_cufft {
    FAC_CUFFT_ENTRIES(FAC_CUFFT_MEMBER)
} fac_cufft;
#undef FAC_CUFFT_MEMBER

/* The table. With a real driver the library is the newest that suits it (libcufft.so.12 is of CUDA 13), with the simulated one
   that is the library; FACULA_CUFFT_LIBRARY names another file. What failed is tried again at the next call. The driver is
   loaded. errors: UNSUPPORTED, saying what was looked for, if there is none, or if it lacks an entry */
fac_status fac__cufft_load(const fac_cufft **out);
/* Forgets the table; no plan is left. */
void fac__cufft_unload(void);
/* The name of a result code ("CUFFT_..."). */
const char *fac__cufft_name(cufftResult r);

#endif
