/* Initial values of parameters (facula/init.h). */
#include "core/handle.h"
#include "keywords_gen.h"
#include <facula/autograd.h>
#include <facula/init.h>
#include <facula/ops.h>
#include <math.h>

static fac_status check_dims(fac_tensor *t, const char *op, int least, int most) {
    FAC_TRY(fac_error());
    if (!fac__open(t, op, "t")) return fac_error();
    const int n = fac_tensor_ndim(t);
    if (least == most)
        FAC_CHECK(n == least, FAC_ERR_SHAPE, "%s: only tensors with %d dimensions are supported, not %d", op, least, n);
    FAC_CHECK(n >= least && n <= most, FAC_ERR_SHAPE, "%s: a tensor of %d dimensions or more is wanted, not %d", op,
              least, n);
    return FAC_OK;
}

/* ---- one value, or drawn ---- */

static fac_tensor *uniform(fac_tensor *t, double a, double b, fac_generator *g) {
    FAC_NO_GRAD(guard);
    return fac_uniform_(t, .from = a, .to = b, .generator = g) ? t : NULL;
}

static fac_tensor *normal(fac_tensor *t, double mean, double std, fac_generator *g) {
    FAC_NO_GRAD(guard);
    return fac_normal_(t, .mean = mean, .std = std, .generator = g) ? t : NULL;
}

fac_tensor *(fac_init_uniform)(fac_tensor *t, const fac_init_uniform_kw *kw) {
    fac_init_uniform_kw k;
    if (fac_error() || fac__open_init_uniform_kw(&k, kw)) return NULL;
    return uniform(t, k.a, k.b, k.generator);
}

fac_tensor *(fac_init_normal)(fac_tensor *t, const fac_init_normal_kw *kw) {
    fac_init_normal_kw k;
    if (fac_error() || fac__open_init_normal_kw(&k, kw)) return NULL;
    return normal(t, k.mean, k.std, k.generator);
}

fac_tensor *fac_init_constant(fac_tensor *t, double val) {
    FAC_NO_GRAD(g);
    return fac_fill_(t, val) ? t : NULL;
}

fac_tensor *fac_init_ones(fac_tensor *t) { return fac_init_constant(t, 1); }
fac_tensor *fac_init_zeros(fac_tensor *t) { return fac_init_constant(t, 0); }

static double normal_cdf(double x) { return (1 + erf(x / sqrt(2))) / 2; }

/* Where much of the curve is inside, normal numbers are drawn until they are. */
static fac_status draw_inside(fac_tensor *t, const fac_init_trunc_normal_kw *k) {
    if (!fac_normal_(t, .mean = k->mean, .std = k->std, .generator = k->generator)) return fac_error();
    for (;;) {
        FAC_SCOPE(s);
        fac_tensor *out = fac_logical_or(fac_lt(t, k->a), fac_gt(t, k->b));
        if (!out || !fac_item_int(fac_any(out))) return fac_error();
        fac_tensor *again = fac_empty_like(t);
        if (!again || !fac_normal_(again, .mean = k->mean, .std = k->std, .generator = k->generator) ||
            !fac_copy_(t, fac_where(out, again, t)))
            return fac_error();
    }
}

/* Logarithm of the density, less that of its peak in [a, b]. */
static fac_tensor *log_density(fac_tensor *x, const fac_init_trunc_normal_kw *k, double peak) {
    fac_tensor *z = fac_div(fac_sub(x, k->mean), k->std);
    return fac_sub(fac_mul(fac_mul(z, z), -0.5), peak);
}

/* Where little is, uniform numbers are kept as often as they are likely. */
static fac_status draw_by_rejection(fac_tensor *t, const fac_init_trunc_normal_kw *k) {
    const double mode = fmax(k->a, fmin(k->mean, k->b)), z = (mode - k->mean) / k->std, peak = -0.5 * z * z;
    FAC_SCOPE(all);
    fac_tensor *pending = fac_ones_like(t, .dtype = FAC_BOOL);
    while (pending && fac_item_int(fac_any(pending))) {
        fac_scope s = fac_scope_begin();
        fac_tensor *drawn = fac_empty_like(t), *chance = fac_empty_like(t), *next = NULL;
        if (drawn && chance && fac_uniform_(drawn, .from = k->a, .to = k->b, .generator = k->generator) &&
            fac_uniform_(chance, .generator = k->generator)) {
            fac_tensor *refused = fac_gt(fac_log(chance), log_density(drawn, k, peak));
            if (fac_copy_(t, fac_where(pending, drawn, t))) next = fac_logical_and(pending, refused);
        }
        pending = next ? fac_scope_yield(&s, next) : NULL;
        fac_scope_end(&s);
    }
    return fac_error();
}

fac_tensor *(fac_init_trunc_normal)(fac_tensor *t, const fac_init_trunc_normal_kw *kw) {
    fac_init_trunc_normal_kw k;
    if (fac_error() || fac__open_init_trunc_normal_kw(&k, kw) || !fac__open(t, "init_trunc_normal", "t")) return NULL;
    if (!(k.a < k.b) || !(k.std > 0) || !isfinite(k.a) || !isfinite(k.b)) {
        FAC_FAIL(FAC_ERR_ARGUMENT,
                 "init_trunc_normal: std should be positive and a below b, both finite, not %g, %g and %g", k.std, k.a,
                 k.b);
        return NULL;
    }
    if (fac_tensor_device(t).type == FAC_META) return t;
    FAC_NO_GRAD(g);
    const double inside = normal_cdf((k.b - k.mean) / k.std) - normal_cdf((k.a - k.mean) / k.std);
    return (inside > 0.3 ? draw_inside(t, &k) : draw_by_rejection(t, &k)) ? NULL : t;
}

/* ---- identities ---- */

fac_tensor *fac_init_eye(fac_tensor *t) {
    if (check_dims(t, "init_eye", 2, 2)) return NULL;
    FAC_SCOPE(s);
    FAC_NO_GRAD(g);
    if (!fac_zero_(t) || !fac_fill_(fac_diagonal(t), 1)) return NULL;
    return t;
}

/* The middle of the kernel, [out, in]. */
static fac_tensor *middle_of(fac_tensor *t) {
    while (t && fac_tensor_ndim(t) > 2) t = fac_select(t, 2, fac_tensor_size(t, 2) / 2);
    return t;
}

fac_tensor *(fac_init_dirac)(fac_tensor *t, const fac_init_dirac_kw *kw) {
    fac_init_dirac_kw k;
    if (fac_error() || fac__open_init_dirac_kw(&k, kw) || check_dims(t, "init_dirac", 3, 5)) return NULL;
    const int64_t out = fac_tensor_size(t, 0);
    if (k.groups < 1 || out % k.groups) {
        FAC_FAIL(FAC_ERR_ARGUMENT, "dim 0 must be divisible by groups, but is %lld for %lld groups", (long long)out,
                 (long long)k.groups);
        return NULL;
    }
    FAC_SCOPE(s);
    FAC_NO_GRAD(g);
    if (!fac_zero_(t)) return NULL;
    if (!fac_tensor_numel(t)) return t;
    fac_tensor *middle = middle_of(t);
    for (int64_t i = 0; i < k.groups; i++) {
        fac_tensor *group = fac_narrow(middle, 0, i * (out / k.groups), out / k.groups);
        if (!group || !fac_fill_(fac_diagonal(group), 1)) return NULL;
    }
    return t;
}

/* ---- by fans ---- */

double(fac_init_calculate_gain)(const char *nonlinearity, const fac_init_calculate_gain_kw *kw) {
    static const struct {
        const char *name;
        double gain;
    } gains[] = {{"linear", 1},           {"conv1d", 1},
                 {"conv2d", 1},           {"conv3d", 1},
                 {"conv_transpose1d", 1}, {"conv_transpose2d", 1},
                 {"conv_transpose3d", 1}, {"sigmoid", 1},
                 {"tanh", 5.0 / 3},       {"relu", 1.4142135623730951},
                 {"selu", 3.0 / 4}};
    fac_init_calculate_gain_kw k;
    if (fac_error() || fac__open_init_calculate_gain_kw(&k, kw) || !fac__given(nonlinearity, "nonlinearity"))
        return NAN;
    for (size_t i = 0; i < FAC_COUNT(gains); i++)
        if (strcmp(gains[i].name, nonlinearity) == 0) return gains[i].gain;
    const double slope = k.param == FAC_UNSET_FLOAT ? 0.01 : k.param;
    if (strcmp(nonlinearity, "leaky_relu") == 0) return sqrt(2 / (1 + slope * slope));
    FAC_FAIL(FAC_ERR_ARGUMENT, "Unsupported nonlinearity %s", nonlinearity);
    return NAN;
}

static fac_status fans(fac_tensor *t, const char *op, double *in, double *out) {
    FAC_TRY(check_dims(t, op, 2, FAC_MAX_DIMS));
    double field = 1;
    for (int d = 2; d < fac_tensor_ndim(t); d++) field *= (double)fac_tensor_size(t, d);
    *in = (double)fac_tensor_size(t, 1) * field;
    *out = (double)fac_tensor_size(t, 0) * field;
    return FAC_OK;
}

/* The deviation of Glorot's rule; negative with an error. */
static double xavier(fac_tensor *t, double gain, const char *op) {
    double in, out;
    return fans(t, op, &in, &out) ? -1 : in + out > 0 ? gain * sqrt(2 / (in + out)) : 0;
}

fac_tensor *(fac_init_xavier_uniform)(fac_tensor *t, const fac_init_xavier_uniform_kw *kw) {
    fac_init_xavier_uniform_kw k;
    if (fac_error() || fac__open_init_xavier_uniform_kw(&k, kw)) return NULL;
    const double bound = sqrt(3) * xavier(t, k.gain, "init_xavier_uniform");
    return fac_error() ? NULL : uniform(t, -bound, bound, k.generator);
}

fac_tensor *(fac_init_xavier_normal)(fac_tensor *t, const fac_init_xavier_normal_kw *kw) {
    fac_init_xavier_normal_kw k;
    if (fac_error() || fac__open_init_xavier_normal_kw(&k, kw)) return NULL;
    const double std = xavier(t, k.gain, "init_xavier_normal");
    return fac_error() ? NULL : normal(t, 0, std, k.generator);
}

/* The deviation of He's rule; 0 for a tensor without elements. */
static fac_status kaiming(fac_tensor *t, double slope, const char *mode, const char *nonlinearity, const char *op,
                          double *out) {
    double in_and_out[2];
    FAC_TRY(fans(t, op, &in_and_out[0], &in_and_out[1]));
    const bool by_out = mode && strcmp(mode, "fan_out") == 0;
    FAC_CHECK(by_out || (mode && strcmp(mode, "fan_in") == 0), FAC_ERR_ARGUMENT,
              "Mode %s not supported, please use one of \"fan_in\", \"fan_out\"", mode ? mode : "NULL");
    const double gain = fac_init_calculate_gain(nonlinearity, slope);
    FAC_TRY(fac_error());
    *out = in_and_out[by_out] > 0 ? gain / sqrt(in_and_out[by_out]) : 0;
    return FAC_OK;
}

fac_tensor *(fac_init_kaiming_uniform)(fac_tensor *t, const fac_init_kaiming_uniform_kw *kw) {
    fac_init_kaiming_uniform_kw k;
    double std;
    if (fac_error() || fac__open_init_kaiming_uniform_kw(&k, kw) ||
        kaiming(t, k.a, k.mode, k.nonlinearity, "init_kaiming_uniform", &std))
        return NULL;
    return fac_tensor_numel(t) ? uniform(t, -sqrt(3) * std, sqrt(3) * std, k.generator) : t;
}

fac_tensor *(fac_init_kaiming_normal)(fac_tensor *t, const fac_init_kaiming_normal_kw *kw) {
    fac_init_kaiming_normal_kw k;
    double std;
    if (fac_error() || fac__open_init_kaiming_normal_kw(&k, kw) ||
        kaiming(t, k.a, k.mode, k.nonlinearity, "init_kaiming_normal", &std))
        return NULL;
    return fac_tensor_numel(t) ? normal(t, 0, std, k.generator) : t;
}

/* ---- matrices ---- */

fac_tensor *(fac_init_orthogonal)(fac_tensor *t, const fac_init_orthogonal_kw *kw) {
    fac_init_orthogonal_kw k;
    if (fac_error() || fac__open_init_orthogonal_kw(&k, kw) || check_dims(t, "init_orthogonal", 2, FAC_MAX_DIMS))
        return NULL;
    if (!fac_tensor_numel(t) || fac_tensor_device(t).type == FAC_META) return t;
    FAC_SCOPE(s);
    FAC_NO_GRAD(g);
    const int64_t rows = fac_tensor_size(t, 0), columns = fac_tensor_numel(t) / rows;
    fac_tensor *flat = fac_new_zeros(t, FAC_INTS(rows > columns ? rows : columns, rows > columns ? columns : rows));
    if (!flat || !fac_normal_(flat, .generator = k.generator)) return NULL;
    const fac_linalg_qr_result f = fac_linalg_qr(flat);
    fac_tensor *q = fac_mul(f.Q, fac_sign(fac_diagonal(f.R)));
    if (rows < columns) q = fac_t(q);
    q = fac_mul(fac_reshape(q, fac_tensor_sizes(t)), k.gain);
    return q && fac_copy_(t, q) ? t : NULL;
}

fac_tensor *(fac_init_sparse)(fac_tensor *t, double sparsity, const fac_init_sparse_kw *kw) {
    fac_init_sparse_kw k;
    if (fac_error() || fac__open_init_sparse_kw(&k, kw) || check_dims(t, "init_sparse", 2, 2)) return NULL;
    if (!(sparsity >= 0 && sparsity <= 1)) {
        FAC_FAIL(FAC_ERR_ARGUMENT, "init_sparse: sparsity should be in [0, 1], but is %g", sparsity);
        return NULL;
    }
    if (!normal(t, 0, k.std, k.generator)) return NULL;
    const int64_t rows = fac_tensor_size(t, 0), columns = fac_tensor_size(t, 1);
    const int64_t zeros = (int64_t)ceil(sparsity * (double)rows);
    FAC_NO_GRAD(g);
    for (int64_t j = 0; j < columns && zeros; j++) {
        FAC_SCOPE(s);
        fac_tensor *places = fac_narrow(fac_randperm(rows, .device = fac_tensor_device(t)), 0, 0, zeros);
        fac_tensor *column = fac_select(t, 1, j);
        if (!column || !fac_index_copy_(column, 0, places, fac_new_zeros(t, FAC_INTS(zeros)))) return NULL;
    }
    return t;
}
