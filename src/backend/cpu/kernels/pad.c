/* Mirrored and replicated borders. For each of the last three dimensions a map says which input index each output index
   shows. Forward copies rows, the inside of a row in one piece. Backward adds gradients up per plane in the accumulation
   type, row by row in order, so that the result does not depend on the number of threads. Where the channels are innermost, an
   image is a plane whose elements are points, of all channels forward and of a block of them backward. */
#include "backend/cpu/kernels/items.h"
#include "backend/cpu/kernels/tile.h"
#include "backend/cpu/parallel.h"
#include "ops/format.h"
#include "ops_gen.h"

typedef struct border {
    int64_t planes;           /* batch * channels, or batch */
    int64_t channels;         /* of a point; 1 in a plane */
    int64_t in[3], out[3];    /* depth, height, width; 1 where there are fewer dimensions */
    int64_t *map[3];          /* output index -> input index; one block, at map[0] */
    int64_t inner, inner_end; /* output columns that show consecutive input columns */
} border;

/* Where output index j looks, for n inputs and `before` in front of them. */
static int64_t mirrored(int64_t j, int64_t before, int64_t n) {
    int64_t i = j - before;
    return i < 0 ? -i : i < n ? i : 2 * (n - 1) - i;
}
static int64_t replicated(int64_t j, int64_t before, int64_t n) {
    int64_t i;
    if (!fac__sub(j, before, &i)) return n - 1; /* a cut of nearly 2^63 columns, beside as large a border */
    return fac__max(0, fac__min(i, n - 1));
}

/* self is the tensor without the border. */
static fac_status border_begin(border *b, const fac_tensor *self, fac_memory_format f, fac_ints padding, bool mirror) {
    int dims = (int)padding.n / 2;
    int64_t before[3] = {0, 0, 0}, total = 0;
    b->planes = 1;
    b->channels = fac__is_channels_last(f) ? self->sizes[1] : 1;
    for (int k = 0; k < 3; k++) b->in[k] = b->out[k] = 1;
    for (int d = 0; d < self->ndim - dims; d++) b->planes = fac__mul_or_max(b->planes, self->sizes[d]);
    b->planes /= b->channels;
    for (int k = 0; k < dims; k++) {
        before[2 - k] = padding.v[2 * k];
        b->in[2 - k] = self->sizes[self->ndim - 1 - k];
        b->out[2 - k] = b->in[2 - k] + (padding.v[2 * k] + padding.v[2 * k + 1]); /* which cancel if they are large */
    }
    for (int k = 0; k < 3; k++) total += b->out[k];
    b->map[0] = fac__alloc_array((size_t)total, sizeof(int64_t));
    if (!b->map[0]) return fac_error();
    for (int k = 0; k < 3; k++) {
        if (k) b->map[k] = b->map[k - 1] + b->out[k - 1];
        for (int64_t j = 0; j < b->out[k]; j++)
            b->map[k][j] = mirror ? mirrored(j, before[k], b->in[k]) : replicated(j, before[k], b->in[k]);
    }
    b->inner = fac__min(fac__max(0, before[2]), b->out[2]);
    b->inner_end = fac__max(b->inner, fac__min(b->out[2], fac__min(before[2], b->out[2]) + b->in[2]));
    return FAC_OK;
}

static void border_end(border *b) { fac__free(b->map[0]); }

/* ---- forward -------------------------------------------------------------------------------------------------------------- */

typedef struct pad_job {
    border b;
    const char *in;
    char *out;
    size_t item;
} pad_job;

static void copy_points(size_t point, char *dst, const char *src, const int64_t *map, int64_t begin, int64_t end) {
    for (int64_t w = begin; w < end; w++) memcpy(dst + (size_t)w * point, src + (size_t)map[w] * point, point);
}
static void copy_elements(size_t item, char *dst, const char *src, const int64_t *map, int64_t begin, int64_t end) {
#define COPY(T) \
    for (int64_t w = begin; w < end; w++) ((T *)dst)[w] = ((const T *)src)[map[w]]
    FAC_ITEM_SWITCH(item, COPY)
#undef COPY
}

static fac_status pad_rows(void *ctx, int64_t begin, int64_t end) {
    const pad_job *j = ctx;
    const border *b = &j->b;
    const int64_t *map = b->map[2];
    const size_t point = (size_t)b->channels * j->item;
    void (*copy_mapped)(size_t, char *, const char *, const int64_t *, int64_t, int64_t) =
        b->channels > 1 ? copy_points : copy_elements;
    for (int64_t r = begin; r < end; r++) {
        int64_t h = r % b->out[1], d = r / b->out[1] % b->out[0], p = r / b->out[1] / b->out[0];
        const char *src =
            j->in + (size_t)(((p * b->in[0] + b->map[0][d]) * b->in[1] + b->map[1][h]) * b->in[2]) * point;
        char *dst = j->out + (size_t)(r * b->out[2]) * point;
        copy_mapped(point, dst, src, map, 0, b->inner);
        if (b->inner_end > b->inner)
            memcpy(dst + (size_t)b->inner * point, src + (size_t)map[b->inner] * point,
                   (size_t)(b->inner_end - b->inner) * point);
        copy_mapped(point, dst, src, map, b->inner_end, b->out[2]);
    }
    return FAC_OK;
}

static fac_status pad(fac_structured *s, fac_tensor *self, fac_ints padding, bool mirror) {
    fac_tensor *rows;
    pad_job j = {.item = fac__dtype_size((fac_dtype)self->dtype)};
    if (s->out[0]->numel == 0) return FAC_OK;
    fac_rowmajor out;
    const fac_memory_format f = fac__border_format(self, (int)padding.n / 2);
    FAC_TRY(fac__in_format_below(self, f, &rows));
    fac_status st = border_begin(&j.b, self, f, padding, mirror);
    if (st == FAC_OK) st = fac__formatted_begin(s->out[0], f, &out);
    if (st == FAC_OK) {
        j.in = fac__data(rows), j.out = fac__data(out.t);
        int64_t n = j.b.planes * j.b.out[0] * j.b.out[1];
        st = fac__parallel_for(0, n, fac__grain(FAC_GRAIN, j.b.out[2] * j.b.channels), pad_rows, &j);
        st = fac__rowmajor_end(&out, st);
    }
    border_end(&j.b);
    fac__unref(rows);
    return st;
}

fac_status reflection_pad_cpu(fac_structured *s, fac_tensor *self, fac_ints padding) {
    return pad(s, self, padding, true);
}
fac_status replication_pad_cpu(fac_structured *s, fac_tensor *self, fac_ints padding) {
    return pad(s, self, padding, false);
}

/* ---- backward ---------------------------------------------------------------------------------------------------------------- */

typedef struct unpad_job {
    border b;
    const char *grad;
    char *out;
    fac_dtype dtype;
    fac_acc kind;
    int64_t blocks; /* of channels of a point */
} unpad_job;

enum { CHANNELS = 64 }; /* of a point, added up by one task */

static void add_mapped(fac_acc kind, void *row, const fac_tile_buf *tile, const int64_t *map, int64_t n) {
    float *f = row;
    double *g = row;
    for (int64_t w = 0; w < n; w++) {
        if (kind == FAC_ACC_F32)
            f[map[w]] += tile->f32[w];
        else if (kind == FAC_ACC_F64)
            g[map[w]] += tile->f64[w];
        else
            g[2 * map[w]] += tile->c128[2 * w], g[2 * map[w] + 1] += tile->c128[2 * w + 1];
    }
}

static void add_plane(const unpad_job *j, int64_t p, char *plane) {
    const border *b = &j->b;
    size_t item = fac__dtype_size(j->dtype), acc = fac__acc_size(j->kind);
    fac_tile_buf tile;
    for (int64_t r = 0; r < b->out[0] * b->out[1]; r++) {
        int64_t d = b->map[0][r / b->out[1]], h = b->map[1][r % b->out[1]];
        char *row = plane + (size_t)((d * b->in[1] + h) * b->in[2]) * acc;
        const char *grad = j->grad + (size_t)((p * b->out[0] * b->out[1] + r) * b->out[2]) * item;
        for (int64_t w = 0; w < b->out[2]; w += FAC_TILE) {
            int64_t n = fac__min(FAC_TILE, b->out[2] - w);
            fac__tile_load(j->kind, &tile, grad + (size_t)w * item, j->dtype, 1, n);
            add_mapped(j->kind, row, &tile, b->map[2] + w, n);
        }
    }
}

/* n channels from c on of one image, into room for them. */
static void add_image(const unpad_job *j, int64_t image, int64_t c, int64_t n, char *sums) {
    const border *b = &j->b;
    const size_t item = fac__dtype_size(j->dtype);
    const int64_t width = n * (j->kind == FAC_ACC_C128 ? 2 : 1);
    fac_tile_buf tile;
    for (int64_t r = 0; r < b->out[0] * b->out[1]; r++) {
        const int64_t d = b->map[0][r / b->out[1]], h = b->map[1][r % b->out[1]];
        const int64_t first = (image * b->out[0] * b->out[1] + r) * b->out[2];
        for (int64_t w = 0; w < b->out[2]; w++) {
            const int64_t to = ((d * b->in[1] + h) * b->in[2] + b->map[2][w]) * width;
            fac__tile_load(j->kind, &tile, j->grad + (size_t)((first + w) * b->channels + c) * item, j->dtype, 1, n);
            if (j->kind == FAC_ACC_F32)
                for (int64_t i = 0; i < width; i++) ((float *)(void *)sums)[to + i] += tile.f32[i];
            else
                for (int64_t i = 0; i < width; i++) ((double *)(void *)sums)[to + i] += tile.f64[i];
        }
    }
}

static fac_status unpad_images(void *ctx, int64_t begin, int64_t end, void *sums) {
    const unpad_job *j = ctx;
    const int64_t points = j->b.in[0] * j->b.in[1] * j->b.in[2];
    const size_t acc = fac__acc_size(j->kind), item = fac__dtype_size(j->dtype);
    for (int64_t t = begin; t < end; t++) {
        const int64_t image = t / j->blocks, c = t % j->blocks * CHANNELS, n = fac__min(CHANNELS, j->b.channels - c);
        memset(sums, 0, (size_t)(points * n) * acc);
        add_image(j, image, c, n, sums);
        for (int64_t i = 0; i < points; i++)
            fac__tile_store(j->kind, (char *)sums + (size_t)(i * n) * acc,
                            j->out + (size_t)((image * points + i) * j->b.channels + c) * item, j->dtype, 1, n);
    }
    return FAC_OK;
}

static fac_status unpad_planes(void *ctx, int64_t begin, int64_t end, void *scratch) {
    const unpad_job *j = ctx;
    int64_t n = j->b.in[0] * j->b.in[1] * j->b.in[2];
    size_t acc = fac__acc_size(j->kind), item = fac__dtype_size(j->dtype);
    char *plane = scratch;
    for (int64_t p = begin; p < end; p++) {
        memset(plane, 0, (size_t)n * acc);
        add_plane(j, p, plane);
        fac__tile_store(j->kind, plane, j->out + (size_t)(p * n) * item, j->dtype, 1, n);
    }
    return FAC_OK;
}

static fac_status unpad(fac_structured *s, fac_tensor *grad_output, fac_tensor *self, fac_ints padding, bool mirror) {
    fac_tensor *rows;
    unpad_job j = {.dtype = (fac_dtype)self->dtype, .kind = fac__acc_of((fac_dtype)self->dtype)};
    if (self->numel == 0) return FAC_OK;
    fac_rowmajor out;
    const fac_memory_format f = fac__border_format(self, (int)padding.n / 2);
    FAC_TRY(fac__in_format_below(grad_output, f, &rows));
    fac_status st = border_begin(&j.b, self, f, padding, mirror);
    if (st == FAC_OK) st = fac__formatted_begin(s->out[0], f, &out);
    if (st == FAC_OK) {
        j.grad = fac__data(rows), j.out = fac__data(out.t);
        int64_t plane = j.b.out[0] * j.b.out[1] * j.b.out[2];
        int64_t bytes = j.b.in[0] * j.b.in[1] * j.b.in[2] * (int64_t)fac__acc_size(j.kind);
        const int64_t width = fac__min(CHANNELS, j.b.channels);
        j.blocks = fac__div_up(j.b.channels, CHANNELS);
        st = fac__parallel_for_scratch(0, j.b.planes * j.blocks, fac__grain(FAC_GRAIN, plane * width), bytes * width,
                                       j.b.channels > 1 ? unpad_images : unpad_planes, &j);
        st = fac__rowmajor_end(&out, st);
    }
    border_end(&j.b);
    fac__unref(rows);
    return st;
}

fac_status reflection_pad_backward_cpu(fac_structured *s, fac_tensor *grad_output, fac_tensor *self, fac_ints padding) {
    return unpad(s, grad_output, self, padding, true);
}
fac_status replication_pad_backward_cpu(fac_structured *s, fac_tensor *grad_output, fac_tensor *self,
                                        fac_ints padding) {
    return unpad(s, grad_output, self, padding, false);
}
