/* Memory, which is never freed, errors, which end the program, and the record that the schema parser leaves its own in. */
#include "opgen.h"
#include <ctype.h>
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

char *vformat(const char *format, va_list ap) {
    va_list again;
    va_copy(again, ap);
    const int n = vsnprintf(NULL, 0, format, again);
    va_end(again);
    char *text = xalloc((size_t)n + 1);
    vsnprintf(text, (size_t)n + 1, format, ap);
    return text;
}

char *xformat(const char *format, ...) {
    va_list ap;
    va_start(ap, format);
    char *s = vformat(format, ap);
    va_end(ap);
    return s;
}

void *find_text(void *v, size_t n, size_t size, size_t member, const char *text) {
    for (char *p = v; n; n--, p += size)
        if (strcmp(*(char **)(p + member), text) == 0) return p;
    return NULL;
}

bool lists(char *const *v, const char *word) {
    for (; v && *v; v++)
        if (strcmp(*v, word) == 0) return true;
    return false;
}

char *upper(const char *s) {
    char *made = xformat("%s", s);
    for (char *p = made; *p; p++) *p = (char)toupper((unsigned char)*p);
    return made;
}

const char *reason_after(const char *words, const char *text) {
    const size_t n = strlen(words);
    return strncmp(text, words, n) == 0 && text[n] ? text + n : NULL;
}

char *cut(const char *begin, const char *end) { return xformat("%.*s", (int)(end - begin), begin); }

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
    (void)file, (void)line;
    va_list ap;
    va_start(ap, format);
    last_error = vformat(format, ap);
    va_end(ap);
    return code;
}

const char *fac_error_message(void) { return last_error ? last_error : ""; }

char *read_text(const char *path) {
    FILE *f = fopen(path, "rb");
    LIST(char) text = {0};
    if (!f) die(path, 0, "cannot be read");
    for (int c; (c = fgetc(f)) != EOF;) PUSH(text, (char)c);
    fclose(f);
    PUSH(text, '\0');
    return text.v;
}
