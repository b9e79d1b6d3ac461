/* The table of inner loops: one contiguous loop per operation and dtype, for the instruction set chosen at start. */
#ifndef FAC_SRC_BACKEND_CPU_LOOPS_H
#define FAC_SRC_BACKEND_CPU_LOOPS_H

#include "backend/cpu/cpu.h"

/* Numbers that accompany a loop, in both guises: a loop of a floating dtype reads f (complex: two each), others i. */
typedef struct fac_loop_args {
    double f[4];
    int64_t i[2];
    atomic_bool *zero_divisor; /* set by integer division when it meets one */
} fac_loop_args;

/* p: the outputs' then the inputs' first elements; n elements each, without gaps, in the dtypes the loop is for. An
   output may be the same memory as an input; otherwise they do not overlap. */
typedef void (*fac_loop)(char *const *p, int64_t n, const fac_loop_args *args);

/* clang-format off */
/* out <- f(in), which takes longer than memory does */
#define FAC_LOOPS_MATH(X)                                                                                              \
    X(exp) X(exp2) X(expm1) X(log) X(log2) X(log10) X(log1p) X(sin) X(cos) X(tan) X(asin) X(acos) X(atan) X(sinh)      \
    X(cosh) X(tanh) X(asinh) X(acosh) X(atanh) X(erf) X(erfc) X(sinc)
/* out <- f(in) */
#define FAC_LOOPS_UNARY(X)                                                                                             \
    X(abs) X(neg) X(sign) X(ceil) X(floor) X(round) X(trunc) X(reciprocal) X(sqrt) X(rsqrt) X(square) X(cube) X(bitwise_not)   \
    X(sgn) X(angle) X(conj) X(isnan) X(isinf) X(isfinite) X(logical_not) FAC_LOOPS_MATH(X)
/* out <- f(in, numbers) */
#define FAC_LOOPS_ACTIVATION(X)                                                                                        \
    X(relu) X(sigmoid) X(log_sigmoid) X(silu) X(mish) X(hardswish) X(hardsigmoid) X(gelu) X(gelu_tanh) X(elu)           \
    X(leaky_relu) X(hardtanh) X(softplus) X(threshold) X(prelu)                                                                 \
    X(sigmoid_backward) X(tanh_backward) X(silu_backward) X(mish_backward) X(hardswish_backward)                       \
    X(hardsigmoid_backward) X(gelu_backward) X(gelu_tanh_backward) X(elu_backward) X(leaky_relu_backward)              \
    X(hardtanh_backward) X(softplus_backward) X(threshold_backward) X(log_sigmoid_backward) X(prelu_backward)
/* out <- f(a, b) */
#define FAC_LOOPS_BINARY(X)                                                                                            \
    X(add) X(add_alpha) X(sub) X(mul) X(div) X(div_trunc) X(div_floor) X(fmod) X(remainder) X(pow) X(atan2) X(hypot)   \
    X(maximum) X(minimum) X(bitwise_and) X(bitwise_or) X(bitwise_xor) X(shift_left) X(shift_right)                     \
    X(logical_and) X(logical_or) X(logical_xor) X(eq) X(ne) X(lt) X(le) X(gt) X(ge)
/* out <- f(a, b, c) */
#define FAC_LOOPS_TERNARY(X) X(where) X(clamp) X(lerp) X(addcmul) X(addcdiv)
/* clang-format on */

#define FAC_LOOP_ID_(name) FAC_LOOP_##name,
typedef enum fac_loop_id {
    FAC_LOOPS_UNARY(FAC_LOOP_ID_) FAC_LOOPS_ACTIVATION(FAC_LOOP_ID_) FAC_LOOPS_BINARY(FAC_LOOP_ID_)
        FAC_LOOPS_TERNARY(FAC_LOOP_ID_) FAC_LOOP_COUNT
} fac_loop_id;

/* NULL where an operation has no loop for a dtype. f16 and bf16 mostly have none: they are computed in f32. */
extern fac_loop fac__loops[FAC_LOOP_COUNT][FAC_DTYPE_COUNT];

/* Conversion of n contiguous elements; defined for every pair of dtypes. Floats become integers as core/truncate.h says;
   integers wrap. A complex number loses its imaginary part. */
typedef void (*fac_cast)(void *dst, const void *src, int64_t n);
extern fac_cast fac__casts[FAC_DTYPE_COUNT][FAC_DTYPE_COUNT]; /* [to][from] */

/* Copies bytes past the cache; the caller fences with fac__stream_fence when done. */
typedef void (*fac_stream_copy)(char *dst, const char *src, int64_t bytes);
extern fac_stream_copy fac__stream_copy;
void fac__stream_fence(void);

/* Each instruction set's contribution: overwrites the entries that it has. */
FAC_ISA_DECLARE(void, fac__install_arith, (fac_loop(*table)[FAC_DTYPE_COUNT]));
FAC_ISA_DECLARE(void, fac__install_compare, (fac_loop(*table)[FAC_DTYPE_COUNT]));
FAC_ISA_DECLARE(void, fac__install_math, (fac_loop(*table)[FAC_DTYPE_COUNT]));
FAC_ISA_DECLARE(void, fac__install_activation, (fac_loop(*table)[FAC_DTYPE_COUNT]));
FAC_ISA_DECLARE(void, fac__install_complex, (fac_loop(*table)[FAC_DTYPE_COUNT]));
FAC_ISA_DECLARE(void, fac__install_casts, (fac_cast(*table)[FAC_DTYPE_COUNT], fac_stream_copy *stream));

#endif
