/* vmap and the transforms of functions on it: results against loops over the samples, and what is refused. */
#include "support/support.h"

#include <facula/facula.h>
#include <math.h>
#include <string.h>

/* ---- what is mapped ------------------------------------------------------------------------------------------------------- */

static fac_tensor *numbers(fac_ints sizes) { return fac_div(fac_reshape(fac_arange(fac_numel_of(sizes)), sizes), 7.0); }
