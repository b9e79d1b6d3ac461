/* The values that a schema's defaults stand for. The parser has checked that each suits its type. */
#include "core/scalar.h"
#include "dispatch/value.h"
#include <stdlib.h>

/* "\"a\\'b\"" -> a'b. The text is quoted with double quotes; a backslash stands before a character that means itself,
   except \n and \t. */
static fac_value string_default(const char *text) {
    size_t n = strlen(text);
    char *plain = fac__alloc(n);
    if (!plain) return fac_value_none();
    char *to = plain;
    for (const char *p = text + 1; p < text + n - 1; p++) {
        bool escaped = *p == '\\';
        if (escaped) p++;
        *to++ = escaped && *p == 'n' ? '\n' : escaped && *p == 't' ? '\t' : *p;
    }
    *to = 0;
    fac_value v = fac_value_string(plain);
    fac__free(plain);
    return v;
}

static fac_value number_default(const char *text) {
    char *end;
    if (strcmp(text, "True") == 0 || strcmp(text, "False") == 0) return fac_value_bool(*text == 'T');
    int64_t whole;
    if (fac__default_int(text, &whole)) return fac_value_int(whole);
    double x = strtod(text, &end);
    return *end == 'j' ? fac_value_complex(0, x) : fac_value_float(x);
}

/* The index of a word in a list that ends with NULL, or -1 with an error. "torch." in front is ignored. */
static int word_index(const char *const *words, const char *text, const char *what) {
    if (strncmp(text, "torch.", 6) == 0) text += 6;
    for (int i = 0; words[i]; i++)
        if (strcmp(words[i], text) == 0) return i;
    FAC_FAIL(FAC_ERR_ARGUMENT, "'%s' names no %s", text, what);
    return -1;
}

static fac_value layout_default(const char *text) {
    static const char *const words[] = {"strided", "sparse_coo", "sparse_csr", "vendor", NULL};
    int i = word_index(words, text, "layout; expected strided, sparse_coo, sparse_csr or vendor");
    return i < 0 ? fac_value_none() : fac_value_layout((fac_layout)i);
}

static fac_value format_default(const char *text) {
    static const char *const words[] = {"contiguous_format", "preserve_format", "channels_last", "channels_last_3d",
                                        NULL};
    int i = word_index(words, text,
                       "memory format; expected contiguous_format, preserve_format, channels_last or channels_last_3d");
    return i < 0 ? fac_value_none() : fac_value_format((fac_memory_format)(FAC_CONTIGUOUS + i));
}

static fac_value device_default(const char *text) {
    fac_value plain = *text == '"' ? string_default(text) : fac_value_string(text);
    const char *name = fac_value_as_string(plain);
    fac_device d = name ? fac_device_parse(name) : (fac_device){0, 0};
    fac_value_release(&plain);
    return d.type ? fac_value_device(d) : fac_value_none();
}

static fac_value plain_default(fac_type_kind kind, const char *text) {
    switch (kind) {
    case FAC_TYPE_STRING: return string_default(text);
    case FAC_TYPE_LAYOUT: return layout_default(text);
    case FAC_TYPE_FORMAT: return format_default(text);
    case FAC_TYPE_DEVICE: return device_default(text);
    case FAC_TYPE_DTYPE: {
        fac_dtype d = fac_dtype_parse(text);
        return d ? fac_value_dtype(d) : fac_value_none();
    }
    case FAC_TYPE_FLOAT: return fac_value_float(strtod(text, NULL));
    default: return number_default(text);
    }
}

/* The entries of "[1,2.5]", which number n. */
static fac_status read_entries(const char *text, fac_scalar *out, size_t n) {
    const char *p = text + 1;
    for (size_t i = 0; i < n; i++, p += strcspn(p, ",") + 1) {
        char one[64];
        snprintf(one, sizeof one, "%.*s", (int)strcspn(p, ",]"), p);
        fac_value v = number_default(one);
        bool complex = v.tag == FAC_TAG_COMPLEX;
        if (!complex) out[i] = fac_value_as_scalar(v);
        fac_value_release(&v);
        FAC_CHECK(!complex, FAC_ERR_UNSUPPORTED, "the default %s has complex entries", text);
    }
    return FAC_OK;
}

/* The same entries as the list that a type holds. */
static fac_value list_of(fac_type_kind kind, const fac_scalar *s, size_t n) {
    if (kind == FAC_TYPE_SCALAR) return fac_value_scalars(s, n);
    int64_t *whole = fac__alloc_array(n, sizeof *whole);
    double *real = fac__alloc_array(n, sizeof *real);
    fac_value list = fac_value_none();
    for (size_t i = 0; i < n && whole && real; i++) {
        whole[i] = fac__scalar_i64(s[i]);
        real[i] = fac__scalar_f64(s[i]);
    }
    if (whole && real) list = kind == FAC_TYPE_FLOAT ? fac_value_floats(real, n) : fac_value_ints(whole, n);
    fac__free(whole);
    fac__free(real);
    return list;
}

static fac_value list_default(fac_type_kind kind, const char *text) {
    if (kind == FAC_TYPE_TENSOR) return fac_value_tensors(NULL, 0); /* no literal denotes a tensor */
    size_t n = text[1] != ']';
    for (const char *p = text; *p; p++) n += *p == ',';
    fac_scalar *s = fac__alloc_array(n, sizeof *s);
    fac_value list = s && read_entries(text, s, n) == FAC_OK ? list_of(kind, s, n) : fac_value_none();
    fac__free(s);
    return list;
}

/* One value for T[n] becomes n of it. */
static fac_status spread(const fac_schema_arg *a, fac_value *v) {
    fac_value held;
    fac_status st = fac__value_coerce(&a->type, a->name, *v, &held);
    if (st == FAC_OK && held.tag != FAC_TAG_NONE) {
        fac_value_release(v);
        *v = held;
    }
    return st;
}

fac_status fac__default_value(const fac_schema_arg *a, fac_value *out) {
    const char *text = a->default_text;
    *out = fac_value_none();
    if (strcmp(text, "None") == 0) return FAC_OK;
    *out = *text == '[' ? list_default(a->type.kind, text) : plain_default(a->type.kind, text);
    if (out->tag == FAC_TAG_NONE)
        return fac_error() ? fac_error() : FAC_FAIL(FAC_ERR_INTERNAL, "default %s has no value", text);
    fac_status st = spread(a, out);
    if (st != FAC_OK) fac_value_release(out);
    return st;
}
