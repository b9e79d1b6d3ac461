/* Output rules of copying shape operators. */
#include "ops/format.h"
#include "ops_gen.h"

fac_status flip_meta(fac_structured *s, fac_tensor *self, fac_ints dims) {
    uint64_t mask = 0;
    if (dims.n) FAC_TRY(fac__dim_mask(dims, self->ndim, &mask));
    s->carry[0] = (int64_t)mask;
    return fac_out_declare_like(s, 0, self, (fac_dtype)self->dtype);
}

fac_status triangle_meta(fac_structured *s, fac_tensor *self, int64_t diagonal) {
    (void)diagonal;
    FAC_CHECK(self->ndim >= 2, FAC_ERR_SHAPE, "the input tensor must have at least 2 dimensions, got %d", self->ndim);
    FAC_TRY(fac_out_declare(s, 0, self->sizes, NULL, self->ndim, (fac_dtype)self->dtype, self->device));
    return fac_out_check_overlap(s, 0, self, true);
}

/* ---- borders ----------------------------------------------------------------------------------------------------------- */

static fac_status check_pad_input(const fac_tensor *self, fac_ints padding, int dims) {
    FAC_CHECK(padding.n == 2 * (size_t)dims, FAC_ERR_ARGUMENT, "padding size is expected to be %d, but got: %zu",
              2 * dims, padding.n);
    FAC_CHECK(self->ndim == dims + 1 || self->ndim == dims + 2, FAC_ERR_SHAPE,
              "Expected %dD or %dD (batch mode) tensor for input, but got: %s", dims + 1, dims + 2,
              FAC_SHAPE_TEXT(self));
    for (int d = self->ndim - dims - 1; d < self->ndim; d++)
        FAC_CHECK(self->sizes[d] > 0, FAC_ERR_SHAPE,
                  "Expected a tensor with possibly 0 batch size and other non-zero dimensions for input, but got: %s",
                  FAC_SHAPE_TEXT(self));
    return FAC_OK;
}

/* Sizes with a border around the last `dims` dimensions. A mirrored border must be narrower than what it mirrors; where
   the input is cut off altogether, a replicated border still shows its nearest element. */
static fac_status bordered_sizes(const fac_tensor *self, fac_ints padding, int dims, bool mirror, int64_t *sizes) {
    FAC_TRY(check_pad_input(self, padding, dims));
    memcpy(sizes, self->sizes, self->ndim * sizeof *sizes);
    for (int k = 0; k < dims; k++) {
        int d = self->ndim - 1 - k;
        int64_t before = padding.v[2 * k], after = padding.v[2 * k + 1], n = self->sizes[d];
        FAC_CHECK(
            !mirror || (before < n && after < n), FAC_ERR_SHAPE,
            "Padding size should be less than the corresponding input dimension, but got: padding (%lld, %lld) at dimension %d of "
            "input %s",
            (long long)before, (long long)after, d, FAC_SHAPE_TEXT(self));
        FAC_CHECK(fac__add(n, before, &sizes[d]) && fac__add(sizes[d], after, &sizes[d]), FAC_ERR_OVERFLOW,
                  "size %lld padded by %lld and %lld does not fit 64 bits", (long long)n, (long long)before,
                  (long long)after);
        FAC_CHECK(sizes[d] >= 1, FAC_ERR_SHAPE, "input (dimension %d: %lld) is too small. Calculated output: %lld", d,
                  (long long)n, (long long)sizes[d]);
    }
    return FAC_OK;
}

static fac_status declare_bordered(fac_structured *s, fac_tensor *self, fac_ints padding, int dims, bool mirror) {
    int64_t sizes[FAC_MAX_DIMS];
    FAC_TRY(bordered_sizes(self, padding, dims, mirror, sizes));
    return fac_out_declare_format(s, 0, sizes, self->ndim, (fac_dtype)self->dtype, self->device,
                                  fac__border_format(self, dims));
}

static fac_status declare_unbordered(fac_structured *s, fac_tensor *grad, fac_tensor *self, fac_ints padding, int dims,
                                     bool mirror) {
    int64_t sizes[FAC_MAX_DIMS];
    FAC_TRY(bordered_sizes(self, padding, dims, mirror, sizes));
    FAC_CHECK(fac__has_sizes(grad, sizes, self->ndim), FAC_ERR_SHAPE, "grad_output has sizes %s; expected %s",
              FAC_SHAPE_TEXT(grad), fac__shape_text(sizes, self->ndim, (char[256]){0}, 256));
    FAC_CHECK(grad->dtype == self->dtype, FAC_ERR_DTYPE, "grad_output is %s, the input %s; expected the same",
              fac_dtype_name((fac_dtype)grad->dtype), fac_dtype_name((fac_dtype)self->dtype));
    FAC_CHECK(!fac_dtype_is_integral((fac_dtype)self->dtype, true), FAC_ERR_DTYPE,
              "the gradient of padding needs a floating or complex dtype");
    return fac_out_declare_format(s, 0, self->sizes, self->ndim, (fac_dtype)self->dtype, self->device,
                                  fac__border_format(self, dims));
}

#define PAD_META(name, dims, mirror)                                                                                  \
    fac_status name##_meta(fac_structured *s, fac_tensor *self, fac_ints padding) {                                   \
        return declare_bordered(s, self, padding, dims, mirror);                                                      \
    }                                                                                                                 \
    fac_status name##_backward_meta(fac_structured *s, fac_tensor *grad_output, fac_tensor *self, fac_ints padding) { \
        return declare_unbordered(s, grad_output, self, padding, dims, mirror);                                       \
    }
PAD_META(reflection_pad1d, 1, true)
PAD_META(reflection_pad2d, 2, true)
PAD_META(reflection_pad3d, 3, true)
PAD_META(replication_pad1d, 1, false)
PAD_META(replication_pad2d, 2, false)
PAD_META(replication_pad3d, 3, false)
