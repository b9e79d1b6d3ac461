/* A module tree as text, in PyTorch's form. */
#include "nn/computed.h"
#include "nn/module.h"
#include <stdlib.h>

enum { DESCRIBED = 4096 };

static void describe(fac_module *m, char *buf, size_t size) {
    buf[0] = 0;
    if (m->cls->describe) FAC_CALLBACK(m->cls->describe(m, buf, size));
}

static void print_at(fac_module *m, FILE *f, int indent);

/* The settings, each line of its own. */
static void print_lines(const char *text, FILE *f, int indent) {
    for (; *text; text += *text == '\n') {
        const size_t n = strcspn(text, "\n");
        fprintf(f, "%*s%.*s\n", indent + 2, "", (int)n, text);
        text += n;
    }
}

/* A child as a string that the caller frees, NULL without memory. */
static char *child_text(fac_module *m, int indent) {
    char *text = NULL;
    size_t size;
    FILE *f = open_memstream(&text, &size);
    if (!f) return NULL;
    print_at(m, f, indent);
    if (fclose(f) == 0) return text;
    free(text);
    return NULL;
}

/* Children that look alike are printed once: "(0-5): 6 x Linear(...)". */
static void print_alike(const fac_module *m, FILE *f, int indent) {
    for (size_t i = 0, next; i < m->children.n; i = next) {
        char *text = child_text(m->children.v[i].module, indent + 2);
        for (next = i + 1; text && next < m->children.n; next++) {
            char *other = child_text(m->children.v[next].module, indent + 2);
            const bool same = other && strcmp(text, other) == 0;
            free(other);
            if (!same) break;
        }
        if (next > i + 1)
            fprintf(f, "%*s(%zu-%zu): %zu x %s\n", indent + 2, "", i, next - 1, next - i, text);
        else
            fprintf(f, "%*s(%zu): %s\n", indent + 2, "", i, text ? text : "?");
        free(text);
    }
}

static void print_children(const fac_module *m, FILE *f, int indent) {
    for (size_t i = 0; i < m->children.n; i++) {
        fprintf(f, "%*s(%s): ", indent + 2, "", m->children.v[i].name);
        print_at(m->children.v[i].module, f, indent + 2);
        fputc('\n', f);
    }
}

static bool is_parametrized(fac_module *m) {
    const fac_child *c = fac__module_child_of(m, "parametrizations", strlen("parametrizations"));
    return c && m->computed.n && c->module->cls == &fac__module_dict_class;
}

static void print_at(fac_module *m, FILE *f, int indent) {
    char text[DESCRIBED];
    describe(m, text, sizeof text);
    fprintf(f, "%s%s(", is_parametrized(m) ? "Parametrized" : "", m->cls->name);
    if (!m->children.n && !strchr(text, '\n')) {
        fprintf(f, "%s)", text);
        return;
    }
    fputc('\n', f);
    print_lines(text, f, indent);
    if (m->cls == &fac__module_list_class || m->cls == &fac__parametrization_list_class)
        print_alike(m, f, indent);
    else
        print_children(m, f, indent);
    fprintf(f, "%*s)", indent, "");
}

fac_status fac_module_print(fac_module *m, FILE *stream) {
    FAC_CHECK(m && stream, FAC_ERR_ARGUMENT, "the module or the stream is NULL");
    print_at(m, stream, 0);
    fputc('\n', stream);
    FAC_CHECK(!ferror(stream), FAC_ERR_IO, "the module could not be printed");
    return FAC_OK;
}
