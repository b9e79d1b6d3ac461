/* Kernels that tell which of them ran. */
#include "support/dispatch.h"
#include "core/tensor_make.h"

const int one = 1, two = 2, three = 3, four = 4;

/* Retired registrations live until shutdown, so that is where their leaks would show. */
int dispatch_setup(void **state) {
    memory_hook_install();
    memory_hook_fail(0, false);
    fac_shutdown();
    return support_setup(state);
}

int dispatch_teardown(void **state) {
    assert_no_error();
    assert_int_equal(fac_thread_included() | fac_thread_excluded() | fac_global_include(0), 0);
    fac_shutdown();
    assert_ok(fac_init());
    return support_teardown(state);
}

fac_tensor *tensor_with_keys(fac_keyset keys) {
    fac_tensor *t;
    assert_ok(fac__scalar_tensor(fac_scalar_f_(1), FAC_F32, &t));
    t->keys = keys;
    return held(t);
}

fac_tensor *held(fac_tensor *owned) {
    if (owned) fac__count_kept(owned);
    return fac__handle(owned);
}

fac_keyset keys_on(fac_functionality f, fac_backend b) { return fac__func_bit(f) | fac__backend_bit(b); }

fac_status answer(const fac_call_info *c, fac_value *stack) {
    stack[0] = fac_value_int(*(const int *)c->context);
    return FAC_OK;
}

fac_registration *declare(const char *schema) {
    fac_registration *r = fac_register_operator(schema, FAC_HERE);
    assert_no_error();
    assert_non_null(r);
    return r;
}

fac_registration *add(const char *op, const char *key, const int *answer_value) {
    fac_registration *r = fac_register_boxed(op, key, ANSWER(*answer_value), FAC_HERE);
    assert_no_error();
    assert_non_null(r);
    return r;
}

fac_registration *add_fallback(const char *key, const int *answer_value) {
    fac_registration *r = fac_register_fallback(key, ANSWER(*answer_value), FAC_HERE);
    assert_no_error();
    assert_non_null(r);
    return r;
}

static fac_status call(const char *op, fac_keyset keys, fac_value *out) {
    fac_tensor *t = tensor_with_keys(keys);
    fac_value v = fac_value_tensor(t);
    fac_status st = fac_call(op, &v, 1, out);
    fac_value_release(&v);
    fac_release(t);
    return st;
}

int64_t ask(const char *op, fac_keyset keys) {
    fac_value out;
    assert_ok(call(op, keys, &out));
    return fac_value_as_int(out);
}

int64_t ask_cpu(const char *op) { return ask(op, keys_on(FAC_KEY_DENSE, FAC_BACKEND_CPU)); }

void ask_in_vain(const char *op, fac_keyset keys, const char *text) {
    fac_value out;
    assert_int_equal(call(op, keys, &out), FAC_ERR_NO_KERNEL);
    assert_error(FAC_ERR_NO_KERNEL, text);
    assert_int_equal(out.tag, FAC_TAG_NONE);
}
