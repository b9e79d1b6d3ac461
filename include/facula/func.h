/* Transforms of functions: vmap, which runs a function once for all samples of a batch, and the derivatives that are
   built on it.
   source: torch.func */
#ifndef FACULA_FUNC_H
#define FACULA_FUNC_H

#include <facula/autograd.h>
#include <facula/keywords.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Maps fn over a dimension of its inputs: fn is called once, with tensors that show one sample, and every operator in
   it computes all samples. The outputs equal those of a loop over the samples, stacked. Calls nest. Within fn the
   sizes are those of a sample; what a sample's elements are cannot be read (fac_item, fac_print), nor can the sizes
   of results depend on them (fac_nonzero). An operator that has no rule runs sample by sample, with a warning the
   first time: fac_operator_batch_rule.
   keywords: in_dim, in_dims: the dimension that is mapped, of all inputs or of each; FAC_UNSET: the input is the same
             for all samples. out_dim, out_dims: where it stands in the outputs; FAC_UNSET: an output that is the same
             for all samples. randomness: what random operators do, "error", "different" for each sample, "same" for
             all. chunk_size: as many samples at a time, and the memory of each chunk is free before the next
   shape:  inputs [..., B, ...] -> outputs with B at out_dim
   own:    the outputs belong to the innermost scope
   errors: SHAPE if mapped dimensions differ or are empty; INDEX; ARGUMENT; STATE without a scope; UNSUPPORTED for
           what has no batched form, such as a write to a tensor that is the same for all; what fn returns.
           out_outputs is then all NULL
   grad:   flows through
   source: torch.func.vmap */
FAC_API FAC_MUST fac_status fac_vmap(fac_func fn, void *context, fac_tensors inputs, fac_tensor **out_outputs,
                                     size_t n_outputs, const fac_vmap_kw *kw);
/* How vmap runs an operator: a word of docs/operators.md, such as "pointwise", "parts" for a composite, "loop" for
   one that is run sample by sample, "refused". */
FAC_API const char *fac_operator_batch_rule(const fac_operator *op);

/* The gradient of fn, which has one output of one element, with respect to the inputs that argnum or argnums name;
   out_grads has room for as many. Under fac_vmap it is that of each sample. `value` gets fn's output. Recording is on
   within fn; the results are recorded in turn if recording was on and they depend on what wants a gradient, so calls
   nest.
   own:    the gradients belong to the innermost scope
   errors: SHAPE if the output has several elements; DTYPE if an input is not floating or complex; INDEX; UNSUPPORTED
           if the output is a nested tensor; what fn returns
   source: torch.func.grad, grad_and_value */
FAC_API FAC_MUST fac_status fac_func_grad(fac_func fn, void *context, fac_tensors inputs, fac_tensor **out_grads,
                                          const fac_func_grad_kw *kw);
/* The outputs of fn, as many as cotangents, and the gradients of all inputs for these cotangents; NULL leaves out an
   output. An input that is not floating gets NULL.
   own:    outputs and gradients belong to the innermost scope
   errors: as fac_func_grad; SHAPE if a cotangent differs from its output
   source: torch.func.vjp */
FAC_API FAC_MUST fac_status fac_func_vjp(fac_func fn, void *context, fac_tensors inputs, fac_tensors cotangents,
                                         fac_tensor **out_outputs, fac_tensor **out_grads);
/* The outputs of fn, and their derivatives along tangents of the inputs, in forward mode; NULL leaves out an input. The
   derivative is zero for an output that does not depend on them, and NULL for one that is not floating.
   own:    outputs and tangents belong to the innermost scope
   errors: SHAPE, DTYPE, DEVICE if a tangent differs from its input; AUTOGRAD for an operator without a tangent;
           UNSUPPORTED for an output that is a nested tensor, whose components have the tangents; what fn returns. All
           outputs are then NULL
   grad:   flows through outputs and tangents
   source: torch.func.jvp */
FAC_API FAC_MUST fac_status fac_func_jvp(fac_func fn, void *context, fac_tensors inputs, fac_tensors tangents,
                                         fac_tensor **out_outputs, fac_tensor **out_tangents, size_t n_outputs);
/* The Jacobian of fn, which has one output, with respect to input `argnum`, by rows: fn runs once, and one backward
   pass carries the rows of all elements of the output, chunk_size of them at a time.
   shape:  output [...out], input [...in] -> [...out, ...in]
   own:    the result belongs to the innermost scope
   errors: as fac_func_grad
   source: torch.func.jacrev */
FAC_API fac_tensor *fac_func_jacrev(fac_func fn, void *context, fac_tensors inputs, const fac_func_jacrev_kw *kw);
/* The same by columns, in forward mode: fn runs once for the columns of all elements of the input, chunk_size of them
   at a time, as fac_vmap runs it, with the same random numbers for each. Quicker than by rows where the output is the
   longer. A function that refuses batches is called again for each column on its own.
   shape:  output [...out], input [...in] -> [...out, ...in]
   own:    the result belongs to the innermost scope
   errors: as fac_func_jvp; DTYPE if the output is not floating; INDEX
   source: torch.func.jacfwd */
FAC_API fac_tensor *fac_func_jacfwd(fac_func fn, void *context, fac_tensors inputs, const fac_func_jacfwd_kw *kw);
/* The Hessian of fn, which has one output, with respect to input `argnum`: fac_func_jacfwd of fac_func_jacrev.
   shape:  output [...out], input [...in] -> [...out, ...in, ...in]
   own:    the result belongs to the innermost scope
   errors: as fac_func_jacfwd and fac_func_jacrev
   source: torch.func.hessian */
FAC_API fac_tensor *fac_func_hessian(fac_func fn, void *context, fac_tensors inputs, const fac_func_hessian_kw *kw);
/* The product of the Hessian of fn, which has one output of one element, with vectors shaped like the inputs, without
   that Hessian: the derivative of the gradient along them; NULL leaves out an input. out_products has room for one for
   each input; one that is not floating gets NULL.
   own:    the products belong to the innermost scope
   errors: as fac_func_jvp and fac_func_grad
   source: torch.autograd.functional.hvp */
FAC_API FAC_MUST fac_status fac_func_hvp(fac_func fn, void *context, fac_tensors inputs, fac_tensors vectors,
                                         fac_tensor **out_products);

typedef struct fac_module fac_module;
/* Calls a module with other tensors in the place of its parameters, in the order of fac_module_parameters; the module
   is as before when it returns. No other thread may use it meanwhile.
   own:    the output belongs to the innermost scope
   errors: ARGUMENT if the number of parameters differs; what the module's forward fails with
   source: torch.func.functional_call */
FAC_API fac_tensor *fac_functional_call(fac_module *m, fac_tensors parameters, fac_tensor *input);
/* The loss of one sample. */
typedef fac_tensor *(*fac_sample_loss)(void *context, fac_tensor *output, fac_tensor *target);
/* The gradients of the loss of each sample with respect to a module's parameters, in their order: out_grads has room
   for n_parameters. A module sees one sample, without a dimension for the batch.
   shape:  input [B, ...], target [B, ...] or NULL, parameter [...p] -> [B, ...p]
   own:    the gradients belong to the innermost scope
   errors: as fac_vmap and fac_func_grad
   source: torch.func: vmap(grad(functional_call)) */
FAC_API FAC_MUST fac_status fac_func_per_sample_grads(fac_module *m, fac_sample_loss loss, void *context,
                                                      fac_tensor *input, fac_tensor *target, fac_tensor **out_grads,
                                                      size_t n_parameters, const fac_func_per_sample_grads_kw *kw);

#ifdef __cplusplus
}
#endif
#include <facula/func_macros.h>
#endif
