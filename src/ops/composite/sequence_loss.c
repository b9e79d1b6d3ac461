/* Losses over alignments and over sets of classes, in terms of their kernels. */
#include "core/read.h"
#include "core/tensor_make.h"
#include "ops/composite/brief.h"
#include <math.h>

enum { REDUCE_NONE, REDUCE_MEAN, REDUCE_SUM };

/* ---- connectionist temporal classification ------------------------------------------------------------------------------- */

/* Lengths given as a tensor of integers, as an array to be freed. */
static fac_status read_lengths(const char *name, fac_tensor *t, fac_ints *out) {
    FAC_CHECK(is_integral(t) && t->dtype != FAC_BOOL && t->ndim <= 1, FAC_ERR_DTYPE,
              "%s must be a vector of integers, got %s of size %s", name, fac_dtype_name((fac_dtype)t->dtype),
              FAC_SHAPE_TEXT(t));
    int64_t *v = fac__alloc_array((size_t)t->numel + 1, sizeof *v);
    if (!v) return fac_error();
    FAC_SCOPE(scope);
    fac_tensor *wide = t->dtype == FAC_I64 ? t : cast(t, FAC_I64);
    fac_status st = !wide ? fac_error() : t->numel ? fac__read(wide, FAC_I64, v, (size_t)t->numel) : FAC_OK;
    if (st != FAC_OK) {
        fac__free(v);
        return st;
    }
    *out = (fac_ints){v, (size_t)t->numel};
    return FAC_OK;
}

typedef struct lengths {
    fac_ints input, target;
} lengths;

static fac_status read_both(fac_tensor *input_lengths, fac_tensor *target_lengths, lengths *out) {
    FAC_TRY(read_lengths("input_lengths", input_lengths, &out->input));
    fac_status st = read_lengths("target_lengths", target_lengths, &out->target);
    if (st != FAC_OK) fac__free((void *)(uintptr_t)out->input.v);
    return st;
}

static void lengths_free(lengths *l) {
    fac__free((void *)(uintptr_t)l->input.v);
    fac__free((void *)(uintptr_t)l->target.v);
}

/* The mean of the losses, each over its target's length (at least 1). NULL is passed on. */
static fac_tensor *mean_of(fac_tensor *loss, fac_ints target_lengths) {
    if (!loss) return NULL;
    const int64_t n = loss->numel;
    fac_tensor *counts = fac__tensor_from(target_lengths.v, FAC_I64, FAC_INTS(n));
    if (!counts) return NULL;
    if (!fac__is_cpu(loss)) counts = fac__s_to_device(counts, loss->device, FAC_I64, false, false, FAC_FORMAT_DEFAULT);
    return fac__s_mean(divide(loss, cast(fac__s_clamp_min(counts, fac_scalar_i_(1)), (fac_dtype)loss->dtype)),
                       FAC_DTYPE_DEFAULT);
}

fac_status ctc_loss_int_list_composite(const fac_call_info *c, fac_tensor *log_probs, fac_tensor *targets,
                                       fac_ints input_lengths, fac_ints target_lengths, int64_t blank,
                                       int64_t reduction, bool zero_infinity, fac_tensor **out) {
    (void)c;
    const bool batched = log_probs->ndim == 3;
    FAC_CHECK(reduction >= REDUCE_NONE && reduction <= REDUCE_SUM, FAC_ERR_ARGUMENT,
              "%lld is not a valid value for reduction: 0 is none, 1 mean, 2 sum", (long long)reduction);
    FAC_CHECK(batched || log_probs->ndim == 2, FAC_ERR_SHAPE, "log_probs must be [T, N, C] or [T, C], got %s",
              FAC_SHAPE_TEXT(log_probs));
    FAC_SCOPE(scope);
    fac_tensor *probs = batched ? log_probs : fac__s_unsqueeze(log_probs, 1);
    if (!probs) return fac_error();
    fac_tensor *loss = fac__s__ctc_loss(probs, targets, input_lengths, target_lengths, blank, zero_infinity).result0;
    if (!loss) return fac_error();
    if (zero_infinity) loss = fill_where(loss, is_value(loss, INFINITY), 0);
    if (reduction == REDUCE_MEAN) loss = mean_of(loss, target_lengths);
    if (reduction == REDUCE_SUM) loss = fac__s_sum(loss, FAC_DTYPE_DEFAULT);
    return fac__give(out, reduction == REDUCE_NONE && !batched && loss ? fac__s_squeeze_dim(loss, 0) : loss);
}

fac_status ctc_loss_tensor_composite(const fac_call_info *c, fac_tensor *log_probs, fac_tensor *targets,
                                     fac_tensor *input_lengths, fac_tensor *target_lengths, int64_t blank,
                                     int64_t reduction, bool zero_infinity, fac_tensor **out) {
    lengths l;
    FAC_TRY(read_both(input_lengths, target_lengths, &l));
    fac_status st =
        ctc_loss_int_list_composite(c, log_probs, targets, l.input, l.target, blank, reduction, zero_infinity, out);
    lengths_free(&l);
    return st;
}

fac_status _ctc_loss_tensor_composite(const fac_call_info *c, fac_tensor *log_probs, fac_tensor *targets,
                                      fac_tensor *input_lengths, fac_tensor *target_lengths, int64_t blank,
                                      bool zero_infinity, fac_tensor **out) {
    (void)c;
    lengths l;
    FAC_TRY(read_both(input_lengths, target_lengths, &l));
    fac_status st = fac__c__ctc_loss(log_probs, targets, l.input, l.target, blank, zero_infinity, out);
    lengths_free(&l);
    return st;
}

fac_status _ctc_loss_backward_tensor_composite(const fac_call_info *c, fac_tensor *grad, fac_tensor *log_probs,
                                               fac_tensor *targets, fac_tensor *input_lengths,
                                               fac_tensor *target_lengths, fac_tensor *neg_log_likelihood,
                                               fac_tensor *log_alpha, int64_t blank, bool zero_infinity,
                                               fac_tensor **out) {
    (void)c;
    lengths l;
    FAC_TRY(read_both(input_lengths, target_lengths, &l));
    fac_status st = fac__c__ctc_loss_backward(grad, log_probs, targets, l.input, l.target, neg_log_likelihood,
                                              log_alpha, blank, zero_infinity, out);
    lengths_free(&l);
    return st;
}

/* ---- margins ------------------------------------------------------------------------------------------------------------------ */

fac_status multilabel_margin_loss_composite(const fac_call_info *c, fac_tensor *self, fac_tensor *target,
                                            int64_t reduction, fac_tensor **out) {
    (void)c;
    fac_tensor *both[2];
    FAC_TRY(fac__c_multilabel_margin_loss_forward(self, target, reduction, both));
    fac__unref(both[1]);
    *out = both[0];
    return FAC_OK;
}
