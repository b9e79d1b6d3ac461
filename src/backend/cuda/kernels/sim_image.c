/* The simulator's image of the built-in kernels: all that the .cu files of this shared object registered. */
#include "kernel.h"

KERNEL_IMAGE(facula_sim_image)
