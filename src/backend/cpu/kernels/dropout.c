/* Dropout and multinomial draws. Dropout is one pass: words, mask and scaled values a tile at a time. */
#include "backend/cpu/kernels/items.h"
#include "backend/cpu/kernels/random.h"
#include "backend/cpu/kernels/tile.h"
#include "backend/cpu/parallel.h"
#include "core/generator.h"
#include "core/philox.h"
#include "core/tensor_make.h"
#include "ops/format.h"
#include "ops_gen.h"

/* ---- dropout -------------------------------------------------------------------------------------------------------------- */

typedef struct dropout_job {
    const char *in;
    char *out;
    uint8_t *keep;
    fac_dtype dtype;
    fac_draw drawn;
    uint64_t threshold;
    double scale;
} dropout_job;

static void dropout_tile(const dropout_job *j, int64_t i, int64_t n, const uint32_t *words) {
    size_t at = (size_t)i * fac__dtype_size(j->dtype);
    fac_tile_buf x, y;
    if (j->dtype == FAC_F64) {
        FAC_ISA_PICK(fac__dropout_f64)
        ((double *)j->out + i, j->keep + i, (const double *)j->in + i, words, n, j->threshold, j->scale);
        return;
    }
    bool direct = j->dtype == FAC_F32;
    if (!direct) fac__tile_load(FAC_ACC_F32, &x, j->in + at, j->dtype, 1, n);
    const float *from = direct ? (const float *)j->in + i : x.f32;
    float *to = direct ? (float *)j->out + i : y.f32;
    FAC_ISA_PICK(fac__dropout_f32)(to, j->keep + i, from, words, n, j->threshold, (float)j->scale);
    if (!direct) fac__tile_store(FAC_ACC_F32, &y, j->out + at, j->dtype, 1, n);
}

static fac_status dropout_range(void *ctx, int64_t begin, int64_t end) {
    const dropout_job *j = ctx;
    uint32_t words[FAC_TILE + 4];
    for (int64_t i = begin; i < end; i += FAC_TILE) {
        int64_t n = fac__min(FAC_TILE, end - i);
        FAC_ISA_PICK(fac__philox_words)(words, (uint64_t)i / 4, (n + 3) / 4, j->drawn.seed, j->drawn.offset);
        dropout_tile(j, i, n, words);
    }
    return FAC_OK;
}

fac_status native_dropout_cpu(fac_structured *s, fac_tensor *input, double p, fac_opt_num train, fac_draw drawn) {
    bool on = !train.set || fac__scalar_f64(train.v) != 0;
    double keep = on ? 1 - p : 1;
    fac_tensor *rows;
    dropout_job j = {.dtype = (fac_dtype)input->dtype,
                     .drawn = drawn,
                     .threshold = fac__bernoulli_threshold(keep),
                     .scale = keep > 0 ? 1 / keep : 0};
    if (input->numel == 0) return FAC_OK;
    FAC_TRY(fac__lying_like_below(input, s->out[0], &rows));
    j.in = fac__data(rows), j.out = fac__data(s->out[0]), j.keep = fac__data(s->out[1]);
    fac_status st = fac__parallel_for(0, input->numel, FAC_GRAIN, dropout_range, &j);
    fac__unref(rows);
    return st;
}

/* ---- its gradient ------------------------------------------------------------------------------------------------------------- */

static fac_status mask_scale_range(void *ctx, int64_t begin, int64_t end) {
    const dropout_job *j = ctx;
    for (int64_t i = begin; i < end; i += FAC_TILE) {
        int64_t n = fac__min(FAC_TILE, end - i);
        size_t at = (size_t)i * fac__dtype_size(j->dtype);
        fac_tile_buf x;
        if (j->dtype == FAC_F64) {
            FAC_ISA_PICK(fac__mask_scale_f64)
            ((double *)j->out + i, j->keep + i, (const double *)j->in + i, n, j->scale);
            continue;
        }
        fac__tile_load(FAC_ACC_F32, &x, j->in + at, j->dtype, 1, n);
        FAC_ISA_PICK(fac__mask_scale_f32)(x.f32, j->keep + i, x.f32, n, (float)j->scale);
        fac__tile_store(FAC_ACC_F32, &x, j->out + at, j->dtype, 1, n);
    }
    return FAC_OK;
}

fac_status native_dropout_backward_cpu(fac_structured *s, fac_tensor *grad_output, fac_tensor *mask, double scale) {
    fac_tensor *grad = NULL, *keep = NULL;
    if (grad_output->numel == 0) return FAC_OK;
    FAC_TRY(fac__lying_like_below(grad_output, s->out[0], &grad));
    fac_status st = fac__lying_like_below(mask, s->out[0], &keep);
    if (st == FAC_OK) {
        dropout_job j = {.dtype = (fac_dtype)grad_output->dtype,
                         .scale = scale,
                         .in = fac__data(grad),
                         .out = fac__data(s->out[0]),
                         .keep = fac__data(keep)};
        st = fac__parallel_for(0, grad_output->numel, FAC_GRAIN, mask_scale_range, &j);
    }
    fac__unref(grad);
    fac__unref(keep);
    return st;
}

/* ---- multinomial ------------------------------------------------------------------------------------------------------------------ */

typedef struct multinomial_job {
    const char *weights;
    int64_t *out;
    fac_dtype dtype;
    int64_t n, samples;
    bool replacement;
    fac_draw drawn;
} multinomial_job;

/* A row's weights as double; their sum in *out_sum and how many are not zero in *out_some. */
static fac_status load_weights(const multinomial_job *j, int64_t row, double *w, double *out_sum, int64_t *out_some) {
    *out_sum = 0, *out_some = 0;
    fac__tile_load(FAC_ACC_F64, w, j->weights + row * j->n * fac__dtype_size(j->dtype), j->dtype, 1, j->n);
    for (int64_t i = 0; i < j->n; i++) {
        FAC_CHECK(w[i] >= 0 && w[i] <= 0x1.fffffffffffffp1023, FAC_ERR_ARGUMENT,
                  "probability tensor contains either `inf`, `nan` or element < 0: element %lld of row %lld is %g",
                  (long long)i, (long long)row, w[i]);
        *out_sum += w[i];
        *out_some += w[i] > 0;
    }
    FAC_CHECK(*out_sum > 0, FAC_ERR_ARGUMENT, "invalid multinomial distribution (sum of probabilities <= 0)");
    FAC_CHECK(
        j->replacement || *out_some >= j->samples, FAC_ERR_ARGUMENT,
        "invalid multinomial distribution (with replacement=False, not enough non-negative category to sample): %lld of %lld",
        (long long)*out_some, (long long)j->samples);
    return FAC_OK;
}

/* First index whose running sum exceeds u times the total. w is overwritten by the running sums. */
static void sample_with_replacement(const multinomial_job *j, int64_t row, double *w, int64_t *out) {
    int64_t last = 0;
    for (int64_t i = 1; i < j->n; i++) w[i] += w[i - 1];
    for (int64_t i = 0; i < j->n; i++)
        if (w[i] > (i ? w[i - 1] : 0)) last = i; /* rounding may not lead past the last weight that counts */
    for (int64_t s = 0; s < j->samples; s++) {
        double u =
            fac__uniform_f64(fac__random_u64(j->drawn.seed, j->drawn.offset, row * j->samples + s)) * w[j->n - 1];
        int64_t low = 0; /* the index is within low ... low + more; no branch depends on where */
        for (int64_t more = last; more > 0;) {
            const int64_t half = (more + 1) / 2;
            low += w[low + half - 1] > u ? 0 : half;
            more -= half;
        }
        out[s] = low;
    }
}

/* Exponential races: the smallest waiting times E_i / w_i, in order, are a draw without replacement. E_i = -log(u) is at least 1 - u,
   by which most are seen to lose without their logarithm. The best so far are kept sorted by insertion. */
static void sample_without_replacement(const multinomial_job *j, int64_t row, double *w, int64_t *out) {
    const double margin = 1 - 1e-6; /* more than both sides are rounded by */
    const int64_t *const last = out + j->samples - 1;
    for (int64_t s = 0; s < j->samples; s++) out[s] = -1;
    for (int64_t i = 0; i < j->n; i++) {
        if (!(w[i] > 0)) continue;
        const double u = fac__uniform_open_f64(fac__random_u64(j->drawn.seed, j->drawn.offset, row * j->n + i));
        if (*last >= 0 && (1 - u) * margin > w[*last] * w[i]) continue;
        w[i] = -fac__log_unit_f64(u) / w[i];
        int64_t at = j->samples;
        while (at > 0 && (out[at - 1] < 0 || w[i] < w[out[at - 1]])) at--;
        if (at == j->samples || w[i] == HUGE_VAL) continue;
        memmove(out + at + 1, out + at, (size_t)(j->samples - 1 - at) * sizeof *out);
        out[at] = i;
    }
}

/* w: room for a row of weights. */
static fac_status multinomial_rows(void *ctx, int64_t begin, int64_t end, void *w) {
    const multinomial_job *j = ctx;
    double sum;
    int64_t some;
    for (int64_t row = begin; row < end; row++) {
        FAC_TRY(load_weights(j, row, w, &sum, &some));
        if (j->replacement)
            sample_with_replacement(j, row, w, j->out + row * j->samples);
        else
            sample_without_replacement(j, row, w, j->out + row * j->samples);
    }
    return FAC_OK;
}

static fac_status multinomial_empty(fac_tensor *self, int64_t num_samples, bool replacement, fac_tensor **out) {
    FAC_CHECK(self->ndim == 1 || self->ndim == 2, FAC_ERR_SHAPE, "prob_dist must be 1 or 2 dim, got %d", self->ndim);
    FAC_CHECK(fac_dtype_is_floating((fac_dtype)self->dtype), FAC_ERR_DTYPE,
              "multinomial only supports floating-point dtypes for input, got: %s",
              fac_dtype_name((fac_dtype)self->dtype));
    int64_t n = self->sizes[self->ndim - 1], sizes[2] = {self->sizes[0], num_samples};
    FAC_CHECK(num_samples > 0, FAC_ERR_ARGUMENT, "cannot sample n_sample <= 0 samples, got %lld",
              (long long)num_samples);
    FAC_CHECK(replacement || num_samples <= n, FAC_ERR_ARGUMENT,
              "cannot sample n_sample > prob_dist.size(-1) samples without replacement: %lld of %lld",
              (long long)num_samples, (long long)n);
    return fac__empty(sizes + 2 - self->ndim, self->ndim, FAC_I64, self->device, out);
}

fac_status multinomial_cpu(const fac_call_info *c, fac_tensor *self, int64_t num_samples, bool replacement,
                           fac_draw drawn, fac_tensor **out) {
    (void)c;
    fac_tensor *t, *rows = NULL;
    multinomial_job j = {
        .dtype = (fac_dtype)self->dtype, .drawn = drawn, .samples = num_samples, .replacement = replacement};
    FAC_TRY(multinomial_empty(self, num_samples, replacement, &t));
    fac_status st = fac__cpu_contiguous(self, &rows);
    if (st == FAC_OK) {
        j.n = self->sizes[self->ndim - 1];
        j.weights = fac__data(rows), j.out = fac__data(t);
        int64_t count = self->ndim == 2 ? self->sizes[0] : 1;
        st = fac__parallel_for_scratch(0, count, fac__grain(FAC_GRAIN, j.n), fac__mul_or_max(j.n, sizeof(double)),
                                       multinomial_rows, &j);
    }
    fac__unref(rows);
    if (st != FAC_OK)
        fac__unref(t);
    else
        *out = t;
    return st;
}

fac_status multinomial_meta(const fac_call_info *c, fac_tensor *self, int64_t num_samples, bool replacement,
                            fac_generator *generator, fac_tensor **out) {
    (void)c, (void)generator;
    return multinomial_empty(self, num_samples, replacement, out);
}
