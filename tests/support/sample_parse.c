/* Text to calls: a recursive descent over the grammar in sample.h. */
#include "sample.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>

typedef struct reader {
    const char *p;
    sample_call *call;
} reader;

static void skip_blanks(reader *r) {
    while (isspace((unsigned char)*r->p)) r->p++;
}

static bool eat(reader *r, const char *word) {
    skip_blanks(r);
    size_t n = strlen(word);
    if (strncmp(r->p, word, n) != 0) return false;
    r->p += n;
    return true;
}

static bool read_int(reader *r, int64_t *out) {
    skip_blanks(r);
    char *end;
    *out = strtoll(r->p, &end, 10);
    bool any = end != r->p;
    r->p = end;
    return any;
}

static bool read_double(reader *r, double *out) {
    skip_blanks(r);
    char *end;
    *out = strtod(r->p, &end);
    bool any = end != r->p;
    r->p = end;
    return any;
}

/* "[1,2]" into v, which has room for `room`. */
static bool read_ints(reader *r, int64_t *v, int room, int *out_n) {
    int n = 0;
    if (!eat(r, "[")) return false;
    while (!eat(r, "]")) {
        if (n == room || !read_int(r, &v[n++])) return false;
        eat(r, ",");
    }
    *out_n = n;
    return true;
}

/* The name of a dtype at the cursor, as far as its letters and digits go. */
static bool read_dtype(reader *r, fac_dtype *out) {
    static const char *const names[] = {
        [FAC_BOOL] = "bool",      [FAC_U8] = "u8",        [FAC_I8] = "i8",     [FAC_I16] = "i16",
        [FAC_I32] = "i32",        [FAC_I64] = "i64",      [FAC_F16] = "f16",   [FAC_BF16] = "bf16",
        [FAC_F32] = "f32",        [FAC_F64] = "f64",      [FAC_C64] = "c64",   [FAC_C128] = "c128",
        [FAC_F8_E4M3FN] = "e4m3", [FAC_F8_E5M2] = "e5m2", [FAC_QINT8] = "qi8", [FAC_QUINT8] = "qu8",
        [FAC_QINT32] = "qi32"};
    size_t n = 0;
    while (isalnum((unsigned char)r->p[n])) n++;
    for (size_t d = FAC_BOOL; d < FAC_COUNT(names); d++)
        if (names[d] && strlen(names[d]) == n && strncmp(names[d], r->p, n) == 0) {
            *out = (fac_dtype)d;
            r->p += n;
            return true;
        }
    return false;
}

static bool read_place(reader *r, sample_place *out) {
    static const char *const names[SAMPLE_PLACES] = {"here", "cpu", "meta", "next"};
    for (int i = 0; i < SAMPLE_PLACES; i++)
        if (eat(r, names[i])) {
            *out = (sample_place)i;
            return true;
        }
    return false;
}

static bool read_elements(reader *r, sample_tensor *t) {
    while (!eat(r, "}")) {
        if (t->n_elements == SAMPLE_ELEMENTS || !read_double(r, &t->elements[t->n_elements++])) return false;
        eat(r, ",");
    }
    return true;
}

static const struct {
    const char *name;
    fac_layout layout;
} layouts[] = {{"csr", FAC_SPARSE_CSR},
               {"csc", FAC_SPARSE_CSC},
               {"bsr", FAC_SPARSE_BSR},
               {"bsc", FAC_SPARSE_BSC},
               {"mkldnn", FAC_VENDOR_LAYOUT}};

static bool read_layout(reader *r, sample_tensor *t) {
    if (eat(r, "nested")) return t->nested = true;
    for (size_t i = 0; i < FAC_COUNT(layouts); i++)
        if (eat(r, layouts[i].name)) return t->layout = layouts[i].layout, true;
    t->layout = FAC_SPARSE_COO;
    if (!read_int(r, &t->sparse_dim)) return false;
    t->uncoalesced = eat(r, "u");
    return true;
}

/* What may follow a tensor's sizes; *out_more says whether there was anything. */
static bool read_modifier(reader *r, sample_tensor *t, bool *out_more) {
    int64_t base;
    int n;
    *out_more = true;
    if (eat(r, ":")) return t->strided = read_ints(r, t->strides, SAMPLE_DIMS, &n) && n == t->ndim;
    if (eat(r, "+")) return read_int(r, &t->offset);
    if (eat(r, "{")) return read_elements(r, t);
    if (eat(r, "@")) return read_place(r, &t->place);
    if (eat(r, "%")) return read_layout(r, t);
    if (eat(r, "^")) return t->flags |= SAMPLE_CHANNELS, true;
    if (eat(r, "~")) return t->flags |= SAMPLE_INFERENCE, true;
    if (eat(r, "!!")) return t->flags |= SAMPLE_GRAD | SAMPLE_NONLEAF, true;
    if (eat(r, "!")) return t->flags |= SAMPLE_GRAD, true;
    if (eat(r, "&")) {
        if (!read_int(r, &base) || base < 0 || base >= r->call->n_tensors - 1) return false;
        return t->base = (int)base, true;
    }
    *out_more = false;
    return true;
}

static bool read_tensor(reader *r, sample_value *v) {
    fac_dtype dtype;
    int number = -1;
    if (!read_dtype(r, &dtype)) return false;
    if (*r->p != '[' || (number = sample_add_tensor(r->call, dtype, NULL, 0)) < 0) return false;
    sample_tensor *t = &r->call->tensors[number];
    if (!read_ints(r, t->sizes, SAMPLE_DIMS, &t->ndim)) return false;
    *v = (sample_value){.kind = SAMPLE_TENSOR, .i = number};
    for (bool more = true; more;)
        if (!read_modifier(r, t, &more)) return false;
    return true;
}

static bool read_string(reader *r, sample_value *v) {
    *v = (sample_value){.kind = SAMPLE_STRING, .i = 1};
    size_t n = 0;
    for (; *r->p && *r->p != '"'; r->p++) {
        if (*r->p == '\\' && r->p[1]) r->p++;
        if (n + 1 == sizeof v->text) return false;
        v->text[n++] = *r->p;
    }
    return eat(r, "\"") && (!eat(r, "*") || read_int(r, &v->i));
}

static bool read_number(reader *r, sample_value *v) {
    size_t n = strspn(r->p, "+-0123456789");
    bool whole = n > 0 && !strchr(".eEinf", r->p[n] ? r->p[n] : ',');
    *v = (sample_value){.kind = whole ? SAMPLE_INT : SAMPLE_FLOAT};
    return whole ? read_int(r, &v->i) : read_double(r, &v->re);
}

/* "(f32)" after "dtype", and so on; a number stands for values that have no name. */
static bool read_enum(reader *r, sample_kind kind, sample_value *v) {
    fac_dtype dtype;
    sample_place place;
    *v = (sample_value){.kind = kind};
    if (kind == SAMPLE_DTYPE && read_dtype(r, &dtype))
        v->i = dtype;
    else if (kind == SAMPLE_DEVICE && read_place(r, &place))
        v->i = place;
    else if (!read_int(r, &v->i))
        return false;
    return eat(r, ")");
}

static bool read_keyword(reader *r, sample_value *v, bool *out_found) {
    *out_found = true;
    if (eat(r, "None")) return *v = (sample_value){.kind = SAMPLE_NONE}, true;
    if (eat(r, "True")) return *v = (sample_value){.kind = SAMPLE_BOOL, .i = 1}, true;
    if (eat(r, "False")) return *v = (sample_value){.kind = SAMPLE_BOOL}, true;
    if (eat(r, "generator")) return *v = (sample_value){.kind = SAMPLE_GENERATOR}, true;
    if (eat(r, "dtype(")) return read_enum(r, SAMPLE_DTYPE, v);
    if (eat(r, "device(")) return read_enum(r, SAMPLE_DEVICE, v);
    if (eat(r, "layout(")) return read_enum(r, SAMPLE_LAYOUT, v);
    if (eat(r, "format(")) return read_enum(r, SAMPLE_FORMAT, v);
    if (eat(r, "\"")) return read_string(r, v);
    *out_found = false;
    return true;
}

/* Everything but a list. */
static bool read_item(reader *r, sample_value *v) {
    bool found;
    if (!read_keyword(r, v, &found)) return false;
    if (found) return true;
    if (eat(r, "$")) {
        *v = (sample_value){.kind = SAMPLE_TENSOR};
        return read_int(r, &v->i) && v->i >= 0 && v->i < r->call->n_tensors;
    }
    if (eat(r, "(")) {
        *v = (sample_value){.kind = SAMPLE_COMPLEX};
        return read_double(r, &v->re) && eat(r, ",") && read_double(r, &v->im) && eat(r, ")");
    }
    if (isalpha((unsigned char)*r->p) && strncmp(r->p, "nan", 3) != 0 && strncmp(r->p, "inf", 3) != 0)
        return read_tensor(r, v);
    return read_number(r, v);
}

static bool read_value(reader *r, sample_value *v) {
    sample_value items[SAMPLE_ITEMS];
    int n = 0;
    if (!eat(r, "[")) return read_item(r, v);
    while (!eat(r, "]")) {
        if (n + r->call->n_items == SAMPLE_ITEMS || !read_item(r, &items[n++])) return false;
        eat(r, ",");
    }
    *v = (sample_value){.kind = SAMPLE_LIST, .i = r->call->n_items, .n = n};
    memcpy(&r->call->items[r->call->n_items], items, (size_t)n * sizeof *items);
    r->call->n_items += n;
    return true;
}

static bool read_name(reader *r) {
    skip_blanks(r);
    size_t n = strcspn(r->p, "( \n");
    const char *space = strstr(r->p, "::") && strstr(r->p, "::") < r->p + n ? "" : "aten::";
    int written = snprintf(r->call->op, sizeof r->call->op, "%s%.*s", space, (int)n, r->p);
    r->p += n;
    return n > 0 && written < (int)sizeof r->call->op && eat(r, "(");
}

static bool read_call(reader *r) {
    if (!read_name(r)) return false;
    while (!eat(r, ")")) {
        if (r->call->n_args == SAMPLE_ARGS || !read_value(r, &r->call->args[r->call->n_args++])) return false;
        eat(r, ",");
    }
    skip_blanks(r);
    return !*r->p || *r->p == '#';
}

bool sample_parse(const char *text, sample_call *out, const char **out_where) {
    reader r = {text, out};
    out->op[0] = '\0';
    out->n_args = out->n_tensors = out->n_items = 0;
    bool ok = read_call(&r);
    if (out_where) *out_where = r.p;
    return ok;
}
