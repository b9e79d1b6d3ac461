/* Loops want contiguous operands of one dtype. What lies so is passed as it is; what is strided, broadcast or of another
   dtype is gathered and converted into tiles of at most 8 KB that stay in L1, and results are converted and scattered back.
   The cost is one pass through L1; the gain is that a loop is compiled once. Where an operand lies across the others, tiles are blocks of
   two dimensions, so that each is read and written by whole cache lines. */
#include "backend/cpu/pointwise.h"
#include "backend/cpu/kernels/transpose.h"

#include <stdalign.h>

#define TILE_BYTES 4096
#define TILES_BYTES (5 * TILE_BYTES) /* of all tiles: they lie on the stack, and a thread may have little of it */
#define STREAM_TILE_BYTES 512        /* longer bursts past the cache stall the loads between them */
#define STREAM_THREADS 4             /* more of them wait for memory whatever they compute */
#define SHORT_ROW 32                 /* rows below this are gathered several to a tile */
#define CAST_BYTES 8192              /* of a tile, where conversions are all that precedes and follows the loop */
#define TURN_BYTES 1024              /* of a tile, where several inputs with gaps come from memory in turns */
#define LEVEL_BYTES 2048             /* of a tile that is filled anew for each row */
#define BLOCK_ROWS 16                /* of a block; fewer elements are not worth one */

fac_loop fac__loops[FAC_LOOP_COUNT][FAC_DTYPE_COUNT];
fac_cast fac__casts[FAC_DTYPE_COUNT][FAC_DTYPE_COUNT];
fac_stream_copy fac__stream_copy;

/* Loops that compute for longer than memory takes to fetch what they will overwrite: past the cache they would be slower. */
#define MARK(name, result, inputs, numbers) [FAC_LOOP_##name] = true,
static const bool computes_long[FAC_LOOP_COUNT] = {FAC_LOOPS_MATH(MARK) FAC_LOOPS_ACTIVATION(MARK) FAC_LOOPS_SPECIAL(
    MARK) FAC_LOOPS_SUMS(MARK) FAC_LOOPS_POLYNOMIALS(MARK)};
/* Those that select by their first input, a truth value. */
static const bool selects[FAC_LOOP_COUNT] = {FAC_LOOPS_SELECT(MARK)};
#undef MARK

typedef struct run {
    const fac_iter *it;
    fac_loop loop;
    const fac_loop_args *args;
    const uint8_t *want;
    bool may_stream; /* large outputs may be written past the cache */
    int64_t tile;    /* elements per step; INT64_MAX if every operand is direct */
    int64_t tile_bytes;
    uint8_t tile_of
        [FAC_ITER_MAX]; /* the tile of an operand that is not direct; unless `plain`, two more follow, for raw elements */
    uint8_t n_tiles;
    bool rows;       /* steps stay within a row of dimension 0 */
    unsigned direct; /* bit i: the loop gets operand i as it lies */
    unsigned fixed;  /* bit i: one value everywhere, put in its tile once */
    unsigned
        level; /* bit i: one value along a row, put in its tile at the row's start, in the dtype that the loop wants */
    unsigned
        cast; /* bit i: lies well, but in another dtype than the loop wants; of it a piece at a time is converted */
    unsigned stream; /* bit i: output i is written past the cache */
    bool burst;      /* the one output is streamed as the loop makes it, and all inputs are direct or fixed */
    bool plain;      /* every operand is direct, fixed, level or cast */
    int across;      /* steps are blocks of BLOCK_ROWS rows along this dimension; 0: they are not */
    int64_t width;   /* of a block, along dimension 0 */
} run;

typedef struct tiles {
    alignas(64) char bytes[TILES_BYTES];
} tiles;

static char *operand_tile(const run *r, tiles *t, int i) { return t->bytes + r->tile_of[i] * r->tile_bytes; }
/* The first (0) or second (1) for elements that are gathered but not converted yet. */
static char *raw_tile(const run *r, tiles *t, int i) { return t->bytes + (r->n_tiles + i) * r->tile_bytes; }

static int64_t item_of(fac_dtype d) { return fac__dtype_size(d); }
static bool has(unsigned set, int i) { return (set >> i) & 1u; }

static char *address(const fac_iter *it, int i, const fac_cursor *c) { return it->op[i].data + c->offset[i]; }

/* Copies n elements between operand i, from a point on, and a contiguous buffer. */
static void move_raw(const fac_iter *it, int i, const fac_cursor *from, char *buffer, int64_t n, bool gather) {
    const fac_nest *nest = &it->nest;
    const int64_t item = item_of((fac_dtype)it->op[i].dtype);
    const fac_items_side own = {address(it, i, from), nest->stride[i]};
    if (n <= fac__nest_run(nest, from)) { /* one run, which costs less than setting up a walk */
        if (gather)
            fac__items_copy((size_t)item, buffer, item, own.p, own.stride[0], n);
        else
            fac__items_copy((size_t)item, own.p, own.stride[0], buffer, item, n);
        return;
    }
    int64_t packed[FAC_MAX_DIMS], stride = item;
    for (int d = 0; d < nest->ndim; stride *= nest->size[d++]) packed[d] = stride;
    const fac_items_side tile = {buffer, packed};
    fac__items_copy_points(nest, from->index, (size_t)item, gather ? tile : own, gather ? own : tile, n);
}

/* The elements of operand i for this step, contiguous but in their own dtype. */
static const char *raw_input(const run *r, int i, const fac_cursor *c, tiles *t, int64_t n) {
    const fac_iter *it = r->it;
    int64_t item = item_of((fac_dtype)it->op[i].dtype);
    bool contiguous = it->nest.stride[i][0] == item && (r->rows || it->nest.ndim == 1);
    if (contiguous) return address(it, i, c);
    move_raw(it, i, c, raw_tile(r, t, 0), n, true);
    return raw_tile(r, t, 0);
}

/* Elements of operand i converted to the dtype that the loop wants. An operand that promotion turned into f16 or bf16 is rounded to
   it on the way, as if it had been converted beforehand. */
static void convert_input(const run *r, int i, const char *src, tiles *t, int64_t n) {
    fac_dtype from = (fac_dtype)r->it->op[i].dtype, common = r->it->common;
    if (fac__is_half(common) && from != common) {
        fac__casts[common][from](raw_tile(r, t, 1), 1, src, 1, n);
        src = raw_tile(r, t, 1);
        from = common;
    }
    fac__casts[r->want[i]][from](operand_tile(r, t, i), 1, src, 1, n);
}

static void load_input(const run *r, int i, const fac_cursor *c, tiles *t, int64_t n) {
    if (r->it->op[i].dtype == r->want[i])
        move_raw(r->it, i, c, operand_tile(r, t, i), n, true);
    else
        convert_input(r, i, raw_input(r, i, c, t, n), t, n);
}

/* The n elements that the loop has made of output i, in the output's dtype. */
static char *convert_output(const run *r, int i, tiles *t, int64_t n) {
    fac_dtype to = (fac_dtype)r->it->op[i].dtype;
    char *src = operand_tile(r, t, i);
    if (to == r->want[i]) return src;
    fac__casts[to][r->want[i]](raw_tile(r, t, 0), 1, src, 1, n);
    return raw_tile(r, t, 0);
}

static void store_output(const run *r, int i, const fac_cursor *c, tiles *t, int64_t n) {
    fac_dtype to = (fac_dtype)r->it->op[i].dtype;
    char *src = convert_output(r, i, t, n);
    if (has(r->stream, i))
        fac__stream_copy(address(r->it, i, c), src, n * item_of(to));
    else
        move_raw(r->it, i, c, src, n, false);
}

/* Doubles the filled part until n elements hold the first one. */
static void replicate(char *tile, int64_t n, int64_t item) {
    int64_t done = item, total = n * item;
    while (done < total) {
        int64_t m = fac__min(done, total - done);
        memcpy(tile + done, tile, (size_t)m);
        done += m;
    }
}

static void fill_fixed(const run *r, tiles *t, int64_t n) {
    for (int i = r->it->n_out; i < r->it->n; i++) {
        if (!has(r->fixed, i)) continue;
        fac_iter_number(r->it, i, (fac_dtype)r->want[i], operand_tile(r, t, i));
        replicate(operand_tile(r, t, i), n, item_of((fac_dtype)r->want[i]));
    }
}

static void run_loop(const run *r, char *const *p, int64_t n) {
    if (r->loop)
        r->loop(p, n, r->args);
    else if (p[0] != p[1])
        memcpy(p[0], p[1], (size_t)(n * item_of((fac_dtype)r->want[0])));
}

static void step(const run *r, const fac_cursor *c, tiles *t, int64_t n) {
    const fac_iter *it = r->it;
    char *p[FAC_ITER_MAX];
    for (int i = 0; i < it->n; i++) {
        p[i] = has(r->direct, i) ? address(it, i, c) : operand_tile(r, t, i);
        if (i >= it->n_out && !has(r->direct | r->fixed, i)) load_input(r, i, c, t, n);
    }
    run_loop(r, p, n);
    for (int i = 0; i < it->n_out; i++)
        if (!has(r->direct, i)) store_output(r, i, c, t, n);
}

/* The large common case apart: with a cursor's bookkeeping between tiles fewer loads are under way at once, and a third
   of the bandwidth is lost. */
static void run_burst(const run *r, fac_cursor *c, tiles *t, int64_t n) {
    const fac_iter *it = r->it;
    int64_t item = item_of((fac_dtype)it->op[0].dtype), move[FAC_ITER_MAX];
    char *dst = address(it, 0, c), *p[FAC_ITER_MAX];
    for (int i = 0; i < it->n; i++) {
        p[i] = has(r->direct, i) ? address(it, i, c) : operand_tile(r, t, i);
        move[i] = has(r->direct, i) ? r->tile * it->nest.stride[i][0] : 0;
    }
    for (int64_t m; n > 0; n -= m, dst += m * item) {
        m = fac__min(n, r->tile);
        r->loop(p, m, r->args);
        fac__stream_copy(dst, p[0], m * item);
        for (int i = 1; i < it->n; i++) p[i] += move[i];
    }
}

static void run_steps(const run *r, fac_cursor *c, tiles *t, int64_t left) {
    const fac_nest *nest = &r->it->nest;
    while (left > 0) {
        int64_t n = fac__min(r->tile, left);
        if (r->rows) n = fac__min(n, fac__nest_run(nest, c));
        step(r, c, t, n);
        left -= n;
        if (left > 0) fac__nest_advance(nest, r->it->n, n, c);
    }
}

/* m elements of every operand of `set` that is cast, `from` elements after its address in `at`, to its tile or from there. */
static inline void cast_piece(const run *r, unsigned set, char *const *at, char *const *p, int64_t from, int64_t m) {
    for (int i = 0; set; i++, set >>= 1) {
        if (!(set & 1u)) continue;
        const fac_dtype own = (fac_dtype)r->it->op[i].dtype, want = (fac_dtype)r->want[i];
        char *home = at[i] + from * item_of(own);
        if (i < r->it->n_out)
            fac__casts[own][want](home, 1, p[i], 1, m);
        else
            fac__casts[want][own](p[i], 1, home, 1, m);
    }
}

/* m times the one value at `from` of operand i. */
static void fill_level(const run *r, int i, const char *from, char *tile, int64_t m) {
    const fac_dtype own = (fac_dtype)r->it->op[i].dtype, want = (fac_dtype)r->want[i];
    alignas(16) char one[16];
    if (own != want) fac__casts[want][own](one, 1, from, 1, 1);
    fac__items_copy((size_t)item_of(want), tile, item_of(want), own == want ? from : one, 0, m);
}

/* One row, from the addresses `at` on, in pieces; p holds the tiles of the operands that have one. */
static inline void run_row(const run *r, char *const *at, char **p, int64_t n) {
    const fac_iter *it = r->it;
    for (int i = 0; i < it->n; i++) {
        if (has(r->direct, i))
            p[i] = at[i];
        else if (has(r->level, i))
            fill_level(r, i, at[i], p[i], fac__min(r->tile, n));
    }
    const unsigned made = r->cast & ((1u << it->n_out) - 1), read = r->cast ^ made;
    for (int64_t m, rest = n; rest > 0; rest -= m) {
        m = fac__min(rest, r->tile);
        cast_piece(r, read, at, p, n - rest, m);
        r->loop(p, m, r->args);
        cast_piece(r, made, at, p, n - rest, m);
        if (rest == m) break;
        for (int i = 0; i < it->n; i++)
            if (has(r->direct, i)) p[i] += m * it->nest.stride[i][0];
    }
}

/* Nothing is gathered: loops run over pieces of rows, whose addresses only move on. Of whole rows along the second
   dimension the cursor is moved once. */
static void run_plain(const run *r, fac_cursor *c, tiles *t, int64_t left) {
    const fac_iter *it = r->it;
    const fac_nest *nest = &it->nest;
    char *p[FAC_ITER_MAX], *at[FAC_ITER_MAX];
    for (int i = 0; i < it->n; i++) p[i] = operand_tile(r, t, i);
    while (left > 0) {
        const int64_t n = fac__min(left, fac__nest_run(nest, c));
        const bool whole = nest->ndim > 1 && n == nest->size[0];
        const int64_t rows = whole ? fac__min(left / n, nest->size[1] - c->index[1]) : 1;
        for (int i = 0; i < it->n; i++) at[i] = address(it, i, c);
        for (int64_t k = 0; k < rows; k++) {
            run_row(r, at, p, n);
            for (int i = 0; i < it->n && rows > 1; i++) at[i] += nest->stride[i][1];
        }
        left -= rows * n;
        if (left > 0) fac__nest_advance(nest, it->n, rows * n, c);
    }
}

static void run_by_kind(const run *r, fac_cursor *c, tiles *t, int64_t n) {
    (r->burst ? run_burst : r->plain ? run_plain : run_steps)(r, c, t, n);
}

static fac_status run_chunk(void *ctx, int64_t begin, int64_t end) {
    const run *r = ctx;
    fac_cursor c;
    tiles t;
    fac__nest_seek(&r->it->nest, r->it->n, begin, &c);
    if (r->fixed) fill_fixed(r, &t, fac__min(r->tile, end - begin));
    run_by_kind(r, &c, &t, end - begin);
    if (r->stream) fac__stream_fence();
    return FAC_OK;
}

/* ---- blocks ------------------------------------------------------------------------------------------------------------- */

/* A part of dimension 0 in some rows along `across`, the rows of a tile. */
typedef struct block {
    fac_cursor c;
    int64_t width, rows;
} block;

static block block_at(const run *r, int64_t i) {
    const fac_nest *nest = &r->it->nest;
    const int d = r->across;
    int64_t at[FAC_MAX_DIMS];
    const int64_t down = fac__div_up(nest->size[d], BLOCK_ROWS), along = fac__div_up(nest->size[0], r->width);
    at[0] = i % along * r->width, i /= along;
    at[d] = i % down * BLOCK_ROWS, i /= down;
    for (int k = 1; k < nest->ndim; k++)
        if (k != d) at[k] = i % nest->size[k], i /= nest->size[k];
    block b = {.width = fac__min(r->width, nest->size[0] - at[0]), .rows = fac__min(BLOCK_ROWS, nest->size[d] - at[d])};
    for (int j = 0; j < r->it->n; j++)
        for (int k = 0; k < nest->ndim; k++) b.c.offset[j] += at[k] * nest->stride[j][k];
    return b;
}

/* Copies operand i's elements between their places and the tile. */
static void move_block(const run *r, int i, const block *b, char *tile, bool gather) {
    const fac_nest *nest = &r->it->nest;
    const int64_t item = item_of((fac_dtype)r->it->op[i].dtype), row = b->width * item;
    const int64_t along = nest->stride[i][0], down = nest->stride[i][r->across];
    char *own = address(r->it, i, &b->c);
    const bool turned = down == item && along != item;
    for (int64_t k = 0; turned && gather && k < b->width; k++) /* of the next block */
        for (int64_t at = 0; at < b->rows * item; at += FAC_CACHE_LINE)
            __builtin_prefetch(own + (b->width + k) * along + at);
    if (turned && gather)
        fac__transpose_block(item, tile, item, row, own, along, b->rows, b->width);
    else if (turned)
        fac__transpose_block(item, own, item, along, tile, row, b->width, b->rows);
    else if (gather)
        FAC_ISA_PICK(fac__items_copy_rows)((size_t)item, tile, item, own, along, b->width, b->rows, row, down);
    else
        FAC_ISA_PICK(fac__items_copy_rows)((size_t)item, own, along, tile, item, b->width, b->rows, down, row);
}

static void step_block(const run *r, const block *b, tiles *t) {
    const fac_iter *it = r->it;
    const int64_t n = b->width * b->rows, rows = r->direct ? b->rows : 1;
    char *p[FAC_ITER_MAX];
    int64_t move[FAC_ITER_MAX];
    for (int i = 0; i < it->n; i++) {
        const bool direct = has(r->direct, i), fixed = has(r->fixed, i);
        p[i] = direct ? address(it, i, &b->c) : operand_tile(r, t, i);
        move[i] = direct ? it->nest.stride[i][r->across] : fixed ? 0 : b->width * item_of((fac_dtype)r->want[i]);
        if (i < it->n_out || direct || fixed) continue;
        const bool as_wanted = it->op[i].dtype == r->want[i];
        move_block(r, i, b, as_wanted ? p[i] : raw_tile(r, t, 0), true);
        if (!as_wanted) convert_input(r, i, raw_tile(r, t, 0), t, n);
    }
    for (int64_t k = 0; k < rows; k++) {
        run_loop(r, p, n / rows);
        for (int i = 0; i < it->n; i++) p[i] += move[i];
    }
    for (int i = 0; i < it->n_out; i++)
        if (!has(r->direct, i)) move_block(r, i, b, convert_output(r, i, t, n), false);
}

static fac_status run_blocks(void *ctx, int64_t begin, int64_t end) {
    const run *r = ctx;
    tiles t;
    if (r->fixed) fill_fixed(r, &t, r->tile);
    for (int64_t i = begin; i < end; i++) {
        const block b = block_at(r, i);
        step_block(r, &b, &t);
    }
    return FAC_OK;
}

/* The dimension along which a tensor lies that has gaps in dimension 0; 0 if there is none. */
static int dimension_across(const fac_iter *it) {
    const fac_nest *nest = &it->nest;
    for (int d = 1; d < nest->ndim; d++)
        for (int i = 0; i < it->n; i++) {
            const int64_t item = item_of((fac_dtype)it->op[i].dtype), along = nest->stride[i][0];
            if (fac__min(nest->size[0], nest->size[d]) >= BLOCK_ROWS && nest->stride[i][d] == item && along &&
                along != item)
                return d;
        }
    return 0;
}

/* ---- plans ---------------------------------------------------------------------------------------------------------------- */

static bool all_strides_zero(const fac_iter *it, int i) {
    for (int d = 0; d < it->nest.ndim; d++)
        if (it->nest.stride[i][d] != 0) return false;
    return true;
}

/* True if operand i is contiguous over every dimension, so that steps may cross rows. */
static bool contiguous_over_all(const fac_iter *it, int i) {
    int64_t expected = item_of((fac_dtype)it->op[i].dtype);
    for (int d = 0; d < it->nest.ndim; d++) {
        if (it->nest.stride[i][d] != expected) return false;
        expected *= it->nest.size[d];
    }
    return true;
}

static void plan_operand(run *r, int i) {
    const fac_iter *it = r->it;
    const fac_iter_operand *o = &it->op[i];
    int64_t item = item_of((fac_dtype)o->dtype);
    if (i >= it->n_out && (o->is_scalar || all_strides_zero(it, i))) {
        r->fixed |= 1u << i;
        return;
    }
    /* An input that promotion turned into a half is rounded to it before it is converted on. */
    const bool at_once = o->dtype == r->want[i] || i < it->n_out || o->dtype == it->common || !fac__is_half(it->common);
    bool lies_well = r->rows ? it->nest.stride[i][0] == item : contiguous_over_all(it, i);
    if (i < it->n_out && r->may_stream && it->nest.ndim == 1 && lies_well && it->nest.count * item >= FAC_STREAM_BYTES)
        r->stream |= 1u << i;
    else if (lies_well && o->dtype == r->want[i])
        r->direct |= 1u << i;
    else if (lies_well && at_once)
        r->cast |= 1u << i;
    else if (i >= it->n_out && r->rows && it->nest.stride[i][0] == 0 && at_once)
        r->level |= 1u << i;
}

/* Takes the loop that reads a row's value of these operands once, where there is one: as it lies, or converted, from its tile. */
static void plan_level(run *r) {
    const fac_loop own = FAC_ISA_PICK(fac__level_loop)(r->loop, r->level);
    if (!own) return;
    r->loop = own;
    for (int i = r->it->n_out; i < r->it->n; i++)
        if (has(r->level, i) && r->it->op[i].dtype == r->want[i]) r->direct |= 1u << i;
    r->level &= ~r->direct;
}

/* The same for inputs that are one number everywhere, whose tiles hold it. */
static void plan_fixed(run *r) {
    const fac_loop own = FAC_ISA_PICK(fac__level_loop)(r->loop, r->fixed);
    if (own) r->loop = own;
}

/* The first input whose tile may hold the result, too, where that is converted; 0 if there is none. */
static int shares_with_result(const run *r) {
    for (int i = r->it->n_out; r->plain && has(r->cast, 0) && i < r->it->n; i++)
        if (has(r->cast, i) && r->want[i] == r->want[0]) return i;
    return 0;
}

/* Operands that are not direct share the tiles' bytes. */
static void plan_tiles(run *r) {
    enum { RAW = 2, ALIGN = 64 };
    const int shared = shares_with_result(r);
    for (int i = 0; i < r->it->n; i++)
        if (!has(r->direct, i)) r->tile_of[i] = shared && i == shared ? r->tile_of[0] : r->n_tiles++;
    const int raw = r->plain ? 0 : RAW;
    r->tile_bytes = fac__min(r->plain && r->cast ? CAST_BYTES : TILE_BYTES,
                             TILES_BYTES / fac__max(1, r->n_tiles + raw) / ALIGN * ALIGN);
}

/* Inputs that are brought together from places apart, if they have that many elements at least. */
static int inputs_with_gaps(const run *r, int64_t least) {
    const unsigned well = r->direct | r->fixed | r->level | r->cast;
    int n = 0;
    for (int i = r->it->n_out; i < r->it->n && r->it->nest.count >= least; i++) n += !has(well, i);
    return n;
}

static void plan_run(run *r) {
    enum { PAST_CACHE = 4 << 20 };
    const fac_iter *it = r->it;
    r->across = dimension_across(it);
    r->rows = it->nest.ndim == 1 || it->nest.size[0] >= SHORT_ROW || r->across;
    int64_t widest = 1;
    for (int i = 0; i < it->n; i++) {
        plan_operand(r, i);
        widest = fac__max(widest, item_of((fac_dtype)r->want[i]));
        if (it->op[i].t) widest = fac__max(widest, item_of((fac_dtype)it->op[i].dtype));
    }
    if (r->level && !r->across) plan_level(r);
    if (r->fixed) plan_fixed(r);
    r->burst = r->stream == 1 && r->loop && it->n_out == 1 && it->op[0].dtype == r->want[0] &&
               (r->direct | r->fixed | 1u) + 1 == 1u << it->n;
    r->plain =
        r->loop && r->rows && it->nest.ndim > 0 && (r->direct | r->fixed | r->level | r->cast) + 1 == 1u << it->n;
    plan_tiles(r);
    const bool all_direct = r->direct + 1 == 1u << it->n;
    const int64_t most = r->stream                                                    ? STREAM_TILE_BYTES
                         : r->plain && r->level && !r->cast                           ? LEVEL_BYTES
                         : !r->across && inputs_with_gaps(r, PAST_CACHE / widest) > 1 ? TURN_BYTES
                                                                                      : CAST_BYTES;
    r->tile = all_direct ? INT64_MAX : fac__min(most, r->tile_bytes) / widest;
    r->width = r->tile / BLOCK_ROWS / 8 * 8;
}

static fac_status run_all(run *r) {
    plan_run(r);
    const fac_nest *nest = &r->it->nest;
    if (!r->across) return fac__parallel_for(0, nest->count, FAC_GRAIN, run_chunk, r);
    const int64_t area = nest->size[0] * nest->size[r->across];
    const int64_t blocks =
        fac__div_up(nest->size[0], r->width) * fac__div_up(nest->size[r->across], BLOCK_ROWS) * (nest->count / area);
    return fac__parallel_for(0, blocks, fac__grain(FAC_GRAIN, r->width * BLOCK_ROWS), run_blocks, r);
}

fac_status fac__cpu_run(const fac_iter *it, fac_loop loop, const uint8_t *want, const fac_loop_args *args) {
    return run_all(&(run){.it = it, .loop = loop, .want = want, .args = args, .may_stream = true});
}

/* Whether operand i is a number that a half of dtype d holds. */
static bool holds_number(const fac_iter *it, int i, fac_dtype d) {
    float x, back;
    uint16_t half;
    fac_iter_number(it, i, FAC_F32, &x);
    fac__convert(&half, d, &x, FAC_F32);
    fac__convert(&back, FAC_F32, &half, d);
    return back == x;
}

/* Whether all operands are tensors of one dtype, which is a half: a number beside it is not rounded to it. */
static bool all_of(const fac_iter *it, fac_dtype dtype) {
    for (int i = 0; i < it->n; i++)
        if (it->op[i].is_scalar ? !holds_number(it, i, dtype) : it->op[i].dtype != dtype) return false;
    return true;
}

static fac_status find_loop(fac_loop_id id, const fac_iter *it, fac_loop *out, fac_dtype *out_compute) {
    const fac_dtype dtype = it->common;
    *out_compute = dtype;
    *out = fac__loops[id][dtype];
    if (*out && (!fac__is_half(dtype) || all_of(it, dtype))) return FAC_OK;
    if (fac__is_half(dtype)) {
        *out_compute = FAC_F32;
        *out = fac__loops[id][FAC_F32];
    }
    FAC_CHECK(*out, FAC_ERR_DTYPE, "not implemented for '%s'", fac_dtype_name(dtype));
    return FAC_OK;
}

fac_status fac__cpu_pointwise(const fac_structured *s, fac_loop_id id, fac_dtype out, const fac_loop_args *args) {
    const fac_iter *it = &s->iter;
    fac_loop loop;
    fac_dtype compute;
    uint8_t want[FAC_ITER_MAX];
    FAC_TRY(find_loop(id, it, &loop, &compute));
    for (int i = 0; i < it->n; i++) want[i] = (uint8_t)(i < it->n_out && out ? out : compute);
    if (selects[id]) want[it->n_out] = FAC_BOOL;
    bool may_stream = !computes_long[id] || fac_num_threads() > STREAM_THREADS;
    return run_all(&(run){.it = it, .loop = loop, .want = want, .args = args, .may_stream = may_stream});
}

/* ---- lists -------------------------------------------------------------------------------------------------------------- */

typedef struct list_run {
    run r;
    const fac_list_place *places;
    size_t n;
} list_run;

size_t fac__list_entry(const int64_t *ends, size_t step, size_t n, int64_t i) {
    size_t low = 0, high = n;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (*(const int64_t *)(const void *)((const char *)ends + middle * step) > i)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/* Steps over elements [begin, end) of one entry; `it` is the run's iterator. */
static void run_place(const run *r, fac_iter *it, const fac_list_place *at, int64_t begin, int64_t end, tiles *t) {
    fac_cursor c;
    for (int i = 0; i < it->n; i++) it->op[i].data = at->data[i];
    it->nest.count = it->nest.size[0] = end;
    fac__nest_seek(&it->nest, it->n, begin, &c);
    run_by_kind(r, &c, t, end - begin);
}

static fac_status run_list_chunk(void *ctx, int64_t begin, int64_t end) {
    const list_run *l = ctx;
    fac_iter it = *l->r.it;
    run r = l->r;
    tiles t;
    r.it = &it;
    if (r.fixed) fill_fixed(&r, &t, fac__min(r.tile, end - begin));
    for (size_t k = fac__list_entry(&l->places->end, sizeof *l->places, l->n, begin); begin < end; k++) {
        const int64_t first = k ? l->places[k - 1].end : 0, stop = fac__min(end, l->places[k].end);
        if (begin < stop) run_place(&r, &it, &l->places[k], begin - first, stop - first, &t);
        begin = fac__max(begin, stop);
    }
    return FAC_OK;
}

fac_status fac__cpu_pointwise_list(const fac_iter *like, const fac_pointwise_plan *plan, const fac_list_place *places,
                                   size_t n) {
    fac_loop loop;
    fac_dtype compute;
    uint8_t want[FAC_ITER_MAX];
    FAC_TRY(find_loop(plan->id, like, &loop, &compute));
    for (int i = 0; i < like->n; i++) want[i] = (uint8_t)(i < like->n_out && plan->out ? plan->out : compute);
    list_run l = {.r = {.it = like, .loop = loop, .want = want, .args = &plan->args}, .places = places, .n = n};
    plan_run(&l.r);
    return fac__parallel_for(0, n ? places[n - 1].end : 0, FAC_GRAIN, run_list_chunk, &l);
}
