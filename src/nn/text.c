/* Modules from text, as one writes them in Python: "Conv2d(3, 8, kernel_size=(3, 5), padding='same')". */
#include "nn/kind.h"
#include "nn/layers.h"
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>

/* ---- values ---- */

static fac_status no_value(const fac_nn_kind *k, const fac_nn_field *f, const char *text, const char *wanted) {
    return FAC_FAIL(FAC_ERR_FORMAT, "%s: %s should be %s, not %s", k->cls.name, f->name, wanted, text);
}

/* Reads the number of eight bytes at `text`; its end, or NULL if there is none that fits. */
typedef const char *(*number_at)(const char *text, void *out);

static const char *int_at(const char *text, void *out) {
    char *end;
    errno = 0;
    const int64_t v = *(int64_t *)out = strtoll(text, &end, 10);
    return end != text && !errno && v != FAC_UNSET ? end : NULL;
}

static const char *float_at(const char *text, void *out) {
    static const char infinite[] = "float('inf')";
    char *end;
    const bool named = strncmp(text, infinite, sizeof infinite - 1) == 0;
    *(double *)out = strtod(named ? "inf" : text, &end);
    if (named) return text + sizeof infinite - 1;
    return end != text ? end : NULL;
}

static bool read_one(const char *text, number_at read, void *out) {
    const char *end = read(text, out);
    return end && !*end;
}

static bool read_bool(const char *text, bool *out) {
    *out = strcmp(text, "True") == 0;
    return *out || strcmp(text, "False") == 0;
}

/* "(1, 2)", "[1, 2]" or "1"; the count, or 0 if it is none of them or has more numbers. */
static size_t read_list(const char *text, number_at read, void *out, size_t most) {
    const char close = *text == '(' ? ')' : ']';
    if (*text != '(' && *text != '[') return read_one(text, read, out);
    size_t n = 0;
    for (text++;; text++) {
        text += strspn(text, " \t\n");
        if (*text == close) break;
        if (n == most || !(text = read(text, (char *)out + 8 * n++))) return 0;
        text += strspn(text, " \t\n");
        if (*text == close) break;
        if (*text != ',') return 0;
    }
    return text[1] ? 0 : n;
}

static fac_status read_numbers(const fac_nn_kind *k, const fac_nn_field *f, const char *text, number_at read,
                               size_t *out_n, void *out) {
    *out_n = read_list(text, read, out, FAC_NN_MAX_LIST);
    return *out_n || strcmp(text, "[]") == 0 ? FAC_OK : no_value(k, f, text, "a list of numbers");
}

/* The choice, in quotes or not. */
static fac_status read_text(const fac_nn_kind *k, const fac_nn_field *f, const char *text, const char **out) {
    const size_t n = strlen(text);
    const bool quoted = n >= 2 && (text[0] == '\'' || text[0] == '"') && text[n - 1] == text[0];
    const size_t length = quoted ? n - 2 : n; /* print shows some words without quotes, as PyTorch does */
    for (const char *const *c = f->choices; *c; c++)
        if (strlen(*c) == length && strncmp(*c, text + quoted, length) == 0) return *out = *c, FAC_OK;
    return no_value(k, f, text, quoted ? "one of the words that it may be" : "a word in quotes");
}

static fac_status read_reduction(const fac_nn_kind *k, const fac_nn_field *f, const char *text, int64_t *out) {
    static const char *const words[] = {"'none'", "'mean'", "'sum'"};
    for (int64_t i = 0; i < 3; i++)
        if (strcmp(text, words[i]) == 0) return *out = i, FAC_OK;
    if (read_one(text, int_at, out) && *out >= 0 && *out <= 2) return FAC_OK; /* a default */
    return no_value(k, f, text, "'none', 'mean' or 'sum'");
}

static fac_status read_dtype(const fac_nn_kind *k, const fac_nn_field *f, const char *text, fac_dtype *out) {
    if (strncmp(text, "torch.", 6) == 0) text += 6;
    for (fac_dtype d = 0; d < FAC_DTYPE_COUNT; d++)
        if (strcmp(text, fac_dtype_name(d)) == 0) return *out = d, FAC_OK;
    return no_value(k, f, text, "a dtype");
}

static fac_status read_device(const fac_nn_kind *k, const fac_nn_field *f, const char *text, fac_device *out) {
    char name[32];
    const size_t n = strlen(text);
    if (n < 3 || n > sizeof name || (*text != '\'' && *text != '"') || text[n - 1] != *text)
        return no_value(k, f, text, "a device in quotes");
    snprintf(name, sizeof name, "%.*s", (int)n - 2, text + 1);
    *out = fac_device_parse(name);
    return fac_error();
}

static fac_status read_ints(const fac_nn_kind *k, const fac_nn_field *f, const char *text, int64_t *out) {
    int64_t v[FAC_NN_MAX_LIST];
    const size_t n = read_list(text, int_at, v, (size_t)f->size);
    if (n != 1 && n != (size_t)f->size) return no_value(k, f, text, f->size == 1 ? "a number" : "a number or a list");
    for (int64_t i = 0; i < f->size; i++) out[i] = v[n == 1 ? 0 : i];
    return FAC_OK;
}

/* None, where that is the default. */
static fac_status read_none(const fac_nn_kind *k, const fac_nn_field *f, void *at) {
    switch (f->type) {
    case FAC_NN_OPT_INT: return *(int64_t *)at = FAC_UNSET, FAC_OK;
    case FAC_NN_OPT_FLOAT: return *(double *)at = FAC_UNSET_FLOAT, FAC_OK;
    case FAC_NN_DTYPE: return *(fac_dtype *)at = FAC_DTYPE_DEFAULT, FAC_OK;
    case FAC_NN_DEVICE: return *(fac_device *)at = (fac_device){0}, FAC_OK;
    case FAC_NN_LIST: return ((fac_nn_list *)at)->n = 0, FAC_OK;
    case FAC_NN_FLOATS: return ((fac_nn_floats *)at)->n = 0, FAC_OK;
    case FAC_NN_OPT_BOOL: return *(int *)at = -1, FAC_OK;
    case FAC_NN_TENSOR: return FAC_OK;
    case FAC_NN_TEXT:
        if (f->unset && strcmp(f->unset, "None") == 0) return *(const char **)at = NULL, FAC_OK;
        break;
    case FAC_NN_INTS:
        if (f->zero_means != -1) return memset(at, 0, (size_t)f->size * sizeof(int64_t)), FAC_OK;
        break;
    default: break;
    }
    return FAC_FAIL(FAC_ERR_FORMAT, "%s: %s may not be None", k->cls.name, f->name);
}

fac_status fac__nn_read(const fac_nn_kind *k, const fac_nn_field *f, const char *text, void *arguments) {
    void *at = (char *)arguments + f->offset;
    if (strcmp(text, "None") == 0) return read_none(k, f, at);
    switch (f->type) {
    case FAC_NN_INT:
    case FAC_NN_OPT_INT: return read_one(text, int_at, at) ? FAC_OK : no_value(k, f, text, "a whole number");
    case FAC_NN_FLOAT:
    case FAC_NN_OPT_FLOAT: return read_one(text, float_at, at) ? FAC_OK : no_value(k, f, text, "a number");
    case FAC_NN_BOOL: return read_bool(text, at) ? FAC_OK : no_value(k, f, text, "True or False");
    case FAC_NN_TEXT: return read_text(k, f, text, at);
    case FAC_NN_REDUCTION: return read_reduction(k, f, text, at);
    case FAC_NN_INTS: return read_ints(k, f, text, at);
    case FAC_NN_DTYPE: return read_dtype(k, f, text, at);
    case FAC_NN_LIST: return read_numbers(k, f, text, int_at, &((fac_nn_list *)at)->n, ((fac_nn_list *)at)->v);
    case FAC_NN_FLOATS: return read_numbers(k, f, text, float_at, &((fac_nn_floats *)at)->n, ((fac_nn_floats *)at)->v);
    case FAC_NN_OPT_BOOL: {
        bool yes;
        if (!read_bool(text, &yes)) return no_value(k, f, text, "True or False");
        *(int *)at = yes;
        return FAC_OK;
    }
    case FAC_NN_DEVICE: return read_device(k, f, text, at);
    case FAC_NN_TENSOR: break;
    }
    return FAC_FAIL(FAC_ERR_FORMAT, "%s: %s cannot be given as text", k->cls.name, f->name);
}

/* ---- calls ---- */

enum { MAX_DEPTH = 64, MAX_FIELDS = 64 };

typedef struct reader {
    const char *text, *at;
    int depth;
} reader;

static fac_module *read_module(reader *r);

static fac_module *complain(const reader *r, const char *what) {
    FAC_FAIL(FAC_ERR_FORMAT, "%s at column %td of \"%.*s\"", what, r->at - r->text + 1, 80, r->text);
    return NULL;
}

static void skip_space(reader *r) { r->at += strspn(r->at, " \t\r\n"); }

static size_t word_at(const char *p) {
    size_t n = 0;
    while (isalnum((unsigned char)p[n]) || p[n] == '_') n++;
    return n;
}

/* Where the value at `p` ends: at a comma or bracket of no bracket within it, outside of quotes. */
static const char *value_end(const char *p) {
    int depth = 0;
    for (char quote = 0; *p; p++) {
        if (quote) {
            if (*p == quote) quote = 0;
        } else if (*p == '\'' || *p == '"')
            quote = *p;
        else if (*p == '(' || *p == '[')
            depth++;
        else if ((*p == ')' || *p == ']' || *p == ',') && !depth)
            return p;
        else if (*p == ')' || *p == ']')
            depth--;
    }
    return p;
}

static const fac_nn_field *by_position(const fac_nn_kind *k, size_t i) {
    for (const fac_nn_field *f = k->fields; f < k->fields + k->n_fields; f++)
        if (!f->by_name && !i--) return f;
    return NULL;
}

static const fac_nn_field *by_name(const fac_nn_kind *k, const char *name, size_t n, const char *ending) {
    for (const fac_nn_field *f = k->fields; f < k->fields + k->n_fields; f++)
        if (strncmp(f->name, name, n) == 0 && strcmp(f->name + n, ending) == 0) return f;
    return NULL;
}

/* Whether one of the field's words stands at p, in quotes or not: padding='same', where numbers may stand as well. */
static bool is_choice(const fac_nn_field *f, const char *p) {
    p += *p == '\'' || *p == '"';
    for (const char *const *c = f->choices; *c; c++)
        if (strlen(*c) == word_at(p) && strncmp(*c, p, strlen(*c)) == 0) return true;
    return false;
}

/* The field of the argument at r, behind its name if it has one; *position counts those without. */
static const fac_nn_field *field_at(reader *r, const fac_nn_kind *k, size_t *position) {
    const size_t n = word_at(r->at);
    const char *behind = r->at + n + strspn(r->at + n, " ");
    const bool named = n && *behind == '=' && behind[1] != '=';
    const fac_nn_field *f = named ? by_name(k, r->at, n, "") : by_position(k, (*position)++);
    if (!f && named) {
        FAC_FAIL(FAC_ERR_FORMAT, "%s has no argument '%.*s'", k->cls.name, (int)n, r->at);
        return NULL;
    }
    if (!f) return complain(r, "one argument too many"), NULL;
    if (named) r->at = behind + 1;
    skip_space(r);
    const fac_nn_field *word = by_name(k, f->name, strlen(f->name), "_name");
    return word && is_choice(word, r->at) ? word : f;
}

static fac_status read_argument(reader *r, const fac_nn_kind *k, size_t *position, bool *given, void *arguments) {
    const fac_nn_field *f = field_at(r, k, position);
    if (!f) return fac_error();
    FAC_CHECK(!given[f - k->fields], FAC_ERR_FORMAT, "%s: %s is given twice", k->cls.name, f->name);
    given[f - k->fields] = true;
    const char *end = value_end(r->at);
    size_t n = (size_t)(end - r->at);
    while (n && isspace((unsigned char)r->at[n - 1])) n--;
    char value[200];
    FAC_CHECK(n > 0 && n < sizeof value, FAC_ERR_FORMAT, "%s: the value of %s is %s", k->cls.name, f->name,
              n ? "too long" : "missing");
    memcpy(value, r->at, n);
    value[n] = 0;
    r->at = end;
    return fac__nn_read(k, f, value, arguments);
}

/* The arguments up to the closing bracket, then the defaults of those that are not given. */
static fac_status read_arguments(reader *r, const fac_nn_kind *k, void *arguments) {
    bool given[MAX_FIELDS] = {false};
    size_t position = 0;
    for (skip_space(r); *r->at != ')'; skip_space(r)) {
        FAC_TRY(read_argument(r, k, &position, given, arguments));
        if (*r->at == ',')
            r->at++;
        else if (*r->at != ')')
            return complain(r, "a bracket is not closed"), fac_error();
    }
    for (size_t i = 0; i < k->n_fields; i++) {
        if (given[i]) continue;
        FAC_CHECK(k->fields[i].unset, FAC_ERR_FORMAT, "%s needs %s", k->cls.name, k->fields[i].name);
        FAC_TRY(fac__nn_read(k, &k->fields[i], k->fields[i].unset, arguments));
    }
    return FAC_OK;
}

static fac_module *read_described(reader *r, const fac_nn_kind *k) {
    fac_tensor *const none[MAX_FIELDS] = {NULL};
    void *arguments = fac__alloc_zero(k->cls.state_size ? k->cls.state_size : 1);
    fac_module *m = NULL;
    if (arguments && !read_arguments(r, k, arguments)) m = fac__nn_make(k, k->cls.state_size ? arguments : NULL, none);
    fac__free(arguments);
    return m;
}

/* Whether the next thing is this character, which is then behind us. */
static bool take(reader *r, char c) {
    skip_space(r);
    if (*r->at != c) return false;
    r->at++;
    return true;
}

/* Behind an entry: a comma, or what closes the list and is left there. */
static bool next_entry(reader *r, char close) {
    if (take(r, ',') || *r->at == close) return true;
    complain(r, "a bracket is not closed");
    return false;
}

/* Modules up to the closing bracket, as the children "0", "1", ... of m. */
static fac_module *read_children(reader *r, fac_module *m, char close) {
    for (skip_space(r); m && *r->at != close; skip_space(r)) {
        char name[24];
        snprintf(name, sizeof name, "%zu", m->children.n);
        if (!fac_module_add(m, name, read_module(r)) || !next_entry(r, close)) break;
    }
    return m ? fac__nn_done(m, fac_error()) : NULL;
}

/* The list in brackets, which may be missing. */
static fac_module *read_module_list(reader *r) {
    fac_module *m = fac_module_list_new(NULL, 0);
    if (!take(r, '[')) return m;
    if ((m = read_children(r, m, ']'))) r->at++;
    return m;
}

/* "'name': " */
static bool read_name(reader *r, char *name, size_t size) {
    const char quote = (char)(skip_space(r), *r->at);
    const char *end = quote == '\'' || quote == '"' ? strchr(r->at + 1, quote) : NULL;
    const size_t n = end ? (size_t)(end - r->at - 1) : 0;
    if (!n || n >= size) {
        complain(r, "a name in quotes is missing, or too long");
        return false;
    }
    memcpy(name, r->at + 1, n);
    name[n] = 0;
    r->at = end + 1;
    if (take(r, ':')) return true;
    complain(r, "a colon is missing");
    return false;
}

static fac_module *read_dict(reader *r) {
    fac_module *m = fac_module_dict_new();
    if (!m || !take(r, '{')) return m;
    char name[100];
    for (skip_space(r); *r->at != '}'; skip_space(r))
        if (!read_name(r, name, sizeof name) || !fac_module_dict_set(m, name, read_module(r)) || !next_entry(r, '}'))
            break;
    if ((m = fac__nn_done(m, fac_error()))) r->at++;
    return m;
}

/* What a stack of layers is made of; `position` of the next argument without a name. */
typedef struct stack {
    fac_module *layer, *norm;
    int64_t n;
    bool given; /* n */
    int position;
} stack;

/* The name that stands before an equals sign; empty if there is none. */
static void read_keyword(reader *r, char name[32]) {
    skip_space(r);
    const size_t n = word_at(r->at);
    const char *behind = r->at + n + strspn(r->at + n, " \t\r\n");
    name[0] = 0;
    if (!n || n >= 32 || *behind != '=') return;
    memcpy(name, r->at, n);
    name[n] = 0;
    r->at = behind + 1;
    skip_space(r);
}

static void read_stack_argument(reader *r, stack *s, const char *layer_name) {
    static const char *const names[] = {"", "num_layers", "norm"};
    char name[32];
    read_keyword(r, name);
    int which = s->position++;
    if (name[0])
        for (which = 0; which < 3; which++)
            if (strcmp(name, which ? names[which] : layer_name) == 0) break;
    if (which == 0 && !s->layer)
        s->layer = read_module(r);
    else if (which == 1 && !s->given) {
        char *end;
        s->n = strtoll(r->at, &end, 10);
        s->given = end != r->at;
        if (!s->given) complain(r, "a number of layers is missing");
        r->at = end;
    } else if (which == 2 && !s->norm) {
        if (strncmp(r->at, "None", 4) == 0)
            r->at += 4;
        else
            s->norm = read_module(r);
    } else
        complain(r, "an argument is given twice, or none of a stack of layers");
}

static fac_module *read_stack(reader *r, bool decoder) {
    stack s = {0};
    for (skip_space(r); *r->at != ')' && !fac_error(); skip_space(r)) {
        read_stack_argument(r, &s, decoder ? "decoder_layer" : "encoder_layer");
        if (fac_error() || !next_entry(r, ')')) break;
    }
    if (!fac_error() && (!s.layer || !s.given)) complain(r, "a layer, or how many there are, is missing");
    if (fac_error()) {
        fac_module_release(s.layer);
        fac_module_release(s.norm);
        return NULL;
    }
    return decoder ? fac_transformer_decoder_new(s.layer, s.n, .norm = s.norm)
                   : fac_transformer_encoder_new(s.layer, s.n, .norm = s.norm);
}

static fac_module *read_sequential(reader *r) { return read_children(r, fac_sequential_new(NULL, 0), ')'); }
static fac_module *read_encoder(reader *r) { return read_stack(r, false); }
static fac_module *read_decoder(reader *r) { return read_stack(r, true); }

/* What holds modules, each with what reads its arguments. */
static const struct container {
    const char *name;
    fac_module *(*read)(reader *r);
} containers[] = {{"Sequential", read_sequential},
                  {"ModuleList", read_module_list},
                  {"ModuleDict", read_dict},
                  {"TransformerEncoder", read_encoder},
                  {"TransformerDecoder", read_decoder}};

static const struct container *container_named(const char *name, size_t n) {
    for (size_t i = 0; i < FAC_COUNT(containers); i++)
        if (strlen(containers[i].name) == n && strncmp(containers[i].name, name, n) == 0) return &containers[i];
    return NULL;
}

static const fac_nn_kind *kind_named(const char *name, size_t n) {
    for (const fac_nn_kind *const *k = fac__nn_kinds; *k; k++)
        if (strlen((*k)->cls.name) == n && strncmp((*k)->cls.name, name, n) == 0) return *k;
    return NULL;
}

static fac_module *read_call(reader *r) {
    skip_space(r);
    if (strncmp(r->at, "torch.", 6) == 0) r->at += 6;
    if (strncmp(r->at, "nn.", 3) == 0) r->at += 3;
    const size_t n = word_at(r->at);
    const char *name = r->at;
    if (!n) return complain(r, "the name of a module is missing");
    const struct container *c = container_named(name, n);
    const fac_nn_kind *k = kind_named(name, n);
    if (!k && !c) {
        FAC_FAIL(FAC_ERR_NOT_FOUND, "there is no module '%.*s' that can be made from text", (int)n, name);
        return NULL;
    }
    r->at += n;
    skip_space(r);
    if (*r->at != '(') return complain(r, "an opening bracket is missing");
    r->at++;
    fac_module *m = c ? c->read(r) : read_described(r, k);
    if (!m || take(r, ')')) return m;
    fac_module_release(m);
    return complain(r, "a bracket is not closed");
}

static fac_module *read_module(reader *r) {
    if (r->depth == MAX_DEPTH) return complain(r, "too many brackets");
    r->depth++;
    fac_module *m = read_call(r);
    r->depth--;
    return m;
}

fac_module *fac_parse_module(const char *text) {
    if (fac_error() || !fac__given(text, "text")) return NULL;
    reader r = {text, text, 0};
    fac_module *m = read_module(&r);
    skip_space(&r);
    if (!m || !*r.at) return m;
    fac_module_release(m);
    return complain(&r, "there is more after the module");
}
