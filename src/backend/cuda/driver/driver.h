/* The one way to the CUDA driver, real or simulated: `fac__cu`, a structure of function pointers under the entries'
   plain names, filled by fac__cu_load. No context is made here. */
#ifndef FAC_SRC_BACKEND_CUDA_DRIVER_DRIVER_H
#define FAC_SRC_BACKEND_CUDA_DRIVER_DRIVER_H

#include "base/base.h"
#include "cuda_abi/entries.h"

#define FAC_CU_MEMBER(name, symbol, version, need, parameters) CUresult(*name) parameters;
typedef struct fac_cu {
    FAC_CU_ENTRIES(FAC_CU_MEMBER)
} fac_cu;
#undef FAC_CU_MEMBER

/* fac__cu.cuMemAlloc(&p, n) and so on. All NULL until fac__cu_load succeeds; optional entries may stay NULL. */
extern fac_cu fac__cu;

/* Loads the driver that FACULA_CUDA names (sim:..., off, or unset for the system's), fills fac__cu and initialises
   the driver. Once done it is done; a failure is remembered with its message. From any thread.
   errors: DEVICE, with a message of its own for each of: CUDA turned off, no driver, the toolkit's stub, no device, a
   missing symbol, a driver that fails to initialise, and use in a child forked after the driver had started. */
fac_status fac__cu_load(void);
/* Forgets the driver, so that the next fac__cu_load reads the environment again. Nothing may be using it. */
void fac__cu_unload(void);

/* True if the loaded driver is the simulated one. */
bool fac__cu_is_simulated(void);
/* The loaded driver's library, for what the simulator has beside the driver's entries. */
void *fac__cu_library(void);
/* Of the loaded driver, as 1000 * major + 10 * minor; 0 if none is loaded. */
int fac__cu_version(void);
/* How many devices there are, after CUDA_VISIBLE_DEVICES; 0 if CUDA cannot be used for whatever reason. Sets no error,
   makes no context. With FACULA_NVML_BASED_CUDA_CHECK=1 the driver is not even initialised, so that a later fork is
   harmless: the management library is asked instead, and the driver only if that fails. */
int fac__cu_device_count(void);
/* True in a child that was forked after the driver had started: nothing of CUDA works there. */
bool fac__cu_forked(void);
/* The name of a result code ("CUDA_ERROR_..."), with or without a driver. */
const char *fac__cu_name(CUresult r);
/* What to say when an image could not be loaded: the driver is too old for it, or it has no code for the device. */
fac_status fac__cu_image_error(CUresult r, const char *what);

#endif
