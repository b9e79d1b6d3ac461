/* Shapes and dtypes of pooling; the geometry is ops/pool.c's. */
#include "ops/pool.h"
#include "ops/structured.h"
#include "ops_gen.h"

static fac_status check_average(const fac_tensor *self, fac_opt_int divisor) {
    FAC_CHECK(fac_dtype_is_floating((fac_dtype)self->dtype) || self->dtype == FAC_I64, FAC_ERR_DTYPE,
              "average pooling takes floating or int64 tensors, got %s", fac_dtype_name((fac_dtype)self->dtype));
    FAC_CHECK(!divisor.set || divisor.v != 0, FAC_ERR_ARGUMENT, "divisor must be not zero");
    return FAC_OK;
}

static fac_status check_max(const fac_tensor *self) {
    fac_dtype d = (fac_dtype)self->dtype;
    FAC_CHECK(fac_dtype_is_floating(d) || fac_dtype_is_integral(d, false), FAC_ERR_DTYPE,
              "max pooling takes real tensors, got %s", fac_dtype_name(d));
    return FAC_OK;
}

static fac_status declare(fac_structured *s, const fac_tensor *self, const fac_pool *p, bool indices) {
    const fac_memory_format f = fac__pool_format(p, self, indices);
    FAC_TRY(fac_out_declare_format(s, 0, p->sizes, p->ndim, (fac_dtype)self->dtype, self->device, f));
    return indices ? fac_out_declare_format(s, 1, p->sizes, p->ndim, FAC_I64, self->device, f) : FAC_OK;
}

static fac_status check_result(const char *name, const fac_tensor *t, const fac_pool *p, fac_dtype dtype) {
    FAC_CHECK(fac__has_sizes(t, p->sizes, p->ndim), FAC_ERR_SHAPE, "Expected %s to have the pooled size %s, but got %s",
              name, fac__shape_text(p->sizes, p->ndim, (char[256]){0}, 256), FAC_SHAPE_TEXT(t));
    FAC_CHECK(t->dtype == dtype, FAC_ERR_DTYPE, "Expected %s to be %s, but got %s", name, fac_dtype_name(dtype),
              fac_dtype_name((fac_dtype)t->dtype));
    return FAC_OK;
}

/* A gradient like self, from grad_output (and indices, or NULL) of the pooled size. */
static fac_status declare_backward(fac_structured *s, const fac_tensor *grad, const fac_tensor *self,
                                   const fac_tensor *indices, const fac_pool *p) {
    FAC_TRY(check_result("grad_output", grad, p, (fac_dtype)self->dtype));
    if (indices) FAC_TRY(check_result("indices", indices, p, FAC_I64));
    return fac_out_declare_format(s, 0, self->sizes, self->ndim, (fac_dtype)self->dtype, self->device,
                                  fac__pool_format(p, self, indices));
}

/* The sizes of a pooled tensor's windows dimensions, as adaptive pooling's output_size. */
static fac_ints pooled_size(const fac_tensor *grad, int nd) {
    return grad->ndim > nd ? (fac_ints){grad->sizes + grad->ndim - nd, (size_t)nd}
                           : (fac_ints){grad->sizes, grad->ndim};
}

#define POOL_META(nd)                                                                                                 \
    fac_status max_pool##nd##d_with_indices_meta(fac_structured *s, fac_tensor *self, fac_ints kernel_size,           \
                                                 fac_ints stride, fac_ints padding, fac_ints dilation,                \
                                                 bool ceil_mode) {                                                    \
        fac_pool p;                                                                                                   \
        FAC_TRY(check_max(self));                                                                                     \
        FAC_TRY(fac__pool_plan(nd, self, &(fac_pool_args){kernel_size, stride, padding, dilation, ceil_mode}, &p));   \
        return declare(s, self, &p, true);                                                                            \
    }                                                                                                                 \
    fac_status max_pool##nd##d_with_indices_backward_meta(                                                            \
        fac_structured *s, fac_tensor *grad_output, fac_tensor *self, fac_ints kernel_size, fac_ints stride,          \
        fac_ints padding, fac_ints dilation, bool ceil_mode, fac_tensor *indices) {                                   \
        fac_pool p;                                                                                                   \
        FAC_TRY(check_max(self));                                                                                     \
        FAC_TRY(fac__pool_plan(nd, self, &(fac_pool_args){kernel_size, stride, padding, dilation, ceil_mode}, &p));   \
        return declare_backward(s, grad_output, self, indices, &p);                                                   \
    }                                                                                                                 \
    fac_status avg_pool##nd##d_meta(fac_structured *s, fac_tensor *self, fac_ints kernel_size, fac_ints stride,       \
                                    fac_ints padding, bool ceil_mode, bool count_include_pad,                         \
                                    fac_opt_int divisor_override) {                                                   \
        (void)count_include_pad;                                                                                      \
        fac_pool p;                                                                                                   \
        FAC_TRY(check_average(self, divisor_override));                                                               \
        FAC_TRY(fac__pool_plan(                                                                                       \
            nd, self,                                                                                                 \
            &(fac_pool_args){.kernel = kernel_size, .stride = stride, .padding = padding, .ceil_mode = ceil_mode},    \
            &p));                                                                                                     \
        return declare(s, self, &p, false);                                                                           \
    }                                                                                                                 \
    fac_status avg_pool##nd##d_backward_meta(fac_structured *s, fac_tensor *grad_output, fac_tensor *self,            \
                                             fac_ints kernel_size, fac_ints stride, fac_ints padding, bool ceil_mode, \
                                             bool count_include_pad, fac_opt_int divisor_override) {                  \
        (void)count_include_pad;                                                                                      \
        fac_pool p;                                                                                                   \
        FAC_TRY(check_average(self, divisor_override));                                                               \
        FAC_TRY(fac__pool_plan(                                                                                       \
            nd, self,                                                                                                 \
            &(fac_pool_args){.kernel = kernel_size, .stride = stride, .padding = padding, .ceil_mode = ceil_mode},    \
            &p));                                                                                                     \
        return declare_backward(s, grad_output, self, NULL, &p);                                                      \
    }                                                                                                                 \
    fac_status adaptive_avg_pool##nd##d_meta(fac_structured *s, fac_tensor *self, fac_ints output_size) {             \
        fac_pool p;                                                                                                   \
        FAC_TRY(check_average(self, (fac_opt_int){0}));                                                               \
        FAC_TRY(fac__pool_plan_adaptive(nd, self, output_size, &p));                                                  \
        return declare(s, self, &p, false);                                                                           \
    }                                                                                                                 \
    fac_status adaptive_avg_pool##nd##d_backward_meta(fac_structured *s, fac_tensor *grad_output, fac_tensor *self) { \
        fac_pool p;                                                                                                   \
        FAC_TRY(check_average(self, (fac_opt_int){0}));                                                               \
        FAC_TRY(fac__pool_plan_adaptive(nd, self, pooled_size(grad_output, nd), &p));                                 \
        return declare_backward(s, grad_output, self, NULL, &p);                                                      \
    }                                                                                                                 \
    fac_status adaptive_max_pool##nd##d_meta(fac_structured *s, fac_tensor *self, fac_ints output_size) {             \
        fac_pool p;                                                                                                   \
        FAC_TRY(check_max(self));                                                                                     \
        FAC_TRY(fac__pool_plan_adaptive(nd, self, output_size, &p));                                                  \
        return declare(s, self, &p, true);                                                                            \
    }                                                                                                                 \
    fac_status adaptive_max_pool##nd##d_backward_meta(fac_structured *s, fac_tensor *grad_output, fac_tensor *self,   \
                                                      fac_tensor *indices) {                                          \
        fac_pool p;                                                                                                   \
        FAC_TRY(check_max(self));                                                                                     \
        FAC_TRY(fac__pool_plan_adaptive(nd, self, pooled_size(grad_output, nd), &p));                                 \
        return declare_backward(s, grad_output, self, indices, &p);                                                   \
    }
POOL_META(2)
POOL_META(3)
