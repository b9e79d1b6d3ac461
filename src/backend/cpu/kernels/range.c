/* Numbered contents, the value of one element, and exact equality. Numbers are made in double (int64 for integral
   ranges), each from its own index, so that chunks may run in any order: in tiles that are then converted, or where they belong if the
   dtype is that already. */
#include "backend/cpu/kernels/range.h"
#include "backend/cpu/kernels/items.h"
#include "backend/cpu/kernels/tile.h"
#include "backend/cpu/parallel.h"
#include "backend/cpu/pointwise.h"
#include "core/tensor_make.h"
#include "ops/composite/below.h"
#include "ops_gen.h"
#include <math.h>

typedef struct range_job {
    char *data;
    fac_dtype dtype;
    int64_t stride, item, n;
    bool whole;
    int64_t start_i, step_i; /* arange of integers */
    double start, end, step; /* arange of numbers, linspace */
    bool power;              /* base to the value */
    double base;
} range_job;

/* ---- arange ---------------------------------------------------------------------------------------------------------------- */

static void arange_tile(const range_job *j, int64_t first, int64_t n, void *tile) {
    if (j->whole)
        FAC_ISA_PICK(fac__arange_i64)(tile, first, n, j->start_i, j->step_i);
    else
        FAC_ISA_PICK(fac__arange_f64)(tile, first, n, j->start, j->step);
}

/* ---- linspace: from both ends, so that the last value is exact ---------------------------------------------------------------- */

static void linspace_tile(const range_job *j, int64_t first, int64_t n, void *tile) {
    FAC_ISA_PICK(fac__linspace_f64)(tile, first, n, j->n, j->start, j->end, j->step);
    if (!j->power) return;
    if (j->dtype == FAC_F32 || fac__is_half(j->dtype)) { /* which hide the last bit */
        FAC_ISA_PICK(fac__powers_f64)(tile, n, j->base);
        return;
    }
    double *v = tile;
    for (int64_t i = 0; i < n; i++) v[i] = pow(j->base, v[i]);
}

/* ---- both ----------------------------------------------------------------------------------------------------------------------- */

static void fill_run(const range_job *j, int64_t begin, int64_t end,
                     void (*make)(const range_job *, int64_t, int64_t, void *)) {
    fac_tile_buf tile;
    const bool as_made = j->stride == 1 && j->dtype == (j->whole ? FAC_I64 : FAC_F64);
    for (int64_t i = begin; i < end; i += FAC_TILE) {
        int64_t n = fac__min(FAC_TILE, end - i);
        if (as_made && j->n * j->item < FAC_STREAM_BYTES) {
            make(j, i, n, (void *)(j->data + i * j->item));
            continue;
        }
        make(j, i, n, &tile);
        if (as_made)
            fac__stream_copy(j->data + i * j->item, (const char *)&tile, n * j->item);
        else
            fac__tile_store(j->whole ? FAC_ACC_I64 : FAC_ACC_F64, &tile, j->data + i * j->stride * j->item, j->dtype,
                            j->stride, n);
    }
}

static fac_status arange_run(void *ctx, int64_t begin, int64_t end) {
    fill_run(ctx, begin, end, arange_tile);
    return FAC_OK;
}

static fac_status linspace_run(void *ctx, int64_t begin, int64_t end) {
    fill_run(ctx, begin, end, linspace_tile);
    return FAC_OK;
}

static fac_status start_job(fac_tensor *self, range_job *j) {
    FAC_CHECK(self->ndim == 1, FAC_ERR_SHAPE, "a range fills a vector, not a tensor of sizes %s", FAC_SHAPE_TEXT(self));
    FAC_TRY(fac__check_no_overlap(self));
    j->data = fac__data(self);
    j->dtype = (fac_dtype)self->dtype;
    j->item = fac__dtype_size(j->dtype);
    j->stride = self->strides[0];
    j->n = self->numel;
    return FAC_OK;
}

fac_status arange_cpu_(const fac_call_info *c, fac_tensor *self, fac_scalar start, fac_scalar step, fac_tensor **out) {
    (void)c;
    range_job j = {0};
    FAC_TRY(start_job(self, &j));
    FAC_CHECK(self->dtype != FAC_BOOL && !fac_dtype_is_complex(j.dtype), FAC_ERR_DTYPE, "not implemented for %s",
              fac_dtype_name(j.dtype));
    j.whole = fac_dtype_is_integral(j.dtype, false);
    j.start_i = fac__scalar_i64(start), j.step_i = fac__scalar_i64(step);
    j.start = fac__scalar_f64(start), j.step = fac__scalar_f64(step);
    FAC_TRY(fac__parallel_for(0, j.n, FAC_GRAIN, arange_run, &j));
    *out = fac__ref(self);
    return FAC_OK;
}

fac_status linspace_cpu_(const fac_call_info *c, fac_tensor *self, fac_scalar start, fac_scalar end, fac_opt_num base,
                         fac_tensor **out) {
    (void)c;
    range_job j = {0};
    FAC_TRY(start_job(self, &j));
    j.start = fac__scalar_f64(start), j.end = fac__scalar_f64(end);
    if (fac_dtype_is_integral(j.dtype, true))
        j.start = trunc(j.start), j.end = trunc(j.end); /* the ends are of the dtype */
    j.step = j.n > 1 ? (j.end - j.start) / (double)(j.n - 1) : 0;
    if (j.n == 1) j.end = j.start;
    j.power = base.set;
    if (j.power) j.base = fac__scalar_f64(base.v);
    FAC_TRY(fac__parallel_for(0, j.n, FAC_GRAIN, linspace_run, &j));
    *out = fac__ref(self);
    return FAC_OK;
}

/* ---- one element --------------------------------------------------------------------------------------------------------------------- */

static _Thread_local double complex_item[2]; /* where a complex result points until the thread's next */

static fac_status check_one(const fac_tensor *self) {
    FAC_CHECK(self->numel == 1, FAC_ERR_ARGUMENT, "a Tensor with %lld elements cannot be converted to Scalar",
              (long long)self->numel);
    return FAC_OK;
}

fac_status local_scalar_dense_cpu(const fac_call_info *c, fac_tensor *self, fac_scalar *out) {
    (void)c;
    FAC_TRY(check_one(self));
    *out = fac__load(fac__data(self), (fac_dtype)self->dtype, complex_item);
    return FAC_OK;
}

fac_status local_scalar_dense_meta(const fac_call_info *c, fac_tensor *self, fac_scalar *out) {
    (void)c, (void)out;
    FAC_TRY(check_one(self));
    return FAC_FAIL(FAC_ERR_STATE, "Tensor.item() cannot be called on meta tensors, which have no data");
}

/* ---- equality ----------------------------------------------------------------------------------------------------------------------------- */

static bool equal_tiles(fac_acc kind, const fac_tile_buf *x, const fac_tile_buf *y, int64_t n) {
    bool same = true;
    if (kind == FAC_ACC_F32)
        for (int64_t i = 0; i < n; i++) same &= x->f32[i] == y->f32[i];
    else if (kind == FAC_ACC_C128)
        for (int64_t i = 0; i < 2 * n; i++) same &= x->c128[i] == y->c128[i];
    else
        for (int64_t i = 0; i < n; i++) same &= x->f64[i] == y->f64[i];
    return same;
}

static bool equal_values(const void *a, const void *b, fac_dtype d, int64_t n) {
    if (fac_dtype_is_integral(d, true)) return memcmp(a, b, (size_t)n * fac__dtype_size(d)) == 0;
    int64_t item = fac__dtype_size(d);
    fac_acc kind = fac__acc_of(d);
    fac_tile_buf x, y;
    for (int64_t i = 0; i < n; i += FAC_TILE) {
        int64_t m = fac__min(FAC_TILE, n - i);
        fac__tile_load(kind, &x, (const char *)a + i * item, d, 1, m);
        fac__tile_load(kind, &y, (const char *)b + i * item, d, 1, m);
        if (!equal_tiles(kind, &x, &y, m)) return false;
    }
    return true;
}

/* Owned row-major copy in dtype d, or another reference to t if it is that already. */
static fac_status as_rows(fac_tensor *t, fac_dtype d, fac_tensor **out) {
    if (t->dtype == d) return fac__cpu_contiguous(t, out);
    FAC_TRY(fac__empty(t->sizes, t->ndim, d, t->device, out));
    fac_status st = fac__copy_below(*out, t);
    if (st != FAC_OK) fac__unref(*out);
    return st;
}

/* Whether a few elements tell two tensors of equal sizes apart: those that do are seldom worth copying. */
static bool starts_differ(const fac_tensor *a, const fac_tensor *b, fac_dtype common) {
    enum { FEW = 64 };
    const int last = a->ndim - 1;
    const fac_acc kind = fac_dtype_is_integral(common, true) ? FAC_ACC_I64 : fac__acc_of(common);
    const int64_t n = last < 0 ? 1 : fac__min(a->sizes[last], FEW);
    fac_tile_buf x, y;
    if (a->numel == 0) return false;
    fac__tile_load_as(kind, &x, fac__data(a), (fac_dtype)a->dtype, last < 0 ? 1 : a->strides[last], n, common);
    fac__tile_load_as(kind, &y, fac__data(b), (fac_dtype)b->dtype, last < 0 ? 1 : b->strides[last], n, common);
    return kind == FAC_ACC_I64 ? memcmp(&x, &y, (size_t)n * sizeof(int64_t)) != 0 : !equal_tiles(kind, &x, &y, n);
}

fac_status equal_cpu(const fac_call_info *c, fac_tensor *self, fac_tensor *other, bool *out) {
    (void)c;
    FAC_CHECK(fac_device_equal(self->device, other->device), FAC_ERR_DEVICE, "Expected both tensors on the CPU");
    *out = false;
    if (!fac__same_sizes(self, other)) return FAC_OK;
    fac_dtype common = fac_promote_types((fac_dtype)self->dtype, (fac_dtype)other->dtype);
    if (starts_differ(self, other, common)) return FAC_OK;
    fac_tensor *a = NULL, *b = NULL;
    FAC_TRY(as_rows(self, common, &a));
    fac_status st = as_rows(other, common, &b);
    if (st == FAC_OK) {
        *out = a->numel == 0 || equal_values(fac__data(a), fac__data(b), common, a->numel);
        fac__unref(b);
    }
    fac__unref(a);
    return st;
}

fac_status equal_meta(const fac_call_info *c, fac_tensor *self, fac_tensor *other, bool *out) {
    (void)c, (void)self, (void)other, (void)out;
    return FAC_FAIL(FAC_ERR_STATE, "it cannot be called on meta tensors, which have no data");
}
