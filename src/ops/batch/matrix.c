/* Products of matrices and vectors, each by matmul, which broadcasts what stands before the matrices; and solving. */
#include "ops/batch/rules.h"
#include "ops_gen.h"

/* A vector as a matrix of one row, or of one column. */
static fac_status as_matrix(batch_tensor *x, bool row) {
    if (x->rank != 1) return FAC_OK;
    return batch_insert(x, x->t->ndim - (row ? 1 : 0), 1);
}

/* For one sample the operators check sizes that matmul would broadcast. */
static bool is_sound(const batch_tensor *a, const batch_tensor *c, int rank_a, int rank_c) {
    const fac_tensor *x = a->given, *y = c->given;
    if (a->rank != rank_a || c->rank != rank_c || x->dtype != y->dtype) return false;
    return rank_a != 3 || x->sizes[0] == y->sizes[0];
}

/* a @ c, of vectors, matrices or lists of matrices; owned. */
static fac_status product(batch_call *b, batch_tensor *a, batch_tensor *c, fac_tensor **out) {
    fac_tensor *full = NULL, *part = NULL;
    FAC_TRY(batch_front(b, a, false));
    FAC_TRY(batch_front(b, c, false));
    FAC_TRY(as_matrix(a, true));
    FAC_TRY(as_matrix(c, false));
    FAC_TRY(fac__c_matmul(a->t, c->t, &full));
    fac_status st = FAC_OK;
    if (c->rank == 1) {
        st = fac__c_squeeze_dim(full, -1, &part);
        fac__unref(full);
        full = part;
    }
    if (st == FAC_OK && a->rank == 1) {
        st = fac__c_squeeze_dim(full, -1, &part);
        fac__unref(full);
        full = part;
    }
    *out = full;
    return st;
}

static void ranks_of(const batch_call *b, int *a, int *c) {
    const char *name = b->schema->name;
    const bool lists = strstr(name, "bmm") != NULL;
    const bool vectors = strcmp(name, "dot") == 0 || strcmp(name, "vdot") == 0;
    *a = vectors ? 1 : lists ? 3 : 2;
    *c = vectors || strcmp(name, "mv") == 0 || strcmp(name, "addmv") == 0 ? 1 : lists ? 3 : 2;
}

fac_status fac__batch_matmul(batch_call *b) {
    int rank_a, rank_c;
    fac_tensor *out = NULL;
    ranks_of(b, &rank_a, &rank_c);
    if (b->n != 2 || !is_sound(&b->v[0], &b->v[1], rank_a, rank_c)) return fac__batch_loop(b);
    fac_tensor *conjugate = NULL;
    FAC_TRY(batch_front(b, &b->v[0], false));
    if (strcmp(b->schema->name, "vdot") == 0)
        FAC_TRY(batch_become(&b->v[0], fac__c_conj(b->v[0].t, &conjugate), &conjugate));
    FAC_TRY(product(b, &b->v[0], &b->v[1], &out));
    batch_give(b, 0, out);
    return fac_error();
}

/* ---- beta * self + alpha * a @ c -------------------------------------------------------------------------------- */

static bool is_number(const fac_value *v, double number) {
    const fac_scalar s = fac_value_as_scalar(*v);
    return s.kind != FAC_KIND_COMPLEX && fac__scalar_is(s, number);
}

/* *t *= factor, as a tensor of its own. */
static fac_status scale(fac_tensor **t, const fac_value *factor) {
    fac_tensor *next = NULL;
    if (is_number(factor, 1)) return FAC_OK;
    FAC_TRY(fac__c_mul_Scalar(*t, fac_value_as_scalar(*factor), &next));
    fac__unref(*t);
    *t = next;
    return FAC_OK;
}

/* A self that is not a number counts for nothing when it is multiplied by 0. */
static fac_status add_self(batch_call *b, fac_tensor *made, int rank, fac_tensor **out) {
    batch_tensor *self = &b->v[0];
    *out = NULL;
    if (is_number(&b->stack[3], 0)) {
        *out = fac__ref(made);
        return FAC_OK;
    }
    FAC_TRY(batch_front(b, self, false));
    if (self->front) FAC_TRY(batch_insert(self, 1, rank - self->rank));
    FAC_TRY(scale(&self->t, &b->stack[3]));
    return fac__c_add_Tensor(made, self->t, fac_scalar_i_(1), out);
}

fac_status fac__batch_addmatmul(batch_call *b) {
    int rank_a, rank_c;
    fac_tensor *made = NULL, *out = NULL;
    ranks_of(b, &rank_a, &rank_c);
    const int rank = rank_a + rank_c - 2 - (rank_a == 3);
    const bool sound = b->n == 3 && is_sound(&b->v[1], &b->v[2], rank_a, rank_c) && b->v[0].rank <= rank &&
                       b->v[0].given->dtype == b->v[1].given->dtype;
    if (!sound || (is_number(&b->stack[3], 0) && fac__requires_grad(b->v[0].given))) return fac__batch_loop(b);
    const bool any = b->v[1].batched || b->v[2].batched;
    FAC_TRY(product(b, &b->v[1], &b->v[2], &made));
    /* What one sample would have refused: the product gives the size. */
    for (int d = 1; d <= b->v[0].rank; d++) {
        const int64_t own = b->v[0].given->sizes[b->v[0].rank - d];
        if (own == 1 || own == made->sizes[made->ndim - d]) continue;
        fac__unref(made);
        return fac__batch_loop(b);
    }
    fac_status st = scale(&made, &b->stack[4]);
    if (st == FAC_OK) st = add_self(b, made, rank, &out);
    fac__unref(made);
    if (st == FAC_OK && !any && out->ndim == rank) { /* 0 * self, which was the only one that is batched */
        fac_tensor *next = NULL;
        st = fac__batch_front(b->level, out, true, &next);
        fac__unref(out);
        out = next;
    }
    if (st != FAC_OK) return fac__unref(out), st;
    batch_give(b, 0, out);
    return fac_error();
}

/* ---- solving ---------------------------------------------------------------------------------------------------- */

/* B is a vector if it has one dimension, or A's less one. */
static bool is_vector(const batch_tensor *a, const batch_tensor *x) {
    if (x->rank == 1) return true;
    if (x->rank != a->rank - 1) return false;
    for (int d = 0; d < x->rank; d++)
        if (x->given->sizes[d] != a->given->sizes[d]) return false;
    return true;
}

/* [B, 1..., n...] -> [B, n...]: an out that has A's dimensions, without the n that A was given. */
static fac_status drop(batch_call *b, size_t i, int n) {
    int64_t sizes[FAC_MAX_DIMS];
    fac_tensor *t = fac__value_header(&b->outs[i]), *out = NULL;
    int to = 0;
    for (int d = 0; d < t->ndim; d++)
        if (d < 1 || d > n) sizes[to++] = t->sizes[d];
    FAC_TRY(fac__c_reshape(t, (fac_ints){sizes, (size_t)to}, &out));
    batch_give(b, i, out);
    return fac_error();
}

/* With as many dimensions before the matrices, B cannot be taken for a vector. */
fac_status fac__batch_solve(batch_call *b) {
    batch_tensor *a = &b->v[0], *x = &b->v[1];
    fac_tensor *out = NULL;
    if (b->n != 2 || a->rank < 2 || x->rank < 1) return fac__batch_loop(b);
    const bool vector = is_vector(a, x);
    FAC_TRY(batch_front_all(b, true));
    if (vector) FAC_TRY(batch_insert(x, x->t->ndim, 1));
    const int more = a->t->ndim - x->t->ndim;
    FAC_TRY(batch_insert(more < 0 ? a : x, 1, more < 0 ? -more : more));
    FAC_TRY(batch_call_op(b));
    for (size_t i = 1; i < b->schema->n_rets && more < 0; i++) FAC_TRY(drop(b, i, -more));
    if (!vector) return FAC_OK;
    FAC_TRY(fac__c_squeeze_dim(fac__value_header(&b->outs[0]), -1, &out));
    batch_give(b, 0, out);
    return fac_error();
}
