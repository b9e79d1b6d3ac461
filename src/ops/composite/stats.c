/* Statistics in terms of other operators: covariance, choices of elements, membership of one number, edges of bins. */
#include "core/read.h"
#include "core/tensor_make.h"
#include "ops/composite/brief.h"
#include "ops/composite/view.h"

/* ---- covariance --------------------------------------------------------------------------------------------------------- */

static fac_status check_weights(fac_tensor *w, const char *name, int64_t observations, bool integral) {
    const fac_dtype d = (fac_dtype)w->dtype;
    FAC_CHECK(w->ndim <= 1, FAC_ERR_SHAPE, "expected %s to have one or fewer dimensions but got sizes %s", name,
              FAC_SHAPE_TEXT(w));
    FAC_CHECK(integral ? fac_dtype_is_integral(d, false) : fac_dtype_is_floating(d), FAC_ERR_DTYPE,
              "expected %s to have %s dtype but got %s", name, integral ? "integral" : "floating point",
              fac_dtype_name(d));
    FAC_CHECK(w->numel == observations, FAC_ERR_SHAPE,
              "expected %s to have one element for each of %lld observations but got %lld", name,
              (long long)observations, (long long)w->numel);
    if (w->numel == 0 || w->device.type == FAC_META) return FAC_OK;
    FAC_SCOPE(s);
    fac_tensor *least = fac__s_min(w);
    const double low = least ? fac__item(least) : 0;
    if (fac_error()) return fac_error();
    FAC_CHECK(!(low < 0), FAC_ERR_ARGUMENT, "%s cannot be negative", name);
    return FAC_OK;
}

static fac_status check_cov(fac_tensor *self, fac_tensor *fweights, fac_tensor *aweights) {
    FAC_CHECK(self->ndim <= 2, FAC_ERR_SHAPE,
              "expected input to have two or fewer dimensions but got an input with %d dimensions", self->ndim);
    FAC_CHECK(self->dtype != FAC_BOOL, FAC_ERR_DTYPE, "bool dtype is not supported for input");
    const int64_t n = self->ndim < 2 ? self->numel : self->sizes[1];
    if (fweights) FAC_TRY(check_weights(fweights, "fweights", n, true));
    return aweights ? check_weights(aweights, "aweights", n, false) : FAC_OK;
}

/* The number that divides: the weight of all observations, less what the correction takes. Not below 0. */
static fac_tensor *degrees(fac_tensor *w, fac_tensor *aweights, fac_tensor *total, int64_t correction) {
    fac_tensor *less = fac__s_new_full(total, FAC_INTS(), fac_scalar_i_(correction), FAC_DTYPE_DEFAULT, FAC_STRIDED,
                                       (fac_device){0}, (fac_opt_num){0});
    if (aweights && correction != 0)
        less = divide(fac__s_mul_Scalar(fac__s_sum(mul(w, aweights), FAC_DTYPE_DEFAULT), fac_scalar_i_(correction)),
                      total);
    return fac__s_clamp_min(sub(total, less), fac_scalar_i_(0));
}

/* The weight of each observation, or NULL, and their sum: the number of observations without weights. */
static fac_status weigh(fac_tensor *rows, fac_tensor *fweights, fac_tensor *aweights, fac_tensor **w,
                        fac_tensor **total) {
    *w = fweights && aweights ? mul(fweights, aweights) : fweights ? fweights : aweights;
    if (!fweights && !aweights) {
        *total =
            fac__s_scalar_tensor(fac_scalar_i_(rows->sizes[1]), FAC_I64, FAC_STRIDED, rows->device, (fac_opt_num){0});
        return *total ? FAC_OK : fac_error();
    }
    *total = fac__s_sum(*w, FAC_DTYPE_DEFAULT);
    if (!*total) return fac_error();
    if ((*total)->device.type == FAC_META) return FAC_OK;
    const double sum = fac__item(*total);
    if (fac_error()) return fac_error();
    FAC_CHECK(sum != 0, FAC_ERR_ARGUMENT, "weights sum to zero, can't be normalized");
    return FAC_OK;
}

fac_status cov_composite(const fac_call_info *c, fac_tensor *self, int64_t correction, fac_tensor *fweights,
                         fac_tensor *aweights, fac_tensor **out) {
    (void)c;
    fac_tensor *w, *total;
    FAC_TRY(check_cov(self, fweights, aweights));
    FAC_SCOPE(s);
    fac_tensor *rows = self->ndim < 2 ? fac__s_reshape(self, FAC_INTS(1, self->numel)) : self;
    if (!rows) return fac_error();
    FAC_TRY(weigh(rows, fweights, aweights, &w, &total));
    fac_tensor *mean = divide(sum_along(w ? mul(rows, w) : rows, 1, false), total);
    fac_tensor *apart = sub(rows, fac__s_unsqueeze(mean, 1)), *weighted = w ? mul(apart, w) : apart;
    fac_tensor *products =
        fac__s_mm(cast(apart, weighted ? (fac_dtype)weighted->dtype : FAC_F32), fac__s_conj(fac__s_t(weighted)));
    return fac__give(out, fac__s_squeeze(divide(products, degrees(w, aweights, total, correction))));
}

/* Within [-1, 1], part by part. */
static fac_tensor *limited(fac_tensor *t) {
    const fac_opt_num low = fac_opt_num_(fac_scalar_i_(-1)), high = fac_opt_num_(fac_scalar_i_(1));
    if (!t || !fac_dtype_is_complex((fac_dtype)t->dtype)) return fac__s_clamp(t, low, high);
    return fac__s_view_as_complex(fac__s_clamp(fac__s_view_as_real(t), low, high));
}

fac_status corrcoef_composite(const fac_call_info *c, fac_tensor *self, fac_tensor **out) {
    (void)c;
    FAC_SCOPE(s);
    fac_tensor *cov = fac__s_cov(self, 1, NULL, NULL);
    if (!cov) return fac_error();
    if (cov->ndim == 0) return fac__give(out, divide(cov, cov));
    fac_tensor *deviation = fac__s_sqrt(fac__s_real(fac__s_diagonal(cov, 0, 0, 1)));
    fac_tensor *ratio = divide(divide(cov, fac__s_unsqueeze(deviation, 1)), fac__s_unsqueeze(deviation, 0));
    return fac__give(out, limited(ratio));
}

/* ---- choices ------------------------------------------------------------------------------------------------------------- */

/* How many choices of r of n there are: n over r, or with replacement n + r - 1 over r. */
static fac_status count_choices(int64_t n, int64_t r, bool again, int64_t *out) {
    __int128 count = 1;
    *out = 0;
    if (n == 0 || (!again && r > n)) return FAC_OK;
    FAC_CHECK(!again || fac__add(n, r - 1, &n), FAC_ERR_OVERFLOW, "there are more than 2^63 choices");
    if (r > n - r) r = n - r;
    for (int64_t i = 1; i <= r; i++) {
        count = count * (n - r + i) / i;
        FAC_CHECK(count <= INT64_MAX, FAC_ERR_OVERFLOW, "there are more than 2^63 choices");
    }
    *out = (int64_t)count;
    return FAC_OK;
}

/* The next choice in order; the last position that can move on does, and those after it follow. */
static void next_choice(const int64_t *from, int64_t *to, int64_t n, int64_t r, bool again) {
    int64_t k = r - 1;
    while (k > 0 && from[k] == (again ? n - 1 : n - r + k)) k--;
    memcpy(to, from, (size_t)k * sizeof *to);
    for (int64_t i = k; i < r; i++) to[i] = from[k] + 1 + (again ? 0 : i - k);
}

/* All choices from the first one on, [choices, r]: those that differ in their last position alone follow each other. */
static void fill_choices(int64_t *at, int64_t n, int64_t r, bool again, int64_t choices) {
    for (int64_t i = 0; i < r; i++) at[i] = again ? 0 : i;
    for (const int64_t *end = at + choices * r;;) {
        const int64_t *from = at;
        const int64_t last = from[r - 1];
        for (int64_t k = last + 1; k < n; k++) {
            at += r;
            for (int64_t i = 0; i < r - 1; i++) at[i] = from[i];
            at[r - 1] = k;
        }
        if (at + r == end) return;
        next_choice(at, at + r, n, r, again);
        at += r;
    }
}

/* Positions [choices, r], made on the CPU. */
static fac_status choose(int64_t n, int64_t r, bool again, int64_t choices, fac_tensor **out) {
    FAC_TRY(fac__empty(FAC_INTS(choices, r).v, 2, FAC_I64, fac_device_make(FAC_CPU, -1), out));
    int64_t *at = fac__data(*out);
    if (at && choices > 0) fill_choices(at, n, r, again, choices);
    return FAC_OK;
}

fac_status combinations_composite(const fac_call_info *c, fac_tensor *self, int64_t r, bool with_replacement,
                                  fac_tensor **out) {
    (void)c;
    int64_t choices;
    fac_tensor *at;
    FAC_CHECK(self->ndim == 1, FAC_ERR_SHAPE, "Expect a 1D vector, but got shape %s", FAC_SHAPE_TEXT(self));
    FAC_CHECK(r >= 0, FAC_ERR_ARGUMENT, "Expect a non-negative number, but got %lld", (long long)r);
    FAC_CHECK(r < INT32_MAX, FAC_ERR_OVERFLOW, "%lld elements are too many to be chosen", (long long)r);
    FAC_SCOPE(s);
    if (r == 0)
        return fac__give(out, fac__s_new_empty(self, FAC_INTS(0), FAC_DTYPE_DEFAULT, FAC_STRIDED, (fac_device){0},
                                               (fac_opt_num){0}));
    FAC_TRY(count_choices(self->numel, r, with_replacement, &choices));
    FAC_TRY(choose(self->numel, r, with_replacement, choices, &at));
    fac_tensor *here =
        fac__s_to_device(fac__adopt(fac__thread(), at), self->device, FAC_I64, false, false, FAC_FORMAT_DEFAULT);
    return fac__give(
        out, fac__s_reshape(fac__s_index_select(self, 0, fac__s_reshape(here, FAC_INTS(-1))), FAC_INTS(choices, r)));
}

fac_status vander_composite(const fac_call_info *c, fac_tensor *x, fac_opt_int N, bool increasing, fac_tensor **out) {
    (void)c;
    FAC_CHECK(x->ndim == 1, FAC_ERR_SHAPE, "x must be a one-dimensional tensor, got sizes %s", FAC_SHAPE_TEXT(x));
    const int64_t n = N.set ? N.v : x->numel;
    FAC_CHECK(n >= 0, FAC_ERR_ARGUMENT, "N must be non-negative, got %lld", (long long)n);
    FAC_SCOPE(s);
    if (is_integral(x)) x = cast(x, FAC_I64);
    if (n < 2 && x)
        return fac__give(out, fac__s_new_ones(x, FAC_INTS(x->numel, n), FAC_DTYPE_DEFAULT, FAC_STRIDED, (fac_device){0},
                                              (fac_opt_num){0}));
    fac_tensor *powers = fac__s_linalg_vander(x, fac_opt_int_(n));
    return fac__give(out, increasing ? powers : fac__s_flip(powers, FAC_INTS(-1)));
}

/* ---- membership ------------------------------------------------------------------------------------------------------------ */

static fac_status check_members(const fac_tensor *t, fac_scalar number) {
    FAC_CHECK(!fac_dtype_is_complex((fac_dtype)t->dtype) && number.kind != FAC_KIND_COMPLEX, FAC_ERR_DTYPE,
              "Unsupported input type encountered for isin(): complex");
    return FAC_OK;
}

fac_status isin_scalar_composite(const fac_call_info *c, fac_tensor *elements, fac_scalar test_element,
                                 bool assume_unique, bool invert, fac_tensor **out) {
    (void)c, (void)assume_unique;
    FAC_TRY(check_members(elements, test_element));
    return invert ? fac__c_ne_Scalar(elements, test_element, out) : fac__c_eq_Scalar(elements, test_element, out);
}

fac_status isin_of_scalar_composite(const fac_call_info *c, fac_scalar element, fac_tensor *test_elements,
                                    bool assume_unique, bool invert, fac_tensor **out) {
    (void)c, (void)assume_unique;
    FAC_TRY(check_members(test_elements, element));
    FAC_SCOPE(s);
    return fac__give(out, invert ? fac__s_all(fac__s_ne_Scalar(test_elements, element))
                                 : fac__s_any(fac__s_eq_Scalar(test_elements, element)));
}

fac_status nanmedian_explicit(const fac_call_info *c, fac_tensor *self, fac_tensor **out) {
    (void)c;
    fac_tensor *both[2] = {NULL, NULL};
    FAC_SCOPE(s);
    if (self->numel == 0) return fac__c_median(self, out);
    fac_tensor *flat = fac__s_reshape(self, FAC_INTS(-1));
    if (!flat) return fac_error();
    FAC_TRY(fac__c_nanmedian_dim(flat, 0, false, both));
    fac__unref(both[1]);
    *out = both[0];
    return FAC_OK;
}

/* ---- edges of bins ------------------------------------------------------------------------------------------------------------ */

/* Where the bins of coordinate k begin and end. */
static fac_status range_of(fac_tensor *self, int64_t k, fac_floats range, double *low, double *high) {
    *low = 0, *high = 1;
    FAC_SCOPE(s);
    if (range.v) {
        *low = range.v[2 * k], *high = range.v[2 * k + 1];
    } else if (self->numel) {
        fac_tensor *column = fac__s_select_int(self, -1, k), *least = fac__s_min(column), *most = fac__s_max(column);
        if (!least || !most) return fac_error();
        *low = fac__item(least), *high = fac__item(most);
        if (fac_error()) return fac_error();
    }
    FAC_CHECK(*low - *low == 0 && *high - *high == 0, FAC_ERR_ARGUMENT, "dimension %lld's range [%g, %g] is not finite",
              (long long)k, *low, *high);
    FAC_CHECK(*low <= *high, FAC_ERR_ARGUMENT, "min should not exceed max, but got min %g max %g for dimension %lld",
              *low, *high, (long long)k);
    if (*low == *high) *low -= 0.5, *high += 0.5;
    return FAC_OK;
}

static fac_status check_edges(const fac_tensor *self, fac_ints bins, fac_floats range, const fac_tensor *weight) {
    FAC_CHECK(self->dtype == FAC_F32 || self->dtype == FAC_F64, FAC_ERR_DTYPE,
              "self must be float32 or float64, but it is %s", fac_dtype_name((fac_dtype)self->dtype));
    FAC_CHECK(self->ndim >= 2 && (int64_t)bins.n == self->sizes[self->ndim - 1], FAC_ERR_SHAPE,
              "points of sizes %s cannot have %zu sequences of bin edges", FAC_SHAPE_TEXT(self), bins.n);
    FAC_CHECK(!range.v || range.n == 2 * bins.n, FAC_ERR_ARGUMENT,
              "for a %zu-dimensional histogram range should have %zu elements, but got %zu", bins.n, 2 * bins.n,
              range.n);
    for (size_t k = 0; k < bins.n; k++)
        FAC_CHECK(bins.v[k] > 0 && bins.v[k] < 1 << 30, FAC_ERR_ARGUMENT,
                  "bins must be > 0 and below 2^30, but got %lld for dimension %zu", (long long)bins.v[k], k);
    FAC_CHECK(!weight || (weight->dtype == self->dtype && fac_device_equal(weight->device, self->device) &&
                          fac__has_sizes(weight, self->sizes, self->ndim - 1)),
              FAC_ERR_ARGUMENT, "weight should have one element of the same dtype for each point");
    return FAC_OK;
}

fac_status histogramdd_composite(const fac_call_info *c, fac_tensor *self, fac_ints bins, fac_floats range,
                                 fac_tensor *weight, bool density, fac_tensor_list *out) {
    (void)c;
    fac_tensor *hist;
    FAC_TRY(fac__c__histogramdd_bin_edges(self, bins, range, weight, density, &out[1]));
    fac_status st = fac__c__histogramdd_from_bin_cts(self, bins, range, weight, density, &hist);
    if (!st) st = fac__list_of_one(hist, &out[0]);
    if (st) fac__tensor_list_free(&out[1]);
    return st;
}

fac_status histogramdd_int_composite(const fac_call_info *c, fac_tensor *self, int64_t bins, fac_floats range,
                                     fac_tensor *weight, bool density, fac_tensor_list *out) {
    int64_t each[FAC_MAX_DIMS];
    FAC_CHECK(self->ndim >= 2 && self->sizes[self->ndim - 1] <= FAC_MAX_DIMS, FAC_ERR_SHAPE,
              "points should be of sizes [*, D] with D up to %d, but self is %s", FAC_MAX_DIMS, FAC_SHAPE_TEXT(self));
    const size_t n = (size_t)self->sizes[self->ndim - 1];
    for (size_t i = 0; i < n; i++) each[i] = bins;
    return histogramdd_composite(c, self, (fac_ints){each, n}, range, weight, density, out);
}

fac_status histogramdd_edges_composite(const fac_call_info *c, fac_tensor *self, fac_tensors bins, fac_floats range,
                                       fac_tensor *weight, bool density, fac_tensor_list *out) {
    (void)c, (void)range;
    fac_tensor *hist;
    FAC_TRY(fac__c__histogramdd_from_bin_tensors(self, bins, weight, density, &hist));
    FAC_TRY(fac__list_of_one(hist, &out[0]));
    fac_status st = fac__list_new(bins.n, &out[1]);
    for (size_t i = 0; i < bins.n && !st; i++) out[1].v[out[1].n++] = fac__ref(bins.v[i]);
    if (st) fac__tensor_list_free(&out[0]);
    return st;
}

fac_status histogramdd_bin_edges_composite(const fac_call_info *c, fac_tensor *self, fac_ints bins, fac_floats range,
                                           fac_tensor *weight, bool density, fac_tensor_list *out) {
    (void)c, (void)density;
    FAC_TRY(check_edges(self, bins, range, weight));
    FAC_TRY(fac__list_new(bins.n, out));
    for (size_t k = 0; k < bins.n; k++) {
        double low, high;
        fac_status st = range_of(self, (int64_t)k, range, &low, &high);
        if (st == FAC_OK)
            st = fac__c_linspace(fac_scalar_f_(low), fac_scalar_f_(high), bins.v[k] + 1, (fac_dtype)self->dtype,
                                 FAC_STRIDED, self->device, (fac_opt_num){0}, &out->v[k]);
        if (st != FAC_OK) {
            fac__tensor_list_free(out);
            return st;
        }
        out->n++;
    }
    return FAC_OK;
}
