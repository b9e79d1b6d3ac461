/* safetensors: bytes against the format's definition, and every damage and every failure that the format invites. */
#include "support/files.h"
#include "support/support.h"

#include "base/file.h"
#include <errno.h>
#include <facula/io.h>
#include <facula/ops.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- helpers ---------------------------------------------------------------------------------------------------------- */

static void assert_refused(const char *path, fac_status code, const char *text) {
    assert_null(fac_safetensors_open(path));
    assert_error(code, text);
}

/* True if the file opens and its checksum holds. Clears the error if not. */
static bool is_whole(const char *path) {
    fac_safetensors *f = fac_safetensors_open(path);
    bool whole = f && fac_safetensors_verify(f) == FAC_OK;
    fac_safetensors_close(f);
    fac_error_clear();
    return whole;
}

/* Saves two small tensors whose values begin at `first`. */
static fac_status save_sample(const char *path, float first) {
    FAC_SCOPE(s);
    const float values[] = {first, first + 1, first + 2, first + 3, first + 4, first + 5};
    const int64_t counts[] = {7, -8};
    fac_named_tensor tensors[] = {{"weight", fac_tensor_from(values, FAC_F32, FAC_INTS(2, 3))},
                                  {"steps", fac_tensor_from(counts, FAC_I64, FAC_INTS(2))}};
    fac_metadata metadata[] = {{"note", "a \"quoted\" \\ text\n"}};
    return fac_safetensors_save(path, tensors, 2, metadata, 1);
}

static float first_weight(const char *path) {
    FAC_SCOPE(s);
    fac_safetensors *f = fac_safetensors_open(path);
    assert_non_null(f);
    fac_tensor *t = fac_safetensors_read(f, (size_t)fac_safetensors_find(f, "weight"));
    assert_non_null(t);
    float first = *(const float *)fac_tensor_data(t);
    fac_safetensors_close(f);
    return first;
}

/* ---- the format --------------------------------------------------------------------------------------------------------- */

static void save_writes_the_bytes_of_the_format(void **state) {
    (void)state;
    const char *path = files_path("bytes.safetensors");
    FAC_SCOPE(s);
    const unsigned char small[] = {1, 2, 3};
    const float large[] = {1.5f, -2};
    fac_named_tensor tensors[] = {{"b", fac_tensor_from(small, FAC_U8, FAC_INTS(3))},
                                  {"a", fac_tensor_from(large, FAC_F32, FAC_INTS(1, 2))}};
    assert_int_equal(fac_safetensors_save(path, tensors, 2, NULL, 0), FAC_OK);

    size_t n;
    unsigned char *bytes = files_read(path, &n);
    uint64_t length;
    memcpy(&length, bytes, 8);
    assert_int_equal(length % 8, 0);
    assert_int_equal(n, 8 + length + 11);
    const char *tail = "\"facula.writer\":\"0.2.0\"},\"a\":{\"dtype\":\"F32\",\"shape\":[1,2],\"data_offsets\":[0,8]},"
                       "\"b\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[8,11]}}";
    const char *lead = "{\"__metadata__\":{\"facula.crc32\":\"";
    assert_memory_equal(bytes + 8, lead, strlen(lead));
    assert_memory_equal(bytes + 8 + strlen(lead) + 8 + 2, tail, strlen(tail));
    assert_memory_equal(bytes + 8 + length, large, 8);
    assert_memory_equal(bytes + 8 + length + 8, small, 3);
    free(bytes);
}

static void save_and_read_keep_every_dtype_and_shape(void **state) {
    (void)state;
    static const fac_dtype dtypes[] = {FAC_BOOL, FAC_U8,   FAC_I8,  FAC_I16, FAC_I32, FAC_I64,
                                       FAC_F16,  FAC_BF16, FAC_F32, FAC_F64, FAC_C64};
    enum { N = FAC_COUNT(dtypes) };
    const char *path = files_path("dtypes.safetensors");
    FAC_SCOPE(s);
    unsigned char data[N][48];
    char names[N][32];
    fac_named_tensor tensors[N];
    for (int i = 0; i < N; i++) {
        for (int k = 0; k < 48; k++) data[i][k] = (unsigned char)(dtypes[i] == FAC_BOOL ? k % 2 : 37 * i + k);
        snprintf(names[i], sizeof names[i], "tensor \xc3\xa9 %d", i);
        fac_ints sizes = i % 3 == 0 ? FAC_INTS(2, 3) : i % 3 == 1 ? FAC_INTS() : FAC_INTS(4, 0, 2);
        tensors[i] = (fac_named_tensor){names[i], fac_tensor_from(data[i], dtypes[i], sizes)};
    }
    assert_int_equal(fac_safetensors_save(path, tensors, N, NULL, 0), FAC_OK);

    fac_safetensors *f = fac_safetensors_open(path);
    assert_non_null(f);
    assert_int_equal(fac_safetensors_verify(f), FAC_OK);
    assert_int_equal(fac_safetensors_count(f), N);
    for (int i = 0; i < N; i++) {
        int64_t at = fac_safetensors_find(f, names[i]);
        assert_true(at >= 0);
        fac_tensor *t = fac_safetensors_read(f, (size_t)at);
        assert_non_null(t);
        assert_int_equal(fac_tensor_dtype(t), dtypes[i]);
        assert_int_equal(fac_tensor_ndim(t), fac_tensor_ndim(tensors[i].tensor));
        size_t bytes = (size_t)fac_tensor_numel(t) * fac_dtype_size(dtypes[i]);
        if (bytes) assert_memory_equal(fac_tensor_data(t), data[i], bytes);
    }
    fac_safetensors_close(f);
}

static void mapped_tensors_have_the_files_bytes_and_keep_their_changes(void **state) {
    (void)state;
    const char *path = files_path("mapped.safetensors");
    FAC_SCOPE(s);
    assert_int_equal(save_sample(path, 3), FAC_OK);
    fac_safetensors *f = fac_safetensors_open(path);
    assert_non_null(f);
    const size_t weight = (size_t)fac_safetensors_find(f, "weight"), steps = (size_t)fac_safetensors_find(f, "steps");
    fac_tensor *w = fac_safetensors_map(f, weight), *again = fac_safetensors_map(f, weight),
               *n = fac_safetensors_map(f, steps), *read = fac_safetensors_read(f, weight);
    assert_memory_equal(fac_tensor_data(w), fac_tensor_data(read), 6 * sizeof(float));
    assert_int_equal(((const int64_t *)fac_tensor_data(n))[1], -8);
    assert_ptr_equal(fac_add_(w, 1), w);
    assert_true(*(const float *)fac_tensor_data(w) == 4 && *(const float *)fac_tensor_data(again) == 3);
    fac_safetensors_close(f);
    assert_true(first_weight(path) == 3);
    assert_int_equal(unlink(path), 0);
    assert_true(((const float *)fac_tensor_data(again))[5] == 8);
}

static void what_cannot_be_mapped_is_read_or_refused(void **state) {
    (void)state;
    const char *path = files_path("not_mapped.safetensors");
    FAC_SCOPE(s);
    /* After three bytes comes an element of two, which is at no multiple of two; then nothing. */
    const char header[] = "{\"a\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[0,3]},"
                          "\"b\":{\"dtype\":\"I16\",\"shape\":[1],\"data_offsets\":[3,5]},"
                          "\"c\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[5,5]}}";
    const size_t length = sizeof header - 1;
    char bytes[8 + sizeof header + 4] = {(char)length};
    assert_true(length % 2 == 1 || length < 256);
    bytes[1] = (char)(length >> 8);
    memcpy(bytes + 8, header, length);
    memcpy(bytes + 8 + length, "\1\2\3\4\0", 5);
    assert_int_equal(fac_file_replace(path, bytes, 8 + length + 5), FAC_OK);
    fac_safetensors *f = fac_safetensors_open(path);
    assert_non_null(f);
    fac_tensor *b = fac_safetensors_map(f, 1);
    assert_int_equal(*(const int16_t *)fac_tensor_data(b), 4);
    assert_int_equal(fac_tensor_numel(fac_safetensors_map(f, 2)), 0);
    assert_null(fac_safetensors_map(f, 3));
    assert_error(FAC_ERR_INDEX, "3");
    assert_int_equal(truncate(path, (off_t)(8 + length + 2)), 0);
    assert_null(fac_safetensors_map(f, 0));
    assert_error(FAC_ERR_IO, "was cut");
    fac_safetensors_close(f);
}

static void save_writes_strided_tensors_row_major(void **state) {
    (void)state;
    const char *path = files_path("strided.safetensors");
    FAC_SCOPE(s);
    float column_major[] = {1, 4, 2, 5, 3, 6};
    const float row_major[] = {1, 2, 3, 4, 5, 6};
    fac_tensor *t =
        fac_tensor_wrap(column_major, sizeof column_major, FAC_F32, FAC_INTS(2, 3), FAC_INTS(1, 2), 0, NULL, NULL);
    assert_int_equal(fac_safetensors_save(path, &(fac_named_tensor){"t", t}, 1, NULL, 0), FAC_OK);
    fac_safetensors *f = fac_safetensors_open(path);
    assert_non_null(f);
    fac_tensor *back = fac_safetensors_read(f, 0);
    assert_non_null(back);
    assert_memory_equal(fac_tensor_data(back), row_major, sizeof row_major);
    fac_safetensors_close(f);
}

static void open_reads_other_programs_files_and_metadata(void **state) {
    (void)state;
    const char *path = files_safetensors(
        "{\"x\":{\"shape\":[2],\"dtype\":\"U16\",\"data_offsets\":[4,8]},"
        "\"y\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]},\"__metadata__\":{\"format\":\"pt\"}}  ",
        8);
    fac_safetensors *f = fac_safetensors_open(path);
    assert_non_null(f);
    assert_int_equal(fac_safetensors_verify(f), FAC_OK);
    assert_string_equal(fac_safetensors_metadata(f, "format"), "pt");
    assert_null(fac_safetensors_metadata(f, "missing"));
    assert_int_equal(fac_safetensors_metadata_count(f), 1);
    assert_null(fac_safetensors_metadata_at(f, 1).key);
    fac_safetensors_entry e;
    assert_int_equal(fac_safetensors_get(f, 1, &e), FAC_OK);
    assert_string_equal(e.name, "x");
    assert_string_equal(e.type, "U16");
    assert_int_equal(e.dtype, FAC_DTYPE_DEFAULT);
    assert_int_equal(e.bytes, 4);
    assert_int_equal(fac_safetensors_get(f, 2, &e), FAC_ERR_INDEX);
    assert_error(FAC_ERR_INDEX, "no number 2");
    FAC_SCOPE(s);
    assert_null(fac_safetensors_read(f, 1));
    assert_error(FAC_ERR_UNSUPPORTED, "U16");
    fac_safetensors_close(f);
}

static void metadata_survives_with_quotes_and_newlines(void **state) {
    (void)state;
    const char *path = files_path("metadata.safetensors");
    assert_int_equal(save_sample(path, 1), FAC_OK);
    fac_safetensors *f = fac_safetensors_open(path);
    assert_non_null(f);
    assert_string_equal(fac_safetensors_metadata(f, "note"), "a \"quoted\" \\ text\n");
    fac_safetensors_close(f);
}

/* ---- bad files ------------------------------------------------------------------------------------------------------------ */

#define ENTRY(name, type, shape, range) \
    "\"" name "\":{\"dtype\":\"" type "\",\"shape\":" shape ",\"data_offsets\":" range "}"

static void open_refuses_bad_headers(void **state) {
    (void)state;
    static const struct {
        const char *header;
        size_t data;
        const char *text;
    } cases[] = {
        {"", 0, "does not begin with '{'"},
        {" {}", 0, "does not begin with '{'"},
        {"[]", 0, "does not begin with '{'"},
        {"{", 0, "JSON"},
        {"{} x", 0, "JSON"},
        {"{}", 1, "1 bytes at the end belong to no tensor"},
        {"{\"\xff\":1}", 0, "JSON"},
        {"{\"a\":1}", 0, "entry 'a' is not an object"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[]}}", 4, "entry 'a' is not an object"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[],\"offsets\":[0,4]}}", 4, "no data_offsets"},
        {"{\"a\":{\"dtype\":7,\"shape\":[],\"data_offsets\":[0,4]}}", 4, "no dtype"},
        {"{" ENTRY("a", "F33", "[]", "[0,4]") "}", 4, "unknown dtype 'F33'"},
        {"{" ENTRY("a", "F32", "{}", "[0,4]") "}", 4, "no shape"},
        {"{" ENTRY("a", "F32", "[1.0]", "[0,4]") "}", 4, "not a count"},
        {"{" ENTRY("a", "F32", "[-1]", "[0,4]") "}", 4, "not a count"},
        {"{" ENTRY("a", "F32", "[99999999999999999999]", "[0,4]") "}", 4, "JSON"},
        {"{" ENTRY("a", "F32", "[4294967296,4294967296]", "[0,4]") "}", 4, "shape of tensor 'a' overflows"},
        {"{" ENTRY("a", "F32", "[4611686018427387904]", "[0,4]") "}", 4, "size of tensor 'a' overflows"},
        {"{" ENTRY("a", "F32", "[2]", "[0,4]") "}", 4, "4 bytes in the file; its shape and dtype make 8"},
        {"{" ENTRY("a", "F32", "[1]", "[4,0]") "}", 4, "not inside"},
        {"{" ENTRY("a", "F32", "[1]", "[-4,0]") "}", 4, "not inside"},
        {"{" ENTRY("a", "F32", "[1]", "[4,8]") "}", 4, "not inside"},
        {"{" ENTRY("a", "F32", "[1]", "[0]") "}", 4, "no data_offsets"},
        {"{" ENTRY("a", "F32", "[1]", "[0,4,4]") "}", 4, "no data_offsets"},
        {"{" ENTRY("a", "F32", "[1]", "[0,4.0]") "}", 4, "no data_offsets"},
        {"{" ENTRY("a", "F32", "[1]", "[4,8]") "}", 8, "bytes 0 to 4 of the data belong to no tensor"},
        {"{" ENTRY("a", "F32", "[1]", "[0,4]") "," ENTRY("b", "F32", "[1]", "[8,12]") "}", 12, "bytes 4 to 8"},
        {"{" ENTRY("a", "F32", "[2]", "[0,8]") "," ENTRY("b", "F32", "[1]", "[4,8]") "}", 8, "overlap"},
        {"{" ENTRY("a", "F32", "[1]", "[0,4]") "}", 8, "4 bytes at the end"},
        {"{" ENTRY("a", "F32", "[1]", "[0,4]") "," ENTRY("a", "F32", "[1]", "[4,8]") "}", 8, "JSON"},
        {"{\"__metadata__\":[]}", 0, "__metadata__ is not an object"},
        {"{\"__metadata__\":{\"a\":1}}", 0, "metadata 'a' is not text"},
        {"{\"__metadata__\":{\"facula.crc32\":\"00000000\"}}", 0, "is missing"},
        {"{\"__metadata__\":{\"facula.writer\":\"0\",\"facula.crc32\":\"00000000\"}}", 0, "not where Facula puts it"},
    };
    for (size_t i = 0; i < FAC_COUNT(cases); i++)
        assert_refused(files_safetensors(cases[i].header, cases[i].data), FAC_ERR_FORMAT, cases[i].text);
}

static void open_refuses_impossible_lengths(void **state) {
    (void)state;
    const char *path = files_path("length.safetensors");
    static const uint64_t lengths[] = {100000001, (uint64_t)1 << 63, UINT64_MAX};
    for (size_t i = 0; i < FAC_COUNT(lengths); i++) {
        files_write(path, &lengths[i], 8);
        assert_refused(path, FAC_ERR_FORMAT, "it claims a header of");
    }
    uint64_t longer_than_the_file = 3;
    files_write(path, &longer_than_the_file, 8);
    assert_refused(path, FAC_ERR_FORMAT, "it claims a header of 3 bytes but has only");
    files_write(path, "seven b", 7);
    assert_refused(path, FAC_ERR_FORMAT, "it has 7 bytes");
}

static void open_refuses_deep_nesting(void **state) {
    (void)state;
    enum { DEPTH = 1000000 };
    char *header = malloc(DEPTH + 6);
    assert_non_null(header);
    memcpy(header, "{\"a\":", 5);
    memset(header + 5, '[', DEPTH);
    header[DEPTH + 5] = '\0';
    assert_refused(files_safetensors(header, 0), FAC_ERR_FORMAT, "JSON");
    free(header);
}

static void open_refuses_many_tensors_on_one_range(void **state) {
    (void)state;
    fac_buf header = {0};
    for (int i = 0; i < 100000; i++)
        assert_int_equal(fac__buf_printf(&header, "%c\"t%d\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}",
                                         i ? ',' : '{', i),
                         0);
    assert_int_equal(fac__buf_add(&header, "}", 1), 0);
    assert_refused(files_safetensors(header.data, 4), FAC_ERR_FORMAT, "overlap");
    fac__buf_free(&header);
}

static void open_refuses_what_is_no_file(void **state) {
    (void)state;
    assert_refused(files_path("not there"), FAC_ERR_IO, "cannot open");
    assert_refused(files_path("."), FAC_ERR_IO, "not a regular file");
    assert_refused("/dev/zero", FAC_ERR_IO, "not a regular file");
    assert_null(fac_safetensors_open(NULL));
    assert_error(FAC_ERR_ARGUMENT, "NULL");
}

static void cut_anywhere_is_refused(void **state) {
    (void)state;
    const char *whole = files_path("whole.safetensors"), *cut = files_path("cut.safetensors");
    assert_int_equal(save_sample(whole, 1), FAC_OK);
    size_t n;
    unsigned char *bytes = files_read(whole, &n);
    for (size_t length = 0; length < n; length++) {
        files_write(cut, bytes, length);
        if (is_whole(cut)) fail_msg("the first %zu of %zu bytes pass for a whole file", length, n);
    }
    files_write(cut, bytes, n);
    assert_true(is_whole(cut));
    free(bytes);
}

static void any_flipped_bit_is_found(void **state) {
    (void)state;
    const char *whole = files_path("whole.safetensors"), *flipped = files_path("flipped.safetensors");
    assert_int_equal(save_sample(whole, 1), FAC_OK);
    size_t n;
    unsigned char *bytes = files_read(whole, &n);
    for (size_t bit = 0; bit < 8 * n; bit++) {
        bytes[bit / 8] ^= (unsigned char)(1u << bit % 8);
        files_write(flipped, bytes, n);
        if (is_whole(flipped)) fail_msg("bit %zu of byte %zu may change unseen", bit % 8, bit / 8);
        bytes[bit / 8] ^= (unsigned char)(1u << bit % 8);
    }
    free(bytes);
}

/* ---- bad arguments --------------------------------------------------------------------------------------------------------- */

static void save_refuses_bad_names_and_values(void **state) {
    (void)state;
    const char *path = files_path("refused.safetensors");
    FAC_SCOPE(s);
    fac_tensor *t = fac_tensor_of(1);
    const double complex[] = {1, 2};
    fac_named_tensor twice[] = {{"a", t}, {"a", t}};
    fac_metadata metadata[] = {{"k", "1"}, {"k", "2"}};
    fac_metadata ours = {"facula.crc32", "x"}, broken = {"k", "\xc3("};
    assert_int_equal(fac_safetensors_save(path, twice, 2, NULL, 0), FAC_ERR_ARGUMENT);
    assert_error(FAC_ERR_ARGUMENT, "'a' is given twice");
    assert_int_equal(fac_safetensors_save(path, &(fac_named_tensor){"__metadata__", t}, 1, NULL, 0), FAC_ERR_ARGUMENT);
    assert_error(FAC_ERR_ARGUMENT, "reserves");
    assert_int_equal(fac_safetensors_save(path, &(fac_named_tensor){"\xed\xa0\x80", t}, 1, NULL, 0), FAC_ERR_ARGUMENT);
    assert_error(FAC_ERR_ARGUMENT, "not valid UTF-8");
    assert_int_equal(fac_safetensors_save(path, &(fac_named_tensor){NULL, t}, 1, NULL, 0), FAC_ERR_ARGUMENT);
    assert_error(FAC_ERR_ARGUMENT, "NULL");
    assert_int_not_equal(fac_safetensors_save(path, &(fac_named_tensor){"a", NULL}, 1, NULL, 0), FAC_OK);
    fac_error_clear();
    assert_int_equal(fac_safetensors_save(path, twice, 1, metadata, 2), FAC_ERR_ARGUMENT);
    assert_error(FAC_ERR_ARGUMENT, "'k' is given twice");
    assert_int_equal(fac_safetensors_save(path, twice, 1, &ours, 1), FAC_ERR_ARGUMENT);
    assert_error(FAC_ERR_ARGUMENT, "Facula's own");
    assert_int_equal(fac_safetensors_save(path, twice, 1, &broken, 1), FAC_ERR_ARGUMENT);
    assert_error(FAC_ERR_ARGUMENT, "not valid UTF-8");
    fac_named_tensor wide = {"wide", fac_tensor_from(complex, FAC_C128, FAC_INTS(1))};
    assert_int_equal(fac_safetensors_save(path, &wide, 1, NULL, 0), FAC_ERR_UNSUPPORTED);
    assert_error(FAC_ERR_UNSUPPORTED, "complex128");
    assert_int_not_equal(access(path, F_OK), 0);
}

static void save_reports_a_folder_that_is_not_there(void **state) {
    (void)state;
    assert_int_equal(save_sample(files_path("no/such/folder"), 1), FAC_ERR_IO);
    assert_error(FAC_ERR_IO, "cannot create");
}

/* ---- loading ------------------------------------------------------------------------------------------------------------------ */

static void load_copies_and_converts_by_name(void **state) {
    (void)state;
    const char *path = files_path("load.safetensors");
    assert_int_equal(save_sample(path, 3), FAC_OK);
    FAC_SCOPE(s);
    const double zeros[6] = {0};
    const int64_t old[2] = {0};
    fac_named_tensor targets[] = {{"steps", fac_tensor_from(old, FAC_I64, FAC_INTS(2))},
                                  {"weight", fac_tensor_from(zeros, FAC_F64, FAC_INTS(2, 3))}};
    assert_int_equal(fac_safetensors_load(path, targets, 2), FAC_OK);
    const double expected[] = {3, 4, 5, 6, 7, 8};
    assert_memory_equal(fac_tensor_data(targets[1].tensor), expected, sizeof expected);
    assert_int_equal(((const int64_t *)fac_tensor_data(targets[0].tensor))[1], -8);
}

static void load_changes_nothing_unless_all_fits(void **state) {
    (void)state;
    const char *path = files_path("strict.safetensors"), *damaged = files_path("damaged.safetensors");
    assert_int_equal(save_sample(path, 3), FAC_OK);
    FAC_SCOPE(s);
    const float zeros[6] = {0};
    const int64_t old[2] = {0};
    fac_tensor *weight = fac_tensor_from(zeros, FAC_F32, FAC_INTS(2, 3)),
               *turned = fac_tensor_from(zeros, FAC_F32, FAC_INTS(3, 2));
    fac_tensor *steps = fac_tensor_from(old, FAC_I64, FAC_INTS(2));
    fac_named_tensor few[] = {{"weight", weight}}, many[] = {{"weight", weight}, {"steps", steps}, {"bias", steps}};
    fac_named_tensor twice[] = {{"weight", weight}, {"weight", weight}},
                     wrong[] = {{"steps", steps}, {"weight", turned}};
    assert_int_equal(fac_safetensors_load(path, few, 1), FAC_ERR_ARGUMENT);
    assert_error(FAC_ERR_ARGUMENT, "'steps' that is not among those to load");
    assert_int_equal(fac_safetensors_load(path, many, 3), FAC_ERR_NOT_FOUND);
    assert_error(FAC_ERR_NOT_FOUND, "no tensor 'bias'");
    assert_int_equal(fac_safetensors_load(path, twice, 2), FAC_ERR_ARGUMENT);
    assert_error(FAC_ERR_ARGUMENT, "given twice");
    assert_int_equal(fac_safetensors_load(path, wrong, 2), FAC_ERR_SHAPE);
    assert_error(FAC_ERR_SHAPE, "[2, 3] in");

    size_t n;
    unsigned char *bytes = files_read(path, &n);
    bytes[n - 1] ^= 1;
    files_write(damaged, bytes, n);
    free(bytes);
    assert_int_equal(fac_safetensors_load(damaged, many, 2), FAC_ERR_FORMAT);
    assert_error(FAC_ERR_FORMAT, "is damaged");
    assert_memory_equal(fac_tensor_data(weight), zeros, sizeof zeros);
    assert_memory_equal(fac_tensor_data(steps), old, sizeof old);
}

/* ---- failing system calls ------------------------------------------------------------------------------------------------- */

static int calls_left; /* until a call fails; negative: never */
static bool kill_instead;
static size_t most_bytes; /* per write; 0: all */

static bool fails_now(void) {
    if (calls_left < 0 || calls_left-- > 0) return false;
    if (kill_instead) raise(SIGKILL);
    errno = ENOSPC;
    return true;
}
static ssize_t test_write(int fd, const void *bytes, size_t n) {
    if (fails_now()) return -1;
    return write(fd, bytes, most_bytes && n > most_bytes ? most_bytes : n);
}
static ssize_t test_pwrite(int fd, const void *bytes, size_t n, off_t at) {
    return fails_now() ? -1 : pwrite(fd, bytes, n, at);
}
static int test_fsync(int fd) { return fails_now() ? -1 : fsync(fd); }
static int test_close(int fd) {
    const bool fails = fails_now();
    return close(fd) || fails ? -1 : 0;
}
static int test_rename(int a, const char *from, int b, const char *to) {
    return fails_now() ? -1 : renameat(a, from, b, to);
}

static void set_calls(int n, bool kill, size_t most) {
    calls_left = n;
    kill_instead = kill;
    most_bytes = most;
    fac__file_calls = (fac_file_calls){test_write, test_pwrite, test_fsync, test_close, test_rename};
}
static int reset_calls(void **state) {
    fac__file_calls = (fac_file_calls){write, pwrite, fsync, close, renameat};
    return support_teardown(state);
}

static void save_survives_a_full_disk_at_any_call(void **state) {
    (void)state;
    const char *path = files_path("full.safetensors");
    assert_int_equal(save_sample(path, 1), FAC_OK);
    int files = files_count(), failures = 0;
    for (int n = 0;; n++) {
        set_calls(n, false, 0);
        fac_status st = save_sample(path, 2);
        if (st == FAC_OK) break;
        failures++;
        assert_error(FAC_ERR_IO, "No space left");
        assert_int_equal(files_count(), files);
        assert_true(is_whole(path));
    }
    assert_true(failures >= 8); /* length, header, two tensors, checksum, fsync, close, rename, folder */
    assert_true(first_weight(path) == 2);
}

static void save_survives_being_killed_at_any_call(void **state) {
    (void)state;
    const char *path = files_path("killed.safetensors");
    assert_int_equal(save_sample(path, 1), FAC_OK);
    for (int n = 0;; n++) {
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            set_calls(n, true, 0);
            _exit(save_sample(path, 2) != FAC_OK);
        }
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(is_whole(path));
        if (WIFEXITED(status)) {
            assert_int_equal(WEXITSTATUS(status), 0);
            break;
        }
    }
    assert_true(first_weight(path) == 2);
}

static void save_goes_on_after_short_writes(void **state) {
    (void)state;
    const char *path = files_path("short.safetensors"), *plain = files_path("plain.safetensors");
    assert_int_equal(save_sample(plain, 1), FAC_OK);
    set_calls(-1, false, 1);
    assert_int_equal(save_sample(path, 1), FAC_OK);
    size_t n, n_plain;
    unsigned char *bytes = files_read(path, &n), *expected = files_read(plain, &n_plain);
    assert_int_equal(n, n_plain);
    assert_memory_equal(bytes, expected, n);
    free(bytes);
    free(expected);
}

static void save_and_open_survive_failing_allocations(void **state) {
    (void)state;
    const char *path = files_path("memory.safetensors");
    assert_int_equal(save_sample(path, 1), FAC_OK);
    for (int64_t n = 1;; n++) {
        memory_hook_fail(n, true);
        fac_status st = save_sample(path, 1);
        bool failed = memory_hook_failures() > 0;
        memory_hook_fail(0, false);
        assert_int_equal(st, failed ? FAC_ERR_MEMORY : FAC_OK);
        fac_error_clear();
        assert_true(is_whole(path));
        if (!failed) break;
    }
    for (int64_t n = 1;; n++) {
        memory_hook_fail(n, true);
        fac_safetensors *f = fac_safetensors_open(path);
        bool failed = memory_hook_failures() > 0;
        memory_hook_fail(0, false);
        assert_int_equal(f == NULL, failed);
        fac_safetensors_close(f);
        fac_error_clear();
        if (!failed) break;
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        FAC_TEST(save_writes_the_bytes_of_the_format),
        FAC_TEST(save_and_read_keep_every_dtype_and_shape),
        FAC_TEST(mapped_tensors_have_the_files_bytes_and_keep_their_changes),
        FAC_TEST(what_cannot_be_mapped_is_read_or_refused),
        FAC_TEST(save_writes_strided_tensors_row_major),
        FAC_TEST(open_reads_other_programs_files_and_metadata),
        FAC_TEST(metadata_survives_with_quotes_and_newlines),
        FAC_TEST(open_refuses_bad_headers),
        FAC_TEST(open_refuses_impossible_lengths),
        FAC_TEST(open_refuses_deep_nesting),
        FAC_TEST(open_refuses_many_tensors_on_one_range),
        FAC_TEST(open_refuses_what_is_no_file),
        FAC_TEST(cut_anywhere_is_refused),
        FAC_TEST(any_flipped_bit_is_found),
        FAC_TEST(save_refuses_bad_names_and_values),
        FAC_TEST(save_reports_a_folder_that_is_not_there),
        FAC_TEST(load_copies_and_converts_by_name),
        FAC_TEST(load_changes_nothing_unless_all_fits),
        cmocka_unit_test_setup_teardown(save_survives_a_full_disk_at_any_call, support_setup, reset_calls),
        cmocka_unit_test_setup_teardown(save_survives_being_killed_at_any_call, support_setup, reset_calls),
        cmocka_unit_test_setup_teardown(save_goes_on_after_short_writes, support_setup, reset_calls),
        FAC_TEST(save_and_open_survive_failing_allocations),
    };
    return support_run(tests, FAC_COUNT(tests), NULL);
}
