/* Weight norm, spectral norm and orthogonal weights: as parametrisations, and the two norms in their older form. */
#include "keywords_gen.h"
#include "nn/computed.h"
#include <facula/nn_utils.h>
#include <facula/ops.h>

/* ---- weight norm ---- */

typedef struct weight_norm {
    int64_t dim; /* FAC_UNSET: one norm of all */
} weight_norm;

static fac_tensor *norm_of(fac_tensor *v, int64_t dim) {
    return fac_norm_except_dim(v, 2, dim == FAC_UNSET ? -1 : dim);
}

static fac_tensor *normed(fac_tensor *g, fac_tensor *v, int64_t dim) { return fac_mul(v, fac_div(g, norm_of(v, dim))); }

static fac_tensor *weight_norm_forward(fac_module *self, fac_tensors in) {
    if (in.n == 2) return normed(in.v[0], in.v[1], ((const weight_norm *)self->state)->dim);
    FAC_FAIL(FAC_ERR_ARGUMENT, "_WeightNorm takes a length and a direction, not %zu inputs", in.n);
    return NULL;
}

static fac_status weight_norm_inverse(fac_module *self, fac_tensor *value, fac_tensor **out, size_t *n) {
    out[0] = norm_of(value, ((const weight_norm *)self->state)->dim);
    out[1] = value;
    *n = 2;
    return out[0] ? FAC_OK : fac_error();
}

static const fac_module_class weight_norm_class = {.name = "_WeightNorm",
                                                   .version = 1,
                                                   .state_size = sizeof(weight_norm),
                                                   .copy = fac_module_copy_values,
                                                   .forward_many = weight_norm_forward,
                                                   .right_inverse = weight_norm_inverse};

/* The dimension of a tensor from the start; an error where it has none such. */
static fac_status settle_dim(const fac_tensor *t, int64_t *dim) {
    const int n = fac_tensor_ndim(t);
    if (*dim == FAC_UNSET) return FAC_OK;
    FAC_CHECK(*dim >= -n && *dim < n, FAC_ERR_INDEX,
              "Dimension out of range (expected to be in range of [%d, %d], but got %lld)", -n, n - 1, (long long)*dim);
    if (*dim < 0) *dim += n;
    return FAC_OK;
}

fac_status(fac_parametrizations_weight_norm)(fac_module *m, const fac_parametrizations_weight_norm_kw *kw) {
    fac_parametrizations_weight_norm_kw k;
    FAC_TRY(fac_error());
    FAC_TRY(fac__open_parametrizations_weight_norm_kw(&k, kw));
    const fac_slot *s = fac__filled_slot(m, k.name, "parametrizations_weight_norm");
    if (!s) return fac_error();
    if (k.dim == -1) k.dim = FAC_UNSET; /* which is no last dimension in PyTorch */
    FAC_TRY(settle_dim(s->tensor, &k.dim));
    fac_module *p = fac_module_new(&weight_norm_class);
    if (p) ((weight_norm *)p->state)->dim = k.dim;
    return p ? fac_parametrize_register(m, k.name, p, .unsafe = true) : fac_error();
}

static fac_tensor *compute_weight_norm(fac_module *m, const fac_computed *c, bool update) {
    fac_tensor *g = fac__computed_part_of(m, c->name, "_g"), *v = g ? fac__computed_part_of(m, c->name, "_v") : NULL;
    (void)update;
    return v ? normed(g, v, c->dim) : NULL;
}

/* A parameter that is one yet. */
static fac_slot *parameter_of(fac_module *m, const char *name, const char *op) {
    fac_slot *s = fac__filled_slot(m, name, op);
    if (!s || s->kind == FAC_SLOT_PARAMETER) return s;
    FAC_FAIL(FAC_ERR_ARGUMENT, "%s: '%s' is %s", op, name,
             s->kind == FAC_SLOT_BUFFER ? "a buffer" : "computed of other tensors already");
    return NULL;
}

static fac_tensor *learned_copy(fac_tensor *t) {
    fac_tensor *leaf = t ? fac_detach(t) : NULL;
    return leaf ? fac_set_requires_grad(leaf, true) : NULL;
}

static const char *const weight_norm_parts[] = {"_g", "_v", NULL};
static const char *const spectral_parts[] = {"_orig", "_u", "_v", NULL};

fac_status(fac_utils_weight_norm)(fac_module *m, const fac_utils_weight_norm_kw *kw) {
    fac_utils_weight_norm_kw k;
    FAC_TRY(fac_error());
    FAC_TRY(fac__open_utils_weight_norm_kw(&k, kw));
    const fac_slot *s = parameter_of(m, k.name, "utils_weight_norm");
    if (!s) return fac_error();
    if (k.dim == -1) k.dim = FAC_UNSET; /* which is no last dimension in PyTorch */
    FAC_TRY(settle_dim(s->tensor, &k.dim));
    FAC_SCOPE(scope);
    const fac_computed how = {.compute = compute_weight_norm, .dim = k.dim};
    fac_tensor *g = learned_copy(norm_of(s->tensor, k.dim)), *v = learned_copy(s->tensor);
    fac_status st = fac__computed_part(m, k.name, "_g", g, false);
    if (!st) st = fac__computed_part(m, k.name, "_v", v, false);
    return fac__computed_start(m, k.name, &how, weight_norm_parts, st);
}

/* Ends what `compute` has begun: the present value is a parameter of its own. */
static fac_status end_with_value(fac_module *m, const char *name, fac_compute_fn compute, const char *op,
                                 const char *const *suffixes) {
    if (!fac__filled_slot(m, name, op)) return fac_error();
    const fac_computed *c = fac__computed_of(m, name);
    FAC_CHECK(c && c->compute == compute, FAC_ERR_ARGUMENT, "%s: there is none of '%s' in %s", op, name, m->cls->name);
    FAC_SCOPE(s);
    fac_tensor *value = fac_module_value(m, name);
    fac_tensor *leaf = value ? learned_copy(fac_clone(fac_detach(value))) : NULL;
    if (!leaf) return fac_error();
    fac__computed_end(m, name, leaf);
    for (; *suffixes; suffixes++) fac__handle_unref(fac__computed_take(m, name, *suffixes));
    return FAC_OK;
}

fac_status(fac_utils_remove_weight_norm)(fac_module *m, const fac_utils_remove_weight_norm_kw *kw) {
    fac_utils_remove_weight_norm_kw k;
    FAC_TRY(fac_error());
    FAC_TRY(fac__open_utils_remove_weight_norm_kw(&k, kw));
    return end_with_value(m, k.name, compute_weight_norm, "utils_remove_weight_norm", weight_norm_parts);
}

/* ---- spectral norm ---- */

/* Rows are dimension `dim`, columns all others. */
static fac_tensor *as_matrix(fac_tensor *w, int64_t dim) { return fac_flatten(dim ? fac_movedim(w, dim, 0) : w, 1); }

/* Goes on towards the singular vectors: u and v in place, without recording. */
static fac_status iterate(fac_tensor *matrix, fac_tensor *u, fac_tensor *v, int64_t n, double eps, bool u_first) {
    FAC_NO_GRAD(g);
    for (int64_t i = 0; i < 2 * n; i++) {
        const bool make_u = (i % 2 == 0) == u_first;
        fac_tensor *next = make_u ? fac_mv(matrix, v) : fac_mv(fac_adjoint(matrix), u);
        next = next ? fac_div(next, fac_clamp_min(fac_linalg_vector_norm(next), eps)) : NULL;
        if (!next || !fac_copy_(make_u ? u : v, next)) return fac_error();
    }
    return FAC_OK;
}

/* The weight over u^T W v; u and v are copied, as runs that come change them. */
static fac_tensor *over_sigma(fac_tensor *w, fac_tensor *matrix, fac_tensor *u, fac_tensor *v) {
    return fac_div(w, fac_vdot(fac_clone(u), fac_mv(matrix, fac_clone(v))));
}

/* A random vector of length 1, of the dtype and device of w. */
static fac_tensor *random_unit(fac_tensor *w, int64_t n, double eps) {
    FAC_NO_GRAD(g);
    fac_tensor *x = fac_new_zeros(w, FAC_INTS(n));
    x = x ? fac_normal_(x) : NULL;
    return x ? fac_div(x, fac_clamp_min(fac_linalg_vector_norm(x), eps)) : NULL;
}

typedef struct spectral_norm {
    int64_t dim, iterations;
    double eps;
} spectral_norm;

static fac_tensor *spectral_forward(fac_module *self, fac_tensor *w) {
    const spectral_norm *o = self->state;
    if (fac_tensor_ndim(w) == 1) return fac_div(w, fac_clamp_min(fac_linalg_vector_norm(w), o->eps));
    fac_tensor *matrix = as_matrix(w, o->dim);
    fac_tensor *u = fac__module_slot(self, "_u")->tensor, *v = fac__module_slot(self, "_v")->tensor;
    if (!matrix || (self->training && iterate(matrix, u, v, o->iterations, o->eps, true))) return NULL;
    return over_sigma(w, matrix, u, v);
}

static fac_status spectral_inverse(fac_module *self, fac_tensor *value, fac_tensor **out, size_t *n) {
    (void)self;
    return out[0] = value, *n = 1, FAC_OK;
}

static const fac_module_class spectral_class = {.name = "_SpectralNorm",
                                                .version = 1,
                                                .state_size = sizeof(spectral_norm),
                                                .copy = fac_module_copy_values,
                                                .forward = spectral_forward,
                                                .right_inverse = spectral_inverse};

/* Buffers u and v of `owner`, unit vectors. */
static fac_status add_vectors(fac_module *owner, const char *u, const char *v, fac_tensor *w, int64_t dim, double eps) {
    const int64_t rows = fac_tensor_size(w, dim), columns = rows ? fac_tensor_numel(w) / rows : 0;
    (void)fac_module_add_buffer(owner, u, random_unit(w, rows, eps));
    if (!fac_error()) (void)fac_module_add_buffer(owner, v, random_unit(w, columns, eps));
    return fac_error();
}

static fac_status settle_spectral(fac_module *m, const fac_tensor *w, int64_t iterations, int64_t *dim) {
    FAC_CHECK(iterations > 0, FAC_ERR_ARGUMENT,
              "Expected n_power_iterations to be positive, but got n_power_iterations=%lld", (long long)iterations);
    if (*dim == FAC_UNSET) *dim = strncmp(m->cls->name, "ConvTranspose", strlen("ConvTranspose")) == 0;
    return settle_dim(w, dim);
}

static fac_status fill_spectral(fac_module *p, fac_tensor *w, const spectral_norm *o) {
    *(spectral_norm *)p->state = *o;
    if (fac_tensor_ndim(w) < 2) return FAC_OK;
    FAC_TRY(add_vectors(p, "_u", "_v", w, o->dim, o->eps));
    FAC_NO_GRAD(g);
    fac_tensor *matrix = as_matrix(w, o->dim);
    return matrix ? iterate(matrix, p->slots.v[0].tensor, p->slots.v[1].tensor, 15, o->eps, true) : fac_error();
}

fac_status(fac_parametrizations_spectral_norm)(fac_module *m, const fac_parametrizations_spectral_norm_kw *kw) {
    fac_parametrizations_spectral_norm_kw k;
    FAC_TRY(fac_error());
    FAC_TRY(fac__open_parametrizations_spectral_norm_kw(&k, kw));
    const fac_slot *s = fac__filled_slot(m, k.name, "parametrizations_spectral_norm");
    if (!s) return fac_error();
    FAC_TRY(settle_spectral(m, s->tensor, k.n_power_iterations, &k.dim));
    FAC_SCOPE(scope);
    fac_module *p = fac_module_new(&spectral_class);
    if (!p) return fac_error();
    const spectral_norm o = {k.dim, k.n_power_iterations, k.eps};
    p = fac__nn_done(p, fill_spectral(p, s->tensor, &o));
    return p ? fac_parametrize_register(m, k.name, p) : fac_error();
}

static fac_tensor *compute_spectral(fac_module *m, const fac_computed *c, bool update) {
    fac_tensor *w = fac__computed_part_of(m, c->name, "_orig");
    fac_tensor *u = w ? fac__computed_part_of(m, c->name, "_u") : NULL;
    fac_tensor *v = u ? fac__computed_part_of(m, c->name, "_v") : NULL;
    fac_tensor *matrix = v ? as_matrix(w, c->dim) : NULL;
    if (!matrix) return NULL;
    if (update && m->training && iterate(matrix, u, v, c->iterations, c->eps, false)) return NULL;
    return over_sigma(w, matrix, u, v);
}

fac_status(fac_utils_spectral_norm)(fac_module *m, const fac_utils_spectral_norm_kw *kw) {
    fac_utils_spectral_norm_kw k;
    FAC_TRY(fac_error());
    FAC_TRY(fac__open_utils_spectral_norm_kw(&k, kw));
    const fac_slot *s = parameter_of(m, k.name, "utils_spectral_norm");
    if (!s) return fac_error();
    fac_tensor *w = s->tensor;
    FAC_TRY(settle_spectral(m, w, k.n_power_iterations, &k.dim));
    FAC_SCOPE(scope);
    char u[160], v[160];
    snprintf(u, sizeof u, "%s_u", k.name);
    snprintf(v, sizeof v, "%s_v", k.name);
    const fac_computed how = {
        .compute = compute_spectral, .dim = k.dim, .iterations = k.n_power_iterations, .eps = k.eps};
    fac_status st = fac__computed_part(m, k.name, "_orig", w, false);
    if (!st) st = add_vectors(m, u, v, w, k.dim, k.eps);
    return fac__computed_start(m, k.name, &how, spectral_parts, st);
}

fac_status(fac_utils_remove_spectral_norm)(fac_module *m, const fac_utils_remove_spectral_norm_kw *kw) {
    fac_utils_remove_spectral_norm_kw k;
    FAC_TRY(fac_error());
    FAC_TRY(fac__open_utils_remove_spectral_norm_kw(&k, kw));
    return end_with_value(m, k.name, compute_spectral, "utils_remove_spectral_norm", spectral_parts);
}

/* ---- orthogonal weights ---- */

typedef enum orthogonal_map { MATRIX_EXP, CAYLEY, HOUSEHOLDER, MAPS } orthogonal_map;
static const char *const map_names[MAPS] = {"matrix_exp", "cayley", "householder"};

typedef struct orthogonal {
    orthogonal_map map;
    bool trivialised;
} orthogonal;

/* A matrix at least as high as wide. */
static fac_tensor *upright(fac_tensor *x, bool *turned) {
    *turned = fac_tensor_size(x, -2) < fac_tensor_size(x, -1);
    return *turned ? fac_transpose(x, -2, -1) : x;
}

/* Of a skew-symmetric matrix: the lower triangle of x less its mirror, with zeros for the columns that x lacks. */
static fac_tensor *of_skew(fac_tensor *x, orthogonal_map map) {
    const int64_t n = fac_tensor_size(x, -2), k = fac_tensor_size(x, -1);
    x = fac_tril(x);
    if (n != k) x = fac_pad(x, FAC_INTS(0, n - k));
    fac_tensor *a = fac_sub(x, fac_adjoint(x)), *q;
    if (map == MATRIX_EXP)
        q = fac_linalg_matrix_exp(a);
    else {
        fac_tensor *one = fac_eye(n, .dtype = fac_tensor_dtype(x), .device = fac_tensor_device(x));
        fac_tensor *half = fac_mul(a, 0.5);
        q = fac_linalg_solve(fac_sub(one, half), fac_add(one, half));
    }
    return n != k ? fac_narrow(q, -1, 0, k) : q;
}

static fac_tensor *of_reflections(fac_tensor *x) {
    fac_tensor *a = fac_tril(x, -1);
    fac_tensor *length = fac_add(fac_sum(fac_mul(a, a), .dim = -2), 1);
    fac_tensor *q = fac_linalg_householder_product(a, fac_mul(fac_reciprocal(length), 2));
    fac_tensor *signs = fac_trunc(fac_detach(fac_diagonal(x, 0, -2, -1)));
    return fac_mul(q, fac_unsqueeze(signs, -2));
}

static fac_tensor *orthogonal_forward(fac_module *self, fac_tensor *x) {
    const orthogonal *o = self->state;
    bool turned;
    if (fac_tensor_ndim(x) < 2) {
        FAC_FAIL(FAC_ERR_SHAPE, "Expected a matrix or batch of matrices. Got a tensor of %d dimensions",
                 fac_tensor_ndim(x));
        return NULL;
    }
    x = upright(x, &turned);
    fac_tensor *q = o->map == HOUSEHOLDER ? of_reflections(x) : of_skew(x, o->map);
    fac_tensor *base = o->trivialised ? fac__module_slot(self, "base")->tensor : NULL;
    if (base) q = fac_matmul(base, q);
    return turned && q ? fac_transpose(q, -2, -1) : q;
}

/* The orthogonal part of a matrix, with the signs that make it unique. */
static fac_tensor *made_orthogonal(fac_tensor *a) {
    fac_geqrf_result f = fac_geqrf(a);
    fac_tensor *q = fac_linalg_householder_product(f.a, f.tau);
    return fac_mul(q, fac_unsqueeze(fac_sgn(fac_diagonal(f.a, 0, -2, -1)), -2));
}

static bool is_orthogonal(fac_tensor *q) {
    const fac_dtype dtype = fac_tensor_dtype(q);
    const double eps = dtype == FAC_F64 || dtype == FAC_C128 ? 0x1p-52 : 0x1p-23;
    fac_tensor *one = fac_eye(fac_tensor_size(q, -1), .dtype = dtype, .device = fac_tensor_device(q));
    return fac_allclose(fac_matmul(fac_adjoint(q), q), one, .atol = 10 * (double)fac_tensor_size(q, -2) * eps);
}

/* With a base: the base is made of the matrix, and the original is -1, which any of the maps sends to the identity. */
static fac_status trivial_inverse(fac_module *self, fac_tensor *value, fac_tensor **out) {
    bool turned;
    fac_tensor *q = upright(value, &turned);
    const int64_t n = fac_tensor_size(q, -2), k = fac_tensor_size(q, -1);
    if (n != k) {
        int64_t sizes[FAC_MAX_DIMS];
        for (int d = 0; d < fac_tensor_ndim(q); d++) sizes[d] = fac_tensor_size(q, d);
        sizes[fac_tensor_ndim(q) - 1] = n - k;
        fac_tensor *more = fac_randn(fac_ints_of(sizes, (size_t)fac_tensor_ndim(q)), .dtype = fac_tensor_dtype(q),
                                     .device = fac_tensor_device(q));
        q = made_orthogonal(fac_cat(FAC_TENSORS(q, more), .dim = -1));
    } else
        q = is_orthogonal(q) ? fac_clone(q) : made_orthogonal(q);
    FAC_TRY(fac_error());
    fac__slot_set(fac__module_slot(self, "base"), q);
    out[0] = fac_zeros_like(value);
    return out[0] && fac_fill_(fac_diagonal(out[0], 0, -2, -1), -1) ? FAC_OK : fac_error();
}

static fac_status orthogonal_inverse(fac_module *self, fac_tensor *value, fac_tensor **out, size_t *n) {
    const orthogonal *o = self->state;
    *n = 1;
    if (o->trivialised) return trivial_inverse(self, value, out);
    if (o->map != HOUSEHOLDER) return FAC_ERR_UNSUPPORTED;
    bool turned;
    fac_geqrf_result f = fac_geqrf(upright(value, &turned));
    FAC_TRY(fac_error());
    fac_tensor *diagonal = fac_diagonal(f.a, 0, -2, -1);
    fac_tensor *signs = fac_sign(diagonal);
    signs = fac_where(fac_eq(f.tau, 0), fac_neg(signs), signs);
    if (!signs || !fac_copy_(diagonal, signs)) return fac_error();
    out[0] = turned ? fac_transpose(f.a, -2, -1) : f.a;
    return fac_error();
}

static const fac_module_class orthogonal_class = {.name = "_Orthogonal",
                                                  .version = 1,
                                                  .state_size = sizeof(orthogonal),
                                                  .copy = fac_module_copy_values,
                                                  .forward = orthogonal_forward,
                                                  .right_inverse = orthogonal_inverse};

static fac_status choose_map(const fac_tensor *w, const char *name, orthogonal_map *out) {
    const bool is_complex = fac_dtype_is_complex(fac_tensor_dtype(w));
    if (!name) {
        *out = is_complex || fac_tensor_size(w, -2) == fac_tensor_size(w, -1) ? MATRIX_EXP : HOUSEHOLDER;
        return FAC_OK;
    }
    for (*out = MATRIX_EXP; *out < MAPS; (*out)++)
        if (strcmp(map_names[*out], name) == 0) break;
    FAC_CHECK(*out < MAPS, FAC_ERR_ARGUMENT,
              "orthogonal_map has to be one of \"matrix_exp\", \"cayley\", \"householder\". Got: %s", name);
    FAC_CHECK(*out != HOUSEHOLDER || !is_complex, FAC_ERR_DTYPE,
              "The householder parametrization does not support complex tensors");
    return FAC_OK;
}

fac_status(fac_parametrizations_orthogonal)(fac_module *m, const fac_parametrizations_orthogonal_kw *kw) {
    fac_parametrizations_orthogonal_kw k;
    FAC_TRY(fac_error());
    FAC_TRY(fac__open_parametrizations_orthogonal_kw(&k, kw));
    const fac_slot *s = fac__filled_slot(m, k.name, "parametrizations_orthogonal");
    if (!s) return fac_error();
    FAC_CHECK(fac_tensor_ndim(s->tensor) >= 2, FAC_ERR_SHAPE,
              "Expected a matrix or batch of matrices. Got a tensor of %d dimensions", fac_tensor_ndim(s->tensor));
    orthogonal o = {.trivialised = k.use_trivialization};
    FAC_TRY(choose_map(s->tensor, k.orthogonal_map, &o.map));
    fac_module *p = fac_module_new(&orthogonal_class);
    if (!p) return fac_error();
    *(orthogonal *)p->state = o;
    if (o.trivialised) (void)fac_module_add_buffer(p, "base", NULL);
    return fac_parametrize_register(m, k.name, p, .unsafe = true);
}
