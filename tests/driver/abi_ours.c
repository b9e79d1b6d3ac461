/* Sizes and offsets of the driver's structures as our headers declare them. */
#include "abi_facts.h"
#include "cuda_abi/abi.h"

const fact ours[] = {FACTS};
const size_t n_ours = sizeof ours / sizeof *ours;
