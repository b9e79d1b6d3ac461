/* Devices: as text, their keys and allocators, the private type's name. */
#include "core/tensor_make.h"
#include "support/support.h"

static void S031_device_strings_parse(void **state) {
    (void)state;
    const struct {
        const char *text;
        fac_device_type type;
        int index;
    } good[] = {{"cpu", FAC_CPU, -1},
                {"cpu:0", FAC_CPU, 0},
                {"cuda", FAC_CUDA, -1},
                {"cuda:2", FAC_CUDA, 2},
                {"cuda:10", FAC_CUDA, 10},
                {"meta", FAC_META, -1},
                {"private1:0", FAC_PRIVATE1, 0},
                {"private3", FAC_PRIVATE3, -1}};
    char buf[24];
    for (size_t i = 0; i < FAC_COUNT(good); i++) {
        fac_device d = fac_device_parse(good[i].text);
        assert_no_error();
        assert_true(fac_device_equal(d, fac_device_make(good[i].type, good[i].index)));
        assert_string_equal(fac_device_format(d, buf, sizeof buf), good[i].text);
    }
}

static void S031_device_bad_strings_are_errors_that_name_the_text(void **state) {
    (void)state;
    const char *bad[] = {"",      "cpux",    "cuda:01", "cuda:-1",  "cuda:+1",
                         "cuda:", "cuda: 1", "cuda:1 ", "cpu:x",    ":1",
                         "CUDA",  "cud",     "unset",   "cuda:1:2", "cuda:99999999999999999999"};
    for (size_t i = 0; i < FAC_COUNT(bad); i++) {
        char quoted[64];
        snprintf(quoted, sizeof quoted, "'%s'", bad[i]);
        assert_int_equal(fac_device_parse(bad[i]).type, FAC_DEVICE_UNSET);
        assert_error(FAC_ERR_DEVICE, quoted);
    }
    assert_int_equal(fac_device_parse(NULL).type, FAC_DEVICE_UNSET);
    assert_error(FAC_ERR_DEVICE, "invalid device string");
}

static void S031_device_index_of_the_cpu_is_zero_or_none(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *t;
    assert_ok(fac__empty(NULL, 0, FAC_F32, fac_device_parse("cpu:0"), &t));
    assert_true(fac_device_equal(t->device, fac_device_make(FAC_CPU, -1)));
    fac__unref(t);
    assert_int_equal(fac__empty(NULL, 0, FAC_F32, fac_device_make(FAC_CPU, 1), &t), FAC_ERR_DEVICE);
    assert_error(FAC_ERR_DEVICE, "CPU device index must be -1 or zero, got 1");
}

static void S083_device_without_a_back_end_is_an_error_asking_for_a_report(void **state) {
    (void)state;
    fac_backend b;
    const struct {
        fac_device_type type;
        fac_backend backend;
    } known[] = {{FAC_CPU, FAC_BACKEND_CPU},           {FAC_CUDA, FAC_BACKEND_CUDA},
                 {FAC_META, FAC_BACKEND_META},         {FAC_PRIVATE1, FAC_BACKEND_PRIVATE1},
                 {FAC_PRIVATE2, FAC_BACKEND_PRIVATE2}, {FAC_PRIVATE3, FAC_BACKEND_PRIVATE3}};
    for (size_t i = 0; i < FAC_COUNT(known); i++) {
        assert_ok(fac_backend_of_device(known[i].type, &b));
        assert_int_equal(b, known[i].backend);
    }
    assert_int_equal(fac_backend_of_device(FAC_DEVICE_UNSET, &b), FAC_ERR_DEVICE);
    assert_error(FAC_ERR_DEVICE, "report");
    assert_int_equal(fac_backend_of_device((fac_device_type)42, &b), FAC_ERR_DEVICE);
    assert_error(FAC_ERR_DEVICE, "42");
}

static void S008_device_default_keys(void **state) {
    (void)state;
    fac_keyset ks;
    assert_ok(fac__default_keys(fac_device_make(FAC_META, -1), &ks));
    assert_int_equal(fac__keyset_backend(ks), FAC_BACKEND_META);
    assert_true(ks == (fac__backend_bit(FAC_BACKEND_META) | FAC_KS_DENSE | FAC_KS_AUTOGRAD | FAC_KS_ADINPLACEORVIEW));
    fac__thread()->inference = true;
    assert_ok(fac__default_keys(fac_device_make(FAC_CPU, -1), &ks));
    fac__thread()->inference = false;
    assert_true(ks == (fac__backend_bit(FAC_BACKEND_CPU) | FAC_KS_DENSE));
}

static void device_without_allocator_is_an_error_naming_it(void **state) {
    (void)state;
    fac_tensor *t;
    assert_int_equal(fac__empty(NULL, 0, FAC_F32, fac_device_make(FAC_PRIVATE3, 1), &t), FAC_ERR_DEVICE);
    assert_error(FAC_ERR_DEVICE, "'private3:1'");
    assert_null(t);
}

/* Renames the second private type for good: the last test of this program. */
static void device_private_type_is_renamed_once(void **state) {
    (void)state;
    char buf[24];
    assert_int_equal(fac_device_rename(FAC_CUDA, "gpu"), FAC_ERR_ARGUMENT);
    assert_error(FAC_ERR_ARGUMENT, "only private");
    const char *bad[] = {"", "Npu", "1npu", "np u", "anamethatismuchtoolong", "cuda"};
    for (size_t i = 0; i < FAC_COUNT(bad); i++) {
        assert_int_equal(fac_device_rename(FAC_PRIVATE2, bad[i]), FAC_ERR_ARGUMENT);
        assert_error(FAC_ERR_ARGUMENT, bad[i]);
    }
    assert_ok(fac_device_rename(FAC_PRIVATE2, "npu"));
    assert_ok(fac_device_rename(FAC_PRIVATE2, "npu"));
    assert_int_equal(fac_device_rename(FAC_PRIVATE2, "dlp"), FAC_ERR_STATE);
    assert_error(FAC_ERR_STATE, "'npu' already");
    assert_int_equal(fac_device_rename(FAC_PRIVATE1, "npu"), FAC_ERR_ARGUMENT);
    assert_error(FAC_ERR_ARGUMENT, "taken");
    assert_true(fac_device_equal(fac_device_parse("npu:3"), fac_device_make(FAC_PRIVATE2, 3)));
    assert_string_equal(fac_device_format(fac_device_make(FAC_PRIVATE2, 3), buf, sizeof buf), "npu:3");
}

FAC_TEST_MAIN(FAC_TEST(S031_device_strings_parse), FAC_TEST(S031_device_bad_strings_are_errors_that_name_the_text),
              FAC_TEST(S031_device_index_of_the_cpu_is_zero_or_none),
              FAC_TEST(S083_device_without_a_back_end_is_an_error_asking_for_a_report),
              FAC_TEST(S008_device_default_keys), FAC_TEST(device_without_allocator_is_an_error_naming_it),
              FAC_TEST(device_private_type_is_renamed_once))
