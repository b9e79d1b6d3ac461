/* YAML files into entries. Unknown keys and wrong shapes are errors, so that a misspelt key cannot be lost. */
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

static char **list_of(doc *d, yaml_node_t *n, const char *key) {
    if (n->type != YAML_SEQUENCE_NODE) die(d->path, line_of(n), "'%s' should be a list", key);
    char **v = NULL;
    size_t c = 0;
    for (yaml_node_item_t *i = n->data.sequence.items.start; i < n->data.sequence.items.top; i++)
        PUSH(v, c, text_of(d, yaml_document_get_node(&d->y, *i), key));
    PUSH(v, c, NULL);
    return v;
}

static pairs map_of(doc *d, yaml_node_t *n, const char *key) {
    if (n->type != YAML_MAPPING_NODE) die(d->path, line_of(n), "'%s' should be a mapping", key);
    pairs p = {0};
    for (yaml_node_pair_t *i = n->data.mapping.pairs.start; i < n->data.mapping.pairs.top; i++) {
        yaml_node_t *v = yaml_document_get_node(&d->y, i->value);
        pair one = {text_of(d, yaml_document_get_node(&d->y, i->key), key), text_of(d, v, key), line_of(v)};
        PUSH(p.v, p.n, one);
    }
    return p;
}

static bool bool_of(doc *d, yaml_node_t *n, const char *key) {
    char *t = text_of(d, n, key);
    bool yes = strcmp(t, "true") == 0;
    if (!yes && strcmp(t, "false") != 0) die(d->path, line_of(n), "'%s' should be true or false", key);
    free(t);
    return yes;
}

static int count_of(doc *d, yaml_node_t *n, const char *key) {
    char *t = text_of(d, n, key), *end;
    long v = strtol(t, &end, 10);
    if (*end || v < 0 || v > 64) die(d->path, line_of(n), "'%s' should be a count", key);
    free(t);
    return (int)v;
}

static void set_key(doc *d, entry *e, const char *k, yaml_node_t *v) {
    struct {
        const char *key;
        char **slot;
    } texts[] = {
        {"op", &e->op},
        {"fn", &e->fn},
        {"object", &e->object},
        {"number_for", &e->number_for},
        {"c", &e->c},
        {"macro", &e->macro},
        {"meta", &e->meta},
        {"composite", &e->composite},
        {"explicit", &e->explicit_fn},
        {"view", &e->view},
        {"view_copy", &e->view_copy},
        {"view_inverse", &e->view_inverse},
        {"nondifferentiable", &e->nondifferentiable},
        {"double_backward", &e->double_backward},
        {"doc", &e->doc},
        {"shape", &e->shape},
        {"dtype", &e->dtype},
        {"errors", &e->errors},
        {"source", &e->source},
        {"out_overload", &e->out_overload},
        {"device_check", &e->device_check},
        {"loop", &e->loop},
        {"kernel", &e->kernel},
        {"combines", &e->combines},
        {"random", &e->random},
        {"functional", &e->functional},
    };
    for (size_t i = 0; i < FAC_COUNT(texts); i++)
        if (strcmp(k, texts[i].key) == 0) {
            *texts[i].slot = text_of(d, v, k);
            return;
        }
    if (strcmp(k, "variants") == 0)
        e->variants = list_of(d, v, k);
    else if (strcmp(k, "tags") == 0)
        e->tags = list_of(d, v, k);
    else if (strcmp(k, "updates") == 0)
        e->updates = list_of(d, v, k);
    else if (strcmp(k, "shares") == 0)
        e->shares = list_of(d, v, k);
    else if (strcmp(k, "numbers") == 0)
        e->numbers = list_of(d, v, k);
    else if (strcmp(k, "kernels") == 0)
        e->kernels = map_of(d, v, k);
    else if (strcmp(k, "raw") == 0)
        e->raw = map_of(d, v, k);
    else if (strcmp(k, "grad") == 0)
        e->grad = map_of(d, v, k);
    else if (strcmp(k, "unread") == 0)
        e->unread = map_of(d, v, k);
    else if (strcmp(k, "positional") == 0)
        e->positional = count_of(d, v, k);
    else if (strcmp(k, "data_dependent") == 0)
        e->data_dependent = bool_of(d, v, k);
    else if (strcmp(k, "internal") == 0)
        e->internal = bool_of(d, v, k);
    else if (strcmp(k, "factory") == 0)
        e->factory = bool_of(d, v, k);
    else
        die(d->path, line_of(v), "unknown key '%s'", k);
}

static entry read_entry(doc *d, yaml_node_t *n, const char *family) {
    if (n->type != YAML_MAPPING_NODE) die(d->path, line_of(n), "an entry should be a mapping that begins with 'op:'");
    entry e = {.file = d->path, .family = family, .line = line_of(n), .positional = -1};
    for (yaml_node_pair_t *i = n->data.mapping.pairs.start; i < n->data.mapping.pairs.top; i++) {
        char *key = text_of(d, yaml_document_get_node(&d->y, i->key), "key");
        set_key(d, &e, key, yaml_document_get_node(&d->y, i->value));
        free(key);
    }
    if (!e.op == !e.fn && !e.combines) die(d->path, e.line, "an entry without 'op:' or 'fn:', or with both");
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
        PUSH(m->fns, m->n_fns, e);
    else if (!e.op) /* of the whole file */
        PUSH(m->families, m->n_families, ((family){e.file, e.combines}));
    else
        PUSH(m->entries, m->n_entries, e);
}

void load_yaml(const char *path, model *m) {
    FILE *f = fopen(path, "rb");
    if (!f) die(path, 0, "cannot be opened");
    yaml_parser_t p;
    doc d = {.path = path};
    if (!yaml_parser_initialize(&p)) die(path, 0, "out of memory");
    yaml_parser_set_input_file(&p, f);
    if (!yaml_parser_load(&p, &d.y)) die(path, (int)p.problem_mark.line + 1, "%s", p.problem ? p.problem : "bad YAML");
    yaml_node_t *root = yaml_document_get_root_node(&d.y);
    const char *family = family_of(path);
    if (root) {
        if (root->type != YAML_SEQUENCE_NODE) die(path, line_of(root), "the file should be a list of entries");
        for (yaml_node_item_t *i = root->data.sequence.items.start; i < root->data.sequence.items.top; i++)
            add_entry(m, read_entry(&d, yaml_document_get_node(&d.y, *i), family));
    }
    yaml_document_delete(&d.y);
    yaml_parser_delete(&p);
    fclose(f);
}
