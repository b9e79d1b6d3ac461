/* Fused optimiser steps over lists, and gradient scaling: against the formulas of the papers in double precision, one element at a time. */
#include "autograd_test.h"

#include <math.h>
#include <stdlib.h>

/* ---- calls ---------------------------------------------------------------------------------------------------------------------- */

static fac_status call(const char *op, const fac_value *args, size_t n) {
    fac_value given[20], out = fac_value_none();
    memcpy(given, args, n * sizeof *given);
    const fac_status st = fac_error() ? fac_error() : fac_call(op, given, n, &out);
    for (size_t i = 0; i < n; i++) fac_value_release(&given[i]);
    fac_value_release(&out);
    return st;
}
#define CALL(op, ...) call("aten::" op, (fac_value[]){__VA_ARGS__}, FAC_COUNT(((fac_value[]){__VA_ARGS__})))
#define F(x) fac_value_float(x)
#define B(x) fac_value_bool(x)
#define T(x) ((x) ? fac_value_tensor(x) : fac_value_none())

enum { PARAMETERS = 3, STATES = 3, MOST = 3000 };
static const int64_t lengths[PARAMETERS] = {MOST, 1, 70};

/* Parameters, gradients and states, as tensors and as what they should hold. */
typedef struct set {
    fac_tensor *t[2 + STATES][PARAMETERS], *steps[PARAMETERS];
    double v[2 + STATES][PARAMETERS][MOST];
} set;

static fac_value list(fac_tensor **v, bool given) { return fac_value_tensors(v, given ? PARAMETERS : 0); }

static void fill(set *x, fac_dtype d, double step) {
    for (int k = 0; k < 2 + STATES; k++)
        for (int p = 0; p < PARAMETERS; p++) {
            for (int64_t i = 0; i < lengths[p]; i++) {
                const double wave = sin(12.9898 * (double)(i + 1) + k + 7 * p);
                x->v[k][p][i] = k < 3 ? wave : fabs(wave) + 0.01; /* squares are not negative */
            }
            x->t[k][p] = fac_to_dtype(fac_tensor_from(x->v[k][p], FAC_F64, FAC_INTS(lengths[p])), d);
            assert_ok(fac_tensor_read(x->t[k][p], FAC_F64, x->v[k][p], (size_t)lengths[p]));
            x->steps[p] = fac_full(FAC_SHAPE(), step + p);
        }
}

static double error_of(fac_dtype d) { return d == FAC_F64 ? 1e-13 : d == FAC_F32 ? 3e-6 : d == FAC_F16 ? 4e-3 : 3e-2; }

static void check(const set *x, fac_dtype d, const char *what) {
    static double got[MOST];
    assert_no_error();
    for (int k = 0; k < 2 + STATES; k++)
        for (int p = 0; p < PARAMETERS; p++) {
            assert_ok(fac_tensor_read(x->t[k][p], FAC_F64, got, (size_t)lengths[p]));
            for (int64_t i = 0; i < lengths[p]; i++)
                if (!(fabs(got[i] - x->v[k][p][i]) <= error_of(d) * (1 + fabs(got[i]))))
                    fail_msg("%s of %s: tensor %d of parameter %d, element %lld is %.17g, expected %.17g", what,
                             fac_dtype_name(d), k, p, (long long)i, got[i], x->v[k][p][i]);
        }
}

static const fac_dtype dtypes[] = {FAC_F32, FAC_F64, FAC_F16, FAC_BF16};

/* The gradient as the formulas take it; it is unscaled in place. */
static double gradient(set *x, int p, int64_t i, double scale, bool maximize, double decay) {
    x->v[1][p][i] /= scale;
    return (maximize ? -1 : 1) * x->v[1][p][i] + decay * x->v[0][p][i];
}

/* ---- steps ---------------------------------------------------------------------------------------------------------------------- */

typedef struct setting {
    bool amsgrad, maximize, nesterov, first, tensors; /* tensors: rate, scale and found_inf are given as such */
    double decay, momentum;
} setting;

static const setting settings[] = {{.decay = 0.1, .momentum = 0.9},
                                   {.amsgrad = true, .momentum = 0.9, .nesterov = true, .tensors = true},
                                   {.maximize = true, .first = true, .decay = 0.05, .momentum = 0.5},
                                   {.amsgrad = true, .maximize = true, .tensors = true, .decay = 0.2}};

static set *x;
static int make_set(void **state) {
    (void)state;
    x = malloc(sizeof *x);
    return !x;
}

#define ADAM(op, c, lr_, scale_, found_)                                                                            \
    CALL(op, list(x->t[0], true), list(x->t[1], true), list(x->t[2], true), list(x->t[3], true),                    \
         list(x->t[4], (c)->amsgrad), fac_value_tensors(x->steps, PARAMETERS), lr_, F(0.8), F(0.95), F((c)->decay), \
         F(1e-6), B((c)->amsgrad), B((c)->maximize), T(scale_), T(found_))

static void expect_adam(const setting *c, bool decoupled, double scale) {
    for (int p = 0; p < PARAMETERS; p++)
        for (int64_t i = 0; i < lengths[p]; i++) {
            const double step = 4 + p, g = gradient(x, p, i, scale, c->maximize, decoupled ? 0 : c->decay);
            double *m = &x->v[2][p][i], *v = &x->v[3][p][i], *top = &x->v[4][p][i], *w = &x->v[0][p][i];
            if (decoupled) *w *= 1 - 0.01 * c->decay;
            *m = 0.8 * *m + 0.2 * g;
            *v = 0.95 * *v + 0.05 * g * g;
            if (c->amsgrad) *top = fmax(*top, *v);
            const double root = sqrt((c->amsgrad ? *top : *v) / (1 - pow(0.95, step))) + 1e-6;
            *w -= 0.01 / (1 - pow(0.8, step)) * *m / root;
        }
}

static void fused_adam_steps_are_the_formulas(void **state) {
    (void)state;
    for (size_t d = 0; d < FAC_COUNT(dtypes); d++)
        for (size_t k = 0; k < FAC_COUNT(settings); k++)
            for (int decoupled = 0; decoupled < 2; decoupled++) {
                FAC_SCOPE(s);
                const setting *c = &settings[k];
                fill(x, dtypes[d], 4);
                fac_tensor *lr = fac_full(FAC_SHAPE(), 0.01, .dtype = FAC_F64),
                           *scale = c->tensors ? fac_full(FAC_SHAPE(1), 4) : NULL,
                           *found = c->tensors ? fac_zeros(FAC_SHAPE(1)) : NULL;
                if (decoupled)
                    assert_ok(c->tensors ? ADAM("_fused_adamw_.tensor_lr", c, T(lr), scale, found)
                                         : ADAM("_fused_adamw_", c, F(0.01), scale, found));
                else
                    assert_ok(c->tensors ? ADAM("_fused_adam_.tensor_lr", c, T(lr), scale, found)
                                         : ADAM("_fused_adam_", c, F(0.01), scale, found));
                expect_adam(c, decoupled, c->tensors ? 4 : 1);
                check(x, dtypes[d], decoupled ? "adamw" : "adam");
            }
}

#define SGD(op, c, lr_, scale_, found_)                                                                         \
    CALL(op, list(x->t[0], true), list(x->t[1], true), list(x->t[2], (c)->momentum != 0), F((c)->decay),        \
         F((c)->momentum), lr_, F((c)->nesterov ? 0 : 0.25), B((c)->nesterov), B((c)->maximize), B((c)->first), \
         T(scale_), T(found_))

static void fused_sgd_steps_are_the_formulas(void **state) {
    (void)state;
    for (size_t d = 0; d < FAC_COUNT(dtypes); d++)
        for (size_t k = 0; k < FAC_COUNT(settings); k++) {
            FAC_SCOPE(s);
            const setting *c = &settings[k];
            fill(x, dtypes[d], 1);
            fac_tensor *lr = fac_full(FAC_SHAPE(1), 0.125), *scale = c->tensors ? fac_full(FAC_SHAPE(), 8) : NULL;
            assert_ok(c->tensors ? SGD("_fused_sgd_.tensor_lr", c, T(lr), scale, NULL)
                                 : SGD("_fused_sgd_", c, F(0.125), scale, NULL));
            for (int p = 0; p < PARAMETERS; p++)
                for (int64_t i = 0; i < lengths[p]; i++) {
                    const double g = gradient(x, p, i, c->tensors ? 8 : 1, c->maximize, c->decay);
                    double *b = &x->v[2][p][i], moved = g;
                    if (c->momentum != 0) {
                        *b = c->first ? g : c->momentum * *b + (c->nesterov ? 1 : 0.75) * g;
                        moved = c->nesterov ? g + c->momentum * *b : *b;
                    }
                    x->v[0][p][i] -= 0.125 * moved;
                }
            check(x, dtypes[d], "sgd");
        }
}

static void fused_adagrad_steps_are_the_formulas(void **state) {
    (void)state;
    for (size_t d = 0; d < FAC_COUNT(dtypes); d++)
        for (int tensors = 0; tensors < 2; tensors++) {
            FAC_SCOPE(s);
            fill(x, dtypes[d], 3);
            fac_tensor *lr = fac_full(FAC_SHAPE(), 0.25);
#define ADAGRAD(op, lr_)                                                                                             \
    CALL(op, list(x->t[0], true), list(x->t[1], true), list(x->t[3], true), fac_value_tensors(x->steps, PARAMETERS), \
         lr_, F(0.5), F(0.1), F(1e-3), B(tensors))
            assert_ok(tensors ? ADAGRAD("_fused_adagrad_.tensor_lr", T(lr)) : ADAGRAD("_fused_adagrad_", F(0.25)));
            for (int p = 0; p < PARAMETERS; p++)
                for (int64_t i = 0; i < lengths[p]; i++) {
                    const double g = gradient(x, p, i, 1, tensors, 0.1);
                    x->v[3][p][i] += g * g;
                    x->v[0][p][i] -= 0.25 / (1 + (3 + p - 1) * 0.5) * g / (sqrt(x->v[3][p][i]) + 1e-3);
                }
            check(x, dtypes[d], "adagrad");
        }
}

static void fused_steps_are_skipped_where_gradients_overflowed(void **state) {
    (void)state;
    FAC_SCOPE(s);
    const setting c = {.tensors = true, .momentum = 0.9};
    fill(x, FAC_F32, 1);
    fac_tensor *found = fac_ones(FAC_SHAPE(1)), *scale = fac_full(FAC_SHAPE(1), 2);
    assert_ok(ADAM("_fused_adam_", &c, F(0.01), scale, found));
    assert_ok(SGD("_fused_sgd_", &c, F(0.01), scale, found));
    check(x, FAC_F32, "a step that is skipped");
}

static void fused_steps_do_not_depend_on_threads(void **state) {
    (void)state;
    FAC_SCOPE(s);
    enum { MANY = 300 };
    fac_tensor *kept[MANY] = {NULL}, *w[MANY], *g[MANY], *sums[MANY], *steps[MANY];
    const int were = fac_num_threads();
    for (int threads = 1; threads <= 4; threads++) {
        assert_ok(fac_set_num_threads(threads));
        fac_manual_seed(9);
        for (int i = 0; i < MANY; i++) {
            w[i] = fac_randn(FAC_SHAPE(i * 7 % 1000)), g[i] = fac_randn(FAC_SHAPE(i * 7 % 1000));
            sums[i] = fac_ones(FAC_SHAPE(i * 7 % 1000)), steps[i] = fac_ones(FAC_SHAPE());
        }
        assert_ok(CALL("_fused_adagrad_", fac_value_tensors(w, MANY), fac_value_tensors(g, MANY),
                       fac_value_tensors(sums, MANY), fac_value_tensors(steps, MANY), F(0.1), F(0), F(0), F(1e-10),
                       B(false), T(fac_full(FAC_SHAPE(), 3))));
        for (int i = 0; i < MANY; i++) {
            if (threads == 1) kept[i] = w[i];
            assert_true(fac_equal(kept[i], w[i]));
        }
    }
    assert_ok(fac_set_num_threads(were));
}

static void fused_steps_refuse_what_does_not_match(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *w = fac_ones(FAC_SHAPE(3)), *g = fac_ones(FAC_SHAPE(3)), *b = fac_zeros(FAC_SHAPE(3)),
               *short_ = fac_ones(FAC_SHAPE(2));
#define ONE(t) fac_value_tensors((fac_tensor *[]){t}, 1)
#define TRY(w_, g_, b_, scale_)                                                                                    \
    CALL("_fused_sgd_", ONE(w_), ONE(g_), b_, F(0), F(0.9), F(0.1), F(0), B(false), B(false), B(false), T(scale_), \
         T((fac_tensor *)NULL))
    assert_int_equal(TRY(w, short_, ONE(b), NULL), FAC_ERR_SHAPE);
    assert_error(FAC_ERR_SHAPE, "grads should have the sizes and strides of the parameter");
    assert_int_equal(TRY(w, fac_to_dtype(g, FAC_F64), ONE(b), NULL), FAC_ERR_DTYPE);
    assert_error(FAC_ERR_DTYPE, "grads is float64, but the parameter float32");
    assert_int_equal(TRY(w, g, fac_value_tensors(NULL, 0), NULL), FAC_ERR_ARGUMENT);
    assert_error(FAC_ERR_ARGUMENT, "momentum_buffer_list has 0 entries, but there are 1 parameters");
    assert_int_equal(TRY(w, w, ONE(b), NULL), FAC_ERR_ARGUMENT);
    assert_error(FAC_ERR_ARGUMENT, "share memory");
    assert_int_equal(TRY(w, g, ONE(b), short_), FAC_ERR_SHAPE);
    assert_error(FAC_ERR_SHAPE, "grad_scale should have one element");
    assert_int_equal(TRY(fac_arange(3), g, ONE(b), NULL), FAC_ERR_DTYPE);
    assert_error(FAC_ERR_DTYPE, "optimisers take floating parameters, not int64");
    assert_int_equal(TRY(fac_set_requires_grad(fac_ones(FAC_SHAPE(3)), true), g, ONE(b), NULL), FAC_ERR_AUTOGRAD);
    fac_error_clear();
    const setting c = {.amsgrad = true};
    fill(x, FAC_F32, 0);
    assert_int_equal(ADAM("_fused_adam_", &c, F(0.1), NULL, NULL), FAC_ERR_ARGUMENT);
    assert_error(FAC_ERR_ARGUMENT, "steps count from 1, but entry 0 of state_steps is 0");
    check(x, FAC_F32, "a step that is refused");
    assert_values(w, 1, 1, 1);
    assert_int_equal(fac_tensor_version(w), 0);
    assert_ok(TRY(w, g, ONE(b), NULL));
    assert_int_equal(fac_tensor_version(w), 1);
    assert_int_equal(fac_tensor_version(b), 1);
}

/* ---- gradient scaling ----------------------------------------------------------------------------------------------------------- */

static fac_status unscale(fac_tensor **v, size_t n, fac_tensor *found, fac_tensor *scale) {
    return CALL("_amp_foreach_non_finite_check_and_unscale_", fac_value_tensors(v, n), T(found), T(scale));
}

static void amp_unscales_and_finds_what_is_not_finite(void **state) {
    (void)state;
    static const double bad[] = {INFINITY, -INFINITY, NAN};
    for (size_t d = 0; d < FAC_COUNT(dtypes); d++)
        for (int k = -1; k < 3; k++) {
            FAC_SCOPE(s);
            fac_tensor *a = fac_full(FAC_SHAPE(200, 300), 3, .dtype = dtypes[d]),
                       *b = fac_t(fac_full(FAC_SHAPE(5, 7), 1, .dtype = dtypes[d])), *found = fac_zeros(FAC_SHAPE(1)),
                       *gaps = fac_select(fac_full(FAC_SHAPE(9, 2), 2, .dtype = dtypes[d]), 1, 1);
            if (k >= 0) fac_fill_(fac_narrow(b, 0, 3, 1), bad[k]);
            assert_ok(unscale((fac_tensor *[]){a, b, gaps}, 3, found, fac_full(FAC_SHAPE(1), 0.25)));
            assert_true(fac_item(fac_max(a)) == 0.75 && fac_item(fac_min(a)) == 0.75);
            assert_true(fac_item(fac_max(gaps)) == 0.5 && fac_item(fac_min(gaps)) == 0.5);
            assert_true(fac_item(found) == (k >= 0));
            assert_true(fac_item(fac_select(fac_select(b, 0, 0), 0, 0)) == 0.25);
        }
}

static void amp_scale_grows_and_backs_off(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *scale = fac_full(FAC_SHAPE(1), 1024.0, .dtype = FAC_F32),
               *tracker = fac_zeros(FAC_SHAPE(1), .dtype = FAC_I32), *fine = fac_zeros(FAC_SHAPE(1)),
               *found = fac_ones(FAC_SHAPE(1));
#define UPDATE(found_) \
    assert_ok(CALL("_amp_update_scale_", T(scale), T(tracker), T(found_), F(2), F(0.5), fac_value_int(3)))
    UPDATE(fine);
    UPDATE(fine);
    assert_true(fac_item(scale) == 1024 && fac_item(tracker) == 2);
    UPDATE(fine);
    assert_true(fac_item(scale) == 2048 && fac_item(tracker) == 0);
    UPDATE(fine);
    UPDATE(found);
    assert_true(fac_item(scale) == 1024 && fac_item(tracker) == 0);
    fac_fill_(scale, 0x1p127);
    for (int i = 0; i < 3; i++) UPDATE(fine);
    assert_true(fac_item(scale) == 0x1p127 && fac_item(tracker) == 0); /* it would not have been finite */
    assert_int_equal(CALL("_amp_update_scale_", T(scale), T(fine), T(fine), F(2), F(0.5), fac_value_int(3)),
                     FAC_ERR_DTYPE);
    assert_error(FAC_ERR_DTYPE, "growth_tracker must be a int32 tensor");
    assert_int_equal(unscale((fac_tensor *[]){scale, scale}, 2, scale, fine), FAC_ERR_ARGUMENT);
    assert_error(FAC_ERR_ARGUMENT, "found_inf lies in a gradient");
    assert_int_equal(unscale((fac_tensor *[]){fac_arange(2)}, 1, fine, found), FAC_ERR_DTYPE);
    assert_error(FAC_ERR_DTYPE, "gradients should be floating, not int64");
}

int main(void) {
    const struct CMUnitTest tests[] = {FAC_TEST(fused_adam_steps_are_the_formulas),
                                       FAC_TEST(fused_sgd_steps_are_the_formulas),
                                       FAC_TEST(fused_adagrad_steps_are_the_formulas),
                                       FAC_TEST(fused_steps_are_skipped_where_gradients_overflowed),
                                       FAC_TEST(fused_steps_do_not_depend_on_threads),
                                       FAC_TEST(fused_steps_refuse_what_does_not_match),
                                       FAC_TEST(amp_unscales_and_finds_what_is_not_finite),
                                       FAC_TEST(amp_scale_grows_and_backs_off)};
    const int failed = support_run(tests, FAC_COUNT(tests), make_set);
    free(x);
    return failed;
}
