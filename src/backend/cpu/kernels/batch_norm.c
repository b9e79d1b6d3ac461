/* Batch norm and its gradient. Statistics come from the reduction engine, whatever the layout. What follows runs over rows:
   planes (one channel of one sample: scalars per row) or, where the channel is the fastest dimension, points (one value per
   channel). Channel sums of the gradient run per channel over planes, or over fixed groups of points added in order. */
#include "backend/cpu/kernels/items.h"
#include "backend/cpu/kernels/norm.h"
#include "backend/cpu/kernels/norm_points.h"
#include "backend/cpu/parallel.h"
#include "core/tensor_make.h"
#include "ops/meta/norm.h"
#include "ops_gen.h"
#include <math.h>

typedef struct job {
    fac_acc kind;
    int64_t channels, rows, n, part_rows, per_channel;
    bool points; /* rows are points of `channels` values */
    fac_rows x, y, dy;
    void *p, *q, *r;   /* coefficients per channel in the kind: y = x p + r, or dx = dy p + x q + r */
    void *mean;        /* per channel, in the kind */
    double *sum, *dot; /* per channel: sum dy, sum dy (x - mean) */
    void *parts;       /* points: [groups][2][channels] */
    int64_t repeats;   /* of the coefficients, one after the other: short points pass several at a time */
    fac_workspace room;
} job;

/* Bytes of `n` items for each channel are known to fit: a tensor has as many elements. */
static fac_status job_alloc(job *j) {
    const int64_t item = (int64_t)fac__acc_size(j->kind), c = j->channels, wide = c * j->repeats;
    FAC_TRY(fac__workspace_take(2 * c * (int64_t)sizeof(double) + 4 * wide * item, &j->room));
    j->sum = (double *)(void *)j->room.at;
    j->dot = j->sum + c;
    j->p = j->dot + c;
    j->q = (char *)j->p + wide * item;
    j->r = (char *)j->q + wide * item;
    j->mean = (char *)j->r + wide * item;
    return FAC_OK;
}

static void job_free(job *j) {
    fac__rows_close(&j->x);
    fac__rows_close(&j->y);
    fac__rows_close(&j->dy);
    fac__workspace_give(j->room);
}

/* Opens the three tensors as rows. Points are read in memory order, so an alias with that order is made of them. */
static fac_status open_rows(job *j, fac_rows *r, fac_tensor *t) {
    if (!t) return fac__rows_open(r, NULL, j->kind, j->n);
    if (!j->points) return fac__rows_open(r, t, j->kind, j->n);
    const int64_t sizes[2] = {j->rows, j->n}, strides[2] = {j->n, 1};
    fac_tensor *flat;
    FAC_TRY(fac__view(t, sizes, strides, 2, t->offset, false, &flat));
    fac_status st = fac__rows_open(r, flat, j->kind, j->n);
    fac__unref(flat);
    return st;
}

/* Whether rows are points of f32 or bf16 on every side, which have loops of their own. */
static bool plain_points(const job *j) {
    const fac_dtype d = j->x.dtype;
    return j->points && j->kind == FAC_ACC_F32 && (d == FAC_F32 || fac__is_bf16(d)) &&
           (!j->y.data || j->y.dtype == d) && (!j->dy.data || j->dy.dtype == d);
}

/* So many short points are whole vectors of every instruction set, and as long as four of the longest. */
enum { VECTOR = 16, SHORT_POINT = 4 * VECTOR };
static int64_t repeats_of(const job *j) {
    int64_t repeats = 1;
    if (!plain_points(j) || j->n >= SHORT_POINT) return 1;
    while (repeats * j->n % VECTOR || repeats * j->n < SHORT_POINT) repeats *= 2;
    return repeats < j->rows ? repeats : 1;
}

/* Coefficients of each channel, for as many points as pass at a time. */
static void repeat(const job *j, void *v) {
    const size_t bytes = (size_t)j->channels * fac__acc_size(j->kind);
    for (int64_t i = 1; i < j->repeats; i++) memcpy((char *)v + (size_t)i * bytes, v, bytes);
}

static fac_status job_open(job *j, fac_tensor *x, fac_tensor *y, fac_tensor *dy, bool points) {
    *j = (job){.kind = fac__norm_kind((fac_dtype)x->dtype), .channels = x->sizes[1], .points = points};
    j->per_channel = x->numel / fac__max(1, j->channels);
    j->n = points ? j->channels : j->per_channel / fac__max(1, x->sizes[0]);
    j->rows = j->n ? x->numel / j->n : 0;
    FAC_TRY(open_rows(j, &j->x, x));
    FAC_TRY(open_rows(j, &j->y, y));
    FAC_TRY(open_rows(j, &j->dy, dy));
    j->repeats = repeats_of(j);
    return job_alloc(j);
}

/* Where samples are few, parameters are most of the work: SOME channels' at a time are doubles. */
enum { SOME = 256 };
typedef double some[SOME];

/* Elements [c, c + n) of a parameter, `otherwise` if there is none. */
static void parameters(const fac_tensor *t, int64_t c, int64_t n, double otherwise, double *out) {
    if (t)
        fac__tile_load(FAC_ACC_F64, out, (const char *)fac__data(t) + c * t->strides[0] * fac__item_size(t),
                       (fac_dtype)t->dtype, t->strides[0], n);
    else
        for (int64_t i = 0; i < n; i++) out[i] = otherwise;
}

static void parameters_set(fac_tensor *t, int64_t c, int64_t n, const double *v) {
    if (t)
        fac__tile_store(FAC_ACC_F64, v, (char *)fac__data(t) + c * t->strides[0] * fac__item_size(t),
                        (fac_dtype)t->dtype, t->strides[0], n);
}

/* The same of values per channel in the kind. */
static void kind_get(const job *j, void *p, int64_t c, int64_t n, double *out) {
    fac__tile_load(FAC_ACC_F64, out, fac__acc_at(j->kind, p, c), (fac_dtype)fac__acc_dtype[j->kind], 1, n);
}
static void kind_set(const job *j, void *p, int64_t c, int64_t n, const double *v) {
    fac__tile_store(FAC_ACC_F64, v, fac__acc_at(j->kind, p, c), (fac_dtype)fac__acc_dtype[j->kind], 1, n);
}

/* Room for the rows that have to be converted. */
static int64_t buffer_bytes(const job *j) { return plain_points(j) ? 0 : 3 * j->n * (int64_t)fac__acc_size(j->kind); }

static double coefficient(const job *j, const void *v, int64_t row) {
    return fac__acc_get(j->kind, v, row % j->channels);
}

/* Whether rows go from 16-bit floats to such without a row of f32 between. Points of bf16 have loops of their own. */
static bool half_rows(const job *j) {
    const fac_dtype d = j->x.dtype;
    return fac__is_half(d) && (!j->y.data || j->y.dtype == d) && (!j->dy.data || j->dy.dtype == d);
}

static void forward_half_rows(const job *j, int64_t begin, int64_t end) {
    const float *p = j->p, *r = j->r;
    for (int64_t i = begin; i < end; i++) {
        const uint16_t *x = fac__rows_half(&j->x, i);
        uint16_t *y = fac__rows_half(&j->y, i);
        const int64_t c = i % j->channels;
        if (j->points)
            FAC_ISA_PICK(fac__scale_each_f16)(x, p, r, y, j->n);
        else
            FAC_ISA_PICK(fac__scale_half)(fac__is_bf16(j->x.dtype), x, p[c], r[c], y, j->n);
    }
}

static char *point_at(const job *j, const fac_rows *r, int64_t i) {
    return (char *)(uintptr_t)r->data + i * j->n * fac__dtype_size(r->dtype);
}

static fac_status forward_rows(void *ctx, int64_t begin, int64_t end, void *buffer) {
    const job *j = ctx;
    if (plain_points(j)) {
        const int64_t many = (end - begin) / j->repeats, wide = j->n * j->repeats, rest = begin + many * j->repeats;
        const bool bf16 = fac__is_bf16(j->x.dtype);
        FAC_ISA_PICK(fac__points_scale)
        (bf16, point_at(j, &j->x, begin), j->p, j->r, point_at(j, &j->y, begin), many, wide);
        FAC_ISA_PICK(fac__points_scale)
        (bf16, point_at(j, &j->x, rest), j->p, j->r, point_at(j, &j->y, rest), end - rest, j->n);
        return FAC_OK;
    }
    if (half_rows(j)) {
        forward_half_rows(j, begin, end);
        return FAC_OK;
    }
    for (int64_t i = begin; i < end; i++) {
        const void *x = fac__rows_read(&j->x, i, buffer);
        void *y = fac__rows_place(&j->y, i, fac__acc_at(j->kind, buffer, j->n));
        if (j->points)
            fac__scale_each(j->kind, x, j->p, j->r, y, j->n);
        else
            fac__scale(j->kind, x, coefficient(j, j->p, i), coefficient(j, j->r, i), y, j->n);
        fac__rows_put(&j->y, i, y);
    }
    return FAC_OK;
}

static fac_status backward_rows(void *ctx, int64_t begin, int64_t end, void *buffer) {
    const job *j = ctx;
    if (plain_points(j)) {
        const int64_t many = (end - begin) / j->repeats, wide = j->n * j->repeats, rest = begin + many * j->repeats;
        const bool bf16 = fac__is_bf16(j->x.dtype);
        FAC_ISA_PICK(fac__points_blend)
        (bf16, point_at(j, &j->dy, begin), point_at(j, &j->x, begin), j->p, j->q, j->r, point_at(j, &j->y, begin), many,
         wide);
        FAC_ISA_PICK(fac__points_blend)
        (bf16, point_at(j, &j->dy, rest), point_at(j, &j->x, rest), j->p, j->q, j->r, point_at(j, &j->y, rest),
         end - rest, j->n);
        return FAC_OK;
    }
    if (half_rows(j) && !j->points) {
        const float *p = j->p, *q = j->q, *r = j->r;
        for (int64_t i = begin; i < end; i++) {
            const int64_t c = i % j->channels;
            FAC_ISA_PICK(fac__blend_half)
            (fac__is_bf16(j->x.dtype), fac__rows_half(&j->dy, i), fac__rows_half(&j->x, i), p[c], q[c], r[c],
             fac__rows_half(&j->y, i), j->n);
        }
        return FAC_OK;
    }
    for (int64_t i = begin; i < end; i++) {
        const void *x = fac__rows_read(&j->x, i, buffer),
                   *dy = fac__rows_read(&j->dy, i, fac__acc_at(j->kind, buffer, j->n));
        void *dx = fac__rows_place(&j->y, i, fac__acc_at(j->kind, buffer, 2 * j->n));
        if (j->points)
            fac__blend_each(j->kind, dy, x, j->p, j->q, j->r, dx, j->n);
        else
            fac__blend(j->kind, dy, x, coefficient(j, j->p, i), coefficient(j, j->q, i), coefficient(j, j->r, i), dx,
                       j->n);
        fac__rows_put(&j->y, i, dx);
    }
    return FAC_OK;
}

static int64_t row_grain(const job *j) { return fac__grain(FAC_GRAIN, j->n); }

/* ---- channel sums --------------------------------------------------------------------------------------------------- */

static fac_status plane_sums(void *ctx, int64_t begin, int64_t end, void *buffer) {
    const job *j = ctx;
    for (int64_t c = begin; c < end; c++) {
        j->sum[c] = j->dot[c] = 0;
        for (int64_t i = c; i < j->rows; i += j->channels) {
            double s[2];
            if (half_rows(j)) {
                FAC_ISA_PICK(fac__norm_sums_half)
                (fac__is_bf16(j->x.dtype), fac__rows_half(&j->dy, i), fac__rows_half(&j->x, i),
                 ((const float *)j->mean)[c], j->n, s);
                j->sum[c] += s[0];
                j->dot[c] += s[1];
                continue;
            }
            const void *x = fac__rows_read(&j->x, i, buffer),
                       *dy = fac__rows_read(&j->dy, i, fac__acc_at(j->kind, buffer, j->n));
            fac__norm_sums(j->kind, dy, x, fac__acc_get(j->kind, j->mean, c), 1.0, NULL, j->n, s);
            j->sum[c] += s[0];
            j->dot[c] += s[1];
        }
    }
    return FAC_OK;
}

/* Sums of group g: of all points, or of each `repeats`-th one, side by side. */
static void *part_at(const job *j, int64_t g) { return fac__acc_at(j->kind, j->parts, 2 * g * j->n * j->repeats); }

static void plain_point_sums(const job *j, int64_t first, int64_t last, float *dot, float *sum) {
    const int64_t many = (last - first) / j->repeats, wide = j->n * j->repeats, rest = first + many * j->repeats;
    const bool bf16 = fac__is_bf16(j->x.dtype);
    FAC_ISA_PICK(fac__points_sums)
    (bf16, point_at(j, &j->dy, first), point_at(j, &j->x, first), j->mean, dot, sum, many, wide);
    FAC_ISA_PICK(fac__points_sums)
    (bf16, point_at(j, &j->dy, rest), point_at(j, &j->x, rest), j->mean, dot, sum, last - rest, j->n);
}

static fac_status point_sums(void *ctx, int64_t begin, int64_t end, void *buffer) {
    const job *j = ctx;
    const int64_t wide = j->n * j->repeats;
    for (int64_t g = begin; g < end; g++) {
        void *dot = part_at(j, g), *sum = fac__acc_at(j->kind, dot, wide);
        memset(dot, 0, 2 * (size_t)wide * fac__acc_size(j->kind));
        const int64_t first = g * j->part_rows, last = fac__min(j->rows, first + j->part_rows);
        if (plain_points(j)) {
            plain_point_sums(j, first, last, dot, sum);
            continue;
        }
        for (int64_t i = first; i < last; i++) {
            const void *x = fac__rows_read(&j->x, i, buffer),
                       *dy = fac__rows_read(&j->dy, i, fac__acc_at(j->kind, buffer, j->n));
            fac__norm_params_each(j->kind, dy, x, j->mean, dot, sum, j->n);
        }
    }
    return FAC_OK;
}

/* Adds what groups found. */
static void collect(job *j, int64_t groups) {
    some v;
    for (int64_t c = 0; c < j->channels; c += SOME) {
        const int64_t n = fac__min(SOME, j->channels - c);
        memset(j->sum + c, 0, (size_t)n * sizeof *j->sum);
        memset(j->dot + c, 0, (size_t)n * sizeof *j->dot);
        for (int64_t g = 0; g < 2 * groups * j->repeats; g++) {
            double *to = (g / j->repeats % 2 ? j->sum : j->dot) + c;
            kind_get(j, j->parts, g * j->n + c, n, v);
            for (int64_t i = 0; i < n; i++) to[i] += v[i];
        }
    }
}

static fac_status channel_sums(job *j) {
    if (!j->points)
        return fac__parallel_for_scratch(0, j->channels, fac__grain(FAC_GRAIN, j->per_channel), buffer_bytes(j),
                                         plane_sums, j);
    fac_workspace parts;
    j->part_rows = fac__rows_per_part(j->rows);
    const int64_t groups = fac__div_up(j->rows, j->part_rows);
    FAC_TRY(fac__workspace_take(2 * groups * j->n * j->repeats * (int64_t)fac__acc_size(j->kind), &parts));
    j->parts = parts.at;
    fac_status st = fac__parallel_for_scratch(0, groups, 1, buffer_bytes(j), point_sums, j);
    if (st == FAC_OK) collect(j, groups);
    fac__workspace_give(parts);
    return st;
}

/* ---- forward ---------------------------------------------------------------------------------------------------------- */

/* Moves running statistics towards the mean and the biased variance of the batch. */
static void run_along(fac_tensor *x, fac_tensor *mean, fac_tensor *var, fac_tensor *running_mean,
                      fac_tensor *running_var, double momentum) {
    const double count = (double)(x->numel / fac__max(1, x->sizes[1])), unbiased = count / (count - 1);
    fac_tensor *const now[2] = {mean, var}, *const running[2] = {running_mean, running_var};
    some was, is;
    for (int k = 0; k < 2; k++) {
        for (int64_t c = 0; running[k] && c < x->sizes[1]; c += SOME) {
            const int64_t n = fac__min(SOME, x->sizes[1] - c);
            parameters(now[k], c, n, 0, is);
            parameters(running[k], c, n, 0, was);
            for (int64_t i = 0; i < n; i++)
                was[i] = (1 - momentum) * was[i] + momentum * (k ? is[i] * unbiased : is[i]);
            parameters_set(running[k], c, n, was);
        }
    }
}

static void deviation_inverses(const fac_tensor *var, int64_t c, int64_t n, double eps, double *out) {
    parameters(var, c, n, 0, out);
    FAC_ISA_PICK(fac__root_inverses)(out, eps, n);
}

static void forward_coefficients(job *j, fac_tensor *weight, fac_tensor *bias, fac_tensor *mean, fac_tensor *var,
                                 double eps) {
    some p, w, b, m;
    for (int64_t c = 0; c < j->channels; c += SOME) {
        const int64_t n = fac__min(SOME, j->channels - c);
        deviation_inverses(var, c, n, eps, p);
        parameters(weight, c, n, 1, w);
        parameters(bias, c, n, 0, b);
        parameters(mean, c, n, 0, m);
        for (int64_t i = 0; i < n; i++) p[i] *= w[i], b[i] -= m[i] * p[i];
        kind_set(j, j->p, c, n, p);
        kind_set(j, j->r, c, n, b);
    }
    repeat(j, j->p);
    repeat(j, j->r);
}

/* Planes of one element are points too, once row-major: owned, the input as its rows are read, and whether they are points. */
static fac_status as_rows(fac_tensor *input, fac_tensor **x, bool *points) {
    *points = true;
    if (input->numel == fac__mul_or_max(input->sizes[0], input->sizes[1])) return fac__cpu_contiguous(input, x);
    *points = fac__channels_fastest(input);
    *x = fac__ref(input);
    return FAC_OK;
}

static fac_status normalise(fac_structured *s, fac_tensor *input, fac_tensor *weight, fac_tensor *bias,
                            fac_tensor *mean, fac_tensor *var, double eps) {
    job j;
    fac_tensor *x;
    bool points;
    FAC_TRY(as_rows(input, &x, &points));
    fac_status st = job_open(&j, x, s->out[0], NULL, points);
    if (st == FAC_OK) {
        forward_coefficients(&j, weight, bias, mean, var, eps);
        st = fac__parallel_for_scratch(0, j.rows, row_grain(&j), buffer_bytes(&j), forward_rows, &j);
    }
    job_free(&j);
    fac__unref(x);
    return st;
}

/* Where the statistic `saved` is computed: there, or for a half in a float32 of its own, as outputs and running statistics
   are made from what was not rounded. The caller's reference. */
static fac_status room_for(fac_tensor *saved, fac_tensor **room) {
    if (!fac__is_half((fac_dtype)saved->dtype)) {
        *room = fac__ref(saved);
        return FAC_OK;
    }
    return fac__empty(saved->sizes, saved->ndim, FAC_F32, saved->device, room);
}

static void save(fac_structured *s, fac_tensor *mean, fac_tensor *var, double eps) {
    some v;
    for (int64_t c = 0; c < mean->numel; c += SOME) {
        const int64_t n = fac__min(SOME, mean->numel - c);
        if (mean != s->out[1]) {
            parameters(mean, c, n, 0, v);
            parameters_set(s->out[1], c, n, v);
        }
        deviation_inverses(var, c, n, eps, v);
        parameters_set(s->out[2], c, n, v);
    }
}

/* The running statistics come last, when nothing can fail any more. */
static fac_status train(fac_structured *s, fac_tensor *input, fac_tensor *weight, fac_tensor *bias,
                        fac_tensor *running_mean, fac_tensor *running_var, double momentum, double eps) {
    fac_tensor *mean = NULL, *var = NULL;
    fac_status st = room_for(s->out[1], &mean);
    if (st == FAC_OK) st = room_for(s->out[2], &var);
    if (st == FAC_OK) st = fac__moments(input, ~(uint64_t)2, 0.0, false, var, mean);
    if (st == FAC_OK) st = normalise(s, input, weight, bias, mean, var, eps);
    if (st == FAC_OK) {
        run_along(input, mean, var, running_mean, running_var, momentum);
        save(s, mean, var, eps);
    }
    fac__unref(mean);
    fac__unref(var);
    return st;
}

fac_status native_batch_norm_cpu(fac_structured *s, fac_tensor *input, fac_tensor *weight, fac_tensor *bias,
                                 fac_tensor *running_mean, fac_tensor *running_var, bool training, double momentum,
                                 double eps) {
    if (input->numel == 0) return FAC_OK;
    if (training) return train(s, input, weight, bias, running_mean, running_var, momentum, eps);
    return normalise(s, input, weight, bias, running_mean, running_var, eps);
}

/* ---- backward ---------------------------------------------------------------------------------------------------------- */

static void backward_coefficients(job *j, fac_tensor *weight, fac_tensor *invstd, fac_tensor *var, bool train,
                                  double eps, fac_tensor *dweight, fac_tensor *dbias) {
    const double count = (double)j->per_channel;
    some s, p, q, r, mean;
    for (int64_t c = 0; c < j->channels; c += SOME) {
        const int64_t n = fac__min(SOME, j->channels - c);
        const double *sum = j->sum + c, *dot = j->dot + c;
        if (train)
            parameters(invstd, c, n, 0, s);
        else
            deviation_inverses(var, c, n, eps, s);
        parameters(weight, c, n, 1, p);
        kind_get(j, j->mean, c, n, mean);
        for (int64_t i = 0; i < n; i++) {
            const double k = train ? dot[i] * s[i] * s[i] / count : 0.0;
            p[i] *= s[i];
            q[i] = -p[i] * k;
            r[i] = train ? p[i] * (k * mean[i] - sum[i] / count) : 0.0;
            s[i] *= dot[i];
        }
        kind_set(j, j->p, c, n, p);
        kind_set(j, j->q, c, n, q);
        kind_set(j, j->r, c, n, r);
        parameters_set(dweight, c, n, s);
        parameters_set(dbias, c, n, sum);
    }
    repeat(j, j->p);
    repeat(j, j->q);
    repeat(j, j->r);
}

/* Zero gradients of the parameters, for an empty batch. */
static fac_status no_gradient(fac_tensor *const *out) {
    const some zeros = {0};
    for (int i = 1; i < 3; i++) {
        for (int64_t c = 0; out[i] && c < out[i]->numel; c += SOME)
            parameters_set(out[i], c, fac__min(SOME, out[i]->numel - c), zeros);
    }
    return FAC_OK;
}

fac_status native_batch_norm_backward_cpu(fac_structured *s, fac_tensor *grad_out, fac_tensor *input,
                                          fac_tensor *weight, fac_tensor *running_mean, fac_tensor *running_var,
                                          fac_tensor *save_mean, fac_tensor *save_invstd, bool train, double eps,
                                          fac_ints output_mask) {
    (void)output_mask;
    if (input->numel == 0) return no_gradient(s->out);
    job j = {0};
    fac_tensor *mean = train ? save_mean : running_mean, *x, *dy = NULL;
    bool points;
    FAC_TRY(as_rows(input, &x, &points));
    fac_status st = points ? fac__lying_like_below(grad_out, x, &dy) : FAC_OK;
    if (st == FAC_OK) st = job_open(&j, x, s->out[0], points ? dy : grad_out, points);
    if (st == FAC_OK) {
        some v;
        for (int64_t c = 0; c < j.channels; c += SOME) {
            const int64_t n = fac__min(SOME, j.channels - c);
            parameters(mean, c, n, 0, v);
            kind_set(&j, j.mean, c, n, v);
        }
        repeat(&j, j.mean);
        st = channel_sums(&j);
    }
    if (st == FAC_OK) {
        backward_coefficients(&j, weight, save_invstd, running_var, train, eps, s->out[1], s->out[2]);
        if (s->out[0]) st = fac__parallel_for_scratch(0, j.rows, row_grain(&j), buffer_bytes(&j), backward_rows, &j);
    }
    job_free(&j);
    fac__unref(dy);
    fac__unref(x);
    return st;
}
