/* Softmax, norms and losses: what works on rows. Accumulates in float for 16- and 32-bit floats, else in double. */
#include "bounds.h"
#include "number.h"

#define K_ITEM(dtype) ((dtype) == K_F64 ? 8 : (dtype) == K_F32 ? 4 : 2)

#define FAC_T float
#define FAC_FN(name) k_##name##_f32
#define K_NAME(name) rows_##name##_f32
#define K_LOAD k_load_f32
#define K_STORE k_store_f32
#define K_EXP expf
#define K_LOG logf
#include "rows_body.h"

#define FAC_T double
#define FAC_FN(name) k_##name##_f64
#define K_NAME(name) rows_##name##_f64
#define K_LOAD k_load_f64
#define K_STORE k_store_f64
#define K_EXP exp
#define K_LOG log
#include "rows_body.h"

#undef K_ITEM

/* Sums of what rows_nll wrote, by one block: the loss, divided by the weight for a mean, and the weight. */
KERNEL(rows_nll_finish, (OUT, char, out), (OUT, char, total), (IN, double, loss), (IN, double, weight),
       (VAL, int64_t, n), (VAL, int, dtype), (VAL, int, mean)) {
    double losses = 0, weights = 0;
    for (int64_t i = threadIdx.x; i < n; i += blockDim.x) {
        losses += loss[i];
        weights += weight[i];
    }
    losses = k_over_block_f64(losses, false);
    weights = k_over_block_f64(weights, false);
    if (threadIdx.x) return;
    k_store_f64(out, dtype, mean ? losses / weights : losses);
    k_store_f64(total, dtype, weights);
}
