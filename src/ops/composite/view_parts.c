/* Composite views: other spellings of the view kernels. A composite that has nothing to do returns its argument. */
#include "ops/composite/view.h"
#include "ops_gen.h"

static fac_status itself(fac_tensor *self, fac_tensor **out) {
    *out = fac__ref(self);
    return FAC_OK;
}

/* ---- sizes ------------------------------------------------------------------------------------------------------------ */

fac_status view_as_composite(const fac_call_info *c, fac_tensor *self, fac_tensor *other, fac_tensor **out) {
    (void)c;
    return fac__c_view(self, fac__sizes_now(other), out);
}

fac_status reshape_composite(const fac_call_info *c, fac_tensor *self, fac_ints shape, fac_tensor **out) {
    (void)c;
    int64_t sizes[FAC_MAX_DIMS], strides[FAC_MAX_DIMS];
    FAC_TRY(fac__view_sizes(shape, self->numel, sizes));
    fac_ints wanted = {sizes, shape.n};
    if (fac__view_strides(self, sizes, (int)shape.n, strides)) return fac__c_view(self, wanted, out);
    fac_tensor *copy;
    FAC_TRY(fac__c_clone(self, FAC_CONTIGUOUS, &copy));
    fac_status st = fac__c__unsafe_view(copy, wanted, out);
    fac__unref(copy);
    return st;
}

fac_status reshape_as_composite(const fac_call_info *c, fac_tensor *self, fac_tensor *other, fac_tensor **out) {
    (void)c;
    return fac__c_reshape(self, fac__sizes_now(other), out);
}

fac_status expand_as_composite(const fac_call_info *c, fac_tensor *self, fac_tensor *other, fac_tensor **out) {
    (void)c;
    return fac__c_expand(self, fac__sizes_now(other), false, out);
}

fac_status broadcast_to_composite(const fac_call_info *c, fac_tensor *self, fac_ints size, fac_tensor **out) {
    (void)c;
    return fac__c_expand(self, size, false, out);
}

fac_status flatten_composite(const fac_call_info *c, fac_tensor *self, int64_t start_dim, int64_t end_dim,
                             fac_tensor **out) {
    (void)c;
    int64_t a, b, sizes[FAC_MAX_DIMS];
    FAC_TRY(fac__wrap_dim(start_dim, self->ndim, &a));
    FAC_TRY(fac__wrap_dim(end_dim, self->ndim, &b));
    FAC_CHECK(a <= b, FAC_ERR_ARGUMENT, "start_dim cannot come after end_dim");
    if (self->ndim == 0) return fac__c_reshape(self, FAC_INTS(1), out);
    if (a == b) return itself(self, out);
    size_t n = 0;
    for (int64_t d = 0; d < self->ndim; d++) {
        if (d > a && d <= b)
            FAC_CHECK(fac__mul(sizes[n - 1], self->sizes[d], &sizes[n - 1]), FAC_ERR_OVERFLOW,
                      "the dimensions of %s from %lld to %lld make more than 64 bits hold", FAC_SHAPE_TEXT(self),
                      (long long)a, (long long)b);
        else
            sizes[n++] = self->sizes[d];
    }
    return fac__c_reshape(self, (fac_ints){sizes, n}, out);
}

fac_status unflatten_composite(const fac_call_info *c, fac_tensor *self, int64_t dim, fac_ints sizes,
                               fac_tensor **out) {
    (void)c;
    int64_t d, all[FAC_MAX_DIMS];
    FAC_CHECK(self->ndim > 0, FAC_ERR_SHAPE, "a tensor without dimensions has none to unflatten");
    FAC_TRY(fac__wrap_dim(dim, self->ndim, &d));
    FAC_CHECK(sizes.n > 0, FAC_ERR_ARGUMENT, "sizes must be non-empty");
    FAC_CHECK(sizes.n + self->ndim - 1 <= FAC_MAX_DIMS, FAC_ERR_SHAPE,
              "a tensor may have at most %d dimensions, got %zu", FAC_MAX_DIMS, sizes.n + self->ndim - 1);
    memcpy(all, self->sizes, (size_t)d * sizeof *all);
    FAC_TRY(fac__view_sizes(sizes, self->sizes[d], all + d));
    memcpy(all + d + sizes.n, self->sizes + d + 1, (size_t)(self->ndim - 1 - d) * sizeof *all);
    return fac__c_view(self, (fac_ints){all, sizes.n + self->ndim - 1}, out);
}

/* ---- order of dimensions -------------------------------------------------------------------------------------------------- */

fac_status numpy_T_composite(const fac_call_info *c, fac_tensor *self, fac_tensor **out) {
    (void)c;
    int64_t dims[FAC_MAX_DIMS];
    for (int d = 0; d < self->ndim; d++) dims[d] = self->ndim - 1 - d;
    return fac__c_permute(self, (fac_ints){dims, self->ndim}, out);
}

fac_status mT_composite(const fac_call_info *c, fac_tensor *self, fac_tensor **out) {
    (void)c;
    FAC_CHECK(self->ndim >= 2, FAC_ERR_SHAPE,
              "tensor.mT is only supported on matrices or batches of matrices. Got %d-D tensor.", self->ndim);
    return fac__c_transpose_int(self, -2, -1, out);
}

fac_status adjoint_composite(const fac_call_info *c, fac_tensor *self, fac_tensor **out) {
    (void)c;
    FAC_CHECK(self->ndim >= 2, FAC_ERR_SHAPE,
              "it is only supported on matrices or batches of matrices. Got %d-D tensor.", self->ndim);
    if (!fac_dtype_is_complex((fac_dtype)self->dtype)) return fac__c_transpose_int(self, -2, -1, out);
    FAC_SCOPE(s);
    return fac__give(out, fac__s_conj(fac__s_transpose_int(self, -2, -1)));
}

/* Wraps a list of dimensions and marks them; none may be repeated. */
static fac_status wrap_dims(fac_ints dims, int ndim, const char *what, int64_t *out, uint64_t *mask) {
    *mask = 0;
    for (size_t i = 0; i < dims.n; i++) {
        FAC_TRY(fac__wrap_dim(dims.v[i], ndim, &out[i]));
        FAC_CHECK(!(*mask >> out[i] & 1), FAC_ERR_ARGUMENT, "repeated dim in `%s`: %lld", what, (long long)dims.v[i]);
        *mask |= (uint64_t)1 << out[i];
    }
    return FAC_OK;
}

fac_status movedim_composite(const fac_call_info *c, fac_tensor *self, fac_ints source, fac_ints destination,
                             fac_tensor **out) {
    (void)c;
    FAC_CHECK(
        source.n == destination.n, FAC_ERR_ARGUMENT,
        "Invalid source or destination dims: source (%zu dims) should contain the same number of dims as destination (%zu dims)",
        source.n, destination.n);
    FAC_CHECK(source.n <= FAC_MAX_DIMS, FAC_ERR_ARGUMENT, "%zu dims are more than a tensor may have", source.n);
    int64_t from[FAC_MAX_DIMS], to[FAC_MAX_DIMS], order[FAC_MAX_DIMS];
    uint64_t moved, taken;
    FAC_TRY(wrap_dims(source, self->ndim, "source", from, &moved));
    FAC_TRY(wrap_dims(destination, self->ndim, "destination", to, &taken));
    if (self->ndim == 0) return fac__c_alias(self, out);
    for (size_t i = 0; i < source.n; i++) order[to[i]] = from[i];
    int next = 0; /* the dimensions that stay fill the free places in their order */
    for (int d = 0; d < self->ndim; d++) {
        if (taken >> d & 1) continue;
        while (moved >> next & 1) next++;
        order[d] = next++;
    }
    return fac__c_permute(self, (fac_ints){order, self->ndim}, out);
}

fac_status movedim_int_composite(const fac_call_info *c, fac_tensor *self, int64_t source, int64_t destination,
                                 fac_tensor **out) {
    return movedim_composite(c, self, (fac_ints){&source, 1}, (fac_ints){&destination, 1}, out);
}

/* ---- parts --------------------------------------------------------------------------------------------------------------------- */

fac_status narrow_composite(const fac_call_info *c, fac_tensor *self, int64_t dim, int64_t start, int64_t length,
                            fac_tensor **out) {
    (void)c;
    FAC_CHECK(self->ndim > 0, FAC_ERR_SHAPE, "it cannot be applied to a 0-dim tensor.");
    FAC_CHECK(length >= 0, FAC_ERR_ARGUMENT, "length must be non-negative, got %lld", (long long)length);
    int64_t d;
    FAC_TRY(fac__wrap_dim(dim, self->ndim, &d));
    int64_t size = self->sizes[d];
    FAC_CHECK(start >= -size && start <= size, FAC_ERR_INDEX,
              "start out of range (expected to be in range of [%lld, %lld], but got %lld)", (long long)-size,
              (long long)size, (long long)start);
    if (start < 0) start += size;
    FAC_CHECK(start <= size - length, FAC_ERR_INDEX, "start (%lld) + length (%lld) exceeds dimension size (%lld).",
              (long long)start, (long long)length, (long long)size);
    return fac__c_slice_Tensor(self, d, fac_opt_int_(start), fac_opt_int_(start + length), 1, out);
}

fac_status chunk_composite(const fac_call_info *c, fac_tensor *self, int64_t chunks, int64_t dim,
                           fac_tensor_list *out) {
    (void)c;
    FAC_CHECK(self->ndim > 0, FAC_ERR_SHAPE, "chunk expects at least a 1-dimensional tensor");
    FAC_CHECK(chunks > 0, FAC_ERR_ARGUMENT, "chunk expects `chunks` to be greater than 0, got: %lld",
              (long long)chunks);
    int64_t d;
    FAC_TRY(fac__wrap_dim(dim, self->ndim, &d));
    int64_t size = self->sizes[d];
    if (size) return fac__c_split_Tensor(self, (size - 1) / chunks + 1, d, out);
    /* An empty dimension has no piece size from which `chunks` pieces would follow. */
    int64_t *none = fac__alloc_array((size_t)chunks, sizeof *none);
    if (!none) return fac_error();
    memset(none, 0, (size_t)chunks * sizeof *none);
    fac_status st = fac__c_split_with_sizes(self, (fac_ints){none, (size_t)chunks}, d, out);
    fac__free(none);
    return st;
}

/* Pieces between consecutive cuts; `cut(context, i)` is where piece i ends, i < n - 1. */
static fac_status split_at(fac_tensor *self, int64_t d, int64_t n, int64_t (*cut)(const void *context, int64_t i),
                           const void *context, fac_tensor_list *out) {
    FAC_TRY(fac__list_new((size_t)n, out));
    fac_opt_int from = {0}, to;
    for (int64_t i = 0; i < n; i++, from = to) {
        to = i + 1 < n ? fac_opt_int_(cut(context, i)) : (fac_opt_int){0};
        fac_status st = fac__c_slice_Tensor(self, d, from, to, 1, &out->v[i]);
        if (st != FAC_OK) {
            fac__tensor_list_free(out);
            return st;
        }
        out->n++;
    }
    return FAC_OK;
}

static fac_status split_dim(fac_tensor *self, int64_t dim, int64_t *out) {
    FAC_CHECK(self->ndim > 0, FAC_ERR_SHAPE,
              "tensor_split expected at least a 1-dimensional tensor, but got a tensor with 0 dims");
    return fac__wrap_dim(dim, self->ndim, out);
}

typedef struct even_cuts {
    int64_t size, sections;
} even_cuts;

static int64_t even_cut(const void *context, int64_t i) {
    const even_cuts *e = context;
    return (i + 1) * (e->size / e->sections) + fac__min(i + 1, e->size % e->sections);
}

fac_status tensor_split_sections_composite(const fac_call_info *c, fac_tensor *self, int64_t sections, int64_t dim,
                                           fac_tensor_list *out) {
    (void)c;
    int64_t d;
    FAC_TRY(split_dim(self, dim, &d));
    FAC_CHECK(sections > 0, FAC_ERR_ARGUMENT, "number of sections must be larger than 0, got %lld",
              (long long)sections);
    even_cuts e = {self->sizes[d], sections};
    return split_at(self, d, sections, even_cut, &e, out);
}

static int64_t listed_cut(const void *context, int64_t i) { return ((const int64_t *)context)[i]; }

fac_status tensor_split_indices_composite(const fac_call_info *c, fac_tensor *self, fac_ints indices, int64_t dim,
                                          fac_tensor_list *out) {
    (void)c;
    int64_t d;
    FAC_TRY(split_dim(self, dim, &d));
    return split_at(self, d, (int64_t)indices.n + 1, listed_cut, indices.v, out);
}

/* ---- complex parts ------------------------------------------------------------------------------------------------------------------ */

static fac_status complex_part(fac_tensor *self, int64_t part, fac_tensor **out) {
    FAC_SCOPE(s);
    const bool conjugate = (self->flags & FAC_TF_CONJ) != 0;
    fac_tensor *t = fac__s_select_int(fac__s_view_as_real(conjugate ? fac__s__conj(self) : self), -1, part);
    return fac__give(out, conjugate && part ? fac__s__neg_view(t) : t);
}

fac_status real_composite(const fac_call_info *c, fac_tensor *self, fac_tensor **out) {
    (void)c;
    return fac_dtype_is_complex((fac_dtype)self->dtype) ? complex_part(self, 0, out) : itself(self, out);
}

fac_status imag_composite(const fac_call_info *c, fac_tensor *self, fac_tensor **out) {
    (void)c;
    FAC_CHECK(fac_dtype_is_complex((fac_dtype)self->dtype), FAC_ERR_DTYPE,
              "not implemented for tensors with non-complex dtypes, got %s", fac_dtype_name((fac_dtype)self->dtype));
    return complex_part(self, 1, out);
}

fac_status conj_composite(const fac_call_info *c, fac_tensor *self, fac_tensor **out) {
    (void)c;
    if (!fac_dtype_is_complex((fac_dtype)self->dtype)) return itself(self, out);
    return self->cls ? fac__c__conj_physical(self, out)
                     : fac__c__conj(self, out); /* of stored values there is no view */
}

fac_status conj_physical_composite(const fac_call_info *c, fac_tensor *self, fac_tensor **out) {
    (void)c;
    return fac_dtype_is_complex((fac_dtype)self->dtype) ? fac__c__conj_physical(self, out) : itself(self, out);
}

fac_status resolve_conj_composite(const fac_call_info *c, fac_tensor *self, fac_tensor **out) {
    (void)c;
    return self->flags & FAC_TF_CONJ ? fac__c_clone(self, FAC_PRESERVE, out) : itself(self, out);
}

fac_status resolve_neg_composite(const fac_call_info *c, fac_tensor *self, fac_tensor **out) {
    (void)c;
    return self->flags & FAC_TF_NEG ? fac__c_clone(self, FAC_PRESERVE, out) : itself(self, out);
}
