/* The public side: prototypes and keyword structs (ops_decl.h), macros (ops_macros.h), C++ overloads (ops.hpp). */
#include "opgen.h"
#include <stdlib.h>

static const fac_schema *fn_schema(const op *o) { return o->functional ? o->functional->s : o->s; }

/* First public operator, in file order, that shares o's keyword struct or macro. */
bool kw_struct_first(const model *m, const op *o) {
    for (const op *p = m->ops; p < o; p++)
        if (!p->e->internal && p->kw && strcmp(p->kw, o->kw) == 0) return false;
    return true;
}

bool macro_first(const model *m, const op *o) {
    for (const op *p = m->ops; p < o; p++)
        if (!p->e->internal && p->macro && strcmp(p->macro, o->macro) == 0) return false;
    return true;
}

static void emit_wrapped(FILE *f, const char *label, const char *text) {
    if (text) fprintf(f, "\n   %-7s %s", label, text);
}

static void emit_doc(FILE *f, const op *o) {
    const entry *e = o->e;
    fprintf(f, "/* %s\n   schema: %s", e->doc, o->s->text);
    emit_wrapped(f, "shape:", e->shape);
    emit_wrapped(f, "dtype:", e->dtype);
    fputs(o->in_place                             ? "\n   own:    returns self"
          : o->form == FORM_OUT                   ? "\n   own:    returns out"
          : returns_tensors(o) || returns_list(o) ? "\n   own:    the result belongs to the innermost scope"
                                                  : "",
          f);
    emit_wrapped(f, "errors:", e->errors);
    if (o->form == FORM_OUT)
        fputs("\n   grad:   none: out forms take no part in autograd", f);
    else if (e->nondifferentiable)
        fprintf(f, "\n   grad:   none: %s", e->nondifferentiable);
    else if (e->double_backward)
        fprintf(f, "\n   grad:   %s", e->double_backward);
    else if (e->grad.n) {
        fputs("\n   grad:  ", f);
        for (size_t i = 0; i < e->grad.n; i++)
            if (strcmp(e->grad.v[i].value, "None")) {
                const char *no = strncmp(e->grad.v[i].value, "unsupported(", 12) ? "" : e->grad.v[i].value;
                fprintf(f, "%s %s%s%s", i ? "," : "", e->grad.v[i].key, no[0] ? " " : "", no);
            }
    }
    emit_wrapped(f, "source:", e->source);
    fputs(" */\n", f);
}

/* A macro's parameter as the C function takes it: a number may stand for a Scalar and for a list of integers. */
static char *macro_argument(const fac_schema_arg *a) {
    switch (type_of(&a->type)) {
    case T_SCALAR: return xformat("FAC_SCALAR(%s)", a->name);
    case T_INTS: return xformat("FAC_LIST_(%s, %d)", a->name, a->type.list_size ? (int)a->type.list_size : 1);
    default: return xformat("(%s)", a->name);
    }
}

/* Calls back for each positional parameter, out arguments first. */
static void positional(FILE *f, const op *o, bool types, bool parens) {
    const char *sep = "";
    for (size_t i = 0; i < o->n_out_args; i++, sep = ", ") {
        const char *n = o->s->args[o->s->n_args - o->n_out_args + i].name;
        fprintf(f, parens ? "%s(%s)" : types ? "%sfac_tensor *%s" : "%s%s", sep, n);
    }
    for (size_t i = 0; i < o->n_pos; i++, sep = ", ") {
        const fac_schema_arg *a = &o->s->args[i];
        fprintf(f, "%s", sep);
        if (types)
            fprintf(f, "%s%s", plain_type(&a->type), a->name);
        else
            fputs(parens ? macro_argument(a) : a->name, f);
    }
}

bool must_use(const op *o) {
    return !o->in_place && o->form != FORM_OUT && (returns_tensors(o) || returns_list(o) || !o->s->n_rets);
}

static void emit_prototype(FILE *f, const op *o, const char *end) {
    fprintf(f, "FAC_API %s%sfac_%s(", must_use(o) ? "FAC_MUST " : "", result_type(o), o->cname);
    positional(f, o, true, false);
    if (o->kw)
        fprintf(f, "%sconst fac_%s_kw *kw", o->n_pos + o->n_out_args ? ", " : "", o->kw);
    else if (!o->n_pos && !o->n_out_args)
        fputs("void", f);
    fprintf(f, ")%s", end);
}

void emit_decl(FILE *f, const model *m, const op *o) {
    if (o->e->internal) return;
    if (o->kw && kw_struct_first(m, o)) emit_kw_struct(f, o);
    if (o->form != FORM_OUT && o->s->n_rets > 1) {
        fprintf(f, "/* Results of fac_%s; all NULL on failure. */\ntypedef struct fac_%s_result {\n    fac_tensor ",
                o->cname, o->cname);
        for (size_t i = 0; i < o->s->n_rets; i++) fprintf(f, "%s*%s", i ? ", " : "", result_field(o, i));
        fprintf(f, ";\n} fac_%s_result;\n", o->cname);
    }
    emit_doc(f, o);
    emit_prototype(f, o, ";\n\n");
}

/* ---- macros ---- */

static void usage(FILE *f, const op *o, const char *name) {
    const fac_schema *s = fn_schema(o);
    fprintf(f, "/* fac_%s(", name);
    const char *sep = "";
    for (size_t i = 0; i < o->n_out_args; i++, sep = ", ")
        fprintf(f, "%sTensor %s", sep, o->s->args[o->s->n_args - o->n_out_args + i].name);
    for (size_t i = 0; i < s->n_args; i++, sep = ", ") {
        char buf[64];
        if (i < o->n_pos)
            fprintf(f, "%s%s %s", sep, fac__type_text(&s->args[i].type, buf, sizeof buf), s->args[i].name);
        else
            fprintf(f, "%s.%s", sep, kw_name(&s->args[i]));
    }
    fprintf(f, "%s) */", o->e->factory && o->form == FORM_FUNCTION ? ", .requires_grad" : "");
}

/* The last argument that is required, or NULL. */
static const char *last_required(const op *o) {
    if (o->n_pos) return o->s->args[o->n_pos - 1].name;
    return o->n_out_args ? o->s->args[o->s->n_args - 1].name : NULL;
}

void emit_kw_forward(FILE *f, const char *name, const char *last) {
    if (!last)
        fprintf(f, "#define fac_%s(...) FAC_KW_%s(__VA_ARGS__) ", name, name);
    else
        fprintf(f, "#define fac_%s_needs_%s_()\n#define fac_%s(...) FAC_KW_%s(__VA_ARGS__, fac_%s_needs_%s_) ", name,
                last, name, name, name, last);
}

static void define_head(FILE *f, const op *o, const char *name) {
    bool any = o->n_pos + o->n_out_args > 0;
    if (o->kw) {
        emit_kw_forward(f, name, last_required(o));
        usage(f, o, name);
        fprintf(f, "\n#define FAC_KW_%s(", name);
        positional(f, o, false, false);
        fprintf(f, "%s...) ", any ? ", " : "");
    } else {
        fprintf(f, "#define fac_%s(", name);
        positional(f, o, false, false);
        fputs(") ", f);
    }
}

static void kw_literal(FILE *f, const op *o) {
    if (o->kw)
        fprintf(f, "%s&(fac_%s_kw){FAC_DEFAULTS_%s, __VA_ARGS__%s}", last_required(o) ? ", " : "", o->kw, o->kw,
                last_required(o) ? " ()" : "");
}

static size_t n_of_type(const op *o, etype t) {
    size_t n = 0;
    for (size_t i = 0; i < o->n_pos; i++) n += type_of(&o->s->args[i].type) == t;
    return n;
}

/* Whether a macro has to make Scalars or lists of plain numbers. */
static bool takes_numbers(const op *o) { return n_of_type(o, T_SCALAR) || n_of_type(o, T_INTS); }

/* The other member of o's macro, or NULL, and the argument in which they differ. */
static const op *partner(const model *m, const op *o, size_t *at) {
    for (size_t i = 0; i < m->n_ops; i++) {
        const op *p = &m->ops[i];
        if (p == o || !p->macro || strcmp(p->macro, o->macro) || p->form != o->form) continue;
        size_t differ = 0;
        for (size_t j = 0; j < o->n_pos && j < p->n_pos; j++)
            if (type_of(&o->s->args[j].type) != type_of(&p->s->args[j].type)) *at = j, differ++;
        if (differ != 1 || o->n_pos != p->n_pos)
            die(o->e->file, o->e->line,
                "macro %s: %s and %s should differ in one argument, a Tensor here and a Scalar there", o->macro,
                o->s->full, p->s->full);
        return p;
    }
    return NULL; /* only one of the two has this form */
}

static void generic_call(FILE *f, const op *t, const op *s, size_t at, const char *operand) {
    fprintf(f, "_Generic(%s, fac_tensor *: fac_%s, default: fac_%s)(", operand, t->cname, s->cname);
    const char *sep = "";
    for (size_t i = 0; i < t->n_out_args; i++, sep = ", ")
        fprintf(f, "%s(%s)", sep, t->s->args[t->s->n_args - t->n_out_args + i].name);
    for (size_t i = 0; i < t->n_pos; i++, sep = ", ") {
        const fac_schema_arg *a = &t->s->args[i];
        if (i == at)
            fprintf(f, "%s_Generic(%s, fac_tensor *: fac_tensor_t_, FAC_NUMS_(fac_scalar_))(%s)", sep, operand,
                    operand);
        else
            fprintf(f, "%s%s", sep, macro_argument(a));
    }
    kw_literal(f, t);
    fputc(')', f);
}

/* What wraps a call: its place, and what makes it an expression that may stand in another such call. */
static void call_begin(FILE *f, const op *o) {
    emit_at_begin(f, result_type(o), must_use(o));
    if (o->kw) fprintf(f, "FAC_CALL_(%s, ", result_type(o));
}

static void emit_plain(FILE *f, const op *o, const char *name) {
    define_head(f, o, name);
    call_begin(f, o);
    fprintf(f, "fac_%s(", o->cname);
    positional(f, o, false, true);
    kw_literal(f, o);
    fputs(o->kw ? ")))\n" : "))\n", f);
}

static void emit_generic(FILE *f, const model *m, const op *o) {
    size_t at = 0;
    const op *p = partner(m, o, &at);
    if (!p) {
        emit_plain(f, o, o->macro);
        return;
    }
    bool tensor = is_tensor(&o->s->args[at].type);
    const op *t = tensor ? o : p, *s = tensor ? p : o;
    fputs("#if defined(__GNUC__)\n", f);
    define_head(f, t, t->macro);
    emit_at_begin(f, result_type(t), must_use(t));
    fprintf(f, "FAC_%s_(%s, %s, ", t->kw ? "OVERLOADED_CALL" : "OVERLOADED", result_type(t), t->s->args[at].name);
    generic_call(f, t, s, at, "fac_o_");
    fputs("))\n#else\n", f);
    define_head(f, t, t->macro);
    call_begin(f, t);
    generic_call(f, t, s, at, xformat("(%s)", t->s->args[at].name));
    fputs(t->kw ? "))\n#endif\n" : ")\n#endif\n", f);
}

void emit_macros(FILE *f, const model *m, const op *o) {
    if (o->e->internal) return;
    if (o->macro && macro_first(m, o)) emit_generic(f, m, o);
    if (!o->macro && (o->kw || takes_numbers(o))) emit_plain(f, o, o->cname);
}

void emit_result_inline(FILE *f, const op *o) {
    if (o->e->internal || !o->s->n_rets) return;
    emit_at_inline(f, result_type(o), o->s->n_rets > 1 ? xformat("!r.%s", result_field(o, 0)) : NULL);
}

static void emit_place(FILE *f, const op *o, const char *name) {
    fprintf(f, "#define fac_%s(...) ", name);
    emit_at_begin(f, result_type(o), must_use(o));
    fprintf(f, "fac_%s(__VA_ARGS__))\n", name);
}

void emit_places(FILE *f, const model *m, const op *o, bool all) {
    if (o->e->internal) return;
    const bool wrapped = o->macro || o->kw || takes_numbers(o); /* in C by a macro of another kind */
    if (o->macro && macro_first(m, o) && all) emit_place(f, o, o->macro);
    if (!o->macro || strcmp(o->macro, o->cname) != 0)
        if (all || !wrapped) emit_place(f, o, o->cname);
}

/* ---- C++ ---- */

/* `numbers`: the positional arguments, a bit each, for which a template takes a C++ number; 0: none, and no template. */
static bool is_number(const op *o, unsigned numbers, size_t i) { return i < o->n_pos && (numbers >> i & 1); }

static const char *number_class(const op *o, size_t i) {
    return type_of(&o->s->args[i].type) == T_INTS ? "FacInt" : "FacNum";
}

static void hpp_template(FILE *f, const op *o, unsigned numbers) {
    const char *sep = "template <";
    for (size_t i = 0; i < o->n_pos; i++)
        if (is_number(o, numbers, i)) fprintf(f, "%sclass %s%zu", sep, number_class(o, i), i), sep = ", ";
    for (size_t i = 0; i < o->n_pos; i++)
        if (is_number(o, numbers, i))
            fprintf(f, ", class = fac_if_%s<%s%zu>", type_of(&o->s->args[i].type) == T_INTS ? "integer" : "number",
                    number_class(o, i), i);
    if (numbers) fputs("> ", f);
}

/* `last` stands in the place of keywords. */
static void hpp_params(FILE *f, const op *o, unsigned numbers, const char *last) {
    const char *sep = "";
    for (size_t i = 0; i < o->n_out_args; i++, sep = ", ")
        fprintf(f, "%sfac_tensor *%s", sep, o->s->args[o->s->n_args - o->n_out_args + i].name);
    for (size_t i = 0; i < o->n_pos; i++, sep = ", ") {
        const fac_schema_arg *a = &o->s->args[i];
        const char *type = is_number(o, numbers, i) ? xformat("%s%zu ", number_class(o, i), i) : plain_type(&a->type);
        fprintf(f, "%s%s%s", sep, type, a->name);
    }
    if (o->kw) fprintf(f, "%s%s", sep, last);
}

static char *hpp_list(const fac_schema_arg *a) {
    char *list = xformat("%s", a->name);
    for (int64_t i = 1; i < a->type.list_size; i++) list = xformat("%s, %s", list, a->name);
    return xformat("FAC_INTS(%s)", list);
}

static void hpp_call(FILE *f, const op *o, unsigned numbers) {
    const char *sep = "";
    for (size_t i = 0; i < o->n_out_args; i++, sep = ", ")
        fprintf(f, "%s%s", sep, o->s->args[o->s->n_args - o->n_out_args + i].name);
    for (size_t i = 0; i < o->n_pos; i++, sep = ", ") {
        const fac_schema_arg *a = &o->s->args[i];
        const char *value = !is_number(o, numbers, i)     ? a->name
                            : type_of(&a->type) == T_INTS ? hpp_list(a)
                                                          : xformat("fac_num(%s)", a->name);
        fprintf(f, "%s%s", sep, value);
    }
    if (o->kw) fprintf(f, "%s&kw", sep);
}

static void hpp_overload(FILE *f, const op *o, unsigned numbers) {
    hpp_template(f, o, numbers);
    fprintf(f, "inline %sfac_%s(", result_type(o), o->macro ? o->macro : o->cname);
    hpp_params(f, o, numbers, o->kw ? xformat("const fac_%s_kw &kw = {}", o->kw) : NULL);
    fprintf(f, ") { return fac_%s(", o->cname);
    hpp_call(f, o, numbers);
    fputs("); }\n", f);
}

/* fac_sum(x, 0) would take the 0 for a null pointer to keywords: every default, and no dimension 0. */
static void hpp_refusal(FILE *f, const op *o) {
    fprintf(f, "template <class FacKw, class = fac_if_literal_<FacKw>> %sfac_%s(", result_type(o), o->cname);
    hpp_params(f, o, 0, "FacKw");
    fputs(") = delete;\n", f);
}

void emit_hpp(FILE *f, const model *m, const op *o) {
    (void)m;
    if (o->e->internal) return;
    const bool is_another =
        (o->macro && strcmp(o->macro, o->cname) != 0) || o->kw; /* else it would define the C function anew */
    if (is_another) hpp_overload(f, o, 0);
    if (o->kw) hpp_refusal(f, o);
    unsigned all = 0;
    for (size_t i = 0; i < o->n_pos; i++)
        if (type_of(&o->s->args[i].type) == T_SCALAR || type_of(&o->s->args[i].type) == T_INTS) all |= 1U << i;
    for (unsigned numbers = all; numbers; numbers = (numbers - 1) & all) hpp_overload(f, o, numbers);
}
