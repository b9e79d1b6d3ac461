/* Pooling of images whose channels are innermost. Forward, a task is a block of channels of one window; backward, of one image,
   whose windows add to it in order. Elements meet in the order of the kernels of planes (pool.c), so the bits are theirs. */
#include "backend/cpu/kernels/pool_last.h"
#include "backend/cpu/parallel.h"
#include "core/scalar.h"

enum {
    IMAGES = 16,  /* from so many on, each is one task of the gradient */
    CHANNELS = 64 /* per task, where there are fewer */
};

static fac_pool_window window_of(const fac_pool_last *j) {
    fac_pool_window w = {.channels = j->channels, .dtype = j->dtype, .kind = fac__acc_of(j->dtype)};
    for (int d = 0; d < FAC_POOL_DIMS; d++) {
        w.size[d] = j->p.in[d];
        w.step[d] = j->p.adaptive ? 1 : j->p.dilation[d];
    }
    return w;
}

/* A window, and what is known of all windows of its row of results, the first of which is at `first`. */
typedef struct spot {
    fac_pool_window w;
    int64_t first, padded, clipped;
} spot;

static spot spot_of(const fac_pool_last *j) { return (spot){.w = window_of(j), .first = -j->p.out[2]}; }

/* Moves the window to position i of dimension d: counts are multiplied by its size there, with the padding and clipped. */
static inline void move_along(const fac_pool_last *j, int d, int64_t i, fac_pool_window *w, int64_t *padded,
                              int64_t *clipped) {
    const fac_pool *p = &j->p;
    fac__pool_window(p, d, i, &w->begin[d], &w->end[d]);
    *padded *= fac__min(w->end[d], p->in[d] + (p->adaptive ? 0 : p->padding[d])) - w->begin[d];
    if (w->begin[d] < 0) w->begin[d] += fac__div_up(-w->begin[d], w->step[d]) * w->step[d];
    w->end[d] = fac__min(w->end[d], p->in[d]);
    *clipped *= fac__max(0, w->end[d] - w->begin[d]);
}

/* Moves the window to output position o; what it is divided by, if means are wanted. A division takes as long as a vector of channels. */
static int64_t place(const fac_pool_last *j, int64_t o, spot *s) {
    const fac_pool *p = &j->p;
    if (o < s->first || o - s->first >= p->out[2]) {
        const int64_t row = o / p->out[2];
        s->first = row * p->out[2], s->padded = s->clipped = 1;
        move_along(j, 1, row % p->out[1], &s->w, &s->padded, &s->clipped);
        move_along(j, 0, row / p->out[1], &s->w, &s->padded, &s->clipped);
    }
    int64_t padded = s->padded, clipped = s->clipped;
    move_along(j, 2, o - s->first, &s->w, &padded, &clipped);
    return j->divisor ? j->divisor : j->count_pad && !p->adaptive ? padded : clipped;
}

static const char *image_at(const fac_pool_last *j, int64_t n, int64_t c) {
    return (const char *)j->from + (size_t)(n * j->p.in_count * j->channels + c) * fac__dtype_size(j->dtype);
}

/* ---- forward -------------------------------------------------------------------------------------------------------------- */

static fac_status forward_range(void *ctx, int64_t begin, int64_t end) {
    const fac_pool_last *j = ctx;
    const int64_t blocks = fac__div_up(j->channels, FAC_POOL_BLOCK);
    spot s = spot_of(j);
    int64_t o = begin / blocks, block = begin % blocks, number = o / j->p.out_count, place_in = o % j->p.out_count;
    for (int64_t t = begin; t < end; t++) {
        const int64_t c = block * FAC_POOL_BLOCK, n = fac__min(FAC_POOL_BLOCK, j->channels - c);
        const int64_t divisor = place(j, place_in, &s), at = o * j->channels + c;
        const void *image = image_at(j, number, c);
        char *to = (char *)j->to + (size_t)at * fac__dtype_size(j->dtype);
        if (j->indices)
            FAC_ISA_PICK(fac__pool_last_max)(&s.w, image, to, j->indices + at, n);
        else
            FAC_ISA_PICK(fac__pool_last_mean)(&s.w, image, divisor, to, n);
        if (++block < blocks) continue;
        block = 0, o++;
        if (++place_in == j->p.out_count) place_in = 0, number++;
    }
    return FAC_OK;
}

fac_status fac__pool_last_forward(fac_pool_last *j) {
    const int64_t blocks = fac__div_up(j->channels, FAC_POOL_BLOCK), windows = j->batch * j->p.out_count;
    const int64_t each =
        fac__mul_or_max(fac__div_up(j->p.in_count, j->p.out_count) + 1, fac__min(j->channels, FAC_POOL_BLOCK));
    return fac__parallel_for(0, windows * blocks, fac__grain(FAC_GRAIN, each), forward_range, j);
}

/* ---- backward ------------------------------------------------------------------------------------------------------------- */

static int64_t channels_of_task(const fac_pool_last *j) {
    return j->batch >= IMAGES ? j->channels : fac__min(j->channels, CHANNELS);
}
static bool sums_in_place(const fac_pool_last *j) { return j->indices || fac__acc_is(fac__acc_of(j->dtype), j->dtype); }

/* The task's channels of an image, set to zero. */
static void clear(const fac_pool_last *j, char *image, int64_t n) {
    const size_t item = fac__dtype_size(j->dtype), step = (size_t)j->channels * item;
    for (int64_t i = 0; i < j->p.in_count; i++) memset(image + (size_t)i * step, 0, (size_t)n * item);
}

static const char *grad_at(const fac_pool_last *j, int64_t at) {
    return (const char *)j->from + (size_t)at * fac__dtype_size(j->dtype);
}

static void add_maxima(const fac_pool_last *j, int64_t image, int64_t c, int64_t n, char *to) {
    clear(j, to, n);
    for (int64_t o = 0; o < j->p.out_count; o++) {
        const int64_t at = (image * j->p.out_count + o) * j->channels + c;
        fac__pool_add_at(j, to, j->indices + at, grad_at(j, at), n);
    }
}

/* Sums are made in the image itself, or in `room`, in FAC_POOL_BLOCK channels at a time. */
static void add_means(const fac_pool_last *j, int64_t image, int64_t c, int64_t n, char *to, void *room) {
    spot s = spot_of(j);
    const fac_pool_window *w = &s.w;
    const size_t size = fac__acc_size(w->kind);
    const int64_t step = room ? n : j->channels;
    char *sums = room ? room : to;
    if (room)
        memset(room, 0, (size_t)(j->p.in_count * n) * size);
    else
        clear(j, to, n);
    for (int64_t o = 0; o < j->p.out_count; o++) {
        const int64_t divisor = place(j, o, &s), at = (image * j->p.out_count + o) * j->channels + c;
        for (int64_t k = 0; k < n; k += FAC_POOL_BLOCK) FAC_ISA_PICK(fac__pool_last_spread)
        (w, grad_at(j, at + k), divisor, sums + (size_t)k * size, step, fac__min(FAC_POOL_BLOCK, n - k));
    }
    for (int64_t i = 0; room && i < j->p.in_count; i++)
        fac__tile_store(w->kind, sums + (size_t)(i * n) * size,
                        to + (size_t)(i * j->channels) * fac__dtype_size(j->dtype), j->dtype, 1, n);
}

static fac_status backward_range(void *ctx, int64_t begin, int64_t end, void *room) {
    const fac_pool_last *j = ctx;
    const int64_t most = channels_of_task(j), blocks = fac__div_up(j->channels, most);
    for (int64_t t = begin; t < end; t++) {
        const int64_t image = t / blocks, c = t % blocks * most, n = fac__min(most, j->channels - c);
        char *to = (char *)j->to + (size_t)(image * j->p.in_count * j->channels + c) * fac__dtype_size(j->dtype);
        if (j->indices)
            add_maxima(j, image, c, n, to);
        else
            add_means(j, image, c, n, to, sums_in_place(j) ? NULL : room);
    }
    return FAC_OK;
}

fac_status fac__pool_last_backward(fac_pool_last *j) {
    const int64_t most = channels_of_task(j), tasks = j->batch * fac__div_up(j->channels, most);
    const int64_t each = fac__mul_or_max(j->p.in_count + j->p.out_count, most);
    const int64_t sums = fac__mul_or_max(j->p.in_count, most * (int64_t)fac__acc_size(fac__acc_of(j->dtype)));
    return fac__parallel_for_scratch(0, tasks, fac__grain(FAC_GRAIN, each), sums_in_place(j) ? 0 : sums, backward_range,
                                     j);
}
