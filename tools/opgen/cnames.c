/* How schema types, defaults and argument lists are spelt in C. */
#include "opgen.h"
#include <stdlib.h>

bool is_tensor(const fac_schema_type *t) { return t->kind == FAC_TYPE_TENSOR && !t->list; }
bool is_tensor_list(const fac_schema_type *t) { return t->kind == FAC_TYPE_TENSOR && t->list; }

etype type_of(const fac_schema_type *t) {
    static const etype one[FAC_TYPE_KINDS] = {[FAC_TYPE_TENSOR] = T_TENSOR,       [FAC_TYPE_INT] = T_INT,
                                              [FAC_TYPE_FLOAT] = T_FLOAT,         [FAC_TYPE_BOOL] = T_BOOL,
                                              [FAC_TYPE_SCALAR] = T_SCALAR,       [FAC_TYPE_STRING] = T_STRING,
                                              [FAC_TYPE_DTYPE] = T_DTYPE,         [FAC_TYPE_DEVICE] = T_DEVICE,
                                              [FAC_TYPE_LAYOUT] = T_LAYOUT,       [FAC_TYPE_FORMAT] = T_FORMAT,
                                              [FAC_TYPE_GENERATOR] = T_GENERATOR, [FAC_TYPE_OBJECT] = T_OBJECT};
    const fac_type_kind k = t->kind;
    static const etype many[FAC_TYPE_KINDS] = {
        [FAC_TYPE_TENSOR] = T_TENSORS, [FAC_TYPE_FLOAT] = T_FLOATS, [FAC_TYPE_SCALAR] = T_SCALARS};
    if (t->list) return many[k] ? many[k] : T_INTS;
    if (t->optional && k == FAC_TYPE_INT) return T_OPT_INT;
    const bool is_number = k == FAC_TYPE_FLOAT || k == FAC_TYPE_BOOL || k == FAC_TYPE_SCALAR;
    return t->optional && is_number ? T_OPT_NUM : one[k];
}

const type_words spelt[] = {
    [T_TENSOR] = {"fac_tensor *", "NULL", "tensor", "fac__value_tensor($v)"},
    [T_TENSORS] = {"fac_tensors ", "(fac_tensors){0}", "tensors", "fac__value_tensors($v.v, $v.n)"},
    [T_INT] = {"int64_t ", "0", "int", "fac_value_int($v)"},
    [T_OPT_INT] = {"fac_opt_int ", "(fac_opt_int){0}", "opt_int", "fac__box_opt_int($v)"},
    [T_FLOAT] = {"double ", "0", "float", "fac_value_float($v)"},
    [T_BOOL] = {"bool ", "false", "bool", "fac_value_bool($v)"},
    [T_SCALAR] = {"fac_scalar ", "fac_scalar_i_(0)", "scalar", "fac_value_scalar($v)"},
    [T_OPT_NUM] = {"fac_opt_num ", "(fac_opt_num){0}", "opt_num", "fac__box_opt_num($v)"},
    [T_INTS] = {"fac_ints ", "(fac_ints){0}", "ints", "fac_value_ints($v.v, $v.n)"},
    [T_FLOATS] = {"fac_floats ", "(fac_floats){0}", "floats", "fac_value_floats($v.v, $v.n)"},
    [T_SCALARS] = {"fac_scalars ", "(fac_scalars){0}", "scalars", "fac_value_scalars($v.v, $v.n)"},
    [T_STRING] = {"const char *", "NULL", "string", "$v ? fac_value_string($v) : fac_value_none()"},
    [T_DTYPE] = {"fac_dtype ", "FAC_DTYPE_DEFAULT", "dtype", "fac__box_dtype($v)"},
    [T_DEVICE] = {"fac_device ", "(fac_device){0}", "device", "fac__box_device($v)"},
    [T_LAYOUT] = {"fac_layout ", "FAC_STRIDED", "layout", "fac__box_layout($v)"},
    [T_FORMAT] = {"fac_memory_format ", "FAC_FORMAT_DEFAULT", "format", "fac__box_format($v)"},
    [T_GENERATOR] = {"fac_generator *", "NULL", "generator", "fac_value_generator($v)"},
    [T_OBJECT] = {"void *", "NULL", "object", "fac_value_object($v, NULL)"},
    [T_SIZES_LIST] = {.c = "const fac_saved_sizes_list *"},
    [T_NONE] = {.c = "fac_tensor *"},
};

const char *c_type(const fac_schema_type *t) { return spelt[type_of(t)].c; }

const op *base_of(const op *o) { return o->functional ? o->functional : o; }

int find_arg(const fac_schema *s, const char *name) {
    for (size_t i = 0; i < s->n_args; i++)
        if (strcmp(s->args[i].name, name) == 0) return (int)i;
    return -1;
}

bool is_reduction(const fac_schema_arg *a) {
    return a->default_text && strcmp(a->name, "reduction") == 0 && a->type.kind == FAC_TYPE_INT;
}

static char *list_default(const fac_schema_arg *a, const char *type, const char *elem) {
    char *items = xformat("%s", a->default_text);
    int64_t n = 1;
    if (*items == '[') {
        items = xformat("%.*s", (int)strlen(items) - 2, items + 1);
        n = *items != '\0';
        for (const char *p = items; *p; p++) n += *p == ',';
    } else
        for (; n < a->type.list_size; n++) items = xformat("%s, %s", items, a->default_text);
    return xformat("(%s){(const %s[]){%s}, %lld}", type, elem, *items ? items : "0", (long long)n);
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

/* Of a default that is a word. */
static char *named_default(const op *o, const fac_schema_arg *a) {
    static const char *const names[][2] = {
        {"True", "true"},
        {"False", "false"},
        {"long", "FAC_I64"},
        {"float", "FAC_F32"},
        {"contiguous_format", "FAC_CONTIGUOUS"},
        {"preserve_format", "FAC_PRESERVE"},
        {"channels_last", "FAC_CHANNELS_LAST"},
    };
    for (size_t i = 0; i < FAC_COUNT(names); i++)
        if (strcmp(a->default_text, names[i][0]) == 0) return xformat("%s", names[i][1]);
    die(o->e->file, o->e->line, "default '%s' of '%s' is not understood", a->default_text, a->name);
    return NULL;
}

static char *string_default(const char *d) {
    size_t n = strlen(d);
    bool quoted = n >= 2 && (d[0] == '"' || d[0] == '\'');
    return quoted ? xformat("\"%.*s\"", (int)n - 2, d + 1) : xformat("\"%s\"", d);
}

char *default_c(const op *o, const fac_schema_arg *a) {
    const char *d = a->default_text;
    const etype t = type_of(&a->type);
    if (!d || strcmp(d, "None") == 0) return xformat("%s", spelt[t].none);
    switch (t) {
    case T_INT:
    case T_FLOAT: return xformat("%s", is_reduction(a) ? "1" : d);
    case T_OPT_INT: return xformat("fac_opt_int_(%s)", d);
    case T_SCALAR: return scalar_default(o, d);
    case T_OPT_NUM: return xformat("fac_opt_num_(%s)", scalar_default(o, d));
    case T_INTS: return list_default(a, "fac_ints", "int64_t");
    case T_FLOATS: return list_default(a, "fac_floats", "double");
    case T_STRING: return string_default(d);
    case T_TENSORS: return "(fac_tensors){0}";
    default: return named_default(o, a);
    }
}

bool returns_tensors(const op *o) {
    for (size_t i = 0; i < o->s->n_rets; i++)
        if (!is_tensor(&o->s->rets[i].type)) return false;
    return o->s->n_rets > 0;
}

bool returns_list(const op *o) { return o->s->n_rets == 1 && is_tensor_list(&o->s->rets[0].type); }

bool returns_lists(const op *o) {
    size_t lists = 0;
    for (size_t i = 0; i < o->s->n_rets; i++) {
        if (o->s->rets[i].type.kind != FAC_TYPE_TENSOR) return false;
        lists += o->s->rets[i].type.list;
    }
    return lists && o->s->n_rets > 1;
}

const char *out_param(const op *o) {
    static const bool may_return[T_NONE] = {
        [T_BOOL] = true, [T_INT] = true, [T_FLOAT] = true, [T_SCALAR] = true, [T_DTYPE] = true};
    if (o->s->n_rets == 0) return "";
    if (returns_tensors(o)) return "fac_tensor **res_";
    if (returns_list(o) || returns_lists(o)) return "fac_tensor_list *res_";
    if (o->s->n_rets > 1 || !may_return[type_of(&o->s->rets[0].type)])
        die(o->e->file, o->e->line, "%s: results of these types are not supported", o->s->full);
    return xformat("%s*res_", c_type(&o->s->rets[0].type));
}

char *result_field(const op *o, size_t i) {
    const char *n = o->s->rets[i].name;
    return n[0] ? xformat("%s", n) : xformat("result%zu", i);
}

const char *result_type(const op *o) {
    if (o->form == FORM_OUT && o->s->n_rets > 1) return result_type(base_of(o));
    if (o->s->n_rets == 0) return "fac_status ";
    if (returns_list(o)) return "fac_tensors ";
    if (o->s->n_rets > 1) return xformat("fac_%s_result ", o->e->internal ? o->id : o->cname);
    return c_type(&o->s->rets[0].type);
}

const char *failure_value(const op *o) {
    if (o->s->n_rets == 0) return "fac_error()";
    if (returns_list(o)) return "fac__no_tensors()";
    if (o->s->n_rets == 1) return spelt[type_of(&o->s->rets[0].type)].none;
    const char *t = result_type(o);
    return xformat("(%.*s){0}", (int)strlen(t) - 1, t);
}

char *joined(const char *a, const char *sep, const char *b) { return xformat("%s%s%s", a, *a && *b ? sep : "", b); }

char *listed(const char *a, const char *b) { return joined(a, ", ", b); }

char *params(const op *o) { return listed(each(o, NULL, ", ", "$type$a"), out_param(o)); }

char *args(const op *o) { return listed(each(o, NULL, ", ", "$a"), o->s->n_rets ? "res_" : ""); }

const char *with_draw(const op *o, const char *list, const char *draw) {
    if (!o->e->random || o->e->explicit) return list;
    for (size_t i = 0; i < 2; i++) {
        static const char *const spellings[] = {"fac_generator *generator", "generator"};
        const char *at = strstr(list, spellings[i]);
        if (at) return xformat("%.*s%s%s", (int)(at - list), list, draw, at + strlen(spellings[i]));
    }
    return xformat("%s, %s", list, draw);
}
