/* The copying form of each view: a copy of what it shows. Functionalisation and graph capture use these. */
#include "ops_gen.h"

/* Defines <name>_composite as a row-major copy of a view. */
#define COPY_OF(name, params, view)                                \
    fac_status name##_composite params {                           \
        (void)c;                                                   \
        FAC_SCOPE(s);                                              \
        return fac__give(out, fac__s_clone(view, FAC_CONTIGUOUS)); \
    }

COPY_OF(as_strided_copy,
        (const fac_call_info *c, fac_tensor *self, fac_ints size, fac_ints stride, fac_opt_int offset,
         fac_tensor **out),
        fac__s_as_strided(self, size, stride, offset))
COPY_OF(view_copy, (const fac_call_info *c, fac_tensor *self, fac_ints size, fac_tensor **out), fac__s_view(self, size))
COPY_OF(view_copy_dtype, (const fac_call_info *c, fac_tensor *self, fac_dtype dtype, fac_tensor **out),
        fac__s_view_dtype(self, dtype))
COPY_OF(permute_copy, (const fac_call_info *c, fac_tensor *self, fac_ints dims, fac_tensor **out),
        fac__s_permute(self, dims))
COPY_OF(transpose_copy, (const fac_call_info *c, fac_tensor *self, int64_t dim0, int64_t dim1, fac_tensor **out),
        fac__s_transpose_int(self, dim0, dim1))
COPY_OF(t_copy, (const fac_call_info *c, fac_tensor *self, fac_tensor **out), fac__s_t(self))
COPY_OF(select_copy, (const fac_call_info *c, fac_tensor *self, int64_t dim, int64_t index, fac_tensor **out),
        fac__s_select_int(self, dim, index))
COPY_OF(slice_copy,
        (const fac_call_info *c, fac_tensor *self, int64_t dim, fac_opt_int start, fac_opt_int end, int64_t step,
         fac_tensor **out),
        fac__s_slice_Tensor(self, dim, start, end, step))
COPY_OF(expand_copy, (const fac_call_info *c, fac_tensor *self, fac_ints size, bool implicit, fac_tensor **out),
        fac__s_expand(self, size, implicit))
COPY_OF(squeeze_copy, (const fac_call_info *c, fac_tensor *self, fac_tensor **out), fac__s_squeeze(self))
COPY_OF(squeeze_copy_dim, (const fac_call_info *c, fac_tensor *self, int64_t dim, fac_tensor **out),
        fac__s_squeeze_dim(self, dim))
COPY_OF(squeeze_copy_dims, (const fac_call_info *c, fac_tensor *self, fac_ints dim, fac_tensor **out),
        fac__s_squeeze_dims(self, dim))
COPY_OF(unsqueeze_copy, (const fac_call_info *c, fac_tensor *self, int64_t dim, fac_tensor **out),
        fac__s_unsqueeze(self, dim))
COPY_OF(diagonal_copy,
        (const fac_call_info *c, fac_tensor *self, int64_t offset, int64_t dim1, int64_t dim2, fac_tensor **out),
        fac__s_diagonal(self, offset, dim1, dim2))
COPY_OF(detach_copy, (const fac_call_info *c, fac_tensor *self, fac_tensor **out), fac__s_detach(self))
COPY_OF(alias_copy, (const fac_call_info *c, fac_tensor *self, fac_tensor **out), fac__s_alias(self))
COPY_OF(unfold_copy,
        (const fac_call_info *c, fac_tensor *self, int64_t dimension, int64_t size, int64_t step, fac_tensor **out),
        fac__s_unfold(self, dimension, size, step))
COPY_OF(view_as_real_copy, (const fac_call_info *c, fac_tensor *self, fac_tensor **out), fac__s_view_as_real(self))
COPY_OF(view_as_complex_copy, (const fac_call_info *c, fac_tensor *self, fac_tensor **out),
        fac__s_view_as_complex(self))

/* Each view of an owned list is replaced by its copy; the list is freed on failure. */
static fac_status copy_each(fac_status st, fac_tensor_list *l) {
    if (st != FAC_OK) return st;
    for (size_t i = 0; i < l->n && st == FAC_OK; i++) {
        fac_tensor *copy;
        st = fac__c_clone(l->v[i], FAC_CONTIGUOUS, &copy);
        if (st != FAC_OK) break;
        fac__unref(l->v[i]);
        l->v[i] = copy;
    }
    if (st != FAC_OK) fac__tensor_list_free(l);
    return st;
}

fac_status split_copy_composite(const fac_call_info *c, fac_tensor *self, int64_t split_size, int64_t dim,
                                fac_tensor_list *out) {
    (void)c;
    return copy_each(fac__c_split_Tensor(self, split_size, dim, out), out);
}

fac_status split_with_sizes_copy_composite(const fac_call_info *c, fac_tensor *self, fac_ints split_sizes, int64_t dim,
                                           fac_tensor_list *out) {
    (void)c;
    return copy_each(fac__c_split_with_sizes(self, split_sizes, dim, out), out);
}

fac_status unbind_copy_composite(const fac_call_info *c, fac_tensor *self, int64_t dim, fac_tensor_list *out) {
    (void)c;
    return copy_each(fac__c_unbind_int(self, dim, out), out);
}

fac_status unsafe_chunk_composite(const fac_call_info *c, fac_tensor *self, int64_t chunks, int64_t dim,
                                  fac_tensor_list *out) {
    (void)c;
    return copy_each(fac__c_chunk(self, chunks, dim, out), out);
}
