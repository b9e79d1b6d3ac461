/* Winograd's F(2x2, 3x3): of each 4x4 tile of the input, which makes 2x2 points of the result, and of the 3x3 weights, 16 combinations are
   made, whose products, summed over channels, are combined to the result: 16 multiplications in the place of 36.

   Combinations of weights are packed once a call. A task is some tiles, whose combinations lie in the L2 cache; for each block of channels
   of the result the products are those of conv_last.isa.c. All is f32; errors are some times those of plain sums, relative to the
   largest number of a tile. What is not finite would spread over tiles: the caller then computes the plain sums. */
#include "backend/cpu/kernels/conv_winograd.h"
#include "backend/cpu/parallel.h"
#include <stdatomic.h>

enum {
    IN_BYTES = 3 << 18,  /* combinations of a task's tiles */
    TILES = 96,          /* of a task, at most */
    UNIT = 12,           /* of which tiles are a multiple */
    LEAST_CHANNELS = 24, /* of either side: with fewer the combinations cost what they save */
    LEAST_POINTS = 512   /* that repay the combinations of the weights */
};

typedef struct winograd_job {
    const fac_conv *c;
    const fac_conv_arrays *arrays;
    bool down;                               /* towards the large side */
    int64_t in_channels, out_channels, room; /* room: of the input, whole vectors */
    int64_t in_size[2], out_size[2], first[2], tiles[2];
    int64_t all, per_task; /* tiles */
    int64_t vectors, blocks;
    float *packed; /* [block][16][in_channels][vectors] */
    const float *zeros;
    atomic_bool spoiled;
} winograd_job;

bool fac__conv_winograd_suits(const fac_conv *c, fac_conv_side result, fac_dtype d) {
    if (fac__cpu_isa < FAC_ISA_AVX512 || d != FAC_F32 || result == FAC_CONV_WEIGHT || c->nd != 2 || c->groups != 1)
        return false;
    for (int i = 0; i < 2; i++)
        if (c->kernel[i] != 3 || c->stride[i] != 1 || c->dilation[i] != 1 || c->padding[i] > 2) return false;
    return fac__min(c->small, c->large) >= LEAST_CHANNELS && c->batch * c->small_count >= LEAST_POINTS &&
           fac__min(c->small_size[0], c->small_size[1]) > 1;
}

static int64_t vectors_before(const winograd_job *j, int64_t block) {
    return j->vectors / j->blocks * block + fac__min(block, j->vectors % j->blocks);
}
static float *packed_at(const winograd_job *j, int64_t block) {
    return j->packed + vectors_before(j, block) * FAC_CONV_LANES * FAC_WINOGRAD_POINTS * j->in_channels;
}

static fac_status pack_range(void *ctx, int64_t begin, int64_t end, void *scratch) {
    const winograd_job *j = ctx;
    const fac_conv *c = j->c;
    const bool last = j->arrays->weight_last;
    const int64_t of_large = last ? 1 : 9, of_small = c->large * 9, of_tap = last ? c->large : 1;
    for (int64_t b = begin; b < end; b++) {
        const int64_t before = vectors_before(j, b), channel = before * FAC_CONV_LANES,
                      ld = (vectors_before(j, b + 1) - before) * FAC_CONV_LANES, n = j->in_channels * ld;
        fac_conv_pack w = {.depth = j->in_channels, .channels = j->out_channels - channel, .ld = ld};
        w.is = j->down ? of_large : of_small;
        w.ks = j->down ? of_small : of_large;
        const char *weight = (const char *)j->arrays->side[FAC_CONV_WEIGHT] + channel * w.is * (int64_t)sizeof(float);
        uint32_t *taps[9];
        for (int t = 0; t < 9; t++) {
            taps[t] = (uint32_t *)scratch + (j->down ? 8 - t : t) * n;
            w.from = weight + t * of_tap * (int64_t)sizeof(float);
            w.to = taps[t];
            if (j->down || last) FAC_ISA_PICK(fac__conv_last_pack)(&w);
        }
        w.from = weight;
        if (!j->down && !last) FAC_ISA_PICK(fac__conv_last_pack_taps)(&w, taps);
        FAC_ISA_PICK(fac__winograd_weight)(scratch, packed_at(j, b), n);
    }
    return FAC_OK;
}

typedef struct place {
    int64_t image, at[2]; /* of the result's first point */
} place;
static place place_of(const winograd_job *j, int64_t tile) {
    const int64_t y = tile % j->tiles[1], x = tile / j->tiles[1] % j->tiles[0];
    return (place){tile / j->tiles[1] / j->tiles[0], {x * FAC_WINOGRAD_OUT, y * FAC_WINOGRAD_OUT}};
}

static void read_tile(const winograd_job *j, int64_t tile, float *to, int64_t step) {
    const place p = place_of(j, tile);
    const float *image = (const float *)j->arrays->side[j->down ? FAC_CONV_SMALL : FAC_CONV_LARGE] +
                         p.image * j->in_size[0] * j->in_size[1] * j->in_channels;
    const float *from[FAC_WINOGRAD_POINTS];
    for (int64_t i = 0; i < FAC_WINOGRAD_POINTS; i++) {
        const int64_t x = p.at[0] + j->first[0] + i / 4, y = p.at[1] + j->first[1] + i % 4;
        const bool in = x >= 0 && x < j->in_size[0] && y >= 0 && y < j->in_size[1];
        from[i] = in ? image + (x * j->in_size[1] + y) * j->in_channels : j->zeros;
    }
    FAC_ISA_PICK(fac__winograd_in)(from, j->in_channels, to, step);
}

static bool write_tile(const winograd_job *j, int64_t tile, const float *from, int64_t step, int64_t channel,
                       int64_t channels) {
    const place p = place_of(j, tile);
    float *to[FAC_WINOGRAD_OUT * FAC_WINOGRAD_OUT],
        *image = (float *)j->arrays->side[j->down ? FAC_CONV_LARGE : FAC_CONV_SMALL] +
                 p.image * j->out_size[0] * j->out_size[1] * j->out_channels + channel;
    for (int64_t i = 0; i < 4; i++) {
        const int64_t x = p.at[0] + i / 2, y = p.at[1] + i % 2;
        const bool in = x < j->out_size[0] && y < j->out_size[1];
        to[i] = in ? image + (x * j->out_size[1] + y) * j->out_channels : NULL;
    }
    const float *bias = j->arrays->bias ? (const float *)j->arrays->bias + channel : NULL;
    return FAC_ISA_PICK(fac__winograd_out)(from, step, channels, bias, to);
}

/* The room of a task: combinations of its tiles, their products, and where tiles lie in either. */
typedef struct lane {
    float *in, *out;
    int64_t *from, *to;
} lane;

static bool run_block(const winograd_job *j, int64_t block, int64_t first, int64_t n, const lane *l) {
    const int64_t before = vectors_before(j, block), vectors = vectors_before(j, block + 1) - before,
                  ld = vectors * FAC_CONV_LANES, channel = before * FAC_CONV_LANES;
    const fac_conv_run run = {0, j->in_channels};
    fac_conv_tiles t = {.from = l->from, .to = l->to, .points = n, .runs = &run, .n_runs = 1, .done = true};
    t.vectors = (int)vectors;
    t.channels = (int)ld;
    for (int64_t i = 0; i < n; i++) {
        l->from[i] = i * j->room * (int64_t)sizeof(float);
        l->to[i] = i * ld * (int64_t)sizeof(float);
    }
    for (int64_t x = 0; x < FAC_WINOGRAD_POINTS; x++) {
        t.in = (const char *)(l->in + x * n * j->room);
        t.out = (char *)(l->out + x * n * ld);
        t.weight = packed_at(j, block) + x * j->in_channels * ld;
        FAC_ISA_PICK(fac__conv_last_tiles)(&t);
    }
    bool finite = true;
    for (int64_t i = 0; i < n; i++)
        finite = write_tile(j, first + i, l->out + i * ld, n * ld, channel, fac__min(ld, j->out_channels - channel)) &&
                 finite;
    return finite;
}

static int64_t in_floats(const winograd_job *j) { return FAC_WINOGRAD_POINTS * j->per_task * j->room; }
static int64_t out_floats(const winograd_job *j) {
    return FAC_WINOGRAD_POINTS * j->per_task * FAC_CONV_VECTORS * FAC_CONV_LANES;
}

static fac_status run_range(void *ctx, int64_t begin, int64_t end, void *scratch) {
    winograd_job *j = ctx;
    lane l = {.in = scratch};
    l.out = l.in + in_floats(j);
    l.from = (int64_t *)(void *)(l.out + out_floats(j));
    l.to = l.from + j->per_task;
    for (int64_t t = begin; t < end; t++) {
        const int64_t first = t * j->per_task, n = fac__min(j->per_task, j->all - first);
        for (int64_t i = 0; i < n; i++) read_tile(j, first + i, l.in + i * j->room, n * j->room);
        for (int64_t b = 0; b < j->blocks; b++)
            if (!run_block(j, b, first, n, &l)) atomic_store_explicit(&j->spoiled, true, memory_order_relaxed);
    }
    return FAC_OK;
}

static void plan(winograd_job *j) {
    const fac_conv *c = j->c;
    j->in_channels = j->down ? c->small : c->large;
    j->out_channels = j->down ? c->large : c->small;
    for (int d = 0; d < 2; d++) {
        j->in_size[d] = j->down ? c->small_size[d] : c->large_size[d];
        j->out_size[d] = j->down ? c->large_size[d] : c->small_size[d];
        j->first[d] = j->down ? c->padding[d] - 2 : -c->padding[d];
        j->tiles[d] = fac__div_up(j->out_size[d], FAC_WINOGRAD_OUT);
    }
    j->room = fac__div_up(j->in_channels, FAC_CONV_LANES) * FAC_CONV_LANES;
    j->vectors = fac__div_up(j->out_channels, FAC_CONV_LANES);
    j->blocks = fac__div_up(j->vectors, FAC_CONV_VECTORS);
    j->all = c->batch * j->tiles[0] * j->tiles[1];
    const int64_t fit = IN_BYTES / (FAC_WINOGRAD_POINTS * j->room * (int64_t)sizeof(float)) / UNIT * UNIT;
    j->per_task = fac__max(UNIT, fac__min(fit, TILES));
}

fac_status fac__conv_winograd(const fac_conv *c, fac_conv_side result, const fac_conv_arrays *arrays, bool *done) {
    winograd_job j = {.c = c, .arrays = arrays, .down = result == FAC_CONV_LARGE};
    plan(&j);
    const int64_t weights = j.vectors * FAC_CONV_LANES * FAC_WINOGRAD_POINTS * j.in_channels;
    fac_workspace packed;
    FAC_TRY(fac__workspace_take((weights + j.room) * (int64_t)sizeof(float), &packed));
    j.packed = (float *)(void *)packed.at;
    memset(j.packed + weights, 0, (size_t)j.room * sizeof(float));
    j.zeros = j.packed + weights;
    const int64_t block = 9 * j.in_channels * FAC_CONV_VECTORS * FAC_CONV_LANES * (int64_t)sizeof(float);
    fac_status st = fac__parallel_for_scratch(0, j.blocks, 1, block, pack_range, &j);
    const int64_t bytes =
        (in_floats(&j) + out_floats(&j)) * (int64_t)sizeof(float) + 2 * j.per_task * (int64_t)sizeof(int64_t);
    if (st == FAC_OK) st = fac__parallel_for_scratch(0, fac__div_up(j.all, j.per_task), 1, bytes, run_range, &j);
    *done = st == FAC_OK && !atomic_load_explicit(&j.spoiled, memory_order_relaxed);
    fac__workspace_give(packed);
    return st;
}
