/* Sampling at given points by the number of coordinates, and the points of affine maps. */
#include "ops/grid.h"
#include "ops/composite/brief.h"

fac_status grid_sampler_composite(const fac_call_info *c, fac_tensor *input, fac_tensor *grid,
                                  int64_t interpolation_mode, int64_t padding_mode, bool align_corners,
                                  fac_tensor **out) {
    (void)c;
    FAC_CHECK(input->ndim == 4 || input->ndim == 5, FAC_ERR_SHAPE,
              "expected 4D or 5D input, but got input with sizes %s", FAC_SHAPE_TEXT(input));
    return input->ndim == 4 ? fac__c_grid_sampler_2d(input, grid, interpolation_mode, padding_mode, align_corners, out)
                            : fac__c_grid_sampler_3d(input, grid, interpolation_mode, padding_mode, align_corners, out);
}

/* ---- affine maps ---------------------------------------------------------------------------------------------------------- */

/* size is that of the sampled tensor: [n, c, spatial...]. */
static fac_status check_size(fac_ints size) {
    int64_t unused;
    FAC_CHECK(size.n == 4 || size.n == 5, FAC_ERR_ARGUMENT,
              "AffineGridGenerator needs 4d (spatial) or 5d (volumetric) size, got %zu numbers", size.n);
    for (size_t d = 0; d < size.n; d++)
        FAC_CHECK(size.v[d] > 0, FAC_ERR_ARGUMENT, "Expected non-zero, positive output size. Got %s",
                  fac__shape_text(size.v, (int)size.n, (char[256]){0}, 256));
    FAC_CHECK(fac__numel(size.v, (int)size.n, &unused), FAC_ERR_OVERFLOW, "an affine grid of this size is too large");
    return FAC_OK;
}

static fac_status check_floating(const char *name, const fac_tensor *t) {
    FAC_CHECK(fac_dtype_is_floating((fac_dtype)t->dtype), FAC_ERR_DTYPE,
              "Expected %s to have floating point type, but got %s", name, fac_dtype_name((fac_dtype)t->dtype));
    return FAC_OK;
}

/* From -1 to 1: the middles of n cells, or with align_corners the ends of n - 1. */
static fac_tensor *coordinates(fac_tensor *like, int64_t n, bool align_corners, fac_dtype d) {
    if (n == 1) return fac__s_new_zeros(like, FAC_INTS(1), d, FAC_STRIDED, like->device, (fac_opt_num){0});
    fac_tensor *t =
        fac__s_linspace(fac_scalar_i_(-1), fac_scalar_i_(1), n, d, FAC_STRIDED, like->device, (fac_opt_num){0});
    return align_corners ? t : fac__s_div_Scalar(scaled(t, (double)(n - 1)), fac_scalar_i_(n));
}

/* A grid's points: their number along each dimension, and the dtype of their coordinates. Halves are computed in f32 and rounded once. */
typedef struct points {
    fac_ints size; /* [n, c, spatial...] */
    bool align_corners;
    fac_dtype dtype;
} points;

static fac_dtype computed_in(fac_dtype d) { return fac__is_half(d) ? FAC_F32 : d; }

/* Those along spatial dimension d, in the dtype that computes. */
static fac_tensor *line_along(fac_tensor *like, const points *p, size_t d) {
    return cast(coordinates(like, p->size.v[2 + d], p->align_corners, p->dtype), computed_in(p->dtype));
}

/* Column k of the matrices, [N, 1, ..., nd]. */
static fac_tensor *column_of(fac_tensor *theta, size_t nd, size_t k) {
    int64_t shape[FAC_GRID_DIMS + 2] = {theta->sizes[0], 1, 1, 1, 1};
    shape[nd + 1] = (int64_t)nd;
    return fac__s_reshape(fac__s_select_int(theta, 2, (int64_t)k), (fac_ints){shape, nd + 2});
}

/* The sum over the coordinates of a column times a line each: the last one alone makes something of the grid's size. */
static fac_tensor *moved_grid(fac_tensor *theta, const points *p) {
    if (!theta) return NULL; /* the cast failed */
    const size_t nd = p->size.n - 2;
    fac_tensor *moved = column_of(theta, nd, nd);
    for (size_t d = 0; d < nd; d++) { /* the first coordinate is along the last dimension */
        int64_t shape[FAC_GRID_DIMS + 2] = {1, 1, 1, 1, 1};
        shape[1 + d] = p->size.v[2 + d];
        fac_tensor *line = fac__s_reshape(line_along(theta, p, d), (fac_ints){shape, nd + 2});
        moved = add(moved, mul(column_of(theta, nd, nd - 1 - d), line));
    }
    return moved;
}

/* The gradient of each column: sums over all dimensions but one, and of those times the line of coordinates. */
static fac_tensor *columns_of_grad(fac_tensor *grad, const points *p) {
    const size_t nd = p->size.n - 2;
    fac_tensor *columns[FAC_GRID_DIMS + 1];
    for (size_t d = 0; d < nd; d++) {
        int64_t others[FAC_GRID_DIMS];
        size_t n = 0;
        for (size_t k = 0; k < nd; k++)
            if (k != d) others[n++] = 1 + (int64_t)k;
        fac_tensor *sums = fac__s_sum_dim_IntList(grad, (fac_ints){others, n}, false, computed_in(p->dtype));
        fac_tensor *line = fac__s_reshape(line_along(grad, p, d), FAC_INTS(1, -1, 1));
        columns[nd - 1 - d] = sum_along(mul(sums, line), 1, false);
        if (d == 0) columns[nd] = sum_along(sums, 1, false);
    }
    for (size_t k = 0; k <= nd; k++)
        if (!columns[k]) return NULL;
    return fac__s_stack((fac_tensors){columns, nd + 1}, -1);
}

fac_status affine_grid_generator_composite(const fac_call_info *c, fac_tensor *theta, fac_ints size, bool align_corners,
                                           fac_tensor **out) {
    (void)c;
    FAC_TRY(check_size(size));
    FAC_TRY(check_floating("theta", theta));
    const int64_t nd = (int64_t)size.n - 2;
    FAC_CHECK(theta->ndim == 3 && theta->sizes[0] == size.v[0] && theta->sizes[1] == nd && theta->sizes[2] == nd + 1,
              FAC_ERR_SHAPE, "Expected a batch of affine matrices of shape %lldx%lldx%lld, but got %s",
              (long long)size.v[0], (long long)nd, (long long)(nd + 1), FAC_SHAPE_TEXT(theta));
    FAC_SCOPE(s);
    const points p = {size, align_corners, (fac_dtype)theta->dtype};
    return fac__give(out, cast(moved_grid(cast(theta, computed_in(p.dtype)), &p), p.dtype));
}

fac_status affine_grid_generator_backward_composite(const fac_call_info *c, fac_tensor *grad, fac_ints size,
                                                    bool align_corners, fac_tensor **out) {
    (void)c;
    FAC_TRY(check_size(size));
    FAC_TRY(check_floating("grad", grad));
    const int64_t nd = (int64_t)size.n - 2;
    bool fits = grad->ndim == nd + 2 && grad->sizes[0] == size.v[0] && grad->sizes[nd + 1] == nd;
    for (int64_t d = 0; d < nd && fits; d++) fits = grad->sizes[1 + d] == size.v[2 + d];
    FAC_CHECK(fits, FAC_ERR_SHAPE, "grad %s is not of a grid for the size %s", FAC_SHAPE_TEXT(grad),
              fac__shape_text(size.v, (int)size.n, (char[256]){0}, 256));
    FAC_SCOPE(s);
    const points p = {size, align_corners, (fac_dtype)grad->dtype};
    return fac__give(out, cast(columns_of_grad(grad, &p), p.dtype));
}
