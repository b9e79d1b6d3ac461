/* Sparse tensors as headers: making, sharing, changing and freeing what hangs on them. */
#include "core/sparse.h"
#include "core/tensor_make.h"

/* ---- parts ------------------------------------------------------------------------------------------------------------- */

static void drop_parts(fac_sparse *s) {
    fac__unref(s->indices);
    fac__unref(s->plain);
    fac__unref(s->values);
    fac__free(s);
}

static fac_sparse *copy_parts(const fac_sparse *from) {
    fac_sparse *s = fac__alloc(sizeof *s);
    if (!s) return NULL;
    *s = *from;
    fac__ref(s->indices);
    fac__ref(s->plain);
    fac__ref(s->values);
    return s;
}

static void destroy(fac_tensor *t) {
    if (t->ext) drop_parts(t->ext);
}

static fac_status share(const fac_tensor *t, void **out) {
    *out = copy_parts(t->ext);
    return *out ? FAC_OK : FAC_ERR_MEMORY;
}

static fac_layout layout_of(const fac_tensor *t) { return ((const fac_sparse *)t->ext)->layout; }

const fac_tensor_class fac__sparse_class = {.name = "sparse", .destroy = destroy, .share = share, .layout = layout_of};

/* ---- layouts -------------------------------------------------------------------------------------------------------------- */

fac_layout fac__layout_of(const fac_tensor *t) { return t->cls && t->cls->layout ? t->cls->layout(t) : FAC_STRIDED; }

const char *fac__layout_name(fac_layout l) {
    static const char *const names[] = {
        [FAC_STRIDED] = "strided",       [FAC_SPARSE_COO] = "sparse_coo", [FAC_SPARSE_CSR] = "sparse_csr",
        [FAC_VENDOR_LAYOUT] = "_mkldnn", [FAC_SPARSE_CSC] = "sparse_csc", [FAC_SPARSE_BSR] = "sparse_bsr",
        [FAC_SPARSE_BSC] = "sparse_bsc"};
    return (size_t)l < FAC_COUNT(names) ? names[l] : "no layout";
}

/* ---- tensors --------------------------------------------------------------------------------------------------------------- */

static fac_keyset keys_of(const fac_tensor *plain, fac_layout layout) {
    const fac_functionality f = layout == FAC_SPARSE_COO ? FAC_KEY_SPARSE : FAC_KEY_SPARSE_CSR;
    return (plain->keys & ~(FAC_KS_DENSE | fac__func_bit(FAC_KEY_CONJUGATE))) | fac__func_bit(f);
}

fac_status fac__sparse_make(const int64_t *sizes, int ndim, const fac_sparse *parts, fac_tensor **out) {
    const fac_device meta = fac_device_make(FAC_META, -1);
    fac_tensor *t;
    fac_keyset keys;
    *out = NULL;
    FAC_TRY(fac__empty(sizes, ndim, (fac_dtype)parts->values->dtype, meta, &t)); /* checks the sizes */
    fac_sparse *own = copy_parts(parts);
    const fac_status st = own ? fac__default_keys(parts->values->device, &keys) : FAC_ERR_MEMORY;
    if (st != FAC_OK) {
        if (own) drop_parts(own);
        fac__unref(t);
        return st;
    }
    t->device = parts->values->device;
    t->keys = keys;
    t->keys = keys_of(t, parts->layout);
    t->flags &= (uint16_t)FAC_TF_INFERENCE;
    t->cls = &fac__sparse_class;
    t->ext = own;
    *out = t;
    return FAC_OK;
}

fac_status fac__sparse_become(fac_tensor *t, const fac_tensor *from) {
    fac_sparse *own = copy_parts(from->ext);
    if (!own) return FAC_ERR_MEMORY;
    const fac_status st = fac__set_sizes(t, from->sizes, from->ndim);
    if (st != FAC_OK) {
        drop_parts(own);
        return st;
    }
    drop_parts(t->ext);
    t->ext = own;
    t->dtype = from->dtype;
    t->device = from->device;
    return FAC_OK;
}

int64_t fac__sparse_nnz(const fac_tensor *t) {
    const fac_sparse *s = t->ext;
    return s->layout == FAC_SPARSE_COO ? s->indices->sizes[1] : s->plain->sizes[s->plain->ndim - 1];
}
