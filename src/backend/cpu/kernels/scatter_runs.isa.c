/* The loops of scattering, for every dtype and way of combining, compiled once per instruction set; those of short integers and of
   complex numbers, which gain little by the widest vectors, are those of AVX2 with AVX-512. Sums are made in the dtype itself. */
#include "backend/cpu/kernels/scatter_runs.h"
#include "backend/cpu/half.h"
#include "backend/cpu/kernels/items.h"

/* ---- one element: a = op(a, b) ----------------------------------------------------------------------------------------------- */

#define SET_ONE(name, T) \
    static inline void set_##name(T *a, T b) { *a = b; }
SET_ONE(item1, fac_item1)
SET_ONE(item2, fac_item2)
SET_ONE(item4, fac_item4)
SET_ONE(item8, fac_item8)
SET_ONE(item16, fac_item16)

/* Integers wrap around: they are combined unsigned, and wide enough that no product overflows an int. */
#define INTEGER_ONES(name, T, U)                                         \
    static inline void add_##name(T *a, T b) { *a = (T)((U)*a + (U)b); } \
    static inline void mul_##name(T *a, T b) { *a = (T)((U)*a * (U)b); } \
    static inline void max_##name(T *a, T b) { *a = b > *a ? b : *a; }   \
    static inline void min_##name(T *a, T b) { *a = b < *a ? b : *a; }
#if FAC_ISA_LEVEL < 2
INTEGER_ONES(u8, uint8_t, uint32_t)
INTEGER_ONES(i8, int8_t, uint32_t)
INTEGER_ONES(i16, int16_t, uint32_t)
#endif
INTEGER_ONES(i32, int32_t, uint32_t)
INTEGER_ONES(i64, int64_t, uint64_t)

/* A NaN on either side stays: tested apart, as it is rare and the comparison then is one instruction without a branch. */
#define FLOAT_ONES(name, T)                               \
    static inline void add_##name(T *a, T b) { *a += b; } \
    static inline void mul_##name(T *a, T b) { *a *= b; } \
    static inline void max_##name(T *a, T b) {            \
        const T more = b > *a ? b : *a;                   \
        *a = b != b ? b : more;                           \
    }                                                     \
    static inline void min_##name(T *a, T b) {            \
        const T less = b < *a ? b : *a;                   \
        *a = b != b ? b : less;                           \
    }
FLOAT_ONES(f32, float)
FLOAT_ONES(f64, double)

/* 16-bit floats are widened, added or multiplied, and rounded each time. */
static inline void add_f16(uint16_t *a, uint16_t b) { *a = fac_put_f16(fac_get_f16(*a) + fac_get_f16(b)); }
static inline void mul_f16(uint16_t *a, uint16_t b) { *a = fac_put_f16(fac_get_f16(*a) * fac_get_f16(b)); }
static inline void add_bf16(uint16_t *a, uint16_t b) { *a = fac_add_bf16(*a, b); }
static inline void mul_bf16(uint16_t *a, uint16_t b) { *a = fac_mul_bf16(*a, b); }
static inline void each_add_bf16(uint16_t *a, uint16_t b) {
    *a = fac__f32_to_bf16(fac__bf16_to_f32(*a) + fac__bf16_to_f32(b));
}
static inline void each_mul_bf16(uint16_t *a, uint16_t b) {
    *a = fac__f32_to_bf16(fac__bf16_to_f32(*a) * fac__bf16_to_f32(b));
}

/* Their order is that of integers: zeros are equal, and a NaN, whose magnitude is above infinity's, is `nan`. */
static inline int16_t half_order(uint16_t h, uint16_t infinity, int16_t nan) {
    const int16_t magnitude = (int16_t)(h & 0x7fff);
    const int16_t number = (int16_t)h < 0 ? (int16_t)-magnitude : magnitude;
    return magnitude > (int16_t)infinity ? nan : number;
}
#define HALF_EXTREMES(name, INFINITY_BITS)                                                                  \
    static inline void max_##name(uint16_t *a, uint16_t b) {                                                \
        const uint16_t was = *a;                                                                            \
        *a = half_order(b, INFINITY_BITS, INT16_MAX) > half_order(was, INFINITY_BITS, INT16_MAX) ? b : was; \
    }                                                                                                       \
    static inline void min_##name(uint16_t *a, uint16_t b) {                                                \
        const uint16_t was = *a;                                                                            \
        *a = half_order(b, INFINITY_BITS, INT16_MIN) < half_order(was, INFINITY_BITS, INT16_MIN) ? b : was; \
    }
HALF_EXTREMES(f16, 0x7c00)
HALF_EXTREMES(bf16, 0x7f80)

#if FAC_ISA_LEVEL < 2
#define COMPLEX_ONES(name, T)                                                                   \
    typedef struct name {                                                                       \
        T re, im;                                                                               \
    } name;                                                                                     \
    static inline void add_##name(name *a, name b) { *a = (name){a->re + b.re, a->im + b.im}; } \
    static inline void mul_##name(name *a, name b) {                                            \
        *a = (name){a->re * b.re - a->im * b.im, a->re * b.im + a->im * b.re};                  \
    }
COMPLEX_ONES(c64, float)
COMPLEX_ONES(c128, double)

static inline void add_bool(uint8_t *a, uint8_t b) { *a = *a || b; }
static inline void mul_bool(uint8_t *a, uint8_t b) { *a = *a && b; }
#endif

/* ---- runs ----------------------------------------------------------------------------------------------------------------------- */

/* Where the index is the same all along, the destination's step is one and the source's one or none, the loop vectorises: with `each`
   in place of `one`, if not by vectors of its own. */
#define NO_VECTORS(d, s, step, i, n)
#define F16_VECTORS(OP, d, s, step, i, n)                   \
    const fac_vf32 same = fac_splat_f32(fac_get_f16(*(s))); \
    for (; i + FAC_LANES_F32 <= (n); i += FAC_LANES_F32)    \
        fac_store_f16((d) + i, fac_load_f16((d) + i) OP((step) ? fac_load_f16((s) + i) : same));
#define F16_SUMS(d, s, step, i, n) F16_VECTORS(+, d, s, step, i, n)
#define F16_PRODUCTS(d, s, step, i, n) F16_VECTORS(*, d, s, step, i, n)

#define RUN_BY(one, T, each, VECTORS)                                                                          \
    static void run_##one(void *dst, int64_t dst_step, const int64_t *index, int64_t index_step, int64_t step, \
                          const void *src, int64_t src_step, int64_t n, fac_scatter_rows rows) {               \
        T *d = dst;                                                                                            \
        const T *s = src;                                                                                      \
        const bool vectors = index_step == 0 && dst_step == 1 && (src_step == 1 || src_step == 0),             \
                   within = dst_step == 0 && index_step == 1 && src_step == 1 && step == 1;                    \
        if (n <= 0) return;                                                                                    \
        for (; rows.n > 0; rows.n--, d += rows.dst, index += rows.index, s += rows.src) {                      \
            int64_t i = 0;                                                                                     \
            if (within)                                                                                        \
                for (; i < n; i++) one(&d[index[i]], s[i]);                                                    \
            else if (vectors) {                                                                                \
                T *to = d + *index * step;                                                                     \
                VECTORS(to, s, src_step, i, n)                                                                 \
                const T all = *s;                                                                              \
                if (src_step)                                                                                  \
                    for (; i < n; i++) each(&to[i], s[i]);                                                     \
                else                                                                                           \
                    for (; i < n; i++) each(&to[i], all);                                                      \
            } else if (index_step == 0) {                                                                      \
                T *to = d + *index * step;                                                                     \
                for (; i < n; i++) one(&to[i * dst_step], s[i * src_step]);                                    \
            } else                                                                                             \
                for (; i < n; i++) one(&d[i * dst_step + index[i * index_step] * step], s[i * src_step]);      \
        }                                                                                                      \
    }
#define RUN(one, T) RUN_BY(one, T, one, NO_VECTORS)
#define RUNS_2(name, T) RUN(add_##name, T) RUN(mul_##name, T)
#define RUNS_4(name, T) RUNS_2(name, T) RUN(max_##name, T) RUN(min_##name, T)
RUN(set_item1, fac_item1)
RUN(set_item2, fac_item2)
RUN(set_item4, fac_item4)
RUN(set_item8, fac_item8)
RUN(set_item16, fac_item16)
#if FAC_ISA_LEVEL < 2
RUNS_2(bool, uint8_t)
RUNS_2(c64, c64)
RUNS_2(c128, c128)
RUNS_4(u8, uint8_t)
RUNS_4(i8, int8_t)
RUNS_4(i16, int16_t)
#endif
RUNS_4(i32, int32_t)
RUNS_4(i64, int64_t)
RUN_BY(add_f16, uint16_t, add_f16, F16_SUMS)
RUN_BY(mul_f16, uint16_t, mul_f16, F16_PRODUCTS)
RUN(max_f16, uint16_t)
RUN(min_f16, uint16_t)
RUN_BY(add_bf16, uint16_t, each_add_bf16, NO_VECTORS)
RUN_BY(mul_bf16, uint16_t, each_mul_bf16, NO_VECTORS)
RUN(max_bf16, uint16_t)
RUN(min_bf16, uint16_t)
RUNS_4(f32, float)
RUNS_4(f64, double)

#define ROW_4(name) \
    { NULL, run_add_##name, run_mul_##name, run_max_##name, run_min_##name }
static const fac_scatter_run_fn runs[FAC_DTYPE_COUNT][FAC_SCATTER_OPS] = {
#if FAC_ISA_LEVEL < 2
    [FAC_BOOL] = {NULL, run_add_bool, run_mul_bool, run_add_bool,
                  run_mul_bool}, /* the larger is "or", the smaller "and" */
    [FAC_U8] = ROW_4(u8),
    [FAC_I8] = ROW_4(i8),
    [FAC_I16] = ROW_4(i16),
    [FAC_C64] = {NULL, run_add_c64, run_mul_c64, NULL, NULL},
    [FAC_C128] = {NULL, run_add_c128, run_mul_c128, NULL, NULL},
#endif
    [FAC_I32] = ROW_4(i32),
    [FAC_I64] = ROW_4(i64),
    [FAC_F16] = ROW_4(f16),
    [FAC_BF16] = ROW_4(bf16),
    [FAC_F32] = ROW_4(f32),
    [FAC_F64] = ROW_4(f64),
};

fac_scatter_run_fn FAC_ISA_NAME(fac__scatter_pick)(fac_dtype d, fac_scatter_op op) {
#if FAC_ISA_LEVEL >= 2
    if (op != FAC_SCATTER_SET && !runs[d][op]) return fac__scatter_pick_avx2(d, op);
#endif
    if (op != FAC_SCATTER_SET) return runs[d][op];
    switch (fac__dtype_size(d)) {
    case 1: return run_set_item1;
    case 2: return run_set_item2;
    case 4: return run_set_item4;
    case 8: return run_set_item8;
    default: return run_set_item16;
    }
}
