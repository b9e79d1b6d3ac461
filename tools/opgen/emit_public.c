/* The public side: prototypes and keyword structs (ops_decl.h), macros (ops_macros.h), C++ overloads (ops.hpp). */
#include "opgen.h"

char *gradient_text(const op *o) {
    const entry *e = o->e;
    if (o->form == FORM_OUT) return "none: out forms take no part in autograd";
    if (e->nondifferentiable) return xformat("none: %s", e->nondifferentiable);
    if (e->double_backward) return e->double_backward;
    char *text = "";
    EACH_ITEM(const pair, p, e->grad) {
        if (strcmp(p->value, "None") == 0) continue;
        const char *one = strncmp(p->value, "unsupported(", 12) ? p->key : xformat("%s %s", p->key, p->value);
        text = listed(text, one);
    }
    return *text ? text : NULL;
}

const char *gradient_source(const op *o) {
    if (o->form == FORM_OUT) return gradient_text(o);
    if (o->e->composite) return "through the operators that it is made of";
    return o->e->double_backward ? xformat("of second order %s", o->e->double_backward) : gradient_text(o);
}

static const char *owner_text(const op *o) {
    if (o->in_place) return "returns self";
    if (o->form == FORM_OUT) return "returns out";
    return returns_tensors(o) || returns_list(o) ? "the result belongs to the innermost scope" : NULL;
}

static void emit_doc(FILE *f, const op *o) {
    const entry *e = o->e;
    const char *const rows[][2] = {{"schema:", o->s->text}, {"shape:", e->shape},   {"dtype:", e->dtype},
                                   {"own:", owner_text(o)}, {"errors:", e->errors}, {"grad:", gradient_text(o)},
                                   {"source:", e->source}};
    fprintf(f, "/* %s", e->doc);
    for (size_t i = 0; i < FAC_COUNT(rows); i++)
        if (rows[i][1]) fprintf(f, "\n   %-7s %s", rows[i][0], rows[i][1]);
    fputs(" */\n", f);
}

char *macro_argument(const fac_schema_arg *a) {
    switch (type_of(&a->type)) {
    case T_SCALAR: return xformat("FAC_SCALAR(%s)", a->name);
    case T_INTS: return xformat("FAC_LIST_(%s, %d)", a->name, a->type.list_size ? (int)a->type.list_size : 1);
    default: return xformat("(%s)", a->name);
    }
}

/* The parameters that have a position, out arguments first. */
char *positional(const op *o, const char *text) {
    return listed(each(o, is_out, ", ", text), each(o, is_positional, ", ", text));
}

char *public_params(const op *o) {
    return listed(positional(o, "$plain$a"), o->kw ? fill(o, "const fac_$kw_kw *kw") : "");
}

bool must_use(const op *o) {
    return !o->in_place && o->form != FORM_OUT && (returns_tensors(o) || returns_list(o) || !o->s->n_rets);
}

void emit_decl(FILE *f, const op *o) {
    if (o->e->internal) return;
    if (o->kw && !o->kw_again) emit_kw_struct(f, o);
    if (o->form != FORM_OUT && o->s->n_rets > 1) {
        emit(f, o, "/* Results of fac_$cname; all NULL on failure. */\n");
        emit_result_struct(f, o);
    }
    emit_doc(f, o);
    emit(f, o,
         must_use(o) ? "FAC_API FAC_MUST ${result}fac_$cname($public);\n\n"
                     : "FAC_API ${result}fac_$cname($public);\n\n");
}

/* ---- macros ---- */

static char *usage(const op *o) {
    const char *given = listed(each(o, is_out, ", ", "Tensor $a"), each(o, is_positional, ", ", "$sort $a"));
    return xformat("%s%s", listed(given, each(o, is_keyword, ", ", ".$key")), is_factory(o) ? ", .requires_grad" : "");
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
    const char *names = positional(o, "$a");
    if (o->kw) {
        emit_kw_forward(f, name, last_required(o));
        fprintf(f, "/* fac_%s(%s) */\n#define FAC_KW_%s(%s) ", name, usage(o), name, listed(names, "..."));
    } else
        fprintf(f, "#define fac_%s(%s) ", name, names);
}

static char *kw_literal(const op *o) {
    if (!o->kw) return "";
    return fill(o, last_required(o) ? "&(fac_$kw_kw){FAC_DEFAULTS_$kw, __VA_ARGS__ ()}"
                                    : "&(fac_$kw_kw){FAC_DEFAULTS_$kw, __VA_ARGS__}");
}

/* A position at which a macro makes a Scalar or a list of a plain number. */
static bool takes_number(const op *o, size_t i) {
    const etype t = type_of(&o->s->args[i].type);
    return is_positional(o, i) && (t == T_SCALAR || t == T_INTS);
}

static bool takes_numbers(const op *o) { return *each(o, takes_number, "", "$a"); }

/* The other member of o's macro, or NULL, and the argument in which they differ. */
static const op *partner(const op *o, size_t *at) {
    for (size_t i = 0; i < o->m->ops.n; i++) {
        const op *p = &o->m->ops.v[i];
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

static char *generic_call(const op *t, const op *s, size_t at, const char *operand) {
    const char *list = each(t, is_out, ", ", "($a)"),
               *scalar =
                   xformat("_Generic(%s, fac_tensor *: fac_tensor_t_, FAC_NUMS_(fac_scalar_))(%s)", operand, operand);
    for (size_t i = 0; i < t->n_pos; i++) list = listed(list, i == at ? scalar : macro_argument(&t->s->args[i]));
    return xformat("_Generic(%s, fac_tensor *: fac_%s, default: fac_%s)(%s)", operand, t->cname, s->cname,
                   listed(list, kw_literal(t)));
}

/* What wraps a call: its place, and what makes it an expression that may stand in another such call. */
static void emit_wrapped(FILE *f, const op *o, const char *call) {
    emit(f, o, o->kw ? "${at}FAC_CALL_($result, %s))\n" : "$at%s)\n", call);
}

static void emit_plain(FILE *f, const op *o, const char *name) {
    define_head(f, o, name);
    emit_wrapped(f, o, xformat("fac_%s(%s)", o->cname, listed(positional(o, "$macroarg"), kw_literal(o))));
}

static void emit_generic(FILE *f, const op *o) {
    size_t at = 0;
    const op *p = partner(o, &at);
    if (!p) {
        emit_plain(f, o, o->macro);
        return;
    }
    bool tensor = is_tensor(&o->s->args[at].type);
    const op *t = tensor ? o : p, *s = tensor ? p : o;
    fputs("#if defined(__GNUC__)\n", f);
    define_head(f, t, t->macro);
    emit(f, t, "${at}FAC_OVERLOADED%s_($result, %s, %s))\n#else\n", t->kw ? "_CALL" : "", t->s->args[at].name,
         generic_call(t, s, at, "fac_o_"));
    define_head(f, t, t->macro);
    emit_wrapped(f, t, generic_call(t, s, at, xformat("(%s)", t->s->args[at].name)));
    fputs("#endif\n", f);
}

void emit_macros(FILE *f, const op *o) {
    if (o->e->internal) return;
    if (o->macro && !o->macro_again) emit_generic(f, o);
    if (!o->macro && (o->kw || takes_numbers(o))) emit_plain(f, o, o->cname);
}

void emit_result_inline(FILE *f, const op *o) {
    if (o->e->internal || !o->s->n_rets) return;
    emit_at_inline(f, result_type(o), o->s->n_rets > 1 ? xformat("!r.%s", result_field(o, 0)) : NULL);
}

/* C++ has overloads, so all names are told so; in C those that have no other macro. */
static void emit_places(FILE *f, const op *o, bool all) {
    if (o->e->internal) return;
    const bool wrapped = o->macro || o->kw || takes_numbers(o); /* in C by a macro of another kind */
    if (o->macro && !o->macro_again && all) emit_place(f, o->macro, result_type(o), must_use(o));
    if (!o->macro || strcmp(o->macro, o->cname) != 0)
        if (all || !wrapped) emit_place(f, o->cname, result_type(o), must_use(o));
}

void emit_c_places(FILE *f, const op *o) { emit_places(f, o, false); }

void emit_cpp_places(FILE *f, const op *o) { emit_places(f, o, true); }

/* ---- C++ ---- */

/* The positional arguments, each as `ints` or `nums` where it is a bit of `numbers`, for which a template takes a C++ number. */
static char *hpp_each(const op *o, unsigned numbers, const char *sep, const char *ints, const char *nums,
                      const char *other) {
    char *made = "";
    for (size_t i = 0; i < o->n_pos; i++) {
        const char *number = type_of(&o->s->args[i].type) == T_INTS ? ints : nums;
        made = joined(made, sep, fill_at(o, i, numbers >> i & 1 ? number : other));
    }
    return made;
}

static void hpp_overload(FILE *f, const op *o, unsigned numbers) {
    if (numbers)
        fprintf(
            f, "template <%s%s> ", hpp_each(o, numbers, ", ", "class FacInt$i", "class FacNum$i", ""),
            hpp_each(o, numbers, "", ", class = fac_if_integer<FacInt$i>", ", class = fac_if_number<FacNum$i>", ""));
    const char *params = hpp_each(o, numbers, ", ", "FacInt$i $a", "FacNum$i $a", "$plain$a"),
               *args = hpp_each(o, numbers, ", ", "FAC_INTS($repeated)", "fac_num($a)", "$a");
    emit(f, o, "inline ${result}fac_%s(%s) { return fac_$cname(%s); }\n", o->macro ? o->macro : o->cname,
         listed(listed(each(o, is_out, ", ", "$type$a"), params), o->kw ? fill(o, "const fac_$kw_kw &kw = {}") : ""),
         listed(listed(each(o, is_out, ", ", "$a"), args), o->kw ? "&kw" : ""));
}

void emit_hpp(FILE *f, const op *o) {
    if (o->e->internal) return;
    const bool is_another =
        (o->macro && strcmp(o->macro, o->cname) != 0) || o->kw; /* else it would define the C function anew */
    if (is_another) hpp_overload(f, o, 0);
    if (o->kw) /* fac_sum(x, 0) would take the 0 for a null pointer to keywords: every default, and no dimension 0 */
        emit(f, o, "template <class FacKw, class = fac_if_literal_<FacKw>> ${result}fac_$cname(%s) = delete;\n",
             listed(positional(o, "$plain$a"), "FacKw"));
    unsigned all = 0;
    for (size_t i = 0; i < o->n_pos; i++) all |= (unsigned)takes_number(o, i) << i;
    for (unsigned numbers = all; numbers; numbers = (numbers - 1) & all) hpp_overload(f, o, numbers);
}
