/* What predicting for images and for tables shares: the run's model, batches, what is printed of a sample, and the figures at the end. */
#ifndef FACULA_APP_PREDICT_H
#define FACULA_APP_PREDICT_H

#include "models.h"
#include "predict_figures.h"
#include "predict_output.h"
#include "table.h"
#include "train_settings.h"

typedef struct predict_options {
    const cli_command *command;
    const char *run;          /* folder or checkpoint */
    const char *const *files; /* to predict for */
    size_t n_files;
    const char *weights, *format, *out, *metrics, *keep, *device;
    int64_t top, batch, threads;
    bool json, quiet;
} predict_options;

typedef struct predictor {
    const predict_options *options;
    notes notes;       /* of the run */
    train_options run; /* its settings, whose text is in the notes */
    const char **paths;
    fac_module *model;
    fac_device device;
    image_shape shape; /* of a run on images */
    table table;       /* of one on a table */
    name_list classes; /* none: numbers are predicted, times the table's deviation and with its mean added */
    int64_t *order;    /* room for the best classes of a sample */
    output out;
    figures figures;
    progress bar;
    int64_t done, total; /* samples */
    bool failed;         /* a file could not be read */
    bool misused;        /* the error is one of wrong use */
} predictor;

/* What one kind of run does: makes the model and the names of classes of the notes; predicts for a file, which fails only where no
   other can be read either: what is wrong with one file goes to predict_complain. */
typedef struct predict_kind {
    const char *name;
    fac_status (*make)(predictor *p);
    fac_status (*predict)(predictor *p);
} predict_kind;
extern const predict_kind predict_images, predict_tables;

/* What the model says of a batch on the CPU, which goes to the device: float32 [n, classes] of log probabilities, or [n, 1] of numbers,
   on the CPU, in the innermost scope. */
fac_tensor *predict_batch(predictor *p, fac_tensor *x);
/* The number that it said. */
double predict_number(const predictor *p, const float *said);
/* Puts what the model said of one sample, a row of predict_batch's, into the present row of the output, and ends that. */
fac_status predict_put(predictor *p, const float *said);
/* Compares what was said last with the class that is true; -1: one that cannot be predicted. */
void predict_compare(predictor *p, int64_t is, const float *said);
/* Sets an error of wrong use, which names the run where the format has its %s. */
fac_status predict_misused(predictor *p, const char *format) FAC_PRINTF(2, 0);
/* Prints the pending error, clears it, and has the program fail at the end. */
void predict_complain(predictor *p);
/* Moves the progress on. */
void predict_progress(predictor *p);

#endif
