/* Reads settings from YAML by libyaml, and writes them. */
#include "config.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#ifdef FACULA_APP_YAML
#include <yaml.h>
#endif

void config_free(config *c) {
    for (size_t i = 0; i < c->n_texts; i++) free(c->texts[i]);
    free(c->texts);
    free(c->paths);
    *c = (config){0};
}

/* ---- writing ---- */

/* What is no word is put between quotes. */
static void print_text(FILE *f, const char *text) {
    static const char safe[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./-";
    static const char *const special[] = {"true", "false", "yes", "no", "on", "off", "null", "-", "."};
    bool plain = *text && *text != '-' && text[strspn(text, safe)] == 0;
    for (size_t i = 0; i < sizeof special / sizeof *special; i++) plain &= strcmp(text, special[i]) != 0;
    if (plain) {
        fputs(text, f);
        return;
    }
    fputc('"', f);
    for (const unsigned char *p = (const unsigned char *)text; *p; p++) {
        if (*p == '"' || *p == '\\')
            fprintf(f, "\\%c", *p);
        else if (*p < 0x20 || *p == 0x7f)
            fprintf(f, "\\x%02X", *p);
        else
            fputc(*p, f);
    }
    fputc('"', f);
}

void config_print(FILE *f, const setting *table, size_t n, const void *options, const char *const *paths,
                  size_t n_paths) {
    char text[64];
    if (n_paths) fputs("paths:\n", f);
    for (size_t i = 0; i < n_paths; i++) {
        fputs("  - ", f);
        print_text(f, paths[i]);
        fputc('\n', f);
    }
    for (const setting *s = table; s < table + n; s++) {
        if (!setting_given(options, s)) continue;
        fprintf(f, "%s: ", s->option + 2);
        setting_text(options, s, text, sizeof text);
        if (s->kind == SETTING_FLAG)
            fputs(text[0] == '0' ? "false" : "true", f);
        else if (s->kind == SETTING_TEXT)
            print_text(f, *(const char *const *)((const char *)options + s->offset));
        else
            fputs(text, f);
        fputc('\n', f);
    }
}

#ifdef FACULA_APP_YAML

/* ---- reading ---- */

typedef struct reader {
    config *c;
    const char *path;
    const setting *table;
    size_t n;
    void *options;
    yaml_document_t document;
    bool *seen; /* of each setting, and one more for the paths */
} reader;

static int line_of(const yaml_node_t *node) { return (int)node->start_mark.line + 1; }

static const char *text_of(const yaml_node_t *node) { return (const char *)node->data.scalar.value; }

static char *keep_text(config *c, char *text) {
    char **all = text ? realloc(c->texts, (c->n_texts + 1) * sizeof *all) : NULL;
    if (!all) {
        free(text);
        fac_error_set(FAC_ERR_MEMORY, "no memory for the configuration");
        return NULL;
    }
    c->texts = all;
    return c->texts[c->n_texts++] = text;
}

/* A list as its values with commas between them. */
static char *join(reader *r, const yaml_node_t *list, const char *key) {
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);
    for (yaml_node_item_t *i = list->data.sequence.items.start; f && i < list->data.sequence.items.top; i++) {
        const yaml_node_t *node = yaml_document_get_node(&r->document, *i);
        if (node->type != YAML_SCALAR_NODE || strchr(text_of(node), ',')) {
            fclose(f);
            free(text);
            fac_error_set(FAC_ERR_ARGUMENT, "%s:%d: a value in the list of '%s' is not a plain one without commas",
                          r->path, line_of(node), key);
            return NULL;
        }
        fprintf(f, "%s%s", i == list->data.sequence.items.start ? "" : ",", text_of(node));
    }
    if (f && fclose(f) == 0) return keep_text(r->c, text);
    free(text);
    fac_error_set(FAC_ERR_MEMORY, "no memory for the configuration");
    return NULL;
}

static const char *flag_text(const char *text) {
    static const struct {
        const char *word, *value;
    } words[] = {{"true", "1"}, {"false", "0"}, {"yes", "1"}, {"no", "0"},
                 {"on", "1"},   {"off", "0"},   {"1", "1"},   {"0", "0"}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcmp(text, words[i].word) == 0) return words[i].value;
    return NULL;
}

static fac_status take_setting(reader *r, const setting *s, const char *key, const yaml_node_t *value) {
    char range[160];
    const char *text = NULL;
    if (value->type == YAML_SCALAR_NODE)
        text = keep_text(r->c, strdup(text_of(value)));
    else if (value->type == YAML_SEQUENCE_NODE && s->kind == SETTING_TEXT)
        text = join(r, value, key);
    else
        return fac_error_set(FAC_ERR_ARGUMENT, "%s:%d: %s takes %s, not several values", r->path, line_of(value), key,
                             setting_range(s, range, sizeof range));
    if (!text) return fac_error();
    const char *set = s->kind == SETTING_FLAG ? flag_text(text) : text;
    if (set && setting_set(r->options, s, set)) return FAC_OK;
    return fac_error_set(FAC_ERR_ARGUMENT, "%s:%d: %s takes %s, not '%s'", r->path, line_of(value), key,
                         setting_range(s, range, sizeof range), text);
}

static fac_status take_path(reader *r, const yaml_node_t *node) {
    config *c = r->c;
    if (node->type != YAML_SCALAR_NODE)
        return fac_error_set(FAC_ERR_ARGUMENT, "%s:%d: paths takes files and folders", r->path, line_of(node));
    const char **all = realloc(c->paths, (c->n_paths + 1) * sizeof *all);
    if (!all) return fac_error_set(FAC_ERR_MEMORY, "no memory for the configuration");
    c->paths = all;
    c->paths[c->n_paths] = keep_text(c, strdup(text_of(node)));
    if (!c->paths[c->n_paths]) return fac_error();
    c->n_paths++;
    return FAC_OK;
}

static fac_status take_paths(reader *r, const yaml_node_t *value) {
    if (value->type != YAML_SEQUENCE_NODE) return take_path(r, value);
    fac_status st = FAC_OK;
    for (yaml_node_item_t *i = value->data.sequence.items.start; !st && i < value->data.sequence.items.top; i++)
        st = take_path(r, yaml_document_get_node(&r->document, *i));
    return st;
}

/* Underlines are as good as dashes. */
static bool same_name(const char *option, const char *key) {
    for (; *option && *key; option++, key++)
        if (*option != (*key == '_' ? '-' : *key)) return false;
    return !*option && !*key;
}

static fac_status take_pair(reader *r, const yaml_node_t *key, const yaml_node_t *value) {
    if (key->type != YAML_SCALAR_NODE)
        return fac_error_set(FAC_ERR_ARGUMENT, "%s:%d: a key should be the name of a setting", r->path, line_of(key));
    const char *name = text_of(key);
    size_t i = 0;
    const bool paths = strcmp(name, "paths") == 0;
    while (i < r->n && !same_name(r->table[i].option + 2, name)) i++;
    if (i == r->n && !paths)
        return fac_error_set(FAC_ERR_ARGUMENT, "%s:%d: there is no setting '%s'", r->path, line_of(key), name);
    if (r->seen[i])
        return fac_error_set(FAC_ERR_ARGUMENT, "%s:%d: '%s' stands here a second time", r->path, line_of(key), name);
    r->seen[i] = true;
    return paths ? take_paths(r, value) : take_setting(r, &r->table[i], name, value);
}

static fac_status take_document(reader *r) {
    const yaml_node_t *root = yaml_document_get_root_node(&r->document);
    if (!root) return FAC_OK; /* an empty file says nothing */
    if (root->type != YAML_MAPPING_NODE)
        return fac_error_set(FAC_ERR_ARGUMENT, "%s:%d: a configuration has lines such as 'steps: 500'", r->path,
                             line_of(root));
    fac_status st = FAC_OK;
    for (yaml_node_pair_t *p = root->data.mapping.pairs.start; !st && p < root->data.mapping.pairs.top; p++)
        st = take_pair(r, yaml_document_get_node(&r->document, p->key), yaml_document_get_node(&r->document, p->value));
    return st;
}

static fac_status load(reader *r, FILE *f) {
    yaml_parser_t parser;
    if (!yaml_parser_initialize(&parser)) return fac_error_set(FAC_ERR_MEMORY, "no memory for the configuration");
    yaml_parser_set_input_file(&parser, f);
    fac_status st = FAC_OK;
    if (yaml_parser_load(&parser, &r->document)) {
        st = take_document(r);
        yaml_document_delete(&r->document);
    } else if (parser.error == YAML_MEMORY_ERROR) {
        st = fac_error_set(FAC_ERR_MEMORY, "no memory for the configuration");
    } else {
        const size_t line = (parser.error == YAML_READER_ERROR ? 0 : parser.problem_mark.line) + 1;
        st = fac_error_set(FAC_ERR_FORMAT, "%s:%zu: not YAML: %s", r->path, line,
                           parser.problem ? parser.problem : "it cannot be read");
    }
    yaml_parser_delete(&parser);
    return st;
}

fac_status config_read(config *c, const char *path, const setting *table, size_t n, void *options) {
    reader r = {.c = c, .path = path, .table = table, .n = n, .options = options};
    FILE *f = fopen(path, "rb");
    if (!f) return fac_error_set(FAC_ERR_IO, "cannot open '%s': %s", path, strerror(errno));
    r.seen = calloc(n + 1, sizeof *r.seen);
    const fac_status st = r.seen ? load(&r, f) : fac_error_set(FAC_ERR_MEMORY, "no memory for the configuration");
    free(r.seen);
    fclose(f);
    return st;
}

#else

fac_status config_read(config *c, const char *path, const setting *table, size_t n, void *options) {
    (void)c, (void)table, (void)n, (void)options;
    return fac_error_set(FAC_ERR_UNSUPPORTED, "cannot read '%s': this program was built without libyaml", path);
}

#endif
