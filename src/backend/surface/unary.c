/* Kernels of unary operators and activations: each names its loop and passes its numbers. */
#include "backend/surface/pointwise.h"
#include "ops_gen.h"

#define UNARY(name)                                                       \
    fac_status name##_kernel(fac_structured *s, fac_tensor *self) {       \
        (void)self;                                                       \
        return fac__pointwise(&s->iter, FAC_LOOP_##name, #name, 0, NULL); \
    }
#define TEST(name)                                                               \
    fac_status name##_kernel(fac_structured *s, fac_tensor *self) {              \
        (void)self;                                                              \
        return fac__pointwise(&s->iter, FAC_LOOP_##name, #name, FAC_BOOL, NULL); \
    }

UNARY(neg)
UNARY(sign)
UNARY(ceil)
UNARY(floor)
UNARY(round)
UNARY(trunc)
UNARY(reciprocal)
UNARY(sqrt)
UNARY(rsqrt)
UNARY(bitwise_not)
UNARY(exp)
UNARY(exp2)
UNARY(expm1)
UNARY(log)
UNARY(log2)
UNARY(log10)
UNARY(log1p)
UNARY(sin)
UNARY(cos)
UNARY(tan)
UNARY(asin)
UNARY(acos)
UNARY(atan)
UNARY(sinh)
UNARY(cosh)
UNARY(tanh)
UNARY(asinh)
UNARY(acosh)
UNARY(atanh)
UNARY(erf)
UNARY(erfc)
UNARY(sinc)
UNARY(sigmoid)
UNARY(relu)
UNARY(silu)
UNARY(mish)
UNARY(hardswish)
UNARY(hardsigmoid)
UNARY(log_sigmoid)
TEST(isnan)
TEST(isinf)
TEST(isfinite)
TEST(logical_not)

fac_status square_kernel(fac_structured *s, fac_tensor *self) {
    fac_loop_id loop = self->dtype == FAC_BOOL ? FAC_LOOP_mul : FAC_LOOP_square;
    return fac__pointwise(&s->iter, loop, "square", 0, NULL);
}

/* Complex numbers become real: the loop's output has the real dtype. */
static fac_status to_real(fac_structured *s, fac_loop_id id, const char *op) {
    fac_dtype d = s->iter.common;
    return fac__pointwise(&s->iter, id, op, fac_dtype_is_complex(d) ? fac__real_of(d) : 0, NULL);
}
fac_status abs_kernel(fac_structured *s, fac_tensor *self) {
    (void)self;
    return to_real(s, FAC_LOOP_abs, "abs");
}
fac_status angle_kernel(fac_structured *s, fac_tensor *self) {
    (void)self;
    return to_real(s, FAC_LOOP_angle, "angle");
}
fac_status sgn_kernel(fac_structured *s, fac_tensor *self) {
    fac_loop_id id = fac_dtype_is_complex((fac_dtype)self->dtype) ? FAC_LOOP_sgn : FAC_LOOP_sign;
    return fac__pointwise(&s->iter, id, "sgn", 0, NULL);
}
fac_status conj_physical_kernel(fac_structured *s, fac_tensor *self) {
    if (fac_dtype_is_complex((fac_dtype)self->dtype)) return fac__pointwise(&s->iter, FAC_LOOP_conj, "conj", 0, NULL);
    return fac__pointwise_backend(s->out[0]->device)->copy(s->out[0], self);
}

/* ---- with numbers ------------------------------------------------------------------------------------------------------ */

static fac_status with(fac_structured *s, fac_loop_id id, const char *op, double a, double b, double c) {
    return fac__pointwise(&s->iter, id, op, 0, &(fac_loop_args){.f = {a, b, c}});
}

static bool is_tanh(const char *approximate) { return strcmp(approximate, "tanh") == 0; }

fac_status gelu_kernel(fac_structured *s, fac_tensor *self, const char *approximate) {
    (void)self;
    fac_loop_id id = is_tanh(approximate) ? FAC_LOOP_gelu_tanh : FAC_LOOP_gelu;
    return fac__pointwise(&s->iter, id, "gelu", 0, NULL);
}
fac_status gelu_backward_kernel(fac_structured *s, fac_tensor *grad_output, fac_tensor *self, const char *approximate) {
    (void)grad_output, (void)self;
    fac_loop_id id = is_tanh(approximate) ? FAC_LOOP_gelu_tanh_backward : FAC_LOOP_gelu_backward;
    return fac__pointwise(&s->iter, id, "gelu_backward", 0, NULL);
}
fac_status elu_kernel(fac_structured *s, fac_tensor *self, fac_scalar alpha, fac_scalar scale, fac_scalar input_scale) {
    (void)self;
    double by = fac__scalar_f64(scale);
    return with(s, FAC_LOOP_elu, "elu", fac__scalar_f64(alpha) * by, by, fac__scalar_f64(input_scale));
}
fac_status elu_backward_kernel(fac_structured *s, fac_tensor *grad_output, fac_scalar alpha, fac_scalar scale,
                               fac_scalar input_scale, bool is_result, fac_tensor *self_or_result) {
    (void)grad_output, (void)self_or_result;
    double by = fac__scalar_f64(scale);
    fac_loop_args args = {.f = {fac__scalar_f64(alpha) * by, by, fac__scalar_f64(input_scale)}, .i = {is_result}};
    return fac__pointwise(&s->iter, FAC_LOOP_elu_backward, "elu_backward", 0, &args);
}

#define UNARY_1(name)                                                             \
    fac_status name##_kernel(fac_structured *s, fac_tensor *self, fac_scalar a) { \
        (void)self;                                                               \
        return with(s, FAC_LOOP_##name, #name, fac__scalar_f64(a), 0, 0);         \
    }
#define UNARY_2(name)                                                                           \
    fac_status name##_kernel(fac_structured *s, fac_tensor *self, fac_scalar a, fac_scalar b) { \
        (void)self;                                                                             \
        return with(s, FAC_LOOP_##name, #name, fac__scalar_f64(a), fac__scalar_f64(b), 0);      \
    }
#define BACKWARD(name)                                                                       \
    fac_status name##_kernel(fac_structured *s, fac_tensor *grad_output, fac_tensor *self) { \
        (void)grad_output, (void)self;                                                       \
        return fac__pointwise(&s->iter, FAC_LOOP_##name, #name, 0, NULL);                    \
    }
#define BACKWARD_2(name)                                                                                 \
    fac_status name##_kernel(fac_structured *s, fac_tensor *grad_output, fac_tensor *self, fac_scalar a, \
                             fac_scalar b) {                                                             \
        (void)grad_output, (void)self;                                                                   \
        return with(s, FAC_LOOP_##name, #name, fac__scalar_f64(a), fac__scalar_f64(b), 0);               \
    }
/* Over integers the numbers are operands. */
#define UNARY_2_OR_INTEGER(name, integer_loop)                                                  \
    fac_status name##_kernel(fac_structured *s, fac_tensor *self, fac_scalar a, fac_scalar b) { \
        if (fac_dtype_is_integral((fac_dtype)self->dtype, false))                               \
            return fac__pointwise(&s->iter, FAC_LOOP_##integer_loop, #name, 0, NULL);           \
        return with(s, FAC_LOOP_##name, #name, fac__scalar_f64(a), fac__scalar_f64(b), 0);      \
    }
UNARY_1(leaky_relu)
UNARY_2_OR_INTEGER(hardtanh, clamp)
UNARY_2_OR_INTEGER(threshold, threshold)
UNARY_2(softplus)
BACKWARD(sigmoid_backward)
BACKWARD(tanh_backward)
BACKWARD(silu_backward)
BACKWARD(mish_backward)
BACKWARD(hardswish_backward)
BACKWARD(hardsigmoid_backward)
BACKWARD(log_sigmoid_backward)
BACKWARD_2(hardtanh_backward)
BACKWARD_2(softplus_backward)

fac_status threshold_backward_kernel(fac_structured *s, fac_tensor *grad_output, fac_tensor *self,
                                     fac_scalar threshold) {
    (void)grad_output, (void)self;
    return with(s, FAC_LOOP_threshold_backward, "threshold_backward", fac__scalar_f64(threshold), 0, 0);
}
fac_status leaky_relu_backward_kernel(fac_structured *s, fac_tensor *grad_output, fac_tensor *self,
                                      fac_scalar negative_slope, bool self_is_result) {
    (void)grad_output, (void)self, (void)self_is_result;
    return with(s, FAC_LOOP_leaky_relu_backward, "leaky_relu_backward", fac__scalar_f64(negative_slope), 0, 0);
}

/* ---- prelu ------------------------------------------------------------------------------------------------------ */

fac_status prelu_kernel(fac_structured *s, fac_tensor *self, fac_tensor *weight) {
    (void)self, (void)weight;
    return fac__pointwise(&s->iter, FAC_LOOP_prelu, "prelu", 0, NULL);
}
fac_status prelu_backward_kernel(fac_structured *s, fac_tensor *grad_output, fac_tensor *self, fac_tensor *weight) {
    (void)grad_output, (void)self, (void)weight;
    return fac__pointwise(&s->iter, FAC_LOOP_prelu_backward, "prelu_backward", 0, NULL);
}
