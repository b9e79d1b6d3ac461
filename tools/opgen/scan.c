/* C read as text, by characters: words, brackets, and comments, literals and directives made blank. */
#include "opgen.h"
#include <ctype.h>

bool in_word(char c) { return isalnum((unsigned char)c) || c == '_'; }

const char *word_end(const char *p) {
    while (in_word(*p)) p++;
    return p;
}

const char *word_begin(const char *text, const char *end) {
    while (end > text && in_word(end[-1])) end--;
    return end;
}

int line_at(const char *text, const char *at) {
    int line = 1;
    for (; text < at; text++) line += *text == '\n';
    return line;
}

char *squeezed(const char *begin, const char *end) {
    char *to = xalloc((size_t)(end - begin) + 1), *p = to;
    for (; begin < end; begin++) {
        const bool space = isspace((unsigned char)*begin);
        if (space && (p == to || p[-1] == ' ')) continue;
        *p++ = space ? ' ' : *begin;
    }
    if (p > to && p[-1] == ' ') p--;
    *p = '\0';
    return to;
}

const char *closing(const char *open) {
    int depth = 0;
    for (const char *p = open; *p; p++) {
        depth += (*p == '(' || *p == '{') - (*p == ')' || *p == '}');
        if (!depth) return p;
    }
    return open + strlen(open);
}

/* How long the comment or literal is that begins here; 0: none does. */
static size_t length_of_text(const char *p) {
    if (strncmp(p, "//", 2) == 0) return strcspn(p, "\n");
    if (strncmp(p, "/*", 2) == 0) {
        const char *end = strstr(p + 2, "*/");
        return end ? (size_t)(end + 2 - p) : strlen(p);
    }
    size_t n = 1;
    if (*p != '"' && *p != '\'') return 0;
    while (p[n] && p[n] != *p && p[n] != '\n') n += p[n] == '\\' && p[n + 1] ? 2 : 1;
    return n + (p[n] == *p);
}

static void blank(char *begin, const char *end) {
    for (; begin < end; begin++)
        if (*begin != '\n') *begin = ' ';
}

char *blanked(const char *text) {
    char *made = xformat("%s", text);
    for (char *p = made; *p;) {
        const size_t n = length_of_text(p);
        blank(p, p + n);
        p += n ? n : 1;
    }
    return made;
}

void blank_directives(char *text) {
    for (char *p = text; *p; p += *p == '\n') {
        char *end = p;
        while (*end && (*end != '\n' || (end > p && end[-1] == '\\'))) end++;
        if (p[strspn(p, " \t")] == '#') blank(p, end);
        p = end;
    }
}
