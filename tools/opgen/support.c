/* Memory, dying, and the few base services that the schema parser calls; here without threads or hooks. */
#include "opgen.h"
#include <stdlib.h>

void die(const char *file, int line, const char *format, ...) {
    va_list ap;
    va_start(ap, format);
    fprintf(stderr, "%s:%d: error: ", file, line);
    vfprintf(stderr, format, ap);
    fputc('\n', stderr);
    va_end(ap);
    exit(1);
}

void *xalloc(size_t n) {
    void *p = calloc(1, n ? n : 1);
    if (!p) die("opgen", 0, "out of memory");
    return p;
}

void *xgrow(void *p, size_t n, size_t elem) {
    if (n & (n - 1)) return p;
    p = realloc(p, (n ? 2 * n : 1) * elem);
    if (!p) die("opgen", 0, "out of memory");
    return p;
}

static char *vformat(const char *format, va_list ap) {
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);
    if (!f) die("opgen", 0, "out of memory");
    vfprintf(f, format, ap);
    fclose(f);
    return text;
}

char *xformat(const char *format, ...) {
    va_list ap;
    va_start(ap, format);
    char *s = vformat(format, ap);
    va_end(ap);
    return s;
}

void quoted(FILE *f, const char *s) {
    fputc('"', f);
    for (; *s; s++) {
        if (*s == '\n') {
            fputs("\\n", f);
            continue;
        }
        if (*s == '"' || *s == '\\') fputc('\\', f);
        fputc(*s, f);
    }
    fputc('"', f);
}

static char *last_error;

fac_status fac__fail(const char *file, int line, fac_status code, const char *format, ...) {
    (void)file;
    (void)line;
    va_list ap;
    va_start(ap, format);
    free(last_error);
    last_error = vformat(format, ap);
    va_end(ap);
    return code;
}

const char *fac_error_message(void) { return last_error ? last_error : ""; }

void *fac__alloc(size_t bytes) { return xalloc(bytes); }
void *fac__alloc_zero(size_t bytes) { return xalloc(bytes); }
void *fac__alloc_array(size_t n, size_t size) { return xalloc(n * size); }
void fac__free(void *p) { free(p); }
char *fac__strdup(const char *s) { return xformat("%s", s); }

void *fac__realloc(void *p, size_t old, size_t bytes) {
    (void)old;
    p = realloc(p, bytes ? bytes : 1);
    if (!p) die("opgen", 0, "out of memory");
    return p;
}

char *fac__format(const char *format, ...) {
    va_list ap;
    va_start(ap, format);
    char *s = vformat(format, ap);
    va_end(ap);
    return s;
}

fac_status fac__buf_add(fac_buf *b, const void *bytes, size_t n) {
    if (b->n + n + 1 > b->cap) {
        b->cap = 2 * (b->n + n + 1);
        b->data = fac__realloc(b->data, b->n, b->cap);
    }
    memcpy(b->data + b->n, bytes, n);
    b->data[b->n += n] = 0;
    return FAC_OK;
}

fac_status fac__buf_printf(fac_buf *b, const char *format, ...) {
    va_list ap;
    va_start(ap, format);
    char *s = vformat(format, ap);
    va_end(ap);
    fac__buf_add(b, s, strlen(s));
    free(s);
    return FAC_OK;
}

void fac__buf_free(fac_buf *b) {
    free(b->data);
    *b = (fac_buf){0};
}

fac_status fac__vec_grow(void **v, size_t n, size_t *cap, size_t elem) {
    if (n < *cap) return FAC_OK;
    *cap = *cap ? 2 * *cap : 8;
    *v = fac__realloc(*v, n * elem, *cap * elem);
    return FAC_OK;
}

char *read_text(const char *path) {
    FILE *f = fopen(path, "rb");
    char *text = NULL;
    size_t n = 0;
    if (!f) die(path, 0, "cannot be read");
    for (int c; (c = fgetc(f)) != EOF;) PUSH(text, n, (char)c);
    fclose(f);
    PUSH(text, n, '\0');
    return text;
}
