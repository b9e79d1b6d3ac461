/* Each element from its own number. */
#include "backend/cpu/kernels/range.h"
#include "backend/cpu/kernels/simd_math.h"
#include "backend/cpu/simd.h"

void FAC_ISA_NAME(fac__arange_i64)(int64_t *v, int64_t first, int64_t n, int64_t start, int64_t step) {
    enum { LANES = FAC_VECTOR_BYTES / 8 };
    typedef uint64_t numbers __attribute__((vector_size(FAC_VECTOR_BYTES)));
    const uint64_t from = (uint64_t)start + (uint64_t)step * (uint64_t)first;
    numbers x;
    for (int k = 0; k < LANES; k++) x[k] = from + (uint64_t)step * (uint64_t)k;
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES, x += LANES * (uint64_t)step) memcpy(v + i, &x, sizeof x);
    for (; i < n; i++) v[i] = (int64_t)(from + (uint64_t)step * (uint64_t)i);
}

void FAC_ISA_NAME(fac__arange_f64)(double *v, int64_t first, int64_t n, double start, double step) {
    for (int64_t i = 0; i < n; i++) v[i] = start + step * (double)(first + i);
}

void FAC_ISA_NAME(fac__linspace_f64)(double *v, int64_t first, int64_t n, int64_t total, double start, double end,
                                     double step) {
    const int64_t half = total / 2 - first;
    int64_t i = 0;
    for (; i < n && i < half; i++) v[i] = start + step * (double)(first + i);
    for (; i < n; i++) v[i] = end - step * (double)(total - 1 - (first + i));
}

void FAC_ISA_NAME(fac__powers_f64)(double *v, int64_t n, double base) {
    for (int64_t i = 0; i < n; i++) v[i] = FAC_SIMD(pow, f64)(base, v[i]);
}
