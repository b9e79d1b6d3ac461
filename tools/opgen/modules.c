/* Modules that are described rather than written (src/nn/modules.yaml): the constructor in C, the struct of its arguments, the
   forward function, and a table of fields by which the library shows and makes modules from text. */
#include "opgen.h"
#include <ctype.h>
#include <stdlib.h>

#define HEADER "modules"

/* ---- from entries ------------------------------------------------------------------------------------------------------- */

static bool is_open_list(const fac_schema_arg *a) { return type_of(&a->type) == T_INTS && !a->type.list_size; }

static const char *parameter_type(const entry *e, const fac_schema_arg *a) {
    switch (type_of(&a->type)) {
    case T_INT: return "int64_t";
    case T_FLOAT: return "double";
    case T_BOOL: return "bool";
    case T_INTS: return "fac_ints";
    case T_STRING: return "const char *";
    default: die(e->file, e->line, "'%s': a module takes no such argument that is required", a->name); return NULL;
    }
}

/* The arguments with a default as a function's keywords. */
static void add_keywords(model *m, module *k) {
    fac_schema *s = xalloc(sizeof *s);
    *s = *k->s;
    s->args += k->n_required;
    s->n_args -= k->n_required;
    entry *e = xalloc(sizeof *e);
    *e = *k->e;
    e->number_for = "";
    for (size_t i = 0; i < k->n_required; i++) {
        const fac_schema_arg *a = &k->s->args[i];
        if (type_of(&a->type) == T_INTS)
            e->number_for =
                listed(e->number_for, xformat("%s[%d]", a->name, a->type.list_size ? (int)a->type.list_size : 1));
    }
    PUSH(m->fns, ((op){.m = m, .e = e, .s = s, .kw = s->name, .cname = s->name}));
}

/* "shape:  ..." with the lines of the text under each other. */
static char *labelled(const char *label, const char *text) {
    if (!text) return "";
    char *made = xformat("\n%-7s ", label); /* as wide as "errors:" and "source:" */
    for (; *text; text++)
        made = *text == '\n' ? (text[1] ? xformat("%s\n        ", made) : made) : xformat("%s%c", made, *text);
    return made;
}

static char *doc_text(const module *k) {
    const entry *e = k->e;
    const char *source = e->source ? e->source : xformat("torch.nn.%s", e->module);
    char *made = xformat("%.*s", (int)(strlen(e->doc) - (e->doc[strlen(e->doc) - 1] == '\n')), e->doc);
    made = joined(made, "", labelled("inputs:", e->inputs));
    made = joined(made, "", labelled("gives:", e->outputs));
    return xformat("%s%s%s%s%s", made, labelled("shape:", e->shape), labelled("init:", e->init),
                   labelled("errors:", e->errors), labelled("source:", source));
}

static void add_prototype(model *m, const module *k) {
    function fn = {.file = k->e->file,
                   .line = k->e->line,
                   .header = HEADER,
                   .name = k->s->name,
                   .result = "fac_module *",
                   .doc = doc_text(k),
                   .section = k->e->section,
                   .must = true};
    for (size_t i = 0; i < k->n_required; i++)
        PUSH(fn, ((parameter){xformat("%s", parameter_type(k->e, &k->s->args[i])), k->s->args[i].name}));
    if (k->n_required < k->s->n_args) PUSH(fn, ((parameter){xformat("const fac_%s_kw *", k->s->name), "kw"}));
    PUSH(m->functions, fn);
}

static void check_module(const entry *e) {
    const char *const needed[][2] = {{"new", e->new},
                                     {"doc", e->doc},
                                     {"section", e->section},
                                     {"forward' or 'forward_all", e->forward ? e->forward : e->forward_all}};
    if (!e->forward_all != !e->outputs)
        die(e->file, e->line, "module %s: 'forward_all' and 'outputs' go together", e->module);
    for (size_t i = 0; i < FAC_COUNT(needed); i++)
        if (!needed[i][1]) die(e->file, e->line, "module %s has no '%s'", e->module, needed[i][0]);
}

static void add_module(model *m, const entry *e) {
    check_module(e);
    const size_t n = strcspn(e->new, "(");
    fac_schema *s;
    if (fac__schema_parse(xformat("%.*s_new%s -> ()", (int)n, e->new, e->new + n), &s) != FAC_OK)
        die(e->file, e->line, "%s", fac_error_message());
    module k = {.e = e, .s = s, .id = xformat("%.*s", (int)n, e->new)};
    while (k.n_required < s->n_args && !s->args[k.n_required].default_text) k.n_required++;
    if (k.n_required < s->n_args) add_keywords(m, &k);
    add_prototype(m, &k);
    PUSH(m->modules, k);
}

/* The text for a number of dimensions. */
static char *numbered(const char *text, int dims) {
    if (!text) return NULL;
    char *made = "";
    for (; *text; text++) {
        const bool twice = text[0] == '#' && text[1] == '#';
        made = *text == '#' ? xformat("%s%d", made, dims * (1 + twice)) : xformat("%s%c", made, *text);
        text += twice;
    }
    return made;
}

static const entry *for_dims(const entry *e, int dims) {
    entry *n = xalloc(sizeof *n);
    *n = *e;
    char **const texts[] = {&n->module, &n->new, &n->inputs, &n->forward, &n->forward_all, &n->build,
                            &n->shows,  &n->doc, &n->shape,  &n->init,    &n->errors,      &n->source};
    for (size_t i = 0; i < FAC_COUNT(texts); i++) *texts[i] = numbered(*texts[i], dims);
    return n;
}

void add_modules(model *m) {
    EACH_ITEM(const entry, e, m->module_entries) {
        if (!e->dims) add_module(m, e);
        for (const char *d = e->dims; d && *d; d += strcspn(d, " ") + strspn(d + strcspn(d, " "), " "))
            add_module(m, for_dims(e, atoi(d)));
    }
    if (m->modules.n)
        PUSH(m->headers,
             ((header){HEADER, "Layers and losses: each function makes a module that the caller owns, NULL on\n"
                               "failure. src/nn/modules.yaml describes them."}));
}

/* ---- the public header --------------------------------------------------------------------------------------------------- */

static char *declared_parameters(const module *k) {
    char *made = "";
    for (size_t i = 0; i < k->n_required; i++) {
        const char *type = parameter_type(k->e, &k->s->args[i]);
        made = listed(made, xformat("%s%s%s", type, type[strlen(type) - 1] == '*' ? "" : " ", k->s->args[i].name));
    }
    if (k->n_required < k->s->n_args) made = listed(made, xformat("const fac_%s_kw *kw", k->s->name));
    return *made ? made : "void";
}

/* Lines of a comment, each behind the first indented. */
static void emit_comment(FILE *f, const char *text) {
    fputs("/* ", f);
    for (; *text; text++) {
        fputc(*text, f);
        if (*text == '\n') fputs("   ", f);
    }
    fputs(" */\n", f);
}

void emit_modules_header(FILE *f, const model *m) {
    const char *section = "";
    EACH_ITEM(const module, k, m->modules) {
        if (strcmp(section, k->e->section) != 0) fprintf(f, "/* ---- %s ---- */\n\n", section = k->e->section);
        emit_comment(f, doc_text(k));
        fprintf(f, "FAC_API FAC_MUST fac_module *fac_%s(%s);\n\n", k->s->name, declared_parameters(k));
    }
}

/* ---- the struct of arguments ----------------------------------------------------------------------------------------------- */

static bool is_tensor_arg(const fac_schema_arg *a) { return type_of(&a->type) == T_TENSOR; }

/* How an argument is kept: its kind in the table of fields, and the C type; by etype. */
static const struct {
    const char *kind, *type;
} kept[T_NONE + 1] = {
    [T_INT] = {"INT", "int64_t "},       [T_OPT_INT] = {"OPT_INT", "int64_t "},
    [T_FLOAT] = {"FLOAT", "double "},    [T_OPT_NUM] = {"OPT_FLOAT", "double "},
    [T_BOOL] = {"BOOL", "bool "},        [T_STRING] = {"TEXT", "const char *"},
    [T_DTYPE] = {"DTYPE", "fac_dtype "}, [T_DEVICE] = {"DEVICE", "fac_device "},
    [T_TENSOR] = {"TENSOR", NULL},       [T_FLOATS] = {"FLOATS", "fac_nn_floats "},
    [T_INTS] = {"INTS", "int64_t "},
};

static const char *kept_as(const module *k, const fac_schema_arg *a) {
    const etype t = type_of(&a->type);
    if (!kept[t].kind) die(k->e->file, k->e->line, "'%s': a module takes no such argument", a->name);
    if (is_reduction(a)) return "REDUCTION";
    if (is_open_list(a)) return "LIST";
    return t == T_OPT_NUM && a->type.kind == FAC_TYPE_BOOL ? "OPT_BOOL" : kept[t].kind;
}

/* NULL: a tensor, which is no member. */
static char *kept_in(const fac_schema_arg *a) {
    const etype t = type_of(&a->type);
    if (!kept[t].type) return NULL;
    if (is_open_list(a)) return xformat("fac_nn_list %s", a->name);
    if (t == T_INTS) return xformat("int64_t %s[%lld]", a->name, (long long)a->type.list_size);
    return xformat("%s%s", t == T_OPT_NUM && a->type.kind == FAC_TYPE_BOOL ? "int " : kept[t].type, a->name);
}

static bool keeps_any(const module *k) {
    for (size_t i = 0; i < k->s->n_args; i++)
        if (!is_tensor_arg(&k->s->args[i])) return true;
    return false;
}

void emit_modules_structs(FILE *f, const model *m) {
    EACH_ITEM(const module, k, m->modules) {
        if (keeps_any(k)) {
            fprintf(f, "\n/* The arguments of fac_%s. */\ntypedef struct fac__%s {\n", k->s->name, k->id);
            for (size_t i = 0; i < k->s->n_args; i++) {
                const char *declaration = kept_in(&k->s->args[i]);
                if (declaration) fprintf(f, "    %s;\n", declaration);
            }
            fprintf(f, "} fac__%s;\n", k->id);
        }
        fprintf(f, "extern const fac_nn_kind fac__%s_kind;\n", k->id);
    }
}

/* ---- C of the description: names of arguments stand for what the module keeps ------------------------------------------------ */

static char *kept_value(const fac_schema_arg *a) {
    if (is_tensor_arg(a)) return xformat("fac__module_slot(self, \"%s\")->tensor", a->name);
    if (type_of(&a->type) == T_FLOATS) return xformat("(fac_floats){o_->%s.v, o_->%s.n}", a->name, a->name);
    if (is_open_list(a)) return xformat("fac_ints_of(o_->%s.v, o_->%s.n)", a->name, a->name);
    if (type_of(&a->type) == T_INTS) return xformat("fac_ints_of(o_->%s, %lld)", a->name, (long long)a->type.list_size);
    return xformat("o_->%s", a->name);
}

static char *word_meant(const module *k, const char *word) {
    const int i = find_arg(k->s, word);
    if (strcmp(word, "training") == 0) return "self->training";
    return i < 0 ? xformat("%s", word) : kept_value(&k->s->args[i]);
}

/* "@weight" is the parameter of that name; a word behind a point is a keyword of the function that is called, and text is text. */
static char *in_c(const module *k, const char *text) {
    char *made = "";
    for (const char *p = text; *p;) {
        const char *end = word_end(p);
        if (*p == '"') {
            end = strchr(p + 1, '"') + 1;
            made = xformat("%s%s", made, cut(p, end));
        } else if (*p == '@') {
            end = word_end(p + 1);
            made = xformat("%sfac__module_slot(self, \"%s\")->tensor", made, cut(p + 1, end));
        } else if (end == p) {
            end = p + 1;
            made = xformat("%s%s", made, cut(p, end));
        } else {
            const bool keyword = p > text && (p[-1] == '.' || isdigit((unsigned char)*p));
            made = xformat("%s%s", made, keyword ? cut(p, end) : word_meant(k, cut(p, end)));
        }
        p = end;
    }
    return made;
}

static void emit_options(FILE *f, const module *k, const char *qualifier) {
    if (keeps_any(k))
        fprintf(f, "    %sfac__%s *o_ = fac_module_state(self);\n    (void)o_;\n", qualifier, k->id);
    else
        fputs("    (void)self;\n", f);
}

/* "input, target?": how many are needed, and each as a variable. */
static void emit_inputs(FILE *f, const char *inputs, const char *failure) {
    size_t n = 0, needed = 0;
    char *variables = "";
    for (const char *p = inputs; *p;) {
        const char *end = word_end(p);
        needed += *end != '?';
        variables = xformat("%s    fac_tensor *%s = %s;\n", variables, cut(p, end),
                            *end == '?' ? xformat("inputs_.n > %zu ? inputs_.v[%zu] : NULL", n, n)
                                        : xformat("inputs_.v[%zu]", n));
        n++;
        p = end + strspn(end, "?, ");
    }
    fprintf(f, "    if (fac__nn_inputs(self, inputs_, \"%s\", %zu, %zu)) return %s;\n%s", inputs, needed, n, failure,
            variables);
}

/* All results, into `out`. */
static void emit_forward_all(FILE *f, const module *k) {
    fprintf(f, "static fac_status %s_forward_all(fac_module *self, fac_tensors inputs_, fac_tensor **out) {\n", k->id);
    emit_options(f, k, "const ");
    emit_inputs(f, k->e->inputs ? k->e->inputs : "x", "fac_error()");
    fprintf(f, "    return %s;\n}\n", in_c(k, k->e->forward_all));
}

static int count_of_list(const char *list) {
    int n = 1;
    for (; *list; list++) n += *list == ',';
    return n;
}

static void emit_forward(FILE *f, const module *k) {
    const bool many = k->e->inputs;
    fprintf(f, "static fac_tensor *%s_forward(fac_module *self, %s) {\n", k->id,
            many ? "fac_tensors inputs_" : "fac_tensor *x");
    emit_options(f, k, "const ");
    if (many) emit_inputs(f, k->e->inputs, "NULL");
    fprintf(f, "    return %s;\n}\n", in_c(k, k->e->forward));
}

static void emit_build(FILE *f, const module *k) {
    fprintf(f, "static fac_status %s_build(fac_module *self) {\n", k->id);
    emit_options(f, k, "");
    fprintf(f, "    return %s;\n}\n", in_c(k, k->e->build));
}

/* ---- the table of fields ------------------------------------------------------------------------------------------------------ */

static const char *looked_up(const pairs *p, const char *key) {
    const pair *found = FIND(*p, key, key);
    return found ? found->value : NULL;
}

/* The words that a text may be, as a list of C. */
static void emit_choices(FILE *f, const module *k) {
    EACH_ITEM(const pair, c, k->e->choices) {
        const int i = find_arg(k->s, c->key);
        if (i < 0 || k->s->args[i].type.kind != FAC_TYPE_STRING)
            die(k->e->file, c->line, "choices: '%s' is no argument of type str", c->key);
        fprintf(f, "static const char *const %s_%s[] = {", k->id, c->key);
        for (const char *p = c->value; *p;) {
            const size_t n = strcspn(p, " ");
            fprintf(f, "\"%.*s\", ", (int)n, p);
            p += n + strspn(p + n, " ");
        }
        fputs("NULL};\n", f);
    }
}

static void emit_field(FILE *f, const module *k, size_t i) {
    const fac_schema_arg *a = &k->s->args[i];
    const char *kind = kept_as(k, a), *other = looked_up(&k->e->zero_means, a->name);
    fprintf(f, "    {\"%s\", FAC_NN_%s, %s, %lld, ", a->name, kind, a->kwarg_only ? "true" : "false",
            (long long)a->type.list_size);
    if (is_tensor_arg(a))
        fputs("0, ", f);
    else
        fprintf(f, "offsetof(fac__%s, %s), ", k->id, a->name);
    if (a->default_text)
        quoted(f, a->default_text);
    else
        fputs("NULL", f);
    const bool none = other && strcmp(other, "none") == 0; /* FAC_NN_ZERO_IS_NONE */
    const int from = none ? -2 : other ? find_arg(k->s, other) : -1;
    if (other && from == -1) die(k->e->file, k->e->line, "zero_means: '%s' is no argument", other);
    fprintf(f, ", %d, %s},\n", from,
            looked_up(&k->e->choices, a->name) ? xformat("%s_%s", k->id, a->name)
            : a->type.kind == FAC_TYPE_STRING  ? (die(k->e->file, k->e->line, "'%s' has no choices", a->name), "")
                                               : "NULL");
}

static void emit_kind(FILE *f, const module *k) {
    emit_choices(f, k);
    fprintf(f, "static const fac_nn_field %s_fields[] = {\n", k->id);
    for (size_t i = 0; i < k->s->n_args; i++) emit_field(f, k, i);
    fprintf(f, "    {0},\n};\nconst fac_nn_kind fac__%s_kind = {\n    {.name = \"%s\",\n     .version = %d,\n", k->id,
            k->e->module, k->e->version ? k->e->version : 1);
    if (keeps_any(k)) fprintf(f, "     .state_size = sizeof(fac__%s),\n     .copy = fac_module_copy_values,\n", k->id);
    if (k->e->forward) fprintf(f, "     .%s = %s_forward,\n", k->e->inputs ? "forward_many" : "forward", k->id);
    if (k->e->forward_all)
        fprintf(f, "     .forward_all = %s_forward_all,\n     .n_outputs = %d,\n", k->id, count_of_list(k->e->outputs));
    fprintf(f, k->e->shows ? "     .describe = fac__nn_describe},\n    " : "},\n    ");
    if (k->e->shows)
        quoted(f, k->e->shows);
    else
        fputs("NULL", f);
    fprintf(f, ", \"%s\", %s_fields, %zu, %s};\n", k->s->name, k->id, k->s->n_args,
            k->e->build ? xformat("%s_build", k->id) : "NULL");
}

/* ---- the constructor ---------------------------------------------------------------------------------------------------------- */

/* The value of an argument in the constructor. */
static char *given(const module *k, size_t i) {
    const fac_schema_arg *a = &k->s->args[i];
    if (i < k->n_required) return xformat("%s", a->name);
    const bool by_second = type_of(&a->type) == T_INTS && a->type.list_size;
    return xformat("k_.%s", by_second ? kw_second_name(a) : kw_name(a));
}

/* What checks a list that is given and puts it into o_, as a condition; "" for another argument. */
static char *taken(const module *k, size_t i) {
    const fac_schema_arg *a = &k->s->args[i];
    const etype t = type_of(&a->type);
    if (t != T_INTS && t != T_FLOATS) return "";
    if (t == T_INTS && a->type.list_size)
        return xformat("fac__nn_ints(\"%s\", \"%s\", o_.%s, %lld, %s)", k->s->name, a->name, a->name,
                       (long long)a->type.list_size, given(k, i));
    return xformat("fac__nn_%s(\"%s\", \"%s\", &o_.%s, %s)", t == T_INTS ? "list" : "floats", k->s->name, a->name,
                   a->name, given(k, i));
}

static void emit_constructor(FILE *f, const module *k) {
    const bool keywords = k->n_required < k->s->n_args;
    char *tensors = "", *values = "", *lists = "";
    for (size_t i = 0; i < k->s->n_args; i++) {
        const fac_schema_arg *a = &k->s->args[i];
        const char *list = taken(k, i);
        if (is_tensor_arg(a))
            tensors = listed(tensors, given(k, i));
        else if (!*list)
            values = listed(values, xformat(".%s = %s", a->name, given(k, i)));
        lists = joined(lists, " || ", list);
    }
    fprintf(f, "fac_module *(fac_%s)(%s) {\n", k->s->name, declared_parameters(k));
    if (keywords) fprintf(f, "    fac_%s_kw k_;\n", k->s->name);
    fprintf(f, "    if (fac_error()%s) return NULL;\n",
            keywords ? xformat(" || fac__open_%s_kw(&k_, kw)", k->s->name) : "");
    if (keeps_any(k)) fprintf(f, "    fac__%s o_ = {%s};\n", k->id, *values ? values : "0");
    if (*lists) fprintf(f, "    if (%s) return NULL;\n", lists);
    fprintf(f, "    return fac__nn_make(&fac__%s_kind, %s, %s);\n}\n\n", k->id, keeps_any(k) ? "&o_" : "NULL",
            *tensors ? xformat("(fac_tensor *const[]){%s}", tensors) : "NULL");
}

void emit_modules(FILE *f, const model *m) {
    EACH_ITEM(const module, k, m->modules) {
        if (k->e->forward) emit_forward(f, k);
        if (k->e->forward_all) emit_forward_all(f, k);
        if (k->e->build) emit_build(f, k);
        emit_kind(f, k);
        emit_constructor(f, k);
    }
    fputs("const fac_nn_kind *const fac__nn_kinds[] = {\n", f);
    EACH_ITEM(const module, k, m->modules) fprintf(f, "    &fac__%s_kind,\n", k->id);
    fputs("    NULL,\n};\n", f);
}

/* ---- the list of modules (modules.json), which docs/api-list.md describes ---------------------------------------------------- */

static void emit_words(FILE *f, const char *words) {
    const char *sep = "";
    for (const char *p = words; *p; sep = ", ") {
        const size_t n = strcspn(p, " ");
        fprintf(f, "%s\"%.*s\"", sep, (int)n, p);
        p += n + strspn(p + n, " ");
    }
}

static void emit_listed_argument(FILE *f, const module *k, const fac_schema_arg *a) {
    static const char *const reductions[] = {"'none'", "'mean'", "'sum'"};
    const bool reduction = is_reduction(a);
    const char *choices = reduction ? "none mean sum" : looked_up(&k->e->choices, a->name);
    const char *other = looked_up(&k->e->zero_means, a->name);
    char type[64];
    fac__type_text(&a->type, type, sizeof type);
    fprintf(f, "{\"name\": \"%s\", \"type\": \"%s\", \"by_name\": %s", a->name, reduction ? "str" : type,
            a->kwarg_only ? "true" : "false");
    if (a->default_text) {
        fputs(", \"default\": ", f);
        quoted(f, reduction ? reductions[atoi(a->default_text)] : a->default_text);
    }
    if (choices) {
        fputs(", \"choices\": [", f);
        emit_words(f, choices);
        fputc(']', f);
    }
    if (other) fprintf(f, ", \"zero_means\": \"%s\"", other);
    fputc('}', f);
}

/* Names that commas part; "?" behind one says that it may be left out. */
static void emit_names_listed(FILE *f, const char *names) {
    const char *sep = "";
    for (const char *p = names; *p; sep = ", ") {
        const char *end = word_end(p);
        fprintf(f, "%s{\"name\": \"%s\", \"optional\": %s}", sep, cut(p, end), *end == '?' ? "true" : "false");
        p = end + strspn(end, "?, ");
    }
}

void emit_modules_list(FILE *f, const model *m) {
    const char *sep = "";
    EACH_ITEM(const module, k, m->modules) {
        fprintf(f, "%s\n  {\"module\": \"%s\", \"new\": \"fac_%s\", \"version\": %d,\n   \"arguments\": [", sep,
                k->e->module, k->s->name, k->e->version ? k->e->version : 1);
        for (size_t i = 0; i < k->s->n_args; i++) {
            if (i) fputs(", ", f);
            emit_listed_argument(f, k, &k->s->args[i]);
        }
        fputs("],\n   \"inputs\": [", f);
        emit_names_listed(f, k->e->inputs ? k->e->inputs : "x");
        fputs("], \"outputs\": [", f);
        emit_names_listed(f, k->e->outputs ? k->e->outputs : "y");
        fprintf(f, "], \"section\": \"%s\"}", k->e->section);
        sep = ",";
    }
}
