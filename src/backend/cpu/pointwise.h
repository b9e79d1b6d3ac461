/* Running inner loops over an iterator. */
#ifndef FAC_SRC_BACKEND_CPU_POINTWISE_H
#define FAC_SRC_BACKEND_CPU_POINTWISE_H

#include "backend/cpu/loops.h"
#include "backend/cpu/parallel.h"
#include "ops/structured.h"

#define FAC_STREAM_BYTES (INT64_C(24) << 20) /* outputs this large are written past the cache */

/* Runs `loop` over a finished iterator of CPU operands; want[i] is the dtype in which the loop takes operand i. Operands
   that lie otherwise pass through tiles in L1. loop NULL copies the one input to the one output. Outputs that share
   memory with inputs must coincide with them element by element. */
fac_status fac__cpu_run(const fac_iter *it, fac_loop loop, const uint8_t *want, const fac_loop_args *args);

/* A fac_pointwise_run: f16 and bf16 are computed in f32. */
fac_status fac__cpu_pointwise(const fac_structured *s, fac_loop_id id, fac_dtype out, const fac_loop_args *args);

/* Where the operands of one entry of a list lie. */
typedef struct fac_list_place {
    char *data[FAC_ITER_MAX]; /* as in an iterator */
    int64_t end;              /* of its elements in the range of all */
} fac_list_place;
/* Of n entries whose elements are one range, the one that has element i. `ends`: where the elements of the first end, in the range; those
   of the others follow `step` bytes apart. */
size_t fac__list_entry(const int64_t *ends, size_t step, size_t n, int64_t i);
/* Runs a loop over n entries, the elements of all being one range; `like` is a flat iterator over one of them.
   errors: DTYPE, as fac__cpu_pointwise */
fac_status fac__cpu_pointwise_list(const fac_iter *like, const fac_pointwise_plan *plan, const fac_list_place *places,
                                   size_t n);

/* True if a loop from dtype `in` to dtype `out` can take every operand as it lies, in one go. */
static inline bool fac__cpu_plain(const fac_iter *it, fac_dtype in, fac_dtype out) {
    if (!it->flat || it->nest.count > FAC_GRAIN || it->op[0].dtype != out) return false;
    int64_t item = fac__dtype_size(in);
    for (int i = 1; i < it->n; i++)
        if (it->op[i].dtype != in || it->nest.stride[i][0] != item) return false;
    return it->n_out == 1;
}

#endif
