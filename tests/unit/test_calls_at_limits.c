/* Operators at the ends of what they take: ranges of dtypes, reductions of nothing, bases of zero, draws that cut the graph. */
#include "support/samples.h"
#include "support/support.h"
#include <facula/facula.h>
#include <math.h>

/* Makes the arguments of the call and makes the call. */
static fac_status call(const char *text, sample_made *made, fac_value *result) {
    sample_call c;
    *result = fac_value_none();
    if (!sample_parse(text, &c, NULL)) fail_msg("'%s' cannot be parsed", text);
    assert_ok(sample_make(&c, fac_device_make(FAC_CPU, -1), made));
    return fac_call(c.op, made->args, made->n_args, result);
}

static void refused(const char *text, const char *message) {
    sample_made made;
    fac_value result;
    assert_int_equal(call(text, &made, &result), FAC_ERR_ARGUMENT);
    assert_error(FAC_ERR_ARGUMENT, message);
    sample_unmake(&made);
}

static size_t values_of(const char *text, double *out, size_t room) {
    sample_made made;
    fac_value result;
    assert_ok(call(text, &made, &result));
    const size_t n = (size_t)fac_tensor_numel(fac_value_as_tensor(result));
    assert_in_range(n, 0, room);
    assert_ok(fac_tensor_read(fac_value_as_tensor(result), FAC_F64, out, n));
    fac_value_release(&result);
    sample_unmake(&made);
    return n;
}

/* ---- permutations --------------------------------------------------------------------------------------------------- */

/* Each of 0 .. n - 1 once. */
static void is_permutation(const char *text, size_t n) {
    static double v[40000];
    static bool seen[40000];
    memset(seen, 0, sizeof seen);
    assert_int_equal(values_of(text, v, FAC_COUNT(v)), n);
    for (size_t i = 0; i < n; i++) {
        assert_true(v[i] >= 0 && v[i] < (double)n && v[i] == floor(v[i]));
        assert_false(seen[(size_t)v[i]]);
        seen[(size_t)v[i]] = true;
    }
}

static void permutation_is_as_long_as_the_dtype_can_count(void **state) {
    (void)state;
    is_permutation("randperm(2, dtype(bool))", 2);
    is_permutation("randperm(256, dtype(u8))", 256);
    is_permutation("randperm(128, dtype(i8))", 128);
    is_permutation("randperm(32768, dtype(i16))", 32768);
    is_permutation("randperm(1000, dtype(i32))", 1000);
    is_permutation("randperm(2049, dtype(f16))", 2049);
    is_permutation("randperm(257, dtype(bf16))", 257);
    is_permutation("randperm(1000, dtype(f32))", 1000);
    is_permutation("randperm(1000, dtype(f64))", 1000);
}

static void permutation_that_the_dtype_cannot_count_is_refused(void **state) {
    (void)state;
    static const char *const calls[] = {
        "randperm(3, dtype(bool))",         "randperm(257, dtype(u8))",       "randperm(129, dtype(i8))",
        "randperm(32769, dtype(i16))",      "randperm(2050, dtype(f16))",     "randperm(258, dtype(bf16))",
        "randperm(2147483649, dtype(i32))", "randperm(16777218, dtype(f32))", "randperm(9007199254740994, dtype(f64))"};
    for (size_t i = 0; i < FAC_COUNT(calls); i++) refused(calls[i], "n is too large for result tensor type");
    refused("randperm(-1)", "n must be non-negative");
}

/* ---- einsum, tensordot ---------------------------------------------------------------------------------------------- */

static void equation_of_too_many_subscripts_is_refused(void **state) {
    (void)state;
    FAC_SCOPE(s);
    char text[300];
    memset(text, 'i', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    fac_tensor *x = fac_ones(FAC_INTS(2));
    fac_value args[] = {fac_value_string(text), fac_value_tensors(&x, 1)}, result = fac_value_none();
    assert_int_equal(fac_call("aten::einsum", args, 2, &result), FAC_ERR_ARGUMENT);
    assert_error(FAC_ERR_ARGUMENT, "too many subscripts");
    fac_value_release(&args[0]);
    fac_value_release(&args[1]);
    refused("tensordot(f32[2,2], f32[2,2], [0,0], [0,1])", "dim 0 appears multiple times");
    refused("tensordot(f32[2,2], f32[2,2], [0], [0,1])", "both dimension lists should have same length, got 1 and 2");
}

/* ---- norms of nothing, softmax in another dtype --------------------------------------------------------------------- */

static void norm_of_nothing_that_has_no_value_is_refused(void **state) {
    (void)state;
    double v[4];
    refused("linalg_vector_norm(f32[0], inf)", "cannot compute the inf norm on an empty tensor");
    refused("linalg_vector_norm(f32[2,0], -1.0)", "cannot compute the -1 norm on an empty tensor");
    refused("linalg_vector_norm(f32[0,3], -inf, [0])",
            "the -inf norm on the dimension 0 because this dimension is empty");
    refused("linalg_vector_norm(f32[2,0], inf, [0,1])", "the inf norm on the dimension 1");
    assert_int_equal(values_of("linalg_vector_norm(f32[0,3], inf, [1])", v, 4), 0);
    assert_int_equal(values_of("linalg_vector_norm(f32[0,3], 2.0, [0])", v, 4), 3);
    assert_true(v[0] == 0 && v[1] == 0 && v[2] == 0);
}

static void softmax_is_computed_in_the_dtype_that_is_asked_for(void **state) {
    (void)state;
    double p[2], l[2];
    assert_int_equal(values_of("softmax.int(f32[2]{0,1}, 0, dtype(f64))", p, 2), 2);
    assert_int_equal(values_of("log_softmax.int(i64[2]{0,1}, 0, dtype(f64))", l, 2), 2);
    const double expected[] = {1 / (1 + exp(1)), 1 / (1 + exp(-1))};
    for (int i = 0; i < 2; i++) {
        assert_true(fabs(p[i] - expected[i]) < 1e-15);
        assert_true(fabs(l[i] - log(expected[i])) < 1e-15);
    }
}

/* ---- gradients ------------------------------------------------------------------------------------------------------ */

/* d/de 0^e is 0 for e >= 0, and -inf below, where 0^e is infinite. */
static void power_of_zero_has_a_gradient_to_its_exponent(void **state) {
    (void)state;
    FAC_SCOPE(s);
    const double exponents[] = {-1, 0, 0.5, 2};
    double values[4], gradients[4];
    fac_tensor *e = fac_set_requires_grad(fac_tensor_from(exponents, FAC_F64, FAC_INTS(4)), true);
    fac_value args[] = {fac_value_float(0), fac_value_tensor(e)}, result = fac_value_none();
    assert_ok(fac_call("aten::pow.Scalar", args, 2, &result));
    assert_ok(fac_tensor_read(fac_value_as_tensor(result), FAC_F64, values, 4));
    assert_ok(fac_backward(fac_sum(fac_value_as_tensor(result))));
    assert_ok(fac_tensor_read(fac_grad_of(e), FAC_F64, gradients, 4));
    fac_value_release(&result);
    fac_value_release(&args[1]);
    assert_true(values[0] == INFINITY && values[1] == 1 && values[2] == 0 && values[3] == 0);
    assert_true(gradients[0] == -INFINITY && gradients[1] == 0 && gradients[2] == 0 && gradients[3] == 0);
}

static fac_status scaled_embedding(void *context, fac_tensors in, fac_tensor **out, size_t n) {
    (void)n;
    out[0] = fac_embedding(in.v[0], (fac_tensor *)context, .scale_grad_by_freq = true);
    out[0] = fac_mul(out[0], out[0]);
    return fac_error();
}

/* What comes back is the plain gradient over how often the row was read. */
static void embedding_gradient_scaled_by_frequency(void **state) {
    (void)state;
    FAC_SCOPE(s);
    const int64_t rows[] = {1, 3, 1, 1, 0, 3};
    const double expected[] = {1, 1, 0, 1};
    double got[8], second[8];
    fac_tensor *indices = fac_tensor_from(rows, FAC_I64, FAC_INTS(2, 3));
    fac_tensor *w = fac_set_requires_grad(fac_ones(FAC_INTS(4, 2), .dtype = FAC_F64), true), *y, *g, *gg;
    assert_ok(scaled_embedding(indices, FAC_TENSORS(w), &y, 1));
    assert_ok(fac_grad(FAC_TENSORS(fac_sum(y)), FAC_TENSORS(w), &g, .create_graph = true));
    assert_ok(fac_tensor_read(g, FAC_F64, got, 8));
    for (int i = 0; i < 8; i++) assert_true(got[i] == 2 * expected[i / 2]);
    assert_ok(fac_grad(FAC_TENSORS(fac_sum(g)), FAC_TENSORS(w), &gg));
    assert_ok(fac_tensor_read(gg, FAC_F64, second, 8));
    /* The scale goes into each of the two steps back: 2 / n for each of n reads, n reads over n. */
    for (int i = 0; i < 8; i++) {
        const int reads[] = {1, 3, 0, 2};
        assert_true(fabs(second[i] - (reads[i / 2] ? 2.0 / reads[i / 2] : 0)) < 1e-14);
    }
}

/* ---- draws ---------------------------------------------------------------------------------------------------------- */

static void draw_in_place_passes_no_gradient_to_what_was_there(void **state) {
    (void)state;
    const fac_value half = fac_value_float(0.5), none = fac_value_none(), low = fac_value_int(2),
                    high = fac_value_int(9);
    const struct {
        const char *name;
        fac_value extra[2];
        size_t n;
    } draws[] = {{"aten::normal_", {none}, 0},          {"aten::uniform_", {none}, 0},
                 {"aten::bernoulli_.float", {half}, 1}, {"aten::random_.from", {low, high}, 2},
                 {"aten::random_.to", {high}, 1},       {"aten::random_", {none}, 0},
                 {"aten::exponential_", {none}, 0},     {"aten::geometric_", {half}, 1},
                 {"aten::log_normal_", {none}, 0},      {"aten::cauchy_", {none}, 0}};
    for (size_t i = 0; i < FAC_COUNT(draws); i++) {
        FAC_SCOPE(s);
        float g[5];
        fac_tensor *x = fac_set_requires_grad(fac_ones(FAC_INTS(5)), true), *y = fac_mul(x, 2);
        fac_value args[] = {fac_value_tensor(y), draws[i].extra[0], draws[i].extra[1]}, result = fac_value_none();
        assert_ok(fac_call(draws[i].name, args, 1 + draws[i].n, &result));
        fac_value_release(&result);
        fac_value_release(&args[0]);
        assert_ok(fac_backward(fac_sum(fac_add(fac_mul(y, 3), x))));
        assert_ok(fac_tensor_read(fac_grad_of(x), FAC_F32, g, 5));
        for (int k = 0; k < 5; k++) assert_true(g[k] == 1);
    }
}

FAC_TEST_MAIN(FAC_TEST(permutation_is_as_long_as_the_dtype_can_count),
              FAC_TEST(permutation_that_the_dtype_cannot_count_is_refused),
              FAC_TEST(equation_of_too_many_subscripts_is_refused),
              FAC_TEST(norm_of_nothing_that_has_no_value_is_refused),
              FAC_TEST(softmax_is_computed_in_the_dtype_that_is_asked_for),
              FAC_TEST(power_of_zero_has_a_gradient_to_its_exponent), FAC_TEST(embedding_gradient_scaled_by_frequency),
              FAC_TEST(draw_in_place_passes_no_gradient_to_what_was_there))
