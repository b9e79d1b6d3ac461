/* Running the loops of pointwise operators from their kernels: the CPU's on the spot where it can, all others by ops/loop.h. */
#ifndef FAC_SRC_BACKEND_POINTWISE_POINTWISE_H
#define FAC_SRC_BACKEND_POINTWISE_POINTWISE_H

#include "backend/cpu/pointwise.h"
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
/* Runs a loop of quotients: a zero among divisors of integers is an error, and nothing of the caller's is overwritten. */
fac_status fac__divide(fac_structured *s, fac_loop_id id);

/* The dtype of a magnitude or an angle: real for complex numbers, else 0. */
static inline fac_dtype fac__part_of(const fac_structured *s) {
    fac_dtype d = s->iter.common;
    return fac_dtype_is_complex(d) ? fac__real_of(d) : 0;
}

#endif
