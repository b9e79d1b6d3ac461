/* Copying shape kernels: flip walks the input backwards; triangles copy or clear a stretch of each row; repeat_interleave
   writes index i repeats[i] times. Elements are moved by size, so one kernel serves every dtype. */
#include "backend/cpu/kernels/items.h"
#include "backend/cpu/parallel.h"
#include "core/tensor_make.h"
#include "iter/nest.h"
#include "ops_gen.h"

fac_status flip_cpu(fac_structured *s, fac_tensor *self, fac_ints dims) {
    (void)dims;
    fac_tensor *out = s->out[0];
    uint64_t mask = (uint64_t)s->carry[0];
    size_t item = fac__dtype_size((fac_dtype)self->dtype);
    int64_t strides[FAC_MAX_DIMS], first = 0;
    if (self->numel == 0) return FAC_OK;
    for (int d = 0; d < self->ndim; d++) {
        bool backwards = mask >> d & 1;
        strides[d] = backwards ? -self->strides[d] : self->strides[d];
        if (backwards) first += (self->sizes[d] - 1) * self->strides[d];
    }
    const char *src = (const char *)fac__data(self) + first * (int64_t)item;
    return fac__items_copy_nd(item, fac__data(out), out->strides, src, strides, self->sizes, self->ndim);
}

/* ---- triangles --------------------------------------------------------------------------------------------------------- */

typedef struct triangle_job {
    fac_nest batch; /* the leading dimensions: out, self */
    size_t item;
    char *out;
    const char *self;
    int64_t rows, cols, diagonal;
    int64_t out_row, out_col, self_row, self_col; /* strides in bytes */
    bool upper, in_place;
} triangle_job;

/* First column of row i on the upper side of the diagonal. */
static int64_t edge_of_row(const triangle_job *j, int64_t i) {
    int64_t edge;
    if (!fac__add(i, j->diagonal, &edge)) edge = j->diagonal > 0 ? INT64_MAX : 0;
    if (!j->upper && edge < INT64_MAX) edge++;
    return fac__max(0, fac__min(edge, j->cols));
}

static void triangle_row(const triangle_job *j, char *out, const char *self, int64_t i) {
    int64_t edge = edge_of_row(j, i);
    int64_t kept = j->upper ? edge : 0, n_kept = j->upper ? j->cols - edge : edge;
    int64_t cleared = j->upper ? 0 : edge;
    if (!j->in_place)
        fac__items_copy(j->item, out + kept * j->out_col, j->out_col, self + kept * j->self_col, j->self_col, n_kept);
    fac__items_zero(j->item, out + cleared * j->out_col, j->out_col, j->cols - n_kept);
}

/* How many rows from row i on, at most n, are whole, or empty, and follow each other without gaps; 0 if not even row i. */
static int64_t plain_rows(const triangle_job *j, int64_t i, int64_t n) {
    const int64_t item = (int64_t)j->item, row = j->cols * item, edge = edge_of_row(j, i);
    const bool packed = j->out_col == item && j->self_col == item && j->out_row == row && j->self_row == row;
    if (!packed || (edge != 0 && edge != j->cols)) return 0;
    if (edge == j->cols) return n; /* edges only grow */
    int64_t last;                  /* whose edge is 0: i + diagonal is below 0, or 0 above */
    if (!fac__sub(j->upper ? 0 : -1, j->diagonal, &last)) return 0;
    return fac__min(n - 1, last - i) + 1;
}

static fac_status triangle_range(void *ctx, int64_t begin, int64_t end) {
    const triangle_job *j = ctx;
    const int64_t item = (int64_t)j->item, row = j->cols * item;
    for (int64_t r = begin, n; r < end; r += n) {
        const int64_t i = r % j->rows;
        fac_cursor c;
        fac__nest_seek(&j->batch, 2, r / j->rows, &c);
        char *out = j->out + c.offset[0] * item + i * j->out_row;
        const char *self = j->self + c.offset[1] * item + i * j->self_row;
        n = plain_rows(j, i, fac__min(end - r, j->rows - i));
        if (n == 0)
            n = 1, triangle_row(j, out, self, i);
        else if ((edge_of_row(j, i) == 0) != j->upper)
            memset(out, 0, (size_t)(n * row));
        else if (!j->in_place)
            memcpy(out, self, (size_t)(n * row));
    }
    return FAC_OK;
}

static fac_status triangle(fac_structured *s, fac_tensor *self, int64_t diagonal, bool upper) {
    fac_tensor *out = s->out[0];
    if (self->numel == 0) return FAC_OK;
    int lead = self->ndim - 2;
    int64_t item = fac__item_size(self);
    triangle_job j = {.item = (size_t)item,
                      .out = fac__data(out),
                      .self = fac__data(self),
                      .rows = self->sizes[lead],
                      .cols = self->sizes[lead + 1],
                      .diagonal = diagonal,
                      .upper = upper};
    j.out_row = out->strides[lead] * item, j.out_col = out->strides[lead + 1] * item;
    j.self_row = self->strides[lead] * item, j.self_col = self->strides[lead + 1] * item;
    j.in_place = j.out == j.self;
    const int64_t *strides[2] = {out->strides, self->strides};
    fac__nest_build(&j.batch, self->sizes, lead, UINT64_MAX, 2, strides, true);
    return fac__parallel_for(0, j.batch.count * j.rows, fac__grain(FAC_GRAIN, j.cols), triangle_range, &j);
}

fac_status triu_cpu(fac_structured *s, fac_tensor *self, int64_t diagonal) { return triangle(s, self, diagonal, true); }
fac_status tril_cpu(fac_structured *s, fac_tensor *self, int64_t diagonal) {
    return triangle(s, self, diagonal, false);
}

/* ---- repeat_interleave -------------------------------------------------------------------------------------------------------- */

static int64_t count_at(const fac_tensor *repeats, const void *data, int64_t i) {
    return repeats->dtype == FAC_I32 ? ((const int32_t *)data)[i] : ((const int64_t *)data)[i];
}

static fac_status check_repeats(const fac_tensor *repeats) {
    FAC_CHECK(repeats->ndim == 1, FAC_ERR_SHAPE, "repeats has to be a vector, but has %d dimensions", repeats->ndim);
    FAC_CHECK(repeats->dtype == FAC_I32 || repeats->dtype == FAC_I64, FAC_ERR_DTYPE,
              "repeats has to be an int64 or int32 tensor, but got %s", fac_dtype_name((fac_dtype)repeats->dtype));
    return FAC_OK;
}

static fac_status total_repeats(const fac_tensor *repeats, const void *data, int64_t *out) {
    *out = 0;
    for (int64_t i = 0; i < repeats->numel; i++) {
        int64_t n = count_at(repeats, data, i);
        FAC_CHECK(n >= 0, FAC_ERR_ARGUMENT, "repeats can not be negative; repeats[%lld] is %lld", (long long)i,
                  (long long)n);
        FAC_CHECK(fac__add(*out, n, out), FAC_ERR_OVERFLOW, "the repeats add up to more than 64 bits hold");
    }
    return FAC_OK;
}

static fac_status interleave(const fac_tensor *repeats, fac_opt_int output_size, fac_tensor **out) {
    const void *data = fac__data(repeats);
    int64_t total, at = 0;
    FAC_TRY(total_repeats(repeats, data, &total));
    FAC_CHECK(!output_size.set || output_size.v == total, FAC_ERR_ARGUMENT,
              "allocated size does not match required size: %lld and %lld", (long long)output_size.v, (long long)total);
    FAC_TRY(fac__empty(&total, 1, (fac_dtype)repeats->dtype, repeats->device, out));
    void *result = fac__data(*out);
    for (int64_t i = 0; i < repeats->numel; i++)
        for (int64_t end = at + count_at(repeats, data, i); at < end; at++) {
            if (repeats->dtype == FAC_I32)
                ((int32_t *)result)[at] = (int32_t)i;
            else
                ((int64_t *)result)[at] = i;
        }
    return FAC_OK;
}

fac_status repeat_interleave_cpu(const fac_call_info *c, fac_tensor *repeats, fac_opt_int output_size,
                                 fac_tensor **out) {
    (void)c;
    FAC_TRY(check_repeats(repeats));
    fac_tensor *rows;
    FAC_TRY(fac__cpu_contiguous(repeats, &rows));
    fac_status st = interleave(rows, output_size, out);
    fac__unref(rows);
    return st;
}

fac_status repeat_interleave_meta(const fac_call_info *c, fac_tensor *repeats, fac_opt_int output_size,
                                  fac_tensor **out) {
    (void)c;
    FAC_TRY(check_repeats(repeats));
    FAC_CHECK(output_size.set, FAC_ERR_STATE,
              "repeat_interleave on the meta device needs output_size: it depends on data");
    return fac__empty(&output_size.v, 1, (fac_dtype)repeats->dtype, repeats->device, out);
}
