/* Hooks of nodes and leaves: their kinds, and running them with the scope and thread state that user code expects. */
#ifndef FAC_SRC_AUTOGRAD_HOOKS_H
#define FAC_SRC_AUTOGRAD_HOOKS_H

#include "autograd/hook_list.h"
#include "autograd/node.h"

typedef enum {
    FAC_HOOK_TENSOR,         /* fac_grad_hook on output `nr` of a node, or on a leaf */
    FAC_HOOK_RETAIN,         /* context: the fac_autograd that keeps the gradient of output `nr` */
    FAC_HOOK_PRE,            /* on a node, before it runs */
    FAC_HOOK_POST,           /* on a node, after it ran */
    FAC_HOOK_POST_ACCUMULATE /* on a leaf */
} fac_hook_kind;

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
