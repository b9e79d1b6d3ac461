/* Holding out a part of a corpus, and going over it token by token. */
#include "support/files.h"
#include "support/support.h"

#include <facula/data.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

enum { FILES = 40, FILE_BYTES = 50 };

/* A folder of 40 files of 50 bytes, "line 17 of its own ...\n". Its path. */
static const char *make_folder(const char *name) {
    const char *root = files_path(name);
    if (mkdir(root, 0777) != 0) return root;
    for (int i = 0; i < FILES; i++) {
        char path[64], text[FILE_BYTES + 1];
        snprintf(path, sizeof path, "%s/%d.txt", name, i);
        snprintf(text, sizeof text, "line %02d of its own, %029d\n", i, i);
        assert_int_equal(strlen(text), FILE_BYTES);
        files_write(files_path(path), text, FILE_BYTES);
    }
    return files_path(name);
}

static fac_corpus *split(const char *path, double part) {
    fac_corpus *c = fac_corpus_new(&path, 1, .hold_out = part);
    assert_no_error();
    assert_non_null(c);
    return c;
}

/* The text of a span of a corpus of bytes, by fac_corpus_next, but for token 0 of the corpus; to be freed. */
static char *read_span(const fac_corpus *c, fac_span span, int64_t batch, int64_t length, int64_t *out_n) {
    char *text = malloc((size_t)fac_corpus_bytes(c) + 1);
    assert_non_null(text);
    *out_n = 0;
    int64_t before = -1;
    for (;;) {
        FAC_SCOPE(s);
        fac_tensor *x, *y;
        if (!fac_corpus_next(c, &span, batch, length, &x, &y)) break;
        assert_int_equal(fac_tensor_size(y, 1), length);
        const int64_t *in = fac_tensor_data(x), *out = fac_tensor_data(y), n = fac_tensor_numel(y);
        for (int64_t i = 0; i < n && out[i] != FAC_IGNORED_TARGET; i++) {
            if (before >= 0) assert_int_equal(in[i], before); /* each input is the target before */
            text[(*out_n)++] = (char)out[i];
            before = out[i];
        }
    }
    assert_no_error();
    text[*out_n] = 0;
    return text;
}

static void split_holds_out_whole_files(void **state) {
    (void)state;
    fac_corpus *c = split(make_folder("forty"), 0.1);
    const fac_span train = fac_corpus_training(c), held = fac_corpus_held_out(c);
    assert_int_equal(fac_corpus_bytes(c), FILES * FILE_BYTES);
    assert_int_equal(train.begin, 0);
    assert_int_equal(train.end, held.begin);
    assert_int_equal(held.end, FILES * FILE_BYTES);
    assert_int_equal(held.end - held.begin, 4 * FILE_BYTES);
    int64_t n;
    char *text = read_span(c, held, 3, 7, &n);
    assert_int_equal(n, 4 * FILE_BYTES);
    int found = 0;
    for (int64_t i = 0; i < FILES; i++) {
        const fac_corpus_file f = fac_corpus_file_at(c, i);
        assert_true(f.bytes == FILE_BYTES && (f.held_out == 0 || f.held_out == FILE_BYTES));
        char line[20];
        snprintf(line, sizeof line, "line %02d ", atoi(strrchr(f.path, '/') + 1));
        assert_int_equal(strstr(text, line) != NULL, f.held_out > 0);
        found += f.held_out > 0;
    }
    assert_int_equal(found, 4);
    free(text);
    fac_corpus_release(c);
}

static void split_depends_on_names_below_the_folder_alone(void **state) {
    (void)state;
    make_folder("forty");
    make_folder("elsewhere");
    fac_corpus *one = split(files_path("forty"), 0.2), *two = split(files_path("elsewhere"), 0.2),
               *three = split(files_path("forty/"), 0.2);
    for (int64_t i = 0; i < FILES; i++) {
        const fac_corpus_file a = fac_corpus_file_at(one, i), b = fac_corpus_file_at(two, i),
                              c = fac_corpus_file_at(three, i);
        assert_string_equal(strrchr(a.path, '/'), strrchr(b.path, '/'));
        assert_int_equal(a.held_out, b.held_out);
        assert_int_equal(a.held_out, c.held_out);
    }
    fac_corpus_release(one);
    fac_corpus_release(two);
    fac_corpus_release(three);
}

static void split_of_a_single_file_is_its_tail_from_a_line_on(void **state) {
    (void)state;
    const char *path = files_path("single.txt");
    files_write(path, "one\ntwo\nthree\nfour\nfive\nsix\nseven\n", 34);
    fac_corpus *c = split(path, 0.5);
    int64_t n;
    char *text = read_span(c, fac_corpus_held_out(c), 2, 5, &n);
    assert_string_equal(text, "five\nsix\nseven\n");
    assert_int_equal(fac_corpus_file_at(c, 0).held_out, 15);
    free(text);
    fac_corpus_release(c);
    /* Without a second line it is cut between characters. */
    files_write(path, "\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9", 10);
    c = split(path, 0.3);
    assert_int_equal(fac_corpus_training(c).end, 8);
    fac_corpus_release(c);
    /* So it is where its last lines are much less than was asked for. */
    char late[100];
    memset(late, 'x', sizeof late);
    late[97] = '\n';
    files_write(path, late, sizeof late);
    c = split(path, 0.5);
    assert_int_equal(fac_corpus_file_at(c, 0).held_out, 50);
    fac_corpus_release(c);
    /* Two files, neither of which is a tenth. */
    files_write(path, "\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9", 10);
    make_folder("forty");
    const char *paths[] = {files_path("single.txt"), files_path("forty/7.txt")};
    c = fac_corpus_new(paths, 2, .hold_out = 0.1);
    assert_non_null(c);
    assert_int_equal(fac_corpus_file_at(c, 0).held_out, 0);
    assert_in_range(fac_corpus_file_at(c, 1).held_out, 1, 6);
    fac_corpus_release(c);
}

/* The newline between two files belongs to neither: it makes no room for both of them. */
static void split_leaves_a_file_to_train_on(void **state) {
    (void)state;
    const char *paths[] = {files_path("a"), files_path("b")};
    files_write(paths[0], "x", 1);
    files_write(paths[1], "y", 1);
    fac_corpus *c = fac_corpus_new(paths, 2, .hold_out = 0.7);
    assert_non_null(c);
    assert_int_equal(fac_corpus_file_at(c, 0).held_out + fac_corpus_file_at(c, 1).held_out, 1);
    assert_in_range(fac_corpus_training(c).end, 1, 2);
    fac_corpus_release(c);
}

static void split_nothing_is_held_out_unless_asked(void **state) {
    (void)state;
    fac_corpus *c = split(make_folder("forty"), 0);
    FAC_SCOPE(s);
    fac_span held = fac_corpus_held_out(c);
    fac_tensor *x, *y;
    assert_int_equal(fac_corpus_training(c).end, FILES * FILE_BYTES);
    assert_int_equal(held.begin, held.end);
    assert_false(fac_corpus_next(c, &held, 1, 1, &x, &y));
    assert_no_error();
    fac_corpus_release(c);
}

static void split_pairs_are_learned_from_the_training_text_alone(void **state) {
    (void)state;
    char text[400];
    for (size_t i = 0; i < sizeof text; i += 4) memcpy(text + i, i < 360 ? "ab \n" : "qz \n", 4);
    const char *path = files_path("pairs.txt");
    files_write(path, text, sizeof text);
    fac_corpus *c = fac_corpus_new(&path, 1, .hold_out = 0.1, .bpe = 300);
    assert_non_null(c);
    assert_non_null(strstr(fac_vocab_text(fac_corpus_vocab(c)), "97 98\n"));
    assert_null(strstr(fac_vocab_text(fac_corpus_vocab(c)), "113 122\n"));
    /* Bytes of spans are those of the text, whatever the tokens are. */
    assert_true(fac_corpus_tokens(c) < (int64_t)sizeof text);
    const int64_t train = fac_corpus_span_bytes(c, fac_corpus_training(c)),
                  held = fac_corpus_span_bytes(c, fac_corpus_held_out(c));
    assert_int_equal(train + held, sizeof text);
    assert_int_equal(held, fac_corpus_file_at(c, 0).held_out);
    assert_int_equal(fac_corpus_span_bytes(c, (fac_span){0, 0}), sizeof text);
    fac_corpus_release(c);
}

static void next_gives_every_token_once_whatever_the_windows_are(void **state) {
    (void)state;
    const char *path = files_path("next.txt");
    files_write(path, "abcdefghijklmnopqrstuvwxyz", 26);
    fac_corpus *c = fac_corpus_new(&path, 1);
    assert_non_null(c);
    for (int64_t batch = 1; batch < 5; batch++)
        for (int64_t length = 1; length < 30; length++) {
            int64_t n;
            char *all = read_span(c, (fac_span){0, 26}, batch, length, &n),
                 *part = read_span(c, (fac_span){5, 9}, batch, length, &n);
            assert_string_equal(all, "bcdefghijklmnopqrstuvwxyz");
            assert_string_equal(part, "fghi");
            free(all);
            free(part);
        }
    fac_corpus_release(c);
}

static void split_refuses_what_makes_no_sense(void **state) {
    (void)state;
    const char *path = make_folder("forty");
    fac_span span = {0, 3000}, good = {0, 3};
    fac_tensor *x, *y;
    assert_null(fac_corpus_new(&path, 1, .hold_out = 1));
    assert_error(FAC_ERR_ARGUMENT, "hold_out is a part of the text");
    assert_null(fac_corpus_new(&path, 1, .hold_out = -0.1));
    assert_error(FAC_ERR_ARGUMENT, "hold_out is a part of the text");
    assert_null(fac_corpus_new(&path, 1, .bpe = 100));
    assert_error(FAC_ERR_ARGUMENT, "from 256 to 65536 tokens, not 100");
    assert_null(fac_corpus_new(&path, 1, .bpe = 300, .characters = true));
    assert_error(FAC_ERR_ARGUMENT, "characters and bpe are given");
    fac_corpus *c = split(path, 0);
    assert_false(fac_corpus_next(c, &span, 1, 1, &x, &y));
    assert_error(FAC_ERR_SHAPE, "the span [0, 3000) is not inside the corpus of 2000 tokens");
    assert_false(fac_corpus_next(c, &good, 0, 1, &x, &y));
    assert_error(FAC_ERR_SHAPE, "batch 0 and length 1 must be at least 1");
    assert_int_equal(fac_corpus_span_bytes(c, span), 0);
    assert_error(FAC_ERR_SHAPE, "not inside the corpus");
    assert_null(fac_corpus_file_at(c, FILES).path);
    assert_error(FAC_ERR_INDEX, "there is no file 40; the corpus has 40");
    fac_corpus_release(c);
}

static fac_status read_split(void *context) {
    (void)context;
    FAC_SCOPE(s);
    const char *path = make_folder("forty");
    fac_corpus *c = fac_corpus_new(&path, 1, .hold_out = 0.1, .bpe = 300);
    fac_span span = c ? fac_corpus_held_out(c) : (fac_span){0};
    fac_tensor *x, *y;
    while (c && fac_corpus_next(c, &span, 2, 8, &x, &y)) continue;
    fac_corpus_release(c);
    return fac_error();
}

static void split_survives_failing_allocations(void **state) {
    (void)state;
    support_fail_each_allocation(read_split, NULL);
}

FAC_TEST_MAIN(FAC_TEST(split_holds_out_whole_files), FAC_TEST(split_depends_on_names_below_the_folder_alone),
              FAC_TEST(split_of_a_single_file_is_its_tail_from_a_line_on), FAC_TEST(split_leaves_a_file_to_train_on),
              FAC_TEST(split_nothing_is_held_out_unless_asked),
              FAC_TEST(split_pairs_are_learned_from_the_training_text_alone),
              FAC_TEST(next_gives_every_token_once_whatever_the_windows_are),
              FAC_TEST(split_refuses_what_makes_no_sense), FAC_TEST(split_survives_failing_allocations))
