/* What undoes a view: a tensor whose viewed part is written, the rest zero (…_backward) or kept (…_scatter). Built on
   the view kernels and the back end's copy, below autograd. */
#include "core/tensor_make.h"
#include "ops/composite/below.h"
#include "ops_gen.h"

/* Copies src over `part`, a view of `base`, and hands base out. Takes both references; both may be NULL if st failed. */
static fac_status write_part(fac_status st, fac_tensor *base, fac_tensor *part, fac_tensor *src, fac_tensor **out) {
    if (st == FAC_OK && !fac__same_sizes(part, src))
        st = FAC_FAIL(FAC_ERR_SHAPE, "expected src to have the sizes %s of the part that it replaces, got %s",
                      FAC_SHAPE_TEXT(part), FAC_SHAPE_TEXT(src));
    if (st == FAC_OK) st = fac__copy_below(part, src);
    fac__unref(part);
    if (st != FAC_OK)
        fac__unref(base);
    else
        *out = base;
    return st;
}

/* ---- zeros around ---------------------------------------------------------------------------------------------------- */

fac_status slice_backward_explicit(const fac_call_info *c, fac_tensor *grad_output, fac_ints input_sizes, int64_t dim,
                                   int64_t start, int64_t end, int64_t step, fac_tensor **out) {
    fac_tensor *base = NULL, *part = NULL;
    FAC_TRY(fac__zeros_below(input_sizes, grad_output, &base));
    fac_status st = slice_view(c, base, dim, fac_opt_int_(start), fac_opt_int_(end), step, &part);
    return write_part(st, base, part, grad_output, out);
}

fac_status select_backward_explicit(const fac_call_info *c, fac_tensor *grad_output, fac_ints input_sizes, int64_t dim,
                                    int64_t index, fac_tensor **out) {
    fac_tensor *base = NULL, *part = NULL;
    FAC_TRY(fac__zeros_below(input_sizes, grad_output, &base));
    fac_status st = select_view(c, base, dim, index, &part);
    return write_part(st, base, part, grad_output, out);
}

fac_status diagonal_backward_explicit(const fac_call_info *c, fac_tensor *grad_output, fac_ints input_sizes,
                                      int64_t offset, int64_t dim1, int64_t dim2, fac_tensor **out) {
    fac_tensor *base = NULL, *part = NULL;
    FAC_TRY(fac__zeros_below(input_sizes, grad_output, &base));
    fac_status st = diagonal_view(c, base, offset, dim1, dim2, &part);
    return write_part(st, base, part, grad_output, out);
}

/* Adds one part of grad to one part of base, where neither overlaps itself. Takes both references; both may be NULL if st
   failed. */
static fac_status add_part(fac_status st, fac_tensor *part, fac_tensor *add) {
    if (st == FAC_OK) st = fac__add_below(part, add);
    fac__unref(part);
    fac__unref(add);
    return st;
}

/* Adds grad[..., j, j + 1, ...], of `n` places, at most `step`, to the elements that they showed, which do not overlap. */
static fac_status add_places(const fac_call_info *c, fac_tensor *base, fac_tensor *grad, int64_t dim, int64_t j,
                             int64_t n, int64_t step) {
    fac_tensor *reached = NULL, *part = NULL, *add = NULL;
    const int64_t end = j + (grad->sizes[dim] - 1) * step + n;
    fac_status st = slice_view(c, base, dim, fac_opt_int_(j), fac_opt_int_(end), 1, &reached);
    if (st == FAC_OK) st = unfold_view(c, reached, dim, n, step, &part);
    if (st == FAC_OK) st = slice_view(c, grad, -1, fac_opt_int_(j), fac_opt_int_(j + n), 1, &add);
    fac__unref(reached);
    return add_part(st, part, add);
}

/* Adds the i-th window to the elements that it showed. */
static fac_status add_window(const fac_call_info *c, fac_tensor *base, fac_tensor *grad, int64_t dim, int64_t i,
                             int64_t step) {
    fac_tensor *part = NULL, *add = NULL, *windows = NULL;
    fac_status st = unfold_view(c, base, dim, grad->sizes[grad->ndim - 1], step, &windows);
    if (st == FAC_OK) st = select_view(c, windows, dim, i, &part);
    if (st == FAC_OK) st = select_view(c, grad, dim, i, &add);
    fac__unref(windows);
    return add_part(st, part, add);
}

/* One pass per window, or per `step` places of all windows: whichever are fewer. */
static fac_status add_windows(const fac_call_info *c, fac_tensor *base, fac_tensor *grad, int64_t dim, int64_t size,
                              int64_t step) {
    const int64_t windows = grad->sizes[dim], passes = size / step + (size % step != 0);
    if (grad->numel == 0 || grad->device.type == FAC_META) return FAC_OK;
    if (windows < passes) {
        for (int64_t i = 0; i < windows; i++) FAC_TRY(add_window(c, base, grad, dim, i, step));
    } else {
        for (int64_t j = 0; j < size; j += step)
            FAC_TRY(add_places(c, base, grad, dim, j, fac__min(step, size - j), step));
    }
    return FAC_OK;
}

static fac_status check_windows(const fac_call_info *c, fac_tensor *base, fac_tensor *grad, int64_t dim, int64_t size,
                                int64_t step) {
    fac_tensor *windows = NULL;
    FAC_TRY(unfold_view(c, base, dim, size, step, &windows));
    bool same = fac__same_sizes(windows, grad);
    fac__unref(windows);
    FAC_CHECK(same, FAC_ERR_SHAPE, "the gradient of unfold has sizes %s, which are not those of its windows",
              FAC_SHAPE_TEXT(grad));
    return FAC_OK;
}

fac_status unfold_backward_explicit(const fac_call_info *c, fac_tensor *grad_in, fac_ints input_sizes, int64_t dim,
                                    int64_t size, int64_t step, fac_tensor **out) {
    fac_tensor *base = NULL;
    int64_t d;
    FAC_TRY(fac__wrap_dim(dim, (int64_t)input_sizes.n, &d));
    FAC_TRY(fac__zeros_below(input_sizes, grad_in, &base));
    fac_status st = check_windows(c, base, grad_in, d, size, step);
    if (st == FAC_OK && base->ndim)
        st = add_windows(c, base, grad_in, d, size, step);
    else if (st == FAC_OK && size) {
        fac_tensor *only = NULL; /* a tensor without dimensions has one window of one element */
        st = select_view(c, grad_in, 0, 0, &only);
        if (st == FAC_OK) st = fac__copy_below(base, only);
        fac__unref(only);
    }
    if (st != FAC_OK)
        fac__unref(base);
    else
        *out = base;
    return st;
}

/* ---- the rest kept --------------------------------------------------------------------------------------------------------- */

fac_status slice_scatter_explicit(const fac_call_info *c, fac_tensor *self, fac_tensor *src, int64_t dim,
                                  fac_opt_int start, fac_opt_int end, int64_t step, fac_tensor **out) {
    fac_tensor *base = NULL, *part = NULL;
    FAC_TRY(fac__clone_below(self, &base));
    fac_status st = slice_view(c, base, dim, start, end, step, &part);
    return write_part(st, base, part, src, out);
}

fac_status select_scatter_explicit(const fac_call_info *c, fac_tensor *self, fac_tensor *src, int64_t dim,
                                   int64_t index, fac_tensor **out) {
    fac_tensor *base = NULL, *part = NULL;
    FAC_TRY(fac__clone_below(self, &base));
    fac_status st = select_view(c, base, dim, index, &part);
    return write_part(st, base, part, src, out);
}

fac_status diagonal_scatter_explicit(const fac_call_info *c, fac_tensor *self, fac_tensor *src, int64_t offset,
                                     int64_t dim1, int64_t dim2, fac_tensor **out) {
    fac_tensor *base = NULL, *part = NULL;
    FAC_TRY(fac__clone_below(self, &base));
    fac_status st = diagonal_view(c, base, offset, dim1, dim2, &part);
    return write_part(st, base, part, src, out);
}

fac_status as_strided_scatter_explicit(const fac_call_info *c, fac_tensor *self, fac_tensor *src, fac_ints size,
                                       fac_ints stride, fac_opt_int storage_offset, fac_tensor **out) {
    fac_tensor *base = NULL, *part = NULL;
    FAC_TRY(fac__empty(self->sizes, self->ndim, (fac_dtype)self->dtype, self->device, &base));
    fac_status st = fac__copy_below(base, self);
    if (st == FAC_OK) st = as_strided_view(c, base, size, stride, storage_offset, &part);
    return write_part(st, base, part, src, out);
}

/* ---- a diagonal --------------------------------------------------------------------------------------------------------------- */

/* Sizes of diag_embed's result: self's without the last, with two of last + |offset| at dim1 and dim2. */
static fac_status embed_sizes(const fac_tensor *self, int64_t offset, int64_t dim1, int64_t dim2, int64_t *sizes) {
    int64_t side = self->sizes[self->ndim - 1];
    FAC_CHECK(offset < 0 ? fac__sub(side, offset, &side) : fac__add(side, offset, &side), FAC_ERR_OVERFLOW,
              "the diagonal %lld is too far away", (long long)offset);
    for (int64_t d = 0, from = 0; d <= self->ndim; d++) sizes[d] = d == dim1 || d == dim2 ? side : self->sizes[from++];
    return FAC_OK;
}

fac_status diag_embed_explicit(const fac_call_info *c, fac_tensor *self, int64_t offset, int64_t dim1, int64_t dim2,
                               fac_tensor **out) {
    int64_t a, b, sizes[FAC_MAX_DIMS + 1];
    FAC_CHECK(self->ndim > 0, FAC_ERR_SHAPE, "diag_embed needs at least one dimension, for the diagonal");
    FAC_TRY(fac__wrap_dim(dim1, self->ndim + 1, &a));
    FAC_TRY(fac__wrap_dim(dim2, self->ndim + 1, &b));
    FAC_CHECK(a != b, FAC_ERR_ARGUMENT, "diagonal dimensions cannot be identical %lld, %lld", (long long)dim1,
              (long long)dim2);
    FAC_TRY(embed_sizes(self, offset, a, b, sizes));
    fac_tensor *base = NULL, *part = NULL;
    FAC_TRY(fac__zeros_below((fac_ints){sizes, (size_t)self->ndim + 1}, self, &base));
    fac_status st = diagonal_view(c, base, offset, a, b, &part);
    return write_part(st, base, part, self, out);
}
