/* Keeps lists of names, and writes them so that any bytes stand in a line of UTF-8. */
#include "names.h"
#include <stdlib.h>
#include <string.h>

/* ---- lists ---- */

/* Takes over the copy, which may be NULL. */
static fac_status add(name_list *l, char *copy) {
    /* Room grows at powers of two, where n is one. */
    const bool full = (l->n & (l->n - 1)) == 0;
    char **v = full ? realloc(l->v, (l->n ? 2 * l->n : 1) * sizeof *v) : l->v;
    if (v) l->v = v;
    if (v && copy) {
        l->v[l->n++] = copy;
        return FAC_OK;
    }
    free(copy);
    return fac_error_set(FAC_ERR_MEMORY, "no memory for a list of names");
}

fac_status names_add(name_list *l, const char *name) { return add(l, strdup(name)); }

void names_free(name_list *l) {
    for (size_t i = 0; i < l->n; i++) free(l->v[i]);
    free(l->v);
    *l = (name_list){0};
}

static int by_name(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

void names_sort(name_list *l) {
    if (l->n) qsort(l->v, l->n, sizeof *l->v, by_name);
}

int64_t names_find(const name_list *l, const char *name) {
    for (size_t i = 0; i < l->n; i++)
        if (strcmp(l->v[i], name) == 0) return (int64_t)i;
    return -1;
}

int64_t names_find_sorted(const name_list *l, const char *name) {
    char *const *found = l->n ? bsearch(&name, l->v, l->n, sizeof *l->v, by_name) : NULL;
    return found ? found - l->v : -1;
}

/* ---- text ---- */

size_t utf8_length(const char *text) {
    const unsigned char *p = (const unsigned char *)text;
    const size_t n = p[0] < 0x80 ? 1 : p[0] < 0xc2 ? 0 : p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : p[0] < 0xf5 ? 4 : 0;
    for (size_t i = 1; i < n; i++)
        if ((p[i] & 0xc0) != 0x80) return 0;
    /* Longer than need be, half of a pair, beyond the last one. */
    if ((p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] > 0x9f)) return 0;
    return (p[0] == 0xf0 && p[1] < 0x90) || (p[0] == 0xf4 && p[1] > 0x8f) ? 0 : n;
}

void names_put(FILE *f, const char *name) {
    for (const char *p = name; *p;) {
        const size_t n = utf8_length(p);
        const unsigned char c = (unsigned char)*p;
        if (n == 0 || c < 0x20 || c == 0x7f || c == '\\')
            fprintf(f, "\\x%02x", c);
        else
            fwrite(p, 1, n, f);
        p += n ? n : 1;
    }
}

static int digit(char c) { return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1; }

/* One name of n bytes; a backslash without such a number after it is one, as in checkpoints of before. */
static fac_status add_part(name_list *l, const char *text, size_t n) {
    char *out = malloc(n + 1), *to = out;
    for (size_t i = 0; out && i < n; i++) {
        const bool escaped =
            i + 3 < n && text[i] == '\\' && text[i + 1] == 'x' && digit(text[i + 2]) >= 0 && digit(text[i + 3]) >= 0;
        *to++ = escaped ? (char)(16 * digit(text[i + 2]) + digit(text[i + 3])) : text[i];
        i += escaped ? 3 : 0;
    }
    if (out) *to = 0;
    return add(l, out);
}

fac_status names_split(name_list *l, const char *text, size_t n, char separator) {
    const char *const end = text + n;
    fac_status st = FAC_OK;
    for (const char *p = text; p < end && !st;) {
        const char *stop = memchr(p, separator, (size_t)(end - p));
        if (!stop) stop = end;
        st = add_part(l, p, (size_t)(stop - p));
        p = stop + 1;
    }
    return st;
}
