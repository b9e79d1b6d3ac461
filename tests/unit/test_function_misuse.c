/* Custom functions and saved-tensor hooks that break their rules. */
#include "autograd_test.h"

/* ---- changed in place and kept back -------------------------------------------------------------------------------------- */

static fac_status double_silently(fac_function_ctx *c, fac_tensors inputs, fac_tensor **out) {
    fac_function_mark_dirty(c, inputs.v[0]);
    if (!fac_mul_(inputs.v[0], 2.0)) return fac_error();
    out[0] = fac_mul(inputs.v[1], 1.0);
    return fac_error();
}

static fac_status pass_on(fac_function_ctx *c, fac_tensors grads, fac_tensor **out) {
    (void)c;
    out[0] = out[1] = grads.v[0];
    return FAC_OK;
}

static void function_that_keeps_a_changed_input_back_is_refused(void **state) {
    (void)state;
    const fac_function fns[] = {{.name = "Double", .n_outputs = 1, .forward = double_silently, .backward = pass_on},
                                {.n_outputs = 1, .forward = double_silently, .backward = pass_on}};
    const char *const names[] = {"the forward of Double were not returned",
                                 "the forward of Function were not returned"};
    for (size_t i = 0; i < FAC_COUNT(fns); i++) {
        FAC_SCOPE(s);
        fac_tensor *x = fac_mul(leaf(DOUBLES(1, 2)), 1.0), *y = leaf(DOUBLES(3, 4)), *out = NULL;
        assert_int_equal(fac_function_apply(&fns[i], NULL, FAC_TENSORS(x, y), &out), FAC_ERR_AUTOGRAD);
        assert_error(FAC_ERR_AUTOGRAD, names[i]);
        assert_null(out);
    }
}

/* ---- half a pair of hooks ------------------------------------------------------------------------------------------------ */

static int packed;

static void *pack(void *context, fac_tensor *t) {
    (void)context;
    packed++;
    return fac_keep(t);
}
static fac_tensor *unpack(void *context, void *handle) {
    (void)context;
    return handle;
}
static void destroy(void *context, void *handle) {
    (void)context;
    fac_release(handle);
}

/* The hooks that were set stay: what is saved afterwards still goes through them. */
static void saved_hooks_without_their_other_half_are_refused(void **state) {
    (void)state;
    FAC_SCOPE(s);
    const fac_saved_tensor_hooks whole = {pack, unpack, destroy, NULL}, no_unpack = {pack, NULL, NULL, NULL},
                                 no_pack = {NULL, unpack, NULL, NULL};
    packed = 0;
    fac_set_saved_tensor_hooks(&whole);
    fac_set_saved_tensor_hooks(&no_unpack);
    assert_error(FAC_ERR_ARGUMENT, "unpack is NULL");
    fac_set_saved_tensor_hooks(&no_pack);
    assert_error(FAC_ERR_ARGUMENT, "pack is NULL");
    fac_tensor *x = leaf(DOUBLES(3, 4)), *y = fac_sum(fac_mul(x, x));
    fac_set_saved_tensor_hooks(NULL);
    assert_true(packed > 0);
    assert_ok(fac_backward(y));
    assert_values(fac_grad_of(x), 6, 8);
}

FAC_TEST_MAIN(FAC_TEST(function_that_keeps_a_changed_input_back_is_refused),
              FAC_TEST(saved_hooks_without_their_other_half_are_refused))
