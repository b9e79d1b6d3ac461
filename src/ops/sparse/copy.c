/* Copies of sparse tensors, and changes in place: what changes is swapped for parts made before. */
#include "core/guard.h"
#include "core/tensor_make.h"
#include "ops/sparse/parts.h"

/* ---- copies -------------------------------------------------------------------------------------------------------------- */

static fac_tensor *copied(fac_tensor *t) { return t ? fac__s_clone(t, FAC_CONTIGUOUS) : NULL; }
static fac_tensor *moved(fac_tensor *t, fac_dtype dtype, fac_device device) {
    return t ? fac__s__to_copy(t, dtype, FAC_STRIDED, device, (fac_opt_num){0}, false, FAC_CONTIGUOUS) : NULL;
}

/* t with other indices and values, or those of its compressed form. */
static fac_tensor *over(fac_tensor *t, fac_tensor *indices, fac_tensor *plain, fac_tensor *values) {
    const fac_sparse *s = fac__sparse_of(t);
    if (s->layout == FAC_SPARSE_COO) return fac__sparse_coo(fac__sparse_sizes(t), indices, values, s->coalesced);
    return fac__sparse_compressed(s->layout, fac__sparse_sizes(t), indices, plain, values);
}

static fac_tensor *copy_of(fac_tensor *t, fac_dtype dtype, fac_device device) {
    const fac_sparse *s = fac__sparse_of(t);
    return over(t, moved(s->indices, FAC_DTYPE_DEFAULT, device), moved(s->plain, FAC_DTYPE_DEFAULT, device),
                moved(s->values, dtype, device));
}

fac_status clone_sparse(const fac_call_info *c, fac_tensor *self, fac_memory_format memory_format, fac_tensor **out) {
    (void)c;
    FAC_SPARSE_KERNEL;
    const fac_sparse *s = fac__sparse_of(self);
    FAC_CHECK(memory_format == FAC_FORMAT_DEFAULT || memory_format == FAC_PRESERVE || memory_format == FAC_CONTIGUOUS,
              FAC_ERR_UNSUPPORTED, "a %s tensor has no memory format", fac__layout_name(s->layout));
    return fac__give(out, over(self, copied(s->indices), copied(s->plain), copied(s->values)));
}

fac_status alias_sparse(const fac_call_info *c, fac_tensor *self, fac_tensor **out) {
    (void)c;
    return fac__alias(self, true, out);
}

fac_status to_copy_sparse(const fac_call_info *c, fac_tensor *self, fac_dtype dtype, fac_layout layout,
                          fac_device device, fac_opt_num pin_memory, bool non_blocking, fac_memory_format memory_format,
                          fac_tensor **out) {
    (void)c, (void)non_blocking, (void)memory_format;
    FAC_SPARSE_KERNEL;
    FAC_CHECK(layout == FAC_STRIDED || layout == fac__layout_of(self), FAC_ERR_UNSUPPORTED,
              "the layout changes by to_sparse and to_dense, not by a copy, which stays %s or is strided",
              fac__layout_name(fac__layout_of(self)));
    FAC_CHECK(!pin_memory.set || !pin_memory.v.bits, FAC_ERR_UNSUPPORTED, "sparse tensors cannot be pinned");
    if (device.type == FAC_DEVICE_UNSET) device = self->device;
    return fac__give(out, copy_of(self, dtype, device));
}

/* ---- empty ones of the same kind ----------------------------------------------------------------------------------------------- */

static fac_tensor *empty_coo(fac_ints sizes, int sparse_dim, fac_dtype dtype, fac_device device) {
    int64_t values[FAC_MAX_DIMS + 1] = {0};
    const size_t dense = sizes.n - (size_t)sparse_dim;
    for (size_t i = 0; i < dense; i++) values[i + 1] = sizes.v[(size_t)sparse_dim + i];
    return fac__sparse_coo(sizes, fac__sparse_zeros(FAC_INTS(sparse_dim, 0), FAC_I64, device),
                           fac__sparse_zeros((fac_ints){values, dense + 1}, dtype, device), true);
}

static fac_status like(fac_tensor *self, fac_dtype dtype, fac_layout layout, fac_device device, fac_opt_num pin_memory,
                       fac_tensor **out) {
    const fac_sparse *s = fac__sparse_of(self);
    FAC_CHECK(layout == FAC_STRIDED || layout == s->layout, FAC_ERR_UNSUPPORTED,
              "what is like a %s tensor is so too; make it strided by to_dense, or sparse otherwise by to_sparse",
              fac__layout_name(s->layout));
    FAC_CHECK(!pin_memory.set || !pin_memory.v.bits, FAC_ERR_UNSUPPORTED, "sparse tensors cannot be pinned");
    if (dtype == FAC_DTYPE_DEFAULT) dtype = fac__sparse_dtype(self);
    if (device.type == FAC_DEVICE_UNSET) device = self->device;
    if (s->layout == FAC_SPARSE_COO)
        return fac__give(out, empty_coo(fac__sparse_sizes(self), s->sparse_dim, dtype, device));
    fac_tensor *values = fac__sparse_zeros(fac__sparse_sizes(s->values), dtype, device);
    return fac__give(out, over(self, moved(s->indices, FAC_DTYPE_DEFAULT, device),
                               moved(s->plain, FAC_DTYPE_DEFAULT, device), values));
}

#define LIKE(name)                                                                                              \
    fac_status name##_like_sparse(const fac_call_info *c, fac_tensor *self, fac_dtype dtype, fac_layout layout, \
                                  fac_device device, fac_opt_num pin_memory, fac_memory_format memory_format,   \
                                  fac_tensor **out) {                                                           \
        (void)c, (void)memory_format;                                                                           \
        FAC_SPARSE_KERNEL;                                                                                      \
        return like(self, dtype, layout, device, pin_memory, out);                                              \
    }
LIKE(empty)
LIKE(zeros)

fac_status new_empty_sparse(const fac_call_info *c, fac_tensor *self, fac_ints size, fac_dtype dtype, fac_layout layout,
                            fac_device device, fac_opt_num pin_memory, fac_tensor **out) {
    (void)c;
    FAC_SPARSE_KERNEL;
    FAC_TRY(fac__sparse_need_coo(self));
    FAC_CHECK(layout == FAC_STRIDED || layout == FAC_SPARSE_COO, FAC_ERR_UNSUPPORTED,
              "what is made of a sparse tensor is so too, not strided or %s", fac__layout_name(layout));
    FAC_CHECK(!pin_memory.set || !pin_memory.v.bits, FAC_ERR_UNSUPPORTED, "sparse tensors cannot be pinned");
    FAC_CHECK(size.n <= FAC_MAX_DIMS, FAC_ERR_SHAPE, "a tensor may have at most %d dimensions, got %zu", FAC_MAX_DIMS,
              size.n);
    if (dtype == FAC_DTYPE_DEFAULT) dtype = fac__sparse_dtype(self);
    if (device.type == FAC_DEVICE_UNSET) device = self->device;
    return fac__give(out, empty_coo(size, (int)size.n, dtype, device));
}

/* ---- in place ------------------------------------------------------------------------------------------------------------------- */

/* self becomes what was made; the very last step. */
static fac_status become(fac_tensor *self, fac_tensor *made, fac_tensor **out) {
    if (!made) return fac_error();
    FAC_TRY(fac__sparse_become(self, made));
    *out = fac__ref(self);
    return FAC_OK;
}

fac_status zero_sparse(const fac_call_info *c, fac_tensor *self, fac_tensor **out) {
    (void)c;
    FAC_SPARSE_KERNEL;
    fac_tensor *made = NULL;
    FAC_TRY(like(self, FAC_DTYPE_DEFAULT, FAC_STRIDED, (fac_device){0}, (fac_opt_num){0}, &made));
    return become(self, fac__adopt(fac__thread(), made), out);
}

static fac_status need_castable(const fac_tensor *from, const fac_tensor *to) {
    FAC_CHECK(fac_can_cast(fac__sparse_dtype(from), fac__sparse_dtype(to)), FAC_ERR_DTYPE,
              "result type %s can't be cast to the desired output type %s", fac_dtype_name(fac__sparse_dtype(from)),
              fac_dtype_name(fac__sparse_dtype(to)));
    return FAC_OK;
}

fac_status copy_sparse(const fac_call_info *c, fac_tensor *self, fac_tensor *src, bool non_blocking, fac_tensor **out) {
    (void)c, (void)non_blocking;
    FAC_SPARSE_KERNEL;
    const fac_layout to = fac__layout_of(self), from = fac__layout_of(src);
    FAC_CHECK(to == from, FAC_ERR_UNSUPPORTED,
              "copy_ between tensors of the layouts %s and %s: convert one by to_dense or to_sparse first",
              fac__layout_name(to), fac__layout_name(from));
    FAC_CHECK(fac__same_sizes(self, src), FAC_ERR_SHAPE, "copy_ of sparse tensors needs equal sizes, but got %s and %s",
              FAC_SHAPE_TEXT(self), FAC_SHAPE_TEXT(src));
    if (self == src) {
        *out = fac__ref(self);
        return FAC_OK;
    }
    return become(self, copy_of(src, fac__sparse_dtype(self), self->device), out);
}

fac_status copy_sparse_to_sparse_sparse_(const fac_call_info *c, fac_tensor *self, fac_tensor *src, bool non_blocking,
                                         fac_tensor **out) {
    (void)c, (void)non_blocking;
    FAC_SPARSE_KERNEL;
    FAC_TRY(fac__sparse_need_coo(self));
    FAC_TRY(fac__sparse_need_coo(src));
    FAC_TRY(need_castable(src, self));
    return become(self, copy_of(src, fac__sparse_dtype(self), self->device), out);
}

fac_status copy_sparse_to_sparse_composite(const fac_call_info *c, fac_tensor *self, fac_tensor *src, bool non_blocking,
                                           fac_tensor **out) {
    (void)c, (void)non_blocking;
    FAC_SCOPE(s);
    FAC_TRY(fac__sparse_need_coo(self));
    FAC_TRY(fac__sparse_need_coo(src));
    return fac__give(out, fac__s__to_copy(src, fac__sparse_dtype(self), FAC_STRIDED, self->device, (fac_opt_num){0},
                                          false, FAC_FORMAT_DEFAULT));
}

/* ---- other sizes ------------------------------------------------------------------------------------------------------------------ */

static fac_status check_dims(fac_ints size, int64_t sparse_dim, int64_t dense_dim) {
    FAC_CHECK(sparse_dim >= 0 && dense_dim >= 0 && size.n <= FAC_MAX_DIMS && sparse_dim <= FAC_MAX_DIMS &&
                  dense_dim <= FAC_MAX_DIMS && (size_t)(sparse_dim + dense_dim) == size.n,
              FAC_ERR_SHAPE, "number of dimensions must be sparse_dim (%lld) + dense_dim (%lld), but got %zu",
              (long long)sparse_dim, (long long)dense_dim, size.n);
    for (size_t i = 0; i < size.n; i++)
        FAC_CHECK(size.v[i] >= 0, FAC_ERR_SHAPE, "sizes must not be negative, but got %lld", (long long)size.v[i]);
    return FAC_OK;
}

/* What has elements may grow, but keeps its kinds of dimensions. */
static fac_status check_growth(const fac_tensor *t, fac_ints size, int64_t sparse_dim, int64_t dense_dim) {
    const fac_sparse *s = fac__sparse_of(t);
    if (fac__sparse_nnz(t) == 0) return FAC_OK;
    FAC_CHECK(
        sparse_dim == s->sparse_dim && dense_dim == s->dense_dim, FAC_ERR_ARGUMENT,
        "changing the number of sparse or dense dimensions (from %d and %d to %lld and %lld) of a tensor that has "
        "elements is not supported",
        s->sparse_dim, s->dense_dim, (long long)sparse_dim, (long long)dense_dim);
    for (int i = 0; i < t->ndim; i++)
        FAC_CHECK(size.v[i] >= t->sizes[i], FAC_ERR_ARGUMENT,
                  "shrinking dimension %d from %lld to %lld of a tensor that has elements is not supported", i,
                  (long long)t->sizes[i], (long long)size.v[i]);
    return FAC_OK;
}

/* Values with zeros where dense dimensions grow. */
static fac_tensor *grown(fac_tensor *values, const int64_t *dense) {
    int64_t pad[2 * FAC_MAX_DIMS];
    const int n = values->ndim - 1;
    for (int i = 0; i < n; i++) {
        pad[2 * (n - 1 - i)] = 0;
        pad[2 * (n - 1 - i) + 1] = dense[i] - values->sizes[i + 1];
    }
    return n ? fac__s_constant_pad_nd(values, (fac_ints){pad, 2 * (size_t)n}, fac_scalar_i_(0)) : values;
}

static fac_tensor *resized(fac_tensor *t, fac_ints size, int64_t sparse_dim) {
    const fac_sparse *s = fac__sparse_of(t);
    if (fac__sparse_nnz(t) == 0) return empty_coo(size, (int)sparse_dim, fac__sparse_dtype(t), t->device);
    return fac__sparse_coo(size, s->indices, grown(s->values, size.v + sparse_dim), s->coalesced);
}

fac_status sparse_resize_sparse_(const fac_call_info *c, fac_tensor *self, fac_ints size, int64_t sparse_dim,
                                 int64_t dense_dim, fac_tensor **out) {
    (void)c;
    FAC_SPARSE_KERNEL;
    FAC_TRY(fac__sparse_need_coo(self));
    FAC_TRY(check_dims(size, sparse_dim, dense_dim));
    FAC_TRY(check_growth(self, size, sparse_dim, dense_dim));
    return become(self, resized(self, size, sparse_dim), out);
}

fac_status sparse_resize_and_clear_sparse_(const fac_call_info *c, fac_tensor *self, fac_ints size, int64_t sparse_dim,
                                           int64_t dense_dim, fac_tensor **out) {
    (void)c;
    FAC_SPARSE_KERNEL;
    FAC_TRY(fac__sparse_need_coo(self));
    FAC_TRY(check_dims(size, sparse_dim, dense_dim));
    return become(self, empty_coo(size, (int)sparse_dim, fac__sparse_dtype(self), self->device), out);
}

fac_status resize_as_sparse_sparse_(const fac_call_info *c, fac_tensor *self, fac_tensor *the_template,
                                    fac_tensor **out) {
    FAC_TRY(fac__sparse_need_coo(self));
    FAC_TRY(fac__sparse_need_coo(the_template));
    const fac_sparse *s = fac__sparse_of(the_template);
    return sparse_resize_sparse_(c, self, fac__sparse_sizes(the_template), s->sparse_dim, s->dense_dim, out);
}

/* A copy of self after a change in place. */
static fac_status changed(fac_tensor *self, fac_ints size, int64_t sparse_dim, int64_t dense_dim, bool clear,
                          fac_tensor **out) {
    FAC_SCOPE(s);
    fac_tensor *copy = fac__s_clone(fac__s_detach(self), FAC_FORMAT_DEFAULT);
    return fac__give(out, clear ? fac__s_sparse_resize_and_clear_(copy, size, sparse_dim, dense_dim)
                                : fac__s_sparse_resize_(copy, size, sparse_dim, dense_dim));
}

fac_status sparse_resize_composite(const fac_call_info *c, fac_tensor *self, fac_ints size, int64_t sparse_dim,
                                   int64_t dense_dim, fac_tensor **out) {
    (void)c;
    return changed(self, size, sparse_dim, dense_dim, false, out);
}

fac_status sparse_resize_and_clear_composite(const fac_call_info *c, fac_tensor *self, fac_ints size,
                                             int64_t sparse_dim, int64_t dense_dim, fac_tensor **out) {
    (void)c;
    return changed(self, size, sparse_dim, dense_dim, true, out);
}

fac_status resize_as_sparse_composite(const fac_call_info *c, fac_tensor *self, fac_tensor *the_template,
                                      fac_tensor **out) {
    (void)c;
    FAC_TRY(fac__sparse_need_coo(the_template));
    const fac_sparse *s = fac__sparse_of(the_template);
    return changed(self, fac__sparse_sizes(the_template), s->sparse_dim, s->dense_dim, false, out);
}
