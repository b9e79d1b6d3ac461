/* facula ops --coverage: the operators of PyTorch beside those of this build. */
#include "coverage.h"
#include "cli.h"
#include <string.h>

typedef struct totals {
    int there, missing, cpu, meta, cuda, gradient;
} totals;

/* The operator of that name; without an overload, the first of that base name. */
static const fac_operator *find(const char *name) {
    char full[128];
    const int n = snprintf(full, sizeof full, "aten::%s", name);
    const fac_operator *op = fac_operator_lookup(full);
    if (op || strchr(name, '.')) return op;
    for (size_t i = 0; i < fac_operator_count(); i++) {
        const fac_operator *other = fac_operator_at(i);
        if (strncmp(fac_operator_name(other), full, (size_t)n) == 0 && fac_operator_name(other)[n] == '.') return other;
    }
    return NULL;
}

/* Whether a kernel serves tensors on the device, of whatever representation: an operator such as q_scale knows quantized ones alone. */
static bool has(const fac_operator *op, const char *device, int *count) {
    static const char *const representations[] = {"", "Sparse", "SparseCsr", "Quantized"};
    bool there = false;
    for (size_t i = 0; i < sizeof representations / sizeof *representations && !there; i++) {
        char key[40];
        snprintf(key, sizeof key, "%s%s", representations[i], device);
        there = fac_operator_has_kernel(op, key);
    }
    *count += there;
    return there;
}

static int print_one(const char *name, totals *t) {
    const fac_operator *op = find(name);
    fac_operator_facts f;
    if (!op) {
        printf("  %-44s missing\n", name);
        t->missing++;
        return CLI_OK;
    }
    if (fac_operator_facts_of(op, &f) != FAC_OK) return CLI_FAILED;
    t->there++;
    t->gradient += strncmp(f.gradient, "none", 4) != 0;
    const bool cpu = has(op, "CPU", &t->cpu), meta = has(op, "Meta", &t->meta), cuda = has(op, "CUDA", &t->cuda);
    printf("  %-44s %-4s%-5s%-5s gradient: %s\n", name, cpu ? "CPU" : "-", meta ? "Meta" : "-", cuda ? "CUDA" : "-",
           f.gradient);
    return CLI_OK;
}

/* Each name of the group that is accepted; the kind goes before the first. */
static int print_group(const coverage_group *g, bool (*accepts)(const void *, const char *), const void *context,
                       totals *t) {
    bool first = true;
    char name[96];
    for (const char *at = g->names; *at; at += strspn(at, " ")) {
        const size_t n = strcspn(at, " ");
        snprintf(name, sizeof name, "%.*s", (int)n, at);
        at += n;
        if (!accepts(context, name)) continue;
        if (first) printf("%s\n", g->kind);
        first = false;
        if (print_one(name, t) != CLI_OK) return CLI_FAILED;
    }
    return CLI_OK;
}

int coverage_print(bool (*accepts)(const void *context, const char *name), const void *context) {
    totals t = {0};
    for (const coverage_group *g = coverage_groups; g->kind; g++)
        if (print_group(g, accepts, context, &t) != CLI_OK) return CLI_FAILED;
    const int all = t.there + t.missing;
    printf(
        "\n%d %s: %d there, %d missing; kernels: CPU %d, Meta %d, CUDA %d; gradients: %d, and a reason for none: %d\n",
        all, cli_word(all, "operator", "operators"), t.there, t.missing, t.cpu, t.meta, t.cuda, t.gradient,
        t.there - t.gradient);
    return t.missing ? CLI_FAILED : CLI_OK;
}
