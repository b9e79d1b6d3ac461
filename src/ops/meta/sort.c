/* Output rules of sorting operators: values like self, positions as int64. */
#include "ops_gen.h"

static fac_status need_order(const fac_tensor *self, bool with_bool) {
    fac_dtype d = (fac_dtype)self->dtype;
    FAC_CHECK(!fac_dtype_is_complex(d) && (with_bool || d != FAC_BOOL), FAC_ERR_DTYPE,
              "not implemented for %s, which has no order", fac_dtype_name(d));
    return FAC_OK;
}

static fac_status declare_both(fac_structured *s, fac_tensor *self, const int64_t *sizes, int ndim) {
    FAC_TRY(fac_out_declare(s, 0, sizes, NULL, ndim, (fac_dtype)self->dtype, self->device));
    FAC_TRY(fac_out_declare(s, 1, sizes, NULL, ndim, FAC_I64, self->device));
    FAC_TRY(fac_out_check_overlap(s, 0, self, false));
    return fac_out_check_overlap(s, 1, self, false);
}

static fac_status sort_like(fac_structured *s, fac_tensor *self, int64_t dim) {
    FAC_TRY(need_order(self, true));
    FAC_TRY(fac__wrap_dim(dim, self->ndim, &s->carry[0]));
    FAC_TRY(fac_out_declare_like(s, 0, self, (fac_dtype)self->dtype));
    FAC_TRY(fac_out_declare_like(s, 1, self, FAC_I64));
    FAC_TRY(fac_out_check_overlap(s, 0, self, false)); /* rows are written while others are read */
    return fac_out_check_overlap(s, 1, self, false);
}

fac_status sort_meta(fac_structured *s, fac_tensor *self, int64_t dim, bool descending) {
    (void)descending;
    return sort_like(s, self, dim);
}

fac_status sort_stable_meta(fac_structured *s, fac_tensor *self, fac_opt_num stable, int64_t dim, bool descending) {
    (void)stable, (void)descending;
    return sort_like(s, self, dim);
}

fac_status topk_meta(fac_structured *s, fac_tensor *self, int64_t k, int64_t dim, bool largest, bool sorted) {
    (void)largest, (void)sorted;
    int64_t d, sizes[FAC_MAX_DIMS], n;
    FAC_TRY(need_order(self, false));
    FAC_TRY(fac__wrap_dim(dim, self->ndim, &d));
    n = self->ndim ? self->sizes[d] : 1;
    FAC_CHECK(k >= 0 && k <= n, FAC_ERR_INDEX, "selected index k out of range: k is %lld, dimension %lld has size %lld",
              (long long)k, (long long)d, (long long)n);
    memcpy(sizes, self->sizes, self->ndim * sizeof *sizes);
    if (self->ndim) sizes[d] = k;
    s->carry[0] = d;
    return declare_both(s, self, sizes, self->ndim);
}

/* One value per row along dim: the sizes without it, or with a size of 1. */
static fac_status declare_one_of_row(fac_structured *s, fac_tensor *self, int64_t d, bool keepdim) {
    int64_t sizes[FAC_MAX_DIMS];
    int n = 0;
    for (int e = 0; e < self->ndim; e++) {
        if (e != d)
            sizes[n++] = self->sizes[e];
        else if (keepdim)
            sizes[n++] = 1;
    }
    s->carry[0] = d;
    return declare_both(s, self, sizes, n);
}

fac_status kthvalue_meta(fac_structured *s, fac_tensor *self, int64_t k, int64_t dim, bool keepdim) {
    int64_t d, n;
    FAC_TRY(need_order(self, true));
    FAC_TRY(fac__wrap_dim(dim, self->ndim, &d));
    n = self->ndim ? self->sizes[d] : 1;
    FAC_CHECK(k >= 1 && k <= n, FAC_ERR_INDEX,
              "selected number k out of range for dimension %lld: k is %lld, its size %lld", (long long)d, (long long)k,
              (long long)n);
    return declare_one_of_row(s, self, d, keepdim);
}

fac_status median_meta(fac_structured *s, fac_tensor *self, int64_t dim, bool keepdim) {
    int64_t d;
    FAC_TRY(need_order(self, false));
    FAC_TRY(fac__wrap_dim(dim, self->ndim, &d));
    FAC_CHECK(self->ndim == 0 || self->sizes[d] > 0, FAC_ERR_INDEX,
              "Expected reduction dim %lld to have non-zero size.", (long long)d);
    return declare_one_of_row(s, self, d, keepdim);
}

fac_status mode_meta(fac_structured *s, fac_tensor *self, int64_t dim, bool keepdim) {
    int64_t d;
    FAC_TRY(need_order(self, true));
    FAC_TRY(fac__wrap_dim(dim, self->ndim, &d));
    FAC_CHECK(self->ndim == 0 || self->sizes[d] > 0, FAC_ERR_INDEX,
              "Expected reduction dim %lld to have non-zero size.", (long long)d);
    return declare_one_of_row(s, self, d, keepdim);
}
