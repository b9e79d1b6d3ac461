/* Parser of the schema language: recursive descent over the text, one function per production.

     schema  := [ns "::"] name ["." overload] "(" [arg {"," arg}] ")" "->" results
     arg     := "*" | type name ["=" default]
     results := "()" | type | "(" type [name] {"," type [name]} ")"
     type    := base ["(" aliases ")"] ["?"] ["[" [n] "]" ["(" aliases ")"] ["?"]]
     aliases := set ["!"] ["->" set]          set := "*" | letter {"|" letter}

   A failing production has set the error and returns its status; what was built so far hangs on the schema, which
   fac__schema_parse frees. */
#include "dispatch/schema.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>

typedef struct parser {
    const char *text, *p;
} parser;

static const struct {
    const char *text;
    fac_type_kind kind;
} type_names[] = {
    {"Tensor", FAC_TYPE_TENSOR},       {"int", FAC_TYPE_INT},
    {"float", FAC_TYPE_FLOAT},         {"bool", FAC_TYPE_BOOL},
    {"Scalar", FAC_TYPE_SCALAR},       {"str", FAC_TYPE_STRING},
    {"ScalarType", FAC_TYPE_DTYPE},    {"Device", FAC_TYPE_DEVICE},
    {"Layout", FAC_TYPE_LAYOUT},       {"MemoryFormat", FAC_TYPE_FORMAT},
    {"Generator", FAC_TYPE_GENERATOR}, {"Object", FAC_TYPE_OBJECT},
    {"SymInt", FAC_TYPE_INT},          {"SymBool", FAC_TYPE_BOOL},
    {"SymFloat", FAC_TYPE_FLOAT},      {"number", FAC_TYPE_SCALAR},
};

/* ---- characters -------------------------------------------------------------------------------------------------- */

static bool ident_start(char c) { return isalpha((unsigned char)c) || c == '_'; }
static bool ident_part(char c) { return isalnum((unsigned char)c) || c == '_'; }

static void skip_space(parser *s) {
    while (isspace((unsigned char)*s->p)) s->p++;
}

/* The length of the next token, for messages. */
static int token_length(const char *p) {
    int n = 0;
    while (ident_part(p[n])) n++;
    return n ? n : *p != 0;
}

static fac_status fail_at(const parser *s, const char *at, const char *what) {
    int n = token_length(at);
    return FAC_FAIL(FAC_ERR_ARGUMENT, "schema \"%s\", column %d: %s, but here is %s%.*s%s", s->text,
                    (int)(at - s->text) + 1, what, n ? "'" : "the end", n, at, n ? "'" : "");
}

static bool accept(parser *s, const char *token) {
    skip_space(s);
    size_t n = strlen(token);
    if (strncmp(s->p, token, n) != 0) return false;
    s->p += n;
    return true;
}

static fac_status expect(parser *s, const char *token, const char *what) {
    return accept(s, token) ? FAC_OK : fail_at(s, s->p, what);
}

static char *copy_range(const char *begin, const char *end) {
    size_t n = (size_t)(end - begin);
    char *copy = fac__alloc(n + 1);
    if (!copy) return NULL;
    memcpy(copy, begin, n);
    copy[n] = 0;
    return copy;
}

static fac_status parse_ident(parser *s, const char *what, char **out) {
    skip_space(s);
    if (!ident_start(*s->p)) return fail_at(s, s->p, what);
    const char *begin = s->p;
    while (ident_part(*s->p)) s->p++;
    *out = copy_range(begin, s->p);
    return *out ? FAC_OK : FAC_ERR_MEMORY;
}

/* ---- types ------------------------------------------------------------------------------------------------------- */

static fac_status parse_kind(parser *s, fac_type_kind *out) {
    skip_space(s);
    const char *begin = s->p;
    while (ident_part(*s->p)) s->p++;
    size_t n = (size_t)(s->p - begin);
    for (size_t i = 0; i < FAC_COUNT(type_names); i++) {
        if (strlen(type_names[i].text) == n && memcmp(type_names[i].text, begin, n) == 0) {
            *out = type_names[i].kind;
            return FAC_OK;
        }
    }
    return fail_at(s, begin,
                   "a type is expected (Tensor, int, float, bool, Scalar, str, ScalarType, Device, Layout, "
                   "MemoryFormat, Generator or Object)");
}

static fac_status parse_alias_set(parser *s, uint32_t *out) {
    if (accept(s, "*")) {
        *out = FAC_ALIAS_SET_ANY;
        return FAC_OK;
    }
    uint32_t set = 0;
    do {
        skip_space(s);
        if (*s->p < 'a' || *s->p > 'z' || ident_part(s->p[1]))
            return fail_at(s, s->p, "an alias set is named by one small letter or '*'");
        set |= 1u << (*s->p++ - 'a');
    } while (accept(s, "|"));
    *out = set;
    return FAC_OK;
}

/* After the opening parenthesis. */
static fac_status parse_alias(parser *s, fac_schema_type *t) {
    const char *at = s->p;
    if (t->kind != FAC_TYPE_TENSOR || t->before)
        return fail_at(s, at, t->before ? "a type has one alias mark" : "only a Tensor has an alias mark");
    FAC_TRY(parse_alias_set(s, &t->before));
    t->alias = t->before == FAC_ALIAS_SET_ANY ? '*' : (char)('a' + __builtin_ctz(t->before));
    t->write = accept(s, "!");
    if (accept(s, "->")) FAC_TRY(parse_alias_set(s, &t->after));
    return expect(s, ")", "')' ends an alias mark");
}

static fac_status parse_list_size(parser *s, fac_schema_type *t) {
    t->list = true;
    t->elem_optional = t->optional;
    t->optional = false;
    if (accept(s, "]")) return FAC_OK;
    skip_space(s);
    const char *begin = s->p;
    errno = 0;
    char *end = NULL;
    long long n = isdigit((unsigned char)*begin) ? strtoll(begin, &end, 10) : 0;
    if (n < 1 || errno) return fail_at(s, begin, "a list size is a positive integer");
    s->p = end;
    t->list_size = n;
    return expect(s, "]", "']' ends a list type");
}

static fac_status parse_type(parser *s, fac_schema_type *t) {
    *t = (fac_schema_type){0};
    FAC_TRY(parse_kind(s, &t->kind));
    const char *after_kind = s->p;
    if (accept(s, "(")) FAC_TRY(parse_alias(s, t));
    t->optional = accept(s, "?");
    if (!accept(s, "[")) return FAC_OK;
    FAC_TRY(parse_list_size(s, t));
    if (t->elem_optional && t->kind != FAC_TYPE_TENSOR)
        return fail_at(s, after_kind, "only a list of tensors has optional elements; write T[]?");
    if (accept(s, "(")) FAC_TRY(parse_alias(s, t));
    t->optional = accept(s, "?");
    skip_space(s);
    return *s->p == '[' ? fail_at(s, s->p, "a list of lists is not supported") : FAC_OK;
}

/* ---- defaults ---------------------------------------------------------------------------------------------------- */

bool fac__default_int(const char *text, int64_t *out) {
    if (strcmp(text, "Mean") == 0 || strcmp(text, "Sum") == 0) {
        *out = *text == 'M' ? 1 : 2;
        return true;
    }
    if (!isdigit((unsigned char)text[*text == '-'])) return false;
    char *end;
    errno = 0;
    long long v = strtoll(text, &end, 10);
    *out = v;
    return *end == 0 && errno == 0;
}

static bool is_bool(const char *text) { return strcmp(text, "True") == 0 || strcmp(text, "False") == 0; }

/* Digits with an optional point and exponent, inf, nan; "2j" if imaginary is allowed. No hexadecimal. */
static bool is_number(const char *text, bool imaginary) {
    const char *p = text + (*text == '-');
    if (strcmp(p, "inf") == 0 || strcmp(p, "nan") == 0) return true;
    if (!isdigit((unsigned char)*p) && !(*p == '.' && isdigit((unsigned char)p[1]))) return false;
    if (p[0] == '0' && (p[1] == 'x' || p[1] == 'X')) return false;
    char *end;
    strtod(p, &end);
    if (imaginary && *end == 'j') end++;
    return *end == 0;
}

static bool is_word(const char *text) { return ident_start(*text) && !is_bool(text) && strcmp(text, "None") != 0; }

/* Whether one element (or a plain default) is a literal of the kind. */
static bool kind_takes(fac_type_kind kind, const char *text) {
    int64_t ignored;
    switch (kind) {
    case FAC_TYPE_INT: return fac__default_int(text, &ignored);
    case FAC_TYPE_FLOAT: return is_number(text, false);
    case FAC_TYPE_BOOL: return is_bool(text);
    case FAC_TYPE_SCALAR: return is_bool(text) || is_number(text, true);
    case FAC_TYPE_STRING: return *text == '"';
    case FAC_TYPE_DEVICE: return *text == '"' || is_word(text);
    case FAC_TYPE_DTYPE:
    case FAC_TYPE_LAYOUT:
    case FAC_TYPE_FORMAT: return is_word(text);
    default: return false;
    }
}

/* A quoted string, rewritten with double quotes. Escapes stay as they are. */
static fac_status read_string(parser *s, fac_buf *b) {
    const char *begin = s->p;
    char quote = *s->p++;
    FAC_TRY(fac__buf_add(b, "\"", 1));
    while (*s->p && *s->p != quote) {
        if (*s->p == '\\' && s->p[1]) {
            FAC_TRY(fac__buf_add(b, s->p++, 1));
        } else if (*s->p == '"') {
            FAC_TRY(fac__buf_add(b, "\\", 1));
        }
        FAC_TRY(fac__buf_add(b, s->p++, 1));
    }
    if (*s->p != quote) return fail_at(s, begin, "a string needs its closing quote");
    s->p++;
    return fac__buf_add(b, "\"", 1);
}

/* One literal, appended to b; unquoted text runs to the next separator. */
static fac_status read_literal(parser *s, fac_buf *b) {
    skip_space(s);
    if (*s->p == '"' || *s->p == '\'') return read_string(s, b);
    const char *begin = s->p;
    while (*s->p && !isspace((unsigned char)*s->p) && !strchr(",)]", *s->p)) s->p++;
    if (s->p == begin) return fail_at(s, begin, "a default value is expected");
    return fac__buf_add(b, begin, (size_t)(s->p - begin));
}

/* After the opening bracket. Each element is checked against the list's kind. */
static fac_status read_list(parser *s, fac_type_kind kind, fac_buf *b) {
    FAC_TRY(fac__buf_add(b, "[", 1));
    skip_space(s);
    for (bool first = true; !accept(s, "]"); first = false) {
        if (!first) {
            FAC_TRY(expect(s, ",", "',' or ']' is expected in a list"));
            FAC_TRY(fac__buf_add(b, ",", 1));
            skip_space(s);
        }
        const char *at = s->p;
        size_t start = b->n;
        FAC_TRY(read_literal(s, b));
        if (!kind_takes(kind, b->data + start)) return fail_at(s, at, "the list's type cannot hold this element");
    }
    return fac__buf_add(b, "]", 1);
}

static fac_status read_default(parser *s, const fac_schema_type *t, fac_buf *b) {
    skip_space(s);
    const char *at = s->p;
    if (*at == '[') {
        if (!t->list) return fail_at(s, at, "the default must be a plain value, since the type is no list");
        s->p++;
        return read_list(s, t->kind, b);
    }
    FAC_TRY(read_literal(s, b));
    if (strcmp(b->data, "None") == 0)
        return t->optional ? FAC_OK : fail_at(s, at, "only an optional type (T?) may have the default None");
    if (t->list && !t->list_size) return fail_at(s, at, "the default of an open list is written [...]");
    return kind_takes(t->kind, b->data) ? FAC_OK : fail_at(s, at, "the default must be a value of the argument's type");
}

static fac_status parse_default(parser *s, fac_schema_arg *a) {
    fac_buf b = {0};
    fac_status st = read_default(s, &a->type, &b);
    if (st == FAC_OK) {
        a->default_text = fac__strdup(b.data);
        if (!a->default_text) st = FAC_ERR_MEMORY;
    }
    fac__buf_free(&b);
    return st;
}

/* ---- arguments and results --------------------------------------------------------------------------------------- */

/* A fresh zeroed entry at the end of a list of n. */
static fac_status append(fac_schema_arg **v, size_t *n, size_t *cap, fac_schema_arg **out) {
    FAC_TRY(fac__vec_grow((void **)v, *n, cap, sizeof **v));
    *out = &(*v)[(*n)++];
    **out = (fac_schema_arg){0};
    return FAC_OK;
}

/* The last of n entries must differ in name from those before it. */
static fac_status check_unique(const parser *s, const char *at, const fac_schema_arg *v, size_t n) {
    for (size_t i = 0; i + 1 < n; i++) {
        if (v[n - 1].name[0] && strcmp(v[i].name, v[n - 1].name) == 0)
            return fail_at(s, at, "names must differ from those before");
    }
    return FAC_OK;
}

static fac_status parse_arg(parser *s, fac_schema_arg *a, bool kwarg_only) {
    a->kwarg_only = kwarg_only;
    FAC_TRY(parse_type(s, &a->type));
    FAC_TRY(parse_ident(s, "an argument's name is expected", &a->name));
    return accept(s, "=") ? parse_default(s, a) : FAC_OK;
}

static fac_status parse_args(parser *s, fac_schema *out) {
    FAC_TRY(expect(s, "(", "'(' begins the arguments"));
    bool kwarg_only = false, seen_default = false;
    size_t cap = 0;
    if (accept(s, ")")) return FAC_OK;
    do {
        skip_space(s);
        const char *at = s->p;
        if (accept(s, "*")) {
            if (kwarg_only) return fail_at(s, at, "'*' stands once");
            kwarg_only = true;
            skip_space(s);
            if (*s->p != ',') return fail_at(s, s->p, "arguments must follow '*'");
            continue;
        }
        fac_schema_arg *a;
        FAC_TRY(append(&out->args, &out->n_args, &cap, &a));
        FAC_TRY(parse_arg(s, a, kwarg_only));
        FAC_TRY(check_unique(s, at, out->args, out->n_args));
        if (seen_default && !a->default_text && !kwarg_only)
            return fail_at(s, at, "a positional argument after one with a default needs a default");
        seen_default |= a->default_text != NULL;
    } while (accept(s, ","));
    return expect(s, ")", "',' or ')' is expected after an argument");
}

/* A result's mark must name a set of some argument (in "b|a" one of the two may be new); a wildcard needs none. */
static fac_status check_result_alias(const parser *s, const char *at, const fac_schema *o, const fac_schema_type *t) {
    uint32_t known = FAC_ALIAS_SET_ANY;
    for (size_t i = 0; i < o->n_args; i++) known |= o->args[i].type.before | o->args[i].type.after;
    bool bad = (t->before && !(t->before & known)) || (t->after && !(t->after & known));
    return bad ? fail_at(s, at, "a result's alias set must be one of an argument") : FAC_OK;
}

static fac_status parse_result(parser *s, fac_schema *out, size_t *cap) {
    skip_space(s);
    const char *at = s->p;
    fac_schema_arg *r;
    FAC_TRY(append(&out->rets, &out->n_rets, cap, &r));
    FAC_TRY(parse_type(s, &r->type));
    FAC_TRY(check_result_alias(s, at, out, &r->type));
    skip_space(s);
    if (ident_start(*s->p)) {
        FAC_TRY(parse_ident(s, "a result's name is expected", &r->name));
    } else {
        r->name = fac__strdup("");
        if (!r->name) return FAC_ERR_MEMORY;
    }
    return check_unique(s, at, out->rets, out->n_rets);
}

static fac_status parse_results(parser *s, fac_schema *out) {
    size_t cap = 0;
    FAC_TRY(expect(s, "->", "'->' begins the results"));
    if (!accept(s, "(")) return parse_result(s, out, &cap);
    if (accept(s, ")")) return FAC_OK;
    do FAC_TRY(parse_result(s, out, &cap));
    while (accept(s, ","));
    return expect(s, ")", "',' or ')' is expected after a result");
}

static fac_status parse_end(parser *s) {
    skip_space(s);
    return *s->p ? fail_at(s, s->p, "the schema should end") : FAC_OK;
}

static fac_status parse_name(parser *s, fac_schema *out) {
    FAC_TRY(parse_ident(s, "an operator's name is expected", &out->name));
    if (accept(s, "::")) {
        out->ns = out->name;
        out->name = NULL;
        FAC_TRY(parse_ident(s, "an operator's name is expected after '::'", &out->name));
    } else {
        out->ns = fac__strdup("aten");
    }
    if (accept(s, ".")) return parse_ident(s, "an overload's name is expected after '.'", &out->overload);
    out->overload = fac__strdup("");
    return out->ns && out->overload ? FAC_OK : FAC_ERR_MEMORY;
}

fac_status fac__schema_parse(const char *text, fac_schema **out) {
    *out = NULL;
    FAC_CHECK(text, FAC_ERR_ARGUMENT,
              "a schema is expected, such as \"ns::name(Tensor self) -> Tensor\", but it is NULL");
    fac_schema *o = fac__alloc_zero(sizeof *o);
    if (!o) return FAC_ERR_MEMORY;
    parser s = {text, text};
    fac_status st = parse_name(&s, o);
    if (st == FAC_OK) st = parse_args(&s, o);
    if (st == FAC_OK) st = parse_results(&s, o);
    if (st == FAC_OK) st = parse_end(&s);
    if (st == FAC_OK) st = fac__schema_texts(o);
    if (st != FAC_OK) {
        fac__schema_free(o);
        return st;
    }
    *out = o;
    return FAC_OK;
}

static void free_args(fac_schema_arg *v, size_t n) {
    for (size_t i = 0; i < n; i++) {
        fac__free(v[i].name);
        fac__free(v[i].default_text);
    }
    fac__free(v);
}

void fac__schema_free(fac_schema *s) {
    if (!s) return;
    fac__free(s->ns);
    fac__free(s->name);
    fac__free(s->overload);
    fac__free(s->full);
    fac__free(s->text);
    free_args(s->args, s->n_args);
    free_args(s->rets, s->n_rets);
    fac__free(s);
}

/* ---- signatures as a user writes them ---------------------------------------------------------------------------- */

/* Types separated by commas, in parentheses or not; "()" stands for none. */
static fac_status parse_types(parser *s, fac_schema_arg **v, size_t *n) {
    size_t cap = 0;
    if (accept(s, "()")) return FAC_OK;
    bool parens = accept(s, "(");
    do {
        fac_schema_arg *a;
        FAC_TRY(append(v, n, &cap, &a));
        FAC_TRY(parse_type(s, &a->type));
    } while (accept(s, ","));
    return parens ? expect(s, ")", "',' or ')' is expected after a type") : FAC_OK;
}

fac_status fac__signature_normalise(const char *text, char **out) {
    *out = NULL;
    FAC_CHECK(text, FAC_ERR_ARGUMENT, "a signature is expected, such as \"Tensor, int -> Tensor\", but it is NULL");
    fac_schema o = {0};
    parser s = {text, text};
    fac_status st = parse_types(&s, &o.args, &o.n_args);
    if (st == FAC_OK) st = expect(&s, "->", "'->' is expected before the results");
    if (st == FAC_OK) st = parse_types(&s, &o.rets, &o.n_rets);
    if (st == FAC_OK) st = parse_end(&s);
    if (st == FAC_OK && !(*out = fac__schema_signature(&o))) st = FAC_ERR_MEMORY;
    free_args(o.args, o.n_args);
    free_args(o.rets, o.n_rets);
    return st;
}
