/* Loops over complex numbers, by the compiler's complex arithmetic and the C library's functions. */
#include "backend/cpu/kernels/loop_macros.h"
#include "backend/cpu/loops.h"

#include <complex.h>
#include <math.h>

/* Quotients without the C standard's repair of infinities: a denominator that is zero or not finite makes both parts not a
   number, as in PyTorch. The square of the denominator must neither overflow nor vanish. */
static inline float _Complex quotient_c64(float _Complex x, float _Complex y) {
    double a = crealf(x), b = cimagf(x), c = crealf(y), d = cimagf(y), square = c * c + d * d;
    const float parts[2] = {(float)((a * c + b * d) / square), (float)((b * c - a * d) / square)};
    float _Complex z;
    memcpy(&z, parts, sizeof z);
    return z;
}
static inline double _Complex quotient_c128(double _Complex x, double _Complex y) {
    double c = creal(y), d = cimag(y), size = fmax(fabs(c), fabs(d)), a = creal(x) / size, b = cimag(x) / size;
    c /= size, d /= size;
    double square = c * c + d * d;
    const double parts[2] = {(a * c + b * d) / square, (b * c - a * d) / square};
    double _Complex z;
    memcpy(&z, parts, sizeof z);
    return z;
}

#define FAC_T float _Complex
#define FAC_R float
#define FAC_TD FAC_C64
#define FAC_FN(name) name##_c64
#define FAC_C(name) name##f
#include "backend/cpu/kernels/complex_loops.h"

#define FAC_T double _Complex
#define FAC_R double
#define FAC_TD FAC_C128
#define FAC_FN(name) name##_c128
#define FAC_C(name) name
#include "backend/cpu/kernels/complex_loops.h"

void FAC_ISA_NAME(fac__install_complex)(fac_loop (*table)[FAC_DTYPE_COUNT]) {
    install_c64(table);
    install_c128(table);
}
