/* Slopes along dimensions by differences: between both neighbours of an element, at the borders to one neighbour or, of second order,
   to two. Positions of elements are even, a number apart, or given (Fornberg 1988; numpy.gradient): over the distances a and b to
   the neighbours the weights are -b / (a (a + b)), (b - a) / (a b) and a / (b (a + b)). */
#include "ops/composite/brief.h"
#include "ops/composite/view.h"

typedef struct spacing {
    const double *even; /* per dimension; NULL: 1, or `one` for all */
    const double *one;
    fac_tensor *const *at; /* positions per dimension; NULL: even */
} spacing;

/* Elements [start, end) of a dimension; negative ones count from its end. */
static fac_tensor *part(fac_tensor *t, int64_t dim, int64_t start, int64_t end) {
    const fac_opt_int none = {0};
    return fac__s_slice_Tensor(t, dim, fac_opt_int_(start), end == 0 ? none : fac_opt_int_(end), 1);
}
static fac_tensor *one(fac_tensor *t, int64_t dim, int64_t i) { return part(t, dim, i, i + 1); }
static fac_tensor *over(fac_tensor *t, double by) { return fac__s_div_Scalar(t, fac_scalar_f_(by)); }

/* ---- even positions ----------------------------------------------------------------------------------------------------- */

/* At a border: from the element at `i`, with its neighbours towards the middle, `step` apart. */
static fac_tensor *even_border(fac_tensor *t, int64_t dim, int64_t i, int64_t step, double by, int64_t order) {
    fac_tensor *border = one(t, dim, i), *next = one(t, dim, i + step);
    if (order == 1) return over(step > 0 ? sub(next, border) : sub(border, next), by);
    fac_tensor *third = one(t, dim, i + 2 * step);
    fac_tensor *inwards = sub(sub(scaled(next, 2), scaled(border, 1.5)), scaled(third, 0.5));
    return over(inwards, (double)step * by);
}

static fac_tensor *even_slopes(fac_tensor *t, int64_t dim, double by, int64_t order) {
    fac_tensor *middle = over(sub(part(t, dim, 2, 0), part(t, dim, 0, -2)), 2 * by);
    fac_tensor *parts[] = {even_border(t, dim, 0, 1, by, order), middle, even_border(t, dim, -1, -1, by, order)};
    if (!parts[0] || !parts[1] || !parts[2]) return NULL;
    return fac__s_cat((fac_tensors){parts, 3}, dim);
}

/* ---- given positions -------------------------------------------------------------------------------------------------------- */

/* [n] as the sizes of `dim` alone among ndim. */
static fac_tensor *lying_along(fac_tensor *v, int ndim, int64_t dim) {
    int64_t sizes[FAC_MAX_DIMS];
    for (int d = 0; d < ndim; d++) sizes[d] = 1;
    sizes[dim] = v ? v->numel : 0;
    return fac__s_reshape(v, (fac_ints){sizes, (size_t)ndim});
}

/* p x + q y + r z. */
static fac_tensor *weighted(fac_tensor *p, fac_tensor *x, fac_tensor *q, fac_tensor *y, fac_tensor *r, fac_tensor *z) {
    return add(add(mul(p, x), mul(q, y)), mul(r, z));
}

/* At a border of second order: a to its neighbour, b from there to the next; x, y and z in that order. */
static fac_tensor *given_border(fac_tensor *a, fac_tensor *b, fac_tensor *x, fac_tensor *y, fac_tensor *z) {
    fac_tensor *both = add(a, b);
    fac_tensor *p = fac__s_neg(divide(add(scaled(a, 2), b), mul(a, both)));
    fac_tensor *r = fac__s_neg(divide(a, mul(b, both)));
    return weighted(p, x, divide(both, mul(a, b)), y, r, z);
}

static fac_tensor *given_slopes(fac_tensor *t, int64_t dim, fac_tensor *at, int64_t order) {
    fac_tensor *gaps = lying_along(fac__s_diff(at, 1, 0, NULL, NULL), t->ndim, dim);
    if (!gaps) return NULL;
    fac_tensor *a = part(gaps, dim, 0, -1), *b = part(gaps, dim, 1, 0), *both = add(a, b);
    fac_tensor *first = one(gaps, dim, 0), *last = one(gaps, dim, -1);
    fac_tensor *middle =
        weighted(fac__s_neg(divide(b, mul(a, both))), part(t, dim, 0, -2), divide(sub(b, a), mul(a, b)),
                 part(t, dim, 1, -1), divide(a, mul(b, both)), part(t, dim, 2, 0));
    fac_tensor *parts[] = {divide(sub(one(t, dim, 1), one(t, dim, 0)), first), middle,
                           divide(sub(one(t, dim, -1), one(t, dim, -2)), last)};
    if (order == 2) {
        parts[0] = given_border(first, one(gaps, dim, 1), one(t, dim, 0), one(t, dim, 1), one(t, dim, 2));
        parts[2] =
            fac__s_neg(given_border(last, one(gaps, dim, -2), one(t, dim, -1), one(t, dim, -2), one(t, dim, -3)));
    }
    if (!parts[0] || !parts[1] || !parts[2]) return NULL;
    return fac__s_cat((fac_tensors){parts, 3}, dim);
}

/* ---- each dimension ------------------------------------------------------------------------------------------------------------ */

static fac_status check_dimension(const fac_tensor *self, int64_t d, const fac_tensor *at, int64_t order) {
    FAC_CHECK(self->sizes[d] >= order + 1, FAC_ERR_SHAPE,
              "torch.gradient expected each dimension size to be at least edge_order+1, but dimension %lld has %lld",
              (long long)d, (long long)self->sizes[d]);
    FAC_CHECK(!at || (at->ndim == 1 && at->numel == self->sizes[d]), FAC_ERR_SHAPE,
              "positions along dimension %lld of size %lld should be as many, but have sizes %s", (long long)d,
              (long long)self->sizes[d], FAC_SHAPE_TEXT(at));
    return FAC_OK;
}

/* Dimensions, each once, and as many spacings as there are dimensions, if any. */
static fac_status plan(const fac_tensor *self, fac_ints dim, const spacing *by, size_t spacings, int64_t order,
                       int64_t *dims) {
    uint64_t seen = 0;
    FAC_CHECK(self->dtype != FAC_U8, FAC_ERR_DTYPE, "torch.gradient does not support uint8 input.");
    FAC_CHECK(order == 1 || order == 2, FAC_ERR_ARGUMENT,
              "torch.gradient only supports edge_order=1 and edge_order=2.");
    FAC_CHECK(
        (!by->even && !by->at) || spacings == dim.n, FAC_ERR_ARGUMENT,
        "torch.gradient expected spacing to be unspecified, a scalar, or a list of length %zu, but got a list of length %zu",
        dim.n, spacings);
    for (size_t i = 0; i < dim.n; i++) {
        FAC_TRY(fac__wrap_dim(dim.v[i], self->ndim, &dims[i]));
        FAC_CHECK(self->ndim > 0, FAC_ERR_SHAPE, "a tensor without dimensions has no slopes");
        FAC_CHECK(!(seen >> dims[i] & 1), FAC_ERR_ARGUMENT, "dim %lld appears multiple times in the list of dims",
                  (long long)dims[i]);
        seen |= UINT64_C(1) << dims[i];
        FAC_TRY(check_dimension(self, dims[i], by->at ? by->at[i] : NULL, order));
    }
    return FAC_OK;
}

static fac_status slopes(fac_tensor *self, fac_ints dim, const spacing *by, size_t spacings, int64_t order,
                         fac_tensor_list *out) {
    int64_t dims[FAC_MAX_DIMS];
    FAC_CHECK(dim.n <= FAC_MAX_DIMS, FAC_ERR_ARGUMENT, "%zu dimensions are more than a tensor has", dim.n);
    FAC_TRY(plan(self, dim, by, spacings, order, dims));
    FAC_TRY(fac__list_new(dim.n, out));
    for (size_t i = 0; i < dim.n; i++) {
        FAC_SCOPE(s);
        const double step = by->even ? by->even[i] : by->one ? *by->one : 1;
        fac_tensor *t =
            by->at ? given_slopes(self, dims[i], by->at[i], order) : even_slopes(self, dims[i], step, order);
        fac_status st = fac__give(&out->v[i], t);
        if (st != FAC_OK) {
            fac__tensor_list_free(out);
            return st;
        }
        out->n++;
    }
    return FAC_OK;
}

/* One dimension if it is given, else all. */
static fac_ints dims_of(const fac_tensor *self, const fac_opt_int *dim, int64_t *room) {
    for (int d = 0; d < self->ndim; d++) room[d] = d;
    return dim->set ? (fac_ints){&dim->v, 1} : (fac_ints){room, self->ndim};
}

static fac_status number(fac_scalar spacing, double *out) {
    FAC_CHECK(spacing.kind != FAC_KIND_COMPLEX, FAC_ERR_DTYPE, "spacing should be a real number");
    *out = fac__scalar_f64(spacing);
    return FAC_OK;
}

fac_status gradient_scalarint_composite(const fac_call_info *c, fac_tensor *self, fac_opt_num spacing_, fac_opt_int dim,
                                        int64_t edge_order, fac_tensor_list *out) {
    (void)c;
    int64_t room[FAC_MAX_DIMS];
    double step = 1;
    if (spacing_.set) FAC_TRY(number(spacing_.v, &step));
    return slopes(self, dims_of(self, &dim, room), &(spacing){.one = &step}, 0, edge_order, out);
}

fac_status gradient_scalararray_composite(const fac_call_info *c, fac_tensor *self, fac_scalar spacing_, fac_ints dim,
                                          int64_t edge_order, fac_tensor_list *out) {
    (void)c;
    double step;
    FAC_TRY(number(spacing_, &step));
    return slopes(self, dim, &(spacing){.one = &step}, 0, edge_order, out);
}

fac_status gradient_array_composite(const fac_call_info *c, fac_tensor *self, fac_ints dim, int64_t edge_order,
                                    fac_tensor_list *out) {
    (void)c;
    return slopes(self, dim, &(spacing){0}, 0, edge_order, out);
}

fac_status gradient_scalarrayint_composite(const fac_call_info *c, fac_tensor *self, fac_floats spacing_,
                                           fac_opt_int dim, int64_t edge_order, fac_tensor_list *out) {
    (void)c;
    int64_t room[FAC_MAX_DIMS];
    return slopes(self, dims_of(self, &dim, room), &(spacing){.even = spacing_.v}, spacing_.n, edge_order, out);
}

fac_status gradient_scalarrayarray_composite(const fac_call_info *c, fac_tensor *self, fac_floats spacing_,
                                             fac_ints dim, int64_t edge_order, fac_tensor_list *out) {
    (void)c;
    return slopes(self, dim, &(spacing){.even = spacing_.v}, spacing_.n, edge_order, out);
}

fac_status gradient_tensorarrayint_composite(const fac_call_info *c, fac_tensor *self, fac_tensors spacing_,
                                             fac_opt_int dim, int64_t edge_order, fac_tensor_list *out) {
    (void)c;
    int64_t room[FAC_MAX_DIMS];
    return slopes(self, dims_of(self, &dim, room), &(spacing){.at = spacing_.v}, spacing_.n, edge_order, out);
}

fac_status gradient_tensorarray_composite(const fac_call_info *c, fac_tensor *self, fac_tensors spacing_, fac_ints dim,
                                          int64_t edge_order, fac_tensor_list *out) {
    (void)c;
    return slopes(self, dim, &(spacing){.at = spacing_.v}, spacing_.n, edge_order, out);
}
