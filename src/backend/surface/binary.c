/* Kernels of binary and ternary operators, comparisons and selection. */
#include "backend/cpu/kernels/zeros.h"
#include "backend/surface/pointwise.h"
#include "ops_gen.h"

static fac_status run(fac_structured *s, fac_loop_id id, const char *op) {
    return fac__pointwise(&s->iter, id, op, 0, NULL);
}
static fac_status compare(fac_structured *s, fac_loop_id id, const char *op) {
    return fac__pointwise(&s->iter, id, op, FAC_BOOL, NULL);
}

#define TENSOR_TENSOR(name, how)                                                       \
    fac_status name##_kernel(fac_structured *s, fac_tensor *self, fac_tensor *other) { \
        (void)self, (void)other;                                                       \
        return how(s, FAC_LOOP_##name, #name);                                         \
    }
#define TENSOR_SCALAR(name, how)                                                             \
    fac_status name##_scalar_kernel(fac_structured *s, fac_tensor *self, fac_scalar other) { \
        (void)self, (void)other;                                                             \
        return how(s, FAC_LOOP_##name, #name);                                               \
    }
#define BOTH(name, how) TENSOR_TENSOR(name, how) TENSOR_SCALAR(name, how)
#define SCALAR_TENSOR(name, how)                                                               \
    fac_status scalar_##name##_kernel(fac_structured *s, fac_scalar self, fac_tensor *other) { \
        (void)self, (void)other;                                                               \
        return how(s, FAC_LOOP_##name, #name);                                                 \
    }

BOTH(mul, run)
BOTH(div, run)
BOTH(bitwise_and, run)
BOTH(bitwise_or, run)
BOTH(bitwise_xor, run)
BOTH(shift_left, run)
BOTH(shift_right, run)
BOTH(eq, compare)
BOTH(ne, compare)
BOTH(lt, compare)
BOTH(le, compare)
BOTH(gt, compare)
BOTH(ge, compare)
TENSOR_TENSOR(logical_and, compare)
TENSOR_TENSOR(logical_or, compare)
TENSOR_TENSOR(logical_xor, compare)
TENSOR_TENSOR(maximum, run)
TENSOR_TENSOR(minimum, run)
TENSOR_SCALAR(maximum, run)
TENSOR_SCALAR(minimum, run)
TENSOR_TENSOR(atan2, run)
TENSOR_TENSOR(hypot, run)
TENSOR_TENSOR(pow, run)
SCALAR_TENSOR(pow, run)

/* ---- add, sub ------------------------------------------------------------------------------------------------------------- */

/* a + alpha b; alpha 1 and -1 have loops of their own. */
static fac_status add_scaled(fac_structured *s, fac_scalar alpha, bool negate, const char *op) {
    if (alpha.kind != FAC_KIND_COMPLEX && fac__scalar_f64(alpha) == 1.0)
        return run(s, negate ? FAC_LOOP_sub : FAC_LOOP_add, op);
    fac_loop_args args = {.i = {fac__scalar_i64(alpha)}};
    fac__scalar_c128(alpha, args.f);
    if (negate) {
        args.f[0] = -args.f[0];
        args.f[1] = -args.f[1];
        args.i[0] = (int64_t)(0 - (uint64_t)args.i[0]);
    }
    return fac__pointwise(&s->iter, FAC_LOOP_add_alpha, op, 0, &args);
}

fac_status add_kernel(fac_structured *s, fac_tensor *self, fac_tensor *other, fac_scalar alpha) {
    (void)self, (void)other;
    return add_scaled(s, alpha, false, "add");
}
fac_status add_scalar_kernel(fac_structured *s, fac_tensor *self, fac_scalar other, fac_scalar alpha) {
    (void)self, (void)other;
    return add_scaled(s, alpha, false, "add");
}
fac_status sub_kernel(fac_structured *s, fac_tensor *self, fac_tensor *other, fac_scalar alpha) {
    (void)self, (void)other;
    return add_scaled(s, alpha, true, "sub");
}
fac_status sub_scalar_kernel(fac_structured *s, fac_tensor *self, fac_scalar other, fac_scalar alpha) {
    (void)self, (void)other;
    return add_scaled(s, alpha, true, "sub");
}

/* The iterators hold other before self. */
fac_status rsub_kernel(fac_structured *s, fac_tensor *self, fac_tensor *other, fac_scalar alpha) {
    (void)self, (void)other;
    return add_scaled(s, alpha, true, "rsub");
}
fac_status rsub_scalar_kernel(fac_structured *s, fac_tensor *self, fac_scalar other, fac_scalar alpha) {
    (void)self, (void)other;
    return add_scaled(s, alpha, true, "rsub");
}

/* ---- integer division ------------------------------------------------------------------------------------------------------- */

static fac_status zero_divisor(void) { return FAC_FAIL(FAC_ERR_ARGUMENT, "an integer divisor is zero"); }

static bool is_number_zero(const fac_iter_operand *divisor, fac_dtype common) {
    char element[16] = {0}, zero[16] = {0};
    double re_im[2];
    fac__store(element, common,
               divisor->is_scalar ? divisor->value : fac__load(divisor->data, (fac_dtype)divisor->dtype, re_im));
    return memcmp(element, zero, sizeof zero) == 0;
}

static fac_status some_zero(fac_structured *s, fac_tensor *t, bool *out) {
    if (fac__is_contiguous(t)) return fac__cpu_some_zero(t, out);
    fac_tensor *all = NULL;
    FAC_TRY(fac__redispatch_all(s->call->keys, t, &all));
    *out = !*(const bool *)fac__data(all);
    fac__unref(all);
    return FAC_OK;
}

/* Looks for a zero among the divisors of integers before the first quotient is written over a caller's tensor. The loop
   itself notes them too, which does for a result that nobody has seen yet. */
static fac_status check_divisors(fac_structured *s) {
    const fac_iter_operand *divisor = &s->iter.op[2];
    if (s->form == FAC_FUNCTIONAL || !fac_dtype_is_integral(s->iter.common, true)) return FAC_OK;
    if (s->iter.device.type != FAC_CPU || s->iter.numel == 0) return FAC_OK;
    if (divisor->is_scalar || divisor->t->numel == 1)
        return is_number_zero(divisor, s->iter.common) ? zero_divisor() : FAC_OK;
    bool some = false;
    FAC_TRY(some_zero(s, divisor->t, &some));
    return some ? zero_divisor() : FAC_OK;
}

static fac_status divide(fac_structured *s, fac_loop_id id, const char *op) {
    atomic_bool zero = false;
    fac_loop_args args = {.zero_divisor = &zero};
    FAC_TRY(check_divisors(s));
    FAC_TRY(fac__pointwise(&s->iter, id, op, 0, &args));
    return atomic_load_explicit(&zero, memory_order_relaxed) ? zero_divisor() : FAC_OK;
}
BOTH(fmod, divide)
BOTH(remainder, divide)
SCALAR_TENSOR(remainder, divide)

static fac_status div_mode(fac_structured *s, const char *mode) {
    if (!mode) return run(s, FAC_LOOP_div, "div");
    return divide(s, strcmp(mode, "floor") == 0 ? FAC_LOOP_div_floor : FAC_LOOP_div_trunc, "div");
}
fac_status div_mode_kernel(fac_structured *s, fac_tensor *self, fac_tensor *other, const char *rounding_mode) {
    (void)self, (void)other;
    return div_mode(s, rounding_mode);
}
fac_status div_scalar_mode_kernel(fac_structured *s, fac_tensor *self, fac_scalar other, const char *rounding_mode) {
    (void)self, (void)other;
    return div_mode(s, rounding_mode);
}

/* ---- power ------------------------------------------------------------------------------------------------------------------ */

/* Exponents that have a cheaper and more exact loop. The square's and the root's iterators have the exponent as a third
   operand, which those loops do not look at. */
fac_status pow_scalar_kernel(fac_structured *s, fac_tensor *self, fac_scalar exponent) {
    (void)self;
    fac_dtype d = s->iter.common;
    double e = exponent.kind == FAC_KIND_COMPLEX ? 0 : fac__scalar_f64(exponent);
    if (e == 2.0) return run(s, FAC_LOOP_square, "pow");
    if (fac_dtype_is_integral(d, true)) return run(s, FAC_LOOP_pow, "pow");
    if (e == 3.0 && !fac_dtype_is_complex(d)) return run(s, FAC_LOOP_cube, "pow");
    if (e == 0.5) return run(s, FAC_LOOP_sqrt, "pow");
    if (e == -0.5) return run(s, FAC_LOOP_rsqrt, "pow");
    if (e == -1.0) return run(s, FAC_LOOP_reciprocal, "pow");
    return run(s, FAC_LOOP_pow, "pow");
}

/* ---- clamp ------------------------------------------------------------------------------------------------------------------ */

static fac_status clamp(fac_structured *s, bool min, bool max) {
    return run(s, min && max ? FAC_LOOP_clamp : min ? FAC_LOOP_maximum : FAC_LOOP_minimum, "clamp");
}
fac_status clamp_kernel(fac_structured *s, fac_tensor *self, fac_opt_num min, fac_opt_num max) {
    (void)self;
    return clamp(s, min.set, max.set);
}
fac_status clamp_tensor_kernel(fac_structured *s, fac_tensor *self, fac_tensor *min, fac_tensor *max) {
    (void)self;
    return clamp(s, min != NULL, max != NULL);
}

/* ---- selection ---------------------------------------------------------------------------------------------------------------- */

static fac_status select_where(fac_structured *s) { return fac__pointwise_backend(s->iter.device)->select(&s->iter); }
fac_status where_kernel(fac_structured *s, fac_tensor *condition, fac_tensor *self, fac_tensor *other) {
    (void)condition, (void)self, (void)other;
    return select_where(s);
}
fac_status where_scalar_other_kernel(fac_structured *s, fac_tensor *condition, fac_tensor *self, fac_scalar other) {
    (void)condition, (void)self, (void)other;
    return select_where(s);
}
fac_status where_scalar_self_kernel(fac_structured *s, fac_tensor *condition, fac_scalar self, fac_tensor *other) {
    (void)condition, (void)self, (void)other;
    return select_where(s);
}
fac_status where_scalar_kernel(fac_structured *s, fac_tensor *condition, fac_scalar self, fac_scalar other) {
    (void)condition, (void)self, (void)other;
    return select_where(s);
}
fac_status masked_fill_kernel(fac_structured *s, fac_tensor *self, fac_tensor *mask, fac_scalar value) {
    (void)self, (void)mask, (void)value;
    return select_where(s);
}
fac_status masked_fill_tensor_kernel(fac_structured *s, fac_tensor *self, fac_tensor *mask, fac_tensor *value) {
    (void)self, (void)mask, (void)value;
    return select_where(s);
}

/* ---- ternary arithmetic --------------------------------------------------------------------------------------------------------- */

fac_status lerp_kernel(fac_structured *s, fac_tensor *self, fac_tensor *end, fac_tensor *weight) {
    (void)self, (void)end, (void)weight;
    return run(s, FAC_LOOP_lerp, "lerp");
}
fac_status lerp_scalar_kernel(fac_structured *s, fac_tensor *self, fac_tensor *end, fac_scalar weight) {
    (void)self, (void)end, (void)weight;
    return run(s, FAC_LOOP_lerp, "lerp");
}
static fac_status with_value(fac_structured *s, fac_loop_id id, const char *op, fac_scalar value) {
    fac_loop_args args = {.i = {fac__scalar_i64(value)}};
    fac__scalar_c128(value, args.f);
    return fac__pointwise(&s->iter, id, op, 0, &args);
}
fac_status addcmul_kernel(fac_structured *s, fac_tensor *self, fac_tensor *tensor1, fac_tensor *tensor2,
                          fac_scalar value) {
    (void)self, (void)tensor1, (void)tensor2;
    return with_value(s, FAC_LOOP_addcmul, "addcmul", value);
}
fac_status addcdiv_kernel(fac_structured *s, fac_tensor *self, fac_tensor *tensor1, fac_tensor *tensor2,
                          fac_scalar value) {
    (void)self, (void)tensor1, (void)tensor2;
    return with_value(s, FAC_LOOP_addcdiv, "addcdiv", value);
}
