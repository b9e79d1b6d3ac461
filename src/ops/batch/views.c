/* Views whose arguments are sizes or nothing at all, and roll. */
#include "ops/batch/rules.h"
#include "ops_gen.h"

/* [B, 1..., ...] expands to [B, size...]: a sample may get dimensions in front. */
fac_status fac__batch_expand(batch_call *b) {
    int64_t sizes[FAC_MAX_DIMS + 1];
    const fac_ints l = fac_value_as_ints(b->stack[1]);
    batch_tensor *x = &b->v[0];
    FAC_CHECK(l.n < FAC_MAX_DIMS && (size_t)x->rank <= l.n, FAC_ERR_SHAPE,
              "the number of sizes provided (%zu) must be greater or equal to the number of dimensions in the "
              "tensor (%d)",
              l.n, x->rank);
    FAC_TRY(batch_front(b, x, true));
    for (size_t d = 0; d < l.n; d++) {
        const bool is_new = d < l.n - (size_t)x->rank;
        FAC_CHECK(!is_new || l.v[d] >= 0, FAC_ERR_SHAPE,
                  "the expanded size of the tensor (%lld) isn't allowed in a leading, non-existing dimension %zu",
                  (long long)l.v[d], d);
        sizes[d + 1] = l.v[d];
    }
    FAC_TRY(batch_insert(x, 1, (int)l.n - x->rank));
    sizes[0] = b->level->size;
    FAC_TRY(batch_set_ints(b, 1, sizes, l.n + 1));
    return batch_call_op(b);
}

static fac_status give(batch_call *b, fac_status st, fac_tensor *const *owned) {
    if (st != FAC_OK) return st;
    batch_give(b, 0, *owned);
    return fac_error();
}

fac_status fac__batch_t(batch_call *b) {
    fac_tensor *out = NULL;
    batch_tensor *x = &b->v[0];
    FAC_CHECK(x->rank <= 2, FAC_ERR_SHAPE, "t() expects a tensor with <= 2 dimensions, but self is %dD", x->rank);
    FAC_TRY(batch_front(b, x, true));
    return give(b, x->rank == 2 ? fac__c_transpose_int(x->t, 1, 2, &out) : fac__c_alias(x->t, &out), &out);
}

fac_status fac__batch_squeeze(batch_call *b) {
    int64_t dims[FAC_MAX_DIMS];
    size_t n = 0;
    fac_tensor *out = NULL;
    batch_tensor *x = &b->v[0];
    FAC_TRY(batch_front(b, x, true));
    for (int d = 1; d < x->t->ndim; d++)
        if (x->t->sizes[d] == 1) dims[n++] = d;
    return give(b, fac__c_squeeze_dims(x->t, (fac_ints){dims, n}, &out), &out);
}

/* An offset is that of the first sample's elements; the others' lie as far behind as the samples do. */
fac_status fac__batch_as_strided(batch_call *b) {
    int64_t sizes[FAC_MAX_DIMS + 1], strides[FAC_MAX_DIMS + 1];
    const fac_ints size = fac_value_as_ints(b->stack[1]), stride = fac_value_as_ints(b->stack[2]);
    batch_tensor *x = &b->v[0];
    FAC_CHECK(size.n == stride.n && size.n < FAC_MAX_DIMS, FAC_ERR_SHAPE, "got %zu sizes and %zu strides", size.n,
              stride.n);
    FAC_TRY(batch_front(b, x, true));
    sizes[0] = x->t->sizes[0];
    strides[0] = x->t->strides[0];
    for (size_t d = 0; d < size.n; d++) sizes[d + 1] = size.v[d], strides[d + 1] = stride.v[d];
    FAC_TRY(batch_set_ints(b, 1, sizes, size.n + 1));
    FAC_TRY(batch_set_ints(b, 2, strides, size.n + 1));
    return batch_call_op(b);
}

static fac_status shape_as_given(batch_call *b, fac_tensor *t, fac_tensor **out) {
    int64_t sizes[FAC_MAX_DIMS + 1];
    const fac_tensor *given = b->v[0].given;
    sizes[0] = t->sizes[0];
    for (int d = 0; d < given->ndim; d++) sizes[d + 1] = given->sizes[d];
    return fac__c_reshape(t, (fac_ints){sizes, (size_t)given->ndim + 1}, out);
}

/* Without dimensions all elements of a sample are rolled as a row. */
fac_status fac__batch_roll(batch_call *b) {
    const fac_ints dims = fac_value_as_ints(b->stack[2]);
    int64_t shifted[FAC_MAX_DIMS];
    batch_tensor *x = &b->v[0];
    if (dims.n > FAC_MAX_DIMS || x->rank == 0) return fac__batch_loop(b);
    FAC_TRY(batch_front(b, x, true));
    for (size_t i = 0; i < dims.n; i++) {
        FAC_TRY(fac__wrap_dim(dims.v[i], x->rank, &shifted[i]));
        shifted[i]++;
    }
    if (dims.n == 0) {
        shifted[0] = 1;
        FAC_TRY(batch_flatten(x, 1, x->rank));
    }
    FAC_TRY(batch_set_ints(b, 2, shifted, dims.n ? dims.n : 1));
    FAC_TRY(batch_call_op(b));
    return dims.n ? FAC_OK : batch_each_out(b, shape_as_given);
}
