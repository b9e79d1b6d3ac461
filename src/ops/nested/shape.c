/* Components and dimensions of nested tensors: unbinding, selecting, transposing, copying. */
#include "core/tensor_make.h"
#include "ops/composite/view.h"
#include "ops/nested/parts.h"

/* ---- components ---------------------------------------------------------------------------------------------------------- */

/* Only the components can be taken apart. */
static fac_status need_components(const fac_tensor *t, int64_t dim) {
    int64_t d;
    FAC_TRY(fac__wrap_dim(dim, t->ndim, &d));
    FAC_CHECK(d == 0, FAC_ERR_UNSUPPORTED,
              "nested tensors are taken apart in dimension 0 only, not in dimension %lld; unbind gives the components",
              (long long)dim);
    return FAC_OK;
}

fac_status unbind_nested(const fac_call_info *c, fac_tensor *self, int64_t dim, fac_tensor_list *out) {
    (void)c;
    FAC_SCOPE(s);
    FAC_TRY(need_components(self, dim));
    const fac_tensors parts = fac__nested_split(self);
    FAC_TRY(fac_error());
    fac_status st = fac__list_new(parts.n, out);
    for (size_t i = 0; i < parts.n && st == FAC_OK; i++) {
        st = fac__give(&out->v[i], fac__nested_component(self, (int64_t)i, parts.v[i]));
        if (st == FAC_OK) out->n++;
    }
    if (st != FAC_OK) fac__tensor_list_free(out);
    return st;
}

fac_status select_nested(const fac_call_info *c, fac_tensor *self, int64_t dim, int64_t index, fac_tensor **out) {
    (void)c;
    FAC_SCOPE(s);
    FAC_TRY(need_components(self, dim));
    const fac_ragged *r = fac__nested_of(self)->shape;
    FAC_CHECK(index >= -r->n && index < r->n, FAC_ERR_INDEX,
              "index %lld is out of range for a nested tensor of %lld components", (long long)index, (long long)r->n);
    const int64_t i = index < 0 ? index + r->n : index;
    fac_tensor *elements = fac__s_slice_Tensor(fac__nested_of(self)->buffer, 0, fac_opt_int_(r->offsets[i]),
                                               fac_opt_int_(r->offsets[i + 1]), 1);
    return fac__give(out, fac__nested_component(self, i, elements));
}

/* ---- order of dimensions ------------------------------------------------------------------------------------------------- */

fac_status transpose_nested(const fac_call_info *c, fac_tensor *self, int64_t dim0, int64_t dim1, fac_tensor **out) {
    (void)c;
    int a, b;
    const fac_nested *own = fac__nested_of(self);
    uint8_t order[FAC_MAX_DIMS];
    FAC_TRY(fac__nested_dim(self, dim0, "transpose", &a));
    FAC_TRY(fac__nested_dim(self, dim1, "transpose", &b));
    memcpy(order, own->order, sizeof order);
    order[a] = own->order[b];
    order[b] = own->order[a];
    return fac__nested_make(own->buffer, own->shape, order, out);
}

fac_status permute_nested(const fac_call_info *c, fac_tensor *self, fac_ints dims, fac_tensor **out) {
    (void)c;
    const fac_nested *own = fac__nested_of(self);
    uint8_t order[FAC_MAX_DIMS] = {0};
    uint64_t seen;
    int64_t first;
    FAC_CHECK(dims.n == self->ndim, FAC_ERR_SHAPE, "%zu dims for a nested tensor of %d dimensions", dims.n, self->ndim);
    FAC_TRY(fac__dim_mask(dims, self->ndim, &seen)); /* none stands twice */
    FAC_TRY(fac__wrap_dim(dims.v[0], self->ndim, &first));
    FAC_CHECK(first == 0, FAC_ERR_UNSUPPORTED,
              "dimension 0 of a nested tensor counts its components, and has to stay the first");
    for (int k = 1; k < self->ndim; k++) {
        int64_t d;
        FAC_TRY(fac__wrap_dim(dims.v[k], self->ndim, &d));
        order[k - 1] = own->order[d - 1];
    }
    return fac__nested_make(own->buffer, own->shape, order, out);
}

/* ---- copies ---------------------------------------------------------------------------------------------------------------- */

fac_status contiguous_nested(const fac_call_info *c, fac_tensor *self, fac_memory_format memory_format,
                             fac_tensor **out) {
    (void)c;
    FAC_SCOPE(s);
    FAC_CHECK(memory_format == FAC_FORMAT_DEFAULT || memory_format == FAC_CONTIGUOUS, FAC_ERR_UNSUPPORTED,
              "the elements of a nested tensor can be in row-major order only");
    return fac__give(out, fac__nested_contiguous(self));
}

fac_status clone_nested(const fac_call_info *c, fac_tensor *self, fac_memory_format memory_format, fac_tensor **out) {
    (void)c;
    FAC_SCOPE(s);
    FAC_CHECK(memory_format == FAC_FORMAT_DEFAULT || memory_format == FAC_PRESERVE || memory_format == FAC_CONTIGUOUS,
              FAC_ERR_UNSUPPORTED, "the elements of a nested tensor can be in row-major order only");
    fac_tensor *t = memory_format == FAC_CONTIGUOUS ? fac__nested_contiguous(self) : self;
    if (!t) return fac_error();
    return fac__give(out, t != self ? t : fac__nested_like(fac__s_clone(fac__nested_of(t)->buffer, FAC_CONTIGUOUS), t));
}

/* ---- sizes ------------------------------------------------------------------------------------------------------------------ */

fac_status size_nested(const fac_call_info *c, fac_tensor *self, int64_t dim, int64_t *out) {
    (void)c;
    int64_t d;
    FAC_TRY(fac__wrap_dim(dim, self->ndim, &d));
    FAC_CHECK(self->sizes[d] != FAC_RAGGED, FAC_ERR_SHAPE,
              "Given dimension %lld is irregular and does not have a size.", (long long)dim);
    *out = self->sizes[d];
    return FAC_OK;
}

static bool same_shown(const fac_nested *a, const fac_nested *b) {
    if (a->shape->n != b->shape->n || a->shape->d != b->shape->d) return false;
    for (int64_t i = 0; i < a->shape->n; i++)
        for (int k = 0; k < a->shape->d; k++)
            if (fac__nested_size(a, i, k) != fac__nested_size(b, i, k)) return false;
    return true;
}

fac_status is_same_size_nested(const fac_call_info *c, fac_tensor *self, fac_tensor *other, bool *out) {
    (void)c;
    const fac_nested *a = fac__nested_of(self), *b = fac__nested_of(other);
    *out = a && b && same_shown(a, b);
    return FAC_OK;
}

fac_status equal_nested(const fac_call_info *c, fac_tensor *self, fac_tensor *other, bool *out) {
    FAC_SCOPE(s);
    FAC_TRY(fac__nested_need(self, "self"));
    FAC_TRY(fac__nested_need(other, "other"));
    FAC_TRY(is_same_size_nested(c, self, other, out));
    if (!*out) return FAC_OK;
    fac_tensor *a = fac__nested_contiguous(self), *b = fac__nested_contiguous(other);
    if (!a || !b) return fac_error();
    return fac__c_equal(fac__nested_of(a)->buffer, fac__nested_of(b)->buffer, out);
}
