/* Learning pairs from a text: the commonest pair of neighbours becomes a token, again and again.

   The text is kept as its different pieces, each with how often it comes; a token that is made changes only the pieces that hold
   its pair, which a list per pair names. The commonest pair is first in a queue. A pair's count is complete once the later of its
   tokens stands everywhere, and only falls from then on: the pair is put into the queue once, and its count is looked at again when
   its turn comes. So a text of n bytes takes O(n log n). Where pairs are equally common, the one seen first is taken: the same text
   always gives the same tokens. */
#include "data/bpe.h"
#include "data/bpe_queue.h"

typedef struct word {
    size_t bytes, tokens; /* where it begins in the text, and in the learner's tokens */
    int64_t count;        /* how often it comes */
    uint8_t n_bytes, n;   /* of tokens: at first its bytes */
} word;

/* An entry of a list: a word that held the pair when it was noted. */
typedef struct place {
    uint32_t word, next; /* next: number + 1 of the next place, 0 at the end */
} place;

/* What is known of a pair: how often its tokens stand side by side, and where. */
typedef struct use {
    int64_t count;
    uint32_t first; /* as place.next */
} use;

typedef struct words {
    word *v;
    size_t n, cap;
} words;
typedef struct places {
    place *v;
    size_t n, cap;
} places;
typedef struct uses {
    use *v;
    size_t n, cap;
} uses;

typedef struct learner {
    const char *text;
    words words;
    fac_numbers numbers; /* of words by their bytes */
    uint32_t *tokens;    /* of all words */
    bpe_pairs pairs;
    uses uses; /* one for each of pairs */
    places places;
    bpe_queue queue; /* of pairs; the counts of those that are in it only fall */
} learner;

/* ---- words ---------------------------------------------------------------------------------------------------------------- */

typedef struct piece {
    const char *text;
    size_t n;
} piece;

static uint32_t hash(const piece *p) {
    uint64_t h = fac__hash_seed(); /* then as FNV-1a */
    for (size_t i = 0; i < p->n; i++) h = (h ^ (unsigned char)p->text[i]) * 0x100000001b3u;
    return (uint32_t)(h ^ h >> 32);
}

static bool same(const void *of, uint32_t number, const void *wanted) {
    const learner *l = of;
    const piece *p = wanted;
    const word *w = &l->words.v[number];
    return w->n_bytes == p->n && memcmp(l->text + w->bytes, p->text, p->n) == 0;
}

static fac_status count_piece(learner *l, const piece *p) {
    const uint32_t h = hash(p);
    int64_t i = fac__numbers_find(&l->numbers, h, same, l, p);
    if (i < 0) {
        FAC_CHECK(l->words.n < UINT32_MAX / 2, FAC_ERR_OVERFLOW, "a text of more than %zu different pieces",
                  l->words.n);
        FAC_TRY(FAC_VEC_GROW(&l->words));
        FAC_TRY(fac__numbers_add(&l->numbers, h));
        i = (int64_t)l->words.n++;
        l->words.v[i] = (word){.bytes = (size_t)(p->text - l->text), .n_bytes = (uint8_t)p->n, .n = (uint8_t)p->n};
    }
    l->words.v[i].count++;
    return FAC_OK;
}

static fac_status count_pieces(learner *l, size_t n) {
    const char *end = l->text + n;
    for (const char *p = l->text; p < end;) {
        const size_t length = fac__bpe_piece((const unsigned char *)p, (const unsigned char *)end);
        FAC_TRY(count_piece(l, &(piece){p, length}));
        p += length;
    }
    return FAC_OK;
}

static fac_status cut_into_bytes(learner *l) {
    size_t total = 0;
    for (size_t i = 0; i < l->words.n; i++) total += l->words.v[i].n_bytes;
    l->tokens = fac__alloc_array(total, sizeof *l->tokens);
    if (!l->tokens) return fac_error();
    total = 0;
    for (size_t i = 0; i < l->words.n; i++) {
        word *w = &l->words.v[i];
        w->tokens = total;
        for (size_t k = 0; k < w->n_bytes; k++) l->tokens[total++] = (unsigned char)l->text[w->bytes + k];
    }
    return FAC_OK;
}

/* ---- pairs ---------------------------------------------------------------------------------------------------------------- */

/* The use of a pair, which is made if it is new; NULL when memory is out. */
static use *use_of(learner *l, uint64_t key) {
    int64_t i = fac__bpe_find(&l->pairs, key);
    if (i < 0) {
        if (FAC_VEC_GROW(&l->uses) || fac__bpe_add(&l->pairs, key)) return NULL;
        i = (int64_t)l->uses.n++;
        l->uses.v[i] = (use){0};
    }
    return &l->uses.v[i];
}

/* Notes that a word holds a pair, unless it was the last to be noted. */
static fac_status note_place(learner *l, use *u, uint32_t w) {
    if (u->first && l->places.v[u->first - 1].word == w) return FAC_OK;
    FAC_CHECK(l->places.n < UINT32_MAX - 1, FAC_ERR_OVERFLOW, "a text with too many pairs of tokens");
    FAC_TRY(FAC_VEC_GROW(&l->places));
    l->places.v[l->places.n++] = (place){w, u->first};
    u->first = (uint32_t)l->places.n;
    return FAC_OK;
}

/* Counts a word's pairs; those that hold `token` (all, if it is negative) may be new to it, and are noted. */
static fac_status count_pairs(learner *l, uint32_t number, int64_t token) {
    const word *w = &l->words.v[number];
    const uint32_t *t = l->tokens + w->tokens;
    for (size_t i = 0; i + 1 < w->n; i++) {
        use *u = use_of(l, fac__bpe_pair(t[i], t[i + 1]));
        if (!u) return fac_error();
        u->count += w->count;
        if (token < 0 || t[i] == token || t[i + 1] == token) FAC_TRY(note_place(l, u, number));
    }
    return FAC_OK;
}

static void uncount_pairs(learner *l, const word *w) {
    const uint32_t *t = l->tokens + w->tokens;
    for (size_t i = 0; i + 1 < w->n; i++)
        l->uses.v[fac__bpe_find(&l->pairs, fac__bpe_pair(t[i], t[i + 1]))].count -= w->count;
}

static bool holds(const learner *l, const word *w, uint64_t pair) {
    const uint32_t *t = l->tokens + w->tokens;
    for (size_t i = 0; i + 1 < w->n; i++)
        if (fac__bpe_pair(t[i], t[i + 1]) == pair) return true;
    return false;
}

static void replace(learner *l, word *w, uint64_t pair, uint32_t token) {
    uint32_t *t = l->tokens + w->tokens;
    uint8_t n = 0;
    for (size_t i = 0; i < w->n; i++) {
        const bool here = i + 1 < w->n && fac__bpe_pair(t[i], t[i + 1]) == pair;
        t[n++] = here ? token : t[i];
        i += here;
    }
    w->n = n;
}

/* Puts the new token in place of its pair, wherever that stands. A list may name a word twice, or one that holds it no more. */
static fac_status replace_all(learner *l, size_t number, uint32_t token) {
    const uint64_t pair = l->pairs.keys[number];
    for (uint32_t at = l->uses.v[number].first; at;) {
        const place here = l->places.v[at - 1];
        word *w = &l->words.v[here.word];
        at = here.next;
        if (!holds(l, w, pair)) continue;
        uncount_pairs(l, w);
        replace(l, w, pair, token);
        FAC_TRY(count_pairs(l, here.word, token));
    }
    return FAC_OK;
}

/* Puts pairs from this number on, which are new, into the queue. */
static fac_status wait_for_turn(learner *l, size_t first) {
    for (size_t i = first; i < l->uses.n; i++)
        if (l->uses.v[i].count > 1) FAC_TRY(fac__bpe_queue_put(&l->queue, (bpe_turn){l->uses.v[i].count, (uint32_t)i}));
    return FAC_OK;
}

/* Takes the commonest pair that comes twice and gives no token that is too long; -1 if there is none. */
static int64_t commonest(learner *l, const bpe *b) {
    while (l->queue.n) {
        const bpe_turn first = l->queue.v[0];
        const int64_t count = l->uses.v[first.pair].count;
        const uint64_t pair = l->pairs.keys[first.pair];
        const bool fits = b->lengths[pair >> 32] + b->lengths[(uint32_t)pair] <= BPE_MAX_PIECE;
        if (fits && count == first.count) {
            fac__bpe_queue_lower(&l->queue, 0);
            return first.pair;
        }
        fac__bpe_queue_lower(&l->queue, fits && count > 1 ? count : 0);
    }
    return -1;
}

/* ---- learning --------------------------------------------------------------------------------------------------------------- */

static fac_status prepare(learner *l, size_t n) {
    FAC_TRY(count_pieces(l, n));
    FAC_TRY(cut_into_bytes(l));
    for (size_t i = 0; i < l->words.n; i++) FAC_TRY(count_pairs(l, (uint32_t)i, -1));
    return wait_for_turn(l, 0);
}

static fac_status learn(learner *l, bpe *b, size_t n, int64_t size) {
    FAC_TRY(prepare(l, n));
    while (fac__bpe_size(b) < size) {
        const int64_t pair = commonest(l, b);
        if (pair < 0) break;
        const uint64_t key = l->pairs.keys[pair];
        const size_t known = l->uses.n;
        const uint32_t token = (uint32_t)fac__bpe_size(b);
        FAC_TRY(fac__bpe_merge(b, (uint32_t)(key >> 32), (uint32_t)key));
        FAC_TRY(replace_all(l, (size_t)pair, token));
        FAC_TRY(wait_for_turn(l, known));
    }
    return FAC_OK;
}

fac_status fac__bpe_learn(bpe *b, const char *text, size_t n, int64_t size) {
    learner l = {.text = text};
    const fac_status st = learn(&l, b, n, size);
    fac__bpe_free_pairs(&l.pairs);
    fac__free(l.words.v);
    fac__numbers_free(&l.numbers);
    fac__free(l.tokens);
    fac__free(l.uses.v);
    fac__free(l.places.v);
    fac__bpe_queue_free(&l.queue);
    return st;
}
