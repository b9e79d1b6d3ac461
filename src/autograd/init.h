/* What starts and ends with the room. */
#ifndef FAC_SRC_AUTOGRAD_INIT_H
#define FAC_SRC_AUTOGRAD_INIT_H

#include "core/tensor.h"

/* Called by fac_init and fac_shutdown. */
fac_status fac__autograd_init(void);
void fac__autograd_shutdown(void);
/* The core's fac__autograd. */
void fac__autograd_free(struct fac_autograd *ag);
bool fac__autograd_wants(const struct fac_autograd *ag);
fac_status fac__autograd_stand_for(fac_tensor *t, fac_tensor *value);
void fac__autograd_describe(fac_tensor *t, char *buf, size_t size);
/* Registers the fallback that serves operators without a gradient of their own. */
fac_status fac__boxed_gradients_init(void);
void fac__boxed_gradients_shutdown(void);

#endif
