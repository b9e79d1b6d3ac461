/* Shapes and dtypes of losses over alignments and over sets of classes. */
#include "ops/meta/check.h"
#include "ops_gen.h"

enum { REDUCE_NONE, REDUCE_MEAN, REDUCE_SUM };

static fac_dtype dtype_of(const fac_tensor *t) { return (fac_dtype)t->dtype; }

/* ---- connectionist temporal classification ---------------------------------------------------------------------------- */

static fac_status check_ctc(const fac_tensor *log_probs, const fac_tensor *targets, int64_t blank) {
    FAC_CHECK(log_probs->ndim == 3, FAC_ERR_SHAPE, "log_probs must be [T, N, C], got %s", FAC_SHAPE_TEXT(log_probs));
    FAC_CHECK(log_probs->dtype == FAC_F32 || log_probs->dtype == FAC_F64, FAC_ERR_DTYPE,
              "not implemented for '%s': log_probs must be float32 or float64", fac_dtype_name(dtype_of(log_probs)));
    FAC_CHECK(targets->dtype == FAC_I64 || targets->dtype == FAC_I32, FAC_ERR_DTYPE,
              "targets must be int32 or int64, got %s", fac_dtype_name(dtype_of(targets)));
    FAC_CHECK(targets->ndim == 1 || targets->ndim == 2, FAC_ERR_SHAPE,
              "targets must be [N, S] or one behind the other, got %s", FAC_SHAPE_TEXT(targets));
    FAC_CHECK(targets->ndim == 1 || targets->sizes[0] == log_probs->sizes[1], FAC_ERR_SHAPE,
              "targets must have a row for each of %lld sequences, got %s", (long long)log_probs->sizes[1],
              FAC_SHAPE_TEXT(targets));
    FAC_CHECK(blank >= 0 && blank < log_probs->sizes[2], FAC_ERR_ARGUMENT, "blank must be in label range");
    return FAC_OK;
}

/* The lengths are those of what there is; *longest is that of a target. */
static fac_status check_lengths(const fac_tensor *log_probs, const fac_tensor *targets, fac_ints input_lengths,
                                fac_ints target_lengths, int64_t *longest) {
    const int64_t steps = log_probs->sizes[0], n = log_probs->sizes[1];
    int64_t total = 0;
    *longest = 0;
    FAC_CHECK(input_lengths.n == (size_t)n, FAC_ERR_ARGUMENT, "input_lengths must be of size batch_size");
    FAC_CHECK(target_lengths.n == (size_t)n, FAC_ERR_ARGUMENT, "target_lengths must be of size batch_size");
    for (int64_t i = 0; i < n; i++) {
        const int64_t length = target_lengths.v[i];
        FAC_CHECK(input_lengths.v[i] >= 0 && input_lengths.v[i] <= steps, FAC_ERR_ARGUMENT,
                  "Expected input_lengths to have value at most %lld, but got value %lld", (long long)steps,
                  (long long)input_lengths.v[i]);
        const int64_t room = targets->ndim == 2 ? targets->sizes[1] : targets->numel - total;
        FAC_CHECK(length >= 0 && length <= room, FAC_ERR_ARGUMENT,
                  "target_lengths[%lld] is %lld, but targets of size %s have %lld elements there", (long long)i,
                  (long long)length, FAC_SHAPE_TEXT(targets), (long long)room);
        total += length;
        *longest = fac__max(*longest, length);
    }
    FAC_CHECK(targets->ndim == 2 || total == targets->numel, FAC_ERR_ARGUMENT,
              "target_lengths add up to %lld, but there are %lld targets", (long long)total, (long long)targets->numel);
    return FAC_OK;
}

fac_status _ctc_loss_meta(fac_structured *s, fac_tensor *log_probs, fac_tensor *targets, fac_ints input_lengths,
                          fac_ints target_lengths, int64_t blank, bool zero_infinity) {
    (void)zero_infinity;
    int64_t longest, n;
    FAC_TRY(check_ctc(log_probs, targets, blank));
    FAC_TRY(check_lengths(log_probs, targets, input_lengths, target_lengths, &longest));
    n = log_probs->sizes[1];
    FAC_TRY(fac_out_declare(s, 0, &n, NULL, 1, dtype_of(log_probs), log_probs->device));
    return fac_out_declare(s, 1, (int64_t[]){n, log_probs->sizes[0], 2 * longest + 1}, NULL, 3, dtype_of(log_probs),
                           log_probs->device);
}

fac_status _ctc_loss_backward_meta(fac_structured *s, fac_tensor *grad, fac_tensor *log_probs, fac_tensor *targets,
                                   fac_ints input_lengths, fac_ints target_lengths, fac_tensor *neg_log_likelihood,
                                   fac_tensor *log_alpha, int64_t blank, bool zero_infinity) {
    (void)zero_infinity;
    int64_t longest;
    FAC_TRY(check_ctc(log_probs, targets, blank));
    FAC_TRY(check_lengths(log_probs, targets, input_lengths, target_lengths, &longest));
    const int64_t n = log_probs->sizes[1];
    FAC_TRY(fac__need_sizes("grad", grad, &n, 1));
    FAC_TRY(fac__need_sizes("neg_log_likelihood", neg_log_likelihood, &n, 1));
    FAC_TRY(fac__need_sizes("log_alpha", log_alpha, (int64_t[]){n, log_probs->sizes[0], 2 * longest + 1}, 3));
    FAC_TRY(fac__need_dtype("grad", grad, dtype_of(log_probs)));
    FAC_TRY(fac__need_dtype("neg_log_likelihood", neg_log_likelihood, dtype_of(log_probs)));
    FAC_TRY(fac__need_dtype("log_alpha", log_alpha, dtype_of(log_probs)));
    return fac_out_declare(s, 0, log_probs->sizes, NULL, 3, dtype_of(log_probs), log_probs->device);
}

/* ---- margins --------------------------------------------------------------------------------------------------------- */

static fac_status check_reduction(int64_t reduction) {
    FAC_CHECK(reduction >= REDUCE_NONE && reduction <= REDUCE_SUM, FAC_ERR_ARGUMENT,
              "%lld is not a valid value for reduction: 0 is none, 1 mean, 2 sum", (long long)reduction);
    return FAC_OK;
}

static int64_t classes_of(const fac_tensor *self) { return self->ndim ? self->sizes[self->ndim - 1] : 1; }

/* Rows of classes: [N, C], or [C] for one, which may be a number. */
static fac_status check_rows(const fac_tensor *self, const fac_tensor *target) {
    FAC_TRY(fac__need_floating("self", self));
    FAC_TRY(fac__need_dtype("target", target, FAC_I64));
    FAC_CHECK(self->ndim <= 2 && classes_of(self) > 0, FAC_ERR_SHAPE,
              "Expected non-empty vector or matrix with optional 0-dim batch size, but got: %s", FAC_SHAPE_TEXT(self));
    return FAC_OK;
}

static fac_status check_multi_margin(const fac_tensor *self, const fac_tensor *target, fac_scalar p, fac_scalar margin,
                                     const fac_tensor *weight, int64_t reduction) {
    const double power = fac__scalar_f64(p);
    FAC_TRY(fac__check_number(FAC_F64, p));
    FAC_CHECK(power == 1 || power == 2, FAC_ERR_ARGUMENT, "only p == 1 and p == 2 supported, got %g", power);
    FAC_TRY(check_reduction(reduction));
    FAC_TRY(check_rows(self, target));
    FAC_TRY(fac__check_factor(dtype_of(self), margin));
    const bool each = self->ndim == 2;
    FAC_CHECK(each ? target->ndim == 1 && target->numel == self->sizes[0] : target->ndim <= 1 && target->numel == 1,
              FAC_ERR_SHAPE, "inconsistent target size, expected %lld but got %s",
              (long long)(each ? self->sizes[0] : 1), FAC_SHAPE_TEXT(target));
    const int64_t classes = classes_of(self);
    FAC_TRY(fac__need_sizes("weight", weight, &classes, 1));
    return fac__need_dtype("weight", weight, dtype_of(self));
}

/* The losses of each row, or one number. */
static fac_status declare_loss(fac_structured *s, const fac_tensor *self, int64_t reduction) {
    const bool each = reduction == REDUCE_NONE && self->ndim == 2;
    return fac_out_declare(s, 0, self->sizes, NULL, each ? 1 : 0, dtype_of(self), self->device);
}

static fac_status check_loss_grad(const fac_tensor *grad_output, const fac_tensor *self, int64_t reduction) {
    const bool each = reduction == REDUCE_NONE && self->ndim == 2;
    FAC_CHECK(each ? grad_output->ndim == 1 && grad_output->numel == self->sizes[0] : grad_output->numel == 1,
              FAC_ERR_SHAPE, "grad_output %s does not have the sizes of the loss", FAC_SHAPE_TEXT(grad_output));
    return fac__need_dtype("grad_output", grad_output, dtype_of(self));
}

static fac_status declare_like(fac_structured *s, int i, const fac_tensor *t) {
    return fac_out_declare(s, i, t->sizes, NULL, t->ndim, dtype_of(t), t->device);
}

fac_status multi_margin_loss_meta(fac_structured *s, fac_tensor *self, fac_tensor *target, fac_scalar p,
                                  fac_scalar margin, fac_tensor *weight, int64_t reduction) {
    FAC_TRY(check_multi_margin(self, target, p, margin, weight, reduction));
    return declare_loss(s, self, reduction);
}

fac_status multi_margin_loss_backward_meta(fac_structured *s, fac_tensor *grad_output, fac_tensor *self,
                                           fac_tensor *target, fac_scalar p, fac_scalar margin, fac_tensor *weight,
                                           int64_t reduction) {
    FAC_TRY(check_multi_margin(self, target, p, margin, weight, reduction));
    FAC_TRY(check_loss_grad(grad_output, self, reduction));
    return declare_like(s, 0, self);
}

static fac_status check_multilabel(const fac_tensor *self, const fac_tensor *target, int64_t reduction) {
    FAC_TRY(check_reduction(reduction));
    FAC_TRY(check_rows(self, target));
    FAC_CHECK(fac__same_sizes(self, target), FAC_ERR_SHAPE, "inconsistent target size: %s for input of size: %s",
              FAC_SHAPE_TEXT(target), FAC_SHAPE_TEXT(self));
    return FAC_OK;
}

fac_status multilabel_margin_loss_forward_meta(fac_structured *s, fac_tensor *self, fac_tensor *target,
                                               int64_t reduction) {
    FAC_TRY(check_multilabel(self, target, reduction));
    FAC_TRY(declare_loss(s, self, reduction));
    return declare_like(s, 1, self);
}

fac_status multilabel_margin_loss_backward_meta(fac_structured *s, fac_tensor *grad_output, fac_tensor *self,
                                                fac_tensor *target, int64_t reduction, fac_tensor *is_target) {
    FAC_TRY(check_multilabel(self, target, reduction));
    FAC_TRY(check_loss_grad(grad_output, self, reduction));
    FAC_TRY(fac__need_sizes("is_target", is_target, self->sizes, self->ndim));
    FAC_TRY(fac__need_dtype("is_target", is_target, dtype_of(self)));
    return declare_like(s, 0, self);
}
