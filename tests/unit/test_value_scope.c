/* Boxed values given to a scope. */
#include "support/support.h"
#include <facula/facula.h>

static void results_of_a_boxed_call_become_temporaries(void **state) {
    (void)state;
    FAC_SCOPE(outer);
    fac_tensor *kept;
    {
        FAC_SCOPE(s);
        fac_value out[2], args[] = {fac_value_tensor(fac_tensor_of(3, 1, 2)), fac_value_int(2)};
        assert_ok(fac_call("aten::topk", args, 2, out));
        assert_ok(fac_scope_take(out, 2));
        assert_ok(fac_scope_take(args, 2)); /* arguments may be given, too */
        assert_true(fac_item(fac_sum(fac_value_as_tensor(out[0]))) == 5);
        assert_true(fac_item(fac_sum(fac_value_as_tensor(out[1]))) == 2);
        fac_drop(fac_value_as_tensor(out[1]));
        kept = fac_yield(s, fac_value_as_tensor(out[0]));
    }
    assert_true(fac_item(fac_sum(kept)) == 5);
}

static int released;
static void count(void *object) { ++*(int *)object; }

static void values_of_every_kind_live_until_the_scope_ends(void **state) {
    (void)state;
    released = 0;
    fac_scope s = fac_scope_begin();
    fac_tensor *t = fac_tensor_of(1, 2), *list[] = {t, NULL, fac_neg(t)};
    const int64_t ints[] = {4, 5};
    fac_value v[] = {fac_value_none(),
                     fac_value_int(7),
                     fac_value_float(0.5),
                     fac_value_complex(1, -1),
                     fac_value_string("text"),
                     fac_value_ints(ints, 2),
                     fac_value_tensors(list, 3),
                     fac_value_generator(fac_default_generator()),
                     fac_value_object(&released, count)};
    assert_ok(fac_scope_take(v, FAC_COUNT(v)));
    assert_int_equal(fac_value_as_int(v[1]), 7);
    assert_int_equal(fac_value_as_scalar(v[3]).kind, FAC_KIND_COMPLEX);
    assert_string_equal(fac_value_as_string(v[4]), "text");
    assert_int_equal(fac_value_as_ints(v[5]).v[1], 5);
    assert_ptr_equal(fac_value_as_tensors(v[6]).v[0], t);
    assert_null(fac_value_as_tensors(v[6]).v[1]);
    assert_true(fac_item(fac_sum(fac_value_as_tensors(v[6]).v[2])) == -3);
    assert_int_equal(released, 0);
    fac_scope_end(&s);
    assert_int_equal(released, 1);
    assert_no_error();
}

static void values_without_a_scope_are_released(void **state) {
    (void)state;
    released = 0;
    fac_value v[] = {fac_value_object(&released, count), fac_value_ints(&(int64_t){1}, 1),
                     fac_value_object(&released, count)};
    assert_int_equal(fac_scope_take(v, FAC_COUNT(v)), FAC_ERR_STATE);
    assert_error(FAC_ERR_STATE, "no scope is open");
    for (size_t i = 0; i < FAC_COUNT(v); i++) assert_int_equal(v[i].tag, FAC_TAG_NONE);
    assert_int_equal(released, 2);
}

static void values_are_left_alone_while_an_error_is_pending(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_value v = fac_value_ints(&(int64_t){1}, 1);
    (void)fac_error_set(FAC_ERR_ARGUMENT, "an earlier mistake");
    assert_int_equal(fac_scope_take(&v, 1), FAC_ERR_ARGUMENT);
    assert_error(FAC_ERR_ARGUMENT, "an earlier mistake");
    assert_int_equal(v.tag, FAC_TAG_INTS);
    fac_value_release(&v);
    assert_int_equal(fac_scope_take(NULL, 1), FAC_ERR_ARGUMENT);
    assert_error(FAC_ERR_ARGUMENT, "the array of values is NULL");
}

static void values_that_were_released_are_refused(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_value v = fac_value_tensor(fac_tensor_of(1)), copy = v;
    fac_value_release(&v);
    assert_int_equal(fac_scope_take(&copy, 1), FAC_ERR_STATE);
    assert_error(FAC_ERR_STATE, "released already");
}

static fac_status call_and_take(void *context) {
    (void)context;
    FAC_SCOPE(s);
    fac_tensor *x = fac_tensor_of(3, 1, 2);
    fac_value out[1], args[] = {fac_value_tensor(x), fac_value_int(1)};
    if (!fac_error() && !fac_call("aten::split.Tensor", args, 2, out)) (void)!fac_scope_take(out, 1);
    fac_value_release(&args[0]);
    return fac_error();
}

static void values_survive_failing_allocations(void **state) {
    (void)state;
    support_fail_each_allocation(call_and_take, NULL);
}

FAC_TEST_MAIN(FAC_TEST(results_of_a_boxed_call_become_temporaries),
              FAC_TEST(values_of_every_kind_live_until_the_scope_ends), FAC_TEST(values_without_a_scope_are_released),
              FAC_TEST(values_are_left_alone_while_an_error_is_pending),
              FAC_TEST(values_that_were_released_are_refused), FAC_TEST(values_survive_failing_allocations))
