/* Strings: copies, printf into fresh memory, and the growable buffer. */
#include "base/base.h"

char *fac__strdup(const char *s) {
    size_t bytes = strlen(s) + 1;
    char *copy = fac__alloc(bytes);
    return copy ? memcpy(copy, s, bytes) : NULL;
}

char *fac__format(const char *format, ...) {
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, format, args);
    char *text = n < 0 ? NULL : fac__alloc((size_t)n + 1);
    if (text) vsnprintf(text, (size_t)n + 1, format, again);
    va_end(again);
    va_end(args);
    return text;
}

/* Room for `more` bytes and the final NUL. */
static fac_status reserve(fac_buf *b, size_t more) {
    if (b->failed) return FAC_ERR_MEMORY;
    if (more < b->cap - b->n) return FAC_OK; /* cap 0: 0 - 0, so more < 0 is false */
    size_t wanted = b->n + more + 1;
    if (wanted < b->cap * 2) wanted = b->cap * 2;
    char *fresh = wanted > more ? fac__realloc(b->data, b->n, wanted) : NULL;
    if (!fresh) {
        b->failed = true;
        return FAC_FAIL(FAC_ERR_MEMORY, "out of memory: cannot grow a text to %zu bytes", wanted);
    }
    b->data = fresh;
    b->cap = wanted;
    b->data[b->n] = '\0';
    return FAC_OK;
}

fac_status fac__buf_add(fac_buf *b, const void *bytes, size_t n) {
    FAC_TRY(reserve(b, n));
    if (n) memcpy(b->data + b->n, bytes, n);
    b->n += n;
    b->data[b->n] = '\0';
    return FAC_OK;
}

fac_status fac__buf_printf(fac_buf *b, const char *format, ...) {
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, format, args);
    fac_status st = n < 0 ? FAC_FAIL(FAC_ERR_INTERNAL, "bad printf format '%s'", format) : reserve(b, (size_t)n);
    if (st == FAC_OK) {
        vsnprintf(b->data + b->n, (size_t)n + 1, format, again);
        b->n += (size_t)n;
    }
    va_end(again);
    va_end(args);
    return st;
}

void fac__buf_free(fac_buf *b) {
    fac__free(b->data);
    *b = (fac_buf){0};
}
