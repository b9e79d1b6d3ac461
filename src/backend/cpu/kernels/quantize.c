/* Quantizing, reading and making quantized tensors. Codes are computed in float32, as PyTorch's are: x * (1 / scale) rounded to nearest
   even, plus the zero point. One scale for all is applied in the order of memory, those of an axis in row-major order. */
#include "backend/cpu/kernels/quantize.h"
#include "backend/cpu/kernels/items.h"
#include "backend/cpu/parallel.h"
#include "core/coded.h"
#include "core/read.h"
#include "core/scalar.h"
#include "core/tensor_make.h"
#include "ops/coded.h"
#include "ops/composite/below.h"
#include "ops/composite/factory.h"
#include "ops/meta/check.h"
#include "ops_gen.h"
#include <math.h>

/* x and codes in one order: [outer, channels, inner]. */
typedef struct job {
    fac_dtype dtype; /* of the codes */
    const fac_quantizer *q;
    int64_t inner;
    float *x;
    void *codes;
} job;

/* ---- runs of one scale ---------------------------------------------------------------------------------------------------- */

/* Beyond 2^24 a sum with the zero point is not exact in float32. */
static void encode_i32(int32_t *out, const float *x, int64_t n, float scale, int64_t zero) {
    for (int64_t i = 0; i < n; i++) out[i] = (int32_t)fac__code_of(x[i], scale, zero, INT32_MIN, INT32_MAX);
}

static void encode(const job *j, int64_t at, int64_t n, int64_t channel) {
    const float scale = (float)j->q->scales[channel];
    const int64_t zero = j->q->zero_points[channel];
    if (j->dtype == FAC_QINT32)
        encode_i32((int32_t *)j->codes + at, j->x + at, n, scale, zero);
    else if (j->dtype == FAC_QINT8)
        FAC_ISA_PICK(fac__encode_i8)((int8_t *)j->codes + at, j->x + at, n, scale, (float)zero);
    else
        FAC_ISA_PICK(fac__encode_u8)((uint8_t *)j->codes + at, j->x + at, n, scale, (float)zero);
}

static void decode(const job *j, int64_t at, int64_t n, int64_t channel) {
    const float scale = (float)j->q->scales[channel];
    const int64_t zero = j->q->zero_points[channel];
    float *out = j->x + at;
    if (j->dtype == FAC_QINT32) {
        const int32_t *c = (const int32_t *)j->codes + at;
        for (int64_t i = 0; i < n; i++) out[i] = (float)((int64_t)c[i] - zero) * scale;
    } else if (j->dtype == FAC_QINT8) {
        FAC_ISA_PICK(fac__decode_i8)(out, (const int8_t *)j->codes + at, n, scale, (int)zero);
    } else {
        FAC_ISA_PICK(fac__decode_u8)(out, (const uint8_t *)j->codes + at, n, scale, (int)zero);
    }
}

typedef struct runs {
    job j;
    void (*run)(const job *j, int64_t at, int64_t n, int64_t channel);
} runs;

static fac_status run_range(void *context, int64_t begin, int64_t end) {
    const runs *r = context;
    for (int64_t at = begin; at < end;) {
        const int64_t slice = at / r->j.inner, stop = fac__min(end, (slice + 1) * r->j.inner);
        r->run(&r->j, at, stop - at, slice % r->j.q->n);
        at = stop;
    }
    return FAC_OK;
}

static fac_status run_all(runs *r, int64_t numel) {
    if (!r->j.inner) r->j.inner = 1;
    return numel ? fac__parallel_for(0, numel, FAC_GRAIN, run_range, r) : FAC_OK;
}

/* Elements of one slice along the axis that lie together; all of them if there is no axis. */
static int64_t inner_of(const fac_tensor *t, const fac_quantizer *q) {
    int64_t inner = 1;
    if (q->axis < 0) return fac__max(1, t->numel);
    for (int d = q->axis + 1; d < t->ndim; d++) inner *= t->sizes[d];
    return inner;
}

/* Owned: t itself where its elements can be taken in the order of memory, else a row-major copy. */
static fac_status in_order(fac_tensor *t, const fac_quantizer *q, fac_tensor **out) {
    if (q->axis < 0 && t->flags & FAC_TF_DENSE) {
        *out = fac__ref(t);
        return FAC_OK;
    }
    return fac__cpu_contiguous(t, out);
}

/* ---- quantizing ---------------------------------------------------------------------------------------------------------------- */

static fac_status check_floats(const fac_tensor *self) {
    FAC_CHECK(self->dtype == FAC_F32, FAC_ERR_DTYPE, "only float32 tensors are quantized, got %s",
              fac_dtype_name((fac_dtype)self->dtype));
    return FAC_OK;
}

/* Codes of self, which is float32, read by q from then on. */
static fac_status quantize(fac_tensor *self, fac_dtype dtype, fac_quantizer *q, fac_tensor **out) {
    fac_tensor *x, *codes;
    FAC_TRY(fac__quantizer_check(q, dtype));
    if (self->device.type == FAC_META)
        x = fac__ref(self);
    else
        FAC_TRY(in_order(self, q, &x));
    const bool dense = q->axis < 0 && x->flags & FAC_TF_DENSE;
    fac_status st = dense ? fac__empty_strided(x->sizes, x->strides, x->ndim, fac__code_dtype(dtype), x->device, &codes)
                          : fac__empty(x->sizes, x->ndim, fac__code_dtype(dtype), x->device, &codes);
    if (st == FAC_OK && fac__is_cpu(self)) {
        runs r = {{dtype, q, inner_of(x, q), fac__data(x), fac__data(codes)}, encode};
        st = run_all(&r, x->numel);
    }
    fac__unref(x);
    FAC_TRY(st);
    fac__make_coded(codes, dtype, q);
    *out = codes;
    return FAC_OK;
}

fac_status quantize_per_tensor_kernel(const fac_call_info *c, fac_tensor *self, double scale, int64_t zero_point,
                                      fac_dtype dtype, fac_tensor **out) {
    (void)c;
    fac_quantizer *q;
    FAC_TRY(check_floats(self));
    FAC_TRY(fac__quantizer_per_tensor(scale, zero_point, &q));
    const fac_status st = quantize(self, dtype, q, out);
    fac__quantizer_unref(q);
    return st;
}

/* Owned: the quantizer of an axis. Scales and zero points on the meta device are ones and zeros, as their values are not known. */
static fac_status channels(const fac_tensor *self, fac_tensor *scales, fac_tensor *zero_points, int64_t axis,
                           fac_quantizer **out) {
    FAC_TRY(fac__wrap_dim(axis, self->ndim, &axis));
    FAC_CHECK(self->ndim > 0, FAC_ERR_SHAPE, "a tensor without dimensions has no channels");
    FAC_TRY(fac__need_sizes("scales", scales, &self->sizes[axis], 1));
    FAC_TRY(fac__need_sizes("zero_points", zero_points, &self->sizes[axis], 1));
    FAC_TRY(fac__need_floating("scales", scales));
    FAC_CHECK(fac_dtype_is_integral((fac_dtype)zero_points->dtype, false), FAC_ERR_DTYPE,
              "zero_points should be integral, got %s", fac_dtype_name((fac_dtype)zero_points->dtype));
    const fac_tensor *all[] = {scales, zero_points};
    for (int i = 0; i < 2; i++)
        FAC_CHECK(fac__is_cpu(all[i]) || self->device.type == FAC_META, FAC_ERR_DEVICE,
                  "scales and zero_points should be on the CPU, where they are read, but one is on %s",
                  fac_device_format(all[i]->device, (char[24]){0}, 24));
    fac_quantizer *q;
    FAC_TRY(fac__quantizer_new((int)axis, self->sizes[axis], &q));
    fac_status st = FAC_OK;
    for (int64_t i = 0; i < q->n; i++) q->scales[i] = 1, q->zero_points[i] = 0;
    if (scales->device.type == FAC_CPU) st = fac__read(scales, FAC_F64, q->scales, (size_t)q->n);
    if (st == FAC_OK && zero_points->device.type == FAC_CPU)
        st = fac__read(zero_points, FAC_I64, q->zero_points, (size_t)q->n);
    if (st != FAC_OK)
        fac__quantizer_unref(q);
    else
        *out = q;
    return st;
}

fac_status quantize_per_channel_kernel(const fac_call_info *c, fac_tensor *self, fac_tensor *scales,
                                       fac_tensor *zero_points, int64_t axis, fac_dtype dtype, fac_tensor **out) {
    (void)c;
    fac_quantizer *q;
    FAC_TRY(check_floats(self));
    FAC_TRY(channels(self, scales, zero_points, axis, &q));
    const fac_status st = quantize(self, dtype, q, out);
    fac__quantizer_unref(q);
    return st;
}

/* ---- of given codes, or none ------------------------------------------------------------------------------------------------ */

/* A copy of the codes, read by q; takes q. */
static fac_status over_codes(fac_tensor *self, fac_quantizer *q, fac_tensor **out) {
    const fac_dtype dtype = self->dtype == FAC_U8    ? FAC_QUINT8
                            : self->dtype == FAC_I8  ? FAC_QINT8
                            : self->dtype == FAC_I32 ? FAC_QINT32
                                                     : FAC_DTYPE_DEFAULT;
    fac_status st = dtype ? fac__quantizer_check(q, dtype)
                          : FAC_FAIL(FAC_ERR_DTYPE, "codes are uint8, int8 or int32, got %s",
                                     fac_dtype_name((fac_dtype)self->dtype));
    if (st == FAC_OK) st = fac__clone_below(self, out);
    if (st == FAC_OK) fac__make_coded(*out, dtype, q);
    fac__quantizer_unref(q);
    return st;
}

fac_status make_per_tensor_quantized_kernel(const fac_call_info *c, fac_tensor *self, double scale, int64_t zero_point,
                                            fac_tensor **out) {
    (void)c;
    fac_quantizer *q;
    FAC_TRY(fac__quantizer_per_tensor(scale, zero_point, &q));
    return over_codes(self, q, out);
}

fac_status make_per_channel_quantized_kernel(const fac_call_info *c, fac_tensor *self, fac_tensor *scale,
                                             fac_tensor *zero_point, int64_t axis, fac_tensor **out) {
    (void)c;
    fac_quantizer *q;
    FAC_TRY(channels(self, scale, zero_point, axis, &q));
    return over_codes(self, q, out);
}

/* Takes q. */
static fac_status empty_by(fac_factory f, fac_ints size, fac_memory_format format, fac_quantizer *q, fac_tensor **out) {
    const fac_dtype dtype = f.dtype;
    fac_status st = fac__quantizer_check(q, dtype);
    f.dtype = fac__code_dtype(dtype);
    if (st == FAC_OK) st = fac__factory_resolve(&f, f.dtype);
    if (st == FAC_OK) st = fac__factory_empty(&f, size, format == FAC_PRESERVE ? FAC_CONTIGUOUS : format, out);
    if (st == FAC_OK) fac__make_coded(*out, dtype, q);
    fac__quantizer_unref(q);
    return st;
}

fac_status empty_affine_quantized_kernel(const fac_call_info *c, fac_ints size, fac_dtype dtype, fac_layout layout,
                                         fac_device device, fac_opt_num pin_memory, double scale, int64_t zero_point,
                                         fac_memory_format memory_format, fac_tensor **out) {
    (void)c;
    fac_quantizer *q;
    FAC_TRY(fac__quantizer_per_tensor(scale, zero_point, &q));
    return empty_by(FACTORY(dtype, layout, device, pin_memory), size, memory_format, q, out);
}

fac_status empty_per_channel_quantized_kernel(const fac_call_info *c, fac_ints size, fac_tensor *scales,
                                              fac_tensor *zero_points, int64_t axis, fac_dtype dtype, fac_layout layout,
                                              fac_device device, fac_opt_num pin_memory,
                                              fac_memory_format memory_format, fac_tensor **out) {
    (void)c;
    fac_quantizer *q;
    fac_tensor *shape;
    FAC_CHECK(size.n <= FAC_MAX_DIMS, FAC_ERR_SHAPE, "a tensor may have at most %d dimensions, got %zu", FAC_MAX_DIMS,
              size.n);
    FAC_TRY(fac__empty(size.v, (int)size.n, FAC_U8, fac_device_make(FAC_META, -1), &shape));
    if (fac__is_cpu(scales)) shape->device.type = FAC_CPU; /* values are read unless they are on the meta device */
    fac_status st = channels(shape, scales, zero_points, axis, &q);
    shape->device.type = FAC_META;
    fac__unref(shape);
    FAC_TRY(st);
    if (!device.type) device = scales->device;
    return empty_by(FACTORY(dtype, layout, device, pin_memory), size, memory_format, q, out);
}

fac_status empty_quantized_kernel(const fac_call_info *c, fac_ints size, fac_tensor *qtensor, fac_dtype dtype,
                                  fac_layout layout, fac_device device, fac_opt_num pin_memory,
                                  fac_memory_format memory_format, fac_tensor **out) {
    (void)c;
    fac_quantizer *q = fac__quantizer_of(qtensor);
    FAC_CHECK(q, FAC_ERR_DTYPE, "empty_quantized is only supported for quantized tensors, got %s",
              fac_dtype_name((fac_dtype)qtensor->dtype));
    FAC_CHECK(!dtype || dtype == qtensor->dtype, FAC_ERR_DTYPE, "the dtype should be that of qtensor, %s, but is %s",
              fac_dtype_name((fac_dtype)qtensor->dtype), fac_dtype_name(dtype));
    FAC_CHECK(q->axis < 0 || (size.n > (size_t)q->axis && size.v[q->axis] == q->n), FAC_ERR_SHAPE,
              "the size along axis %d should be %lld, as many as there are scales", q->axis, (long long)q->n);
    fac_factory f = FACTORY((fac_dtype)qtensor->dtype, layout, device.type ? device : qtensor->device, pin_memory);
    return empty_by(f, size, memory_format, fac__quantizer_ref(q), out);
}

/* ---- reading ---------------------------------------------------------------------------------------------------------------------- */

static fac_status decoded(fac_tensor *self, fac_quantizer *q, fac_tensor **out) {
    fac_tensor *codes, *here = NULL;
    FAC_TRY(fac__codes_of(self, &codes));
    fac_status st = in_order(codes, q, &here);
    fac__unref(codes);
    FAC_TRY(st);
    const bool dense = q->axis < 0 && here->flags & FAC_TF_DENSE;
    st = dense ? fac__empty_strided(here->sizes, here->strides, here->ndim, FAC_F32, here->device, out)
               : fac__empty(here->sizes, here->ndim, FAC_F32, here->device, out);
    if (st == FAC_OK) {
        runs r = {{(fac_dtype)self->dtype, q, inner_of(here, q), fac__data(*out), fac__data(here)}, decode};
        st = run_all(&r, here->numel);
    }
    fac__unref(here);
    return st;
}

fac_status dequantize_kernel(const fac_call_info *c, fac_tensor *self, fac_tensor **out) {
    (void)c;
    const fac_dtype dtype = (fac_dtype)self->dtype;
    fac_quantizer *q = fac__quantizer_of(self);
    FAC_CHECK(fac_dtype_is_quantized(dtype) || fac_dtype_is_float8(dtype) || fac_dtype_is_floating(dtype),
              FAC_ERR_DTYPE, "dequantize is for quantized and floating tensors, got %s", fac_dtype_name(dtype));
    if (q && fac__is_cpu(self)) return decoded(self, q, out);
    if (q && q->axis < 0 && self->flags & FAC_TF_DENSE)
        return fac__empty_strided(self->sizes, self->strides, self->ndim, FAC_F32, self->device, out);
    if (q) return fac__empty(self->sizes, self->ndim, FAC_F32, self->device, out);
    return fac__redispatch__to_copy(fac__dense_keys(self), self, FAC_F32, FAC_STRIDED, (fac_device){0},
                                    (fac_opt_num){0}, false, FAC_FORMAT_DEFAULT, out);
}

static fac_status need_quantizer(const fac_tensor *t, fac_quantizer **out) {
    *out = fac__quantizer_of(t);
    FAC_CHECK(*out, FAC_ERR_DTYPE, "a quantized tensor is expected, but got %s", fac_dtype_name((fac_dtype)t->dtype));
    return FAC_OK;
}

fac_status int_repr_kernel(const fac_call_info *c, fac_tensor *self, fac_tensor **out) {
    (void)c;
    fac_tensor *codes;
    fac_quantizer *q;
    FAC_TRY(need_quantizer(self, &q));
    FAC_TRY(fac__codes_of(self, &codes));
    const fac_status st = fac__clone_below(codes, out);
    fac__unref(codes);
    return st;
}

static fac_status per_channel(const fac_tensor *t, fac_quantizer **out) {
    FAC_TRY(need_quantizer(t, out));
    FAC_CHECK((*out)->axis >= 0, FAC_ERR_DTYPE, "self should be quantized per channel, but is quantized per tensor");
    return FAC_OK;
}

fac_status q_scale_kernel(const fac_call_info *c, fac_tensor *self, double *out) {
    (void)c;
    FAC_TRY(fac__need_per_tensor("self", self, false));
    *out = fac__quantizer_of(self)->scales[0];
    return FAC_OK;
}

fac_status q_zero_point_kernel(const fac_call_info *c, fac_tensor *self, int64_t *out) {
    (void)c;
    FAC_TRY(fac__need_per_tensor("self", self, false));
    *out = fac__quantizer_of(self)->zero_points[0];
    return FAC_OK;
}

fac_status q_per_channel_axis_kernel(const fac_call_info *c, fac_tensor *self, int64_t *out) {
    (void)c;
    fac_quantizer *q;
    FAC_TRY(per_channel(self, &q));
    *out = q->axis;
    return FAC_OK;
}

/* One of the two lists. */
static fac_status list_of(const fac_tensor *self, bool zero_points, fac_tensor **out) {
    fac_quantizer *q;
    fac_tensor *lists[2];
    FAC_TRY(per_channel(self, &q));
    if (self->device.type == FAC_META) return fac__empty(&q->n, 1, zero_points ? FAC_I64 : FAC_F64, self->device, out);
    FAC_TRY(fac__quantizer_lists(q, &lists[0], &lists[1]));
    fac__unref(lists[!zero_points]);
    *out = lists[zero_points];
    return FAC_OK;
}

fac_status q_per_channel_scales_kernel(const fac_call_info *c, fac_tensor *self, fac_tensor **out) {
    (void)c;
    return list_of(self, false, out);
}

fac_status q_per_channel_zero_points_kernel(const fac_call_info *c, fac_tensor *self, fac_tensor **out) {
    (void)c;
    return list_of(self, true, out);
}

fac_status qscheme_kernel(const fac_call_info *c, fac_tensor *self, int64_t *out) {
    (void)c;
    fac_quantizer *q;
    FAC_TRY(need_quantizer(self, &q));
    *out = q->axis < 0 ? FAC_PER_TENSOR_AFFINE : FAC_PER_CHANNEL_AFFINE;
    return FAC_OK;
}
