/* Weights of convolutions of innermost channels in f32 and bf16: of a tap, the sum over points of products of the channels of either
   side. A task is a part of the batch and up to 64 channels of the large side. Where each channel has a weight of its own, vectors of channels are multiplied lane by lane, all in f32. Band by band, both sides are copied to planes of vectors
   of channels, the large one with padding, those of bf16 as pairs of neighbouring points; then each tap's sums are gone on with.

   Sums are in f32, over bands in order; those of parts are added in order. Cuts depend on the shape alone. */
#include "backend/cpu/cpu.h"
#include "backend/cpu/kernels/conv_last.h"
#include "backend/cpu/loops.h"
#include "backend/cpu/parallel.h"

enum {
    BAND_POINTS = 512,     /* of a band, at most, but for a single line */
    SMALL_BYTES = 1 << 19, /* of its small side */
    FEW_POINTS = 128,      /* images of less are put together */
    PARTS = 8,             /* at most */
    PART_WORK = 1 << 24,   /* multiply-adds that are worth one */
    SUM_CHUNK = 1 << 14,   /* elements per task of adding parts */
    VECTOR = FAC_CONV_LANES * 4
};

typedef struct weight_job {
    const fac_conv *c;
    const fac_conv_arrays *arrays;
    bool bf16, single, pairs;            /* each channel has a weight of its own; planes are of pairs of bf16 */
    int64_t item, vectors, blocks;       /* of large channels, per group */
    int64_t lines, bands, images, parts; /* lines per band, images together; parts of all bands */
    int64_t width[FAC_CONV_DIMS];        /* of the large side that a band reads, with padding */
    int64_t small_plane, large_plane;    /* bytes of a band */
    float *sums;                         /* [parts][groups * small][taps][large] */
    int64_t size;                        /* of one part */
} weight_job;

static int64_t units(const weight_job *j) { return fac__div_up(j->c->batch, j->images) * j->bands; }

static void cut(weight_job *j) {
    const fac_conv *c = j->c;
    const double work = (double)c->batch * (double)c->groups * (double)c->small * (double)c->large * (double)c->taps *
                        (double)c->small_count;
    const int64_t row = c->small_size[1] * c->small_size[2];
    const int64_t points = fac__min(BAND_POINTS, SMALL_BYTES / (fac__div_up(c->small, FAC_CONV_LANES) * VECTOR)),
                  lines = fac__max(1, fac__min(points / row, c->small_size[0]));
    j->bands = fac__div_up(c->small_size[0], lines);
    j->lines = fac__div_up(c->small_size[0], j->bands);
    j->images = j->bands > 1 ? 1 : fac__max(1, fac__min(FEW_POINTS / (row * j->lines), c->batch));
    /* Parts no larger in all than what they are summed from. */
    const int64_t inputs = c->batch * c->groups * (c->small * c->small_count + c->large * c->large_count);
    j->parts = work >= (double)PART_WORK * PARTS ? PARTS : (int64_t)(work / PART_WORK) + 1;
    j->parts = fac__max(1, fac__min(fac__min(j->parts, inputs / (2 * j->size)), units(j)));
    for (int d = 0; d < FAC_CONV_DIMS; d++) {
        const int64_t points = d == 0 ? j->lines : c->small_size[d];
        j->width[d] = (points - 1) * c->stride[d] + c->dilation[d] * (c->kernel[d] - 1) + 1;
    }
    j->small_plane = j->images * j->lines * row * VECTOR;
    j->large_plane = j->images * j->width[0] * j->width[1] * j->width[2] * VECTOR;
}

static int64_t vectors_before(const weight_job *j, int64_t block) {
    return j->vectors / j->blocks * block + fac__min(block, j->vectors % j->blocks);
}

/* ---- copies --------------------------------------------------------------------------------------------------------------- */

typedef struct lane {
    char *small, *large;
    int64_t *at_small, *at_large, *offsets; /* offsets: of taps */
} lane;

static void copy_small(const weight_job *j, int64_t channel, int64_t channels, int64_t image, int64_t images,
                       int64_t begin, int64_t lines, char *to) {
    const fac_conv *c = j->c;
    const int64_t point = c->groups * c->small * j->item, rows = lines * c->small_size[1];
    fac_conv_spread s = {.end = c->small_size[2], .point = point, .channels = channels, .plane = j->small_plane};
    s.bf16 = j->bf16;
    s.next = j->pairs;
    for (int64_t i = 0; i < images; i++) {
        const char *from = (const char *)j->arrays->side[FAC_CONV_SMALL] + channel * j->item +
                           ((image + i) * c->small_count + begin * c->small_size[1] * c->small_size[2]) * point;
        for (int64_t r = 0; r < rows; r++) {
            s.from = from + r * s.end * point;
            s.to = to + (i * j->lines * c->small_size[1] + r) * s.end * VECTOR;
            FAC_ISA_PICK(fac__conv_last_spread)(&s);
        }
    }
}

/* The part [begin, end) of `width` points from `first` on that is in [0, size). */
static int64_t within(int64_t first, int64_t width, int64_t size, int64_t *end) {
    const int64_t begin = fac__max(0, fac__min(width, -first));
    *end = fac__max(begin, fac__min(width, size - first));
    return begin;
}

static void copy_large(const weight_job *j, int64_t channel, int64_t channels, int64_t image, int64_t images,
                       int64_t begin, char *to) {
    const fac_conv *c = j->c;
    const int64_t point = c->groups * c->large * j->item, *size = c->large_size;
    const int64_t first[] = {begin * c->stride[0] - c->padding[0], -c->padding[1], -c->padding[2]};
    int64_t from[FAC_CONV_DIMS], end[FAC_CONV_DIMS];
    bool pads = false;
    for (int d = 0; d < FAC_CONV_DIMS; d++) {
        from[d] = within(first[d], j->width[d], size[d], &end[d]);
        pads = pads || from[d] > 0 || end[d] < j->width[d];
    }
    if (pads) memset(to, 0, (size_t)(j->large_plane * fac__div_up(channels, FAC_CONV_LANES)));
    fac_conv_spread s = {.begin = from[2], .end = end[2], .point = point, .channels = channels, .bf16 = j->bf16};
    s.plane = j->large_plane;
    s.next = j->pairs ? c->stride[2] : 0;
    for (int64_t i = 0; i < images; i++) {
        const char *at =
            (const char *)j->arrays->side[FAC_CONV_LARGE] + (image + i) * c->large_count * point + channel * j->item;
        for (int64_t x = from[0]; x < end[0]; x++) {
            for (int64_t y = from[1]; y < end[1]; y++) {
                const int64_t line = (first[0] + x) * size[1] + first[1] + y;
                s.from = at + (line * size[2] + first[2] + from[2]) * point;
                s.to = to + ((i * j->width[0] + x) * j->width[1] + y) * j->width[2] * VECTOR;
                FAC_ISA_PICK(fac__conv_last_spread)(&s);
            }
        }
    }
}

/* Places of points, or of pairs of neighbours and then of those that have none, at the first tap; returns how many, and of the latter. */
static int64_t find_points(const weight_job *j, int64_t images, int64_t lines, const lane *l, int64_t *odd) {
    const fac_conv *c = j->c;
    const int64_t step = j->pairs ? 2 : 1, pairs = c->small_size[2] / step;
    int64_t n = 0;
    *odd = 0;
    for (int alone = 0; alone <= (c->small_size[2] % step != 0); alone++) {
        for (int64_t i = 0; i < images; i++) {
            for (int64_t x = 0; x < lines; x++) {
                for (int64_t y = 0; y < c->small_size[1]; y++) {
                    const int64_t row = ((i * j->lines + x) * c->small_size[1] + y) * c->small_size[2],
                                  line = ((i * j->width[0] + x * c->stride[0]) * j->width[1] + y * c->stride[1]) *
                                         j->width[2];
                    for (int64_t q = alone ? pairs : 0; q < pairs + alone; q++, n++) {
                        l->at_small[n] = (row + q * step) * VECTOR;
                        l->at_large[n] = (line + q * step * c->stride[2]) * VECTOR;
                        *odd += alone;
                    }
                }
            }
        }
    }
    return n;
}

/* ---- tasks ---------------------------------------------------------------------------------------------------------------- */

/* Bytes from the first tap's place in a plane of the large side. */
static int64_t tap_offset(const weight_job *j, int64_t tap) {
    const fac_conv *c = j->c;
    const int64_t x = tap / (c->kernel[1] * c->kernel[2]), y = tap / c->kernel[2] % c->kernel[1],
                  z = tap % c->kernel[2];
    const int64_t line = x * c->dilation[0] * j->width[1] + y * c->dilation[1];
    return (line * j->width[2] + z * c->dilation[2]) * VECTOR;
}

static void run_taps(const weight_job *j, fac_conv_outer *o, float *sum) {
    const fac_conv *c = j->c;
    const char *large = o->large;
    o->ld = c->taps * c->large;
    for (int64_t t = 0; t < c->taps; t++) {
        o->large = large + tap_offset(j, t);
        o->sum = sum + t * c->large;
        FAC_ISA_PICK(fac__conv_last_outer)(o);
    }
}

/* Part `part` of single channels, whose sums are [taps][channels]. */
static void run_single(const weight_job *j, int64_t block, int64_t part, const lane *l) {
    const fac_conv *c = j->c;
    const int64_t before = vectors_before(j, block), channel = before * FAC_CONV_LANES;
    fac_conv_outer o = {.at_small = l->at_small, .at_large = l->at_large, .rows = c->taps, .ld = c->groups};
    o.small = l->small, o.large = l->large;
    o.small_plane = j->small_plane, o.large_plane = j->large_plane;
    o.vectors = (int)(vectors_before(j, block + 1) - before);
    o.channels = (int)fac__min(c->groups - channel, o.vectors * FAC_CONV_LANES);
    o.sum = j->sums + part * j->size + channel;
    for (int64_t t = 0; t < c->taps; t++) {
        memset(o.sum + t * o.ld, 0, (size_t)o.channels * sizeof *o.sum);
        l->offsets[t] = tap_offset(j, t);
    }
    for (int64_t u = units(j) * part / j->parts; u < units(j) * (part + 1) / j->parts; u++) {
        const int64_t image = u / j->bands * j->images, begin = u % j->bands * j->lines;
        const int64_t images = fac__min(j->images, c->batch - image),
                      lines = fac__min(j->lines, c->small_size[0] - begin);
        int64_t odd;
        copy_small(j, channel, o.channels, image, images, begin, lines, l->small);
        copy_large(j, channel, o.channels, image, images, begin, l->large);
        o.points = find_points(j, images, lines, l, &odd);
        FAC_ISA_PICK(fac__conv_last_single_outer)(&o, l->offsets);
    }
}

static void run_task(const weight_job *j, int64_t task, const lane *l) {
    const fac_conv *c = j->c;
    if (j->single) {
        run_single(j, task % j->blocks, task / j->blocks, l);
        return;
    }
    const int64_t block = task % j->blocks, g = task / j->blocks % c->groups, part = task / j->blocks / c->groups;
    const int64_t before = vectors_before(j, block), channel = before * FAC_CONV_LANES;
    fac_conv_outer o = {.at_small = l->at_small, .at_large = l->at_large, .rows = c->small, .bf16 = j->bf16};
    o.small_plane = j->small_plane, o.large_plane = j->large_plane;
    o.vectors = (int)(vectors_before(j, block + 1) - before);
    o.channels = (int)fac__min(c->large - channel, o.vectors * FAC_CONV_LANES);
    float *sum = j->sums + part * j->size + g * c->small * c->taps * c->large + channel;
    for (int64_t r = 0; r < c->small * c->taps; r++) memset(sum + r * c->large, 0, (size_t)o.channels * sizeof *sum);
    for (int64_t u = units(j) * part / j->parts; u < units(j) * (part + 1) / j->parts; u++) {
        const int64_t image = u / j->bands * j->images, begin = u % j->bands * j->lines;
        const int64_t images = fac__min(j->images, c->batch - image),
                      lines = fac__min(j->lines, c->small_size[0] - begin);
        copy_small(j, g * c->small, c->small, image, images, begin, lines, l->small);
        copy_large(j, g * c->large + channel, o.channels, image, images, begin, l->large);
        o.points = find_points(j, images, lines, l, &o.odd) - o.odd;
        o.small = l->small, o.large = l->large;
        run_taps(j, &o, sum);
    }
}

static int64_t small_planes(const weight_job *j) {
    return j->single ? FAC_CONV_VECTORS : fac__div_up(j->c->small, FAC_CONV_LANES);
}
static int64_t list_bytes(const weight_job *j) {
    return fac__workspace_round(j->small_plane / VECTOR * (int64_t)sizeof(int64_t));
}

static fac_status run_range(void *ctx, int64_t begin, int64_t end, void *scratch) {
    const weight_job *j = ctx;
    lane l;
    l.small = scratch;
    l.large = l.small + small_planes(j) * j->small_plane;
    l.at_small = (int64_t *)(void *)(l.large + FAC_CONV_VECTORS * j->large_plane);
    l.at_large = l.at_small + list_bytes(j) / (int64_t)sizeof(int64_t);
    l.offsets = l.at_large + list_bytes(j) / (int64_t)sizeof(int64_t);
    for (int64_t t = begin; t < end; t++) run_task(j, t, &l);
    return FAC_OK;
}

/* ---- the result ----------------------------------------------------------------------------------------------------------- */

/* Parts are added to the first, rows of taps and channels at a time. */
static fac_status add_range(void *ctx, int64_t begin, int64_t end) {
    const weight_job *j = ctx;
    const fac_conv *c = j->c;
    const int64_t row = c->taps * c->large;
    const fac_dtype type = j->bf16 ? FAC_BF16 : FAC_F32;
    char *to = j->arrays->side[FAC_CONV_WEIGHT];
    for (int64_t i = begin; i < end; i++) {
        float *sum = j->sums + i * row;
        for (int64_t p = 1; p < j->parts; p++) {
            const float *more = sum + p * j->size;
            for (int64_t k = 0; k < row; k++) sum[k] += more[k];
        }
        if ((char *)sum == to + i * row * j->item) continue;
        if (j->arrays->weight_last)
            fac__casts[type][FAC_F32](to + i * row * j->item, 1, sum, 1, row);
        else
            for (int64_t t = 0; t < c->taps; t++)
                fac__casts[type][FAC_F32](to + (i * row + t) * j->item, c->taps, sum + t * c->large, 1, c->large);
    }
    return FAC_OK;
}

/* The same of single channels, whose taps lie side by side in the result. */
static fac_status add_single(void *ctx, int64_t begin, int64_t end) {
    const weight_job *j = ctx;
    const int64_t n = j->c->groups;
    const fac_dtype type = j->bf16 ? FAC_BF16 : FAC_F32;
    for (int64_t t = begin; t < end; t++) {
        float *sum = j->sums + t * n;
        for (int64_t p = 1; p < j->parts; p++)
            for (int64_t k = 0; k < n; k++) sum[k] += sum[p * j->size + k];
        fac__casts[type][FAC_F32]((char *)j->arrays->side[FAC_CONV_WEIGHT] + t * j->item, j->c->taps, sum, 1, n);
    }
    return FAC_OK;
}

static fac_status run(weight_job *j) {
    const fac_conv *c = j->c;
    const int64_t lists = 2 * list_bytes(j) + c->taps * (int64_t)sizeof(int64_t),
                  tasks = j->parts * (j->single ? 1 : c->groups) * j->blocks;
    const int64_t bytes = small_planes(j) * j->small_plane + FAC_CONV_VECTORS * j->large_plane + lists;
    FAC_TRY(fac__parallel_for_scratch(0, tasks, 1, bytes, run_range, j));
    if (j->single) return fac__parallel_for(0, c->taps, fac__grain(SUM_CHUNK, c->groups), add_single, j);
    const int64_t rows = c->groups * c->small, row = c->taps * c->large;
    return fac__parallel_for(0, rows, fac__grain(SUM_CHUNK, row), add_range, j);
}

fac_status fac__conv_last_weight(const fac_conv *of, const fac_conv_arrays *arrays, bool *done) {
    const fac_conv c = fac__conv_last_dims(of);
    weight_job j = {.c = &c, .arrays = arrays, .bf16 = arrays->bf16, .item = arrays->bf16 ? 2 : 4};
    j.single = c.small == 1 && c.large == 1 && c.groups > 1;
    j.pairs = j.bf16 && !j.single;
    j.vectors = fac__div_up(j.single ? c.groups : c.large, FAC_CONV_LANES);
    j.blocks = fac__div_up(j.vectors, FAC_CONV_VECTORS);
    j.size = c.groups * c.small * c.taps * c.large;
    cut(&j);
    const bool direct = !j.bf16 && !j.single && (arrays->weight_last || c.taps == 1) && j.parts == 1;
    fac_workspace sums = {0};
    if (direct)
        j.sums = arrays->side[FAC_CONV_WEIGHT];
    else
        FAC_TRY(fac__workspace_take(j.parts * j.size * (int64_t)sizeof(float), &sums));
    if (!direct) j.sums = (float *)(void *)sums.at;
    fac_status st = run(&j);
    *done = st == FAC_OK;
    if (!direct) fac__workspace_give(sums);
    return st;
}
