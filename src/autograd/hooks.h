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

typedef struct fac_hooks fac_hooks;

typedef struct fac_hook_entry {
    struct fac_hook_entry *prev, *next;
    fac_hooks *list;
    uint64_t id; /* 0: without a handle */
    int kind;    /* fac_hook_kind, or a number of another room's own */
    uint32_t nr;
    atomic_bool dead; /* removed; unlinked once nobody walks the list */
    void (*fn)(void);
    void *context;
} fac_hook_entry;

/* Appends to *list, making it if NULL. With `named` it returns a handle, else the entry; NULL on failure. */
fac_hook *fac__hook_add(fac_hooks **list, int kind, uint32_t nr, void (*fn)(void), void *context, bool named);
/* Frees the list and forgets its handles; a list that is being walked goes when the walk ends. NULL allowed. */
void fac__hooks_free(fac_hooks *list);
/* True if the list has a live entry of a kind. */
bool fac__hooks_any(fac_hooks *list, int kind);
/* Calls visit for each live entry of a kind, in order of registration, until one fails. Hooks may add and remove hooks
   meanwhile: one that was added after the walk began is not visited. No lock is held while visit runs. */
typedef fac_status (*fac_hook_visit)(const fac_hook_entry *e, void *context);
fac_status fac__hooks_each(fac_hooks *list, int kind, fac_hook_visit visit, void *context);

/* ---- running them, with the scope and thread state that user code expects ---- */

/* Tensor hooks of all outputs of a node; each may replace the gradient of its output (owned). */
fac_status fac__run_tensor_hooks(fac_hooks *list, fac_tensor **grads);
/* Adds the gradients of the outputs to the tensors that retain them. */
fac_status fac__run_retain_hooks(fac_hooks *list, fac_tensor *const *grads);
/* Pre-hooks of a node over its n gradients, each owned and replaceable. */
fac_status fac__run_pre_hooks(fac_hooks *list, fac_tensor **grads, size_t n);
fac_status fac__run_post_hooks(fac_hooks *list, fac_tensor **grad_inputs, size_t n_in, fac_tensor *const *grad_outputs,
                               size_t n_out);
fac_status fac__run_post_accumulate_hooks(fac_hooks *list, fac_tensor *leaf);
/* Lists `ag` with the node that computes the gradient of its tensor (output nr), in place of the node before. */
fac_status fac__retain_at(fac_node *n, uint32_t nr, struct fac_autograd *ag);
/* Takes `ag` off the node's list; nothing if it is on none. */
void fac__retain_remove(struct fac_autograd *ag);

#endif
