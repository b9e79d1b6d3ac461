/* Texts that refer to another operator, "errors: as cat; DTYPE if ...", are spelt out, so that each page tells all by itself. */
#include "opgen.h"
#include <stdlib.h>

enum { DEEPEST = 8 }; /* references to references; more are a circle */

/* The texts of an entry that may refer. */
static char **text_at(entry *e, int i) { return (char **[]){&e->shape, &e->dtype, &e->errors}[i]; }
static const char *const keys[] = {"shape", "dtype", "errors"};

static entry *find_entry(const model *m, const char *name, size_t len) {
    for (size_t i = 0; i < m->entries.n; i++)
        if (strncmp(m->entries.v[i].op, name, len) == 0 && m->entries.v[i].op[len] == '(') return &m->entries.v[i];
    return NULL;
}

static void spell_out(const model *m, entry *e, int key, int depth);

/* What a part of a text, which begins with "as ", refers to. */
static const char *referred(const model *m, const entry *e, int key, const char *part, size_t len, int depth) {
    entry *other = find_entry(m, part + 3, len - 3);
    if (!other) die(e->file, e->line, "%s: '%.*s' names no operator whose text it could be", keys[key], (int)len, part);
    if (depth == DEEPEST) die(e->file, e->line, "%s: '%.*s' refers to itself", keys[key], (int)len, part);
    spell_out(m, other, key, depth + 1);
    const char *text = *text_at(other, key);
    if (!text) die(e->file, e->line, "%s: '%.*s' has no text for it", keys[key], (int)len, part);
    return text;
}

/* Parts are divided by "; ". */
static void spell_out(const model *m, entry *e, int key, int depth) {
    char **text = text_at(e, key), *made = "";
    for (const char *p = *text; p && *p;) {
        const char *end = strstr(p, "; ");
        const size_t len = end ? (size_t)(end - p) : strlen(p);
        const bool refers = strncmp(p, "as ", 3) == 0;
        const char *part = refers ? referred(m, e, key, p, len, depth) : p;
        char *longer = xformat("%s%s%.*s", made, *made ? "; " : "", (int)(refers ? strlen(part) : len), part);
        made = longer;
        p += len + (end ? 2 : 0);
    }
    if (*text) *text = made;
}

void spell_out_references(model *m) {
    for (size_t i = 0; i < m->entries.n; i++)
        for (int key = 0; key < (int)FAC_COUNT(keys); key++) spell_out(m, &m->entries.v[i], key, 0);
}
