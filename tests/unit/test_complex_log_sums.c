/* logsumexp and logcumsumexp of complex numbers: against their definition over lengths, layouts and dtypes, and gradients of
   any order. Numbers at the edges are in data/reference_cases.json. */
#include "backend/cpu/kernels/complex_parts.h"
#include "grad_cases.h"

#define Z(i) fac_view_as_complex(x[i])
#define CASES(X)                                                                                                   \
    X(last, 1, "2,3,2", -1, 1, out[0] = fac_logsumexp(Z(0), FAC_DIMS(1)))                                          \
    X(first_kept, 1, "3,2,2", -2, 2, out[0] = fac_logsumexp(Z(0), FAC_DIMS(0), .keepdim = true))                   \
    X(both, 1, "2,3,2", -1, 1, out[0] = fac_logsumexp(Z(0), FAC_DIMS(0, 1)))                                       \
    X(running_last, 1, "2,4,2", -1, 1, out[0] = fac_logcumsumexp(Z(0), 1))                                         \
    X(running_first, 1, "3,2,2", -2, 2, out[0] = fac_logcumsumexp(Z(0), 0))                                        \
    X(running_second_alone, 1, "3,2", -1, 1, out[0] = fac_select(fac_logcumsumexp(Z(0), 0), 0, 1))                 \
    X(weighted, 1, "2,3,2;2,2", -1, 1, out[0] = fac_mul(fac_view_as_real(fac_logsumexp(Z(0), FAC_DIMS(1))), x[1])) \
    X(running_weighted, 1, "2,3,2;2,3,2", -1, 1, out[0] = fac_mul(fac_view_as_real(fac_logcumsumexp(Z(0), 1)), x[1]))

CASES(GRAD_FN)
static const grad_case cases[] = {CASES(GRAD_ROW)};

static void complex_log_sums_have_gradients_that_agree_with_differences(void **state) {
    (void)state;
    grad_run(cases, FAC_COUNT(cases), false);
}
static void complex_log_sums_have_second_gradients_that_agree_with_differences(void **state) {
    (void)state;
    grad_run(cases, FAC_COUNT(cases), true);
}

/* ---- values ---------------------------------------------------------------------------------------------------------------- */

enum { LINES = 7, LONGEST = 2100 };

static double complex element(int64_t line, int64_t i) {
    return fac__complex_parts(0.5 * sin(1.3 * (double)i + (double)line), cos(0.7 * (double)(i * (line + 1))) / 2);
}

/* A tensor [LINES, n], whose lines lie one after another in memory or side by side. */
static fac_tensor *lines_of(int64_t n, fac_dtype d, bool side_by_side) {
    static double complex v[LINES * LONGEST];
    for (int64_t line = 0; line < LINES; line++)
        for (int64_t i = 0; i < n; i++) v[side_by_side ? i * LINES + line : line * n + i] = element(line, i);
    int64_t sizes[] = {side_by_side ? n : LINES, side_by_side ? LINES : n};
    fac_tensor *t = fac_to(fac_tensor_from(v, FAC_C128, (fac_ints){sizes, 2}), .dtype = d);
    return side_by_side ? fac_transpose(t, 0, 1) : t;
}

static fac_value call(const char *op, fac_tensor *t, fac_value dim) {
    fac_value args[] = {fac_value_tensor(t), dim}, out;
    assert_ok(fac_call(op, args, 2, &out));
    for (size_t i = 0; i < 2; i++) fac_value_release(&args[i]);
    return out;
}

/* Fails unless t holds the logarithms of the sums: of whole lines, or up to each element. */
static void expect_log_sums(fac_tensor *t, int64_t n, bool running, const char *what) {
    static double complex got[LINES * LONGEST];
    fac_dtype d = fac_tensor_dtype(t);
    double tolerance = d == FAC_C64 ? 1e-6 : 1e-12;
    assert_ok(fac_tensor_read(t, FAC_C128, got, (size_t)fac_tensor_numel(t)));
    for (int64_t line = 0; line < LINES; line++) {
        double complex sum = 0;
        for (int64_t i = 0; i < n; i++) {
            sum += cexp(element(line, i));
            if (!running && i + 1 < n) continue;
            double complex wanted = clog(sum), is = running ? got[line * n + i] : got[line];
            if (cabs(is - wanted) > tolerance * (1 + cabs(wanted)))
                fail_msg("%s of %s, %lld in a line, line %lld, element %lld: %g%+gj, not %g%+gj", what,
                         fac_dtype_name(d), (long long)n, (long long)line, (long long)i, creal(is), cimag(is),
                         creal(wanted), cimag(wanted));
        }
    }
}

static void expect_both(int64_t n, fac_dtype d, bool side_by_side) {
    FAC_SCOPE(s);
    fac_tensor *t = lines_of(n, d, side_by_side);
    fac_value sums = call("aten::logsumexp", t, fac_value_ints((const int64_t[]){1}, 1)),
              running = call("aten::logcumsumexp", t, fac_value_int(1));
    assert_int_equal(fac_tensor_dtype(fac_value_as_tensor(sums)), d);
    assert_int_equal(fac_tensor_dtype(fac_value_as_tensor(running)), d);
    expect_log_sums(fac_value_as_tensor(sums), n, false, "logsumexp");
    expect_log_sums(fac_value_as_tensor(running), n, true, "logcumsumexp");
    fac_value_release(&sums);
    fac_value_release(&running);
}

/* Lengths on both sides of the tile in which a line is read. */
static void complex_log_sums_agree_with_their_definition(void **state) {
    (void)state;
    static const int64_t lengths[] = {1, 2, 3, 17, 1023, 1024, 1025, LONGEST};
    for (size_t i = 0; i < FAC_COUNT(lengths); i++)
        for (int layout = 0; layout < 2; layout++) {
            expect_both(lengths[i], FAC_C64, layout);
            expect_both(lengths[i], FAC_C128, layout);
        }
}

/* The second of two terms is the first's opposite but for `rest` of it: what is left is the logarithm of that. */
static void complex_log_sums_of_terms_that_cancel_keep_their_digits(void **state) {
    (void)state;
    static const double pi = 3.14159265358979323846, rests[] = {1, 0.3, 1e-3, 1e-6, 1e-9, 1e-12};
    for (size_t i = 0; i < FAC_COUNT(rests); i++) {
        FAC_SCOPE(s);
        const double turn = pi - rests[i], real = log(2 * fabs(cos(turn / 2)));
        double complex v[] = {1, fac__complex_parts(1, turn)}, got[2];
        fac_value out = call("aten::logcumsumexp", fac_tensor_from(v, FAC_C128, FAC_INTS(2)), fac_value_int(0));
        assert_ok(fac_tensor_read(fac_value_as_tensor(out), FAC_C128, got, 2));
        fac_value_release(&out);
        assert_true(fabs(creal(got[1]) - 1 - real) < 1e-15 / rests[i] + 1e-14);
        assert_true(fabs(cimag(got[1]) - turn / 2) < 1e-15 / rests[i] + 1e-14);
    }
}

FAC_TEST_MAIN(FAC_TEST(complex_log_sums_have_gradients_that_agree_with_differences),
              FAC_TEST(complex_log_sums_have_second_gradients_that_agree_with_differences),
              FAC_TEST(complex_log_sums_agree_with_their_definition),
              FAC_TEST(complex_log_sums_of_terms_that_cancel_keep_their_digits))
