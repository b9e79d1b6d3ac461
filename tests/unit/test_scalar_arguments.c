/* Every number among the operators' arguments, as NaN, infinite, negative, zero, fractional, complex, or beyond the dtype: whether the
   call is refused, and its results, are PyTorch's. The cases are data/scalar_arguments.json, which data/gen_scalar_arguments.py makes;
   the operators are those that are registered, so that a new one has to have cases too. With --names the program prints the
   operators that the script is to be given. */
#include "dispatch/schema.h"
#include "support/replay.h"
#include <facula/facula.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Operators that PyTorch does not have, or not as they are here, and why nothing is compared. A * stands for the rest of the name. */
static const struct {
    const char *op, *why;
} alone[] = {
    {"aten::_arange_", "the part of arange below the dispatcher"},
    {"aten::_linspace_", "the part of linspace below the dispatcher"},
    {"aten::_sgd_step_", "PyTorch has none for one parameter; tests of the optimisers"},
    {"aten::_adam_step_", "PyTorch has none for one parameter; tests of the optimisers"},
    {"aten::_foreach_*", "the operators that are called for every entry have cases"},
    {"aten::_fused_sgd*", "steps over lists have tests of their own"},
    {"aten::_fused_ada*", "steps over lists have tests of their own"},
    {"aten::_philox_*", "Facula's own numbers; test_dense_forms"},
    {"aten::rrelu_with_noise", "random slopes; rrelu has cases"},
    {"aten::rrelu_with_noise_", "random slopes; rrelu has cases"},
    {"aten::rrelu_with_noise_functional", "random slopes; rrelu has cases"},
    {"aten::_amp_update_scale_", "gradient scaling has tests of its own"},
    {"aten::_fused_rms_norm", "rms_norm has cases"},
    {"aten::at_put_.Scalar", "Python's assignment; fill_ and scalar_tensor, of which it is made, have cases"},
    {"aten::_add_relu*",
     "PyTorch clamps to the finite numbers and has no kernels for some dtypes; relu of add is what it is"},
    {"aten::pow_.Scalar", "the functional form has cases"},
    {"aten::float_power_.Scalar", "the functional form has cases"},
    {"aten::_maximum*", "_foreach_maximum's part; clamp_min, whose numbers it takes, has cases"},
    {"aten::_minimum*", "_foreach_minimum's part; clamp_max, whose numbers it takes, has cases"},
    {"aten::_logaddexp_backward", "the gradient of logaddexp, which gives the number itself"},
    {"aten::_nan_to_num", "nan_to_num, which calls it, has cases"},
    {"aten::_sparse_addmm", "addmm, which it calls, has cases"},
    {"aten::sparse_sampled_addmm", "a case has no sparse matrices; test_sparse calls it"},
    {"aten::to_padded_tensor", "a case has no nested tensors; test_nested calls it"},
    {"aten::sspaddmm", "a case has no sparse matrices; test_sparse calls it"},
    {"aten::quantize*", "scales and zero points of quantized tensors have tests of their own"},
    {"aten::_empty_affine_quantized", "scales and zero points of quantized tensors have tests of their own"},
    {"aten::_make_per_tensor_quantized_tensor", "scales and zero points of quantized tensors have tests of their own"},
    {"aten::_scaled_dot_product_attention", "scaled_dot_product_attention, which calls it, has cases"},
};

static json_t *groups;

static bool stands_alone(const char *op) {
    for (size_t i = 0; i < FAC_COUNT(alone); i++) {
        const size_t n = strcspn(alone[i].op, "*");
        if (strncmp(alone[i].op, op, n + !alone[i].op[n]) == 0) return true;
    }
    return false;
}

static bool is_number(const fac_schema_arg *a) {
    return !a->type.list && (a->type.kind == FAC_TYPE_SCALAR || a->type.kind == FAC_TYPE_FLOAT);
}

/* Whether results go into arguments made for them: such a form takes its numbers as the plain one does. */
static bool is_out_form(const fac_schema *s) {
    for (size_t i = 0; i < s->n_args; i++)
        if (s->args[i].type.write && s->args[i].kwarg_only) return true;
    return false;
}

/* The schemas to be covered, parsed, one after another; *at starts at 0. NULL after the last. */
static fac_schema *next_schema(size_t *at) {
    while (*at < fac_operator_count()) {
        const fac_operator *op = fac_operator_at((*at)++);
        fac_schema *s;
        assert_ok(fac__schema_parse(fac_operator_schema(op), &s));
        bool wanted = strncmp(fac_operator_name(op), "aten::", 6) == 0 && !is_out_form(s) && !stands_alone(s->full),
             number = false;
        for (size_t i = 0; i < s->n_args; i++) number = number || is_number(&s->args[i]);
        if (wanted && number) return s;
        fac__schema_free(s);
    }
    return NULL;
}

static void numbers_every_argument_has_cases(void **state) {
    (void)state;
    size_t at = 0, missing = 0, found = 0;
    for (fac_schema *s; (s = next_schema(&at)); fac__schema_free(s))
        for (size_t i = 0; i < s->n_args; i++) {
            char title[256];
            if (!is_number(&s->args[i])) continue;
            snprintf(title, sizeof title, "%s %s", s->full + strlen("aten::"), s->args[i].name);
            found++;
            if (json_object_get(groups, title)) continue;
            print_error("no cases: %s\n", title);
            missing++;
        }
    assert_int_equal(missing, 0);
    assert_int_equal(found, json_object_size(groups)); /* and none of what is gone */
}

static int print_names(void) {
    size_t at = 0;
    if (fac_init()) return 1;
    for (fac_schema *s; (s = next_schema(&at)); fac__schema_free(s)) puts(s->full + strlen("aten::"));
    return 0;
}

int main(int argc, char **argv) {
    enum { MAX_GROUPS = 1000 };
    struct CMUnitTest tests[MAX_GROUPS] = {FAC_TEST(numbers_every_argument_has_cases)};
    size_t n = 1;
    if (argc == 2 && strcmp(argv[1], "--names") == 0) return print_names();
    json_t *all = replay_load("scalar_arguments.json"), *group;
    const char *name;
    groups = json_object_get(all, "groups");
    json_object_foreach(groups, name, group) if (n < MAX_GROUPS && json_array_size(group)) tests[n++] =
        (struct CMUnitTest){name, replay_group, support_setup, support_teardown, group};
    int failed = support_run(tests, n, NULL);
    json_decref(all);
    return failed;
}
