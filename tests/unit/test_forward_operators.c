/* The tangents of every operator in every sample, in float64 and where it can in complex128: J v by forward mode against a central
   difference along v, and against going backward, since <u, J v> is <J^H u, v>. Forms in place too. What cannot be checked is listed
   with its reason, and the numbers are printed. */
#include "base/sanitizers.h"
#include "dispatch/operator.h"
#include "support/checked_calls.h"
#include "support/samples.h"
#include "support/support.h"

#include <facula/facula.h>
#include <math.h>
#include <string.h>

static sample_set set;

static int load(void **state) {
    (void)state;
    return samples_load(&set) ? 0 : -1;
}

typedef struct counts {
    int operators, calls, refused, wrong, backward_again, refused_backward;
    int element_wise, linear, twice, parts; /* operators, by rule */
} counts;

/* ---- numbers --------------------------------------------------------------------------------------------------------------- */

/* Numbers in [-1, 1] that look random and are the same each time. */
static fac_tensor *random_like(fac_tensor *t, uint64_t *state) {
    double v[512];
    const bool is_complex = fac_dtype_is_complex(fac_tensor_dtype(t));
    const int64_t n = fac_tensor_numel(t) * (is_complex ? 2 : 1);
    if (n > 512) return NULL;
    for (int64_t i = 0; i < n; i++) {
        *state = *state * 6364136223846793005u + 1442695040888963407u;
        v[i] = (double)(*state >> 11) / 4503599627370496.0 - 1;
    }
    return fac_reshape(fac_tensor_from(v, is_complex ? FAC_C128 : FAC_F64, FAC_INTS(fac_tensor_numel(t))),
                       fac_tensor_sizes(t));
}

/* The real part of the inner product. */
static double inner(fac_tensor *a, fac_tensor *b) {
    fac_tensor *product = fac_mul(fac_conj(a), b);
    if (fac_dtype_is_complex(fac_tensor_dtype(product))) product = fac_real(product);
    return fac_item(fac_sum(product));
}

static double distance(fac_tensor *a, fac_tensor *b) {
    return fac_tensor_numel(a) ? fac_item(fac_max(fac_abs(fac_sub(a, b)))) : 0;
}

/* ---- one call ---------------------------------------------------------------------------------------------------------------- */

typedef struct direction {
    fac_tensor *at[SAMPLE_TENSORS], *along[SAMPLE_TENSORS]; /* without history */
    fac_tensor *y[CHECKED_RESULTS], *t[CHECKED_RESULTS];
} direction;

static fac_tensors leaves_of(const checked *k) { return (fac_tensors){k->leaves, k->n_leaves}; }

static bool choose_direction(const checked *k, direction *d) {
    uint64_t state = 7;
    for (size_t i = 0; i < k->n_leaves; i++) {
        d->at[i] = fac_detach(k->leaves[i]);
        d->along[i] = random_like(d->at[i], &state);
        if (!d->along[i]) return false;
    }
    return fac_error() == FAC_OK;
}

/* The outputs with one leaf moved by `step` along the direction. */
static fac_status moved(checked *k, const direction *d, size_t leaf, double step, fac_tensor **out) {
    fac_tensor *at[SAMPLE_TENSORS];
    memcpy(at, d->at, sizeof at);
    at[leaf] = fac_add(d->at[leaf], fac_mul(d->along[leaf], step));
    return checked_run(k, (fac_tensors){at, k->n_leaves}, out, k->n_outs);
}

/* The largest difference to central differences, relative to their size where that is above 1. */
static double off_numeric(checked *k, const direction *d) {
    fac_tensor *more[CHECKED_RESULTS], *less[CHECKED_RESULTS], *sum[CHECKED_RESULTS] = {NULL};
    const double eps = 1e-6;
    double worst = 0;
    FAC_NO_GRAD(g);
    for (size_t leaf = 0; leaf < k->n_leaves; leaf++) {
        if (moved(k, d, leaf, eps, more) != FAC_OK || moved(k, d, leaf, -eps, less) != FAC_OK) return -1;
        for (size_t i = 0; i < k->n_outs; i++) {
            fac_tensor *difference = fac_div(fac_sub(more[i], less[i]), 2 * eps);
            sum[i] = sum[i] ? fac_add(sum[i], difference) : difference;
        }
    }
    for (size_t i = 0; i < k->n_outs; i++) {
        fac_tensor *want = sum[i];
        const double size = fac_tensor_numel(want) ? fac_item(fac_max(fac_abs(want))) : 0;
        worst = fmax(worst, distance(want, d->t[i]) / fmax(1, size));
    }
    return worst;
}

/* How far <u, J v> is from <J^H u, v>. */
static double off_duality(checked *k, const direction *d) {
    fac_tensor *y[CHECKED_RESULTS], *u[CHECKED_RESULTS], *g[SAMPLE_TENSORS];
    uint64_t state = 5;
    double forward = 0, backward = 0;
    if (checked_run(k, leaves_of(k), y, k->n_outs) != FAC_OK) return -1;
    for (size_t i = 0; i < k->n_outs; i++) {
        if (!(u[i] = random_like(y[i], &state))) return 0;
        forward += inner(u[i], d->t[i]);
    }
    const fac_tensors outputs = {y, k->n_outs}, weights = {u, k->n_outs};
    if (fac_grad(outputs, leaves_of(k), g, .grad_outputs = weights, .allow_unused = true) != FAC_OK) return -1;
    for (size_t i = 0; i < k->n_leaves; i++)
        if (g[i]) backward += inner(g[i], d->along[i]);
    return fabs(forward - backward) / fmax(1, fabs(backward));
}

/* <u, J v> at the leaves moved by `step` along w; at the leaves themselves, recorded, where w is NULL. NULL on failure. */
static fac_tensor *weighted(checked *k, const direction *d, fac_tensor *const *w, double step) {
    fac_tensor *at[SAMPLE_TENSORS], *y[CHECKED_RESULTS], *t[CHECKED_RESULTS], *sum = NULL;
    uint64_t state = 5;
    for (size_t i = 0; i < k->n_leaves; i++) at[i] = w ? fac_add(d->at[i], fac_mul(w[i], step)) : k->leaves[i];
    const fac_tensors along = {d->along, k->n_leaves};
    if (fac_func_jvp(checked_run, k, (fac_tensors){at, k->n_leaves}, along, y, t, k->n_outs) != FAC_OK) return NULL;
    for (size_t i = 0; i < k->n_outs; i++) {
        fac_tensor *u = random_like(t[i], &state);
        if (!u) return NULL;
        fac_tensor *product = fac_mul(fac_conj(u), t[i]);
        product = fac_sum(fac_dtype_is_complex(fac_tensor_dtype(product)) ? fac_real(product) : product);
        sum = sum ? fac_add(sum, product) : product;
    }
    return sum;
}

/* How far going backward through tangents is from differences between them; 0 if there is nothing to go through. */
static double off_backward(checked *k, const direction *d, counts *c) {
    fac_tensor *w[SAMPLE_TENSORS], *g[SAMPLE_TENSORS];
    uint64_t state = 11;
    double backward = 0, numeric = 0;
    fac_tensor *sum = weighted(k, d, NULL, 0);
    if (!sum || !fac_requires_grad(sum) ||
        fac_grad(FAC_TENSORS(sum), leaves_of(k), g, .allow_unused = true) != FAC_OK) {
        c->refused_backward += fac_error() != FAC_OK;
        fac_error_clear();
        return 0;
    }
    for (size_t i = 0; i < k->n_leaves; i++) {
        w[i] = random_like(d->at[i], &state);
        if (g[i]) backward += inner(g[i], w[i]);
    }
    for (size_t i = 0; i < k->n_leaves; i++) {
        fac_tensor *one[SAMPLE_TENSORS];
        for (size_t j = 0; j < k->n_leaves; j++) one[j] = j == i ? w[j] : fac_zeros_like(w[j]);
        numeric += (fac_item(weighted(k, d, one, 1e-6)) - fac_item(weighted(k, d, one, -1e-6))) / 2e-6;
    }
    c->backward_again++;
    return fabs(backward - numeric) / fmax(1, fabs(numeric));
}

static void count_error(const char *text, fac_dtype dtype, counts *c) {
    fac_error_info e;
    (void)fac_error_get(&e);
    print_message("no tangent: %s, %s: %s\n", text, fac_dtype_name(dtype), e.message);
    c->refused++;
    fac_error_clear();
}

static void compare(checked *k, direction *d, const char *text, fac_dtype dtype, counts *c) {
    if (fac_func_jvp(checked_run, k, (fac_tensors){d->at, k->n_leaves}, (fac_tensors){d->along, k->n_leaves}, d->y,
                     d->t, k->n_outs) != FAC_OK) {
        count_error(text, dtype, c);
        return;
    }
    const double numeric = off_numeric(k, d), dual = off_duality(k, d), again = off_backward(k, d, c);
    const bool right =
        fac_error() == FAC_OK && numeric >= 0 && numeric < 1e-4 && dual >= 0 && dual < 1e-8 && again < 1e-3;
    if (!right) {
        fac_error_info e = {0};
        (void)fac_error_get(&e);
        print_error("tangent: %s, %s: off by %g numerically, by %g from the gradient, by %g going backward; %s\n", text,
                    fac_dtype_name(dtype), numeric, dual, again, e.message ? e.message : "");
        fac_error_clear();
        c->wrong++;
    }
    c->calls += right;
}

static void check(const fac_operator *op, const char *gradient, const char *text, fac_dtype dtype, counts *c) {
    static checked k;
    static direction d;
    FAC_SCOPE(s);
    k.peculiar = peculiarity_of(fac_operator_name(op));
    if (!checked_make(&k, op, gradient, text, dtype)) return;
    if (choose_direction(&k, &d)) compare(&k, &d, text, dtype, c);
    fac_error_clear();
    sample_unmake(&k.made);
}

/* ---- all ------------------------------------------------------------------------------------------------------------------------- */

#if FAC_UNDER_ASAN
enum { ONE_IN = 8 };
#else
enum { ONE_IN = 1 };
#endif

static bool ends_in_place(const fac_operator *op) {
    const char *dot = strchr(fac_operator_name(op), '.'), *name = fac_operator_name(op);
    const size_t n = dot ? (size_t)(dot - name) : strlen(name);
    return name[n - 1] == '_';
}

static bool is_checked(const fac_operator *op, const fac_operator_facts *f) {
    const peculiarity *p = peculiarity_of(fac_operator_name(op));
    const bool skipped = (p && p->how == SKIPPED) || sample_elsewhere(fac_operator_name(op));
    return (!f->writes || (f->writes == 1 && ends_in_place(op))) && strncmp(f->gradient, "none", 4) != 0 && !skipped;
}

static void count_rule(const fac_operator *op, const char *gradient, counts *c) {
    const char *rule = op->facts ? op->facts->forward : NULL;
    c->operators++;
    ++*(strstr(gradient, "through") ? &c->parts
        : !rule || *rule == '^'     ? &c->twice
        : *rule == '.'              ? &c->element_wise
                                    : &c->linear);
}

static void check_all(fac_dtype dtype, counts *c) {
    for (size_t i = 0; i < fac_operator_count(); i++) {
        const fac_operator *op = fac_operator_at(i);
        const int before = c->calls;
        fac_operator_facts f;
        size_t n;
        char *const *texts = samples_of(&set, fac_operator_name(op), &n);
        assert_ok(fac_operator_facts_of(op, &f));
        if (!is_checked(op, &f)) continue;
        for (size_t k = 0; k < n && i % ONE_IN == 0; k++) check(op, f.gradient, texts[k], dtype, c);
        if (c->calls > before) count_rule(op, f.gradient, c);
    }
    print_message(
        "%d operators, of these %d by parts, %d linear, %d element by element, %d through the gradient's gradient: "
        "%d tangents are right; %d say why there is none; %d are wrong\n",
        c->operators, c->parts, c->linear, c->element_wise, c->twice, c->calls, c->refused, c->wrong);
    print_message("%d gradients of tangents are right, %d say why there is none\n", c->backward_again,
                  c->refused_backward);
}

static void tangents_of_every_operator_in_float64(void **state) {
    (void)state;
    counts c = {0};
    check_all(FAC_F64, &c);
    assert_int_equal(c.wrong, 0);
    assert_true(c.operators > 900 / ONE_IN && c.refused <= 104);
}

static void tangents_of_every_operator_in_complex128(void **state) {
    (void)state;
    counts c = {0};
    check_all(FAC_C128, &c);
    assert_int_equal(c.wrong, 0);
    assert_true(c.operators > 500 / ONE_IN && c.refused <= 20);
}

static const struct CMUnitTest tests[] = {
    FAC_TEST(tangents_of_every_operator_in_float64),
    FAC_TEST(tangents_of_every_operator_in_complex128),
};
int main(void) {
    int failed = support_run(tests, FAC_COUNT(tests), load);
    samples_free(&set);
    return failed;
}
