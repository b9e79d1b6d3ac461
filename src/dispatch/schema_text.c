/* Schemas as text: canonical, and the signature class that decides which adapters an operator uses. */
#include "dispatch/schema.h"

#include <stdio.h>

static const char *const kind_names[FAC_TYPE_KINDS] = {
    [FAC_TYPE_TENSOR] = "Tensor",       [FAC_TYPE_INT] = "int",
    [FAC_TYPE_FLOAT] = "float",         [FAC_TYPE_BOOL] = "bool",
    [FAC_TYPE_SCALAR] = "Scalar",       [FAC_TYPE_STRING] = "str",
    [FAC_TYPE_DTYPE] = "ScalarType",    [FAC_TYPE_DEVICE] = "Device",
    [FAC_TYPE_LAYOUT] = "Layout",       [FAC_TYPE_FORMAT] = "MemoryFormat",
    [FAC_TYPE_GENERATOR] = "Generator", [FAC_TYPE_OBJECT] = "Object",
};

/* "a|b" or "*", into buf (60 bytes suffice); returns buf. */
static char *alias_set_text(uint32_t set, char *buf, size_t size) {
    if (set & FAC_ALIAS_SET_ANY) {
        snprintf(buf, size, "*");
        return buf;
    }
    size_t n = 0;
    buf[0] = 0;
    for (int i = 0; i < 26; i++) {
        if (!(set >> i & 1u) || n + 3 > size) continue;
        if (n) buf[n++] = '|';
        buf[n++] = (char)('a' + i);
        buf[n] = 0;
    }
    return buf;
}

char *fac__type_text(const fac_schema_type *t, char *buf, size_t size) {
    char set[60], alias[160] = "", list[32] = "";
    if (t->before) {
        int n = snprintf(alias, sizeof alias, "(%s%s", alias_set_text(t->before, set, sizeof set), t->write ? "!" : "");
        if (t->after)
            n += snprintf(alias + n, sizeof alias - (size_t)n, " -> %s", alias_set_text(t->after, set, sizeof set));
        snprintf(alias + n, sizeof alias - (size_t)n, ")");
    }
    if (t->list_size)
        snprintf(list, sizeof list, "[%lld]", (long long)t->list_size);
    else if (t->list)
        snprintf(list, sizeof list, "[]");
    snprintf(buf, size, "%s%s%s%s%s", kind_names[t->kind], alias, t->elem_optional ? "?" : "", list,
             t->optional ? "?" : "");
    return buf;
}

static fac_status add_args(fac_buf *b, const fac_schema *s) {
    char type[256];
    for (size_t i = 0; i < s->n_args; i++) {
        const fac_schema_arg *a = &s->args[i];
        bool star = a->kwarg_only && (i == 0 || !s->args[i - 1].kwarg_only);
        FAC_TRY(fac__buf_printf(b, "%s%s%s %s", i ? ", " : "", star ? "*, " : "",
                                fac__type_text(&a->type, type, sizeof type), a->name));
        if (a->default_text) FAC_TRY(fac__buf_printf(b, "=%s", a->default_text));
    }
    return FAC_OK;
}

static fac_status add_results(fac_buf *b, const fac_schema *s) {
    char type[256];
    bool parens = s->n_rets != 1 || s->rets[0].name[0];
    FAC_TRY(fac__buf_printf(b, " -> %s", parens ? "(" : ""));
    for (size_t i = 0; i < s->n_rets; i++) {
        const fac_schema_arg *r = &s->rets[i];
        FAC_TRY(fac__buf_printf(b, "%s%s%s%s", i ? ", " : "", fac__type_text(&r->type, type, sizeof type),
                                r->name[0] ? " " : "", r->name));
    }
    return parens ? fac__buf_add(b, ")", 1) : FAC_OK;
}

static fac_status add_schema(fac_buf *b, const fac_schema *s) {
    FAC_TRY(fac__buf_printf(b, "%s%s%s(", s->name, s->overload[0] ? "." : "", s->overload));
    FAC_TRY(add_args(b, s));
    FAC_TRY(fac__buf_add(b, ")", 1));
    return add_results(b, s);
}

fac_status fac__schema_texts(fac_schema *s) {
    s->full = fac__format("%s::%s%s%s", s->ns, s->name, s->overload[0] ? "." : "", s->overload);
    if (!s->full) return FAC_ERR_MEMORY;
    fac_buf b = {0};
    fac_status st = add_schema(&b, s);
    if (st == FAC_OK && !(s->text = fac__strdup(b.data))) st = FAC_ERR_MEMORY;
    fac__buf_free(&b);
    return st;
}

/* Types of a list as a signature shows them: no alias marks, no list sizes. */
static fac_status add_types(fac_buf *b, const fac_schema_arg *v, size_t n) {
    char type[256];
    for (size_t i = 0; i < n; i++) {
        fac_schema_type t = v[i].type;
        t.list_size = 0;
        t.before = 0;
        FAC_TRY(fac__buf_printf(b, "%s%s", i ? ", " : "", fac__type_text(&t, type, sizeof type)));
    }
    return n ? FAC_OK : fac__buf_add(b, "()", 2);
}

static fac_status add_signature(fac_buf *b, const fac_schema *s) {
    FAC_TRY(add_types(b, s->args, s->n_args));
    FAC_TRY(fac__buf_add(b, " -> ", 4));
    if (s->n_rets < 2) return add_types(b, s->rets, s->n_rets);
    FAC_TRY(fac__buf_add(b, "(", 1));
    FAC_TRY(add_types(b, s->rets, s->n_rets));
    return fac__buf_add(b, ")", 1);
}

char *fac__schema_signature(const fac_schema *s) {
    fac_buf b = {0};
    char *text = add_signature(&b, s) == FAC_OK ? fac__strdup(b.data) : NULL;
    fac__buf_free(&b);
    return text;
}
