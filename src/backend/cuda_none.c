/* A build without CUDA: the device has a name and nothing else, and what is asked of it says so. */
#include "core/above.h"

fac_status fac__cuda_init(void) { return FAC_OK; }
void fac__cuda_shutdown(void) {}
