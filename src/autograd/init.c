/* Start and end of the room. */
#include "autograd/init.h"
#include "autograd/forward.h"
#include "autograd/records.h"

fac_status fac__autograd_init(void) {
    fac__autograd = (fac_autograd_table){fac__autograd_free, fac__autograd_wants, fac__autograd_describe,
                                         fac__levels_end_thread, fac__autograd_stand_for};
    fac__thread_on_trim(fac__scratch_trim);
    FAC_TRY(fac__forward_init());
    return fac__boxed_gradients_init();
}

void fac__autograd_shutdown(void) { fac__boxed_gradients_shutdown(); }
