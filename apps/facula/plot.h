/* The loss curve of a run as an SVG picture. */
#ifndef FACULA_APP_PLOT_H
#define FACULA_APP_PLOT_H

#include <facula/facula.h>

typedef struct plot_point {
    int64_t step;
    double train, valid; /* NaN: no value at this step */
} plot_point;

/* Writes the picture to `path` (replacing a file whole). y_label names the quantity. A pending error on failure. */
fac_status plot_loss(const char *path, const char *title, const char *y_label, const plot_point *v, size_t n);

#endif
