/* Copying, converting and filling. */
#include "backend/cpu/kernels/items.h"
#include "backend/cpu/pointwise.h"
#include "core/fill.h"
#include "core/tensor_make.h"
#include "ops_gen.h"

/* ---- copying --------------------------------------------------------------------------------------------------------------- */

/* A source that shares the destination's memory in another arrangement is copied aside first. */
static fac_status copy_aside(fac_tensor *dst, fac_tensor *src) {
    fac_tensor *aside;
    FAC_TRY(fac__empty(src->sizes, src->ndim, (fac_dtype)src->dtype, src->device, &aside));
    fac_status st = fac__cpu_copy(aside, src);
    if (st == FAC_OK) st = fac__cpu_copy(dst, aside);
    fac__unref(aside);
    return st;
}

/* Elements side by side are converted from where they lie to where they go. */
static fac_status cast_range(void *ctx, int64_t begin, int64_t end) {
    const fac_iter *it = ctx;
    const int64_t *out = it->nest.stride[0], *in = it->nest.stride[1];
    fac__casts[it->op[0].dtype][it->op[1].dtype](it->op[0].data + begin * *out, 1, it->op[1].data + begin * *in, 1,
                                                 end - begin);
    return FAC_OK;
}

fac_status fac__cpu_copy(fac_tensor *dst, fac_tensor *src) {
    fac_overlap overlap = fac__overlap(dst, src);
    if (overlap == FAC_OVERLAP_PARTIAL || overlap == FAC_OVERLAP_UNKNOWN) return copy_aside(dst, src);
    fac_iter it;
    fac_iter_begin(&it, FAC_ITER_ANY_DTYPE | FAC_ITER_OUT_SHAPE);
    FAC_TRY(fac_iter_out(&it, dst));
    FAC_TRY(fac_iter_in(&it, src));
    FAC_TRY(fac_iter_build(&it));
    size_t item = (size_t)fac__item_size(dst);
    bool streams = it.nest.ndim == 1 && it.nest.count * (int64_t)item >= FAC_STREAM_BYTES;
    if (dst->dtype == src->dtype && !streams)
        return fac__items_copy_nest(&(fac_items_job){&it.nest, item, it.op[0].data, it.op[1].data});
    if (!streams && it.nest.ndim == 1 && it.nest.stride[0][0] == (int64_t)item &&
        it.nest.stride[1][0] == fac__item_size(src))
        return fac__parallel_for(0, it.nest.count, FAC_GRAIN, cast_range, &it);
    const uint8_t want[] = {dst->dtype, dst->dtype};
    return fac__cpu_run(&it, NULL, want, NULL);
}

/* Bytes that are alike, as those of zeros are, are the C library's: past the cache it writes them at twice the speed of stores. */
typedef struct bytes_job {
    char *data, byte;
} bytes_job;

static fac_status set_bytes(void *ctx, int64_t begin, int64_t end) {
    const bytes_job *j = ctx;
    memset(j->data + begin, j->byte, (size_t)(end - begin));
    return FAC_OK;
}

fac_status fac__cpu_fill(fac_tensor *dst, fac_scalar v) {
    const size_t item = (size_t)fac__item_size(dst);
    fac_iter it;
    fac_item16 element = {{0, 0}}; /* of which copies are made */
    fac_iter_begin(&it, FAC_ITER_ANY_DTYPE);
    FAC_TRY(fac_iter_out(&it, dst));
    FAC_TRY(fac_iter_scalar(&it, v));
    FAC_TRY(fac_iter_build(&it));
    fac_iter_number(&it, 1, (fac_dtype)dst->dtype, &element);
    const char *bytes = (const char *)&element;
    if (it.nest.ndim == 1 && it.nest.stride[0][0] == (int64_t)item && memcmp(bytes, bytes + 1, item - 1) == 0) {
        bytes_job j = {it.op[0].data, *bytes};
        return fac__parallel_for(0, it.nest.count * (int64_t)item, FAC_GRAIN * sizeof(float), set_bytes, &j);
    }
    return fac__items_copy_nest(&(fac_items_job){&it.nest, item, it.op[0].data, bytes});
}

/* ---- kernels ------------------------------------------------------------------------------------------------------------------ */

fac_status copy_cpu(const fac_call_info *c, fac_tensor *self, fac_tensor *src, bool non_blocking, fac_tensor **out) {
    (void)c, (void)non_blocking;
    FAC_CHECK(fac__is_cpu(self) && fac__is_cpu(src), FAC_ERR_DEVICE, "expected CPU tensors, got %s and %s",
              fac_device_format(self->device, (char[24]){0}, 24), fac_device_format(src->device, (char[24]){0}, 24));
    FAC_TRY(fac__check_no_overlap(self));
    if (self != src) FAC_TRY(fac__cpu_copy(self, src));
    *out = fac__ref(self);
    return FAC_OK;
}

fac_status zero_cpu(const fac_call_info *c, fac_tensor *self, fac_tensor **out) {
    (void)c;
    FAC_TRY(fac__fill_once(self, fac_scalar_i_(0), fac__cpu_fill));
    *out = fac__ref(self);
    return FAC_OK;
}

fac_status fill_cpu(fac_structured *s, fac_tensor *self, fac_scalar value) {
    (void)self;
    return fac__fill_once(s->out[0], value, fac__cpu_fill);
}

fac_status fill_tensor_cpu(fac_structured *s, fac_tensor *self, fac_tensor *value) {
    (void)self;
    return fac__cpu_copy(s->out[0], value);
}
