/* Parameters and buffers that are computed of others whenever their module runs: parametrised, normed and pruned
   ones. The slot of the tensor stays where it was, so that layers find it; what it is made of are slots and
   children beside it. */
#ifndef FAC_SRC_NN_COMPUTED_H
#define FAC_SRC_NN_COMPUTED_H

#include "nn/module.h"

/* How a tensor is made, in the innermost scope. `update`: in a run, so that a norm may go on with its iterations. */
typedef fac_tensor *(*fac_compute_fn)(fac_module *m, const fac_computed *c, bool update);

struct fac_computed {
    char *name;
    fac_compute_fn compute;
    bool buffer, persistent; /* what the slot was */
    int64_t dim, iterations; /* settings of norms */
    double eps;
};

/* Makes all computed tensors of m, or the present value of one: of a slot that is not computed, its tensor. */
fac_status fac__compute_all(fac_module *m, bool update);
fac_tensor *fac__slot_value(fac_module *m, fac_slot *s);
/* The entry of a name, NULL if that is not computed. */
fac_computed *fac__computed_of(const fac_module *m, const char *name);
/* Makes a slot a computed one, whose tensor stays for now; what it held is then the caller's to put elsewhere. */
fac_computed *fac__computed_begin(fac_module *m, fac_slot *s, fac_compute_fn compute);
/* Makes a computed slot a parameter or buffer again, with this tensor. */
void fac__computed_end(fac_module *m, const char *name, fac_tensor *t);
/* Begins, with the settings of `how`, where the parts of these suffixes (NULL last) have been added with status st; what has
   failed by then or fails here leaves the slot and the module as they were. */
fac_status fac__computed_start(fac_module *m, const char *name, const fac_computed *how, const char *const *suffixes,
                               fac_status st);
/* A parameter, or buffer, NAME_suffix of m, with the gradient's flag of t. */
fac_status fac__computed_part(fac_module *m, const char *name, const char *suffix, fac_tensor *t, bool buffer);
/* That part, with an error if it is not there; or taken out, the handle going to the caller. */
fac_tensor *fac__computed_part_of(fac_module *m, const char *name, const char *suffix);
fac_tensor *fac__computed_take(fac_module *m, const char *name, const char *suffix);
/* The parameter or buffer of a name that is not NULL; NULL with an error. `op` is for the message. */
fac_slot *fac__filled_slot(fac_module *m, const char *name, const char *op);

/* ---- for module.c and convert.c ---- */

void fac__computed_free(fac_module *m);
fac_status fac__computed_slot(fac_module *to, const char *name);
fac_status fac__computed_copy(fac_module *to, const fac_module *m);

#endif
