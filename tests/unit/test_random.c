/* Random operators: the documented draws, distributions, generators. */
#include "difference_cases.h"

#include "core/philox.h"

/* ---- S-015, S-016, S-019: every draw is Philox's, element by element ---- */

static void S015_rand_and_randn_are_the_documented_draws(void **state) {
    (void)state;
    FAC_SCOPE(s);
    float u[1500], z[1500];
    fac_manual_seed(42);
    assert_ok(fac_tensor_read(fac_rand(FAC_SHAPE(1500)), FAC_F32, u, 1500));
    assert_ok(fac_tensor_read(fac_randn(FAC_SHAPE(1500)), FAC_F32, z, 1500));
    for (int64_t i = 0; i < 1500; i++) {
        assert_true(u[i] == fac__uniform_f32(fac__random_u32(42, 0, i)));
        assert_true(z[i] == fac__normal_f32(42, 1, i));
    }
}

static void random_f64_draws_take_two_words(void **state) {
    (void)state;
    FAC_SCOPE(s);
    double u[999], z[999];
    fac_manual_seed(7);
    assert_ok(fac_tensor_read(fac_rand(FAC_SHAPE(999), .dtype = FAC_F64), FAC_F64, u, 999));
    assert_ok(fac_tensor_read(fac_randn(FAC_SHAPE(999), .dtype = FAC_F64), FAC_F64, z, 999));
    for (int64_t i = 0; i < 999; i++) {
        assert_true(u[i] == fac__uniform_f64(fac__random_u64(7, 0, i)));
        assert_true(z[i] == fac__normal_f64(7, 1, i));
    }
}

static void random_inverted_draws_are_those_of_their_formulas(void **state) {
    (void)state;
    FAC_SCOPE(s);
    double e[999], g[999], h[999];
    fac_tensor *t = fac_zeros(FAC_SHAPE(999), .dtype = FAC_F64);
    fac_manual_seed(8);
    assert_ok(fac_tensor_read(fac_exponential_(t, .lambd = 0.7), FAC_F64, e, 999));
    assert_ok(fac_tensor_read(fac_geometric_(t, 0.3), FAC_F64, g, 999));
    assert_ok(fac_tensor_read(fac_cauchy_(t, .median = 1, .sigma = 2), FAC_F64, h, 999));
    for (int64_t i = 0; i < 999; i++) {
        double sine, cosine;
        assert_true(e[i] == -fac__log_unit_f64(fac__uniform_open_f64(fac__random_u64(8, 0, i))) / 0.7);
        const double trials = ceil(fac__log_unit_f64(fac__uniform_open_f64(fac__random_u64(8, 1, i))) / log1p(-0.3));
        assert_true(g[i] == fmax(1, trials));
        fac__sincos_turn_f64(0.5 * fac__uniform_f64(fac__random_u64(8, 2, i)), &sine, &cosine);
        assert_true(h[i] == 1 - 2 * cosine / sine);
    }
}

static void S019_fills_in_place_do_not_depend_on_layout(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *rows = fac_zeros(FAC_SHAPE(70, 90)), *columns = fac_t(fac_zeros(FAC_SHAPE(90, 70)));
    fac_manual_seed(3);
    assert_ptr_equal(fac_normal_(rows, .mean = 1, .std = 2), rows);
    fac_manual_seed(3);
    fac_normal_(columns, .mean = 1, .std = 2);
    assert_true(fac_equal(rows, columns));
    assert_int_equal(fac_tensor_version(rows), 1);
}

static void random_draws_do_not_depend_on_threads(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *first = NULL, *kept = NULL, *ones = fac_ones(FAC_SHAPE(100003));
    int were = fac_num_threads();
    for (int n = 1; n <= 4; n++) {
        assert_ok(fac_set_num_threads(n));
        fac_manual_seed(11);
        fac_tensor *t = fac_randn(FAC_SHAPE(100003)), *d = fac_dropout(ones, 0.3, true);
        if (!first) first = t, kept = d;
        assert_true(fac_equal(first, t) && fac_equal(kept, d));
    }
    assert_ok(fac_set_num_threads(were));
}

/* ---- moments, far looser than the spread of a million draws ---- */

static void moments_are(fac_tensor *t, double mean, double std) {
    fac_tensor *d = fac_to_dtype(t, FAC_F64);
    double n = (double)fac_tensor_numel(d), m = fac_item(fac_mean(d)), v = fac_item(fac_mean(fac_mul(d, d))) - m * m;
    assert_no_error();
    if (fabs(m - mean) > 6 * std / sqrt(n) || fabs(sqrt(v) - std) > 0.02 * std) {
        print_error("mean %g, deviation %g; expected %g, %g\n", m, sqrt(v), mean, std);
        fail();
    }
}

static void random_distributions_have_their_moments(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_manual_seed(5);
    fac_tensor *t = fac_zeros(FAC_SHAPE(200000), .dtype = FAC_F64);
    moments_are(fac_normal_(t, .mean = -2, .std = 3), -2, 3);
    moments_are(fac_uniform_(t, .from = 2, .to = 5), 3.5, 3 / sqrt(12));
    moments_are(fac_exponential_(t, .lambd = 2), 0.5, 0.5);
    moments_are(fac_bernoulli_float_(t, .p = 0.2), 0.2, 0.4);
    moments_are(fac_geometric_(t, 0.25), 4, sqrt(12));
    moments_are(fac_randint_low(-3, 4, FAC_SHAPE(200000)), 0, 2);
    moments_are(fac_random_(fac_zeros(FAC_SHAPE(200000), .dtype = FAC_U8)), 127.5, sqrt((65536.0 - 1) / 12));
    moments_are(fac_normal(10, 0.5, FAC_SHAPE(200000)), 10, 0.5);
    moments_are(fac_randn(FAC_SHAPE(200000), .dtype = FAC_BF16), 0, 1);
}

static void random_uniform_never_reaches_its_end(void **state) {
    (void)state;
    FAC_SCOPE(s);
    static const fac_dtype dtypes[] = {FAC_F16, FAC_BF16, FAC_F32, FAC_F64};
    for (size_t i = 0; i < FAC_COUNT(dtypes); i++) {
        fac_tensor *t = fac_rand(FAC_SHAPE(50000), .dtype = dtypes[i]);
        assert_true(fac_item(fac_max(t)) < 1 && fac_item(fac_min(t)) >= 0);
        assert_true(fac_item(fac_max(t)) > 0.98);
    }
}

static void random_permutations_and_generators(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_generator *a = fac_generator_new(9), *b = fac_generator_new(9);
    assert_true(fac_equal(fac_rand_generator(FAC_SHAPE(10), a), fac_rand_generator(FAC_SHAPE(10), b)));
    assert_false(fac_equal(fac_rand_generator(FAC_SHAPE(10), a), fac_rand(FAC_SHAPE(10))));
    uint64_t seed, offset;
    fac_generator_get_state(a, &seed, &offset);
    assert_int_equal(offset, 2);
    fac_generator_release(a);
    fac_generator_release(b);
    fac_tensor *p = fac_randperm(1000);
    assert_false(fac_equal(p, fac_arange(1000)));
    assert_true(fac_equal(fac_sort(p).values, fac_arange(1000)));
}

static void random_multinomial_follows_the_weights(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_manual_seed(1);
    fac_tensor *w = fac_tensor_of(0, 3, 1, 0), *drawn = fac_multinomial(w, 20000, .replacement = true);
    double ones = fac_item(fac_sum(fac_eq(drawn, 1))), twos = fac_item(fac_sum(fac_eq(drawn, 2)));
    assert_true(ones + twos == 20000 && fabs(ones - 15000) < 400);
    fac_tensor *both = fac_sort(fac_multinomial(w, 2)).values;
    assert_values(both, 1, 2);
    assert_null(fac_multinomial(w, 3));
    assert_error(FAC_ERR_ARGUMENT, "not enough non-negative category");
    assert_null(fac_multinomial(fac_tensor_of(1, -1), 1));
    assert_error(FAC_ERR_ARGUMENT, "element < 0");
    assert_null(fac_multinomial(fac_tensor_of(0, 0), 1, .replacement = true));
    assert_error(FAC_ERR_ARGUMENT, "sum of probabilities <= 0");
}

/* ---- dropout ---- */

static void random_dropout_zeroes_and_scales(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_manual_seed(2);
    fac_tensor *x = fac_ones(FAC_SHAPE(100000), .requires_grad = true), *y = fac_dropout(x, 0.25, true);
    fac_tensor *kept = fac_ne(y, 0);
    assert_true(fabs(fac_item(fac_mean(fac_to_dtype(kept, FAC_F64))) - 0.75) < 0.01);
    assert_true(fabs(fac_item(fac_max(y)) - 4.0 / 3) < 1e-6);
    assert_ok(fac_backward(fac_sum(y)));
    assert_true(fac_equal(fac_grad_of(x), fac_detach(y)));
    assert_ptr_equal(fac_tensor_data(fac_dropout(x, 0.25, false)), fac_tensor_data(x));
    assert_true(fac_item(fac_max(fac_dropout(x, 1, true))) == 0);
    assert_null(fac_dropout(x, 1.5, true));
    assert_error(FAC_ERR_ARGUMENT, "has to be between 0 and 1, but got 1.5");
}

static void random_bad_arguments_are_errors(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *t = fac_zeros(FAC_SHAPE(3)), *i = fac_zeros(FAC_SHAPE(3), .dtype = FAC_I8);
    assert_null(fac_normal_(t, .std = -1));
    assert_error(FAC_ERR_ARGUMENT, "std >= 0.0, but found std -1");
    assert_null(fac_uniform_(t, .from = 2, .to = 1));
    assert_error(FAC_ERR_ARGUMENT, "from=2 > to=1");
    assert_null(fac_normal_(i));
    assert_error(FAC_ERR_DTYPE, "self must be of a floating type, got int8");
    assert_null(fac_random_from_(i, 0, 300));
    assert_error(FAC_ERR_ARGUMENT, "to - 1 is out of bounds for int8");
    assert_null(fac_randint(0, FAC_SHAPE(2)));
    assert_error(FAC_ERR_ARGUMENT, "from=0 >= to=0");
    assert_null(fac_bernoulli_tensor_(t, fac_tensor_of(0.5f, 2, 0)));
    assert_error(FAC_ERR_ARGUMENT, "probability 2");
    assert_null(fac_randperm(300, .dtype = FAC_U8));
    assert_error(FAC_ERR_ARGUMENT, "too large for result tensor type");
    assert_values(t, 0, 0, 0);
}

static void random_fills_refuse_elements_that_share_memory(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *one = fac_zeros(FAC_SHAPE(1, 4)), *t = fac_expand(one, FAC_INTS(3, 4)),
               *p = fac_full(FAC_SHAPE(3, 4), 0.5);
    const uint64_t seed = 5;
    uint64_t offset, before;
    fac_manual_seed(seed);
    fac_generator_get_state(fac_default_generator(), &(uint64_t){0}, &before);
#define REFUSED(call)  \
    assert_null(call); \
    assert_error(FAC_ERR_ARGUMENT, "more than one element of the written-to tensor refers to a single memory location")
    REFUSED(fac_normal_(t));
    REFUSED(fac_normal_(fac_expand(fac_zeros(FAC_SHAPE(1, 4), .dtype = FAC_C64), FAC_INTS(3, 4))));
    REFUSED(fac_uniform_(t));
    REFUSED(fac_bernoulli_float_(t));
    REFUSED(fac_bernoulli_tensor_(t, p));
    REFUSED(fac_random_(t));
    REFUSED(fac_random_to_(t, 5));
    REFUSED(fac_random_from_(t, 0, 5));
    REFUSED(fac_exponential_(t));
    REFUSED(fac_geometric_(t, 0.5));
    REFUSED(fac_cauchy_(t));
    REFUSED(fac_log_normal_(t));
#undef REFUSED
    fac_generator_get_state(fac_default_generator(), &(uint64_t){0}, &offset);
    assert_true(offset == before);
    assert_values(one, 0, 0, 0, 0);
}

static fac_status draw_some(void *context) {
    (void)context;
    FAC_SCOPE(s);
    fac_tensor *t = fac_randn(FAC_SHAPE(4, 4));
    t = fac_dropout(fac_t(t), 0.5, true);
    return t && fac_multinomial(fac_tensor_of(1, 2), 2) && fac_randperm(5) ? FAC_OK : fac_error();
}

static void random_survives_failing_allocations(void **state) {
    (void)state;
    support_fail_each_allocation(draw_some, NULL);
}

FAC_TEST_MAIN(FAC_TEST(S015_rand_and_randn_are_the_documented_draws), FAC_TEST(random_f64_draws_take_two_words),
              FAC_TEST(random_inverted_draws_are_those_of_their_formulas),
              FAC_TEST(S019_fills_in_place_do_not_depend_on_layout), FAC_TEST(random_draws_do_not_depend_on_threads),
              FAC_TEST(random_distributions_have_their_moments), FAC_TEST(random_uniform_never_reaches_its_end),
              FAC_TEST(random_permutations_and_generators), FAC_TEST(random_multinomial_follows_the_weights),
              FAC_TEST(random_dropout_zeroes_and_scales), FAC_TEST(random_bad_arguments_are_errors),
              FAC_TEST(random_fills_refuse_elements_that_share_memory), FAC_TEST(random_survives_failing_allocations))
