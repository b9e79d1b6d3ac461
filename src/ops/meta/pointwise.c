/* Builds the iterators of pointwise operators, by a short way where operands are plain and alike. */
#include "ops/meta/pointwise.h"
#include "core/tensor_make.h"

/* ---- iterators -------------------------------------------------------------------------------------------------------- */

/* Whether the common dtype of operands that all have dtype d is d itself. */
static inline bool keeps_dtype(fac_dtype d, uint32_t options) {
    return !(options & FAC_ITER_INT_TO_FLOAT) || !fac_dtype_is_integral(d, true);
}

/* Whether a caller's output is what the operator would make of inputs like `a`: it needs no look beyond overlap. */
static inline bool fits_flat(const fac_tensor *given, const fac_tensor *a, fac_dtype dtype) {
    if (given == a) return given->dtype == dtype;
    return (given->flags & FAC_TF_CONTIGUOUS) && given->dtype == dtype && fac__same_sizes(given, a) &&
           given->device.type == a->device.type && given->device.index_plus == a->device.index_plus;
}

/* The output when all inputs look alike and lie contiguously: a new tensor like `a`, or the caller's if it is contiguous
   too. False if the general way must be taken. *st is the status of what was tried. */
static inline bool flat_output(fac_structured *s, fac_tensor *a, fac_dtype out, fac_status *st) {
    const fac_dtype dtype = out ? out : (fac_dtype)a->dtype;
    if (s->form == FAC_FUNCTIONAL) {
        *st = fac__empty(a->sizes, a->ndim, dtype, a->device, &s->out[0]);
        return true;
    }
    if (!fits_flat(s->given[0], a, dtype)) return false;
    s->out[0] = s->given[0];
    s->has_iter = true;
    *st = s->given[0] == a ? FAC_OK : fac_out_check_overlap(s, 0, a, true);
    return true;
}

static fac_status begin(fac_structured *s, uint32_t options) {
    fac_iter_begin(&s->iter, options);
    for (int i = 0; i < s->n_out; i++) FAC_TRY(fac_iter_out(&s->iter, NULL));
    return FAC_OK;
}

fac_status fac__pw_1(fac_structured *s, fac_tensor *a, uint32_t options, fac_dtype out) {
    fac_status st;
    if ((a->flags & FAC_TF_CONTIGUOUS) && keeps_dtype((fac_dtype)a->dtype, options) && flat_output(s, a, out, &st)) {
        if (st == FAC_OK) fac_iter_set_flat(&s->iter, s->out[0], &a, 1);
        return st;
    }
    FAC_TRY(begin(s, options));
    FAC_TRY(fac_iter_in(&s->iter, a));
    return fac_out_declare_iter(s, out);
}

fac_status fac__pw_2(fac_structured *s, fac_tensor *a, fac_tensor *b, uint32_t options, fac_dtype out) {
    fac_status st;
    if (fac_iter_matches(b, a) && keeps_dtype((fac_dtype)a->dtype, options) && flat_output(s, a, out, &st)) {
        if (st == FAC_OK && s->form != FAC_FUNCTIONAL) st = fac_out_check_overlap(s, 0, b, true);
        if (st == FAC_OK) fac_iter_set_flat(&s->iter, s->out[0], (fac_tensor *[]){a, b}, 2);
        return st;
    }
    FAC_TRY(begin(s, options));
    FAC_TRY(fac_iter_in(&s->iter, a));
    FAC_TRY(fac_iter_in(&s->iter, b));
    return fac_out_declare_iter(s, out);
}

/* True if a number of this kind does not raise the dtype of a tensor. */
static bool scalar_fits(fac_dtype d, fac_scalar v) {
    switch (v.kind) {
    case FAC_KIND_BOOL: return true;
    case FAC_KIND_INT: return d != FAC_BOOL;
    case FAC_KIND_FLOAT: return !fac_dtype_is_integral(d, true);
    default: return fac_dtype_is_complex(d);
    }
}

fac_status fac__pw_2_scalar(fac_structured *s, fac_tensor *a, fac_scalar b, uint32_t options, fac_dtype out) {
    fac_status st;
    fac_dtype d = (fac_dtype)a->dtype;
    if ((a->flags & FAC_TF_CONTIGUOUS) && scalar_fits(d, b) && keeps_dtype(d, options) && flat_output(s, a, out, &st)) {
        if (st != FAC_OK) return st;
        fac_iter_set_flat(&s->iter, s->out[0], &a, 1);
        fac_iter_flat_scalar(&s->iter, b);
        s->iter.options = options;
        return st;
    }
    FAC_TRY(begin(s, options));
    FAC_TRY(fac_iter_in(&s->iter, a));
    FAC_TRY(fac_iter_scalar(&s->iter, b));
    return fac_out_declare_iter(s, out);
}

fac_status fac__pw_scalar_2(fac_structured *s, fac_scalar a, fac_tensor *b, uint32_t options, fac_dtype out) {
    return fac__pw_n(s, (fac_tensor *[]){NULL, b}, 2, &a, options, out);
}

fac_status fac__pw_n(fac_structured *s, fac_tensor *const *t, int n, const fac_scalar *v, uint32_t options,
                     fac_dtype out) {
    FAC_TRY(begin(s, options));
    for (int i = 0; i < n; i++) FAC_TRY(t[i] ? fac_iter_in(&s->iter, t[i]) : fac_iter_scalar(&s->iter, *v++));
    return fac_out_declare_iter(s, out);
}

fac_status fac__refuse_complex(fac_dtype d) {
    FAC_CHECK(!fac_dtype_is_complex(d), FAC_ERR_DTYPE, "complex inputs are not supported, got %s", fac_dtype_name(d));
    return FAC_OK;
}

fac_status fac__refuse_bool(fac_dtype d) {
    FAC_CHECK(d != FAC_BOOL, FAC_ERR_DTYPE, "Boolean inputs are not supported");
    return FAC_OK;
}
