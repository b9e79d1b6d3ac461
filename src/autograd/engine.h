/* One backward pass over a graph. */
#ifndef FAC_SRC_AUTOGRAD_ENGINE_H
#define FAC_SRC_AUTOGRAD_ENGINE_H

#include "autograd/node.h"

/* Passes nested on one thread (a backward within a backward) before the next takes a thread, and a stack, of its own. */
#define FAC_MAX_NESTED_PASSES 60

typedef struct fac_pass_request {
    const fac_edge *roots;    /* where to start; borrowed, kept alive by the caller */
    fac_tensor *const *grads; /* one per root, borrowed, of the root's shape */
    size_t n_roots;
    const fac_edge *targets; /* none: every leaf that is reached accumulates */
    size_t n_targets;
    fac_tensor **captured; /* room for n_targets: gets each target's gradient, owned, NULL if none came. NULL: the
                                   targets' leaves accumulate, and nothing else does */
    bool keep_graph;
    bool create_graph;
} fac_pass_request;

/* Runs a pass; a failure leaves nothing captured. Nested calls are fine. */
fac_status fac__pass_run(const fac_pass_request *r);

/* Makes a gradient fit edge i of n: summed to the size of what it is the gradient of, cast to its dtype, its real part if
   that is real. Replaces *grad (owned). `from` names the node that gave it. Quick when it fits, as it mostly does. */
fac_status fac__fit_gradient(const char *from, uint32_t i, const fac_edge *edge, fac_tensor **grad);

extern atomic_bool fac__detect_anomaly;

#endif
