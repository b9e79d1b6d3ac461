/* Gradients of Cholesky and LU factors, and of what is computed with them. Those of complex matrices are of the kind that PyTorch has:
   the conjugate of the derivative. H is the conjugate transpose, tril* and triu* a triangle without the diagonal. */
#include "autograd/formulas/brief.h"
#include <facula/autograd.h>

static fac_tensor *product(fac_tensor *a, fac_tensor *b) { return a && b ? fac__s_matmul(a, b) : NULL; }
static fac_tensor *adjoint(fac_tensor *a) { return fac__s_mH(a); }
static fac_tensor *negative(fac_tensor *a) { return fac__s_neg(a); }
/* X with a X = b, and X with X a = b, for a triangular a. */
static fac_tensor *divide_left(fac_tensor *a, fac_tensor *b, bool upper, bool unit) {
    return fac__s_linalg_solve_triangular(a, b, upper, true, unit);
}
static fac_tensor *divide_right(fac_tensor *a, fac_tensor *b, bool upper, bool unit) {
    return fac__s_linalg_solve_triangular(a, b, upper, false, unit);
}

/* ---- Cholesky ----------------------------------------------------------------------------------------------------------------- */

/* With P = L^H dL, its lower triangle T and that without the diagonal T': L^-H (T + T'^H)/2 L^-1. The diagonal of a complex P is taken as
   it is, as by PyTorch: where dL has an imaginary part there, the gradient is not Hermitian. */
fac_tensor *cholesky_grad(fac_tensor *grad, fac_tensor *factor, bool upper) {
    if (!grad) return NULL;
    fac_tensor *l = upper ? adjoint(factor) : factor, *g = upper ? adjoint(grad) : grad;
    fac_tensor *p = product(adjoint(l), g);
    fac_tensor *middle = scaled_by(add(fac__s_tril(p, 0), adjoint(fac__s_tril(p, -1))), 0.5);
    fac_tensor *lh = adjoint(l);
    return divide_right(l, divide_left(lh, middle, true, false), false, false);
}

/* A = L L^H has the gradient m; L has (m + m^H) L, L^H has L^H (m + m^H). */
static fac_tensor *through_square(fac_tensor *m, fac_tensor *factor, bool upper) {
    fac_tensor *both = add(m, adjoint(m));
    return upper ? product(factor, both) : product(both, factor);
}

fac_tensor *cholesky_solve_grad_factor(fac_tensor *grad, fac_tensor *factor, fac_tensor *x, bool upper) {
    fac_tensor *b = fac__s_cholesky_solve(grad, factor, upper);
    return through_square(negative(product(b, adjoint(x))), factor, upper);
}

fac_tensor *cholesky_inverse_grad(fac_tensor *grad, fac_tensor *factor, fac_tensor *inverse, bool upper) {
    return through_square(negative(product(product(inverse, grad), inverse)), factor, upper);
}

/* ---- triangles ---------------------------------------------------------------------------------------------------------------- */

fac_tensor *solve_triangular_grad_b(fac_tensor *grad, fac_tensor *A, bool upper, bool left, bool unit) {
    return fac__s_linalg_solve_triangular(adjoint(A), grad, !upper, left, unit);
}

fac_tensor *solve_triangular_grad_self(fac_tensor *grad, fac_tensor *A, fac_tensor *x, bool upper, bool left,
                                       bool unit) {
    fac_tensor *b = solve_triangular_grad_b(grad, A, upper, left, unit);
    fac_tensor *all = negative(left ? product(b, adjoint(x)) : product(adjoint(x), b));
    return upper ? fac__s_triu(all, unit) : fac__s_tril(all, unit ? -1 : 0);
}

/* ---- LU ----------------------------------------------------------------------------------------------------------------------- */

static fac_tensor *rows(fac_tensor *t, int64_t from, int64_t n) { return fac__s_narrow(t, -2, from, n); }
static fac_tensor *columns(fac_tensor *t, int64_t from, int64_t n) { return fac__s_narrow(t, -1, from, n); }
static fac_tensor *stacked(fac_tensor *a, fac_tensor *b, int64_t dim) {
    return a && b ? fac__s_cat((fac_tensors){(fac_tensor *[]){a, b}, 2}, dim) : NULL;
}

/* A = P [L1; L2] [U1 U2] with square L1 and U1. The gradient of A1 is P L1^-H M U1^-H with
   M = tril*(L1^H dL1 - dU2 U2^H) + triu(dU1 U1^H - L2^H dL2); that of what is below is dL2 U1^-H, of what is right P L1^-H dU2. */
static fac_tensor *through_triangles(fac_tensor *l, fac_tensor *u, fac_tensor *dl, fac_tensor *du, int64_t k) {
    const int64_t m = l->sizes[l->ndim - 2], n = u->sizes[u->ndim - 1];
    fac_tensor *l1 = m > k ? rows(l, 0, k) : l, *u1 = n > k ? columns(u, 0, k) : u, *low = NULL, *high = NULL;
    if (!l1 || !u1) return NULL;
    fac_tensor *l1h = adjoint(l1), *u1h = adjoint(u1);
    fac_tensor *du2 = du && n > k ? columns(du, k, n - k) : NULL, *dl2 = dl && m > k ? rows(dl, k, m - k) : NULL;
    if (dl) low = product(l1h, m > k ? rows(dl, 0, k) : dl);
    if (du2) low = plus(low, negative(product(du2, adjoint(columns(u, k, n - k)))));
    if (du) high = product(n > k ? columns(du, 0, k) : du, u1h);
    if (dl2) high = plus(high, negative(product(adjoint(rows(l, k, m - k)), dl2)));
    fac_tensor *middle = plus(low ? fac__s_tril(low, -1) : NULL, high ? fac__s_triu(high, 0) : NULL);
    fac_tensor *g = divide_right(u1h, divide_left(l1h, middle, true, true), false, false);
    if (m > k)
        g = stacked(g, dl2 ? divide_right(u1h, dl2, false, false) : zeros_of(l, fac__sizes_now(rows(l, k, m - k))), -2);
    if (n > k) {
        fac_tensor *right = du2 ? divide_left(l1h, du2, true, true) : zeros_of(u, fac__sizes_now(columns(u, k, n - k)));
        g = stacked(g, right, -1);
    }
    return g;
}

fac_tensor *lu_factor_grad(fac_tensor *grad, fac_tensor *lu, fac_tensor *pivots) {
    if (!grad) return NULL;
    const int64_t m = lu->sizes[lu->ndim - 2], n = lu->sizes[lu->ndim - 1], k = fac__min(m, n);
    fac_lu_unpack_result parts = fac__s_lu_unpack(lu, pivots, true, true);
    fac_tensor *dl = fac__s_tril(n > k ? columns(grad, 0, k) : grad, -1);
    fac_tensor *du = fac__s_triu(m > k ? rows(grad, 0, k) : grad, 0);
    if (!parts.P) return NULL;
    return product(parts.P, through_triangles(parts.L, parts.U, dl, du, k));
}

/* The triangles' gradients, side by side in one matrix. */
fac_tensor *lu_unpack_grad(fac_tensors in, int64_t m, int64_t n) {
    const int64_t k = fac__min(m, n);
    fac_tensor *low = in.v[1] ? fac__s_tril(in.v[1], -1) : NULL, *high = in.v[2] ? fac__s_triu(in.v[2], 0) : NULL;
    if (low && n > k) low = fac__s_constant_pad_nd(low, FAC_INTS(0, n - k), fac_scalar_i_(0));
    if (high && m > k) high = fac__s_constant_pad_nd(high, FAC_INTS(0, 0, 0, m - k), fac_scalar_i_(0));
    return plus(low, high);
}

fac_tensor *lu_solve_grad_b(fac_tensor *grad, fac_tensor *lu, fac_tensor *pivots, bool left, bool adjoint_of) {
    return fac__s_linalg_lu_solve(lu, pivots, grad, left, !adjoint_of);
}

/* Of X = A^-1 B: dL = -tril*(L^-H V U^H), dU = -triu(V) with V = U^-H dX X^H; the system is turned if it stands on the right.
   Of X = A^-H B = P L^-H U^-H B, with W = P^T X: dL = -tril*(W (L^-1 P^T dX)^H), dU = -triu(L^H W (A^-1 dX)^H). */
fac_tensor *lu_solve_grad_factors(fac_tensor *grad, fac_tensor *lu, fac_tensor *pivots, fac_tensor *x, bool left,
                                  bool adjoint_of) {
    const bool turned = left ? adjoint_of : !adjoint_of;
    fac_tensor *g = left ? grad : adjoint(grad), *y = left ? x : adjoint(x), *dl, *du;
    fac_lu_unpack_result parts = fac__s_lu_unpack(lu, pivots, true, turned);
    fac_tensor *l = parts.L, *u = parts.U;
    if (!l || !u) return NULL;
    if (!turned) {
        fac_tensor *v = product(divide_left(adjoint(u), g, false, false), adjoint(y));
        du = v;
        dl = divide_left(adjoint(l), product(v, adjoint(u)), true, true);
    } else {
        fac_tensor *back = adjoint(parts.P), *w = product(back, y);
        fac_tensor *z = divide_left(l, product(back, g), false, true);
        dl = product(w, adjoint(z));
        du = product(product(adjoint(l), w), adjoint(divide_left(u, z, true, false)));
    }
    return negative(add(fac__s_tril(dl, -1), fac__s_triu(du, 0)));
}

/* ---- solutions and inverses ------------------------------------------------------------------------------------------------------- */

/* A^-H g: by the factors that the forward left, or, where the gradient is differentiated again, by A itself. */
static fac_tensor *solve_adjoint(fac_tensor *A, fac_tensor *lu, fac_tensor *pivots, fac_tensor *g, bool left) {
    if (fac_is_grad_enabled()) return fac__s_linalg_solve(adjoint(A), g, left);
    return fac__s_linalg_lu_solve(lu, pivots, g, left, true);
}

static bool is_vector_for(const fac_tensor *A, const fac_tensor *B) {
    return B->ndim == 1 || (B->ndim == A->ndim - 1 && fac__has_sizes(B, A->sizes, A->ndim - 1));
}

fac_status solve_grads(fac_tensor **grads, fac_tensors in, fac_tensor *A, fac_tensor *B, fac_tensor *x, fac_tensor *lu,
                       fac_tensor *pivots, bool left) {
    fac_tensor *g = in.v[0], *of_a = in.v[1] ? lu_factor_grad(in.v[1], lu, pivots) : NULL;
    if (g) {
        const bool vector = is_vector_for(A, B);
        fac_tensor *b = solve_adjoint(A, lu, pivots, vector ? fac__s_unsqueeze(g, -1) : g, left);
        fac_tensor *y = adjoint(vector ? fac__s_unsqueeze(x, -1) : x);
        of_a = plus(of_a, negative(left ? product(b, y) : product(y, b)));
        grads[1] = vector ? fac__s_squeeze_dim(b, -1) : b;
    }
    grads[0] = of_a;
    return fac_error();
}

fac_tensor *inverse_grad(fac_tensor *grad, fac_tensor *inverse) {
    if (!grad) return NULL;
    fac_tensor *ih = adjoint(inverse);
    return negative(product(ih, product(grad, ih)));
}

fac_tensor *ldl_solve_grad(fac_tensor *grad, fac_tensor *ld, fac_tensor *pivots, bool hermitian) {
    const bool turned = !hermitian && fac_dtype_is_complex((fac_dtype)ld->dtype);
    fac_tensor *x = fac__s_linalg_ldl_solve(ld, pivots, turned ? fac__s_conj(grad) : grad, hermitian);
    return turned ? fac__s_conj(x) : x;
}

/* ---- determinants ------------------------------------------------------------------------------------------------------------------ */

static fac_tensor *matrix_diagonal(fac_tensor *t) { return fac__s_diagonal(t, 0, -2, -1); }
static fac_tensor *diagonal_matrix(fac_tensor *t) { return fac__s_diag_embed(t, 0, -2, -1); }
/* Numbers of a batch as multiples of the identity. */
static fac_tensor *scaled_identity(fac_tensor *numbers, fac_tensor *A) {
    fac_tensor *column = fac__s_unsqueeze(numbers, -1);
    int64_t sizes[FAC_MAX_DIMS];
    memcpy(sizes, A->sizes, (size_t)(A->ndim - 1) * sizeof *sizes);
    return diagonal_matrix(fac__s_expand(column, (fac_ints){sizes, (size_t)A->ndim - 1}, false));
}

/* 1 or -1, by the number of swaps. */
static fac_tensor *parity(fac_tensor *pivots, fac_tensor *like) {
    const int64_t n = pivots->sizes[pivots->ndim - 1];
    fac_tensor *places = fac__s_arange_start(fac_scalar_i_(1), fac_scalar_i_(n + 1), FAC_I32, FAC_STRIDED,
                                             pivots->device, (fac_opt_num){0});
    fac_tensor *swaps = sum_over(fac__s_ne_Tensor(pivots, places), FAC_INTS(-1), false);
    fac_tensor *odd = fac__s_remainder_Scalar(swaps, fac_scalar_i_(2));
    fac_tensor *sign = fac__s_rsub_Scalar(fac__s_mul_Scalar(odd, fac_scalar_i_(2)), fac_scalar_i_(1), fac_scalar_i_(1));
    return fac__s_to_dtype(sign, (fac_dtype)like->dtype, false, false, FAC_FORMAT_DEFAULT);
}

static double smallest_step(const fac_tensor *t) {
    return t->dtype == FAC_F32 || t->dtype == FAC_C64 ? 0x1p-23 : 0x1p-52;
}

/* det(A)^* A^-H is the adjugate's adjoint, which is continuous in A: zeros on U's diagonal become the smallest step, and the determinant
   is that of the factors so changed. */
static fac_tensor *det_grad_once(fac_tensor *grad, fac_tensor *A, fac_tensor *lu, fac_tensor *pivots) {
    fac_tensor *u = matrix_diagonal(lu), *zero = is_zero(u);
    fac_tensor *step =
        scaled_by(fac__s_to_dtype(zero, (fac_dtype)lu->dtype, false, false, FAC_FORMAT_DEFAULT), smallest_step(lu));
    fac_tensor *whole = add(lu, diagonal_matrix(step));
    fac_tensor *det = mul(fac__s_prod_dim_int(add(u, step), -1, false, FAC_DTYPE_DEFAULT), parity(pivots, lu));
    fac_tensor *right = scaled_identity(mul(grad, fac__s_conj(det)), A);
    return fac__s_linalg_lu_solve(whole, pivots, right, true, true);
}

/* The adjugate by singular values, which is smooth where A is singular: A = U S V^H, det A = det U det V^H prod S, and the derivative of
   the product of S by one of them is the product of the others. */
static fac_tensor *det_grad_singular(fac_tensor *grad, fac_tensor *A) {
    fac__linalg_svd_result r = fac__s__linalg_svd(A, false, true, NULL);
    if (!r.U) return NULL;
    fac_tensor *phase = mul(fac__s_linalg_det(r.U), fac__s_linalg_det(r.Vh));
    fac_tensor *n_by_n = fac__s_expand(fac__s_unsqueeze(r.S, -2), fac__sizes_now(A), false);
    fac_tensor *others = add(fac__s_tril(n_by_n, -1), fac__s_triu(n_by_n, 1));
    fac_tensor *ones = scaled_identity(fac__s_ones_like(phase, (fac_dtype)r.S->dtype, FAC_STRIDED, (fac_device){0},
                                                        (fac_opt_num){0}, FAC_FORMAT_DEFAULT),
                                       A);
    fac_tensor *gamma = fac__s_prod_dim_int(add(others, ones), -1, false, FAC_DTYPE_DEFAULT);
    fac_tensor *scale = mul(fac__s_unsqueeze(mul(fac__s_conj(phase), grad), -1), gamma);
    return product(mul(r.U, fac__s_unsqueeze(scale, -2)), r.Vh);
}

/* Where solving with A would leave no digits: by the factors, as the determinant says nothing of the size of A. */
static fac_tensor *is_singular(fac_tensor *lu) {
    fac_tensor *u = fac__s_abs(matrix_diagonal(lu));
    fac_tensor *least = fac__s_amin(u, FAC_INTS(-1), false), *most = fac__s_amax(u, FAC_INTS(-1), false);
    return fac__s_le_Tensor(least, scaled_by(most, 128 * smallest_step(lu)));
}

static bool some(fac_tensor *mask) {
    fac_tensor *any = fac__s_any(mask);
    return any && any->device.type != FAC_META && fac__scalar_is(fac__s_item(any), 1);
}

fac_tensor *det_grad(fac_tensors in, fac_tensor *A, fac_tensor *det, fac_tensor *lu, fac_tensor *pivots) {
    fac_tensor *of_factors = in.v[1] ? lu_factor_grad(in.v[1], lu, pivots) : NULL;
    if (!in.v[0]) return of_factors;
    if (!fac_is_grad_enabled()) return plus(of_factors, det_grad_once(in.v[0], A, lu, pivots));
    fac_tensor *g;
    if (lu->numel && some(is_singular(lu)))
        g = det_grad_singular(in.v[0], A);
    else
        g = fac__s_linalg_solve(adjoint(A), scaled_identity(mul(in.v[0], fac__s_conj(det)), A), true);
    return plus(of_factors, g);
}

/* With w = d log|det| - i Im(d sign^* sign): w A^-H. */
fac_tensor *slogdet_grad(fac_tensors in, fac_tensor *A, fac_tensor *sign, fac_tensor *lu, fac_tensor *pivots) {
    fac_tensor *of_factors = in.v[2] ? lu_factor_grad(in.v[2], lu, pivots) : NULL, *w = in.v[1];
    if (in.v[0] && fac_dtype_is_complex((fac_dtype)A->dtype)) {
        fac_tensor *angle = fac__s_imag(mul(fac__s_conj(in.v[0]), sign));
        fac_tensor *turn = fac__s_complex(fac__s_zeros_like(angle, FAC_DTYPE_DEFAULT, FAC_STRIDED, (fac_device){0},
                                                            (fac_opt_num){0}, FAC_FORMAT_DEFAULT),
                                          negative(angle));
        w = plus(turn, w);
    }
    if (!w) return of_factors;
    fac_tensor *right = scaled_identity(fac__s_to_dtype(w, (fac_dtype)A->dtype, false, false, FAC_FORMAT_DEFAULT), A);
    return plus(of_factors, solve_adjoint(A, lu, pivots, right, true));
}
