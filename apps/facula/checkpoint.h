/* A run folder: what a training can be resumed from, bit for bit, and what it left to look at.

   checkpoint.safetensors  parameters ("model.*"), optimiser state ("optim.*"), settings and counters as metadata
   log.tsv                 one row per step: see log.h
   loss.svg                the loss curve
   held_out.txt            the files of the text that were not trained on, and from which byte on
   .lock                   held by the training that writes here: see lock.h

   Checkpoint and curve are replaced as a whole; temporary files that a killed run left go when the next one begins. */
#ifndef FACULA_APP_CHECKPOINT_H
#define FACULA_APP_CHECKPOINT_H

#include <facula/facula.h>

enum { CHECKPOINT_MAX_NOTES = 64 };
#define CHECKPOINT_NAME "checkpoint.safetensors"
#define HELD_OUT_NAME "held_out.txt"

/* Settings and counters by name, as text. */
typedef struct notes {
    struct note {
        char key[40];
        char *value; /* owned */
    } v[CHECKPOINT_MAX_NOTES];
    size_t n;
} notes;

/* Setters replace; numbers are written so that they read back exactly. A pending error when memory is out. */
void notes_set(notes *n, const char *key, const char *value);
void notes_set_int(notes *n, const char *key, int64_t value);
void notes_set_double(notes *n, const char *key, double value);
/* The value; NULL if there is none. */
const char *notes_get(const notes *n, const char *key);
/* The same, to be cut up by the caller. */
char *notes_edit(notes *n, const char *key);
/* The number; an error naming the key if it is missing or not one. */
int64_t notes_int(const notes *n, const char *key);
double notes_double(const notes *n, const char *key);
void notes_free(notes *n);

/* Saves model, optimiser (may be NULL) and notes to DIR/checkpoint.safetensors: atomically, with a checksum. The random
   generator's state goes with it. */
fac_status checkpoint_save(const char *dir, fac_module *model, fac_optimizer *optimizer, notes *n);
/* Reads only the notes. */
fac_status checkpoint_read_notes(const char *dir, notes *out);
/* Loads model, optimiser (may be NULL: its state is skipped) and the random generator's state. */
fac_status checkpoint_load(const char *dir, fac_module *model, fac_optimizer *optimizer);

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

/* Opens a run's checkpoint; close it with fac_safetensors_close. */
fac_safetensors *checkpoint_open(const char *dir);

#endif
