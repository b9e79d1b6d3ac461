/* The kinds of optimisers beyond SGD and Adam: settings that are refused, groups, states, masters of halves, closures. What their
   steps compute is compared with PyTorch in tests/optim. */
#include "support/support.h"
#include <facula/facula.h>
#include <math.h>

typedef fac_optimizer *(*maker)(fac_tensors p, double lr);
#define MAKER(kind, ...) \
    static fac_optimizer *make_##kind(fac_tensors p, double lr) { return fac_##kind##_of(p, lr, __VA_ARGS__); }
MAKER(adam, .amsgrad = true, .decoupled_weight_decay = true, .weight_decay = 0.1)
MAKER(rmsprop, .momentum = 0.9, .centered = true)
MAKER(adagrad, .initial_accumulator_value = 0.5)
MAKER(adadelta, .rho = 0.8)
MAKER(adamax, .weight_decay = 0.1)
MAKER(nadam, .maximize = true)
MAKER(radam, .beta2 = 0.9)
MAKER(rprop, .etaplus = 1.5)
MAKER(asgd, .t0 = 1, .lambd = 0.1)
MAKER(adafactor, .weight_decay = 0.1)
MAKER(muon, .nesterov = false)
MAKER(sparse_adam, .maximize = true)
static const struct {
    maker make;
    size_t tensors; /* that are kept of a matrix */
} kinds[] = {{make_adam, 3},   {make_rmsprop, 3},   {make_adagrad, 1}, {make_adadelta, 2},
             {make_adamax, 2}, {make_nadam, 3},     {make_radam, 2},   {make_rprop, 2},
             {make_asgd, 3},   {make_adafactor, 2}, {make_muon, 1},    {make_sparse_adam, 2}};

static fac_tensor *matrix(double begin) {
    const double v[] = {begin, -2, 3, 0.5, -0.25, begin + 1};
    return fac_set_requires_grad(fac_tensor_from(v, FAC_F64, FAC_INTS(3, 2)), true);
}

/* A gradient that is another at each step; sparse for the kind that takes no other. */
static fac_tensor *gradient(size_t kind, fac_tensor *p, int k) {
    if (kinds[kind].make != make_sparse_adam) return fac_add(fac_mul(fac_detach(p), k + 1), cos(k));
    const int64_t rows[] = {k % 3};
    const double v[] = {sin(k + 1), cos(k)};
    return fac_sparse_coo_tensor_indices_size(fac_tensor_from(rows, FAC_I64, FAC_INTS(1, 1)),
                                              fac_tensor_from(v, FAC_F64, FAC_INTS(1, 2)), FAC_SHAPE(3, 2));
}

static void step(size_t kind, fac_optimizer *o, int k) {
    FAC_SCOPE(s);
    const fac_tensors p = fac_optimizer_parameters(o);
    for (size_t i = 0; i < p.n; i++) assert_ok(fac_set_grad(p.v[i], gradient(kind, p.v[i], k)));
    assert_ok(fac_optimizer_step(o));
}

static void optim_kinds_keep_what_their_settings_ask_for(void **state) {
    (void)state;
    for (size_t i = 0; i < FAC_COUNT(kinds); i++) {
        FAC_SCOPE(s);
        fac_tensor *p = matrix(1), *begin = fac_clone(fac_detach(p));
        fac_optimizer *o = kinds[i].make(FAC_TENSORS(p), 0.01);
        for (int k = 0; k < 3; k++) step(i, o, k);
        fac_state *all = fac_optimizer_state_dict(o), *of_p = fac_state_part(all, "0.");
        assert_int_equal(of_p->n, kinds[i].tensors + 1);
        assert_false(fac_equal(p, begin));
        assert_int_equal(fac_item_int(fac_state_get(of_p, "step")), 3);
        fac_state_free(of_p);
        fac_state_free(all);
        fac_optimizer_release(o);
    }
}

/* Two groups; the optimiser that loads has the class's settings before. */
static void optim_kinds_go_on_bit_by_bit_where_they_stopped(void **state) {
    (void)state;
    for (size_t i = 0; i < FAC_COUNT(kinds); i++) {
        FAC_SCOPE(s);
        fac_tensor *p[] = {matrix(1), matrix(-1), matrix(5), matrix(6)};
        fac_optimizer *a = kinds[i].make(FAC_TENSORS(p[0]), 0.01);
        fac_optimizer *b = fac_optimizer_of(fac_optimizer_class_of(a), FAC_TENSORS(p[2]), FAC_OPTIONS());
        assert_ok(fac_optimizer_add_group(a, FAC_TENSORS(p[1]), FAC_OPTIONS({"lr", 0.05})));
        assert_ok(fac_optimizer_add_group(b, FAC_TENSORS(p[3]), FAC_OPTIONS()));
        for (int k = 0; k < 4; k++) step(i, a, k);
        fac_state *saved = fac_optimizer_state_dict(a);
        assert_ok(fac_optimizer_load_state_dict(b, saved));
        fac_state_free(saved);
        for (int k = 0; k < 2; k++) {
            FAC_NO_GRAD(g);
            (void)fac_copy_(p[k + 2], p[k]);
        }
        for (int k = 4; k < 9; k++) step(i, a, k), step(i, b, k);
        for (int k = 0; k < 2; k++) assert_true(fac_equal(p[k], p[k + 2]));
        fac_optimizer_release(a);
        fac_optimizer_release(b);
    }
}

static size_t kind_that_fails;

static fac_status train(void *context) {
    (void)context;
    FAC_SCOPE(s);
    fac_tensor *p = matrix(1);
    fac_optimizer *o = fac_error() ? NULL : kinds[kind_that_fails].make(FAC_TENSORS(p), 0.01);
    for (int k = 0; o && k < 2; k++)
        if (fac_set_grad(p, gradient(kind_that_fails, p, k)) || fac_optimizer_step(o)) break;
    fac_state *saved = o && !fac_error() ? fac_optimizer_state_dict(o) : NULL;
    if (saved) (void)!fac_optimizer_load_state_dict(o, saved);
    fac_state_free(saved);
    fac_optimizer_release(o);
    return fac_error();
}

static void optim_kinds_survive_failing_allocations(void **state) {
    (void)state;
    for (kind_that_fails = 0; kind_that_fails < FAC_COUNT(kinds); kind_that_fails++)
        support_fail_each_allocation(train, NULL);
}

#define REFUSED(call, code, message) \
    do {                             \
        assert_null(call);           \
        assert_error(code, message); \
    } while (0)
#define REFUSED_SETTING(call, message) REFUSED(call, FAC_ERR_ARGUMENT, message)

static void optim_kinds_refuse_settings_that_make_no_sense(void **state) {
    (void)state;
    FAC_SCOPE(s);
    const fac_tensors p = FAC_TENSORS(matrix(1));
    REFUSED_SETTING(fac_rmsprop_of(p, 0.1, .alpha = -1), "invalid alpha value: -1");
    REFUSED_SETTING(fac_rmsprop_of(p, -0.1), "invalid learning rate: -0.1");
    REFUSED_SETTING(fac_rmsprop_of(p, 0.1, .momentum = NAN), "momentum of RMSprop is not a number");
    REFUSED_SETTING(fac_adagrad_of(p, 0.1, .lr_decay = -1), "invalid lr_decay value");
    REFUSED_SETTING(fac_adagrad_of(p, 0.1, .initial_accumulator_value = -1), "invalid initial_accumulator_value value");
    REFUSED_SETTING(fac_adadelta_of(p, 0.1, .rho = 1.5), "invalid rho value: 1.5");
    REFUSED_SETTING(fac_adamax_of(p, 0.1, .beta1 = 1), "invalid beta1");
    REFUSED_SETTING(fac_nadam_of(p, 0.1, .momentum_decay = -1), "invalid momentum_decay value");
    REFUSED_SETTING(fac_radam_of(p, 0.1, .beta2 = -0.1), "invalid beta2");
    REFUSED_SETTING(fac_rprop_of(p, 0.1, .etaminus = 1.1), "invalid eta values: 1.1, 1.2");
    REFUSED_SETTING(fac_asgd_of(p, 0.1, .lambd = -1), "invalid lambd value");
    REFUSED_SETTING(fac_sparse_adam_of(p, 0), "invalid learning rate: 0");
    REFUSED_SETTING(fac_sparse_adam_of(p, 0.1, .eps = 0), "invalid epsilon value: 0");
    REFUSED_SETTING(fac_adafactor_of(p, 0.1, .beta2_decay = 0.1), "beta2_decay should be <= 0");
    REFUSED_SETTING(fac_adafactor_of(p, 0.1, .eps1 = -1), "invalid eps1 value: -1");
    REFUSED_SETTING(fac_adafactor_of(p, 0.1, .d = 0.5), "threshold d should be >= 1 but is 0.5");
    REFUSED_SETTING(fac_muon_of(p, 0.1, .ns_steps = 100), "ns_steps should be a whole number below 100");
    REFUSED_SETTING(
        fac_muon_of(p, 0.1, .adjust_lr_fn = "best"),
        "adjust_lr_fn should be one of \"original\", \"match_rms_adamw\", \"spectral_unclamped\", not \"best\"");
    REFUSED_SETTING(fac_lbfgs_of(p, 0.1, .line_search_fn = "weak"), "line_search_fn should be one of \"strong_wolfe\"");
    REFUSED_SETTING(fac_lbfgs_of(p, 0.1, .history_size = 0), "history_size should be a whole number from 1");
    REFUSED_SETTING(fac_rprop_of(FAC_TENSORS(p.v[0], p.v[0]), 0.1), "more than one group");
}

static void assert_step_refused(fac_optimizer *o, fac_tensor *p, fac_tensor *grad, fac_status code,
                                const char *message) {
    if (grad) assert_ok(fac_set_grad(p, grad));
    assert_int_equal(fac_optimizer_step(o), code);
    assert_error(code, message);
    fac_optimizer_release(o);
}

static void optim_kinds_refuse_what_they_cannot_step(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *p = matrix(1), *v = fac_set_requires_grad(fac_ones(FAC_SHAPE(3)), true);
    fac_tensor *sparse = gradient(FAC_COUNT(kinds) - 1, p, 0), *dense = fac_ones_like(p);
    fac_tensor *z = fac_set_requires_grad(fac_ones(FAC_SHAPE(2), .dtype = FAC_C64), true);
    assert_step_refused(fac_sparse_adam_of(FAC_TENSORS(p), 0.1), p, dense, FAC_ERR_UNSUPPORTED,
                        "SparseAdam does not take strided gradients");
    assert_step_refused(fac_adagrad_of(FAC_TENSORS(p), 0.1, .weight_decay = 0.1), p, sparse, FAC_ERR_UNSUPPORTED,
                        "Adagrad takes sparse gradients without weight_decay");
    assert_step_refused(fac_nadam_of(FAC_TENSORS(p), 0.1), p, sparse, FAC_ERR_UNSUPPORTED,
                        "NAdam does not take sparse gradients");
    assert_step_refused(fac_muon_of(FAC_TENSORS(v), 0.1), v, fac_ones_like(v), FAC_ERR_SHAPE,
                        "Muon optimises matrices, but a parameter has the shape [3]");
    assert_step_refused(fac_adamax_of(FAC_TENSORS(z), 0.1), z, fac_ones_like(z), FAC_ERR_DTYPE,
                        "optimisers take floating parameters, not complex64");
    assert_step_refused(fac_lbfgs_of(FAC_TENSORS(v), 0.1), v, NULL, FAC_ERR_UNSUPPORTED,
                        "call fac_optimizer_step_closure");
}

/* Rows of a parameter that lies otherwise than its gradient. */
static void optim_sparse_adam_takes_parameters_that_lie_otherwise(void **state) {
    (void)state;
    FAC_SCOPE(s);
    const size_t kind = FAC_COUNT(kinds) - 1;
    fac_tensor *p = matrix(1), *turned = fac_t(fac_contiguous(fac_t(fac_detach(p))));
    turned = fac_set_requires_grad(fac_detach(turned), true);
    fac_optimizer *a = kinds[kind].make(FAC_TENSORS(p), 0.01), *b = kinds[kind].make(FAC_TENSORS(turned), 0.01);
    for (int k = 0; k < 4; k++) step(kind, a, k), step(kind, b, k);
    assert_true(fac_equal(p, turned));
    fac_optimizer_release(a);
    fac_optimizer_release(b);
}

/* What state dicts of 0.1 and of an earlier 0.2 lack stays as it is; a rate is never missing. */
static void optim_settings_that_a_state_lacks_stay(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_optimizer *o = fac_adam_of(FAC_TENSORS(matrix(1)), 0.1, .decoupled_weight_decay = true);
    fac_state *saved = fac_optimizer_state_dict(o);
    fac_state_remove(saved, "param_groups.0.decoupled_weight_decay");
    assert_ok(fac_optimizer_load_state_dict(o, saved));
    assert_true(fac_optimizer_option(o, 0, "decoupled_weight_decay") == 1);
    fac_state_remove(saved, "param_groups.0.lr");
    assert_int_equal(fac_optimizer_load_state_dict(o, saved), FAC_ERR_NOT_FOUND);
    assert_error(FAC_ERR_NOT_FOUND, "the state does not say lr of group 0");
    fac_state_free(saved);
    fac_optimizer_release(o);
}

static void optim_state_of_another_shape_is_refused(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *p = matrix(1);
    fac_optimizer *o = fac_adafactor_of(FAC_TENSORS(p), 0.1);
    step(9, o, 1);
    fac_state *saved = fac_optimizer_state_dict(o);
    assert_ok(fac_state_set(saved, "0.row_var", fac_ones(FAC_SHAPE(3, 2))));
    assert_int_equal(fac_optimizer_load_state_dict(o, saved), FAC_ERR_SHAPE);
    assert_error(FAC_ERR_SHAPE, "row_var of parameter 0 has shape [3, 2] in the state");
    fac_state_free(saved);
    fac_optimizer_release(o);
}

/* ---- masters --------------------------------------------------------------------------------------------------------------- */

static fac_optimizer *make_sgd(fac_tensors p, double lr) { return fac_sgd_of(p, lr, .momentum = 0.9); }
static fac_optimizer *make_adagrad_plain(fac_tensors p, double lr) { return fac_adagrad_of(p, lr); }
static const maker with_masters[] = {make_sgd, make_adam, make_rmsprop, make_adafactor};

static void step_halves(fac_optimizer *o, int k) {
    FAC_SCOPE(s);
    fac_tensor *p = fac_optimizer_parameters(o).v[0], *g = fac_full(FAC_SHAPE(3, 2), sin(k) / 7);
    assert_ok(fac_set_grad(p, fac_to(fac_to(g, .dtype = FAC_BF16), .dtype = fac_tensor_dtype(p))));
    assert_ok(fac_optimizer_step(o));
}

/* Without masters: every step is one in float32 from the rounded parameter and state, whose results are rounded. */
static void optim_fused_kinds_round_halves_once(void **state) {
    (void)state;
    static const maker fused[] = {make_sgd, make_adam, make_adagrad_plain};
    for (size_t i = 0; i < FAC_COUNT(fused); i++)
        for (fac_dtype d = FAC_F16;; d = FAC_BF16) {
            FAC_SCOPE(s);
            fac_tensor *half = fac_set_requires_grad(fac_to(fac_detach(matrix(1)), .dtype = d), true);
            fac_optimizer *a = fused[i](FAC_TENSORS(half), 1e-2);
            for (int k = 0; k < 12; k++) {
                fac_tensor *full = fac_set_requires_grad(fac_to(fac_detach(half), .dtype = FAC_F32), true);
                fac_optimizer *b = fused[i](FAC_TENSORS(full), 1e-2);
                fac_state *had = fac_optimizer_state_dict(a), *has;
                if (k) assert_ok(fac_optimizer_load_state_dict(b, had));
                step_halves(a, k), step_halves(b, k);
                assert_int_equal(fac_tensor_dtype(half), d);
                assert_true(fac_equal(fac_detach(half), fac_to(fac_detach(full), .dtype = d)));
                has = fac_optimizer_state_dict(a);
                assert_true(!fac_state_get(has, "0.master"));
                fac_state_free(had);
                fac_state_free(has);
                fac_optimizer_release(b);
            }
            fac_optimizer_release(a);
            if (d == FAC_BF16) break;
        }
}

/* A sparse gradient of a half changes the rows that it has. */
static void optim_sgd_takes_sparse_gradients_of_halves(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *p = fac_set_requires_grad(fac_ones(FAC_SHAPE(3, 2), .dtype = FAC_BF16), true);
    fac_tensor *values = fac_full(FAC_SHAPE(1, 2), 4, .dtype = FAC_BF16);
    fac_tensor *row = fac_ones(FAC_SHAPE(1, 1), .dtype = FAC_I64);
    fac_optimizer *o = fac_sgd_of(FAC_TENSORS(p), 0.125);
    assert_ok(fac_set_grad(p, fac_sparse_coo_tensor_indices_size(row, values, fac_tensor_sizes(p))));
    assert_ok(fac_optimizer_step(o));
    assert_true(fac_item(fac_sum(fac_detach(p))) == 5 && fac_item(fac_sum(fac_narrow(fac_detach(p), 0, 1, 1))) == 1);
    fac_optimizer_release(o);
}

/* The halves are float32 parameters, rounded. */
static void optim_masters_step_in_float32(void **state) {
    (void)state;
    for (size_t i = 0; i < FAC_COUNT(with_masters); i++) {
        FAC_SCOPE(s);
        fac_tensor *begin = fac_to(fac_detach(matrix(1)), .dtype = FAC_BF16);
        fac_tensor *half = fac_set_requires_grad(fac_clone(begin), true);
        fac_tensor *full = fac_set_requires_grad(fac_to(begin, .dtype = FAC_F32), true);
        fac_optimizer *a = with_masters[i](FAC_TENSORS(half), 1e-3), *b = with_masters[i](FAC_TENSORS(full), 1e-3);
        assert_ok(fac_optimizer_use_master_weights(a));
        for (int k = 0; k < 30; k++) step_halves(a, k), step_halves(b, k);
        assert_true(fac_equal(half, fac_to(fac_detach(full), .dtype = FAC_BF16)));
        fac_state *saved = fac_optimizer_state_dict(a);
        assert_true(fac_equal(fac_state_get(saved, "0.master"), fac_detach(full)));

        fac_tensor *other = fac_set_requires_grad(fac_clone(fac_detach(half)), true);
        fac_optimizer *c = with_masters[i](FAC_TENSORS(other), 0.5);
        assert_int_equal(fac_optimizer_load_state_dict(c, saved), FAC_ERR_ARGUMENT);
        fac_error_clear();
        assert_ok(fac_optimizer_use_master_weights(c));
        assert_ok(fac_optimizer_load_state_dict(c, saved));
        for (int k = 0; k < 10; k++) step_halves(a, k), step_halves(c, k);
        assert_true(fac_equal(half, other));
        fac_state_free(saved);
        fac_optimizer_release(a);
        fac_optimizer_release(b);
        fac_optimizer_release(c);
    }
}

static void optim_masters_are_asked_for_before_the_first_step(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *p = fac_set_requires_grad(fac_ones(FAC_SHAPE(3, 2), .dtype = FAC_F16), true);
    fac_optimizer *o = fac_rmsprop_of(FAC_TENSORS(p), 0.1), *l = fac_lbfgs_of(FAC_TENSORS(p), 0.1);
    step_halves(o, 1); /* in float16 itself */
    assert_int_equal(fac_optimizer_use_master_weights(o), FAC_ERR_STATE);
    assert_error(FAC_ERR_STATE, "before the first step, but parameter 0 has taken 1");
    assert_int_equal(fac_optimizer_use_master_weights(l), FAC_ERR_UNSUPPORTED);
    assert_error(FAC_ERR_UNSUPPORTED, "LBFGS keeps no master weights");
    fac_optimizer_release(o);
    fac_optimizer_release(l);
}

/* ---- closures -------------------------------------------------------------------------------------------------------------- */

/* Rosenbrock's valley, whose floor is at (1, 1). */
static int calls;
static fac_tensor *rosenbrock(void *context) {
    fac_tensor *p = context;
    calls++;
    if (fac_set_grad(p, NULL)) return NULL;
    fac_tensor *x = fac_select(p, 0, 0), *y = fac_select(p, 0, 1), *a = fac_sub(x, 1), *b = fac_sub(y, fac_mul(x, x));
    fac_tensor *loss = fac_add(fac_mul(a, a), fac_mul(fac_mul(b, b), 100));
    return fac_backward(loss) ? NULL : loss;
}

static fac_tensor *far_away(void) {
    return fac_set_requires_grad(fac_tensor_from((const double[]){-1.5, 2}, FAC_F64, FAC_INTS(2)), true);
}

static void optim_lbfgs_finds_the_floor_of_a_valley(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *p = far_away();
    double loss;
    fac_optimizer *o = fac_lbfgs_of(FAC_TENSORS(p), 1, .line_search_fn = "strong_wolfe");
    for (int i = 0; i < 5; i++) assert_ok(fac_optimizer_step_closure(o, rosenbrock, p, &loss));
    assert_true(loss < 1e-9 && fac_allclose(p, fac_ones(FAC_SHAPE(2), .dtype = FAC_F64), .atol = 1e-5));
    assert_int_equal(fac_optimizer_add_group(o, FAC_TENSORS(matrix(1)), FAC_OPTIONS()), FAC_ERR_UNSUPPORTED);
    assert_error(FAC_ERR_UNSUPPORTED, "LBFGS has one group of parameters");
    fac_optimizer_release(o);
}

static fac_tensor *no_loss(void *context) { return (void)context, NULL; }
static fac_tensor *failing_loss(void *context) { return fac_add((fac_tensor *)context, fac_ones(FAC_SHAPE(7))); }

static void optim_closures_that_fail_are_errors(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *p = far_away();
    fac_optimizer *all[] = {fac_lbfgs_of(FAC_TENSORS(p), 1), fac_sgd_of(FAC_TENSORS(p), 1)};
    for (int i = 0; i < 2; i++) {
        double loss = -1;
        assert_int_equal(fac_optimizer_step_closure(all[i], no_loss, NULL, &loss), FAC_ERR_ARGUMENT);
        assert_error(FAC_ERR_ARGUMENT, "a closure returned NULL in the place of a loss");
        assert_int_equal(fac_optimizer_step_closure(all[i], failing_loss, p, NULL), FAC_ERR_SHAPE);
        assert_error(FAC_ERR_SHAPE, "add");
        assert_int_equal(fac_optimizer_step_closure(all[i], NULL, p, NULL), FAC_ERR_ARGUMENT);
        assert_error(FAC_ERR_ARGUMENT, "the closure of a step is NULL");
        assert_true(loss == -1);
        fac_optimizer_release(all[i]);
    }
}

/* Also where nothing is recorded around it. */
static void optim_closures_serve_every_kind(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *p = far_away(), *q = far_away();
    fac_optimizer *a = fac_sgd_of(FAC_TENSORS(p), 1e-3), *b = fac_sgd_of(FAC_TENSORS(q), 1e-3);
    double loss = 0;
    calls = 0;
    {
        FAC_NO_GRAD(g);
        assert_ok(fac_optimizer_step_closure(a, rosenbrock, p, &loss));
    }
    assert_int_equal(calls, 1);
    assert_true(loss == 6.25 + 100 * 0.0625);
    (void)!rosenbrock(q);
    assert_ok(fac_optimizer_step(b));
    assert_true(fac_equal(p, q));
    fac_optimizer_release(a);
    fac_optimizer_release(b);
}

static fac_status train_lbfgs(void *context) {
    (void)context;
    FAC_SCOPE(s);
    fac_tensor *p = far_away();
    fac_optimizer *o = fac_error() ? NULL
                                   : fac_lbfgs_of(FAC_TENSORS(p), 1, .line_search_fn = "strong_wolfe",
                                                  .history_size = 1, .max_iter = 3);
    for (int i = 0; o && i < 2 && !fac_error(); i++) (void)!fac_optimizer_step_closure(o, rosenbrock, p, NULL);
    fac_state *saved = o && !fac_error() ? fac_optimizer_state_dict(o) : NULL;
    if (saved) (void)!fac_optimizer_load_state_dict(o, saved);
    fac_state_free(saved);
    fac_optimizer_release(o);
    return fac_error();
}

static void optim_lbfgs_survives_failing_allocations(void **state) {
    (void)state;
    support_fail_each_allocation(train_lbfgs, NULL);
}

static void optim_lbfgs_state_that_is_senseless_is_refused(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *p = far_away();
    fac_optimizer *o = fac_lbfgs_of(FAC_TENSORS(p), 0.01, .max_iter = 3);
    assert_ok(fac_optimizer_step_closure(o, rosenbrock, p, NULL));
    const struct {
        const char *name, *message;
        fac_tensor *other;
        fac_status code;
    } cases[] = {{"0.d", "0.d has the shape [3] in the state, but the parameters have 2 elements",
                  fac_ones(FAC_SHAPE(3)), FAC_ERR_SHAPE},
                 {"0.ro", "histories of different lengths", fac_ones(FAC_SHAPE(9)), FAC_ERR_SHAPE},
                 {"0.n_iter", "the counts of the state are -1 and", fac_tensor_of(-1), FAC_ERR_ARGUMENT},
                 {"0.old_dirs", "the state has no 0.old_dirs", NULL, FAC_ERR_NOT_FOUND}};
    for (size_t i = 0; i < FAC_COUNT(cases); i++) {
        fac_state *saved = fac_optimizer_state_dict(o);
        fac_state_remove(saved, cases[i].name);
        if (cases[i].other) assert_ok(fac_state_set(saved, cases[i].name, cases[i].other));
        assert_int_equal(fac_optimizer_load_state_dict(o, saved), cases[i].code);
        assert_error(cases[i].code, cases[i].message);
        fac_state_free(saved);
    }
    assert_ok(fac_optimizer_step_closure(o, rosenbrock, p, NULL)); /* it still has its own */
    fac_optimizer_release(o);
}

FAC_TEST_MAIN(FAC_TEST(optim_kinds_keep_what_their_settings_ask_for),
              FAC_TEST(optim_kinds_go_on_bit_by_bit_where_they_stopped),
              FAC_TEST(optim_kinds_survive_failing_allocations),
              FAC_TEST(optim_kinds_refuse_settings_that_make_no_sense),
              FAC_TEST(optim_kinds_refuse_what_they_cannot_step),
              FAC_TEST(optim_sparse_adam_takes_parameters_that_lie_otherwise),
              FAC_TEST(optim_settings_that_a_state_lacks_stay), FAC_TEST(optim_state_of_another_shape_is_refused),
              FAC_TEST(optim_fused_kinds_round_halves_once), FAC_TEST(optim_sgd_takes_sparse_gradients_of_halves),
              FAC_TEST(optim_masters_step_in_float32), FAC_TEST(optim_masters_are_asked_for_before_the_first_step),
              FAC_TEST(optim_lbfgs_finds_the_floor_of_a_valley), FAC_TEST(optim_closures_that_fail_are_errors),
              FAC_TEST(optim_closures_serve_every_kind), FAC_TEST(optim_lbfgs_survives_failing_allocations),
              FAC_TEST(optim_lbfgs_state_that_is_senseless_is_refused))
