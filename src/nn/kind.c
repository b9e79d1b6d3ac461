/* Modules of described kinds: made from their arguments, and shown. */
#include "nn/kind.h"
#include "ops/call.h"
#include <stdio.h>
#include <stdlib.h>

/* ---- making ---- */

fac_status fac__nn_ints(const char *constructor, const char *name, int64_t *out, size_t n, fac_ints given) {
    FAC_CHECK(given.n == 1 || given.n == n, FAC_ERR_ARGUMENT, "%s: %s should be one number or %zu, not %zu",
              constructor, name, n, given.n);
    if (!fac__list_given(given.v, given.n, name)) return fac_error();
    for (size_t i = 0; i < n; i++) out[i] = given.v[given.n == 1 ? 0 : i];
    return FAC_OK;
}

/* Numbers of eight bytes, of either kind. */
static fac_status take_list(const char *constructor, const char *name, size_t *out_n, void *out, const void *given,
                            size_t n) {
    FAC_CHECK(n <= FAC_NN_MAX_LIST, FAC_ERR_ARGUMENT, "%s: %s should be at most %d numbers, not %zu", constructor, name,
              FAC_NN_MAX_LIST, n);
    if (!fac__list_given(given, n, name)) return fac_error();
    *out_n = n;
    if (n) memcpy(out, given, n * 8);
    return FAC_OK;
}

fac_status fac__nn_list(const char *constructor, const char *name, fac_nn_list *out, fac_ints given) {
    return take_list(constructor, name, &out->n, out->v, given.v, given.n);
}

fac_status fac__nn_floats(const char *constructor, const char *name, fac_nn_floats *out, fac_floats given) {
    return take_list(constructor, name, &out->n, out->v, given.v, given.n);
}

static void *field_of(void *arguments, const fac_nn_field *f) { return (char *)arguments + f->offset; }

/* The choice that is written like the text, in the place of it. */
static fac_status settle_text(const fac_nn_kind *k, const fac_nn_field *f, const char **text) {
    if (!*text) {
        FAC_CHECK(f->unset && strcmp(f->unset, "None") == 0, FAC_ERR_ARGUMENT, "%s: %s is NULL", k->constructor,
                  f->name);
        return FAC_OK;
    }
    char all[160] = "";
    for (const char *const *c = f->choices; *c; c++) {
        if (strcmp(*c, *text) == 0) return *text = *c, FAC_OK;
        const size_t n = strlen(all);
        snprintf(all + n, sizeof all - n, "%s\"%s\"", !n ? "" : c[1] ? ", " : " or ", *c);
    }
    return FAC_FAIL(FAC_ERR_ARGUMENT, "%s: %s should be %s, not \"%s\"", k->constructor, f->name, all, *text);
}

/* In a module's own copy of its arguments. */
static fac_status settle(const fac_nn_kind *k, void *arguments) {
    for (size_t i = 0; i < k->n_fields; i++) {
        const fac_nn_field *f = &k->fields[i];
        if (f->type == FAC_NN_TEXT) FAC_TRY(settle_text(k, f, field_of(arguments, f)));
        if (f->zero_means < 0) continue;
        int64_t *v = field_of(arguments, f), *other = field_of(arguments, &k->fields[f->zero_means]);
        for (int64_t d = 0; d < f->size; d++)
            if (!v[d]) v[d] = other[d];
    }
    return FAC_OK;
}

static fac_status add_tensors(fac_module *m, const fac_nn_kind *k, fac_tensor *const *tensors) {
    for (size_t i = 0; i < k->n_fields; i++) {
        if (k->fields[i].type != FAC_NN_TENSOR) continue;
        (void)fac_module_add_buffer(m, k->fields[i].name, *tensors++);
        FAC_TRY(fac_error());
    }
    return FAC_OK;
}

fac_module *fac__nn_make(const fac_nn_kind *k, const void *arguments, fac_tensor *const *tensors) {
    fac_module *m = fac_module_new(&k->cls);
    if (!m) return NULL;
    if (arguments) memcpy(m->state, arguments, k->cls.state_size);
    fac_status st = settle(k, m->state);
    if (!st) st = add_tensors(m, k, tensors);
    if (!st && k->build) st = k->build(m);
    return fac__nn_done(m, st);
}

fac_status fac__nn_inputs(fac_module *m, fac_tensors inputs, const char *names, size_t least, size_t most) {
    FAC_CHECK(inputs.n >= least && inputs.n <= most, FAC_ERR_ARGUMENT, "%s takes %zu input%s (%s), but got %zu",
              m->cls->name, most, most == 1 ? "" : "s", names, inputs.n);
    for (size_t i = 0; i < least; i++)
        FAC_CHECK(inputs.v[i], FAC_ERR_ARGUMENT, "%s: input %zu of (%s) is NULL", m->cls->name, i, names);
    return FAC_OK;
}

/* ---- showing ---- */

static const fac_nn_kind *kind_of(fac_module *m) { return (const fac_nn_kind *)(const void *)m->cls; }

/* The shortest text that is read as the same number, with an exponent where Python's has one. */
static void float_text(double v, char *buf, size_t size) {
    int digits = 1;
    do snprintf(buf, size, "%.*e", digits - 1, v);
    while (strtod(buf, NULL) != v && ++digits <= 17);
    const char *e = strchr(buf, 'e');
    const int exponent = e ? atoi(e + 1) : 0;
    if (e && exponent >= -4 && exponent < 16) {
        const int decimals = digits - 1 - exponent;
        snprintf(buf, size, "%.*f", decimals > 0 ? decimals : 1, v);
    } else if (e)
        snprintf(buf, size, "%.*g", digits, v);
}

static void floats_text(const fac_nn_floats *l, char *buf, size_t size) {
    if (l->n == 1) {
        float_text(l->v[0], buf, size);
        return;
    }
    snprintf(buf, size, l->n ? "(" : "None");
    for (size_t i = 0; i < l->n; i++) {
        char number[40];
        float_text(l->v[i], number, sizeof number);
        const size_t at = strlen(buf);
        snprintf(buf + at, size - at, "%s%s", number, i + 1 < l->n ? ", " : ")");
    }
}

static bool all_equal(const int64_t *v, size_t n) {
    for (size_t i = 1; i < n; i++)
        if (v[i] != v[0]) return false;
    return n > 0;
}

static void list_text(const int64_t *v, size_t n, bool tuple, char *buf, size_t size) {
    if (!tuple) {
        snprintf(buf, size, "%lld", (long long)v[0]);
        return;
    }
    snprintf(buf, size, "(");
    for (size_t i = 0; i < n; i++) {
        const size_t at = strlen(buf);
        snprintf(buf + at, size - at, "%s%lld", i ? ", " : "", (long long)v[i]);
    }
    const size_t at = strlen(buf);
    snprintf(buf + at, size - at, n == 1 ? ",)" : ")");
}

static void ints_text(const fac_nn_field *f, const int64_t *v, bool tuple, char *buf, size_t size) {
    const size_t n = (size_t)f->size;
    const bool equal = all_equal(v, n);
    if (equal && v[0] == 0 && f->zero_means == FAC_NN_ZERO_IS_NONE)
        snprintf(buf, size, "None");
    else
        list_text(v, n, tuple || !equal, buf, size);
}

void fac__nn_text(const fac_nn_field *f, const void *arguments, bool tuple, char *buf, size_t size) {
    static const char *const reductions[] = {"none", "mean", "sum"};
    const void *at = (const char *)arguments + f->offset;
    switch (f->type) {
    case FAC_NN_OPT_INT:
    case FAC_NN_INT:
        if (*(const int64_t *)at == FAC_UNSET)
            snprintf(buf, size, "None");
        else
            snprintf(buf, size, "%lld", (long long)*(const int64_t *)at);
        break;
    case FAC_NN_OPT_FLOAT:
    case FAC_NN_FLOAT:
        if (*(const double *)at == FAC_UNSET_FLOAT)
            snprintf(buf, size, "None");
        else
            float_text(*(const double *)at, buf, size);
        break;
    case FAC_NN_BOOL: snprintf(buf, size, *(const bool *)at ? "True" : "False"); break;
    case FAC_NN_OPT_BOOL:
        snprintf(buf, size, "%s", *(const int *)at < 0 ? "None" : *(const int *)at ? "True" : "False");
        break;
    case FAC_NN_FLOATS: floats_text(at, buf, size); break;
    case FAC_NN_TEXT:
        snprintf(buf, size, *(const char *const *)at ? "'%s'" : "None%s",
                 *(const char *const *)at ? *(const char *const *)at : "");
        break;
    case FAC_NN_REDUCTION: snprintf(buf, size, "'%s'", reductions[*(const int64_t *)at]); break;
    case FAC_NN_INTS: ints_text(f, at, tuple, buf, size); break;
    case FAC_NN_LIST: {
        const fac_nn_list *list = at;
        list_text(list->v, list->n, tuple || list->n != 1, buf, size);
        break;
    }
    case FAC_NN_DTYPE:
    case FAC_NN_DEVICE:
    case FAC_NN_TENSOR: buf[0] = 0;
    }
}

static const fac_nn_field *field_named(const fac_nn_kind *k, const char *name, size_t n) {
    for (const fac_nn_field *f = k->fields; f < k->fields + k->n_fields; f++)
        if (strlen(f->name) == n && strncmp(f->name, name, n) == 0) return f;
    return NULL;
}

/* Whether the value of the field in braces at `text` is its default. */
static bool is_default(const fac_nn_kind *k, const char *text, const void *arguments) {
    text += strspn(text, "{(=");
    const fac_nn_field *f = field_named(k, text, strcspn(text, ")}"));
    char now[128], unset[128];
    union {
        int64_t size[FAC_NN_MAX_LIST + 1];
        double number;
        const char *text;
    } room = {{0}};
    fac_nn_field alone = *f;
    alone.offset = 0;
    if (!f->unset || fac__nn_read(k, &alone, f->unset, &room)) return false;
    fac__nn_text(f, arguments, true, now, sizeof now);
    fac__nn_text(&alone, &room, true, unset, sizeof unset);
    return strcmp(now, unset) == 0;
}

/* Takes the quotes off the word at `at`; where the text ends then. */
static size_t without_quotes(char *buf, size_t at) {
    const size_t n = strlen(buf + at);
    if (n < 2 || buf[at] != '\'') return at + n;
    memmove(buf + at, buf + at + 1, n - 2);
    buf[at + n - 2] = 0;
    return at + n - 2;
}

void fac__nn_describe(fac_module *m, char *buf, size_t size) {
    const fac_nn_kind *k = kind_of(m);
    size_t at = 0;
    buf[0] = 0;
    for (const char *p = k->shows; *p && at + 1 < size;) {
        if (*p == '[' && is_default(k, strchr(p, '{'), m->state))
            p = strchr(p, ']') + 1;
        else if (*p == '[' || *p == ']')
            p++;
        else if (*p == '{' && p[1] == '@') {
            char name[32];
            snprintf(name, sizeof name, "%.*s", (int)strcspn(p + 2, "}"), p + 2);
            snprintf(buf + at, size - at, fac__module_slot(m, name)->tensor ? "True" : "False");
            at += strlen(buf + at);
            p = strchr(p, '}') + 1;
        } else if (*p == '{') {
            const bool tuple = p[1] == '(', bare = p[1] == '=';
            p += 1 + tuple + bare;
            const size_t n = strcspn(p, ")}");
            fac__nn_text(field_named(k, p, n), m->state, tuple, buf + at, size - at);
            at = bare ? without_quotes(buf, at) : at + strlen(buf + at);
            p += n + 1 + tuple;
        } else {
            buf[at++] = *p++;
            buf[at] = 0;
        }
    }
}
