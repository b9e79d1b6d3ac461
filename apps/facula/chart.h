/* Charts as SVG within a page, whose style sheet has their colours. */
#ifndef FACULA_APP_CHART_H
#define FACULA_APP_CHART_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

typedef struct chart_series {
    const char *name;  /* in the legend; NULL: not there */
    const char *style; /* class: "train", "valid", "rate" */
    const double *x, *y;
    size_t n;
    bool dots;   /* points alone, without a line */
    bool marked; /* a dot on each point of the line, with its numbers, where there are not too many */
} chart_series;

typedef struct chart {
    const char *x_label, *y_label;
    const chart_series *series;
    size_t n;
    bool diagonal; /* a line where y is x, and one range for both */
} chart;

/* Writes <svg>. Values that are not finite are left out; long lines become the means of some hundred parts. */
void chart_write(FILE *f, const chart *c);

#endif
