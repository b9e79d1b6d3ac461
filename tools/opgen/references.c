/* Entries that refer to others: texts, "errors: as cat; DTYPE if ...", are spelt out, so that each page tells all by itself, and
   what another name leaves out is the operator's. */
#include "opgen.h"

enum { DEEPEST = 8 }; /* references to references; more are a circle */

/* The texts of an entry that may refer. */
static char **text_at(entry *e, int i) { return (char **[]){&e->shape, &e->dtype, &e->errors}[i]; }
static const char *const keys[] = {"shape", "dtype", "errors"};

static entry *find_entry(const model *m, const char *name) {
    EACH_ITEM(entry, e, m->entries)
        if (strcmp(cut(e->op, e->op + strcspn(e->op, "(")), name) == 0) return e;
    return NULL;
}

static void spell_out(const model *m, entry *e, int key, int depth);

/* What a part of a text, which begins with "as ", refers to. */
static const char *referred(const model *m, const entry *e, int key, const char *part, int depth) {
    entry *other = find_entry(m, part + strlen("as "));
    if (!other) die(e->file, e->line, "%s: '%s' names no operator whose text it could be", keys[key], part);
    if (depth == DEEPEST) die(e->file, e->line, "%s: '%s' refers to itself", keys[key], part);
    spell_out(m, other, key, depth + 1);
    const char *text = *text_at(other, key);
    if (!text) die(e->file, e->line, "%s: '%s' has no text for it", keys[key], part);
    return text;
}

/* Parts are divided by "; ". */
static void spell_out(const model *m, entry *e, int key, int depth) {
    char **text = text_at(e, key), *made = "";
    for (const char *p = *text, *end; p; p = end ? end + 2 : NULL) {
        end = strstr(p, "; ");
        const char *part = end ? cut(p, end) : p;
        made = joined(made, "; ", strncmp(part, "as ", 3) ? part : referred(m, e, key, part, depth));
    }
    if (*text) *text = made;
}

/* "greater.Tensor" -> "greater_Tensor_alias" */
static char *alias_function(const entry *e) {
    char *name = xformat("%s_alias", cut(e->op, e->op + strcspn(e->op, "("))), *dot = strchr(name, '.');
    if (dot) *dot = '_';
    return name;
}

static char *with_default(char *text, char *other) { return text ? text : other; }

/* Another name is a composite of one call, and says what the operator says. */
static void complete_alias(const model *m, entry *e) {
    const entry *other = find_entry(m, e->alias);
    if (!other) die(e->file, e->line, "alias: there is no operator '%s'", e->alias);
    if (other->alias) die(e->file, e->line, "alias: '%s' is another name itself, of %s", e->alias, other->alias);
    if (e->composite) die(e->file, e->line, "'alias' says how it is computed; 'composite' should not");
    e->composite = alias_function(e);
    e->doc = with_default(e->doc, xformat("Another name of %s.", cut(e->alias, e->alias + strcspn(e->alias, "."))));
    e->shape = with_default(e->shape, other->shape);
    e->dtype = with_default(e->dtype, other->dtype);
    e->errors = with_default(e->errors, other->errors);
}

void complete_aliases(model *m) {
    EACH_ITEM(entry, e, m->entries)
        if (e->alias) complete_alias(m, e);
}

void spell_out_references(model *m) {
    for (size_t i = 0; i < m->entries.n; i++)
        for (int key = 0; key < (int)FAC_COUNT(keys); key++) spell_out(m, &m->entries.v[i], key, 0);
}
