/* Fake quantisation: x -> (clamp(round(x / scale + zero_point)) - zero_point) * scale, and where nothing was clamped. One pass over
   runs of one channel, in tiles of float (double for f64); the reciprocal of the scale is taken once, as in PyTorch. */
#include "backend/cpu/kernels/items.h"
#include "backend/cpu/kernels/tile.h"
#include "backend/cpu/parallel.h"
#include "ops_gen.h"
#include <math.h>

typedef struct quantize_job {
    const char *x;
    char *out;
    uint8_t *mask;
    fac_dtype dtype;
    int64_t run, channels; /* elements of a channel that lie together; how many channels there are */
    const double *scale, *zero_point;
    double low, high;
} quantize_job;

/* Integral zero points are added to the rounded number, others before it is rounded. */
#define TILE(name, T, RINT)                                                                                \
    static void name(const quantize_job *j, int64_t channel, const T *x, T *y, uint8_t *mask, int64_t n) { \
        const T scale = (T)j->scale[channel], inverse = 1 / scale, zero = (T)j->zero_point[channel];       \
        const T low = (T)j->low, high = (T)j->high, whole = RINT(zero), part = zero - whole;               \
        for (int64_t i = 0; i < n; i++) {                                                                  \
            const T q = RINT(x[i] * inverse + part) + whole, held = q < low ? low : q > high ? high : q;   \
            y[i] = (held - zero) * scale;                                                                  \
            mask[i] = q >= low && q <= high;                                                               \
        }                                                                                                  \
    }
TILE(tile_f32, float, rintf)
TILE(tile_f64, double, rint)

static void quantize_run(const quantize_job *j, int64_t channel, int64_t at, int64_t n) {
    fac_tile_buf x, y;
    const int64_t bytes = at * fac__dtype_size(j->dtype);
    const fac_acc kind = j->dtype == FAC_F64 ? FAC_ACC_F64 : FAC_ACC_F32;
    fac__tile_load(kind, &x, j->x + bytes, j->dtype, 1, n);
    if (kind == FAC_ACC_F64)
        tile_f64(j, channel, x.f64, y.f64, j->mask + at, n);
    else
        tile_f32(j, channel, x.f32, y.f32, j->mask + at, n);
    fac__tile_store(kind, &y, j->out + bytes, j->dtype, 1, n);
}

static fac_status quantize_range(void *ctx, int64_t begin, int64_t end) {
    const quantize_job *j = ctx;
    for (int64_t i = begin, n; i < end; i += n) {
        n = fac__min(fac__min(FAC_TILE, end - i), j->run - i % j->run);
        quantize_run(j, i / j->run % j->channels, i, n);
    }
    return FAC_OK;
}

static fac_status quantize(const fac_structured *s, fac_tensor *self, quantize_job *j) {
    fac_tensor *rows;
    if (self->numel == 0) return FAC_OK;
    FAC_TRY(fac__cpu_contiguous(self, &rows));
    j->x = fac__data(rows);
    j->out = fac__data(s->out[0]);
    j->mask = fac__data(s->out[1]);
    j->dtype = (fac_dtype)self->dtype;
    fac_status st = fac__parallel_for(0, self->numel, FAC_GRAIN, quantize_range, j);
    fac__unref(rows);
    return st;
}

fac_status fake_quantize_per_tensor_cpu(fac_structured *s, fac_tensor *self, double scale, int64_t zero_point,
                                        int64_t quant_min, int64_t quant_max) {
    const double zero = (double)zero_point;
    quantize_job j = {.run = fac__max(1, self->numel), .channels = 1, .scale = &scale, .zero_point = &zero};
    j.low = (double)quant_min, j.high = (double)quant_max;
    return quantize(s, self, &j);
}

static double number(const fac_tensor *t, int64_t i) {
    double v;
    const fac_dtype d = (fac_dtype)t->dtype;
    const int64_t step = t->ndim ? t->strides[0] : 0;
    fac__tile_load(FAC_ACC_F64, &v, (const char *)fac__data(t) + i * step * fac__dtype_size(d), d, 1, 1);
    return v;
}

static fac_status check_zero_point(double zero, double low, double high) {
    FAC_CHECK(zero >= low && zero <= high, FAC_ERR_ARGUMENT,
              "`zero_point` must be between `quant_min` and `quant_max`, got %g", zero);
    return FAC_OK;
}

fac_status fake_quantize_qparams_cpu(fac_structured *s, fac_tensor *self, fac_tensor *scale, fac_tensor *zero_point,
                                     fac_tensor *fake_quant_enabled, int64_t quant_min, int64_t quant_max) {
    const double by = number(scale, 0), zero = number(zero_point, 0);
    if (number(fake_quant_enabled, 0) == 0) {
        FAC_TRY(fac__cpu_copy(s->out[0], self));
        return fac__cpu_fill(s->out[1], fac_scalar_b_(true));
    }
    FAC_TRY(check_zero_point(zero, (double)quant_min, (double)quant_max));
    quantize_job j = {.run = fac__max(1, self->numel), .channels = 1, .scale = &by, .zero_point = &zero};
    j.low = (double)quant_min, j.high = (double)quant_max;
    return quantize(s, self, &j);
}

fac_status fake_quantize_per_channel_cpu(fac_structured *s, fac_tensor *self, fac_tensor *scale, fac_tensor *zero_point,
                                         int64_t axis, int64_t quant_min, int64_t quant_max) {
    const int64_t channels = self->sizes[axis];
    if (self->numel == 0) return FAC_OK;
    double *numbers = fac__alloc_array((size_t)channels + 1, 2 * sizeof *numbers);
    if (!numbers) return fac_error();
    fac_status st = FAC_OK;
    quantize_job j = {.run = 1, .channels = channels, .scale = numbers, .zero_point = numbers + channels};
    j.low = (double)quant_min, j.high = (double)quant_max;
    for (int d = (int)axis + 1; d < self->ndim; d++) j.run *= self->sizes[d];
    for (int64_t i = 0; i < channels && st == FAC_OK; i++) {
        numbers[i] = number(scale, i);
        numbers[channels + i] = number(zero_point, i);
        st = check_zero_point(numbers[channels + i], j.low, j.high);
    }
    if (st == FAC_OK) st = quantize(s, self, &j);
    fac__free(numbers);
    return st;
}
