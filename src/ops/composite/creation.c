/* Factories of constant contents: empty, zeros, ones, full, eye and their ..._like and new_... forms. They run below
   autograd on every device: an empty tensor, filled by the back end. */
#include "core/kinds.h"
#include "core/sparse.h"
#include "core/tensor_make.h"
#include "ops/composite/below.h"
#include "ops/composite/factory.h"
#include "ops/vendor/parts.h"
#include "ops_gen.h"

static const fac_scalar zero = {0, FAC_KIND_INT}, one = {1, FAC_KIND_INT};

/* Fills a fresh tensor and hands it out; `t` is made by the call that gives `st`, and so is read after it. */
static fac_status fill(fac_status st, fac_tensor *const *t, fac_scalar value, fac_tensor **out) {
    if (st != FAC_OK) return st;
    st = fac__fill_below(*t, value);
    if (st != FAC_OK)
        fac__unref(*t);
    else
        *out = *t;
    return st;
}

static fac_status filled(fac_factory f, fac_dtype dtype, fac_ints size, fac_scalar value, fac_tensor **out) {
    fac_tensor *t = NULL;
    FAC_TRY(fac__factory_resolve(&f, dtype));
    return fill(fac__factory_empty(&f, size, FAC_CONTIGUOUS, &t), &t, value, out);
}

static fac_status filled_like(fac_factory f, fac_tensor *like, fac_memory_format format, fac_scalar value,
                              fac_tensor **out) {
    fac_tensor *t = NULL;
    FAC_TRY(fac__factory_like(&f, like));
    return fill(fac__factory_empty_like(&f, like, format, &t), &t, value, out);
}

static fac_status filled_new(fac_factory f, fac_tensor *like, fac_ints size, fac_scalar value, fac_tensor **out) {
    FAC_TRY(fac__factory_like(&f, like));
    return filled(f, f.dtype, size, value, out);
}

/* ---- other layouts -------------------------------------------------------------------------------------------------------- */

/* In the layout of the CPU's library. */
static fac_status vendor(fac_factory f, fac_ints size, bool zeros, fac_tensor **out) {
#if !FAC_HAVE_VENDOR
    (void)size, (void)zeros, (void)out;
    return FAC_FAIL(FAC_ERR_UNSUPPORTED, "this build has no tensors of the layout %s", fac__layout_name(f.layout));
#else
    f.layout = FAC_STRIDED;
    FAC_TRY(fac__factory_resolve(&f, fac_default_dtype()));
    FAC_CHECK(f.device.type == FAC_CPU && !(f.pin_memory.set && f.pin_memory.v.bits), FAC_ERR_UNSUPPORTED,
              "the layout _mkldnn is the CPU's, in memory that is not pinned: a tensor on %s is made strided",
              fac_device_format(f.device, (char[24]){0}, 24));
    FAC_VENDOR_KERNEL;
    const fac_vendor_order order = size.n > 5 ? FAC_VENDOR_ROWS : fac__vendor_order_for(size.v, (int)size.n);
    fac_tensor *t = fac__vendor_empty(size, order, f.dtype);
    return fac__give(out, t && zeros ? fac__s_zero_(t) : t);
#endif
}

/* A tensor without elements, which is empty and full of zeros. */
static fac_status without_elements(fac_factory f, fac_ints size, bool zeros, fac_tensor **out) {
    if (f.layout == FAC_VENDOR_LAYOUT) return vendor(f, size, zeros, out);
#if !FAC_HAVE_SPARSE
    (void)size, (void)out;
    return FAC_FAIL(FAC_ERR_UNSUPPORTED, "this build has no tensors of the layout %s", fac__layout_name(f.layout));
#else
    if (f.layout == FAC_SPARSE_COO)
        return fac__c_sparse_coo_tensor_size(size, f.dtype, f.layout, f.device, f.pin_memory, out);
    FAC_CHECK(f.layout == FAC_SPARSE_CSR || f.layout == FAC_SPARSE_CSC, FAC_ERR_UNSUPPORTED,
              "a tensor of the layout %s cannot be made empty; make it strided and convert it",
              fac__layout_name(f.layout));
    return fac__c__sparse_compressed_tensor_with_dims(0, 0, size, (fac_ints){0}, FAC_I64, f.dtype, f.layout, f.device,
                                                      f.pin_memory, out);
#endif
}

/* ---- empty --------------------------------------------------------------------------------------------------------------- */

fac_status empty_explicit(const fac_call_info *c, fac_ints size, fac_dtype dtype, fac_layout layout, fac_device device,
                          fac_opt_num pin_memory, fac_memory_format memory_format, fac_tensor **out) {
    (void)c;
    fac_factory f = FACTORY(dtype, layout, device, pin_memory);
    if (FAC_UNLIKELY(layout != FAC_STRIDED)) return without_elements(f, size, false, out);
    FAC_TRY(fac__factory_resolve(&f, fac_default_dtype()));
    return fac__factory_empty(&f, size, memory_format, out);
}

static fac_status strided(const fac_factory *f, fac_ints size, fac_ints stride, fac_tensor **out) {
    FAC_CHECK(size.n == stride.n, FAC_ERR_SHAPE,
              "dimensionality of sizes (%zu) must match dimensionality of strides (%zu)", size.n, stride.n);
    FAC_CHECK(size.n <= FAC_MAX_DIMS, FAC_ERR_SHAPE, "a tensor may have at most %d dimensions, got %zu", FAC_MAX_DIMS,
              size.n);
    const fac_allocator *from;
    FAC_TRY(fac__pin_allocator(f->pin_memory, f->device, &from));
    return fac__empty_stored(size.v, stride.v, (int)size.n, f->dtype, f->device, from, out);
}

fac_status empty_strided_explicit(const fac_call_info *c, fac_ints size, fac_ints stride, fac_dtype dtype,
                                  fac_layout layout, fac_device device, fac_opt_num pin_memory, fac_tensor **out) {
    (void)c;
    fac_factory f = FACTORY(dtype, layout, device, pin_memory);
    FAC_TRY(fac__factory_resolve(&f, fac_default_dtype()));
    return strided(&f, size, stride, out);
}

/* Strides of a tensor without gaps whose dimensions lie in the order of `layout`, the slowest first. */
static fac_status strides_in_order(fac_ints size, fac_ints layout, int64_t *strides) {
    uint64_t seen;
    int64_t stride = 1;
    FAC_CHECK(size.n == layout.n, FAC_ERR_SHAPE,
              "Number of dimensions in size does not match the length of the physical_layout; i.e. len(size) = %zu is "
              "not equal to len(physical_layout) = %zu",
              size.n, layout.n);
    FAC_CHECK(size.n <= FAC_MAX_DIMS, FAC_ERR_SHAPE, "a tensor may have at most %d dimensions, got %zu", FAC_MAX_DIMS,
              size.n);
    FAC_TRY(fac__dim_mask(layout, (int64_t)size.n, &seen));
    for (size_t i = layout.n; i--;) {
        const int64_t d = layout.v[i];
        FAC_CHECK(d >= 0, FAC_ERR_INDEX, "Dimension out of range (expected to be between 0 and %zu, but got %lld)",
                  size.n - 1, (long long)d);
        strides[d] = stride;
        FAC_CHECK(fac__mul(stride, fac__max(size.v[d], 1), &stride), FAC_ERR_OVERFLOW,
                  "the strides of a tensor of these sizes do not fit 64 bits");
    }
    return FAC_OK;
}

fac_status empty_permuted_explicit(const fac_call_info *c, fac_ints size, fac_ints physical_layout, fac_dtype dtype,
                                   fac_layout layout, fac_device device, fac_opt_num pin_memory, fac_tensor **out) {
    (void)c;
    int64_t strides[FAC_MAX_DIMS];
    fac_factory f = FACTORY(dtype, layout, device, pin_memory);
    FAC_TRY(fac__factory_resolve(&f, fac_default_dtype()));
    FAC_TRY(strides_in_order(size, physical_layout, strides));
    return strided(&f, size, (fac_ints){strides, size.n}, out);
}

fac_status new_empty_strided_explicit(const fac_call_info *c, fac_tensor *self, fac_ints size, fac_ints stride,
                                      fac_dtype dtype, fac_layout layout, fac_device device, fac_opt_num pin_memory,
                                      fac_tensor **out) {
    (void)c;
    fac_factory f = FACTORY(dtype, layout, device, pin_memory);
    FAC_TRY(fac__factory_like(&f, self));
    return strided(&f, size, stride, out);
}

fac_status new_empty_explicit(const fac_call_info *c, fac_tensor *self, fac_ints size, fac_dtype dtype,
                              fac_layout layout, fac_device device, fac_opt_num pin_memory, fac_tensor **out) {
    (void)c;
    fac_factory f = FACTORY(dtype, layout, device, pin_memory);
    FAC_TRY(fac__factory_like(&f, self));
    return fac__factory_empty(&f, size, FAC_CONTIGUOUS, out);
}

fac_status empty_like_explicit(const fac_call_info *c, fac_tensor *self, fac_dtype dtype, fac_layout layout,
                               fac_device device, fac_opt_num pin_memory, fac_memory_format memory_format,
                               fac_tensor **out) {
    (void)c;
    fac_factory f = FACTORY(dtype, layout, device, pin_memory);
    FAC_TRY(fac__factory_like(&f, self));
    return fac__factory_empty_like(&f, self, memory_format, out);
}

/* ---- one value everywhere ---------------------------------------------------------------------------------------------------- */

fac_status zeros_explicit(const fac_call_info *c, fac_ints size, fac_dtype dtype, fac_layout layout, fac_device device,
                          fac_opt_num pin_memory, fac_tensor **out) {
    (void)c;
    if (FAC_UNLIKELY(layout != FAC_STRIDED))
        return without_elements(FACTORY(dtype, layout, device, pin_memory), size, true, out);
    return filled(FACTORY(dtype, layout, device, pin_memory), fac_default_dtype(), size, zero, out);
}

fac_status ones_explicit(const fac_call_info *c, fac_ints size, fac_dtype dtype, fac_layout layout, fac_device device,
                         fac_opt_num pin_memory, fac_tensor **out) {
    (void)c;
    return filled(FACTORY(dtype, layout, device, pin_memory), fac_default_dtype(), size, one, out);
}

fac_status full_explicit(const fac_call_info *c, fac_ints size, fac_scalar fill_value, fac_dtype dtype,
                         fac_layout layout, fac_device device, fac_opt_num pin_memory, fac_tensor **out) {
    (void)c;
    return filled(FACTORY(dtype, layout, device, pin_memory), fac__scalar_dtype(fill_value), size, fill_value, out);
}

fac_status scalar_tensor_explicit(const fac_call_info *c, fac_scalar s, fac_dtype dtype, fac_layout layout,
                                  fac_device device, fac_opt_num pin_memory, fac_tensor **out) {
    (void)c;
    return filled(FACTORY(dtype, layout, device, pin_memory), fac_default_dtype(), FAC_INTS(), s, out);
}

fac_status zeros_like_explicit(const fac_call_info *c, fac_tensor *self, fac_dtype dtype, fac_layout layout,
                               fac_device device, fac_opt_num pin_memory, fac_memory_format memory_format,
                               fac_tensor **out) {
    (void)c;
    return filled_like(FACTORY(dtype, layout, device, pin_memory), self, memory_format, zero, out);
}

fac_status ones_like_explicit(const fac_call_info *c, fac_tensor *self, fac_dtype dtype, fac_layout layout,
                              fac_device device, fac_opt_num pin_memory, fac_memory_format memory_format,
                              fac_tensor **out) {
    (void)c;
    return filled_like(FACTORY(dtype, layout, device, pin_memory), self, memory_format, one, out);
}

fac_status full_like_explicit(const fac_call_info *c, fac_tensor *self, fac_scalar fill_value, fac_dtype dtype,
                              fac_layout layout, fac_device device, fac_opt_num pin_memory,
                              fac_memory_format memory_format, fac_tensor **out) {
    (void)c;
    return filled_like(FACTORY(dtype, layout, device, pin_memory), self, memory_format, fill_value, out);
}

fac_status new_zeros_explicit(const fac_call_info *c, fac_tensor *self, fac_ints size, fac_dtype dtype,
                              fac_layout layout, fac_device device, fac_opt_num pin_memory, fac_tensor **out) {
    (void)c;
    return filled_new(FACTORY(dtype, layout, device, pin_memory), self, size, zero, out);
}

fac_status new_ones_explicit(const fac_call_info *c, fac_tensor *self, fac_ints size, fac_dtype dtype,
                             fac_layout layout, fac_device device, fac_opt_num pin_memory, fac_tensor **out) {
    (void)c;
    return filled_new(FACTORY(dtype, layout, device, pin_memory), self, size, one, out);
}

fac_status new_full_explicit(const fac_call_info *c, fac_tensor *self, fac_ints size, fac_scalar fill_value,
                             fac_dtype dtype, fac_layout layout, fac_device device, fac_opt_num pin_memory,
                             fac_tensor **out) {
    (void)c;
    return filled_new(FACTORY(dtype, layout, device, pin_memory), self, size, fill_value, out);
}

/* ---- a diagonal of ones ------------------------------------------------------------------------------------------------------- */

static fac_status eye(fac_factory f, int64_t n, int64_t m, fac_tensor **out) {
    FAC_CHECK(n >= 0, FAC_ERR_ARGUMENT, "n must be greater or equal to 0, got %lld", (long long)n);
    FAC_CHECK(m >= 0, FAC_ERR_ARGUMENT, "m must be greater or equal to 0, got %lld", (long long)m);
    fac_tensor *t = NULL, *diagonal = NULL;
    FAC_TRY(filled(f, fac_default_dtype(), FAC_INTS(n, m), zero, &t));
    int64_t length = fac__min(n, m), stride = t->strides[0] + 1;
    fac_status st = fac__view(t, &length, &stride, 1, 0, false, &diagonal);
    if (st == FAC_OK) st = fac__fill_below(diagonal, one);
    fac__unref(diagonal);
    if (st != FAC_OK)
        fac__unref(t);
    else
        *out = t;
    return st;
}

fac_status eye_explicit(const fac_call_info *c, int64_t n, fac_dtype dtype, fac_layout layout, fac_device device,
                        fac_opt_num pin_memory, fac_tensor **out) {
    (void)c;
    return eye(FACTORY(dtype, layout, device, pin_memory), n, n, out);
}

fac_status eye_m_explicit(const fac_call_info *c, int64_t n, int64_t m, fac_dtype dtype, fac_layout layout,
                          fac_device device, fac_opt_num pin_memory, fac_tensor **out) {
    (void)c;
    return eye(FACTORY(dtype, layout, device, pin_memory), n, m, out);
}

/* ---- other sizes -------------------------------------------------------------------------------------------------------------- */

static fac_status resize(fac_tensor *self, fac_ints size, fac_memory_format format, fac_tensor **out) {
    FAC_CHECK(format == FAC_FORMAT_DEFAULT || format == FAC_CONTIGUOUS, FAC_ERR_UNSUPPORTED,
              "resize_ makes row-major tensors; memory_format must be contiguous");
    FAC_CHECK(size.n <= FAC_MAX_DIMS, FAC_ERR_SHAPE, "a tensor may have at most %d dimensions, got %zu", FAC_MAX_DIMS,
              size.n);
    FAC_TRY(fac__resize(self, size.v, (int)size.n));
    *out = fac__ref(self);
    return FAC_OK;
}

fac_status resize_explicit_(const fac_call_info *c, fac_tensor *self, fac_ints size, fac_memory_format memory_format,
                            fac_tensor **out) {
    (void)c;
    return resize(self, size, memory_format, out);
}

fac_status resize_as_explicit_(const fac_call_info *c, fac_tensor *self, fac_tensor *the_template,
                               fac_memory_format memory_format, fac_tensor **out) {
    (void)c;
    return resize(self, fac__sizes_now(the_template), memory_format, out);
}
