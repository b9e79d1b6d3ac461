/* Small functions of x (and y) whose gradients, and gradients of gradients, are compared with differences. */
#ifndef FAC_TESTS_DIFFERENCE_CASES_H
#define FAC_TESTS_DIFFERENCE_CASES_H

#include "autograd_test.h"

typedef struct difference_case {
    const char *name;
    fac_func fn;
} difference_case;

/* Defines a function for the table. */
#define DIFF_FN(name, ...)                                                              \
    static fac_status name(void *context, fac_tensors in, fac_tensor **out, size_t n) { \
        fac_tensor *x = in.v[0], *y = in.n > 1 ? in.v[1] : NULL;                        \
        (void)context, (void)n, (void)x, (void)y;                                       \
        out[0] = (__VA_ARGS__);                                                         \
        return fac_error();                                                             \
    }
#define DIFF_CASE(name) \
    { #name, name }

/* An f64 leaf of these sizes with distinct, irregular values. */
static inline fac_tensor *irregular(fac_ints sizes, double seed) {
    double v[256];
    size_t n = 1;
    for (size_t i = 0; i < sizes.n; i++) n *= (size_t)sizes.v[i];
    for (size_t i = 0; i < n; i++) v[i] = sin(12.9898 * ((double)i + 1) + seed) * 1.7;
    return fac_set_requires_grad(fac_tensor_from(v, FAC_F64, sizes), true);
}

static inline void check_differences(const difference_case *cases, size_t n, fac_tensors inputs) {
    for (size_t i = 0; i < n; i++) {
        FAC_SCOPE(s);
        fac_status st = fac_gradcheck(cases[i].fn, NULL, inputs, 1);
        if (!st) st = fac_gradgradcheck(cases[i].fn, NULL, inputs, 1);
        if (!st) continue;
        print_error("%s: %s\n", cases[i].name, fac_error_message());
        fail();
    }
}

#endif
