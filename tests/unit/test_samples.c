/* Every operator has a sample, each works on the CPU, and text and data say the same. */
#include "support/samples.h"
#include "support/support.h"

#include "dispatch/operator.h"
#include <facula/facula.h>
#include <stdlib.h>

static sample_set set;

static int load(void **state) {
    (void)state;
    return samples_load(&set) ? 0 : -1;
}

static void samples_every_operator_has_one(void **state) {
    (void)state;
    int missing = 0;
    for (size_t i = 0; i < fac_operator_count(); i++) {
        const fac_operator *op = fac_operator_at(i);
        size_t n;
        samples_of(&set, fac_operator_name(op), &n);
        if (!n) print_error("no sample: %s\n", fac_operator_schema(op));
        missing += !n;
    }
    assert_int_equal(missing, 0);
}

static void samples_each_works_on_the_cpu(void **state) {
    (void)state;
    int failed = 0;
    for (size_t i = 0; i < set.n; i++) {
        sample_call c;
        assert_true(sample_parse(set.texts[i], &c, NULL));
        if (sample_elsewhere(c.op) || sample_try(&c, fac_device_make(FAC_CPU, -1)) == FAC_OK) continue;
        print_error("%s: %s\n", set.texts[i], fac_error_message());
        fac_error_clear();
        failed++;
    }
    assert_int_equal(failed, 0);
}

static void samples_text_and_data_agree(void **state) {
    (void)state;
    static char text[SAMPLE_TEXT], again[SAMPLE_TEXT];
    for (size_t i = 0; i < set.n; i++) {
        sample_call c, d;
        assert_true(sample_parse(set.texts[i], &c, NULL));
        sample_tidy(&c);
        sample_print(&c, text, sizeof text);
        assert_true(sample_parse(text, &d, NULL));
        assert_string_equal(text, sample_print(&d, again, sizeof again));
    }
}

static void samples_every_modifier_is_read_back(void **state) {
    (void)state;
    const char *text =
        "where.self(bool[2,3]:[0,1]+5{0,1}@meta, f32[]!!~, $1, f64[1]&1, [1, -2], [], \"a\\\"b\"*3, (1,-inf), "
        "nan, -0.5, 1e+30, None, True, dtype(bf16), dtype(99), device(next), layout(1), format(3), generator)";
    char buf[1024];
    sample_call c;
    assert_true(sample_parse(text, &c, NULL));
    assert_string_equal(sample_print(&c, buf, sizeof buf), text);
}

static void samples_bad_text_is_refused_where_it_is_bad(void **state) {
    (void)state;
    static const char *const bad[] = {
        "",         "add",        "add(",     "add(f99[2])",      "add(f32[2)", "add($0)", "add(f32[2]&0)",
        "add(\"x)", "add([[1]])", "add(1) 2", "add(f32[2]:[1,1])"};
    for (size_t i = 0; i < FAC_COUNT(bad); i++) {
        sample_call c;
        const char *where = NULL;
        assert_false(sample_parse(bad[i], &c, &where));
        assert_true(where >= bad[i] && where <= bad[i] + strlen(bad[i]));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        FAC_TEST(samples_every_operator_has_one),
        FAC_TEST(samples_each_works_on_the_cpu),
        FAC_TEST(samples_text_and_data_agree),
        FAC_TEST(samples_every_modifier_is_read_back),
        FAC_TEST(samples_bad_text_is_refused_where_it_is_bad),
    };
    int failed = support_run(tests, FAC_COUNT(tests), load);
    samples_free(&set);
    return failed;
}
