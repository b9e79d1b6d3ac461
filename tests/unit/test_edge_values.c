/* Operators at the edges of their domains: NaN, infinities, signed zeros, empty and cut inputs, repeated indices, numbers
   that have no sense. Expected values are PyTorch 2's unless a line says otherwise. */
#include "support/sample.h"
#include "support/support.h"

#include "dispatch/value.h"
#include <facula/facula.h>
#include <math.h>

#define NO_GRAD (-1)
enum { MOST = 12 };

/* A call and what comes of it: its first result, or the gradient of one of its tensors where all gradients above are 1. */
typedef struct expected {
    const char *call;
    int grad_of; /* NO_GRAD, or the tensor's number */
    fac_dtype dtype;
    double tolerance; /* relative */
    int n;
    double values[MOST];
} expected;

#define COUNT_OF(...) (int)(sizeof((double[]){__VA_ARGS__}) / sizeof(double))
#define GIVES(text, type, ...)                                               \
    {                                                                        \
        text, NO_GRAD, FAC_##type, 0, COUNT_OF(__VA_ARGS__), { __VA_ARGS__ } \
    }
#define NEARLY(text, type, within, ...)                                           \
    {                                                                             \
        text, NO_GRAD, FAC_##type, within, COUNT_OF(__VA_ARGS__), { __VA_ARGS__ } \
    }
#define GIVES_NOTHING(text, type)              \
    {                                          \
        text, NO_GRAD, FAC_##type, 0, 0, { 0 } \
    }
#define GRADIENT(text, of, type, ...)                                   \
    {                                                                   \
        text, of, FAC_##type, 0, COUNT_OF(__VA_ARGS__), { __VA_ARGS__ } \
    }

static bool same(double a, double b, double tolerance) {
    if (isnan(a) || isnan(b)) return isnan(a) && isnan(b);
    if (a == b) return signbit(a) == signbit(b);
    return fabs(a - b) <= tolerance * fabs(b);
}

/* The gradient of the sum of `result` for tensor number `of` of the call, kept for the caller's scope. */
static fac_tensor *gradient(fac_tensor *result, const sample_made *m, int of) {
    fac_tensor *wrt = fac_value_as_tensor(m->tensors[of]), *grad = NULL;
    assert_ok(fac_grad(FAC_TENSORS(fac_sum(result)), FAC_TENSORS(wrt), &grad));
    return grad;
}

static bool matches(const expected *e, fac_tensor *t) {
    double got[MOST];
    bool ok = t && fac_tensor_dtype(t) == e->dtype && fac_tensor_numel(t) == e->n;
    if (ok && e->n) assert_ok(fac_tensor_read(t, FAC_F64, got, (size_t)e->n));
    for (int i = 0; ok && i < e->n; i++) ok = same(got[i], e->values[i], e->tolerance);
    return ok;
}

static bool holds(const expected *e) {
    FAC_SCOPE(s);
    sample_call c;
    sample_made m;
    fac_value results[4] = {0};
    fac_tensor *t = NULL;
    assert_true(sample_parse(e->call, &c, NULL));
    assert_ok(sample_make(&c, fac_device_make(FAC_CPU, -1), &m));
    bool ok = fac_call(c.op, m.args, m.n_args, results) == FAC_OK;
    if (ok) t = fac_value_as_tensor(results[0]);
    ok = ok && matches(e, e->grad_of == NO_GRAD ? t : gradient(t, &m, e->grad_of));
    if (!ok) print_error("%s: %s\n", e->call, fac_error() ? fac_error_message() : "another result");
    fac_error_clear();
    for (size_t i = 0; i < FAC_COUNT(results); i++) fac_value_release(&results[i]);
    sample_unmake(&m);
    return ok;
}

static void check(const expected *e, size_t n) {
    int failed = 0;
    for (size_t i = 0; i < n; i++) failed += !holds(&e[i]);
    assert_int_equal(failed, 0);
}
#define CHECK(...)                                   \
    do {                                             \
        static const expected all[] = {__VA_ARGS__}; \
        check(all, FAC_COUNT(all));                  \
    } while (0)

/* Calls that are refused, and how. */
typedef struct refused {
    const char *call;
    fac_status code;
    const char *text;
} refused;

static void check_refused(const refused *r, size_t n) {
    int failed = 0;
    for (size_t i = 0; i < n; i++) {
        sample_call c;
        sample_made m;
        fac_value results[4] = {0};
        assert_true(sample_parse(r[i].call, &c, NULL));
        assert_ok(sample_make(&c, fac_device_make(FAC_CPU, -1), &m));
        fac_status st = fac_call(c.op, m.args, m.n_args, results);
        bool ok = st == r[i].code && strstr(fac_error_message(), r[i].text);
        if (!ok) print_error("%s: %d, %s\n", r[i].call, (int)st, st ? fac_error_message() : "no error");
        failed += !ok;
        fac_error_clear();
        for (size_t k = 0; k < FAC_COUNT(results); k++) fac_value_release(&results[k]);
        sample_unmake(&m);
    }
    assert_int_equal(failed, 0);
}
#define CHECK_REFUSED(...)                          \
    do {                                            \
        static const refused all[] = {__VA_ARGS__}; \
        check_refused(all, FAC_COUNT(all));         \
    } while (0)

/* ---- indices, borders, ranges ---------------------------------------------------------------------------------------------- */

static void edges_index_fill_counts_a_repeated_index_once(void **state) {
    (void)state;
    CHECK(GRADIENT("index_fill.int_Tensor(f32[3]!, 0, i64[2]{0,0}, f32[]!{2})", 2, F32, 1),
          GRADIENT("index_fill.int_Tensor(f32[3]!, 0, i64[3]{2,-1,0}, f32[]!{2})", 2, F32, 2),
          GRADIENT("index_fill.int_Tensor(f32[3]!, 0, i64[3]{2,-1,0}, f32[]!{2})", 0, F32, 0, 1, 0),
          GRADIENT("index_fill.int_Tensor(f32[2,3]!, 1, i64[3]{1,1,1}, f32[]!{2})", 2, F32, 2),
          GRADIENT("index_fill.int_Tensor(f32[3]!, 0, i64[0], f32[]!{2})", 2, F32, 0));
}

static void edges_replicated_border_follows_a_cut(void **state) {
    (void)state;
    CHECK(GIVES("replication_pad1d(f32[1,3]{0,1,2}, [-1,2])", F32, 1, 2, 2, 2),
          GIVES("replication_pad1d(f32[1,3]{0,1,2}, [-3,3])", F32, 2, 2, 2),
          GIVES("replication_pad1d(f32[1,3]{0,1,2}, [-4,2])", F32, 2),
          GIVES("replication_pad1d(f32[1,3]{0,1,2}, [3,-4])", F32, 0, 0),
          GIVES("replication_pad2d(f32[1,2,2]{1,2,3,4}, [-2,3,4,-4])", F32, 2, 2, 2, 2, 2, 2),
          GRADIENT("replication_pad1d(f32[1,3]!, [-3,3])", 0, F32, 0, 0, 3),
          GRADIENT("replication_pad1d(f32[1,3]!, [3,-4])", 0, F32, 2, 0, 0));
    CHECK_REFUSED({"replication_pad1d(f32[1,3], [-3,0])", FAC_ERR_SHAPE, "too small"});
}

static void edges_integral_ranges_start_and_step_by_whole_numbers(void **state) {
    (void)state;
    CHECK(GIVES("arange.start_step(0, 5, 1.5, dtype(i64))", I64, 0, 1, 2, 3),
          GIVES("arange.start_step(0, 5, 1.5, dtype(i32))", I32, 0, 1, 2, 3),
          GIVES("arange.start_step(0, 2, 0.5, dtype(i64))", I64, 0, 0, 0, 0),
          GIVES("arange.start_step(0.9, 3.2, 0.7, dtype(u8))", U8, 0, 0, 0, 0),
          GIVES("arange.start_step(-2.5, 3.5, 1, dtype(i64))", I64, -2, -1, 0, 1, 2, 3),
          GIVES("arange.start_step(5, 0, -1.5, dtype(i16))", I16, 5, 4, 3, 2),
          GIVES("arange.start_step(0, 5, 1.5, dtype(f32))", F32, 0, 1.5, 3, 4.5));
    CHECK_REFUSED({"arange.start_step(1, 2, inf)", FAC_ERR_ARGUMENT, "step must be finite"},
                  {"arange.start_step(1, 2, -inf, dtype(i64))", FAC_ERR_ARGUMENT, "step must be finite"},
                  {"arange.start_step(1, 2, nan)", FAC_ERR_ARGUMENT, "step must be finite"},
                  {"arange.start_step(1, 2, 0.0)", FAC_ERR_ARGUMENT, "step must be nonzero"},
                  {"arange.start_step(0, nan, 1, dtype(i64))", FAC_ERR_ARGUMENT, "unsupported range"});
}

static void edges_differences_end_when_nothing_is_left(void **state) {
    (void)state;
    CHECK(GIVES_NOTHING("diff(f32[4], 4)", F32), GIVES_NOTHING("diff(f32[4], 9000000000000000000)", F32),
          GIVES_NOTHING("diff(i64[0], 9000000000000000000)", I64),
          GIVES_NOTHING("diff(f32[2], 9000000000000000000, 0, f32[1], f32[1])", F32),
          GIVES("diff(f32[4]{1,2,4,8}, 3)", F32, 1));
}

static void edges_einsum_multiplies_sums_of_small_integers(void **state) {
    (void)state;
    /* A sum over one operand alone is an int64; PyTorch refuses to multiply it by the other. */
    CHECK(GIVES("einsum(\"ij,ik->k\", [i8[3,4]{1}, i8[3,4]{1}])", I64, 12, 12, 12, 12),
          GIVES("einsum(\"ij,jk->i\", [i32[3,4]{1}, i32[4,2]{1}])", I64, 8, 8, 8),
          GIVES("einsum(\"ij,ij->i\", [i8[3,4]{1}, i8[3,4]{1}])", I8, 4, 4, 4),
          GIVES("tensordot(i8[2,3]{1}, i8[1,2]{1}, [1], [0])", I8, 3, 3, 3, 3));
}

/* ---- NaN and infinities ------------------------------------------------------------------------------------------------------ */

static void edges_hardtanh_with_nan_bounds_is_nan(void **state) {
    (void)state;
    CHECK(GIVES("hardtanh(f32[4]{-2,0,3,nan}, nan, 1)", F32, NAN, NAN, NAN, NAN),
          GIVES("hardtanh(f64[4]{-2,0,3,nan}, -1, nan)", F64, NAN, NAN, NAN, NAN),
          GIVES("hardtanh(f16[4]{-2,0,3,nan}, -1, 1)", F16, -1, 0, 1, NAN));
}

static void edges_relu_keeps_the_sign_of_zero(void **state) {
    (void)state;
    CHECK(GIVES("relu(f32[4]{-0,0,nan,-1})", F32, -0.0, 0, NAN, 0),
          GIVES("relu(f64[4]{-0,0,nan,-1})", F64, -0.0, 0, NAN, 0),
          GIVES("relu(bf16[4]{-0,0,nan,-1})", BF16, -0.0, 0, NAN, 0),
          GRADIENT("relu(f32[4]!{-0,0,1,-1})", 0, F32, 0, 0, 1, 0));
}

static void edges_search_goes_right_from_nan_on(void **state) {
    (void)state;
    CHECK(GIVES("searchsorted.Tensor(f32[3]{1,2,nan}, f32[4]{nan,1.5,inf,3})", I64, 3, 1, 3, 3),
          GIVES("searchsorted.Tensor(f32[3]{1,2,nan}, f32[4]{nan,1.5,inf,3}, False, True)", I64, 3, 1, 3, 3),
          GIVES("searchsorted.Tensor(f16[3]{1,2,nan}, f16[4]{nan,1.5,inf,3})", I64, 3, 1, 3, 3),
          GIVES("searchsorted.Tensor(f64[2]{-inf,inf}, f64[3]{-inf,nan,inf})", I64, 0, 2, 1),
          GIVES("bucketize.Tensor(f32[4]{nan,1.5,inf,3}, f32[3]{1,2,nan}, False, True)", I64, 3, 1, 3, 3),
          GIVES("searchsorted.Tensor(i8[3]{-128,0,127}, i8[3]{-128,127,1})", I64, 0, 2, 2));
}

/* Where the variance is infinite. */
static void edges_var_of_a_correction_beyond_the_number_is_infinitely_steep(void **state) {
    (void)state;
    CHECK(GIVES("var.correction(f64[2]{1,3}, None, 3)", F64, INFINITY),
          GRADIENT("var.correction(f64[2]!{1,3}, None, 3)", 0, F64, -INFINITY, INFINITY),
          GRADIENT("var.correction(f64[2]!{1,3}, None, 2)", 0, F64, -INFINITY, INFINITY));
}

static void edges_logit_is_steepest_at_its_ends(void **state) {
    (void)state;
    CHECK(GRADIENT("logit(f64[3]!{0,0.5,1}, None)", 0, F64, INFINITY, 4, INFINITY),
          GRADIENT("logit(f32[3]!{0,0.5,1}, 0.0)", 0, F32, INFINITY, 4, INFINITY),
          GRADIENT("logit(f32[3]!{0,0.5,1}, 0.1)", 0, F32, 0, 4, 0));
}

static void edges_logit_with_crossing_bounds_takes_the_nearer(void **state) {
    (void)state;
    CHECK(NEARLY("logit(f64[3]{-1,0.5,0.9}, 0.6)", F64, 1e-12, 0.4054651081081642, 0.4054651081081642,
                 -0.4054651081081642),
          GIVES("logit(f32[3]{-1,0.5,2}, 1.0)", F32, INFINITY, INFINITY, -INFINITY),
          GIVES("logit(f32[3]{-1,0.5,2}, nan)", F32, NAN, 0, NAN),
          GIVES("logit(f32[3]{-1,0.5,2}, -1.0)", F32, NAN, 0, NAN),
          GIVES("logit(f32[3]{-1,0.5,2}, 0.0)", F32, -INFINITY, 0, INFINITY),
          GRADIENT("logit(f32[3]!{-1,0.5,2}, 0.25)", 0, F32, 0, 4, 0),
          GRADIENT("logit(f32[3]!{-1,0.5,2}, 0.75)", 0, F32, 0, 0, 0));
}

/* ---- numbers that overflow on the way --------------------------------------------------------------------------------------- */

static void edges_moments_of_infinities_and_of_the_largest(void **state) {
    (void)state;
    CHECK(GIVES("mean(f32[2]{1,inf})", F32, INFINITY), GIVES("var.correction(f32[2]{1,inf})", F32, NAN));
    FAC_SCOPE(s);
    static const struct {
        double of[2], mean;
    } cases[] = {{{1, INFINITY}, INFINITY},
                 {{-INFINITY, 1}, -INFINITY},
                 {{INFINITY, -INFINITY}, NAN},
                 {{3e38, 3e38}, (double)3e38f}};
    for (size_t i = 0; i < FAC_COUNT(cases); i++)
        for (int columns = 0; columns < 2; columns++) {
            /* Along rows, and along columns of a tensor wide enough for strips. */
            fac_tensor *pair = fac_to_dtype(fac_tensor_from(cases[i].of, FAC_F64, FAC_INTS(1, 2)), FAC_F32);
            fac_tensor *rows = fac_contiguous(fac_expand(pair, FAC_INTS(64, 2)));
            fac_tensor *t = columns ? fac_contiguous(fac_transpose(rows, 0, 1)) : rows;
            fac_var_mean_result both = fac_var_mean(t, .dim = columns ? 0 : 1);
            assert_no_error();
            double mean[64];
            assert_ok(fac_tensor_read(both.result1, FAC_F64, mean, 64));
            for (int k = 0; k < 64; k++) assert_true(same(mean[k], cases[i].mean, 1e-6));
        }
}

static void edges_functions_of_two_numbers_at_the_ends_of_the_range(void **state) {
    (void)state;
    CHECK(GIVES("pow.Tensor_Tensor(f64[2]{1.7976931348623157e308,-1.7976931348623157e308}, f64[2]{1,1})", F64,
                1.7976931348623157e308, -1.7976931348623157e308),
          NEARLY("special_xlog1py(f64[2]{1,2}, f64[2]{4.9406564584124654e-324,1e-310})", F64, 1e-12,
                 4.9406564584124654e-324, 2e-310),
          NEARLY("special_xlog1py(f32[2]{1,2}, f32[2]{1e-45,1e-40})", F32, 1e-5, 1.401298464324817e-45, (double)2e-40f),
          GIVES("ldexp.Tensor(f64[3]{3,1,-1}, i32[3]{1000,-1074,1023})", F64, 0x3p1000, 0x1p-1074, -0x1p1023),
          GIVES("ldexp.Tensor(f16[2]{1,3}, i32[2]{3,4})", F16, 8, 48),
          GIVES("ldexp.Tensor(f32[2]{0x1p-140,1}, i32[2]{200,-149})", F32, 0x1p60, 0x1p-149));
}

static void edges_halves_are_computed_in_single_precision(void **state) {
    (void)state;
    CHECK(GIVES("logaddexp(f16[3]{1,1000,7}, f16[3]{3,1000,7})", F16, 3.126953125, 1000.5, 7.69140625),
          GIVES("xlogy.Tensor(f16[2]{2,7}, f32[2]{3,7})", F32, (double)(2 * 1.09861228866811f),
                (double)(7 * 1.94591014905531f)),
          GIVES("xlogy.Tensor(f16[2]{3,7}, f16[2]{1000,7})", F16, 20.71875, 13.625),
          GIVES("round.decimals(f16[3]{65504,1.25,-2.375}, 1)", F16, 65504, 1.2001953125, -2.400390625),
          GIVES("round.decimals(f32[2]{3.4028234663852886e38,0}, 2)", F32, INFINITY, 0));
}

static void edges_complex_quotients_by_zero_and_infinity(void **state) {
    (void)state;
    FAC_SCOPE(s);
    static const struct {
        double x[2], y[2], quotient[2];
    } cases[] = {{{0, 0}, {-INFINITY, 3}, {0, 0}},         {{1, 2}, {INFINITY, 0}, {0, 0}},
                 {{1, 2}, {0, INFINITY}, {0, 0}},          {{1, -2}, {0, 0}, {INFINITY, -INFINITY}},
                 {{0, 1}, {0, 0}, {NAN, INFINITY}},        {{INFINITY, 0}, {1, 0}, {INFINITY, NAN}},
                 {{1e300, 1e300}, {1e300, 1e300}, {1, 0}}, {{1, 1}, {INFINITY, INFINITY}, {NAN, NAN}}};
    for (size_t i = 0; i < FAC_COUNT(cases); i++)
        for (fac_dtype d = FAC_C64; d <= FAC_C128; d++) {
            if (d == FAC_C64 && fabs(cases[i].x[0]) == 1e300) continue; /* no number of that type */
            fac_tensor *x = fac_to_dtype(fac_tensor_from(cases[i].x, FAC_C128, FAC_INTS(1)), d);
            fac_tensor *y = fac_to_dtype(fac_tensor_from(cases[i].y, FAC_C128, FAC_INTS(1)), d);
            double got[2];
            assert_ok(fac_tensor_read(fac_div(x, y), FAC_C128, got, 1));
            for (int k = 0; k < 2; k++)
                if (!(got[k] == cases[i].quotient[k] || same(got[k], cases[i].quotient[k], 0)))
                    fail_msg("case %zu of %s: part %d is %g", i, fac_dtype_name(d), k, got[k]);
        }
}

/* ---- what is refused ---------------------------------------------------------------------------------------------------------- */

static void edges_arguments_without_sense_are_refused(void **state) {
    (void)state;
    CHECK_REFUSED(
        {"huber_loss(f32[2], f32[2], 1, 0.0)", FAC_ERR_ARGUMENT, "non-positive"},
        {"huber_loss(f32[2], f32[2], 1, nan)", FAC_ERR_ARGUMENT, "non-positive"},
        {"prelu(f32[2], f64[1])", FAC_ERR_DTYPE, "float64"}, {"prelu(f16[2], f32[1])", FAC_ERR_DTYPE, "float32"},
        {"group_norm(f32[2,0,2], 2)", FAC_ERR_SHAPE, "channels"}, {"group_norm(f32[2,4,0], 2)", FAC_ERR_SHAPE, "HxW"},
        {"masked_fill.Tensor(f32[2], bool[2], c64[])", FAC_ERR_DTYPE, "imaginary"},
        {"fill.Tensor(f32[2], c64[])", FAC_ERR_DTYPE, "imaginary"},
        {"full_like(u8[2], -2.5)", FAC_ERR_OVERFLOW, "uint8"}, {"full_like(u8[2], -256)", FAC_ERR_OVERFLOW, "uint8"},
        {"full_like(i8[2], 128.0)", FAC_ERR_OVERFLOW, "int8"}, {"full_like(i64[2], 9.3e18)", FAC_ERR_OVERFLOW, "int64"},
        {"full_like(f32[2], 1e300)", FAC_ERR_OVERFLOW, "float32"},
        {"where.ScalarOther(bool[2], u8[2], 300)", FAC_ERR_OVERFLOW, "uint8"},
        {"add.Tensor(i8[2], i8[2], 300)", FAC_ERR_OVERFLOW, "int8"},
        {"trapezoid.dx(f32[3], (1,2))", FAC_ERR_DTYPE, "real"},
        {"dist(f32[2], f32[2], (1,2))", FAC_ERR_DTYPE, "non-complex"},
        {"softshrink(f32[2], inf)", FAC_ERR_ARGUMENT, "finite"});
    CHECK(GIVES("full_like(u8[1], -1)", U8, 255), GIVES("full_like(i8[1], 127.5)", I8, 127),
          GIVES("full_like(f32[1], inf)", F32, INFINITY));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        FAC_TEST(edges_index_fill_counts_a_repeated_index_once),
        FAC_TEST(edges_replicated_border_follows_a_cut),
        FAC_TEST(edges_integral_ranges_start_and_step_by_whole_numbers),
        FAC_TEST(edges_einsum_multiplies_sums_of_small_integers),
        FAC_TEST(edges_hardtanh_with_nan_bounds_is_nan),
        FAC_TEST(edges_relu_keeps_the_sign_of_zero),
        FAC_TEST(edges_search_goes_right_from_nan_on),
        FAC_TEST(edges_var_of_a_correction_beyond_the_number_is_infinitely_steep),
        FAC_TEST(edges_logit_is_steepest_at_its_ends),
        FAC_TEST(edges_logit_with_crossing_bounds_takes_the_nearer),
        FAC_TEST(edges_moments_of_infinities_and_of_the_largest),
        FAC_TEST(edges_functions_of_two_numbers_at_the_ends_of_the_range),
        FAC_TEST(edges_halves_are_computed_in_single_precision),
        FAC_TEST(edges_complex_quotients_by_zero_and_infinity),
        FAC_TEST(edges_arguments_without_sense_are_refused),
        FAC_TEST(edges_differences_end_when_nothing_is_left),
    };
    return support_run(tests, FAC_COUNT(tests), NULL);
}
