/* Calls to the back end's kernels from operators that run below autograd, and what composites with three results end with. */
#include "ops/composite/below.h"
#include "core/tensor_make.h"
#include "ops/call.h"
#include "ops_gen.h"

/* In-place kernels give a counted reference to their first argument, `self`; nobody here needs it. */
static fac_status dropping(fac_status st, fac_tensor *self) {
    if (st == FAC_OK) fac__unref(self);
    return st;
}

fac_status fac__copy_below(fac_tensor *dst, fac_tensor *src) {
    fac_tensor *r = NULL;
    return dropping(fac__redispatch_copy_(fac__dense_keys(dst) | fac__dense_keys(src), dst, src, false, &r), dst);
}

fac_status fac__fill_below(fac_tensor *t, fac_scalar value) {
    fac_tensor *r = NULL;
    return dropping(fac__redispatch_fill__Scalar(fac__dense_keys(t), t, value, &r), t);
}

fac_status fac__add_below(fac_tensor *dst, fac_tensor *src) {
    fac_tensor *r = NULL;
    return dropping(
        fac__redispatch_add__Tensor(fac__dense_keys(dst) | fac__dense_keys(src), dst, src, fac_scalar_i_(1), &r), dst);
}

/* Ends the making of an owned tensor: it goes out, or is dropped on failure. */
static fac_status deliver(fac_status st, fac_tensor *t, fac_tensor **out) {
    if (st != FAC_OK)
        fac__unref(t);
    else
        *out = t;
    return st;
}

fac_status fac__zeros_below(fac_ints sizes, const fac_tensor *like, fac_tensor **out) {
    fac_tensor *t;
    FAC_CHECK(sizes.n <= FAC_MAX_DIMS, FAC_ERR_SHAPE, "a tensor may have at most %d dimensions, got %zu", FAC_MAX_DIMS,
              sizes.n);
    FAC_TRY(fac__empty(sizes.v, (int)sizes.n, (fac_dtype)like->dtype, like->device, &t));
    return deliver(fac__fill_below(t, fac_scalar_i_(0)), t, out);
}

fac_status fac__clone_below(fac_tensor *t, fac_tensor **out) {
    fac_tensor *copy;
    FAC_TRY(fac__empty_like(t, &copy));
    return deliver(fac__copy_below(copy, t), copy, out);
}

fac_status fac__give_three(fac_tensor **out, fac_tensor *a, fac_tensor *b, fac_tensor *c) {
    fac_tensor *all[] = {a, b, c};
    for (int i = 0; i < 3; i++) out[i] = NULL;
    for (int i = 0; i < 3; i++) {
        fac_status st = fac__give(&out[i], all[i]);
        if (st == FAC_OK) continue;
        while (i-- > 0) fac__unref(out[i]), out[i] = NULL;
        return st;
    }
    return FAC_OK;
}
