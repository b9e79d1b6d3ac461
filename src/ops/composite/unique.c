/* Unique slices along a dimension: neighbours are compared as rows, and sorting puts equal slices beside each other. */
#include "ops/composite/unique.h"
#include "ops/composite/below.h"
#include "ops/composite/brief.h"
#include <facula/autograd.h>

static fac_tensor *range(const fac_tensor *like, int64_t n) {
    return fac__s_arange(fac_scalar_i_(n), FAC_I64, FAC_STRIDED, like->device, (fac_opt_num){0});
}

/* [n, m]: each slice as a row, in its own row-major order, which decides the order of the slices. */
static fac_tensor *rows_of(fac_tensor *self, int64_t dim) {
    int64_t n = self->sizes[dim], m = n ? self->numel / n : 0;
    return fac__s_reshape(fac__s_movedim_int(self, dim, 0), FAC_INTS(n, m));
}

static fac_status check_slices(const fac_tensor *self, int64_t dim, int64_t *out_dim) {
    FAC_CHECK(self->ndim > 0, FAC_ERR_SHAPE, "unique along a dimension needs a tensor that has one");
    FAC_TRY(fac__wrap_dim(dim, self->ndim, out_dim));
    FAC_CHECK(self->numel > 0 || self->sizes[*out_dim] == 0, FAC_ERR_SHAPE,
              "There are 0 sized dimensions, and they aren't selected, so unique cannot be applied");
    return FAC_OK;
}

/* True where a slice begins a group: the first one, and each that differs from the one before. */
static fac_tensor *beginnings(fac_tensor *rows) {
    int64_t n = rows ? rows->sizes[0] : 0;
    fac_tensor *differ =
        fac__s_any_dim(fac__s_ne_Tensor(fac__s_narrow(rows, 0, 1, n - 1), fac__s_narrow(rows, 0, 0, n - 1)), 1, false);
    fac_tensor *first = fac__s_ones(FAC_INTS(1), FAC_BOOL, FAC_STRIDED, (fac_device){0}, (fac_opt_num){0});
    return n == 1 ? first : fac__s_cat((fac_tensors){(fac_tensor *[]){first, differ}, 2}, 0);
}

/* Without slices: nothing, no groups, no sizes. */
static fac_status of_nothing(fac_tensor *self, fac_tensor **out) {
    return fac__give_three(out, fac__s_clone(self, FAC_CONTIGUOUS), range(self, 0), range(self, 0));
}

fac_status fac__unique_slices(fac_tensor *self, int64_t dim, fac_tensor **out) {
    int64_t d;
    FAC_TRY(check_slices(self, dim, &d));
    FAC_NO_GRAD(guard);
    FAC_SCOPE(s);
    int64_t n = self->sizes[d];
    if (n == 0) return of_nothing(self, out);
    fac_tensor *begins = beginnings(rows_of(self, d)), *at = fac__s_reshape(fac__s_nonzero(begins), FAC_INTS(-1));
    fac_tensor *inverse = fac__s_sub_Scalar(fac__s_cumsum(begins, 0, FAC_I64), fac_scalar_i_(1), fac_scalar_i_(1));
    fac_tensor *end = fac__s_add_Scalar(range(self, 1), fac_scalar_i_(n), fac_scalar_i_(1));
    fac_tensor *bounds = fac__s_cat((fac_tensors){(fac_tensor *[]){at, end}, 2}, 0);
    if (!bounds) return fac_error();
    int64_t groups = bounds->numel - 1;
    fac_tensor *counts = sub(fac__s_narrow(bounds, 0, 1, groups), fac__s_narrow(bounds, 0, 0, groups));
    return fac__give_three(out, fac__s_index_select(self, d, at), inverse, counts);
}

/* The order of rows by their first element, then the second ...: stable sorts from the last one on. */
static fac_tensor *order_of_rows(fac_tensor *rows) {
    fac_tensor *order = rows ? range(rows, rows->sizes[0]) : NULL;
    for (int64_t j = rows ? rows->sizes[1] - 1 : -1; j >= 0 && order; j--) {
        fac_tensor *column = fac__s_index_select(fac__s_select_int(rows, 1, j), 0, order);
        order = fac__s_index_select(order, 0, fac__s_argsort_stable(column, true, 0, false));
    }
    return order;
}

fac_status unique_dim_cpu(const fac_call_info *c, fac_tensor *self, int64_t dim, bool sorted, bool return_inverse,
                          bool return_counts, fac_tensor **out) {
    (void)c, (void)sorted, (void)return_inverse, (void)return_counts; /* always sorted, and the rest is at hand */
    int64_t d;
    FAC_TRY(check_slices(self, dim, &d));
    FAC_NO_GRAD(guard);
    FAC_SCOPE(s);
    if (self->numel == 0) return of_nothing(self, out);
    fac_tensor *order = order_of_rows(rows_of(self, d)), *sorted_slices = fac__s_index_select(self, d, order);
    if (!sorted_slices) return fac_error();
    FAC_TRY(fac__unique_slices(sorted_slices, d, out));
    fac_tensor *inverse = fac__s_scatter_src(order, 0, order, out[1]);
    fac__unref(out[1]);
    out[1] = NULL;
    if (inverse) return fac__give(&out[1], inverse);
    for (int i = 0; i < 3; i += 2) fac__unref(out[i]), out[i] = NULL;
    return fac_error();
}
