/* Connectionist temporal classification. A target of S symbols is laid out as 2S + 1, blanks between and around; alpha[t][s] is
   the logarithm of the probability of all beginnings of alignments that are at s after step t, beta that of all endings. With the
   likelihood Z, the gradient at (t, class) is exp(lp) - sum over s of that class of exp(alpha + beta - lp) / Z, times the loss's.
   Sequences are independent: one thread each. Sums of exponentials are taken around their maximum, in the tensor's type.
   source: Graves, Fernandez, Gomez, Schmidhuber 2006, eqs. 6 to 16. */
#include "backend/cpu/kernels/gather.h"
#include "backend/cpu/kernels/items.h"
#include "backend/cpu/parallel.h"
#include "ops_gen.h"
#include <math.h>

typedef struct ctc_job {
    fac_dtype dtype;
    int64_t steps, batch, classes, blank, width; /* width: of a row of alpha */
    fac_tensor *owned[5];
    const int64_t *targets, *starts; /* starts: where each sequence's targets begin */
    fac_ints input_lengths, target_lengths;
    const void *probs; /* [T, N, C] */
    void *alpha, *loss;
    const void *grad; /* backward */
    void *out;
    bool zero_infinity;
} ctc_job;

/* What the loops ask of sequence n: the symbol at s, and whether it may be reached past a blank. */
static int64_t symbol(const ctc_job *j, int64_t n, int64_t s) {
    return s % 2 ? j->targets[j->starts[n] + s / 2] : j->blank;
}
static bool skips(const ctc_job *j, int64_t n, int64_t s) {
    return s % 2 && s > 1 && j->targets[j->starts[n] + s / 2] != j->targets[j->starts[n] + s / 2 - 1];
}

#define T float
#define S f32
#define EXP expf
#define LOG logf
#include "backend/cpu/kernels/ctc_body.h"
#undef T
#undef S
#undef EXP
#undef LOG
#define T double
#define S f64
#define EXP exp
#define LOG log
#include "backend/cpu/kernels/ctc_body.h"

static void ctc_free(ctc_job *j) {
    for (size_t i = 0; i < FAC_COUNT(j->owned); i++) fac__unref(j->owned[i]);
    fac__free((void *)(uintptr_t)j->starts);
}

/* Targets are classes. */
static fac_status check_targets(const ctc_job *j) {
    for (int64_t n = 0; n < j->batch; n++)
        for (int64_t i = 0; i < j->target_lengths.v[n]; i++) {
            const int64_t t = j->targets[j->starts[n] + i];
            FAC_CHECK(t >= 0 && t < j->classes, FAC_ERR_INDEX,
                      "target %lld of sequence %lld is %lld, but there are %lld classes", (long long)i, (long long)n,
                      (long long)t, (long long)j->classes);
        }
    return FAC_OK;
}

static fac_status open_targets(ctc_job *j, fac_tensor *targets) {
    FAC_TRY(fac__index_array(targets, &j->owned[0], &j->targets));
    int64_t *starts = fac__alloc_array((size_t)j->batch + 1, sizeof *starts), at = 0;
    if (!starts) return fac_error();
    for (int64_t n = 0; n < j->batch; n++) {
        starts[n] = targets->ndim == 2 ? n * targets->sizes[1] : at;
        at += j->target_lengths.v[n];
    }
    j->starts = starts;
    return check_targets(j);
}

static fac_status open_ctc(ctc_job *j, fac_tensor *log_probs, fac_tensor *targets, fac_ints input_lengths,
                           fac_ints target_lengths, int64_t blank) {
    *j = (ctc_job){.dtype = (fac_dtype)log_probs->dtype,
                   .steps = log_probs->sizes[0],
                   .batch = log_probs->sizes[1],
                   .classes = log_probs->sizes[2],
                   .blank = blank,
                   .input_lengths = input_lengths,
                   .target_lengths = target_lengths};
    FAC_TRY(open_targets(j, targets));
    FAC_TRY(fac__cpu_contiguous(log_probs, &j->owned[1]));
    j->probs = fac__data(j->owned[1]);
    return FAC_OK;
}

static fac_status forward_range(void *ctx, int64_t begin, int64_t end) {
    const ctc_job *j = ctx;
    for (int64_t n = begin; n < end; n++) {
        if (j->dtype == FAC_F64)
            forward_f64(j, n);
        else
            forward_f32(j, n);
    }
    return FAC_OK;
}

static int64_t work_of(const ctc_job *j) {
    return fac__mul_or_max(j->steps, fac__max(fac__mul_or_max(16, j->width), j->classes));
}

fac_status _ctc_loss_cpu(fac_structured *s, fac_tensor *log_probs, fac_tensor *targets, fac_ints input_lengths,
                         fac_ints target_lengths, int64_t blank, bool zero_infinity) {
    (void)zero_infinity;
    ctc_job j;
    fac_status st = open_ctc(&j, log_probs, targets, input_lengths, target_lengths, blank);
    j.loss = fac__data(s->out[0]);
    j.alpha = fac__data(s->out[1]);
    j.width = s->out[1]->sizes[2];
    if (st == FAC_OK) st = fac__parallel_for(0, j.batch, fac__grain(FAC_GRAIN, work_of(&j)), forward_range, &j);
    ctc_free(&j);
    return st;
}

/* room: two rows of beta and one of classes. */
static fac_status backward_range(void *ctx, int64_t begin, int64_t end, void *room) {
    const ctc_job *j = ctx;
    for (int64_t n = begin; n < end; n++) {
        if (j->dtype == FAC_F64)
            backward_f64(j, n, room);
        else
            backward_f32(j, n, room);
    }
    return FAC_OK;
}

fac_status _ctc_loss_backward_cpu(fac_structured *s, fac_tensor *grad, fac_tensor *log_probs, fac_tensor *targets,
                                  fac_ints input_lengths, fac_ints target_lengths, fac_tensor *neg_log_likelihood,
                                  fac_tensor *log_alpha, int64_t blank, bool zero_infinity) {
    ctc_job j;
    fac_status st = open_ctc(&j, log_probs, targets, input_lengths, target_lengths, blank);
    if (st == FAC_OK) st = fac__cpu_contiguous(grad, &j.owned[2]);
    if (st == FAC_OK) st = fac__cpu_contiguous(neg_log_likelihood, &j.owned[3]);
    if (st == FAC_OK) st = fac__cpu_contiguous(log_alpha, &j.owned[4]);
    if (st == FAC_OK && s->out[0]->numel) {
        j.grad = fac__data(j.owned[2]);
        j.loss = fac__data(j.owned[3]);
        j.alpha = fac__data(j.owned[4]);
        j.width = log_alpha->sizes[2];
        j.out = fac__data(s->out[0]);
        j.zero_infinity = zero_infinity;
        const int64_t room = fac__mul_or_max(2 * j.width + j.classes, fac__dtype_size(j.dtype));
        st = fac__parallel_for_scratch(0, j.batch, fac__grain(FAC_GRAIN, work_of(&j)), room, backward_range, &j);
    }
    ctc_free(&j);
    return st;
}
