/* api.json: every public function, type and macro, for those who make bindings and documents. docs/api-list.md describes the
   format. */
#include "opgen.h"

static void text_member(FILE *f, const char *name, const char *value) {
    fprintf(f, ", \"%s\": ", name);
    quoted(f, value ? value : "");
}

char *trimmed(const char *type) {
    size_t n = strlen(type);
    while (n && type[n - 1] == ' ') n--;
    return xformat("%.*s", (int)n, type);
}

static void typed_name(FILE *f, const char *type, const char *name) {
    fprintf(f, "{\"name\": \"%s\", \"type\": ", name);
    quoted(f, trimmed(type));
}

static const char *const none = "none"; /* the default of what need not be given */

/* What a keyword is when it is not given, as a user would write it. */
static char *default_text(const op *o, const fac_schema_arg *a) {
    const char *d = a->default_text;
    if (is_reduction(a)) return "FAC_REDUCTION_MEAN";
    if (strcmp(d, "None") == 0 || strcmp(d, "[]") == 0) return xformat("%s", none);
    if (strcmp(d, "True") == 0 || strcmp(d, "False") == 0) return xformat("%s", d[0] == 'T' ? "true" : "false");
    if (d[0] == '[') return xformat("FAC_INTS(%.*s)", (int)strlen(d) - 2, d + 1);
    const etype t = type_of(&a->type);
    return t == T_FORMAT || t == T_STRING || t == T_DTYPE ? default_c(o, a) : xformat("%s", d);
}

static void keyword_entry(FILE *f, const op *o, const kw_field *k) {
    typed_name(f, k->type, k->name);
    text_member(f, "unset", k->init);
    text_member(f, "comment", k->comment);
    if (k->is_second) {
        text_member(f, "default", none);
        text_member(f, "instead_of", kw_name(k->arg));
    } else if (k->arg) {
        text_member(f, "default", default_text(o, k->arg));
        fprintf(f, ", \"by_name\": %s", k->arg->kwarg_only ? "true" : "false");
    } else if (strcmp(k->name, "requires_grad") == 0)
        fputs(", \"default\": \"false\", \"by_name\": true", f);
    fputc('}', f);
}

static void keyword_entries(FILE *f, const op *o) {
    const kw_fields k = fields_of_keywords(o);
    emit(f, o, ", \"keyword_struct\": \"fac_$kw_kw\", \"keywords\": [");
    for (size_t i = 0; i < k.n; i++) {
        fputs(i ? ", " : "", f);
        keyword_entry(f, o, &k.v[i]);
    }
    fputc(']', f);
}

static void function_entry(FILE *f, const model *m, const function *fn, const char *kind) {
    fprintf(f, "{\"name\": \"fac_%s\", \"kind\": \"%s\", \"header\": \"facula/%s.h\", \"line\": %d, \"result\": ",
            fn->name, kind, fn->header, fn->line);
    quoted(f, fn->result);
    fprintf(f, ", \"must_use\": %s, \"variadic\": %s, \"parameters\": [", fn->must ? "true" : "false",
            fn->variadic ? "true" : "false");
    for (size_t i = 0; i < fn->n; i++) {
        fputs(i ? ", " : "", f);
        typed_name(f, fn->v[i].type, fn->v[i].name);
        fputc('}', f);
    }
    fputc(']', f);
    const op *o = fn_keywords(m, fn);
    if (o) keyword_entries(f, o);
    text_member(f, "section", fn->section);
    text_member(f, "doc", fn->doc);
    fputc('}', f);
}

static void operator_entry(FILE *f, const op *o) {
    static const char *const forms[] = {"functional", "inplace", "out"};
    const entry *e = o->e;
    emit(f, o, "{\"name\": \"fac_$cname\", \"kind\": \"operator\", \"header\": \"facula/ops.h\", \"result\": \"%s\", ",
         trimmed(result_type(o)));
    fprintf(f, "\"must_use\": %s, \"parameters\": [%s], \"result_fields\": [%s]", must_use(o) ? "true" : "false",
            listed(positional(o, "{\"name\": \"$a\", \"type\": \"$trimmed\"}"),
                   o->kw ? fill(o, "{\"name\": \"kw\", \"type\": \"const fac_$kw_kw *\"}") : ""),
            o->s->n_rets > 1 ? each_result(o, ", ", "\"$field\"") : "");
    if (o->kw) keyword_entries(f, o);
    text_member(f, "form", forms[o->form]);
    text_member(f, "form_of", xformat("fac_%s", base_of(o)->cname));
    text_member(f, "macro", o->macro ? xformat("fac_%s", o->macro) : NULL);
    text_member(f, "operator", o->s->full);
    text_member(f, "schema", o->s->text);
    text_member(f, "family", e->family);
    text_member(f, "doc", e->doc);
    text_member(f, "shape", e->shape);
    text_member(f, "dtype", e->dtype);
    text_member(f, "errors", e->errors);
    text_member(f, "source", e->source);
    text_member(f, "gradient", gradient_source(o));
    fprintf(f, ", \"differentiable\": %s}", o->form != FORM_OUT && (o->grad || e->composite) ? "true" : "false");
}

static void member_entries(FILE *f, const declaration *d) {
    const bool is_enum = strcmp(d->kind, "enum") == 0;
    fprintf(f, ", \"%s\": [", is_enum ? "enumerators" : "members");
    for (size_t i = 0; i < d->n; i++) {
        fprintf(f, "%s{\"name\": \"%s\"", i ? ", " : "", d->v[i].name);
        if (is_enum)
            fprintf(f, ", \"value\": %s", d->v[i].value);
        else
            text_member(f, "declaration", d->v[i].value);
        fputc('}', f);
    }
    fputc(']', f);
}

static void emit_declarations(FILE *f, const model *m, bool macros) {
    const char *sep = "";
    for (size_t i = 0; i < m->declarations.n; i++) {
        const declaration *d = &m->declarations.v[i];
        if ((strcmp(d->kind, "macro") == 0) != macros) continue;
        fprintf(f, "%s\n  {\"name\": \"%s\"", sep, d->name);
        if (!macros) text_member(f, "kind", d->kind);
        fprintf(f, ", \"header\": \"facula/%s.h\", \"line\": %d", d->header, d->line);
        text_member(f, "section", d->section);
        text_member(f, "text", d->text);
        if (!macros) member_entries(f, d);
        text_member(f, "doc", d->doc);
        fputc('}', f);
        sep = ",";
    }
}

static void emit_headers(FILE *f, const model *m) {
    for (size_t i = 0; i < m->headers.n; i++) {
        fprintf(f, "%s\n  {\"name\": \"facula/%s.h\"", i ? "," : "", m->headers.v[i].name);
        text_member(f, "doc", m->headers.v[i].doc);
        fputc('}', f);
    }
}

static void emit_functions(FILE *f, const model *m) {
    const char *sep = "";
    for (size_t i = 0; i < m->functions.n; i++, sep = ",") {
        fprintf(f, "%s\n  ", sep);
        function_entry(f, m, &m->functions.v[i], "function");
    }
    for (size_t i = 0; i < m->ops.n; i++) {
        if (m->ops.v[i].e->internal) continue;
        fprintf(f, "%s\n  ", sep);
        operator_entry(f, &m->ops.v[i]);
        sep = ",";
    }
}

void emit_api(FILE *f, const model *m) {
    fputs("{\"format\": 1,\n \"headers\": [", f);
    emit_headers(f, m);
    fputs("\n ],\n \"functions\": [", f);
    emit_functions(f, m);
    fputs("\n ],\n \"inline_functions\": [", f);
    for (size_t i = 0; i < m->inlines.n; i++) {
        fprintf(f, "%s\n  ", i ? "," : "");
        function_entry(f, m, &m->inlines.v[i], "inline");
    }
    fputs("\n ],\n \"types\": [", f);
    emit_declarations(f, m, false);
    fputs("\n ],\n \"macros\": [", f);
    emit_declarations(f, m, true);
    fputs("\n ]}\n", f);
}
