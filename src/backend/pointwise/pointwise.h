/* Running the loops of pointwise operators from their kernels: the CPU's on the spot where it can, all others by ops/loop.h. */
#ifndef FAC_SRC_BACKEND_POINTWISE_POINTWISE_H
#define FAC_SRC_BACKEND_POINTWISE_POINTWISE_H

#include "backend/cpu/pointwise.h"
#include "ops/foreach.h"
#include "ops/structured.h"

/* Runs a loop over s->iter. `out` is the dtype that the loop writes, 0 the one that it reads. What the CPU's loops take as it
   lies runs right here. */
static inline fac_status fac__pointwise(const fac_structured *s, fac_loop_id id, fac_dtype out,
                                        const fac_loop_args *args) {
    const fac_iter *it = &s->iter;
    FAC_INVARIANT(fac__loop_fits(it, id));
    fac_loop loop = fac__loops[id][it->common];
    const bool here = it->device.type == FAC_CPU && loop && fac__cpu_plain(it, it->common, out ? out : it->common);
    if (!FAC_LIKELY(here)) return fac__pointwise_run(s, id, out, args);
    char *p[FAC_ITER_MAX];
    for (int i = 0; i < it->n; i++) p[i] = it->op[i].data;
    loop(p, it->nest.count, args);
    return FAC_OK;
}
/* A loop over a list of tensors, found by asking the operator what it would run over the first entry. */
typedef struct fac_pointwise_list {
    fac_pointwise_plan plan;
    fac_iter iter;     /* over the first entry */
    bool flat;         /* whether that lies as one row, and is served */
    fac_tensor *first; /* the first entry's result, which is owned; not computed yet */
} fac_pointwise_list;
/* Runs it over all entries in one pass. Results go to `out`, or, where that is NULL, over the first list, whose versions are counted on.
   Takes l->first. False, and nothing is done, if the loop does not serve a list. */
bool fac__pointwise_list(fac_pointwise_list *l, const fac_foreach *each, fac_tensor_list *out, fac_status *out_st);
/* Runs a loop of quotients: a zero among divisors of integers is an error, and nothing of the caller's is overwritten. */
fac_status fac__divide(fac_structured *s, fac_loop_id id);

/* The dtype of a magnitude or an angle: real for complex numbers, else 0. */
static inline fac_dtype fac__part_of(const fac_structured *s) {
    fac_dtype d = s->iter.common;
    return fac_dtype_is_complex(d) ? fac__real_of(d) : 0;
}

#endif
