/* Entries into operators: parses the schemas, makes the in-place and out forms, settles every name. */
#include "opgen.h"
#include <ctype.h>
#include <stdlib.h>

static fac_schema *parse(const entry *e, const char *text) {
    fac_schema *s;
    if (fac__schema_parse(text, &s) != FAC_OK) die(e->file, e->line, "%s", fac_error_message());
    return s;
}

bool is_pointwise(const entry *e) { return e->loop || e->kernel; }

static bool has_variant(const entry *e, const char *name) {
    if (!e->variants) return strcmp(name, "function") == 0;
    for (char **v = e->variants; *v; v++)
        if (strcmp(*v, name) == 0) return true;
    return false;
}

static void check_variants(const entry *e) {
    for (char **v = e->variants; v && *v; v++)
        if (strcmp(*v, "function") && strcmp(*v, "inplace") && strcmp(*v, "out"))
            die(e->file, e->line, "variant '%s' is none of function, inplace, out", *v);
}

static char *lower(const char *s) {
    char *t = xformat("%s", s);
    for (char *p = t; *p; p++) *p = (char)tolower((unsigned char)*p);
    return t;
}

static char *mangle(const fac_schema *s) {
    return s->overload[0] ? xformat("%s_%s", s->name, s->overload) : xformat("%s", s->name);
}

/* The schema's text with its arguments and results spelt out again, for the derived forms. */
static void write_args(FILE *f, const fac_schema *s, bool write_first) {
    bool star = false;
    for (size_t i = 0; i < s->n_args; i++) {
        const fac_schema_arg *a = &s->args[i];
        char buf[64];
        if (i) fputs(", ", f);
        if (a->kwarg_only && !star) {
            fputs("*, ", f);
            star = true;
        }
        fprintf(f, "%s %s", i == 0 && write_first ? "Tensor(a!)" : fac__type_text(&a->type, buf, sizeof buf), a->name);
        if (a->default_text) fprintf(f, "=%s", a->default_text);
    }
}

static char *inplace_schema(const fac_schema *s) {
    char *text;
    size_t size;
    FILE *f = open_memstream(&text, &size);
    fprintf(f, "%s_%s%s(", s->name, s->overload[0] ? "." : "", s->overload);
    write_args(f, s, true);
    fputs(") -> Tensor(a!)", f);
    fclose(f);
    return text;
}

static char *out_schema(const entry *e, const fac_schema *s) {
    char *text;
    size_t size;
    FILE *f = open_memstream(&text, &size);
    bool plain = !s->overload[0] || strcmp(s->overload, "Tensor") == 0;
    char *overload = e->out_overload ? e->out_overload : plain ? xformat("out") : xformat("%s_out", s->overload);
    fprintf(f, "%s.%s(", s->name, overload);
    write_args(f, s, false);
    bool star = s->n_args && s->args[s->n_args - 1].kwarg_only;
    fputs(s->n_args ? (star ? ", " : ", *, ") : "*, ", f);
    for (size_t i = 0; i < s->n_rets; i++) {
        char *name = s->n_rets == 1       ? xformat("out")
                     : s->rets[i].name[0] ? xformat("%s", s->rets[i].name)
                                          : xformat("out%zu", i);
        for (size_t j = 0; j < s->n_args; j++) /* a result may be named like an argument */
            if (strcmp(s->args[j].name, name) == 0) name = xformat("out_%s", name);
        fprintf(f, "%sTensor(%c!) %s", i ? ", " : "", (char)('a' + (int)i), name);
    }
    fputs(s->n_rets == 1 ? ") -> Tensor(a!)" : ") -> (", f);
    for (size_t i = 0; s->n_rets > 1 && i < s->n_rets; i++)
        fprintf(f, "%sTensor(%c!)%s", i ? ", " : "", (char)('a' + (int)i), i + 1 == s->n_rets ? ")" : "");
    fclose(f);
    return text;
}

static size_t positional_of(const entry *e, const fac_schema *s) {
    if (e->positional >= 0) {
        if ((size_t)e->positional > s->n_args) die(e->file, e->line, "positional: more than there are arguments");
        return (size_t)e->positional;
    }
    size_t n = 0;
    while (n < s->n_args && !s->args[n].default_text) n++;
    return n;
}

static char *public_name(const entry *e, const fac_schema *s) {
    if (e->c) return e->c;
    size_t n = strlen(s->name);
    bool under = n > 1 && s->name[n - 1] == '_';
    char *base = xformat("%.*s", (int)(under ? n - 1 : n), s->name);
    char *with = s->overload[0] ? xformat("%s_%s", base, lower(s->overload)) : base;
    return under ? xformat("%s_", with) : with;
}

static op make_op(const entry *e, fac_schema *s, op_form form) {
    op o = {.e = e, .s = s, .form = form, .id = mangle(s), .sig = -1};
    o.in_place = s->n_args && s->args[0].type.write && s->n_rets == 1 && s->rets[0].type.write;
    return o;
}

static void name_op(op *o, const op *fn) {
    const entry *e = o->e;
    const char *suffix = o->form == FORM_INPLACE ? "_" : o->form == FORM_OUT ? "_out" : "";
    const fac_schema *base = fn->s;
    o->n_pos = positional_of(e, base);
    o->n_out_args = o->form == FORM_OUT ? base->n_rets : 0;
    char *name = public_name(e, base);
    o->cname = xformat("%s%s", name, suffix);
    o->macro = e->macro ? xformat("%s%s", e->macro, suffix) : NULL;
    for (size_t i = o->n_pos; i < base->n_args; i++) {
        if (base->args[i].default_text) continue;
        if (!base->args[i].type.optional)
            die(e->file, e->line, "argument '%s' has no default, so it must be positional", base->args[i].name);
        base->args[i].default_text = xformat("None"); /* an optional keyword may be left out in C */
    }
    bool factory = e->factory && o->form == FORM_FUNCTION;
    if (base->n_args > o->n_pos || factory) o->kw = xformat("%s", e->macro ? e->macro : name);
}

bool next_unread(const char **rest, char **out_arg, char **out_what) {
    const char *p = *rest + strspn(*rest, ", ");
    size_t n = strcspn(p, ", "), dot = strcspn(p, "., ");
    if (n == 0) return false;
    *out_arg = xformat("%.*s", (int)dot, p);
    *out_what = xformat("%.*s", dot < n ? (int)(n - dot - 1) : 0, p + dot + (dot < n));
    *rest = p + n;
    return true;
}

static bool is_watched(const fac_schema *s, const char *arg, const char *what) {
    if (strcmp(what, "sizes") != 0 && strcmp(what, "dtype") != 0 && strcmp(what, "device") != 0) return false;
    for (size_t i = 0; i < s->n_args; i++)
        if (s->args[i].type.kind == FAC_TYPE_TENSOR && strcmp(s->args[i].name, arg) == 0) return true;
    return false;
}

static void check_unread(const entry *e, const fac_schema *s) {
    for (size_t i = 0; i < e->unread.n; i++) {
        const pair *p = &e->unread.v[i];
        char *arg, *what;
        for (const char *rest = p->key; next_unread(&rest, &arg, &what);)
            if (!is_watched(s, arg, what))
                die(e->file, p->line, "%s: 'unread' names '%s.%s'; expected a tensor argument's sizes, dtype or device",
                    s->full, arg, what);
        if (!p->value[0]) die(e->file, p->line, "%s: 'unread' of '%s' should say why", s->full, p->key);
    }
}

static void check_entry(const entry *e, const fac_schema *s) {
    int how = (e->meta != NULL) + (e->composite != NULL) + (e->explicit_fn != NULL) + (e->raw.n > 0 && !e->explicit_fn);
    if (how != 1)
        die(e->file, e->line, "%s: exactly one of meta, composite, explicit, raw should say how it is computed",
            s->full);
    if ((e->meta != NULL) != ((e->loop != NULL) + (e->kernel != NULL) + (e->kernels.n > 0)))
        die(e->file, e->line, "%s: meta and exactly one of loop, kernel and kernels go together", s->full);
    if (!e->doc || !e->doc[0]) die(e->file, e->line, "%s: 'doc' is missing", s->full);
    if (e->doc[strlen(e->doc) - 1] != '.') die(e->file, e->line, "%s: 'doc' should end with a full stop", s->full);
    int gradient = (e->grad.n > 0) + (e->nondifferentiable != NULL) + (e->double_backward != NULL);
    if (e->composite && gradient) die(e->file, e->line, "%s: a composite is differentiated through its parts", s->full);
    if (!e->composite && gradient != 1)
        die(e->file, e->line, "%s: exactly one of 'grad', 'nondifferentiable: reason', 'double_backward' is needed",
            s->full);
    if (e->double_backward && strncmp(e->double_backward, "unsupported, ", 13))
        die(e->file, e->line, "%s: 'double_backward' should be \"unsupported, reason\"", s->full);
    if (e->meta && s->n_rets && !s->rets[0].type.list && s->rets[0].type.kind != FAC_TYPE_TENSOR)
        die(e->file, e->line, "%s: a structured operator returns tensors", s->full);
    check_unread(e, s);
    check_variants(e);
}

static void add_op(model *m, op o) {
    for (size_t i = 0; i < m->n_ops; i++)
        if (strcmp(m->ops[i].id, o.id) == 0)
            die(o.e->file, o.e->line, "%s is declared twice; the first is at %s:%d", o.s->full, m->ops[i].e->file,
                m->ops[i].e->line);
    PUSH(m->ops, m->n_ops, o);
}

static void add_forms(model *m, const entry *e) {
    fac_schema *s = parse(e, e->op);
    check_entry(e, s);
    op fn = make_op(e, s, FORM_FUNCTION);
    name_op(&fn, &fn);
    add_op(m, fn);
    if (has_variant(e, "inplace")) {
        if (!s->n_args || !is_tensor(&s->args[0].type) || s->n_rets != 1)
            die(e->file, e->line, "%s cannot have an in-place form", s->full);
        op o = make_op(e, parse(e, inplace_schema(s)), FORM_INPLACE);
        name_op(&o, &fn);
        add_op(m, o);
    }
    if (has_variant(e, "out")) {
        op o = make_op(e, parse(e, out_schema(e, s)), FORM_OUT);
        name_op(&o, &fn);
        add_op(m, o);
    }
}

static void link_forms(model *m) {
    for (size_t i = 0; i < m->n_ops; i++) {
        op *o = &m->ops[i];
        if (o->form == FORM_FUNCTION) continue;
        for (size_t j = 0; j < m->n_ops; j++)
            if (m->ops[j].e == o->e && m->ops[j].form == FORM_FUNCTION) o->functional = &m->ops[j];
    }
}

static int by_text(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

static void number_signatures(model *m) {
    for (size_t i = 0; i < m->n_ops; i++) {
        char *t = fac__schema_signature(m->ops[i].s);
        size_t j = 0;
        while (j < m->n_signatures && strcmp(m->signatures[j], t)) j++;
        if (j == m->n_signatures) PUSH(m->signatures, m->n_signatures, t);
    }
    if (m->n_signatures) qsort(m->signatures, m->n_signatures, sizeof *m->signatures, by_text);
    for (size_t i = 0; i < m->n_ops; i++) {
        char *t = fac__schema_signature(m->ops[i].s);
        for (size_t j = 0; j < m->n_signatures; j++)
            if (strcmp(m->signatures[j], t) == 0) m->ops[i].sig = (int)j;
    }
}

static void check_public_names(const model *m) {
    for (size_t i = 0; i < m->n_ops; i++)
        for (size_t j = 0; j < i; j++) {
            const op *a = &m->ops[i], *b = &m->ops[j];
            if (a->e->internal || b->e->internal || strcmp(a->cname, b->cname)) continue;
            die(a->e->file, a->e->line, "%s and %s (%s:%d) both have the C name fac_%s; give one a 'c:' name",
                a->s->full, b->s->full, b->e->file, b->e->line, a->cname);
        }
}

/* `name`, with or without overload, should be an operator. */
static void check_named(const model *m, const entry *e, const char *key, const char *name) {
    bool found = !name;
    for (size_t i = 0; i < m->n_ops && !found; i++) {
        const fac_schema *s = m->ops[i].s;
        found = strcmp(s->name, name) == 0 || strcmp(s->full + strlen(s->ns) + 2, name) == 0;
    }
    if (!found) die(e->file, e->line, "%s: there is no operator '%s'", key, name);
}

static void check_links(const model *m) {
    for (size_t i = 0; i < m->n_entries; i++) {
        check_named(m, &m->entries[i], "view_copy", m->entries[i].view_copy);
        check_named(m, &m->entries[i], "view_inverse", m->entries[i].view_inverse);
    }
}

void build_model(model *m) {
    for (size_t i = 0; i < m->n_entries; i++) add_forms(m, &m->entries[i]);
    check_links(m);
    link_forms(m);
    number_signatures(m);
    check_public_names(m);
}

const op *find_op(const model *m, const char *base, const char *overload) {
    for (size_t i = 0; i < m->n_ops; i++)
        if (strcmp(m->ops[i].s->name, base) == 0 && strcmp(m->ops[i].s->overload, overload) == 0) return &m->ops[i];
    return NULL;
}
