/* Start and end of the room. */
#include "autograd/init.h"
#include "autograd/autograd_meta.h"
#include "core/above.h"

fac_status fac__autograd_init(void) {
    fac__autograd_meta_free = fac__autograd_free;
    return fac__boxed_gradients_init();
}

void fac__autograd_shutdown(void) { fac__boxed_gradients_shutdown(); }
