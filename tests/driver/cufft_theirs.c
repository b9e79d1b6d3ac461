/* Our declarations of cuFFT's interface against those of the toolkit's own header: values and prototypes. */
#include <cufft.h>
#include <cufftXt.h>

#define FAC_CUFFT_THEIRS 1
#include "cuda_abi/cufft.h"

#define IS(name, value) _Static_assert(name == (value), #name);
FAC_CUFFT_RESULTS(IS)
FAC_CUFFT_TYPES(IS)
FAC_CUFFT_DIRECTIONS(IS)

#define AGREES(name, parameters) \
    _Static_assert(__builtin_types_compatible_p(cufftResult(*) parameters, __typeof__(&name)), #name);
FAC_CUFFT_ENTRIES(AGREES)

_Static_assert(sizeof(cufftResult) == sizeof(int) && sizeof(cudaDataType) == sizeof(int), "enumerations are ints");
