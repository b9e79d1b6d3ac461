/* Quantiles: rows are sorted once, so that NaN comes last, and read at ranks q (n - 1), between two neighbours where that is no whole
   number. Of long rows on the CPU of which few quantiles are wanted, the elements are selected without sorting. Ranks are computed in the dtype of self, as in PyTorch, while that holds every position. */
#include "core/read.h"
#include "ops/composite/brief.h"

typedef enum interpolation {
    QUANTILE_LINEAR,
    QUANTILE_LOWER,
    QUANTILE_HIGHER,
    QUANTILE_MIDPOINT,
    QUANTILE_NEAREST,
    QUANTILE_WAYS
} interpolation;

typedef struct quantiles {
    fac_tensor *self, *q; /* q: [k] */
    bool many;            /* q had a dimension: it comes first in the result */
    bool skip_nans, keepdim, flat;
    int64_t dim;
    interpolation way;
} quantiles;

/* ---- checks ------------------------------------------------------------------------------------------------------------ */

static fac_status find_way(const char *name, interpolation *out) {
    static const char *const names[] = {"linear", "lower", "higher", "midpoint", "nearest"};
    for (int i = 0; i < QUANTILE_WAYS; i++)
        if (strcmp(name, names[i]) == 0) {
            *out = (interpolation)i;
            return FAC_OK;
        }
    return FAC_FAIL(FAC_ERR_ARGUMENT,
                    "interpolation must be one of linear, lower, higher, midpoint or nearest, but got %s", name);
}

static fac_status check_self(const fac_tensor *self) {
    FAC_CHECK(self->numel > 0, FAC_ERR_ARGUMENT, "input tensor must be non-empty");
    FAC_CHECK(self->dtype == FAC_F32 || self->dtype == FAC_F64, FAC_ERR_DTYPE,
              "input tensor must be either float or double dtype, got %s", fac_dtype_name((fac_dtype)self->dtype));
    return FAC_OK;
}

static fac_status check_q(const fac_tensor *self, fac_tensor *q) {
    FAC_CHECK(q->ndim <= 1, FAC_ERR_SHAPE, "q must be a scalar or 1D tensor, got sizes %s", FAC_SHAPE_TEXT(q));
    FAC_CHECK(q->dtype == self->dtype, FAC_ERR_DTYPE, "q tensor must be same dtype as the input tensor, got %s and %s",
              fac_dtype_name((fac_dtype)q->dtype), fac_dtype_name((fac_dtype)self->dtype));
    FAC_CHECK(fac_device_equal(q->device, self->device), FAC_ERR_DEVICE,
              "q tensor must be on the same device as the input tensor");
    if (q->device.type == FAC_META) return FAC_OK;
    FAC_SCOPE(s);
    fac_tensor *within =
        fac__s_logical_and(fac__s_ge_Scalar(q, fac_scalar_i_(0)), fac__s_le_Scalar(q, fac_scalar_i_(1)));
    bool all;
    fac_tensor *whole = fac__s_all(within);
    if (!whole) return fac_error();
    FAC_TRY(fac__c_is_nonzero(whole, &all));
    FAC_CHECK(all, FAC_ERR_ARGUMENT, "q values must be in the range [0, 1]");
    return FAC_OK;
}

/* ---- ranks ------------------------------------------------------------------------------------------------------------- */

enum { FEW_QUANTILES = 2, LONG_ROW = 256 };
static bool selects(const quantiles *w, const fac_tensor *rows) {
    return !w->skip_nans && w->self->device.type == FAC_CPU && w->q->numel > 0 && w->q->numel <= FEW_QUANTILES &&
           rows->sizes[rows->ndim - 1] >= LONG_ROW;
}

/* Rows along the last dimension, sorted unless elements are selected; the dimension they were taken from has size 1, unless all elements
   are one row. */
static fac_tensor *rows_of(const quantiles *w) {
    fac_tensor *rows = w->flat ? fac__s_reshape(w->self, FAC_INTS(-1))
                               : fac__s_transpose_int(fac__s_unsqueeze(w->self, -1), w->dim, -1);
    return !rows || selects(w, rows) ? rows : fac__s_sort(rows, -1, false).values;
}

/* [k], or [*, k] where each row has numbers of its own. */
static fac_tensor *ranks_of(const quantiles *w, fac_tensor *rows) {
    const int64_t last = rows->sizes[rows->ndim - 1] - 1;
    fac_tensor *q = last > 1 << 24 ? cast(w->q, FAC_F64) : w->q;
    if (!w->skip_nans) return fac__s_mul_Scalar(q, fac_scalar_i_(last));
    fac_tensor *numbers = sum_along(fac__s_logical_not(fac__s_isnan(rows)), -1, true);
    fac_tensor *last_one = fac__s_clamp_min(plus(numbers, -1), fac_scalar_i_(0));
    return mul(q, cast(last_one, q ? (fac_dtype)q->dtype : FAC_F64));
}

/* Elements of sorted rows at ranks, which are the same for all rows or not. */
static fac_tensor *elements_at(fac_tensor *rows, fac_tensor *ranks) {
    fac_tensor *at = cast(ranks, FAC_I64);
    if (!at) return NULL;
    return at->ndim == 1 ? fac__s_index_select(rows, -1, at) : fac__s_gather(rows, -1, at, false);
}

/* Elements that rows have at ranks once they are sorted. */
static fac_tensor *selected_at(fac_tensor *rows, fac_tensor *ranks) {
    fac_tensor *chosen[FEW_QUANTILES];
    const int64_t n = ranks ? ranks->sizes[0] : 0;
    for (int64_t i = 0; i < n; i++) {
        fac_tensor *rank = fac__s_select_int(ranks, 0, i);
        if (!rank) return NULL;
        chosen[i] = fac__s_kthvalue(rows, (int64_t)fac__scalar_f64(fac__s_item(rank)) + 1, -1, true).values;
        if (!chosen[i]) return NULL;
    }
    return n > 1 ? fac__s_cat((fac_tensors){chosen, (size_t)n}, -1) : n ? chosen[0] : NULL;
}

static bool are_whole(fac_tensor *below, fac_tensor *above) {
    bool same = false;
    return below && above && fac__c_equal(below, above, &same) == FAC_OK && same;
}

static fac_tensor *interpolated(const quantiles *w, fac_tensor *rows, fac_tensor *ranks) {
    fac_tensor *(*const at)(fac_tensor *, fac_tensor *) = selects(w, rows) ? selected_at : elements_at;
    fac_tensor *below = fac__s_floor(ranks), *above = fac__s_ceil(ranks);
    if (w->way == QUANTILE_LOWER) return at(rows, below);
    if (w->way == QUANTILE_HIGHER) return at(rows, above);
    if (w->way == QUANTILE_NEAREST) return at(rows, fac__s_round(ranks));
    fac_tensor *low = at(rows, below);
    fac_tensor *high = at == selected_at && are_whole(below, above) ? low : at(rows, above);
    if (w->way == QUANTILE_MIDPOINT) return fac__s_lerp_Scalar(low, high, fac_scalar_f_(0.5));
    return fac__s_lerp_Tensor(low, high, cast(sub(ranks, below), (fac_dtype)w->self->dtype));
}

/* A row with a NaN, which is the last element of sorted ones, has no quantiles but that. */
static fac_tensor *spoilt_by_nans(const quantiles *w, fac_tensor *rows, fac_tensor *values) {
    if (!rows) return NULL;
    fac_tensor *last = selects(w, rows) ? rows : fac__s_narrow(rows, -1, rows->sizes[rows->ndim - 1] - 1, 1);
    fac_tensor *nan = fac__s_isnan(last);
    return fill_where(values, last == rows ? fac__s_any_dim(nan, -1, true) : nan, (double)__builtin_nanf(""));
}

/* ---- the result's shape -------------------------------------------------------------------------------------------------- */

/* [*, 1, #, k] or, of one row, [k], to what was asked for. */
static fac_tensor *arranged(const quantiles *w, fac_tensor *values) {
    int64_t sizes[FAC_MAX_DIMS];
    size_t n = 0;
    if (w->flat) {
        if (w->many) sizes[n++] = w->q->numel;
        for (int d = 0; w->keepdim && d < w->self->ndim; d++) sizes[n++] = 1;
        return fac__s_reshape(values, (fac_ints){sizes, n});
    }
    if (!w->keepdim) values = fac__s_squeeze_dim(values, w->dim);
    return w->many ? fac__s_movedim_int(values, -1, 0) : fac__s_squeeze_dim(values, -1);
}

static fac_status compute(quantiles *w, fac_opt_int dim, const char *way, fac_tensor **out) {
    FAC_TRY(find_way(way, &w->way));
    w->flat = !dim.set || w->self->ndim == 0;
    if (dim.set) FAC_TRY(fac__wrap_dim(dim.v, w->self->ndim, &w->dim));
    FAC_CHECK(w->self->ndim < FAC_MAX_DIMS, FAC_ERR_SHAPE, "a tensor of %d dimensions has too many", w->self->ndim);
    FAC_SCOPE(s);
    w->many = w->q->ndim == 1;
    if (!w->many) w->q = fac__s_unsqueeze(w->q, 0);
    fac_tensor *rows = rows_of(w);
    if (!rows || !w->q) return fac_error();
    fac_tensor *values = interpolated(w, rows, ranks_of(w, rows));
    if (!w->skip_nans) values = spoilt_by_nans(w, rows, values);
    return fac__give(out, arranged(w, values));
}

/* ---- operators --------------------------------------------------------------------------------------------------------------- */

static fac_status of_tensor(fac_tensor *self, fac_tensor *q, fac_opt_int dim, bool keepdim, const char *way,
                            bool skip_nans, fac_tensor **out) {
    FAC_TRY(check_self(self));
    FAC_TRY(check_q(self, q));
    quantiles w = {.self = self, .q = q, .keepdim = keepdim, .skip_nans = skip_nans};
    return compute(&w, dim, way, out);
}

static fac_status of_number(fac_tensor *self, double q, fac_opt_int dim, bool keepdim, const char *way, bool skip_nans,
                            fac_tensor **out) {
    FAC_TRY(check_self(self));
    FAC_CHECK(q >= 0 && q <= 1, FAC_ERR_ARGUMENT, "q must be in the range [0, 1] but got %g", q);
    FAC_SCOPE(s);
    quantiles w = {.self = self, .keepdim = keepdim, .skip_nans = skip_nans};
    w.q = fac__s_scalar_tensor(fac_scalar_f_(q), (fac_dtype)self->dtype, FAC_STRIDED, self->device, (fac_opt_num){0});
    return w.q ? compute(&w, dim, way, out) : fac_error();
}

fac_status quantile_composite(const fac_call_info *c, fac_tensor *self, fac_tensor *q, fac_opt_int dim, bool keepdim,
                              const char *way, fac_tensor **out) {
    (void)c;
    return of_tensor(self, q, dim, keepdim, way, false, out);
}

fac_status quantile_scalar_composite(const fac_call_info *c, fac_tensor *self, double q, fac_opt_int dim, bool keepdim,
                                     const char *way, fac_tensor **out) {
    (void)c;
    return of_number(self, q, dim, keepdim, way, false, out);
}

fac_status nanquantile_composite(const fac_call_info *c, fac_tensor *self, fac_tensor *q, fac_opt_int dim, bool keepdim,
                                 const char *way, fac_tensor **out) {
    (void)c;
    return of_tensor(self, q, dim, keepdim, way, true, out);
}

fac_status nanquantile_scalar_composite(const fac_call_info *c, fac_tensor *self, double q, fac_opt_int dim,
                                        bool keepdim, const char *way, fac_tensor **out) {
    (void)c;
    return of_number(self, q, dim, keepdim, way, true, out);
}
