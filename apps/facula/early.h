/* Stopping early: once the validation loss has not fallen for a while. */
#ifndef FACULA_APP_EARLY_H
#define FACULA_APP_EARLY_H

#include "checkpoint.h"

typedef struct early {
    int64_t patience;  /* validations in a row without a gain that end the training; 0: any number */
    double least_gain; /* by which the loss must fall to count */
    double best;       /* lowest loss; NaN: none yet */
    int64_t step;      /* after which it was measured */
    int64_t waited;    /* validations since */
} early;

/* Takes in the loss of a validation; true if it is the best one. */
bool early_take(early *e, int64_t step, double loss);
bool early_over(const early *e);
/* Its state in a checkpoint. */
void early_save(const early *e, notes *n);
void early_load(early *e, const notes *n);

#endif
