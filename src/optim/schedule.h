/* Inside of a schedule: numbers of its kind, numbers for each group, and how it steps. */
#ifndef FAC_SRC_OPTIM_SCHEDULE_H
#define FAC_SRC_OPTIM_SCHEDULE_H

#include "keywords_gen.h"
#include "optim/optimizer.h"
#include <facula/schedule.h>

enum { FAC_LR_NUMBERS = 12 };
/* Rows of one number for each group; a kind has its own from FAC_LR_OWN on. */
enum { FAC_LR_BASE, FAC_LR_LAST, FAC_LR_NEXT, FAC_LR_NEXT_MOMENTUM, FAC_LR_OWN };

typedef double (*fac_lr_rate)(const fac_lr_scheduler *s, size_t group);

typedef struct fac_lr_kind {
    const char *name;           /* "StepLR" */
    const char *const *numbers; /* settings and counters, as the state dict names them, NULL last; NULL: none */
    const char *const *rows;    /* numbers for each group, NULL last; NULL: none */
    fac_lr_rate rate;           /* the rate at last_epoch, from that of the step before */
    fac_lr_rate closed;         /* the same from the base rate alone; NULL: it has no such form */
    fac_lr_rate momentum;       /* momentum, or beta1, at last_epoch; NULL: it stays */
    /* Refuses numbers that make no sense, when a schedule is made or loaded. */
    fac_status (*check)(const fac_lr_scheduler *s);
    /* Counts one step, or goes to an epoch that is not NaN; NULL: last_epoch is counted. */
    fac_status (*advance)(fac_lr_scheduler *s, double epoch);
    fac_status (*step)(fac_lr_scheduler *s); /* of one that has parts, in place of all this */
    bool wants_metric;
} fac_lr_kind;

struct fac_lr_scheduler {
    const fac_lr_kind *kind;
    fac_optimizer *o;
    size_t n_groups;
    int64_t last_epoch, step_count;
    bool initial;             /* the step under way is that of making it */
    bool taken;               /* it is a part of another */
    double v[FAC_LR_NUMBERS]; /* in the order of the kind's names */
    double *rows;             /* [rows, n_groups] */
    size_t momentum;          /* which setting of the optimiser cycles */
    struct {
        int64_t *v;
        size_t n;
    } milestones;
    struct {
        fac_lr_scheduler **v; /* owned */
        size_t n;
    } parts;
    double (*factor)(void *context, size_t group, int64_t step);
    void *context;
    const fac_scale_fn *scale;
};

static inline double *fac__lr_row(const fac_lr_scheduler *s, size_t row) { return s->rows + row * s->n_groups; }
/* The rate that a group has. */
static inline double fac__lr_now(const fac_lr_scheduler *s, size_t group) { return s->o->groups.v[group].options[0]; }
static inline double fac__lr_base(const fac_lr_scheduler *s, size_t group) {
    return fac__lr_row(s, FAC_LR_BASE)[group];
}

/* ---- making (schedule.c) ---- */

/* Without a step taken; values are the first numbers of the kind. NULL on failure. */
fac_lr_scheduler *fac__lr_make(const fac_lr_kind *kind, fac_optimizer *o, const double *values, size_t n);
/* Fills a row: with `all`, or with one number for each group. errors: ARGUMENT if there is another number of them */
fac_status fac__lr_fill(fac_lr_scheduler *s, size_t row, double all, fac_floats each, const char *name);
fac_status fac__lr_take_milestones(fac_lr_scheduler *s, fac_ints milestones);
/* Finds the setting that cycles. errors: ARGUMENT if there is none */
fac_status fac__lr_find_momentum(fac_lr_scheduler *s);
/* Checks the numbers and takes the step that makes the first rates; releases s and returns NULL if st is an error or it fails. */
fac_lr_scheduler *fac__lr_begin(fac_lr_scheduler *s, fac_status st, int64_t last_epoch);
fac_status fac__lr_check(const fac_lr_scheduler *s);

/* ---- stepping (schedule.c) ---- */

/* One step, or to an epoch that is not NaN; on an error nothing changes, but in parts. */
fac_status fac__lr_step(fac_lr_scheduler *s, double epoch);
fac_status fac__lr_initial_step(fac_lr_scheduler *s);
/* Sets the rates at an epoch. */
fac_status fac__lr_update_at(fac_lr_scheduler *s, int64_t epoch);
/* The rates of the groups become the last that were set. */
void fac__lr_note(fac_lr_scheduler *s);

static inline bool fac__lr_is_whole(double x) { return x > -0x1p53 && x < 0x1p53 && x == (double)(int64_t)x; }

#endif
