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

/* t with other values. */
static fac_tensor *sparse_of_components(const fac_tensor *t, const double *components) {
    fac_sparse parts = *fac__sparse_of(t);
    fac_tensor *made = NULL;
    parts.values = fac__tensor_of_components(parts.values, components);
    if (!parts.values || fac__sparse_make(t->sizes, t->ndim, &parts, &made) != FAC_OK) return NULL;
    return fac__adopt(fac__thread(), made);
}

fac_tensor *fac__tensor_of_components(const fac_tensor *t, const double *components) {
    if (fac__sparse_of(t)) return sparse_of_components(t, components);
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

/* The values of t, or what it has where `like` has elements. */
static fac_status read_stored(fac_tensor *t, const fac_tensor *like, double *out) {
    const fac_dtype as = fac__parts(like) == 2 ? FAC_C128 : FAC_F64;
    fac_tensor *masked = NULL;
    if (t == like) return fac__read(fac__sparse_of(t)->values, as, out, fac__stored(t));
    FAC_TRY(fac__ag_in_layout_of(t, (fac_tensor *)(uintptr_t)like, &masked));
    const fac_status st =
        fac__stored(masked) == fac__stored(like)
            ? fac__read(fac__sparse_of(masked)->values, as, out, fac__stored(like))
            : FAC_FAIL(FAC_ERR_ARGUMENT, "gradients are checked of coalesced tensors: call coalesce first");
    fac__unref(masked);
    return st;
}

fac_status fac__read_components(fac_tensor *t, const fac_tensor *like, double *out) {
    if (t && fac__sparse_of(like)) return read_stored(t, like, out);
    if (t) return fac__read(t, fac__parts(like) == 2 ? FAC_C128 : FAC_F64, out, (size_t)t->numel);
    memset(out, 0, fac__components(like) * sizeof *out);
    return FAC_OK;
}
