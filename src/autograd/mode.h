/* Thread state around recorded and user code. */
#ifndef FAC_SRC_AUTOGRAD_MODE_H
#define FAC_SRC_AUTOGRAD_MODE_H

#include "core/tensor.h"

/* What a piece of code may change or needs otherwise. */
typedef struct fac_recording {
    bool grad_disabled, inference, tangents_off;
    fac_keyset include, exclude;
} fac_recording;

static inline fac_recording fac__recording_save(const fac_thread *th) {
    return (fac_recording){th->grad_disabled, th->inference, th->tangents_off, th->include, th->exclude};
}
/* Puts the state back on the calling thread. */
static inline void fac__recording_end(fac_recording r) {
    fac_thread *th = fac__thread();
    th->grad_disabled = r.grad_disabled;
    th->inference = r.inference;
    th->tangents_off = r.tangents_off;
    fac__include_restore(th, r.include);
    th->exclude = r.exclude;
}
/* From here to fac__recording_end operators are recorded, wherever this is called from. */
static inline fac_recording fac__recording_begin(void) {
    fac_thread *th = fac__thread();
    fac_recording was = fac__recording_save(th);
    th->grad_disabled = th->inference = false;
    th->exclude &= ~(FAC_KS_AUTOGRAD | FAC_KS_ADINPLACEORVIEW);
    return was;
}

#endif
