/* Upsample: the operator for a mode and a number of dimensions. */
#include "nn/layers.h"
#include <facula/ops.h>
#include <math.h>

enum { MAX_DIMS = 3 };

static bool is(const char *mode, const char *other) { return strcmp(mode, other) == 0; }
static bool is_nearest(const char *mode) { return is(mode, "nearest") || is(mode, "nearest-exact"); }

fac_status fac__check_upsample(fac_module *m, fac_ints size, fac_floats scale, const char *mode, int align_corners,
                               int recompute_scale_factor) {
    const char *name = m->cls->name;
    FAC_CHECK(!size.n != !scale.n, FAC_ERR_ARGUMENT, "%s: either size or scale_factor should be given", name);
    FAC_CHECK(size.n <= MAX_DIMS && scale.n <= MAX_DIMS, FAC_ERR_ARGUMENT,
              "%s: size and scale_factor are of one to three dimensions", name);
    FAC_CHECK(recompute_scale_factor <= 0 || !size.n, FAC_ERR_ARGUMENT,
              "%s: recompute_scale_factor goes with a scale_factor, not with a size", name);
    FAC_CHECK(align_corners < 0 || !is_nearest(mode), FAC_ERR_ARGUMENT,
              "%s: align_corners goes with linear, bilinear, bicubic and trilinear alone, not with %s", name, mode);
    return FAC_OK;
}

static fac_tensor *resize(fac_tensor *x, int dims, fac_ints size, fac_floats scale, const char *mode, bool align) {
    if (is(mode, "nearest"))
        return dims == 1   ? fac_upsample_nearest1d(x, size, scale)
               : dims == 2 ? fac_upsample_nearest2d(x, size, scale)
                           : fac_upsample_nearest3d(x, size, scale);
    if (is(mode, "nearest-exact"))
        return dims == 1   ? fac_upsample_nearest_exact1d(x, size, scale)
               : dims == 2 ? fac_upsample_nearest_exact2d(x, size, scale)
                           : fac_upsample_nearest_exact3d(x, size, scale);
    if (dims == 1 && is(mode, "linear")) return fac_upsample_linear1d(x, size, align, scale);
    if (dims == 2 && is(mode, "bilinear")) return fac_upsample_bilinear2d(x, size, align, scale);
    if (dims == 2 && is(mode, "bicubic")) return fac_upsample_bicubic2d(x, size, align, scale);
    if (dims == 3 && is(mode, "trilinear")) return fac_upsample_trilinear3d(x, size, align, scale);
    FAC_FAIL(FAC_ERR_SHAPE, "Upsample: mode %s does not take an input of %d dimensions", mode, dims + 2);
    return NULL;
}

/* The number for dimension d: there is one for each, or one for all. */
#define ONE_OF(list, d) ((list).v[(list).n == 1 ? 0 : (d)])

fac_tensor *fac__upsample_forward(fac_tensor *x, fac_ints size, fac_floats scale, const char *mode, int align_corners,
                                  int recompute_scale_factor) {
    const int dims = fac_tensor_ndim(x) - 2;
    const size_t given = size.n + scale.n;
    if (dims < 1 || dims > MAX_DIMS || (given != 1 && given != (size_t)dims)) {
        FAC_FAIL(FAC_ERR_SHAPE, "Upsample: %zu sizes or factors do not go with an input of %d dimensions", given,
                 dims + 2);
        return NULL;
    }
    int64_t sizes[MAX_DIMS] = {0};
    double factors[MAX_DIMS] = {0};
    for (int d = 0; d < dims; d++) {
        if (scale.n) factors[d] = ONE_OF(scale, d);
        sizes[d] = size.n ? ONE_OF(size, d) : (int64_t)floor((double)fac_tensor_size(x, d + 2) * factors[d]);
    }
    const bool by_size = size.n || recompute_scale_factor > 0;
    return resize(x, dims, by_size ? fac_ints_of(sizes, (size_t)dims) : (fac_ints){NULL, 0},
                  by_size ? (fac_floats){NULL, 0} : (fac_floats){factors, (size_t)dims}, mode, align_corners > 0);
}
