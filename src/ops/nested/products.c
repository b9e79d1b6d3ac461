/* Products of nested tensors: each component is a matrix, or a batch of matrices, of sizes of its own. All of a call go to one kernel,
   _ragged_bmm, which reads a factor that is stored transposed as it lies. */
#include "core/tensor_make.h"
#include "ops/nested/parts.h"
#include "ops/structured.h"

/* ---- the shape rule of the kernel ---------------------------------------------------------------------------------------- */

/* Elements of all factors, and of the products, of sizes (rows, inner, columns) each. */
static fac_status count(fac_ints sizes, int64_t n[3]) {
    FAC_CHECK(sizes.n % 3 == 0, FAC_ERR_SHAPE, "sizes are three numbers for each product, but got %zu", sizes.n);
    n[0] = n[1] = n[2] = 0;
    for (size_t i = 0; i < sizes.n; i += 3) {
        const int64_t *v = sizes.v + i, pairs[3][2] = {{v[0], v[1]}, {v[1], v[2]}, {v[0], v[2]}};
        for (int k = 0; k < 3; k++) {
            int64_t numel;
            FAC_CHECK(v[k] >= 0, FAC_ERR_SHAPE, "product %zu has the negative size %lld", i / 3, (long long)v[k]);
            FAC_CHECK(fac__mul(pairs[k][0], pairs[k][1], &numel) && fac__add(n[k], numel, &n[k]), FAC_ERR_OVERFLOW,
                      "the matrices have more elements than 64 bits can count");
        }
    }
    return FAC_OK;
}

fac_status ragged_bmm_meta(fac_structured *s, fac_tensor *self, fac_tensor *mat2, fac_ints sizes, int64_t transposed) {
    int64_t n[3];
    FAC_TRY(count(sizes, n));
    FAC_CHECK(transposed >= 0 && transposed < 4, FAC_ERR_ARGUMENT,
              "transposed is 1 for self, 2 for mat2, or their sum, but got %lld", (long long)transposed);
    FAC_CHECK(self->ndim == 1 && mat2->ndim == 1 && self->numel == n[0] && mat2->numel == n[1], FAC_ERR_SHAPE,
              "the factors are vectors of %lld and %lld elements, but got sizes %s and %s", (long long)n[0],
              (long long)n[1], FAC_SHAPE_TEXT(self), FAC_SHAPE_TEXT(mat2));
    FAC_CHECK(self->dtype == mat2->dtype, FAC_ERR_DTYPE,
              "expected self and mat2 to have the same dtype, but got: %s != %s",
              fac_dtype_name((fac_dtype)self->dtype), fac_dtype_name((fac_dtype)mat2->dtype));
    FAC_CHECK(self->dtype != FAC_BOOL, FAC_ERR_DTYPE, "matrix products are not implemented for 'bool'");
    FAC_TRY(fac_out_declare(s, 0, &n[2], NULL, 1, (fac_dtype)self->dtype, self->device));
    FAC_TRY(fac_out_check_overlap(s, 0, self, false));
    return fac_out_check_overlap(s, 0, mat2, false);
}

/* ---- component by component ------------------------------------------------------------------------------------------------ */

/* The matrices of a component are row-major, or their rows and columns alone are swapped; else a copy is made that is so. */
static fac_tensor *readable(fac_tensor *t, bool *out_transposed) {
    if (!t) return NULL;
    const fac_nested *own = fac__nested_of(t);
    const int d = own->shape->d;
    *out_transposed = own->order[d - 2] == d - 1 && own->order[d - 1] == d - 2;
    bool plain = *out_transposed;
    for (int k = 0; k < d - 2; k++) plain = plain && own->order[k] == k;
    if (plain) return t;
    *out_transposed = false;
    return fac__nested_contiguous(t);
}

static fac_status check_pair(const fac_tensor *ta, const fac_tensor *tb) {
    const fac_nested *a = fac__nested_of(ta), *b = fac__nested_of(tb);
    const int d = a->shape->d;
    FAC_CHECK(d >= 2 && b->shape->d == d, FAC_ERR_SHAPE,
              "the components of both operands must have as many dimensions, at least 2, but got %d and %d", d,
              b->shape->d);
    FAC_CHECK(a->shape->n == b->shape->n, FAC_ERR_SHAPE,
              "Expected size for the 1st dimension of batch2 tensor to be: %lld but got: %lld.", (long long)a->shape->n,
              (long long)b->shape->n);
    for (int64_t i = 0; i < a->shape->n; i++) {
        for (int k = 0; k < d - 2; k++)
            FAC_CHECK(fac__nested_size(a, i, k) == fac__nested_size(b, i, k), FAC_ERR_SHAPE,
                      "component %lld has %lld matrices in dimension %d on the left and %lld on the right",
                      (long long)i, (long long)fac__nested_size(a, i, k), k, (long long)fac__nested_size(b, i, k));
        FAC_CHECK(fac__nested_size(a, i, d - 1) == fac__nested_size(b, i, d - 2), FAC_ERR_SHAPE,
                  "component %lld: matrices of sizes %lldx%lld and %lldx%lld cannot be multiplied", (long long)i,
                  (long long)fac__nested_size(a, i, d - 2), (long long)fac__nested_size(a, i, d - 1),
                  (long long)fac__nested_size(b, i, d - 2), (long long)fac__nested_size(b, i, d - 1));
    }
    return FAC_OK;
}

/* False if there are more than 64 bits can count: of matrices without elements there may be. */
static bool matrices_in(const fac_nested *t, int64_t i, int64_t *out) {
    int64_t sizes[FAC_MAX_DIMS];
    for (int k = 0; k < t->shape->d - 2; k++) sizes[k] = fac__nested_size(t, i, k);
    return fac__numel(sizes, t->shape->d - 2, out);
}

/* Three numbers for each product. */
static fac_status product_sizes(const fac_nested *a, const fac_nested *b, int64_t **out, size_t *out_n) {
    const int d = a->shape->d;
    int64_t count_of = 0, n = 0, own = 0;
    for (int64_t i = 0; i < a->shape->n; i++)
        FAC_CHECK(matrices_in(a, i, &own) && fac__add(count_of, own, &count_of) && fac__mul(count_of, 3, &n),
                  FAC_ERR_OVERFLOW, "components up to %lld have more matrices than 64 bits can count", (long long)i);
    int64_t *v = fac__alloc_array((size_t)n + 1, sizeof *v), *to = v;
    if (!v) return FAC_ERR_MEMORY;
    for (int64_t i = 0; i < a->shape->n; i++)
        for (own = 0, (void)matrices_in(a, i, &own); own > 0; own--) {
            *to++ = fac__nested_size(a, i, d - 2);
            *to++ = fac__nested_size(a, i, d - 1);
            *to++ = fac__nested_size(b, i, d - 1);
        }
    *out = v;
    *out_n = (size_t)n;
    return FAC_OK;
}

static fac_status result_shape(const fac_nested *a, const fac_nested *b, fac_ragged **out) {
    const int d = a->shape->d;
    FAC_TRY(fac__ragged_new(a->shape->n, d, out));
    for (int64_t i = 0; i < a->shape->n; i++) {
        int64_t *to = (*out)->sizes + i * d;
        for (int k = 0; k < d - 1; k++) to[k] = fac__nested_size(a, i, k);
        to[d - 1] = fac__nested_size(b, i, d - 1);
    }
    return fac__ragged_complete(*out);
}

static fac_status product(fac_tensor *a, fac_tensor *b, fac_tensor **out) {
    FAC_RAGGED_HELD(shape);
    bool ta = false, tb = false;
    int64_t *sizes;
    size_t n;
    if (!a || !b) return fac_error();
    FAC_TRY(check_pair(a, b));
    FAC_TRY(result_shape(fac__nested_of(a), fac__nested_of(b), &shape));
    a = readable(a, &ta), b = readable(b, &tb);
    if (!a || !b) return fac_error();
    FAC_TRY(product_sizes(fac__nested_of(a), fac__nested_of(b), &sizes, &n));
    fac_tensor *values = fac__s__ragged_bmm(fac__nested_of(a)->buffer, fac__nested_of(b)->buffer, (fac_ints){sizes, n},
                                            (ta ? 1 : 0) + (tb ? 2 : 0));
    fac__free(sizes);
    return fac__give(out, fac__nested_of_buffer(values, shape));
}

/* A strided operand beside a nested one is a batch with a matrix for each component. */
static fac_tensor *as_nested(fac_tensor *t) { return fac__nested_of(t) ? t : fac__nested_of_strided(t); }

fac_status bmm_nested(const fac_call_info *c, fac_tensor *self, fac_tensor *mat2, fac_tensor **out) {
    (void)c;
    FAC_SCOPE(s);
    FAC_CHECK(self->ndim == 3, FAC_ERR_SHAPE, "batch1 must be a 3D tensor, got %d-D tensor", self->ndim);
    FAC_CHECK(mat2->ndim == 3, FAC_ERR_SHAPE, "batch2 must be a 3D tensor, got %d-D tensor", mat2->ndim);
    return product(as_nested(self), as_nested(mat2), out);
}

/* ---- one matrix for all ------------------------------------------------------------------------------------------------------ */

/* The rows of all components [rows, k], where all have rows of k elements. */
static fac_status rows_of(fac_tensor *t, int64_t k, fac_tensor **out_t, fac_tensor **out_rows) {
    FAC_CHECK(t->ndim >= 2 && (t->sizes[t->ndim - 1] == k || t->sizes[0] == 0), FAC_ERR_SHAPE,
              "the rows of all components must have %lld elements, as the matrix demands, but they have sizes %s",
              (long long)k, fac__nested_text(t, (char[256]){0}, 256));
    *out_t = fac__nested_contiguous(t);
    if (!*out_t) return fac_error();
    const fac_ragged *r = fac__nested_of(*out_t)->shape;
    int64_t rows = 0;
    for (int64_t i = 0; i < r->n; i++) {
        int64_t own;
        FAC_CHECK(fac__numel(r->sizes + i * r->d, r->d - 1, &own) && fac__add(rows, own, &rows), FAC_ERR_OVERFLOW,
                  "more rows than 64 bits can count");
    }
    *out_rows = fac__s_view(fac__nested_of(*out_t)->buffer, FAC_INTS(rows, k));
    return *out_rows ? FAC_OK : fac_error();
}

static fac_status with_rows(fac_tensor *t, fac_tensor *rows, fac_tensor **out) {
    FAC_RAGGED_HELD(shape);
    if (!rows) return fac_error();
    FAC_TRY(fac__nested_shape_with(t, 1, FAC_INTS(rows->sizes[1]), &shape));
    return fac__give(out, fac__nested_of_buffer(fac__s_reshape(rows, FAC_INTS(rows->numel)), shape));
}

fac_status matmul_nested(const fac_call_info *c, fac_tensor *self, fac_tensor *other, fac_tensor **out) {
    (void)c;
    FAC_SCOPE(s);
    if (fac__nested_of(other) || other->ndim != 2) {
        FAC_CHECK(self->ndim >= 3 && other->ndim >= 3, FAC_ERR_UNSUPPORTED,
                  "a nested tensor is multiplied by a nested or a strided one of as many dimensions, at least "
                  "3, or from the right by a matrix, but got %d and %d dimensions",
                  self->ndim, other->ndim);
        return product(as_nested(self), as_nested(other), out);
    }
    fac_tensor *t, *rows;
    FAC_TRY(rows_of(self, other->sizes[0], &t, &rows));
    return with_rows(t, fac__s_mm(rows, other), out);
}

fac_status linear_nested(const fac_call_info *c, fac_tensor *input, fac_tensor *weight, fac_tensor *bias,
                         fac_tensor **out) {
    (void)c;
    FAC_SCOPE(s);
    FAC_TRY(fac__nested_need(input, "input"));
    FAC_CHECK(!fac__nested_of(weight) && !fac__nested_of(bias), FAC_ERR_UNSUPPORTED,
              "weight and bias are plain tensors, also where input is nested");
    FAC_CHECK(weight->ndim == 2, FAC_ERR_SHAPE, "the weight of a nested input must be a matrix, got %d-D tensor",
              weight->ndim);
    fac_tensor *t, *rows;
    FAC_TRY(rows_of(input, weight->sizes[1], &t, &rows));
    return with_rows(t, fac__s_linear(rows, weight, bias), out);
}
