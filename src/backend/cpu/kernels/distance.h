/* The inner loops of distances, in float and double. */
#ifndef FAC_SRC_BACKEND_CPU_KERNELS_DISTANCE_H
#define FAC_SRC_BACKEND_CPU_KERNELS_DISTANCE_H

#include "backend/cpu/cpu.h"

/* How differences make a distance: by p. */
typedef enum fac_metric {
    FAC_METRIC_COUNT, /* p = 0: of differences that are not zero */
    FAC_METRIC_SUM,   /* 1 */
    FAC_METRIC_SQUARE,
    FAC_METRIC_MOST, /* infinity */
    FAC_METRIC_POWER
} fac_metric;

enum { FAC_DISTANCE_STRIP = 32 }; /* columns of packed rows of x2, whatever the instruction set */

/* Which part of the coordinates is met: sums start with the first, and are made distances of after the last. */
typedef struct fac_distance_part {
    bool first, last;
} fac_distance_part;

/* Points x1 [rows, depth] and a strip of x2, packed as [depth, STRIP]: adds what their differences make to acc [rows, STRIP], whose rows
   are acc_ld apart. */
FAC_ISA_DECLARE(void, fac__distance_add_f32,
                (fac_metric m, double p, const float *x1, int64_t rows, int64_t ld, const float *strip, int64_t depth,
                 float *acc, int64_t acc_ld, fac_distance_part part));
FAC_ISA_DECLARE(void, fac__distance_add_f64,
                (fac_metric m, double p, const double *x1, int64_t rows, int64_t ld, const double *strip, int64_t depth,
                 double *acc, int64_t acc_ld, fac_distance_part part));

/* out[depth] = the gradient for one point x of its distances to the rows of y [n, depth]: the sum over i of by[i] times what p makes
   of x - y[i]. `by` is the gradient over the distance to the power p - 1, or the gradient; dist serves FAC_METRIC_MOST. */
FAC_ISA_DECLARE(void, fac__distance_back_f32,
                (fac_metric m, double p, const float *x, const float *y, int64_t n, int64_t depth, const float *by,
                 const float *dist, float *out));
FAC_ISA_DECLARE(void, fac__distance_back_f64,
                (fac_metric m, double p, const double *x, const double *y, int64_t n, int64_t depth, const double *by,
                 const double *dist, double *out));

#endif
