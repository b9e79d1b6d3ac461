/* Gradient scaling on the CPU. Gradients are multiplied and looked at in one pass, a list at a time: the elements of all tensors are one
   range, cut by number alone. Factors are applied in float32, or float64 to float64; f16 and bf16 are rounded once. */
#include "backend/cpu/kernels/optim.h"
#include "backend/cpu/kernels/tile.h"
#include "backend/cpu/parallel.h"
#include "iter/nest.h"
#include "ops_gen.h"
#include <math.h>
#include <stdatomic.h>

typedef struct unscale_job {
    fac_tensors list;
    const int64_t *ends; /* of each tensor's elements in the range of all */
    double factor;
    atomic_bool found;
} unscale_job;

static bool scale_tile(const unscale_job *j, void *p, fac_dtype d, int64_t stride, int64_t n) {
    fac_tile_buf tile;
    const bool direct = stride == 1 && (d == FAC_F32 || d == FAC_F64), wide = d == FAC_F64;
    void *at = direct ? p : &tile;
    if (!direct) fac__tile_load(wide ? FAC_ACC_F64 : FAC_ACC_F32, at, p, d, stride, n);
    const bool bad = wide ? FAC_ISA_PICK(fac__scale_and_test_f64)(at, n, j->factor)
                          : FAC_ISA_PICK(fac__scale_and_test_f32)(at, n, (float)j->factor);
    if (!direct) fac__tile_store(wide ? FAC_ACC_F64 : FAC_ACC_F32, at, p, d, stride, n);
    return bad;
}

/* Elements [begin, end) of t, in the order in which it lies. */
static bool scale_some(const unscale_job *j, const fac_tensor *t, int64_t begin, int64_t end) {
    const int64_t *const strides[] = {t->strides};
    const fac_dtype d = (fac_dtype)t->dtype;
    fac_nest nest;
    fac_cursor c;
    bool bad = false;
    fac__nest_build(&nest, t->sizes, t->ndim, UINT64_MAX, 1, strides, false);
    fac__nest_seek(&nest, 1, begin, &c);
    for (int64_t n; begin < end; begin += n) {
        n = fac__min(FAC_TILE, fac__min(end - begin, fac__nest_run(&nest, &c)));
        char *p = (char *)fac__data(t) + c.offset[0] * fac__dtype_size(d);
        bad |= scale_tile(j, p, d, fac__nest_step(&nest, 0), n);
        fac__nest_advance(&nest, 1, n, &c);
    }
    return bad;
}

static fac_status unscale_range(void *ctx, int64_t begin, int64_t end) {
    unscale_job *j = ctx;
    size_t k = 0;
    bool bad = false;
    while (j->ends[k] <= begin) k++;
    for (; begin < end; k++) {
        const int64_t first = k ? j->ends[k - 1] : 0, stop = fac__min(end, j->ends[k]);
        if (begin < stop) bad |= scale_some(j, j->list.v[k], begin - first, stop - first);
        begin = fac__max(begin, stop);
    }
    if (bad) atomic_store_explicit(&j->found, true, memory_order_relaxed);
    return FAC_OK;
}

static fac_status check_single(const char *name, const fac_tensor *t, fac_dtype d) {
    FAC_CHECK(t->numel == 1, FAC_ERR_SHAPE, "%s must be a 1-element tensor, but has sizes %s", name, FAC_SHAPE_TEXT(t));
    FAC_CHECK(t->dtype == d, FAC_ERR_DTYPE, "%s must be a %s tensor, not %s", name, fac_dtype_name(d),
              fac_dtype_name((fac_dtype)t->dtype));
    FAC_CHECK(fac__is_cpu(t), FAC_ERR_DEVICE, "%s is not on the device of the others", name);
    return FAC_OK;
}

/* ends: of each tensor's elements in the range of all. */
static fac_status check_gradients(fac_tensors l, const fac_tensor *found_inf, int64_t *ends) {
    int64_t end = 0;
    for (size_t i = 0; i < l.n; i++) {
        const fac_tensor *t = l.v[i];
        FAC_CHECK(fac_dtype_is_floating((fac_dtype)t->dtype), FAC_ERR_DTYPE, "gradients should be floating, not %s",
                  fac_dtype_name((fac_dtype)t->dtype));
        FAC_CHECK(fac__is_cpu(t), FAC_ERR_DEVICE, "a gradient is not on the device of found_inf");
        FAC_TRY(fac__check_no_overlap(t));
        FAC_CHECK(fac__overlap(t, found_inf) == FAC_OVERLAP_NO, FAC_ERR_ARGUMENT, "found_inf lies in a gradient");
        FAC_CHECK(fac__add(end, t->numel, &end), FAC_ERR_OVERFLOW, "there are too many elements");
        ends[i] = end;
    }
    return FAC_OK;
}

fac_status amp_unscale_cpu(const fac_call_info *c, fac_tensors self, fac_tensor *found_inf, fac_tensor *inv_scale) {
    (void)c;
    FAC_TRY(check_single("found_inf", found_inf, FAC_F32));
    FAC_TRY(check_single("inv_scale", inv_scale, FAC_F32));
    int64_t *ends = fac__alloc_array(self.n + 1, sizeof *ends);
    if (!ends) return fac_error();
    unscale_job j = {.list = self, .ends = ends, .factor = (double)*(const float *)fac__data(inv_scale)};
    fac_status st = check_gradients(self, found_inf, ends);
    if (!st && self.n) st = fac__parallel_for(0, ends[self.n - 1], FAC_GRAIN, unscale_range, &j);
    if (!st && j.found) *(float *)fac__data(found_inf) = 1;
    fac__free(ends);
    return st;
}

fac_status amp_update_scale_cpu(const fac_call_info *c, fac_tensor *self, fac_tensor *growth_tracker,
                                fac_tensor *found_inf, double scale_growth_factor, double scale_backoff_factor,
                                int64_t growth_interval, fac_tensor **out) {
    (void)c;
    FAC_TRY(check_single("current_scale", self, FAC_F32));
    FAC_TRY(check_single("growth_tracker", growth_tracker, FAC_I32));
    FAC_TRY(check_single("found_inf", found_inf, FAC_F32));
    float *scale = fac__data(self);
    int32_t *tracker = fac__data(growth_tracker);
    if (*(const float *)fac__data(found_inf) != 0) {
        *scale = (float)((double)*scale * scale_backoff_factor);
        *tracker = 0;
    } else if ((int64_t)*tracker + 1 == growth_interval) {
        const float grown = (float)((double)*scale * scale_growth_factor);
        if (isfinite(grown)) *scale = grown;
        *tracker = 0;
    } else if (*tracker < INT32_MAX)
        ++*tracker;
    *out = fac__ref(self);
    return FAC_OK;
}
