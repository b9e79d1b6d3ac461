/* What LBFGS and its line search share. */
#ifndef FAC_SRC_OPTIM_LBFGS_H
#define FAC_SRC_OPTIM_LBFGS_H

#include "optim/kind.h"

/* One step under way. Vectors are of all parameters one after another. */
typedef struct fac_lbfgs_step {
    fac_optimizer *o;
    fac_tensor *(*closure)(void *context);
    void *context;
    bool maximize;
} fac_lbfgs_step;

/* A place on the line along a direction. */
typedef struct fac_lbfgs_point {
    double t, loss, slope;
    fac_tensor *grad; /* owned */
} fac_lbfgs_point;

/* Puts t into *slot with a reference of its own; nothing happens if t is NULL. */
void fac__lbfgs_hold(fac_tensor **slot, fac_tensor *t);
/* The loss and the gradient where the parameters are; *grad is owned. */
fac_status fac__lbfgs_evaluate(const fac_lbfgs_step *s, double *loss, fac_tensor **grad);
/* parameters += t * direction */
fac_status fac__lbfgs_move(const fac_lbfgs_step *s, double t, fac_tensor *direction);
double fac__lbfgs_dot(fac_tensor *a, fac_tensor *b);
/* The largest absolute element. */
double fac__lbfgs_most(fac_tensor *a);
/* Looks along d, from where the parameters are and stay, for a place that fulfils the strong Wolfe conditions, beginning with
   point->t; point->loss, slope and grad are those at t = 0 before, and of the place found after. */
fac_status fac__lbfgs_search(const fac_lbfgs_step *s, fac_tensor *d, int64_t most, fac_lbfgs_point *point,
                             int64_t *evals);

#endif
