/* Inner loops of recurrent layers for float and double: rnn_body.h once for each. */
#include "backend/cpu/kernels/rnn.h"
#include "backend/cpu/kernels/simd_math.h"
#include "backend/cpu/simd.h"

#if FAC_VECTOR_BYTES == 64
#define MR 6 /* 24 accumulators, four vectors of weights and one of the state: 29 of 32 registers */
#else
#define MR 2 /* 8 + 4 + 1 of 16 */
#endif
#define VECTORS 4 /* of a strip, at most */

/* The logistic function; beyond 60 it is that of 60, 1e-26 away from its limit. */
static inline float sigmoid_f32(float x) {
    const float low = x < -60 ? -60 : x, near = low > 60 ? 60 : low;
    return 1 / (1 + FAC_ISA_NAME(fac__exp_near)(-near));
}
static inline double sigmoid_f64(double x) { return 1 / (1 + FAC_SIMD(exp, f64)(-x)); }
static inline float tanh_f32(float x) { return FAC_SIMD(tanh, f32)(x); }
static inline double tanh_f64(double x) { return FAC_SIMD(tanh, f64)(x); }

#define T float
#define V fac_vf32
#define LANES FAC_LANES_F32
#define LOAD fac_load_f32
#define STORE fac_store_f32
#define SPLAT fac_splat_f32
#define FMA fac_fma_f32
#define N(name) FAC_PASTE(name, _f32)
#include "backend/cpu/kernels/rnn_body.h"
#undef T
#undef V
#undef LANES
#undef LOAD
#undef STORE
#undef SPLAT
#undef FMA
#undef N

#define T double
#define V fac_vf64
#define LANES FAC_LANES_F64
#define LOAD fac_load_f64
#define STORE fac_store_f64
#define SPLAT fac_splat_f64
#define FMA fac_fma_f64
#define N(name) FAC_PASTE(name, _f64)
#include "backend/cpu/kernels/rnn_body.h"

static void pack(fac_dtype dtype, const fac_rnn_weights *w, const void *m, int64_t k_step, int64_t column_step,
                 int64_t first, int64_t end) {
    if (dtype == FAC_F64)
        pack_f64(w, m, k_step, column_step, first, end);
    else
        pack_f32(w, m, k_step, column_step, first, end);
}

static void step(const fac_rnn_step *s) {
    if (s->dtype == FAC_F64)
        step_f64(s);
    else
        step_f32(s);
}

static void column_sums(fac_dtype dtype, int64_t rows, int64_t n, const void *m, int64_t ld, void *sums, void *block) {
    if (dtype == FAC_F64)
        column_sums_f64(rows, n, m, ld, sums, block);
    else
        column_sums_f32(rows, n, m, ld, sums, block);
}

const fac_rnn_kernels *FAC_ISA_NAME(fac__rnn_kernels)(void) {
    static const fac_rnn_kernels table = {
        .lanes_f32 = FAC_LANES_F32,
        .lanes_f64 = FAC_LANES_F64,
        .pack = pack,
        .step = step,
        .column_sums = column_sums,
    };
    return &table;
}
