/* Vocabularies. A character vocabulary is the sorted list of its code points; a token is a place in the list. One of byte pairs
   is in bpe.c. */
#include "data/vocab.h"
#include "base/utf8.h"
#include "core/handle.h"
#include "core/tensor_make.h"

enum { CODE_POINTS = 0x110000 };

static fac_vocab *new_vocab(vocab_kind kind) {
    fac_vocab *v = fac__alloc_zero(sizeof *v);
    if (!v) return NULL;
    atomic_init(&v->refs, 1);
    v->kind = kind;
    v->size = BPE_BYTES;
    return v;
}

fac_vocab *fac_vocab_bytes(void) { return new_vocab(VOCAB_BYTES); }

/* ---- characters --------------------------------------------------------------------------------------------------------- */

/* Marks the characters of a text in a bit set; returns how many different ones, -1 if the text is not UTF-8. */
static int64_t mark_characters(const char *text, size_t n, uint64_t *seen) {
    int64_t count = 0;
    for (const char *p = text, *end = text + n; p < end;) {
        uint32_t c;
        int length = fac__utf8_read(p, end, &c);
        if (length == 0) {
            FAC_FAIL(FAC_ERR_FORMAT, "the text is not UTF-8 at byte %lld", (long long)(p - text));
            return -1;
        }
        p += length;
        uint64_t bit = (uint64_t)1 << c % 64;
        count += !(seen[c / 64] & bit);
        seen[c / 64] |= bit;
    }
    return count;
}

static fac_status list_characters(fac_vocab *v, const uint64_t *seen) {
    v->points = fac__alloc_array((size_t)v->size, sizeof *v->points);
    v->text = fac__alloc_array((size_t)v->size + 1, 4);
    if (!v->points || !v->text) return fac_error();
    char *out = v->text;
    int64_t n = 0;
    for (uint32_t c = 0; c < CODE_POINTS; c++) {
        if (!(seen[c / 64] >> c % 64 & 1)) continue;
        v->points[n++] = c;
        out += fac__utf8_write(c, out);
    }
    *out = '\0';
    return FAC_OK;
}

fac_vocab *fac_vocab_characters(const char *text, size_t n) {
    if (n && !fac__given(text, "text")) return NULL;
    uint64_t *seen = fac__alloc_zero(CODE_POINTS / 8);
    fac_vocab *v = seen ? new_vocab(VOCAB_CHARACTERS) : NULL;
    if (v) {
        v->size = mark_characters(text, n, seen);
        if (v->size < 0 || list_characters(v, seen) != FAC_OK) {
            fac_vocab_release(v);
            v = NULL;
        }
    }
    fac__free(seen);
    return v;
}

/* ---- byte pairs --------------------------------------------------------------------------------------------------------- */

/* What is read or learned becomes the vocabulary, if that went well. */
static fac_vocab *finish(fac_vocab *v, fac_status st) {
    fac_buf text = {0};
    if (!st) st = fac__bpe_write(&v->bpe, &text);
    if (!st) {
        v->text = text.data;
        v->size = fac__bpe_size(&v->bpe);
        return v;
    }
    fac__buf_free(&text);
    fac_vocab_release(v);
    return NULL;
}

fac_vocab *fac_vocab_bpe(const char *text, size_t n, int64_t size) {
    if (fac_error() || (n && !fac__given(text, "text"))) return NULL;
    if (size < BPE_BYTES || size > BPE_MAX_SIZE) {
        FAC_FAIL(FAC_ERR_ARGUMENT, "a vocabulary of byte pairs has from %d to %d tokens, not %lld", BPE_BYTES,
                 BPE_MAX_SIZE, (long long)size);
        return NULL;
    }
    fac_vocab *v = new_vocab(VOCAB_BPE);
    if (!v) return NULL;
    fac_status st = fac__bpe_begin(&v->bpe);
    if (!st) st = fac__bpe_learn(&v->bpe, text, n, size);
    return finish(v, st);
}

fac_vocab *fac_vocab_bpe_of(const char *pairs, size_t n) {
    if (fac_error() || (n && !fac__given(pairs, "list of pairs"))) return NULL;
    fac_vocab *v = new_vocab(VOCAB_BPE);
    if (!v) return NULL;
    fac_status st = fac__bpe_begin(&v->bpe);
    if (!st) st = fac__bpe_read(&v->bpe, pairs, n);
    return finish(v, st);
}

/* ---- all kinds ---------------------------------------------------------------------------------------------------------- */

fac_vocab *fac_vocab_keep(fac_vocab *v) {
    if (v) atomic_fetch_add_explicit(&v->refs, 1, memory_order_relaxed);
    return v;
}

void fac_vocab_release(fac_vocab *v) {
    if (!v || !fac__last_ref(&v->refs)) return;
    fac__free(v->points);
    fac__bpe_free(&v->bpe);
    fac__free(v->text);
    fac__free(v);
}

int64_t fac_vocab_size(const fac_vocab *v) { return fac__given(v, "vocabulary") ? v->size : 0; }
const char *fac_vocab_text(const fac_vocab *v) { return fac__given(v, "vocabulary") && v->text ? v->text : ""; }

/* Token of a code point, -1 if there is none. */
static int64_t find_token(const fac_vocab *v, uint32_t c) {
    int64_t low = 0, high = v->size;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (v->points[middle] < c)
            low = middle + 1;
        else
            high = middle;
    }
    return low < v->size && v->points[low] == c ? low : -1;
}

static fac_status cut_characters(const fac_vocab *v, const char *text, size_t n, uint32_t *out, int64_t *out_n) {
    *out_n = 0;
    for (const char *p = text, *end = text + n; p < end;) {
        uint32_t c;
        int length = fac__utf8_read(p, end, &c);
        FAC_CHECK(length > 0, FAC_ERR_FORMAT, "the text is not UTF-8");
        int64_t token = find_token(v, c);
        FAC_CHECK(token >= 0, FAC_ERR_NOT_FOUND, "the vocabulary of %lld characters has no '%.*s' (U+%04X)",
                  (long long)v->size, length, p, (unsigned)c);
        out[(*out_n)++] = (uint32_t)token;
        p += length;
    }
    return FAC_OK;
}

fac_status fac__vocab_cut(const fac_vocab *v, const char *text, size_t n, uint32_t *out, int64_t *out_n) {
    if (v->kind == VOCAB_CHARACTERS) return cut_characters(v, text, n, out, out_n);
    if (v->kind == VOCAB_BPE) {
        *out_n = (int64_t)fac__bpe_encode(&v->bpe, text, n, out);
        return FAC_OK;
    }
    for (size_t i = 0; i < n; i++) out[i] = (unsigned char)text[i];
    *out_n = (int64_t)n;
    return FAC_OK;
}

static fac_status cut_to_tensor(const fac_vocab *v, const char *text, size_t n, uint32_t *tokens, fac_tensor **out) {
    int64_t count;
    FAC_TRY(fac__vocab_cut(v, text, n, tokens, &count));
    FAC_TRY(fac__empty(&count, 1, FAC_I64, fac_device_make(FAC_CPU, -1), out));
    int64_t *to = fac__data(*out);
    for (int64_t i = 0; i < count; i++) to[i] = tokens[i];
    return FAC_OK;
}

fac_tensor *fac_vocab_encode(const fac_vocab *v, const char *text, size_t n) {
    if (fac_error() || !fac__given(v, "vocabulary") || (n && !fac__given(text, "text"))) return NULL;
    uint32_t *tokens = fac__alloc_array(n, sizeof *tokens);
    if (!tokens) return NULL;
    fac_tensor *t;
    const fac_status st = cut_to_tensor(v, text, n, tokens, &t);
    fac__free(tokens);
    return st ? NULL : fac__adopt_handle(fac__thread(), t);
}

size_t fac__vocab_token_bytes(const fac_vocab *v, uint32_t token) {
    char text[4];
    if (v->kind == VOCAB_BPE) return v->bpe.lengths[token];
    return v->kind == VOCAB_BYTES ? 1 : (size_t)fac__utf8_write(v->points[token], text);
}

fac_status fac_vocab_decode(const fac_vocab *v, int64_t token, char *out, size_t *out_n) {
    if (!fac__given(v, "vocabulary") || !fac__given(out, "text") || !fac__given(out_n, "length")) return fac_error();
    FAC_CHECK(token >= 0 && token < v->size, FAC_ERR_INDEX, "there is no token %lld; the vocabulary has %lld",
              (long long)token, (long long)v->size);
    *out_n = 1;
    if (v->kind == VOCAB_CHARACTERS)
        *out_n = (size_t)fac__utf8_write(v->points[token], out);
    else if (v->kind == VOCAB_BPE)
        *out_n = fac__bpe_decode(&v->bpe, (uint32_t)token, out);
    else
        *out = (char)token;
    return FAC_OK;
}
