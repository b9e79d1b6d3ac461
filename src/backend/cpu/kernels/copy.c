/* Copying, converting and filling. A copy that only permutes two dimensions goes by square blocks, so that both sides are
   read and written by whole cache lines. */
#include "backend/cpu/pointwise.h"
#include "ops_gen.h"

#define BLOCK 16       /* elements a side: 16 lines of 64 bytes for 4-byte elements */
#define BLOCKS_ROWS 64 /* rows of blocks' edge per parallel chunk */

/* ---- transposing --------------------------------------------------------------------------------------------------------- */

/* dst[i][j] = src[j][i]: dst runs along i by dst_stride bytes and is contiguous in j; src the other way round. */
typedef struct transpose {
    char *dst;
    const char *src;
    int64_t rows, cols, dst_stride, src_stride, item;
} transpose;

#define TRANSPOSE_BLOCK(T)                                                                                  \
    static void block_##T(const transpose *t, int64_t i0, int64_t i1, int64_t j0, int64_t j1) {             \
        for (int64_t i = i0; i < i1; i++) {                                                                 \
            T *dst = (T *)(void *)(t->dst + i * t->dst_stride);                                             \
            const char *src = t->src + i * (int64_t)sizeof(T);                                              \
            for (int64_t j = j0; j < j1; j++) dst[j] = *(const T *)(const void *)(src + j * t->src_stride); \
        }                                                                                                   \
    }
TRANSPOSE_BLOCK(uint8_t)
TRANSPOSE_BLOCK(uint16_t)
TRANSPOSE_BLOCK(uint32_t)
TRANSPOSE_BLOCK(uint64_t)

static fac_status transpose_rows(void *ctx, int64_t begin, int64_t end) {
    const transpose *t = ctx;
    for (int64_t i = begin; i < end; i += BLOCK) {
        int64_t i1 = fac__min(i + BLOCK, end);
        for (int64_t j = 0; j < t->cols; j += BLOCK) {
            int64_t j1 = fac__min(j + BLOCK, t->cols);
            switch (t->item) {
            case 1: block_uint8_t(t, i, i1, j, j1); break;
            case 2: block_uint16_t(t, i, i1, j, j1); break;
            case 4: block_uint32_t(t, i, i1, j, j1); break;
            default: block_uint64_t(t, i, i1, j, j1); break;
            }
        }
    }
    return FAC_OK;
}

/* True if it was a transposition of two dimensions and has been done. */
static bool copy_transposed(const fac_iter *it) {
    int64_t item = (int64_t)fac_dtype_size((fac_dtype)it->op[0].dtype);
    bool fits = it->ndim == 2 && it->op[0].dtype == it->op[1].dtype && item <= 8 && it->shape[0] >= BLOCK &&
                it->shape[1] >= BLOCK && it->strides[0][0] == item && it->strides[1][1] == item;
    if (!fits) return false;
    transpose t = {it->op[0].data,    it->op[1].data,    it->shape[1], it->shape[0],
                   it->strides[0][1], it->strides[1][0], item};
    return fac__parallel_for(0, t.rows, BLOCKS_ROWS, transpose_rows, &t) == FAC_OK;
}

/* ---- copying --------------------------------------------------------------------------------------------------------------- */

static fac_status copy_flat(void *ctx, int64_t begin, int64_t end) {
    const fac_iter *it = ctx;
    int64_t item = (int64_t)fac_dtype_size((fac_dtype)it->op[0].dtype);
    memcpy(it->op[0].data + begin * item, it->op[1].data + begin * item, (size_t)((end - begin) * item));
    return FAC_OK;
}

static bool is_plain_copy(const fac_iter *it) {
    int64_t item = (int64_t)fac_dtype_size((fac_dtype)it->op[0].dtype);
    return it->flat && it->op[0].dtype == it->op[1].dtype && it->strides[0][0] == item && it->strides[1][0] == item;
}

/* A source that shares the destination's memory in another arrangement is copied aside first. */
static fac_status copy_aside(fac_tensor *dst, fac_tensor *src) {
    fac_tensor *aside;
    FAC_TRY(fac__empty(src->sizes, src->ndim, (fac_dtype)src->dtype, src->device, &aside));
    fac_status st = fac__cpu_copy(aside, src);
    if (st == FAC_OK) st = fac__cpu_copy(dst, aside);
    fac__unref(aside);
    return st;
}

fac_status fac__cpu_copy(fac_tensor *dst, fac_tensor *src) {
    fac_overlap overlap = fac__overlap(dst, src);
    if (overlap == FAC_OVERLAP_PARTIAL || overlap == FAC_OVERLAP_UNKNOWN) return copy_aside(dst, src);
    fac_iter it;
    fac_iter_begin(&it, FAC_ITER_ANY_DTYPE | FAC_ITER_OUT_SHAPE);
    FAC_TRY(fac_iter_out(&it, dst));
    FAC_TRY(fac_iter_in(&it, src));
    FAC_TRY(fac_iter_build(&it));
    if (is_plain_copy(&it)) {
        if (it.numel <= FAC_GRAIN) return copy_flat(&it, 0, it.numel);
        int64_t bytes = it.numel * (int64_t)fac_dtype_size((fac_dtype)dst->dtype);
        if (bytes < FAC_STREAM_BYTES) return fac__parallel_for(0, it.numel, 4 * FAC_GRAIN, copy_flat, &it);
    }
    if (copy_transposed(&it)) return FAC_OK;
    const uint8_t want[] = {dst->dtype, dst->dtype};
    return fac__cpu_run(&it, NULL, want, NULL);
}

fac_status fac__cpu_fill(fac_tensor *dst, fac_scalar v) {
    fac_iter it;
    fac_iter_begin(&it, FAC_ITER_ANY_DTYPE);
    FAC_TRY(fac_iter_out(&it, dst));
    FAC_TRY(fac_iter_scalar(&it, v));
    FAC_TRY(fac_iter_build(&it));
    const uint8_t want[] = {dst->dtype, dst->dtype};
    return fac__cpu_run(&it, NULL, want, NULL);
}

/* ---- kernels ------------------------------------------------------------------------------------------------------------------ */

static fac_status check_written(const fac_tensor *t) {
    FAC_CHECK(
        !fac__has_internal_overlap(t), FAC_ERR_ARGUMENT,
        "unsupported operation: more than one element of the written-to tensor refers to a single memory location. "
        "Please clone() the tensor before performing the operation.");
    return FAC_OK;
}

fac_status copy_cpu(const fac_call_info *c, fac_tensor *self, fac_tensor *src, bool non_blocking, fac_tensor **out) {
    (void)c, (void)non_blocking;
    FAC_CHECK(fac__is_cpu(self) && fac__is_cpu(src), FAC_ERR_DEVICE, "copy_: expected CPU tensors, got %s and %s",
              fac_device_format(self->device, (char[24]){0}, 24), fac_device_format(src->device, (char[24]){0}, 24));
    FAC_TRY(check_written(self));
    if (self != src) FAC_TRY(fac__cpu_copy(self, src));
    *out = fac__ref(self);
    return FAC_OK;
}

fac_status zero_cpu(const fac_call_info *c, fac_tensor *self, fac_tensor **out) {
    (void)c;
    FAC_TRY(check_written(self));
    FAC_TRY(fac__cpu_fill(self, fac_scalar_i_(0)));
    *out = fac__ref(self);
    return FAC_OK;
}

fac_status fill_cpu(fac_structured *s, fac_tensor *self, fac_scalar value) {
    (void)self;
    return fac__cpu_fill(s->out[0], value);
}

fac_status fill_tensor_cpu(fac_structured *s, fac_tensor *self, fac_tensor *value) {
    (void)self;
    return fac__cpu_copy(s->out[0], value);
}
