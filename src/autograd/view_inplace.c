/* Views in place: the view is made as always, recorded if a gradient is wanted, and the tensor then takes its place. */
#include "autograd/node.h"
#include "ops/call.h"
#include "ops_gen.h"

/* Gives self what the view of it shows. */
static fac_status become(fac_tensor *self, fac_tensor *view, fac_tensor **out) {
    if (!view) return fac_error();
    FAC_TRY(fac__view_become(self, view));
    *out = fac__ref(self);
    return FAC_OK;
}

/* Defines <name>_composite_, which turns self into `view`. */
#define BECOMES(name, params, view)                                  \
    fac_status name##_composite_ params {                            \
        (void)c;                                                     \
        FAC_SCOPE(s);                                                \
        FAC_TRY(fac__check_inplace(self, fac__requires_grad(self))); \
        return become(self, view, out);                              \
    }

BECOMES(as_strided,
        (const fac_call_info *c, fac_tensor *self, fac_ints size, fac_ints stride, fac_opt_int offset,
         fac_tensor **out),
        fac__s_as_strided(self, size, stride, offset))
BECOMES(transpose, (const fac_call_info *c, fac_tensor *self, int64_t dim0, int64_t dim1, fac_tensor **out),
        fac__s_transpose_int(self, dim0, dim1))
BECOMES(t, (const fac_call_info *c, fac_tensor *self, fac_tensor **out), fac__s_t(self))
BECOMES(squeeze, (const fac_call_info *c, fac_tensor *self, fac_tensor **out), fac__s_squeeze(self))
BECOMES(squeeze_dim, (const fac_call_info *c, fac_tensor *self, int64_t dim, fac_tensor **out),
        fac__s_squeeze_dim(self, dim))
BECOMES(squeeze_dims, (const fac_call_info *c, fac_tensor *self, fac_ints dim, fac_tensor **out),
        fac__s_squeeze_dims(self, dim))
BECOMES(unsqueeze, (const fac_call_info *c, fac_tensor *self, int64_t dim, fac_tensor **out),
        fac__s_unsqueeze(self, dim))

fac_status detach_composite_(const fac_call_info *c, fac_tensor *self, fac_tensor **out) {
    (void)c;
    FAC_TRY(fac__detach_in_place(self));
    *out = fac__ref(self);
    return FAC_OK;
}
