/* A table for training: which columns the model takes and how, and what it is to predict. */
#ifndef FACULA_APP_TABLE_H
#define FACULA_APP_TABLE_H

#include "names.h"
#include "samples.h"

/* A column that the model takes: as a number, less its mean and over its deviation, or as one number for each of its texts, which is
   1 for that of the row and 0 for the others. */
typedef struct table_input {
    char *name;             /* owned */
    name_list kinds;        /* texts, sorted by their bytes; none: a number */
    double mean, deviation; /* of the rows to train on */
    int64_t column;         /* of the training file */
    double *values;         /* owned while the table is read: of all rows of the training file */
} table_input;

typedef struct table {
    fac_csv *file;       /* owned: the training file; NULL in a table that a run kept */
    table_input *inputs; /* owned */
    size_t n_inputs;
    int64_t features;       /* what the model takes, in all */
    int64_t target;         /* column */
    name_list classes;      /* of the target, sorted by their bytes; none: it has numbers */
    double mean, deviation; /* of the target's numbers */
} table;

/* Reads o->csv, and o->test_csv, into s: x float32 [N, features]; y classes, or numbers less their mean and over their deviation.
   Without another file a tenth of the rows is held out.
   errors: NOT_FOUND for columns and texts that are not there; ARGUMENT and FORMAT, naming the column, for what cannot be taken; those
           of reading */
fac_status table_read(table *t, samples *s, const train_options *o);
void table_close(table *t);
/* Reads a table; an empty one is refused. The caller closes it. errors: those of fac_csv_open; ARGUMENT */
fac_csv *table_open(const char *path, const train_options *o);
/* What the model takes of a file: float32 [rows, features], kept. `path` is the file's name in errors.
   errors: NOT_FOUND for a column that is not there and for text that the training did not see; FORMAT for what is no number */
fac_tensor *table_inputs(const table *t, fac_csv *f, const char *path, const train_options *o);
/* Keeps inputs and target in the notes; takes them from there into an empty table, which the caller closes in any case.
   errors: MEMORY; FORMAT for notes that hold no table, or a damaged one */
fac_status table_keep(const table *t, notes *n);
fac_status table_of_notes(table *t, const notes *n);
/* Writes a line for each input of the model: its column, the text that it stands for or mean and deviation. */
fac_status table_write_columns(const table *t, const char *path);

#endif
