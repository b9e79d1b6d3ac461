/* Byte pair encoding with pairs that are known: cutting text into pieces, pieces into tokens, and the pairs as text. */
#include "data/bpe.h"

/* ---- pairs ------------------------------------------------------------------------------------------------------------ */

static uint32_t hash(uint64_t key) {
    const uint64_t h = (key ^ fac__hash_seed()) * 0x9e3779b97f4a7c15u;
    return (uint32_t)((h ^ h >> 32) * 0x9e3779b97f4a7c15u >> 32);
}

static bool same(const void *keys, uint32_t number, const void *wanted) {
    return ((const uint64_t *)keys)[number] == *(const uint64_t *)wanted;
}

int64_t fac__bpe_find(const bpe_pairs *p, uint64_t key) {
    return fac__numbers_find(&p->numbers, hash(key), same, p->keys, &key);
}

fac_status fac__bpe_add(bpe_pairs *p, uint64_t key) {
    FAC_CHECK(p->n < UINT32_MAX / 2, FAC_ERR_OVERFLOW, "a text with more than %zu pairs of tokens", p->n);
    FAC_TRY(fac__vec_grow((void **)&p->keys, p->n, &p->cap, sizeof *p->keys));
    FAC_TRY(fac__numbers_add(&p->numbers, hash(key)));
    p->keys[p->n++] = key;
    return FAC_OK;
}

void fac__bpe_free_pairs(bpe_pairs *p) {
    fac__free(p->keys);
    fac__numbers_free(&p->numbers);
}

/* ---- tokens ------------------------------------------------------------------------------------------------------------- */

fac_status fac__bpe_begin(bpe *b) {
    b->lengths = fac__alloc(BPE_BYTES);
    if (!b->lengths) return fac_error();
    memset(b->lengths, 1, BPE_BYTES);
    b->cap = BPE_BYTES;
    return FAC_OK;
}

fac_status fac__bpe_merge(bpe *b, uint32_t left, uint32_t right) {
    const size_t size = (size_t)fac__bpe_size(b);
    FAC_CHECK(size < BPE_MAX_SIZE, FAC_ERR_ARGUMENT, "a vocabulary has at most %d tokens", BPE_MAX_SIZE);
    FAC_CHECK(left < size && right < size, FAC_ERR_FORMAT, "token %zu cannot be made of the tokens %u and %u", size,
              left, right);
    const int length = b->lengths[left] + b->lengths[right];
    FAC_CHECK(length <= BPE_MAX_PIECE, FAC_ERR_FORMAT, "token %zu has %d bytes; %d are the most", size, length,
              BPE_MAX_PIECE);
    const uint64_t key = fac__bpe_pair(left, right);
    FAC_CHECK(fac__bpe_find(&b->pairs, key) < 0, FAC_ERR_FORMAT, "token %zu, made of %u and %u, exists already", size,
              left, right);
    FAC_TRY(fac__vec_grow((void **)&b->lengths, size, &b->cap, sizeof *b->lengths));
    FAC_TRY(fac__bpe_add(&b->pairs, key));
    b->lengths[size] = (uint8_t)length;
    return FAC_OK;
}

void fac__bpe_free(bpe *b) {
    fac__bpe_free_pairs(&b->pairs);
    fac__free(b->lengths);
}

/* ---- pieces ------------------------------------------------------------------------------------------------------------- */

/* What a byte counts as; the bytes of characters beyond ASCII are letters. */
typedef enum byte_kind { LETTER, DIGIT, SIGN, SPACE } byte_kind;

static byte_kind kind_of(unsigned char c) {
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c >= 0x80) return LETTER;
    if (c >= '0' && c <= '9') return DIGIT;
    return c == ' ' || (c >= '\t' && c <= '\r') ? SPACE : SIGN;
}

static const unsigned char *run_end(const unsigned char *p, const unsigned char *end, byte_kind kind) {
    while (p < end && kind_of(*p) == kind) p++;
    return p;
}

/* A word, or signs and the ends of line behind them, may have one space before it. White space leaves its last one to them. */
size_t fac__bpe_piece(const unsigned char *p, const unsigned char *end) {
    enum { MAX_DIGITS = 3 };
    if (end - p > BPE_MAX_PIECE) end = p + BPE_MAX_PIECE;
    const unsigned char *at = p;
    if (*at == ' ' && at + 1 < end && (kind_of(at[1]) == LETTER || kind_of(at[1]) == SIGN)) at++;
    const byte_kind kind = kind_of(*at);
    if (kind == DIGIT && end - at > MAX_DIGITS) end = at + MAX_DIGITS;
    at = run_end(at, end, kind);
    if (kind == SIGN)
        while (at < end && *at == '\n') at++;
    if (kind == SPACE && at < end && at - p > 1 && at[-1] == ' ' && kind_of(*at) != DIGIT) at--;
    return (size_t)(at - p);
}

/* ---- encoding ------------------------------------------------------------------------------------------------------------- */

/* Puts pairs together, the one that was learned first before all others, until there is none; returns how many tokens are left. */
static size_t merge_piece(const bpe *b, uint32_t *tokens, size_t n) {
    for (;;) {
        int64_t best = INT64_MAX;
        size_t where = 0;
        for (size_t i = 0; i + 1 < n; i++) {
            const int64_t pair = fac__bpe_find(&b->pairs, fac__bpe_pair(tokens[i], tokens[i + 1]));
            if (pair < 0 || pair >= best) continue;
            best = pair;
            where = i;
        }
        if (best == INT64_MAX) return n;
        tokens[where] = BPE_BYTES + (uint32_t)best;
        n--;
        memmove(tokens + where + 1, tokens + where + 2, (n - where - 1) * sizeof *tokens);
    }
}

size_t fac__bpe_encode(const bpe *b, const char *text, size_t n, uint32_t *out) {
    const unsigned char *p = (const unsigned char *)text, *end = p + n;
    size_t count = 0;
    while (p < end) {
        const size_t length = fac__bpe_piece(p, end);
        for (size_t i = 0; i < length; i++) out[count + i] = p[i];
        count += merge_piece(b, out + count, length);
        p += length;
    }
    return count;
}

/* The right half goes to the end of what is free, the left half is gone on with: no token is deeper than its length. */
size_t fac__bpe_decode(const bpe *b, uint32_t token, char *out) {
    uint32_t waiting[BPE_MAX_PIECE];
    size_t n_waiting = 0, n = 0;
    for (waiting[n_waiting++] = token; n_waiting;) {
        token = waiting[--n_waiting];
        if (token < BPE_BYTES) {
            out[n++] = (char)token;
            continue;
        }
        const uint64_t pair = b->pairs.keys[token - BPE_BYTES];
        waiting[n_waiting++] = (uint32_t)pair;
        waiting[n_waiting++] = (uint32_t)(pair >> 32);
    }
    return n;
}

/* ---- as text -------------------------------------------------------------------------------------------------------------- */

fac_status fac__bpe_write(const bpe *b, fac_buf *out) {
    for (size_t i = 0; i < b->pairs.n; i++)
        FAC_TRY(fac__buf_printf(out, "%u %u\n", (uint32_t)(b->pairs.keys[i] >> 32), (uint32_t)b->pairs.keys[i]));
    return FAC_OK;
}

/* A number below BPE_MAX_SIZE and the character behind it; false if something else stands there. */
static bool read_number(const char **p, const char *end, char behind, uint32_t *out) {
    const char *begin = *p;
    for (*out = 0; *p < end && **p >= '0' && **p <= '9' && *out < BPE_MAX_SIZE; (*p)++)
        *out = 10 * *out + (uint32_t)(**p - '0');
    return *p > begin && *out < BPE_MAX_SIZE && *p < end && *(*p)++ == behind;
}

fac_status fac__bpe_read(bpe *b, const char *text, size_t n) {
    const char *p = text, *end = text + n;
    while (p < end) {
        uint32_t left, right;
        FAC_CHECK(read_number(&p, end, ' ', &left) && read_number(&p, end, '\n', &right), FAC_ERR_FORMAT,
                  "line %zu of the vocabulary is not two tokens", b->pairs.n + 1);
        FAC_TRY(fac__bpe_merge(b, left, right));
    }
    return FAC_OK;
}
