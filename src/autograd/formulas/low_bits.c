/* Gradients of products with weights of 8 and 4 bits, whose codes are integers: for the other factor, and for what scales the codes.
   Sums are taken in float32, as in the products. */
#include "ops/composite/low_bits.h"
#include "autograd/formulas/brief.h"

static fac_tensor *cast(fac_tensor *t, fac_dtype dtype) {
    return fac__s_to_dtype(t, dtype, false, false, FAC_FORMAT_DEFAULT);
}
static fac_tensor *as_float(fac_tensor *t) { return cast(t, FAC_F32); }

fac_tensor *weight_int8pack_grad(fac_tensor *grad, fac_tensor *mat2, fac_tensor *scales) {
    return cast(fac__s_mm(mul(as_float(grad), as_float(scales)), as_float(mat2)), (fac_dtype)scales->dtype);
}

fac_tensor *weight_int8pack_scales_grad(fac_tensor *grad, fac_tensor *self, fac_tensor *mat2) {
    fac_tensor *products = fac__s_mm(as_float(self), fac__s_t(as_float(mat2)));
    return cast(sum_over(mul(as_float(grad), products), FAC_INTS(0), false), (fac_dtype)self->dtype);
}

fac_tensor *weight_int4pack_grad(fac_tensor *grad, fac_tensor *mat2, int64_t group, fac_tensor *numbers) {
    return cast(fac__s_mm(as_float(grad), fac__int4_weights(mat2, group, numbers)), (fac_dtype)numbers->dtype);
}

/* Of a group's scale the sum of codes less 8 times the gradient of their weights, of its zero that of the latter alone. */
fac_tensor *weight_int4pack_numbers_grad(fac_tensor *grad, fac_tensor *self, fac_tensor *mat2, int64_t group) {
    const int64_t n = mat2->sizes[0], k = 2 * mat2->sizes[1];
    fac_tensor *of_weights =
        fac__s_view(fac__s_mm(fac__s_t(as_float(grad)), as_float(self)), FAC_INTS(n, k / group, group));
    fac_tensor *both[] = {sum_over(mul(of_weights, fac__int4_centred(mat2, group)), FAC_INTS(2), false),
                          sum_over(of_weights, FAC_INTS(2), false)};
    if (!both[0] || !both[1]) return NULL;
    return cast(fac__s_transpose_int(fac__s_stack((fac_tensors){both, 2}, 2), 0, 1), (fac_dtype)self->dtype);
}
