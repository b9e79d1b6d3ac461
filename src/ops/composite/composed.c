/* Two or three operators in one call; gradients of operators that are composites themselves, by name. */
#include "core/tensor_make.h"
#include "ops/composite/below.h"
#include "ops/composite/brief.h"
#include "ops/meta/check.h"
#include <math.h>

static fac_status give_two(fac_tensor **out, fac_tensor *a, fac_tensor *b) {
    FAC_TRY(fac__give(&out[0], a));
    fac_status st = fac__give(&out[1], b);
    if (st == FAC_OK) return FAC_OK;
    fac__unref(out[0]);
    out[0] = NULL;
    return st;
}

/* ---- a sum or a product, and what is done to it --------------------------------------------------------------------------- */

fac_status _add_relu_tensor_composite(const fac_call_info *c, fac_tensor *self, fac_tensor *other, fac_scalar alpha,
                                      fac_tensor **out) {
    (void)c;
    FAC_SCOPE(s);
    return fac__give(out, fac__s_relu(fac__s_add_Tensor(self, other, alpha)));
}

fac_status _add_relu_scalar_composite(const fac_call_info *c, fac_tensor *self, fac_scalar other, fac_scalar alpha,
                                      fac_tensor **out) {
    (void)c;
    FAC_SCOPE(s);
    return fac__give(out, fac__s_relu(fac__s_add_Scalar(self, other, alpha)));
}

fac_status _addmm_activation_composite(const fac_call_info *c, fac_tensor *self, fac_tensor *mat1, fac_tensor *mat2,
                                       fac_scalar beta, fac_scalar alpha, bool use_gelu, fac_tensor **out) {
    (void)c;
    FAC_SCOPE(s);
    fac_tensor *sum = fac__s_addmm(self, mat1, mat2, beta, alpha);
    return fac__give(out, use_gelu ? fac__s_gelu(sum, "none") : fac__s_relu(sum));
}

static fac_status check_int8(const fac_tensor *t, const char *name) {
    FAC_CHECK(t->ndim == 2, FAC_ERR_SHAPE, "%s must be a matrix, got %d-D tensor", name, t->ndim);
    FAC_CHECK(t->dtype == FAC_I8, FAC_ERR_DTYPE, "expected %s dtype to be int8, but got %s", name,
              fac_dtype_name((fac_dtype)t->dtype));
    return FAC_OK;
}

fac_status _int_mm_composite(const fac_call_info *c, fac_tensor *self, fac_tensor *mat2, fac_tensor **out) {
    (void)c;
    FAC_TRY(check_int8(self, "self"));
    FAC_TRY(check_int8(mat2, "mat2"));
    FAC_SCOPE(s);
    return fac__give(out, fac__s_mm(cast(self, FAC_I32), cast(mat2, FAC_I32)));
}

/* ---- reductions ---------------------------------------------------------------------------------------------------------------- */

fac_status _aminmax_composite(const fac_call_info *c, fac_tensor *self, fac_tensor **out) {
    (void)c;
    return fac__c_aminmax(self, (fac_opt_int){0}, false, out);
}

fac_status _aminmax_dim_composite(const fac_call_info *c, fac_tensor *self, int64_t dim, bool keepdim,
                                  fac_tensor **out) {
    (void)c;
    return fac__c_aminmax(self, fac_opt_int_(dim), keepdim, out);
}

static fac_status check_bool(const fac_tensor *self) {
    FAC_CHECK(self->dtype == FAC_BOOL, FAC_ERR_DTYPE, "expected a boolean tensor, got %s",
              fac_dtype_name((fac_dtype)self->dtype));
    return FAC_OK;
}

fac_status _is_all_true_composite(const fac_call_info *c, fac_tensor *self, fac_tensor **out) {
    (void)c;
    FAC_TRY(check_bool(self));
    return fac__c_all(self, out);
}

fac_status _is_any_true_composite(const fac_call_info *c, fac_tensor *self, fac_tensor **out) {
    (void)c;
    FAC_TRY(check_bool(self));
    return fac__c_any(self, out);
}

/* ---- softmax of a part --------------------------------------------------------------------------------------------------------- */

/* The mask in sizes that broadcast to self's: [l, l] and [b, l] of scores [b, h, l, l]. */
static fac_status mask_for(fac_tensor *self, fac_tensor *mask, int64_t type, fac_tensor **out) {
    FAC_CHECK(mask->dtype == FAC_BOOL, FAC_ERR_DTYPE, "Mask should be a boolean tensor, got %s",
              fac_dtype_name((fac_dtype)mask->dtype));
    FAC_CHECK(type >= 0 && type <= 2, FAC_ERR_ARGUMENT,
              "Mask Type should be 0 (src_mask), 1 (src_key_padding_mask), or 2 (default_mask), got %lld",
              (long long)type);
    if (type == 2) {
        FAC_CHECK(fac__same_sizes(self, mask), FAC_ERR_SHAPE, "For mask_type == 2 mask shape should match input shape");
        *out = mask;
        return FAC_OK;
    }
    FAC_CHECK(self->ndim == 4 && mask->ndim == 2 && mask->sizes[1] == self->sizes[3] &&
                  mask->sizes[0] == self->sizes[type == 0 ? 2 : 0],
              FAC_ERR_SHAPE, "For mask_type == %lld mask shape should be %s", (long long)type,
              type == 0 ? "(L, L)" : "(B, L)");
    *out = type == 0 ? mask : fac__s_reshape(mask, FAC_INTS(mask->sizes[0], 1, 1, mask->sizes[1]));
    return *out ? FAC_OK : fac_error();
}

fac_status _masked_softmax_composite(const fac_call_info *c, fac_tensor *self, fac_tensor *mask, fac_opt_int dim,
                                     fac_opt_int mask_type, fac_tensor **out) {
    (void)c;
    FAC_SCOPE(s);
    fac_tensor *wide;
    FAC_CHECK(fac_dtype_is_floating((fac_dtype)self->dtype), FAC_ERR_DTYPE, "\"masked_softmax\" not implemented for %s",
              fac_dtype_name((fac_dtype)self->dtype));
    FAC_TRY(mask_for(self, mask, mask_type.set ? mask_type.v : 2, &wide));
    return fac__give(out,
                     fac__s_softmax_int(fill_where(self, wide, -INFINITY), dim.set ? dim.v : -1, FAC_DTYPE_DEFAULT));
}

fac_status _safe_softmax_composite(const fac_call_info *c, fac_tensor *self, int64_t dim, fac_dtype dtype,
                                   fac_tensor **out) {
    (void)c;
    FAC_SCOPE(s);
    /* Such a slice is none of softmax's business: its gradient would be NaN. */
    fac_tensor *none = fac__s_all_dim(is_value(self, -INFINITY), dim, true);
    return fac__give(out, fill_where(fac__s_softmax_int(fill_where(self, none, 0), dim, dtype), none, 0));
}

/* ---- sizes, strides and types ------------------------------------------------------------------------------------------------ */

fac_status _shape_as_tensor_composite(const fac_call_info *c, fac_tensor *self, fac_tensor **out) {
    (void)c;
    const int64_t n = self->ndim;
    FAC_TRY(fac__empty(&n, 1, FAC_I64, fac_device_make(FAC_CPU, -1), out));
    if (n) memcpy(fac__data(*out), self->sizes, (size_t)n * sizeof n);
    return FAC_OK;
}

fac_status _reshape_alias_composite(const fac_call_info *c, fac_tensor *self, fac_ints size, fac_ints stride,
                                    fac_tensor **out) {
    (void)c;
    return fac__c_as_strided(self, size, stride, (fac_opt_int){0}, out);
}

fac_status type_as_composite(const fac_call_info *c, fac_tensor *self, fac_tensor *other, fac_tensor **out) {
    (void)c;
    return fac__c_to_other(self, other, false, false, FAC_FORMAT_DEFAULT, out);
}

/* ---- weights by length and direction ----------------------------------------------------------------------------------------- */

fac_status norm_except_dim_composite(const fac_call_info *c, fac_tensor *v, int64_t pow, int64_t dim,
                                     fac_tensor **out) {
    (void)c;
    int64_t others[FAC_MAX_DIMS], d;
    const fac_scalar ord = fac_scalar_i_(pow);
    if (dim == -1) return fac__c_linalg_vector_norm(v, ord, (fac_ints){0}, false, FAC_DTYPE_DEFAULT, out);
    FAC_TRY(fac__wrap_dim(dim, v->ndim, &d));
    size_t n = 0;
    for (int64_t i = 0; i < v->ndim; i++)
        if (i != d) others[n++] = i;
    if (n) return fac__c_linalg_vector_norm(v, ord, (fac_ints){others, n}, true, FAC_DTYPE_DEFAULT, out);
    FAC_SCOPE(s); /* each element is alone, and its norm its modulus */
    if (pow && !fac_dtype_is_integral((fac_dtype)v->dtype, true)) return fac__give(out, fac__s_abs(v));
    fac_tensor *alone = fac__s_unsqueeze(v, -1);
    return fac__give(out, fac__s_linalg_vector_norm(alone, ord, FAC_INTS(-1), false, FAC_DTYPE_DEFAULT));
}

fac_status _weight_norm_composite(const fac_call_info *c, fac_tensor *v, fac_tensor *g, int64_t dim, fac_tensor **out) {
    (void)c;
    FAC_SCOPE(s);
    return fac__give(out, mul(v, divide(g, fac__s_norm_except_dim(v, 2, dim))));
}

/* ---- sequences ------------------------------------------------------------------------------------------------------------------- */

/* Constant padding is given from the last dimension on: its last pair is the first dimension's. */
static fac_tensor *filled_up(fac_tensor *t, int64_t length, bool left, double value) {
    int64_t pad[2 * FAC_MAX_DIMS] = {0};
    pad[2 * (t->ndim - 1) + !left] = length - t->sizes[0];
    return fac__s_constant_pad_nd(t, (fac_ints){pad, 2 * (size_t)t->ndim}, fac_scalar_f_(value));
}

static fac_status check_sequences(fac_tensors l, int64_t *out_longest) {
    FAC_CHECK(l.n, FAC_ERR_ARGUMENT, "received an empty list of sequences");
    *out_longest = 0;
    for (size_t i = 0; i < l.n; i++) {
        const fac_tensor *t = l.v[i];
        FAC_CHECK(t->ndim, FAC_ERR_SHAPE, "a sequence has at least one dimension");
        FAC_CHECK(t->ndim == l.v[0]->ndim &&
                      (t->ndim == 1 || memcmp(t->sizes + 1, l.v[0]->sizes + 1, (t->ndim - 1u) * sizeof *t->sizes) == 0),
                  FAC_ERR_SHAPE, "sequences differ in length alone, but there are %s and %s", FAC_SHAPE_TEXT(l.v[0]),
                  FAC_SHAPE_TEXT(t));
        *out_longest = fac__max(*out_longest, t->sizes[0]);
    }
    return FAC_OK;
}

fac_status pad_sequence_composite(const fac_call_info *c, fac_tensors sequences, bool batch_first, double padding_value,
                                  const char *padding_side, fac_tensor **out) {
    (void)c;
    int64_t longest;
    const bool left = padding_side && strcmp(padding_side, "left") == 0;
    FAC_CHECK(left || (padding_side && strcmp(padding_side, "right") == 0), FAC_ERR_ARGUMENT,
              "Expected padding_side to be one of left or right, but got %s.", padding_side ? padding_side : "none");
    FAC_TRY(check_sequences(sequences, &longest));
    fac_tensor **room = fac__alloc_array(sequences.n, sizeof *room);
    if (!room) return fac_error();
    fac_status st;
    {
        FAC_SCOPE(s);
        for (size_t i = 0; i < sequences.n; i++) room[i] = filled_up(sequences.v[i], longest, left, padding_value);
        st = fac_error();
        if (st == FAC_OK) st = fac__give(out, fac__s_stack((fac_tensors){room, sequences.n}, batch_first ? 0 : 1));
    }
    fac__free(room);
    return st;
}

/* Whether they fit, and how many steps the result has. */
static fac_status check_tbc(const fac_tensor *input, const fac_tensor *weight, const fac_tensor *bias, int64_t pad,
                            int64_t *steps) {
    int64_t all;
    FAC_CHECK(input->ndim == 3, FAC_ERR_SHAPE, "Input must have 3 dims: time, batch, in_channel");
    FAC_CHECK(weight->ndim == 3, FAC_ERR_SHAPE,
              "Weight tensor must have 3 dims: kernel_width, in_channels, out_channels.");
    FAC_CHECK(bias->ndim == 1, FAC_ERR_SHAPE, "Bias must be 1-D");
    FAC_CHECK(input->sizes[2] == weight->sizes[1], FAC_ERR_SHAPE,
              "Input dim 2 (input channels) is not == dim 1 in the weight tensor");
    FAC_CHECK(bias->sizes[0] == weight->sizes[2], FAC_ERR_SHAPE,
              "Bias size must equal dim 2 in the weight tensor (output channels).");
    FAC_CHECK(fac__mul(pad, 2, &all) && fac__add(all, input->sizes[0], &all), FAC_ERR_OVERFLOW,
              "a padding of %lld is too large", (long long)pad);
    FAC_CHECK(weight->sizes[0] > 0 && all >= weight->sizes[0], FAC_ERR_SHAPE,
              "a kernel of %lld steps does not fit into %lld, padding included", (long long)weight->sizes[0],
              (long long)all);
    *steps = all - weight->sizes[0] + 1;
    return FAC_OK;
}

/* t without gaps, with `pad` steps of zeros around it, or without as many at its ends where pad is negative. */
static fac_tensor *padded(fac_tensor *t, int64_t pad) {
    if (pad) t = fac__s_constant_pad_nd(t, FAC_INTS(0, 0, 0, 0, pad, pad), fac_scalar_i_(0));
    return fac__s_contiguous(t, FAC_CONTIGUOUS);
}

/* A matrix of a row for each step and batch: the channels of `width` steps from there on. */
static fac_tensor *windows(fac_tensor *t, int64_t width) {
    return fac__s_flatten_using_ints(
        fac__s_flatten_using_ints(fac__s_transpose_int(fac__s_unfold(t, 0, width, 1), 2, 3), 2, 3), 0, 1);
}

/* Over `steps` of t: for each step of the kernel a product, which is added to those before. One for all where sums would be rounded
   to a half in between. `bias` may be NULL. */
static fac_tensor *convolved(fac_tensor *t, fac_tensor *weight, fac_tensor *bias, int64_t steps) {
    const int64_t width = weight->sizes[0], group = fac__is_half((fac_dtype)weight->dtype) ? width : 1;
    const fac_scalar one = fac_scalar_i_(1);
    fac_tensor *y = NULL;
    for (int64_t k = 0; k < width; k += group) {
        fac_tensor *x = windows(fac__s_narrow(t, 0, k, steps + group - 1), group);
        fac_tensor *w = fac__s_flatten_using_ints(fac__s_narrow(weight, 0, k, group), 0, 1);
        y = k ? fac__s_addmm_(y, x, w, one, one) : bias ? fac__s_addmm(bias, x, w, one, one) : fac__s_mm(x, w);
        if (!y) return NULL;
    }
    return fac__s_reshape(y, FAC_INTS(steps, t->sizes[1], weight->sizes[2]));
}

fac_status conv_tbc_composite(const fac_call_info *c, fac_tensor *self, fac_tensor *weight, fac_tensor *bias,
                              int64_t pad, fac_tensor **out) {
    (void)c;
    int64_t steps;
    FAC_TRY(check_tbc(self, weight, bias, pad, &steps));
    FAC_SCOPE(s);
    fac_tensor *t = padded(self, pad);
    return t ? fac__give(out, convolved(t, weight, bias, steps)) : fac_error();
}

/* For each step of the kernel the sum over all steps and batches. */
static fac_tensor *tbc_weight_grad(fac_tensor *grad, fac_tensor *t, int64_t width) {
    fac_tensor *rows = fac__s_flatten_using_ints(grad, 0, 1);
    fac_tensor *seen =
        fac__s_flatten_using_ints(fac__s_permute(fac__s_unfold(t, 0, width, 1), FAC_INTS(3, 2, 0, 1)), 2, 3);
    if (!rows) return NULL;
    return fac__s_bmm(seen, fac__s_expand(rows, FAC_INTS(width, rows->sizes[0], rows->sizes[1]), false));
}

/* The input's gradient is a convolution, too: of the result's, with the weights from last to first. */
fac_status conv_tbc_backward_composite(const fac_call_info *c, fac_tensor *self, fac_tensor *input, fac_tensor *weight,
                                       fac_tensor *bias, int64_t pad, fac_tensor **out) {
    (void)c;
    int64_t steps;
    FAC_TRY(check_tbc(input, weight, bias, pad, &steps));
    const int64_t width = weight->sizes[0], sizes[] = {steps, input->sizes[1], weight->sizes[2]};
    FAC_CHECK(self->ndim == 3 && memcmp(self->sizes, sizes, sizeof sizes) == 0, FAC_ERR_SHAPE,
              "the gradient of conv_tbc should have the sizes of its result, but has %s", FAC_SHAPE_TEXT(self));
    FAC_SCOPE(s);
    fac_tensor *around = padded(self, width - 1 - pad), *t = padded(input, pad);
    fac_tensor *back = fac__s_transpose_int(fac__s_flip(weight, FAC_INTS(0)), 1, 2);
    if (!around || !t || !back) return fac_error();
    return fac__give_three(out, convolved(around, back, NULL, input->sizes[0]), tbc_weight_grad(self, t, width),
                           fac__s_sum_dim_IntList(self, FAC_INTS(0, 1), false, FAC_DTYPE_DEFAULT));
}

/* ---- gradients by name ----------------------------------------------------------------------------------------------------------- */

/* Both halves of t along dim. */
static fac_status halves(fac_tensor *t, int64_t dim, fac_tensor *out[2]) {
    int64_t d;
    FAC_TRY(fac__check_halves(t, dim, &d));
    const int64_t n = t->sizes[d] / 2;
    out[0] = fac__s_narrow(t, d, 0, n);
    out[1] = fac__s_narrow(t, d, n, n);
    return out[1] ? FAC_OK : fac_error();
}

static fac_tensor *joined(fac_tensor *a, fac_tensor *b, int64_t dim) { return fac__s_cat(FAC_TENSORS(a, b), dim); }

static fac_tensor *one_less(fac_tensor *t) { return fac__s_rsub_Scalar(t, fac_scalar_i_(1), fac_scalar_i_(1)); }

/* With p = g s, the first half of grad_x, the second is q = p (1 - s) a; s changes by s (1 - s) db. */
fac_status glu_backward_jvp_composite(const fac_call_info *c, fac_tensor *grad_x, fac_tensor *grad_glu, fac_tensor *x,
                                      fac_tensor *dgrad_glu, fac_tensor *dx, int64_t dim, fac_tensor **out) {
    (void)c;
    FAC_SCOPE(s);
    fac_tensor *p[2], *v[2], *d[2];
    FAC_TRY(halves(grad_x, dim, p));
    FAC_TRY(halves(x, dim, v));
    FAC_TRY(halves(dx, dim, d));
    fac_tensor *sig = fac__s_sigmoid(v[1]), *rest = one_less(sig), *ds = mul(mul(sig, rest), d[1]);
    fac_tensor *dp = add(mul(dgrad_glu, sig), mul(grad_glu, ds));
    fac_tensor *dq = add(mul(mul(dp, rest), v[0]), mul(p[0], sub(mul(rest, d[0]), mul(ds, v[0]))));
    return fac__give(out, joined(dp, dq, dim));
}

fac_status log_sigmoid_forward_composite(const fac_call_info *c, fac_tensor *self, fac_tensor **out) {
    (void)c;
    FAC_SCOPE(s);
    return give_two(out, fac__s_log_sigmoid(self), fac__s_exp(fac__s_neg(fac__s_abs(self))));
}

fac_status soft_margin_loss_backward_composite(const fac_call_info *c, fac_tensor *grad_output, fac_tensor *self,
                                               fac_tensor *target, int64_t reduction, fac_tensor **out) {
    (void)c;
    FAC_CHECK(reduction >= 0 && reduction <= 2, FAC_ERR_ARGUMENT, "%lld is not a valid value for reduction",
              (long long)reduction);
    FAC_SCOPE(s);
    fac_tensor *against = fac__s_neg(target), *slope = mul(against, fac__s_sigmoid(mul(against, self)));
    fac_tensor *grad = mul(slope, grad_output);
    return fac__give(out, reduction == 1 && grad ? fac__s_div_Scalar(grad, fac_scalar_i_(self->numel)) : grad);
}

/* The upper right block of exp([[A, G], [0, A]]) with A = self's adjoint. Higham, Functions of Matrices (2008), theorem 3.6. */
fac_status matrix_exp_backward_composite(const fac_call_info *c, fac_tensor *self, fac_tensor *grad, fac_tensor **out) {
    (void)c;
    FAC_CHECK(self->ndim >= 2 && self->sizes[self->ndim - 1] == self->sizes[self->ndim - 2], FAC_ERR_SHAPE,
              "linalg.matrix_exp: A must be batches of square matrices, got %s", FAC_SHAPE_TEXT(self));
    FAC_CHECK(fac__same_sizes(self, grad), FAC_ERR_SHAPE, "the gradient has sizes %s, and self %s",
              FAC_SHAPE_TEXT(grad), FAC_SHAPE_TEXT(self));
    FAC_SCOPE(s);
    const int64_t n = self->sizes[self->ndim - 1];
    fac_tensor *a = fac__s_mH(self), *zeros = fac__s_zeros_like(a, FAC_DTYPE_DEFAULT, FAC_STRIDED, (fac_device){0},
                                                                (fac_opt_num){0}, FAC_FORMAT_DEFAULT);
    fac_tensor *both = fac__s_linalg_matrix_exp(joined(joined(a, grad, -1), joined(zeros, a, -1), -2));
    return fac__give(out, fac__s_narrow(fac__s_narrow(both, -2, 0, n), -1, n, n));
}
