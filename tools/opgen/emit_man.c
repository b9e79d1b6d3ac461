/* A manual page per public functional operator: synopsis of all its forms, then what the entry says. */
#include "opgen.h"
#include <stdlib.h>

/* Text with what troff would take for a request or an escape made harmless. */
static void troff(FILE *f, const char *s) {
    if (*s == '.' || *s == '\'') fputs("\\&", f);
    for (; *s; s++) {
        if (*s == '\\')
            fputs("\\e", f);
        else if (*s == '-')
            fputs("\\-", f);
        else
            fputc(*s, f);
    }
}

static void section(FILE *f, const char *title, const char *text) {
    if (!text) return;
    fprintf(f, ".SH %s\n", title);
    troff(f, text);
    fputc('\n', f);
}

static void synopsis(FILE *f, const op *o) {
    fprintf(f, ".PP\n.BI \"%sfac_%s(", result_type(o), o->macro ? o->macro : o->cname);
    const char *sep = "";
    for (size_t i = 0; i < o->n_out_args; i++, sep = ", ")
        fprintf(f, "%sfac_tensor *\" %s \"", sep, o->s->args[o->s->n_args - o->n_out_args + i].name);
    for (size_t i = 0; i < o->n_pos; i++, sep = ", ")
        fprintf(f, "%s%s\" %s \"", sep, plain_type(&o->s->args[i].type), o->s->args[i].name);
    const fac_schema *s = o->functional ? o->functional->s : o->s;
    for (size_t i = o->n_pos; i < s->n_args; i++, sep = ", ") fprintf(f, "%s.\" %s \"", sep, kw_name(&s->args[i]));
    fputs(");\"\n", f);
}

static void keywords(FILE *f, const op *o) {
    if (o->s->n_args <= o->n_pos) return;
    fputs(".SH KEYWORDS\n", f);
    for (size_t i = o->n_pos; i < o->s->n_args; i++) {
        const fac_schema_arg *a = &o->s->args[i];
        const char *second = kw_second_name(a);
        fprintf(f, ".TP\n.BI \"%s\" .%s", kw_type(a), kw_name(a));
        if (second) fprintf(f, " \", or \" .%s", second);
        fputs("\ndefault ", f);
        troff(f, a->default_text);
        fputs(a->kwarg_only ? "; by name only\n" : "\n", f);
    }
}

void emit_man(FILE *f, const model *m, const op *o) {
    const entry *e = o->e;
    fprintf(f, ".TH fac_%s 3 \"\" \"Facula\" \"Facula operators\"\n.SH NAME\nfac_%s \\- ", o->cname, o->cname);
    char *line = xformat("%s", e->doc);
    line[strlen(line) - 1] = 0;
    troff(f, line);
    free(line);
    fputs("\n.SH SYNOPSIS\n.B #include <facula/facula.h>\n", f);
    for (size_t i = 0; i < m->n_ops; i++)
        if (m->ops[i].e == e) synopsis(f, &m->ops[i]);
    fputs(".SH SCHEMA\n", f);
    for (size_t i = 0; i < m->n_ops; i++)
        if (m->ops[i].e == e) {
            fputs(".br\n", f);
            troff(f, m->ops[i].s->text);
            fputc('\n', f);
        }
    section(f, "DESCRIPTION", e->doc);
    section(f, "SHAPE", e->shape);
    section(f, "DTYPE", e->dtype);
    keywords(f, o);
    section(f, "ERRORS", e->errors);
    if (e->nondifferentiable)
        section(f, "GRADIENT", xformat("None: %s.", e->nondifferentiable));
    else if (e->double_backward)
        section(f, "GRADIENT", xformat("Of second order %s.", e->double_backward));
    else if (e->composite)
        section(f, "GRADIENT", "Through the operators it is made of.");
    else {
        fputs(".SH GRADIENT\n", f);
        for (size_t i = 0; i < e->grad.n; i++) {
            fprintf(f, ".TP\n.I %s\n", e->grad.v[i].key);
            troff(f, e->grad.v[i].value);
            fputc('\n', f);
        }
    }
    section(f, "SOURCE", e->source);
}
