/* Inside of an optimiser: parameters in order, each with the buffers its kind keeps. */
#ifndef FAC_SRC_OPTIM_OPTIMIZER_H
#define FAC_SRC_OPTIM_OPTIMIZER_H

#include "ops_gen.h"
#include <facula/optim.h>

#define FAC_OPTIM_BUFFERS 3

typedef struct fac_optim_entry {
    fac_tensor *parameter;                  /* owned */
    fac_tensor *buffers[FAC_OPTIM_BUFFERS]; /* owned; NULL until the first step that needs them */
    int64_t step;                           /* steps taken */
    size_t group;
    /* Of the step under way. */
    fac_tensor *grad; /* borrowed from its scope or from the parameter; NULL: there is none */
    unsigned made;    /* bit i: buffer i was made for this step */
} fac_optim_entry;

typedef struct fac_optim_group {
    double lr, initial_lr, weight_decay;
    union {
        struct {
            double momentum, dampening;
            bool nesterov, maximize;
        } sgd;
        struct {
            double beta1, beta2, eps;
            bool amsgrad, maximize;
        } adam;
    } u;
} fac_optim_group;

/* A setting of a group, as it stands in the state dict. */
typedef struct fac_optim_option {
    const char *name; /* NULL ends a list */
    bool is_flag;     /* a bool; else a double */
    size_t offset;    /* in fac_optim_group */
} fac_optim_option;
#define FAC_OPTIM_NUMBER(name, field) \
    { name, false, offsetof(fac_optim_group, field) }
#define FAC_OPTIM_FLAG(name, field) \
    { name, true, offsetof(fac_optim_group, field) }

/* A kind of optimiser. */
typedef struct fac_optim_class {
    const char *name;
    const char *buffers[FAC_OPTIM_BUFFERS]; /* names in the state dict; NULL: not used */
    const fac_optim_option *options;        /* all settings of a group but the three that every kind has */
    bool decoupled;                         /* weight decay of Adam's kind */
    /* How many of its buffers a group needs. */
    int (*buffers_of)(const fac_optim_group *g);
    /* Updates one parameter by e->grad, which has the parameter's sizes, strides and dtype; the buffers are there. Called under
       no-grad, in a scope. Should not fail: others may have been updated. */
    fac_status (*step)(fac_optimizer *o, fac_optim_entry *e, const fac_optim_group *g);
} fac_optim_class;

struct fac_optimizer {
    const fac_optim_class *cls;
    struct {
        fac_optim_entry *v;
        size_t n, cap;
    } entries;
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

/* An optimiser over the parameters of m as group 0, with the settings of `g`; NULL on failure. */
fac_optimizer *fac__optim_new(const fac_optim_class *cls, fac_module *m, fac_optim_group g);
/* Makes buffer i of e, zeroed and laid out as the parameter, if it is not there. */
fac_status fac__optim_buffer(fac_optim_entry *e, int i);

#endif
