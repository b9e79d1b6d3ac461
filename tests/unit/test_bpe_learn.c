/* Learning byte pairs by lists and a queue, against a learner that looks everything up from one end to the other. */
#include "support/support.h"

#include "data/bpe.h"
#include "data/bpe_queue.h"

enum { MAX_WORDS = 1500, MAX_PAIRS = 20000, MAX_PLACES = 400000 };

static struct {
    const unsigned char *text;
    uint32_t tokens[FAC_VOCAB_TOKEN_BYTES];
    size_t bytes, n;
    int64_t count;
} words[MAX_WORDS];
static struct {
    uint64_t key;
    int64_t count;
} pairs[MAX_PAIRS];
static struct { size_t pair, word; } places[MAX_PLACES];
static size_t n_words, n_pairs, n_places;

static size_t pair_number(uint64_t key) {
    size_t i = 0;
    while (i < n_pairs && pairs[i].key != key) i++;
    if (i == n_pairs) {
        assert_true(n_pairs < MAX_PAIRS);
        pairs[n_pairs].key = key;
        pairs[n_pairs++].count = 0;
    }
    return i;
}

/* Appends a place unless the pair's last one is of the same word. */
static void note(size_t pair, size_t word) {
    size_t last = n_places;
    while (last > 0 && places[last - 1].pair != pair) last--;
    if (last > 0 && places[last - 1].word == word) return;
    assert_true(n_places < MAX_PLACES);
    places[n_places].pair = pair;
    places[n_places++].word = word;
}

static void count_word(size_t w, int64_t sign, int64_t token) {
    for (size_t i = 0; i + 1 < words[w].n; i++) {
        const uint32_t *t = words[w].tokens + i;
        const size_t pair = pair_number(fac__bpe_pair(t[0], t[1]));
        pairs[pair].count += sign * words[w].count;
        if (sign > 0 && (token < 0 || t[0] == token || t[1] == token)) note(pair, w);
    }
}

static bool put_token(size_t w, uint64_t key, uint32_t token, bool really) {
    size_t n = 0, found = 0;
    for (size_t i = 0; i < words[w].n; i++) {
        const uint32_t *t = words[w].tokens + i;
        const bool here = i + 1 < words[w].n && fac__bpe_pair(t[0], t[1]) == key;
        found += here;
        if (really) words[w].tokens[n++] = here ? token : *t;
        i += here;
    }
    if (really) words[w].n = n;
    return found > 0;
}

static void cut(const char *text) {
    const unsigned char *p = (const unsigned char *)text, *end = p + strlen(text);
    n_words = n_pairs = n_places = 0;
    while (p < end) {
        const size_t length = fac__bpe_piece(p, end);
        size_t w = 0;
        while (w < n_words && (words[w].bytes != length || memcmp(words[w].text, p, length) != 0)) w++;
        assert_true(w < MAX_WORDS);
        if (w == n_words) {
            words[n_words].text = p;
            words[n_words].bytes = words[n_words].n = length;
            for (size_t i = 0; i < length; i++) words[n_words].tokens[i] = p[i];
            words[n_words++].count = 0;
        }
        words[w].count++;
        p += length;
    }
}

static int64_t next_pair(const bpe *b) {
    int64_t best = -1;
    for (size_t i = 0; i < n_pairs; i++) {
        const int length = b->lengths[pairs[i].key >> 32] + b->lengths[(uint32_t)pairs[i].key];
        if (pairs[i].count > (best < 0 ? 1 : pairs[best].count) && length <= BPE_MAX_PIECE) best = (int64_t)i;
    }
    return best;
}

static void learn_simply(bpe *b, const char *text, int64_t size) {
    cut(text);
    for (size_t w = 0; w < n_words; w++) count_word(w, 1, -1);
    while (fac__bpe_size(b) < size) {
        const int64_t best = next_pair(b);
        if (best < 0) break;
        const uint32_t token = (uint32_t)fac__bpe_size(b);
        const uint64_t key = pairs[best].key;
        assert_ok(fac__bpe_merge(b, (uint32_t)(key >> 32), (uint32_t)key));
        for (size_t at = n_places; at-- > 0;) {
            const size_t w = places[at].word;
            if (places[at].pair != (size_t)best || !put_token(w, key, token, false)) continue;
            count_word(w, -1, -1);
            put_token(w, key, token, true);
            count_word(w, 1, token);
        }
    }
}

static uint32_t draw(uint32_t *state, uint32_t below) {
    *state = *state * 1664525u + 1013904223u;
    return (*state >> 16) % below;
}

/* Words of a few letters, many of them equally common; runs of one letter among them, whose pairs overlap. */
static void make_text(char *text, size_t n, uint32_t letters, uint32_t seed) {
    for (size_t i = 0; i + 1 < n; i++) {
        const uint32_t what = draw(&seed, 6);
        text[i] = what == 0 ? ' ' : what == 1 && i > 0 ? text[i - 1] : (char)('a' + draw(&seed, letters));
    }
    text[n - 1] = 0;
}

static void need_the_same(const char *text, int64_t size) {
    bpe quick = {0}, simple = {0};
    assert_ok(fac__bpe_begin(&quick));
    assert_ok(fac__bpe_begin(&simple));
    assert_ok(fac__bpe_learn(&quick, text, strlen(text), size));
    learn_simply(&simple, text, size);
    assert_int_equal(quick.pairs.n, simple.pairs.n);
    assert_true(quick.pairs.n > 0);
    assert_memory_equal(quick.pairs.keys, simple.pairs.keys, simple.pairs.n * sizeof *simple.pairs.keys);
    fac__bpe_free(&quick);
    fac__bpe_free(&simple);
}

static void bpe_learns_what_a_simple_learner_does(void **state) {
    (void)state;
    char text[2400];
    for (uint32_t seed = 1; seed <= 12; seed++) {
        make_text(text, sizeof text, 2 + seed % 5, seed);
        need_the_same(text, 256 + 60 * (int64_t)seed);
    }
    for (size_t i = 0; i + 1 < sizeof text; i++) text[i] = "aaab"[i % 37 % 4];
    need_the_same(text, 65536); /* until no pair is left that comes twice, or that is short enough */
}

static void queue_gives_the_commonest_first_also_after_its_count_fell(void **state) {
    (void)state;
    enum { N = 300 };
    bpe_queue q = {0};
    int64_t count[N];
    uint32_t seed = 5;
    for (uint32_t i = 0; i < N; i++) {
        count[i] = 1 + draw(&seed, 40);
        assert_ok(fac__bpe_queue_put(&q, (bpe_turn){count[i], i}));
    }
    for (int turn = 0; q.n; turn++) {
        uint32_t best = 0;
        for (uint32_t i = 1; i < N; i++)
            if (count[i] > count[best]) best = i;
        assert_int_equal(q.v[0].pair, best);
        assert_int_equal(q.v[0].count, count[best]);
        count[best] = turn % 3 ? 0 : count[best] / 2;
        fac__bpe_queue_lower(&q, count[best]);
    }
    for (uint32_t i = 0; i < N; i++) assert_int_equal(count[i], 0);
    fac__bpe_queue_free(&q);
}

typedef struct text_of {
    const char *const *v;
    int compared;
} text_of;

static bool same(const void *things, uint32_t number, const void *wanted) {
    text_of *t = (text_of *)(uintptr_t)things;
    t->compared++;
    return strcmp(t->v[number], wanted) == 0;
}

static void numbers_find_things_whose_hashes_are_equal(void **state) {
    (void)state;
    static const char *const names[] = {"one", "two", "three", "four", "five"};
    text_of t = {names, 0};
    fac_numbers x = {0};
    assert_int_equal(fac__numbers_find(&x, 7, same, &t, "one"), -1);
    for (int i = 0; i < 5; i++) assert_ok(fac__numbers_add(&x, i < 3 ? 7 : 7 + 64));
    for (int i = 0; i < 5; i++) assert_int_equal(fac__numbers_find(&x, i < 3 ? 7 : 7 + 64, same, &t, names[i]), i);
    t.compared = 0;
    assert_int_equal(fac__numbers_find(&x, 7, same, &t, "six"), -1);
    assert_int_equal(t.compared, 3); /* those of another hash are passed over */
    for (uint32_t i = 5; i < 1000; i++) assert_ok(fac__numbers_add(&x, 2654435761u * i));
    for (int i = 0; i < 5; i++) assert_int_equal(fac__numbers_find(&x, i < 3 ? 7 : 7 + 64, same, &t, names[i]), i);
    assert_int_equal(x.n, 1000);
    fac__numbers_free(&x);
}

FAC_TEST_MAIN(FAC_TEST(bpe_learns_what_a_simple_learner_does),
              FAC_TEST(queue_gives_the_commonest_first_also_after_its_count_fell),
              FAC_TEST(numbers_find_things_whose_hashes_are_equal))
