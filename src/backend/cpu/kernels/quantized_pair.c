/* Sums and products of quantized tensors, code by code: each pair is read, combined in float32 and rounded once. Tensors that broadcast
   or lie in another order go by other operators, which give the same codes. */
#include "backend/cpu/kernels/quantize.h"
#include "backend/cpu/parallel.h"
#include "core/tensor_make.h"
#include "ops/coded.h"
#include "ops_gen.h"

typedef struct job {
    fac_code_pair p;
    const void *a, *b;
    void *out;
    bool is_signed, product;
} job;

static fac_status run(void *context, int64_t begin, int64_t end) {
    const job *j = context;
    const int64_t n = end - begin;
    const char *a = (const char *)j->a + begin, *b = (const char *)j->b + begin;
    char *out = (char *)j->out + begin;
    if (j->is_signed && j->product)
        FAC_ISA_PICK(fac__codes_mul_i8)(&j->p, (const int8_t *)a, (const int8_t *)b, n, (int8_t *)out);
    else if (j->is_signed)
        FAC_ISA_PICK(fac__codes_add_i8)(&j->p, (const int8_t *)a, (const int8_t *)b, n, (int8_t *)out);
    else if (j->product)
        FAC_ISA_PICK(fac__codes_mul_u8)(&j->p, (const uint8_t *)a, (const uint8_t *)b, n, (uint8_t *)out);
    else
        FAC_ISA_PICK(fac__codes_add_u8)(&j->p, (const uint8_t *)a, (const uint8_t *)b, n, (uint8_t *)out);
    return FAC_OK;
}

/* Nothing is below the code of 0, which is the zero point, if `relu`. */
static fac_status combine(fac_tensor *a, fac_tensor *b, const fac_quantizer *y, bool product, bool relu,
                          fac_tensor **out) {
    const fac_quantizer *p = fac__quantizer_of(a), *q = fac__quantizer_of(b);
    const double scale = y->scales[0];
    int64_t least, most;
    FAC_TRY(fac__empty_strided(a->sizes, a->strides, a->ndim, fac__code_dtype((fac_dtype)a->dtype), a->device, out));
    if (!a->numel) return FAC_OK;
    fac__code_range((fac_dtype)a->dtype, &least, &most);
    job j = {.p = {.a_scale = (float)p->scales[0],
                   .b_scale = (float)q->scales[0],
                   .factor = product ? fac__coded_product_factor(a, b, scale) : 1.0f / (float)scale,
                   .zero = (float)y->zero_points[0],
                   .least = (float)(relu ? y->zero_points[0] : least),
                   .a_zero = (int)p->zero_points[0],
                   .b_zero = (int)q->zero_points[0]},
             .a = fac__data(a),
             .b = fac__data(b),
             .out = fac__data(*out),
             .is_signed = a->dtype == FAC_QINT8,
             .product = product};
    return fac__parallel_for(0, a->numel, FAC_GRAIN, run, &j);
}

/* Whether elements meet in the order of memory. */
static bool in_step(const fac_tensor *a, const fac_tensor *b) {
    if (!fac__is_cpu(a) || !fac__is_cpu(b) || !(a->flags & FAC_TF_DENSE) || !(b->flags & FAC_TF_DENSE)) return false;
    if (!fac__same_sizes(a, b)) return false;
    for (int d = 0; d < a->ndim; d++)
        if (a->sizes[d] > 1 && a->strides[d] != b->strides[d]) return false;
    return true;
}

static fac_status pair(fac_tensor *a, fac_tensor *b, double scale, int64_t zero_point, bool product, bool relu,
                       fac_tensor **out) {
    fac_quantizer *y;
    FAC_TRY(fac__check_pair(a, b));
    FAC_TRY(fac__quantizer_per_tensor(scale, zero_point, &y));
    fac_status st = fac__quantizer_check(y, (fac_dtype)a->dtype);
    if (st == FAC_OK && !in_step(a, b)) {
        st = product ? fac__coded_product(a, b, scale, zero_point, relu, out)
                     : fac__coded_sum(a, b, scale, zero_point, relu, out);
    } else if (st == FAC_OK) {
        st = combine(a, b, y, product, relu, out);
        if (st == FAC_OK) fac__make_coded(*out, (fac_dtype)a->dtype, y);
    }
    fac__quantizer_unref(y);
    return st;
}

#define PAIR(name, product, relu)                                                                             \
    fac_status name(const fac_call_info *c, fac_tensor *qa, fac_tensor *qb, double scale, int64_t zero_point, \
                    fac_tensor **out) {                                                                       \
        (void)c;                                                                                              \
        return pair(qa, qb, scale, zero_point, product, relu, out);                                           \
    }
PAIR(quantized_add_kernel, false, false)
PAIR(quantized_add_relu_kernel, false, true)
PAIR(quantized_mul_kernel, true, false)
PAIR(quantized_mul_relu_kernel, true, true)
