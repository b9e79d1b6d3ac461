/* Values out of tensors, without operators: elements of CPU memory, converted one by one. */
#include "core/read.h"
#include "core/coded.h"
#include "core/guard.h"
#include "core/handle.h"
#include "core/scalar.h"
#include "core/tensor_make.h"
#include "core/vendor.h"

/* Owned copy on the CPU with the strides of t: the bytes between its first and last element, in one go. */
static fac_status fetch(fac_tensor *t, fac_tensor **out) {
    fac_tensor *made;
    FAC_TRY(fac__empty_stored(t->sizes, t->strides, t->ndim, (fac_dtype)t->dtype, fac_device_make(FAC_CPU, -1), NULL,
                              &made));
    fac__turn_pending(made, fac__pending(t));
    fac_status st = fac__copy_bytes(made->device, fac__data(made), t->device, fac__data(t),
                                    t->numel ? made->storage->bytes : 0, false);
    if (st == FAC_OK)
        *out = made;
    else
        fac__unref(made);
    return st;
}

/* Walks over the elements of a tensor in CPU memory, in row-major order of the logical index. */
typedef struct reader {
    const fac_tensor *t;
    const char *p;
    int64_t index[FAC_MAX_DIMS];
} reader;

/* Starts at the first element. */
static void reader_of(reader *r, const fac_tensor *t) { *r = (reader){.t = t, .p = fac__data(t)}; }

/* The negative within the dtype d, whose integers wrap around. */
static fac_scalar negative(fac_scalar s, fac_dtype d, double re_im[2]) {
    char element[16] = {0};
    if (s.kind == FAC_KIND_COMPLEX) {
        re_im[0] = -re_im[0], re_im[1] = -re_im[1];
        return s;
    }
    if (s.kind == FAC_KIND_FLOAT) return fac_scalar_f_(-fac__scalar_f64(s));
    fac__store(element, d, fac_scalar_i_((int64_t)(0 - (uint64_t)s.bits)));
    return fac__load(element, d, re_im);
}

/* The present element, and one step on. May be called numel times. A complex value is put in re_im. */
static fac_scalar read_next(reader *r, double re_im[2]) {
    const fac_tensor *t = r->t;
    fac_scalar s = fac__load(r->p, (fac_dtype)t->dtype, re_im);
    if (t->flags & FAC_TF_CONJ) re_im[1] = -re_im[1];
    if (t->flags & FAC_TF_NEG) s = negative(s, (fac_dtype)t->dtype, re_im);
    int64_t item = fac__item_size(t);
    for (int d = t->ndim - 1; d >= 0;
         d--) { /* an odometer over the logical index, which never points past an element */
        if (++r->index[d] < t->sizes[d]) {
            r->p += t->strides[d] * item;
            break;
        }
        r->p -= (t->sizes[d] - 1) * t->strides[d] * item;
        r->index[d] = 0;
    }
    return s;
}

static void read_elements(const fac_tensor *t, fac_dtype dtype, char *out) {
    size_t item = fac__dtype_size(dtype);
    if (t->dtype == dtype && fac__is_contiguous(t) && !fac__pending(t)) {
        if (t->numel) memcpy(out, fac__data(t), (size_t)t->numel * item);
        return;
    }
    reader r;
    double re_im[2];
    reader_of(&r, t);
    for (int64_t i = 0; i < t->numel; i++, out += item) {
        char element[16] = {0}; /* out need not be aligned */
        fac__store(element, dtype, read_next(&r, re_im));
        memcpy(out, element, item);
    }
}

/* Owned copy of a tensor in CPU memory with nothing pending. */
static fac_status settled(fac_tensor *t, fac_tensor **out) {
    FAC_TRY(fac__empty(t->sizes, t->ndim, (fac_dtype)t->dtype, t->device, out));
    if (t->numel) read_elements(t, (fac_dtype)t->dtype, fac__data(*out));
    return FAC_OK;
}

/* What the codes in CPU memory stand for, in float32. */
static void read_codes(const fac_tensor *codes, const fac_quantizer *q, float *out) {
    reader r;
    double re_im[2];
    reader_of(&r, codes);
    for (int64_t i = 0; i < codes->numel; i++) {
        const int64_t channel = q->axis < 0 ? 0 : r.index[q->axis], zero = q->zero_points[channel];
        out[i] = (float)(fac__scalar_i64(read_next(&r, re_im)) - zero) * (float)q->scales[channel];
    }
}

/* Owned: the numbers of a quantized tensor. */
static fac_status dequantized(fac_tensor *t, fac_tensor **out) {
    fac_tensor *codes, *here;
    FAC_TRY(fac__codes_of(t, &codes));
    fac_status st = fac__readable(codes, &here);
    fac__unref(codes);
    FAC_TRY(st);
    st = fac__empty(t->sizes, t->ndim, FAC_F32, fac_device_make(FAC_CPU, -1), out);
    if (st == FAC_OK) read_codes(here, fac__quantizer_of(t), fac__data(*out));
    fac__unref(here);
    return st;
}

fac_status fac__readable(fac_tensor *t, fac_tensor **out) {
    fac_tensor *here;
    *out = NULL;
    if (fac__quantizer_of(t)) return dequantized(t, out);
    if (fac__vendor_of(t)) return fac__vendor_settled(t, out);
    FAC_CHECK(!t->cls || t->cls->in_memory, FAC_ERR_UNSUPPORTED, "the elements of a %s tensor cannot be read; %s",
              t->cls->name, t->cls->unread ? t->cls->unread : "make it dense first");
    FAC_CHECK(t->device.type != FAC_META, FAC_ERR_DEVICE, "Cannot read the data of a meta tensor: it has none");
    if (fac__is_cpu(t))
        here = fac__ref(t);
    else
        FAC_TRY(fetch(t, &here));
    if (!fac__pending(t)) {
        *out = here;
        return FAC_OK;
    }
    const fac_status st = settled(here, out);
    fac__unref(here);
    return st;
}

fac_status fac_tensor_read(fac_tensor *t, fac_dtype dtype, void *out, size_t n) {
    FAC_TRY(fac_error());
    FAC_OPEN(t, __func__, "t", fac_error());
    return fac__read(t, dtype, out, n);
}

fac_status fac__read(fac_tensor *t, fac_dtype dtype, void *out, size_t n) {
    fac_tensor *cpu;
    FAC_CHECK(fac__dtype_size(dtype) && dtype < FAC_QINT8, FAC_ERR_DTYPE, "fac_tensor_read: %d is no dtype to read in",
              (int)dtype);
    FAC_CHECK((size_t)t->numel == n, FAC_ERR_SHAPE,
              "fac_tensor_read: room for %zu elements was given, but the tensor has %lld", n, (long long)t->numel);
    FAC_CHECK(out || !n, FAC_ERR_ARGUMENT, "fac_tensor_read: out is NULL");
    FAC_TRY(fac__readable(t, &cpu));
    read_elements(cpu, dtype, out);
    fac__unref(cpu);
    return FAC_OK;
}

/* The value of a one-element tensor; a complex one must be real. */
static fac_status item(fac_tensor *t, const char *function, fac_scalar *out) {
    double re_im[2];
    fac_tensor *cpu;
    reader r;
    FAC_TRY(fac_error());
    FAC_TRY(fac__check_header(t, function, "t"));
    FAC_CHECK(t->numel == 1, FAC_ERR_SHAPE, "a Tensor with %lld elements cannot be converted to Scalar",
              (long long)t->numel);
    FAC_TRY(fac__readable(t, &cpu));
    reader_of(&r, cpu);
    *out = read_next(&r, re_im);
    fac__unref(cpu);
    if (out->kind != FAC_KIND_COMPLEX) return FAC_OK;
    FAC_CHECK(re_im[1] == 0, FAC_ERR_DTYPE, "%s: the value %g%+gj is not real; read it with fac_tensor_read", function,
              re_im[0], re_im[1]);
    *out = fac_scalar_f_(re_im[0]);
    return FAC_OK;
}

double fac__item(fac_tensor *t) {
    fac_scalar s;
    return item(t, "fac_item", &s) == FAC_OK ? fac__scalar_f64(s) : 0;
}

int64_t fac__item_int(fac_tensor *t) {
    fac_scalar s;
    return item(t, "fac_item_int", &s) == FAC_OK ? fac__scalar_i64(s) : 0;
}

double fac_item(fac_tensor *t) {
    FAC_OPEN(t, __func__, "t", 0);
    return fac__item(t);
}

int64_t fac_item_int(fac_tensor *t) {
    FAC_OPEN(t, __func__, "t", 0);
    return fac__item_int(t);
}
