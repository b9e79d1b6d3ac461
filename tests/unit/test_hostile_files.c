/* Files that lie: small valid files of every kind that the library reads, cut and changed in one to three places, and files that
   were made to do harm. Reading one ends in a result or an error, soon, with little memory, and leaves nothing behind.
   FACULA_HOSTILE_FILES says how many files, FACULA_HOSTILE_SEED which: make hostile. */
#include "fuzz/input.h"
#include "support/files.h"
#include "support/support.h"

#include "data/file_cases.h"
#include <facula/facula.h>
#include <time.h>
#include <zlib.h>

static const unsigned char grey_jpeg[] = {
#include "data/grey_jpeg.h"
};

enum { FILES = 30000, FILES_WITH_FAILURES = 150, MOST_BYTES = 1 << 17, SLOWEST = 10 /* seconds */ };

/* ---- readers: each takes all that a file has ------------------------------------------------------------------------- */

static void read_entries(fac_tensor_file *f) {
    for (size_t i = 0; f && i < fac_tensor_file_count(f); i++) {
        FAC_SCOPE(s);
        fac_tensor_file_entry e;
        (void)!fac_tensor_file_get(f, i, &e);
        (void)!fac_tensor_file_read(f, i);
        fac_error_clear();
    }
    fac_tensor_file_close(f);
}

static void read_npy(const char *path) { (void)!fac_npy_read(path); }
static void read_npz(const char *path) { read_entries(fac_npz_open(path)); }
static void read_pt(const char *path) { read_entries(fac_pt_open(path)); }
static void read_idx(const char *path) { (void)!fac_idx_read(path); }
static void read_image(const char *path) {
    (void)!fac_image_read(path);
    if (!fac_error()) (void)!fac_image_read(path, .channels = 1);
}
static void read_wav(const char *path) {
    int64_t rate;
    (void)!fac_wav_read(path, &rate);
}
static void read_safetensors(const char *path) {
    fac_safetensors *f = fac_safetensors_open(path);
    if (f && fac_safetensors_verify(f)) fac_error_clear();
    for (size_t i = 0; f && i < fac_safetensors_count(f); i++) {
        (void)!fac_safetensors_read(f, i);
        fac_error_clear();
    }
    fac_safetensors_close(f);
}
static void read_state(const char *path) { fac_state_free(fac_state_load(path)); }
static void read_module(const char *path) {
    fac_module *m = fac_linear_new(3, 2);
    if (m) (void)!fac_module_load(m, path);
    fac_module_release(m);
}
static void read_csv(const char *path) {
    fac_csv *t = fac_csv_open(path);
    for (int64_t i = 0; t && i < fac_csv_columns(t); i++) {
        (void)!fac_csv_numbers(t, FAC_INTS(i));
        fac_error_clear();
        (void)!fac_csv_classes(t, i);
    }
    fac_csv_close(t);
}
static void read_vocab(const char *path) {
    size_t n;
    unsigned char *text = files_read(path, &n);
    fac_vocab *v = fac_vocab_bpe_of((const char *)text, n);
    if (v) (void)!fac_vocab_encode(v, "a text, in which pairs are put together", 39);
    fac_vocab_release(v);
    fac_error_clear();
    v = fac_vocab_characters((const char *)text, n);
    fac_vocab_release(v);
    free(text);
}
/* Of a set in parts: the index with valid parts, and a part with a valid index. */
static void read_index(const char *path) {
    (void)path;
    read_entries(fac_safetensors_open_index(files_path("a.index.json")));
}

/* ---- valid files -------------------------------------------------------------------------------------------------------- */

typedef struct file {
    const char *kind;
    void (*read)(const char *path);
    const char *name; /* where it has to lie; NULL: anywhere */
    size_t per_byte;  /* bytes of memory that a byte of the file may cost */
    unsigned char *v;
    size_t n;
} file;

static file valid[64];
static size_t n_valid;

static void add(const char *kind, void (*read)(const char *path), const char *name, size_t per_byte, const void *bytes,
                size_t n) {
    assert_true(n_valid < FAC_COUNT(valid));
    unsigned char *copy = malloc(n ? n : 1);
    assert_non_null(copy);
    memcpy(copy, bytes, n);
    valid[n_valid++] = (file){kind, read, name, per_byte, copy, n};
}

static void add_written(const char *kind, void (*read)(const char *path), const char *name, size_t per_byte,
                        const char *path) {
    size_t n;
    assert_no_error();
    unsigned char *bytes = files_read(path, &n);
    add(kind, read, name, per_byte, bytes, n);
    free(bytes);
}

enum { PACKED = 1100, PLAIN = 600, PIXELS = 2 * 1032 * 33 };
#define ADD(kind, bytes, per_byte) add(#kind, read_##kind, NULL, per_byte, bytes, sizeof(bytes))
#define ADD_TEXT(kind, text) add(#kind, read_##kind, NULL, PLAIN, text, sizeof(text) - 1)

static void add_images(void) {
    FAC_SCOPE(s);
    const char *path = files_path("image.png");
    fac_tensor *numbers = fac_arange(4 * 6 * 9);
    for (int64_t c = 1; c <= 4; c++) {
        fac_tensor *x = fac_reshape(fac_narrow(numbers, 0, 0, c * 54), FAC_SHAPE(c, 6, 9));
        if (fac_image_write(path, fac_to_dtype(x, FAC_U8)) == FAC_OK)
            add_written("image", read_image, NULL, PIXELS, path);
        fac_error_clear(); /* a library without libpng */
    }
    ADD(image, grey_jpeg, PIXELS);
}

static void add_tensors(void) {
    FAC_SCOPE(s);
    const char *path = files_path("tensors");
    const fac_named_tensor two[] = {{"weight", fac_ones(FAC_SHAPE(2, 3))}, {"bias", fac_zeros(2)}};
    assert_ok(fac_safetensors_save(path, two, 2, &(fac_metadata){"made by", "a test"}, 1));
    add_written("safetensors", read_safetensors, NULL, PLAIN, path);
    add_written("state", read_state, NULL, PLAIN, path);
    add_written("part", read_index, files_path("one.safetensors"), PLAIN, path);
    fac_module *m = fac_linear_new(3, 2);
    assert_ok(fac_module_save(m, path));
    add_written("module", read_module, NULL, PLAIN, path);
    fac_module_release(m);
    static const char index[] = "{\"metadata\": {\"total_size\": 32}, \"weight_map\": {\"weight\": "
                                "\"one.safetensors\", \"bias\": \"one.safetensors\"}}";
    add("index", read_index, files_path("a.index.json"), PLAIN, index, sizeof index - 1);
    assert_ok(fac_wav_write(path, fac_zeros(FAC_SHAPE(2, 5)), 8000));
    add_written("wav", read_wav, NULL, PLAIN, path);
    assert_ok(fac_npz_write(path, two, 2, .compressed = true));
    add_written("npz", read_npz, NULL, PACKED, path);
}

/* 2 by 3 bytes and 2 halves of a number, and the first one in gzip. */
static const unsigned char idx_bytes[] = {0, 0, 8, 2, 0, 0, 0, 2, 0, 0, 0, 3, 1, 2, 3, 4, 5, 6},
                           idx_floats[] = {0, 0, 13, 1, 0, 0, 0, 2, 63, 0, 0, 0, 64, 0, 0, 0};

static void add_packed_idx(void) {
    unsigned char out[100];
    z_stream z = {.next_in = (unsigned char *)(uintptr_t)idx_bytes,
                  .avail_in = sizeof idx_bytes,
                  .next_out = out,
                  .avail_out = sizeof out};
    assert_int_equal(deflateInit2(&z, 9, Z_DEFLATED, 31, 8, Z_DEFAULT_STRATEGY), Z_OK);
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    add("idx", read_idx, NULL, PACKED, out, sizeof out - z.avail_out);
    deflateEnd(&z);
}

static void make_valid(void) {
    if (n_valid) return;
    add_tensors();
    add_images();
    add_packed_idx();
    ADD(idx, idx_bytes, PACKED);
    ADD(idx, idx_floats, PACKED);
    ADD(npy, npy_f32, PLAIN);
    ADD(npy, npy_fortran, PLAIN);
    ADD(npy, npy_c64, PLAIN);
    ADD(npy, npy_v3, PLAIN);
    ADD(npz, npz_stored, PACKED);
    ADD(npz, npz_packed, PACKED);
    ADD(state, npz_packed, PACKED);
    ADD(pt, pt_state, PACKED);
    ADD(pt, pt_linear, PACKED);
    ADD(pt, pt_nested, PACKED);
    ADD(pt, pt_plain, PACKED);
    ADD(state, pt_nested, PACKED);
    ADD_TEXT(csv, "name,size,\"a, \"\"b\"\"\"\r\ncat,1.5,-2e3\r\ndog,,7\r\n\r\n\"a\nb\",inf,0\r\n");
    ADD_TEXT(csv, "a\n1\n2\n");
    ADD_TEXT(vocab, "104 105\n256 32\n116 104\n258 101\n");
}

/* ---- changes ------------------------------------------------------------------------------------------------------------ */

static uint64_t seed;

static uint64_t next_random(void) { /* splitmix64 */
    uint64_t z = seed += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static size_t below(size_t n) { return n ? (size_t)(next_random() % n) : 0; }

typedef struct draft {
    unsigned char v[MOST_BYTES];
    size_t n;
} draft;

/* Takes `cut` bytes out at `at`, and puts n others there. */
static void splice(draft *d, size_t at, size_t cut, const void *bytes, size_t n) {
    if (d->n - cut + n > sizeof d->v) return;
    memmove(d->v + at + n, d->v + at + cut, d->n - at - cut);
    memcpy(d->v + at, bytes, n);
    d->n = d->n - cut + n;
}

static void change_number(draft *d) {
    static const uint64_t numbers[] = {0,
                                       1,
                                       UINT64_MAX,
                                       0x7f,
                                       0x80,
                                       0x7fff,
                                       0x7fffffff,
                                       0x80000000,
                                       0xfffffffe,
                                       0xffff,
                                       0x7fffffffffffffff,
                                       1u << 24,
                                       1u << 28,
                                       (uint64_t)1 << 62,
                                       0x40000000,
                                       0x00ffffff};
    const size_t width = (size_t)1 << below(4), at = below(d->n - width + 1);
    if (d->n < width) return;
    const uint64_t x = below(3) ? numbers[below(FAC_COUNT(numbers))] : d->n + below(3) - 1;
    const bool big = below(2);
    for (size_t i = 0; i < width; i++) d->v[at + i] = (unsigned char)(x >> 8 * (big ? width - 1 - i : i));
}

/* A number that is written out. */
static void change_digits(draft *d) {
    static const char *const numbers[] = {
        "0",          "-1",  "1",     "99999999999999999999", "9223372036854775807", "4294967296",
        "2147483648", "1e9", "1e999", "-9223372036854775808"};
    const char *text = numbers[below(FAC_COUNT(numbers))];
    for (size_t at = below(d->n), tries = d->n; tries--; at = (at + 1) % d->n) {
        if (d->v[at] < '0' || d->v[at] > '9') continue;
        size_t n = 1;
        while (at + n < d->n && d->v[at + n] >= '0' && d->v[at + n] <= '9') n++;
        splice(d, at, n, text, strlen(text));
        return;
    }
}

/* A piece twice, at another place, gone, or in place of another. */
static void change_piece(draft *d) {
    unsigned char piece[64];
    const size_t from = below(d->n), most = d->n - from < sizeof piece ? d->n - from : sizeof piece,
                 n = below(most + 1);
    memcpy(piece, d->v + from, n);
    const size_t what = below(4);
    if (what == 1 || what == 2) splice(d, from, n, "", 0);
    if (what != 2) {
        const size_t at = below(d->n + 1);
        splice(d, at, what == 3 ? below(d->n - at < n ? d->n - at + 1 : n + 1) : 0, piece, n);
    }
}

static void change_bytes(draft *d) {
    const size_t at = below(d->n), n = below(d->n - at < 9 ? d->n - at + 1 : 9);
    for (size_t i = 0; i < n; i++) d->v[at + i] = below(2) ? 0 : (unsigned char)next_random();
}

static void change(draft *d) {
    if (d->n < 2) return;
    switch (below(8)) {
    case 0: d->n = below(d->n); break;
    case 1: d->v[below(d->n)] ^= (unsigned char)(1u << below(8)); break;
    case 2:
    case 3: change_number(d); break;
    case 4: change_digits(d); break;
    case 5:
    case 6: change_piece(d); break;
    default: change_bytes(d); break;
    }
}

/* ---- what else must be right for a change to get past the first check ------------------------------------------------- */

static uint32_t number_at(const unsigned char *p, size_t n, bool big) {
    uint32_t x = 0;
    for (size_t i = 0; i < n; i++) x |= (uint32_t)p[i] << 8 * (big ? n - 1 - i : i);
    return x;
}

static void put_number(unsigned char *p, size_t n, bool big, uint64_t x) {
    for (size_t i = 0; i < n; i++) p[i] = (unsigned char)(x >> 8 * (big ? n - 1 - i : i));
}

static void repair_png(draft *d) {
    for (size_t at = 8; at + 12 <= d->n;) {
        const size_t n = number_at(d->v + at, 4, true);
        if (n > d->n - at - 12) return;
        put_number(d->v + at + 8 + n, 4, true, crc32(0, d->v + at + 4, (unsigned)n + 4));
        at += 12 + n;
    }
}

/* Checksums of members that are not packed, in the directory, which is what counts. */
static void repair_zip(draft *d) {
    for (size_t at = 0; at + 46 <= d->n; at++) {
        unsigned char *p = d->v + at;
        if (memcmp(p, "PK\1\2", 4) != 0) continue;
        const size_t n = number_at(p + 20, 4, false), local = number_at(p + 42, 4, false);
        if (local > d->n || d->n - local < 30) continue;
        const size_t begin =
            local + 30 + number_at(d->v + local + 26, 2, false) + number_at(d->v + local + 28, 2, false);
        if (p[10] == 0 && begin <= d->n && n <= d->n - begin)
            put_number(p + 16, 4, false, crc32(0, d->v + begin, (unsigned)n));
    }
}

/* The length of the header, up to its last bracket. */
static void repair_safetensors(draft *d) {
    size_t end = d->n;
    while (end > 8 && d->v[end - 1] != '}') end--;
    if (end > 8) put_number(d->v, 8, false, end - 8);
}

static void repair(draft *d) {
    if (d->n > 8 && memcmp(d->v, "\x89PNG", 4) == 0) repair_png(d);
    if (d->n > 8 && memcmp(d->v, "PK", 2) == 0) repair_zip(d);
    if (d->n > 9 && d->v[8] == '{') repair_safetensors(d);
}

/* ---- reading one ---------------------------------------------------------------------------------------------------------- */

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* The file goes where it can be looked at. */
static void found(const file *f, const unsigned char *v, size_t n, const char *what) {
    char path[] = "/tmp/facula-hostile-XXXXXX";
    const int fd = mkstemp(path);
    if (fd >= 0 && write(fd, v, n) == (ssize_t)n) close(fd);
    fail_msg("%s: %s (%s)", f->kind, what, path);
}

static int64_t most_memory;

/* Reads bytes as a file of the kind of f; returns how it ended. */
static fac_status take(const file *f, const unsigned char *v, size_t n, int64_t most) {
    const int64_t live = fac_live();
    const double start = now();
    const char *path = f->name;
    if (path)
        files_write(path, v, n);
    else
        path = input_path(v, n);
    (void)memory_hook_bytes();
    {
        FAC_SCOPE(s);
        f->read(path);
    }
    const fac_status code = fac_error();
    const int64_t bytes = memory_hook_bytes();
    if (bytes > most_memory) most_memory = bytes;
    fac_error_clear();
    if (code == FAC_ERR_INTERNAL) found(f, v, n, "an internal error");
    if (fac_live() != live) found(f, v, n, "objects are left");
    if (bytes > most) found(f, v, n, "too much memory");
    if (now() - start > SLOWEST) found(f, v, n, "too slow");
    return code;
}

static int64_t most_of(const file *f, size_t n) { return (4 << 20) + (int64_t)(f->per_byte * n); }

static int64_t taken, refused;

static void count(const file *f, const draft *d) {
    taken++;
    refused += take(f, d->v, d->n, most_of(f, d->n)) != FAC_OK;
}

static void read_changed(const file *f, draft *d) {
    memcpy(d->v, f->v, d->n = f->n);
    for (size_t n = 1 + below(3); n--;) change(d);
    if (below(2)) repair(d);
    count(f, d);
    if (f->name) files_write(f->name, f->v, f->n); /* the other's reader needs it whole */
}

static void read_cut(const file *f, draft *d) {
    memcpy(d->v, f->v, f->n);
    for (d->n = 0; d->n < f->n; d->n += 1 + f->n / 512) count(f, d);
    if (f->name) files_write(f->name, f->v, f->n);
}

static void put_named(void) {
    for (const file *f = valid; f < valid + n_valid; f++)
        if (f->name) files_write(f->name, f->v, f->n);
}

static void free_valid(void) {
    while (n_valid) free(valid[--n_valid].v);
}

static void files_that_were_changed_are_read_or_refused(void **state) {
    (void)state;
    const bool failing = getenv("FACULA_TEST_ALLOCATIONS") != NULL;
    const char *number = getenv("FACULA_HOSTILE_FILES"), *chosen = getenv("FACULA_HOSTILE_SEED");
    const int64_t wanted = number ? strtoll(number, NULL, 10) : failing ? FILES_WITH_FAILURES : FILES;
    seed = chosen ? strtoull(chosen, NULL, 10) : 1;
    taken = refused = most_memory = 0;
    make_valid();
    put_named();
    for (const file *f = valid; f < valid + n_valid; f++)
        if (take(f, f->v, f->n, most_of(f, f->n))) fail_msg("%s: a valid file is refused", f->kind);
    draft *d = malloc(sizeof *d);
    assert_non_null(d);
    for (size_t i = 0; i < n_valid && !failing; i++) read_cut(&valid[i], d);
    while (taken < wanted) read_changed(&valid[below(n_valid)], d);
    print_message("%lld files of %zu, %lld refused; the most memory that one asked for: %lld bytes\n", (long long)taken,
                  n_valid, (long long)refused, (long long)most_memory);
    free(d);
    free_valid();
}

/* ---- files made to do harm ----------------------------------------------------------------------------------------------- */

typedef struct harm {
    fac_buf b;
} harm;

static void put(harm *h, const void *bytes, size_t n) { assert_int_equal(fac__buf_add(&h->b, bytes, n), FAC_OK); }
static void put_int(harm *h, size_t n, bool big, uint64_t x) {
    unsigned char bytes[8];
    put_number(bytes, n, big, x);
    put(h, bytes, n);
}

/* The file must be refused, for this reason, with little memory. */
static void refuse(const char *kind, void (*read)(const char *path), harm *h, fac_status code) {
    const file f = {.kind = kind, .read = read};
    const fac_status st = take(&f, (unsigned char *)h->b.data, h->b.n, 16 << 20);
    if (st != code) found(&f, (unsigned char *)h->b.data, h->b.n, fac_status_name(st));
    fac__buf_free(&h->b);
}

static void refuse_text(const char *kind, void (*read)(const char *path), const char *text, fac_status code) {
    harm h = {0};
    put(&h, text, strlen(text));
    refuse(kind, read, &h, code);
}

static void refuse_npy(const char *descr, const char *shape, fac_status code) {
    harm h = {0};
    char header[512];
    const int n =
        snprintf(header, sizeof header, "{'descr': '%s', 'fortran_order': False, 'shape': (%s), }\n", descr, shape);
    put(&h, "\x93NUMPY\1\0", 8);
    put_int(&h, 2, false, (uint64_t)n);
    put(&h, header, (size_t)n);
    refuse("npy", read_npy, &h, code);
}

static void arrays_that_promise_too_much_are_refused(void **state) {
    (void)state;
    char ones[300] = "";
    for (int i = 0; i < FAC_MAX_DIMS + 1; i++) strcat(ones, "1, ");
    refuse_npy("<f4", "4294967296, 4294967296", FAC_ERR_OVERFLOW);
    refuse_npy("<f4", "9223372036854775807, 0, 9223372036854775807", FAC_ERR_OVERFLOW);
    refuse_npy("<f8", "1152921504606846976, 4", FAC_ERR_OVERFLOW);
    refuse_npy("<f4", "2147483648,", FAC_ERR_FORMAT);
    refuse_npy("<f4", "99999999999999999999,", FAC_ERR_FORMAT);
    refuse_npy("<f4", "-1,", FAC_ERR_FORMAT);
    refuse_npy("<f4", ones, FAC_ERR_FORMAT);
    refuse_npy("<u2", "0,", FAC_ERR_UNSUPPORTED);
    refuse_npy("<u4", "0,", FAC_ERR_UNSUPPORTED);
    refuse_npy("<u8", "0,", FAC_ERR_UNSUPPORTED);
    refuse_npy("|O", "0,", FAC_ERR_UNSUPPORTED);
    harm h = {0};
    put(&h, "\x93NUMPY\2\0\xff\xff\x0f\0{'descr'", 20);
    refuse("npy", read_npy, &h, FAC_ERR_FORMAT);
    static const unsigned char dims[] = {0,   0,   8,   4,   255, 255, 255, 255, 255, 255,
                                         255, 255, 255, 255, 255, 255, 255, 255, 255, 255};
    put(&h, dims, sizeof dims);
    refuse("idx", read_idx, &h, FAC_ERR_OVERFLOW);
    static const unsigned char many[] = {0, 0, 8, 1, 127, 255, 255, 255, 1};
    put(&h, many, sizeof many);
    refuse("idx", read_idx, &h, FAC_ERR_FORMAT);
}

static void refuse_safetensors(const char *json, uint64_t length) {
    harm h = {0};
    put_int(&h, 8, false, length ? length : strlen(json));
    put(&h, json, strlen(json));
    refuse("safetensors", read_safetensors, &h, FAC_ERR_FORMAT);
}

static void headers_of_safetensors_that_lie_are_refused(void **state) {
    (void)state;
    char *deep = malloc(100001);
    assert_non_null(deep);
    memset(deep, '[', 100000);
    memcpy(deep, "{\"a\":", 5);
    deep[100000] = '\0';
    refuse_safetensors(deep, 0);
    free(deep);
    refuse_safetensors("{}", UINT64_MAX);
    refuse_safetensors("{}", (uint64_t)1 << 63);
    refuse_safetensors("{}", 99999999);
    refuse_safetensors("{\"x\":{\"dtype\":\"F32\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,0]}}", 0);
    refuse_safetensors("{\"x\":{\"dtype\":\"F64\",\"shape\":[2305843009213693952],\"data_offsets\":[0,0]}}", 0);
    refuse_safetensors("{\"x\":{\"dtype\":\"U8\",\"shape\":[9223372036854775808],\"data_offsets\":[0,0]}}", 0);
    refuse_safetensors("{\"x\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[-1,-1]}}", 0);
    refuse_safetensors("{\"x\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]},"
                       "\"x\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}}",
                       0);
    files_write(files_path("a.index.json"), "{\"weight_map\":{\"x\":\"../a\"}}", 27);
    refuse_text("index", read_index, "", FAC_ERR_FORMAT);
    files_write(files_path("a.index.json"), "{\"weight_map\":{\"x\":\"..\"}}", 25);
    refuse_text("index", read_index, "", FAC_ERR_FORMAT);
}

/* So many equal bytes, packed as tightly as deflate can; with zlib's own frame around if `framed`. */
static void put_packed(harm *h, int byte, size_t n, bool framed) {
    z_stream z = {0};
    unsigned char in[4096], out[4096];
    memset(in, byte, sizeof in);
    assert_int_equal(deflateInit2(&z, 9, Z_DEFLATED, framed ? 15 : -15, 9, Z_DEFAULT_STRATEGY), Z_OK);
    for (int code = Z_OK; code != Z_STREAM_END;) {
        if (!z.avail_in) {
            z.next_in = in;
            z.avail_in = (unsigned)(n < sizeof in ? n : sizeof in);
            n -= z.avail_in;
        }
        z.next_out = out;
        z.avail_out = sizeof out;
        code = deflate(&z, n ? Z_NO_FLUSH : Z_FINISH);
        put(h, out, sizeof out - z.avail_out);
    }
    deflateEnd(&z);
}

/* A zip file of one member. */
static void put_zip(harm *h, const char *name, const harm *member, uint64_t size, bool packed) {
    const size_t begin = h->b.n, length = strlen(name);
    put(h, "PK\3\4\24\0\0\0", 8);
    put_int(h, 2, false, packed ? 8 : 0);
    put_int(h, 8, false, 0);
    put_int(h, 4, false, member->b.n);
    put_int(h, 4, false, size);
    put_int(h, 4, false, length);
    put(h, name, length);
    put(h, member->b.data, member->b.n);
    const size_t directory = h->b.n;
    put(h, "PK\1\2\24\0\24\0\0\0", 10);
    put_int(h, 2, false, packed ? 8 : 0);
    put_int(h, 8, false, 0); /* time, and a checksum that nobody gets to */
    put_int(h, 4, false, member->b.n);
    put_int(h, 4, false, size);
    put_int(h, 8, false, length);
    put_int(h, 6, false, 0);
    put_int(h, 4, false, begin);
    put(h, name, length);
    put(h, "PK\5\6\0\0\0\0\1\0\1\0", 12);
    put_int(h, 4, false, h->b.n - 12 - directory);
    put_int(h, 4, false, directory);
    put_int(h, 2, false, 0);
}

/* Of 16 KiB that are 16 MiB, each byte an instruction that makes a value. */
static void pickles_that_are_packed_tightly_are_refused(void **state) {
    (void)state;
    harm member = {0}, h = {0};
    put_packed(&member, 'N', 16 << 20, false);
    put_zip(&h, "archive/data.pkl", &member, 16 << 20, true);
    fac__buf_free(&member.b);
    refuse("pt", read_pt, &h, FAC_ERR_UNSUPPORTED);
}

/* Lists within lists, each of which holds the next one twice: 2^20 leaves of a hundred bytes. */
static void pickles_that_hold_themselves_too_often_are_refused(void **state) {
    (void)state;
    harm member = {0}, h = {0};
    put(&member, "\x80\2]", 3);
    for (int i = 0; i < 20; i++) {
        put(&member, "q", 1);
        put_int(&member, 1, false, (uint64_t)i);
        put(&member, "0](h", 4);
        put_int(&member, 1, false, (uint64_t)i);
        put(&member, "h", 1);
        put_int(&member, 1, false, (uint64_t)i);
        put(&member, "e", 1);
    }
    put(&member, ".", 1);
    const uint32_t crc = (uint32_t)crc32(0, (unsigned char *)member.b.data, (unsigned)member.b.n);
    put_zip(&h, "../../archive/data.pkl", &member, member.b.n, false);
    fac__buf_free(&member.b);
    draft *d = malloc(sizeof *d);
    assert_non_null(d);
    memcpy(d->v, h.b.data, d->n = h.b.n);
    (void)crc;
    repair_zip(d);
    memcpy(h.b.data, d->v, d->n);
    free(d);
    refuse("pt", read_pt, &h, FAC_ERR_FORMAT); /* "data.pkl" is not in a folder of the file's own */
}

/* ---- images ----------------------------------------------------------------------------------------------------------------- */

static void put_chunk(harm *h, const char *type, const void *bytes, size_t n) {
    put_int(h, 4, true, n);
    const size_t begin = h->b.n;
    put(h, type, 4);
    put(h, bytes, n);
    put_int(h, 4, true, crc32(0, (unsigned char *)h->b.data + begin, (unsigned)n + 4));
}

static void begin_png(harm *h, uint32_t width, uint32_t height, int bits, int type) {
    unsigned char head[13] = {0};
    put_number(head, 4, true, width);
    put_number(head + 4, 4, true, height);
    head[8] = (unsigned char)bits;
    head[9] = (unsigned char)type;
    put(h, "\x89PNG\r\n\x1a\n", 8);
    put_chunk(h, "IHDR", head, sizeof head);
}

static bool reads_images(void) {
    fac_image_read(input_path((const unsigned char *)"\x89PNG\r\n\x1a\n", 8));
    const bool png = fac_error() != FAC_ERR_UNSUPPORTED;
    fac_error_clear();
    fac_image_read(input_path(grey_jpeg, 20));
    const bool jpeg = fac_error() != FAC_ERR_UNSUPPORTED;
    fac_error_clear();
    if (!png || !jpeg) print_message("the library was built without libpng or libjpeg\n");
    return png && jpeg;
}

static void images_of_too_many_pixels_are_refused(void **state) {
    (void)state;
    static const struct {
        uint32_t width, height;
        fac_status code;
    } sizes[] = {{0x7fffffff, 0x7fffffff, FAC_ERR_FORMAT},
                 {1u << 24, 1u << 24, FAC_ERR_OVERFLOW},
                 {1u << 14, 1u << 15, FAC_ERR_OVERFLOW},
                 {1, 1u << 24, FAC_ERR_FORMAT},
                 {1u << 24, 1, FAC_ERR_FORMAT},
                 {1u << 14, 1u << 14, FAC_ERR_FORMAT}};
    if (!reads_images()) skip();
    for (size_t i = 0; i < FAC_COUNT(sizes); i++) {
        harm h = {0}, rows = {0};
        begin_png(&h, sizes[i].width, sizes[i].height, 1, 0);
        put_packed(&rows, 0, 400000, true);
        put_chunk(&h, "IDAT", rows.b.data, rows.b.n);
        put_chunk(&h, "IEND", "", 0);
        fac__buf_free(&rows.b);
        refuse("image", read_image, &h, sizes[i].code);
    }
}

/* 8 pieces of text of 8 MiB each, in 64 KiB: they are passed over. */
static void text_in_images_is_not_unpacked(void **state) {
    (void)state;
    harm h = {0}, text = {0}, rows = {0};
    if (!reads_images()) skip();
    begin_png(&h, 8, 8, 1, 0);
    put(&text, "Comment\0\0", 9);
    put_packed(&text, 'a', (8 << 20) - 100, true);
    for (int i = 0; i < 8; i++) put_chunk(&h, "zTXt", text.b.data, text.b.n);
    put_packed(&rows, 0, 16, true);
    put_chunk(&h, "IDAT", rows.b.data, rows.b.n);
    put_chunk(&h, "IEND", "", 0);
    fac__buf_free(&text.b);
    fac__buf_free(&rows.b);
    refuse("image", read_image, &h, FAC_OK);
}

/* A progressive JPEG file of so many scans without data, of so many colours. */
static void put_jpeg(harm *h, uint32_t size, int colours, int scans) {
    unsigned char table[65] = {0};
    memset(table + 1, 1, 64);
    put(h, "\xff\xd8\xff\xdb\0\x43", 6);
    put(h, table, sizeof table);
    put(h, "\xff\xc2", 2);
    put_int(h, 2, true, 8 + 3 * (uint64_t)colours);
    put_int(h, 1, true, 8);
    put_int(h, 2, true, size);
    put_int(h, 2, true, size);
    put_int(h, 1, true, (uint64_t)colours);
    for (int i = 0; i < colours; i++) {
        put_int(h, 1, true, (uint64_t)i + 1);
        put(h, "\x11\0", 2);
    }
    put(h, "\xff\xc4\0\x14\0\1\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 22);
    for (int i = 0; i < scans; i++) put(h, "\xff\xda\0\x08\1\1\0\0\0\0", 10);
    put(h, "\xff\xd9", 2);
}

static void jpeg_files_of_many_scans_or_inks_are_refused(void **state) {
    (void)state;
    harm h = {0};
    if (!reads_images()) skip();
    put_jpeg(&h, 64, 1, 600);
    const char *path = input_path((unsigned char *)h.b.data, h.b.n);
    assert_null(fac_image_read(path));
    assert_error(FAC_ERR_FORMAT, "more than 500 scans");
    refuse("image", read_image, &h, FAC_ERR_FORMAT);
    put_jpeg(&h, 8, 4, 1);
    path = input_path((unsigned char *)h.b.data, h.b.n);
    assert_null(fac_image_read(path));
    assert_error(FAC_ERR_UNSUPPORTED, "4 colours");
    refuse("image", read_image, &h, FAC_ERR_UNSUPPORTED);
    put_jpeg(&h, 65500, 1, 1);
    refuse("image", read_image, &h, FAC_ERR_OVERFLOW);
    put_jpeg(&h, 16000, 1, 1);
    refuse("image", read_image, &h, FAC_ERR_FORMAT);
}

/* ---- sound and text ------------------------------------------------------------------------------------------------------- */

static void refuse_wav(uint64_t channels, uint64_t rate, uint64_t frame, uint64_t bits, uint64_t size) {
    harm h = {0};
    put(&h, "RIFF....WAVEfmt \x10\0\0\0\1\0", 22);
    put_int(&h, 2, false, channels);
    put_int(&h, 4, false, rate);
    put_int(&h, 4, false, rate * frame);
    put_int(&h, 2, false, frame);
    put_int(&h, 2, false, bits);
    put(&h, "data", 4);
    put_int(&h, 4, false, size);
    put_int(&h, 8, false, 0);
    refuse("wav", read_wav, &h, bits % 8 ? FAC_ERR_UNSUPPORTED : FAC_ERR_FORMAT);
}

static void sound_and_text_that_lie_are_refused(void **state) {
    (void)state;
    refuse_wav(0, 8000, 0, 16, 8);
    refuse_wav(65535, 8000, 65534, 16, 8);
    refuse_wav(2, 0, 4, 16, 8);
    refuse_wav(2, 8000, 3, 16, 8);
    refuse_wav(2, 8000, 4, 16, 7);
    refuse_wav(2, 8000, 4, 16, 0xffffffff);
    refuse_wav(1, 8000, 1, 4, 8);
    refuse_text("csv", read_csv, "a,b\n\"1,2\n3,4\n", FAC_ERR_FORMAT);
    refuse_text("csv", read_csv, "a,b\n1\n", FAC_ERR_FORMAT);
    harm h = {0};
    for (int i = 0; i < 20; i++) { /* each token twice the one before */
        char line[32];
        put(&h, line, (size_t)snprintf(line, sizeof line, "%d %d\n", i ? 255 + i : 97, i ? 255 + i : 97));
    }
    fac_vocab *v = fac_vocab_bpe_of(h.b.data, h.b.n);
    assert_null(v);
    assert_error(FAC_ERR_FORMAT, "bytes");
    fac__buf_free(&h.b);
}

FAC_TEST_MAIN(FAC_TEST(files_that_were_changed_are_read_or_refused), FAC_TEST(arrays_that_promise_too_much_are_refused),
              FAC_TEST(headers_of_safetensors_that_lie_are_refused),
              FAC_TEST(pickles_that_are_packed_tightly_are_refused),
              FAC_TEST(pickles_that_hold_themselves_too_often_are_refused),
              FAC_TEST(images_of_too_many_pixels_are_refused), FAC_TEST(text_in_images_is_not_unpacked),
              FAC_TEST(jpeg_files_of_many_scans_or_inks_are_refused), FAC_TEST(sound_and_text_that_lie_are_refused))
