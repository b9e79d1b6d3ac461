/* A complex number of its parts. CMPLX is not there with every compiler and C library, and re + im * I is NaN where im is infinite. */
#ifndef FAC_SRC_BACKEND_CPU_KERNELS_COMPLEX_PARTS_H
#define FAC_SRC_BACKEND_CPU_KERNELS_COMPLEX_PARTS_H

#include <complex.h>
#include <string.h>

static inline double complex fac__complex_parts(double re, double im) {
    const double parts[] = {re, im};
    double complex z;
    memcpy(&z, parts, sizeof z);
    return z;
}

#endif
