/* What the core asks of the rooms above it, which define these. */
#ifndef FAC_SRC_CORE_ABOVE_H
#define FAC_SRC_CORE_ABOVE_H

#include "core/tensor.h"

/* Started by fac_init in this order, stopped by fac_shutdown in the reverse. */
fac_status fac__cpu_init(void);
fac_status fac__cuda_init(void); /* loads no driver: that waits for the first use */
fac_status fac__dispatch_init(void);
fac_status fac__autograd_init(void);
void fac__cpu_shutdown(void);
void fac__pointwise_shutdown(void);
void fac__cuda_shutdown(void);
void fac__dispatch_shutdown(void);
void fac__autograd_shutdown(void);

/* Autograd: frees what it keeps for the calling thread's next backward pass. */
void fac__autograd_trim(void);
/* Autograd: whether a gradient is wanted for t; NULL: false. */
bool fac__requires_grad(const fac_tensor *t);
/* Autograd: the error for an inference tensor that is changed outside inference mode. */
fac_status fac__not_writable(void);
static inline fac_status fac__check_writable(const fac_tensor *t) {
    bool inference = t && (t->flags & FAC_TF_INFERENCE) && !fac__thread()->inference;
    return FAC_UNLIKELY(inference) ? fac__not_writable() : FAC_OK;
}
/* Autograd: "grad_fn=<AddBackward0>", "requires_grad=True" or "", into buf; returns buf. */
const char *fac__autograd_print_suffix(fac_tensor *t, char *buf, size_t size);

#endif
