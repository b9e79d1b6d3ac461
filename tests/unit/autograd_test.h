/* What the tests of differentiation share. */
#ifndef FAC_TESTS_AUTOGRAD_TEST_H
#define FAC_TESTS_AUTOGRAD_TEST_H

#include "support/support.h"
#include <facula/facula.h>
#include <math.h>

#define DOUBLES(...) (const double[]){__VA_ARGS__}, sizeof((const double[]){__VA_ARGS__}) / sizeof(double)

/* A 1-d f64 tensor, and one that requires a gradient. */
static inline fac_tensor *vector(const double *v, size_t n) {
    return fac_tensor_from(v, FAC_F64, FAC_INTS((int64_t)n));
}
static inline fac_tensor *leaf(const double *v, size_t n) { return fac_set_requires_grad(vector(v, n), true); }
/* The same without dimensions. */
static inline fac_tensor *scalar_leaf(double v) {
    return fac_set_requires_grad(fac_tensor_from(&v, FAC_F64, FAC_INTS()), true);
}

/* Fails unless t holds exactly these values, to 1e-9 relative. */
static inline void values_are_(fac_tensor *t, const double *want, size_t n, const char *file, int line) {
    double got[64];
    support_no_error(file, line);
    _assert_true(t != NULL, "the tensor is there", file, line);
    _assert_int_equal((uintmax_t)fac_tensor_numel(t), n, file, line);
    _assert_int_equal(fac_tensor_read(t, FAC_F64, got, n), FAC_OK, file, line);
    for (size_t i = 0; i < n; i++) {
        if (fabs(got[i] - want[i]) <= 1e-9 * (1 + fabs(want[i]))) continue;
        print_error("element %zu is %.15g, should be %.15g\n", i, got[i], want[i]);
        _fail(file, line);
    }
}
#define assert_values(t, ...) values_are_((t), DOUBLES(__VA_ARGS__), __FILE__, __LINE__)

#endif
