/* Special functions: values against 40 digits, identities between them, edges as PyTorch's, gradients against differences, and what
   is refused; and the operators over the parts of numbers. */
#include "special_cases.h"
#include "support/support.h"

#include <facula/facula.h>
#include <math.h>
#include <stdlib.h>

typedef struct point {
    double x, y;
} point;

/* ---- values ---------------------------------------------------------------------------------------------------------------- */

static fac_tensor *trigamma(fac_tensor *x) { return fac_polygamma(1, x); }
static fac_tensor *polygamma_2(fac_tensor *x) { return fac_polygamma(2, x); }
static fac_tensor *polygamma_5(fac_tensor *x) { return fac_polygamma(5, x); }
static fac_tensor *mvlgamma_3(fac_tensor *x) { return fac_mvlgamma(x, 3); }
static fac_tensor *zeta_3(fac_tensor *x) { return fac_special_zeta_self_scalar(FAC_SCALAR(3), x); }
static fac_tensor *zeta_from_1(fac_tensor *x) { return fac_special_zeta_other_scalar(x, FAC_SCALAR(1)); }
static fac_tensor *order(fac_tensor *x, double a) { return fac_full_like(x, FAC_SCALAR(a)); }
static fac_tensor *igamma_half(fac_tensor *x) { return fac_igamma(order(x, 0.5), x); }
static fac_tensor *igamma_30(fac_tensor *x) { return fac_igamma(order(x, 30), x); }
static fac_tensor *igammac_small(fac_tensor *x) { return fac_igammac(order(x, 0.125), x); }
static fac_tensor *igammac_30(fac_tensor *x) { return fac_igammac(order(x, 30), x); }
static fac_tensor *igammac_1000(fac_tensor *x) { return fac_igammac(order(x, 1000), x); }

static fac_tensor *digamma(fac_tensor *x) { return fac_digamma(x); }
static fac_tensor *erfinv(fac_tensor *x) { return fac_erfinv(x); }
static fac_tensor *i0(fac_tensor *x) { return fac_i0(x); }
static fac_tensor *log_gamma(fac_tensor *x) { return fac_lgamma(x); }
#define SPECIAL(name) \
    static fac_tensor *special_##name(fac_tensor *x) { return fac_special_##name(x); }
SPECIAL(ndtri)
SPECIAL(log_ndtr)
SPECIAL(erfcx)
SPECIAL(entr)
SPECIAL(i0e)
SPECIAL(i1)
SPECIAL(i1e)
SPECIAL(modified_bessel_k0)
SPECIAL(modified_bessel_k1)
SPECIAL(scaled_modified_bessel_k0)
SPECIAL(scaled_modified_bessel_k1)
SPECIAL(bessel_j0)
SPECIAL(bessel_j1)
SPECIAL(bessel_y0)
SPECIAL(bessel_y1)
SPECIAL(spherical_bessel_j0)
SPECIAL(airy_ai)

/* The C library has functions called lgamma and erfinv's kin: the table's names are those above. */
#define lgamma log_gamma

#define POINTS(name, ...) static const point points_##name[] = {__VA_ARGS__};
SPECIAL_CASES(POINTS)

static const struct {
    const char *name;
    fac_tensor *(*fn)(fac_tensor *);
    const point *points;
    size_t n;
} functions[] = {
#define ROW(name, ...) {#name, name, points_##name, FAC_COUNT(points_##name)},
    SPECIAL_CASES(ROW)};

/* Long and odd tensors, so that a point stands in vectors and behind them. */
enum { REPEATED = 67 };

static void check_values(fac_dtype dtype, double relative, double absolute) {
    for (size_t f = 0; f < FAC_COUNT(functions); f++)
        for (size_t i = 0; i < functions[f].n; i++) {
            FAC_SCOPE(s);
            const point p = functions[f].points[i];
            if (dtype == FAC_F32 && (float)p.x != p.x) continue; /* below the range of single precision */
            double got[REPEATED];
            fac_tensor *x = fac_full(FAC_INTS(REPEATED), p.x, .dtype = dtype);
            assert_ok(fac_tensor_read(functions[f].fn(x), FAC_F64, got, REPEATED));
            const double want = dtype == FAC_F32 ? (double)(float)p.y : p.y;
            const double allowed = isinf(want) ? 0 : fabs(want) * relative + absolute;
            for (int k = 0; k < REPEATED; k++)
                if (!(got[k] == want || fabs(got[k] - want) <= allowed))
                    fail_msg("%s(%.17g) is %.17g, not %.17g", functions[f].name, p.x, got[k], want);
        }
}

static void values_in_double_precision_are_near_their_last_places(void **state) {
    (void)state;
    check_values(FAC_F64, 4e-14, 1e-15);
}
static void values_in_single_precision_are_within_two_last_places(void **state) {
    (void)state;
    check_values(FAC_F32, 2.4e-7, 1e-38);
}
static void values_of_halves_are_those_of_single_precision_rounded_once(void **state) {
    (void)state;
    FAC_SCOPE(s);
    static const fac_dtype halves[] = {FAC_F16, FAC_BF16};
    for (size_t f = 0; f < FAC_COUNT(functions); f++)
        for (size_t h = 0; h < 2; h++) {
            fac_tensor *x = fac_to_dtype(fac_linspace(0.25, 0.75, 9), halves[h]), *wide = fac_to_dtype(x, FAC_F32);
            fac_tensor *got = functions[f].fn(x), *want = fac_to_dtype(functions[f].fn(wide), halves[h]);
            assert_int_equal(fac_tensor_dtype(got), halves[h]);
            assert_true(fac_equal(fac_isnan(got), fac_isnan(want)));
            if (!fac_equal(fac_nan_to_num(got), fac_nan_to_num(want))) fail_msg("%s", functions[f].name);
        }
}

/* ---- edges ------------------------------------------------------------------------------------------------------------------- */

#define N NAN
#define I INFINITY
enum { EDGES = 9 };
static const double edges[EDGES] = {NAN, INFINITY, -INFINITY, 0.0, -0.0, 1, -1, -2, 2};
/* As PyTorch 2 has them, but for trigamma at -1 and -2, where it is huge instead of infinite; NAN stands for any, and 9 for a
   value that the tables above check. */
static const struct {
    const char *name;
    fac_tensor *(*fn)(fac_tensor *);
    double y[EDGES];
} at_edges[] = {
    {"lgamma", log_gamma, {N, I, I, I, I, 0, I, I, 0}},
    {"digamma", digamma, {N, I, N, -I, I, 9, N, N, 9}},
    {"trigamma", trigamma, {N, 0, N, I, I, 9, I, I, 9}},
    {"polygamma_2", polygamma_2, {N, N, -I, -I, -I, 9, -I, -I, 9}},
    {"polygamma_5", polygamma_5, {N, N, I, I, I, 9, I, I, 9}},
    {"erfinv", erfinv, {N, N, N, 0, -0.0, I, -I, N, N}},
    {"ndtri", special_ndtri, {N, N, N, -I, -I, I, N, N, N}},
    {"log_ndtr", special_log_ndtr, {N, -0.0, -I, 9, 9, 9, 9, 9, 9}},
    {"erfcx", special_erfcx, {N, 0, I, 1, 1, 9, 9, 9, 9}},
    {"entr", special_entr, {N, -I, -I, 0, 0, -0.0, -I, -I, 9}},
    {"i0", i0, {N, N, N, 1, 1, 9, 9, 9, 9}},
    {"i0e", special_i0e, {N, 0, 0, 1, 1, 9, 9, 9, 9}},
    {"i1", special_i1, {N, N, N, 0, -0.0, 9, 9, 9, 9}},
    {"i1e", special_i1e, {N, 0, -0.0, 0, -0.0, 9, 9, 9, 9}},
    {"j0", special_bessel_j0, {N, N, N, 1, 1, 9, 9, 9, 9}},
    {"j1", special_bessel_j1, {N, N, N, 0, -0.0, 9, 9, 9, 9}},
    {"y0", special_bessel_y0, {N, N, N, -I, -I, 9, N, N, 9}},
    {"y1", special_bessel_y1, {N, N, N, -I, -I, 9, N, N, 9}},
    {"k0", special_modified_bessel_k0, {N, 0, N, I, I, 9, N, N, 9}},
    {"k1", special_modified_bessel_k1, {N, 0, N, I, I, 9, N, N, 9}},
    {"k0e", special_scaled_modified_bessel_k0, {N, 0, N, I, I, 9, N, N, 9}},
    {"k1e", special_scaled_modified_bessel_k1, {N, 0, N, I, I, 9, N, N, 9}},
    {"spherical_j0", special_spherical_bessel_j0, {N, 0, 0, 1, 1, 9, 9, 9, 9}},
    {"airy_ai", special_airy_ai, {N, N, N, 9, 9, 9, 9, 9, 9}},
};

static void edges_are_as_in_pytorch(void **state) {
    (void)state;
    static const fac_dtype dtypes[] = {FAC_F32, FAC_F64, FAC_BF16};
    for (size_t f = 0; f < FAC_COUNT(at_edges); f++)
        for (size_t d = 0; d < FAC_COUNT(dtypes); d++) {
            FAC_SCOPE(s);
            double got[EDGES];
            fac_tensor *x = fac_to_dtype(fac_tensor_from(edges, FAC_F64, FAC_INTS(EDGES)), dtypes[d]);
            assert_ok(fac_tensor_read(at_edges[f].fn(x), FAC_F64, got, EDGES));
            for (int i = 0; i < EDGES; i++) {
                const double want = at_edges[f].y[i];
                const bool right =
                    want == 9 ? isfinite(got[i])
                              : (isnan(want) ? isnan(got[i]) : got[i] == want && signbit(got[i]) == signbit(want));
                if (!right) fail_msg("%s(%g) is %g, not %g", at_edges[f].name, edges[i], got[i], want);
            }
        }
}

#undef N
#undef I

static double number(fac_tensor *t) {
    double v = NAN;
    assert_ok(fac_tensor_read(t, FAC_F64, &v, 1));
    return v;
}
static fac_tensor *real(double x) { return fac_tensor_from(&x, FAC_F64, (fac_ints){0}); }

static void incomplete_gamma_at_edges_is_as_in_pytorch(void **state) {
    (void)state;
    static const struct {
        double a, x, p, q;
    } rows[] = {{1, 0, 0, 1},        {0, 0, NAN, NAN},     {0, 1, 1, 0},
                {1, INFINITY, 1, 0}, {INFINITY, 1, 0, 1},  {INFINITY, INFINITY, NAN, NAN},
                {-1, 1, NAN, NAN},   {1, -1, NAN, NAN},    {NAN, 1, NAN, NAN},
                {1, NAN, NAN, NAN},  {NAN, INFINITY, 1, 0}};
    for (size_t i = 0; i < FAC_COUNT(rows); i++) {
        FAC_SCOPE(s);
        const double p = number(fac_igamma(real(rows[i].a), real(rows[i].x))),
                     q = number(fac_igammac(real(rows[i].a), real(rows[i].x)));
        assert_true(isnan(rows[i].p) ? isnan(p) && isnan(q) : p == rows[i].p && q == rows[i].q);
    }
}
static void incomplete_gamma_functions_add_up_to_one(void **state) {
    (void)state;
    for (double a = 1e-6; a < 2e4; a *= 1.37)
        for (double r = 0.01; r < 20; r *= 1.21) {
            FAC_SCOPE(s);
            const double p = number(fac_igamma(real(a), real(a * r))), q = number(fac_igammac(real(a), real(a * r)));
            assert_true(p >= 0 && q >= 0 && fabs(p + q - 1) < 1e-13);
        }
}
static void zeta_at_edges_is_as_in_pytorch(void **state) {
    (void)state;
    FAC_SCOPE(s);
    assert_true(isinf(number(fac_special_zeta(real(1), real(2)))));
    assert_true(isnan(number(fac_special_zeta(real(0.5), real(2)))));
    assert_true(isnan(number(fac_special_zeta(real(NAN), real(2)))));
    assert_true(isinf(number(fac_special_zeta(real(3), real(-2)))));
    assert_true(isinf(number(fac_special_zeta(real(3), real(0)))));
    assert_true(isnan(number(fac_special_zeta(real(2.5), real(-1.5)))));
    /* far to the left, where adding up to 0 would take hours: zeta(2, a) is nearly pi^2 / sin(pi a)^2 */
    assert_true(fabs(number(fac_special_zeta(real(2), real(-1e12 - 0.5))) - 9.8696044010893586) < 1e-11);
    assert_true(fabs(number(fac_special_zeta(real(2), real(1))) - 1.6449340668482264) < 1e-15);
    /* little left of 0, and between whole numbers: 7 zeta(3) - 8 */
    assert_true(fabs(number(fac_special_zeta(real(3), real(-1e-20))) * 1e-60 + 1) < 1e-15);
    assert_true(fabs(number(fac_special_zeta(real(3), real(-0.5))) - 0.41439832211716) < 1e-14);
}

/* ---- polynomials ---------------------------------------------------------------------------------------------------------------- */

typedef fac_tensor *(*polynomial)(fac_tensor *, fac_tensor *);
#define POLYNOMIALS(X)                \
    X(chebyshev_polynomial_t)         \
    X(chebyshev_polynomial_u)         \
    X(chebyshev_polynomial_v)         \
    X(chebyshev_polynomial_w)         \
    X(shifted_chebyshev_polynomial_t) \
    X(shifted_chebyshev_polynomial_u) \
    X(shifted_chebyshev_polynomial_v) \
    X(shifted_chebyshev_polynomial_w) \
    X(hermite_polynomial_h) X(hermite_polynomial_he) X(laguerre_polynomial_l) X(legendre_polynomial_p)
/* Each by three overloads, which must agree to the last bit. */
#define POLYNOMIAL(name)                                                                                 \
    static fac_tensor *name(fac_tensor *x, fac_tensor *n) {                                              \
        fac_tensor *y = fac_special_##name(x, n);                                                        \
        const double a = number(y), b = number(fac_special_##name##_x_scalar(FAC_SCALAR(number(x)), n)), \
                     c = number(fac_special_##name##_n_scalar(x, FAC_SCALAR(number(n))));                \
        assert_true((a == b && a == c) || (isnan(a) && isnan(b) && isnan(c)));                           \
        return y;                                                                                        \
    }
POLYNOMIALS(POLYNOMIAL)

/* Degree 3 by its coefficients of 1, x, x^2 and x^3 (DLMF table 18.3.1 and its like), and whether x is replaced by 2x - 1. */
static const struct {
    const char *name;
    polynomial fn;
    double c[4];
    bool shifted;
} polynomials[] = {
    {"t", chebyshev_polynomial_t, {0, -3, 0, 4}, false},
    {"u", chebyshev_polynomial_u, {0, -4, 0, 8}, false},
    {"v", chebyshev_polynomial_v, {1, -4, -4, 8}, false},
    {"w", chebyshev_polynomial_w, {-1, -4, 4, 8}, false},
    {"shifted t", shifted_chebyshev_polynomial_t, {0, -3, 0, 4}, true},
    {"shifted u", shifted_chebyshev_polynomial_u, {0, -4, 0, 8}, true},
    {"shifted v", shifted_chebyshev_polynomial_v, {1, -4, -4, 8}, true},
    {"shifted w", shifted_chebyshev_polynomial_w, {-1, -4, 4, 8}, true},
    {"h", hermite_polynomial_h, {0, -12, 0, 8}, false},
    {"he", hermite_polynomial_he, {0, -3, 0, 1}, false},
    {"l", laguerre_polynomial_l, {1, -3, 1.5, -1.0 / 6}, false},
    {"p", legendre_polynomial_p, {0, -1.5, 0, 2.5}, false},
};

static void polynomials_of_degree_three_have_their_coefficients(void **state) {
    (void)state;
    for (size_t i = 0; i < FAC_COUNT(polynomials); i++)
        for (double x = -2; x <= 2; x += 0.25) {
            FAC_SCOPE(s);
            const double *c = polynomials[i].c, y = polynomials[i].shifted ? 2 * x - 1 : x;
            const double want = c[0] + y * (c[1] + y * (c[2] + y * c[3])),
                         got = number(polynomials[i].fn(real(x), real(3)));
            if (!(fabs(got - want) <= 1e-14 * (1 + fabs(want))))
                fail_msg("%s(%g) is %g, not %g", polynomials[i].name, x, got, want);
        }
}
static void polynomials_of_other_degrees_are_as_in_pytorch(void **state) {
    (void)state;
    for (size_t i = 0; i < FAC_COUNT(polynomials); i++) {
        FAC_SCOPE(s);
        const polynomial p = polynomials[i].fn;
        assert_true(number(p(real(0.3), real(-1))) == 0 && number(p(real(0.3), real(-0.5))) == 1);
        assert_true(number(p(real(NAN), real(0))) == 1 && number(p(real(0.3), real(NAN))) == 0);
        assert_true(isnan(number(p(real(NAN), real(2)))) && isnan(number(p(real(3), real(1e300)))));
        assert_true(number(p(real(0.3), real(2.9))) == number(p(real(0.3), real(2))));
    }
}
static void chebyshev_polynomials_are_cosines(void **state) {
    (void)state;
    static const double ends[] = {-1, 1};
    for (int n = 0; n < 40; n++) {
        FAC_SCOPE(s);
        for (double a = 0.1; a < 3; a += 0.3) {
            assert_true(fabs(number(chebyshev_polynomial_t(real(cos(a)), real(n))) - cos(n * a)) < 1e-12);
            assert_true(fabs(number(chebyshev_polynomial_u(real(cos(a)), real(n))) - sin((n + 1) * a) / sin(a)) <
                        1e-10);
        }
        assert_true(fabs(number(chebyshev_polynomial_t(real(1.25), real(n))) / cosh(n * acosh(1.25)) - 1) < 1e-13);
        for (int e = 0; e < 2; e++) {
            const double sign = e == 0 && n % 2 ? -1 : 1;
            assert_true(number(chebyshev_polynomial_t(real(ends[e]), real(n))) == sign);
            assert_true(number(chebyshev_polynomial_u(real(ends[e]), real(n))) == sign * (n + 1));
            assert_true(number(chebyshev_polynomial_v(real(ends[e]), real(n))) == (e ? 1 : sign * (2 * n + 1)));
            assert_true(number(chebyshev_polynomial_w(real(ends[e]), real(n))) == (e ? 2 * n + 1 : sign));
            assert_true(number(legendre_polynomial_p(real(ends[e]), real(n))) == sign);
        }
    }
}

/* ---- parts of numbers --------------------------------------------------------------------------------------------------------- */

static void signbit_sees_zeros_and_nan(void **state) {
    (void)state;
    FAC_SCOPE(s);
    bool v[5];
    assert_ok(fac_tensor_read(fac_signbit(fac_tensor_of(-0.0f, 0, -1, copysignf(NAN, -1), INFINITY)), FAC_BOOL, v, 5));
    assert_true(v[0] && !v[1] && v[2] && v[3] && !v[4]);
    const int64_t n[3] = {-1, 0, INT64_MIN};
    assert_ok(fac_tensor_read(fac_signbit(fac_tensor_from(n, FAC_I64, FAC_INTS(3))), FAC_BOOL, v, 3));
    assert_true(v[0] && !v[1] && v[2]);
    assert_null(fac_signbit(fac_to_dtype(fac_tensor_of(1), FAC_C64)));
    assert_error(FAC_ERR_DTYPE, "not implemented for complex tensors");
}
static void copysign_takes_the_sign_of_zero(void **state) {
    (void)state;
    FAC_SCOPE(s);
    float v[3];
    assert_ok(fac_tensor_read(fac_copysign(fac_tensor_of(1, -2, NAN), fac_tensor_of(-0.0f, 0.0f, -1)), FAC_F32, v, 3));
    assert_true(v[0] == -1 && v[1] == 2 && isnan(v[2]) && signbit(v[2]));
    const int64_t n[2] = {3, -4};
    fac_tensor *y = fac_copysign(fac_tensor_from(n, FAC_I64, FAC_INTS(2)), FAC_SCALAR(-0.0));
    assert_int_equal(fac_tensor_dtype(y), FAC_F32);
    assert_ok(fac_tensor_read(y, FAC_F32, v, 2));
    assert_true(v[0] == -3 && v[1] == -4);
}

/* Every neighbour of a half is found by counting its bits. */
static void check_neighbours(fac_dtype dtype, fac_dtype infinity_bits) {
    enum { ALL = 65536 };
    FAC_SCOPE(s);
    int16_t *bits = malloc(2 * ALL * sizeof *bits), *up = bits + ALL;
    assert_non_null(bits);
    for (int i = 0; i < ALL; i++) bits[i] = (int16_t)i;
    fac_tensor *x = fac_view_dtype(fac_tensor_from(bits, FAC_I16, FAC_INTS(ALL)), dtype);
    fac_tensor *y = fac_nextafter(x, fac_full_like(x, FAC_SCALAR(INFINITY)));
    assert_ok(fac_tensor_read(fac_view_dtype(y, FAC_I16), FAC_I16, up, ALL));
    for (int i = 0; i < ALL; i++) {
        const int size = i & 0x7fff;
        const bool negative = i & 0x8000;
        const int want = size == 0 ? 1 : negative ? i - 1 : size == (int)infinity_bits ? i : i + 1;
        if (size <= (int)infinity_bits) assert_int_equal((uint16_t)up[i], want);
        if (size > (int)infinity_bits) assert_true(((uint16_t)up[i] & 0x7fff) > (int)infinity_bits);
    }
    free(bits);
}
static void nextafter_finds_every_neighbour_of_halves(void **state) {
    (void)state;
    check_neighbours(FAC_F16, (fac_dtype)0x7c00);
    check_neighbours(FAC_BF16, (fac_dtype)0x7f80);
}
static void nextafter_in_f32_and_f64_is_the_c_librarys(void **state) {
    (void)state;
    static const double from[] = {0, -0.0, 1, -1, 1e-45, INFINITY, 3e38}, to[] = {1, -1, 2, 2, -1, 0, INFINITY};
    for (size_t i = 0; i < FAC_COUNT(from); i++) {
        FAC_SCOPE(s);
        assert_true(number(fac_nextafter(real(from[i]), real(to[i]))) == nextafter(from[i], to[i]));
        const float a = (float)from[i], b = (float)to[i];
        assert_true(number(fac_nextafter(fac_tensor_of(a), fac_tensor_of(b))) == (double)nextafterf(a, b));
    }
    FAC_SCOPE(s);
    assert_null(fac_nextafter(fac_ones(FAC_INTS(2), .dtype = FAC_I32), fac_ones(FAC_INTS(2), .dtype = FAC_I32)));
    assert_error(FAC_ERR_DTYPE, "not implemented for 'int32'");
}
static void frexp_gives_mantissa_and_exponent(void **state) {
    (void)state;
    static const fac_dtype dtypes[] = {FAC_F16, FAC_BF16, FAC_F32, FAC_F64};
    for (size_t d = 0; d < FAC_COUNT(dtypes); d++) {
        FAC_SCOPE(s);
        static const double x[6] = {0, 1, -6, 0.375, INFINITY, -1024}, m[6] = {0, 0.5, -0.75, 0.75, INFINITY, -0.5};
        static const int32_t e[6] = {0, 1, 3, -1, 0, 11};
        double mantissa[6];
        int32_t exponent[6];
        fac_frexp_result r = fac_frexp(fac_to_dtype(fac_tensor_from(x, FAC_F64, FAC_INTS(6)), dtypes[d]));
        assert_int_equal(fac_tensor_dtype(r.mantissa), dtypes[d]);
        assert_int_equal(fac_tensor_dtype(r.exponent), FAC_I32);
        assert_ok(fac_tensor_read(r.mantissa, FAC_F64, mantissa, 6));
        assert_ok(fac_tensor_read(r.exponent, FAC_I32, exponent, 6));
        for (int i = 0; i < 6; i++) assert_true(mantissa[i] == m[i] && exponent[i] == e[i]);
    }
    FAC_SCOPE(s);
    assert_null(fac_frexp(fac_ones(FAC_INTS(2), .dtype = FAC_I32)).mantissa);
    assert_error(FAC_ERR_DTYPE, "only floating-point dtypes are supported");
}
static void divisors_and_multiples_are_not_negative(void **state) {
    (void)state;
    static const fac_dtype dtypes[] = {FAC_I8, FAC_I16, FAC_I32, FAC_I64};
    static const int64_t a[6] = {12, -12, 0, 0, 7, -9}, b[6] = {18, 8, 5, 0, -7, -6}, g[6] = {6, 4, 5, 0, 7, 3},
                         l[6] = {36, 24, 0, 0, 7, 18};
    for (size_t d = 0; d < FAC_COUNT(dtypes); d++) {
        FAC_SCOPE(s);
        fac_tensor *x = fac_to_dtype(fac_tensor_from(a, FAC_I64, FAC_INTS(6)), dtypes[d]),
                   *y = fac_to_dtype(fac_tensor_from(b, FAC_I64, FAC_INTS(6)), dtypes[d]);
        int64_t v[6];
        assert_ok(fac_tensor_read(fac_gcd(x, y), FAC_I64, v, 6));
        assert_memory_equal(v, g, sizeof g);
        assert_ok(fac_tensor_read(fac_lcm(x, y), FAC_I64, v, 6));
        assert_memory_equal(v, l, sizeof l);
    }
    FAC_SCOPE(s);
    static const int8_t least = INT8_MIN, one = -1;
    fac_tensor *x = fac_tensor_from(&least, FAC_I8, FAC_INTS(1)), *y = fac_tensor_from(&one, FAC_I8, FAC_INTS(1));
    assert_true(number(fac_gcd(x, y)) == 1 && number(fac_gcd(y, x)) == 1 && number(fac_gcd(x, x)) == -128);
    assert_null(fac_gcd(fac_tensor_of(1), fac_tensor_of(2)));
    assert_error(FAC_ERR_DTYPE, "not implemented for 'float32'");
}

/* ---- gradients ------------------------------------------------------------------------------------------------------------------ */

/* X(name, expression over x[0] and x[1], inputs, lowest and highest value) */
/* clang-format off */
#define GRADIENTS(X)                                                                                                    \
    X(lgamma, fac_lgamma(x[0]), 1, 0.3, 4) X(digamma, fac_digamma(x[0]), 1, 0.3, 4) X(polygamma, fac_polygamma(2, x[0]), 1, 1, 4) \
    X(mvlgamma, fac_mvlgamma(x[0], 3), 1, 1.5, 4) X(erfinv, fac_erfinv(x[0]), 1, -0.8, 0.8)                             \
    X(ndtri, fac_special_ndtri(x[0]), 1, 0.2, 0.8) X(log_ndtr, fac_special_log_ndtr(x[0]), 1, -2, 2)                    \
    X(erfcx, fac_special_erfcx(x[0]), 1, -1, 2) X(entr, fac_special_entr(x[0]), 1, 0.3, 3) X(i0, fac_i0(x[0]), 1, 0.2, 2) \
    X(i0e, fac_special_i0e(x[0]), 1, 0.2, 2) X(i1, fac_special_i1(x[0]), 1, 0.2, 2) X(i1e, fac_special_i1e(x[0]), 1, 0.2, 2) \
    X(mi0, fac_special_modified_bessel_i0(x[0]), 1, 0.2, 2) X(mi1, fac_special_modified_bessel_i1(x[0]), 1, 0.2, 2)     \
    X(k0, fac_special_modified_bessel_k0(x[0]), 1, 0.5, 2) X(k1, fac_special_modified_bessel_k1(x[0]), 1, 0.5, 2)       \
    X(k0e, fac_special_scaled_modified_bessel_k0(x[0]), 1, 0.5, 2) X(k1e, fac_special_scaled_modified_bessel_k1(x[0]), 1, 0.5, 2) \
    X(j0, fac_special_bessel_j0(x[0]), 1, 0.2, 2) X(j1, fac_special_bessel_j1(x[0]), 1, 0.2, 2)                         \
    X(y0, fac_special_bessel_y0(x[0]), 1, 0.5, 2) X(y1, fac_special_bessel_y1(x[0]), 1, 0.5, 2)                         \
    X(spherical, fac_special_spherical_bessel_j0(x[0]), 1, 0.5, 2)                                                      \
    X(igamma, fac_igamma(fac_detach(x[1]), x[0]), 1, 0.5, 2) X(igammac, fac_igammac(fac_detach(x[1]), x[0]), 1, 0.5, 2) \
    X(zeta_scalar, fac_special_zeta_self_scalar(FAC_SCALAR(3), x[0]), 1, 0.5, 2)                                                    \
    X(copysign, fac_copysign(x[0], x[1]), 2, 0.5, 2) X(copysign_scalar, fac_copysign(x[0], FAC_SCALAR(-1)), 1, 0.5, 2)  \
    X(frexp, fac_frexp(x[0]).mantissa, 1, 0.55, 0.95)
/* clang-format on */
#define DEFINE(name, expression, count, lo, hi)                                                           \
    static fac_status grad_of_##name(void *context, fac_tensors inputs, fac_tensor **out, size_t n_out) { \
        fac_tensor *x[2] = {inputs.v[0], inputs.n > 1 ? inputs.v[1] : context};                           \
        (void)n_out;                                                                                      \
        out[0] = expression;                                                                              \
        return fac_error();                                                                               \
    }
#undef lgamma
GRADIENTS(DEFINE)

static const struct {
    const char *name;
    fac_func fn;
    size_t n;
    double lo, hi;
} gradients[] = {
#define GRADIENT_ROW(name, expression, n, lo, hi) {#name, grad_of_##name, n, lo, hi},
    GRADIENTS(GRADIENT_ROW)};

static void check_gradients(bool second) {
    for (size_t i = 0; i < FAC_COUNT(gradients); i++) {
        FAC_SCOPE(s);
        fac_tensor *x[2];
        for (int k = 0; k < 2; k++) {
            double v[4];
            for (int j = 0; j < 4; j++)
                v[j] = gradients[i].lo +
                       (gradients[i].hi - gradients[i].lo) * fmod(0.137 + 0.618 * (j + 1) + 0.29 * k, 1.0);
            x[k] = fac_set_requires_grad(fac_tensor_from(v, FAC_F64, FAC_INTS(4)), true);
        }
        fac_tensors inputs = {x, gradients[i].n};
        fac_status st = second ? fac_gradgradcheck(gradients[i].fn, x[1], inputs, 1)
                               : fac_gradcheck(gradients[i].fn, x[1], inputs, 1);
        if (st != FAC_OK) print_error("%s:\n", gradients[i].name);
        assert_no_error();
    }
}
static void gradients_agree_with_differences(void **state) {
    (void)state;
    check_gradients(false);
}
static void second_gradients_agree_with_differences(void **state) {
    (void)state;
    check_gradients(true);
}
static void gradients_at_zero_are_their_limits(void **state) {
    (void)state;
    static fac_tensor *(*const fns[])(fac_tensor *) = {special_i1, special_i1e, special_bessel_j1, i0,
                                                       special_spherical_bessel_j0};
    static const double want[] = {0.5, 0.5, 0.5, 0, 0};
    for (size_t i = 0; i < FAC_COUNT(fns); i++) {
        FAC_SCOPE(s);
        fac_tensor *x = fac_set_requires_grad(real(0), true);
        assert_ok(fac_backward(fns[i](x)));
        assert_true(number(fac_grad_of(x)) == want[i]);
    }
}

/* ---- refused, empty, strided -------------------------------------------------------------------------------------------------------- */

static void what_has_no_value_is_refused(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = fac_tensor_of(1, 2);
    assert_null(fac_polygamma(-1, x));
    assert_error(FAC_ERR_ARGUMENT, "polygamma(n, x) does not support negative n.");
    assert_null(fac_mvlgamma(x, 0));
    assert_error(FAC_ERR_ARGUMENT, "p has to be greater than or equal to 1");
    assert_null(fac_digamma(fac_to_dtype(x, FAC_C64)));
    assert_error(FAC_ERR_DTYPE, "not implemented for 'complex64'");
    assert_null(fac_igamma(fac_to_dtype(x, FAC_I32), fac_to_dtype(x, FAC_I32)));
    assert_error(FAC_ERR_DTYPE, "not implemented for 'int32'");
    fac_tensor *leaf = fac_set_requires_grad(fac_tensor_of(1, 2), true);
    assert_int_not_equal(fac_backward(fac_sum(fac_igamma(leaf, x))), FAC_OK);
    assert_error(FAC_ERR_AUTOGRAD, "no closed form for the order");
}
static void empty_tensors_give_empty_ones(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *none = fac_zeros(FAC_INTS(0, 3));
    for (size_t f = 0; f < FAC_COUNT(functions); f++) assert_int_equal(fac_tensor_numel(functions[f].fn(none)), 0);
    assert_int_equal(fac_tensor_numel(fac_frexp(none).exponent), 0);
}
static void outputs_may_have_gaps_and_integers_become_floating(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *all = fac_zeros(FAC_INTS(6)), *gaps = fac_slice(all, 0, .step = 2);
    const int64_t n[3] = {1, 2, 3};
    fac_tensor *x = fac_tensor_from(n, FAC_I64, FAC_INTS(3));
    assert_non_null(fac_digamma_out(gaps, x));
    float v[6];
    assert_ok(fac_tensor_read(all, FAC_F32, v, 6));
    assert_true(fabsf(v[0] + 0.5772157f) < 1e-7f && fabsf(v[2] - 0.4227843f) < 1e-7f && v[1] == 0 && v[5] == 0);
    assert_int_equal(fac_tensor_dtype(fac_special_i1e(x)), FAC_F32);
}

FAC_TEST_MAIN(FAC_TEST(values_in_double_precision_are_near_their_last_places),
              FAC_TEST(values_in_single_precision_are_within_two_last_places),
              FAC_TEST(values_of_halves_are_those_of_single_precision_rounded_once), FAC_TEST(edges_are_as_in_pytorch),
              FAC_TEST(incomplete_gamma_at_edges_is_as_in_pytorch), FAC_TEST(incomplete_gamma_functions_add_up_to_one),
              FAC_TEST(zeta_at_edges_is_as_in_pytorch), FAC_TEST(polynomials_of_degree_three_have_their_coefficients),
              FAC_TEST(polynomials_of_other_degrees_are_as_in_pytorch), FAC_TEST(chebyshev_polynomials_are_cosines),
              FAC_TEST(signbit_sees_zeros_and_nan), FAC_TEST(copysign_takes_the_sign_of_zero),
              FAC_TEST(nextafter_finds_every_neighbour_of_halves), FAC_TEST(nextafter_in_f32_and_f64_is_the_c_librarys),
              FAC_TEST(frexp_gives_mantissa_and_exponent), FAC_TEST(divisors_and_multiples_are_not_negative),
              FAC_TEST(gradients_agree_with_differences), FAC_TEST(second_gradients_agree_with_differences),
              FAC_TEST(gradients_at_zero_are_their_limits), FAC_TEST(what_has_no_value_is_refused),
              FAC_TEST(empty_tensors_give_empty_ones), FAC_TEST(outputs_may_have_gaps_and_integers_become_floating))
