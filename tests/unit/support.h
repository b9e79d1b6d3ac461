/* What unit tests share: cmocka with its many headers, a leak check around every test, failing allocations, files. */
#ifndef FACULA_TESTS_SUPPORT_H
#define FACULA_TESTS_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka.h needs the four above. */
#include <cmocka.h>

#include "core/tensor.h"

/* A test between two looks at the counter of live objects: none may be left over, and no error may be pending. Lost memory
   is the sanitizer's to find. */
#define UNIT_TEST(fn) cmocka_unit_test_setup_teardown(fn, unit_setup, unit_teardown)
int unit_setup(void **state);
int unit_teardown(void **state);

/* Lets the n-th allocation from now (0: the next) and all later ones fail; negative: none. */
void unit_fail_allocation(int64_t n);
/* True once an allocation was refused since unit_fail_allocation. */
bool unit_allocation_failed(void);

/* Checks that an error with this code is pending and that its message contains `text`, then clears it. */
#define unit_assert_error(code, text) unit_check_error((code), (text), __FILE__, __LINE__)
void unit_check_error(fac_status code, const char *text, const char *file, int line);

/* A folder that is made for the test program and removed at its end, and a path in it (good until the eighth next call). */
const char *unit_path(const char *name);
void unit_write_file(const char *path, const void *bytes, size_t n);
/* The bytes of a file, to be freed with free(). */
unsigned char *unit_read_file(const char *path, size_t *out_n);
/* Number of entries in the folder. */
int unit_count_files(void);

#endif
