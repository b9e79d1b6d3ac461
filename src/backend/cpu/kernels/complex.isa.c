/* Loops over complex numbers, by the compiler's complex arithmetic and the C library's functions. */
#include "backend/cpu/kernels/loop_macros.h"
#include "backend/cpu/loops.h"

#include <complex.h>
#include <float.h>
#include <math.h>

/* Quotients without the C standard's repair of infinities, as NumPy and PyTorch have them: a finite number over an infinite
   one is zero, and over zero each part is divided by zero. By Smith's method (1962): the smaller part of the denominator is
   taken as a multiple of the larger. */
static void quotient_at_edge(double a, double b, double c, double d, double *re, double *im) {
    if (c == 0 && d == 0) {
        *re = a / fabs(c), *im = b / fabs(c);
    } else if (fabs(c) >= fabs(d)) {
        const double part = d / c, whole = c + d * part;
        *re = (a + b * part) / whole, *im = (b - a * part) / whole;
    } else {
        const double part = c / d, whole = c * part + d;
        *re = (a * part + b) / whole, *im = (b * part - a) / whole;
    }
}
/* Elsewhere the square of the denominator neither overflows nor vanishes: f32 in double, f64 scaled. */
static inline float _Complex quotient_c64(float _Complex x, float _Complex y) {
    double a = crealf(x), b = cimagf(x), c = crealf(y), d = cimagf(y), square = c * c + d * d;
    double re = (a * c + b * d) / square, im = (b * c - a * d) / square;
    if (FAC_UNLIKELY(!(square > 0 && square <= DBL_MAX))) quotient_at_edge(a, b, c, d, &re, &im);
    const float parts[2] = {(float)re, (float)im};
    float _Complex z;
    memcpy(&z, parts, sizeof z);
    return z;
}
static inline double _Complex quotient_c128(double _Complex x, double _Complex y) {
    double c = creal(y), d = cimag(y), size = fmax(fabs(c), fabs(d)), a = creal(x) / size, b = cimag(x) / size;
    c /= size, d /= size;
    double square = c * c + d * d, parts[2] = {(a * c + b * d) / square, (b * c - a * d) / square};
    if (FAC_UNLIKELY(!(size > 0 && size <= DBL_MAX)))
        quotient_at_edge(creal(x), cimag(x), creal(y), cimag(y), &parts[0], &parts[1]);
    double _Complex z;
    memcpy(&z, parts, sizeof z);
    return z;
}

#define FAC_LOOPS FAC_LOOPS_COMPLEX
#define FAC_NUMBER_OF(k) FAC_FN(make)((FAC_R)args->v[k].real, (FAC_R)args->v[k].imag)

#define FAC_T float _Complex
#define FAC_R float
#define FAC_TD FAC_C64
#define FAC_FN(name) name##_c64
#define FAC_C(name) name##f
#include "ops/scalar/complex.h"

#include "backend/cpu/kernels/loops_of_type.h"

#define FAC_T double _Complex
#define FAC_R double
#define FAC_TD FAC_C128
#define FAC_FN(name) name##_c128
#define FAC_C(name) name
#include "ops/scalar/complex.h"

#include "backend/cpu/kernels/loops_of_type.h"

void FAC_ISA_NAME(fac__install_complex)(fac_loop (*table)[FAC_DTYPE_COUNT]) {
    install_c64(table);
    install_c128(table);
}
