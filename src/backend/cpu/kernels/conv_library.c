/* Convolutions through oneDNN, each task on one thread.

   A small or large side is cut by images; where these are few, also by blocks of the result's channels (or of groups), each a
   convolution of its own. A weight is cut into blocks of small channels (or of groups) and parts of the batch, whose sums are
   added in order. The cuts depend on the shape alone, so the bits do not depend on the number of threads. Images whose channels are
   innermost are cut by channels only if there are very few, since oneDNN has to rearrange such blocks. */
#include "backend/cpu/kernels/conv_library.h"
#include "backend/cpu/cpu.h"
#include "backend/cpu/loops.h"
#include "backend/cpu/onednn_conv.h"
#include "backend/cpu/parallel.h"

enum {
    LEAST_WORK = 1 << 16, /* multiply-adds from which preparing oneDNN is repaid */
    TASK_WORK = 1 << 22,  /* per task, at least, where work is cut */
    GRAIN = 1 << 19,      /* per chunk of tasks */
    TASKS = 32,           /* at most, where cutting costs work: blocks of channels, parts of the batch */
    CHANNELS = 16,        /* per block: oneDNN's widest */
    BIASES = 64,          /* that are widened at a time */
    LAST_IMAGES = 8,      /* whose channels are innermost: not cut further */
    LEAST_LARGE = 5,      /* channels of a large side that is summed into; fewer waste most of a vector */
    SUM_CHUNK = 1 << 14,  /* elements per task of adding parts */
    TURNED_POINTS = 4096  /* of a small side from which turning the weight is repaid */
};

typedef struct library_job {
    const fac_conv *c;
    fac_conv_side result;
    char *side[FAC_CONV_SIDES];
    const char *bias;
    bool bf16;                        /* else f32 */
    bool innermost, weight_innermost; /* `last` and `weight_last` of fac_conv_arrays */
    int64_t images, parts, blocks;    /* images per part; a task is one block of one part */
    int64_t part[FAC_CONV_SIDES];     /* elements from one part to the next */
    int64_t block[FAC_CONV_SIDES];    /* elements from one block to the next */
    fac_conv_primitive *full, *last;  /* of all parts but the last, and of the last, which may have fewer images */
    char *packed;                     /* weights of all blocks in oneDNN's layout */
    int64_t packed_bytes;             /* of one block */
    float *sums;                      /* has_sums: those of all parts */
} library_job;

/* Multiply-adds; a double, as the product of all sizes may exceed an int64_t. */
static double work_of(const fac_conv *c) {
    return (double)c->batch * (double)c->groups * (double)c->small * (double)c->large * (double)c->taps *
           (double)c->small_count;
}

/* Whether sizes and steps are such that oneDNN, which computes with int, cannot overflow. */
static bool fits_library(const fac_conv *c) {
    bool fits = true;
    for (int d = 0; d < FAC_CONV_DIMS; d++)
        fits = fits && c->padding[d] < INT32_MAX / 4 && c->stride[d] < INT32_MAX / 4 &&
               c->dilation[d] < INT32_MAX / 4 && c->small_size[d] < INT32_MAX / 4 && c->large_size[d] < INT32_MAX / 4;
    return fits;
}

/* The table of measurements in one place. */
bool fac__conv_library_suits(const fac_conv *c, fac_conv_side result) {
    bool depthwise = c->small == 1 && c->large == 1 && c->groups >= CHANNELS;
    if (fac__cpu_isa < FAC_ISA_AVX2 || work_of(c) < LEAST_WORK || !fits_library(c)) return false;
    return result != FAC_CONV_LARGE || depthwise || c->large >= LEAST_LARGE;
}

/* The most blocks, up to `wanted`, that share `channels` evenly in multiples of `unit`. */
static int64_t even_blocks(int64_t channels, int64_t unit, int64_t wanted) {
    if (channels % unit) return 1;
    int64_t units = channels / unit, n = fac__min(wanted, units);
    while (n > 1 && units % n) n--;
    return fac__max(n, 1);
}

static int64_t blocks_for(const fac_conv *c, fac_conv_side result, int64_t wanted) {
    if (c->groups > 1) return even_blocks(c->groups, fac__max(1, CHANNELS / fac__min(c->small, c->large)), wanted);
    return even_blocks(result == FAC_CONV_LARGE ? c->large : c->small, CHANNELS, wanted);
}

/* How many tasks the work is worth. */
static int64_t wanted_tasks(const fac_conv *c) {
    return work_of(c) >= (double)TASK_WORK * TASKS ? TASKS : (int64_t)(work_of(c) / TASK_WORK) + 1;
}

static int64_t weight_size(const fac_conv *c) { return c->groups * c->small * c->large * c->taps; }

static void cut(library_job *j) {
    const fac_conv *c = j->c;
    int64_t wanted = wanted_tasks(c);
    j->images = 1;
    if (j->result == FAC_CONV_WEIGHT) {
        /* Parts no larger in all than what they are summed from. */
        int64_t inputs = c->batch * c->groups * (c->small * c->small_count + c->large * c->large_count);
        int64_t room = inputs / weight_size(c);
        int64_t parts = fac__max(1, fac__min(fac__min(wanted, c->batch), room));
        j->images = fac__div_up(c->batch, parts);
    }
    j->parts = fac__div_up(c->batch, j->images);
    const bool whole = j->innermost && j->result != FAC_CONV_WEIGHT && j->parts >= LAST_IMAGES;
    j->blocks = whole ? 1 : blocks_for(c, j->result, fac__div_up(wanted, j->parts));
}

/* ---- addresses ------------------------------------------------------------------------------------------------------- */

static void set_strides(library_job *j) {
    const fac_conv *c = j->c;
    j->part[FAC_CONV_SMALL] = j->images * c->groups * c->small * c->small_count;
    j->part[FAC_CONV_LARGE] = j->images * c->groups * c->large * c->large_count;
    j->part[FAC_CONV_WEIGHT] = j->result == FAC_CONV_WEIGHT ? weight_size(c) : 0;
    bool by_groups = c->groups > 1, by_large = !by_groups && j->result == FAC_CONV_LARGE;
    const int64_t small = c->groups * c->small * (j->innermost ? 1 : c->small_count),
                  large = c->groups * c->large * (j->innermost ? 1 : c->large_count);
    j->block[FAC_CONV_SMALL] = by_large ? 0 : small / j->blocks;
    j->block[FAC_CONV_LARGE] = by_groups || by_large ? large / j->blocks : 0;
    j->block[FAC_CONV_WEIGHT] =
        (by_large ? c->large * (j->weight_innermost ? 1 : c->taps) : weight_size(c)) / j->blocks;
}

/* Innermost channels: those of other blocks and groups lie between two points. */
static void set_points(const fac_conv *c, fac_conv_shape *s) {
    s->small_point = c->groups * c->small;
    s->large_point = c->groups * c->large;
    s->small_pitch = s->small_point * c->small_count;
    s->large_pitch = s->large_point * c->large_count;
}

static fac_dtype type(const library_job *j) { return j->bf16 ? FAC_BF16 : FAC_F32; }
static int64_t item(const library_job *j) { return fac__dtype_size(type(j)); }
/* Whether results are made apart in f32: parts of a weight, and in bf16 what more is added to. */
static bool has_sums(const library_job *j) {
    if (j->result == FAC_CONV_WEIGHT) return j->parts > 1 || j->bf16;
    return j->bf16 && j->bias && j->result == FAC_CONV_LARGE;
}

/* What one task computes. */
static fac_conv_shape shape_of(const library_job *j, int64_t images) {
    const fac_conv *c = j->c;
    fac_conv_shape s = {.result = j->result, .nd = c->nd, .images = images, .groups = c->groups};
    bool by_groups = c->groups > 1, by_large = !by_groups && j->result == FAC_CONV_LARGE;
    s.groups = by_groups ? c->groups / j->blocks : 1;
    s.small = by_groups || by_large ? c->small : c->small / j->blocks;
    s.large = by_large ? c->large / j->blocks : c->large;
    memcpy(s.small_size, c->small_size, sizeof s.small_size);
    memcpy(s.large_size, c->large_size, sizeof s.large_size);
    memcpy(s.kernel, c->kernel, sizeof s.kernel);
    memcpy(s.stride, c->stride, sizeof s.stride);
    memcpy(s.padding, c->padding, sizeof s.padding);
    memcpy(s.dilation, c->dilation, sizeof s.dilation);
    /* A single image is dense whatever lies between images, and so has one primitive. */
    s.small_pitch = (images > 1 ? c->groups * c->small : s.groups * s.small) * c->small_count;
    s.large_pitch = (images > 1 ? c->groups * c->large : s.groups * s.large) * c->large_count;
    s.weight_pitch = c->large * c->taps;
    s.weight_point = j->weight_innermost ? c->large : 0;
    if (j->innermost) set_points(c, &s);
    s.bias = j->bias && j->result == FAC_CONV_SMALL;
    s.bf16 = j->bf16;
    s.wide = j->bf16 && has_sums(j);
    return s;
}

static void sides_of(const library_job *j, int64_t part, int64_t block, void **side) {
    for (int i = 0; i < FAC_CONV_SIDES; i++) side[i] = j->side[i] + (part * j->part[i] + block * j->block[i]) * item(j);
    if (j->packed) side[FAC_CONV_WEIGHT] = j->packed + block * j->packed_bytes;
    if (j->sums) side[j->result] = j->sums + part * j->part[j->result] + block * j->block[j->result];
}

/* ---- tasks ------------------------------------------------------------------------------------------------------------ */

static int64_t result_count(const library_job *j) {
    if (j->innermost) return 1;
    return j->result == FAC_CONV_SMALL ? j->c->small_count : j->c->large_count;
}

/* oneDNN's convolution towards the large side takes no bias. */
static void add_bias(const library_job *j, float *out, int64_t first, int64_t channels) {
    const int64_t n = j->c->large_count, point = j->c->groups * j->c->large;
    float bias[BIASES];
    for (int64_t c = 0; c < channels; c += BIASES) {
        const int64_t m = fac__min(BIASES, channels - c);
        fac__casts[FAC_F32][type(j)](bias, 1, j->bias + (first + c) * item(j), 1, m);
        if (j->innermost)
            for (int64_t i = 0; i < n; i++)
                for (int64_t k = 0; k < m; k++) out[i * point + c + k] += bias[k];
        else
            for (int64_t k = 0; k < m; k++)
                for (int64_t i = 0; i < n; i++) out[(c + k) * n + i] += bias[k];
    }
}

static fac_status run_task(const library_job *j, fac_conv_lane *lane, int64_t part, int64_t block) {
    void *side[FAC_CONV_SIDES];
    sides_of(j, part, block, side);
    int64_t channels = j->bias ? j->block[j->result] / result_count(j) : 0;
    const void *bias = j->bias ? j->bias + block * channels * item(j) : NULL;
    FAC_TRY(fac__conv_lane_run(lane, side, bias));
    if (bias && j->result == FAC_CONV_LARGE) add_bias(j, side[FAC_CONV_LARGE], block * channels, channels);
    return FAC_OK;
}

static fac_status run_range(void *ctx, int64_t begin, int64_t end, void *scratch) {
    const library_job *j = ctx;
    fac_conv_lane lane = {0};
    fac_status st = FAC_OK;
    for (int64_t t = begin; t < end && st == FAC_OK; t++) {
        int64_t part = t / j->blocks;
        const fac_conv_primitive *p = part == j->parts - 1 ? j->last : j->full;
        if (lane.primitive != p) {
            fac__conv_lane_close(&lane);
            st = fac__conv_lane_open(&lane, p, scratch);
        }
        if (st == FAC_OK) st = run_task(j, &lane, part, t % j->blocks);
    }
    fac__conv_lane_close(&lane);
    return st;
}

static fac_status pack_range(void *ctx, int64_t begin, int64_t end) {
    const library_job *j = ctx;
    for (int64_t b = begin; b < end; b++)
        FAC_TRY(fac__conv_pack_weight(j->full, j->side[FAC_CONV_WEIGHT] + b * j->block[FAC_CONV_WEIGHT] * item(j),
                                      j->packed + b * j->packed_bytes));
    return FAC_OK;
}

/* The result is the parts' sums, added in order, or what is in its place. */
static fac_status add_range(void *ctx, int64_t begin, int64_t end) {
    const library_job *j = ctx;
    for (int64_t p = 1; p < j->parts && j->result == FAC_CONV_WEIGHT; p++) {
        const float *sum = j->sums + p * j->part[FAC_CONV_WEIGHT];
        for (int64_t i = begin; i < end; i++) j->sums[i] += sum[i];
    }
    fac__casts[type(j)][FAC_F32](j->side[j->result] + begin * item(j), 1, j->sums + begin, 1, end - begin);
    return FAC_OK;
}

/* ---- a call ------------------------------------------------------------------------------------------------------------- */

static fac_status run_tasks(library_job *j) {
    int64_t tasks = j->parts * j->blocks, each = (int64_t)(work_of(j->c) / (double)tasks) + 1;
    if (j->packed) FAC_TRY(fac__parallel_for(0, j->blocks, 1, pack_range, j));
    int64_t lane = fac__max(fac__conv_lane_bytes(j->full), fac__conv_lane_bytes(j->last));
    FAC_TRY(fac__parallel_for_scratch(0, tasks, fac__max(1, GRAIN / each), lane, run_range, j));
    if (!j->sums) return FAC_OK;
    const int64_t size = j->result == FAC_CONV_WEIGHT ? weight_size(j->c) : j->parts * j->part[j->result];
    return fac__parallel_for(0, size, SUM_CHUNK, add_range, j);
}

/* With packed weights and room for sums. */
static fac_status run(library_job *j) {
    const bool packs = j->result != FAC_CONV_WEIGHT && j->full->reorder[FAC_CONV_WEIGHT];
    j->packed_bytes = packs ? (j->full->bytes[FAC_CONV_WEIGHT] + 63) / 64 * 64 : 0;
    const int64_t packed = j->blocks * j->packed_bytes,
                  sums = has_sums(j) ? j->parts * j->part[j->result] * (int64_t)sizeof(float) : 0;
    if (packed + sums == 0) return run_tasks(j);
    fac_workspace block;
    FAC_TRY(fac__workspace_take(packed + sums, &block));
    if (packs) j->packed = block.at;
    if (sums) j->sums = (float *)(void *)(block.at + packed);
    fac_status st = run_tasks(j);
    fac__workspace_give(block);
    return st;
}

static fac_status by_sides(const fac_conv *c, fac_conv_side result, const fac_conv_arrays *arrays, bool *done) {
    *done = false;
    library_job j = {.c = c, .result = result, .bias = arrays->bias, .bf16 = arrays->bf16};
    j.innermost = arrays->last, j.weight_innermost = arrays->weight_last;
    memcpy(j.side, arrays->side, sizeof j.side);
    cut(&j);
    set_strides(&j);
    fac_conv_primitive rooms[2];
    fac_conv_shape full = shape_of(&j, j.images), last = shape_of(&j, c->batch - (j.parts - 1) * j.images);
    fac_status st = fac__conv_primitive_take(&full, &rooms[0], &j.full);
    if (st == FAC_OK) st = fac__conv_primitive_take(&last, &rooms[1], &j.last);
    if (st == FAC_OK && j.full->compute && j.last->compute) {
        st = run(&j);
        *done = st == FAC_OK;
    }
    fac__conv_primitive_give(j.last, &rooms[1]);
    fac__conv_primitive_give(j.full, &rooms[0]);
    return st;
}

/* With steps of 1 a large side of f32 is the small side of the convolution with the sides exchanged and the kernel turned round:
   on wide images oneDNN makes that a quarter faster. */
static bool turns(const fac_conv *c, fac_conv_side result, const fac_conv_arrays *a) {
    bool turns = result == FAC_CONV_LARGE && c->groups == 1 && c->taps > 1 && !a->bf16 && !a->last && !a->weight_last &&
                 c->batch * c->small_count >= TURNED_POINTS;
    for (int d = 0; d < FAC_CONV_DIMS; d++)
        turns = turns && c->stride[d] == 1 && c->dilation[d] * (c->kernel[d] - 1) >= c->padding[d];
    return turns;
}

static fac_conv exchanged(const fac_conv *c) {
    fac_conv e = *c;
    e.small = c->large, e.large = c->small;
    e.small_count = c->large_count, e.large_count = c->small_count;
    memcpy(e.small_size, c->large_size, sizeof e.small_size);
    memcpy(e.large_size, c->small_size, sizeof e.large_size);
    for (int d = 0; d < FAC_CONV_DIMS; d++) e.padding[d] = c->dilation[d] * (c->kernel[d] - 1) - c->padding[d];
    return e;
}

/* [small, large, taps] -> [large, small, taps from the last on]. */
static void turn_weight(const fac_conv *c, const float *from, float *to) {
    for (int64_t s = 0; s < c->small; s++)
        for (int64_t l = 0; l < c->large; l++, from += c->taps) {
            float *end = to + (l * c->small + s + 1) * c->taps - 1;
            for (int64_t t = 0; t < c->taps; t++) end[-t] = from[t];
        }
}

fac_status fac__conv_library(const fac_conv *c, fac_conv_side result, const fac_conv_arrays *arrays, bool *done) {
    if (!turns(c, result, arrays)) return by_sides(c, result, arrays, done);
    const fac_conv e = exchanged(c);
    fac_workspace weight;
    FAC_TRY(fac__workspace_take(weight_size(c) * (int64_t)sizeof(float), &weight));
    turn_weight(c, arrays->side[FAC_CONV_WEIGHT], (float *)(void *)weight.at);
    fac_conv_arrays a = *arrays;
    a.side[FAC_CONV_SMALL] = arrays->side[FAC_CONV_LARGE];
    a.side[FAC_CONV_LARGE] = arrays->side[FAC_CONV_SMALL];
    a.side[FAC_CONV_WEIGHT] = weight.at;
    fac_status st = by_sides(&e, FAC_CONV_SMALL, &a, done);
    fac__workspace_give(weight);
    return st;
}

/* ---- channels in blocks ---------------------------------------------------------------------------------------------------- */

/* A task is an image, or blocks of channels of one. Nothing is reordered: oneDNN computes with the arrays where they are. */
typedef struct blocked_job {
    const fac_conv *c;
    const fac_conv_blocked *arrays;
    fac_conv_primitive *primitive;
    int64_t blocks; /* tasks of an image */
    int64_t image[2], weight,
        channels; /* floats from image to image of the small and large side; per task: of a weight; channels */
} blocked_job;

static fac_status run_blocked(void *ctx, int64_t begin, int64_t end, void *scratch) {
    const blocked_job *j = ctx;
    fac_conv_lane lane = {0};
    fac_status st = fac__conv_lane_open(&lane, j->primitive, scratch);
    for (int64_t t = begin; t < end && st == FAC_OK; t++) {
        const int64_t n = t / j->blocks, block = t % j->blocks;
        void *side[FAC_CONV_SIDES] = {[FAC_CONV_SMALL] =
                                          j->arrays->small + n * j->image[0] + block * (j->image[0] / j->blocks),
                                      [FAC_CONV_LARGE] = (float *)(uintptr_t)j->arrays->large + n * j->image[1],
                                      [FAC_CONV_WEIGHT] = (float *)(uintptr_t)j->arrays->weight + block * j->weight};
        st = fac__conv_lane_run(&lane, side, j->arrays->bias ? j->arrays->bias + block * j->channels : NULL);
    }
    fac__conv_lane_close(&lane);
    return st;
}

static fac_conv_shape blocked_shape(const fac_conv *c, const fac_conv_blocked *a, int64_t blocks) {
    fac_conv_shape s = {.result = FAC_CONV_SMALL, .nd = c->nd, .images = 1, .groups = c->groups};
    s.small = c->small / blocks, s.large = c->large;
    memcpy(s.small_size, c->small_size, sizeof s.small_size);
    memcpy(s.large_size, c->large_size, sizeof s.large_size);
    memcpy(s.kernel, c->kernel, sizeof s.kernel);
    memcpy(s.stride, c->stride, sizeof s.stride);
    memcpy(s.padding, c->padding, sizeof s.padding);
    memcpy(s.dilation, c->dilation, sizeof s.dilation);
    s.large_pitch = c->groups * c->large * c->large_count;
    s.bias = a->bias != NULL;
    s.block = a->block, s.large_block = a->large_block;
    return s;
}

fac_status fac__conv_library_blocked(const fac_conv *c, const fac_conv_blocked *a, bool *done) {
    const int64_t wanted = fac__div_up(wanted_tasks(c), fac__max(c->batch, 1));
    blocked_job j = {.c = c, .arrays = a};
    j.blocks = c->groups > 1 ? 1 : even_blocks(c->small, a->block, wanted);
    j.channels = c->small / j.blocks;
    const int64_t large = a->large_block ? fac__div_up(c->large, a->block) * a->block : c->large;
    j.image[0] = c->groups * fac__div_up(c->small, a->block) * a->block * c->small_count;
    j.image[1] = c->groups * large * c->large_count;
    j.weight = fac__div_up(j.channels, a->block) * a->block * large * c->taps;
    fac_conv_primitive room;
    const fac_conv_shape shape = blocked_shape(c, a, j.blocks);
    *done = false;
    fac_status st = fac__conv_primitive_take(&shape, &room, &j.primitive);
    if (st == FAC_OK && j.primitive->compute) {
        const int64_t tasks = c->batch * j.blocks, each = (int64_t)(work_of(c) / (double)fac__max(tasks, 1)) + 1;
        st = fac__parallel_for_scratch(0, tasks, fac__max(1, GRAIN / each), fac__conv_lane_bytes(j.primitive),
                                       run_blocked, &j);
        *done = st == FAC_OK;
    }
    fac__conv_primitive_give(j.primitive, &room);
    return st;
}
