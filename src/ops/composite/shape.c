/* Diagonals, grids and broadcast lists: composed of views. */
#include "ops/composite/view.h"
#include "ops_gen.h"

/* ---- diagonals --------------------------------------------------------------------------------------------------------- */

fac_status diag_composite(const fac_call_info *c, fac_tensor *self, int64_t diagonal, fac_tensor **out) {
    (void)c;
    FAC_CHECK(self->ndim == 1 || self->ndim == 2, FAC_ERR_SHAPE, "Supports 1D or 2D tensors. Got %dD", self->ndim);
    if (self->ndim == 1) return fac__c_diag_embed(self, diagonal, 0, 1, out);
    FAC_SCOPE(s);
    return fac__give(out, fac__s_clone(fac__s_diagonal(self, diagonal, 0, 1), FAC_CONTIGUOUS));
}

fac_status trace_composite(const fac_call_info *c, fac_tensor *self, fac_tensor **out) {
    (void)c;
    FAC_CHECK(self->ndim == 2, FAC_ERR_SHAPE, "expected a matrix, but got tensor with dim %d", self->ndim);
    FAC_SCOPE(s);
    return fac__give(out, fac__s_sum(fac__s_diagonal(self, 0, 0, 1), FAC_DTYPE_DEFAULT));
}

/* ---- at least so many dimensions --------------------------------------------------------------------------------------------- */

static fac_status unchanged(fac_tensor *self, fac_tensor **out) {
    *out = fac__ref(self);
    return FAC_OK;
}

fac_status atleast_1d_composite(const fac_call_info *c, fac_tensor *self, fac_tensor **out) {
    (void)c;
    return self->ndim ? unchanged(self, out) : fac__c_reshape(self, FAC_INTS(1), out);
}

fac_status atleast_2d_composite(const fac_call_info *c, fac_tensor *self, fac_tensor **out) {
    (void)c;
    if (self->ndim == 0) return fac__c_reshape(self, FAC_INTS(1, 1), out);
    return self->ndim == 1 ? fac__c_unsqueeze(self, 0, out) : unchanged(self, out);
}

fac_status atleast_3d_composite(const fac_call_info *c, fac_tensor *self, fac_tensor **out) {
    (void)c;
    if (self->ndim == 0) return fac__c_reshape(self, FAC_INTS(1, 1, 1), out);
    if (self->ndim == 1) return fac__c_reshape(self, FAC_INTS(1, self->sizes[0], 1), out);
    return self->ndim == 2 ? fac__c_unsqueeze(self, -1, out) : unchanged(self, out);
}

/* ---- lists ---------------------------------------------------------------------------------------------------------------------- */

/* Expands each tensor to `sizes`. */
static fac_status expand_all(fac_tensors l, fac_ints sizes, fac_tensor_list *out) {
    FAC_TRY(fac__list_new(l.n, out));
    for (size_t i = 0; i < l.n; i++) {
        fac_status st = fac__c_expand(l.v[i], sizes, false, &out->v[i]);
        if (st != FAC_OK) {
            fac__tensor_list_free(out);
            return st;
        }
        out->n++;
    }
    return FAC_OK;
}

fac_status broadcast_tensors_composite(const fac_call_info *c, fac_tensors tensors, fac_tensor_list *out) {
    (void)c;
    int64_t sizes[FAC_MAX_DIMS], wider[FAC_MAX_DIMS];
    int n = 0, m;
    for (size_t i = 0; i < tensors.n; i++) {
        FAC_TRY(fac__broadcast(sizes, n, tensors.v[i]->sizes, tensors.v[i]->ndim, wider, &m));
        memcpy(sizes, wider, (size_t)m * sizeof *sizes);
        n = m;
    }
    return expand_all(tensors, (fac_ints){sizes, (size_t)n}, out);
}

static fac_status check_grid(fac_tensors l) {
    FAC_CHECK(l.n > 0, FAC_ERR_ARGUMENT, "meshgrid expects a non-empty TensorList");
    FAC_CHECK(l.n <= FAC_MAX_DIMS, FAC_ERR_SHAPE,
              "meshgrid of %zu tensors would need as many dimensions; %d are the most", l.n, FAC_MAX_DIMS);
    for (size_t i = 0; i < l.n; i++) {
        FAC_CHECK(l.v[i]->ndim <= 1, FAC_ERR_SHAPE, "Expected 0D or 1D tensor in the tensor list but got: %dD",
                  l.v[i]->ndim);
        FAC_CHECK(l.v[i]->dtype == l.v[0]->dtype, FAC_ERR_DTYPE, "expected all tensors to have the same dtype");
        FAC_CHECK(fac_device_equal(l.v[i]->device, l.v[0]->device), FAC_ERR_DEVICE,
                  "expected all tensors to have the same device");
    }
    return FAC_OK;
}

/* Grid dimension of tensor i: "xy" exchanges the first two. */
static size_t grid_dim(size_t i, size_t n, bool xy) { return xy && n >= 2 && i < 2 ? 1 - i : i; }

static fac_status meshgrid(fac_tensors l, bool xy, fac_tensor_list *out) {
    int64_t sizes[FAC_MAX_DIMS], ones[FAC_MAX_DIMS];
    FAC_TRY(check_grid(l));
    fac_tensor **shaped = fac__alloc_array(l.n, sizeof *shaped);
    if (!shaped) return fac_error();
    for (size_t i = 0; i < l.n; i++) {
        ones[i] = 1;
        sizes[grid_dim(i, l.n, xy)] = l.v[i]->numel;
    }
    FAC_SCOPE(s);
    fac_status st = FAC_OK;
    for (size_t i = 0; i < l.n && st == FAC_OK; i++) {
        size_t d = grid_dim(i, l.n, xy);
        ones[d] = l.v[i]->numel;
        shaped[i] = fac__s_reshape(l.v[i], (fac_ints){ones, l.n});
        ones[d] = 1;
        if (!shaped[i]) st = fac_error();
    }
    if (st == FAC_OK) st = expand_all((fac_tensors){shaped, l.n}, (fac_ints){sizes, l.n}, out);
    fac__free(shaped);
    return st;
}

fac_status meshgrid_composite(const fac_call_info *c, fac_tensors tensors, fac_tensor_list *out) {
    (void)c;
    return meshgrid(tensors, false, out);
}

fac_status meshgrid_indexing_composite(const fac_call_info *c, fac_tensors tensors, const char *indexing,
                                       fac_tensor_list *out) {
    (void)c;
    bool xy = strcmp(indexing, "xy") == 0;
    FAC_CHECK(xy || strcmp(indexing, "ij") == 0, FAC_ERR_ARGUMENT,
              "indexing must be one of \"xy\" or \"ij\", but received: %s", indexing);
    return meshgrid(tensors, xy, out);
}
