/* Keyword structs. Every keyword is a plain C value with its default in the initialiser that stands before the user's
   own: which fields an argument yields, what they hold when not given, and how a stub reads them. */
#include "opgen.h"
#include <stdlib.h>

bool is_factory(const op *o) { return o->e->factory && o->form == FORM_FUNCTION; }

bool is_factory_out(const op *o) { return o->e->factory && o->form == FORM_OUT; }

bool is_out(const op *o, size_t i) { return i >= o->s->n_args - o->n_out_args; }

bool is_input(const op *o, size_t i) { return !is_out(o, i); }

bool is_written(const op *o, size_t i) { return o->s->args[i].type.write; }

bool is_positional(const op *o, size_t i) { return i < o->n_pos; }

bool is_keyword(const op *o, size_t i) { return !is_positional(o, i) && !is_out(o, i); }

/* ---- fields ---- */

/* An int[N] may be given as one number under one name, or as a list under another. */
static bool may_be_one(const fac_schema_arg *a) { return type_of(&a->type) == T_INTS && a->type.list_size > 0; }

static bool is_list(const fac_schema_arg *a) {
    const etype t = type_of(&a->type);
    return t == T_TENSORS || t == T_INTS || t == T_FLOATS;
}

/* A plural; a name of one letter is none. */
static bool ends_in_s(const char *name) { return name[1] && name[strlen(name) - 1] == 's'; }

char *kw_name(const fac_schema_arg *a) {
    const bool cut = may_be_one(a) && ends_in_s(a->name);
    return xformat("%.*s", (int)strlen(a->name) - cut, a->name);
}

char *kw_second_name(const fac_schema_arg *a) {
    const etype t = type_of(&a->type);
    if (may_be_one(a)) return xformat(ends_in_s(a->name) ? "%s" : "%ss", a->name);
    const bool number = t == T_SCALAR || (t == T_OPT_NUM && a->type.kind == FAC_TYPE_SCALAR);
    return number ? xformat("%s_scalar", a->name) : NULL;
}

const char *plain_type(const fac_schema_type *t) {
    switch (type_of(t)) {
    case T_OPT_INT: return "int64_t ";
    case T_OPT_NUM: return t->kind == FAC_TYPE_BOOL ? "int " : "double ";
    default: return c_type(t);
    }
}

static const char *kw_type(const fac_schema_arg *a) {
    const etype t = type_of(&a->type);
    if (is_reduction(a)) return "fac_loss_reduction ";
    if (t == T_BOOL) return "int "; /* which takes no pointer, and shows what is neither true nor false */
    if (t == T_SCALAR) return "double ";
    return may_be_one(a) ? "int64_t " : plain_type(&a->type);
}

/* The same in a struct, where an object of the library's own has its type. */
static const char *field_type(const op *o, const fac_schema_arg *a) {
    if (type_of(&a->type) != T_OBJECT) return kw_type(a);
    if (!o->e->object) die(o->e->file, o->e->line, "'object' should say what '%s' points to", a->name);
    return o->e->object;
}

static bool is_none(const fac_schema_arg *a) { return strcmp(a->default_text, "None") == 0; }

static char *number_init(const op *o, const fac_schema_arg *a) {
    const char *d = a->default_text;
    char *end;
    if (strcmp(d, "True") == 0 || strcmp(d, "False") == 0) return xformat("%d", d[0] == 'T');
    (void)strtod(d, &end);
    if (*end) die(o->e->file, o->e->line, "default '%s' of '%s' is not a number", d, a->name);
    return xformat("%s", d);
}

static const char *kw_init(const op *o, const fac_schema_arg *a) {
    static const char *const unset[T_NONE] = {
        [T_OPT_INT] = "FAC_UNSET",
        [T_OPT_NUM] = "FAC_UNSET_FLOAT",
        [T_SCALAR] = "FAC_UNSET_FLOAT", /* tells the stub that the other name may be given */
        [T_INTS] = "FAC_UNSET_LIST_(const int64_t *)",
        [T_FLOATS] = "FAC_UNSET_LIST_(const double *)",
        [T_TENSORS] = "FAC_UNSET_LIST_(fac_tensor *const *)",
        [T_DEVICE] = "FAC_UNSET_DEVICE_",
    };
    const etype t = type_of(&a->type);
    if (is_reduction(a)) return "FAC_REDUCTION_MEAN";
    if (may_be_one(a)) return "FAC_UNSET";
    if ((t == T_OPT_INT || t == T_OPT_NUM) && !is_none(a) && a->type.kind != FAC_TYPE_SCALAR) return number_init(o, a);
    if (t == T_OPT_NUM && a->type.kind == FAC_TYPE_BOOL) return "-1";
    return unset[t] ? unset[t] : default_c(o, a);
}

static char *comment_of(const fac_schema_arg *a) {
    const bool told = kw_second_name(a) && (!is_none(a) || type_of(&a->type) == T_SCALAR);
    return told ? xformat("default %s", a->default_text) : NULL;
}

/* Those of arguments that are by name only, or of the others. */
static void add_fields(kw_fields *k, const op *o, bool by_name) {
    for (size_t i = o->n_pos; !is_out(o, i); i++) {
        const fac_schema_arg *a = &o->s->args[i];
        if (a->kwarg_only != by_name) continue;
        PUSH(*k, ((kw_field){field_type(o, a), kw_name(a), kw_init(o, a), comment_of(a), a, false}));
    }
}

kw_fields fields_of_keywords(const op *o) {
    kw_fields k = {0};
    add_fields(&k, o, false);
    PUSH(k, ((kw_field){"int64_t ", "kw_stray", "FAC_STRAY_OK_", "what is one value too many", NULL, false}));
    add_fields(&k, o, true);
    for (size_t i = o->n_pos; !is_out(o, i); i++) {
        const fac_schema_arg *a = &o->s->args[i];
        const char *name = kw_second_name(a), *comment = xformat("instead of .%s", kw_name(a));
        if (name && may_be_one(a))
            PUSH(k, ((kw_field){"fac_ints ", name, "FAC_UNSET_LIST_(const int64_t *)", comment, a, true}));
        else if (name)
            PUSH(k, ((kw_field){"fac_scalar ", name, "FAC_UNSET_SCALAR_", comment, a, true}));
    }
    if (o->e->factory) PUSH(k, ((kw_field){"int ", "requires_grad", "false", NULL, NULL, false}));
    return k;
}

void emit_kw_struct(FILE *f, const op *o) {
    const kw_fields k = fields_of_keywords(o);
    emit(f, o,
         "/* Keywords of fac_$kw, in the order in which they may be given by position. */\n"
         "typedef struct fac_$kw_kw {\n    FAC_KW_HEAD(struct fac_$kw_kw);\n");
    EACH_ITEM(const kw_field, v, k)
        fprintf(f, v->comment ? "    %s%s FAC_DEF(%s); /* %s */\n" : "    %s%s FAC_DEF(%s);\n", v->type, v->name,
                v->init, v->comment);
    emit(f, o,
         "} fac_$kw_kw;\n/* Puts the defaults into *kw. */\nFAC_API void fac_$kw_kw_init(fac_$kw_kw *kw);\n"
         "#define FAC_DEFAULTS_$kw ");
    EACH_ITEM(const kw_field, v, k) fprintf(f, ".%s = %s, ", v->name, v->init);
    emit(f, o, ".kw_size = sizeof(fac_$kw_kw)\n"); /* last, so that a value without a name comes after it */
}

void emit_kw_init(FILE *f, const op *o) {
    emit(f, o, "void fac_$kw_kw_init(fac_$kw_kw *kw) { *kw = (fac_$kw_kw){FAC_DEFAULTS_$kw}; }\n");
}

/* ---- reading them in a stub, as k_ ---- */

static size_t n_by_position(const op *o) {
    size_t n = o->n_pos + o->n_out_args;
    for (size_t i = o->n_pos; !is_out(o, i); i++) n += !o->s->args[i].kwarg_only;
    return n;
}

/* What needs a variable of its own: lists that may be one number, and numbers that may be exact. */
static void emit_checked(FILE *f, const op *o, size_t i) {
    const fac_schema_arg *a = &o->s->args[i];
    if (!kw_second_name(a))
        emit_kw_check(f, o, a);
    else if (may_be_one(a))
        emit_at(f, o, i,
                "    int64_t $a_room_[$size];\n    fac_ints $a_given_ = $default;\n"
                "    if (FAC_UNLIKELY(fac__kw_list(&$a_given_, $a_room_, $size, k_->$key, k_->$second))) {\n"
                "        fac__kw_list_error(\"$name\", \"$key\", \"$second\", k_->$second.n);\n"
                "        return $fail;\n    }\n");
    else {
        emit_at(f, o, i,
                a->type.optional ? "    fac_opt_num $a_given_ = $default;\n"
                                 : "    fac_opt_num $a_given_ = fac_opt_num_($default);\n");
        emit_at(f, o, i,
                "    if (fac__kw_scalar(&$a_given_, k_->$key, k_->$second, \"$name\", \"$key\", \"$second\"))\n"
                "        return $fail;\n");
    }
}

void emit_kw_open(FILE *f, const op *o) {
    emit(f, o,
         "    fac_$kw_kw local_;\n    const fac_$kw_kw *k_ = kw;\n"
         "    if (FAC_UNLIKELY(!fac__kw_fits(kw, sizeof local_))) {\n        fac_$kw_kw_init(&local_);\n"
         "        if (fac__kw_take(\"$name\", &local_, kw, sizeof local_)) return $fail;\n"
         "        k_ = &local_;\n    }\n"
         "    if (FAC_UNLIKELY(k_->kw_stray != FAC_STRAY_OK_)) {\n        fac__kw_stray_error(\"$name\", %zu);\n"
         "        return $fail;\n    }\n",
         n_by_position(o));
    for (size_t i = o->n_pos; !is_out(o, i); i++) emit_checked(f, o, i);
    if (is_factory(o)) emit_kw_bool_check(f, o, "requires_grad");
}

/* A plain value as the kernel's type. */
static char *plain_value(const fac_schema_arg *a, const char *value) {
    const fac_type_kind k = a->type.kind;
    const etype t = type_of(&a->type);
    if (t != T_OPT_INT && t != T_OPT_NUM) return xformat("%s", value);
    const char *kind = t == T_OPT_INT ? "int" : k == FAC_TYPE_BOOL ? "bool" : k == FAC_TYPE_FLOAT ? "float" : "number";
    return xformat("fac__plain_%s(%s)", kind, value);
}

char *value_in_stub(const op *o, size_t i) {
    const fac_schema_arg *a = &o->s->args[i];
    const etype t = type_of(&a->type);
    if (!is_keyword(o, i)) return plain_value(a, a->name);
    const char *field = xformat("k_->%s", kw_name(a));
    if (kw_second_name(a)) return xformat(t == T_SCALAR ? "%s_given_.v" : "%s_given_", a->name);
    if (is_list(a)) return xformat("fac__kw_unset(%s.v) ? %s : %s", field, default_c(o, a), field);
    return t == T_DEVICE ? xformat("fac__kw_device(%s)", field) : plain_value(a, field);
}

/* ---- functions of the library's own ---------------------------------------------------------------------------------- */

const function *fn_prototype(const op *o) {
    const function *fn = FIND(o->m->functions, name, o->cname);
    if (!fn || !fn->n || strcmp(fn->v[fn->n - 1].name, "kw") != 0)
        die(o->e->file, o->e->line, "no header declares fac_%s with its keywords, kw, last", o->cname);
    return fn;
}

void emit_fn_struct(FILE *f, const op *o) {
    emit_kw_struct(f, o);
    fputc('\n', f);
}

static const char *fn_check(const fac_schema_arg *a) {
    if (may_be_one(a))
        return "    fac_ints $second = {&k_->$key, 1};\n"
               "    if (fac__kw_list(&$second, &k_->$key, 1, k_->$key, k_->$second)) {\n"
               "        fac__kw_list_error(\"$name\", \"$key\", \"$second\", k_->$second.n);\n"
               "        return fac_error();\n    }\n"
               "    if (k_->$key == FAC_UNSET) k_->$key = $written;\n    k_->$second = $second;\n";
    if (type_of(&a->type) == T_DEVICE) return "    k_->$a = fac__kw_device(k_->$a);\n";
    return is_list(a) ? "    if (fac__kw_unset(k_->$a.v)) k_->$a.v = NULL, k_->$a.n = 0;\n" : "";
}

void emit_fn_init(FILE *f, const op *o) {
    emit_kw_init(f, o);
    emit(f, o,
         "fac_status fac__open_$kw_kw(fac_$kw_kw *k_, const fac_$kw_kw *kw) {\n    fac_$kw_kw_init(k_);\n"
         "    FAC_TRY(fac__kw_take(\"$name\", k_, kw, sizeof *k_));\n    if (k_->kw_stray != FAC_STRAY_OK_) {\n"
         "        fac__kw_stray_error(\"$name\", %zu);\n        return fac_error();\n    }\n",
         fn_prototype(o)->n - 1 + n_by_position(o));
    for (size_t i = 0; i < o->s->n_args; i++) {
        if (!may_be_one(&o->s->args[i])) emit_kw_check(f, o, &o->s->args[i]);
        emit_at(f, o, i, fn_check(&o->s->args[i]));
    }
    fputs("    return FAC_OK;\n}\n\n", f);
}

void emit_fn_open(FILE *f, const op *o) {
    emit(f, o, "fac_status fac__open_$kw_kw(fac_$kw_kw *k, const fac_$kw_kw *kw);\n");
}

/* How often a number stands for the list of integers that this parameter is; 0 if it may not. */
static int number_times(const entry *e, const char *parameter) {
    const char *at = e->number_for ? strstr(xformat(" %s", e->number_for), xformat(" %s[", parameter)) : NULL;
    return at ? atoi(at + strlen(parameter) + 2) : 0;
}

static char *declared(const parameter *p) {
    const bool star = p->type[strlen(p->type) - 1] == '*';
    return xformat(strstr(p->type, "(*") ? "%s" : star ? "%s%s" : "%s %s", p->type, p->name);
}

/* The template for each parameter before the keywords: $v is its name, $from its declaration. */
static char *before_keywords(const function *fn, const char *text) {
    char *made = "";
    for (const parameter *p = fn->v; p + 1 < fn->v + fn->n; p++)
        made = joined(made, "", fill_words((words){.v = p->name, .from = declared(p)}, text));
    return made;
}

void emit_fn_macro(FILE *f, const op *o) {
    const function *fn = fn_prototype(o);
    const char *names = before_keywords(fn, "$v, ");
    emit_kw_forward(f, o->s->name, fn->n > 1 ? fn->v[fn->n - 2].name : NULL);
    emit(f, o, "/* fac_$name(%s%s) */\n#define FAC_KW_$name(%s...) ", names, each(o, NULL, ", ", ".$key"), names);
    fprintf(f, "%sFAC_CALL_(%s, fac_%s(", at_begin(fn->result, fn->must), fn->result, fn->name);
    for (const parameter *p = fn->v; p + 1 < fn->v + fn->n; p++) {
        const int times = number_times(o->e, p->name);
        fprintf(f, times ? "FAC_LIST_(%s, %d), " : "(%s), ", p->name, times);
    }
    emit(f, o, "&(fac_$kw_kw){FAC_DEFAULTS_$kw, __VA_ARGS__%s})))\n", fn->n > 1 ? " ()" : "");
}

void emit_fn_overload(FILE *f, const op *o) {
    const function *fn = fn_prototype(o);
    const bool star = fn->result[strlen(fn->result) - 1] == '*';
    const char *begin = xformat("%s%sfac_%s(%s", fn->result, star ? "" : " ", fn->name, before_keywords(fn, "$from, "));
    emit(f, o,
         "template <class FacKw, class = fac_if_literal_<FacKw>> %sFacKw) = delete;\n"
         "inline %sconst fac_$kw_kw &kw = {}) { return fac_$name(%s&kw); }\n",
         begin, begin, before_keywords(fn, "$v, "));
    emit_place(f, fn->name, fn->result, fn->must);
}
