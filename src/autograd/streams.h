/* Which stream a gradient is computed in, and how it is handed to another. Backward runs each node in the stream that was
   current on its device when the node was made; a gradient that crosses from one stream to another makes the latter wait; in
   the end the caller's streams wait for those in which leaves' gradients came out.
   source: PyTorch's stream semantics of backward passes */
#ifndef FAC_SRC_AUTOGRAD_STREAMS_H
#define FAC_SRC_AUTOGRAD_STREAMS_H

#include "autograd/node.h"

/* Kinds of accelerators on which nodes were made, a bit each: those that are surely in use. */
extern atomic_uint fac__kinds_seen;

/* Devices whose work is queued. */
static inline bool fac__is_accelerator(fac_device d) { return d.type != FAC_CPU && d.type != FAC_META && d.type; }
/* Notes in n the stream current on d, unless it has one or d has none. */
static inline fac_status fac__note_stream(fac_node *n, fac_device d) {
    if (FAC_LIKELY(!fac__is_accelerator(d)) || n->stream.device.type) return FAC_OK;
    n->stream = fac_current_stream(d);
    if (FAC_UNLIKELY(!(atomic_load_explicit(&fac__kinds_seen, memory_order_relaxed) >> d.type & 1)))
        atomic_fetch_or_explicit(&fac__kinds_seen, 1u << d.type, memory_order_relaxed);
    return fac_error();
}
/* Where n's work on device d is queued: its own stream, or the current one if that is of another device. */
fac_stream fac__stream_on(const fac_node *n, fac_device d);
/* Makes n's stream and its device current until fac_stream_scope_end; nothing for nodes on the CPU. */
static inline fac_stream_scope fac__enter_stream_of(const fac_node *n) {
    fac_stream_scope none = {{{0, 0}, 0}, {0, 0}};
    return FAC_LIKELY(!n->stream.device.type) ? none : fac_stream_scope_begin(n->stream);
}
static inline void fac__leave_stream(fac_stream_scope *s) {
    if (FAC_UNLIKELY(s->was.device.type)) fac_stream_scope_end(s);
}
/* Makes stream `to` wait for `from`, in which grad was computed, and keeps grad's memory from reuse before `to` is done. */
fac_status fac__hand_over(fac_tensor *grad, fac_stream from, fac_stream to);

#endif
