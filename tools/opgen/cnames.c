/* How schema types, defaults and argument lists are spelt in C. */
#include "opgen.h"
#include <stdlib.h>

bool is_tensor(const fac_schema_type *t) { return t->kind == FAC_TYPE_TENSOR && !t->list; }
bool is_tensor_list(const fac_schema_type *t) { return t->kind == FAC_TYPE_TENSOR && t->list; }

etype type_of(const fac_schema_type *t) {
    if (t->list) switch (t->kind) {
        case FAC_TYPE_TENSOR: return T_TENSORS;
        case FAC_TYPE_FLOAT: return T_FLOATS;
        default: return T_INTS;
        }
    switch (t->kind) {
    case FAC_TYPE_TENSOR: return T_TENSOR;
    case FAC_TYPE_INT: return t->optional ? T_OPT_INT : T_INT;
    case FAC_TYPE_FLOAT: return t->optional ? T_OPT_NUM : T_FLOAT;
    case FAC_TYPE_BOOL: return t->optional ? T_OPT_NUM : T_BOOL;
    case FAC_TYPE_SCALAR: return t->optional ? T_OPT_NUM : T_SCALAR;
    case FAC_TYPE_STRING: return T_STRING;
    case FAC_TYPE_DTYPE: return T_DTYPE;
    case FAC_TYPE_DEVICE: return T_DEVICE;
    case FAC_TYPE_LAYOUT: return T_LAYOUT;
    case FAC_TYPE_FORMAT: return T_FORMAT;
    case FAC_TYPE_GENERATOR: return T_GENERATOR;
    default: return T_OBJECT;
    }
}

const char *c_type_of_etype(etype t) {
    static const char *const names[] = {
        [T_TENSOR] = "fac_tensor *",
        [T_TENSORS] = "fac_tensors ",
        [T_INT] = "int64_t ",
        [T_OPT_INT] = "fac_opt_int ",
        [T_FLOAT] = "double ",
        [T_BOOL] = "bool ",
        [T_SCALAR] = "fac_scalar ",
        [T_OPT_NUM] = "fac_opt_num ",
        [T_INTS] = "fac_ints ",
        [T_FLOATS] = "fac_floats ",
        [T_STRING] = "const char *",
        [T_DTYPE] = "fac_dtype ",
        [T_DEVICE] = "fac_device ",
        [T_LAYOUT] = "fac_layout ",
        [T_FORMAT] = "fac_memory_format ",
        [T_GENERATOR] = "fac_generator *",
        [T_OBJECT] = "void *",
        [T_SIZES_LIST] = "const fac_saved_sizes_list *",
        [T_NONE] = "fac_tensor *",
    };
    return names[t];
}

const char *c_type(const fac_schema_type *t) { return c_type_of_etype(type_of(t)); }

bool is_reduction(const fac_schema_arg *a) {
    return a->default_text && strcmp(a->name, "reduction") == 0 && a->type.kind == FAC_TYPE_INT;
}

static char *list_default(const fac_schema_arg *a, const char *type, const char *elem) {
    const char *d = a->default_text;
    char *text;
    size_t size;
    if (strcmp(d, "[]") == 0) return xformat("(%s){(const %s[]){0}, 0}", type, elem);
    FILE *f = open_memstream(&text, &size);
    int64_t n = 0;
    fprintf(f, "(%s){(const %s[]){", type, elem);
    if (d[0] == '[') {
        fprintf(f, "%.*s", (int)strlen(d) - 2, d + 1);
        n = 1;
        for (const char *p = d; *p; p++) n += *p == ',';
    } else {
        n = a->type.list_size > 0 ? a->type.list_size : 1;
        for (int64_t i = 0; i < n; i++) fprintf(f, "%s%s", i ? ", " : "", d);
    }
    fprintf(f, "}, %lld}", (long long)n);
    fclose(f);
    return text;
}

static char *scalar_default(const op *o, const char *d) {
    char *end;
    if (strcmp(d, "True") == 0 || strcmp(d, "False") == 0)
        return xformat("fac_scalar_b_(%s)", d[0] == 'T' ? "true" : "false");
    strtoll(d, &end, 10);
    if (!*end) return xformat("fac_scalar_i_(%s)", d);
    strtod(d, &end);
    if (!*end) return xformat("fac_scalar_f_(%s)", d);
    die(o->e->file, o->e->line, "default '%s' is not a number", d);
    return NULL;
}

static char *format_default(const op *o, const char *d) {
    static const char *const names[][2] = {{"contiguous_format", "FAC_CONTIGUOUS"},
                                           {"preserve_format", "FAC_PRESERVE"},
                                           {"channels_last", "FAC_CHANNELS_LAST"}};
    for (size_t i = 0; i < FAC_COUNT(names); i++)
        if (strcmp(d, names[i][0]) == 0) return xformat("%s", names[i][1]);
    die(o->e->file, o->e->line, "unknown memory format '%s'", d);
    return NULL;
}

static char *string_default(const char *d) {
    size_t n = strlen(d);
    bool quoted = n >= 2 && (d[0] == '"' || d[0] == '\'');
    return quoted ? xformat("\"%.*s\"", (int)n - 2, d + 1) : xformat("\"%s\"", d);
}

static char *none_of(etype t) {
    switch (t) {
    case T_TENSOR:
    case T_STRING:
    case T_GENERATOR:
    case T_OBJECT: return xformat("NULL");
    case T_DTYPE: return xformat("FAC_DTYPE_DEFAULT");
    case T_LAYOUT: return xformat("FAC_STRIDED");
    case T_FORMAT: return xformat("FAC_FORMAT_DEFAULT");
    default: {
        char *c = xformat("%s", c_type_of_etype(t));
        c[strlen(c) - 1] = 0;
        return xformat("(%s){0}", c);
    }
    }
}

char *default_c(const op *o, const fac_schema_arg *a) {
    const char *d = a->default_text;
    etype t = type_of(&a->type);
    if (!d || strcmp(d, "None") == 0) return none_of(t);
    switch (t) {
    case T_INT: return is_reduction(a) ? xformat("1") : xformat("%s", d);
    case T_OPT_INT: return xformat("fac_opt_int_(%s)", d);
    case T_FLOAT: return xformat("%s", d);
    case T_BOOL: return xformat("%s", strcmp(d, "True") == 0 ? "true" : "false");
    case T_SCALAR: return scalar_default(o, d);
    case T_OPT_NUM: return xformat("fac_opt_num_(%s)", scalar_default(o, d));
    case T_INTS: return list_default(a, "fac_ints", "int64_t");
    case T_FLOATS: return list_default(a, "fac_floats", "double");
    case T_STRING: return string_default(d);
    case T_FORMAT: return format_default(o, d);
    case T_DTYPE:
        return strcmp(d, "long") == 0 ? xformat("FAC_I64") : strcmp(d, "float") == 0 ? xformat("FAC_F32") : none_of(t);
    case T_TENSORS: return xformat("(fac_tensors){0}");
    default: die(o->e->file, o->e->line, "default '%s' of '%s' is not understood", d, a->name); return NULL;
    }
}

bool returns_tensors(const op *o) {
    for (size_t i = 0; i < o->s->n_rets; i++)
        if (!is_tensor(&o->s->rets[i].type)) return false;
    return o->s->n_rets > 0;
}

bool returns_list(const op *o) { return o->s->n_rets == 1 && is_tensor_list(&o->s->rets[0].type); }

char *out_param(const op *o) {
    if (o->s->n_rets == 0) return NULL;
    if (returns_tensors(o)) return xformat("fac_tensor **res_");
    if (o->s->n_rets > 1) die(o->e->file, o->e->line, "%s: mixed results are not supported", o->s->full);
    if (returns_list(o)) return xformat("fac_tensor_list *res_");
    switch (type_of(&o->s->rets[0].type)) {
    case T_BOOL: return xformat("bool *res_");
    case T_INT: return xformat("int64_t *res_");
    case T_FLOAT: return xformat("double *res_");
    case T_SCALAR: return xformat("fac_scalar *res_");
    case T_DTYPE: return xformat("fac_dtype *res_");
    default: die(o->e->file, o->e->line, "%s: a result of this type is not supported", o->s->full); return NULL;
    }
}

char *result_field(const op *o, size_t i) {
    const char *n = o->s->rets[i].name;
    return n[0] ? xformat("%s", n) : xformat("result%zu", i);
}

char *result_type(const op *o) {
    if (o->form == FORM_OUT && o->functional && o->s->n_rets > 1) return result_type(o->functional);
    if (o->s->n_rets == 0) return xformat("fac_status ");
    if (returns_tensors(o))
        return o->s->n_rets == 1 ? xformat("fac_tensor *")
                                 : xformat("fac_%s_result ", o->e->internal ? o->id : o->cname);
    if (returns_list(o)) return xformat("fac_tensors ");
    return xformat("%s", c_type(&o->s->rets[0].type));
}

static char *join(const op *o, const char *lead, bool types, const char *last) {
    char *text;
    size_t size;
    FILE *f = open_memstream(&text, &size);
    const char *sep = "";
    if (lead && lead[0]) {
        fputs(lead, f);
        sep = ", ";
    }
    for (size_t i = 0; i < o->s->n_args; i++, sep = ", ") {
        const fac_schema_arg *a = &o->s->args[i];
        fprintf(f, "%s%s%s", sep, types ? c_type(&a->type) : "", a->name);
    }
    if (last && last[0]) {
        fprintf(f, "%s%s", sep, last);
        sep = "";
    }
    if (types && !o->s->n_args && !(lead && lead[0]) && !(last && last[0])) fputs("void", f);
    fclose(f);
    return text;
}

char *params(const op *o, const char *lead) { return join(o, lead, true, out_param(o)); }
char *params_flat(const op *o, const char *lead) { return join(o, lead, true, NULL); }
char *args(const op *o, const char *lead, const char *out) { return join(o, lead, false, o->s->n_rets ? out : NULL); }

char *with_draw(const op *o, char *list, const char *draw) {
    if (!o->e->random || o->e->explicit_fn) return list;
    for (size_t i = 0; i < 2; i++) {
        static const char *const spelt[] = {"fac_generator *generator", "generator"};
        char *at = strstr(list, spelt[i]);
        if (at) return xformat("%.*s%s%s", (int)(at - list), list, draw, at + strlen(spelt[i]));
    }
    return xformat("%s, %s", list, draw);
}
