/* Sequential: modules that run one after the other. */
#include "nn/module.h"

static fac_tensor *sequential_forward(fac_module *self, fac_tensor *x) {
    fac_tensor *first = x;
    for (size_t i = 0; i < self->children.n && x; i++) {
        fac_tensor *y = fac_forward(self->children.v[i].module, x);
        if (y && x != first && x != y) fac_drop(x); /* what the next layer needs of it, the graph holds */
        x = y;
    }
    return x;
}

const fac_module_class fac__sequential_class = {.name = "Sequential", .version = 1, .forward = sequential_forward};

fac_module *fac__container_new(const fac_module_class *cls, fac_module *const *modules, size_t n) {
    fac_module *m = fac_error() ? NULL : fac_module_new(cls);
    if (n && !modules) {
        FAC_FAIL(FAC_ERR_ARGUMENT, "%s: %zu modules were announced, but the array is NULL", cls->name, n);
        fac_module_release(m);
        return NULL;
    }
    for (size_t i = 0; i < n; i++) {
        char name[24];
        snprintf(name, sizeof name, "%zu", i);
        if (!m)
            fac_module_release(modules[i]);
        else if (!fac_module_add(m, name, modules[i])) {
            fac_module_release(m);
            m = NULL;
        }
    }
    return m;
}

fac_module *fac_sequential_new(fac_module *const *modules, size_t n) {
    return fac__container_new(&fac__sequential_class, modules, n);
}
