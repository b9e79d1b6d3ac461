/* Output rules of statistics: truth over dimensions, membership, bins. */
#include "ops/meta/check.h"
#include "ops/meta/reduce.h"
#include "ops_gen.h"

static fac_dtype dtype_of(const fac_tensor *t) { return (fac_dtype)t->dtype; }

/* ---- truth ------------------------------------------------------------------------------------------------------------ */

/* The dimensions to reduce: all of them if no list is given, none if it is empty. */
static fac_status truth_mask(const fac_tensor *self, fac_ints dim, uint64_t *mask) {
    *mask = 0;
    return dim.v && dim.n == 0 ? FAC_OK : fac__dim_mask(dim, self->ndim, mask);
}

fac_status any_dims_meta(fac_structured *s, fac_tensor *self, fac_ints dim, bool keepdim) {
    int64_t sizes[FAC_MAX_DIMS];
    int n = 0;
    uint64_t mask;
    FAC_TRY(truth_mask(self, dim, &mask));
    for (int d = 0; d < self->ndim; d++) {
        if (!(mask >> d & 1))
            sizes[n++] = self->sizes[d];
        else if (keepdim)
            sizes[n++] = 1;
    }
    s->carry[FAC_CARRY_MASK] = (int64_t)mask;
    return fac_out_declare(s, 0, sizes, NULL, n, self->dtype == FAC_U8 ? FAC_U8 : FAC_BOOL, self->device);
}

/* ---- membership --------------------------------------------------------------------------------------------------------- */

fac_status isin_meta(fac_structured *s, fac_tensor *elements, fac_tensor *test_elements, bool assume_unique,
                     bool invert) {
    (void)assume_unique, (void)invert;
    fac_promotion types = {0};
    fac__promote_tensor(&types, elements);
    fac__promote_tensor(&types, test_elements);
    const fac_dtype common = fac__promote_result(&types);
    FAC_CHECK(!fac_dtype_is_complex(common), FAC_ERR_DTYPE, "Unsupported input type encountered for isin(): %s",
              fac_dtype_name(common));
    s->carry[0] = (int64_t)common;
    return fac_out_declare(s, 0, elements->sizes, NULL, elements->ndim, FAC_BOOL, elements->device);
}

/* ---- bins ------------------------------------------------------------------------------------------------------------------ */

static fac_status check_bins(int64_t bins, int64_t dim) {
    FAC_CHECK(bins > 0, FAC_ERR_ARGUMENT, "bins must be > 0, but got %lld for dimension %lld", (long long)bins,
              (long long)dim);
    FAC_CHECK(bins < 1 << 30, FAC_ERR_OVERFLOW, "%lld bins are 2^30 or more", (long long)bins);
    return FAC_OK;
}

fac_status histc_meta(fac_structured *s, fac_tensor *self, int64_t bins, fac_scalar min, fac_scalar max) {
    FAC_TRY(check_bins(bins, 0));
    FAC_TRY(fac__need_floating("self", self));
    const fac_dtype bounds = self->dtype == FAC_F64 ? FAC_F64 : FAC_F32; /* halves are counted in single precision */
    FAC_TRY(fac__check_number(bounds, min));
    FAC_TRY(fac__check_number(bounds, max));
    const double low = fac__scalar_f64(min), high = fac__scalar_f64(max);
    FAC_CHECK(!(low > high), FAC_ERR_ARGUMENT, "max must be larger than min, but they are %g and %g", high, low);
    return fac_out_declare(s, 0, &bins, NULL, 1, dtype_of(self), self->device);
}

/* Points, their weights and the range of `coordinates` coordinates. Weights have one element per point. */
static fac_status check_points(const fac_tensor *self, int64_t coordinates, fac_floats range,
                               const fac_tensor *weight) {
    FAC_CHECK(self->dtype == FAC_F32 || self->dtype == FAC_F64, FAC_ERR_DTYPE,
              "self must be float32 or float64, but it is %s", fac_dtype_name(dtype_of(self)));
    FAC_CHECK(!range.v || range.n == 2 * (size_t)coordinates, FAC_ERR_ARGUMENT,
              "for a %lld-dimensional histogram range should have %lld elements, but got %zu", (long long)coordinates,
              2 * (long long)coordinates, range.n);
    for (size_t i = 0; range.v && i < range.n; i += 2) {
        FAC_CHECK(range.v[i] - range.v[i] == 0 && range.v[i + 1] - range.v[i + 1] == 0, FAC_ERR_ARGUMENT,
                  "dimension %zu's range [%g, %g] is not finite", i / 2, range.v[i], range.v[i + 1]);
        FAC_CHECK(range.v[i] <= range.v[i + 1], FAC_ERR_ARGUMENT,
                  "min should not exceed max, but got min %g max %g for dimension %zu", range.v[i], range.v[i + 1],
                  i / 2);
    }
    return fac__need_dtype("weight", weight, dtype_of(self));
}

static fac_status check_weight(const fac_tensor *weight, const fac_tensor *self, int ndim) {
    FAC_CHECK(!weight || fac__has_sizes(weight, self->sizes, ndim), FAC_ERR_SHAPE,
              "weight should have one element for each of self's, but got sizes %s for a self of sizes %s",
              FAC_SHAPE_TEXT(weight), FAC_SHAPE_TEXT(self));
    return FAC_OK;
}

fac_status histogram_count_meta(fac_structured *s, fac_tensor *self, int64_t bins, fac_floats range, fac_tensor *weight,
                                bool density) {
    (void)density;
    FAC_TRY(check_bins(bins, 0));
    FAC_TRY(check_points(self, 1, range, weight));
    FAC_TRY(check_weight(weight, self, self->ndim));
    const int64_t edges = bins + 1;
    FAC_TRY(fac_out_declare(s, 0, &bins, NULL, 1, dtype_of(self), self->device));
    return fac_out_declare(s, 1, &edges, NULL, 1, dtype_of(self), self->device);
}

static fac_status check_edges(const fac_tensor *self, const fac_tensor *bins, int64_t dim) {
    FAC_CHECK(bins->ndim == 1, FAC_ERR_SHAPE,
              "bins tensor should have one dimension, but got %d dimensions in the bins tensor for dimension %lld",
              bins->ndim, (long long)dim);
    FAC_CHECK(fac_device_equal(bins->device, self->device), FAC_ERR_DEVICE,
              "bins for dimension %lld should be on the device of self", (long long)dim);
    FAC_CHECK(bins->dtype == self->dtype, FAC_ERR_DTYPE,
              "input tensor and bins tensors should have the same dtype, but got input with dtype %s and bins for "
              "dimension %lld with dtype %s",
              fac_dtype_name(dtype_of(self)), (long long)dim, fac_dtype_name(dtype_of(bins)));
    return check_bins(bins->numel - 1, dim);
}

fac_status histogram_edges_meta(fac_structured *s, fac_tensor *self, fac_tensor *bins, fac_tensor *weight,
                                bool density) {
    (void)density;
    FAC_TRY(check_points(self, 1, (fac_floats){0}, weight));
    FAC_TRY(check_edges(self, bins, 0));
    FAC_TRY(check_weight(weight, self, self->ndim));
    const int64_t n = bins->numel - 1;
    FAC_TRY(fac_out_declare(s, 0, &n, NULL, 1, dtype_of(self), self->device));
    return fac_out_declare(s, 1, bins->sizes, NULL, 1, dtype_of(self), self->device);
}

/* Points have `n` coordinates along the last dimension. */
static fac_status check_coordinates(const fac_tensor *self, size_t n) {
    FAC_CHECK(self->ndim >= 2, FAC_ERR_SHAPE, "input tensor should have at least 2 dimensions, but got %d", self->ndim);
    FAC_CHECK((int64_t)n == self->sizes[self->ndim - 1], FAC_ERR_SHAPE,
              "expected %lld sequences of bin edges for a %lld-dimensional histogram but got %zu",
              (long long)self->sizes[self->ndim - 1], (long long)self->sizes[self->ndim - 1], n);
    FAC_CHECK(n <= FAC_MAX_DIMS, FAC_ERR_SHAPE, "a histogram may have at most %d dimensions, got %zu", FAC_MAX_DIMS, n);
    return FAC_OK;
}

fac_status histogramdd_counts_meta(fac_structured *s, fac_tensor *self, fac_ints bins, fac_floats range,
                                   fac_tensor *weight, bool density) {
    (void)density;
    FAC_TRY(check_coordinates(self, bins.n));
    FAC_CHECK(bins.n, FAC_ERR_SHAPE, "points without coordinates have no histogram");
    FAC_TRY(check_points(self, (int64_t)bins.n, range, weight));
    FAC_TRY(check_weight(weight, self, self->ndim - 1));
    for (size_t i = 0; i < bins.n; i++) FAC_TRY(check_bins(bins.v[i], (int64_t)i));
    return fac_out_declare(s, 0, bins.v, NULL, (int)bins.n, dtype_of(self), self->device);
}

fac_status histogramdd_edges_meta(fac_structured *s, fac_tensor *self, fac_tensors bins, fac_tensor *weight,
                                  bool density) {
    (void)density;
    int64_t sizes[FAC_MAX_DIMS];
    FAC_TRY(check_coordinates(self, bins.n));
    FAC_CHECK(bins.n, FAC_ERR_SHAPE, "points without coordinates have no histogram");
    FAC_TRY(check_points(self, (int64_t)bins.n, (fac_floats){0}, weight));
    FAC_TRY(check_weight(weight, self, self->ndim - 1));
    for (size_t i = 0; i < bins.n; i++) {
        FAC_TRY(check_edges(self, bins.v[i], (int64_t)i));
        sizes[i] = bins.v[i]->numel - 1;
    }
    return fac_out_declare(s, 0, sizes, NULL, (int)bins.n, dtype_of(self), self->device);
}
