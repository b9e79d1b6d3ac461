/* Thread state that a thread inherits which works for another: modes, dispatch keys, and what is current on each kind of
   device, so that what it computes outside of a node's stream goes where it would have gone on the other's thread.
   source: PyTorch's ThreadLocalState */
#ifndef FAC_SRC_AUTOGRAD_THREAD_STATE_H
#define FAC_SRC_AUTOGRAD_THREAD_STATE_H

#include "autograd/forward.h"
#include <facula/device.h>

typedef struct fac_thread_state {
    fac_recording recording;
    fac_level watched;                   /* of forward mode: see forward.h */
    const struct fac_batch_level *batch; /* vmaps in sight: the thread whose they are waits meanwhile */
    fac_autocast autocast;
    int num_threads, backward_depth;
    uint64_t next_seq;
    fac_device devices[FAC_DEVICE_TYPE_COUNT]; /* the current one of each kind in use; UNSET: of no kind in use */
    struct {
        fac_stream *v;
        size_t n, cap;
    } streams; /* current ones that are not their device's default */
} fac_thread_state;

/* Notes th's state, which is the calling thread's. What it notes is to be freed, also after a failure. */
fac_status fac__thread_state_save(const fac_thread *th, fac_thread_state *out);
/* Makes it the calling thread's, but for the depth of passes: a new thread has a new stack. A failure stays pending. */
void fac__thread_state_restore(const fac_thread_state *s);
void fac__thread_state_free(fac_thread_state *s);

#endif
