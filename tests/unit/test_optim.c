/* Optimisers: steps as PyTorch's, groups, schedules, state. */
#include "data/optim_cases.h"
#include "support/support.h"
#include <facula/facula.h>
#include <math.h>
#include <string.h>

/* A module that is one parameter, p. */
static const fac_module_class holder_class = {.name = "Holder", .version = 1};

static fac_module *holder(fac_tensor *p) {
    fac_module *m = fac_module_new(&holder_class);
    assert_non_null(m);
    assert_non_null(fac_module_add_parameter(m, "p", p));
    return m;
}

static fac_optimizer *make(const char *name, fac_module *m) {
    if (!strcmp(name, "sgd plain")) return fac_sgd_new(m, 0.1);
    if (!strcmp(name, "sgd momentum")) return fac_sgd_new(m, 0.1, .momentum = 0.9);
    if (!strcmp(name, "sgd nesterov"))
        return fac_sgd_new(m, 0.1, .momentum = 0.9, .nesterov = true, .weight_decay = 0.01);
    if (!strcmp(name, "sgd dampening")) return fac_sgd_new(m, 0.1, .momentum = 0.8, .dampening = 0.5);
    if (!strcmp(name, "sgd maximize")) return fac_sgd_new(m, 0.1, .maximize = true);
    if (!strcmp(name, "adam")) return fac_adam_new(m, 0.01);
    if (!strcmp(name, "adam decay")) return fac_adam_new(m, 0.01, .weight_decay = 0.1);
    if (!strcmp(name, "adam amsgrad")) return fac_adam_new(m, 0.01, .beta1 = 0.8, .beta2 = 0.9, .amsgrad = true);
    if (!strcmp(name, "adamw")) return fac_adamw_new(m, 0.01);
    if (!strcmp(name, "adamw amsgrad"))
        return fac_adamw_new(m, 0.01, .weight_decay = 0.2, .amsgrad = true, .eps = 1e-6);
    fail_msg("no optimiser for case '%s'", name);
    return NULL;
}

static void step(fac_optimizer *o, fac_tensor *p, int k) {
    FAC_SCOPE(s);
    fac_tensor *g = fac_sub(fac_div(fac_mul(fac_detach(p), k + 1), 2), k);
    assert_ok(fac_set_grad(p, g));
    assert_ok(fac_optimizer_step(o));
}

static void S166_optimisers_step_as_pytorch_does(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof OPTIM_CASES / sizeof *OPTIM_CASES; i++) {
        FAC_SCOPE(s);
        const double start[] = {1, -2, 3, -4};
        fac_tensor *p = fac_tensor_from(start, FAC_F64, FAC_INTS(4));
        fac_module *m = holder(p);
        fac_optimizer *o = make(OPTIM_CASES[i].name, m);
        assert_no_error();
        for (int k = 0; k < 5; k++) {
            double got[4];
            step(o, p, k);
            assert_ok(fac_tensor_read(p, FAC_F64, got, 4));
            for (int j = 0; j < 4; j++)
                if (!(fabs(got[j] - OPTIM_CASES[i].after[k][j]) <= 1e-12 * (1 + fabs(got[j]))))
                    fail_msg("%s, step %d, element %d: %.17g, PyTorch has %.17g", OPTIM_CASES[i].name, k, j, got[j],
                             OPTIM_CASES[i].after[k][j]);
        }
        fac_optimizer_release(o);
        fac_module_release(m);
    }
}

static void S129_zero_grad_drops_gradients_and_a_parameter_without_one_stays(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *p = fac_tensor_of(1, 2);
    fac_module *m = holder(p);
    fac_optimizer *o = fac_sgd_new(m, 1);
    assert_ok(fac_set_grad(p, fac_ones_like(p)));
    fac_optimizer_zero_grad(o);
    assert_null(fac_grad_of(p));
    assert_ok(fac_optimizer_step(o));
    float v[2];
    assert_ok(fac_tensor_read(p, FAC_F32, v, 2));
    assert_true(v[0] == 1 && v[1] == 2);
    fac_optimizer_release(o);
    fac_module_release(m);
}

static void optim_a_pending_error_stops_the_step_and_changes_nothing(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *p = fac_tensor_of(1, 2);
    fac_module *m = holder(p);
    fac_optimizer *o = fac_sgd_new(m, 1);
    assert_ok(fac_set_grad(p, fac_ones_like(p)));
    fac_error_set(FAC_ERR_ARGUMENT, "an earlier mistake");
    assert_int_equal(fac_optimizer_step(o), FAC_ERR_ARGUMENT);
    fac_optimizer_zero_grad(o);
    assert_error(FAC_ERR_ARGUMENT, "an earlier mistake");
    assert_null(fac_grad_of(p));
    assert_true(fac_item(fac_sum(p)) == 3);
    fac_optimizer_release(o);
    fac_module_release(m);
}

static void optim_bad_settings_are_errors(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_module *m = holder(fac_tensor_of(1));
    assert_null(fac_sgd_new(m, -1));
    assert_error(FAC_ERR_ARGUMENT, "learning rate");
    assert_null(fac_sgd_new(m, 0.1, .nesterov = true));
    assert_error(FAC_ERR_ARGUMENT, "Nesterov");
    assert_null(fac_adamw_new(m, 0.1, .beta1 = 1.0));
    assert_error(FAC_ERR_ARGUMENT, "beta1");
    fac_module *none = fac_relu_new();
    assert_null(fac_sgd_new(none, 0.1));
    assert_error(FAC_ERR_ARGUMENT, "without parameters");
    fac_module_release(none);
    fac_optimizer *o = fac_sgd_new(m, 0.1);
    fac_tensor *p = fac_module_parameter(m, "p");
    assert_int_equal(fac_optimizer_add_group(o, FAC_TENSORS(p), FAC_OPTIONS()), FAC_ERR_ARGUMENT);
    assert_error(FAC_ERR_ARGUMENT, "more than one group");
    fac_optimizer_release(o);
    fac_module_release(m);
}

static void optim_state_dict_goes_on_where_it_stopped(void **state) {
    (void)state;
    FAC_SCOPE(s);
    const double start[] = {1, -2, 3, -4};
    fac_tensor *a = fac_tensor_from(start, FAC_F64, FAC_INTS(4)), *b = fac_tensor_from(start, FAC_F64, FAC_INTS(4));
    fac_module *ma = holder(a), *mb = holder(b);
    fac_optimizer *oa = fac_adamw_new(ma, 0.01), *ob = fac_adamw_new(mb, 0.01);
    for (int k = 0; k < 3; k++) step(oa, a, k);
    fac_state *st = fac_optimizer_state_dict(oa);
    assert_non_null(st);
    assert_non_null(fac_state_get(st, "0.exp_avg"));
    assert_ok(fac_optimizer_load_state_dict(ob, st));
    {
        FAC_NO_GRAD(g);
        assert_non_null(fac_copy_(b, a));
    }
    for (int k = 3; k < 6; k++) {
        step(oa, a, k);
        step(ob, b, k);
    }
    assert_true(fac_equal(a, b));
    fac_state_free(st);
    fac_optimizer_release(oa);
    fac_optimizer_release(ob);
    fac_module_release(ma);
    fac_module_release(mb);
}

static void optim_cosine_schedule_warms_up_and_comes_down(void **state) {
    (void)state;
    const fac_cosine_schedule c = {1.0, 0.1, 10, 110};
    assert_true(fabs(fac_cosine_lr(&c, 0) - 0.1) < 1e-15);
    assert_true(fabs(fac_cosine_lr(&c, 9) - 1.0) < 1e-15);
    assert_true(fabs(fac_cosine_lr(&c, 10) - 1.0) < 1e-15);
    assert_true(fabs(fac_cosine_lr(&c, 60) - 0.55) < 1e-12);
    assert_true(fac_cosine_lr(&c, 110) == 0.1 && fac_cosine_lr(&c, 100000) == 0.1);
}

static void optim_clip_grad_norm_scales_all_gradients_together(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *a = fac_tensor_of(0, 0), *b = fac_tensor_of(0);
    fac_set_requires_grad(a, true);
    fac_set_requires_grad(b, true);
    assert_ok(fac_set_grad(a, fac_tensor_of(3, 0)));
    assert_ok(fac_set_grad(b, fac_tensor_of(4)));
    double norm = 0;
    assert_ok(fac_clip_grad_norm(FAC_TENSORS(a, b), 1.0, .error_if_nonfinite = true, .total_norm = &norm));
    assert_true(fabs(norm - 5) < 1e-6);
    assert_true(fabs(fac_item(fac_grad_of(b)) - 0.8) < 1e-5);
    assert_ok(fac_clip_grad_value(FAC_TENSORS(a, b), 0.5));
    assert_true(fabs(fac_item(fac_grad_of(b)) - 0.5) < 1e-7);
    assert_ok(fac_set_grad(b, fac_tensor_of(INFINITY)));
    assert_int_equal(fac_clip_grad_norm(FAC_TENSORS(a, b), 1.0, .error_if_nonfinite = true), FAC_ERR_ARGUMENT);
    assert_error(FAC_ERR_ARGUMENT, "cannot be clipped");
}

/* Training from scratch under memory pressure. */
static fac_status train_once(void *context) {
    (void)context;
    FAC_SCOPE(s);
    fac_module *m = fac_sequential(fac_linear_new(3, 4), fac_tanh_new(), fac_linear_new(4, 2));
    fac_optimizer *o = fac_adamw_new(m, 0.01);
    if (o) {
        fac_tensor *loss = fac_mse_loss(fac_forward(m, fac_ones(FAC_SHAPE(2, 3))), fac_zeros(FAC_SHAPE(2, 2)));
        if (!fac_backward(loss) && fac_optimizer_step(o))
            return fac_optimizer_release(o), fac_module_release(m), fac_error();
    }
    fac_optimizer_release(o);
    fac_module_release(m);
    return fac_error();
}

static void optim_every_allocation_of_a_training_step_may_fail(void **state) {
    (void)state;
    support_fail_each_allocation(train_once, NULL);
}

/* Two parameters in two groups, the second made with a rate of its own. */
static fac_optimizer *with_two_groups(fac_module *m, fac_tensor *other, double rate, double other_rate) {
    fac_optimizer *o = fac_sgd_new(m, rate, .momentum = 0.9, .weight_decay = 0.1);
    assert_non_null(o);
    assert_ok(fac_optimizer_add_group(o, FAC_TENSORS(other), FAC_OPTIONS({"lr", other_rate}, {"weight_decay", 0.5})));
    return o;
}

/* The rates at which both parameters are moved by a gradient of one. */
static void assert_rates(fac_optimizer *o, fac_tensor *p, fac_tensor *q, double of_p, double of_q) {
    FAC_SCOPE(s);
    FAC_NO_GRAD(g);
    fac_tensor *params[] = {p, q};
    const double want[] = {of_p, of_q};
    for (int i = 0; i < 2; i++) {
        assert_non_null(fac_zero_(params[i]));
        assert_ok(fac_set_grad(params[i], fac_ones_like(params[i])));
    }
    assert_ok(fac_optimizer_step(o));
    for (int i = 0; i < 2; i++) assert_true(fabs(fac_item(params[i]) + want[i]) < 1e-12);
}

static void optim_groups_made_at_rate_0_keep_their_ratio(void **state) {
    (void)state;
    const struct {
        double made[2], set, want[2];
    } cases[] = {{{0.1, 0.2}, 0.3, {0.3, 0.6}},
                 {{0.1, 0}, 0.3, {0.3, 0}},
                 {{0, 0.1}, 0.3, {0, 0.3}},
                 {{0, 0}, 0.3, {0.3, 0.3}},
                 {{0.1, 0.2}, 0, {0, 0}}};
    for (size_t i = 0; i < FAC_COUNT(cases); i++) {
        FAC_SCOPE(s);
        const double zero = 0;
        fac_tensor *p = fac_tensor_from(&zero, FAC_F64, FAC_INTS(1)), *q = fac_tensor_from(&zero, FAC_F64, FAC_INTS(1));
        fac_module *m = holder(p);
        fac_set_requires_grad(q, true);
        fac_optimizer *o = fac_sgd_new(m, cases[i].made[0]);
        assert_ok(
            fac_optimizer_add_group(o, FAC_TENSORS(q), FAC_OPTIONS({"lr", cases[i].made[1]}, {"weight_decay", 0})));
        fac_optimizer_set_lr(o, cases[i].set);
        assert_true(fac_optimizer_lr(o) == cases[i].set);
        assert_rates(o, p, q, cases[i].want[0], cases[i].want[1]);
        fac_optimizer_set_lr(o, 1); /* and from there, wherever they stood */
        fac_optimizer_set_lr(o, cases[i].set);
        assert_rates(o, p, q, cases[i].want[0], cases[i].want[1]);
        fac_optimizer_release(o);
        fac_module_release(m);
    }
}

static void optim_state_dict_holds_every_option(void **state) {
    (void)state;
    FAC_SCOPE(s);
    const double one = 1;
    fac_tensor *p = fac_tensor_from(&one, FAC_F64, FAC_INTS(1)), *q = fac_tensor_from(&one, FAC_F64, FAC_INTS(1));
    fac_module *m = holder(p);
    fac_set_requires_grad(q, true);
    fac_optimizer *a = with_two_groups(m, q, 0.1, 0.02), *b = with_two_groups(m, q, 0.7, 0);
    fac_optimizer_set_lr(a, 0.05);
    step(a, p, 1);
    fac_state *of_a = fac_optimizer_state_dict(a);
    const char *names[] = {"lr", "initial_lr", "weight_decay", "momentum", "dampening", "nesterov", "maximize"};
    const double want[] = {0.01, 0.02, 0.5, 0.9, 0, 0, 0};
    for (size_t i = 0; i < FAC_COUNT(names); i++) {
        char name[64];
        snprintf(name, sizeof name, "param_groups.1.%s", names[i]);
        assert_non_null(fac_state_get(of_a, name));
        assert_true(fabs(fac_item(fac_state_get(of_a, name)) - want[i]) < 1e-15);
    }
    assert_int_equal(fac_item_int(fac_state_get(of_a, "param_groups.1.params")), 1);
    assert_ok(fac_optimizer_load_state_dict(b, of_a));
    assert_true(fac_optimizer_lr(b) == 0.05);
    fac_optimizer_set_lr(b, 0.1); /* the ratio came along */
    fac_state *of_b = fac_optimizer_state_dict(b);
    assert_true(fabs(fac_item(fac_state_get(of_b, "param_groups.1.lr")) - 0.02) < 1e-15);
    /* A group of other parameters is refused, and nothing changes. */
    fac_optimizer *c = fac_sgd_new(m, 0.3, .momentum = 0.5);
    assert_int_equal(fac_optimizer_load_state_dict(c, of_a), FAC_ERR_ARGUMENT);
    assert_error(FAC_ERR_ARGUMENT, "over 1 parameters knows");
    assert_true(fac_optimizer_lr(c) == 0.3);
    assert_ok(fac_state_set(of_b, "param_groups.0.momentum", fac_tensor_of(-1)));
    assert_int_equal(fac_optimizer_load_state_dict(a, of_b), FAC_ERR_ARGUMENT);
    assert_error(FAC_ERR_ARGUMENT, "invalid momentum value: -1");
    assert_true(fac_optimizer_lr(a) == 0.05);
    fac_state_free(of_a);
    fac_state_free(of_b);
    fac_optimizer_release(a);
    fac_optimizer_release(b);
    fac_optimizer_release(c);
    fac_module_release(m);
}

/* Version 0.1 wrote step counts and buffers alone. */
static void optim_state_without_options_leaves_them(void **state) {
    (void)state;
    FAC_SCOPE(s);
    const double one = 1;
    fac_tensor *p = fac_tensor_from(&one, FAC_F64, FAC_INTS(1));
    fac_module *m = holder(p);
    fac_optimizer *o = fac_adam_new(m, 0.1);
    step(o, p, 1);
    fac_state *all = fac_optimizer_state_dict(o), *old = fac_state_new();
    for (size_t i = 0; i < all->n; i++)
        if (strncmp(all->v[i].name, "param_groups", 12) != 0)
            assert_ok(fac_state_set(old, all->v[i].name, all->v[i].tensor));
    assert_int_equal(old->n, 3);
    fac_optimizer_set_lr(o, 0.2);
    assert_ok(fac_optimizer_load_state_dict(o, old));
    assert_true(fac_optimizer_lr(o) == 0.2);
    fac_state_free(all);
    fac_state_free(old);
    fac_optimizer_release(o);
    fac_module_release(m);
}

static void optim_null_is_an_error(void **state) {
    (void)state;
    FAC_SCOPE(s);
    assert_null(fac_sgd_new(NULL, 0.1));
    assert_int_equal(fac_error(), FAC_ERR_ARGUMENT);
    fac_error_clear();
    fac_optimizer_set_lr(NULL, 0.1);
    assert_int_equal(fac_error(), FAC_ERR_ARGUMENT);
    fac_error_clear();
    assert_true(fac_optimizer_lr(NULL) == 0);
    assert_int_equal(fac_error(), FAC_ERR_ARGUMENT);
    fac_error_clear();
    assert_int_equal(fac_optimizer_parameters(NULL).n, 0);
    assert_int_equal(fac_error(), FAC_ERR_ARGUMENT);
    fac_error_clear();
}

static void optim_refuses_the_state_of_another_kind(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *p = fac_tensor_from((const double[]){1, -2, 3, -4}, FAC_F64, FAC_INTS(4));
    fac_module *m = holder(p);
    fac_optimizer *sgd = fac_sgd_new(m, 0.1, .momentum = 0.9), *adam = fac_adam_new(m, 0.1);
    step(sgd, p, 1);
    step(adam, p, 2);
    fac_state *of_sgd = fac_optimizer_state_dict(sgd), *of_adam = fac_optimizer_state_dict(adam);
    assert_int_equal(fac_optimizer_load_state_dict(adam, of_sgd), FAC_ERR_ARGUMENT);
    assert_error(FAC_ERR_ARGUMENT, "of which Adam over 1 parameters knows 1");
    assert_int_equal(fac_optimizer_load_state_dict(sgd, of_adam), FAC_ERR_ARGUMENT);
    assert_error(FAC_ERR_ARGUMENT, "of which SGD over 1 parameters knows 1");
    assert_ok(fac_optimizer_load_state_dict(adam, of_adam));
    assert_null(fac_optimizer_state_dict(NULL));
    assert_error(FAC_ERR_ARGUMENT, "the optimiser is NULL");
    fac_state_free(of_sgd);
    fac_state_free(of_adam);
    fac_optimizer_release(sgd);
    fac_optimizer_release(adam);
    fac_module_release(m);
}

FAC_TEST_MAIN(FAC_TEST(optim_groups_made_at_rate_0_keep_their_ratio), FAC_TEST(optim_state_dict_holds_every_option),
              FAC_TEST(optim_state_without_options_leaves_them), FAC_TEST(optim_refuses_the_state_of_another_kind),
              FAC_TEST(optim_null_is_an_error), FAC_TEST(S166_optimisers_step_as_pytorch_does),
              FAC_TEST(S129_zero_grad_drops_gradients_and_a_parameter_without_one_stays),
              FAC_TEST(optim_a_pending_error_stops_the_step_and_changes_nothing),
              FAC_TEST(optim_bad_settings_are_errors), FAC_TEST(optim_state_dict_goes_on_where_it_stopped),
              FAC_TEST(optim_cosine_schedule_warms_up_and_comes_down),
              FAC_TEST(optim_clip_grad_norm_scales_all_gradients_together),
              FAC_TEST(optim_every_allocation_of_a_training_step_may_fail))
