/* Vocabularies, corpora, IDX files, samplers and loaders. */
#include "support/files.h"
#include "support/support.h"

#include "base/utf8.h"
#include "data/random.h"
#include <facula/data.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

static int64_t at(fac_tensor *t, int64_t i) {
    assert_int_equal(fac_tensor_dtype(t), FAC_I64);
    return ((const int64_t *)fac_tensor_data(t))[i];
}

/* ---- text --------------------------------------------------------------------------------------------------------- */

static void utf8_writes_and_reads_every_character(void **state) {
    (void)state;
    for (uint32_t c = 0; c <= 0x10ffff; c++) {
        char text[4];
        uint32_t back;
        int n = fac__utf8_write(c, text);
        bool surrogate = c >= 0xd800 && c < 0xe000;
        assert_int_equal(fac__utf8_read(text, text + n, &back), surrogate ? 0 : n);
        if (!surrogate) assert_int_equal(back, c);
        if (n > 1) assert_int_equal(fac__utf8_read(text, text + n - 1, &back), 0);
    }
}

static void utf8_refuses_what_is_not_text(void **state) {
    (void)state;
    static const char *const bad[] = {
        "\x80", "\xc0\x80", "\xc1\xbf", "\xe0\x9f\xbf", "\xf0\x8f\xbf\xbf", "\xf4\x90\x80\x80", "\xff", "\xe2\x28\xa1"};
    for (size_t i = 0; i < FAC_COUNT(bad); i++) assert_false(fac__utf8_valid(bad[i], strlen(bad[i])));
}

static void vocab_of_bytes_takes_any_text(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_vocab *v = fac_vocab_bytes();
    assert_non_null(v);
    assert_int_equal(fac_vocab_size(v), 256);
    assert_string_equal(fac_vocab_text(v), "");
    fac_tensor *t = fac_vocab_encode(v, "a\0\xff", 3);
    assert_non_null(t);
    assert_int_equal(fac_tensor_numel(t), 3);
    assert_int_equal(at(t, 0), 'a');
    assert_int_equal(at(t, 1), 0);
    assert_int_equal(at(t, 2), 255);
    char text[4];
    size_t n;
    assert_int_equal(fac_vocab_decode(v, 255, text, &n), FAC_OK);
    assert_int_equal(n, 1);
    assert_int_equal((unsigned char)text[0], 255);
    assert_int_equal(fac_vocab_decode(v, 256, text, &n), FAC_ERR_INDEX);
    assert_error(FAC_ERR_INDEX, "no token 256");
    fac_vocab_release(v);
}

static void vocab_of_characters_is_sorted_and_comes_back_from_its_text(void **state) {
    (void)state;
    FAC_SCOPE(s);
    const char *text = "b\xe2\x82\xac"
                       "ab\xc3\xa9"; /* b, euro sign, a, b, e acute */
    fac_vocab *v = fac_vocab_characters(text, strlen(text));
    assert_non_null(v);
    assert_int_equal(fac_vocab_size(v), 4);
    assert_string_equal(fac_vocab_text(v), "ab\xc3\xa9\xe2\x82\xac");
    fac_vocab *again = fac_vocab_characters(fac_vocab_text(v), strlen(fac_vocab_text(v)));
    static const int64_t expected[] = {1, 3, 0, 1, 2};
    fac_tensor *t = fac_vocab_encode(again, text, strlen(text));
    assert_non_null(t);
    assert_int_equal(fac_tensor_numel(t), 5);
    assert_memory_equal(fac_tensor_data(t), expected, sizeof expected);
    char out[4];
    size_t n;
    assert_int_equal(fac_vocab_decode(again, 3, out, &n), FAC_OK);
    assert_int_equal(n, 3);
    assert_memory_equal(out, "\xe2\x82\xac", 3);
    assert_null(fac_vocab_encode(again, "abc", 3));
    assert_error(FAC_ERR_NOT_FOUND, "no 'c' (U+0063)");
    assert_null(fac_vocab_encode(again, "a\xff", 2));
    assert_error(FAC_ERR_FORMAT, "not UTF-8");
    assert_null(fac_vocab_characters("a\xff", 2));
    assert_error(FAC_ERR_FORMAT, "at byte 1");
    fac_vocab_release(v);
    fac_vocab_release(again);
}

/* A folder with text, a hidden file, a binary one, a link and a folder below. Returns its path. */
static const char *make_tree(void) {
    const char *root = files_path("tree");
    if (mkdir(root, 0777) == 0) {
        assert_int_equal(mkdir(files_path("tree/below"), 0777), 0);
        files_write(files_path("tree/b.txt"), "two", 3);
        files_write(files_path("tree/a.txt"), "one\n", 4);
        files_write(files_path("tree/below/c.txt"), "three", 5);
        files_write(files_path("tree/.hidden"), "secret", 6);
        files_write(files_path("tree/binary"), "x\0y", 3);
        assert_int_equal(symlink("a.txt", files_path("tree/link")), 0);
    }
    return root;
}

static void corpus_joins_a_folder_in_order_of_name(void **state) {
    (void)state;
    FAC_SCOPE(s);
    const char *root = make_tree();
    fac_corpus *c = fac_corpus_new(&root, 1, .characters = true);
    assert_non_null(c);
    const char *expected = "one\ntwo\nthree";
    assert_int_equal(fac_corpus_files(c), 3);
    assert_int_equal(fac_corpus_skipped(c), 1);
    assert_int_equal(fac_corpus_bytes(c), strlen(expected));
    assert_int_equal(fac_corpus_tokens(c), strlen(expected));
    assert_string_equal(fac_vocab_text(fac_corpus_vocab(c)), "\nehnortw");
    /* A window as long as the corpus allows shows all of it. */
    fac_tensor *inputs, *targets, *all = fac_vocab_encode(fac_corpus_vocab(c), expected, strlen(expected));
    uint64_t random = 1;
    int64_t length = fac_corpus_tokens(c) - 1;
    assert_int_equal(fac_corpus_batch(c, (fac_span){0, 0}, 1, length, &random, &inputs, &targets), FAC_OK);
    assert_memory_equal(fac_tensor_data(inputs), fac_tensor_data(all), (size_t)length * 8);
    assert_memory_equal(fac_tensor_data(targets), (int64_t *)fac_tensor_data(all) + 1, (size_t)length * 8);
    fac_corpus_release(c);
}

static void corpus_batches_stay_in_their_span_and_follow_the_seed(void **state) {
    (void)state;
    FAC_SCOPE(s);
    char text[256];
    for (int i = 0; i < 256; i++) text[i] = (char)i;
    const char *path = files_path("bytes");
    files_write(path, text, sizeof text);
    fac_corpus *c = fac_corpus_new(&path, 1);
    assert_non_null(c);
    uint64_t first = 42, second = 42;
    bool seen[256] = {false};
    for (int round = 0; round < 200; round++) {
        FAC_SCOPE(inner);
        fac_tensor *x, *y, *x2, *y2;
        assert_int_equal(fac_corpus_batch(c, (fac_span){100, 120}, 3, 4, &first, &x, &y), FAC_OK);
        assert_int_equal(fac_corpus_batch(c, (fac_span){100, 120}, 3, 4, &second, &x2, &y2), FAC_OK);
        assert_int_equal(fac_tensor_size(x, 0), 3);
        assert_int_equal(fac_tensor_size(x, 1), 4);
        assert_memory_equal(fac_tensor_data(x), fac_tensor_data(x2), 12 * 8);
        for (int i = 0; i < 12; i++) {
            assert_int_equal(at(y, i), at(x, i) + 1); /* each byte of this text is one more than the one before */
            seen[at(x, i)] = seen[at(y, i)] = true;
        }
    }
    for (int i = 0; i < 256; i++) assert_int_equal(seen[i], i >= 100 && i < 120);
    fac_tensor *x, *y;
    assert_int_equal(fac_corpus_batch(c, (fac_span){0, 4}, 1, 4, &first, &x, &y), FAC_ERR_SHAPE);
    assert_error(FAC_ERR_SHAPE, "no window of 4");
    assert_int_equal(fac_corpus_batch(c, (fac_span){0, 257}, 1, 4, &first, &x, &y), FAC_ERR_SHAPE);
    assert_error(FAC_ERR_SHAPE, "not inside");
    fac_corpus_release(c);
}

static void corpus_reports_what_it_cannot_read(void **state) {
    (void)state;
    const char *missing = files_path("not there"), *root = make_tree(), *empty = files_path("empty");
    assert_null(fac_corpus_new(&missing, 1));
    assert_error(FAC_ERR_IO, "not there");
    (void)mkdir(empty, 0777);
    assert_null(fac_corpus_new(&empty, 1));
    assert_error(FAC_ERR_ARGUMENT, "no text to read");
    const char *file = files_path("tree/b.txt");
    assert_null(fac_corpus_new(&file, 1, .max_bytes = 2));
    assert_error(FAC_ERR_ARGUMENT, "exceed max_bytes");
    fac_corpus *c = fac_corpus_new(&root, 1, .max_bytes = 9);
    assert_non_null(c);
    assert_int_equal(fac_corpus_files(c), 2);
    fac_corpus_release(c);
    fac_vocab *v = fac_vocab_characters("enot\n", 5);
    assert_null(fac_corpus_new(&root, 1, .vocab = v));
    assert_error(FAC_ERR_NOT_FOUND, "no 'w'");
    fac_vocab_release(v);
}

static void corpus_leaves_out_folders_of_results(void **state) {
    (void)state;
    const char *root = make_tree();
    fac_corpus *c = fac_corpus_new(&root, 1), *without = fac_corpus_new(&root, 1, .skip_beside = "not there");
    assert_int_equal(fac_corpus_files(c), fac_corpus_files(without));
    fac_corpus_release(without);
    char path[4096];
    snprintf(path, sizeof path, "%s/results", root);
    assert_int_equal(mkdir(path, 0777), 0);
    for (const char *const *name = (const char *const[]){"log.tsv", "mark", NULL}; *name; name++) {
        snprintf(path, sizeof path, "%s/results/%s", root, *name);
        FILE *f = fopen(path, "w");
        assert_true(f && fputs("text", f) >= 0 && fclose(f) == 0);
    }
    without = fac_corpus_new(&root, 1, .skip_beside = "mark");
    assert_int_equal(fac_corpus_files(c), fac_corpus_files(without));
    fac_corpus_release(without);
    fac_corpus *with = fac_corpus_new(&root, 1);
    assert_int_equal(fac_corpus_files(with), fac_corpus_files(c) + 2);
    fac_corpus_release(with);
    fac_corpus_release(c);
}

static void data_objects_that_are_null_are_errors(void **state) {
    (void)state;
    fac_tensor *x = NULL, *y = NULL;
    uint64_t order = 1;
    assert_null(fac_corpus_new(NULL, 1));
    assert_error(FAC_ERR_ARGUMENT, "no array");
    assert_int_equal(fac_corpus_tokens(NULL), 0);
    assert_error(FAC_ERR_ARGUMENT, "the corpus is NULL");
    assert_int_equal(fac_corpus_batch(NULL, (fac_span){0, 0}, 1, 1, &order, &x, &y), FAC_ERR_ARGUMENT);
    assert_error(FAC_ERR_ARGUMENT, "the corpus, ");
    assert_int_equal(fac_vocab_size(NULL), 0);
    assert_error(FAC_ERR_ARGUMENT, "the vocabulary is NULL");
    assert_null(fac_vocab_encode(NULL, "a", 1));
    assert_error(FAC_ERR_ARGUMENT, "the vocabulary is NULL");
    assert_int_equal(fac_sampler_next(NULL, NULL, 0), 0);
    assert_error(FAC_ERR_ARGUMENT, "the sampler is NULL");
    assert_false(fac_loader_next(NULL, &x));
    assert_error(FAC_ERR_ARGUMENT, "the loader is NULL");
}

static void corpus_survives_failing_allocations(void **state) {
    (void)state;
    const char *root = make_tree();
    for (int64_t n = 1;; n++) {
        memory_hook_fail(n, true);
        fac_corpus *c = fac_corpus_new(&root, 1, .characters = true);
        bool failed = memory_hook_failures() > 0;
        memory_hook_fail(0, false);
        assert_int_equal(c == NULL, failed);
        fac_corpus_release(c);
        fac_error_clear();
        if (!failed) break;
    }
}

/* ---- IDX -------------------------------------------------------------------------------------------------------------- */

static const unsigned char IDX[] = {0, 0, 0x0b, 2, 0,    0,    0, 2, 0,    0,    0,    3,
                                    0, 1, 0,    2, 0xff, 0xff, 1, 0, 0x7f, 0xff, 0x80, 0};
static const int16_t IDX_VALUES[] = {1, 2, -1, 256, 32767, -32768};

static void write_gzip(const char *path, const void *bytes, size_t n) {
    gzFile f = gzopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(gzwrite(f, bytes, (unsigned)n), n);
    assert_int_equal(gzclose(f), Z_OK);
}

static void idx_reads_big_endian_plain_and_gzip(void **state) {
    (void)state;
    FAC_SCOPE(s);
    const char *plain = files_path("plain.idx"), *packed = files_path("packed.idx.gz");
    files_write(plain, IDX, sizeof IDX);
    write_gzip(packed, IDX, sizeof IDX);
    fac_tensor *tensors[] = {fac_idx_read(plain), fac_idx_read(packed)};
    for (int i = 0; i < 2; i++) {
        assert_non_null(tensors[i]);
        assert_int_equal(fac_tensor_dtype(tensors[i]), FAC_I16);
        assert_int_equal(fac_tensor_size(tensors[i], 0), 2);
        assert_int_equal(fac_tensor_size(tensors[i], 1), 3);
        assert_memory_equal(fac_tensor_data(tensors[i]), IDX_VALUES, sizeof IDX_VALUES);
    }
    const unsigned char real[] = {0, 0, 0x0e, 1, 0, 0, 0, 1, 0x3f, 0xf8, 0, 0, 0, 0, 0, 0};
    files_write(plain, real, sizeof real);
    fac_tensor *t = fac_idx_read(plain);
    assert_non_null(t);
    assert_true(*(const double *)fac_tensor_data(t) == 1.5);
}

static void idx_refuses_bad_headers_and_lengths(void **state) {
    (void)state;
    FAC_SCOPE(s);
    const char *path = files_path("bad.idx");
    unsigned char bytes[sizeof IDX + 1];
    static const struct {
        int at;
        unsigned char value;
        const char *text;
    } cases[] = {{0, 1, "not an IDX file"},        {2, 0x0a, "not an IDX file"}, {2, 0xff, "not an IDX file"},
                 {3, 0, "not an IDX file"},        {3, 255, "not an IDX file"},  {4, 0x7f, "promises"},
                 {7, 1, "behind the last element"}};
    for (size_t i = 0; i < FAC_COUNT(cases); i++) {
        memcpy(bytes, IDX, sizeof IDX);
        bytes[cases[i].at] = cases[i].value;
        files_write(path, bytes, sizeof IDX);
        assert_null(fac_idx_read(path));
        assert_error(FAC_ERR_FORMAT, cases[i].text);
    }
    bytes[7] = IDX[7];
    bytes[sizeof IDX] = 0;
    files_write(path, bytes, sizeof bytes);
    assert_null(fac_idx_read(path));
    assert_error(FAC_ERR_FORMAT, "behind the last element");
    assert_null(fac_idx_read(files_path("none.idx")));
    assert_error(FAC_ERR_IO, "cannot open");
}

static void idx_refuses_files_cut_anywhere(void **state) {
    (void)state;
    FAC_SCOPE(s);
    const char *path = files_path("cut.idx"), *packed = files_path("whole.idx.gz");
    for (size_t n = 0; n < sizeof IDX; n++) {
        files_write(path, IDX, n);
        assert_null(fac_idx_read(path));
        assert_error(FAC_ERR_FORMAT, "IDX file");
    }
    write_gzip(packed, IDX, sizeof IDX);
    size_t n;
    unsigned char *bytes = files_read(packed, &n);
    for (size_t length = 0; length < n; length++) {
        files_write(path, bytes, length);
        assert_null(fac_idx_read(path));
        assert_int_equal(fac_error(), FAC_ERR_FORMAT);
        fac_error_clear();
    }
    free(bytes);
}

static void idx_finds_flipped_bits_in_gzip_data(void **state) {
    (void)state;
    FAC_SCOPE(s);
    const char *path = files_path("flipped.idx.gz"), *packed = files_path("whole.idx.gz");
    write_gzip(packed, IDX, sizeof IDX);
    size_t n;
    unsigned char *bytes = files_read(packed, &n);
    enum { GZIP_HEADER = 10 }; /* time, system and flags are not covered by a checksum */
    int unseen = 0;
    for (size_t bit = 8 * GZIP_HEADER; bit < 8 * n; bit++) {
        bytes[bit / 8] ^= (unsigned char)(1u << bit % 8);
        files_write(path, bytes, n);
        fac_tensor *t = fac_idx_read(path);
        if (t) { /* the padding behind the last code means nothing */
            assert_memory_equal(fac_tensor_data(t), IDX_VALUES, sizeof IDX_VALUES);
            unseen++;
        }
        assert_int_equal(fac_error(), t ? FAC_OK : FAC_ERR_FORMAT);
        fac_error_clear();
        bytes[bit / 8] ^= (unsigned char)(1u << bit % 8);
    }
    assert_true(unseen < 8);
    free(bytes);
}

/* ---- order ---------------------------------------------------------------------------------------------------------------- */

static void split_mix_gives_the_published_numbers(void **state) {
    (void)state;
    uint64_t seed = 1234567; /* from the reference program's own output */
    static const uint64_t expected[] = {6457827717110365317u, 3203168211198807973u, 9817491932198370423u,
                                        4593380528125082431u, 16408922859458223821u};
    for (size_t i = 0; i < FAC_COUNT(expected); i++) assert_true(fac__split_mix(&seed) == expected[i]);
}

static void sampler_visits_everything_once_in_an_order_of_its_own_per_epoch(void **state) {
    (void)state;
    enum { N = 1000 };
    fac_sampler *s = fac_sampler_new(N, .shuffle = true, .seed = 7),
                *same = fac_sampler_new(N, .shuffle = true, .seed = 7),
                *other = fac_sampler_new(N, .shuffle = true, .seed = 8);
    assert_non_null(s);
    int64_t order[2][N], again[N], different[N];
    for (int epoch = 0; epoch < 2; epoch++) {
        bool seen[N] = {false};
        fac_sampler_start(s, epoch);
        int64_t got = 0, n;
        while ((n = fac_sampler_next(s, order[epoch] + got, fac__min(64, N - got))) > 0) got += n;
        assert_int_equal(got, N);
        assert_int_equal(fac_sampler_next(s, again, N), 0);
        for (int i = 0; i < N; i++) {
            assert_true(order[epoch][i] >= 0 && order[epoch][i] < N && !seen[order[epoch][i]]);
            seen[order[epoch][i]] = true;
        }
    }
    fac_sampler_start(same, 1);
    assert_int_equal(fac_sampler_next(same, again, N), N);
    assert_int_equal(fac_sampler_next(other, different, N), N);
    assert_memory_equal(again, order[1], sizeof again);
    assert_memory_not_equal(order[0], order[1], sizeof again);
    assert_memory_not_equal(order[0], different, sizeof again);
    fac_sampler_release(s);
    fac_sampler_release(same);
    fac_sampler_release(other);
    assert_null(fac_sampler_new(-1, .shuffle = true, .seed = 0));
    assert_error(FAC_ERR_ARGUMENT, "-1 samples");
}

/* Columns whose rows name themselves: images [n, 2] of (i, 10 i), labels [n] of i. */
static void make_columns(int64_t n, fac_tensor **out) {
    float images[64];
    int64_t labels[32];
    for (int64_t i = 0; i < n; i++) {
        images[2 * i] = (float)i;
        images[2 * i + 1] = 10 * (float)i;
        labels[i] = i;
    }
    out[0] = fac_tensor_from(images, FAC_F32, FAC_INTS(n, 2));
    out[1] = fac_tensor_from(labels, FAC_I64, FAC_INTS(n));
}

static void S168_loader_keeps_columns_together(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *columns[2];
    make_columns(10, columns);
    fac_loader *l = fac_loader_new(FAC_TENSORS(columns[0], columns[1]), .batch_size = 4, .shuffle = true, .seed = 3);
    assert_non_null(l);
    assert_int_equal(fac_loader_batches(l), 3);
    for (int epoch = 0; epoch < 2; epoch++) {
        static const int64_t expected_sizes[] = {4, 4, 2};
        unsigned seen = 0;
        fac_tensor *batch[2];
        int batches = 0;
        for (; fac_loader_next(l, batch); batches++) {
            int64_t n = fac_tensor_size(batch[0], 0);
            assert_int_equal(n, expected_sizes[batches]);
            assert_int_equal(fac_tensor_size(batch[0], 1), 2);
            assert_int_equal(fac_tensor_size(batch[1], 0), n);
            for (int64_t i = 0; i < n; i++) {
                const float *row = (const float *)fac_tensor_data(batch[0]) + 2 * i;
                int64_t label = at(batch[1], i);
                assert_true(row[0] == (float)label && row[1] == 10 * (float)label);
                seen |= 1u << label;
            }
        }
        assert_int_equal(fac_error(), FAC_OK);
        assert_int_equal(batches, 3);
        assert_int_equal(seen, 0x3ff);
    }
    fac_loader_release(l);
}

static void loader_goes_in_order_and_drops_a_short_batch_when_told(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *columns[2], *batch[2];
    make_columns(10, columns);
    fac_loader *l = fac_loader_new(FAC_TENSORS(columns[1]), .batch_size = 4, .drop_last = true);
    assert_non_null(l);
    assert_int_equal(fac_loader_batches(l), 2);
    for (int64_t b = 0; b < 2; b++) {
        assert_true(fac_loader_next(l, batch));
        for (int64_t i = 0; i < 4; i++) assert_int_equal(at(batch[0], i), 4 * b + i);
    }
    assert_false(fac_loader_next(l, batch));
    fac_loader_release(l);
    l = fac_loader_new(FAC_TENSORS(columns[1]));
    assert_int_equal(fac_loader_batches(l), 10);
    fac_loader_release(l);
}

static void loader_refuses_columns_that_do_not_fit(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *columns[2], *three = fac_tensor_of(1, 2, 3);
    make_columns(10, columns);
    float buffer[4] = {0}, number = 1;
    fac_tensor *strided = fac_tensor_wrap(buffer, sizeof buffer, FAC_F32, FAC_INTS(2), FAC_INTS(2), 0, NULL, NULL);
    fac_tensor *scalar = fac_tensor_from(&number, FAC_F32, FAC_INTS());
    assert_null(fac_loader_new(FAC_TENSORS(columns[0], three)));
    assert_error(FAC_ERR_SHAPE, "column 1 has 3 samples, but column 0 has 10");
    assert_null(fac_loader_new(FAC_TENSORS(scalar)));
    assert_error(FAC_ERR_SHAPE, "no dimension");
    assert_null(fac_loader_new(FAC_TENSORS(strided)));
    assert_error(FAC_ERR_UNSUPPORTED, "not contiguous");
    assert_null(fac_loader_new(FAC_TENSORS()));
    assert_error(FAC_ERR_ARGUMENT, "at least one column");
    assert_null(fac_loader_new(FAC_TENSORS(three), .batch_size = -1));
    assert_error(FAC_ERR_ARGUMENT, "batch_size should be positive, but is -1");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        FAC_TEST(utf8_writes_and_reads_every_character),
        FAC_TEST(utf8_refuses_what_is_not_text),
        FAC_TEST(vocab_of_bytes_takes_any_text),
        FAC_TEST(vocab_of_characters_is_sorted_and_comes_back_from_its_text),
        FAC_TEST(corpus_joins_a_folder_in_order_of_name),
        FAC_TEST(corpus_batches_stay_in_their_span_and_follow_the_seed),
        FAC_TEST(corpus_reports_what_it_cannot_read),
        FAC_TEST(corpus_leaves_out_folders_of_results),
        FAC_TEST(data_objects_that_are_null_are_errors),
        FAC_TEST(corpus_survives_failing_allocations),
        FAC_TEST(idx_reads_big_endian_plain_and_gzip),
        FAC_TEST(idx_refuses_bad_headers_and_lengths),
        FAC_TEST(idx_refuses_files_cut_anywhere),
        FAC_TEST(idx_finds_flipped_bits_in_gzip_data),
        FAC_TEST(split_mix_gives_the_published_numbers),
        FAC_TEST(sampler_visits_everything_once_in_an_order_of_its_own_per_epoch),
        FAC_TEST(S168_loader_keeps_columns_together),
        FAC_TEST(loader_goes_in_order_and_drops_a_short_batch_when_told),
        FAC_TEST(loader_refuses_columns_that_do_not_fit),
    };
    return support_run(tests, FAC_COUNT(tests), NULL);
}
