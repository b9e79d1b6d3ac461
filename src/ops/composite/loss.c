/* Losses in terms of other operators. */
#include "ops/composite/brief.h"
#include <math.h>

enum { REDUCE_NONE, REDUCE_MEAN, REDUCE_SUM };

static fac_tensor *at_least(fac_tensor *a, double x) { return fac__s_clamp_min(a, fac_scalar_f_(x)); }

/* A composite's last line: the loss reduced as asked. */
static fac_status finish(fac_tensor *loss, int64_t reduction, fac_tensor **out) {
    FAC_CHECK(reduction >= REDUCE_NONE && reduction <= REDUCE_SUM, FAC_ERR_ARGUMENT,
              "%lld is not a valid value for reduction: 0 is none, 1 mean, 2 sum", (long long)reduction);
    if (reduction == REDUCE_MEAN) loss = fac__s_mean(loss, FAC_DTYPE_DEFAULT);
    if (reduction == REDUCE_SUM) loss = fac__s_sum(loss, FAC_DTYPE_DEFAULT);
    return fac__give(out, loss);
}

fac_status l1_loss_composite(const fac_call_info *c, fac_tensor *self, fac_tensor *target, int64_t reduction,
                             fac_tensor **out) {
    (void)c;
    FAC_SCOPE(scope);
    return finish(fac__s_abs(sub(self, target)), reduction, out);
}

/* (1 - t) x - (1 + (pos_weight - 1) t) log_sigmoid(x). */
fac_status binary_cross_entropy_with_logits_composite(const fac_call_info *c, fac_tensor *self, fac_tensor *target,
                                                      fac_tensor *weight, fac_tensor *pos_weight, int64_t reduction,
                                                      fac_tensor **out) {
    (void)c;
    FAC_SCOPE(scope);
    fac_tensor *positive = fac__s_log_sigmoid(self);
    if (pos_weight) positive = mul(positive, plus(mul(plus(pos_weight, -1), target), 1));
    fac_tensor *negative = mul(fac__s_rsub_Scalar(target, fac_scalar_i_(1), fac_scalar_i_(1)), self);
    fac_tensor *loss = sub(negative, positive);
    return finish(weight ? mul(loss, weight) : loss, reduction, out);
}

/* t log(t), 0 at 0. */
static fac_tensor *times_own_log(fac_tensor *t) {
    fac_tensor *safe = fac__s_masked_fill_Scalar(t, fac__s_logical_not(t), fac_scalar_i_(1));
    return mul(t, fac__s_log(safe));
}

fac_status kl_div_composite(const fac_call_info *c, fac_tensor *self, fac_tensor *target, int64_t reduction,
                            bool log_target, fac_tensor **out) {
    (void)c;
    FAC_SCOPE(scope);
    fac_tensor *loss =
        log_target ? mul(fac__s_exp(target), sub(target, self)) : sub(times_own_log(target), mul(target, self));
    return finish(loss, reduction, out);
}

/* ---- classes ------------------------------------------------------------------------------------------------------ */

static fac_status nll(bool planes, fac_tensor *self, fac_tensor *target, fac_tensor *weight, int64_t reduction,
                      int64_t ignore_index, fac_tensor **out) {
    fac_tensor *r[2];
    if (planes)
        FAC_TRY(fac__c_nll_loss2d_forward(self, target, weight, reduction, ignore_index, r));
    else
        FAC_TRY(fac__c_nll_loss_forward(self, target, weight, reduction, ignore_index, r));
    fac__unref(r[1]);
    *out = r[0];
    return FAC_OK;
}

fac_status nll_loss_composite(const fac_call_info *c, fac_tensor *self, fac_tensor *target, fac_tensor *weight,
                              int64_t reduction, int64_t ignore_index, fac_tensor **out) {
    (void)c;
    return nll(false, self, target, weight, reduction, ignore_index, out);
}

fac_status nll_loss2d_composite(const fac_call_info *c, fac_tensor *self, fac_tensor *target, fac_tensor *weight,
                                int64_t reduction, int64_t ignore_index, fac_tensor **out) {
    (void)c;
    return nll(true, self, target, weight, reduction, ignore_index, out);
}

/* Dimensions after the classes are laid out as one plane: [N, C, 1, rest] and [N, 1, rest]. */
fac_status nll_loss_nd_composite(const fac_call_info *c, fac_tensor *self, fac_tensor *target, fac_tensor *weight,
                                 int64_t reduction, int64_t ignore_index, fac_tensor **out) {
    (void)c;
    FAC_CHECK(self->ndim >= 1, FAC_ERR_SHAPE, "Expected 1 or more dimensions (got %d)", self->ndim);
    if (self->ndim <= 2) return nll(false, self, target, weight, reduction, ignore_index, out);
    if (self->ndim == 4) return nll(true, self, target, weight, reduction, ignore_index, out);
    bool fits = target->ndim == self->ndim - 1 && target->sizes[0] == self->sizes[0];
    for (int d = 1; fits && d < target->ndim; d++) fits = target->sizes[d] == self->sizes[d + 1];
    FAC_CHECK(fits, FAC_ERR_SHAPE, "Expected target of the input's size %s without the classes, got %s",
              FAC_SHAPE_TEXT(self), FAC_SHAPE_TEXT(target));
    FAC_SCOPE(scope);
    int64_t n = self->sizes[0], classes = self->sizes[1], rest = target->numel / fac__max(1, n);
    fac_tensor *x = fac__s_reshape(self, FAC_INTS(n, classes, 1, rest)),
               *t = fac__s_reshape(target, FAC_INTS(n, 1, rest));
    if (!x || !t) return fac_error();
    fac_tensor *loss;
    FAC_TRY(nll(true, x, t, weight, reduction, ignore_index, &loss));
    loss = fac__adopt(fac__thread(), loss);
    return fac__give(out, reduction == REDUCE_NONE ? fac__s_view(loss, fac__sizes_now(target)) : loss);
}

/* A weight per class, laid out so that it multiplies [N, C, *] (or [C]). */
static fac_tensor *class_weights(fac_tensor *weight, const fac_tensor *self, int64_t dim) {
    int64_t sizes[FAC_MAX_DIMS];
    if (!weight) return NULL;
    for (int d = 0; d < self->ndim; d++) sizes[d] = d == dim ? weight->numel : 1;
    return fac__s_view(weight, (fac_ints){sizes, (size_t)self->ndim});
}

/* Minus the sum over classes of target * log-probability. A mean is over samples, not elements. */
static fac_status with_probabilities(fac_tensor *self, fac_tensor *target, fac_tensor *weight, int64_t reduction,
                                     double smoothing, fac_tensor **out) {
    int64_t dim = self->ndim == 1 ? 0 : 1, classes = self->sizes[dim];
    FAC_CHECK(fac_dtype_is_floating((fac_dtype)target->dtype), FAC_ERR_DTYPE,
              "Expected floating point type for target with class probabilities, got %s",
              fac_dtype_name((fac_dtype)target->dtype));
    FAC_CHECK(
        !weight || (weight->ndim == 1 && weight->numel == classes), FAC_ERR_SHAPE,
        "weight tensor should be defined either for all %lld classes or no classes but got weight tensor of shape: %s",
        (long long)classes, FAC_SHAPE_TEXT(weight));
    if (smoothing > 0) target = plus(scaled(target, 1 - smoothing), smoothing / (double)classes);
    fac_tensor *terms = mul(fac__s_log_softmax_int(self, dim, FAC_DTYPE_DEFAULT), target);
    if (weight) terms = mul(terms, class_weights(weight, self, dim));
    if (reduction == REDUCE_NONE) return fac__give(out, fac__s_neg(sum_along(terms, dim, false)));
    fac_tensor *loss = fac__s_neg(fac__s_sum(terms, FAC_DTYPE_DEFAULT));
    if (reduction == REDUCE_MEAN) loss = scaled(loss, 1.0 / ((double)self->numel / (double)classes));
    return fac__give(out, loss);
}

/* Sum of the weights of the targets that count. */
static fac_tensor *weight_in_use(fac_tensor *weight, fac_tensor *target, fac_tensor *ignored) {
    if (!weight) return fac__s_sum(fac__s_logical_not(ignored), FAC_DTYPE_DEFAULT);
    fac_tensor *safe = fac__s_masked_fill_Scalar(target, ignored, fac_scalar_i_(0));
    fac_tensor *each = fac__s_index_select(weight, 0, fac__s_reshape(safe, FAC_INTS(-1)));
    fac_tensor *mask = fac__s_reshape(ignored, FAC_INTS(-1));
    return fac__s_sum(fac__s_masked_fill_Scalar(each, mask, fac_scalar_i_(0)), FAC_DTYPE_DEFAULT);
}

/* (1 - smoothing) nll + smoothing / C * the loss against equal probabilities. */
static fac_status with_smoothing(fac_tensor *self, fac_tensor *target, fac_tensor *weight, int64_t reduction,
                                 int64_t ignore_index, double smoothing, fac_tensor **out) {
    int64_t dim = self->ndim == 1 ? 0 : 1, classes = self->sizes[dim];
    fac_tensor *logp = fac__s_log_softmax_int(self, dim, FAC_DTYPE_DEFAULT);
    fac_tensor *loss = fac__s_nll_loss_nd(logp, target, weight, reduction, ignore_index);
    fac_tensor *uniform =
        fac__s_neg(sum_along(weight ? mul(logp, class_weights(weight, self, dim)) : logp, dim, false));
    fac_tensor *ignored = fac__s_eq_Scalar(target, fac_scalar_i_(ignore_index));
    uniform = fac__s_masked_fill_Scalar(uniform, ignored, fac_scalar_i_(0));
    if (reduction != REDUCE_NONE) uniform = fac__s_sum(uniform, FAC_DTYPE_DEFAULT);
    if (reduction == REDUCE_MEAN) uniform = fac__s_div_Tensor(uniform, weight_in_use(weight, target, ignored));
    return fac__give(out, add(scaled(loss, 1 - smoothing), scaled(uniform, smoothing / (double)classes)));
}

fac_status cross_entropy_loss_composite(const fac_call_info *c, fac_tensor *self, fac_tensor *target,
                                        fac_tensor *weight, int64_t reduction, int64_t ignore_index,
                                        double label_smoothing, fac_tensor **out) {
    (void)c;
    FAC_CHECK(label_smoothing >= 0 && label_smoothing <= 1, FAC_ERR_ARGUMENT,
              "label_smoothing must be between 0.0 and 1.0. Got: %g", label_smoothing);
    FAC_CHECK(self->ndim >= 1, FAC_ERR_SHAPE, "Expected 1 or more dimensions (got %d)", self->ndim);
    FAC_SCOPE(scope);
    if (fac__same_sizes(self, target)) {
        FAC_CHECK(ignore_index < 0, FAC_ERR_ARGUMENT, "ignore_index is not supported for floating point target");
        return with_probabilities(self, target, weight, reduction, label_smoothing, out);
    }
    if (label_smoothing > 0) return with_smoothing(self, target, weight, reduction, ignore_index, label_smoothing, out);
    if (self->ndim == 2 && fac__has_kernel(&fac_op__cross_entropy, self)) {
        fac_tensor *r[3];
        FAC_TRY(fac__c__cross_entropy(self, target, weight, reduction, ignore_index, r));
        fac__unref(r[1]);
        fac__unref(r[2]);
        *out = r[0];
        return FAC_OK;
    }
    fac_tensor *logp = fac__s_log_softmax_int(self, self->ndim == 1 ? 0 : 1, FAC_DTYPE_DEFAULT);
    return fac__give(out, fac__s_nll_loss_nd(logp, target, weight, reduction, ignore_index));
}

/* ---- margins ------------------------------------------------------------------------------------------------------- */

/* a where the target is 1, b where it is -1, 0 elsewhere. */
static fac_tensor *by_sign(fac_tensor *target, fac_tensor *a, fac_tensor *b) {
    fac_tensor *rest = fac__s_where_ScalarOther(fac__s_eq_Scalar(target, fac_scalar_i_(-1)), b, fac_scalar_i_(0));
    return fac__s_where_self(fac__s_eq_Scalar(target, fac_scalar_i_(1)), a, rest);
}

/* PyTorch's definition keeps an element whose target is neither 1 nor -1 in both parts. */
static fac_tensor *unless(fac_tensor *target, int64_t value, fac_tensor *a) {
    return fac__s_masked_fill_Scalar(a, fac__s_eq_Scalar(target, fac_scalar_i_(value)), fac_scalar_i_(0));
}

fac_status hinge_embedding_loss_composite(const fac_call_info *c, fac_tensor *self, fac_tensor *target, double margin,
                                          int64_t reduction, fac_tensor **out) {
    (void)c;
    FAC_SCOPE(scope);
    fac_tensor *hinge = at_least(fac__s_rsub_Scalar(self, fac_scalar_f_(margin), fac_scalar_i_(1)), 0);
    return finish(add(unless(target, 1, hinge), unless(target, -1, self)), reduction, out);
}

fac_status margin_ranking_loss_composite(const fac_call_info *c, fac_tensor *input1, fac_tensor *input2,
                                         fac_tensor *target, double margin, int64_t reduction, fac_tensor **out) {
    (void)c;
    FAC_SCOPE(scope);
    fac_tensor *behind =
        mul(target, sub(input2, input1)); /* wraps for integers, as PyTorch's does, before the margin is added */
    return finish(at_least(fac__s_add_Scalar(behind, fac_scalar_f_(margin), fac_scalar_i_(1)), 0), reduction, out);
}

fac_status soft_margin_loss_composite(const fac_call_info *c, fac_tensor *self, fac_tensor *target, int64_t reduction,
                                      fac_tensor **out) {
    (void)c;
    FAC_SCOPE(scope);
    return finish(fac__s_neg(fac__s_log_sigmoid(mul(target, self))), reduction, out);
}

/* t log t - t + log(2 pi t) / 2 where t > 1. */
static fac_tensor *stirling(fac_tensor *target) {
    fac_tensor *log_t = fac__s_log(target);
    fac_tensor *s =
        add(sub(mul(target, log_t), target), plus(scaled(log_t, 0.5), 0.5 * log(2 * 3.14159265358979323846)));
    return fac__s_masked_fill_Scalar(s, fac__s_le_Scalar(target, fac_scalar_i_(1)), fac_scalar_i_(0));
}

fac_status poisson_nll_loss_composite(const fac_call_info *c, fac_tensor *input, fac_tensor *target, bool log_input,
                                      bool full, double eps, int64_t reduction, fac_tensor **out) {
    (void)c;
    FAC_SCOPE(scope);
    fac_tensor *loss =
        log_input ? sub(fac__s_exp(input), mul(target, input)) : sub(input, mul(target, fac__s_log(plus(input, eps))));
    if (full) loss = add(loss, stirling(target));
    return finish(loss, reduction, out);
}

/* ---- cosines ------------------------------------------------------------------------------------------------------- */

/* x over its norm, or over eps where that is more; the gradient is that of the norm in either case, as in PyTorch. */
static fac_tensor *unit(fac_tensor *x, int64_t dim, double eps) {
    fac_tensor *norm = fac__s_linalg_vector_norm(x, fac_scalar_i_(2), (fac_ints){&dim, 1}, true, FAC_DTYPE_DEFAULT);
    fac_tensor *missing = sub(at_least(fac__s_detach(norm), eps), fac__s_detach(norm));
    return fac__s_div_Tensor(x, add(norm, missing));
}

fac_status cosine_similarity_composite(const fac_call_info *c, fac_tensor *x1, fac_tensor *x2, int64_t dim, double eps,
                                       fac_tensor **out) {
    (void)c;
    FAC_CHECK(eps >= 0, FAC_ERR_ARGUMENT, "eps must be non-negative, got: %g", eps);
    FAC_TRY(fac__check_same_device((const char *const[]){"x1", "x2"}, (fac_tensor *const[]){x1, x2}, 2));
    FAC_SCOPE(scope);
    fac_tensors both = fac__s_broadcast_tensors((fac_tensors){(fac_tensor *[]){x1, x2}, 2});
    if (both.n != 2) return fac_error();
    fac_tensor *product = mul(unit(both.v[0], dim, eps), unit(both.v[1], dim, eps));
    return fac__give(out, sum_along(product, dim, false));
}

/* 1e-12 is inside the root, as PyTorch has it. */
fac_status cosine_embedding_loss_composite(const fac_call_info *c, fac_tensor *input1, fac_tensor *input2,
                                           fac_tensor *target, double margin, int64_t reduction, fac_tensor **out) {
    (void)c;
    FAC_CHECK(target->ndim <= 1 && input1->ndim == target->ndim + 1 && input2->ndim == input1->ndim, FAC_ERR_SHAPE,
              "expected inputs [N, D] and target [N], or inputs [D] and a 0-dim target; got %s, %s and %s",
              FAC_SHAPE_TEXT(input1), FAC_SHAPE_TEXT(input2), FAC_SHAPE_TEXT(target));
    FAC_SCOPE(scope);
    int64_t dim = target->ndim;
    fac_tensor *dot = sum_along(mul(input1, input2), dim, false);
    fac_tensor *a = plus(sum_along(mul(input1, input1), dim, false), 1e-12),
               *b = plus(sum_along(mul(input2, input2), dim, false), 1e-12);
    fac_tensor *cosine = fac__s_div_Tensor(dot, fac__s_sqrt(mul(a, b)));
    fac_tensor *apart = at_least(plus(cosine, -margin), 0);
    fac_tensor *together = fac__s_rsub_Scalar(cosine, fac_scalar_i_(1), fac_scalar_i_(1));
    return finish(by_sign(target, together, apart), reduction, out);
}
