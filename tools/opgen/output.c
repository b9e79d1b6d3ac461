/* Files that opgen writes: only if their text changed, so that nothing is rebuilt in vain, and in lines that fit a screen. */
#include "opgen.h"

enum { COLUMNS = 119, DEEPER = 8, NEAR = 40 };

/* Into a struct of the caller's, since the stream keeps its address. */
void open_output(output *o, const char *dir, const char *name) {
    *o = (output){.path = xformat("%s/%s", dir, name)};
    o->f = open_memstream(&o->text, &o->size);
    if (!o->f) die(o->path, 0, "out of memory");
}

static bool same_text(const output *o) {
    FILE *f = fopen(o->path, "rb");
    if (!f) return false;
    char *old = xalloc(o->size + 2);
    size_t n = fread(old, 1, o->size + 1, f);
    fclose(f);
    return n == o->size && memcmp(old, o->text, n) == 0;
}

/* ---- long lines -------------------------------------------------------------------------------------------------------- */

typedef enum place { CODE, TEXT, CHARACTER, COMMENT } place;

/* What follows the character at p. */
static place next_place(place at, const char *begin, const char *p) {
    static const char ends[] = {[TEXT] = '"', [CHARACTER] = '\'', [COMMENT] = '/'};
    const char before = p > begin ? p[-1] : ' ';
    const bool escaped = before == '\\' && !(p > begin + 1 && p[-2] == '\\');
    if (at == CODE) return *p == '"' ? TEXT : *p == '\'' ? CHARACTER : *p == '*' && before == '/' ? COMMENT : CODE;
    return *p == ends[at] && (at == COMMENT ? before == '*' : !escaped) ? CODE : at;
}

static bool may_end(const char *begin, const char *p, place at) {
    return *p == ' ' && p > begin && p[-1] != ' ' && at != CHARACTER;
}

/* Where the line may end before `end`: at its last space, or at one after a comma that is not much before it; *out is what that
   lies in. Not within a string that began behind another place. NULL: there is none. */
static const char *last_break(const char *begin, const char *end, place at, place *out) {
    const char *found = NULL, *comma = NULL;
    for (const char *p = begin; p < end; at = next_place(at, begin, p), p++) {
        if (!may_end(begin, p, at) || (found && *out == CODE && at == TEXT)) continue;
        found = p, *out = at;
        if (at == CODE && p[-1] == ',') comma = p;
    }
    return comma && *out == CODE && end - comma < NEAR ? comma : found;
}

/* What is written of a file, line by line. */
typedef struct layout {
    FILE *to;
    size_t lines;   /* so far */
    bool continues; /* the last line that was read ended with a backslash */
} layout;

static void write_line(layout *l, const char *begin, size_t n) {
    const bool directive = *begin == '#' || l->continues;
    const size_t indent = strspn(begin, " ");
    l->continues = n && begin[n - 1] == '\\';
    place at = CODE;
    size_t column = 0; /* of the output, where what is left goes */
    while (column + n > COLUMNS && strncmp(begin, "#line", 5) != 0 && strncmp(begin, "#include", 8) != 0) {
        place within = at;
        const char *stop = last_break(begin + (column ? 0 : indent), begin + COLUMNS - 3 - column, at, &within);
        if (!stop) break;
        bool text = within == TEXT;
        fprintf(l->to, "%.*s%s%s\n%*s%s", (int)(stop - begin) + text, begin, text ? "\"" : "", directive ? " \\" : "",
                (int)indent + DEEPER, "", text ? "\"" : "");
        l->lines++;
        column = indent + DEEPER + text;
        n -= (size_t)(stop + 1 - begin), begin = stop + 1;
        at = within;
    }
    fprintf(l->to, "%.*s\n", (int)n, begin);
    l->lines++;
}

/* `#line 0` follows a formula: the next line has its own number again, in a file that has the same name in every build folder. */
static void lay_out(output *o) {
    static const char own[] = "#line 0\n";
    const char *slash = strrchr(o->path, '/'), *p = o->text;
    output made;
    open_output(&made, "", "");
    layout l = {.to = made.f};
    for (size_t n; *p; p += n + (p[n] == '\n')) {
        n = strcspn(p, "\n");
        if (strncmp(p, own, sizeof own - 1) == 0)
            fprintf(l.to, "#line %zu \"%s\"\n", ++l.lines + 1, slash ? slash + 1 : o->path);
        else
            write_line(&l, p, n);
    }
    fclose(made.f);
    o->text = made.text, o->size = made.size;
}

static bool is_code(const char *path) {
    const char *dot = strrchr(path, '.');
    return dot && (strcmp(dot, ".c") == 0 || strcmp(dot, ".h") == 0 || strcmp(dot, ".hpp") == 0);
}

void close_output(output *o) {
    fclose(o->f);
    if (is_code(o->path)) lay_out(o);
    if (!same_text(o)) {
        FILE *f = fopen(o->path, "wb");
        if (!f || fwrite(o->text, 1, o->size, f) != o->size || fclose(f)) die(o->path, 0, "cannot be written");
    }
}
