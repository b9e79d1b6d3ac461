/* Shapes and dtypes of reductions and scans. */
#include "ops/meta/reduce.h"
#include "ops_gen.h"
#include <math.h>

/* Declares output i as `self` without the dimensions of `mask`, or with 1 there if `keepdim`. */
static fac_status declare_reduced(fac_structured *s, int i, const fac_tensor *self, uint64_t mask, bool keepdim,
                                  fac_dtype dtype) {
    int64_t sizes[FAC_MAX_DIMS];
    int n = 0;
    for (int d = 0; d < self->ndim; d++) {
        if (!(mask >> d & 1))
            sizes[n++] = self->sizes[d];
        else if (keepdim)
            sizes[n++] = 1;
    }
    s->carry[FAC_CARRY_MASK] = (int64_t)mask;
    return fac_out_declare(s, i, sizes, NULL, n, dtype, self->device);
}

static uint64_t all_dims(const fac_tensor *self) {
    return self->ndim >= 64 ? UINT64_MAX : (UINT64_C(1) << self->ndim) - 1;
}

static fac_status one_dim(const fac_tensor *self, int64_t dim, uint64_t *mask) {
    int64_t d;
    FAC_TRY(fac__wrap_dim(dim, self->ndim, &d));
    *mask = self->ndim ? UINT64_C(1) << d : 0;
    return FAC_OK;
}

static fac_status opt_dim(const fac_tensor *self, fac_opt_int dim, uint64_t *mask) {
    if (dim.set) return one_dim(self, dim.v, mask);
    *mask = all_dims(self);
    return FAC_OK;
}

static bool is_float(fac_dtype d) { return fac_dtype_is_floating(d) || fac_dtype_is_complex(d); }
static fac_dtype dtype_of(const fac_tensor *t) { return (fac_dtype)t->dtype; }

/* The dtype in which sums, products and scans are given. */
static fac_dtype sum_dtype(const fac_structured *s, const fac_tensor *self, fac_dtype dtype) {
    dtype = fac__sum_via(s, self, dtype);
    if (dtype) return dtype;
    return is_float(dtype_of(self)) ? dtype_of(self) : FAC_I64;
}

static fac_status refuse_complex(const fac_tensor *self) {
    FAC_CHECK(!fac_dtype_is_complex(dtype_of(self)), FAC_ERR_DTYPE,
              "does not support complex input, got %s; compare abs() or the real parts instead",
              fac_dtype_name(dtype_of(self)));
    return FAC_OK;
}

/* ---- sums and products -------------------------------------------------------------------------------------------- */

fac_status sum_meta(fac_structured *s, fac_tensor *self, fac_dtype dtype) {
    return declare_reduced(s, 0, self, all_dims(self), false, sum_dtype(s, self, dtype));
}

fac_status sum_dim_meta(fac_structured *s, fac_tensor *self, fac_ints dim, bool keepdim, fac_dtype dtype) {
    uint64_t mask;
    FAC_TRY(fac__dim_mask(dim, self->ndim, &mask));
    return declare_reduced(s, 0, self, mask, keepdim, sum_dtype(s, self, dtype));
}

fac_status nansum_meta(fac_structured *s, fac_tensor *self, fac_ints dim, bool keepdim, fac_dtype dtype) {
    FAC_CHECK(!fac_dtype_is_complex(dtype_of(self)), FAC_ERR_DTYPE, "complex inputs are not supported");
    return sum_dim_meta(s, self, dim, keepdim, dtype);
}

static fac_status mean_dtype(const fac_structured *s, const fac_tensor *self, fac_dtype dtype, fac_dtype *out) {
    const fac_dtype via = fac__sum_via(s, self, dtype);
    *out = dtype ? dtype : dtype_of(self);
    FAC_CHECK(is_float(*out), FAC_ERR_DTYPE,
              "could not infer output dtype. %s dtype must be either a floating point or complex dtype. Got: %s",
              dtype ? "Optional" : "Input", fac_dtype_name(*out));
    if (via) *out = via;
    return FAC_OK;
}

fac_status mean_meta(fac_structured *s, fac_tensor *self, fac_dtype dtype) {
    fac_dtype d;
    FAC_TRY(mean_dtype(s, self, dtype, &d));
    return declare_reduced(s, 0, self, all_dims(self), false, d);
}

fac_status mean_dim_meta(fac_structured *s, fac_tensor *self, fac_ints dim, bool keepdim, fac_dtype dtype) {
    fac_dtype d;
    uint64_t mask;
    FAC_TRY(mean_dtype(s, self, dtype, &d));
    FAC_TRY(fac__dim_mask(dim, self->ndim, &mask));
    return declare_reduced(s, 0, self, mask, keepdim, d);
}

fac_status prod_meta(fac_structured *s, fac_tensor *self, fac_dtype dtype) { return sum_meta(s, self, dtype); }

fac_status prod_dim_meta(fac_structured *s, fac_tensor *self, int64_t dim, bool keepdim, fac_dtype dtype) {
    uint64_t mask;
    FAC_TRY(one_dim(self, dim, &mask));
    return declare_reduced(s, 0, self, mask, keepdim, sum_dtype(s, self, dtype));
}

/* ---- extremes ------------------------------------------------------------------------------------------------------- */

/* An extreme of nothing does not exist. */
static fac_status check_not_empty(const fac_tensor *self, uint64_t mask, bool dims_given, fac_status code) {
    if (FAC_LIKELY(self->numel > 0)) return FAC_OK;
    FAC_CHECK(
        dims_given, code,
        "Expected reduction dim to be specified for input.numel() == 0. Specify the reduction dim with the 'dim' argument.");
    for (int d = 0; d < self->ndim; d++) {
        FAC_CHECK(!(mask >> d & 1) || self->sizes[d] != 0, FAC_ERR_INDEX,
                  "Expected reduction dim %d to have non-zero size.", d);
    }
    return FAC_OK;
}

fac_status amax_meta(fac_structured *s, fac_tensor *self, fac_ints dim, bool keepdim) {
    uint64_t mask;
    FAC_TRY(refuse_complex(self));
    FAC_TRY(fac__dim_mask(dim, self->ndim, &mask));
    FAC_TRY(check_not_empty(self, mask, dim.n > 0, FAC_ERR_ARGUMENT));
    return declare_reduced(s, 0, self, mask, keepdim, dtype_of(self));
}

fac_status aminmax_meta(fac_structured *s, fac_tensor *self, fac_opt_int dim, bool keepdim) {
    uint64_t mask;
    FAC_TRY(refuse_complex(self));
    FAC_TRY(opt_dim(self, dim, &mask));
    FAC_CHECK(dim.set || self->numel > 0, FAC_ERR_ARGUMENT,
              "cannot compute aminmax over an empty dimension as the operation has no identity.");
    FAC_TRY(check_not_empty(self, mask, true, FAC_ERR_INDEX));
    FAC_TRY(declare_reduced(s, 0, self, mask, keepdim, dtype_of(self)));
    return declare_reduced(s, 1, self, mask, keepdim, dtype_of(self));
}

fac_status max_meta(fac_structured *s, fac_tensor *self) {
    FAC_TRY(refuse_complex(self));
    FAC_TRY(check_not_empty(self, 0, false, FAC_ERR_ARGUMENT));
    return declare_reduced(s, 0, self, all_dims(self), false, dtype_of(self));
}

fac_status max_dim_meta(fac_structured *s, fac_tensor *self, int64_t dim, bool keepdim) {
    uint64_t mask;
    FAC_TRY(refuse_complex(self));
    FAC_TRY(one_dim(self, dim, &mask));
    FAC_TRY(check_not_empty(self, mask, true, FAC_ERR_INDEX));
    FAC_TRY(declare_reduced(s, 0, self, mask, keepdim, dtype_of(self)));
    return declare_reduced(s, 1, self, mask, keepdim, FAC_I64);
}

fac_status argmax_meta(fac_structured *s, fac_tensor *self, fac_opt_int dim, bool keepdim) {
    uint64_t mask;
    FAC_CHECK(!fac_dtype_is_complex(dtype_of(self)) && self->dtype != FAC_BOOL, FAC_ERR_DTYPE,
              "not implemented for '%s'", fac_dtype_name(dtype_of(self)));
    FAC_TRY(opt_dim(self, dim, &mask));
    FAC_CHECK(dim.set || self->numel > 0, FAC_ERR_INDEX,
              "Expected reduction dim to be specified for input.numel() == 0.");
    FAC_TRY(check_not_empty(self, mask, true, FAC_ERR_INDEX));
    return declare_reduced(s, 0, self, mask, keepdim, FAC_I64);
}

/* ---- truth ------------------------------------------------------------------------------------------------------------ */

static fac_dtype truth_dtype(const fac_tensor *self) { return self->dtype == FAC_U8 ? FAC_U8 : FAC_BOOL; }

fac_status any_meta(fac_structured *s, fac_tensor *self) {
    return declare_reduced(s, 0, self, all_dims(self), false, truth_dtype(self));
}

fac_status any_dim_meta(fac_structured *s, fac_tensor *self, int64_t dim, bool keepdim) {
    uint64_t mask;
    FAC_TRY(one_dim(self, dim, &mask));
    return declare_reduced(s, 0, self, mask, keepdim, truth_dtype(self));
}

/* Bits of results that PyTorch gives as uint64. */
fac_status hash_tensor_meta(fac_structured *s, fac_tensor *self, fac_ints dim, bool keepdim, int64_t mode) {
    uint64_t mask;
    FAC_CHECK(mode == 0, FAC_ERR_ARGUMENT, "Unknown hash_tensor mode: %lld; there is 0, exclusive or", (long long)mode);
    FAC_TRY(refuse_complex(self));
    FAC_TRY(fac__dim_mask(dim, self->ndim, &mask));
    FAC_TRY(check_not_empty(self, mask, dim.n > 0, FAC_ERR_ARGUMENT));
    return declare_reduced(s, 0, self, mask, keepdim, FAC_I64);
}

fac_status count_nonzero_dims_meta(fac_structured *s, fac_tensor *self, fac_ints dim) {
    uint64_t mask;
    FAC_TRY(fac__dim_mask(dim, self->ndim, &mask));
    return declare_reduced(s, 0, self, mask, false, FAC_I64);
}

/* ---- moments and norms --------------------------------------------------------------------------------------------------- */

static fac_status var_mask(const fac_tensor *self, fac_ints dim, fac_opt_num correction, uint64_t *mask) {
    FAC_CHECK(!correction.set || correction.v.kind != FAC_KIND_COMPLEX, FAC_ERR_DTYPE,
              "std and var: the correction must be a real number");
    FAC_CHECK(is_float(dtype_of(self)), FAC_ERR_DTYPE,
              "std and var only support floating point and complex dtypes, got %s", fac_dtype_name(dtype_of(self)));
    return fac__dim_mask(dim, self->ndim, mask);
}

fac_status var_meta(fac_structured *s, fac_tensor *self, fac_ints dim, fac_opt_num correction, bool keepdim) {
    uint64_t mask;
    FAC_TRY(var_mask(self, dim, correction, &mask));
    return declare_reduced(s, 0, self, mask, keepdim, fac__real_of(dtype_of(self)));
}

fac_status var_mean_meta(fac_structured *s, fac_tensor *self, fac_ints dim, fac_opt_num correction, bool keepdim) {
    FAC_TRY(var_meta(s, self, dim, correction, keepdim));
    return declare_reduced(s, 1, self, fac__carried_mask(s), keepdim, dtype_of(self));
}

/* Extremes and negative powers have no value on an empty set. */
static fac_status check_norm_of_nothing(const fac_tensor *self, fac_scalar ord, uint64_t mask, bool dims_given) {
    double p = fac__scalar_f64(ord);
    if (self->numel > 0 || !(p < 0 || isinf(p))) return FAC_OK;
    char text[32];
    snprintf(text, sizeof text, "%g", p);
    FAC_CHECK(
        dims_given, FAC_ERR_ARGUMENT,
        "linalg.vector_norm cannot compute the %s norm on an empty tensor because the operation does not have an identity",
        text);
    for (int d = 0; d < self->ndim; d++) {
        FAC_CHECK(
            !(mask >> d & 1) || self->sizes[d] != 0, FAC_ERR_ARGUMENT,
            "linalg.vector_norm cannot compute the %s norm on the dimension %d because this dimension is empty and the "
            "operation does not have an identity",
            text, d);
    }
    return FAC_OK;
}

fac_status vector_norm_meta(fac_structured *s, fac_tensor *self, fac_scalar ord, fac_ints dim, bool keepdim,
                            fac_dtype dtype) {
    uint64_t mask;
    fac_dtype d = dtype ? dtype : dtype_of(self);
    FAC_CHECK(ord.kind != FAC_KIND_COMPLEX, FAC_ERR_DTYPE,
              "linalg.vector_norm: Expected a non-complex scalar as the order of norm");
    FAC_CHECK(is_float(dtype_of(self)), FAC_ERR_DTYPE,
              "linalg.vector_norm: Expected a floating point or complex tensor as input. Got %s",
              fac_dtype_name(dtype_of(self)));
    FAC_CHECK(is_float(d), FAC_ERR_DTYPE, "linalg.vector_norm: dtype should be floating point or complex, but got %s",
              fac_dtype_name(d));
    FAC_CHECK(fac_dtype_is_complex(d) == fac_dtype_is_complex(dtype_of(self)), FAC_ERR_DTYPE,
              "linalg.vector_norm: dtype should be %s for %s inputs, but got %s",
              fac_dtype_is_complex(d) ? "real" : "complex", fac_dtype_is_complex(d) ? "real" : "complex",
              fac_dtype_name(d));
    FAC_TRY(fac__dim_mask(dim, self->ndim, &mask));
    FAC_TRY(check_norm_of_nothing(self, ord, mask, dim.n > 0));
    return declare_reduced(s, 0, self, mask, keepdim, fac__real_of(d));
}

fac_status powsum_meta(fac_structured *s, fac_tensor *self, fac_scalar ord, fac_ints dim, bool keepdim,
                       fac_dtype dtype) {
    uint64_t mask;
    const fac_dtype d = dtype ? dtype : dtype_of(self);
    FAC_CHECK(is_float(dtype_of(self)), FAC_ERR_DTYPE, "expected floating or complex elements, got %s",
              fac_dtype_name(dtype_of(self)));
    FAC_CHECK(ord.kind != FAC_KIND_COMPLEX, FAC_ERR_DTYPE, "ord must not be complex");
    FAC_CHECK(is_float(d) && fac_dtype_is_complex(d) == fac_dtype_is_complex(dtype_of(self)), FAC_ERR_DTYPE,
              "dtype should be %s for %s inputs, but got %s", fac_dtype_is_complex(dtype_of(self)) ? "complex" : "real",
              fac_dtype_is_complex(dtype_of(self)) ? "complex" : "real", fac_dtype_name(d));
    FAC_TRY(fac__dim_mask(dim, self->ndim, &mask));
    return declare_reduced(s, 0, self, mask, keepdim, fac__real_of(d));
}

fac_status logsumexp_meta(fac_structured *s, fac_tensor *self, fac_ints dim, bool keepdim) {
    uint64_t mask;
    fac_dtype d = dtype_of(self);
    FAC_TRY(fac__dim_mask(dim, self->ndim, &mask));
    return declare_reduced(s, 0, self, mask, keepdim, fac_dtype_is_integral(d, true) ? fac_default_dtype() : d);
}

/* ---- scans ------------------------------------------------------------------------------------------------------------------ */

static fac_status declare_scan(fac_structured *s, int i, fac_tensor *self, int64_t dim, fac_dtype dtype) {
    uint64_t mask;
    FAC_TRY(one_dim(self, dim, &mask));
    s->carry[FAC_CARRY_MASK] = (int64_t)mask;
    return fac_out_declare_like(s, i, self, dtype);
}

fac_status cumsum_meta(fac_structured *s, fac_tensor *self, int64_t dim, fac_dtype dtype) {
    fac_dtype d = sum_dtype(s, self, dtype);
    if (s->form == FAC_INPLACE && !dtype) d = dtype_of(self);
    FAC_CHECK(s->form != FAC_INPLACE || d == dtype_of(self), FAC_ERR_DTYPE,
              "in place the result has the dtype of self, %s; dtype is %s", fac_dtype_name(dtype_of(self)),
              fac_dtype_name(d));
    return declare_scan(s, 0, self, dim, d);
}

fac_status cummax_meta(fac_structured *s, fac_tensor *self, int64_t dim) {
    FAC_TRY(refuse_complex(self));
    FAC_TRY(declare_scan(s, 0, self, dim, dtype_of(self)));
    return declare_scan(s, 1, self, dim, FAC_I64);
}

fac_status logcumsumexp_meta(fac_structured *s, fac_tensor *self, int64_t dim) {
    FAC_CHECK(!fac_dtype_is_integral(dtype_of(self), true), FAC_ERR_DTYPE,
              "not implemented for '%s'; a floating or complex type is needed", fac_dtype_name(dtype_of(self)));
    return declare_scan(s, 0, self, dim, dtype_of(self));
}

/* ---- what is folded -------------------------------------------------------------------------------------------------------- */

static fac_acc kind_of(const fac_structured *s) { return fac__acc_of((fac_dtype)s->out[0]->dtype); }

fac_reduction fac__fold_as(const fac_structured *s, const fac_tensor *self, fac_fold_op op, fac_dtype dtype) {
    return (fac_reduction){.op = op, .kind = kind_of(s), .via = fac__sum_via(s, self, dtype)};
}

fac_reduction fac__mean_as(const fac_structured *s, const fac_tensor *self, fac_dtype dtype) {
    fac_reduction r = fac__fold_as(s, self, FAC_FOLD_SUM, dtype);
    r.finish = FAC_FINISH_DIV;
    r.finish_p = 1; /* beside a size of zero the others' product may be beyond 64 bits */
    for (int d = 0; d < self->ndim; d++) r.finish_p *= fac__carried_mask(s) >> d & 1 ? (double)self->sizes[d] : 1;
    return r;
}

fac_reduction fac__powsum_as(const fac_structured *s, double p) {
    fac_reduction r = {.kind = kind_of(s), .map = FAC_MAP_POW, .p = p};
    if (p == 0)
        r.map = FAC_MAP_NONZERO, r.kind = FAC_ACC_I64;
    else if (p == 1)
        r.map = FAC_MAP_ABS;
    else if (p == 2)
        r.map = FAC_MAP_SQUARE;
    return r;
}

fac_reduction fac__norm_as(const fac_structured *s, double p) {
    fac_reduction r = {.kind = kind_of(s), .map = FAC_MAP_ABS};
    if (p == 0)
        r.map = FAC_MAP_NONZERO, r.kind = FAC_ACC_I64;
    else if (p == 2)
        r.map = FAC_MAP_SQUARE, r.finish = FAC_FINISH_SQRT;
    else if (isinf(p))
        r.op = p > 0 ? FAC_FOLD_MAX : FAC_FOLD_MIN;
    else if (p != 1)
        r.map = FAC_MAP_POW, r.p = p, r.finish = FAC_FINISH_ROOT, r.finish_p = p;
    return r;
}
