/* Sums and products of quantized tensors, code by code: each pair is read, combined in float32 and rounded once. The codes of an operand
   that broadcasts or lies in another order than the result are brought into its order, a tile at a time. */
#include "backend/cpu/kernels/items.h"
#include "backend/cpu/kernels/quantize.h"
#include "backend/cpu/parallel.h"
#include "core/tensor_make.h"
#include "iter/nest.h"
#include "ops/coded.h"
#include "ops_gen.h"

enum { TILE = 2048 };

/* An operand's codes, and where they lie if not as the result's do: strides of a dense order and its own. */
typedef struct operand {
    const char *codes;
    bool in_step;
    fac_nest nest;
} operand;

typedef struct job {
    fac_code_pair p;
    operand a, b;
    char *out;
    bool is_signed, product;
} job;

static void combine_run(const job *j, const void *a, const void *b, int64_t n, void *out) {
    if (j->is_signed && j->product)
        FAC_ISA_PICK(fac__codes_mul_i8)(&j->p, a, b, n, out);
    else if (j->is_signed)
        FAC_ISA_PICK(fac__codes_add_i8)(&j->p, a, b, n, out);
    else if (j->product)
        FAC_ISA_PICK(fac__codes_mul_u8)(&j->p, a, b, n, out);
    else
        FAC_ISA_PICK(fac__codes_add_u8)(&j->p, a, b, n, out);
}

/* The codes that meet the result's n from the i-th on. */
static const char *codes_of(const operand *o, int64_t i, int64_t n, char *tile) {
    if (o->in_step) return o->codes + i;
    fac_cursor c;
    fac__nest_seek(&o->nest, 2, i, &c);
    const fac_items_side to = {tile, o->nest.stride[0]},
                         from = {(char *)(uintptr_t)o->codes + c.offset[1], o->nest.stride[1]};
    fac__items_copy_points(&o->nest, c.index, 1, to, from, n);
    return tile;
}

static fac_status run(void *context, int64_t begin, int64_t end) {
    const job *j = context;
    char a[TILE], b[TILE];
    const int64_t most = j->a.in_step && j->b.in_step ? end - begin : TILE;
    for (int64_t i = begin, n; i < end; i += n) {
        n = fac__min(most, end - i);
        combine_run(j, codes_of(&j->a, i, n, a), codes_of(&j->b, i, n, b), n, j->out + i);
    }
    return FAC_OK;
}

/* The operand beside a result without gaps. */
static operand operand_beside(fac_tensor *t, const fac_tensor *out) {
    operand o = {.codes = fac__data(t)};
    int64_t own[FAC_MAX_DIMS];
    fac__broadcast_strides(t, out->ndim, own);
    const int64_t *strides[2] = {out->strides, own};
    fac__nest_build(&o.nest, out->sizes, out->ndim, UINT64_MAX, 2, strides, false);
    o.in_step = o.nest.ndim == 0 || (o.nest.ndim == 1 && o.nest.stride[1][0] == 1);
    return o;
}

/* The result lies as `a` does, if that has its sizes and no gaps. */
static fac_status empty_result(const fac_tensor *a, const fac_tensor *b, fac_tensor **out) {
    const fac_dtype codes = fac__code_dtype((fac_dtype)a->dtype);
    int64_t sizes[FAC_MAX_DIMS];
    int ndim;
    FAC_TRY(fac__broadcast(a->sizes, a->ndim, b->sizes, b->ndim, sizes, &ndim));
    if (a->flags & FAC_TF_DENSE && ndim == a->ndim && memcmp(sizes, a->sizes, (size_t)ndim * sizeof *sizes) == 0)
        return fac__empty_strided(sizes, a->strides, ndim, codes, a->device, out);
    return fac__empty(sizes, ndim, codes, a->device, out);
}

/* Nothing is below the code of 0, which is the zero point, if `relu`. */
static fac_status combine(fac_tensor *a, fac_tensor *b, const fac_quantizer *y, bool product, bool relu,
                          fac_tensor **out) {
    const fac_quantizer *p = fac__quantizer_of(a), *q = fac__quantizer_of(b);
    const double scale = y->scales[0];
    int64_t least, most;
    FAC_TRY(empty_result(a, b, out));
    if (!(*out)->numel) return FAC_OK;
    fac__code_range((fac_dtype)a->dtype, &least, &most);
    job j = {.p = {.a_scale = (float)p->scales[0],
                   .b_scale = (float)q->scales[0],
                   .factor = product ? fac__coded_product_factor(a, b, scale) : 1.0f / (float)scale,
                   .zero = (float)y->zero_points[0],
                   .least = (float)(relu ? y->zero_points[0] : least),
                   .a_zero = (int)p->zero_points[0],
                   .b_zero = (int)q->zero_points[0]},
             .a = operand_beside(a, *out),
             .b = operand_beside(b, *out),
             .out = fac__data(*out),
             .is_signed = a->dtype == FAC_QINT8,
             .product = product};
    return fac__parallel_for(0, (*out)->numel, FAC_GRAIN, run, &j);
}

static fac_status pair(fac_tensor *a, fac_tensor *b, double scale, int64_t zero_point, bool product, bool relu,
                       fac_tensor **out) {
    fac_quantizer *y;
    FAC_TRY(fac__check_pair(a, b));
    FAC_TRY(fac__quantizer_per_tensor(scale, zero_point, &y));
    fac_status st = fac__quantizer_check(y, (fac_dtype)a->dtype);
    if (st == FAC_OK && !(fac__is_cpu(a) && fac__is_cpu(b))) {
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
