/* Output rules of indexing operators, and every check that does not read an index. */
#include "ops_gen.h"

/* Sizes, with a tensor without dimensions counted as one of size 1. */
static int64_t size_at(const fac_tensor *t, int64_t d) { return t->ndim ? t->sizes[d] : 1; }
static int64_t rank(const fac_tensor *t) { return t->ndim ? t->ndim : 1; }

/* An index without elements may have any dtype. */
static fac_status need_index(const fac_tensor *index, bool narrow) {
    if (index->numel == 0) return FAC_OK;
    FAC_CHECK(index->dtype == FAC_I64 || (narrow && index->dtype == FAC_I32), FAC_ERR_DTYPE,
              "Expected dtype %s for index, got %s", narrow ? "int32 or int64" : "int64",
              fac_dtype_name((fac_dtype)index->dtype));
    return FAC_OK;
}

static fac_status need_vector(const fac_tensor *index) {
    FAC_CHECK(index->ndim <= 1, FAC_ERR_SHAPE, "Index is supposed to be a vector or have no dimensions, got sizes %s",
              FAC_SHAPE_TEXT(index));
    return FAC_OK;
}

static fac_status same_dtype(const fac_tensor *a, const fac_tensor *b, const char *what) {
    FAC_CHECK(a->dtype == b->dtype, FAC_ERR_DTYPE, "Expected self.dtype to be equal to %s.dtype, got %s and %s", what,
              fac_dtype_name((fac_dtype)a->dtype), fac_dtype_name((fac_dtype)b->dtype));
    return FAC_OK;
}

/* An output like self that the kernel fills from self first; no input may share its memory but self itself. */
static fac_status declare_changed_copy(fac_structured *s, fac_tensor *self, fac_tensor *index, fac_tensor *source) {
    FAC_TRY(fac_out_declare(s, 0, self->sizes, NULL, self->ndim, (fac_dtype)self->dtype, self->device));
    FAC_TRY(fac_out_check_overlap(s, 0, index, false));
    return fac_out_check_overlap(s, 0, source, false);
}

/* ---- reading --------------------------------------------------------------------------------------------------------------- */

fac_status index_select_meta(fac_structured *s, fac_tensor *self, int64_t dim, fac_tensor *index) {
    int64_t d, sizes[FAC_MAX_DIMS];
    FAC_TRY(fac__wrap_dim(dim, self->ndim, &d));
    FAC_TRY(need_vector(index));
    FAC_TRY(need_index(index, true));
    memcpy(sizes, self->sizes, self->ndim * sizeof *sizes);
    FAC_CHECK(self->ndim > 0 || index->numel == 1, FAC_ERR_SHAPE,
              "Index of a tensor without dimensions should have one element, got %lld", (long long)index->numel);
    if (self->ndim) sizes[d] = index->numel;
    s->carry[0] = d;
    FAC_TRY(fac_out_declare(s, 0, sizes, NULL, self->ndim, (fac_dtype)self->dtype, self->device));
    FAC_TRY(fac_out_check_overlap(s, 0, index, false));
    return fac_out_check_overlap(s, 0, self, false);
}

fac_status embedding_meta(fac_structured *s, fac_tensor *weight, fac_tensor *indices, int64_t padding_idx,
                          bool scale_grad_by_freq, bool sparse) {
    (void)padding_idx, (void)scale_grad_by_freq, (void)sparse;
    int64_t sizes[FAC_MAX_DIMS];
    FAC_CHECK(weight->ndim == 2, FAC_ERR_SHAPE, "'weight' must be 2-D, got sizes %s", FAC_SHAPE_TEXT(weight));
    FAC_CHECK(indices->ndim < FAC_MAX_DIMS, FAC_ERR_SHAPE, "indices have too many dimensions: %d", indices->ndim);
    FAC_TRY(need_index(indices, true));
    memcpy(sizes, indices->sizes, indices->ndim * sizeof *sizes);
    sizes[indices->ndim] = weight->sizes[1];
    return fac_out_declare(s, 0, sizes, NULL, indices->ndim + 1, (fac_dtype)weight->dtype, weight->device);
}

fac_status embedding_dense_backward_meta(fac_structured *s, fac_tensor *grad_output, fac_tensor *indices,
                                         int64_t num_weights, int64_t padding_idx, bool scale_grad_by_freq) {
    (void)padding_idx, (void)scale_grad_by_freq;
    FAC_TRY(need_index(indices, true));
    FAC_CHECK(fac_dtype_is_floating((fac_dtype)grad_output->dtype), FAC_ERR_DTYPE,
              "grad_output must be floating, but it is %s", fac_dtype_name((fac_dtype)grad_output->dtype));
    FAC_CHECK(num_weights >= 0, FAC_ERR_ARGUMENT, "num_weights must not be negative, got %lld", (long long)num_weights);
    FAC_CHECK(grad_output->ndim == indices->ndim + 1 &&
                  memcmp(grad_output->sizes, indices->sizes, indices->ndim * sizeof(int64_t)) == 0,
              FAC_ERR_SHAPE, "grad_output of sizes %s does not fit indices of sizes %s", FAC_SHAPE_TEXT(grad_output),
              FAC_SHAPE_TEXT(indices));
    int64_t sizes[2] = {num_weights, grad_output->sizes[indices->ndim]};
    return fac_out_declare(s, 0, sizes, NULL, 2, (fac_dtype)grad_output->dtype, grad_output->device);
}

fac_status embedding_renorm_meta(fac_structured *s, fac_tensor *self, fac_tensor *indices, double max_norm,
                                 double norm_type) {
    FAC_CHECK(self->ndim == 2, FAC_ERR_SHAPE, "'self' must be 2-D, got sizes %s", FAC_SHAPE_TEXT(self));
    FAC_CHECK(fac_dtype_is_floating((fac_dtype)self->dtype), FAC_ERR_DTYPE, "self must be floating, but it is %s",
              fac_dtype_name((fac_dtype)self->dtype));
    FAC_TRY(need_index(indices, true));
    FAC_CHECK(max_norm >= 0, FAC_ERR_ARGUMENT, "max_norm must not be negative, got %g", max_norm);
    FAC_CHECK(norm_type > 0, FAC_ERR_ARGUMENT, "norm_type must be positive, got %g", norm_type);
    return declare_changed_copy(s, self, indices, NULL);
}

fac_status take_meta(fac_structured *s, fac_tensor *self, fac_tensor *index) {
    FAC_TRY(need_index(index, false));
    FAC_CHECK(self->numel > 0 || index->numel == 0, FAC_ERR_INDEX, "tried to take from an empty tensor");
    FAC_TRY(fac_out_declare(s, 0, index->sizes, NULL, index->ndim, (fac_dtype)self->dtype, self->device));
    FAC_TRY(fac_out_check_overlap(s, 0, index, false));
    return fac_out_check_overlap(s, 0, self, false);
}

/* ---- along a dimension, element by element -------------------------------------------------------------------------------------- */

/* index may not be larger than `whole` in any dimension but `except` (-1: none). */
static fac_status fits_in(const fac_tensor *index, const fac_tensor *whole, int64_t except, const char *name) {
    for (int64_t d = 0; d < rank(index); d++)
        FAC_CHECK(d == except || size_at(index, d) <= size_at(whole, d), FAC_ERR_SHAPE,
                  "Size does not match at dimension %lld: expected index %s to be no larger than %s %s%s", (long long)d,
                  FAC_SHAPE_TEXT(index), name, FAC_SHAPE_TEXT(whole),
                  except < 0 ? "" : " apart from the dimension indexed");
    return FAC_OK;
}

/* Checks index and src (may be NULL) against self; carries the wrapped dim. */
static fac_status check_along(fac_structured *s, const fac_tensor *self, int64_t dim, const fac_tensor *index,
                              const fac_tensor *src) {
    FAC_TRY(fac__wrap_dim(dim, self->ndim, &s->carry[0]));
    if (index->numel == 0) return FAC_OK;
    FAC_TRY(need_index(index, true));
    FAC_CHECK(rank(index) == rank(self), FAC_ERR_SHAPE,
              "Index tensor must have the same number of dimensions as self tensor, got %d and %d", index->ndim,
              self->ndim);
    FAC_TRY(fits_in(index, self, s->carry[0], "self"));
    if (!src) return FAC_OK;
    FAC_CHECK(rank(index) == rank(src), FAC_ERR_SHAPE,
              "Index tensor must have the same number of dimensions as src tensor, got %d and %d", index->ndim,
              src->ndim);
    return fits_in(index, src, -1, "src");
}

fac_status gather_meta(fac_structured *s, fac_tensor *self, int64_t dim, fac_tensor *index, bool sparse_grad) {
    (void)sparse_grad;
    FAC_TRY(check_along(s, self, dim, index, NULL));
    FAC_TRY(fac_out_declare(s, 0, index->sizes, NULL, index->ndim, (fac_dtype)self->dtype, self->device));
    FAC_TRY(fac_out_check_overlap(s, 0, index, false));
    return fac_out_check_overlap(s, 0, self, false);
}

static fac_status scatter_from(fac_structured *s, fac_tensor *self, int64_t dim, fac_tensor *index, fac_tensor *src) {
    FAC_TRY(check_along(s, self, dim, index, src));
    FAC_TRY(same_dtype(self, src, "src"));
    return declare_changed_copy(s, self, index, src);
}

fac_status scatter_src_meta(fac_structured *s, fac_tensor *self, int64_t dim, fac_tensor *index, fac_tensor *src) {
    return scatter_from(s, self, dim, index, src);
}

fac_status scatter_add_meta(fac_structured *s, fac_tensor *self, int64_t dim, fac_tensor *index, fac_tensor *src) {
    return scatter_from(s, self, dim, index, src);
}

fac_status scatter_value_meta(fac_structured *s, fac_tensor *self, int64_t dim, fac_tensor *index, fac_scalar value) {
    FAC_TRY(check_along(s, self, dim, index, NULL));
    FAC_TRY(fac__check_number((fac_dtype)self->dtype, value));
    return declare_changed_copy(s, self, index, NULL);
}

static fac_status check_old_reduce(const char *reduce) {
    FAC_CHECK(strcmp(reduce, "add") == 0 || strcmp(reduce, "multiply") == 0, FAC_ERR_ARGUMENT,
              "reduce argument must be either add or multiply, got %s", reduce);
    return FAC_OK;
}

fac_status scatter_reduce_src_meta(fac_structured *s, fac_tensor *self, int64_t dim, fac_tensor *index, fac_tensor *src,
                                   const char *reduce) {
    FAC_TRY(check_old_reduce(reduce));
    return scatter_from(s, self, dim, index, src);
}

fac_status scatter_value_reduce_meta(fac_structured *s, fac_tensor *self, int64_t dim, fac_tensor *index,
                                     fac_scalar value, const char *reduce) {
    FAC_TRY(check_old_reduce(reduce));
    return scatter_value_meta(s, self, dim, index, value);
}

fac_status scatter_reduce_two_meta(fac_structured *s, fac_tensor *self, int64_t dim, fac_tensor *index, fac_tensor *src,
                                   const char *reduce, bool include_self) {
    static const char *const names[] = {"sum", "prod", "mean", "amax", "amin"};
    (void)include_self;
    bool known = false;
    for (size_t i = 0; i < FAC_COUNT(names); i++) known = known || strcmp(reduce, names[i]) == 0;
    FAC_CHECK(known, FAC_ERR_ARGUMENT, "reduce argument must be either sum, prod, mean, amax or amin, got %s", reduce);
    return scatter_from(s, self, dim, index, src);
}

/* ---- along a dimension, slice by slice --------------------------------------------------------------------------------------------- */

/* source must be self with the indexed dimension as long as index. */
static fac_status check_slices(fac_structured *s, const fac_tensor *self, int64_t dim, const fac_tensor *index,
                               const fac_tensor *source) {
    int64_t d;
    FAC_TRY(fac__wrap_dim(dim, self->ndim, &d));
    s->carry[0] = d;
    FAC_TRY(need_vector(index));
    FAC_TRY(same_dtype(self, source, "source"));
    FAC_CHECK(rank(self) == rank(source), FAC_ERR_SHAPE,
              "source has sizes %s; expected those of self %s outside dimension %lld", FAC_SHAPE_TEXT(source),
              FAC_SHAPE_TEXT(self), (long long)d);
    FAC_CHECK(size_at(source, d) == index->numel, FAC_ERR_SHAPE,
              "Number of indices (%lld) should be equal to source.size(dim) (%lld), for dim: %lld",
              (long long)index->numel, (long long)size_at(source, d), (long long)d);
    for (int64_t e = 0; e < rank(self); e++)
        FAC_CHECK(e == d || size_at(self, e) == size_at(source, e), FAC_ERR_SHAPE,
                  "source has sizes %s; expected those of self %s outside dimension %lld", FAC_SHAPE_TEXT(source),
                  FAC_SHAPE_TEXT(self), (long long)d);
    return FAC_OK;
}

fac_status index_add_meta(fac_structured *s, fac_tensor *self, int64_t dim, fac_tensor *index, fac_tensor *source,
                          fac_scalar alpha) {
    FAC_TRY(need_index(index, true));
    FAC_TRY(check_slices(s, self, dim, index, source));
    FAC_TRY(fac__check_factor((fac_dtype)self->dtype, alpha));
    return declare_changed_copy(s, self, index, source);
}

fac_status index_reduce_meta(fac_structured *s, fac_tensor *self, int64_t dim, fac_tensor *index, fac_tensor *source,
                             const char *reduce, bool include_self) {
    static const char *const names[] = {"prod", "mean", "amax", "amin"};
    (void)include_self;
    bool known = false;
    for (size_t i = 0; i < FAC_COUNT(names); i++) known = known || strcmp(reduce, names[i]) == 0;
    FAC_CHECK(known, FAC_ERR_ARGUMENT, "Expected reduce to be one of prod, mean, amax or amin but got %s", reduce);
    FAC_TRY(need_index(index, true));
    FAC_TRY(check_slices(s, self, dim, index, source));
    return declare_changed_copy(s, self, index, source);
}

fac_status index_copy_meta(fac_structured *s, fac_tensor *self, int64_t dim, fac_tensor *index, fac_tensor *source) {
    FAC_TRY(need_index(index, false));
    FAC_TRY(check_slices(s, self, dim, index, source));
    return declare_changed_copy(s, self, index, source);
}

fac_status index_fill_scalar_meta(fac_structured *s, fac_tensor *self, int64_t dim, fac_tensor *index,
                                  fac_scalar value) {
    FAC_TRY(fac__wrap_dim(dim, self->ndim, &s->carry[0]));
    FAC_TRY(need_index(index, false));
    FAC_TRY(need_vector(index));
    FAC_TRY(fac__check_number((fac_dtype)self->dtype, value));
    return declare_changed_copy(s, self, index, NULL);
}

fac_status index_fill_tensor_meta(fac_structured *s, fac_tensor *self, int64_t dim, fac_tensor *index,
                                  fac_tensor *value) {
    FAC_CHECK(value->ndim == 0, FAC_ERR_SHAPE,
              "Only supports 0-dimension value tensor, but got tensor with %d dimension(s)", value->ndim);
    FAC_TRY(fac__check_value((fac_dtype)self->dtype, value));
    return index_fill_scalar_meta(s, self, dim, index, fac_scalar_i_(0));
}

/* ---- anywhere ------------------------------------------------------------------------------------------------------------------------- */

fac_status put_meta(fac_structured *s, fac_tensor *self, fac_tensor *index, fac_tensor *source, bool accumulate) {
    (void)accumulate;
    FAC_TRY(need_index(index, false));
    FAC_TRY(same_dtype(self, source, "source"));
    FAC_CHECK(
        index->numel == source->numel, FAC_ERR_SHAPE,
        "Expected source and index to have the same number of elements, but got source.numel() = %lld, index.numel() = %lld",
        (long long)source->numel, (long long)index->numel);
    FAC_CHECK(self->numel > 0 || index->numel == 0, FAC_ERR_INDEX, "the destination has no elements");
    return declare_changed_copy(s, self, index, source);
}

fac_status index_put_meta(fac_structured *s, fac_tensor *self, fac_tensors indices, fac_tensor *values,
                          bool accumulate) {
    (void)accumulate;
    FAC_CHECK(
        self->dtype == values->dtype, FAC_ERR_DTYPE,
        "Index put requires the source and destination dtypes match, got %s for the destination and %s for the source.",
        fac_dtype_name((fac_dtype)self->dtype), fac_dtype_name((fac_dtype)values->dtype));
    FAC_TRY(declare_changed_copy(s, self, NULL, values));
    for (size_t i = 0; i < indices.n; i++) FAC_TRY(fac_out_check_overlap(s, 0, indices.v[i], false));
    return FAC_OK;
}

fac_status masked_scatter_meta(fac_structured *s, fac_tensor *self, fac_tensor *mask, fac_tensor *source) {
    int64_t sizes[FAC_MAX_DIMS];
    int n;
    FAC_CHECK(mask->dtype == FAC_BOOL, FAC_ERR_DTYPE,
              "masked_scatter_ only supports boolean masks, but got mask with dtype %s",
              fac_dtype_name((fac_dtype)mask->dtype));
    FAC_TRY(same_dtype(self, source, "source"));
    FAC_TRY(fac__broadcast(self->sizes, self->ndim, mask->sizes, mask->ndim, sizes, &n));
    FAC_CHECK(s->form == FAC_FUNCTIONAL || fac__has_sizes(self, sizes, n), FAC_ERR_SHAPE,
              "the mask of sizes %s does not broadcast to self of sizes %s", FAC_SHAPE_TEXT(mask),
              FAC_SHAPE_TEXT(self));
    return fac_out_declare(s, 0, sizes, NULL, n, (fac_dtype)self->dtype, self->device);
}
