/* Differentiation: backward, grad, modes, hooks, custom functions, checkpointing, numerical checks. */
#ifndef FACULA_AUTOGRAD_H
#define FACULA_AUTOGRAD_H

#include <facula/dispatch.h>
#include <facula/keywords.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A function of tensors, to be differentiated, mapped or checked: `out_outputs` has room for n_outputs, which belong to
   the innermost scope. */
typedef fac_status (*fac_func)(void *context, fac_tensors inputs, fac_tensor **out_outputs, size_t n_outputs);

/* ---- leaves ------------------------------------------------------------------------------------------------------ */

/* Whether a gradient flows to t: set on a leaf, or inherited from an operand. */
FAC_API bool fac_requires_grad(const fac_tensor *t);
/* Sets it on a leaf; returns t. Only floating and complex tensors can; a non-leaf cannot be switched off. */
FAC_API fac_tensor *fac_set_requires_grad(fac_tensor *t, bool on);
/* True if t was not made by a recorded operation. */
FAC_API bool fac_is_leaf(const fac_tensor *t);
/* The accumulated gradient, borrowed from t; NULL if there is none. */
FAC_API fac_tensor *fac_grad_of(const fac_tensor *t);
/* Replaces it (NULL drops it). Shape, dtype and device must be t's. */
FAC_API FAC_MUST fac_status fac_set_grad(fac_tensor *t, fac_tensor *grad);
/* Makes a non-leaf keep its gradient. */
FAC_API FAC_MUST fac_status fac_retain_grad(fac_tensor *t);
/* The node that made t, borrowed; NULL for leaves. */
FAC_API fac_node *fac_grad_fn(fac_tensor *t);
FAC_API const char *fac_node_name(const fac_node *n); /* "MulBackward0" */
/* Inputs of a node: how many, and the i-th's node (borrowed; NULL if no gradient goes there). */
FAC_API size_t fac_node_next_count(const fac_node *n);
FAC_API fac_node *fac_node_next(const fac_node *n, size_t i);
/* Writes the graph behind t as text, one node a line. */
FAC_API fac_status fac_graph_print(fac_tensor *t, FILE *stream);
/* Writes the graph behind t as a GraphViz digraph. */
FAC_API FAC_MUST fac_status fac_graph_dot(fac_tensor *t, FILE *stream);
/* True if t is a view, and its base (borrowed; NULL if not a view). */
FAC_API bool fac_is_view(const fac_tensor *t);
FAC_API fac_tensor *fac_view_base(const fac_tensor *t);

/* ---- passes ------------------------------------------------------------------------------------------------------ */

/* Adds d root / d leaf to the gradient of every leaf that requires one, or of `inputs` only. `gradient` is that of the
   root; without it ones, for a one-element root only. create_graph implies retain_graph.
   errors: AUTOGRAD if root needs no gradient or the graph was freed; SHAPE if the root has several elements and no
           gradient is given */
FAC_API FAC_MUST fac_status fac_backward(fac_tensor *root, const fac_backward_kw *kw);
/* fac_backward from several roots; grads may be empty, or hold NULL for one-element roots. */
FAC_API FAC_MUST fac_status fac_backward_all(fac_tensors roots, fac_tensors grads, const fac_backward_all_kw *kw);

/* Gradients of the sum of outputs (weighted by grad_outputs) with respect to inputs, written to out_grads[inputs.n];
   each belongs to the innermost scope. Leaves' own gradients are left alone. With allow_unused an input that outputs
   do not depend on gives NULL rather than an error. */
FAC_API FAC_MUST fac_status fac_grad(fac_tensors outputs, fac_tensors inputs, fac_tensor **out_grads,
                                     const fac_grad_kw *kw);

/* ---- modes ------------------------------------------------------------------------------------------------------- */

/* Turns recording off or on for this thread; returns the former setting. */
FAC_API bool fac_set_grad_enabled(bool on);
FAC_API bool fac_is_grad_enabled(void);
/* Inference mode: no recording, no version counters, no view tracking. Returns the former setting. */
FAC_API bool fac_set_inference_mode(bool on);
FAC_API bool fac_is_inference_mode(void);
FAC_API bool fac_is_inference(const fac_tensor *t);
/* The former setting of a mode, to be put back. Plain data. */
typedef struct fac_mode_guard {
    bool was, inference;
} fac_mode_guard;
/* Turns recording off or on, or inference mode on, until fac_mode_end puts back what was. Guards nest. */
FAC_API fac_mode_guard fac_no_grad_begin(void);
FAC_API fac_mode_guard fac_enable_grad_begin(void);
FAC_API fac_mode_guard fac_inference_begin(void);
FAC_API void fac_mode_end(fac_mode_guard *g);
#if defined(__GNUC__)
/* No recording for the rest of the block: FAC_NO_GRAD(g), where g is any name. */
#define FAC_NO_GRAD(g) fac_mode_guard g __attribute__((cleanup(fac_mode_end), unused)) = fac_no_grad_begin()
/* Recording for the rest of the block. */
#define FAC_ENABLE_GRAD(g) fac_mode_guard g __attribute__((cleanup(fac_mode_end), unused)) = fac_enable_grad_begin()
/* Inference mode for the rest of the block. */
#define FAC_INFERENCE(g) fac_mode_guard g __attribute__((cleanup(fac_mode_end), unused)) = fac_inference_begin()
#endif

/* ---- hooks ------------------------------------------------------------------------------------------------------- */

/* A registered function, to be taken off again. A number: one that is taken off, or whose tensor or module is gone, is
   harmless. */
typedef struct fac_hook fac_hook;
/* Takes a hook off and forgets the handle. */
FAC_API void fac_hook_remove(fac_hook *h);
/* Called with a gradient; returns a replacement, or NULL to leave it. Runs in a scope of its own. What hooks put in
   place of gradients is summed to their size and cast to their dtype, as what nodes return is; the pass fails where
   that cannot be. */
typedef fac_tensor *(*fac_grad_hook)(void *context, fac_tensor *grad);
/* On the gradient of t (leaf or not), before it is used or accumulated. NULL on failure. */
FAC_API fac_hook *fac_register_hook(fac_tensor *t, fac_grad_hook fn, void *context);
/* After t (a leaf) has accumulated its gradient. */
FAC_API fac_hook *fac_register_post_accumulate_hook(fac_tensor *t, void (*fn)(void *context, fac_tensor *t),
                                                    void *context);
/* On a node: before it runs (may replace grads[i], owned by the innermost scope) and after (sees both). */
FAC_API fac_hook *fac_node_register_pre_hook(fac_node *n,
                                             fac_status (*fn)(void *context, fac_tensor **grads, size_t n_grads),
                                             void *context);
FAC_API fac_hook *fac_node_register_hook(fac_node *n,
                                         fac_status (*fn)(void *context, fac_tensor **grad_inputs, size_t n_in,
                                                          fac_tensor *const *grad_outputs, size_t n_out),
                                         void *context);

/* ---- custom functions -------------------------------------------------------------------------------------------- */

/* The context of one call of a custom function. */
typedef struct fac_function_ctx fac_function_ctx;
/* forward: computes outputs (owned by the innermost scope) without recording; may save. backward: gradients of outputs
   in (NULL if none flowed), gradients of inputs out (NULL allowed), made with public operators so that they can be
   differentiated again. */
typedef struct fac_function {
    const char *name;
    size_t n_outputs;
    fac_status (*forward)(fac_function_ctx *c, fac_tensors inputs, fac_tensor **out_outputs);
    fac_status (*backward)(fac_function_ctx *c, fac_tensors grad_outputs, fac_tensor **out_grad_inputs);
    void (*destroy)(void *user); /* of the pointer set with fac_function_set_user; may be NULL */
    /* Tangents of outputs (owned by the innermost scope; NULL: zero) of those of inputs (NULL: zero), in forward
       mode; made with public operators, and fac_function_saved. NULL: dual tensors are refused. */
    fac_status (*jvp)(fac_function_ctx *c, fac_tensors tangents, fac_tensor **out_tangents);
    /* How it runs for all samples of a fac_vmap: one of these two, else it refuses samples with UNSUPPORTED.
       generate_vmap_rule: forward, backward and jvp see samples, as the function of the vmap does. They may run again
       after the vmap, so samples are theirs from inputs, gradients and fac_function_saved only.
       vmap: computes all samples, mostly by fac_function_apply of this function or another. Input i has them in
       dimension in_dims.v[i], or is the same for all (FAC_UNSET); out_dims says the same of the outputs, and is 0 for
       each at first. `user` is what fac_function_apply was given.
       source: torch.autograd.Function, generate_vmap_rule and vmap */
    bool generate_vmap_rule;
    fac_status (*vmap)(void *user, int64_t batch_size, fac_ints in_dims, fac_tensors inputs, fac_tensor **out_outputs,
                       int64_t *out_dims);
} fac_function;
/* In forward: keeps inputs, outputs or other tensors for backward. */
FAC_API FAC_MUST fac_status fac_function_save(fac_function_ctx *c, fac_tensors tensors);
/* In backward: the saved tensors, version-checked; borrowed for the call. */
FAC_API fac_tensors fac_function_saved(fac_function_ctx *c);
/* A pointer of one's own: the one given to fac_function_apply, which must stay valid as long as the graph, or one that
   forward sets, once, and that is handed to `destroy` with the graph. */
FAC_API void fac_function_set_user(fac_function_ctx *c, void *user);
FAC_API void *fac_function_user(fac_function_ctx *c);
/* Whether input i needs a gradient in this pass; backward may leave out the others. */
FAC_API bool fac_function_needs_input_grad(fac_function_ctx *c, size_t i);
/* In forward: an input that was changed in place, and must be an output, else fac_function_apply fails with AUTOGRAD;
   an output that has no gradient. */
FAC_API void fac_function_mark_dirty(fac_function_ctx *c, fac_tensor *input);
FAC_API void fac_function_mark_non_differentiable(fac_function_ctx *c, fac_tensor *output);
/* Runs a custom function; out_outputs has room for fn->n_outputs, which the innermost scope owns. fn must stay valid
   as long as the graph.
   errors: ARGUMENT; STATE without a scope; AUTOGRAD; what forward returns. out_outputs is then all NULL */
FAC_API FAC_MUST fac_status fac_function_apply(const fac_function *fn, void *user, fac_tensors inputs,
                                               fac_tensor **out_outputs);

/* Gives a registered operator (fac_register_operator) a gradient: called when a backward pass reaches it. `args` are
   the forward's boxed arguments and `results` its results, saved; out_grads has one slot per tensor argument. */
typedef fac_status (*fac_operator_backward)(void *context, const fac_value *args, const fac_value *results,
                                            fac_tensors grad_outputs, fac_tensor **out_grads);
typedef struct fac_registration fac_registration;
FAC_API fac_registration *fac_register_gradient(const char *op, fac_operator_backward fn, void *context,
                                                const char *where);

/* Runs fn without keeping what it saves; backward runs it again. Random numbers are the same both times. What fn
   returns belongs to the innermost scope. Within a fac_vmap the samples that fn sees are those of its inputs: one that
   it has from elsewhere is an error (STATE). */
typedef fac_tensor *(*fac_checkpoint_fn)(void *context, fac_tensors inputs);
FAC_API fac_tensor *fac_checkpoint(fac_checkpoint_fn fn, void *context, fac_tensors inputs);

/* Saved-tensor hooks of this thread: pack turns what is saved into a handle, unpack turns it back, destroy (or NULL)
   frees the handle. NULL takes them off.
   errors: ARGUMENT if only one of pack and unpack is given; the hooks then stay as they were */
typedef struct fac_saved_tensor_hooks {
    void *(*pack)(void *context, fac_tensor *t);
    fac_tensor *(*unpack)(void *context, void *handle);
    void (*destroy)(void *context, void *handle);
    void *context;
} fac_saved_tensor_hooks;
FAC_API void fac_set_saved_tensor_hooks(const fac_saved_tensor_hooks *hooks);
/* Anomaly mode: a NaN in a gradient is an error that names the node. Returns the former setting. */
FAC_API bool fac_set_detect_anomaly(bool on);

/* ---- forward mode ------------------------------------------------------------------------------------------------ */

/* Opens a level of forward mode on this thread. Tensors that are made dual are so until it is closed. Returns its
   number, or 0 with an error pending. Levels nest; a tangent belongs to one of them.
   errors: STATE if too many are open
   source: torch.autograd.forward_ad.dual_level */
FAC_API int64_t fac_dual_level_enter(void);
/* Closes a level, and those that were opened after it. Dual tensors of a closed level are as their primals are.
   errors: ARGUMENT if it is not open on this thread */
FAC_API FAC_MUST fac_status fac_dual_level_exit(int64_t level);
/* A level that is to be closed. Plain data. */
typedef struct fac_dual_level {
    int64_t number;
} fac_dual_level;
/* Opens a level until fac_dual_level_end. */
FAC_API fac_dual_level fac_dual_level_begin(void);
/* Closes it; harmless if that was done, or if it could not be opened. */
FAC_API void fac_dual_level_end(fac_dual_level *level);
#if defined(__GNUC__)
/* A level of forward mode for the rest of the block: FAC_DUAL_LEVEL(l), where l is any name. */
#define FAC_DUAL_LEVEL(l) fac_dual_level l __attribute__((cleanup(fac_dual_level_end), unused)) = fac_dual_level_begin()
#endif
/* A view of primal that carries a tangent, a copy of the one given, on the innermost level. What operators compute
   of it carries tangents too: the derivative in the direction that the tangents say. Under fac_vmap each sample has
   its own. The result belongs to the innermost scope.
   shape:  tangent as primal
   dtype:  floating or complex, both the same
   errors: SHAPE, DTYPE, DEVICE if they differ; STATE if no level is open, or primal has a tangent on it
   source: torch.autograd.forward_ad.make_dual */
FAC_API fac_tensor *fac_make_dual(fac_tensor *primal, fac_tensor *tangent);
/* The parts of a dual tensor: see fac_unpack_dual. */
typedef struct fac_dual {
    fac_tensor *primal, *tangent;
} fac_dual;
/* The primal and the tangent of t on the innermost level; both belong to the innermost scope. Of a tensor without a
   tangent: t itself and NULL. Both are NULL on failure.
   errors: UNSUPPORTED for a nested tensor, whose components have the tangents
   source: torch.autograd.forward_ad.unpack_dual */
FAC_API fac_dual fac_unpack_dual(fac_tensor *t);
/* Whether t carries a tangent on a level that is open. */
FAC_API bool fac_is_dual(const fac_tensor *t);
/* Turns tangents off or on for this thread; off, operators compute of dual tensors what they compute of their primals.
   Returns the former setting. */
FAC_API bool fac_set_fwd_grad_enabled(bool on);
FAC_API bool fac_is_fwd_grad_enabled(void);

/* ---- numerical checks -------------------------------------------------------------------------------------------- */

/* Compares analytic with central-difference Jacobians for every f64 (or c128) input that requires a gradient, and
   with check_forward_ad those of forward mode too. A mismatch is FAC_ERR_AUTOGRAD naming output, input and both
   values. source: torch.autograd.gradcheck */
FAC_API FAC_MUST fac_status fac_gradcheck(fac_func fn, void *context, fac_tensors inputs, size_t n_outputs,
                                          const fac_gradcheck_kw *kw);
/* fac_gradcheck of the gradients themselves, with random grad_outputs. source: torch.autograd.gradgradcheck */
FAC_API FAC_MUST fac_status fac_gradgradcheck(fac_func fn, void *context, fac_tensors inputs, size_t n_outputs,
                                              const fac_gradgradcheck_kw *kw);
/* Jacobian of fn (one output) by rows: [numel(output), numel(input)]; belongs to the innermost scope. */
FAC_API fac_tensor *fac_jacobian(fac_func fn, void *context, fac_tensor *input);

#ifdef __cplusplus
}
#endif
#include <facula/autograd_macros.h>
#endif
