/* Inside of an optimiser: groups with their settings, and parameters in order, each with the tensors its kind keeps. */
#ifndef FAC_SRC_OPTIM_OPTIMIZER_H
#define FAC_SRC_OPTIM_OPTIMIZER_H

#include "ops_gen.h"
#include <facula/optim.h>

enum { FAC_OPTIM_NAME = 48 }; /* room for the name of a setting or state */

typedef struct fac_optim_entry {
    fac_tensor *parameter;                      /* owned */
    fac_tensor *state[FAC_OPTIMIZER_MAX_STATE]; /* owned; NULL until the first step that needs them */
    int64_t step;                               /* steps taken */
    size_t group;
    /* Of the step under way. */
    fac_tensor *grad; /* borrowed from its scope or from the parameter; NULL: there is none */
    unsigned made;    /* bit i: state[i] was made for this step */
    size_t kept;      /* how many of the tensors its group keeps */
} fac_optim_entry;

typedef struct fac_optim_group {
    double initial_lr;
    double options[FAC_OPTIMIZER_MAX_OPTIONS]; /* in the order of the class: the first is the rate */
} fac_optim_group;

struct fac_optimizer {
    const fac_optimizer_class *cls;
    size_t n_options, n_state;
    double defaults[FAC_OPTIMIZER_MAX_OPTIONS]; /* what it was made with: of settings that a new group does not name */
    struct {
        fac_optim_entry *v;
        size_t n, cap;
    } entries; /* those of a group stand together */
    struct {
        fac_optim_group *v;
        size_t n, cap;
    } groups;
    struct {
        fac_tensor **v;
        size_t n, cap;
    } list;      /* what fac_optimizer_parameters lends: handles of the entries' parameters */
    fac_set set; /* the same, to find one that is given twice */
};

/* An optimiser over the parameters of m, or of a list, as group 0; `values` are all settings of the class. NULL on failure. */
fac_optimizer *fac__optim_new(const fac_optimizer_class *cls, fac_module *m, const double *values);
fac_optimizer *fac__optim_of(const fac_optimizer_class *cls, fac_tensors parameters, const double *values);
/* Makes state i of e, zeroed and laid out as the parameter, if it is not there. */
fac_status fac__optim_make_state(fac_optim_entry *e, size_t i);

/* Refuses a sparse gradient that a built-in class cannot take with these settings; other classes see for themselves. */
fac_status fac__optim_check_sparse(const fac_optimizer_class *cls, const double *options);

/* ---- settings (options.c) ---- */

static inline double fac__optim_lr(const fac_optim_group *g) { return g->options[0]; }
/* Refuses a class that is incomplete; counts its settings and tensors. */
fac_status fac__optim_check_class(const fac_optimizer_class *cls, size_t *out_options, size_t *out_state);
/* Refuses settings that make no sense to the class. */
fac_status fac__optim_check_options(const fac_optimizer *o, const double *options);
/* The field of a setting, "initial_lr" included; NULL, without an error, if there is none of that name. */
double *fac__optim_field(const fac_optimizer *o, fac_optim_group *g, const char *name);
/* Settings as named by a caller, over those in g; checked. "initial_lr" is the rate unless it is given. */
fac_status fac__optim_take_options(const fac_optimizer *o, fac_optim_group *g, fac_options options);

#endif
