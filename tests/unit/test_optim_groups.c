/* Optimisers over lists of tensors and groups with settings of their own: as PyTorch steps, what is refused, and rates. */
#include "data/optim_group_cases.h"
#include "support/support.h"
#include <facula/facula.h>
#include <math.h>
#include <string.h>

enum { STEPS = 5, PARAMETERS = 3 };

static fac_tensor *parameter(void) {
    return fac_set_requires_grad(fac_tensor_from((const double[]){1, -2, 3, -4}, FAC_F64, FAC_INTS(4)), true);
}

/* ---- as PyTorch does ----------------------------------------------------------------------------------------------------- */

/* The cases of data/gen_optim_group_cases.py. */
static fac_optimizer *make(const char *name, fac_tensor *a, fac_tensor *b) {
    fac_optimizer *o = NULL;
    fac_status st = FAC_OK;
    if (!strcmp(name, "sgd")) {
        o = fac_sgd_of(FAC_TENSORS(a), 0.1, .momentum = 0.9);
        st = fac_optimizer_add_group(o, FAC_TENSORS(b),
                                     FAC_OPTIONS({"lr", 0.01}, {"momentum", 0.5}, {"weight_decay", 0.1}));
    } else if (!strcmp(name, "adam")) {
        o = fac_adam_of(FAC_TENSORS(a), 0.01);
        assert_ok(fac_optimizer_set_option(o, 0, "beta1", 0.8));
        assert_ok(fac_optimizer_set_option(o, 0, "beta2", 0.99));
        st = fac_optimizer_add_group(o, FAC_TENSORS(b), FAC_OPTIONS({"lr", 0.1}, {"eps", 1e-3}, {"amsgrad", true}));
    } else {
        o = fac_adamw_of(FAC_TENSORS(a), 0.01, .weight_decay = 0.3);
        assert_ok(fac_optimizer_set_option(o, 0, "weight_decay", 0));
        st = fac_optimizer_add_group(o, FAC_TENSORS(b), FAC_OPTIONS({"lr", 0.02}, {"maximize", true}));
    }
    assert_ok(st);
    return o;
}

static void add_third(fac_optimizer *o, const char *name, fac_tensor *c) {
    const fac_options options = !strcmp(name, "sgd")    ? FAC_OPTIONS({"lr", 0.05}, {"nesterov", true})
                                : !strcmp(name, "adam") ? FAC_OPTIONS({"weight_decay", 0.2})
                                                        : FAC_OPTIONS({"beta1", 0.5}, {"beta2", 0.9});
    assert_ok(fac_optimizer_add_group(o, FAC_TENSORS(c), options));
}

static double factor(void *context, size_t group, int64_t step) {
    (void)context;
    return group == 0 ? pow(0.5, (double)step) : group == 1 ? 1 / (1 + (double)step) : step < 4 ? 1 : 0.25;
}

static void assert_near(const char *what, double got, double wanted) {
    if (!(fabs(got - wanted) <= 1e-12 * (1 + fabs(wanted))))
        fail_msg("%s: %.17g, PyTorch has %.17g", what, got, wanted);
}

static void step_like(fac_optimizer *o, fac_tensor *const *p, int k, const optim_group_case *c) {
    FAC_SCOPE(s);
    for (int i = 0; i < PARAMETERS; i++)
        assert_ok(fac_set_grad(p[i], fac_sub(fac_div(fac_mul(fac_detach(p[i]), k + 1), 2), k)));
    assert_ok(fac_optimizer_lambda_lr(o, factor, NULL, k));
    assert_ok(fac_optimizer_step(o));
    for (int i = 0; i < PARAMETERS; i++) {
        double got[4];
        assert_ok(fac_tensor_read(p[i], FAC_F64, got, 4));
        for (int j = 0; j < 4; j++) assert_near(c->name, got[j], c->after[k][i][j]);
    }
    for (size_t g = 0; g < fac_optimizer_group_count(o); g++)
        assert_near("rate", fac_optimizer_option(o, g, "lr"), c->rates[k][g]);
}

static void optim_groups_step_as_pytorch_does(void **state) {
    (void)state;
    for (size_t i = 0; i < FAC_COUNT(OPTIM_GROUP_CASES); i++) {
        const optim_group_case *c = &OPTIM_GROUP_CASES[i];
        FAC_SCOPE(s);
        fac_tensor *p[] = {parameter(), parameter(), parameter()};
        fac_optimizer *o = make(c->name, p[0], p[1]);
        for (int k = 0; k < STEPS; k++) {
            if (k == 2) add_third(o, c->name, p[2]);
            step_like(o, p, k, c);
        }
        fac_optimizer_release(o);
    }
}

/* Saved in the middle and loaded into an optimiser with other settings, a training goes on as it would have. */
static void optim_groups_go_on_from_a_state_dict(void **state) {
    (void)state;
    for (size_t i = 0; i < FAC_COUNT(OPTIM_GROUP_CASES); i++) {
        const optim_group_case *c = &OPTIM_GROUP_CASES[i];
        FAC_SCOPE(s);
        fac_tensor *p[] = {parameter(), parameter(), parameter()};
        fac_optimizer *o = make(c->name, p[0], p[1]);
        for (int k = 0; k < 3; k++) {
            if (k == 2) add_third(o, c->name, p[2]);
            step_like(o, p, k, c);
        }
        fac_state *saved = fac_optimizer_state_dict(o);
        fac_optimizer_release(o);
        o = strcmp(c->name, "sgd") == 0    ? fac_sgd_of(FAC_TENSORS(p[0]), 9)
            : strcmp(c->name, "adam") == 0 ? fac_adam_of(FAC_TENSORS(p[0]), 9)
                                           : fac_adamw_of(FAC_TENSORS(p[0]), 9);
        for (int j = 1; j < PARAMETERS; j++) assert_ok(fac_optimizer_add_group(o, FAC_TENSORS(p[j]), FAC_OPTIONS()));
        assert_ok(fac_optimizer_load_state_dict(o, saved));
        for (int k = 3; k < STEPS; k++) step_like(o, p, k, c);
        fac_state_free(saved);
        fac_optimizer_release(o);
    }
}

/* ---- settings ------------------------------------------------------------------------------------------------------------- */

static void optim_list_holds_its_tensors(void **state) {
    (void)state;
    fac_scope s = fac_scope_begin();
    fac_tensor *a = parameter(), *b = parameter();
    fac_optimizer *o = fac_sgd_of(FAC_TENSORS(a, b), 0.5);
    fac_scope_end(&s);
    const fac_tensors all = fac_optimizer_parameters(o);
    assert_int_equal(all.n, 2);
    assert_ptr_equal(all.v[0], a);
    assert_int_equal(fac_tensor_numel(all.v[1]), 4);
    assert_no_error();
    fac_optimizer_release(o);
}

static void optim_groups_lend_their_parameters(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *a = parameter(), *b = parameter(), *c = parameter();
    fac_optimizer *o = fac_adam_of(FAC_TENSORS(a, b), 0.5);
    assert_ok(fac_optimizer_add_group(o, FAC_TENSORS(c), FAC_OPTIONS({"lr", 0.25})));
    assert_int_equal(fac_optimizer_group_count(o), 2);
    assert_int_equal(fac_optimizer_group(o, 0).n, 2);
    assert_ptr_equal(fac_optimizer_group(o, 0).v[1], b);
    assert_int_equal(fac_optimizer_group(o, 1).n, 1);
    assert_ptr_equal(fac_optimizer_group(o, 1).v[0], c);
    assert_null(fac_optimizer_group(o, 2).v);
    assert_error(FAC_ERR_INDEX, "group 2 is out of range: the optimiser has 2");
    assert_string_equal(fac_optimizer_class_of(o)->name, "Adam");
    fac_optimizer_release(o);
}

static void optim_new_groups_have_the_settings_that_it_was_made_with(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_optimizer *o = fac_sgd_of(FAC_TENSORS(parameter()), 0.5, .momentum = 0.75, .weight_decay = 0.125);
    assert_ok(fac_optimizer_set_option(o, 0, "momentum", 0));
    assert_ok(fac_optimizer_scale_lr(o, 0.5));
    assert_ok(fac_optimizer_add_group(o, FAC_TENSORS(parameter()), FAC_OPTIONS({"weight_decay", 0})));
    const char *const names[] = {"lr", "initial_lr", "momentum", "weight_decay", "nesterov"};
    const double wanted[2][5] = {{0.25, 0.5, 0, 0.125, 0}, {0.5, 0.5, 0.75, 0, 0}};
    for (size_t g = 0; g < 2; g++)
        for (size_t i = 0; i < FAC_COUNT(names); i++) assert_true(fac_optimizer_option(o, g, names[i]) == wanted[g][i]);
    assert_no_error();
    fac_optimizer_release(o);
}

static void optim_bad_options_change_nothing(void **state) {
    (void)state;
    static const struct {
        const char *name;
        double value;
        fac_status code;
        const char *message;
    } bad[] = {
        {"lr", -1, FAC_ERR_ARGUMENT, "invalid learning rate: -1"},
        {"lr", NAN, FAC_ERR_ARGUMENT, "invalid learning rate: "},
        {"initial_lr", -1, FAC_ERR_ARGUMENT, "invalid initial_lr: -1"},
        {"beta1", 1, FAC_ERR_ARGUMENT, "invalid beta1: 1 should be in [0, 1)"},
        {"eps", NAN, FAC_ERR_ARGUMENT, "eps of AdamW is not a number"},
        {"weight_decay", -0.5, FAC_ERR_ARGUMENT, "invalid weight_decay value: -0.5"},
        {"momentum", 0.9, FAC_ERR_NOT_FOUND,
         "AdamW has no setting 'momentum'; it has lr, beta1, beta2, eps, weight_decay, amsgrad, maximize"},
    };
    FAC_SCOPE(s);
    fac_optimizer *o = fac_adamw_of(FAC_TENSORS(parameter()), 0.5);
    for (size_t i = 0; i < FAC_COUNT(bad); i++) {
        fac_tensor *other = parameter();
        assert_int_equal(fac_optimizer_set_option(o, 0, bad[i].name, bad[i].value), bad[i].code);
        assert_error(bad[i].code, bad[i].message);
        assert_int_equal(fac_optimizer_add_group(o, FAC_TENSORS(other), FAC_OPTIONS({bad[i].name, bad[i].value})),
                         FAC_ERR_ARGUMENT);
        assert_error(FAC_ERR_ARGUMENT, bad[i].message);
    }
    assert_true(fac_optimizer_option(o, 0, "lr") == 0.5 && fac_optimizer_option(o, 0, "beta1") == 0.9);
    assert_int_equal(fac_optimizer_group_count(o), 1);
    assert_int_equal(fac_optimizer_parameters(o).n, 1);
    assert_true(fac_optimizer_option(o, 0, "momentum") == 0);
    assert_error(FAC_ERR_NOT_FOUND, "AdamW has no setting 'momentum'");
    assert_true(fac_optimizer_option(o, 3, "lr") == 0);
    assert_error(FAC_ERR_INDEX, "group 3 is out of range: the optimiser has 1");
    fac_optimizer_release(o);
}

static void optim_lists_that_make_no_sense_are_refused(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *a = parameter();
    assert_null(fac_sgd_of(FAC_TENSORS(a, a), 0.1));
    assert_error(FAC_ERR_ARGUMENT, "a parameter appears in more than one group");
    assert_null(fac_sgd_of(FAC_TENSORS(), 0.1));
    assert_error(FAC_ERR_ARGUMENT, "the optimiser got no parameters");
    assert_null(fac_sgd_of(FAC_TENSORS(a, NULL), 0.1));
    assert_error(FAC_ERR_ARGUMENT, "parameter");
    assert_null(fac_sgd_of(fac_tensors_of(NULL, 3), 0.1));
    assert_error(FAC_ERR_ARGUMENT, "without an array");
    assert_null(fac_sgd_of(FAC_TENSORS(fac_mul(a, 2)), 0.1));
    assert_error(FAC_ERR_AUTOGRAD, "non-leaf");
    assert_null(fac_sgd_of(FAC_TENSORS(a), 0.1, .nesterov = true));
    assert_error(FAC_ERR_ARGUMENT, "Nesterov");
}

/* ---- schedules ---------------------------------------------------------------------------------------------------------------- */

static void assert_rates(const fac_optimizer *o, double first, double second) {
    assert_true(fac_optimizer_option(o, 0, "lr") == first && fac_optimizer_option(o, 1, "lr") == second);
}

static double negative_for_the_second(void *context, size_t group, int64_t step) {
    (void)step;
    return group == *(size_t *)context ? -1 : 0.5;
}

static void optim_schedules_scale_what_each_group_began_with(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_optimizer *o = fac_sgd_of(FAC_TENSORS(parameter()), 0.5);
    assert_ok(fac_optimizer_add_group(o, FAC_TENSORS(parameter()), FAC_OPTIONS({"lr", 2}, {"initial_lr", 8})));
    assert_rates(o, 0.5, 2);
    assert_ok(fac_optimizer_scale_lr(o, 0.25));
    assert_rates(o, 0.125, 2);
    assert_ok(fac_optimizer_scale_lr(o, 1));
    assert_rates(o, 0.5, 8);
    assert_ok(fac_optimizer_set_option(o, 0, "lr", 3)); /* until the schedule speaks again */
    assert_rates(o, 3, 8);
    const fac_cosine_schedule cosine = {.peak = 1, .total = 10};
    assert_ok(fac_optimizer_scale_lr(o, fac_cosine_lr(&cosine, 5)));
    assert_true(fabs(fac_optimizer_option(o, 0, "lr") - 0.25) < 1e-15);
    size_t second = 1;
    assert_ok(fac_optimizer_scale_lr(o, 1));
    assert_int_equal(fac_optimizer_lambda_lr(o, negative_for_the_second, &second, 0), FAC_ERR_ARGUMENT);
    assert_error(FAC_ERR_ARGUMENT, "invalid learning rate of group 1: -8");
    assert_int_equal(fac_optimizer_scale_lr(o, NAN), FAC_ERR_ARGUMENT);
    assert_error(FAC_ERR_ARGUMENT, "invalid learning rate of group 0");
    assert_int_equal(fac_optimizer_lambda_lr(o, NULL, NULL, 0), FAC_ERR_ARGUMENT);
    assert_error(FAC_ERR_ARGUMENT, "the function of a schedule is NULL");
    assert_rates(o, 0.5, 8);
    fac_optimizer_release(o);
}

static fac_status make_groups(void *context) {
    (void)context;
    FAC_SCOPE(s);
    fac_tensor *a = parameter(), *b = parameter(), *c = parameter();
    fac_optimizer *o = fac_error() ? NULL : fac_adam_of(FAC_TENSORS(a, b), 0.1);
    if (o && !fac_optimizer_add_group(o, FAC_TENSORS(c), FAC_OPTIONS({"beta1", 0.5})) && !fac_optimizer_scale_lr(o, 2))
        (void)fac_optimizer_option(o, 0, "momentum");
    if (fac_error() == FAC_ERR_NOT_FOUND) fac_error_clear();
    fac_optimizer_release(o);
    return fac_error();
}

static void optim_groups_survive_failing_allocations(void **state) {
    (void)state;
    support_fail_each_allocation(make_groups, NULL);
}

FAC_TEST_MAIN(FAC_TEST(optim_groups_step_as_pytorch_does), FAC_TEST(optim_groups_go_on_from_a_state_dict),
              FAC_TEST(optim_list_holds_its_tensors), FAC_TEST(optim_groups_lend_their_parameters),
              FAC_TEST(optim_new_groups_have_the_settings_that_it_was_made_with),
              FAC_TEST(optim_bad_options_change_nothing), FAC_TEST(optim_lists_that_make_no_sense_are_refused),
              FAC_TEST(optim_schedules_scale_what_each_group_began_with),
              FAC_TEST(optim_groups_survive_failing_allocations))
