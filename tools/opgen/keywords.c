/* Keyword structs. Every keyword is a plain C value with its default in the initialiser that stands before the user's
   own: which fields an argument yields, what they hold when not given, and how a stub reads them. */
#include "opgen.h"
#include <stdlib.h>

static const fac_schema *fn_schema(const op *o) { return o->functional ? o->functional->s : o->s; }

static bool is_factory(const op *o) { return o->e->factory && o->form == FORM_FUNCTION; }

size_t n_kw(const op *o) { return fn_schema(o)->n_args - o->n_pos + is_factory(o); }

/* ---- fields ---- */

/* An int[N] may be given as one number under one name, or as a list under another. */
static bool may_be_one(const fac_schema_arg *a) { return type_of(&a->type) == T_INTS && a->type.list_size > 0; }

static bool ends_in_s(const char *name) { return name[strlen(name) - 1] == 's'; }

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

const char *kw_type(const fac_schema_arg *a) {
    if (is_reduction(a)) return "fac_loss_reduction ";
    if (may_be_one(a)) return "int64_t ";
    switch (type_of(&a->type)) {
    case T_BOOL: return "int "; /* which takes no pointer, and shows what is neither true nor false */
    case T_SCALAR: return "double ";
    default: return plain_type(&a->type);
    }
}

/* The same in a struct, where an object of the library's own has its type. */
static const char *field_type(const op *o, const fac_schema_arg *a) {
    if (type_of(&a->type) != T_OBJECT) return kw_type(a);
    if (!o->e->object) die(o->e->file, o->e->line, "'object' should say what '%s' points to", a->name);
    return o->e->object;
}

static const char *second_type(const fac_schema_arg *a) { return may_be_one(a) ? "fac_ints " : "fac_scalar "; }

static bool is_none(const fac_schema_arg *a) { return strcmp(a->default_text, "None") == 0; }

static char *number_init(const op *o, const fac_schema_arg *a) {
    const char *d = a->default_text;
    char *end;
    if (strcmp(d, "True") == 0 || strcmp(d, "False") == 0) return xformat("%d", d[0] == 'T');
    (void)strtod(d, &end);
    if (*end) die(o->e->file, o->e->line, "default '%s' of '%s' is not a number", d, a->name);
    return xformat("%s", d);
}

static char *kw_init(const op *o, const fac_schema_arg *a) {
    const etype t = type_of(&a->type);
    if (is_reduction(a)) return xformat("FAC_REDUCTION_MEAN");
    if (may_be_one(a)) return xformat("FAC_UNSET");
    switch (t) {
    case T_OPT_INT: return is_none(a) ? xformat("FAC_UNSET") : number_init(o, a);
    case T_SCALAR: return xformat("FAC_UNSET_FLOAT"); /* which tells the stub that the other name may be given */
    case T_OPT_NUM:
        if (a->type.kind == FAC_TYPE_BOOL) return is_none(a) ? xformat("-1") : number_init(o, a);
        return is_none(a) || a->type.kind == FAC_TYPE_SCALAR ? xformat("FAC_UNSET_FLOAT") : number_init(o, a);
    case T_INTS: return xformat("FAC_UNSET_LIST_(const int64_t *)");
    case T_FLOATS: return xformat("FAC_UNSET_LIST_(const double *)");
    case T_TENSORS: return xformat("FAC_UNSET_LIST_(fac_tensor *const *)");
    case T_DEVICE: return xformat("FAC_UNSET_DEVICE_");
    default: return default_c(o, a);
    }
}

static char *comment_of(const fac_schema_arg *a) {
    const bool one = may_be_one(a) && !is_none(a), unset = type_of(&a->type) == T_SCALAR;
    if (one || unset) return xformat("default %s", a->default_text);
    return kw_second_name(a) && !is_none(a) ? xformat("default %s", a->default_text) : NULL;
}

void each_kw_field(FILE *f, const op *o, kw_field_fn field) {
    const fac_schema *s = fn_schema(o);
    for (int only = 0; only < 2; only++) {
        for (size_t i = o->n_pos; i < s->n_args; i++)
            if (s->args[i].kwarg_only == only)
                field(f, field_type(o, &s->args[i]), kw_name(&s->args[i]), kw_init(o, &s->args[i]),
                      comment_of(&s->args[i]));
        if (!only) field(f, "int64_t ", "kw_stray", "FAC_STRAY_OK_", "what is one value too many");
    }
    for (size_t i = o->n_pos; i < s->n_args; i++) {
        const fac_schema_arg *a = &s->args[i];
        char *name = kw_second_name(a);
        if (!name) continue;
        field(f, second_type(a), name, may_be_one(a) ? "FAC_UNSET_LIST_(const int64_t *)" : "FAC_UNSET_SCALAR_",
              xformat("instead of .%s", kw_name(a)));
    }
    if (o->e->factory) field(f, "int ", "requires_grad", "false", NULL);
}

static void write_field(FILE *f, const char *type, const char *name, const char *init, const char *comment) {
    fprintf(f, "    %s%s FAC_DEF(%s);", type, name, init);
    if (comment) fprintf(f, " /* %s */", comment);
    fputc('\n', f);
}

static void write_default(FILE *f, const char *type, const char *name, const char *init, const char *comment) {
    (void)type, (void)comment;
    fprintf(f, ".%s = %s, ", name, init);
}

void emit_kw_struct(FILE *f, const op *o) {
    const char *k = o->kw;
    fprintf(f, "/* Keywords of fac_%s, in the order in which they may be given by position. */\n", k);
    fprintf(f, "typedef struct fac_%s_kw {\n    FAC_KW_HEAD(struct fac_%s_kw);\n", k, k);
    each_kw_field(f, o, write_field);
    fprintf(f, "} fac_%s_kw;\n/* Puts the defaults into *kw. */\nFAC_API void fac_%s_kw_init(fac_%s_kw *kw);\n", k, k,
            k);
    fprintf(f, "#define FAC_DEFAULTS_%s ", k);
    each_kw_field(f, o, write_default);
    fprintf(f, ".kw_size = sizeof(fac_%s_kw)\n", k); /* last, so that a value without a name comes after it */
}

void emit_kw_init(FILE *f, const op *o) {
    fprintf(f, "void fac_%s_kw_init(fac_%s_kw *kw) { *kw = (fac_%s_kw){FAC_DEFAULTS_%s}; }\n", o->kw, o->kw, o->kw,
            o->kw);
}

/* ---- reading them in a stub, as k_ ---- */

static size_t n_by_position(const op *o) {
    const fac_schema *s = fn_schema(o);
    size_t n = o->n_pos + o->n_out_args;
    for (size_t i = o->n_pos; i < s->n_args; i++) n += !s->args[i].kwarg_only;
    return n;
}

/* What needs a variable of its own: lists that may be one number, and numbers that may be exact. */
static void emit_checked(FILE *f, const op *o, const fac_schema_arg *a, const char *fail) {
    const char *op = o->s->name, *name = kw_name(a), *second = kw_second_name(a);
    const etype t = type_of(&a->type);
    if (may_be_one(a)) {
        const int n = (int)a->type.list_size;
        fprintf(f, "    int64_t %s_room_[%d];\n    fac_ints %s_given_ = %s;\n", a->name, n, a->name, default_c(o, a));
        fprintf(f, "    if (FAC_UNLIKELY(fac__kw_list(&%s_given_, %s_room_, %d, k_->%s, k_->%s))) {\n", a->name,
                a->name, n, name, second);
        fprintf(f, "        fac__kw_list_error(\"%s\", \"%s\", \"%s\", k_->%s.n);\n        return %s;\n    }\n", op,
                name, second, second, fail);
    } else if (second) {
        const char *d = t == T_OPT_NUM ? default_c(o, a) : xformat("fac_opt_num_(%s)", default_c(o, a));
        fprintf(f, "    fac_opt_num %s_given_ = %s;\n", a->name, d);
        fprintf(f, "    if (FAC_UNLIKELY(fac__kw_scalar(&%s_given_, k_->%s, k_->%s))) {\n", a->name, name, second);
        fprintf(f, "        fac__kw_scalar_error(\"%s\", \"%s\", \"%s\", k_->%s);\n        return %s;\n    }\n", op,
                name, second, name, fail);
    } else
        emit_kw_check(f, op, a, fail);
}

void emit_kw_open(FILE *f, const op *o, const char *fail) {
    const fac_schema *s = fn_schema(o);
    const char *k = o->kw, *op = o->s->name;
    fprintf(f, "    fac_%s_kw local_;\n    const fac_%s_kw *k_ = kw;\n", k, k);
    fputs("    if (FAC_UNLIKELY(!fac__kw_fits(kw, sizeof local_))) {\n", f);
    fprintf(f, "        fac_%s_kw_init(&local_);\n", k);
    fprintf(f, "        if (fac__kw_take(\"%s\", &local_, kw, sizeof local_)) return %s;\n", op, fail);
    fputs("        k_ = &local_;\n    }\n", f);
    fprintf(f, "    if (FAC_UNLIKELY(k_->kw_stray != FAC_STRAY_OK_)) {\n        fac__kw_stray_error(\"%s\", %zu);\n",
            op, n_by_position(o));
    fprintf(f, "        return %s;\n    }\n", fail);
    for (size_t i = o->n_pos; i < s->n_args; i++) emit_checked(f, o, &s->args[i], fail);
    if (is_factory(o)) emit_kw_bool_check(f, op, "requires_grad", fail);
}

/* A plain value as the kernel's type. */
static void plain_value(FILE *f, const fac_schema_arg *a, const char *value) {
    switch (type_of(&a->type)) {
    case T_OPT_INT: fprintf(f, "fac__plain_int(%s)", value); break;
    case T_OPT_NUM:
        fprintf(f, "fac__plain_%s(%s)",
                a->type.kind == FAC_TYPE_BOOL    ? "bool"
                : a->type.kind == FAC_TYPE_FLOAT ? "float"
                                                 : "number",
                value);
        break;
    default: fputs(value, f);
    }
}

void emit_plain_argument(FILE *f, const fac_schema_arg *a) { plain_value(f, a, a->name); }

void emit_kw_value(FILE *f, const op *o, const fac_schema_arg *a) {
    const etype t = type_of(&a->type);
    const char *field = xformat("k_->%s", kw_name(a));
    if (may_be_one(a) || (t == T_OPT_NUM && kw_second_name(a)))
        fprintf(f, "%s_given_", a->name);
    else if (t == T_SCALAR)
        fprintf(f, "%s_given_.v", a->name);
    else if (t == T_INTS || t == T_FLOATS)
        fprintf(f, "fac__kw_unset(%s.v) ? %s : %s", field, default_c(o, a), field);
    else if (t == T_DEVICE)
        fprintf(f, "fac__kw_device(%s)", field);
    else
        plain_value(f, a, field);
}

/* ---- functions of the library's own ---------------------------------------------------------------------------------- */

op fn_op(const entry *e) {
    fac_schema *s = NULL;
    if (fac__schema_parse(e->fn, &s)) die(e->file, e->line, "%s", fac_error_message());
    for (size_t i = 0; i < s->n_args; i++)
        if (!s->args[i].default_text) die(e->file, e->line, "keyword '%s' has no default", s->args[i].name);
    return (op){.e = e, .s = s, .kw = s->name, .cname = s->name};
}

const function *fn_prototype(const model *m, const entry *e) {
    char *name = xformat("%.*s", (int)strcspn(e->fn, "("), e->fn);
    const function *fn = find_function(m, name);
    if (!fn || !fn->n || strcmp(fn->v[fn->n - 1].name, "kw") != 0)
        die(e->file, e->line, "no header declares fac_%s with its keywords, kw, last", name);
    free(name);
    return fn;
}

void emit_fn_struct(FILE *f, const entry *e) {
    const op o = fn_op(e);
    emit_kw_struct(f, &o);
    fputc('\n', f);
}

static void emit_fn_list(FILE *f, const char *n, const fac_schema_arg *a) {
    const char *one = kw_name(a), *many = kw_second_name(a);
    fprintf(f, "    fac_ints %s = {&k_->%s, 1};\n", many, one);
    fprintf(f, "    if (fac__kw_list(&%s, &k_->%s, 1, k_->%s, k_->%s)) {\n", many, one, one, many);
    fprintf(f, "        fac__kw_list_error(\"%s\", \"%s\", \"%s\", k_->%s.n);\n        return fac_error();\n    }\n", n,
            one, many, many);
    fprintf(f, "    if (k_->%s == FAC_UNSET) k_->%s = %s;\n    k_->%s = %s;\n", one, one, a->default_text, many, many);
}

static void emit_fn_checks(FILE *f, const char *n, const fac_schema_arg *a) {
    const etype t = type_of(&a->type);
    const char *k = a->name;
    if (may_be_one(a))
        emit_fn_list(f, n, a);
    else
        emit_kw_check(f, n, a, "fac_error()");
    if (t == T_DEVICE)
        fprintf(f, "    k_->%s = fac__kw_device(k_->%s);\n", k, k);
    else if (is_list(a) && !may_be_one(a))
        fprintf(f, "    if (fac__kw_unset(k_->%s.v)) k_->%s.v = NULL, k_->%s.n = 0;\n", k, k, k);
}

void emit_fn_init(FILE *f, const model *m, const entry *e) {
    const op o = fn_op(e);
    const char *n = o.s->name;
    const size_t positions = fn_prototype(m, e)->n - 1;
    emit_kw_init(f, &o);
    fprintf(f, "fac_status fac__open_%s_kw(fac_%s_kw *k_, const fac_%s_kw *kw) {\n    fac_%s_kw_init(k_);\n", n, n, n,
            n);
    fprintf(f, "    FAC_TRY(fac__kw_take(\"%s\", k_, kw, sizeof *k_));\n    if (k_->kw_stray != FAC_STRAY_OK_) {\n", n);
    fprintf(f, "        fac__kw_stray_error(\"%s\", %zu);\n        return fac_error();\n    }\n", n,
            positions + n_by_position(&o));
    for (size_t i = 0; i < o.s->n_args; i++) emit_fn_checks(f, n, &o.s->args[i]);
    fputs("    return FAC_OK;\n}\n\n", f);
}

void emit_fn_open(FILE *f, const entry *e) {
    const op o = fn_op(e);
    const char *n = o.s->name;
    fprintf(f, "fac_status fac__open_%s_kw(fac_%s_kw *k, const fac_%s_kw *kw);\n", n, n, n);
}

/* How often a number stands for the list of integers that this parameter is; 0 if it may not. */
static int number_times(const entry *e, const char *parameter) {
    const char *of = e->number_for ? e->number_for : "[";
    const size_t n = strcspn(of, "[");
    return strlen(parameter) == n && strncmp(parameter, of, n) == 0 ? atoi(of + n + 1) : 0;
}

void emit_fn_macro(FILE *f, const model *m, const entry *e) {
    const op o = fn_op(e);
    const char *n = o.s->name;
    const function *fn = fn_prototype(m, e);
    emit_kw_forward(f, n, fn->n > 1 ? fn->v[fn->n - 2].name : NULL);
    fprintf(f, "/* fac_%s(", n);
    for (size_t i = 0; i + 1 < fn->n; i++) fprintf(f, "%s, ", fn->v[i].name);
    for (size_t i = 0; i < o.s->n_args; i++) fprintf(f, "%s.%s", i ? ", " : "", kw_name(&o.s->args[i]));
    fprintf(f, ") */\n#define FAC_KW_%s(", n);
    for (size_t i = 0; i + 1 < fn->n; i++) fprintf(f, "%s, ", fn->v[i].name);
    fputs("...) ", f);
    emit_at_begin(f, fn->result, fn->must);
    fprintf(f, "FAC_CALL_(%s, fac_%s(", fn->result, n);
    for (size_t i = 0; i + 1 < fn->n; i++) {
        const int times = number_times(e, fn->v[i].name);
        fprintf(f, times ? "FAC_LIST_(%s, %d), " : "(%s), ", fn->v[i].name, times);
    }
    fprintf(f, "&(fac_%s_kw){FAC_DEFAULTS_%s, __VA_ARGS__%s})))\n", n, n, fn->n > 1 ? " ()" : "");
}

/* What stands before the keywords in an overload. */
static void emit_overload_begin(FILE *f, const function *fn) {
    fprintf(f, "%s%sfac_%s(", fn->result, fn->result[strlen(fn->result) - 1] == '*' ? "" : " ", fn->name);
    for (size_t i = 0; i + 1 < fn->n; i++) {
        const parameter *p = &fn->v[i];
        const bool star = p->type[strlen(p->type) - 1] == '*';
        fprintf(f, strstr(p->type, "(*") ? "%s, " : star ? "%s%s, " : "%s %s, ", p->type, p->name);
    }
}

void emit_fn_overload(FILE *f, const model *m, const entry *e) {
    const function *fn = fn_prototype(m, e);
    const char *n = fn->name;
    fputs("template <class FacKw, class = fac_if_literal_<FacKw>> ", f);
    emit_overload_begin(f, fn);
    fputs("FacKw) = delete;\ninline ", f);
    emit_overload_begin(f, fn);
    fprintf(f, "const fac_%s_kw &kw = {}) { return fac_%s(", n, n);
    for (size_t i = 0; i + 1 < fn->n; i++) fprintf(f, "%s, ", fn->v[i].name);
    fprintf(f, "&kw); }\n#define fac_%s(...) ", n);
    emit_at_begin(f, fn->result, fn->must);
    fprintf(f, "fac_%s(__VA_ARGS__))\n", n);
}
