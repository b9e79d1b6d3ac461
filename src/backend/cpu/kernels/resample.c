/* Resampling: out = A_d x A_h x A_w in, each A a banded matrix (ops/resample.h); the gradient is the same with the matrices
   transposed, so that every element is a sum in a fixed order and nothing is scattered.

   Output rows are walked in order. Each is a weighted sum of source rows that were brought to its width before; these are kept in a
   ring, since neighbouring output rows share most of them. A chunk of rows starts with an empty ring, so rows do not depend on who
   computes them. Along a row, elements are gathered by tables; with channels last a row is that of all channels, its tables repeated
   for each, or, where there are many channels, points are summed as vectors. Floats are summed in their own type, f16 and bf16 in
   f32, rounded once. Bytes are summed in int32 with weights of 16 bits, and rounded after each dimension, as Pillow does. Nearest
   neighbours are copied. */
#include "backend/cpu/kernels/resample.h"
#include "backend/cpu/kernels/items.h"
#include "backend/cpu/kernels/tile.h"
#include "backend/cpu/parallel.h"
#include "core/tensor_make.h"
#include "ops/resample.h"
#include "ops_gen.h"
#include <math.h>

enum {
    NARROW = 16,             /* channels up to which a row's tables are repeated for each */
    RING_BYTES = 256 * 1024, /* of rows that are kept, where a group does not need more */
    BYTE_BITS = 15,          /* of the weights of bytes */
    BYTE_SHIFT_MOST = 22
};

typedef struct job {
    fac_dtype dtype;
    fac_resample_type type;
    size_t item, cell; /* bytes of an element in memory, and in the type of sums */
    bool direct;       /* the two are the same type */
    const fac_resample_loops *loops;
    fac_bands axis[FAC_RESAMPLE_DIMS];
    int64_t planes, inner; /* inner: channels of a point, 1 where planes are single channels */
    int64_t in_row, out_row;
    bool same_width; /* the rows of the source are those to be summed */
    fac_row_taps row;
    fac_point_taps points;
    void *weights[2]; /* bytes: of the rows, of the points, in int32_t; else in `cell`s */
    int shift[2];     /* bytes: of weights along columns, along rows */
    int64_t group;    /* rows that are summed at once */
    int64_t sets, slots;
    const char *from;
    char *to;
} job;

/* ---- tables ------------------------------------------------------------------------------------------------------------------ */

static void put_weight(const job *j, void *table, int64_t i, double w, int shift) {
    if (j->type == FAC_RESAMPLE_U8)
        ((int32_t *)table)[i] = (int32_t)(w * (double)(1 << shift) + (w < 0 ? -0.5 : 0.5));
    else if (j->type == FAC_RESAMPLE_F64)
        ((double *)table)[i] = w;
    else
        ((float *)table)[i] = (float)w;
}

static size_t weight_size(const job *j) { return j->type == FAC_RESAMPLE_F64 ? sizeof(double) : sizeof(float); }

/* The greatest shift at which every weight has BYTE_BITS and a sign. */
static int shift_of(const fac_bands *b) {
    double most = 0;
    for (int64_t i = 0; i < b->rows * b->taps; i++) most = fmax(most, b->weight[i]);
    int shift = 0;
    while (shift < BYTE_SHIFT_MOST && (int64_t)(0.5 + most * (double)(1 << (shift + 1))) < 1 << BYTE_BITS) shift++;
    return shift;
}

/* Row i of the tables, for each channel. Where it has fewer taps than the widest, the last element is shown again and its weight
   halved: floats are exact so, and no element counts that should not. */
static void put_taps(job *j, int32_t *at, int64_t i) {
    const fac_bands *b = &j->axis[2];
    const int64_t n = b->rows * j->inner, last = b->count[i] - 1;
    double rest = b->weight[i * b->taps + last];
    for (int64_t t = 0; t < b->taps; t++) {
        double w = t < last ? b->weight[i * b->taps + t] : rest;
        if (t >= last && t + 1 < b->taps && j->type != FAC_RESAMPLE_U8) w = rest /= 2;
        if (t > last && j->type == FAC_RESAMPLE_U8) w = 0;
        const int64_t place = (b->start[i] + fac__min(t, last)) * j->inner;
        for (int64_t c = 0; c < j->inner; c++) {
            at[t * n + i * j->inner + c] = (int32_t)(place + c);
            put_weight(j, j->weights[0], t * n + i * j->inner + c, w, j->shift[0]);
        }
    }
}

static fac_status make_row_taps(job *j) {
    const fac_bands *b = &j->axis[2];
    const int64_t n = b->rows * j->inner;
    int64_t cells;
    FAC_CHECK(j->in_row <= INT32_MAX && n <= INT32_MAX, FAC_ERR_UNSUPPORTED,
              "rows of %lld elements are too long to be resampled", (long long)fac__max(j->in_row, n));
    FAC_CHECK(fac__mul(n, b->taps, &cells), FAC_ERR_OVERFLOW, "%lld taps are too many", (long long)b->taps);
    int32_t *at = fac__alloc_array((size_t)cells, sizeof(int32_t) + weight_size(j));
    if (!at) return fac_error();
    /* Weights first in memory, which may need the greater alignment. */
    j->weights[0] = at;
    at = (int32_t *)(void *)((char *)j->weights[0] + (size_t)cells * weight_size(j));
    for (int64_t i = 0; i < b->rows; i++) put_taps(j, at, i);
    j->row = (fac_row_taps){n, b->taps, j->in_row, j->inner - 1, at, j->weights[0]};
    return FAC_OK;
}

static fac_status make_point_taps(job *j) {
    const fac_bands *b = &j->axis[2];
    j->weights[1] = fac__alloc_array((size_t)(b->rows * b->taps), weight_size(j));
    if (!j->weights[1]) return fac_error();
    for (int64_t i = 0; i < b->rows * b->taps; i++) put_weight(j, j->weights[1], i, b->weight[i], j->shift[0]);
    j->points = (fac_point_taps){b->rows, b->taps, j->inner, b->start, b->count, j->weights[1]};
    return FAC_OK;
}

static bool is_identity(const fac_bands *b) {
    bool same = b->rows == b->columns;
    for (int64_t i = 0; same && i < b->rows; i++)
        same = b->start[i] == i && b->count[i] == 1 && b->weight[i * b->taps] == 1;
    return same;
}

static void job_free(job *j) {
    for (int d = 0; d < FAC_RESAMPLE_DIMS; d++) fac__bands_free(&j->axis[d]);
    fac__free(j->weights[0]);
    fac__free(j->weights[1]);
}

static fac_status make_axis(const fac_resample *p, int d, bool single, bool backward, fac_bands *out) {
    fac_bands forward;
    if (!backward) return fac__bands_make(p, d, single, out);
    FAC_TRY(fac__bands_make(p, d, single, &forward));
    fac_status st = fac__bands_transpose(&forward, out);
    fac__bands_free(&forward);
    return st;
}

static fac_status make_tables(job *j, const fac_resample *p, bool backward) {
    const bool single = j->type == FAC_RESAMPLE_F32;
    for (int d = 0; d < FAC_RESAMPLE_DIMS; d++) FAC_TRY(make_axis(p, d, single, backward, &j->axis[d]));
    if (j->type == FAC_RESAMPLE_U8) j->shift[0] = shift_of(&j->axis[2]), j->shift[1] = shift_of(&j->axis[1]);
    j->planes = p->channels_last ? p->batch : p->batch * p->channels;
    j->inner = p->channels_last ? p->channels : 1;
    j->in_row = j->axis[2].columns * j->inner, j->out_row = j->axis[2].rows * j->inner;
    j->same_width = is_identity(&j->axis[2]);
    j->group = j->type == FAC_RESAMPLE_U8 ? j->axis[1].taps : FAC_RESAMPLE_GROUP;
    const int64_t fit = fac__max(j->group, RING_BYTES / fac__max(1, j->out_row * (int64_t)j->cell));
    j->sets = fac__min(j->axis[0].taps, j->group), j->slots = fac__min(j->axis[1].taps, fit);
    return j->inner <= NARROW ? make_row_taps(j) : make_point_taps(j);
}

/* ---- rows --------------------------------------------------------------------------------------------------------------------- */

/* One thread's memory. Slot k of the ring holds source row key[k], at the output's width. */
typedef struct room {
    int64_t *key;
    const void **rows; /* of a group */
    char *weights;     /* of a group */
    char *source, *sum, *ring;
} room;

/* Lays the room out over scratch memory, or says with scratch NULL how much it needs. */
static int64_t room_lay_out(const job *j, char *scratch, room *r) {
    int64_t at = 0, slots = j->sets * j->slots;
    const int64_t sizes[] = {slots * 8,
                             j->group * 8,
                             j->group * 8,
                             (j->direct ? 0 : j->in_row * (int64_t)j->cell),
                             (j->direct ? 0 : j->out_row * (int64_t)j->cell),
                             fac__mul_or_max(slots, j->out_row * (int64_t)j->cell)};
    char *part[6];
    for (int k = 0; k < 6; k++) {
        part[k] = scratch ? scratch + at : NULL;
        if (sizes[k] > INT64_MAX - 64 - at) return INT64_MAX;
        at += fac__workspace_round(sizes[k]);
    }
    *r = (room){(int64_t *)(void *)part[0], (const void **)(void *)part[1], part[2], part[3], part[4], part[5]};
    return at;
}

static fac_acc kind_of(const job *j) { return j->type == FAC_RESAMPLE_F64 ? FAC_ACC_F64 : FAC_ACC_F32; }

/* Source row `key` in the type of sums. */
static const void *read_row(const job *j, int64_t key, char *to) {
    const char *from = j->from + key * j->in_row * (int64_t)j->item;
    if (j->direct) return from;
    fac__tile_load(kind_of(j), to, from, j->dtype, 1, j->in_row);
    return to;
}

static void widen_row(const job *j, const void *from, void *to) {
    if (j->inner <= NARROW)
        j->loops->row(&j->row, j->shift[0], from, to);
    else
        j->loops->points(&j->points, j->shift[0], from, to);
}

/* i % n: bands of one or two rows are the most, and a division takes as long as a short row. */
static int64_t turn(int64_t i, int64_t n) { return n & (n - 1) ? i % n : i & (n - 1); }

/* Row y of slice z of a plane at the output's width: from the ring, or put there. */
static const void *row_at(const job *j, const room *r, int64_t plane, int64_t z, int64_t y) {
    const int64_t key = (plane * j->axis[0].columns + z) * j->axis[1].columns + y;
    const int64_t slot = turn(z, j->sets) * j->slots + turn(y, j->slots);
    char *place = r->ring + slot * j->out_row * (int64_t)j->cell;
    if (j->same_width && j->direct) return read_row(j, key, NULL);
    if (r->key[slot] == key) return place;
    r->key[slot] = key;
    if (j->same_width) return read_row(j, key, place);
    widen_row(j, read_row(j, key, r->source), place);
    return place;
}

static void blend(const job *j, const room *r, int64_t n, bool add, void *to) {
    if (n) j->loops->blend(j->out_row, (int)n, r->rows, r->weights, add, j->shift[1], to);
}

/* The sum for row (z, y) of a plane. */
static void sum_rows(const job *j, const room *r, int64_t plane, int64_t z, int64_t y, void *to) {
    const fac_bands *deep = &j->axis[0], *high = &j->axis[1];
    int64_t n = 0;
    bool add = false;
    for (int64_t a = 0; a < deep->count[z]; a++)
        for (int64_t b = 0; b < high->count[y]; b++) {
            if (n == j->group) {
                blend(j, r, n, add, to);
                add = true, n = 0;
            }
            put_weight(j, r->weights, n, deep->weight[z * deep->taps + a] * high->weight[y * high->taps + b],
                       j->shift[1]);
            r->rows[n++] = row_at(j, r, plane, deep->start[z] + a, high->start[y] + b);
        }
    blend(j, r, n, add, to);
}

/* True if an output row is one source row, brought to its width. */
static bool is_line(const job *j) {
    return j->axis[0].taps == 1 && j->axis[1].taps == 1 && is_identity(&j->axis[0]) && is_identity(&j->axis[1]);
}

static fac_status resample_rows(void *ctx, int64_t begin, int64_t end, void *scratch) {
    const job *j = ctx;
    const int64_t deep = j->axis[0].rows, high = j->axis[1].rows;
    const bool line = is_line(j);
    room r;
    (void)room_lay_out(j, scratch, &r);
    for (int64_t k = 0; k < j->sets * j->slots; k++) r.key[k] = -1;
    int64_t plane = begin / high / deep, z = begin / high % deep, y = begin % high;
    for (int64_t i = begin; i < end; i++) {
        char *to = j->to + i * j->out_row * (int64_t)j->item, *sum = j->direct ? to : r.sum;
        if (line)
            widen_row(j, read_row(j, i, r.source), sum);
        else
            sum_rows(j, &r, plane, z, y, sum);
        if (++y == high) y = 0, z++;
        if (z == deep) z = 0, plane++;
        if (!j->direct) fac__tile_store(kind_of(j), sum, to, j->dtype, 1, j->out_row);
    }
    return FAC_OK;
}

/* ---- layouts ------------------------------------------------------------------------------------------------------------------- */

/* Owned: t, or a copy, dense in the plan's layout. */
static fac_status lay_out(const fac_resample *p, fac_tensor *t, bool load, fac_tensor **out) {
    int64_t strides[FAC_RESAMPLE_DIMS + 2];
    fac__resample_strides(p, t->sizes, strides);
    bool fits = true;
    for (int d = 0; d < t->ndim; d++) fits = fits && (t->sizes[d] == 1 || t->strides[d] == strides[d]);
    if (fits) {
        *out = fac__ref(t);
        return FAC_OK;
    }
    FAC_TRY(fac__empty_strided(t->sizes, strides, t->ndim, (fac_dtype)t->dtype, t->device, out));
    fac_status st = load ? fac__cpu_copy(*out, t) : FAC_OK;
    if (st == FAC_OK) return FAC_OK;
    fac__unref(*out);
    return st;
}

typedef fac_status (*run_fn)(const fac_resample *p, bool backward, const fac_tensor *from, fac_tensor *to);

/* Calls `run` with both tensors in the plan's layout, and brings the result home. */
static fac_status with_layout(const fac_resample *p, bool backward, fac_tensor *from, fac_tensor *to, run_fn run) {
    fac_tensor *source, *result;
    if (to->numel == 0) return FAC_OK;
    FAC_TRY(lay_out(p, from, true, &source));
    fac_status st = lay_out(p, to, false, &result);
    if (st == FAC_OK) {
        st = run(p, backward, source, result);
        if (st == FAC_OK && result != to) st = fac__cpu_copy(to, result);
        fac__unref(result);
    }
    fac__unref(source);
    return st;
}

static fac_resample_type type_of(fac_dtype d) {
    return d == FAC_U8 ? FAC_RESAMPLE_U8 : d == FAC_F64 ? FAC_RESAMPLE_F64 : FAC_RESAMPLE_F32;
}

/* Sums of elements of type d. */
static fac_status sum_all(const fac_resample *p, bool backward, fac_dtype d, const void *from, void *to) {
    job j = {.dtype = d, .type = type_of(d), .item = fac__dtype_size(d), .direct = !fac__is_half(d)};
    room unused;
    j.cell = j.direct ? j.item : sizeof(float);
    j.loops = &FAC_ISA_PICK(fac__resample_loops)[j.type];
    j.from = from, j.to = to;
    fac_status st = make_tables(&j, p, backward);
    if (st == FAC_OK)
        st = fac__parallel_for_scratch(0, j.planes * j.axis[0].rows * j.axis[1].rows, fac__grain(FAC_GRAIN, j.out_row),
                                       room_lay_out(&j, NULL, &unused), resample_rows, &j);
    job_free(&j);
    return st;
}

/* Few halves in short rows are all converted at once: to do so for each row would be most of the work. */
static bool are_few_halves(const fac_tensor *from, const fac_tensor *to) {
    enum { FEW = 1 << 15, SHORT = 32 };
    return fac__is_half((fac_dtype)to->dtype) && from->numel + to->numel <= FEW &&
           fac__max(from->sizes[from->ndim - 1], to->sizes[to->ndim - 1]) <= SHORT;
}

static fac_status run_sums(const fac_resample *p, bool backward, const fac_tensor *from, fac_tensor *to) {
    const fac_dtype d = (fac_dtype)to->dtype;
    if (!are_few_halves(from, to)) return sum_all(p, backward, d, fac__data(from), fac__data(to));
    fac_workspace wide;
    FAC_TRY(fac__workspace_take((from->numel + to->numel) * (int64_t)sizeof(float), &wide));
    float *x = (float *)(void *)wide.at, *y = x + from->numel;
    fac__tile_load(FAC_ACC_F32, x, fac__data(from), d, 1, from->numel);
    const fac_status st = sum_all(p, backward, FAC_F32, x, y);
    if (st == FAC_OK) fac__tile_store(FAC_ACC_F32, y, fac__data(to), d, 1, to->numel);
    fac__workspace_give(wide);
    return st;
}

/* ---- nearest -------------------------------------------------------------------------------------------------------------------- */

typedef struct pick_job {
    fac_bands axis[FAC_RESAMPLE_DIMS];
    size_t item; /* bytes of what is moved: an element, or a point of all channels */
    bool whole;  /* items are points, too large to be picked as elements */
    int32_t *at;
    const char *from;
    char *to;
} pick_job;

static void pick_row(const pick_job *j, const char *from, char *to) {
    const fac_bands *b = &j->axis[2];
    if (!j->whole)
        FAC_ISA_PICK(fac__resample_pick)(j->item, b->rows, j->at, from, to);
    else
        for (int64_t i = 0; i < b->rows; i++)
            memcpy(to + (size_t)i * j->item, from + (size_t)b->start[i] * j->item, j->item);
}

/* A row that shows the same source as the one before is copied from it. */
static fac_status pick_rows(void *ctx, int64_t begin, int64_t end) {
    const pick_job *j = ctx;
    const int64_t deep = j->axis[0].rows, high = j->axis[1].rows;
    const size_t in_row = (size_t)j->axis[2].columns * j->item, out_row = (size_t)j->axis[2].rows * j->item;
    const char *before = NULL;
    for (int64_t i = begin; i < end; i++) {
        const int64_t z = j->axis[0].start[i / high % deep], y = j->axis[1].start[i % high];
        const char *from =
            j->from + (size_t)((i / high / deep * j->axis[0].columns + z) * j->axis[1].columns + y) * in_row;
        char *to = j->to + (size_t)i * out_row;
        if (from == before)
            memcpy(to, to - out_row, out_row);
        else
            pick_row(j, from, to);
        before = from;
    }
    return FAC_OK;
}

static fac_status make_places(pick_job *j) {
    const fac_bands *b = &j->axis[2];
    if (j->whole) return FAC_OK;
    FAC_CHECK(b->columns <= INT32_MAX, FAC_ERR_UNSUPPORTED, "rows of %lld elements are too long to be resampled",
              (long long)b->columns);
    j->at = fac__alloc_array((size_t)b->rows, sizeof *j->at);
    if (!j->at) return fac_error();
    for (int64_t i = 0; i < b->rows; i++) j->at[i] = (int32_t)b->start[i];
    return FAC_OK;
}

static fac_status run_picks(const fac_resample *p, bool backward, const fac_tensor *from, fac_tensor *to) {
    const size_t item = fac__dtype_size((fac_dtype)to->dtype), inner = p->channels_last ? (size_t)p->channels : 1;
    pick_job j = {.item = item * inner, .from = fac__data(from), .to = fac__data(to), .whole = inner > 1};
    (void)backward;
    fac_status st = FAC_OK;
    for (int d = 0; d < FAC_RESAMPLE_DIMS && st == FAC_OK; d++)
        st = fac__bands_make(p, d, to->dtype != FAC_F64, &j.axis[d]);
    if (st == FAC_OK) st = make_places(&j);
    if (st == FAC_OK) {
        const int64_t rows = to->numel / (p->out[2] * (int64_t)inner);
        st = fac__parallel_for(0, rows, fac__grain(2 * FAC_GRAIN, p->out[2] * (int64_t)inner), pick_rows, &j);
    }
    for (int d = 0; d < FAC_RESAMPLE_DIMS; d++) fac__bands_free(&j.axis[d]);
    fac__free(j.at);
    return st;
}

/* ---- kernels -------------------------------------------------------------------------------------------------------------------- */

static fac_status forward(fac_structured *s, fac_tensor *self, const fac_resample_args *args) {
    fac_resample p;
    FAC_TRY(fac__resample_plan(args, (fac_ints){self->sizes, self->ndim}, self, &p));
    return with_layout(&p, false, self, s->out[0], args->kind <= FAC_RESAMPLE_NEAREST_EXACT ? run_picks : run_sums);
}

static fac_status backward(fac_structured *s, fac_tensor *grad, fac_ints input_size, const fac_resample_args *args) {
    fac_resample p;
    FAC_TRY(fac__resample_plan(args, input_size, grad, &p));
    return with_layout(&p, true, grad, s->out[0], run_sums);
}

#define SCALES_1 fac_opt_num scales
#define SCALES_2 fac_opt_num scales_h, fac_opt_num scales_w
#define SCALES_3 fac_opt_num scales_d, fac_opt_num scales_h, fac_opt_num scales_w
#define LIST_1 scales
#define LIST_2 scales_h, scales_w
#define LIST_3 scales_d, scales_h, scales_w

#define NEAREST(name, kind, n)                                                                                      \
    fac_status name##_cpu(fac_structured *s, fac_tensor *self, fac_ints output_size, SCALES_##n) {                  \
        return forward(s, self, &(fac_resample_args){kind, n, output_size, false, {LIST_##n}});                     \
    }                                                                                                               \
    fac_status name##_backward_cpu(fac_structured *s, fac_tensor *grad_output, fac_ints output_size,                \
                                   fac_ints input_size, SCALES_##n) {                                               \
        return backward(s, grad_output, input_size, &(fac_resample_args){kind, n, output_size, false, {LIST_##n}}); \
    }
NEAREST(upsample_nearest1d, FAC_RESAMPLE_NEAREST, 1)
NEAREST(upsample_nearest2d, FAC_RESAMPLE_NEAREST, 2)
NEAREST(upsample_nearest3d, FAC_RESAMPLE_NEAREST, 3)
NEAREST(upsample_nearest_exact1d, FAC_RESAMPLE_NEAREST_EXACT, 1)
NEAREST(upsample_nearest_exact2d, FAC_RESAMPLE_NEAREST_EXACT, 2)
NEAREST(upsample_nearest_exact3d, FAC_RESAMPLE_NEAREST_EXACT, 3)

#define SMOOTH(name, kind, n)                                                                                          \
    fac_status name##_cpu(fac_structured *s, fac_tensor *self, fac_ints output_size, bool align_corners, SCALES_##n) { \
        return forward(s, self, &(fac_resample_args){kind, n, output_size, align_corners, {LIST_##n}});                \
    }                                                                                                                  \
    fac_status name##_backward_cpu(fac_structured *s, fac_tensor *grad_output, fac_ints output_size,                   \
                                   fac_ints input_size, bool align_corners, SCALES_##n) {                              \
        return backward(s, grad_output, input_size,                                                                    \
                        &(fac_resample_args){kind, n, output_size, align_corners, {LIST_##n}});                        \
    }
SMOOTH(upsample_linear1d, FAC_RESAMPLE_LINEAR, 1)
SMOOTH(upsample_bilinear2d, FAC_RESAMPLE_LINEAR, 2)
SMOOTH(upsample_bicubic2d, FAC_RESAMPLE_CUBIC, 2)
SMOOTH(upsample_trilinear3d, FAC_RESAMPLE_LINEAR, 3)
SMOOTH(upsample_bilinear2d_aa, FAC_RESAMPLE_LINEAR_AA, 2)
SMOOTH(upsample_bicubic2d_aa, FAC_RESAMPLE_CUBIC_AA, 2)
