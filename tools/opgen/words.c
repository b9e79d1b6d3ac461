/* Templates: text to be written, in which $words stand for what differs between operators, and between their arguments or
   results: "fac_op_$id". ${word} may touch a letter, and $,word puts a comma before what is there, or is nothing for nothing. */
#include "opgen.h"

static const char *or_void(const char *list) { return *list ? list : "void"; }

/* As often as the list has entries, at least once. */
static char *repeated(const fac_schema_arg *a) {
    char *list = a->name;
    for (int64_t i = 1; i < a->type.list_size; i++) list = listed(list, a->name);
    return list;
}

/* Types that may lack a value as they are: whether this one may is asked where one is read. */
static const char *asked(const fac_schema_type *t) {
    const etype e = type_of(t);
    const bool may_lack = e == T_TENSOR || e == T_STRING || e == T_INTS || e == T_FLOATS;
    return !may_lack ? "" : t->optional ? "true, " : "false, ";
}

static const char *meaning(const words *w, const char *word) {
#define IS(word_, text_) \
    if (strcmp(word, #word_) == 0) return text_
    IS(v, w->v);
    IS(from, w->from);
    const op *o = w->o;
    const fac_schema_arg *a = w->i < o->s->n_args ? &o->s->args[w->i] : NULL;
    IS(id, o->id);
    IS(name, o->s->name);
    IS(full, o->s->full);
    IS(cname, o->cname);
    IS(kw, o->kw);
    IS(sig, xformat("%d", o->sig));
    IS(result, result_type(o)); /* "fac_tensor *" */
    IS(fail, failure_value(o));
    IS(out, out_param(o));
    IS(inputs, or_void(each(o, NULL, ", ", "$type$a")));
    IS(params, or_void(params(o)));
    IS(passed, each(o, NULL, ", ", "$a"));
    IS(args, args(o));
    IS(public, or_void(public_params(o)));
    IS(at, at_begin(result_type(o), must_use(o)));
    IS(inner, each(base_of(o), NULL, ", ", "$a"));
    IS(newedges, edge_of(o, o->s->n_args, false));
    IS(self, o->s->args[0].name);
    IS(n, xformat("%zu", o->s->n_args));
    IS(rets, xformat("%zu", o->s->n_rets));
    IS(outs, xformat("%zu", o->n_out_args));
    /* the argument or result at i */
    IS(i, xformat("%zu", w->i));
    IS(nth, xformat("a%zu", w->i));
    IS(outarg, o->s->args[o->s->n_args - o->s->n_rets + w->i].name);
    IS(field, result_field(base_of(o), w->i));
    IS(a, a->name);
    IS(type, c_type(&a->type)); /* "fac_tensor *" */
    IS(kind, spelt[type_of(&a->type)].kind);
    IS(asked, asked(&a->type));
    IS(boxed, boxed(&a->type, a->name));
    IS(plain, plain_type(&a->type));
    IS(trimmed, trimmed(plain_type(&a->type)));
    IS(sort, fac__type_text(&(is_factory_out(o) ? o : base_of(o))->s->args[w->i].type, xalloc(64), 64)); /* "Tensor" */
    IS(macroarg, macro_argument(a));
    IS(repeated, repeated(a));
    IS(key, kw_name(a));
    IS(second, kw_second_name(a));
    IS(value, value_in_stub(o, w->i));
    IS(default, default_c(o, a));
    IS(written, a->default_text);
    IS(size, xformat("%lld", (long long)a->type.list_size));
    IS(opener, a->type.optional ? "FAC_OPEN_OPTIONAL" : "FAC_OPEN");
    IS(lacking, a->type.elem_optional ? "true" : "false");
    IS(keys, xformat(a->type.optional ? "(%s ? %s->keys : 0)" : "%s->keys", a->name, a->name));
    IS(ifgiven, a->type.optional ? xformat("if (%s) ", a->name) : "");
    IS(andgiven, a->type.optional ? xformat(" && %s", a->name) : "");
    IS(requires, xformat(a->type.list ? "fac__any_requires_grad(%s)" : "fac__requires_grad(%s)", a->name));
    IS(edge, edge_of(o, w->i, true));
    IS(newedge, edge_of(o, w->i, false));
    IS(boxednth, boxed(&a->type, xformat("a%zu", w->i)));
#undef IS
    return NULL;
}

/* What the word at *text stands for; moves behind it. */
static const char *replaced(const words *w, const char **text) {
    const bool comma = **text == ',', braces = (*text)[comma] == '{';
    const char *word = *text + comma + braces;
    const size_t n = strspn(word, "abcdefghijklmnopqrstuvwxyz");
    const char *meant = meaning(w, cut(word, word + n));
    const entry *e = w->o ? w->o->e : &(entry){.file = "opgen"};
    if (!meant) die(e->file, e->line, "nothing is known of the word of a template at '%s'", *text);
    *text = word + n + braces;
    if (!comma) return meant;
    return *meant && strcmp(meant, "void") != 0 ? xformat(", %s", meant) : "";
}

/* The template as a format where `is_format`: a % in what a word stands for is written twice. */
static char *filled(const words *w, const char *text, bool is_format) {
    LIST(char) made = {0};
    while (*text) {
        if (*text != '$') {
            PUSH(made, *text++);
            continue;
        }
        text++;
        for (const char *p = replaced(w, &text); *p; p++) {
            if (is_format && *p == '%') PUSH(made, '%');
            PUSH(made, *p);
        }
    }
    PUSH(made, '\0');
    return made.v;
}

char *fill_words(words w, const char *text) { return filled(&w, text, false); }

char *fill_at(const op *o, size_t i, const char *text) { return fill_words((words){.o = o, .i = i}, text); }

char *fill(const op *o, const char *text) { return fill_at(o, 0, text); }

void emit(FILE *f, const op *o, const char *format, ...) {
    va_list ap;
    va_start(ap, format);
    fputs(vformat(filled(&(words){.o = o}, format, true), ap), f);
    va_end(ap);
}

void emit_at(FILE *f, const op *o, size_t i, const char *text) { fputs(fill_at(o, i, text), f); }

char *each_kind(const op *o, arg_test which, const char *sep, const char *list, const char *tensor, const char *other) {
    char *made = "";
    for (size_t i = 0; i < o->s->n_args; i++) {
        const fac_schema_type *t = &o->s->args[i].type;
        const char *text = is_tensor_list(t) ? list : is_tensor(t) ? tensor : other;
        if (text && (!which || which(o, i))) made = joined(made, sep, fill_at(o, i, text));
    }
    return made;
}

char *each(const op *o, arg_test which, const char *sep, const char *text) {
    return each_kind(o, which, sep, text, text, text);
}

void emit_each(FILE *f, const op *o, arg_test which, const char *list, const char *tensor, const char *other) {
    fputs(each_kind(o, which, "", list, tensor, other), f);
}

char *each_result(const op *o, const char *sep, const char *text) {
    char *made = "";
    for (size_t i = 0; i < o->s->n_rets; i++) made = joined(made, sep, fill_at(o, i, text));
    return made;
}
