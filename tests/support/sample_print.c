/* Calls to text, as sample_parse reads it. */
#include "sample.h"

#include <math.h>

typedef struct writer {
    char *p;
    size_t left; /* with the final zero */
} writer;

static void put(writer *w, const char *format, ...) FAC_PRINTF(2, 3);
static void put(writer *w, const char *format, ...) {
    va_list ap;
    va_start(ap, format);
    int n = vsnprintf(w->p, w->left, format, ap);
    va_end(ap);
    size_t step = n < 0 ? 0 : (size_t)n < w->left ? (size_t)n : w->left - 1;
    w->p += step;
    w->left -= step;
}

static const char *dtype_name(fac_dtype d) {
    static const char *const names[FAC_DTYPE_END] = {"?",
                                                     "bool",
                                                     "u8",
                                                     "i8",
                                                     "i16",
                                                     "i32",
                                                     "i64",
                                                     "f16",
                                                     "bf16",
                                                     "f32",
                                                     "f64",
                                                     "c64",
                                                     "c128",
                                                     [FAC_F8_E4M3FN] = "e4m3",
                                                     [FAC_F8_E5M2] = "e5m2",
                                                     [FAC_QINT8] = "qi8",
                                                     [FAC_QUINT8] = "qu8",
                                                     [FAC_QINT32] = "qi32"};
    return names[d] ? names[d] : "?";
}

static const char *place_name(sample_place p) {
    static const char *const names[SAMPLE_PLACES] = {"here", "cpu", "meta", "next"};
    return names[p];
}

static void put_ints(writer *w, const int64_t *v, int n) {
    put(w, "[");
    for (int i = 0; i < n; i++) put(w, "%s%lld", i ? "," : "", (long long)v[i]);
    put(w, "]");
}

/* With a point or an exponent, so that it is not read as an integer. */
static void put_double(writer *w, double x) {
    char buf[40];
    snprintf(buf, sizeof buf, "%.17g", x);
    put(w, "%s%s", buf, strpbrk(buf, ".en") ? "" : ".0");
}

static void put_tensor(writer *w, const sample_tensor *t) {
    put(w, "%s", dtype_name(t->dtype));
    put_ints(w, t->sizes, t->ndim);
    if (t->strided) put(w, ":"), put_ints(w, t->strides, t->ndim);
    if (t->offset) put(w, "+%lld", (long long)t->offset);
    for (int i = 0; i < t->n_elements; i++) put(w, "%s%.17g", i ? "," : "{", t->elements[i]);
    if (t->n_elements) put(w, "}");
    if (t->place) put(w, "@%s", place_name(t->place));
    if (t->flags & SAMPLE_GRAD) put(w, t->flags & SAMPLE_NONLEAF ? "!!" : "!");
    if (t->flags & SAMPLE_INFERENCE) put(w, "~");
    if (t->flags & SAMPLE_CHANNELS) put(w, "^");
    if (t->base >= 0) put(w, "&%d", t->base);
    if (t->layout == FAC_SPARSE_COO) put(w, "%%%lld%s", (long long)t->sparse_dim, t->uncoalesced ? "u" : "");
    if (t->layout == FAC_SPARSE_CSR) put(w, "%%csr");
    if (t->layout == FAC_SPARSE_CSC) put(w, "%%csc");
    if (t->layout == FAC_SPARSE_BSR) put(w, "%%bsr");
    if (t->layout == FAC_SPARSE_BSC) put(w, "%%bsc");
    if (t->nested) put(w, "%%nested");
    if (t->layout == FAC_VENDOR_LAYOUT) put(w, "%%mkldnn");
}

static void put_string(writer *w, const sample_value *v) {
    put(w, "\"");
    for (const char *p = v->text; *p; p++) put(w, *p == '"' || *p == '\\' ? "\\%c" : "%c", *p);
    put(w, "\"");
    if (v->i != 1) put(w, "*%lld", (long long)v->i);
}

static void put_enum(writer *w, const sample_value *v) {
    if (v->kind == SAMPLE_DTYPE && v->i > 0 && v->i < FAC_DTYPE_END && dtype_name((fac_dtype)v->i)[0] != '?')
        put(w, "dtype(%s)", dtype_name((fac_dtype)v->i));
    else if (v->kind == SAMPLE_DEVICE && v->i >= 0 && v->i < SAMPLE_PLACES)
        put(w, "device(%s)", place_name((sample_place)v->i));
    else
        put(w, "%s(%lld)",
            v->kind == SAMPLE_DTYPE    ? "dtype"
            : v->kind == SAMPLE_DEVICE ? "device"
            : v->kind == SAMPLE_LAYOUT ? "layout"
                                       : "format",
            (long long)v->i);
}

/* `seen` is the number of tensors that the text has shown so far: a tensor is written out where it first stands. */
static void put_value(writer *w, const sample_call *c, const sample_value *v, int *seen) {
    switch (v->kind) {
    case SAMPLE_NONE: put(w, "None"); break;
    case SAMPLE_TENSOR:
        if (v->i < *seen) {
            put(w, "$%lld", (long long)v->i);
        } else {
            put_tensor(w, &c->tensors[v->i]);
            *seen = (int)v->i + 1;
        }
        break;
    case SAMPLE_INT: put(w, "%lld", (long long)v->i); break;
    case SAMPLE_FLOAT: put_double(w, v->re); break;
    case SAMPLE_BOOL: put(w, v->i ? "True" : "False"); break;
    case SAMPLE_COMPLEX: put(w, "(%.17g,%.17g)", v->re, v->im); break;
    case SAMPLE_STRING: put_string(w, v); break;
    case SAMPLE_LIST:
        put(w, "[");
        for (int64_t i = 0; i < v->n; i++) {
            if (i) put(w, ", ");
            put_value(w, c, &c->items[v->i + i], seen);
        }
        put(w, "]");
        break;
    case SAMPLE_DTYPE:
    case SAMPLE_DEVICE:
    case SAMPLE_LAYOUT:
    case SAMPLE_FORMAT: put_enum(w, v); break;
    case SAMPLE_GENERATOR: put(w, "generator"); break;
    }
}

char *sample_print(const sample_call *c, char *buf, size_t size) {
    writer w = {buf, size};
    int seen = 0;
    put(&w, "%s(", strncmp(c->op, "aten::", 6) == 0 ? c->op + 6 : c->op);
    for (int i = 0; i < c->n_args; i++) {
        if (i) put(&w, ", ");
        put_value(&w, c, &c->args[i], &seen);
    }
    put(&w, ")");
    return buf;
}
