/* Group norm of images whose channels are innermost, and its gradient. Rows are points of C neighbouring values.

   First each channel of each image gets two sums over its points, in double precision, of parts of the image that the shape alone
   decides, added in order: of differences from the image's first point and of their squares; of the gradient and of its products
   with the input's distance from its mean. Those of a group's channels together are its statistics (Chan, Golub, LeVeque 1979). Then
   every point is scaled and shifted by coefficients per channel. */
#include "backend/cpu/kernels/group_norm_last.h"
#include "backend/cpu/kernels/items.h"
#include "backend/cpu/kernels/norm.h"
#include "backend/cpu/parallel.h"
#include "core/tensor_make.h"
#include "ops/format.h"
#include <math.h>

enum {
    TASKS = 16, /* wanted of the sums */
    LEAST = 64, /* points of a part, and those whose sums are kept in the kind */
    COEFFICIENTS = 3
};

typedef struct points {
    fac_group_norm_args g;
    fac_acc kind;
    int64_t per_group, parts, part_rows;
    fac_tensor *images[2]; /* x and dy in one format, owned */
    fac_rows x, dy, y;
    double *sums;            /* [N][parts][2][C] */
    char *row[COEFFICIENTS]; /* per image and channel, in the kind */
} points;

static char *row_of(const points *p, int k, int64_t image) {
    return p->row[k] + (size_t)(image * p->g.channels) * fac__acc_size(p->kind);
}
static double *sums_of(const points *p, int64_t image, int64_t part) {
    return p->sums + (image * p->parts + part) * 2 * p->g.channels;
}

static double get(const fac_tensor *t, int64_t i, double otherwise) {
    double v = otherwise;
    if (t)
        fac__tile_load(FAC_ACC_F64, &v, (const char *)fac__data(t) + (size_t)i * fac__dtype_size((fac_dtype)t->dtype),
                       (fac_dtype)t->dtype, 1, 1);
    return v;
}
static double parameter(const fac_tensor *t, int64_t c, double otherwise) {
    return get(t, t ? c * t->strides[0] : 0, otherwise);
}
static double statistic(const fac_tensor *t, int64_t image, int64_t group) {
    return get(t, image * t->strides[0] + group * t->strides[1], 0);
}
static void put(fac_tensor *t, int64_t at, double v) {
    fac__tile_store(FAC_ACC_F64, &v, (char *)fac__data(t) + (size_t)at * fac__dtype_size((fac_dtype)t->dtype),
                    (fac_dtype)t->dtype, 1, 1);
}

/* ---- opening -------------------------------------------------------------------------------------------------------------- */

/* A tensor in the format as rows of points. */
static fac_status open_points(const points *p, fac_tensor *t, fac_rows *r) {
    if (!t) return FAC_OK;
    const int64_t sizes[2] = {p->g.batch * p->g.plane, p->g.channels}, strides[2] = {p->g.channels, 1};
    fac_tensor *flat;
    FAC_TRY(fac__view(t, sizes, strides, 2, t->offset, false, &flat));
    fac_status st = fac__rows_open(r, flat, p->kind, p->g.channels);
    fac__unref(flat);
    return st;
}

static fac_status points_open(points *p, fac_rowmajor *y) {
    const fac_group_norm_args *g = &p->g;
    const fac_memory_format f = fac__format_of(g->x);
    const int64_t wanted = fac__max(1, TASKS / g->batch);
    p->kind = fac__norm_kind((fac_dtype)g->x->dtype);
    p->per_group = g->channels / g->groups;
    p->part_rows = fac__div_up(g->plane, fac__min(wanted, fac__div_up(g->plane, LEAST)));
    p->parts = fac__div_up(g->plane, p->part_rows);
    FAC_TRY(fac__in_format_below(g->x, f, &p->images[0]));
    FAC_TRY(fac__in_format_below(g->dy, f, &p->images[1]));
    FAC_TRY(open_points(p, p->images[0], &p->x));
    FAC_TRY(open_points(p, p->images[1], &p->dy));
    const size_t values = (size_t)(g->batch * g->channels), item = fac__acc_size(p->kind);
    p->sums = fac__alloc_array(values, (size_t)p->parts * 2 * sizeof(double) + COEFFICIENTS * item);
    if (!p->sums) return fac_error();
    for (int k = 0; k < COEFFICIENTS; k++)
        p->row[k] = (char *)(p->sums + values * (size_t)p->parts * 2) + (size_t)k * values * item;
    if (!g->y) return FAC_OK;
    FAC_TRY(fac__formatted_begin(g->y, f, y));
    return open_points(p, y->t, &p->y);
}

static fac_status points_close(points *p, fac_rowmajor *y, fac_status st) {
    fac__rows_close(&p->x);
    fac__rows_close(&p->dy);
    fac__rows_close(&p->y);
    fac__unref(p->images[0]);
    fac__unref(p->images[1]);
    fac__free(p->sums);
    return y->t ? fac__rowmajor_end(y, st) : st;
}

static int64_t bytes_of_points(const points *p, int64_t n) {
    return fac__mul_or_max(p->g.channels, n * (int64_t)fac__acc_size(p->kind));
}

/* Each task is a part of an image. */
static fac_status run_parts(points *p, fac_scratch_fn fn) {
    const int64_t grain = fac__grain(FAC_GRAIN, fac__mul_or_max(p->part_rows, p->g.channels));
    return fac__parallel_for_scratch(0, p->g.batch * p->parts, grain, bytes_of_points(p, 4), fn, p);
}
/* Each task is a point. */
static fac_status run_points(points *p, fac_scratch_fn fn) {
    return fac__parallel_for_scratch(0, p->g.batch * p->g.plane, fac__grain(FAC_GRAIN, p->g.channels),
                                     bytes_of_points(p, 3), fn, p);
}

static void part_range(const points *p, int64_t task, int64_t *image, int64_t *begin, int64_t *end) {
    *image = task / p->parts;
    *begin = task % p->parts * p->part_rows;
    *end = *image * p->g.plane + fac__min(p->g.plane, *begin + p->part_rows);
    *begin += *image * p->g.plane;
}

/* The parts' sums of an image, added to those of its first part. */
static double *joined_sums(const points *p, int64_t image) {
    double *to = sums_of(p, image, 0);
    for (int64_t part = 1; part < p->parts; part++)
        for (int64_t i = 0; i < 2 * p->g.channels; i++) to[i] += sums_of(p, image, part)[i];
    return to;
}

/* ---- forward -------------------------------------------------------------------------------------------------------------- */

/* row[0] holds the first point of each image. */
static fac_status moment_parts(void *ctx, int64_t first, int64_t last, void *room) {
    const points *p = ctx;
    const int64_t c = p->g.channels;
    for (int64_t t = first; t < last; t++) {
        int64_t image, begin, end;
        part_range(p, t, &image, &begin, &end);
        double *sums = sums_of(p, 0, t);
        memset(sums, 0, 2 * (size_t)c * sizeof *sums);
        for (int64_t i = begin; i < end; i++)
            fac__norm_moments_each(p->kind, fac__rows_read(&p->x, i, room), row_of(p, 0, image), sums, sums + c, c);
    }
    return FAC_OK;
}

/* Mean and variance of a group of an image whose sums have been joined. */
static void group_moments(const points *p, int64_t image, int64_t group, double *mean, double *variance) {
    const double *sum = sums_of(p, image, 0), *square = sum + p->g.channels, n = (double)p->g.plane;
    const void *first = row_of(p, 0, image);
    const int64_t begin = group * p->per_group, end = begin + p->per_group;
    double total = 0, m2 = 0;
    for (int64_t c = begin; c < end; c++) total += fac__acc_get(p->kind, first, c) + sum[c] / n;
    *mean = total / (double)p->per_group;
    for (int64_t c = begin; c < end; c++) {
        const double apart = fac__acc_get(p->kind, first, c) + sum[c] / n - *mean;
        m2 += fmax(0, square[c] - sum[c] * (sum[c] / n)) + n * apart * apart;
        if (square[c] != square[c]) m2 = square[c];
    }
    *variance = m2 / (n * (double)p->per_group);
}

static void forward_coefficients(const points *p, int64_t image) {
    const fac_group_norm_args *g = &p->g;
    (void)joined_sums(p, image);
    for (int64_t k = 0; k < g->groups; k++) {
        double mean, variance;
        group_moments(p, image, k, &mean, &variance);
        const double rstd = 1 / sqrt(variance + g->eps);
        for (int64_t c = k * p->per_group; c < (k + 1) * p->per_group; c++) {
            const double scale = rstd * parameter(g->weight, c, 1);
            fac__acc_set(p->kind, row_of(p, 1, image), c, scale);
            fac__acc_set(p->kind, row_of(p, 2, image), c, parameter(g->bias, c, 0) - mean * scale);
        }
        put(g->mean, image * g->mean->strides[0] + k * g->mean->strides[1], mean);
        put(g->rstd, image * g->rstd->strides[0] + k * g->rstd->strides[1], rstd);
    }
}

static fac_status scale_points(void *ctx, int64_t begin, int64_t end, void *room) {
    const points *p = ctx;
    for (int64_t i = begin; i < end; i++) {
        const int64_t image = i / p->g.plane;
        const void *x = fac__rows_read(&p->x, i, room);
        void *y = fac__rows_place(&p->y, i, fac__acc_at(p->kind, room, p->g.channels));
        fac__scale_each(p->kind, x, row_of(p, 1, image), row_of(p, 2, image), y, p->g.channels);
        fac__rows_put(&p->y, i, y);
    }
    return FAC_OK;
}

static fac_status forward(points *p) {
    for (int64_t n = 0; n < p->g.batch; n++) {
        void *to = row_of(p, 0, n);
        const void *first = fac__rows_read(&p->x, n * p->g.plane, to);
        if (first != to) memcpy(to, first, (size_t)p->g.channels * fac__acc_size(p->kind));
    }
    FAC_TRY(run_parts(p, moment_parts));
    for (int64_t n = 0; n < p->g.batch; n++) forward_coefficients(p, n);
    return run_points(p, scale_points);
}

fac_status fac__group_norm_last(const fac_group_norm_args *g) {
    points p = {.g = *g};
    fac_rowmajor y = {0};
    fac_status st = points_open(&p, &y);
    if (st == FAC_OK) st = forward(&p);
    return points_close(&p, &y, st);
}

/* ---- backward ------------------------------------------------------------------------------------------------------------- */

/* row[0] holds the means. Sums of LEAST points in the kind go into those of the part. */
static fac_status gradient_parts(void *ctx, int64_t first, int64_t last, void *room) {
    const points *p = ctx;
    const int64_t c = p->g.channels;
    char *few = fac__acc_at(p->kind, room, 2 * c);
    for (int64_t t = first; t < last; t++) {
        int64_t image, begin, end;
        part_range(p, t, &image, &begin, &end);
        double *sums = sums_of(p, 0, t);
        memset(sums, 0, 2 * (size_t)c * sizeof *sums);
        for (int64_t i = begin; i < end;) {
            memset(few, 0, 2 * (size_t)c * fac__acc_size(p->kind));
            for (const int64_t stop = fac__min(end, i + LEAST); i < stop; i++)
                fac__norm_params_each(p->kind, fac__rows_read(&p->dy, i, room),
                                      fac__rows_read(&p->x, i, fac__acc_at(p->kind, room, c)), row_of(p, 0, image),
                                      fac__acc_at(p->kind, few, c), few, c);
            for (int64_t k = 0; k < 2 * c; k++) sums[k] += fac__acc_get(p->kind, few, k);
        }
    }
    return FAC_OK;
}

/* dx = rstd (dy w - mean(dy w) - xhat mean(dy w xhat)) over the group, as dy p + x q + r. */
static void backward_coefficients(const points *p, int64_t image) {
    const fac_group_norm_args *g = &p->g;
    const double *sum = joined_sums(p, image), *dot = sum + g->channels, n = (double)(p->per_group * g->plane);
    for (int64_t k = 0; k < g->groups; k++) {
        const double mean = statistic(g->mean, image, k), rstd = statistic(g->rstd, image, k);
        double a = 0, b = 0;
        for (int64_t c = k * p->per_group; c < (k + 1) * p->per_group; c++) {
            a += parameter(g->weight, c, 1) * sum[c];
            b += parameter(g->weight, c, 1) * dot[c];
        }
        const double q = -rstd * rstd * rstd * b / n, r = -q * mean - rstd * a / n;
        for (int64_t c = k * p->per_group; c < (k + 1) * p->per_group; c++) {
            fac__acc_set(p->kind, row_of(p, 0, image), c, rstd * parameter(g->weight, c, 1));
            fac__acc_set(p->kind, row_of(p, 1, image), c, q);
            fac__acc_set(p->kind, row_of(p, 2, image), c, r);
        }
    }
}

static fac_status blend_points(void *ctx, int64_t begin, int64_t end, void *room) {
    const points *p = ctx;
    const int64_t c = p->g.channels;
    for (int64_t i = begin; i < end; i++) {
        const int64_t image = i / p->g.plane;
        const void *x = fac__rows_read(&p->x, i, room), *dy = fac__rows_read(&p->dy, i, fac__acc_at(p->kind, room, c));
        void *dx = fac__rows_place(&p->y, i, fac__acc_at(p->kind, room, 2 * c));
        fac__blend_each(p->kind, dy, x, row_of(p, 0, image), row_of(p, 1, image), row_of(p, 2, image), dx, c);
        fac__rows_put(&p->y, i, dx);
    }
    return FAC_OK;
}

static void parameter_gradients(const points *p, fac_tensor *dweight, fac_tensor *dbias) {
    for (int64_t c = 0; c < p->g.channels; c++) {
        double dw = 0, db = 0;
        for (int64_t n = 0; n < p->g.batch; n++) {
            db += sums_of(p, n, 0)[c];
            dw += sums_of(p, n, 0)[p->g.channels + c] * statistic(p->g.rstd, n, c / p->per_group);
        }
        if (dweight) put(dweight, c * dweight->strides[0], dw);
        if (dbias) put(dbias, c * dbias->strides[0], db);
    }
}

static fac_status backward(points *p, fac_tensor *dweight, fac_tensor *dbias) {
    for (int64_t n = 0; n < p->g.batch; n++)
        for (int64_t c = 0; c < p->g.channels; c++)
            fac__acc_set(p->kind, row_of(p, 0, n), c, statistic(p->g.mean, n, c / p->per_group));
    FAC_TRY(run_parts(p, gradient_parts));
    for (int64_t n = 0; n < p->g.batch; n++) backward_coefficients(p, n);
    if (p->g.y) FAC_TRY(run_points(p, blend_points));
    parameter_gradients(p, dweight, dbias);
    return FAC_OK;
}

fac_status fac__group_norm_last_backward(const fac_group_norm_args *g, fac_tensor *dweight, fac_tensor *dbias) {
    points p = {.g = *g};
    fac_rowmajor dx = {0};
    fac_status st = points_open(&p, &dx);
    if (st == FAC_OK) st = backward(&p, dweight, dbias);
    return points_close(&p, &dx, st);
}
