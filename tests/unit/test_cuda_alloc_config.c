/* The allocator's settings as text: what is read, what is refused, what is rounded how. */
#include "backend/cuda/runtime/alloc.h"
#include "support/support.h"
#include <stdlib.h>

static const int64_t MIB = 1 << 20;

static fac_alloc_config parse(const char *text) {
    fac_alloc_config c;
    assert_ok(fac__alloc_config_parse(text, "test", NULL, NULL, &c));
    return c;
}

static void refuse(const char *text, const char *message) {
    fac_alloc_config c = {.pinned_threads = 77};
    assert_int_equal(fac__alloc_config_parse(text, "WHERE", NULL, NULL, &c), FAC_ERR_ARGUMENT);
    fac_error_info e;
    fac_error_get(&e);
    if (!strstr(e.message, "WHERE")) fail_msg("'%s': the message does not say where: %s", text, e.message);
    assert_error(FAC_ERR_ARGUMENT, message);
    assert_int_equal(c.pinned_threads, 77); /* nothing was written */
}

static void S213_defaults_are_those_of_pytorch(void **state) {
    (void)state;
    const char *const empty[] = {NULL, "", "  "};
    for (size_t i = 0; i < FAC_COUNT(empty); i++) {
        fac_alloc_config c = parse(empty[i]);
        assert_false(c.async || c.expandable || c.capture_reuse || c.reject_early);
        assert_false(c.pinned_register || c.pinned_background || c.pinned_catch_all);
        assert_int_equal(c.large_segment, 20 * MIB);
        assert_int_equal(c.max_split, INT64_MAX);
        assert_int_equal(c.max_non_split_rounding, 20 * MIB);
        assert_true(c.gc_threshold == 0 && c.memory_fraction < 0);
        assert_int_equal(c.pinned_threads, 1);
        for (int k = 0; k < FAC_ROUNDUP_INTERVALS; k++) assert_int_equal(c.roundup[k], 0);
    }
}

static void S209_every_option_is_read(void **state) {
    (void)state;
    fac_alloc_config c =
        parse("backend:native,large_segment_size_mb:32,max_split_size_mb:64,max_non_split_rounding_mb:128,"
              "garbage_collection_threshold:0.75,roundup_power2_divisions:4,expandable_segments:True,"
              "release_lock_on_cudamalloc:False,graph_capture_record_stream_reuse:True,"
              "per_process_memory_fraction:0.5,throw_on_cudamalloc_oom:True,"
              "pinned_use_cuda_host_register:True,pinned_num_register_threads:8,"
              "pinned_use_background_threads:True,pinned_reserve_segment_size_mb:16,"
              "pinned_max_round_threshold_mb:3,pinned_max_cached_size_mb:5,pinned_free_catch_all:True");
    assert_int_equal(c.large_segment, 32 * MIB);
    assert_int_equal(c.max_split, 64 * MIB);
    assert_int_equal(c.max_non_split_rounding, 128 * MIB);
    assert_true(c.gc_threshold == 0.75 && c.memory_fraction == 0.5);
    assert_int_equal(c.roundup[0], 4);
    assert_int_equal(c.roundup[15], 4);
    assert_true(c.expandable && c.capture_reuse && c.reject_early && !c.release_lock);
    assert_true(c.pinned_register && c.pinned_background && c.pinned_catch_all);
    assert_int_equal(c.pinned_threads, 8);
    assert_int_equal(c.pinned_reserve, 16 * MIB);
    assert_int_equal(c.pinned_max_round, 3 * MIB);
    assert_int_equal(c.pinned_max_cached, 5 * MIB);
}

static void S209_blanks_and_repeats_are_legal(void **state) {
    (void)state;
    fac_alloc_config c = parse(" max_split_size_mb : 40 , max_split_size_mb:50,expandable_segments: True,");
    assert_int_equal(c.max_split, 50 * MIB); /* the later one */
    assert_true(c.expandable);
}

static void S209_unknown_options_and_bad_values_are_named(void **state) {
    (void)state;
    refuse("max_split_size:40", "there is no option 'max_split_size'");
    refuse("max_split_size_mb:40,,expandable_segments:True", "there is no option ','");
    refuse("max_split_size_mb", "expected ':' after 'max_split_size_mb'");
    refuse("max_split_size_mb:", "max_split_size_mb is 'missing'");
    refuse("max_split_size_mb:40x", "max_split_size_mb is '40x'");
    refuse("max_split_size_mb:-40", "max_split_size_mb is '-40'");
    refuse("max_split_size_mb:99999999999999999999", "max_split_size_mb is '9999");
    refuse("max_split_size_mb:10", "max_split_size_mb is 10, but must be at least large_segment_size_mb, 20");
    refuse("max_non_split_rounding_mb:10", "at least large_segment_size_mb");
    refuse("large_segment_size_mb:7", "large_segment_size_mb is '7'");
    refuse("max_split_size_mb:40 expandable_segments:True", "max_split_size_mb is '40expandable_segments'");
    refuse("max_split_size_mb:40:expandable_segments:True", "expected ',' between options, found ':'");
    refuse("expandable_segments:true", "expandable_segments is 'true', but must be True or False");
    refuse("garbage_collection_threshold:1", "between 0 and 1, neither included");
    refuse("garbage_collection_threshold:0", "between 0 and 1, neither included");
    refuse("garbage_collection_threshold:nan", "between 0 and 1");
    refuse("garbage_collection_threshold:0.5x", "between 0 and 1");
    refuse("per_process_memory_fraction:1.5", "per_process_memory_fraction is '1.5'");
    refuse("backend:jemalloc", "native or cudaMallocAsync");
    refuse("pinned_num_register_threads:3", "a power of two");
    refuse("pinned_num_register_threads:256", "at most 128");
    refuse("a_word_that_is_very_much_longer_than_any_option_or_value_could_ever_be_in_this_grammar:1", "longer than");
}

static void S212_roundup_divisions_as_a_number_or_a_list(void **state) {
    (void)state;
    fac_alloc_config c = parse("roundup_power2_divisions:[64:8,128:2,256:4,512:2,1024:4,>:1]");
    const struct {
        int64_t mib, divisions;
    } cases[] = {{1, 8}, {32, 8}, {64, 8}, {127, 8}, {128, 2}, {256, 4}, {512, 2}, {1024, 1}, {4096, 1}, {1 << 20, 1}};
    for (size_t i = 0; i < FAC_COUNT(cases); i++)
        assert_int_equal(fac__alloc_divisions(&c, cases[i].mib * MIB), cases[i].divisions);
    assert_int_equal(fac__alloc_divisions(&c, 700), 8);
    refuse("roundup_power2_divisions:3", "a power of two");
    refuse("roundup_power2_divisions:0", "a power of two");
    refuse("roundup_power2_divisions:[100:1]", "powers of two");
    refuse("roundup_power2_divisions:[64:3]", "0 or powers of two");
    refuse("roundup_power2_divisions:[64:2", "ends with ']'");
    refuse("roundup_power2_divisions:[64]", "expected ':'");
    refuse("roundup_power2_divisions:[64:2 128:4]", "powers of two");
}

static void S212_sizes_between_powers_of_two(void **state) {
    (void)state;
    assert_int_equal(fac__alloc_roundup(1200, 4), 1280);
    assert_int_equal(fac__alloc_roundup(1024, 4), 1024);
    assert_int_equal(fac__alloc_roundup(1025, 4), 1280);
    assert_int_equal(fac__alloc_roundup(1793, 4), 2048);
    assert_int_equal(fac__alloc_roundup(3, 4), 4);
    fac_alloc_config c = parse("roundup_power2_divisions:4");
    assert_int_equal(fac__cache_round(&c, 1200 * MIB), 1280 * MIB);
    assert_int_equal(fac__cache_round(&c, 1200 * 1024), 1280 * 1024);
    assert_int_equal(fac__cache_round(&c, 1200), 1536); /* below 512 bytes per division it is multiples of 512 */
}

static void S213_sizes_are_multiples_of_512(void **state) {
    (void)state;
    fac_alloc_config c = parse("");
    const int64_t cases[][2] = {{1, 512}, {512, 512}, {513, 1024}, {1200, 1536}, {MIB, MIB}, {MIB + 1, MIB + 512}};
    for (size_t i = 0; i < FAC_COUNT(cases); i++) assert_int_equal(fac__cache_round(&c, cases[i][0]), cases[i][1]);
}

static void X01_environment_in_order_of_priority(void **state) {
    (void)state;
    const char *name;
    unsetenv("FACULA_CUDA_ALLOC_CONF"), unsetenv("PYTORCH_ALLOC_CONF"), unsetenv("PYTORCH_CUDA_ALLOC_CONF");
    assert_string_equal(fac__alloc_config_env(&name), "");
    setenv("PYTORCH_CUDA_ALLOC_CONF", "c", 1);
    assert_string_equal(fac__alloc_config_env(&name), "c");
    assert_string_equal(name, "PYTORCH_CUDA_ALLOC_CONF");
    setenv("PYTORCH_ALLOC_CONF", "b", 1);
    assert_string_equal(fac__alloc_config_env(&name), "b");
    setenv("FACULA_CUDA_ALLOC_CONF", "a", 1);
    assert_string_equal(fac__alloc_config_env(&name), "a");
    unsetenv("FACULA_CUDA_ALLOC_CONF"), unsetenv("PYTORCH_ALLOC_CONF"), unsetenv("PYTORCH_CUDA_ALLOC_CONF");
}

static fac_status my_option(const void *context, const char *key, const char *value) {
    char *seen = (char *)(uintptr_t)context;
    strcat(strcat(strcat(strcat(seen, key), "="), value), ";");
    return strcmp(key, "page_kb") == 0 ? FAC_OK : FAC_FAIL(FAC_ERR_ARGUMENT, "no such option: %s", key);
}

static void X01_options_of_another_kind_of_device_go_to_its_hook(void **state) {
    (void)state;
    char seen[128] = "";
    fac_alloc_config c;
    assert_ok(
        fac__alloc_config_parse("page_kb: [1:2, 3:4],max_split_size_mb:40,page_kb:8", "test", my_option, seen, &c));
    assert_string_equal(seen, "page_kb=[1:2,3:4];page_kb=8;");
    assert_int_equal(c.max_split, 40 * MIB);
    assert_int_equal(fac__alloc_config_parse("other:8", "test", my_option, seen, &c), FAC_ERR_ARGUMENT);
    assert_error(FAC_ERR_ARGUMENT, "no such option: other");
}

/* Texts made of the grammar's own pieces, and of noise: always a result or an error that names the place. */
static void S209_random_texts_neither_crash_nor_pass_silently(void **state) {
    (void)state;
    static const char *const pieces[] = {"backend",
                                         "max_split_size_mb",
                                         "roundup_power2_divisions",
                                         "expandable_segments",
                                         ":",
                                         ",",
                                         "[",
                                         "]",
                                         ">",
                                         "True",
                                         "False",
                                         "64",
                                         "0.5",
                                         "-1",
                                         " ",
                                         "native",
                                         "99999999999999999999999",
                                         "\x80",
                                         "garbage_collection_threshold",
                                         "1e-3"};
    unsigned seed = 1;
    int good = 0;
    for (int i = 0; i < 200000; i++) {
        char text[512] = "";
        for (int k = rand_r(&seed) % 12; k >= 0; k--) strcat(text, pieces[(unsigned)rand_r(&seed) % FAC_COUNT(pieces)]);
        fac_alloc_config c;
        fac_status st = fac__alloc_config_parse(text, "WHERE", NULL, NULL, &c);
        assert_true(st == FAC_OK || st == FAC_ERR_ARGUMENT);
        if (st == FAC_OK)
            good++;
        else
            assert_non_null(strstr(fac_error_message(), "WHERE"));
        fac_error_clear();
    }
    assert_true(good > 0);
}

FAC_TEST_MAIN(FAC_TEST(S213_defaults_are_those_of_pytorch), FAC_TEST(S209_every_option_is_read),
              FAC_TEST(S209_blanks_and_repeats_are_legal), FAC_TEST(S209_unknown_options_and_bad_values_are_named),
              FAC_TEST(S212_roundup_divisions_as_a_number_or_a_list), FAC_TEST(S212_sizes_between_powers_of_two),
              FAC_TEST(S213_sizes_are_multiples_of_512), FAC_TEST(X01_environment_in_order_of_priority),
              FAC_TEST(X01_options_of_another_kind_of_device_go_to_its_hook),
              FAC_TEST(S209_random_texts_neither_crash_nor_pass_silently))
