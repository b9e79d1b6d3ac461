/* Vocabularies. A character vocabulary is the sorted list of its code points; a token is a place in the list. */
#include "data/vocab.h"
#include "core/handle.h"
#include "data/utf8.h"

enum { CODE_POINTS = 0x110000 };

static fac_vocab *new_vocab(void) {
    fac_vocab *v = fac__alloc_zero(sizeof *v);
    if (v) atomic_init(&v->refs, 1);
    return v;
}

fac_vocab *fac_vocab_bytes(void) {
    fac_vocab *v = new_vocab();
    if (v) v->size = 256;
    return v;
}

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
    fac_vocab *v = seen ? new_vocab() : NULL;
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

fac_vocab *fac_vocab_keep(fac_vocab *v) {
    if (v) atomic_fetch_add_explicit(&v->refs, 1, memory_order_relaxed);
    return v;
}

void fac_vocab_release(fac_vocab *v) {
    if (!v || !fac__last_ref(&v->refs)) return;
    fac__free(v->points);
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

fac_status fac__vocab_next(const fac_vocab *v, const char **p, const char *end, int64_t *out) {
    if (!v->points) {
        *out = (unsigned char)*(*p)++;
        return FAC_OK;
    }
    uint32_t c;
    int length = fac__utf8_read(*p, end, &c);
    FAC_CHECK(length > 0, FAC_ERR_FORMAT, "the text is not UTF-8");
    *out = find_token(v, c);
    FAC_CHECK(*out >= 0, FAC_ERR_NOT_FOUND, "the vocabulary of %lld characters has no '%.*s' (U+%04X)",
              (long long)v->size, length, *p, (unsigned)c);
    *p += length;
    return FAC_OK;
}

fac_tensor *fac_vocab_encode(const fac_vocab *v, const char *text, size_t n) {
    if (fac_error() || !fac__given(v, "vocabulary") || (n && !fac__given(text, "text"))) return NULL;
    const char *end = text + n;
    int64_t count = 0, token;
    for (const char *p = text; p < end; count++) FAC_TRY_NULL(fac__vocab_next(v, &p, end, &token));
    fac_tensor *t;
    FAC_TRY_NULL(fac__empty(&count, 1, FAC_I64, fac_device_make(FAC_CPU, -1), &t));
    int64_t *out = fac__data(t);
    for (const char *p = text; p < end;) (void)fac__vocab_next(v, &p, end, out++); /* cannot fail: it did not above */
    return fac__adopt_handle(fac__thread(), t);
}

fac_status fac_vocab_decode(const fac_vocab *v, int64_t token, char *out, size_t *out_n) {
    if (!fac__given(v, "vocabulary") || !fac__given(out, "text") || !fac__given(out_n, "length")) return fac_error();
    FAC_CHECK(token >= 0 && token < v->size, FAC_ERR_INDEX, "there is no token %lld; the vocabulary has %lld",
              (long long)token, (long long)v->size);
    *out_n = 1;
    if (v->points)
        *out_n = (size_t)fac__utf8_write(v->points[token], out);
    else
        *out = (char)token;
    return FAC_OK;
}
