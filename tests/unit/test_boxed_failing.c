/* A user's operator that works in place, with a gradient of its own: a call that fails for want of memory leaves its argument
   as it was, with its history. */
#include "support/memory_hook.h"
#include "support/support.h"
#include "support/unchanged.h"
#include <facula/facula.h>

static fac_status double_kernel(const fac_call_info *c, fac_value *stack) {
    (void)c;
    fac_tensor *t = fac_value_as_tensor(stack[0]);
    double *p = fac_tensor_data(t);
    for (int64_t i = 0; i < fac_tensor_numel(t); i++) p[i] *= 2;
    stack[0] = fac_value_tensor(t);
    return fac_error();
}

static fac_status double_backward(void *context, const fac_value *args, const fac_value *results, fac_tensors grads,
                                  fac_tensor **out) {
    (void)context, (void)args, (void)results;
    out[0] = fac_mul(grads.v[0], 2.0);
    return fac_error();
}

/* Calls with the n-th allocation failing. True if there was one. */
static bool call_failing(fac_tensor *t, int64_t n) {
    state before;
    size_t which;
    fac_value arg = fac_value_tensor(t), result = fac_value_none();
    assert_true(state_note(&before, &t, 1));
    fac__thread_trim(), fac_memory_trim();
    memory_hook_fail(n, false);
    const fac_status st = fac_call("tag::double_", &arg, 1, &result);
    const bool met = memory_hook_failures() > 0;
    memory_hook_fail(0, false);
    if (st != FAC_OK) {
        const char *what = state_changed(&before, &which);
        if (what) fail_msg("%s has changed as allocation %lld failed", what, (long long)n);
        fac_error_clear();
    }
    fac_value_release(&arg);
    fac_value_release(&result);
    state_free(&before);
    return met;
}

static void boxed_operator_in_place_without_memory_changes_nothing(void **state) {
    (void)state;
    int64_t failed = 0;
    fac_registration *op = fac_register_operator("tag::double_(Tensor(a!) x) -> Tensor(a!)", FAC_HERE);
    fac_registration *kernel = fac_register_boxed("tag::double_", "CPU", double_kernel, NULL, FAC_HERE);
    fac_registration *gradient = fac_register_gradient("tag::double_", double_backward, NULL, FAC_HERE);
    assert_no_error();
    for (int view = 0; view < 2; view++) {
        FAC_SCOPE(s);
        fac_tensor *x = fac_ones(FAC_SHAPE(4), .dtype = FAC_F64, .requires_grad = true), *t = fac_mul(x, 1.0),
                   *g = NULL;
        fac_tensor *part = view ? fac_narrow(t, 0, 1, 2) : t;
        int64_t n = 1;
        while (call_failing(part, n)) n++;
        failed += n - 1;
        assert_ok(fac_grad(FAC_TENSORS(fac_sum(t)), FAC_TENSORS(x), &g));
        assert_true(fac_item(fac_sum(g)) == (view ? 6 : 8)); /* it has worked once */
    }
    print_message("%lld calls failed, 0 changed\n", (long long)failed);
    assert_true(failed >= 6);
    fac_registration_release(gradient);
    fac_registration_release(kernel);
    fac_registration_release(op);
    fac_shutdown();
    assert_ok(fac_init());
}

FAC_TEST_MAIN(FAC_TEST(boxed_operator_in_place_without_memory_changes_nothing))
