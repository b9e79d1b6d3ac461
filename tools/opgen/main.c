/* opgen -o DIR [--without KEY] FILE.yaml... FILE.[ch]...
                                           write everything into DIR; headers in include/facula/ are the public ones, other
                                           C files hold formulas, those of src/ops/scalar/ loops, and composites. Kernels for KEY, such as CUDA, are left out
   opgen --list-outputs FILE.yaml...       names of the C files that -o would write
   opgen explain OP FILE.yaml... FILE.h... all that one operator yields, on standard output; pointwise ones need src/ops/scalar/ */
#include "opgen.h"

/* The families, in the order of their files. */
static texts families(char **files, int n_files) {
    texts v = {0};
    for (int i = 0; i < n_files; i++) {
        char *name = family_of(files[i]);
        if (strcmp(name, "functions") != 0 && strcmp(name, "modules") != 0) PUSH(v, name); /* which have no operators */
    }
    return v;
}

/* By the name of the operator, of the form or of the entry, which has all forms. */
static bool is_called(const op *p, const char *name) {
    const size_t n = strcspn(p->e->op, ".(");
    return strcmp(p->s->name, name) == 0 || strcmp(p->s->full, name) == 0 || strcmp(p->short_name, name) == 0 ||
           (strlen(name) == n && strncmp(p->e->op, name, n) == 0);
}

static int explain(const model *m, const char *name) {
    int found = 0;
    for (size_t i = 0; i < m->ops.n; i++) {
        const op *p = &m->ops.v[i];
        if (!is_called(p, name)) continue;
        printf("%s==== %s (%s:%d)\n\n-- public --\n", found++ ? "\n" : "", p->s->full, p->e->file, p->e->line);
        emit_decl(stdout, p);
        emit_macros(stdout, p);
        puts("\n-- internal --");
        emit_internal_decl(stdout, p);
        emit_implementation(stdout, p);
    }
    if (!found) fprintf(stderr, "opgen: no operator '%s' in these files\n", name);
    return !found;
}

static int usage(void) {
    fputs("usage: opgen -o DIR [--without KEY] FILE.yaml... FILE.[ch]...\n"
          "       opgen --list-outputs FILE.yaml...\n       opgen explain OP FILE.yaml... FILE.h...\n",
          stderr);
    return 2;
}

static void drop_key(pairs *p, const char *key) {
    size_t n = 0;
    for (size_t i = 0; i < p->n; i++)
        if (strcmp(p->v[i].key, key) != 0) p->v[n++] = p->v[i];
    p->n = n;
}

static void drop_kernels(model *m, const char *key) {
    for (size_t i = 0; i < m->entries.n; i++) {
        drop_key(&m->entries.v[i].kernels, key);
        drop_key(&m->entries.v[i].raw, key);
    }
}

/* Operator files first, then the public headers and C files. The index of the first of those. */
static int load_files(char **argv, int first, int argc, model *m) {
    int i = first;
    for (; i < argc && strcmp(strrchr(argv[i], '.') ? strrchr(argv[i], '.') : "", ".yaml") == 0; i++)
        load_yaml(argv[i], m);
    for (int c = i; c < argc; c++)
        if (strstr(argv[c], "include/facula/"))
            load_header(argv[c], m);
        else if (strstr(argv[c], "ops/scalar/"))
            load_formulas(argv[c], m);
        else
            load_c(argv[c]);
    return i;
}

static int list_outputs(char **files, int n) {
    const texts names = families(files, n);
    for (size_t i = 0; i < names.n; i++) printf("ops_%s.c\n", names.v[i]);
    puts("ops_dispatch.c\nops_signatures.c\nops_table.c\nkeywords.c\nmodules.c");
    return 0;
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "";
    if (strcmp(what, "--list-outputs") == 0) return list_outputs(argv + 2, argc - 2);
    const bool writes_all = strcmp(what, "-o") == 0;
    if (argc < 3 || (!writes_all && strcmp(what, "explain") != 0)) return usage();
    const bool leaves_out = writes_all && argc > 5 && strcmp(argv[3], "--without") == 0;
    const int first = leaves_out ? 5 : 3;
    model m = {0};
    const int n_yaml = load_files(argv, first, argc, &m) - first;
    add_modules(&m);
    complete_aliases(&m);
    spell_out_references(&m);
    if (leaves_out) drop_kernels(&m, argv[4]);
    build_model(&m);
    plan_gradients(&m);
    if (!writes_all) return explain(&m, argv[2]);
    check_closure(&m);
    check_facts(&m);
    check_batch(&m);
    const texts names = families(argv + first, n_yaml);
    write_all(argv[2], &m, &names);
    return 0;
}
