/* What users' kernels may do wrong: give a tensor that is not theirs, give a dead one, fail after they drew random numbers. */
#include "support/dispatch.h"
#include <facula/facula.h>

/* ---- results that are not the kernel's to give ---------------------------------------------------------------------------- */

static fac_status give_a_temporary(const fac_call_info *c, fac_tensor *x, fac_tensor **out) {
    (void)c;
    *out = fac_relu(x);
    return fac_error();
}

static void kernel_that_gives_a_temporary_is_told(void **state) {
    (void)state;
    declare("my::half_given(Tensor x) -> Tensor");
    assert_non_null(
        fac_register_typed("my::half_given", "CPU", "Tensor -> Tensor", (fac_fn)give_a_temporary, NULL, FAC_HERE));
    FAC_SCOPE(s);
    fac_value x = fac_value_tensor(fac_ones(FAC_INTS(3))), y = fac_value_none();
    assert_int_equal(fac_call("my::half_given", &x, 1, &y), FAC_ERR_STATE);
    assert_error(FAC_ERR_STATE, "a tensor without a reference of its own");
    fac_value_release(&x);
}

static fac_status give_a_shallow_copy(const fac_call_info *c, fac_value *stack) {
    (void)c;
    fac_value y = fac_value_tensor(fac_relu(fac_value_as_tensor(stack[0]))), copy = y;
    fac_value_release(&copy);
    stack[0] = y;
    return fac_error();
}

/* Called by its C name, a built-in operator takes what the boxed kernel gave as its own. */
static void kernel_that_gives_a_released_value_is_told(void **state) {
    (void)state;
    assert_non_null(fac_register_boxed("aten::tanh", "CPU", give_a_shallow_copy, NULL, FAC_HERE));
    FAC_SCOPE(s);
    assert_null(fac_tanh(fac_ones(FAC_INTS(3))));
    assert_error(FAC_ERR_STATE, "a tensor without a reference of its own");
}

static fac_status give_dead_and_live(const fac_call_info *c, fac_tensor *x, int64_t dim, bool keepdim,
                                     fac_tensor **out) {
    (void)c, (void)dim, (void)keepdim;
    fac_scope s = fac_scope_begin();
    out[0] = fac_relu(x);
    out[1] = fac_keep(fac_relu(x));
    fac_scope_end(&s);
    return fac_error();
}

/* The other result is released: the test's frame would find it alive. */
static void kernel_that_gives_a_dead_tensor_leaks_no_other(void **state) {
    (void)state;
    declare("my::two(Tensor x, int dim, bool keepdim) -> (Tensor, Tensor)");
    assert_non_null(fac_register_typed("my::two", "CPU", "Tensor, int, bool -> (Tensor, Tensor)",
                                       (fac_fn)give_dead_and_live, NULL, FAC_HERE));
    FAC_SCOPE(s);
    fac_value args[] = {fac_value_tensor(fac_ones(FAC_INTS(3))), fac_value_int(0), fac_value_bool(false)}, y[2];
    assert_int_equal(fac_call("my::two", args, 3, y), FAC_ERR_STATE);
    assert_error(FAC_ERR_STATE, "released already");
    fac_value_release(&args[0]);
}

/* ---- a generator that ends before its kernel fails ------------------------------------------------------------------------ */

enum { SEED = 3, OFFSET = 1000 };
static fac_generator *second;
static uint64_t drawn;

static fac_status draw(fac_generator *g) {
    FAC_SCOPE(s);
    fac_value args[] = {fac_value_tensor(fac_empty(FAC_INTS(8))), fac_value_float(0), fac_value_float(1),
                        fac_value_generator(g)},
              result = fac_value_none();
    fac_status st = fac_call("aten::uniform_", args, FAC_COUNT(args), &result);
    fac_value_release(&result);
    for (size_t i = 0; i < FAC_COUNT(args); i++) fac_value_release(&args[i]);
    return st;
}

/* The second generator is likely to lie where the first did, and stands where that one stood. */
static fac_status fail_after_drawing(const fac_call_info *c, fac_value *stack) {
    (void)c, (void)stack;
    fac_generator *first = fac_generator_new(SEED);
    if (!first) return fac_error();
    fac_generator_set_state(first, SEED, OFFSET);
    fac_status st = draw(first);
    fac_generator_get_state(first, NULL, &drawn);
    fac_generator_release(first);
    if (st != FAC_OK) return st;
    second = fac_generator_new(SEED);
    if (second) fac_generator_set_state(second, SEED, drawn);
    return fac_error_set(FAC_ERR_UNSUPPORTED, "after all");
}

static void kernel_that_fails_gives_nothing_back_to_a_generator_that_is_gone(void **state) {
    (void)state;
    declare("my::draw(Tensor x) -> Tensor");
    assert_non_null(fac_register_boxed("my::draw", "CPU", fail_after_drawing, NULL, FAC_HERE));
    FAC_SCOPE(s);
    second = NULL;
    fac_value x = fac_value_tensor(fac_ones(FAC_INTS(3))), y = fac_value_none();
    uint64_t offset = 0;
    assert_int_equal(fac_call("my::draw", &x, 1, &y), FAC_ERR_UNSUPPORTED);
    assert_error(FAC_ERR_UNSUPPORTED, "after all");
    fac_value_release(&x);
    assert_true(drawn > OFFSET);
    fac_generator_get_state(second, NULL, &offset);
    fac_generator_release(second);
    assert_int_equal(offset, drawn);
}

FAC_TEST_MAIN(DISPATCH_TEST(kernel_that_gives_a_temporary_is_told),
              DISPATCH_TEST(kernel_that_gives_a_released_value_is_told),
              DISPATCH_TEST(kernel_that_gives_a_dead_tensor_leaks_no_other),
              DISPATCH_TEST(kernel_that_fails_gives_nothing_back_to_a_generator_that_is_gone))
