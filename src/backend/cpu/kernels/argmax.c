/* Places of extremes: argmax, argmin, max and min along a dimension. The first of equals is found; a NaN beats every
   number. Runs are scanned block by block; strips of neighbouring outputs compare row after row. Long runs are cut in
   blocks whose winners are compared in order. */
#include "backend/cpu/kernels/items.h"
#include "backend/cpu/kernels/reduction.h"
#include "backend/cpu/parallel.h"
#include "ops/meta/reduce.h"
#include "ops_gen.h"

#define BLOCK 65536
#define STRIP 128
#define ACROSS 16 /* elements */

/* A candidate: its value in the kind that compares it, and its place in the reduced run. */
typedef struct best {
    fac_acc_value v;
    int64_t at; /* -1: none yet */
} best;

typedef struct job {
    fac_dim_split split;
    const char *in;
    char *values; /* NULL if only the place is wanted */
    int64_t *indices;
    fac_dtype dtype;
    int64_t item;
    fac_acc kind;
    int sign; /* +1: largest */
    bool direct;
    best *partial;
    int64_t blocks, width, strips;
} job;

static bool beats(fac_acc k, int sign, fac_acc_value x, fac_acc_value b) {
    if (k == FAC_ACC_I64) return sign > 0 ? x.i64 > b.i64 : x.i64 < b.i64;
    double p = k == FAC_ACC_F32 ? (double)x.f32 : x.f64, q = k == FAC_ACC_F32 ? (double)b.f32 : b.f64;
    if (p != p) return q == q;
    return sign > 0 ? p > q : p < q;
}

static fac_acc_value value_at(fac_acc k, const void *x, int64_t i) {
    fac_acc_value v = {.i64 = 0};
    memcpy(&v, (const char *)x + (size_t)i * fac__acc_size(k), fac__acc_size(k));
    return v;
}

static void take(const job *j, best *b, fac_acc_value v, int64_t at) {
    if (b->at < 0 || beats(j->kind, j->sign, v, b->v)) *b = (best){v, at};
}

static void scan_run(const job *j, fac_dtype d, const void *x, int64_t n, int64_t at, best *b) {
    int64_t i;
    if (j->kind == FAC_ACC_I64) {
        fac_acc_value v;
        i = FAC_ISA_PICK(fac__argbest_int)(d, x, n, j->sign, &v.i64);
        take(j, b, v, at + i);
        return;
    }
    if (j->kind == FAC_ACC_F32)
        i = FAC_ISA_PICK(fac__argbest_f32)(x, n, j->sign);
    else
        i = FAC_ISA_PICK(fac__argbest_f64)(x, n, j->sign);
    take(j, b, value_at(j->kind, x, i), at + i);
}

static void store(const job *j, const best *b, const fac_cursor *c) {
    j->indices[c->offset[1]] = b->at;
    if (j->values) fac__tile_store(j->kind, &b->v, j->values + c->offset[2] * j->item, j->dtype, 1, 1);
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */

static void scan_range(const job *j, const char *base, int64_t i, int64_t end, best *b) {
    const fac_nest *red = &j->split.reduced;
    int64_t step = fac__nest_step(red, 0);
    fac_cursor c;
    fac_tile_buf tile;
    fac__nest_seek(red, 1, i, &c);
    while (i < end) {
        int64_t n = fac__min(fac__nest_run(red, &c), end - i);
        const char *p = base + c.offset[0] * j->item;
        if ((j->direct || j->kind == FAC_ACC_I64) && step == 1) {
            scan_run(j, j->dtype, p, n, i, b);
        } else {
            n = fac__min(n, FAC_TILE);
            fac__tile_load(j->kind, &tile, p, j->dtype, step, n);
            scan_run(j, (fac_dtype)fac__acc_dtype[j->kind], &tile, n, i, b);
        }
        fac__nest_advance(red, 1, n, &c);
        i += n;
    }
}

static fac_status run_rows(void *ctx, int64_t begin, int64_t end) {
    const job *j = ctx;
    fac_cursor c;
    fac__nest_seek(&j->split.kept, 3, begin / j->blocks, &c);
    for (int64_t i = begin; i < end; i++) {
        int64_t b = i % j->blocks;
        best acc = {.at = -1};
        scan_range(j, j->in + c.offset[0] * j->item, b * BLOCK, fac__min(j->split.reduced.count, (b + 1) * BLOCK),
                   &acc);
        if (j->partial)
            j->partial[i] = acc;
        else
            store(j, &acc, &c);
        if (b == j->blocks - 1) fac__nest_advance(&j->split.kept, 3, 1, &c);
    }
    return FAC_OK;
}

enum { SHORT = 64 };

/* Rows of floats or doubles that lie as they are needed, and results that do. */
static bool is_plain(const job *j) {
    const fac_nest *kept = &j->split.kept, *red = &j->split.reduced;
    return j->kind != FAC_ACC_I64 && j->direct && red->count <= SHORT && red->ndim <= 1 &&
           fac__nest_step(red, 0) == 1 && kept->ndim == 1 && kept->stride[1][0] == 1 &&
           (!j->values || kept->stride[2][0] == 1);
}

/* The places, and the values unless NULL, of the extremes of rows, dense: of doubles the values are found together, and then the places. */
static void short_rows(const job *j, const void *rows, int64_t step, int64_t count, void *values, int64_t *indices) {
    const int64_t n = j->split.reduced.count;
    if (j->kind == FAC_ACC_F32) {
        FAC_ISA_PICK(fac__argbest_rows_f32)(rows, step, n, count, j->sign, values, indices);
        return;
    }
    if (j->kind == FAC_ACC_I64) {
        const int64_t *x = rows, flip = j->sign > 0 ? 0 : -1; /* which turns their order around */
        for (int64_t r = 0; r < count; r++, x += step) {
            int64_t best = x[0] ^ flip, at = 0;
            for (int64_t i = 1; i < n; i++) {
                const int64_t v = x[i] ^ flip;
                at = v > best ? i : at;
                best = v > best ? v : best;
            }
            indices[r] = at;
            if (values) ((int64_t *)values)[r] = best ^ flip;
        }
        return;
    }
    double room[STRIP];
    const double *x = rows;
    for (int64_t some, at = 0; at < count; at += some) {
        some = fac__min(STRIP, count - at);
        double *best = values ? (double *)values + at : room;
        FAC_ISA_PICK(fac__fold_short_rows_f64)(j->sign > 0 ? FAC_FOLD_MAX : FAC_FOLD_MIN, x, step, n, some, best);
        for (int64_t r = 0; r < some; r++, x += step) {
            int64_t i = 0;
            while (x[i] != best[r] && x[i] == x[i]) i++;
            indices[at + r] = i;
        }
    }
}

static fac_status run_plain(void *ctx, int64_t begin, int64_t end) {
    const job *j = ctx;
    const int64_t step = j->split.kept.stride[0][0];
    short_rows(j, j->in + begin * step * j->item, step, end - begin, j->values ? j->values + begin * j->item : NULL,
               j->indices + begin);
    return FAC_OK;
}

/* Short rows that lie one behind the other, elements equally far apart: many at a time go through a tile. */
static bool fits_tiles(const job *j) {
    const fac_nest *kept = &j->split.kept, *red = &j->split.reduced;
    return j->kind != FAC_ACC_C128 && red->count > 0 && red->count <= SHORT && red->ndim == 1 && kept->ndim == 1 &&
           fac__nest_step(kept, 0) == red->count * fac__nest_step(red, 0);
}

static fac_status run_tiles(void *ctx, int64_t begin, int64_t end) {
    const job *j = ctx;
    const fac_nest *kept = &j->split.kept;
    const int64_t n = j->split.reduced.count, step = fac__nest_step(&j->split.reduced, 0), some = FAC_TILE / n;
    fac_tile_buf tile;
    double values[FAC_TILE]; /* of the kind */
    int64_t indices[FAC_TILE];
    for (int64_t i = begin; i < end; i += some) {
        const int64_t rows = fac__min(some, end - i);
        fac__tile_load(j->kind, &tile, j->in + i * n * step * j->item, j->dtype, step, rows * n);
        short_rows(j, &tile, n, rows, values, indices);
        for (int64_t r = 0; r < rows; r++) j->indices[(i + r) * fac__nest_step(kept, 1)] = indices[r];
        if (j->values)
            fac__tile_store(j->kind, values, j->values + i * fac__nest_step(kept, 2) * j->item, j->dtype,
                            fac__nest_step(kept, 2), rows);
    }
    return FAC_OK;
}

static void combine(const job *j) {
    for (int64_t i = 0; i < j->split.kept.count; i++) {
        best acc = j->partial[i * j->blocks];
        fac_cursor c;
        for (int64_t b = 1; b < j->blocks; b++)
            take(j, &acc, j->partial[i * j->blocks + b].v, j->partial[i * j->blocks + b].at);
        fac__nest_seek(&j->split.kept, 3, i, &c);
        store(j, &acc, &c);
    }
}

/* ---- columns -------------------------------------------------------------------------------------------------------- */

typedef union strip {
    float f32[STRIP];
    double f64[STRIP];
    int64_t i64[STRIP];
} strip;

/* Compares `rows` rows, `step` elements of the kind apart, the first of which has place i. */
static void compare_rows(const job *j, const void *x, int64_t step, int64_t rows, int64_t i, int64_t w, strip *acc,
                         int64_t *at) {
    if (j->kind == FAC_ACC_F32)
        FAC_ISA_PICK(fac__argbest_columns_f32)(x, step, rows, i, w, j->sign, acc->f32, at);
    else if (j->kind == FAC_ACC_F64)
        FAC_ISA_PICK(fac__argbest_columns_f64)(x, step, rows, i, w, j->sign, acc->f64, at);
    else
        FAC_ISA_PICK(fac__argbest_columns_i64)(x, step, rows, i, w, j->sign, acc->i64, at);
}

/* Elements of the kind at x: there, or converted in the tile. */
static const void *elements_at(const job *j, const char *x, int64_t step, int64_t n, strip *tile) {
    if (j->direct && step == 1) return x;
    fac__tile_load(j->kind, tile, x, j->dtype, step, n);
    return tile;
}

/* Narrow rows that follow each other, `rows` of them from place `begin` on, are compared as rows of as many columns as a strip has;
   of what each column of such a row found, the best is then taken, the first of equals. Returns how many rows it did. */
static int64_t scan_narrow(const job *j, const char *base, int64_t begin, int64_t rows, int64_t w, strip *acc,
                           int64_t *at) {
    const int64_t many = STRIP / w, wide = many * w, turns = rows / many;
    const int64_t item = (int64_t)fac__acc_size(j->kind);
    int64_t turn[STRIP] = {0};
    strip best, tile;
    for (int64_t t = 0; t < turns; t++) {
        const void *x = elements_at(j, base + t * wide * j->item, 1, wide, &tile);
        if (t == 0) memcpy(&best, x, (size_t)wide * fac__acc_size(j->kind));
        compare_rows(j, x, wide, 1, t, wide, &best, turn);
    }
    for (int64_t k = 0; k < w; k++) {
        int64_t won = k;
        for (int64_t c = k + w; c < wide; c += w) {
            const fac_acc_value v = value_at(j->kind, &best, c), top = value_at(j->kind, &best, won);
            if (beats(j->kind, j->sign, v, top) || (turn[c] < turn[won] && !beats(j->kind, j->sign, top, v))) won = c;
        }
        memcpy((char *)acc + k * item, (char *)&best + won * item, (size_t)item);
        at[k] = begin + turn[won] * many + won / w;
    }
    return turns * many;
}

static void scan_strip(const job *j, const char *base, int64_t begin, int64_t end, int64_t w, strip *acc, int64_t *at) {
    const fac_nest *red = &j->split.reduced;
    const int64_t step = fac__nest_step(&j->split.kept, 0), apart = fac__nest_step(red, 0);
    const bool in_place = j->direct && step == 1;
    fac_cursor c;
    strip tile;
    fac__nest_seek(red, 1, begin, &c);
    for (int64_t i = begin, rows; i < end; i += rows) {
        const char *here = base + c.offset[0] * j->item;
        rows = fac__min(fac__nest_run(red, &c), end - i);
        if (i == begin && step == 1 && apart == w && rows >= 2 * STRIP / w && w <= STRIP / 4) {
            rows = scan_narrow(j, here, begin, rows, w, acc, at);
        } else {
            if (!in_place) rows = 1;
            const void *x = elements_at(j, here, step, w, &tile);
            if (i == begin) {
                memcpy(acc, x, (size_t)w * fac__acc_size(j->kind));
                for (int64_t k = 0; k < w; k++) at[k] = begin;
            }
            compare_rows(j, x, apart, rows, i, w, acc, at);
        }
        fac__nest_advance(red, 1, rows, &c);
    }
}

/* What the w columns found, from the cursor on. */
static void store_strip(const job *j, const strip *acc, const int64_t *at, int64_t w, const fac_cursor *c) {
    const fac_nest *kept = &j->split.kept;
    const int64_t step = fac__nest_step(kept, 1);
    for (int64_t k = 0; k < w; k++) j->indices[c->offset[1] + k * step] = at[k];
    if (j->values)
        fac__tile_store(j->kind, acc, j->values + c->offset[2] * j->item, j->dtype, fac__nest_step(kept, 2), w);
}

/* Task i is block b of strip t of outer output o, with i = (o * strips + t) * blocks + b. */
static fac_status run_columns(void *ctx, int64_t begin, int64_t end) {
    const job *j = ctx;
    for (int64_t i = begin; i < end; i++) {
        int64_t b = i % j->blocks, first = i / j->blocks % j->strips * STRIP, o = i / j->blocks / j->strips;
        int64_t w = fac__min(STRIP, j->width - first), at[STRIP];
        strip acc;
        fac_cursor c;
        fac__nest_seek(&j->split.kept, 3, o * j->width + first, &c);
        scan_strip(j, j->in + c.offset[0] * j->item, b * FAC_COL_BLOCK,
                   fac__min(j->split.reduced.count, (b + 1) * FAC_COL_BLOCK), w, &acc, at);
        if (!j->partial) store_strip(j, &acc, at, w, &c);
        for (int64_t k = 0; j->partial && k < w; k++)
            j->partial[(o * j->width + first + k) * j->blocks + b] = (best){value_at(j->kind, &acc, k), at[k]};
    }
    return FAC_OK;
}

/* ---- entry ------------------------------------------------------------------------------------------------------------ */

static fac_status find(fac_tensor *self, uint64_t mask, int sign, fac_tensor *values, fac_tensor *indices) {
    if (indices->numel == 0) return FAC_OK;
    const int last = self->ndim - 1;
    if (indices->numel == 1 && self->ndim > 1 && self->strides[last] >= ACROSS && self->sizes[last] >= ACROSS) {
        fac_tensor *rows; /* a line at a time would take each element from a cache line of its own */
        FAC_TRY(fac__cpu_contiguous(self, &rows));
        const fac_status st = find(rows, mask, sign, values, indices);
        fac__unref(rows);
        return st;
    }
    fac_tensor *outs[2] = {indices, values ? values : indices};
    job j;
    j.in = fac__data(self);
    j.indices = fac__data(indices);
    j.values = values ? fac__data(values) : NULL;
    j.dtype = (fac_dtype)self->dtype;
    j.item = fac__dtype_size(j.dtype);
    j.kind = fac__acc_of(j.dtype);
    j.direct = fac__acc_is(j.kind, j.dtype);
    j.sign = sign;
    j.partial = NULL;
    fac__split(&j.split, self, mask, outs, 2, true);
    bool columns = fac__split_is_columns(&j.split);
    int64_t n = j.split.reduced.count, block = columns ? FAC_COL_BLOCK : BLOCK;
    j.width = columns ? j.split.kept.size[0] : 1;
    j.strips = columns ? fac__div_up(j.width, STRIP) : 1;
    j.blocks = fac__div_up(n, block);
    int64_t items = j.split.kept.count / j.width * j.strips * j.blocks;
    if (j.blocks > 1) {
        j.partial = fac__alloc_array((size_t)(j.split.kept.count * j.blocks), sizeof *j.partial);
        if (!j.partial) return fac_error();
    }
    int64_t cost = fac__min(n, block) * fac__min(j.width, STRIP);
    fac_status st = fac__parallel_for(0, items, fac__grain(FAC_GRAIN, cost),
                                      columns          ? run_columns
                                      : is_plain(&j)   ? run_plain
                                      : fits_tiles(&j) ? run_tiles
                                                       : run_rows,
                                      &j);
    if (j.partial && st == FAC_OK) combine(&j);
    fac__free(j.partial);
    return st;
}

fac_status argmax_cpu(fac_structured *s, fac_tensor *self, fac_opt_int dim, bool keepdim) {
    (void)dim, (void)keepdim;
    return find(self, fac__carried_mask(s), +1, NULL, s->out[0]);
}

fac_status argmin_cpu(fac_structured *s, fac_tensor *self, fac_opt_int dim, bool keepdim) {
    (void)dim, (void)keepdim;
    return find(self, fac__carried_mask(s), -1, NULL, s->out[0]);
}

fac_status max_dim_cpu(fac_structured *s, fac_tensor *self, int64_t dim, bool keepdim) {
    (void)dim, (void)keepdim;
    return find(self, fac__carried_mask(s), +1, s->out[0], s->out[1]);
}

fac_status min_dim_cpu(fac_structured *s, fac_tensor *self, int64_t dim, bool keepdim) {
    (void)dim, (void)keepdim;
    return find(self, fac__carried_mask(s), -1, s->out[0], s->out[1]);
}
