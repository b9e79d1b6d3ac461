/* Modules: trees of parameters, buffers and children with a forward function. */
#ifndef FACULA_NN_H
#define FACULA_NN_H

#include <facula/autograd.h>
#include <facula/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- classes and objects ---------------------------------------------------------------------------------------- */

/* A list of tensors by name: of a state dict, or of a module's parameters, buffers or children. */
typedef struct fac_state fac_state;
/* A class has at most as many results. */
#define FAC_MODULE_MAX_OUTPUTS 16
/* A kind of module. Static: it must outlive its modules. */
typedef struct fac_module_class {
    const char *name;  /* "Linear" */
    int version;       /* of its state dict; saved with it */
    size_t state_size; /* bytes of user state, zeroed at the start */
    /* One of these computes the module; NULL: calling it is an error. The result belongs to the innermost scope;
       forward runs in a scope of its own. */
    fac_tensor *(*forward)(fac_module *self, fac_tensor *x);
    fac_tensor *(*forward_many)(fac_module *self, fac_tensors inputs);
    void (*destroy)(fac_module *self); /* frees what state holds beyond children and tensors; may be NULL */
    /* fac_module_load calls it when a file was saved by an older version, with all of the file's entries,
       before any is loaded: it renames, converts or adds those of self, whose names begin with `prefix` ("" or
       "block.0."). May be NULL. */
    fac_status (*upgrade)(fac_module *self, fac_state *entries, const char *prefix, int from_version);
    /* What print shows in parentheses, such as "10, 5, bias=True"; may be NULL. */
    void (*describe)(fac_module *self, char *buf, size_t size);
    /* Makes the state of a new module, which is zero until then, and adds the parts that all modules of the
       class have; may be NULL. After a failure `destroy` is not called: init frees what the state holds, and
       the parts that it has added are freed. One that returns FAC_OK but leaves an error makes no module
       either; `destroy` is called. */
    fac_status (*init)(fac_module *self);
    /* fac_module_copy calls it to fill the state of `copy` from that of `self`. The copy is a new module, on
       which init has run; its parameters, buffers and children are copies of self's, in place of those that
       init has added. The state's pointers to parts are looked up in it by their names, and what the state owns
       is copied. When copying fails, here or before, `destroy` gets the copy with the parts that were copied so
       far; those that init has added live as long as the state that points to them. fac_module_copy_values for
       a state of plain values; NULL: modules of a class with a state, or with a destroy function, cannot be
       copied. */
    fac_status (*copy)(fac_module *copy, fac_module *self);
    /* For modules of several results: writes n_outputs of them to out; NULL for those that are not there, but the
       first. fac_forward_all gives them all, fac_forward and fac_forward_many the first, where the class has no
       function for it alone. */
    fac_status (*forward_all)(fac_module *self, fac_tensors inputs, fac_tensor **out);
    size_t n_outputs;
    /* For parametrisations (facula/nn_utils.h): writes to out the *n_out tensors, at most
       FAC_MODULE_MAX_OUTPUTS, from which the module makes `value`; of FAC_ERR_UNSUPPORTED, without an error,
       they are `value`. May be NULL: then they are, too. */
    fac_status (*right_inverse)(fac_module *self, fac_tensor *value, fac_tensor **out, size_t *n_out);
} fac_module_class;

/* Makes an empty module in training mode; the caller owns one reference. NULL on failure.
   errors: ARGUMENT if cls is NULL or has no name; MEMORY; what its init function finds */
FAC_API FAC_MUST fac_module *fac_module_new(const fac_module_class *cls);
/* Takes or drops a reference. NULL is allowed. */
FAC_API fac_module *fac_module_keep(fac_module *m);
FAC_API void fac_module_release(fac_module *m);
/* The user state, which lives as long as the module, and the class. */
FAC_API void *fac_module_state(fac_module *m);
FAC_API const fac_module_class *fac_module_class_of(const fac_module *m);

/* Registers under `name`, which may hold no dot and not be taken; returns what was registered, borrowed. A NULL
   tensor registers "none" (a layer without bias). Parameters must be leaves; they are made to require a gradient if
   floating. */
FAC_API fac_tensor *fac_module_add_parameter(fac_module *m, const char *name, fac_tensor *t);
/* Registers a buffer as fac_module_add_parameter does a parameter; returns it, borrowed. Buffers move with the
   module; persistent ones, which they are by default, are saved. source: torch.nn.Module.register_buffer */
FAC_API fac_tensor *fac_module_add_buffer(fac_module *m, const char *name, fac_tensor *t,
                                          const fac_module_add_buffer_kw *kw);
/* Adds a child and takes over the caller's reference, also when it fails; NULL (a child that could not be made) is
   passed on with its error. Returns the child, borrowed. */
FAC_API fac_module *fac_module_add(fac_module *m, const char *name, fac_module *child);

/* Looks up "block.0.weight" or a child "block.0"; NULL with an error if it is not there. Borrowed. */
FAC_API fac_tensor *fac_module_parameter(fac_module *m, const char *path);
FAC_API fac_tensor *fac_module_buffer(fac_module *m, const char *path);
FAC_API fac_module *fac_module_child(fac_module *m, const char *path);
/* Puts another tensor in the place of a parameter or buffer (NULL: none). */
FAC_API FAC_MUST fac_status fac_module_set_tensor(fac_module *m, const char *path, fac_tensor *t);

/* ---- running ---------------------------------------------------------------------------------------------------- */

/* Runs pre-hooks, forward (in its own scope) and hooks. The result belongs to the innermost scope; NULL on
   failure. */
FAC_API FAC_MUST fac_tensor *fac_forward(fac_module *m, fac_tensor *x);
/* fac_forward for modules of several inputs; the result belongs to the innermost scope. Forward pre-hooks and full
   backward hooks, which are about one input, run only if there is just one. */
FAC_API FAC_MUST fac_tensor *fac_forward_many(fac_module *m, fac_tensors inputs);
/* fac_forward_many that writes all results of the module to out, which has room for n_out: an LSTM's output and
   states, a pooling's maxima and their indices. They belong to the innermost scope; those that the module does not
   have are NULL. Forward hooks see the first. */
FAC_API FAC_MUST fac_status fac_forward_all(fac_module *m, fac_tensors inputs, fac_tensor **out, size_t n_out);
/* How many results that are, at most. */
FAC_API size_t fac_module_output_count(const fac_module *m);
/* Training or evaluation mode, for the module and all below it. */
FAC_API void fac_module_train(fac_module *m, bool on);
FAC_API bool fac_module_is_training(const fac_module *m);

/* Hooks run in order of registration, each in a scope of its own; fac_hook_remove takes them off. A pre-hook may
   return another input, a forward hook another output; NULL leaves it. */
FAC_API fac_hook *fac_module_register_forward_pre_hook(fac_module *m,
                                                       fac_tensor *(*fn)(void *context, fac_module *m, fac_tensor *x),
                                                       void *context);
FAC_API fac_hook *fac_module_register_forward_hook(
    fac_module *m, fac_tensor *(*fn)(void *context, fac_module *m, fac_tensor *x, fac_tensor *y), void *context);
/* Called in backward with the gradient of the module's output; may return a replacement for it. */
FAC_API fac_hook *fac_module_register_full_backward_pre_hook(
    fac_module *m, fac_tensor *(*fn)(void *context, fac_module *m, fac_tensor *grad_output), void *context);
/* Called in backward once the gradient of the module's input is known; may return a replacement for it. */
FAC_API fac_hook *fac_module_register_full_backward_hook(
    fac_module *m, fac_tensor *(*fn)(void *context, fac_module *m, fac_tensor *grad_input), void *context);
/* Called in backward with the gradients of the node that made the module's result, once it has run, and those that had
   come to it; what is put into grad_inputs takes their place. It is about that node alone, whatever else the module
   did: a full backward hook is about the module. It goes onto the node when the module runs, and does nothing once it
   was removed or the module is gone.
   errors: STATE beside full backward hooks of the module, and for them beside it
   source: torch.nn.Module.register_backward_hook */
FAC_API fac_hook *fac_module_register_backward_hook(fac_module *m,
                                                    fac_status (*fn)(void *context, fac_module *m,
                                                                     fac_tensor **grad_inputs, size_t n_in,
                                                                     fac_tensor *const *grad_outputs, size_t n_out),
                                                    void *context);
/* Moves a hook of any kind before all that its module, tensor or node has; one that is gone is no error.
   errors: STATE while hooks of the same owner run
   source: prepend=True of torch.nn.Module.register_forward_hook and others */
FAC_API FAC_MUST fac_status fac_hook_prepend(fac_hook *h);
/* Before a state dict is made, for what m should bring up to date; all of these hooks, of modules below first, run
   before the first entry is taken. source: torch.nn.Module.register_state_dict_pre_hook */
FAC_API fac_hook *fac_module_register_state_pre_hook(fac_module *m, fac_status (*fn)(void *context, fac_module *m),
                                                     void *context);
/* After a state dict was made, and before one is loaded. */
FAC_API fac_hook *fac_module_register_state_hook(fac_module *m,
                                                 fac_status (*fn)(void *context, fac_module *m, fac_state *state),
                                                 void *context);
FAC_API fac_hook *fac_module_register_load_pre_hook(fac_module *m,
                                                    fac_status (*fn)(void *context, fac_module *m, fac_state *state),
                                                    void *context);
/* After a state dict was loaded, with the names that were missing and unexpected; of modules below first. It does not
   run after an error, and cannot forgive names: .strict = false does, and a hook before loading can change the state.
   source: torch.nn.Module.register_load_state_dict_post_hook */
FAC_API fac_hook *fac_module_register_load_post_hook(fac_module *m,
                                                     fac_status (*fn)(void *context, fac_module *m,
                                                                      const fac_state *missing,
                                                                      const fac_state *unexpected),
                                                     void *context);

/* ---- walking ---------------------------------------------------------------------------------------------------- */

/* An ordered list of names and tensors (or modules); it owns a reference of each. */
typedef struct fac_named {
    const char *name; /* "block.0.weight" */
    fac_tensor *tensor;
    fac_module *module; /* of fac_module_modules, else NULL */
} fac_named;
/* The entries, in order. */
struct fac_state {
    fac_named *v;
    size_t n, cap;
};
/* Parameters, or buffers, of m and (unless .recurse = false) all below it in order; each shared one once. Freed with
   fac_state_free; NULL on failure. source: torch.nn.Module.named_parameters, named_buffers */
FAC_API fac_state *fac_module_parameters(fac_module *m, const fac_module_parameters_kw *kw);
FAC_API fac_state *fac_module_buffers(fac_module *m, const fac_module_buffers_kw *kw);
/* m itself ("") and all modules below, parents first, each once; or only the direct children. */
FAC_API fac_state *fac_module_modules(fac_module *m);
FAC_API fac_state *fac_module_children(fac_module *m);
/* Frees a list and drops its references. NULL is allowed. */
FAC_API void fac_state_free(fac_state *s);
/* Adds (a reference of) a tensor to a list, replacing one of the same name. */
FAC_API FAC_MUST fac_status fac_state_set(fac_state *s, const char *name, fac_tensor *t);
/* Takes an entry out, and drops its reference; nothing happens if there is none of that name. */
FAC_API void fac_state_remove(fac_state *s, const char *name);
/* The tensor of that name, borrowed; NULL without an error if there is none. */
FAC_API fac_tensor *fac_state_get(const fac_state *s, const char *name);
/* An empty list; freed with fac_state_free. */
FAC_API fac_state *fac_state_new(void);
/* Adds (references of) all entries of `from`, their names with `prefix` in front, replacing those of the same names:
   parts of a checkpoint in one list, such as "model." and "optimizer.". After an error some may have been added. */
FAC_API FAC_MUST fac_status fac_state_add(fac_state *s, const char *prefix, const fac_state *from);
/* A new list of the entries whose names begin with `prefix`, without it; there may be none. Freed with
   fac_state_free. */
FAC_API fac_state *fac_state_part(const fac_state *s, const char *prefix);
/* Saves a list as safetensors, atomically, or loads one, checked: tensors on the CPU, in a new list to be freed with
   fac_state_free, in an order of the file's own; NULL on failure. See facula/io.h. Files of torch.save and .npz files
   are loaded too, and safetensors in parts by an index whose name ends in ".index.json" (facula/files.h); what is no
   tensor in them is left out.
   errors: ARGUMENT for an entry without a tensor, as those of fac_module_modules are; as fac_safetensors_save; FORMAT;
   IO */
FAC_API FAC_MUST fac_status fac_state_save(const fac_state *s, const char *path);
FAC_API fac_state *fac_state_load(const char *path);
/* Calls fn on m and every module below, children first. */
FAC_API FAC_MUST fac_status fac_module_apply(fac_module *m, fac_status (*fn)(void *context, fac_module *m),
                                             void *context);
/* Elements of all parameters. */
FAC_API int64_t fac_module_parameter_count(fac_module *m);

/* ---- state ------------------------------------------------------------------------------------------------------ */

/* Parameters and persistent buffers by path, sharing memory with the module. */
FAC_API fac_state *fac_module_state_dict(fac_module *m);
/* Copies a state dict into the module. Names of the module that the state lacks are added to the caller's list
   `missing`, with the module's tensors, and those that only the state has to `unexpected`, with the state's:
   whether or not this succeeds, but for an error of a hook. Strict, the default: such names are an error that lists
   them. Shapes must agree in any case. On an error nothing was changed.
   errors: NOT_FOUND for names, where strict; SHAPE; DTYPE; DEVICE
   source: torch.nn.Module.load_state_dict */
FAC_API FAC_MUST fac_status fac_module_load_state_dict(fac_module *m, const fac_state *s,
                                                       const fac_module_load_state_dict_kw *kw);
/* A deep copy: structure, parameters and buffers, and the state as each class copies it; what is shared within m is
   shared within the copy. Hooks are not copied. The caller owns the result.
   errors: UNSUPPORTED if a class has a state or a destroy function, and none to copy
   source: copy.deepcopy of a torch.nn.Module */
FAC_API FAC_MUST fac_module *fac_module_copy(fac_module *m);
/* The `copy` of a class whose state holds numbers, truth values and the like, and no pointer: copies its bytes. */
FAC_API FAC_MUST fac_status fac_module_copy_values(fac_module *copy, fac_module *self);
/* Saves or loads the state dict as safetensors: atomic, checked; see facula/io.h. Keywords as of
   fac_module_load_state_dict. */
FAC_API FAC_MUST fac_status fac_module_save(fac_module *m, const char *path);
FAC_API FAC_MUST fac_status fac_module_load(fac_module *m, const char *path, const fac_module_load_kw *kw);

/* Moves or casts parameters, their gradients and buffers, children first; a floating or complex dtype casts what is
   floating or complex, integers keep theirs. A memory_format is that of tensors of four and five dimensions, others
   keep theirs; tensor: one whose dtype and device are followed, in the place of those two. Parameters keep their
   identity (their data is swapped) unless fac_set_overwrite_module_params(true).
   errors: DTYPE for an integral or bool dtype; ARGUMENT for a tensor beside a dtype or device, or for a format of
           another number of dimensions than a tensor has (channels_last of five, channels_last_3d of four), when
           nothing was changed
   source: torch.nn.Module.to */
FAC_API FAC_MUST fac_status fac_module_to(fac_module *m, const fac_module_to_kw *kw);
/* Moves everything to a CUDA device (-1: the current one), or back to the CPU. */
FAC_API FAC_MUST fac_status fac_module_cuda(fac_module *m, int index);
FAC_API FAC_MUST fac_status fac_module_cpu(fac_module *m);
/* Whether fac_module_to gives a module new parameters in the place of its old ones (at first not), in the whole
   process; returns the former setting. source: torch.__future__.set_overwrite_module_params_on_conversion */
FAC_API bool fac_set_overwrite_module_params(bool on);
/* Switches requires_grad of all parameters. */
FAC_API FAC_MUST fac_status fac_module_set_requires_grad(fac_module *m, bool on);
/* Drops the gradients of all parameters. */
FAC_API FAC_MUST fac_status fac_module_zero_grad(fac_module *m);
/* Prints the tree as PyTorch does. */
FAC_API fac_status fac_module_print(fac_module *m, FILE *stream);

/* ---- containers; facula/modules.h has the layers and the losses ------------------------------------------------- */

/* Runs children "0", "1", ... in turn. Takes over the references in `modules` (also when it fails); a NULL entry is
   an earlier failure. */
FAC_API FAC_MUST fac_module *fac_sequential_new(fac_module *const *modules, size_t n);
#ifndef __cplusplus
/* fac_sequential(fac_linear_new(2, 16), fac_tanh_new(), ...) */
#define fac_sequential(...)                                \
    fac_sequential_new((fac_module *const[]){__VA_ARGS__}, \
                       sizeof((fac_module *const[]){__VA_ARGS__}) / sizeof(fac_module *))
#endif

/* Lists of modules, "0", "1", ..., and modules by name: parts that a module of one's own runs as it likes. The
   references in `modules` are taken over, also when it fails; a NULL entry is an earlier failure.
   source: torch.nn.ModuleList, torch.nn.ModuleDict */
FAC_API FAC_MUST fac_module *fac_module_list_new(fac_module *const *modules, size_t n);
FAC_API FAC_MUST fac_module *fac_module_dict_new(void);
/* Of a ModuleList or a Sequential: how many modules it has, and the one at an index, borrowed; a negative index
   counts from the end. A failure gives 0 and NULL.
   errors: ARGUMENT for another module; INDEX */
FAC_API size_t fac_module_list_len(fac_module *list);
FAC_API fac_module *fac_module_list_get(fac_module *list, int64_t index);
/* Adds a module at the end or before `index`, or replaces that at `index`, taking over the reference also when it
   fails; returns it, borrowed. */
FAC_API fac_module *fac_module_list_append(fac_module *list, fac_module *m);
FAC_API fac_module *fac_module_list_insert(fac_module *list, int64_t index, fac_module *m);
FAC_API fac_module *fac_module_list_set(fac_module *list, int64_t index, fac_module *m);
/* Adds the modules of another list, which are then in both. */
FAC_API FAC_MUST fac_status fac_module_list_extend(fac_module *list, fac_module *other);
/* Takes a module out; the caller owns it. */
FAC_API FAC_MUST fac_module *fac_module_list_pop(fac_module *list, int64_t index);
/* Of a ModuleDict: the module of a name, borrowed, or whether there is one; fac_module_children lists them all. set
   puts a module in, in the place of one that has the name, and takes over the reference also when it fails; pop
   takes it out, and the caller owns it. A failure gives false and NULL.
   errors: ARGUMENT for another module; NOT_FOUND */
FAC_API fac_module *fac_module_dict_get(fac_module *dict, const char *name);
FAC_API bool fac_module_dict_has(fac_module *dict, const char *name);
FAC_API fac_module *fac_module_dict_set(fac_module *dict, const char *name, fac_module *m);
FAC_API FAC_MUST fac_module *fac_module_dict_pop(fac_module *dict, const char *name);
FAC_API FAC_MUST fac_status fac_module_dict_clear(fac_module *dict);

/* Lists of parameters "0", "1", ..., and parameters by name. Tensors become parameters as with
   fac_module_add_parameter; fac_module_parameters lists them.
   source: torch.nn.ParameterList, torch.nn.ParameterDict */
FAC_API FAC_MUST fac_module *fac_parameter_list_new(fac_tensors parameters);
FAC_API FAC_MUST fac_module *fac_parameter_dict_new(void);
/* As of a ModuleList. Results are borrowed, but that of pop is the caller's, to be freed by fac_release. A
   failure gives 0, false and NULL.
   errors: ARGUMENT for another module; INDEX; AUTOGRAD for a tensor that is no leaf */
FAC_API size_t fac_parameter_list_len(fac_module *list);
FAC_API fac_tensor *fac_parameter_list_get(fac_module *list, int64_t index);
FAC_API fac_tensor *fac_parameter_list_append(fac_module *list, fac_tensor *t);
FAC_API fac_tensor *fac_parameter_list_set(fac_module *list, int64_t index, fac_tensor *t);
FAC_API FAC_MUST fac_status fac_parameter_list_extend(fac_module *list, fac_tensors parameters);
FAC_API fac_tensor *fac_parameter_dict_get(fac_module *dict, const char *name);
FAC_API bool fac_parameter_dict_has(fac_module *dict, const char *name);
FAC_API fac_tensor *fac_parameter_dict_set(fac_module *dict, const char *name, fac_tensor *t);
FAC_API FAC_MUST fac_tensor *fac_parameter_dict_pop(fac_module *dict, const char *name);
FAC_API FAC_MUST fac_status fac_parameter_dict_clear(fac_module *dict);

/* ---- attention -------------------------------------------------------------------------------------------------- */

/* Calls a MultiheadAttention (facula/modules.h) with all that PyTorch's has: writes the output, and with
   .need_weights, the default, the weights [N, L, S], or [N, heads, L, S] without .average_attn_weights, to
   *out_weights, which may be NULL, and is else set to NULL. Key and value are both query where they are NULL.
   Hooks of the module do not run. With .is_causal, which needs an attn_mask, the mask is that of
   fac_transformer_generate_square_subsequent_mask, which need not be read: without weights and padding no key is seen
   that stands behind its query, added ones (add_bias_kv, add_zero_attn) included, as in PyTorch.
   errors: ARGUMENT for another module, and .is_causal without a mask; SHAPE; DTYPE
   source: torch.nn.MultiheadAttention.forward */
FAC_API FAC_MUST fac_status fac_multihead_attention_forward(fac_module *m, fac_tensor *query, fac_tensor *key,
                                                            fac_tensor *value, fac_tensor **output,
                                                            fac_tensor **out_weights,
                                                            const fac_multihead_attention_forward_kw *kw);
/* num_layers copies of a layer one after the other, "layers.0" and so on, and then a norm, if one is given. The
   references of layer and norm are taken over, also when it fails. The encoder's inputs are src, and mask? and
   src_key_padding_mask?; the decoder's tgt and memory, and tgt_mask?, memory_mask?, tgt_key_padding_mask? and
   memory_key_padding_mask?.
   errors: ARGUMENT for a negative number; what fac_module_copy finds
   source: torch.nn.TransformerEncoder, torch.nn.TransformerDecoder */
FAC_API FAC_MUST fac_module *fac_transformer_encoder_new(fac_module *encoder_layer, int64_t num_layers,
                                                         const fac_transformer_encoder_new_kw *kw);
FAC_API FAC_MUST fac_module *fac_transformer_decoder_new(fac_module *decoder_layer, int64_t num_layers,
                                                         const fac_transformer_decoder_new_kw *kw);
/* A mask [sz, sz] by which each position sees itself and those before: zero, and minus infinity above the diagonal. It
   belongs to the innermost scope.
   source: torch.nn.Transformer.generate_square_subsequent_mask */
FAC_API FAC_MUST fac_tensor *fac_transformer_generate_square_subsequent_mask(
    int64_t sz, const fac_transformer_generate_square_subsequent_mask_kw *kw);

/* ---- losses ----------------------------------------------------------------------------------------------------- */

/* Of an AdaptiveLogSoftmaxWithLoss: the log-probabilities [N, n_classes] of all classes, and the likeliest class
   [N], for x [N, in_features]. Results belong to the
   innermost scope.
   errors: ARGUMENT for another module; SHAPE
   source: torch.nn.AdaptiveLogSoftmaxWithLoss.log_prob, predict */
FAC_API FAC_MUST fac_tensor *fac_adaptive_log_softmax_log_prob(fac_module *m, fac_tensor *x);
FAC_API FAC_MUST fac_tensor *fac_adaptive_log_softmax_predict(fac_module *m, fac_tensor *x);
/* Gives a TripletMarginWithDistanceLoss another distance; a loss with one of its own cannot be copied.
   errors: ARGUMENT for another module, and no function
   source: torch.nn.TripletMarginWithDistanceLoss, distance_function */
FAC_API FAC_MUST fac_status fac_triplet_margin_with_distance_loss_set_distance(
    fac_module *m, fac_tensor *(*distance)(void *context, fac_tensor *a, fac_tensor *b), void *context);

/* ---- from text -------------------------------------------------------------------------------------------------- */

/* Makes a module from what one would write in Python: "Conv2d(3, 8, kernel_size=3, padding='same')", or
   "Sequential(Linear(784, 10), ReLU())", ModuleList([...]), ModuleDict({'a': ...}), TransformerEncoder(...). "nn."
   may stand before a name. The caller owns the result; NULL on failure.
   errors: NOT_FOUND for a name that is no layer, loss or container; FORMAT for what cannot be read; those of the
           module */
FAC_API FAC_MUST fac_module *fac_parse_module(const char *text);

/* ---- gradients of many parameters ------------------------------------------------------------------------------- */

/* Scales all gradients so that their total norm of order norm_type, such as 2 or INFINITY, is at most max_norm. Where
   total_norm points, the norm before is written. One that is not finite leaves the gradients as they are, and is an
   error with .error_if_nonfinite = true.
   errors: ARGUMENT if max_norm is negative or not a number, or norm_type is not a number
   source: torch.nn.utils.clip_grad_norm_ */
FAC_API FAC_MUST fac_status fac_clip_grad_norm(fac_tensors parameters, double max_norm,
                                               const fac_clip_grad_norm_kw *kw);
/* Clamps every gradient to [-limit, limit]. */
FAC_API FAC_MUST fac_status fac_clip_grad_value(fac_tensors parameters, double limit);
/* The norm of order norm_type of all tensors together, 0 of none, where out_norm points.
   errors: ARGUMENT if norm_type is not a number; with .error_if_nonfinite = true, if the norm is not finite
   source: torch.nn.utils.get_total_norm */
FAC_API FAC_MUST fac_status fac_get_total_norm(fac_tensors tensors, double *out_norm, const fac_get_total_norm_kw *kw);
/* Scales all gradients as fac_clip_grad_norm does, by a norm that is known; one that is not finite leaves them.
   errors: ARGUMENT if max_norm or total_norm is negative or not a number
   source: torch.nn.utils.clip_grads_with_norm_ */
FAC_API FAC_MUST fac_status fac_clip_grads_with_norm(fac_tensors parameters, double max_norm, double total_norm);
/* All parameters one after another as one vector, differentiably, which belongs to the innermost scope; and copying
   such a vector into them, which records nothing.
   errors: ARGUMENT for no parameters; SHAPE if the vector has another length, when nothing was changed; DTYPE; DEVICE
   source: torch.nn.utils.parameters_to_vector, vector_to_parameters */
FAC_API FAC_MUST fac_tensor *fac_parameters_to_vector(fac_tensors parameters);
FAC_API FAC_MUST fac_status fac_vector_to_parameters(fac_tensor *vector, fac_tensors parameters);

#ifdef __cplusplus
}

/* fac_sequential(fac_linear_new(2, 16), fac_tanh_new(), ...), as in C */
template <class... M> inline fac_module *fac_sequential(M... m) {
    fac_module *const modules[] = {m...};
    return fac_sequential_new(modules, sizeof...(M));
}
#define fac_sequential(...) FAC_AT_MUST_(fac_module_p, fac_sequential(__VA_ARGS__))
#endif
#include <facula/modules.h>
#include <facula/nn_macros.h>
#endif
