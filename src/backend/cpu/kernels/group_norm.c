/* Group norm and its gradient. A group of a sample is one run of memory; its channels are rows of HxW. Tasks are groups, so
   that every sum has one owner; the gradients of weight and bias are added over the batch in order. Images whose channels are
   innermost are group_norm_last.c's. */
#include "backend/cpu/kernels/group_norm_last.h"
#include "backend/cpu/kernels/items.h"
#include "backend/cpu/kernels/norm.h"
#include "backend/cpu/parallel.h"
#include "ops/meta/norm.h"
#include "ops_gen.h"
#include <math.h>

typedef struct job {
    fac_acc kind;
    int64_t batch, channels, plane, groups, per_group; /* per_group: channels of a group */
    double eps;
    fac_rows x, y, dy; /* rows are planes, but those of x are groups where it is read in whole ones */
    fac_tensor *mean, *rstd, *weight, *bias; /* statistics are row-major [N, groups]; owned by the caller */
    double *sums;                            /* [N][C][2]: sum dy, sum dy (x - mean) */
} job;

static double get(const fac_tensor *t, int64_t i, double otherwise) {
    if (!t) return otherwise;
    double v;
    int64_t step = t->ndim == 1 ? t->strides[0] : 1;
    fac__tile_load(FAC_ACC_F64, &v, (const char *)fac__data(t) + i * step * fac__item_size(t), (fac_dtype)t->dtype, 1,
                   1);
    return v;
}

static void put(fac_tensor *t, int64_t i, double v) {
    if (!t) return;
    fac__tile_store(FAC_ACC_F64, &v, (char *)fac__data(t) + i * fac__item_size(t), (fac_dtype)t->dtype, 1, 1);
}

/* Whether rows go from 16-bit floats to such without a row of floats between. */
static bool half_rows(const job *j) {
    const fac_dtype d = j->x.dtype;
    return fac__is_half(d) && (!j->y.data || j->y.dtype == d) && (!j->dy.data || j->dy.dtype == d);
}

static fac_status forward_groups(void *ctx, int64_t begin, int64_t end, void *buffer) {
    const job *j = ctx;
    int64_t n = j->per_group * j->plane;
    void *room = fac__acc_at(j->kind, buffer, n);
    for (int64_t i = begin; i < end; i++) {
        const bool half = half_rows(j);
        const char *x = half ? NULL : fac__rows_read(&j->x, i, buffer);
        double mean, square;
        if (half)
            fac__half_row_moments(&j->x, i, true, buffer, &mean, &square);
        else
            fac__row_moments(j->kind, x, n, &mean, &square);
        double rstd = 1.0 / sqrt(square / (double)n + j->eps);
        for (int64_t k = 0; k < j->per_group; k++) {
            int64_t c = i % j->groups * j->per_group + k, row = i * j->per_group + k;
            double p = rstd * get(j->weight, c, 1);
            if (half) {
                FAC_ISA_PICK(fac__scale_half)
                (fac__is_bf16(j->x.dtype), fac__rows_half(&j->x, i) + k * j->plane, (float)p,
                 (float)(get(j->bias, c, 0) - mean * p), fac__rows_half(&j->y, row), j->plane);
                continue;
            }
            size_t at = (size_t)(k * j->plane) * fac__acc_size(j->kind);
            void *y = fac__rows_place(&j->y, row, room);
            fac__scale(j->kind, x + at, p, get(j->bias, c, 0) - mean * p, y, j->plane);
            fac__rows_put(&j->y, row, y);
        }
        put(j->mean, i, mean);
        put(j->rstd, i, rstd);
    }
    return FAC_OK;
}

/* dx = rstd (dy w - mean(dy w) - xhat mean(dy w xhat)) over the group; channel sums are left for the parameters.
   Planes are converted once for each of the two walks: they stay in L1 so, which groups would not. */
static void group_backward(const job *j, int64_t i, void *buffer) {
    double mean = get(j->mean, i, 0), rstd = get(j->rstd, i, 0), a = 0, b = 0, n = (double)(j->per_group * j->plane);
    int64_t first = i % j->groups * j->per_group, row = i * j->per_group;
    const bool half = half_rows(j), bf16 = fac__is_bf16(j->x.dtype);
    double *sums = j->sums + 2 * (i / j->groups * j->channels + first);
    void *dy_room = fac__acc_at(j->kind, buffer, j->plane), *dx_room = fac__acc_at(j->kind, buffer, 2 * j->plane);
    for (int64_t k = 0; k < j->per_group; k++) {
        double w = get(j->weight, first + k, 1);
        if (half) {
            FAC_ISA_PICK(fac__norm_sums_half)
            (bf16, fac__rows_half(&j->dy, row + k), fac__rows_half(&j->x, row + k), (float)mean, j->plane,
             sums + 2 * k);
        } else {
            const void *x = fac__rows_read(&j->x, row + k, buffer), *dy = fac__rows_read(&j->dy, row + k, dy_room);
            fac__norm_sums(j->kind, dy, x, mean, 1.0, NULL, j->plane, sums + 2 * k);
        }
        a += w * sums[2 * k];
        b += w * sums[2 * k + 1];
    }
    double q = -rstd * rstd * rstd * b / n, r = -q * mean - rstd * a / n;
    for (int64_t k = 0; j->y.data && k < j->per_group; k++) {
        const double p = rstd * get(j->weight, first + k, 1);
        if (half) {
            FAC_ISA_PICK(fac__blend_half)
            (bf16, fac__rows_half(&j->dy, row + k), fac__rows_half(&j->x, row + k), (float)p, (float)q, (float)r,
             fac__rows_half(&j->y, row + k), j->plane);
            continue;
        }
        const void *x = fac__rows_read(&j->x, row + k, buffer), *dy = fac__rows_read(&j->dy, row + k, dy_room);
        void *dx = fac__rows_place(&j->y, row + k, dx_room);
        fac__blend(j->kind, dy, x, p, q, r, dx, j->plane);
        fac__rows_put(&j->y, row + k, dx);
    }
}

static fac_status backward_groups(void *ctx, int64_t begin, int64_t end, void *buffer) {
    for (int64_t i = begin; i < end; i++) group_backward(ctx, i, buffer);
    return FAC_OK;
}

static void parameter_gradients(const job *j, fac_tensor *dweight, fac_tensor *dbias) {
    for (int64_t c = 0; c < j->channels; c++) {
        double dw = 0, db = 0;
        for (int64_t i = 0; i < j->batch; i++) {
            const double *s = j->sums + 2 * (i * j->channels + c);
            dw += s[1] * get(j->rstd, i * j->groups + c / j->per_group, 0);
            db += s[0];
        }
        put(dweight, c, dw);
        put(dbias, c, db);
    }
}

static fac_status job_open(job *j, fac_tensor *x, fac_tensor *y, fac_tensor *dy) {
    j->per_group = j->channels / j->groups;
    j->x = j->y = j->dy = (fac_rows){0};
    FAC_TRY(fac__rows_open(&j->x, x, j->kind, dy ? j->plane : j->per_group * j->plane));
    FAC_TRY(fac__rows_open(&j->y, y, j->kind, j->plane));
    return fac__rows_open(&j->dy, dy, j->kind, j->plane);
}

static void job_close(job *j) {
    fac__rows_close(&j->x);
    fac__rows_close(&j->y);
    fac__rows_close(&j->dy);
    fac__free(j->sums);
}

fac_status native_group_norm_cpu(fac_structured *s, fac_tensor *input, fac_tensor *weight, fac_tensor *bias, int64_t N,
                                 int64_t C, int64_t HxW, int64_t group, double eps) {
    if (input->numel == 0) return FAC_OK;
    if (fac__is_channels_last(fac__group_norm_format(input, N, C)))
        return fac__group_norm_last(
            &(fac_group_norm_args){N, C, HxW, group, eps, input, weight, bias, NULL, s->out[0], s->out[1], s->out[2]});
    job j = {.kind = fac__norm_kind((fac_dtype)input->dtype),
             .batch = N,
             .channels = C,
             .plane = HxW,
             .groups = group,
             .eps = eps,
             .mean = s->out[1],
             .rstd = s->out[2],
             .weight = weight,
             .bias = bias};
    fac_status st = job_open(&j, input, s->out[0], NULL);
    int64_t grain = fac__grain(FAC_GRAIN / 2, j.per_group * HxW);
    const int64_t rows = half_rows(&j) ? FAC_NORM_PIECE : (j.per_group + 1) * HxW,
                  bytes = rows * (int64_t)fac__acc_size(j.kind);
    if (st == FAC_OK) st = fac__parallel_for_scratch(0, N * group, grain, bytes, forward_groups, &j);
    job_close(&j);
    return st;
}

static fac_status run_backward(job *j, fac_structured *s, fac_tensor *input, fac_tensor *grad_out) {
    FAC_TRY(job_open(j, input, s->out[0], grad_out));
    j->sums = fac__alloc_array((size_t)(2 * j->batch * j->channels), sizeof(double));
    if (!j->sums) return fac_error();
    int64_t grain = fac__grain(FAC_GRAIN / 2, j->per_group * j->plane);
    const int64_t bytes = 3 * j->plane * (int64_t)fac__acc_size(j->kind);
    FAC_TRY(fac__parallel_for_scratch(0, j->batch * j->groups, grain, bytes, backward_groups, j));
    parameter_gradients(j, s->out[1], s->out[2]);
    return FAC_OK;
}

fac_status native_group_norm_backward_cpu(fac_structured *s, fac_tensor *grad_out, fac_tensor *input, fac_tensor *mean,
                                          fac_tensor *rstd, fac_tensor *weight, int64_t N, int64_t C, int64_t HxW,
                                          int64_t group, fac_ints output_mask) {
    (void)output_mask;
    if (input->numel == 0) {
        for (int64_t c = 0; c < C; c++) put(s->out[1], c, 0), put(s->out[2], c, 0);
        return FAC_OK;
    }
    if (fac__is_channels_last(fac__group_norm_format(input, N, C)))
        return fac__group_norm_last_backward(
            &(fac_group_norm_args){N, C, HxW, group, 0, input, weight, NULL, grad_out, s->out[0], mean, rstd},
            s->out[1], s->out[2]);
    job j = {.kind = fac__norm_kind((fac_dtype)input->dtype),
             .batch = N,
             .channels = C,
             .plane = HxW,
             .groups = group,
             .weight = weight};
    fac_status st = fac__cpu_contiguous(mean, &j.mean);
    if (st == FAC_OK) st = fac__cpu_contiguous(rstd, &j.rstd);
    if (st == FAC_OK) st = run_backward(&j, s, input, grad_out);
    job_close(&j);
    fac__unref(j.mean);
    fac__unref(j.rstd);
    return st;
}
