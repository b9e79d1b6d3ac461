/* Tensors with known values, and a comparison, for tests of transforms. */
#ifndef FAC_TESTS_VALUES_H
#define FAC_TESTS_VALUES_H

#include <facula/facula.h>

/* 0, 1/7, 2/7 ... in double precision. */
fac_tensor *numbers(fac_ints sizes);
/* Asserts that both have the same sizes and, to ten digits, the same values. */
void values_close(fac_tensor *a, fac_tensor *b, const char *file, int line);
#define assert_close(a, b) values_close((a), (b), __FILE__, __LINE__)

#endif
