/* The graph: nodes, edges, saved values; what generated autograd kernels and formulas are written against. */
#ifndef FAC_SRC_AUTOGRAD_NODE_H
#define FAC_SRC_AUTOGRAD_NODE_H

#include "dispatch/operator.h"
#include <facula/autograd.h>
#include <facula/device.h>

/* A kind of node. `apply` gets one gradient per forward output (borrowed, NULL if nothing flowed there; never all
   NULL) and writes one owned gradient, or NULL, per edge. `release` drops the saved values; it may run more than once. */
typedef struct fac_node_class {
    const char *name; /* "MulBackward0" */
    size_t size;      /* of the whole node struct, whose first member is fac_node */
    fac_status (*apply)(fac_node *n, fac_tensor *const *grads, fac_tensor **out);
    void (*release)(fac_node *n);
    void (*destroy)(fac_node *n); /* what else it owns, once, when the node dies; NULL: nothing */
    bool user_code;               /* runs code of the user's, which must see the thread's own keys */
} fac_node_class;

typedef struct fac_edge {
    fac_node *node; /* owned; NULL: no gradient wanted here */
    uint32_t nr;    /* which of node's forward outputs */
} fac_edge;

#define FAC_NODE_DIMS 5 /* of an output, without memory of their own */
/* What a forward output looked like: its gradient is summed to this size, cast to this dtype, made real if it was. */
typedef struct fac_output_meta {
    int64_t *sizes; /* inline_sizes or heap */
    int64_t inline_sizes[FAC_NODE_DIMS];
    fac_device device;
    uint8_t ndim, dtype;
    bool set;
} fac_output_meta;

struct fac_node {
    atomic_int refs;
    uint32_t n_edges, n_outputs;
    const fac_node_class *cls;
    uint64_t seq; /* later nodes run first */
    fac_edge *edges;
    fac_output_meta *outputs;
    struct fac_hooks *hooks; /* NULL until one is added */
    size_t bytes;            /* of the allocation, for the free lists */
    bool released;           /* saved values are gone */
    fac_stream stream;       /* current when the node was made; unset if its outputs are the CPU's */
    fac_node *next;          /* links dying nodes, so that long chains are freed without recursion */
};

/* ---- building ------------------------------------------------------------------------------------------------------ */

static inline bool fac__any_requires_grad(fac_tensors l) {
    for (size_t i = 0; i < l.n; i++)
        if (fac__requires_grad(l.v[i])) return true;
    return false;
}
static inline bool fac__grad_enabled(const fac_thread *th) { return !th->grad_disabled && !th->inference; }

/* Owned node with count 1, edges NULL, zeroed payload; NULL on failure. */
fac_node *fac__node_new(fac_thread *th, const fac_node_class *cls, uint32_t n_edges, uint32_t n_outputs);
fac_node *fac__node_ref(fac_node *n);
void fac__node_unref(fac_node *n); /* iterative: chains of any length are freed without recursion */
/* Points edge i at t's history or accumulator; nothing if t (or NULL) wants no gradient. */
fac_status fac__node_connect(fac_node *n, uint32_t i, fac_tensor *t);
/* Whether the gradient for edge i is wanted: by the graph and, while n runs, by the pass. */
static inline bool fac__node_needs(const fac_node *n, uint32_t i) {
    const fac_thread *th = fac__tls;
    bool skipped = th && th->skip_node == n && i < 64 && (th->skip_edges >> i & 1);
    return n->edges[i].node != NULL && !skipped;
}
/* Makes `t` output nr of n: its grad_fn, with its metadata recorded. Non-floating results are left alone.
   t must be fresh (no history of its own). A list: t_i is output first + i. */
fac_status fac__set_history(fac_tensor *t, fac_node *n, uint32_t nr);
/* In place: n's output nr is the new value of t. A view rebases its base's history (copy-slices). */
fac_status fac__rebase_history(fac_tensor *t, fac_node *n, uint32_t nr);
/* The same in two steps: all that can fail is done before the operation writes. fac__rebase_end takes its status, drops the new
   history if it failed, and returns it. */
typedef struct fac_rebase {
    fac_tensor *whole; /* borrowed: t, or the base of the view that it is */
    fac_node *node;    /* owned; NULL: nothing changes */
    uint32_t nr;
} fac_rebase;
fac_status fac__rebase_begin(fac_tensor *t, fac_node *n, uint32_t nr, fac_rebase *out);
fac_status fac__rebase_end(fac_rebase *r, fac_status st);
/* Before an in-place operation on t while grad mode is on and some input or t needs a gradient: every error PyTorch
   gives (leaf, view of a leaf, multi-output view, view made under no-grad, inference tensor). */
fac_status fac__check_inplace(fac_tensor *t, bool any_requires_grad);
/* out= forms take no part in autograd: error if any input or the out tensor requires a gradient while grad mode is on. */
fac_status fac__check_out_form(fac_tensor *const *outs, size_t n_outs, bool any_requires_grad);
/* The error for an operator without a gradient whose input requires one. Returns the status to return. */
fac_status fac__not_differentiable(const char *op, const char *reason);

/* ---- views ------------------------------------------------------------------------------------------------------------ */

typedef enum { FAC_VIEW_DEFAULT, FAC_VIEW_NO_GRAD, FAC_VIEW_MULTI_OUTPUT, FAC_VIEW_INFERENCE } fac_view_made;
/* Records that `view` (fresh) is `op(args)` of `parent`: base, replay record, how it was made; shares the version.
   args are the boxed arguments after self, copied. Under no-grad the making is FAC_VIEW_NO_GRAD, whatever is asked. */
fac_status fac__view_record(fac_thread *th, fac_tensor *parent, fac_tensor *view, fac_view_made how,
                            const fac_operator *op, const fac_value *args, size_t n_args);
/* Gives t itself the sizes, strides, offset, history and way from the base of `view`, a fresh view of it, and counts its version
   on. Views of t that were made before keep what they show. t has been checked as before any change in place. */
fac_status fac__view_become(fac_tensor *t, fac_tensor *view);
/* Takes t out of the graph. errors: AUTOGRAD for a view */
fac_status fac__detach_in_place(fac_tensor *t);
/* The node of t, regenerated if t is a view whose base changed in place since. Borrowed; NULL if none. */
fac_node *fac__grad_fn(fac_tensor *t);

/* ---- saved values --------------------------------------------------------------------------------------------------------- */

typedef struct fac_saved {
    fac_tensor *t;                 /* owned; but for leaves an alias without autograd data */
    fac_edge edge;                 /* where its gradient goes; of an output: no node, and the number of the output */
    struct fac_saved_hooks *hooks; /* pack/unpack hooks, NULL without */
    unsigned version;
    bool set, is_output;
} fac_saved;
fac_status fac__save(fac_saved *s, fac_tensor *t); /* NULL allowed: unpacks as NULL */
fac_status fac__save_output(fac_saved *s, fac_tensor *t, uint32_t nr);
/* The same for an output in place, in two steps: before it is written, which may fail, and after, when only a pack hook may. */
fac_status fac__save_output_begin(fac_saved *s, fac_tensor *t, uint32_t nr);
fac_status fac__save_output_end(fac_saved *s);
/* Borrowed until the scope of the node's run ends; *out NULL if NULL was saved. Errors: freed (second backward), changed
   in place since (names versions). */
fac_status fac__unpack(fac_saved *s, fac_node *n, const char *what, fac_tensor **out);
void fac__saved_release(fac_saved *s);

typedef struct fac_saved_list {
    fac_saved *v;
    size_t n;
} fac_saved_list;
fac_status fac__save_list(fac_saved_list *s, fac_tensors l);
fac_status fac__unpack_list(fac_saved_list *s, fac_node *n, const char *what, fac_tensors *out);
void fac__saved_list_release(fac_saved_list *s);

typedef struct fac_saved_ints {
    int64_t *v; /* inline_v or heap; NULL = unset */
    size_t n;
    int64_t inline_v[4];
} fac_saved_ints;
fac_status fac__save_ints(fac_saved_ints *s, fac_ints l);
fac_status fac__save_sizes(fac_saved_ints *s, const fac_tensor *t); /* NULL gives unset */
static inline fac_device fac__device_now(const fac_tensor *t) { return t ? t->device : (fac_device){0}; }
static inline fac_ints fac__ints_of(const fac_saved_ints *s) {
    fac_ints l = {s->v, s->n};
    return l;
}
void fac__saved_ints_release(fac_saved_ints *s);
typedef struct fac_saved_sizes_list { /* sizes of each tensor in a list */
    fac_saved_ints *v;
    size_t n;
} fac_saved_sizes_list;
fac_status fac__save_sizes_list(fac_saved_sizes_list *s, fac_tensors l);
void fac__saved_sizes_list_release(fac_saved_sizes_list *s);

typedef struct fac_saved_scalar {
    fac_scalar v;
    double re_im[2]; /* where a complex v points */
} fac_saved_scalar;
void fac__save_scalar(fac_saved_scalar *s, fac_scalar v);
static inline fac_scalar fac__scalar_of(const fac_saved_scalar *s) {
    if (s->v.kind == FAC_KIND_COMPLEX) return fac_scalar_c_(s->re_im);
    return s->v;
}
typedef struct fac_saved_opt_num {
    bool set;
    fac_saved_scalar s;
} fac_saved_opt_num;
void fac__save_opt_num(fac_saved_opt_num *s, fac_opt_num v);
static inline fac_opt_num fac__opt_num_of(const fac_saved_opt_num *s) {
    fac_opt_num o = {s->set, fac__scalar_of(&s->s)};
    return o;
}

/* ---- in formulas ----------------------------------------------------------------------------------------------------------- */

/* grads[i], or zeros of output i's shape if nothing flowed there; belongs to the current scope. NULL on failure. */
fac_tensor *fac__grad_or_zeros(fac_node *n, fac_tensor *const *grads, uint32_t i);

#endif
