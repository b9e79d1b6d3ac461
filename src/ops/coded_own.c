/* Kernels of the key Quantized that write, compare or clamp codes (src/ops/coded.c has the others). */
#include "core/scalar.h"
#include "core/tensor_make.h"
#include "dispatch/value.h"
#include "ops/coded.h"
#include "ops/composite/below.h"
#include "ops_gen.h"
#include <math.h>

static fac_status give_tensor(fac_value *stack, fac_tensor *owned) {
    stack[0] = fac__value_owned_tensor(owned);
    return fac_error();
}

/* An operator in place gives its first argument. */
static fac_status give_self(fac_value *stack) { return give_tensor(stack, fac__ref(fac__value_header(&stack[0]))); }

static fac_keyset dense_keys(const fac_call_info *c) { return (c->keys & FAC_BACKEND_MASK) | FAC_KS_DENSE; }

/* ---- copying --------------------------------------------------------------------------------------------------------------- */

/* dst = src, of codes in plain tensors. */
static fac_status copy_codes(fac_tensor *dst, fac_tensor *src) {
    fac_tensor *to, *from = NULL;
    FAC_TRY(fac__codes_of(dst, &to));
    fac_status st = fac__is_coded(src) ? fac__codes_of(src, &from) : FAC_OK;
    if (st == FAC_OK) st = fac__copy_below(to, from ? from : src);
    fac__unref(to);
    fac__unref(from);
    return st;
}

/* Codes of another dtype, of n elements on the CPU in row-major order. */
static void encode(fac_dtype to, uint8_t *out, const float *x, int64_t n) {
    for (int64_t i = 0; i < n; i++) out[i] = fac__f32_to_f8(to, x[i]);
}

static void decode(fac_dtype from, float *out, const uint8_t *codes, int64_t n) {
    float values[256];
    for (int c = 0; c < 256; c++) values[c] = fac__f8_to_f32(from, (uint8_t)c);
    for (int64_t i = 0; i < n; i++) out[i] = values[codes[i]];
}

static fac_status on_the_host(const fac_tensor *t) {
    FAC_CHECK(t->device.type == FAC_CPU || t->device.type == FAC_META, FAC_ERR_UNSUPPORTED,
              "8-bit floats are converted on the CPU only, not on %s: copy the tensor there first",
              fac_device_format(t->device, (char[24]){0}, 24));
    return FAC_OK;
}

/* Owned: row-major float32 values of t, on its device. */
static fac_status as_floats(fac_tensor *t, fac_tensor **out) {
    fac_tensor *codes, *flat = NULL;
    FAC_TRY(on_the_host(t));
    FAC_TRY(fac__empty(t->sizes, t->ndim, FAC_F32, t->device, out));
    fac_status st;
    if (!fac__is_coded(t)) {
        st = fac__copy_below(*out, t);
    } else if (t->device.type == FAC_META) {
        st = FAC_OK;
    } else {
        st = fac__empty(t->sizes, t->ndim, FAC_U8, t->device, &flat);
        if (st == FAC_OK) st = fac__codes_of(t, &codes);
        if (st == FAC_OK) {
            st = fac__copy_below(flat, codes);
            fac__unref(codes);
        }
        if (st == FAC_OK && t->numel) decode((fac_dtype)t->dtype, fac__data(*out), fac__data(flat), t->numel);
        fac__unref(flat);
    }
    if (st != FAC_OK) fac__unref(*out);
    return st;
}

/* Owned: row-major codes of float32 values. */
static fac_status as_codes(fac_tensor *floats, fac_dtype dtype, fac_tensor **out) {
    FAC_TRY(fac__empty(floats->sizes, floats->ndim, FAC_U8, floats->device, out));
    if (floats->numel && floats->device.type == FAC_CPU)
        encode(dtype, fac__data(*out), fac__data(floats), floats->numel);
    return FAC_OK;
}

/* Between 8-bit floats and any other dtype, by way of float32. */
static fac_status convert(fac_tensor *dst, fac_tensor *src) {
    fac_tensor *floats, *codes;
    FAC_TRY(on_the_host(dst));
    FAC_TRY(as_floats(src, &floats));
    fac_status st;
    if (!fac__is_coded(dst)) {
        st = fac__copy_below(dst, floats);
    } else {
        st = as_codes(floats, (fac_dtype)dst->dtype, &codes);
        if (st == FAC_OK) {
            st = copy_codes(dst, codes);
            fac__unref(codes);
        }
    }
    fac__unref(floats);
    return st;
}

/* Numbers into a quantized tensor: they are quantized as it is. */
static fac_status quantize_into(fac_tensor *dst, fac_tensor *src) {
    fac_tensor *wide, *made;
    FAC_CHECK(src->dtype == FAC_F32, FAC_ERR_DTYPE,
              "float32 is quantized where it is copied to a %s tensor, but got %s",
              fac_dtype_name((fac_dtype)dst->dtype), fac_dtype_name((fac_dtype)src->dtype));
    FAC_TRY(fac__c_expand(src, fac__sizes_now(dst), false, &wide));
    fac_status st = fac__quantize_by(wide, (fac_dtype)dst->dtype, fac__quantizer_of(dst), &made);
    fac__unref(wide);
    FAC_TRY(st);
    st = copy_codes(dst, made);
    fac__unref(made);
    return st;
}

/* Codes with their quantizer. PyTorch gives dst the quantizer of src; that is done only where no other tensor has the same codes. */
static fac_status copy_quantized(fac_tensor *dst, fac_tensor *src) {
    fac_quantizer *from = fac__quantizer_of(src), *to = fac__quantizer_of(dst);
    FAC_CHECK(from, FAC_ERR_DTYPE, "%s cannot be copied to a %s tensor: convert it to float32 first",
              fac_dtype_name((fac_dtype)src->dtype), fac_dtype_name((fac_dtype)dst->dtype));
    FAC_CHECK(src->dtype == dst->dtype && (from->axis < 0) == (to->axis < 0), FAC_ERR_DTYPE,
              "Quantized Copy only works with same dtype and qscheme, but got %s and %s",
              fac_dtype_name((fac_dtype)dst->dtype), fac_dtype_name((fac_dtype)src->dtype));
    const bool equal = fac__quantizer_equal(from, to);
    FAC_CHECK(
        equal || !dst->storage || atomic_load(&dst->storage->refs) == 1, FAC_ERR_UNSUPPORTED,
        "a tensor with another scale or zero point cannot be copied to a part of a quantized tensor, or to one that "
        "shares its codes: quantize it alike first");
    FAC_CHECK(equal || fac__same_sizes(dst, src), FAC_ERR_SHAPE,
              "a tensor with another scale or zero point is copied to one of equal sizes only, but got %s and %s",
              FAC_SHAPE_TEXT(dst), FAC_SHAPE_TEXT(src));
    FAC_TRY(copy_codes(dst, src));
    if (!equal) fac__set_quantizer(dst, from);
    return FAC_OK;
}

static fac_status copy_into(fac_tensor *dst, fac_tensor *src) {
    const bool to = fac__quantizer_of(dst), from = fac__quantizer_of(src);
    if (dst == src) return FAC_OK;
    if (to) return fac__is_coded(src) ? copy_quantized(dst, src) : quantize_into(dst, src);
    FAC_CHECK(
        !from, FAC_ERR_DTYPE,
        "Copying from quantized Tensor to non-quantized Tensor is not allowed, please use dequantize to get a float "
        "Tensor from a quantized Tensor");
    return dst->dtype == src->dtype ? copy_codes(dst, src) : convert(dst, src);
}

static fac_status copy_coded(const fac_call_info *c, fac_value *stack) {
    (void)c;
    FAC_TRY(copy_into(fac__value_header(&stack[0]), fac__value_header(&stack[1])));
    return give_self(stack);
}

/* Copies of quantized tensors keep their quantizer wherever they go; 8-bit floats are made and copied as other dtypes are. */
static fac_status to_copy_coded(const fac_call_info *c, fac_value *stack) {
    fac_tensor *self = fac__value_header(&stack[0]), *codes;
    fac_quantizer *q = fac__quantizer_of(self);
    const fac_dtype dtype = fac_value_as_dtype(stack[1]);
    if (!q) return fac_redispatch(c->op, dense_keys(c), stack);
    FAC_CHECK(!dtype || dtype == self->dtype, FAC_ERR_DTYPE,
              "a quantized tensor is converted by dequantize, int_repr or quantize_per_tensor, and not to %s by to",
              fac_dtype_name(dtype));
    fac_value work[8];
    FAC_CHECK(c->op->n_args <= FAC_COUNT(work), FAC_ERR_INTERNAL, "%s has more arguments than its kernel for codes can",
              c->op->name);
    memcpy(work, stack, c->op->n_args * sizeof *work);
    FAC_TRY(fac__codes_of(self, &codes));
    work[0] = fac__value_owned_tensor(codes);
    work[1] = fac_value_none();
    fac_value held = work[0];
    fac_status st = fac_redispatch(c->op, dense_keys(c), work);
    fac_value_release(&held);
    FAC_TRY(st);
    fac__make_coded(fac__value_header(&work[0]), (fac_dtype)self->dtype, q);
    stack[0] = work[0];
    return FAC_OK;
}

/* ---- one value everywhere ------------------------------------------------------------------------------------------------------ */

static fac_status fill_with(fac_tensor *self, fac_scalar value) {
    fac_tensor *number;
    FAC_CHECK(value.kind != FAC_KIND_COMPLEX, FAC_ERR_DTYPE,
              "value cannot be converted to type %s without losing its "
              "imaginary part",
              fac_dtype_name((fac_dtype)self->dtype));
    FAC_TRY(fac__scalar_tensor(value, FAC_F32, &number));
    fac_status st = FAC_OK;
    if (self->device.type != FAC_CPU) {
        fac_tensor *there;
        st = fac__c__to_copy(number, FAC_DTYPE_DEFAULT, FAC_STRIDED, self->device, (fac_opt_num){0}, false,
                             FAC_FORMAT_DEFAULT, &there);
        fac__unref(number);
        number = there;
    }
    FAC_TRY(st);
    st = copy_into(self, number);
    fac__unref(number);
    return st;
}

static fac_status fill_coded(const fac_call_info *c, fac_value *stack) {
    (void)c;
    FAC_TRY(fill_with(fac__value_header(&stack[0]), fac_value_as_scalar(stack[1])));
    return give_self(stack);
}

static fac_status fill_tensor_coded(const fac_call_info *c, fac_value *stack) {
    (void)c;
    fac_tensor *value = fac__value_header(&stack[1]), *self = fac__value_header(&stack[0]);
    FAC_CHECK(value->ndim == 0, FAC_ERR_SHAPE,
              "fill_ only supports 0-dimension value tensor but got tensor with %d dimensions.", value->ndim);
    FAC_CHECK(!fac__is_coded(value), FAC_ERR_DTYPE, "a coded tensor is filled with a number, not with a coded one");
    FAC_CHECK(fac__is_coded(self), FAC_ERR_DTYPE, "dequantize the value first");
    FAC_TRY(copy_into(self, value));
    return give_self(stack);
}

static fac_status zero_coded(const fac_call_info *c, fac_value *stack) {
    (void)c;
    FAC_TRY(fill_with(fac__value_header(&stack[0]), fac_scalar_f_(0)));
    return give_self(stack);
}

/* ---- views as another dtype ---------------------------------------------------------------------------------------------------- */

static fac_status view_dtype_coded(const fac_call_info *c, fac_value *stack) {
    fac_tensor *self = fac__value_header(&stack[0]), *codes;
    FAC_CHECK(!fac__quantizer_of(self), FAC_ERR_UNSUPPORTED,
              "a quantized tensor has no view in another dtype: int_repr gives a copy of its codes");
    FAC_TRY(fac__codes_of(self, &codes));
    fac_value work[2] = {fac__value_owned_tensor(codes), stack[1]}, held = work[0];
    const fac_status st = fac_redispatch(c->op, dense_keys(c), work);
    fac_value_release(&held);
    FAC_TRY(st);
    stack[0] = work[0];
    return FAC_OK;
}

/* ---- equality ------------------------------------------------------------------------------------------------------------------ */

static fac_status floats_equal(fac_tensor *a, fac_tensor *b, bool *out) {
    fac_tensor *x, *y;
    FAC_TRY(as_floats(a, &x));
    fac_status st = as_floats(b, &y);
    if (st == FAC_OK) {
        st = fac__c_equal(x, y, out);
        fac__unref(y);
    }
    fac__unref(x);
    return st;
}

static fac_status codes_equal(fac_tensor *a, fac_tensor *b, bool *out) {
    fac_tensor *x, *y;
    FAC_TRY(fac__codes_of(a, &x));
    fac_status st = fac__codes_of(b, &y);
    if (st == FAC_OK) {
        st = fac__c_equal(x, y, out);
        fac__unref(y);
    }
    fac__unref(x);
    return st;
}

static fac_status equal_coded(const fac_call_info *c, fac_value *stack) {
    (void)c;
    fac_tensor *a = fac__value_header(&stack[0]), *b = fac__value_header(&stack[1]);
    const fac_quantizer *p = fac__quantizer_of(a), *q = fac__quantizer_of(b);
    bool same = false;
    FAC_CHECK(a->dtype == b->dtype, FAC_ERR_DTYPE,
              "Expected object of data type %s but got data type %s for argument 'other'",
              fac_dtype_name((fac_dtype)a->dtype), fac_dtype_name((fac_dtype)b->dtype));
    if (!p)
        FAC_TRY(floats_equal(a, b, &same));
    else if (fac__quantizer_equal(p, q))
        FAC_TRY(codes_equal(a, b, &same));
    stack[0] = fac_value_bool(same);
    return FAC_OK;
}

/* ---- clamping ------------------------------------------------------------------------------------------------------------------ */

static int64_t bound(const fac_tensor *t, double x) {
    const fac_quantizer *q = fac__quantizer_of(t);
    int64_t least, most;
    fac__code_range((fac_dtype)t->dtype, &least, &most);
    return fac__code_of((float)x, (float)q->scales[0], q->zero_points[0], least, most);
}

static fac_opt_num bound_of(const fac_tensor *t, const fac_value *v) {
    if (v->tag == FAC_TAG_NONE) return (fac_opt_num){0};
    return fac_opt_num_(fac_scalar_i_(bound(t, fac__scalar_f64(fac_value_as_scalar(*v)))));
}

/* Codes between those of two numbers, each unset or given; in place, or as a new tensor. */
static fac_status clamp_codes(fac_value *stack, fac_opt_num least, fac_opt_num most, bool in_place) {
    fac_tensor *self = fac__value_header(&stack[0]), *codes, *made = NULL;
    FAC_TRY(fac__codes_of(self, &codes));
    const fac_keyset keys = fac__dense_keys(codes);
    fac_status st = in_place ? fac__redispatch_clamp_(keys, codes, least, most, &made)
                             : fac__redispatch_clamp(keys, codes, least, most, &made);
    fac__unref(codes);
    FAC_TRY(st);
    if (in_place) {
        fac__unref(made);
        return give_self(stack);
    }
    fac__make_coded(made, (fac_dtype)self->dtype, fac__quantizer_of(self));
    return give_tensor(stack, made);
}

static bool is_in_place(const fac_call_info *c) { return c->op->name[strlen(c->op->name) - 1] == '_'; }

static fac_status relu_coded(const fac_call_info *c, fac_value *stack) {
    const fac_tensor *self = fac__value_header(&stack[0]);
    FAC_TRY(fac__need_per_tensor("self", self, false));
    return clamp_codes(stack, fac_opt_num_(fac_scalar_i_(bound(self, 0))), (fac_opt_num){0}, is_in_place(c));
}

static fac_status clamp_coded(const fac_call_info *c, fac_value *stack) {
    const fac_tensor *self = fac__value_header(&stack[0]);
    FAC_TRY(fac__need_per_tensor("self", self, false));
    FAC_CHECK(stack[1].tag != FAC_TAG_NONE || stack[2].tag != FAC_TAG_NONE, FAC_ERR_ARGUMENT,
              "At least one of 'min' or 'max' must not be None");
    return clamp_codes(stack, bound_of(self, &stack[1]), bound_of(self, &stack[2]), is_in_place(c));
}

fac_status fac__coded_own_init(void) {
    static const struct {
        const char *name;
        fac_boxed_fn fn;
    } own[] = {
        {"aten::copy_", copy_coded},        {"aten::_to_copy", to_copy_coded},
        {"aten::fill_.Scalar", fill_coded}, {"aten::fill_.Tensor", fill_tensor_coded},
        {"aten::zero_", zero_coded},        {"aten::view.dtype", view_dtype_coded},
        {"aten::equal", equal_coded},       {"aten::relu", relu_coded},
        {"aten::relu_", relu_coded},        {"aten::hardtanh", clamp_coded},
        {"aten::hardtanh_", clamp_coded},   {"aten::clamp", clamp_coded},
        {"aten::clamp_", clamp_coded},
    };
    for (size_t i = 0; i < FAC_COUNT(own); i++)
        if (!fac_register_boxed(own[i].name, "Quantized", own[i].fn, NULL, FAC_HERE)) return fac_error();
    return FAC_OK;
}
