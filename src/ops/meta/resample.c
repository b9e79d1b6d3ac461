/* Shapes and dtypes of resampling; the geometry is ops/resample.c's. */
#include "ops/resample.h"
#include "ops/meta/check.h"
#include "ops/structured.h"
#include "ops_gen.h"

typedef enum { PICKED, FLOATING, FLOATING_OR_U8 } allowed;

static fac_status check_dtype(const fac_tensor *t, allowed which) {
    const fac_dtype d = (fac_dtype)t->dtype;
    const bool fits = fac_dtype_is_floating(d) || (which == FLOATING_OR_U8 && d == FAC_U8) ||
                      (which == PICKED && fac_dtype_is_integral(d, true));
    FAC_CHECK(fits, FAC_ERR_DTYPE, "%s tensors are not resampled in this way", fac_dtype_name(d));
    return FAC_OK;
}

static fac_status declare(fac_structured *s, const fac_tensor *self, const fac_resample_args *args, allowed which) {
    fac_resample p;
    int64_t strides[FAC_RESAMPLE_DIMS + 2];
    FAC_TRY(check_dtype(self, which));
    FAC_TRY(fac__resample_plan(args, (fac_ints){self->sizes, self->ndim}, self, &p));
    fac__resample_strides(&p, p.out_sizes, strides);
    return fac_out_declare(s, 0, p.out_sizes, strides, p.ndim, (fac_dtype)self->dtype, self->device);
}

static fac_status declare_backward(fac_structured *s, const fac_tensor *grad, fac_ints input_size,
                                   const fac_resample_args *args) {
    fac_resample p;
    int64_t strides[FAC_RESAMPLE_DIMS + 2];
    FAC_TRY(check_dtype(grad, FLOATING));
    FAC_TRY(fac__resample_plan(args, input_size, grad, &p));
    FAC_TRY(fac__need_sizes("grad_output", grad, p.out_sizes, p.ndim));
    fac__resample_strides(&p, p.in_sizes, strides);
    return fac_out_declare(s, 0, p.in_sizes, strides, p.ndim, (fac_dtype)grad->dtype, grad->device);
}

/* The rules ask for sizes alone: which kind of the family it is makes no difference to them. */
#define SCALES_1 fac_opt_num scales
#define SCALES_2 fac_opt_num scales_h, fac_opt_num scales_w
#define SCALES_3 fac_opt_num scales_d, fac_opt_num scales_h, fac_opt_num scales_w
#define LIST_1 scales
#define LIST_2 scales_h, scales_w
#define LIST_3 scales_d, scales_h, scales_w

#define NEAREST_META(n)                                                                                               \
    fac_status upsample_nearest##n##d_meta(fac_structured *s, fac_tensor *self, fac_ints output_size, SCALES_##n) {   \
        return declare(s, self, &(fac_resample_args){FAC_RESAMPLE_NEAREST, n, output_size, false, {LIST_##n}},        \
                       PICKED);                                                                                       \
    }                                                                                                                 \
    fac_status upsample_nearest##n##d_backward_meta(fac_structured *s, fac_tensor *grad_output, fac_ints output_size, \
                                                    fac_ints input_size, SCALES_##n) {                                \
        return declare_backward(s, grad_output, input_size,                                                           \
                                &(fac_resample_args){FAC_RESAMPLE_NEAREST, n, output_size, false, {LIST_##n}});       \
    }
NEAREST_META(1)
NEAREST_META(2)
NEAREST_META(3)

#define SMOOTH_META(name, n, which)                                                                                    \
    fac_status name##_meta(fac_structured *s, fac_tensor *self, fac_ints output_size, bool align_corners,              \
                           SCALES_##n) {                                                                               \
        return declare(s, self, &(fac_resample_args){FAC_RESAMPLE_LINEAR, n, output_size, align_corners, {LIST_##n}},  \
                       which);                                                                                         \
    }                                                                                                                  \
    fac_status name##_backward_meta(fac_structured *s, fac_tensor *grad_output, fac_ints output_size,                  \
                                    fac_ints input_size, bool align_corners, SCALES_##n) {                             \
        return declare_backward(s, grad_output, input_size,                                                            \
                                &(fac_resample_args){FAC_RESAMPLE_LINEAR, n, output_size, align_corners, {LIST_##n}}); \
    }
SMOOTH_META(upsample_linear1d, 1, FLOATING)
SMOOTH_META(upsample_smooth2d, 2, FLOATING_OR_U8)
SMOOTH_META(upsample_linear3d, 3, FLOATING)
