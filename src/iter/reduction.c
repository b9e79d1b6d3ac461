/* The plan of a reduction's dimensions. */
#include "iter/reduction.h"

enum { NARROW = 8 }; /* fewer neighbouring outputs than this are not worked on side by side when the folds are long */

/* Strides of an output over the index space of the input: 0 along reduced dimensions. */
static void out_strides(const fac_tensor *in, uint64_t mask, const fac_tensor *out, int64_t *strides) {
    bool keepdim = out->ndim == in->ndim;
    for (int d = 0, o = 0; d < in->ndim; d++) {
        bool reduced = mask >> d & 1;
        strides[d] = reduced ? 0 : out->strides[o];
        o += keepdim || !reduced;
    }
}

void fac__split(fac_dim_split *s, fac_tensor *in, uint64_t mask, fac_tensor *const *outs, int n_out, bool ordered) {
    int64_t of_out[FAC_NEST_OPERANDS - 1][FAC_MAX_DIMS];
    const int64_t *strides[FAC_NEST_OPERANDS] = {in->strides};
    for (int i = 0; i < n_out; i++) {
        out_strides(in, mask, outs[i], of_out[i]);
        strides[i + 1] = of_out[i];
    }
    fac__nest_build(&s->kept, in->sizes, in->ndim, ~mask, n_out + 1, strides, false);
    fac__nest_build(&s->reduced, in->sizes, in->ndim, mask, 1, strides, ordered);
}

bool fac__split_is_columns(const fac_dim_split *s) {
    if (s->kept.ndim == 0) return false;
    if (s->reduced.ndim == 0) return true;
    if (s->kept.size[0] < NARROW && s->reduced.size[0] >= FAC_LONG_RUN) return false;
    return s->kept.stride[0][0] < s->reduced.stride[0][0];
}
