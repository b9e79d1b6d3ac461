/* The hand-written headers: what they declare, in order, with its documentation, and the macros that tell the place of a call. */
#include "opgen.h"
#include <ctype.h>

/* "const char *name": what stands before the name, and the name; for a pointer to a function the type stands around it. */
static parameter read_parameter(const char *begin, const char *end) {
    char *text = squeezed(begin, end);
    const char *star = strstr(text, "(*"), *name = star ? star + 2 : text + strlen(text);
    if (!star) name = word_begin(text, name);
    return (parameter){.type = star ? text : squeezed(text, name), .name = cut(name, word_end(name))};
}

static void read_parameters(function *f, const char *begin, const char *end) {
    int depth = 0;
    const char *from = begin;
    for (const char *p = begin; p <= end; p++) {
        depth += p < end ? (*p == '(') - (*p == ')') : 0;
        if (p < end && (*p != ',' || depth)) continue;
        char *text = squeezed(from, p);
        if (strcmp(text, "...") == 0)
            f->variadic = true;
        else if (*text && strcmp(text, "void") != 0)
            PUSH(*f, read_parameter(from, p));
        from = p + 1;
    }
}

/* After FAC_API or FAC_INLINE_: "FAC_MUST fac_tensor *fac_name(parameters)". */
static function read_function(const char *path, const char *text, const char *begin) {
    static const char must[] = "FAC_MUST";
    while (isspace((unsigned char)*begin)) begin++;
    function f = {.file = path, .line = line_at(text, begin), .header = family_of(path)};
    f.must = strncmp(begin, must, sizeof must - 1) == 0;
    if (f.must) begin += sizeof must - 1;
    const char *open = strchr(begin, '(');
    if (!open) die(path, f.line, "a declaration without parameters");
    const char *name = word_begin(begin, open);
    if (strncmp(name, "fac_", 4) != 0) die(path, f.line, "a public function whose name does not begin with fac_");
    f.name = cut(name + 4, open);
    f.result = squeezed(begin, name);
    read_parameters(&f, open + 1, closing(open));
    return f;
}

/* The text of a comment, each line without its indentation. */
static char *lines_of(const char *begin, const char *end) {
    char *text = "";
    while (begin < end) {
        const char *stop = memchr(begin, '\n', (size_t)(end - begin));
        if (!stop) stop = end;
        text = xformat("%s%s%s", text, *text ? "\n" : "", squeezed(begin, stop));
        begin = stop + 1;
    }
    return text;
}

/* ---- documentation ----------------------------------------------------------------------------------------------------- */

/* Where the comment begins that ends at `end`. */
static const char *comment_begin(const char *text, const char *end) {
    const char *begin = end - 2;
    while (begin > text && (begin[0] != '/' || begin[1] != '*')) begin--;
    return begin;
}

/* Whether the line that ends at `end` is a #define. */
static bool ends_define(const char *text, const char *end) {
    while (end > text && end[-1] != '\n') end--;
    return strncmp(end, "#define ", 8) == 0;
}

/* Whether code stands before `at` in its line: a comment there belongs to that. */
static bool is_trailing(const char *text, const char *at) {
    while (at > text && (at[-1] == ' ' || at[-1] == '\t')) at--;
    return at > text && at[-1] != '\n';
}

/* The end of what stands before `at`; NULL where an empty line divides the two, or there is nothing. */
static const char *end_before(const char *text, const char *at) {
    const char *end = at;
    while (end > text && isspace((unsigned char)end[-1])) end--;
    const char *gap = strstr(end, "\n\n");
    return end - text < 2 || (gap && gap + 1 < at) ? NULL : end;
}

/* The comment right before `at`, of which `text` is the whole file with its comments; what the declaration before has if
   nothing stands between the two. */
static char *doc_before(const char *text, const char *at, const char *earlier) {
    for (const char *end = at; (end = end_before(text, end));) {
        if (end[-1] == ';' || end[-1] == '}' || (at[0] == '#' && ends_define(text, end)))
            return xformat("%s", earlier ? earlier : "");
        if (end[-1] != '/' || end[-2] != '*') break;
        const char *begin = comment_begin(text, end);
        if (!is_trailing(text, begin)) return lines_of(begin + 2, end - 2);
        end = begin;
    }
    return "";
}

/* The comment that follows a declaration in its last line, as a line to be added. */
static char *doc_behind(const char *end) {
    end += strspn(end, " ");
    const char *stop = strncmp(end, "/*", 2) == 0 ? strstr(end, "*/") : NULL;
    return stop ? xformat("\n%s", lines_of(end + 2, stop)) : "";
}

/* The title of the part of the file in which `at` lies: of the last comment that begins with a line. */
static char *section_at(const char *text, const char *at) {
    static const char mark[] = "/* ---- ";
    const char *found = NULL;
    for (const char *p = strstr(text, mark); p && p < at; p = strstr(p + 1, mark)) found = p + sizeof mark - 1;
    const char *stop = found ? strstr(found, " --") : NULL;
    return stop ? squeezed(found, stop) : "";
}

/* ---- declarations ------------------------------------------------------------------------------------------------------- */

/* A file that is read: its text, and the same with comments and the preprocessor's lines blank. */
typedef struct source {
    const char *path, *whole, *text;
    const char *doc; /* of the declaration before, and of those after that have none of their own */
} source;

static bool begins(const char *p, const char *word) { return strncmp(p, word, strlen(word)) == 0; }

/* Behind the semicolon, or the body, that ends the declaration. */
static const char *end_of(const char *p, bool body) {
    int depth = 0;
    for (; *p; p++) {
        depth += (*p == '(' || *p == '{') - (*p == ')' || *p == '}');
        if (!depth && *p == (body ? '}' : ';')) return p + 1;
    }
    return p;
}

static const char *place_in_whole(const source *s, const char *at) { return s->whole + (at - s->text); }

static char *document(source *s, const char *at, const char *end) {
    s->doc = doc_before(s->whole, place_in_whole(s, at), s->doc);
    const char *own = doc_behind(place_in_whole(s, end));
    return xformat("%s%s", s->doc, *s->doc ? own : own + strspn(own, "\n"));
}

static void load_function(source *s, const char *at, model *m) {
    const bool is_inline = begins(at, "FAC_INLINE_");
    function fn = read_function(s->path, s->text, at + (is_inline ? sizeof "FAC_INLINE_" : sizeof "FAC_API") - 1);
    if (fn.name[strlen(fn.name) - 1] == '_') return; /* the headers' own */
    fn.doc = document(s, at, end_of(at, is_inline));
    fn.section = section_at(s->whole, place_in_whole(s, at));
    if (is_inline)
        PUSH(m->inlines, fn);
    else
        PUSH(m->functions, fn);
}

static void load_type(source *s, const char *at, model *m) {
    const char *end = end_of(at, false);
    declaration d;
    if (!read_type(s->path, line_at(s->text, at), at, end, &d)) return;
    d.header = family_of(s->path);
    d.doc = document(s, at, end);
    d.section = section_at(s->whole, place_in_whole(s, at));
    d.text = cut(place_in_whole(s, at), place_in_whole(s, end));
    PUSH(m->declarations, d);
}

static void load_macro(source *s, const char *at, model *m) {
    const char *whole = place_in_whole(s, at);
    declaration d;
    if (!read_macro(whole, m, &d)) return;
    d.line = line_at(s->text, at);
    d.header = family_of(s->path);
    d.doc = xformat("%s", s->doc = doc_before(s->whole, whole, s->doc));
    d.section = section_at(s->whole, whole);
    PUSH(m->declarations, d);
}

/* Declarations begin in the first column. */
static void load_line(source *s, const char *at, model *m) {
    if (begins(at, "FAC_API") || begins(at, "FAC_INLINE_"))
        load_function(s, at, m);
    else if (begins(at, "typedef ") || begins(at, "struct ") || begins(at, "enum "))
        load_type(s, at, m);
    else if (begins(place_in_whole(s, at), "#define "))
        load_macro(s, at, m);
}

static char *opening_comment(const char *text) {
    const char *stop = begins(text, "/*") ? strstr(text, "*/") : NULL;
    return stop ? lines_of(text + 2, stop) : "";
}

void load_header(const char *path, model *m) {
    const char *whole = read_text(path);
    char *text = blanked(whole);
    source s = {.path = path, .whole = whole, .text = text};
    blank_directives(text);
    for (const char *p = text; p; p = strchr(p, '\n')) load_line(&s, p += *p == '\n', m);
    PUSH(m->headers, ((header){.name = family_of(path), .doc = opening_comment(s.whole)}));
}

/* ---- macros that tell the place of a call ------------------------------------------------------------------------------ */

/* What deals with errors itself, or cannot fail. */
static bool is_placeless(const char *name) {
    static char *const names[] = {
        "error",       "error_message", "error_clear",       "error_get", "error_at",  "report",
        "status_name", "version",       "set_error_handler", "cancel",    "scope_end", NULL};
    return lists(names, name);
}

/* "const char *" as "const_char_p": what FAC_AT_ calls the type. */
static char *at_name(const char *type) {
    if (strcmp(type, "fac_tensor *") == 0) return "tensor";
    if (strncmp(type, "fac_status", 10) == 0) return "status";
    char *name = xformat("%s", type);
    for (size_t n = strlen(name); n && name[n - 1] == ' '; n--) name[n - 1] = '\0';
    for (char *p = name; *p; p++) *p = *p == ' ' ? '_' : *p == '*' ? 'p' : *p;
    return name;
}

/* How a result r of this type looks when the call may have failed, as a C expression. */
static const char *failed(const char *type) {
    static const char *const looks[][2] = {
        {"bool", "!r"},         {"int64_t", "r <= 0"},   {"int", "r <= 0"},
        {"size_t", "r == 0"},   {"fac_ints", "!r.n"},    {"double", "!(r < 0 || r > 0)"},
        {"fac_floats", "!r.n"}, {"fac_tensors", "!r.n"}, {"fac_scope", "!r.serial"},
    };
    if (type[strlen(type) - 1] == '*') return "!r";
    const size_t n = strcspn(type, " ");
    for (size_t i = 0; i < FAC_COUNT(looks); i++)
        if (strlen(looks[i][0]) == n && strncmp(looks[i][0], type, n) == 0) return looks[i][1];
    return "true";
}

void emit_at_inline(FILE *f, const char *type, const char *how) {
    char *name = at_name(type);
    if (strcmp(name, "tensor") == 0 || strcmp(name, "status") == 0 || strcmp(name, "void") == 0) return;
    fprintf(f, "#ifndef FAC_AT_HAS_%s\n#define FAC_AT_HAS_%s\nFAC_AT_INLINE_(%s, %.*s, %s)\n#endif\n", name, name, name,
            (int)(strlen(type) - (type[strlen(type) - 1] == ' ')), type, how ? how : failed(type));
}

char *at_begin(const char *type, bool must) {
    const char *name = at_name(type);
    if (strcmp(name, "void") == 0) return "FAC_AT_VOID_(";
    return xformat(must ? "FAC_AT_MUST_(%s, " : "FAC_AT_(%s, ", name);
}

void emit_place(FILE *f, const char *name, const char *type, bool must) {
    fprintf(f, "#define fac_%s(...) %sfac_%s(__VA_ARGS__))\n", name, at_begin(type, must), name);
}

const op *fn_keywords(const model *m, const function *fn) { return FIND(m->fns, cname, fn->name); }

/* Whether function i is the first of the header that gives a result of its type. */
static bool first_with_result(const model *m, size_t i, const char *header) {
    for (size_t j = 0; j < i; j++)
        if (strcmp(m->functions.v[j].header, header) == 0 &&
            strcmp(m->functions.v[j].result, m->functions.v[i].result) == 0)
            return false;
    return strcmp(m->functions.v[i].header, header) == 0;
}

void emit_header_macros(FILE *f, const model *m, const char *header) {
    fprintf(f, "#ifndef FACULA_BUILDING\n");
    for (size_t i = 0; i < m->functions.n; i++)
        if (first_with_result(m, i, header)) emit_at_inline(f, m->functions.v[i].result, NULL);
    for (size_t i = 0; i < m->functions.n; i++) {
        const function *fn = &m->functions.v[i];
        if (strcmp(fn->header, header) != 0 || is_placeless(fn->name) || fn_keywords(m, fn)) continue;
        emit_place(f, fn->name, fn->result, fn->must);
    }
    fputs("#endif\n", f);
}
