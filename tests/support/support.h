/* What every unit test shares: a frame that finds leaks, and checks of errors. A test program is

       static void S003_select_column_is_a_view(void **state) { ... }
       FAC_TEST_MAIN(FAC_TEST(S003_select_column_is_a_view), ...)

   where a name that begins with a feature row's id proves that row. */
#ifndef FAC_TESTS_SUPPORT_H
#define FAC_TESTS_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/handle.h"
#include "memory_hook.h"

/* Before a test: no error, no scope, caches empty. After it: the same, and no object or block more than before. */
int support_setup(void **state);
int support_teardown(void **state);
#define FAC_TEST(name) cmocka_unit_test_setup_teardown(name, support_setup, support_teardown)
#define FAC_TEST_MAIN(...)                                 \
    int main(int argc, char **argv) {                      \
        (void)argc, (void)argv;                            \
        const struct CMUnitTest tests[] = {__VA_ARGS__};   \
        return support_run(tests, FAC_COUNT(tests), NULL); \
    }
/* Runs the tests; `setup`, if any, before the first. With FACULA_TEST_ALLOCATIONS in the environment each is run with
   allocations failing instead. Returns how many failed. */
int support_run(const struct CMUnitTest *tests, size_t n, CMFixtureFunction setup);

/* Ends the test as skipped; say why before. */
void support_skip(const char *file, int line);
#undef skip
#define skip() support_skip(__FILE__, __LINE__)

/* Fails the test with the message if an error is pending. */
void support_no_error(const char *file, int line);
#define assert_no_error() support_no_error(__FILE__, __LINE__)
/* Asserts that an error of this code is pending whose message contains `text`, and clears it. */
void support_error(fac_status code, const char *text, const char *file, int line);
#define assert_error(code, text) support_error((code), (text), __FILE__, __LINE__)
/* Asserts that expr is FAC_OK. */
#define assert_ok(expr)                       \
    do {                                      \
        fac_status assert_ok_ = (expr);       \
        assert_no_error();                    \
        assert_int_equal(assert_ok_, FAC_OK); \
    } while (0)

/* Runs body(context) with the 1st, 2nd, 3rd ... allocation failing until it meets none: each time it either succeeds
   or leaves FAC_ERR_MEMORY pending, and nothing leaks. body cleans up after itself and returns fac_error(). */
void support_fail_each_allocation(fac_status (*body)(void *context), void *context);

#endif
