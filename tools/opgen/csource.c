/* The C files that formulas and composites are written in, read just far enough to know which names each function, macro or
   table mentions. A name counts wherever it stands, so that a function that is passed on counts as called. */
#include "opgen.h"
#include <ctype.h>

typedef struct c_file {
    const char *path;
    LIST(char *) includes; /* as written between quotes */
} c_file;

typedef struct c_reader {
    c_file *file;
    const char *text, *p; /* without comments and literals */
} c_reader;

static LIST(c_file *) files;
static LIST(c_def *) defs;

static void skip_blank(c_reader *r, bool within_line) {
    for (;; r->p++)
        if (r->p[0] == '\\' && r->p[1] == '\n')
            r->p++;
        else if (!isspace((unsigned char)*r->p) || (within_line && *r->p == '\n'))
            return;
}

/* The next token: a word, or NULL for a number, *mark '0', or another character, which *mark is set to: 0 at the end, and at the
   line's, where the reader stays. */
static char *token(c_reader *r, bool within_line, char *mark) {
    skip_blank(r, within_line);
    const char *b = r->p;
    r->p = word_end(b);
    *mark = isdigit((unsigned char)*b) ? '0' : *b;
    if (r->p > b) return *mark == '0' ? NULL : cut(b, r->p);
    if (*b && !(within_line && *b == '\n')) r->p++;
    return NULL;
}

static void mention(c_def *d, char *name) {
    for (size_t i = 0; i < d->names.n; i++)
        if (strcmp(d->names.v[i], name) == 0) return;
    PUSH(d->names, name);
}

static c_def *new_def(const c_reader *r, char *name, const char *at, bool local) {
    c_def *d = xalloc(sizeof *d);
    *d = (c_def){.file = r->file->path, .name = name, .line = line_at(r->text, at), .local = local};
    PUSH(defs, d);
    return d;
}

/* After the `#`: a macro becomes a definition, the rest is passed over. */
static void directive(c_reader *r) {
    char mark, *word = token(r, true, &mark);
    const char *at = r->p;
    char *name = word && strcmp(word, "define") == 0 ? token(r, true, &mark) : NULL;
    c_def passed_over = {0}, *d = name ? new_def(r, name, at, true) : &passed_over;
    for (char before = 0;; before = mark) {
        char *w = token(r, true, &mark);
        if (w) mention(d, w);
        if (!w && mark == '#' && before == '#') d->pastes = true;
        if (!w && (mark == '\n' || !mark)) return;
    }
}

/* What stands in braces, from after the first one. */
static void body(c_reader *r, c_def *d) {
    char mark;
    for (int depth = 1; depth;) {
        char *w = token(r, false, &mark);
        if (w) mention(d, w);
        if (w) continue;
        if (!mark) die(r->file->path, line_at(r->text, r->p), "the file ends within braces");
        if (mark == '#') directive(r);
        depth += (mark == '{') - (mark == '}');
    }
}

/* What stands before a body: the last name before `(` is a function's, the last before `=` or `[` a table's. */
typedef struct head {
    char *last, *function, *table;
    const char *at; /* the last name */
    bool local;
    int parens;
} head;

static void heed_word(head *h, char *word, const char *at) {
    h->local = h->local || strcmp(word, "static") == 0;
    if (!h->parens && !h->table) h->last = word, h->at = at;
}

static void heed_mark(head *h, char mark) {
    if (mark == '(' && !h->parens++ && h->last) h->function = h->last;
    if (mark == ')') h->parens--;
    if ((mark == '=' || mark == '[') && !h->parens && !h->table) h->table = h->last;
}

/* Definitions at file level. */
static void top_level(c_reader *r) {
    head h = {0};
    for (char mark;;) {
        char *w = token(r, false, &mark);
        if (w) {
            heed_word(&h, w, r->p);
            continue;
        }
        if (!mark) return;
        heed_mark(&h, mark);
        if (mark == '#') directive(r);
        if (mark == '{') {
            char *name = h.table ? h.table : h.function;
            c_def nameless = {0};
            body(r, name ? new_def(r, name, h.at, h.local) : &nameless);
        }
        if (mark == ';' || (mark == '{' && h.function && !h.table)) h = (head){0};
    }
}

void load_c(const char *path) {
    static const char include[] = "#include \"";
    c_file *file = xalloc(sizeof *file);
    file->path = path;
    PUSH(files, file);
    const char *text = read_text(path), *bare = blanked(text);
    for (const char *p = text; (p = strstr(p, include));) {
        p += sizeof include - 1;
        PUSH(file->includes, cut(p, p + strcspn(p, "\"")));
    }
    top_level(&(c_reader){file, bare, bare});
}

static const c_file *file_at(const char *path) {
    for (size_t i = 0; i < files.n; i++)
        if (strcmp(files.v[i]->path, path) == 0) return files.v[i];
    return NULL;
}

/* "dir/src/a/b.h" is what `#include "a/b.h"` brings in. */
static bool is_file(const char *path, const char *included) {
    size_t n = strlen(path), k = strlen(included);
    return n >= k && strcmp(path + n - k, included) == 0 && (n == k || path[n - k - 1] == '/');
}

static const c_def *def_in(const char *path, const char *name) {
    for (size_t i = 0; i < defs.n; i++)
        if (strcmp(defs.v[i]->file, path) == 0 && strcmp(defs.v[i]->name, name) == 0) return defs.v[i];
    const c_file *file = file_at(path);
    for (size_t i = 0; file && i < file->includes.n; i++)
        for (size_t j = 0; j < files.n; j++) {
            const c_def *d = is_file(files.v[j]->path, file->includes.v[i]) && files.v[j] != file
                                 ? def_in(files.v[j]->path, name)
                                 : NULL;
            if (d) return d;
        }
    return NULL;
}

const c_def *find_c(const char *path, const char *name) {
    const c_def *d = path ? def_in(path, name) : NULL;
    for (size_t i = 0; i < defs.n && !d; i++)
        if (!defs.v[i]->local && strcmp(defs.v[i]->name, name) == 0) d = defs.v[i];
    return d;
}
