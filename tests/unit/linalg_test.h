/* What the tests of products, convolutions and pooling share. */
#ifndef FAC_TESTS_LINALG_TEST_H
#define FAC_TESTS_LINALG_TEST_H

#include "support/support.h"
#include <facula/facula.h>
#include <math.h>
#include <stdlib.h>

/* The same numbers in every run. */
static inline double next_value(void) {
    static uint64_t state = 7;
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (double)(int32_t)(state >> 32) / 2147483648.0;
}

/* A temporary of numbers in (-1, 1). */
static inline fac_tensor *random_of(fac_dtype dtype, fac_ints sizes) {
    int64_t n = 1;
    for (size_t i = 0; i < sizes.n; i++) n *= sizes.v[i];
    double *v = malloc((size_t)(n ? n : 1) * sizeof *v);
    assert_non_null(v);
    for (int64_t i = 0; i < n; i++) v[i] = next_value();
    fac_tensor *t = fac_tensor_from(v, FAC_F64, sizes);
    free(v);
    t = dtype == FAC_F64 ? t : fac_to_dtype(t, dtype);
    assert_no_error();
    return t;
}
#define RANDOM(...) random_of(FAC_F64, FAC_INTS(__VA_ARGS__))
#define LEAF(...) fac_set_requires_grad(RANDOM(__VA_ARGS__), true)

/* All elements as doubles; to be freed. */
static inline double *numbers(fac_tensor *t) {
    assert_non_null(t);
    size_t n = (size_t)fac_tensor_numel(t);
    double *v = malloc((n ? n : 1) * sizeof *v);
    assert_non_null(v);
    assert_ok(fac_tensor_read(t, FAC_F64, v, n));
    return v;
}

static inline void close_to_(fac_tensor *a, fac_tensor *b, double tolerance, const char *file, int line) {
    support_no_error(file, line);
    if (!a || !b || !fac__same_sizes(fac__header(a), fac__header(b))) _fail(file, line);
    double *x = numbers(a), *y = numbers(b);
    for (int64_t i = 0; i < fac_tensor_numel(a); i++)
        if (!(fabs(x[i] - y[i]) <= tolerance * (1 + fabs(y[i]))) && !(x[i] != x[i] && y[i] != y[i])) {
            print_error("element %lld is %.17g, should be %.17g\n", (long long)i, x[i], y[i]);
            _fail(file, line);
        }
    free(x);
    free(y);
}
#define assert_close(a, b) close_to_((a), (b), 1e-12, __FILE__, __LINE__)
#define assert_near(a, b, tolerance) close_to_((a), (b), (tolerance), __FILE__, __LINE__)

static inline void sizes_are_(fac_tensor *t, fac_ints want, const char *file, int line) {
    support_no_error(file, line);
    if (!t || fac_tensor_sizes(t).n != want.n || memcmp(fac_tensor_sizes(t).v, want.v, want.n * sizeof *want.v) != 0) {
        print_error("the size is %s\n", t ? FAC_SHAPE_TEXT(fac__header(t)) : "none");
        _fail(file, line);
    }
}
#define assert_sizes(t, ...) sizes_are_((t), FAC_INTS(__VA_ARGS__), __FILE__, __LINE__)

#endif
