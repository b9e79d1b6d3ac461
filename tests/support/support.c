/* Begins and ends every unit test: nothing may be left alive. */
#include "support.h"
#include <stdlib.h>

#include "failing.h"

static int64_t live_before, blocks_before;

/* Frees what the library keeps for reuse, so that what is left is owned by someone. */
static void empty_caches(void) {
    fac__thread_trim();
    fac_memory_trim();
}

int support_setup(void **state) {
    (void)state;
    memory_hook_install();
    memory_hook_fail(0, false);
    assert_ok(fac_init());
    fac_error_clear();
    empty_caches();
    live_before = fac_live();
    blocks_before = memory_hook_live();
    return 0;
}

int support_teardown(void **state) {
    (void)state;
    memory_hook_fail(0, false);
    assert_no_error();
    assert_int_equal(fac__thread()->n_scopes, 0);
    empty_caches();
    assert_int_equal(fac_live(), live_before);
    assert_int_equal(memory_hook_live(), blocks_before);
    return 0;
}

int support_run(const struct CMUnitTest *tests, size_t n, CMFixtureFunction setup) {
    return getenv("FACULA_TEST_ALLOCATIONS") ? failing_run(tests, n, setup)
                                             : _cmocka_run_group_tests("tests", tests, n, setup, NULL);
}

void support_no_error(const char *file, int line) {
    fac_error_info e;
    if (fac_error_get(&e) == FAC_OK) return;
    print_error("%s error pending: %s (%s:%d)\n", fac_status_name(e.code), e.message, e.file, e.line);
    fac_error_clear();
    _fail(file, line);
}

void support_error(fac_status code, const char *text, const char *file, int line) {
    fac_error_info e;
    fac_error_get(&e);
    bool as_expected = e.code == code && strstr(e.message, text);
    if (!as_expected)
        print_error("expected a %s error with \"%s\", but found %s: \"%s\"\n", fac_status_name(code), text,
                    fac_status_name(e.code), e.message);
    fac_error_clear();
    if (!as_expected) _fail(file, line);
}

void support_fail_each_allocation(fac_status (*body)(void *context), void *context) {
    for (int64_t n = 1;; n++) {
        empty_caches();
        int64_t live = fac_live(), blocks = memory_hook_live();
        memory_hook_fail(n, false);
        fac_status st = body(context);
        bool met = memory_hook_failures() > 0;
        memory_hook_fail(0, false);
        if (!met || st == FAC_OK)
            assert_no_error();
        else
            assert_int_equal(fac_error(), FAC_ERR_MEMORY);
        fac_error_clear();
        empty_caches();
        assert_int_equal(fac_live(), live);
        assert_int_equal(memory_hook_live(), blocks);
        if (!met) return;
    }
}
