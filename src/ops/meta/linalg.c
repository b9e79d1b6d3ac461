/* Shapes and dtypes of matrix products. */
#include "ops/meta/check.h"
#include "ops/structured.h"
#include "ops_gen.h"

/* The operands of one product must have one dtype. */
static fac_status same_dtype(const char *a_name, const fac_tensor *a, const char *b_name, const fac_tensor *b) {
    FAC_CHECK(a->dtype == b->dtype, FAC_ERR_DTYPE, "expected %s and %s to have the same dtype, but got: %s != %s",
              a_name, b_name, fac_dtype_name((fac_dtype)a->dtype), fac_dtype_name((fac_dtype)b->dtype));
    FAC_CHECK(a->dtype != FAC_BOOL, FAC_ERR_DTYPE, "matrix products are not implemented for 'bool'");
    return FAC_OK;
}

/* The result may overlap neither factor. */
static fac_status declare(fac_structured *s, const int64_t *sizes, int ndim, fac_tensor *a, fac_tensor *b) {
    FAC_TRY(fac_out_declare(s, 0, sizes, NULL, ndim, (fac_dtype)a->dtype, a->device));
    FAC_TRY(fac_out_check_overlap(s, 0, a, false));
    return fac_out_check_overlap(s, 0, b, false);
}

/* self, of any smaller rank, must broadcast to the result. */
static fac_status check_self(const fac_tensor *self, const int64_t *sizes, int ndim) {
    bool fits = self->ndim <= ndim;
    for (int i = 1; fits && i <= self->ndim; i++) {
        int64_t have = self->sizes[self->ndim - i];
        fits = have == 1 || have == sizes[ndim - i];
    }
    FAC_CHECK(fits, FAC_ERR_SHAPE, "self of size %s does not broadcast to the product's size %s", FAC_SHAPE_TEXT(self),
              fac__shape_text(sizes, ndim, (char[256]){0}, 256));
    return FAC_OK;
}

/* The same, and the result may be `self` itself but no other view of its memory. */
static fac_status declare_over(fac_structured *s, const int64_t *sizes, int ndim, fac_tensor *self, fac_tensor *a,
                               fac_tensor *b, fac_scalar beta, fac_scalar alpha) {
    FAC_TRY(same_dtype("self", self, "the factors", a));
    FAC_TRY(check_self(self, sizes, ndim));
    FAC_TRY(fac__check_factor((fac_dtype)a->dtype, beta));
    FAC_TRY(fac__check_factor((fac_dtype)a->dtype, alpha));
    FAC_TRY(declare(s, sizes, ndim, a, b));
    return fac_out_check_overlap(s, 0, self, true);
}

static fac_status matrix_sizes(const fac_tensor *mat1, const fac_tensor *mat2, const char *first, int64_t sizes[2]) {
    FAC_CHECK(mat1->ndim == 2, FAC_ERR_SHAPE, "%s must be a matrix, got %d-D tensor", first, mat1->ndim);
    FAC_CHECK(mat2->ndim == 2, FAC_ERR_SHAPE, "mat2 must be a matrix, got %d-D tensor", mat2->ndim);
    FAC_CHECK(mat1->sizes[1] == mat2->sizes[0], FAC_ERR_SHAPE,
              "mat1 and mat2 shapes cannot be multiplied (%lldx%lld and %lldx%lld)", (long long)mat1->sizes[0],
              (long long)mat1->sizes[1], (long long)mat2->sizes[0], (long long)mat2->sizes[1]);
    sizes[0] = mat1->sizes[0];
    sizes[1] = mat2->sizes[1];
    return same_dtype(first, mat1, "mat2", mat2);
}

fac_status mm_meta(fac_structured *s, fac_tensor *self, fac_tensor *mat2) {
    int64_t sizes[2];
    FAC_TRY(matrix_sizes(self, mat2, "self", sizes));
    return declare(s, sizes, 2, self, mat2);
}

fac_status addmm_meta(fac_structured *s, fac_tensor *self, fac_tensor *mat1, fac_tensor *mat2, fac_scalar beta,
                      fac_scalar alpha) {
    int64_t sizes[2];
    FAC_TRY(matrix_sizes(mat1, mat2, "mat1", sizes));
    return declare_over(s, sizes, 2, self, mat1, mat2, beta, alpha);
}

static fac_status batch_sizes(const fac_tensor *a, const fac_tensor *b, int64_t sizes[3]) {
    FAC_CHECK(a->ndim == 3, FAC_ERR_SHAPE, "batch1 must be a 3D tensor, got %d-D tensor", a->ndim);
    FAC_CHECK(b->ndim == 3, FAC_ERR_SHAPE, "batch2 must be a 3D tensor, got %d-D tensor", b->ndim);
    FAC_CHECK(b->sizes[0] == a->sizes[0] && b->sizes[1] == a->sizes[2], FAC_ERR_SHAPE,
              "Expected size for first two dimensions of batch2 tensor to be: [%lld, %lld] but got: [%lld, %lld].",
              (long long)a->sizes[0], (long long)a->sizes[2], (long long)b->sizes[0], (long long)b->sizes[1]);
    sizes[0] = a->sizes[0];
    sizes[1] = a->sizes[1];
    sizes[2] = b->sizes[2];
    return same_dtype("batch1", a, "batch2", b);
}

fac_status bmm_meta(fac_structured *s, fac_tensor *self, fac_tensor *mat2) {
    int64_t sizes[3];
    FAC_TRY(batch_sizes(self, mat2, sizes));
    return declare(s, sizes, 3, self, mat2);
}

fac_status baddbmm_meta(fac_structured *s, fac_tensor *self, fac_tensor *batch1, fac_tensor *batch2, fac_scalar beta,
                        fac_scalar alpha) {
    int64_t sizes[3];
    FAC_TRY(batch_sizes(batch1, batch2, sizes));
    return declare_over(s, sizes, 3, self, batch1, batch2, beta, alpha);
}

static fac_status vector_sizes(const fac_tensor *mat, const fac_tensor *vec, int64_t *size) {
    FAC_CHECK(mat->ndim == 2 && vec->ndim == 1, FAC_ERR_SHAPE,
              "vector + matrix @ vector expected, got a %d-D matrix and a %d-D vector", mat->ndim, vec->ndim);
    FAC_CHECK(mat->sizes[1] == vec->sizes[0], FAC_ERR_SHAPE, "size mismatch, got mat (%lldx%lld), vec (%lld)",
              (long long)mat->sizes[0], (long long)mat->sizes[1], (long long)vec->sizes[0]);
    *size = mat->sizes[0];
    return same_dtype("mat", mat, "vec", vec);
}

fac_status mv_meta(fac_structured *s, fac_tensor *self, fac_tensor *vec) {
    int64_t size;
    FAC_TRY(vector_sizes(self, vec, &size));
    return declare(s, &size, 1, self, vec);
}

fac_status addmv_meta(fac_structured *s, fac_tensor *self, fac_tensor *mat, fac_tensor *vec, fac_scalar beta,
                      fac_scalar alpha) {
    int64_t size;
    FAC_TRY(vector_sizes(mat, vec, &size));
    return declare_over(s, &size, 1, self, mat, vec, beta, alpha);
}

fac_status dot_meta(fac_structured *s, fac_tensor *self, fac_tensor *tensor) {
    FAC_CHECK(self->ndim == 1 && tensor->ndim == 1, FAC_ERR_SHAPE, "1D tensors expected, but got %dD and %dD tensors",
              self->ndim, tensor->ndim);
    FAC_CHECK(self->numel == tensor->numel, FAC_ERR_SHAPE,
              "inconsistent tensor size, expected tensor [%lld] and src [%lld] to have the same number of elements",
              (long long)self->numel, (long long)tensor->numel);
    FAC_TRY(same_dtype("self", self, "tensor", tensor));
    return declare(s, NULL, 0, self, tensor);
}

fac_status vdot_meta(fac_structured *s, fac_tensor *self, fac_tensor *other) { return dot_meta(s, self, other); }

fac_status _linalg_cross_meta(fac_structured *s, fac_tensor *self, fac_tensor *other, int64_t dim) {
    FAC_CHECK(dim >= 0 && dim < self->ndim && self->sizes[dim] == 3, FAC_ERR_SHAPE,
              "dimension %lld of size %s must have length 3", (long long)dim, FAC_SHAPE_TEXT(self));
    FAC_TRY(fac__need_sizes("other", other, self->sizes, self->ndim));
    FAC_TRY(fac__need_dtype("other", other, (fac_dtype)self->dtype));
    FAC_CHECK(self->dtype == FAC_F32 || self->dtype == FAC_F64, FAC_ERR_DTYPE, "self must be of f32 or f64");
    return fac_out_declare(s, 0, self->sizes, NULL, self->ndim, (fac_dtype)self->dtype, self->device);
}
