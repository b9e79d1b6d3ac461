/* Helpers of explicit operators: they run below autograd, so what they call must not be recorded again. Each of these
   goes straight to the back end's kernel. */
#ifndef FAC_SRC_OPS_COMPOSITE_BELOW_H
#define FAC_SRC_OPS_COMPOSITE_BELOW_H

#include "ops/call.h"

/* First in an explicit operator that is made of others: temporaries die with it, and what it calls is not recorded. */
static inline void fac__below_restore_keys(const fac_keyset *was) { fac__thread()->exclude = *was; }
static inline fac_keyset fac__below_exclude_autograd(void) {
    fac_thread *th = fac__thread();
    const fac_keyset was = th->exclude;
    th->exclude = was | FAC_KS_AUTOGRAD | FAC_KS_ADINPLACEORVIEW;
    return was;
}
#define FAC_BELOW_AUTOGRAD                                                                                         \
    FAC_SCOPE(below_scope_);                                                                                       \
    const fac_keyset below_was_ __attribute__((cleanup(fac__below_restore_keys))) = fac__below_exclude_autograd(); \
    (void)below_was_

/* The key set that reaches a tensor's back end and nothing else but what carries out a pending conjugation or negation, or reads
   codes. */
static inline fac_keyset fac__dense_keys(const fac_tensor *t) {
    return (t->keys & (FAC_BACKEND_MASK | FAC_KS_NOT_PLAIN)) | FAC_KS_DENSE;
}
/* Whether a composite of these may write to a fresh tensor of its own in place: only kernels, and what records for backward, would see
   it. */
static inline bool fac__may_write(const fac_tensor *a, const fac_tensor *b) {
    const fac_keyset plain = FAC_BACKEND_MASK | FAC_KS_DENSE | FAC_KS_AUTOGRAD | FAC_KS_ADINPLACEORVIEW;
    return a && b && !((a->keys | b->keys) & ~plain) && !fac__thread()->include;
}
/* As fac__give for three results; all NULL on failure. */
fac_status fac__give_three(fac_tensor **out, fac_tensor *a, fac_tensor *b, fac_tensor *c);
/* dst = src, broadcast and converted. */
fac_status fac__copy_below(fac_tensor *dst, fac_tensor *src);
/* Every element becomes `value`. */
fac_status fac__fill_below(fac_tensor *t, fac_scalar value);
/* dst += src, of the same sizes. */
fac_status fac__add_below(fac_tensor *dst, fac_tensor *src);
/* Owned row-major zeros with the dtype and device of `like`. */
fac_status fac__zeros_below(fac_ints sizes, const fac_tensor *like, fac_tensor **out);
/* Owned copy; strides follow those of `t` if it is dense, else row-major. */
fac_status fac__clone_below(fac_tensor *t, fac_tensor **out);

#endif
