/* Classes of modules whose `init` adds the parts that all modules of the class have: copies, and failures in the middle. */
#include "support/support.h"
#include <facula/facula.h>

static fac_tensor *forward(fac_module *self, fac_tensor *x) {
    return fac_mul(fac_forward(fac_module_child(self, "layer"), x), fac_module_parameter(self, "weight"));
}

static fac_tensor *keep_output(void *context, fac_module *m, fac_tensor *x, fac_tensor *y) {
    (void)context, (void)m, (void)x;
    return y;
}

/* One of everything that a module may hold. */
static fac_status add_parts(fac_module *self) {
    FAC_SCOPE(s);
    fac_module_add_parameter(self, "weight", fac_ones(FAC_SHAPE(3)));
    (void)fac_module_add_buffer(self, "calls", fac_zeros(FAC_SHAPE(1)));
    fac_module_add(self, "layer", fac_linear_new(2, 3));
    fac_module_register_forward_hook(self, keep_output, NULL);
    return fac_error();
}

static fac_status add_parts_and_fail(fac_module *self) {
    const fac_status st = add_parts(self);
    return st ? st : fac_error_set(FAC_ERR_ARGUMENT, "the parts do not fit");
}

static const fac_module_class built_class = {.name = "Built", .version = 1, .init = add_parts, .forward = forward};
static const fac_module_class failing_class = {.name = "Failing", .version = 1, .init = add_parts_and_fail};

static void module_whose_init_fails_leaves_none_of_its_parts(void **state) {
    (void)state;
    const int64_t before = fac_live();
    assert_null(fac_module_new(&failing_class));
    assert_error(FAC_ERR_ARGUMENT, "the parts do not fit");
    assert_int_equal(fac_live(), before);
}

static void module_whose_init_adds_parts_is_copied(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_module *m = fac_module_new(&built_class);
    assert_non_null(m);
    fac_module_add_parameter(m, "later", fac_full(FAC_SHAPE(1), 5.0));
    assert_ok(fac_module_set_tensor(m, "weight", fac_full(FAC_SHAPE(3), 2.0)));
    fac_module *copy = fac_module_copy(m);
    assert_no_error();
    fac_tensor *x = fac_ones(FAC_SHAPE(1, 2));
    assert_true(fac_equal(fac_forward(copy, x), fac_forward(m, x)));
    assert_true(fac_item(fac_module_parameter(copy, "later")) == 5);
    assert_ptr_not_equal(fac_module_parameter(copy, "weight"), fac_module_parameter(m, "weight"));
    assert_ptr_not_equal(fac_module_child(copy, "layer"), fac_module_child(m, "layer"));
    fac_state *all = fac_module_parameters(copy);
    assert_int_equal(all->n, 4);
    fac_state_free(all);
    fac_module_release(m);
    fac_module_release(copy);
    assert_no_error();
}

static fac_status make_and_copy(void *context) {
    (void)context;
    fac_module *m = fac_module_new(&built_class);
    if (m && !fac_error()) fac_module_release(fac_module_copy(m));
    fac_module_release(m);
    return fac_error();
}

static void module_whose_init_adds_parts_survives_failing_allocations(void **state) {
    (void)state;
    support_fail_each_allocation(make_and_copy, NULL);
}

FAC_TEST_MAIN(FAC_TEST(module_whose_init_fails_leaves_none_of_its_parts),
              FAC_TEST(module_whose_init_adds_parts_is_copied),
              FAC_TEST(module_whose_init_adds_parts_survives_failing_allocations))
