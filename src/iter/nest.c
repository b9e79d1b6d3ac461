/* Building nests, and walking over them. */
#include "iter/nest.h"

/* True if dimension a steps faster than b: smaller stride in the first operand that tells them apart. */
static bool faster(const int64_t *const *strides, int n_operands, int a, int b) {
    for (int k = 0; k < n_operands; k++) {
        if (strides[k][a] != strides[k][b]) return strides[k][a] < strides[k][b];
    }
    return false;
}

/* Adds dimension d on the slow side, merged into the slowest so far where every operand allows it. */
static void push_dim(fac_nest *n, int64_t size, int d, int n_operands, const int64_t *const *strides) {
    bool merge = n->ndim > 0;
    int last = n->ndim - 1;
    for (int k = 0; merge && k < n_operands; k++)
        merge = strides[k][d] == fac__mul_or_max(n->stride[k][last], n->size[last]);
    if (merge) {
        n->size[last] *= size;
    } else {
        n->size[n->ndim] = size;
        for (int k = 0; k < n_operands; k++) n->stride[k][n->ndim] = strides[k][d];
        n->ndim++;
    }
    n->count *= size;
}

void fac__nest_build(fac_nest *n, const int64_t *sizes, int ndim, uint64_t mask, int n_operands,
                     const int64_t *const *strides, bool ordered) {
    int order[FAC_MAX_DIMS];
    int m = 0;
    for (int d = ndim - 1; d >= 0; d--) {
        if (!(mask >> d & 1) || sizes[d] == 1) continue;
        int at = m++;
        for (; !ordered && at > 0 && faster(strides, n_operands, d, order[at - 1]); at--) order[at] = order[at - 1];
        order[at] = d;
    }
    n->ndim = 0;
    n->count = 1;
    for (int i = 0; i < m; i++) {
        if (sizes[order[i]] != 0) continue;
        push_dim(n, 0, order[i], n_operands, strides); /* the product of the others may be anything */
        return;
    }
    for (int i = 0; i < m; i++) push_dim(n, sizes[order[i]], order[i], n_operands, strides);
}

void fac__nest_seek(const fac_nest *n, int n_operands, int64_t i, fac_cursor *c) {
    for (int k = 0; k < n_operands; k++) c->offset[k] = 0;
    for (int d = 0; d < n->ndim; d++) {
        int64_t q = d == n->ndim - 1 || n->count == 0 ? 0 : i / n->size[d];
        c->index[d] = i - q * n->size[d];
        for (int k = 0; k < n_operands; k++) c->offset[k] += c->index[d] * n->stride[k][d];
        i = q;
    }
}

void fac__nest_advance(const fac_nest *n, int n_operands, int64_t step, fac_cursor *c) {
    if (n->ndim == 0) return;
    c->index[0] += step;
    for (int k = 0; k < n_operands; k++) c->offset[k] += step * n->stride[k][0];
    for (int d = 0; d + 1 < n->ndim && c->index[d] == n->size[d]; d++) {
        c->index[d] = 0;
        c->index[d + 1]++;
        for (int k = 0; k < n_operands; k++) c->offset[k] += n->stride[k][d + 1] - n->size[d] * n->stride[k][d];
    }
}

void fac__broadcast_strides(const fac_tensor *t, int ndim, int64_t *out_strides) {
    int lead = ndim - t->ndim;
    for (int d = 0; d < ndim; d++) out_strides[d] = d < lead || t->sizes[d - lead] == 1 ? 0 : t->strides[d - lead];
}
