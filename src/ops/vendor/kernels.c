/* Kernels of tensors in the vendor layout that have a place in the operator files: making, copying, linear, weights. */
#include "core/tensor_make.h"
#include "ops/structured.h"
#include "ops/vendor/parts.h"

/* ---- from and to strided tensors ------------------------------------------------------------------------------------------ */

fac_status to_mkldnn_cpu(const fac_call_info *c, fac_tensor *self, fac_dtype dtype, fac_tensor **out) {
    (void)c;
    FAC_VENDOR_KERNEL;
    FAC_TRY(fac__vendor_check_dtype(fac__vendor_dtype(self)));
    if (dtype && dtype != self->dtype) {
        FAC_TRY(fac__vendor_check_dtype(dtype));
        self = fac__s_to_dtype(self, dtype, false, true, FAC_FORMAT_DEFAULT);
    } else if (fac__vendor_order_for(self->sizes, self->ndim) == FAC_VENDOR_ROWS && fac__is_contiguous(self)) {
        self = fac__s_clone(self, FAC_CONTIGUOUS);
    }
    if (!self) return fac_error();
    return fac__give(out, fac__vendor_of_strided(self, fac__vendor_order_for(self->sizes, self->ndim)));
}

fac_status to_dense_vendor(const fac_call_info *c, fac_tensor *self, fac_dtype dtype, fac_opt_num masked_grad,
                           fac_tensor **out) {
    (void)c, (void)masked_grad;
    FAC_VENDOR_KERNEL;
    fac_tensor *t = fac__vendor_strided(self);
    if (t && dtype && dtype != t->dtype) return fac__give(out, fac__sparse_cast(t, dtype));
    if (t == fac__vendor_of(self)->cells) t = fac__s_clone(t, FAC_CONTIGUOUS);
    return fac__give(out, t);
}

fac_status to_mkldnn_backward_composite(const fac_call_info *c, fac_tensor *grad, fac_tensor *input, fac_tensor **out) {
    (void)c;
    FAC_SCOPE(s);
    FAC_CHECK(fac__same_sizes(grad, input), FAC_ERR_SHAPE, "grad has sizes %s, but input has %s", FAC_SHAPE_TEXT(grad),
              FAC_SHAPE_TEXT(input));
    FAC_TRY(fac__check_same_device((const char *const[]){"grad", "input"}, (fac_tensor *const[]){grad, input}, 2));
    return fac__give(out, fac__s_to_dense(grad, fac__vendor_dtype(input), (fac_opt_num){0}));
}

/* ---- copies ------------------------------------------------------------------------------------------------------------------ */

fac_status clone_vendor(const fac_call_info *c, fac_tensor *self, fac_memory_format memory_format, fac_tensor **out) {
    (void)c;
    FAC_VENDOR_KERNEL;
    FAC_CHECK(memory_format == FAC_FORMAT_DEFAULT || memory_format == FAC_PRESERVE || memory_format == FAC_CONTIGUOUS,
              FAC_ERR_UNSUPPORTED, "a _mkldnn tensor has no memory format");
    fac_tensor *cells = fac__vendor_keep(fac__vendor_of(self)->cells);
    return fac__give(out, fac__vendor_with_cells(self, fac__s_clone(cells, FAC_CONTIGUOUS)));
}

fac_status alias_vendor(const fac_call_info *c, fac_tensor *self, fac_tensor **out) {
    (void)c;
    return fac__alias(self, true, out);
}

/* What is asked of copies and of what is made like a tensor: its layout, on the CPU, not pinned. */
static fac_status check_wish(fac_layout layout, fac_device device, fac_opt_num pin_memory) {
    FAC_CHECK(layout == FAC_STRIDED || layout == FAC_VENDOR_LAYOUT, FAC_ERR_UNSUPPORTED,
              "what is like a _mkldnn tensor is so too, and not %s: make it strided by to_dense",
              fac__layout_name(layout));
    FAC_CHECK(device.type == FAC_DEVICE_UNSET || device.type == FAC_CPU, FAC_ERR_UNSUPPORTED,
              "the layout _mkldnn is the CPU's: make the tensor strided by to_dense before it goes to %s",
              fac_device_format(device, (char[24]){0}, 24));
    FAC_CHECK(!pin_memory.set || !pin_memory.v.bits, FAC_ERR_UNSUPPORTED,
              "tensors of the layout _mkldnn cannot be pinned");
    return FAC_OK;
}

fac_status to_copy_vendor(const fac_call_info *c, fac_tensor *self, fac_dtype dtype, fac_layout layout,
                          fac_device device, fac_opt_num pin_memory, bool non_blocking, fac_memory_format memory_format,
                          fac_tensor **out) {
    (void)non_blocking;
    FAC_VENDOR_KERNEL;
    FAC_TRY(check_wish(layout, device, pin_memory));
    if (!dtype || dtype == self->dtype) return clone_vendor(c, self, memory_format, out);
    return fac__give(out, fac__vendor_cast(self, dtype));
}

fac_status copy_vendor(const fac_call_info *c, fac_tensor *self, fac_tensor *src, bool non_blocking, fac_tensor **out) {
    (void)c, (void)non_blocking;
    FAC_VENDOR_KERNEL;
    const fac_layout to = fac__layout_of(self), from = fac__layout_of(src);
    FAC_CHECK(to == FAC_VENDOR_LAYOUT && to == from, FAC_ERR_UNSUPPORTED,
              "copy_ between tensors of the layouts %s and %s: convert one by to_dense or to_mkldnn first",
              fac__layout_name(to), fac__layout_name(from));
    FAC_CHECK(fac__same_sizes(self, src), FAC_ERR_SHAPE,
              "copy_ of _mkldnn tensors needs equal sizes, but got %s and %s", FAC_SHAPE_TEXT(self),
              FAC_SHAPE_TEXT(src));
    if (self != src) FAC_TRY(fac__vendor_put(self, src));
    *out = fac__ref(self);
    return FAC_OK;
}

/* ---- others of the same kind --------------------------------------------------------------------------------------------------- */

static fac_status like(fac_tensor *self, fac_dtype dtype, fac_layout layout, fac_device device, fac_opt_num pin_memory,
                       bool zeros, fac_tensor **out) {
    FAC_VENDOR_KERNEL;
    FAC_TRY(check_wish(layout, device, pin_memory));
    fac_tensor *t = fac__vendor_empty(fac__vendor_sizes(self), fac__vendor_order_for(self->sizes, self->ndim),
                                      dtype ? dtype : fac__vendor_dtype(self));
    if (t && zeros) t = fac__s_zero_(t);
    return fac__give(out, t);
}

#define LIKE(name, zeros)                                                                                       \
    fac_status name##_like_vendor(const fac_call_info *c, fac_tensor *self, fac_dtype dtype, fac_layout layout, \
                                  fac_device device, fac_opt_num pin_memory, fac_memory_format memory_format,   \
                                  fac_tensor **out) {                                                           \
        (void)c, (void)memory_format;                                                                           \
        return like(self, dtype, layout, device, pin_memory, zeros, out);                                       \
    }
LIKE(empty, false)
LIKE(zeros, true)

/* ---- products ---------------------------------------------------------------------------------------------------------------------- */

fac_status mkldnn_linear_vendor(const fac_call_info *c, fac_tensor *self, fac_tensor *weight, fac_tensor *bias,
                                fac_tensor **out) {
    (void)c;
    FAC_VENDOR_KERNEL;
    FAC_CHECK(fac__vendor_of(self), FAC_ERR_UNSUPPORTED,
              "self should be of the layout _mkldnn, but is %s; to_mkldnn makes it so",
              fac__layout_name(fac__layout_of(self)));
    FAC_CHECK(self->ndim >= 1 && weight->ndim == 2 && self->sizes[self->ndim - 1] == weight->sizes[1], FAC_ERR_SHAPE,
              "self of size %s does not fit weight of size %s", FAC_SHAPE_TEXT(self), FAC_SHAPE_TEXT(weight));
    FAC_CHECK(fac__vendor_dtype(self) == fac__vendor_dtype(weight), FAC_ERR_DTYPE, "self is %s, but weight is %s",
              fac_dtype_name(fac__vendor_dtype(self)), fac_dtype_name(fac__vendor_dtype(weight)));
    FAC_TRY(fac__check_same_device((const char *const[]){"self", "weight"}, (fac_tensor *const[]){self, weight}, 2));
    fac_tensor *y =
        fac__s_linear(fac__vendor_strided(self), fac__vendor_strided(weight), bias ? fac__vendor_strided(bias) : NULL);
    if (!y) return fac_error();
    return fac__give(out, fac__vendor_of_strided(y, fac__vendor_order_for(y->sizes, y->ndim)));
}

fac_status mkldnn_convolution_composite(const fac_call_info *c, fac_tensor *self, fac_tensor *weight, fac_tensor *bias,
                                        fac_ints padding, fac_ints stride, fac_ints dilation, int64_t groups,
                                        fac_tensor **out) {
    (void)c;
    FAC_SCOPE(s);
    return fac__give(out,
                     fac__s_convolution(self, weight, bias, stride, padding, dilation, false, FAC_INTS(0), groups));
}

/* ---- weights of convolutions -------------------------------------------------------------------------------------------------------- */

static fac_status check_list(const char *name, fac_ints l, int nd, int64_t least) {
    FAC_CHECK(l.n == 1 || l.n == (size_t)nd, FAC_ERR_ARGUMENT, "%s should have 1 or %d entries, but has %zu", name, nd,
              l.n);
    for (size_t i = 0; i < l.n; i++)
        FAC_CHECK(l.v[i] >= least, FAC_ERR_ARGUMENT, "%s should be at least %lld, but is %lld", name, (long long)least,
                  (long long)l.v[i]);
    return FAC_OK;
}

static fac_status reordered(fac_tensor *self, int nd, fac_ints padding, fac_ints stride, fac_ints dilation,
                            int64_t groups, fac_ints input_size, fac_tensor **out) {
    FAC_VENDOR_KERNEL;
    FAC_TRY(fac__vendor_check_dtype(fac__vendor_dtype(self)));
    FAC_CHECK(self->ndim == nd + 2, FAC_ERR_SHAPE, "the weight of a conv%dd has %d dimensions, but got size %s", nd,
              nd + 2, FAC_SHAPE_TEXT(self));
    FAC_TRY(check_list("padding", padding, nd, 0));
    FAC_TRY(check_list("stride", stride, nd, 1));
    FAC_TRY(check_list("dilation", dilation, nd, 1));
    FAC_CHECK(groups >= 1 && self->sizes[0] % groups == 0, FAC_ERR_SHAPE,
              "groups should divide the %lld output channels, but is %lld", (long long)self->sizes[0],
              (long long)groups);
    FAC_CHECK(!input_size.v || input_size.n == (size_t)nd + 2, FAC_ERR_SHAPE,
              "input_size should have %d entries, but has %zu", nd + 2, input_size.n);
    fac_tensor *t = fac__vendor_weight(self, groups);
    return t == self ? fac__alias(self, true, out) : fac__give(out, t);
}

#define REORDER(nd)                                                                                                 \
    fac_status mkldnn_reorder_conv##nd##d_weight_vendor(const fac_call_info *c, fac_tensor *self, fac_ints padding, \
                                                        fac_ints stride, fac_ints dilation, int64_t groups,         \
                                                        fac_ints input_size, fac_tensor **out) {                    \
        (void)c;                                                                                                    \
        return reordered(self, nd, padding, stride, dilation, groups, input_size, out);                             \
    }
REORDER(2)
REORDER(3)
