/* Kernels of the folding reductions: each says what to fold and hands the rest to the engine. */
#include "ops/meta/reduce.h"
#include "backend/cpu/kernels/items.h"
#include "backend/cpu/kernels/reduction.h"
#include "ops_gen.h"
#include <math.h>

static fac_dtype dtype_of(const fac_tensor *t) { return (fac_dtype)t->dtype; }

static fac_status run(fac_structured *s, const fac_reduction *r, fac_tensor *self) {
    return fac__reduce(r, self, fac__carried_mask(s), s->out[0]);
}

/* ---- sums, means, products -------------------------------------------------------------------------------------- */

fac_status sum_dim_cpu(fac_structured *s, fac_tensor *self, fac_ints dim, bool keepdim, fac_dtype dtype) {
    (void)dim, (void)keepdim;
    fac_reduction r = fac__fold_as(s, self, FAC_FOLD_SUM, dtype);
    return run(s, &r, self);
}

fac_status sum_cpu(fac_structured *s, fac_tensor *self, fac_dtype dtype) {
    return sum_dim_cpu(s, self, (fac_ints){0}, false, dtype);
}

fac_status nansum_cpu(fac_structured *s, fac_tensor *self, fac_ints dim, bool keepdim, fac_dtype dtype) {
    if (!fac_dtype_is_floating(dtype_of(self)) || !fac_dtype_is_floating(dtype_of(s->out[0])))
        return sum_dim_cpu(s, self, dim, keepdim, dtype);
    fac_reduction r = {.op = FAC_FOLD_SUM, .kind = fac__acc_of(dtype_of(s->out[0])), .map = FAC_MAP_NAN_TO_ZERO};
    return run(s, &r, self);
}

fac_status mean_dim_cpu(fac_structured *s, fac_tensor *self, fac_ints dim, bool keepdim, fac_dtype dtype) {
    (void)dim, (void)keepdim;
    fac_reduction r = fac__mean_as(s, self, dtype);
    return run(s, &r, self);
}

fac_status mean_cpu(fac_structured *s, fac_tensor *self, fac_dtype dtype) {
    return mean_dim_cpu(s, self, (fac_ints){0}, false, dtype);
}

fac_status prod_cpu(fac_structured *s, fac_tensor *self, fac_dtype dtype) {
    fac_reduction r = fac__fold_as(s, self, FAC_FOLD_PROD, dtype);
    return run(s, &r, self);
}

fac_status prod_dim_cpu(fac_structured *s, fac_tensor *self, int64_t dim, bool keepdim, fac_dtype dtype) {
    (void)dim, (void)keepdim;
    return prod_cpu(s, self, dtype);
}

/* ---- extremes -------------------------------------------------------------------------------------------------------- */

static fac_status extreme(fac_structured *s, fac_tensor *self, fac_fold_op op, int out) {
    fac_reduction r = {.op = op, .kind = fac__acc_of(dtype_of(self))};
    return fac__reduce(&r, self, fac__carried_mask(s), s->out[out]);
}

fac_status amax_cpu(fac_structured *s, fac_tensor *self, fac_ints dim, bool keepdim) {
    (void)dim, (void)keepdim;
    return extreme(s, self, FAC_FOLD_MAX, 0);
}

fac_status amin_cpu(fac_structured *s, fac_tensor *self, fac_ints dim, bool keepdim) {
    (void)dim, (void)keepdim;
    return extreme(s, self, FAC_FOLD_MIN, 0);
}

fac_status aminmax_cpu(fac_structured *s, fac_tensor *self, fac_opt_int dim, bool keepdim) {
    (void)dim, (void)keepdim;
    if (fac__is_contiguous(self) && s->out[0]->numel == 1 && self->numel > 0)
        return fac__reduce_extremes(fac__acc_of(dtype_of(self)), self, s->out[0], s->out[1]);
    FAC_TRY(extreme(s, self, FAC_FOLD_MIN, 0));
    return extreme(s, self, FAC_FOLD_MAX, 1);
}

fac_status max_cpu(fac_structured *s, fac_tensor *self) { return extreme(s, self, FAC_FOLD_MAX, 0); }
fac_status min_cpu(fac_structured *s, fac_tensor *self) { return extreme(s, self, FAC_FOLD_MIN, 0); }

/* ---- truth: elements become 0 or 1 ------------------------------------------------------------------------------------ */

static fac_status count(fac_structured *s, fac_tensor *self, fac_fold_op op) {
    fac_reduction r = {.op = op, .kind = FAC_ACC_I64, .map = FAC_MAP_NONZERO};
    return run(s, &r, self);
}

/* The identity of a maximum is not a truth value. */
static fac_status any_of(fac_structured *s, fac_tensor *self) {
    return self->numel > 0 ? count(s, self, FAC_FOLD_MAX) : fac__cpu_fill(s->out[0], fac_scalar_i_(0));
}

fac_status any_cpu(fac_structured *s, fac_tensor *self) { return any_of(s, self); }

fac_status any_dim_cpu(fac_structured *s, fac_tensor *self, int64_t dim, bool keepdim) {
    (void)dim, (void)keepdim;
    return any_of(s, self);
}

fac_status all_cpu(fac_structured *s, fac_tensor *self) { return count(s, self, FAC_FOLD_PROD); }

fac_status all_dim_cpu(fac_structured *s, fac_tensor *self, int64_t dim, bool keepdim) {
    (void)dim, (void)keepdim;
    return count(s, self, FAC_FOLD_PROD);
}

fac_status any_dims_cpu(fac_structured *s, fac_tensor *self, fac_ints dim, bool keepdim) {
    (void)dim, (void)keepdim;
    return any_of(s, self);
}

fac_status all_dims_cpu(fac_structured *s, fac_tensor *self, fac_ints dim, bool keepdim) {
    (void)dim, (void)keepdim;
    return count(s, self, FAC_FOLD_PROD);
}

fac_status count_nonzero_dims_cpu(fac_structured *s, fac_tensor *self, fac_ints dim) {
    (void)dim;
    return count(s, self, FAC_FOLD_SUM);
}

fac_status hash_tensor_cpu(fac_structured *s, fac_tensor *self, fac_ints dim, bool keepdim, int64_t mode) {
    (void)dim, (void)keepdim, (void)mode;
    fac_reduction r = {
        .op = FAC_FOLD_XOR, .kind = FAC_ACC_I64, .map = self->dtype == FAC_I64 ? FAC_MAP_NONE : FAC_MAP_BITS};
    return run(s, &r, self);
}

/* ---- norms --------------------------------------------------------------------------------------------------------------- */

fac_status vector_norm_cpu(fac_structured *s, fac_tensor *self, fac_scalar ord, fac_ints dim, bool keepdim,
                           fac_dtype dtype) {
    (void)dim, (void)keepdim, (void)dtype;
    fac_reduction r = fac__norm_as(s, fac__scalar_f64(ord));
    return run(s, &r, self);
}

fac_status powsum_cpu(fac_structured *s, fac_tensor *self, fac_scalar ord, fac_ints dim, bool keepdim,
                      fac_dtype dtype) {
    (void)dim, (void)keepdim, (void)dtype;
    fac_reduction r = fac__powsum_as(s, fac__scalar_f64(ord));
    return run(s, &r, self);
}
