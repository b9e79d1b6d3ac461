/* The report of a run: one page of HTML that needs nothing beside it, with curves, figures, settings, and what the model makes of
   samples that it was not trained on. */
#ifndef FACULA_APP_REPORT_H
#define FACULA_APP_REPORT_H

#include "plan.h"
#include "train.h"

typedef struct report_figures {
    const plot_point *points; /* the rows of the log */
    size_t n_points;
    plan plan;           /* of the rates */
    int64_t step, first; /* the last step, and the one that this process went on from */
    double seconds;      /* that this process trained; 0: it did not */
    double units;        /* in a second */
    double valid, first_valid, extra, best;
    int64_t best_step; /* 0: none was kept */
    const char *end;   /* "finished" */
} report_figures;

/* Writes report.html to the run folder, in place of the one that is there. The model is on the CPU. */
fac_status report_write(train_job *j, const report_figures *r);

/* ---- for the sections of kinds ---- */

/* Text as it should be seen: what means something in HTML is escaped, and what is no UTF-8 becomes a sign for that. */
void report_text(FILE *f, const char *text);
/* Begins a section, which the caller ends by "</section>". */
void report_section(FILE *f, const char *title);
/* A matrix of confusion: how many samples of class i were taken for class j. */
void report_confusion(FILE *f, const int64_t *counts, int64_t classes, const char *(*name)(const void *of, int64_t k),
                      const void *of);
/* An image as <img>, its pixels [channels, height, width] bytes, with 1 or 3 channels. */
void report_image(FILE *f, const uint8_t *pixels, int64_t channels, int64_t height, int64_t width);

#endif
