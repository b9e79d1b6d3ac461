/* Operators whose result depends on which elements are not zero: a pass that counts, then one that writes. */
#include "backend/cpu/kernels/masked.h"
#include "backend/cpu/kernels/items.h"
#include "backend/cpu/kernels/tile.h"
#include "core/tensor_make.h"
#include "iter/nest.h"
#include "ops_gen.h"

/* ---- nonzero ------------------------------------------------------------------------------------------------------------- */

/* Calls fn(context, first, flags, n) over row-major tiles of t; flags[i] tells whether element first + i is not zero. */
static void each_tile(const fac_tensor *rows, void (*fn)(void *context, int64_t first, const int64_t *flags, int64_t n),
                      void *context) {
    fac_dtype d = (fac_dtype)rows->dtype;
    const char *data = fac__data(rows);
    fac_tile_buf flags;
    for (int64_t i = 0; i < rows->numel; i += FAC_TILE) {
        int64_t n = fac__min(FAC_TILE, rows->numel - i);
        fac__tile_load_map(FAC_ACC_I64, &flags, data + (size_t)i * fac__dtype_size(d), d, 1, n, FAC_MAP_NONZERO, 0);
        fn(context, i, flags.i64, n);
    }
}

static void count_tile(void *context, int64_t first, const int64_t *flags, int64_t n) {
    (void)first;
    int64_t *total = context;
    for (int64_t i = 0; i < n; i++) *total += flags[i];
}

typedef struct position_writer {
    const fac_tensor *t;
    int64_t *next;
    int64_t row_begin, row_end;  /* elements of the row that `outer` describes */
    int64_t outer[FAC_MAX_DIMS]; /* position of that row in all dimensions but the last */
} position_writer;

/* Moves to the row of the last dimension that holds element `at`. */
static void enter_row(position_writer *w, int64_t at) {
    int last = w->t->ndim - 1;
    int64_t width = w->t->sizes[last], row = at / width;
    w->row_begin = row * width;
    w->row_end = w->row_begin + width;
    for (int d = last - 1; d >= 0; d--) {
        w->outer[d] = row % w->t->sizes[d];
        row /= w->t->sizes[d];
    }
}

static void write_positions(void *context, int64_t first, const int64_t *flags, int64_t n) {
    position_writer *w = context;
    int last = w->t->ndim - 1;
    if (last < 0) return; /* without dimensions there is nothing to say where */
    for (int64_t i = 0; i < n; i++) {
        if (!flags[i]) continue;
        if (first + i >= w->row_end) enter_row(w, first + i);
        for (int d = 0; d < last; d++) w->next[d] = w->outer[d];
        w->next[last] = first + i - w->row_begin;
        w->next += last + 1;
    }
}

fac_status fac__nonzero(fac_tensor *t, fac_tensor **out) {
    fac_tensor *rows;
    int64_t sizes[2] = {0, t->ndim};
    FAC_TRY(fac__cpu_contiguous(t, &rows));
    each_tile(rows, count_tile, &sizes[0]);
    fac_status st = fac__empty(sizes, 2, FAC_I64, t->device, out);
    if (st == FAC_OK && sizes[0]) {
        position_writer w = {.t = rows, .next = fac__data(*out)};
        each_tile(rows, write_positions, &w);
    }
    fac__unref(rows);
    return st;
}

fac_status nonzero_cpu(const fac_call_info *c, fac_tensor *self, fac_tensor **out) {
    (void)c;
    return fac__nonzero(self, out);
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

static int64_t count_true(const masked_walk *w) {
    int64_t total = 0, step = fac__nest_step(&w->nest, 1);
    fac_cursor c;
    fac__nest_seek(&w->nest, 2, 0, &c);
    for (int64_t i = 0, n; i < w->nest.count; i += n) {
        n = fac__nest_run(&w->nest, &c);
        if (step == 1) total += FAC_ISA_PICK(fac__count_true)(w->mask + c.offset[1], n);
        for (int64_t k = 0; step != 1 && k < n; k++) total += w->mask[c.offset[1] + k * step] != 0;
        fac__nest_advance(&w->nest, 2, n, &c);
    }
    return total;
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

/* Moves elements between where the mask is true and a packed list of `total`: into it, or out of it if `unpack`. */
static void move_true(const masked_walk *w, char *list, int64_t total, bool unpack) {
    fac_cursor c;
    fac__nest_seek(&w->nest, 2, 0, &c);
    int64_t moved = 0;
    for (int64_t i = 0, n; i < w->nest.count; i += n) {
        n = fac__nest_run(&w->nest, &c);
        moved += move_run(w, list + moved * (int64_t)w->item, total - moved, &c, n, unpack);
        fac__nest_advance(&w->nest, 2, n, &c);
    }
}

static fac_status check_select(const fac_tensor *self, const fac_tensor *mask, masked_walk *w) {
    FAC_CHECK(mask->dtype == FAC_BOOL, FAC_ERR_DTYPE, "expected a bool tensor for mask, but got %s",
              fac_dtype_name((fac_dtype)mask->dtype));
    return fac__broadcast(self->sizes, self->ndim, mask->sizes, mask->ndim, w->sizes, &w->ndim);
}

fac_status masked_select_cpu(const fac_call_info *c, fac_tensor *self, fac_tensor *mask, fac_tensor **out) {
    (void)c;
    masked_walk w;
    FAC_TRY(check_select(self, mask, &w));
    walk_begin(self, mask, &w);
    int64_t n = count_true(&w);
    FAC_TRY(fac__empty(&n, 1, (fac_dtype)self->dtype, self->device, out));
    if (n) move_true(&w, fac__data(*out), n, false);
    return FAC_OK;
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
    int64_t n = count_true(&w);
    FAC_CHECK(n <= source->numel, FAC_ERR_SHAPE,
              "expected self and source to have same number of elements: the mask has %lld trues, source %lld elements",
              (long long)n, (long long)source->numel);
    FAC_TRY(fac__cpu_contiguous(source, &list));
    fac_status st = out == self ? FAC_OK : fac__cpu_copy(out, self);
    if (st == FAC_OK && n) move_true(&w, fac__data(list), n, true);
    fac__unref(list);
    return st;
}
