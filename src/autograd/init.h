/* What starts and ends with the room. */
#ifndef FAC_SRC_AUTOGRAD_INIT_H
#define FAC_SRC_AUTOGRAD_INIT_H

#include "core/tensor.h"

/* The core's fac__autograd_meta_free. */
void fac__autograd_free(struct fac_autograd *ag);
/* Registers the fallback that serves operators without a gradient of their own. */
fac_status fac__boxed_gradients_init(void);
void fac__boxed_gradients_shutdown(void);

#endif
