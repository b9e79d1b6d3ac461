/* Quantized operators made of others: choosing scales, batch normalisation, sums and products that broadcast, joining, pooling. */
#include "core/read.h"
#include "core/scalar.h"
#include "core/tensor_make.h"
#include "ops/coded.h"
#include "ops/composite/brief.h"
#include "ops/meta/check.h"
#include <math.h>

/* ---- scales and zero points --------------------------------------------------------------------------------------------- */

static fac_status read_numbers(fac_tensor *t, size_t n, double *out) {
    FAC_CHECK(t->numel == (int64_t)n, FAC_ERR_SHAPE, "expected %zu scales or zero points, but got %s", n,
              FAC_SHAPE_TEXT(t));
    FAC_CHECK(!fac_dtype_is_complex((fac_dtype)t->dtype), FAC_ERR_DTYPE, "scales and zero points are real");
    return fac__read(t, FAC_F64, out, n);
}

fac_status quantize_per_tensor_qparams_composite(const fac_call_info *c, fac_tensor *self, fac_tensor *scale,
                                                 fac_tensor *zero_point, fac_dtype dtype, fac_tensor **out) {
    (void)c;
    double s, z;
    FAC_TRY(read_numbers(scale, 1, &s));
    FAC_TRY(read_numbers(zero_point, 1, &z));
    return fac__c_quantize_per_tensor(self, s, fac__scalar_i64(fac_scalar_f_(z)), dtype, out);
}

fac_status quantize_per_tensor_tensors_composite(const fac_call_info *c, fac_tensors tensors, fac_tensor *scales,
                                                 fac_tensor *zero_points, fac_dtype dtype, fac_tensor_list *out) {
    (void)c;
    double *numbers = fac__alloc_array(2 * tensors.n + 1, sizeof *numbers);
    fac_tensor **v = fac__alloc_array(tensors.n + 1, sizeof *v);
    size_t n = 0;
    fac_status st = numbers && v ? FAC_OK : FAC_ERR_MEMORY;
    if (st == FAC_OK) st = read_numbers(scales, tensors.n, numbers);
    if (st == FAC_OK) st = read_numbers(zero_points, tensors.n, numbers + tensors.n);
    for (; n < tensors.n && st == FAC_OK; n += st == FAC_OK)
        st = fac__c_quantize_per_tensor(tensors.v[n], numbers[n],
                                        fac__scalar_i64(fac_scalar_f_(numbers[tensors.n + n])), dtype, &v[n]);
    fac__free(numbers);
    if (st == FAC_OK) {
        *out = (fac_tensor_list){v, n};
        return FAC_OK;
    }
    while (v && n--) fac__unref(v[n]);
    fac__free(v);
    return st;
}

/* The scale and zero point of the range [least, most], which is made to hold 0, for codes from q_least to q_most.
   source: the rule of torch.quantize_per_tensor_dynamic: the zero point follows from the end of the range that loses less. */
static void choose(float least, float most, int q_least, int q_most, double *out_scale, int64_t *out_zero) {
    const float smallest = 6.1e-5f;
    least = fminf(least, 0);
    most = fmaxf(most, 0);
    double scale = ((double)most - (double)least) / (q_most - q_least);
    if ((float)scale == 0 || isinf(1.0f / (float)scale)) scale = 0.1;
    if (scale < (double)smallest) {
        const float grow = smallest / (float)scale;
        least *= grow;
        most *= grow;
        if (least == 0) most = smallest * (float)(q_most - q_least);
        if (most == 0) least = -smallest * (float)(q_most - q_least);
        scale = (double)smallest;
    }
    const double low = q_least - (double)least / scale, high = q_most - (double)most / scale;
    const double low_error = fabs((double)q_least) - fabs((double)least / scale),
                 high_error = fabs((double)q_most) - fabs((double)most / scale);
    const double zero = rint(low_error < high_error ? low : high);
    *out_zero = (int64_t)fmin(fmax(zero, q_least), q_most);
    *out_scale = scale;
}

static fac_status extremes(fac_tensor *self, float *out_least, float *out_most) {
    *out_least = *out_most = 0;
    if (self->numel == 0) return FAC_OK;
    FAC_SCOPE(scope);
    fac_tensor *least = fac__s_min(self), *most = fac__s_max(self);
    FAC_TRY(fac_error());
    *out_least = (float)fac__item(least);
    *out_most = (float)fac__item(most);
    FAC_TRY(fac_error());
    FAC_CHECK(
        isfinite(*out_least) && isfinite(*out_most), FAC_ERR_ARGUMENT,
        "the range of codes follows from the least and the greatest element, which should be finite, but are %g and %g",
        (double)*out_least, (double)*out_most);
    return FAC_OK;
}

fac_status quantize_per_tensor_dynamic_composite(const fac_call_info *c, fac_tensor *self, fac_dtype dtype,
                                                 bool reduce_range, fac_tensor **out) {
    (void)c;
    float least, most;
    double scale;
    int64_t zero, q_least, q_most;
    FAC_CHECK(dtype == FAC_QINT8 || dtype == FAC_QUINT8, FAC_ERR_DTYPE,
              "dtype %s not supported: qint8 or quint8 is expected", fac_dtype_name(dtype));
    FAC_TRY(fac__need_dtype("self", self, FAC_F32));
    FAC_TRY(extremes(self, &least, &most));
    fac__code_range(dtype, &q_least, &q_most);
    const int half = reduce_range ? 2 : 1;
    choose(least, most, (int)q_least / half, (int)q_most / half, &scale, &zero);
    return fac__c_quantize_per_tensor(self, scale, zero, dtype, out);
}

fac_status dequantize_tensors_composite(const fac_call_info *c, fac_tensors tensors, fac_tensor_list *out) {
    (void)c;
    fac_tensor **v = fac__alloc_array(tensors.n + 1, sizeof *v);
    size_t n = 0;
    fac_status st = v ? FAC_OK : FAC_ERR_MEMORY;
    for (; n < tensors.n && st == FAC_OK; n += st == FAC_OK) st = fac__c_dequantize_self(tensors.v[n], &v[n]);
    if (st == FAC_OK) {
        *out = (fac_tensor_list){v, n};
        return FAC_OK;
    }
    while (v && n--) fac__unref(v[n]);
    fac__free(v);
    return st;
}

/* ---- results with a quantizer of their own ----------------------------------------------------------------------------------- */

/* Temporary: code - zero_point. */
static fac_tensor *centred(fac_tensor *t) {
    fac_tensor *made;
    return fac__centred(t, &made) == FAC_OK ? fac__adopt(fac__thread(), made) : NULL;
}

static fac_tensor *numbers(fac_tensor *t) { return fac__s_dequantize_self(t); }

/* x, in units of the scale and less the zero point, as codes. */
static fac_status give_rounded(fac_tensor *x, fac_dtype dtype, double scale, int64_t zero_point, fac_tensor **out) {
    fac_quantizer *q;
    FAC_TRY(fac_error());
    FAC_TRY(fac__quantizer_per_tensor(scale, zero_point, &q));
    const fac_status st = fac__rounded(x, dtype, q, out);
    fac__quantizer_unref(q);
    return st;
}

fac_status fac__check_pair(const fac_tensor *a, const fac_tensor *b) {
    FAC_TRY(fac__need_per_tensor("qa", a, true));
    FAC_TRY(fac__need_per_tensor("qb", b, true));
    FAC_CHECK(a->dtype == b->dtype, FAC_ERR_DTYPE, "qa and qb should have one dtype, but are %s and %s",
              fac_dtype_name((fac_dtype)a->dtype), fac_dtype_name((fac_dtype)b->dtype));
    return FAC_OK;
}

/* Of a temporary of our own, which is written over. */
static fac_tensor *not_below_zero(fac_tensor *x, bool relu) { return relu && x ? fac__s_relu_(x) : x; }

fac_status fac__coded_sum(fac_tensor *a, fac_tensor *b, double scale, int64_t zero_point, bool relu, fac_tensor **out) {
    FAC_TRY(fac__check_pair(a, b));
    FAC_SCOPE(scope);
    fac_tensor *x = not_below_zero(add(numbers(a), numbers(b)), relu);
    FAC_TRY(fac_error());
    return fac__c_quantize_per_tensor(x, scale, zero_point, (fac_dtype)a->dtype, out);
}

float fac__coded_product_factor(const fac_tensor *a, const fac_tensor *b, double scale) {
    return (float)fac__quantizer_of(a)->scales[0] * (float)fac__quantizer_of(b)->scales[0] * (1.0f / (float)scale);
}

/* Products of 8-bit codes are exact in float32. */
fac_status fac__coded_product(fac_tensor *a, fac_tensor *b, double scale, int64_t zero_point, bool relu,
                              fac_tensor **out) {
    FAC_TRY(fac__check_pair(a, b));
    const float by = fac__coded_product_factor(a, b, scale);
    FAC_SCOPE(scope);
    fac_tensor *x = mul(centred(a), centred(b));
    x = x ? fac__s_mul__Scalar(x, fac_scalar_f_((double)by)) : NULL;
    x = not_below_zero(x, relu);
    return give_rounded(x, (fac_dtype)a->dtype, scale, zero_point, out);
}

/* ---- batch normalisation --------------------------------------------------------------------------------------------------------- */

static fac_tensor *per_channel(fac_tensor *v, int ndim) {
    int64_t shape[FAC_MAX_DIMS];
    for (int d = 0; d < ndim; d++) shape[d] = d == 1 ? -1 : 1;
    return fac__s_view(v, (fac_ints){shape, (size_t)ndim});
}

fac_status quantized_batch_norm_composite(const fac_call_info *c, fac_tensor *input, fac_tensor *weight,
                                          fac_tensor *bias, fac_tensor *mean, fac_tensor *var, double eps,
                                          double output_scale, int64_t output_zero_point, fac_tensor **out) {
    (void)c;
    fac_tensor *const each[] = {mean, var, weight, bias};
    static const char *const names[] = {"mean", "var", "weight", "bias"};
    FAC_TRY(fac__need_per_tensor("input", input, true));
    FAC_CHECK(input->ndim >= 2, FAC_ERR_SHAPE, "an input [N, C, *] is expected, but got %s", FAC_SHAPE_TEXT(input));
    for (int i = 0; i < 4; i++) {
        FAC_TRY(fac__need_sizes(names[i], each[i], &input->sizes[1], 1));
        FAC_TRY(fac__need_dtype(names[i], each[i], FAC_F32));
    }
    const float x_scale = (float)fac__quantizer_of(input)->scales[0], y_scale = (float)output_scale;
    FAC_SCOPE(scope);
    fac_tensor *inverse = fac__s_reciprocal(fac__s_sqrt(plus(var, eps)));
    if (weight) inverse = mul(inverse, weight);
    fac_tensor *shift = fac__s_neg(mul(mean, inverse));
    if (bias) shift = add(shift, bias);
    fac_tensor *alpha = scaled(inverse, (double)(x_scale / y_scale)), *beta = scaled(shift, 1 / (double)y_scale);
    fac_tensor *x = add(mul(centred(input), per_channel(alpha, input->ndim)), per_channel(beta, input->ndim));
    return give_rounded(x, (fac_dtype)input->dtype, output_scale, output_zero_point, out);
}

fac_status quantized_batch_norm2d_composite(const fac_call_info *c, fac_tensor *qx, fac_tensor *weight,
                                            fac_tensor *bias, fac_tensor *mean, fac_tensor *var, double eps,
                                            double output_scale, int64_t output_zero_point, fac_tensor **out) {
    FAC_CHECK(qx->ndim == 4, FAC_ERR_SHAPE, "Expecting the input tensor of rank 4, got %s", FAC_SHAPE_TEXT(qx));
    return quantized_batch_norm_composite(c, qx, weight, bias, mean, var, eps, output_scale, output_zero_point, out);
}

/* ---- joining --------------------------------------------------------------------------------------------------------------------- */

fac_status quantized_cat_composite(const fac_call_info *c, fac_tensors qx, int64_t dim, fac_opt_num scale,
                                   fac_opt_int zero_point, fac_tensor **out) {
    (void)c;
    FAC_CHECK(qx.n > 0, FAC_ERR_ARGUMENT, "expected a non-empty list of Tensors");
    for (size_t i = 0; i < qx.n; i++) FAC_TRY(fac__need_per_tensor("qx", qx.v[i], false));
    const fac_quantizer *first = fac__quantizer_of(qx.v[0]);
    const double s = scale.set ? fac__scalar_f64(scale.v) : first->scales[0];
    const int64_t z = zero_point.set ? zero_point.v : first->zero_points[0];
    FAC_SCOPE(scope);
    fac_tensor **same = fac__alloc_array(qx.n, sizeof *same);
    if (!same) return FAC_ERR_MEMORY;
    fac_status st = FAC_OK;
    for (size_t i = 0; i < qx.n && st == FAC_OK; i++) {
        const fac_quantizer *q = fac__quantizer_of(qx.v[i]);
        same[i] = qx.v[i];
        if (q->scales[0] == s && q->zero_points[0] == z) continue;
        st = fac__requantize(qx.v[i], s, z, &same[i]);
        if (st == FAC_OK && !fac__adopt(fac__thread(), same[i])) st = fac_error();
    }
    if (st == FAC_OK) st = fac__c_cat((fac_tensors){same, qx.n}, dim, out);
    fac__free(same);
    return st;
}

/* ---- pooling --------------------------------------------------------------------------------------------------------------------- */

#define MAX_POOL(n)                                                                                               \
    fac_status quantized_max_pool##n##d_composite(const fac_call_info *c, fac_tensor *self, fac_ints kernel_size, \
                                                  fac_ints stride, fac_ints padding, fac_ints dilation,           \
                                                  bool ceil_mode, fac_tensor **out) {                             \
        (void)c;                                                                                                  \
        FAC_TRY(fac__need_per_tensor("self", self, true));                                                        \
        return fac__c_max_pool##n##d(self, kernel_size, stride, padding, dilation, ceil_mode, out);               \
    }
MAX_POOL(1)
MAX_POOL(2)
MAX_POOL(3)
