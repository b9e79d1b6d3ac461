/* Pooling that is undone: elements put back among zeros, a plane at a time and in order. And maxima over windows whose places are
   drawn (Graham 2014, "Fractional max-pooling", pseudorandom sequences): the first of equal elements wins, of NaN the last. */
#include "ops/unpool.h"
#include "backend/cpu/kernels/items.h"
#include "backend/cpu/kernels/tile.h"
#include "backend/cpu/parallel.h"
#include "ops/format.h"
#include "ops_gen.h"

/* ---- undone ------------------------------------------------------------------------------------------------------------------------ */

typedef struct unpool_job {
    size_t item;
    int64_t in_count, out_count; /* elements of a plane */
    const int64_t *indices;
    const char *from;
    char *to;
    int64_t channels; /* innermost; 1: planes */
} unpool_job;

/* Before anything is written. */
static fac_status check_indices(void *ctx, int64_t begin, int64_t end) {
    const unpool_job *j = ctx;
    for (int64_t i = begin; i < end; i++)
        FAC_CHECK(j->indices[i] >= 0 && j->indices[i] < j->out_count, FAC_ERR_INDEX,
                  "Found an invalid max index: %lld (output volumes are of %lld elements)", (long long)j->indices[i],
                  (long long)j->out_count);
    return FAC_OK;
}

static fac_status unpool_planes(void *ctx, int64_t begin, int64_t end) {
    const unpool_job *j = ctx;
    for (int64_t p = begin; p < end; p++) {
        const int64_t *indices = j->indices + p * j->in_count;
        const char *from = j->from + (size_t)(p * j->in_count) * j->item;
        char *to = j->to + (size_t)(p * j->out_count) * j->item;
        memset(to, 0, (size_t)j->out_count * j->item);
#define PUT(T) \
    for (int64_t i = 0; i < j->in_count; i++) ((T *)to)[indices[i]] = ((const T *)from)[i]
        FAC_ITEM_SWITCH(j->item, PUT)
#undef PUT
    }
    return FAC_OK;
}

enum { CHANNELS = 64 }; /* per task, where they are innermost */

/* A block of channels of one image. */
static void unpool_block(const unpool_job *j, int64_t image, int64_t channel, int64_t n) {
    const int64_t at = image * j->in_count * j->channels + channel;
    const int64_t *indices = j->indices + at;
    const char *from = j->from + (size_t)at * j->item;
    char *to = j->to + (size_t)(image * j->out_count * j->channels + channel) * j->item;
    for (int64_t o = 0; o < j->out_count; o++) memset(to + (size_t)(o * j->channels) * j->item, 0, (size_t)n * j->item);
#define PUT(T)                                                           \
    for (int64_t i = 0; i < j->in_count * j->channels; i += j->channels) \
        for (int64_t c = 0; c < n; c++) ((T *)to)[indices[i + c] * j->channels + c] = ((const T *)from)[i + c]
    FAC_ITEM_SWITCH(j->item, PUT)
#undef PUT
}

static fac_status unpool_images(void *ctx, int64_t begin, int64_t end) {
    const unpool_job *j = ctx;
    const int64_t blocks = fac__div_up(j->channels, CHANNELS);
    for (int64_t t = begin; t < end; t++) {
        const int64_t c = t % blocks * CHANNELS;
        unpool_block(j, t / blocks, c, fac__min(CHANNELS, j->channels - c));
    }
    return FAC_OK;
}

static fac_status run_unpool(unpool_job *j, int64_t planes, int64_t indices) {
    FAC_TRY(fac__parallel_for(0, indices, FAC_GRAIN, check_indices, j));
    if (j->channels > 1) {
        const int64_t tasks = planes / j->channels * fac__div_up(j->channels, CHANNELS);
        return fac__parallel_for(0, tasks, fac__grain(FAC_GRAIN, CHANNELS * (j->in_count + j->out_count)),
                                 unpool_images, j);
    }
    return fac__parallel_for(0, planes, fac__grain(FAC_GRAIN, j->in_count + j->out_count), unpool_planes, j);
}

static fac_status unpool(fac_structured *s, int nd, fac_tensor *self, fac_tensor *indices) {
    unpool_job j = {.item = fac__dtype_size((fac_dtype)self->dtype), .in_count = 1, .out_count = 1};
    fac_tensor *from = NULL, *places = NULL;
    int64_t planes = 1;
    if (self->numel == 0) return FAC_OK; /* the batch is empty, and with it the result */
    for (int d = 0; d < self->ndim - nd; d++) planes *= self->sizes[d];
    for (int d = self->ndim - nd; d < self->ndim; d++) j.in_count *= self->sizes[d], j.out_count *= s->out[0]->sizes[d];
    const fac_memory_format f = nd == 2 ? fac__format_of(self) : FAC_CONTIGUOUS;
    j.channels = fac__is_channels_last(f) ? self->sizes[1] : 1;
    fac_status st = fac__in_format_below(self, f, &from);
    if (st == FAC_OK) st = fac__in_format_below(indices, f, &places);
    fac_rowmajor out;
    if (st == FAC_OK && (st = fac__formatted_begin(s->out[0], f, &out)) == FAC_OK) {
        j.from = fac__data(from), j.indices = fac__data(places), j.to = fac__data(out.t);
        st = fac__rowmajor_end(&out, run_unpool(&j, planes, places->numel));
    }
    fac__unref(from);
    fac__unref(places);
    return st;
}

fac_status max_unpool2d_cpu(fac_structured *s, fac_tensor *self, fac_tensor *indices, fac_ints output_size) {
    (void)output_size;
    return unpool(s, 2, self, indices);
}

fac_status max_unpool3d_cpu(fac_structured *s, fac_tensor *self, fac_tensor *indices, fac_ints output_size,
                            fac_ints stride, fac_ints padding) {
    (void)output_size, (void)stride, (void)padding;
    return unpool(s, 3, self, indices);
}

/* ---- drawn ------------------------------------------------------------------------------------------------------------------------ */

typedef struct drawn_job {
    fac_drawn_pool p;
    fac_dtype dtype;
    int64_t in_count, out_count;
    const char *from, *samples;
    char *to;
    int64_t *indices;
} drawn_job;

/* x as the input's type holds it: steps are computed in that, as it decides where windows begin. */
static double held(const drawn_job *j, double x) {
    switch (j->dtype) {
    case FAC_F16: return (double)fac__f16_to_f32(fac__f32_to_f16((float)x));
    case FAC_BF16: return (double)fac__bf16_to_f32(fac__f32_to_bf16((float)x));
    case FAC_F32: return (double)(float)x;
    default: return x;
    }
}

static int64_t cut(double x) { return x >= 0 && x < 0x1p62 ? (int64_t)x : 0; }

/* Where the windows along dimension d begin, for a sample in [0, 1); others are kept inside all the same. */
static void draw_windows(const drawn_job *j, int d, double sample, int64_t *begin) {
    const int64_t n = j->p.out[d], last = j->p.in[d] - j->p.kernel[d];
    const double step = n > 1 ? held(j, held(j, (double)last) / held(j, (double)(n - 1))) : 0;
    const int64_t first = cut(held(j, sample * step));
    for (int64_t i = 0; i + 1 < n; i++)
        begin[i] = fac__max(0, fac__min(last, cut(held(j, held(j, held(j, (double)i) + sample) * step)) - first));
    begin[n - 1] = last;
}

#define SAME(x) (x)
#define WINDOW_MAX(SUF, E, T, GET)                                                                          \
    /* The place of the greatest element of the window that begins at z, y, x. */                           \
    static int64_t max_##SUF(const fac_drawn_pool *p, const void *plane, int64_t z, int64_t y, int64_t x) { \
        const E *from = plane;                                                                              \
        int64_t best = (z * p->in[1] + y) * p->in[2] + x;                                                   \
        T top = GET(from[best]);                                                                            \
        for (int64_t a = z; a < z + p->kernel[0]; a++)                                                      \
            for (int64_t b = y; b < y + p->kernel[1]; b++)                                                  \
                for (int64_t c = x; c < x + p->kernel[2]; c++) {                                            \
                    const int64_t at = (a * p->in[1] + b) * p->in[2] + c;                                   \
                    const T v = GET(from[at]);                                                              \
                    const bool take = (v > top) | (v != v);                                                 \
                    top = take ? v : top;                                                                   \
                    best = take ? at : best;                                                                \
                }                                                                                           \
        return best;                                                                                        \
    }
WINDOW_MAX(f16, uint16_t, float, fac__f16_to_f32)
WINDOW_MAX(bf16, uint16_t, float, fac__bf16_to_f32)
WINDOW_MAX(f32, float, float, SAME)
WINDOW_MAX(f64, double, double, SAME)

typedef int64_t (*window_max)(const fac_drawn_pool *p, const void *plane, int64_t z, int64_t y, int64_t x);

static window_max max_of(fac_dtype d) {
    return d == FAC_F16 ? max_f16 : d == FAC_BF16 ? max_bf16 : d == FAC_F64 ? max_f64 : max_f32;
}

/* The first sample of a plane is for the last dimension in two dimensions, and for the first in three. */
static int sample_of(const fac_drawn_pool *p, int d) { return p->nd == 2 ? 2 - d : d; }

static void drawn_plane(const drawn_job *j, int64_t plane, int64_t *const *begin) {
    const fac_drawn_pool *p = &j->p;
    const size_t item = fac__dtype_size(j->dtype);
    const char *from = j->from + (size_t)(plane * j->in_count) * item;
    const window_max best = max_of(j->dtype);
    int64_t *indices = j->indices + plane * j->out_count;
    for (int64_t z = 0; z < p->out[0]; z++)
        for (int64_t y = 0; y < p->out[1]; y++)
            for (int64_t x = 0; x < p->out[2]; x++) *indices++ = best(p, from, begin[0][z], begin[1][y], begin[2][x]);
    indices -= j->out_count;
#define TAKE(T)                                \
    for (int64_t o = 0; o < j->out_count; o++) \
    ((T *)(void *)j->to)[plane * j->out_count + o] = ((const T *)(const void *)from)[indices[o]]
    FAC_ITEM_SWITCH(item, TAKE)
#undef TAKE
}

static fac_status drawn_planes(void *ctx, int64_t first, int64_t end, void *scratch) {
    const drawn_job *j = ctx;
    const fac_drawn_pool *p = &j->p;
    const size_t item = fac__dtype_size(j->dtype);
    int64_t *begin[FAC_UNPOOL_DIMS] = {scratch};
    for (int d = 1; d < FAC_UNPOOL_DIMS; d++) begin[d] = begin[d - 1] + p->out[d - 1];
    begin[0][0] = 0; /* of a dimension that is not there */
    for (int64_t plane = first; plane < end; plane++) {
        for (int d = FAC_UNPOOL_DIMS - p->nd; d < FAC_UNPOOL_DIMS; d++) {
            double sample;
            fac__tile_load(FAC_ACC_F64, &sample, j->samples + (size_t)(plane * p->nd + sample_of(p, d)) * item,
                           j->dtype, 1, 1);
            draw_windows(j, d, sample, begin[d]);
        }
        drawn_plane(j, plane, begin);
    }
    return FAC_OK;
}

static fac_status run_drawn(fac_structured *s, fac_tensor *self, fac_tensor *samples, drawn_job *j) {
    fac_rowmajor out, indices;
    FAC_TRY(fac__rowmajor_begin(s->out[0], false, &out));
    fac_status st = fac__rowmajor_begin(s->out[1], false, &indices);
    if (st == FAC_OK) {
        const fac_drawn_pool *p = &j->p;
        j->from = fac__data(self), j->samples = fac__data(samples), j->to = fac__data(out.t),
        j->indices = fac__data(indices.t);
        const int64_t window = p->kernel[0] * p->kernel[1] * p->kernel[2];
        st = fac__parallel_for_scratch(0, p->planes, fac__grain(FAC_GRAIN, fac__mul_or_max(j->out_count, window)),
                                       (p->out[0] + p->out[1] + p->out[2]) * (int64_t)sizeof(int64_t), drawn_planes, j);
        st = fac__rowmajor_end(&indices, st);
    }
    return fac__rowmajor_end(&out, st);
}

static fac_status drawn(fac_structured *s, int nd, fac_tensor *self, fac_ints kernel, fac_ints size,
                        fac_tensor *samples) {
    drawn_job j = {.dtype = (fac_dtype)self->dtype, .in_count = 1, .out_count = 1};
    fac_tensor *from = NULL, *drawn_at = NULL;
    FAC_TRY(fac__drawn_pool_plan(nd, self, kernel, size, samples, &j.p));
    if (s->out[0]->numel == 0) return FAC_OK;
    for (int d = 0; d < FAC_UNPOOL_DIMS; d++) j.in_count *= j.p.in[d], j.out_count *= j.p.out[d];
    fac_status st = fac__cpu_contiguous(self, &from);
    if (st == FAC_OK) st = fac__cpu_contiguous(samples, &drawn_at);
    if (st == FAC_OK) st = run_drawn(s, from, drawn_at, &j);
    fac__unref(from);
    fac__unref(drawn_at);
    return st;
}

#define DRAWN_CPU(n)                                                                                    \
    fac_status fractional_max_pool##n##d_cpu(fac_structured *s, fac_tensor *self, fac_ints kernel_size, \
                                             fac_ints output_size, fac_tensor *random_samples) {        \
        return drawn(s, n, self, kernel_size, output_size, random_samples);                             \
    }
DRAWN_CPU(2)
DRAWN_CPU(3)
