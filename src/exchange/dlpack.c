/* DLPack's structs, both ways. */
#include "autograd/leaf.h"
#include "core/handle.h"
#include "core/storage.h"
#include "core/tensor_make.h"
#include "keywords_gen.h"
#include "ops_gen.h"
#include <facula/device.h>
#include <facula/dlpack.h>

/* As version 1 of the specification lays them out, on every machine with addresses of 64 bits. */
_Static_assert(sizeof(void *) != 8 || sizeof(fac_dl_tensor) == 48, "DLTensor");
_Static_assert(sizeof(void *) != 8 || sizeof(fac_dl_managed) == 64, "DLManagedTensor");
_Static_assert(sizeof(void *) != 8 || sizeof(fac_dl_versioned) == 80, "DLManagedTensorVersioned");

enum { MAJOR = 1, MINOR = 1 };

/* ---- dtypes and devices ---------------------------------------------------------------------------------------------------- */

static const struct {
    fac_dtype dtype;
    uint8_t code, bits;
} dtypes[] = {
    {FAC_BOOL, FAC_DL_BOOL, 8},
    {FAC_U8, FAC_DL_UINT, 8},
    {FAC_I8, FAC_DL_INT, 8},
    {FAC_I16, FAC_DL_INT, 16},
    {FAC_I32, FAC_DL_INT, 32},
    {FAC_I64, FAC_DL_INT, 64},
    {FAC_F16, FAC_DL_FLOAT, 16},
    {FAC_BF16, FAC_DL_BFLOAT, 16},
    {FAC_F32, FAC_DL_FLOAT, 32},
    {FAC_F64, FAC_DL_FLOAT, 64},
    {FAC_C64, FAC_DL_COMPLEX, 64},
    {FAC_C128, FAC_DL_COMPLEX, 128},
    {FAC_F8_E4M3FN, FAC_DL_F8_E4M3FN, 8},
    {FAC_F8_E4M3FNUZ, FAC_DL_F8_E4M3FNUZ, 8},
    {FAC_F8_E5M2, FAC_DL_F8_E5M2, 8},
    {FAC_F8_E5M2FNUZ, FAC_DL_F8_E5M2FNUZ, 8},
    {FAC_F8_E8M0FNU, FAC_DL_F8_E8M0FNU, 8},
};

static fac_status dtype_taken(fac_dl_dtype d, fac_dtype *out) {
    for (size_t i = 0; i < FAC_COUNT(dtypes); i++)
        if (dtypes[i].code == d.code && dtypes[i].bits == d.bits && d.lanes == 1) {
            *out = dtypes[i].dtype;
            return FAC_OK;
        }
    return FAC_FAIL(FAC_ERR_UNSUPPORTED,
                    "no dtype of Facula has the elements of a DLPack tensor of code %u, %u bits and %u lanes", d.code,
                    d.bits, d.lanes);
}

static fac_status dtype_given(fac_dtype dtype, fac_dl_dtype *out) {
    for (size_t i = 0; i < FAC_COUNT(dtypes); i++)
        if (dtypes[i].dtype == dtype) {
            *out = (fac_dl_dtype){dtypes[i].code, dtypes[i].bits, 1};
            return FAC_OK;
        }
    return FAC_FAIL(FAC_ERR_UNSUPPORTED, "DLPack has no dtype for %s", fac_dtype_name(dtype));
}

static fac_status device_taken(fac_dl_device d, fac_device *out) {
    const bool host = d.type == FAC_DL_CPU || d.type == FAC_DL_CUDA_HOST;
    FAC_CHECK(host || d.type == FAC_DL_CUDA, FAC_ERR_UNSUPPORTED,
              "a DLPack tensor on a device of type %d cannot be taken: Facula knows the CPU and CUDA", d.type);
    *out = fac_device_make(host ? FAC_CPU : FAC_CUDA, host ? -1 : d.id);
    const int n = host ? 1 : fac_device_count(FAC_CUDA);
    FAC_TRY(fac_error());
    FAC_CHECK(host || (d.id >= 0 && d.id < n), FAC_ERR_DEVICE,
              "a DLPack tensor is on CUDA device %d, but there are %d of them", d.id, n);
    return FAC_OK;
}

static fac_status device_given(fac_device d, fac_dl_device *out) {
    FAC_CHECK(d.type == FAC_CPU || d.type == FAC_CUDA, FAC_ERR_UNSUPPORTED, "DLPack has no device for %s",
              fac_device_format(d, (char[24]){0}, 24));
    *out = d.type == FAC_CPU ? (fac_dl_device){FAC_DL_CPU, 0} : (fac_dl_device){FAC_DL_CUDA, d.index_plus - 1};
    return FAC_OK;
}

fac_dl_device fac_dlpack_device(const fac_tensor *t) {
    fac_dl_device d = {0, 0};
    FAC_OPEN(t, "fac_dlpack_device", "t", d);
    return device_given(t->device, &d) == FAC_OK ? d : (fac_dl_device){0, 0};
}

/* ---- giving ----------------------------------------------------------------------------------------------------------------- */

/* What is given, as one block: one of the two structs, and the sizes and strides that it points to. */
typedef struct given {
    union {
        fac_dl_versioned versioned;
        fac_dl_managed managed;
    } u;
    fac_storage *storage; /* counted */
    int64_t dims[];
} given;

static void forget(given *g) {
    fac__storage_unref(g->storage);
    fac__free(g);
}

static void delete_versioned(fac_dl_versioned *self) { forget(self->context); }
static void delete_managed(fac_dl_managed *self) { forget(self->context); }

static fac_status check_given(fac_tensor *t) {
    FAC_CHECK(!fac__requires_grad(t), FAC_ERR_AUTOGRAD,
              "a tensor that requires a gradient cannot be given to another library: give fac_detach of it");
    FAC_CHECK(!fac__pending(t), FAC_ERR_UNSUPPORTED,
              "a tensor whose %s is pending cannot be given to another library: give fac_resolve_%s of it",
              t->flags & FAC_TF_CONJ ? "conjugation" : "negation", t->flags & FAC_TF_CONJ ? "conj" : "neg");
    FAC_CHECK(!t->cls, FAC_ERR_UNSUPPORTED, "a %s tensor has no form in DLPack", t->cls->name);
    FAC_CHECK(t->storage, FAC_ERR_UNSUPPORTED, "a tensor on %s has no elements to give to another library",
              fac_device_format(t->device, (char[24]){0}, 24));
    return FAC_OK;
}

/* The stream that will read waits for what is queued in the current one. */
static fac_status wait_for(fac_device device, fac_opt_int stream) {
    if (device.type != FAC_CUDA || (stream.set && stream.v == -1)) return FAC_OK;
    const int64_t number = stream.set ? stream.v : 1;
    FAC_CHECK(number > 0, FAC_ERR_ARGUMENT, "a stream should be 1, 2, the address of a CUstream, or -1, got %lld",
              (long long)number);
    const fac_stream reader = fac_stream_wrap(device, (void *)(uintptr_t)number), now = fac_current_stream(device);
    FAC_TRY(fac_error());
    return fac_stream_equal(reader, now) ? FAC_OK : fac_stream_wait_stream(reader, now);
}

/* Of a tensor that was checked. */
static fac_status describe(const fac_tensor *t, given *g, fac_dl_tensor *out) {
    const size_t n = t->ndim;
    *out = (fac_dl_tensor){.data = fac__data(t), .ndim = t->ndim, .shape = g->dims, .strides = g->dims + n};
    for (size_t i = 0; i < n; i++) {
        g->dims[i] = t->sizes[i];
        g->dims[n + i] = t->sizes[i] == 1 ? 1 : t->strides[i]; /* as other libraries compare them */
    }
    FAC_TRY(dtype_given((fac_dtype)t->dtype, &out->dtype));
    return device_given(t->device, &out->device);
}

/* t, or a copy of it. Counted. */
static fac_status given_tensor(fac_tensor *t, bool copy, fac_tensor **out) {
    if (copy) return fac__c_clone(t, FAC_PRESERVE, out);
    *out = fac__ref(t);
    return FAC_OK;
}

static given *give(fac_tensor *t, bool copy, fac_opt_int stream, fac_dl_tensor *out) {
    FAC_OPEN(t, "fac_to_dlpack", "t", NULL);
    FAC_TRY_NULL(check_given(t));
    given *g = fac__alloc_zero(sizeof *g + 2 * (size_t)t->ndim * sizeof *g->dims);
    if (!g) return NULL;
    fac_tensor *from = NULL;
    fac_status st = describe(t, g, out); /* before anything is done that cannot fail */
    if (st == FAC_OK) st = given_tensor(t, copy, &from);
    if (st == FAC_OK) st = describe(from, g, out);
    if (st == FAC_OK) st = wait_for(from->device, stream);
    if (st == FAC_OK) {
        g->storage = fac__storage_ref(from->storage);
        g->storage->resizable = false;
    }
    fac__unref(from);
    if (st == FAC_OK) return g;
    fac__free(g);
    return NULL;
}

fac_dl_versioned *(fac_to_dlpack)(fac_tensor *t, const fac_to_dlpack_kw *kw) {
    fac_to_dlpack_kw k;
    fac_dl_tensor tensor;
    FAC_TRY_NULL(fac_error());
    FAC_TRY_NULL(fac__open_to_dlpack_kw(&k, kw));
    given *g = give(t, k.copy, fac__plain_int(k.stream), &tensor);
    if (!g) return NULL;
    g->u.versioned = (fac_dl_versioned){
        .major = MAJOR,
        .minor = MINOR,
        .context = g,
        .deleter = delete_versioned,
        .flags = (k.read_only ? FAC_DL_READ_ONLY : 0u) | (k.copy ? FAC_DL_IS_COPIED : 0u),
        .tensor = tensor,
    };
    return &g->u.versioned;
}

fac_dl_managed *(fac_to_dlpack_unversioned)(fac_tensor *t, const fac_to_dlpack_unversioned_kw *kw) {
    fac_to_dlpack_unversioned_kw k;
    fac_dl_tensor tensor;
    FAC_TRY_NULL(fac_error());
    FAC_TRY_NULL(fac__open_to_dlpack_unversioned_kw(&k, kw));
    given *g = give(t, k.copy, fac__plain_int(k.stream), &tensor);
    if (!g) return NULL;
    g->u.managed = (fac_dl_managed){.tensor = tensor, .context = g, .deleter = delete_managed};
    return &g->u.managed;
}

/* ---- taking ----------------------------------------------------------------------------------------------------------------------- */

/* Elements that the memory must have: one more than the last that sizes and strides lead to. A stride along which there is no
   second element says nothing: NumPy's array of one element turned round has a negative one. */
static fac_status count_elements(const fac_dl_tensor *d, int64_t *out) {
    int64_t last = 0, step;
    *out = 0;
    for (int32_t i = 0; i < d->ndim; i++)
        FAC_CHECK(d->shape[i] >= 0, FAC_ERR_SHAPE, "a DLPack tensor has size %lld in dimension %d",
                  (long long)d->shape[i], i);
    for (int32_t i = 0; i < d->ndim; i++)
        if (d->shape[i] == 0) return FAC_OK;
    for (int32_t i = 0; i < d->ndim; i++)
        FAC_CHECK(!d->strides || d->strides[i] >= 0 || d->shape[i] == 1, FAC_ERR_UNSUPPORTED,
                  "a DLPack tensor has stride %lld in dimension %d, but Facula's are never negative",
                  (long long)d->strides[i], i);
    int64_t row_major = 1;
    for (int32_t i = d->ndim - 1; i >= 0; i--) {
        const int64_t stride = d->strides ? d->strides[i] : row_major;
        FAC_CHECK(fac__mul(d->shape[i] - 1, stride, &step) && fac__add(last, step, &last) &&
                      fac__mul(row_major, d->shape[i], &row_major),
                  FAC_ERR_OVERFLOW, "sizes and strides of a DLPack tensor lead farther than 64 bits count");
    }
    FAC_CHECK(last < INT64_MAX, FAC_ERR_OVERFLOW, "a DLPack tensor has too many elements");
    *out = last + 1;
    return FAC_OK;
}

static fac_status check_taken(const fac_dl_tensor *d) {
    FAC_CHECK(d->ndim >= 0 && d->ndim <= FAC_MAX_DIMS, FAC_ERR_SHAPE,
              "a DLPack tensor has %d dimensions, but at most %d are possible", d->ndim, FAC_MAX_DIMS);
    FAC_CHECK(d->shape || !d->ndim, FAC_ERR_ARGUMENT, "a DLPack tensor of %d dimensions has no sizes", d->ndim);
    FAC_CHECK(d->byte_offset <= INT64_MAX / 2, FAC_ERR_OVERFLOW, "a DLPack tensor begins %llu bytes after its data",
              (unsigned long long)d->byte_offset);
    return FAC_OK;
}

/* Owned, over the memory; nothing is called when it dies. */
static fac_status look_at(const fac_dl_tensor *d, fac_tensor **out) {
    fac_dtype dtype;
    fac_device device;
    int64_t elements, bytes;
    fac_storage *s;
    FAC_TRY(check_taken(d));
    FAC_TRY(dtype_taken(d->dtype, &dtype));
    FAC_TRY(device_taken(d->device, &device));
    FAC_TRY(count_elements(d, &elements));
    FAC_CHECK(fac__mul(elements, fac__dtype_size(dtype), &bytes), FAC_ERR_OVERFLOW,
              "a DLPack tensor of %lld elements of %s has more bytes than 64 bits count", (long long)elements,
              fac_dtype_name(dtype));
    FAC_CHECK(d->data || !elements, FAC_ERR_ARGUMENT, "a DLPack tensor of %lld elements has no data",
              (long long)elements);
    char *first = d->data ? (char *)d->data + d->byte_offset : NULL;
    FAC_TRY(fac__storage_wrap(elements ? first : NULL, bytes, device, NULL, NULL, &s));
    int64_t steps[FAC_MAX_DIMS];
    for (int32_t i = 0; d->strides && i < d->ndim; i++) steps[i] = d->strides[i] < 0 ? 1 : d->strides[i];
    const fac_ints sizes = {d->shape, (size_t)d->ndim},
                   strides = {d->strides ? steps : NULL, d->strides ? (size_t)d->ndim : 0};
    return fac__tensor_over(s, dtype, d->ndim ? sizes : (fac_ints){(int64_t[1]){0}, 0}, strides, 0, out);
}

static fac_tensor *copy_of(fac_tensor *seen, fac_device device) {
    fac_tensor *copy = NULL;
    fac_status st = fac__c_clone(seen, FAC_PRESERVE, &copy);
    if (st == FAC_OK && device.type != FAC_CPU) st = fac_stream_synchronize(fac_current_stream(device));
    fac__unref(seen);
    if (st == FAC_OK) return fac__adopt_handle(fac__thread(), copy);
    fac__unref(copy);
    return NULL;
}

/* The tensor over the memory, or a copy of it; on success m is taken: `release` is called with it when its time has come. */
static fac_tensor *take(const fac_dl_tensor *d, void *m, void (*release)(void *), bool copy) {
    fac_tensor *t;
    FAC_TRY_NULL(look_at(d, &t));
    if (copy) {
        fac_tensor *own = copy_of(t, t->device);
        if (own) release(m);
        return own;
    }
    fac_storage *s = t->storage;
    fac_tensor *handle = fac__adopt_handle(fac__thread(), t);
    if (!handle) return NULL;
    s->release = release;
    s->release_context = m;
    return handle;
}

static void release_versioned(void *m) {
    fac_dl_versioned *v = m;
    if (v->deleter) v->deleter(v);
}

static void release_managed(void *m) {
    fac_dl_managed *v = m;
    if (v->deleter) v->deleter(v);
}

fac_tensor *(fac_from_dlpack)(fac_dl_versioned *m, const fac_from_dlpack_kw *kw) {
    fac_from_dlpack_kw k;
    FAC_TRY_NULL(fac_error());
    FAC_TRY_NULL(fac__open_from_dlpack_kw(&k, kw));
    if (!fac__given(m, "DLPack tensor")) return NULL;
    if (m->major != MAJOR) {
        FAC_FAIL(FAC_ERR_UNSUPPORTED, "a DLPack tensor of version %u.%u was given, but Facula knows versions 1",
                 m->major, m->minor);
        return NULL;
    }
    if (m->flags & FAC_DL_READ_ONLY && !k.copy && !k.read_only) {
        FAC_FAIL(FAC_ERR_UNSUPPORTED,
                 "the memory of a DLPack tensor may not be written: take it with .copy = true, or with "
                 ".read_only = true and write to no tensor over it");
        return NULL;
    }
    return take(&m->tensor, m, release_versioned, k.copy);
}

fac_tensor *(fac_from_dlpack_unversioned)(fac_dl_managed *m, const fac_from_dlpack_unversioned_kw *kw) {
    fac_from_dlpack_unversioned_kw k;
    FAC_TRY_NULL(fac_error());
    FAC_TRY_NULL(fac__open_from_dlpack_unversioned_kw(&k, kw));
    if (!fac__given(m, "DLPack tensor")) return NULL;
    return take(&m->tensor, m, release_managed, k.copy);
}
