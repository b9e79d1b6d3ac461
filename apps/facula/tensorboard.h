/* Writes event files that TensorBoard reads: scalars by name and step. */
#ifndef FACULA_APP_TENSORBOARD_H
#define FACULA_APP_TENSORBOARD_H

#include <facula/facula.h>
#include <stdio.h>

typedef struct board {
    FILE *f;    /* NULL: nothing is written */
    char *path; /* owned */
} board;

typedef struct board_scalar {
    const char *tag; /* "loss/training" */
    double value;    /* NaN: left out */
} board_scalar;

/* Opens a new file in the folder, which is made if it is not there. first_step: the step that a run which goes on begins behind;
   TensorBoard then drops what earlier files have of later steps. -1: it begins.
   errors: IO; ARGUMENT for a path that is too long */
fac_status board_open(board *b, const char *dir, int64_t first_step);
/* Writes up to 16 scalars of a step as one event. */
fac_status board_put(board *b, int64_t step, const board_scalar *v, size_t n);
/* Returns once all is in the file. */
fac_status board_flush(board *b);
void board_close(board *b);

#endif
