/* The same facts from the toolkit's cuda.h, and the prototypes of the table against its typedefs of each version. */
#include <cuda.h>
#include <cudaTypedefs.h>

#include "abi_facts.h"
#define FAC_SRC_CUDA_ABI_ABI_H /* their declarations stand in for ours */
#include "cuda_abi/entries.h"

const fact theirs[] = {FACTS};
const size_t n_theirs = sizeof theirs / sizeof *theirs;

#define AGREES(name, symbol, version, need, parameters) \
    _Static_assert(__builtin_types_compatible_p(CUresult(*) parameters, PFN_##name##_v##version), #name);
FAC_CU_ENTRIES(AGREES)
