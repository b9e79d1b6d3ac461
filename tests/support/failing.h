/* The tests of a program again, each with allocations failing: see failing.c and tests/README.md. */
#ifndef FAC_TESTS_FAILING_H
#define FAC_TESTS_FAILING_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* Returns the number of tests that did not bear it. */
int failing_run(const struct CMUnitTest *tests, size_t n, CMFixtureFunction setup);

#endif
