/* What training on samples, each with an answer that is known, has in common, whether they are images or rows of a table: batches
   in an order that a checkpoint keeps, the loss, validation and the report. The data of such a kind begins with a struct samples. */
#ifndef FACULA_APP_SAMPLES_H
#define FACULA_APP_SAMPLES_H

#include "train.h"

typedef struct samples {
    fac_tensor *x, *y;           /* kept: [N, ...] and classes int64 [N], or numbers float32 [N, 1] */
    fac_tensor *test_x, *test_y; /* kept: what is held out */
    int64_t classes;             /* 0: numbers are to be predicted */
    /* What the model takes, of a batch of x, in the innermost scope; NULL: x itself. */
    fac_tensor *(*input)(const struct samples *s, fac_tensor *x);
    /* Name of a class, for the report. */
    const char *(*class_name)(const void *s, int64_t k);
    fac_loader *loader;
    int64_t n; /* to train on */
} samples;

/* Rows that are held out where there are no others: a tenth, chosen by a hash of the row's number, and one at least of ten. */
bool samples_hold_out(int64_t row);
/* Moves these rows of x and y to test_x and test_y.
   errors: ARGUMENT, naming what the rows are, if none are left on one of the sides */
fac_status samples_split(samples *s, const char *what);
/* Makes the loader, and compares the data with that of the run that goes on. change: of each sample, may be NULL. */
fac_status samples_open(samples *s, train_job *j, fac_dataset_map_fn change);
/* Frees all that it holds. */
void samples_close(samples *s);

/* What a kind of training has in its table: see train_kind. */
fac_tensor *samples_loss(train_job *j);
fac_status samples_validate(train_job *j, bool whole, double *out_loss, double *extra);
void samples_save_order(train_job *j);
void samples_load_order(train_job *j);
fac_tensor *samples_example(train_job *j);
/* What the model says of all that is held out: float32 [N, classes or 1] on the CPU, of the innermost scope. */
fac_tensor *samples_predict(train_job *j);
/* Writes precision, recall, and the matrix of confusion. */
fac_status samples_report_classes(train_job *j, FILE *f, fac_tensor *logits);

#endif
