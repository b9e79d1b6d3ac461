/* What torch.nn.utils has: packed sequences, parametrisations, norms of weights, pruning, joined layers, and what a
   model costs. */
#ifndef FACULA_NN_UTILS_H
#define FACULA_NN_UTILS_H

#include <facula/nn.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- packed sequences ------------------------------------------------------------------------------------------- */

/* Sequences of decreasing lengths, step by step and without padding. The tensors belong to the scope in which they
   were made; sorted_indices says which sequence of the caller's each one was, unsorted_indices the reverse; NULL if
   they were sorted.
   source: torch.nn.utils.rnn.PackedSequence */
typedef struct fac_packed_sequence {
    fac_tensor *data;        /* [rows, *] */
    fac_tensor *batch_sizes; /* [T], int64 on the CPU: the rows of each step */
    fac_tensor *sorted_indices, *unsorted_indices;
} fac_packed_sequence;

/* Packs input [T, N, *], with batch_first [N, T, *], of which each sequence has a length; without enforce_sorted
   they need not be sorted by it.
   errors: ARGUMENT for lengths that increase, with enforce_sorted, are not positive or exceed T; SHAPE
   source: torch.nn.utils.rnn.pack_padded_sequence */
FAC_API FAC_MUST fac_status fac_rnn_pack_padded_sequence(fac_tensor *input, fac_tensor *lengths,
                                                         fac_packed_sequence *out,
                                                         const fac_rnn_pack_padded_sequence_kw *kw);
/* The sequences in the caller's order, padded with a value to the longest one or to total_length, and their lengths
   [N], which may be NULL.
   errors: ARGUMENT for a total_length that is too small
   source: torch.nn.utils.rnn.pad_packed_sequence */
FAC_API FAC_MUST fac_status fac_rnn_pad_packed_sequence(const fac_packed_sequence *sequence, fac_tensor **out_padded,
                                                        fac_tensor **out_lengths,
                                                        const fac_rnn_pad_packed_sequence_kw *kw);
/* Packs sequences [length, *]; fac_pad_sequence pads them. source: torch.nn.utils.rnn.pack_sequence */
FAC_API FAC_MUST fac_status fac_rnn_pack_sequence(fac_tensors sequences, fac_packed_sequence *out,
                                                  const fac_rnn_pack_sequence_kw *kw);
/* The sequences of a padded tensor, or of a packed one; the list belongs to the innermost scope.
   source: torch.nn.utils.rnn.unpad_sequence, unpack_sequence */
FAC_API FAC_MUST fac_tensors fac_rnn_unpad_sequence(fac_tensor *padded, fac_tensor *lengths,
                                                    const fac_rnn_unpad_sequence_kw *kw);
FAC_API FAC_MUST fac_tensors fac_rnn_unpack_sequence(const fac_packed_sequence *sequence);
/* Runs an RNN, LSTM or GRU over packed sequences: out gets the outputs, *out_h_n and *out_c_n, which may be NULL, the
   last states in the caller's order, as h_0 and c_0 are, which may be NULL.
   errors: ARGUMENT for another module
   source: torch.nn.LSTM over a PackedSequence */
FAC_API FAC_MUST fac_status fac_rnn_forward_packed(fac_module *rnn, const fac_packed_sequence *input, fac_tensor *h_0,
                                                   fac_tensor *c_0, fac_packed_sequence *out, fac_tensor **out_h_n,
                                                   fac_tensor **out_c_n);

/* ---- parametrisations ------------------------------------------------------------------------------------------- */

/* Makes a parameter or buffer of m, or what it is made of by now, the result of a module, whose reference is taken
   over, also when it fails. m computes it anew whenever it runs. It is made from "parametrizations.NAME.original",
   what the class's right_inverse gives of the present value, or the value itself; of several tensors those are
   original0, original1, ... Shape and dtype must stay, unless .unsafe.
   errors: NOT_FOUND; SHAPE, DTYPE
   source: torch.nn.utils.parametrize.register_parametrization */
FAC_API FAC_MUST fac_status fac_parametrize_register(fac_module *m, const char *name, fac_module *parametrization,
                                                     const fac_parametrize_register_kw *kw);
/* Makes it a parameter or buffer again, of its present value, or of that of original without .leave_parametrized.
   errors: NOT_FOUND; ARGUMENT if there are several originals and they should be left
   source: torch.nn.utils.parametrize.remove_parametrizations */
FAC_API FAC_MUST fac_status fac_parametrize_remove(fac_module *m, const char *name,
                                                   const fac_parametrize_remove_kw *kw);
/* Whether a name, or any where it is NULL, is parametrised. source: torch.nn.utils.parametrize.is_parametrized */
FAC_API bool fac_parametrize_is_parametrized(fac_module *m, const char *name);
/* The present value of a parameter or buffer, of a parametrised, pruned or normed one computed now; it belongs to
   the innermost scope.
   errors: NOT_FOUND */
FAC_API FAC_MUST fac_tensor *fac_module_value(fac_module *m, const char *name);

/* weight = g * v / |v|, norms over all but dimension `dim`, or, where that is FAC_UNSET or, as in PyTorch, -1, over
   all: originals 0 and 1 are g and v.
   source: Salimans, Kingma 2016; torch.nn.utils.parametrizations.weight_norm */
FAC_API FAC_MUST fac_status fac_parametrizations_weight_norm(fac_module *m,
                                                             const fac_parametrizations_weight_norm_kw *kw);
/* The weight over its largest singular value, as power iterations find it, one in each run in training. Dimension
   `dim` is rows, the others are columns: 0, but 1 of transposed convolutions.
   source: Miyato et al. 2018; torch.nn.utils.parametrizations.spectral_norm */
FAC_API FAC_MUST fac_status fac_parametrizations_spectral_norm(fac_module *m,
                                                               const fac_parametrizations_spectral_norm_kw *kw);
/* A weight with orthogonal rows or columns, by the map "matrix_exp", the default of square matrices, "cayley" or
   "householder", the default of others.
   source: torch.nn.utils.parametrizations.orthogonal */
FAC_API FAC_MUST fac_status fac_parametrizations_orthogonal(fac_module *m,
                                                            const fac_parametrizations_orthogonal_kw *kw);

/* The older forms, whose state is weight_g and weight_v, or weight_orig, weight_u and weight_v.
   errors: NOT_FOUND; ARGUMENT if there is one already, or none to remove
   source: torch.nn.utils.weight_norm, remove_weight_norm, spectral_norm, remove_spectral_norm */
FAC_API FAC_MUST fac_status fac_utils_weight_norm(fac_module *m, const fac_utils_weight_norm_kw *kw);
FAC_API FAC_MUST fac_status fac_utils_remove_weight_norm(fac_module *m, const fac_utils_remove_weight_norm_kw *kw);
FAC_API FAC_MUST fac_status fac_utils_spectral_norm(fac_module *m, const fac_utils_spectral_norm_kw *kw);
FAC_API FAC_MUST fac_status fac_utils_remove_spectral_norm(fac_module *m, const fac_utils_remove_spectral_norm_kw *kw);

/* ---- pruning ---------------------------------------------------------------------------------------------------- */

/* Masks a parameter of m: NAME_orig is learned, and NAME is NAME_orig * NAME_mask in every run. `amount` is the
   part in [0, 1] that becomes zero, or with .count how many elements, or channels of a dimension where it is
   structured; of what is left where the parameter was pruned before. Random elements, those of the smallest values,
   random channels, or those of the smallest norms of order n; or what a mask of zeros and ones says; or nothing.
   errors: NOT_FOUND; ARGUMENT for an amount that is out of range; SHAPE
   source: torch.nn.utils.prune */
FAC_API FAC_MUST fac_status fac_prune_identity(fac_module *m, const char *name);
FAC_API FAC_MUST fac_status fac_prune_random_unstructured(fac_module *m, const char *name, double amount,
                                                          const fac_prune_random_unstructured_kw *kw);
FAC_API FAC_MUST fac_status fac_prune_l1_unstructured(fac_module *m, const char *name, double amount,
                                                      const fac_prune_l1_unstructured_kw *kw);
FAC_API FAC_MUST fac_status fac_prune_random_structured(fac_module *m, const char *name, double amount,
                                                        const fac_prune_random_structured_kw *kw);
FAC_API FAC_MUST fac_status fac_prune_ln_structured(fac_module *m, const char *name, double amount, double n,
                                                    int64_t dim, const fac_prune_ln_structured_kw *kw);
FAC_API FAC_MUST fac_status fac_prune_custom_from_mask(fac_module *m, const char *name, fac_tensor *mask);
/* Prunes n parameters, names[i] of modules[i], as if they were one. method: "l1" or "random".
   source: torch.nn.utils.prune.global_unstructured */
FAC_API FAC_MUST fac_status fac_prune_global_unstructured(fac_module *const *modules, const char *const *names,
                                                          size_t n, const char *method, double amount,
                                                          const fac_prune_global_unstructured_kw *kw);
/* Makes the masked value the parameter for good; whether m or a module below is pruned. */
FAC_API FAC_MUST fac_status fac_prune_remove(fac_module *m, const char *name);
FAC_API bool fac_prune_is_pruned(fac_module *m);

/* ---- joined layers, costs --------------------------------------------------------------------------------------- */

/* A new convolution, or linear layer, that does what one and a batch normalisation behind it do, both in
   evaluation. transpose: of a transposed convolution. The caller owns the result.
   errors: ARGUMENT for other modules, for training and without running statistics
   source: torch.nn.utils.fusion.fuse_conv_bn_eval, fuse_linear_bn_eval */
FAC_API FAC_MUST fac_module *fac_fuse_conv_bn(fac_module *conv, fac_module *bn, const fac_fuse_conv_bn_kw *kw);
FAC_API FAC_MUST fac_module *fac_fuse_linear_bn(fac_module *linear, fac_module *bn);

/* Runs m once on the inputs, without recording, and prints each module with the shape of its output, its own
   parameters and its multiplications and additions, then the sums and bytes of parameters, buffers and outputs.
   Operations are counted in linear layers, convolutions, recurrent layers and attention. Modules that m does not
   call have no shape. */
FAC_API FAC_MUST fac_status fac_module_summary(fac_module *m, fac_tensors inputs, FILE *stream);

#ifdef __cplusplus
}
#endif
#include <facula/nn_utils_macros.h>
#endif
