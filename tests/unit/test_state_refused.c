/* States that cannot be loaded, classes and schedules without sense: what they were given to
   has not changed. */
#include "support/support.h"
#include <facula/facula.h>
#include <math.h>

static const fac_module_class pair_class = {.name = "Pair", .version = 1};

/* A module of two parameters of three ones. */
static fac_module *pair(void) {
    FAC_SCOPE(s);
    fac_module *m = fac_module_new(&pair_class);
    assert_non_null(fac_module_add_parameter(m, "a", fac_ones(FAC_INTS(3))));
    assert_non_null(fac_module_add_parameter(m, "b", fac_ones(FAC_INTS(3))));
    return m;
}

static fac_tensor *on_meta(void) { return fac_ones(FAC_INTS(3), .device = fac_device_make(FAC_META, -1)); }

static double first_of(fac_tensor *t) { return fac_item(fac_select(fac_detach(t), 0, 0)); }

/* ---- modules -------------------------------------------------------------------------------------------------------------- */

static void module_of_a_class_without_a_name_is_refused(void **state) {
    (void)state;
    const fac_module_class nameless = {.version = 1};
    assert_null(fac_module_new(&nameless));
    assert_error(FAC_ERR_ARGUMENT, "has no name");
}

static void module_that_cannot_load_one_tensor_loads_none(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_module *m = pair();
    fac_state *st = fac_state_new();
    assert_ok(fac_state_set(st, "a", fac_full(FAC_INTS(3), 5.0)));
    assert_ok(fac_state_set(st, "b", on_meta()));
    assert_int_equal(fac_module_load_state_dict(m, st, true), FAC_ERR_DEVICE);
    assert_error(FAC_ERR_DEVICE, "b: a meta tensor");
    assert_true(first_of(fac_module_parameter(m, "a")) == 1);
    fac_state_free(st);
    fac_module_release(m);
}

/* ---- optimisers ----------------------------------------------------------------------------------------------------------- */

/* An optimiser that has made one step, and its state with the first parameter's step count changed to 7. */
static fac_optimizer *stepped(fac_module *m, fac_state **out) {
    FAC_SCOPE(s);
    fac_optimizer *o = fac_adamw_new(m, 0.1);
    fac_tensor *a = fac_module_parameter(m, "a"), *b = fac_module_parameter(m, "b");
    assert_ok(fac_backward(fac_sum(fac_mul(a, b))));
    assert_ok(fac_optimizer_step(o));
    *out = fac_optimizer_state_dict(o);
    assert_ok(fac_state_set(*out, "0.step", fac_full(FAC_INTS(), 7, .dtype = FAC_I64)));
    return o;
}

static int64_t steps_of_the_first(fac_optimizer *o) {
    fac_state *now = fac_optimizer_state_dict(o);
    const int64_t n = fac_item_int(fac_state_get(now, "0.step"));
    fac_state_free(now);
    return n;
}

static void assert_refused(const char *entry, fac_tensor *t, fac_status code, const char *text) {
    FAC_SCOPE(s);
    fac_state *st;
    fac_module *m = pair();
    fac_optimizer *o = stepped(m, &st);
    assert_ok(fac_state_set(st, entry, t));
    assert_int_equal(fac_optimizer_load_state_dict(o, st), code);
    assert_error(code, text);
    assert_int_equal(steps_of_the_first(o), 1);
    fac_state_free(st);
    fac_optimizer_release(o);
    fac_module_release(m);
}

static void optimizer_that_cannot_load_one_entry_loads_none(void **state) {
    (void)state;
    FAC_SCOPE(s);
    const fac_device meta = fac_device_make(FAC_META, -1);
    assert_refused("1.exp_avg", on_meta(), FAC_ERR_DEVICE, "exp_avg of parameter 1 is a meta tensor");
    assert_refused("1.exp_avg", fac_ones(FAC_INTS(3), .dtype = FAC_C64), FAC_ERR_DTYPE, "does not fit into float32");
    assert_refused("1.step", fac_ones(FAC_INTS(), .device = meta), FAC_ERR_DEVICE, "");
    assert_refused("1.step", fac_ones(FAC_INTS(), .dtype = FAC_C64), FAC_ERR_NOT_FOUND,
                   "no step count for parameter 1");
    assert_refused("1.step", fac_full(FAC_INTS(), -1, .dtype = FAC_I64), FAC_ERR_ARGUMENT, "parameter 1 is -1");
    assert_refused("1.step", fac_full(FAC_INTS(), NAN), FAC_ERR_ARGUMENT, "parameter 1 is nan");
    assert_refused("1.step", fac_full(FAC_INTS(), INFINITY), FAC_ERR_ARGUMENT, "parameter 1 is inf");
}

/* Of more dimensions than the gradient has strides. */
static void optimizer_that_meets_a_gradient_of_another_size_steps_no_parameter(void **state) {
    (void)state;
    FAC_SCOPE(s);
    int64_t sizes[16] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 3};
    fac_module *m = pair();
    fac_optimizer *o = fac_adamw_new(m, 0.1);
    fac_tensor *a = fac_module_parameter(m, "a"), *b = fac_module_parameter(m, "b");
    assert_ok(fac_backward(fac_sum(fac_mul(a, b))));
    assert_ok(fac_set_data(b, fac_ones(((fac_ints){sizes, FAC_COUNT(sizes)}))));
    assert_int_equal(fac_optimizer_step(o), FAC_ERR_SHAPE);
    assert_error(FAC_ERR_SHAPE, "a parameter of shape [1, 1, ");
    assert_true(first_of(a) == 1);
    fac_optimizer_release(o);
    fac_module_release(m);
}

static void schedule_counts_negative_steps_as_none(void **state) {
    (void)state;
    const fac_cosine_schedule plain = {.peak = 1, .floor = 0, .total = 10},
                              negative = {.peak = 1, .floor = 0, .warmup = INT64_MIN, .total = 10},
                              warm = {.peak = 1, .floor = 0, .warmup = 4, .total = 10};
    assert_true(fac_cosine_lr(&negative, 5) == fac_cosine_lr(&plain, 5));
    assert_true(fac_cosine_lr(&plain, INT64_MIN) == fac_cosine_lr(&plain, 0));
    assert_true(fac_cosine_lr(&warm, INT64_MIN) == fac_cosine_lr(&warm, 0));
}

FAC_TEST_MAIN(FAC_TEST(module_of_a_class_without_a_name_is_refused), FAC_TEST(schedule_counts_negative_steps_as_none),
              FAC_TEST(module_that_cannot_load_one_tensor_loads_none),
              FAC_TEST(optimizer_that_meets_a_gradient_of_another_size_steps_no_parameter),
              FAC_TEST(optimizer_that_cannot_load_one_entry_loads_none))
