/* Joining tensors. Where all are row-major, the result is written from its beginning to its end: a block of rows, in which tensors take
   turns, is made at a time, for a large result in the cache first, from where it goes past it to memory. So are two tensors with gaps that
   take turns element by element. Other tensors are copied into their places, block by block where turns are short. */
#include "ops/composite/join.h"
#include "backend/cpu/kernels/items.h"
#include "backend/cpu/loops.h"
#include "backend/cpu/parallel.h"
#include "backend/cpu/pointwise.h"
#include "iter/nest.h"
#include "ops_gen.h"
#include <stdlib.h>

/* Bytes: of a result that is written so, of a block, and of a tensor's part of a row that goes past the cache by itself. */
enum { LEAST = 1 << 16, BLOCK = 1 << 13, LONG_RUN = 1 << 11 };

typedef struct job {
    fac_tensors l;
    int64_t dim, item, turn; /* turn: bytes of a row of the result */
    char *out;
    bool stream;
    const char *zipped[2]; /* what two tensors of one item a row hold; NULL if it is not so */
} job;

/* Elements from dimension `dim` on. */
static int64_t run_of(const fac_tensor *t, int64_t dim) {
    int64_t n = 1;
    for (int d = (int)dim; d < t->ndim; d++) n *= t->sizes[d];
    return n;
}

/* Two tensors that take turns with as many bytes as an element may have. */
static void find_pair(job *j) {
    const int64_t half = j->turn / 2;
    int n = 0;
    if (half != 1 && half != 2 && half != 4 && half != 8) return;
    uintptr_t bits = (uintptr_t)j->out;
    const char *found[2];
    for (size_t i = 0; i < j->l.n; i++) {
        const fac_tensor *t = j->l.v[i];
        if (fac__cat_skips(t)) continue;
        if (n == 2 || run_of(t, j->dim) * j->item != half) return;
        found[n++] = fac__data(t);
        bits |= (uintptr_t)fac__data(t);
    }
    if (n == 2 && bits % (uintptr_t)half == 0) memcpy(j->zipped, found, sizeof found);
}

/* Rows [begin, end) to `dst`. */
static void take_turns(const job *j, int64_t begin, int64_t end, char *dst) {
    if (j->zipped[0]) {
        const int64_t half = j->turn / 2;
        FAC_ISA_PICK(fac__items_zip)
        ((size_t)half, dst, j->zipped[0] + begin * half, j->zipped[1] + begin * half, end - begin);
        return;
    }
    for (size_t i = 0; i < j->l.n; i++) {
        const fac_tensor *t = j->l.v[i];
        if (fac__cat_skips(t)) continue;
        const int64_t n = run_of(t, j->dim), bytes = n * j->item;
        const char *src = (const char *)fac__data(t) + begin * bytes;
        if (j->stream && j->turn > BLOCK && bytes >= LONG_RUN)
            for (int64_t r = 0; r < end - begin; r++) fac__stream_copy(dst + r * j->turn, src + r * bytes, bytes);
        else if (n == 1)
            fac__items_copy((size_t)j->item, dst, j->turn, src, j->item, end - begin);
        else
            FAC_ISA_PICK(fac__items_copy_rows)
        ((size_t)j->item, dst, j->item, src, j->item, n, end - begin, j->turn, bytes);
        dst += bytes;
    }
}

/* Asks for what rows [begin, end) are made of, while those before are on their way to memory. */
static void ask_for(const job *j, int64_t begin, int64_t end) {
    for (size_t i = 0; i < j->l.n; i++) {
        const fac_tensor *t = j->l.v[i];
        if (fac__cat_skips(t)) continue;
        const int64_t bytes = run_of(t, j->dim) * j->item;
        const char *src = fac__data(t);
        for (int64_t at = begin * bytes; at < end * bytes; at += 64) __builtin_prefetch(src + at);
    }
}

static fac_status join_rows(void *ctx, int64_t begin, int64_t end) {
    const job *j = ctx;
    char room[BLOCK] __attribute__((aligned(64)));
    const int64_t some = fac__max(1, BLOCK / j->turn);
    for (int64_t i = begin; i < end; i += some) {
        const int64_t last = fac__min(end, i + some);
        char *place = j->out + i * j->turn;
        if (!j->stream || j->turn > BLOCK) {
            take_turns(j, i, last, place);
            continue;
        }
        take_turns(j, i, last, room);
        ask_for(j, last, fac__min(end, last + some));
        fac__stream_copy(place, room, (last - i) * j->turn);
    }
    return FAC_OK;
}

static bool is_plain(fac_tensors l, const fac_tensor *whole) {
    bool plain = fac__is_contiguous(whole);
    for (size_t i = 0; i < l.n && plain; i++)
        plain = fac__cat_skips(l.v[i]) ||
                (fac__is_contiguous(l.v[i]) && l.v[i]->dtype == whole->dtype && !fac__pending(l.v[i]));
    return plain;
}

/* Where tensors take turns within few bytes of a large result, it is written block by block, each of which stays in the cache until
   all of them have been there: else every tensor would bring the whole result from memory. */
static fac_status copies_in_blocks(fac_tensors l, int64_t dim, int64_t turn, fac_tensor *whole) {
    enum { TURN = 4096, WHOLE = 1 << 17 };
    const int64_t all = whole->numel * fac__item_size(whole);
    if (dim == 0 || turn > TURN || all <= 2 * WHOLE || !fac__is_contiguous(whole))
        return fac__join_copies(l, dim, 0, -1, whole);
    const int64_t rows = whole->sizes[0], step = fac__max(1, WHOLE / (all / rows));
    fac_status st = FAC_OK;
    for (int64_t i = 0; i < rows && st == FAC_OK; i += step)
        st = fac__join_copies(l, dim, i, fac__min(step, rows - i), whole);
    return st;
}

/* ---- two tensors with gaps, which take turns element by element -------------------------------------------------------------- */

typedef struct pair_job {
    fac_nest nest; /* both tensors in logical order */
    const char *from[2];
    char *out;
    int64_t item;
    bool stream;
} pair_job;

/* Both are gathered, and what they make is written once, from its beginning to its end. */
static fac_status pair_range(void *ctx, int64_t begin, int64_t end) {
    enum { TILE = 128 }; /* short, so that both sides are read as two streams, not by turns */
    const pair_job *j = ctx;
    const int64_t item = j->item, steps[2] = {fac__nest_step(&j->nest, 0) * item, fac__nest_step(&j->nest, 1) * item};
    fac_item16 side[2][TILE], both[2 * TILE];
    fac_cursor c;
    fac__nest_seek(&j->nest, 2, begin, &c);
    for (int64_t i = begin, n; i < end; i += n) {
        n = fac__min(TILE, end - i);
        for (int64_t k = 0, run; k < n; k += run) {
            run = fac__min(fac__nest_run(&j->nest, &c), n - k);
            for (int t = 0; t < 2; t++)
                fac__items_copy((size_t)item, (char *)side[t] + k * item, item, j->from[t] + c.offset[t] * item,
                                steps[t], run);
            fac__nest_advance(&j->nest, 2, run, &c);
        }
        char *const to = j->out + 2 * i * item;
        FAC_ISA_PICK(fac__items_zip)
        ((size_t)item, j->stream ? (char *)both : to, (const char *)side[0], (const char *)side[1], n);
        if (j->stream) fac__stream_copy(to, (const char *)both, 2 * n * item);
    }
    return FAC_OK;
}

/* Whether it is so, and rows are read along their memory. */
static bool is_pair(fac_tensors l, int64_t dim, fac_tensor *whole, pair_job *j) {
    if (!fac__is_contiguous(whole) || run_of(whole, dim) != 2 || l.n != 2) return false;
    const int64_t *strides[2];
    for (int t = 0; t < 2; t++) {
        const fac_tensor *one = l.v[t];
        if (fac__cat_skips(one) || one->dtype != whole->dtype || fac__pending(one) || run_of(one, dim) != 1)
            return false;
        strides[t] = one->strides;
        j->from[t] = fac__data(one);
    }
    fac__nest_build(&j->nest, l.v[0]->sizes, l.v[0]->ndim, UINT64_MAX, 2, strides, true);
    for (int t = 0; t < 2; t++)
        for (int d = 1; d < j->nest.ndim; d++)
            if (llabs(j->nest.stride[t][d]) < llabs(j->nest.stride[t][0])) return false;
    j->out = fac__data(whole);
    j->item = fac__item_size(whole);
    j->stream = whole->numel * j->item >= FAC_STREAM_BYTES / 2;
    return true;
}

static fac_status join_cpu(fac_tensors l, int64_t dim, fac_tensor *whole) {
    const int64_t item = fac__item_size(whole), all = whole->numel * item;
    if (all == 0) return FAC_OK;
    const int64_t turn = run_of(whole, dim) * item;
    if (all < LEAST || turn == all || !is_plain(l, whole)) {
        pair_job pair;
        if (all >= LEAST && turn != all && is_pair(l, dim, whole, &pair))
            return fac__parallel_for(0, all / turn, FAC_GRAIN / 2, pair_range, &pair);
        return copies_in_blocks(l, dim, turn, whole);
    }
    job j = {.l = l, .dim = dim, .item = item, .turn = turn, .out = fac__data(whole)};
    j.stream = all >= FAC_STREAM_BYTES / 2;
    find_pair(&j);
    return fac__parallel_for(0, all / turn, fac__grain(FAC_GRAIN, turn / item), join_rows, &j);
}

fac_status cat_cpu(const fac_call_info *c, fac_tensors tensors, int64_t dim, fac_tensor **out) {
    (void)c;
    return fac__cat(tensors, dim, join_cpu, out);
}
