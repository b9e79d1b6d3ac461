/* Walks over batches of matrices, and copies between their strides and LAPACK's columns. */
#include "backend/cpu/kernels/matrices.h"
#include "backend/cpu/kernels/items.h"
#include "backend/cpu/kernels/transpose.h"
#include <math.h>

enum { BLOCK = 16 }; /* rows and columns that are copied together, so that both sides stay within the cache */

fac_matrices fac__matrices_over(const fac_tensor *t, int own, const int64_t *batch, int n_batch) {
    const int64_t item = fac__item_size(t);
    const int mine = t->ndim - own;
    fac_matrices m = {.data = fac__data(t), .item = (size_t)item, .rows = 1, .cols = 1, .count = 1, .n = n_batch};
    if (own > 0) m.rows = t->sizes[mine], m.row = t->strides[mine] * item;
    if (own > 1) m.cols = t->sizes[mine + 1], m.col = t->strides[mine + 1] * item;
    for (int d = 0; d < n_batch; d++) {
        int e = d - n_batch + mine;
        m.sizes[d] = batch[d];
        m.strides[d] = e >= 0 && t->sizes[e] != 1 ? t->strides[e] * item : 0;
        m.count = fac__mul_or_max(m.count, batch[d]);
    }
    return m;
}

fac_matrices fac__matrices(const fac_tensor *t, int own) { return fac__matrices_over(t, own, t->sizes, t->ndim - own); }

fac_matrices fac__matrices_turned(fac_matrices m) {
    int64_t rows = m.rows, row = m.row;
    m.rows = m.cols, m.row = m.col;
    m.cols = rows, m.col = row;
    return m;
}

char *fac__matrix_at(const fac_matrices *m, int64_t i) {
    char *p = m->data;
    for (int d = m->n - 1; d > 0 && i; d--) {
        p += i % m->sizes[d] * m->strides[d];
        i /= m->sizes[d];
    }
    return m->n ? p + i * m->strides[0] : p;
}

/* One side of a copy; strides are bytes. */
typedef struct side {
    char *p;
    int64_t row, col;
} side;

static void copy_block(size_t item, side to, side from, int64_t rows, int64_t cols) {
    FAC_ISA_PICK(fac__items_copy_rows)(item, to.p, to.row, from.p, from.row, rows, cols, to.col, from.col);
}

static void copy(size_t item, side to, side from, int64_t rows, int64_t cols) {
    if (from.col == (int64_t)item && to.row == (int64_t)item && from.row != to.row && (item == 4 || item == 8)) {
        if (item == 4)
            FAC_ISA_PICK(fac__transpose_4)(to.p, to.col, from.p, from.row, cols, rows, false);
        else
            FAC_ISA_PICK(fac__transpose_8)(to.p, to.col, from.p, from.row, cols, rows);
        return;
    }
    if (from.row == (int64_t)item || rows * cols <= 4 * BLOCK * BLOCK) {
        copy_block(item, to, from, rows, cols);
        return;
    }
    for (int64_t i = 0; i < rows; i += BLOCK)
        for (int64_t j = 0; j < cols; j += BLOCK) {
            side a = {to.p + i * to.row + j * to.col, to.row, to.col};
            side b = {from.p + i * from.row + j * from.col, from.row, from.col};
            copy_block(item, a, b, fac__min(BLOCK, rows - i), fac__min(BLOCK, cols - j));
        }
}

void fac__matrix_pack(const fac_matrices *m, int64_t i, void *dst, int64_t ld) {
    if (m->rows == 0 || m->cols == 0) return;
    const int64_t item = (int64_t)m->item;
    copy(m->item, (side){dst, item, ld * item}, (side){fac__matrix_at(m, i), m->row, m->col}, m->rows, m->cols);
}

void fac__matrix_unpack(const fac_matrices *m, int64_t i, const void *src, int64_t ld) {
    if (m->rows == 0 || m->cols == 0) return;
    const int64_t item = (int64_t)m->item;
    side from = {(char *)(uintptr_t)src, item, ld * item};
    if (m->col == item && m->row != item) /* rows lie together: written one after the other */
        copy(m->item, (side){fac__matrix_at(m, i), m->col, m->row}, (side){from.p, from.col, from.row}, m->cols,
             m->rows);
    else
        copy(m->item, (side){fac__matrix_at(m, i), m->row, m->col}, from, m->rows, m->cols);
}

void fac__matrix_pack_padded(const fac_matrices *m, int64_t i, void *dst, int64_t ld) {
    fac__matrix_pack(m, i, dst, ld);
    const int64_t vector = 64 / (int64_t)m->item, rows = fac__div_up(m->rows, vector) * vector;
    for (int64_t c = 0; m->rows < rows && c < m->cols; c++)
        memset((char *)dst + (c * ld + m->rows) * (int64_t)m->item, 0, (size_t)(rows - m->rows) * m->item);
}

fac_triangle fac__matrix_triangle(const fac_matrices *m, int64_t i, bool upper, bool unit) {
    const int64_t item = (int64_t)m->item;
    return (fac_triangle){
        .a = fac__matrix_at(m, i), .rs = m->row / item, .cs = m->col / item, .upper = upper, .unit = unit};
}

void fac__matrix_sides(const fac_matrices *b, const fac_matrices *x, int64_t i, fac_systems *s) {
    const int64_t item = (int64_t)b->item;
    s->n = b->rows;
    s->k = b->cols;
    s->b = fac__matrix_at(b, i);
    s->b_rs = b->row / item;
    s->b_cs = b->col / item;
    s->x = fac__matrix_at(x, i);
    s->x_rs = x->row / item;
    s->x_cs = x->col / item;
}

/* Columns that LAPACK can take as they lie. */
static bool lies_in_columns(const fac_matrices *m, int *ld) {
    const int64_t item = (int64_t)m->item;
    *ld = fac__ld(m->rows);
    if (m->rows > 1 && m->row != item) return false;
    if (m->cols <= 1) return true;
    const int64_t apart = m->col / item;
    if (m->col % item || apart < *ld || apart > INT32_MAX) return false;
    *ld = (int)apart;
    return true;
}

void *fac__matrix_room(const fac_matrices *m, int64_t i, void *scratch, int *ld) {
    if (lies_in_columns(m, ld) && m->data) return fac__matrix_at(m, i);
    *ld = fac__ld(m->rows);
    return scratch;
}

void fac__matrix_settle(const fac_matrices *m, int64_t i, const void *room, const void *scratch) {
    if (room == scratch) fac__matrix_unpack(m, i, scratch, fac__ld(m->rows));
}

const void *fac__matrix_read(const fac_matrices *m, int64_t i, void *scratch, int *ld) {
    void *room = fac__matrix_room(m, i, scratch, ld);
    if (room == scratch) fac__matrix_pack(m, i, scratch, *ld);
    return room;
}

void fac__clear_triangle(char *a, int64_t ld, int64_t rows, int64_t cols, size_t item, bool upper) {
    for (int64_t j = 0; j < cols; j++) {
        int64_t begin = upper ? 0 : j + 1, end = upper ? fac__min(j, rows) : rows;
        if (end > begin) memset(a + (size_t)(j * ld + begin) * item, 0, (size_t)(end - begin) * item);
    }
}

void fac__matrix_copy(const fac_matrices *to, const fac_matrices *from, int64_t i, int64_t rows, int64_t cols) {
    if (rows == 0 || cols == 0) return;
    side a = {fac__matrix_at(to, i), to->row, to->col}, b = {fac__matrix_at(from, i), from->row, from->col};
    if (to->row == (int64_t)to->item)
        copy(to->item, a, b, rows, cols);
    else
        copy(to->item, (side){a.p, a.col, a.row}, (side){b.p, b.col, b.row}, cols, rows);
}

void fac__matrix_clear_triangle(const fac_matrices *m, int64_t i, bool upper) {
    const int64_t item = (int64_t)m->item;
    char *a = fac__matrix_at(m, i);
    if (m->row == item)
        fac__clear_triangle(a, m->col / item, m->rows, m->cols, m->item, upper);
    else if (m->col == item)
        fac__clear_triangle(a, m->row / item, m->cols, m->rows, m->item, !upper);
    else
        for (int64_t c = 0; c < m->cols; c++)
            for (int64_t r = upper ? 0 : c + 1; r < (upper ? fac__min(c, m->rows) : m->rows); r++)
                memset(a + r * m->row + c * m->col, 0, m->item);
}

void fac__conjugate(void *v, int64_t n, int kind) {
    float *f = v;
    double *d = v;
    if (kind == 2)
        for (int64_t i = 0; i < n; i++) f[2 * i + 1] = -f[2 * i + 1];
    if (kind == 3)
        for (int64_t i = 0; i < n; i++) d[2 * i + 1] = -d[2 * i + 1];
}

bool fac__all_finite(const void *v, int64_t n, int kind) {
    const float *f = v;
    const double *d = v;
    bool good = true;
    n *= kind >= 2 ? 2 : 1;
    if (kind % 2)
        for (int64_t i = 0; i < n; i++) good &= isfinite(d[i]) != 0;
    else
        for (int64_t i = 0; i < n; i++) good &= isfinite(f[i]) != 0;
    return good;
}

fac_status fac__lapack_sizes(const fac_tensor *t) {
    for (int d = (int)fac__max(0, t->ndim - 2); d < t->ndim; d++)
        FAC_CHECK(t->sizes[d] <= INT32_MAX / 2, FAC_ERR_OVERFLOW, "matrices of size %s are larger than LAPACK counts",
                  FAC_SHAPE_TEXT(t));
    return FAC_OK;
}
