/* A run folder: what a training can be resumed from, bit for bit, and what it left to look at.

   checkpoint.safetensors  parameters ("model.*"), their mean ("ema.*"), the state of optimiser ("optim.*") and gradient scaler
                           ("scaler.*"), settings and counters as metadata
   best.safetensors        the parameters that validated best ("model.*"), with --patience
   log.tsv                 one row per step: see log.h
   loss.svg                the loss curve
   report.html             how the run went, on a page: see report.h
   columns.tsv             of a table: what the model's inputs are
   held_out.txt            the files of the text that were not trained on, and from which byte on
   .lock                   held by the training that writes here: see lock.h

   Checkpoint and curve are replaced as a whole; temporary files that a killed run left go when the next one begins. */
#ifndef FACULA_APP_CHECKPOINT_H
#define FACULA_APP_CHECKPOINT_H

#include <facula/facula.h>

#define CHECKPOINT_NAME "checkpoint.safetensors"
#define BEST_NAME "best.safetensors"
#define HELD_OUT_NAME "held_out.txt"
#define COLUMNS_NAME "columns.tsv"
#define REPORT_NAME "report.html"

/* Settings and counters by name, as text. */
typedef struct note {
    char key[40];
    char *value; /* owned */
} note;
typedef struct notes {
    note *v; /* owned */
    size_t n, cap;
} notes;

/* Setters replace; numbers are written so that they read back exactly. A pending error when memory is out. */
void notes_set(notes *n, const char *key, const char *value);
void notes_set_int(notes *n, const char *key, int64_t value);
void notes_set_double(notes *n, const char *key, double value);
/* Takes one away, if it is there. */
void notes_remove(notes *n, const char *key);
/* The value; NULL if there is none. */
const char *notes_get(const notes *n, const char *key);
/* The same, to be cut up by the caller. */
char *notes_edit(notes *n, const char *key);
/* The number; an error naming the key if it is missing or not one. */
int64_t notes_int(const notes *n, const char *key);
double notes_double(const notes *n, const char *key);
void notes_free(notes *n);

/* What a checkpoint is of; all but the model may be NULL. */
typedef struct checkpoint_parts {
    fac_module *model, *averaged;
    fac_optimizer *optimizer;
    fac_grad_scaler *scaler;
} checkpoint_parts;

/* Saves the parts and notes to DIR/name: atomically, with a checksum. The random generator's state goes with it. */
fac_status checkpoint_save(const char *dir, const char *name, const checkpoint_parts *parts, notes *n);
/* Reads only the notes. */
fac_status checkpoint_read_notes(const char *dir, notes *out);
/* Loads the parts and the random generator's state. Of the mean and the scaler there may be nothing in the file: they then begin
   here. */
fac_status checkpoint_load(const char *dir, const checkpoint_parts *parts);
/* Whether the file has a matrix of these sizes, without reading it: a model that is made by a file's settings should be no larger than
   the file. errors: FORMAT; those of reading */
fac_status checkpoint_check_matrix(const char *dir, const char *name, int64_t rows, int64_t columns);
/* Loads parameters to be used: their mean ("ema"), the last ones ("last"), or the mean if the run made one, else the last ones ("").
   errors: NOT_FOUND without a mean; those of reading; those of fac_module_load_state_dict */
fac_status checkpoint_load_model(const char *dir, const char *weights, fac_module *model);

/* "DIR/name" into buf; an error if it is too long. */
fac_status run_path(const char *dir, const char *name, char *buf, size_t size);
/* Makes the folder and those above it; *made gets the length of the shortest part of the path that was not there, 0 for none,
   whether or not all could be made. */
fac_status run_make_dir(const char *dir, size_t *made);
/* Removes the folder, which run_make_dir made, and those above it down to that length, as far as they are empty. A signal's
   handler may call it. */
void run_remove_dirs(const char *dir, size_t made);
/* Removes what killed runs left half written in the folder. The caller has its lock. */
fac_status run_sweep(const char *dir);

/* Opens a run's checkpoint, or the file itself that is named; close it with fac_safetensors_close. */
fac_safetensors *checkpoint_open(const char *dir);

#endif
