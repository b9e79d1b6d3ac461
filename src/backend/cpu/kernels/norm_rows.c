/* The rows of a normalisation: read and written in the dtype in which they are summed, and their moments. */
#include "backend/cpu/kernels/fold.h"
#include "backend/cpu/kernels/items.h"
#include "backend/cpu/kernels/norm.h"

fac_status fac__rows_open(fac_rows *r, fac_tensor *t, fac_acc kind, int64_t n) {
    *r = (fac_rows){.kind = kind, .n = n};
    if (!t) return FAC_OK;
    FAC_TRY(fac__cpu_contiguous(t, &r->t));
    r->data = fac__data(r->t);
    r->dtype = (fac_dtype)t->dtype;
    return FAC_OK;
}

void fac__rows_close(fac_rows *r) { fac__unref(r->t); }

static char *home(const fac_rows *r, int64_t i) { return r->data + i * r->n * fac__dtype_size(r->dtype); }

const void *fac__rows_read(const fac_rows *r, int64_t i, void *buffer) {
    if (!r->data) return NULL;
    if (fac__acc_is(r->kind, r->dtype)) return home(r, i);
    fac__tile_load(r->kind, buffer, home(r, i), r->dtype, 1, r->n);
    return buffer;
}

void *fac__rows_place(const fac_rows *r, int64_t i, void *buffer) {
    return fac__acc_is(r->kind, r->dtype) ? home(r, i) : buffer;
}

void fac__rows_put(const fac_rows *r, int64_t i, const void *made) {
    if (r->data && !fac__acc_is(r->kind, r->dtype)) fac__tile_store(r->kind, made, home(r, i), r->dtype, 1, r->n);
}

/* The moments of `done` elements take in those of `part` more. */
static void merge_moments(double m[2], double *q, int64_t done, int64_t part, const double pm[2], double pq) {
    if (done == 0) {
        m[0] = pm[0], m[1] = pm[1], *q = pq;
        return;
    }
    const double count = (double)done, total = count + (double)part, gap = (pm[0] - m[0]) + (pm[1] - m[1]);
    *q += pq + gap * gap * (count * (double)part / total);
    m[1] += gap * ((double)part / total);
}

void fac__row_moments(fac_acc k, const void *x, int64_t n, double *mean, double *m2) {
    double m[2] = {0, 0}, q = 0;
    for (int64_t i = 0; i < n; i += FAC_NORM_PIECE) {
        const int64_t part = fac__min(FAC_NORM_PIECE, n - i);
        double pm[2], pq;
        if (k == FAC_ACC_F32)
            FAC_ISA_PICK(fac__moments_f32)((const float *)x + i, part, pm, &pq);
        else
            FAC_ISA_PICK(fac__moments_f64)((const double *)x + i, part, pm, &pq);
        merge_moments(m, &q, i, part, pm, pq);
    }
    *mean = m[0] + m[1];
    *m2 = q;
}

void fac__half_row_moments(const fac_rows *r, int64_t i, bool centred, float *piece, double *mean, double *m2) {
    double m[2] = {0, 0}, q = 0;
    for (int64_t at = 0; at < r->n; at += FAC_NORM_PIECE) {
        const int64_t part = fac__min(FAC_NORM_PIECE, r->n - at);
        double pm[2], pq;
        fac__tile_load(FAC_ACC_F32, piece, home(r, i) + at * fac__dtype_size(r->dtype), r->dtype, 1, part);
        if (!centred) {
            q += FAC_ISA_PICK(fac__square_sum_f32)(piece, part);
            continue;
        }
        FAC_ISA_PICK(fac__moments_f32)(piece, part, pm, &pq);
        merge_moments(m, &q, at, part, pm, pq);
    }
    *mean = m[0] + m[1];
    *m2 = q;
}

void fac__norm_apply(fac_acc k, const void *x, double mean, double rstd, const void *w, const void *b, void *y,
                     int64_t n) {
    if (k == FAC_ACC_F32)
        FAC_ISA_PICK(fac__norm_apply_f32)(x, (float)mean, (float)rstd, w, b, y, n);
    else
        FAC_ISA_PICK(fac__norm_apply_f64)(x, mean, rstd, w, b, y, n);
}

void fac__norm_sums(fac_acc k, const void *dy, const void *x, double mean, double rstd, const void *w, int64_t n,
                    double *sums) {
    if (k == FAC_ACC_F32)
        FAC_ISA_PICK(fac__norm_sums_f32)(dy, x, (float)mean, (float)rstd, w, n, sums);
    else
        FAC_ISA_PICK(fac__norm_sums_f64)(dy, x, mean, rstd, w, n, sums);
}

void fac__norm_back(fac_acc k, const void *dy, const void *x, double mean, double rstd, const void *w, double a,
                    double b, void *dx, int64_t n) {
    if (k == FAC_ACC_F32)
        FAC_ISA_PICK(fac__norm_back_f32)(dy, x, (float)mean, (float)rstd, w, (float)a, (float)b, dx, n);
    else
        FAC_ISA_PICK(fac__norm_back_f64)(dy, x, mean, rstd, w, a, b, dx, n);
}

void fac__norm_params(fac_acc k, const void *dy, const void *x, double mean, double rstd, void *dw, void *db,
                      int64_t n) {
    if (k == FAC_ACC_F32)
        FAC_ISA_PICK(fac__norm_params_f32)(dy, x, (float)mean, (float)rstd, dw, db, n);
    else
        FAC_ISA_PICK(fac__norm_params_f64)(dy, x, mean, rstd, dw, db, n);
}

void fac__norm_params_each(fac_acc k, const void *dy, const void *x, const void *mean, void *dw, void *db, int64_t n) {
    if (k == FAC_ACC_F32)
        FAC_ISA_PICK(fac__norm_params_each_f32)(dy, x, mean, dw, db, n);
    else
        FAC_ISA_PICK(fac__norm_params_each_f64)(dy, x, mean, dw, db, n);
}

void fac__norm_moments_each(fac_acc k, const void *x, const void *shift, double *sum, double *square, int64_t n) {
    if (k == FAC_ACC_F32)
        FAC_ISA_PICK(fac__norm_moments_each_f32)(x, shift, sum, square, n);
    else
        FAC_ISA_PICK(fac__norm_moments_each_f64)(x, shift, sum, square, n);
}

void fac__scale(fac_acc k, const void *x, double scale, double shift, void *y, int64_t n) {
    if (k == FAC_ACC_F32)
        FAC_ISA_PICK(fac__scale_f32)(x, (float)scale, (float)shift, y, n);
    else
        FAC_ISA_PICK(fac__scale_f64)(x, scale, shift, y, n);
}

void fac__scale_each(fac_acc k, const void *x, const void *scale, const void *shift, void *y, int64_t n) {
    if (k == FAC_ACC_F32)
        FAC_ISA_PICK(fac__scale_each_f32)(x, scale, shift, y, n);
    else
        FAC_ISA_PICK(fac__scale_each_f64)(x, scale, shift, y, n);
}

void fac__blend(fac_acc k, const void *dy, const void *x, double p, double q, double r, void *y, int64_t n) {
    if (k == FAC_ACC_F32)
        FAC_ISA_PICK(fac__blend_f32)(dy, x, (float)p, (float)q, (float)r, y, n);
    else
        FAC_ISA_PICK(fac__blend_f64)(dy, x, p, q, r, y, n);
}

void fac__blend_each(fac_acc k, const void *dy, const void *x, const void *p, const void *q, const void *r, void *y,
                     int64_t n) {
    if (k == FAC_ACC_F32)
        FAC_ISA_PICK(fac__blend_each_f32)(dy, x, p, q, r, y, n);
    else
        FAC_ISA_PICK(fac__blend_each_f64)(dy, x, p, q, r, y, n);
}

double fac__square_sum(fac_acc k, const void *x, int64_t n) {
    return k == FAC_ACC_F32 ? FAC_ISA_PICK(fac__square_sum_f32)(x, n) : FAC_ISA_PICK(fac__square_sum_f64)(x, n);
}
