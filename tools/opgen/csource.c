/* The C files that formulas and composites are written in, read just far enough to know which names each function, macro or
   table mentions. A name counts wherever it stands, so that a function that is passed on counts as called. */
#include "opgen.h"
#include <ctype.h>
#include <stdlib.h>

typedef struct c_file {
    const char *path;
    char **includes; /* as written between quotes */
    size_t n_includes;
} c_file;

typedef struct c_reader {
    c_file *file;
    const char *p;
    int line;
} c_reader;

static c_file **files;
static size_t n_files;
static c_def **defs;
static size_t n_defs;

static bool starts_word(char c) { return isalpha((unsigned char)c) || c == '_'; }
static bool in_word(char c) { return isalnum((unsigned char)c) || c == '_'; }

static void step(c_reader *r) {
    if (*r->p == '\n') r->line++;
    r->p++;
}

static void skip_quoted(c_reader *r, char quote) {
    for (step(r); *r->p && *r->p != quote; step(r))
        if (*r->p == '\\' && r->p[1]) step(r);
    if (*r->p) step(r);
}

/* Past white space, comments and, outside preprocessor lines, literals. */
static void skip_blank(c_reader *r, bool within_line) {
    for (;;) {
        if (r->p[0] == '/' && r->p[1] == '*') {
            while (*r->p && !(r->p[0] == '*' && r->p[1] == '/')) step(r);
            if (*r->p) r->p += 2;
        } else if (r->p[0] == '/' && r->p[1] == '/') {
            while (*r->p && *r->p != '\n') step(r);
        } else if (*r->p == '"' || *r->p == '\'') {
            skip_quoted(r, *r->p);
        } else if (r->p[0] == '\\' && r->p[1] == '\n') {
            step(r), step(r);
        } else if (isspace((unsigned char)*r->p) && !(within_line && *r->p == '\n')) {
            step(r);
        } else {
            return;
        }
    }
}

/* The next token: a word, or NULL for any other character, which *mark is set to (0 at the end). */
static char *token(c_reader *r, bool within_line, char *mark) {
    skip_blank(r, within_line);
    *mark = *r->p;
    if (!starts_word(*r->p)) {
        bool number = isdigit((unsigned char)*r->p);
        if (*r->p && !(within_line && *r->p == '\n')) step(r);
        while (number && (in_word(*r->p) || *r->p == '.')) step(r);
        return NULL;
    }
    const char *b = r->p;
    while (in_word(*r->p)) step(r);
    return xformat("%.*s", (int)(r->p - b), b);
}

static void mention(c_def *d, char *name) {
    for (size_t i = 0; i < d->n; i++)
        if (strcmp(d->names[i], name) == 0) {
            free(name);
            return;
        }
    PUSH(d->names, d->n, name);
}

static c_def *new_def(const c_reader *r, char *name, int line, bool local) {
    c_def *d = xalloc(sizeof *d);
    *d = (c_def){.file = r->file->path, .name = name, .line = line, .local = local};
    PUSH(defs, n_defs, d);
    return d;
}

/* After the `#`: an include is noted, a macro becomes a definition, the rest is passed over. */
static void directive(c_reader *r) {
    char mark, *word = token(r, true, &mark);
    if (word && strcmp(word, "include") == 0) {
        while (*r->p == ' ') r->p++;
        const char *end = *r->p == '"' ? strchr(r->p + 1, '"') : NULL;
        if (end) PUSH(r->file->includes, r->file->n_includes, xformat("%.*s", (int)(end - r->p - 1), r->p + 1));
    }
    int line = r->line;
    char *name = word && strcmp(word, "define") == 0 ? token(r, true, &mark) : NULL;
    c_def *d = name ? new_def(r, name, line, true) : NULL;
    for (char before = 0;; before = mark) {
        char *w = token(r, true, &mark);
        if (w && d) mention(d, w);
        if (w) mark = 'w';
        if (d && mark == '#' && before == '#') d->pastes = true;
        if (!w && (mark == '\n' || !mark)) return;
    }
}

/* What stands in braces, from after the first one. */
static void body(c_reader *r, c_def *d) {
    char mark;
    for (int depth = 1; depth;) {
        char *w = token(r, false, &mark);
        if (w && d) mention(d, w);
        if (w) continue;
        if (!mark) die(r->file->path, r->line, "the file ends within braces");
        if (mark == '#') directive(r);
        depth += mark == '{' ? 1 : mark == '}' ? -1 : 0;
    }
}

/* Definitions at file level: the last name before `(` is a function's, the last before `=` or `[` a table's. */
static void top_level(c_reader *r) {
    char *function = NULL, *last = NULL, *table = NULL, mark;
    bool local = false;
    int parens = 0, line = 1;
    for (;;) {
        char *w = token(r, false, &mark);
        if (w) {
            local = local || strcmp(w, "static") == 0;
            if (!parens && !table) last = w, line = r->line;
            continue;
        }
        if (!mark) return;
        if (mark == '#') directive(r);
        if (mark == '(' && !parens++ && last) function = last;
        if (mark == ')') parens--;
        if ((mark == '=' || mark == '[') && !parens && !table) table = last;
        bool done = mark == ';';
        if (mark == '{') {
            char *name = table ? table : function;
            body(r, name ? new_def(r, name, line, local) : NULL);
            done = !table && function;
        }
        if (!done) continue;
        function = last = table = NULL;
        local = false;
    }
}

void load_c(const char *path) {
    c_file *file = xalloc(sizeof *file);
    file->path = path;
    PUSH(files, n_files, file);
    char *text = read_text(path);
    c_reader r = {file, text, 1};
    top_level(&r);
    free(text);
}

static const c_file *file_at(const char *path) {
    for (size_t i = 0; i < n_files; i++)
        if (strcmp(files[i]->path, path) == 0) return files[i];
    return NULL;
}

/* "dir/src/a/b.h" is what `#include "a/b.h"` brings in. */
static bool is_file(const char *path, const char *included) {
    size_t n = strlen(path), k = strlen(included);
    return n >= k && strcmp(path + n - k, included) == 0 && (n == k || path[n - k - 1] == '/');
}

static const c_def *def_in(const char *path, const char *name) {
    for (size_t i = 0; i < n_defs; i++)
        if (strcmp(defs[i]->file, path) == 0 && strcmp(defs[i]->name, name) == 0) return defs[i];
    const c_file *file = file_at(path);
    for (size_t i = 0; file && i < file->n_includes; i++)
        for (size_t j = 0; j < n_files; j++) {
            const c_def *d =
                is_file(files[j]->path, file->includes[i]) && files[j] != file ? def_in(files[j]->path, name) : NULL;
            if (d) return d;
        }
    return NULL;
}

const c_def *find_c(const char *path, const char *name) {
    const c_def *d = path ? def_in(path, name) : NULL;
    for (size_t i = 0; i < n_defs && !d; i++)
        if (!defs[i]->local && strcmp(defs[i]->name, name) == 0) d = defs[i];
    return d;
}
