/* What autograd hangs on a tensor, and on a leaf's accumulator. Private to this room. */
#ifndef FAC_SRC_AUTOGRAD_META_H
#define FAC_SRC_AUTOGRAD_META_H

#include "autograd/node.h"

/* How a view was made: one step of the way from its base. Immutable and counted, since views of views share the steps
   before theirs. It does not hold the base: nodes hold steps, and the base holds nodes. */
typedef struct fac_view_step {
    atomic_int refs;
    uint32_t n_args;
    uint32_t depth;               /* steps from the base to here, this one counted */
    struct fac_view_step *parent; /* owned; NULL: the step starts at the base */
    const fac_operator *op;
    fac_value args[]; /* owned; the boxed arguments after self */
} fac_view_step;

/* Made on first need; absent on tensors that no graph has touched. */
struct fac_autograd {
    _Atomic(fac_tensor *) grad;  /* owned; NULL also while a thread adds to it: see accumulate.c */
    _Atomic(fac_node *) grad_fn; /* owned; NULL: a leaf. Threads that read a stale view may replace it: see view.c */
    _Atomic(fac_node *) accumulator; /* its memory is ours, its life is the graph's: see accumulate.c */
    fac_tensor *base;                /* owned; NULL: not a view. Never a view itself */
    fac_view_step *view;             /* owned; set with base */
    struct fac_hooks *hooks;         /* of a leaf; a non-leaf's are on its node */
    struct fac_hook_entry *retained; /* of a non-leaf that keeps its gradient: its entry in grad_fn's hooks */
    uint32_t output_nr;              /* which output of grad_fn */
    atomic_uint view_version;        /* at which a view's grad_fn was computed */
    uint8_t how;                     /* fac_view_made of a view */
    bool requires_grad;              /* set on a leaf */
    bool reshaped;                   /* no view, and its sizes or strides were changed in place: see view.c */
    fac_tensor *stands_for; /* of a tensor that is not plain and is in no graph: what is in its place; borrowed */
};

/* The node as it was last published; borrowed. Not for views that may be out of date: those ask fac__grad_fn. */
static inline fac_node *fac__history(const struct fac_autograd *ag) {
    return atomic_load_explicit(&ag->grad_fn, memory_order_acquire);
}
/* Nobody else sees the tensor or its memory: it may be changed in place. */
static inline bool fac__is_ours_alone(const fac_tensor *t) {
    return atomic_load_explicit(&t->refs, memory_order_acquire) == 1 && t->storage &&
           atomic_load_explicit(&t->storage->refs, memory_order_acquire) == 1;
}
/* Gradients exist for floating and complex elements only. */
static inline bool fac__differentiable(fac_dtype d) { return d >= FAC_F16 && d < FAC_QINT8; }
/* t's data, made if absent; NULL with an error pending when memory is out. */
struct fac_autograd *fac__autograd_of(fac_tensor *t);
void fac__view_step_unref(fac_view_step *v);

/* ---- accumulators ---------------------------------------------------------------------------------------------- */

typedef struct fac_accumulator fac_accumulator;
extern const fac_node_class fac__accumulate_class;
static inline bool fac__is_accumulator(const fac_node *n) { return n->cls == &fac__accumulate_class; }
/* The leaf that an accumulator of a live graph adds to; borrowed. */
fac_tensor *fac__accumulator_leaf(const fac_node *n);
/* Leaf t's accumulator, counted; NULL on failure. */
fac_node *fac__accumulator_of(fac_tensor *t);
/* Drops one count: the last lets the leaf go, and the accumulator sleeps until the next graph. */
void fac__accumulator_unref(fac_node *n);
/* The leaf dies: so does its accumulator, which no graph holds. */
void fac__accumulator_free(fac_node *n);
/* Adds `owned` to the leaf's gradient and runs the leaf's post-accumulate hooks. Takes the reference, always. */
fac_status fac__accumulate(fac_node *n, fac_tensor *owned, bool create_graph);

/* ---- history ------------------------------------------------------------------------------------------------------ */

/* Replaces t's node by n (counted here), output nr; hooks that retain the gradient move along. */
fac_status fac__set_grad_fn(fac_tensor *t, fac_node *n, uint32_t nr);
/* The same; the reference of the node before goes to the caller, who may hold a lock under which no node may die. */
fac_status fac__exchange_grad_fn(fac_tensor *t, fac_node *n, uint32_t nr, fac_node **out_old);
/* Records t's sizes, dtype and device as output nr of n. */
fac_status fac__output_meta_set(fac_node *n, uint32_t nr, const fac_tensor *t);
/* The node and output that gradients of t go to, counted: its history, or a leaf's accumulator. Node NULL if t (or NULL)
   wants none. */
fac_status fac__gradient_edge(fac_tensor *t, fac_edge *out);
/* The way from t's base to t, a view, counted: its steps, or one by as_strided if the base is `reshaped`. */
fac_status fac__view_way(fac_tensor *t, fac_view_step **out);
/* Applies a view's steps to another tensor shaped like its base; owned. */
fac_status fac__view_replay(const fac_view_step *v, fac_tensor *base, fac_tensor **out);
/* Computes a view's node again from its base's history. */
fac_status fac__view_regenerate(fac_tensor *t);
/* The error for a view that may not be changed in place, NULL-safe; `indirect`: by way of its base or another view. */
fac_status fac__check_view_inplace(const fac_tensor *t, bool indirect);

#endif
