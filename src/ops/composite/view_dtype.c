/* Views that read the same bytes as another dtype. */
#include "core/coded.h"
#include "core/tensor_make.h"
#include "ops_gen.h"

/* Owned view with other geometry whose elements are of dtype d; sizes, strides and offset count in elements of d. */
static fac_status retyped(fac_tensor *self, fac_dtype d, const int64_t *sizes, const int64_t *strides, int ndim,
                          int64_t offset, fac_tensor **out) {
    FAC_CHECK(ndim <= FAC_MAX_DIMS, FAC_ERR_SHAPE, "a tensor may have at most %d dimensions, got %d", FAC_MAX_DIMS,
              ndim);
    FAC_TRY(fac__view(self, sizes, strides, ndim, offset, false, out));
    if (fac_dtype_is_float8(d))
        fac__make_coded(*out, d, NULL);
    else
        (*out)->dtype = (uint8_t)d;
    return FAC_OK;
}

/* Strides and offset when elements become `ratio` times smaller; the last dimension is up to the caller. */
static fac_status finer(const fac_tensor *self, int64_t ratio, int64_t *strides, int64_t *offset) {
    bool fits = fac__mul(self->offset, ratio, offset);
    for (int d = 0; d < self->ndim; d++) fits = fits && fac__mul(self->strides[d], ratio, &strides[d]);
    FAC_CHECK(fits, FAC_ERR_OVERFLOW, "the strides of the view do not fit 64 bits");
    return FAC_OK;
}

/* The reverse: elements become `ratio` times larger. */
static fac_status coarser(const fac_tensor *self, int64_t ratio, int64_t *strides, int64_t *offset) {
    FAC_CHECK(self->offset % ratio == 0, FAC_ERR_SHAPE,
              "Tensor must have a storage_offset divisible by %lld, but got %lld", (long long)ratio,
              (long long)self->offset);
    *offset = self->offset / ratio;
    for (int d = 0; d < self->ndim - 1; d++) {
        FAC_CHECK(self->strides[d] % ratio == 0, FAC_ERR_SHAPE,
                  "Tensor must have strides divisible by %lld except in the last dimension, but stride[%d] is %lld",
                  (long long)ratio, d, (long long)self->strides[d]);
        strides[d] = self->strides[d] / ratio;
    }
    return FAC_OK;
}

fac_status view_as_real_view(const fac_call_info *c, fac_tensor *self, fac_tensor **out) {
    (void)c;
    FAC_CHECK(fac_dtype_is_complex((fac_dtype)self->dtype), FAC_ERR_DTYPE,
              "view_as_real is only supported for complex tensors, got %s", fac_dtype_name((fac_dtype)self->dtype));
    FAC_CHECK(
        !(self->flags & FAC_TF_CONJ), FAC_ERR_UNSUPPORTED,
        "view_as_real doesn't work on unresolved conjugated tensors. To resolve the conjugate tensor so you can view "
        "it as real, use self.resolve_conj(); however, be warned that the resulting tensor will NOT alias the "
        "original.");
    int64_t sizes[FAC_MAX_DIMS + 1], strides[FAC_MAX_DIMS + 1], offset;
    FAC_TRY(finer(self, 2, strides, &offset));
    memcpy(sizes, self->sizes, self->ndim * sizeof *sizes);
    sizes[self->ndim] = 2;
    strides[self->ndim] = 1;
    return retyped(self, fac__real_of((fac_dtype)self->dtype), sizes, strides, self->ndim + 1, offset, out);
}

fac_status view_as_complex_view(const fac_call_info *c, fac_tensor *self, fac_tensor **out) {
    (void)c;
    FAC_CHECK(self->dtype == FAC_F32 || self->dtype == FAC_F64, FAC_ERR_DTYPE,
              "view_as_complex is only supported for float32 and float64 tensors, got %s",
              fac_dtype_name((fac_dtype)self->dtype));
    FAC_CHECK(self->ndim > 0, FAC_ERR_SHAPE, "Input tensor must have one or more dimensions");
    int last = self->ndim - 1;
    FAC_CHECK(self->sizes[last] == 2, FAC_ERR_SHAPE, "Tensor must have a last dimension of size 2, got %s",
              FAC_SHAPE_TEXT(self));
    FAC_CHECK(self->strides[last] == 1, FAC_ERR_SHAPE, "Tensor must have a last dimension with stride 1, got %lld",
              (long long)self->strides[last]);
    int64_t strides[FAC_MAX_DIMS], offset;
    FAC_TRY(coarser(self, 2, strides, &offset));
    return retyped(self, fac__complex_of((fac_dtype)self->dtype), self->sizes, strides, last, offset, out);
}

/* The same bytes in a dtype of another size: the last dimension grows or shrinks and must be contiguous. */
static fac_status resized_elements(fac_tensor *self, fac_dtype dtype, int64_t from, int64_t to, fac_tensor **out) {
    FAC_CHECK(self->ndim > 0, FAC_ERR_SHAPE, "self.dim() cannot be 0 to view %s as %s (different element sizes)",
              fac_dtype_name((fac_dtype)self->dtype), fac_dtype_name(dtype));
    int last = self->ndim - 1;
    FAC_CHECK(self->strides[last] == 1, FAC_ERR_SHAPE,
              "self.stride(-1) must be 1 to view %s as %s (different element sizes), but got %lld",
              fac_dtype_name((fac_dtype)self->dtype), fac_dtype_name(dtype), (long long)self->strides[last]);
    int64_t sizes[FAC_MAX_DIMS], strides[FAC_MAX_DIMS], offset;
    memcpy(sizes, self->sizes, self->ndim * sizeof *sizes);
    if (from > to) {
        FAC_TRY(finer(self, from / to, strides, &offset));
        FAC_CHECK(fac__mul(sizes[last], from / to, &sizes[last]), FAC_ERR_OVERFLOW,
                  "the size of the last dimension does not fit 64 bits");
    } else {
        FAC_TRY(coarser(self, to / from, strides, &offset));
        FAC_CHECK(sizes[last] % (to / from) == 0, FAC_ERR_SHAPE,
                  "self.size(-1) must be divisible by %lld to view %s as %s (different element sizes), but got %lld",
                  (long long)(to / from), fac_dtype_name((fac_dtype)self->dtype), fac_dtype_name(dtype),
                  (long long)sizes[last]);
        sizes[last] /= to / from;
    }
    strides[last] = 1;
    return retyped(self, dtype, sizes, strides, self->ndim, offset, out);
}

fac_status view_dtype_view(const fac_call_info *c, fac_tensor *self, fac_dtype dtype, fac_tensor **out) {
    (void)c;
    int64_t from = fac__item_size(self), to = fac__dtype_size(dtype);
    FAC_CHECK(to > 0, FAC_ERR_ARGUMENT, "dtype must be given");
    FAC_CHECK(!fac_dtype_is_quantized(dtype), FAC_ERR_UNSUPPORTED,
              "bytes are no %s tensor without a scale and a zero point: see _make_per_tensor_quantized_tensor",
              fac_dtype_name(dtype));
    FAC_CHECK(!fac__pending(self) || dtype == self->dtype, FAC_ERR_UNSUPPORTED,
              "torch.Tensor.view is not supported for %s when converting to a different dtype.",
              self->flags & FAC_TF_CONJ ? "conjugate view tensors" : "tensors with negative bit set");
    if (from == to) return retyped(self, dtype, self->sizes, self->strides, self->ndim, self->offset, out);
    return resized_elements(self, dtype, from, to, out);
}

/* ---- what remains to be done when elements are read --------------------------------------------------------------------- */

/* Owned: the same memory with one more thing pending, or one less if it was pending already. */
static fac_status turned(fac_tensor *self, unsigned flags, fac_tensor **out) {
    FAC_TRY(fac__alias(self, true, out));
    fac__turn_pending(*out, flags);
    return FAC_OK;
}

fac_status conj_view(const fac_call_info *c, fac_tensor *self, fac_tensor **out) {
    (void)c;
    FAC_CHECK(fac_dtype_is_complex((fac_dtype)self->dtype), FAC_ERR_DTYPE, "_conj is for complex tensors, got %s",
              fac_dtype_name((fac_dtype)self->dtype));
    return turned(self, FAC_TF_CONJ, out);
}

fac_status neg_view(const fac_call_info *c, fac_tensor *self, fac_tensor **out) {
    (void)c;
    FAC_CHECK(self->dtype != FAC_BOOL, FAC_ERR_DTYPE, "a bool tensor has no negative");
    return turned(self, FAC_TF_NEG, out);
}
