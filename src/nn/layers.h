/* What the described modules (modules.yaml) call: what makes their parameters, refuses their arguments and computes
   them where one operator does not. */
#ifndef FAC_SRC_NN_LAYERS_H
#define FAC_SRC_NN_LAYERS_H

#include "nn/module.h"

/* ---- arguments (layers/check.c) ---- */

fac_status fac__check_probability(double p);
/* low may not be above high. */
fac_status fac__check_order(fac_module *m, double low, double high, const char *low_name, const char *high_name);
/* low must be below high. */
fac_status fac__check_hardtanh(fac_module *m, double low, double high);
/* A part of a whole: in [0, 1]. */
fac_status fac__check_part(fac_module *m, const char *name, double part);
/* A size of a layer: not negative. */
fac_status fac__check_size(fac_module *m, const char *name, int64_t size);

/* ---- parameters (init.c) ---- */

/* The parameter `name`, uniform in [-bound, bound] or filled with a value; none where it is not wanted. */
fac_status fac__add_uniform(fac_module *m, const char *name, fac_ints sizes, double bound, bool wanted, fac_dtype dtype,
                            fac_device device);
fac_status fac__add_constant(fac_module *m, const char *name, fac_ints sizes, double value, bool wanted,
                             fac_dtype dtype, fac_device device);

/* ---- linear and embedding layers (layers/linear.c) ---- */

fac_status fac__build_linear(fac_module *m, int64_t in, int64_t out, bool bias, fac_dtype dtype, fac_device device);
fac_status fac__build_bilinear(fac_module *m, int64_t in1, int64_t in2, int64_t out, bool bias, fac_dtype dtype,
                               fac_device device);
fac_status fac__build_prelu(fac_module *m, int64_t n, double init, fac_dtype dtype, fac_device device);

/* *padding_idx: FAC_UNSET for none; one that counts from the end becomes one from the start. */
fac_status fac__build_embedding(fac_module *m, int64_t count, int64_t dim, int64_t *padding_idx, fac_dtype dtype,
                                fac_device device);
fac_tensor *fac__embedding_forward(fac_module *m, fac_tensor *x, int64_t padding_idx, double max_norm, double norm_type,
                                   bool scale_grad_by_freq, bool sparse);
fac_tensor *fac__embedding_bag_forward(fac_module *m, fac_tensor *x, fac_tensor *offsets, fac_tensor *weights,
                                       int64_t padding_idx, double max_norm, double norm_type, bool scale_grad_by_freq,
                                       const char *mode, bool sparse, bool include_last_offset);

/* ---- convolutions and pooling (layers/conv.c, layers/pool.c): of as many dimensions as the kernel has ---- */

fac_status fac__build_conv(fac_module *m, int64_t in, int64_t out, fac_ints kernel, fac_ints stride,
                           const char *padding, int64_t groups, bool bias, fac_dtype dtype, fac_device device);
fac_tensor *fac__conv_forward(fac_module *m, fac_tensor *x, fac_ints stride, fac_ints padding, fac_ints dilation,
                              int64_t groups, const char *mode, const char *padding_name);
fac_status fac__build_conv_transpose(fac_module *m, int64_t in, int64_t out, fac_ints kernel, fac_ints stride,
                                     int64_t groups, bool bias, fac_dtype dtype, fac_device device);
fac_status fac__check_lp_pool(fac_module *m, double norm_type);
/* A stride of zeros is the kernel's size. */
fac_tensor *fac__lp_pool_forward(fac_tensor *x, double norm_type, fac_ints kernel, fac_ints stride, bool ceil_mode);
/* The maxima, and where in their planes they lie. */
fac_status fac__max_pool1d_all(fac_tensor *x, fac_ints kernel, fac_ints stride, fac_ints padding, fac_ints dilation,
                               bool ceil_mode, fac_tensor **out);
fac_status fac__max_pool2d_all(fac_tensor *x, fac_ints kernel, fac_ints stride, fac_ints padding, fac_ints dilation,
                               bool ceil_mode, fac_tensor **out);
fac_status fac__max_pool3d_all(fac_tensor *x, fac_ints kernel, fac_ints stride, fac_ints padding, fac_ints dilation,
                               bool ceil_mode, fac_tensor **out);
fac_status fac__adaptive_max_pool_all(fac_tensor *x, fac_ints size, fac_tensor **out);
fac_tensor *fac__max_unpool_forward(fac_tensor *x, fac_tensor *indices, fac_ints kernel, fac_ints stride,
                                    fac_ints padding);

fac_status fac__check_fractional_max_pool(fac_module *m, fac_ints kernel, fac_ints size, fac_floats ratio);
fac_status fac__fractional_max_pool_all(fac_tensor *x, fac_ints kernel, fac_ints size, fac_floats ratio,
                                        fac_tensor *samples, fac_tensor **out);

/* ---- recurrent networks (layers/rnn.c) ---- */

typedef enum fac_rnn_module {
    FAC_RNN_MODULE_TANH,
    FAC_RNN_MODULE_RELU,
    FAC_RNN_MODULE_LSTM,
    FAC_RNN_MODULE_GRU
} fac_rnn_module;

/* gates: how many times `hidden` rows weights have. */
fac_status fac__build_rnn(fac_module *m, int64_t gates, int64_t in, int64_t hidden, int64_t proj, int64_t layers,
                          bool bias, double dropout, bool bidirectional, fac_dtype dtype, fac_device device);
/* h, c and batch_sizes may be NULL. */
fac_status fac__rnn_forward_all(fac_module *m, fac_rnn_module kind, fac_tensor *x, fac_tensor *h, fac_tensor *c,
                                fac_tensor *batch_sizes, int64_t layers, bool bias, bool batch_first, double dropout,
                                bool bidirectional, int64_t hidden, int64_t proj, fac_tensor **out);
fac_status fac__build_rnn_cell(fac_module *m, int64_t gates, int64_t in, int64_t hidden, bool bias, fac_dtype dtype,
                               fac_device device);
fac_tensor *fac__rnn_cell_forward(fac_module *m, fac_rnn_module kind, fac_tensor *x, fac_tensor *h, int64_t hidden);
fac_status fac__lstm_cell_forward_all(fac_module *m, fac_tensor *x, fac_tensor *h, fac_tensor *c, int64_t hidden,
                                      fac_tensor **out);

/* ---- attention and transformers (layers/attention.c, layers/transformer.c) ---- */

fac_status fac__build_attention(fac_module *m, int64_t dim, int64_t heads, double dropout, bool bias, bool bias_kv,
                                int64_t kdim, int64_t vdim, fac_dtype dtype, fac_device device);
fac_tensor *fac__attention_forward(fac_module *m, fac_tensor *q, fac_tensor *k, fac_tensor *v, fac_tensor *padding,
                                   fac_tensor *mask, int64_t dim, int64_t heads, double dropout, bool zero_attn,
                                   bool batch_first, bool causal);
fac_status fac__attention_forward_all(fac_module *m, fac_tensor *q, fac_tensor *k, fac_tensor *v, fac_tensor *padding,
                                      fac_tensor *mask, int64_t dim, int64_t heads, double dropout, bool zero_attn,
                                      bool batch_first, bool causal, fac_tensor **out);
fac_status fac__build_transformer_layer(fac_module *m, bool decoder, int64_t dim, int64_t heads, int64_t feedforward,
                                        double dropout, double eps, bool batch_first, bool bias, fac_dtype dtype,
                                        fac_device device);
fac_tensor *fac__encoder_layer_forward(fac_module *m, fac_tensor *x, fac_tensor *mask, fac_tensor *padding,
                                       const char *activation, bool norm_first);
fac_tensor *fac__decoder_layer_forward(fac_module *m, fac_tensor *x, fac_tensor *memory, fac_tensor *mask,
                                       fac_tensor *memory_mask, fac_tensor *padding, fac_tensor *memory_padding,
                                       const char *activation, bool norm_first);
fac_status fac__build_transformer(fac_module *m, int64_t dim, int64_t heads, int64_t encoders, int64_t decoders,
                                  int64_t feedforward, double dropout, const char *activation, double eps,
                                  bool batch_first, bool norm_first, bool bias, fac_dtype dtype, fac_device device);
fac_tensor *fac__transformer_forward(fac_module *m, fac_tensor *src, fac_tensor *tgt, fac_tensor *src_mask,
                                     fac_tensor *tgt_mask, fac_tensor *memory_mask, fac_tensor *src_padding,
                                     fac_tensor *tgt_padding, fac_tensor *memory_padding, int64_t dim,
                                     bool batch_first);

/* ---- normalisation and dropout (layers/norm.c) ---- */

fac_status fac__build_batch_norm(fac_module *m, int64_t channels, bool affine, bool bias, bool running, fac_dtype dtype,
                                 fac_device device);
fac_tensor *fac__batch_norm_forward(fac_module *m, fac_tensor *x, int dims, double eps, double momentum, bool running);
fac_tensor *fac__instance_norm_forward(fac_module *m, fac_tensor *x, int dims, int64_t channels, double eps,
                                       double momentum, bool running);
fac_status fac__build_group_norm(fac_module *m, int64_t groups, int64_t channels, bool affine, bool bias,
                                 fac_dtype dtype, fac_device device);
/* The slot "bias" is there where has_bias, and empty unless `bias`. */
fac_status fac__build_layer_norm(fac_module *m, fac_ints shape, bool weight, bool bias, bool has_bias, fac_dtype dtype,
                                 fac_device device);
fac_tensor *fac__local_response_norm_forward(fac_tensor *x, int64_t size, double alpha, double beta, double k);
/* Of one and three dimensions x may be a single sample; of two it may have one dimension less, as it may in PyTorch. */
fac_tensor *fac__feature_dropout_forward(fac_tensor *x, int dims, double p, bool training, bool inplace);
fac_tensor *fac__softmax2d_forward(fac_tensor *x);
/* dim, or if that is FAC_UNSET the one that PyTorch chooses. */
int64_t fac__softmax_dim(const fac_tensor *x, int64_t dim);

/* ---- pictures (layers/upsample.c) ---- */

/* align_corners and recompute_scale_factor: negative where they are not given. */
fac_status fac__check_upsample(fac_module *m, fac_ints size, fac_floats scale, const char *mode, int align_corners,
                               int recompute_scale_factor);
fac_tensor *fac__upsample_forward(fac_tensor *x, fac_ints size, fac_floats scale, const char *mode, int align_corners,
                                  int recompute_scale_factor);

/* ---- losses (layers/losses.c) ---- */

/* Whether the sizes, or the numbers of dimensions, are the same; else an error. */
bool fac__alike(const fac_tensor *input, const fac_tensor *target);
bool fac__of_as_many_dims(const fac_tensor *x1, const fac_tensor *x2, const fac_tensor *target);

fac_tensor *fac__gaussian_nll_loss_forward(fac_tensor *input, fac_tensor *target, fac_tensor *var, bool full,
                                           double eps, int64_t reduction);
/* reduction_name: NULL, or "batchmean". */
fac_tensor *fac__kl_div_forward(fac_tensor *input, fac_tensor *target, bool log_target, int64_t reduction,
                                const char *reduction_name);
fac_tensor *fac__multilabel_soft_margin_loss_forward(fac_tensor *input, fac_tensor *target, fac_tensor *weight,
                                                     int64_t reduction);
fac_status fac__build_linear_cross_entropy(fac_module *m, int64_t in, int64_t classes, fac_ints sizes, bool bias,
                                           fac_tensor *weight, fac_dtype dtype, fac_device device);
fac_tensor *fac__linear_cross_entropy_forward(fac_module *m, fac_tensor *x, fac_tensor *target, fac_tensor *weight,
                                              int64_t classes, fac_ints sizes, int64_t reduction, int64_t ignore_index,
                                              double smoothing);
fac_status fac__build_triplet_margin_with_distance(fac_module *m, double margin);
fac_tensor *fac__triplet_margin_with_distance_forward(fac_module *m, fac_tensor *anchor, fac_tensor *positive,
                                                      fac_tensor *negative, double margin, bool swap,
                                                      int64_t reduction);

/* ---- many classes (layers/adaptive.c) ---- */

fac_status fac__build_adaptive_softmax(fac_module *m, int64_t in, int64_t classes, fac_ints cutoffs, double div_value,
                                       bool head_bias, fac_dtype dtype, fac_device device);
fac_status fac__adaptive_softmax_forward_all(fac_module *m, fac_tensor *x, fac_tensor *target, int64_t classes,
                                             fac_ints cutoffs, fac_tensor **out);

#endif
