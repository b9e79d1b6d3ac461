/* api.json: every public function, its types and keywords, for those who make bindings and documents. docs/api-list.md
   describes the format. */
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

static void field_entry(FILE *f, const char *type, const char *name, const char *init, const char *comment) {
    fprintf(f, "%s{\"name\": \"%s\", \"type\": ", field_separator, name);
    quoted(f, trimmed(type));
    text_member(f, "unset", init);
    text_member(f, "comment", comment);
    fputc('}', f);
    field_separator = ", ";
}

static void keyword_entries(FILE *f, const op *o) {
    field_separator = "";
    fprintf(f, ", \"keyword_struct\": \"fac_%s_kw\", \"keywords\": [", o->kw);
    each_kw_field(f, o, field_entry);
    fputc(']', f);
}

static void function_entry(FILE *f, const model *m, const function *fn) {
    fprintf(f, "{\"name\": \"fac_%s\", \"kind\": \"function\", \"header\": \"facula/%s.h\", \"result\": ", fn->name,
            fn->header);
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
    text_member(f, "macro", o->macro ? xformat("fac_%s", o->macro) : NULL);
    text_member(f, "operator", o->s->full);
    text_member(f, "schema", o->s->text);
    text_member(f, "family", e->family);
    text_member(f, "doc", e->doc);
    text_member(f, "shape", e->shape);
    text_member(f, "dtype", e->dtype);
    text_member(f, "errors", e->errors);
    text_member(f, "source", e->source);
    fprintf(f, ", \"differentiable\": %s}", o->form != FORM_OUT && (o->grad || e->composite) ? "true" : "false");
}

void emit_api(FILE *f, const model *m) {
    const char *sep = "";
    fputs("{\"format\": 1,\n \"functions\": [", f);
    for (size_t i = 0; i < m->n_functions; i++, sep = ",") {
        fprintf(f, "%s\n  ", sep);
        function_entry(f, m, &m->functions[i]);
    }
    for (size_t i = 0; i < m->n_ops; i++) {
        if (m->ops[i].e->internal) continue;
        fprintf(f, "%s\n  ", sep);
        operator_entry(f, &m->ops[i]);
        sep = ",";
    }
    fputs("\n ]}\n", f);
}
