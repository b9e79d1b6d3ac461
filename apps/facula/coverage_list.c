/* The operators of PyTorch 2.15 on tensors that users reach, by kind: those tagged core, those that training needs beside them, and all
   others with a kernel for the CPU. Left out are kernels of one library or device (cuDNN, XLA, slow_conv2d, max_pool2d_backward of
   Metal ...), those of nested tensors alone (linear_backward, matmul_backward) and of sparse ones alone (native_norm), what is a
   function of the interface here (requires_grad_, promote_types ...), what asks symbolic sizes (sym_constrain_range), and parts
   that no call reaches by name (slice_inverse), what converts to complex32, a dtype that there is not (chalf).
   A name without an overload stands for any of its overloads. */
#include "coverage.h"

const coverage_group coverage_groups[] = {
    {"core: creation and storage",
     "empty.memory_format empty_strided full full_like arange.start_step scalar_tensor clone copy _to_copy alias "
     "fill.Scalar resize_ _local_scalar_dense"},
    {"core: random", "rand randn randperm native_dropout"},
    {"core: views and shape",
     "as_strided view permute expand select.int slice.Tensor squeeze.dim squeeze.dims unsqueeze split_with_sizes "
     "diagonal sym_size.int sym_stride.int sym_numel sym_storage_offset sym_is_contiguous"},
    {"core: copying shape ops",
     "cat repeat flip constant_pad_nd reflection_pad1d reflection_pad2d reflection_pad3d replication_pad2d "
     "replication_pad3d slice_scatter select_scatter"},
    {"core: unary pointwise",
     "abs neg sign ceil floor round trunc reciprocal sqrt rsqrt exp expm1 log log2 log10 log1p sin cos tan asin acos "
     "atan sinh cosh tanh asinh acosh atanh erf isnan isinf bitwise_not logical_not"},
    {"core: activations", "relu gelu sigmoid elu leaky_relu hardtanh"},
    {"core: binary and ternary pointwise",
     "add.Tensor add.Scalar sub.Tensor sub.Scalar mul.Tensor mul.Scalar div.Tensor div.Scalar div.Tensor_mode "
     "div.Scalar_mode fmod.Tensor fmod.Scalar remainder.Tensor remainder.Scalar pow.Tensor_Tensor pow.Tensor_Scalar "
     "pow.Scalar atan2 atan2.out maximum minimum clamp clamp.Tensor where.self bitwise_and.Tensor bitwise_and.Scalar "
     "bitwise_or.Tensor bitwise_or.Scalar bitwise_xor.Tensor bitwise_xor.Scalar logical_and logical_or logical_xor"},
    {"core: comparison",
     "eq.Tensor eq.Scalar ne.Tensor ne.Scalar lt.Tensor lt.Scalar le.Tensor le.Scalar gt.Tensor gt.Scalar ge.Tensor "
     "ge.Scalar"},
    {"core: reductions and scans",
     "sum.dim_IntList mean mean.dim prod prod.dim_int var.dim var.correction amax amin max.dim min.dim argmax argmin "
     "any any.dim any.dims cumsum _softmax _log_softmax"},
    {"core: sorting and selection", "sort topk nonzero"},
    {"core: indexing, gather and scatter",
     "index.Tensor index_put index_select gather scatter.src scatter.value scatter_add scatter_reduce.two "
     "masked_scatter embedding embedding_dense_backward _embedding_bag"},
    {"core: linear algebra and distance", "mm bmm addmm _cdist_forward _pdist_forward"},
    {"core: convolution and pooling",
     "convolution convolution_backward col2im avg_pool1d avg_pool2d avg_pool2d_backward avg_pool3d "
     "max_pool2d_with_indices max_pool2d_with_indices_backward max_pool3d_with_indices adaptive_avg_pool1d "
     "_adaptive_avg_pool2d _adaptive_avg_pool2d_backward _adaptive_avg_pool3d upsample_nearest2d.vec "
     "upsample_bilinear2d.vec grid_sampler_2d"},
    {"core: normalisation",
     "native_layer_norm native_layer_norm_backward native_group_norm native_group_norm_backward "
     "_native_batch_norm_legit _native_batch_norm_legit.no_stats _native_batch_norm_legit_no_training"},
    {"core: FFT", "_fft_r2c _fft_c2r"},
    {"not core, and everywhere",
     "linear matmul baddbmm addmv dot mv einsum _scaled_mm _grouped_mm scaled_dot_product_attention nll_loss_forward "
     "cross_entropy_loss mse_loss binary_cross_entropy_with_logits smooth_l1_loss huber_loss kl_div ctc_loss silu "
     "softplus hardswish mish glu prelu layer_norm rms_norm _fused_rms_norm batch_norm group_norm lstm gru rnn_tanh "
     "_thnn_fused_lstm_cell _thnn_fused_gru_cell logsumexp cumprod cummax linalg_vector_norm std median quantile "
     "unique_dim _unique2 bincount histc normal_ uniform_ bernoulli_ exponential_ random_ multinomial _fused_adam_ "
     "_fused_adamw_ _fused_sgd_ _fused_adagrad_ _amp_foreach_non_finite_check_and_unscale_ _amp_update_scale_ "
     "masked_fill index_add index_copy take_along_dim triu tril _fft_c2c linalg_svd linalg_qr linalg_cholesky_ex "
     "_linalg_solve_ex linalg_eigh lerp addcmul addcdiv zeros ones pixel_shuffle im2col max_pool1d "
     "adaptive_max_pool2d upsample_bicubic2d grid_sampler_3d special_zeta fake_quantize_per_tensor_affine"},
    {"sparse tensors",
     "ccol_indices ccol_indices_copy coalesce col_indices col_indices_copy copy_sparse_to_sparse "
     "copy_sparse_to_sparse_ crow_indices crow_indices_copy dense_dim embedding_sparse_backward hspmm indices "
     "indices_copy is_coalesced norm_except_dim resize_as_sparse resize_as_sparse_ row_indices row_indices_copy smm "
     "sparse_bsc_tensor sparse_bsr_tensor sparse_compressed_tensor sparse_coo_tensor sparse_csc_tensor "
     "sparse_csr_tensor sparse_dim sparse_mask sparse_resize sparse_resize_ sparse_resize_and_clear "
     "sparse_resize_and_clear_ sparse_sampled_addmm sspaddmm to_dense to_dense_backward to_sparse to_sparse_bsc "
     "to_sparse_bsr to_sparse_csc to_sparse_csr values values_copy"},
    {"quantized tensors",
     "dequantize empty_quantized fake_quantize_per_channel_affine fake_quantize_per_channel_affine_cachemask "
     "fake_quantize_per_channel_affine_cachemask_backward fake_quantize_per_tensor_affine_cachemask "
     "fake_quantize_per_tensor_affine_cachemask_backward int_repr nanquantile q_per_channel_axis q_per_channel_scales "
     "q_per_channel_zero_points q_scale q_zero_point qscheme quantize_per_channel quantize_per_tensor "
     "quantize_per_tensor_dynamic quantized_batch_norm quantized_gru quantized_gru_cell quantized_lstm "
     "quantized_lstm_cell quantized_max_pool1d quantized_max_pool2d quantized_max_pool3d quantized_rnn_relu_cell "
     "quantized_rnn_tanh_cell"},
    {"special functions",
     "copysign copysign_ digamma digamma_ erfinv erfinv_ frexp gcd gcd_ i0 i0_ igamma igamma_ igammac igammac_ lcm "
     "lcm_ lgamma lgamma_ mvlgamma mvlgamma_ nextafter nextafter_ polygamma polygamma_ signbit special_airy_ai "
     "special_bessel_j0 special_bessel_j1 special_bessel_y0 special_bessel_y1 special_chebyshev_polynomial_t "
     "special_chebyshev_polynomial_u special_chebyshev_polynomial_v special_chebyshev_polynomial_w special_digamma "
     "special_entr special_erf special_erfc special_erfcx special_erfinv special_exp2 special_expit special_expm1 "
     "special_gammainc special_gammaincc special_gammaln special_hermite_polynomial_h special_hermite_polynomial_he "
     "special_i0 special_i0e special_i1 special_i1e special_laguerre_polynomial_l special_legendre_polynomial_p "
     "special_log1p special_log_ndtr special_log_softmax special_logit special_logsumexp special_modified_bessel_i0 "
     "special_modified_bessel_i1 special_modified_bessel_k0 special_modified_bessel_k1 special_multigammaln "
     "special_ndtr special_ndtri special_polygamma special_psi special_round special_scaled_modified_bessel_k0 "
     "special_scaled_modified_bessel_k1 special_shifted_chebyshev_polynomial_t special_shifted_chebyshev_polynomial_u "
     "special_shifted_chebyshev_polynomial_v special_shifted_chebyshev_polynomial_w special_sinc special_softmax "
     "special_spherical_bessel_j0 special_xlog1py special_xlogy"},
    {"linear algebra",
     "chain_matmul cholesky_inverse cholesky_solve det frobenius_norm geqrf inverse linalg__powsum linalg_cholesky "
     "linalg_cond linalg_cross linalg_det linalg_diagonal linalg_eig linalg_eigvals linalg_eigvalsh "
     "linalg_householder_product linalg_inv linalg_inv_ex linalg_ldl_factor linalg_ldl_factor_ex linalg_ldl_solve "
     "linalg_lstsq linalg_lu linalg_lu_factor linalg_lu_factor_ex linalg_lu_solve linalg_matmul linalg_matrix_exp "
     "linalg_matrix_norm linalg_matrix_power linalg_matrix_rank linalg_matrix_sqrth linalg_multi_dot linalg_norm "
     "linalg_pinv linalg_polar linalg_slogdet linalg_solve linalg_solve_ex linalg_solve_triangular linalg_svdvals "
     "linalg_tensorinv linalg_tensorsolve linalg_vander linalg_vecdot logdet lu_solve lu_unpack matrix_exp "
     "matrix_power nuclear_norm orgqr ormqr pinverse slogdet svd triangular_solve"},
    {"Fourier transforms",
     "bartlett_window blackman_window fft_fft fft_fft2 fft_fftfreq fft_fftn fft_fftshift fft_hfft fft_hfft2 fft_hfftn "
     "fft_ifft fft_ifft2 fft_ifftn fft_ifftshift fft_ihfft fft_ihfft2 fft_ihfftn fft_irfft fft_irfft2 fft_irfftn "
     "fft_rfft fft_rfft2 fft_rfftfreq fft_rfftn hamming_window hann_window istft kaiser_window stft"},
    {"resampling",
     "affine_grid_generator affine_grid_generator_backward fractional_max_pool2d fractional_max_pool2d_backward "
     "fractional_max_pool3d fractional_max_pool3d_backward grid_sampler grid_sampler_2d_backward "
     "grid_sampler_3d_backward max_unpool2d max_unpool3d upsample_bicubic2d_backward upsample_bilinear2d_backward "
     "upsample_linear1d upsample_linear1d_backward upsample_nearest1d upsample_nearest1d_backward "
     "upsample_nearest2d_backward upsample_nearest3d upsample_nearest3d_backward upsample_trilinear3d "
     "upsample_trilinear3d_backward"},
    {"recurrent networks", "gru_cell lstm_cell rnn_relu rnn_relu_cell rnn_tanh_cell"},
    {"others, in place",
     "abs_ absolute_ acos_ acosh_ add_ addbmm_ addcdiv_ addcmul_ addmm_ addmv_ addr_ alpha_dropout_ arccos_ arccosh_ "
     "arcsin_ arcsinh_ arctan2_ arctan_ arctanh_ as_strided_ asin_ asinh_ atan2_ atan_ atanh_ baddbmm_ bitwise_and_ "
     "bitwise_left_shift_ bitwise_not_ bitwise_or_ bitwise_right_shift_ bitwise_xor_ cauchy_ ceil_ celu_ clamp_ "
     "clamp_max_ clamp_min_ clip_ conj_physical_ copy_ cos_ cosh_ cumprod_ cumsum_ deg2rad_ detach_ div_ divide_ "
     "dropout_ elu_ embedding_renorm_ eq_ erf_ erfc_ exp2_ exp_ expm1_ feature_alpha_dropout_ feature_dropout_ fill_ "
     "fill_diagonal_ fix_ float_power_ floor_ floor_divide_ fmod_ frac_ ge_ gelu_ geometric_ greater_ greater_equal_ "
     "gt_ hardsigmoid_ hardswish_ hardtanh_ heaviside_ hypot_ index_add_ index_copy_ index_fill_ index_put_ "
     "index_reduce_ ldexp_ le_ leaky_relu_ lerp_ less_ less_equal_ log10_ log1p_ log2_ log_ log_normal_ logical_and_ "
     "logical_not_ logical_or_ logical_xor_ logit_ lt_ masked_fill_ masked_scatter_ mish_ mul_ multiply_ nan_to_num_ "
     "ne_ neg_ negative_ not_equal_ pow_ put_ rad2deg_ reciprocal_ relu6_ relu_ remainder_ renorm_ resize_as_ round_ "
     "rrelu_ rrelu_with_noise_ rsqrt_ scatter_ scatter_add_ scatter_reduce_ selu_ sgn_ sigmoid_ sign_ silu_ sin_ sinc_ "
     "sinh_ sqrt_ square_ squeeze_ sub_ subtract_ swapaxes_ swapdims_ t_ tan_ tanh_ threshold_ transpose_ tril_ triu_ "
     "true_divide_ trunc_ unsqueeze_ xlogy_ zero_"},
    {"others, a to l",
     "absolute adaptive_avg_pool2d adaptive_avg_pool3d adaptive_avg_pool3d_backward adaptive_max_pool1d "
     "adaptive_max_pool2d_backward adaptive_max_pool3d adaptive_max_pool3d_backward addbmm addr adjoint alias_copy all "
     "allclose alpha_dropout aminmax angle arccos arccosh arcsin arcsinh arctan arctan2 arctanh argsort argwhere "
     "as_strided_copy as_strided_scatter atleast_1d atleast_2d atleast_3d avg_pool3d_backward bernoulli bilinear "
     "binary_cross_entropy binary_cross_entropy_backward binomial bitwise_left_shift bitwise_right_shift block_diag "
     "broadcast_tensors broadcast_to bucketize cartesian_prod cauchy cdist celu channel_shuffle chunk clamp_max "
     "clamp_min clip column_stack combinations complex concat concatenate conj conj_physical contiguous conv1d conv2d "
     "conv3d conv_tbc conv_tbc_backward conv_transpose1d conv_transpose2d conv_transpose3d corrcoef "
     "cosine_embedding_loss cosine_similarity count_nonzero cov cross cummaxmin_backward cummin cumprod_backward "
     "cumulative_trapezoid deg2rad detach detach_copy diag diag_embed diagflat diagonal_backward diagonal_copy "
     "diagonal_scatter diff dist divide dropout dsplit dstack elu_backward embedding_backward embedding_bag "
     "embedding_renorm empty_like empty_permuted equal erfc exp2 expand_as expand_copy exponential eye "
     "feature_alpha_dropout feature_dropout fix flatten fliplr flipud float_power floor_divide fmax fmin frac "
     "gather_backward gelu_backward geometric ger glu_backward glu_backward_jvp glu_jvp gradient greater greater_equal "
     "hardshrink hardshrink_backward hardsigmoid hardsigmoid_backward hardswish_backward hardtanh_backward hash_tensor "
     "heaviside hinge_embedding_loss histogram histogramdd hsplit hstack huber_loss_backward hypot imag index_fill index_reduce "
     "index_select_backward inner instance_norm is_nonzero is_same_size isclose isfinite isin isneginf isposinf isreal "
     "item kron kthvalue l1_loss ldexp leaky_relu_backward less less_equal linspace log_normal "
     "log_sigmoid log_sigmoid_backward log_sigmoid_forward log_softmax logaddexp logaddexp2 logcumsumexp logit "
     "logit_backward logspace"},
    {"others, m to z",
     "mH mT margin_ranking_loss masked_scatter_backward masked_select masked_select_backward matrix_H "
     "matrix_exp_backward max_pool1d_with_indices max_pool2d max_pool3d "
     "max_pool3d_with_indices_backward meshgrid mish_backward mode moveaxis movedim mse_loss_backward msort "
     "multi_margin_loss multi_margin_loss_backward multilabel_margin_loss multilabel_margin_loss_backward "
     "multilabel_margin_loss_forward multiply nan_to_num nanmean nanmedian nansum narrow narrow_copy native_batch_norm "
     "native_channel_shuffle native_dropout_backward negative new_empty new_empty_strided new_full "
     "new_ones new_zeros nll_loss nll_loss2d nll_loss2d_backward nll_loss2d_forward nll_loss_backward nll_loss_nd "
     "nonzero_numpy nonzero_static norm normal normal_functional not_equal numpy_T one_hot ones_like outer pad "
     "pad_sequence pairwise_distance pdist permute_copy pixel_unshuffle poisson poisson_nll_loss polar positive put "
     "rad2deg rand_like randint randint_like randn_like random range ravel real reflection_pad1d_backward "
     "reflection_pad2d_backward reflection_pad3d_backward relu6 renorm repeat_interleave replication_pad1d "
     "replication_pad1d_backward replication_pad2d_backward replication_pad3d_backward reshape reshape_as resolve_conj "
     "resolve_neg roll rot90 row_stack rrelu rrelu_with_noise rrelu_with_noise_backward rrelu_with_noise_functional "
     "rsub searchsorted segment_reduce select_backward select_copy selu sgn sigmoid_backward silu_backward sinc "
     "slice_backward slice_copy smooth_l1_loss_backward soft_margin_loss soft_margin_loss_backward "
     "softmax softplus_backward softshrink softshrink_backward split split_copy split_with_sizes_copy square "
     "squeeze_copy stack std_mean subtract sum_to_size swapaxes swapdims "
     "t t_copy take tanh_backward tensor_split tensordot threshold threshold_backward "
     "tile to trace trace_backward transpose transpose_copy trapezoid trapz tril_indices triplet_margin_loss "
     "triu_indices true_divide type_as unbind unbind_copy unflatten unfold unfold_backward unfold_copy uniform "
     "unique_consecutive unique_dim_consecutive unsafe_chunk unsafe_split unsafe_split_with_sizes unsqueeze_copy "
     "value_selecting_reduction_backward vander var_mean vdot view_as view_as_complex view_as_complex_copy "
     "view_as_real view_as_real_copy view_copy vsplit vstack xlogy zero zeros_like"},
    {"over lists",
     "_foreach_abs _foreach_abs_ _foreach_acos _foreach_acos_ _foreach_add _foreach_add_ _foreach_addcdiv "
     "_foreach_addcdiv_ _foreach_addcmul _foreach_addcmul_ _foreach_asin _foreach_asin_ _foreach_atan _foreach_atan_ "
     "_foreach_ceil _foreach_ceil_ _foreach_clamp_max _foreach_clamp_max_ _foreach_clamp_min _foreach_clamp_min_ "
     "_foreach_clone _foreach_copy _foreach_copy_ _foreach_cos _foreach_cos_ _foreach_cosh _foreach_cosh_ _foreach_div "
     "_foreach_div_ _foreach_erf _foreach_erf_ _foreach_erfc _foreach_erfc_ _foreach_exp _foreach_exp_ _foreach_expm1 "
     "_foreach_expm1_ _foreach_floor _foreach_floor_ _foreach_frac _foreach_frac_ _foreach_lerp _foreach_lerp_ "
     "_foreach_lgamma _foreach_lgamma_ _foreach_log _foreach_log10 _foreach_log10_ _foreach_log1p _foreach_log1p_ "
     "_foreach_log2 _foreach_log2_ _foreach_log_ _foreach_max _foreach_maximum _foreach_maximum_ _foreach_minimum "
     "_foreach_minimum_ _foreach_mm _foreach_mul _foreach_mul_ _foreach_neg _foreach_neg_ _foreach_norm _foreach_pow "
     "_foreach_pow_ _foreach_powsum _foreach_reciprocal _foreach_reciprocal_ _foreach_round _foreach_round_ "
     "_foreach_rsqrt _foreach_rsqrt_ _foreach_sigmoid _foreach_sigmoid_ _foreach_sign _foreach_sign_ _foreach_sin "
     "_foreach_sin_ _foreach_sinh _foreach_sinh_ _foreach_sqrt _foreach_sqrt_ _foreach_sub _foreach_sub_ _foreach_tan "
     "_foreach_tan_ _foreach_tanh _foreach_tanh_ _foreach_trunc _foreach_trunc_ _foreach_zero _foreach_zero_"},
    {"fused optimiser steps",
     "_fused_adam _fused_adamw _fused_sgd _fused_adagrad _fused_adam_ _fused_adamw_ _fused_sgd_ _fused_adagrad_"},
    {"without a public name",
     "_add_relu _addmm_activation _aminmax _cdist_backward _conj _conj_physical _ctc_loss _ctc_loss_backward "
     "_embedding_bag_backward _grid_sampler_2d_cpu_fallback _int_mm _is_all_true _is_any_true _linalg_det _linalg_eigh "
     "_linalg_eigvals _linalg_slogdet _linalg_svd _lu_with_info _masked_softmax _native_batch_norm_legit_functional "
     "_neg_view _pack_padded_sequence _pad_circular _pad_packed_sequence _pdist_backward _philox_normal "
     "_philox_randint _philox_uniform _reshape_alias _safe_softmax _sample_dirichlet _segment_reduce_backward "
     "_shape_as_tensor _stack _standard_gamma _thnn_fused_gru_cell_backward _thnn_fused_lstm_cell_backward _unique "
     "_unsafe_index _unsafe_index_put _upsample_bicubic2d_aa _upsample_bilinear2d_aa _upsample_nearest_exact1d "
     "_upsample_nearest_exact2d _upsample_nearest_exact3d _weight_norm"},
    {0},
};
