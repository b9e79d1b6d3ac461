/* Saved-tensor hooks: private to this room. */
#ifndef FAC_SRC_AUTOGRAD_SAVED_H
#define FAC_SRC_AUTOGRAD_SAVED_H

#include "autograd/node.h"

/* A saved value that user hooks have packed. */
typedef struct fac_saved_hooks {
    fac_saved_tensor_hooks fn;
    void *handle;
} fac_saved_hooks;

/* Room for n saved values, none set. */
fac_status fac__saved_list_reserve(fac_saved_list *s, size_t n);

/* The calling thread's hooks; pack NULL without. */
extern _Thread_local fac_saved_tensor_hooks fac__saved_tensor_hooks __attribute__((tls_model("initial-exec")));
/* Packs t into s with the thread's hooks. */
fac_status fac__pack(fac_saved *s, fac_tensor *t);
/* What the hooks make of s again, without history; borrowed from the current scope. */
fac_status fac__unpack_hooked(fac_saved *s, fac_tensor **out);
void fac__packed_release(fac_saved_hooks *h);

#endif
