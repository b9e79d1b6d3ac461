/* Gradients of QR factors, reflections, singular values and vectors, eigenvalues and eigenvectors, and least squares. Those of complex
   matrices are of the kind that PyTorch has: the conjugate of the derivative. H is the conjugate transpose.

   Singular and eigenvectors are free up to a factor, of modulus 1 where matrices are complex: a gradient exists only for what does not
   depend on it. */
#include "autograd/formulas/brief.h"
#include <facula/autograd.h>
#include <math.h>

static fac_tensor *product(fac_tensor *a, fac_tensor *b) { return a && b ? fac__s_matmul(a, b) : NULL; }
static fac_tensor *adjoint(fac_tensor *a) { return fac__s_mH(a); }
static fac_tensor *negative(fac_tensor *a) { return fac__s_neg(a); }
static fac_tensor *minus(fac_tensor *a, fac_tensor *b) { return !b ? a : !a ? negative(b) : sub(a, b); }
static fac_tensor *columns(fac_tensor *t, int64_t from, int64_t n) { return fac__s_narrow(t, -1, from, n); }
static fac_tensor *row_of(fac_tensor *v) { return fac__s_unsqueeze(v, -2); }
static fac_tensor *column_of(fac_tensor *v) { return fac__s_unsqueeze(v, -1); }
static fac_tensor *matrix_diagonal(fac_tensor *t) { return fac__s_diagonal(t, 0, -2, -1); }
static fac_tensor *diagonal_matrix(fac_tensor *t) { return fac__s_diag_embed(t, 0, -2, -1); }
static bool is_complex(const fac_tensor *t) { return fac_dtype_is_complex((fac_dtype)t->dtype); }
static int64_t rows_in(const fac_tensor *t) { return t->sizes[t->ndim - 2]; }
static int64_t columns_in(const fac_tensor *t) { return t->sizes[t->ndim - 1]; }

static fac_tensor *refused(const char *why) {
    (void)FAC_FAIL(FAC_ERR_AUTOGRAD, "%s", why);
    return NULL;
}

/* ---- QR ------------------------------------------------------------------------------------------------------------------------ */

/* Of a square R: (dQ + Q (T + T^H)) R^-H with T the upper triangle of dR R^H - Q^H dQ, its diagonal halved. */
static fac_tensor *qr_grad_square(fac_tensor *dq, fac_tensor *dr, fac_tensor *q, fac_tensor *r) {
    fac_tensor *rh = adjoint(r);
    fac_tensor *y = minus(dr ? product(dr, rh) : NULL, dq ? product(adjoint(q), dq) : NULL);
    fac_tensor *t = scaled_by(add(fac__s_triu(y, 0), fac__s_triu(y, 1)), 0.5);
    fac_tensor *g = plus(dq, product(q, add(t, adjoint(t))));
    return fac__s_linalg_solve_triangular(rh, g, false, false, false);
}

/* A wide A is [A1 A2] with A1 = Q R1 and A2 = Q R2, where R2 = Q^H A2. */
fac_tensor *qr_grad(fac_tensors in, fac_tensor *q, fac_tensor *r, const char *mode) {
    fac_tensor *dq = in.v[0], *dr = in.v[1];
    if (!dq && !dr) return NULL;
    if (strcmp(mode, "r") == 0)
        return refused("The derivative of linalg.qr depends on Q, which is not computed when mode='r'. Please use "
                       "linalg.qr(A, mode='reduced') if you are going to require gradients.");
    const int64_t k = columns_in(q), m = rows_in(r), n = columns_in(r);
    if (m > n) return refused("The QR decomposition is not differentiable when mode='complete' and nrows > ncols.");
    if (n == k) return qr_grad_square(dq, dr, q, r);
    fac_tensor *r2 = columns(r, k, n - k), *dr2 = dr ? columns(dr, k, n - k) : NULL;
    fac_tensor *of_q = dr2 ? plus(dq, product(product(q, r2), adjoint(dr2))) : dq;
    fac_tensor *left = qr_grad_square(of_q, dr ? columns(dr, 0, k) : NULL, q, columns(r, 0, k));
    fac_tensor *right = dr2 ? product(q, dr2) : zeros_of(r2, fac__sizes_now(r2));
    return left && right ? fac__s_cat((fac_tensors){(fac_tensor *[]){left, right}, 2}, -1) : NULL;
}

/* ---- reflections ------------------------------------------------------------------------------------------------------------------ */

/* Y = H_1 ... H_k C, or H_k^H ... H_1^H C if transpose, with H_i = I - tau_i v_i v_i^H, where v_i is column i of V: Y = C - V T V^H C, or
   with T^H (Schreiber and Van Loan 1989). T = A^-1 D with D = diag(tau), A = I + D U, and U what V^H V has above the diagonal; a tau of
   zero is no exception. */
typedef struct reflections {
    fac_tensor *v, *tau, *above, *a, *t; /* `a` is read above its diagonal only */
} reflections;

static fac_tensor *solve_above(fac_tensor *a, fac_tensor *b) {
    return a && b ? fac__s_linalg_solve_triangular(a, b, true, true, true) : NULL;
}

/* What is on and above the diagonal of the input is not read. */
static fac_tensor *below_diagonal(fac_tensor *columns_of, fac_tensor *input, int64_t k) {
    fac_tensor *g = fac__s_tril(columns_of, -1);
    const int64_t rest = columns_in(input) - k;
    return rest ? fac__s_constant_pad_nd(g, FAC_INTS(0, rest), fac_scalar_i_(0)) : g;
}

static reflections reflections_of(fac_tensor *input, fac_tensor *tau) {
    const int64_t k = columns_in(tau), m = rows_in(input);
    fac_tensor *below = fac__s_tril(columns(input, 0, k), -1);
    fac_tensor *ones = fac__s_eye_m(m, k, (fac_dtype)input->dtype, FAC_STRIDED, input->device, (fac_opt_num){0});
    reflections h = {.v = add(below, ones), .tau = tau};
    h.above = fac__s_triu(product(adjoint(h.v), h.v), 1);
    h.a = mul(column_of(tau), h.above);
    h.t = solve_above(h.a, diagonal_matrix(tau));
    return h;
}

/* Gradients of V and tau, given that of T. */
static void through_triangle(const reflections *h, fac_tensor *dt, fac_tensor **of_v, fac_tensor **of_tau) {
    fac_tensor *y = fac__s_linalg_solve_triangular(adjoint(h->a), dt, false, true, true);
    fac_tensor *da = negative(product(y, adjoint(h->t)));
    fac_tensor *du = fac__s_triu(mul(fac__s_conj(column_of(h->tau)), da), 1);
    *of_tau = add(matrix_diagonal(y), sum_over(mul(da, fac__s_conj(h->above)), FAC_INTS(-1), false));
    *of_v = product(h->v, add(du, adjoint(du)));
}

/* The gradients of input and tau, and the return value of C, from G: with S = V^H C and R = V^H G, and T or T^H in the middle,
   of C  G - V T^H R,  of T  -R S^H,  of V  -G S^H T^H - C R^H T, and what T gives. */
static fac_tensor *through_reflections(fac_tensor *input, fac_tensor *tau, bool transpose, fac_tensor *C, fac_tensor *g,
                                       fac_tensor **of_input, fac_tensor **of_tau) {
    const int64_t k = columns_in(tau);
    if (k == 0) {
        *of_input = zeros_of(input, fac__sizes_now(input));
        *of_tau = zeros_of(tau, fac__sizes_now(tau));
        return g;
    }
    const reflections h = reflections_of(input, tau);
    fac_tensor *vh = adjoint(h.v), *s = product(vh, C), *r = product(vh, g), *sh = adjoint(s), *of_v;
    fac_tensor *middle = transpose ? adjoint(h.t) : h.t, *turned = transpose ? h.t : adjoint(h.t);
    fac_tensor *of_middle = negative(product(r, sh));
    through_triangle(&h, transpose ? adjoint(of_middle) : of_middle, &of_v, of_tau);
    fac_tensor *direct = add(product(product(g, sh), turned), product(C, product(adjoint(r), middle)));
    *of_input = below_diagonal(sub(of_v, direct), input, k);
    return sub(g, product(h.v, product(turned, r)));
}

fac_status householder_product_grads(fac_tensor **grads, fac_tensor *grad, fac_tensor *input, fac_tensor *tau) {
    fac_tensor *eye = fac__s_eye_m(rows_in(input), columns_in(input), (fac_dtype)input->dtype, FAC_STRIDED,
                                   input->device, (fac_opt_num){0});
    if (!eye) return fac_error();
    (void)through_reflections(input, tau, false, fac__s_expand(eye, fac__sizes_now(input), false), grad, &grads[0],
                              &grads[1]);
    return fac_error();
}

/* C Q = (Q^H C^H)^H. */
fac_status ormqr_grads(fac_tensor **grads, fac_tensor *grad, fac_tensor *input, fac_tensor *tau, fac_tensor *other,
                       bool left, bool transpose) {
    fac_tensor *c = left ? other : adjoint(other), *g = left ? grad : adjoint(grad);
    fac_tensor *of_c = through_reflections(input, tau, left ? transpose : !transpose, c, g, &grads[0], &grads[1]);
    grads[2] = left ? of_c : adjoint(of_c);
    return fac_error();
}

/* ---- singular values -------------------------------------------------------------------------------------------------------------- */

/* Row vector minus column vector, with ones on the diagonal: what differences of values are divided by. */
static fac_tensor *differences(fac_tensor *v) {
    fac_tensor *d = sub(row_of(v), column_of(v));
    return add(d, diagonal_matrix(fac__s_ones_like(v, FAC_DTYPE_DEFAULT, FAC_STRIDED, (fac_device){0}, (fac_opt_num){0},
                                                   FAC_FORMAT_DEFAULT)));
}

static fac_tensor *skew(fac_tensor *x) { return sub(x, adjoint(x)); }

/* Refuses a loss that depends on the phases that are free. */
static bool depends_on_phase(fac_tensor *diagonal, const fac_tensor *like) {
    if (!diagonal || !diagonal->numel || diagonal->device.type == FAC_META) return false;
    FAC_NO_GRAD(guard);
    fac_tensor *worst = fac__s_amax(fac__s_abs(fac__s_imag(diagonal)), FAC_INTS(), false);
    const double limit = like->dtype == FAC_C64 ? 1e-2 : 1e-3;
    return worst && fac__scalar_f64(fac__s_item(worst)) > limit;
}

/* X - U U^H X, for what leaves the space of U's columns; nothing if U is square. */
static fac_tensor *outside(fac_tensor *x, fac_tensor *u) {
    return rows_in(u) > columns_in(u) ? sub(x, product(u, product(adjoint(u), x))) : NULL;
}

/* The middle of U (...) V^H: skew(U^H dU) / E S + S skew(V^H dV) / E + dS, with E_jk = S_k^2 - S_j^2. */
static fac_tensor *svd_middle(fac_tensor *uu, fac_tensor *vv, fac_tensor *ds, fac_tensor *s) {
    fac_tensor *e = differences(mul(s, s)), *middle = NULL;
    if (uu) middle = mul(divide(skew(uu), e), row_of(s));
    if (vv) middle = plus(middle, mul(column_of(s), divide(skew(vv), e)));
    if (uu && is_complex(uu)) middle = add(middle, diagonal_matrix(divide(matrix_diagonal(skew(uu)), scaled_by(s, 2))));
    return ds ? plus(middle, diagonal_matrix(ds)) : middle;
}

static fac_tensor *svd_grad_thin(fac_tensor *du, fac_tensor *ds, fac_tensor *dvh, fac_tensor *u, fac_tensor *s,
                                 fac_tensor *vh) {
    fac_tensor *v = adjoint(vh), *dv = dvh ? adjoint(dvh) : NULL;
    if (!du && !dv) return product(mul(u, row_of(ds)), vh);
    fac_tensor *uu = du ? product(adjoint(u), du) : NULL, *vv = dv ? product(vh, dv) : NULL;
    if (is_complex(u) && depends_on_phase(matrix_diagonal(plus(uu, vv)), u))
        return refused(
            "svd_backward: The singular vectors in the complex case are specified up to multiplication by e^{i "
            "phi}. The specified loss function depends on this phase term, making it ill-defined.");
    fac_tensor *g = product(product(u, svd_middle(uu, vv, ds, s)), vh);
    fac_tensor *out_u = du ? outside(du, u) : NULL, *out_v = dv ? outside(dv, v) : NULL;
    if (out_u) g = plus(g, product(divide(out_u, row_of(s)), vh));
    if (out_v) g = plus(g, product(divide(u, row_of(s)), adjoint(out_v)));
    return g;
}

fac_tensor *svd_grad(fac_tensors in, fac_tensor *u, fac_tensor *s, fac_tensor *vh, bool compute_uv) {
    fac_tensor *du = in.v[0], *ds = in.v[1], *dvh = in.v[2];
    if (!du && !ds && !dvh) return NULL;
    if (!compute_uv)
        return refused("a gradient of singular values needs the singular vectors: compute_uv must be true");
    const int64_t k = columns_in(s);
    const bool wide_u = columns_in(u) > k, wide_v = rows_in(vh) > k;
    if (wide_u) u = columns(u, 0, k), du = du ? columns(du, 0, k) : NULL;
    if (wide_v) vh = fac__s_narrow(vh, -2, 0, k), dvh = dvh ? fac__s_narrow(dvh, -2, 0, k) : NULL;
    if (!u || !vh) return NULL;
    return svd_grad_thin(du, ds, dvh, u, s, vh);
}

/* ---- eigenvalues ------------------------------------------------------------------------------------------------------------------- */

static const char eigenvector_phase[] =
    "linalg_eig_backward: The eigenvectors in the complex case are specified up to multiplication by e^{i phi}. The "
    "specified loss function depends on this quantity, so it is ill-defined.";

/* A matrix with a diagonal in place of its own, or of zeros. */
static fac_tensor *with_diagonal(fac_tensor *m, fac_tensor *diagonal) {
    fac_tensor *bare = sub(m, diagonal_matrix(matrix_diagonal(m)));
    return diagonal ? add(bare, diagonal_matrix(diagonal)) : bare;
}

/* V (S / E + dL) V^H with E_jk = L_k - L_j and S the skew-Hermitian part of V^H dV: V stays unitary. The gradient is Hermitian. */
fac_tensor *eigh_grad(fac_tensors in, fac_tensor *values, fac_tensor *v, bool compute_v) {
    fac_tensor *dl = in.v[0], *dv = in.v[1];
    if (!dl && !dv) return NULL;
    if (!compute_v) return refused("a gradient of eigenvalues needs the eigenvectors: compute_v must be true");
    fac_tensor *vh = adjoint(v);
    if (!dv) return product(mul(v, row_of(dl)), vh);
    fac_tensor *vv = product(vh, dv);
    if (is_complex(v) && depends_on_phase(matrix_diagonal(vv), v)) return refused(eigenvector_phase);
    fac_tensor *skew = scaled_by(sub(vv, adjoint(vv)), 0.5);
    return product(v, product(with_diagonal(divide(skew, differences(values)), dl), vh));
}

/* V^-H ((V^H dV - V^H V diag(Re(V^H dV))) / conj(E) + dL) V^H: the columns of V have norm 1. */
fac_tensor *eig_grad(fac_tensors in, fac_tensor *values, fac_tensor *v) {
    fac_tensor *dl = in.v[0], *dv = in.v[1];
    if (!dl && !dv) return NULL;
    fac_tensor *vh = adjoint(v), *middle;
    if (dv) {
        fac_tensor *vv = product(vh, dv);
        if (depends_on_phase(matrix_diagonal(vv), v)) return refused(eigenvector_phase);
        fac_tensor *lengths = mul(product(vh, v), row_of(fac__s_real(matrix_diagonal(vv))));
        middle = with_diagonal(divide(sub(vv, lengths), differences(fac__s_conj(values))), dl);
    } else {
        middle = diagonal_matrix(dl);
    }
    return fac__s_linalg_solve(vh, product(middle, vh), true);
}

/* ---- pseudo-inverses and least squares ---------------------------------------------------------------------------------------------- */

/* The pseudo-inverse P of a matrix that keeps its rank has, by Golub and Pereyra (1973, eq. 4.12),
   dP = -P dA P + P P^H dA^H (I - A P) + (I - P A) dA^H P^H P. */
fac_tensor *pinv_grad(fac_tensor *grad, fac_tensor *p, fac_tensor *A) {
    fac_tensor *ph = adjoint(p), *gh = adjoint(grad);
    fac_tensor *direct = product(ph, product(grad, ph));
    fac_tensor *left = product(sub(gh, product(A, product(p, gh))), product(p, ph));
    fac_tensor *right = product(product(ph, p), sub(gh, product(product(gh, p), A)));
    return add(sub(left, direct), right);
}

/* X = pinv(A) b; residuals are |b - A X|^2, whose change through X vanishes. */
fac_status lstsq_grads(fac_tensor **grads, fac_tensors in, fac_tensor *A, fac_tensor *b, fac_tensor *x) {
    const bool vector = b->ndim == 1 || (b->ndim == A->ndim - 1 && fac__has_sizes(b, A->sizes, A->ndim - 1));
    fac_tensor *dx = in.v[0], *dr = in.v[1], *of_a = NULL, *of_b = NULL;
    if (vector) b = column_of(b), x = column_of(x), dx = dx ? column_of(dx) : NULL;
    if (dx) {
        fac_tensor *p = fac__s_linalg_pinv_atol_rtol_float(A, (fac_opt_num){0}, (fac_opt_num){0}, false);
        if (!p) return fac_error();
        of_a = pinv_grad(product(dx, adjoint(b)), p, A);
        of_b = product(adjoint(p), dx);
    }
    if (dr && dr->numel) {
        fac_tensor *twice = scaled_by(mul(sub(product(A, x), b), row_of(dr)), 2);
        of_a = plus(of_a, product(twice, adjoint(x)));
        of_b = plus(of_b, negative(twice));
    }
    grads[0] = of_a;
    grads[1] = of_b && vector ? fac__s_squeeze_dim(of_b, -1) : of_b;
    return fac_error();
}

/* ---- exponentials ---------------------------------------------------------------------------------------------------------------------- */

/* The exponential of [[B, G], [0, B]] with B = A^H has the derivative at B along G in its upper right (Najfeld and Havel 1995). */
fac_tensor *matrix_exp_grad(fac_tensor *grad, fac_tensor *A) {
    const int64_t n = columns_in(A);
    fac_tensor *b = adjoint(A), *zero = zeros_of(A, fac__sizes_now(A));
    if (!b || !zero || n == 0) return zero;
    fac_tensor *high = fac__s_cat((fac_tensors){(fac_tensor *[]){b, grad}, 2}, -1);
    fac_tensor *low = fac__s_cat((fac_tensors){(fac_tensor *[]){zero, b}, 2}, -1);
    if (!high || !low) return NULL;
    fac_tensor *both = fac__s_matrix_exp_wide(fac__s_cat((fac_tensors){(fac_tensor *[]){high, low}, 2}, -2));
    return columns(fac__s_narrow(both, -2, 0, n), n, n);
}

/* ---- roots and polar factors ------------------------------------------------------------------------------------------------------------ */

/* X with X S + S X = m, of Hermitian S without pairs of eigenvalues that cancel out: in the basis of S each element is divided by the
   sum of two eigenvalues. */
static fac_tensor *sylvester(fac_tensor *m, fac_tensor *s) {
    fac_linalg_eigh_result r = fac__s_linalg_eigh(s, "L");
    fac_tensor *v = r.eigenvectors, *values = r.eigenvalues;
    if (!v || !m) return NULL;
    fac_tensor *sums = add(row_of(values), column_of(values)), *vh = adjoint(v);
    return product(v, product(divide(product(vh, product(m, v)), sums), vh));
}

static fac_tensor *hermitian_part(fac_tensor *m) { return m ? scaled_by(add(m, adjoint(m)), 0.5) : NULL; }

/* Of S S = A: dS S + S dS = dA, and the map from dA to dS is its own adjoint. */
fac_tensor *matrix_sqrth_grad(fac_tensor *grad, fac_tensor *result) { return sylvester(hermitian_part(grad), result); }

/* Of A = U H with dU = U W + (I - U U^H) dA H^-1 and dH = U^H dA - W H, where the skew-Hermitian W solves W H + H W = M - M^H for
   M = U^H dA. */
fac_tensor *polar_grad(fac_tensors in, fac_tensor *u, fac_tensor *h) {
    fac_tensor *du = in.v[0], *dh = hermitian_part(in.v[1]);
    if (!du && !dh) return NULL;
    fac_tensor *uh = adjoint(u), *p = minus(du ? product(uh, du) : NULL, dh ? product(dh, h) : NULL);
    fac_tensor *g = product(u, plus(dh, sylvester(sub(p, adjoint(p)), h)));
    if (!du || rows_in(u) == columns_in(u)) return g;
    fac_tensor *across = sub(du, product(u, product(uh, du)));
    return plus(g, fac__s_linalg_solve(h, across, false));
}
