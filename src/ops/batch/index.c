/* Indexing by lists of tensors, and embeddings. */
#include "ops/batch/rules.h"
#include "ops_gen.h"

/* ---- embedding -------------------------------------------------------------------------------------------------- */

/* Rows of a table of each sample's own: gather, which checks each index. */
static fac_status gather_rows(batch_call *b, batch_tensor *table, batch_tensor *indices) {
    int64_t sizes[FAC_MAX_DIMS + 1];
    fac_tensor *rows = NULL, *wide = NULL, *out = NULL;
    const int64_t width = table->given->sizes[1];
    FAC_TRY(batch_front_all(b, true));
    fac_tensor *shape = fac__ref(indices->t);
    fac_status st = batch_flatten(indices, 1, indices->rank);
    if (st == FAC_OK) st = batch_insert(indices, 2, 1);
    if (st == FAC_OK) st = fac__c_expand(indices->t, FAC_INTS(-1, -1, width), false, &wide);
    if (st == FAC_OK) st = fac__c_gather(table->t, 1, wide, false, &rows);
    for (int d = 0; d < shape->ndim; d++) sizes[d] = shape->sizes[d];
    sizes[shape->ndim] = width;
    if (st == FAC_OK) st = fac__c_reshape(rows, (fac_ints){sizes, (size_t)shape->ndim + 1}, &out);
    fac__unref(shape);
    fac__unref(wide);
    fac__unref(rows);
    if (st != FAC_OK) return st;
    batch_give(b, 0, out);
    return fac_error();
}

fac_status fac__batch_embedding(batch_call *b) {
    if (batch_find(b, "grad_output") == 0) return fac__batch_embedding_gradients(b);
    batch_tensor *table = &b->v[0], *indices = &b->v[1];
    const bool plain = fac_value_as_int(b->stack[2]) < 0 && !fac_value_as_bool(b->stack[3]);
    if (table->batched && plain && table->rank == 2 && indices->given->dtype == FAC_I64)
        return gather_rows(b, table, indices);
    if (table->batched) return fac__batch_loop(b);
    FAC_TRY(batch_front(b, indices, true));
    return batch_call_op(b);
}

/* ---- index ------------------------------------------------------------------------------------------------------ */

/* Where the indices of a call stand. */
typedef struct places {
    size_t first, last, n; /* places in the list of those that are given, and how many */
    int rank;              /* of one sample's, broadcast together */
    bool batched, masks;
} places;

static places places_of(const batch_call *b) {
    places p = {.first = SIZE_MAX};
    for (size_t i = 1; i < b->n; i++) {
        const batch_tensor *x = &b->v[i];
        if (x->arg != 1) continue;
        const bool mask = x->given->dtype == FAC_BOOL || x->given->dtype == FAC_U8;
        if (p.first == SIZE_MAX) p.first = x->at;
        p.last = x->at;
        p.n++;
        p.rank = (mask ? 1 : x->rank) > p.rank ? (mask ? 1 : x->rank) : p.rank;
        p.batched |= x->batched;
        p.masks |= mask;
    }
    return p;
}

/* The operator with one more index in front: NULL for all samples, or each sample's number. Arguments after the indices are
   the call's own. */
static fac_status call_with(batch_call *b, fac_tensor *front) {
    const fac_tensors given = fac__value_headers(&b->stack[1]);
    fac_tensor **v = fac__alloc_zero((given.n + 1) * sizeof *v);
    if (!v) return fac_error();
    v[0] = front;
    for (size_t i = 1; i < b->n; i++)
        if (b->v[i].arg == 1) v[1 + b->v[i].at] = b->v[i].t;
    fac_value args[4] = {fac__value_tensor(b->v[0].t), fac__value_tensors(v, given.n + 1)};
    fac__free(v);
    if (b->op->n_args == 4) {
        args[2] = fac__value_tensor(b->v[b->n - 1].t);
        args[3] = b->stack[3];
    }
    fac_status st = fac_error();
    if (st == FAC_OK) st = batch_call_other(b, b->op, args, b->op->n_args);
    for (size_t i = 0; i < 3 && i < b->op->n_args; i++) fac_value_release(&args[i]);
    return st;
}

/* The out with dimensions [from, from + n) moved to `to`. */
static fac_status move_out(batch_call *b, int from, int n, int to) {
    int64_t dims[FAC_MAX_DIMS];
    fac_tensor *t = fac__value_header(&b->outs[0]), *out = NULL;
    int k = 0, rest = 0;
    if (n == 0) return FAC_OK;
    while (k < t->ndim) {
        if (k == to)
            for (int d = 0; d < n; d++) dims[k++] = from + d;
        else {
            if (rest == from) rest += n;
            dims[k++] = rest++;
        }
    }
    FAC_TRY(fac__c_permute(t, (fac_ints){dims, t->ndim}, &out));
    batch_give(b, 0, out);
    return fac_error();
}

static fac_status by_shared(batch_call *b, const places *p) {
    FAC_TRY(batch_front(b, &b->v[0], true));
    FAC_TRY(call_with(b, NULL));
    const bool together = p->last - p->first + 1 == p->n;
    return together ? FAC_OK : move_out(b, p->rank, 1, 0);
}

static fac_status numbers_of_samples(batch_call *b, int rank, fac_tensor **out) {
    int64_t sizes[FAC_MAX_DIMS + 1];
    fac_tensor *row = NULL;
    FAC_TRY(fac__c_arange(fac_scalar_i_(b->level->size), FAC_I64, FAC_STRIDED, b->v[0].given->device, (fac_opt_num){0},
                          &row));
    sizes[0] = b->level->size;
    for (int d = 0; d < rank; d++) sizes[d + 1] = 1;
    const fac_status st = fac__c_view(row, (fac_ints){sizes, (size_t)rank + 1}, out);
    fac__unref(row);
    return st;
}

/* The sample's number stands in front, so what is indexed comes out there, unless indices stand together further on.
   */
static fac_status call_by_own(batch_call *b, const places *p) {
    fac_tensor *numbers = NULL;
    FAC_TRY(batch_front(b, &b->v[0], true));
    for (size_t i = 1; i < b->n; i++) {
        if (b->v[i].arg != 1) continue;
        FAC_TRY(batch_front(b, &b->v[i], false));
        if (b->v[i].front) FAC_TRY(batch_insert(&b->v[i], 1, p->rank - b->v[i].rank));
    }
    FAC_TRY(numbers_of_samples(b, p->rank, &numbers));
    const fac_status st = call_with(b, numbers);
    fac__unref(numbers);
    return st;
}

static fac_status by_own(batch_call *b, const places *p) {
    FAC_TRY(call_by_own(b, p));
    const bool together = p->last - p->first + 1 == p->n;
    return together && p->first > 0 ? move_out(b, 1, p->rank, 1 + (int)p->first) : FAC_OK;
}

/* take: elements of each sample by their number in it. */
static fac_status take(batch_call *b) {
    batch_tensor *self = &b->v[0], *index = &b->v[1];
    fac_tensor *numbers = NULL, *out = NULL;
    if (self->given->numel == 0 || index->given->dtype != FAC_I64) return fac__batch_loop(b);
    FAC_TRY(batch_front_all(b, true));
    FAC_TRY(batch_flatten(self, 1, self->rank));
    FAC_TRY(numbers_of_samples(b, index->rank, &numbers));
    fac_tensor *const both[] = {numbers, index->t};
    const fac_status st = fac__c_index_Tensor(self->t, (fac_tensors){both, 2}, &out);
    fac__unref(numbers);
    if (st != FAC_OK) return st;
    batch_give(b, 0, out);
    return fac_error();
}

/* put: the same, written to. */
static fac_status put(batch_call *b) {
    batch_tensor *self = &b->v[0], *index = &b->v[1], *source = &b->v[2];
    int64_t sizes[FAC_MAX_DIMS + 1];
    fac_tensor *numbers = NULL, *flat = NULL, *out = NULL;
    if (self->given->numel == 0 || index->given->numel == 0 || index->given->dtype != FAC_I64 ||
        source->given->numel != index->given->numel || source->given->dtype != self->given->dtype)
        return fac__batch_loop(b);
    FAC_TRY(batch_front_all(b, true));
    for (int d = 0; d <= self->rank; d++) sizes[d] = self->t->sizes[d];
    for (int k = 0; k < 3; k++) FAC_TRY(batch_flatten(&b->v[k], 1, b->v[k].rank));
    FAC_TRY(numbers_of_samples(b, 1, &numbers));
    fac_tensor *const both[] = {numbers, index->t};
    fac_status st = fac__c_index_put(self->t, (fac_tensors){both, 2}, source->t, fac_value_as_bool(b->stack[3]), &flat);
    if (st == FAC_OK) st = fac__c_reshape(flat, (fac_ints){sizes, (size_t)self->rank + 1}, &out);
    fac__unref(numbers);
    fac__unref(flat);
    if (st != FAC_OK) return st;
    batch_give(b, 0, out);
    return fac_error();
}

/* searchsorted: rows of as many samples; one sequence for all values of a sample takes them as a row. */
static fac_status search(batch_call *b) {
    batch_tensor *sequence = &b->v[0], *values = &b->v[1];
    int64_t sizes[FAC_MAX_DIMS + 1];
    fac_tensor *out = NULL;
    if (b->n != 2 || sequence->rank < 1 || (sequence->rank != 1 && sequence->rank != values->rank))
        return fac__batch_loop(b);
    FAC_TRY(batch_front_all(b, true));
    const int n = values->t->ndim;
    for (int d = 0; d < n; d++) sizes[d] = values->t->sizes[d];
    if (sequence->rank == 1) FAC_TRY(batch_flatten(values, 1, values->rank));
    FAC_TRY(batch_call_op(b));
    FAC_TRY(fac__c_reshape(fac__value_header(&b->outs[0]), (fac_ints){sizes, (size_t)n}, &out));
    batch_give(b, 0, out);
    return fac_error();
}

/* masked_scatter: the k-th place of the mask gets the k-th element of the source, so the mask's running count is an index. */
static fac_status from_source(batch_call *b, fac_tensor *mask, fac_tensor *source, fac_tensor **out) {
    fac_tensor *count = NULL, *place = NULL, *first = NULL, *taken = NULL;
    fac_status st = fac__c_cumsum(mask, 1, FAC_I64, &count);
    if (st == FAC_OK) st = fac__c_sub_Scalar(count, fac_scalar_i_(1), fac_scalar_i_(1), &place);
    if (st == FAC_OK) st = fac__c_clamp_min(place, fac_scalar_i_(0), &first);
    if (st == FAC_OK) st = fac__c_gather(source, 1, first, false, &taken);
    if (st == FAC_OK) st = fac__c_where_self(mask, taken, b->v[0].t, out);
    fac__unref(count);
    fac__unref(place);
    fac__unref(first);
    fac__unref(taken);
    return st;
}

static fac_status masked_scatter(batch_call *b) {
    batch_tensor *self = &b->v[0], *mask = &b->v[1], *source = &b->v[2];
    int64_t sizes[FAC_MAX_DIMS + 1];
    fac_tensor *wide = NULL, *flat = NULL, *out = NULL;
    if (self->given->numel == 0 || source->given->numel < self->given->numel || mask->rank > self->rank ||
        mask->given->dtype != FAC_BOOL || source->given->dtype != self->given->dtype)
        return fac__batch_loop(b);
    FAC_TRY(batch_front_all(b, true));
    const int n = self->t->ndim;
    for (int d = 0; d < n; d++) sizes[d] = self->t->sizes[d];
    FAC_TRY(batch_insert(mask, 1, n - mask->t->ndim));
    FAC_TRY(batch_become(mask, fac__c_expand(mask->t, (fac_ints){sizes, (size_t)n}, false, &wide), &wide));
    for (int k = 0; k < 3; k++) FAC_TRY(batch_flatten(&b->v[k], 1, b->v[k].t->ndim - 1));
    fac_status st = from_source(b, mask->t, source->t, &flat);
    if (st == FAC_OK) st = fac__c_reshape(flat, (fac_ints){sizes, (size_t)n}, &out);
    fac__unref(flat);
    if (st != FAC_OK) return st;
    batch_give(b, 0, out);
    return fac_error();
}

fac_status fac__batch_index(batch_call *b) {
    if (batch_find(b, "sorted_sequence") == 0) return search(b);
    if (batch_find(b, "mask") == 1) return masked_scatter(b);
    if (batch_find(b, "index") == 1) return batch_find(b, "source") == 2 ? put(b) : take(b);
    const places p = places_of(b);
    if (p.masks && p.batched)
        return batch_refuse(b,
                            "how many elements a mask picks depends on its values, and would differ between samples. "
                            "Use where");
    if (p.n == 0 || fac__value_headers(&b->stack[1]).n > (size_t)b->v[0].rank) return fac__batch_loop(b);
    return p.batched ? by_own(b, &p) : by_shared(b, &p);
}

/* Where what is indexed comes out behind the samples, the values are aligned with it: indices that stand together begin at the first
   dimension, or do not stand together. */
fac_status fac__batch_index_put(batch_call *b) {
    const places p = places_of(b);
    const size_t given = fac__value_headers(&b->stack[1]).n;
    batch_tensor *values = &b->v[b->n - 1];
    const bool together = p.n && p.last - p.first + 1 == p.n;
    if (p.n == 0 || p.masks || given > (size_t)b->v[0].rank || values->arg != 2 || (together && p.first > 0))
        return fac__batch_loop(b);
    const int dims = p.rank + b->v[0].rank - (int)p.n;
    if (values->rank > dims) return fac__batch_loop(b);
    FAC_TRY(batch_front(b, values, false));
    if (values->front) FAC_TRY(batch_insert(values, 1, dims - values->rank));
    return call_by_own(b, &p);
}
