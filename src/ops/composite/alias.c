/* Other spellings: pieces and places that tensors hold, lists of tensors, sizes and strides under other names. */
#include "core/read.h"
#include "ops/composite/brief.h"
#include "ops/composite/view.h"

/* ---- pieces ------------------------------------------------------------------------------------------------------------ */

static fac_status split_at_all(fac_tensor *self, fac_tensor *at, int64_t dim, int64_t *v, fac_tensor_list *out) {
    FAC_TRY(fac__read(at, FAC_I64, v, (size_t)at->numel));
    return at->ndim == 0 ? fac__c_tensor_split_sections(self, v[0], dim, out)
                         : fac__c_tensor_split_indices(self, (fac_ints){v, (size_t)at->numel}, dim, out);
}

fac_status tensor_split_tensor_composite(const fac_call_info *c, fac_tensor *self, fac_tensor *at, int64_t dim,
                                         fac_tensor_list *out) {
    (void)c;
    FAC_CHECK(at->device.type == FAC_CPU, FAC_ERR_DEVICE,
              "tensor_split expected tensor_indices_or_sections to be on cpu, but it's on %s",
              fac_device_format(at->device, (char[24]){0}, 24));
    FAC_CHECK(at->dtype == FAC_I64, FAC_ERR_DTYPE,
              "tensor_split expected tensor_indices_or_sections to have dtype of long, but got %s",
              fac_dtype_name((fac_dtype)at->dtype));
    FAC_CHECK(
        at->ndim <= 1, FAC_ERR_SHAPE,
        "tensor_split expected tensor_indices_or_sections to be a zero-dimensional or one-dimensional tensor, but got "
        "a tensor with %d dims",
        at->ndim);
    int64_t *v = fac__alloc_array((size_t)at->numel + 1, sizeof *v);
    if (!v) return fac_error();
    fac_status st = split_at_all(self, at, dim, v, out);
    fac__free(v);
    return st;
}

fac_status narrow_tensor_composite(const fac_call_info *c, fac_tensor *self, int64_t dim, fac_tensor *start,
                                   int64_t length, fac_tensor **out) {
    (void)c;
    FAC_CHECK(start->numel == 1 && start->ndim == 0, FAC_ERR_SHAPE,
              "start must be an 0-dim integral Tensor, got sizes %s", FAC_SHAPE_TEXT(start));
    FAC_CHECK(fac_dtype_is_integral((fac_dtype)start->dtype, false), FAC_ERR_DTYPE,
              "start must be an 0-dim integral Tensor, got %s", fac_dtype_name((fac_dtype)start->dtype));
    fac_scalar at;
    FAC_TRY(fac__c__local_scalar_dense(start, &at));
    return fac__c_narrow(self, dim, fac__scalar_i64(at), length, out);
}

/* ---- lists ----------------------------------------------------------------------------------------------------------------- */

typedef fac_status (*make_one)(fac_tensor *t, fac_tensor **out);

static fac_status each(fac_tensors l, make_one fn, fac_tensor_list *out) {
    FAC_TRY(fac__list_new(l.n, out));
    for (size_t i = 0; i < l.n; i++) {
        fac_status st = fn(l.v[i], &out->v[i]);
        if (st != FAC_OK) {
            fac__tensor_list_free(out);
            return st;
        }
        out->n++;
    }
    return FAC_OK;
}

#define AT_LEAST(n)                                                                                                   \
    fac_status atleast_##n##d_sequence_composite(const fac_call_info *c, fac_tensors tensors, fac_tensor_list *out) { \
        (void)c;                                                                                                      \
        return each(tensors, fac__c_atleast_##n##d, out);                                                             \
    }
AT_LEAST(1)
AT_LEAST(2)
AT_LEAST(3)

/* ---- layout ------------------------------------------------------------------------------------------------------------------ */

fac_status storage_offset_composite(const fac_call_info *c, fac_tensor *self, int64_t *out) {
    (void)c;
    *out = self->offset;
    return FAC_OK;
}

fac_status is_contiguous_composite(const fac_call_info *c, fac_tensor *self, bool *out) {
    (void)c;
    *out = fac__is_contiguous(self);
    return FAC_OK;
}

fac_status is_contiguous_format_composite(const fac_call_info *c, fac_tensor *self, fac_memory_format memory_format,
                                          bool *out) {
    (void)c;
    static const uint16_t flags[] = {[FAC_FORMAT_DEFAULT] = FAC_TF_CONTIGUOUS,
                                     [FAC_CONTIGUOUS] = FAC_TF_CONTIGUOUS,
                                     [FAC_CHANNELS_LAST] = FAC_TF_CHANNELS_LAST,
                                     [FAC_CHANNELS_LAST_3D] = FAC_TF_CHANNELS_LAST_3D};
    const size_t format = (size_t)memory_format;
    FAC_CHECK(format < FAC_COUNT(flags) && flags[format], FAC_ERR_ARGUMENT,
              "is_contiguous() needs a memory format that says an order");
    *out = (self->flags & flags[format]) != 0;
    return FAC_OK;
}

/* ---- ranges between numbers that tensors hold ----------------------------------------------------------------------------------- */

/* The number that a tensor without dimensions holds. */
static fac_status number_in(fac_tensor *t, const char *name, fac_scalar *out) {
    FAC_CHECK(t->ndim == 0, FAC_ERR_SHAPE,
              "only 0-dimensional start and end tensors are supported, but %s has %d dimension(s)", name, t->ndim);
    return fac__c__local_scalar_dense(t, out);
}

#define RANGES(kind, START, END, READ)                                                                               \
    fac_status linspace_##kind##_composite(const fac_call_info *c, START start, END end, int64_t steps,              \
                                           fac_dtype dtype, fac_layout layout, fac_device device,                    \
                                           fac_opt_num pin_memory, fac_tensor **out) {                               \
        (void)c;                                                                                                     \
        fac_scalar from, to;                                                                                         \
        READ;                                                                                                        \
        return fac__c_linspace(from, to, steps, dtype, layout, device, pin_memory, out);                             \
    }                                                                                                                \
    fac_status logspace_##kind##_composite(const fac_call_info *c, START start, END end, int64_t steps, double base, \
                                           fac_dtype dtype, fac_layout layout, fac_device device,                    \
                                           fac_opt_num pin_memory, fac_tensor **out) {                               \
        (void)c;                                                                                                     \
        fac_scalar from, to;                                                                                         \
        READ;                                                                                                        \
        return fac__c_logspace(from, to, steps, base, dtype, layout, device, pin_memory, out);                       \
    }
RANGES(tensor_tensor, fac_tensor *, fac_tensor *, {
    FAC_TRY(number_in(start, "start", &from));
    FAC_TRY(number_in(end, "end", &to));
})
RANGES(tensor_scalar, fac_tensor *, fac_scalar, {
    FAC_TRY(number_in(start, "start", &from));
    to = end;
})
RANGES(scalar_tensor, fac_scalar, fac_tensor *, {
    from = start;
    FAC_TRY(number_in(end, "end", &to));
})
