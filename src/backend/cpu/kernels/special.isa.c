/* Loops of special functions. Each is compiled once, over doubles and up to MOST elements, of which there is room for whole vectors: no
   code is needed for what is left after them. Floats are converted before and after it. */
#include "backend/cpu/kernels/loop_macros.h"
#include "backend/cpu/kernels/simd_math.h"
#include "backend/cpu/loops.h"
#include "backend/cpu/simd.h"

#include <math.h>

/* Large ones are shared by the loops that call them. */
#undef FAC_SCALAR_HELPER
#define FAC_SCALAR_HELPER static

/* Inlined however long they are, else the loops that call them would not vectorise. */
#define FAC_WIDE_FN static inline __attribute__((always_inline))
#define FAC_WIDE(name) FAC_SIMD(name, f64)
#define FAC_WIDE_INFINITY __builtin_inf()
#define FAC_WIDE_NAN __builtin_nan("")
#define FAC_WIDE_TABLE(name, n) static const double name[n]
#if FAC_ISA_LEVEL >= 1
#define FAC_MAD(a, b, c) __builtin_fma(a, b, c)
#else
#define FAC_MAD(a, b, c) ((a) * (b) + (c))
#endif
#include "ops/scalar/horner.h"

#include "ops/scalar/wide_error.h"

#include "ops/scalar/wide_gamma.h"

#include "ops/scalar/wide_sums.h"

#include "ops/scalar/wide_modified_bessel.h"

#include "ops/scalar/wide_bessel.h"

#include "ops/scalar/wide_polynomials.h"

#define FAC_T double
#define FAC_NUMBER_OF FAC_REAL_NUMBER
#define FAC_FN(name) name##_f64
#define FAC_IS_SINGLE false
#include "ops/scalar/special.h"
#include "ops/scalar/sums.h"
#undef FAC_FN
#undef FAC_IS_SINGLE
#define FAC_FN(name) name##_single
#define FAC_IS_SINGLE true
#include "ops/scalar/special.h"
#include "ops/scalar/sums.h"
#undef FAC_FN

enum { MOST = 64, LANES = FAC_LANES_F64 };
#define WHOLE(n) (((n) + LANES - 1) & -LANES)

/* ---- loops over doubles ------------------------------------------------------------------------------------------------------ */

/* Over whole vectors, and over n elements alone. */
#define WIDE_LOOP(name, formula, count, inputs, numbers)                                                    \
    static void wide_##name(char *const *p, int64_t n, const fac_loop_args *args __attribute__((unused))) { \
        double *out = FAC_OPERAND(0, double);                                                               \
        FAC_INPUTS_##inputs(1);                                                                             \
        FAC_NUMBERS_##numbers const int64_t m = count(n);                                                   \
        FAC_IVDEP for (int64_t i = 0; i < m; i++) out[i] = formula(FAC_VALUES_##inputs FAC_PASS_##numbers); \
    }
#define ALONE(n) (n)
#define VECTOR_LOOP(name, result, inputs, numbers) WIDE_LOOP(name, name##_f64, WHOLE, inputs, numbers)
#define SUM_LOOP(name, result, inputs, numbers) WIDE_LOOP(name, name##_f64, ALONE, inputs, numbers)
FAC_LOOPS_SPECIAL(VECTOR_LOOP)
FAC_LOOPS_SUMS(SUM_LOOP)
WIDE_LOOP(erfinv_single, erfinv_single, WHOLE, 1, 0)
WIDE_LOOP(i1e_single, i1e_single, WHOLE, 1, 0)
WIDE_LOOP(igamma_single, igamma_single, ALONE, 2, 0)
WIDE_LOOP(igammac_single, igammac_single, ALONE, 2, 0)

/* Bessel's functions where all arguments are small, which takes neither sine nor cosine. */
static bool all_within(const double *a, int64_t n, double limit) {
    bool within = true;
    for (int64_t i = 0; i < n; i++) within &= fabs(a[i]) <= limit;
    return within;
}
static bool none_above(const double *a, int64_t n, double limit) {
    bool above = false;
    for (int64_t i = 0; i < n; i++) above |= a[i] > limit;
    return !above;
}
static double near_j0(double x) { return x == 0 ? 1 : fac__wide_j0_small(x); }
WIDE_LOOP(near_j0, near_j0, WHOLE, 1, 0)
WIDE_LOOP(near_j1, fac__wide_j1_small, WHOLE, 1, 0)
WIDE_LOOP(near_y0, fac__wide_y0_small, WHOLE, 1, 0)
WIDE_LOOP(near_y1, fac__wide_y1_small, WHOLE, 1, 0)
static void wide_j0(char *const *p, int64_t n, const fac_loop_args *args) {
    (all_within(FAC_OPERAND(1, const double), n, 5) ? wide_near_j0 : wide_bessel_j0)(p, n, args);
}
static void wide_j1(char *const *p, int64_t n, const fac_loop_args *args) {
    (all_within(FAC_OPERAND(1, const double), n, 5) ? wide_near_j1 : wide_bessel_j1)(p, n, args);
}
static void wide_y0(char *const *p, int64_t n, const fac_loop_args *args) {
    (none_above(FAC_OPERAND(1, const double), n, 5) ? wide_near_y0 : wide_bessel_y0)(p, n, args);
}
static void wide_y1(char *const *p, int64_t n, const fac_loop_args *args) {
    (none_above(FAC_OPERAND(1, const double), n, 5) ? wide_near_y1 : wide_bessel_y1)(p, n, args);
}

/* Polynomials of low degrees, which differ from one element to the next: recurrences over vectors, each element taking its own number
   of steps, of the same arithmetic as one alone. Elements that need another way are computed alone.
   Of y = turn x - back the polynomial of degree 0 is 1, that of degree 1 is first y + constant, and
   p(k + 1) = ((slope y + rise k) p(k) - last p(k - 1)) share; slope, last and share may depend on k. */
typedef struct polynomial {
    double turn, back, first, constant;
    double slope, slope_of_k, rise, last, last_of_k;
    bool shared, ends; /* share is 1 / (k + 1), not 1; elements whose y is 1 or -1 are computed alone */
    bool shifted;      /* alone takes y, not x */
    double (*alone)(double x, double degree);
} polynomial;
/* Which lanes of a vector, and those of a where they are, else of b. */
#if FAC_ISA_LEVEL >= 2
typedef __mmask8 which;
#define LANES_OF(a, op, b) _mm512_cmp_pd_mask((__m512d)(a), (__m512d)(b), op)
#define AT_LEAST _CMP_GE_OQ
#define ABOVE _CMP_GT_OQ
#define EQUAL _CMP_EQ_OQ
static inline fac_vf64 chosen(which lanes, fac_vf64 a, fac_vf64 b) {
    return (fac_vf64)_mm512_mask_blend_pd(lanes, (__m512d)b, (__m512d)a);
}
/* Not NaN, if b is not. */
static inline fac_vf64 larger(fac_vf64 a, fac_vf64 b) { return (fac_vf64)_mm512_max_pd((__m512d)a, (__m512d)b); }
static inline bool any_of(which lanes) { return lanes != 0; }
#else
typedef int64_t which __attribute__((vector_size(FAC_VECTOR_BYTES)));
#define LANES_OF(a, op, b) ((a)op(b))
#define AT_LEAST >=
#define ABOVE >
#define EQUAL ==
static inline fac_vf64 chosen(which lanes, fac_vf64 a, fac_vf64 b) {
    return (fac_vf64)((lanes & (which)a) | (~lanes & (which)b));
}
static inline fac_vf64 larger(fac_vf64 a, fac_vf64 b) { return chosen(a > b, a, b); }
static inline bool any_of(which lanes) {
    int64_t any = 0;
    for (int j = 0; j < LANES; j++) any |= lanes[j];
    return any != 0;
}
#endif

/* Up to degree `most`. */
static __attribute__((noinline)) void recur(const polynomial *k, const double *x, const double *degree, double *out,
                                            int64_t n, double most) {
    const fac_vf64 one = fac_splat_f64(1);
    for (int64_t i = 0; i < n; i += LANES) {
        const fac_vf64 y = k->turn * fac_load_f64(x + i) - k->back, d = fac_load_f64(degree + i);
        fac_vf64 before = one, now = chosen(LANES_OF(d, ABOVE, one - 2), one, one - 1);
        now = chosen(LANES_OF(d, AT_LEAST, one), k->first * y + k->constant, now);
        for (double step = 1; step < most; step += 1) {
            const double slope = k->slope + k->slope_of_k * step, last = k->last + k->last_of_k * step,
                         share = k->shared ? 1 / (step + 1) : 1;
            const fac_vf64 by = k->rise != 0 ? k->rise * step + slope * y : slope * y;
            const fac_vf64 next = fac_fma_f64(by, now, -last * before) * share;
            const which more = LANES_OF(d, AT_LEAST, fac_splat_f64(step + 1));
            before = chosen(more, now, before);
            now = chosen(more, next, now);
        }
        fac_store_f64(out + i, now);
    }
}
static __attribute__((noinline)) void run_polynomial(char *const *p, int64_t n, const polynomial *k) {
    enum { LOW_DEGREE = 16 };
    double *out = FAC_OPERAND(0, double);
    const double *x = FAC_OPERAND(1, const double), *degree = FAC_OPERAND(2, const double);
    const fac_vf64 one = fac_splat_f64(1);
    fac_vf64 most = {0};
    which ends = {0};
    n = WHOLE(n);
    for (int64_t i = 0; i < n; i += LANES) most = larger(fac_load_f64(degree + i), most);
    for (int64_t i = 0; k->ends && i < n; i += LANES) {
        const fac_vf64 y = k->turn * fac_load_f64(x + i) - k->back;
        ends |= LANES_OF(y, EQUAL, one) | LANES_OF(y, EQUAL, -one);
    }
    double highest = 0;
    for (int j = 0; j < LANES; j++) highest = most[j] > highest ? most[j] : highest;
    recur(k, x, degree, out, n, highest > LOW_DEGREE ? LOW_DEGREE : trunc(highest));
    const bool alone = highest > LOW_DEGREE || any_of(ends);
    for (int64_t i = 0; alone && i < n; i++) {
        const double y = k->turn * x[i] - k->back;
        if ((k->ends && fabs(y) == 1) || degree[i] > LOW_DEGREE) out[i] = k->alone(k->shifted ? y : x[i], degree[i]);
    }
}

/* X(name, formula, turn, back, first, constant, recurrence): -0.0 leaves the sign of 0. */
#define CHEBYSHEV .slope = 2, .last = 1
#define POLYNOMIALS(X)                                                                                              \
    X(chebyshev_t, chebyshev_t, 1, 0, 1, -0.0, CHEBYSHEV)                                                           \
    X(chebyshev_u, chebyshev_u, 1, 0, 2, -0.0, CHEBYSHEV)                                                           \
    X(chebyshev_v, chebyshev_v, 1, 0, 2, -1, CHEBYSHEV)                                                             \
    X(chebyshev_w, chebyshev_w, 1, 0, 2, 1, CHEBYSHEV)                                                              \
    X(shifted_chebyshev_t, chebyshev_t, 2, 1, 1, -0.0, CHEBYSHEV, .shifted = true)                                  \
    X(shifted_chebyshev_u, chebyshev_u, 2, 1, 2, -0.0, CHEBYSHEV, .shifted = true)                                  \
    X(shifted_chebyshev_v, chebyshev_v, 2, 1, 2, -1, CHEBYSHEV, .shifted = true)                                    \
    X(shifted_chebyshev_w, chebyshev_w, 2, 1, 2, 1, CHEBYSHEV, .shifted = true)                                     \
    X(legendre, legendre, 1, 0, 1, -0.0, .slope = 1, .slope_of_k = 2, .last_of_k = 1, .shared = true, .ends = true) \
    X(hermite_h, hermite_h, 1, 0, 2, -0.0, .slope = 2, .last_of_k = 2)                                              \
    X(hermite_he, hermite_he, 1, 0, 1, -0.0, .slope = 1, .last_of_k = 1)                                            \
    X(laguerre, laguerre, -1, -1, 1, -0.0, .slope = 1, .rise = 2, .last_of_k = 1, .shared = true, .ends = true)
#define POLYNOMIAL_LOOP(name, formula, turned, moved, of_y, plus, ...)                                      \
    static const polynomial of_##name = {.turn = (turned),                                                  \
                                         .back = (moved),                                                   \
                                         .first = (of_y),                                                   \
                                         .constant = (plus),                                                \
                                         .alone = fac__wide_##formula,                                      \
                                         __VA_ARGS__};                                                      \
    static void wide_##name(char *const *p, int64_t n, const fac_loop_args *args __attribute__((unused))) { \
        run_polynomial(p, n, &of_##name);                                                                   \
    }
POLYNOMIALS(POLYNOMIAL_LOOP)

/* ---- loops over tensors' elements ---------------------------------------------------------------------------------------------- */

/* Elements are copied where there is room for whole vectors, zeros, which every function takes, after the last ones. */
typedef struct room {
    double in[2][MOST], out[MOST];
    char *p[3];
} room;
#define IN_PIECES(T, name)                                                                                       \
    static __attribute__((noinline)) void name(char *const *p, int64_t n, const fac_loop_args *args, int inputs, \
                                               fac_loop wide) {                                                  \
        room r;                                                                                                  \
        T piece[MOST];                                                                                           \
        r.p[0] = (char *)r.out, r.p[1] = (char *)r.in[0], r.p[2] = (char *)r.in[1];                              \
        for (int64_t done = 0, m; done < n; done += m) {                                                         \
            m = fac__min(n - done, MOST);                                                                        \
            const int64_t whole = WHOLE(m);                                                                      \
            const size_t bytes = (size_t)m * sizeof(T);                                                          \
            for (int k = 0; k < inputs; k++) {                                                                   \
                const T *a = FAC_OPERAND(k + 1, const T) + done;                                                 \
                if (m < whole)                                                                                   \
                    memcpy(piece, a, bytes), memset(piece + m, 0, (size_t)(whole - m) * sizeof(T)), a = piece;   \
                for (int64_t i = 0; i < whole; i++) r.in[k][i] = (double)a[i];                                   \
            }                                                                                                    \
            wide(r.p, m, args);                                                                                  \
            T *out = FAC_OPERAND(0, T) + done, *to = m < whole ? piece : out;                                    \
            for (int64_t i = 0; i < whole; i++) to[i] = (T)r.out[i];                                             \
            if (m < whole) memcpy(out, piece, bytes);                                                            \
        }                                                                                                        \
    }
IN_PIECES(float, floats)
IN_PIECES(double, doubles)

#define LOOP(name, wide, pieces, inputs) \
    static void name(char *const *p, int64_t n, const fac_loop_args *args) { pieces(p, n, args, inputs, wide); }
#define BOTH_LOOPS(name, result, inputs, numbers)    \
    LOOP(name##_of_f32, wide_##name, floats, inputs) \
    LOOP(name##_of_f64, wide_##name, doubles, inputs)
FAC_LOOPS_SPECIAL(BOTH_LOOPS)
FAC_LOOPS_SUMS(BOTH_LOOPS)
FAC_LOOPS_POLYNOMIALS(BOTH_LOOPS)
LOOP(erfinv_single_of_f32, wide_erfinv_single, floats, 1)
LOOP(i1e_single_of_f32, wide_i1e_single, floats, 1)
LOOP(igamma_single_of_f32, wide_igamma_single, floats, 2)
LOOP(igammac_single_of_f32, wide_igammac_single, floats, 2)
BOTH_LOOPS(j0, VALUE, 1, 0)
BOTH_LOOPS(j1, VALUE, 1, 0)
BOTH_LOOPS(y0, VALUE, 1, 0)
BOTH_LOOPS(y1, VALUE, 1, 0)

void FAC_ISA_NAME(fac__install_special)(fac_loop (*table)[FAC_DTYPE_COUNT]) {
#define INSTALL_AS(name, f32, f64) table[FAC_LOOP_##name][FAC_F32] = f32, table[FAC_LOOP_##name][FAC_F64] = f64;
#define INSTALL(name, ...) INSTALL_AS(name, name##_of_f32, name##_of_f64)
    FAC_LOOPS_SPECIAL(INSTALL)
    FAC_LOOPS_SUMS(INSTALL)
    FAC_LOOPS_POLYNOMIALS(INSTALL)
    INSTALL_AS(erfinv, erfinv_single_of_f32, erfinv_of_f64)
    INSTALL_AS(i1e, i1e_single_of_f32, i1e_of_f64)
    INSTALL_AS(igamma, igamma_single_of_f32, igamma_of_f64)
    INSTALL_AS(igammac, igammac_single_of_f32, igammac_of_f64)
    INSTALL_AS(bessel_j0, j0_of_f32, j0_of_f64)
    INSTALL_AS(bessel_j1, j1_of_f32, j1_of_f64)
    INSTALL_AS(bessel_y0, y0_of_f32, y0_of_f64)
    INSTALL_AS(bessel_y1, y1_of_f32, y1_of_f64)
}
