/* Copies that swap two dimensions go block by block, so that reads and writes both stay within a few cache lines. */
#include "backend/cpu/kernels/transpose.h"

#include "backend/cpu/pointwise.h"

#define SIDE 16       /* elements of a block's side; no dimension below it is worth a transposition */
#define CHUNK_ROWS 64 /* rows of the output per parallel chunk */

/* dst[i][j] = src[j][i] in every one of the other dimensions: src is contiguous in i, and dst mostly in j. */
typedef struct transpose {
    const fac_items_job *job;
    int along;                                                      /* the nest's dimension of i */
    int64_t rows, cols, step, dst_stride, src_stride, item, chunks; /* chunks per matrix */
    bool stream;
} transpose;

typedef struct matrix {
    char *dst;
    const char *src;
} matrix;

/* One element after another. */
static void each_element(int64_t item, char *dst, int64_t dst_step, int64_t dst_stride, const char *src,
                         int64_t src_stride, int64_t rows, int64_t cols) {
    enum { PART = 8 }; /* lines that are at work: strides are often powers of two, whose lines crowd each other out */
#define BLOCK(T)                                                         \
    for (int64_t from = 0; from < cols; from += PART)                    \
        for (int64_t i = 0; i < rows; i++)                               \
            for (int64_t j = from; j < fac__min(from + PART, cols); j++) \
    *(T *)(void *)(dst + i * dst_stride + j * dst_step) =                \
        *(const T *)(const void *)(src + i * (int64_t)sizeof(T) + j * src_stride)
    FAC_ITEM_SWITCH(item, BLOCK)
#undef BLOCK
}

/* Squares, and what is over. */
static void transpose_small(int64_t item, char *dst, int64_t dst_stride, const char *src, int64_t src_stride,
                            int64_t rows, int64_t cols) {
    const int64_t side = 16 / item;
    int64_t down = rows / side * side, across = cols / side * side;
    if (!FAC_ISA_PICK(fac__transpose_squares)(item, dst, dst_stride, src, src_stride, down, across)) down = across = 0;
    each_element(item, dst + across * item, item, dst_stride, src + across * src_stride, src_stride, rows,
                 cols - across);
    each_element(item, dst + down * dst_stride, item, dst_stride, src + down * item, src_stride, rows - down, across);
}

void fac__transpose_block(int64_t item, char *dst, int64_t dst_step, int64_t dst_stride, const char *src,
                          int64_t src_stride, int64_t rows, int64_t cols) {
    if (dst_step == item && item <= 2)
        transpose_small(item, dst, dst_stride, src, src_stride, rows, cols);
    else if (dst_step == item && item == 4 && fac__cpu_isa != FAC_ISA_DEFAULT)
        FAC_ISA_PICK(fac__transpose_4)(dst, dst_stride, src, src_stride, rows, cols, false);
    else if (dst_step == item && item == 8)
        FAC_ISA_PICK(fac__transpose_8)(dst, dst_stride, src, src_stride, rows, cols);
    else
        each_element(item, dst, dst_step, dst_stride, src, src_stride, rows, cols);
}

static void copy_rows(const transpose *t, matrix m, int64_t begin, int64_t end) {
    if (t->item == 4 && t->step == 4 && fac__cpu_isa != FAC_ISA_DEFAULT) {
        FAC_ISA_PICK(fac__transpose_4)
        (m.dst + begin * t->dst_stride, t->dst_stride, m.src + begin * 4, t->src_stride, end - begin, t->cols,
         t->stream);
        return;
    }
    const int64_t side = t->item <= 2 ? CHUNK_ROWS : SIDE; /* whole lines of both sides */
    for (int64_t i = begin; i < end; i += side)
        for (int64_t j = 0; j < t->cols; j += side)
            fac__transpose_block(t->item, m.dst + i * t->dst_stride + j * t->step, t->step, t->dst_stride,
                                 m.src + j * t->src_stride + i * t->item, t->src_stride, fac__min(side, end - i),
                                 fac__min(side, t->cols - j));
}

/* The n-th matrix: its place in the dimensions other than 0 and `along`. */
static matrix matrix_at(const transpose *t, int64_t n) {
    const fac_nest *nest = t->job->nest;
    int64_t dst = 0, src = 0;
    for (int d = 1; d < nest->ndim; d++) {
        if (d == t->along) continue;
        dst += n % nest->size[d] * nest->stride[0][d];
        src += n % nest->size[d] * nest->stride[1][d];
        n /= nest->size[d];
    }
    return (matrix){t->job->dst + dst, t->job->src + src};
}

static fac_status run_chunks(void *ctx, int64_t begin, int64_t end) {
    const transpose *t = ctx;
    for (int64_t c = begin; c < end; c++) {
        int64_t row = c % t->chunks * CHUNK_ROWS;
        copy_rows(t, matrix_at(t, c / t->chunks), row, fac__min(row + CHUNK_ROWS, t->rows));
    }
    if (t->stream) fac__stream_fence();
    return FAC_OK;
}

/* The dimension along which the input is contiguous, or 0. */
static int dimension_along(const fac_items_job *j) {
    for (int d = 1; d < j->nest->ndim; d++)
        if (j->nest->stride[1][d] == (int64_t)j->item && j->nest->size[d] >= SIDE) return d;
    return 0;
}

bool fac__is_transposition(const fac_items_job *j) {
    const fac_nest *nest = j->nest;
    int64_t item = (int64_t)j->item;
    return nest->ndim >= 2 && nest->size[0] >= SIDE && nest->stride[0][0] != 0 && nest->stride[1][0] != item &&
           nest->stride[1][0] != 0 && dimension_along(j) != 0;
}

fac_status fac__transpose(const fac_items_job *j) {
    const fac_nest *nest = j->nest;
    transpose t = {.job = j, .along = dimension_along(j), .item = (int64_t)j->item};
    t.rows = nest->size[t.along];
    t.cols = nest->size[0];
    t.step = nest->stride[0][0];
    t.dst_stride = nest->stride[0][t.along];
    t.src_stride = nest->stride[1][0];
    t.chunks = fac__div_up(t.rows, CHUNK_ROWS);
    t.stream = nest->count * t.item >= FAC_STREAM_BYTES;
    int64_t matrices = nest->count / (t.rows * t.cols), per_task = fac__grain(FAC_GRAIN, CHUNK_ROWS * t.cols);
    return fac__parallel_for(0, matrices * t.chunks, per_task, run_chunks, &t);
}
