/* Convolutions of innermost channels in f32 and bf16, towards either side, without windows: a point of the result times a block of its
   channels is a sum over taps and channels, which lie side by side at an offset from a place in the input. Towards the large side,
   points whose positions are alike modulo the strides have the same taps, with constant offsets: each such phase is a convolution
   with steps of 1. Taps that meet nothing but padding at every point are left out.

   Weights are packed once a call. A task is some lines of an image (or some small images), whose input is copied with padding unless it
   has none, for all blocks of channels or a part of them. Long sums run in passes, whose weights stay in the L2 cache. Tasks are cut
   by shape, and each sum has one order: taps by place, channels within them.

   Where each channel has a weight of its own (`single`), blocks of channels are computed apart: they are copied to planes of vectors of
   f32, with padding. Sums are in f32. */
#include "backend/cpu/kernels/conv_last.h"
#include "backend/cpu/gemm.h"
#include "backend/cpu/parallel.h"
#include "core/scalar.h"

enum {
    BAND_BYTES = 1 << 18,  /* of input in a task */
    PLANE_BYTES = 1 << 18, /* of a band of single channels, per block */
    BAND_POINTS = 2048,    /* of the result in a task, at most, but for a single line */
    SUM_POINTS = 768,      /* the same if there are passes */
    FEW_LINES = 6,         /* of an image, not to be undercut for the sake of the cache */
    HEAVY_BYTES = 1 << 20, /* of packed weights */
    MORE_POINTS = 192,     /* together, for these */
    FEW_POINTS = 96,       /* images of less are put together */
    PASS_WORDS = 768,      /* of a sum whose weights are read again and again */
    LEAST_ROWS = 64,       /* of a product of matrices */
    PHASES = 64,           /* at most */
    PLANES = 2,            /* blocks of single channels in a task */
    TAPS = 1024,           /* at most */
    TASKS = 8,             /* wanted, where the work is worth it */
    TASK_WORK = 1 << 22,   /* multiply-adds that are */
    LEAST_WORK = 1 << 14,  /* multiply-adds from which packing the weights is repaid */
    LEAST_CHANNELS = 12    /* of a result: fewer leave most of a vector empty */
};

typedef struct last_tap {
    int64_t number, at[FAC_CONV_DIMS]; /* the offset in points of the input */
} last_tap;

typedef struct phase {
    int64_t count[FAC_CONV_DIMS], start[FAC_CONV_DIMS]; /* of the result's points */
    last_tap *taps;
    fac_conv_run *runs;
    int64_t n_taps, n_runs, words; /* words: of all runs */
    int64_t packed;                /* words in front of its weights */
    int64_t *from, *to;            /* bytes from the input's and the result's start */
} phase;

typedef struct last_job {
    const fac_conv *c;
    const fac_conv_arrays *arrays;
    fac_conv_side result;
    bool bf16, single, copies;
    int64_t item, in_channels, out_channels;                 /* per group */
    int64_t in_size[FAC_CONV_DIMS], out_size[FAC_CONV_DIMS]; /* points */
    int64_t in_step[FAC_CONV_DIMS], out_step[FAC_CONV_DIMS];
    int64_t first[FAC_CONV_DIMS], width[FAC_CONV_DIMS]; /* of what is read of the input */
    int64_t span;                                       /* lines of the input that a line of the result may meet */
    int64_t room;                                       /* channels per group in what is read: even for bf16 */
    int64_t line[FAC_CONV_DIMS];                        /* bytes from point to point of what is read */
    int64_t vectors, blocks;                            /* of the result's channels, per group */
    int64_t n_phases, words_of_tap;
    int64_t tap_lines; /* of single channels: lines_of_taps */
    phase *phases;
    last_tap *taps;
    fac_conv_run *runs;
    uint32_t *packed;
    int64_t packed_words;
    /* the cut */
    int64_t lines, bands, images, chunks, parts; /* lines per band, images per chunk; parts of blocks and groups */
    int64_t points, band_bytes, image_bytes;     /* of a task; of what is read of an image */
    int64_t plane_bytes;                         /* of one block of channels, if these are single */
    int64_t pass;                                /* words of a sum that are added before others */
    bool sums;
} last_job;

/* ---- the plan ------------------------------------------------------------------------------------------------------------- */

/* Taps of one dimension for points start + out_step * q, q < count, in the order of their offsets. */
static int64_t taps_of(const last_job *j, int d, int64_t start, int64_t count, int64_t *tap, int64_t *at) {
    const fac_conv *c = j->c;
    const bool down = j->result == FAC_CONV_LARGE;
    int64_t n = 0;
    for (int64_t i = 0; i < c->kernel[d]; i++) {
        const int64_t t = down ? c->kernel[d] - 1 - i : i;
        int64_t offset = down ? start + c->padding[d] - t * c->dilation[d] : t * c->dilation[d] - c->padding[d];
        if (down && offset % c->stride[d]) continue;
        if (down) offset /= c->stride[d];
        const int64_t q = offset < 0 ? fac__div_up(-offset, j->in_step[d]) : 0;
        if (q >= count || q * j->in_step[d] + offset >= j->in_size[d]) continue;
        tap[n] = t;
        at[n++] = offset;
    }
    return n;
}

static void plan_phase(last_job *j, phase *p, int64_t number, last_tap **room) {
    const fac_conv *c = j->c;
    int64_t tap[FAC_CONV_DIMS][TAPS / 8 + 1], at[FAC_CONV_DIMS][TAPS / 8 + 1], n[FAC_CONV_DIMS];
    for (int d = FAC_CONV_DIMS - 1; d >= 0; d--) {
        p->start[d] = number % j->out_step[d];
        number /= j->out_step[d];
        p->count[d] = fac__max(0, fac__div_up(j->out_size[d] - p->start[d], j->out_step[d]));
        n[d] = taps_of(j, d, p->start[d], p->count[d], tap[d], at[d]);
    }
    p->taps = *room;
    for (int64_t x = 0; x < n[0]; x++)
        for (int64_t y = 0; y < n[1]; y++)
            for (int64_t z = 0; z < n[2]; z++)
                *(*room)++ = (last_tap){(tap[0][x] * c->kernel[1] + tap[1][y]) * c->kernel[2] + tap[2][z],
                                        {at[0][x], at[1][y], at[2][z]}};
    p->n_taps = *room - p->taps;
    p->words = p->n_taps * j->words_of_tap;
}

/* What is read of the input by all phases, and whether it has to be copied. */
static void plan_reads(last_job *j) {
    int64_t end[FAC_CONV_DIMS] = {0}, furthest = 0;
    for (int64_t i = 0, n = 0; i < j->n_phases; i++) {
        const phase *p = &j->phases[i];
        for (int64_t t = 0; t < p->n_taps; t++, n++) {
            for (int d = 0; d < FAC_CONV_DIMS; d++) {
                const int64_t at = p->taps[t].at[d], last = (p->count[d] - 1) * j->in_step[d] + at + 1;
                j->first[d] = n ? fac__min(j->first[d], at) : at;
                end[d] = n ? fac__max(end[d], last) : last;
            }
            furthest = n ? fac__max(furthest, p->taps[t].at[0]) : p->taps[t].at[0];
        }
    }
    j->span = furthest - j->first[0] + 1;
    j->copies = j->bf16 && j->in_channels % 2;
    for (int d = 0; d < FAC_CONV_DIMS; d++) {
        j->width[d] = fac__max(1, end[d] - j->first[d]);
        j->copies = j->copies || j->first[d] < 0 || end[d] > j->in_size[d];
    }
    j->copies = j->copies || j->single;
    j->room = j->bf16 ? (j->in_channels + 1) / 2 * 2 : j->in_channels;
    const int64_t *size = j->copies ? j->width : j->in_size;
    j->line[2] = j->single ? FAC_CONV_LANES * (int64_t)sizeof(float) : j->c->groups * j->room * j->item;
    j->line[1] = j->line[2] * size[2];
    j->line[0] = j->line[1] * size[1];
}

static void plan_runs(last_job *j, phase *p, fac_conv_run **room) {
    p->runs = *room;
    for (int64_t t = 0; t < p->n_taps; t++) {
        int64_t offset = 0;
        for (int d = 0; d < FAC_CONV_DIMS; d++) offset += (p->taps[t].at[d] - j->first[d]) * j->line[d];
        fac_conv_run *last = *room - 1;
        const int64_t word = j->single ? j->line[2] : 4;
        if (t > 0 && last->offset + last->length * word == offset)
            last->length += j->words_of_tap;
        else
            *(*room)++ = (fac_conv_run){offset, j->words_of_tap};
    }
    p->n_runs = *room - p->runs;
}

/* The lines of taps of single channels, if these are so many lines of as many taps, of which each lies a line of the input behind the one
   before, and points and lines of the result lie side by side in the input; else 0. */
static int64_t lines_of_taps(const last_job *j) {
    const phase *p = &j->phases[0];
    if (!j->single || j->c->nd != 2 || j->n_phases > 1 || j->in_step[0] != 1 || j->in_step[2] != 1 || !p->n_taps)
        return 0;
    int64_t taps = 1;
    while (taps < p->n_taps && p->taps[taps].at[0] == p->taps[0].at[0]) taps++;
    const int64_t rows = p->n_taps / taps, span = p->taps[p->n_taps - 1].at[0] - p->taps[0].at[0];
    return p->count[2] >= FAC_CONV_WIDTH && span == rows - 1 ? rows : 0;
}

static void cut(last_job *j, double work) {
    const fac_conv *c = j->c;
    const int64_t all = j->phases[0].count[0], row = fac__max(1, j->phases[0].count[1] * j->phases[0].count[2]);
    const int64_t planes = j->single ? fac__div_up(j->blocks, fac__div_up(j->blocks, PLANES)) : 1;
    const int64_t bytes = j->in_step[0] * j->line[0] * planes, more = j->span;
    const int64_t most = j->single ? PLANE_BYTES * planes : BAND_BYTES;
    int64_t lines =
        fac__min(most / fac__max(1, bytes) - more, j->single ? all : (j->sums ? SUM_POINTS : BAND_POINTS) / row);
    /* Of long lines some more, as those at the ends are copied twice. */
    if (lines < FEW_LINES && (FEW_LINES + more) * bytes <= 4 * most) lines = FEW_LINES;
    lines = fac__max(1, fac__min(lines, all));
    j->bands = fac__div_up(all, lines);
    j->lines = fac__div_up(all, j->bands);
    j->images = 1;
    if (j->bands == 1) { /* heavy weights are read for more points at a time */
        const bool heavy = j->packed_words * 4 > HEAVY_BYTES && !j->single;
        const int64_t points = heavy ? MORE_POINTS : FEW_POINTS, room = heavy ? 4 * BAND_BYTES : BAND_BYTES;
        j->images = fac__min(points / (row * all), room / fac__max(1, j->line[0] * j->width[0] * planes));
    }
    j->images = fac__max(1, fac__min(j->images, c->batch));
    j->chunks = fac__div_up(c->batch, j->images);
    const int64_t tasks = j->bands * j->chunks, wanted = work >= (double)TASK_WORK * TASKS ? TASKS : 1;
    j->parts = fac__min(j->blocks * c->groups, fac__div_up(wanted, tasks));
    if (j->single) j->parts = fac__div_up(j->blocks, planes);
    j->points = j->images * j->lines * row;
    const int64_t lines_read = j->tap_lines ? (j->lines + 1) / 2 * 2 : j->lines,
                  read = j->copies ? (lines_read - 1) * j->in_step[0] + more : j->in_size[0];
    j->plane_bytes = read * j->line[0];
    j->image_bytes = j->plane_bytes * planes;
    j->band_bytes = j->copies ? fac__workspace_round(j->images * j->image_bytes) : 0;
}

static void plan(last_job *j, double work) {
    last_tap *taps = j->taps;
    fac_conv_run *runs = j->runs;
    j->words_of_tap = j->bf16 && !j->single ? (j->in_channels + 1) / 2 : j->in_channels;
    for (int64_t i = 0; i < j->n_phases; i++) plan_phase(j, &j->phases[i], i, &taps);
    plan_reads(j);
    for (int64_t i = 0; i < j->n_phases; i++) {
        phase *p = &j->phases[i];
        plan_runs(j, p, &runs);
        p->packed = j->packed_words;
        j->packed_words += p->words * (j->single ? 1 : j->c->groups) * j->vectors * FAC_CONV_LANES;
        j->sums = j->sums || (p->words > j->pass && !j->single);
    }
    j->tap_lines = lines_of_taps(j);
    cut(j, work);
}

/* What is read and written at the points of a phase in the first band of the first chunk; others are that far behind. */
static void find_points(const last_job *j, phase *p, int64_t *room) {
    const int64_t point = j->c->groups * j->out_channels * j->item, lines = fac__min(j->lines, p->count[0]);
    const int64_t shift =
        j->copies ? 0 : j->first[0] * j->line[0] + j->first[1] * j->line[1] + j->first[2] * j->line[2];
    int64_t *from = p->from = room, *to = p->to = room + j->points;
    for (int64_t i = 0; i < j->images; i++) {
        for (int64_t x = 0; x < lines; x++) {
            for (int64_t y = 0; y < p->count[1]; y++) {
                const int64_t read =
                    i * j->image_bytes + x * j->in_step[0] * j->line[0] + y * j->in_step[1] * j->line[1] + shift;
                const int64_t row = (i * j->out_size[0] + p->start[0] + x * j->out_step[0]) * j->out_size[1] +
                                    p->start[1] + y * j->out_step[1];
                const int64_t at = (row * j->out_size[2] + p->start[2]) * point;
                for (int64_t z = 0; z < p->count[2]; z++) {
                    *from++ = read + z * j->in_step[2] * j->line[2];
                    *to++ = at + z * j->out_step[2] * point;
                }
            }
        }
    }
}

/* ---- packing -------------------------------------------------------------------------------------------------------------- */

/* The vectors of a block of channels, and those in front of it. */
static int64_t vectors_before(const last_job *j, int64_t block) {
    return j->vectors / j->blocks * block + fac__min(block, j->vectors % j->blocks);
}
static int64_t vectors_of(const last_job *j, int64_t block) {
    return vectors_before(j, block + 1) - vectors_before(j, block);
}
static uint32_t *packed_at(const last_job *j, const phase *p, int64_t g, int64_t block) {
    return j->packed + p->packed + (g * j->vectors + vectors_before(j, block)) * FAC_CONV_LANES * p->words;
}

static const char *single_weight(const last_job *j, const phase *p, int64_t channel, int64_t tap) {
    return (const char *)j->arrays->side[FAC_CONV_WEIGHT] + (channel * j->c->taps + p->taps[tap].number) * j->item;
}

/* Taps of single channels, as vectors. */
static void pack_single(const last_job *j, const phase *p, int64_t block) {
    const int64_t first = block * FAC_CONV_LANES, channels = fac__min(FAC_CONV_LANES, j->c->groups - first);
    float *to = (float *)(void *)packed_at(j, p, 0, block);
    for (int64_t t = 0; t < p->n_taps; t++, to += FAC_CONV_LANES) {
        memset(to, 0, FAC_CONV_LANES * sizeof *to);
        for (int64_t i = 0; i < channels; i++) {
            const char *at = single_weight(j, p, first + i, t);
            to[i] = j->bf16 ? fac__bf16_to_f32(*(const uint16_t *)(const void *)at) : *(const float *)(const void *)at;
        }
    }
}

/* As pairs along the lines of taps. */
static void pack_single_pairs(const last_job *j, const phase *p, int64_t block) {
    const int64_t first = block * FAC_CONV_LANES, channels = fac__min(FAC_CONV_LANES, j->c->groups - first),
                  taps = p->n_taps / j->tap_lines;
    uint16_t *to = (uint16_t *)(void *)packed_at(j, p, 0, block);
    for (int64_t line = 0; line < p->n_taps; line += taps) {
        for (int64_t t = 0; t < taps; t += 2, to += 2 * FAC_CONV_LANES) {
            memset(to, 0, 2 * FAC_CONV_LANES * sizeof *to);
            for (int64_t i = 0; i < channels; i++) {
                memcpy(&to[2 * i], single_weight(j, p, first + i, line + t), sizeof *to);
                if (t + 1 < taps) memcpy(&to[2 * i + 1], single_weight(j, p, first + i, line + t + 1), sizeof *to);
            }
        }
    }
}

static fac_status pack_range(void *ctx, int64_t begin, int64_t end, void *scratch) {
    const last_job *j = ctx;
    const fac_conv *c = j->c;
    const bool last = j->arrays->weight_last || c->taps == 1, down = j->result == FAC_CONV_LARGE;
    const int64_t of_large = last ? 1 : c->taps, of_small = c->large * c->taps, of_tap = last ? c->large : 1;
    for (int64_t i = begin; i < end; i++) {
        const phase *p = &j->phases[j->single ? i / j->blocks : i / j->blocks / c->groups];
        if (j->single) {
            if (j->bf16 && j->tap_lines)
                pack_single_pairs(j, p, i % j->blocks);
            else
                pack_single(j, p, i % j->blocks);
            continue;
        }
        const int64_t block = i % j->blocks, g = i / j->blocks % c->groups,
                      channel = vectors_before(j, block) * FAC_CONV_LANES;
        fac_conv_pack w = {.depth = j->in_channels, .channels = j->out_channels - channel, .bf16 = j->bf16};
        w.ld = vectors_of(j, block) * FAC_CONV_LANES;
        w.is = down ? of_large : of_small;
        w.ks = down ? of_small : of_large;
        const char *weight =
            (const char *)j->arrays->side[FAC_CONV_WEIGHT] + (g * c->small * of_small + channel * w.is) * j->item;
        uint32_t *to = packed_at(j, p, g, block), **taps = scratch;
        const bool together = !down && !last && p->n_taps > 0;
        for (int64_t t = 0; t < c->taps && together; t++) taps[t] = NULL;
        for (int64_t t = 0; t < p->n_taps; t++, to += j->words_of_tap * w.ld) {
            w.from = weight + p->taps[t].number * of_tap * j->item;
            w.to = to;
            if (together)
                taps[p->taps[t].number] = to;
            else
                FAC_ISA_PICK(fac__conv_last_pack)(&w);
        }
        w.from = weight;
        if (together) FAC_ISA_PICK(fac__conv_last_pack_taps)(&w, taps);
    }
    return FAC_OK;
}

/* ---- tasks ---------------------------------------------------------------------------------------------------------------- */

/* Odd channels of n points of all groups, each filled up to an even number. */
static void copy_odd(const last_job *j, const uint16_t *from, int64_t n, uint16_t *to) {
    const int64_t channels = j->in_channels;
    if (channels == 1) {
        for (int64_t i = 0; i < n * j->c->groups; i++, to += 2) to[0] = from[i], to[1] = 0;
    } else if (channels == 3) {
        for (int64_t i = 0; i < n * j->c->groups; i++, to += 4, from += 3)
            to[0] = from[0], to[1] = from[1], to[2] = from[2], to[3] = 0;
    } else {
        for (int64_t i = 0; i < n * j->c->groups; i++, to += channels + 1, from += channels) {
            memcpy(to, from, (size_t)channels * sizeof *to);
            to[channels] = 0;
        }
    }
}

/* Points [0, width) of a line of which those from `begin` to `end` exist, the first at `from`. */
static char *copy_line(const last_job *j, const char *from, int64_t begin, int64_t end, char *to) {
    const int64_t point = j->line[2];
    memset(to, 0, (size_t)(begin * point));
    to += begin * point;
    if (j->room == j->in_channels) {
        memcpy(to, from, (size_t)((end - begin) * point));
    } else {
        copy_odd(j, (const uint16_t *)(const void *)from, end - begin, (uint16_t *)(void *)to);
    }
    to += (end - begin) * point;
    memset(to, 0, (size_t)((j->width[2] - end) * point));
    return to + (j->width[2] - end) * point;
}

/* The part [begin, end) of `width` points from `first` on that is in [0, size). */
static int64_t within(int64_t first, int64_t width, int64_t size, int64_t *end) {
    const int64_t begin = fac__max(0, fac__min(width, -first));
    *end = fac__max(begin, fac__min(width, size - first));
    return begin;
}

/* Lines from `first` on of an image. */
static void copy_image(const last_job *j, const char *image, int64_t first, int64_t lines, char *to) {
    const int64_t point = j->c->groups * j->in_channels * j->item;
    int64_t end, end_of_line;
    const int64_t begin = within(j->first[1], j->width[1], j->in_size[1], &end),
                  begin_of_line = within(j->first[2], j->width[2], j->in_size[2], &end_of_line);
    for (int64_t x = first; x < first + lines; x++) {
        if (x < 0 || x >= j->in_size[0]) {
            memset(to, 0, (size_t)j->line[0]);
            to += j->line[0];
            continue;
        }
        memset(to, 0, (size_t)(begin * j->line[1]));
        to += begin * j->line[1];
        for (int64_t y = begin; y < end; y++)
            to = copy_line(
                j,
                image + ((x * j->in_size[1] + y + j->first[1]) * j->in_size[2] + begin_of_line + j->first[2]) * point,
                begin_of_line, end_of_line, to);
        memset(to, 0, (size_t)((j->width[1] - end) * j->line[1]));
        to += (j->width[1] - end) * j->line[1];
    }
}

/* The same as planes of blocks of channels, of which `channels` from `image` on. */
static void spread_image(const last_job *j, const char *image, int64_t channels, int64_t first, int64_t lines,
                         char *to) {
    const int64_t point = j->c->groups * j->item;
    int64_t end_of_lines, end, end_of_line;
    const int64_t begin_of_lines = within(first, lines, j->in_size[0], &end_of_lines),
                  begin = within(j->first[1], j->width[1], j->in_size[1], &end),
                  begin_of_line = within(j->first[2], j->width[2], j->in_size[2], &end_of_line);
    if (begin_of_lines + begin + begin_of_line || end_of_lines < lines || end < j->width[1] ||
        end_of_line < j->width[2])
        memset(to, 0, (size_t)(j->plane_bytes * fac__div_up(channels, FAC_CONV_LANES)));
    for (int64_t x = begin_of_lines; x < end_of_lines; x++)
        for (int64_t y = begin; y < end; y++) {
            const int64_t line = (first + x) * j->in_size[1] + y + j->first[1];
            const fac_conv_spread of = {
                .from = image + (line * j->in_size[2] + begin_of_line + j->first[2]) * point,
                .to = to + x * j->line[0] + y * j->line[1],
                .begin = begin_of_line,
                .end = end_of_line,
                .point = point,
                .channels = channels,
                .plane = j->plane_bytes,
                .next = j->bf16 && j->tap_lines ? j->c->dilation[2] : 0,
                .bf16 = j->bf16,
            };
            FAC_ISA_PICK(fac__conv_last_spread)(&of);
        }
}

/* Runs that make a pass of at most `most` words from the place (*run, *done) on, which moves on; `own` has room for them. */
static int64_t take_pass(const phase *p, int64_t most, int64_t *run, int64_t *done, fac_conv_run *own, int64_t *words) {
    int64_t n = 0;
    *words = 0;
    while (*run < p->n_runs && *words < most) {
        const fac_conv_run *r = &p->runs[*run];
        const int64_t length = fac__min(r->length - *done, most - *words);
        own[n++] = (fac_conv_run){r->offset + *done * 4, length};
        *words += length;
        *done += length;
        if (*done == r->length) *done = 0, ++*run;
    }
    return n;
}

typedef struct lane {
    char *band;
    float *sums;
    fac_conv_run *runs;
} lane;

static void run_block(const last_job *j, const phase *p, fac_conv_tiles *t, int64_t g, int64_t block, const lane *l) {
    const int64_t channel = vectors_before(j, block) * FAC_CONV_LANES, number = g * j->out_channels + channel;
    t->vectors = (int)vectors_of(j, block);
    t->channels = (int)fac__min(j->out_channels - channel, t->vectors * FAC_CONV_LANES);
    t->bias = j->arrays->bias ? (const char *)j->arrays->bias + number * j->item : NULL;
    const float *weight = (const float *)(const void *)packed_at(j, p, g, block);
    fac_conv_tiles part = *t;
    part.in += g * j->room * j->item;
    part.out += number * j->item;
    const int64_t most = fac__min(j->pass, p->words), passes = fac__div_up(p->words, fac__max(1, most));
    int64_t run = 0, done = 0, words;
    part.runs = l->runs;
    part.sums = l->sums;
    for (int64_t i = 0; i < fac__max(1, passes); i++, weight += words * part.vectors * FAC_CONV_LANES) {
        part.n_runs = take_pass(p, most, &run, &done, l->runs, &words);
        part.weight = weight;
        part.more = i > 0;
        if (i > 0) part.next_bytes = 0;
        part.done = i >= passes - 1;
        FAC_ISA_PICK(fac__conv_last_tiles)(&part);
    }
}

/* A block of single channels in lines of an image. */
static void run_lines(const last_job *j, const phase *p, const fac_conv_tiles *t, int64_t lines, int64_t *offset) {
    fac_conv_lines l = {.in = t->in, .out = t->out, .weight = t->weight, .offset = offset, .bias = t->bias};
    const int64_t taps = p->n_taps / j->tap_lines, step = t->bf16 ? 2 : 1;
    for (int64_t k = 0; k < taps; k += step) offset[l.taps++] = (p->taps[k].at[2] - j->first[2]) * j->line[2];
    l.rows = j->tap_lines;
    l.lines = lines;
    l.width = p->count[2];
    l.in_line = j->line[0];
    l.out_point = j->c->groups * j->item;
    l.out_line = l.out_point * j->out_size[2];
    l.channels = t->channels;
    l.bf16 = t->bf16;
    l.odd = t->bf16 && taps % 2;
    FAC_ISA_PICK(fac__conv_last_lines)(&l);
}

/* Blocks of single channels from `first` on at the points of a phase. */
static void run_single(const last_job *j, const phase *p, fac_conv_tiles t, int64_t images, int64_t first, int64_t end,
                       const lane *l) {
    const int64_t lines = t.points / (images * p->count[1] * p->count[2]);
    t.runs = p->runs;
    t.n_runs = p->n_runs;
    for (int64_t b = first; b < end; b++, t.in += j->plane_bytes) {
        const int64_t channel = b * FAC_CONV_LANES;
        fac_conv_tiles of = t;
        of.out += channel * j->item;
        of.bias = j->arrays->bias ? (const char *)j->arrays->bias + channel * j->item : NULL;
        of.channels = (int)fac__min(FAC_CONV_LANES, j->c->groups - channel);
        of.weight = (const float *)(const void *)packed_at(j, p, 0, b);
        if (!j->tap_lines) FAC_ISA_PICK(fac__conv_last_single)(&of);
        for (int64_t i = 0; i < images && j->tap_lines; i++) {
            run_lines(j, p, &of, lines, (int64_t *)(void *)l->runs);
            of.in += j->image_bytes;
            of.out += j->out_size[0] * j->out_size[2] * j->c->groups * j->item;
        }
    }
}

static void run_task(const last_job *j, int64_t task, const lane *l) {
    const fac_conv *c = j->c;
    const int64_t part = task % j->parts, band = task / j->parts % j->bands, chunk = task / j->parts / j->bands;
    const int64_t image = chunk * j->images, images = fac__min(j->images, c->batch - image);
    const int64_t begin = band * j->lines, end = begin + j->lines;
    const int64_t in_points = j->in_size[0] * j->in_size[1] * j->in_size[2],
                  out_points = j->out_size[0] * j->out_size[1] * j->out_size[2];
    const int64_t in_bytes = in_points * c->groups * j->in_channels * j->item,
                  out_bytes = out_points * c->groups * j->out_channels * j->item;
    const int in_side = j->result == FAC_CONV_SMALL ? FAC_CONV_LARGE : FAC_CONV_SMALL;
    const char *in = (const char *)j->arrays->side[in_side] + image * in_bytes;
    fac_conv_tiles t = {.in = in, .bf16 = j->bf16};
    t.out = (char *)j->arrays->side[j->result] + image * out_bytes;
    t.out += begin * j->out_step[0] * (out_bytes / j->out_size[0]);
    const int64_t all = j->single ? j->blocks : j->blocks * c->groups;
    const int64_t first_block = all * part / j->parts, last_block = all * (part + 1) / j->parts;
    if (j->single) {
        const int64_t first = begin * j->in_step[0] + j->first[0], channel = first_block * FAC_CONV_LANES,
                      channels = fac__min(last_block * FAC_CONV_LANES, c->groups) - channel;
        for (int64_t i = 0; i < images; i++)
            spread_image(j, in + i * in_bytes + channel * j->item, channels, first, j->plane_bytes / j->line[0],
                         l->band + i * j->image_bytes);
        t.in = l->band;
    } else if (j->copies) {
        const int64_t first = begin * j->in_step[0] + j->first[0];
        for (int64_t i = 0; i < images; i++)
            copy_image(j, in + i * in_bytes, first, j->image_bytes / j->line[0], l->band + i * j->image_bytes);
        t.in = l->band;
    } else {
        t.in += begin * j->in_step[0] * j->line[0];
    }
    for (int64_t i = 0; i < j->n_phases; i++) {
        const phase *p = &j->phases[i];
        t.from = p->from, t.to = p->to;
        t.points = images * fac__max(0, fac__min(end, p->count[0]) - begin) * p->count[1] * p->count[2];
        /* The band behind this one, unless the cache has room for no more. */
        const int64_t line = in_bytes / fac__max(1, j->in_size[0]);
        t.next = in + fac__min(end * j->in_step[0], j->in_size[0]) * line;
        t.next_bytes = j->images == 1 && i == 0 ? fac__min(j->lines * j->in_step[0] * line, BAND_BYTES) : 0;
        if (t.points && j->single) run_single(j, p, t, images, first_block, last_block, l);
        for (int64_t b = first_block; t.points && !j->single && b < last_block; b++, t.next_bytes = 0)
            run_block(j, p, &t, b / j->blocks, b % j->blocks, l);
    }
}

static int64_t sum_bytes(const last_job *j) {
    return j->sums ? j->points * FAC_CONV_VECTORS * FAC_CONV_LANES * (int64_t)sizeof(float) : 0;
}

static fac_status run_range(void *ctx, int64_t begin, int64_t end, void *scratch) {
    const last_job *j = ctx;
    char *at = scratch;
    lane l;
    l.band = at, at += j->band_bytes;
    l.sums = (float *)(void *)at, at += sum_bytes(j);
    l.runs = (fac_conv_run *)(void *)at;
    for (int64_t t = begin; t < end; t++) run_task(j, t, &l);
    return FAC_OK;
}

/* ---- a call --------------------------------------------------------------------------------------------------------------- */

static double work_of(const fac_conv *c) {
    return (double)c->batch * (double)c->groups * (double)c->small * (double)c->large * (double)c->taps *
           (double)c->small_count;
}

static bool is_single(const fac_conv *c) { return c->small == 1 && c->large == 1 && c->groups >= LEAST_CHANNELS; }

/* Whether the large side with its padding, which is copied for the weights' sums, is not much more than the image. */
static bool pads_little(const fac_conv *c) {
    double padded = 1;
    for (int d = 0; d < FAC_CONV_DIMS; d++) padded *= (double)c->large_size[d] + 2 * (double)c->padding[d];
    return padded <= 16 * (double)c->large_count + (1 << 16);
}

bool fac__conv_last_suits(const fac_conv *c, fac_conv_side result, fac_dtype d) {
    if (fac__cpu_isa < FAC_ISA_AVX512 || (d != FAC_F32 && !(d == FAC_BF16 && fac__cpu_bf16_fast))) return false;
    if (result == FAC_CONV_WEIGHT)
        return (fac__min(c->small, c->large) >= LEAST_CHANNELS || is_single(c)) && work_of(c) >= LEAST_WORK &&
               pads_little(c);
    const int64_t channels = result == FAC_CONV_SMALL ? c->small : c->large;
    const bool single = is_single(c);
    bool suits = c->taps <= TAPS && (single || channels >= LEAST_CHANNELS || (c->taps == 1 && d == FAC_BF16)) &&
                 work_of(c) >= LEAST_WORK;
    double phases = 1;
    for (int d_ = 0; d_ < FAC_CONV_DIMS; d_++) {
        suits = suits && c->kernel[d_] <= TAPS / 8 && c->padding[d_] < INT32_MAX / 4 &&
                c->dilation[d_] < INT32_MAX / 4 && c->stride[d_] < INT32_MAX / 4;
        phases *= result == FAC_CONV_LARGE ? (double)c->stride[d_] : 1;
    }
    return suits && phases <= PHASES;
}

static fac_status run(last_job *j, double work) {
    const fac_conv *c = j->c;
    fac_workspace packed;
    const int64_t weights = fac__workspace_round(j->packed_words * 4);
    FAC_TRY(fac__workspace_take(weights + j->n_phases * 2 * j->points * (int64_t)sizeof(int64_t), &packed));
    j->packed = (uint32_t *)(void *)packed.at;
    int64_t *points = (int64_t *)(void *)(packed.at + weights);
    for (int64_t i = 0; i < j->n_phases; i++) find_points(j, &j->phases[i], points + i * 2 * j->points);
    const int64_t lists = c->taps * (int64_t)sizeof(uint32_t *);
    fac_status st = fac__parallel_for_scratch(0, j->n_phases * (j->single ? 1 : c->groups) * j->blocks, 1, lists + 64,
                                              pack_range, j);
    const int64_t tasks = j->chunks * j->bands * j->parts, each = (int64_t)(work / (double)tasks) + 1;
    const int64_t runs = (c->taps + 2) * (int64_t)sizeof(fac_conv_run);
    const int64_t bytes = j->band_bytes + sum_bytes(j) + runs;
    if (st == FAC_OK) st = fac__parallel_for_scratch(0, tasks, fac__max(1, (1 << 19) / each), bytes, run_range, j);
    fac__workspace_give(packed);
    return st;
}

fac_conv fac__conv_last_dims(const fac_conv *from) {
    fac_conv c = *from;
    if (c.nd != 2) return c;
    int64_t *const all[] = {c.small_size, c.large_size, c.kernel, c.stride, c.padding, c.dilation};
    for (size_t i = 0; i < FAC_COUNT(all); i++) {
        const int64_t one = all[i][2];
        all[i][2] = all[i][1];
        all[i][1] = one;
    }
    return c;
}

static fac_status convolve(const fac_conv *of, fac_conv_side result, const fac_conv_arrays *arrays, int64_t pass) {
    const fac_conv dims = fac__conv_last_dims(of), *c = &dims;
    const bool down = result == FAC_CONV_LARGE;
    last_job j = {.c = c, .arrays = arrays, .result = result, .bf16 = arrays->bf16, .pass = pass};
    j.item = arrays->bf16 ? 2 : 4;
    j.in_channels = down ? c->small : c->large;
    j.out_channels = down ? c->large : c->small;
    j.n_phases = 1;
    for (int d = 0; d < FAC_CONV_DIMS; d++) {
        j.in_size[d] = down ? c->small_size[d] : c->large_size[d];
        j.out_size[d] = down ? c->large_size[d] : c->small_size[d];
        j.in_step[d] = down ? 1 : c->stride[d];
        j.out_step[d] = down ? c->stride[d] : 1;
        j.n_phases *= j.out_step[d];
    }
    j.single = is_single(c);
    j.vectors = fac__div_up(j.single ? c->groups : j.out_channels, FAC_CONV_LANES);
    j.blocks = j.single ? j.vectors : fac__div_up(j.vectors, FAC_CONV_VECTORS);
    const int64_t phases = fac__workspace_round(j.n_phases * (int64_t)sizeof(phase)),
                  taps = fac__workspace_round(c->taps * (int64_t)sizeof(last_tap)),
                  runs = c->taps * (int64_t)sizeof(fac_conv_run);
    fac_workspace lists;
    FAC_TRY(fac__workspace_take(phases + taps + runs, &lists));
    j.phases = (phase *)(void *)lists.at;
    memset(j.phases, 0, (size_t)phases);
    j.taps = (last_tap *)(void *)(lists.at + phases);
    j.runs = (fac_conv_run *)(void *)(lists.at + phases + taps);
    const double work = work_of(c);
    plan(&j, work);
    fac_status st = run(&j, work);
    fac__workspace_give(lists);
    return st;
}

fac_status fac__conv_last(const fac_conv *c, fac_conv_side result, const fac_conv_arrays *arrays, bool *done) {
    const fac_status st = convolve(c, result, arrays, PASS_WORDS);
    *done = st == FAC_OK;
    return st;
}

/* ---- products of matrices ------------------------------------------------------------------------------------------------- */

/* Few rows do not repay that all of b is packed at once. Sums are added as in gemm_bf16.isa.c, with the same bits. */
bool fac__conv_last_suits_product(int64_t m, int64_t n, int64_t k) {
    return fac__cpu_isa == FAC_ISA_AVX512 && fac__cpu_bf16_fast && m >= LEAST_ROWS && n >= FAC_CONV_LANES && k >= 16 &&
           k < INT32_MAX && n < INT32_MAX && m < INT32_MAX;
}

fac_status fac__conv_last_product(int64_t m, int64_t n, int64_t k, const void *a, const void *b, bool b_across,
                                  const void *bias, void *c) {
    const fac_conv_side result = b_across ? FAC_CONV_LARGE : FAC_CONV_SMALL,
                        from = b_across ? FAC_CONV_SMALL : FAC_CONV_LARGE;
    fac_conv of = {.nd = 1, .batch = 1, .groups = 1, .small_count = m, .large_count = m, .taps = 1};
    of.small = b_across ? k : n, of.large = b_across ? n : k;
    for (int d = 0; d < FAC_CONV_DIMS; d++) {
        of.small_size[d] = of.large_size[d] = d ? 1 : m;
        of.kernel[d] = of.stride[d] = of.dilation[d] = 1;
    }
    fac_conv_arrays arrays = {.bias = bias, .bf16 = true, .last = true, .weight_last = true};
    arrays.side[from] = (void *)(uintptr_t)a;
    arrays.side[FAC_CONV_WEIGHT] = (void *)(uintptr_t)b;
    arrays.side[result] = c;
    return convolve(&of, result, &arrays, FAC_GEMM_KC);
}
