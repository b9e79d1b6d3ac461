/* Shapes and dtypes of losses. */
#include "ops/meta/check.h"
#include "ops_gen.h"
#include <stdatomic.h>

enum { REDUCE_NONE, REDUCE_MEAN, REDUCE_SUM };

static fac_dtype dtype_of(const fac_tensor *t) { return (fac_dtype)t->dtype; }

static fac_status check_reduction(int64_t reduction) {
    FAC_CHECK(reduction >= REDUCE_NONE && reduction <= REDUCE_SUM, FAC_ERR_ARGUMENT,
              "%lld is not a valid value for reduction: 0 is none, 1 mean, 2 sum", (long long)reduction);
    return FAC_OK;
}

/* ---- element by element -------------------------------------------------------------------------------------------- */

/* The common shape and dtype of the operands (weight may be NULL). */
static fac_status common(const fac_tensor *self, const fac_tensor *target, const fac_tensor *weight, int64_t *sizes,
                         int *ndim, fac_dtype *dtype) {
    fac_promotion p = {0};
    fac__promote_tensor(&p, self);
    fac__promote_tensor(&p, target);
    *dtype = fac__promote_result(&p);
    FAC_CHECK(fac_dtype_is_floating(*dtype), FAC_ERR_DTYPE,
              "not implemented for '%s'; self and target must be floating", fac_dtype_name(*dtype));
    FAC_TRY(fac__broadcast(self->sizes, self->ndim, target->sizes, target->ndim, sizes, ndim));
    if (!weight) return FAC_OK;
    FAC_TRY(fac__need_floating("weight", weight));
    int64_t so_far[FAC_MAX_DIMS];
    memcpy(so_far, sizes, (size_t)*ndim * sizeof *sizes);
    return fac__broadcast(so_far, *ndim, weight->sizes, weight->ndim, sizes, ndim);
}

fac_status weighted_pair_loss_meta(fac_structured *s, fac_tensor *self, fac_tensor *target, fac_tensor *weight,
                                   int64_t reduction) {
    int64_t sizes[FAC_MAX_DIMS];
    int ndim;
    fac_dtype dtype;
    FAC_TRY(check_reduction(reduction));
    FAC_TRY(common(self, target, weight, sizes, &ndim, &dtype));
    return fac_out_declare(s, 0, sizes, NULL, reduction == REDUCE_NONE ? ndim : 0, dtype, self->device);
}

/* As torch.nn.functional does: mostly a squeeze was forgotten. Once in a process, since losses are computed in loops. */
static void warn_of_broadcast(const fac_tensor *self, const fac_tensor *target) {
    static atomic_flag said = ATOMIC_FLAG_INIT;
    if (fac__same_sizes(self, target) || atomic_flag_test_and_set(&said)) return;
    fac__warn(
        "a loss broadcasts input %s and target %s against each other: give both the same size if that is not meant",
        FAC_SHAPE_TEXT(self), FAC_SHAPE_TEXT(target));
}

fac_status pair_loss_meta(fac_structured *s, fac_tensor *self, fac_tensor *target, int64_t reduction) {
    FAC_TRY(weighted_pair_loss_meta(s, self, target, NULL, reduction));
    warn_of_broadcast(self, target);
    return FAC_OK;
}

fac_status huber_loss_meta(fac_structured *s, fac_tensor *self, fac_tensor *target, int64_t reduction, double delta) {
    FAC_CHECK(delta > 0, FAC_ERR_ARGUMENT, "huber_loss does not support non-positive values for delta, got %g", delta);
    return pair_loss_meta(s, self, target, reduction);
}

fac_status scaled_pair_loss_meta(fac_structured *s, fac_tensor *self, fac_tensor *target, int64_t reduction,
                                 double scale) {
    FAC_CHECK(scale >= 0, FAC_ERR_ARGUMENT, "the loss does not support negative values for beta, got %g", scale);
    return pair_loss_meta(s, self, target, reduction);
}

fac_status weighted_pair_loss_backward_meta(fac_structured *s, fac_tensor *grad_output, fac_tensor *self,
                                            fac_tensor *target, fac_tensor *weight, int64_t reduction) {
    int64_t sizes[FAC_MAX_DIMS], full[FAC_MAX_DIMS];
    int ndim, full_ndim;
    fac_dtype dtype;
    FAC_TRY(check_reduction(reduction));
    FAC_TRY(common(self, target, weight, sizes, &ndim, &dtype));
    FAC_TRY(fac__need_floating("grad_output", grad_output));
    FAC_TRY(fac__broadcast(sizes, ndim, grad_output->sizes, grad_output->ndim, full, &full_ndim));
    FAC_CHECK(full_ndim == ndim && memcmp(full, sizes, (size_t)ndim * sizeof *sizes) == 0, FAC_ERR_SHAPE,
              "grad_output %s is larger than the loss", FAC_SHAPE_TEXT(grad_output));
    return fac_out_declare(s, 0, sizes, NULL, ndim, dtype, self->device);
}

fac_status pair_loss_backward_meta(fac_structured *s, fac_tensor *grad_output, fac_tensor *self, fac_tensor *target,
                                   int64_t reduction) {
    return weighted_pair_loss_backward_meta(s, grad_output, self, target, NULL, reduction);
}

fac_status scaled_pair_loss_backward_meta(fac_structured *s, fac_tensor *grad_output, fac_tensor *self,
                                          fac_tensor *target, int64_t reduction, double scale) {
    FAC_CHECK(scale >= 0, FAC_ERR_ARGUMENT, "the loss does not support a negative beta or delta, got %g", scale);
    return weighted_pair_loss_backward_meta(s, grad_output, self, target, NULL, reduction);
}

/* ---- classes -------------------------------------------------------------------------------------------------------- */

static fac_status check_classes(const fac_tensor *self, const fac_tensor *target, const fac_tensor *weight,
                                int64_t classes) {
    FAC_CHECK(fac_dtype_is_floating(dtype_of(self)), FAC_ERR_DTYPE,
              "not implemented for '%s'; the input must be floating", fac_dtype_name(dtype_of(self)));
    FAC_CHECK(target->dtype == FAC_I64 || target->dtype == FAC_U8, FAC_ERR_DTYPE,
              "expected classes of type int64, but got %s: fac_to_dtype(target, FAC_I64) makes them so",
              fac_dtype_name(dtype_of(target)));
    FAC_CHECK(
        !weight || (weight->ndim == 1 && weight->numel == classes), FAC_ERR_SHAPE,
        "weight tensor should be defined either for all %lld classes or no classes but got weight tensor of shape: %s",
        (long long)classes, FAC_SHAPE_TEXT(weight));
    FAC_CHECK(!weight || weight->dtype == self->dtype, FAC_ERR_DTYPE, "expected scalar type %s but found %s for weight",
              fac_dtype_name(dtype_of(self)), fac_dtype_name(dtype_of(weight)));
    return FAC_OK;
}

static fac_status check_nll(const fac_tensor *self, const fac_tensor *target, const fac_tensor *weight,
                            int64_t reduction) {
    FAC_TRY(check_reduction(reduction));
    FAC_CHECK(self->ndim == 1 || self->ndim == 2, FAC_ERR_SHAPE, "input tensor should be 1D or 2D, got %s",
              FAC_SHAPE_TEXT(self));
    FAC_CHECK(target->ndim <= 1, FAC_ERR_SHAPE, "0D or 1D target tensor expected, multi-target not supported");
    FAC_CHECK(self->ndim == 2 || target->numel == 1, FAC_ERR_SHAPE,
              "For 1D input, 1D target must have size 1, but got target size: %lld", (long long)target->numel);
    bool fits = self->ndim == 1 || (target->ndim == 1 && self->sizes[0] == target->sizes[0]);
    FAC_CHECK(fits, FAC_ERR_SHAPE, "size mismatch (got input: %s, target: %s)", FAC_SHAPE_TEXT(self),
              FAC_SHAPE_TEXT(target));
    return check_classes(self, target, weight, self->sizes[self->ndim - 1]);
}

static fac_status check_nll2d(const fac_tensor *self, const fac_tensor *target, const fac_tensor *weight,
                              int64_t reduction) {
    FAC_TRY(check_reduction(reduction));
    FAC_CHECK(target->ndim == 3, FAC_ERR_SHAPE,
              "only batches of spatial targets supported (3D tensors) but got targets of dimension: %d", target->ndim);
    FAC_CHECK(self->ndim == 4, FAC_ERR_SHAPE,
              "only batches of spatial inputs supported (4D tensors), but got input of dimension: %d", self->ndim);
    FAC_CHECK(self->sizes[0] == target->sizes[0] && self->sizes[2] == target->sizes[1] &&
                  self->sizes[3] == target->sizes[2],
              FAC_ERR_SHAPE, "size mismatch (got input: %s , target: %s", FAC_SHAPE_TEXT(self), FAC_SHAPE_TEXT(target));
    return check_classes(self, target, weight, self->sizes[1]);
}

static fac_status declare_losses(fac_structured *s, const fac_tensor *self, const fac_tensor *target,
                                 int64_t reduction) {
    int ndim = reduction == REDUCE_NONE && self->ndim > 1 ? target->ndim : 0;
    FAC_TRY(fac_out_declare(s, 0, target->sizes, NULL, ndim, dtype_of(self), self->device));
    return fac_out_declare(s, s->n_out - 1, NULL, NULL, 0, fac__statistic_dtype(self), self->device);
}

fac_status nll_loss_forward_meta(fac_structured *s, fac_tensor *self, fac_tensor *target, fac_tensor *weight,
                                 int64_t reduction, int64_t ignore_index) {
    (void)ignore_index;
    FAC_TRY(check_nll(self, target, weight, reduction));
    return declare_losses(s, self, target, reduction);
}

fac_status nll_loss2d_forward_meta(fac_structured *s, fac_tensor *self, fac_tensor *target, fac_tensor *weight,
                                   int64_t reduction, int64_t ignore_index) {
    (void)ignore_index;
    FAC_TRY(check_nll2d(self, target, weight, reduction));
    return declare_losses(s, self, target, reduction);
}

/* The gradient has one element, or one per target. */
static fac_status check_loss_grad(const fac_tensor *grad_output, const fac_tensor *self, const fac_tensor *target,
                                  int64_t reduction) {
    bool each = reduction == REDUCE_NONE && self->ndim > 1;
    FAC_CHECK(each ? fac__same_sizes(grad_output, target) : grad_output->numel == 1, FAC_ERR_SHAPE,
              "grad_output %s does not have the sizes of the loss", FAC_SHAPE_TEXT(grad_output));
    return fac__need_dtype("grad_output", grad_output, dtype_of(self));
}

/* The sum of the weights that the forward operator saved. */
static fac_status check_total(const fac_tensor *total_weight, const fac_tensor *self) {
    FAC_TRY(fac__need_one("total_weight", total_weight));
    return fac__need_dtype("total_weight", total_weight, fac__statistic_dtype(self));
}

static fac_status declare_like_input(fac_structured *s, const fac_tensor *self) {
    return fac_out_declare(s, 0, self->sizes, NULL, self->ndim, dtype_of(self), self->device);
}

fac_status nll_loss_backward_meta(fac_structured *s, fac_tensor *grad_output, fac_tensor *self, fac_tensor *target,
                                  fac_tensor *weight, int64_t reduction, int64_t ignore_index,
                                  fac_tensor *total_weight) {
    (void)ignore_index;
    FAC_TRY(check_nll(self, target, weight, reduction));
    FAC_TRY(check_loss_grad(grad_output, self, target, reduction));
    FAC_TRY(check_total(total_weight, self));
    return declare_like_input(s, self);
}

fac_status nll_loss2d_backward_meta(fac_structured *s, fac_tensor *grad_output, fac_tensor *self, fac_tensor *target,
                                    fac_tensor *weight, int64_t reduction, int64_t ignore_index,
                                    fac_tensor *total_weight) {
    (void)ignore_index;
    FAC_TRY(check_nll2d(self, target, weight, reduction));
    FAC_TRY(check_loss_grad(grad_output, self, target, reduction));
    FAC_TRY(check_total(total_weight, self));
    return declare_like_input(s, self);
}

fac_status _cross_entropy_meta(fac_structured *s, fac_tensor *self, fac_tensor *target, fac_tensor *weight,
                               int64_t reduction, int64_t ignore_index) {
    (void)ignore_index;
    FAC_CHECK(self->ndim == 2, FAC_ERR_SHAPE, "expected logits [N, C], got %s", FAC_SHAPE_TEXT(self));
    FAC_TRY(check_nll(self, target, weight, reduction));
    FAC_TRY(declare_losses(s, self, target, reduction));
    return fac_out_declare(s, 1, (int64_t[]){self->sizes[0], 2}, NULL, 2, fac__statistic_dtype(self), self->device);
}

fac_status _cross_entropy_backward_meta(fac_structured *s, fac_tensor *grad_output, fac_tensor *self,
                                        fac_tensor *target, fac_tensor *weight, int64_t reduction, int64_t ignore_index,
                                        fac_tensor *row_sums, fac_tensor *total_weight) {
    (void)ignore_index;
    FAC_CHECK(self->ndim == 2, FAC_ERR_SHAPE, "expected logits [N, C], got %s", FAC_SHAPE_TEXT(self));
    FAC_TRY(check_nll(self, target, weight, reduction));
    FAC_TRY(check_loss_grad(grad_output, self, target, reduction));
    FAC_TRY(check_total(total_weight, self));
    FAC_TRY(fac__need_sizes("row_sums", row_sums, (int64_t[]){self->sizes[0], 2}, 2));
    FAC_TRY(fac__need_dtype("row_sums", row_sums, fac__statistic_dtype(self)));
    return declare_like_input(s, self);
}
