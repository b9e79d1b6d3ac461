/* Inside of an optimiser: groups with their settings, and parameters in order, each with the tensors its kind keeps. */
#ifndef FAC_SRC_OPTIM_OPTIMIZER_H
#define FAC_SRC_OPTIM_OPTIMIZER_H

#include "ops_gen.h"
#include <facula/optim.h>

enum { FAC_OPTIM_NAME = 48 }; /* room for the name of a setting or state */

typedef struct fac_optim_entry {
    fac_tensor *parameter;                      /* owned */
    fac_tensor *master;                         /* owned: a float32 copy that is updated in its place; or NULL */
    fac_tensor *state[FAC_OPTIMIZER_MAX_STATE]; /* owned; NULL until the first step that needs them */
    int64_t step;                               /* steps taken */
    size_t group;
    /* Of the step under way. */
    fac_tensor *grad; /* borrowed from its scope or from the parameter; NULL: there is none */
    unsigned made;    /* bit i: state[i] was made for this step */
    unsigned kept;    /* bit i: its group keeps state[i] */
    bool made_master; /* for this step */
} fac_optim_entry;

/* What is updated: the parameter, or the copy that stands for it. */
static inline fac_tensor *fac__optim_target(const fac_optim_entry *e) { return e->master ? e->master : e->parameter; }

typedef struct fac_optim_group {
    double initial_lr;
    double options[FAC_OPTIMIZER_MAX_OPTIONS]; /* in the order of the class: the first is the rate */
} fac_optim_group;

typedef struct fac_optim_kind fac_optim_kind;

struct fac_optimizer {
    const fac_optimizer_class *cls;
    const fac_optim_kind *kind; /* NULL: a class of the program's own */
    void *whole;                /* what a kind keeps for all parameters together; freed by it */
    bool masters;               /* halves have masters */
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

/* ---- tensors of a parameter (step.c) ---- */

/* What state i of a parameter, or of its master, is like; `strides` NULL: row-major. */
typedef struct fac_optim_form {
    int64_t sizes[FAC_MAX_DIMS];
    const int64_t *strides;
    int ndim;
    fac_dtype dtype;
    fac_device device;
} fac_optim_form;
/* False: none is kept. */
bool fac__optim_form(const fac_optimizer *o, const fac_tensor *target, const double *options, size_t i,
                     fac_optim_form *out);
/* Makes state i of e, zeroed, if it is not there. */
fac_status fac__optim_make_state(const fac_optimizer *o, fac_optim_entry *e, size_t i);
/* Makes the master of e as a copy of the parameter, if there should be one and is not. */
bool fac__optim_wants_master(const fac_optimizer *o, const fac_tensor *parameter);
fac_status fac__optim_make_master(const fac_optimizer *o, fac_optim_entry *e);

/* ---- settings (options.c) ---- */

static inline double fac__optim_lr(const fac_optim_group *g) { return g->options[0]; }
/* Refuses a class that is incomplete; counts its settings and tensors. */
fac_status fac__optim_check_class(const fac_optimizer_class *cls, size_t *out_options, size_t *out_state);
/* Refuses settings that make no sense to the class. */
fac_status fac__optim_check_options(const fac_optimizer *o, const double *options);
/* The same for settings whose rate a schedule has made, which may be negative, and 0 where a class wants more. */
fac_status fac__optim_check_others(const fac_optimizer *o, const double *options);
/* The field of a setting, "initial_lr" included; NULL, without an error, if there is none of that name. */
double *fac__optim_field(const fac_optimizer *o, fac_optim_group *g, const char *name);
/* Settings as named by a caller, over those in g; checked. "initial_lr" is the rate unless it is given. */
fac_status fac__optim_take_options(const fac_optimizer *o, fac_optim_group *g, fac_options options);

#endif
