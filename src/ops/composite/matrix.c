/* Norms, condition numbers and powers of matrices, and tensors taken as matrices. */
#include "ops/meta/matrix.h"
#include "ops/composite/brief.h"
#include <math.h>

static fac_ints ints(const int64_t *v, int n) { return (fac_ints){v, (size_t)n}; }

/* ---- norms ------------------------------------------------------------------------------------------------------------------- */

static fac_status check_matrix(const fac_tensor *A, fac_ints dim, int64_t out_dim[2]) {
    const fac_dtype d = (fac_dtype)A->dtype;
    FAC_CHECK(fac_dtype_is_floating(d) || fac_dtype_is_complex(d), FAC_ERR_DTYPE,
              "Expected a floating point or complex tensor as input. Got %s", fac_dtype_name(d));
    FAC_CHECK(A->ndim >= 2, FAC_ERR_SHAPE, "The input tensor A must have at least 2 dimensions.");
    FAC_CHECK(dim.n == 2, FAC_ERR_ARGUMENT, "dim must be a 2-tuple. Got %zu numbers", dim.n);
    for (int i = 0; i < 2; i++) FAC_TRY(fac__wrap_dim(dim.v[i], A->ndim, &out_dim[i]));
    FAC_CHECK(out_dim[0] != out_dim[1], FAC_ERR_ARGUMENT, "dims must be different. Got (%lld, %lld)",
              (long long)dim.v[0], (long long)dim.v[1]);
    return FAC_OK;
}

/* The result's dtype is that of the parts of `dtype`, which must be as wide as A's and complex only if A is. */
static fac_status in_dtype(fac_tensor *A, fac_dtype dtype, fac_tensor **out) {
    *out = A;
    if (!dtype) return FAC_OK;
    const fac_dtype d = (fac_dtype)A->dtype;
    FAC_CHECK(fac_dtype_is_floating(dtype) || fac_dtype_is_complex(dtype), FAC_ERR_DTYPE,
              "dtype should be floating point or complex. Got %s", fac_dtype_name(dtype));
    FAC_CHECK(fac_dtype_is_complex(d) == fac_dtype_is_complex(dtype), FAC_ERR_DTYPE,
              "dtype should be %s for %s inputs. Got %s", fac_dtype_is_complex(d) ? "complex" : "real",
              fac_dtype_is_complex(d) ? "complex" : "real", fac_dtype_name(dtype));
    FAC_CHECK(fac_promote_types(d, dtype) == dtype, FAC_ERR_DTYPE,
              "the dtype of the input (%s) should be convertible without narrowing to %s", fac_dtype_name(d),
              fac_dtype_name(dtype));
    *out = cast(A, dtype);
    return *out ? FAC_OK : fac_error();
}

/* The matrices' two dimensions back where they were, with size 1. */
static fac_tensor *with_dims(fac_tensor *t, const int64_t dim[2], bool keepdim) {
    if (!keepdim) return t;
    return fac__s_unsqueeze(fac__s_unsqueeze(t, fac__min(dim[0], dim[1])), fac__max(dim[0], dim[1]));
}

static fac_tensor *singular_values(fac_tensor *A, const int64_t dim[2]) {
    return fac__s_linalg_svdvals(fac__s_movedim_intlist(A, ints(dim, 2), FAC_INTS(-2, -1)), NULL);
}

/* Of numbers that are 0 or more. The largest of none is 0, as the norm of a matrix without elements is; there is no smallest. */
static fac_tensor *extreme(fac_tensor *t, int64_t dim, bool keepdim, bool largest) {
    if (t && largest && t->ndim && t->sizes[dim < 0 ? dim + t->ndim : dim] == 0)
        return fac__s_sum_dim_IntList(t, ints(&dim, 1), keepdim, FAC_DTYPE_DEFAULT);
    return (largest ? fac__s_amax : fac__s_amin)(t, ints(&dim, 1), keepdim);
}

/* The largest or smallest sum of moduli along `along`, over `over`. */
static fac_tensor *extreme_sum(fac_tensor *A, int64_t along, int64_t over, bool keepdim, bool largest) {
    fac_tensor *sums = fac__s_linalg_vector_norm(A, fac_scalar_i_(1), ints(&along, 1), keepdim, FAC_DTYPE_DEFAULT);
    return extreme(sums, !keepdim && over > along ? over - 1 : over, keepdim, largest);
}

fac_status linalg_matrix_norm_composite(const fac_call_info *c, fac_tensor *self, fac_scalar ord, fac_ints dim,
                                        bool keepdim, fac_dtype dtype, fac_tensor **out) {
    (void)c;
    int64_t d[2];
    FAC_TRY(check_matrix(self, dim, d));
    FAC_CHECK(ord.kind != FAC_KIND_COMPLEX, FAC_ERR_ARGUMENT, "ord must be a real number");
    const double o = fac__scalar_f64(ord), size = fabs(o);
    FAC_CHECK(size == 1 || size == 2 || isinf(o), FAC_ERR_ARGUMENT, "Order %g not supported.", o);
    FAC_SCOPE(s);
    fac_tensor *A;
    FAC_TRY(in_dtype(self, dtype, &A));
    if (size == 2) return fac__give(out, with_dims(extreme(singular_values(A, d), -1, false, o > 0), d, keepdim));
    return fac__give(out, isinf(o) ? extreme_sum(A, d[1], d[0], keepdim, o > 0)
                                   : extreme_sum(A, d[0], d[1], keepdim, o > 0));
}

fac_status linalg_matrix_norm_str_composite(const fac_call_info *c, fac_tensor *self, const char *ord, fac_ints dim,
                                            bool keepdim, fac_dtype dtype, fac_tensor **out) {
    (void)c;
    int64_t d[2];
    FAC_TRY(check_matrix(self, dim, d));
    const bool nuclear = strcmp(ord, "nuc") == 0;
    FAC_CHECK(nuclear || strcmp(ord, "fro") == 0, FAC_ERR_ARGUMENT, "Order %s not supported.", ord);
    FAC_SCOPE(s);
    if (!nuclear) return fac__give(out, fac__s_linalg_vector_norm(self, fac_scalar_i_(2), ints(d, 2), keepdim, dtype));
    fac_tensor *A;
    FAC_TRY(in_dtype(self, dtype, &A));
    return fac__give(out, with_dims(sum_along(singular_values(A, d), -1, false), d, keepdim));
}

static fac_status check_rank_of_norm(const fac_tensor *self, fac_ints dim, int least) {
    FAC_CHECK(dim.v || (self->ndim >= least && self->ndim <= 2), FAC_ERR_SHAPE,
              "If dim is not specified but ord is, the input must be %s. Got %dD.", least == 1 ? "1D or 2D" : "2D",
              self->ndim);
    FAC_CHECK(!dim.v || dim.n <= 2, FAC_ERR_ARGUMENT,
              "If dim is specified, it must be of length 1 or 2. Got %zu numbers", dim.n);
    return FAC_OK;
}

fac_status linalg_norm_composite(const fac_call_info *c, fac_tensor *self, fac_opt_num ord, fac_ints dim, bool keepdim,
                                 fac_dtype dtype, fac_tensor **out) {
    if (dim.v && ord.set)
        FAC_CHECK(dim.n == 1 || dim.n == 2, FAC_ERR_ARGUMENT,
                  "If dim is specified, it must be of length 1 or 2. Got %zu numbers", dim.n);
    if (ord.set) FAC_TRY(check_rank_of_norm(self, dim, 1));
    if (ord.set && (dim.v ? dim.n == 2 : self->ndim == 2))
        return linalg_matrix_norm_composite(c, self, ord.v, dim.v ? dim : FAC_INTS(0, 1), keepdim, dtype, out);
    return fac__c_linalg_vector_norm(self, ord.set ? ord.v : fac_scalar_i_(2), dim, keepdim, dtype, out);
}

fac_status linalg_norm_str_composite(const fac_call_info *c, fac_tensor *self, const char *ord, fac_ints dim,
                                     bool keepdim, fac_dtype dtype, fac_tensor **out) {
    FAC_TRY(check_rank_of_norm(self, dim, 2));
    return linalg_matrix_norm_str_composite(c, self, ord, dim.v ? dim : FAC_INTS(0, 1), keepdim, dtype, out);
}

fac_status nuclear_norm_dim_composite(const fac_call_info *c, fac_tensor *self, fac_ints dim, bool keepdim,
                                      fac_tensor **out) {
    return linalg_matrix_norm_str_composite(c, self, "nuc", dim, keepdim, FAC_DTYPE_DEFAULT, out);
}

fac_status nuclear_norm_composite(const fac_call_info *c, fac_tensor *self, bool keepdim, fac_tensor **out) {
    FAC_CHECK(self->ndim == 2, FAC_ERR_SHAPE,
              "Expected a tensor with 2 dimensions, but got a tensor with %d dimension(s) instead.", self->ndim);
    return nuclear_norm_dim_composite(c, self, FAC_INTS(0, 1), keepdim, out);
}

fac_status frobenius_norm_composite(const fac_call_info *c, fac_tensor *self, fac_ints dim, bool keepdim,
                                    fac_tensor **out) {
    (void)c;
    FAC_CHECK(dim.n <= 2, FAC_ERR_ARGUMENT, "Expected at most 2 dimensions, but got %zu dimensions instead.", dim.n);
    return fac__c_linalg_vector_norm(self, fac_scalar_i_(2), dim, keepdim, FAC_DTYPE_DEFAULT, out);
}

/* ---- condition numbers ----------------------------------------------------------------------------------------------------------- */

/* Of matrices without elements the condition is 0. */
static fac_tensor *zero_each(fac_tensor *A) {
    fac_batch_sizes b = fac__batch_of(A, 2);
    return fac__s_new_zeros(A, ints(b.v, b.n), fac__real_dtype((fac_dtype)A->dtype), FAC_STRIDED, (fac_device){0},
                            (fac_opt_num){0});
}

static fac_tensor *ratio_of_values(fac_tensor *A, bool inverted) {
    fac_tensor *v = fac__s_linalg_svdvals(A, NULL);
    if (!v) return NULL;
    const int64_t k = v->sizes[v->ndim - 1];
    fac_tensor *first = fac__s_select_int(v, -1, 0), *last = fac__s_select_int(v, -1, k - 1);
    return inverted ? divide(last, first) : divide(first, last);
}

/* The inverse, with infinities for a singular matrix. */
static fac_tensor *inverse_or_infinity(fac_tensor *A) {
    fac_linalg_inv_ex_result r = fac__s_linalg_inv_ex(A, false);
    if (!r.inverse) return NULL;
    fac_tensor *singular = fac__s_gt_Scalar(r.info, fac_scalar_i_(0));
    return fill_where(r.inverse, fac__s_unsqueeze(fac__s_unsqueeze(singular, -1), -1), (double)INFINITY);
}

fac_status linalg_cond_composite(const fac_call_info *c, fac_tensor *self, fac_opt_num p, fac_tensor **out) {
    (void)c;
    const double o = p.set ? fac__scalar_f64(p.v) : 2, size = fabs(o);
    FAC_CHECK(!p.set || p.v.kind != FAC_KIND_COMPLEX, FAC_ERR_DTYPE, "linalg.cond expected a real norm type");
    FAC_CHECK(size == 1 || size == 2 || isinf(o), FAC_ERR_ARGUMENT, "linalg.cond got an invalid norm type: %g", o);
    FAC_TRY((size == 2 ? fac__need_matrices : fac__need_square)("A", self));
    FAC_SCOPE(s);
    if (self->numel == 0) return fac__give(out, zero_each(self));
    if (size == 2) return fac__give(out, ratio_of_values(self, o < 0));
    const fac_scalar ord = fac_scalar_f_(o);
    fac_tensor *of_self = fac__s_linalg_matrix_norm(self, ord, FAC_INTS(-2, -1), false, FAC_DTYPE_DEFAULT);
    fac_tensor *of_inverse =
        fac__s_linalg_matrix_norm(inverse_or_infinity(self), ord, FAC_INTS(-2, -1), false, FAC_DTYPE_DEFAULT);
    return fac__give(out, mul(of_self, of_inverse));
}

fac_status linalg_cond_str_composite(const fac_call_info *c, fac_tensor *self, const char *p, fac_tensor **out) {
    (void)c;
    const bool nuclear = strcmp(p, "nuc") == 0;
    FAC_CHECK(nuclear || strcmp(p, "fro") == 0, FAC_ERR_ARGUMENT, "linalg.cond got an invalid norm type: %s", p);
    FAC_TRY(fac__need_square("A", self));
    FAC_SCOPE(s);
    if (self->numel == 0) return fac__give(out, zero_each(self));
    if (nuclear) { /* the inverse's singular values are the reciprocals */
        fac_tensor *v = fac__s_linalg_svdvals(self, NULL);
        return fac__give(out, mul(sum_along(v, -1, false), sum_along(fac__s_reciprocal(v), -1, false)));
    }
    const fac_scalar two = fac_scalar_i_(2);
    fac_tensor *of_self = fac__s_linalg_vector_norm(self, two, FAC_INTS(-2, -1), false, FAC_DTYPE_DEFAULT);
    fac_tensor *of_inverse =
        fac__s_linalg_vector_norm(inverse_or_infinity(self), two, FAC_INTS(-2, -1), false, FAC_DTYPE_DEFAULT);
    return fac__give(out, mul(of_self, of_inverse));
}

/* ---- powers and the exponential -------------------------------------------------------------------------------------------------- */

static fac_status check_square(const fac_tensor *self) {
    FAC_CHECK(self->ndim >= 2, FAC_ERR_SHAPE, "The input tensor A must have at least 2 dimensions.");
    FAC_CHECK(fac__rows(self) == fac__cols(self), FAC_ERR_SHAPE,
              "A must be batches of square matrices, but they are %lld by %lld matrices", (long long)fac__rows(self),
              (long long)fac__cols(self));
    return FAC_OK;
}

static fac_tensor *identity_like(fac_tensor *self) {
    fac_tensor *eye = fac__s_eye(fac__rows(self), (fac_dtype)self->dtype, FAC_STRIDED, self->device, (fac_opt_num){0});
    return fac__s_clone(fac__s_expand(eye, ints(self->sizes, self->ndim), false), FAC_CONTIGUOUS);
}

/* The identity; where a gradient flows, one that has a gradient, of zeros. */
static fac_tensor *zeroth_power(fac_tensor *self) {
    fac_tensor *eye = identity_like(self);
    if (!fac__wants_derivative(self)) return eye;
    return fac__s_add_Tensor(fac__s_fill_Scalar(self, fac_scalar_i_(0)), eye, fac_scalar_i_(1));
}

/* The squares that n's binary digits name, multiplied from the lowest up. */
static fac_tensor *power(fac_tensor *A, uint64_t n) {
    fac_tensor *result = NULL, *square = A;
    for (; n && square; n >>= 1) {
        if (n & 1) result = result ? fac__s_matmul(result, square) : square;
        if (n > 1) square = fac__s_matmul(square, square);
    }
    return square ? result : NULL;
}

fac_status linalg_matrix_power_composite(const fac_call_info *c, fac_tensor *self, int64_t n, fac_tensor **out) {
    (void)c;
    FAC_TRY(check_square(self));
    FAC_SCOPE(s);
    if (n == 0) return fac__give(out, zeroth_power(self));
    if (n == 1) return fac__give(out, fac__s_clone(self, FAC_CONTIGUOUS));
    if (n == -1) return fac__c_linalg_inv(self, out);
    fac_tensor *base = n < 0 ? fac__s_linalg_inv(self) : self;
    return fac__give(out, power(base, n < 0 ? 0 - (uint64_t)n : (uint64_t)n));
}

fac_status linalg_matrix_exp_composite(const fac_call_info *c, fac_tensor *self, fac_tensor **out) {
    (void)c;
    if (!fac__is_half((fac_dtype)self->dtype)) return fac__c_matrix_exp_wide(self, out);
    FAC_SCOPE(s);
    return fac__give(out, cast(fac__s_matrix_exp_wide(cast(self, FAC_F32)), (fac_dtype)self->dtype));
}

/* ---- tensors as matrices ------------------------------------------------------------------------------------------------------------ */

static fac_status product_of(const int64_t *sizes, int n, int64_t *out) {
    FAC_CHECK(fac__numel(sizes, n, out), FAC_ERR_OVERFLOW, "the product of sizes is too large");
    return FAC_OK;
}

fac_status linalg_tensorinv_composite(const fac_call_info *c, fac_tensor *self, int64_t ind, fac_tensor **out) {
    (void)c;
    FAC_CHECK(ind > 0, FAC_ERR_ARGUMENT, "Expected a strictly positive integer for 'ind'");
    const int n = self->ndim, first = (int)fac__min(ind, n), last = n - first;
    int64_t rows, cols, sizes[FAC_MAX_DIMS];
    FAC_TRY(product_of(self->sizes, first, &rows));
    FAC_TRY(product_of(self->sizes + first, last, &cols));
    FAC_CHECK(
        rows == cols, FAC_ERR_SHAPE,
        "Expected self to satisfy the requirement prod(self.shape[ind:]) == prod(self.shape[:ind]), but got %lld != %lld",
        (long long)cols, (long long)rows);
    memcpy(sizes, self->sizes + first, (size_t)last * sizeof *sizes);
    memcpy(sizes + last, self->sizes, (size_t)first * sizeof *sizes);
    FAC_SCOPE(s);
    return fac__give(out,
                     fac__s_reshape(fac__s_linalg_inv(fac__s_reshape(self, FAC_INTS(rows, cols))), ints(sizes, n)));
}

/* self with the dimensions `dims` at the end, in their order. */
static fac_tensor *dims_last(fac_tensor *self, fac_ints dims) {
    int64_t places[FAC_MAX_DIMS];
    if (!dims.v) return self;
    if (dims.n > self->ndim) {
        (void)FAC_FAIL(FAC_ERR_ARGUMENT, "dims has more entries than self has dimensions");
        return NULL;
    }
    for (size_t i = 0; i < dims.n; i++) places[i] = self->ndim - (int64_t)dims.n + (int64_t)i;
    return fac__s_movedim_intlist(self, dims, ints(places, (int)dims.n));
}

fac_status linalg_tensorsolve_composite(const fac_call_info *c, fac_tensor *self, fac_tensor *other, fac_ints dims,
                                        fac_tensor **out) {
    (void)c;
    FAC_SCOPE(s);
    fac_tensor *A = dims_last(self, dims);
    if (!A) return fac_error();
    const int skip = (int)fac__min(other->ndim, A->ndim), rest = A->ndim - skip;
    int64_t unknowns, all;
    FAC_TRY(product_of(A->sizes + skip, rest, &unknowns));
    FAC_CHECK(
        unknowns == other->numel && fac__mul(unknowns, unknowns, &all) && self->numel == all, FAC_ERR_SHAPE,
        "Expected self to satisfy the requirement prod(self.shape[other.ndim:]) == prod(self.shape[:other.ndim]), but "
        "self is %s and other %s",
        FAC_SHAPE_TEXT(self), FAC_SHAPE_TEXT(other));
    fac_tensor *x = fac__s_linalg_solve(fac__s_reshape(A, FAC_INTS(unknowns, unknowns)),
                                        fac__s_reshape(other, FAC_INTS(unknowns)), true);
    return fac__give(out, fac__s_reshape(x, ints(A->sizes + skip, rest)));
}
