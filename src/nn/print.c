/* A module tree as text, in PyTorch's form. */
#include "nn/module.h"

static void describe(fac_module *m, char *buf, size_t size) {
    buf[0] = 0;
    if (m->cls->describe) FAC_CALLBACK(m->cls->describe(m, buf, size));
}

static void print_at(fac_module *m, FILE *f, int indent) {
    char text[256];
    describe(m, text, sizeof text);
    if (!m->children.n) {
        fprintf(f, "%s(%s)", m->cls->name, text);
        return;
    }
    fprintf(f, "%s(%s\n", m->cls->name, text);
    for (size_t i = 0; i < m->children.n; i++) {
        fprintf(f, "%*s(%s): ", indent + 2, "", m->children.v[i].name);
        print_at(m->children.v[i].module, f, indent + 2);
        fputc('\n', f);
    }
    fprintf(f, "%*s)", indent, "");
}

fac_status fac_module_print(fac_module *m, FILE *stream) {
    FAC_CHECK(m && stream, FAC_ERR_ARGUMENT, "the module or the stream is NULL");
    print_at(m, stream, 0);
    fputc('\n', stream);
    FAC_CHECK(!ferror(stream), FAC_ERR_IO, "the module could not be printed");
    return FAC_OK;
}
