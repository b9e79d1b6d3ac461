/* Operators whose result depends on which elements are not zero: a pass that counts, then one that writes. */
#include "backend/cpu/kernels/masked.h"
#include "backend/cpu/kernels/items.h"
#include "backend/cpu/parallel.h"
#include "core/tensor_make.h"
#include "iter/nest.h"
#include "ops_gen.h"
#include <stdlib.h>

/* Work is cut into parts of PART points: all are counted, and then each writes where the sum of those before it says. */
enum { PART = 16384 };
_Static_assert(PART % 64 == 0, "a part has whole words of bits");

static int64_t parts_of(int64_t points) { return fac__div_up(points, PART); }

/* Replaces counts by the sums of those before; returns the sum of all. */
static int64_t sums_before(int64_t *counts, int64_t n) {
    int64_t total = 0;
    for (int64_t i = 0; i < n; i++) {
        const int64_t own = counts[i];
        counts[i] = total;
        total += own;
    }
    return total;
}

/* ---- nonzero ------------------------------------------------------------------------------------------------------------- */

/* The first pass keeps a bit for each element, which the second reads. */
typedef struct nonzero_job {
    const fac_tensor *t;
    fac_nest nest; /* of t, in logical order */
    uint64_t *bits;
    int64_t *counts; /* of the parts, then of those before each */
    int64_t *out;    /* element d of position k lies at k * row + d * column */
    int64_t row, column, limit;
} nonzero_job;

/* Bits of elements that do not lie side by side: they are gathered, a tile at a time. */
static int64_t bits_of_strided(const nonzero_job *j, uint64_t *bits, int64_t begin, int64_t end) {
    enum { TILE = 512 };
    fac_item16 tile[TILE];
    const fac_dtype d = (fac_dtype)j->t->dtype;
    const int64_t item = (int64_t)fac__dtype_size(d), step = fac__nest_step(&j->nest, 0) * item;
    const char *data = fac__data(j->t);
    int64_t total = 0;
    fac_cursor c;
    fac__nest_seek(&j->nest, 1, begin, &c);
    for (int64_t n; begin < end; begin += n, bits += TILE / 64) {
        n = fac__min(TILE, end - begin);
        for (int64_t i = 0, run; i < n; i += run) {
            run = fac__min(fac__nest_run(&j->nest, &c), n - i);
            fac__items_copy((size_t)item, (char *)tile + i * item, item, data + c.offset[0] * item, step, run);
            fac__nest_advance(&j->nest, 1, run, &c);
        }
        total += FAC_ISA_PICK(fac__nonzero_bits)(bits, tile, d, n);
    }
    return total;
}

static fac_status count_part(void *context, int64_t begin, int64_t end) {
    const nonzero_job *j = context;
    const fac_dtype d = (fac_dtype)j->t->dtype;
    for (int64_t p = begin; p < end; p++) {
        const int64_t first = p * PART, last = fac__min(first + PART, j->t->numel);
        uint64_t *bits = j->bits + first / 64;
        if (j->nest.ndim == 0 || (j->nest.ndim == 1 && j->nest.stride[0][0] == 1))
            j->counts[p] = FAC_ISA_PICK(fac__nonzero_bits)(
                bits, (const char *)fac__data(j->t) + (size_t)first * fac__dtype_size(d), d, last - first);
        else
            j->counts[p] = bits_of_strided(j, bits, first, last);
    }
    return FAC_OK;
}

/* The row of the last dimension that holds an element. */
typedef struct row_place {
    int64_t begin, end;
    int64_t outer[FAC_MAX_DIMS]; /* its position in all dimensions but the last */
} row_place;

/* Moves to the row that holds element `at`, which lies behind the present one. */
static void enter_row(const fac_tensor *t, row_place *r, int64_t at) {
    const int last = t->ndim - 1;
    const int64_t width = t->sizes[last];
    if (r->end && at < r->end + width) { /* the next */
        r->begin = r->end;
        r->end += width;
        for (int d = last - 1; d >= 0 && ++r->outer[d] == t->sizes[d]; d--) r->outer[d] = 0;
        return;
    }
    int64_t row = at / width;
    r->begin = row * width;
    r->end = r->begin + width;
    for (int d = last - 1; d >= 0; d--) {
        r->outer[d] = row % t->sizes[d];
        row /= t->sizes[d];
    }
}

/* Writes the positions of a part, from the k-th of all on. */
static void write_positions(const nonzero_job *j, int64_t part, int64_t k) {
    const int last = j->t->ndim - 1;
    const int64_t words = (fac__min((part + 1) * PART, j->t->numel) + 63) / 64;
    row_place r = {0};
    int64_t *to = j->out + k * j->row, *const stop = j->out + j->limit * j->row;
    for (int64_t i = part * (PART / 64); i < words; i++)
        for (uint64_t word = j->bits[i]; word; word &= word - 1, to += j->row) {
            if (to == stop) return;
            const int64_t at = i * 64 + __builtin_ctzll(word);
            if (at >= r.end) enter_row(j->t, &r, at);
            for (int d = 0; d < last; d++) to[d * j->column] = r.outer[d];
            to[last * j->column] = at - r.begin;
        }
}

/* The same in one dimension, one number after another. */
static void write_line(const nonzero_job *j, int64_t part, int64_t k) {
    const int64_t words = (fac__min((part + 1) * PART, j->t->numel) + 63) / 64;
    int64_t *to = j->out + k, *const stop = j->out + j->limit;
    for (int64_t i = part * (PART / 64); i < words && to < stop; i++)
        for (uint64_t word = j->bits[i]; word && to < stop; word &= word - 1) *to++ = i * 64 + __builtin_ctzll(word);
}

static fac_status write_part(void *context, int64_t begin, int64_t end) {
    const nonzero_job *j = context;
    const bool line = j->t->ndim == 1 && j->row == 1;
    for (int64_t p = begin; p < end && j->counts[p] < j->limit; p++)
        (line ? write_line : write_positions)(j, p, j->counts[p]);
    return FAC_OK;
}

/* Whether elements are read as they lie: if those of a row are further apart than rows, a copy reads less memory. */
static bool reads_in_place(const fac_nest *nest) {
    const int64_t step = llabs(fac__nest_step(nest, 0));
    for (int d = 1; d < nest->ndim; d++)
        if (llabs(nest->stride[0][d]) < step) return false;
    return true;
}

static void nonzero_nest(nonzero_job *j) {
    const int64_t *strides[1] = {j->t->strides};
    fac__nest_build(&j->nest, j->t->sizes, j->t->ndim, UINT64_MAX, 1, strides, true);
}

/* The positions of j->t, which is read as it lies: [n, ndim], or [ndim, n] if `columns`, where n is `size`, filled up with `fill`, or
   as many as there are if that is negative. */
static fac_status nonzero_of(nonzero_job *j, int64_t size, int64_t fill, bool columns, fac_tensor **out) {
    const int64_t parts = parts_of(j->t->numel), words = parts * (PART / 64), ndim = j->t->ndim;
    fac_workspace room = {0};
    if (parts) FAC_TRY(fac__workspace_take((words + parts) * (int64_t)sizeof(int64_t), &room));
    j->bits = (uint64_t *)(void *)room.at;
    j->counts = (int64_t *)(void *)room.at + words;
    if (parts) (void)fac__parallel_for(0, parts, 1, count_part, j); /* fails for nothing */
    const int64_t found = sums_before(j->counts, parts), rows = size < 0 ? found : size;
    fac_status st =
        fac__empty(columns ? FAC_INTS(ndim, rows).v : FAC_INTS(rows, ndim).v, 2, FAC_I64, j->t->device, out);
    if (st == FAC_OK && ndim) { /* without dimensions there is nothing to say where */
        j->out = fac__data(*out);
        j->row = columns ? 1 : ndim;
        j->column = columns ? rows : 1;
        j->limit = fac__min(rows, found);
        if (j->limit) (void)fac__parallel_for(0, parts, 1, write_part, j);
        for (int64_t i = j->limit * ndim; i < rows * ndim; i++) j->out[i] = fill; /* rows only */
    }
    if (parts) fac__workspace_give(room);
    return st;
}

static fac_status nonzero_sized(fac_tensor *t, int64_t size, int64_t fill, bool columns, fac_tensor **out) {
    fac_tensor *rows = t;
    nonzero_job j = {.t = t};
    nonzero_nest(&j);
    const bool copied = !reads_in_place(&j.nest);
    if (copied) {
        FAC_TRY(fac__cpu_contiguous(t, &rows));
        j.t = rows;
        nonzero_nest(&j);
    }
    fac_status st = nonzero_of(&j, size, fill, columns, out);
    if (copied) fac__unref(rows);
    return st;
}

fac_status fac__nonzero_columns(fac_tensor *t, fac_tensor **out) { return nonzero_sized(t, -1, 0, true, out); }

fac_status nonzero_cpu(const fac_call_info *c, fac_tensor *self, fac_tensor **out) {
    (void)c;
    return nonzero_sized(self, -1, 0, false, out);
}

static fac_status check_size(int64_t size) {
    FAC_CHECK(size >= 0, FAC_ERR_ARGUMENT, "'size' must be an non-negative integer, got %lld", (long long)size);
    return FAC_OK;
}

fac_status nonzero_static_cpu(const fac_call_info *c, fac_tensor *self, int64_t size, int64_t fill_value,
                              fac_tensor **out) {
    (void)c;
    FAC_TRY(check_size(size));
    return nonzero_sized(self, size, fill_value, false, out);
}

fac_status nonzero_static_meta(const fac_call_info *c, fac_tensor *self, int64_t size, int64_t fill_value,
                               fac_tensor **out) {
    (void)c, (void)fill_value;
    FAC_TRY(check_size(size));
    return fac__empty(FAC_INTS(size, self->ndim).v, 2, FAC_I64, self->device, out);
}

static fac_status depends_on_data(void) {
    return FAC_FAIL(FAC_ERR_STATE, "the sizes of the result depend on data, which meta tensors do not have");
}

fac_status nonzero_meta(const fac_call_info *c, fac_tensor *self, fac_tensor **out) {
    (void)c, (void)self, (void)out;
    return depends_on_data();
}

/* ---- masks ------------------------------------------------------------------------------------------------------------------ */

/* A tensor and a mask over one index space, in logical order: operand 0 is the tensor's, 1 the mask's. */
typedef struct masked_walk {
    fac_nest nest;
    int64_t sizes[FAC_MAX_DIMS];
    int ndim;
    size_t item;
    char *data;
    const uint8_t *mask;
    fac_workspace room;
    int64_t *before, total; /* how many flags are set before each part, and in all */
    char *list;             /* as many elements, packed */
    bool unpack;
} masked_walk;

static void walk_begin(const fac_tensor *t, const fac_tensor *mask, masked_walk *w) {
    int64_t own[FAC_MAX_DIMS], flags[FAC_MAX_DIMS];
    const int64_t *strides[2] = {own, flags};
    fac__broadcast_strides(t, w->ndim, own);
    fac__broadcast_strides(mask, w->ndim, flags);
    fac__nest_build(&w->nest, w->sizes, w->ndim, UINT64_MAX, 2, strides, true);
    w->item = fac__dtype_size((fac_dtype)t->dtype);
    w->data = fac__data(t);
    w->mask = fac__data(mask);
}

static fac_status count_true_part(void *context, int64_t begin, int64_t end) {
    const masked_walk *w = context;
    const int64_t step = fac__nest_step(&w->nest, 1);
    for (int64_t p = begin; p < end; p++) {
        int64_t total = 0;
        const int64_t last = fac__min((p + 1) * PART, w->nest.count);
        fac_cursor c;
        fac__nest_seek(&w->nest, 2, p * PART, &c);
        for (int64_t i = p * PART, n; i < last; i += n) {
            n = fac__min(fac__nest_run(&w->nest, &c), last - i);
            if (step == 1) total += FAC_ISA_PICK(fac__count_true)(w->mask + c.offset[1], n);
            for (int64_t k = 0; step != 1 && k < n; k++) total += w->mask[c.offset[1] + k * step] != 0;
            fac__nest_advance(&w->nest, 2, n, &c);
        }
        w->before[p] = total;
    }
    return FAC_OK;
}

/* Counts what is true, in all and before each part. What it takes is given back by walk_end. */
static fac_status walk_count(masked_walk *w) {
    const int64_t parts = parts_of(w->nest.count);
    if (!parts) return FAC_OK;
    FAC_TRY(fac__workspace_take(parts * (int64_t)sizeof(int64_t), &w->room));
    w->before = (int64_t *)(void *)w->room.at;
    (void)fac__parallel_for(0, parts, 1, count_true_part, w); /* fails for nothing */
    w->total = sums_before(w->before, parts);
    return FAC_OK;
}

static void walk_end(masked_walk *w) {
    if (w->before) fac__workspace_give(w->room);
}

static int64_t move_plain(const masked_walk *w, char *list, int64_t room, char *at, const uint8_t *mask, int64_t n,
                          bool unpack) {
    return unpack ? FAC_ISA_PICK(fac__unpack_true)(w->item, at, list, mask, n)
                  : FAC_ISA_PICK(fac__pack_true)(w->item, list, room, at, mask, n);
}

/* One run of n points. What has gaps goes through a tile without: a branch for each flag would be mispredicted half the time. */
static int64_t move_run(const masked_walk *w, char *list, int64_t room, const fac_cursor *c, int64_t n, bool unpack) {
    enum { TILE = 512 };
    const int64_t item = (int64_t)w->item, step = fac__nest_step(&w->nest, 0), flag = fac__nest_step(&w->nest, 1);
    char *at = w->data + c->offset[0] * item;
    const uint8_t *mask = w->mask + c->offset[1];
    if (step == 1 && flag == 1) return move_plain(w, list, room, at, mask, n, unpack);
    int64_t moved = 0;
    for (int64_t m; n > 0; n -= m, at += m * step * item, mask += m * flag) {
        fac_item16 items[TILE];
        uint8_t flags[TILE];
        m = fac__min(n, TILE);
        fac__items_copy(1, (char *)flags, 1, (const char *)mask, flag, m);
        char *const here = step == 1 ? at : (char *)items;
        if (step != 1) fac__items_copy(w->item, here, item, at, step * item, m);
        moved += move_plain(w, list + moved * item, room - moved, here, flags, m, unpack);
        if (step != 1 && unpack) fac__items_copy(w->item, at, step * item, here, item, m);
    }
    return moved;
}

static fac_status move_part(void *context, int64_t begin, int64_t end) {
    const masked_walk *w = context;
    const int64_t parts = parts_of(w->nest.count);
    for (int64_t p = begin; p < end; p++) {
        const int64_t last = fac__min((p + 1) * PART, w->nest.count);
        const int64_t stop = p + 1 < parts ? w->before[p + 1] : w->total;
        int64_t moved = w->before[p];
        fac_cursor c;
        fac__nest_seek(&w->nest, 2, p * PART, &c);
        for (int64_t i = p * PART, n; i < last && moved < stop; i += n) {
            n = fac__min(fac__nest_run(&w->nest, &c), last - i);
            moved += move_run(w, w->list + moved * (int64_t)w->item, stop - moved, &c, n, w->unpack);
            fac__nest_advance(&w->nest, 2, n, &c);
        }
    }
    return FAC_OK;
}

/* Moves elements between where the mask is true and a packed list: into it, or out of it if `unpack`. */
static void move_true(masked_walk *w, char *list, bool unpack) {
    w->list = list;
    w->unpack = unpack;
    if (w->total) (void)fac__parallel_for(0, parts_of(w->nest.count), 1, move_part, w); /* fails for nothing */
}

static fac_status check_select(const fac_tensor *self, const fac_tensor *mask, masked_walk *w) {
    FAC_CHECK(mask->dtype == FAC_BOOL, FAC_ERR_DTYPE, "expected a bool tensor for mask, but got %s",
              fac_dtype_name((fac_dtype)mask->dtype));
    return fac__broadcast(self->sizes, self->ndim, mask->sizes, mask->ndim, w->sizes, &w->ndim);
}

/* The elements of self where the mask is true, its sizes being those of w. */
static fac_status select_true(masked_walk *w, const fac_tensor *self, const fac_tensor *mask, fac_tensor **out) {
    walk_begin(self, mask, w);
    FAC_TRY(walk_count(w));
    fac_status st = fac__empty(&w->total, 1, (fac_dtype)self->dtype, self->device, out);
    if (st == FAC_OK) move_true(w, fac__data(*out), false);
    walk_end(w);
    return st;
}

fac_status masked_select_cpu(const fac_call_info *c, fac_tensor *self, fac_tensor *mask, fac_tensor **out) {
    (void)c;
    masked_walk w = {0};
    FAC_TRY(check_select(self, mask, &w));
    return select_true(&w, self, mask, out);
}

fac_status fac__take_true(const fac_tensor *self, const fac_tensor *mask, fac_tensor **out) {
    masked_walk w = {.ndim = self->ndim};
    memcpy(w.sizes, self->sizes, self->ndim * sizeof *w.sizes);
    return select_true(&w, self, mask, out);
}

fac_status masked_select_meta(const fac_call_info *c, fac_tensor *self, fac_tensor *mask, fac_tensor **out) {
    (void)c, (void)out;
    masked_walk w;
    FAC_TRY(check_select(self, mask, &w));
    return depends_on_data();
}

fac_status masked_scatter_cpu(fac_structured *s, fac_tensor *self, fac_tensor *mask, fac_tensor *source) {
    fac_tensor *out = s->out[0], *list;
    masked_walk w = {.ndim = out->ndim};
    memcpy(w.sizes, out->sizes, out->ndim * sizeof *w.sizes);
    walk_begin(out, mask, &w);
    FAC_TRY(walk_count(&w));
    fac_status st = FAC_OK;
    if (w.total > source->numel)
        st = FAC_FAIL(
            FAC_ERR_SHAPE,
            "expected self and source to have same number of elements: the mask has %lld trues, source %lld elements",
            (long long)w.total, (long long)source->numel);
    if (st == FAC_OK) st = fac__cpu_contiguous(source, &list);
    if (st == FAC_OK) {
        if (out != self) st = fac__cpu_copy(out, self);
        if (st == FAC_OK) move_true(&w, fac__data(list), true);
        fac__unref(list);
    }
    walk_end(&w);
    return st;
}
