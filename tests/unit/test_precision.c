/* The setting of how exact products of float32 matrices are: what each value permits, and that it permits no more. */
#include "backend/cpu/gemm.h"
#include "pairs.h"
#include "support/support.h"
#include <facula/facula.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>

static void set(fac_matmul_precision p) { assert_ok(fac_set_float32_matmul_precision(p)); }

/* Whether MEDIUM rounds on this machine. */
static bool rounds(void) { return fac__cpu_bf16_fast; }

static float *values(fac_tensor *t) {
    assert_no_error();
    assert_non_null(t);
    const size_t n = (size_t)fac_tensor_numel(t);
    float *v = malloc(n * sizeof *v);
    assert_ok(fac_tensor_read(t, FAC_F32, v, n));
    return v;
}

static bool same_bits(fac_tensor *a, fac_tensor *b) {
    float *x = values(a), *y = values(b);
    assert_int_equal(fac_tensor_numel(a), fac_tensor_numel(b));
    const bool same = memcmp(x, y, (size_t)fac_tensor_numel(a) * sizeof *x) == 0;
    free(x);
    free(y);
    return same;
}

/* ---- the setting ------------------------------------------------------------------------------------------------------------ */

static void S194_matmul_precision_is_what_was_set(void **state) {
    (void)state;
    assert_int_equal(fac_get_float32_matmul_precision(), FAC_PRECISION_HIGHEST);
    for (int p = FAC_PRECISION_MEDIUM; p >= FAC_PRECISION_HIGHEST; p--) {
        set((fac_matmul_precision)p);
        assert_int_equal(fac_get_float32_matmul_precision(), p);
    }
}

static void S194_a_precision_that_there_is_not_changes_nothing(void **state) {
    (void)state;
    set(FAC_PRECISION_HIGH);
    for (int p = -1; p <= 3; p += 4) {
        assert_int_equal(fac_set_float32_matmul_precision((fac_matmul_precision)p), FAC_ERR_ARGUMENT);
        char expected[32];
        snprintf(expected, sizeof expected, "got %d", p);
        assert_error(FAC_ERR_ARGUMENT, expected);
        assert_int_equal(fac_get_float32_matmul_precision(), FAC_PRECISION_HIGH);
    }
    set(FAC_PRECISION_HIGHEST);
}

static void *ask(void *out) {
    *(int *)out = (int)fac_get_float32_matmul_precision();
    return NULL;
}

static void S194_the_precision_is_the_whole_processes(void **state) {
    (void)state;
    pthread_t t;
    int seen = -1;
    set(FAC_PRECISION_MEDIUM);
    assert_int_equal(pthread_create(&t, NULL, ask, &seen), 0);
    pthread_join(t, NULL);
    set(FAC_PRECISION_HIGHEST);
    assert_int_equal(seen, FAC_PRECISION_MEDIUM);
}

/* ---- products --------------------------------------------------------------------------------------------------------------- */

typedef fac_tensor *product_fn(fac_tensor *const *t);

typedef struct product {
    const char *name;
    product_fn *fn;
    fac_tensor *t[4];
    int64_t k;
    bool heeds; /* MEDIUM may round its factors */
} product;

static fac_tensor *by_mm(fac_tensor *const *t) { return fac_mm(t[0], t[1]); }
static fac_tensor *by_bmm(fac_tensor *const *t) { return fac_bmm(t[0], t[1]); }
static fac_tensor *by_addmm(fac_tensor *const *t) { return fac_addmm(t[2], t[0], t[1], .beta = 0.5, .alpha = -1.25); }
static fac_tensor *by_row(fac_tensor *const *t) { return fac_addmm(t[2], t[0], t[1]); }
static fac_tensor *by_baddbmm(fac_tensor *const *t) { return fac_baddbmm(t[2], t[0], t[1]); }
static fac_tensor *by_linear(fac_tensor *const *t) { return fac_linear(t[0], t[3], t[2]); }
static fac_tensor *by_conv(fac_tensor *const *t) { return fac_conv2d(t[0], t[1], NULL); }

static fac_tensor *at(fac_matmul_precision p, const product *c, int threads) {
    set(p);
    assert_ok(fac_set_num_threads(threads));
    fac_tensor *y = c->fn(c->t);
    assert_no_error();
    set(FAC_PRECISION_HIGHEST);
    return y;
}

/* The same product of what `prepare` makes of the operands, in float64. */
static fac_tensor *in_f64(const product *c, fac_tensor *(*prepare)(fac_tensor *)) {
    fac_tensor *t[4] = {0};
    for (int i = 0; i < 4; i++)
        if (c->t[i]) t[i] = prepare(c->t[i]);
    return c->fn(t);
}
static fac_tensor *magnitudes(fac_tensor *t) { return fac_abs(fac_to_dtype(t, FAC_F64)); }
static fac_tensor *as_f64(fac_tensor *t) { return fac_to_dtype(t, FAC_F64); }

/* Every element of got is within `part` of the sum of its terms' magnitudes. The number that a product is multiplied by may be
   negative: its terms' magnitudes are those of the absolute numbers, with 1.25 and the addend's whole for -1.25 and its half. */
static void expect_within(const product *c, fac_tensor *got, fac_tensor *want, double part) {
    fac_tensor *most =
        c->fn == by_addmm ? fac_add(fac_mul(in_f64(&(product){.fn = by_mm, .t = {c->t[0], c->t[1]}}, magnitudes), 1.25),
                                    magnitudes(c->t[2]))
                          : in_f64(c, magnitudes);
    fac_tensor *excess = fac_sub(fac_abs(fac_sub(as_f64(got), want)), fac_mul(most, part));
    assert_no_error();
    const double worst = fac_item(fac_max(excess));
    if (!(worst <= 0)) fail_msg("%s is off by %g too much", c->name, worst);
}

/* A factor is off by at most 2^-8 of itself at each of two places, and sums are those of float32. */
static void expect_medium(const product *c) {
    FAC_SCOPE(s);
    const double two_roundings = 2.0 / 256 + 1.0 / 65536, of_sums = (double)(c->k + 8) * ldexp(1, -24);
    fac_tensor *highest = at(FAC_PRECISION_HIGHEST, c, 1), *medium = at(FAC_PRECISION_MEDIUM, c, 1);
    fac_tensor *exact = in_f64(c, as_f64);
    expect_within(c, highest, exact, of_sums);
    expect_within(c, medium, exact, two_roundings + of_sums);
    if (same_bits(medium, highest) == (rounds() && c->heeds)) fail_msg("%s: medium is not what it says", c->name);
    assert_true(same_bits(at(FAC_PRECISION_HIGH, c, 1), highest));
    for (int threads = 2; threads <= 5; threads += 3)
        assert_true(same_bits(at(FAC_PRECISION_MEDIUM, c, threads), medium));
    assert_true(same_bits(at(FAC_PRECISION_HIGHEST, c, 3), highest));
}

static fac_tensor *some(fac_ints sizes) { return fac_randn(sizes); }

static void expect_products_of(int64_t m, int64_t n, int64_t k) {
    FAC_SCOPE(s);
    fac_tensor *a = some(FAC_INTS(m, k)), *b = some(FAC_INTS(k, n)), *c = some(FAC_INTS(m, n)),
               *row = some(FAC_INTS(n));
    fac_tensor *a_turned = fac_t(some(FAC_INTS(k, m))), *b_turned = fac_t(some(FAC_INTS(n, k)));
    fac_tensor *a_apart = fac_slice(some(FAC_INTS(m, 2 * k)), 1, .step = 2),
               *b_apart = fac_slice(some(FAC_INTS(k, 3 * n)), 1, .step = 3);
    const product cases[] = {
        {"a b", by_mm, {a, b}, k, true},
        {"a' b", by_mm, {a_turned, b}, k, true},
        {"a b'", by_mm, {a, b_turned}, k, true},
        {"a' b'", by_mm, {a_turned, b_turned}, k, true},
        {"operands with gaps", by_mm, {a_apart, b_apart}, k, true},
        {"c / 2 - 1.25 a b", by_addmm, {a, b, c}, k, true},
        {"row + a b", by_row, {a, b, row}, k, true},
        {"linear", by_linear, {a, NULL, row, fac_t(b_turned)}, k, true},
    };
    for (size_t i = 0; i < FAC_COUNT(cases); i++) expect_medium(&cases[i]);
}

/* Odd sizes, sides longer than one panel, strip, pass or block, and sums that are split. */
static void S194_medium_rounds_factors_once_and_nothing_else(void **state) {
    (void)state;
    const int threads = fac_num_threads();
    expect_products_of(17, 33, 65);
    expect_products_of(3, 40, 601);
    expect_products_of(300, 290, 310);
    expect_products_of(30, 1100, 1029);
    expect_products_of(20, 24, 9001);
    assert_ok(fac_set_num_threads(threads));
}

static void S194_medium_rounds_products_of_batches(void **state) {
    (void)state;
    const int threads = fac_num_threads();
    FAC_SCOPE(s);
    fac_tensor *a = some(FAC_INTS(5, 31, 47)), *b = some(FAC_INTS(5, 47, 39)), *c = some(FAC_INTS(5, 31, 39));
    expect_medium(&(product){"bmm", by_bmm, {a, b}, 47, true});
    expect_medium(&(product){
        "bmm of one matrix", by_bmm, {a, fac_expand(fac_narrow(b, 0, 0, 1), FAC_INTS(5, -1, -1))}, 47, true});
    expect_medium(&(product){"baddbmm", by_baddbmm, {a, b, c}, 47, true});
    assert_ok(fac_set_num_threads(threads));
}

/* 16 x 16 x 16 is the most that stays as it is; vectors and convolutions always do. */
static void S194_medium_leaves_small_products_vectors_and_convolutions(void **state) {
    (void)state;
    const int threads = fac_num_threads();
    FAC_SCOPE(s);
    expect_medium(&(product){"4096", by_mm, {some(FAC_INTS(16, 16)), some(FAC_INTS(16, 16))}, 16, false});
    expect_medium(&(product){"4352", by_mm, {some(FAC_INTS(16, 17)), some(FAC_INTS(17, 16))}, 17, true});
    expect_medium(&(product){"a column", by_mm, {some(FAC_INTS(300, 200)), some(FAC_INTS(200, 1))}, 200, false});
    expect_medium(&(product){"a row", by_mm, {some(FAC_INTS(1, 200)), some(FAC_INTS(200, 300))}, 200, false});
    expect_medium(&(product){"conv2d", by_conv, {some(FAC_INTS(2, 3, 17, 19)), some(FAC_INTS(8, 3, 3, 3))}, 27, false});
    assert_ok(fac_set_num_threads(threads));
}

/* Other dtypes do not heed the setting. */
static void S194_medium_leaves_other_dtypes(void **state) {
    (void)state;
    const fac_dtype dtypes[] = {FAC_F64, FAC_BF16, FAC_F16, FAC_C64};
    FAC_SCOPE(s);
    fac_tensor *a = some(FAC_INTS(40, 50)), *b = some(FAC_INTS(50, 60));
    for (size_t i = 0; i < FAC_COUNT(dtypes); i++) {
        fac_tensor *x = fac_to_dtype(a, dtypes[i]), *y = fac_to_dtype(b, dtypes[i]);
        fac_tensor *highest = fac_mm(x, y);
        set(FAC_PRECISION_MEDIUM);
        fac_tensor *medium = fac_mm(x, y);
        set(FAC_PRECISION_HIGHEST);
        assert_no_error();
        assert_true(fac_equal(highest, medium));
    }
}

static void S194_medium_hands_on_what_is_not_a_number(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *a = fac_ones(FAC_INTS(20, 30)), *b = fac_ones(FAC_INTS(30, 40));
    assert_non_null(fac_fill_(fac_select(fac_select(a, 0, 3), 0, 7), NAN));
    assert_non_null(fac_fill_(fac_select(fac_select(a, 0, 5), 0, 29), INFINITY));
    assert_non_null(fac_fill_(fac_select(fac_select(a, 0, 6), 0, 28), -3.4e38));
    set(FAC_PRECISION_MEDIUM);
    float *y = values(fac_mm(a, b));
    set(FAC_PRECISION_HIGHEST);
    for (int j = 0; j < 40; j++) {
        assert_true(y[0 * 40 + j] == 30 && isnan(y[3 * 40 + j]) && y[5 * 40 + j] == INFINITY);
        assert_true(rounds() ? y[6 * 40 + j] == -INFINITY : isfinite(y[6 * 40 + j]));
    }
    free(y);
}

/* A gradient is made of products, which heed the setting of their own time. */
static void S194_medium_rounds_in_gradients(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = some(FAC_INTS(40, 50)), *grad[2];
    for (int medium = 0; medium < 2; medium++) {
        fac_manual_seed(7);
        fac_tensor *w = fac_set_requires_grad(some(FAC_INTS(60, 50)), true), *y = fac_linear(x, w, NULL);
        if (medium) set(FAC_PRECISION_MEDIUM);
        assert_ok(fac_backward(fac_sum(fac_mul(y, y))));
        set(FAC_PRECISION_HIGHEST);
        grad[medium] = fac_grad_of(w);
    }
    assert_int_equal(!same_bits(grad[0], grad[1]), rounds());
    assert_true(fac_allclose(grad[0], grad[1], .rtol = 0.05, .atol = 20));
}

FAC_TEST_MAIN_OF_PAIRS(FAC_TEST(S194_matmul_precision_is_what_was_set),
                       FAC_TEST(S194_a_precision_that_there_is_not_changes_nothing),
                       FAC_TEST(S194_the_precision_is_the_whole_processes),
                       FAC_TEST(S194_medium_rounds_factors_once_and_nothing_else),
                       FAC_TEST(S194_medium_rounds_products_of_batches),
                       FAC_TEST(S194_medium_leaves_small_products_vectors_and_convolutions),
                       FAC_TEST(S194_medium_leaves_other_dtypes), FAC_TEST(S194_medium_hands_on_what_is_not_a_number),
                       FAC_TEST(S194_medium_rounds_in_gradients))
