/* Entries into operators: parses the schemas, makes the in-place and out forms, settles every name. */
#include "opgen.h"
#include <ctype.h>
#include <stdlib.h>

static fac_schema *parse(const entry *e, const char *text) {
    fac_schema *s;
    if (fac__schema_parse(text, &s) != FAC_OK) die(e->file, e->line, "%s", fac_error_message());
    if (strcmp(s->ns, "aten") != 0) s->name = xformat("%s_%s", s->ns, s->name); /* what C knows it by */
    return s;
}

bool is_pointwise(const entry *e) { return e->loop || e->kernel; }

static void check_name(const entry *e, int line, const char *key, const char *name) {
    if (name && (!*name || isdigit((unsigned char)*name) || *word_end(name)))
        die(e->file, line, "%s: '%s' is no name in C", key, name);
}

static void check_names(const entry *e) {
    const char *const names[][2] = {{"c", e->c},
                                    {"macro", e->macro},
                                    {"meta", e->meta},
                                    {"kernel", e->kernel},
                                    {"composite", e->composite},
                                    {"explicit", e->explicit},
                                    {"out_overload", e->out_overload}};
    if (e->inplace_overload && *e->inplace_overload) check_name(e, e->line, "inplace_overload", e->inplace_overload);
    for (size_t i = 0; i < FAC_COUNT(names); i++) check_name(e, e->line, names[i][0], names[i][1]);
}

static void check_kernels(const entry *e, const pairs *p) {
    for (size_t i = 0; i < p->n; i++) check_name(e, p->v[i].line, p->v[i].key, p->v[i].value);
}

static char *lower(const char *s) {
    char *t = xformat("%s", s);
    for (char *p = t; *p; p++) *p = (char)tolower((unsigned char)*p);
    return t;
}

static char *mangle(const fac_schema *s) {
    return s->overload[0] ? xformat("%s_%s", s->name, s->overload) : xformat("%s", s->name);
}

/* A copy to be changed, with room for out arguments. */
static fac_schema *copied(const fac_schema *s) {
    fac_schema *d = xalloc(sizeof *d);
    *d = *s;
    d->args = memcpy(xalloc((s->n_args + s->n_rets) * sizeof *s->args), s->args, s->n_args * sizeof *s->args);
    d->rets = memcpy(xalloc(s->n_rets * sizeof *s->rets), s->rets, s->n_rets * sizeof *s->rets);
    return d;
}

/* Result i is `arg`, written: "Tensor(a!)". */
static void write_result(fac_schema *s, size_t i, fac_schema_arg *arg) {
    arg->type = (fac_schema_type){.kind = FAC_TYPE_TENSOR, .write = true, .alias = (char)('a' + i), .before = 1u << i};
    s->rets[i] = (fac_schema_arg){.name = "", .type = arg->type};
}

/* A list is written and not given back: "Tensor(a!)[] self ... -> ()". */
static fac_schema *inplace_schema(const entry *e, const fac_schema *s) {
    fac_schema *d = copied(s);
    d->name = xformat("%s_", s->name);
    if (e->inplace_overload) d->overload = e->inplace_overload;
    write_result(d, 0, &d->args[0]);
    if (s->args[0].type.list) {
        d->args[0].type.list = true;
        d->n_rets = 0;
    }
    fac__schema_texts(d);
    return d;
}

/* A result may be named like an argument. */
static char *out_name(const fac_schema *s, size_t i) {
    const char *own = s->rets[i].name;
    char *name = s->n_rets == 1 ? "out" : own[0] ? xformat("%s", own) : xformat("out%zu", i);
    return find_arg(s, name) < 0 ? name : xformat("out_%s", name);
}

/* What an out tensor decides for a factory. */
static bool is_option(const fac_schema_arg *a) {
    static char *const options[] = {"dtype", "layout", "device", "pin_memory", NULL};
    return a->kwarg_only && lists(options, a->name);
}

static void drop_options(fac_schema *d) {
    size_t n = 0;
    for (size_t i = 0; i < d->n_args; i++)
        if (!is_option(&d->args[i])) d->args[n++] = d->args[i];
    d->n_args = n;
}

static fac_schema *out_schema(const entry *e, const fac_schema *s) {
    fac_schema *d = copied(s);
    if (e->factory) drop_options(d);
    const bool plain = !s->overload[0] || strcmp(s->overload, "Tensor") == 0;
    d->overload = e->out_overload ? e->out_overload : plain ? "out" : xformat("%s_out", s->overload);
    for (size_t i = 0; i < s->n_rets; i++) {
        fac_schema_arg *out = &d->args[d->n_args++];
        *out = (fac_schema_arg){.name = out_name(s, i), .kwarg_only = true};
        write_result(d, i, out);
    }
    fac__schema_texts(d);
    return d;
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
    op o = {.e = e,
            .s = s,
            .form = form,
            .id = mangle(s),
            .short_name = s->full + (strcmp(s->ns, "aten") ? 0 : strlen("aten::")),
            .sig = -1};
    o.in_place = s->n_args && s->args[0].type.write && s->n_rets == 1 && s->rets[0].type.write;
    return o;
}

/* An optional keyword without a default may be left out in C. */
static void settle_defaults(const entry *e, fac_schema *s, size_t first) {
    for (size_t i = first; i < s->n_args; i++) {
        if (s->args[i].default_text) continue;
        if (!s->args[i].type.optional)
            die(e->file, e->line, "argument '%s' has no default, so it must be positional", s->args[i].name);
        s->args[i].default_text = "None";
    }
}

static void name_op(op *o, const op *fn) {
    const entry *e = o->e;
    const char *suffix = o->form == FORM_INPLACE ? "_" : o->form == FORM_OUT ? "_out" : "";
    const fac_schema *base = fn->s;
    o->n_out_args = o->form == FORM_OUT ? base->n_rets : 0;
    char *name = public_name(e, base);
    o->cname = xformat("%s%s", name, suffix);
    o->macro = e->macro ? xformat("%s%s", e->macro, suffix) : NULL;
    if (is_factory_out(o)) {
        o->n_pos = o->s->n_args - o->n_out_args;
        return;
    }
    o->n_pos = positional_of(e, base);
    settle_defaults(e, fn->s, o->n_pos);
    if (base->n_args > o->n_pos || is_factory(o)) o->kw = xformat("%s", e->macro ? e->macro : name);
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
    static char *const watched[] = {"sizes", "dtype", "device", NULL};
    if (!lists(watched, what)) return false;
    const int i = find_arg(s, arg);
    return i >= 0 && s->args[i].type.kind == FAC_TYPE_TENSOR;
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

static void demand(bool holds, const entry *e, const fac_schema *s, const char *what) {
    if (!holds) die(e->file, e->line, "%s: %s", s->full, what);
}

/* Whether a list, if there is one, has n words. */
static bool says_of_each(char *const *list, size_t n) {
    size_t words = 0;
    while (list && list[words]) words++;
    return !list || words == n;
}

/* A composite does not serve the key Nested. */
static bool only_nested(const pairs *layouts) {
    for (size_t i = 0; i < layouts->n; i++)
        if (strcmp(layouts->v[i].key, "Nested") != 0) return false;
    return true;
}

static void check_entry(const entry *e, const fac_schema *s) {
    const bool given_meta = e->meta, given_raw = e->raw.n && !e->explicit, given_kernels = e->kernels.n,
               given_grad = e->grad.n, given_double = e->double_backward;
    const int how = given_meta + !!e->composite + !!e->explicit + given_raw,
              run = !!e->loop + !!e->kernel + given_kernels,
              gradient = (given_grad | given_double) + (e->nondifferentiable && *e->nondifferentiable);
    demand(how == 1, e, s, "exactly one of meta, composite, explicit, raw should say how it is computed");
    demand(given_meta == run, e, s, "meta and exactly one of loop, kernel and kernels go together");
    demand(e->doc && e->doc[0], e, s, "'doc' is missing");
    demand(e->doc[strlen(e->doc) - 1] == '.', e, s, "'doc' should end with a full stop");
    demand(!e->composite || !gradient, e, s, "a composite is differentiated through its parts");
    demand(
        e->composite || gradient == 1, e, s,
        "exactly one of 'grad', perhaps with 'double_backward', 'nondifferentiable: reason', 'double_backward' is needed");
    demand(!given_double || reason_after("unsupported, ", e->double_backward), e, s,
           "'double_backward' should be \"unsupported, reason\"");
    demand(!e->view || e->explicit, e, s, "'view' needs 'explicit'");
    demand(says_of_each(e->output_differentiability, s->n_rets), e, s,
           "'output_differentiability' should say it of each result");
    demand(!e->device_check || given_kernels, e, s, "'device_check' needs 'kernels'");
    demand(!given_meta || !s->n_rets || s->rets[0].type.kind == FAC_TYPE_TENSOR || s->rets[0].type.list, e, s,
           "a structured operator returns tensors");
    check_names(e);
    check_kernels(e, &e->kernels);
    check_kernels(e, &e->raw);
    check_kernels(e, &e->layouts);
    demand(!e->composite || only_nested(&e->layouts), e, s,
           "'layouts' of a composite but Nested would never be reached");
    check_unread(e, s);
}

static void add_op(model *m, op o) {
    const op *first = FIND(m->ops, id, o.id);
    if (first)
        die(o.e->file, o.e->line, "%s is declared twice; the first is at %s:%d", o.s->full, first->e->file,
            first->e->line);
    o.m = m;
    PUSH(m->ops, o);
}

static void add_form(model *m, const op *fn, fac_schema *s, op_form form) {
    op o = make_op(fn->e, s, form);
    name_op(&o, fn);
    add_op(m, o);
}

static void add_forms(model *m, const entry *e) {
    fac_schema *s = parse(e, e->op);
    check_entry(e, s);
    op fn = make_op(e, s, FORM_FUNCTION);
    name_op(&fn, &fn);
    add_op(m, fn);
    if (lists(e->variants, "inplace")) {
        demand(s->n_args && s->args[0].type.kind == FAC_TYPE_TENSOR && s->n_rets == 1, e, s,
               "cannot have an in-place form");
        demand(!s->args[0].type.list || e->foreach, e, s, "a list can have an in-place form by 'foreach' alone");
        add_form(m, &fn, inplace_schema(e, s), FORM_INPLACE);
    }
    if (lists(e->variants, "out")) add_form(m, &fn, out_schema(e, s), FORM_OUT);
}

/* Forms follow the function that they are forms of. */
static void link_forms(model *m) {
    op *fn = NULL;
    EACH_ITEM(op, o, m->ops)
        if (o->form == FORM_FUNCTION)
            fn = o;
        else
            o->functional = fn;
}

static int by_text(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

static size_t signature_at(const model *m, const op *o) {
    size_t i = 0;
    const char *text = fac__schema_signature(o->s);
    while (i < m->signatures.n && strcmp(m->signatures.v[i], text)) i++;
    return i;
}

static void number_signatures(model *m) {
    for (size_t i = 0; i < m->ops.n; i++)
        if (signature_at(m, &m->ops.v[i]) == m->signatures.n) PUSH(m->signatures, fac__schema_signature(m->ops.v[i].s));
    if (m->signatures.n) qsort(m->signatures.v, m->signatures.n, sizeof *m->signatures.v, by_text);
    for (size_t i = 0; i < m->ops.n; i++) m->ops.v[i].sig = (int)signature_at(m, &m->ops.v[i]);
}

static bool are_same(const char *a, const char *b) { return a && b && strcmp(a, b) == 0; }

/* Functions need names of their own; keyword structs and macros may be shared. */
static void compare_names(model *m) {
    for (size_t i = 0; i < m->ops.n; i++)
        for (size_t j = 0; j < i; j++) {
            op *a = &m->ops.v[i], *b = &m->ops.v[j];
            if (a->e->internal || b->e->internal) continue;
            a->kw_again = a->kw_again || are_same(a->kw, b->kw);
            a->macro_again = a->macro_again || are_same(a->macro, b->macro);
            if (are_same(a->cname, b->cname))
                die(a->e->file, a->e->line, "%s and %s (%s:%d) both have the C name fac_%s; give one a 'c:' name",
                    a->s->full, b->s->full, b->e->file, b->e->line, a->cname);
        }
}

/* `name`, with or without overload, should be an operator. */
static void check_named(const model *m, const entry *e, const char *key, const char *name) {
    bool found = !name || FIND(m->ops, short_name, name);
    for (size_t i = 0; i < m->ops.n && !found; i++) found = strcmp(m->ops.v[i].s->name, name) == 0;
    if (!found) die(e->file, e->line, "%s: there is no operator '%s'", key, name);
}

static void check_links(const model *m) {
    for (size_t i = 0; i < m->entries.n; i++) {
        check_named(m, &m->entries.v[i], "view_copy", m->entries.v[i].view_copy);
        check_named(m, &m->entries.v[i], "view_inverse", m->entries.v[i].view_inverse);
        check_named(m, &m->entries.v[i], "foreach", m->entries.v[i].foreach);
    }
}

const op *aliased(const op *o) {
    const entry *e = o->e;
    EACH_ITEM(const op, other, o->m->ops) {
        const op *whole = other->form == FORM_FUNCTION ? other : other->functional;
        if (other->form == o->form && strcmp(whole->short_name, e->alias) == 0) return other;
    }
    die(e->file, e->line, "alias: '%s' has no such form as %s", e->alias, o->short_name);
    return NULL;
}

/* Another name takes what the operator takes. */
static void check_aliases(const model *m) {
    EACH_ITEM(const op, o, m->ops)
        if (o->e->alias && o->sig != aliased(o)->sig)
            die(o->e->file, o->e->line, "alias: %s takes or gives other types than %s", o->short_name,
                aliased(o)->short_name);
}

static void add_fn(model *m, const entry *e) {
    fac_schema *s = parse(e, e->fn);
    for (size_t i = 0; i < s->n_args; i++)
        if (!s->args[i].default_text) die(e->file, e->line, "keyword '%s' has no default", s->args[i].name);
    PUSH(m->fns, ((op){.m = m, .e = e, .s = s, .kw = s->name, .cname = s->name}));
}

/* Several results of which one is a list have no public form, and no gradient of their own. */
static void check_lists(const model *m) {
    EACH_ITEM(const op, o, m->ops)
        if (returns_lists(o) && (!o->e->internal || (o->e->explicit && !o->e->nondifferentiable) || o->e->raw.n))
            die(o->e->file, o->e->line,
                "%s: lists among several results go with 'internal' and 'composite', or 'explicit' "
                "and 'nondifferentiable'",
                o->s->full);
}

void build_model(model *m) {
    for (size_t i = 0; i < m->fn_entries.n; i++) add_fn(m, &m->fn_entries.v[i]);
    add_functionalised(m);
    for (size_t i = 0; i < m->entries.n; i++) {
        settle_foreach(&m->entries.v[i]);
        add_forms(m, &m->entries.v[i]);
    }
    check_links(m);
    link_forms(m);
    check_lists(m);
    number_signatures(m);
    check_aliases(m);
    compare_names(m);
}

const op *find_op(const model *m, const char *base, const char *overload) {
    for (size_t i = 0; i < m->ops.n; i++)
        if (strcmp(m->ops.v[i].s->name, base) == 0 && strcmp(m->ops.v[i].s->overload, overload) == 0)
            return &m->ops.v[i];
    return NULL;
}
