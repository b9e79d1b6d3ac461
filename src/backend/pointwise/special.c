/* Special functions whose loop depends on more than an entry of the schema says. */
#include "backend/pointwise/pointwise.h"
#include "ops/composite/below.h"
#include "ops_gen.h"
#include <math.h>

/* n! as a fraction in [1/2, 1) and an exponent, as it soon leaves the range of every dtype; infinite where polygamma is, too. */
static void factorial(int64_t n, double *part, double *exponent) {
    int e;
    *part = 0.5;
    *exponent = 1;
    for (int64_t k = 2; k <= n; k++) {
        *part = frexp(*part * (double)k, &e);
        *exponent += e;
    }
}

fac_status polygamma_kernel(fac_structured *s, int64_t n, fac_tensor *self) {
    enum { MOST = 4096 }; /* from far below here on the result is 0 or infinite */
    (void)self;
    if (n < 2) return fac__pointwise(s, n == 0 ? FAC_LOOP_digamma : FAC_LOOP_trigamma, 0, NULL);
    double part, exponent;
    factorial(n < MOST ? n : MOST, &part, &exponent);
    if (n % 2 == 0) part = -part;
    return fac__pointwise(s, FAC_LOOP_polygamma, 0,
                          &(fac_loop_args){.v = {{.real = (double)n}, {.real = part}, {.real = exponent}}});
}

/* 16-bit floats are computed in single precision, whose next number is another: their own step is passed. */
fac_status nextafter_kernel(fac_structured *s, fac_tensor *self, fac_tensor *other) {
    (void)self, (void)other;
    static const fac_loop_args f16 = {.v = {{.real = 11}, {.real = 0x1p-24}, {.real = 65504}}},
                               bf16 = {.v = {{.real = 8}, {.real = 0x1p-133}, {.real = 0x1.fep127}}};
    if (!fac__is_half(s->iter.common)) return fac__pointwise(s, FAC_LOOP_nextafter, 0, NULL);
    return fac__pointwise(s, FAC_LOOP_nextafter_half, 0, s->iter.common == FAC_F16 ? &f16 : &bf16);
}

/* Without eps, or below 0, there are no bounds. */
static bool is_bounded(fac_opt_num eps) { return eps.set && !(fac__scalar_f64(eps.v) < 0); }

fac_status logit_kernel(fac_structured *s, fac_tensor *self, fac_opt_num eps) {
    (void)self;
    const bool bounded = eps.set && fac__scalar_f64(eps.v) >= 0;
    const double low = bounded ? fac__scalar_f64(eps.v) : -INFINITY;
    return fac__pointwise(s, FAC_LOOP_logit, 0,
                          &(fac_loop_args){.v = {{.real = low}, {.real = bounded ? 1 - low : INFINITY}}});
}

/* Beyond its bounds the gradient is 0, and NaN beyond [0, 1] if there are none. Beyond those that are NaN nothing lies. */
fac_status logit_backward_kernel(fac_structured *s, fac_tensor *grad_output, fac_tensor *self, fac_opt_num eps) {
    (void)grad_output, (void)self;
    const double low = is_bounded(eps) ? fac__scalar_f64(eps.v) : 0;
    return fac__pointwise(
        s, FAC_LOOP_logit_backward, 0,
        &(fac_loop_args){.v = {{.real = low}, {.real = 1 - low}, {.real = is_bounded(eps) ? 0 : NAN}}});
}

/* Integers are finite: they are not read. */
static fac_status is_of_kind(fac_structured *s, fac_loop_id id) {
    if (!fac_dtype_is_integral(s->iter.common, true)) return fac__pointwise(s, id, FAC_BOOL, NULL);
    return fac__fill_below(s->out[0], fac_scalar_b_(id == FAC_LOOP_isfinite));
}
#define IS_OF_KIND(name)                                            \
    fac_status name##_kernel(fac_structured *s, fac_tensor *self) { \
        (void)self;                                                 \
        return is_of_kind(s, FAC_LOOP_##name);                      \
    }
IS_OF_KIND(isnan)
IS_OF_KIND(isinf)
IS_OF_KIND(isfinite)

fac_status round_decimals_kernel(fac_structured *s, fac_tensor *self, int64_t decimals) {
    (void)self;
    if (decimals == 0) return fac__pointwise(s, FAC_LOOP_round, 0, NULL);
    return fac__pointwise(s, decimals < 0 ? FAC_LOOP_round_places : FAC_LOOP_round_decimals, 0,
                          &(fac_loop_args){.v = {{.real = pow(10, fabs((double)decimals))}}});
}
