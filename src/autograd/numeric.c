/* Reads a tensor's components as doubles and makes tensors of them, for checks of gradients and Jacobians. */
#include "autograd/numeric.h"
#include "autograd/engine_ops.h"
#include "core/read.h"
#include "core/scalar.h"
#include "core/tensor_make.h"

static fac_tensor *to_device(fac_tensor *t, const fac_tensor *like) {
    if (!t || fac_device_equal(t->device, like->device)) return t;
    fac_tensor *moved = NULL;
    FAC_TRY_NULL(fac__ag_cast(t, (fac_dtype)t->dtype, like->device, &moved));
    return fac__adopt(fac__thread(), moved);
}

fac_tensor *fac__tensor_of_components(const fac_tensor *t, const double *components) {
    fac_dtype d = (fac_dtype)t->dtype;
    size_t parts = fac__parts(t), item = fac__dtype_size(d);
    char *data = fac__alloc_array((size_t)t->numel, item);
    if (!data) return NULL;
    for (size_t i = 0; i < (size_t)t->numel; i++)
        fac__store(data + i * item, d, parts == 2 ? fac_scalar_c_(&components[2 * i]) : fac_scalar_f_(components[i]));
    fac_tensor *made = fac__tensor_from(data, d, (fac_ints){t->sizes, t->ndim});
    fac__free(data);
    return to_device(made, t);
}

fac_tensor *fac__unit_like(const fac_tensor *t, size_t k) {
    double *components = fac__alloc_zero(fac__components(t) * sizeof *components);
    if (!components) return NULL;
    components[k] = 1;
    fac_tensor *unit = fac__tensor_of_components(t, components);
    fac__free(components);
    return unit;
}

fac_status fac__read_components(fac_tensor *t, const fac_tensor *like, double *out) {
    if (t) return fac__read(t, fac__parts(like) == 2 ? FAC_C128 : FAC_F64, out, (size_t)t->numel);
    memset(out, 0, fac__components(like) * sizeof *out);
    return FAC_OK;
}
