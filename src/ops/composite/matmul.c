/* matmul, linear and their relatives in terms of mm, bmm, mv and dot. */
#include "core/kinds.h"
#include "core/vendor.h"
#include "ops/call.h"
#include "ops_gen.h"
#include <facula/autograd.h>

static fac_ints ints(const int64_t *v, int n) { return (fac_ints){v, (size_t)n}; }

/* ---- matmul --------------------------------------------------------------------------------------------------------- */

/* One side has a batch and the other is a matrix or vector: is one mm over the folded batch better than bmm? It is when
   the small side needs a gradient (it then comes summed from one product instead of as a batch), and when the batch
   folds without copying. */
static bool should_fold(const fac_tensor *a, const fac_tensor *b) {
    const fac_tensor *large = a->ndim >= b->ndim ? a : b, *small = a->ndim >= b->ndim ? b : a;
    if (large->ndim < 3 || small->ndim > 2) return false;
    if (fac__wants_derivative(small)) return true;
    if (a->ndim == 2) return false; /* the result would have to be transposed and copied */
    if (large->numel == 0 || small->ndim == 1) return true;
    for (int d = 0; d + 2 < large->ndim; d++)
        if (large->strides[d] != large->strides[d + 1] * large->sizes[d + 1]) return false;
    return true;
}

/* [*, n, m] by [m, p] or [m]; a 2-d or 1-d left side is handled as (b^T a^T)^T. */
static fac_tensor *folded(fac_tensor *a, fac_tensor *b) {
    bool turned = b->ndim > a->ndim;
    fac_tensor *large = turned ? fac__s_mT(b) : a;
    fac_tensor *small = !turned ? b : a->ndim == 2 ? fac__s_t(a) : a;
    if (!large || !small) return NULL;
    int64_t sizes[FAC_MAX_DIMS], rows = 1, m = large->sizes[large->ndim - 1];
    int n = large->ndim - 1;
    for (int d = 0; d < n; d++) {
        sizes[d] = large->sizes[d];
        (void)fac__mul(rows, sizes[d], &rows); /* a product that overflows is refused by reshape */
    }
    fac_tensor *flat = fac__s_reshape(large, ints((const int64_t[]){rows, m}, 2));
    if (small->ndim == 1) return fac__s__unsafe_view(fac__s_mv(flat, small), ints(sizes, n));
    sizes[n++] = small->sizes[1];
    fac_tensor *y = fac__s__unsafe_view(fac__s_mm(flat, small), ints(sizes, n));
    return turned ? fac__s_mT(y) : y;
}

/* t with its batch dimensions expanded to `batch` and merged into one: [prod(batch), rest]. */
static fac_tensor *merged_batch(fac_tensor *t, const int64_t *batch, int n_batch, int n_rest) {
    int64_t sizes[FAC_MAX_DIMS + 2], flat[3] = {1};
    memcpy(sizes, batch, (size_t)n_batch * sizeof *sizes);
    for (int i = 0; i < n_batch; i++) (void)fac__mul(flat[0], batch[i], &flat[0]); /* refused by reshape as well */
    for (int i = 0; i < n_rest; i++) sizes[n_batch + i] = flat[1 + i] = t->sizes[t->ndim - n_rest + i];
    return fac__s_reshape(fac__s_expand(t, ints(sizes, n_batch + n_rest), false), ints(flat, 1 + n_rest));
}

static fac_tensor *batched(fac_tensor *a, fac_tensor *b) {
    /* A batch of one that needs a gradient is folded rather than broadcast: the gradient then needs no sum. */
    if (a->ndim == 3 && b->ndim == 3 && a->sizes[0] != b->sizes[0]) {
        if (a->sizes[0] == 1 && fac__wants_derivative(a)) return fac__s_matmul(fac__s_squeeze_dim(a, 0), b);
        if (b->sizes[0] == 1 && fac__wants_derivative(b)) return fac__s_matmul(a, fac__s_squeeze_dim(b, 0));
    }
    bool vector = b->ndim == 1;
    int64_t batch[FAC_MAX_DIMS + 2];
    int n;
    int na = a->ndim > 1 ? a->ndim - 2 : 0, nb = b->ndim > 1 ? b->ndim - 2 : 0;
    FAC_TRY_NULL(fac__broadcast(a->sizes, na, b->sizes, nb, batch, &n));
    bool row = a->ndim == 1;
    fac_tensor *left = merged_batch(row ? fac__s_unsqueeze(a, 0) : a, batch, n, 2);
    fac_tensor *right = merged_batch(b, batch, n, vector ? 1 : 2);
    if (vector) right = fac__s_unsqueeze(right, 2);
    fac_tensor *y = fac__s_bmm(left, right);
    if (!row) batch[n++] = a->sizes[a->ndim - 2];
    if (!vector) batch[n++] = b->sizes[b->ndim - 1];
    return fac__s__unsafe_view(y, ints(batch, n));
}

fac_status matmul_composite(const fac_call_info *c, fac_tensor *self, fac_tensor *other, fac_tensor **out) {
    (void)c;
    FAC_CHECK(self->ndim > 0 && other->ndim > 0, FAC_ERR_SHAPE,
              "both arguments to matmul need to be at least 1D, but they are %dD and %dD", self->ndim, other->ndim);
    FAC_SCOPE(scope);
    fac_tensor *y;
    if (self->ndim == 1 && other->ndim == 1)
        y = fac__s_dot(self, other);
    else if (self->ndim == 2 && other->ndim == 1)
        y = fac__s_mv(self, other);
    else if (self->ndim == 1 && other->ndim == 2)
        y = fac__s_squeeze_dim(fac__s_mm(fac__s_unsqueeze(self, 0), other), 0);
    else if (self->ndim == 2 && other->ndim == 2)
        y = fac__s_mm(self, other);
    else if (should_fold(self, other))
        y = folded(self, other);
    else
        y = batched(self, other);
    return fac__give(out, y);
}

/* ---- linear --------------------------------------------------------------------------------------------------------- */

fac_status linear_composite(const fac_call_info *c, fac_tensor *input, fac_tensor *weight, fac_tensor *bias,
                            fac_tensor **out) {
    (void)c;
    FAC_CHECK(input->ndim > 0 && weight->ndim > 0, FAC_ERR_SHAPE,
              "both arguments to linear need to be at least 1D, but they are %dD and %dD", input->ndim, weight->ndim);
    FAC_CHECK(weight->ndim <= 2, FAC_ERR_SHAPE, "weight must be [out, in] or [in], got size %s",
              FAC_SHAPE_TEXT(weight));
    FAC_CHECK(input->sizes[input->ndim - 1] == weight->sizes[weight->ndim - 1], FAC_ERR_SHAPE,
              "the last size of the input must be that of the weight, which is [out, in]; got input %s and weight %s",
              FAC_SHAPE_TEXT(input), FAC_SHAPE_TEXT(weight));
    FAC_SCOPE(scope);
#if FAC_HAVE_VENDOR
    if (fac__vendor_of(input)) return fac__give(out, fac__s_mkldnn_linear(input, weight, bias));
#endif
    fac_tensor *wt = weight->ndim == 2 ? fac__s_t(weight) : weight;
    if (bias && input->ndim == 2 && weight->ndim == 2)
        return fac__give(out, fac__s_addmm(bias, input, wt, fac_scalar_i_(1), fac_scalar_i_(1)));
    int64_t rows = 1;
    const int last = input->ndim - 1;
    bool flat = bias && (last == 2 || (last > 2 && bias->ndim == 1)) && weight->ndim == 2 && fac__is_contiguous(input);
    for (int d = 0; d < last && flat; d++) flat = fac__mul(rows, input->sizes[d], &rows);
    if (flat) {
        int64_t sizes[FAC_MAX_DIMS];
        memcpy(sizes, input->sizes, (size_t)last * sizeof *sizes);
        sizes[last] = weight->sizes[0];
        fac_tensor *x = fac__s_reshape(input, FAC_INTS(rows, input->sizes[last]));
        fac_tensor *y = fac__s_addmm(bias, x, wt, fac_scalar_i_(1), fac_scalar_i_(1));
        return fac__give(out, fac__s__unsafe_view(y, ints(sizes, last + 1)));
    }
    fac_tensor *y = fac__s_matmul(input, wt);
    if (bias) y = fac__s_add__Tensor(y, bias, fac_scalar_i_(1));
    return fac__give(out, y);
}

/* ---- vectors and sums ------------------------------------------------------------------------------------------------ */

fac_status outer_composite(const fac_call_info *c, fac_tensor *self, fac_tensor *vec2, fac_tensor **out) {
    (void)c;
    FAC_CHECK(self->ndim == 1 && vec2->ndim == 1, FAC_ERR_SHAPE, "expected 1-D tensors, but got %d-D and %d-D",
              self->ndim, vec2->ndim);
    FAC_SCOPE(scope);
    return fac__give(out, fac__s_mul_Tensor(fac__s_unsqueeze(self, 1), vec2));
}

/* Of truth values, a sum is `or` and a product `and`. */
static fac_tensor *addr_of_bools(fac_tensor *self, fac_tensor *outer, fac_scalar beta, fac_scalar alpha) {
    fac_tensor *product = fac__scalar_is(alpha, 0) ? fac__s_logical_xor(outer, outer) : outer;
    return fac__scalar_is(beta, 0) ? product : fac__s_logical_or(self, product);
}

/* Of integers or mixed dtypes: element by element, as the dtypes promote. */
static fac_tensor *addr_pointwise(fac_tensor *self, fac_tensor *outer, fac_scalar beta, fac_scalar alpha) {
    fac_tensor *product = fac__s_mul_Scalar(outer, alpha);
    if (fac__scalar_is(beta, 0)) return product;
    return fac__s_add_Tensor(fac__s_mul_Scalar(self, beta), product, fac_scalar_i_(1));
}

static fac_status check_addr(fac_tensor *vec1, fac_tensor *vec2, fac_dtype result, fac_scalar beta, fac_scalar alpha) {
    FAC_CHECK(vec1->ndim == 1 && vec2->ndim == 1, FAC_ERR_SHAPE, "expected 1-D vec1 and vec2, but got %d-D and %d-D",
              vec1->ndim, vec2->ndim);
    const fac_scalar factor[2] = {beta, alpha};
    for (int i = 0; i < 2; i++) {
        const char *name = i ? "alpha" : "beta";
        FAC_CHECK(factor[i].kind != FAC_KIND_BOOL || result == FAC_BOOL, FAC_ERR_DTYPE,
                  "Boolean %s only supported for Boolean results.", name);
        FAC_CHECK(factor[i].kind <= FAC_KIND_INT || !fac_dtype_is_integral(result, true), FAC_ERR_DTYPE,
                  "For integral input tensors, argument %s must not be a floating point number.", name);
    }
    return FAC_OK;
}

fac_status addr_composite(const fac_call_info *c, fac_tensor *self, fac_tensor *vec1, fac_tensor *vec2, fac_scalar beta,
                          fac_scalar alpha, fac_tensor **out) {
    (void)c;
    fac_dtype of_outer = fac_promote_types((fac_dtype)vec1->dtype, (fac_dtype)vec2->dtype);
    fac_dtype result = fac_promote_types((fac_dtype)self->dtype, of_outer);
    FAC_TRY(check_addr(vec1, vec2, result, beta, alpha));
    FAC_SCOPE(scope);
    fac_tensor *column = fac__s_unsqueeze(vec1, 1), *row = fac__s_unsqueeze(vec2, 0);
    bool alike = self->dtype == result && vec1->dtype == result && vec2->dtype == result;
    /* The gradients of a product of a column and a row are products with a vector. */
    const bool differentiated = fac_is_grad_enabled() && (fac__requires_grad(vec1) || fac__requires_grad(vec2));
    const bool one_pass = alike && !differentiated && !fac_dtype_is_integral(result, true) && fac__scalar_is(beta, 1);
    if (alike && result != FAC_BOOL && !one_pass) {
        const bool by_columns = self->ndim == 2 && self->strides[0] == 1 && self->strides[1] > 1;
        if (!by_columns) return fac__give(out, fac__s_addmm(self, column, row, beta, alpha));
        return fac__give(out, fac__s_t(fac__s_addmm(fac__s_t(self), fac__s_t(row), fac__s_t(column), beta, alpha)));
    }
    fac_tensor *x = fac__s_expand(self, ints((const int64_t[]){vec1->sizes[0], vec2->sizes[0]}, 2), false);
    if (one_pass) return fac__give(out, fac__s_addcmul(x, column, row, alpha));
    fac_tensor *outer = fac__s_mul_Tensor(column, row);
    fac_tensor *y = (result == FAC_BOOL ? addr_of_bools : addr_pointwise)(x, outer, beta, alpha);
    return fac__give(out, fac__s_to_dtype(y, result, false, false, FAC_FORMAT_DEFAULT));
}

/* The sum over the batch is one product whose inner dimension runs over the batch too. */
fac_status addbmm_composite(const fac_call_info *c, fac_tensor *self, fac_tensor *batch1, fac_tensor *batch2,
                            fac_scalar beta, fac_scalar alpha, fac_tensor **out) {
    (void)c;
    FAC_CHECK(batch1->ndim == 3 && batch2->ndim == 3, FAC_ERR_SHAPE, "expected 3D batch1 and batch2, got %dD and %dD",
              batch1->ndim, batch2->ndim);
    FAC_CHECK(batch1->sizes[0] == batch2->sizes[0] && batch1->sizes[2] == batch2->sizes[1], FAC_ERR_SHAPE,
              "Incompatible matrix sizes for addbmm: batch1 %s and batch2 %s", FAC_SHAPE_TEXT(batch1),
              FAC_SHAPE_TEXT(batch2));
    FAC_SCOPE(scope);
    int64_t n = batch1->sizes[1], inner;
    FAC_CHECK(fac__mul(batch1->sizes[0], batch1->sizes[2], &inner), FAC_ERR_OVERFLOW, "batch1 of size %s is too large",
              FAC_SHAPE_TEXT(batch1));
    fac_tensor *left = fac__s_reshape(fac__s_transpose_int(batch1, 0, 1), ints((const int64_t[]){n, inner}, 2));
    fac_tensor *right = fac__s_reshape(batch2, ints((const int64_t[]){inner, batch2->sizes[2]}, 2));
    return fac__give(out, fac__s_addmm(self, left, right, beta, alpha));
}

/* ---- chains and Kronecker products ---------------------------------------------------------------------------------- */

typedef struct chain {
    fac_tensors m;
    int64_t *sizes; /* matrix i is [sizes[i], sizes[i + 1]] */
    size_t *cut;    /* [n][n]: where the best order splits matrices i..j */
} chain;

/* The cheapest order by dynamic programming over sub-chains, in multiply-adds as doubles: no overflow. */
static fac_status chain_order(chain *c) {
    size_t n = c->m.n;
    double *cost = fac__alloc_array(n * n, sizeof *cost);
    if (!cost) return fac_error();
    for (size_t i = 0; i < n; i++) cost[i * n + i] = 0;
    for (size_t length = 1; length < n; length++)
        for (size_t i = 0; i + length < n; i++) {
            size_t j = i + length;
            cost[i * n + j] = -1;
            for (size_t k = i; k < j; k++) {
                double own = (double)c->sizes[i] * (double)c->sizes[k + 1] * (double)c->sizes[j + 1];
                double total = cost[i * n + k] + cost[(k + 1) * n + j] + own;
                if (cost[i * n + j] >= 0 && total >= cost[i * n + j]) continue;
                cost[i * n + j] = total;
                c->cut[i * n + j] = k;
            }
        }
    fac__free(cost);
    return FAC_OK;
}

/* Depth is at most the number of matrices. */
static fac_tensor *chain_product(const chain *c, size_t i, size_t j) {
    if (i == j) return c->m.v[i];
    size_t k = c->cut[i * c->m.n + j];
    fac_tensor *left = chain_product(c, i, k);
    return fac__s_mm(left, chain_product(c, k + 1, j));
}

fac_status chain_matmul_composite(const fac_call_info *info, fac_tensors matrices, fac_tensor **out) {
    (void)info;
    FAC_CHECK(matrices.n > 0 && matrices.n < 1024, FAC_ERR_ARGUMENT, "expected 1 to 1023 matrices, got %zu",
              matrices.n);
    for (size_t i = 0; i < matrices.n; i++)
        FAC_CHECK(matrices.v[i]->ndim == 2, FAC_ERR_SHAPE, "Tensor %zu must be a matrix, got %d-D", i,
                  matrices.v[i]->ndim);
    FAC_SCOPE(scope);
    size_t n = matrices.n;
    chain c = {.m = matrices,
               .sizes = fac__alloc_array(n + 1, sizeof *c.sizes),
               .cut = fac__alloc_array(n * n, sizeof *c.cut)};
    fac_tensor *y = NULL;
    if (c.sizes && c.cut) {
        c.sizes[0] = matrices.v[0]->sizes[0];
        for (size_t i = 0; i < n; i++) c.sizes[i + 1] = matrices.v[i]->sizes[1];
        if (chain_order(&c) == FAC_OK) y = chain_product(&c, 0, n - 1);
    }
    fac__free(c.sizes);
    fac__free(c.cut);
    return fac__give(out, y);
}

enum { KRON_SHORT = 256 }; /* columns of kron's right factor below which its rows are short */

/* t[..., x, y], one of them 1 and the other spread to `times`, as rows [..., x * y]. */
static fac_tensor *spread_rows(fac_tensor *t, const int64_t *sizes, int n, int64_t times, bool last) {
    int64_t wide[FAC_MAX_DIMS];
    memcpy(wide, sizes, (size_t)(2 * n) * sizeof *wide);
    wide[2 * n - (last ? 1 : 2)] = times;
    fac_tensor *spread = fac__s_expand(t, ints(wide, 2 * n), false);
    wide[2 * n - 2] *= wide[2 * n - 1];
    return fac__s_reshape(spread, ints(wide, 2 * n - 1));
}

/* self [a0, 1, a1, 1, ...] times other [1, b0, 1, b1, ...], pairs of dimensions merged. */
fac_status kron_composite(const fac_call_info *c, fac_tensor *self, fac_tensor *other, fac_tensor **out) {
    (void)c;
    int n = (int)fac__max(self->ndim, other->ndim);
    FAC_CHECK(2 * n <= FAC_MAX_DIMS, FAC_ERR_SHAPE, "%d dimensions are too many; at most %d", n, FAC_MAX_DIMS / 2);
    int64_t a[FAC_MAX_DIMS], b[FAC_MAX_DIMS], merged[FAC_MAX_DIMS];
    for (int d = 0; d < n; d++) {
        int da = d - n + self->ndim, db = d - n + other->ndim;
        a[2 * d] = da >= 0 ? self->sizes[da] : 1;
        b[2 * d + 1] = db >= 0 ? other->sizes[db] : 1;
        a[2 * d + 1] = b[2 * d] = 1;
        FAC_CHECK(fac__mul(a[2 * d], b[2 * d + 1], &merged[d]), FAC_ERR_OVERFLOW,
                  "dimension %d of the result is too large", d);
    }
    FAC_SCOPE(scope);
    self = fac__s_reshape(self, ints(a, 2 * n));
    other = fac__s_reshape(other, ints(b, 2 * n));
    if (n > 1 &&
        b[2 * n - 1] <
            KRON_SHORT) { /* rows are made as long as the result's, as short ones cost more than their elements */
        self = spread_rows(self, a, n, b[2 * n - 1], true);
        other = spread_rows(other, b, n, a[2 * n - 2], false);
    }
    fac_tensor *y = fac__s_mul_Tensor(self, other);
    return fac__give(out, fac__s_reshape(y, ints(merged, n)));
}

/* ---- products of last dimensions ---------------------------------------------------------------------------------------- */

fac_status inner_composite(const fac_call_info *c, fac_tensor *self, fac_tensor *other, fac_tensor **out) {
    (void)c;
    FAC_SCOPE(scope);
    if (self->ndim == 0 || other->ndim == 0) return fac__give(out, fac__s_mul_Tensor(self, other));
    FAC_CHECK(self->sizes[self->ndim - 1] == other->sizes[other->ndim - 1], FAC_ERR_SHAPE,
              "the last dimension must match on both input tensors but got shapes %s and %s", FAC_SHAPE_TEXT(self),
              FAC_SHAPE_TEXT(other));
    return fac__give(out, fac__s_tensordot(self, other, FAC_INTS(-1), FAC_INTS(-1)));
}

/* [*, o] = sum over n, m of input1[*, n] weight[o, n, m] input2[*, m]: one product over n, then one over m per row. */
fac_status bilinear_composite(const fac_call_info *c, fac_tensor *input1, fac_tensor *input2, fac_tensor *weight,
                              fac_tensor *bias, fac_tensor **out) {
    (void)c;
    int d = input1->ndim;
    FAC_CHECK(weight->ndim == 3 && d > 0 && input2->ndim == d &&
                  memcmp(input1->sizes, input2->sizes, (size_t)(d - 1) * sizeof(int64_t)) == 0,
              FAC_ERR_SHAPE, "input1 %s and input2 %s must agree but in the last size, and weight %s have 3 dimensions",
              FAC_SHAPE_TEXT(input1), FAC_SHAPE_TEXT(input2), FAC_SHAPE_TEXT(weight));
    FAC_CHECK(input1->sizes[d - 1] == weight->sizes[1] && input2->sizes[d - 1] == weight->sizes[2], FAC_ERR_SHAPE,
              "the last sizes of input1 %s and input2 %s must be those of weight %s", FAC_SHAPE_TEXT(input1),
              FAC_SHAPE_TEXT(input2), FAC_SHAPE_TEXT(weight));
    FAC_SCOPE(scope);
    fac_tensor *by_n = fac__s_tensordot(input1, weight, FAC_INTS(-1), FAC_INTS(1)); /* [*, o, m] */
    fac_tensor *y = fac__s_squeeze_dim(fac__s_matmul(by_n, fac__s_unsqueeze(input2, -1)), -1);
    return fac__give(out, bias ? fac__s_add_Tensor(y, bias, fac_scalar_i_(1)) : y);
}
