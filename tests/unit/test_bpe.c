/* Byte pair encoding: learning, encoding, and its text. */
#include "support/support.h"

#include "data/bpe.h"
#include <facula/data.h>
#include <stdlib.h>

static const char SAMPLE[] = "static int add(int left, int right) {\n    return left + right;\n}\n\n"
                             "static int subtract(int left, int right) {\n    return left - right;\n}\n"
                             "/* 1234567 numbers, caf\xc3\xa9s and int int int */\n\tint x = 10, y = 200;  \n";

static fac_vocab *learn(const char *text, int64_t size) {
    fac_vocab *v = fac_vocab_bpe(text, strlen(text), size);
    assert_non_null(v);
    return v;
}

/* Encodes and decodes again; returns how many tokens that took. */
static int64_t round_trip(const fac_vocab *v, const char *text, size_t n) {
    FAC_SCOPE(s);
    fac_tensor *t = fac_vocab_encode(v, text, n);
    assert_non_null(t);
    const int64_t count = fac_tensor_numel(t), *tokens = fac_tensor_data(t);
    size_t at = 0, length;
    for (int64_t i = 0; i < count; i++) {
        char piece[FAC_VOCAB_TOKEN_BYTES];
        assert_int_equal(fac_vocab_decode(v, tokens[i], piece, &length), FAC_OK);
        assert_true(length > 0 && at + length <= n);
        assert_memory_equal(piece, text + at, length);
        at += length;
    }
    assert_int_equal(at, n);
    return count;
}

static void bpe_learns_the_commonest_pair_first(void **state) {
    (void)state;
    fac_vocab *v = learn("ab ab ab ac", 300);
    /* Pieces "ab", " ab" twice and " ac": 'a' 'b' comes three times, then ' ' "ab" twice; no other pair comes twice. */
    assert_string_equal(fac_vocab_text(v), "97 98\n32 256\n");
    assert_int_equal(fac_vocab_size(v), 258);
    FAC_SCOPE(s);
    fac_tensor *t = fac_vocab_encode(v, " ab abb", 7);
    assert_int_equal(fac_tensor_numel(t), 3);
    assert_memory_equal(fac_tensor_data(t), ((const int64_t[]){257, 257, 'b'}), 24);
    fac_vocab_release(v);
}

enum { COUNTED = 280 };
static int64_t counts[COUNTED][COUNTED];

/* How often each two tokens stand side by side in the pieces of a text. */
static void count_all(const bpe *b, const char *text) {
    uint32_t tokens[FAC_VOCAB_TOKEN_BYTES];
    const unsigned char *p = (const unsigned char *)text, *end = p + strlen(text);
    memset(counts, 0, sizeof counts);
    while (p < end) {
        const size_t length = fac__bpe_piece(p, end), n = fac__bpe_encode(b, (const char *)p, length, tokens);
        for (size_t i = 0; i + 1 < n; i++) counts[tokens[i]][tokens[i + 1]]++;
        p += length;
    }
}

static int64_t largest_count(void) {
    int64_t most = 0;
    for (int a = 0; a < COUNTED; a++)
        for (int b = 0; b < COUNTED; b++) most = counts[a][b] > most ? counts[a][b] : most;
    return most;
}

static void bpe_learns_what_counting_all_over_again_finds(void **state) {
    (void)state;
    bpe all = {0}, known = {0};
    assert_ok(fac__bpe_begin(&all));
    assert_ok(fac__bpe_begin(&known));
    assert_ok(fac__bpe_learn(&all, SAMPLE, strlen(SAMPLE), COUNTED));
    assert_int_equal(all.pairs.n, COUNTED - 256);
    for (size_t i = 0; i < all.pairs.n; i++) {
        const uint32_t left = (uint32_t)(all.pairs.keys[i] >> 32), right = (uint32_t)all.pairs.keys[i];
        count_all(&known, SAMPLE);
        assert_true(counts[left][right] >= 2);
        assert_int_equal(counts[left][right], largest_count());
        assert_ok(fac__bpe_merge(&known, left, right));
    }
    fac__bpe_free(&all);
    fac__bpe_free(&known);
}

static void bpe_encodes_any_bytes(void **state) {
    (void)state;
    fac_vocab *v = learn(SAMPLE, 280);
    assert_true(round_trip(v, SAMPLE, strlen(SAMPLE)) < (int64_t)strlen(SAMPLE));
    assert_int_equal(round_trip(v, "", 0), 0);
    uint64_t random = 1;
    for (int i = 0; i < 2000; i++) {
        char text[100];
        const size_t n = (size_t)i % sizeof text;
        for (size_t k = 0; k < n; k++) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            /* Any byte, or one that the vocabulary knows pairs of. */
            text[k] = random >> 63 ? (char)(random >> 50) : SAMPLE[(random >> 40) % strlen(SAMPLE)];
        }
        round_trip(v, text, n);
    }
    fac_vocab_release(v);
}

static void bpe_tokens_are_the_same_every_time_and_come_back_from_their_text(void **state) {
    (void)state;
    fac_vocab *v = learn(SAMPLE, 280), *again = learn(SAMPLE, 280);
    const char *text = fac_vocab_text(v);
    assert_string_equal(text, fac_vocab_text(again));
    fac_vocab *read = fac_vocab_bpe_of(text, strlen(text));
    assert_non_null(read);
    assert_string_equal(fac_vocab_text(read), text);
    assert_int_equal(fac_vocab_size(read), 280);
    assert_int_equal(round_trip(read, SAMPLE, strlen(SAMPLE)), round_trip(v, SAMPLE, strlen(SAMPLE)));
    fac_vocab_release(v);
    fac_vocab_release(again);
    fac_vocab_release(read);
    fac_vocab *none = learn("", 300);
    assert_int_equal(fac_vocab_size(none), 256);
    assert_string_equal(fac_vocab_text(none), "");
    assert_int_equal(round_trip(none, "abc", 3), 3);
    fac_vocab_release(none);
}

static void bpe_pieces_are_words_numbers_signs_and_space(void **state) {
    (void)state;
    static const char *const pieces[] = {"if", " (",   "fac_tensor", " *",      "x",    " >",          " ",  "123",
                                         "45", ");\n", "   ",        " return", " \"",  "caf\xc3\xa9", "\"", "\t",
                                         "//", " see", "  ",         "12",      "\n\n", "end"};
    char text[200] = "";
    for (size_t i = 0; i < FAC_COUNT(pieces); i++) strcat(text, pieces[i]);
    const unsigned char *p = (const unsigned char *)text, *end = p + strlen(text);
    for (size_t i = 0; i < FAC_COUNT(pieces); i++) {
        const size_t n = fac__bpe_piece(p, end);
        assert_int_equal(n, strlen(pieces[i]));
        assert_memory_equal(p, pieces[i], n);
        p += n;
    }
    assert_ptr_equal(p, end);
    char same[100];
    memset(same, '-', sizeof same);
    assert_int_equal(fac__bpe_piece((unsigned char *)same, (unsigned char *)same + sizeof same), FAC_VOCAB_TOKEN_BYTES);
}

/* A token as long as can be, and no longer. */
static void bpe_tokens_have_at_most_32_bytes(void **state) {
    (void)state;
    char same[1000];
    memset(same, 'a', sizeof same);
    fac_vocab *v = fac_vocab_bpe(same, sizeof same, 1000);
    assert_non_null(v);
    assert_int_equal(fac_vocab_size(v), 261);               /* 2, 4, 8, 16 and 32 times 'a' */
    assert_int_equal(round_trip(v, same, sizeof same), 32); /* 31 pieces of 32 and one of 8 */
    fac_vocab_release(v);
}

static void bpe_refuses_a_damaged_list_of_pairs(void **state) {
    (void)state;
    static const struct {
        const char *text, *says;
    } bad[] = {
        {"97", "line 1"},
        {"97 98", "line 1"},
        {"97 98 \n", "line 1"},
        {"97 98\n\n", "line 2"},
        {"97 98\nx y\n", "line 2"},
        {" 97 98\n", "line 1"},
        {"97 -1\n", "line 1"},
        {"99999999999999999999 97\n", "line 1"},
        {"97 98\n97 98\n", "token 257, made of 97 and 98, exists already"},
        {"97 256\n", "token 256 cannot be made of the tokens 97 and 256"},
        {"97 97\n256 256\n257 257\n258 258\n259 259\n260 97\n", "token 261 has 33 bytes"},
    };
    for (size_t i = 0; i < FAC_COUNT(bad); i++) {
        assert_null(fac_vocab_bpe_of(bad[i].text, strlen(bad[i].text)));
        assert_error(FAC_ERR_FORMAT, bad[i].says);
    }
    assert_null(fac_vocab_bpe("abc", 3, 255));
    assert_error(FAC_ERR_ARGUMENT, "from 256 to 65536 tokens, not 255");
    assert_null(fac_vocab_bpe(NULL, 3, 300));
    assert_error(FAC_ERR_ARGUMENT, "the text is NULL");
    assert_null(fac_vocab_bpe_of(NULL, 3));
    assert_error(FAC_ERR_ARGUMENT, "the list of pairs is NULL");
}

static fac_status learn_and_read(void *context) {
    (void)context;
    fac_vocab *v = fac_vocab_bpe(SAMPLE, strlen(SAMPLE), 300);
    fac_vocab *again = v ? fac_vocab_bpe_of(fac_vocab_text(v), strlen(fac_vocab_text(v))) : NULL;
    fac_vocab_release(v);
    fac_vocab_release(again);
    return fac_error();
}

static void bpe_survives_failing_allocations(void **state) {
    (void)state;
    support_fail_each_allocation(learn_and_read, NULL);
}

FAC_TEST_MAIN(FAC_TEST(bpe_learns_the_commonest_pair_first), FAC_TEST(bpe_learns_what_counting_all_over_again_finds),
              FAC_TEST(bpe_encodes_any_bytes),
              FAC_TEST(bpe_tokens_are_the_same_every_time_and_come_back_from_their_text),
              FAC_TEST(bpe_pieces_are_words_numbers_signs_and_space), FAC_TEST(bpe_tokens_have_at_most_32_bytes),
              FAC_TEST(bpe_refuses_a_damaged_list_of_pairs), FAC_TEST(bpe_survives_failing_allocations))
