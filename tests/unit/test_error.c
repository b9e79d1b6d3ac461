/* The thread's error: the first one wins, its context, long messages, taking and restoring. */
#include "support/support.h"
#include <stdlib.h>

static void error_first_one_wins(void **state) {
    (void)state;
    assert_int_equal(FAC_FAIL(FAC_ERR_SHAPE, "first %d", 1), FAC_ERR_SHAPE);
    assert_int_equal(FAC_FAIL(FAC_ERR_DTYPE, "second"), FAC_ERR_SHAPE);
    assert_string_equal(fac_error_message(), "first 1");
    assert_error(FAC_ERR_SHAPE, "first 1");
    assert_int_equal(fac_error(), FAC_OK);
    assert_string_equal(fac_error_message(), "");
}

static void error_context_names_operator_and_argument_once(void **state) {
    (void)state;
    fac_error_info e;
    FAC_FAIL(FAC_ERR_SHAPE, "sizes differ");
    assert_int_equal(fac__error_context("addmm", "mat2"), FAC_ERR_SHAPE);
    assert_int_equal(fac__error_context("linear", NULL), FAC_ERR_SHAPE);
    fac_error_get(&e);
    assert_string_equal(e.message, "addmm, argument mat2: sizes differ");
    assert_string_equal(e.op, "addmm");
    assert_string_equal(e.argument, "mat2");
    assert_non_null(strstr(e.source_file, "test_error.c"));
    assert_true(e.source_line > 0);
    fac_error_clear();
    FAC_FAIL(FAC_ERR_DTYPE, "integers");
    fac__error_context("exp", NULL);
    assert_string_equal(fac_error_message(), "exp: integers");
    fac_error_clear();
    assert_int_equal(fac__error_context("exp", NULL), FAC_OK);
}

static void error_long_message_is_kept_whole(void **state) {
    (void)state;
    char text[2000];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    FAC_FAIL(FAC_ERR_FORMAT, "%s!", text);
    assert_int_equal(strlen(fac_error_message()), sizeof text);
    fac__error_context("load", "path");
    assert_int_equal(strlen(fac_error_message()), sizeof text + strlen("load, argument path: "));
    assert_int_equal(strncmp(fac_error_message(), "load, argument path: xxx", 24), 0);
    fac_error_clear();
}

/* 500 characters fit the record's own buffer, but not with the prefix. */
static void error_context_moves_a_message_that_outgrows_its_buffer(void **state) {
    (void)state;
    FAC_FAIL(FAC_ERR_FORMAT, "%500s", "end");
    fac__error_context("an_operator", "argument");
    const char *message = fac_error_message();
    assert_int_equal(strlen(message), 500 + strlen("an_operator, argument argument: "));
    assert_string_equal(message + strlen(message) - 3, "end");
    fac_error_clear();
}

static void error_needs_no_memory_to_report(void **state) {
    (void)state;
    char text[2000];
    memset(text, 'y', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    memory_hook_fail(1, true);
    FAC_FAIL(FAC_ERR_IO, "%s", text);
    fac__error_context("save", "file");
    memory_hook_fail(0, false);
    assert_int_equal(fac_error(), FAC_ERR_IO);
    assert_int_equal(strncmp(fac_error_message(), "save, argument file: yyy", 24), 0);
    fac_error_clear();
}

static void error_take_and_restore_moves_it(void **state) {
    (void)state;
    assert_null(fac__error_take());
    FAC_FAIL(FAC_ERR_INDEX, "out of range");
    fac__error_context("gather", "index");
    fac_saved_error *e = fac__error_take();
    assert_int_equal(fac_error(), FAC_OK);
    fac__error_restore(e);
    fac_error_info info;
    assert_int_equal(fac_error_get(&info), FAC_ERR_INDEX);
    assert_string_equal(info.op, "gather");
    assert_string_equal(info.message, "gather, argument index: out of range");
    fac__error_context("backward", NULL);
    assert_string_equal(fac_error_message(), "gather, argument index: out of range");
    fac_error_clear();
}

static void error_restore_keeps_a_later_pending_one(void **state) {
    (void)state;
    FAC_FAIL(FAC_ERR_INDEX, "taken");
    fac_saved_error *e = fac__error_take();
    FAC_FAIL(FAC_ERR_SHAPE, "pending");
    fac__error_restore(e);
    assert_error(FAC_ERR_SHAPE, "pending");
    FAC_FAIL(FAC_ERR_INDEX, "dropped");
    fac__error_drop(fac__error_take());
    assert_int_equal(fac_error(), FAC_OK);
}

static void error_take_without_memory_still_reports(void **state) {
    (void)state;
    FAC_FAIL(FAC_ERR_INDEX, "lost");
    memory_hook_fail(1, true);
    fac_saved_error *e = fac__error_take();
    memory_hook_fail(0, false);
    assert_non_null(e);
    assert_int_equal(fac_error(), FAC_OK);
    fac__error_restore(e);
    assert_error(FAC_ERR_MEMORY, "out of memory");
}

static void error_set_by_caller_and_report(void **state) {
    (void)state;
    char *text = NULL;
    size_t n = 0;
    FILE *f = open_memstream(&text, &n);
    assert_int_equal(fac_report(f), 0);
    fac_error_set(FAC_ERR_FORMAT, "line %d is not a number", 7);
    assert_int_equal(fac_report(f), 1);
    fclose(f);
    assert_non_null(strstr(text, "test_error.c:"));
    assert_non_null(strstr(text, ": facula: FORMAT error: line 7 is not a number\n"));
    free(text);
    assert_error(FAC_ERR_FORMAT, "line 7");
}

static void error_status_names_are_total(void **state) {
    (void)state;
    assert_string_equal(fac_status_name(FAC_OK), "OK");
    assert_string_equal(fac_status_name(FAC_ERR_NO_KERNEL), "NO_KERNEL");
    assert_string_equal(fac_status_name(FAC_ERR_INTERNAL), "INTERNAL");
    assert_string_equal(fac_status_name((fac_status)99), "UNKNOWN");
    assert_string_equal(fac_status_name((fac_status)-1), "UNKNOWN");
}

FAC_TEST_MAIN(FAC_TEST(error_first_one_wins), FAC_TEST(error_context_names_operator_and_argument_once),
              FAC_TEST(error_long_message_is_kept_whole),
              FAC_TEST(error_context_moves_a_message_that_outgrows_its_buffer),
              FAC_TEST(error_needs_no_memory_to_report), FAC_TEST(error_take_and_restore_moves_it),
              FAC_TEST(error_restore_keeps_a_later_pending_one), FAC_TEST(error_take_without_memory_still_reports),
              FAC_TEST(error_set_by_caller_and_report), FAC_TEST(error_status_names_are_total))
