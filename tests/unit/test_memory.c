/* Memory, vectors, buffers, maps, and whole numbers of the environment. */
#include "support/support.h"
#include <stdlib.h>

static void memory_zero_bytes_is_a_block(void **state) {
    (void)state;
    void *a = fac__alloc(0), *b = fac__alloc_zero(0);
    assert_non_null(a);
    assert_non_null(b);
    assert_ptr_not_equal(a, b);
    fac__free(a);
    fac__free(b);
    fac__free(NULL);
}

static void memory_aligned_as_asked(void **state) {
    (void)state;
    for (size_t align = 1; align <= 4096; align *= 2) {
        void *p = fac__alloc_aligned(3, align);
        assert_int_equal((uintptr_t)p % align, 0);
        fac__free(p);
    }
}

static void memory_array_overflow_is_an_error(void **state) {
    (void)state;
    assert_null(fac__alloc_array(SIZE_MAX / 2, 3));
    assert_error(FAC_ERR_OVERFLOW, "does not fit the address space");
}

static void memory_failure_is_an_error_that_names_the_size(void **state) {
    (void)state;
    memory_hook_fail(2, false);
    void *p = fac__alloc(10);
    assert_non_null(p);
    assert_null(fac__alloc(12345));
    assert_error(FAC_ERR_MEMORY, "12345 bytes");
    void *q = fac__alloc(10);
    assert_non_null(q);
    fac__free(p);
    fac__free(q);
}

static void memory_realloc_keeps_contents_and_survives_failure(void **state) {
    (void)state;
    char *p = fac__realloc(NULL, 0, 4);
    memcpy(p, "abc", 4);
    memory_hook_fail(1, false);
    assert_null(fac__realloc(p, 4, 100));
    assert_error(FAC_ERR_MEMORY, "100");
    assert_string_equal(p, "abc");
    p = fac__realloc(p, 4, 100);
    assert_string_equal(p, "abc");
    fac__free(p);
}

static void memory_vector_grows_and_keeps_elements(void **state) {
    (void)state;
    struct {
        int *v;
        size_t n, cap;
    } vec = {0};
    for (int i = 0; i < 1000; i++) {
        assert_ok(FAC_VEC_GROW(&vec));
        vec.v[vec.n++] = i;
    }
    for (int i = 0; i < 1000; i++) assert_int_equal(vec.v[i], i);
    fac__free(vec.v);
}

static void memory_buffer_appends_and_formats(void **state) {
    (void)state;
    fac_buf b = {0};
    assert_ok(fac__buf_add(&b, "", 0));
    assert_string_equal(b.data, "");
    for (int i = 0; i < 100; i++) assert_ok(fac__buf_printf(&b, "%d,", i));
    assert_int_equal(b.n, 290);
    assert_int_equal(strlen(b.data), 290);
    assert_string_equal(b.data + 284, "98,99,");
    fac__buf_free(&b);
}

static void memory_buffer_stays_failed(void **state) {
    (void)state;
    fac_buf b = {0};
    memory_hook_fail(1, false);
    assert_int_equal(fac__buf_add(&b, "x", 1), FAC_ERR_MEMORY);
    assert_error(FAC_ERR_MEMORY, "out of memory");
    assert_int_equal(fac__buf_add(&b, "y", 1), FAC_ERR_MEMORY);
    assert_true(b.failed);
    fac__buf_free(&b);
}

static void memory_strings_are_copied_and_formatted(void **state) {
    (void)state;
    char *a = fac__strdup("text"), *b = fac__format("%s-%03d", "n", 7);
    assert_string_equal(a, "text");
    assert_string_equal(b, "n-007");
    fac__free(a);
    fac__free(b);
}

/* Against a plain array, through many insertions and removals. */
static void memory_map_agrees_with_an_array(void **state) {
    (void)state;
    enum { KEYS = 300 };
    char keys[KEYS][16];
    void *expected[KEYS] = {0};
    fac_map m = {0};
    unsigned seed = 1;
    for (int i = 0; i < KEYS; i++) snprintf(keys[i], sizeof keys[i], "k%d", i);
    assert_null(fac__map_get(&m, "k0"));
    for (int step = 0; step < 20000; step++) {
        seed = seed * 1664525u + 1013904223u;
        unsigned k = (seed >> 16) % KEYS;
        if (seed & 0x8000u) {
            expected[k] = &keys[(seed >> 3) % KEYS];
            assert_ok(fac__map_set(&m, keys[k], expected[k]));
        } else {
            expected[k] = NULL;
            fac__map_remove(&m, keys[k]);
        }
    }
    size_t n = 0;
    for (int i = 0; i < KEYS; i++) {
        assert_ptr_equal(fac__map_get(&m, keys[i]), expected[i]);
        n += expected[i] != NULL;
    }
    assert_int_equal(m.n, n);
    fac__map_free(&m);
}

static void env_int_takes_only_whole_numbers_in_range(void **state) {
    (void)state;
    const struct {
        const char *text;
        int64_t value;
    } cases[] = {{"7", 7}, {"-3", -3}, {"11", 5}, {"", 5}, {"7x", 5}, {"x", 5}, {"99999999999999999999", 5}};
    for (size_t i = 0; i < FAC_COUNT(cases); i++) {
        setenv("FACULA_TEST_INT", cases[i].text, 1);
        assert_int_equal(fac__env_int("FACULA_TEST_INT", -10, 10, 5), cases[i].value);
    }
    unsetenv("FACULA_TEST_INT");
    assert_int_equal(fac__env_int("FACULA_TEST_INT", -10, 10, 5), 5);
}

static void now_does_not_go_back(void **state) {
    (void)state;
    double a = fac__now(), b = fac__now();
    assert_true(b >= a);
}

FAC_TEST_MAIN(FAC_TEST(memory_zero_bytes_is_a_block), FAC_TEST(memory_aligned_as_asked),
              FAC_TEST(memory_array_overflow_is_an_error), FAC_TEST(memory_failure_is_an_error_that_names_the_size),
              FAC_TEST(memory_realloc_keeps_contents_and_survives_failure),
              FAC_TEST(memory_vector_grows_and_keeps_elements), FAC_TEST(memory_buffer_appends_and_formats),
              FAC_TEST(memory_buffer_stays_failed), FAC_TEST(memory_strings_are_copied_and_formatted),
              FAC_TEST(memory_map_agrees_with_an_array), FAC_TEST(env_int_takes_only_whole_numbers_in_range),
              FAC_TEST(now_does_not_go_back))
