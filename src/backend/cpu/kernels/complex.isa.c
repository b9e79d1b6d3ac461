/* Loops over complex numbers, by the compiler's complex arithmetic and the C library's functions. */
#include "backend/cpu/kernels/loop_macros.h"
#include "backend/cpu/loops.h"
#include "backend/cpu/simd.h"

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

/* Products again, as compilers make poor vectors of interleaved parts: (a c, a d) plus (-b d, b c), each rounded, at the end of a run
   too: GCC would fuse some of the formula's multiplications, whatever it is told. */
#if FAC_VECTOR_BYTES == 64
#define OF_F32(v, w, i, j)                                                                                      \
    __builtin_shufflevector(v, w, i, j, i + 2, j + 2, i + 4, j + 4, i + 6, j + 6, i + 8, j + 8, i + 10, j + 10, \
                            i + 12, j + 12, i + 14, j + 14)
#define OF_F64(v, w, i, j) __builtin_shufflevector(v, w, i, j, i + 2, j + 2, i + 4, j + 4, i + 6, j + 6)
#elif FAC_VECTOR_BYTES == 32
#define OF_F32(v, w, i, j) __builtin_shufflevector(v, w, i, j, i + 2, j + 2, i + 4, j + 4, i + 6, j + 6)
#define OF_F64(v, w, i, j) __builtin_shufflevector(v, w, i, j, i + 2, j + 2)
#else
#define OF_F32(v, w, i, j) __builtin_shufflevector(v, w, i, j, i + 2, j + 2)
#define OF_F64(v, w, i, j) __builtin_shufflevector(v, w, i, j)
#endif
#define PRODUCTS(S, T, V, OF, LOAD, STORE)                                                                           \
    enum { EACH_##S = sizeof(V) / (2 * sizeof(T)) };                                                                 \
    static inline V vproduct_##S(V v, V w) {                                                                         \
        const V one = OF(v, v, 0, 0) * w, other = OF(v, v, 1, 1) * OF(w, w, 1, 0);                                   \
        const V minus = one - other, plus = one + other;                                                             \
        return OF(minus, plus, 0, 2 * EACH_##S + 1);                                                                 \
    }                                                                                                                \
    static void products_##S(char *const *p, int64_t n, const fac_loop_args *args) {                                 \
        T *out = (T *)(void *)p[0], last[2][2 * EACH_##S] = {{0}};                                                   \
        const T *x = (const T *)(const void *)p[1], *y = (const T *)(const void *)p[2];                              \
        int64_t i = 0;                                                                                               \
        (void)args;                                                                                                  \
        for (; i + EACH_##S <= n; i += EACH_##S) STORE(out + 2 * i, vproduct_##S(LOAD(x + 2 * i), LOAD(y + 2 * i))); \
        if (i == n) return;                                                                                          \
        const size_t rest = (size_t)(n - i) * 2 * sizeof(T);                                                         \
        memcpy(last[0], x + 2 * i, rest), memcpy(last[1], y + 2 * i, rest);                                          \
        STORE(last[0], vproduct_##S(LOAD(last[0]), LOAD(last[1])));                                                  \
        memcpy(out + 2 * i, last[0], rest);                                                                          \
    }
PRODUCTS(c64, float, fac_vf32, OF_F32, fac_load_f32, fac_store_f32)
PRODUCTS(c128, double, fac_vf64, OF_F64, fac_load_f64, fac_store_f64)

void FAC_ISA_NAME(fac__install_complex)(fac_loop (*table)[FAC_DTYPE_COUNT]) {
    install_c64(table);
    install_c128(table);
    table[FAC_LOOP_mul][FAC_C64] = products_c64;
    table[FAC_LOOP_mul][FAC_C128] = products_c128;
}
