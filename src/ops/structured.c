/* Begins and ends calls of structured operators: outputs declared by the meta function are made, resized or checked. */
#include "ops/structured.h"
#include "core/resize.h"
#include "core/tensor_make.h"
#include "ops_gen.h"
#include <math.h>

void fac__structured_begin(fac_structured *s, const fac_call_info *c, fac_form form, int n_out,
                           fac_tensor *const *given) {
    s->call = c;
    s->form = form;
    s->n_out = n_out;
    s->same_values = s->meta_only = false;
    s->has_iter = false;
    s->plan = NULL;
    for (int i = 0; i < n_out; i++) {
        s->out[i] = NULL;
        s->given[i] = given ? given[i] : NULL;
        s->resized[i] = NULL;
    }
}

/* ---- declaring -------------------------------------------------------------------------------------------------------- */

static fac_status check_cast(fac_dtype from, fac_dtype to) {
    FAC_CHECK(fac_can_cast(from, to), FAC_ERR_DTYPE, "result type %s can't be cast to the desired output type %s",
              fac_dtype_name(from), fac_dtype_name(to));
    return FAC_OK;
}

/* The caller's tensor i as it will be: itself, or what it becomes in the end. */
static fac_tensor *target(const fac_structured *s, int i) { return s->resized[i] ? s->resized[i] : s->given[i]; }

/* Everything a caller's output must satisfy before it is written. */
static fac_status prepare_given(fac_structured *s, int i, const int64_t *sizes, const int64_t *strides, int ndim,
                                fac_dtype dtype, fac_device device) {
    fac_tensor *t = s->given[i];
    FAC_CHECK(fac_device_equal(t->device, device), FAC_ERR_DEVICE,
              "expected the out tensor on device %s, but it is on %s", fac_device_format(device, (char[24]){0}, 24),
              fac_device_format(t->device, (char[24]){0}, 24));
    FAC_TRY(check_cast(dtype, (fac_dtype)t->dtype));
    if (fac__has_sizes(t, sizes, ndim)) return s->same_values ? FAC_OK : fac__check_no_overlap(t);
    FAC_CHECK(s->form == FAC_OUT, FAC_ERR_SHAPE, "output with shape %s doesn't match the broadcast shape %s",
              FAC_SHAPE_TEXT(t), fac__shape_text(sizes, ndim, (char[256]){0}, 256));
    return fac__resize_begin(t, sizes, strides, ndim, false, &s->resized[i]);
}

static fac_status make(const int64_t *sizes, const int64_t *strides, int ndim, fac_dtype dtype, fac_device device,
                       fac_tensor **out) {
    return strides ? fac__empty_strided(sizes, strides, ndim, dtype, device, out)
                   : fac__empty(sizes, ndim, dtype, device, out);
}

fac_status fac_out_declare(fac_structured *s, int i, const int64_t *sizes, const int64_t *strides, int ndim,
                           fac_dtype dtype, fac_device device) {
    if (s->form == FAC_FUNCTIONAL) return make(sizes, strides, ndim, dtype, device, &s->out[i]);
    FAC_TRY(prepare_given(s, i, sizes, strides, ndim, dtype, device));
    if (s->given[i]->dtype != dtype) return make(sizes, strides, ndim, dtype, device, &s->out[i]);
    s->out[i] = target(s, i);
    return FAC_OK;
}

fac_status fac_out_declare_like(fac_structured *s, int i, fac_tensor *like, fac_dtype dtype) {
    bool dense = (like->flags & FAC_TF_DENSE) && !(like->flags & FAC_TF_CONTIGUOUS);
    return fac_out_declare(s, i, like->sizes, dense ? like->strides : NULL, like->ndim, dtype, like->device);
}

fac_status fac_out_aside(fac_structured *s, int i) {
    if (s->form == FAC_FUNCTIONAL || s->out[i] != target(s, i)) return FAC_OK;
    return fac__empty_like(target(s, i), &s->out[i]);
}

/* ---- overlap ------------------------------------------------------------------------------------------------------------ */

fac_status fac__shared_memory(void) {
    return FAC_FAIL(
        FAC_ERR_ARGUMENT,
        "unsupported operation: some elements of the input tensor and the written-to tensor refer to a single memory "
        "location. Please clone() the tensor before performing the operation.");
}

fac_status fac_out_check_overlap(fac_structured *s, int i, fac_tensor *input, bool elementwise) {
    if (s->form == FAC_FUNCTIONAL || !input) return FAC_OK;
    fac_overlap o = fac__overlap(target(s, i), input);
    return o == FAC_OVERLAP_PARTIAL || (o == FAC_OVERLAP_FULL && !elementwise) ? fac__shared_memory() : FAC_OK;
}

/* An output that shares memory with an input is computed aside, unless it is that input exactly and element by element. */
static fac_status settle_overlap(fac_structured *s, int i, fac_tensor *input) {
    if (!input || s->out[i] != target(s, i) || (s->form == FAC_INPLACE && input == s->given[i])) return FAC_OK;
    fac_overlap o = fac__overlap(s->out[i], input);
    if (FAC_LIKELY(o == FAC_OVERLAP_NO)) return FAC_OK;
    return o == FAC_OVERLAP_PARTIAL ? fac__shared_memory() : fac_out_aside(s, i);
}

static fac_status check_outputs_apart(const fac_structured *s) {
    for (int i = 0; i < s->n_out; i++)
        for (int j = 0; j < i; j++) {
            fac_overlap o = fac__overlap(s->given[i], s->given[j]);
            FAC_CHECK(o != FAC_OVERLAP_FULL && o != FAC_OVERLAP_PARTIAL, FAC_ERR_ARGUMENT,
                      "unsupported operation: two output tensors refer to a single memory location");
        }
    return FAC_OK;
}

fac_status fac__structured_check_all(fac_structured *s, fac_tensor *const *reads, size_t n) {
    if (s->n_out > 1) FAC_TRY(check_outputs_apart(s));
    if (s->has_iter) return FAC_OK;
    for (int i = 0; i < s->n_out; i++)
        for (size_t k = 0; s->out[i] && k < n; k++) FAC_TRY(settle_overlap(s, i, reads[k]));
    return FAC_OK;
}

/* ---- pointwise -------------------------------------------------------------------------------------------------------- */

static fac_status declare_iter_output(fac_structured *s, int i, fac_dtype dtype) {
    fac_iter *it = &s->iter;
    int64_t strides[FAC_MAX_DIMS];
    if (it->reordered) fac_iter_out_strides(it, strides);
    const int64_t *order = it->reordered ? strides : NULL;
    if (s->form == FAC_FUNCTIONAL) return make(it->full_shape, order, it->full_ndim, dtype, it->device, &s->out[i]);
    FAC_TRY(prepare_given(s, i, it->full_shape, order, it->full_ndim, dtype, it->device));
    s->out[i] = target(s, i);
    for (int k = it->n_out; k < it->n; k++) FAC_TRY(fac_out_check_overlap(s, i, it->op[k].t, true));
    return FAC_OK;
}

static fac_status declare_iter(fac_structured *s, fac_dtype out_dtype, const fac_dtype *each) {
    fac_iter *it = &s->iter;
    FAC_TRY(fac_iter_plan(it));
    for (int i = 0; i < s->n_out; i++) {
        FAC_TRY(declare_iter_output(s, i, each ? each[i] : out_dtype ? out_dtype : it->common));
        FAC_TRY(fac_iter_bind(it, i, s->out[i]));
    }
    fac_iter_finish(it);
    s->has_iter = true;
    return FAC_OK;
}
fac_status fac_out_declare_iter(fac_structured *s, fac_dtype out_dtype) { return declare_iter(s, out_dtype, NULL); }
fac_status fac_out_declare_iter_each(fac_structured *s, const fac_dtype *out_dtypes) {
    return declare_iter(s, 0, out_dtypes);
}

/* ---- the end ------------------------------------------------------------------------------------------------------------ */

/* What was computed aside is converted into the caller's tensor, below autograd. */
static fac_status copy_back(fac_structured *s, int i) {
    if (s->meta_only) return FAC_OK;
    fac_tensor *same = NULL;
    fac_status st = fac__redispatch_copy_(s->call->keys, target(s, i), s->out[i], false, &same);
    fac__unref(same);
    return st;
}

static fac_status finish_given(fac_structured *s, fac_status st, fac_tensor **out) {
    for (int i = 0; i < s->n_out; i++) {
        bool aside = s->out[i] && s->out[i] != target(s, i);
        if (aside && st == FAC_OK) st = copy_back(s, i);
        if (aside) fac__unref(s->out[i]);
    }
    for (int i = 0; i < s->n_out; i++) {
        if (s->resized[i] && st == FAC_OK) fac__resize_out_end(s->given[i], s->resized[i]);
        if (s->resized[i] && st != FAC_OK) fac__unref(s->resized[i]);
        if (st == FAC_OK) out[i] = fac__ref(s->given[i]);
    }
    return st;
}

fac_status fac__structured_end(fac_structured *s, fac_status st, fac_tensor **out) {
    if (s->form != FAC_FUNCTIONAL) return finish_given(s, st, out);
    for (int i = 0; i < s->n_out; i++) {
        out[i] = st == FAC_OK ? s->out[i] : NULL;
        if (st != FAC_OK) fac__unref(s->out[i]);
    }
    return st;
}

/* ---- numbers ------------------------------------------------------------------------------------------------------------ */

/* Whether x becomes an element of d: in a floating dtype any but a finite number beyond the largest; in an integral one
   what truncation brings into its range. Whole negative numbers wrap around in uint8. */
static bool fits(fac_dtype d, double x, bool whole) {
    static const double limit[FAC_DTYPE_COUNT] = {
        [FAC_U8] = 0x1p8, [FAC_I8] = 0x1p7, [FAC_I16] = 0x1p15, [FAC_I32] = 0x1p31, [FAC_I64] = 0x1p63};
    if (d == FAC_BOOL || d >= FAC_DTYPE_COUNT) return true;
    if (!fac_dtype_is_integral(d, false)) return !isfinite(x) || fabs(x) <= fac__dtype_largest(d);
    const double least = d != FAC_U8 ? -limit[d] : whole ? 1 - limit[d] : 0;
    return x >= least && x < limit[d];
}

fac_status fac__check_any_number(fac_dtype d, fac_scalar v) {
    FAC_CHECK(v.kind != FAC_KIND_COMPLEX || fac_dtype_is_complex(d), FAC_ERR_DTYPE,
              "value cannot be converted to type %s without losing its imaginary part", fac_dtype_name(d));
    double z[2];
    fac__scalar_c128(v, z);
    bool whole = v.kind == FAC_KIND_INT || v.kind == FAC_KIND_BOOL;
    FAC_CHECK((whole && d == FAC_I64) || (fits(d, z[0], whole) && fits(d, z[1], whole)), FAC_ERR_OVERFLOW,
              "value cannot be converted to type %s without overflow", fac_dtype_name(d));
    return FAC_OK;
}

fac_status fac__check_value(fac_dtype d, const fac_tensor *value) {
    FAC_CHECK(!fac_dtype_is_complex((fac_dtype)value->dtype) || fac_dtype_is_complex(d), FAC_ERR_DTYPE,
              "value is %s, which cannot be converted to %s without losing its imaginary part",
              fac_dtype_name((fac_dtype)value->dtype), fac_dtype_name(d));
    return FAC_OK;
}

fac_status fac__check_bound(fac_dtype d, bool lower, fac_scalar *bound) {
    if (d == FAC_I64 || !fac_dtype_is_integral(d, false)) return fac__check_number(d, *bound);
    FAC_TRY(fac__check_number(FAC_I64, *bound));
    const int bits = 8 * (int)fac__dtype_size(d) - (d != FAC_U8);
    const int64_t v = fac__scalar_i64(*bound), hi = ((int64_t)1 << bits) - 1, lo = d == FAC_U8 ? 0 : -hi - 1;
    FAC_CHECK(lower ? v <= hi : v >= lo, FAC_ERR_OVERFLOW, "the %s bound %lld is beyond what %s holds",
              lower ? "lower" : "upper", (long long)v, fac_dtype_name(d));
    *bound = fac_scalar_i_(v < lo ? lo : v > hi ? hi : v);
    return FAC_OK;
}

fac_status fac__need_meta(const char *name, const fac_tensor *t) {
    FAC_CHECK(t->device.type == FAC_META, FAC_ERR_DEVICE,
              "%s is on %s, but another argument is on the meta device and has no data", name,
              fac_device_format(t->device, (char[24]){0}, 24));
    return FAC_OK;
}

/* ---- devices -------------------------------------------------------------------------------------------------------------- */

fac_status fac__check_same_device(const char *const *names, fac_tensor *const *tensors, size_t n) {
    size_t first = n;
    for (size_t i = 0; i < n; i++) {
        const fac_tensor *t = tensors[i];
        if (!t) continue;
        if (first == n) first = i;
        FAC_CHECK(fac_device_equal(t->device, tensors[first]->device), FAC_ERR_DEVICE,
                  "Expected all tensors to be on the same device, but %s is on %s and %s is on %s!", names[first],
                  fac_device_format(tensors[first]->device, (char[24]){0}, 24), names[i],
                  fac_device_format(t->device, (char[24]){0}, 24));
    }
    return FAC_OK;
}
