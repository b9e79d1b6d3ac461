/* Gradients of views. Each is made of public operators, so that it can be differentiated again. */
#include "ops/composite/view.h"
#include "autograd/formulas/brief.h"

fac_tensor *permute_grad(fac_tensor *grad, fac_ints dims) {
    int64_t inverse[FAC_MAX_DIMS];
    for (size_t i = 0; i < dims.n; i++) {
        int64_t d;
        FAC_TRY_NULL(fac__wrap_dim(dims.v[i], (int64_t)dims.n, &d));
        inverse[d] = (int64_t)i;
    }
    return fac__s_permute(grad, (fac_ints){inverse, dims.n});
}

fac_tensor *slice_grad(fac_tensor *grad, fac_ints sizes, int64_t dim, fac_opt_int start, fac_opt_int end,
                       int64_t step) {
    int64_t d;
    FAC_TRY_NULL(fac__wrap_dim(dim, (int64_t)sizes.n, &d));
    return fac__s_slice_backward(grad, sizes, d, start.set ? start.v : 0, end.set ? end.v : sizes.v[d], step);
}

/* Whether pairs of neighbours of a tensor that stands for no other are complex numbers as they lie. */
static bool are_pairs(const fac_tensor *t) {
    if (!t || t->cls || fac__pending(t) || !fac__is_contiguous(t) || t->offset % 2) return false;
    for (int d = 0; d + 1 < t->ndim; d++)
        if (t->strides[d] % 2) return false;
    return true;
}

fac_tensor *view_as_complex_grad(fac_tensor *grad) {
    return fac__s_view_as_complex(are_pairs(grad) ? grad : fac__s_clone(grad, FAC_CONTIGUOUS));
}

/* ---- lists of parts: the gradients joined, zeros where nothing flowed ------------------------------------------------------ */

static fac_tensor *like_of(fac_tensors grads) {
    for (size_t i = 0; i < grads.n; i++)
        if (grads.v[i]) return grads.v[i];
    return NULL;
}

/* The gradient of part i, or zeros of sizes with `length` in place of dimension d (length -1: without it). */
static fac_tensor *part_grad(fac_tensors grads, size_t i, fac_ints sizes, int64_t d, int64_t length) {
    if (grads.v[i]) return grads.v[i];
    int64_t part[FAC_MAX_DIMS];
    size_t n = 0;
    for (size_t j = 0; j < sizes.n; j++) {
        if ((int64_t)j != d)
            part[n++] = sizes.v[j];
        else if (length >= 0)
            part[n++] = length;
    }
    return zeros_of(like_of(grads), (fac_ints){part, n});
}

/* Where the parts end: every `step` elements, or as `lengths` says. */
typedef struct part_lengths {
    int64_t step, size;
    const int64_t *listed;
} part_lengths;

static int64_t length_of(const part_lengths *l, size_t i) {
    if (l->listed) return l->listed[i];
    return fac__min(l->step, l->size - (int64_t)i * l->step);
}

static fac_tensor *join_parts(fac_tensors grads, fac_ints sizes, int64_t d, const part_lengths *lengths) {
    fac_tensor **parts = fac__alloc_array(grads.n + 1, sizeof *parts);
    if (!parts) return NULL;
    bool ok = true;
    for (size_t i = 0; i < grads.n && ok; i++) {
        parts[i] = part_grad(grads, i, sizes, d, lengths ? length_of(lengths, i) : -1);
        ok = parts[i] != NULL;
    }
    fac_tensors all = {parts, grads.n};
    fac_tensor *joined = !ok ? NULL : lengths ? fac__s_cat(all, d) : fac__s_stack(all, d);
    fac__free(parts);
    return joined;
}

fac_tensor *split_grad(fac_tensors grads, fac_ints sizes, int64_t split_size, int64_t dim) {
    int64_t d;
    FAC_TRY_NULL(fac__wrap_dim(dim, (int64_t)sizes.n, &d));
    part_lengths lengths = {split_size, sizes.v[d], NULL};
    return join_parts(grads, sizes, d, &lengths);
}

fac_tensor *split_with_sizes_grad(fac_tensors grads, fac_ints sizes, fac_ints split_sizes, int64_t dim) {
    int64_t d;
    FAC_TRY_NULL(fac__wrap_dim(dim, (int64_t)sizes.n, &d));
    part_lengths lengths = {0, sizes.v[d], split_sizes.v};
    return join_parts(grads, sizes, d, &lengths);
}

fac_tensor *unbind_grad(fac_tensors grads, fac_ints sizes, int64_t dim) {
    int64_t d;
    FAC_TRY_NULL(fac__wrap_dim(dim, (int64_t)sizes.n, &d));
    return join_parts(grads, sizes, d, NULL);
}

/* ---- copies with a part replaced: the part's gradient is zero ----------------------------------------------------------------- */

fac_tensor *slice_scatter_grad(fac_tensor *grad, fac_ints sizes, int64_t dim, fac_opt_int start, fac_opt_int end,
                               int64_t step) {
    return fac__s_slice_scatter(grad, spread_zeros(grad, sizes), dim, start, end, step);
}

fac_tensor *select_scatter_grad(fac_tensor *grad, fac_ints sizes, int64_t dim, int64_t index) {
    return fac__s_select_scatter(grad, spread_zeros(grad, sizes), dim, index);
}

fac_tensor *diagonal_scatter_grad(fac_tensor *grad, fac_ints sizes, int64_t offset, int64_t dim1, int64_t dim2) {
    return fac__s_diagonal_scatter(grad, spread_zeros(grad, sizes), offset, dim1, dim2);
}

fac_tensor *as_strided_scatter_grad(fac_tensor *grad, fac_ints sizes, fac_ints size, fac_ints stride,
                                    fac_opt_int storage_offset) {
    return fac__s_as_strided_scatter(grad, spread_zeros(grad, sizes), size, stride, storage_offset);
}

fac_tensor *as_strided_of_contiguous(fac_tensor *grad, fac_ints size, fac_ints stride, fac_opt_int storage_offset) {
    return fac__s_as_strided(fac__s_clone(grad, FAC_CONTIGUOUS), size, stride, storage_offset);
}

/* ---- as_strided: through a flat stand-in for the storage that both geometries reach -------------------------------------------- */

static bool is_empty(fac_ints sizes) {
    for (size_t d = 0; d < sizes.n; d++)
        if (sizes.v[d] == 0) return true;
    return false;
}

/* One past the last element that a geometry that is not empty reaches from its offset. */
static int64_t reach(fac_ints sizes, fac_ints strides) {
    int64_t last = 0;
    for (size_t d = 0; d < sizes.n; d++) last += (sizes.v[d] - 1) * strides.v[d]; /* within the storage: fits */
    return last + 1;
}

/* False if two indices surely never meet in memory: each stride steps over all that smaller ones reach. */
static bool may_overlap(fac_ints sizes, fac_ints strides) {
    for (size_t d = 0; d < sizes.n; d++) {
        if (sizes.v[d] <= 1) continue;
        int64_t below = 0;
        for (size_t e = 0; e < sizes.n; e++)
            if (e != d && sizes.v[e] > 1 && (strides.v[e] < strides.v[d] || (strides.v[e] == strides.v[d] && e > d)))
                below += (sizes.v[e] - 1) * strides.v[e];
        if (strides.v[d] <= below) return true;
    }
    return false;
}

/* Positions in the stand-in of a geometry's elements, row-major. */
static fac_tensor *positions(int64_t n, fac_tensor *like, fac_ints sizes, fac_ints strides, int64_t offset) {
    fac_tensor *all =
        fac__s_arange(fac_scalar_i_(n), FAC_I64, FAC_STRIDED, like ? like->device : (fac_device){0}, (fac_opt_num){0});
    return fac__s_reshape(fac__s_as_strided(all, sizes, strides, fac_opt_int_(offset)), FAC_INTS(-1));
}

/* Elements of an overlapping input share the gradient of the memory that they share. */
static fac_tensor *divided_by_uses(fac_tensor *flat, fac_tensor *used) {
    fac_tensor *ones =
        fac__s_new_ones(flat, fac__sizes_now(used), FAC_DTYPE_DEFAULT, FAC_STRIDED, (fac_device){0}, (fac_opt_num){0});
    fac_tensor *uses = fac__s_index_add(
        fac__s_zeros_like(flat, FAC_DTYPE_DEFAULT, FAC_STRIDED, (fac_device){0}, (fac_opt_num){0}, FAC_FORMAT_DEFAULT),
        0, used, ones, fac_scalar_i_(1));
    uses = fac__s_masked_fill_Scalar(uses, fac__s_logical_not(uses), fac_scalar_i_(1));
    return fac__s_div_Tensor(flat, uses);
}

fac_tensor *as_strided_grad(fac_tensor *grad, fac_ints sizes, fac_ints strides, int64_t offset, fac_ints size,
                            fac_ints stride, fac_opt_int storage_offset) {
    if (is_empty(size) || is_empty(sizes)) return zeros_of(grad, sizes);
    int64_t from = storage_offset.set ? storage_offset.v : offset, base = fac__min(from, offset);
    int64_t n = fac__max(offset + reach(sizes, strides), from + reach(size, stride)) - base;
    fac_tensor *flat = spread_zeros(grad, FAC_INTS(n));
    if (!may_overlap(size, stride))
        flat = fac__s_as_strided_scatter(flat, grad, size, stride, fac_opt_int_(from - base));
    else
        flat = fac__s_index_add(flat, 0, positions(n, grad, size, stride, from - base),
                                fac__s_reshape(grad, FAC_INTS(-1)), fac_scalar_i_(1));
    if (may_overlap(sizes, strides)) flat = divided_by_uses(flat, positions(n, grad, sizes, strides, offset - base));
    return fac__s_as_strided(flat, sizes, strides, fac_opt_int_(offset - base));
}
