/* Looks for a zero among integers, on all threads until one finds it. */
#include "backend/cpu/kernels/zeros.h"
#include "backend/cpu/parallel.h"
#include <stdatomic.h>

typedef struct job {
    const char *data;
    size_t item;
    atomic_bool found;
} job;

static fac_status look(void *ctx, int64_t begin, int64_t end) {
    job *j = ctx;
    if (FAC_ISA_PICK(fac__some_zero)(j->data + begin * (int64_t)j->item, j->item, end - begin))
        atomic_store_explicit(&j->found, true, memory_order_relaxed);
    return FAC_OK;
}

fac_status fac__cpu_some_zero(const fac_tensor *t, bool *out) {
    job j = {.data = fac__data(t), .item = (size_t)fac__item_size(t)};
    FAC_TRY(fac__parallel_for(0, t->numel, 4 * FAC_GRAIN, look, &j));
    *out = atomic_load_explicit(&j.found, memory_order_relaxed);
    return FAC_OK;
}
