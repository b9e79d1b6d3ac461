/* api.json: every public function, type and macro, for those who make bindings and documents. docs/api-list.md describes the
   format. */
#include "opgen.h"
#include <stdlib.h>

static void text_member(FILE *f, const char *name, const char *value) {
    fprintf(f, ", \"%s\": ", name);
    quoted(f, value ? value : "");
}

static char *trimmed(const char *type) {
    size_t n = strlen(type);
    while (n && type[n - 1] == ' ') n--;
    return xformat("%.*s", (int)n, type);
}

static void parameter_entry(FILE *f, const char *sep, const char *type, const char *name) {
    fprintf(f, "%s{\"name\": \"%s\", \"type\": ", sep, name);
    quoted(f, trimmed(type));
    fputc('}', f);
}

static const char *field_separator; /* of the next keyword */

static const op *field_owner; /* whose keywords are written */

static const char *const none = "none"; /* the default of what need not be given */

static char *default_text(const fac_schema_arg *a) {
    const char *d = a->default_text;
    if (is_reduction(a)) return xformat("FAC_REDUCTION_MEAN");
    if (strcmp(d, "None") == 0 || strcmp(d, "[]") == 0) return xformat("%s", none);
    if (strcmp(d, "True") == 0 || strcmp(d, "False") == 0) return xformat("%s", d[0] == 'T' ? "true" : "false");
    if (d[0] == '[') return xformat("FAC_INTS(%.*s)", (int)strlen(d) - 2, d + 1);
    const etype t = type_of(&a->type);
    return t == T_FORMAT || t == T_STRING || t == T_DTYPE ? default_c(field_owner, a) : xformat("%s", d);
}

/* What a keyword is when it is not given, as a user would write it, and whether it has no position. The stray has neither. */
static void default_members(FILE *f, const char *name) {
    const fac_schema *s = (field_owner->functional ? field_owner->functional : field_owner)->s;
    for (size_t i = 0; i < s->n_args; i++) {
        const fac_schema_arg *a = &s->args[i];
        const char *second = a->default_text ? kw_second_name(a) : NULL;
        if (strcmp(kw_name(a), name) == 0 && a->default_text) {
            text_member(f, "default", default_text(a));
            fprintf(f, ", \"by_name\": %s", a->kwarg_only ? "true" : "false");
        } else if (second && strcmp(second, name) == 0) {
            text_member(f, "default", none);
            text_member(f, "instead_of", kw_name(a));
        }
    }
    if (strcmp(name, "requires_grad") == 0) fputs(", \"default\": \"false\", \"by_name\": true", f);
}

static void field_entry(FILE *f, const char *type, const char *name, const char *init, const char *comment) {
    fprintf(f, "%s{\"name\": \"%s\", \"type\": ", field_separator, name);
    quoted(f, trimmed(type));
    text_member(f, "unset", init);
    text_member(f, "comment", comment);
    default_members(f, name);
    fputc('}', f);
    field_separator = ", ";
}

static void keyword_entries(FILE *f, const op *o) {
    field_separator = "";
    field_owner = o;
    fprintf(f, ", \"keyword_struct\": \"fac_%s_kw\", \"keywords\": [", o->kw);
    each_kw_field(f, o, field_entry);
    fputc(']', f);
}

static void function_entry(FILE *f, const model *m, const function *fn, const char *kind) {
    fprintf(f, "{\"name\": \"fac_%s\", \"kind\": \"%s\", \"header\": \"facula/%s.h\", \"line\": %d, \"result\": ",
            fn->name, kind, fn->header, fn->line);
    quoted(f, fn->result);
    fprintf(f, ", \"must_use\": %s, \"variadic\": %s, \"parameters\": [", fn->must ? "true" : "false",
            fn->variadic ? "true" : "false");
    for (size_t i = 0; i < fn->n; i++) parameter_entry(f, i ? ", " : "", fn->v[i].type, fn->v[i].name);
    fputc(']', f);
    const entry *e = fn_keywords(m, fn);
    if (e) {
        const op o = fn_op(e);
        keyword_entries(f, &o);
    }
    text_member(f, "section", fn->section);
    text_member(f, "doc", fn->doc);
    fputc('}', f);
}

static void operator_parameters(FILE *f, const op *o) {
    const char *sep = "";
    for (size_t i = 0; i < o->n_out_args; i++, sep = ", ")
        parameter_entry(f, sep, "fac_tensor *", o->s->args[o->s->n_args - o->n_out_args + i].name);
    for (size_t i = 0; i < o->n_pos; i++, sep = ", ")
        parameter_entry(f, sep, plain_type(&o->s->args[i].type), o->s->args[i].name);
    if (o->kw) parameter_entry(f, sep, xformat("const fac_%s_kw *", o->kw), "kw");
}

/* Which arguments have one, or why none has. */
static char *gradient_text(const op *o) {
    const entry *e = o->e;
    if (o->form == FORM_OUT) return xformat("none: out forms take no part in autograd");
    if (e->nondifferentiable) return xformat("none: %s", e->nondifferentiable);
    if (e->composite) return xformat("through the operators that it is made of");
    char *text = xformat("%s", "");
    for (size_t i = 0; i < e->grad.n; i++) {
        const pair *p = &e->grad.v[i];
        if (strcmp(p->value, "None") == 0) continue;
        const char *why = strncmp(p->value, "unsupported(", 12) ? "" : p->value;
        text = xformat("%s%s%s%s%s", text, *text ? ", " : "", p->key, *why ? " " : "", why);
    }
    if (e->double_backward) text = xformat("%s%sof second order %s", text, *text ? "; " : "", e->double_backward);
    return text;
}

static void operator_entry(FILE *f, const op *o) {
    const entry *e = o->e;
    fprintf(f, "{\"name\": \"fac_%s\", \"kind\": \"operator\", \"header\": \"facula/ops.h\", \"result\": ", o->cname);
    quoted(f, trimmed(result_type(o)));
    fprintf(f, ", \"must_use\": %s, \"parameters\": [", must_use(o) ? "true" : "false");
    operator_parameters(f, o);
    fputs("], \"result_fields\": [", f);
    for (size_t i = 0; o->s->n_rets > 1 && i < o->s->n_rets; i++)
        fprintf(f, "%s\"%s\"", i ? ", " : "", result_field(o->functional ? o->functional : o, i));
    fputc(']', f);
    if (o->kw) keyword_entries(f, o);
    static const char *const forms[] = {"functional", "inplace", "out"};
    text_member(f, "form", forms[o->form]);
    text_member(f, "form_of", xformat("fac_%s", (o->functional ? o->functional : o)->cname));
    text_member(f, "macro", o->macro ? xformat("fac_%s", o->macro) : NULL);
    text_member(f, "operator", o->s->full);
    text_member(f, "schema", o->s->text);
    text_member(f, "family", e->family);
    text_member(f, "doc", e->doc);
    text_member(f, "shape", e->shape);
    text_member(f, "dtype", e->dtype);
    text_member(f, "errors", e->errors);
    text_member(f, "source", e->source);
    text_member(f, "gradient", gradient_text(o));
    fprintf(f, ", \"differentiable\": %s}", o->form != FORM_OUT && (o->grad || e->composite) ? "true" : "false");
}

static void type_entry(FILE *f, const declaration *d) {
    const bool is_enum = strcmp(d->kind, "enum") == 0;
    fprintf(f, "{\"name\": \"%s\", \"kind\": \"%s\", \"header\": \"facula/%s.h\", \"line\": %d", d->name, d->kind,
            d->header, d->line);
    text_member(f, "section", d->section);
    text_member(f, "text", d->text);
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
    text_member(f, "doc", d->doc);
    fputc('}', f);
}

static void macro_entry(FILE *f, const declaration *d) {
    fprintf(f, "{\"name\": \"%s\", \"header\": \"facula/%s.h\", \"line\": %d", d->name, d->header, d->line);
    text_member(f, "section", d->section);
    text_member(f, "text", d->text);
    text_member(f, "doc", d->doc);
    fputc('}', f);
}

static void emit_declarations(FILE *f, const model *m, bool macros) {
    const char *sep = "";
    for (size_t i = 0; i < m->n_declarations; i++) {
        const declaration *d = &m->declarations[i];
        if ((strcmp(d->kind, "macro") == 0) != macros) continue;
        fprintf(f, "%s\n  ", sep);
        (macros ? macro_entry : type_entry)(f, d);
        sep = ",";
    }
}

static void emit_headers(FILE *f, const model *m) {
    for (size_t i = 0; i < m->n_headers; i++) {
        fprintf(f, "%s\n  {\"name\": \"facula/%s.h\"", i ? "," : "", m->headers[i].name);
        text_member(f, "doc", m->headers[i].doc);
        fputc('}', f);
    }
}

static void emit_functions(FILE *f, const model *m) {
    const char *sep = "";
    for (size_t i = 0; i < m->n_functions; i++, sep = ",") {
        fprintf(f, "%s\n  ", sep);
        function_entry(f, m, &m->functions[i], "function");
    }
    for (size_t i = 0; i < m->n_ops; i++) {
        if (m->ops[i].e->internal) continue;
        fprintf(f, "%s\n  ", sep);
        operator_entry(f, &m->ops[i]);
        sep = ",";
    }
}

void emit_api(FILE *f, const model *m) {
    fputs("{\"format\": 1,\n \"headers\": [", f);
    emit_headers(f, m);
    fputs("\n ],\n \"functions\": [", f);
    emit_functions(f, m);
    fputs("\n ],\n \"inline_functions\": [", f);
    for (size_t i = 0; i < m->n_inlines; i++) {
        fprintf(f, "%s\n  ", i ? "," : "");
        function_entry(f, m, &m->inlines[i], "inline");
    }
    fputs("\n ],\n \"types\": [", f);
    emit_declarations(f, m, false);
    fputs("\n ],\n \"macros\": [", f);
    emit_declarations(f, m, true);
    fputs("\n ]}\n", f);
}
