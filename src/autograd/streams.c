/* Hands gradients from one stream to another, and takes up the streams and devices of the calling thread on others. */
#include "autograd/streams.h"
#include "core/guard.h"

atomic_uint fac__kinds_seen;

fac_stream fac__stream_on(const fac_node *n, fac_device d) {
    return n && fac_device_equal(n->stream.device, d) ? n->stream : fac_current_stream(d);
}

fac_status fac__hand_over(fac_tensor *grad, fac_stream from, fac_stream to) {
    if (fac_stream_equal(from, to)) return FAC_OK;
    FAC_TRY(fac_stream_wait_stream(to, from));
    return fac__record_stream(grad, to);
}
