/* Loading that need not be strict: the names that differ are handed to the caller. */
#include "support/files.h"
#include "support/support.h"
#include <facula/facula.h>

/* The state of a linear layer without its bias, and with the weights of a head that it does not have. */
static fac_state *other_names(fac_module *m) {
    fac_state *s = fac_module_state_dict(m);
    fac_state_remove(s, "bias");
    assert_ok(fac_state_set(s, "head.weight", fac_ones(FAC_SHAPE(2))));
    assert_ok(fac_state_set(s, "head.bias", fac_ones(FAC_SHAPE(1))));
    return s;
}

static void assert_names(fac_state *missing, fac_state *unexpected) {
    assert_int_equal(missing->n, 1);
    assert_string_equal(missing->v[0].name, "bias");
    assert_int_equal(unexpected->n, 2);
    assert_string_equal(unexpected->v[0].name, "head.weight");
    assert_string_equal(unexpected->v[1].name, "head.bias");
    fac_state_free(missing);
    fac_state_free(unexpected);
}

static void module_loading_reports_missing_and_unexpected_names(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_module *from = fac_linear_new(3, 2), *to = fac_linear_new(3, 2);
    fac_state *names = other_names(from), *missing = fac_state_new(), *unexpected = fac_state_new();
    assert_ok(fac_module_load_state_dict(to, names, .strict = false, .missing = missing, .unexpected = unexpected));
    assert_true(fac_equal(fac_module_parameter(from, "weight"), fac_module_parameter(to, "weight")));
    assert_false(fac_equal(fac_module_parameter(from, "bias"), fac_module_parameter(to, "bias")));
    assert_ptr_equal(missing->v[0].tensor, fac_module_parameter(to, "bias"));
    assert_true(fac_item(fac_sum(unexpected->v[0].tensor)) == 2);
    assert_names(missing, unexpected);
    fac_state_free(names);
    fac_module_release(from);
    fac_module_release(to);
}

static void module_loading_reports_names_where_they_are_an_error(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_module *from = fac_linear_new(3, 2), *to = fac_linear_new(3, 2);
    fac_tensor *before = fac_clone(fac_detach(fac_module_parameter(to, "weight")));
    fac_state *names = other_names(from), *missing = fac_state_new(), *unexpected = fac_state_new();
    assert_int_equal(fac_module_load_state_dict(to, names, .missing = missing, .unexpected = unexpected),
                     FAC_ERR_NOT_FOUND);
    assert_error(FAC_ERR_NOT_FOUND, "missing 'bias'; unexpected 'head.weight', 'head.bias'");
    assert_true(fac_equal(fac_module_parameter(to, "weight"), before));
    assert_names(missing, unexpected);
    fac_state_free(names);
    fac_module_release(from);
    fac_module_release(to);
}

static void module_loading_of_a_file_reports_names(void **state) {
    (void)state;
    FAC_SCOPE(s);
    const char *path = files_path("linear.safetensors");
    fac_module *with = fac_linear_new(3, 2), *without = fac_linear_new(3, 2, .bias = false);
    fac_state *missing = fac_state_new(), *unexpected = fac_state_new();
    assert_ok(fac_module_save(with, path));
    assert_ok(fac_module_load(without, path, false, .missing = missing, .unexpected = unexpected));
    assert_int_equal(missing->n, 0);
    assert_int_equal(unexpected->n, 1);
    assert_string_equal(unexpected->v[0].name, "bias");
    assert_true(fac_equal(unexpected->v[0].tensor, fac_module_parameter(with, "bias")));
    assert_ok(fac_module_save(without, path));
    assert_ok(fac_module_load(with, path, .strict = false, .missing = missing));
    assert_int_equal(missing->n, 1);
    assert_int_equal(fac_module_load(with, path), FAC_ERR_NOT_FOUND);
    assert_error(FAC_ERR_NOT_FOUND, "missing 'bias'");
    fac_state_free(missing);
    fac_state_free(unexpected);
    fac_module_release(with);
    fac_module_release(without);
}

static void module_loading_refuses_to_report_into_what_it_reads(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_module *m = fac_linear_new(3, 2);
    fac_state *names = fac_module_state_dict(m);
    assert_int_equal(fac_module_load_state_dict(m, names, .missing = names), FAC_ERR_ARGUMENT);
    assert_error(FAC_ERR_ARGUMENT, "is the state itself");
    fac_state_free(names);
    fac_module_release(m);
}

static fac_status load_once(void *context) {
    (void)context;
    FAC_SCOPE(s);
    fac_module *m = fac_linear_new(3, 2);
    fac_state *names = m ? fac_module_state_dict(m) : NULL, *missing = names ? fac_state_new() : NULL;
    fac_state *unexpected = missing ? fac_state_new() : NULL;
    if (unexpected && !fac_state_set(names, "more", fac_ones(FAC_SHAPE(1)))) {
        fac_state_remove(names, "bias");
        (void)!fac_module_load_state_dict(m, names, .strict = false, .missing = missing, .unexpected = unexpected);
    }
    fac_state_free(names);
    fac_state_free(missing);
    fac_state_free(unexpected);
    fac_module_release(m);
    return fac_error();
}

static void module_loading_survives_failing_allocations(void **state) {
    (void)state;
    support_fail_each_allocation(load_once, NULL);
}

FAC_TEST_MAIN(FAC_TEST(module_loading_reports_missing_and_unexpected_names),
              FAC_TEST(module_loading_reports_names_where_they_are_an_error),
              FAC_TEST(module_loading_of_a_file_reports_names),
              FAC_TEST(module_loading_refuses_to_report_into_what_it_reads),
              FAC_TEST(module_loading_survives_failing_allocations))
