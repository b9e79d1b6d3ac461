/* Pointwise operators whose loop depends on more than an entry of the schema says: on the value of a number, or on the dtype. */
#include "backend/pointwise/pointwise.h"
#include "ops_gen.h"

static fac_status run(const fac_structured *s, fac_loop_id id) { return fac__pointwise(s, id, 0, NULL); }

/* ---- add, sub ------------------------------------------------------------------------------------------------------------- */

/* a + alpha b; alpha 1 and -1 have loops of their own. */
static fac_status add_scaled(const fac_structured *s, fac_scalar alpha, bool negate) {
    if (alpha.kind != FAC_KIND_COMPLEX && fac__scalar_f64(alpha) == 1.0)
        return run(s, negate ? FAC_LOOP_sub : FAC_LOOP_add);
    if (s->iter.common == FAC_BOOL && fac__scalar_f64(alpha) != 0) return run(s, FAC_LOOP_add); /* a or b */
    fac_pointwise_number by = fac__number(alpha);
    if (negate) by = (fac_pointwise_number){-by.real, -by.imag, (int64_t)(0 - (uint64_t)by.integer)};
    return fac__pointwise(s, FAC_LOOP_add_alpha, 0, &(fac_loop_args){.v = {by}});
}

fac_status add_kernel(fac_structured *s, fac_tensor *self, fac_tensor *other, fac_scalar alpha) {
    (void)self, (void)other;
    return add_scaled(s, alpha, false);
}
fac_status add_scalar_kernel(fac_structured *s, fac_tensor *self, fac_scalar other, fac_scalar alpha) {
    (void)self, (void)other;
    return add_scaled(s, alpha, false);
}
/* Of rsub, too, whose iterators hold other before self. */
fac_status sub_kernel(fac_structured *s, fac_tensor *self, fac_tensor *other, fac_scalar alpha) {
    (void)self, (void)other;
    return add_scaled(s, alpha, true);
}
fac_status sub_scalar_kernel(fac_structured *s, fac_tensor *self, fac_scalar other, fac_scalar alpha) {
    (void)self, (void)other;
    return add_scaled(s, alpha, true);
}

/* ---- power ------------------------------------------------------------------------------------------------------------------ */

/* Exponents that have a cheaper and more exact loop. The square's and the root's iterators have the exponent as a third
   operand, which those loops do not look at. */
fac_status pow_scalar_kernel(fac_structured *s, fac_tensor *self, fac_scalar exponent) {
    (void)self;
    fac_dtype d = s->iter.common;
    double e = exponent.kind == FAC_KIND_COMPLEX ? 0 : fac__scalar_f64(exponent);
    if (d == FAC_BOOL) return run(s, FAC_LOOP_ge); /* false to the power true alone is false */
    if (e == 2.0) return run(s, FAC_LOOP_square);
    if (fac_dtype_is_integral(d, true)) return run(s, FAC_LOOP_pow);
    if (e == 3.0 && !fac_dtype_is_complex(d)) return run(s, FAC_LOOP_cube);
    if (e == 0.5) return run(s, FAC_LOOP_sqrt);
    if (e == -0.5) return run(s, FAC_LOOP_rsqrt);
    if (e == -1.0) return run(s, FAC_LOOP_reciprocal);
    return run(s, FAC_LOOP_pow);
}

/* Powers of 2, and of what is a small power of it, are exponentials. */
fac_status pow_of_scalar_kernel(fac_structured *s, fac_scalar self, fac_tensor *exponent) {
    static const double bases[][2] = {{2, 1}, {0.5, -1}, {4, 2}, {0.25, -2}, {16, 4}, {0.0625, -4}};
    (void)exponent;
    const bool real = self.kind != FAC_KIND_COMPLEX && fac_dtype_is_floating(s->iter.common);
    for (size_t i = 0; real && i < FAC_COUNT(bases); i++)
        if (fac__scalar_f64(self) == bases[i][0])
            return fac__pointwise(s, FAC_LOOP_power_of_two, 0, &(fac_loop_args){.v = {{.real = bases[i][1]}}});
    return run(s, FAC_LOOP_pow);
}

/* ---- by dtype --------------------------------------------------------------------------------------------------------------- */

/* Over integers the numbers are operands, `of_integers` the loop. */
static fac_status with_two(const fac_structured *s, fac_loop_id id, fac_loop_id of_integers, fac_scalar a,
                           fac_scalar b) {
    if (fac_dtype_is_integral(s->iter.common, false)) return run(s, of_integers);
    return fac__pointwise(s, id, 0, &(fac_loop_args){.v = {fac__number(a), fac__number(b)}});
}
fac_status hardtanh_kernel(fac_structured *s, fac_tensor *self, fac_scalar min_val, fac_scalar max_val) {
    (void)self;
    return with_two(s, FAC_LOOP_hardtanh, FAC_LOOP_clamp, min_val, max_val);
}
/* A bound alone is an operand. */
fac_status clamp_kernel(fac_structured *s, fac_tensor *self, fac_opt_num min, fac_opt_num max) {
    (void)self;
    if (!min.set || !max.set) return run(s, min.set ? FAC_LOOP_maximum : FAC_LOOP_minimum);
    if (s->iter.common == FAC_BOOL) return run(s, FAC_LOOP_clamp);
    return with_two(s, FAC_LOOP_hardtanh, FAC_LOOP_clamp, min.v, max.v);
}
fac_status threshold_kernel(fac_structured *s, fac_tensor *self, fac_scalar threshold, fac_scalar value) {
    (void)self;
    return with_two(s, FAC_LOOP_threshold, FAC_LOOP_threshold_by, threshold, value);
}
