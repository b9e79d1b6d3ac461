/* What the accuracy program knows of a function. */
#ifndef TEST_ACCURACY_H
#define TEST_ACCURACY_H

#include <facula/facula.h>

typedef struct accuracy_function {
    const char *name;
    fac_tensor *(*call)(fac_tensor *x);
    double (*exact)(double x);          /* for float: within 1e-8 of its last place */
    long double (*wide)(long double x); /* for double, where long double is wider */
    double bound, bound64;              /* units in the last place that float and double results may be off */
    double below;                       /* the same of subnormal results */
} accuracy_function;
/* Ends with a name NULL. */
extern const accuracy_function accuracy_functions[];

#endif
