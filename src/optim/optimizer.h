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
} fac_optim_entry;

typedef struct fac_optim_group {
    double lr, initial_lr, weight_decay;
} fac_optim_group;

/* A kind of optimiser. */
typedef struct fac_optim_class {
    const char *name;
    const char *buffers[FAC_OPTIM_BUFFERS]; /* names in the state dict; NULL: not used */
    /* Updates one parameter; grad has the parameter's sizes and strides. Called under no-grad, in a scope. */
    fac_status (*step)(fac_optimizer *o, fac_optim_entry *e, const fac_optim_group *g, fac_tensor *grad);
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
    fac_tensor **list; /* what fac_optimizer_parameters lends; rebuilt when a group is added */
    union {
        struct {
            double momentum, dampening;
            bool nesterov, maximize;
        } sgd;
        struct {
            double beta1, beta2, eps;
            bool amsgrad, maximize, decoupled;
        } adam;
    } u;
};

/* An optimiser over the parameters of m as group 0; NULL on failure. */
fac_optimizer *fac__optim_new(const fac_optim_class *cls, fac_module *m, double lr, double weight_decay);
/* Makes buffer i of e, zeroed and laid out as the parameter, if it is not there. */
fac_status fac__optim_buffer(fac_optim_entry *e, int i);

#endif
