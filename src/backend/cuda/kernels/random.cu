/* Random numbers: element i of a draw, in row-major order whatever the strides are, is the function of (seed, offset, i) that
   core/philox.h defines, so that the bits are the CPU's. */
#include "number.h"
#include "plan.h"

#define FAC_PHILOX_FN KDEV
#include "core/philox.h"

enum { K_UNIFORM, K_NORMAL, K_BERNOULLI, K_INTEGERS, K_EXPONENTIAL };

/* p.op[0]: what is filled, its dimensions in logical order, the last one first; p.op[1]: a parameter per element, or a number.
   kind: what is drawn with the parameters p.f[0], p.f[1]; bits: of a uniform number below double. */
KERNEL(random_fill, (VAL, k_plan, p), (VAL, int, kind), (VAL, uint64_t, seed), (VAL, uint64_t, offset),
       (VAL, int, bits)) {
    const int dtype = p.op[0].dtype;
    const float a = (float)p.f[0], b = (float)p.f[1];
    KLOOP(i, p.numel) {
        int64_t at[2];
        k_offsets(&p, 2, i, at);
        char *out = p.op[0].data + at[0];
        if (kind == K_UNIFORM && dtype != K_F64) {
            const float unit = 1.0f / (float)(1 << bits), span = b - a;
            const uint32_t word = fac__random_u32(seed, offset, i);
            k_store_f32(out, dtype, fmaf((float)(int32_t)(word >> (32 - bits)) * unit, span, a));
        } else if (kind == K_UNIFORM) {
            k_store_f64(out, dtype, fma(fac__uniform_f64(fac__random_u64(seed, offset, i)), p.f[1] - p.f[0], p.f[0]));
        } else if (kind == K_NORMAL && dtype != K_F64) {
            k_store_f32(out, dtype, fmaf(fac__normal_f32(seed, offset, i), b, a));
        } else if (kind == K_NORMAL) {
            k_store_f64(out, dtype, fma(fac__normal_f64(seed, offset, i), p.f[1], p.f[0]));
        } else if (kind == K_BERNOULLI) {
            const double chance = p.op[1].data ? k_load_f64(p.op[1].data + at[1], p.op[1].dtype) : p.op[1].number[0];
            k_store_i64(out, dtype, fac__bernoulli(fac__random_u32(seed, offset, i), fac__bernoulli_threshold(chance)));
        } else if (kind == K_INTEGERS) {
            const uint64_t word = fac__random_u64(seed, offset, i), span = (uint64_t)p.i[1];
            k_store_i64(out, dtype, (int64_t)((uint64_t)p.i[0] + (span ? fac__below_u64(word, span) : word)));
        } else {
            const double x = -fac__log_unit_f64(fac__uniform_open_f64(fac__random_u64(seed, offset, i)));
            k_store_f64(out, dtype, (x > 0 ? x : 0x1p-54) / p.f[0]);
        }
    }
}

/* out = keep ? x * scale : 0, keep drawn with the probability threshold / 2^32; rows without gaps. */
KERNEL(random_dropout, (OUT, char, out), (OUT, uint8_t, keep), (IN, char, x), (VAL, int64_t, n), (VAL, int, dtype),
       (VAL, uint64_t, seed), (VAL, uint64_t, offset), (VAL, uint64_t, threshold), (VAL, double, scale)) {
    const int64_t item = dtype == K_F64 ? 8 : dtype == K_F32 ? 4 : 2;
    KLOOP(i, n) {
        const bool kept = fac__bernoulli(fac__random_u32(seed, offset, i), threshold);
        keep[i] = kept;
        if (dtype == K_F64)
            k_store_f64(out + i * item, dtype, kept ? k_load_f64(x + i * item, dtype) * scale : 0.0);
        else
            k_store_f32(out + i * item, dtype, kept ? k_load_f32(x + i * item, dtype) * (float)scale : 0.0f);
    }
}
KERNEL(random_dropout_backward, (OUT, char, dx), (IN, char, g), (IN, uint8_t, keep), (VAL, int64_t, n),
       (VAL, int, dtype), (VAL, double, scale)) {
    const int64_t item = dtype == K_F64 ? 8 : dtype == K_F32 ? 4 : 2;
    KLOOP(i, n) {
        if (dtype == K_F64)
            k_store_f64(dx + i * item, dtype, keep[i] ? k_load_f64(g + i * item, dtype) * scale : 0.0);
        else
            k_store_f32(dx + i * item, dtype, keep[i] ? k_load_f32(g + i * item, dtype) * (float)scale : 0.0f);
    }
}
