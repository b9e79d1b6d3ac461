/* Resampling to a size or by factors: works out the size, and calls the operator of the kind. */
#include "ops/resample.h"
#include "core/scalar.h"
#include "ops/composite/brief.h"
#include <math.h>

/* What the two ways of saying a size come to. */
typedef struct target {
    int64_t size[FAC_RESAMPLE_DIMS];
    fac_opt_num scale[FAC_RESAMPLE_DIMS];
} target;

static fac_status target_of(const fac_tensor *t, int spatial, fac_ints output_size, fac_floats factors, target *out) {
    FAC_CHECK(t->ndim == spatial + 2, FAC_ERR_SHAPE, "It is expected input_size equals to %d, but got size %d",
              spatial + 2, t->ndim);
    FAC_CHECK((output_size.v != NULL) != (factors.v != NULL), FAC_ERR_ARGUMENT,
              "Must specify exactly one of output_size and scale_factors");
    FAC_CHECK((output_size.v ? output_size.n : factors.n) == (size_t)spatial, FAC_ERR_ARGUMENT,
              "expected %d sizes or scale factors", spatial);
    *out = (target){0};
    for (int d = 0; d < spatial; d++) {
        const double scaled = factors.v ? (double)t->sizes[d + 2] * factors.v[d] : 0;
        FAC_CHECK(fabs(scaled) < 0x1p62, FAC_ERR_ARGUMENT, "scale factor %g makes no size", factors.v[d]);
        out->size[d] = output_size.v ? output_size.v[d] : (int64_t)scaled;
        if (factors.v) out->scale[d] = (fac_opt_num){true, fac_scalar_f_(factors.v[d])};
        FAC_CHECK(t->sizes[d + 2] > 0 && out->size[d] > 0, FAC_ERR_SHAPE,
                  "Input and output sizes should be greater than 0, but got %lld and %lld", (long long)t->sizes[d + 2],
                  (long long)out->size[d]);
    }
    return FAC_OK;
}

#define SIZES(n) \
    (fac_ints) { to.size, n }
#define SCALES_1 to.scale[0]
#define SCALES_2 to.scale[0], to.scale[1]
#define SCALES_3 to.scale[0], to.scale[1], to.scale[2]

/* ---- nearest ------------------------------------------------------------------------------------------------------------- */

/* The source of each element along a dimension. Computed in single precision, like the positions that PyTorch takes. */
static fac_tensor *pick(fac_tensor *self, int64_t dim, int64_t size, float step) {
    fac_tensor *index = fac__s_arange(fac_scalar_i_(size), FAC_F32, FAC_STRIDED, self->device, (fac_opt_num){0});
    index = fac__s_floor(fac__s_mul_Scalar(index, fac_scalar_f_((double)step)));
    index = fac__s_clamp_max(cast(index, FAC_I64), fac_scalar_i_(self->sizes[dim] - 1));
    return fac__s_index_select(self, dim, index);
}

/* By operators that every device has. */
static fac_status nearest_by_index(fac_tensor *t, int spatial, const target *to, fac_tensor **out) {
    FAC_SCOPE(s);
    for (int d = 0; d < spatial && t; d++) {
        const float step = to->scale[d].set ? (float)(1 / fac__scalar_f64(to->scale[d].v))
                                            : (float)t->sizes[d + 2] / (float)to->size[d];
        t = pick(t, d + 2, to->size[d], step);
    }
    return fac__give(out, t);
}

/* The kernels are the CPU's, and refuse complex numbers, which are only moved here. */
static bool has_kernel(const fac_tensor *t) {
    return (t->device.type == FAC_CPU || t->device.type == FAC_META) && !fac_dtype_is_complex((fac_dtype)t->dtype);
}

#define NEAREST(n)                                                                                                     \
    fac_status upsample_nearest##n##d_vec_composite(const fac_call_info *c, fac_tensor *input, fac_ints output_size,   \
                                                    fac_floats scale_factors, fac_tensor **out) {                      \
        (void)c;                                                                                                       \
        target to;                                                                                                     \
        FAC_TRY(target_of(input, n, output_size, scale_factors, &to));                                                 \
        return has_kernel(input) ? fac__c_upsample_nearest##n##d(input, SIZES(n), SCALES_##n, out)                     \
                                 : nearest_by_index(input, n, &to, out);                                               \
    }                                                                                                                  \
    fac_status upsample_nearest_exact##n##d_vec_composite(                                                             \
        const fac_call_info *c, fac_tensor *input, fac_ints output_size, fac_floats scale_factors, fac_tensor **out) { \
        (void)c;                                                                                                       \
        target to;                                                                                                     \
        FAC_TRY(target_of(input, n, output_size, scale_factors, &to));                                                 \
        return fac__c__upsample_nearest_exact##n##d(input, SIZES(n), SCALES_##n, out);                                 \
    }
NEAREST(1)
NEAREST(2)
NEAREST(3)

/* ---- the others ----------------------------------------------------------------------------------------------------------- */

#define SMOOTH(name, op, n)                                                                           \
    fac_status name##_vec_composite(const fac_call_info *c, fac_tensor *input, fac_ints output_size,  \
                                    bool align_corners, fac_floats scale_factors, fac_tensor **out) { \
        (void)c;                                                                                      \
        target to;                                                                                    \
        FAC_TRY(target_of(input, n, output_size, scale_factors, &to));                                \
        return fac__c_##op(input, SIZES(n), align_corners, SCALES_##n, out);                          \
    }
SMOOTH(upsample_linear1d, upsample_linear1d, 1)
SMOOTH(upsample_bilinear2d, upsample_bilinear2d, 2)
SMOOTH(upsample_bicubic2d, upsample_bicubic2d, 2)
SMOOTH(upsample_trilinear3d, upsample_trilinear3d, 3)
SMOOTH(upsample_bilinear2d_aa, _upsample_bilinear2d_aa, 2)
SMOOTH(upsample_bicubic2d_aa, _upsample_bicubic2d_aa, 2)
