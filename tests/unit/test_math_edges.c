/* Elementary functions over the whole range of f32, f64, f16 and bf16, against the C library in a wider type: errors in units
   in the last place of the result (ulp). Every exponent is met with many mantissas, and so are zeros, subnormal numbers, the
   largest, infinities and NaN. Each test runs once for every instruction set of the machine; an element must come out the
   same wherever it stands, so tensors are long and odd in length.

   FACULA_TEST_POINTS=all tries all 2^32 numbers of f32. */
#include "support/support.h"

#include "dispatch/operator.h"
#include <facula/facula.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

typedef long double wide;
typedef struct function {
    const char *op;
    wide (*exact)(wide);
    double ulps[2]; /* allowed in f32 and f64 */
} function;

static wide exact_sigmoid(wide x) { return 1 / (1 + expl(-x)); }
static wide exact_log_sigmoid(wide x) { return x < 0 ? x - log1pl(expl(x)) : 0 - log1pl(expl(-x)); }
static wide exact_rsqrt(wide x) { return 1 / sqrtl(x); }
static wide exact_reciprocal(wide x) { return 1 / x; }
static wide exact_square(wide x) { return x * x; }
static wide exact_frac(wide x) { return x - truncl(x); }
static wide exact_round(wide x) { return rintl(x); }

/* clang-format off */
static const function functions[] = {
    {"exp", expl, {1, 1}}, {"exp2", exp2l, {1, 1}}, {"expm1", expm1l, {1, 1}}, {"log", logl, {1, 1}}, {"log2", log2l, {1, 1}},
    {"log10", log10l, {1, 1}}, {"log1p", log1pl, {1, 1}}, {"sin", sinl, {1, 1}}, {"cos", cosl, {1, 1}}, {"tan", tanl, {1, 1}},
    {"asin", asinl, {1, 1}}, {"acos", acosl, {1, 1}}, {"atan", atanl, {1, 1}}, {"sinh", sinhl, {1, 1}}, {"cosh", coshl, {1, 1}},
    {"tanh", tanhl, {1.5, 1.01}}, {"asinh", asinhl, {1.01, 1.01}}, {"acosh", acoshl, {1, 1}}, {"atanh", atanhl, {1.01, 1.01}},
    {"erf", erfl, {1, 1.2}}, {"erfc", erfcl, {1.5, 1.5}}, {"sigmoid", exact_sigmoid, {3, 3}},
    {"log_sigmoid", exact_log_sigmoid, {3, 3}}, {"sqrt", sqrtl, {0.5, 0.5}}, {"rsqrt", exact_rsqrt, {1.5, 1.5}},
    {"reciprocal", exact_reciprocal, {0.5, 0.5}}, {"square", exact_square, {0.5, 0.5}}, {"floor", floorl, {0, 0}},
    {"ceil", ceill, {0, 0}}, {"trunc", truncl, {0, 0}}, {"round", exact_round, {0, 0}}, {"frac", exact_frac, {0, 0}},
};
/* clang-format on */

/* Without SLEEF the functions are the C library's, whose manual promises two units. */
static double allowed(const function *f, int format) {
    const double ulps = f->ulps[format];
    return FAC_HAVE_SLEEF || ulps <= 0.5 ? ulps : fmax(ulps, 2);
}

/* ---- the points ------------------------------------------------------------------------------------------------------------ */

enum { PER_EXPONENT_F32 = 101, PER_EXPONENT_F64 = 13 };

static uint64_t mixed(uint64_t x) {
    x = (x ^ x >> 31) * 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 29) * 0xbf58476d1ce4e5b9u;
    return x ^ x >> 32;
}

static float float_of(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}
static double double_of(uint64_t bits) {
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* Sign and exponent are the upper bits of i; the mantissa is zero, all ones, and then at random. */
static uint64_t mantissa(uint64_t i, uint64_t k) { return k == 0 ? 0 : k == 1 ? ~(uint64_t)0 : mixed(i * 1000 + k); }

static float *points_f32(size_t *n) {
    *n = 512 * PER_EXPONENT_F32;
    float *x = malloc(*n * sizeof *x);
    assert_non_null(x);
    for (size_t i = 0; i < *n; i++) {
        uint32_t top = (uint32_t)(i / PER_EXPONENT_F32);
        x[i] = float_of(top << 23 | ((uint32_t)mantissa(top, i % PER_EXPONENT_F32) & 0x7fffffu));
    }
    return x;
}

static double *points_f64(size_t *n) {
    *n = 4096 * PER_EXPONENT_F64;
    double *x = malloc(*n * sizeof *x);
    assert_non_null(x);
    for (size_t i = 0; i < *n; i++) {
        uint64_t top = i / PER_EXPONENT_F64;
        x[i] = double_of(top << 52 | (mantissa(top, i % PER_EXPONENT_F64) & 0xfffffffffffffu));
    }
    return x;
}

/* ---- errors ------------------------------------------------------------------------------------------------------------------ */

typedef struct format {
    int digits, least; /* bits of the significand; exponent of the smallest subnormal number */
    wide largest;
} format;
static const format f32_format = {24, -149, FLT_MAX}, f64_format = {53, -1074, DBL_MAX}, f16_format = {11, -24, 65504},
                    bf16_format = {8, -133, 0x1.fep127};

/* How far `got` lies from `exact`, in ulps of the format; infinite for NaN or an infinity where there should be none. */
static double error_of(wide got, wide exact, const format *f) {
    if (isnan(got) || isnan(exact)) return isnan(got) && isnan(exact) ? 0 : (double)INFINITY;
    if (got == exact) return 0;
    int exponent;
    (void)frexpl(fminl(fabsl(exact), f->largest), &exponent);
    const wide ulp = ldexpl(1, (int)fmax(exponent - f->digits, f->least));
    const wide beyond = f->largest + ulp; /* infinity stands for the number after the largest */
    if (isinf(got)) got = copysignl(beyond, got);
    if (isinf(exact) || fabsl(exact) > beyond) exact = copysignl(beyond, exact);
    return (double)(fabsl(got - exact) / ulp);
}

typedef struct worst {
    double error;
    wide at, got, exact;
} worst;

static void look(worst *w, const function *of, wide at, wide got, const format *f) {
    const wide exact = of->exact(at);
    /* A sigmoid may vanish instead of becoming subnormal: the exponential below the fraction is infinite there. */
    if (of->exact == exact_sigmoid && got == 0 && fabsl(exact) < ldexpl(1, f->least + f->digits)) return;
    double e = error_of(got, exact, f);
    if (got == 0 && exact == 0 && signbit(got) != signbit(exact)) e = INFINITY;
    if (!(e <= w->error)) *w = (worst){e, at, got, exact};
}

static int judge(const char *op, const char *type, double allowed, const worst *w) {
    if (getenv("FACULA_TEST_PRINT")) print_message("%-12s %-4s %.3f ulp at %La\n", op, type, w->error, w->at);
    if (w->error <= allowed) return 0;
    print_error("%s %s: %.3f ulp (%.2f allowed) at %La = %.9Lg: %.20Lg instead of %.20Lg\n", op, type, w->error,
                allowed, w->at, w->at, w->got, w->exact);
    return 1;
}

/* ---- unary -------------------------------------------------------------------------------------------------------------------- */

static fac_tensor *call(const char *op, fac_tensor *const *t, size_t n) {
    char name[64];
    fac_value args[3], result = {0};
    snprintf(name, sizeof name, "aten::%s", op);
    for (size_t i = 0; i < n; i++) args[i] = fac_value_tensor(t[i]);
    assert_ok(fac_call(name, args, n, &result));
    fac_tensor *y = NULL;
    assert_ok(fac__take_tensor(&result, &y));
    for (size_t i = 0; i < n; i++) fac_value_release(&args[i]);
    return fac__adopt_handle(fac__thread(), y);
}

static void unary_f32(const function *f, const float *x, size_t n, worst *w) {
    FAC_SCOPE(s);
    fac_tensor *in = fac_tensor_from(x, FAC_F32, FAC_INTS((int64_t)n));
    const float *y = fac_tensor_data(call(f->op, &in, 1));
    for (size_t i = 0; i < n; i++) look(w, f, (wide)x[i], (wide)y[i], &f32_format);
}

static void unary_f64(const function *f, const double *x, size_t n, worst *w) {
    FAC_SCOPE(s);
    fac_tensor *in = fac_tensor_from(x, FAC_F64, FAC_INTS((int64_t)n));
    const double *y = fac_tensor_data(call(f->op, &in, 1));
    for (size_t i = 0; i < n; i++) look(w, f, (wide)x[i], (wide)y[i], &f64_format);
}

static bool all_points(void) {
    const char *text = getenv("FACULA_TEST_POINTS");
    return text && strcmp(text, "all") == 0;
}

static void every_f32(const function *f, worst *w) {
    enum { AT_ONCE = 1 << 20 };
    float *x = malloc(AT_ONCE * sizeof *x);
    assert_non_null(x);
    for (uint64_t first = 0; first <= UINT32_MAX; first += AT_ONCE) {
        for (uint32_t i = 0; i < AT_ONCE; i++) x[i] = float_of((uint32_t)first + i);
        unary_f32(f, x, AT_ONCE, w);
    }
    free(x);
}

static void math_f32_is_exact_to_the_last_place_over_its_range(void **state) {
    (void)state;
    size_t n;
    float *x = points_f32(&n);
    int failed = 0;
    for (size_t k = 0; k < FAC_COUNT(functions); k++) {
        worst w = {-1, 0, 0, 0};
        if (all_points())
            every_f32(&functions[k], &w);
        else
            unary_f32(&functions[k], x, n, &w);
        failed += judge(functions[k].op, "f32", allowed(&functions[k], 0), &w);
    }
    free(x);
    assert_int_equal(failed, 0);
}

static void math_f64_is_exact_to_the_last_place_over_its_range(void **state) {
    (void)state;
    size_t n;
    double *x = points_f64(&n);
    int failed = 0;
    for (size_t k = 0; k < FAC_COUNT(functions); k++) {
        worst w = {-1, 0, 0, 0};
        unary_f64(&functions[k], x, n, &w);
        failed += judge(functions[k].op, "f64", allowed(&functions[k], 1), &w);
    }
    free(x);
    assert_int_equal(failed, 0);
}

/* All 65536 numbers of a 16-bit float. */
static void halves(fac_dtype d, const char *type, const format *format) {
    enum { ALL = 65536 };
    FAC_SCOPE(s);
    uint16_t *bits = malloc(ALL * sizeof *bits);
    assert_non_null(bits);
    for (int i = 0; i < ALL; i++) bits[i] = (uint16_t)i;
    fac_tensor *in = fac_tensor_from(bits, d, FAC_INTS(ALL));
    const float *x = fac_tensor_data(fac_to_dtype(in, FAC_F32));
    int failed = 0;
    for (size_t k = 0; k < FAC_COUNT(functions); k++) {
        FAC_SCOPE(inner);
        worst w = {-1, 0, 0, 0};
        const float *y = fac_tensor_data(fac_to_dtype(call(functions[k].op, &in, 1), FAC_F32));
        for (int i = 0; i < ALL; i++) look(&w, &functions[k], (wide)x[i], (wide)y[i], format);
        failed += judge(functions[k].op, type, 0.51, &w);
    }
    free(bits);
    assert_int_equal(failed, 0);
}

static void math_f16_is_rounded_once(void **state) {
    (void)state;
    halves(FAC_F16, "f16", &f16_format);
}
static void math_bf16_is_rounded_once(void **state) {
    (void)state;
    halves(FAC_BF16, "bf16", &bf16_format);
}

static bool same_or_nan(double a, double b) { return isnan(a) ? isnan(b) : a == b && signbit(a) == signbit(b); }
static void mantissas_and_exponents_are_the_c_librarys(void **state) {
    (void)state;
    FAC_SCOPE(s);
    size_t n;
    double *x = points_f64(&n);
    float *narrow = malloc(n * sizeof *narrow);
    assert_non_null(narrow);
    for (size_t i = 0; i < n; i++) narrow[i] = (float)x[i];
    for (int k = 0; k < 2; k++) {
        fac_tensor *t = k ? fac_tensor_from(narrow, FAC_F32, FAC_INTS((int64_t)n))
                          : fac_tensor_from(x, FAC_F64, FAC_INTS((int64_t)n));
        const fac_frexp_result r = fac_frexp(t);
        const double *mantissa = fac_tensor_data(fac_to_dtype(r.mantissa, FAC_F64));
        const int *exponent = fac_tensor_data(r.exponent);
        for (size_t i = 0; i < n; i++) {
            int expected = 0;
            const double from = k ? narrow[i] : x[i], m = frexp(from, &expected);
            if (!isfinite(from)) expected = 0;
            if (!same_or_nan(m, mantissa[i]) || expected != exponent[i])
                fail_msg("frexp of %a is %a and %d, not %a and %d", from, mantissa[i], exponent[i], m, expected);
        }
    }
    free(narrow), free(x);
}

/* ---- each instruction set ------------------------------------------------------------------------------------------------------ */

static const struct CMUnitTest tests[] = {
    FAC_TEST(math_f32_is_exact_to_the_last_place_over_its_range),
    FAC_TEST(math_f64_is_exact_to_the_last_place_over_its_range),
    FAC_TEST(math_f16_is_rounded_once),
    FAC_TEST(math_bf16_is_rounded_once),
    FAC_TEST(mantissas_and_exponents_are_the_c_librarys),
};

/* In a process of its own, since the library chooses at its start. */
static int run_with(const char *isa) {
    pid_t child = fork();
    if (child == 0) {
        (void)setenv("FACULA_ISA", isa, 1);
        print_message("instruction set %s at most\n", isa);
        exit(support_run(tests, FAC_COUNT(tests), NULL) != 0);
    }
    int status = 1;
    return child > 0 && waitpid(child, &status, 0) == child && status == 0 ? 0 : 1;
}

int main(void) {
    static const char *const sets[] = {"default", "avx2", "avx512"};
    int failed = 0;
    if (getenv("FACULA_TEST_ALLOCATIONS")) return 0; /* a million results would be computed again for each allocation */
    if (getenv("FACULA_ISA")) return support_run(tests, FAC_COUNT(tests), NULL);
    for (size_t i = 0; i < FAC_COUNT(sets); i++) failed += run_with(sets[i]);
    return failed;
}
