/* Tables of small functions whose derivatives are compared with differences. A case is an expression over x[0], x[1], ...;
   its inputs are leaves of given shapes with distinct, irregular values in a given range. */
#ifndef FAC_TESTS_GRAD_CASES_H
#define FAC_TESTS_GRAD_CASES_H

#include "support/support.h"
#include <facula/facula.h>
#include <math.h>
#include <stdlib.h>

typedef struct grad_case {
    const char *name;
    fac_func fn;
    size_t n_out;
    const char *shapes; /* "2,3;3": one shape per input */
    double lo, hi;
} grad_case;

#define GRAD_FN(name, n_out, shapes, lo, hi, ...)                                                   \
    static fac_status check_##name(void *context, fac_tensors inputs, fac_tensor **out, size_t n) { \
        (void)context, (void)n;                                                                     \
        fac_tensor *const *x = inputs.v;                                                            \
        (void)x;                                                                                    \
        __VA_ARGS__;                                                                                \
        return fac_error();                                                                         \
    }
#define GRAD_ROW(name, n_out, shapes, lo, hi, ...) {#name, check_##name, n_out, shapes, lo, hi},

/* Fails unless the two numbers differ by at most `tolerance`. */
static inline void near_(double got, double want, double tolerance, const char *file, int line) {
    if (fabs(got - want) <= tolerance) return;
    print_error("%.15g should be %.15g\n", got, want);
    _fail(file, line);
}
#define assert_near(got, want, tolerance) near_((got), (want), (tolerance), __FILE__, __LINE__)

/* A leaf of the next shape in *text; values are far from each other, so that no difference step swaps two of them. */
static inline fac_tensor *grad_input(const char **text, size_t which, double lo, double hi) {
    int64_t sizes[8], numel = 1;
    size_t ndim = 0;
    double v[256];
    while (**text && **text != ';') {
        char *end;
        sizes[ndim++] = strtoll(*text, &end, 10);
        numel *= sizes[ndim - 1];
        *text = *end == ',' ? end + 1 : end;
    }
    if (**text == ';') ++*text;
    for (int64_t i = 0; i < numel; i++)
        v[i] = lo + (hi - lo) * fmod(0.137 + 0.6180339887 * (double)(i + 1) + 0.29 * (double)which, 1.0);
    return fac_set_requires_grad(fac_tensor_from(v, FAC_F64, (fac_ints){sizes, ndim}), true);
}

/* Every case, to first or second order. */
static inline void grad_run(const grad_case *cases, size_t n, bool second) {
    for (size_t i = 0; i < n; i++) {
        FAC_SCOPE(s);
        fac_tensor *x[6];
        size_t n_in = 0;
        for (const char *t = cases[i].shapes; *t; n_in++) x[n_in] = grad_input(&t, n_in, cases[i].lo, cases[i].hi);
        fac_tensors inputs = {x, n_in};
        fac_status st = second ? fac_gradgradcheck(cases[i].fn, NULL, inputs, cases[i].n_out)
                               : fac_gradcheck(cases[i].fn, NULL, inputs, cases[i].n_out);
        if (st != FAC_OK) print_error("%s:\n", cases[i].name);
        assert_no_error();
    }
}

#endif
