/* Indexing with tensors: self[None, i, j], self[mask], and writing to such places. Masks become the positions of their
   nonzero elements; the index tensors are broadcast together and folded into one array of element offsets into self. What
   is left is a gather or scatter over the index dimensions and the dimensions that were not indexed. */
#include "backend/cpu/kernels/gather.h"
#include "backend/cpu/kernels/items.h"
#include "backend/cpu/kernels/masked.h"
#include "backend/cpu/parallel.h"
#include "core/tensor_make.h"
#include "iter/nest.h"
#include "ops_gen.h"

typedef struct indexing {
    int n;                           /* index tensors after masks were replaced */
    fac_tensor *index[FAC_MAX_DIMS]; /* owned int64 and row-major, by dimension of self; NULL: the dimension is kept */
    int indexed[FAC_MAX_DIMS];       /* which dimensions have one */
    int n_dims;                      /* dimensions of self that were spoken for */
    int64_t common[FAC_MAX_DIMS];    /* sizes of the index tensors, broadcast */
    int n_common;
    int ndim, first;             /* of the result; where the index dimensions begin in it */
    int64_t sizes[FAC_MAX_DIMS]; /* of the result */
    int64_t kept[FAC_MAX_DIMS];  /* self's strides over the result; 0 along index dimensions */
    int64_t along[FAC_MAX_DIMS]; /* strides of `offsets` over the result */
    fac_tensor *offsets;         /* owned int64 [common] */
} indexing;

static void indexing_end(indexing *x) {
    for (int d = 0; d < x->n_dims; d++) fac__unref(x->index[d]);
    fac__unref(x->offsets);
}

/* ---- what is indexed ------------------------------------------------------------------------------------------------------- */

static fac_status add_dim(indexing *x, const fac_tensor *self, fac_tensor *owned) {
    if (x->n_dims >= self->ndim) {
        fac__unref(owned);
        return FAC_FAIL(FAC_ERR_INDEX, "too many indices for tensor of dimension %d", self->ndim);
    }
    if (owned) x->indexed[x->n++] = x->n_dims;
    x->index[x->n_dims++] = owned;
    return FAC_OK;
}

/* A mask stands for one index per dimension of its own. */
static fac_status add_mask(indexing *x, const fac_tensor *self, fac_tensor *mask) {
    fac_tensor *positions;
    for (int d = 0; d < mask->ndim; d++)
        FAC_CHECK(x->n_dims + d < self->ndim && mask->sizes[d] == self->sizes[x->n_dims + d], FAC_ERR_SHAPE,
                  "The shape of the mask %s at index %d does not match the shape of the indexed tensor %s at index %d",
                  FAC_SHAPE_TEXT(mask), d, FAC_SHAPE_TEXT(self), x->n_dims + d);
    FAC_CHECK(mask->ndim > 0, FAC_ERR_UNSUPPORTED,
              "a mask without dimensions is not supported as an index; unsqueeze the tensor and the mask");
    FAC_TRY(fac__nonzero_columns(mask, &positions));
    fac_status st = FAC_OK;
    for (int d = 0; d < mask->ndim && st == FAC_OK; d++) {
        fac_tensor *column = NULL;
        st = fac__view(positions, &positions->sizes[1], &positions->strides[1], 1, d * positions->strides[0], false,
                       &column);
        if (st == FAC_OK) st = add_dim(x, self, column);
    }
    fac__unref(positions);
    return st;
}

/* Negative entries stay as they are: they are wrapped where offsets are made. */
static fac_status add_index(indexing *x, const fac_tensor *self, fac_tensor *index) {
    fac_tensor *wide;
    const int64_t *v;
    FAC_CHECK(x->n_dims < self->ndim, FAC_ERR_INDEX, "too many indices for tensor of dimension %d", self->ndim);
    FAC_CHECK(index->dtype == FAC_I64 || index->dtype == FAC_I32, FAC_ERR_DTYPE,
              "tensors used as indices must be long, int, byte or bool tensors, got %s",
              fac_dtype_name((fac_dtype)index->dtype));
    FAC_TRY(fac__index_array(index, &wide, &v));
    fac_status st = fac__check_indices(v, index->numel, x->n_dims, self->sizes[x->n_dims], true);
    if (st == FAC_OK) return add_dim(x, self, wide);
    fac__unref(wide);
    return st;
}

static fac_status collect(indexing *x, const fac_tensor *self, fac_tensors indices) {
    for (size_t i = 0; i < indices.n; i++) {
        fac_tensor *t = indices.v[i];
        if (t && t->device.type != FAC_CPU)
            return FAC_FAIL(FAC_ERR_DEVICE, "indices should be on the CPU, as the indexed tensor is");
        if (!t)
            FAC_TRY(add_dim(x, self, NULL));
        else if (t->dtype == FAC_BOOL || t->dtype == FAC_U8)
            FAC_TRY(add_mask(x, self, t));
        else
            FAC_TRY(add_index(x, self, t));
    }
    return FAC_OK;
}

/* ---- the index space ----------------------------------------------------------------------------------------------------------- */

static fac_status broadcast_indices(indexing *x) {
    int64_t wider[FAC_MAX_DIMS];
    for (int i = 0; i < x->n; i++) {
        const fac_tensor *t = x->index[x->indexed[i]];
        int n;
        FAC_TRY(fac__broadcast(x->common, x->n_common, t->sizes, t->ndim, wider, &n));
        memcpy(x->common, wider, (size_t)n * sizeof *wider);
        x->n_common = n;
    }
    return FAC_OK;
}

/* Indexed dimensions that lie next to each other are replaced where they are; otherwise the result begins with them. */
static fac_status plan_result(indexing *x, const fac_tensor *self) {
    bool together = x->n == 0 || x->indexed[x->n - 1] - x->indexed[0] == x->n - 1;
    x->first = x->n && together ? x->indexed[0] : 0;
    x->ndim = self->ndim - x->n + x->n_common;
    FAC_CHECK(x->ndim <= FAC_MAX_DIMS, FAC_ERR_SHAPE, "the result would have %d dimensions; %d are the most", x->ndim,
              FAC_MAX_DIMS);
    int64_t row[FAC_MAX_DIMS];
    fac__row_major(x->common, x->n_common, row);
    int at = 0;
    for (int d = 0; d <= self->ndim; d++) {
        if (at == x->first)
            for (int k = 0; k < x->n_common; k++, at++)
                x->sizes[at] = x->common[k], x->kept[at] = 0, x->along[at] = row[k];
        if (d == self->ndim) break;
        if (d < x->n_dims && x->index[d]) continue;
        x->sizes[at] = self->sizes[d], x->kept[at] = self->strides[d], x->along[at] = 0;
        at++;
    }
    return FAC_OK;
}

typedef struct fold_job {
    int64_t *out;
    const int64_t *v;
    int64_t size, stride;
    bool first;
} fold_job;

static fac_status fold_range(void *ctx, int64_t begin, int64_t end) {
    const fold_job *j = ctx;
    FAC_ISA_PICK(fac__fold_index)(j->out + begin, j->v + begin, end - begin, j->size, j->stride, j->first);
    return FAC_OK;
}

/* out[p] (+)= index[p] * stride over the common sizes, to which t broadcasts. */
static fac_status fold_one(const indexing *x, const fac_tensor *t, fold_job *j) {
    if (t->numel == x->offsets->numel) return fac__parallel_for(0, t->numel, FAC_GRAIN, fold_range, j);
    int64_t own[FAC_MAX_DIMS];
    const int64_t *both[1] = {own};
    fac_nest nest;
    fac_cursor c;
    fac__broadcast_strides(t, x->n_common, own);
    fac__nest_build(&nest, x->common, x->n_common, UINT64_MAX, 1, both, true);
    fac__nest_seek(&nest, 1, 0, &c);
    for (int64_t p = 0; p < nest.count; p++) {
        FAC_ISA_PICK(fac__fold_index)(j->out + p, j->v + c.offset[0], 1, j->size, j->stride, j->first);
        fac__nest_advance(&nest, 1, 1, &c);
    }
    return FAC_OK;
}

/* offsets[p] = sum over indexed dimensions of index[p] * stride, in elements of self; a tensor without any may have any strides. */
static fac_status fold_offsets(indexing *x, const fac_tensor *self) {
    FAC_TRY(fac__empty(x->common, x->n_common, FAC_I64, fac_device_make(FAC_CPU, -1), &x->offsets));
    int64_t *out = fac__data(x->offsets);
    if (x->offsets->numel && (x->n == 0 || self->numel == 0)) memset(out, 0, (size_t)x->offsets->numel * sizeof *out);
    for (int i = 0; i < x->n && self->numel; i++) {
        const int d = x->indexed[i];
        fold_job j = {out, fac__data(x->index[d]), self->sizes[d], self->strides[d], i == 0};
        FAC_TRY(fold_one(x, x->index[d], &j));
    }
    return FAC_OK;
}

static fac_status indexing_begin(indexing *x, const fac_tensor *self, fac_tensors indices) {
    memset(x, 0, offsetof(indexing, common));
    x->n_common = 0;
    x->offsets = NULL;
    fac_status st = collect(x, self, indices);
    if (st == FAC_OK) st = broadcast_indices(x);
    if (st == FAC_OK) st = plan_result(x, self);
    if (st == FAC_OK) st = fold_offsets(x, self);
    if (st != FAC_OK) indexing_end(x);
    return st;
}

/* ---- reading and writing ------------------------------------------------------------------------------------------------------------ */

/* One mask, of the shape of self. */
static bool is_whole_mask(const fac_tensor *self, fac_tensors indices) {
    const fac_tensor *mask = indices.n == 1 ? indices.v[0] : NULL;
    return mask && mask->device.type == FAC_CPU && (mask->dtype == FAC_BOOL || mask->dtype == FAC_U8) && self->ndim &&
           mask->ndim == self->ndim && !memcmp(mask->sizes, self->sizes, self->ndim * sizeof *self->sizes);
}

fac_status index_cpu(const fac_call_info *c, fac_tensor *self, fac_tensors indices, fac_tensor **out) {
    (void)c;
    indexing x;
    if (is_whole_mask(self, indices)) return fac__take_true(self, indices.v[0], out);
    FAC_TRY(indexing_begin(&x, self, indices));
    fac_status st = fac__empty(x.sizes, x.ndim, (fac_dtype)self->dtype, self->device, out);
    if (st == FAC_OK && (*out)->numel) {
        fac_gather_plan g = {.ndim = x.ndim,
                             .sizes = x.sizes,
                             .item = fac__dtype_size((fac_dtype)self->dtype),
                             .out = fac__data(*out),
                             .out_strides = (*out)->strides,
                             .index = fac__data(x.offsets),
                             .index_strides = x.along,
                             .src = fac__data(self),
                             .src_strides = x.kept,
                             .step = 1};
        st = fac__gather_run(&g);
        if (st != FAC_OK) fac__unref(*out), *out = NULL;
    }
    indexing_end(&x);
    return st;
}

/* Shapes without data: masks cannot be counted, other indices only broadcast. */
fac_status index_meta(const fac_call_info *c, fac_tensor *self, fac_tensors indices, fac_tensor **out) {
    (void)c;
    indexing x;
    fac_status st = FAC_OK;
    memset(&x, 0, sizeof x);
    for (size_t i = 0; i < indices.n && st == FAC_OK; i++) {
        fac_tensor *t = indices.v[i];
        if (t && (t->dtype == FAC_BOOL || t->dtype == FAC_U8))
            st = FAC_FAIL(FAC_ERR_STATE,
                          "the sizes of a result indexed by a mask depend on data, which meta tensors do not have");
        else
            st = add_dim(&x, self, fac__ref(t));
    }
    if (st == FAC_OK) st = broadcast_indices(&x);
    if (st == FAC_OK) st = plan_result(&x, self);
    if (st == FAC_OK) st = fac__empty(x.sizes, x.ndim, (fac_dtype)self->dtype, self->device, out);
    indexing_end(&x);
    return st;
}

static bool expands_to(const fac_tensor *values, const indexing *x) {
    int lead = x->ndim - values->ndim;
    bool fits = lead >= 0;
    for (int d = 0; d < values->ndim && fits; d++)
        fits = values->sizes[d] == 1 || values->sizes[d] == x->sizes[lead + d];
    return fits;
}

static fac_status write_values(const indexing *x, fac_tensor *out, const fac_tensor *values, bool accumulate) {
    int64_t from[FAC_MAX_DIMS];
    FAC_CHECK(expands_to(values, x), FAC_ERR_SHAPE,
              "shape mismatch: value tensor of shape %s cannot be broadcast to indexing result of shape %s",
              FAC_SHAPE_TEXT(values), fac__shape_text(x->sizes, x->ndim, (char[256]){0}, 256));
    if (x->offsets->numel == 0 || values->numel == 0) return FAC_OK;
    fac__broadcast_strides(values, x->ndim, from);
    uint64_t meeting = 0;
    for (int k = 0; k < x->n_common; k++) meeting |= (uint64_t)1 << (x->first + k);
    fac_scatter_plan j = {.ndim = x->ndim,
                          .sizes = x->sizes,
                          .conflicts = meeting,
                          .dtype = (fac_dtype)out->dtype,
                          .op = accumulate ? FAC_SCATTER_ADD : FAC_SCATTER_SET,
                          .dst = fac__data(out),
                          .dst_strides = x->kept,
                          .index = fac__data(x->offsets),
                          .index_strides = x->along,
                          .src = fac__data(values),
                          .src_strides = from,
                          .step = 1};
    return fac__scatter_run(&j);
}

fac_status index_put_cpu(fac_structured *s, fac_tensor *self, fac_tensors indices, fac_tensor *values,
                         bool accumulate) {
    fac_tensor *out = s->out[0];
    indexing x;
    FAC_TRY(indexing_begin(&x, out, indices));
    fac_status st = out == self ? FAC_OK : fac__cpu_copy(out, self);
    if (st == FAC_OK) st = write_values(&x, out, values, accumulate);
    indexing_end(&x);
    return st;
}
