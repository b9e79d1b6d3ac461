/* Files of others: NumPy's, PyTorch's, safetensors in parts, tables, sound. */
#include "support/files.h"
#include "support/support.h"

#include "data/file_cases.h"
#include <facula/facula.h>
#include <math.h>
#include <stdlib.h>

static const char *put(const char *name, const void *bytes, size_t n) {
    const char *path = files_path(name);
    files_write(path, bytes, n);
    return path;
}
#define PUT(bytes) put("case", (bytes), sizeof(bytes))

static fac_tensor *grid(fac_dtype dtype) { return fac_to_dtype(fac_reshape(fac_arange(6), FAC_SHAPE(2, 3)), dtype); }

static void assert_equal(fac_tensor *got, fac_tensor *expected) {
    assert_no_error();
    assert_non_null(got);
    assert_int_equal(fac_tensor_dtype(got), fac_tensor_dtype(expected));
    assert_true(fac_equal(got, expected));
}

/* ---- .npy --------------------------------------------------------------------------------------------------------------- */

static void npy_reads_what_numpy_wrote(void **state) {
    (void)state;
    FAC_SCOPE(s);
    assert_equal(fac_npy_read(PUT(npy_f32)), grid(FAC_F32));
    assert_equal(fac_npy_read(PUT(npy_f64_big)), grid(FAC_F64));
    assert_equal(fac_npy_read(PUT(npy_i16_big)), grid(FAC_I16));
    assert_equal(fac_npy_read(PUT(npy_u8)), grid(FAC_U8));
    assert_equal(fac_npy_read(PUT(npy_v3)), grid(FAC_I64));
    assert_equal(fac_npy_read(PUT(npy_fortran)), grid(FAC_I32));
    assert_equal(fac_npy_read(PUT(npy_bool)), fac_to_dtype(fac_remainder(grid(FAC_I64), 2), FAC_BOOL));
    assert_equal(fac_view_as_real(fac_npy_read(PUT(npy_c64))),
                 fac_stack(FAC_TENSORS(grid(FAC_F32), grid(FAC_F32)), -1));
    assert_equal(fac_npy_read(PUT(npy_scalar)), fac_full(FAC_SHAPE(), 2.5, .dtype = FAC_F64));
    assert_equal(fac_npy_read(PUT(npy_empty)), fac_zeros(FAC_SHAPE(0, 4)));
}

static void npy_refuses_what_facula_has_not(void **state) {
    (void)state;
    FAC_SCOPE(s);
    assert_null(fac_npy_read(PUT(npy_objects)));
    assert_error(FAC_ERR_UNSUPPORTED, "Python objects, which are made by running code");
    assert_null(fac_npy_read(PUT(npy_records)));
    assert_error(FAC_ERR_UNSUPPORTED, "records");
    assert_null(fac_npy_read(PUT(npy_u16)));
    assert_error(FAC_ERR_UNSUPPORTED, "'<u2'");
    assert_null(fac_npy_read(files_path("none")));
    assert_error(FAC_ERR_IO, "none");
    assert_null(fac_npy_read(NULL));
    assert_error(FAC_ERR_ARGUMENT, "NULL");
}

/* A file with this header and so many bytes behind it. */
static fac_tensor *read_header(const char *header, size_t data) {
    unsigned char bytes[4096] = "\x93NUMPY\1";
    const size_t n = strlen(header);
    assert_true(n + data + 10 < sizeof bytes);
    bytes[8] = (unsigned char)(n & 255);
    bytes[9] = (unsigned char)(n >> 8);
    memcpy(bytes + 10, header, n);
    return fac_npy_read(put("header", bytes, 10 + n + data));
}

static void npy_headers_that_lie_are_refused(void **state) {
    (void)state;
    FAC_SCOPE(s);
    static const struct {
        const char *header, *text;
        fac_status code;
    } cases[] = {
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904, 4), }", "overflow", FAC_ERR_OVERFLOW},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000000,), }", "promises", FAC_ERR_FORMAT},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,), }", "overflows", FAC_ERR_FORMAT},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }", "no number", FAC_ERR_FORMAT},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': __import__('os').system('true'), }", "no shape",
         FAC_ERR_FORMAT},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,) + (), }", "does not end", FAC_ERR_FORMAT},
        {"{'descr': '<f4', 'fortran_order': 1, 'shape': (1,), }", "Fortran", FAC_ERR_FORMAT},
        {"{'descr': '<f4', 'shape': (1,), }", "lacks a key", FAC_ERR_FORMAT},
        {"{'descr': '<f4', 'descr': '<f4', 'shape': (1,), }", "key 'descr'", FAC_ERR_FORMAT},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,), 'more': 1}", "key 'more'", FAC_ERR_FORMAT},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,), } x", "behind its end", FAC_ERR_FORMAT},
        {"[1]", "no dict", FAC_ERR_FORMAT},
        {"{'descr': '', 'fortran_order': False, 'shape': (1,), }", "no type", FAC_ERR_FORMAT},
    };
    for (size_t i = 0; i < FAC_COUNT(cases); i++) {
        assert_null(read_header(cases[i].header, 4));
        assert_error(cases[i].code, cases[i].text);
    }
    assert_non_null(read_header("{\"shape\": (1), 'fortran_order': True, 'descr': 'f4'}", 4));
    char many[1024] = "{'descr': '<f4', 'fortran_order': False, 'shape': (";
    for (int i = 0; i < 65; i++) strcat(many, "1,");
    strcat(many, "), }");
    assert_null(read_header(many, 4));
    assert_error(FAC_ERR_FORMAT, "more than 64 dimensions");
}

static void npy_writes_what_it_reads(void **state) {
    (void)state;
    FAC_SCOPE(s);
    const char *path = files_path("own.npy");
    static const fac_dtype dtypes[] = {FAC_BOOL, FAC_U8,  FAC_I8,  FAC_I16, FAC_I32, FAC_I64,
                                       FAC_F16,  FAC_F32, FAC_F64, FAC_C64, FAC_C128};
    for (size_t i = 0; i < FAC_COUNT(dtypes); i++) {
        fac_tensor *x = grid(dtypes[i]);
        assert_ok(fac_npy_write(path, x));
        assert_equal(fac_npy_read(path), x);
        assert_ok(fac_npy_write(path, fac_t(x)));
        assert_equal(fac_npy_read(path), fac_contiguous(fac_t(x)));
    }
    assert_ok(fac_npy_write(path, grid(FAC_F32)));
    size_t n;
    unsigned char *bytes = files_read(path, &n);
    assert_int_equal(n, sizeof npy_f32);
    assert_memory_equal(bytes, npy_f32, n); /* byte by byte what NumPy writes */
    free(bytes);
    assert_int_equal(fac_npy_write(path, grid(FAC_BF16)), FAC_ERR_UNSUPPORTED);
    assert_error(FAC_ERR_UNSUPPORTED, "NumPy has no bfloat16");
}

/* ---- any file, cut and changed -------------------------------------------------------------------------------------------- */

typedef fac_tensor_file *(*opener)(const char *path);
static void read_all(opener open, const char *path) {
    FAC_SCOPE(s);
    if (!open) {
        (void)!fac_npy_read(path);
        fac_error_clear();
        return;
    }
    fac_tensor_file *f = open(path);
    assert_true(f || fac_error());
    for (size_t i = 0; f && i < fac_tensor_file_count(f); i++) {
        FAC_SCOPE(inner);
        (void)!fac_tensor_file_read(f, i);
        fac_error_clear();
    }
    fac_tensor_file_close(f);
    fac_error_clear();
}

static void cut_and_change(opener open, const unsigned char *bytes, size_t n, size_t step) {
    unsigned char *copy = malloc(n);
    memcpy(copy, bytes, n);
    for (size_t i = 0; i < n; i += step) {
        FAC_SCOPE(s);
        const char *path = put("cut", bytes, i);
        fac_tensor_file *f = open ? open(path) : NULL;
        if (!open) assert_null(fac_npy_read(path));
        assert_null(f);
        assert_true(fac_error() != FAC_OK);
        fac_error_clear();
    }
    for (size_t bit = 0; bit < n * 8; bit += step) {
        copy[bit / 8] ^= (unsigned char)(1u << bit % 8);
        read_all(open, put("changed", copy, n));
        copy[bit / 8] ^= (unsigned char)(1u << bit % 8);
    }
    free(copy);
}

static void files_that_are_cut_or_changed_are_errors_or_tensors(void **state) {
    (void)state;
    cut_and_change(NULL, npy_f32, sizeof npy_f32, 1);
    cut_and_change(NULL, npy_fortran, sizeof npy_fortran, 3);
    cut_and_change(fac_npz_open, npz_packed, sizeof npz_packed, 3);
    cut_and_change(fac_npz_open, npz_stored, sizeof npz_stored, 3);
    cut_and_change(fac_pt_open, pt_linear, sizeof pt_linear, 7);
}

/* ---- .npz --------------------------------------------------------------------------------------------------------------- */

static fac_tensor *entry(fac_tensor_file *f, const char *name) {
    const int64_t i = fac_tensor_file_find(f, name);
    if (i < 0) fail_msg("there is no %s", name);
    return fac_tensor_file_read(f, (size_t)i);
}

static const char *text(fac_tensor_file *f, const char *name) {
    fac_tensor_file_entry e;
    const int64_t i = fac_tensor_file_find(f, name);
    if (i < 0) fail_msg("there is no %s", name);
    assert_ok(fac_tensor_file_get(f, (size_t)i, &e));
    assert_non_null(e.text);
    return e.text;
}

static void npz_reads_what_numpy_wrote(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor_file *f = fac_npz_open(PUT(npz_stored));
    assert_no_error();
    assert_int_equal(fac_tensor_file_count(f), 2);
    assert_equal(entry(f, "a"), grid(FAC_F32));
    assert_equal(entry(f, "b"), fac_to_dtype(fac_tensor_of(7, 8), FAC_I64));
    assert_int_equal(fac_tensor_file_find(f, "c"), -1);
    assert_null(fac_tensor_file_read(f, 2));
    assert_error(FAC_ERR_INDEX, "2 entries");
    fac_tensor_file_close(f);
    f = fac_npz_open(PUT(npz_packed));
    assert_equal(entry(f, "a"), grid(FAC_F32));
    assert_equal(entry(f, "b"), fac_zeros(100, .dtype = FAC_I16));
    fac_tensor_file_close(f);
    assert_null(fac_npz_open(PUT(npy_f32)));
    assert_error(FAC_ERR_FORMAT, "no directory");
    assert_null(fac_npz_open(PUT(pt_plain)));
    assert_error(FAC_ERR_FORMAT, "no .npy file");
}

static void npz_writes_what_it_reads(void **state) {
    (void)state;
    for (int packed = 0; packed < 2; packed++) {
        FAC_SCOPE(s);
        const char *path = files_path("own.npz");
        fac_tensor *x = grid(FAC_F32), *y = fac_zeros(FAC_SHAPE(50, 70)), *z = fac_zeros(FAC_SHAPE(0, 2));
        const fac_named_tensor all[] = {{"x", x}, {"folder/y", y}, {"z", z}}, same[] = {{"x", x}, {"x", y}};
        const fac_named_tensor nameless = {"", x};
        assert_ok(fac_npz_write(path, all, 3, .compressed = packed));
        fac_tensor_file *f = fac_npz_open(path);
        assert_equal(entry(f, "x"), x);
        assert_equal(entry(f, "folder/y"), y);
        assert_equal(entry(f, "z"), z);
        fac_tensor_file_close(f);
        size_t n;
        free(files_read(path, &n));
        assert_true(packed ? n < 2000 : n > 14000);
        assert_ok(fac_npz_write(path, NULL, 0));
        f = fac_npz_open(path);
        assert_int_equal(fac_tensor_file_count(f), 0);
        fac_tensor_file_close(f);
        assert_int_equal(fac_npz_write(path, same, 2), FAC_ERR_ARGUMENT);
        assert_error(FAC_ERR_ARGUMENT, "given twice");
        assert_int_equal(fac_npz_write(path, &nameless, 1), FAC_ERR_ARGUMENT);
        assert_error(FAC_ERR_ARGUMENT, "empty");
    }
}

static void flipped_bits_of_arrays_are_found(void **state) {
    (void)state;
    FAC_SCOPE(s);
    unsigned char copy[sizeof npz_stored];
    memcpy(copy, npz_stored, sizeof copy);
    size_t at = 0;
    while (memcmp(copy + at, "\x93NUMPY", 6) != 0) at++;
    copy[at + 128 + 7] ^= 4; /* within the first array's elements: its header has 128 bytes */
    fac_tensor_file *f = fac_npz_open(put("flipped", copy, sizeof copy));
    assert_no_error();
    assert_null(entry(f, "a"));
    assert_error(FAC_ERR_FORMAT, "checksum");
    fac_tensor_file_close(f);
}

/* The bomb: a thousand bytes that say they are a million. */
static void zip_members_that_promise_too_much_are_refused(void **state) {
    (void)state;
    unsigned char copy[sizeof npz_packed];
    memcpy(copy, npz_packed, sizeof copy);
    for (size_t i = 0; i + 46 < sizeof copy; i++)
        if (memcmp(copy + i, "PK\1\2", 4) == 0) copy[i + 27] = 0x3f; /* the highest byte of the size */
    assert_null(fac_npz_open(put("bomb", copy, sizeof copy)));
    assert_error(FAC_ERR_FORMAT, "promises");
}

/* ---- .pt ---------------------------------------------------------------------------------------------------------------- */

static void pt_reads_state_dicts(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor_file *f = fac_pt_open(PUT(pt_state));
    assert_no_error();
    assert_int_equal(fac_tensor_file_count(f), 8);
    fac_tensor *base = fac_to_dtype(fac_arange(12), FAC_F32), *table = fac_reshape(base, FAC_SHAPE(3, 4));
    assert_equal(entry(f, "weight"), table);
    assert_equal(entry(f, "part"), fac_tensor_of(4, 6, 8));
    assert_equal(entry(f, "turned"), fac_t(table));
    assert_equal(entry(f, "grown"), fac_ones(5));
    assert_equal(entry(f, "half"), fac_full(1, 0.5, .dtype = FAC_BF16));
    assert_equal(entry(f, "flags"), fac_to_dtype(fac_tensor_of(1, 0), FAC_BOOL));
    assert_equal(entry(f, "number"), fac_full(FAC_SHAPE(), 7.0, .dtype = FAC_I64));
    assert_equal(entry(f, "parameter"), fac_tensor_of(1, 2));
    fac_tensor_file_close(f);
    f = fac_pt_open(PUT(pt_linear));
    assert_int_equal(fac_tensor_size(entry(f, "weight"), 1), 2);
    fac_tensor_file_close(f);
    f = fac_pt_open(PUT(pt_plain));
    assert_equal(entry(f, ""), fac_to_dtype(fac_tensor_of(1.5, 2.5), FAC_F64));
    fac_tensor_file_close(f);
}

static void pt_lays_containers_out_flat(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor_file *f = fac_pt_open(PUT(pt_nested));
    assert_no_error();
    assert_equal(entry(f, "model.a"), fac_to_dtype(fac_tensor_of(1, 2), FAC_I64));
    assert_equal(entry(f, "list.0"), fac_tensor_of(0.5));
    assert_string_equal(text(f, "step"), "3");
    assert_string_equal(text(f, "lr"), "0.1");
    assert_string_equal(text(f, "big"), "1099511627776");
    assert_string_equal(text(f, "name"), "Adam");
    assert_string_equal(text(f, "none"), "None");
    assert_string_equal(text(f, "list.1.0"), "True");
    assert_string_equal(text(f, "list.1.1"), "-1");
    assert_string_equal(text(f, "5"), "1e+100");
    assert_string_equal(text(f, "dtype"), "torch.float32");
    assert_string_equal(text(f, "size.1"), "3");
    assert_null(entry(f, "step"));
    assert_error(FAC_ERR_ARGUMENT, "entry 'step' is no tensor, but '3'");
    fac_tensor_file_close(f);
}

static void pt_refuses_what_would_run_code(void **state) {
    (void)state;
    assert_null(fac_pt_open(PUT(pt_calls)));
    assert_error(FAC_ERR_UNSUPPORTED, "'posix.system', which Python would call");
    assert_null(fac_pt_open(PUT(pt_module)));
    assert_error(FAC_ERR_UNSUPPORTED, "'torch.nn.modules.activation.ReLU'");
    assert_null(fac_pt_open(PUT(pt_set)));
    assert_error(FAC_ERR_UNSUPPORTED, "instruction 0x8f");
    assert_null(fac_pt_open(PUT(pt_deep)));
    assert_error(FAC_ERR_UNSUPPORTED, "deeper than 64 levels");
    assert_null(fac_pt_open(PUT(pt_wide)));
    assert_error(FAC_ERR_UNSUPPORTED, "within each other too often");
    assert_null(fac_pt_open(PUT(pt_inside)));
    assert_error(FAC_ERR_UNSUPPORTED, "deeper than 64 levels");
    assert_null(fac_pt_open(PUT(npz_stored)));
    assert_error(FAC_ERR_FORMAT, "no data.pkl");
}

/* ---- safetensors in parts ------------------------------------------------------------------------------------------------ */

static fac_tensor_file *open_index(const char *json) {
    return fac_safetensors_open_index(put("model.safetensors.index.json", json, strlen(json)));
}

static void safetensors_in_parts_are_one_file(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = grid(FAC_F32), *y = grid(FAC_I64);
    assert_ok(
        fac_safetensors_save(files_path("one.safetensors"), (fac_named_tensor[]){{"x", x}, {"w", y}}, 2, NULL, 0));
    assert_ok(fac_safetensors_save(files_path("two.safetensors"), (fac_named_tensor[]){{"y", y}}, 1, NULL, 0));
    fac_tensor_file *f = open_index("{\"metadata\": {\"total_size\": 9}, \"weight_map\": {\"x\": \"one.safetensors\", "
                                    "\"y\": \"two.safetensors\", \"w\": \"one.safetensors\"}}");
    assert_no_error();
    assert_int_equal(fac_tensor_file_count(f), 3);
    assert_equal(entry(f, "x"), x);
    assert_equal(entry(f, "y"), y);
    fac_tensor *mapped = fac_tensor_file_map(f, (size_t)fac_tensor_file_find(f, "y"));
    fac_tensor_file_close(f);
    assert_equal(mapped, y);
    static const struct {
        const char *json, *text;
        fac_status code;
    } cases[] = {
        {"{\"weight_map\": {\"z\": \"one.safetensors\"}}", "has no such tensor", FAC_ERR_NOT_FOUND},
        {"{\"weight_map\": {\"x\": \"../one.safetensors\"}}", "no name of a file in its folder", FAC_ERR_FORMAT},
        {"{\"weight_map\": {\"x\": \"/etc/passwd\"}}", "no name of a file in its folder", FAC_ERR_FORMAT},
        {"{\"weight_map\": {\"x\": 1}}", "no text", FAC_ERR_FORMAT},
        {"{\"weight_map\": []}", "no weight_map", FAC_ERR_FORMAT},
        {"[]", "no weight_map", FAC_ERR_FORMAT},
        {"{\"weight_map\": ", "not an index", FAC_ERR_FORMAT},
        {"{\"weight_map\": {\"x\": \"three.safetensors\"}}", "three.safetensors", FAC_ERR_IO},
    };
    for (size_t i = 0; i < FAC_COUNT(cases); i++) {
        assert_null(open_index(cases[i].json));
        assert_error(cases[i].code, cases[i].text);
    }
}

/* ---- tables --------------------------------------------------------------------------------------------------------------- */

static fac_csv *table(const char *csv) { return fac_csv_open(put("table.csv", csv, strlen(csv))); }

static void csv_gives_numbers_and_classes(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_csv *t =
        table("\xef\xbb\xbfsize,name,\"a, \"\"b\"\"\"\r\n1.5,cat,-2e3\r\n\r\n ,\"a dog,\nbig\",inf\n7 ,cat,0x1\n");
    assert_no_error();
    assert_int_equal(fac_csv_rows(t), 3);
    assert_int_equal(fac_csv_columns(t), 3);
    assert_string_equal(fac_csv_name(t, 0), "size");
    assert_string_equal(fac_csv_name(t, 2), "a, \"b\"");
    assert_int_equal(fac_csv_find(t, "name"), 1);
    assert_int_equal(fac_csv_find(t, "Name"), -1);
    assert_string_equal(fac_csv_text(t, 1, 1), "a dog,\nbig");
    double v[3];
    fac_tensor *x = fac_csv_numbers(t, FAC_INTS(0));
    assert_ok(fac_tensor_read(x, FAC_F64, v, 3));
    assert_true(v[0] == 1.5 && isnan(v[1]) && v[2] == 7);
    assert_equal(fac_csv_classes(t, 1), fac_to_dtype(fac_tensor_of(1, 0, 1), FAC_I64));
    assert_int_equal(fac_csv_class_count(t, 1), 2);
    assert_string_equal(fac_csv_class(t, 1, 1), "cat");
    assert_null(fac_csv_numbers(t, FAC_INTS(0, 1)));
    assert_error(FAC_ERR_FORMAT, "row 0, column 1: 'cat' is no number");
    assert_null(fac_csv_numbers(t, FAC_INTS(2)));
    assert_error(FAC_ERR_FORMAT, "'0x1' is no number");
    assert_null(fac_csv_numbers(t, FAC_INTS(3)));
    assert_error(FAC_ERR_INDEX, "no column 3");
    assert_null(fac_csv_text(t, 3, 0));
    assert_error(FAC_ERR_INDEX, "no row 3");
    assert_null(fac_csv_class(t, 1, 2));
    assert_error(FAC_ERR_INDEX, "2 classes");
    fac_csv_close(t);
}

static void csv_of_other_forms(void **state) {
    (void)state;
    FAC_SCOPE(s);
    const char *path = put("plain.tsv", "1\t2\n3\t4", 7);
    fac_csv *t = fac_csv_open(path, .header = false, .delimiter = "\t");
    assert_no_error();
    assert_string_equal(fac_csv_name(t, 0), "");
    assert_equal(fac_csv_numbers(t, FAC_INTS(1, 0)),
                 fac_to_dtype(fac_reshape(fac_tensor_of(2, 1, 4, 3), FAC_SHAPE(2, 2)), FAC_F64));
    fac_csv_close(t);
    t = table("");
    assert_int_equal(fac_csv_rows(t) + fac_csv_columns(t), 0);
    fac_csv_close(t);
    t = table("only,a,header\n");
    assert_int_equal(fac_csv_rows(t), 0);
    assert_int_equal(fac_tensor_numel(fac_csv_classes(t, 1)), 0);
    fac_csv_close(t);
    assert_null(table("a,b\n1,2\n3\n"));
    assert_error(FAC_ERR_FORMAT, "line 3: there are 1 fields, but the first row has 2");
    assert_null(table("a,b\n1,\"2\n"));
    assert_error(FAC_ERR_FORMAT, "line 2: a quote is not closed");
    assert_null(table("\"a\"b\n"));
    assert_error(FAC_ERR_FORMAT, "text follows a closing quote");
    assert_null(fac_csv_open(put("zero", "a\0b", 3)));
    assert_error(FAC_ERR_FORMAT, "byte 1 is zero");
    assert_null(fac_csv_open(path, .delimiter = ", "));
    assert_error(FAC_ERR_ARGUMENT, "one character");
}

/* ---- sound ---------------------------------------------------------------------------------------------------------------- */

/* A whole WAV file of these bytes. */
static const char *wav(int format, int channels, int bits, const void *sound, size_t n) {
    unsigned char head[44] = "RIFF\0\0\0\0WAVEfmt \x10";
    const int frame = channels * bits / 8;
    head[20] = (unsigned char)format;
    head[22] = (unsigned char)channels;
    head[24] = 0x40, head[25] = 0x1f; /* 8000 */
    head[32] = (unsigned char)frame;
    head[34] = (unsigned char)bits;
    memcpy(head + 36, "data", 4);
    head[40] = (unsigned char)n;
    unsigned char all[256];
    memcpy(all, head, 44);
    memcpy(all + 44, sound, n);
    return put("sound.wav", all, 44 + n);
}

static void wav_reads_every_kind_of_number(void **state) {
    (void)state;
    FAC_SCOPE(s);
    int64_t rate = 0;
    const int16_t two[] = {-32768, 16384, 0, 8192}; /* left, right, left, right */
    fac_tensor *expected = fac_reshape(fac_tensor_of(-1, 0, 0.5, 0.25), FAC_SHAPE(2, 2));
    assert_equal(fac_wav_read(wav(1, 2, 16, two, sizeof two), &rate), expected);
    assert_int_equal(rate, 8000);
    const uint8_t one[] = {0, 128, 192, 160};
    assert_equal(fac_wav_read(wav(1, 1, 8, one, sizeof one), &rate),
                 fac_reshape(fac_tensor_of(-1, 0, 0.5, 0.25), FAC_SHAPE(1, 4)));
    const uint8_t three[] = {0, 0, 0x80, 0, 0, 0x40};
    assert_equal(fac_wav_read(wav(1, 1, 24, three, sizeof three), &rate),
                 fac_reshape(fac_tensor_of(-1, 0.5), FAC_SHAPE(1, 2)));
    const int32_t four[] = {INT32_MIN, 1 << 30};
    assert_equal(fac_wav_read(wav(1, 1, 32, four, sizeof four), &rate),
                 fac_reshape(fac_tensor_of(-1, 0.5), FAC_SHAPE(1, 2)));
    const double real[] = {0.125, -3};
    assert_equal(fac_wav_read(wav(3, 1, 64, real, sizeof real), &rate),
                 fac_reshape(fac_tensor_of(0.125, -3), FAC_SHAPE(1, 2)));
    const char *path = files_path("own.wav");
    fac_tensor *x = fac_randn(FAC_SHAPE(2, 20001));
    assert_ok(fac_wav_write(path, x, 44100));
    assert_equal(fac_wav_read(path, &rate), x);
    assert_int_equal(rate, 44100);
}

static void wav_refuses_what_is_none(void **state) {
    (void)state;
    FAC_SCOPE(s);
    int64_t rate;
    const int16_t two[] = {1, 2};
    assert_null(fac_wav_read(wav(2, 1, 16, two, 4), &rate));
    assert_error(FAC_ERR_UNSUPPORTED, "format 2");
    assert_null(fac_wav_read(wav(1, 1, 12, two, 4), &rate));
    assert_error(FAC_ERR_UNSUPPORTED, "12 bits");
    assert_null(fac_wav_read(wav(1, 0, 16, two, 4), &rate));
    assert_error(FAC_ERR_FORMAT, "contradicts itself");
    assert_null(fac_wav_read(wav(1, 2, 16, two, 3), &rate));
    assert_error(FAC_ERR_FORMAT, "within a sample");
    const char *path = wav(1, 1, 16, two, 4);
    size_t n;
    unsigned char *bytes = files_read(path, &n);
    for (size_t i = 0; i < n; i++) {
        assert_null(fac_wav_read(put("cut.wav", bytes, i), &rate));
        assert_error(FAC_ERR_FORMAT, "WAV");
    }
    free(bytes);
    assert_int_equal(fac_wav_write(path, fac_ones(3), 1), FAC_ERR_SHAPE);
    assert_error(FAC_ERR_SHAPE, "channels, samples");
    assert_int_equal(fac_wav_write(path, grid(FAC_I64), 1), FAC_ERR_DTYPE);
    assert_error(FAC_ERR_DTYPE, "int64");
    assert_int_equal(fac_wav_write(path, grid(FAC_F32), 0), FAC_ERR_ARGUMENT);
    assert_error(FAC_ERR_ARGUMENT, "rate is 0");
}

static void states_are_loaded_from_any_of_them(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_state *loaded = fac_state_load(PUT(pt_nested));
    assert_no_error();
    assert_int_equal(loaded->n, 2); /* and numbers and text, which are left out */
    assert_equal(fac_state_get(loaded, "model.a"), fac_to_dtype(fac_tensor_of(1, 2), FAC_I64));
    fac_state_free(loaded);
    loaded = fac_state_load(PUT(npz_packed));
    assert_equal(fac_state_get(loaded, "a"), grid(FAC_F32));
    fac_state_free(loaded);
    const char *path = files_path("parts.index.json"), json[] = "{\"weight_map\": {\"x\": \"part\"}}";
    files_write(path, json, sizeof json - 1);
    assert_ok(fac_safetensors_save(files_path("part"), (fac_named_tensor[]){{"x", grid(FAC_F32)}}, 1, NULL, 0));
    loaded = fac_state_load(path);
    assert_no_error();
    assert_equal(fac_state_get(loaded, "x"), grid(FAC_F32));
    fac_state_free(loaded);
    assert_null(fac_state_load(PUT(pt_calls)));
    assert_error(FAC_ERR_UNSUPPORTED, "posix.system");
    loaded = fac_state_load(PUT(pt_linear));
    assert_no_error();
    fac_module *m = fac_linear_new(2, 1, .bias = false);
    assert_ok(fac_module_load_state_dict(m, loaded));
    assert_true(fac_equal(fac_module_parameter(m, "weight"), fac_state_get(loaded, "weight")));
    fac_module_release(m);
    fac_state_free(loaded);
}

/* ---- memory --------------------------------------------------------------------------------------------------------------- */

static fac_status use_files(void *context) {
    (void)context;
    FAC_SCOPE(s);
    int64_t rate;
    fac_tensor_file *f = fac_npz_open(PUT(npz_packed));
    if (f) (void)!fac_tensor_file_read(f, 0);
    fac_tensor_file_close(f);
    f = fac_error() ? NULL : fac_pt_open(PUT(pt_nested));
    if (f) (void)!fac_tensor_file_read(f, 0);
    fac_tensor_file_close(f);
    fac_csv *t = fac_error() ? NULL : table("a,b\n1,2\n");
    if (t) (void)!fac_csv_classes(t, 1);
    if (t && !fac_error()) (void)!fac_csv_numbers(t, FAC_INTS(0));
    fac_csv_close(t);
    fac_tensor *x = fac_error() ? NULL : fac_npy_read(PUT(npy_fortran));
    const fac_named_tensor one = {"x", x};
    if (x) (void)!fac_npz_write(files_path("failing.npz"), &one, 1, .compressed = true);
    if (x && !fac_error()) (void)!fac_wav_write(files_path("failing.wav"), fac_to_dtype(x, FAC_F32), 1);
    if (x && !fac_error()) (void)!fac_wav_read(files_path("failing.wav"), &rate);
    return fac_error();
}

static void readers_survive_failing_allocations(void **state) {
    (void)state;
    support_fail_each_allocation(use_files, NULL);
}

FAC_TEST_MAIN(FAC_TEST(npy_reads_what_numpy_wrote), FAC_TEST(npy_refuses_what_facula_has_not),
              FAC_TEST(npy_headers_that_lie_are_refused), FAC_TEST(npy_writes_what_it_reads),
              FAC_TEST(files_that_are_cut_or_changed_are_errors_or_tensors), FAC_TEST(npz_reads_what_numpy_wrote),
              FAC_TEST(npz_writes_what_it_reads), FAC_TEST(flipped_bits_of_arrays_are_found),
              FAC_TEST(zip_members_that_promise_too_much_are_refused), FAC_TEST(pt_reads_state_dicts),
              FAC_TEST(pt_lays_containers_out_flat), FAC_TEST(pt_refuses_what_would_run_code),
              FAC_TEST(safetensors_in_parts_are_one_file), FAC_TEST(csv_gives_numbers_and_classes),
              FAC_TEST(csv_of_other_forms), FAC_TEST(wav_reads_every_kind_of_number),
              FAC_TEST(wav_refuses_what_is_none), FAC_TEST(states_are_loaded_from_any_of_them),
              FAC_TEST(readers_survive_failing_allocations))
