/* How many steps a training has, and its learning rate at each of them. The rate is a function of the step alone, so that a run that
   goes on needs no more than its step. With the trapezoid - a warm-up, a plateau, and a line down to zero over the last part - it does
   not depend on the number of steps until the decline begins, so that a training which is given a time may find out meanwhile how
   many steps fit; it is then the same, bit for bit, as one that was given that number. */
#ifndef FACULA_APP_PLAN_H
#define FACULA_APP_PLAN_H

#include <stdbool.h>
#include <stdint.h>

typedef enum plan_shape {
    PLAN_TRAPEZOID,
    PLAN_CONSTANT,
    PLAN_COSINE,
    PLAN_LINEAR,
    PLAN_STEP,
    PLAN_ONE_CYCLE
} plan_shape;
#define PLAN_CHOICES "trapezoid|constant|cosine|linear|step|one-cycle"
/* The shape of a name among these. */
plan_shape plan_kind(const char *name);
/* Whether its rates depend on the number of steps from the first one on. */
bool plan_needs_steps(plan_shape shape);

typedef struct plan {
    plan_shape shape;
    double peak; /* rate */
    int64_t warmup;
    double floor;  /* what cosine and line end at */
    int64_t every; /* steps after which PLAN_STEP multiplies the rate by gamma */
    double gamma;
    int64_t steps;  /* 0: not known yet */
    double seconds; /* the time, where steps is 0 */
} plan;

/* Learning rate of the step after `step` steps. */
double plan_rate(const plan *p, int64_t step);
/* Decides the number of steps, if it is not known and a quarter of the time has `elapsed`: after `step` steps, of which `rate` are
   done in a second now; `reserve` seconds will be needed at the end. Returns whether it did. */
bool plan_decide(plan *p, int64_t step, double rate, double elapsed, double reserve);
/* The least time that a run needs in all whose number of steps is decided after `elapsed` seconds of it: its rate must still fall. */
double plan_least_seconds(double elapsed);
/* The number of steps, or what it looks like. */
int64_t plan_expect(const plan *p, int64_t step, double rate, double elapsed);

#endif
