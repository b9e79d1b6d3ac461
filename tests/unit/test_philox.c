/* Philox: known answers, and numbers made of its bits. */
#include "core/generator.h"
#include "core/philox.h"
#include "support/support.h"

static const uint64_t SEED = 0x0123456789abcdef, OFFSET = 7;

/* ---- the block ---- */

/* The known answers that the authors publish with Random123. */
static void philox_known_answers(void **state) {
    (void)state;
    const struct {
        uint32_t counter[4], key[2], word[4];
    } known[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
         {0xffffffff, 0xffffffff},
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < FAC_COUNT(known); i++) {
        fac_philox_block b = fac__philox(known[i].counter, known[i].key);
        assert_memory_equal(b.word, known[i].word, sizeof b.word);
    }
}

static void philox_counter_layout(void **state) {
    (void)state;
    const uint32_t counter[4] = {0x55667788, 0x11223344, 0xccddeeff, 0x0003aabb}, key[2] = {0x89abcdef, 0x01234567};
    fac_philox_block expected = fac__philox(counter, key);
    fac_philox_block b = fac__philox_at(SEED, 0xaabbccddeeff, 0x1122334455667788, 3);
    assert_memory_equal(b.word, expected.word, sizeof b.word);
}

static void philox_elements_read_their_lanes(void **state) {
    (void)state;
    for (int64_t i = 0; i < 12; i++) {
        fac_philox_block b = fac__philox_at(SEED, OFFSET, (uint64_t)i / 4, 0),
                         c = fac__philox_at(SEED, OFFSET, (uint64_t)i / 2, 0);
        assert_int_equal(fac__random_u32(SEED, OFFSET, i), b.word[i % 4]);
        uint64_t pair = (uint64_t)c.word[2 * (i % 2) + 1] << 32 | c.word[2 * (i % 2)];
        assert_true(fac__random_u64(SEED, OFFSET, i) == pair);
    }
}

/* ---- S-029: any split of the range gives the same numbers ---- */

static void S029_philox_ranges_do_not_depend_on_the_split(void **state) {
    (void)state;
    enum { N = 37 };
    uint32_t w[N], w2[N];
    uint64_t q[N], q2[N];
    float f[N], f2[N];
    double d[N], d2[N];
    fac__random_fill_u32(w, 0, N, SEED, OFFSET);
    fac__random_fill_u64(q, 0, N, SEED, OFFSET);
    fac__normal_fill_f32(f, 0, N, SEED, OFFSET);
    fac__normal_fill_f64(d, 0, N, SEED, OFFSET);
    for (int64_t cut = 0; cut <= N; cut++) {
        fac__random_fill_u32(w2, 0, cut, SEED, OFFSET);
        fac__random_fill_u32(w2 + cut, cut, N, SEED, OFFSET);
        fac__random_fill_u64(q2, 0, cut, SEED, OFFSET);
        fac__random_fill_u64(q2 + cut, cut, N, SEED, OFFSET);
        fac__normal_fill_f32(f2, 0, cut, SEED, OFFSET);
        fac__normal_fill_f32(f2 + cut, cut, N, SEED, OFFSET);
        fac__normal_fill_f64(d2, 0, cut, SEED, OFFSET);
        fac__normal_fill_f64(d2 + cut, cut, N, SEED, OFFSET);
        assert_memory_equal(w, w2, sizeof w);
        assert_memory_equal(q, q2, sizeof q);
        assert_memory_equal(f, f2, sizeof f);
        assert_memory_equal(d, d2, sizeof d);
    }
}

/* ---- uniform, bernoulli, integers ---- */

static void philox_uniform_ends(void **state) {
    (void)state;
    assert_true(fac__uniform_f32(0) == 0 && fac__uniform_f32(UINT32_MAX) == 1 - 0x1p-24f);
    assert_true(fac__uniform_f64(0) == 0 && fac__uniform_f64(UINT64_MAX) == 1 - 0x1p-53);
    assert_true(fac__uniform_open_f32(0) == 0x1p-24f && fac__uniform_open_f32(UINT32_MAX) == 1);
    assert_true(fac__uniform_open_f64(0) == 0x1p-53 && fac__uniform_open_f64(UINT64_MAX) == 1);
}

static void philox_bernoulli_threshold(void **state) {
    (void)state;
    assert_false(fac__bernoulli(0, fac__bernoulli_threshold(0)));
    assert_false(fac__bernoulli(0, fac__bernoulli_threshold(NAN)));
    assert_true(fac__bernoulli(UINT32_MAX, fac__bernoulli_threshold(1)));
    assert_true(fac__bernoulli(0x7fffffff, fac__bernoulli_threshold(0.5)));
    assert_false(fac__bernoulli(0x80000000, fac__bernoulli_threshold(0.5)));
    assert_true(fac__bernoulli(0, fac__bernoulli_threshold(1e-300)));
}

static void philox_integers_below(void **state) {
    (void)state;
    assert_int_equal(fac__below_u32(UINT32_MAX, 10), 9);
    assert_int_equal(fac__below_u32(0, 10), 0);
    assert_int_equal(fac__below_u32(UINT32_MAX, 1), 0);
    assert_true(fac__below_u64(UINT64_MAX, (uint64_t)1 << 63) == ((uint64_t)1 << 63) - 1);
    int count[10] = {0};
    for (int64_t i = 0; i < 100000; i++) count[fac__below_u32(fac__random_u32(SEED, OFFSET, i), 10)]++;
    for (int k = 0; k < 10; k++) assert_in_range(count[k], 9600, 10400);
}

/* ---- the functions under the normals, against the C library ---- */

static double error_in_ulps_f32(float x, double expected) {
    double ulp = fabs(expected) < 0x1p-126 ? 0x1p-149 : ldexp(1, ilogb(expected) - 23);
    return fabs((double)x - expected) / ulp;
}

static void philox_log_is_accurate(void **state) {
    (void)state;
    double worst32 = 0, worst64 = 0;
    for (uint32_t k = 1; k <= 1u << 24; k += 61) {
        float u = (float)k * 0x1p-24f;
        if (k < 1u << 24) worst32 = fmax(worst32, error_in_ulps_f32(fac__log_unit_f32(u), log((double)u)));
        double v = (double)k * 0x1p-24 + 0x1p-53;
        if (v < 1) worst64 = fmax(worst64, fabs(fac__log_unit_f64(v) / log(v) - 1));
    }
    assert_true(fac__log_unit_f32(1) == 0 && fac__log_unit_f64(1) == 0);
    assert_true(fabs(fac__log_unit_f64(0x1p-53) / log(0x1p-53) - 1) < 4e-16);
    assert_true(error_in_ulps_f32(fac__log_unit_f32(1 - 0x1p-24f), log(1 - 0x1p-24)) < 2);
    assert_true(worst32 < 2);
    assert_true(worst64 < 5e-16);
}

static void philox_sine_and_cosine_are_accurate(void **state) {
    (void)state;
    const double turn = 6.283185307179586476925;
    double worst32 = 0, worst64 = 0;
    for (uint32_t k = 0; k < 1u << 24; k += 97) {
        float s, c;
        double u = (double)k * 0x1p-24, sd, cd;
        fac__sincos_turn_f32((float)u, &s, &c);
        fac__sincos_turn_f64(u, &sd, &cd);
        worst32 = fmax(worst32, fmax(fabs((double)s - sin(turn * u)), fabs((double)c - cos(turn * u))));
        worst64 = fmax(worst64, fmax(fabs(sd - sin(turn * u)), fabs(cd - cos(turn * u))));
    }
    assert_true(worst32 < 1.2e-7);
    assert_true(worst64 < 1.2e-15); /* the C library's argument is rounded: up to 9e-16 */
    float s, c;
    fac__sincos_turn_f32(0.25f, &s, &c);
    assert_true(s == 1 && c == 0);
    fac__sincos_turn_f32(0.5f, &s, &c);
    assert_true(s == 0 && c == -1);
}

/* ---- normals ---- */

/* Bits that every device and instruction set must give; a change of them changes every seeded result. */
static void S029_normal_bits_are_fixed(void **state) {
    (void)state;
    float f[8];
    double d[4];
    uint32_t fb[8];
    uint64_t db[4];
    fac__normal_fill_f32(f, 0, 8, 42, 0);
    fac__normal_fill_f64(d, 0, 4, 42, 0);
    memcpy(fb, f, sizeof f);
    memcpy(db, d, sizeof d);
    const uint32_t expected32[8] = {0xbf785e59, 0x3e46aceb, 0xbf9e28cd, 0x3ff6433e,
                                    0xbd95e014, 0x3e0e79fe, 0xbf8da732, 0x3ea7430a};
    const uint64_t expected64[4] = {0xbfe54ac03c1a032a, 0x3ff0938db380d761, 0xbff6f135c80fefcb, 0x3fdb16fd5e6389c7};
    assert_memory_equal(fb, expected32, sizeof fb);
    assert_memory_equal(db, expected64, sizeof db);
}

/* Mean, variance, kurtosis and the share beyond two, of 200 000 draws: within five standard errors. */
static void S029_normal_moments(void **state) {
    (void)state;
    enum { N = 200000 };
    double m1[2] = {0}, m2[2] = {0}, m4[2] = {0}, tail[2] = {0};
    for (int64_t i = 0; i < N; i++) {
        double x[2] = {(double)fac__normal_f32(SEED, OFFSET, i), fac__normal_f64(SEED, OFFSET, i)};
        for (int k = 0; k < 2; k++) {
            m1[k] += x[k] / N;
            m2[k] += x[k] * x[k] / N;
            m4[k] += x[k] * x[k] * x[k] * x[k] / N;
            tail[k] += (fabs(x[k]) > 2) / (double)N;
        }
    }
    for (int k = 0; k < 2; k++) {
        assert_true(fabs(m1[k]) < 5 * sqrt(1.0 / N));
        assert_true(fabs(m2[k] - 1) < 5 * sqrt(2.0 / N));
        assert_true(fabs(m4[k] - 3) < 5 * sqrt(96.0 / N));
        assert_true(fabs(tail[k] - 0.0455003) < 5 * sqrt(0.0434 / N));
    }
}

/* Neighbouring elements share a block and a radius: they must still be independent. */
static void S029_normal_neighbours_are_uncorrelated(void **state) {
    (void)state;
    enum { N = 100000 };
    for (int64_t lag = 1; lag <= 4; lag++) {
        double c = 0, q = 0;
        for (int64_t i = 0; i < N; i++) {
            double x = (double)fac__normal_f32(SEED, OFFSET, i), y = (double)fac__normal_f32(SEED, OFFSET, i + lag);
            c += x * y / N;
            q += (x * x - 1) * (y * y - 1) / N;
        }
        assert_true(fabs(c) < 5 * sqrt(1.0 / N));
        assert_true(fabs(q) < 5 * sqrt(4.0 / N));
    }
}

/* ---- generators ---- */

static void S029_generator_advances_and_is_seeded(void **state) {
    (void)state;
    fac_draw d;
    uint64_t seed, offset;
    fac_generator *g = fac_generator_new(5);
    assert_ok(fac__draw(g, 3, &d));
    assert_int_equal(d.seed, 5);
    assert_int_equal(d.offset, 0);
    assert_ok(fac__draw(g, 1, &d));
    assert_int_equal(d.offset, 3);
    fac_generator_get_state(g, &seed, &offset);
    assert_int_equal(offset, 4);
    fac_generator_set_state(g, 6, 100);
    assert_ok(fac__draw(g, 1, &d));
    assert_int_equal(d.seed, 6);
    assert_int_equal(d.offset, 100);
    assert_ptr_equal(fac_generator_keep(g), g);
    fac_generator_release(g);
    assert_int_equal(fac_live(), 1);
    fac_generator_release(g);
    fac_generator_release(NULL);
}

static void S029_generator_default_is_seeded_by_manual_seed(void **state) {
    (void)state;
    fac_draw d;
    uint64_t seed, offset;
    fac_manual_seed(11);
    assert_ok(fac__draw(NULL, 2, &d));
    fac_generator_get_state(fac_default_generator(), &seed, &offset);
    assert_int_equal(seed, 11);
    assert_int_equal(offset, 2);
    fac_generator_release(fac_default_generator()); /* it is not ours to free: it stays */
    fac_manual_seed(12);
    fac_generator_get_state(fac_default_generator(), &seed, &offset);
    assert_int_equal(seed, 12);
    assert_int_equal(offset, 0);
}

static void generator_that_is_used_up_is_an_error(void **state) {
    (void)state;
    fac_draw d;
    fac_generator *g = fac_generator_new(5);
    fac_generator_set_state(g, 5, ((uint64_t)1 << 48) - 1);
    assert_ok(fac__draw(g, 1, &d));
    assert_int_equal(fac__draw(g, 1, &d), FAC_ERR_OVERFLOW);
    assert_error(FAC_ERR_OVERFLOW, "2^48");
    fac_generator_release(g);
}

static void generator_without_memory_is_an_error(void **state) {
    (void)state;
    memory_hook_fail(1, false);
    assert_null(fac_generator_new(1));
    assert_error(FAC_ERR_MEMORY, "out of memory");
}

FAC_TEST_MAIN(FAC_TEST(philox_known_answers), FAC_TEST(philox_counter_layout),
              FAC_TEST(philox_elements_read_their_lanes), FAC_TEST(S029_philox_ranges_do_not_depend_on_the_split),
              FAC_TEST(philox_uniform_ends), FAC_TEST(philox_bernoulli_threshold), FAC_TEST(philox_integers_below),
              FAC_TEST(philox_log_is_accurate), FAC_TEST(philox_sine_and_cosine_are_accurate),
              FAC_TEST(S029_normal_bits_are_fixed), FAC_TEST(S029_normal_moments),
              FAC_TEST(S029_normal_neighbours_are_uncorrelated), FAC_TEST(S029_generator_advances_and_is_seeded),
              FAC_TEST(S029_generator_default_is_seeded_by_manual_seed),
              FAC_TEST(generator_that_is_used_up_is_an_error), FAC_TEST(generator_without_memory_is_an_error))
