/* What readers and writers of files refuse before they begin, with what they were given left as it is. */
#include "support/files.h"
#include "support/support.h"
#include <facula/facula.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* ---- safetensors ---------------------------------------------------------------------------------------------------- */

static void load_refused(const char *path, const char *name, fac_tensor *t, fac_status code, const char *message) {
    const fac_named_tensor target = {name, t};
    assert_int_equal(fac_safetensors_load(path, &target, 1), code);
    assert_error(code, message);
}

static void safetensors_load_refuses_what_does_not_fit(void **state) {
    (void)state;
    FAC_SCOPE(s);
    const float values[] = {7, 8};
    float got[2];
    fac_tensor *t = fac_tensor_from(values, FAC_F32, FAC_INTS(2));
    const char *path = files_safetensors("{\"x\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 8);
    load_refused(path, NULL, t, FAC_ERR_ARGUMENT, "the name of a tensor to load into is NULL");
    load_refused(path, "y", t, FAC_ERR_NOT_FOUND, "has no tensor 'y'");
    load_refused(path, "x", fac_ones(FAC_INTS(1, 2)), FAC_ERR_SHAPE, "");
    load_refused(path, "x", fac_ones(FAC_INTS(3)), FAC_ERR_SHAPE, "");
    assert_int_equal(fac_safetensors_load(path, NULL, 1), FAC_ERR_ARGUMENT);
    assert_error(FAC_ERR_ARGUMENT, "the list of tensors is NULL");
    path = files_safetensors("{\"x\":{\"dtype\":\"U16\",\"shape\":[2],\"data_offsets\":[0,4]}}", 4);
    load_refused(path, "x", t, FAC_ERR_UNSUPPORTED, "'x' is of type U16, which Facula has not");
    assert_ok(fac_tensor_read(t, FAC_F32, got, 2));
    assert_true(got[0] == 7 && got[1] == 8);
}

static void safetensors_dimensions_are_bounded(void **state) {
    (void)state;
    char header[400] = "{\"x\":{\"dtype\":\"U8\",\"shape\":[1";
    for (int i = 1; i < FAC_MAX_DIMS + 1; i++) strcat(header, ",1");
    strcat(header, "],\"data_offsets\":[0,1]}}");
    assert_null(fac_safetensors_open(files_safetensors(header, 1)));
    assert_error(FAC_ERR_FORMAT, "dimensions; at most");
}

static void safetensors_header_refused(const char *header) {
    fac_safetensors *f = fac_safetensors_open(files_safetensors(header, 8));
    if (f) fail_msg("'%s' was taken", header);
    assert_error(FAC_ERR_FORMAT, "not a valid safetensors file");
}

static void safetensors_entries_are_of_whole_numbers_and_their_own_kind(void **state) {
    (void)state;
    static const char *const headers[] = {
        "{\"x\":{\"dtype\":\"F32\",\"shape\":[2.0],\"data_offsets\":[0,8]}}",
        "{\"x\":{\"dtype\":\"F32\",\"shape\":[-2],\"data_offsets\":[0,8]}}",
        "{\"x\":{\"dtype\":\"F32\",\"shape\":{},\"data_offsets\":[0,8]}}",
        "{\"x\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0]}}",
        "{\"x\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0.0,8]}}",
        "{\"x\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,\"8\"]}}",
        "{\"x\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8],\"more\":1}}",
        "{\"x\":{\"dtype\":\"F32\",\"shape\":[2]}}",
        "{\"x\":[0,8]}",
        "{\"x\":{\"dtype\":4,\"shape\":[2],\"data_offsets\":[0,8]}}",
        "{\"__metadata__\":[],\"x\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}",
        "{\"__metadata__\":{\"a\":1},\"x\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}"};
    for (size_t i = 0; i < FAC_COUNT(headers); i++) safetensors_header_refused(headers[i]);
}

static void safetensors_save_refuses_what_has_no_bytes_and_replaces_nothing(void **state) {
    (void)state;
    FAC_SCOPE(s);
    const char *path = files_path("kept");
    size_t n;
    files_write(path, "before", 6);
    fac_named_tensor bad[] = {{"x", fac_empty(FAC_INTS(3), .device = fac_device_make(FAC_META, -1))},
                              {"x", fac_ones(FAC_INTS(3), .dtype = FAC_C128)},
                              {"__metadata__", fac_ones(FAC_INTS(3))},
                              {NULL, fac_ones(FAC_INTS(3))},
                              {"\xff", fac_ones(FAC_INTS(3))}};
    assert_no_error();
    for (size_t i = 0; i < FAC_COUNT(bad); i++) {
        assert_int_not_equal(fac_safetensors_save(path, &bad[i], 1, NULL, 0), FAC_OK);
        fac_error_clear();
    }
    assert_int_equal(fac_safetensors_save(path, NULL, 1, NULL, 0), FAC_ERR_ARGUMENT);
    fac_error_clear();
    unsigned char *bytes = files_read(path, &n);
    assert_true(n == 6 && memcmp(bytes, "before", 6) == 0);
    free(bytes);
}

/* ---- with an error pending ------------------------------------------------------------------------------------------ */

static void files_are_left_alone_while_an_error_is_pending(void **state) {
    (void)state;
    FAC_SCOPE(s);
    const char *saved = files_path("never.safetensors"), *replaced = files_path("never");
    fac_tensor *x = fac_ones(FAC_INTS(3));
    const fac_named_tensor named = {"x", x};
    struct stat info;
    fac_error_set(FAC_ERR_STATE, "an earlier error");
    assert_int_equal(fac_safetensors_save(saved, &named, 1, NULL, 0), FAC_ERR_STATE);
    assert_int_equal(fac_safetensors_load(saved, &named, 1), FAC_ERR_STATE);
    assert_int_equal(fac_file_replace(replaced, "x", 1), FAC_ERR_STATE);
    assert_null(fac_idx_read(saved));
    assert_null(fac_corpus_new(&saved, 1));
    assert_error(FAC_ERR_STATE, "an earlier error");
    assert_true(stat(saved, &info) != 0 && stat(replaced, &info) != 0);
}

/* ---- text ----------------------------------------------------------------------------------------------------------- */

static void corpus_refuses_paths_and_bounds_that_make_no_sense(void **state) {
    (void)state;
    const char *empty = "", *none = NULL, *absent = files_path("absent");
    assert_null(fac_corpus_new(&empty, 1));
    assert_error(FAC_ERR_ARGUMENT, "a path of the corpus is empty");
    assert_null(fac_corpus_new(&none, 1));
    assert_error(FAC_ERR_ARGUMENT, "a path of the corpus is empty");
    assert_null(fac_corpus_new(NULL, 2));
    assert_error(FAC_ERR_ARGUMENT, "a list of 2 paths has no array");
    assert_null(fac_corpus_new(&absent, 1));
    assert_error(FAC_ERR_IO, "absent");
    assert_null(fac_corpus_new(&absent, 1, .max_bytes = -1));
    assert_error(FAC_ERR_ARGUMENT, "max_bytes should be positive, but is -1");
}

static void batch_refused(fac_corpus *c, fac_span span, int64_t batch, int64_t length, const char *message) {
    uint64_t random = 1;
    fac_tensor *in, *target;
    assert_int_equal(fac_corpus_batch(c, span, batch, length, &random, &in, &target), FAC_ERR_SHAPE);
    assert_error(FAC_ERR_SHAPE, message);
    assert_int_equal(random, 1);
}

static void corpus_batches_lie_inside_it(void **state) {
    (void)state;
    FAC_SCOPE(s);
    const char *path = files_path("text");
    uint64_t random = 1;
    fac_tensor *in = NULL, *target = NULL;
    files_write(path, "0123456789", 10);
    fac_corpus *c = fac_corpus_new(&path, 1);
    assert_non_null(c);
    const int64_t n = fac_corpus_tokens(c);
    batch_refused(c, (fac_span){0, 0}, 0, 3, "must be at least 1");
    batch_refused(c, (fac_span){0, 0}, 2, -1, "must be at least 1");
    batch_refused(c, (fac_span){-1, n}, 2, 3, "is not inside the corpus");
    batch_refused(c, (fac_span){5, 4}, 2, 3, "is not inside the corpus");
    batch_refused(c, (fac_span){0, n + 1}, 2, 3, "is not inside the corpus");
    batch_refused(c, (fac_span){0, 0}, 2, n, "has no window of");
    assert_int_equal(fac_corpus_batch(c, (fac_span){0, 0}, 1, 2, NULL, &in, &target), FAC_ERR_ARGUMENT);
    assert_error(FAC_ERR_ARGUMENT, "NULL");
    assert_ok(fac_corpus_batch(c, (fac_span){0, 0}, 2, n - 1, &random, &in, &target));
    assert_int_equal(fac_tensor_numel(in), 2 * (n - 1));
    fac_corpus_release(c);
}

static void vocab_has_no_tokens_beyond_its_size(void **state) {
    (void)state;
    char out[8];
    size_t n = 99;
    fac_vocab *v = fac_vocab_characters("abc", 3);
    assert_int_equal(fac_vocab_decode(v, fac_vocab_size(v), out, &n), FAC_ERR_INDEX);
    assert_error(FAC_ERR_INDEX, "there is no token");
    assert_int_equal(fac_vocab_decode(v, -1, out, &n), FAC_ERR_INDEX);
    assert_error(FAC_ERR_INDEX, "there is no token -1");
    assert_int_equal(n, 99);
    fac_vocab_release(v);
}

static void idx_needs_a_path(void **state) {
    (void)state;
    assert_null(fac_idx_read(NULL));
    assert_error(FAC_ERR_ARGUMENT, "the path to read is NULL");
}

FAC_TEST_MAIN(FAC_TEST(safetensors_load_refuses_what_does_not_fit), FAC_TEST(safetensors_dimensions_are_bounded),
              FAC_TEST(safetensors_entries_are_of_whole_numbers_and_their_own_kind),
              FAC_TEST(safetensors_save_refuses_what_has_no_bytes_and_replaces_nothing),
              FAC_TEST(files_are_left_alone_while_an_error_is_pending),
              FAC_TEST(corpus_refuses_paths_and_bounds_that_make_no_sense), FAC_TEST(corpus_batches_lie_inside_it),
              FAC_TEST(vocab_has_no_tokens_beyond_its_size), FAC_TEST(idx_needs_a_path))
