/* YAML files into entries. Unknown keys, keys that are given twice and wrong shapes are errors, so that nothing is lost. */
#include "opgen.h"
#include <stdlib.h>
#include <yaml.h>

typedef struct doc {
    const char *path;
    yaml_document_t y;
} doc;

static int line_of(const yaml_node_t *n) { return (int)n->start_mark.line + 1; }

static char *text_of(doc *d, yaml_node_t *n, const char *key) {
    if (n->type != YAML_SCALAR_NODE) die(d->path, line_of(n), "'%s' should be text", key);
    return xformat("%s", (const char *)n->data.scalar.value);
}

static bool is_among(const char *words, const char *word) {
    return !*word_end(word) && strstr(xformat(" %s,", words), xformat(" %s,", word));
}

/* Keys whose value, entries or own keys are of a few words. */
static const char *const words_of[][2] = {
    {"view", "default, multi"},
    {"device_check", "NoCheck"},
    {"combines", "nothing, exactly, rounded"},
    {"variants", "function, inplace, out"},
    {"output_differentiability", "False, True"},
    {"tags", "core, data_dependent_output, dynamic_output_shape, nondeterministic_seeded"},
    {"kernels", "CPU, CUDA, Meta, Pointwise"}, /* that the library has kernels for */
    {"raw", "CPU, CUDA, Meta, Conjugate, QuantizedCPU, QuantizedMeta, Sparse, SparseCsr, Nested, Vendor"},
    {"layouts", "Sparse, SparseCsr, Nested, Vendor"},
    {"autocast", "CPU, CUDA"},
};

static char *word_of(doc *d, yaml_node_t *n, const char *key) {
    char *word = text_of(d, n, key);
    for (size_t i = 0; i < FAC_COUNT(words_of); i++)
        if (strcmp(words_of[i][0], key) == 0 && !is_among(words_of[i][1], word))
            die(d->path, line_of(n), "%s: '%s' is none of %s", key, word, words_of[i][1]);
    return word;
}

static char **list_of(doc *d, yaml_node_t *n, const char *key) {
    if (n->type != YAML_SEQUENCE_NODE) die(d->path, line_of(n), "'%s' should be a list", key);
    texts list = {0};
    for (yaml_node_item_t *i = n->data.sequence.items.start; i < n->data.sequence.items.top; i++)
        PUSH(list, word_of(d, yaml_document_get_node(&d->y, *i), key));
    PUSH(list, NULL);
    return list.v;
}

static pairs map_of(doc *d, yaml_node_t *n, const char *key) {
    if (n->type != YAML_MAPPING_NODE) die(d->path, line_of(n), "'%s' should be a mapping", key);
    pairs p = {0};
    for (yaml_node_pair_t *i = n->data.mapping.pairs.start; i < n->data.mapping.pairs.top; i++) {
        yaml_node_t *v = yaml_document_get_node(&d->y, i->value);
        pair one = {word_of(d, yaml_document_get_node(&d->y, i->key), key), text_of(d, v, key), line_of(v)};
        PUSH(p, one);
    }
    return p;
}

/* One word for both, or a word for each. */
static pairs casts_of(doc *d, yaml_node_t *n, const char *key) {
    pairs p = {0};
    if (n->type == YAML_MAPPING_NODE) {
        p = map_of(d, n, key);
    } else {
        PUSH(p, ((pair){"CPU", text_of(d, n, key), line_of(n)}));
        PUSH(p, ((pair){"CUDA", text_of(d, n, key), line_of(n)}));
    }
    for (size_t i = 0; i < p.n; i++)
        if (!is_among("lower, f32, f32_dtype, widest, refused, none", p.v[i].value))
            die(d->path, p.v[i].line, "autocast: '%s' is none of lower, f32, f32_dtype, widest, refused, none",
                p.v[i].value);
    return p;
}

static bool bool_of(doc *d, yaml_node_t *n, const char *key) {
    char *t = text_of(d, n, key);
    bool yes = strcmp(t, "true") == 0;
    if (!yes && strcmp(t, "false") != 0) die(d->path, line_of(n), "'%s' should be true or false", key);
    return yes;
}

static int count_of(doc *d, yaml_node_t *n, const char *key) {
    char *t = text_of(d, n, key), *end;
    long v = strtol(t, &end, 10);
    if (end == t || *end || v < 0 || v > 64) die(d->path, line_of(n), "'%s' should be a count", key);
    return (int)v;
}

/* Keys are called as the members of an entry. */
static void set_key(doc *d, entry *e, const char *key, yaml_node_t *v) {
#define KEY(name, read) \
    if (strcmp(key, #name) == 0) return (void)(e->name = read(d, v, key))
    KEY(op, text_of);
    KEY(fn, text_of);
    KEY(object, text_of);
    KEY(number_for, text_of);
    KEY(c, text_of);
    KEY(macro, text_of);
    KEY(meta, text_of);
    KEY(alias, text_of);
    KEY(composite, text_of);
    KEY(explicit, text_of);
    KEY(foreach, text_of);
    KEY(view, word_of);
    KEY(view_copy, text_of);
    KEY(view_inverse, text_of);
    KEY(nondifferentiable, text_of);
    KEY(double_backward, text_of);
    KEY(doc, text_of);
    KEY(shape, text_of);
    KEY(dtype, text_of);
    KEY(errors, text_of);
    KEY(source, text_of);
    KEY(out_overload, text_of);
    KEY(inplace_overload, text_of);
    KEY(device_check, word_of);
    KEY(loop, text_of);
    KEY(kernel, text_of);
    KEY(combines, word_of);
    KEY(random, text_of);
    KEY(functional, text_of);
    KEY(forward, text_of);
    KEY(batch, text_of);
    KEY(module, text_of);
    KEY(new, text_of);
    KEY(dims, text_of);
    KEY(inputs, text_of);
    KEY(outputs, text_of);
    KEY(forward_all, text_of);
    KEY(build, text_of);
    KEY(shows, text_of);
    KEY(init, text_of);
    KEY(section, text_of);
    KEY(choices, map_of);
    KEY(zero_means, map_of);
    KEY(version, count_of);
    KEY(variants, list_of);
    KEY(tags, list_of);
    KEY(updates, list_of);
    KEY(shares, list_of);
    KEY(numbers, list_of);
    KEY(conjugated, list_of);
    KEY(output_differentiability, list_of);
    KEY(kernels, map_of);
    KEY(raw, map_of);
    KEY(layouts, map_of);
    KEY(grad, map_of);
    KEY(unread, map_of);
    KEY(autocast, casts_of);
    KEY(positional, count_of);
    KEY(data_dependent, bool_of);
    KEY(internal, bool_of);
    KEY(factory, bool_of);
#undef KEY
    die(d->path, line_of(v), "unknown key '%s'", key);
}

static entry read_entry(doc *d, yaml_node_t *n, const char *family) {
    if (n->type != YAML_MAPPING_NODE) die(d->path, line_of(n), "an entry should be a mapping that begins with 'op:'");
    entry e = {.file = d->path, .family = family, .line = line_of(n), .positional = -1};
    for (yaml_node_pair_t *i = n->data.mapping.pairs.start; i < n->data.mapping.pairs.top; i++) {
        char *key = text_of(d, yaml_document_get_node(&d->y, i->key), "key");
        set_key(d, &e, key, yaml_document_get_node(&d->y, i->value));
    }
    const bool of_file = e.combines && n->data.mapping.pairs.top - n->data.mapping.pairs.start == 1;
    if (!!e.op + !!e.fn + !!e.module + of_file != 1)
        die(d->path, e.line, "an entry should have one of 'op:', 'fn:' and 'module:'");
    return e;
}

char *family_of(const char *path) {
    const char *slash = strrchr(path, '/');
    char *name = xformat("%s", slash ? slash + 1 : path);
    char *dot = strrchr(name, '.');
    if (dot) *dot = 0;
    return name;
}

static void add_entry(model *m, entry e) {
    if (e.fn)
        PUSH(m->fn_entries, e);
    else if (e.module)
        PUSH(m->module_entries, e);
    else if (e.op)
        PUSH(m->entries, e);
    else if (FIND(m->families, file, e.file))
        die(e.file, e.line, "'combines' of the whole file is given twice");
    else
        PUSH(m->families, ((family){e.file, e.combines}));
}

static void check_keys(doc *d, const yaml_node_t *map) {
    for (yaml_node_pair_t *i = map->data.mapping.pairs.start; i < map->data.mapping.pairs.top; i++)
        for (yaml_node_pair_t *j = map->data.mapping.pairs.start; j < i; j++) {
            yaml_node_t *key = yaml_document_get_node(&d->y, i->key), *first = yaml_document_get_node(&d->y, j->key);
            const char *name = text_of(d, key, "key");
            if (strcmp(name, text_of(d, first, "key")) == 0)
                die(d->path, line_of(key), "'%s' is given twice; the first is in line %d", name, line_of(first));
        }
}

void load_yaml(const char *path, model *m) {
    FILE *f = fopen(path, "rb");
    if (!f) die(path, 0, "cannot be opened");
    yaml_parser_t p;
    doc d = {.path = path};
    if (!yaml_parser_initialize(&p)) die(path, 0, "out of memory");
    yaml_parser_set_input_file(&p, f);
    if (!yaml_parser_load(&p, &d.y)) die(path, (int)p.problem_mark.line + 1, "%s", p.problem ? p.problem : "bad YAML");
    for (yaml_node_t *n = d.y.nodes.start; n < d.y.nodes.top; n++)
        if (n->type == YAML_MAPPING_NODE) check_keys(&d, n);
    yaml_node_t *root = yaml_document_get_root_node(&d.y);
    const char *family = family_of(path);
    if (root) {
        if (root->type != YAML_SEQUENCE_NODE) die(path, line_of(root), "the file should be a list of entries");
        for (yaml_node_item_t *i = root->data.sequence.items.start; i < root->data.sequence.items.top; i++)
            add_entry(m, read_entry(&d, yaml_document_get_node(&d.y, *i), family));
    }
    yaml_document_delete(&d.y);
    if (!yaml_parser_load(&p, &d.y) || yaml_document_get_root_node(&d.y))
        die(path, (int)p.mark.line + 1, "there is more after the end of the list");
    yaml_document_delete(&d.y);
    yaml_parser_delete(&p);
    fclose(f);
}
