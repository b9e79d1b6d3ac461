/* Indexing along one dimension. Indices are checked before anything is written; then everything is a gather or a scatter
   of gather.h with the strides of the dimension indexed set to zero. */
#include "backend/cpu/kernels/gather.h"
#include "backend/cpu/kernels/items.h"
#include "backend/cpu/kernels/tile.h"
#include "core/tensor_make.h"
#include "ops/composite/below.h"
#include "ops_gen.h"

static const int64_t no_strides[FAC_MAX_DIMS];

/* An output that is another tensor than self starts as a copy of it. */
static fac_status start_from(const fac_structured *s, fac_tensor *self) {
    fac_tensor *out = s->out[0];
    if (out == self || (out->storage == self->storage && fac__data(out) == fac__data(self))) return FAC_OK;
    return fac__cpu_copy(out, self);
}

/* Checked indices of a dimension of `size`. */
static fac_status load_indices(fac_tensor *index, int64_t dim, int64_t size, fac_tensor **owned, const int64_t **v) {
    FAC_TRY(fac__index_array(index, owned, v));
    fac_status st = fac__check_indices(*v, index->numel, dim, size, false);
    if (st != FAC_OK) fac__unref(*owned);
    return st;
}

/* ---- whole slices --------------------------------------------------------------------------------------------------------- */

/* out[.., i, ..] = src[.., index[i], ..]: the index steps along dimension d of out only. */
static fac_status select_slices(const fac_tensor *out, const fac_tensor *src, int64_t d, const int64_t *index) {
    if (d == 0 && src->ndim && fac__is_contiguous(src) && fac__is_contiguous(out) && src->sizes[0])
        return fac__gather_rows(fac__data(out), fac__data(src), index, out->sizes[0],
                                src->numel / src->sizes[0] * fac__item_size(src));
    fac_walk o, w;
    int64_t along[FAC_MAX_DIMS] = {0}, rest[FAC_MAX_DIMS];
    fac__walk_of(out, &o);
    fac__walk_of(src, &w);
    memcpy(rest, w.strides, sizeof rest);
    int64_t step = rest[d];
    along[d] = 1;
    rest[d] = 0;
    fac_gather_plan g = {.ndim = o.ndim,
                         .sizes = o.sizes,
                         .item = fac__dtype_size((fac_dtype)src->dtype),
                         .out = o.data,
                         .out_strides = o.strides,
                         .index = index,
                         .index_strides = along,
                         .src = w.data,
                         .src_strides = rest,
                         .step = step};
    return fac__gather_run(&g);
}

fac_status index_select_cpu(fac_structured *s, fac_tensor *self, int64_t dim, fac_tensor *index) {
    (void)dim;
    fac_tensor *owned;
    const int64_t *v;
    int64_t d = s->carry[0];
    FAC_TRY(load_indices(index, d, self->ndim ? self->sizes[d] : 1, &owned, &v));
    fac_status st = s->out[0]->numel ? select_slices(s->out[0], self, d, v) : FAC_OK;
    fac__unref(owned);
    return st;
}

fac_status embedding_cpu(fac_structured *s, fac_tensor *weight, fac_tensor *indices, int64_t padding_idx,
                         bool scale_grad_by_freq, bool sparse) {
    (void)padding_idx, (void)scale_grad_by_freq, (void)sparse;
    fac_tensor *owned, *flat = NULL;
    const int64_t *v;
    FAC_TRY(load_indices(indices, 0, weight->sizes[0], &owned, &v));
    int64_t sizes[2] = {indices->numel, weight->sizes[1]}, strides[2] = {weight->sizes[1], 1};
    fac_status st = fac__view(s->out[0], sizes, strides, 2, 0, false, &flat);
    if (st == FAC_OK && flat->numel) st = select_slices(flat, weight, 0, v);
    fac__unref(flat);
    fac__unref(owned);
    return st;
}

/* out[.., index[i], ..] = op(.., src[.., i, ..]) over the index space `sizes`. */
static fac_status scatter_slices(const fac_tensor *out, int64_t d, const int64_t *sizes, const int64_t *index,
                                 const char *src, const int64_t *src_strides, fac_scatter_op op) {
    fac_walk o;
    int64_t along[FAC_MAX_DIMS] = {0};
    fac__walk_of(out, &o);
    int64_t step = o.strides[d];
    along[d] = 1;
    o.strides[d] = 0;
    fac_scatter_plan j = {.ndim = o.ndim,
                          .sizes = sizes,
                          .conflicts = (uint64_t)1 << d,
                          .dtype = (fac_dtype)out->dtype,
                          .op = op,
                          .dst = o.data,
                          .dst_strides = o.strides,
                          .index = index,
                          .index_strides = along,
                          .src = src,
                          .src_strides = src_strides,
                          .step = step};
    return fac__scatter_run(&j);
}

static fac_status scatter_source(fac_structured *s, fac_tensor *self, fac_tensor *index, fac_tensor *source,
                                 fac_scatter_op op) {
    fac_tensor *owned;
    const int64_t *v;
    fac_walk w;
    int64_t d = s->carry[0];
    FAC_TRY(load_indices(index, d, self->ndim ? self->sizes[d] : 1, &owned, &v));
    fac_status st = start_from(s, self);
    fac__walk_of(source, &w);
    if (st == FAC_OK && source->numel) st = scatter_slices(s->out[0], d, w.sizes, v, w.data, w.strides, op);
    fac__unref(owned);
    return st;
}

fac_status index_copy_cpu(fac_structured *s, fac_tensor *self, int64_t dim, fac_tensor *index, fac_tensor *source) {
    (void)dim;
    return scatter_source(s, self, index, source, FAC_SCATTER_SET);
}

/* alpha * source as an owned tensor. */
static fac_status scaled(fac_tensor *source, fac_scalar alpha, fac_tensor **out) {
    fac_tensor *same = NULL;
    FAC_TRY(fac__clone_below(source, out));
    fac_status st = fac__redispatch_mul__Scalar(fac__dense_keys(*out), *out, alpha, &same);
    fac__unref(st == FAC_OK ? same : *out);
    return st;
}

fac_status index_add_cpu(fac_structured *s, fac_tensor *self, int64_t dim, fac_tensor *index, fac_tensor *source,
                         fac_scalar alpha) {
    (void)dim;
    if (fac__scalar_is(alpha, 1)) return scatter_source(s, self, index, source, FAC_SCATTER_ADD);
    fac_tensor *product;
    FAC_TRY(scaled(source, alpha, &product));
    fac_status st = scatter_source(s, self, index, product, FAC_SCATTER_ADD);
    fac__unref(product);
    return st;
}

/* Indices of index_fill count from the end if negative, so they are wrapped in a copy. */
static fac_status wrapped_indices(fac_tensor *index, int64_t dim, int64_t size, fac_tensor **owned) {
    FAC_TRY(fac__empty(index->sizes, index->ndim, FAC_I64, index->device, owned));
    fac_status st = fac__cpu_copy(*owned, index);
    if (st == FAC_OK) st = fac__wrap_indices(fac__data(*owned), index->numel, dim, size);
    if (st != FAC_OK) fac__unref(*owned);
    return st;
}

fac_status index_fill_scalar_cpu(fac_structured *s, fac_tensor *self, int64_t dim, fac_tensor *index,
                                 fac_scalar value) {
    (void)dim;
    fac_tensor *owned;
    fac_walk w;
    fac_item16 element = {{0, 0}};
    int64_t d = s->carry[0];
    FAC_TRY(wrapped_indices(index, d, self->ndim ? self->sizes[d] : 1, &owned));
    fac__store(&element, (fac_dtype)self->dtype, value);
    fac_status st = start_from(s, self);
    fac__walk_of(self, &w);
    w.sizes[d] = index->numel;
    if (st == FAC_OK && self->numel)
        st = scatter_slices(s->out[0], d, w.sizes, fac__data(owned), (const char *)&element, no_strides,
                            FAC_SCATTER_SET);
    fac__unref(owned);
    return st;
}

fac_status index_fill_tensor_cpu(fac_structured *s, fac_tensor *self, int64_t dim, fac_tensor *index,
                                 fac_tensor *value) {
    double re_im[2];
    return index_fill_scalar_cpu(s, self, dim, index, fac__load(fac__data(value), (fac_dtype)value->dtype, re_im));
}

/* ---- single elements ------------------------------------------------------------------------------------------------------------ */

fac_status gather_cpu(fac_structured *s, fac_tensor *self, int64_t dim, fac_tensor *index, bool sparse_grad) {
    (void)dim, (void)sparse_grad;
    fac_tensor *owned;
    fac_walk o, w, i;
    int64_t d = s->carry[0];
    if (index->numel == 0) return FAC_OK;
    FAC_TRY(fac__index_elements(index, d, self->ndim ? self->sizes[d] : 1, &owned));
    fac__walk_of(s->out[0], &o);
    fac__walk_of(self, &w);
    fac__walk_of(owned, &i);
    int64_t step = w.strides[d];
    w.strides[d] = 0;
    fac_gather_plan g = {.ndim = i.ndim,
                         .sizes = i.sizes,
                         .item = fac__dtype_size((fac_dtype)self->dtype),
                         .out = o.data,
                         .out_strides = o.strides,
                         .index = (const int64_t *)(const void *)i.data,
                         .index_strides = i.strides,
                         .src = w.data,
                         .src_strides = w.strides,
                         .step = step};
    fac_status st = fac__gather_run(&g);
    fac__unref(owned);
    return st;
}

/* Scatters over checked indices into `out`, which need not be self. */
static fac_status scatter_elements(fac_tensor *out, int64_t d, fac_tensor *index, const char *src,
                                   const int64_t *src_strides, fac_scatter_op op) {
    fac_walk o, i;
    fac__walk_of(out, &o);
    fac__walk_of(index, &i);
    int64_t step = o.strides[d];
    o.strides[d] = 0;
    fac_scatter_plan j = {.ndim = i.ndim,
                          .sizes = i.sizes,
                          .conflicts = (uint64_t)1 << d,
                          .dtype = (fac_dtype)out->dtype,
                          .op = op,
                          .dst = o.data,
                          .dst_strides = o.strides,
                          .index = (const int64_t *)(const void *)i.data,
                          .index_strides = i.strides,
                          .src = src,
                          .src_strides = src_strides,
                          .step = step};
    return fac__scatter_run(&j);
}

static fac_status scatter(fac_structured *s, fac_tensor *self, fac_tensor *index, const char *src,
                          const int64_t *src_strides, fac_scatter_op op) {
    fac_tensor *owned;
    int64_t d = s->carry[0];
    if (index->numel == 0) return start_from(s, self);
    FAC_TRY(fac__index_elements(index, d, self->ndim ? self->sizes[d] : 1, &owned));
    fac_status st = start_from(s, self);
    if (st == FAC_OK) st = scatter_elements(s->out[0], d, owned, src, src_strides, op);
    fac__unref(owned);
    return st;
}

static fac_status scatter_tensor(fac_structured *s, fac_tensor *self, fac_tensor *index, fac_tensor *src,
                                 fac_scatter_op op) {
    fac_walk w;
    fac__walk_of(src, &w);
    return scatter(s, self, index, w.data, w.strides, op);
}

static fac_status scatter_number(fac_structured *s, fac_tensor *self, fac_tensor *index, fac_scalar value,
                                 fac_scatter_op op) {
    fac_item16 element = {{0, 0}};
    fac__store(&element, (fac_dtype)self->dtype, value);
    return scatter(s, self, index, (const char *)&element, no_strides, op);
}

fac_status scatter_src_cpu(fac_structured *s, fac_tensor *self, int64_t dim, fac_tensor *index, fac_tensor *src) {
    (void)dim;
    return scatter_tensor(s, self, index, src, FAC_SCATTER_SET);
}

fac_status scatter_add_cpu(fac_structured *s, fac_tensor *self, int64_t dim, fac_tensor *index, fac_tensor *src) {
    (void)dim;
    return scatter_tensor(s, self, index, src, FAC_SCATTER_ADD);
}

fac_status scatter_value_cpu(fac_structured *s, fac_tensor *self, int64_t dim, fac_tensor *index, fac_scalar value) {
    (void)dim;
    return scatter_number(s, self, index, value, FAC_SCATTER_SET);
}

static fac_scatter_op old_reduce(const char *reduce) { return reduce[0] == 'a' ? FAC_SCATTER_ADD : FAC_SCATTER_MUL; }

fac_status scatter_reduce_src_cpu(fac_structured *s, fac_tensor *self, int64_t dim, fac_tensor *index, fac_tensor *src,
                                  const char *reduce) {
    (void)dim;
    return scatter_tensor(s, self, index, src, old_reduce(reduce));
}

fac_status scatter_value_reduce_cpu(fac_structured *s, fac_tensor *self, int64_t dim, fac_tensor *index,
                                    fac_scalar value, const char *reduce) {
    (void)dim;
    return scatter_number(s, self, index, value, old_reduce(reduce));
}

/* ---- scatter_reduce ---------------------------------------------------------------------------------------------------------------- */

static fac_scatter_op reduce_op(const char *reduce) {
    if (strcmp(reduce, "prod") == 0) return FAC_SCATTER_MUL;
    if (strcmp(reduce, "amax") == 0) return FAC_SCATTER_MAX;
    return strcmp(reduce, "amin") == 0 ? FAC_SCATTER_MIN : FAC_SCATTER_ADD;
}

/* The element that an operation leaves other elements unchanged by. */
static void neutral(fac_scatter_op op, fac_dtype d, fac_item16 *out) {
    static const int bits[FAC_DTYPE_COUNT] = {
        [FAC_U8] = 8, [FAC_I8] = 7, [FAC_I16] = 15, [FAC_I32] = 31, [FAC_I64] = 63};
    bool real = fac_dtype_is_floating(d);
    int64_t most = bits[d] == 63 ? INT64_MAX : ((int64_t)1 << bits[d]) - 1,
            least = d == FAC_U8 || d == FAC_BOOL ? 0 : -most - 1;
    fac_scalar v = fac_scalar_i_(op == FAC_SCATTER_MUL);
    if (op == FAC_SCATTER_MAX) v = real ? fac_scalar_f_(-__builtin_inf()) : fac_scalar_i_(least);
    if (op == FAC_SCATTER_MIN)
        v = real ? fac_scalar_f_(__builtin_inf()) : d == FAC_BOOL ? fac_scalar_b_(true) : fac_scalar_i_(most);
    fac__store(out, d, v);
}

static void divide_tile(fac_acc kind, fac_tile_buf *sums, const fac_tile_buf *counts, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        int64_t by = counts->i64[i] > 1 ? counts->i64[i] : 1;
        if (kind == FAC_ACC_F32)
            sums->f32[i] /= (float)by;
        else if (kind == FAC_ACC_F64)
            sums->f64[i] /= (double)by;
        else if (kind == FAC_ACC_C128)
            sums->c128[2 * i] /= (double)by, sums->c128[2 * i + 1] /= (double)by;
        else
            sums->i64[i] = sums->i64[i] / by - (sums->i64[i] % by < 0); /* rounds down */
    }
}

/* out /= counts, element by element; both row-major. */
static void divide_by_counts(fac_tensor *out, fac_tensor *counts) {
    fac_dtype d = (fac_dtype)out->dtype;
    fac_acc kind = fac__acc_of(d);
    fac_tile_buf sums, by;
    for (int64_t i = 0; i < out->numel; i += FAC_TILE) {
        int64_t n = fac__min(FAC_TILE, out->numel - i);
        char *at = (char *)fac__data(out) + (size_t)i * fac__dtype_size(d);
        fac__tile_load(kind, &sums, at, d, 1, n);
        fac__tile_load(FAC_ACC_I64, &by, (const int64_t *)fac__data(counts) + i, FAC_I64, 1, n);
        divide_tile(kind, &sums, &by, n);
        fac__tile_store(kind, &sums, at, d, 1, n);
    }
}

/* How many numbers each element of out is the sum of, as int64. */
static fac_status count_sources(fac_tensor *out, int64_t d, fac_tensor *index, bool include_self, fac_tensor **counts) {
    const int64_t one = 1;
    FAC_TRY(fac__empty(out->sizes, out->ndim, FAC_I64, out->device, counts));
    fac_status st = fac__fill_below(*counts, fac_scalar_i_(include_self));
    if (st == FAC_OK) st = scatter_elements(*counts, d, index, (const char *)&one, no_strides, FAC_SCATTER_ADD);
    if (st != FAC_OK) fac__unref(*counts);
    return st;
}

static fac_status finish_mean(fac_tensor *out, int64_t d, fac_tensor *index, bool include_self) {
    fac_tensor *counts;
    fac_rowmajor r;
    FAC_TRY(count_sources(out, d, index, include_self, &counts));
    fac_status st = fac__rowmajor_begin(out, true, &r);
    if (st == FAC_OK) {
        divide_by_counts(r.t, counts);
        st = fac__rowmajor_end(&r, FAC_OK);
    }
    fac__unref(counts);
    return st;
}

fac_status scatter_reduce_two_cpu(fac_structured *s, fac_tensor *self, int64_t dim, fac_tensor *index, fac_tensor *src,
                                  const char *reduce, bool include_self) {
    (void)dim;
    fac_tensor *owned;
    const int64_t *v;
    fac_walk w;
    fac_item16 start = {{0, 0}};
    int64_t d = s->carry[0];
    fac_scatter_op op = reduce_op(reduce);
    bool mean = strcmp(reduce, "mean") == 0;
    if (index->numel == 0) return start_from(s, self);
    if (mean) FAC_TRY(fac_out_aside(s, 0)); /* the division comes after the sums, and needs memory */
    FAC_CHECK(op < FAC_SCATTER_MAX || !fac_dtype_is_complex((fac_dtype)self->dtype), FAC_ERR_DTYPE,
              "%s has no order, so there is no %s", fac_dtype_name((fac_dtype)self->dtype), reduce);
    FAC_TRY(load_indices(index, d, self->ndim ? self->sizes[d] : 1, &owned, &v));
    fac__walk_of(src, &w);
    neutral(op, (fac_dtype)self->dtype, &start);
    fac_status st = start_from(s, self);
    if (st == FAC_OK && !include_self)
        st = scatter_elements(s->out[0], d, owned, (const char *)&start, no_strides, FAC_SCATTER_SET);
    if (st == FAC_OK) st = scatter_elements(s->out[0], d, owned, w.data, w.strides, op);
    if (st == FAC_OK && mean) st = finish_mean(s->out[0], d, owned, include_self);
    fac__unref(owned);
    return st;
}

/* ---- index_reduce ------------------------------------------------------------------------------------------------------------------- */

/* Slices that index names: set to a number (src_strides zero), or reduced into. */
static fac_status reduce_slices(fac_tensor *out, int64_t d, const fac_walk *source, const int64_t *index,
                                const fac_item16 *start, fac_scatter_op op) {
    if (start) FAC_TRY(scatter_slices(out, d, source->sizes, index, (const char *)start, no_strides, FAC_SCATTER_SET));
    return scatter_slices(out, d, source->sizes, index, source->data, source->strides, op);
}

/* Divides by the number of slices that each was summed from. Like the index, the counts run along d alone. */
static fac_status divide_slices(fac_tensor *out, int64_t d, const int64_t *index, int64_t n, bool include_self) {
    fac_tensor *counts, *wide = NULL;
    fac_rowmajor r;
    const int64_t size = out->ndim ? out->sizes[d] : 1;
    int64_t along[FAC_MAX_DIMS] = {0};
    FAC_TRY(fac__empty(&size, 1, FAC_I64, out->device, &counts));
    int64_t *count = fac__data(counts);
    for (int64_t i = 0; i < size; i++) count[i] = include_self;
    for (int64_t i = 0; i < n; i++) count[index[i]]++;
    along[d] = 1;
    fac_tensor *spread = NULL;
    fac_status st = fac__view(counts, out->sizes, along, out->ndim, 0, false, &spread);
    if (st == FAC_OK) st = fac__cpu_contiguous(spread, &wide);
    if (st == FAC_OK) st = fac__rowmajor_begin(out, true, &r);
    if (st == FAC_OK) {
        divide_by_counts(r.t, wide);
        st = fac__rowmajor_end(&r, FAC_OK);
    }
    fac__unref(wide);
    fac__unref(spread);
    fac__unref(counts);
    return st;
}

fac_status index_reduce_cpu(fac_structured *s, fac_tensor *self, int64_t dim, fac_tensor *index, fac_tensor *source,
                            const char *reduce, bool include_self) {
    (void)dim;
    fac_tensor *owned;
    const int64_t *v;
    fac_walk w;
    fac_item16 start = {{0, 0}};
    const int64_t d = s->carry[0];
    const fac_scatter_op op = reduce_op(reduce);
    const bool mean = strcmp(reduce, "mean") == 0;
    FAC_CHECK(op < FAC_SCATTER_MAX || !fac_dtype_is_complex((fac_dtype)self->dtype), FAC_ERR_DTYPE,
              "%s has no order, so there is no %s", fac_dtype_name((fac_dtype)self->dtype), reduce);
    if (mean) FAC_TRY(fac_out_aside(s, 0)); /* the division comes after the sums, and needs memory */
    FAC_TRY(load_indices(index, d, self->ndim ? self->sizes[d] : 1, &owned, &v));
    fac__walk_of(source, &w);
    neutral(op, (fac_dtype)self->dtype, &start);
    fac_status st = start_from(s, self);
    if (st == FAC_OK && source->numel) st = reduce_slices(s->out[0], d, &w, v, include_self ? NULL : &start, op);
    if (st == FAC_OK && mean && source->numel) st = divide_slices(s->out[0], d, v, index->numel, include_self);
    fac__unref(owned);
    return st;
}

/* ---- row-major positions ---------------------------------------------------------------------------------------------------------------- */

fac_status take_cpu(fac_structured *s, fac_tensor *self, fac_tensor *index) {
    fac_tensor *owned, *rows = NULL;
    fac_walk o, i;
    if (index->numel == 0) return FAC_OK;
    if (index->dtype == FAC_I64 && fac__is_contiguous(index) && index->storage != s->out[0]->storage &&
        fac__indices_plain(fac__data(index), index->numel, self->numel))
        owned = fac__ref(index); /* none counts from the end */
    else
        FAC_TRY(wrapped_indices(index, 0, self->numel, &owned));
    const bool line = self->ndim == 1 && !fac__pending(self); /* read as it lies */
    fac_status st = line ? FAC_OK : fac__cpu_contiguous(self, &rows);
    if (st == FAC_OK) {
        fac__walk_of(s->out[0], &o);
        fac__walk_of(owned, &i);
        fac_gather_plan g = {.ndim = o.ndim,
                             .sizes = o.sizes,
                             .item = fac__dtype_size((fac_dtype)self->dtype),
                             .out = o.data,
                             .out_strides = o.strides,
                             .index = fac__data(owned),
                             .index_strides = i.strides,
                             .src = fac__data(line ? self : rows),
                             .src_strides = no_strides,
                             .step = line ? self->strides[0] : 1};
        st = fac__gather_run(&g);
    }
    fac__unref(rows);
    fac__unref(owned);
    return st;
}

/* Scatters n source elements to positions of a row-major tensor, in order. */
static fac_status put_flat(fac_tensor *rows, const int64_t *index, fac_tensor *source, fac_scatter_op op) {
    fac_tensor *values;
    const int64_t one = 1;
    FAC_TRY(fac__cpu_contiguous(source, &values));
    fac_scatter_plan j = {.ndim = 1,
                          .sizes = &values->numel,
                          .conflicts = 1,
                          .dtype = (fac_dtype)rows->dtype,
                          .op = op,
                          .dst = fac__data(rows),
                          .dst_strides = no_strides,
                          .index = index,
                          .index_strides = &one,
                          .src = fac__data(values),
                          .src_strides = &one,
                          .step = 1};
    fac_status st = fac__scatter_run(&j);
    fac__unref(values);
    return st;
}

fac_status put_cpu(fac_structured *s, fac_tensor *self, fac_tensor *index, fac_tensor *source, bool accumulate) {
    fac_tensor *owned;
    fac_rowmajor r;
    if (index->numel == 0) return start_from(s, self);
    FAC_TRY(wrapped_indices(index, 0, self->numel, &owned));
    fac_status st = start_from(s, self);
    if (st == FAC_OK) st = fac__rowmajor_begin(s->out[0], true, &r);
    if (st == FAC_OK)
        st = fac__rowmajor_end(&r,
                               put_flat(r.t, fac__data(owned), source, accumulate ? FAC_SCATTER_ADD : FAC_SCATTER_SET));
    fac__unref(owned);
    return st;
}

/* ---- the gradient of embedding -------------------------------------------------------------------------------------------------------------- */

/* Rows of grad divided by how often their index occurs: an owned copy. */
static fac_status by_frequency(fac_tensor *grad, const int64_t *index, int64_t n, int64_t rows, fac_tensor **out) {
    fac_tensor *counts, *shares = NULL, *same = NULL;
    int64_t column[2] = {n, 1};
    FAC_TRY(fac__empty(&rows, 1, FAC_I64, grad->device, &counts));
    int64_t *count = fac__data(counts);
    for (int64_t i = 0; i < rows; i++) count[i] = 0;
    for (int64_t i = 0; i < n; i++) count[index[i]]++;
    fac_status st = fac__empty(column, 2, FAC_F64, grad->device, &shares);
    for (int64_t i = 0; st == FAC_OK && i < n; i++) ((double *)fac__data(shares))[i] = 1 / (double)count[index[i]];
    if (st == FAC_OK) st = fac__clone_below(grad, out);
    if (st == FAC_OK) {
        st = fac__redispatch_mul__Tensor(fac__dense_keys(*out), *out, shares, &same);
        fac__unref(st == FAC_OK ? same : *out);
    }
    fac__unref(shares);
    fac__unref(counts);
    return st;
}

/* out = sums of grad's rows [n, D] by index; the row of padding_idx stays zero. */
static fac_status sum_rows(fac_tensor *out, fac_tensor *grad, const int64_t *index, int64_t padding_idx, bool by_freq) {
    fac_tensor *rows;
    if (by_freq)
        FAC_TRY(by_frequency(grad, index, grad->sizes[0], out->sizes[0], &rows));
    else
        rows = fac__ref(grad);
    fac_status st = fac__sum_rows((fac_dtype)out->dtype, fac__data(out), out->sizes[0], fac__data(rows), index,
                                  rows->sizes[0], out->sizes[1]);
    if (st == FAC_OK && padding_idx >= 0 && padding_idx < out->sizes[0]) {
        size_t row = (size_t)out->sizes[1] * fac__dtype_size((fac_dtype)out->dtype);
        memset((char *)fac__data(out) + (size_t)padding_idx * row, 0, row);
    }
    fac__unref(rows);
    return st;
}

fac_status embedding_dense_backward_cpu(fac_structured *s, fac_tensor *grad_output, fac_tensor *indices,
                                        int64_t num_weights, int64_t padding_idx, bool scale_grad_by_freq) {
    fac_tensor *owned, *grad = NULL, *flat = NULL;
    const int64_t *v;
    int64_t width = s->out[0]->sizes[1], sizes[2] = {indices->numel, width}, strides[2] = {width, 1};
    FAC_TRY(load_indices(indices, 0, num_weights, &owned, &v));
    fac_status st = fac__cpu_contiguous(grad_output, &grad);
    if (st == FAC_OK) st = fac__view(grad, sizes, strides, 2, grad->offset, false, &flat);
    if (st == FAC_OK && flat->numel)
        st = sum_rows(s->out[0], flat, v, padding_idx, scale_grad_by_freq);
    else if (st == FAC_OK)
        st = fac__fill_below(s->out[0], fac_scalar_i_(0));
    fac__unref(flat);
    fac__unref(grad);
    fac__unref(owned);
    return st;
}
