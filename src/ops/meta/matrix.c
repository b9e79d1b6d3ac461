/* Checks of batches of matrices, and declarations of what is made of them. */
#include "ops/meta/matrix.h"

fac_status fac__need_matrices(const char *name, const fac_tensor *t) {
    const fac_dtype d = (fac_dtype)t->dtype;
    FAC_CHECK(d == FAC_F32 || d == FAC_F64 || fac_dtype_is_complex(d), FAC_ERR_DTYPE, "Expected %s to be %s. Got %s",
              name,
              fac__is_half(d) ? "float32, float64 or complex: low precision is not supported"
                              : "a floating point or complex tensor",
              fac_dtype_name(d));
    FAC_CHECK(t->ndim >= 2, FAC_ERR_SHAPE, "The input tensor %s must have at least 2 dimensions.", name);
    return FAC_OK;
}

fac_status fac__need_square(const char *name, const fac_tensor *t) {
    FAC_TRY(fac__need_matrices(name, t));
    FAC_CHECK(fac__rows(t) == fac__cols(t), FAC_ERR_SHAPE,
              "%s must be batches of square matrices, but they are %lld by %lld matrices", name,
              (long long)fac__rows(t), (long long)fac__cols(t));
    return FAC_OK;
}

fac_status fac__need_alike(const char *name, const fac_tensor *t, const fac_tensor *like) {
    FAC_CHECK(t->dtype == like->dtype, FAC_ERR_DTYPE, "Expected %s to have dtype %s, but it has %s", name,
              fac_dtype_name((fac_dtype)like->dtype), fac_dtype_name((fac_dtype)t->dtype));
    return FAC_OK;
}

fac_batch_sizes fac__batch_of(const fac_tensor *t, int own) {
    fac_batch_sizes b = {.n = t->ndim - own};
    memcpy(b.v, t->sizes, (size_t)b.n * sizeof *b.v);
    return b;
}

fac_status fac__batch_of_both(const fac_tensor *a, int own_a, const fac_tensor *b, int own_b, fac_batch_sizes *out) {
    return fac__broadcast(a->sizes, a->ndim - own_a, b->sizes, b->ndim - own_b, out->v, &out->n);
}

/* Row-major strides of sizes that may be too many for a tensor, which is then refused. */
static fac_status too_many(int ndim) {
    FAC_CHECK(ndim <= FAC_MAX_DIMS, FAC_ERR_SHAPE, "a tensor may have at most %d dimensions, got %d", FAC_MAX_DIMS,
              ndim);
    return FAC_OK;
}

fac_status fac__declare_matrices(fac_structured *s, int i, fac_batch_sizes *b, int64_t rows, int64_t cols,
                                 fac_dtype dtype, fac_device device) {
    int64_t strides[FAC_MAX_DIMS];
    const int n = b->n + 2;
    FAC_TRY(too_many(n));
    b->v[n - 2] = rows;
    b->v[n - 1] = cols;
    fac__row_major(b->v, n, strides);
    strides[n - 2] = 1;
    strides[n - 1] = fac__max(1, rows);
    return fac_out_declare(s, i, b->v, strides, n, dtype, device);
}

fac_status fac__declare_vectors(fac_structured *s, int i, fac_batch_sizes *b, int64_t size, fac_dtype dtype,
                                fac_device device) {
    FAC_TRY(too_many(b->n + 1));
    b->v[b->n] = size;
    return fac_out_declare(s, i, b->v, NULL, b->n + 1, dtype, device);
}

fac_status fac__declare_numbers(fac_structured *s, int i, fac_batch_sizes *b, fac_dtype dtype, fac_device device) {
    return fac_out_declare(s, i, b->v, NULL, b->n, dtype, device);
}

fac_status fac__declare_nothing(fac_structured *s, int i, fac_dtype dtype, fac_device device) {
    int64_t none = 0;
    return fac_out_declare(s, i, &none, NULL, 1, dtype, device);
}

bool fac__is_vector_for(const fac_tensor *A, const fac_tensor *B) {
    if (B->ndim == 1) return true;
    return B->ndim == A->ndim - 1 && fac__has_sizes(B, A->sizes, A->ndim - 1);
}
