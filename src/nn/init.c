/* What the layers share: parameters and their initial values. */
#include "nn/layers.h"
#include "ops/call.h"
#include <facula/ops.h>

fac_tensor *fac__nn_parameter(fac_module *m, const char *name, fac_ints sizes, fac_dtype dtype, fac_device device) {
    FAC_SCOPE(s);
    return fac_module_add_parameter(m, name, fac_empty(sizes, .dtype = dtype, .device = device));
}

fac_status fac__nn_uniform(fac_tensor *t, double bound) {
    FAC_SCOPE(s);
    FAC_NO_GRAD(g);
    return fac_uniform_(t, .from = -bound, .to = bound) ? FAC_OK : fac_error();
}

fac_status fac__nn_normal(fac_tensor *t) {
    FAC_SCOPE(s);
    FAC_NO_GRAD(g);
    return fac_normal_(t) ? FAC_OK : fac_error();
}

fac_status fac__nn_fill(fac_tensor *t, double value) {
    FAC_SCOPE(s);
    FAC_NO_GRAD(g);
    return fac_fill_(t, value) ? FAC_OK : fac_error();
}

fac_status fac__add_uniform(fac_module *m, const char *name, fac_ints sizes, double bound, bool wanted, fac_dtype dtype,
                            fac_device device) {
    if (!wanted) return fac_module_add_parameter(m, name, NULL), fac_error();
    fac_tensor *t = fac__nn_parameter(m, name, sizes, dtype, device);
    return t ? fac__nn_uniform(t, bound) : fac_error();
}

fac_status fac__add_constant(fac_module *m, const char *name, fac_ints sizes, double value, bool wanted,
                             fac_dtype dtype, fac_device device) {
    if (!wanted) return fac_module_add_parameter(m, name, NULL), fac_error();
    fac_tensor *t = fac__nn_parameter(m, name, sizes, dtype, device);
    return t ? fac__nn_fill(t, value) : fac_error();
}

fac_module *fac__nn_done(fac_module *m, fac_status st) {
    if (!st && !fac_error()) return m;
    fac_module_release(m);
    return NULL;
}
