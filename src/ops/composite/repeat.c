/* Copies of a tensor side by side, and reordered copies: composed of views and one copy. */
#include "core/tensor_make.h"
#include "ops/composite/below.h"
#include "ops/composite/view.h"
#include "ops_gen.h"

/* ---- repeat ----------------------------------------------------------------------------------------------------------- */

/* The three shapes of repeat: a repeated dimension gets a new one before it, which is expanded; one of size 1 is expanded
   itself. A copy of the expanded view then has the elements in the order of the result. */
typedef struct repeat_plan {
    size_t n;     /* dimensions of the view */
    size_t n_out; /* of the result */
    int64_t view[2 * FAC_MAX_DIMS], expanded[2 * FAC_MAX_DIMS], out[FAC_MAX_DIMS];
} repeat_plan;

static fac_status plan_repeat(const fac_tensor *self, fac_ints repeats, repeat_plan *p) {
    FAC_CHECK(
        repeats.n >= self->ndim, FAC_ERR_SHAPE,
        "Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor; got %zu and %d",
        repeats.n, self->ndim);
    FAC_CHECK(repeats.n <= FAC_MAX_DIMS, FAC_ERR_SHAPE, "a tensor may have at most %d dimensions, got %zu",
              FAC_MAX_DIMS, repeats.n);
    size_t lead = repeats.n - self->ndim;
    p->n = 0;
    p->n_out = repeats.n;
    for (size_t i = 0; i < repeats.n; i++) {
        int64_t r = repeats.v[i], size = i < lead ? 1 : self->sizes[i - lead];
        FAC_CHECK(r >= 0, FAC_ERR_SHAPE, "Trying to create tensor with negative dimension: repeats[%zu] is %lld", i,
                  (long long)r);
        FAC_CHECK(fac__mul(r, size, &p->out[i]), FAC_ERR_OVERFLOW, "size %lld repeated %lld times does not fit 64 bits",
                  (long long)size, (long long)r);
        if (r != 1 && size != 1) p->view[p->n] = 1, p->expanded[p->n++] = r;
        p->view[p->n] = size;
        p->expanded[p->n++] = size == 1 ? r : size;
    }
    FAC_CHECK(p->n <= FAC_MAX_DIMS, FAC_ERR_SHAPE,
              "too many dimensions are repeated: %zu places are needed, %d are there", p->n, FAC_MAX_DIMS);
    return FAC_OK;
}

fac_status repeat_composite(const fac_call_info *c, fac_tensor *self, fac_ints repeats, fac_tensor **out) {
    (void)c;
    repeat_plan p;
    FAC_TRY(plan_repeat(self, repeats, &p));
    FAC_SCOPE(s);
    fac_tensor *wide = fac__s_expand(fac__s_view(self, (fac_ints){p.view, p.n}), (fac_ints){p.expanded, p.n}, false);
    fac_tensor *copy = fac__s_clone(wide, FAC_CONTIGUOUS);
    return fac__give(out, p.n == p.n_out ? copy : fac__s__unsafe_view(copy, (fac_ints){p.out, p.n_out}));
}

fac_status tile_composite(const fac_call_info *c, fac_tensor *self, fac_ints dims, fac_tensor **out) {
    (void)c;
    if (dims.n >= self->ndim) return fac__c_repeat(self, dims, out);
    int64_t repeats[FAC_MAX_DIMS];
    size_t lead = self->ndim - dims.n;
    for (size_t i = 0; i < self->ndim; i++) repeats[i] = i < lead ? 1 : dims.v[i - lead];
    return fac__c_repeat(self, (fac_ints){repeats, self->ndim}, out);
}

fac_status repeat_interleave_tensor_composite(const fac_call_info *c, fac_tensor *self, fac_tensor *repeats,
                                              fac_opt_int dim, fac_opt_int output_size, fac_tensor **out) {
    (void)c;
    FAC_SCOPE(s);
    fac_tensor *x = dim.set ? self : fac__s_flatten_using_ints(self, 0, -1);
    if (!x) return fac_error();
    int64_t d;
    FAC_TRY(fac__wrap_dim(dim.set ? dim.v : 0, x->ndim, &d));
    int64_t size = x->ndim ? x->sizes[d] : 1;
    FAC_CHECK(
        repeats->ndim == 0 || (repeats->ndim == 1 && (repeats->sizes[0] == 1 || repeats->sizes[0] == size)),
        FAC_ERR_SHAPE,
        "repeats must have the same size as input along dim, but got repeats.size(0) = %lld and input.size(%lld) = %lld",
        (long long)repeats->numel, (long long)d, (long long)size);
    fac_tensor *times =
        repeats->numel == 1 ? fac__s_expand(fac__s_reshape(repeats, FAC_INTS(1)), FAC_INTS(size), false) : repeats;
    return fac__give(out, fac__s_index_select(x, d, fac__s_repeat_interleave_Tensor(times, output_size)));
}

fac_status repeat_interleave_int_composite(const fac_call_info *c, fac_tensor *self, int64_t repeats, fac_opt_int dim,
                                           fac_opt_int output_size, fac_tensor **out) {
    (void)c;
    FAC_CHECK(repeats >= 0, FAC_ERR_ARGUMENT, "Repeats must be non-negative, got %lld", (long long)repeats);
    FAC_SCOPE(s);
    fac_tensor *x = dim.set ? self : fac__s_flatten_using_ints(self, 0, -1);
    if (!x) return fac_error();
    if (x->ndim == 0) x = fac__s_reshape(x, FAC_INTS(1));
    int64_t d, sizes[FAC_MAX_DIMS + 1];
    FAC_TRY(fac__wrap_dim(dim.set ? dim.v : 0, x->ndim, &d));
    for (int64_t i = 0; i <= x->ndim; i++) sizes[i] = i <= d ? x->sizes[i] : i == d + 1 ? repeats : x->sizes[i - 1];
    fac_tensor *wide = fac__s_expand(fac__s_unsqueeze(x, d + 1), (fac_ints){sizes, (size_t)x->ndim + 1}, false);
    fac_tensor *result = fac__s_flatten_using_ints(fac__s_clone(wide, FAC_CONTIGUOUS), d, d + 1);
    if (!result) return fac_error();
    FAC_CHECK(!output_size.set || output_size.v == result->sizes[d], FAC_ERR_ARGUMENT,
              "output_size is %lld, but the result has %lld elements along the dimension", (long long)output_size.v,
              (long long)result->sizes[d]);
    return fac__give(out, result);
}

/* ---- reversed and turned --------------------------------------------------------------------------------------------------- */

fac_status fliplr_composite(const fac_call_info *c, fac_tensor *self, fac_tensor **out) {
    (void)c;
    FAC_CHECK(self->ndim >= 2, FAC_ERR_SHAPE, "Input must be >= 2-d.");
    return fac__c_flip(self, FAC_INTS(1), out);
}

fac_status flipud_composite(const fac_call_info *c, fac_tensor *self, fac_tensor **out) {
    (void)c;
    FAC_CHECK(self->ndim >= 1, FAC_ERR_SHAPE, "Input must be >= 1-d.");
    return fac__c_flip(self, FAC_INTS(0), out);
}

fac_status rot90_composite(const fac_call_info *c, fac_tensor *self, int64_t k, fac_ints dims, fac_tensor **out) {
    (void)c;
    FAC_CHECK(dims.n == 2, FAC_ERR_ARGUMENT, "expected total rotation dims == 2, but got dims = %zu", dims.n);
    FAC_CHECK(self->ndim >= 2, FAC_ERR_SHAPE, "expected total dims >= 2, but got total dims = %d", self->ndim);
    int64_t a, b;
    FAC_TRY(fac__wrap_dim(dims.v[0], self->ndim, &a));
    FAC_TRY(fac__wrap_dim(dims.v[1], self->ndim, &b));
    FAC_CHECK(a != b, FAC_ERR_ARGUMENT, "expected rotation dims to be different, but got dim0 = %lld and dim1 = %lld",
              (long long)a, (long long)b);
    FAC_SCOPE(s);
    switch (((k % 4) + 4) % 4) {
    case 1: return fac__give(out, fac__s_transpose_int(fac__s_flip(self, FAC_INTS(b)), a, b));
    case 2: return fac__give(out, fac__s_flip(self, FAC_INTS(a, b)));
    case 3: return fac__give(out, fac__s_transpose_int(fac__s_flip(self, FAC_INTS(a)), a, b));
    default: return fac__give(out, fac__s_clone(self, FAC_CONTIGUOUS));
    }
}

/* ---- roll ----------------------------------------------------------------------------------------------------------------------- */

/* dst[dim: to, length] = src[dim: from, length]. */
static fac_status copy_stretch(fac_tensor *dst, int64_t to, fac_tensor *src, int64_t from, int64_t length,
                               int64_t dim) {
    fac_tensor *a = NULL, *b = NULL;
    if (length == 0) return FAC_OK;
    fac_status st = fac__narrow_view(dst, dim, to, length, &a);
    if (st == FAC_OK) st = fac__narrow_view(src, dim, from, length, &b);
    if (st == FAC_OK) st = fac__copy_below(a, b);
    fac__unref(a);
    fac__unref(b);
    return st;
}

static fac_status roll_one(fac_tensor *self, int64_t shift, int64_t dim, fac_tensor **out) {
    int64_t size = self->sizes[dim], by = size ? shift % size : 0;
    if (by < 0) by += size;
    fac_tensor *t;
    FAC_TRY(fac__empty_like(self, &t));
    fac_status st = copy_stretch(t, by, self, 0, size - by, dim);
    if (st == FAC_OK) st = copy_stretch(t, 0, self, size - by, by, dim);
    if (st != FAC_OK)
        fac__unref(t);
    else
        *out = t;
    return st;
}

static fac_status roll_flat(fac_tensor *self, int64_t shift, fac_tensor **out) {
    fac_tensor *row = NULL, *flat = NULL, *rolled = NULL;
    int64_t one = 1;
    FAC_TRY(fac__empty(self->sizes, self->ndim, (fac_dtype)self->dtype, self->device, &row));
    fac_status st = fac__copy_below(row, self);
    if (st == FAC_OK) st = fac__view(row, &self->numel, &one, 1, 0, false, &flat);
    if (st == FAC_OK) st = roll_one(flat, shift, 0, &rolled);
    if (st == FAC_OK) st = fac__view(rolled, row->sizes, row->strides, row->ndim, 0, false, out);
    fac__unref(rolled);
    fac__unref(flat);
    fac__unref(row);
    return st;
}

fac_status roll_explicit(const fac_call_info *c, fac_tensor *self, fac_ints shifts, fac_ints dims, fac_tensor **out) {
    (void)c;
    FAC_CHECK(shifts.n > 0, FAC_ERR_ARGUMENT, "`shifts` required");
    FAC_CHECK(dims.n == 0 ? shifts.n == 1 : shifts.n == dims.n, FAC_ERR_ARGUMENT,
              "shifts and dimensions must align. shifts: %zu, dims:%zu", shifts.n, dims.n);
    if (dims.n == 0) return roll_flat(self, shifts.v[0], out);
    FAC_CHECK(self->ndim > 0, FAC_ERR_INDEX, "dimension specified as %lld but tensor has no dimensions",
              (long long)dims.v[0]);
    fac_tensor *now = fac__ref(self);
    for (size_t i = 0; i < dims.n; i++) {
        int64_t d;
        fac_tensor *next = NULL;
        fac_status st = fac__wrap_dim(dims.v[i], self->ndim, &d);
        if (st == FAC_OK) st = roll_one(now, shifts.v[i], d, &next);
        fac__unref(now);
        if (st != FAC_OK) return st;
        now = next;
    }
    *out = now;
    return FAC_OK;
}
