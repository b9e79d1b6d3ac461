/* What the described modules (modules.yaml) call: what makes their parameters, refuses their arguments and computes them where one
   operator does not. */
#ifndef FAC_SRC_NN_LAYERS_H
#define FAC_SRC_NN_LAYERS_H

#include "nn/module.h"

/* ---- arguments (layers/check.c) ---- */

fac_status fac__check_probability(double p);
/* low may not be above high. */
fac_status fac__check_order(fac_module *m, double low, double high, const char *low_name, const char *high_name);
/* low must be below high. */
fac_status fac__check_hardtanh(fac_module *m, double low, double high);
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

#endif
