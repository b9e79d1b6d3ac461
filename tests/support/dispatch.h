/* For tests of the dispatcher: each starts and ends with fresh tables, and asks operators which kernel served. */
#ifndef FAC_TESTS_DISPATCH_H
#define FAC_TESTS_DISPATCH_H

#include "dispatch/operator.h"
#include "support/support.h"

int dispatch_setup(void **state);
int dispatch_teardown(void **state);
#define DISPATCH_TEST(name) cmocka_unit_test_setup_teardown(name, dispatch_setup, dispatch_teardown)

/* Owned one-element f32 tensor whose key set is exactly `keys`. */
fac_tensor *tensor_with_keys(fac_keyset keys);
/* The handle of an owned header, whose reference becomes the test's own: fac_release drops it. */
fac_tensor *held(fac_tensor *owned);
fac_keyset keys_on(fac_functionality f, fac_backend b);

/* A boxed kernel whose one result is the integer that its context points at. */
fac_status answer(const fac_call_info *c, fac_value *stack);
/* Contexts for `answer`. */
extern const int one, two, three, four;
#define ANSWER(n) answer, (void *)(uintptr_t) & (n)

/* Registers and asserts that it worked. */
fac_registration *declare(const char *schema);
fac_registration *add(const char *op, const char *key, const int *answer_value);
fac_registration *add_fallback(const char *key, const int *answer_value);

/* Calls an operator of schema (Tensor) -> int with a tensor of these keys. */
int64_t ask(const char *op, fac_keyset keys);
/* The same on a plain CPU tensor of which only the Dense key counts. */
int64_t ask_cpu(const char *op);
/* The same call, expected to fail with NO_KERNEL and a message that contains `text`. */
void ask_in_vain(const char *op, fac_keyset keys, const char *text);

#endif
