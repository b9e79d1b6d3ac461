/* The types and macros of the hand-written headers, for the list of the interface. */
#include "opgen.h"
#include <stdlib.h>

/* The last word before `end`. */
static char *word_before(const char *begin, const char *end) {
    while (end > begin && !in_word(end[-1])) end--;
    return cut(word_begin(begin, end), end);
}

/* ---- members ---- */

static void read_enumerators(const char *path, int line, const char *p, const char *close, declaration *d) {
    long long next = 0;
    while (p < close) {
        const char *stop = memchr(p, ',', (size_t)(close - p));
        if (!stop) stop = close;
        char *text = squeezed(p, stop), *equals = strchr(text, '='), *end = NULL;
        if (*text) {
            if (equals) next = strtoll(equals + 1, &end, 0);
            if (end && *end) die(path, line, "the value of '%s' should be a number", text);
            member e = {.name = squeezed(text, text + strcspn(text, " =")), .value = xformat("%lld", next++)};
            PUSH(*d, e);
        }
        p = stop + 1;
    }
}

/* "void (*step)(const fac_update *u)" is called step, "char name[256]" name; "int a, b" is two. */
static char *member_name(const char *text) {
    const char *star = strstr(text, "(*"), *bracket = strchr(text, '[');
    if (star) return cut(star + 2, word_end(star + 2));
    return word_before(text, bracket ? bracket : text + strlen(text));
}

static void read_members(const char *p, const char *close, declaration *d) {
    while (p < close) {
        const char *stop = memchr(p, ';', (size_t)(close - p));
        if (!stop) return;
        member e = {.value = squeezed(p, stop)};
        e.name = member_name(e.value);
        PUSH(*d, e);
        p = stop + 1;
    }
}

/* ---- types ---- */

static bool has_word(const char *begin, const char *end, const char *word) {
    const char *at = strstr(begin, word);
    return at && at < end;
}

static void read_body(const char *path, int line, const char *begin, const char *open, const char *end,
                      declaration *d) {
    const char *close = closing(open);
    const bool is_enum = has_word(begin, open, "enum");
    d->kind = is_enum ? "enum" : "struct";
    d->name = word_before(close, end);
    if (!*d->name && !is_enum) d->name = word_before(begin, open);
    if (is_enum)
        read_enumerators(path, line, open + 1, close, d);
    else
        read_members(open + 1, close, d);
}

bool read_type(const char *path, int line, const char *begin, const char *end, declaration *d) {
    const char *open = memchr(begin, '{', (size_t)(end - begin)), *star = strstr(begin, "(*");
    *d = (declaration){.line = line};
    if (has_word(begin, open ? open : end, ":")) return false; /* a C++ class */
    if (open)
        read_body(path, line, begin, open, end, d);
    else if (star && star < end) {
        d->kind = "callback";
        d->name = word_before(star, strchr(star, ')'));
    } else {
        d->kind = has_word(begin, end, "struct") ? "opaque" : "alias";
        d->name = word_before(begin, end);
    }
    return true;
}

/* ---- macros ---- */

/* Those whose names end with a line are the headers' own, as guards are and what the compiler is told by. */
static bool is_own(const char *name) {
    const size_t n = strlen(name);
    return n < 3 || name[n - 1] == '_' || strcmp(name + n - 2, "_H") == 0;
}

/* "FAC_SCOPE(s)"; for a macro without parameters its value follows. */
bool read_macro(const char *text, const model *m, declaration *d) {
    text += sizeof "#define " - 1;
    const size_t n = (size_t)(word_end(text) - text);
    *d = (declaration){.kind = "macro", .name = xformat("%.*s", (int)n, text)};
    if (is_own(d->name) || FIND(m->declarations, name, d->name)) return false;
    const char *stop = text[n] == '(' ? strchr(text, ')') + 1 : text + strcspn(text, "\n\\");
    const char *comment = strstr(text, "/*");
    d->text = squeezed(text, comment && comment < stop ? comment : stop);
    return true;
}
