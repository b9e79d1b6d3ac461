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
   are acc_ld apart. At least so many columns are summed up. */
FAC_ISA_DECLARE(void, fac__distance_add_f32,
                (fac_metric m, double p, const float *x1, int64_t rows, int64_t ld, const float *strip, int64_t columns,
                 int64_t depth, float *acc, int64_t acc_ld, fac_distance_part part));
FAC_ISA_DECLARE(void, fac__distance_add_f64,
                (fac_metric m, double p, const double *x1, int64_t rows, int64_t ld, const double *strip,
                 int64_t columns, int64_t depth, double *acc, int64_t acc_ld, fac_distance_part part));

/* The distance of two points, of a metric other than FAC_METRIC_POWER. */
FAC_ISA_DECLARE(float, fac__distance_line_f32, (fac_metric m, const float *x, const float *y, int64_t depth));
FAC_ISA_DECLARE(double, fac__distance_line_f64, (fac_metric m, const double *x, const double *y, int64_t depth));

/* out[points, depth] = the gradients for points x of their distances to the rows of y [n, depth]: the sums over i of by[i] times what p
   makes of x - y[i]; added to what is there unless these are the first rows. `by` [points, n], rows by_ld apart, is the gradient over
   the distance to the power p - 1, or the gradient; dist, likewise, serves FAC_METRIC_MOST. */
FAC_ISA_DECLARE(void, fac__distance_back_f32,
                (fac_metric m, double p, const float *x, int64_t points, const float *y, int64_t n, int64_t depth,
                 const float *by, int64_t by_ld, const float *dist, int64_t dist_ld, bool first, float *out));
FAC_ISA_DECLARE(void, fac__distance_back_f64,
                (fac_metric m, double p, const double *x, int64_t points, const double *y, int64_t n, int64_t depth,
                 const double *by, int64_t by_ld, const double *dist, int64_t dist_ld, bool first, double *out));

/* by[i] = grad[i] / dist[i], 0 where the distance is. */
FAC_ISA_DECLARE(void, fac__distance_ratio_f32, (const float *grad, const float *dist, int64_t n, float *by));
FAC_ISA_DECLARE(void, fac__distance_ratio_f64, (const double *grad, const double *dist, int64_t n, double *by));

#endif
