/* Reading and writing what a subscript picks: integers, slices and new dimensions make views one after the other, from left to
   right; tensors are gathered on the way, and index the last of these views. */
#include "ops/composite/subscript.h"
#include "ops/composite/brief.h"

/* What a subscript makes of a tensor. */
typedef struct picked {
    fac_tensor *view;                  /* a temporary, or the tensor itself */
    fac_tensor *indices[FAC_MAX_DIMS]; /* per dimension of the view a tensor, a mask for all of its own, or NULL */
    size_t n_indices;                  /* up to the last tensor */
    int dim, list;                     /* the next dimension of the view, and its place among the indices */
    int own_dim;                       /* which dimension of the tensor that was */
    int rest;                          /* dimensions that the ellipsis stands for */
} picked;

static bool is_mask(const fac_tensor *t) { return t->dtype == FAC_BOOL || t->dtype == FAC_U8; }

/* Dimensions of the tensor that an item takes up. */
static int dims_of(const fac_subscript_item *i) {
    if (i->kind == FAC_SUBSCRIPT_ELLIPSIS || i->kind == FAC_SUBSCRIPT_NEW_DIM) return 0;
    return i->kind == FAC_SUBSCRIPT_TENSOR && is_mask(i->tensor) ? i->tensor->ndim : 1;
}

static bool adds_dim(const fac_subscript_item *i) {
    return i->kind == FAC_SUBSCRIPT_NEW_DIM ||
           (i->kind == FAC_SUBSCRIPT_TENSOR && is_mask(i->tensor) && i->tensor->ndim == 0);
}

/* Counts dimensions, so that nothing is beyond the last one below. */
static fac_status count_dims(const fac_subscript *s, const fac_tensor *self, int *rest) {
    int taken = 0, added = 0;
    for (int i = 0; i < s->n; i++) {
        taken += dims_of(&s->items[i]);
        added += adds_dim(&s->items[i]);
        FAC_CHECK(taken <= self->ndim, FAC_ERR_INDEX,
                  "too many indices for a tensor of %d dimensions" FAC_SUBSCRIPT_PLACE, self->ndim, s->items[i].column,
                  s->text);
        FAC_CHECK(self->ndim + added <= FAC_MAX_DIMS, FAC_ERR_SHAPE,
                  "a tensor has at most %d dimensions" FAC_SUBSCRIPT_PLACE, FAC_MAX_DIMS, s->items[i].column, s->text);
    }
    *rest = self->ndim - taken;
    return FAC_OK;
}

static void pass_dims(picked *p, int n) {
    p->dim += n;
    for (; n > 0; n--) p->indices[p->list++] = NULL;
}

/* ---- one item ------------------------------------------------------------------------------------------------------------ */

static fac_status pick_one(picked *p, const fac_subscript *s, const fac_subscript_item *i, int64_t index) {
    const int64_t size = p->view->sizes[p->dim];
    FAC_CHECK(index >= -size && index < size, FAC_ERR_INDEX,
              "index %lld is out of bounds for dimension %d with size %lld" FAC_SUBSCRIPT_PLACE, (long long)index,
              p->own_dim, (long long)size, i->column, s->text);
    p->view = fac__s_select_int(p->view, p->dim, index);
    return p->view ? FAC_OK : fac_error();
}

static fac_status pick_slice(picked *p, const fac_subscript_item *i) {
    const bool whole = !i->start.set && !i->stop.set && i->step == 1;
    if (!whole) p->view = fac__s_slice_Tensor(p->view, p->dim, i->start, i->stop, i->step);
    pass_dims(p, 1);
    return p->view ? FAC_OK : fac_error();
}

static fac_status add_dim(picked *p) {
    p->view = fac__s_unsqueeze(p->view, p->dim);
    return p->view ? FAC_OK : fac_error();
}

/* The next index of the list: on the device of what it indexes. */
static fac_status add_index(picked *p, fac_tensor *t) {
    if (!fac_device_equal(t->device, p->view->device))
        t = fac__s_to_device(t, p->view->device, (fac_dtype)t->dtype, false, false, FAC_FORMAT_DEFAULT);
    p->indices[p->list++] = t;
    p->n_indices = (size_t)p->list;
    return t ? FAC_OK : fac_error();
}

static fac_status check_mask(const picked *p, const fac_subscript *s, const fac_subscript_item *i) {
    const fac_tensor *mask = i->tensor;
    for (int d = 0; d < mask->ndim; d++)
        FAC_CHECK(mask->sizes[d] == p->view->sizes[p->dim + d], FAC_ERR_SHAPE,
                  "a mask of shape %s does not fit dimension %d, which has size %lld" FAC_SUBSCRIPT_PLACE,
                  FAC_SHAPE_TEXT(mask), p->own_dim + d, (long long)p->view->sizes[p->dim + d], i->column, s->text);
    return FAC_OK;
}

static fac_status pick_by_mask(picked *p, const fac_subscript *s, const fac_subscript_item *i) {
    fac_tensor *mask = i->tensor;
    FAC_TRY(check_mask(p, s, i));
    if (mask->ndim == 0) {
        FAC_TRY(add_dim(p));
        mask = fac__s_unsqueeze(mask, 0);
        if (!mask) return fac_error();
    }
    p->dim += mask->ndim;
    return add_index(p, mask);
}

static fac_status pick_by_tensor(picked *p, const fac_subscript *s, const fac_subscript_item *i) {
    fac_tensor *t = i->tensor;
    FAC_CHECK(is_integral(t), FAC_ERR_DTYPE,
              "an index tensor holds integers or truth values, not %s" FAC_SUBSCRIPT_PLACE,
              fac_dtype_name((fac_dtype)t->dtype), i->column, s->text);
    if (is_mask(t)) return pick_by_mask(p, s, i);
    if (t->ndim == 0) {
        fac_scalar index;
        FAC_TRY(fac__c__local_scalar_dense(t, &index));
        return pick_one(p, s, i, index.bits);
    }
    p->dim++;
    return add_index(p, t);
}

static fac_status pick_new_dim(picked *p) {
    FAC_TRY(add_dim(p));
    pass_dims(p, 1);
    return FAC_OK;
}

static fac_status pick_item(picked *p, const fac_subscript *s, const fac_subscript_item *i) {
    switch (i->kind) {
    case FAC_SUBSCRIPT_INTEGER: return pick_one(p, s, i, i->start.v);
    case FAC_SUBSCRIPT_SLICE: return pick_slice(p, i);
    case FAC_SUBSCRIPT_TENSOR: return pick_by_tensor(p, s, i);
    case FAC_SUBSCRIPT_NEW_DIM: return pick_new_dim(p);
    case FAC_SUBSCRIPT_ELLIPSIS: pass_dims(p, p->rest);
    }
    return FAC_OK;
}

static int own_dims(const picked *p, const fac_subscript_item *i) {
    return i->kind == FAC_SUBSCRIPT_ELLIPSIS ? p->rest : dims_of(i);
}

/* Temporaries go to the innermost scope. */
static fac_status pick(picked *p, fac_tensor *self, const char *text, fac_tensors tensors, fac_ints ints) {
    fac_subscript s;
    *p = (picked){.view = self};
    FAC_TRY(fac__subscript_parse(&s, text, tensors, ints));
    FAC_TRY(count_dims(&s, self, &p->rest));
    for (int i = 0; i < s.n; i++) {
        FAC_TRY(pick_item(p, &s, &s.items[i]));
        p->own_dim += own_dims(p, &s.items[i]);
    }
    return FAC_OK;
}

static fac_tensors indices_of(const picked *p) { return (fac_tensors){p->indices, p->n_indices}; }

/* ---- operators ----------------------------------------------------------------------------------------------------------- */

fac_status at_composite(const fac_call_info *c, fac_tensor *self, const char *subscript, fac_tensors tensors,
                        fac_ints ints, fac_tensor **out) {
    (void)c;
    FAC_SCOPE(s);
    picked p;
    FAC_TRY(pick(&p, self, subscript, tensors, ints));
    if (p.n_indices) return fac__give(out, fac__s_index_Tensor(p.view, indices_of(&p)));
    return fac__give(out, p.view == self ? fac__s_alias(self) : p.view);
}

/* A value without the leading dimensions of size 1 that it has more than what it is assigned to, as NumPy assigns. */
static fac_tensor *without_leading_ones(fac_tensor *value, int ndim) {
    int lead = 0;
    while (value->ndim - lead > ndim && value->sizes[lead] == 1) lead++;
    if (!lead) return value;
    return fac__s_reshape(value, (fac_ints){value->sizes + lead, (size_t)(value->ndim - lead)});
}

fac_status at_put_tensor_composite_(const fac_call_info *c, fac_tensor *self, const char *subscript, fac_tensor *value,
                                    fac_tensors tensors, fac_ints ints, fac_tensor **out) {
    (void)c;
    FAC_SCOPE(s);
    picked p;
    FAC_TRY(pick(&p, self, subscript, tensors, ints));
    fac_tensor *t = p.n_indices ? without_leading_ones(value, 0) : without_leading_ones(value, p.view->ndim);
    if (t) t = p.n_indices ? fac__s_index_put_(p.view, indices_of(&p), t, false) : fac__s_copy_(p.view, t, false);
    return t ? fac__give(out, self) : fac_error();
}

fac_status at_put_scalar_composite_(const fac_call_info *c, fac_tensor *self, const char *subscript, fac_scalar value,
                                    fac_tensors tensors, fac_ints ints, fac_tensor **out) {
    (void)c;
    FAC_SCOPE(s);
    picked p;
    FAC_TRY(pick(&p, self, subscript, tensors, ints));
    if (!p.n_indices) return fac__s_fill__Scalar(p.view, value) ? fac__give(out, self) : fac_error();
    fac_tensor *t = fac__s_scalar_tensor(value, (fac_dtype)self->dtype, FAC_STRIDED, self->device, (fac_opt_num){0});
    if (t) t = fac__s_index_put_(p.view, indices_of(&p), t, false);
    return t ? fac__give(out, self) : fac_error();
}
