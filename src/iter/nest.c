/* Building nests, and walking over them. */
#include "iter/nest.h"

/* Whether dimension a (now the faster one) belongs outside b: 1 yes, -1 no, 0 if no operand has an opinion. An operand
   with stride 0 in either has none; on equal strides the smaller size is the faster. */
static int should_swap(const fac_nest *n, int n_operands, int a, int b) {
    for (int k = 0; k < n_operands; k++) {
        int64_t sa = n->stride[k][a], sb = n->stride[k][b];
        if (sa == 0 || sb == 0) continue;
        if (sa != sb) return sa > sb ? 1 : -1;
        if (n->size[a] > n->size[b]) return 1;
    }
    return 0;
}

static void swap_i64(int64_t *a, int64_t *b) {
    int64_t t = *a;
    *a = *b;
    *b = t;
}

static void swap_dims(fac_nest *n, int n_operands, int8_t *order, int a, int b) {
    swap_i64(&n->size[a], &n->size[b]);
    for (int k = 0; k < n_operands; k++) swap_i64(&n->stride[k][a], &n->stride[k][b]);
    if (!order) return;
    int8_t t = order[a];
    order[a] = order[b];
    order[b] = t;
}

/* By insertion; undecided pairs are stepped over. */
bool fac__nest_sort(fac_nest *n, int n_operands, int8_t *order) {
    bool moved = false;
    for (int d = 1; d < n->ndim; d++) {
        int moving = d;
        for (int e = d - 1; e >= 0; e--) {
            int swap = should_swap(n, n_operands, e, moving);
            if (swap < 0) break;
            if (swap == 0) continue;
            swap_dims(n, n_operands, order, e, moving);
            moving = e;
            moved = true;
        }
    }
    return moved;
}

/* True if stepping once in d is stepping size[into] times in `into`, for every operand. */
static bool can_merge(const fac_nest *n, int n_operands, int into, int d) {
    for (int k = 0; k < n_operands; k++)
        if (n->stride[k][d] != fac__mul_or_max(n->size[into], n->stride[k][into])) return false;
    return true;
}

void fac__nest_merge(fac_nest *n, int n_operands) {
    int last = -1;
    n->count = 1;
    for (int d = 0; d < n->ndim; d++) {
        if (n->size[d] == 1) continue;
        n->count *= n->size[d];
        if (last >= 0 && can_merge(n, n_operands, last, d)) {
            n->size[last] *= n->size[d];
            continue;
        }
        n->size[++last] = n->size[d];
        for (int k = 0; k < n_operands; k++) n->stride[k][last] = n->stride[k][d];
    }
    n->ndim = last + 1;
}

void fac__nest_build(fac_nest *n, const int64_t *sizes, int ndim, uint64_t mask, int n_operands,
                     const int64_t *const *strides, bool ordered) {
    n->ndim = 0;
    for (int d = ndim - 1; d >= 0; d--) {
        if (!(mask >> d & 1) || sizes[d] == 1) continue;
        if (sizes[d] == 0) n->ndim = 0; /* alone: the product of the others may be anything */
        n->size[n->ndim] = sizes[d];
        for (int k = 0; k < n_operands; k++) n->stride[k][n->ndim] = strides[k][d];
        n->ndim++;
        if (sizes[d] == 0) break;
    }
    if (!ordered) fac__nest_sort(n, n_operands, NULL);
    fac__nest_merge(n, n_operands);
}

void fac__nest_seek(const fac_nest *n, int n_operands, int64_t i, fac_cursor *c) {
    for (int k = 0; k < n_operands; k++) c->offset[k] = 0;
    for (int d = 0; d < n->ndim; d++) {
        int64_t q = d == n->ndim - 1 ? 0 : i / n->size[d];
        c->index[d] = i - q * n->size[d];
        for (int k = 0; k < n_operands; k++) c->offset[k] += c->index[d] * n->stride[k][d];
        i = q;
    }
}

/* By no more than what is left of the row. */
static inline void advance_in_row(const fac_nest *n, int n_operands, int64_t step, fac_cursor *c) {
    c->index[0] += step;
    for (int k = 0; k < n_operands; k++) c->offset[k] += step * n->stride[k][0];
    for (int d = 0; d + 1 < n->ndim && c->index[d] == n->size[d]; d++) {
        c->index[d] = 0;
        c->index[d + 1]++;
        for (int k = 0; k < n_operands; k++) c->offset[k] += n->stride[k][d + 1] - n->size[d] * n->stride[k][d];
    }
}

enum { FAR_ROWS = 8 };
/* Over many short rows: by division, dimension after dimension. The last one is never wound up. */
static void advance_far(const fac_nest *n, int n_operands, int64_t step, fac_cursor *c) {
    for (int d = 0; d < n->ndim && step > 0; d++) {
        const int64_t to = c->index[d] + step, over = d + 1 < n->ndim ? to / n->size[d] : 0,
                      at = to - over * n->size[d];
        for (int k = 0; k < n_operands; k++) c->offset[k] += (at - c->index[d]) * n->stride[k][d];
        c->index[d] = at;
        step = over;
    }
}

void fac__nest_advance(const fac_nest *n, int n_operands, int64_t step, fac_cursor *c) {
    if (n->ndim == 0) return;
    if (n->ndim > 1 && step >= FAR_ROWS * n->size[0]) {
        advance_far(n, n_operands, step, c);
        return;
    }
    for (int64_t run; n->ndim > 1 && (run = n->size[0] - c->index[0]) < step; step -= run)
        advance_in_row(n, n_operands, run, c);
    advance_in_row(n, n_operands, step, c);
}

void fac__broadcast_strides(const fac_tensor *t, int ndim, int64_t *out_strides) {
    int lead = ndim - t->ndim;
    for (int d = 0; d < ndim; d++) out_strides[d] = d < lead || t->sizes[d - lead] == 1 ? 0 : t->strides[d - lead];
}
