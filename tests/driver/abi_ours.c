#include "abi_facts.h"
#include "backend/cuda/driver/abi.h"

const fact ours[] = {FACTS};
const size_t n_ours = sizeof ours / sizeof *ours;
