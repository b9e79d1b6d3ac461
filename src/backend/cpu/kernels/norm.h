/* What the normalisation kernels share: inner loops by kind, and rows in the kind that computes. */
#ifndef FAC_SRC_BACKEND_CPU_KERNELS_NORM_H
#define FAC_SRC_BACKEND_CPU_KERNELS_NORM_H

#include "backend/cpu/kernels/norm_rows.h"
#include "backend/cpu/kernels/tile.h"
#include "iter/nest.h"

/* A row-major tensor seen as rows; converted when its dtype is not the kind's. */
typedef struct fac_rows {
    fac_tensor *t; /* owned: row-major */
    char *data;
    fac_dtype dtype;
    fac_acc kind;
    int64_t n; /* elements per row */
} fac_rows;

/* Opens t (NULL allowed: data stays NULL) as rows of n; a copy is made if it is not row-major. Close it in any case. */
fac_status fac__rows_open(fac_rows *r, fac_tensor *t, fac_acc kind, int64_t n);
void fac__rows_close(fac_rows *r);
/* Row i in the kind: in place, or converted into `buffer` (room for a row). */
const void *fac__rows_read(const fac_rows *r, int64_t i, void *buffer);
/* Where to make row i of an output: in place or `buffer`; then fac__rows_put brings it home. */
void *fac__rows_place(const fac_rows *r, int64_t i, void *buffer);
void fac__rows_put(const fac_rows *r, int64_t i, const void *made);

/* Row i of 16-bit floats. */
static inline uint16_t *fac__rows_half(const fac_rows *r, int64_t i) {
    return (uint16_t *)(void *)(uintptr_t)r->data + i * r->n;
}

/* Element i of an array of the kind. */
static inline double fac__acc_get(fac_acc k, const void *p, int64_t i) {
    return k == FAC_ACC_F32 ? (double)((const float *)p)[i] : ((const double *)p)[i];
}
static inline void fac__acc_set(fac_acc k, void *p, int64_t i, double v) {
    if (k == FAC_ACC_F32)
        ((float *)p)[i] = (float)v;
    else
        ((double *)p)[i] = v;
}
static inline void *fac__acc_at(fac_acc k, void *p, int64_t i) { return (char *)p + (size_t)i * fac__acc_size(k); }

enum { FAC_NORM_PIECE = 4096 };
/* Mean and sum of squared differences of a run of any length, in pieces merged in order. */
void fac__row_moments(fac_acc k, const void *x, int64_t n, double *mean, double *m2);
/* The same of row i of 16-bit floats, which are converted piece by piece; not centred: of mean 0. */
void fac__half_row_moments(const fac_rows *r, int64_t i, bool centred, float *piece, double *mean, double *m2);
/* Rows that one task of a parameter gradient sums up: at most 64 tasks, whatever the number of threads. */
static inline int64_t fac__rows_per_part(int64_t rows) { return fac__max(32, (rows + 63) / 64); }
/* The kind in which a normalisation of d computes. */
static inline fac_acc fac__norm_kind(fac_dtype d) { return d == FAC_F64 ? FAC_ACC_F64 : FAC_ACC_F32; }

/* Loops of norm_rows.h by kind. */
void fac__norm_apply(fac_acc k, const void *x, double mean, double rstd, const void *w, const void *b, void *y,
                     int64_t n);
void fac__norm_sums(fac_acc k, const void *dy, const void *x, double mean, double rstd, const void *w, int64_t n,
                    double *sums);
void fac__norm_back(fac_acc k, const void *dy, const void *x, double mean, double rstd, const void *w, double a,
                    double b, void *dx, int64_t n);
void fac__norm_params(fac_acc k, const void *dy, const void *x, double mean, double rstd, void *dw, void *db,
                      int64_t n);
void fac__norm_params_each(fac_acc k, const void *dy, const void *x, const void *mean, void *dw, void *db, int64_t n);
void fac__norm_moments_each(fac_acc k, const void *x, const void *shift, double *sum, double *square, int64_t n);
void fac__scale(fac_acc k, const void *x, double scale, double shift, void *y, int64_t n);
void fac__scale_each(fac_acc k, const void *x, const void *scale, const void *shift, void *y, int64_t n);
void fac__blend(fac_acc k, const void *dy, const void *x, double p, double q, double r, void *y, int64_t n);
void fac__blend_each(fac_acc k, const void *dy, const void *x, const void *p, const void *q, const void *r, void *y,
                     int64_t n);
double fac__square_sum(fac_acc k, const void *x, int64_t n);

/* Variance (or its root) and mean of `in` over the dimensions of `mask`, divided by N - correction; mean may be NULL. */
fac_status fac__moments(fac_tensor *in, uint64_t mask, double correction, bool root, fac_tensor *var, fac_tensor *mean);

#endif
