/* A table for training: which columns the model takes and how, and what it is to predict. */
#ifndef FACULA_APP_TABLE_H
#define FACULA_APP_TABLE_H

#include "samples.h"

/* A column that the model takes: as a number, less its mean and over its deviation, or as one number for each of its texts, which is
   1 for that of the row and 0 for the others. */
typedef struct table_input {
    int64_t column;         /* of the training file */
    int64_t kinds;          /* texts; 0: a number */
    double mean, deviation; /* of the rows to train on */
    double *values;         /* owned while the table is read: of all rows of the training file */
} table_input;

typedef struct table {
    fac_csv *file; /* owned: the training file */
    table_input *inputs;
    size_t n_inputs;
    int64_t features;       /* what the model takes, in all */
    int64_t target;         /* column */
    double mean, deviation; /* of the target's numbers */
} table;

/* Reads o->csv, and o->test_csv, into s: x float32 [N, features]; y classes, or numbers less their mean and over their deviation.
   Without another file a tenth of the rows is held out.
   errors: NOT_FOUND for columns and texts that are not there; ARGUMENT and FORMAT, naming the column, for what cannot be taken; those
           of reading */
fac_status table_read(table *t, samples *s, const train_options *o);
void table_close(table *t);
/* Writes a line for each input of the model: its column, the text that it stands for or mean and deviation. */
fac_status table_write_columns(const table *t, const char *path);

#endif
