/* Dead handles: whatever is done with one is an error that names function and argument, reads no other tensor and changes
   nothing. A use of each public function that takes a tensor stands in `uses`; lint looks that none is missing. */
#include "core/slot.h"
#include "core/tensor_make.h"
#include "support/support.h"
#include <facula/facula.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

static fac_tensor *live; /* of the test's scope: [1, 2, 3], never changed by what follows */

static fac_tensor *make(void) { return fac_tensor_of(4, 5, 6); }

/* ---- a use of every function ----------------------------------------------------------------------------------------- */

#define USE(name, ...) \
    static void name(fac_tensor *dead) { __VA_ARGS__; }

USE(use_add, (void)!fac_add(dead, live))
USE(use_add_other, (void)!fac_add(live, dead))
USE(use_add_in_place, (void)!fac_add_(dead, live))
USE(use_exp_out, (void)!fac_exp_out(dead, live))
USE(use_sum, (void)!fac_sum(dead))
USE(use_max_dim, {
    fac_max_dim_result r = fac_max_dim(dead, 0);
    (void)r;
})
USE(use_split, {
    fac_tensors l = fac_split(dead, 1);
    (void)l;
})
USE(use_equal, (void)!fac_equal(live, dead))
USE(use_cat, (void)!fac_cat(FAC_TENSORS(live, dead, live)))
USE(use_cat_many, (void)!fac_cat(FAC_TENSORS(live, live, live, live, live, live, live, live, live, live, dead)))
USE(use_index, (void)!fac_index(live, FAC_TENSORS(dead)))
USE(use_linear_bias, (void)!fac_linear(live, live, dead))
USE(use_cross_entropy_weight, (void)!fac_cross_entropy(live, live, .weight = dead))

USE(use_keep, (void)!fac_keep(dead))
USE(use_release, fac_release(dead))
USE(use_drop, fac_drop(dead))
USE(use_scope_yield, {
    FAC_SCOPE(s);
    (void)!fac_scope_yield(&s, dead);
})
USE(use_ndim, fac_tensor_ndim(dead))
USE(use_size, fac_tensor_size(dead, 0))
USE(use_stride, fac_tensor_stride(dead, 0))
USE(use_sizes, fac_tensor_sizes(dead))
USE(use_strides, fac_tensor_strides(dead))
USE(use_numel, fac_tensor_numel(dead))
USE(use_offset, fac_tensor_offset(dead))
USE(use_dtype, fac_tensor_dtype(dead))
USE(use_device, fac_tensor_device(dead))
USE(use_layout, fac_tensor_layout(dead))
USE(use_is_nested, (void)!fac_is_nested(dead))
USE(use_is_mkldnn, fac_is_mkldnn(dead))
USE(use_is_contiguous, fac_tensor_is_contiguous(dead))
USE(use_is_contiguous_as, fac_tensor_is_contiguous_as(dead, FAC_CONTIGUOUS))
USE(use_data, (void)!fac_tensor_data(dead))
USE(use_storage, (void)!fac_tensor_storage(dead))
USE(use_is_alias_of, fac_is_alias_of(live, dead))
USE(use_has_names, fac_has_names(dead))
USE(use_name, (void)!fac_tensor_name(dead, 0))
USE(use_dim, (void)fac_dim(dead, "N"))
USE(use_rename, fac_rename(dead, FAC_NAMES("N")))
USE(use_set_names, fac_set_names(dead, FAC_NAMES("N")))
USE(use_refine_names, fac_refine_names(dead, FAC_NAMES("N")))
USE(use_align_to, fac_align_to(dead, FAC_NAMES("N")))
USE(use_align_as, fac_align_as(live, dead))
USE(use_flatten_names, fac_flatten_names(dead, FAC_NAMES("N"), "M"))
USE(use_unflatten_name, fac_unflatten_name(dead, "N", FAC_NAMES("M"), FAC_INTS(1)))
USE(use_version, fac_tensor_version(dead))
USE(use_read, (void)!(fac_tensor_read(dead, FAC_F32, (float[3]){0}, 3)))
USE(use_item, fac_item(dead))
USE(use_item_int, fac_item_int(dead))
USE(use_set_data, (void)!(fac_set_data(dead, live)))
USE(use_set_data_source, (void)!(fac_set_data(live, dead)))
USE(use_print, (void)!(fac_print(dead, stdout)))
USE(use_string, fac_string_free(fac_tensor_string(dead)))
USE(use_record_stream, (void)!(fac_record_stream(dead, (fac_stream){{0, 0}, 0})))
USE(use_keys, fac_tensor_keys(dead))

USE(use_requires_grad, fac_requires_grad(dead))
USE(use_set_requires_grad, (void)!fac_set_requires_grad(dead, true))
USE(use_is_leaf, fac_is_leaf(dead))
USE(use_grad_of, (void)!fac_grad_of(dead))
USE(use_set_grad, (void)!(fac_set_grad(dead, NULL)))
USE(use_set_grad_grad, (void)!(fac_set_grad(live, dead)))
USE(use_retain_grad, (void)!(fac_retain_grad(dead)))
USE(use_grad_fn, (void)!fac_grad_fn(dead))
USE(use_graph_print, (void)!(fac_graph_print(dead, stdout)))
USE(use_graph_dot, (void)!(fac_graph_dot(dead, stdout)))
USE(use_is_view, fac_is_view(dead))
USE(use_view_base, (void)!fac_view_base(dead))
USE(use_is_inference, fac_is_inference(dead))
USE(use_backward, (void)!(fac_backward(dead)))
USE(use_backward_gradient, (void)!(fac_backward(live, .gradient = dead)))
USE(use_backward_inputs, (void)!(fac_backward(live, .inputs = FAC_TENSORS(dead))))
USE(use_backward_all, (void)!(fac_backward_all(FAC_TENSORS(live, dead), fac_tensors_of(NULL, 0))))
USE(use_grad, {
    fac_tensor *out = NULL;
    (void)!(fac_grad(FAC_TENSORS(live), FAC_TENSORS(dead), &out));
})
static fac_tensor *grad_hook(void *context, fac_tensor *grad) { return (void)context, (void)grad, NULL; }
static void leaf_hook(void *context, fac_tensor *t) { (void)context, (void)t; }
USE(use_register_hook, (void)!fac_register_hook(dead, grad_hook, NULL))
USE(use_register_post_accumulate_hook, (void)!fac_register_post_accumulate_hook(dead, leaf_hook, NULL))
static fac_status identity(void *context, fac_tensors in, fac_tensor **out, size_t n) {
    (void)context, (void)n;
    out[0] = fac_mul(in.v[0], 2);
    return fac_error();
}
USE(use_gradcheck, (void)!(fac_gradcheck(identity, NULL, FAC_TENSORS(dead), 1)))
USE(use_gradgradcheck, (void)!(fac_gradgradcheck(identity, NULL, FAC_TENSORS(dead), 1)))
USE(use_jacobian, (void)!fac_jacobian(identity, NULL, dead))
USE(use_make_dual, (void)!fac_make_dual(dead, dead))
USE(use_unpack_dual, (void)fac_unpack_dual(dead))
USE(use_is_dual, (void)fac_is_dual(dead))
USE(use_vmap, {
    fac_tensor *out;
    (void)!(fac_vmap(identity, NULL, FAC_TENSORS(dead), &out, 1));
})
USE(use_func_grad, {
    fac_tensor *out;
    (void)!(fac_func_grad(identity, NULL, FAC_TENSORS(dead), &out));
})
USE(use_func_vjp, {
    fac_tensor *out, *grad;
    (void)!(fac_func_vjp(identity, NULL, FAC_TENSORS(dead), FAC_TENSORS(live), &out, &grad));
})
USE(use_func_vjp_cotangents, {
    fac_tensor *out, *grad;
    (void)!(fac_func_vjp(identity, NULL, FAC_TENSORS(live), FAC_TENSORS(dead), &out, &grad));
})
USE(use_func_jvp, {
    fac_tensor *y, *t;
    (void)!(fac_func_jvp(identity, NULL, FAC_TENSORS(dead), FAC_TENSORS(live), &y, &t, 1));
})
USE(use_func_jvp_tangents, {
    fac_tensor *y, *t;
    (void)!(fac_func_jvp(identity, NULL, FAC_TENSORS(live), FAC_TENSORS(dead), &y, &t, 1));
})
USE(use_func_hvp, {
    fac_tensor *out;
    (void)!(fac_func_hvp(identity, NULL, FAC_TENSORS(dead), FAC_TENSORS(live), &out));
})
USE(use_func_jacfwd, (void)!fac_func_jacfwd(identity, NULL, FAC_TENSORS(dead)))
USE(use_func_jacrev, (void)!fac_func_jacrev(identity, NULL, FAC_TENSORS(dead)))
USE(use_func_hessian, (void)!fac_func_hessian(identity, NULL, FAC_TENSORS(dead)))
static fac_tensor *doubled(void *context, fac_tensors in) { return (void)context, fac_mul(in.v[0], 2); }
USE(use_checkpoint, (void)!fac_checkpoint(doubled, NULL, FAC_TENSORS(dead)))

/* A custom function whose forward does what `what` says with a dead tensor. */
static enum { SAVE, DIRTY, PLAIN, OUTPUT } what;
static fac_status misuse(fac_function_ctx *c, fac_tensors in, fac_tensor **out) {
    fac_tensor *dead = fac_function_user(c);
    if (what == SAVE) FAC_TRY(fac_function_save(c, FAC_TENSORS(in.v[0], dead)));
    if (what == DIRTY) fac_function_mark_dirty(c, dead);
    if (what == PLAIN) fac_function_mark_non_differentiable(c, dead);
    out[0] = what == OUTPUT ? dead : fac_mul(in.v[0], 2);
    return fac_error();
}
static const fac_function misusing = {.name = "Misusing", .n_outputs = 1, .forward = misuse};
static void apply(fac_tensor *in, fac_tensor *user) {
    fac_tensor *out;
    (void)!(fac_function_apply(&misusing, user, FAC_TENSORS(in), &out));
}
USE(use_function_apply, apply(dead, NULL))
USE(use_function_apply_cast, {
    fac_tensor *out = NULL;
    (void)!(fac_function_apply_cast(&misusing, NULL, FAC_TENSORS(dead), FAC_F32, &out));
})
USE(use_function_save, what = SAVE, apply(live, dead))
USE(use_function_mark_dirty, what = DIRTY, apply(live, dead))
USE(use_function_mark_non_differentiable, what = PLAIN, apply(live, dead))
USE(use_function_output, what = OUTPUT, apply(live, dead))

static fac_module *linear, *relu;
static fac_optimizer *optimizer;
static fac_state *names;
USE(use_module_add_parameter, (void)!fac_module_add_parameter(linear, "late", dead))
USE(use_module_add_buffer, (void)!fac_module_add_buffer(linear, "late", dead))
USE(use_module_set_tensor, (void)!(fac_module_set_tensor(linear, "weight", dead)))
USE(use_forward, (void)!fac_forward(relu, dead))
USE(use_functional_call, (void)!fac_functional_call(linear, FAC_TENSORS(live, dead), live))
static fac_tensor *mean_loss(void *context, fac_tensor *y, fac_tensor *target) {
    (void)context, (void)target;
    return fac_mean(y);
}
USE(use_per_sample_grads, {
    fac_tensor *out[2];
    (void)!(fac_func_per_sample_grads(linear, mean_loss, NULL, dead, NULL, out, 2));
})
USE(use_forward_many, (void)!fac_forward_many(relu, FAC_TENSORS(dead)))
USE(use_forward_all, {
    fac_tensor *y;
    (void)!fac_forward_all(relu, FAC_TENSORS(dead), &y, 1);
})
USE(use_state_set, (void)!(fac_state_set(names, "late", dead)))
USE(use_cross_entropy_loss_new, (void)!(fac_cross_entropy_loss_new(dead)))
static fac_module *parameters, *parameter_dict, *attention, *adaptive, *gru;
USE(use_init_uniform, (void)!fac_init_uniform(dead))
USE(use_init_normal, (void)!fac_init_normal(dead))
USE(use_init_trunc_normal, (void)!fac_init_trunc_normal(dead))
USE(use_init_constant, (void)!fac_init_constant(dead, 1))
USE(use_init_ones, (void)!fac_init_ones(dead))
USE(use_init_zeros, (void)!fac_init_zeros(dead))
USE(use_init_eye, (void)!fac_init_eye(dead))
USE(use_init_dirac, (void)!fac_init_dirac(dead))
USE(use_init_xavier_uniform, (void)!fac_init_xavier_uniform(dead))
USE(use_init_xavier_normal, (void)!fac_init_xavier_normal(dead))
USE(use_init_kaiming_uniform, (void)!fac_init_kaiming_uniform(dead))
USE(use_init_kaiming_normal, (void)!fac_init_kaiming_normal(dead))
USE(use_init_orthogonal, (void)!fac_init_orthogonal(dead))
USE(use_init_sparse, (void)!fac_init_sparse(dead, 0.5))
USE(use_parameter_list_new, (void)!fac_parameter_list_new(FAC_TENSORS(dead)))
USE(use_parameter_list_append, (void)!fac_parameter_list_append(parameters, dead))
USE(use_parameter_list_set, (void)!fac_parameter_list_set(parameters, 0, dead))
USE(use_parameter_list_extend, (void)!(fac_parameter_list_extend(parameters, FAC_TENSORS(dead))))
USE(use_parameter_dict_set, (void)!fac_parameter_dict_set(parameter_dict, "late", dead))
USE(use_multihead_attention_forward, {
    fac_tensor *y;
    (void)!(fac_multihead_attention_forward(attention, dead, NULL, NULL, &y, NULL));
})
USE(use_adaptive_log_prob, (void)!fac_adaptive_log_softmax_log_prob(adaptive, dead))
USE(use_adaptive_predict, (void)!fac_adaptive_log_softmax_predict(adaptive, dead))
USE(use_rnn_pack_padded_sequence, {
    fac_packed_sequence p;
    (void)!(fac_rnn_pack_padded_sequence(live, dead, &p));
})
USE(use_rnn_pack_sequence, {
    fac_packed_sequence p;
    (void)!(fac_rnn_pack_sequence(FAC_TENSORS(dead), &p));
})
USE(use_rnn_unpad_sequence, {
    fac_tensors l = fac_rnn_unpad_sequence(dead, live);
    (void)l;
})
USE(use_rnn_forward_packed, {
    const fac_packed_sequence in = {live, live, NULL, NULL};
    fac_packed_sequence out;
    (void)!(fac_rnn_forward_packed(gru, &in, dead, NULL, &out, NULL, NULL));
})
USE(use_prune_custom_from_mask, (void)!(fac_prune_custom_from_mask(linear, "weight", dead)))
USE(use_module_summary, (void)!(fac_module_summary(relu, FAC_TENSORS(dead), stderr)))
USE(use_clip_grad_norm, (void)!(fac_clip_grad_norm(FAC_TENSORS(dead), 1)))
USE(use_clip_grad_value, (void)!(fac_clip_grad_value(FAC_TENSORS(dead), 1)))
USE(use_get_total_norm, (void)!(fac_get_total_norm(FAC_TENSORS(dead), &(double){0})))
USE(use_clip_grads_with_norm, (void)!(fac_clip_grads_with_norm(FAC_TENSORS(dead), 1, 1)))
USE(use_parameters_to_vector, (void)!(fac_parameters_to_vector(FAC_TENSORS(dead))))
USE(use_vector_to_parameters, (void)!(fac_vector_to_parameters(dead, FAC_TENSORS(dead))))
USE(use_optimizer_add_group, (void)!(fac_optimizer_add_group(optimizer, FAC_TENSORS(dead), FAC_OPTIONS())))
USE(use_sgd_of, (void)!(fac_sgd_of(FAC_TENSORS(dead), 0.1)))
USE(use_adam_of, (void)!(fac_adam_of(FAC_TENSORS(dead), 0.1)))
USE(use_adamw_of, (void)!(fac_adamw_of(FAC_TENSORS(dead), 0.1)))
USE(use_rmsprop_of, (void)!(fac_rmsprop_of(FAC_TENSORS(dead), 0.1)))
USE(use_adagrad_of, (void)!(fac_adagrad_of(FAC_TENSORS(dead), 0.1)))
USE(use_adadelta_of, (void)!(fac_adadelta_of(FAC_TENSORS(dead), 0.1)))
USE(use_adamax_of, (void)!(fac_adamax_of(FAC_TENSORS(dead), 0.1)))
USE(use_nadam_of, (void)!(fac_nadam_of(FAC_TENSORS(dead), 0.1)))
USE(use_radam_of, (void)!(fac_radam_of(FAC_TENSORS(dead), 0.1)))
USE(use_rprop_of, (void)!(fac_rprop_of(FAC_TENSORS(dead), 0.1)))
USE(use_asgd_of, (void)!(fac_asgd_of(FAC_TENSORS(dead), 0.1)))
USE(use_sparse_adam_of, (void)!(fac_sparse_adam_of(FAC_TENSORS(dead), 0.1)))
USE(use_adafactor_of, (void)!(fac_adafactor_of(FAC_TENSORS(dead), 0.1)))
USE(use_muon_of, (void)!(fac_muon_of(FAC_TENSORS(dead), 0.1)))
USE(use_lbfgs_of, (void)!(fac_lbfgs_of(FAC_TENSORS(dead), 0.1)))
USE(use_optimizer_of, (void)!(fac_optimizer_of(fac_optimizer_class_of(optimizer), FAC_TENSORS(dead), FAC_OPTIONS())))
USE(use_loader_new, (void)!fac_loader_new(FAC_TENSORS(dead)))
USE(use_dataset_of_tensors, (void)!fac_dataset_of_tensors(FAC_TENSORS(dead)))
USE(use_npy_write, (void)!(fac_npy_write("/dev/null", dead)))
USE(use_npz_write, {
    const fac_named_tensor one = {"x", dead};
    (void)!(fac_npz_write("/dev/null", &one, 1));
})
USE(use_wav_write, (void)!(fac_wav_write("/dev/null", dead, 1)))
USE(use_image_write, (void)!(fac_image_write("/dev/null", dead)))
USE(use_image_resize, (void)!fac_image_resize(dead, 1, 1))
USE(use_image_crop, (void)!fac_image_crop(dead, 0, 0, 1, 1))
USE(use_image_center_crop, (void)!fac_image_center_crop(dead, 1, 1))
USE(use_image_random_crop, (void)!fac_image_random_crop(dead, 1, 1, 0))
USE(use_image_flip, (void)!fac_image_flip(dead))
USE(use_image_random_flip, (void)!fac_image_random_flip(dead, 0))
USE(use_image_to_float, (void)!fac_image_to_float(dead))
USE(use_image_normalize, (void)!fac_image_normalize(dead, FAC_FLOATS(0), FAC_FLOATS(1)))
USE(use_accuracy, (void)fac_accuracy(dead, dead))
USE(use_confusion_matrix, (void)!fac_confusion_matrix(dead, dead, 2))
USE(use_confusion_scores, (void)fac_confusion_scores(dead))
USE(use_auc, (void)fac_auc(dead, dead))
USE(use_perplexity, (void)fac_perplexity(dead, dead))
USE(use_safetensors_save, (void)!(fac_safetensors_save("/dev/null", &(fac_named_tensor){"x", dead}, 1, NULL, 0)))
static char saved[] = "/tmp/facula_handles_XXXXXX"; /* a file with a tensor x */
USE(use_safetensors_load, (void)!(fac_safetensors_load(saved, &(fac_named_tensor){"x", dead}, 1)))
USE(use_cuda_launch, {
    const fac_cuda_arg args[] = {fac_cuda_in(dead)};
    (void)!(fac_cuda_launch((fac_cuda_function *)&misusing, (fac_cuda_config){{1}, {1}, 0}, args, 1));
})

USE(use_value_tensor, {
    fac_value v = fac_value_tensor(dead);
    fac_value_release(&v);
})
USE(use_value_tensors, {
    fac_value v = fac_value_tensors((fac_tensor *[]){live, dead}, 2);
    fac_value_release(&v);
})
/* A value that holds a handle without a reference: what is left when it was released through another copy. */
static fac_value stale(fac_tensor *dead) { return (fac_value){(int64_t)(intptr_t)dead, FAC_TAG_TENSOR}; }
USE(use_call, {
    fac_value args[] = {fac_value_tensor(live), stale(dead)};
    fac_value out = fac_value_none();
    (void)!(fac_call("aten::add.Tensor", args, 2, &out));
    fac_value_release(&args[0]);
})
USE(use_call_op, {
    fac_value arg = stale(dead), out = fac_value_none();
    (void)!(fac_call_op(fac_operator_find("aten::neg"), &arg, 1, &out));
})
USE(use_value_copy, (void)fac_value_copy(stale(dead)))
USE(use_value_release, {
    fac_value v = stale(dead);
    fac_value_release(&v);
})

USE(use_grad_scaler_scale, {
    fac_grad_scaler *scaler = fac_grad_scaler_new();
    (void)fac_grad_scaler_scale(scaler, dead);
    fac_grad_scaler_release(scaler);
})
USE(use_to_dlpack, (void)!fac_to_dlpack(dead))
USE(use_to_dlpack_unversioned, (void)!fac_to_dlpack_unversioned(dead))
USE(use_dlpack_device, (void)fac_dlpack_device(dead))

#define ROW(name, op) \
    { #name, op, name }
/* The function, as the error should name it, and a use. */
static const struct {
    const char *name, *op;
    void (*use)(fac_tensor *dead);
} uses[] = {
    ROW(use_add, "add"),
    ROW(use_add_other, "add"),
    ROW(use_add_in_place, "add_"),
    ROW(use_exp_out, "exp"),
    ROW(use_sum, "sum"),
    ROW(use_max_dim, "max"),
    ROW(use_split, "split"),
    ROW(use_equal, "equal"),
    ROW(use_cat, "cat"),
    ROW(use_cat_many, "cat"),
    ROW(use_index, "index"),
    ROW(use_linear_bias, "linear"),
    ROW(use_cross_entropy_weight, "cross_entropy_loss"),
    ROW(use_keep, "fac_keep"),
    ROW(use_release, "fac_release"),
    ROW(use_drop, "fac_drop"),
    ROW(use_scope_yield, "fac_yield"),
    ROW(use_ndim, "fac_tensor_ndim"),
    ROW(use_size, "fac_tensor_size"),
    ROW(use_stride, "fac_tensor_stride"),
    ROW(use_sizes, "fac_tensor_sizes"),
    ROW(use_strides, "fac_tensor_strides"),
    ROW(use_numel, "fac_tensor_numel"),
    ROW(use_offset, "fac_tensor_offset"),
    ROW(use_dtype, "fac_tensor_dtype"),
    ROW(use_device, "fac_tensor_device"),
    ROW(use_layout, "fac_tensor_layout"),
    ROW(use_is_nested, "fac_is_nested"),
    ROW(use_is_mkldnn, "fac_is_mkldnn"),
    ROW(use_is_contiguous, "fac_tensor_is_contiguous"),
    ROW(use_is_contiguous_as, "fac_tensor_is_contiguous_as"),
    ROW(use_data, "fac_tensor_data"),
    ROW(use_storage, "fac_tensor_storage"),
    ROW(use_is_alias_of, "fac_is_alias_of"),
    ROW(use_has_names, "fac_has_names"),
    ROW(use_name, "fac_tensor_name"),
    ROW(use_dim, "fac_dim"),
    ROW(use_rename, "fac_rename"),
    ROW(use_set_names, "fac_set_names"),
    ROW(use_refine_names, "fac_refine_names"),
    ROW(use_align_to, "fac_align_to"),
    ROW(use_align_as, "fac_align_as"),
    ROW(use_flatten_names, "fac_flatten_names"),
    ROW(use_unflatten_name, "fac_unflatten_name"),
    ROW(use_version, "fac_tensor_version"),
    ROW(use_read, "fac_tensor_read"),
    ROW(use_item, "fac_item"),
    ROW(use_item_int, "fac_item_int"),
    ROW(use_set_data, "fac_set_data"),
    ROW(use_set_data_source, "fac_set_data"),
    ROW(use_print, "fac_print"),
    ROW(use_string, "fac_print"),
    ROW(use_record_stream, "fac_record_stream"),
    ROW(use_keys, "fac_tensor_keys"),
    ROW(use_requires_grad, "fac_requires_grad"),
    ROW(use_set_requires_grad, "requires_grad_"),
    ROW(use_is_leaf, "fac_is_leaf"),
    ROW(use_grad_of, "grad"),
    ROW(use_set_grad, "set_grad"),
    ROW(use_set_grad_grad, "set_grad"),
    ROW(use_retain_grad, "retain_grad"),
    ROW(use_grad_fn, "grad_fn"),
    ROW(use_graph_print, "graph"),
    ROW(use_graph_dot, "graph"),
    ROW(use_is_view, "is_view"),
    ROW(use_view_base, "is_view"),
    ROW(use_is_inference, "fac_is_inference"),
    ROW(use_backward, "backward"),
    ROW(use_backward_gradient, "backward"),
    ROW(use_backward_inputs, "backward"),
    ROW(use_backward_all, "backward"),
    ROW(use_grad, "grad"),
    ROW(use_register_hook, "register_hook"),
    ROW(use_register_post_accumulate_hook, "register_post_accumulate_grad_hook"),
    ROW(use_gradcheck, "gradcheck"),
    ROW(use_gradgradcheck, "gradgradcheck"),
    ROW(use_jacobian, "jacobian"),
    ROW(use_make_dual, "make_dual"),
    ROW(use_unpack_dual, "unpack_dual"),
    ROW(use_is_dual, "fac_is_dual"),
    ROW(use_checkpoint, "checkpoint"),
    ROW(use_functional_call, "functional_call"),
    ROW(use_per_sample_grads, "vmap"),
    ROW(use_vmap, "vmap"),
    ROW(use_func_grad, "func_grad"),
    ROW(use_func_vjp, "func_vjp"),
    ROW(use_func_vjp_cotangents, "func_vjp"),
    ROW(use_func_jacrev, "func_jacrev"),
    ROW(use_func_jvp, "func_jvp"),
    ROW(use_func_jvp_tangents, "func_jvp"),
    ROW(use_func_hvp, "func_hvp"),
    ROW(use_func_jacfwd, "func_jacfwd"),
    ROW(use_func_hessian, "func_hessian"),
    ROW(use_function_apply, "Misusing"),
    ROW(use_function_apply_cast, "Misusing"),
    ROW(use_grad_scaler_scale, "fac_grad_scaler_scale"),
    ROW(use_to_dlpack, "fac_to_dlpack"),
    ROW(use_to_dlpack_unversioned, "fac_to_dlpack"),
    ROW(use_dlpack_device, "fac_dlpack_device"),
    ROW(use_function_save, "MisusingBackward"),
    ROW(use_function_mark_dirty, "MisusingBackward"),
    ROW(use_function_mark_non_differentiable, "MisusingBackward"),
    ROW(use_function_output, "MisusingBackward"),
    ROW(use_module_add_parameter, "fac_module_add"),
    ROW(use_module_add_buffer, "fac_module_add"),
    ROW(use_module_set_tensor, "fac_module_set_tensor"),
    ROW(use_forward, "ReLU"),
    ROW(use_forward_many, "ReLU"),
    ROW(use_forward_all, "ReLU"),
    ROW(use_state_set, "fac_state_set"),
    ROW(use_cross_entropy_loss_new, "fac_module_add"),
    ROW(use_init_uniform, "uniform_"),
    ROW(use_init_normal, "normal_"),
    ROW(use_init_trunc_normal, "init_trunc_normal"),
    ROW(use_init_constant, "fill_"),
    ROW(use_init_ones, "fill_"),
    ROW(use_init_zeros, "fill_"),
    ROW(use_init_eye, "init_eye"),
    ROW(use_init_dirac, "init_dirac"),
    ROW(use_init_xavier_uniform, "init_xavier_uniform"),
    ROW(use_init_xavier_normal, "init_xavier_normal"),
    ROW(use_init_kaiming_uniform, "init_kaiming_uniform"),
    ROW(use_init_kaiming_normal, "init_kaiming_normal"),
    ROW(use_init_orthogonal, "init_orthogonal"),
    ROW(use_init_sparse, "init_sparse"),
    ROW(use_parameter_list_new, "fac_module_add"),
    ROW(use_parameter_list_append, "fac_module_add"),
    ROW(use_parameter_list_set, "fac_module_set_tensor"),
    ROW(use_parameter_list_extend, "fac_module_add"),
    ROW(use_parameter_dict_set, "fac_module_add"),
    ROW(use_multihead_attention_forward, "multihead_attention_forward"),
    ROW(use_adaptive_log_prob, "adaptive_log_softmax_log_prob"),
    ROW(use_adaptive_predict, "adaptive_log_softmax_predict"),
    ROW(use_rnn_pack_padded_sequence, "rnn_pack_padded_sequence"),
    ROW(use_rnn_pack_sequence, "rnn_pack_sequence"),
    ROW(use_rnn_unpad_sequence, "rnn_unpad_sequence"),
    ROW(use_rnn_forward_packed, "GRU"),
    ROW(use_prune_custom_from_mask, "prune_custom_from_mask"),
    ROW(use_module_summary, "ReLU"),
    ROW(use_clip_grad_norm, "fac_clip_grad_norm"),
    ROW(use_clip_grad_value, "fac_clip_grad_value"),
    ROW(use_get_total_norm, "fac_get_total_norm"),
    ROW(use_clip_grads_with_norm, "fac_clip_grads_with_norm"),
    ROW(use_parameters_to_vector, "fac_parameters_to_vector"),
    ROW(use_vector_to_parameters, "fac_vector_to_parameters"),
    ROW(use_optimizer_add_group, "fac_optimizer"),
    ROW(use_sgd_of, "fac_optimizer"),
    ROW(use_adam_of, "fac_optimizer"),
    ROW(use_adamw_of, "fac_optimizer"),
    ROW(use_rmsprop_of, "fac_optimizer"),
    ROW(use_adagrad_of, "fac_optimizer"),
    ROW(use_adadelta_of, "fac_optimizer"),
    ROW(use_adamax_of, "fac_optimizer"),
    ROW(use_nadam_of, "fac_optimizer"),
    ROW(use_radam_of, "fac_optimizer"),
    ROW(use_rprop_of, "fac_optimizer"),
    ROW(use_asgd_of, "fac_optimizer"),
    ROW(use_sparse_adam_of, "fac_optimizer"),
    ROW(use_adafactor_of, "fac_optimizer"),
    ROW(use_muon_of, "fac_optimizer"),
    ROW(use_lbfgs_of, "fac_optimizer"),
    ROW(use_optimizer_of, "fac_optimizer"),
    ROW(use_loader_new, "loader_new"),
    ROW(use_dataset_of_tensors, "dataset_of_tensors"),
    ROW(use_npy_write, "npy_write"),
    ROW(use_npz_write, "npz_write"),
    ROW(use_wav_write, "wav_write"),
    ROW(use_image_write, "image_write"),
    ROW(use_image_resize, "image_resize"),
    ROW(use_image_crop, "image_crop"),
    ROW(use_image_center_crop, "image_center_crop"),
    ROW(use_image_random_crop, "image_random_crop"),
    ROW(use_image_flip, "image_flip"),
    ROW(use_image_random_flip, "image_random_flip"),
    ROW(use_image_to_float, "image_to_float"),
    ROW(use_image_normalize, "image_normalize"),
    ROW(use_accuracy, "accuracy"),
    ROW(use_confusion_matrix, "confusion_matrix"),
    ROW(use_confusion_scores, "confusion_scores"),
    ROW(use_auc, "auc"),
    ROW(use_perplexity, "perplexity"),
    ROW(use_safetensors_save, "safetensors_save"),
    ROW(use_safetensors_load, "safetensors_load"),
    ROW(use_cuda_launch, "fac_cuda_launch"),
    ROW(use_value_tensor, "fac_value_tensor"),
    ROW(use_value_tensors, "fac_value_tensors"),
    ROW(use_call, "aten::add.Tensor"),
    ROW(use_call_op, "aten::neg"),
    ROW(use_value_copy, "fac_value_copy"),
    ROW(use_value_release, "fac_value_release"),
};

/* ---- ways to die ------------------------------------------------------------------------------------------------------ */

static fac_tensor *after_scope_end(void) {
    FAC_SCOPE(s);
    return make();
}
static fac_tensor *after_drop(void) {
    FAC_SCOPE(s);
    fac_tensor *t = make();
    fac_drop(t);
    return t;
}
static fac_tensor *after_release(void) {
    fac_tensor *t;
    {
        FAC_SCOPE(s);
        t = fac_keep(make());
    }
    fac_release(t);
    return t;
}
static fac_tensor *after_its_value(void) {
    fac_value v;
    {
        FAC_SCOPE(s);
        v = fac_value_tensor(make());
    }
    fac_tensor *t = fac_value_as_tensor(v);
    fac_value_release(&v);
    return t;
}
static fac_tensor *(*const deaths[])(void) = {after_scope_end, after_drop, after_release, after_its_value};

/* The header's slot may have been used by any number of tensors since, and one lives there now. */
static void use_again(fac_tensor *dead, int reuses) {
    fac_scope s = fac_scope_begin();
    for (int i = 0; i < reuses; i++) fac_drop(make());
    fac_scope_end(&s);
    (void)dead;
}

static void check_use(size_t i, fac_tensor *dead) {
    fac_error_info e;
    uses[i].use(dead);
    bool well = fac_error_get(&e) == FAC_ERR_STATE && strcmp(e.op, uses[i].op) == 0 && e.argument[0] &&
                strstr(e.message, "released already");
    if (!well) {
        print_error("%s: %s by '%s', argument '%s': %s\n", uses[i].name, fac_status_name(e.code), e.op, e.argument,
                    e.message);
        fail();
    }
    fac_error_clear();
}

/* Both in the scope of the test. */
static void make_companions(void) {
    live = fac_set_requires_grad(fac_tensor_of(1, 2, 3), true);
    linear = fac_linear_new(3, 3);
    relu = fac_relu_new();
    parameters = fac_parameter_list_new(FAC_TENSORS(fac_ones(FAC_INTS(2))));
    parameter_dict = fac_parameter_dict_new();
    attention = fac_multihead_attention_new(4, 2);
    adaptive = fac_adaptive_log_softmax_with_loss_new(4, 8, 2);
    gru = fac_gru_new(2, 2);
    optimizer = fac_sgd_new(linear, 0.1);
    names = fac_state_new();
    strcpy(saved + sizeof saved - 7, "XXXXXX");
    close(mkstemp(saved));
    assert_ok(fac_safetensors_save(saved, &(fac_named_tensor){"x", live}, 1, NULL, 0));
    assert_no_error();
}

static void release_companions(void) {
    unlink(saved);
    fac_state_free(names);
    fac_optimizer_release(optimizer);
    fac_module *const made[] = {relu, linear, parameters, parameter_dict, attention, adaptive, gru};
    for (size_t i = 0; i < FAC_COUNT(made); i++) fac_module_release(made[i]);
}

static void assert_live_is_untouched(void) {
    float v[3];
    assert_ok(fac_tensor_read(live, FAC_F32, v, 3));
    assert_true(v[0] == 1 && v[1] == 2 && v[2] == 3);
    assert_null(fac_grad_of(live));
    assert_no_error();
}

static void handles_that_are_dead_are_errors_everywhere_a_million_times(void **state) {
    (void)state;
    FAC_SCOPE(s);
    make_companions();
    int64_t before = 0, n = 0;
    for (int round = 0; n < 1000000; round++) {
        if (round == 1) before = fac_live(); /* the leaf has what graphs of its own need by then */
        for (size_t d = 0; d < FAC_COUNT(deaths); d++) {
            fac_tensor *dead = deaths[d]();
            use_again(dead, round % 7);
            FAC_SCOPE(inner);
            fac_tensor *in_its_place = make();
            for (size_t i = 0; i < FAC_COUNT(uses); i++, n++) check_use(i, dead);
            assert_true(fac_item(fac_sum(in_its_place)) == 15); /* nobody wrote to the tensor that has the slot now */
        }
    }
    assert_live_is_untouched();
    assert_int_equal(fac_live(), before);
    release_companions();
    print_message("%lld uses of dead handles: each an error that names function and argument\n", (long long)n);
}

/* ---- what is not the user's to release -------------------------------------------------------------------------------- */

static void handles_are_released_no_more_often_than_kept(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *t = make();
    for (int i = 0; i < 1000; i++) {
        fac_release(t); /* the scope's reference */
        assert_error(FAC_ERR_STATE, "not kept");
        fac_keep(t);
        fac_release(t);
        assert_no_error();
        fac_release(t);
        assert_error(FAC_ERR_STATE, "fac_release, argument t: the tensor was not kept");
    }
    fac_value v = fac_value_tensor(t), copy = v; /* without fac_value_copy: one reference */
    fac_value_release(&v);
    fac_value_release(&copy);
    assert_error(FAC_ERR_STATE, "fac_value_release, argument v");
    assert_true(fac_item(fac_sum(t)) == 15);
}

static void handles_of_what_is_none_are_told_from_dead_ones(void **state) {
    (void)state;
    max_align_t block = {0};
    fac_tensor_numel(NULL);
    assert_error(FAC_ERR_ARGUMENT, "fac_tensor_numel, argument t: NULL");
    fac_tensor_numel((const fac_tensor *)(const void *)&block);
    assert_error(FAC_ERR_ARGUMENT, "no tensor that Facula gave");
}

/* ---- one handle for as long as the tensor lives ------------------------------------------------------------------------ */

static fac_tensor *seen;
static fac_tensor *see_grad(void *context, fac_tensor *grad) { return (void)context, seen = grad, NULL; }
static void see_leaf(void *context, fac_tensor *t) { (void)context, seen = t; }
static fac_status see_input(fac_function_ctx *c, fac_tensors in, fac_tensor **out) {
    (void)c;
    seen = in.v[0];
    out[0] = fac_mul(in.v[0], 2);
    return fac_error();
}
static fac_tensor *see_forward(void *context, fac_module *m, fac_tensor *x, fac_tensor *y) {
    (void)context, (void)m, (void)y;
    seen = x;
    return NULL;
}

static void handles_in_callbacks_equal_the_users_and_die_alike(void **state) {
    (void)state;
    FAC_SCOPE(s);
    make_companions();
    fac_tensor *leaf = fac_set_requires_grad(make(), true), *y = fac_sum(fac_mul(leaf, 2));
    fac_hook *hooks[] = {fac_register_hook(leaf, see_grad, NULL),
                         fac_register_post_accumulate_hook(leaf, see_leaf, NULL),
                         fac_module_register_forward_hook(relu, see_forward, NULL)};
    assert_ok(fac_backward(y, .retain_graph = true));
    assert_ptr_equal(seen, leaf);
    fac_hook_remove(hooks[1]);
    assert_ok(fac_set_grad(leaf, NULL));
    assert_ok(fac_backward(y));
    fac_tensor_numel(seen); /* the gradient of the second pass, which the leaf has made its own */
    assert_ptr_equal(seen, fac_grad_of(leaf));
    assert_ok(fac_set_grad(leaf, NULL));
    fac_tensor_numel(seen);
    assert_error(FAC_ERR_STATE, "released already");
    static const fac_function seeing = {.name = "Seeing", .n_outputs = 1, .forward = see_input};
    fac_tensor *out;
    assert_ok(fac_function_apply(&seeing, NULL, FAC_TENSORS(leaf), &out));
    assert_ptr_equal(seen, leaf);
    assert_non_null(fac_forward(relu, leaf));
    assert_ptr_equal(seen, leaf);
    assert_ptr_equal(fac_module_parameter(linear, "weight"), fac_optimizer_parameters(optimizer).v[0]);
    assert_ptr_equal(fac_add_(live, 0), NULL); /* a leaf that requires a gradient */
    fac_error_clear();
    FAC_NO_GRAD(g);
    assert_ptr_equal(fac_add_(leaf, 1), leaf);
    fac_hook_remove(hooks[0]);
    fac_hook_remove(hooks[2]);
    release_companions();
}

/* ---- generations ------------------------------------------------------------------------------------------------------ */

/* More tensors in a row than a slot has generations: no two of them have the same handle, so the first stays dead. */
static void handles_of_a_slot_never_come_again(void **state) {
    (void)state;
    const int64_t lives = FAC_FREELISTS ? 5000000 : 700000;
    fac_tensor *first = after_scope_end();
    for (int64_t i = 0; i < lives; i++) {
        fac_tensor *t = NULL;
        assert_ok(fac__empty(NULL, 0, FAC_U8, fac_device_make(FAC_META, -1), &t));
        bool same = fac__handle(t) == first;
        fac__unref(t);
        if (same) fail();
    }
    fac_tensor_numel(first);
    assert_error(FAC_ERR_STATE, "released already");
}

static void tags_count_up_to_their_last(void **state) {
    (void)state;
    uintptr_t tag = FAC_HANDLE_MARK;
    int64_t n = 0;
    for (uintptr_t next; (next = fac__tag_next(tag)); n++, tag = next) {
        assert_true((next & FAC_HANDLE_MARK) == FAC_HANDLE_MARK && !(next & FAC_HANDLE_ADDRESS));
        assert_true(next > tag);
    }
    assert_int_equal(n, FAC_FREELISTS ? (1 << 22) - 1 : 127);
}

/* ---- threads ---------------------------------------------------------------------------------------------------------- */

enum { LOOKS = 200000 };
static _Atomic(fac_tensor *) shown;
static atomic_bool done;

/* Looks at a handle that another thread may free at that moment: live or dead, and nothing else. */
static void *look(void *unused) {
    (void)unused;
    int64_t errors = 0;
    for (int i = 0; i < LOOKS; i++) {
        const fac_tensor *t = atomic_load_explicit(&shown, memory_order_relaxed);
        if (fac__open(t, "look", "t")) continue;
        errors += fac_error() == FAC_ERR_STATE;
        fac_error_clear();
    }
    atomic_store(&done, true);
    return (void *)(intptr_t)errors;
}

static void handles_may_be_looked_at_while_their_tensor_ends(void **state) {
    (void)state;
    pthread_t thread;
    atomic_store(&done, false);
    atomic_store(&shown, after_scope_end());
    assert_int_equal(pthread_create(&thread, NULL, look, NULL), 0);
    while (!atomic_load(&done)) {
        FAC_SCOPE(s);
        atomic_store_explicit(&shown, make(), memory_order_relaxed);
    }
    void *errors;
    pthread_join(thread, &errors);
    print_message("%lld of %d looks met a dead handle\n", (long long)(intptr_t)errors, LOOKS);
}

FAC_TEST_MAIN(FAC_TEST(handles_that_are_dead_are_errors_everywhere_a_million_times),
              FAC_TEST(handles_are_released_no_more_often_than_kept),
              FAC_TEST(handles_of_what_is_none_are_told_from_dead_ones),
              FAC_TEST(handles_in_callbacks_equal_the_users_and_die_alike), FAC_TEST(tags_count_up_to_their_last),
              FAC_TEST(handles_of_a_slot_never_come_again), FAC_TEST(handles_may_be_looked_at_while_their_tensor_ends))
