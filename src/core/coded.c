/* Coded tensors: quantizers, and the two faces of a coded tensor, codes and what they stand for. */
#include "core/coded.h"
#include "core/scalar.h"
#include "core/tensor_make.h"
#include "core/valid.h"
#include <math.h>

/* ---- quantizers -------------------------------------------------------------------------------------------------------- */

fac_status fac__quantizer_new(int axis, int64_t n, fac_quantizer **out) {
    int64_t bytes;
    *out = NULL;
    FAC_CHECK(fac__mul(n, (int64_t)(sizeof(double) + sizeof(int64_t)), &bytes) &&
                  fac__add(bytes, (int64_t)sizeof(fac_quantizer), &bytes),
              FAC_ERR_OVERFLOW, "a quantizer of %lld channels is too large", (long long)n);
    fac_quantizer *q = fac__alloc((size_t)bytes);
    if (!q) return FAC_ERR_MEMORY;
    atomic_init(&q->refs, 1);
    q->axis = axis;
    q->n = n;
    q->scales = (double *)(q + 1);
    q->zero_points = (int64_t *)(q->scales + n);
    *out = q;
    return FAC_OK;
}

fac_status fac__quantizer_per_tensor(double scale, int64_t zero_point, fac_quantizer **out) {
    FAC_TRY(fac__quantizer_new(-1, 1, out));
    (*out)->scales[0] = scale;
    (*out)->zero_points[0] = zero_point;
    return FAC_OK;
}

fac_quantizer *fac__quantizer_ref(fac_quantizer *q) {
    if (q) atomic_fetch_add_explicit(&q->refs, 1, memory_order_relaxed);
    return q;
}

void fac__quantizer_unref(fac_quantizer *q) {
    if (q && fac__last_ref(&q->refs)) fac__free(q);
}

bool fac__quantizer_equal(const fac_quantizer *a, const fac_quantizer *b) {
    if (a == b || !a || !b) return a == b;
    if (a->axis != b->axis || a->n != b->n) return false;
    for (int64_t i = 0; i < a->n; i++)
        if (a->scales[i] != b->scales[i] || a->zero_points[i] != b->zero_points[i]) return false;
    return true;
}

fac_status fac__quantizer_check(const fac_quantizer *q, fac_dtype dtype) {
    int64_t least, most;
    FAC_CHECK(fac_dtype_is_quantized(dtype), FAC_ERR_DTYPE, "a quantized dtype is expected, such as quint8, but got %s",
              fac_dtype_name(dtype));
    fac__code_range(dtype, &least, &most);
    for (int64_t i = 0; i < q->n; i++) {
        const float scale = (float)q->scales[i];
        FAC_CHECK(isfinite(scale) && scale > 0 && isfinite(1 / scale), FAC_ERR_ARGUMENT,
                  "a scale must be positive, and finite in float32, as must its inverse, but got %g", q->scales[i]);
        FAC_CHECK(q->zero_points[i] >= least && q->zero_points[i] <= most, FAC_ERR_ARGUMENT,
                  "zero_point %lld is out of the range of %s: [%lld, %lld]", (long long)q->zero_points[i],
                  fac_dtype_name(dtype), (long long)least, (long long)most);
    }
    return FAC_OK;
}

fac_status fac__quantizer_lists(const fac_quantizer *q, fac_tensor **out_scales, fac_tensor **out_zero_points) {
    const fac_device cpu = fac_device_make(FAC_CPU, -1);
    FAC_TRY(fac__empty(&q->n, 1, FAC_F64, cpu, out_scales));
    const fac_status st = fac__empty(&q->n, 1, FAC_I64, cpu, out_zero_points);
    if (st != FAC_OK) {
        fac__unref(*out_scales);
        return st;
    }
    for (int64_t i = 0; i < q->n; i++) {
        ((double *)fac__data(*out_scales))[i] = q->scales[i];
        ((int64_t *)fac__data(*out_zero_points))[i] = q->zero_points[i];
    }
    return FAC_OK;
}

/* ---- codes --------------------------------------------------------------------------------------------------------------- */

fac_dtype fac__code_dtype(fac_dtype coded) {
    return coded == FAC_QINT8 ? FAC_I8 : coded == FAC_QINT32 ? FAC_I32 : FAC_U8;
}

void fac__code_range(fac_dtype coded, int64_t *out_least, int64_t *out_most) {
    *out_least = coded == FAC_QINT8 ? INT8_MIN : coded == FAC_QINT32 ? INT32_MIN : 0;
    *out_most = coded == FAC_QINT8 ? INT8_MAX : coded == FAC_QINT32 ? INT32_MAX : UINT8_MAX;
}

/* source: the order of rounding is that of torch.quantize_per_tensor: x is multiplied by the inverse, in float32 */
int64_t fac__code_of(float x, float scale, int64_t zero_point, int64_t least, int64_t most) {
    const double r = rint((double)(x * (1.0f / scale))) + (double)zero_point;
    return r >= (double)most ? most : r > (double)least ? (int64_t)r : least; /* NaN is the least */
}

/* ---- tensors ------------------------------------------------------------------------------------------------------------- */

static void drop_quantizer(fac_tensor *t) { fac__quantizer_unref(t->ext); }

static const fac_tensor_class quantized = {.name = "quantized", .destroy = drop_quantizer};

fac_quantizer *fac__quantizer_of(const fac_tensor *t) { return t->cls == &quantized ? t->ext : NULL; }

fac_status fac__codes_of(fac_tensor *t, fac_tensor **out) {
    FAC_TRY(fac__alias_header(t, true, out));
    (*out)->dtype = (uint8_t)fac__code_dtype((fac_dtype)t->dtype);
    (*out)->keys = ((*out)->keys & ~fac__func_bit(FAC_KEY_QUANTIZED)) | FAC_KS_DENSE;
    FAC_INVARIANT(fac__tensor_is_valid(*out));
    return FAC_OK;
}

void fac__make_coded(fac_tensor *codes, fac_dtype dtype, fac_quantizer *q) {
    codes->dtype = (uint8_t)dtype;
    codes->keys = (codes->keys & ~FAC_KS_DENSE) | fac__func_bit(FAC_KEY_QUANTIZED);
    if (q) {
        codes->cls = &quantized;
        codes->ext = fac__quantizer_ref(q);
    }
    FAC_INVARIANT(fac__tensor_is_valid(codes));
}

void fac__set_quantizer(fac_tensor *t, fac_quantizer *q) {
    fac_quantizer *was = t->ext;
    t->ext = fac__quantizer_ref(q);
    fac__quantizer_unref(was);
}

fac_status fac__empty_stored(const int64_t *sizes, const int64_t *strides, int ndim, fac_dtype dtype, fac_device device,
                             const fac_allocator *a, fac_tensor **out) {
    const bool coded = fac_dtype_is_float8(dtype);
    const fac_dtype d = coded ? fac__code_dtype(dtype) : dtype;
    FAC_TRY(strides ? fac__empty_strided_from(sizes, strides, ndim, d, device, a, out)
                    : fac__empty_from(sizes, ndim, d, device, a, out));
    if (coded) fac__make_coded(*out, dtype, NULL);
    return FAC_OK;
}
