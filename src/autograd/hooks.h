/* Lists of hooks, and the handles that name them. A handle is a number and not an address, so removing a hook whose owner
   is gone does nothing, and forgetting a handle leaks nothing. */
#ifndef FAC_SRC_AUTOGRAD_HOOKS_H
#define FAC_SRC_AUTOGRAD_HOOKS_H

#include "autograd/node.h"

typedef enum {
    FAC_HOOK_TENSOR,         /* fac_grad_hook on output `nr` of a node, or on a leaf */
    FAC_HOOK_RETAIN,         /* context: the fac_autograd that keeps the gradient of output `nr` */
    FAC_HOOK_PRE,            /* on a node, before it runs */
    FAC_HOOK_POST,           /* on a node, after it ran */
    FAC_HOOK_POST_ACCUMULATE /* on a leaf */
} fac_hook_kind;

typedef struct fac_hook_entry {
    struct fac_hook_entry *next;
    uint64_t id; /* 0: without a handle */
    int kind;    /* fac_hook_kind, or a number of another room's own */
    uint32_t nr;
    atomic_bool dead; /* removed; freed with the list */
    void (*fn)(void);
    void *context;
} fac_hook_entry;

/* In order of registration. */
typedef struct fac_hooks {
    fac_hook_entry *first;
} fac_hooks;

/* Appends to *list, making it if NULL. With `named` it returns a handle, else any non-NULL pointer; NULL on failure. */
fac_hook *fac__hook_add(fac_hooks **list, int kind, uint32_t nr, void (*fn)(void), void *context, bool named);
/* Frees the list and forgets its handles. NULL allowed. */
void fac__hooks_free(fac_hooks *list);
/* True if the list has a live entry of a kind. */
bool fac__hooks_any(const fac_hooks *list, int kind);

/* ---- running them, with the scope and thread state that user code expects ---- */

/* Tensor hooks of output nr; each may replace *grad (owned). */
fac_status fac__run_tensor_hooks(const fac_hooks *list, uint32_t nr, fac_tensor **grad);
/* Adds the gradient of output nr to the tensors that retain it. */
fac_status fac__run_retain_hooks(const fac_hooks *list, uint32_t nr, fac_tensor *grad);
/* Pre-hooks of a node over its n gradients, each owned and replaceable. */
fac_status fac__run_pre_hooks(const fac_hooks *list, fac_tensor **grads, size_t n);
fac_status fac__run_post_hooks(const fac_hooks *list, fac_tensor **grad_inputs, size_t n_in,
                               fac_tensor *const *grad_outputs, size_t n_out);
fac_status fac__run_post_accumulate_hooks(const fac_hooks *list, fac_tensor *leaf);
/* Lists `ag` with a node that computes a gradient to retain, and takes it off. */
fac_status fac__retain_add(fac_node *n, uint32_t nr, struct fac_autograd *ag);
void fac__retain_remove(fac_node *n, const struct fac_autograd *ag);

#endif
