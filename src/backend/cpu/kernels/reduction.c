/* Two walks, chosen by which dimensions step fastest in memory:
   - rows: each output folds its own run; runs above FAC_ROW_BLOCK are cut in blocks whose partial results are folded;
   - columns, and rows too short to be worth a call: strips of FAC_COL_WIDTH neighbouring outputs fold row after row; 16 rows at a
     time go to a strip of their own first, and 128 to another, so that sums cascade; more than FAC_COL_BLOCK rows are cut in blocks.
   Accumulates in float for 16- and 32-bit floats, double, int64 or a pair of doubles. */
#include "backend/cpu/kernels/reduction.h"
#include "backend/cpu/kernels/tile_isa.h"
#include "backend/cpu/parallel.h"
#include <math.h>

#define CASCADE_ROWS 16
#define CASCADE_PARTS 8

typedef struct job {
    const fac_reduction *r;
    fac_dim_split split;
    fac_fold_fns fns;
    const char *in;
    char *out, *partial; /* partial NULL: one block */
    fac_dtype in_dtype, out_dtype;
    size_t in_item, out_item, acc_item;
    bool direct;           /* elements are accumulators already */
    bool plain_out;        /* so are results */
    fac_fold_fns in_place; /* of elements as they lie in the input; NULL if they have to go through a tile */
    int64_t blocks, outer, strips, width;
} job;

void fac__fold_identity(fac_fold_op op, fac_acc k, void *acc, int64_t n) {
    static const float f32[] = {0.0f, 1.0f, -INFINITY, INFINITY};
    static const double f64[] = {0.0, 1.0, -INFINITY, INFINITY};
    static const int64_t i64[] = {0, 1, INT64_MIN, INT64_MAX, 0};
    if (op == FAC_FOLD_SUM)
        memset(acc, 0, (size_t)n * fac__acc_size(k));
    else if (k == FAC_ACC_F32)
        for (int64_t i = 0; i < n; i++) ((float *)acc)[i] = f32[op];
    else if (k == FAC_ACC_F64)
        for (int64_t i = 0; i < n; i++) ((double *)acc)[i] = f64[op];
    else if (k == FAC_ACC_I64)
        for (int64_t i = 0; i < n; i++) ((int64_t *)acc)[i] = i64[op];
    else
        for (int64_t i = 0; i < n; i++) ((double *)acc)[2 * i] = f64[op], ((double *)acc)[2 * i + 1] = 0.0;
}

static void load(const job *j, void *dst, const char *src, int64_t stride, int64_t n) {
    fac_acc k = j->r->kind;
    if (j->r->via && j->r->via != j->in_dtype && !fac__acc_is(k, j->r->via)) { /* else loading converts to it */
        fac__tile_load_as(k, dst, src, j->in_dtype, stride, n, j->r->via);
        return;
    }
    if (j->r->map == FAC_MAP_NONE)
        fac__tile_load(k, dst, src, j->in_dtype, stride, n);
    else
        fac__tile_load_map(k, dst, src, j->in_dtype, stride, n, j->r->map, j->r->p);
}

static void finish(const job *j, void *acc, int64_t n) {
    const fac_reduction *r = j->r;
    if (r->finish != FAC_FINISH_NONE) FAC_ISA_PICK(fac__tile_finish)(r->kind, acc, n, r->finish, r->finish_p);
}

typedef union strip {
    float f32[FAC_COL_WIDTH];
    double f64[2 * FAC_COL_WIDTH];
} strip __attribute__((aligned(64)));

/* ---- rows -------------------------------------------------------------------------------------------------------- */

/* Sums of runs are kept apart and then summed as a run themselves, pairwise. Few at a time: they lie on the stack. */
enum { PARTS = 128 };
typedef struct parts {
    int64_t n;
    union {
        double align;
        char bytes[PARTS * 16];
    } room;
} parts;

static void parts_fold(const job *j, parts *p, void *acc) {
    j->fns.row(&p->room, p->n, acc);
    p->n = 0;
}

static void fold_run(const job *j, fac_fold_row_fn row, const void *x, int64_t n, parts *p, void *acc) {
    if (j->r->op != FAC_FOLD_SUM) {
        row(x, n, acc);
        return;
    }
    if (p->n == PARTS) parts_fold(j, p, acc);
    char *slot = p->room.bytes + (size_t)p->n++ * j->acc_item;
    memset(slot, 0, j->acc_item);
    row(x, n, slot);
}

/* Folds points [i, end) of the reduced nest, collecting short or unreadable runs in a tile. */
static void fold_tiled(const job *j, const char *base, int64_t i, int64_t end, parts *p, void *acc) {
    const fac_nest *red = &j->split.reduced;
    int64_t step = fac__nest_step(red, 0);
    fac_cursor c;
    fac_tile_buf tile;
    fac__nest_seek(red, 1, i, &c);
    while (i < end) {
        int64_t filled = 0;
        while (filled < FAC_TILE && i < end) {
            int64_t m = fac__min(fac__min(fac__nest_run(red, &c), end - i), FAC_TILE - filled);
            load(j, (char *)&tile + (size_t)filled * j->acc_item, base + c.offset[0] * (int64_t)j->in_item, step, m);
            fac__nest_advance(red, 1, m, &c);
            filled += m;
            i += m;
        }
        fold_run(j, j->fns.row, &tile, filled, p, acc);
    }
}

static void fold_direct(const job *j, const char *base, int64_t i, int64_t end, parts *p, void *acc) {
    const fac_nest *red = &j->split.reduced;
    fac_cursor c;
    fac__nest_seek(red, 1, i, &c);
    while (i < end) {
        int64_t m = fac__min(fac__nest_run(red, &c), end - i);
        fold_run(j, j->in_place.row, base + c.offset[0] * (int64_t)j->in_item, m, p, acc);
        fac__nest_advance(red, 1, m, &c);
        i += m;
    }
}

/* Sums of several equal runs of floats, which are added to each other before what that leaves is folded. */
static bool is_grid(const job *j) {
    const fac_nest *red = &j->split.reduced;
    return j->r->op == FAC_FOLD_SUM && j->direct && red->ndim == 2 && fac__nest_step(red, 0) == 1 &&
           red->size[0] <= FAC_COL_WIDTH && red->size[0] >= FAC_LONG_RUN / 2 && red->size[1] >= 4;
}

static void fold_grid(const job *j, const char *base, void *acc) {
    const int64_t w = j->split.reduced.size[0], rows = j->split.reduced.size[1], ld = j->split.reduced.stride[0][1];
    strip all, part;
    fac__fold_identity(FAC_FOLD_SUM, j->r->kind, &all, w);
    for (int64_t i = 0; i < rows; i += CASCADE_ROWS) {
        fac__fold_identity(FAC_FOLD_SUM, j->r->kind, &part, w);
        j->fns.col(base + i * ld * (int64_t)j->in_item, ld, fac__min(CASCADE_ROWS, rows - i), w, &part);
        j->fns.col(&part, w, 1, w, &all);
    }
    j->fns.row(&all, w, acc);
}

static void fold_range(const job *j, const char *base, int64_t begin, int64_t end, void *acc) {
    const fac_nest *red = &j->split.reduced;
    bool long_runs = red->ndim <= 1 || red->size[0] >= FAC_LONG_RUN;
    parts p;
    p.n = 0;
    if (is_grid(j) && j->blocks == 1)
        fold_grid(j, base, acc);
    else if (j->in_place.row && fac__nest_step(red, 0) == 1 && long_runs)
        fold_direct(j, base, begin, end, &p, acc);
    else
        fold_tiled(j, base, begin, end, &p, acc);
    if (p.n) parts_fold(j, &p, acc);
}

/* Results go home in one piece: no conversion but what finish does. */
static void store(const job *j, fac_acc_value *acc, const fac_cursor *c) {
    char *home = j->out + c->offset[1] * (int64_t)j->out_item;
    finish(j, acc, 1);
    if (j->plain_out)
        memcpy(home, acc, j->acc_item);
    else
        fac__tile_store(j->r->kind, acc, home, j->out_dtype, 1, 1);
}

enum { SHORT_ROW = 32, MEDIUM_ROW = 512, ROWS_AT_ONCE = 64, THIN = 16 };

/* Rows of floats whose sums, or sums of squares, are taken side by side. */
static bool sums_squares(const job *j) {
    return j->in_place.row && j->r->map == FAC_MAP_SQUARE && j->in_dtype == FAC_F32;
}
static bool sums_floats(const job *j) {
    return j->r->kind == FAC_ACC_F32 && j->r->op == FAC_FOLD_SUM && (j->direct || sums_squares(j));
}

static bool is_extreme(const job *j) {
    return (j->r->op == FAC_FOLD_MAX || j->r->op == FAC_FOLD_MIN) && j->r->map == FAC_MAP_NONE && j->in_place.row &&
           j->r->finish == FAC_FINISH_NONE && (j->in_dtype == FAC_F32 || j->in_dtype == FAC_I32);
}

static bool folds_doubles(const job *j) { return j->direct && j->r->kind == FAC_ACC_F64 && j->plain_out; }
static bool multiplies_floats(const job *j) {
    return j->direct && j->r->kind == FAC_ACC_F32 && j->r->op == FAC_FOLD_PROD && j->plain_out;
}

/* Rows that several at a time are folded of. */
static bool is_short(const job *j) {
    const bool floats = sums_floats(j) && j->plain_out, extreme = is_extreme(j), doubles = folds_doubles(j),
               products = multiplies_floats(j);
    return (floats || doubles || extreme || products) && j->split.kept.ndim == 1 &&
           j->split.reduced.count <= (doubles || products ? SHORT_ROW : MEDIUM_ROW);
}

/* Short rows that lie one behind the other, all their elements equally far apart: many at a time go through a tile. */
static bool is_short_in_tiles(const job *j) {
    const fac_nest *kept = &j->split.kept, *red = &j->split.reduced;
    return j->r->kind != FAC_ACC_C128 && kept->ndim == 1 && red->ndim == 1 && red->count > 0 &&
           red->count <= SHORT_ROW && kept->count >= 4 &&
           fac__nest_step(kept, 0) == red->count * fac__nest_step(red, 0) &&
           !(fac__nest_step(red, 0) == 1 && (is_short(j) || (j->in_place.row && j->r->kind == FAC_ACC_I64)));
}

/* The rows of a tile. */
static void fold_short(const job *j, const fac_tile_buf *x, int64_t n, int64_t rows, void *acc) {
    if (j->r->kind == FAC_ACC_I64) {
        fac__fold_identity(j->r->op, FAC_ACC_I64, acc, rows);
        for (int64_t r = 0; r < rows; r++) j->fns.row(x->i64 + r * n, n, (int64_t *)acc + r);
    } else if (j->r->kind == FAC_ACC_F64)
        FAC_ISA_PICK(fac__fold_short_rows_f64)(j->r->op, x->f64, n, n, rows, acc);
    else if (j->r->op == FAC_FOLD_SUM)
        FAC_ISA_PICK(fac__sum_rows_f32)(false, x->f32, n, n, rows, acc);
    else if (j->r->op == FAC_FOLD_PROD)
        FAC_ISA_PICK(fac__prod_rows_f32)(x->f32, n, n, rows, acc);
    else
        FAC_ISA_PICK(fac__best_rows)(j->r->op, FAC_F32, x->f32, n, n, rows, acc);
}

static fac_status run_short_tiles(void *ctx, int64_t begin, int64_t end) {
    const job *j = ctx;
    const int64_t n = j->split.reduced.count, step = fac__nest_step(&j->split.reduced, 0);
    const int64_t next = fac__nest_step(&j->split.kept, 0), out = fac__nest_step(&j->split.kept, 1);
    const int64_t some = fac__min(ROWS_AT_ONCE, FAC_TILE / n);
    fac_tile_buf tile;
    double acc[ROWS_AT_ONCE];
    for (int64_t i = begin; i < end; i += some) {
        const int64_t rows = fac__min(some, end - i);
        load(j, &tile, j->in + i * next * (int64_t)j->in_item, step, rows * n);
        fold_short(j, &tile, n, rows, acc);
        finish(j, acc, rows);
        fac__tile_store(j->r->kind, acc, j->out + i * out * (int64_t)j->out_item, j->out_dtype, out, rows);
    }
    return FAC_OK;
}

static fac_status run_short_rows(void *ctx, int64_t begin, int64_t end) {
    const job *j = ctx;
    const int64_t step = fac__nest_step(&j->split.kept, 0), out = fac__nest_step(&j->split.kept, 1);
    const int64_t n = j->split.reduced.count;
    union {
        float f32[ROWS_AT_ONCE];
        double f64[ROWS_AT_ONCE];
    } acc;
    for (int64_t i = begin; i < end; i += ROWS_AT_ONCE) {
        const int64_t rows = fac__min(ROWS_AT_ONCE, end - i);
        const void *x = j->in + i * step * (int64_t)j->in_item;
        if (is_extreme(j)) {
            FAC_ISA_PICK(fac__best_rows)(j->r->op, j->in_dtype, x, step, n, rows, &acc);
            fac__casts[j->out_dtype][j->in_dtype](j->out + i * out * (int64_t)j->out_item, out, &acc, 1, rows);
            continue;
        }
        if (multiplies_floats(j))
            FAC_ISA_PICK(fac__prod_rows_f32)(x, step, n, rows, acc.f32);
        else if (j->r->kind == FAC_ACC_F32)
            FAC_ISA_PICK(fac__sum_rows_f32)(!j->direct, x, step, n, rows, acc.f32);
        else
            FAC_ISA_PICK(fac__fold_short_rows_f64)(j->r->op, x, step, n, rows, acc.f64);
        finish(j, &acc, rows);
        fac__tile_store(j->r->kind, &acc, j->out + i * out * (int64_t)j->out_item, j->out_dtype, out, rows);
    }
    return FAC_OK;
}

/* Each output folds one run, which lies as it is needed or fits a tile; results are finished several at a time. */
static fac_status run_whole_rows(void *ctx, int64_t begin, int64_t end) {
    const job *j = ctx;
    const fac_nest *kept = &j->split.kept;
    const int64_t n = j->split.reduced.count, step = fac__nest_step(&j->split.reduced, 0);
    const fac_fold_row_fn row = step == 1 ? j->in_place.row : NULL;
    const int64_t next = fac__nest_step(kept, 0) * (int64_t)j->in_item;
    enum { TOGETHER = 32 };
    fac_acc_value acc[TOGETHER]; /* accumulators of the kind, side by side */
    fac_tile_buf tile;
    fac_cursor c;
    fac__nest_seek(kept, 2, begin, &c);
    for (int64_t i = begin, m; i < end; i += m, fac__nest_advance(kept, 2, m, &c)) {
        m = fac__min(fac__min(TOGETHER, fac__nest_run(kept, &c)), end - i);
        const char *x = j->in + c.offset[0] * (int64_t)j->in_item;
        fac__fold_identity(j->r->op, j->r->kind, acc, m);
        for (int64_t k = 0; k < m; k++, x += next) {
            if (!row) load(j, &tile, x, step, n);
            (row ? row : j->fns.row)(row ? (const void *)x : &tile, n, (char *)acc + (size_t)k * j->acc_item);
        }
        finish(j, acc, m);
        fac__tile_store(j->r->kind, acc, j->out + c.offset[1] * (int64_t)j->out_item, j->out_dtype,
                        fac__nest_step(kept, 1), m);
    }
    return FAC_OK;
}

static fac_status run_rows(void *ctx, int64_t begin, int64_t end) {
    const job *j = ctx;
    const fac_nest *kept = &j->split.kept;
    int64_t n = j->split.reduced.count;
    fac_acc_value acc;
    fac_cursor c;
    fac__nest_seek(kept, 2, begin / j->blocks, &c);
    for (int64_t i = begin; i < end; i++) {
        int64_t b = i % j->blocks;
        fac__fold_identity(j->r->op, j->r->kind, &acc, 1);
        const char *base = j->in + c.offset[0] * (int64_t)j->in_item;
        fold_range(j, base, b * FAC_ROW_BLOCK, fac__min(n, (b + 1) * FAC_ROW_BLOCK), &acc);
        if (j->partial)
            memcpy(j->partial + (size_t)i * j->acc_item, &acc, j->acc_item);
        else
            store(j, &acc, &c);
        if (b == j->blocks - 1) fac__nest_advance(kept, 2, 1, &c);
    }
    return FAC_OK;
}

static void combine_rows(const job *j) {
    const fac_nest *kept = &j->split.kept;
    fac_acc_value acc;
    fac_cursor c;
    fac__nest_seek(kept, 2, 0, &c);
    for (int64_t i = 0; i < kept->count; i++) {
        fac__fold_identity(j->r->op, j->r->kind, &acc, 1);
        j->fns.row(j->partial + (size_t)(i * j->blocks) * j->acc_item, j->blocks, &acc);
        store(j, &acc, &c);
        fac__nest_advance(kept, 2, 1, &c);
    }
}

static fac_status alloc_partial(job *j, int64_t n) {
    int64_t bytes;
    FAC_CHECK(fac__mul(n, (int64_t)j->acc_item, &bytes), FAC_ERR_OVERFLOW, "too many partial results: %lld",
              (long long)n);
    j->partial = fac__alloc_aligned((size_t)bytes, 64);
    return j->partial ? FAC_OK : fac_error();
}

static fac_status reduce_rows(job *j) {
    int64_t n = j->split.reduced.count;
    j->blocks = fac__max(1, fac__div_up(n, FAC_ROW_BLOCK));
    int64_t items;
    FAC_CHECK(fac__mul(j->split.kept.count, j->blocks, &items), FAC_ERR_OVERFLOW, "too many elements to reduce");
    if (j->blocks > 1) FAC_TRY(alloc_partial(j, items));
    int64_t grain = fac__grain(FAC_GRAIN, fac__min(n, FAC_ROW_BLOCK));
    const bool in_place = j->in_place.row && fac__nest_step(&j->split.reduced, 0) == 1;
    const bool whole = n > 0 && n <= (in_place ? FAC_ROW_BLOCK : FAC_TILE) && j->split.reduced.ndim <= 1;
    fac_range_fn run = is_short_in_tiles(j)               ? run_short_tiles
                       : whole && in_place && is_short(j) ? run_short_rows
                       : whole                            ? run_whole_rows
                                                          : run_rows;
    fac_status st = fac__parallel_for(0, items, grain, run, j);
    if (j->partial && st == FAC_OK) combine_rows(j);
    fac__free(j->partial);
    return st;
}

/* ---- columns ------------------------------------------------------------------------------------------------------ */

/* Folds `rows` rows from the cursor on into acc. */
static void fold_rows(const job *j, const char *base, int64_t rows, int64_t w, fac_cursor *c, void *acc) {
    const fac_nest *red = &j->split.reduced;
    int64_t step = fac__nest_step(&j->split.kept, 0);
    const fac_fold_col_fn in_place = step == 1 ? j->in_place.col : NULL;
    while (rows > 0) {
        int64_t m = fac__min(fac__nest_run(red, c), rows);
        const char *p = base + c->offset[0] * (int64_t)j->in_item;
        if (in_place) {
            in_place(p, fac__nest_step(red, 0), m, w, acc);
        } else {
            strip some;
            m = fac__min(m, (int64_t)(sizeof some / j->acc_item) / w);
            for (int64_t i = 0; i < m; i++)
                load(j, (char *)&some + (size_t)(i * w) * j->acc_item,
                     p + i * fac__nest_step(red, 0) * (int64_t)j->in_item, step, w);
            j->fns.col(&some, w, m, w, acc);
        }
        fac__nest_advance(red, 1, m, c);
        rows -= m;
    }
}

/* Rows of a strip: of the input from a cursor on, or partial results. */
typedef struct strip_rows {
    const char *base;
    fac_cursor c;
    const char *partial; /* NULL: the input */
    int64_t ld;
} strip_rows;

static void take_rows(const job *j, strip_rows *s, int64_t rows, int64_t w, void *acc) {
    if (!s->partial) {
        fold_rows(j, s->base, rows, w, &s->c, acc);
        return;
    }
    j->fns.col(s->partial, s->ld, rows, w, acc);
    s->partial += (size_t)(rows * s->ld) * j->acc_item;
}

/* Few additions after another: 16 rows to a part, 8 parts to a middle, and those to acc. */
static void fold_strip(const job *j, strip_rows *s, int64_t rows, int64_t w, strip *acc) {
    fac__fold_identity(j->r->op, j->r->kind, acc, w);
    if (j->r->op != FAC_FOLD_SUM || rows <= CASCADE_ROWS) {
        take_rows(j, s, rows, w, acc);
        return;
    }
    while (rows > 0) {
        strip middle, part;
        fac__fold_identity(j->r->op, j->r->kind, &middle, w);
        for (int k = 0; k < CASCADE_PARTS && rows > 0; k++) {
            const int64_t some = fac__min(CASCADE_ROWS, rows);
            fac__fold_identity(j->r->op, j->r->kind, &part, w);
            take_rows(j, s, some, w, &part);
            j->fns.col(&part, w, 1, w, &middle);
            rows -= some;
        }
        j->fns.col(&middle, w, 1, w, acc);
    }
}

/* Task i is block b of strip t of outer output o, with i = (o * strips + t) * blocks + b. */
static fac_status run_columns(void *ctx, int64_t begin, int64_t end) {
    const job *j = ctx;
    const fac_nest *kept = &j->split.kept;
    int64_t n = j->split.reduced.count;
    for (int64_t i = begin; i < end; i++) {
        int64_t b = i % j->blocks, t = i / j->blocks % j->strips, o = i / j->blocks / j->strips;
        int64_t at = t * FAC_COL_WIDTH, w = fac__min(FAC_COL_WIDTH, j->width - at);
        fac_cursor c;
        strip acc;
        strip_rows rows = {.partial = NULL};
        fac__nest_seek(kept, 2, o * j->width + at, &c);
        rows.base = j->in + c.offset[0] * (int64_t)j->in_item;
        fac__nest_seek(&j->split.reduced, 1, b * FAC_COL_BLOCK, &rows.c);
        fold_strip(j, &rows, fac__min(n - b * FAC_COL_BLOCK, FAC_COL_BLOCK), w, &acc);
        if (j->partial) {
            int64_t slot = b * kept->count + o * j->width + at;
            memcpy(j->partial + (size_t)slot * j->acc_item, &acc, (size_t)w * j->acc_item);
            continue;
        }
        finish(j, &acc, w);
        fac__tile_store(j->r->kind, &acc, j->out + c.offset[1] * (int64_t)j->out_item, j->out_dtype,
                        fac__nest_step(kept, 1), w);
    }
    return FAC_OK;
}

static void combine_columns(const job *j) {
    const fac_nest *kept = &j->split.kept;
    for (int64_t i = 0; i < j->outer * j->strips; i++) {
        int64_t t = i % j->strips, o = i / j->strips;
        int64_t at = t * FAC_COL_WIDTH, w = fac__min(FAC_COL_WIDTH, j->width - at), slot = o * j->width + at;
        fac_cursor c;
        strip acc;
        strip_rows rows = {.partial = j->partial + (size_t)slot * j->acc_item, .ld = kept->count};
        fold_strip(j, &rows, j->blocks, w, &acc);
        finish(j, &acc, w);
        fac__nest_seek(kept, 2, slot, &c);
        fac__tile_store(j->r->kind, &acc, j->out + c.offset[1] * (int64_t)j->out_item, j->out_dtype,
                        fac__nest_step(kept, 1), w);
    }
}

static fac_status reduce_columns(job *j) {
    const fac_nest *kept = &j->split.kept;
    int64_t n = j->split.reduced.count;
    j->blocks = fac__max(1, fac__div_up(n, FAC_COL_BLOCK));
    j->width = kept->size[0];
    j->outer = kept->count / j->width;
    j->strips = fac__div_up(j->width, FAC_COL_WIDTH);
    int64_t items = j->outer * j->strips * j->blocks;
    if (j->blocks > 1) FAC_TRY(alloc_partial(j, j->blocks * kept->count));
    int64_t cost = fac__min(n, FAC_COL_BLOCK) * fac__min(j->width, FAC_COL_WIDTH);
    fac_status st = fac__parallel_for(0, items, fac__grain(FAC_GRAIN, cost), run_columns, j);
    if (j->partial && st == FAC_OK) combine_columns(j);
    fac__free(j->partial);
    return st;
}

/* ---- narrow columns: rows of several rows --------------------------------------------------------------------------------- */

static bool is_narrow(const job *j) {
    const fac_nest *kept = &j->split.kept, *red = &j->split.reduced;
    return kept->ndim == 1 && red->ndim == 1 && kept->count > 1 && kept->count <= FAC_COL_WIDTH / 4 &&
           fac__nest_step(kept, 0) > 0 && fac__nest_step(red, 0) == kept->count * fac__nest_step(kept, 0) &&
           red->count >= 2 * (FAC_COL_WIDTH / kept->count);
}

/* Adds the rows of what r holds to acc, as blocks of columns are. */
static void join(const job *j, strip_rows r, int64_t rows, int64_t w, strip *acc) {
    strip some;
    fold_strip(j, &r, rows, w, &some);
    j->fns.col(&some, w, 1, w, acc);
}

static __attribute__((noinline)) fac_status reduce_narrow(job *j) {
    const int64_t w = j->split.kept.count, n = j->split.reduced.count, out_step = fac__nest_step(&j->split.kept, 1);
    const int64_t together = FAC_COL_WIDTH / w, rows = n / together;
    strip wide, acc;
    j->split.kept.count = j->split.kept.size[0] = j->width = together * w;
    j->split.reduced.count = j->split.reduced.size[0] = rows;
    j->split.reduced.stride[0][0] *= together;
    j->blocks = fac__div_up(rows, FAC_COL_BLOCK);
    j->outer = j->strips = 1;
    FAC_TRY(alloc_partial(j, j->blocks * j->width));
    const int64_t cost = fac__min(rows, FAC_COL_BLOCK) * j->width;
    const fac_status st = fac__parallel_for(0, j->blocks, fac__grain(FAC_GRAIN, cost), run_columns, j);
    if (st == FAC_OK) {
        fac__fold_identity(j->r->op, j->r->kind, &acc, w);
        const int64_t ahead = rows * fac__nest_step(&j->split.reduced, 0);
        strip_rows left = {.base = j->in + ahead * (int64_t)j->in_item};
        fold_strip(j, &(strip_rows){.partial = j->partial, .ld = j->width}, j->blocks, j->width, &wide);
        join(j, (strip_rows){.partial = (const char *)&wide, .ld = w}, together, w, &acc);
        j->split.reduced.count = j->split.reduced.size[0] = n - rows * together;
        j->split.reduced.stride[0][0] /= together;
        fac__nest_seek(&j->split.reduced, 1, 0, &left.c);
        if (n > rows * together) join(j, left, n - rows * together, w, &acc);
        finish(j, &acc, w);
        fac__tile_store(j->r->kind, &acc, j->out, j->out_dtype, out_step, w);
    }
    fac__free(j->partial);
    return st;
}

/* Neighbouring outputs that fold few elements each. */
static bool is_thin(const job *j) {
    return j->split.reduced.count <= (j->direct ? THIN / 4 : THIN) && j->split.kept.ndim &&
           j->split.kept.size[0] >= FAC_LONG_RUN && !is_short(j);
}

/* ---- entry ---------------------------------------------------------------------------------------------------------- */

fac_status fac__reduce(const fac_reduction *r, fac_tensor *in, uint64_t mask, fac_tensor *out) {
    if (out->numel == 0) return FAC_OK;
    job j; /* members are set one by one: the nests are large, and setting them up is what a small call costs */
    j.r = r;
    j.fns = fac__fold_get(r->op, r->kind);
    j.in = fac__data(in);
    j.out = fac__data(out);
    j.partial = NULL;
    j.in_dtype = (fac_dtype)in->dtype;
    j.out_dtype = (fac_dtype)out->dtype;
    j.direct = r->map == FAC_MAP_NONE && (!r->via || r->via == j.in_dtype) && fac__acc_is(r->kind, j.in_dtype);
    j.plain_out = fac__acc_is(r->kind, j.out_dtype);
    j.acc_item = fac__acc_size(r->kind);
    if (j.direct)
        j.in_place = j.fns;
    else if (r->via && r->via != j.in_dtype)
        j.in_place = (fac_fold_fns){NULL, NULL};
    else
        j.in_place = FAC_ISA_PICK(fac__fold_of)(r->op, r->kind, j.in_dtype, r->map);
    if (j.in_place.row && fac__is_contiguous(in) && out->numel == 1 && in->numel <= FAC_ROW_BLOCK) {
        fac_acc_value acc;
        fac__fold_identity(r->op, r->kind, &acc, 1);
        if (multiplies_floats(&j) && in->numel > 0 && in->numel <= SHORT_ROW)
            FAC_ISA_PICK(fac__prod_rows_f32)((const void *)j.in, 0, in->numel, 1, &acc.f32);
        else if (folds_doubles(&j) && in->numel > 0 && in->numel <= SHORT_ROW) /* with the bits of a row among others */
            FAC_ISA_PICK(fac__fold_short_rows_f64)(r->op, (const void *)j.in, 0, in->numel, 1, &acc.f64);
        else
            j.in_place.row(j.in, in->numel, &acc);
        finish(&j, &acc, 1);
        fac__tile_store(r->kind, &acc, j.out, j.out_dtype, 1, 1);
        return FAC_OK;
    }
    j.in_item = fac__dtype_size(j.in_dtype);
    j.out_item = fac__dtype_size(j.out_dtype);
    fac__split(&j.split, in, mask, &out, 1, false);
    if (is_narrow(&j)) return reduce_narrow(&j);
    return fac__split_is_columns(&j.split) || (is_thin(&j) && !is_short_in_tiles(&j)) ? reduce_columns(&j)
                                                                                      : reduce_rows(&j);
}

/* ---- both extremes of everything ---------------------------------------------------------------------------------------- */

typedef struct extremes_job {
    const char *in;
    fac_dtype dtype;
    size_t item;
    int64_t n;
    fac_acc kind;
    fac_acc_value (*best)[2]; /* of each block */
} extremes_job;

static void no_extremes(fac_acc kind, fac_acc_value best[2]) {
    fac__fold_identity(FAC_FOLD_MIN, kind, &best[0], 1);
    fac__fold_identity(FAC_FOLD_MAX, kind, &best[1], 1);
}

/* Few at a time, which are still in L1 where they are read twice. */
static fac_status run_extremes(void *ctx, int64_t begin, int64_t end) {
    enum { PIECE_BYTES = 16384 };
    const extremes_job *j = ctx;
    const int64_t piece = PIECE_BYTES / (int64_t)j->item;
    for (int64_t b = begin; b < end; b++) {
        const int64_t last = fac__min(j->n, (b + 1) * FAC_ROW_BLOCK);
        no_extremes(j->kind, j->best[b]);
        for (int64_t i = b * FAC_ROW_BLOCK; i < last; i += piece)
            FAC_ISA_PICK(fac__extremes)(j->dtype, j->in + i * (int64_t)j->item, fac__min(piece, last - i), j->best[b]);
    }
    return FAC_OK;
}

fac_status fac__reduce_extremes(fac_acc kind, fac_tensor *in, fac_tensor *least, fac_tensor *most) {
    const int64_t blocks = fac__div_up(in->numel, FAC_ROW_BLOCK);
    fac_acc_value best[2], one[1][2];
    extremes_job j = {.in = fac__data(in), .dtype = (fac_dtype)in->dtype, .n = in->numel, .kind = kind, .best = one};
    j.item = fac__dtype_size(j.dtype);
    if (blocks > 1) j.best = fac__alloc_aligned((size_t)blocks * sizeof *j.best, 64);
    if (!j.best) return fac_error();
    fac_status st = fac__parallel_for(0, blocks, 1, run_extremes, &j);
    no_extremes(kind, best);
    for (int64_t b = 0; b < blocks; b++) {
        fac__fold_get(FAC_FOLD_MIN, kind).row(&j.best[b][0], 1, &best[0]);
        fac__fold_get(FAC_FOLD_MAX, kind).row(&j.best[b][1], 1, &best[1]);
    }
    fac__tile_store(kind, &best[0], fac__data(least), (fac_dtype)least->dtype, 1, 1);
    fac__tile_store(kind, &best[1], fac__data(most), (fac_dtype)most->dtype, 1, 1);
    if (blocks > 1) fac__free(j.best);
    return st;
}
